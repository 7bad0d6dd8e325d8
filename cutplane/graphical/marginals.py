"""Least energies of all states, or bounds of them, and the states that these exclude."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.graphical.exact.clique_tree import CliqueTree
from cutplane.graphical.factor_graph import FactorGraph
from cutplane.graphical.factors import starts_of
from cutplane.graphical.result import MAPResult
from cutplane.graphical.sweeps.reparametrization import Reparametrization
from cutplane.pieces.html import Shown
from cutplane.pieces.parameters import read_only
from cutplane.pieces.validation import Array
from cutplane.runtime.clock import clock
from cutplane.status import Status

METHODS = ("auto", "elimination", "sweeps")

_EPS = float(np.finfo(np.float64).eps)
_ROUNDS, _SWEEPS = 10, 10
"""Numbers of rounds of sweeps, and of sweeps in each, because some states are excluded only after others."""


@dataclass(frozen=True, eq=False, repr=False)
class MinMarginals(Shown):
    r"""The least energy with each state of each variable, or certified bounds of it.

    .. math:: \text{lower}_u(s) \le \min_{x: x_u = s} E(x) \le \text{upper}_u(s)

    Attributes
    ----------
    lower, upper : ndarray of shape (n_states,)
        Stored like ``model.unaries``: variable u begins at ``model.unary_starts[u]``. Both are inf if no
        labelling with the state satisfies the hard constraints; `upper` is also inf if no labelling with the
        state was found.
    is_exact : bool
        Whether they were computed by elimination, and differ only by rounding errors.
    labelling : ndarray of int, shape (n_variables,), or None
        The best labelling found; None if no labelling of finite energy was found.
    energy : float
        The energy of `labelling`; inf if it is None.
    status : Status
        OPTIMAL or INFEASIBLE if exact; otherwise the status of the inference whose messages give the bounds.
    model : GraphicalModel
    """

    lower: Array
    upper: Array
    is_exact: bool
    labelling: Array | None
    energy: float
    status: Status
    model: FactorGraph = field(repr=False)

    def of(self, u: int) -> tuple[Array, Array]:
        """Return the lower and the upper bounds of the states of variable u."""
        self.model.unary(u)
        states = slice(self.model.unary_starts[u], self.model.unary_starts[u + 1])
        return self.lower[states], self.upper[states]

    @property
    def excluded(self) -> Array:
        """Whether a state is certainly in no labelling of energy <= `energy`; a bool array like `lower`."""
        return self.lower > np.nextafter(self.energy, np.inf)

    @property
    def fixed(self) -> Array:
        """The state of a variable in all labellings of least energy; -1 if there may be several.

        int, shape (n_variables,); -1 everywhere if no labelling was found.
        """
        starts, left = self.model.unary_starts[:-1], ~self.excluded
        if not left.size or self.labelling is None:
            return np.full(starts.size, -1)
        return np.where(np.add.reduceat(left.astype(np.int64), starts) == 1, self.labelling, -1)

    def _shown(self) -> dict[str, Any]:
        return {
            "bounds": "exact, by elimination" if self.is_exact else "from messages and labellings",
            "energy": f"{self.energy:.10g} ({self.status})",
            "states excluded": f"{int(self.excluded.sum())} of {self.lower.size}",
            "variables fixed": f"{int((self.fixed >= 0).sum())} of {self.model.n_variables}",
        }


def min_marginals(model: Any, method: str, start: MAPResult | None, time_limit: float | None) -> MinMarginals:
    """Implement `GraphicalModel.min_marginals`."""
    deadline = math.inf if time_limit is None else clock() + time_limit
    if start is not None and not isinstance(start, MAPResult):
        raise InvalidInputError(f"start must be a MAPResult, got {start!r}.")
    if start is not None and start.model is not model:
        raise InvalidInputError(f"start is the result of another model, {start.model!r}; pass one of this.")
    if method != "sweeps":
        try:
            return _of_tree(model, CliqueTree(model, deadline=deadline))
        except TimeoutError:
            pass
        except InvalidInputError as error:
            if method == "elimination":
                raise InvalidInputError(f"{error} Use method='sweeps' for bounds.") from None
    left = None if time_limit is None else max(1e-9, deadline - clock())
    found: MAPResult = model.map(tol=0.0, time_limit=left) if start is None else start
    status, labelling = found.status, found.labelling if found.energy < math.inf else None
    lower, upper = np.full(model.unaries.size, found.bound), changed_energies(model, labelling)
    try:
        lower = lower_bounds(found, found.energy, deadline)
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    upper = np.where(lower == np.inf, np.inf, upper)
    bounds = read_only(np.minimum(lower, upper)), read_only(upper)
    return MinMarginals(*bounds, False, labelling, found.energy, status, model)


def _of_tree(model: FactorGraph, tree: CliqueTree) -> MinMarginals:
    labelling, _ = tree.least()
    status = Status.INFEASIBLE if labelling is None else Status.OPTIMAL
    energy = math.inf if labelling is None else model.energy(labelling)
    lower, upper = exact_bounds(model, tree, tree.min_marginals())
    if labelling is not None:
        chosen = model.unary_starts[:-1] + labelling
        upper[chosen] = np.minimum(upper[chosen], energy)
        lower = np.minimum(lower, upper)
    return MinMarginals(read_only(lower), read_only(upper), True, labelling, energy, status, model)


def exact_bounds(model: FactorGraph, tree: CliqueTree, marginals: Array) -> tuple[Array, Array]:
    """Return lower and upper bounds of the energies that a tree has computed in floating point.

    Each shifted cost, and the constant, was rounded down by at most a rounding unit.
    """
    lower, upper = np.full((2, model.unaries.size), np.inf)
    lower[tree.kept] = tree.lower_bounds(marginals)
    finite = marginals < np.inf
    above = np.nextafter(np.nextafter(tree.constant, np.inf) + model.rounded_off, np.inf)
    upper[tree.kept[finite]] = np.nextafter(above + marginals[finite] * (1.0 + tree.error), np.inf)
    return lower, upper


def lower_bounds(result: MAPResult, ceiling: float, deadline: float) -> Array:
    """Return lower bounds of the energies with each state, from the messages of an inference.

    States with a bound above the ceiling are forbidden. This raises the bounds of other states, up to the
    least bound of the forbidden ones. If energies have no unit, the energies of states that the inference has
    forbidden exceed the best energy by more than rounding errors. The messages may belong to a model of lower
    energies; see `without_penalties`.
    """
    lower = np.where(np.isinf(result.model.unaries), np.inf, result.bound)
    if result.bound == np.inf:
        return lower
    proof, cap = result.proof, math.inf
    above = np.nextafter(np.nextafter(ceiling, np.inf), np.inf)
    rep = Reparametrization(result.model) if proof is None else proof.restated(proof.model)
    owners = np.repeat(np.arange(result.model.n_variables), result.model.cardinalities)
    for _ in range(_ROUNDS):
        if clock() > deadline:
            break
        rep.sweep(_SWEEPS)
        lower = np.maximum(lower, np.minimum(rep.state_bounds(deadline=deadline), cap))
        if ceiling == result.energy and proof is not None and not result.model.energy_lattice.unit:
            lower = np.where(np.isinf(proof.unaries), np.maximum(lower, above), lower)
        new = np.flatnonzero((lower >= above) & np.isfinite(rep.unaries))
        cap = min(cap, lower[new].min(initial=math.inf))
        for place in new.tolist():
            u = int(owners[place])
            rep.forbid(u, place - int(result.model.unary_starts[u]))
        if not new.size:
            break
    return lower


def changed_energies(model: FactorGraph, labelling: Array | None) -> Array:
    """Return upper bounds: energies of the labellings that differ from this one in at most one variable."""
    if labelling is None:
        return np.full(model.unaries.size, np.inf)
    own = model.unary_starts[:-1] + labelling
    sizes, factors = model.cardinalities[model.scopes], np.repeat(np.arange(model.n_factors), model.arities)
    base = model.places(labelling)[factors] - labelling[model.scopes] * model.strides
    starts, each = starts_of(sizes), np.repeat(np.arange(sizes.size), sizes)
    states = np.arange(starts[-1]) - starts[:-1][each]
    places = base[each] + states * model.strides[each]
    entries = model.unary_starts[model.scopes][each] + states
    costs, count = model.tables[places], model.unaries.size
    total = model.unaries + np.bincount(entries, weights=costs, minlength=count)
    terms = np.abs(model.unaries) + np.bincount(entries, weights=np.abs(costs), minlength=count)
    variables = np.repeat(np.arange(model.n_variables), model.cardinalities)
    error = 4.0 * _EPS * (model.n_variables + model.n_factors + 8)
    error *= np.abs(model.terms(labelling)).sum() + terms + terms[own][variables]
    energies = model.energy(labelling) + (total - total[own][variables]) + error + model.rounded_off
    energies[own] = model.energy(labelling)
    return energies

"""Estimates of the time of methods, from the number of iterations and the cost of an iteration."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.engine import costs
from cutplane.engine.declaration import remembered
from cutplane.exceptions import MissingCapabilityError
from cutplane.masters.base import Level, Prox
from cutplane.masters.select import Backend, first_candidate
from cutplane.methods.base import CALL, Estimate, Method, Refusal
from cutplane.pieces.capabilities import Capability, ask, offers
from cutplane.pieces.validation import Array
from cutplane.regularizers.base import separable_form_of

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration

Kind = type[Prox] | type[Level] | None

_AUTO = Backend()
_OWN = "simplex_qp", "interior_point", "entropy_dual"
_NUMBERS = 0.4
"""Share of the cost of a cone programme that a reduced problem takes, because cvxpy compiles it only once."""
_RELAXATIONS = 20.0
"""Expected rounds of linear relaxations, because combinatorial problems take 3 to 20."""
_WIDEST = 300
"""Number of coordinates above which the number of iterations does not grow, because the theoretical bounds do
not depend on the dimension."""


class Sizes:
    """Sizes of a problem that the estimates use, computed once."""

    def __init__(self, problem: Declaration):
        risk = problem.risk
        self.n, self.blocks = problem.dim, risk.n_blocks
        self.linear, self.separated = risk.linear, bool(problem.separators)
        self.smooth = risk.smooth or offers(risk, Capability.CURVATURE)
        self.regularized = problem.regularizer.lam > 0.0
        self._problem = problem
        self._masters: dict[Kind, str | None] = {}

    @cached_property
    def call(self) -> float:
        """Seconds of a call of the oracle: computed if the risk has examples, otherwise a default."""
        predictor: Any = ask(self._problem.risk, Capability.LINEAR_PREDICTOR)
        if predictor is None:
            return CALL
        m, n = predictor.X.shape
        work = costs.cost_of_pass((m, n, m * predictor.data.row_entries)) - costs.OVERHEAD
        return max(CALL, 1e-9 * work)

    @cached_property
    def sides(self) -> tuple[int, int]:
        """The numbers of rows and entries in the linear form of the set, without its oracles."""
        form = ask(self._problem.simple_set, Capability.LINEAR_FORM, self.n)
        return (0, 0) if form is None else (form.rows.shape[0], form.rows.nnz)

    @cached_property
    def strict(self) -> bool:
        """Whether the regularizer is a strictly convex quadratic."""
        form = ask(self._problem.active_regularizer, Capability.QUADRATIC, self.n)
        return form is not None and form.is_strict

    @cached_property
    def beside_risk(self) -> Array:
        """The sizes of regularizer and set as a cone programme of cvxpy; see `counts_of`."""
        import cvxpy as cp

        x, regularizer, simple_set = (
            cp.Variable(self.n),
            self._problem.active_regularizer,
            self._problem.simple_set,
        )
        return counts_of([regularizer.cvxpy_form(x), *simple_set.cvxpy_form(x)])  # pyright: ignore

    @cached_property
    def cones(self) -> float:
        """The cost of regularizer and set as a cone programme of cvxpy."""
        return costs.cost_of_cones(self.n, *self.beside_risk)

    @cached_property
    def whole(self) -> float:
        """The cost of the whole problem as a cone programme of cvxpy."""
        import cvxpy as cp

        counts = self.beside_risk + counts_of([self._problem.risk.cvxpy_form(cp.Variable(self.n))])  # pyright: ignore
        return costs.COMPILED + costs.cost_of_cones(self.n, *counts)

    def master(self, kind: Kind) -> str | None:
        """Return the name of the first master for a kind of reduced problem; None if there is none."""
        if kind not in self._masters:
            try:
                self._masters[kind] = first_candidate(self._problem.reduced, kind, _AUTO).name
            except MissingCapabilityError:
                self._masters[kind] = None
        return self._masters[kind]


sizes = remembered(Sizes)


def vertices(n: int) -> float:
    """Estimate the number of cuts that meet at a minimiser of the model: one more than coordinates."""
    return 1.0 + min(n, _WIDEST)


def stable_rounds(problem: Declaration) -> float:
    """Return the iterations of stabilised methods, fitted to random problems of 5 to 60 dimensions."""
    size = sizes(problem)
    if size.linear and not size.separated:
        return 3.0
    n = vertices(size.n)
    if size.smooth and size.regularized:
        return 6.0 + 0.4 * min(n, 60.0)
    return 5.0 + 1.5 * n / math.sqrt(size.blocks)


def vertex_rounds(problem: Declaration) -> float:
    """Return the expected iterations of a method of model minimisers, fitted to the same problems.

    If the set is given only by oracles, it may be round, so that vertices of its outer approximations are far
    from it for any number of rounds: the result is inf. Exceptions are a linear risk over a set that also has
    rows, and a strictly convex regularizer, whose minimisers over outer approximations converge.
    """
    size = sizes(problem)
    n = vertices(size.n)
    if size.linear and not size.separated:
        return 1.0
    if size.linear:
        if size.strict:
            return 20.0 + n
        return _RELAXATIONS if size.sides[0] and not size.regularized else math.inf
    alone = 6.0 * n if size.regularized else 3.0 * n**1.4
    return 5.0 + max(alone / size.blocks, 0.6 * n)


def of_cuts(
    problem: Declaration, kinds: tuple[Kind, ...], rounds: float, calls: float = 1.0
) -> Refusal | Estimate:
    """Return the estimate of `rounds` iterations, each with a reduced problem of each kind and some calls."""
    size = sizes(problem)
    if rounds == math.inf:
        return Refusal("vertices of outer approximations may stay far from a set known by oracles alone")
    if any(size.master(kind) is None for kind in kinds):
        return Refusal("no master accepts the reduced problems")
    rows = min(rounds * calls * size.blocks, 4.0 * size.n)
    masters = sum(cost_of_master(size, kind, rows, rounds) for kind in kinds)
    outside = costs.ITERATION * (1.0 + 0.3 * (calls - 1.0))  # line searches, without masters
    return Estimate(1e-9 * rounds * (outside + masters), rounds * calls, rounds=rounds)


def cost_of_master(size: Sizes, kind: Kind, rows: float, rounds: float) -> float:
    """Return the average cost of `rounds` reduced problems with `rows` cuts."""
    name, n, (sides, stored) = size.master(kind), size.n, size.sides
    if name in _OWN:
        own = costs.cost_of_qp(n, rows) + costs.QP_SIDE * stored * sides
        return (costs.LEVEL if kind is Level else 1.0) * own
    if name in ("highs", "smoothed_lp"):
        return costs.LP + costs.LP_ENTRY * rows * n + costs.LP_PIVOT * stored * sides / rounds
    return 2.0 * costs.COMPILED / rounds + _NUMBERS * (size.cones + costs.CONE_ENTRY * rows * n)


def cost_of_whole(problem: Declaration) -> float:
    """Return the cost of the whole problem, as a quadratic programme or as a cone programme of cvxpy."""
    regularizer: Any = problem.active_regularizer
    stated = ask(problem.risk, Capability.PROGRAMME)
    rest = ask(problem.simple_set, Capability.LINEAR_FORM, problem.dim)
    quadratic = (
        ask(regularizer, Capability.LINEAR_FORM, problem.dim) is not None
        or separable_form_of(regularizer, problem.dim) is not None
        or offers(regularizer, Capability.HESSIAN)
    )
    if stated is None or rest is None or not quadratic:
        return sizes(problem).whole
    rows, entries = stated.rows + rest.rows.shape[0], stated.size - 2 * stated.rows + rest.rows.nnz
    return costs.cost_of_programme(problem.dim, rows, entries**2 / max(rows, 1))


def counts_of(expressions: list[Any]) -> Array:
    """Return rows, columns of atoms, entries, products of entries, and the cost of semidefinite cones."""
    import cvxpy as cp
    from cvxpy.atoms.atom import Atom
    from cvxpy.constraints.psd import PSD

    symmetric = cp.lambda_max, cp.lambda_sum_largest, cp.log_det, cp.tr_inv, cp.MatrixFrac
    rows, more, entries, products, blocks = 0.0, 0.0, 0.0, 0.0, 0.0
    ahead = list(expressions)
    while ahead:
        node = ahead.pop()
        ahead += getattr(node, "args", [])
        if isinstance(node, cp.Constant):
            stored = node.value.nnz if hasattr(node.value, "nnz") else np.count_nonzero(node.value)
            entries += stored
            if node.ndim == 2:
                rows += node.shape[0]
                products += stored**2 / max(node.shape[0], 1)
        elif isinstance(node, PSD):
            blocks += costs.cost_of_semidefinite(node.args[0].shape[0])
        elif isinstance(node, Atom) and not node.is_affine():
            more += sum(each.size for each in node.args if not each.is_constant())
            if isinstance(node, (cp.normNuc, cp.sigma_max)):
                blocks += costs.cost_of_semidefinite(sum(node.args[0].shape))
            elif isinstance(node, symmetric):
                blocks += costs.cost_of_semidefinite(node.args[-1].shape[0] + 1)
    return np.array([rows, more, entries, products, blocks])


def answer(method: Method, problem: Declaration) -> Refusal | Estimate:
    """Return a method's estimate or refusal for a problem, computed once."""
    answers = problem.suitable
    try:
        return answers[method]
    except KeyError:
        answers[method] = found = method.suits(problem)
        return found
    except TypeError:  # the method has no hash
        return method.suits(problem)


def suits(method: Method, problem: Declaration) -> bool:
    """Tell whether a method suits a problem, because its pieces have the capabilities that it needs."""
    return isinstance(answer(method, problem), Estimate)


def has_masters(method: Method, problem: Declaration) -> bool:
    """Tell whether the reduced problems of a method have masters."""
    return all(sizes(problem).master(kind) is not None for kind in method.stabilizations)

"""The largest bound of the Lagrangian over trees, by methods of the engine, and labellings."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.engine.history import History, Record, State
from cutplane.graphical.factor_graph import BestLabelling
from cutplane.graphical.lagrangian.risk import InfeasibleModelError, TreeLagrangian
from cutplane.graphical.model import GraphicalModel
from cutplane.graphical.result import MAPResult
from cutplane.graphical.sweeps.reparametrization import Reparametrization
from cutplane.methods.proximal import ProximalBundle
from cutplane.pieces.validation import Array, as_scalar
from cutplane.problem import Problem
from cutplane.status import Status, relative_gap
from cutplane.stopping import Stop, StoppingRule

if TYPE_CHECKING:
    from cutplane.engine.driver import Callback
    from cutplane.methods.base import Method

_SWEEPS = 30
"""Sweeps before the ascent, because they give a labelling and, on grids, a start that saves iterations."""
_FEW = 3
"""Largest number of forests for which sweeps give the start, because with more they cost iterations."""
_FLAT = 1e-3
"""Least weight of the bundle method, because the weight must be positive even if the subgradient is zero."""
_INTERVAL = 1.25
"""Ratio of the iteration numbers at successive searches for labellings, because few searches suffice."""


@dataclass(frozen=True, eq=False, repr=False)
class LagrangianResult(MAPResult):
    """A `MAPResult` with the multipliers that prove its bound.

    Attributes
    ----------
    multipliers : ndarray or None
        ``TreeLagrangian(model).bound(multipliers)`` is the bound; None if they were not needed.
    """

    multipliers: Array | None = None


def solve_lagrangian(
    model: GraphicalModel,
    method: Method | None = None,
    *,
    labelling: Any = None,
    reparametrization: Reparametrization | None = None,
    tol: float = 1e-4,
    max_iter: int = 10_000,
    time_limit: float | None = None,
    max_cuts: int | None = None,
    callback: Callback | None = None,
    progress: bool = False,
    log: bool = False,
) -> LagrangianResult:
    """Bound the least energy by the best Lagrangian over trees, and find a labelling close to the bound.

    The bound converges to the minimum over the local polytope, which message passing does not always reach.
    If this minimum is below the least energy, a gap remains.

    Parameters
    ----------
    model : GraphicalModel
        With factors of any arity.
    method : Method, default ProximalBundle()
        Any method of the engine that needs no bounded feasible set.
    labelling : array_like of int, shape (n_variables,), optional
        A start, for example the best labelling of a similar model.
    reparametrization : Reparametrization, optional
        The start, without its clusters. By default a few sweeps give the start if the model has at most three
        forests, for example a grid, because they save iterations; otherwise all multipliers are zero, because
        sweeps would cost iterations.
    tol : float, default 1e-4
        Relative gap between energy and bound at which the search ends. It also ends when the cutting-plane
        model predicts an increase of the bound by less than half of `tol`.
    max_iter, time_limit, max_cuts, callback, progress, log
        As in `cutplane.Problem.solve`; states show energies.

    Returns
    -------
    LagrangianResult

    Raises
    ------
    InvalidInputError
        If `labelling` does not fit the model, or `reparametrization` is of another model.

    Examples
    --------
    >>> from cutplane.graphical import potts
    >>> from cutplane.graphical.lagrangian.ascent import solve_lagrangian
    >>> result = solve_lagrangian(potts(8, 8, 3))
    >>> print(result.status, round(result.energy, 3))
    OPTIMAL 31.936
    """
    from cutplane.graphical.sweeps.decoding import decode

    as_scalar("tol", tol, low=0.0)
    try:
        lagrangian = TreeLagrangian(model)
    except InfeasibleModelError as error:
        return _result(model, Stop(Status.INFEASIBLE, str(error)))
    decoder = TreeDecoder(lagrangian, tol)
    if labelling is not None:
        decoder.offer(np.asarray(labelling))
    if not lagrangian.dim:
        decoder.multipliers, decoder.bound = np.empty(0), lagrangian.bound([])
        decoder.decode()
        return _result(model, Stop(Status.OPTIMAL, "the model has no cycles"), decoder)
    from_sweeps = reparametrization is not None or lagrangian.trees.n_forests <= _FEW
    if reparametrization is None:
        reparametrization = Reparametrization(model)
        reparametrization.sweep(_SWEEPS)
    if reparametrization.bound == math.inf:
        return _result(model, Stop(Status.INFEASIBLE, "the hard constraints forbid all states of a variable"))
    x0 = lagrangian.multipliers(reparametrization) if from_sweeps else np.zeros(lagrangian.dim)
    decoder.offer(decode(reparametrization))
    if method is None:
        steepness = float(np.linalg.norm(lagrangian.oracle(x0)[1]))
        method = ProximalBundle(weight=max(steepness, _FLAT))
    driver = Problem(lagrangian).iterate(
        method, tol=tol, max_iter=max_iter, time_limit=time_limit, max_cuts=max_cuts, x0=x0, stop=decoder
    )
    found = driver.run(callback, progress, log, decoder.view)
    decoder.decode()
    stop = Stop(found.status, found.reason)
    if stop.status in (Status.OPTIMAL, Status.STALLED):
        stop = decoder.verdict or Stop(
            Status.STALLED, f"a gap remains that the trees do not close; {stop.reason}"
        )
    return _result(model, stop, decoder, decoder.history(found.history), found.method)


def _result(
    model: GraphicalModel,
    stop: Stop,
    decoder: TreeDecoder | None = None,
    history: History | None = None,
    method: str = "dynamic programming",
) -> LagrangianResult:
    infeasible = stop.status is Status.INFEASIBLE
    return LagrangianResult(
        labelling=decoder.best.labelling if decoder else None,
        energy=decoder.best.energy if decoder else math.inf,
        bound=decoder.bound if decoder and not infeasible else math.inf,
        status=stop.status,
        reason=stop.reason,
        method=f"Lagrangian over trees, {method}",
        history=History([]) if history is None else history,
        model=model,
        multipliers=decoder.multipliers if decoder else None,
    )


class TreeDecoder(StoppingRule):
    """The best bound and labelling so far; stops a run on the Lagrangian when they meet within `tol`."""

    def __init__(self, lagrangian: TreeLagrangian, tol: float):
        self.lagrangian = lagrangian
        self.tol = tol
        self.best = BestLabelling(lagrangian.model)
        self.bound = -math.inf
        self.multipliers: Array | None = None
        self._ceiling = _highest_energy(lagrangian.model)
        self._decoded = False
        self._next = 0.0
        self._trace: dict[int, tuple[float, float]] = {}

    @property
    def gap(self) -> float:
        """The relative gap between bound and energy."""
        return relative_gap(self.bound, self.best.energy)

    def __call__(self, state: State) -> Stop | None:
        if state.x is not None and state.x is not self.multipliers:
            self.multipliers = state.x
            self.bound = max(self.bound, self.lagrangian.bound(state.x))
            self._decoded = False
        if not self._decoded and state.iteration >= self._next:
            self.decode()
            self._next = _INTERVAL * state.iteration
        self._trace[state.iteration] = self.bound, self.best.energy
        return self.verdict

    @property
    def verdict(self) -> Stop | None:
        """The proven result, if any: the labelling is optimal, or no labelling is allowed."""
        if self.bound > self._ceiling:
            return Stop(Status.INFEASIBLE, "the bound is above the energy of every labelling that is allowed")
        if self.gap <= self.tol:
            return Stop(Status.OPTIMAL, f"the best labelling is optimal within a gap of {self.gap:.2g}")
        return None

    def decode(self) -> None:
        """Offer the labellings computed from the multipliers."""
        if self.multipliers is not None and not self._decoded:
            labellings = self.lagrangian.labellings(self.multipliers)
            self.offer(labellings[self.lagrangian.model.energies(labellings).argmin()])
            self._decoded = True

    def offer(self, labelling: Array) -> None:
        """Improve a labelling by local search, and keep it if it is the best one so far."""
        from cutplane.graphical.sweeps.decoding import local_search

        self.best.offer(local_search(self.lagrangian.model, labelling))

    def view(self, state: State) -> State:
        """Return the state in terms of energies instead of negative bounds."""
        return State(self._in_energies(state.record), state.x)

    def history(self, records: Iterable[Record]) -> History:
        """Return the history of a run in terms of energies, with the current bounds in its last record."""
        seen = [self._in_energies(record) for record in records]
        return History([*seen[:-1], seen[-1]._replace(lower_bound=self.bound, upper_bound=self.best.energy)])

    def _in_energies(self, record: Record) -> Record:
        bound, energy = self._trace.get(record.iteration, (self.bound, self.best.energy))
        return record._replace(lower_bound=bound, upper_bound=energy)


def _highest_energy(model: GraphicalModel) -> float:
    """Return a number above the energies of all allowed labellings."""
    starts, which = np.unique(model.table_starts, return_inverse=True)
    highest = [_highest(model.unaries, model.unary_starts[:-1]), _highest(model.tables, starts)[which]]
    size = sum(float(np.abs(part).sum()) for part in highest) + abs(model.constant)
    return sum(float(part.sum()) for part in highest) + model.constant + 1e-9 * size


def _highest(costs: Array, starts: Array) -> Array:
    """Return the largest finite cost after each start."""
    return np.maximum.reduceat(np.where(np.isinf(costs), -np.inf, costs), starts) if starts.size else starts

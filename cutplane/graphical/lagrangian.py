"""The Lagrangian of a graphical model over trees, its largest bound by the generic engine, and labellings."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from cutplane.engine.history import History, Record, State
from cutplane.exceptions import InvalidInputError
from cutplane.graphical.factor_graph import BestLabelling
from cutplane.graphical.factors import places_of, starts_of
from cutplane.graphical.model import GraphicalModel
from cutplane.graphical.result import MAPResult
from cutplane.graphical.sweeps.reparametrization import Reparametrization
from cutplane.methods.proximal import ProximalBundle
from cutplane.pieces.validation import Array, as_scalar, as_vector
from cutplane.problem import Problem
from cutplane.risks.base import Risk
from cutplane.status import Status, relative_gap
from cutplane.stopping import Stop, StoppingRule

if TYPE_CHECKING:
    from cutplane.engine.driver import Callback
    from cutplane.graphical.trees import Trees
    from cutplane.methods.base import Method

_EPSILON = 2.0**-52
"""Relative spacing of floats, because each addition has an error of at most half of it."""
_SWEEPS = 30
"""Sweeps before the ascent, because they give a labelling and, on grids, a start that saves iterations."""
_FEW = 3
"""Largest number of forests for which sweeps give the start, because with more they cost iterations."""
_FLAT = 1e-3
"""Least weight of the bundle method, because the weight must be positive even if the subgradient is zero."""
_INTERVAL = 1.25
"""Ratio of the iteration numbers at successive searches for labellings, because few searches suffice."""


class InfeasibleModelError(InvalidInputError):
    """The hard constraints of a graphical model contradict each other."""


@dataclass(frozen=True, eq=False, repr=False)
class TreeLagrangian(Risk):
    r"""The negative sum of the least energies of trees that share a model.

    .. math:: f(\lambda) = -\theta_0 - \sum_t \min_x E_t(x; \lambda),
              \qquad \theta_0 + \sum_t E_t(x; \lambda) = E(x)

    The factors are divided among forests. Each forest has a copy of its variables with an equal part of their
    unary costs, and the multipliers :math:`\lambda` transfer costs between the copies of a variable. Every
    :math:`-f(\lambda)` is a lower bound of the energy; the largest one is the minimum of the energy over the
    local polytope. A subgradient counts the states in which the best labellings of the forests disagree.

    Parameters
    ----------
    model : GraphicalModel
    separate : bool, default False
        Whether each forest is a block with separate cuts. This needs fewer iterations, but larger reduced
        problems.

    Attributes
    ----------
    dim : int
        Number of multipliers: the sum, over variables, of the number of states times the number of copies
        minus 1. It is 0 if the model has no cycles; then ``bound([])`` is the least energy.
    trees : Trees

    Raises
    ------
    InvalidInputError
        If the hard constraints of a tree contradict each other, so that no labelling has a finite energy.

    References
    ----------
    .. [1] M. J. Wainwright, T. S. Jaakkola, A. S. Willsky, "MAP estimation via agreement on trees:
       message-passing and linear programming", IEEE Trans. Inf. Theory 51, 2005,
       doi:10.1109/TIT.2005.856938.
    .. [2] N. Komodakis, N. Paragios, G. Tziritas, "MRF energy minimization and beyond via dual
       decomposition", IEEE Trans. Pattern Anal. Mach. Intell. 33, 2011, doi:10.1109/TPAMI.2010.108.

    Examples
    --------
    Three variables of two states cannot all differ; in the local polytope they can, at cost 0.

    >>> import numpy as np, cutplane as cut
    >>> from cutplane.graphical import GraphicalModel, TreeLagrangian
    >>> differ = np.eye(2)
    >>> model = GraphicalModel([2, 2, 2], [((0, 1), differ), ((1, 2), differ), ((0, 2), differ)])
    >>> lagrangian = TreeLagrangian(model)
    >>> result = cut.Problem(lagrangian).solve(cut.ProximalBundle())
    >>> print(abs(round(lagrangian.bound(result.x), 4)), model.brute_force()[1])
    0.0 1.0
    """

    black_box = False
    model: GraphicalModel
    separate: bool = False
    trees: Trees = field(init=False)
    dim: int = field(init=False)
    n_blocks: int = field(init=False)

    def __post_init__(self) -> None:
        from cutplane.graphical.trees import Trees, cover

        model = self.model
        if not isinstance(model, GraphicalModel):
            raise InvalidInputError(f"TreeLagrangian needs a GraphicalModel, got {model!r}.")
        trees = Trees.of(model, cover(model))
        object.__setattr__(self, "trees", trees)
        object.__setattr__(self, "dim", int(trees.starts[-1]) - model.unaries.size)
        object.__setattr__(self, "n_blocks", trees.n_forests if self.separate else 1)
        least, _ = trees.minimise(self.costs(np.zeros(self.dim)))
        for root in trees.roots[np.isinf(least)]:
            raise InfeasibleModelError(
                f"{model!r} has no labelling of finite energy: the hard constraints in the tree of variable "
                f"{trees.variables[root]} contradict each other. Relax them."
            )
        if model.constant == np.inf:
            raise InfeasibleModelError(f"{model!r} has no labelling of finite energy: its constant is inf.")

    def costs(self, x: Array) -> Array:
        """Return the costs of the states of all nodes of the trees at multipliers x, shape (dim,)."""
        return self._parts + self._basis @ x

    @cached_property
    def _parts(self) -> Array:
        """The unary costs, divided into equal parts among the copies of a variable."""
        trees, counts = self.trees, np.bincount(self.trees.variables)
        shares = np.repeat(counts[trees.variables], np.diff(trees.starts))
        return self.model.unaries[trees.unary_places(self.model)] / shares

    @cached_property
    def _basis(self) -> sparse.csr_array:
        """An orthonormal basis of the costs whose sum over the copies of each variable is zero.

        The copies of a variable are halved until single ones remain. At each halving, a column per state
        transfers costs from the first half to the second half.
        """
        trees, cardinalities = self.trees, self.model.cardinalities
        counts = np.bincount(trees.variables, minlength=cardinalities.size)
        copies, copy_starts = np.argsort(trees.variables, kind="stable"), starts_of(counts)
        columns = starts_of((counts - 1) * cardinalities)
        entries = [(np.empty(0), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))]
        for count in np.unique(counts[counts > 1]).tolist():
            values, copy, halving = _halvings(count)
            chosen = np.flatnonzero(counts == count)
            nodes = copies[copy_starts[chosen, None] + copy]
            k = cardinalities[chosen, None]
            sizes = np.repeat(k, copy.size)
            places = places_of(trees.starts[nodes].ravel(), sizes)
            columns_of = places_of((columns[chosen, None] + halving * k).ravel(), sizes)
            entries.append((np.repeat(np.tile(values, chosen.size), sizes), places, columns_of))
        values, places, columns_of = map(np.concatenate, zip(*entries, strict=True))
        return sparse.csr_array((values, (places, columns_of)), shape=(int(trees.starts[-1]), self.dim))

    @cached_property
    def _adjoint(self) -> sparse.csc_array:
        return self._basis.T

    def oracle(self, x: Array) -> tuple[Array, Array]:
        trees = self.trees
        least, states = trees.minimise(self.costs(x))
        blocks = trees.forests if self.separate else np.zeros_like(trees.forests)
        values = -np.bincount(blocks[trees.roots], least, minlength=self.n_blocks)
        values[0] -= self.model.constant
        chosen = np.zeros((trees.starts[-1], self.n_blocks))
        chosen[trees.starts[:-1] + states, blocks] = -1.0
        return values, (self._adjoint @ chosen).T

    def multipliers(self, reparametrization: Reparametrization) -> Array:
        """Return multipliers whose bound is at least the bound of a reparametrisation without clusters.

        Parameters
        ----------
        reparametrization : Reparametrization
            Of the same model. States that it found to be forbidden are ignored.
        """
        trees, model = self.trees, self.model
        if reparametrization.model is not model:
            raise InvalidInputError(
                f"The reparametrisation is of {reparametrization.model!r}, not of {model!r}."
            )
        sizes = model.cardinalities[model.scopes]
        starts, sizes = starts_of(sizes)[trees.model_links], sizes[trees.model_links]
        given = reparametrization.messages[places_of(starts, sizes)]
        places = places_of(trees.starts[trees.links], sizes)
        return self._adjoint @ np.bincount(places, np.where(np.isfinite(given), given, 0.0), trees.starts[-1])

    def bound(self, x: Any) -> float:
        """Return the lower bound of the energy proven by multipliers x: -f(x) minus rounding errors.

        Parameters
        ----------
        x : array_like of shape (dim,)
        """
        costs = self.costs(as_vector("x", x, self.dim))
        below = _negative_part(costs, self.trees.starts[:-1]) + self._negative_in_tables
        least, _ = self.trees.minimise(costs)
        bound = float(least.sum()) + self.model.constant
        terms = self.trees.variables.size + self.trees.positions.size + 1
        return bound - 2.0 * terms * _EPSILON * (abs(bound) + abs(self.model.constant) + 2.0 * below)

    @cached_property
    def _negative_in_tables(self) -> float:
        starts, which = np.unique(self.model.table_starts, return_inverse=True)
        return _negative_part(self.model.tables, starts, which)

    def labellings(self, x: Any) -> Array:
        """Return labellings from the trees at multipliers x, shape (n_forests + 1, n_variables).

        The first labelling is a consensus: each variable in turn gets the state of least total cost over its
        copies, given the states of the previous variables. The others are the best labellings of the forests.
        A variable that is not in a forest gets its state from the first forest with this variable.

        Parameters
        ----------
        x : array_like of shape (dim,)
        """
        trees = self.trees
        costs = self.costs(as_vector("x", x, self.dim))
        _, states = trees.minimise(costs)
        labellings = np.empty((trees.n_forests + 1, self.model.n_variables), dtype=np.int64)
        labellings[:, trees.variables[::-1]] = states[::-1]
        labellings[trees.forests + 1, trees.variables] = states
        labellings[0] = trees.consensus(costs)
        return labellings

    def __repr__(self) -> str:
        separate = ", separate=True" if self.separate else ""
        return f"TreeLagrangian({self.model!r}{separate})"


def _negative_part(costs: Array, starts: Array, which: Any = slice(None)) -> float:
    """Return the negative sum of the negative least costs after the chosen starts."""
    if not starts.size:
        return 0.0
    return -float(np.minimum(np.minimum.reduceat(costs, starts), 0.0)[which].sum())


def _halvings(count: int) -> tuple[Array, Array, Array]:
    """Return orthonormal columns that are positive on one half of copies and negative on the other half.

    The answers are the entries that are not zero, their copies and their columns.
    """
    ranges, entries = [(0, count)], []
    for column, (low, high) in enumerate(ranges):  # the halves are appended
        middle = (low + high) // 2
        first, second = middle - low, high - middle
        above, below = math.sqrt(second / (first * (high - low))), math.sqrt(first / (second * (high - low)))
        entries += [(above if i < middle else -below, i, column) for i in range(low, high)]
        ranges += [(begin, end) for begin, end in ((low, middle), (middle, high)) if end > begin + 1]
    values, copies, columns = zip(*entries, strict=True)
    return np.array(values), np.array(copies), np.array(columns)


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
    >>> from cutplane.graphical import potts, solve_lagrangian
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

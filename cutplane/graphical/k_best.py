"""The labellings of least energy in turn, each with a bound of all remaining ones."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.graphical.exact.clique_tree import CliqueTree
from cutplane.graphical.factor_graph import BestLabelling, FactorGraph
from cutplane.graphical.marginals import changed_energies, exact_bounds, lower_bounds
from cutplane.graphical.result import MAPResult, remedy
from cutplane.pieces.html import Shown
from cutplane.pieces.parameters import read_only
from cutplane.pieces.validation import Array
from cutplane.runtime.clock import clock
from cutplane.status import Status, relative_gap

Parts = Iterator[tuple[float, Array]]

_EPS = float(np.finfo(np.float64).eps)
_BISECTIONS = 12
"""Number of trial prices for states of earlier labellings, because this many find the best price to some
thousandths."""
_COUNTERS, _ITERATIONS = 2**18, 100
"""Largest number of entries of the tables that count differences, and of iterations on them, because more
take many seconds."""


@dataclass(frozen=True, eq=False, repr=False)
class KBestResult(Shown):
    """Labellings of least energy, ascending; with a distance between them, in the order of their choice.

    Attributes
    ----------
    labellings : ndarray of int, shape (m, n_variables)
        m is smaller than the requested number if there are no more labellings, or if the run was stopped.
    energies : ndarray of shape (m,)
    bounds : ndarray of shape (m,)
        No labelling that is allowed after the previous ones has an energy below this bound.
    statuses : tuple of Status
        OPTIMAL for each labelling that is proven to be the next one up to the tolerance.
    status : Status
        OPTIMAL if all labellings are, and their number is as requested or there are provably no more;
        INFEASIBLE if provably no labelling satisfies the hard constraints.
    reason : str
    min_distance : int
    model : GraphicalModel
    """

    labellings: Array
    energies: Array
    bounds: Array
    statuses: tuple[Status, ...]
    status: Status
    reason: str
    min_distance: int
    model: FactorGraph = field(repr=False)

    def __len__(self) -> int:
        return len(self.energies)

    def _shown(self) -> dict[str, Any]:
        proven = sum(status is Status.OPTIMAL for status in self.statuses)
        energies = f"{self.energies[0]:.10g} to {self.energies[-1]:.10g}" if len(self) else "none"
        return {
            "status": str(self.status),
            "reason": self.reason,
            "labellings": f"{len(self)}, of which {proven} are proven",
            "energies": energies,
        }


class _Found(NamedTuple):
    """The best labelling found in a set, or None, a bound of the set, and the status of the search."""

    energy: float
    number: int
    labelling: Any
    bound: float
    status: Status
    allowed: Array
    result: MAPResult | None = None


class _Run:
    """The remaining time, and the labellings found so far."""

    def __init__(self, model: Any, k: int, tol: float, time_limit: float | None) -> None:
        self.model, self.k, self.tol = model, k, tol
        self.deadline = math.inf if time_limit is None else clock() + time_limit
        self.listed: list[tuple[float, float, Array]] = []
        self.status, self.reason = Status.OPTIMAL, f"{k} labellings were found"

    @property
    def options(self) -> dict[str, Any]:
        left = None if self.deadline == math.inf else max(1e-9, self.deadline - clock())
        return {"tol": self.tol, "time_limit": left}

    def stops(self, status: Status = Status.OPTIMAL) -> bool:
        """Tell whether Ctrl-C or the time limit has ended the run, given the status of an inference."""
        if self.status is not Status.OPTIMAL:
            return True
        if status is Status.INTERRUPTED:
            self.status, self.reason = status, "interrupted"
        elif clock() > self.deadline:
            self.status, self.reason = Status.TIME_LIMIT, "time_limit has passed"
        return self.status is not Status.OPTIMAL

    def is_proven(self, energy: float, bound: float, labelling: Array) -> bool:
        within = energy - bound <= self.model.rounding(labelling)
        return within or relative_gap(bound, energy) <= self.tol

    def ends_early(self, bound: float, kind: str) -> None:
        """Return the reason why there are less than k labellings; `bound` is a bound of all others."""
        if self.status is not Status.OPTIMAL:
            return
        self.reason = f"there are {len(self.listed)} labellings {kind}"
        if bound < math.inf:
            self.status, self.reason = Status.STALLED, "no more labellings were found, but there may be some"
        elif not self.listed:
            self.status, self.reason = Status.INFEASIBLE, "no labelling satisfies the hard constraints"

    def result(self, min_distance: int, sort: bool) -> KBestResult:
        """Return the labellings; each bound is also valid if they are sorted by their energies."""
        model = self.model
        energies = np.array([energy for energy, _, _ in self.listed])
        bounds = np.array([bound for _, bound, _ in self.listed])
        order = np.argsort(energies, kind="stable") if sort else np.arange(energies.size)
        energies, bounds = energies[order], np.minimum(np.sort(bounds) if sort else bounds, energies[order])
        labellings = np.array([self.listed[i][2] for i in order], dtype=np.int64)
        labellings = labellings.reshape(len(self.listed), model.n_variables)
        status, reason = self.status, self.reason
        ends = Status.STALLED if status in (Status.OPTIMAL, Status.INFEASIBLE) else status
        statuses = tuple(
            Status.OPTIMAL if self.is_proven(*each) else ends
            for each in zip(energies.tolist(), bounds.tolist(), labellings, strict=True)
        )
        if status is Status.OPTIMAL and Status.STALLED in statuses:
            status, reason = ends, f"some inferences left a gap. {remedy(Status.TIME_LIMIT)}"
        arrays = read_only(labellings), read_only(energies), read_only(bounds)
        return KBestResult(*arrays, statuses, status, reason, min_distance, model)


def k_best(model: Any, k: int, min_distance: int, tol: float, time_limit: float | None) -> KBestResult:
    """Implement `GraphicalModel.k_best`."""
    run = _Run(model, k, tol, time_limit)
    try:
        if min_distance == 1:
            _partition(run)
        else:
            _keep_apart(run, min_distance)
    except KeyboardInterrupt:
        run.status, run.reason = Status.INTERRUPTED, "interrupted"
    return run.result(min_distance, sort=min_distance == 1)


def _partition(run: _Run) -> None:
    """List labellings by Lawler's partition.

    Without its best labelling x, a set is the union of disjoint parts: labellings in part i differ from x at
    variable i, and equal x at all previous variables. Variables are ordered by the bound of changing them. A
    part is minimised only when its bound is the least of all.
    """
    spaces, first = _spaces(run)
    numbers = count(1)
    open_parts: list[tuple[float, int, Array, Parts]] = []
    found: list[_Found] = [] if first is None else [first]
    lost = math.inf

    def push(parts: Parts) -> None:
        for bound, allowed in parts:
            heapq.heappush(open_parts, (bound, next(numbers), allowed, parts))
            return

    def floor() -> float:
        return min([lost, *(part[0] for part in open_parts[:1]), *(each.bound for each in found)])

    if first is None:
        push(iter([(-math.inf, np.isfinite(run.model.unaries))]))
    try:
        while len(run.listed) < run.k and (found or open_parts) and not run.stops():
            least = open_parts[0][0] if open_parts else math.inf
            if found and (found[0].energy <= least or spaces.is_close(found[0], least)):
                bound, best = floor(), heapq.heappop(found)
                run.listed.append((best.energy, bound, best.labelling))
                if len(run.listed) < run.k:
                    push(_parts(spaces, best))
                continue
            bound, _, allowed, parts = heapq.heappop(open_parts)
            part = spaces.least(allowed, next(numbers))
            part = part._replace(bound=max(part.bound, bound))
            push(parts)
            if part.labelling is not None:
                heapq.heappush(found, part)
            else:
                lost = min(lost, part.bound)
            run.stops(part.status)
    except KeyboardInterrupt:
        run.stops(Status.INTERRUPTED)
    bound = floor()
    for each in sorted(found)[: run.k - len(run.listed)]:
        run.listed.append((each.energy, bound, each.labelling))
    if len(run.listed) < run.k:
        run.ends_early(bound, "of finite energy")


def _parts(spaces: _Spaces, best: _Found) -> Parts:
    """Yield ascending bounds, and the allowed states of the parts of a set without its best labelling."""
    starts, allowed = spaces.model.unary_starts, best.allowed
    if not allowed.size:
        return
    lower = np.where(allowed, spaces.lower_bounds(best), np.inf)
    own = starts[:-1] + best.labelling
    lower[own] = np.inf
    bounds = np.minimum.reduceat(lower, starts[:-1])
    for u in np.argsort(bounds, kind="stable").tolist():
        if bounds[u] == math.inf:
            return
        part = allowed.copy()
        part[own[u]] = False
        yield max(float(bounds[u]), best.bound), part
        allowed = allowed.copy()
        allowed[starts[u] : starts[u + 1]] = False
        allowed[own[u]] = True


def _spaces(run: _Run) -> tuple[_Spaces, _Found | None]:
    """Return a minimiser over parts, by elimination or inference, and the best labelling if it is found.

    The k-th least energy of labellings that differ from the best one in one variable is an upper bound of the
    k-th least energy. States with a larger least energy are in none of the k best labellings; without them,
    elimination may be possible.
    """
    model, exact = run.model, _Spaces.exact(run)
    if exact is not None:
        return exact, None
    bounded = _Spaces(run)
    first = bounded.least(np.isfinite(model.unaries), 0)
    if first.labelling is None or run.stops(first.status):
        return bounded, first if first.labelling is not None else None
    changed = changed_energies(model, first.labelling)
    changed[model.unary_starts[:-1] + first.labelling] = np.inf
    highest = np.sort(np.append(first.energy, changed))[min(run.k, changed.size) - 1]
    alive = ~(bounded.lower_bounds(first, highest) > np.nextafter(highest, np.inf))
    exact = _Spaces.exact(run, alive)
    return (bounded, first) if exact is None else (exact, None)


class _Spaces:
    """Minimises over parts of a model: by a clique tree, or by inference, with bounds from its messages."""

    def __init__(self, run: _Run, tree: CliqueTree | None = None) -> None:
        self.run, self.model, self.tree = run, run.model, tree

    @classmethod
    def exact(cls, run: _Run, alive: Array | None = None) -> _Spaces | None:
        try:
            return cls(run, CliqueTree(run.model, alive, deadline=run.deadline))
        except (InvalidInputError, TimeoutError):
            return None

    def least(self, allowed: Array, number: int) -> _Found:
        if self.tree is None:
            part = self.model.with_unaries(np.where(allowed, self.model.unaries, np.inf))
            found = part.map(**self.run.options)
            labelling = found.labelling if found.energy < math.inf else None
            return _Found(found.energy, number, labelling, found.bound, found.status, allowed, found)
        labelling, above = self.tree.least(_costs(self.tree, allowed))
        energy = math.inf if labelling is None else self.model.energy(labelling)
        bound = float(self.tree.lower_bounds(above))
        return _Found(energy, number, labelling, bound, Status.OPTIMAL, allowed)

    def lower_bounds(self, found: _Found, ceiling: float = math.inf) -> Array:
        if self.tree is None:
            assert found.result is not None
            return lower_bounds(found.result, ceiling, self.run.deadline)
        marginals = self.tree.min_marginals(_costs(self.tree, found.allowed))
        return exact_bounds(self.model, self.tree, marginals)[0]

    def is_close(self, found: _Found, least: float) -> bool:
        if self.tree is None:
            return self.run.is_proven(found.energy, least, found.labelling)
        return found.energy - least <= self.model.rounding(found.labelling)


def _costs(tree: CliqueTree, allowed: Array) -> Array:
    return np.where(allowed[tree.kept], tree.unaries, np.inf)


def _keep_apart(run: _Run, distance: int) -> None:
    """List labellings greedily, each the best one that is far enough from the previous ones."""
    while len(run.listed) < run.k and not run.stops():
        energy, bound, labelling, status = _apart(run, [each for _, _, each in run.listed], distance)
        run.stops(status)
        if labelling is None:
            run.ends_early(bound, f"of finite energy that differ in {distance} variables")
            return
        run.listed.append((energy, bound, labelling))


def _apart(run: _Run, earlier: list[Array], distance: int) -> tuple[float, float, Array | None, Status]:
    """Return energy, bound, the best labelling far enough from earlier ones, and the status of the last run.

    States of earlier labellings get a price. The best price gives a bound, by duality for the distance
    constraints, and often a labelling (Batra et al. 2012). If a gap remains, a model with a chain of
    variables for each earlier labelling, which count the differences, closes it.
    """
    model = run.model
    if not earlier:
        found = model.map(**run.options)
        return found.energy, found.bound, found.labelling if found.energy < math.inf else None, found.status
    if model.n_variables < distance:
        return math.inf, math.inf, None, Status.INFEASIBLE
    best = BestLabelling(model)
    counting, order = _counting(model, earlier, distance)
    bound, status = _priced(run, best, earlier, distance)
    is_done = best.labelling is not None and run.is_proven(best.energy, bound, best.labelling)
    if is_done or counting is None or run.stops(status):
        return best.energy, bound, best.labelling, status
    start = None if best.labelling is None else _counted(best.labelling, earlier, order, distance)
    found = counting.map(**run.options, labelling=start, max_iter=_ITERATIONS)
    if found.labelling is not None and found.energy < math.inf:
        best.offer(found.labelling[: model.n_variables])
    return best.energy, max(bound, found.bound), best.labelling, found.status


def _priced(run: _Run, best: BestLabelling, earlier: list[Array], distance: int) -> tuple[float, Status]:
    """Offer labellings with the least energy plus prices, and return the largest bound of the energy."""
    model, bound, status = run.model, -math.inf, Status.OPTIMAL
    taken = np.zeros(model.unaries.size)
    for each in earlier:
        taken[model.unary_starts[:-1] + each] += 1.0
    most = model.n_variables - distance
    low, high, price = 0.0, math.inf, model.typical_cost or 1.0
    for _ in range(_BISECTIONS):
        costs = model.unaries + price * taken
        found = model.with_unaries(costs).map(**run.options)
        status = found.status
        sizes = np.abs(costs[np.isfinite(costs)]).sum() + price * len(earlier) * most
        bound = max(bound, found.bound - price * len(earlier) * most - 4.0 * _EPS * sizes)
        if found.labelling is None or run.stops(status):
            break
        shared = [int((found.labelling == each).sum()) for each in earlier]
        best.offer(_moved_away(model, found.labelling, earlier, distance))
        if best.labelling is not None and run.is_proven(best.energy, bound, best.labelling):
            break
        low, high = (price, high) if sum(shared) > len(earlier) * most else (low, price)
        price = 2.0 * price if high == math.inf else 0.5 * (low + high)
    return bound, status


def _moved_away(model: FactorGraph, labelling: Array, earlier: list[Array], distance: int) -> Array | None:
    """Change variables, each time the one with the least cost per use, until all distances are sufficient."""
    x, starts = labelling.copy(), model.unary_starts[:-1]
    for _ in range(2 * distance * len(earlier)):
        near = [each for each in earlier if (x != each).sum() < distance]
        if not near:
            return x
        use = np.zeros(model.unaries.size)
        for each in near:
            use += np.repeat(x == each, model.cardinalities)
            use[starts + each] -= 1.0
        use[starts + x] = 0.0
        costs = changed_energies(model, x) - model.energy(x)
        rates = np.where(use > 0.0, costs / np.maximum(use, 1.0), np.inf)
        place = int(rates.argmin()) if rates.size else 0
        if not rates.size or rates[place] == np.inf:
            return None
        u = int(np.searchsorted(model.unary_starts, place, side="right")) - 1
        x[u] = place - starts[u]
    return None


def _counting(model: Any, earlier: list[Array], distance: int) -> tuple[Any, Array]:
    """Return the model with chains of counters, None if it is too large, and the order of counting."""
    from cutplane.graphical.exact.orders import neighbourhoods, scopes_of, sweep_order

    n = model.n_variables
    order = np.array(sweep_order(neighbourhoods(n, scopes_of(model))), dtype=np.int64)
    if len(earlier) * (distance + 1) ** 2 * model.unaries.size > _COUNTERS:
        return None, order
    sizes = np.minimum(np.arange(1, n + 1), distance) + 1
    factors: list[Any] = [((u,), model.unary(u)) for u in range(n)]
    factors += [model.factor(a) for a in range(model.n_factors)]
    for number, each in enumerate(earlier):
        before, size = (), 1
        for i, u in enumerate(order.tolist()):
            counter = n * (number + 1) + i
            counts = np.arange(size)[:, None] + (np.arange(model.cardinalities[u]) != each[u])
            costs = np.where(np.minimum(counts, distance)[..., None] == np.arange(sizes[i]), 0.0, np.inf)
            factors.append(((*before, u, counter), costs if before else costs[0]))
            before, size = (counter,), sizes[i]
        factors.append((before, np.where(np.arange(size) == distance, 0.0, np.inf)))
    cardinalities = np.concatenate([model.cardinalities, *[sizes] * len(earlier)])
    return type(model)(cardinalities, factors, constant=model.constant), order


def _counted(labelling: Array, earlier: list[Array], order: Array, distance: int) -> Array:
    differences = [np.minimum(np.cumsum(labelling[order] != each[order]), distance) for each in earlier]
    return np.concatenate([labelling, *differences])

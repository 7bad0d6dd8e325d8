"""Exact minimisation by eliminating one variable after the other, in an order with small tables."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee

from cutplane.exceptions import InvalidInputError
from cutplane.graphical.factor_graph import FactorGraph
from cutplane.pieces.validation import Array, as_count
from cutplane.runtime.clock import clock
from cutplane.runtime.compiling import routine

_BYTES_PER_ENTRY = 64
"""Bytes per entry of the largest table, because several messages and choices are stored at the same time."""
_SMALL = 2**12
"""Entries, 32 kB, up to which tables are added first, because each costs a pass over the large table."""


def eliminate(
    model: FactorGraph, *, max_entries: int = 2**24, deadline: float = np.inf
) -> tuple[Array | None, float]:
    r"""Return a labelling of least energy (None if none is finite), and that energy, by variable elimination.

    Eliminating u replaces the tables that contain u by one table over its neighbours,

    .. math:: m_u(x_N) = \min_{x_u} \sum_{A \ni u} \theta_A(x_A),

    This is exact, and exponential in the size of the neighbourhoods. For example, a grid of h by w binary
    variables, h <= w, needs tables of 2^(h + 1) entries (Dechter 1999, doi:10.1016/S0004-3702(99)00059-4).

    Raises
    ------
    InvalidInputError
        If no order was found with tables of at most `max_entries` entries, or if its tables need more than 64
        times as many bytes.
    TimeoutError
        If the deadline has passed.
    """
    limit = float(np.log2(as_count("max_entries", max_entries)))
    states = _finite_states(model)
    counts = [kept.size for kept in states]
    if 0 in counts:
        return None, np.inf
    scopes = open_scopes(model, counts)
    key = limit, tuple(counts)
    if key not in model.orders:
        found = elimination_order(counts, scopes, limit, deadline)
        _check(deadline)
        model.orders[key] = found
    order, width = model.orders[key]
    if width > limit:
        raise InvalidInputError(
            f"Every order tried for {model!r} needs a table of 2^{width:.1f} entries or more, beyond "
            f"max_entries = {max_entries}; use map, or raise max_entries."
        )
    memory = _memory(counts, scopes, order)
    if memory > _BYTES_PER_ENTRY * max_entries:
        raise InvalidInputError(
            f"The tables of {model!r}, of up to 2^{width:.1f} entries, need {memory / 2**20:.0f} MiB; raise "
            f"max_entries, now {max_entries}, to {int(memory // _BYTES_PER_ENTRY) + 1}."
        )
    labelling = least_labelling(model, states, order, deadline)
    energy = np.inf if labelling is None else model.energy(labelling)
    return (labelling, energy) if energy < np.inf else (None, np.inf)


def least_labelling(
    model: FactorGraph, states: list[Array], order: Sequence[int], deadline: float = np.inf
) -> Array | None:
    """Return the best labelling with states from `states`, by elimination in this order.

    Return None if all have infinite energy. The size of the tables is not limited.
    """
    counts = [kept.size for kept in states]
    tables = _sliced(model, states, open_scopes(model, counts))
    steps = _minimise(counts, tables, order, deadline)
    if steps is None:
        return None
    labelling = np.zeros(model.n_variables, dtype=np.int64)
    for step in reversed(steps):
        labelling[step.variable] = step.choice(labelling)
    return np.array([kept[x] for kept, x in zip(states, labelling, strict=True)], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class _Table:
    """Entries over the variables of `scope`: the entry of x is at the sum of strides times states."""

    scope: tuple[int, ...]
    strides: tuple[int, ...]
    values: Array


@dataclass(frozen=True, eq=False)
class _Elimination:
    """The best states of a variable given the states of `scope`, in C order; packed if there are two."""

    variable: int
    scope: tuple[int, ...]
    shape: tuple[int, ...]
    choices: Array
    packed: bool

    def choice(self, labelling: Array) -> int:
        place = 0
        for u, k in zip(self.scope, self.shape, strict=True):
            place = place * k + int(labelling[u])
        if self.packed:
            return int(self.choices[place // 8]) >> (7 - place % 8) & 1
        return int(self.choices[place])


def _finite_states(model: FactorGraph) -> list[Array]:
    """Return the states of each variable that have a finite cost."""
    starts = model.unary_starts
    owners = np.repeat(np.arange(model.n_variables), model.cardinalities)
    finite = np.flatnonzero(np.isfinite(model.unaries))
    states = np.split(finite - starts[owners[finite]], np.searchsorted(finite, starts[1:-1]))
    return states[: model.n_variables]


def open_scopes(model: FactorGraph, counts: list[int]) -> list[tuple[int, ...]]:
    """Return the scope of each factor without the variables that have one state."""
    starts, scopes = model.scope_starts.tolist(), model.scopes.tolist()
    return [tuple(u for u in scopes[begin:end] if counts[u] != 1) for begin, end in pairwise(starts)]


def _sliced(model: FactorGraph, states: list[Array], scopes: list[tuple[int, ...]]) -> list[_Table]:
    """Return the tables on these states; variables with one state are removed from the scopes."""
    counts = [kept.size for kept in states]
    tables = [
        _Table((u,) if counts[u] > 1 else (), (1,) if counts[u] > 1 else (), model.unary(u)[kept])
        for u, kept in enumerate(states)
    ]
    whole = np.array(counts) == model.cardinalities
    for a, scope in enumerate(scopes):
        variables, values = model.factor(a)
        if not whole[list(variables)].all():
            values = values[np.ix_(*[states[u] for u in variables])]
        tables.append(_Table(scope, _strides([counts[u] for u in scope]), np.ravel(values)))
    return tables


def _strides(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(prod(shape[i + 1 :]) for i in range(len(shape)))


def _check(deadline: float) -> None:
    if clock() > deadline:
        raise TimeoutError("eliminate was stopped at its deadline.")


def elimination_order(
    counts: list[int], scopes: list[tuple[int, ...]], limit: float, deadline: float = np.inf
) -> tuple[list[int], float]:
    """Return an order of elimination for these numbers of states, and the log2 of its largest table.

    Variables of one state are first. The order of the others is empty if none was found within the limit.
    """
    sizes = np.array(counts, dtype=np.float64)
    single = np.flatnonzero(sizes == 1).tolist()
    free = np.flatnonzero(sizes > 1)
    number = {u: i for i, u in enumerate(free.tolist())}
    near = neighbourhoods(free.size, [tuple(number[u] for u in scope) for scope in scopes])
    order, width = best_order(near, np.log2(sizes[free]), limit, deadline)
    return single + [int(free[i]) for i in order], width


def _memory(counts: list[int], scopes: list[tuple[int, ...]], order: Sequence[int]) -> float:
    """Return the largest number of bytes that messages and choices need at the same time."""
    position = {u: i for i, u in enumerate(order)}
    messages = message_scopes(order, neighbourhoods(len(counts), scopes))
    received = [0.0] * len(counts)
    live = kept = peak = 0.0
    for u in order:
        k, scope = counts[u], messages[u]
        entries = prod([float(counts[v]) for v in scope])
        kept += entries * (1 / 8 if k <= 2 else 1 if k <= 256 else 4)
        peak = max(peak, live + kept + 24 * entries)
        live += 8 * entries - received[u]
        if scope:
            received[min(scope, key=position.__getitem__)] += 8 * entries
    return peak


def _minimise(
    counts: list[int], tables: list[_Table], order: Sequence[int], deadline: float
) -> list[_Elimination] | None:
    """Eliminate all variables; return None if no sum of the tables is finite."""
    position = {u: i for i, u in enumerate(order)}
    buckets: list[list[_Table]] = [[] for _ in order]

    def put(table: _Table) -> bool:
        """Store the table with its first variable; return False if it is an infinite number."""
        if not table.scope:
            return bool(np.isfinite(table.values[0]))
        buckets[min(position[u] for u in table.scope)].append(table)
        return True

    if not all([put(table) for table in tables]):
        return None
    steps = []
    for i, u in enumerate(order):
        if not buckets[i]:
            continue
        _check(deadline)
        scope = sorted({v for table in buckets[i] for v in table.scope} - {u}, key=position.__getitem__)
        message, step = _minimise_out(u, buckets[i], scope, counts, deadline)
        buckets[i] = []
        steps.append(step)
        if not put(message):
            return None
    return steps


def _minimise_out(
    u: int, tables: list[_Table], scope: Sequence[int], counts: list[int], deadline: float
) -> tuple[_Table, _Elimination]:
    """Minimise the sum of the tables over u; `scope` holds their other variables."""
    shape = tuple(counts[v] for v in scope)
    entries = prod(shape)
    operands = _fold(tables, [u, *scope], counts)
    best = np.empty(entries)
    total = best if counts[u] == 1 else np.empty(entries)
    choices = np.zeros(entries, dtype=np.uint8 if counts[u] <= 256 else np.int32)
    for state in range(counts[u]):
        target = best if state == 0 else total
        target.fill(0.0)
        for table in operands:
            _check(deadline)
            strides = dict(zip(table.scope, table.strides, strict=True))
            _add(target, table.values, scope, counts, strides, state * strides.get(u, 0))
        if state:
            _keep_least(best, choices, total, state)
    packed = counts[u] <= 2
    step = _Elimination(u, tuple(scope), shape, np.packbits(choices) if packed else choices, packed)
    return _Table(tuple(scope), _strides(shape), best), step


def _fold(tables: list[_Table], scope: Sequence[int], counts: list[int]) -> list[_Table]:
    """Add small tables into one, as long as the sum is small."""
    folded = [table for table in tables if table.values.size > _SMALL]
    small = [table for table in tables if table.values.size <= _SMALL]
    while small:
        group, union, left = [], set(), []
        for table in small:
            if prod([float(counts[u]) for u in union.union(table.scope)]) <= _SMALL:
                union.update(table.scope)
                group.append(table)
            else:
                left.append(table)
        axes = [u for u in scope if u in union]
        shape = [counts[u] for u in axes]
        total = np.zeros(prod(shape))
        for table in group:
            _add(total, table.values, axes, counts, dict(zip(table.scope, table.strides, strict=True)), 0)
        folded.append(_Table(tuple(axes), _strides(shape), total))
        small = left
    return folded


def _add(
    total: Array, values: Array, axes: Sequence[int], counts: list[int], strides: dict[int, int], start: int
) -> None:
    """Add a table to a C-ordered total."""
    shape, steps = merged_axes(axes, counts, strides)
    add_entries(total, np.array(shape, dtype=np.int64), values, start, np.array(steps, dtype=np.int64))


def merged_axes(
    axes: Sequence[int], counts: Sequence[int], strides: dict[int, int]
) -> tuple[list[int], list[int]]:
    """Return shape and strides of a table over these variables, with neighbouring axes merged if possible.

    There are at least two axes; variables that are not in the table have the stride 0.
    """
    shape, steps = [1, 1], [0, 0]
    for u in axes:
        k, stride = counts[u], strides.get(u, 0)
        if steps[-1] == stride * k:
            shape[-1], steps[-1] = shape[-1] * k, stride
        else:
            shape.append(k)
            steps.append(stride)
    return shape, steps


@routine
def add_entries(total, shape, values, start, strides):
    """Add to a C-ordered total of `shape`, at least two axes, the entries of `values` at these strides."""
    last = shape.shape[0] - 1
    rows, columns = shape[last - 1], shape[last]
    down, right = strides[last - 1], strides[last]
    digits = shape[: last - 1] * 0
    place = 0
    while True:
        for i in range(rows):
            begin = start + i * down
            if right == 0:
                value = values[begin]
                for j in range(columns):
                    total[place + j] += value
            elif right == 1:
                for j in range(columns):
                    total[place + j] += values[begin + j]
            else:
                for j in range(columns):
                    total[place + j] += values[begin + j * right]
            place += columns
        axis = last - 2
        while axis >= 0:
            digits[axis] += 1
            start += strides[axis]
            if digits[axis] < shape[axis]:
                break
            start -= strides[axis] * shape[axis]
            digits[axis] = 0
            axis -= 1
        if axis < 0:
            return


@routine
def _keep_least(best, choices, total, state):
    """Set `best` to `total` where that is less, and write the state to `choices`."""
    for i in range(best.shape[0]):
        if total[i] < best[i]:
            best[i] = total[i]
            choices[i] = state


Neighbours = list[set[int]]

_ATTEMPTS = 12
"""Most greedy orders of a hard graph, because another way to break ties may give smaller tables."""
_EASY = 18.0
"""log2 of a table's entries up to which no more orders are tried, because 2 MB are fast to minimise."""
_HOPELESS = 32.0
"""log2 of a table's entries from which no more orders are tried, because few machines have 32 GB."""
_SMALL_GRAPH = 20_000
"""Total number of neighbours up to which orders are repeated, because Python computes them slowly."""


def neighbourhoods(n: int, scopes: Sequence[tuple[int, ...]]) -> Neighbours:
    """Return for each of n variables the variables that share a scope with it."""
    near: Neighbours = [set() for _ in range(n)]
    for scope in scopes:
        for u in scope:
            near[u].update(scope)
    for u in range(n):
        near[u].discard(u)
    return near


def best_order(
    near: Neighbours, weights: Array, limit: float = np.inf, deadline: float = np.inf
) -> tuple[list[int], float]:
    """Return the best of some orders, and the log2 of its largest table; `weights` are log2 of the states.

    The first order is breadth-first (reverse Cuthill-McKee), which is best for grids. Greedy orders take the
    variable whose elimination adds the fewest pairs, or makes the smallest table; if the tables are large,
    they are repeated with other ways to break ties. If no order fits the limit, the returned order is empty,
    and the size is the least one that exceeded the limit.
    """
    if not near:
        return [], 0.0
    order = _sweep(near)
    best = _cost(order, near, weights, limit)
    blocked = best[0]
    if blocked > limit:
        best, order = (np.inf, np.inf), []
    rng = np.random.default_rng(0)
    names = np.arange(len(near))
    is_small = sum(map(len, near)) <= _SMALL_GRAPH
    for attempt in range(_ATTEMPTS):
        if clock() > deadline:
            break
        is_hard = is_small and _EASY < min(best[0], blocked) < _HOPELESS
        if attempt > (1 if is_small or order else 0) and not is_hard:
            break
        found, size = _greedy(near, weights, min(limit, best[0]), attempt % 2 == 1, names, deadline)
        if size > limit:
            blocked = min(blocked, size)
        elif found:
            cost = _cost(found, near, weights, limit)
            if cost < best:
                best, order = cost, found
        names = rng.permutation(len(near))
    return order, best[0] if order else blocked


def message_scopes(order: Sequence[int], near: Neighbours) -> list[set[int]]:
    """Return for each variable the other variables of its table at its elimination."""
    scopes: Neighbours = [set() for _ in near]
    for u, scope in _messages(order, near):
        scopes[u] = scope
    return scopes


def _messages(order: Sequence[int], near: Neighbours) -> Iterator[tuple[int, set[int]]]:
    position = {u: i for i, u in enumerate(order)}
    received: dict[int, set[int]] = {}
    for u in order:
        scope = {v for v in near[u] if position[v] > position[u]} | received.pop(u, set())
        yield u, scope
        if scope:
            parent = min(scope, key=position.__getitem__)
            received.setdefault(parent, set()).update(scope - {parent})


def _cost(order: Sequence[int], near: Neighbours, weights: Array, limit: float) -> tuple[float, float]:
    """Return the log2 of the largest table, or of the first beyond the limit, and of their sum."""
    weight = weights.tolist()
    sizes = []
    for u, scope in _messages(order, near):
        sizes.append(weight[u] + sum(weight[v] for v in scope))
        if sizes[-1] > limit:
            return sizes[-1], np.inf
    return max(sizes), float(np.logaddexp2.reduce(sizes))


def _sweep(near: Neighbours) -> list[int]:
    n = len(near)
    columns = np.array([v for scope in near for v in scope], dtype=np.int64)
    pointers = np.concatenate([[0], np.cumsum([len(scope) for scope in near])])
    graph = sparse.csr_array((np.ones(columns.size), columns, pointers), shape=(n, n))
    return reverse_cuthill_mckee(graph, symmetric_mode=True).tolist()


def _greedy(
    near: Neighbours, weights: Array, limit: float, by_fill: bool, names: Array, deadline: float
) -> tuple[list[int], float]:
    """Return an order and 0, or no order and the size of the next table if that is beyond the limit.

    Ties are broken by `names`.
    """
    near = [set(scope) for scope in near]
    weight = weights.tolist()
    sizes = [weight[u] + sum(weight[v] for v in scope) for u, scope in enumerate(near)]
    fill = [sum(len(scope - near[v]) - 1 for v in scope) // 2 if by_fill else 0 for scope in near]
    ties = names.tolist()
    keys = [(fill[u], round(sizes[u], 9), ties[u]) for u in range(len(near))]
    heap = [(key, u) for u, key in enumerate(keys)]
    heapq.heapify(heap)
    order: list[int] = []
    done: set[int] = set()
    while heap:
        key, u = heapq.heappop(heap)
        if u in done or key != keys[u]:
            continue
        if sizes[u] > limit or clock() > deadline:
            return [], sizes[u]
        order.append(u)
        done.add(u)
        scope = near[u]
        changed = set(scope)
        for a in scope:
            for b in scope - near[a]:
                if b <= a:
                    continue
                if by_fill:
                    common = near[a] & near[b]
                    for w in common:
                        fill[w] -= 1
                    changed |= common
                    fill[a] += len(near[a]) - len(common)
                    fill[b] += len(near[b]) - len(common)
                near[a].add(b)
                near[b].add(a)
                sizes[a] += weight[b]
                sizes[b] += weight[a]
        for a in scope:
            if by_fill:
                fill[a] -= len(near[a] - scope) - 1
            near[a].discard(u)
            sizes[a] -= weight[u]
        for a in changed:
            if a not in done:
                fresh = (fill[a], round(sizes[a], 9), ties[a])
                if fresh != keys[a]:
                    keys[a] = fresh
                    heapq.heappush(heap, (fresh, a))
    return order, 0.0

"""Cycles and sets of variables of a reparametrised model, and the increase of the bound by each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cutplane.graphical.factors import starts_of
from cutplane.graphical.sweeps.reparametrization import Reparametrization
from cutplane.pieces.validation import Array
from cutplane.runtime.compiling import NUMBERS, routine
from cutplane.runtime.threads import run_chunks

_WORK = 2e6
"""Sum of k^3 for k states between two checks of the clock, because this takes about 0.01 s."""
_CYCLE = 200
"""Cost of a cycle in addition to k^3, because its pairs must be found."""
_LIMIT = 2**20
"""Largest number of triangles, and of squares, that are listed, because their rows then take 25 and 34 MB."""
_MANY = 8
"""Largest number of common neighbours whose pairs are all listed, because pairs grow as the square."""
_LARGEST = 2**10
"""Largest number of joint states of an extended set, because each pass over a cluster visits all of them."""
_MOST = 2**10
"""Number of extended sets after which no scope is extended, because scoring more takes as long as sweeps."""

Scope = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class PairCosts:
    """The unary and the pairwise costs of a reparametrised model, in flat arrays.

    The variables of each pair p are ascending; its table, in C order, begins at ``tables[table_starts[p]]``.
    """

    cardinalities: Array
    unary_starts: Array
    unaries: Array
    pairs: Array
    table_starts: Array
    tables: Array

    @classmethod
    def of(cls, reparametrization: Reparametrization) -> PairCosts:
        """Return the present costs of a reparametrised model."""
        model, pairs = reparametrization.model, reparametrization.pairs()
        return cls(
            model.cardinalities,
            model.unary_starts,
            reparametrization.unaries,
            pairs.variables,
            pairs.table_starts,
            pairs.tables,
        )

    @property
    def arrays(self) -> tuple[Array, ...]:
        """All fields except the pairs."""
        return self.cardinalities, self.unary_starts, self.unaries, self.table_starts, self.tables

    @cached_property
    def graph(self) -> tuple[Array, Array, Array]:
        """(starts, neighbours, edges): the neighbours of each variable, ascending, and their pairs."""
        n, m = self.cardinalities.size, len(self.pairs)
        tails = np.concatenate([self.pairs[:, 0], self.pairs[:, 1]])
        heads = np.concatenate([self.pairs[:, 1], self.pairs[:, 0]])
        order = np.lexsort((heads, tails))
        return starts_of(np.bincount(tails, minlength=n)), heads[order], (np.arange(2 * m) % max(1, m))[order]


@dataclass(frozen=True, eq=False)
class Cycles:
    """Cycles of variables, one after the other: the c-th is ``variables[starts[c]:starts[c + 1]]``."""

    starts: Array
    variables: Array

    @classmethod
    def joined(cls, groups: list[Cycles]) -> Cycles:
        """Put groups of cycles one after the other."""
        sizes = np.concatenate([np.diff(group.starts) for group in groups])
        return cls(starts_of(sizes), np.concatenate([group.variables for group in groups]))

    def __len__(self) -> int:
        return self.starts.size - 1


def short_cycles(costs: PairCosts) -> Cycles:
    """Return the triangles and the chordless squares of the graph of pairs, at most 2^20 of each."""
    three, four = triangles_and_squares(*costs.graph[:2], _LIMIT)
    sizes = np.repeat([3, 4], [len(three), len(four)])
    return Cycles(starts_of(sizes), np.append(three, four))


def triplets_of(cycles: Cycles, chosen: Array, cardinalities: Array) -> Array:
    """Return the triplets that triangulate the chosen cycles, in their order, as ascending rows.

    All chords of a cycle start at its variable with the fewest states.
    """
    if not chosen.size:
        return np.empty((0, 3), dtype=np.int64)
    begins, sizes = cycles.starts[chosen], np.diff(cycles.starts)[chosen]
    ends = np.cumsum(sizes)
    places = np.arange(ends[-1]) - np.repeat(ends - sizes, sizes)
    states = cardinalities[cycles.variables[np.repeat(begins, sizes) + places]]
    fewest = np.minimum.reduceat(states * sizes.max() + places, ends - sizes) % sizes.max()
    ends = np.cumsum(sizes - 2)
    steps = np.arange(ends[-1]) - np.repeat(ends - sizes + 2, sizes - 2) + 1
    corners = np.stack([np.zeros_like(steps), steps, steps + 1], axis=1)
    corners = (corners + np.repeat(fewest, sizes - 2)[:, None]) % np.repeat(sizes, sizes - 2)[:, None]
    return np.sort(cycles.variables[corners + np.repeat(begins, sizes - 2)[:, None]], axis=1)


def guaranteed_increases(
    costs: PairCosts, cycles: Cycles, is_late: Callable[[], bool] = lambda: False
) -> Array:
    r"""Return the guaranteed increase of the bound when each cycle is triangulated into clusters.

    .. math:: \min_{x_C} \Big[\sum_{u \in C} \theta'_u + \sum_{e \in C} \theta'_e\Big]
              - \sum_{u \in C} \min \theta'_u - \sum_{e \in C} \min \theta'_e \;\ge\; 0

    It is computed by min-plus products of the tables around the cycle, in time k^3 per pair. It is inf if a
    cycle proves that no labelling has finite energy (Sontag et al. 2008).
    """
    out = np.zeros(len(cycles))
    chunk = max(1, int(_WORK / (_CYCLE + costs.cardinalities.max(initial=1) ** 3)))
    arrays = *costs.graph, *costs.arrays

    def score(begin: int) -> None:
        if not is_late():
            starts = cycles.starts[begin : begin + chunk + 1]
            out[begin : begin + chunk] = score_cycles(starts, cycles.variables, *arrays)

    run_chunks(score, range(0, len(cycles), chunk))
    return out


def grown_sets(costs: PairCosts, scopes: Iterable[Scope]) -> list[Scope]:
    """Return scopes extended by one variable that is a neighbour of at least two of their variables.

    Sets of more than 1024 joint states are omitted, and no scope is extended once there are 1024 sets.
    """
    starts, neighbours, _ = costs.graph
    grown: dict[Scope, None] = {}
    for scope in scopes:
        states = costs.cardinalities[list(scope)].prod()
        near, counts = np.unique(
            np.concatenate([neighbours[starts[u] : starts[u + 1]] for u in scope]), return_counts=True
        )
        for u in near[(counts >= 2) & (states * costs.cardinalities[near] <= _LARGEST)].tolist():
            if u not in scope:
                grown[tuple(sorted((*scope, u)))] = None
        if len(grown) >= _MOST:
            break
    return list(grown)


def set_increases(costs: PairCosts, sets: list[Scope]) -> Array:
    """Return the guaranteed increase of the bound when each set of ascending variables becomes a cluster.

    It is the least sum of all unaries and pairs inside, minus the sum of their minima.
    """
    return score_sets(
        starts_of(np.array([len(scope) for scope in sets], dtype=np.int64)),
        np.array([u for scope in sets for u in scope], dtype=np.int64),
        *costs.graph,
        *costs.arrays,
    )


@routine(fastmath=NUMBERS)
def score_cycles(
    begins, cycles, starts, neighbours, edges, cardinalities, unary_starts, unaries, table_starts, tables
):
    """Return min over x of the sum of the pairs and unaries of each cycle, minus the sum of their minima.

    `edges` gives the number of the pair of each neighbour; a pair (i, j) has i < j and its table in C order.
    """
    scores = np.zeros(begins.size - 1)
    widest = 1
    for u in cycles:
        widest = max(widest, cardinalities[u])
    walked, step, product = np.empty(widest**2), np.empty(widest**2), np.empty(widest**2)
    for c in range(scores.size):
        first, last = begins[c], begins[c + 1] - 1
        k = cardinalities[cycles[first]]
        separate = 0.0
        for place in range(first, last + 1):
            u = cycles[place]
            v = cycles[place + 1] if place < last else cycles[first]
            rows, columns = cardinalities[u], cardinalities[v]
            edge = edges[find_edge(starts, neighbours, int(u), int(v))]
            least, least_of_v = np.inf, np.inf
            down, right = (columns, 1) if u < v else (1, rows)
            for i in range(rows):
                for j in range(columns):
                    cost = tables[table_starts[edge] + i * down + j * right]
                    least = min(least, cost)
                    step[i * columns + j] = cost + unaries[unary_starts[v] + j]
            for j in range(columns):
                least_of_v = min(least_of_v, unaries[unary_starts[v] + j])
            separate += least
            separate += least_of_v
            if place == first:
                for i in range(rows * columns):
                    walked[i] = step[i]
            elif place < last:
                _min_plus(walked, step, k, rows, columns, product)
                walked, product = product, walked
        n = cardinalities[cycles[last]]
        together = np.inf
        for i in range(k):
            for j in range(n):
                together = min(together, walked[i * n + j] + step[j * k + i])
        scores[c] = together - separate if separate < np.inf else 0.0
    return scores


@routine(fastmath=NUMBERS)
def _min_plus(left, right, n, inner, columns, product):
    """Write min over b of left[a, b] + right[b, c] into `product`."""
    for a in range(n):
        for c in range(columns):
            product[a * columns + c] = np.inf
        row = product[a * columns : (a + 1) * columns]
        for b in range(inner):
            cost = left[a * inner + b]
            if cost < np.inf:
                other = right[b * columns : (b + 1) * columns]
                for c in range(columns):
                    row[c] = min(row[c], cost + other[c])


@routine
def score_sets(
    set_starts, sets, starts, neighbours, edges, cardinalities, unary_starts, unaries, table_starts, tables
):
    """Return min over x of the sum of all pairs and unaries inside each set, minus the sum of their minima.

    The variables of a set are ascending.
    """
    scores = np.zeros(set_starts.size - 1)
    largest = 1
    for s in range(scores.size):
        largest = max(largest, set_starts[s + 1] - set_starts[s])
    pair = np.empty((largest, largest), dtype=np.int64)
    states = np.empty(largest, dtype=np.int64)
    spent = np.empty(largest + 1)
    ahead = np.empty(largest + 1)
    for s in range(scores.size):
        members = sets[set_starts[s] : set_starts[s + 1]]
        n = members.size
        ahead[n] = 0.0
        for j in range(n - 1, -1, -1):
            v = members[j]
            low = unaries[unary_starts[v] : unary_starts[v + 1]].min()
            for i in range(j):
                place = find_edge(starts, neighbours, members[i], v)
                pair[i, j] = -1
                if place >= 0:
                    start = table_starts[edges[place]]
                    pair[i, j] = start
                    low += tables[start : start + cardinalities[members[i]] * cardinalities[v]].min()
            ahead[j] = ahead[j + 1] + low
        separate = ahead[0]
        if separate == np.inf:
            continue
        enough = separate + 1e-12 * max(1.0, abs(separate))
        best = np.inf
        depth = 0
        spent[0] = 0.0
        states[0] = -1
        while depth >= 0 and best > enough:
            v = members[depth]
            states[depth] += 1
            if states[depth] == cardinalities[v]:
                depth -= 1
                continue
            cost = spent[depth] + unaries[unary_starts[v] + states[depth]]
            for i in range(depth):
                if pair[i, depth] >= 0:
                    cost += tables[pair[i, depth] + states[i] * cardinalities[v] + states[depth]]
            if cost + ahead[depth + 1] >= best:
                continue
            if depth == n - 1:
                best = cost
                continue
            depth += 1
            spent[depth] = cost
            states[depth] = -1
        scores[s] = best - separate if best > enough else 0.0
    return scores


@routine
def triangles_and_squares(starts, neighbours, limit):
    """Return at most `limit` triangles, and as many chordless cycles of four variables in their order.

    They are found from their variable of highest degree, by its paths of two pairs to variables of lower
    degrees. If two variables have many common neighbours, only squares through consecutive ones are listed,
    because the others are sums of these.
    """
    n = starts.size - 1
    three, four = np.empty((limit, 3), dtype=np.int64), np.empty((limit, 4), dtype=np.int64)
    n_three, n_four = 0, 0
    head, seen, ends = np.full(n, -1), np.full(n, -1), np.empty(n, dtype=np.int64)
    longest = 0
    for u in range(n):
        paths = 0
        for v in neighbours[starts[u] : starts[u + 1]]:
            paths += starts[v + 1] - starts[v]
        longest = max(longest, paths)
    link_after, middle = np.empty((2, longest), dtype=np.int64)
    common = np.empty(n, dtype=np.int64)
    for u in range(n):
        used, n_ends = 0, 0
        for v in neighbours[starts[u] : starts[u + 1]]:
            if not _before(starts, v, u):
                continue
            for w in neighbours[starts[v] : starts[v + 1]]:
                if not _before(starts, w, u):
                    continue
                if seen[w] != u:
                    seen[w], head[w], ends[n_ends] = u, -1, w
                    n_ends += 1
                link_after[used], middle[used], head[w] = head[w], v, used
                used += 1
        for w in ends[:n_ends]:
            size, link = 0, head[w]
            while link >= 0:
                common[size] = middle[link]
                size += 1
                link = link_after[link]
            if find_edge(starts, neighbours, u, w) >= 0:
                for v in common[:size]:
                    if v < w and n_three < limit:
                        low, high = min(u, v), max(u, w)
                        three[n_three, 0], three[n_three, 2] = low, high
                        three[n_three, 1] = u + v + w - low - high
                        n_three += 1
                continue
            reach = size if size <= _MANY else 1
            for first in range(size):
                for second in range(first + 1, min(size, first + 1 + reach)):
                    v, x = common[first], common[second]
                    if n_four < limit and find_edge(starts, neighbours, v, x) < 0:
                        four[n_four, 0], four[n_four, 1], four[n_four, 2], four[n_four, 3] = u, v, w, x
                        n_four += 1
    return three[:n_three], four[:n_four]


@routine
def _before(starts, u, v):
    """Tell whether u precedes v: by degree, then by number."""
    du, dv = starts[u + 1] - starts[u], starts[v + 1] - starts[v]
    return du < dv or (du == dv and u < v)


@routine
def find_edge(starts, neighbours, u, v):
    """Return the place of v among the ascending neighbours of u, or -1."""
    low, high = starts[u], starts[u + 1]
    while low < high:
        middle = (low + high) // 2
        if neighbours[middle] < v:
            low = middle + 1
        else:
            high = middle
    return low if low < starts[u + 1] and neighbours[low] == v else -1

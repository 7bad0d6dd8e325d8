"""Forests of factors in flat arrays, and their labellings of least energy by dynamic programming."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.graphical.factors import places_of, starts_of
from cutplane.pieces.validation import Array
from cutplane.runtime.compiling import NUMBERS, routine

if TYPE_CHECKING:
    from cutplane.graphical.factor_graph import FactorGraph


def solve_forest(model: FactorGraph) -> tuple[Array | None, float]:
    """Return a labelling of least energy of a model without cycles (None if inf), and that energy."""
    if not model.is_forest:
        raise InvalidInputError(
            f"{model!r} has a cycle or a factor of more than two variables; use eliminate or map."
        )
    trees = Trees.of(model, [np.arange(model.n_factors)])
    _, states = trees.minimise(model.unaries[trees.unary_places(model)])
    labelling = np.empty_like(states)
    labelling[trees.variables] = states
    energy = model.energy(labelling)
    return (labelling, energy) if energy < np.inf else (None, np.inf)


def cover(model: FactorGraph) -> list[Array]:
    """Return sets of factors without cycles that contain each factor once.

    Factors are ordered by the distance of the numbers of their variables. The first forest contains every
    factor that closes no cycle, the second forest the same for the remaining factors, and so on. For example,
    the forests of a grid are the rows with the first column, and the other columns.
    """
    first, last = model.scopes[model.scope_starts[:-1]], model.scopes[model.scope_starts[1:] - 1]
    left, forests = np.argsort(last - first, kind="stable"), []
    while left.size:
        taken = greedy_forest(model.scope_starts, model.scopes, left, model.n_variables)
        forests.append(left[taken])
        left = left[~taken]
    return forests


class Trees(NamedTuple):
    """Forests of factors; each variable of a forest is a separate node, a copy of the variable.

    A variable without factors is a tree by itself in the first forest. The costs of the states of node i are
    ``costs[starts[i]:starts[i + 1]]``; each tree has a node in `roots`. The factors are in the order from the
    roots to the leaves. Factor f has the nodes ``links[link_starts[f]:link_starts[f + 1]]``, which are the
    entries `model_links` of ``model.scopes``; its parent is the node at ``positions[f]``. Its table is a
    table of the model.
    """

    variables: Array
    forests: Array
    starts: Array
    roots: Array
    link_starts: Array
    links: Array
    model_links: Array
    positions: Array
    table_starts: Array
    tables: Array

    @classmethod
    def of(cls, model: FactorGraph, forests: list[Array]) -> Trees:
        """Root the trees of forests of factors."""
        parts, n_nodes = [], 0
        for number, factors in enumerate(forests or [np.empty(0, dtype=np.int64)]):
            links = places_of(model.scope_starts[factors], model.arities[factors])
            starters = np.arange(model.n_variables) if number == 0 else np.unique(model.scopes[links])
            order, positions, variables, roots = hang(
                model.scope_starts, model.scopes, factors, starters, model.n_variables
            )
            node_of = np.empty(model.n_variables, dtype=np.int64)
            node_of[variables] = n_nodes + np.arange(variables.size)
            links = places_of(model.scope_starts[order], model.arities[order])
            nodes = variables, np.full(variables.size, number), node_of[roots], node_of[model.scopes[links]]
            parts.append((*nodes, links, order, positions))
            n_nodes += variables.size
        variables, numbers, roots, links, model_links, order, positions = map(
            np.concatenate, zip(*parts, strict=True)
        )
        return cls(
            variables=variables,
            forests=numbers,
            starts=starts_of(model.cardinalities[variables]),
            roots=roots,
            link_starts=starts_of(model.arities[order]),
            links=links,
            model_links=model_links,
            positions=positions,
            table_starts=model.table_starts[order],
            tables=model.tables,
        )

    @property
    def n_forests(self) -> int:
        """Number of forests, at least 1."""
        return int(self.forests.max(initial=0)) + 1

    def unary_places(self, model: FactorGraph) -> Array:
        """Return the place in ``model.unaries`` of each state of each node."""
        return places_of(model.unary_starts[self.variables], np.diff(self.starts))

    def minimise(self, costs: Array) -> tuple[Array, Array]:
        """Return the least energy of each tree, and the states that attain it; overwrite the costs."""
        minimise_trees(self, costs)
        states = label_trees(self, costs)
        return costs[self.starts[self.roots] + states[self.roots]], states

    def consensus(self, costs: Array) -> Array:
        """Return one labelling of all variables from costs that `minimise` has overwritten."""
        _, first = np.unique(self.variables, return_index=True)
        below = np.ones(self.links.size, dtype=bool)
        below[self.link_starts[:-1] + self.positions] = False
        hangers = np.full(self.variables.size, -1)
        hangers[self.links[below]] = np.repeat(np.arange(self.positions.size), np.diff(self.link_starts) - 1)
        copies = np.argsort(self.variables, kind="stable")
        copy_starts = starts_of(np.bincount(self.variables))
        return consensus(self, self.variables[np.sort(first)], copy_starts, copies, hangers, costs)


@routine
def greedy_forest(scope_starts, scopes, order, n_variables):
    """Return a mask of the factors that remain if, in this order, factors that close a cycle are skipped."""
    above = np.arange(n_variables)
    taken = np.ones(order.size, dtype=np.bool_)
    for number, a in enumerate(order):
        scope = scopes[scope_starts[a] : scope_starts[a + 1]]
        for i in range(scope.size):
            root = _root(above, scope[i])
            for j in range(i):
                taken[number] &= _root(above, scope[j]) != root
        if taken[number]:
            for u in scope:
                above[_root(above, u)] = _root(above, scope[0])
    return taken


@routine
def _root(above, u):
    while above[u] != u:
        above[u] = above[above[u]]
        u = above[u]
    return u


@routine
def hang(scope_starts, scopes, factors, starters, n_variables):
    """Root each tree of a forest at the first of `starters` that it contains.

    Return the factors in the order from the roots to the leaves, the position of the parent variable in the
    scope of each of them, the variables in that order, and the roots. In a graph with cycles, return a
    breadth-first forest of it.
    """
    first = np.zeros(n_variables + 1, dtype=np.int64)
    for a in factors:
        for u in scopes[scope_starts[a] : scope_starts[a + 1]]:
            first[u + 1] += 1
    first = np.cumsum(first)
    filled = first.copy()
    incident = np.empty(first[-1], dtype=np.int64)
    for a in factors:
        for u in scopes[scope_starts[a] : scope_starts[a + 1]]:
            incident[filled[u]] = a
            filled[u] += 1
    order = np.empty(factors.size, dtype=np.int64)
    positions = np.empty(factors.size, dtype=np.int64)
    seen = np.zeros(n_variables, dtype=np.bool_)
    variables = np.empty(n_variables, dtype=np.int64)
    roots = np.empty(starters.size, dtype=np.int64)
    n_roots = n_found = n_seen = n_visited = 0
    for root in starters:
        if seen[root]:
            continue
        seen[root] = True
        roots[n_roots] = variables[n_seen] = root
        n_roots += 1
        n_seen += 1
        while n_visited < n_seen:
            u = variables[n_visited]
            n_visited += 1
            for a in incident[first[u] : first[u + 1]]:
                before, parent = n_seen, 0
                for position in range(scope_starts[a + 1] - scope_starts[a]):
                    v = scopes[scope_starts[a] + position]
                    if v == u:
                        parent = position
                    elif not seen[v]:
                        seen[v] = True
                        variables[n_seen] = v
                        n_seen += 1
                if n_seen > before:
                    order[n_found], positions[n_found] = a, parent
                    n_found += 1
    return order[:n_found], positions[:n_found], variables[:n_seen], roots[:n_roots]


@routine(fastmath=NUMBERS)
def minimise_trees(trees, costs):
    """Add to each node, from the leaves to the roots, the least cost of its subtrees, in place."""
    starts, tables = trees.starts, trees.tables
    scratch = np.empty(starts[-1])
    for f in range(trees.positions.size - 1, -1, -1):
        nodes = trees.links[trees.link_starts[f] : trees.link_starts[f + 1]]
        position, start = trees.positions[f], trees.table_starts[f]
        above = costs[starts[nodes[position]] : starts[nodes[position] + 1]]
        if nodes.size > 2:
            values, step = _sums(starts, nodes, position, tables[start:], costs)
            _add_least(values, step, above)
            continue
        other = nodes[1 - position]
        below = costs[starts[other] : starts[other + 1]]
        if position == 0:
            for i in range(above.size):
                row = tables[start + i * below.size : start + (i + 1) * below.size]
                value = np.inf
                for j in range(below.size):
                    value = min(value, row[j] + below[j])
                above[i] += value
        else:
            least = scratch[: above.size]
            least[:] = np.inf
            for i in range(below.size):
                row = tables[start + i * above.size : start + (i + 1) * above.size]
                for j in range(above.size):
                    least[j] = min(least[j], row[j] + below[i])
            for j in range(above.size):
                above[j] += least[j]


@routine
def label_trees(trees, costs):
    """Return a state of each node in a least labelling of its tree, from the costs of `minimise_trees`."""
    starts, tables = trees.starts, trees.tables
    states = np.zeros(starts.size - 1, dtype=np.int64)
    for root in trees.roots:
        states[root] = np.argmin(costs[starts[root] : starts[root + 1]])
    for f in range(trees.positions.size):
        nodes = trees.links[trees.link_starts[f] : trees.link_starts[f + 1]]
        position, start = trees.positions[f], trees.table_starts[f]
        state = states[nodes[position]]
        if nodes.size > 2:
            values, step = _sums(starts, nodes, position, tables[start:], costs)
            k, place = starts[nodes[position] + 1] - starts[nodes[position]], state * step
            for entry in range(values.size):
                if entry // step % k == state and values[entry] < values[place]:
                    place = entry
            for node in nodes[::-1]:
                size = starts[node + 1] - starts[node]
                states[node] = place % size
                place //= size
            continue
        other = nodes[1 - position]
        below = costs[starts[other] : starts[other + 1]]
        size = starts[nodes[1] + 1] - starts[nodes[1]]
        least = np.inf
        for j in range(below.size):
            entry = state * size + j if position == 0 else j * size + state
            value = tables[start + entry] + below[j]
            if value < least:
                least = value
                states[other] = j
    return states


@routine
def consensus(trees, order, copy_starts, copies, hangers, costs):
    """Return a state of each variable, chosen one after the other in this order.

    Each variable gets the state of least cost in the subtrees of its copies and in the factors above them
    (`hangers`, -1 for a root) whose parent already has a state. The nodes of variable u are
    ``copies[copy_starts[u]:copy_starts[u + 1]]``.
    """
    starts = trees.starts
    labelling = np.full(order.size, -1)
    chosen = costs.copy()  # inf for the other states of nodes whose variable has a state
    for u in order:
        nodes = copies[copy_starts[u] : copy_starts[u + 1]]
        total = np.zeros(starts[nodes[0] + 1] - starts[nodes[0]])
        for node in nodes:
            total += costs[starts[node] : starts[node + 1]]
            f = hangers[node]
            if f < 0:
                continue
            beside = trees.links[trees.link_starts[f] : trees.link_starts[f + 1]]
            if labelling[trees.variables[beside[trees.positions[f]]]] >= 0:
                position = np.argmax(beside == node)
                table = trees.tables[trees.table_starts[f] :]
                values, step = _sums(starts, beside, position, table, chosen)
                _add_least(values, step, total)
        labelling[u] = np.argmin(total)
        for node in nodes:
            chosen[starts[node] : starts[node + 1]] = np.inf
            chosen[starts[node] + labelling[u]] = 0.0
    return labelling


@routine
def _sums(starts, nodes, position, tables, costs):
    """Return the entries of the first table plus the costs of all nodes except the one at `position`.

    The second answer is the stride of that node.
    """
    size = 1
    for node in nodes:
        size *= starts[node + 1] - starts[node]
    values, stride, step = tables[:size].copy(), size, 1
    for i in range(nodes.size):
        below = costs[starts[nodes[i]] : starts[nodes[i] + 1]]
        outer, stride = stride, stride // below.size
        if i == position:
            step = stride
            continue
        for begin in range(0, size, outer):
            for j in range(below.size):
                for place in range(begin + j * stride, begin + (j + 1) * stride):
                    values[place] += below[j]
    return values, step


@routine
def _add_least(values, step, above):
    """Add to each entry of `above` the least of the values of its state, whose stride is `step`."""
    least = np.full(above.size, np.inf)
    for begin in range(0, values.size, step * above.size):
        for j in range(above.size):
            for place in range(begin + j * step, begin + (j + 1) * step):
                least[j] = min(least[j], values[place])
    above += least

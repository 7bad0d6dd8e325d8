"""Forests of factors in flat arrays: their labellings, and the copies of variables that they share.

The multipliers are coordinates of vectors whose sum over the copies is zero, in an orthonormal basis:
coordinate j >= 1 subtracts sqrt(j / (j + 1)) from copy j and adds 1 / sqrt(j (j + 1)) to each copy before it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cutplane.pieces.validation import Array
from cutplane.runtime.compiling import NUMBERS, routine

if TYPE_CHECKING:
    from cutplane.graphical.lagrangian.risk import Trees
    from cutplane.graphical.model import GraphicalModel


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
    scope of each of them, the variables of the forest, and the roots.
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
    by = np.full(n_variables, -1, dtype=np.int64)
    n_roots = n_found = n_seen = 0
    for root in starters:
        if seen[root]:
            continue
        seen[root] = True
        roots[n_roots] = root
        n_roots += 1
        variables[n_seen] = root
        n_seen += 1
        next_one = n_seen - 1
        while next_one < n_seen:
            u = variables[next_one]
            next_one += 1
            for a in incident[first[u] : first[u + 1]]:
                if a == by[u]:
                    continue
                order[n_found] = a
                scope = scopes[scope_starts[a] : scope_starts[a + 1]]
                for position in range(scope.size):
                    v = scope[position]
                    if v == u:
                        positions[n_found] = position
                    else:
                        seen[v] = True
                        by[v] = a
                        variables[n_seen] = v
                        n_seen += 1
                n_found += 1
    return order, positions, variables[:n_seen], roots[:n_roots]


@routine(fastmath=NUMBERS)
def minimise_trees(node_starts, link_starts, links, positions, table_starts, tables, costs):
    """Add to each node, from the leaves to the roots, the least cost of its subtrees, in place.

    Factor f joins the nodes ``links[link_starts[f]:link_starts[f + 1]]``; its parent is the node at
    ``positions[f]``. Its table, in C order, begins at ``table_starts[f]``.
    """
    scratch = np.empty(node_starts[-1])
    for f in range(positions.size - 1, -1, -1):
        nodes = links[link_starts[f] : link_starts[f + 1]]
        position, start = positions[f], table_starts[f]
        top = nodes[position]
        above = costs[node_starts[top] : node_starts[top + 1]]
        if nodes.size > 2:
            _message(node_starts, nodes, position, tables[start:], costs, above)
            continue
        other = nodes[1 - position]
        below = costs[node_starts[other] : node_starts[other + 1]]
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
def _message(node_starts, nodes, position, table, costs, above):
    least = np.full(above.size, np.inf)
    tuple_of = np.zeros(nodes.size, dtype=np.int64)
    entry, more = 0, True
    while more:
        value = table[entry]
        for i in range(nodes.size):
            if i != position:
                value += costs[node_starts[nodes[i]] + tuple_of[i]]
        state = tuple_of[position]
        least[state] = min(least[state], value)
        entry += 1
        more = advance(node_starts, nodes, tuple_of)
    for state in range(above.size):
        above[state] += least[state]


@routine
def advance(node_starts, nodes, tuple_of):
    """Advance to the next entry of a table; tell whether there is one."""
    for i in range(nodes.size - 1, -1, -1):
        tuple_of[i] += 1
        if tuple_of[i] < node_starts[nodes[i] + 1] - node_starts[nodes[i]]:
            return True
        tuple_of[i] = 0
    return False


@routine
def label_trees(node_starts, link_starts, links, positions, table_starts, tables, roots, costs):
    """Return a state of each node in a least labelling of its tree, from the costs of `minimise_trees`."""
    states = np.zeros(node_starts.size - 1, dtype=np.int64)
    for root in roots:
        states[root] = np.argmin(costs[node_starts[root] : node_starts[root + 1]])
    for f in range(positions.size):
        nodes = links[link_starts[f] : link_starts[f + 1]]
        position, start = positions[f], table_starts[f]
        state = states[nodes[position]]
        if nodes.size > 2:
            _label(node_starts, nodes, position, state, tables[start:], costs, states)
            continue
        other = nodes[1 - position]
        below = costs[node_starts[other] : node_starts[other + 1]]
        size = node_starts[nodes[1] + 1] - node_starts[nodes[1]]
        least = np.inf
        for j in range(below.size):
            entry = state * size + j if position == 0 else j * size + state
            value = tables[start + entry] + below[j]
            if value < least:
                least = value
                states[other] = j
    return states


@routine
def _label(node_starts, nodes, position, state, table, costs, states):
    least = np.inf
    tuple_of = np.zeros(nodes.size, dtype=np.int64)
    entry, more = 0, True
    while more:
        if tuple_of[position] == state:
            value = table[entry]
            for i in range(nodes.size):
                if i != position:
                    value += costs[node_starts[nodes[i]] + tuple_of[i]]
            if value < least:
                least = value
                for i in range(nodes.size):
                    states[nodes[i]] = tuple_of[i]
        entry += 1
        more = advance(node_starts, nodes, tuple_of)


@routine
def consensus(
    order,
    copy_starts,
    copies,
    variables,
    hangers,
    node_starts,
    link_starts,
    links,
    positions,
    table_starts,
    tables,
    costs,
):
    """Return a state of each variable, chosen one after the other in this order.

    Each variable gets the state of least cost in the subtrees of its copies and in the factors above them
    (`hangers`, -1 for a root) whose parent already has a state. The nodes of variable u are
    ``copies[copy_starts[u]:copy_starts[u + 1]]``; the other arguments are as in `minimise_trees`.
    """
    labelling = np.full(order.size, -1)
    scratch = np.empty(node_starts[-1])
    for u in order:
        nodes = copies[copy_starts[u] : copy_starts[u + 1]]
        total = scratch[: node_starts[nodes[0] + 1] - node_starts[nodes[0]]]
        total[:] = 0.0
        for node in nodes:
            total += costs[node_starts[node] : node_starts[node + 1]]
            f = hangers[node]
            if f >= 0 and labelling[variables[links[link_starts[f] + positions[f]]]] >= 0:
                beside = links[link_starts[f] : link_starts[f + 1]]
                table = tables[table_starts[f] :]
                total += _conditioned(node, beside, variables, labelling, node_starts, table, costs)
        labelling[u] = np.argmin(total)
    return labelling


@routine
def _conditioned(node, nodes, variables, labelling, node_starts, table, costs):
    """Return the least cost of a factor for each state of a node, given the states chosen so far."""
    least = np.full(node_starts[node + 1] - node_starts[node], np.inf)
    tuple_of = np.zeros(nodes.size, dtype=np.int64)
    entry, more = 0, True
    while more:
        value, own = table[entry], 0
        for i in range(nodes.size):
            decided = labelling[variables[nodes[i]]]
            if nodes[i] == node:
                own = tuple_of[i]
            elif decided < 0:
                value += costs[node_starts[nodes[i]] + tuple_of[i]]
            elif decided != tuple_of[i]:
                value = np.inf
                break
        least[own] = min(least[own], value)
        entry += 1
        more = advance(node_starts, nodes, tuple_of)
    return least


@dataclass(frozen=True, eq=False)
class Copies:
    """The unary costs of the nodes of trees, which add up over the copies to the cost of the variable.

    `parts` are the costs if all multipliers are 0: equal parts. The costs of a node begin at its entry of
    `node_starts`. The nodes of the v-th variable with several copies are ``nodes[starts[v]:starts[v + 1]]``.
    The number of multipliers is `dim`, the sum over variables of the number of states times the number of
    copies minus 1.
    """

    dim: int
    parts: Array
    node_starts: Array
    starts: Array
    nodes: Array

    @classmethod
    def of(cls, model: GraphicalModel, trees: Trees) -> Copies:
        """Divide the unary costs of a model among the nodes of its trees."""
        counts = np.bincount(trees.variables, minlength=model.n_variables)
        shared = counts > 1
        nodes = np.argsort(trees.variables, kind="stable")
        sizes = np.diff(trees.starts)
        where = np.repeat(model.unary_starts[trees.variables] - trees.starts[:-1], sizes)
        return cls(
            dim=int(((counts - 1) * model.cardinalities)[shared].sum()),
            parts=model.unaries[where + np.arange(where.size)] / np.repeat(counts[trees.variables], sizes),
            node_starts=trees.starts,
            starts=np.concatenate([[0], np.cumsum(counts[shared])]),
            nodes=nodes[shared[trees.variables[nodes]]],
        )

    def costs(self, x: Array) -> Array:
        """Return the costs of the states of all nodes at the multipliers x, shape (dim,)."""
        costs = self.parts.copy()
        exchange(self.starts, self.nodes, self.node_starts, x, costs)
        return costs

    def multipliers(self, costs: Array) -> Array:
        """Return the multipliers that add these costs, minus their mean over the copies, to the nodes."""
        x = np.empty(self.dim)
        coordinates(self.starts, self.nodes, self.node_starts, costs, x)
        return x

    def slopes(self, states: Array, blocks: Array, n_blocks: int) -> Array:
        """Return the negative derivatives of the nodes' costs in the multipliers, for a state of each node.
        Row k is the sum over the nodes with the entry k in `blocks`.
        """
        slopes = np.zeros((n_blocks, self.dim))
        disagreement(self.starts, self.nodes, self.node_starts, blocks, states, slopes)
        return slopes


@routine
def exchange(copy_starts, copies, node_starts, x, costs):
    """Add the multipliers x to the costs of the nodes; the sum over the copies of a variable stays the same.

    The copies of the v-th variable are the nodes ``copies[copy_starts[v]:copy_starts[v + 1]]``.
    """
    given = np.empty(node_starts[-1])
    place = 0
    for v in range(copy_starts.size - 1):
        nodes = copies[copy_starts[v] : copy_starts[v + 1]]
        k = node_starts[nodes[0] + 1] - node_starts[nodes[0]]
        given[:k] = 0.0
        for j in range(nodes.size - 1, 0, -1):
            taken, share = math.sqrt(j / (j + 1.0)), 1.0 / math.sqrt(j * (j + 1.0))
            for s in range(k):
                multiplier = x[place + (j - 1) * k + s]
                costs[node_starts[nodes[j]] + s] += given[s] - taken * multiplier
                given[s] += share * multiplier
        for s in range(k):
            costs[node_starts[nodes[0]] + s] += given[s]
        place += (nodes.size - 1) * k


@routine
def coordinates(copy_starts, copies, node_starts, costs, x):
    """Set x to the multipliers for which `exchange` adds these costs minus their mean over the copies."""
    given = np.empty(node_starts[-1])
    place = 0
    for v in range(copy_starts.size - 1):
        nodes = copies[copy_starts[v] : copy_starts[v + 1]]
        k = node_starts[nodes[0] + 1] - node_starts[nodes[0]]
        for s in range(k):
            given[s] = costs[node_starts[nodes[0]] + s]
        for j in range(1, nodes.size):
            taken, share = math.sqrt(j / (j + 1.0)), 1.0 / math.sqrt(j * (j + 1.0))
            for s in range(k):
                cost = costs[node_starts[nodes[j]] + s]
                x[place + s] = share * given[s] - taken * cost
                given[s] += cost
            place += k


@routine
def disagreement(copy_starts, copies, node_starts, blocks, states, slopes):
    """Subtract from `slopes`, one row per block, the derivatives of the energies by the multipliers."""
    place = 0
    for v in range(copy_starts.size - 1):
        nodes = copies[copy_starts[v] : copy_starts[v + 1]]
        k = node_starts[nodes[0] + 1] - node_starts[nodes[0]]
        for j in range(1, nodes.size):
            share = 1.0 / math.sqrt(j * (j + 1.0))
            for i in range(j):
                slopes[blocks[nodes[i]], place + states[nodes[i]]] -= share
            slopes[blocks[nodes[j]], place + states[nodes[j]]] += math.sqrt(j / (j + 1.0))
            place += k

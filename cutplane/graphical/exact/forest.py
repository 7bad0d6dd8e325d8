"""Exact minimisation over trees and chains by dynamic programming."""

from __future__ import annotations

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.graphical.factor_graph import FactorGraph
from cutplane.pieces.validation import Array
from cutplane.runtime.compiling import routine


def solve_forest(model: FactorGraph) -> tuple[Array | None, float]:
    r"""Return a labelling of least energy of a model without cycles (None if inf), and that energy.

    .. math:: m_{u}(x_p) = \min_{x_u} \theta_u(x_u) + \sum_{c \text{ child of } u} m_c(x_u)
              + \theta_{up}(x_u, x_p)

    These messages go from the leaves to the roots, and the best states back; time and memory are O(table
    entries).
    """
    if not model.is_forest:
        raise InvalidInputError(
            f"{model!r} has a cycle or a factor of more than two variables; use eliminate or map."
        )
    if model.n_variables == 0:
        return _checked(model, np.empty(0, dtype=np.int64))
    ends = model.edges
    order = np.argsort(np.concatenate([ends[:, 0], ends[:, 1]]), kind="stable")
    degrees = np.bincount(np.ravel(ends), minlength=model.n_variables)
    labelling = _minimise(
        model.cardinalities,
        model.unary_starts,
        model.unaries,
        np.concatenate([[0], np.cumsum(degrees)]),
        np.concatenate([ends[:, 1], ends[:, 0]])[order],
        order % max(1, model.n_factors),
        model.table_starts,
        model.tables,
    )
    return (None, np.inf) if labelling[0] < 0 else _checked(model, labelling)


def _checked(model: FactorGraph, labelling: Array) -> tuple[Array | None, float]:
    energy = model.energy(labelling)
    return (labelling, energy) if energy < np.inf else (None, np.inf)


@routine
def _minimise(cardinalities, starts, unaries, near_starts, near, near_factors, table_starts, tables):
    """Return a labelling of least energy; its first entry is -1 if all energies are infinite.

    The neighbours of u are ``near[near_starts[u]:near_starts[u + 1]]``, each with a table whose rows belong
    to the smaller of the two variables.
    """
    n = cardinalities.shape[0]
    order, parents, factors = breadth_first(near_starts, near, near_factors)
    costs = unaries.copy()
    choice_starts = np.zeros(n + 1, dtype=np.int64)
    for u in range(n):
        choice_starts[u + 1] = choice_starts[u] + (cardinalities[parents[u]] if parents[u] >= 0 else 0)
    choices = np.empty(choice_starts[n], dtype=np.int32)
    for i in range(n - 1, -1, -1):
        u = order[i]
        p = parents[u]
        if p < 0:
            continue
        mine = costs[starts[u] : starts[u + 1]]
        sums = costs[starts[p] : starts[p + 1]]
        choice = choices[choice_starts[u] : choice_starts[u + 1]]
        table = table_starts[factors[u]]
        step, stride = (cardinalities[p], 1) if u < p else (1, cardinalities[u])
        for y in range(sums.shape[0]):
            place = table + y * stride
            best, state = mine[0] + tables[place], 0
            for x in range(1, mine.shape[0]):
                cost = mine[x] + tables[place + x * step]
                if cost < best:
                    best, state = cost, x
            sums[y] += best
            choice[y] = state
    labelling = np.empty(n, dtype=np.int64)
    for i in range(n):
        u = order[i]
        if parents[u] >= 0:
            labelling[u] = choices[choice_starts[u] + labelling[parents[u]]]
            continue
        labelling[u] = np.argmin(costs[starts[u] : starts[u + 1]])
        if costs[starts[u] + labelling[u]] == np.inf:
            labelling[0] = -1
            break
    return labelling


@routine
def breadth_first(near_starts, near, near_factors):
    """Return the variables, parents before children, and the parent of each (-1: none) and its factor."""
    n = near_starts.shape[0] - 1
    order = np.empty(n, dtype=np.int64)
    parents = np.full(n, -2, dtype=np.int64)
    factors = np.full(n, -1, dtype=np.int64)
    head = tail = 0
    for root in range(n):
        if parents[root] != -2:
            continue
        parents[root] = -1
        order[tail] = root
        tail += 1
        while head < tail:
            u = order[head]
            head += 1
            for i in range(near_starts[u], near_starts[u + 1]):
                if parents[near[i]] == -2:
                    parents[near[i]] = u
                    factors[near[i]] = near_factors[i]
                    order[tail] = near[i]
                    tail += 1
    return order, parents, factors

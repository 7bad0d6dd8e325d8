"""Greedy cliques in a graph, odd sets of them, and a selection of cuts, in compiled code.

Only modules that need numba in any case import this one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from cutplane.pieces.validation import Array
from cutplane.runtime.compiling import routine


@routine
def greedy_cliques(starts, heads, weights, least, limit):
    """Return maximal cliques of weight at least `limit`, one for each arc between nodes above `least`.

    The neighbours of node u are ``heads[starts[u]:starts[u + 1]]``. The clique of an arc contains its two
    nodes, and takes other neighbours of its tail in their order, unless one is not a neighbour of all members
    so far. The result is (starts, members).
    """
    common = np.zeros(starts.shape[0] - 1, np.int64)
    bounds, members = np.zeros(16, np.int64), np.empty(64, np.int64)
    n_cliques = n = 0
    for tail in range(starts.shape[0] - 1):
        first, last = starts[tail], starts[tail + 1]
        for arc in range(first, last):
            if not (tail < heads[arc] and weights[tail] > least and weights[heads[arc]] > least):
                continue
            if n + 1 + last - first > members.shape[0]:
                members = _longer(members, n + 1 + last - first)
            members[n] = tail
            total, size = weights[tail], 1
            for k in range(first, last):
                common[heads[k]] = 1
            for k in range(-1, last - first):
                u = heads[arc] if k < 0 else heads[first + k]
                if common[u] == size:
                    members[n + size] = u
                    total += weights[u]
                    size += 1
                    for i in range(starts[u], starts[u + 1]):
                        if common[heads[i]] > 0:
                            common[heads[i]] += 1
            for k in range(first, last):
                common[heads[k]] = 0
            if total >= limit:
                n += size
                n_cliques += 1
                if n_cliques == bounds.shape[0]:
                    bounds = _longer(bounds, n_cliques)
                bounds[n_cliques] = n
    return bounds[: n_cliques + 1], members[:n]


@routine
def _longer(array, size):
    """Return a copy with at least `size` more entries."""
    more = np.empty(2 * array.shape[0] + size, np.int64)
    more[: array.shape[0]] = array
    return more


@routine
def odd_combinations(table, p, slacks, least):
    """Return the odd sets of rows whose sums, halved and rounded down, are violated by more than `least` / 2.

    The sum of an odd set loses half of its slacks and of the p with odd coefficients by the rounding, and
    gains 1/2. The columns of largest p are made even in all rows except one by elimination modulo 2 (Koster,
    Zymolka, Kutschka 2009, doi:10.1007/s00453-008-9178-2). Columns are in descending order of p.
    """
    n, m = table.shape
    odd, used = table.astype(np.uint8), np.eye(n, dtype=np.uint8)
    waiting, losses = np.ones(n, np.bool_), np.empty(n)
    found, count = np.empty((16, n), np.uint8), 0
    for i in range(n):
        losses[i] = slacks[i] + _total(odd[i], p, 0)
    for column in range(m):
        pivot = -1
        for i in range(n):
            if waiting[i] and odd[i, column] and (pivot < 0 or losses[i] < losses[pivot]):
                pivot = i
        if pivot < 0:
            continue
        waiting[pivot] = False
        for i in range(n):
            if i == pivot or not odd[i, column] or not waiting[i]:
                continue
            odd[i, column:] ^= odd[pivot, column:]
            used[i] ^= used[pivot]
            losses[i] = _total(used[i], slacks, 0) + _total(odd[i], p, column)
            if losses[i] < 1.0 - least and used[i].sum() % 2 == 1:
                if count == found.shape[0]:
                    more = np.empty((2 * count, n), np.uint8)
                    more[:count] = found
                    found = more
                found[count] = used[i]
                count += 1
    return found[:count]


@routine
def _total(chosen, weights, first):
    """Return the sum of the chosen weights from the index `first`."""
    total = 0.0
    for i in range(first, chosen.shape[0]):
        if chosen[i]:
            total += weights[i]
    return total


def select(normals: Any, violations: Array, cosine: float) -> Array:
    """Return the numbers of deep half-spaces with different directions, the deepest first.

    Half-spaces are selected greedily by their depth, violation / norm of the normal. A half-space is skipped
    if its normal and a selected normal have a larger cosine. A violated zero row is selected first; rows that
    are not violated are never selected (Achterberg 2007, section 3.3.8, doi:10.14279/depositonce-1634).
    """
    matrix: Any = sparse.csr_array(normals, copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    norms = np.sqrt((matrix * matrix).sum(axis=1))
    with np.errstate(divide="ignore", invalid="ignore"):
        depths = violations / norms
    order = np.argsort(-depths, kind="stable")
    order = order[violations[order] > 0.0]
    rows: Any = matrix[order]
    rows.data /= np.repeat(norms[order], np.diff(rows.indptr))
    columns = rows.tocsc()
    kept = _spread(
        (rows.indptr, rows.indices, rows.data), (columns.indptr, columns.indices, columns.data), cosine
    )
    return order[kept]


@routine
def _spread(rows, columns, cosine):
    """Return the rows to keep: unit rows whose products with the rows kept before are at most `cosine`.

    The matrix is given twice, as (starts, indices, values) of its rows and of its columns. Each kept row is
    multiplied only with the rows that share a column with it.
    """
    row_starts, row_columns, row_values = rows
    starts, members, values = columns
    n = row_starts.shape[0] - 1
    products = np.zeros(n)
    touched = np.empty(n, np.int64)
    open_rows = np.ones(n, np.bool_)
    kept = np.empty(n, np.int64)
    count = 0
    for row in range(n):
        if not open_rows[row]:
            continue
        kept[count] = row
        count += 1
        n_touched = 0
        for k in range(row_starts[row], row_starts[row + 1]):
            for i in range(starts[row_columns[k]], starts[row_columns[k] + 1]):
                other = members[i]
                if other > row and open_rows[other]:
                    if products[other] == 0.0:
                        touched[n_touched] = other
                        n_touched += 1
                    products[other] += row_values[k] * values[i]
        for i in range(n_touched):
            open_rows[touched[i]] &= products[touched[i]] <= cosine
            products[touched[i]] = 0.0
    return kept[:count]

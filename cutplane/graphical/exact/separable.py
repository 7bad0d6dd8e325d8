"""Tables that are sums of a term of one variable and a term of the others."""

from __future__ import annotations

import numpy as np

from cutplane.graphical.factors import GivenFactors, by_shape, starts_of
from cutplane.pieces.validation import Array

_LIKELY = 1e-9
"""Relative size of one second difference up to which all are computed, because most tables fail here."""


def separated(cardinalities: Array, given: GivenFactors, tolerance: float) -> GivenFactors:
    """Replace each table that is a sum t(x, y) = a(x) + b(y), with a variable x, by a and b.

    For example, the table of a child of two parents is such a sum if the child's probabilities depend on one
    parent only. Each replacement changes energies by at most the tolerance, in the unit of the costs.
    """
    scope_starts, scopes, table_starts, tables = given
    waiting, done = [], []
    every = np.arange(table_starts.size)
    for factors, rows, shape in by_shape(cardinalities, scope_starts, scopes, every):
        entries = table_starts[factors, None] + np.arange(np.prod(shape))
        waiting.append((rows, tables[entries].reshape(-1, *shape)))
    while waiting:
        scopes, tables = waiting.pop()
        for axis in range(scopes.shape[1]):
            if scopes.size <= len(scopes):
                break  # tables of one variable, or none
            found, own, others = _terms(tables, axis, tolerance)
            if found.size:
                done.append((scopes[found, axis : axis + 1], own))
                shape = np.delete(tables.shape[1:], axis)
                waiting.append((np.delete(scopes[found], axis, axis=1), others.reshape(-1, *shape)))
                scopes, tables = np.delete(scopes, found, axis=0), np.delete(tables, found, axis=0)
        done.append((scopes, tables))
    arities = np.concatenate([np.full(len(scopes), scopes.shape[1]) for scopes, _ in done])
    sizes = np.concatenate([np.full(len(tables), tables[:1].size) for _, tables in done])
    return GivenFactors(
        starts_of(arities),
        np.concatenate([scopes.ravel() for scopes, _ in done]),
        starts_of(sizes)[:-1],
        np.concatenate([tables.ravel() for _, tables in done]),
    )


def _terms(tables: Array, axis: int, tolerance: float) -> tuple[Array, Array, Array]:
    """Return which of n tables are sums, and their terms of the variable at `axis` and of the others.

    `tables` has the shape (n, k_1, k_2, ...); the terms have one row for each table that is a sum.
    """
    t = np.moveaxis(tables, axis + 1, 1)
    t = t.reshape(*t.shape[:2], -1)
    corners = t[:, [0, 0, -1, -1], [0, -1, 0, -1]]
    with np.errstate(invalid="ignore"):
        second = np.abs(corners @ [1.0, -1.0, -1.0, 1.0])
        found = np.flatnonzero(~(second > _LIKELY * np.abs(corners).sum(axis=1)))
        t = t[found]
        finite = t < np.inf
        n_rows, n_columns = (np.count_nonzero(finite.any(axis=axis), axis=1) for axis in (2, 1))
        n_entries = np.count_nonzero(finite, axis=(1, 2))
        each, first = np.arange(found.size), finite.any(axis=1).argmax(axis=1)
        others = t[each, t[each, :, first].argmin(axis=1)]
        rises = np.where(finite, t - others[:, None], np.inf)
        own = rises.min(axis=2, initial=np.inf)
        spread = np.where(finite, rises - own[:, :, None], 0.0).max(axis=(1, 2), initial=0.0)
    kept = (n_entries == n_rows * n_columns) & (n_entries > 0) & (spread <= tolerance)
    return found[kept], np.maximum(own[kept], 0.0), others[kept]

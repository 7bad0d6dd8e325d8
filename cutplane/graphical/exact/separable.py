"""Tables that are sums of a term of one variable and a term of the others."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cutplane.graphical.factors import GivenFactors, places_of, starts_of
from cutplane.pieces.validation import Array

_LIKELY = 1e-9
"""Relative size of one second difference up to which all are computed, because most tables fail here."""


def separated(cardinalities: Array, given: GivenFactors, tolerance: float) -> GivenFactors:
    """Replace each table that is a sum t(x, y) = a(x) + b(y), with a variable x, by a and b.

    Then the variable x is not in the factor. The table of a child of two parents is such a sum if the
    child's probabilities depend on one parent only. A sum may differ from its table by the tolerance.
    """
    waiting, done = list(_by_shape(cardinalities, given)), []
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


def _by_shape(cardinalities: Array, given: GivenFactors) -> Iterator[tuple[Array, Array]]:
    """Yield the scopes and the tables of all factors of one shape."""
    arities = np.diff(given.scope_starts)
    for arity in np.unique(arities).tolist():
        factors = np.flatnonzero(arities == arity)
        scopes = given.scopes[given.scope_starts[factors, None] + np.arange(arity)]
        shapes, group = np.unique(cardinalities[scopes], axis=0, return_inverse=True)
        for number, shape in enumerate(shapes):
            chosen = group.ravel() == number
            sizes = np.full(np.count_nonzero(chosen), np.prod(shape, dtype=np.int64))
            tables = given.tables[places_of(given.table_starts[factors[chosen]], sizes)]
            yield scopes[chosen], tables.reshape(-1, *shape)


def _terms(tables: Array, axis: int, tolerance: float) -> tuple[Array, Array, Array]:
    """Return the tables that are sums, their terms of the variable at `axis`, and those of the others."""
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

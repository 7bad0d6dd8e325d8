"""Binary models of pairs, simplified: E(x) = constant + sum of fields x_u + sum of couplings |x_u - x_v|."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from cutplane.graphical.factor_graph import FactorGraph
from cutplane.pieces.validation import Array

_ROUNDING = 1e-14
_EPS = float(np.finfo(np.float64).eps)
_OPERATIONS = 16
"""On each entry of a table, besides the sum over the pairs of a variable."""


class BinaryPairs(NamedTuple):
    """The energy of a binary model of pairs in terms of its variables and of which of them differ.

    `states` is the only state left of a variable, or -1; no field or pair has to do with a fixed variable.
    The constant is inf if fixing what has to be fixed shows that no labelling is allowed. Of pairs that
    `must_differ` or `must_agree`, two opposite tuples are forbidden; `forbidden` is the only such tuple of a
    pair, or (-1, -1), which fields and couplings count as a finite one. `rounding` bounds the errors of all
    these in an energy.
    """

    constant: float
    states: Array
    fields: Array
    couplings: Array
    must_differ: Array
    must_agree: Array
    forbidden: Array
    rounding: float


def binary_pairs(model: FactorGraph) -> BinaryPairs:
    """Return a binary model of pairs in this form, having fixed the variables that have one state left.

    What is within rounding of zero is dropped; the least that it may contribute goes to the constant, so that
    bounds remain bounds.
    """
    n, (first, second) = model.n_variables, model.edges.T
    unaries, tables = _padded(model)
    sizes = _largest(unaries).sum() + _largest(tables.reshape(-1, 4)).sum()
    _propagate(unaries, tables, first, second)
    banned: Any = np.isinf(tables)
    count = banned.sum(axis=(1, 2))
    must_differ, must_agree = (count == 2) & banned[:, 0, 0], (count == 2) & banned[:, 0, 1]
    forbidden = np.full((model.n_factors, 2), -1)
    single = np.flatnonzero(count == 1)
    forbidden[single] = np.argwhere(banned[single])[:, 1:]
    _fill(tables, must_differ, must_agree, single, forbidden[single])

    (a, b), (c, d) = np.moveaxis(tables, 0, -1)
    couplings = 0.5 * ((b - a) + (c - d))
    for_first, for_second = 0.5 * ((c - a) - (b - d)), 0.5 * ((b - a) - (c - d))
    fixed = np.isinf(unaries).any(axis=1)
    states = np.where(fixed, unaries.argmin(axis=1), -1)
    constants = [model.constant, *unaries[fixed].min(axis=1).tolist(), *a.tolist()]
    unaries[fixed] = 0.0
    fields = unaries[:, 1] - unaries[:, 0]
    fields += np.bincount(first, for_first, n) + np.bincount(second, for_second, n)
    largest = np.abs(tables).max(axis=(1, 2), initial=0.0)
    scale = np.abs(unaries).max(axis=1, initial=0.0)
    scale += np.bincount(first, largest, n) + np.bincount(second, largest, n)
    constants += [*unaries[:, 0].tolist(), _drop(fields, scale), _drop(couplings, largest)]
    most = int(np.bincount(np.concatenate([first, second]), minlength=1).max())
    rounding = _EPS * (most + _OPERATIONS) * float(sizes + _largest(tables.reshape(-1, 4)).sum())
    constant = math.fsum(constants) if np.isfinite(constants).all() else math.inf
    return BinaryPairs(constant, states, fields, couplings, must_differ, must_agree, forbidden, rounding)


def _largest(rows: Array) -> Array:
    """Return the largest size of a finite entry of each row."""
    return np.abs(rows).max(axis=1, where=np.isfinite(rows), initial=0.0)


def _padded(model: FactorGraph) -> tuple[Array, Array]:
    """Return unaries of shape (n, 2) and tables of shape (m, 2, 2); a state that is missing costs inf."""
    unaries = np.full((model.n_variables, 2), np.inf)
    unaries[:, 0] = model.unaries[model.unary_starts[:-1]]
    two = model.cardinalities == 2
    unaries[two, 1] = model.unaries[model.unary_starts[:-1][two] + 1]
    states = np.arange(2)
    last = model.cardinalities[model.edges] - 1
    rows, columns = np.minimum(states, last[:, :1]), np.minimum(states, last[:, 1:])
    places = rows[:, :, None] * (last[:, 1] + 1)[:, None, None] + columns[:, None, :]
    return unaries, model.tables[model.table_starts[:, None, None] + places]


def _propagate(unaries: Array, tables: Array, first: Array, second: Array) -> None:
    """Fix variables that have one state left, move their pairs into the unaries of the others; in place."""
    while True:
        for axis, ends in ((2, first), (1, second)):
            forbidden: Any = np.isinf(tables).all(axis=axis)
            pair, state = np.nonzero(forbidden)
            unaries[ends[pair], state] = np.inf
        fixed: Any = np.isinf(unaries).any(axis=1)
        state = unaries.argmin(axis=1)
        pending = (fixed[first] | fixed[second]) & tables.any(axis=(1, 2))
        if not pending.any():
            return
        for near, far, turned in ((first, second, False), (second, first, True)):
            pairs = np.flatnonzero(pending & fixed[near])
            views = np.swapaxes(tables[pairs], 1, 2) if turned else tables[pairs]
            np.add.at(unaries, far[pairs], views[np.arange(pairs.size), state[near[pairs]]])
            tables[pairs] = 0.0


def _fill(tables: Array, must_differ: Array, must_agree: Array, single: Array, places: Array) -> None:
    """Give forbidden tuples finite costs that make no coupling; in place."""
    tables[must_differ, [[0], [1]], [[0], [1]]] = 0.5 * (
        tables[must_differ, 0, 1] + tables[must_differ, 1, 0]
    )
    tables[must_agree, [[0], [1]], [[1], [0]]] = 0.5 * (tables[must_agree, 0, 0] + tables[must_agree, 1, 1])
    i, j = places.T
    beside = tables[single, 1 - i, j] + tables[single, i, 1 - j]
    tables[single, i, j] = beside - tables[single, 1 - i, 1 - j]


def _drop(weights: Array, sizes: Array) -> float:
    """Set weights that are rounding errors of terms of these sizes to zero; return their least sum."""
    noise = np.abs(weights) <= _ROUNDING * sizes
    least = float(np.minimum(weights[noise], 0.0).sum())
    weights[noise] = 0.0
    return least

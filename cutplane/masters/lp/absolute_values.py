"""Absolute values in a linear programme as differences of nonnegative columns, which need no rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.pieces.forms import LinearForm
from cutplane.pieces.validation import Array


@dataclass(frozen=True)
class AbsoluteValues:
    """A linear form in which each pair x_j, t_k with t_k >= |x_j| at a cost has become p - q and p + q.

    From a cold start the simplex method takes a pivot for every such row, and none without them. The columns
    of x_j and t_k hold p >= 0 and q >= 0.

    Attributes
    ----------
    form : LinearForm
        Without the rows of the pairs.
    x, t : ndarray
        The columns of the pairs.
    under, over : ndarray
        The rows ``x_j - t_k <= 0`` and ``x_j + t_k >= 0`` that are gone.
    """

    form: LinearForm
    x: Array
    t: Array
    under: Array
    over: Array
    n_rows: int

    @classmethod
    def of(cls, form: LinearForm) -> AbsoluteValues:
        """Find the pairs; there may be none."""
        x, t, under, over = _pairs(form)
        if not x.size:
            return cls(form, x, t, under, over, form.row_lower.size)
        cost, lower, upper = form.cost.copy(), form.lower.copy(), form.upper.copy()
        cost[x], cost[t] = form.cost[t] + form.cost[x], form.cost[t] - form.cost[x]
        upper[t], lower[x], lower[t] = -lower[x], 0.0, 0.0
        kept = np.ones(form.row_lower.size, dtype=bool)
        kept[under] = kept[over] = False
        rows = sparse.csc_array(form.rows[kept])
        apart = sparse.csr_array((-np.ones(x.size), (x, t)), shape=(cost.size, cost.size))
        split: Any = rows + rows @ apart
        left = LinearForm(
            cost, lower, upper, sparse.csr_array(split), form.row_lower[kept], form.row_upper[kept]
        )
        return cls(left, x, t, under, over, form.row_lower.size)

    def columns(self, slopes: Any) -> Any:
        """Return rows over x as rows over the columns."""
        if not self.x.size:
            return slopes
        dim, wide = slopes.shape[1], self.form.n_columns
        ones = np.ones(dim), (np.arange(dim), np.arange(dim))
        apart = sparse.csr_array((-np.ones(self.x.size), (self.x, self.t)), shape=(dim, wide))
        return slopes @ (sparse.csr_array(ones, shape=(dim, wide)) + apart)

    def point(self, columns: Array) -> Array:
        """Return the columns with x where p is."""
        columns[self.x] -= columns[self.t]
        return columns

    def multipliers(self, kept: Array, reduced_costs: Array) -> Array:
        """Return the multipliers of all rows, from those of the rows that are left and the reduced costs.

        Those of a pair combine to what the other rows leave of the slope along x_j, at most its cost.
        """
        if not self.x.size:
            return kept
        every = np.zeros(self.n_rows)
        others = np.ones(self.n_rows, dtype=bool)
        others[self.under] = others[self.over] = False
        every[others] = kept
        rest = 0.5 * (reduced_costs[self.x] - reduced_costs[self.t])
        price = 0.5 * (self.form.cost[self.x] + self.form.cost[self.t])
        every[self.over] = np.clip(rest, 0.0, price)
        every[self.under] = np.clip(rest, -price, 0.0)
        return every


def _pairs(form: LinearForm) -> tuple[Array, Array, Array, Array]:
    """Return columns x and t, and rows x - t <= 0 and x + t >= 0, where nothing else asks for t."""
    rows = form.rows
    rows.sort_indices()
    two = np.flatnonzero(np.diff(rows.indptr) == 2)
    at = rows.indptr[two]
    first, second = rows.indices[at], rows.indices[at + 1]
    ones = rows.data[at] == 1.0
    low, high = form.row_lower[two], form.row_upper[two]
    under = ones & (rows.data[at + 1] == -1.0) & (high == 0.0) & np.isinf(low)
    over = ones & (rows.data[at + 1] == 1.0) & (low == 0.0) & np.isinf(high)
    count = np.bincount(rows.indices, minlength=form.n_columns)
    auxiliary = (count == 2) & (form.lower == 0.0) & np.isinf(form.upper) & (form.cost >= 0.0)
    straddles = (form.lower <= 0.0) & (form.upper >= 0.0)
    keys = first.astype(np.int64) * form.n_columns + second
    fits = auxiliary[second] & straddles[first]
    _, mine, theirs = np.intersect1d(keys[under & fits], keys[over & fits], return_indices=True)
    mine, theirs = np.flatnonzero(under & fits)[mine], np.flatnonzero(over & fits)[theirs]
    _, single = np.unique(first[mine], return_index=True)
    mine, theirs = mine[single], theirs[single]
    return first[mine], second[mine], two[mine], two[theirs]

"""The dual of the reduced problem, and its state between solves: Gram matrix, multipliers and factor."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cutplane.masters import active_set
from cutplane.masters.base import Rows
from cutplane.masters.rows import capacity_for, grown, products, survivors
from cutplane.pieces.validation import Array
from cutplane.runtime.compiling import SUMS, routine

_RENEW = 100
"""Number of steps after which the factor is computed again, because updates accumulate rounding errors."""
_FEW = 4
"""Least ratio of all coordinates to changed ones for an update of the Gram matrix, because below it a new
matrix is faster."""
_UPDATES = 20
"""Largest number of updates in a row, because each adds rounding errors."""
_PART = 8192
"""Number of columns that are copied at a time, because their products then fit into the cache."""
_CANCELLED = 0.5
"""Least share of a diagonal entry that must remain after an update, because a smaller rest has lost
digits."""


class DualQP:
    """Maximise q'a - 1/2 a'Ha over multipliers a >= 0 that sum to 1 over each block; H = A diag(metric) A'.

    Rows A, multipliers, `hessian` and the factor of the active set persist between solves. If there is no
    metric, H = A A'. `constraints` are the positions of rows without a block; `finite` tells whether H is
    finite, `complete` whether every block has a row.
    """

    def __init__(self, n_blocks: int):
        self.n_blocks = n_blocks
        self.count = 0
        self.metric: Array | None = None
        self.hessian = np.zeros((16, 16))
        self._updates = 0
        self.finite, self.complete = True, False
        self.constraints = np.empty(0, np.int64)
        self._ids, self._group, self._free = (np.zeros(16, np.int64) for _ in range(3))
        self._a, self._g, self._ray, self._moved, self._base = (np.zeros(16) for _ in range(5))
        self._where = np.full(16, -1)
        self._factor, self._sums = np.zeros((16, 16)), np.zeros((16, n_blocks))
        self._n_free = self._moves = 0
        self._sigma = 0.0

    @property
    def multipliers(self) -> Array:
        """A copy of a, shape (K,)."""
        return self._a[: self.count].copy()

    @property
    def moved(self) -> Array:
        """The change of a by the last solve or refinement, shape (K,)."""
        return self._moved[: self.count]

    @property
    def support(self) -> Array:
        """The positions of the rows that may have a positive multiplier."""
        return self._free[: self._n_free]

    # ------------------------------------------------------------------- rows

    def sync(self, rows: Rows) -> bool:
        """Delete the rows that have disappeared and append the new ones; tell whether any was deleted."""
        ids, known = rows.ids, self.count
        count = ids.shape[0]
        deleted = known > 0 and (count < known or ids[known - 1] != self._ids[known - 1])
        if deleted:
            self._keep(survivors(self._ids[:known], ids))
        if not deleted and count == known:
            return False
        known = self.count
        if count > self._ids.shape[0]:
            self._grow(capacity_for(count))
        self._ids[known:count] = ids[known:]
        self._group[known:count] = rows.blocks[known:]
        self._a[known:count] = 0.0
        self._where[known:count] = -1
        self._extend(rows.slopes, known)
        self.count = count
        new = 0 if deleted or not (self.complete and self.finite) else known
        self.finite = bool(np.isfinite(self.hessian.diagonal()[new:count]).all())
        beside = self._group[new:count] < 0
        if new == 0:
            self.constraints = np.flatnonzero(beside)
            cuts = self._group[:count][~beside]
            self.complete = bool(np.bincount(cuts, minlength=self.n_blocks).all())
        elif beside.any():
            self.constraints = np.concatenate([self.constraints, new + np.flatnonzero(beside)])
        return deleted

    def _grow(self, capacity: int) -> None:
        for name in ("_ids", "_group", "_a", "_g", "_ray", "_moved", "_base", "_free", "_where", "_sums"):
            setattr(self, name, grown(getattr(self, name), capacity))
        self._factor = grown(self._factor, capacity, square=True)
        self.hessian = grown(self.hessian, capacity, square=True)

    def _keep(self, stays: Array) -> None:
        for position in range(self._n_free - 1, -1, -1):
            if not stays[self._free[position]]:
                self._n_free = active_set.delete(*self._state, self._n_free, position)
        free, kept = self.support, np.flatnonzero(stays)
        free[:] = (np.cumsum(stays) - 1)[free]
        self.count = count = kept.shape[0]
        for array in (self._ids, self._group, self._a):
            array[:count] = array[kept]
        self._where[:] = -1
        self._where[free] = np.arange(self._n_free)
        self.hessian[:count, :count] = self.hessian[np.ix_(kept, kept)]

    def _extend(self, slopes: Any, known: int) -> None:
        """Compute the entries of H for the rows from position `known` on."""
        count = slopes.shape[0]
        if count == known + 1:
            row = slopes[known] if self.metric is None else slopes[known] * self.metric
            self.hessian[:count, known] = self.hessian[known, :count] = products(slopes, row)
            return
        metric = np.ones(slopes.shape[1]) if self.metric is None else self.metric
        among = _gram(slopes, metric, np.flatnonzero(metric), known)
        self.hessian[:count, known:count] = among
        self.hessian[known:count, :count] = among.T

    # ----------------------------------------------------------------- metric

    def set_metric(self, metric: Array, slopes: Any) -> None:
        """Change the metric; O(K^2 dim), or less by an update if few coordinates change."""
        if self.metric is not None and np.array_equal(metric, self.metric):
            return
        slopes, where = slopes[: self.count], np.flatnonzero(metric)
        few = 2 * where.size <= metric.size
        if few or not self._update(metric, slopes):
            where = where if few else np.arange(metric.size)
            self.hessian[: self.count, : self.count] = _gram(slopes, metric, where)
            self._updates = 0
        self.metric, self._moves = metric, _RENEW

    def _update(self, metric: Array, slopes: Any) -> bool:
        """Add the difference of the metrics; return False if this would be slow, or would lose digits."""
        if self.metric is None or self._updates == _UPDATES:
            return False
        changed = np.flatnonzero(metric != self.metric)
        if changed.size > metric.size // _FEW:
            return False
        leading = self.hessian[: self.count, : self.count]
        before = leading.diagonal().copy()
        leading += _gram(slopes, metric - self.metric, changed)
        self._updates += 1
        return bool((leading.diagonal() >= _CANCELLED * before).all())

    def in_metric(self, v: Array) -> Array:
        """Return diag(metric) v."""
        return v if self.metric is None else self.metric * v

    def length(self, step: Array) -> float:
        """Return sqrt(a'Ha), given step = diag(metric) A'a; coordinates with metric 0 are omitted."""
        if self.metric is None:
            return math.sqrt(float(step @ step))
        free = self.metric > 0.0
        return math.sqrt(float(step[free] ** 2 @ (1.0 / self.metric[free])))

    # ------------------------------------------------------------------ solve

    def maximise(self, heights: Array, offsets: Array, t: float, tol: float) -> tuple[int, float, float]:
        """Solve for q = heights / t from the last multipliers, up to a duality gap of tol.

        The heights are offsets plus products, so that their rounding errors are relative to the offsets, too.
        Return one of the statuses of `active_set`, the gap, and its rounding error.
        """
        self._renew()
        return self._improve(tol, 0.0, (heights, offsets, t))

    def begin(self, q: Array) -> None:
        """Make the multipliers feasible and compute the factor, without a solve."""
        self._renew()
        state = self._group, self._sigma, *self._state
        self._n_free = active_set.start(self.hessian, q, *state, self._n_free, self._a, self.count)

    def set_multipliers(self, multipliers: Array) -> None:
        """Replace the last solution by these feasible multipliers."""
        self._a[: self.count] = multipliers
        for row in np.flatnonzero(multipliers):
            if self._where[row] < 0:
                state = self._group, self._sigma, *self._state
                self._n_free = active_set.append(self.hessian, *state, self._n_free, row)

    def refine(self, gradient: Array, base: Array, reach: float, tol: float) -> tuple[int, float, float]:
        """Continue from the last solution, given a more exact gradient there; see `active_set.maximise`."""
        self._g[: self.count], self._base[: self.count] = gradient, base
        return self._improve(tol, reach, None)

    def restart(self) -> None:
        """Discard the last solution."""
        self._n_free = 0
        self._a[:] = 0.0
        self._where[:] = -1

    @property
    def _state(self) -> tuple[Array, Array, Array, Array]:
        return self._factor, self._sums, self._free, self._where

    def _renew(self) -> None:
        if self._n_free == 0 or self._moves >= _RENEW:
            self._sigma = float(self.hessian.diagonal()[: self.count].mean()) or 1.0
            active_set.factorise(self.hessian, self._group, self._sigma, *self._state, self._n_free)
            self._moves = 0

    def _improve(self, tol: float, reach: float, linear: Any) -> tuple[int, float, float]:
        status, self._n_free, gap, error, moves = active_set.maximise(
            self.hessian, self._base, self._group, self._sigma, *self._state, self._n_free,
            self._a, self._g, self.count, reach, tol, self._ray, self._moved, linear,
        )  # fmt: skip
        self._moves += moves
        return status, gap, error

    def newton_step(self, gradient: Array) -> Array:
        """Return the step to the maximiser with the same block sums, given the gradient on the support."""
        step = gradient.copy()
        active_set.newton(self._factor, self._sums, self._n_free, step)
        return step

    @property
    def ray(self) -> Array:
        """The last direction on the support; the problem is unbounded along it if the status says so."""
        return self._ray[: self._n_free]

    # -------------------------------------------------------------- read out

    def combination(self, slopes: Any) -> Array:
        """Return A'a."""
        return combined(self._a, slopes, self.support)

    def model(self, heights: Array) -> float:
        """Return the model's value: the sum over the blocks of the largest height of a row."""
        group = self._group[: self.count]
        if self.n_blocks == 1 and not self.constraints.size:
            return float(heights.max())
        top = np.full(self.n_blocks, -np.inf)
        cuts = group >= 0
        np.maximum.at(top, group[cuts], heights[cuts])
        return float(top.sum())

    def size(self, base: Array) -> float:
        """Return the size of the terms of the objective, given the constant part of the gradient."""
        count = self.count
        return float(np.abs(self._a[:count]) @ (np.abs(base) + np.abs(self._g[:count])))

    def curvatures(self) -> Array:
        """Return bounds of the entries of Ha, shape (K,)."""
        lengths = np.sqrt(self.hessian.diagonal()[: self.count])
        return lengths * float(np.abs(self._a[: self.count]) @ lengths)


def _gram(slopes: Any, metric: Array, where: Array, first: int = 0) -> Array:
    """Return the products of all rows with the rows from `first` on, in the metric, over some coordinates."""
    total = np.zeros((slopes.shape[0], slopes.shape[0] - first))
    for begin in range(0, where.size, _PART):
        part = slice(begin, begin + _PART) if where.size == metric.size else where[begin : begin + _PART]
        columns = slopes[:, part]
        total += columns @ (columns[first:] * metric[part]).T
    return total


def combined(weights: Array, slopes: Any, chosen: Array) -> Array:
    """Return the sum of the chosen rows times their weights, without a pass over the other rows."""
    if not (slopes.dtype == np.float64 and slopes.flags.c_contiguous):
        slopes = np.ascontiguousarray(slopes, dtype=np.float64)
    total = np.zeros(slopes.shape[1])
    add(slopes, weights, chosen, total)
    return total


@routine(fastmath=SUMS)
def add(rows, weights, chosen, out):
    """Add the weighted sum of the chosen rows to `out`."""
    for p in range(chosen.shape[0]):
        i = chosen[p]
        t = weights[i]
        row = rows[i]
        for j in range(out.shape[0]):
            out[j] += t * row[j]

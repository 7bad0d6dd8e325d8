"""The dual of the reduced problem, and what is kept of it between solves."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cutplane.masters.base import Rows
from cutplane.masters.qp import active_set
from cutplane.masters.qp.gram import Gram, capacity_for, grown
from cutplane.masters.qp.stack import Stack
from cutplane.masters.rows import survivors
from cutplane.pieces.validation import Array
from cutplane.runtime.compiling import SUMS, routine

_RENEW = 100  # moves after which the errors of the factor's updates are worth a new one


class DualQP:
    """Maximise q'a - 1/2 a'Ha over multipliers a >= 0 that sum to 1 over each block; H = A diag(metric) A'.

    A metric of None stands for ones. Coordinates without weight, where `unweighted` is 1 and `metric` is 0,
    enter H with a factor `kappa` of their own, which can be changed cheaply.
    """

    def __init__(self, n_blocks: int, metric: Array | None, unweighted: Array | None):
        self.n_blocks = n_blocks
        self.count = 0
        self.gram = Gram(metric)
        self.unweighted = None if unweighted is None else Gram(unweighted)
        self.kappa = 1.0
        self.finite = True
        """Whether every entry of H is."""
        self.complete = False
        """Whether every block has a row."""
        self.constraints = np.empty(0, np.int64)
        """The numbers of the rows of no block."""
        self._ids = np.zeros(16, np.int64)
        self._group = np.zeros(16, np.int64)
        self._a = np.zeros(16)
        self._g = np.zeros(16)
        self._ray = np.zeros(16)
        self._moved = np.zeros(16)
        self._free = np.zeros(16, np.int64)
        self._where = np.full(16, -1)
        self._factor = np.zeros((16, 16))
        self._sums = np.zeros((16, n_blocks))
        self._mixed = np.zeros((0, 0)) if unweighted is None else np.zeros((16, 16))
        self._n_free = 0
        self._sigma = 0.0
        self._moves = 0
        self._last: tuple[bytes, int, Array] | None = None  # weights of so many rows, and their combination

    @property
    def hessian(self) -> Array:
        """H, shape (capacity, capacity)."""
        return self.gram.matrix if self.unweighted is None else self._mixed

    @property
    def multipliers(self) -> Array:
        """A copy of a, shape (K,)."""
        return self._a[: self.count].copy()

    @property
    def gradient(self) -> Array:
        """The vector q - Ha, shape (K,)."""
        return self._g[: self.count]

    @property
    def moved(self) -> Array:
        """The change of a by the last solve or refinement, shape (K,)."""
        return self._moved[: self.count]

    @property
    def support(self) -> Array:
        """The numbers of the rows with a positive multiplier."""
        return self._free[: self._n_free]

    # ------------------------------------------------------------------- rows

    def sync(self, rows: Rows) -> bool:
        """Delete the rows that are gone and append the new ones; return whether any was deleted."""
        ids = rows.ids
        count, known = ids.shape[0], self.count
        deleted = known > 0 and (count < known or ids[known - 1] != self._ids[known - 1])
        if deleted:
            self._last = None
            self._keep(survivors(self._ids[:known], ids))
        if deleted or count > known:
            self._extend(rows, self.count, count, deleted)
        return deleted

    def _extend(self, rows: Rows, known: int, count: int, deleted: bool) -> None:
        if count > self._ids.shape[0]:
            self._grow(capacity_for(count))
        new = slice(known, count)
        self._ids[new] = rows.ids[new]
        self._group[new] = rows.blocks[new]
        self._a[new] = 0.0
        self._where[new] = -1
        self.gram.extend(rows.slopes, known)
        if self.unweighted is not None:
            self.unweighted.extend(rows.slopes, known)
            self._mix(known, count)
        self.count = count
        self.finite = bool(np.isfinite(self.hessian.diagonal()[:count]).all())
        known = 0 if deleted or not self.complete else known
        group = self._group[known:count]
        beside = known + np.flatnonzero(group < 0)
        if known == 0:
            self.constraints = beside
            cuts = group[group >= 0] if beside.size else group
            self.complete = bool(np.bincount(cuts, minlength=self.n_blocks).all())
        elif beside.size:
            self.constraints = np.concatenate([self.constraints, beside])

    def _grow(self, capacity: int) -> None:
        for name in ("_ids", "_group", "_a", "_g", "_ray", "_moved", "_free", "_where", "_sums"):
            setattr(self, name, grown(getattr(self, name), capacity))
        self._factor = grown(self._factor, capacity, square=True)
        if self.unweighted is not None:
            self._mixed = grown(self._mixed, capacity, square=True)

    def _keep(self, stays: Array) -> None:
        for position in range(self._n_free - 1, -1, -1):
            if not stays[self._free[position]]:
                self._n_free = active_set.delete(
                    self._factor, self._sums, self._free, self._where, self._n_free, position
                )
        number = np.cumsum(stays) - 1
        free = self._free[: self._n_free]
        free[:] = number[free]
        kept = np.flatnonzero(stays)
        self.count = count = kept.shape[0]
        for array in (self._ids, self._group, self._a):
            array[:count] = array[kept]
        self._where[:] = -1
        self._where[free] = np.arange(self._n_free)
        self.gram.keep(kept)
        if self.unweighted is not None:
            self.unweighted.keep(kept)
            self._mix(0, count)

    # ----------------------------------------------------------------- metric

    def set_kappa(self, kappa: float) -> None:
        """Change `kappa`; O(K^2)."""
        if kappa != self.kappa:
            self.kappa = kappa
            self._mix(0, self.count)
            self._moves = _RENEW

    def set_metric(self, metric: Array, slopes: Any) -> None:
        """Change the metric of the other coordinates; O(K^2 dim), or less if few of them change."""
        if self.gram.metric is None or not np.array_equal(metric, self.gram.metric):
            self.gram.change(metric, slopes[: self.count])
            if self.unweighted is not None:
                self._mix(0, self.count)
            self._moves = _RENEW

    def _mix(self, known: int, count: int) -> None:
        assert self.unweighted is not None
        new, all_rows = slice(known, count), slice(count)
        mixed = self.gram.matrix[all_rows, new] + self.kappa * self.unweighted.matrix[all_rows, new]
        self._mixed[all_rows, new] = mixed
        self._mixed[new, all_rows] = mixed.T

    # ------------------------------------------------------------------ solve

    def maximise(self, q: Array, size: Array, tol: float) -> tuple[int, float, float]:
        """Solve for the linear term q, from the multipliers of the last solve, up to a duality gap of tol.

        The rounding errors of q are relative to `size`. Return one of the statuses of `active_set`, the gap
        reached, and its rounding error.
        """
        self.begin(q)
        active_set.gradient(self.hessian, q, self.count, self._a, self._free, self._n_free, self._g)
        return self._improve(size, tol, 0.0)

    def begin(self, q: Array) -> None:
        """Make the multipliers feasible, and the factor theirs."""
        H, count = self.hessian, self.count
        if self._n_free == 0 or self._moves >= _RENEW:
            self._sigma = float(H.diagonal()[:count].mean()) or 1.0
            active_set.factorise(H, self._group, self._sigma, *self._state, self._n_free)
            self._moves = 0
        self._n_free = active_set.start(
            H, q, self._group, self._sigma, *self._state, self._n_free, self._a, count
        )

    def move_to(self, multipliers: Array) -> None:
        """Take other multipliers, feasible ones, as the last solution."""
        self._a[: self.count] = multipliers
        for row in np.flatnonzero(multipliers):
            if self._where[row] < 0:
                self._n_free = active_set.append(
                    self.hessian, self._group, self._sigma, *self._state, self._n_free, row
                )

    def refine(self, gradient: Array, base: Array, reach: float, tol: float) -> tuple[int, float, float]:
        """Solve on from the last solution, given a more exact gradient there.

        Its rounding error is relative to ``abs(base) + sqrt(diag(H)) * reach``.
        """
        self._g[: self.count] = gradient
        return self._improve(base, tol, reach)

    def restart(self) -> None:
        """Forget the last solution."""
        self._n_free = 0
        self._a[:] = 0.0
        self._where[:] = -1

    @property
    def _state(self) -> tuple[Array, Array, Array, Array]:
        return self._factor, self._sums, self._free, self._where

    def _improve(self, base: Array, tol: float, reach: float) -> tuple[int, float, float]:
        status, self._n_free, gap, error, moves = active_set.maximise(
            self.hessian, base, self._group, self._sigma, *self._state, self._n_free,
            self._a, self._g, self.count, reach, tol, self._ray, self._moved,
        )  # fmt: skip
        self._moves += moves
        return status, gap, error

    def model(self, gradient: Array) -> float:
        """Return the sum over the blocks of the largest entry of a vector with one entry per row."""
        group = self._group[: self.count]
        if self.n_blocks == 1:
            return float(gradient[group == 0].max())
        top = np.full(self.n_blocks, -np.inf)
        cuts = group >= 0
        np.maximum.at(top, group[cuts], gradient[cuts])
        return float(top.sum())

    def newton_step(self, gradient: Array) -> Array:
        """Return the step to the maximiser, given the gradient on the support; it keeps the blocks' sums."""
        step = gradient.copy()
        active_set.newton(self._factor, self._sums, self._n_free, step)
        return step

    def aggregate(self, weights: Array, slopes: Any) -> Array:
        """Return A'weights, for weights that vanish outside the support, to be read alone.

        The last answer is kept, and is that of the same weights with zeros for new rows, too.
        """
        if self._last is not None:
            known, count, total = self._last
            if weights[:count].tobytes() == known and not weights[count:].any():
                return total
        total = combined(weights, slopes)
        self._last = weights.tobytes(), weights.size, total
        return total

    def in_metric(self, v: Array) -> Array:
        """Return diag(metric) v."""
        metric, unweighted = self.gram.metric, self.unweighted
        if metric is None:
            return v
        if unweighted is None or unweighted.metric is None:
            return metric * v
        return (metric + self.kappa * unweighted.metric) * v

    # ------------------------------------------------------------------- size

    @property
    def ray(self) -> Array:
        """The last direction on the support; if the problem was unbounded, the one in which it is."""
        return self._ray[: self._n_free]

    def length(self, step: Array) -> float:
        """Return sqrt(a'Ha), given diag(metric) A'a; coordinates of metric 0 do not count."""
        if self.gram.metric is None:
            return math.sqrt(float(step @ step))
        metric = self.in_metric(np.ones_like(step))
        free = metric > 0.0
        return math.sqrt(float(step[free] ** 2 @ (1.0 / metric[free])))

    def size(self, base: Array) -> float:
        """Return the size of the terms of the objective, given the constant part of the gradient."""
        return float(np.abs(self._a[: self.count]) @ (np.abs(base) + np.abs(self.gradient)))

    def curvatures(self) -> Array:
        """Return bounds of the entries of Ha, shape (K,)."""
        lengths = np.sqrt(self.hessian.diagonal()[: self.count])
        return lengths * float(np.abs(self._a[: self.count]) @ lengths)


def combined(weights: Array, slopes: Any) -> Array:
    """Return the sum of the rows times their weights; rows without weight are not read."""
    if isinstance(slopes, Stack):
        split = slopes.above.shape[0]
        return combined(weights[:split], slopes.above) + combined(weights[split:], slopes.below)
    if not (slopes.dtype == np.float64 and slopes.flags.c_contiguous):
        slopes = np.ascontiguousarray(slopes, dtype=np.float64)
    total = np.zeros(slopes.shape[1])
    add(slopes, weights, np.flatnonzero(weights), total)
    return total


@routine(fastmath=SUMS)
def add(rows, weights, chosen, out):
    """Add the chosen rows times their weights."""
    for p in range(chosen.shape[0]):
        i = chosen[p]
        t = weights[i]
        row = rows[i]
        for j in range(out.shape[0]):
            out[j] += t * row[j]

"""The master for many blocks: an interior-point method with linear systems in x alone."""

from __future__ import annotations

import math

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from cutplane.masters.base import (
    HALF_SPACE,
    Kind,
    Level,
    MasterSolution,
    MasterStatus,
    Prox,
    ReducedProblem,
    Rows,
    Stabilization,
)
from cutplane.masters.rows import sides_of
from cutplane.pieces.validation import Array
from cutplane.runtime.deadline import check_time

_ROUNDS = 100
"""Largest number of steps, because rounding errors could prevent convergence."""
_EXACT = 1e-11
"""Relative gap and residuals at which a solve ends, because smaller ones are rounding errors."""
_CREDIBLE = 1e-7
"""Relative gap of an accepted answer, because rounding errors may end the steps above `_EXACT`."""
_BACK = 0.995
"""Share of the distance to the boundary that a step goes, because slacks and multipliers must stay
positive."""


class InteriorPoint:
    """Solves the reduced problem with a diagonal quadratic g + prox by Mehrotra's predictor-corrector method.

    The variables are x and a height t for each block:

        min  sum_k t_k + 1/2 ||x - middle||_W^2   s.t.  t_k >= <A_i, x> + b_i for the rows i of block k,

    and half-spaces and bounds of x. The heights are eliminated block by block, so that the matrix of a step
    is W + sum_i d_i a_i a_i', of shape (dim, dim), where a_i is a row minus the weighted mean of its block.
    See S. Mehrotra, SIAM J. Optim. 2, 1992, doi:10.1137/0802028.
    """

    name = "interior_point"
    least_blocks, blocks_per_coordinate = 100, 5
    """Least number of blocks, absolute and per coordinate, because a step costs rows x dim^2, whereas a step
    of the active-set method costs more than blocks^2."""

    def __init__(self, reduced: ReducedProblem):
        self._n_blocks = reduced.n_blocks
        assert reduced.quadratic is not None and reduced.polyhedron is not None, "refused"
        self._quadratic = reduced.quadratic
        sides = sides_of(reduced.polyhedron, bounds=True)
        self._normals, self._sides = sides.A.toarray(), sides.b

    @classmethod
    def refusal(cls, reduced: ReducedProblem, stabilization: Kind) -> str | None:
        """See `MasterKind.refusal`."""
        if reduced.n_blocks < max(cls.least_blocks, cls.blocks_per_coordinate * reduced.dim):
            return "the risk has few blocks"
        quadratic, form = reduced.quadratic, reduced.polyhedron
        if quadratic is None:
            return "the regularizer is not a diagonal quadratic"
        if stabilization is Level or (stabilization is None and not quadratic.is_strict):
            return "there is neither a quadratic regularizer nor a prox term"
        if form is None or form.n_columns > reduced.dim:
            return "the feasible set is not a polyhedron"
        if (form.row_lower == form.row_upper).any() or (form.lower == form.upper).any():
            return "the feasible set has no interior"
        return None

    def solve(self, rows: Rows, stabilization: Stabilization = None, accuracy: float = 0.0) -> MasterSolution:
        """Solve; `accuracy` is the allowed absolute error of the optimal value."""
        cuts = rows.blocks != HALF_SPACE
        if not np.bincount(rows.blocks[cuts], minlength=self._n_blocks).all():
            return MasterSolution(None, None, MasterStatus.UNBOUNDED, "a block of the risk has no cut")
        weights, centre = self._quadratic.weights, self._quadratic.centre
        middle = centre
        if isinstance(stabilization, Prox):
            total = weights + stabilization.weight
            middle = (weights * centre + stabilization.weight * stabilization.centre) / total
            weights = total
        A = np.vstack([rows.slopes, self._normals])
        b = np.concatenate([rows.offsets, -self._sides])
        blocks = np.concatenate([rows.blocks, np.full(self._sides.size, HALF_SPACE)])
        with np.errstate(all="ignore"):
            x, multipliers, gap, size = _solve(A, b, blocks, self._n_blocks, weights, middle, accuracy)
        if not gap <= max(accuracy, _CREDIBLE * size):
            return MasterSolution(None, None, MasterStatus.FAILED, f"stopped at a gap of {gap:.2g}")
        return MasterSolution(x, multipliers[: rows.blocks.size])


class _Newton:
    """The linear system of a step, reduced to x, with a Cholesky factor."""

    def __init__(self, A: Array, D: Array, group: Array, n_blocks: int, weights: Array):
        self.A, self.D, self.group = A, D, group
        self.delta = _sums(D, group, n_blocks)
        chosen = sparse.csr_array((D, (group, np.arange(D.size))), shape=(n_blocks + 1, D.size))
        self.means = (chosen @ A)[:n_blocks] / self.delta[:, None]
        centred = A - np.vstack([self.means, np.zeros((1, A.shape[1]))])[group]
        H = (centred * D[:, None]).T @ centred
        H[np.diag_indices_from(H)] += weights
        self.factor = cho_factor(H, check_finite=False)

    def step(
        self, s: Array, slope: Array, share: Array, primal: Array, target: Array
    ) -> tuple[Array, Array, Array, Array]:
        """Return the steps of x, t, the slacks s and the multipliers, for y ds + s dy = target."""
        A, D, group = self.A, self.D, self.group
        wanted = target / s - D * primal
        h = _sums(wanted, group, self.delta.size) - share
        dx = cho_solve(self.factor, -slope - wanted @ A + h @ self.means, check_finite=False)
        dt = h / self.delta + self.means @ dx
        ds = np.append(dt, 0.0)[group] - A @ dx + primal
        return dx, dt, ds, target / s - D * ds


def _sums(values: Array, group: Array, n_blocks: int) -> Array:
    """Return the sums over the blocks, without the half-spaces."""
    return np.bincount(group, values, minlength=n_blocks + 1)[:n_blocks]


def _room(values: Array, step: Array) -> float:
    """Return the longest step for which all values stay nonnegative."""
    falling = step < 0.0
    return float(np.min(values[falling] / -step[falling], initial=math.inf))


def _solve(
    A: Array, b: Array, blocks: Array, n_blocks: int, weights: Array, middle: Array, accuracy: float
) -> tuple[Array, Array, float, float]:
    """Return x, the multipliers of the rows, and the remaining gap, with the size of its terms."""
    cuts = blocks != HALF_SPACE
    group = np.where(cuts, blocks, n_blocks)  # half-spaces are one more group, of height zero
    x, heights = middle, A @ middle + b
    spread = float(np.abs(heights).max()) or 1.0
    t = np.full(n_blocks + 1, -np.inf)
    np.maximum.at(t, group, heights)
    t = t[:n_blocks] + spread
    s = np.maximum(np.append(t, 0.0)[group] - heights, spread)
    y = 1.0 / np.append(_sums(np.ones_like(b), group, n_blocks), b.size)[group]
    for _ in range(_ROUNDS):
        check_time()
        heights = A @ x + b
        primal = np.append(t, 0.0)[group] - heights - s
        slope, share = weights * (x - middle) + y @ A, 1.0 - _sums(y, group, n_blocks)
        gap, size = float(y @ s), float(y @ (np.abs(b) + np.abs(heights)))
        off = max(
            float(np.abs(primal).max()) / spread,
            float(np.abs(slope).max() / (y @ np.abs(A)).max()),
            float(np.abs(share).max()),
        )
        if gap <= max(accuracy, _EXACT * size) and off <= _EXACT:
            break
        try:
            newton = _Newton(A, y / s, group, n_blocks, weights)
        except (LinAlgError, ValueError):
            break
        _, _, ds, dy = newton.step(s, slope, share, primal, -y * s)
        ahead = min(1.0, _room(s, ds), _room(y, dy))
        after = float((y + ahead * dy) @ (s + ahead * ds))
        centring = (after / gap) ** 3 * gap / b.size
        dx, dt, ds, dy = newton.step(s, slope, share, primal, centring - y * s - ds * dy)
        ahead = min(1.0, _BACK * _room(s, ds), _BACK * _room(y, dy))
        if not ahead * np.abs(dx).max() > _EXACT**1.5 * np.abs(x).max():
            break
        x, t, s, y = x + ahead * dx, t + ahead * dt, s + ahead * ds, y + ahead * dy
    return x, y, gap + spread * off, size

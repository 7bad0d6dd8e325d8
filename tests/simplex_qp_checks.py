"""Random reduced problems with quadratics, and independent checks of their solutions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from cutplane.masters.base import HALF_SPACE, Level, MasterStatus, Prox, ReducedProblem
from cutplane.masters.qp.simplex_qp import SimplexQP
from cutplane.regularizers.l2 import L2
from cutplane.regularizers.none import NoRegularizer
from cutplane.sets.whole import WholeSpace


@dataclass(frozen=True, eq=False)
class Rows:
    slopes: np.ndarray
    offsets: np.ndarray
    blocks: np.ndarray
    ids: np.ndarray

    def take(self, chosen):
        return Rows(self.slopes[chosen], self.offsets[chosen], self.blocks[chosen], self.ids[chosen])


def make_rows(slopes, offsets, blocks=None):
    slopes = np.atleast_2d(np.asarray(slopes, dtype=float))
    count = slopes.shape[0]
    blocks = np.zeros(count, dtype=np.int64) if blocks is None else np.asarray(blocks, dtype=np.int64)
    return Rows(slopes, np.asarray(offsets, dtype=float), blocks, np.arange(count))


def random_rows(rng, count, dim, n_blocks=1, half_spaces=0, scale=1.0):
    """Return cuts of every block, then half-spaces with a common interior point."""
    slopes = scale * rng.standard_normal((count + half_spaces, dim))
    offsets = rng.standard_normal(count + half_spaces)
    inside = rng.standard_normal(dim)
    offsets[count:] = -slopes[count:] @ inside - rng.random(half_spaces)
    blocks = np.concatenate([np.arange(count) % n_blocks, np.full(half_spaces, HALF_SPACE)])
    return make_rows(slopes, offsets, blocks)


def master_for(regularizer, dim, n_blocks=1, feasible_set=None):
    feasible_set = (feasible_set or WholeSpace()).resolve(dim)
    return SimplexQP(ReducedProblem(dim, n_blocks, regularizer, feasible_set))


@dataclass(frozen=True, eq=False)
class Quadratic:
    """1/2 sum weights (x - centre)^2 + 1/2 prox ||x - point||^2, in extended precision."""

    weights: np.ndarray
    centre: np.ndarray
    prox: float
    point: np.ndarray

    @classmethod
    def of(cls, regularizer, dim, stabilization=None):
        form = regularizer.quadratic(dim)
        prox, point = (stabilization.weight, stabilization.centre) if stabilization else (0.0, np.zeros(dim))
        return cls(
            *(np.asarray(part, dtype=np.longdouble) for part in (form.weights, form.centre, prox, point))
        )

    def __call__(self, x):
        return (self.weights @ (x - self.centre) ** 2 + self.prox * ((x - self.point) ** 2).sum()) / 2

    def gradient(self, x):
        return self.weights * (x - self.centre) + self.prox * (x - self.point)

    def least(self, v):
        """Return the minimum of the quadratic + <v, x>; v must be zero where the quadratic is."""
        metric = self.weights + self.prox
        linear = self.weights * self.centre + self.prox * self.point - v
        bowl = metric > 0
        return self(np.zeros_like(v)) - (linear[bowl] ** 2 / metric[bowl]).sum() / 2


def gap_of(rows, n_blocks, quadratic, solution):
    """Return primal value - dual value, the largest half-space, and the scale of the terms, all exact."""
    slopes, x = rows.slopes.astype(np.longdouble), solution.x.astype(np.longdouble)
    values = slopes @ x + rows.offsets
    primal = sum(values[rows.blocks == k].max() for k in range(n_blocks)) + quadratic(x)
    weights = solution.multipliers.astype(np.longdouble)
    dual = weights @ rows.offsets + quadratic.least(weights @ slopes)
    sizes = np.abs(slopes) @ np.abs(x) + np.abs(rows.offsets)
    scale = abs(primal) + sizes.max() + weights @ sizes + quadratic(np.zeros_like(x)) + quadratic(x)
    half_spaces = rows.blocks == HALF_SPACE
    outside = (values[half_spaces] / sizes[half_spaces]).max(initial=-np.inf)
    return float(primal - dual), float(outside), float(scale)


def assert_optimal(rows, n_blocks, quadratic, solution, tolerance=1e-12):
    assert solution.status is MasterStatus.SOLVED, solution.message
    assert (solution.multipliers >= 0).all()
    for k in range(n_blocks):
        assert solution.multipliers[rows.blocks == k].sum() == pytest.approx(1.0, abs=1e-12)
    gap, outside, scale = gap_of(rows, n_blocks, quadratic, solution)
    assert -1e-13 * scale <= gap <= tolerance * scale
    assert outside <= tolerance


def solve_with_cvxpy(rows, n_blocks, regularizer, stabilization=None, feasible_set=None):
    import cvxpy as cp

    x = cp.Variable(rows.slopes.shape[1])
    inside = feasible_set.cvxpy_form(x) if feasible_set else []
    values = rows.slopes @ x + rows.offsets
    objective = sum(cp.max(values[np.flatnonzero(rows.blocks == k)]) for k in range(n_blocks))
    objective = objective + regularizer.cvxpy_form(x)
    half_spaces = np.flatnonzero(rows.blocks == HALF_SPACE)
    constraints = [values[half_spaces] <= 0] if half_spaces.size else []
    if isinstance(stabilization, Prox):
        objective = objective + stabilization.weight / 2 * cp.sum_squares(x - stabilization.centre)
    if isinstance(stabilization, Level):
        constraints.append(objective <= stabilization.level)
        objective = cp.sum_squares(x - stabilization.centre) / 2
    problem = cp.Problem(cp.Minimize(objective), constraints + inside)
    problem.solve(solver="CLARABEL")
    return problem.value, x.value


WEIGHTS = np.array([1.0, 0.5, 2.0, 0.1, 1.0, 3.0])
CENTRE = np.array([1.0, -2.0, 0.0, 0.5, 0.0, 3.0])
PROX = Prox(np.array([0.3, -1.0, 2.0, 0.0, 0.1, -0.4]), 0.7)
LOOSE = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 0.0])

KINDS = {
    "l2": (L2(0.3), None),
    "centred": (L2(0.3, centre=CENTRE), None),
    "diagonal": (L2(0.5, weights=WEIGHTS, centre=CENTRE), None),
    "bias": (L2(0.3, weights=LOOSE), None),
    "diagonal with bias": (L2(0.3, weights=WEIGHTS * LOOSE, centre=CENTRE), None),
    "prox": (NoRegularizer(), PROX),
    "l2 and prox": (L2(0.3, centre=CENTRE), PROX),
    "diagonal and prox": (L2(0.3, weights=WEIGHTS), PROX),
    "bias and prox": (L2(0.3, weights=LOOSE), PROX),
    "diagonal with bias and prox": (L2(0.3, weights=WEIGHTS * LOOSE), PROX),
}


def sequence(rng, dim, n_blocks, steps):
    """Yield pools of rows that grow and shrink."""
    everything = random_rows(rng, 6 * steps, dim, n_blocks, steps)
    order = np.argsort(np.concatenate([np.arange(6 * steps), 6 * np.arange(steps) + 3]), kind="stable")
    kept = np.empty(0, dtype=np.int64)
    position = 0
    for step in range(steps):
        new = np.arange(position, position + 6)
        position += 6
        if step % 3 == 2:
            survivors = rng.random(kept.size) < 0.6
            kept = kept[survivors]
        kept = np.concatenate([kept, new])
        chosen = order[kept]
        rows = everything.take(chosen)
        if all((rows.blocks == k).any() for k in range(n_blocks)):
            yield Rows(rows.slopes, rows.offsets, rows.blocks, kept.copy())


def height(rows, n_blocks, quadratic, x):
    values = rows.slopes @ x + rows.offsets
    return float(sum(values[rows.blocks == k].max() for k in range(n_blocks)) + quadratic(x))

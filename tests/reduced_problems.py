"""Reduced problems of every kind, their rows in stages, and their optima by one direct cvxpy solve."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import cvxpy as cp
import numpy as np

from cutplane.masters.base import HALF_SPACE, Level, Prox, ReducedProblem
from cutplane.regularizers import (
    L1,
    L2,
    CvxpyRegularizer,
    NegativeEntropy,
    NoRegularizer,
    QuadraticForm,
    Regularizer,
    RelativeEntropy,
    SquaredGroupNorm,
)
from cutplane.sets import Box, CappedSimplex, CvxpySet, FeasibleSet, L2Ball, Polyhedron, Simplex, WholeSpace

REACH = 20.0
"""No solution has a larger coordinate, so that a bound that holds up to there is a bound."""

STAGES = ("first", "few", "pool doubled", "duplicates")
_N_ROWS = 22


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows as a master reads them."""

    slopes: np.ndarray
    offsets: np.ndarray
    blocks: np.ndarray
    ids: np.ndarray


@dataclass(frozen=True, eq=False)
class Case:
    """A reduced problem without its rows.

    `kind` is the class of the programme: "lp", "qp" (quadratic objective, linear constraints), "socp", "exp".
    """

    kind: str
    dim: int
    regularizer: Regularizer
    simple_set: FeasibleSet = WholeSpace()  # noqa: RUF009
    n_blocks: int = 1
    first: int = 0
    half_spaces: tuple[int, ...] = ()
    stabilize: Callable[[Case, Rows], Prox | Level] | None = None
    scale: float = 1.0
    trivial: float | None = None
    balanced: bool = False

    @property
    def reduced(self) -> ReducedProblem:
        return ReducedProblem(self.dim, self.n_blocks, self.regularizer, self.simple_set.resolve(self.dim))

    def all_rows(self) -> Rows:
        rng = np.random.default_rng(7)
        slopes, offsets = rng.normal(size=(_N_ROWS, self.dim)), rng.normal(size=_N_ROWS) - 1.0
        if self.balanced:
            slopes[:, -1] = np.resize([1.0, -1.0], _N_ROWS)
        if self.trivial is not None:
            slopes[0], offsets[0] = 0.0, self.trivial
        slopes[-2:], offsets[-2:] = slopes[10:12], offsets[10:12]
        blocks = np.arange(_N_ROWS) % self.n_blocks
        blocks[-2:] = blocks[10:12]
        cut_off = list(self.half_spaces)
        blocks[cut_off] = HALF_SPACE
        slopes, offsets = slopes * self.scale, offsets * self.scale
        offsets[cut_off] = -0.05 * np.abs(slopes[cut_off]).max(axis=1)
        return Rows(slopes, offsets, blocks, np.arange(_N_ROWS))

    def rows(self, stage: str) -> Rows:
        first = max(self.first, self.n_blocks)
        every = self.all_rows()
        chosen = {
            "first": np.arange(first),
            "few": np.arange(first + 6),
            "pool doubled": np.arange(20),
            "duplicates": np.setdiff1d(np.arange(_N_ROWS), [1, 4, 6, 8, 9]),
        }[stage]
        return Rows(every.slopes[chosen], every.offsets[chosen], every.blocks[chosen], every.ids[chosen])

    def stabilization(self, rows: Rows) -> Prox | Level | None:
        return None if self.stabilize is None else self.stabilize(self, rows)

    def model(self, rows: Rows, x: np.ndarray) -> float:
        """f_t(x) + g(x)."""
        values = rows.slopes @ x + rows.offsets
        cuts = sum(values[rows.blocks == block].max() for block in range(self.n_blocks))
        return float(cuts) + self.regularizer.value(x)

    def value(self, rows: Rows, x: np.ndarray) -> float:
        """The objective of the reduced problem, with its stabilisation."""
        stabilization = self.stabilization(rows)
        if isinstance(stabilization, Level):
            return 0.5 * float(np.sum((x - stabilization.centre) ** 2))
        extra = 0.0
        if stabilization is not None:
            extra = 0.5 * stabilization.weight * float(np.sum((x - stabilization.centre) ** 2))
        return self.model(rows, x) + extra

    def violation(self, rows: Rows, x: np.ndarray) -> float:
        """The worst violation of X0, of a half-space (of a slope of size 1), or of the level."""
        worst = [self.reduced.simple_set.violation(x)]
        mine = rows.blocks == HALF_SPACE
        if mine.any():
            sizes = np.abs(rows.slopes[mine]).max(axis=1)
            worst.append(float(((rows.slopes[mine] @ x + rows.offsets[mine]) / sizes).max()))
        stabilization = self.stabilization(rows)
        if isinstance(stabilization, Level):
            worst.append(self.model(rows, x) - stabilization.level)
        return max(worst)


def prox(case: Case, rows: Rows) -> Prox:
    return Prox(np.full(case.dim, 1.0 / case.dim), 2.5)


def level(case: Case, rows: Rows) -> Level:
    centre = np.full(case.dim, 1.0 / case.dim)
    return Level(centre, case.model(rows, centre) - 0.4)


_W = cp.Variable(5)
_GRAM = np.random.default_rng(3).normal(size=(4, 5))
_WALLS = np.vstack([np.eye(5), -np.eye(5), np.ones((1, 5))])

CASES = {
    "L2": Case("qp", 12, L2(0.2)),
    "L2, weights and centre": Case("qp", 12, L2(0.2, centre=np.full(12, -0.5), weights=np.arange(1.0, 13.0))),
    "L2, polyhedron": Case("qp", 5, L2(0.2), Polyhedron(_WALLS, np.append(np.ones(10), 0.5))),
    "L2, ball": Case("socp", 5, L2(0.2), L2Ball(0.7)),
    "box": Case("lp", 5, NoRegularizer(), Box(-1, [1, 2, 3, 1, 1])),
    "box, tiny slopes": Case("lp", 5, L1(1e-9), Box(-1, 1), scale=1e-8),
    "box, huge slopes": Case("lp", 5, NoRegularizer(), Box(-1, 1), half_spaces=(3,), scale=1e6),
    "L1, box": Case("lp", 5, L1(0.3), Box(-2, 2)),
    "quadratic form, box": Case("qp", 5, QuadraticForm(_GRAM.T @ _GRAM, np.ones(5), 0.1), Box(-1, 1)),
    "entropy, simplex": Case("exp", 5, NegativeEntropy(0.4), Simplex()),
    "relative entropy, capped simplex": Case(
        "exp", 5, RelativeEntropy([0.1, 0.5, 1.0, 2.0, 0.3], 0.4), CappedSimplex(0.35), n_blocks=2
    ),
    "group norm": Case("socp", 5, SquaredGroupNorm([[0, 1], [2], [3, 4]], 0.5, p=1.0)),
    "cvxpy": Case(
        "lp", 5, CvxpyRegularizer(cp.norm_inf(_W), _W, 0.5), CvxpySet([_W >= 0, cp.sum(_W) <= 3], _W)
    ),
    "L1 and box, prox, 2 blocks": Case("qp", 5, L1(0.3), Box(-2, 2), n_blocks=2, stabilize=prox),
    "entropy, prox": Case("exp", 5, NegativeEntropy(0.4), Simplex(), stabilize=prox),
    "box, level, half-spaces": Case("qp", 5, NoRegularizer(), Box(-3, 3), half_spaces=(8,), stabilize=level),
    "L2, level": Case("socp", 5, L2(0.2), stabilize=level),
}


@cache
def optimum(name: str, stage: str) -> float:
    """The optimal value by one direct cvxpy solve with slopes scaled to about 1."""
    case = CASES[name]
    rows = case.rows(stage)
    x, tops = cp.Variable(case.dim), cp.Variable(case.n_blocks)
    constraints = list(case.reduced.simple_set.cvxpy_form(x))
    heights = (rows.slopes @ x + rows.offsets) / case.scale
    cuts = rows.blocks != HALF_SPACE
    constraints += [heights[cuts] <= tops[rows.blocks[cuts]], heights[~cuts] <= 0.0]
    objective = cp.sum(tops) + case.regularizer.cvxpy_form(x) / case.scale
    stabilization = case.stabilization(rows)
    if isinstance(stabilization, Prox):
        objective += 0.5 * stabilization.weight * cp.sum_squares(x - stabilization.centre)
    elif isinstance(stabilization, Level):
        constraints.append(objective <= stabilization.level)
        objective = 0.5 * cp.sum_squares(x - stabilization.centre)
    value = least(cp.Problem(cp.Minimize(objective), constraints))
    return value if isinstance(stabilization, Level) else value * case.scale


def least(problem: cp.Problem) -> float:
    """The least value, as accurately as Clarabel can."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return float(problem.value)


def dual_value(case: Case, rows: Rows, multipliers: np.ndarray) -> float:
    """The Lagrangian of the reduced problem minimised over X0 up to REACH: a lower bound.

    Multipliers are clipped at zero, and normalised unless they belong to a level constraint.
    """
    stabilization = case.stabilization(rows)
    cuts = rows.blocks != HALF_SPACE
    weights = np.maximum(multipliers, 0.0)
    sums = np.bincount(rows.blocks[cuts], weights[cuts], minlength=case.n_blocks)
    factor = float(sums.mean()) if isinstance(stabilization, Level) else 1.0
    weights[cuts] *= factor / sums[rows.blocks[cuts]]
    constant = float(weights @ rows.offsets)
    if isinstance(stabilization, Level):
        constant -= factor * stabilization.level
    problem, slope, share = lagrangian(case)
    slope.value, share.value = weights @ rows.slopes / case.scale, factor
    return constant + case.scale * least(problem)


@cache
def lagrangian(case: Case) -> tuple[cp.Problem, cp.Parameter, cp.Parameter]:
    """Its minimisation over x, given the weighted sum of the slopes and the weight of the level."""
    x, slope, share = cp.Variable(case.dim), cp.Parameter(case.dim), cp.Parameter(nonneg=True)
    stabilization = case.stabilization(case.rows("few"))
    factor = share if isinstance(stabilization, Level) else 1.0
    objective = slope @ x + factor * case.regularizer.cvxpy_form(x) / case.scale
    if stabilization is not None:
        weight = stabilization.weight if isinstance(stabilization, Prox) else 1.0
        objective += 0.5 * weight * cp.sum_squares(x - stabilization.centre)
    constraints = [*case.reduced.simple_set.cvxpy_form(x), cp.abs(x) <= REACH]
    return cp.Problem(cp.Minimize(objective), constraints), slope, share

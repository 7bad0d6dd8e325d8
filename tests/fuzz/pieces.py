"""Random convex functions with a given subgradient at a given point, in the forms cutplane accepts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import cutplane as cut
from fuzz.draws import Array, Rng, chance, dyadic, pick, positive, shares, variable


@dataclass(frozen=True, eq=False)
class Block:
    """max_i <a_i, x> + b_i + 1/2 ||B x - d||^2, computed around `base`."""

    A: Array
    b: Array
    B: Array
    d: Array
    base: Array

    @np.errstate(over="ignore")
    def __call__(self, x: Array) -> tuple[float, Array]:
        heights = self.A @ (x - self.base) + self.b
        i = int(np.argmax(heights))
        residual = self.B @ x - self.d
        return float(heights[i] + 0.5 * residual @ residual), self.A[i] + self.B.T @ residual

    def terms(self, x: Array) -> float:
        """The size of the numbers that the value at x is a sum of."""
        heights = self.A @ (x - self.base) + self.b
        i = int(np.argmax(heights))
        size = np.abs(self.A[i]) @ (np.abs(x) + np.abs(self.base)) + np.abs(self.b[i])
        residual = self.B @ x - self.d
        return float(size + np.abs(residual) @ (np.abs(self.B) @ np.abs(x) + np.abs(self.d)))


def block(rng: Rng, x: Array, target: Array, sx: float, sf: float, smooth: bool, anchored: bool) -> Block:
    """A block with the subgradient `target` at x, both in units of 1."""
    n = len(x)
    B, d = np.zeros((0, n)), np.zeros(0)
    if smooth or chance(rng, 0.15):
        B = dyadic(rng, int(rng.integers(1, n + 1)), n, bits=2)
        d = B @ x - dyadic(rng, len(B), bits=3)
        target = target - B.T @ (B @ x - d)
    active = 1 if smooth else int(rng.integers(1, n + 3))
    others = 0 if smooth else int(rng.integers(0, 6))
    value = (
        float(dyadic(rng, 1)[0])
        if chance(rng, 0.85)
        else float(pick(rng, {0.0: 2, 2.0**20: 1, -(2.0**30): 1}))
    )
    A = dyadic(rng, active + others, n)
    if chance(rng, 0.15):
        j = int(rng.integers(n))
        A[:, j] = 0.0
    weights = shares(rng, active)
    A[:active] += target - weights @ A[:active]
    slack = np.concatenate([np.zeros(active), positive(rng, others)])
    if chance(rng, 0.1):
        copies = rng.integers(0, active + others, size=3)
        A, slack = np.concatenate([A, A[copies]]), np.concatenate([slack, slack[copies]])
    order = rng.permutation(len(A))
    A, b = A[order], value - slack[order]
    base = x if anchored else np.zeros(n)
    b = b if anchored else b - A @ x
    if len(A) == 1 and not base.any() and chance(rng, 0.7):
        b = np.zeros(1)
    return Block(A * (sf / sx), b * sf, B * (sf**0.5 / sx), d * sf**0.5, base * sx)


class OnDemand(cut.OnDemandRisk):
    """A block without squares whose cuts may be as rough as the engine allows."""

    def __init__(self, function: Block):
        self.function = function
        self.dim = function.A.shape[1]

    def estimate(self, x: Array, accuracy: float, start: Any = None) -> Any:
        from cutplane.risks.base import Estimate

        heights = self.function.A @ (x - self.function.base) + self.function.b
        best = float(heights.max())
        good = np.flatnonzero(heights >= best - 0.5 * accuracy)
        u = np.eye(len(heights))[good[0]]
        slopes, offsets = self.dual_cut(u)
        return Estimate(np.array([best]), slopes, offsets, u)

    def dual_cut(self, u: Array) -> tuple[Array, Array]:
        slope = u @ self.function.A
        return slope[np.newaxis], np.array([u @ self.function.b - slope @ self.function.base])


def _whole(blocks: list[Block], infimum: float) -> cut.Risk:
    @cut.risk(dim=blocks[0].A.shape[1], infimum=infimum)
    def function(x: Array) -> tuple[float, Array]:
        answers = [piece(x) for piece in blocks]
        return sum(value for value, _ in answers), sum(slope for _, slope in answers)

    return function


def _blocks(blocks: list[Block]) -> cut.Risk:
    @cut.risk(dim=blocks[0].A.shape[1], blocks=len(blocks))
    def function(x: Array) -> tuple[Array, Array]:
        answers = [piece(x) for piece in blocks]
        return np.array([value for value, _ in answers]), np.array([slope for _, slope in answers])

    return function


def _sum(rng: Rng, blocks: list[Block]) -> cut.Risk:
    """A weighted sum of risks, each a power of two times too small or too large."""
    terms = []
    for piece in blocks:
        c = 2.0 ** (2 * int(rng.integers(-2, 3)))
        part = Block(piece.A / c, piece.b / c, piece.B / c**0.5, piece.d / c**0.5, piece.base)
        terms.append((c, _whole([part], -np.inf)))
    total = cut.WeightedSum.of(*terms)
    return total.disaggregated() if chance(rng, 0.5) else total


def _cvxpy(blocks: list[Block]) -> cut.Risk:
    import cvxpy as cp

    x = variable(blocks[0].A.shape[1])
    parts = [cp.max(p.A @ (x - p.base) + p.b) + 0.5 * cp.sum_squares(p.B @ x - p.d) for p in blocks]
    return cut.CvxpyRisk(sum(parts), x)


def _lowest(blocks: list[Block]) -> float:
    """A lower bound over all x, where a block has a constant piece; -inf else."""
    total = 0.0
    for piece in blocks:
        flat = ~piece.A.any(axis=1)
        total += float(piece.b[flat].max(initial=-np.inf))
    return total


def as_risk(rng: Rng, blocks: list[Block], slow: bool) -> tuple[cut.Risk, str]:
    """One of the forms in which cutplane can be given the sum of the blocks."""
    forms = {"black box": 6.0, "blocks": 2.0 if len(blocks) > 1 else 0.0, "sum": 2.0}
    plain = len(blocks) == 1 and not blocks[0].B.size
    forms["on demand"] = 1.0 if plain else 0.0
    linear = plain and len(blocks[0].A) == 1 and not (blocks[0].b.any() or blocks[0].base.any())
    forms["linear"] = 50.0 if linear else 0.0
    forms["cvxpy"] = 2.0 if slow else 0.0
    form = pick(rng, forms)
    if form == "black box":
        return _whole(blocks, _lowest(blocks) if chance(rng, 0.5) else -np.inf), "black box"
    if form == "blocks":
        return _blocks(blocks), "blocks"
    if form == "sum":
        return _sum(rng, blocks), "sum"
    if form == "on demand":
        return OnDemand(blocks[0]), "on demand"
    if form == "linear":
        return cut.LinearObjective(blocks[0].A[0]), "linear"
    return _cvxpy(blocks), "cvxpy risk"

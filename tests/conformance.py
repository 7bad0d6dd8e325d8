"""Generated reduced problems, and the gap of a solution by its multipliers, in extended precision.

The minimum of the Lagrangian over the set is computed here, coordinate by coordinate, from the parameters of
the pieces: the gap between it and the objective is an upper bound of the error, whatever the master did.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
from scipy import sparse

from cutplane.masters.base import HALF_SPACE, Level, MasterStatus
from cutplane.masters.interior import InteriorPoint
from cutplane.regularizers import L1, L2, ElasticNet, NoRegularizer, RelativeEntropy
from cutplane.sets import Box, CappedSimplex, Polyhedron, Simplex, WholeSpace

EXTENDED = np.longdouble
LINEAR = ["nothing, box", "L1", "L1, box", "nothing, simplex", "nothing, capped simplex"]
NAMES = [
    *("L2", "diagonal", "bias", "nothing", "elastic net", "L2, half a box", "diagonal, box"),
    *("sum", "sum, box", "elastic net, box", "L2, simplex", "L2, capped simplex", "L2, equation"),
    *("entropy, capped simplex", "entropy, positive box"),
    *LINEAR,
]


class OfAnyBlocks(InteriorPoint):
    """Takes problems with few blocks, too."""

    least_blocks = blocks_per_coordinate = 0


@dataclass
class Pieces:
    """1/2 sum weights (x - centre)^2 + <costs, |x|>, or an entropy, over a box with maybe <row, x> = side."""

    regularizer: object
    simple_set: object
    weights: np.ndarray
    centre: np.ndarray
    costs: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    row: np.ndarray | None = None
    side: float = 0.0
    reference: np.ndarray | None = None
    lam: float = 0.0
    constant: float = 0.0

    def value(self, x):
        if self.reference is not None:
            logs = np.log(np.maximum(x, np.finfo(EXTENDED).tiny)) - np.log(self.reference)
            return self.lam * (x * logs).sum()
        quadratic = (self.weights * (x - self.centre) ** 2).sum() / 2
        return quadratic + (self.costs * np.abs(x)).sum() + self.constant


def pieces(name, rng, dim, scale):
    """Return the pieces with this name, "regularizer" or "regularizer, set"; the scale is that of g."""
    zero, one = np.zeros(dim), np.ones(dim)
    lam, centre = scale * 10.0 ** rng.uniform(-2, 1), rng.standard_normal(dim)
    weights, q = rng.uniform(0.2, 3.0, dim), rng.uniform(0.2, 2.0, dim)
    bias = np.where(np.arange(dim) == dim - 1, 0.0, 1.0) if dim > 1 else one
    low, high, cap = -rng.uniform(0.1, 1.0, dim), rng.uniform(0.1, 1.0, dim), rng.uniform(1.5, 3.0) / dim
    half = np.where(np.arange(dim) % 2, np.inf, high)
    kind, _, inside = name.partition(", ")
    regularizer, *quadratic = {
        "L2": (L2(lam, centre=centre), lam * one, centre, zero),
        "diagonal": (L2(lam, weights=weights, centre=centre), lam * weights, centre, zero),
        "bias": (L2(lam, weights=bias), lam * bias, zero, zero),
        "nothing": (NoRegularizer(), zero, zero, zero),
        "L1": (L1(lam), zero, zero, lam * one),
        "elastic net": (ElasticNet(lam, 0.5), 0.5 * lam * one, zero, 0.5 * lam * one),
        "sum": (
            L1(0.2 * lam) + L2(lam, centre=centre) + L2(0.5 * lam),
            *(1.5 * lam * one, centre / 1.5, 0.2 * lam * one),
        ),
        "entropy": (RelativeEntropy(q, lam), zero, zero, zero),
    }[kind]
    simple_set, *domain = {
        "": (WholeSpace(dim), -np.inf * one, np.inf * one),
        "box": (Box(low, high), low, high),
        "half a box": (Box(low, half), low, half),
        "positive box": (Box(zero, high), zero, high),
        "simplex": (Simplex(dim=dim), zero, np.inf * one, one, 1.0),
        "capped simplex": (CappedSimplex(cap, dim=dim), zero, cap * one, one, 1.0),
        "equation": (Polyhedron(A_eq=q[None], b_eq=[0.5]), -np.inf * one, np.inf * one, q, 0.5),
    }[inside]
    entropy = {"reference": q, "lam": lam} if kind == "entropy" else {}
    constant = lam * float(centre @ centre) / 6.0 if kind == "sum" else 0.0
    return Pieces(regularizer, simple_set, *quadratic, *domain, **entropy, constant=constant)


def cut_pool(rng, p, dim, n_blocks, scale, half_spaces):
    """Return cuts of every block, some degenerate, and half-spaces around a point of the set."""
    count = 40
    slopes = rng.standard_normal((count, dim)) * rng.choice([1.0, 1.0, 10.0], count)[:, None]
    integers = rng.random(count) < 0.3
    slopes[integers] = rng.integers(-1, 2, (integers.sum(), dim))
    offsets, blocks = rng.standard_normal(count), np.arange(count) % n_blocks
    twins = rng.choice(np.arange(n_blocks, count - n_blocks), 4)
    slopes[twins + n_blocks], offsets[twins + n_blocks] = slopes[twins], offsets[twins]
    slopes[rng.integers(n_blocks, count)] = 0.0
    slopes[: 2 * n_blocks, -1] = np.where(np.arange(2 * n_blocks) < n_blocks, 1.0, -1.0)
    slopes, offsets = scale * slopes, scale * offsets
    if half_spaces:
        inside = np.clip(np.zeros(dim), p.lower, p.upper)
        inside = inside if p.row is None else inside + p.side / p.row.sum()
        chosen = np.arange(2 * n_blocks + 3, count, 5)
        blocks[chosen] = HALF_SPACE
        slopes[chosen] *= 10.0 ** rng.uniform(-3, 3)
        offsets[chosen] = -slopes[chosen] @ inside - 0.05 * np.abs(slopes[chosen]).sum(axis=1)
    return slopes, offsets, blocks


def rows_of(slopes, offsets, blocks=None, ids=None):
    """Return rows; by default cuts of one block, numbered from 0."""
    count = len(offsets)
    return SimpleNamespace(
        slopes=slopes if sparse.issparse(slopes) else np.array(slopes, dtype=float),
        offsets=np.array(offsets, dtype=float),
        blocks=np.zeros(count, dtype=int) if blocks is None else np.asarray(blocks),
        ids=np.arange(count) if ids is None else np.asarray(ids),
    )


def laid_out(slopes, turn, reads_sparse):
    """Return slopes in Fortran's order, read-only, sparse, or as they are, in turn."""
    if turn % 4 == 3 and reads_sparse:
        return sparse.csr_array(slopes)
    if turn % 4 == 1:
        return np.asfortranarray(slopes)
    if turn % 4 == 2:
        slopes = slopes.copy()
        slopes.flags.writeable = False
    return slopes


def least(p, v, share, quadratic, reach):
    """Return a lower bound of min share g(x) + 1/2 weight |x - point|^2 + <v, x> over the set, |x| <= reach.

    For any multiplier theta of the set's equation the minimum without it is one; the best theta is found by
    bisection.
    """
    weight, point = quadratic
    lower, upper = np.maximum(p.lower, -reach), np.minimum(p.upper, reach)
    w, k = share * p.weights + weight, share * p.costs
    pull = share * p.weights * p.centre + weight * point
    constant = (share * p.weights * p.centre**2 + weight * point**2).sum() / 2 + share * p.constant

    def at(theta):
        u = v if p.row is None else v - theta * p.row
        if p.reference is not None:
            x = np.clip(p.reference * np.exp(-u / (share * p.lam) - 1), lower, upper)
            logs = np.log(np.maximum(x, np.finfo(EXTENDED).tiny)) - np.log(p.reference)
            return x, (share * p.lam * x * logs + u * x).sum()
        target = pull - u
        stepped = np.sign(target) * np.maximum(np.abs(target) - k, 0.0)
        end = np.where(k >= np.abs(target), 0.0, reach * np.sign(target))
        x = np.clip(np.where(w > 0.0, stepped / np.where(w > 0.0, w, 1.0), end), lower, upper)
        return x, (w * x * x / 2 - target * x + k * np.abs(x)).sum() + constant

    if p.row is None:
        return at(0.0)[1]
    low, high, best = EXTENDED(-1.0), EXTENDED(1.0), -np.inf
    while p.row @ at(low)[0] > p.side and low > -1e30:
        low *= 4
    while p.row @ at(high)[0] < p.side and high < 1e30:
        high *= 4
    for _ in range(120):
        theta = (low + high) / 2
        x, value = at(theta)
        best = max(best, value + theta * p.side)
        low, high = (low, theta) if p.row @ x > p.side else (theta, high)
    return best


def height(p, rows, n_blocks, x):
    """Return the model and g at x."""
    values = rows.slopes @ x + rows.offsets
    return sum(values[rows.blocks == k].max() for k in range(n_blocks)) + p.value(x)


def check(p, rows, n_blocks, stabilization, solution, tolerance, accuracy=0.0):
    """Feasible up to the tolerance; the objective exceeds the bound by its multipliers by no more."""
    assert solution.status is MasterStatus.SOLVED, solution.message
    assert solution.x.shape == (rows.slopes.shape[1],) and solution.multipliers.shape == rows.ids.shape
    dense = rows.slopes.toarray() if sparse.issparse(rows.slopes) else rows.slopes
    rows = SimpleNamespace(
        slopes=dense.astype(EXTENDED), offsets=rows.offsets.astype(EXTENDED), blocks=rows.blocks
    )
    x, m = solution.x.astype(EXTENDED), np.maximum(solution.multipliers, 0.0).astype(EXTENDED)
    cuts, size = rows.blocks != HALF_SPACE, max(1.0, np.abs(solution.x).max())
    level = isinstance(stabilization, Level)
    sums = np.bincount(rows.blocks[cuts], solution.multipliers[cuts], minlength=n_blocks)
    share = EXTENDED(sums.mean()) if level else EXTENDED(1.0)
    assert solution.multipliers.min() >= -10 * tolerance * max(float(share), 1.0, np.abs(m).max())
    if level and sums.max() <= tolerance * size / np.abs(dense).max():  # the centre is below the level
        share, m[cuts] = EXTENDED(0.0), 0.0
    else:
        np.testing.assert_allclose(sums, float(share), rtol=10 * tolerance)
        clipped = np.bincount(rows.blocks[cuts], m[cuts].astype(float), minlength=n_blocks)
        m[cuts] *= share / clipped[rows.blocks[cuts]]
    heights = rows.slopes @ x + rows.offsets
    terms = np.abs(rows.slopes) @ np.abs(x) + np.abs(rows.offsets)
    assert p.simple_set.violation(solution.x) <= 10 * tolerance * size
    assert (heights[~cuts] <= 10 * tolerance * terms[~cuts]).all()
    weight, point, constant = EXTENDED(0.0), np.zeros(x.size), m @ rows.offsets
    primal = height(p, rows, n_blocks, x)
    if level:
        excess = primal - stabilization.level
        size = terms[cuts].max() + abs(stabilization.level) + abs(p.value(x))
        assert excess <= 10 * tolerance * size + accuracy
        accuracy *= float(share)
        constant -= share * stabilization.level
        weight, point, primal = EXTENDED(1.0), stabilization.centre, 0.0
    elif stabilization is not None:
        weight, point = EXTENDED(stabilization.weight), stabilization.centre
    primal += weight * ((x - point) ** 2).sum() / 2
    reach = 10 * max(1.0, np.abs(solution.x).max())
    dual = constant + least(p, m @ rows.slopes, share, (weight, point), reach)
    scale = abs(primal) + m @ terms + weight * ((x * x).sum() + (point * point).sum())
    scale += share * (abs(p.value(x)) + (p.weights * p.centre**2).sum()) + (0.0 if level else terms.max())
    assert primal - dual >= -100 * tolerance * scale - (accuracy if level else 0.0)
    assert primal - dual <= max(2 * accuracy, 10 * tolerance * scale), float((primal - dual) / scale)

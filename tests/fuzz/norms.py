"""Norms of groups and of matrices, and norms of differences, with a subgradient at a given point."""

from __future__ import annotations

import numpy as np

import cutplane as cut
from fuzz.draws import Array, Rng, chance, dyadic, pick, positive, power
from fuzz.penalties import Penalty, signs


def group_lasso(rng: Rng, x: Array, sx: float, sf: float) -> Penalty:
    """Norms of groups; where one is zero, a part of the unit ball."""
    n, lam = len(x), power(rng, 3)
    labels = np.unique(rng.integers(0, max(1, n // 2), size=n), return_inverse=True)[1]
    groups = [np.flatnonzero(labels == k) for k in range(labels.max() + 1)]
    weights = positive(rng, len(groups), bits=2) if chance(rng, 0.5) else np.ones(len(groups))
    subgradient = np.zeros(n)
    for group, weight in zip(groups, weights, strict=True):
        norm = np.linalg.norm(x[group])
        inside = dyadic(rng, len(group))
        inside *= 0.5 / max(1.0, np.linalg.norm(inside))
        subgradient[group] = lam * weight * (x[group] / norm if norm > 0.0 else inside)
    given = labels if chance(rng, 0.5) else groups
    return Penalty(
        cut.GroupLasso(given, lam * sf / sx, weights if (weights != 1.0).any() else 1.0),
        subgradient,
        lambda z: lam * sum(w * np.linalg.norm(z[g]) for g, w in zip(groups, weights, strict=True)),
        False,
        "group lasso",
    )


def linf(rng: Rng, x: Array, sx: float, sf: float) -> Penalty:
    lam = power(rng, 3)
    most = np.flatnonzero(np.abs(x) == np.abs(x).max())
    shares = rng.multinomial(64, np.full(len(most), 1.0 / len(most))) / 64.0
    subgradient = np.zeros(len(x))
    subgradient[most] = lam * shares * np.sign(x[most])
    return Penalty(
        cut.LInf(lam * sf / sx), subgradient, lambda z: lam * float(np.abs(z).max()), False, "LInf"
    )


def _shape(rng: Rng, n: int) -> tuple[int, int]:
    rows = int(rng.choice([k for k in range(1, n + 1) if n % k == 0]))
    return rows, n // rows


def nuclear(rng: Rng, x: Array, sx: float, sf: float) -> Penalty:
    """The singular vectors of what is not zero, and a part of the unit ball beside them."""
    lam, shape = power(rng, 3), _shape(rng, len(x))
    U, sizes, V = np.linalg.svd(x.reshape(shape), full_matrices=False)
    inside = np.where(sizes > 1e-9, 1.0, rng.integers(-4, 5, size=len(sizes)) / 8.0)
    return Penalty(
        cut.NuclearNorm(shape, lam * sf / sx),
        lam * ((U * inside) @ V).ravel(),
        lambda z: lam * float(np.linalg.norm(z.reshape(shape), "nuc")),
        False,
        "nuclear norm",
    )


def spectral(rng: Rng, x: Array, sx: float, sf: float) -> Penalty:
    lam, shape = power(rng, 3), _shape(rng, len(x))
    U, _, V = np.linalg.svd(x.reshape(shape), full_matrices=False)
    strength = 1.0 if x.any() else 0.5
    return Penalty(
        cut.SpectralNorm(shape, lam * sf / sx),
        lam * strength * np.outer(U[:, 0], V[0]).ravel(),
        lambda z: lam * float(np.linalg.norm(z.reshape(shape), 2)),
        False,
        "spectral norm",
    )


def variation(rng: Rng, x: Array, sx: float, sf: float) -> Penalty:
    """Differences of neighbours on a line or a grid, or of higher order; x has two entries or more."""
    n, lam = len(x), power(rng, 3)
    order = int(rng.integers(0, min(n - 1, 3)))
    if chance(rng, 0.5):
        regularizer, name = cut.trend_filter(n, lam * sf / sx, order), "trend"
        D = np.diff(np.eye(n), order + 1, axis=0)
    else:
        shape, name = _shape(rng, n), "variation"
        regularizer = cut.total_variation(n if 1 in shape else shape, lam * sf / sx)
        grid = np.arange(n).reshape(shape)
        pairs = [(grid[1:], grid[:-1]), (grid[:, 1:], grid[:, :-1])]
        D = np.concatenate([np.eye(n)[a.ravel()] - np.eye(n)[b.ravel()] for a, b in pairs])
    return Penalty(
        regularizer,
        lam * signs(rng, D @ x) @ D,
        lambda z: lam * float(np.abs(D @ z).sum()),
        False,
        name,
        lambda z: lam * float((np.abs(D) @ np.abs(z)).sum()),
    )


def draw(rng: Rng, x: Array, sx: float, sf: float) -> Penalty:
    """One of these."""
    kinds = {group_lasso: 2, linf: 1, nuclear: 1, spectral: 1, variation: 2 if len(x) > 1 else 0}
    chosen: Penalty = pick(rng, kinds)(rng, x, sx, sf)
    return chosen

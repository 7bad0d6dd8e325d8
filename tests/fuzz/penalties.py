"""Single random regularizers, with a subgradient at a given point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import cutplane as cut
from fuzz.draws import Array, Rng, chance, dyadic, pick, positive, power, variable


class Penalty(NamedTuple):
    """g, a subgradient at x in units of 1, and g computed here in units of 1."""

    regularizer: cut.Regularizer | None
    subgradient: Array
    value: Callable[[Array], float]
    strong: bool
    """Whether the conjugate is finite everywhere."""
    name: str
    terms: Callable[[Array], float] | None = None
    """The size of the numbers that g at a point is a sum of, where they may cancel."""

    def size(self, z: Array) -> float:
        """What g at a point is a sum of, in size."""
        return abs(self.value(z)) if self.terms is None else self.terms(z)


def none(rng: Rng, x: Array, sx: float, sf: float) -> Penalty:
    regularizer = None if chance(rng, 0.7) else cut.NoRegularizer()
    return Penalty(regularizer, np.zeros(len(x)), lambda z: 0.0, False, "none")


def l2(rng: Rng, x: Array, sx: float, sf: float, target: Array | None = None) -> Penalty:
    """L2; with a target, the centre that makes it the subgradient (weights 0 where that is NaN)."""
    n = len(x)
    lam = power(rng, 4) if chance(rng, 0.8) else power(rng, 14)
    weights, centre = np.ones(n), np.zeros(n)
    if target is None and chance(rng, 0.25):
        weights = np.round(positive(rng, n) * 4.0) / 4.0 * (rng.random(n) < 0.7)
    if target is None and chance(rng, 0.3):
        centre = dyadic(rng, n)
    if target is not None:
        weights = np.where(np.isnan(target), 0.0, power(rng, 2) if chance(rng, 0.3) else 1.0)
        centre = x - np.where(weights > 0.0, target, 0.0) / np.where(weights > 0.0, lam * weights, 1.0)
    regularizer = cut.L2(
        lam * sf / sx**2,
        centre=sx * centre if centre.any() else None,
        weights=weights if (weights != 1.0).any() else None,
    )
    return Penalty(
        regularizer,
        lam * weights * (x - centre),
        lambda z: 0.5 * lam * float(weights @ (z - centre) ** 2),
        bool(weights.all()),
        "L2" if weights.all() else "L2 with zeros",
    )


def signs(rng: Rng, x: Array) -> Array:
    """A subgradient of the sum of the absolute values."""
    return np.where(x == 0.0, rng.integers(-64, 65, size=len(x)) / 64.0, np.sign(x))


def l1(rng: Rng, x: Array, sx: float, sf: float) -> Penalty:
    n = len(x)
    lam, weights = power(rng, 4), np.ones(n)
    if chance(rng, 0.2):
        weights = np.round(positive(rng, n) * 4.0) / 4.0 * (rng.random(n) < 0.8)
    regularizer = cut.L1(lam * sf / sx, weights=weights if (weights != 1.0).any() else None)
    return Penalty(
        regularizer,
        lam * weights * signs(rng, x),
        lambda z: lam * float(weights @ np.abs(z)),
        False,
        "L1",
    )


def elastic_net(rng: Rng, x: Array, sx: float, sf: float) -> Penalty:
    """Both parts share lam, so that sx must be 1."""
    lam, ratio = power(rng, 4), float(pick(rng, {0.0: 1, 0.25: 2, 0.5: 2, 1.0: 1}))
    return Penalty(
        cut.ElasticNet(lam * sf, ratio),
        lam * (ratio * signs(rng, x) + (1.0 - ratio) * x),
        lambda z: lam * float(ratio * np.abs(z).sum() + 0.5 * (1.0 - ratio) * z @ z),
        ratio < 1.0,
        "elastic net",
    )


def entropy(rng: Rng, x: Array, sx: float, sf: float) -> Penalty:
    """x is positive, and sx is 1."""
    n = len(x)
    lam = power(rng, 3)
    reference: Any = np.ones(n)
    regularizer: cut.Regularizer = cut.NegativeEntropy(lam * sf)
    if chance(rng, 0.5):
        reference = positive(rng, n)
        regularizer = cut.RelativeEntropy(reference, lam * sf)

    def value(z: Array) -> float:
        logs = np.log(np.where(z > 0.0, z, 1.0) / np.where(z > 0.0, reference, 1.0))
        return lam * float(z @ logs)

    return Penalty(regularizer, lam * (np.log(x / reference) + 1.0), value, True, "entropy")


def group_norm(rng: Rng, x: Array, sx: float, sf: float) -> Penalty:
    n = len(x)
    lam, p = power(rng, 3), float(pick(rng, {1.0: 1, 1.5: 1, 2.0: 1, 3.0: 1}))
    labels = np.sort(rng.integers(0, max(1, n // 2), size=n))
    groups = [np.flatnonzero(labels == k) for k in np.unique(labels)]
    rho = positive(rng, len(groups), bits=2)

    def parts(z: Array) -> Array:
        return rho * np.array([np.linalg.norm(z[group]) for group in groups])

    def value(z: Array) -> float:
        return 0.5 * lam * float(np.linalg.norm(parts(z), p)) ** 2

    subgradient = np.zeros(n)
    total = np.linalg.norm(parts(x), p)
    for k, group in enumerate(groups):
        size = np.linalg.norm(x[group])
        if size > 0.0:
            factor = lam * total * rho[k] * (rho[k] * size / total) ** (p - 1.0)
            subgradient[group] = factor * x[group] / size
    return Penalty(
        cut.SquaredGroupNorm(groups, lam * sf / sx**2, p=p, rho=rho), subgradient, value, True, "group norm"
    )


def quadratic(rng: Rng, x: Array, sx: float, sf: float, target: Array | None = None) -> Penalty:
    """A quadratic form, singular now and then; with a target, its linear part makes it the gradient."""
    n = len(x)
    rank = n if target is not None or chance(rng, 0.7) else int(rng.integers(1, n + 1))
    root = dyadic(rng, rank, n, bits=2)
    Q = root.T @ root + (np.eye(n) if rank == n else 0.0)
    lam = power(rng, 3)
    c = dyadic(rng, n, bits=4) if target is None else target / lam - Q @ x
    if rank < n:
        c = Q @ dyadic(rng, n, bits=2)
    return Penalty(
        cut.QuadraticForm(Q * (sf / sx**2), c * (sf / sx) if c.any() else None, lam),
        lam * (Q @ x + c),
        lambda z: lam * float(z @ (0.5 * (Q @ z) + c)),
        rank == n,
        "quadratic form",
    )


def through_cvxpy(rng: Rng, x: Array, sx: float, sf: float) -> Penalty:
    """The largest coordinate in size, or a sum of squares."""
    import cvxpy as cp

    n, lam = len(x), power(rng, 2)
    z = variable(n)
    if chance(rng, 0.5):
        regularizer = cut.CvxpyRegularizer(cp.sum_squares(z) * (sf / sx**2), z, lam=lam)
        return Penalty(regularizer, 2.0 * lam * x, lambda v: lam * float(v @ v), True, "cvxpy squares")
    j = int(np.argmax(np.abs(x)))
    subgradient = lam * np.sign(x[j]) * np.eye(n)[j]
    regularizer = cut.CvxpyRegularizer(cp.norm_inf(z) * (sf / sx), z, lam=lam)
    return Penalty(regularizer, subgradient, lambda v: lam * float(np.abs(v).max()), False, "cvxpy norm")

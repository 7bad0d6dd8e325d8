"""Random data risks with a known subgradient at a given point, computed here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp, softmax

import cutplane as cut
from fuzz import losses
from fuzz.draws import Array, Rng, chance, dyadic, pick, positive


class Data(NamedTuple):
    """A risk, and the same in units of 1: a subgradient at x, its value and the size of what it sums."""

    risk: cut.Risk
    subgradient: Array
    value: Callable[[Array], float]
    terms: Callable[[Array], float]
    free_bias: bool
    """Whether the last entry of the subgradient is zero, but for rounding."""
    name: str


def layout(rng: Rng, X: Array, exact: bool) -> Any:
    """X in one of the layouts that cutplane accepts; float32 if its entries are exact in it."""
    kinds = {"dense": 4, "fortran": 1, "csr": 1.5, "csc": 1.5, "float32": 1.5 if exact else 0.0}
    kind = pick(rng, kinds)
    if kind == "float32":
        return X.astype(np.float32)
    layouts = {"dense": np.ascontiguousarray, "fortran": np.asfortranarray}
    return {**layouts, "csr": sp.csr_array, "csc": sp.csc_array}[kind](X)


def matrix(rng: Rng, m: int, n: int, x: Array) -> Array:
    """Examples with dyadic entries, small enough for predictions of the size of 1."""
    X = dyadic(rng, m, n, bits=3)
    if chance(rng, 0.3):
        X *= rng.random((m, n)) < 0.5
    if chance(rng, 0.15):
        X[:, int(rng.integers(n))] = 0.0
    if chance(rng, 0.15):
        X[rng.integers(0, m, size=m // 2)] = X[0]
    size = max(1.0, float(np.abs(X @ x[:n]).max()))
    return X / 2.0 ** max(0.0, np.ceil(np.log2(size)) - 1.0)


def scaled(
    rng: Rng, risk: Callable[..., cut.Risk], c: Array | None, m: int, sf: float
) -> tuple[cut.Risk, Array]:
    """A risk in units of sf by its weights, or as a multiple; and its weights in units of 1."""
    if chance(rng, 0.5):
        counts = np.ones(m) if c is None else c
        given = None if c is None and sf == 1.0 else counts * sf
        return risk(sample_weight=given, normalize=False), counts
    counts = np.ones(m) if c is None else c
    made = risk(sample_weight=c, normalize=True)
    return (made if sf == 1.0 else sf * made), counts / counts.sum()


def linear(
    rng: Rng, x: Array, sx: float, sf: float, target: Array | None, intercept: bool, free: bool
) -> Data:
    """LinearRisk. With a target, a last example makes it a subgradient at x; else it is what comes out.

    A `free` bias may be moved: targets like years then have one of their size.
    """
    n = len(x) - int(intercept)
    name = str(rng.choice(losses.NAMES))
    m = int(rng.integers(2, 13)) if chance(rng, 0.8) else int(rng.integers(13, 41))
    X = np.hstack([matrix(rng, m, n, x), np.ones((m, len(x) - n))])
    years = free and name == "squared" and chance(rng, 0.6)
    if years:
        x[-1] = 1990.0
    t = X @ x
    y = _targets(rng, name, t, 15.0 if years else 1.0)
    low, high = losses.slopes(name, t, y)
    u = low + (high - low) * rng.integers(0, 5, size=m) / 4.0
    c = None if years or chance(rng, 0.5) else positive(rng, m)
    free_bias = False
    if years:
        y += u.mean()
        u = t - y
        free_bias = True
    elif intercept and target is None and (u > 0).any() and (u < 0).any():
        c = np.ones(m) if c is None else c
        c = np.where(u < 0, c * (c @ np.maximum(u, 0.0)) / (c @ np.maximum(-u, 0.0)), c)
        free_bias = True
    closed = target is not None
    if closed:
        c = np.ones(m) if c is None else c
        X, y, u, c = _close(rng, name, x, target, X, y, u, c)
        m += 1

    def make(**weights: Any) -> cut.Risk:
        made = layout(rng, X[:, :n] / sx, exact=not closed)
        blocks = 1 if chance(rng, 0.8) else int(rng.integers(1, min(m, 4) + 1))
        return cut.LinearRisk(made, y, losses.make(name), blocks=blocks, intercept=intercept, **weights)

    if closed:
        risk, counts = make(sample_weight=c * sf, normalize=False), c
    else:
        risk, counts = scaled(rng, make, c, m, sf)

    def value(z: Array) -> float:
        return float(counts @ losses.value(name, X @ z, y))

    def terms(z: Array) -> float:
        t = X @ z
        slope = np.abs(losses.slopes(name, t, y)).max(axis=0)
        size = np.abs(losses.value(name, t, y)) + slope * (np.abs(X) @ np.abs(z) + np.abs(y))
        return float(counts @ size)

    return Data(risk, (counts * u) @ X, value, terms, free_bias, name)


def _targets(rng: Rng, name: str, t: Array, spread: float) -> Array:
    m = len(t)
    if losses.is_margin(name):
        return np.where(rng.random(m) < 0.5, 1.0, -1.0)
    if name == "poisson":
        return np.floor(positive(rng, m) * 2.0)
    offsets = np.array([0.0, 0.25, -0.25, 0.5, -0.5])
    kinks = offsets[rng.integers(0, 5, size=m)]
    return t - np.where(rng.random(m) < 0.3, kinks, spread * dyadic(rng, m))


def _close(
    rng: Rng, name: str, x: Array, target: Array, X: Array, y: Array, u: Array, c: Array
) -> tuple[Array, Array, Array, Array]:
    """Add the example that makes `target` a subgradient of the sum at x."""
    missing = target - (c * u) @ X
    along = float(missing @ x)
    if losses.is_margin(name):
        margin = -0.5 * np.sign(along)
        slope = float(losses.slopes(name, np.array([margin]), np.ones(1))[0][0])
        weight = along / (margin * slope) if along else 1.0
        label = 1.0 if chance(rng, 0.5) else -1.0
        row, goal, slope = label * missing / (weight * slope), label, label * slope
    elif name == "poisson":
        t = 0.5 if chance(rng, 0.5) else -0.5
        goal = 0.0 if along * t > 0.0 else 3.0
        slope = float(np.exp(t) - goal)
        weight = along / (t * slope)
        if along == 0.0:
            goal, slope, weight = 0.0, 1.0, 1.0
        row = missing / (weight * slope)
    else:
        residual = 1.0 if chance(rng, 0.5) else -1.0
        slope = float(losses.slopes(name, np.array([residual]), np.zeros(1))[0][0])
        weight = float(positive(rng, 1)[0])
        row = missing / (weight * slope)
        goal = float(row @ x) - residual
    return np.vstack([X, row]), np.append(y, goal), np.append(u, slope), np.append(c, weight)


def multiclass(rng: Rng, x: Array, sx: float, sf: float, p: int) -> Data:
    """MulticlassRisk; x is a matrix of p rows."""
    n = len(x) // p
    m = int(rng.integers(2, 13))
    W = x.reshape(p, n)
    X = matrix(rng, m, n, W[0])
    y = rng.integers(0, p, size=m)
    y[-1] = p - 1
    soft = chance(rng, 0.5)
    loss = cut.losses.Softmax() if soft else cut.losses.MulticlassHinge()
    wrong = 1.0 - np.eye(p)[y]

    def make(**weights: Any) -> cut.Risk:
        return cut.MulticlassRisk(layout(rng, X / sx, True), y, loss, n_classes=p, **weights)

    risk, counts = scaled(rng, make, None if chance(rng, 0.5) else positive(rng, m), m, sf)

    def each(z: Array) -> tuple[Array, Array]:
        s = X @ z.reshape(p, n).T
        best = logsumexp(s, axis=1) if soft else (s + wrong).max(axis=1)
        return best - s[np.arange(m), y], np.abs(X) @ np.abs(z.reshape(p, n)).T

    s = X @ W.T
    chosen = softmax(s, axis=1) if soft else np.eye(p)[(s + wrong).argmax(axis=1)]
    u = counts[:, np.newaxis] * (chosen - np.eye(p)[y])
    return Data(
        risk,
        (u.T @ X).ravel(),
        lambda z: float(counts @ each(z)[0]),
        lambda z: float(counts @ (np.abs(each(z)[0]) + 1.0 + each(z)[1].max(axis=1))),
        False,
        "softmax" if soft else "multiclass hinge",
    )


def ordinal(rng: Rng, x: Array, sf: float, levels: int) -> Data:
    """OrdinalRisk; x ends with the levels - 1 thresholds."""
    n = len(x) - levels + 1
    m = int(rng.integers(levels, 13))
    X = matrix(rng, m, n, x)
    y = rng.integers(0, levels, size=m)
    y[-1] = levels - 1
    name = str(rng.choice([name for name, loss in losses.SCALAR.items() if loss.margin]))
    kind = "all" if chance(rng, 0.5) else "immediate"
    pairs = [
        (i, j)
        for i in range(m)
        for j in range(levels - 1)
        if kind == "all" or j in (int(y[i]) - 1, int(y[i]))
    ]
    rows, columns = np.array(pairs).T
    signs = np.where(y[rows] > columns, 1.0, -1.0)
    M = np.hstack([X[rows], -np.eye(levels - 1)[columns]])

    def make(**weights: Any) -> cut.Risk:
        made = layout(rng, X, True)
        return cut.OrdinalRisk(made, y, losses.make(name), thresholds=kind, n_levels=levels, **weights)

    risk, counts = scaled(rng, make, None if chance(rng, 0.5) else positive(rng, m), m, sf)
    counts = counts[rows]

    def terms(z: Array) -> float:
        t = M @ z
        slope = np.abs(losses.slopes(name, t, signs)).max(axis=0)
        return float(counts @ (np.abs(losses.value(name, t, signs)) + slope * (np.abs(M) @ np.abs(z))))

    return Data(
        risk,
        (counts * losses.slopes(name, M @ x, signs)[0]) @ M,
        lambda z: float(counts @ losses.value(name, M @ z, signs)),
        terms,
        False,
        f"ordinal {name}",
    )


def novelty(rng: Rng, x: Array, sf: float) -> Data:
    """NoveltyRisk; x ends with rho."""
    n = len(x) - 1
    m = int(rng.integers(2, 13))
    X = matrix(rng, m, n, x)
    nu = float(pick(rng, {0.125: 1, 0.25: 1, 0.5: 1, 1.0: 1}))
    c = None if chance(rng, 0.5) else positive(rng, m)
    made = cut.NoveltyRisk(layout(rng, X, True), nu, sample_weight=c)
    counts = (np.ones(m) / m if c is None else c / c.sum()) / nu
    short = X @ x[:-1] < x[-1]
    return Data(
        made if sf == 1.0 else sf * made,
        np.append(-(counts * short) @ X, counts @ short - 1.0),
        lambda z: float(counts @ np.maximum(0.0, z[-1] - X @ z[:-1]) - z[-1]),
        lambda z: float(counts @ (np.abs(z[-1]) + np.abs(X) @ np.abs(z[:-1])) + abs(z[-1])),
        False,
        "novelty",
    )


def is_smooth(risk: Any) -> bool:
    """Whether the loss of a risk is known to be smooth."""
    loss = getattr(risk, "loss", None)
    return bool(np.isfinite(getattr(loss, "smoothness", np.inf)))

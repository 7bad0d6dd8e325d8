"""Random problems whose optimum is known in rational arithmetic, and what no result may say of them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from rational import MARGINS, RESIDUALS, Exact
from scipy import sparse

import cutplane as cut

TOL = 1e-6
KINDS = "plain", "interpolating", "scaled"
"""Data of size 1; targets that a linear function nearly attains; scales from 1e-9 to 1e9."""
METHODS = "auto", "bmrm", "ocas", "proximal", "level", "kelley", "lbfgs", "direct", "acceleratedgradient"
SHAPES: dict[str, Any] = {
    "dense": lambda X, y, loss, b: cut.LinearRisk(X, y, loss, intercept=b),
    "csr": lambda X, y, loss, b: cut.LinearRisk(sparse.csr_array(X), y, loss, intercept=b),
    "csc": lambda X, y, loss, b: cut.LinearRisk(sparse.csc_array(X), y, loss, intercept=b),
    "blocks": lambda X, y, loss, b: cut.LinearRisk(X, y, loss, intercept=b, blocks=min(2, y.size)),
    "sum": lambda X, y, loss, b: (
        0.25 * cut.LinearRisk(X, y, loss, intercept=b) + 0.75 * cut.LinearRisk(X, y, loss, intercept=b)
    ),
    "maximum": lambda X, y, loss, b: cut.maximum(*[cut.LinearRisk(X, y, loss, intercept=b)] * 2),
}
"""The same risk in several forms."""
ALLOWED = Fraction(1, 10**12)


@dataclass(frozen=True)
class Drawn:
    """A problem, the same one in rational arithmetic, and a name for reports.

    `sized` tells whether the data have the size of 1. Elsewhere last bits of predictions may be worth more
    than the tolerance, so that slopes that are computed again prove less.
    """

    problem: cut.Problem
    exact: Exact
    name: str
    sized: bool


def draw(seed: int) -> Drawn:
    """Return the problem of this number; a third are of each kind."""
    rng, kind = np.random.default_rng(seed), KINDS[seed % 3]
    m, n = int(rng.integers(1, 8)), int(rng.integers(1, 4))
    loss_name = str(rng.choice([*MARGINS, *RESIDUALS]))
    X = rng.standard_normal((m, n))
    if rng.random() < 0.5:
        X = np.round(16.0 * X) / 16.0
    if rng.random() < 0.2:
        X = np.ones((m, n))
    size = 1.0
    if kind == "scaled":
        size, X = 10.0 ** rng.integers(-9, 10), X * 10.0 ** rng.integers(-9, 10)
        if rng.random() < 0.3:
            X = X * 10.0 ** rng.integers(-4, 5, n) + 10.0 ** rng.integers(-2, 9, n)
    w = rng.standard_normal(n)
    y = _targets(rng, kind, loss_name in MARGINS, X @ w, size)
    numbers = {"Quantile": 0.3, "EpsilonInsensitive": 0.125 * size, "SquaredEpsilonInsensitive": 0.125 * size}
    numbers["Huber"] = 0.75 * size
    given = [numbers[loss_name]] if loss_name in numbers else []
    l2, l1 = float(rng.choice([0.0, 1.0, 1e-3, 1e-9])), float(rng.choice([0.0, 0.0, 0.1]))
    if kind == "scaled":
        l2 *= 10.0 ** rng.integers(-9, 10)
    region = str(rng.choice(["free", "box", "simplex"], p=[0.4, 0.5, 0.1]))
    if region == "free" and not (l1 or l2):
        region = "box"
    intercept = region == "free" and rng.random() < 0.5
    half = float(np.abs(w).max() * 10.0 ** rng.integers(-1, 2 if kind == "plain" else 10))
    terms = MARGINS[loss_name] if loss_name in MARGINS else RESIDUALS[loss_name](*given)
    exact = Exact(
        [[Fraction(a) for a in row] + [Fraction(1)] * intercept for row in X.tolist()],
        [Fraction(number) for number in y.tolist()],
        [Fraction(1, m)] * m,
        terms,
        loss_name in MARGINS,
        [Fraction(l2)] * n + [Fraction(0)] * intercept,
        [Fraction(l1)] * n + [Fraction(0)] * intercept,
        _rows(region, n, Fraction(half)),
    )
    ones = [1.0] * n + [0.0] if intercept else None
    regularizer: Any = cut.L2(l2, weights=ones) if l2 else None
    if l1:
        norm = cut.L1(l1, weights=ones)
        regularizer = norm if regularizer is None else regularizer + norm
    feasible_set = {"free": None, "box": cut.Box(-half, half, dim=n), "simplex": cut.Simplex(n)}[region]
    shape = str(rng.choice([*SHAPES], p=[0.5, *[0.1] * 5]))
    risk = SHAPES[shape](X, y, getattr(cut.losses, loss_name)(*given), intercept)
    pieces = {"regularizer": regularizer, "feasible_set": feasible_set}
    problem = cut.Problem(risk, **{name: piece for name, piece in pieces.items() if piece is not None})
    shown = f"{shape} {region}{' intercept' * intercept} {kind}"
    name = f"{seed}: {loss_name}{given} {m} x {n} l2={l2:g} l1={l1:g} {shown}"
    return Drawn(problem, exact, name, kind != "scaled")


def _targets(rng: np.random.Generator, kind: str, margin: bool, z: np.ndarray, size: float) -> np.ndarray:
    if margin:
        return np.where(z >= 0.0, 1.0, -1.0) if kind == "interpolating" else rng.choice([-1.0, 1.0], z.size)
    if kind == "interpolating":
        off = 10.0 ** rng.integers(-9, 1) * rng.integers(-5, 6, z.size)
        return z * 10.0 ** rng.integers(0, 10) + off * (rng.random() < 0.8)
    return size * rng.standard_normal(z.size)


def _rows(region: str, n: int, half: Fraction) -> list[tuple[list[Fraction], Fraction]]:
    units = [[Fraction(int(j == k)) for k in range(n)] for j in range(n)]
    if region == "simplex":
        ones = [Fraction(1)] * n
        return [
            *((unit, Fraction(0)) for unit in units),
            (ones, Fraction(1)),
            ([-a for a in ones], Fraction(-1)),
        ]
    if region == "box":
        return [pair for unit in units for pair in ((unit, -half), ([-a for a in unit], -half))]
    return []


def complaint(drawn: Drawn, result: cut.Result, optimum: Fraction, minimiser: list[Fraction]) -> str | None:
    """Return what is wrong with a result; None if nothing is."""
    exact = drawn.exact
    unit = 4 * exact.unit(minimiser)
    if np.isfinite(result.lower_bound):
        above = Fraction(result.lower_bound) - optimum
        if above > ALLOWED * abs(optimum) + unit:
            return f"the bound is {float(above):.3g} above the optimum {float(optimum):.6g}"
    if result.x is None:
        return None
    value = exact.objective(result.x)
    size = max(ALLOWED, abs(value))
    if result.status == "OPTIMAL" and value - optimum > Fraction(TOL) * size * (1 + ALLOWED) + unit:
        return f"OPTIMAL with a gap of {float((value - optimum) / size):.3g}, optimum {float(optimum):.6g}"
    if Fraction(result.objective) < value - ALLOWED * abs(value) - unit - exact.noise(result.x):
        return f"the objective is {result.objective!r}, and {float(value)!r} at x"
    if result.status == "OPTIMAL" and drawn.sized:
        again = result.certificate.verify()
        if not again.valid:
            return "verify() rejects OPTIMAL: " + "; ".join(again.problems)
    return None

"""Random problems whose optimum is known by construction.

A point x, a set around it with a normal vector there, and a regularizer with a subgradient there are drawn;
then a risk whose subgradient at x is minus the sum of the two. So x is optimal, and the optimum is the
objective there. Most numbers are multiples of small powers of two, so that all of this holds exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

import cutplane as cut
from fuzz import algebra, combined, data, enumerated, penalties, pieces, regions
from fuzz.draws import Array, Rng, chance, dyadic, pick


@dataclass(frozen=True, eq=False)
class Known:
    """A problem with a known solution."""

    name: str
    problem: cut.Problem
    x: Array
    """A solution."""
    optimum: float
    normal: Array
    """Normal to the feasible set at x; minus a subgradient of the objective."""
    value: Callable[[Array], float]
    """The objective, computed here."""
    terms: Callable[[Array], float]
    """The size of the numbers that the objective at a point is a sum of."""
    violation: Callable[[Array], float]
    """How far a point is outside, relative to the sizes of the set and of the point."""
    tolerance: float
    """The violation that is taken for rounding."""
    certifiable: bool
    """Whether a proof of the optimum is known to exist: a bounded set, or a conjugate finite everywhere."""
    scale: float
    """The unit of x."""
    slow: bool
    """Whether cvxpy is needed."""
    smooth: bool


def known(
    name: str, x: Array, sx: float, sf: float, region, penalty, risk, value, terms, slow: bool, smooth: bool
) -> Known:
    problem = cut.Problem(risk, penalty.regularizer, region.feasible_set)
    at = sx * x
    return Known(
        f"{name}; {penalty.name}; {region.name}",
        problem,
        at,
        value(at) + sf * penalty.value(x),
        region.normal * (sf / sx),
        lambda z: value(z) + sf * penalty.value(z / sx),
        lambda z: terms(z) + sf * penalty.size(z / sx),
        lambda z: region.violation(z / sx),
        region.tolerance,
        region.bounded or penalty.strong,
        sx,
        slow,
        smooth,
    )


def _units(rng: Rng) -> tuple[float, float]:
    """The units of x and of the objective: powers of 2 and of 4."""
    sx = 1.0 if chance(rng, 0.65) else 2.0 ** int(rng.integers(-40, 41))
    sf = 1.0 if chance(rng, 0.65) else 4.0 ** int(rng.integers(-20, 21))
    return sx, sf


def _dimension(rng: Rng) -> int:
    return int(pick(rng, {1: 3, 2: 4, 3: 3, 4: 3, 5: 2, 6: 1, 7: 1, 8: 1, 9: 0.5}))


def draw(rng: Rng) -> Known:
    """A random problem with a known solution."""
    kind = pick(
        rng,
        {"pieces": 9, "smooth": 3, "linear": 7, "algebra": 6, "multiclass": 1, "ordinal": 1, "novelty": 1}
        | enumerated.KINDS,
    )
    slow = chance(rng, 0.12)
    if kind == "algebra":
        return from_algebra(rng, slow)
    if kind in ("pieces", "smooth"):
        return from_pieces(rng, slow, kind == "smooth")
    return from_data(rng, slow, kind)


def from_pieces(rng: Rng, slow: bool, smooth: bool) -> Known:
    """Maxima of affine functions, plus squares; the optimum is 0 now and then."""
    n = _dimension(rng)
    sx, sf = _units(rng)
    x, region = regions.draw(rng, n, sx, slow)
    penalty = combined.draw(rng, x, sx, sf, slow, "simplex" in region.name or chance(rng, 0.3))
    if smooth and chance(rng, 0.7):
        penalty = penalties.none(rng, x, sx, sf)
    target = -(region.normal + penalty.subgradient)
    count = 1 if chance(rng, 0.7) else int(rng.integers(2, 4))
    parts = [dyadic(rng, n) for _ in range(count - 1)]
    targets = [target - sum(parts, np.zeros(n)), *parts]
    anchored = chance(rng, 0.4)
    blocks = [pieces.block(rng, x, part, sx, sf, smooth, anchored) for part in targets]
    lost = 0.0
    if chance(rng, 0.06):
        lost = sum(abs(piece(sx * x)[0]) for piece in blocks)  # whose last bits are in b
        blocks = [replace(piece, b=piece.b - piece(sx * x)[0]) for piece in blocks]
        blocks[0] = replace(blocks[0], b=blocks[0].b - sf * penalty.value(x))
    risk, form = pieces.as_risk(rng, blocks, slow)

    def value(z: Array) -> float:
        return sum(piece(z)[0] for piece in blocks)

    def terms(z: Array) -> float:
        return sum(piece.terms(z) for piece in blocks) + lost

    return known(form, x, sx, sf, region, penalty, risk, value, terms, slow, smooth)


def from_algebra(rng: Rng, slow: bool) -> Known:
    """Sums, multiples, linear images, parts, shifts and maxima of risks."""
    n = _dimension(rng)
    sx, sf = _units(rng)
    x, region = regions.draw(rng, n, sx, slow)
    units = algebra.Units(sx, sf, chance(rng, 0.25), slow)
    if chance(rng, 0.4):
        drawn = algebra.draw(rng, x, None, units)
        penalty = penalties.l2(rng, x, sx, sf, -(region.normal + drawn.subgradient))
    else:
        entropic = "simplex" in region.name or chance(rng, 0.3)
        penalty = combined.draw(rng, x, sx, sf, slow, entropic)
        drawn = algebra.draw(rng, x, -(region.normal + penalty.subgradient), units)

    def value(z: Array) -> float:
        return sf * drawn.value(z / sx)

    def terms(z: Array) -> float:
        return sf * drawn.terms(z / sx)

    return known(drawn.name, x, sx, sf, region, penalty, drawn.risk, value, terms, slow, drawn.smooth)


def from_data(rng: Rng, slow: bool, kind: str) -> Known:
    """Data risks."""
    sx, sf = _units(rng)
    size = int(rng.integers(2, 4))
    n = _dimension(rng)
    intercept = kind == "linear" and n > 1 and chance(rng, 0.4)
    if kind == "multiclass":
        n = size * int(rng.integers(1, 4))
    elif kind in ("chains", "likelihood"):
        n = 2 * int(rng.integers(1, 3)) + 4
    elif kind in ("ordinal", "novelty"):
        n += size
    if intercept or kind in ("ordinal", "novelty", "chains", "likelihood"):
        sx = 1.0
    x, region = regions.draw(rng, n, sx, slow)
    closing = pick(rng, {"centre": 4, "form": 1 if slow else 0, "sum": 2, "example": 0 if intercept else 4})
    if kind != "linear" and closing == "example":
        closing = "centre"
    free = intercept and closing == "centre" and region.name == "whole"
    make = {
        "linear": lambda target: data.linear(rng, x, sx, sf, target, intercept, free),
        "multiclass": lambda target: data.multiclass(rng, x, sx, sf, size),
        "ordinal": lambda target: data.ordinal(rng, x, sf, size),
        "novelty": lambda target: data.novelty(rng, x, sf),
        **{name: lambda target: enumerated.draw(rng, kind, x, sx, sf) for name in enumerated.KINDS},
    }[kind]
    if closing in ("centre", "form"):
        drawn = make(None)
        target = -(region.normal + drawn.subgradient)
        if drawn.free_bias and free:
            target = np.append(target[:-1], np.nan)
        penalty = (penalties.l2 if closing == "centre" else penalties.quadratic)(rng, x, sx, sf, target)
        risk, extra = drawn.risk, np.zeros(n)
    else:
        entropic = "simplex" in region.name or chance(rng, 0.3)
        penalty = combined.draw(rng, x, sx, sf, slow, entropic)
        target = -(region.normal + penalty.subgradient)
        drawn = make(target if closing == "example" else None)
        extra = np.zeros(n) if closing == "example" else target - drawn.subgradient
        risk = drawn.risk
        if extra.any():
            risk = risk + cut.LinearObjective(extra * (sf / sx))
            if chance(rng, 0.3):
                risk = risk.disaggregated()

    def value(z: Array) -> float:
        return sf * (drawn.value(z / sx) + float(extra @ z) / sx)

    def terms(z: Array) -> float:
        return sf * (drawn.terms(z / sx) + float(np.abs(extra) @ np.abs(z)) / sx)

    smooth = kind == "likelihood" or (kind == "linear" and data.is_smooth(drawn.risk))
    name = f"{kind} {drawn.name} by {closing}"
    return known(name, x, sx, sf, region, penalty, risk, value, terms, slow, smooth)

"""Random risks made by the algebra, with a subgradient at a given point: sums, multiples, images, maxima."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator

import cutplane as cut
from fuzz import data, pieces
from fuzz.draws import Array, Rng, chance, dyadic, pick, positive, power


class Part(NamedTuple):
    """A risk, and the same in units of 1: a subgradient at x, its value and the size of what it sums."""

    risk: cut.Risk
    subgradient: Array
    value: Callable[[Array], float]
    terms: Callable[[Array], float]
    smooth: bool
    name: str


class Units(NamedTuple):
    """Those of x and of the objective, and which pieces may be drawn."""

    sx: float
    sf: float
    smooth: bool
    slow: bool


Maker = Callable[[Rng, Array, Array | None, Units, int], Part]


def draw(rng: Rng, x: Array, target: Array | None, units: Units, depth: int = 2) -> Part:
    """A risk with the subgradient `target` at x, if one is given; made in `depth` steps, at most."""
    makers: dict[Maker, float] = {image: 2, shift: 1, part: 2, total: 1, multiple: 1}
    if not units.smooth:
        makers[largest] = 3
    if depth < 2:
        makers[leaf] = 4
    maker: Any = leaf if depth == 0 else pick(rng, makers)
    return maker(rng, x, target, units, depth - 1)


def leaf(rng: Rng, x: Array, target: Array | None, units: Units, depth: int) -> Part:
    """A data risk or a block."""
    if chance(rng, 0.5):
        drawn = data.linear(rng, x, units.sx, units.sf, target, False, False)
        subgradient = drawn.subgradient if target is None else target
        if data.is_smooth(drawn.risk) or not units.smooth:
            smooth = data.is_smooth(drawn.risk)
            return Part(drawn.risk, subgradient, drawn.value, drawn.terms, smooth, drawn.name)
    subgradient = dyadic(rng, len(x)) if target is None else target
    return _of_block(rng, _block(rng, x, subgradient, units), subgradient, units)


def _block(rng: Rng, x: Array, target: Array, units: Units) -> pieces.Block:
    return pieces.block(rng, x, target, units.sx, units.sf, units.smooth, chance(rng, 0.4))


def _of_block(rng: Rng, block: pieces.Block, subgradient: Array, units: Units) -> Part:
    sx, sf = units.sx, units.sf
    risk, name = pieces.as_risk(rng, [block], units.slow)
    return Part(
        risk,
        subgradient,
        lambda z: block(sx * z)[0] / sf,
        lambda z: block.terms(sx * z) / sf,
        units.smooth,
        name,
    )


def image(rng: Rng, x: Array, target: Array | None, units: Units, depth: int) -> Part:
    """h(B x): with a target, the identity is among the rows of B."""
    n, extra = len(x), int(rng.integers(1, 4))
    B = dyadic(rng, extra, n, bits=2)
    if chance(rng, 0.3):
        B[:, int(rng.integers(n))] = 0.0
    inner_target = None
    if target is not None:
        inner_target = dyadic(rng, extra, bits=4)
        inner_target = np.append(inner_target, target - B.T @ inner_target)
        B = np.vstack([B, np.eye(n)])
        order = rng.permutation(len(B))
        B, inner_target = B[order], inner_target[order]
    h = draw(rng, B @ x, inner_target, units, depth)
    layout: Any = pick(rng, {np.asarray: 2, sp.csr_array: 1, aslinearoperator: 0 if units.slow else 1})
    return Part(
        h.risk @ layout(B),
        B.T @ h.subgradient,
        lambda z: h.value(B @ z),
        lambda z: h.terms(B @ z) + h.terms(np.abs(B) @ np.abs(z)),
        h.smooth,
        f"({h.name}) @ B",
    )


def shift(rng: Rng, x: Array, target: Array | None, units: Units, depth: int) -> Part:
    """h(x + b)."""
    b = dyadic(rng, len(x)) * 2.0 ** int(rng.integers(0, 3))
    h = draw(rng, x + b, target, units, depth)
    return Part(
        h.risk.shift(units.sx * b),
        h.subgradient,
        lambda z: h.value(z + b),
        lambda z: h.terms(z + b) + h.terms(np.abs(z) + np.abs(b)),
        h.smooth,
        f"({h.name}).shift",
    )


def index_of(rng: Rng, n: int) -> tuple[Any, Array]:
    """Some coordinates, as an index and as an array."""
    count = int(rng.integers(1, n + 1))
    kind = pick(rng, {"slice": 1, "mask": 1, "array": 2})
    if kind == "slice":
        start = int(rng.integers(0, n - count + 1))
        index: Any = slice(start, start + count)
        return index, np.arange(n)[index]
    chosen = rng.permutation(n)[:count]
    if kind == "mask":
        mask = np.isin(np.arange(n), chosen)
        return mask, np.flatnonzero(mask)
    return chosen, chosen


def part(rng: Rng, x: Array, target: Array | None, units: Units, depth: int) -> Part:
    """h(x[index]); with a target, plus a linear function of the other coordinates."""
    n = len(x)
    index, where = index_of(rng, n)
    h = draw(rng, x[where], None if target is None else target[where], units, depth)
    subgradient = np.zeros(n)
    subgradient[where] = h.subgradient
    rest = np.zeros(n) if target is None else np.where(np.isin(np.arange(n), where), 0.0, target)
    if rest.any():
        risk = h.risk.on(index) + cut.LinearObjective(rest * (units.sf / units.sx))
    else:
        risk = h.risk.on(index, n)
    return Part(
        risk,
        subgradient + rest,
        lambda z: h.value(z[where]) + float(rest @ z),
        lambda z: h.terms(z[where]) + float(np.abs(rest) @ np.abs(z)),
        h.smooth,
        f"({h.name}).on",
    )


def total(rng: Rng, x: Array, target: Array | None, units: Units, depth: int) -> Part:
    """f + g, in one cut or with one of each."""
    other = None if target is None else dyadic(rng, len(x))
    f = draw(rng, x, other, units, depth)
    g = draw(rng, x, None if target is None else target - other, units, depth)
    risk = f.risk + g.risk
    return Part(
        risk.disaggregated() if chance(rng, 0.3) else risk,
        f.subgradient + g.subgradient,
        lambda z: f.value(z) + g.value(z),
        lambda z: f.terms(z) + g.terms(z),
        f.smooth and g.smooth,
        f"({f.name} + {g.name})",
    )


def multiple(rng: Rng, x: Array, target: Array | None, units: Units, depth: int) -> Part:
    """c f."""
    c = power(rng, 3)
    f = draw(rng, x, None if target is None else target / c, units, depth)
    return Part(
        c * f.risk,
        c * f.subgradient,
        lambda z: c * f.value(z),
        lambda z: c * f.terms(z),
        f.smooth,
        f"c * ({f.name})",
    )


def largest(rng: Rng, x: Array, target: Array | None, units: Units, depth: int) -> Part:
    """A maximum of two or three, two of them of one value at x; without a target, of two data risks."""
    return _of_data(rng, x, units) if target is None else _of_blocks(rng, x, target, units, depth)


def _maximum(parts: list[Part], risks: list[cut.Risk], subgradient: Array, lost: float) -> Part:
    return Part(
        cut.maximum(*risks),
        subgradient,
        lambda z: max(each.value(z) for each in parts),
        lambda z: sum(each.terms(z) for each in parts) + lost,
        False,
        f"max({', '.join(each.name for each in parts)})",
    )


def _of_blocks(rng: Rng, x: Array, target: Array, units: Units, depth: int) -> Part:
    """A function and a block that share the target, and maybe a block below."""
    other = dyadic(rng, len(x))
    parts = [draw(rng, x, 2.0 * target - other, units, depth)]
    top = parts[0].value(x)
    lost = abs(top)
    for slope, below in ((other, 0.0), (dyadic(rng, len(x)), float(positive(rng, 1)[0])))[
        : rng.integers(1, 3)
    ]:
        block = _block(rng, x, slope, units)
        here = block(units.sx * x)[0] / units.sf
        block = replace(block, b=block.b + (top - below - here) * units.sf)
        lost += abs(here)
        parts.append(_of_block(rng, block, slope, units))
    order = rng.permutation(len(parts))
    return _maximum(parts, [parts[i].risk for i in order], target, lost)


def _of_data(rng: Rng, x: Array, units: Units) -> Part:
    """Two data risks, one of them multiplied to have the value of the other if both are positive."""
    f, g = (data.linear(rng, x, units.sx, units.sf, None, False, False) for _ in range(2))
    high, low = f.value(x), g.value(x)
    c = high / low if high > 0.0 and low > 1e-3 else 1.0
    parts = [
        Part(f.risk, f.subgradient, f.value, f.terms, False, f.name),
        Part(
            c * g.risk,
            c * g.subgradient,
            lambda z: c * g.value(z),
            lambda z: c * g.terms(z),
            False,
            g.name,
        ),
    ]
    tied = abs(high - c * low) <= 1e-14 * abs(high)
    best = parts[0] if high >= c * low else parts[1]
    subgradient = 0.5 * (parts[0].subgradient + parts[1].subgradient) if tied else best.subgradient
    return _maximum(parts, [each.risk for each in parts], subgradient, 0.0)

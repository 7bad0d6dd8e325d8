"""Random regularizers, and their algebra: sums, multiples, linear images, those of a part of the vector."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from fuzz import norms, penalties
from fuzz.algebra import index_of
from fuzz.draws import Array, Rng, chance, dyadic, pick, power
from fuzz.penalties import Penalty

Draw = Callable[[Rng, Array, float, float], Penalty]


def _sum(rng: Rng, x: Array, sx: float, sf: float, inner: Draw) -> Penalty:
    """g + h, or c g."""
    c = power(rng, 2)
    g = inner(rng, x, sx, sf)
    if chance(rng, 0.3):
        return Penalty(
            c * g.regularizer,
            c * g.subgradient,
            lambda z: c * g.value(z),
            g.strong,
            f"c * ({g.name})",
            lambda z: c * g.size(z),
        )
    h = inner(rng, x, sx, sf)
    return Penalty(
        c * g.regularizer + h.regularizer,
        c * g.subgradient + h.subgradient,
        lambda z: c * g.value(z) + h.value(z),
        g.strong or h.strong,
        f"{g.name} + {h.name}",
        lambda z: c * g.size(z) + h.size(z),
    )


def _part(rng: Rng, x: Array, sx: float, sf: float, inner: Draw) -> Penalty:
    """g(x[index])."""
    n = len(x)
    index, where = index_of(rng, n)
    g = inner(rng, x[where], sx, sf)
    subgradient = np.zeros(n)
    subgradient[where] = g.subgradient
    return Penalty(
        g.regularizer.on(index, n if chance(rng, 0.5) else None),
        subgradient,
        lambda z: g.value(z[where]),
        g.strong and len(where) == n,
        f"({g.name}).on",
        lambda z: g.size(z[where]),
    )


def _image(rng: Rng, x: Array, sx: float, sf: float, inner: Draw) -> Penalty:
    """g(B x)."""
    rows = int(rng.integers(1, len(x) + 2))
    B = dyadic(rng, rows, len(x), bits=2) * (rng.random((rows, len(x))) < 0.7)
    g = inner(rng, B @ x, sx, sf)
    return Penalty(
        g.regularizer @ (sp.csr_array(B) if chance(rng, 0.5) else B),
        g.subgradient @ B,
        lambda z: g.value(B @ z),
        False,
        f"({g.name}) @ B",
        lambda z: g.size(B @ z) + g.size(np.abs(B) @ np.abs(z)),
    )


def _plain(rng: Rng, x: Array, sx: float, sf: float) -> Penalty:
    chosen: Penalty = pick(rng, {penalties.l1: 1, penalties.l2: 1})(rng, x, sx, sf)
    return chosen


def _any(rng: Rng, x: Array, sx: float, sf: float) -> Penalty:
    kinds = {penalties.l1: 2, penalties.l2: 2, norms.draw: 3, penalties.group_norm: 1, plain: 1}
    chosen: Penalty = pick(rng, kinds)(rng, x, sx, sf)
    return chosen


def plain(rng: Rng, x: Array, sx: float, sf: float) -> Penalty:
    """Sums, multiples and parts of L1 and L2, which need no cvxpy."""
    chosen: Penalty = pick(rng, {_sum: 2, _part: 1})(rng, x, sx, sf, _plain)
    return chosen


def combination(rng: Rng, x: Array, sx: float, sf: float) -> Penalty:
    """Anything of anything, through cvxpy."""
    chosen: Penalty = pick(rng, {_sum: 2, _part: 1, _image: 1})(rng, x, sx, sf, _any)
    return chosen


def draw(rng: Rng, x: Array, sx: float, sf: float, slow: bool, entropic: bool) -> Penalty:
    """A regularizer; `slow` allows those that need cvxpy."""
    kinds: dict[Draw, float] = {penalties.none: 4, penalties.l2: 6, penalties.l1: 2.5, plain: 1.5}
    if sx == 1.0:
        kinds[penalties.elastic_net] = 1.5
        if entropic and (x > 0.0).all():
            kinds[penalties.entropy] = 8
    if slow:
        kinds |= {penalties.group_norm: 1, penalties.quadratic: 1, penalties.through_cvxpy: 0.5}
        kinds |= {norms.draw: 4, combination: 4}
    chosen: Penalty = pick(rng, kinds)(rng, x, sx, sf)
    return chosen

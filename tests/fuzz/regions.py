"""Random feasible sets around a given point, with a vector normal to the set there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

import cutplane as cut
from fuzz.draws import Array, Rng, chance, dyadic, pick, positive, shares, variable


class Region(NamedTuple):
    """A set X that holds the point x, and <normal, z - x> <= 0 for all z in X; the normal in units of 1."""

    feasible_set: cut.FeasibleSet | None
    normal: Array
    violation: Callable[[Array], float]
    """Of a point in units of 1, relative to the size of the set and of the point."""
    tolerance: float
    bounded: bool
    name: str


def _region(feasible_set, normal, excess, size, tolerance, bounded, name) -> Region:
    """`excess` is the worst violation in units of 1, `size` the size of the set."""

    def violation(x: Array) -> float:
        return float(excess(x)) / max(float(size), float(np.abs(x).max()))

    return Region(feasible_set, normal, violation, tolerance, bounded, name)


def _strength(rng: Rng) -> float:
    """The size of a multiplier: zero now and then."""
    return float(pick(rng, {0.0: 1, 0.25: 1, 1.0: 3, 4.0: 1}))


def whole(rng: Rng, x: Array, sx: float) -> Region:
    feasible_set = None if chance(rng, 0.7) else cut.WholeSpace()
    return _region(feasible_set, np.zeros(len(x)), lambda z: 0.0, 1.0, 1e-9, False, "whole")


def box(rng: Rng, x: Array, sx: float) -> Region:
    """A box on whose sides x lies in some coordinates; some may be open, some degenerate."""
    n = len(x)
    wide = 2.0 ** int(rng.integers(0, 8)) if chance(rng, 0.3) else 1.0
    lower, upper = x - wide * positive(rng, n), x + wide * positive(rng, n)
    place = rng.choice(4, size=n, p=[0.4, 0.27, 0.27, 0.06])
    lower, upper = np.where(place == 1, x, lower), np.where(place == 2, x, upper)
    if chance(rng, 0.2):
        lower, upper = np.where(place == 3, x, lower), np.where(place == 3, x, upper)
    force = _strength(rng) * positive(rng, n)
    normal = np.where(place == 1, -force, np.where(place == 2, force, 0.0))
    normal = np.where((lower == upper) & (place == 3), dyadic(rng, n), normal)
    if chance(rng, 0.15):
        opened = rng.random(n) < 0.5
        lower = np.where(opened & (place != 1) & (place != 3), -np.inf, lower)
        opened = rng.random(n) < 0.5
        upper = np.where(opened & (place != 2) & (place != 3), np.inf, upper)
    bounded = bool(np.isfinite(lower).all() and np.isfinite(upper).all())
    sides = np.concatenate([lower, upper])
    size = np.abs(sides[np.isfinite(sides)]).max(initial=0.0)
    size = size if size > 0.0 else 1.0
    return _region(
        cut.Box(sx * lower, sx * upper),
        normal,
        lambda z: np.maximum(lower - z, z - upper).max(initial=0.0),
        size,
        1e-9,
        bounded,
        "box",
    )


def linf_ball(rng: Rng, x: Array, sx: float) -> Region:
    n = len(x)
    centre = x + dyadic(rng, n)
    offset = x - centre
    radius = float(np.abs(offset).max())
    if radius == 0.0 or chance(rng, 0.3):
        radius += 1.0
    active = np.abs(offset) == radius
    normal = np.where(active, np.sign(offset) * _strength(rng) * positive(rng, n), 0.0)
    return _region(
        cut.LinfBall(sx * radius, centre=sx * centre),
        normal,
        lambda z: np.abs(z - centre).max() - radius,
        radius + np.abs(centre).max(),
        1e-9,
        True,
        "linf ball",
    )


def orthant(rng: Rng, x: Array, sx: float) -> Region:
    normal = np.where(x == 0.0, -_strength(rng) * positive(rng, len(x)), 0.0)
    return _region(
        cut.NonnegativeOrthant(), normal, lambda z: (-z).max(), x.max() or 1.0, 1e-9, False, "orthant"
    )


def simplex(rng: Rng, x: Array, sx: float) -> Region:
    """x sums to 1."""
    n = len(x)
    level = float(dyadic(rng, 1)[0])
    normal = level - np.where(x == 0.0, _strength(rng) * positive(rng, n), 0.0)
    return _region(
        cut.Simplex(radius=sx) if sx != 1.0 else cut.Simplex(),
        normal,
        lambda z: max((-z).max(), abs(z.sum() - 1.0)),
        1.0,
        1e-9,
        True,
        "simplex",
    )


def capped_simplex(rng: Rng, x: Array, sx: float) -> Region:
    """x sums to 1, and sx is 1."""
    n = len(x)
    if chance(rng, 0.5):
        cap: Any = float(x.max()) if chance(rng, 0.6) else min(1.0, float(x.max()) + 0.125)
    else:
        cap = np.where(rng.random(n) < 0.4, x, x + positive(rng, n))
    caps = np.broadcast_to(cap, (n,))
    normal = float(dyadic(rng, 1)[0]) - np.where(x == 0.0, _strength(rng) * positive(rng, n), 0.0)
    normal = normal + np.where(x == caps, _strength(rng) * positive(rng, n), 0.0)
    return _region(
        cut.CappedSimplex(cap),
        normal,
        lambda z: max((-z).max(), (z - caps).max(), abs(z.sum() - 1.0)),
        1.0,
        1e-9,
        True,
        "capped simplex",
    )


def _ball(rng: Rng, x: Array, norm: Callable[[Array], float]) -> tuple[Array, Array, float, bool]:
    """Centre, offset, radius, and whether x lies on the surface."""
    n = len(x)
    centre = np.zeros(n) if chance(rng, 0.5) else x + dyadic(rng, n)
    offset = x - centre
    radius = float(norm(offset))
    if radius == 0.0 or chance(rng, 0.25):
        return centre, offset, radius + float(positive(rng, 1)[0]), False
    return centre, offset, radius, True


def l1_ball(rng: Rng, x: Array, sx: float) -> Region:
    centre, offset, radius, surface = _ball(rng, x, lambda d: np.abs(d).sum())
    inside = rng.integers(-64, 65, size=len(x)) / 64.0
    normal = (_strength(rng) if surface else 0.0) * np.where(offset == 0.0, inside, np.sign(offset))
    return _region(
        cut.L1Ball(sx * radius, centre=sx * centre if centre.any() else None),
        normal,
        lambda z: np.abs(z - centre).sum() - radius,
        radius + np.abs(centre).max(),
        1e-9,
        True,
        "l1 ball",
    )


def l2_ball(rng: Rng, x: Array, sx: float) -> Region:
    centre, offset, radius, surface = _ball(rng, x, np.linalg.norm)
    return _region(
        cut.L2Ball(sx * radius, centre=sx * centre if centre.any() else None),
        (_strength(rng) if surface else 0.0) * offset,
        lambda z: np.linalg.norm(z - centre) - radius,
        radius + np.abs(centre).max(),
        1e-9,
        True,
        "l2 ball",
    )


def lp_ball(rng: Rng, x: Array, sx: float) -> Region:
    """x is nonnegative."""
    n = len(x)
    p = float(pick(rng, {1.0: 1, 1.5: 1, 2.0: 1, 3.0: 1, np.inf: 1}))
    radius = float(np.linalg.norm(x, p))
    surface = radius > 0.0 and chance(rng, 0.75)
    radius = radius if surface else radius + 0.5
    force = _strength(rng) if surface else 0.0
    outward = np.where(x == radius, 1.0, 0.0) if np.isinf(p) else (x / radius) ** (p - 1.0)
    normal = np.where(x == 0.0, -_strength(rng) * positive(rng, n), force * outward)
    return _region(
        cut.NonnegativeBall(p, sx * radius),
        normal,
        lambda z: max((-z).max(), np.linalg.norm(np.maximum(z, 0.0), p) - radius),
        radius,
        1e-9,
        True,
        f"l{p:g} ball",
    )


def _rows(rng: Rng, x: Array) -> tuple[Array, Array, Array]:
    """Inequalities around x (A, b) and a normal vector of the active ones."""
    n = len(x)
    count = int(rng.integers(1, 6))
    A = np.round(2.0 * rng.normal(size=(count, n)))
    A[~A.any(axis=1), 0] = 1.0
    active = rng.random(count) < 0.5
    b = A @ x + np.where(active, 0.0, positive(rng, count))
    multipliers = np.where(active, _strength(rng) * positive(rng, count), 0.0)
    return A, b, multipliers @ A


def polyhedron(rng: Rng, x: Array, sx: float) -> Region:
    n = len(x)
    A, b, normal = _rows(rng, x)
    equations: dict[str, Any] = {}
    E, e = np.zeros((0, n)), np.zeros(0)
    if n > 1 and chance(rng, 0.3):
        E = np.round(2.0 * rng.normal(size=(1, n)))
        E[0, 0] = 1.0
        e = E @ x
        normal = normal + dyadic(rng, 1) @ E
        equations = {"A_eq": E, "b_eq": sx * e}
    sizes, equal = np.abs(A).sum(axis=1), np.abs(E).sum(axis=1)

    def excess(z: Array) -> float:
        over, off = (A @ z - b) / sizes, np.abs(E @ z - e) / equal
        return max(over.max(initial=0.0), off.max(initial=0.0))

    size = max(np.abs(b / sizes).max(), np.abs(x).max(), 1e-3)
    return _region(cut.Polyhedron(A, sx * b, **equations), normal, excess, size, 1e-7, False, "polyhedron")


def cvxpy_set(rng: Rng, x: Array, sx: float) -> Region:
    common = variable(len(x))
    if chance(rng, 0.5):
        ball = l2_ball(rng, x, sx)
        inner = ball.feasible_set
        constraints = inner.cvxpy_form(common)
        return ball._replace(
            feasible_set=cut.CvxpySet(constraints, common), tolerance=1e-7, name="cvxpy ball"
        )
    rows = polyhedron(rng, x, sx)
    constraints = rows.feasible_set.cvxpy_form(common)
    return rows._replace(feasible_set=cut.CvxpySet(constraints, common), name="cvxpy rows")


def disc(rng: Rng, x: Array, sx: float) -> Region:
    """A ball known by its separation oracle only."""
    ball = l2_ball(rng, x, sx)
    inner = ball.feasible_set
    centre = np.zeros(len(x)) if inner.centre is None else inner.centre
    slack = float(pick(rng, {0.0: 1, 1e-12: 1, 1e-9: 2}))

    @cut.separation_oracle
    def separate(z: Array) -> Any:
        step = z - centre
        norm = np.linalg.norm(step)
        if norm <= inner.radius * (1.0 + slack):
            return None
        return cut.HalfSpace(step / norm, inner.radius + step / norm @ centre)

    return ball._replace(feasible_set=separate, tolerance=2e-9, bounded=False, name="disc by oracle")


def rows_by_oracle(rng: Rng, x: Array, sx: float) -> Region:
    """A polyhedron known by its most violated rows."""
    A, b, normal = _rows(rng, x)
    sizes = np.abs(A).sum(axis=1)
    slack = float(pick(rng, {0.0: 1, 1e-12: 1, 1e-9: 2}))
    most = int(rng.integers(1, len(b) + 1))
    kind = pick(rng, {"list": 2, "dense": 1, "sparse": 1})

    @cut.separation_oracle
    def separate(z: Array) -> Any:
        over = A @ (z / sx) - b - slack * sizes
        worst = [i for i in np.argsort(-over)[:most] if over[i] > 0.0]
        if kind == "list":
            return [cut.HalfSpace(A[i], sx * b[i]) for i in worst]
        normals = A[worst] if kind == "dense" else sp.csr_array(A[worst])
        return cut.HalfSpaces(normals, sx * b[worst])

    size = max(np.abs(b / sizes).max(), np.abs(x).max(), 1e-3)
    return _region(
        separate,
        normal,
        lambda z: ((A @ z - b) / sizes).max(),
        size,
        1e-9 + 2.0 * slack / size,
        False,
        "rows by oracle",
    )


def psd(rng: Rng, x: Array, sx: float) -> Region:
    """Symmetric positive semidefinite matrices, by eigenvectors; x is one of them, with a null vector."""
    k = round(len(x) ** 0.5)
    values, vectors = np.linalg.eigh(x.reshape(k, k))
    null = vectors[:, values < 1e-9]
    normal = -_strength(rng) * (null @ null.T).ravel()
    slack = float(pick(rng, {1e-12: 1, 1e-9: 1}))

    @cut.separation_oracle
    def semidefinite(z: Array) -> Any:
        Z = z.reshape(k, k) / sx
        eigenvalues, V = np.linalg.eigh(0.5 * (Z + Z.T))
        if eigenvalues[0] >= -slack:
            return None
        return cut.HalfSpace(-np.outer(V[:, 0], V[:, 0]).ravel(), 0.0)

    def excess(z: Array) -> float:
        Z = z.reshape(k, k)
        return -np.linalg.eigvalsh(0.5 * (Z + Z.T))[0]

    size = max(float(np.abs(x).max()), 1e-3)
    return _region(semidefinite, normal, excess, size, 1e-9 + 2.0 * slack / size, False, "psd by oracle")


def psd_cone(rng: Rng, x: Array, sx: float) -> Region:
    """The same as one set, whose normals may have an antisymmetric part."""
    k = round(len(x) ** 0.5)
    cone = psd(rng, x, sx)
    turned = dyadic(rng, k, k)

    def excess(z: Array) -> float:
        Z = z.reshape(k, k)
        return max(float(np.abs(Z - Z.T).max()), -np.linalg.eigvalsh(0.5 * (Z + Z.T))[0])

    normal = cone.normal + (turned - turned.T).ravel()
    size = max(float(np.abs(x).max()), 1e-3)
    return _region(cut.PSDCone(k), normal, excess, size, 1e-7, False, "psd cone")


def intersection(rng: Rng, regions: list[Region]) -> Region:
    """All of the regions, which hold the same point."""
    feasible_set = regions[0].feasible_set
    for region in regions[1:]:
        feasible_set = feasible_set & region.feasible_set
    return Region(
        feasible_set,
        sum(region.normal for region in regions),
        lambda z: max(region.violation(z) for region in regions),
        max(region.tolerance for region in regions),
        any(region.bounded for region in regions),
        " & ".join(region.name for region in regions),
    )


PLAIN = {whole: 6, box: 7, linf_ball: 1, l1_ball: 2, l2_ball: 2, polyhedron: 2}
NONNEGATIVE = {orthant: 1, lp_ball: 2}
SUMMING = {simplex: 2, capped_simplex: 2}


def draw(rng: Rng, n: int, sx: float, slow: bool) -> tuple[Array, Region]:
    """A point in units of 1 and a set around it, in units of sx; `slow` allows those that need cvxpy."""
    kind = pick(rng, {"plain": 12, "nonnegative": 2, "summing": 4, "oracle": 2, "both": 2, "cvxpy": 1})
    if kind == "oracle" and n in (4, 9) and chance(rng, 0.6):
        k = round(n**0.5)
        root = turn_factor(rng, k)
        x = (root @ root.T).ravel()
        return x, intersection(rng, [box(rng, x, sx), psd(rng, x, sx)])
    if kind in ("cvxpy", "both") and slow and n in (1, 4, 9):
        root = turn_factor(rng, round(n**0.5))
        x = (root @ root.T).ravel()
        cone = psd_cone(rng, x, sx)
        around = intersection(rng, [box(rng, x, sx), cone])._replace(tolerance=1e-7)
        return x, around if kind == "both" else cone
    if kind == "summing":
        x = shares(rng, n, zeros=chance(rng, 0.6))
        return x, (pick(rng, SUMMING) if sx == 1.0 else simplex)(rng, x, sx)
    x = dyadic(rng, n) * (rng.random(n) < 0.8)
    if chance(rng, 0.05):
        x = np.zeros(n)
    if kind == "nonnegative":
        x = np.abs(x)
        return x, pick(rng, NONNEGATIVE)(rng, x, sx)
    if kind == "oracle":
        bounding = box if chance(rng, 0.8) else whole
        oracle = disc if chance(rng, 0.5) else rows_by_oracle
        around = bounding(rng, x, sx)
        if around.feasible_set is None:
            return x, oracle(rng, x, sx)
        return x, intersection(rng, [around, oracle(rng, x, sx)])
    if kind == "both" and slow:
        second = pick(rng, {l1_ball: 1, l2_ball: 1, polyhedron: 1})
        return x, intersection(rng, [box(rng, x, sx), second(rng, x, sx)])._replace(tolerance=1e-7)
    if kind == "cvxpy" and slow:
        return x, cvxpy_set(rng, x, sx)
    choices = PLAIN if slow else {whole: 6, box: 7, linf_ball: 1, l1_ball: 2, l2_ball: 2}
    return x, pick(rng, choices)(rng, x, sx)


def turn_factor(rng: Rng, k: int) -> Array:
    """A factor of a positive semidefinite matrix of rank k - 1."""
    return dyadic(rng, k, k - 1, bits=3) if k > 1 else np.zeros((1, 1))

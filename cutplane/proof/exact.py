"""Both bounds of a declared problem in rational arithmetic, from the data alone.

Floats of the search (x, multipliers) are proposals: they affect how tight the bounds are, never whether they
hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from cutplane.proof.declared import ONE, ZERO, Declared, Row, fractions, room_of, solved
from cutplane.proof.proposals import proposals

CONFIRMED = Fraction(1, 10**9)
"""Relative deviation of a claimed bound from the exact one, because float passes over data of size 1 round by
less than 1e-9, and tolerances of solves are larger."""

UNIT = Fraction(1, 2**48)
"""Rounding error of predictions and objectives relative to their terms: 16 units in the last place, because
sums have several roundings."""


def upper_bound(found: Declared, x: Any) -> tuple[Fraction | None, float]:
    """Return the objective at the feasible point near x, and the distance to it; None without one."""
    given = fractions(x)
    near = found.repaired(given)
    if near is None:
        return None, np.inf
    distances = [abs(a - b) for a, b in zip(near, given, strict=True)]
    return found.objective(near), float(max(distances, default=ZERO))


def checked(
    found: Declared, u: Sequence[Any], x: Any, claimed_lower: float, claimed_upper: float
) -> tuple[float, float, list[str]]:
    """Return both bounds, rounded outward, and in words what they do not confirm.

    Each element of u proposes one multiplier for each example; the best lower bound counts.
    """
    upper, distance = (None, 0.0) if x is None else upper_bound(found, x)
    lower = max((b for b in (lower_bound(found, v, x) for v in u) if b is not None), default=None)
    at_origin = found.size(found.clipped([ZERO] * found.dim))
    size = at_origin if x is None else found.size(fractions(x))
    allowed = CONFIRMED * min(size, at_origin)  # because a far x must not excuse a lower bound
    point = found.clipped([ZERO] * found.dim if x is None else fractions(x))
    noise = sum((example.noise(point, UNIT) for example in found.examples), ZERO)
    allowed += min(noise, CONFIRMED * at_origin)
    problems = []
    if x is not None and distance > CONFIRMED * (1.0 + float(np.abs(x).max(initial=0.0))):
        problems.append(f"x is {distance:.3g} away from the feasible set")
    low, high = outward(lower, -np.inf), outward(upper, np.inf)
    if claimed_lower > -np.inf and not (
        lower is not None and claimed_lower < np.inf and Fraction(claimed_lower) - lower <= allowed
    ):
        problems.append(f"the multipliers prove the lower bound {low:.10g}, not {claimed_lower:.10g}")
    if claimed_upper < np.inf and not (
        upper is not None
        and claimed_upper > -np.inf
        and upper - Fraction(claimed_upper) <= max(allowed, CONFIRMED * abs(upper), noise + UNIT * size)
    ):
        problems.append(f"the objective at x is {high:.10g}, not {claimed_upper:.10g}")
    return low, high, problems


def outward(bound: Fraction | None, side: float) -> float:
    """Return the nearest float on this side (-inf or inf) of a bound; the side itself without one."""
    if bound is None:
        return side
    try:
        near = float(bound)
    except OverflowError:
        return side if (bound > 0) == (side > 0) else -np.copysign(np.finfo(np.float64).max, side)
    wrong = near > bound if side < 0 else near < bound
    return float(np.nextafter(near, side)) if wrong else near


def lower_bound(found: Declared, u: Any, x: Any) -> Fraction | None:
    """Return the best of the bounds from the multipliers u of the examples; None if all are -inf."""
    duals = []
    for v, example in zip(fractions(np.nan_to_num(u)), found.examples, strict=True):
        v = v / example.factor  # the slope of phi in its variable
        v = v if example.curve.low is None else max(v, example.curve.low)
        duals.append(v if example.curve.high is None else min(v, example.curve.high))
    near = [None] * found.dim if x is None else fractions(x)
    sides = zip(near, found.lower, found.upper, strict=True)
    inside = [z is not None and z != low and z != high for z, low, high in sides]
    bounds = []
    for v in (duals, _balanced(found, duals)):
        for rows in proposals(found, _slope(found, v), x):
            pairs = [(v, rows), _towards_zero(found, v, rows)]
            pairs += [_corrected(found, v, rows, where) for where in ([False] * found.dim, inside)]
            bounds += [_bound(found, *pair) for pair in pairs]
    return max((bound for bound in bounds if bound is not None), default=None)


def _slope(found: Declared, duals: Sequence[Fraction], rows: Sequence[Fraction] = ()) -> list[Fraction]:
    slope = [ZERO] * found.dim
    pairs = [(e.weight * v * e.factor, e.row) for e, v in zip(found.examples, duals, strict=True)]
    held = [row for row, _ in (*found.inequalities, *found.equations)]
    for share, row in (*pairs, *zip(rows, held, strict=False)):
        for j, a in row.items():
            slope[j] += share * a
    return slope


def _bound(found: Declared, duals: Sequence[Fraction], rows: Sequence[Fraction]) -> Fraction | None:
    if any(mu < 0 for mu in rows[: len(found.inequalities)]):
        return None
    total = found.least(_slope(found, duals, rows))
    if total is None:
        return None
    for example, v in zip(found.examples, duals, strict=True):
        conjugate = example.curve.conjugate(v)
        if conjugate is None:
            return None
        total -= example.weight * (conjugate + v * example.shift)
    held = (*found.inequalities, *found.equations)
    return total - sum((mu * b for mu, (_, b) in zip(rows, held, strict=True)), ZERO)


def _excess(found: Declared, slope: Sequence[Fraction], inside: Sequence[bool]) -> dict[int, Fraction]:
    """Return by how much the slope must change where x is inside of the sides, or these are open."""
    changes = {}
    for j, v in enumerate(slope):
        total, a = found.b[j] + v, found.l[j]
        if not found.q[j] and (inside[j] or found.upper[j] is None) and total <= -a:
            changes[j] = -a - total
        elif not found.q[j] and (inside[j] or found.lower[j] is None) and total >= a:
            changes[j] = a - total
    return changes


def _corrected(
    found: Declared, duals: Sequence[Fraction], rows: Sequence[Fraction], inside: Sequence[bool]
) -> tuple[Any, Any]:
    """Return multipliers with a slope within the norm, by an exact change of those inside their domain."""
    m, size = len(duals), len(found.inequalities)
    room = [
        room_of(v, e.curve.low, e.curve.high) if e.weight else 0.0
        for v, e in zip(duals, found.examples, strict=True)
    ]
    room = [min(r, 1.0 + abs(float(v))) for r, v in zip(room, duals, strict=True)]
    room += [float(mu) if k < size else 1.0 + abs(float(mu)) for k, mu in enumerate(rows)]
    changes = _excess(found, _slope(found, duals, rows), inside)
    equations: dict[int, Row] = {j: {} for j in changes}
    columns = [({j: e.weight * e.factor * a for j, a in e.row.items()}) for e in found.examples]
    columns += [row for row, _ in (*found.inequalities, *found.equations)]
    for k, column in enumerate(columns):
        for j in changes.keys() & column.keys():
            equations[j][k] = column[j]
    change = solved(list(equations.values()), list(changes.values()), room)
    if change is None:
        return duals, rows
    moved = [v + d for v, d in zip((*duals, *rows), change, strict=True)]
    return moved[:m], moved[m:]


def _balanced(found: Declared, duals: Sequence[Fraction]) -> list[Fraction]:
    """Return multipliers whose slope is 0 in a free last coordinate: the heavier sign is scaled down."""
    j = found.dim - 1
    terms = [e.weight * e.factor * e.row.get(j, ZERO) * v for e, v in zip(found.examples, duals, strict=True)]
    up, down = sum((t for t in terms if t > 0), ZERO), -sum((t for t in terms if t < 0), ZERO)
    if up == down or found.q[j] or found.l[j] or not found.lower[j] is found.upper[j] is None:
        return list(duals)
    share = min(up, down) / max(up, down)
    return [v * share if (t > 0) == (up > down) and t else v for v, t in zip(duals, terms, strict=True)]


def _towards_zero(found: Declared, duals: Sequence[Fraction], rows: Sequence[Fraction]) -> tuple[Any, Any]:
    """Return the multipliers times the largest share <= 1 for which the l1 norm bounds the slope."""
    slope, share = _slope(found, duals, rows), ONE
    for j, excess in _excess(found, slope, [False] * found.dim).items():
        if excess * slope[j] < 0:
            share = min(share, 1 + excess / slope[j])
    share = max(share, ZERO)
    return [share * v for v in duals], [share * mu for mu in rows]

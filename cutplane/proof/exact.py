"""Both bounds of a declared problem in rational arithmetic, from the data alone.

A declared problem is the minimum of

    sum_i c_i phi_i(<a_i, x>) + sum_j (q_j x_j^2 / 2 + b_j x_j + l_j |x_j|) + constant

over a box and the rows of a polyhedron, where each phi_i is linear or quadratic between knots. Every
operation is exact, because floats are rational numbers. Floats from the solve (x, multipliers) determine only
how tight the bounds are; the bounds are valid for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.exceptions import MissingCapabilityError
from cutplane.pieces.capabilities import Capability, ask

ZERO, ONE = Fraction(0), Fraction(1)
Row = dict[int, Fraction]

CONFIRMED = Fraction(1, 10**9)
"""Difference allowed between a claimed and the exact bound, relative to the objective at zero, because float
passes have errors below 1e-9."""

UNIT = Fraction(1, 2**48)
"""Rounding error of predictions and objectives relative to their terms: 16 units in the last place, because
sums of floats are rounded several times."""


# ---------------------------------------------------------------- declared problems


def fractions(numbers: Any) -> list[Fraction]:
    """Return the exact rational values of floats."""
    return [Fraction(float(number)) for number in np.asarray(numbers).ravel()]


def dot(row: Row, x: Sequence[Fraction]) -> Fraction:
    """Return the product of a sparse row and a vector."""
    return sum((a * x[j] for j, a in row.items()), ZERO)


def _rows(matrix: Any) -> list[Row]:
    matrix = sparse.coo_array(matrix)
    rows: list[Row] = [{} for _ in range(matrix.shape[0])]
    for i, j, a in zip(*(index.tolist() for index in matrix.coords), matrix.data.tolist(), strict=True):
        rows[i][j] = rows[i].get(j, ZERO) + Fraction(a)
    return rows


def _vector(numbers: Any, dim: int, default: Fraction) -> list[Fraction]:
    return [default] * dim if numbers is None else fractions(np.broadcast_to(numbers, (dim,)))


class ExactLoss:
    """A function of one variable with the derivative slopes[j] + curvatures[j] s on piece j."""

    def __init__(self, loss: Any):
        phi = loss.outline()
        self.knots, self.slopes, self.curvatures = map(fractions, (phi.knots, phi.slopes, phi.curvatures))
        self.slopes = ask(loss, Capability.EXACT_SLOPES) or self.slopes
        self.constants = [ZERO]
        for j, k in enumerate(self.knots):
            step = (self.slopes[j] - self.slopes[j + 1]) * k
            step += (self.curvatures[j] - self.curvatures[j + 1]) * k * k / 2
            self.constants.append(self.constants[-1] + step)
        excess = self(Fraction(float(phi.at))) - Fraction(float(phi.value))
        self.constants = [constant - excess for constant in self.constants]
        ends = [(self.slopes[j], self.curvatures[j]) for j in (0, -1)]
        self.low, self.high = (None if curvature else slope for slope, curvature in ends)

    def on(self, j: int, s: Fraction) -> Fraction:
        """Return the function of piece j at s."""
        return self.constants[j] + self.slopes[j] * s + self.curvatures[j] * s * s / 2

    def __call__(self, s: Fraction) -> Fraction:
        """Return the value at s."""
        return self.on(sum(k <= s for k in self.knots), s)

    def conjugate(self, v: Fraction) -> Fraction | None:
        """Return the supremum of v s - phi(s); None if it is infinite."""
        if (self.low is not None and v < self.low) or (self.high is not None and v > self.high):
            return None
        found = [v * k - self(k) for k in self.knots]
        for j, (slope, curvature) in enumerate(zip(self.slopes, self.curvatures, strict=True)):
            if curvature:
                s = (v - slope) / curvature
                if (j == 0 or s >= self.knots[j - 1]) and (j == len(self.knots) or s <= self.knots[j]):
                    found.append(v * s - self.on(j, s))
        return max(found) if found else -self.constants[0]


@dataclass(frozen=True)
class Example:
    """The term weight * phi(factor <row, x> - shift)."""

    weight: Fraction
    row: Row
    curve: ExactLoss
    factor: Fraction
    shift: Fraction

    def value(self, x: Sequence[Fraction]) -> Fraction:
        """Return the weighted loss at x."""
        return self.weight * self.curve(self.factor * dot(self.row, x) - self.shift)

    def noise(self, x: Sequence[Fraction], unit: Fraction) -> Fraction:
        """Return the change of the loss at x for a relative error `unit` of the terms of the prediction."""
        s = self.factor * dot(self.row, x) - self.shift
        size = abs(self.shift) + sum((abs(self.factor * a * x[j]) for j, a in self.row.items()), ZERO)
        changed = max(self.curve(s + unit * size), self.curve(s - unit * size))
        return self.weight * (changed - self.curve(s))


@dataclass
class Declared:
    """A problem in the form of this module; None as a bound stands for an open side."""

    dim: int
    examples: list[Example] = field(default_factory=list)
    constant: Fraction = ZERO
    inequalities: list[tuple[Row, Fraction]] = field(default_factory=list)
    equations: list[tuple[Row, Fraction]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.q, self.b, self.l = ([ZERO] * self.dim for _ in range(3))
        self.lower: list[Fraction | None] = [None] * self.dim
        self.upper: list[Fraction | None] = [None] * self.dim

    def add(self, piece: Any, factor: Fraction = ONE) -> None:
        """Add a piece, times a factor, or raise `MissingCapabilityError`."""
        if Capability.EXACT.value not in vars(type(piece)):
            raise MissingCapabilityError(
                f"{piece!r} has no exact check; call verify() without exact=True, which evaluates its oracle."
            )
        piece.declare(self, factor)

    def losses(
        self, loss: Any, X: Any, y: Any, weights: Any, normalize: bool, intercept: bool, factor: Fraction
    ) -> None:
        """Add sum_i c_i loss(<x_i, w> + b, y_i); see `ExactTerms`."""
        if loss.outline() is None:
            raise MissingCapabilityError(
                f"{loss!r} has no exact check, because it has no outline; call verify() without exact=True."
            )
        rows, curve, targets = _rows(X), ExactLoss(loss), fractions(y)
        weights = _vector(weights, len(rows), ONE)
        total = sum(weights) if normalize else ONE
        for row, target, weight in zip(rows, targets, weights, strict=True):
            if intercept:
                row[self.dim - 1] = ONE
            scale, shift = (target, ZERO) if loss.variable == "margin" else (ONE, target)
            self.examples.append(Example(factor * weight / total, row, curve, scale, shift))

    def linear(self, c: Any, factor: Fraction) -> None:
        """See `ExactTerms`."""
        self.b = [b + factor * a for b, a in zip(self.b, fractions(c), strict=True)]

    def quadratic(self, weights: Any, centre: Any, factor: Fraction) -> None:
        pairs = zip(_vector(weights, self.dim, ONE), _vector(centre, self.dim, ZERO), strict=True)
        for j, (w, z) in enumerate(pairs):
            self.q[j] += factor * w
            self.b[j] -= factor * w * z
            self.constant += factor * w * z * z / 2

    def costs(self, costs: Any, factor: Fraction) -> None:
        """See `ExactTerms`."""
        self.l = [a + factor * w for a, w in zip(self.l, _vector(costs, self.dim, ONE), strict=True)]

    def within(self, lower: Any, upper: Any) -> None:
        """Intersect the box with another one of floats."""
        sides = (np.broadcast_to(side, (self.dim,)).tolist() for side in (lower, upper))
        for j, (low, high) in enumerate(zip(*sides, strict=True)):
            if np.isfinite(low):
                old, new = self.lower[j], Fraction(low)
                self.lower[j] = new if old is None else max(old, new)
            if np.isfinite(high):
                old, new = self.upper[j], Fraction(high)
                self.upper[j] = new if old is None else min(old, new)

    def rows(self, A: Any, b: Any, A_eq: Any, b_eq: Any) -> None:
        """See `ExactTerms`."""
        self.inequalities += zip(_rows(A), fractions(b), strict=True)
        if A_eq is not None:
            self.equations += zip(_rows(A_eq), fractions(b_eq), strict=True)

    def total(self, total: float) -> None:
        """See `ExactTerms`."""
        self.equations.append((dict.fromkeys(range(self.dim), ONE), Fraction(total)))

    def objective(self, x: Sequence[Fraction]) -> Fraction:
        """Return the objective at x."""
        total = self.constant + sum((example.value(x) for example in self.examples), ZERO)
        for q, b, a, z in zip(self.q, self.b, self.l, x, strict=True):
            total += q * z * z / 2 + b * z + a * abs(z)
        return total

    def size(self, x: Sequence[Fraction]) -> Fraction:
        """Return the sum of the absolute terms of the objective at x."""
        total = sum((abs(example.value(x)) for example in self.examples), abs(self.constant))
        for q, b, a, z in zip(self.q, self.b, self.l, x, strict=True):
            total += q * z * z / 2 + abs(b * z) + a * abs(z)
        return total

    def clipped(self, x: Sequence[Fraction]) -> list[Fraction]:
        """Return x with each coordinate clipped to its sides."""
        lifted = [z if low is None else max(z, low) for z, low in zip(x, self.lower, strict=True)]
        return [z if high is None else min(z, high) for z, high in zip(lifted, self.upper, strict=True)]

    def repaired(self, x: Sequence[Fraction]) -> list[Fraction] | None:
        """Return a feasible point near x; None if none was found."""
        x, held = self.clipped(x), list(self.equations)
        for _ in range(len(self.inequalities) + self.dim + 1):
            held += [pair for pair in self.inequalities if pair not in held and dot(pair[0], x) > pair[1]]
            residuals = [b - dot(row, x) for row, b in held]
            if not any(residuals):
                return x
            room = [room_of(z, low, high) for z, low, high in zip(x, self.lower, self.upper, strict=True)]
            change = solved([row for row, _ in held], residuals, room)
            if change is None:
                return None
            x = self.clipped([z + d for z, d in zip(x, change, strict=True)])
        return None

    def least(self, slope: Sequence[Fraction]) -> Fraction | None:
        """Return the minimum of the separable part plus <slope, x> over the box; None if it is -inf."""
        total = self.constant
        for j, v in enumerate(slope):
            found = _least(self.q[j], self.b[j] + v, self.l[j], self.lower[j], self.upper[j])
            if found is None:
                return None
            total += found
        return total


def room_of(z: Fraction, low: Fraction | None, high: Fraction | None) -> float:
    """Return the distance to the nearer side; 1e300 if both sides are open."""
    room = 1e300 if low is None else float(z - low)
    return room if high is None else min(room, float(high - z))


def _least(q: Fraction, b: Fraction, a: Fraction, low: Any, high: Any) -> Fraction | None:
    """Return the minimum of q x^2 / 2 + b x + a |x| for low <= x <= high; None if it is -inf."""
    if not q and ((high is None and b + a < 0) or (low is None and b - a > 0)):
        return None
    points = [ZERO, *(side for side in (low, high) if side is not None)]
    points += [(-b - a) / q, (a - b) / q] if q else []
    inside = [x for x in points if (low is None or x >= low) and (high is None or x <= high)]
    return min(q * x * x / 2 + b * x + a * abs(x) for x in inside)


def solved(rows: Sequence[Row], right: Sequence[Fraction], room: Sequence[float]) -> list[Fraction] | None:
    """Return a solution of the equations that changes few variables, those with most room first."""
    system = [(dict(row), r) for row, r in zip(rows, right, strict=True)]
    pivots: list[tuple[int, Row, Fraction]] = []
    for row, r in system:
        row = dict(row)
        for j, other, s in pivots:
            share = row.pop(j, ZERO)
            if share:
                r -= share * s
                for k, a in other.items():
                    row[k] = row.get(k, ZERO) - share * a
        candidates = [j for j, a in row.items() if a and room[j] > 0.0]
        if not candidates:
            if r:
                return None
            continue
        j = max(candidates, key=lambda j: room[j] * min(1.0, abs(float(row[j]))))
        pivot = row.pop(j)
        pivots.append((j, {k: a / pivot for k, a in row.items()}, r / pivot))
    x = [ZERO] * len(room)
    for j, row, s in reversed(pivots):
        x[j] = s - dot(row, x)
    return x


def declared(problem: Any) -> Declared:
    """Return the problem in rational numbers, or raise `MissingCapabilityError` naming the piece."""
    found = Declared(problem.dim)
    for piece in (problem.risk, problem.regularizer, problem.feasible_set):
        found.add(piece)
    return found


# --------------------------------------------------------------------------- bounds


def upper_bound(found: Declared, x: Any) -> tuple[Fraction | None, float]:
    """Return the objective at a feasible point near x, and its distance from x; None if there is none."""
    given = fractions(x)
    near = found.repaired(given)
    if near is None:
        return None, np.inf
    distances = [abs(a - b) for a, b in zip(near, given, strict=True)]
    return found.objective(near), float(max(distances, default=ZERO))


def checked(
    found: Declared, u: Sequence[Any], x: Any, claimed_lower: float, claimed_upper: float
) -> tuple[float, float, list[str]]:
    """Return both bounds, rounded outward, and a sentence for each claimed bound that they do not confirm.

    Each element of u has a multiplier for each example; the best of the lower bounds is returned.
    """
    upper, distance = (None, 0.0) if x is None else upper_bound(found, x)
    lower = max((b for b in (lower_bound(found, v, x) for v in u) if b is not None), default=None)
    at_origin = found.size(found.clipped([ZERO] * found.dim))
    size = at_origin if x is None else found.size(fractions(x))
    allowed = CONFIRMED * min(size, at_origin)  # otherwise a distant x could hide a wrong lower bound
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
    """Return the nearest float on this side (-inf or inf) of a bound; `side` if the bound is None."""
    if bound is None:
        return side
    try:
        near = float(bound)
    except OverflowError:
        return side if (bound > 0) == (side > 0) else -np.copysign(np.finfo(np.float64).max, side)
    wrong = near > bound if side < 0 else near < bound
    return float(np.nextafter(near, side)) if wrong else near


def lower_bound(found: Declared, u: Any, x: Any) -> Fraction | None:
    """Return the best bound from the multipliers u of the examples; None if all bounds are -inf."""
    duals = []
    for v, example in zip(fractions(np.nan_to_num(u)), found.examples, strict=True):
        v = v / example.factor  # the derivative of phi in its argument
        v = v if example.curve.low is None else max(v, example.curve.low)
        duals.append(v if example.curve.high is None else min(v, example.curve.high))
    near = [None] * found.dim if x is None else fractions(x)
    sides = zip(near, found.lower, found.upper, strict=True)
    inside = [z is not None and z != low and z != high for z, low, high in sides]
    bounds = []
    for v in (duals, _balanced(found, duals)):
        for rows in proposals(found, _slope(found, v), x):
            pairs = [(v, rows)]
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
    """Return the slope changes that a finite bound needs, and those that coordinates in `inside` need."""
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
    """Return multipliers with a finite bound, by an exact change of multipliers inside of their domains."""
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
    """Return multipliers with slope 0 in a free last coordinate: scale down one of both signs."""
    j = found.dim - 1
    terms = [e.weight * e.factor * e.row.get(j, ZERO) * v for e, v in zip(found.examples, duals, strict=True)]
    up, down = sum((t for t in terms if t > 0), ZERO), -sum((t for t in terms if t < 0), ZERO)
    if up == down or found.q[j] or found.l[j] or not found.lower[j] is found.upper[j] is None:
        return list(duals)
    share = min(up, down) / max(up, down)
    return [v * share if (t > 0) == (up > down) and t else v for v, t in zip(duals, terms, strict=True)]


def proposals(found: Declared, slope: Sequence[Fraction], x: Any) -> Iterable[list[Fraction]]:
    """Return candidates for the multipliers of the polyhedron's rows, from programmes solved in floats."""
    held, n, size = (*found.inequalities, *found.equations), found.dim, len(found.inequalities)
    yield [ZERO] * len(held)
    if not held:
        return
    from scipy import optimize

    A, right = np.zeros((len(held), n)), np.array([float(b) for _, b in held])
    for k, (row, _) in enumerate(held):
        A[k, list(row)] = [float(a) for a in row.values()]
    q, v = (
        np.array(list(map(float, part))) for part in (found.q, map(sum, zip(found.b, slope, strict=True)))
    )
    a = np.array(list(map(float, found.l)))
    low, high = (
        np.array([float(end) if side is None else float(side) for side in sides])
        for sides, end in ((found.lower, -np.inf), (found.upper, np.inf))
    )
    at = np.zeros(n) if x is None else np.asarray(x, np.float64)
    # linear in (x, t) with t >= |x|; the quadratic is replaced by its tangent at x
    eye, none = np.eye(n), np.zeros((len(held), n))
    norm = np.block([[eye, -eye], [-eye, -eye]])
    wide = np.hstack([A, none])
    answer = optimize.linprog(
        np.concatenate([v + q * at, a]),
        np.vstack([wide[:size], norm]),
        np.concatenate([right[:size], np.zeros(2 * n)]),
        wide[size:] if size < len(held) else None,
        right[size:] if size < len(held) else None,
        [*zip(low, high, strict=True), *[(0.0, None)] * n],
    )
    start = np.zeros(len(held))
    if answer.status == 0:
        start = -np.concatenate([answer.ineqlin.marginals[:size], answer.eqlin.marginals])
        start[:size] = np.maximum(start[:size], 0.0)
        yield fractions(start)
    if not (q > 0.0).any():
        return

    def negative(mu: Any) -> tuple[float, Any]:
        c, soft = v + mu @ A, np.where(q > 0.0, q, 1e-300)  # 1e-300: linear coordinates are at a side
        with np.errstate(over="ignore"):
            z = np.clip(-np.sign(c) * np.maximum(np.abs(c) - a, 0.0) / soft, low, high)
        z = np.clip(z, -1e100, 1e100)
        return -float(0.5 * q @ z**2 + c @ z + a @ np.abs(z) - mu @ right), right - A @ z

    sides = [(0.0, None)] * size + [(None, None)] * (len(held) - size)
    options = {"ftol": 0.0, "gtol": 1e-15, "maxiter": 1000}
    best = optimize.minimize(negative, start, jac=True, bounds=sides, options=options).x
    yield fractions(np.nan_to_num(best))

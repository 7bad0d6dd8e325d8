"""Declared problems in rational numbers.

A declared problem is the minimum of

    sum_i c_i phi_i(<a_i, x>) + sum_j (q_j x_j^2 / 2 + b_j x_j + l_j |x_j|) + constant

over a box and the rows of a polyhedron, where each phi_i is linear or quadratic between knots. Floats are
rational numbers, so that every operation is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.exceptions import MissingCapabilityError
from cutplane.pieces.capabilities import Capability, ask

ZERO, ONE = Fraction(0), Fraction(1)
Row = dict[int, Fraction]


def fractions(numbers: Any) -> list[Fraction]:
    """Return floats as the rational numbers they are."""
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


class Curve:
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
    curve: Curve
    factor: Fraction
    shift: Fraction

    def value(self, x: Sequence[Fraction]) -> Fraction:
        """Return the weighted loss at x."""
        return self.weight * self.curve(self.factor * dot(self.row, x) - self.shift)

    def noise(self, x: Sequence[Fraction], unit: Fraction) -> Fraction:
        """Return the change of the loss at x by relative errors of this unit in the prediction."""
        s = self.factor * dot(self.row, x) - self.shift
        size = abs(self.shift) + sum((abs(self.factor * a * x[j]) for j, a in self.row.items()), ZERO)
        changed = max(self.curve(s + unit * size), self.curve(s - unit * size))
        return self.weight * (changed - self.curve(s))


@dataclass
class Declared:
    """A problem in the form of this module; None stands for an open side."""

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
        rows, curve, targets = _rows(X), Curve(loss), fractions(y)
        weights = _vector(weights, len(rows), ONE)
        total = sum(weights) if normalize else ONE
        for row, target, weight in zip(rows, targets, weights, strict=True):
            if intercept:
                row[self.dim - 1] = ONE
            scale, shift = (target, ZERO) if loss.variable == "margin" else (ONE, target)
            self.examples.append(Example(factor * weight / total, row, curve, scale, shift))

    def linear(self, c: Any, factor: Fraction) -> None:
        """Add <c, x>."""
        self.b = [b + factor * a for b, a in zip(self.b, fractions(c), strict=True)]

    def quadratic(self, weights: Any, centre: Any, factor: Fraction) -> None:
        """Add sum_j weights_j (x_j - centre_j)^2 / 2."""
        pairs = zip(_vector(weights, self.dim, ONE), _vector(centre, self.dim, ZERO), strict=True)
        for j, (w, z) in enumerate(pairs):
            self.q[j] += factor * w
            self.b[j] -= factor * w * z
            self.constant += factor * w * z * z / 2

    def costs(self, costs: Any, factor: Fraction) -> None:
        """Add sum_j costs_j |x_j|."""
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
        """Add the rows A x <= b and A_eq x = b_eq; A_eq may be None."""
        self.inequalities += zip(_rows(A), fractions(b), strict=True)
        if A_eq is not None:
            self.equations += zip(_rows(A_eq), fractions(b_eq), strict=True)

    def total(self, total: float) -> None:
        """Fix the sum of all coordinates."""
        self.equations.append((dict.fromkeys(range(self.dim), ONE), Fraction(total)))

    def objective(self, x: Sequence[Fraction]) -> Fraction:
        """Return the objective at x."""
        total = self.constant + sum((example.value(x) for example in self.examples), ZERO)
        for q, b, a, z in zip(self.q, self.b, self.l, x, strict=True):
            total += q * z * z / 2 + b * z + a * abs(z)
        return total

    def size(self, x: Sequence[Fraction]) -> Fraction:
        """Return the sum of the sizes of the terms of the objective at x."""
        total = sum((abs(example.value(x)) for example in self.examples), abs(self.constant))
        for q, b, a, z in zip(self.q, self.b, self.l, x, strict=True):
            total += q * z * z / 2 + abs(b * z) + a * abs(z)
        return total

    def clipped(self, x: Sequence[Fraction]) -> list[Fraction]:
        """Return x, each coordinate between its sides."""
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
    """Return the distance to the nearer side; a large number if both are open."""
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

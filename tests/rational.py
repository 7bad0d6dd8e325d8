"""Optima in rational arithmetic: an independent checker, which shares no code with the package.

A problem is min over x of sum_i c_i phi(s_i) + l2/2 |x|^2 + l1 |x|_1 over a polyhedron, where s_i is the
residual <a_i, x> - y_i or the margin y_i <a_i, x>, and phi is a sum of terms that are linear or quadratic on
one side of a knot. Its data are floats, hence rational. The optimality conditions of the quadratic programme
are a linear complementarity problem, which Lemke's method (10.1287/mnsc.11.7.681) solves in integers: each
pivot divides exactly by the one before (10.1090/S0025-5718-1968-0226829-0), and lexicographic ratios exclude
cycles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm
from typing import Any

INFINITE = None
"""The width of a term that is curved as far as its side goes."""


@dataclass(frozen=True)
class Term:
    """jump u + curvature (v^2 / 2 + width (u - v)), u = max(0, sign (s - knot)), v = min(u, width)."""

    sign: int
    knot: Fraction
    jump: Fraction = Fraction(0)
    curvature: Fraction = Fraction(0)
    width: Fraction | None = INFINITE

    def value(self, s: Fraction) -> Fraction:
        u = max(Fraction(0), self.sign * (s - self.knot))
        v = u if self.width is INFINITE else min(u, self.width)
        return self.jump * u + self.curvature * (v * v / 2 + (self.width or 0) * (u - v))

    def steepness(self, s: Fraction) -> Fraction:
        """Return the absolute slope."""
        u = self.sign * (s - self.knot)
        bent = max(u, Fraction(0)) if self.width is INFINITE else min(max(u, Fraction(0)), self.width)
        return self.jump * (u >= 0) + self.curvature * bent


def _both(knot: float, **shape: Any) -> list[Term]:
    shape = {name: Fraction(number) for name, number in shape.items()}
    return [Term(1, Fraction(knot), **shape), Term(-1, -Fraction(knot), **shape)]


MARGINS: dict[str, list[Term]] = {
    "Hinge": [Term(-1, Fraction(1), jump=Fraction(1))],
    "SquaredHinge": [Term(-1, Fraction(1), curvature=Fraction(2))],
    "ModifiedHuber": [Term(-1, Fraction(1), curvature=Fraction(2), width=Fraction(2))],
}
"""Losses of the margin y t, each by the formula of its publication."""

RESIDUALS: dict[str, Callable[..., list[Term]]] = {
    "Squared": lambda: _both(0, curvature=1),
    "Absolute": lambda: _both(0, jump=1),
    "Quantile": lambda tau: [
        Term(1, Fraction(0), jump=1 - Fraction(tau)),
        Term(-1, Fraction(0), jump=Fraction(tau)),
    ],
    "EpsilonInsensitive": lambda epsilon: _both(epsilon, jump=1),
    "SquaredEpsilonInsensitive": lambda epsilon: _both(epsilon, curvature=2),
    "Huber": lambda delta: _both(0, curvature=1, width=delta),
}
"""Losses of the residual t - y."""


@dataclass(frozen=True)
class Exact:
    """A problem with rational data; `rows` (normal, offset) are the half-spaces <normal, x> >= offset."""

    matrix: list[list[Fraction]]
    targets: list[Fraction]
    weights: list[Fraction]
    terms: list[Term]
    margin: bool
    l2: list[Fraction]
    l1: list[Fraction]
    rows: list[tuple[list[Fraction], Fraction]] = field(default_factory=list)

    def argument(self, x: Sequence[Fraction], i: int) -> Fraction:
        t = sum((a * b for a, b in zip(self.matrix[i], x, strict=True)), Fraction(0))
        return t * self.targets[i] if self.margin else t - self.targets[i]

    def objective(self, x: Sequence[Any]) -> Fraction:
        """Return the exact objective at a point of floats or fractions, wherever it lies."""
        x = [Fraction(number) for number in x]
        total = sum(
            (q * z * z / 2 + a * abs(z) for q, a, z in zip(self.l2, self.l1, x, strict=True)), Fraction(0)
        )
        for i, weight in enumerate(self.weights):
            s = self.argument(x, i)
            total += weight * sum((term.value(s) for term in self.terms), Fraction(0))
        return total

    def noise(self, x: Sequence[Any]) -> Fraction:
        """Return what 16 units in the last place of predictions and targets change the objective by."""
        x, total = [Fraction(number) for number in x], Fraction(0)
        for i, weight in enumerate(self.weights):
            size = abs(self.targets[i]) + sum(
                (abs(a * b) for a, b in zip(self.matrix[i], x, strict=True)), Fraction(0)
            )
            slope = sum((term.steepness(self.argument(x, i)) for term in self.terms), Fraction(0))
            total += weight * slope * size
        return Fraction(2) ** -48 * total

    def violation(self, x: Sequence[Any]) -> Fraction:
        """Return by how much a point is outside of the half-spaces, at most."""
        x = [Fraction(number) for number in x]
        return max(
            (offset - sum(a * b for a, b in zip(normal, x, strict=True)) for normal, offset in self.rows),
            default=Fraction(0),
        )

    def unit(self, x: Sequence[Any]) -> Fraction:
        """Return the unit in the last place of the largest term c_i a_ij x_j or c_i y_i at a point."""
        products = [abs(a * Fraction(z)) for row in self.matrix for a, z in zip(row, x, strict=True)]
        largest = max([*products, *(abs(y) for y in self.targets)])
        return Fraction(2) ** -52 * largest * max(self.weights)

    def minimiser(self) -> list[Fraction]:
        """Return an exact minimiser.

        The variables are p, q >= 0 with x = p - q, and v, r >= 0 with v + r >= sign (s - knot) for each term,
        r where the term has a width.
        """
        n = len(self.l2)
        curved = [*self.l2, *self.l2]
        coupled = [(j, n + j, -self.l2[j]) for j in range(n)]
        linear, normals, offsets = [*self.l1, *self.l1], [], []
        for normal, offset in self.rows:
            normals.append({j: a for j, a in enumerate([*normal, *(-a for a in normal)]) if a})
            offsets.append(offset)
        zeros = [Fraction(0)] * n
        for i, weight in enumerate(self.weights):
            start = self.argument(zeros, i)
            slopes = [a * (self.targets[i] if self.margin else 1) for a in self.matrix[i]]
            for term in self.terms:
                row = {j: -term.sign * a for j, a in enumerate([*slopes, *(-a for a in slopes)]) if a}
                row[len(linear)] = Fraction(1)
                linear.append(weight * term.jump)
                curved.append(weight * term.curvature)
                if term.width is not INFINITE:
                    row[len(linear)] = Fraction(1)
                    linear.append(weight * (term.jump + term.curvature * term.width))
                    curved.append(Fraction(0))
                normals.append(row)
                offsets.append(term.sign * (start - term.knot))
        z = _complementary(curved, coupled, linear, normals, offsets)
        return [z[j] - z[n + j] for j in range(n)]


def _complementary(curved: Any, coupled: Any, linear: Any, normals: Any, offsets: Any) -> list[Fraction]:
    """Return z >= 0 with least z'Hz/2 + <linear, z> and <normal, z> >= offset, by Lemke's method."""
    count, size = len(linear), len(linear) + len(offsets)
    matrix: list[dict[int, Fraction]] = [{j: h} if h else {} for j, h in enumerate(curved)]
    for i, j, h in coupled:
        if h:
            matrix[i][j] = matrix[j][i] = h
    for k, row in enumerate(normals, count):
        for j, a in row.items():
            matrix[j][k] = -a
    matrix += normals
    right = [*linear, *(-offset for offset in offsets)]
    # Columns: w (the identity), z (minus the matrix), the artificial variable, and the right-hand side.
    tableau = []
    for i in range(size):
        scale = lcm(right[i].denominator, *(a.denominator for a in matrix[i].values()))
        row = [0] * (2 * size + 2)
        row[i], row[2 * size], row[-1] = scale, -scale, int(right[i] * scale)
        for j, a in matrix[i].items():
            row[size + j] = -int(a * scale)
        tableau.append(row)
    # Rows have different scales: the diagonal of w is the denominator of each at the start.
    basis, denominator = list(range(size)), 1
    leaving = min(range(size), key=lambda i: (Fraction(tableau[i][-1], tableau[i][i]), -i))
    if tableau[leaving][-1] >= 0:
        return [Fraction(0)] * count
    tableau[leaving] = [-a for a in tableau[leaving]]
    entering = 2 * size
    while True:
        pivot_row, pivot = tableau[leaving], tableau[leaving][entering]
        for i, row in enumerate(tableau):
            if i != leaving:
                factor = row[entering]
                if factor:
                    tableau[i] = [
                        (a * pivot - factor * b) // denominator for a, b in zip(row, pivot_row, strict=True)
                    ]
                elif pivot != denominator:
                    tableau[i] = [a * pivot // denominator for a in row]
        denominator, left, basis[leaving] = pivot, basis[leaving], entering
        if left == 2 * size:
            break
        entering = left + size if left < size else left - size
        candidates = [i for i in range(size) if tableau[i][entering] > 0]
        if not candidates:
            raise ArithmeticError("no minimiser: the programme is infeasible or unbounded")
        leaving = candidates[0]
        for i in candidates[1:]:
            if _is_less(tableau[i], tableau[leaving], entering, size, basis, i, leaving):
                leaving = i
    z = [Fraction(0)] * size
    for i, name in enumerate(basis):
        if size <= name < 2 * size:
            z[name - size] = Fraction(tableau[i][-1], tableau[i][name])
    return z[:count]


def _is_less(
    row: list[int], other: list[int], entering: int, size: int, basis: list[int], i: int, j: int
) -> bool:
    """Compare lexicographic ratios (right-hand side, columns of w); the artificial variable goes first."""
    a, b = row[entering], other[entering]
    first, second = row[-1] * b, other[-1] * a
    if first != second:
        return first < second
    if 2 * size in (basis[i], basis[j]):
        return basis[i] == 2 * size
    for column in range(size):
        first, second = row[column] * b, other[column] * a
        if first != second:
            return first < second
    return False

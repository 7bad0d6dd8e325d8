"""Convex nonsmooth problems with known optima, the classical test set of bundle methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

Array = np.ndarray
Oracle = Callable[[Array], tuple[float, Array]]


@dataclass(frozen=True, eq=False)
class NonsmoothProblem:
    """min f(x) over R^dim.

    Attributes
    ----------
    name : str
    oracle : callable
        x -> (f(x), a subgradient at x).
    x0 : ndarray of shape (dim,)
        The usual starting point.
    value_at_x0, optimum : float
        As printed in the literature, or solved to the digits given.
    box_radius : float
        Some minimiser lies well inside -box_radius <= x <= box_radius, and so does x0.
    """

    name: str
    oracle: Oracle
    x0: Array
    value_at_x0: float
    optimum: float
    box_radius: float

    @property
    def dim(self) -> int:
        """The number of variables."""
        return len(self.x0)

    @property
    def scale(self) -> float:
        """What an error in the objective is relative to."""
        return max(1.0, abs(self.optimum))

    def risk(self):
        """The oracle as a risk of cutplane."""
        import cutplane

        return cutplane.risk(dim=self.dim)(self.oracle)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class MaxOfQuadratics:
    """f(x) = max_k x'A_k x + b_k'x + c_k: a diagonal A_k is given by its diagonal."""

    matrices: Array
    linear: Array
    constants: Array

    def __call__(self, x: Array) -> tuple[float, Array]:
        products = self.matrices * x if self.matrices.ndim == 2 else self.matrices @ x
        values = (products + self.linear) @ x + self.constants
        k = int(np.argmax(values))
        return float(values[k]), 2.0 * products[k] + self.linear[k]


def _quadratics(*pieces: tuple[list[float], list[float], float]) -> MaxOfQuadratics:
    diagonals, linear, constants = zip(*pieces, strict=True)
    return MaxOfQuadratics(np.array(diagonals, float), np.array(linear, float), np.array(constants, float))


def _penalised(objective: int, *functions: tuple[list[float], list[float], float]) -> MaxOfQuadratics:
    """max{f, f + 10 f_2, f + 10 f_3, ...}: the exact penalty of f subject to f_k <= 0."""
    pieces = _quadratics(*functions)
    mix = 10.0 * np.eye(len(functions))
    mix[objective] = 0.0
    mix[:, objective] += 1.0
    return MaxOfQuadratics(mix @ pieces.matrices, mix @ pieces.linear, mix @ pieces.constants)


DEM = _quadratics(([0, 0], [5, 1], 0), ([0, 0], [-5, 1], 0), ([1, 1], [0, 4], 0))
QL = _penalised(0, ([1, 1], [0, 0], 0), ([0, 0], [-4, -1], 4), ([0, 0], [-1, -2], 6))
MIFFLIN1 = _quadratics(([0, 0], [-1, 0], 0), ([20, 20], [-1, 0], -20))
ROSEN_SUZUKI = _penalised(
    0,
    ([1, 1, 2, 1], [-5, -5, -21, 7], 0),
    ([1, 1, 1, 1], [1, -1, 1, -1], -8),
    ([1, 2, 1, 2], [-1, 0, 0, -1], -10),
    ([1, 1, 1, 0], [2, -1, 0, -1], -5),
)
MAXQ = MaxOfQuadratics(np.eye(20), np.zeros((20, 20)), np.zeros(20))


def _shor() -> MaxOfQuadratics:
    digits = "00000 21113 12112 14122 32101 02101 11111 10121 00210 11200".split()
    centres = np.array([[float(digit) for digit in row] for row in digits])
    weights = np.array([1, 5, 10, 2, 4, 3, 1.7, 2.5, 6, 3.5])[:, None]
    return MaxOfQuadratics(
        weights * np.ones_like(centres), -2.0 * weights * centres, (weights * centres**2).sum(axis=1)
    )


def _maxquad() -> MaxOfQuadratics:
    i = np.arange(1, 11)
    k = np.arange(1, 6)
    low, high = np.minimum.outer(i, i), np.maximum.outer(i, i)
    matrices = np.exp(low / high) * np.cos(np.multiply.outer(i, i)) * np.sin(k)[:, None, None]
    diagonal = np.arange(10)
    matrices[:, diagonal, diagonal] = 0.0
    dominant = i / 10 * np.abs(np.sin(k))[:, None] + np.abs(matrices).sum(axis=2)
    matrices[:, diagonal, diagonal] = dominant
    linear = -np.exp(i / k[:, None]) * np.sin(np.multiply.outer(k, i))
    return MaxOfQuadratics(matrices, linear, np.zeros(5))


SHOR = _shor()
MAXQUAD = _maxquad()


def cb2(x: Array) -> tuple[float, Array]:
    """max{x1^2 + x2^4, (2 - x1)^2 + (2 - x2)^2, 2 exp(x2 - x1)}."""
    a, b = x
    e = 2.0 * np.exp(b - a)
    values = [a**2 + b**4, (2 - a) ** 2 + (2 - b) ** 2, e]
    gradients = [[2 * a, 4 * b**3], [2 * a - 4, 2 * b - 4], [-e, e]]
    k = int(np.argmax(values))
    return float(values[k]), np.array(gradients[k])


def wolfe(x: Array) -> tuple[float, Array]:
    """Wolfe's function, on which steepest descent with exact line search goes astray."""
    a, b = x
    if a >= abs(b) and a > 0.0:
        root = np.sqrt(9 * a**2 + 16 * b**2)
        return float(5 * root), np.array([45 * a, 80 * b]) / root
    left = min(a, 0.0)
    return float(9 * a + 16 * abs(b) - left**9), np.array([9 - 9 * left**8, 16 * np.sign(b)])


def maxl(x: Array) -> tuple[float, Array]:
    """max_i |x_i|."""
    i = int(np.argmax(np.abs(x)))
    return float(abs(x[i])), np.sign(x[i]) * np.eye(len(x))[i]


def goffin(x: Array) -> tuple[float, Array]:
    """n max_i x_i - sum_i x_i."""
    i = int(np.argmax(x))
    return float(len(x) * x[i] - x.sum()), len(x) * np.eye(len(x))[i] - 1.0


HILBERT = 1.0 / (np.arange(1, 51)[:, None] + np.arange(50))


def mxhilb(x: Array) -> tuple[float, Array]:
    """max_i |(H x)_i| for the Hilbert matrix H."""
    z = HILBERT @ x
    i = int(np.argmax(np.abs(z)))
    return float(abs(z[i])), np.sign(z[i]) * HILBERT[i]


def l1hilb(x: Array) -> tuple[float, Array]:
    """sum_i |(H x)_i| for the Hilbert matrix H."""
    z = HILBERT @ x
    return float(np.abs(z).sum()), HILBERT @ np.sign(z)


@dataclass(frozen=True, eq=False)
class Transportation:
    """f(x) = sum_j demand_j max_i (x_i - cost_ij) - supply'x: the dual of a transportation problem."""

    cost: Array
    supply: Array
    demand: Array

    def __call__(self, x: Array) -> tuple[float, Array]:
        reduced = x[:, None] - self.cost
        source = reduced.argmax(axis=0)
        value = self.demand @ reduced.max(axis=0) - self.supply @ x
        return float(value), np.bincount(source, self.demand, minlength=len(x)) - self.supply


def _tr48() -> Transportation:
    text = (Path(__file__).parent / "data" / "tr48.txt").read_text()
    supply, demand, *rows = [np.array(line.split(), float) for line in text.splitlines() if line[0] != "#"]
    upper = np.zeros((48, 48))
    upper[np.triu_indices(48, 1)] = np.concatenate(rows)
    return Transportation(upper + upper.T + 1e5 * np.eye(48), supply, demand)


TR48 = _tr48()
A48 = Transportation(TR48.cost, np.ones(48), np.ones(48))


def _lq_pieces(a: Array, b: Array) -> tuple[Array, Array, Array]:
    """Values, derivatives by a and by b of -a - b and -a - b + a^2 + b^2 - 1; each of shape (2, m)."""
    ones = np.ones_like(a)
    flat = -a - b
    return (
        np.array([flat, flat + a**2 + b**2 - 1]),
        np.array([-ones, 2 * a - 1]),
        np.array([-ones, 2 * b - 1]),
    )


def _cb3_pieces(a: Array, b: Array) -> tuple[Array, Array, Array]:
    """The same for a^4 + b^2, (2 - a)^2 + (2 - b)^2 and 2 exp(b - a); each of shape (3, m)."""
    e = 2.0 * np.exp(b - a)
    values = np.array([a**4 + b**2, (2 - a) ** 2 + (2 - b) ** 2, e])
    return values, np.array([4 * a**3, 2 * a - 4, -e]), np.array([2 * b, 2 * b - 4, e])


def sum_of_maxima(pieces: Callable, x: Array) -> tuple[float, Array]:
    """sum_i max_k phi_k(x_i, x_{i+1})."""
    values, left, right = pieces(x[:-1], x[1:])
    chosen = values.argmax(axis=0), np.arange(len(x) - 1)
    return float(values[chosen].sum()), np.append(left[chosen], 0.0) + np.append(0.0, right[chosen])


def maximum_of_sums(pieces: Callable, x: Array) -> tuple[float, Array]:
    """max_k sum_i phi_k(x_i, x_{i+1})."""
    values, left, right = pieces(x[:-1], x[1:])
    sums = values.sum(axis=1)
    k = int(np.argmax(sums))
    return float(sums[k]), np.append(left[k], 0.0) + np.append(0.0, right[k])


chained_lq = partial(sum_of_maxima, _lq_pieces)
chained_cb3_1 = partial(sum_of_maxima, _cb3_pieces)
chained_cb3_2 = partial(maximum_of_sums, _cb3_pieces)

_SIGNED = np.where(np.arange(1, 21) <= 10, 1.0, -1.0) * np.arange(1, 21)
_SQRT2 = float(np.sqrt(2.0))


def _problem(
    name: str, oracle: Oracle, x0, value_at_x0: float, optimum: float, box_radius: float
) -> NonsmoothProblem:
    return NonsmoothProblem(name, oracle, np.array(x0, float), value_at_x0, optimum, box_radius)


def _chained(n: int) -> list[NonsmoothProblem]:
    return [
        _problem(f"Chained LQ {n}", chained_lq, np.full(n, -0.5), n - 1.0, -(n - 1) * _SQRT2, 5.0),
        _problem(f"Chained CB3 I {n}", chained_cb3_1, np.full(n, 2.0), 20.0 * (n - 1), 2.0 * (n - 1), 5.0),
        _problem(f"Chained CB3 II {n}", chained_cb3_2, np.full(n, 2.0), 20.0 * (n - 1), 2.0 * (n - 1), 5.0),
    ]


PROBLEMS = (
    _problem("CB2", cb2, [1.0, -0.1], 5.41, 1.9522245, 10.0),
    _problem("CB3", chained_cb3_1, [2.0, 2.0], 20.0, 2.0, 10.0),
    _problem("DEM", DEM, [1.0, 1.0], 6.0, -3.0, 10.0),
    _problem("QL", QL, [-1.0, 5.0], 56.0, 7.2, 50.0),
    _problem("LQ", chained_lq, [-0.5, -0.5], 1.0, -_SQRT2, 10.0),
    _problem("Mifflin1", MIFFLIN1, [0.8, 0.6], -0.8, -1.0, 10.0),
    _problem("Wolfe", wolfe, [3.0, 2.0], 60.208, -8.0, 5.0),
    _problem("Rosen-Suzuki", ROSEN_SUZUKI, np.zeros(4), 0.0, -44.0, 10.0),
    _problem("Shor", SHOR, [0.0, 0.0, 0.0, 0.0, 1.0], 80.0, 22.600162, 10.0),
    _problem("MAXQUAD", MAXQUAD, np.ones(10), 5337.07, -0.841408335, 10.0),
    _problem("MAXQUAD from 0", MAXQUAD, np.zeros(10), 0.0, -0.841408335, 10.0),
    _problem("MAXQ", MAXQ, _SIGNED, 400.0, 0.0, 100.0),
    _problem("MAXL", maxl, _SIGNED, 20.0, 0.0, 100.0),
    _problem("Goffin", goffin, np.arange(1, 51) - 25.5, 1225.0, 0.0, 100.0),
    _problem("MXHILB", mxhilb, np.ones(50), 4.49921, 0.0, 10.0),
    _problem("L1HILB", l1hilb, np.ones(50), 68.8172, 0.0, 10.0),
    _problem("TR48", TR48, np.zeros(48), -464816.0, -638565.0, 2000.0),
    _problem("A48", A48, np.zeros(48), -A48.cost.min(axis=0).sum(), -9870.0, 2000.0),
    *_chained(10),
    *_chained(50),
)

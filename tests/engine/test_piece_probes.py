"""A set or a regularizer of a user that is wrong is not believed."""

from dataclasses import dataclass

import cvxpy as cp
import numpy as np
import pytest

import cutplane as cut
from cutplane.methods import AcceleratedGradient
from cutplane.pieces.forms import DiagonalQuadratic
from cutplane.regularizers.base import Minimum

pytestmark = pytest.mark.every

TARGET = np.array([1.0, 2.0, -0.5])
METHODS = {
    "auto": "auto",
    "BMRM": cut.BMRM(),
    "OCAS": cut.OCAS(),
    "level": cut.LevelBundle(),
    "proximal": cut.ProximalBundle(),
    "LBFGS": cut.LBFGS(),
    "Frank-Wolfe": cut.FrankWolfe(),
    "accelerated": AcceleratedGradient(),
}


def distance(dim=3):
    @cut.risk(dim=dim)
    def risk(x):
        away = x - np.resize(TARGET, dim)
        return float(np.abs(away).sum()), np.sign(away)

    return risk


class Ball(cut.FeasibleSet):
    """|x|_2 <= 1, projected on a ball of another radius."""

    bounded = True
    radius = 1.0

    def violation(self, x):
        return max(0.0, float(np.linalg.norm(x)) - 1.0)

    def project(self, x):
        size = float(np.linalg.norm(x))
        return x if size <= self.radius else x * (self.radius / size)

    def minimise_linear(self, v):
        size = float(np.linalg.norm(v))
        return -v * (self.radius / size) if size > 0.0 else np.zeros_like(v)

    def cvxpy_form(self, x):
        return [cp.norm(x) <= 1.0]


class SmallBall(Ball):
    radius = 0.8


class SlightlySmallBall(Ball):
    radius = 1.0 - 1e-4


class Cube(cut.FeasibleSet):
    """-1 <= x <= 1."""

    bounded = True

    def violation(self, x):
        return float(np.maximum(np.abs(x) - 1.0, 0.0).max())

    def project(self, x):
        return np.clip(x, -1.0, 1.0)

    def cvxpy_form(self, x):
        return [x >= -1.0, x <= 1.0]


class CubeWithOneSideIn(Cube):
    def project(self, x):
        return np.clip(x, -1.0, np.where(np.arange(x.size) == 1, 0.7, 1.0))


class CubeThatScales(Cube):
    """A point of the cube, but not the nearest."""

    def project(self, x):
        return x / max(1.0, float(np.abs(x).max()))


class Distribution(cut.FeasibleSet):
    """The simplex."""

    bounded = True

    def violation(self, x):
        return float(max(abs(x.sum() - 1.0), np.maximum(-x, 0.0).max()))

    def project(self, x):
        return cut.Simplex(x.size).project(x)

    def cvxpy_form(self, x):
        return [x >= 0.0, cp.sum(x) == 1.0]


class ShrunkenDistribution(Distribution):
    def project(self, x):
        return 0.9 * cut.Simplex(x.size).project(x) + 0.1 / x.size


class BoxWithSmallBounds(cut.Box):
    def bounds(self, dim):
        return np.full(dim, -0.9), np.full(dim, 0.9)


class BallByCvxpy(Ball):
    project = minimise_linear = None

    def cvxpy_form(self, x):
        return [cp.norm(x) <= 0.9]


def check(piece, method, dim=3, wrong=False):
    """Solve with this set or regularizer: a wrong one is never optimal, a right one never accused."""
    pieces = (cut.L2(1.0), piece) if isinstance(piece, cut.FeasibleSet) else (piece, None)
    try:
        result = cut.Problem(distance(dim), *pieces).solve(METHODS[method], tol=1e-3)
    except (cut.MissingCapabilityError, cut.BackendError):
        pytest.skip("the method does not take the piece")
    assert result.status != ("OPTIMAL" if wrong else "INVALID_ORACLE"), result.reason
    if result.status == "INVALID_ORACLE":
        assert "check_set" in result.reason or "check_regularizer" in result.reason


WRONG_SETS = {
    "small ball": SmallBall(),
    "slightly small ball": SlightlySmallBall(),
    "one side in": CubeWithOneSideIn(),
    "not the nearest": CubeThatScales(),
    "shrunken simplex": ShrunkenDistribution(),
    "cut with another": SmallBall() & cut.Box(-2, 2),
    "small bounds": BoxWithSmallBounds(-1, 1),
    "cvxpy form": BallByCvxpy(),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", WRONG_SETS)
def test_a_wrong_set_is_found(name, method):
    check(WRONG_SETS[name], method, wrong=True)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dim", [1, 3, 40])
@pytest.mark.parametrize(
    "feasible_set", [Ball(), Cube(), Distribution(), Ball() & cut.Box(-2, 2), cut.L2Ball(1.0)]
)
def test_a_right_set_is_not_accused(feasible_set, dim, method):
    check(feasible_set, method, dim)


@dataclass(frozen=True)
class Squares(cut.Regularizer):
    lam: float
    above: float = 0.0
    factor: float = 1.0

    def value(self, x):
        return 0.5 * self.lam * float(x @ x)

    def subgradient(self, x):
        return self.lam * x

    def cvxpy_form(self, x):
        return 0.5 * self.lam * cp.sum_squares(x)

    def conjugate_minimiser(self, v, feasible_set, budget):
        if not isinstance(feasible_set, cut.WholeSpace):
            return None
        x = -v / self.lam
        return Minimum(self.factor * (self.value(x) + float(v @ x)) + self.above, x)


class SquaresWithoutASlope(Squares):
    subgradient = None

    def conjugate_minimiser(self, v, feasible_set, budget):
        found = super().conjugate_minimiser(v, feasible_set, budget)
        return found and Minimum(found.value, None)


class WrongQuadratic(Squares):
    conjugate_minimiser = None

    def quadratic(self, dim):
        return DiagonalQuadratic(np.full(dim, 1.01 * self.lam), np.zeros(dim))


REGULARIZERS = {
    "above": (Squares(1.0, above=1e-6), True),
    "factor": (Squares(1.0, factor=1.0 - 1e-6), True),
    "large factor": (Squares(1.0, factor=0.9), True),
    "above, without a slope": (SquaresWithoutASlope(1.0, above=1e-6), True),
    "quadratic": (WrongQuadratic(1.0), True),
    "right": (Squares(1.0), False),
    "right, without a slope": (SquaresWithoutASlope(1.0), False),
    "right, small": (Squares(1e-6), False),
    "right, large": (Squares(1e6), False),
}


@pytest.mark.parametrize("method", ["auto", "BMRM", "OCAS", "level", "proximal", "LBFGS"])
@pytest.mark.parametrize("name", REGULARIZERS)
def test_a_regularizer_is_found_wrong_where_it_is(name, method):
    regularizer, wrong = REGULARIZERS[name]
    check(regularizer, method, wrong=wrong)


def test_probes_false_leaves_them_out():
    result = cut.Problem(distance(), cut.L2(1.0), SmallBall()).solve(cut.BMRM(), probes=False)
    assert result.status == "OPTIMAL"

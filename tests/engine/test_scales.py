"""Answers do not depend on the units of the data."""

from __future__ import annotations

import numpy as np
import pytest
from covering import covering

import cutplane as cut
from cutplane.engine.evaluator import Evaluator

pytestmark = pytest.mark.every

TARGETS = {
    "years": (1990.0, 15.0),
    "temperatures": (290.0, 10.0),
    "weights": (3000.0, 1000.0),
    "prices": (206855.0, 115000.0),
}


def targets(name, seed=0, m=200, n=5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, n))
    mean, spread = TARGETS[name]
    return X, mean + spread * (X @ rng.normal(size=n) + rng.normal(size=m))


def with_intercept(X, y, loss):
    penalised = np.append(np.ones(X.shape[1]), 0.0)
    return cut.Problem(cut.LinearRisk(X, y, loss, intercept=True), cut.L2(0.1, weights=penalised))


def least_squares(X, y):
    """The minimiser of the mean squared loss plus L2(0.1), and its objective."""
    m, n = X.shape
    centred, residual = X - X.mean(axis=0), y - y.mean()
    w = np.linalg.solve(centred.T @ centred / m + 0.1 * np.eye(n), centred.T @ residual / m)
    return 0.5 * np.mean((centred @ w - residual) ** 2) + 0.05 * w @ w


@pytest.mark.parametrize("tol", [1e-4, 1e-9])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", TARGETS)
def test_everyday_targets_with_squared_loss(name, seed, tol):
    X, y = targets(name, seed)
    result = with_intercept(X, y, cut.losses.Squared()).solve(tol=tol)
    optimum = least_squares(X, y)
    assert result.status == "OPTIMAL"
    assert result.lower_bound <= optimum * (1.0 + 1e-11)
    assert optimum * (1.0 - 1e-11) <= result.objective <= optimum * (1.0 + tol + 1e-11)
    assert result.certificate.verify().valid


def near_the_mean(problem, rng):
    """A point at which predictions are near the targets, which are far from zero."""
    return np.append(rng.normal(size=problem.dim - 1), problem.risk.y.mean())


@pytest.mark.parametrize("distance", [3.0, 1e3, 2e5, -2e5])
@pytest.mark.parametrize("loss", [cut.losses.Squared(), cut.losses.Absolute()], ids=repr)
def test_points_far_along_a_line_have_the_value_of_their_coordinates(loss, distance):
    problem = with_intercept(*targets("years"), loss)
    evaluator = Evaluator(problem)
    rng = np.random.default_rng(1)
    start = evaluator.point(near_the_mean(problem, rng))
    end = evaluator.point(start.x + rng.normal(size=problem.dim) / abs(distance))
    point = evaluator.between(start, end, distance)
    assert point.objective == pytest.approx(problem.objective(point.x), rel=1e-12)


def test_many_combinations_of_images_do_not_drift():
    problem = with_intercept(*targets("years"), cut.losses.Squared())
    evaluator = Evaluator(problem)
    rng = np.random.default_rng(0)
    point = evaluator.point(near_the_mean(problem, rng))
    for _ in range(60):
        other = evaluator.point(point.x + rng.normal(size=problem.dim))
        point = evaluator.between(point, other, float(rng.uniform(-2.0, -1.0)))
        assert point.objective == pytest.approx(problem.objective(point.x), rel=1e-8)


def sign(x):
    return np.where(x >= 0.0, 1.0, -1.0)


@pytest.mark.parametrize("larger", [1e-9, 1e-6, 1.0])
@pytest.mark.parametrize("smaller", [1e-13, 1e-30])
def test_a_box_shrinks_after_a_warm_start(smaller, larger):
    c = np.array([1.0, -2.0, 0.5])
    first = cut.Problem(cut.LinearObjective(c), feasible_set=cut.Box(-larger, larger)).solve()
    small = cut.Problem(cut.LinearObjective(c), feasible_set=cut.Box(-smaller, smaller))
    result = small.solve(warm_start=first, tol=1e-9)
    assert result.status == "OPTIMAL"
    assert result.x == pytest.approx(-smaller * sign(c), rel=1e-12, abs=0.0)
    assert result.objective == pytest.approx(-smaller * np.abs(c).sum(), rel=1e-9, abs=0.0)


@pytest.mark.parametrize("right", [1e-9, 1e-12, 1e-3, 1e9])
@pytest.mark.parametrize("backend", ["auto", "highs", "clarabel"])
@pytest.mark.parametrize("method", [cut.Kelley(), cut.LevelBundle()], ids=repr)
def test_a_polyhedron_of_any_size_is_not_left(method, backend, right):
    if backend == "highs" and isinstance(method, cut.LevelBundle):
        backend = "auto"
    wall = cut.Polyhedron([[1.0, 1.0], [-1.0, 0.0], [0.0, -1.0]], [right, right, right])
    problem = cut.Problem(cut.LinearObjective([-1.0, -1.0]), feasible_set=wall)
    result = problem.solve(method, backend=backend)
    assert result.status == "OPTIMAL"
    assert result.x.sum() <= right * (1.0 + 1e-8)
    assert result.objective == pytest.approx(-right, rel=1e-4, abs=0.0)
    assert result.lower_bound <= -right * (1.0 - 1e-8)


@pytest.mark.parametrize("method", [cut.Kelley(), cut.LevelBundle(), cut.ProximalBundle()], ids=repr)
@pytest.mark.parametrize(("slope", "side"), [(1e8, 1e8), (1e12, 1e9), (1e18, 1.0), (1e30, 1e-10)])
def test_a_bounded_problem_is_not_unbounded(slope, side, method):
    problem = cut.Problem(cut.LinearObjective([slope]), feasible_set=cut.Box(-side, side))
    result = problem.solve(method)
    assert result.status == "OPTIMAL"
    assert result.objective == pytest.approx(-slope * side, rel=1e-4)


def scaled_formulations(height, width):
    """Problems whose objective is multiplied by `height`, and whose solution by `width`."""
    rng = np.random.default_rng(0)
    A, b = rng.normal(size=(20, 3)), rng.normal(size=20)

    @cut.risk(dim=3)
    def distance(x):
        r = A @ (x / width) - b
        return height * np.abs(r).sum(), height / width * (A.T @ np.sign(r))

    c = cut.LinearObjective(height / width * np.array([1.0, -2.0, 0.5]))
    corner = [[1.0, 1.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, -1.0]]
    return {
        "L2": cut.Problem(distance, cut.L2(height / width**2)),
        "L1, box": cut.Problem(distance, cut.L1(height / width), cut.Box(-width, width)),
        "box": cut.Problem(distance, feasible_set=cut.Box(-width, width)),
        "ball": cut.Problem(distance, feasible_set=cut.L2Ball(0.1 * width)),
        "linear, box": cut.Problem(c, feasible_set=cut.Box(-width, width)),
        "linear, polyhedron": cut.Problem(c, feasible_set=cut.Polyhedron(corner, np.full(4, width))),
    }


BEYOND = {
    ("ball", 1e-12, 1e-12),
    ("ball", 1.0, 1e-12),
    ("ball", 1e12, 1e-12),
    ("ball", 1e12, 1e12),
    ("linear, polyhedron", 1e-12, 1e12),
    ("linear, polyhedron", 1.0, 1e6),
    ("linear, polyhedron", 1.0, 1e12),
    ("linear, polyhedron", 1e12, 1e-12),
    ("linear, polyhedron", 1e12, 1e12),
}
"""Where the backends' absolute tolerances show: the bounds hold, but are not tight."""


@pytest.mark.parametrize(
    ("name", "height", "width"),
    covering(
        ["L2", "L1, box", "box", "ball", "linear, box", "linear, polyhedron"],
        [1e-12, 1.0, 1e12],
        [1e-12, 1e-6, 1e6, 1e12],
    ),
)
def test_objectives_and_solutions_of_any_size(name, height, width):
    tol = 1e-9
    unit = scaled_formulations(1.0, 1.0)[name].solve(tol=tol)
    result = scaled_formulations(height, width)[name].solve(tol=tol)
    assert result.lower_bound <= height * unit.objective * (1.0 + np.sign(unit.objective) * 1e-12)
    assert result.certificate.verify().valid
    if (name, height, width) in BEYOND:
        assert result.status in ("OPTIMAL", "STALLED")
        return
    assert unit.status == result.status == "OPTIMAL"
    assert result.gap <= tol
    assert result.objective == pytest.approx(height * unit.objective, rel=2e-9, abs=0.0)


THIRDS = np.array([np.nextafter(1.0 / 3.0, 1.0), 1.0 / 3.0])
ROUNDED = {
    "l2 ball": (cut.L2Ball(1.0, centre=[1.0, 0.0]), np.array([-4e-16, 0.0]), np.array([-1e-12, 0.0])),
    "l1 ball": (cut.L1Ball(1.0, centre=[1.0, 0.0]), np.array([-4e-16, 0.0]), np.array([-1e-12, 0.0])),
    "rows": (cut.Polyhedron([[1e9, -1e9]], [0.0]), THIRDS, THIRDS + np.array([1e-12, 0.0])),
    "equations": (cut.Polyhedron(A_eq=[[1e9, -1e9]], b_eq=[0.0]), THIRDS, THIRDS + np.array([1e-12, 0.0])),
}


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("name", ROUNDED)
def test_what_rounding_leaves_of_terms_that_cancel_is_no_violation(name, size):
    feasible, inside, outside = ROUNDED[name]
    problem = cut.Problem(cut.LinearObjective([1.0, 1.0]), feasible_set=feasible.in_unit(1.0 / size))
    assert problem.in_simple_set(size * inside)
    assert not problem.in_simple_set(size * outside)


@pytest.mark.parametrize("far", [1e9, 1e18])
@pytest.mark.parametrize("x", [-1000.0, -1.0, -1e-9])
def test_a_point_is_not_inside_because_the_set_is_large(far, x):
    for feasible in (cut.Box(0.0, far, dim=1), cut.Polyhedron([[-1.0], [1.0]], [0.0, far])):
        assert not cut.Problem(cut.LinearObjective([1.0]), feasible_set=feasible).in_simple_set(np.array([x]))

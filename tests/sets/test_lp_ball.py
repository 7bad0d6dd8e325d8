"""The nonnegative ball: its projection by optimality conditions, and the engine over it."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import cutplane as cut
from cutplane.sets.balls import NonnegativeBall, lp_norm
from cutplane.status import Status
from cutplane.testing import check_set

EXPONENTS = (1.0, 1.01, 4 / 3, 1.5, 2.0, 3.0, 4.0, 60.0, np.inf)


@pytest.mark.parametrize("p", [*EXPONENTS, 1.0001, 1.9, 1000.0])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_the_projection_meets_its_optimality_conditions(p, data):
    """What is cut off is a normal of the ball: no point of it has a larger product with z - x."""
    entries = st.floats(-3, 3) | st.sampled_from([0.0, 1.0, 1e-9, 1e-310, 1e6, -1e6])
    z = data.draw(arrays(np.float64, st.integers(1, 8), elements=entries))
    radius = data.draw(st.sampled_from([1e-3, 1.0, 50.0]))
    ball = NonnegativeBall(p, radius)
    x = ball.project(z)
    assert ball.violation(x) <= 1e-14 * radius
    normal = z - x
    farthest = ball.minimise_linear(-normal)
    assert normal @ (farthest - x) <= 4e-13 * radius * np.abs(z).max()


@pytest.mark.parametrize("p", EXPONENTS)
def test_a_large_projection_and_its_digits(p):
    rng = np.random.default_rng(0)
    for scale in (1e-3, 1.0, 1e8):
        z = scale * rng.standard_normal(5000)
        ball = NonnegativeBall(p)
        x = ball.project(z)
        normal = z - x
        assert ball.violation(x) <= 1e-14
        assert normal @ (ball.minimise_linear(-normal) - x) <= 1e-12 * np.linalg.norm(z)
        np.testing.assert_allclose(ball.project(x), x, atol=1e-14)
        if 1.0 < p < np.inf and lp_norm(np.maximum(z, 0.0), p) > 1.0:
            positive = x > 1e-250
            largest = np.argmax(x)
            log_mu = np.log(normal[largest]) - (p - 1.0) * np.log(x[largest])
            u = x[positive]
            np.testing.assert_allclose(u + np.exp(log_mu + (p - 1.0) * np.log(u)), z[positive], rtol=1e-9)


@pytest.mark.parametrize("p", EXPONENTS)
def test_its_methods_agree_with_one_another(p):
    check_set(NonnegativeBall(p, 0.7), dim=4)


def test_norms_do_not_overflow():
    assert lp_norm(np.array([3e200, 4e200]), 2.0) == pytest.approx(5e200)
    assert lp_norm(np.full(8, 1e-200), 3.0) == pytest.approx(2e-200)
    assert lp_norm(np.zeros(2), 2.0) == 0.0
    ball = NonnegativeBall(4.0)
    np.testing.assert_allclose(ball.minimise_linear(np.array([-1e-310, 1.0])), [1.0, 0.0])
    assert ball.minimise_linear(np.array([0.0, 2.0])).tolist() == [0.0, 0.0]


def least_distance(p):
    """An l1 distance over the ball, as a problem and by one cvxpy solve."""
    rng = np.random.default_rng(1)
    A, b = rng.standard_normal((20, 6)), rng.standard_normal(20) + 1.0

    @cut.risk(dim=6, infimum=0.0)
    def distance(x):
        r = A @ x - b
        return np.abs(r).sum(), A.T @ np.sign(r)

    x = cp.Variable(6)
    norm = {1.0: cp.norm1, 2.0: cp.norm2, np.inf: cp.norm_inf}.get(p)
    size = norm(x) if norm else cp.pnorm(x, p, approx=False)
    optimum = cp.Problem(cp.Minimize(cp.norm1(A @ x - b)), [x >= 0, size <= 0.4]).solve(cp.CLARABEL)
    return cut.Problem(distance, feasible_set=NonnegativeBall(p, 0.4)), float(optimum)


@pytest.mark.parametrize("p", [1.0, 4 / 3, 2.0, 3.0, np.inf])
@pytest.mark.parametrize("method", [cut.LevelBundle(), cut.Kelley(), cut.ProximalBundle()], ids=repr)
def test_bundle_methods_over_it(p, method):
    problem, optimum = least_distance(p)
    result = problem.solve(method, tol=1e-5)
    assert result.status is Status.OPTIMAL
    assert result.lower_bound <= optimum + 1e-7 * optimum
    assert result.objective == pytest.approx(optimum, rel=2e-5)
    assert problem.simple_set.violation(result.x) <= 1e-14
    assert result.certificate.verify().valid


@pytest.mark.parametrize("p", [1.0, 4 / 3, 2.0, 3.0, np.inf])
@pytest.mark.parametrize("method", [cut.FrankWolfe("exact", "pairwise"), cut.OCAS()], ids=["FW", "OCAS"])
def test_smooth_risks_over_it(p, method):
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((30, 5)), rng.standard_normal(30) + 1.0
    ball, w = NonnegativeBall(p, 0.3), cp.Variable(5)
    lam = 0.1 if isinstance(method, cut.OCAS) else 0.0
    regularizer = cut.L2(lam) if lam else None
    risk = cut.LinearRisk(X, y, cut.losses.Squared())
    monolith = cp.sum(cut.losses.Squared().cvxpy_form(X @ w, y)) / 30 + lam / 2 * cp.sum_squares(w)
    optimum = cp.Problem(cp.Minimize(monolith), ball.cvxpy_form(w)).solve(cp.CLARABEL)
    result = cut.Problem(risk, regularizer, ball).solve(method, tol=1e-5, max_iter=5000)
    assert result.status is Status.OPTIMAL
    assert result.objective == pytest.approx(float(optimum), rel=2e-5)
    assert result.lower_bound <= float(optimum) * (1 + 1e-7)
    assert result.certificate.verify().valid

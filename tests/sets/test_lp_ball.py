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


def test_norms_do_not_overflow():
    assert lp_norm(np.array([3e200, 4e200]), 2.0) == pytest.approx(5e200)
    assert lp_norm(np.full(8, 1e-200), 3.0) == pytest.approx(2e-200)
    assert lp_norm(np.zeros(2), 2.0) == 0.0
    ball = NonnegativeBall(4.0)
    np.testing.assert_allclose(ball.minimise_linear(np.array([-1e-310, 1.0])), [1.0, 0.0])
    assert ball.minimise_linear(np.array([0.0, 2.0])).tolist() == [0.0, 0.0]


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

"""The weight of the proximal bundle method."""

from types import SimpleNamespace

import numpy as np
import pytest

import cutplane as cut
from cutplane.methods.proximal import ProximityState, _after_serious_step

pytestmark = pytest.mark.every


def test_the_interpolation_goes_first_and_no_step_divides_the_weight_by_more_than_ten():
    centre, point = (SimpleNamespace(objective=objective) for objective in (10.0, 8.5))
    assert _after_serious_step(ProximityState(centre, 8.0, 1), point, 2.0).weight == pytest.approx(4.0)
    point = SimpleNamespace(objective=8.001)
    assert _after_serious_step(ProximityState(centre, 8.0, 1), point, 2.0).weight == pytest.approx(0.8)


def test_a_first_weight_that_is_far_too_large_costs_few_iterations():
    A = np.random.default_rng(0).standard_normal((40, 300))

    @cut.risk(dim=300)
    def mean_error(x):
        r = A @ x - A[:, 0]
        return np.abs(r).mean(), np.sign(r) @ A / 40

    problem = cut.Problem(mean_error, cut.L1(0.05) + cut.L2(0.1))
    fitting = problem.solve(cut.ProximalBundle(weight=0.1), tol=1e-3)
    large = problem.solve(cut.ProximalBundle(weight=1000.0), tol=1e-3)
    assert fitting.status == large.status == "OPTIMAL"
    assert (
        large.n_iter <= fitting.n_iter + 40
    )  # the weight is divided by ten at most, after two serious steps


@cut.risk(dim=2)
def kink(x):
    """Return |x_1|, and of its subgradients at 0 the largest."""
    return abs(x[0]), np.array([1.0 if x[0] >= 0.0 else -1.0, 0.0])


def test_a_point_that_no_step_improves_has_a_bound_all_the_same():
    """With the square the cut x_1 is least at (-0.5, 0), where the sum is 0."""
    result = cut.Problem(kink, cut.L2(1.0, centre=[0.5, 0.0])).solve(cut.LBFGS(), x0=np.zeros(2))
    assert result.status is cut.Status.STALLED and "no step along the gradient" in result.reason
    assert result.objective == 0.125
    assert result.lower_bound == pytest.approx(0.0, abs=1e-12)
    assert result.certificate.verify()


def test_where_the_model_leads_lower_it_begins_anew():
    problem = cut.Problem(kink, cut.L2(1.0, centre=[0.99, 1.0], weights=[1.0, 0.1]))
    result = problem.solve(cut.LBFGS(), x0=np.zeros(2), max_iter=1)
    assert result.history[-1].step == "model"
    assert result.x == pytest.approx([-0.01, 1.0])
    assert result.objective < problem.objective(np.zeros(2))

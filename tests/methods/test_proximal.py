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

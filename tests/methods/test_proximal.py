"""The weight of the proximal bundle method, and what it asks after many null steps."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

import cutplane as cut
from cutplane.methods.proximal import ProximityState, _after_serious_step

pytestmark = pytest.mark.every


@pytest.mark.parametrize(
    ("gap", "weight", "run_length"), [(5.0, 8.0, 1), (20.1, 4.0, 1), (math.inf, 8.0, 1), (math.nan, 8.0, 1)]
)
def test_a_serious_step_that_is_small_beside_the_gap_halves_the_weight(gap, weight, run_length):
    centre, point = (SimpleNamespace(objective=objective) for objective in (10.0, 9.5))
    state = ProximityState(centre, 8.0)
    moved = _after_serious_step(state, point, 2.0, gap)
    assert (moved.centre, moved.weight, moved.run_length) == (point, weight, run_length)


def test_the_interpolation_goes_first_and_no_step_divides_the_weight_by_more_than_ten():
    centre, point = (SimpleNamespace(objective=objective) for objective in (10.0, 8.5))
    assert _after_serious_step(ProximityState(centre, 8.0, 1), point, 2.0, 1e3).weight == pytest.approx(4.0)
    point = SimpleNamespace(objective=8.001)
    assert _after_serious_step(ProximityState(centre, 8.0, 1), point, 2.0, 1e3).weight == pytest.approx(0.8)


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
    assert large.n_iter <= fitting.n_iter + 25


def test_half_steps_are_asked_only_after_more_than_three_null_steps():
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((40, 15)), rng.standard_normal(40)
    asked = []

    @cut.risk(dim=15)
    def largest(x):
        r = A @ x - b
        asked.append(x.copy())
        k = np.abs(r).argmax()
        return abs(r[k]), np.sign(r[k]) * A[k]

    result = cut.Problem(largest, cut.L2(1e-3)).solve(cut.ProximalBundle(), tol=1e-6)
    assert result.status == "OPTIMAL"
    steps = [record.step for record in result.history]
    halves = [
        k
        for k in range(2, len(asked))
        if any(np.allclose(2.0 * asked[k], asked[k - 1] + c, rtol=0.0, atol=1e-12) for c in asked[: k - 1])
    ]
    assert halves
    first = next(k for k in range(4, len(steps)) if steps[k - 4 : k + 1] == ["null"] * 5)
    assert halves[0] > first

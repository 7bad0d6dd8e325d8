"""The classical nonsmooth problems, against their published optima."""

import numpy as np
import pytest
from nonsmooth import PROBLEMS

import cutplane as cut
from cutplane.status import Status

KELLEY_NEEDS_THOUSANDS = {"Chained LQ 50", "Chained CB3 I 50", "Chained CB3 II 50", "A48"}


def boxed(problem):
    return cut.Problem(problem.risk(), feasible_set=cut.Box(-problem.box_radius, problem.box_radius))


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_the_definitions(problem):
    value, slope = problem.oracle(problem.x0)
    assert value == pytest.approx(problem.value_at_x0, rel=1e-4)
    rng = np.random.default_rng(0)
    for _ in range(20):
        x, z = problem.x0 + rng.normal(size=(2, problem.dim))
        value, slope = problem.oracle(x)
        assert problem.oracle(z)[0] >= value + slope @ (z - x) - 1e-9 * (1.0 + abs(value))


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_the_proximal_bundle_needs_no_box(problem):
    result = cut.Problem(problem.risk()).solve(cut.ProximalBundle(), x0=problem.x0, tol=1e-7, tol_abs=1e-8)
    assert abs(result.objective - problem.optimum) <= 1e-6 * max(1.0, abs(problem.optimum))
    assert result.status is Status.OPTIMAL or "not certified" in result.reason
    assert result.lower_bound <= problem.optimum + 1e-6 * max(1.0, abs(problem.optimum))
    if problem.name.startswith("MAXQUAD"):
        assert result.oracle_calls < 100


@pytest.mark.parametrize("method", [cut.LevelBundle(), cut.Kelley()], ids=lambda method: method.name)
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_certified_in_a_box(problem, method):
    if method == cut.Kelley() and problem.name in KELLEY_NEEDS_THOUSANDS:
        pytest.skip("Kelley takes thousands of cuts in 50 dimensions: test_kelley_in_50_dimensions")
    result = boxed(problem).solve(method, x0=problem.x0, tol=1e-4, tol_abs=0.0 if problem.optimum else 1e-4)
    check(problem, result)


@pytest.mark.slow
@pytest.mark.parametrize(
    "problem",
    [problem for problem in PROBLEMS if problem.name in KELLEY_NEEDS_THOUSANDS],
    ids=lambda problem: problem.name,
)
def test_kelley_in_50_dimensions(problem):
    check(problem, boxed(problem).solve(cut.Kelley(), x0=problem.x0, tol=1e-4, max_iter=100_000))


def check(problem, result):
    scale = max(1.0, abs(problem.optimum))
    assert result.status is Status.OPTIMAL, result
    assert abs(result.objective - problem.optimum) <= 1.01e-4 * scale
    assert result.lower_bound <= problem.optimum + 1e-7 * scale
    assert result.certificate.verify().valid

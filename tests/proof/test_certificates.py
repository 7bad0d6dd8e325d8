"""Bounds hold whatever the multipliers and whoever computed them."""

import numpy as np
import pytest
from formulations import FORMULATIONS, formulation
from hypothesis import given, settings
from hypothesis import strategies as st

import cutplane as cut
from cutplane.proof.dual import DualFunction

CHEAP = [
    name
    for name in FORMULATIONS
    if not any(
        word in name for word in ("cvxpy", "polyhedron", "separation", "exponential", "poisson", "l1 ball")
    )
]


def cuts_of(problem, points):
    slopes, offsets, blocks = [], [], []
    for x in points:
        values, subgradients = problem.risk.oracle(problem.into_simple_set(x))
        values, subgradients = np.atleast_1d(values), np.atleast_2d(subgradients)
        slopes += list(subgradients)
        offsets += list(values - subgradients @ problem.into_simple_set(x))
        blocks += list(range(problem.risk.n_blocks))
    return np.array(slopes), np.array(offsets), np.array(blocks)


@settings(max_examples=40, deadline=None)
@given(name=st.sampled_from(CHEAP), seed=st.integers(0, 2**32 - 1), count=st.integers(1, 12))
def test_any_multipliers_give_a_lower_bound(name, seed, count):
    problem, optimum = formulation(name)
    rng = np.random.default_rng(seed)
    slopes, offsets, blocks = cuts_of(problem, rng.normal(size=(count, problem.dim)))
    multipliers = rng.exponential(size=len(offsets)) * rng.integers(0, 2, size=len(offsets)) - 1e-3
    upper = problem.objective(problem.starting_point())
    value, weights, *_ = DualFunction(problem)(slopes, offsets, blocks, multipliers, upper)
    assert value <= optimum + 1e-7 * max(1.0, abs(optimum))
    if np.isfinite(value):
        assert (weights >= 0).all()
        assert np.bincount(blocks, weights=weights) == pytest.approx(np.ones(problem.risk.n_blocks))


def random_problem(rng):
    m, n = int(rng.integers(5, 40)), int(rng.integers(1, 8))
    X = rng.normal(size=(m, n)) * 10.0 ** rng.uniform(-1, 1)
    y = np.where(rng.normal(size=m) > 0, 1.0, -1.0)
    loss = [cut.losses.Hinge(), cut.losses.SquaredHinge(), cut.losses.Absolute(), cut.losses.Logistic()][
        rng.integers(4)
    ]
    lam = 10.0 ** rng.uniform(-3, 0)
    regularizer, feasible = [
        (cut.L2(lam), None),
        (cut.L1(lam), cut.Box(-5, 5)),
        (cut.ElasticNet(lam), None),
        (cut.NoRegularizer(), cut.Simplex()),
        (cut.NoRegularizer(), cut.Box(-1, 1)),
    ][rng.integers(5)]
    return cut.Problem(cut.LinearRisk(X, y, loss), regularizer, feasible)


LOOSE = {
    "osqp": cut.Backend("osqp", {"eps_abs": 1e-3, "eps_rel": 1e-3, "polishing": False}),
    "scs": cut.Backend("scs", {"eps_abs": 1e-3, "eps_rel": 1e-3}),
}


@pytest.mark.parametrize("backend", LOOSE)
@pytest.mark.parametrize("seed", range(2))
def test_a_loose_backend_gives_safe_bounds(backend, seed):
    """Eight problems per seed."""
    rng = np.random.default_rng([seed, len(backend)])
    kept = 0
    for _ in range(8):
        problem = random_problem(rng)
        exact = problem.solve(tol=1e-11, max_iter=500)
        loose = problem.solve(cut.BMRM(), LOOSE[backend], tol=1e-6, max_iter=6)
        kept += loose.backend == backend
        assert np.isfinite(loose.lower_bound)
        assert loose.lower_bound <= exact.objective + 1e-9 * abs(exact.objective)
        assert exact.gap < 1e-6
    assert kept >= 5

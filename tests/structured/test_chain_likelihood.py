"""Conditional random fields on chains, and L-BFGS, against enumeration, differences and scipy."""

from itertools import pairwise, product

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import logsumexp

import cutplane as cut
from cutplane.exceptions import InvalidInputError, MissingCapabilityError
from cutplane.structured import ChainLogLikelihood, marginals
from cutplane.testing import check_risk

S, N = 3, 2
DIM = S * (N + S)


def chains(m=5, seed=0):
    rng = np.random.default_rng(seed)
    X = [rng.standard_normal((length, N)) for length in rng.integers(1, 5, size=m)]
    return X, [rng.integers(S, size=len(x)) for x in X]


def score(x, labels, w):
    emissions, transitions = w[: S * N].reshape(S, N), w[S * N :].reshape(S, S)
    return sum(x[t] @ emissions[s] for t, s in enumerate(labels)) + sum(
        transitions[pair] for pair in pairwise(labels)
    )


def enumerated(X, Y, w):
    total = 0.0
    for x, y in zip(X, Y, strict=True):
        everything = [score(x, labels, w) for labels in product(range(S), repeat=len(y))]
        total += logsumexp(everything) - score(x, y.tolist(), w)
    return total / len(X)


@pytest.mark.parametrize("scale", [0.0, 1.0, 1e3])  # sums of exponentials overflow far below 1e3
def test_values_are_those_of_enumeration_and_slopes_those_of_differences(scale):
    for seed in range(5):
        X, Y = chains(seed=seed)
        risk, w = (
            ChainLogLikelihood(X, Y, n_states=S),
            scale * np.random.default_rng(seed).standard_normal(DIM),
        )
        value, slope = risk.oracle(w)
        assert value == pytest.approx(enumerated(X, Y, w), rel=1e-10, abs=1e-12 * scale)
        step = 1e-5 * max(scale, 1.0)
        differences = [(risk(w + step * e) - risk(w - step * e)) / (2.0 * step) for e in np.eye(DIM)]
        np.testing.assert_allclose(slope, differences, atol=1e-7)


@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_marginals_are_those_of_enumeration(scale):
    X, _ = chains(m=6, seed=4)
    w = scale * np.random.default_rng(4).standard_normal(DIM)
    for x, found in zip(X, marginals(w, [sparse.csr_array(part) for part in X]), strict=True):
        everything = list(product(range(S), repeat=len(x)))
        scores = np.array([score(x, labels, w) for labels in everything])
        probabilities = np.exp(scores - logsumexp(scores))
        expected = [
            [probabilities @ [z[t] == s for z in everything] for s in range(S)] for t in range(len(x))
        ]
        np.testing.assert_allclose(found, expected, atol=1e-10)


def test_one_transition_can_outweigh_all():
    w = np.zeros(DIM)
    w[S * N + 1] = -2000.0  # from 0 to 1
    w[S * N + 2 * S + 2] = 900.0  # from 2 to 2
    X, Y = chains(seed=2)
    risk = ChainLogLikelihood(X, Y, n_states=S)
    assert risk(w) == pytest.approx(enumerated(X, Y, w), rel=1e-12)
    assert np.isfinite(risk.oracle(-w)[1]).all()


def test_the_checks_pass():
    assert check_risk(ChainLogLikelihood(*chains(m=20), sample_weight=np.arange(20.0)), n_points=6)


def test_the_terms_of_scores_are_within_their_bound():
    X, Y = chains(m=4, seed=1)
    risk = ChainLogLikelihood(X, Y, n_states=S, normalize=False)
    signs = np.random.default_rng(1).choice([-1.0, 1.0], DIM)
    steps = sum(len(y) - 1 for y in Y)
    entries = sum(float(np.abs(x).sum()) for x in X)
    w = np.concatenate([2.0 * signs[: S * N], 3.0 * signs[S * N :]])
    assert risk.cancelled(w) == pytest.approx(2.0 * entries + 3.0 * steps, rel=1e-14)


@pytest.mark.parametrize("method", [cut.LBFGS(), cut.LBFGS(memory=1), "lbfgs", "auto"])
def test_the_optimum_is_that_of_scipy(method):
    X, Y = chains(m=10)
    problem = cut.Problem(ChainLogLikelihood(X, Y), cut.L2(0.05, centre=np.full(DIM, 0.3)))
    result = problem.solve(method, tol=1e-8)
    assert result.status == "OPTIMAL"
    assert "LBFGS" in result.method
    assert result.certificate.verify().valid

    def objective(w):
        value, slope = problem.risk.oracle(w)
        return value + problem.regularizer.value(w), slope + problem.regularizer.subgradient(w)

    best = minimize(objective, np.zeros(DIM), jac=True, method="BFGS", options={"gtol": 1e-8})
    assert result.objective == pytest.approx(best.fun, rel=1e-8)
    result.certificate.multipliers[:] = np.roll(result.certificate.multipliers, 1)
    assert not result.certificate.verify().valid


def test_lbfgs_takes_any_smooth_risk_and_says_where_it_is_stuck():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 5)), rng.choice([-1.0, 1.0], 40)
    weights = np.array([1.0, 2.0, 0.5, 1.0, 3.0])
    problem = cut.Problem(cut.LinearRisk(X, y, cut.losses.Logistic()), cut.L2(0.1, weights=weights))
    assert problem.solve(cut.LBFGS(), tol=1e-8).objective == pytest.approx(
        problem.solve(tol=1e-8).objective, rel=1e-7
    )
    kinked = cut.Problem(cut.LinearRisk(X, y, cut.losses.Hinge()), cut.L2(0.1))
    assert kinked.solve(cut.LBFGS(), tol=1e-8, max_iter=500).status == "STALLED"
    for lame in (
        cut.Problem(problem.risk, cut.L1(0.1)),
        cut.Problem(problem.risk, cut.L2(0.1), cut.Box(-1, 1)),
    ):
        with pytest.raises(MissingCapabilityError, match="square in all coordinates"):
            lame.solve(cut.LBFGS())
    with pytest.raises(InvalidInputError, match=r"LBFGS\.memory"):
        cut.LBFGS(memory=0)

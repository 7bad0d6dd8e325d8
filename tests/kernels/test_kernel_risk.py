"""Kernel machines as risk + regularizer: known answers, bounds, memory, and kernels that are none."""

import cvxpy as cp
import numpy as np
import pytest

import cutplane as cut
from cutplane import losses
from cutplane.kernels import (
    ChiSquare,
    Cosine,
    Gaussian,
    KernelRisk,
    Laplacian,
    Linear,
    Polynomial,
)

RNG = np.random.default_rng(0)
X = np.abs(RNG.standard_normal((24, 3)))
LABELS = np.sign(X[:, 0] - X[:, 1] + 0.5 * RNG.standard_normal(24))
NUMBERS = X[:, 0] * X[:, 1] + 0.3 * RNG.standard_normal(24)
KERNELS = [
    Linear(),
    Polynomial(2),
    Gaussian(0.8),
    Laplacian(1.5),
    Cosine(),
    ChiSquare(0.7),
    lambda A, B: np.exp(-0.3 * ((A[:, None] - B) ** 2).sum(axis=2)),
]
LOSSES = [
    losses.Hinge(),
    losses.SquaredHinge(),
    losses.ModifiedHuber(),
    losses.Squared(),
    losses.Absolute(),
    losses.Quantile(0.7),
    losses.EpsilonInsensitive(0.1),
    losses.SquaredEpsilonInsensitive(0.1),
    losses.Huber(0.3),
]


def targets(loss):
    return LABELS if loss.variable == "margin" else NUMBERS


def known_optimum(K, y, loss, lam, intercept, weights):
    """The optimum of the whole problem, with K = F F', by Clarabel."""
    values, vectors = np.linalg.eigh(K)
    F = vectors * np.sqrt(np.maximum(values, 0.0))
    w, b = cp.Variable(len(y)), cp.Variable()
    t = F @ w + (b if intercept else 0.0)
    value = cp.sum(cp.multiply(weights, loss.cvxpy_form(t, y))) + lam / 2 * cp.sum_squares(w)
    problem = cp.Problem(cp.Minimize(value))
    problem.solve("CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return problem.value


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "without"])
def test_the_optimum_is_that_of_the_whole_problem(loss, intercept):
    number = LOSSES.index(loss)
    weights = RNG.random(24) if number % 2 else np.ones(24)
    kernel, lam = KERNELS[(number + 3 * intercept) % len(KERNELS)], 10.0 ** -(1 + number % 3)
    risk = KernelRisk(X, targets(loss), loss, kernel, intercept=intercept, sample_weight=weights)
    result = cut.Problem(risk, risk.squared_norm(lam)).solve(tol=1e-9)
    known = known_optimum(risk.gram.matrix(), risk.y, loss, lam, intercept, weights / weights.sum())
    assert result.status == "OPTIMAL"
    assert result.method == "Decomposition()"
    assert result.objective == pytest.approx(known, rel=1e-7, abs=1e-9)
    assert result.lower_bound <= known * (1 + 1e-7) + 1e-9
    assert result.certificate.verify().valid

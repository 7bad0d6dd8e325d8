"""Kernel machines from random data, and their optimum by cvxpy."""

import cvxpy as cp
import numpy as np
from own_losses import targets

import cutplane as cut
from cutplane.kernels import Gaussian, KernelRisk


def machine(loss, lam=1e-4, intercept=True, m=40, kernel=None, weighted=False, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, 3))
    weights = rng.integers(0, 3, m).astype(float) if weighted else None
    risk = KernelRisk(X, targets(loss, m, rng), loss, kernel or Gaussian(1.5), intercept, weights)
    return cut.Problem(risk, risk.squared_norm(lam))


def optimum(problem):
    """In the coordinates of the eigenvectors, where the norm is that of the coordinates."""
    risk = problem.risk
    values, vectors = np.linalg.eigh(risk.gram.matrix())
    kept = values > 1e-14 * values[-1]
    w, b = cp.Variable(int(kept.sum())), cp.Variable() if risk.intercept else 0.0
    losses = risk.loss.cvxpy_form((vectors[:, kept] * np.sqrt(values[kept])) @ w + b, risk.y)
    objective = cp.sum(cp.multiply(risk.weights, losses)) + 0.5 * problem.regularizer.lam * cp.sum_squares(w)
    return cp.Problem(cp.Minimize(objective)).solve("CLARABEL", tol_gap_rel=1e-10, tol_gap_abs=1e-10)

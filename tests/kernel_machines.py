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


class Computed:
    """A matrix whose rows are computed one by one, and counted."""

    def __init__(self, K):
        self.K, self.n, self.calls = K, K.shape[0], 0

    def diagonal(self):
        return self.K.diagonal()

    def row(self, i):
        self.calls += 1
        return self.K[i]


def optimum(problem):
    risk = problem.risk
    return least(risk.gram.matrix(), risk.loss, risk.y, risk.weights, problem.regularizer.lam, risk.intercept)


def least(K, loss, y, costs, lam, intercept):
    """In the coordinates of the eigenvectors, where the norm is that of the coordinates."""
    values, vectors = np.linalg.eigh(K)
    kept = values > 1e-14 * values[-1]
    w, b = cp.Variable(max(1, int(kept.sum()))), cp.Variable() if intercept else 0.0
    predictions = (vectors[:, kept] * np.sqrt(values[kept])) @ w + b if kept.any() else b * np.ones(len(y))
    losses = cp.sum(cp.multiply(costs, loss.cvxpy_form(predictions, y)))
    objective = losses + 0.5 * lam * cp.sum_squares(w)
    return cp.Problem(cp.Minimize(objective)).solve("CLARABEL", tol_gap_rel=1e-10, tol_gap_abs=1e-10)

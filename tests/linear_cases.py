"""Linear risks with every loss, in every layout of the data."""

import cvxpy as cp
import numpy as np
from own_losses import LogCosh, Lopsided, ThreeKnots, targets
from scipy import sparse

from cutplane import LinearRisk
from cutplane.losses import (
    Absolute,
    EpsilonInsensitive,
    Exponential,
    Hinge,
    Huber,
    Logistic,
    ModifiedHuber,
    Poisson,
    Quantile,
    Squared,
    SquaredHinge,
)

CLASSIFICATION = [Hinge(), SquaredHinge(), ModifiedHuber(), Logistic(), Exponential()]
REGRESSION = [Squared(), Absolute(), Quantile(0.8), EpsilonInsensitive(0.3), Huber(0.5), Poisson()]
LOSSES = [*CLASSIFICATION, *REGRESSION, ThreeKnots(), Lopsided(), LogCosh()]
LAYOUTS = {
    "dense": np.ascontiguousarray,
    "float32": lambda X: X.astype(np.float32),
    "csr": sparse.csr_array,
    "csr int64": lambda X: _wide(sparse.csr_array(X)),
}


def _wide(X):
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


def instance(loss, layout="csr", m=40, n=60, seed=0, **options):
    """A risk with a row of zeros, a duplicate row and weights, one of them zero."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, n)) * (rng.random((m, n)) < 0.3)
    X = X.astype(np.float32).astype(np.float64)
    X[0], X[1] = 0.0, X[2]
    y = targets(loss, m, rng)
    weights = rng.random(m)
    weights[3] = 0.0
    return LinearRisk(LAYOUTS[layout](X), y, loss, weights, **options)


def optimum(problem):
    """The optimum by one solve of cvxpy."""
    x = cp.Variable(problem.dim)
    objective = problem.risk.cvxpy_form(x) + problem.active_regularizer.cvxpy_form(x)
    return cp.Problem(cp.Minimize(objective), problem.simple_set.cvxpy_form(x)).solve(solver=cp.CLARABEL)

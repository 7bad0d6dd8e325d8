"""The straightforward loop for multiple kernel learning: scikit-learn's SVC, cvxpy, all kernels in one array.

What one writes in an hour, with the two tricks that matter: only kernels with weight are summed up, and only
support vectors enter the quadratic forms.
"""

from dataclasses import dataclass
from time import process_time

import cvxpy as cp
import numpy as np
from sklearn.svm import SVC

KAPPA = 0.7
NEGLIGIBLE = 1e-4


@dataclass(frozen=True, eq=False)
class Answer:
    """The best weights, the coefficients of their machine, those of all machines, and what it took."""

    weights: np.ndarray
    a: np.ndarray
    answers: np.ndarray
    seconds: float


def model_minimum(cuts):
    """Return the least value of the cutting-plane model over the simplex, and where it is."""
    beta, t = cp.Variable(cuts.shape[1], nonneg=True), cp.Variable()
    value = cp.Problem(cp.Minimize(t), [cuts @ beta <= t, cp.sum(beta) == 1]).solve(solver=cp.HIGHS)
    return value, np.maximum(beta.value, 0.0)


def projection(cuts, centre, level):
    """Return the point of the simplex where the model is at most `level` that is nearest to `centre`."""
    beta = cp.Variable(cuts.shape[1], nonneg=True)
    distance = cp.sum_squares(beta - centre)
    cp.Problem(cp.Minimize(distance), [cuts @ beta <= level, cp.sum(beta) == 1]).solve(solver=cp.CLARABEL)
    return np.maximum(beta.value, 0.0)


def solve(K, y, C, tol, method, cap):
    """Solve for kernels K of shape (n, m, m) by "SILP" or "level", to a relative gap or `cap` seconds."""
    start = process_time()
    n, m = K.shape[:2]
    machine = SVC(C=C, kernel="precomputed", tol=1e-6, cache_size=1000)
    beta, upper, best, cuts, answers = np.full(n, 1.0 / n), np.inf, None, [], []
    while True:
        beta = np.where(beta > NEGLIGIBLE * beta.max(), beta, 0.0)
        beta /= beta.sum()
        chosen = np.flatnonzero(beta)
        kernel = sum(beta[k] * K[k] for k in chosen)
        machine.fit(kernel, y)
        support, values = machine.support_, machine.dual_coef_[0]
        a = np.zeros(m)
        a[support] = values
        forms = np.array([values @ (rows[support] @ a) for rows in K])
        predictions = kernel[:, support] @ values + machine.intercept_
        value = 0.5 * beta @ forms + C * np.maximum(0.0, 1.0 - y * predictions).sum()
        if value < upper:
            upper, best = value, (beta, a)
        cuts.append(np.abs(values).sum() - 0.5 * forms)
        answers.append(a)
        lower, minimiser = model_minimum(np.array(cuts))
        if upper - lower <= tol * upper or process_time() - start > cap:
            return Answer(*best, np.array(answers), process_time() - start)
        if method == "SILP":
            beta = minimiser
        else:
            beta = projection(np.array(cuts), beta, lower + KAPPA * (upper - lower))

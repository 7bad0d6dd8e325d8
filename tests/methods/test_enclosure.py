"""Functions over unbounded sets, without a regularizer or with a norm alone: the bound is proven."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

import cutplane as cut


def smooth_or_not(kind: str, n: int):
    """Return a function with a minimiser, as value and subgradient."""
    rng = np.random.default_rng(n)
    A, b = rng.standard_normal((3 * n, n)), rng.standard_normal(3 * n)

    def squares(x):
        return 0.5 * np.square(A @ x - b).mean(), A.T @ (A @ x - b) / b.size

    def huber(x):
        r = A @ x - b
        return np.where(abs(r) < 1, 0.5 * r * r, abs(r) - 0.5).mean(), A.T @ np.clip(r, -1, 1) / b.size

    def cosines(x):
        z = (A @ x - b) / 3
        return np.cosh(z).mean(), A.T @ np.sinh(z) / (3 * b.size)

    def log_sum_exp(x):
        z = np.append(A @ x + b, -A @ x)
        shares = np.exp(z - z.max())
        slope = A.T @ (shares[: b.size] - shares[b.size :])
        return z.max() + np.log(shares.sum()), slope / shares.sum()

    def absolute(x):
        return np.abs(A @ x - b).mean(), A.T @ np.sign(A @ x - b) / b.size

    def norm(x):
        return np.linalg.norm(A @ x - b), A.T @ (A @ x - b) / np.linalg.norm(A @ x - b)

    def flat(x):
        """Depend on the sum alone: every direction across it is flat."""
        return 1.0 + (x.sum() - 1.0) ** 2, np.full(n, 2.0 * (x.sum() - 1.0))

    return locals()[kind]


KINDS = "squares", "huber", "cosines", "log_sum_exp", "absolute", "norm", "flat"
SETS = {"free": (None, (None, None)), "orthant": (cut.NonnegativeOrthant(), (0.0, None))}


@pytest.mark.parametrize("n", [1, 4, 12])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("over", SETS)
def test_the_bound_is_proven(kind, n, over):
    feasible_set, bounds = SETS[over]
    function = smooth_or_not(kind, n)
    problem = cut.Problem(cut.risk(dim=n)(function), feasible_set=feasible_set)
    result = problem.solve(tol=1e-5)
    assert result.status == "OPTIMAL", result.reason
    assert result.certificate.verify()
    tight = {"ftol": 1e-15, "gtol": 1e-12, "maxiter": 5000}
    known = minimize(
        lambda x: function(x)[0],
        result.x,
        jac=lambda x: function(x)[1],
        method="L-BFGS-B",
        bounds=[bounds] * n,
        options=tight,
    )
    assert result.lower_bound <= known.fun + 1e-13 * abs(known.fun)
    assert result.objective <= known.fun + 1e-5 * abs(known.fun) + 1e-12


NORMS = {
    "l1": lambda n: cut.L1(0.2),
    "groups": lambda n: cut.GroupLasso(np.arange(n) // 3, 0.2),
    "differences": lambda n: cut.L1(0.2) @ np.diff(np.eye(n), axis=0),
    "largest": lambda n: cut.LInf(0.5),
}


@pytest.mark.parametrize("n", [4, 12])
@pytest.mark.parametrize("kind", ["squares", "huber", "absolute", "norm"])
@pytest.mark.parametrize("norm", NORMS)
def test_a_norm_beside_a_function_of_unknown_form(kind, n, norm):
    """Its conjugate is finite on a ball, on whose boundary the multipliers of a solution lie."""
    problem = cut.Problem(cut.risk(dim=n)(smooth_or_not(kind, n)), NORMS[norm](n))
    result = problem.solve(tol=1e-5)
    assert result.status == "OPTIMAL", result.reason
    assert result.certificate.verify()
    whole = cut.Problem(declared(kind, n), NORMS[norm](n)).solve(cut.Direct(), tol=1e-7)
    assert result.lower_bound <= whole.objective
    assert result.objective >= whole.lower_bound


def declared(kind: str, n: int):
    """Return the same function as a cvxpy expression."""
    import cvxpy as cp

    rng = np.random.default_rng(n)
    A, b, x = rng.standard_normal((3 * n, n)), rng.standard_normal(3 * n), cp.Variable(n)
    r = A @ x - b
    forms = {
        "squares": cp.sum_squares(r) / (2 * b.size),
        "huber": cp.sum(cp.huber(r)) / (2 * b.size),
        "absolute": cp.norm1(r) / b.size,
        "norm": cp.norm2(r),
    }
    return cut.CvxpyRisk(forms[kind], x)


def test_units_of_coordinates_differ():
    """Radii follow the curvature of each coordinate."""
    sizes = np.array([1e-2, 1.0, 1e2])

    @cut.risk(dim=3)
    def squares(x):
        return 1.0 + 0.5 * np.square(sizes * x - 1.0).sum(), sizes * (sizes * x - 1.0)

    result = cut.Problem(squares).solve(tol=1e-6)
    assert result.status == "OPTIMAL"
    assert result.objective == pytest.approx(1.0, rel=1e-6)
    assert result.lower_bound <= 1.0


def test_a_function_without_a_minimiser_has_no_proof():
    @cut.risk(dim=2)
    def falls(x):
        far = np.hypot(x[0], 1.0)
        return 1.0 + far - x[0] + x[1] ** 2, np.array([x[0] / far - 1.0, 2.0 * x[1]])

    result = cut.Problem(falls).solve(tol=1e-4, max_iter=500)
    assert result.lower_bound <= 1.0
    assert result.status != "OPTIMAL" or result.objective <= 1.0 + 2e-4


def test_many_coordinates_are_not_enclosed():
    calls = 0

    @cut.risk(dim=1001)
    def squares(x):
        nonlocal calls
        calls += 1
        return 1.0 + np.square(x - 1.0).sum(), 2.0 * (x - 1.0)

    result = cut.Problem(squares).solve(cut.ProximalBundle(), tol=1e-6)
    assert result.status == "STALLED" and "not certified" in result.reason
    assert calls < 100

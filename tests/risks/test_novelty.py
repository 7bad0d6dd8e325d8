import numpy as np
import pytest
from sklearn.svm import OneClassSVM
from vector_risks import LAYOUTS, features, some_zero

from cutplane import L2, Problem
from cutplane.exceptions import InvalidInputError
from cutplane.risks.linear import NoveltyRisk

M, N = 23, 5


def instance(seed=0, m=M, n=N):
    rng = np.random.default_rng(seed)
    return features(rng, m, n), some_zero(rng, m), rng


def free_offset(lam, n=N):
    return L2(lam, weights=np.append(np.ones(n), 0.0))


def shifted(seed=0, m=60, n=N):
    """Data that lie to one side of the origin."""
    return np.random.default_rng(seed).standard_normal((m, n)) + 2.0 / np.arange(1, n + 1)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("nu", [0.1, 1.0])
def test_novelty_risk_is_its_formula(layout, dtype, nu):
    X, sample_weight, rng = instance()
    X = X.astype(dtype)
    A = X.astype(np.float64)
    for weights in (None, sample_weight):
        c = np.ones(M) / M if weights is None else weights / weights.sum()
        f = NoveltyRisk(LAYOUTS[layout](X), nu, weights)
        w, rho = rng.standard_normal(N), 0.3
        short = rho - A @ w
        value, slope = f.oracle(np.append(w, rho))
        assert value == pytest.approx(c @ np.maximum(0.0, short) / nu - rho, rel=1e-12)
        expected = np.append(-A.T @ (c * (short > 0.0)) / nu, (c @ (short > 0.0)) / nu - 1.0)
        np.testing.assert_allclose(slope, expected, atol=1e-13)
        assert f.dim == N + 1 and f.infima.tolist() == [-np.inf]


@pytest.mark.parametrize("nu", [0.1, 0.3, 0.7])
def test_solutions_agree_with_scikit_learn(nu):
    X, lam = shifted(m=100), 0.5
    result = Problem(NoveltyRisk(X, nu), free_offset(lam)).solve(tol=1e-9)
    # scikit-learn minimises 1/2 |w|^2 + sum_i max(0, rho - <w, x_i>) - nu m rho: its w and rho are ours times
    # lam nu m.
    other = OneClassSVM(kernel="linear", nu=nu, tol=1e-10).fit(X)
    np.testing.assert_allclose(lam * nu * 100 * result.x[:-1], other.coef_[0], rtol=2e-4)
    assert lam * nu * 100 * result.x[-1] == pytest.approx(-other.intercept_[0], rel=2e-4)


@pytest.mark.parametrize("nu", [0.1, 0.25, 0.5])
def test_at_most_the_share_nu_is_left_out(nu):
    X = shifted(m=200)
    x = Problem(NoveltyRisk(X, nu), free_offset(1.0)).solve(tol=1e-9).x
    scores = X @ x[:-1]
    assert np.mean(scores < x[-1] - 1e-4) <= nu <= np.mean(scores < x[-1] + 1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.eye(2), 0.0), r"nu must be in \(0, 1\], got 0"),
        ((np.eye(2), 1.5), r"nu must be in \(0, 1\], got 1.5"),
    ],
)
def test_errors(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        NoveltyRisk(*arguments)

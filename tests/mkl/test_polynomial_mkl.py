"""Learning polynomial kernels, against lists of all ordered tuples and against cvxpy."""

import itertools
from collections import Counter

import cvxpy as cp
import numpy as np
import pytest
from covering import covering
from scipy import sparse, stats

import cutplane as cut
from cutplane.mkl.polynomial import FormNorm, GramBases, LinearBases, PolynomialMKL, sample_tuple
from cutplane.mkl.sampling import MirrorSteps, RidgeSystem, TupleWeights
from cutplane.status import Status

RHO = np.array([2.0, 1.0, 0.7, 1.3, 1.1])


def data(r=4, m=12, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, r))
    return X, X[:, 0] * X[:, -1] + 0.5 * X[:, 0] - 0.2 + 0.1 * rng.standard_normal(m)


def bases_of(kind, X, degree):
    return (
        LinearBases(X, degree) if kind == "linear" else GramBases(X.T[:, :, None] * X.T[:, None, :], degree)
    )


def tuples(r, degree):
    return [index for d in range(degree + 1) for index in itertools.product(range(r), repeat=d)]


def forms(X, a, degree, rho):
    """Return a' K_I a / rho_d^2 for every ordered tuple."""
    return np.array(
        [
            (a @ np.prod(X[:, list(index)], axis=1)) ** 2 / rho[len(index)] ** 2
            for index in tuples(X.shape[1], degree)
        ]
    )


@pytest.mark.parametrize(("kind", "m"), [("linear", 3), ("gram", 3), ("linear", 12), ("gram", 20)])
def test_sampled_tuples_have_the_probabilities_of_the_gradient(kind, m):
    X, _ = data(m=m)
    rng = np.random.default_rng(1)
    a, bases, rho, draws = rng.standard_normal(m), bases_of(kind, X, 3), RHO[:4], 4_000
    found = [sample_tuple(a, bases, rho, rng) for _ in range(draws)]
    q = forms(X, a, 3, rho)
    assert found[0][1] == pytest.approx(q.sum(), rel=1e-10)
    counts = Counter(index for index, _ in found)
    expected = draws * q / q.sum()
    observed = np.array([counts[index] for index in tuples(4, 3)])
    assert observed.sum() == draws
    common = expected >= 5
    observed = np.append(observed[common], observed[~common].sum())
    expected = np.append(expected[common], expected[~common].sum())
    kept = expected > 0
    assert stats.chisquare(observed[kept], expected[kept]).pvalue > 1e-3


@pytest.mark.parametrize("sampling", ["importance", "uniform"])
def test_the_estimate_is_unbiased_and_importance_has_the_least_second_moment(sampling):
    X, y = data(r=3, m=15)
    rho, draws = RHO[:3], 8_000
    descent = MirrorSteps(LinearBases(X, 2), y, 2.0, rho, sampling, seed=3)
    a = 2.0 * y
    half = 0.5 * forms(X, a, 2, rho)
    estimates = np.zeros((draws, half.size))
    for row in estimates:
        index, slope, _ = descent.estimate(a)
        row[tuples(3, 2).index(index)] = slope
    error = estimates.std(axis=0) / np.sqrt(draws)
    assert (np.abs(estimates.mean(axis=0) - half) <= 4.5 * error + 1e-12 * half.max()).all()
    moment = (estimates**2).sum(axis=1).mean()
    if sampling == "importance":
        assert moment == pytest.approx(half.sum() ** 2, rel=1e-9)
    else:
        assert moment == pytest.approx(half.size * (half**2).sum(), rel=0.1)
        assert moment > 1.5 * half.sum() ** 2


@pytest.mark.parametrize("kind", ["linear", "gram"])
@pytest.mark.parametrize("degree", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("m", [4, 12, 60])
def test_the_norm_over_all_tuples(kind, degree, m):
    X, _ = data(r=3, m=m)
    a, rho = np.random.default_rng(2).standard_normal(m), RHO[: degree + 1]
    bases, norm = bases_of(kind, X, degree), np.linalg.norm(forms(X, a, degree, rho))
    exact = FormNorm(bases, rho, np.inf)
    assert exact.exact
    assert exact(a) == pytest.approx(norm, rel=1e-10)
    bounds = [FormNorm(bases, rho, work) for work in (0.0, 1e4, 1e5)]
    for bound in bounds:
        assert norm * (1 - 1e-10) <= bound(a) <= forms(X, a, degree, rho).sum() * (1 + 1e-10)
        assert bound.exact == (bound(a) <= norm * (1 + 1e-10))
    assert not bounds[0].exact or degree < 2


@pytest.mark.parametrize("length", [0.3, 30.0])
def test_sparse_weights_are_those_of_all_ordered_tuples(length):
    rng = np.random.default_rng(4)
    known = tuples(3, 3)
    theta, total, mass = np.zeros(len(known)), np.zeros(len(known)), 0.0
    weights = TupleWeights()
    for _ in range(200):
        index, amount, eta = known[rng.integers(len(known))], length * rng.random(), rng.random()
        total += eta * theta
        mass += eta
        weights.record(eta)
        same = [k for k, other in enumerate(known) if sorted(other) == sorted(index)]
        theta[same] += amount / len(same)
        norm = max(1.0, np.linalg.norm(theta))
        theta /= norm
        assert weights.add(index, amount) == pytest.approx(1.0 / norm, rel=1e-12)
    for found, dense in ((weights.current(), theta), (weights.average(), total / mass)):
        for index, weight in zip(weights.indices, found, strict=True):
            same = [k for k, other in enumerate(known) if sorted(other) == sorted(index)]
            assert weight == pytest.approx(dense[same].sum(), abs=1e-12)
        assert found.sum() == pytest.approx(dense.sum(), rel=1e-12)


@pytest.mark.parametrize("rank_one", [True, False])
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e5])
def test_the_ridge_system_follows_its_kernel(rank_one, C):
    rng = np.random.default_rng(5)
    m = 40
    y, kernel, system = rng.standard_normal(m), np.zeros((m, m)), None
    system = RidgeSystem(y, C)
    for _ in range(300):
        v, weight, factor = rng.standard_normal(m), rng.random(), 1.0 - 0.2 * rng.random()
        matrix = np.outer(v, v) * (1.0 if rank_one else np.exp(-(np.subtract.outer(v, v) ** 2)))
        system.add(weight, v if rank_one else matrix)
        system.rescale(factor)
        kernel = factor * (kernel + weight * matrix)
        a, exact = system.solve(), np.linalg.solve(kernel + np.eye(m) / C, y)
        error = a - exact
        assert error @ (kernel @ error + error / C) <= 1e-10 * (y @ exact)
    assert system.n_factorizations < 150 if rank_one else True


def optimum_of(X, y, degree, C, rho):
    """Return the optimum over all ordered tuples by cvxpy: one weight per monomial, l_4/3 norm."""
    indices = tuples(X.shape[1], degree)
    V = np.column_stack([np.prod(X[:, list(index)], axis=1) for index in indices])
    w = cp.Variable(len(indices))
    scaled = cp.multiply(rho[[len(index) for index in indices]], w)
    objective = 0.5 * C * cp.sum_squares(V @ w - y) + 0.5 * cp.square(cp.pnorm(scaled, 4 / 3))
    return cp.Problem(cp.Minimize(objective)).solve(solver="CLARABEL")


@pytest.mark.parametrize(
    ("C", "rho", "kind", "sampling"),
    covering([0.1, 10.0], [None, RHO[:3]], ["linear", "gram"], ["importance", "uniform"]),
)
def test_the_optimum_over_all_ordered_tuples(C, rho, kind, sampling):
    X, y = data(r=3, m=15)
    optimum = optimum_of(X, y, 2, C, np.ones(3) if rho is None else rho)
    result = PolynomialMKL(bases_of(kind, X, 2), y, C=C, rho=rho).solve(4000, sampling=sampling, tol=0.02)
    assert result.status is Status.OPTIMAL, result
    assert result.exact_bound
    assert result.lower_bound <= optimum * (1 + 1e-7)
    assert optimum * (1 - 1e-7) <= result.objective <= optimum * 1.02
    lower, upper = (result.history.column(f"{side}_bound") for side in ("lower", "upper"))
    assert (np.diff(lower) >= 0).all() and (np.diff(upper) <= 0).all()
    theta = np.array([weight for weight in result.weights.values()])
    orders = [len(set(itertools.permutations(index))) for index in result.weights]
    assert (theta > 0).all() and (theta**2 / orders).sum() <= 1 + 1e-12


def test_predictions_are_those_of_the_kernel_and_of_the_polynomial():
    X, y = data(r=4, m=30)
    Z = np.random.default_rng(6).standard_normal((7, 4))
    result = PolynomialMKL(X, y, degree=3, C=5.0, rho=RHO[:4]).solve(200)
    kernel = sum(
        weight
        / RHO[len(index)] ** 2
        * np.outer(np.prod(Z[:, list(index)], axis=1), np.prod(X[:, list(index)], axis=1))
        for index, weight in result.weights.items()
    )
    np.testing.assert_allclose(result.predict(Z), kernel @ result.coefficients, rtol=1e-9, atol=1e-12)
    polynomial = sum(c * np.prod(Z[:, list(index)], axis=1) for index, c in result.polynomial().items())
    np.testing.assert_allclose(result.predict(Z), polynomial, rtol=1e-9, atol=1e-12)
    gram = PolynomialMKL(bases_of("gram", X, 3), y, C=5.0, rho=RHO[:4]).solve(200)
    assert set(gram.weights) == set(result.weights)
    cross = Z.T[:, :, None] * X.T[:, None, :]
    np.testing.assert_allclose(gram.predict(cross), result.predict(Z), rtol=1e-4, atol=1e-6)
    with pytest.raises(cut.InvalidInputError, match="predict"):
        gram.polynomial()


def test_many_products_that_cannot_be_listed():
    rng = np.random.default_rng(7)
    X = rng.uniform(-1, 1, (80, 60))
    y = X[:, 3] * X[:, 5] * X[:, 7] - X[:, 11]
    problem = PolynomialMKL(X, y, degree=8, C=1e3)  # 60^8 tuples
    result = problem.solve(60)
    assert not result.exact_bound and "loose" in repr(result)
    assert 0.0 < result.lower_bound <= result.objective < 0.5 * 1e3 * (y @ y)
    assert problem.solve(0, bound_work=1e3).objective == pytest.approx(0.5 * 1e3 * (y @ y))


@pytest.mark.parametrize("sampling", ["importance", "uniform"])
def test_the_same_seed_gives_the_same_result(sampling):
    X, y = data()
    results = [PolynomialMKL(X, y).solve(100, sampling=sampling, seed=seed, tol=0.0) for seed in (1, 1, 2)]
    assert results[0].weights == results[1].weights != results[2].weights
    assert (results[0].coefficients == results[1].coefficients).all()


@pytest.mark.parametrize("limits", [{"time_limit": 0.05}, {"max_iter": 20}])
def test_limits_return_the_best_so_far(limits):
    X, y = data(m=40)
    result = PolynomialMKL(X, y, C=10.0).solve(**{"max_iter": 10**8, "tol": 0.0} | limits)
    expected = Status.TIME_LIMIT if "time_limit" in limits else Status.MAX_ITER
    assert result.status is expected and str(expected) in repr(result)
    assert result.objective < 5.0 * (y @ y) and result.predict(X).shape == (40,)
    assert expected is Status.TIME_LIMIT or result.n_iter == 20


@pytest.mark.parametrize("y", [np.zeros(3), np.array([1.0, -1.0, 0.0])])
@pytest.mark.parametrize("sampling", ["importance", "uniform"])
def test_nothing_to_learn(y, sampling):
    result = PolynomialMKL(np.zeros((3, 2)), y).solve(50, sampling=sampling)
    assert result.status is Status.OPTIMAL
    assert result.objective == pytest.approx(0.5 * y @ y)
    assert (result.predict(np.ones((4, 2))) == 0.0).all()


@pytest.mark.parametrize("X", [np.ones((1, 1)), np.ones((5, 2), dtype=np.float32), np.eye(3)[:, [0, 0]]])
def test_small_and_degenerate_data(X):
    y = np.arange(1.0, 1.0 + len(X))
    result = PolynomialMKL(X, y, degree=2, C=1e6).solve(500, tol=0.05)
    assert result.lower_bound <= result.objective <= 0.5e6 * (y @ y)
    assert result.gap <= 0.05 or result.status is Status.MAX_ITER


def test_a_constant_variable():
    X, y = data(m=20)
    with_ones = PolynomialMKL(np.column_stack([X, np.ones(20)]), y, degree=2).solve(100)
    result = PolynomialMKL(X, y, degree=2, constant=True).solve(100)
    assert result.weights == with_ones.weights
    np.testing.assert_array_equal(result.predict(X), with_ones.predict(np.column_stack([X, np.ones(20)])))


WRONG = {
    "shape": {"X": np.ones(3)},
    "toarray": {"X": sparse.eye_array(12)},
    "must be finite": {"X": np.full((12, 4), np.nan)},
    "at least one row": {"X": np.ones((0, 4))},
    "numbers": {"X": ["a"]},
    r"\(12,\)": {"y": np.ones(5)},
    "C must be": {"C": 0.0},
    "at least 0": {"degree": -1},
    r"\(4,\)": {"rho": np.ones(2)},
    "positive": {"rho": np.zeros(4)},
}


@pytest.mark.parametrize("words", WRONG)
def test_wrong_input(words):
    X, y = data()
    with pytest.raises(cut.InvalidInputError, match=words):
        PolynomialMKL(**{"X": X, "y": y, "degree": 3} | WRONG[words])


def test_wrong_gram_matrices_and_calls():
    asymmetric = np.array([[[1.0, 2.0], [0.0, 1.0]]])
    for words, matrices in {
        "shape": np.ones((3, 3)),
        "finite": np.full((1, 2, 2), np.inf),
        "symm": asymmetric,
    }.items():
        with pytest.raises(cut.InvalidInputError, match=words):
            GramBases(matrices, 2)
    X, y = data()
    with pytest.raises(cut.InvalidInputError, match="sampling"):
        PolynomialMKL(X, y).solve(sampling="other")
    with pytest.raises(cut.InvalidInputError, match="shape"):
        PolynomialMKL(X, y).solve(2).predict(X[:, :2])
    with pytest.raises(cut.InvalidInputError, match=r"\(4, n, 12\)"):
        PolynomialMKL(bases_of("gram", X, 2), y).solve(2).predict(X)

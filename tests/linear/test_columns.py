"""Columns in other units: means far from zero and sizes far from one another change no answer."""

from __future__ import annotations

import warnings
from dataclasses import replace
from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest
from covering import covering
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import cutplane as cut
from cutplane.estimators import KernelSVC, LinearClassifier, LinearRegressor
from cutplane.risks.columns import Columns, in_units, moments, unusual_units

pytestmark = pytest.mark.every

L = cut.losses
LOSSES = {
    "squared": L.Squared(),
    "huber": L.Huber(),
    "absolute": L.Absolute(),
    "quantile": L.Quantile(0.3),
    "logistic": L.Logistic(),
    "hinge": L.Hinge(),
    "squared_hinge": L.SquaredHinge(),
}
MARGINS = "logistic", "hinge", "squared_hinge"
PENALTIES = {
    "l2": cut.L2(1e-2),
    "l1": cut.L1(1e-2),
    "elastic_net": cut.L1(5e-3) + cut.L2(1e-2),
    "groups": cut.GroupLasso([[0, 1], [2, 3, 4]], 1e-2),
    "none": cut.NoRegularizer(),
}
LAYOUTS = {
    "dense": np.asarray,
    "fortran": np.asfortranarray,
    "csr": sparse.csr_array,
    "csc": sparse.csc_array,
}


def examples(loss, m=200, n=5, seed=1):
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((m, n))
    t = Z @ rng.standard_normal(n) + 0.5 * rng.standard_normal(m)
    return Z, np.sign(t) if loss in MARGINS else t


def penalised(risk, penalty):
    g = PENALTIES[penalty]
    return cut.Problem(risk, g if penalty == "none" else g.on(slice(0, risk.dim - 1)))


@pytest.mark.parametrize(
    ("loss", "penalty", "layout", "mean", "times"),
    covering([*LOSSES], [*PENALTIES], [*LAYOUTS], [1e4, -1e6, 1.6e9], [1.0, 3.0]),
)
def test_a_free_intercept_takes_up_any_mean(loss, penalty, layout, mean, times):
    Z, y = examples(loss)
    X = Z.copy()
    X[:, 1] += mean
    centred = X.copy()
    centred[:, 1] -= mean  # exact, as X is: what is rounded is X itself

    def declared(X):
        risk = cut.LinearRisk(X, y, LOSSES[loss], intercept=True)
        return penalised(risk if times == 1.0 else times * risk, penalty)

    result, known = declared(LAYOUTS[layout](X)).solve(time_limit=20), declared(centred).solve(tol=1e-7)
    assert result.status == "OPTIMAL"
    assert result.lower_bound <= known.objective * (1 + 1e-9)
    assert result.objective >= known.lower_bound * (1 - 1e-9)
    checked = result.certificate.verify()
    assert checked.valid, checked.problems
    w = np.append(result.x[:-1], result.x[-1] + mean * result.x[1])
    assert np.isclose(declared(centred).objective(w), result.objective, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("loss", "penalty", "layout", "size", "mean"),
    covering([*LOSSES], [*PENALTIES], [*LAYOUTS], [1e-6, 1e-3, 1e3, 1e6], [0.0, 1e8]),
)
def test_deviations_of_columns_may_be_of_any_size(loss, penalty, layout, size, mean):
    Z, y = examples(loss)
    X = Z.copy()
    X[:, 1] = size * X[:, 1] + (mean if size >= 1.0 else 0.0)
    result = penalised(cut.LinearRisk(LAYOUTS[layout](X), y, LOSSES[loss], intercept=True), penalty).solve(
        time_limit=20
    )
    assert result.status == "OPTIMAL"
    checked = result.certificate.verify()
    assert checked.valid, checked.problems
    if penalty == "none":
        known = cut.Problem(cut.LinearRisk(Z, y, LOSSES[loss], intercept=True)).solve(tol=1e-6)
        assert np.isclose(result.objective, known.objective, rtol=2e-4)


def test_bounds_and_centres_of_penalties_are_in_the_users_units():
    Z, y = examples("squared")
    X = Z * [1e-6, 1.0, 1.0, 1e5, 1.0]
    X[:, 2] += 1e5
    box = cut.Box([-1e5, -np.inf, 0.0, -np.inf, -0.1, -np.inf], [1e5, 0.2, np.inf, 1e-6, 0.1, np.inf])
    g = cut.L2(0.1, centre=[1.0, 1.0, 1.0, 1e-5, 0.0, 0.0], weights=[0, 1, 1, 1e8, 1, 0])
    result = cut.Problem(cut.LinearRisk(X, y, L.Squared(), intercept=True), g, box).solve(tol=1e-8)
    scaled = X - np.where(np.arange(5) == 2, 1e5, 0.0)
    d = np.array([1e6, 1.0, 1.0, 1e-5, 1.0])
    u, b = cp.Variable(5), cp.Variable()
    value = cp.sum_squares((scaled * d) @ u + b - y) / 400
    roots, centre = np.array([0, 1, 1, 1e4, 1]), np.array([1.0, 1.0, 1.0, 1e-5, 0.0])
    value += 0.05 * cp.sum_squares(cp.multiply(roots * d, u) - roots * centre)
    low, high = (np.array(side)[:-1] / d for side in (box.lower, box.upper))
    inside = [u[j] >= low[j] for j in (0, 2, 4)] + [u[j] <= high[j] for j in (0, 1, 3, 4)]
    theirs = cp.Problem(cp.Minimize(value), inside)
    theirs.solve(solver="CLARABEL")
    assert result.status == "OPTIMAL" and np.isclose(result.objective, theirs.value, rtol=1e-6)
    assert (result.x >= box.lower).all() and (result.x <= box.upper).all()


def test_the_bound_holds_for_the_data_as_given_in_exact_arithmetic():
    """By the optimum of least squares without a penalty, in rationals."""
    rng = np.random.default_rng(3)
    x = 1.6e9 + 0.3 * rng.standard_normal(40)
    y = 0.7 * (x - 1.6e9) + rng.standard_normal(40)
    risk = cut.LinearRisk(x[:, np.newaxis], y, L.Squared(), intercept=True)
    result = cut.Problem(risk).solve(tol=1e-6)
    xs, ys = [Fraction(v) for v in x.tolist()], [Fraction(v) for v in y.tolist()]
    mx, my = sum(xs) / 40, sum(ys) / 40
    slope = sum((a - mx) * (b - my) for a, b in zip(xs, ys, strict=True)) / sum((a - mx) ** 2 for a in xs)
    optimum = sum((slope * (a - mx) + my - b) ** 2 for a, b in zip(xs, ys, strict=True)) / 80
    w, b = map(Fraction, result.x.tolist())
    value = sum((w * a + b - t) ** 2 for a, t in zip(xs, ys, strict=True)) / 80
    assert result.status == "OPTIMAL"
    assert Fraction(result.lower_bound) <= optimum * (1 + Fraction(1, 10**12))
    assert abs(float(value) - result.objective) <= 1e-12 * result.objective


def test_certificates_are_kept_forgeries_are_found():
    Z, y = examples("hinge")
    problem = penalised(cut.LinearRisk(Z + 1e6, y, L.Hinge(), intercept=True), "l1")
    certificate = problem.solve(tol=1e-6).certificate
    assert certificate.verify().valid and certificate.x.shape == certificate.slopes.shape[1:]
    higher = replace(certificate, lower_bound=1.01 * certificate.upper_bound)
    lower = replace(certificate, upper_bound=0.99 * certificate.lower_bound)
    elsewhere = replace(certificate, x=1.01 * certificate.x)
    other = penalised(cut.LinearRisk(Z + 1e6, -y, L.Hinge(), intercept=True), "l1")
    assert not any(forged.verify().valid for forged in (higher, lower, elsewhere))
    assert not certificate.verify(other).valid


def test_results_are_saved_loaded_and_continued(tmp_path):
    Z, y = examples("squared")
    risk = cut.LinearRisk(Z + np.array([0, 1.6e9, 0, 0, 1e5]), y, L.Squared(), intercept=True)
    problem = penalised(risk, "l1")
    result = problem.solve(tol=1e-7)
    loaded = cut.load(result.save(tmp_path / "run"), problem)
    assert loaded.certificate.verify().valid
    assert cut.load(tmp_path / "run.npz").certificate.verify(problem).valid
    assert all(problem.solve(tol=1e-7, warm_start=known).n_iter == 0 for known in (result, loaded))
    biased = cut.Problem(risk, cut.L2(1e-2))
    first = biased.solve(max_iter=1, warm_start=result)  # other variables: from the same point
    assert first.objective <= biased.objective(result.x) * (1 + 1e-6)
    assert problem.solve(tol=1e-7, warm_start=first).status == "OPTIMAL"
    path = problem.path([1.0, 0.1, 0.01])
    assert [one.status for one in path] == ["OPTIMAL"] * 3


def test_steps_and_callbacks_see_the_users_variables():
    Z, y = examples("logistic")
    problem = penalised(cut.LinearRisk(Z + 1e4, y, L.Logistic(), intercept=True), "l2")
    seen = []
    result = problem.solve(tol=1e-6, callback=lambda state: seen.append(state.x))
    steps = [step.x for step in problem.iterate(tol=1e-6)]
    assert np.array_equal(seen[-1], result.x) and np.array_equal(steps[-1], result.x)
    again = problem.solve(tol=1e-6, x0=result.x, max_iter=1)
    assert again.objective <= result.objective * (1 + 1e-9)


def test_an_intercept_too_large_for_the_tolerance_is_said():
    Z, y = examples("absolute")
    X = Z.copy()
    X[:, 0] += 2.0**52
    X = np.unique(X, axis=0)
    y = np.where(X[:, 0] > 2.0**52, 1.0, 0.0) + 0.3 * y[: len(X)]
    problem = penalised(cut.LinearRisk(X, y, L.Absolute(), intercept=True), "l1")
    result = problem.solve(tol=1e-9, time_limit=10)
    assert result.status == "OPTIMAL" if result.gap <= 1e-9 else "intercept" in result.reason


def unusual(X):
    return unusual_units(Columns(*moments(X), intercept=True), True, True)


@pytest.mark.parametrize("layout", [*LAYOUTS])
def test_usual_columns_stay_as_they_are(layout):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 8)) * [1, 2, 5, 10, 1, 0.1, 1, 1] + [0, 1, 10, -30, 0, 0.3, 0, 1]
    X[:, 6] = 0.0
    assert unusual(LAYOUTS[layout](X)) is None
    risk = cut.LinearRisk(LAYOUTS[layout](X), X[:, 0], L.Squared(), intercept=True)
    assert penalised(risk, "l2").solve().certificate.standard is None


@pytest.mark.parametrize("layout", [*LAYOUTS])
def test_centred_columns_are_exact_and_sparse_ones_stay_sparse(layout):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((500, 20)) < 0.1, rng.standard_normal((500, 20)), 0.0)
    X[:, 3], X[:, 7], X[:, 9] = 1e6 + rng.standard_normal(500), 0.1, 1e5 * X[:, 9]
    A = LAYOUTS[layout](X)
    centre, size = unusual(A)
    assert np.flatnonzero(centre).tolist() == [3, 7] and centre[7] == 0.1
    got = in_units(A, centre, size)
    dense = got.toarray() if sparse.issparse(got) else got
    assert np.array_equal(dense, (X - centre) / size)
    assert np.array_equal(2.0 ** np.rint(np.log2(size)), size)
    assert not sparse.issparse(got) or got.nnz <= A.nnz


def test_single_precision_data_are_centred_in_double():
    rng = np.random.default_rng(0)
    X = (1e4 + rng.standard_normal((100, 3))).astype(np.float32)
    found = in_units(X, np.full(3, 1e4 + 0.1), np.ones(3))
    assert found.dtype == np.float64 and np.array_equal(found, X.astype(np.float64) - (1e4 + 0.1))


def test_estimators_need_no_scaler():
    Z, y = examples("hinge")
    X = Z * [1e-6, 1, 1e6, 1, 1] + [0, 1.6e9, 0, 1e4, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = LinearClassifier("logistic", penalty="l1", alpha=1e-9).fit(X, y)
        LinearRegressor("squared", penalty="l1", alpha=1e-3).fit(X, Z[:, 1])
    assert model.score(X, y) > 0.8


@pytest.mark.parametrize(
    "model", [LinearClassifier("hinge", time_limit=1e-9, tol=1e-12), KernelSVC(time_limit=1e-9)]
)
def test_a_warning_names_the_column_in_other_units(model):
    Z, y = examples("hinge")
    X = Z.copy()
    X[:, 3] += 1.6e9
    with pytest.warns(ConvergenceWarning, match=r"Column 3 .* mean 1.6e\+09 .* deviation 1.0"):
        model.fit(X, y)
    with pytest.warns(ConvergenceWarning) as found:
        model.fit(Z, y)
    assert not any("Column" in str(one.message) for one in found)


STATED = {
    "expression": lambda A, b, x: cut.CvxpyRisk(1e4 * cp.sum_squares(A @ x - b), x),
    "multiple": lambda A, b, x: 2e4 * cut.LinearRisk(A, b, L.Squared(), normalize=False),
    "weights": lambda A, b, x: cut.LinearRisk(A, b, L.Squared(), np.full(len(b), 2e4), normalize=False),
}


@pytest.mark.parametrize("stated", [*STATED])
@pytest.mark.parametrize("penalty", ["none", "l1", "l2", "box"])
@pytest.mark.parametrize("largest", [1e4, 1e6])
def test_sizes_of_columns_do_not_matter_however_a_risk_is_stated(stated, penalty, largest):
    rng = np.random.default_rng(0)
    sizes = np.geomspace(1e-6, largest, 6)
    A = rng.standard_normal((100, 6)) * sizes
    b = A @ (rng.standard_normal(6) / sizes) + 0.1 * rng.standard_normal(100)
    g = {"l1": cut.L1(0.1), "l2": cut.L2(0.1)}.get(penalty, cut.NoRegularizer())
    inside = cut.Box(-1.0, 1.0) if penalty == "box" else None
    risk = STATED[stated](A, b, cp.Variable(6))
    result = cut.Problem(risk, g, inside).solve(time_limit=20)
    assert result.status == "OPTIMAL" and result.certificate.verify().valid
    u = cp.Variable(6)
    terms = {"l1": 0.1 * cp.norm1(u / sizes), "l2": 0.05 * cp.sum_squares(u / sizes)}
    objective = cp.sum_squares((A / sizes) @ u - b) + 1e-4 * terms.get(penalty, 0.0)
    theirs = cp.Problem(cp.Minimize(objective), [cp.abs(u) <= sizes] if penalty == "box" else [])
    theirs.solve(solver="CLARABEL")
    assert np.isclose(result.objective, 1e4 * theirs.value, rtol=1e-3)


def test_a_model_of_cvxpy_with_columns_of_any_size_is_solved():
    rng = np.random.default_rng(0)
    sizes = np.geomspace(1e-6, 1e4, 6)
    A = rng.standard_normal((100, 6)) * sizes
    b = A @ (rng.standard_normal(6) / sizes) + 0.1 * rng.standard_normal(100)
    x = cp.Variable(6)
    result = cut.from_cvxpy(cp.Problem(cp.Minimize(1e4 * cp.sum_squares(A @ x - b)))).solve()
    least = np.linalg.lstsq(A / sizes, b)[1][0]
    assert result.status == "OPTIMAL" and np.isclose(result.objective, 1e4 * least, rtol=1e-4)
    assert np.allclose(x.value, result.x)


def test_rare_entries_of_sparse_data_have_no_units():
    rng = np.random.default_rng(0)
    X = sparse.random_array((2000, 5000), density=0.002, rng=rng, format="csr")
    assert unusual(X) is None and unusual(X.tocsc()) is None

"""The estimators of multiple kernel learning: scikit-learn's contract, and the problem that they say."""

import pickle

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils import shuffle

from cutplane.estimators import MKLClassifier, MKLClassifierCV, MKLRegressor, PolynomialMKLRegressor
from cutplane.kernels import Gaussian, KernelBank, Linear, Polynomial
from cutplane.losses import EpsilonInsensitive, Hinge, Quantile, Squared, SquaredHinge
from cutplane.mkl import MKL, SmoothMKL

IRIS = load_iris()
X3, Y3 = IRIS.data, IRIS.target_names[IRIS.target]
X2, Y2 = X3[50:], Y3[50:]
XR, YR = (array[:120] for array in load_diabetes(return_X_y=True))
XR, YR = StandardScaler().fit_transform(XR), (YR - YR.mean()) / YR.std()
KERNELS = [Linear(), Gaussian(0.5), Gaussian(2.0, features=(2, 3)), Polynomial(2, features=3)]
SMALL = [Linear(), Gaussian(1.0)]


@pytest.mark.parametrize(
    ("options", "loss"),
    [
        ({}, Hinge()),
        ({"loss": "squared_hinge", "norm": 2.0}, SquaredHinge()),
        ({"norm": np.inf, "fit_intercept": False}, Hinge()),
        ({"entropy": 0.1, "C": 3.0}, Hinge()),
        ({"entropy": 0.1, "fit_intercept": False, "method": SmoothMKL()}, Hinge()),
        ({"loss": Squared(), "normalize": ("center", "trace")}, Squared()),
    ],
    ids=str,
)
def test_a_classifier_is_the_problem_that_it_says(options, loss):
    model = MKLClassifier(KERNELS, tol=1e-4, **options).fit(X2, Y2)
    bank = KernelBank(KERNELS, X2, normalize=options.get("normalize", "trace"))
    direct = MKL(
        bank,
        np.where(Y2 == "virginica", 1.0, -1.0),
        options.get("C", 1.0),
        loss,
        options.get("norm", 1.0),
        entropy=options.get("entropy", 0.0),
        intercept=options.get("fit_intercept", True),
    ).solve(tol=1e-4)
    assert model.lower_bound_ <= direct.objective and direct.lower_bound <= model.objective_
    assert model.gap_ <= 1e-4 and model.result_.certificate.verify().valid
    scores = model.decision_function(X2)
    kernel = bank.weighted_sum(model.weights_)
    np.testing.assert_allclose(scores, kernel @ model.dual_coef_ + model.intercept_, atol=1e-8)
    np.testing.assert_allclose(scores, direct.predict(X2), atol=0.05 * np.abs(scores).max())
    assert (model.predict(X2) == np.where(scores > 0.0, "virginica", "versicolor")).all()
    assert model.kernel_names_.tolist() == list(bank.names)


@pytest.mark.parametrize(
    ("options", "loss"),
    [
        ({}, EpsilonInsensitive(0.1)),
        ({"epsilon": 0.5, "norm": 2.0}, EpsilonInsensitive(0.5)),
        ({"loss": "squared", "entropy": 1.0}, Squared()),
        ({"loss": Quantile(0.8)}, Quantile(0.8)),
    ],
    ids=str,
)
def test_a_regressor_is_the_problem_that_it_says(options, loss):
    model = MKLRegressor(KERNELS, tol=1e-4, **options).fit(XR, YR)
    bank = KernelBank(KERNELS, XR, normalize="trace")
    norm, entropy = options.get("norm", 1.0), options.get("entropy", 0.0)
    direct = MKL(bank, YR, 1.0, loss, norm, entropy=entropy).solve(tol=1e-4)
    assert model.lower_bound_ <= direct.objective and direct.lower_bound <= model.objective_
    kernel = bank.weighted_sum(model.weights_)
    np.testing.assert_allclose(model.predict(XR), kernel @ model.dual_coef_ + model.intercept_, atol=1e-8)


def test_one_kernel_is_a_support_vector_machine():
    model = MKLClassifier(Gaussian(0.5), normalize=None, tol=1e-7, C=2.0).fit(X2, Y2)
    machine = SVC(C=2.0, gamma=2.0, tol=1e-8).fit(X2, Y2)
    assert model.weights_.tolist() == [1.0]
    np.testing.assert_allclose(model.decision_function(X2), machine.decision_function(X2), atol=2e-3)


def test_named_banks_are_of_standardised_features():
    X = X2 * [1e3, 1.0, 1e-3, 7.0] + [5.0, -1e3, 0.0, 2.0]
    Z = StandardScaler().fit_transform(X2)
    for name, count in {"default": 8, "single-feature": 52}.items():
        model = MKLClassifier(name, tol=1e-4).fit(X, Y2)
        assert model.weights_.shape == (count,)
        kernels = model.results_[0].mkl.bank.kernels
        direct = MKLClassifier(kernels, tol=1e-4).fit(Z, Y2)
        assert model.objective_ == pytest.approx(direct.objective_, rel=2e-4)
        assert abs(model.score(X, Y2) - direct.score(Z, Y2)) <= 0.02


def test_single_features_that_matter_are_named():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 6))
    model = MKLRegressor("single-feature", C=10.0).fit(X, np.sin(2.0 * X[:, 1]) + X[:, 4] ** 2)
    chosen = model.kernel_names_[model.selected_kernels_]
    assert {name.split()[-1] for name in chosen[:2]} == {"1", "4"}
    assert (np.diff(model.weights_[model.selected_kernels_]) <= 0.0).all()
    assert np.count_nonzero(model.weights_) == len(chosen) < 30


def test_digits_one_against_the_rest():
    X, y = shuffle(*load_digits(n_class=6, return_X_y=True), random_state=0)
    train, test = slice(0, 200), slice(200, 600)
    model = MKLClassifier(C=10.0, tol=1e-2).fit(X[train], y[train])
    assert model.weights_.shape == (6, 8) and model.dual_coef_.shape == (6, 200)
    assert model.intercept_.shape == (6,) and len(model.results_) == 6
    assert len({id(result.mkl.bank) for result in model.results_}) == 1
    assert model.objective_ == pytest.approx(sum(result.objective for result in model.results_))
    assert model.gap_ == max(result.gap for result in model.results_) <= 1e-2
    assert model.score(X[test], y[test]) > 0.9
    one = MKLClassifier(C=10.0, tol=1e-2).fit(X[train], y[train] == 3)
    assert one.objective_ == pytest.approx(model.results_[3].objective, rel=2e-2)
    np.testing.assert_array_equal(model.predict(X[test]), model.decision_function(X[test]).argmax(axis=1))
    with pytest.raises(AttributeError, match="results_"):
        model.result_  # noqa: B018


def test_only_kernels_with_weight_are_evaluated(monkeypatch):
    X, y = (array[:200] for array in load_breast_cancer(return_X_y=True))
    model = MKLClassifier("single-feature", C=1.0).fit(X, y)
    seen = []
    for kind in (Gaussian, Polynomial):
        evaluate = kind.evaluate
        monkeypatch.setattr(
            kind, "evaluate", lambda self, A, B, known=evaluate: seen.append(self.name) or known(self, A, B)
        )
    scores = model.decision_function(X[:50])
    chosen = set(model.kernel_names_[model.selected_kernels_])
    assert set(seen) == chosen and len(chosen) < 100
    np.testing.assert_allclose(scores, model.result_.predict(model._scaler.transform(X[:50])))
    assert pickle.loads(pickle.dumps(model))._bank.n_kernels == len(chosen)


def test_constant_features_and_targets():
    X = np.column_stack([X2, np.full(len(X2), 3.0)])
    assert MKLClassifier("single-feature").fit(X, Y2).score(X, Y2) > 0.9
    for norm in (1.0, 2.0):
        flat = MKLRegressor(loss="squared", norm=norm).fit(XR, np.full(len(XR), 2.5))
        assert flat.objective_ == flat.gap_ == 0.0 and not flat.dual_coef_.any()
        np.testing.assert_allclose(flat.predict(XR[:3]), 2.5)


def test_each_fold_has_one_bank_and_reuses_its_cuts(monkeypatch):
    banks, starts = [], []
    solve = MKL.solve

    def watched(self, *arguments, **options):
        banks.append(id(self.bank))
        starts.append(options["warm_start"])
        return solve(self, *arguments, **options)

    monkeypatch.setattr(MKL, "solve", watched)
    MKLClassifierCV(KERNELS, Cs=[0.1, 1.0, 10.0], cv=KFold(2, shuffle=True, random_state=0)).fit(X2, Y2)
    assert len(banks) == 2 * 3 + 1 and len(set(banks)) == 3
    assert [start is None for start in starts] == [True, False, False] * 2 + [True]


def test_a_polynomial_is_found():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (150, 8))
    y = X[:, 0] * X[:, 3] * X[:, 5] - 0.5 * X[:, 1] ** 2
    model = PolynomialMKLRegressor(C=1e4, max_iter=500, tol=0.9, random_state=0).fit(X[:100], y[:100])
    assert model.score(X[100:], y[100:]) > 0.95
    largest = sorted(model.polynomial_, key=lambda index: -abs(model.polynomial_[index]))[:2]
    assert set(largest) == {(0, 3, 5), (1, 1)}
    np.testing.assert_allclose(model.predict(X), model.result_.predict(X), atol=1e-8)

"""The estimators keep scikit-learn's contract, and their own promises: memory, warm starts, errors."""

import numpy as np
import pytest
from covering import covering
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.preprocessing import StandardScaler

import cutplane as cut
from cutplane.estimators import (
    LinearClassifier,
    LinearClassifierCV,
    LinearRegressor,
    LinearRegressorCV,
    LinearSVC,
    LinearSVR,
)
from cutplane.estimators.formulation import make_risk, shape_of, starting_point
from cutplane.losses import Hinge, Logistic, Quantile, Softmax, Squared
from cutplane.problem import Problem
from cutplane.tracking.methods import PathTracking

IRIS = load_iris()
X3, Y3 = StandardScaler().fit_transform(IRIS.data), IRIS.target_names[IRIS.target]
X2, Y2 = X3[Y3 != "setosa"], Y3[Y3 != "setosa"]
XR, YR = (array[:150] for array in load_diabetes(return_X_y=True))
XR = StandardScaler().fit_transform(XR)


@pytest.mark.parametrize("loss", ["logistic", "softmax", Logistic()])
@pytest.mark.parametrize(("X", "y"), [(X2, Y2), (X3, Y3)], ids=["binary", "3 classes"])
def test_probabilities(loss, X, y):
    model = LinearClassifier(loss, alpha=1e-3).fit(X, y)
    found = model.predict_proba(X)
    assert found.shape == (len(X), len(model.classes_)) and np.allclose(found.sum(axis=1), 1.0)
    assert np.allclose(np.exp(model.predict_log_proba(X)), found)
    assert (model.classes_[found.argmax(axis=1)] == model.predict(X)).all()
    scores = model.decision_function(X)
    if loss == "softmax" and scores.ndim == 2:
        shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    else:
        shares = 1.0 / (1.0 + np.exp(-np.atleast_2d(scores.T).T))
        shares = np.hstack([1.0 - shares, shares]) if scores.ndim == 1 else shares
        shares /= shares.sum(axis=1, keepdims=True)
    assert np.allclose(found, shares)


def test_probabilities_only_where_they_mean_something():
    assert not hasattr(LinearClassifier("hinge"), "predict_proba")
    with pytest.raises(AttributeError, match="predict_proba") as error:
        LinearClassifier("hinge").fit(X2, Y2).predict_proba  # noqa: B018
    assert "has probabilities only with a loss with log_probability, such as" in str(error.value.__cause__)


def test_poisson_predicts_means():
    rng = np.random.default_rng(0)
    counts = rng.poisson(np.exp(XR @ np.full(10, 0.1)))
    model = LinearRegressor("poisson", alpha=1e-6, tol=1e-6).fit(XR, counts)
    assert np.isclose(model.predict(XR).mean(), counts.mean(), rtol=1e-3)


@pytest.mark.parametrize(
    ("model", "X", "y", "scoring"),
    [
        (LinearClassifierCV("squared_hinge", alphas=[1.0, 1e-2], cv=3), X3, Y3, "accuracy"),
        (LinearRegressorCV("huber", alphas=[1.0, 1e-2], cv=3), XR, YR, "r2"),
    ],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_default_scores_are_those_of_the_scorer(model, X, y, scoring, weighted):
    weights = np.random.default_rng(0).uniform(0.1, 2.0, len(y)) if weighted else None
    wanted = clone(model).set_params(scoring=scoring).fit(X, y, sample_weight=weights).scores_
    np.testing.assert_allclose(clone(model).fit(X, y, sample_weight=weights).scores_, wanted, rtol=1e-12)


def test_cross_validation_weighs_the_scores():
    half = np.arange(150) % 2
    weighted = LinearRegressorCV(alphas=[1.0, 0.1], cv=[(np.arange(100), np.arange(100, 150))])
    weighted.fit(XR, YR, sample_weight=half)
    odd = np.flatnonzero(half)
    alone = clone(weighted).set_params(cv=[(np.arange(50), np.arange(50, 75))]).fit(XR[odd], YR[odd])
    assert np.allclose(weighted.scores_, alone.scores_, atol=1e-2)


LASSO = {"penalty": "l1", "alphas": [1.0, 0.1, 0.01, 1e-3], "cv": 3, "tol": 1e-6}


@pytest.mark.parametrize(
    ("model", "X", "y"),
    [
        (LinearRegressorCV(**LASSO), XR, YR),
        (LinearRegressorCV(**LASSO, regularize_intercept=True), XR, YR),
        (LinearRegressorCV("huber", **LASSO), XR[:60], YR[:60] / 50.0),
        (LinearClassifierCV("squared_hinge", **LASSO), X3[:60], Y3[:60]),
        pytest.param(LinearClassifierCV("squared_hinge", **LASSO), X3, Y3, marks=pytest.mark.slow),
    ],
)
def test_exact_paths_score_as_solves_from_weight_to_weight(model, X, y, monkeypatch):
    exact = clone(model).fit(X, y)
    monkeypatch.setattr(PathTracking, "turns", lambda *_: 0)
    solved = clone(model).fit(X, y)
    assert exact.scores_ == pytest.approx(solved.scores_, abs=1e-3)
    assert exact.alpha_ == solved.alpha_
    assert exact.objective_ == pytest.approx(solved.objective_, rel=1e-5)
    assert exact.gap_ <= model.tol
    assert all(result.certificate.verify() for result in exact.results_)


def test_an_exact_path_that_is_lost_or_not_exact_enough_is_left(monkeypatch):
    wanted = LinearRegressorCV(**LASSO).fit(XR, YR).scores_
    ended, follow = [], Problem.path

    def path(self, lams, exact=False, **options):
        ended.append(exact)
        return follow(self, lams, exact=exact, **options | ({"max_iter": 0} if exact else {}))

    monkeypatch.setattr(Problem, "path", path)
    assert LinearRegressorCV(**LASSO).fit(XR, YR).scores_ == pytest.approx(wanted, abs=1e-3)
    assert ended == [True] * 4  # once in each fold and in the final fit


def test_exact_paths_are_left_after_what_solves_should_cost(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 10)), rng.standard_normal(300)
    tracking, lasso = PathTracking(), cut.Problem(cut.LinearRisk(X, y, cut.losses.Squared()), cut.L1(0.1))
    assert 0 < tracking.turns(lasso, 5) < tracking.turns(lasso, 25)
    for g in (cut.L2(0.1), cut.L1(0.1) + cut.L2(0.1)):
        assert not tracking.turns(cut.Problem(lasso.risk, g), 25)
    assert not tracking.turns(cut.Problem(lasso.risk, cut.L1(0.1), cut.Box(-1, 1)), 25)
    assert not tracking.turns(cut.Problem(cut.OracleRisk(lambda x: (0.0, x), 2), cut.L1(0.1)), 25)
    many = LinearRegressorCV("huber", penalty="l1", alphas=[1.0, 1e-3], cv=2)
    wanted = clone(many).fit(X, 10.0 * y)
    monkeypatch.setattr(PathTracking, "turns", lambda *_: 1)
    assert clone(many).fit(X, 10.0 * y).scores_ == pytest.approx(wanted.scores_, abs=1e-3)


@pytest.mark.parametrize(
    ("layout", "dtype", "loss"),
    covering(
        [np.asarray, np.asfortranarray, sparse.csr_matrix, sparse.csc_array],
        [np.float32, np.float64],
        ["hinge", "softmax"],
    ),
)
def test_data_are_taken_as_they_are(layout, dtype, loss):
    X = layout(X3.astype(dtype))
    model = LinearClassifier(loss, alpha=1e-2, tol=1e-6).fit(X, Y3)
    used = model.results_[0].certificate.problem.risk.X
    assert used.dtype == dtype
    if sparse.issparse(X):
        assert used.format == X.format and np.shares_memory(used.data, X.data)
    else:
        assert np.shares_memory(used, X)
    assert model.coef_.dtype == np.float64


MODELS = {
    "svc": LinearSVC(tol=1e-6),
    "svc, joint": LinearSVC(multi_class="crammer_singer", tol=1e-6),
    "svc, balanced": LinearSVC(class_weight="balanced", tol=1e-6),
    "svc, by class": LinearSVC(class_weight={"setosa": 3.0, "virginica": 0.5}, tol=1e-6),
    "svr": LinearSVR(epsilon=10.0, tol=1e-6),
    "classifier": LinearClassifier("logistic", "l1", alpha=1e-2, tol=1e-6),
    "classifier, joint": LinearClassifier("softmax", alpha=1e-2, tol=1e-6, class_weight="balanced"),
    "regressor": LinearRegressor("huber", "elasticnet", alpha=1.0, tol=1e-6),
}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
def test_weights_are_repetitions(model):
    X, y = (XR, YR) if isinstance(model, LinearSVR | LinearRegressor) else (X3, Y3)
    times = np.random.default_rng(0).integers(0, 4, len(X))
    weighted = clone(model).fit(X, y, sample_weight=times)
    repeated = clone(model).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    assert np.isclose(weighted.objective_, repeated.objective_, rtol=3e-6)


def test_equal_weights_are_none():
    fits = [LinearSVC().fit(X3, Y3, sample_weight=weight) for weight in (1.0, None)]
    assert np.isclose(fits[0].objective_, fits[1].objective_)


@pytest.mark.parametrize("multi_class", ["ovr", "crammer_singer"])
def test_balanced_classes_have_one_total_weight(multi_class):
    X, y = X3[:120], Y3[:120]
    model = LinearSVC(multi_class=multi_class, tol=1e-7)
    balanced = clone(model).set_params(class_weight="balanced").fit(X, y)
    share = np.where(y == "virginica", 120 / (3 * 20), 120 / (3 * 50))
    assert np.isclose(balanced.objective_, model.fit(X, y, share).objective_, rtol=3e-7)


@pytest.mark.parametrize("penalty", ["l2", "l1"])
def test_a_warm_start_begins_at_the_last_solution(penalty):
    model = LinearSVC(C=1.0, tol=1e-6, penalty=penalty, warm_start=True).fit(X2, Y2)
    cold = clone(model).set_params(C=2.0).fit(X2, Y2)
    model.set_params(C=2.0).fit(X2, Y2)
    assert model.results_[0].history[0].upper_bound < cold.results_[0].history[0].upper_bound
    assert np.isclose(model.objective_, cold.objective_, rtol=3e-6)


@pytest.mark.parametrize("change", ["data", "in place", "labels", "weights", "loss", "bias"])
def test_a_warm_start_with_another_risk_starts_from_the_solution(change):
    X = X2.copy()
    model = LinearSVC(tol=1e-6, warm_start=True).fit(X, Y2)
    other, y, weights = X, Y2, None
    if change == "data":
        other = X2[::2] + 0.1
        y = Y2[::2]
    elif change == "in place":
        X *= 0.5
    elif change == "labels":
        y = np.roll(Y2, 3)
    elif change == "weights":
        weights = np.linspace(0.5, 1.5, len(X))
    else:
        model.set_params(**({"loss": "squared_hinge"} if change == "loss" else {"fit_intercept": False}))
    model.fit(other, y, sample_weight=weights)
    cold = clone(model).fit(other, y, sample_weight=weights)
    if change in ("data", "in place", "weights"):
        assert model.results_[0].history[0].upper_bound < cold.results_[0].history[0].upper_bound
    assert model.results_[0].certificate.verify().valid
    assert np.isclose(model.objective_, cold.objective_, rtol=3e-6)


@pytest.mark.parametrize(
    ("y", "loss"),
    [(np.repeat([-1.0, 1.0], 75), Hinge()), (YR, Squared()), (IRIS.target, Softmax())],
    ids=["balanced", "centred", "joint"],
)
def test_the_first_cut_is_not_flat_in_the_biases(y, loss):
    risk = make_risk(X3, y - y.mean() if loss == Squared() else y, loss, None, True)
    slope = risk.oracle(starting_point(risk))[1].reshape(shape_of(risk))
    assert np.abs(slope[:, -1]).max() > 0.2


def test_quantiles_enclose_their_share():
    for tau in (0.1, 0.9):
        model = LinearRegressor(Quantile(tau), alpha=1e-4).fit(XR, YR)
        assert abs((YR <= model.predict(XR)).mean() - tau) < 0.05

"""The estimators keep scikit-learn's contract, and their own promises: memory, warm starts, errors."""

import inspect
import pickle
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from covering import covering
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import cutplane as cut
from cutplane import estimators
from cutplane.estimators import (
    KernelLogisticRegression,
    KernelNuSVC,
    KernelNuSVR,
    KernelOneClass,
    KernelSVC,
    KernelSVR,
    LinearClassifier,
    LinearClassifierCV,
    LinearRanker,
    LinearRegressor,
    LinearRegressorCV,
    LinearSVC,
    LinearSVR,
    MeasureClassifier,
)
from cutplane.exceptions import InvalidInputError
from cutplane.losses import Huber, Logistic, Quantile
from cutplane.problem import Problem
from cutplane.regularizers import L1, L2
from cutplane.tracking.methods import PathTracking

IRIS = load_iris()
X3, Y3 = StandardScaler().fit_transform(IRIS.data), IRIS.target_names[IRIS.target]
X2, Y2 = X3[Y3 != "setosa"], Y3[Y3 != "setosa"]
XR, YR = (array[:150] for array in load_diabetes(return_X_y=True))
XR = StandardScaler().fit_transform(XR)

REASON = (
    "Weights and repetitions make the same problem, but its solutions agree up to the certified gap, not to "
    "1e-7; test_weights_are_repetitions compares objectives."
)
EQUIVALENCE = {f"check_sample_weight_equivalence_on_{kind}_data": REASON for kind in ("dense", "sparse")}
CHECKED = {LinearSVC(): EQUIVALENCE}
VARIANTS = {
    LinearSVR(): {},
    LinearClassifier("softmax"): EQUIVALENCE,
    LinearRegressor(): {},
    LinearSVC(multi_class="crammer_singer", tol=1e-6): {},
    LinearClassifierCV("hinge", alphas=[0.1], cv=2, tol=1e-2): {
        "check_sample_weight_equivalence_on_sparse_data": REASON
    },
    LinearRegressorCV("absolute", alphas=[0.1], cv=2, tol=1e-9): {},
    LinearRanker(): {},
    MeasureClassifier(): {},
    KernelSVC(): EQUIVALENCE,
    KernelSVC(multi_class="ovo", n_basis=20): EQUIVALENCE,
    KernelSVR(): EQUIVALENCE,
    KernelLogisticRegression(): EQUIVALENCE,
    KernelNuSVC(0.05): EQUIVALENCE
    | {"check_class_weight_classifiers": "Weights leave a class no share of nu."},
    KernelNuSVR(): EQUIVALENCE,
    KernelOneClass(): EQUIVALENCE,
}


@pytest.mark.parametrize("name", estimators.__all__)
def test_every_parameter_is_documented_once_in_the_order_of_the_signature(name):
    kind = getattr(estimators, name)
    sections = re.split(r"^(\w+)\n-+\n", inspect.cleandoc(kind.__doc__), flags=re.MULTILINE)
    documented = re.findall(r"^(\w+) :", sections[sections.index("Parameters") + 1], flags=re.MULTILINE)
    assert documented == list(inspect.signature(kind).parameters)
    assert sections[1::2][:2] == ["Parameters", "Attributes"] and sections[-2] == "Examples"


@pytest.mark.parametrize("name", estimators.__all__)
def test_every_argument_and_result_of_fit_and_predict_is_documented(name):
    for method in (getattr(estimators, name).fit, getattr(estimators, name).predict):
        parts = re.split(r"^(\w+)\n-+\n", inspect.cleandoc(method.__doc__), flags=re.MULTILINE)
        sections = dict(zip(parts[1::2], parts[2::2], strict=True))
        described = re.findall(r"^\**(\w+)(?: :|$)", sections["Parameters"], flags=re.MULTILINE)
        assert described == list(inspect.signature(method).parameters)[1:]
        assert "Returns" in sections and ("Raises" in sections or method.__name__ == "predict")


def expected_failures(estimator):
    every = CHECKED | VARIANTS
    return next(reasons for other, reasons in every.items() if repr(other) == repr(estimator))


@parametrize_with_checks(list(CHECKED), expected_failed_checks=expected_failures, xfail_strict=False)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@parametrize_with_checks(list(VARIANTS), legacy=False)
def test_scikit_learn_interface(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(list(VARIANTS), expected_failed_checks=expected_failures)
def test_scikit_learn_contract_of_variants(estimator, check):
    check(estimator)


def test_only_estimators_need_scikit_learn():
    code = """if True:
        import sys
        sys.modules["sklearn"] = None
        import cutplane
        try:
            import cutplane.estimators
        except cutplane.MissingExtraError as error:
            print(error)
    """
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout == 'sklearn is not installed; install it with: pip install "cutplane[sklearn]"\n'


# Predictions


@pytest.mark.parametrize("loss", ["hinge", "logistic", "softmax", "multiclass_hinge"])
@pytest.mark.parametrize(("X", "y"), [(X2, Y2), (X3, Y3)], ids=["binary", "3 classes"])
def test_labels_are_strings(loss, X, y):
    model = LinearClassifier(loss, alpha=1e-3).fit(X, y)
    rows = 1 if len(model.classes_) == 2 else 3
    assert model.classes_.tolist() == sorted(set(y))
    assert model.coef_.shape == (rows, 4) and model.intercept_.shape == (rows,)
    assert model.decision_function(X).shape == ((len(X),) if rows == 1 else (len(X), 3))
    assert model.score(X, y) > 0.93


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
    assert "gives probabilities with a loss that has a log_probability, such as" in str(error.value.__cause__)


def test_poisson_predicts_means():
    rng = np.random.default_rng(0)
    counts = rng.poisson(np.exp(XR @ np.full(10, 0.1)))
    model = LinearRegressor("poisson", alpha=1e-6, tol=1e-6).fit(XR, counts)
    assert np.isclose(model.predict(XR).mean(), counts.mean(), rtol=1e-3)


# Inside scikit-learn


def test_grid_search_over_objects_and_names():
    pipeline = make_pipeline(StandardScaler(), LinearClassifier(alpha=1e-2))
    grid = {
        "linearclassifier__loss": ["hinge", "logistic"],
        "linearclassifier__penalty": ["l2", L1(0.5)],
    }
    search = GridSearchCV(pipeline, grid, cv=2).fit(IRIS.data, Y3)
    assert search.best_score_ > 0.93
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_cross_validation_is_a_grid_search_along_paths():
    alphas = [1e-3, 1e-1, 1e1]
    model = LinearClassifierCV("logistic", alphas=alphas, cv=3, scoring="neg_log_loss", tol=1e-6).fit(X3, Y3)
    search = GridSearchCV(
        LinearClassifier("logistic", tol=1e-6), {"alpha": alphas[::-1]}, cv=3, scoring="neg_log_loss"
    ).fit(X3, Y3)
    folds = np.array([search.cv_results_[f"split{fold}_test_score"] for fold in range(3)]).T
    assert model.alphas_.tolist() == alphas[::-1] and model.alpha_ == search.best_params_["alpha"]
    assert np.allclose(model.scores_, folds, atol=1e-3)
    assert np.isclose(model.objective_, search.best_estimator_.objective_, rtol=2e-6)
    assert all(result.certificate.verify().valid for result in model.results_)
    assert log_loss(Y3, model.predict_proba(X3)) < 0.3


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
    "model", [LinearSVC(), LinearSVR(), LinearClassifierCV("softmax", alphas=[0.1, 0.01], cv=2)]
)
def test_pickles_without_the_training_data(model):
    X, y = (XR, YR) if isinstance(model, LinearSVR) else (X3, Y3)
    X = np.repeat(X, 20, axis=0)
    model = clone(model).fit(X, np.repeat(y, 20))
    assert model.results_[0].certificate.problem.risk.X is X
    kept = pickle.dumps(model)
    assert len(kept) < 0.1 * X.nbytes
    again = pickle.loads(kept)
    assert (again.predict(X) == model.predict(X)).all() and again.objective_ == model.objective_
    assert not hasattr(again, "results_") and hasattr(model, "results_")


def test_column_names():
    frame = pd.DataFrame(X3, columns=IRIS.feature_names)
    model = LinearSVC().fit(frame, Y3)
    assert model.feature_names_in_.tolist() == IRIS.feature_names
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[IRIS.feature_names[::-1]])


# Data


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
    reference = LinearClassifier(loss, alpha=1e-2, tol=1e-6).fit(X3, Y3)
    assert np.isclose(model.objective_, reference.objective_, rtol=3e-6)
    assert model.coef_.dtype == np.float64
    assert np.allclose(model.decision_function(X), X3 @ model.coef_.T + model.intercept_, atol=1e-5)


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
def test_class_weights_are_weights(multi_class):
    each = {"setosa": 3.0, "versicolor": 1.0, "virginica": 0.5}
    model = LinearSVC(multi_class=multi_class, tol=1e-7)
    by_class = clone(model).set_params(class_weight=each).fit(X3, Y3)
    by_example = clone(model).fit(X3, Y3, sample_weight=[each[label] for label in Y3])
    assert np.array_equal(by_class.coef_, by_example.coef_)
    uneven = np.arange(120)
    balanced = clone(model).set_params(class_weight="balanced").fit(X3[uneven], Y3[uneven])
    share = np.select([Y3[uneven] == "virginica"], [120 / (3 * 20)], 120 / (3 * 50))
    assert np.isclose(
        balanced.objective_, clone(model).fit(X3[uneven], Y3[uneven], share).objective_, rtol=3e-7
    )


# The solver


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
    assert model.results_[0].certificate.verify().valid
    assert np.isclose(model.objective_, cold.objective_, rtol=3e-6)


def test_fits_are_reproducible():
    first, second = (LinearClassifier("logistic", alpha=1e-2).fit(X3, Y3) for _ in range(2))
    assert np.array_equal(first.coef_, second.coef_) and first.lower_bound_ == second.lower_bound_


@pytest.mark.parametrize(
    ("limit", "remedy"), [({"max_iter": 1}, "Raise max_iter"), ({"time_limit": 1e-9}, "Raise time_limit")]
)
def test_an_open_gap_is_a_warning(limit, remedy):
    with pytest.warns(ConvergenceWarning, match=remedy):
        model = LinearSVR(C=10.0, tol=1e-6, **limit).fit(XR, YR)
    assert model.gap_ > 1e-6 and model.lower_bound_ <= model.objective_


def test_an_interrupt_ends_the_fit(monkeypatch):
    def interrupt(self, x):
        raise KeyboardInterrupt

    model = LinearSVC()
    risk = type(model._declare(X2, Y2, None)[0].risk)
    calls = []

    def image(self, x, real=risk.image):
        calls.append(x)
        return real(self, x) if len(calls) < 2 else interrupt(self, x)

    monkeypatch.setattr(risk, "image", image)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X2, Y2)
    assert not hasattr(model, "coef_")


def test_a_line_per_iteration(capsys):
    LinearSVC(verbose=1).fit(X2, Y2)
    assert "lower" in capsys.readouterr().out


ERRORS = {
    "one class": (LinearSVC(), X2, ["a"] * 100, "needs at least 2 classes in y, got 1 class: .*'a'"),
    "C": (LinearSVC(C=0.0), X2, Y2, r"C must be in \(0, inf\), got 0"),
    "alpha": (LinearClassifier(alpha=-1.0), X2, Y2, r"alpha must be in \(0, inf\), got -1"),
    "loss name": (LinearClassifier("hinges"), X2, Y2, "loss must be one of .*'hinge'.* got 'hinges'"),
    "loss class": (LinearRegressor(Huber), XR, YR, r"did you mean Huber\(\)\?"),
    "vector loss": (LinearRegressor("softmax"), XR, YR, "loss must be one of"),
    "svc loss": (LinearSVC(loss="logistic"), X2, Y2, r"loss must be one of \['hinge', 'squared_hinge'\]"),
    "joint squares": (LinearSVC(loss="squared_hinge", multi_class="crammer_singer"), X2, Y2, "loss='hinge'"),
    "multi_class": (LinearSVC(multi_class="ovo"), X2, Y2, "multi_class must be one of"),
    "penalty": (LinearClassifier(penalty="l3"), X2, Y2, "penalty must be one of .* got 'l3'"),
    "svr penalty": (LinearSVR(penalty="elasticnet"), XR, YR, "penalty must be one of"),
    "epsilon": (LinearSVR(epsilon=-1.0), XR, YR, "epsilon must be in"),
    "l1_ratio": (LinearRegressor(penalty="elasticnet", l1_ratio=2.0), XR, YR, "l1_ratio must be in"),
    "penalty dimension": (LinearRegressor(penalty=L2(weights=np.ones(3))), XR, YR, "L2.weights has shape"),
    "real classes": (LinearSVC(), XR, YR + 0.5, "Unknown label type"),
    "class_weight": (LinearSVC(class_weight="even"), X2, Y2, "class_weight"),
    "counts": (LinearRegressor("poisson"), XR, -YR, "Poisson needs counts y >= 0"),
    "alphas": (LinearRegressorCV(alphas=[0.1, 0.0]), XR, YR, "alphas must be positive"),
    "no alphas": (LinearRegressorCV(alphas=[]), XR, YR, "alphas is empty"),
}


@pytest.mark.parametrize(("model", "X", "y", "message"), ERRORS.values(), ids=ERRORS.keys())
def test_errors(model, X, y, message):
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)


@pytest.mark.parametrize("weights", [-np.ones(100), np.ones(99), np.zeros(100), np.full(100, np.nan), -1.0])
def test_wrong_weights(weights):
    with pytest.raises(InvalidInputError, match="sample_weight"):
        LinearSVC().fit(X2, Y2, sample_weight=weights)


def test_quantiles_enclose_their_share():
    for tau in (0.1, 0.9):
        model = LinearRegressor(Quantile(tau), alpha=1e-4).fit(XR, YR)
        assert abs((YR <= model.predict(XR)).mean() - tau) < 0.05

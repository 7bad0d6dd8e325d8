"""The fitted objectives against scikit-learn's own solvers, and one solve of the whole problem by cvxpy."""

import cvxpy as cp
import numpy as np
import pytest
from covering import covering
from scipy import sparse
from sklearn import linear_model, svm
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.preprocessing import StandardScaler

from cutplane.estimators import LinearClassifier, LinearRegressor, LinearSVC, LinearSVR
from cutplane.losses import (
    Absolute,
    Exponential,
    Hinge,
    Huber,
    ModifiedHuber,
    MulticlassHinge,
    Quantile,
    SquaredEpsilonInsensitive,
)
from cutplane.regularizers import L1, L2, CvxpyRegularizer, ElasticNet, SquaredGroupNorm

TOL = 1e-6
LAYOUTS = {"dense": np.asarray, "csr": sparse.csr_array, "csc": sparse.csc_array}


def standardised(load, rows=slice(None), columns=slice(None)):
    X, y = load(return_X_y=True)
    return StandardScaler().fit_transform(X)[rows, columns], y[rows]


TWO = standardised(load_breast_cancer, slice(0, 200), slice(0, 8))
THREE = standardised(load_iris)
REAL = standardised(load_diabetes, slice(0, 120))
COUNTS = REAL[0], np.floor(REAL[1] / 25.0)

# The losses and norms once more, in plain numpy.

PLAIN = {
    "hinge": lambda t, y: np.maximum(0.0, 1.0 - y * t),
    "squared_hinge": lambda t, y: np.maximum(0.0, 1.0 - y * t) ** 2,
    "logistic": lambda t, y: np.logaddexp(0.0, -y * t),
    "squared": lambda t, y: 0.5 * (t - y) ** 2,
    "absolute": lambda t, y: np.abs(t - y),
    "quantile": lambda t, y: 0.5 * np.abs(t - y),
    "epsilon_insensitive": lambda t, y: np.maximum(0.0, np.abs(t - y) - 5.0),
    "squared_epsilon_insensitive": lambda t, y: np.maximum(0.0, np.abs(t - y) - 5.0) ** 2,
    "poisson": lambda t, y: np.exp(t) - y * t,
}
JOINT = {
    "multiclass_hinge": lambda s, k: (s + 1.0 - np.eye(s.shape[1])[k]).max(axis=1) - s[np.arange(len(k)), k],
    "softmax": lambda s, k: np.log(np.exp(s).sum(axis=1)) - s[np.arange(len(k)), k],
}
NORMS = {
    "l2": lambda w: 0.5 * np.sum(w**2),
    "l1": lambda w: np.sum(np.abs(w)),
    "elasticnet": lambda w: 0.3 * np.sum(np.abs(w)) + 0.35 * np.sum(w**2),
}


def objective(X, y, coef, intercept, loss, penalty, C=1.0, alpha=1.0, biased=False):
    """alpha Omega(w) + C times the sum of the losses; `biased` if Omega includes the intercept."""
    coef = np.atleast_2d(coef)
    intercept = np.broadcast_to(intercept, len(coef))
    scores = X @ coef.T + intercept
    labels = np.unique(y, return_inverse=True)[1]
    if loss in JOINT:
        total = JOINT[loss](scores, labels).sum()
    elif loss in ("hinge", "squared_hinge", "logistic"):
        classes = (1,) if len(coef) == 1 else range(len(coef))
        signs = np.column_stack([np.where(labels == k, 1.0, -1.0) for k in classes])
        total = PLAIN[loss](scores, signs).sum()
    else:
        total = PLAIN[loss](scores[:, 0], y).sum()
    whole = np.column_stack([coef, intercept]) if biased else coef
    return alpha * NORMS[penalty](whole) + C * total


def agree(model, other, X, y, rtol=1e-4, **problem):
    """Check the fitted objective, that the other solution is no better than certified, and close."""
    own = objective(X, y, model.coef_, model.intercept_, **problem)
    theirs = objective(X, y, other.coef_, other.intercept_, **problem)
    assert model.gap_ <= TOL
    assert np.isclose(model.objective_, own, rtol=1e-9)
    assert model.lower_bound_ <= theirs + 1e-10 * abs(theirs)
    assert own <= theirs + TOL * abs(theirs)
    assert theirs <= own + rtol * abs(own), "the other solver is not accurate enough to compare with"


each_layout = pytest.mark.parametrize("layout", LAYOUTS)
each_bias = pytest.mark.parametrize("bias", ["regularized bias", "no bias"])


@pytest.mark.parametrize(
    ("losses", "layout", "bias", "classes"),
    covering(
        [("hinge", "l2"), ("squared_hinge", "l2"), ("squared_hinge", "l1")],
        LAYOUTS,
        ["regularized bias", "no bias"],
        [2, 3],
    ),
    ids=str,
)
def test_svc_is_liblinear(losses, layout, bias, classes):
    (loss, penalty), (X, y) = losses, TWO if classes == 2 else THREE
    options = {"loss": loss, "penalty": penalty, "C": 0.5, "fit_intercept": bias != "no bias"}
    model = LinearSVC(**options, regularize_intercept=True, tol=TOL).fit(LAYOUTS[layout](X), y)
    other = svm.LinearSVC(**options, dual=penalty == "l2", tol=1e-9, max_iter=1_000_000).fit(X, y)
    agree(model, other, X, y, loss=loss, penalty=penalty, C=0.5, biased=True)


@each_layout
@pytest.mark.parametrize("data", [TWO, THREE], ids=["binary", "3 classes"])
def test_svc_with_unregularized_bias_is_libsvm(data, layout):
    X, y = data
    for k in np.unique(y)[1:]:  # one class against the rest is what libsvm solves as a binary problem
        target = y == k
        model = LinearSVC(C=0.5, tol=TOL).fit(LAYOUTS[layout](X), target)
        other = svm.SVC(kernel="linear", C=0.5, tol=1e-8).fit(X, target)
        agree(model, other, X, target, loss="hinge", penalty="l2", C=0.5)


@each_bias
def test_joint_svc_is_crammer_singer(bias):
    X, y = THREE
    options = {"C": 0.5, "multi_class": "crammer_singer", "fit_intercept": bias != "no bias"}
    model = LinearSVC(**options, regularize_intercept=True, tol=TOL).fit(X, y)
    other = svm.LinearSVC(**options, tol=1e-9, max_iter=1_000_000).fit(X, y)
    agree(model, other, X, y, loss="multiclass_hinge", penalty="l2", C=0.5, biased=True)


def test_class_weights_and_sample_weights_are_liblinears():
    X, y = TWO
    weights = np.random.default_rng(0).uniform(0.0, 2.0, len(X))
    options = {"C": 0.5, "loss": "hinge", "class_weight": {0: 3.0, 1: 0.5}}
    model = LinearSVC(**options, regularize_intercept=True, tol=TOL).fit(X, y, sample_weight=weights)
    other = svm.LinearSVC(**options, tol=1e-9, max_iter=1_000_000).fit(X, y, sample_weight=weights)
    each = weights * np.where(y == 0, 3.0, 0.5)
    theirs = 0.5 * (np.sum(other.coef_**2) + other.intercept_[0] ** 2)
    theirs += 0.5 * each @ PLAIN["hinge"](other.decision_function(X), 2.0 * y - 1.0)
    assert model.lower_bound_ <= theirs * (1.0 + 1e-10)
    assert np.isclose(model.objective_, theirs, rtol=1e-5)


@each_layout
@each_bias
@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_svr_is_liblinear(loss, bias, layout):
    X, y = REAL
    options = {"loss": loss, "C": 0.05, "epsilon": 5.0, "fit_intercept": bias != "no bias"}
    model = LinearSVR(**options, regularize_intercept=True, tol=TOL).fit(LAYOUTS[layout](X), y)
    other = svm.LinearSVR(**options, dual=True, tol=1e-9, max_iter=1_000_000).fit(X, y)
    agree(model, other, X, y, loss=loss, penalty="l2", C=0.05, biased=True)


@each_layout
def test_svr_with_unregularized_bias_is_libsvm(layout):
    X, y = REAL
    model = LinearSVR(C=0.5, epsilon=5.0, tol=TOL).fit(LAYOUTS[layout](X), y)
    other = svm.SVR(kernel="linear", C=0.5, epsilon=5.0, tol=1e-8).fit(X, y)
    agree(model, other, X, y, loss="epsilon_insensitive", penalty="l2", C=0.5)


LOGISTIC = {
    "l2, bias": ("l2", {}, True, False),
    "l2": ("l2", {}, False, False),
    "l1, regularized bias": ("l1", {"solver": "liblinear", "l1_ratio": 1.0}, True, True),
    "l1, bias": ("l1", {"solver": "saga", "l1_ratio": 1.0}, True, False),
    "elastic net, bias": ("elasticnet", {"solver": "saga", "l1_ratio": 0.3}, True, False),
}


@pytest.mark.parametrize(
    ("name", "layout"), [(name, [*LAYOUTS][k % len(LAYOUTS)]) for k, name in enumerate(LOGISTIC)]
)
def test_logistic_regression(name, layout):
    penalty, solver, bias, biased = LOGISTIC[name]
    X, y = TWO
    model = LinearClassifier(
        "logistic",
        penalty,
        alpha=0.02,
        l1_ratio=0.3,
        fit_intercept=bias,
        regularize_intercept=biased,
        tol=TOL,
    ).fit(LAYOUTS[layout](X), y)
    options = {"solver": "lbfgs", **solver}
    other = linear_model.LogisticRegression(
        C=1.0 / (0.02 * len(X)), fit_intercept=bias, tol=1e-9, max_iter=100_000, **options
    ).fit(X, y)
    scale = {"C": 1.0 / len(X), "alpha": 0.02}
    agree(model, other, X, y, loss="logistic", penalty=penalty, biased=biased, **scale)


@pytest.mark.parametrize("bias", [True, False])
def test_softmax_is_multinomial_logistic_regression(bias):
    X, y = THREE
    model = LinearClassifier("softmax", alpha=0.02, fit_intercept=bias, tol=TOL).fit(X, y)
    other = linear_model.LogisticRegression(C=1.0 / (0.02 * len(X)), fit_intercept=bias, tol=1e-10).fit(X, y)
    theirs = objective(X, y, other.coef_, other.intercept_, "softmax", "l2", 1.0 / len(X), 0.02)
    assert model.lower_bound_ <= theirs * (1.0 + 1e-12)
    assert np.isclose(model.objective_, theirs, rtol=2e-6)


REGRESSIONS = {
    "ridge": ("squared", "l2", 0.1, REAL, lambda bias, m: linear_model.Ridge(0.1 * m, fit_intercept=bias)),
    "lasso": (
        "squared",
        "l1",
        1.0,
        REAL,
        lambda bias, m: linear_model.Lasso(1.0, fit_intercept=bias, tol=1e-12, max_iter=100_000),
    ),
    "elastic net": (
        "squared",
        "elasticnet",
        1.0,
        REAL,
        lambda bias, m: linear_model.ElasticNet(1.0, l1_ratio=0.3, fit_intercept=bias, tol=1e-12),
    ),
    "quantile": ("quantile", "l1", 0.05, REAL, lambda bias, m: linear_model.QuantileRegressor(alpha=0.05)),
    "poisson": (
        "poisson",
        "l2",
        0.1,
        COUNTS,
        lambda bias, m: linear_model.PoissonRegressor(alpha=0.1, fit_intercept=bias, tol=1e-10),
    ),
}


@pytest.mark.parametrize(("name", "layout", "bias"), covering(REGRESSIONS, LAYOUTS, [True, False]), ids=str)
def test_regressions(name, layout, bias):
    loss, penalty, alpha, (X, y), build = REGRESSIONS[name]
    model = LinearRegressor(loss, penalty, alpha, l1_ratio=0.3, fit_intercept=bias, tol=TOL).fit(
        LAYOUTS[layout](X), y
    )
    other = build(bias, len(X)).set_params(fit_intercept=bias).fit(X, y)
    agree(model, other, X, y, loss=loss, penalty=penalty, C=1.0 / len(X), alpha=alpha)


# What scikit-learn does not have, against cvxpy.

W = cp.Variable(8)
SIGNS = np.where(TWO[1] == 1, 1.0, -1.0)
PENALTIES = {
    "l2": ("l2", lambda w: 0.5 * cp.sum_squares(w)),
    "l1": ("l1", cp.norm1),
    "elasticnet": ("elasticnet", lambda w: 0.3 * cp.norm1(w) + 0.35 * cp.sum_squares(w)),
    "weights": (L1(2.0, weights=np.arange(8.0)), lambda w: 2.0 * cp.norm1(cp.multiply(np.arange(8.0), w))),
    "centre": (L2(3.0, centre=np.ones(8)), lambda w: 1.5 * cp.sum_squares(w - 1.0)),
    "groups": (
        SquaredGroupNorm([[0, 1, 2], [3, 4, 5, 6, 7]], p=1.0),
        lambda w: 0.5 * cp.square(cp.norm2(w[:3]) + cp.norm2(w[3:])),
    ),
    "cvxpy": (
        CvxpyRegularizer(cp.norm_inf(W) + cp.sum_squares(W), W),
        lambda w: cp.norm_inf(w) + cp.sum_squares(w),
    ),
    "object": (ElasticNet(0.5, 0.9), lambda w: 0.5 * (0.9 * cp.norm1(w) + 0.05 * cp.sum_squares(w))),
}


def whole_problem(X, y, loss, omega, alpha, bias):
    w, b = cp.Variable(X.shape[1]), cp.Variable()
    scores = X @ w + (b if bias else 0.0)
    whole = cp.Problem(cp.Minimize(cp.sum(loss.cvxpy_form(scores, y)) / len(y) + alpha * omega(w)))
    return whole.solve(solver=cp.CLARABEL)


@pytest.mark.parametrize(
    ("name", "loss", "bias"),
    covering(PENALTIES, [Hinge(), ModifiedHuber(), Exponential()], [True, False]),
    ids=str,
)
def test_any_penalty(name, loss, bias):
    (penalty, omega), (X, y) = PENALTIES[name], TWO
    model = LinearClassifier(loss, penalty, 0.05, l1_ratio=0.3, fit_intercept=bias, tol=TOL).fit(X, y)
    optimum = whole_problem(X, SIGNS, loss, omega, 0.05, bias)
    assert model.lower_bound_ <= optimum * (1.0 + 1e-7)
    assert np.isclose(model.objective_, optimum, rtol=2e-6)
    assert all(result.certificate.verify().valid for result in model.results_)


@pytest.mark.parametrize(
    "loss", [Absolute(), Huber(20.0), Quantile(0.8), SquaredEpsilonInsensitive(10.0)], ids=repr
)
@pytest.mark.parametrize("penalty", ["l2", "l1", "elasticnet"])
def test_any_loss(loss, penalty):
    X, y = REAL
    model = LinearRegressor(loss, penalty, 0.5, l1_ratio=0.3, tol=TOL).fit(X, y)
    optimum = whole_problem(X, y, loss, PENALTIES[penalty][1], 0.5, True)
    assert np.isclose(model.objective_, optimum, rtol=2e-6)


@pytest.mark.parametrize(
    ("loss", "penalty", "bias"),
    covering(
        ["multiclass_hinge", "softmax", MulticlassHinge(5.0 * (1.0 - np.eye(3)))],
        ["l2", "l1", "elasticnet", L2(1.0)],
        [True, False],
    ),
)
def test_joint_problems(loss, penalty, bias):
    X, y = THREE
    model = LinearClassifier(loss, penalty, 0.05, l1_ratio=0.3, fit_intercept=bias, tol=TOL).fit(X, y)
    risk = model.results_[0].certificate.problem.risk
    W, b = cp.Variable((3, 4)), cp.Variable((1, 3))
    scores = X @ W.T + (np.ones((len(X), 1)) @ b if bias else 0.0)
    omega = PENALTIES[penalty if isinstance(penalty, str) else "l2"][1]
    whole = cp.sum(risk.loss.cvxpy_form(scores, y)) / len(y) + 0.05 * omega(cp.vec(W, order="C"))
    optimum = cp.Problem(cp.Minimize(whole)).solve(solver=cp.CLARABEL)
    assert np.isclose(model.objective_, optimum, rtol=2e-6)


@pytest.mark.parametrize("y", [TWO[1], np.where(TWO[1] == 1, "yes", "no")], ids=["numbers", "strings"])
def test_two_classes_of_a_joint_problem_are_one_row(y):
    X = TWO[0]
    model = LinearClassifier("softmax", alpha=0.05, tol=TOL).fit(X, y)
    halved = LinearClassifier("logistic", alpha=0.025, tol=TOL).fit(X, y)  # W = (-w/2, w/2) costs half of w
    assert model.coef_.shape == (1, 8)
    assert np.isclose(model.objective_, halved.objective_, rtol=2e-6)
    assert np.allclose(model.coef_, halved.coef_, atol=5e-3)

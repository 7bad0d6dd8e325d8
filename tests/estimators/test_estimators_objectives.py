"""The fitted objectives of the linear estimators against one solve of the whole problem by cvxpy."""

import cvxpy as cp
import numpy as np
import pytest
from covering import covering
from scipy import sparse
from sklearn import linear_model, svm
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.preprocessing import StandardScaler

from cutplane.estimators import LinearClassifier, LinearRegressor, LinearSVC, LinearSVR
from cutplane.losses import Exponential, Huber, ModifiedHuber, MulticlassHinge, Quantile
from cutplane.regularizers import L1, L2, CvxpyRegularizer, ElasticNet, SquaredGroupNorm

TOL = 1e-6
LAYOUTS = {"dense": np.asarray, "csr": sparse.csr_array, "csc": sparse.csc_array}


def standardised(load, rows=slice(None), columns=slice(None)):
    X, y = load(return_X_y=True)
    return StandardScaler().fit_transform(X)[rows, columns], y[rows]


TWO = standardised(load_breast_cancer, slice(0, 200), slice(0, 8))
THREE = standardised(load_iris)
REAL = standardised(load_diabetes, slice(0, 120), slice(0, 8))
WEIGHTS = np.random.default_rng(0).uniform(0.0, 2.0, 200)

# The losses, joint losses and penalties once more, in cvxpy.

FORMS = {
    "hinge": lambda t, y: cp.pos(1.0 - cp.multiply(y, t)),
    "squared_hinge": lambda t, y: cp.square(cp.pos(1.0 - cp.multiply(y, t))),
    "logistic": lambda t, y: cp.logistic(-cp.multiply(y, t)),
    "squared": lambda t, y: 0.5 * cp.square(t - y),
    "absolute": lambda t, y: cp.abs(t - y),
    "quantile": lambda t, y: 0.5 * cp.abs(t - y),
    "huber": lambda t, y: 0.5 * cp.huber(t - y),
    "epsilon_insensitive": lambda t, y: cp.pos(cp.abs(t - y) - 0.1),
    "squared_epsilon_insensitive": lambda t, y: cp.square(cp.pos(cp.abs(t - y) - 0.1)),
    "poisson": lambda t, y: cp.exp(t) - cp.multiply(y, t),
}
OBJECTS = {loss: loss.cvxpy_form for loss in (ModifiedHuber(), Exponential(), Huber(20.0), Quantile(0.8))}
W = cp.Variable(8)
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


def whole(X, y, form, omega, alpha=1.0, C=1.0, bias="free", weights=1.0):
    """Return the optimum of alpha Omega(w) + C times the weighted sum of the losses."""
    w, b = cp.Variable(X.shape[1]), cp.Variable()
    losses = cp.sum(cp.multiply(np.broadcast_to(weights, len(y)), form(X @ w + (b if bias else 0.0), y)))
    vector = cp.hstack([w, b]) if bias == "regularized" else w
    return cp.Problem(cp.Minimize(C * losses + alpha * omega(vector))).solve(cp.CLARABEL)


def agrees(model, optimum):
    assert model.gap_ <= TOL and model.lower_bound_ <= optimum * (1.0 + 1e-7)
    assert model.objective_ == pytest.approx(optimum, rel=2e-6)
    assert all(result.certificate.verify().valid for result in model.results_)


BIASES = ["free", "regularized", ""]


def options_of(bias):
    return {"fit_intercept": bool(bias), "regularize_intercept": bias == "regularized", "tol": TOL}


@pytest.mark.parametrize(
    ("loss", "penalty", "layout", "bias", "classes", "weighted"),
    covering(["hinge", "squared_hinge"], ["l2", "l1"], LAYOUTS, BIASES, [2, 3], [False, True]),
    ids=str,
)
def test_svc(loss, penalty, layout, bias, classes, weighted):
    X, y = TWO if classes == 2 else THREE
    given = WEIGHTS[: len(y)] if weighted else None
    each = {0: 3.0, 1: 0.5} if weighted else None
    model = LinearSVC(C=0.5, loss=loss, penalty=penalty, class_weight=each, **options_of(bias))
    model.fit(LAYOUTS[layout](X), y, sample_weight=given)
    weights = given * np.select([y == 0, y == 1], [3.0, 0.5], 1.0) if weighted else 1.0
    signs = [np.where(y == k, 1.0, -1.0) for k in ([1] if classes == 2 else range(3))]
    omega, shared = PENALTIES[penalty][1], {"C": 0.5, "bias": bias, "weights": weights}
    agrees(model, sum(whole(X, sign, FORMS[loss], omega, **shared) for sign in signs))


@pytest.mark.parametrize(
    ("loss", "penalty", "layout", "bias"),
    covering(["epsilon_insensitive", "squared_epsilon_insensitive"], ["l2", "l1"], LAYOUTS, BIASES),
    ids=str,
)
def test_svr(loss, penalty, layout, bias):
    X, y = REAL
    model = LinearSVR(0.05, epsilon=0.1, loss=loss, penalty=penalty, **options_of(bias)).fit(
        LAYOUTS[layout](X), y
    )
    agrees(model, whole(X, y, FORMS[loss], PENALTIES[penalty][1], C=0.05, bias=bias))


CLASSIFICATION = ["hinge", "squared_hinge", "logistic", *list(OBJECTS)[:2]]
REGRESSION = [*list(FORMS)[3:], *list(OBJECTS)[2:]]


@pytest.mark.parametrize(
    ("loss", "penalty", "layout", "bias"), covering(CLASSIFICATION, PENALTIES, LAYOUTS, ["free", ""]), ids=str
)
def test_classifiers(loss, penalty, layout, bias):
    (X, y), (given, omega) = TWO, PENALTIES[penalty]
    model = LinearClassifier(loss, given, 0.05, l1_ratio=0.3, **options_of(bias)).fit(LAYOUTS[layout](X), y)
    form = (FORMS | OBJECTS)[loss]
    agrees(model, whole(X, np.where(y == 1, 1.0, -1.0), form, omega, 0.05, 1.0 / len(y), bias))


@pytest.mark.parametrize(
    ("loss", "penalty", "layout", "bias"),
    covering(REGRESSION, ["l2", "l1", "elasticnet"], LAYOUTS, ["free", ""]),
    ids=str,
)
def test_regressors(loss, penalty, layout, bias):
    X, y = REAL
    y = np.floor(y / 25.0) if loss == "poisson" else y
    model = LinearRegressor(loss, penalty, 0.5, l1_ratio=0.3, **options_of(bias)).fit(LAYOUTS[layout](X), y)
    agrees(model, whole(X, y, (FORMS | OBJECTS)[loss], PENALTIES[penalty][1], 0.5, 1.0 / len(y), bias))


COSTS = 5.0 * (1.0 - np.eye(3))


@pytest.mark.parametrize(
    ("loss", "penalty", "bias"),
    covering(
        ["multiclass_hinge", "softmax", MulticlassHinge(COSTS)], ["l2", "l1", "elasticnet"], [True, False]
    ),
)
def test_joint_problems(loss, penalty, bias):
    X, y = THREE
    costs = COSTS if isinstance(loss, MulticlassHinge) else 1.0 - np.eye(3)
    W, b = cp.Variable((3, 4)), cp.Variable((1, 3))
    scores = X @ W.T + (np.ones((len(X), 1)) @ b if bias else 0.0)
    true = cp.sum(cp.multiply(scores, np.eye(3)[y]), axis=1)
    highest = cp.log_sum_exp(scores, axis=1) if loss == "softmax" else cp.max(scores + costs[y], axis=1)
    omega, vector = PENALTIES[penalty][1], cp.vec(W, order="C")
    problem = cp.Problem(cp.Minimize(cp.sum(highest - true) / len(y) + 0.05 * omega(vector)))
    model = LinearClassifier(loss, penalty, 0.05, l1_ratio=0.3, fit_intercept=bias, tol=TOL).fit(X, y)
    agrees(model, problem.solve(cp.CLARABEL))
    if loss == "multiclass_hinge" and penalty == "l2":
        C = 1.0 / (0.05 * len(y))
        joint = LinearSVC(C, multi_class="crammer_singer", fit_intercept=bias, tol=TOL).fit(X, y)
        assert joint.objective_ == pytest.approx(model.objective_ / 0.05, rel=3e-6)


def test_the_scalings_are_scikit_learns():
    X, y = TWO
    options = {"C": 0.5, "loss": "hinge"}
    model = LinearSVC(**options, regularize_intercept=True, tol=1e-8).fit(X, y)
    other = svm.LinearSVC(**options, tol=1e-9, max_iter=1_000_000).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), other.decision_function(X), atol=2e-2)
    X, y = REAL
    pairs = [
        (LinearRegressor("squared", "l2", 0.1, tol=1e-9), linear_model.Ridge(0.1 * len(X))),
        (LinearRegressor("squared", "l1", 1.0, tol=1e-9), linear_model.Lasso(1.0, tol=1e-9)),
        (LinearRegressor("squared", "elasticnet", 1.0, l1_ratio=0.3, tol=1e-9),
         linear_model.ElasticNet(1.0, l1_ratio=0.3, tol=1e-9)),
        (LinearSVR(0.5, epsilon=5.0, tol=1e-8), svm.SVR(kernel="linear", C=0.5, epsilon=5.0, tol=1e-8)),
    ]  # fmt: skip
    for model, other in pairs:
        np.testing.assert_allclose(model.fit(X, y).predict(X), other.fit(X, y).predict(X), rtol=2e-3)


@pytest.mark.parametrize("y", [TWO[1], np.where(TWO[1] == 1, "yes", "no")], ids=["numbers", "strings"])
def test_two_classes_of_a_joint_problem_are_one_row(y):
    X = TWO[0]
    model = LinearClassifier("softmax", alpha=0.05, tol=TOL).fit(X, y)
    halved = LinearClassifier("logistic", alpha=0.025, tol=TOL).fit(X, y)  # W = (-w/2, w/2) costs half of w
    assert model.coef_.shape == (1, 8)
    assert np.isclose(model.objective_, halved.objective_, rtol=2e-6)
    assert np.allclose(model.coef_, halved.coef_, atol=5e-3)

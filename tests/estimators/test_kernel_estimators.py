"""The kernel estimators: scikit-learn's answers, grids equal to separate fits, low rank, calibration."""

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import make_scorer, roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM

from cutplane.estimators import (
    KernelLogisticRegression,
    KernelNuSVC,
    KernelNuSVR,
    KernelOneClass,
    KernelSVC,
    KernelSVR,
)
from cutplane.estimators.kernel_svm import coupled
from cutplane.kernels import Gaussian
from cutplane.losses import Logistic

X3, Y3 = load_iris(return_X_y=True)
X3 = StandardScaler().fit_transform(X3)
X2, Y2 = X3[Y3 > 0][::2], np.array(["b", "a"])[Y3[Y3 > 0][::2] - 1]
XR, YR = (array[:90] for array in load_diabetes(return_X_y=True))
XR, YR = StandardScaler().fit_transform(XR), YR / 50.0
TIGHT = {"tol": 1e-9}


@pytest.mark.parametrize(
    "options", [{}, {"kernel": "poly", "coef0": 1.0, "degree": 2}, {"kernel": "linear"}], ids=str
)
@pytest.mark.parametrize("C", [0.1, 100.0])
def test_two_classes_are_those_of_svc(options, C):
    known = SVC(C=C, tol=1e-9, class_weight={"a": 2.0}, **options).fit(X2, Y2)
    model = KernelSVC(C, class_weight={"a": 2.0}, **options, **TIGHT).fit(X2, Y2)
    np.testing.assert_allclose(model.decision_function(X2), known.decision_function(X2), atol=1e-3)
    assert (model.predict(X2) == known.predict(X2)).all()
    assert model.gap_ <= 1e-9 and model.result_.certificate.verify().valid
    assert model.dual_coef_.shape == (1, model.support_.size) and model.n_iter_ >= 1
    loss = np.maximum(0.0, 1.0 - np.where(Y2 == "b", 1.0, -1.0) * known.decision_function(X2))
    a, K = known.dual_coef_[0], model._make_kernel(X2, "scale")(known.support_vectors_)
    objective = 0.5 * a @ K @ a + C * loss @ np.where(Y2 == "a", 2.0, 1.0)
    assert objective * (1.0 - 1e-4) <= model.objective_ <= objective * (1.0 + 1e-8)


def test_several_classes_by_the_rest_and_by_pairs():
    pairs = KernelSVC(multi_class="ovo", **TIGHT).fit(X3, Y3)
    known = SVC(tol=1e-9).fit(X3, Y3)
    assert (pairs.predict(X3) == known.predict(X3)).all()
    np.testing.assert_allclose(pairs.decision_function(X3), known.decision_function(X3), atol=1e-3)
    rest = KernelSVC(**TIGHT).fit(X3, Y3)
    for k in range(3):
        one = SVC(tol=1e-9, gamma=rest.gamma_).fit(X3, Y3 == k)
        np.testing.assert_allclose(rest.decision_function(X3)[:, k], one.decision_function(X3), atol=1e-3)
    assert len(rest.results_) == len(pairs.results_) == 3
    assert rest.intercept_.shape == (3,) and rest.support_.size < len(X3)


@pytest.mark.parametrize("intercept", [True, False])
def test_all_classes_together_are_the_whole_problem(intercept):
    """Of Crammer and Singer, beside the textbook's problem by Clarabel; with the softmax, its slopes."""
    X, y = X3[::5], Y3[::5]
    options = {"multi_class": "joint", "gamma": 0.3, "fit_intercept": intercept, "tol": 1e-6}
    model = KernelSVC(3.0, **options).fit(X, y)
    K = Gaussian(np.sqrt(0.5 / 0.3))(X)
    values, vectors = np.linalg.eigh(K)
    W, b = cp.Variable((30, 3)), cp.Variable(3)
    scores = (vectors * np.sqrt(np.maximum(values, 0.0))) @ W + (
        np.ones((30, 1)) @ b[None] if intercept else 0
    )
    own = cp.sum(cp.multiply(scores, np.eye(3)[y]), axis=1)
    losses = cp.max(scores + 1.0 - np.eye(3)[y], axis=1) - own
    whole = cp.Problem(cp.Minimize(cp.sum_squares(W) / 2 + 3.0 * cp.sum(losses)))
    assert model.objective_ == pytest.approx(whole.solve("CLARABEL"), rel=2e-6)
    a = np.zeros((30, 3))
    a[model.support_] = model.dual_coef_.T
    np.testing.assert_allclose(model.decision_function(X), K @ a + model.intercept_, atol=1e-9)
    assert (model.predict(X) == (K @ a + model.intercept_).argmax(axis=1)).all()
    soft = KernelLogisticRegression(3.0, **options | {"tol": 1e-9}).fit(X, y)
    p = soft.predict_proba(X)
    a[:] = 0.0
    a[soft.support_] = soft.dual_coef_.T
    np.testing.assert_allclose(K @ a, 3.0 * K @ (np.eye(3)[y] - p), atol=2e-3)
    z = K @ a + soft.intercept_
    np.testing.assert_allclose(p, np.exp(z) / np.exp(z).sum(axis=1, keepdims=True))
    assert (soft.predict(X) == p.argmax(axis=1)).all() and soft.gap_ <= 1e-9


def test_probabilities_of_pairs_are_coupled():
    """By the problem that defines them; where the pairs are those of one distribution, by that."""
    model = KernelLogisticRegression(multi_class="ovo", gamma=0.3).fit(X3, Y3)
    p, r = model.predict_proba(X3[::40]), 1.0 / (1.0 + np.exp(-model._predictions(X3[::40])))
    for k in range(len(p)):
        q = cp.Variable(3, nonneg=True)
        pairs = ((0, 1), 0), ((0, 2), 1), ((1, 2), 2)
        value = sum(cp.square(r[k, n] * q[i] - (1.0 - r[k, n]) * q[j]) for (i, j), n in pairs)
        cp.Problem(cp.Minimize(value), [cp.sum(q) == 1]).solve("CLARABEL")
        np.testing.assert_allclose(p[k], q.value, atol=1e-6)
    known = np.array([[0.5, 0.2, 0.3]])
    shares = np.array([[0.2 / 0.7, 0.3 / 0.8, 0.3 / 0.5]])
    np.testing.assert_allclose(coupled(shares, 3), known, atol=1e-12)
    assert (model.predict(X3) == model.predict_proba(X3).argmax(axis=1)).all()
    assert np.isfinite(coupled(np.array([[0.0, 1.0, 0.0]]), 3)).all()


def test_a_grid_of_joint_problems():
    model = KernelSVC([0.1, 1.0], gamma=[0.1, 1.0], multi_class="joint", cv=2).fit(X3[::3], Y3[::3])
    assert model.scores_.shape == (2, 2, 2) and model.score(X3, Y3) > 0.9
    low = KernelSVC(1.0, multi_class="joint", n_basis=20, random_state=0).fit(X3, Y3)
    assert low.score(X3, Y3) > 0.9 and low.support_.size <= 20 and low.dual_coef_.shape[0] == 3


def test_regression_is_that_of_svr_and_of_kernel_ridge():
    known = SVR(C=3.0, epsilon=0.2, tol=1e-9).fit(XR, YR)
    model = KernelSVR(3.0, epsilon=0.2, **TIGHT).fit(XR, YR)
    np.testing.assert_allclose(model.predict(XR), known.predict(XR), atol=1e-3)
    ridge = KernelRidge(alpha=0.5, kernel="laplacian", gamma=0.1).fit(XR, YR)
    model = KernelSVR(2.0, loss="squared", kernel="laplacian", gamma=0.1, fit_intercept=False, tol=1e-12).fit(
        XR, YR
    )
    np.testing.assert_allclose(model.predict(XR), ridge.predict(XR), atol=1e-4)


def test_the_nu_forms_are_those_of_libsvm():
    model, known = KernelNuSVC(0.3, **TIGHT).fit(X2, Y2), NuSVC(nu=0.3, tol=1e-9).fit(X2, Y2)
    np.testing.assert_allclose(model.decision_function(X2), known.decision_function(X2), atol=1e-3)
    same = KernelSVC(1.0 / model.rho_[0], **TIGHT).fit(X2, Y2)
    np.testing.assert_allclose(model.decision_function(X2), same.decision_function(X2), atol=1e-3)
    assert model.gap_ <= 1e-9 and model.support_.size >= 0.3 * len(Y2)
    pairs, known = KernelNuSVC(0.2, **TIGHT).fit(X3, Y3), NuSVC(nu=0.2, tol=1e-9).fit(X3, Y3)
    np.testing.assert_allclose(pairs.decision_function(X3), known.decision_function(X3), atol=1e-2)
    assert KernelNuSVC(0.2, multi_class="ovr").fit(X3, Y3).score(X3, Y3) > 0.95
    model, known = KernelNuSVR(0.4, C=3.0, **TIGHT).fit(XR, YR), NuSVR(nu=0.4, C=3.0, tol=1e-9).fit(XR, YR)
    np.testing.assert_allclose(model.predict(XR), known.predict(XR), atol=1e-3)
    tube = KernelSVR(3.0, epsilon=model.epsilon_, **TIGHT).fit(XR, YR)
    np.testing.assert_allclose(model.predict(XR), tube.predict(XR), atol=1e-3)
    model, known = KernelOneClass(0.1, **TIGHT).fit(X3), OneClassSVM(nu=0.1, tol=1e-9).fit(X3)
    np.testing.assert_allclose(model.decision_function(X3), known.decision_function(X3), atol=1e-4)
    np.testing.assert_allclose(model.score_samples(X3), known.score_samples(X3), atol=1e-4)


@pytest.mark.parametrize("loss", ["huber", "absolute", "quantile", "squared_epsilon_insensitive"])
def test_the_losses_of_regression(loss):
    model = KernelSVR(10.0, loss=loss, quantile=0.9, tol=1e-6).fit(XR, YR)
    below = (model.predict(XR) >= YR).mean()
    assert model.gap_ <= 1e-6 and (0.8 <= below if loss == "quantile" else 0.3 < below < 0.7)


def test_logistic_regression_is_stationary():
    model = KernelLogisticRegression(2.0, gamma=0.3, tol=1e-9).fit(X2, Y2)
    y = np.where(Y2 == "b", 1.0, -1.0)
    z, K = model.decision_function(X2), Gaussian(np.sqrt(0.5 / 0.3))(X2)
    a = np.zeros(len(y))
    a[model.support_] = model.dual_coef_[0]
    slopes = -2.0 * np.asarray(Logistic().derivative(z, y))
    np.testing.assert_allclose(K @ a, K @ slopes, atol=2e-3)
    assert slopes.sum() == pytest.approx(0.0, abs=1e-3)
    np.testing.assert_allclose(model.predict_proba(X2)[:, 1], 1.0 / (1.0 + np.exp(-z)))


@pytest.mark.parametrize("n_basis", [None, 30])
def test_a_grid_is_that_of_separate_fits(n_basis):
    X, y = (X3, Y3) if n_basis is None else (X2, Y2)
    Cs, gammas = [0.01, 1.0, 100.0], [0.03, 1.0]
    model = KernelSVC(Cs, gamma=gammas, cv=3, tol=1e-6, n_basis=n_basis, random_state=0).fit(X, y)
    plain = KernelSVC(tol=1e-6, n_basis=n_basis, random_state=0)
    known = GridSearchCV(plain, {"C": Cs, "gamma": gammas}, cv=3).fit(X, y)
    scores = np.array([known.cv_results_[f"split{k}_test_score"] for k in range(3)]).T.reshape(3, 2, 3)
    np.testing.assert_allclose(model.scores_, scores, atol=0.07)  # ties: an example or two
    ax = model.plot_scores()
    assert ax.get_xlabel() == "C" and ax.get_ylabel() == "gamma"
    alone = KernelSVC(
        [0.1, 1.0], scoring=make_scorer(roc_auc_score, response_method="decision_function"), cv=3
    )
    assert alone.fit(X2, Y2).scores_.shape == (2, 1, 3) and alone.scores_.min() > 0.8
    assert alone.plot_scores().get_ylabel() == "mean score"


def test_the_folds_of_a_grid_start_from_one_another(monkeypatch):
    better, solve = [], KernelSVC._solve_part

    def solved(self, part, C, x0=None):
        problem = part.problem(self._lam(part, C))
        if x0 is not None:
            better.append(problem.objective(x0) < problem.objective(np.zeros(problem.dim)))
        return solve(self, part, C, x0)

    monkeypatch.setattr(KernelSVC, "_solve_part", solved)
    KernelSVC([1.0], gamma=[0.1], cv=5).fit(X2, Y2)
    assert len(better) == 4 and sum(better) >= 3


def test_low_rank_with_every_example_is_the_whole():
    whole, low = (KernelSVC(1.0, n_basis=n, tol=1e-8).fit(X2, Y2) for n in (None, len(X2)))
    assert low.objective_ == pytest.approx(whole.objective_, rel=1e-6)
    few = KernelSVC(1.0, n_basis=10, random_state=1, tol=1e-8).fit(X2, Y2)
    assert few.support_.size <= 10 and few.objective_ >= whole.lower_bound_ and few.score(X2, Y2) > 0.9
    assert few.result_.certificate.verify().valid


def test_kernels_in_every_form():
    known = KernelSVC(gamma=0.3, **TIGHT).fit(X2, Y2).decision_function(X2)
    K = Gaussian(np.sqrt(0.5 / 0.3))(X2)
    for kernel, data in (
        ("precomputed", K),
        (Gaussian(np.sqrt(0.5 / 0.3)), X2),
        (RBF(np.sqrt(0.5 / 0.3)), X2),
        (lambda A, B: np.exp(-0.3 * ((A[:, None] - B) ** 2).sum(axis=2)), X2),
    ):
        model = KernelSVC(kernel=kernel, **TIGHT).fit(data, Y2)
        np.testing.assert_allclose(model.decision_function(data), known, atol=1e-3)
    model = KernelSVC(gamma=0.3, **TIGHT).fit(sparse.csr_array(X2), Y2)
    np.testing.assert_allclose(model.decision_function(sparse.csc_array(X2)), known, atol=1e-3)


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_probabilities_are_calibrated_if_asked_for(method):
    model = KernelSVC(probability=method).fit(X3, Y3)
    found = model.predict_proba(X3)
    assert found.shape == (150, 3) and np.allclose(found.sum(axis=1), 1.0)
    assert (model.classes_[found.argmax(axis=1)] == Y3).mean() > 0.93
    with pytest.raises(AttributeError, match="predict_proba"):
        clone(model).set_params(probability=None).predict_proba(X3)

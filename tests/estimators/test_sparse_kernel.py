"""Kernel estimators on a greedy basis: the contract of scikit-learn, the machine on the basis, accuracy."""

import numpy as np
import pytest
from sklearn.base import clone

import cutplane as cut
from cutplane.datasets import ringnorm
from cutplane.estimators import KernelSVR, SparseKernelClassifier, SparseKernelRegressor
from cutplane.kernels import Gaussian, KernelRisk, Linear, greedy_basis
from cutplane.losses import Hinge, Huber, Logistic, ModifiedHuber, Squared, SquaredHinge


def machine(loss, m=80, seed=0, intercept=True, kernel=None):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, 2))
    y = np.sin(2.0 * X[:, 0]) * X[:, 1]
    return KernelRisk(X, np.where(y > 0, 1.0, -1.0), loss, kernel or Gaussian(1.0), intercept)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(
    "loss", [SquaredHinge(), Logistic(), ModifiedHuber(), Squared(), Huber(0.5)], ids=repr
)
def test_basis_is_refitted_to_its_optimum(loss, intercept):
    risk, lam = machine(loss, intercept=intercept), 1e-3
    basis = greedy_basis(risk, lam, 20, random_state=0)
    K = risk.gram.matrix()[:, basis.examples]
    assert np.allclose(K @ basis.back, basis.features, atol=1e-8)
    gram = basis.back.T @ K[basis.examples] @ basis.back
    assert np.allclose(gram, np.eye(20), atol=1e-8)  # orthonormal in the kernel's space
    for size, objective in zip(basis.sizes, basis.objectives, strict=True):
        part = cut.LinearRisk(basis.features[:, :size], risk.y, loss, intercept=intercept)
        g = cut.L2(lam, weights=[1.0] * size + [0.0] * intercept)
        assert objective == pytest.approx(cut.Problem(part, g).solve(tol=1e-9).objective, rel=1e-6)
    assert (np.diff(basis.objectives) < 0.0).all()
    whole = cut.Problem(risk, risk.squared_norm(lam)).solve(cut.kernels.FiniteNewton(), tol=1e-8)
    assert whole.lower_bound < basis.objectives[-1] < 1.5 * whole.objective


def test_score_is_the_fall_of_the_model():
    """With the squared loss the first choice among all is the one that lowers the objective most."""
    risk, lam = machine(Squared(), m=40, intercept=False), 1e-2
    K, y = risk.gram.matrix(), risk.y
    values = [-0.5 * (K[j] @ y / 40) ** 2 / (lam * K[j, j] + K[j] @ K[j] / 40) for j in range(40)]
    assert greedy_basis(risk, lam, 1, 40).examples.tolist() == [int(np.argmin(values))]


def test_basis_ends_where_nothing_is_left_and_is_reproducible():
    basis = greedy_basis(machine(SquaredHinge(), kernel=Linear()), 1e-2, 10, random_state=1)
    assert basis.examples.size == 2
    one, other, third = (greedy_basis(machine(SquaredHinge()), 1e-2, 7, random_state=s) for s in (3, 3, 4))
    assert np.array_equal(one.examples, other.examples) and not np.array_equal(one.examples, third.examples)
    with pytest.raises(cut.MissingCapabilityError, match="without kinks"):
        greedy_basis(machine(Hinge()), 1e-2)
    with pytest.raises(cut.MissingCapabilityError, match="lam > 0"):
        greedy_basis(machine(Squared()), 0.0)
    with pytest.raises(cut.InvalidInputError, match="n_basis"):
        greedy_basis(machine(Squared()), 0.1, 0)


def test_few_functions_are_enough_on_ringnorm():
    """The text: 12.9 functions on average for an error of 2%, which needs a bias that is not regularised."""
    X, y = ringnorm(1400, seed=0)
    model = SparseKernelClassifier(n_basis=12, random_state=0).fit(X[:400], y[:400])
    assert model.score(X[400:], y[400:]) > 0.97
    assert model.support_.size == 12 and model.gap_ <= 1e-3 and model.result_.certificate.verify().valid
    assert clone(model).get_params()["n_basis"] == 12


@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
def test_several_classes_have_bases_of_their_own(multi_class):
    from sklearn.datasets import load_iris

    X, y = load_iris(return_X_y=True)
    model = SparseKernelClassifier(C=10.0, n_basis=6, multi_class=multi_class, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.95
    assert [basis.examples.size for basis in model.bases_] == [6, 6, 6]


def test_regression_on_all_functions_is_kernel_ridge_regression():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 2)), rng.standard_normal(60)
    whole = KernelSVR(loss="squared", gamma=5.0, tol=1e-9).fit(X, y)
    sparse = SparseKernelRegressor(gamma=5.0, n_basis=60, tol=1e-9, random_state=0).fit(X, y)
    assert np.allclose(whole.predict(X), sparse.predict(X), atol=1e-4)

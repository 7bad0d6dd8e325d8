"""Machines with a graph, and ordered classes: against the whole problem in cvxpy, and the contract."""

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_iris, make_moons
from sklearn.neighbors import kneighbors_graph

from cutplane.estimators import GraphSVC, KernelOrdinalClassifier, KernelSVC
from cutplane.exceptions import InvalidInputError
from cutplane.kernels import Gaussian, laplacian
from cutplane.losses import Hinge, Logistic, SquaredHinge


def test_two_ordered_classes():
    X, y, _ = moons()
    model = KernelOrdinalClassifier().fit(X, y)
    assert model.decision_function(X).shape == (60,)


def moons():
    X, y = make_moons(60, noise=0.1, random_state=0)
    some = y.copy()
    some[np.random.default_rng(0).permutation(60)[:45]] = -1
    return X, y, some


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge(), Logistic()], ids=repr)
def test_graph_machine_agrees_with_the_whole_problem(loss, intercept):
    X, _, some = moons()
    model = GraphSVC(2.0, loss=loss, graph_weight=3.0, gamma=1.0, fit_intercept=intercept, tol=1e-8)
    model.fit(X, some)
    K, L = Gaussian(np.sqrt(0.5))(X), laplacian(kneighbors_graph(X, 6)).toarray()
    values, vectors = np.linalg.eigh(K)
    values = np.maximum(values, 1e-13)
    w, b = cp.Variable(60), cp.Variable() if intercept else 0.0
    f = (vectors * np.sqrt(values)) @ w
    rows = np.flatnonzero(some >= 0)
    losses = cp.sum(loss.cvxpy_form(f[rows] + b, 2.0 * some[rows] - 1.0))
    norms = cp.sum_squares(w) + 3.0 * cp.quad_form(f, L + 1e-14 * np.eye(60), assume_PSD=True)
    optimum = cp.Problem(cp.Minimize(0.5 * norms + 2.0 * losses)).solve("CLARABEL")
    assert model.objective_ == pytest.approx(optimum, rel=1e-6)
    assert model.result_.certificate.verify().valid


def test_two_moons_with_ten_labels():
    X, y = make_moons(300, noise=0.06, random_state=0)
    some = np.full(300, -1)
    for label in (0, 1):
        some[np.flatnonzero(y == label)[:5]] = label
    graph = GraphSVC(10.0, graph_weight=30.0, gamma=5.0).fit(X, some)
    alone = KernelSVC(10.0, gamma=5.0).fit(X[some >= 0], some[some >= 0])
    assert graph.score(X, y) > 0.98 > alone.score(X, y) + 0.05
    assert (graph.transduction_ == graph.predict(X)).all()
    given = GraphSVC(10.0, graph_weight=30.0, gamma=5.0, graph=kneighbors_graph(X, 6)).fit(X, some)
    assert np.array_equal(given.decision_function(X), graph.decision_function(X))


def test_without_a_graph_it_is_the_machine_of_the_labelled_examples():
    X, _, some = moons()
    graph = GraphSVC(graph_weight=0.0, gamma=1.0, tol=1e-8).fit(X, some)
    alone = KernelSVC(gamma=1.0, tol=1e-8).fit(X[some >= 0], some[some >= 0])
    assert np.allclose(graph.decision_function(X), alone.decision_function(X), atol=1e-4)
    assert set(graph.support_) <= set(np.flatnonzero(some >= 0))


def test_few_examples_have_few_neighbours():
    X, y, some = (array[:5] for array in moons())
    some[:] = np.where(np.arange(5) < 4, y, -1)
    assert GraphSVC(gamma=1.0).fit(X, some).predict(X).shape == (5,)


def test_laplacian_is_the_sum_over_edges():
    W = sparse.random_array((8, 8), density=0.4, rng=np.random.default_rng(0))
    f = np.arange(8.0) ** 2
    both = W.maximum(W.T).toarray()
    np.fill_diagonal(both, 0.0)
    total = 0.5 * (both * (f[:, np.newaxis] - f) ** 2).sum()
    assert f @ (laplacian(W, normalized=False) @ f) == pytest.approx(total)
    with pytest.raises(InvalidInputError, match="square"):
        laplacian(np.ones((2, 3)))
    with pytest.raises(InvalidInputError, match="at least 0"):
        laplacian(-np.ones((2, 2)))


def test_labels_of_a_graph_may_be_strings():
    X, y, _ = moons()
    assert GraphSVC(gamma=5.0).fit(X, np.where(y, "up", "down")).predict(X[:1]).dtype.kind == "U"


@pytest.mark.parametrize("thresholds", ["all", "immediate"])
def test_ordinal_machine_agrees_with_the_whole_problem(thresholds):
    X, y = load_iris(return_X_y=True)
    X, y = X[::3], y[::3]
    for loss in (Hinge(), SquaredHinge()):
        model = KernelOrdinalClassifier(5.0, loss=loss, thresholds=thresholds, gamma=0.5, tol=1e-6).fit(X, y)
        values, vectors = np.linalg.eigh(Gaussian(1.0)(X))
        w, b = cp.Variable(50), cp.Variable(2)
        f = (vectors * np.sqrt(np.maximum(values, 0.0))) @ w
        total = 0.0
        for i, level in enumerate(y):
            for j in range(2) if thresholds == "all" else [k for k in (level - 1, level) if 0 <= k < 2]:
                total += loss.cvxpy_form(f[i] - b[j], 1.0 if level > j else -1.0)
        optimum = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + 5.0 * total)).solve("CLARABEL")
        assert model.objective_ == pytest.approx(optimum, rel=2e-6)
        assert model.score(X, y) > 0.9 and (np.diff(model.thresholds_) > 0.0).all()
        f = model.function_.decision_function(X)[:, 0]
        assert np.array_equal(np.searchsorted(model.thresholds_, f), model.predict(X))


def test_thresholds_are_sorted():
    """With f near 0 and few examples of the middle class, the best thresholds are in the wrong order."""
    X, y = load_iris(return_X_y=True)
    kept = np.r_[:50, 50:55, 100:150]
    model = KernelOrdinalClassifier(1e-4, thresholds="immediate", gamma=0.5).fit(X[kept], y[kept])
    assert model.thresholds_[0] < model.thresholds_[1]

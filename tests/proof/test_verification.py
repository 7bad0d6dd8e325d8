"""Results of the special problems prove themselves again, and tampered ones do not."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from cutplane.boosting import (
    CorrectiveERLPBoost,
    DecisionStumps,
    Ensemble,
    ERLPBoost,
    HypothesisMatrix,
    LPBoost,
    MLPBoost,
    SoftMargin,
)
from cutplane.exceptions import InvalidInputError
from cutplane.graphical import GraphicalModel, potts, spin_glass
from cutplane.losses import Squared
from cutplane.mkl import MKL, PolynomialMKL, SmoothMKL
from cutplane.status import Status


def examples(m=40, n=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, n))
    return X, np.where(X[:, 0] + 0.5 * rng.normal(size=m) > 0.0, 1.0, -1.0)


def fails(result, *args, **changes):
    assert not replace(result, **changes).verify(*args).valid, changes.keys()


@pytest.mark.parametrize("method", [LPBoost(), ERLPBoost(), CorrectiveERLPBoost(), MLPBoost()], ids=repr)
def test_boosting(method):
    X, y = examples()
    problem = SoftMargin(X, y, 8, DecisionStumps())
    result = problem.solve(method, tol=0.02, max_iter=300)
    verification = result.verify()
    assert verification.valid, verification.problems
    assert verification.lower_bound == pytest.approx(result.soft_margin, abs=1e-9)
    assert verification.upper_bound == pytest.approx(result.edge, abs=1e-9)
    loaded = pickle.loads(pickle.dumps(result))
    assert loaded.verify(problem).valid
    with pytest.raises(InvalidInputError, match="loaded from a file"):
        loaded.verify()
    fails(result, edge=result.edge - 1e-4)
    fails(result, edge=result.edge + 1e-4)
    fails(result, soft_margin=result.soft_margin + 1e-4)
    fails(result, margins=result.margins + 1e-4)
    fails(result, nu=9.0)
    fails(result, distribution=np.eye(y.size)[0])
    fails(result, is_global=False)
    turned = Ensemble(result.ensemble.hypotheses, result.ensemble.weights * 1.01)
    fails(result, ensemble=turned)


def test_boosting_with_other_learners():
    X, y = examples()
    experts = SoftMargin(np.tanh(X), y, 5, HypothesisMatrix(symmetric=True)).solve(tol=1e-6)
    assert experts.status is Status.OPTIMAL and experts.verify().valid
    trees = SoftMargin(X, y, 5, DecisionTreeClassifier(max_depth=1)).solve(tol=0.05)
    assert trees.status is Status.TARGET
    assert trees.verify().valid, trees.verify().problems
    fails(trees, status=Status.OPTIMAL)


def kernels(X):
    return [X[:, [j]] @ X[:, [j]].T for j in range(X.shape[1])] + [np.eye(len(X))]


@pytest.mark.parametrize(
    ("options", "method"),
    [
        ({}, "auto"),
        ({"norm": 2.0}, "auto"),
        ({"norm": np.inf}, "auto"),
        ({"entropy": 0.1}, "auto"),
        ({"entropy": 0.1, "intercept": False}, SmoothMKL()),
        ({"loss": Squared(), "rho": [1.0, 2.0, 1.0, 1.0, 0.5]}, "auto"),
    ],
    ids=str,
)
def test_mkl(options, method):
    X, y = examples()
    problem = MKL(kernels(X), y, 2.0, **options)
    result = problem.solve(method, tol=1e-4)
    verification = result.verify()
    assert verification.valid, verification.problems
    assert verification.upper_bound == pytest.approx(result.objective)
    assert pickle.loads(pickle.dumps(result)).verify().valid
    assert result.verify(problem).valid
    fails(result, objective=0.999 * result.objective)
    fails(result, lower_bound=result.lower_bound + 1e-3 * result.objective)
    fails(result, weights=1.01 * result.weights)
    fails(result, coefficients=1.01 * result.coefficients)
    fails(result, intercept=result.intercept + 1.0)


def test_polynomial_mkl():
    X = np.random.default_rng(0).uniform(-1, 1, (50, 4))
    problem = PolynomialMKL(X, X[:, 0] * X[:, 3] - 0.1 * X[:, 1], degree=3, C=100.0)
    for work in (1e9, 10.0):
        result = problem.solve(max_iter=100, bound_work=work)
        verification = result.verify()
        assert verification.valid, verification.problems
        assert verification.lower_bound == pytest.approx(result.lower_bound)
        fails(result, objective=0.999 * result.objective)
        fails(result, lower_bound=1.001 * result.lower_bound)
        fails(result, weights={index: 1.1 * weight for index, weight in result.weights.items()})
        fails(result, coefficients=1.01 * result.coefficients)
        assert pickle.loads(pickle.dumps(result)).verify().valid


def dense(seed=0, n=7, k=3):
    rng = np.random.default_rng(seed)
    edges = np.array([(i, j) for i in range(n) for j in range(i + 1, n)])
    return GraphicalModel.pairwise(rng.normal(size=(n, k)), edges, rng.normal(size=(len(edges), k, k)))


MODELS = {
    "glass": spin_glass(5, 5, seed=2),
    "potts": potts(4, 4, 3),
    "dense": dense(),
    "penalties": GraphicalModel(
        [2] * 4, [((i, j), [[1e9, 0.3 * i], [1.0, 1e9]]) for i in range(4) for j in range(i + 1, 4)]
    ),
}


@pytest.mark.parametrize("method", ["auto", "primal", "dual", "elimination", "search"])
@pytest.mark.parametrize("name", MODELS)
def test_map(method, name):
    model = MODELS[name]
    result = model.map(method)
    verification = result.verify()
    assert verification.valid, verification.problems
    assert verification.upper_bound == result.energy
    assert verification.lower_bound <= result.energy
    loaded = pickle.loads(pickle.dumps(result))
    assert loaded.verify().valid and loaded.verify(model).valid
    step = 1e-3 * abs(result.energy)
    fails(result, energy=result.energy - step)
    fails(result, bound=result.bound + step)
    other = result.labelling.copy()
    other[0] = (other[0] + 1) % model.cardinalities[0]
    fails(result, labelling=other)
    fails(result, labelling=None)


def test_a_bound_below_a_labelling_that_is_not_the_best_one():
    model = dense(1)
    result = model.map("dual", tighten=False)
    assert result.verify().valid
    worse = replace(
        result, labelling=np.zeros(7, dtype=np.int64), energy=model.energy(np.zeros(7, dtype=int))
    )
    assert worse.verify().valid
    assert not replace(worse, bound=worse.energy).verify().valid
    fails(result, bound=result.bound + 1e-6)  # true, but not what was found


def test_infeasibility_is_proven_again():
    cycle = [(pair, [[np.inf, 0], [0, np.inf]]) for pair in [(0, 1), (1, 2), (0, 2)]]
    model = GraphicalModel([2, 2, 2], cycle)
    result = model.map()
    assert result.status is Status.INFEASIBLE and result.verify().valid
    feasible = GraphicalModel([2, 2, 2], cycle[:2])
    assert not result.verify(feasible).valid

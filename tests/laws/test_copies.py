"""Copies answer as their originals do: pickled, deep-copied, cloned, and in the workers of joblib."""

import copy
import pickle

import cvxpy as cp
import doors
import joblib
import numpy as np
import pytest
from sklearn.base import clone

import cutplane as cut
from cutplane import estimators, graphical, mkl

BACKENDS = "loky", "threading", "multiprocessing"


def recognised():
    w = cp.Variable(3)
    margins = cp.multiply(doors.SIGNS, doors.X @ w)
    return cut.from_cvxpy(cp.Problem(cp.Minimize(cp.mean(cp.pos(1 - margins)) + cp.sum_squares(w))))


def objects():
    """Return public objects, each with what it answers as a number."""
    risk = cut.LinearRisk(doors.X, doors.SIGNS, cut.losses.Hinge(), intercept=True)
    problem = cut.Problem(risk, cut.L2(0.1, weights=[1, 1, 1, 0]))
    costs = [np.array([0.0, 1.0]), np.array([0.5, 0.0])]
    model = graphical.GraphicalModel([2, 2], [((0,), costs[0]), ((1,), costs[1]), ((0, 1), 1.0 - np.eye(2))])
    return {
        "problem": problem,
        "result": problem.solve(),
        "recognised": recognised(),
        "graphical model": model,
        "map result": model.map(),
        "mkl": mkl.MKL([doors.GRAM, np.eye(8)], doors.SIGNS),
    }


def answer(item):
    """Return what the item answers, as a number."""
    if hasattr(item, "map"):
        return float(item.map().energy)
    if hasattr(item, "solve"):
        return float(item.solve(tol=1e-3).objective)
    return float(item.objective if hasattr(item, "objective") else item.energy)


OBJECTS = objects()


@pytest.mark.parametrize("name", OBJECTS)
def test_copies_answer_as_the_original(name):
    item = OBJECTS[name]
    for other in (copy.deepcopy(item), copy.copy(item), pickle.loads(pickle.dumps(item))):
        assert answer(other) == pytest.approx(answer(item), rel=1e-3)


@pytest.mark.parametrize("backend", BACKENDS)
def test_workers_answer_as_this_process(backend):
    with joblib.parallel_config(backend=backend, n_jobs=2):
        found = joblib.Parallel()(joblib.delayed(answer)(item) for item in OBJECTS.values())
    assert found == pytest.approx([answer(item) for item in OBJECTS.values()], rel=1e-3)


@pytest.mark.parametrize(
    "estimator",
    [
        estimators.LinearSVC(),
        estimators.LinearClassifierCV(alphas=[1.0, 0.5], cv=2),
        estimators.KernelSVC(),
        estimators.KernelLogisticRegression(),
        estimators.MeasureClassifier(alpha=0.125),
        estimators.LPBoostClassifier(nu=0.5),
        estimators.MKLClassifier(),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_estimators_are_cloned_and_copied(estimator):
    fitted = clone(estimator).fit(doors.X, doors.SIGNS)
    for other in (
        copy.deepcopy(fitted),
        pickle.loads(pickle.dumps(fitted)),
        clone(fitted).fit(doors.X, doors.SIGNS),
    ):
        np.testing.assert_array_equal(other.predict(doors.X), fitted.predict(doors.X))

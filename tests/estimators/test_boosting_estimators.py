"""The boosting estimators keep scikit-learn's contract."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.tree import DecisionTreeClassifier

from cutplane.boosting import DecisionStumps, HypothesisMatrix, SoftMargin
from cutplane.estimators import ERLPBoostClassifier, LPBoostClassifier, MLPBoostClassifier

CLASSIFIERS = [LPBoostClassifier, ERLPBoostClassifier, MLPBoostClassifier]


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_it_is_the_problem_that_it_says(kind):
    X, y = load_breast_cancer(return_X_y=True)
    model = kind(nu=0.2, tol=0.02).fit(X, y)
    direct = SoftMargin(X, 2.0 * y - 1.0, 0.2 * len(y), DecisionStumps()).solve(tol=1e-6)
    assert model.gap_ <= 0.02
    assert abs(model.results_[0].soft_margin - direct.soft_margin) <= 0.02 + 1e-6
    signs = np.where(model.decision_function(X) >= 0.0, 1, 0)
    assert (model.predict(X) == signs).all()
    stages = list(model.staged_predict(X))
    assert len(stages) == len(model.results_[0].stages)


def test_multiclass_is_one_against_the_rest():
    X, y = load_iris(return_X_y=True)
    model = LPBoostClassifier(nu=0.1, tol=0.01).fit(X, y)
    assert len(model.ensembles_) == 3 and model.decision_function(X).shape == (150, 3)
    assert model.score(X, y) > 0.9
    stages = list(model.staged_predict(X))
    assert len(stages) == max(len(result.stages) for result in model.results_)
    np.testing.assert_array_equal(stages[-1], model.predict(X))


def test_seeds_repeat():
    X, y = load_breast_cancer(return_X_y=True)
    trees = LPBoostClassifier(DecisionTreeClassifier(max_depth=2, max_features=3), nu=0.2, random_state=3)
    np.testing.assert_array_equal(
        trees.fit(X, y).decision_function(X), clone(trees).fit(X, y).decision_function(X)
    )


def test_early_stopping():
    X, y = (array[:300] for array in load_breast_cancer(return_X_y=True))
    model = LPBoostClassifier(nu=0.02, tol=1e-3, validation_fraction=0.3, n_iter_no_change=5, random_state=0)
    assert model.fit(X, y).n_iter_ < LPBoostClassifier(nu=0.02, tol=1e-3).fit(X, y).n_iter_


def test_hypotheses_may_be_columns():
    rng = np.random.default_rng(0)
    y = rng.choice([0, 1], 100)
    H = np.where(rng.random((100, 20)) < 0.7, 2.0 * y[:, None] - 1.0, 1.0 - 2.0 * y[:, None])
    model = MLPBoostClassifier(HypothesisMatrix(), nu=0.1).fit(H, y)
    assert model.score(H, y) > 0.9


def test_a_gap_relative_to_the_learner_is_no_reason_to_warn():
    X, y = load_breast_cancer(return_X_y=True)
    model = LPBoostClassifier(DecisionTreeClassifier(max_depth=2), nu=0.3, tol=0.1).fit(X, y)
    assert [result.status for result in model.results_] == ["TARGET"]

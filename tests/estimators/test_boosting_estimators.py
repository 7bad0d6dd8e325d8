"""The boosting estimators keep scikit-learn's contract."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from cutplane.boosting import DecisionStumps, HypothesisMatrix, SoftMargin
from cutplane.estimators import ERLPBoostClassifier, LPBoostClassifier, MLPBoostClassifier
from cutplane.exceptions import InvalidInputError

CLASSIFIERS = [LPBoostClassifier, ERLPBoostClassifier, MLPBoostClassifier]


ESTIMATORS = [
    LPBoostClassifier(),
    LPBoostClassifier(DecisionTreeClassifier(max_depth=2), nu=0.3),
    ERLPBoostClassifier(tol=0.05),
    MLPBoostClassifier(tol=0.05),
]


@parametrize_with_checks(ESTIMATORS[:2], legacy=False)
def test_scikit_learn_interface(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


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
    copy = pickle.loads(pickle.dumps(model))
    assert (copy.predict(X) == model.predict(X)).all() and not hasattr(copy, "results_")
    assert len(list(model.staged_predict(X))) == max(len(result.stages) for result in model.results_)


def test_sparse_is_dense_and_seeds_repeat():
    X, y = load_breast_cancer(return_X_y=True)
    X = np.where(X > np.median(X, axis=0), X, 0.0)
    dense = LPBoostClassifier(nu=0.2).fit(X, y)
    other = LPBoostClassifier(nu=0.2).fit(sparse.csr_array(X), y)
    np.testing.assert_array_equal(dense.predict(X), other.predict(sparse.csc_array(X)))
    trees = LPBoostClassifier(DecisionTreeClassifier(max_depth=2, max_features=3), nu=0.2, random_state=3)
    np.testing.assert_array_equal(
        trees.fit(X, y).decision_function(X), clone(trees).fit(X, y).decision_function(X)
    )


def test_early_stopping_and_grid_search():
    X, y = (array[:300] for array in load_breast_cancer(return_X_y=True))
    model = LPBoostClassifier(nu=0.02, tol=1e-3, validation_fraction=0.3, n_iter_no_change=5, random_state=0)
    assert model.fit(X, y).n_iter_ < LPBoostClassifier(nu=0.02, tol=1e-3).fit(X, y).n_iter_
    search = GridSearchCV(LPBoostClassifier(), {"nu": [0.1, 0.3]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.9


def test_ctrl_c_is_not_taken_for_early_stopping():
    X, y = load_breast_cancer(return_X_y=True)
    stumps, calls = DecisionStumps(), []

    class Interrupted:
        def bind(self, X, y):
            oracle = stumps.bind(X, y)

            class Oracle:
                exact = True

                def best(self, d):
                    calls.append(1)
                    if len(calls) == 5:
                        raise KeyboardInterrupt
                    return oracle.best(d)

            return Oracle()

    with pytest.raises(KeyboardInterrupt):
        LPBoostClassifier(Interrupted(), nu=0.02, validation_fraction=0.3).fit(X, y)


def test_hypotheses_may_be_columns():
    rng = np.random.default_rng(0)
    y = rng.choice([0, 1], 100)
    H = np.where(rng.random((100, 20)) < 0.7, 2.0 * y[:, None] - 1.0, 1.0 - 2.0 * y[:, None])
    model = MLPBoostClassifier(HypothesisMatrix(), nu=0.1).fit(H, y)
    assert model.score(H, y) > 0.9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nu": 0.0}, "nu"),
        ({"nu": 2.0}, "nu"),
        ({"validation_fraction": 1.0}, "validation_fraction"),
        ({"max_iter": 0}, "max_iter"),
    ],
)
def test_bad_parameters_are_named(options, message):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(InvalidInputError, match=message):
        LPBoostClassifier(**options).fit(X, y)


def test_a_gap_relative_to_the_learner_is_no_reason_to_warn():
    X, y = load_breast_cancer(return_X_y=True)
    model = LPBoostClassifier(DecisionTreeClassifier(max_depth=2), nu=0.3, tol=0.1).fit(X, y)
    assert [result.status for result in model.results_] == ["TARGET"]

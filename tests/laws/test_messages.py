"""Everyday mistakes end in one sentence that says what to pass."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import cutplane as cut
from cutplane.estimators import ChainCRF, ChainSSVM, LinearSVC, MeasureClassifier
from cutplane.exceptions import InvalidInputError

X = np.random.default_rng(0).standard_normal((40, 3))
Y = np.where(X[:, 0] > 0.0, 1, -1)
SEQUENCES, LABELS = [X[:5], X[5:9]], [Y[:5], Y[5:9]]


@pytest.mark.parametrize("option", [{"warm_start": "x"}, {"callback": 3}, {"stop": 3}], ids=str)
def test_an_option_of_the_wrong_kind_is_named(option):
    problem = cut.Problem(cut.LinearObjective(np.ones(3)), cut.L2(1.0))
    with pytest.raises(InvalidInputError, match=f"{next(iter(option))} must be"):
        problem.solve(**option)


def test_an_infinite_weight_is_refused():
    with pytest.raises(InvalidInputError, match="C must be in"):
        LinearSVC(C=np.inf).fit(X, Y)


def test_empty_sequences_are_labelled():
    for model in (ChainSSVM().fit(SEQUENCES, LABELS), ChainCRF().fit(SEQUENCES, LABELS)):
        assert model.predict([]) == []
        empty, found = model.predict([X[:0], X[:3]])
        assert empty.shape == (0,) and found.tolist() == model.predict([X[:3]])[0].tolist()
    assert model.predict_proba([X[:0]])[0].shape == (0, 2)


@pytest.mark.parametrize(
    "first, said", [([None, 1, 1, 1, 1], r"y\[0\] contains None"), (["D", 1, 1, 1, 1], "strings and other")]
)
def test_labels_of_chains_are_of_one_kind(first, said):
    with pytest.raises(InvalidInputError, match=said):
        ChainSSVM().fit(SEQUENCES, [first, LABELS[1]])


def test_a_measure_whose_best_weights_are_zero_warns():
    with pytest.warns(ConvergenceWarning, match="coef_ = 0"):
        MeasureClassifier(cut.measures.PrecisionAt(3), alpha=100.0).fit(X, Y)

"""The estimators of sequences keep scikit-learn's contract as far as lists of sequences allow."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score

import cutplane as cut
from cutplane.estimators import ChainCRF, ChainSSVM
from cutplane.exceptions import InvalidInputError

KINDS = [ChainSSVM(), ChainSSVM(loss="share"), ChainCRF()]
NAMES = np.array(["noun", "verb", "other"])


def sentences(m=60, seed=0):
    """Return noisy indicators of classes that follow one another in a circle."""
    rng = np.random.default_rng(seed)
    Y = [(rng.integers(3) + np.arange(rng.integers(2, 7))) % 3 for _ in range(m)]
    return [np.eye(3)[y] + 0.7 * rng.standard_normal((len(y), 3)) for y in Y], [NAMES[y] for y in Y]


@pytest.mark.parametrize("model", KINDS, ids=str)
def test_chains_learn_what_follows_what(model):
    X, y = sentences()
    held_out = sentences(seed=1)
    model = clone(model).fit(X, y)
    assert model.result_.status == "OPTIMAL"
    assert model.gap_ <= model.tol
    assert model.classes_.tolist() == sorted(NAMES)
    assert model.score(*held_out) > 0.85
    alone = np.mean([NAMES[np.argmax(row)] == label for x, z in zip(*held_out, strict=True)
                     for row, label in zip(x, z, strict=True)])  # fmt: skip
    assert model.score(*held_out) > alone + 0.1
    predicted = model.predict(held_out[0])
    assert isinstance(predicted, list)
    assert [len(labels) for labels in predicted] == [len(labels) for labels in held_out[1]]
    same = pickle.loads(pickle.dumps(model)).predict(held_out[0])
    assert all(np.array_equal(a, b) for a, b in zip(same, predicted, strict=True))
    if isinstance(model, ChainCRF):
        for shares, labels in zip(model.predict_proba(held_out[0]), predicted, strict=True):
            np.testing.assert_allclose(shares.sum(axis=1), 1.0, rtol=1e-9)
            assert np.mean(model.classes_[shares.argmax(axis=1)] == labels) > 0.4
    in_sparse = clone(model).fit([sparse.csr_array(x) for x in X], y)
    assert in_sparse.objective_ == pytest.approx(model.objective_, rel=2e-3)


def test_it_is_the_problem_that_is_documented():
    X, y = sentences(m=20)
    codes = [np.searchsorted(np.sort(NAMES), z) for z in y]
    weights = np.arange(1.0, 21.0)
    for model, risk in (
        (ChainSSVM(alpha=0.1, tol=1e-6), cut.structured.ChainRisk(X, codes, sample_weight=weights)),
        (ChainCRF(alpha=0.1, tol=1e-6), cut.structured.ChainLogLikelihood(X, codes, sample_weight=weights)),
    ):
        model.fit(X, y, sample_weight=weights)
        w = np.append(model.coef_, model.transitions_)
        assert model.objective_ == pytest.approx(risk(w) + 0.05 * w @ w, rel=1e-9)
        assert model.objective_ == pytest.approx(
            cut.Problem(risk, cut.L2(0.1)).solve(cut.ProximalBundle(), tol=1e-6).objective, rel=2e-6
        )


def test_searches_over_parameters_work():
    X, y = sentences(m=30)
    search = GridSearchCV(ChainSSVM(), {"alpha": [0.1, 1.0]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.8
    assert len(cross_val_score(ChainCRF(), X, y, cv=3)) == 3


def test_wrong_input_is_refused():
    X, y = sentences(m=4)
    with pytest.raises(NotFittedError):
        ChainSSVM().predict(X)
    for wrong, words in (
        (lambda: ChainSSVM(alpha=0.0).fit(X, y), "alpha"),
        (lambda: ChainSSVM(loss="zero").fit(X, y), "loss must be one of"),
        (lambda: ChainCRF().fit(X[0], y[0]), "one entry for each sequence"),
        (lambda: ChainCRF().fit(X, y[:2]), "one label for each row"),
        (lambda: ChainCRF().fit(X, y).predict([np.ones((2, 5))]), "expecting 3 features"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            wrong()
    with pytest.warns(ConvergenceWarning, match="MAX_ITER"):
        ChainSSVM(tol=1e-9, max_iter=2).fit(X, y)

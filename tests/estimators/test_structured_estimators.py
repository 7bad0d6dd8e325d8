"""Estimators of structured outputs: sequences, sets of labels, three functions."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from test_contract import CHAINS, NAMES, sentences

import cutplane as cut
from cutplane.estimators import ChainCRF, ChainCRFCV, ChainSSVM, MultilabelSVM, StructuredSVM
from cutplane.exceptions import InvalidInputError
from cutplane.structured import MultilabelRisk


@pytest.mark.parametrize("model", CHAINS[:3], ids=str)
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
    if isinstance(model, ChainCRF):
        for shares, labels in zip(model.predict_proba(held_out[0]), predicted, strict=True):
            np.testing.assert_allclose(shares.sum(axis=1), 1.0, rtol=1e-9)
            assert np.mean(model.classes_[shares.argmax(axis=1)] == labels) > 0.4


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


def test_sequences_of_another_width_are_refused():
    X, y = sentences(m=4)
    with pytest.raises(NotFittedError):
        ChainSSVM().predict(X)
    with pytest.raises(InvalidInputError, match="expecting 3 features"):
        ChainCRF().fit(X, y).predict([np.ones((2, 5))])
    assert all(found.size for found in ChainCRFCV(cv=2).fit(X, [z.tolist() for z in y]).predict(X))


def labelled(m=60, seed=0):
    """Return examples with three labels, the third of which is there if both others are."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, 2))
    Y = np.column_stack([X > 0.0, (X > 0.0).all(axis=1)]).astype(int)
    return X + 0.1 * rng.standard_normal(X.shape), Y


def test_sets_of_labels():
    X, Y = labelled()
    model = MultilabelSVM(alpha=1e-2).fit(X, Y)
    assert model.result_.status == "OPTIMAL"
    w = np.append(np.column_stack([model.coef_, model.intercept_]), model.pair_coef_)
    risk = MultilabelRisk(X, Y, "all")
    assert model.objective_ == pytest.approx(risk(w) + 0.005 * w @ w, rel=1e-9)
    assert model.score(*labelled(seed=1)) > MultilabelSVM(pairs=()).fit(X, Y).score(*labelled(seed=1)) - 0.02
    assert model.score(*labelled(seed=1)) >= 0.8
    assert MultilabelSVM(decoder="outer", tol=1e-2).fit(X, Y).predict(X).shape == Y.shape


def test_three_functions():
    def features(x, y):
        return np.kron(np.eye(3)[y], x)

    def best(x, w):
        return int(np.argmax(w.reshape(3, -1) @ x))

    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 2))
    Y = (X @ rng.standard_normal((2, 3))).argmax(axis=1).tolist()
    functions = {
        "joint_feature": features,
        "loss": lambda a, b: float(a != b),
        "loss_augmented_inference": lambda x, y, w: int(
            np.argmax(w.reshape(3, -1) @ x + (np.arange(3) != y))
        ),
    }
    model = StructuredSVM(**functions, inference=best, alpha=1e-2).fit(list(X), Y)
    direct = cut.Problem(cut.MulticlassRisk(X, Y), cut.L2(1e-2)).solve()
    assert model.objective_ == pytest.approx(direct.objective, rel=2e-3)
    assert model.score(list(X), Y) > -0.1
    search = GridSearchCV(model, {"alpha": [1e-2, 10.0]}, cv=2).fit(list(X), Y)
    assert search.best_score_ > -0.15
    with pytest.raises(InvalidInputError, match=r"need a function inference\(x, w\)"):
        StructuredSVM(**functions).fit(list(X), Y).predict(list(X))

"""Estimators of structured outputs: three functions, sets of labels, and chosen weights of chains."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold
from test_chain_estimators import sentences

import cutplane as cut
from cutplane.estimators import ChainCRF, ChainCRFCV, ChainSSVM, ChainSSVMCV, MultilabelSVM, StructuredSVM
from cutplane.exceptions import InvalidInputError
from cutplane.structured import MultilabelRisk


@pytest.mark.parametrize(("chosen", "given"), [(ChainSSVMCV, ChainSSVM), (ChainCRFCV, ChainCRF)])
def test_the_weight_is_chosen_by_the_scores_of_separate_fits(chosen, given):
    X, y = sentences(m=30)
    folds = KFold(3, shuffle=True, random_state=0)
    alphas = [1e-2, 1.0, 100.0]
    model = chosen(alphas=alphas, cv=folds, tol=1e-4).fit(X, y)
    assert model.alphas_.tolist() == alphas[::-1]
    assert model.scores_.shape == (3, 3)
    search = GridSearchCV(given(tol=1e-4), {"alpha": alphas}, cv=folds).fit(X, y)
    expected = search.cv_results_["mean_test_score"][::-1]
    np.testing.assert_allclose(model.scores_.mean(axis=1), expected, atol=0.02)
    assert model.alpha_ == alphas[::-1][int(np.argmax(model.scores_.mean(axis=1)))]
    alone = given(alpha=model.alpha_, tol=1e-4).fit(X, y)
    assert model.objective_ == pytest.approx(alone.objective_, rel=2e-4)
    assert clone(model).fit(X, y).scores_.tolist() == model.scores_.tolist()
    assert [row.tolist() for row in model.fit(X, [z.tolist() for z in y]).predict(X)]
    with pytest.raises(InvalidInputError, match="alphas must be positive"):
        chosen(alphas=[0.0]).fit(X, y)


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
    same = pickle.loads(pickle.dumps(model))
    assert np.array_equal(same.predict(X), model.predict(X))
    in_sparse = clone(model).fit(sparse.csr_array(X), Y)
    assert in_sparse.objective_ == pytest.approx(model.objective_, rel=2e-3)
    search = GridSearchCV(MultilabelSVM(), {"pairs": ["all", ()]}, cv=2).fit(X, Y)
    assert search.best_score_ > 0.7
    assert MultilabelSVM(decoder="outer", tol=1e-2).fit(X, Y).predict(X).shape == Y.shape
    for wrong in (MultilabelSVM(pairs=[[0, 3]]), MultilabelSVM(loss="zero"), MultilabelSVM(alpha=-1.0)):
        with pytest.raises(InvalidInputError):
            wrong.fit(X, Y)


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

from itertools import product

import cvxpy as cp
import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import f1_score, fbeta_score, precision_score, recall_score
from sklearn.preprocessing import StandardScaler
from vector_risks import features

import cutplane as cut
from cutplane import L2, MeasureRisk, Problem, RankingRisk, Status
from cutplane.estimators import MeasureClassifier
from cutplane.exceptions import InvalidInputError
from cutplane.measures import (
    FBeta,
    Measure,
    PrecisionAt,
    PrecisionRecallBreakEven,
    RecallAt,
    RocArea,
    TableMeasure,
    measures,
)
from cutplane.runtime.compiling import compiling_at
from cutplane.testing import check_risk

N = 4


class BalancedError(TableMeasure):
    concave = True

    def loss(self, true_positives, false_positives, positives, negatives):
        return 0.5 * (1.0 - true_positives / positives) + 0.5 * false_positives / negatives


class Matthews(TableMeasure):
    """Of no useful shape: it is searched whole."""

    def loss(self, true_positives, false_positives, positives, negatives):
        a, b = true_positives, false_positives
        c, d = positives - a, negatives - b
        size = np.sqrt(np.maximum((a + b) * (a + c) * (d + b) * (d + c), 1.0))
        return 0.5 - 0.5 * (a * d - b * c) / size


class SquaredErrors(TableMeasure):
    """Wrong: it says that it is concave in the false positives."""

    concave = True

    def loss(self, true_positives, false_positives, positives, negatives):
        return (false_positives / negatives - 0.5) ** 2 + 1.0 - true_positives / positives


TABLES = [
    FBeta(),
    FBeta(0.3),
    FBeta(2.0),
    PrecisionAt(1),
    PrecisionAt(3),
    PrecisionAt(6),
    RecallAt(2),
    PrecisionRecallBreakEven(),
    BalancedError(),
    Matthews(),
]


def labellings(measure, y):
    """Every labelling that is compared, with its loss, by the definition."""
    P, m = int((y > 0).sum()), len(y)
    k = measure.predicted(P, m - P)
    for v in product([-1.0, 1.0], repeat=m):
        v = np.array(v)
        a, b = int(((v > 0) & (y > 0)).sum()), int(((v > 0) & (y < 0)).sum())
        if k is None or a + b == k:
            yield v, float(measure.loss(a, b, P, m - P))


def pieces(measure, y):
    """The loss of every labelling, and its slope: from the mean of the best ones, y itself if it is there."""
    found = list(labellings(measure, y))
    least = min(loss for _, loss in found)
    best = np.mean([v for v, loss in found if loss <= least + 1e-12], axis=0)
    assert measure.predicted((y > 0).sum(), (y < 0).sum()) is not None or (best == y).all()
    return [(loss, (v - best) / len(y)) for v, loss in found]


def instance(seed=0, m=40):
    rng = np.random.default_rng(seed)
    X = features(rng, m, N)
    y = np.where(X @ rng.standard_normal(N) + 0.5 * rng.standard_normal(m) > 0.6, 1.0, -1.0)
    return X, y, rng


@pytest.mark.parametrize("share", [0.0, np.inf])
@pytest.mark.parametrize("measure", TABLES, ids=repr)
def test_the_search_finds_the_worst_labelling(measure, share):
    """By brute force, with ties among scores, on at most 8 examples and every number of positives."""
    rng = np.random.default_rng(5)
    with compiling_at(share):
        for m, P in [(6, 1), (6, 5), (8, 3), (8, 5), (8, 4)]:
            y = rng.permutation(np.where(np.arange(m) < P, 1.0, -1.0))
            f, found = MeasureRisk(np.eye(m), y, measure), pieces(measure, y)
            assert f.infima[0] == pytest.approx(min(loss for loss, _ in found), abs=1e-13)
            for z in (rng.standard_normal(m), rng.integers(-2, 3, m) / 2.0, np.zeros(m), 5.0 * y):
                value, slope = f.oracle(z)
                assert value == pytest.approx(max(loss + u @ z for loss, u in found), abs=1e-13)
                assert any(
                    np.allclose(slope, u) and loss + u @ z == pytest.approx(value) for loss, u in found
                )
                assert value >= f.infima[0] - 1e-13


@pytest.mark.parametrize("measure", [FBeta(), FBeta(0.3), FBeta(2.0), BalancedError(), Matthews()], ids=repr)
def test_the_search_finds_what_the_whole_table_holds(measure, monkeypatch):
    """On sizes that brute force does not reach: two classes of many sizes, scores tied and not."""
    monkeypatch.setattr(measures, "_ROOM", 100)
    rng = np.random.default_rng(6)
    for m in (30, 61, 200):
        for P in (1, m // 7, m // 2, m - 1):
            y = rng.permutation(np.where(np.arange(m) < P, 1.0, -1.0))
            for z in (m * rng.standard_normal(m), rng.standard_normal(m) + y, rng.integers(-3, 4, m) / 4.0):
                loss, u = measure.most_violated(z, y > 0)
                a, b = np.meshgrid(np.arange(P + 1), np.arange(m - P + 1), indexing="ij")
                best = np.append(0.0, np.cumsum(np.sort(z[y < 0])[::-1]))
                worst = np.append(0.0, np.cumsum(np.sort(z[y > 0])))
                sums = measure.loss(a, b, P, m - P) + 2.0 / m * (best[b] - worst[P - a])
                assert loss + u @ z == pytest.approx(sums.max(), rel=1e-12, abs=1e-12)


def test_losses_are_those_of_scikit_learn():
    rng = np.random.default_rng(2)
    for _ in range(20):
        y, v = rng.permutation(np.arange(12) < 5), rng.permutation(np.arange(12) < rng.integers(1, 12))
        table = int((v & y).sum()), int((v & ~y).sum()), 5, 7
        for beta in (0.3, 1.0, 2.0):
            assert FBeta(beta).loss(*table) == pytest.approx(1.0 - fbeta_score(y, v, beta=beta))
        k = int(v.sum())
        assert PrecisionAt(k).loss(*table) == pytest.approx(1.0 - precision_score(y, v))
        for measure in (RecallAt(k), PrecisionRecallBreakEven()):
            assert measure.loss(*table) == pytest.approx(1.0 - recall_score(y, v))


def test_roc_area_is_the_ranking_risk_of_two_levels():
    X, y, rng = instance()
    f, g = MeasureRisk(X, y, RocArea()), RankingRisk(X, y)
    for x in (np.zeros(N), rng.standard_normal(N), 0.1 * rng.standard_normal(N)):
        assert f(x) == pytest.approx(g(x), rel=1e-13)
        np.testing.assert_allclose(f.oracle(x)[1], g.oracle(x)[1], atol=1e-13)


def test_roc_area_at_its_kinks_is_below_by_brute_force():
    """The pairs counted twice: as pairs, and as the orders of a positive and a negative."""
    rng = np.random.default_rng(1)
    for _ in range(50):
        m = int(rng.integers(2, 8))
        y = np.where(rng.permutation(m) < rng.integers(1, m), 1.0, -1.0)
        z = rng.integers(-3, 4, m) / 2.0
        losses = np.maximum(0.0, 1.0 - np.subtract.outer(z[y > 0], z[y < 0]))
        assert MeasureRisk(np.eye(m), y, RocArea())(z) == pytest.approx(losses.mean())


def test_a_measure_that_is_not_concave_is_found():
    X, y, _ = instance(3)
    f = MeasureRisk(X, y, SquaredErrors())
    assert not check_risk(f, scale=0.3, raise_on_failure=False)


@pytest.mark.parametrize(
    "measure", [FBeta(), FBeta(0.4), PrecisionAt(2), PrecisionAt(5), BalancedError()], ids=repr
)
@pytest.mark.parametrize("method", ["auto", "bmrm", "ocas"])
def test_the_optimum_is_that_of_all_labellings(measure, method):
    X, y, _ = instance(7, m=9)
    w = cp.Variable(N)
    losses, slopes = (np.array(part) for part in zip(*pieces(measure, y), strict=True))
    objective = cp.max(losses + slopes @ X @ w) + 0.05 * cp.sum_squares(w)
    expected = cp.Problem(cp.Minimize(objective)).solve(solver=cp.CLARABEL)
    result = Problem(MeasureRisk(X, y, measure), L2(0.1)).solve(method, tol=1e-6)
    assert result.status is Status.OPTIMAL and result.certificate.verify().valid
    assert result.objective == pytest.approx(expected, rel=2e-6, abs=1e-8)


class Hamming(Measure):
    """The mean hinge loss of the examples, found without a table; `factor` times the slope is wrong."""

    def __init__(self, factor=1.0):
        self.factor = factor

    def most_violated(self, scores, positive):
        y = np.where(positive, 1.0, -1.0)
        wrong = y * scores < 1.0
        return wrong.mean(), -self.factor * y * wrong / len(y)


def test_a_measure_of_ones_own_search_is_solved():
    X, y, _ = instance(2)
    result = Problem(MeasureRisk(X, y, Hamming(), intercept=True), L2(0.1)).solve(tol=1e-6)
    hinge = cut.LinearRisk(X, y, cut.losses.Hinge(), intercept=True)
    assert result.objective == pytest.approx(Problem(hinge, L2(0.1)).solve(tol=1e-6).objective, rel=1e-5)


def test_a_measure_of_ones_own_is_asked_before_it_is_believed():
    X, y, _ = instance(2)
    found = Problem(MeasureRisk(X, y, Hamming()), L2(0.1)).solve()
    wrong = Problem(MeasureRisk(X, y, Hamming(3.0)), L2(0.1)).solve()
    ours = Problem(MeasureRisk(X, y, FBeta()), L2(0.1)).solve()
    assert (found.status, wrong.status) == (Status.OPTIMAL, Status.INVALID_ORACLE)
    assert "probes" in found.reason and "probes" not in ours.reason


def test_infima_are_the_least_losses():
    X, y, _ = instance()
    P = int((y > 0).sum())
    fixed = {PrecisionAt(P): 0.0, PrecisionAt(P + 2): 2 / (P + 2), RecallAt(P - 1): 1 / P, RecallAt(39): 0.0}
    for measure, infimum in {FBeta(): 0.0, RocArea(): 0.0, Matthews(): 0.0, **fixed}.items():
        f = MeasureRisk(X, y, measure)
        assert f.infima == pytest.approx(infimum)
        if measure.ranks:
            assert MeasureRisk(np.eye(40), y, measure)(np.full(40, 7.0)) == pytest.approx(f(np.zeros(N)))


class NotANumber(TableMeasure):
    def loss(self, true_positives, false_positives, positives, negatives):
        return np.nan * true_positives + false_positives


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": [1, 1, 1, 1]}, "labels of both signs, but every y is 1"),
        ({"y": [0, 1, 1, 0]}, "pass 2.0 . y - 1.0"),
        ({"y": [1, -1]}, r"one label per row of X, shape \(4,\)"),
        ({"measure": "f1"}, "measure such as cutplane.measures.FBeta.., got 'f1'"),
        ({"measure": FBeta}, r"did you mean FBeta\(\)"),
        (
            {"measure": PrecisionAt(5)},
            r"PrecisionAt\(k=5\) needs at least 5 examples, got 4; pass a smaller k",
        ),
        ({"measure": RocArea(), "intercept": True}, "order of the scores alone"),
        ({"intercept": 1}, "intercept must be True or False"),
    ],
)
def test_wrong_input_is_named(arguments, message):
    given = {"X": np.eye(4), "y": [1, -1, 1, -1], "measure": FBeta(), **arguments}
    with pytest.raises(InvalidInputError, match=message):
        MeasureRisk(**given)


def test_wrong_parameters_and_losses_are_named():
    for make in (lambda: FBeta(0.0), lambda: PrecisionAt(0), lambda: RecallAt(2.5)):
        with pytest.raises(InvalidInputError, match=r"FBeta.beta|PrecisionAt.k|RecallAt.k"):
            make()
    with pytest.raises(InvalidInputError, match=r"NotANumber.* is nan with 0 true and 0 false positives"):
        MeasureRisk(np.eye(4), [1, -1, 1, -1], NotANumber())(np.zeros(4))


def rare(seed=0, m=400):
    """Few positives among many negatives, not separable."""
    X = np.random.default_rng(seed).standard_normal((m, 3))
    noise = np.random.default_rng(seed + 1).standard_normal(m)
    return X, np.where(X @ [1.0, 1.0, 0.0] + noise > 2.8, "yes", "no")


def test_the_classifier_solves_the_problem_of_its_risk():
    X, y = rare()
    signs = np.where(y == "yes", 1.0, -1.0)
    for regularize, free in ((True, 1.0), (False, 0.0)):
        model = MeasureClassifier(FBeta(2.0), alpha=1e-2, tol=1e-5, regularize_intercept=regularize).fit(X, y)
        regularizer = L2(1e-2, weights=[1.0, 1.0, 1.0, free])
        risk = MeasureRisk(X, signs, FBeta(2.0), intercept=True)
        expected = Problem(risk, regularizer).solve(tol=1e-5, x0=np.ones(4))
        assert model.objective_ == pytest.approx(expected.objective, rel=2e-5)
        assert model.result_.certificate.verify().valid
        assert model.coef_.shape == (1, 3) and model.intercept_.shape == (1,)
        chosen = X @ model.coef_[0] + model.intercept_[0] > 0.0
        np.testing.assert_array_equal(model.predict(X), np.where(chosen, "yes", "no"))


def test_training_for_f1_beats_the_threshold_that_errors_choose():
    X, y = rare(m=2000)
    found = {
        name: f1_score(y, model.fit(X, y).predict(X), pos_label="yes")
        for name, model in {
            "f1": MeasureClassifier("f1", alpha=1e-4),
            "errors": cut.estimators.LinearClassifier("hinge", alpha=1e-4),
        }.items()
    }
    assert found["f1"] > found["errors"] + 0.05


@pytest.mark.parametrize(
    ("measure", "chosen"), [("roc_area", 0), ("break_even", 0), (PrecisionAt(10), 10), (RecallAt(400), 400)]
)
@pytest.mark.filterwarnings("ignore:MeasureClassifier found coef_ = 0")
def test_measures_of_an_order_predict_as_many_as_they_should(measure, chosen):
    X, y = rare()
    model = MeasureClassifier(measure, alpha=1e-2, tol=1e-4).fit(X, y)
    assert (model.predict(X) == "yes").sum() == (chosen or (y == "yes").sum())
    plain = MeasureClassifier(measure, alpha=1e-2, fit_intercept=False, tol=1e-4).fit(X, y)
    assert plain.intercept_.tolist() == [0.0]
    np.testing.assert_array_equal(plain.coef_, model.coef_)


def test_a_classifier_of_a_measure_of_ones_own():
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    model = MeasureClassifier(BalancedError(), "l1", alpha=1e-2).fit(X, y)
    assert model.score(X, y) > 0.95 and np.count_nonzero(model.coef_) < 30


def test_what_the_classifier_refuses():
    X, y = rare()
    for model, labels, message in (
        (MeasureClassifier("f2"), y, r"measure must be one of \['break_even', 'f1', 'roc_area'\]"),
        (MeasureClassifier(alpha=0.0), y, "alpha must be in"),
        (MeasureClassifier(), np.arange(400) % 3, "Only binary classification is supported .* 3 classes"),
        (MeasureClassifier(PrecisionAt(401)), y, "needs at least 401 examples, got 400"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            model.fit(X, labels)

import cvxpy as cp
import numpy as np
import pytest
from covering import covering
from scipy import sparse
from sklearn import config_context
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold, cross_val_score
from vector_risks import LAYOUTS, features

from cutplane import L2, OCAS, Direct, LinearRisk, Problem, RankingRisk, Status, maximum
from cutplane.estimators import LinearRanker
from cutplane.exceptions import InvalidInputError, MissingCapabilityError
from cutplane.losses import Squared
from cutplane.measures.passes import wrong_pairs
from cutplane.runtime.compiling import compiling_at

M, N, R = 24, 5, 4
RNG = np.random.default_rng(8)
COSTS = {
    "ones": None,
    "gain": "gain",
    "matrix": RNG.random((R, R)) * (RNG.random((R, R)) < 0.8),
    "callable": lambda low, high: (high - low) ** 2,
}
GROUPS = {
    "one query": None,
    "ids": RNG.integers(5, 9, M),
    "names": np.array(list("abc"))[RNG.integers(0, 3, M)],
    "sizes": [7, 1, 12, 4],
}


def instance(seed=0, m=M, n=N):
    rng = np.random.default_rng(seed)
    return features(rng, m, n), rng.permutation(np.arange(m) % R), rng


def cost_of(cost):
    """The cost of a pair of levels 0, ..., R - 1 by the definition."""
    if cost is None:
        return lambda low, high: 1.0
    if isinstance(cost, str):
        return lambda low, high: 2.0**high - 2.0**low
    return cost if callable(cost) else lambda low, high: cost[low, high]


def pairs(relevance, groups, cost):
    """Every pair of rows i, j with y_i < y_j in one query, and its cost, by the definition."""
    m, price = len(relevance), cost_of(cost)
    ids = np.zeros(m) if groups is None else np.asarray(groups)
    if len(ids) < m:
        ids = np.repeat(np.arange(len(ids)), ids)
    return [
        (i, j, price(relevance[i], relevance[j]))
        for i in range(m)
        for j in range(m)
        if ids[i] == ids[j] and relevance[i] < relevance[j]
    ]


def plain(scores, found):
    """The risk, and its slope in the scores, pair by pair."""
    value, u, total = 0.0, np.zeros_like(scores), sum(cost for *_, cost in found)
    for i, j, cost in found:
        loss = 1.0 + scores[i] - scores[j]
        if loss > 0.0:
            value += cost / total * loss
            u[i] += cost / total
            u[j] -= cost / total
    return value, u


@pytest.mark.parametrize(
    ("layout", "dtype", "groups", "cost"), covering(LAYOUTS, [np.float32, np.float64], GROUPS, COSTS), ids=str
)
def test_ranking_risk_is_its_formula(layout, dtype, groups, cost):
    X, relevance, rng = instance()
    X = X.astype(dtype)
    f = RankingRisk(LAYOUTS[layout](X), relevance, GROUPS[groups], COSTS[cost])
    found = pairs(relevance, GROUPS[groups], COSTS[cost])
    assert (f.n_pairs, f.X.dtype, f.infima.tolist()) == (len(found), dtype, [0.0])
    assert f.total == pytest.approx(sum(price for *_, price in found))
    for size in (0.0, 0.1, 1.0, 10.0):
        x = size * rng.standard_normal(N)
        value, u = plain(X.astype(np.float64) @ x, found)
        assert f.oracle(x)[0] == pytest.approx(value, rel=1e-11)
        np.testing.assert_allclose(f.oracle(x)[1], X.T.astype(np.float64) @ u, atol=1e-11)


@pytest.mark.parametrize("share", [0.0, np.inf])
def test_ties_and_kinks_of_small_instances(share):
    """Scores on a grid of halves, so that they tie and that losses are at their kinks; compiled and not."""
    rng = np.random.default_rng(2)
    with compiling_at(share):
        for _ in range(150):
            m = int(rng.integers(2, 9))
            relevance, ids = rng.integers(0, 4, m), rng.integers(0, 2, m)
            found = pairs(relevance, ids, None)
            if not found:
                continue
            f = RankingRisk(np.eye(m), relevance, ids)
            scores, other = rng.integers(-3, 4, (2, m)) / 2.0
            value, slope = f.oracle(scores)
            assert value == pytest.approx(plain(scores, found)[0], abs=1e-14)
            assert plain(other, found)[0] >= value + slope @ (other - scores) - 1e-14


def test_threads_tables_and_trees_give_the_same():
    """Many queries, so that the pass is split; a matrix of ones is no costs at all, and a tree counts too."""
    m = 20_000
    rng = np.random.default_rng(4)
    X, relevance, ids = rng.standard_normal((m, 3)), rng.integers(0, 3, m), rng.integers(0, 900, m)
    f, g = RankingRisk(X, relevance, ids), RankingRisk(X, relevance, ids, np.ones((3, 3)))
    assert len(f._chunks) > 1 and f.total == g.total == f.n_pairs
    x = rng.standard_normal(3)
    z = f.image(x).scores
    order = np.lexsort((z, ids))
    starts = np.append(0, np.cumsum(np.bincount(ids)))
    u = np.empty(m)
    wrong = wrong_pairs(z, order, starts, relevance, 3, np.empty((0, 0, 0)), 0, 900, u)
    for risk in (f, g):
        value, slope = risk.oracle(x)
        assert value == pytest.approx((wrong + u @ z) / f.total, rel=1e-12)
        np.testing.assert_allclose(slope, X.T @ u / f.total, rtol=1e-9)


@pytest.mark.parametrize("method", ["auto", "proximal", "ocas", Direct()], ids=str)
@pytest.mark.parametrize("cost", [None, "gain"])
def test_the_optimum_is_that_of_all_pairs(method, cost):
    X, relevance, rng = instance(5, m=60)
    ids = rng.integers(0, 7, 60)
    found = pairs(relevance, ids, cost)
    lower, higher, prices = map(np.array, zip(*found, strict=True))
    w = cp.Variable(N)
    losses = cp.pos(1.0 - (X[higher] - X[lower]) @ w)
    expected = cp.Problem(cp.Minimize(prices / prices.sum() @ losses + 0.005 * cp.sum_squares(w))).solve()
    result = Problem(RankingRisk(X, relevance, ids, cost), L2(1e-2)).solve(method, tol=1e-6)
    assert result.status is Status.OPTIMAL and result.certificate.verify().valid
    assert result.objective == pytest.approx(expected, rel=2e-6)


def test_the_conic_form_is_withheld_where_pairs_are_many():
    rng = np.random.default_rng(0)
    f = RankingRisk(rng.standard_normal((700, 2)), np.arange(700) % 2)
    assert f.n_pairs == 350**2
    with pytest.raises(MissingCapabilityError, match="RankingRisk"):
        Problem(f, L2(1.0)).solve(Direct())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"relevance": [0, 1]}, r"relevance must have shape \(4,\)"),
        ({"relevance": [3, 3, 3, 3]}, "two rows of different relevance in one query"),
        (
            {"groups": [0, 1, 2, 2], "relevance": [0, 1, 5, 5]},
            "but none of the 3 queries over 4 rows has any",
        ),
        ({"groups": [2, 3]}, "positive integers with the sum 4; got shape .2,., dtype int64 and the sum 5"),
        ({"groups": [4, 0]}, "positive integers"),
        ({"groups": [1.5, 2.5]}, "dtype float64"),
        ({"cost": "dcg"}, 'cost must be None, "gain"'),
        ({"cost": np.ones((2, 2))}, r"shape \(3, 3\) for the 3 levels of relevance, got shape \(2, 2\)"),
        ({"cost": -np.ones((3, 3))}, "a pair of the levels 0 and 1 is -1; it must be finite and at least 0"),
        ({"cost": "gain", "relevance": [0, 1, 2, 2000]}, "the levels 0 and 2000 is inf"),
        ({"cost": np.zeros((3, 3))}, "two rows of a positive cost"),
    ],
)
def test_wrong_input_is_named(arguments, message):
    given = {"X": sparse.eye_array(4).tocsr(), "relevance": [0, 1, 2, 2], **arguments}
    with pytest.raises(InvalidInputError, match=message):
        RankingRisk(**given)


def test_a_search_takes_three_evaluations_at_most_and_keeps_their_cuts(monkeypatch):
    X, relevance, _ = instance(9, m=80)
    found, search = [], RankingRisk.largest_piece

    def counted(risk, scores):
        found.append(search(risk, scores))
        return found[-1]

    monkeypatch.setattr(RankingRisk, "largest_piece", counted)
    result = Problem(RankingRisk(X, relevance), L2(1e-3)).solve(OCAS(), tol=1e-5)
    assert result.status is Status.OPTIMAL and result.n_iter > 5
    assert len(found) <= 1 + 5 * result.n_iter  # the minimiser of the model, three on the line, the next cut
    assert result.history[-1].n_cuts >= len({u.tobytes() for _, u in found}) - 1


def test_a_line_of_pieces_is_costly_if_one_is():
    X, relevance, rng = instance()
    f, g = RankingRisk(X, relevance), LinearRisk(X, relevance, Squared())
    for risk, costly in ((f, True), (2.0 * f, True), (g + f, True), (maximum(f, g), True), (g + g, False)):
        assert risk.line(*map(risk.image, rng.standard_normal((2, N)))).costly is costly


@pytest.mark.parametrize("cost", COSTS)
def test_accuracy_is_the_share_of_pairs_in_order(cost):
    X, relevance, _ = instance()
    X = X.round()  # ties
    for x in (np.zeros(N), np.arange(N) - 2.0):
        z, found = X @ x, pairs(relevance, GROUPS["ids"], COSTS[cost])
        right = sum(price * (0.5 + 0.5 * np.sign(z[j] - z[i])) for i, j, price in found)
        risk = RankingRisk(X, relevance, GROUPS["ids"], COSTS[cost])
        assert risk.accuracy(x) == pytest.approx(right / risk.total)
    y = np.where(relevance > 1, 1, 0)
    assert RankingRisk(X, y).accuracy(x) == pytest.approx(roc_auc_score(y, z))


@pytest.mark.parametrize("layout", ["C", "csr", "csc"])
def test_the_ranker_solves_the_problem_of_its_risk(layout):
    X, relevance, _ = instance(5, m=60)
    ids = np.arange(60) // 9
    X = LAYOUTS[layout](X)
    model = LinearRanker(alpha=1e-2, cost="gain", tol=1e-6).fit(X, relevance, groups=ids)
    risk = RankingRisk(X, relevance, ids, "gain")
    result = Problem(risk, L2(1e-2)).solve(tol=1e-6)
    assert model.objective_ == pytest.approx(result.objective, rel=2e-6)
    assert model.result_.certificate.verify().valid and model.gap_ <= 1e-6
    np.testing.assert_allclose(model.predict(X), X @ model.coef_)
    assert model.score(X, relevance, groups=ids) == model.result_.certificate.problem.risk.accuracy(
        model.coef_
    )
    sizes = LinearRanker(alpha=1e-2, cost="gain", tol=1e-6).fit(X, relevance, groups=np.bincount(ids))
    np.testing.assert_array_equal(sizes.coef_, model.coef_)


def test_cross_validation_keeps_queries_together():
    X, _, rng = instance(5, m=120)
    ids, w = np.arange(120) // 10, rng.standard_normal(N)
    relevance = np.floor(X @ w + 0.1 * rng.standard_normal(120)).clip(-1, 2)
    with config_context(enable_metadata_routing=True):
        model = LinearRanker().set_fit_request(groups=True).set_score_request(groups=True)
        scores = cross_val_score(model, X, relevance, cv=GroupKFold(3), params={"groups": ids})
    assert scores.shape == (3,) and scores.min() > 0.9


def test_an_l1_penalty_leaves_zeros():
    X, relevance, _ = instance(5, m=60)
    model = LinearRanker("l1", alpha=0.05).fit(X, relevance)
    assert 0 < np.count_nonzero(model.coef_) < N

"""Soft-margin boosting against the linear programme over all hypotheses."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from sklearn.datasets import load_breast_cancer
from sklearn.tree import DecisionTreeClassifier

import cutplane as cut
from cutplane.boosting import (
    Column,
    CorrectiveERLPBoost,
    DecisionStumps,
    EarlyStopping,
    Ensemble,
    ERLPBoost,
    HypothesisMatrix,
    LPBoost,
    MLPBoost,
    SoftMargin,
    Stump,
    plot_margins,
)
from cutplane.boosting.methods import SmoothedMargin
from cutplane.boosting.result import soft_margin
from cutplane.exceptions import InvalidInputError, OracleError

SMOOTHED = [
    ERLPBoost(),
    CorrectiveERLPBoost(),
    CorrectiveERLPBoost(step="short"),
    MLPBoost(),
    MLPBoost(step="short"),
    MLPBoost(step="open_loop"),
]


def largest_soft_margin(A, nu):
    """The primal: max rho - 1/nu sum xi, A w >= rho - xi, w in the simplex; A is m x N."""
    m, n = A.shape
    cost = np.concatenate([np.zeros(n), np.full(m, 1.0 / nu), [-1.0]])
    rows = np.hstack([-A, -np.eye(m), np.ones((m, 1))])
    answer = linprog(
        cost,
        A_ub=rows,
        b_ub=np.zeros(m),
        A_eq=np.concatenate([np.ones(n), np.zeros(m + 1)])[None],
        b_eq=[1.0],
        bounds=[(0, None)] * (n + m) + [(None, None)],
        method="highs",
    )
    return -answer.fun


def instance(seed):
    """Hypotheses, right more often than not, of which some are real-valued, some the same; nu from 1 to m."""
    rng = np.random.default_rng(seed)
    m, n = int(rng.integers(2, 60)), int(rng.integers(1, 40))
    y = rng.choice([-1.0, 1.0], m)
    H = np.where(rng.random((m, n)) < 0.6, y[:, None], -y[:, None])
    if seed % 3 == 0:
        H = H * rng.random((m, n))
    if seed % 4 == 0:
        H[:, -1] = H[:, 0]
    nu = [1.0, float(m), 1.0 + (m - 1) * rng.random()][seed % 3]
    return H, y, nu


@pytest.mark.parametrize("seed", range(20))
def test_lpboost_solves_the_linear_programme(seed):
    H, y, nu = instance(seed)
    result = SoftMargin(H, y, nu, HypothesisMatrix()).solve(LPBoost(), tol=1e-8)
    A = y[:, None] * H
    optimum = largest_soft_margin(A, nu)
    assert result.status is cut.Status.OPTIMAL and result.is_global
    assert result.soft_margin == pytest.approx(optimum, abs=1e-7)
    assert result.edge == pytest.approx(optimum, abs=1e-7)
    slackness(result, H, y, nu)


def slackness(result, H, y, nu):
    """Weights only where the edge is largest; caps active where the margin is below rho, zero where above."""
    edges = (result.distribution * y) @ H
    for hypothesis in result.ensemble.hypotheses:
        assert edges[hypothesis.j] >= edges.max() - 1e-6
    margins = y * result.ensemble.decision_function(H)
    np.testing.assert_allclose(margins, result.margins, atol=1e-12)
    d = result.distribution
    assert d.sum() == pytest.approx(1.0) and (d >= -1e-12).all() and (d <= 1.0 / nu + 1e-9).all()
    partly = margins[(d > 1e-6) & (d < 1.0 / nu - 1e-6)]
    rho = partly.mean() if partly.size else None
    if rho is not None:
        assert np.ptp(partly) <= 1e-5
        assert (d[margins > rho + 1e-5] <= 1e-6).all()
        assert (d[margins < rho - 1e-5] >= 1.0 / nu - 1e-6).all()


@pytest.mark.parametrize("seed, method", [(seed, SMOOTHED[seed % 6]) for seed in range(8)], ids=repr)
def test_smoothed_methods_come_within_their_tolerance(seed, method):
    H, y, nu = instance(seed)
    tol = 0.05
    result = SoftMargin(H, y, nu, HypothesisMatrix()).solve(method, tol=tol)
    optimum = largest_soft_margin(y[:, None] * H, nu)
    assert result.status is cut.Status.OPTIMAL
    assert result.soft_margin >= optimum - tol - 1e-9
    assert result.soft_margin <= optimum + 1e-9 <= result.edge + 2e-9
    lower, upper = (result.history.column(f"{side}_bound") for side in ("lower", "upper"))
    assert (np.diff(lower) >= 0.0).all() and (np.diff(upper) <= 0.0).all()


def test_ensembles_of_the_linear_programme_save_rounds():
    H, y, nu = instance(9)
    result = SoftMargin(H, y, nu, HypothesisMatrix()).solve(MLPBoost(), tol=1e-3, max_iter=100)
    assert result.status is cut.Status.OPTIMAL and result.n_iter <= 25  # 18; without it more than 2000


def all_stumps(X):
    """The outputs of all distinct stumps and constants, one per column."""
    columns = []
    for j in range(X.shape[1]):
        values = np.unique(X[:, j])
        for threshold in np.append(values[0] - 1.0, 0.5 * (values[1:] + values[:-1])):
            columns.append(np.where(X[:, j] > threshold, 1.0, -1.0))
    H = np.unique(np.array(columns), axis=0).T
    return np.hstack([H, -H])


def test_stumps_certify_the_optimum_over_all_stumps():
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[:250, :3], 2.0 * y[:250] - 1.0
    nu = 0.1 * y.size
    result = SoftMargin(X, y, nu, DecisionStumps()).solve(tol=1e-7)
    assert result.status is cut.Status.OPTIMAL
    optimum = largest_soft_margin(y[:, None] * all_stumps(X), nu)
    assert result.soft_margin == pytest.approx(optimum, abs=1e-6)


@given(st.integers(0, 10**6), st.floats(1.0, 30.0), st.floats(0.01, 10.0))
@settings(max_examples=25, deadline=None)
def test_the_smoothed_margin_has_the_gradient_of_its_values(seed, nu, lam):
    rng = np.random.default_rng(seed)
    risk = SmoothedMargin(30, nu, lam)
    x, direction = rng.uniform(-1, 1, (2, 30))
    value, slope = risk.oracle(x)
    h = 1e-5 * lam
    difference = (risk.oracle(x + h * direction)[0] - risk.oracle(x - h * direction)[0]) / (2 * h)
    assert difference == pytest.approx(float(slope @ direction), abs=1e-4)
    other = risk.oracle(x + direction)[0]
    bound = risk.curvature_bound(x, direction)
    assert value + slope @ direction - 1e-9 <= other <= value + slope @ direction + 0.5 * bound + 1e-9


def test_a_learner_that_is_not_exact_gives_a_relative_bound():
    X, y = load_breast_cancer(return_X_y=True)
    y = 2.0 * y - 1.0
    learner = DecisionTreeClassifier(max_depth=2, random_state=0)
    for method in (LPBoost(), MLPBoost()):
        result = SoftMargin(X, y, 0.1 * y.size, learner).solve(method, tol=0.05, max_iter=300)
        assert result.status is cut.Status.TARGET and not result.is_global
        assert "relative" in result.reason and "relative" in repr(result)
        assert result.edge >= result.soft_margin
        edges = np.array([result.distribution @ (y * h.predict(X)) for h in result.hypotheses])
        assert edges.max() <= result.edge + 1e-12
        assert (result.ensemble.predict(X) == y).mean() > 0.95


def test_an_interrupt_before_the_first_error_is_known():
    X, y = load_breast_cancer(return_X_y=True)
    y = 2.0 * y - 1.0
    rule = EarlyStopping(X[::3], y[::3])
    result = SoftMargin(X, y, 20, DecisionStumps()).solve(early_stopping=rule, callback=lambda state: True)
    assert result.status is cut.Status.INTERRUPTED and len(result.ensemble) == 1


def test_a_learner_that_fails_leaves_the_ensemble_so_far():
    H, y, nu = instance(5)
    calls = []

    def learner(X, y, d):
        calls.append(d)
        if len(calls) > 3:
            raise RuntimeError("out of ideas")
        return Column(int(np.argmax((d * y) @ X)))

    for method in (LPBoost(), MLPBoost()):
        calls.clear()
        with pytest.raises(OracleError, match="out of ideas") as caught:
            SoftMargin(H, y, nu, learner).solve(method, tol=1e-9)
        assert len(caught.value.result.ensemble) and len(caught.value.result.history) >= 2


@pytest.mark.parametrize("method", [LPBoost(), MLPBoost(), ERLPBoost()], ids=repr)
def test_the_edge_is_that_of_a_distribution_in_the_capped_simplex(method):
    X, y = cut.datasets.twonorm(300, seed=0)
    nu = 47.3
    result = SoftMargin(X, y, nu, DecisionStumps()).solve(method, tol=0.02)
    d = result.distribution
    assert abs(d.sum() - 1.0) <= 1e-14 and d.min() >= 0.0 and d.max() <= (1.0 + 1e-14) / nu
    assert result.edge == pytest.approx(DecisionStumps().bind(X, y).best(d)[1] @ d, abs=1e-14)


def test_early_stopping_keeps_the_ensemble_of_the_least_error():
    X, y = load_breast_cancer(return_X_y=True)
    y = 2.0 * y - 1.0
    rule = EarlyStopping(X[::3], y[::3], patience=5)
    train = np.arange(len(y)) % 3 > 0
    result = SoftMargin(X[train], y[train], 3, DecisionStumps()).solve(tol=1e-6, early_stopping=rule)
    assert result.status is cut.Status.INTERRUPTED and "early stopping" in result.reason
    errors = [(predicted != y[::3]).mean() for predicted in result.staged_predict(X[::3])]
    assert (result.ensemble.predict(X[::3]) != y[::3]).mean() == min(errors)
    assert len(errors) - 1 - int(np.argmin(errors)) == 5


def test_ensembles_drop_zeros_and_vote():
    ensemble = Ensemble.of([Stump(0, 0.5, 1), Stump(0, 1.5, 1), Stump(0, 2.5, -1)], np.array([1.0, 3.0, 0.0]))
    assert len(ensemble) == 2 and ensemble.weights.tolist() == [0.25, 0.75]
    assert ensemble.predict(np.array([[0.0], [1.0], [2.0]])).tolist() == [-1.0, -1.0, 1.0]


def test_plots_take_and_return_axes():
    plt = pytest.importorskip("matplotlib.pyplot")
    H, y, nu = instance(7)
    result = SoftMargin(H, y, nu, HypothesisMatrix()).solve(tol=1e-3)
    _, ax = plt.subplots()
    assert result.plot(ax) is ax
    assert result.plot_margins().get_xlabel() == "margin"
    assert plot_margins({"a": result.margins, "b": -result.margins}, ax=ax) is ax
    assert "<table" in result._repr_html_()
    plt.close("all")


def test_auto_chooses_by_the_tolerance():
    H, y, nu = instance(5)
    problem = SoftMargin(H, y, nu, HypothesisMatrix())
    assert problem.solve(tol=0.05).method == repr(ERLPBoost())
    assert problem.solve(tol=1e-6).method == repr(LPBoost())


def test_no_rounds_at_all():
    H, y, nu = instance(5)
    result = SoftMargin(H, y, nu, HypothesisMatrix()).solve(max_iter=0)
    assert result.status is cut.Status.MAX_ITER and len(result.ensemble) == 1
    assert result.soft_margin == pytest.approx(soft_margin(result.margins, nu))


class TooLarge:
    def predict(self, X):
        return np.full(len(X), 2.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"y": np.zeros(4)}, "-1"),
        ({"nu": 0.5}, "nu"),
        ({"nu": 5.0}, "nu"),
        ({"X": np.zeros((3, 1))}, "one row per label"),
        ({"weak_learner": 3}, "weak_learner"),
    ],
)
def test_bad_input_is_named(options, message):
    arguments = {"X": np.eye(4), "y": np.array([1.0, -1, 1, -1]), "nu": 2, "weak_learner": DecisionStumps()}
    with pytest.raises(InvalidInputError, match=message):
        SoftMargin(**arguments | options)


def test_bad_options_and_hypotheses_are_named():
    problem = SoftMargin(np.eye(4), np.array([1.0, -1, 1, -1]), 2, DecisionStumps())
    with pytest.raises(InvalidInputError, match="LPBoost"):
        problem.solve("lpboost")
    with pytest.raises(InvalidInputError, match="tol"):
        problem.solve(tol=0.0)
    with pytest.raises(InvalidInputError, match="eta"):
        ERLPBoost(eta=-1.0)
    with pytest.raises(InvalidInputError, match="step"):
        MLPBoost(step="long")
    with pytest.raises(OracleError, match="1, 1"):
        SoftMargin(np.eye(4), np.array([1.0, -1, 1, -1]), 2, lambda X, y, d: TooLarge()).solve()


def test_an_eta_too_small_is_not_called_optimal():
    H, y, _ = instance(2)
    result = SoftMargin(H, y, 3.0, HypothesisMatrix()).solve(ERLPBoost(eta=0.01), tol=1e-6, max_iter=200)
    assert result.status is not cut.Status.OPTIMAL


@pytest.mark.parametrize("method", [LPBoost(), ERLPBoost(), CorrectiveERLPBoost(), MLPBoost()], ids=repr)
def test_edges_that_cancel_are_no_contradiction(method):
    for m, nu in [(20, 5.0), (20, 8.0), (12, 11.0), (24, 13.710064741989605), (48, 23.975763698075216)]:
        y = np.resize([1.0, -1.0], m)
        result = SoftMargin(np.ones((m, 2)), y, nu, DecisionStumps()).solve(method, tol=1e-2)
        assert result.status is cut.Status.OPTIMAL
        assert abs(result.edge) <= 1e-12 and result.verify().valid

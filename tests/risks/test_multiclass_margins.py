"""Multiclass margins by shares of the classes: cuts, coordinate ascent and conic solves, against cvxpy."""

import re
from dataclasses import dataclass

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse

import cutplane as cut
from cutplane.exceptions import MissingCapabilityError
from cutplane.losses import MulticlassHinge, Softmax, VectorLoss
from cutplane.risks import MulticlassRisk
from cutplane.risks.multiclass_passes import improve

COSTS = {"ones": None, "costs": np.array([[0.0, 1.0, 2.0], [0.5, 0.0, 1.0], [3.0, 0.0, 0.0]])}


@dataclass(frozen=True)
class Doubled(VectorLoss):
    """A user's margins: mistakes cost 2."""

    def value(self, s, y):
        return (s + self.margins(s.shape[1])[y]).max(axis=1) - s[np.arange(y.size), y]

    def derivative(self, s, y):
        worst = np.eye(s.shape[1])[(s + self.margins(s.shape[1])[y]).argmax(axis=1)]
        return worst - np.eye(s.shape[1])[y]

    def margins(self, p):
        return 2.0 - 2.0 * np.eye(p)

    def cvxpy_form(self, s, y):
        return 2.0 * MulticlassHinge().cvxpy_form(0.5 * s, y)


def margins_risk(layout, cost, intercept=True, m=30):
    rng = np.random.default_rng(2)
    X = np.round(rng.standard_normal((m, 4)), 2) * (rng.random((m, 4)) < 0.7)
    X[0], X[1] = 0.0, X[2]
    weights = rng.random(m)
    weights[3] = 0.0
    loss = Doubled() if cost == "user" else MulticlassHinge(COSTS[cost])
    y = rng.integers(3, size=m)
    return MulticlassRisk(layout(X), y, loss, 3, weights, intercept=intercept)


@pytest.mark.parametrize(
    ("layout", "cost", "intercept"),
    [
        (np.array, "ones", False),
        (lambda X: X.astype(np.float32), "costs", True),
        (np.asfortranarray, "user", True),
        (sparse.csr_array, "costs", False),
        (sparse.csc_array, "ones", True),
    ],
)
@pytest.mark.parametrize("method", [cut.BlockFrankWolfe(), cut.Direct(), "auto"], ids=str)
def test_margins_are_solved_by_shares_of_the_classes(layout, cost, intercept, method):
    risk = margins_risk(layout, cost, intercept)
    result = cut.Problem(risk, cut.L2(0.05)).solve(method, tol=1e-6)
    x = cp.Variable(risk.dim)
    known = cp.Problem(cp.Minimize(risk.cvxpy_form(x) + 0.025 * cp.sum_squares(x))).solve(solver=cp.CLARABEL)
    assert result.status == "OPTIMAL" and result.certificate.verify().valid
    assert result.objective == pytest.approx(known, rel=2e-6)


@pytest.mark.parametrize("layout", [np.array, sparse.csr_array])
def test_cuts_of_shares_lie_below_the_risk(layout):
    risk, rng = margins_risk(layout, "costs"), np.random.default_rng(0)
    for _ in range(20):
        u = rng.standard_normal((30, 3))  # negative ones count as 0
        assert risk.shares_of(u).min() >= 0.0
        slopes, offsets = risk.dual_cut(u.ravel())
        x = rng.standard_normal((20, risk.dim)) * 10.0 ** rng.integers(-2, 3)
        values = np.array([risk(point) for point in x])
        assert (x @ slopes[0] + offsets[0] <= values + 1e-12 * (1.0 + np.abs(values))).all()


def test_ascent_goes_on_from_shares_and_never_falls():
    risk = margins_risk(np.array, "costs")
    quadratic = cut.L2(0.01).quadratic(risk.dim)

    def bound(ascent):
        slopes, offsets = risk.dual_cut(ascent.multipliers)
        np.testing.assert_allclose(ascent.x, -slopes[0] / 0.01, atol=1e-9)
        return offsets[0] - slopes[0] @ slopes[0] / 0.02

    ascent, last = risk.block_ascent(quadratic), -np.inf
    for _ in range(5):
        ascent.advance()
        assert bound(ascent) >= last - 1e-12
        last = bound(ascent)
    assert bound(risk.block_ascent(quadratic, ascent.multipliers)) == pytest.approx(last)
    assert ascent.advance() >= 0.0


def test_other_losses_have_no_shares():
    risk = MulticlassRisk(np.eye(3), [0, 1, 2], Softmax())
    with pytest.raises(MissingCapabilityError, match="block ascent"):
        cut.Problem(risk, cut.L2(0.1)).solve(cut.BlockFrankWolfe())


@pytest.mark.parametrize("size", [1e-200, 1e-12, 1.0, 1e8])
@pytest.mark.parametrize("ties", [False, True])
def test_the_best_shares_are_those_of_the_simplex(size, ties):
    """Rows of any length: tiny ones leave all to the classes that are highest."""
    rng = np.random.default_rng(3)
    for _ in range(50):
        heights, shares = rng.standard_normal(4), rng.dirichlet(np.ones(4))
        heights[1] = heights[0] if ties else heights[1]
        new = np.empty(4)
        gap, rise = improve(heights, shares, size, new)
        assert new.min() >= 0.0 and new.sum() == pytest.approx(1.0, abs=1e-9)
        assert gap == pytest.approx(heights.max() - shares @ heights)
        # optimality: the derivative is the same on the support, and nowhere above
        slope = heights - size * (new - shares)
        assert slope.max() - slope[new > 0.0].min() <= 1e-6 * (1.0 + size)
        best = (new - shares) @ heights - 0.5 * size * ((new - shares) ** 2).sum()
        assert rise == pytest.approx(best, abs=1e-9 * (1.0 + size)) and rise >= -1e-9 * size


@pytest.mark.parametrize("scale", [1e-9, 1e-4])
def test_rows_that_are_almost_zero_do_not_lose_their_shares(scale):
    rng = np.random.default_rng(5)
    X, y = rng.standard_normal((30, 4)), rng.integers(3, size=30)
    X[::3] *= scale
    risk = MulticlassRisk(X, y, intercept=False)
    result = cut.Problem(risk, cut.L2(1.0)).solve(cut.BlockFrankWolfe(), tol=1e-8)
    x = cp.Variable(risk.dim)
    known = cp.Problem(cp.Minimize(risk.cvxpy_form(x) + 0.5 * cp.sum_squares(x))).solve(solver=cp.CLARABEL)
    assert result.status == "OPTIMAL" and result.objective == pytest.approx(known, rel=1e-6)


def test_later_visits_do_not_move_the_best_point_of_one_feature():
    X, y = np.array([2.125, -2.25, 1.25, 0.25, 2.625, 0.0, 1.25, -1.0])[:, None], [1, 1, 0, 0, 1, 0, 0, 1]
    weights = [0.3125, 1.984375, 1.375, 0.546875, 0.5, 0.515625, 0.734375, 1.0625]
    risk = MulticlassRisk(X, y, sample_weight=weights, normalize=False)
    problem = cut.Problem(risk, cut.L2(0.125, centre=[-51.296875, 49.84375]))
    result = problem.solve(cut.BlockFrankWolfe(), tol=1e-4)
    assert result.status == "OPTIMAL" and result.certificate.verify()


@pytest.mark.parametrize(
    ("margins", "words"),
    [
        (lambda p: 1.0 - np.eye(p), "where its margins give"),
        (lambda p: np.full((p, p), np.nan), "where its margins give"),
        (lambda p: np.ones(p), r"must have shape \(3, 3\)"),
    ],
)
def test_margins_that_are_not_those_of_the_values_are_named(margins, words):
    class Lying(Doubled):
        def margins(self, p):
            return margins(p)

        def value(self, s, y):
            return Doubled().value(s, y)

    risk = MulticlassRisk(np.eye(3), [0, 1, 2], Lying())
    result = cut.Problem(risk, cut.L2(0.1)).solve(cut.BlockFrankWolfe())
    assert result.status == "INVALID_ORACLE" and re.search(words, result.reason)

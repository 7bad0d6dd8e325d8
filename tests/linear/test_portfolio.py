"""The portfolio: its cuts, its moves, and the moves, risks and methods of a user."""

from dataclasses import dataclass

import cvxpy as cp
import numpy as np
import pytest
from linear_cases import optimum

import cutplane as cut
from cutplane.linear import CoordinateAscent, LinearSystem, Portfolio
from cutplane.losses import Hinge, Squared
from cutplane.methods import Method, Step

rng = np.random.default_rng(0)
WIDE, TALL = rng.standard_normal((30, 60)), rng.standard_normal((120, 5))


def problem(X, loss, intercept=False, risk=cut.LinearRisk, lam=0.05):
    y = np.sign(X[:, 0] + 0.5 * np.random.default_rng(1).standard_normal(len(X)))
    made = risk(X, y, loss, intercept=intercept)
    return cut.Problem(made, cut.L2(lam, weights=[1.0] * X.shape[1] + [0.0] * intercept))


@pytest.mark.parametrize("X", [WIDE, TALL], ids=["wide", "tall"])
@pytest.mark.parametrize("intercept", [False, True])
def test_a_linear_system_is_solved_in_one_step(X, intercept):
    declared = problem(X, Squared(), intercept)
    result, alone = declared.solve(tol=1e-6), declared.solve(LinearSystem(), tol=1e-6)
    assert result.method.endswith(": 1 x LinearSystem") and result.n_iter == alone.n_iter == 1
    assert result.status == "OPTIMAL" and result.certificate.verify().valid
    assert result.objective == alone.objective == pytest.approx(optimum(declared), rel=1e-6)


@pytest.mark.parametrize(
    ("method", "words"),
    [(LinearSystem(), "needs minimiser"), (CoordinateAscent(), "needs linear predictor")],
)
def test_a_black_box_is_refused_before_the_first_iteration(method, words):
    with pytest.raises(cut.MissingCapabilityError, match=words):
        cut.Problem(cut.LinearObjective(np.ones(3)), cut.L2(0.1)).solve(method)


def test_ocas_is_the_published_method():
    """The first iterations by hand: the minimiser of the model, an exact search, a cut at 0.1 of the way."""
    declared = problem(TALL, Hinge())
    points = declared.solve(cut.OCAS(), max_iter=2).certificate.points
    queries = [points[key] for key in sorted(points)]
    slopes, values, best = [np.zeros(declared.dim)], [0.0], queries[0]  # the known infimum
    for after in queries[1:]:
        query = queries[len(slopes) - 1]
        value, slope = declared.risk.oracle(query)
        slopes.append(slope)
        values.append(value - slope @ query)
        w = cp.Variable(declared.dim)
        model = cp.max(np.array(slopes) @ w + np.array(values)) + 0.025 * cp.sum_squares(w)
        cp.Problem(cp.Minimize(model)).solve(solver=cp.CLARABEL)
        t = np.linspace(0.0, 1.5, 30001)
        along = [declared.objective(best + s * (w.value - best)) for s in t[::100]]
        near = t[::100][int(np.argmin(along))]
        fine = t[(t >= near - 0.01) & (t <= near + 0.01)]
        k = fine[np.argmin([declared.objective(best + s * (w.value - best)) for s in fine])]
        best = best + k * (w.value - best)
        np.testing.assert_allclose(after, 0.9 * best + 0.1 * w.value, atol=1e-3)


class Copy(cut.ImagedRisk):
    """A risk of a user's, which hands its examples to the moves."""

    black_box = False

    def __init__(self, *arguments, **options):
        self.inner = cut.LinearRisk(*arguments, **options)
        self.dim = self.inner.dim

    def image(self, x):
        return self.inner.image(x)

    def values(self, z):
        return self.inner.values(z)

    def slopes(self, z):
        return self.inner.slopes(z)

    def line(self, z0, z1):
        return self.inner.line(z0, z1)

    def dual_cut(self, u):
        return self.inner.dual_cut(u)

    def linear_predictor(self):
        return self.inner


def test_a_risk_of_a_user_gets_the_moves_of_ours():
    ours, theirs = (
        problem(WIDE, Hinge(), risk=risk, lam=1e-3).solve(tol=1e-6) for risk in (cut.LinearRisk, Copy)
    )
    assert ours.method.startswith("Portfolio(") and "CoordinateAscent" in ours.method.split(": ")[1]
    assert theirs.objective == pytest.approx(ours.objective, rel=2e-6)
    assert "CoordinateAscent" in theirs.method and theirs.certificate.verify().valid


@dataclass
class Progress:
    """The state of a move."""

    cost: float = 0.0

    def gap(self, run):
        return run.upper - run.lower


@dataclass(frozen=True)
class Subgradient(Method):
    """A move of a user's: queries a subgradient step away from the best point."""

    step_size: float = 0.1
    turn = 2
    memory = 0.0

    def usual_rate(self, problem):
        return np.inf

    def start(self, run):
        return Progress()

    def step(self, run, state):
        point = run.best
        slope = run.slopes(point).sum(axis=0) + run.problem.regularizer.subgradient(point.x)
        run.query(point.x - self.step_size * slope)
        state.cost += 1e6
        return Step("subgradient", state)


@cut.risk(dim=4)
def largest(x):
    values = np.abs(x - [1.0, 2.0, 3.0, 4.0])
    k = int(values.argmax())
    return values[k], np.sign(x[k] - k - 1.0) * np.eye(4)[k]


@pytest.mark.parametrize(
    ("declared", "others", "last"),
    [
        (problem(WIDE, Hinge(), lam=1e-3), (CoordinateAscent(),), "CoordinateAscent"),
        (cut.Problem(largest, cut.L2(1e-2)), (), "OCAS"),
    ],
    ids=["linear", "black box, whose cuts are timed"],
)
def test_a_move_of_a_user_has_its_turns_and_others_have_theirs(declared, others, last):
    result = declared.solve(Portfolio(moves=(Subgradient(), *others)), tol=1e-6, max_iter=2000)
    assert result.status == "OPTIMAL" and "Subgradient" in result.method and last in result.method
    assert result.objective == pytest.approx(declared.solve(cut.BMRM(), tol=1e-6).objective, rel=2e-6)


class Solution(Method):
    """A method of a user's that knows the solution."""

    def step(self, run, state):
        gram, y = TALL.T @ TALL / len(TALL), run.problem.risk.y
        run.query(np.linalg.solve(gram + 0.05 * np.eye(5), TALL.T @ y / len(TALL)))
        return Step("solution")


def test_a_method_that_is_no_move_has_one_turn_before_all_others():
    declared = problem(TALL, Squared())
    result = declared.solve(Portfolio(moves=(Solution(), cut.BMRM())), tol=1e-6)
    assert result.history[1].step == "solution" and "1 x Solution" in result.method
    assert result.objective == pytest.approx(declared.solve(tol=1e-9).objective, rel=2e-6)


@pytest.mark.parametrize(
    ("options", "words"),
    [({"moves": moves}, "moves must be methods") for moves in (5, ("ascent",), cut.BMRM, (cut.BMRM(), None))]
    + [({"cuts": "OCAS"}, "cuts must be a method")],
    ids=repr,
)
def test_parts_that_are_no_methods_are_refused(options, words):
    with pytest.raises(cut.InvalidInputError, match=rf"Portfolio\.{words}"):
        Portfolio(**options)


def test_a_portfolio_that_ended_before_its_first_turn_has_no_moves():
    assert cut.Portfolio().describe(None) == "Portfolio(): none"


def test_a_move_gets_a_turn_when_cuts_have_cost_as_much_as_it_usually_takes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 300))
    y = np.sign(X[:, 0] + rng.normal(size=1000))
    result = cut.Problem(cut.LinearRisk(X, y, Hinge()), cut.L2(1e-4)).solve(tol=1e-3)
    assert result.status == "OPTIMAL" and "x SemismoothNewton" in result.method
    assert result.n_iter < 200  # 399 by cuts alone

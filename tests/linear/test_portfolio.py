"""The portfolio, and the moves as methods of their own: against cvxpy, and with moves of a user."""

from dataclasses import dataclass

import cvxpy as cp
import numpy as np
import pytest
from covering import covering

import cutplane as cut
from cutplane.linear import CoordinateAscent, LinearSystem, Portfolio, SemismoothNewton
from cutplane.methods import Method, Step

rng = np.random.default_rng(0)
WIDE, TALL = rng.standard_normal((30, 60)), rng.standard_normal((120, 5))


def problem(X, loss, intercept=False, risk=cut.LinearRisk, lam=0.05):
    y = np.sign(X[:, 0] + 0.5 * rng.standard_normal(len(X)))
    made = risk(X, y, loss, intercept=intercept)
    return cut.Problem(made, cut.L2(lam, weights=[1.0] * X.shape[1] + [0.0] * intercept))


def optimum(problem):
    x = cp.Variable(problem.dim)
    objective = problem.risk.cvxpy_form(x) + problem.regularizer.cvxpy_form(x)
    return cp.Problem(cp.Minimize(objective)).solve(solver=cp.CLARABEL)


@pytest.mark.parametrize(
    ("move_and_loss", "shape", "intercept"),
    covering(
        [
            (LinearSystem(), cut.losses.Squared()),
            (CoordinateAscent(), cut.losses.Hinge()),
            (CoordinateAscent(), cut.losses.Logistic()),
            (SemismoothNewton(), cut.losses.Hinge()),
            (SemismoothNewton(), cut.losses.Huber(0.5)),
            (cut.OCAS(), cut.losses.Hinge()),
            (Portfolio(), cut.losses.Hinge()),
            (Portfolio(cut.BMRM(), (CoordinateAscent(),)), cut.losses.Hinge()),
        ],
        ["wide", "tall"],
        [False, True],
    ),
    ids=str,
)
def test_each_move_alone_reaches_the_optimum_with_a_proof(move_and_loss, shape, intercept):
    move, loss = move_and_loss
    declared = problem(WIDE if shape == "wide" else TALL, loss, intercept)
    if intercept and isinstance(move, CoordinateAscent):
        move = Portfolio(moves=(move,))  # the bias has no weight
    result = declared.solve(move, tol=1e-5, max_iter=3000)
    known = optimum(declared)
    assert result.status == "OPTIMAL" and result.certificate.verify().valid
    assert result.lower_bound <= known * (1 + 1e-7) and result.objective <= known * (1 + 2e-5)


@pytest.mark.parametrize(
    ("method", "declared", "words"),
    [
        (LinearSystem(), problem(TALL, cut.losses.Hinge()), "needs minimiser"),
        (
            LinearSystem(),
            cut.Problem(problem(TALL, cut.losses.Squared()).risk, cut.L1(0.1)),
            "diagonal quadratic",
        ),
        (CoordinateAscent(), cut.Problem(cut.LinearObjective(np.ones(3)), cut.L2(0.1)), "linear predictor"),
        (
            CoordinateAscent(),
            cut.Problem(problem(WIDE, cut.losses.Hinge()).risk, cut.L1(0.1)),
            "no feasible set",
        ),
        (SemismoothNewton(), problem(rng.standard_normal((4, 2100)), cut.losses.Hinge()), "2000 features"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_another_form_is_refused_before_the_first_iteration(method, declared, words):
    with pytest.raises(cut.MissingCapabilityError, match=words):
        declared.solve(method)


def test_ocas_is_the_published_method():
    """The first iterations by hand: the minimiser of the model, an exact search, a cut at 0.1 of the way."""
    declared = problem(TALL, cut.losses.Hinge())
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


def test_the_result_says_which_moves_ran():
    result = problem(WIDE, cut.losses.Hinge(), lam=1e-3).solve(tol=1e-6)
    assert result.method.startswith("Portfolio(") and "CoordinateAscent" in result.method.split(": ")[1]
    system = problem(TALL, cut.losses.Squared()).solve(tol=1e-6)
    assert system.method.endswith(": 1 x LinearSystem") and system.n_iter == 1


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
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((30, 60)), np.sign(rng.standard_normal(30))
    ours, theirs = (
        cut.Problem(risk(X, y, cut.losses.Hinge()), cut.L2(1e-3)).solve(tol=1e-6)
        for risk in (cut.LinearRisk, Copy)
    )
    assert theirs.objective == pytest.approx(ours.objective, rel=2e-6)
    assert "CoordinateAscent" in theirs.method and theirs.certificate.verify().valid


@dataclass
class Descent:
    """The state of a move: how far it went."""

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
        return Descent()

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
        (problem(WIDE, cut.losses.Hinge(), lam=1e-3), (CoordinateAscent(),), "CoordinateAscent"),
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
        run.query(
            np.linalg.solve(
                TALL.T @ TALL / len(TALL) + 0.05 * np.eye(5), TALL.T @ run.problem.risk.y / len(TALL)
            )
        )
        return Step("solution")


def test_a_method_that_is_no_move_has_one_turn_before_all_others():
    declared = problem(TALL, cut.losses.Squared())
    result = declared.solve(Portfolio(moves=(Solution(), cut.BMRM())), tol=1e-6)
    assert result.history[1].step == "solution" and "1 x Solution" in result.method
    assert result.objective == pytest.approx(declared.solve(tol=1e-9).objective, rel=2e-6)


@pytest.mark.parametrize("moves", [5, ("ascent",), cut.BMRM, (cut.BMRM(), None)], ids=repr)
def test_what_is_no_method_is_refused(moves):
    with pytest.raises(cut.InvalidInputError, match=r"Portfolio\.moves must be methods"):
        Portfolio(moves=moves)


def test_cuts_of_no_method_are_refused():
    with pytest.raises(cut.InvalidInputError, match=r"Portfolio\.cuts must be a method"):
        Portfolio(cuts="OCAS")


def test_a_portfolio_that_ended_before_its_first_turn_has_no_moves():
    assert cut.Portfolio().describe(None) == "Portfolio(): none"


def test_a_move_gets_a_turn_when_cuts_have_cost_as_much_as_it_usually_takes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 300))
    y = np.sign(X[:, 0] + rng.normal(size=1000))
    result = cut.Problem(cut.LinearRisk(X, y, cut.losses.Hinge()), cut.L2(1e-4)).solve(tol=1e-3)
    assert result.status == "OPTIMAL" and "x SemismoothNewton" in result.method
    assert result.n_iter < 200  # 399 by cuts alone

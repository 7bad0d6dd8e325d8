"""What users' mistakes, hard inputs and failing backends lead to."""

import numpy as np
import pytest

import cutplane as cut
from cutplane.engine.run import Run
from cutplane.masters.select import Backend
from cutplane.status import Status

pytestmark = pytest.mark.every

DIM = 3


def distance(x):
    return float(np.abs(x - 1.0).sum()), np.sign(x - 1.0)


def good_risk():
    return cut.risk(dim=DIM)(distance)


def fails_at(call, answer):
    """Return a risk that is wrong in one call, whose answer is answer(x)."""
    calls = []

    @cut.risk(dim=DIM)
    def risk(x):
        calls.append(x)
        return answer(x) if len(calls) == call else distance(x)

    return risk


def raise_error(x):
    raise ZeroDivisionError("oops")


@pytest.mark.parametrize("method", [cut.BMRM(), cut.OCAS(), cut.ProximalBundle(), cut.LevelBundle()], ids=str)
def test_a_bad_first_answer_raises_and_a_later_one_returns_the_best_point(method):
    def bad(x):
        return np.nan, np.zeros(DIM)

    with pytest.raises(cut.OracleError, match="nan"):
        cut.Problem(fails_at(1, bad), cut.L2(0.1)).solve(method)
    result = cut.Problem(fails_at(3, bad), cut.L2(0.1)).solve(method, tol=1e-9)
    assert result.status is Status.INVALID_ORACLE
    assert "nan" in result.reason and "risk" in result.reason
    assert result.objective == pytest.approx(distance(result.x)[0] + 0.05 * result.x @ result.x)


def test_an_exception_in_an_oracle_keeps_the_result_so_far():
    with pytest.raises(cut.OracleError, match="risk raised ZeroDivisionError: oops") as caught:
        cut.Problem(fails_at(3, raise_error), cut.L2(0.1)).solve(tol=1e-9)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert np.isfinite(caught.value.result.objective)
    with pytest.raises(cut.OracleError) as caught:
        cut.Problem(fails_at(1, raise_error), cut.L2(0.1)).solve()
    assert caught.value.result is None


def test_a_nonconvex_risk_is_noticed():
    @cut.risk(dim=1)
    def concave(x):
        return -float(x[0] ** 2), -2.0 * x

    result = cut.Problem(concave, feasible_set=cut.Box(-2, 2)).solve(x0=[0.5])
    assert result.status is Status.INVALID_ORACLE
    assert "not convex" in result.reason


def test_an_oracle_cannot_change_the_point_of_the_engine():
    @cut.risk(dim=DIM)
    def greedy(x):
        x += 1.0
        return distance(x)

    with pytest.raises(cut.OracleError, match="read-only"):
        cut.Problem(greedy, cut.L2(0.1)).solve()


def test_a_half_space_that_cuts_off_a_point_inside_is_noticed():
    def off_the_inside(x):
        return [] if x[0] <= 0.0 else [cut.HalfSpace(np.array([1.0, 0.0, 0.0]), -1.0)]

    feasible = cut.Box(-2, 2) & cut.separation_oracle(off_the_inside)
    result = cut.Problem(good_risk(), feasible_set=feasible).solve()
    assert "cuts off the point" in result.reason


def test_infeasible_half_spaces_are_certified():
    @cut.separation_oracle
    def nothing(x):
        normal = np.zeros(DIM)
        normal[0] = 1.0 if x[0] > -0.5 else -1.0
        return [cut.HalfSpace(normal, -0.5 if x[0] > -0.5 else 0.4)]

    for method in (cut.Kelley(), cut.ProximalBundle(), cut.LevelBundle()):
        result = cut.Problem(good_risk(), feasible_set=cut.Box(-2, 2) & nothing).solve(method)
        assert result.status is Status.INFEASIBLE
        assert result.x is None
        assert result.objective == np.inf
        assert "certified" in result.reason


def test_an_unbounded_problem():
    problem = cut.Problem(cut.LinearObjective(np.ones(DIM)))
    with pytest.raises(cut.MissingCapabilityError, match="ProximalBundle"):
        problem.solve(cut.Kelley())
    result = problem.solve(cut.ProximalBundle())
    assert result.status is Status.UNBOUNDED
    half_line = cut.Problem(
        cut.LinearObjective(-np.ones(DIM)), feasible_set=cut.Polyhedron(-np.eye(DIM), np.zeros(DIM))
    )
    assert half_line.solve().status is Status.UNBOUNDED


def test_a_tolerance_below_rounding_stalls():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 5)), np.sign(rng.normal(size=50))
    result = cut.Problem(cut.LinearRisk(X, y, cut.losses.Logistic()), cut.L2(0.1)).solve(cut.BMRM(), tol=0.0)
    assert result.status in (Status.STALLED, Status.OPTIMAL)
    assert result.gap < 1e-12
    assert result.status is Status.OPTIMAL or "rounding" in result.reason


@pytest.mark.parametrize("regularizer", [cut.L2(0.0), cut.L1(0.0), cut.NoRegularizer()], ids=repr)
def test_zero_regularization(regularizer):
    boxed = cut.Problem(good_risk(), regularizer, cut.Box(-3, 3)).solve(tol_abs=1e-6)
    assert boxed.status is Status.OPTIMAL
    assert boxed.objective == pytest.approx(0.0, abs=1e-6)
    free = cut.Problem(good_risk(), regularizer).solve(tol_abs=1e-6)
    assert free.objective == pytest.approx(0.0, abs=1e-6)
    assert free.status is Status.OPTIMAL
    assert free.certificate.verify().valid


def test_extended_values_are_walked_around():
    @cut.risk(dim=1)
    def barrier(x):
        if x[0] <= 0.0:
            return np.inf, np.zeros(1)
        return float(x[0] - np.log(x[0])), np.array([1.0 - 1.0 / x[0]])

    result = cut.Problem(barrier, feasible_set=cut.Box(-5, 5)).solve(cut.Kelley(), x0=[4.0], tol=1e-8)
    assert result.status is Status.OPTIMAL
    assert result.objective == pytest.approx(1.0)
    with pytest.raises(cut.OracleError, match="x0"):
        cut.Problem(barrier, feasible_set=cut.Box(-5, 5)).solve(cut.Kelley(), x0=[-1.0])


def test_an_objective_that_is_infinite_far_away_is_finite_on_the_way_back():
    risk = cut.LinearRisk(np.array([[1.0], [-1.0]]), [1.0, 1.0], cut.losses.Exponential())
    run = Run(cut.Problem(risk, cut.L2(1.0)), cut.Kelley(), Backend())
    run.first = run.query(np.zeros(1))
    assert 1.0 < run.query(np.array([1e60])).x[0] < 1e3


INVALID = {
    "risk is a function": (lambda: cut.Problem(distance), "decorate"),
    "regularizer is a class": (lambda: cut.Problem(good_risk(), cut.L2), "forget"),
    "regularizer is a set": (lambda: cut.Problem(good_risk(), cut.Box(0, 1)), "regularizer must be"),
    "dimensions differ": (lambda: cut.Problem(good_risk(), feasible_set=cut.Box(0, 1, dim=2)), "dim"),
    "weights do not fit": (lambda: cut.Problem(good_risk(), cut.L2(1.0, weights=np.ones(2))), "dimension 3"),
    "method is a name": (lambda: cut.Problem(good_risk(), cut.L2(1.0)).solve("newton"), "auto"),
    "method is a class": (
        lambda: cut.Problem(good_risk(), cut.L2(1.0)).solve(cut.BMRM),
        "did you mean BMRM()",
    ),
    "unknown backend": (
        lambda: cut.Problem(good_risk(), cut.L2(1.0)).solve(backend="gurobbi"),
        "not installed",
    ),
    "negative tol": (lambda: cut.Problem(good_risk(), cut.L2(1.0)).solve(tol=-1.0), "tol"),
    "x0 of wrong shape": (lambda: cut.Problem(good_risk(), cut.L2(1.0)).solve(x0=np.ones(2)), "x0"),
    "x0 not finite": (lambda: cut.Problem(good_risk(), cut.L2(1.0)).solve(x0=[0, np.nan, 1]), "x0"),
    "fractional max_iter": (lambda: cut.Problem(good_risk(), cut.L2(1.0)).solve(max_iter=2.5), "max_iter"),
    "too few cuts": (lambda: cut.Problem(good_risk(), cut.L2(1.0)).solve(max_cuts=1), "max_cuts"),
    "no weights": (lambda: cut.Problem(good_risk(), cut.L2(1.0)).path([]), "lams"),
    "negative weight": (lambda: cut.Problem(good_risk(), cut.L2(1.0)).path([-1.0]), "lam"),
    "theta zero": (lambda: cut.OCAS(theta=0.0), "theta"),
    "kappa one": (lambda: cut.LevelBundle(kappa=1.0), "kappa"),
    "options of auto": (lambda: cut.Backend("auto", {"eps": 1}), "options"),
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid_input(name):
    call, words = INVALID[name]
    with pytest.raises(cut.InvalidInputError) as caught:
        call()
    assert words in str(caught.value)
    assert str(caught.value).count("\n") == 0


@pytest.mark.parametrize("method", [cut.Kelley(), cut.LevelBundle(), cut.ProximalBundle()], ids=str)
def test_slopes_that_rounding_leaves_of_a_constant_do_no_harm(method):
    @cut.risk(dim=3)
    def constant(x):
        return 2.4, np.array([0.0, -2.5e-32, 1e-32])

    result = cut.Problem(constant, feasible_set=cut.Simplex()).solve(method)
    assert result.status is Status.OPTIMAL and result.objective == 2.4


def test_no_master_makes_a_problem_unbounded_that_has_a_lower_bound():
    # Slopes of 1e-11 beside squares of 1e-18 are lost by every conic backend.
    slope, knot = 2.0**-36, -1e10

    @cut.risk(dim=1)
    def risk(x):
        return 0.140625 + slope * max(x[0], knot), np.array([slope * (x[0] > knot)])

    squares = cut.regularizers.QuadraticForm(np.array([[1e-18]]), c=np.array([-3.47e-10]), lam=0.25)
    result = cut.Problem(risk, squares).solve(cut.LevelBundle(), tol=1e-9, max_iter=60)
    assert result.status is not Status.UNBOUNDED and np.isfinite(result.lower_bound)


RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((60, 12)), RNG.standard_normal(60)


def distance_advised(x):
    r = A @ x - B
    return np.abs(r).mean(), A.T @ np.sign(r) / B.size


BLACK_BOX, DECLARED = cut.OracleRisk(distance_advised, dim=12), cut.LinearRisk(A, B, cut.losses.Absolute())


@pytest.mark.parametrize(
    ("risk", "max_iter", "advised"), [(BLACK_BOX, 5, False), (BLACK_BOX, 400, True), (DECLARED, 400, False)]
)
def test_many_calls_of_a_black_box_are_advised_about(risk, max_iter, advised):
    result = cut.Problem(risk, cut.L2(1e-3)).solve("bmrm", tol=1e-10, max_iter=max_iter)
    assert ("declared as a LinearRisk" in result.reason) is advised
    assert (result.oracle_calls > 100) is (max_iter == 400)

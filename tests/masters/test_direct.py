"""The whole problem in one conic solve, against cvxpy's own answer."""

from types import SimpleNamespace

import cvxpy as cp
import numpy as np
import pytest

import cutplane as cut
from cutplane.exceptions import MissingCapabilityError
from cutplane.masters import whole
from cutplane.masters.base import Least, ReducedProblem
from cutplane.masters.certificates import InnerMinimum
from cutplane.masters.cone_programme import Solved
from cutplane.masters.whole import Conjugate, _split, image_form, solve_whole
from cutplane.proof.dual import DualFunction

RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((60, 8)), RNG.standard_normal(60)
W = cp.Variable(8, name="w")
RISKS = {
    "least absolute values": cp.norm1(A @ W - B),
    "chebyshev and squares": cp.norm_inf(A @ W - B) + cp.sum_squares(W[:3]),
    "logistic": cp.sum(cp.logistic(A @ W)) / 60,
    "log-sum-exp": cp.log_sum_exp(A @ W),
    "hinge": cp.sum(cp.pos(1 - A @ W)),
    "a constant": cp.norm2(A @ W - B) + 100.0,
}
REGULARIZERS = {
    "l2": (cut.L2(0.1), 0.05 * cp.sum_squares(W), None),
    "l1": (cut.L1(0.3), 0.3 * cp.norm1(W), None),
    "box": (cut.NoRegularizer(), 0.0, cut.Box(-0.2, 2, dim=8)),
}


@pytest.mark.parametrize("name", REGULARIZERS)
@pytest.mark.parametrize("risk", RISKS)
def test_one_solve_is_certified(risk, name):
    regularizer, expression, region = REGULARIZERS[name]
    inside = [] if region is None else [W >= -0.2, W <= 2.0]
    whole = cp.Problem(cp.Minimize(RISKS[risk] + expression), inside)
    optimum = whole.solve(solver="CLARABEL")
    problem = cut.Problem(cut.CvxpyRisk(RISKS[risk], W), regularizer, region)
    result = problem.solve(cut.Direct(), tol=1e-6)
    assert result.status == "OPTIMAL" and result.n_iter == 1, result
    assert result.objective == pytest.approx(optimum, rel=1e-6)
    assert result.lower_bound <= optimum + 1e-7 * abs(optimum)
    assert result.certificate.verify().valid


LOSSES = [cut.losses.Hinge(), cut.losses.Absolute(), cut.losses.Logistic(), cut.losses.SquaredHinge()]
FAIR = cut.Polyhedron(np.ones((1, 9)), [0.1])


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize(
    "regularizer", [cut.L2(0.1, weights=[1.0] * 8 + [0.0]), cut.L1(0.02)], ids=["l2", "l1"]
)
def test_multipliers_of_the_examples_give_the_cut(loss, regularizer):
    y = np.where(B > 0, 1.0, -1.0)
    problem = cut.Problem(cut.LinearRisk(A, y, loss, intercept=True), regularizer, FAIR)
    result = problem.solve(cut.Direct(), tol=1e-7)
    assert result.status == "OPTIMAL" and result.n_iter == 1, result
    assert result.certificate.verify().valid
    assert result.objective == pytest.approx(
        problem.solve(cut.ProximalBundle(), tol=1e-4).objective, rel=2e-4
    )


@pytest.mark.parametrize("name", RISKS)
def test_the_dual_point_has_two_parts(name):
    """The first is the highest cut of the risk, the second the least value of the rest with its slope."""
    risk, norm = cut.CvxpyRisk(RISKS[name], W), cut.GroupLasso(np.repeat([0, 1], 4), 0.2)
    held = cut.Polyhedron(np.ones((1, 8)), [0.5])
    whole = solve_whole(risk, ReducedProblem(8, 1, norm, held), "CLARABEL")
    offset = Conjugate(risk, cut.WholeSpace(8), 8)(whole.multipliers)
    assert whole.offset == pytest.approx(offset, rel=1e-7, abs=1e-7)
    assert whole.least.value == pytest.approx(InnerMinimum(norm, held, 8)(whole.least.slope).value, abs=1e-7)
    np.testing.assert_allclose(whole.multipliers, whole.least.slope, atol=1e-12)


def test_of_a_backend_without_a_dual_point_the_multipliers_of_the_equation_are_known():
    """At the minimiser of lam / 2 ||x||^2 + f, -lam x is a subgradient of f."""
    risk = cut.CvxpyRisk(RISKS["hinge"], W)
    whole = solve_whole(risk, ReducedProblem(8, 1, cut.L2(0.1), cut.WholeSpace(8)), "OSQP")
    exact = solve_whole(risk, ReducedProblem(8, 1, cut.L2(0.1), cut.WholeSpace(8)), "CLARABEL")
    np.testing.assert_allclose(whole.x, exact.x, atol=1e-5)
    np.testing.assert_allclose(whole.multipliers, -0.1 * whole.x, atol=1e-5)
    assert (whole.message, whole.offset, whole.least) == ("", -np.inf, None)


@pytest.mark.parametrize("backend", ["OSQP", "CLARABEL"])
def test_a_whole_problem_without_a_solution_says_so(backend):
    empty = cut.Polyhedron(np.vstack([np.ones((1, 8)), -np.ones((1, 8))]), [-1.0, -1.0])
    whole = solve_whole(cut.CvxpyRisk(RISKS["hinge"], W), ReducedProblem(8, 1, cut.L2(0.1), empty), backend)
    assert whole.x is None and "infeasible" in whole.message


@pytest.mark.parametrize("linked", [False, True])
def test_parts_that_a_row_connects_are_not_bounded_apart(linked):
    """A row of x_0 and z_0 beside those of z = x: one coordinate of x is enough."""
    rows = np.array([[1.0, 0.0, -1.0, 0.0], [0.0, 1.0, 0.0, -1.0], [float(linked), 0.0, 1.0, 0.0]])
    z, x = (SimpleNamespace(id=number, size=2) for number in (2, 1))
    answer = Solved(
        A=rows,
        b=np.zeros(3),
        c=np.zeros(4),
        P=None,
        constant=7.0,
        v=np.zeros(4),
        y=np.zeros(3),
        status=cp.OPTIMAL,
        n_equations=2,
        cone_of=np.arange(3),
        columns={1: 0, 2: 2},
        known=np.ones(4, dtype=bool),
    )
    found = _split(answer, "CLARABEL", z, x, cut.L2(1.0))
    assert (found.offset, found.multipliers is None) == ((-np.inf, True) if linked else (7.0, False))


def test_a_chosen_solver_is_used():
    problem = cut.Problem(cut.CvxpyRisk(RISKS["hinge"], W), cut.L2(0.1))
    assert problem.solve(cut.Direct(), backend="scs", max_iter=1).backend.startswith("scs")


def test_what_it_cannot_solve_is_said_before_the_first_iteration():
    @cut.risk(dim=8)
    def absolute(x):
        return np.abs(x).sum(), np.sign(x)

    with pytest.raises(MissingCapabilityError, match="cvxpy_form"):
        cut.Problem(absolute, cut.L2(1.0)).solve(cut.Direct())

    @cut.separation_oracle
    def everything(x):
        return []

    region = cut.Box(-1, 1, dim=8) & everything
    with pytest.raises(MissingCapabilityError, match="cuts off"):
        cut.Problem(cut.CvxpyRisk(RISKS["hinge"], W), feasible_set=region).solve(cut.Direct())


def test_a_cut_over_one_set_is_made_anew_for_a_larger_one():
    risk = cut.CvxpyRisk(RISKS["hinge"], W)
    narrow = cut.Problem(risk, feasible_set=cut.Box(-0.01, 0.01, dim=8)).solve(cut.Direct(), tol=1e-6)
    wide = cut.Problem(risk, feasible_set=cut.Box(-1, 1, dim=8))
    for method in (cut.Direct(), cut.ProximalBundle()):
        result = wide.solve(method, warm_start=narrow, tol=1e-5)
        optimum = cp.Problem(cp.Minimize(RISKS["hinge"]), [cp.abs(W) <= 1]).solve(solver="CLARABEL")
        assert result.status == "OPTIMAL" and result.certificate.verify().valid
        assert result.lower_bound <= optimum + 1e-6 * optimum
        assert result.objective == pytest.approx(optimum, rel=1e-4)


def test_several_variables_without_a_regularizer_have_their_values_after_a_solve():
    w, s = cp.Variable(8), cp.Variable(3)
    risk = cut.CvxpyRisk(cp.sum_squares(A @ w - B) + cp.norm1(s - 1.0), [w, s])
    result = cut.Problem(risk).solve(method=cut.Direct(), tol=1e-6)
    assert result.status == "OPTIMAL" and result.certificate.verify().valid
    np.testing.assert_allclose(result.value(w), np.linalg.lstsq(A, B)[0], atol=1e-4)
    np.testing.assert_allclose(s.value, np.ones(3), atol=1e-4)
    assert np.array_equal(w.value, result.value(w))


def test_slopes_that_a_solver_cannot_tell_from_zero_prove_nothing():
    """The optimum, 0, is 1e8 away; near zero the slopes are 1e-15, below what a solver takes for zero."""
    rng = np.random.default_rng(0)
    X = 2.0**-23 * rng.normal(size=(3, 4))
    risk = 1e-7 * cut.LinearRisk(X, np.array([1.0, -2.0, 3.0]), cut.losses.Squared())
    for method in (cut.Direct(), "auto"):
        assert cut.Problem(risk).solve(method, max_iter=3, tol=1e-2).lower_bound <= 0.0


@pytest.mark.parametrize("height", [2.0**-30, 1.0, 2.0**18, 2.0**40])
def test_the_highest_cut_does_not_depend_on_the_height_of_the_risk(height):
    """A coordinate that the risk does not depend on has a slope that rounding left."""
    X, y = np.array([[1.0, 0.0], [-2.0, 0.0], [3.0, 0.0]]), np.array([1.0, 1.0, -1.0])
    risk = cut.LinearRisk(X, y, cut.losses.Logistic()) @ np.eye(2)
    w = np.array([0.5, 0.0])
    value, slope = risk.oracle(w)
    slope = slope + np.array([0.0, 1e-13])
    offset = Conjugate(height * risk, cut.WholeSpace(), 2)(height * slope, 0.5, height)
    assert offset == pytest.approx(height * (value - slope @ w), rel=1e-7)


def test_the_highest_cut_of_tiny_numbers_is_found_where_the_first_backend_is_inaccurate():
    """The backend's own objective agrees with its bound, both far below the least value of the function."""
    slopes = np.array([2.875, -1.75, 6.34375, -6.90234375, 7.71875, 0.34765625])
    offsets = -1e-8 * np.array(
        [6.4173946157, 2.7182977646, 20.344305085, 0.7467860996, 6.9128873292, 2.6036104827]
    )
    u, box = cp.Variable(1), cut.Box(-2.8056092560291290e-07, 2.5611370801925659e-09, dim=1)
    conjugate = Conjugate(2.0 * cut.CvxpyRisk(cp.max(slopes * u + offsets), u), box, 1)
    slope = -6.387011980366008
    (low,), (high,) = box.bounds(1)
    kinks = -np.subtract.outer(offsets, offsets) / (np.subtract.outer(slopes, slopes) + np.eye(6))
    places = np.clip([low, high, *kinks.ravel()], low, high)
    least = min(2.0 * (slopes * u + offsets).max() - slope * u for u in places.tolist())
    offset = conjugate(np.array([slope]), 2.56e-9, 13.8046875, 3.4e-8)
    assert offset == pytest.approx(least, rel=1e-5, abs=0.0)
    assert least - offset <= conjugate.solver_gap <= 1e-5 * abs(least)


def test_offsets_that_are_rounding_alone_tell_no_unit():
    X = np.random.default_rng(1).normal(size=(7, 3))
    shares = np.full(7, 3e-8)
    slope = np.append(-X.T @ shares, shares.sum() - 1.0)
    offset = Conjugate(cut.NoveltyRisk(X, nu=0.5), cut.WholeSpace(), 4)(slope, 0.0, 1.0, 2.8e-13)
    assert offset == pytest.approx(0.0, abs=1e-9)


def test_a_form_of_the_image_is_taken_where_its_multipliers_give_cuts():
    class OnlyCuts(cut.Risk):
        dim = 2

        def oracle(self, x):
            return 0.0, np.zeros(2)

        def dual_cut(self, u):
            return np.zeros((1, 2)), np.zeros(1)

        def cvxpy_form(self, x):
            return 0.0 * cp.sum(x)

    x = cp.Variable(2)
    assert image_form(OnlyCuts(), x).image is x
    risk = cut.LinearRisk(np.eye(2), [1.0, -1.0], cut.losses.Hinge())
    assert image_form(risk, x).image is not x


@pytest.mark.parametrize("dim", [5, 40])
@pytest.mark.parametrize("weight", [0.01, 0.3, 3.0])
def test_the_zeros_of_an_l1_norm_are_exact(dim: int, weight: float) -> None:
    rng = np.random.default_rng(dim)
    A = rng.standard_normal((60, dim))
    b = A[:, :3] @ [2.0, -1.0, 1.0] + 0.1 * rng.standard_normal(60)
    w = cp.Variable(dim)
    risk = cut.CvxpyRisk(cp.sum(cp.huber(A @ w - b)) / 60, w)
    result = cut.Problem(risk, cut.L1(weight) + cut.L2(0.01)).solve("direct", tol=1e-8)
    cp.Problem(cp.Minimize(risk.expression + weight * cp.norm1(w) + 0.005 * cp.sum_squares(w))).solve(
        "CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12
    )
    assert result.status == "OPTIMAL"
    assert np.array_equal(result.x != 0.0, np.abs(w.value) > 1e-7)


@pytest.mark.parametrize(
    ("sizes", "units"),
    [
        ((0.0, 0.0, 0.0), [1.0]),
        ((5.0, 0.0, 0.0), [8.0, 1.0]),
        ((5.0, 2.0, 400.0), [256.0, 1.0]),
        ((500.0, 2.0, 40.0), [512.0, 1.0]),
        ((1e-3, 2.0, 0.0), [2.0**-9, 1.0]),
        ((0.75, 0.0, 0.0), [1.0]),
        ((0.0, 0.5, 36.0), [16.0, 1.0]),
    ],
)
def test_the_unit_of_the_highest_cut_is_of_the_larger_of_two_sizes(monkeypatch, sizes, units):
    """One is the size of solutions, the other offsets divided by slopes, whose largest entry is 3 here."""
    tried = []
    monkeypatch.setattr(
        Conjugate, "_solve", lambda self, slope, unit, steepest, k: tried.append(unit) or -np.inf
    )
    slope = np.array([-3.0, 1.0]) if any(sizes) else np.zeros(2)
    conjugate = Conjugate(cut.LinearObjective([1.0, 2.0]), cut.WholeSpace(), 2)
    assert conjugate(slope, *sizes) == -np.inf and conjugate.solver_gap == 0.0
    assert tried == [*units, *units]  # over the set, then over the set in a box


@pytest.mark.parametrize(("outside", "most"), [(0.0, 0.0), (1e-9, 1e-6), (1e-3, 1.0)])
def test_a_slope_outside_the_domain_of_the_conjugate_has_a_cut_in_a_box(outside, most):
    """f(u) = max(1 - 3 u, 0) has slopes of -3 to 0; the box is ten times larger than |u| <= 8."""
    u = cp.Variable(1)
    conjugate = Conjugate(cut.CvxpyRisk(cp.sum(cp.pos(1.0 - 3.0 * u)), u), cut.WholeSpace(), 1)
    offset = conjugate(np.array([-3.0 - outside]), 8.0)
    assert 1.0 - 1e-6 - most < offset <= 1.0 - 8.0 * outside + 1e-9


@pytest.mark.parametrize(("upper", "most"), [(np.inf, 2e-7), (1.0, 2e-7), (100.0, 1e-5)])
def test_a_least_value_found_elsewhere_is_taken_where_it_is_near_enough(upper, most):
    """It is -2 at another slope, charged over a reach of 16; computed here it is -1/2."""
    risk = cut.OracleRisk(lambda x: (0.0, np.zeros(2)), dim=2, infimum=0.0)
    problem = cut.Problem(risk, cut.L2(1.0), cut.Polyhedron([[0.0, 1.0]], [1.0]))
    dual, slope = DualFunction(problem), np.array([1.0, 0.0])
    row = slope[np.newaxis], np.zeros(1), np.zeros(1, int), np.ones(1)
    for share, wanted in ((0.9, -2.0 - 0.9 * most), (1.1, -0.5)):
        dual.known = Least(slope + np.array([0.0, share * most / 16.0]), -2.0, 16.0)
        assert dual(*row, upper).value == pytest.approx(wanted, abs=1e-8)
        assert dual(*row, upper).value == pytest.approx(-0.5, abs=1e-8)


@pytest.mark.parametrize(
    ("rough", "tol", "tolerances"),
    [(False, 1e-4, [1e-10]), (False, 1e-9, [1e-12]), (True, 1e-4, [1e-10, 1e-12])],
)
def test_the_conic_solve_is_as_tight_as_the_gap_needs(monkeypatch, rough, tol, tolerances):
    """A gap that a rough answer leaves is closed by a tighter solve."""
    told, solve = [], whole.ConeProgramme.solve

    def watched(self, tolerance=1.0):
        told.append(tolerance)
        return solve(self, 1e-2 if rough and len(told) == 1 else tolerance)

    monkeypatch.setattr(whole.ConeProgramme, "solve", watched)
    Z, Y = cp.Variable((3, 2)), np.arange(6.0).reshape(3, 2)
    result = cut.Problem(cut.CvxpyRisk(cp.normNuc(Z) + cp.sum_squares(Z - Y), Z)).solve(cut.Direct(), tol=tol)
    assert told == tolerances
    assert result.status == "OPTIMAL" and result.gap <= tol
    assert result.certificate.verify().valid

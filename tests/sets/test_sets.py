"""Feasible sets against cvxpy, linear programming and the optimality conditions."""

import warnings

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse
from set_cases import DIM, SETS

import cutplane as cut
from cutplane.exceptions import (
    InvalidInputError,
    MissingCapabilityError,
    OracleError,
)
from cutplane.pieces.capabilities import Capability, offers
from cutplane.sets import (
    Box,
    CappedSimplex,
    CvxpySet,
    HalfSpace,
    Intersection,
    L1Ball,
    L2Ball,
    NonnegativeBall,
    NonnegativeOrthant,
    Polyhedron,
    SeparationOracle,
    Simplex,
    WholeSpace,
    separation_oracle,
)
from cutplane.sets.balls import lp_norm
from cutplane.testing import check_set

TIGHT = {"solver": cp.CLARABEL, "tol_gap_abs": 1e-13, "tol_gap_rel": 1e-13, "tol_feas": 1e-11}


def offering(capability):
    return {name: s for name, s in SETS.items() if offers(s, capability)}


def each(sets):
    return pytest.mark.parametrize("feasible_set", sets.values(), ids=sets.keys())


def points(seed, n=6, scales=(0.1, 1.0, 10.0)):
    rng = np.random.default_rng(seed)
    return [scale * rng.standard_normal(DIM) for scale in scales for _ in range(n // len(scales))]


def solve_tightly(objective, constraints):
    """Solve as far as Clarabel gets; what it calls inaccurate is judged by the comparison that follows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return cp.Problem(cp.Minimize(objective), constraints).solve(**TIGHT)


def nearest(feasible_set, z):
    x = cp.Variable(DIM)
    solve_tightly(cp.sum_squares(x - z), feasible_set.cvxpy_form(x))
    return x.value


@each(SETS)
def test_a_set_keeps_its_word(feasible_set):
    """Violation, projection, linear minimisation, forms, bounds and units agree."""
    assert check_set(feasible_set, dim=DIM)


@each(offering(Capability.PROJECTION))
def test_projection_is_the_nearest_point(feasible_set):
    for z in points(1):
        before = z.copy()
        x = feasible_set.project(z)
        np.testing.assert_array_equal(z, before)
        np.testing.assert_allclose(x, nearest(feasible_set, z), atol=2e-6)
        assert feasible_set.violation(x) <= 1e-14 * max(1.0, np.abs(x).max() * DIM)


@each(offering(Capability.PROJECTION))
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_projection_is_idempotent_and_nonexpansive(feasible_set, data):
    vectors = arrays(np.float64, DIM, elements=st.floats(-1e6, 1e6) | st.sampled_from([0.0, 1.0, -1.0]))
    z, y = data.draw(vectors), data.draw(vectors)
    p, q = feasible_set.project(z), feasible_set.project(y)
    np.testing.assert_allclose(feasible_set.project(p), p, atol=1e-14 * (1 + np.abs(p).max()))
    assert np.linalg.norm(p - q) <= np.linalg.norm(z - y) * (1 + 1e-12) + 1e-9
    assert feasible_set.violation(p) <= 1e-13 * (1 + np.abs(p).max())


CAPS = {
    "simplex": (Simplex(), np.full(DIM, np.inf)),
    "scalar": (CappedSimplex(0.3), np.full(DIM, 0.3)),
    "vector": (SETS["capped, vectors"], SETS["capped, vectors"].cap),
}


@pytest.mark.parametrize(("feasible_set", "caps"), CAPS.values(), ids=CAPS.keys())
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_projection_on_a_capped_simplex_meets_its_optimality_conditions(feasible_set, caps, data):
    """x = clip(z - theta, 0, caps) for one theta, also next to huge entries."""
    entries = st.floats(-3, 3) | st.sampled_from([0.0, 0.25, 1e9, -1e9, 1e20, -1e20])
    z = data.draw(arrays(np.float64, DIM, elements=entries))
    x = feasible_set.project(z)
    free, full, empty = (x > 0) & (x < caps), (x >= caps) & (caps > 0), x <= 0
    assert abs(x.sum() - 1) <= 1e-13
    slack = 1e-12
    theta = (z[free] - x[free]).mean() if free.any() else z[full].min(initial=np.inf) - 1.0
    if free.any():
        slack += 4e-16 * np.abs(z[free]).max()
        np.testing.assert_allclose(z[free] - theta, x[free], atol=slack)
        assert (z[full] - caps[full] >= theta - slack - 4e-16 * np.abs(z[full])).all()
        assert (z[empty & (caps > 0)] <= theta + slack).all()
    else:
        assert z[full].min(initial=np.inf) >= z[empty & (caps > 0)].max(initial=-np.inf)


@pytest.mark.parametrize("kind", [L1Ball, L2Ball])
def test_projections_on_a_ball_far_from_zero_violate_nothing(kind):
    ball = kind(1.0, np.full(DIM, 1e9))
    assert [ball.violation(ball.project(1e9 + z)) for z in points(3)] == [0.0] * 6


def test_the_sum_of_a_long_projection_is_exact_up_to_two_last_bits():
    n = 200_000
    z = np.random.default_rng(0).random(n) / n
    assert abs(Simplex().project(z).sum() - 1.0) <= 4.5e-16


def test_projection_keeps_the_digits_next_to_a_huge_entry():
    x = CappedSimplex(0.5, dim=4).project(np.array([1e20, 3.0, 3.2, -1e20]))
    np.testing.assert_allclose(x, [0.5, 0.15, 0.35, 0.0], atol=1e-15)
    x = Simplex(3).project(np.array([1e300, -1e300, 1e300]))
    np.testing.assert_allclose(x, [0.5, 0.0, 0.5], atol=1e-15)


@each(SETS)
def test_resolved_sets_know_their_dimension_and_stay_the_same(feasible_set):
    fixed = feasible_set.resolve(DIM)
    assert fixed.dim == DIM
    assert "WholeSpace" not in repr(fixed) or isinstance(fixed, WholeSpace)
    assert fixed.resolve(DIM) is fixed
    assert offers(fixed, Capability.PROJECTION) == offers(feasible_set, Capability.PROJECTION)
    for z in points(5):
        assert fixed.violation(z) == feasible_set.violation(z)
    with pytest.raises(InvalidInputError, match="dimension"):
        fixed.resolve(DIM + 1)


# --- entropic projections -------------------------------------------------------------------------


@pytest.mark.parametrize(("feasible_set", "caps"), CAPS.values(), ids=CAPS.keys())
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_entropic_minimiser_meets_its_optimality_conditions(feasible_set, caps, data):
    """x = min(caps, exp(a - theta)): checked with logarithms of ratios, so that huge |a| lose no digit."""
    entries = st.floats(-3, 3) | st.sampled_from([0.0, 40.0, 1e3, -1e3, 1e20, -1e20])
    a = data.draw(arrays(np.float64, DIM, elements=entries))
    x = feasible_set.minimise_entropy(-a, np.zeros(DIM))
    assert abs(x.sum() - 1) <= 1e-13
    assert (x >= 0).all()
    assert (x <= caps).all()
    for i in np.flatnonzero(caps > 0):
        for j in np.flatnonzero((x < caps) & (x > 1e-280)):
            if x[i] < caps[i] and x[i] > 1e-280:
                assert np.log(x[i] / x[j]) == pytest.approx(a[i] - a[j], abs=1e-12, rel=1e-12)
            elif x[i] >= caps[i]:
                assert a[i] - a[j] >= np.log(x[i] / x[j]) - 1e-12


def test_entropic_minimiser_splits_ties_at_any_size():
    a = np.array([1e20, 1e20, 1e20, 0.0])
    third = CappedSimplex(0.4, dim=4).minimise_entropy(-a, np.zeros(4))
    np.testing.assert_allclose(third, [1 / 3, 1 / 3, 1 / 3, 0.0], atol=1e-15)
    capped = CappedSimplex(0.3, dim=4).minimise_entropy(-a, np.zeros(4))
    np.testing.assert_allclose(capped, [0.3, 0.3, 0.3, 0.1], atol=1e-15)


@pytest.mark.parametrize("n", [1, 7, 49, 1000])
def test_caps_that_sum_to_one_leave_one_point(n):
    feasible_set = CappedSimplex(1.0 / n, dim=n)
    z = np.random.default_rng(n).standard_normal(n)
    for x in (
        feasible_set.project(z),
        feasible_set.minimise_linear(z),
        feasible_set.minimise_entropy(z, np.zeros(n)),
    ):
        np.testing.assert_allclose(x, 1.0 / n, rtol=1e-12)


def test_rounding_of_the_caps_leaves_no_negative_entry():
    """The caps of the preferred coordinates sum to 1 up to rounding: nothing is left for the last."""
    rng = np.random.default_rng(12)
    for _ in range(300):
        caps = rng.uniform(size=20)
        caps = np.append(caps / caps.sum(), 0.5)
        z = np.append(50.0 + rng.standard_normal(20), 0.0)
        feasible_set = CappedSimplex(caps)
        for x in (
            feasible_set.project(z),
            feasible_set.minimise_linear(-z),
            feasible_set.minimise_entropy(-z, np.zeros(21)),
        ):
            assert (x >= 0.0).all()
            np.testing.assert_allclose(x, np.append(caps[:20], 0.0), atol=1e-14)


def test_large_capped_simplex_agrees_with_bisection():
    rng = np.random.default_rng(9)
    n = 20_000
    caps = rng.uniform(0, 3.0 / n, n)
    z = rng.standard_normal(n) / n
    feasible_set = CappedSimplex(caps)

    def bisect(total, low, high):
        for _ in range(200):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if total(middle) > 1 else (low, middle)
        return middle

    theta = bisect(lambda t: np.clip(z - t, 0, caps).sum(), -1.0, 1.0)
    np.testing.assert_allclose(feasible_set.project(z), np.clip(z - theta, 0, caps), atol=1e-15)
    theta = bisect(lambda t: np.minimum(np.exp(z * n - t), caps).sum(), -50.0, 50.0)
    x = feasible_set.minimise_entropy(-z * n, np.zeros(n))
    np.testing.assert_allclose(x, np.minimum(np.exp(z * n - theta), caps), rtol=1e-11)


# --- intersections --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (WholeSpace(), Simplex(3), "Simplex(dim=3)"),
        (WholeSpace(3), Simplex(), "Simplex(dim=3)"),
        (Box(-1, 2), Box([0, -5], 1), "Box([0, -1], 1, dim=2)"),
        (Box(0, 0.5), Simplex(3), "CappedSimplex(cap=0.5, dim=3)"),
        (Simplex(), Box(-1, [1, 0.5, 9]), "CappedSimplex(cap=[1, 0.5, 1], dim=3)"),
        (CappedSimplex(0.4), Box(0, [1, 0.2, 0.9, 0.3]), "CappedSimplex(cap=[0.4, 0.2, 0.4, ...], dim=4)"),
        (Simplex(3, radius=2.0), Box(0, 1), "Simplex(dim=3, radius=2) & Box(0, 1, dim=3)"),
        (Simplex(3), Box(0.1, 1), "Simplex(dim=3) & Box(0.1, 1, dim=3)"),
        (NonnegativeOrthant(), NonnegativeOrthant(2), "NonnegativeOrthant(dim=2)"),
        (L1Ball(1), WholeSpace(), "L1Ball(radius=1)"),
        (L1Ball(1) & Box(-1, 1), Box(0, 3, dim=2), "L1Ball(radius=1, dim=2) & Box(0, 1, dim=2)"),
        (WholeSpace(), WholeSpace(4), "WholeSpace(dim=4)"),
    ],
)
def test_intersections_take_the_simplest_form(left, right, expected):
    assert repr(left & right) == expected
    assert (left & right).parts == (left & right, ()) or (left & right).parts[1] == ()


@each({name: SETS[name] for name in ("box", "capped", "l1", "l2", "polyhedron", "cvxpy")})
def test_intersection_is_both(feasible_set):
    other = L2Ball(4.0)
    both = feasible_set & other & Box(-5, 5)
    assert both.bounded
    assert both.bounds(DIM) is None
    for z in points(10):
        assert both.violation(z) == max(
            feasible_set.violation(z), other.violation(z), Box(-5, 5).violation(z)
        )
    assert not offers(both, Capability.PROJECTION)
    assert not offers(both, Capability.LINEAR_FORM)
    assert both.linear_form(DIM) is None
    x = nearest(both, np.full(DIM, 3.0))
    assert both.violation(x) < 1e-5


def test_restoration_changes_coordinates_inside_their_bounds():
    """A step along the whole row would be lost in the second coordinate, which is at its bound."""
    both = Box(0, 5, dim=2) & Polyhedron([[1.0, 100.0]], [1.0])
    np.testing.assert_allclose(both.restore(np.array([2.0, 0.0])), [1.0, 0.0], atol=1e-14)


def test_intersection_with_separators_splits_into_its_parts():
    oracle = SeparationOracle(lambda x: HalfSpace(np.ones(3), 1.0) if x.sum() > 1 else None)
    both = Box(0, 1, dim=3) & oracle & Simplex() & oracle
    simple, separators = both.parts
    assert repr(simple) == "Simplex(dim=3)"
    assert [s.dim for s in separators] == [3, 3]
    assert both.dim == 3
    assert both.bounded
    assert not offers(both, Capability.CVXPY)
    assert both.violation(np.array([1.0, 1.0, 0.0])) == 1.0
    only = oracle & oracle
    assert isinstance(only, Intersection)
    assert repr(only.parts[0]) == "WholeSpace()"
    assert only.bounded is None
    assert only.resolve(3).dim == 3
    assert [s.dim for s in only.resolve(3).parts[1]] == [3, 3]


# --- oracles and cvxpy ----------------------------------------------------------------------------


def test_separation_oracle_accepts_every_form_of_answer():
    half = HalfSpace([1.0, 0.0], 1.0)
    x = np.array([3.0, 0.0])
    for answer, count in [(None, 0), ([], 0), (half, 1), ([half, half], 2), ((half,), 1), (iter([half]), 1)]:
        oracle = separation_oracle(lambda _, answer=answer: answer)
        assert len(oracle.separate(x)) == count
    assert separation_oracle(lambda _: [half, HalfSpace([2.0, 0.0], 1.0)]).violation(x) == 5.0
    assert separation_oracle(lambda _: None).violation(x) == 0.0


def test_separation_oracle_cannot_write_to_the_point():
    @separation_oracle(dim=2)
    def careless(x):
        x[0] = 1.0

    x = np.zeros(2)
    with pytest.raises(ValueError, match="read-only"):
        careless.separate(x)
    x[0] = 2.0


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (True, "returned True"),
        (["inside"], "must return HalfSpace objects"),
        (HalfSpace([1.0, 2.0, 3.0], 0.0), "dimension 3"),
        (HalfSpace([0.0, 0.0], -1.0), "normal is zero"),
    ],
)
def test_separation_oracle_with_an_unusable_answer(answer, message):
    with pytest.raises(OracleError, match=message):
        SeparationOracle(lambda x: answer).separate(np.zeros(2))


def test_cvxpy_set_restores_the_variable_and_makes_new_constraints():
    w = cp.Variable((2, 2), name="W")
    w.value = np.eye(2)
    feasible_set = CvxpySet([w + w.T >> 0, cp.trace(w) <= 1, cp.norm(w, "fro") <= 3], w)
    assert feasible_set.dim == 4
    assert feasible_set.violation(np.array([2.0, 0.0, 0.0, 0.5])) == pytest.approx(1.5)
    np.testing.assert_array_equal(w.value, np.eye(2))
    x = cp.Variable(4)
    constraints = feasible_set.cvxpy_form(x) + feasible_set.cvxpy_form(x)
    assert len({c.id for c in constraints}) == 6
    assert {v.id for c in constraints for v in c.variables()} == {x.id}
    cp.Problem(cp.Maximize(x[0] - x[3] + x[1]), constraints).solve(cp.CLARABEL)
    assert feasible_set.violation(x.value) < 1e-6


def test_cvxpy_set_is_infinitely_violated_outside_the_domain():
    w = cp.Variable(2)
    assert CvxpySet([cp.log(w[0]) >= 0], w).violation(np.array([-1.0, 0.0])) == np.inf


# --- errors ---------------------------------------------------------------------------------------

W = cp.Variable(2, name="w")
ERRORS = {
    "empty box": (lambda: Box([0, 2], [1, 1]), r"lower\[1\] = 2.0, upper\[1\] = 1.0"),
    "box at infinity": (lambda: Box(np.inf, np.inf, dim=2), "empty"),
    "box shapes": (lambda: Box([0, 0], [1, 1, 1]), "lower: 2, upper: 3"),
    "box dim": (lambda: Box([0, 0], 1, dim=3), "lower: 2, dim: 3"),
    "simplex radius": (lambda: Simplex(3, radius=0), "radius"),
    "simplex dim": (lambda: Simplex(0), "at least 1"),
    "caps too small": (lambda: CappedSimplex(0.1, dim=5), "sum to 0.5"),
    "caps too small, later": (lambda: CappedSimplex(0.1).resolve(5), "sum to 0.5"),
    "negative cap": (lambda: CappedSimplex([1, -1]), r"cap\[1\] is -1"),
    "ball radius": (lambda: L1Ball(-1), "L1Ball.radius"),
    "ball centre": (lambda: L2Ball(1, [0, 0], dim=3), "centre: 2, dim: 3"),
    "norm of a ball": (lambda: NonnegativeBall(0.5), r"NonnegativeBall.p must be in \[1, inf\], got 0.5"),
    "radius of a nonnegative ball": (lambda: NonnegativeBall(2, radius=0), "NonnegativeBall.radius"),
    "polyhedron shape": (lambda: Polyhedron(np.eye(2), np.ones(3)), r"Polyhedron.b must have shape \(2,\)"),
    "polyhedron columns": (lambda: Polyhedron(np.eye(2), np.ones(2), np.ones((1, 3)), [1]), r"\(any, 2\)"),
    "polyhedron half": (lambda: Polyhedron(np.eye(2), np.ones(2), b_eq=[1]), "both A_eq and b_eq"),
    "polyhedron of nothing": (lambda: Polyhedron(), "use WholeSpace"),
    "dims": (lambda: Box(0, 1, dim=3) & Simplex(4), "one dimension"),
    "nothing": (lambda: Intersection([]), "at least one set"),
    "oracle type": (lambda: SeparationOracle(3), "callable"),
    "cvxpy variable": (lambda: CvxpySet([], 3), "cvxpy.Variable"),
    "cvxpy attribute": (lambda: CvxpySet([], cp.Variable(2, nonneg=True)), "nonneg"),
    "cvxpy not convex": (lambda: CvxpySet([cp.norm(W) >= 1], W), "not convex"),
    "cvxpy finite set": (lambda: CvxpySet([cp.FiniteSet(W[0], [0, 1])], W), "not convex"),
    "cvxpy other": (lambda: CvxpySet([W + cp.Variable(2, name="z") <= 1], W), r"\['z'\]"),
    "cvxpy parameter": (lambda: CvxpySet([W <= cp.Parameter(name="p")], W), r"\['p'\]"),
    "cvxpy no constraint": (lambda: CvxpySet([True], W), "cvxpy constraints"),
}


@pytest.mark.parametrize(("build", "message"), ERRORS.values(), ids=ERRORS.keys())
def test_errors_name_the_fault(build, message):
    with pytest.raises(InvalidInputError, match=message):
        build()


def test_an_open_box_has_no_linear_minimiser():
    assert not offers(NonnegativeOrthant(), Capability.LINEAR_MINIMISATION)
    with pytest.raises(MissingCapabilityError, match="coordinate 1"):
        NonnegativeOrthant().minimise_linear(np.array([1.0, -1.0]))
    with pytest.raises(TypeError):
        Box(0, 1) & 3


def test_parameters_are_copied_and_read_only():
    lower = np.zeros(2)
    box = Box(lower, 1)
    lower[0] = 5.0
    assert box.lower[0] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        box.lower[0] = 1.0


def test_matrices_are_not_copied_and_stay_the_callers():
    A = np.eye(2)
    polyhedron = Polyhedron(A, np.ones(2))
    assert np.shares_memory(polyhedron.A, A)
    A[0, 0] = 2.0
    S = sparse.csr_array(np.eye(2))
    assert np.shares_memory(Polyhedron(S, np.ones(2)).A.data, S.data)


# --- the nonnegative ball ---------------------------------------------------------------------------

EXPONENTS = (1.0, 1.01, 4 / 3, 1.5, 2.0, 3.0, 4.0, 60.0, np.inf)


@pytest.mark.parametrize("p", [*EXPONENTS, 1.0001, 1.9, 1000.0])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_the_projection_meets_its_optimality_conditions(p, data):
    """What is cut off is a normal of the ball: no point of it has a larger product with z - x."""
    entries = st.floats(-3, 3) | st.sampled_from([0.0, 1.0, 1e-9, 1e-310, 1e6, -1e6])
    z = data.draw(arrays(np.float64, st.integers(1, 8), elements=entries))
    radius = data.draw(st.sampled_from([1e-3, 1.0, 50.0]))
    ball = NonnegativeBall(p, radius)
    x = ball.project(z)
    assert ball.violation(x) <= 1e-14 * radius
    normal = z - x
    farthest = ball.minimise_linear(-normal)
    assert normal @ (farthest - x) <= 4e-13 * radius * np.abs(z).max()


def test_norms_do_not_overflow():
    assert lp_norm(np.array([3e200, 4e200]), 2.0) == pytest.approx(5e200)
    assert lp_norm(np.full(8, 1e-200), 3.0) == pytest.approx(2e-200)
    assert lp_norm(np.zeros(2), 2.0) == 0.0
    ball = NonnegativeBall(4.0)
    np.testing.assert_allclose(ball.minimise_linear(np.array([-1e-310, 1.0])), [1.0, 0.0])
    assert ball.minimise_linear(np.array([0.0, 2.0])).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("p", [1.0, 4 / 3, 2.0, 3.0, np.inf])
@pytest.mark.parametrize("method", [cut.FrankWolfe("exact", "pairwise"), cut.OCAS()], ids=["FW", "OCAS"])
def test_smooth_risks_over_it(p, method):
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((30, 5)), rng.standard_normal(30) + 1.0
    ball, w = NonnegativeBall(p, 0.3), cp.Variable(5)
    lam = 0.1 if isinstance(method, cut.OCAS) else 0.0
    regularizer = cut.L2(lam) if lam else None
    risk = cut.LinearRisk(X, y, cut.losses.Squared())
    monolith = cp.sum(cut.losses.Squared().cvxpy_form(X @ w, y)) / 30 + lam / 2 * cp.sum_squares(w)
    optimum = cp.Problem(cp.Minimize(monolith), ball.cvxpy_form(w)).solve(cp.CLARABEL)
    result = cut.Problem(risk, regularizer, ball).solve(method, tol=1e-5, max_iter=5000)
    assert result.status == "OPTIMAL"
    assert result.objective == pytest.approx(float(optimum), rel=2e-5)
    assert result.lower_bound <= float(optimum) * (1 + 1e-7)
    assert result.certificate.verify().valid

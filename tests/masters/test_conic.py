"""Inner minima, projections and infeasibility: bounds that hold, against closed forms and brute force."""

import math
from types import SimpleNamespace

import cvxpy as cp
import numpy as np
import pytest
from cvxpy.reductions.solvers.solving_chain import SolvingChain
from hypothesis import given, settings
from hypothesis import strategies as st

from cutplane.exceptions import InvalidInputError, MissingCapabilityError
from cutplane.masters.base import HALF_SPACE, ReducedProblem
from cutplane.masters.certificates import ConicProjection, InnerMinimum, certify_infeasible
from cutplane.masters.cone_master import ConeMaster
from cutplane.masters.cone_programme import (
    BACKENDS,
    ConeProgramme,
    Outcome,
    Solved,
    _cones,
    column_sizes,
    into_dual_cone,
    solve_conic,
)
from cutplane.regularizers import L1, L2, CvxpyRegularizer, NegativeEntropy, NoRegularizer
from cutplane.regularizers.base import Minimum
from cutplane.sets import Box, CvxpySet, L2Ball, Polyhedron, PSDCone, Simplex, WholeSpace

DIM = 6
W = cp.Variable(DIM)
MATRIX = cp.Variable((3, 3))
BOX, BALL, SIMPLEX = (
    CvxpySet([cp.abs(W) <= 2], W),
    CvxpySet([cp.norm2(W) <= 2], W),
    CvxpySet([W >= 0, cp.sum(W) == 1], W),
)
CLOSED_FORMS = {
    "nothing, box": (NoRegularizer(), BOX, NoRegularizer(), Box(-2, 2, DIM)),
    "nothing, ball": (NoRegularizer(), BALL, NoRegularizer(), L2Ball(2.0, dim=DIM)),
    "L2, box": (L2(0.5), BOX, L2(0.5), Box(-2, 2, DIM)),
    "L2, simplex": (L2(0.5), SIMPLEX, L2(0.5), Simplex(DIM)),
    "L1, box": (L1(0.5), BOX, L1(0.5), Box(-2, 2, DIM)),
    "entropy, simplex": (NegativeEntropy(0.5), SIMPLEX, NegativeEntropy(0.5), Simplex(DIM)),
    "squares, whole space": (
        CvxpyRegularizer(cp.sum_squares(W), W, 0.25),
        WholeSpace(DIM),
        L2(0.5),
        WholeSpace(DIM),
    ),
}
OTHERS = {
    "semidefinite, unit trace": (NoRegularizer(), CvxpySet([MATRIX >> 0, cp.trace(MATRIX) <= 1], MATRIX)),
    "cubic norm": (CvxpyRegularizer(cp.pnorm(W, 3) ** 2, W, 0.3), WholeSpace(DIM)),
    "geometric mean": (CvxpyRegularizer(-cp.geo_mean(W), W, 0.3), CvxpySet([W <= 1], W)),
    "logistic": (CvxpyRegularizer(cp.sum(cp.logistic(W)), W, 0.3), CvxpySet([cp.abs(W) <= 2], W)),
    "power": (CvxpyRegularizer(cp.sum(cp.power(W, 1.5)), W, 0.3), CvxpySet([W <= 4], W)),
}


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_inner_minimum_is_below_the_closed_form_and_close_to_it(name):
    regularizer, simple_set, same_regularizer, same_set = CLOSED_FORMS[name]
    inner = InnerMinimum(regularizer, simple_set, DIM)
    rng = np.random.default_rng(1)
    for size in (1.0, 1e-5, 1e4):
        v = size * rng.normal(size=DIM)
        exact = same_regularizer.conjugate_minimiser(v, same_set)
        found = inner(v)
        scale = abs(exact.value) + size
        assert exact.value - 1e-6 * scale <= found.value <= exact.value + 1e-13 * scale
        np.testing.assert_allclose(found.x, exact.x, atol=1e-9 + 2e-3 * np.abs(exact.x).max())


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", OTHERS)
def test_the_bound_of_every_cone_holds_and_is_tight(name, backend):
    regularizer, simple_set = OTHERS[name]
    dim = simple_set.dim
    x = cp.Variable(dim)
    v = np.random.default_rng(3).normal(size=(dim,))
    if simple_set.dim == 9:
        v = (v.reshape(3, 3) + v.reshape(3, 3).T).ravel()
    problem = cp.Problem(cp.Minimize(regularizer.cvxpy_form(x) + v @ x), simple_set.cvxpy_form(x))
    outcome = solve_conic(problem, x, backend)
    assert outcome.bound <= outcome.value + 1e-9 * abs(outcome.value)
    assert outcome.bound >= outcome.value - 1e-4 * abs(outcome.value)
    rng = np.random.default_rng(0)
    for _ in range(500):
        point = outcome.x + rng.normal(size=dim) * rng.choice([0.003, 0.03, 0.3])
        if simple_set.violation(point) <= 0.0:
            assert outcome.bound <= regularizer.value(point) + v @ point + 1e-9


def test_scs_is_asked_for_a_bound_with_many_digits():
    regularizer, simple_set = OTHERS["cubic norm"]
    x, v = cp.Variable(DIM), np.random.default_rng(3).normal(size=DIM)
    problem = cp.Problem(cp.Minimize(regularizer.cvxpy_form(x) + v @ x), simple_set.cvxpy_form(x))
    outcome = solve_conic(problem, x, "SCS")
    assert outcome.value - 1e-7 * abs(outcome.value) <= outcome.bound <= outcome.value


def test_a_second_backend_is_asked_where_the_first_is_inaccurate():
    centre = np.array([-2.86e-6, -1.11e-5, -2.5e-6, -1.49e-6, 1.73e-6, 3.75e-6])
    v = np.array([-49152.0, 63488.05698764, -43008.0, -128000.08548146, 29696.02137037, 12288.0])
    steep = CvxpyRegularizer(262144.0 * cp.norm_inf(W), W, 0.5)
    rng = np.random.default_rng(0)
    for _ in range(30):  # every tenth of them is left at three digits by the first backend
        near, slope = centre * (1 + 0.02 * rng.normal(size=DIM)), v * (1 + 1e-3 * rng.normal(size=DIM))
        inner = InnerMinimum(steep, CvxpySet([cp.norm2(W - near) <= 9.43e-6], W), DIM)
        found = inner(slope, extent=7.15e-6)
        assert found.value >= 131072.0 * np.abs(found.x).max() + slope @ found.x - 1e-3


def test_unbounded_inner_minima_need_a_budget():
    inner = InnerMinimum(CvxpyRegularizer(cp.norm1(W), W, 0.5), WholeSpace(DIM), DIM)
    assert inner(np.full(DIM, 0.25)).value == pytest.approx(0.0, abs=1e-8)
    steep = np.arange(DIM) / 2.0
    assert inner(steep) == (-math.inf, None)
    exact = L1(0.5).conjugate_minimiser(steep, WholeSpace(DIM), budget=3.0).value
    assert inner(steep, budget=3.0).value == pytest.approx(exact, abs=1e-6)
    assert inner(steep) == (-math.inf, None)
    assert inner(np.full(DIM, 0.25), budget=3.0).value == pytest.approx(0.0, abs=1e-6)


def test_an_empty_set_has_no_inner_minimum():
    empty = CvxpySet([W >= 1, cp.sum(W) <= 0], W)
    assert InnerMinimum(L2(1.0), empty, DIM)(np.ones(DIM)) == (-math.inf, None)
    with pytest.raises(InvalidInputError, match="is empty"):
        ConicProjection(empty, DIM)(np.zeros(DIM))


def test_a_missing_cvxpy_form_is_named():
    class Opaque(NoRegularizer):
        cvxpy_form = None

    with pytest.raises(MissingCapabilityError, match="Opaque"):
        InnerMinimum(Opaque(), BOX, DIM)


@pytest.mark.parametrize(
    ("simple_set", "same"), [(BOX, Box(-2, 2, DIM)), (BALL, L2Ball(2.0, dim=DIM)), (SIMPLEX, Simplex(DIM))]
)
def test_projection_against_the_closed_form(simple_set, same):
    project = ConicProjection(simple_set, DIM)
    rng = np.random.default_rng(2)
    for size in (0.1, 3.0, 100.0):
        point = size * rng.normal(size=DIM)
        np.testing.assert_allclose(project(point), same.project(point), atol=1e-6)
        inside = 0.999 * same.project(point) if same.violation(np.zeros(DIM)) == 0.0 else same.project(point)
        np.testing.assert_allclose(project(inside), inside, atol=1e-6)


def half_spaces(normals, offsets):
    """The rows <normal, x> <= offset, and one cut that must not matter."""
    normals = np.vstack([np.ones((1, 2)), np.reshape(normals, (-1, 2))])
    blocks = np.append(0, np.full(len(offsets), HALF_SPACE))
    return SimpleNamespace(slopes=normals, offsets=-np.append(-9.0, offsets), blocks=blocks)


PLANE = cp.Variable(2)


@pytest.mark.parametrize(
    ("normals", "offsets", "simple_set", "infeasible"),
    [
        ([[1, 0], [-1, 0]], [0.0, -1.0], WholeSpace(2), True),
        ([[1, 0], [-1, 0]], [0.0, 0.0], WholeSpace(2), False),
        ([[1e6, 0], [-1e-6, 0]], [0.0, -1e-6], WholeSpace(2), True),
        ([[1, 1]], [-2.001], Box(-1, 1, 2), True),
        ([[1, 1]], [-1.999], Box(-1, 1, 2), False),
        ([[1, 1]], [0.99], Simplex(2), True),
        ([[1, 1]], [-2.83], L2Ball(2.0, dim=2), True),
        ([[1, 1]], [-2.82], L2Ball(2.0, dim=2), False),
        ([[1, 1]], [-2.01], Polyhedron(np.vstack([np.eye(2), -np.eye(2)]), np.ones(4)), True),
        ([[1, 1]], [-1.99], Polyhedron(np.vstack([np.eye(2), -np.eye(2)]), np.ones(4)), False),
        ([[1, 1]], [5.0], CvxpySet([PLANE >= 1, cp.sum(PLANE) <= 0], PLANE), True),
        ([], [], CvxpySet([PLANE >= 1, cp.sum(PLANE) <= 0], PLANE), True),
        ([], [], Box(-1, 1, 2), False),
        ([[0, 0]], [-1.0], Box(-1, 1, 2), True),
    ],
)
def test_infeasibility_is_certified_when_it_is_there(normals, offsets, simple_set, infeasible):
    assert certify_infeasible(half_spaces(normals, offsets), simple_set, 2) is infeasible


def dims(**sizes):
    return SimpleNamespace(
        **{"zero": 0, "nonneg": 0, "soc": [], "psd": [], "exp": 0, "p3d": [], "pnd": [], **sizes}
    )


def svec(matrix, upper):
    columns, rows = np.tril_indices(3) if upper else np.triu_indices(3)
    return matrix[rows, columns] * np.where(rows == columns, 1.0, math.sqrt(2.0))


def primal_points(kind, rng, count=40):
    """Random points of each cone."""
    for _ in range(count):
        u = rng.normal(size=3) * 10.0 ** rng.uniform(-2, 2)
        if kind == "nonneg":
            yield np.abs(u)
        elif kind == "soc":
            yield np.append(np.linalg.norm(u), u)
        elif kind in ("upper", "lower"):
            root = rng.normal(size=(3, 2))
            yield svec(root @ root.T, kind == "upper")
        elif kind == "exp":
            y = abs(u[1])
            yield np.array([u[0], y, y * math.exp(min(u[0] / y, 300.0))])
        else:
            a, b = np.abs(u[:2])
            yield np.array([a, b, rng.choice([-1, 1]) * a**0.3 * b**0.7])


CONES = {
    "nonneg": (dims(nonneg=3), 3),
    "soc": (dims(soc=[4]), 4),
    "upper": (dims(psd=[3]), 6),
    "lower": (dims(psd=[3]), 6),
    "exp": (dims(exp=1), 3),
    "power": (dims(p3d=[0.3]), 3),
    "n-power": (dims(pnd=[[0.3, 0.7]]), 3),
}


@pytest.mark.parametrize("kind", CONES)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), exponent=st.floats(-3, 3))
def test_points_are_moved_into_the_dual_cone_and_stay_there(kind, seed, exponent):
    sizes, length = CONES[kind]
    rng = np.random.default_rng(seed)
    z = rng.normal(size=length) * 10.0 ** (exponent * rng.random(length))
    y = into_dual_cone(z, sizes, upper=kind == "upper")
    for s in primal_points(kind, rng):
        assert y @ s >= -1e-9 * (np.abs(y) @ np.abs(s))
    np.testing.assert_allclose(
        into_dual_cone(y, sizes, upper=kind == "upper"), y, rtol=1e-12, atol=1e-12 * np.abs(y).max()
    )


def test_the_cones_of_a_product_are_told_apart():
    sizes = dims(zero=2, nonneg=2, soc=[3], psd=[1], exp=1, p3d=[0.5])
    z = np.array([-1.0, 2.0, -3.0, 4.0, 0.0, 3.0, 4.0, -1.0, 0.0, -1.0, 1.0, 1.0, 1.0, 9.0])
    expected = np.array([-1.0, 2.0, 0.0, 4.0, 5.0, 3.0, 4.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 2.0])
    np.testing.assert_allclose(into_dual_cone(z, sizes, upper=True), expected)


def test_a_backend_that_diverged_bounds_nothing(monkeypatch):
    x = cp.Variable(3)
    problem = cp.Problem(cp.Minimize(cp.norm(x - 1.0) + cp.sum(x)), [x >= 0.0])
    solve = SolvingChain.solve_via_data

    def diverged(*args, **options):
        raw = solve(*args, **options)
        names = ("x", "s", "status", "obj_val", "solve_time", "iterations")
        return SimpleNamespace(**{name: getattr(raw, name) for name in names}, z=1e200 * np.array(raw.z))

    monkeypatch.setattr(SolvingChain, "solve_via_data", diverged)
    with np.errstate(all="raise"):
        assert solve_conic(problem, x, "CLARABEL").bound == -np.inf


def test_a_solver_that_fails_at_the_last_digits_is_asked_for_fewer(monkeypatch):
    x = cp.Variable(3)
    problem = cp.Problem(cp.Minimize(cp.norm(x - 1.0)), [cp.sum(x) <= 0.0])
    solve, asked = SolvingChain.solve_via_data, []

    def fails_once(*args, **options):
        raw = solve(*args, **options)
        asked.append(raw.status)
        return SimpleNamespace(x=raw.x, z=raw.z, status="NumericalError") if len(asked) == 1 else raw

    monkeypatch.setattr(SolvingChain, "solve_via_data", fails_once)
    assert solve_conic(problem, x, "CLARABEL").bound == pytest.approx(math.sqrt(3.0), rel=1e-6)
    assert len(asked) == 2


def test_a_bound_reaches_auxiliaries_of_another_size():
    """The norm is 4e9 where its multiple is 0.1: a residual in the norm's column is worth as much more."""
    lam, extent = 2.0**-36, 4e9
    w = cp.Variable(7)
    inner = InnerMinimum(CvxpyRegularizer(cp.norm_inf(w) * lam, w, 2.0), WholeSpace(), 7)
    v = np.append(np.full(6, 1e-17), -2.0 * lam * (1.0 + 5e-6))
    excess = np.abs(v).sum() - 2.0 * lam
    assert inner(v, np.inf, extent).value <= -excess * extent


def test_an_inaccurate_solution_bounds_nothing_if_the_size_of_x_is_not_known(monkeypatch):
    answer = Outcome(cp.OPTIMAL_INACCURATE, np.ones(2), -1.0, -2.0)
    monkeypatch.setattr("cutplane.masters.certificates.attempted", lambda *_: answer)
    inner = InnerMinimum(L2(1.0), Polyhedron([[1.0, 1.0]], [1.0]), 2)
    assert inner(np.ones(2)).value == -np.inf
    assert inner(np.ones(2), np.inf, 1.0).value > -np.inf


def test_of_two_units_the_one_that_proves_more_counts(monkeypatch):
    inner = InnerMinimum(L2(1.0), Polyhedron([[1.0, 1.0]], [1.0]), 2)
    answers = [Minimum(-1.0, np.full(2, 1e5)), Minimum(-2.0, np.full(2, 1e5))]
    monkeypatch.setattr(inner, "_evaluate", lambda *_: answers.pop(0))
    assert inner(np.ones(2)).value == -1.0 and not answers


@pytest.mark.parametrize("v", [0.0, 1e-3, 1e5])
def test_a_heavy_regularizer_has_its_own_unit(v):
    """A projection, where v tells no unit of the objective: its solution to 1e-9."""
    normals = np.array([[-2.0, 0.0, -2.0, 1.0], [2.0, -2.0, 0.0, -1.0], [-1.0, 3.0, 0.0, -1.0]])
    centre, lam = np.array([-3.375, 0.5625, -2.046875, 1.0]), 2.0**30
    heavy = InnerMinimum(L2(lam, centre=centre), Polyhedron(normals, [-0.34375, 1.15625, 0.125]), 4)
    found = heavy(np.full(4, v), extent=0.921875)
    x = cp.Variable(4)
    objective = cp.Minimize(0.5 * cp.sum_squares(x - centre) + np.full(4, v / lam) @ x)
    exact = lam * cp.Problem(objective, [normals @ x <= [-0.34375, 1.15625, 0.125]]).solve("CLARABEL")
    assert exact * (1.0 - 1e-7) <= found.value <= exact * (1.0 + 1e-7)
    assert heavy.doubt <= 1e-7 * exact


def test_a_solution_that_proves_nothing_is_none(monkeypatch):
    answer = Outcome(cp.OPTIMAL, np.ones(2), -1.0, -np.inf)
    monkeypatch.setattr("cutplane.masters.certificates.attempted", lambda *_: answer)
    assert InnerMinimum(L2(1.0), Polyhedron([[1.0, 1.0]], [1.0]), 2)(np.ones(2)) == (-np.inf, None)


def test_a_problem_is_stated_anew_only_where_the_solution_is_far_from_its_unit(monkeypatch):
    inner = InnerMinimum(L2(1.0), Polyhedron([[1.0, 1.0]], [1.0]), 2)
    monkeypatch.setattr(inner, "_evaluate", lambda x, budget: Minimum(0.0, x))
    stated = [inner._problems]
    for extent in (0.0, 0.75, 3.0, 5e3, 6e3, 1e-2, 1.0):
        inner(np.full(2, extent or 0.5), extent=extent)
        if inner._problems is not stated[-1]:
            stated.append(inner._problems)
            assert inner._unit == 2.0 ** np.ceil(np.log2(extent))
    assert len(stated) == 3
    for size in (2.0**20, 2.0**4):  # nothing but the first solution tells it
        inner(np.full(2, 0.75 * size))
        assert inner._unit == size


def test_the_rows_of_every_cone_are_counted():
    product = dims(zero=2, nonneg=1, soc=[4, 2], psd=[3, 1], exp=2, p3d=[0.3], pnd=[[0.2, 0.3, 0.5]])
    first, sizes = _cones(product)
    assert sizes.tolist() == [1, 1, 1, 4, 2, 6, 1, 3, 3, 3, 4]
    assert first.tolist() == [0, 1, 2, 3, 7, 9, 15, 16, 19, 22, 25]


@pytest.mark.parametrize(("v", "b", "reach"), [(0.5, -0.25, 10.0), (-7.0, 3.0, 70.0), (2.0, -9.0, 90.0)])
def test_the_box_of_a_bound_is_ten_times_larger_than_the_solution_and_the_sides(v, b, reach):
    sides, point = np.array([0.0, b]), np.array([v, 0.0])
    answer = Solved(None, sides, None, None, 0.0, point, sides, "", 0, sides, {}, sides)
    assert answer.reach == reach


def test_squares_far_from_the_point_that_a_backend_returns_are_within_the_box_of_a_bound():
    """A backend that stops at the centre of a regularizer, where squares are 0, and a minimum far away."""
    scale, centre, v = 2.0**-30, 12288.0, np.array([1.14440977e-5])
    box = Box(-239616.0, 591872.0, dim=1)
    inner = InnerMinimum(L2(scale, centre=np.full(1, centre)), box & PSDCone(1), 1)
    inner._needs_budget = True
    for unit in (2.0**-7, 1.0, 2.0**5, 2.0**14):
        inner._compile(unit)
        for extent in (0.0, 3e-11):
            assert inner(v, 5.6, extent).value <= 0.5 * scale * centre**2 + 1e-9


def test_the_size_of_a_square_is_that_of_its_rows():
    x = cp.Variable(2)
    problem = cp.Problem(cp.Minimize(cp.sum(x)), [cp.sum_squares(x - 300.0) <= 4e4, x <= 1e3])
    answer = ConeProgramme(problem, "CLARABEL").solve()
    squares, t = answer.squares(0.0), float(np.sum((answer.values(x) - 300.0) ** 2))
    assert (squares > 0.0).sum() == 1 and not (squares[answer.known] > 0.0).any()
    assert squares[squares > 0.0] >= t / column_sizes(answer.A, answer.known).max()
    assert (answer.squares(1e5) >= squares).all() and answer.squares(1e5).max() > 1e9
    assert answer.reaches() @ (squares > 0.0) == 10.0 * squares.max() > answer.reach
    assert answer.reaches() @ answer.known == answer.known.sum() * answer.reach


def test_a_slope_of_last_bits_is_solved_in_the_unit_of_the_regularizer():
    x = cp.Variable(3)
    ball = CvxpySet([cp.norm2(x[:2] - 0.25) <= 1.5, cp.abs(x[2]) <= 4.0], x)
    region = Polyhedron(A_eq=[[1.0, 1.0, 0.0]], b_eq=[0.5]) & ball
    inner = InnerMinimum(L2(2.0, weights=[1.0, 1.0, 0.0]), region, 3)
    assert inner(np.array([-6e-22, 4e-22, -1e-21])).value == pytest.approx(0.125, rel=1e-6)


def test_a_setting_that_clarabel_does_not_have_is_named():
    reduced = ReducedProblem(3, 1, L1(0.5), Box(-1.0, 1.0, dim=3))
    with pytest.raises(InvalidInputError, match="Clarabel has no setting 'no_such_option'"):
        ConeMaster(reduced, {"no_such_option": 1})

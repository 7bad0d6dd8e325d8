"""Inner minima, projections and infeasibility: bounds that hold, against closed forms and brute force."""

import math
from types import SimpleNamespace

import cvxpy as cp
import numpy as np
import pytest
from cvxpy.reductions.solvers.solving_chain import SolvingChain

from cutplane.exceptions import InvalidInputError, MissingCapabilityError
from cutplane.masters import cone_programme
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
from cutplane.runtime import clock
from cutplane.runtime.deadline import OutOfTime, limited_to
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
    assert heavy.solver_gap <= 1e-7 * exact


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


# --- points moved into the dual of a cone ----------------------------------------------------------


def moved(z, upper=True, **sizes):
    given = np.array(z, dtype=float)
    found = into_dual_cone(given, dims(**sizes), upper)
    assert given.tolist() == [float(entry) for entry in z]
    return found.tolist()


def test_equations_are_free_and_inequalities_are_not_negative():
    assert moved([-1.0, 2.0, -3.0, 4.0], zero=2, nonneg=2) == [-1.0, 2.0, 0.0, 4.0]
    assert moved([-1.0, 2.0], zero=1, nonneg=1) == [-1.0, 2.0]


@pytest.mark.parametrize("first, wanted", [(6.0, 6.0), (5.0, 5.0), (4.0, 5.0), (-9.0, 5.0)])
def test_second_order_cones_raise_the_first_entry(first, wanted):
    assert moved([first, 3.0, -4.0], soc=[3]) == [wanted, 3.0, -4.0]
    assert moved([-7.0, first, 3.0, -4.0, -2.0, 1.0], zero=1, soc=[3, 2]) == [
        -7.0,
        wanted,
        3.0,
        -4.0,
        1.0,
        1.0,
    ]


ROOT = math.sqrt(2.0)


@pytest.mark.parametrize("upper", [True, False])
def test_matrices_lose_their_negative_eigenvalues(upper):
    """(0, 2; 2, 0) has the eigenvalues 2 and -2; without the second it is (1, 1; 1, 1)."""
    assert moved([0.0, 2.0 * ROOT, 0.0], upper, psd=[2]) == pytest.approx([1.0, ROOT, 1.0])
    assert moved([2.0, ROOT, 3.0], upper, psd=[2]) == [2.0, ROOT, 3.0]
    assert moved([-4.0], upper, psd=[1]) == pytest.approx([0.0])


def test_triangles_are_stacked_by_columns_or_by_rows():
    upper = [0.0, 0.0, 5.0, 2.0 * ROOT, 0.0, 0.0]  # (0, 0, 2; 0, 5, 0; 2, 0, 0)
    assert moved(upper, True, psd=[3]) == pytest.approx([1.0, 0.0, 5.0, ROOT, 0.0, 1.0], abs=1e-12)
    lower = [0.0, 0.0, 2.0 * ROOT, 5.0, 0.0, 0.0]
    assert moved(lower, False, psd=[3]) == pytest.approx([1.0, 0.0, ROOT, 5.0, 0.0, 1.0], abs=1e-12)


def lifted(u, v):
    return -u * math.exp(v / u - 1.0)


EXPONENTIAL = {
    "inside": ([-1.0, 0.0, 1.0], [-1.0, 0.0, 1.0]),
    "raised in w": ([-1.0, -1.0, 0.9], [-1.0, -1.0, lifted(-1.0, -1.0)]),
    "raised in v": ([-1.0, -3.0, 5.0], [-1.0, -(1.0 + math.log(5.0)), 5.0]),
    "w negative": ([-1.0, 1.0, -2.0], [-1.0, 1.0, lifted(-1.0, 1.0)]),
    "u zero": ([0.0, -2.0, 3.0], [0.0, 0.0, 3.0]),
    "u positive": ([4.0, 2.0, -3.0], [0.0, 2.0, 0.0]),
    "overflow": ([-1e-3, -5.0, 0.0], [0.0, 0.0, 0.0]),
    "overflow with v raised": ([-1e-3, -5.0, 1.0], [-1e-3, -1e-3 * (1.0 + math.log(1e3)), 1.0]),
}


@pytest.mark.parametrize("name", EXPONENTIAL)
def test_exponential_cones_move_the_entry_that_moves_least(name):
    z, wanted = EXPONENTIAL[name]
    assert moved(z, exp=1) == pytest.approx(wanted, rel=1e-14)
    assert moved([*z, *z], exp=2) == pytest.approx([*wanted, *wanted], rel=1e-14)


@pytest.mark.parametrize("w, wanted", [(1.0, 1.0), (-1.0, -1.0), (5.0, 4.0), (-5.0, -4.0)])
def test_power_cones_clip_the_last_entry(w, wanted):
    """(2 / 0.5)^0.5 (2 / 0.5)^0.5 = 4, and (3 / 0.75)^0.75 (1 / 0.25)^0.25 = 4."""
    assert moved([2.0, 2.0, w], p3d=[0.5]) == pytest.approx([2.0, 2.0, wanted])
    assert moved([3.0, 1.0, w], p3d=[0.75]) == pytest.approx([3.0, 1.0, wanted])
    assert moved([2.0, 1.0, 1.0, w], pnd=[[0.5, 0.25, 0.25]]) == pytest.approx([2.0, 1.0, 1.0, wanted])
    assert moved([-2.0, 2.0, w], p3d=[0.5]) == [0.0, 2.0, 0.0]


def test_the_limit_of_a_solver_leaves_out_what_compiling_took(monkeypatch):
    x = cp.Variable(3)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(x - np.arange(3.0))), [x <= 1.0])
    compiled, elapsed = cp.Problem.get_problem_data, [0.0]
    monkeypatch.setattr(clock, "perf_counter", lambda: elapsed[0])

    def slowly(self, *arguments, **options):
        elapsed[0] += 8.0
        return compiled(self, *arguments, **options)

    monkeypatch.setattr(cp.Problem, "get_problem_data", slowly)
    limits = []
    timed = cone_programme.timed
    monkeypatch.setattr(cone_programme, "timed", lambda *given: limits.append(timed(*given)) or limits[-1])
    with limited_to(10.0):
        assert solve_conic(problem, x, "CLARABEL").x == pytest.approx([0.0, 1.0, 1.0], abs=1e-5)
    assert limits[-1]["time_limit"] < 2.0
    with limited_to(5.0), pytest.raises(OutOfTime):
        solve_conic(problem, x, "CLARABEL")

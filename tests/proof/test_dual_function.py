"""The dual function at given multipliers, against closed forms, and what it charges for rounding."""

import math
from types import SimpleNamespace

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse

import cutplane as cut
from cutplane.masters.base import HALF_SPACE
from cutplane.proof.bound import normalised
from cutplane.proof.dual import DualFunction
from cutplane.proof.rounding import CANCELLED

INF = math.inf
SLOPES = np.array([[1.0, 2.0], [-3.0, 0.0], [0.0, 4.0]])
OFFSETS = np.array([1.0, -2.0, 10.0])
BLOCKS = np.zeros(3, dtype=int)
VARIABLE = cp.Variable(2)


def problem(regularizer, feasible=None, dim=2, blocks=1, infimum=-INF):
    risk = cut.OracleRisk(lambda x: (np.zeros(blocks), np.zeros((blocks, dim))), dim, blocks, infimum)
    return cut.Problem(risk, regularizer, feasible)


@pytest.mark.parametrize("kind", [np.array, sparse.csr_array])
@pytest.mark.parametrize("weights", [[1.0, 0.0, 0.0], [0.25, 0.5, 0.25], [0.0, 0.0, 1.0]])
def test_the_value_is_that_of_the_conjugate_of_a_square(weights, kind):
    """min over x of lam/2 |x|^2 + <v, x> is -|v|^2 / (2 lam), attained at -v / lam."""
    dual = DualFunction(problem(cut.L2(2.0)))
    found = dual(kind(SLOPES), OFFSETS, BLOCKS, np.array(weights), INF)
    assert not dual.calls_solver and dual.solver_gap == 0.0
    v, constant = weights @ SLOPES, weights @ OFFSETS
    assert found.value == pytest.approx(constant - v @ v / 4.0, abs=1e-12)
    assert found.minimiser == pytest.approx(-v / 2.0)
    assert found.magnitude == pytest.approx(weights @ np.abs(OFFSETS) + v @ v / 4.0)
    assert found.multipliers.tolist() == weights


def test_multipliers_are_normalised_first():
    found = DualFunction(problem(cut.L2(2.0)))(SLOPES, OFFSETS, BLOCKS, np.array([1.0, 2.0, -1.0]), INF)
    assert found.multipliers == pytest.approx([1 / 3, 2 / 3, 0.0])


def test_without_a_positive_multiplier_there_is_no_bound():
    found = DualFunction(problem(cut.L2(2.0)))(SLOPES, OFFSETS, BLOCKS, -np.ones(3), INF)
    assert found.value == -INF
    assert found.multipliers.tolist() == [0.0, 0.0, 0.0]
    assert (found.magnitude, found.minimiser, found.error) == (1.0, None, 0.0)


@pytest.mark.parametrize(
    "multipliers, blocks, n_blocks, wanted",
    [
        ([1.0, 3.0], [0, 0], 1, [0.25, 0.75]),
        ([1.0, -3.0], [0, 0], 1, [1.0, 0.0]),
        ([1e-20, 3e-20], [0, 0], 1, [0.25, 0.75]),
        ([np.nan, 2.0], [0, 0], 1, [0.0, 1.0]),
        ([np.inf, 2.0], [0, 0], 1, [0.0, 1.0]),
        ([1.5e308, 1.5e308], [0, 0], 1, [0.5, 0.5]),
        ([1.0, 0.9e-14], [0, 0], 1, [1.0, 0.0]),
        ([1.0, 1.1e-14], [0, 0], 1, [1.0, 1.1e-14]),
        ([0.0, 0.0], [0, 0], 1, None),
        ([np.nan, -1.0], [0, 0], 1, None),
        ([1.0, 0.0], [0, 1], 2, None),
        ([2.0, 6.0, 3.0], [0, 1, HALF_SPACE], 2, [1.0, 1.0, 0.75]),
        ([2.0, 6.0], [0, HALF_SPACE], 1, [1.0, 3.0]),
        ([0.0, 6.0], [0, HALF_SPACE], 1, None),
        ([0.5, 1e-30, 1e-18, 1e-40], [0, 0, HALF_SPACE, HALF_SPACE], 1, [1.0, 0.0, 2e-18, 0.0]),
        ([1.0, 1.0, 2.0, 4.0], [1, 0, 1, 0], 2, [1 / 3, 0.2, 2 / 3, 0.8]),
    ],
)
def test_each_block_is_normalised_and_half_spaces_with_the_mean(multipliers, blocks, n_blocks, wanted):
    found = normalised(np.array(multipliers), np.array(blocks), n_blocks)
    assert (found is None) == (wanted is None)
    if wanted is not None:
        assert found == pytest.approx(wanted, rel=1e-13, abs=0.0)


FREE = {
    "a bias": (cut.L2(1.0, weights=[1.0, 0.0]), None, [1]),
    "none": (cut.L2(1.0), None, []),
    "everything": (cut.NoRegularizer(), None, []),
    "bounded below": (cut.L2(1.0, weights=[1.0, 0.0]), cut.Box([-INF, 0.0], INF), []),
    "bounded above": (cut.L2(1.0, weights=[1.0, 0.0]), cut.Box(-INF, [INF, 0.0]), []),
    "bounds elsewhere": (cut.L2(1.0, weights=[1.0, 0.0]), cut.Box([-1.0, -INF], [1.0, INF]), [1]),
    "a norm": (cut.L1(1.0, weights=[0.0, 1.0]), None, [0]),
    "a simplex": (cut.L2(1.0, weights=[1.0, 0.0]), cut.Simplex(), []),
}


@pytest.mark.parametrize("name", FREE)
def test_free_coordinates_have_neither_regularizer_nor_bounds(name):
    regularizer, feasible, wanted = FREE[name]
    assert DualFunction(problem(regularizer, feasible)).free.tolist() == wanted


def test_free_coordinates_are_balanced_and_their_slope_is_zero():
    dual = DualFunction(problem(cut.L2(1.0, weights=[1.0, 0.0])))
    slopes = np.array([[1.0, 2.0], [1.0, -2.0], [3.0, 1.0]])
    found = dual(slopes, np.array([1.0, 1.0, 5.0]), BLOCKS, np.array([0.5 + 1e-6, 0.5 - 1e-6, 0.0]), INF)
    assert found.multipliers == pytest.approx([0.5, 0.5, 0.0], abs=1e-12)
    assert found.value == pytest.approx(0.5)
    hopeless = dual(slopes[[0, 2]], OFFSETS[:2], BLOCKS[:2], np.array([0.5, 0.5]), INF)
    assert hopeless.value == -INF


def test_a_residual_of_bits_is_charged_over_the_reach():
    """The slope of the only row in the free coordinate is 1e-14, which is charged per unit of distance."""
    dual = DualFunction(problem(cut.L2(1.0, weights=[1.0, 0.0])))
    rows = np.array([[0.0, 1e-14], [1.0, 1.0]]), np.array([8.0, 8.0]), BLOCKS[:2], np.array([1.0, 0.0])
    steep = np.array([[1.0, 1e-14], [1.0, 1.0]])
    near = dual(steep, *rows[1:], INF, reach=0.0)
    far = dual(steep, *rows[1:], INF, reach=1e6)
    assert 7.5 - 1e-13 < near.value <= 7.5
    assert far.error == pytest.approx(near.error + 1e-8, rel=1e-3)
    assert far.value == pytest.approx(7.5 - far.error, abs=1e-13)


BUDGETS = [(7.0, -INF, -INF), (7.0, 3.0, None), (INF, 3.0, -INF)]


@pytest.mark.parametrize("upper, infimum, wanted", BUDGETS)
def test_a_budget_for_the_regularizer_keeps_a_norm_finite(upper, infimum, wanted):
    """g <= upper - infimum = 4 = |x|, so that the least of |x| + 3 x is -2 * 4."""
    dual = DualFunction(problem(cut.L1(1.0), dim=1, infimum=infimum))
    found = dual(np.array([[3.0]]), np.array([5.0]), BLOCKS[:1], np.ones(1), upper)
    assert found.value == (pytest.approx(5.0 - 8.0) if wanted is None else wanted)


def test_a_linear_programme_gives_the_inner_minimum_over_a_polyhedron():
    simplex = cut.Polyhedron(np.array([[1.0, 1.0], [-1.0, 0.0], [0.0, -1.0]]), np.array([1.0, 0.0, 0.0]))
    dual = DualFunction(problem(cut.NoRegularizer(), simplex))
    assert not dual.calls_solver
    found = dual(np.array([[-2.0, -3.0]]), np.array([1.0]), BLOCKS[:1], np.ones(1), INF)
    assert found.value == pytest.approx(-2.0)
    assert found.minimiser == pytest.approx([0.0, 1.0])
    assert dual.calls_solver
    assert dual.solver_gap == 0.0


@pytest.mark.parametrize(("loss", "used"), [(0.0, True), (1e-7, True), (1e-6, False), (1.0, False)])
def test_a_minimum_that_a_solver_has_proven_is_taken_unless_it_is_loose(loss, used):
    dual = DualFunction(problem(cut.NoRegularizer(), cut.Polyhedron([[1.0, 1.0]], [1.0]) & cut.Box(0.0, 1.0)))
    dual.known = SimpleNamespace(value=-3.0, at=lambda slope: -3.0 - loss)
    found = dual(np.array([[-2.0, -3.0]]), np.array([1.0]), BLOCKS[:1], np.ones(1), INF)
    assert found.value == pytest.approx(-2.0 - used * loss, abs=1e-9)
    assert dual.calls_solver == (not used)
    assert dual.known is None


CURVED = (
    (cut.NoRegularizer(), cut.L2Ball(1.0)),
    (cut.L1(), cut.L2Ball(1.0) & cut.Box(-1.0, 1.0)),
    (cut.L2(1.0), cut.Box(-1.0, 1.0)),
    (cut.CvxpyRegularizer(cp.norm1(VARIABLE), VARIABLE), cut.Simplex()),
)


@pytest.mark.parametrize(("regularizer", "feasible"), CURVED, ids=repr)
def test_what_is_curved_is_no_linear_programme(regularizer, feasible):
    assert problem(regularizer, feasible).solved_minimum()._programme is None


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
def test_a_linear_programme_has_the_auxiliaries_of_both_pieces(unit):
    ball = cut.L1Ball(unit, centre=[unit, 0.0]) & cut.Box(-unit, unit)
    dual = DualFunction(problem(cut.L1(1.0), ball))
    found = dual(np.array([[-3.0, -2.0]]), np.array([1.0]), BLOCKS[:1], np.ones(1), INF)
    assert found.value == pytest.approx(1.0 - 3.0 * unit, rel=1e-12)
    assert found.minimiser == pytest.approx([unit, unit], rel=1e-9)
    assert dual._solved._inner is None


class QuadraticAlone(cut.Regularizer):
    """A user's regularizer that says no more than its quadratic form."""

    lam = 1.0

    def value(self, x):
        return float(x @ x)

    def quadratic(self, dim):
        return cut.L2(2.0).quadratic(dim)


@pytest.mark.parametrize(
    "feasible", [cut.WholeSpace(3), cut.Box(-0.3, 0.5, dim=3), cut.L2Ball(0.25, dim=3)], ids=repr
)
def test_a_quadratic_form_is_a_closed_form(feasible):
    mine = DualFunction(cut.Problem(cut.LinearObjective(np.ones(3)), QuadraticAlone(), feasible))
    ours = DualFunction(cut.Problem(cut.LinearObjective(np.ones(3)), cut.L2(2.0), feasible))
    for slopes in np.random.default_rng(0).standard_normal((5, 1, 3)):
        rows = slopes, np.zeros(1), np.zeros(1, dtype=int), np.ones(1), np.inf
        assert mine(*rows).value == ours(*rows).value
        assert not mine.calls_solver


def test_a_free_coordinate_beside_a_box_is_balanced_from_afar():
    """Multipliers of a solver that are far from flat where x is free, and x[1] is bounded."""
    slopes = np.array([[1.0, 0.5], [-1.0, 0.5], [2.0, -1.0]])
    declared = cut.Problem(
        cut.LinearObjective(np.zeros(2)), feasible_set=cut.Box([-np.inf, 0.0], [np.inf, 1.0])
    )
    dual = DualFunction(declared)
    found = dual(slopes, np.zeros(3), np.zeros(3, dtype=int), np.array([0.9, 0.1, 0.0]), 1.0)
    assert found.value > -np.inf
    assert found.multipliers @ slopes[:, 0] == pytest.approx(0.0, abs=1e-12)


def test_an_open_box_is_bounded_by_combinations_that_are_flat_but_for_a_solver():
    slopes = np.array([[1.0, 0.5], [-1.0, 1.0]])
    declared = cut.Problem(
        cut.LinearObjective(np.zeros(2)), feasible_set=cut.Box([-np.inf, 0.0], [np.inf, np.inf])
    )
    dual = DualFunction(declared)
    rows = slopes, np.array([1.0, 2.0]), np.zeros(2, dtype=int)
    assert dual(*rows, np.array([0.5 + 1e-9, 0.5 - 1e-9]), 3.0).value == pytest.approx(1.5)
    whole = DualFunction(cut.Problem(cut.LinearObjective(np.zeros(2))))
    assert whole(*rows, np.array([0.5, 0.5]), 3.0).value == -np.inf
    flat = np.array([[1.0, 0.5], [-1.0, -0.5]])
    nearly = whole(flat, *rows[1:], np.array([0.5 + 1e-9, 0.5 - 1e-9]), 3.0)
    assert nearly.value == pytest.approx(1.5) and nearly.multipliers == pytest.approx([0.5, 0.5])
    assert whole(flat, *rows[1:], np.array([0.6, 0.4]), 3.0).value == -np.inf


def test_multipliers_of_the_rows_of_a_set_spare_a_solver(monkeypatch):
    monkeypatch.delattr("cutplane.masters.certificates.InnerMinimum")
    dual = DualFunction(problem(cut.L2(1.0), cut.Polyhedron([[1.0, 1.0]], [-2.0])))
    slopes, offsets = np.array([[1.0, 1.0]]), np.array([3.0])
    found = dual(slopes, offsets, BLOCKS[:1], np.ones(1), INF, np.array([0.0]))
    assert found.value == pytest.approx(3.0 - 1.0)


def test_points_of_a_ball_far_from_zero_are_charged_with_their_last_bits():
    far = DualFunction(problem(None, cut.L2Ball(1.0, [2.0**30, 0.0])))
    found = far(np.array([[0.0, 1.0]]), np.zeros(1), BLOCKS[:1], np.ones(1), INF)
    assert -1.0 - 1e-5 < found.value <= -1.0 - CANCELLED * 2.0**30


@pytest.mark.parametrize("offset", [0.0, -5.0, 2.0])
def test_losses_are_as_steep_as_cuts_lie_below_the_infimum_whatever_half_spaces_add(offset):
    told = []

    class Stating(cut.Risk):
        dim, infima = 2, np.array([3.0])

        def oracle(self, x):
            return 3.0, np.zeros(2)

        def rounded_terms(self, x, excess):
            told.append(excess)

    rows = np.array([[1.0, 2.0], [0.0, 1.0]]), np.array([1.0, offset]), np.array([0, HALF_SPACE])
    DualFunction(cut.Problem(Stating(), cut.L2(1.0)))(*rows, np.array([1.0, 2.0]), INF)
    assert told == [pytest.approx(3.0 - 1.0, rel=1e-8)]

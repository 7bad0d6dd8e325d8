"""The master of quadratics at extremes: degenerate, steep, far away, unbounded or infeasible problems."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from conformance import Pieces, check, rows_of

from cutplane.masters.base import HALF_SPACE, Level, MasterStatus, Prox, ReducedProblem
from cutplane.masters.dual_qp import DualQP, combined
from cutplane.masters.rows import products, sizes_at
from cutplane.masters.simplex_qp import SimplexQP
from cutplane.regularizers import L1, L2, ElasticNet, NegativeEntropy, NoRegularizer
from cutplane.sets import Box, CappedSimplex, L2Ball, Polyhedron, Simplex, WholeSpace

LOOSE = [1, 1, 1, 1, 1, 0]
PROX = Prox(np.array([0.3, -1.0, 2.0, 0.0, 0.1, -0.4]), 0.7)
SETS = {
    "box": Box(-0.3, np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.3])),
    "simplex": Simplex(radius=2.0),
    "polyhedron": Polyhedron(
        np.vander(np.linspace(-1, 1, 8), 6), np.linspace(0.2, 1.0, 8), np.ones((1, 6)), np.array([0.2])
    ),
}


def random_rows(rng, count, dim):
    return rows_of(rng.standard_normal((count, dim)), rng.standard_normal(count))


def first(rows, count):
    return SimpleNamespace(**{name: part[:count] for name, part in vars(rows).items()})


def master_for(regularizer, dim, n_blocks=1, feasible_set=None):
    feasible_set = (feasible_set or WholeSpace()).resolve(dim)
    return SimplexQP(ReducedProblem(dim, n_blocks, regularizer, feasible_set))


def assert_optimal(rows, weights, solution, stabilization=None, tolerance=1e-12, accuracy=0.0):
    """For 1/2 sum weights x^2 over the whole space."""
    zero, end = np.zeros(len(weights)), np.full(len(weights), np.inf)
    p = Pieces(None, WholeSpace(len(weights)), np.asarray(weights, dtype=float), zero, zero, -end, end)
    check(p, rows, 1, stabilization, solution, tolerance, accuracy)


DEGENERATE = {
    "one row": (np.ones((1, 4)), [2.0]),
    "one zero row": (np.zeros((1, 4)), [2.0]),
    "zero rows": (np.zeros((5, 4)), [1.0, 3.0, 2.0, 3.0, 3.0]),
    "five times the same": (np.tile([1.0, -2.0, 0.5, 3.0], (5, 1)), np.full(5, 0.7)),
    "same slope, other offsets": (np.tile([1.0, -2.0, 0.5, 3.0], (5, 1)), np.arange(5.0)),
    "opposite": ([[1.0, 0, 0, 0], [-1.0, 0, 0, 0], [0, 1.0, 0, 0], [0, -1.0, 0, 0]], [0.0, 0, 0, 0]),
    "on a line": (np.outer(np.linspace(-1, 1, 41), [1.0, 2, 3, 4]), np.linspace(-1, 1, 41) ** 2),
    "more rows than dimensions": (np.vander(np.linspace(-1, 1, 200), 4), -(np.linspace(-1, 1, 200) ** 2)),
    "nearly the same": (1.0 + 1e-7 * np.vander(np.linspace(-1, 1, 30), 4), 1e-7 * np.linspace(-1, 1, 30)),
    "norms from 1e-8 to 1e8": (
        np.logspace(-8, 8, 17)[:, None] * np.vander(np.linspace(-1, 1, 17), 4),
        np.ones(17),
    ),
}


@pytest.mark.every
@pytest.mark.parametrize("lam", [1e-8, 1.0, 1e4])
@pytest.mark.parametrize("case", DEGENERATE)
def test_degenerate_rows(case, lam):
    rows = rows_of(*DEGENERATE[case])
    assert_optimal(rows, [lam] * 4, master_for(L2(lam), 4).solve(rows))


def test_a_prox_centre_may_be_changed_in_place():
    rows, centre = random_rows(np.random.default_rng(19), 20, 6), np.ones(6)
    master = master_for(NoRegularizer(), 6)
    for _ in range(3):
        solution = master.solve(rows, Prox(centre, 0.5))
        assert_optimal(rows, np.zeros(6), solution, Prox(centre, 0.5))
        centre += 1.0


@pytest.mark.parametrize("lam", [1e-6, 1e-2, 1e2])
@pytest.mark.parametrize("n_free", [1, 3])
def test_slopes_vanish_on_unregularised_coordinates(n_free, lam):
    rng = np.random.default_rng(8)
    weights = np.r_[np.ones(10), np.zeros(n_free)]
    master = master_for(L2(lam, weights=weights), 10 + n_free)
    everything = random_rows(rng, 80, 10 + n_free)
    everything.slopes[:, 10:] *= 30.0
    for count in range(20, 81, 5):
        rows = first(everything, count)
        solution = master.solve(rows)
        assert_optimal(rows, lam * weights, solution)
        slope = solution.multipliers @ rows.slopes[:, 10:]
        size = solution.multipliers @ np.abs(rows.slopes[:, 10:])
        assert (np.abs(slope) <= 1e-14 * size).all()


@pytest.mark.parametrize("distance", [1.0, 1e4, 1e8])
def test_an_unregularised_coordinate_can_be_far_away(distance):
    """The minimum of max(-b, b - 2 distance) + g lies at b = distance, whatever the other slopes."""
    rows = rows_of([[1e-3, -1.0], [2e-3, 1.0]], [0.0, -2.0 * distance])
    solution = master_for(L2(1.0, weights=[1.0, 0.0]), 2).solve(rows)
    np.testing.assert_allclose(solution.multipliers, 0.5, rtol=1e-12)
    assert solution.x == pytest.approx([-1.5e-3, distance], rel=1e-6)


def test_an_unregularised_coordinate_can_be_unbounded_until_a_cut_opposes():
    master = master_for(L2(1.0, weights=[1.0, 0.0]), 2)
    everything = rows_of([[1.0, 1.0], [2.0, 0.5], [0.0, -1.0]], [0.0, 1.0, 0.0])
    for count, status in ((1, MasterStatus.UNBOUNDED), (2, MasterStatus.UNBOUNDED), (3, MasterStatus.SOLVED)):
        solution = master.solve(first(everything, count))
        assert solution.status is status
        assert (solution.x is None) == (status is not MasterStatus.SOLVED)
    assert_optimal(everything, [1.0, 0.0], solution)
    assert master.solve(first(everything, 2)).status is MasterStatus.UNBOUNDED


def test_a_half_space_can_bound_an_unregularised_coordinate():
    rows = rows_of([[1.0, 1.0], [0.0, -2.0]], [0.0, 6.0], [0, HALF_SPACE])
    solution = master_for(L2(1.0, weights=[1.0, 0.0]), 2).solve(rows)
    np.testing.assert_allclose(solution.x, [-1.0, 3.0], atol=1e-12)
    np.testing.assert_allclose(solution.multipliers, [1.0, 0.5], atol=1e-12)


STABILIZATIONS = [None, PROX, Level(np.zeros(6), 1.0)]


@pytest.mark.parametrize("stabilization", STABILIZATIONS, ids=["none", "prox", "level"])
@pytest.mark.parametrize("distance", [1e-6, 1.0, 1e6])
def test_half_spaces_without_a_common_point(distance, stabilization):
    normal = np.array([1.0, -2.0, 0.5, 3.0, 0.0, 1.0])
    rows = rows_of([np.ones(6), normal, -5.0 * normal], [0.0, distance, 5.0 * distance], [0, -1, -1])
    solution = master_for(L2(0.5), 6).solve(rows, stabilization)
    assert solution.status is MasterStatus.INFEASIBLE and solution.x is None


def test_a_false_half_space():
    for side, status in ((1.0, MasterStatus.INFEASIBLE), (-1.0, MasterStatus.SOLVED)):
        rows = rows_of([[1.0, 1.0], [0.0, 0.0]], [0.0, side], [0, HALF_SPACE])
        assert master_for(L2(1.0), 2).solve(rows).status is status


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("stabilization", STABILIZATIONS, ids=["none", "prox", "level"])
def test_a_half_space_can_exclude_a_feasible_set(name, stabilization):
    rows = rows_of([np.ones(6), -np.ones(6)], [-2.0, 5.0], [0, HALF_SPACE])
    solution = master_for(L2(0.5), 6, 1, SETS[name]).solve(rows, stabilization)
    assert solution.status is MasterStatus.INFEASIBLE


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])
def test_numbers_that_are_not_finite_fail_and_are_forgotten(bad):
    good = random_rows(np.random.default_rng(1), 10, 3)
    master = master_for(L2(0.1), 3)
    expected = master.solve(good).x
    for spoil in ("slope", "offset", "centre"):
        rows = rows_of(np.vstack([good.slopes, np.ones(3)]), np.append(good.offsets, 0.0))
        stabilization = None
        if spoil == "slope":
            rows.slopes[10, 1] = bad
        elif spoil == "offset":
            rows.offsets[10] = bad
        else:
            stabilization = Prox(np.array([0.0, bad, 0.0]), 1.0)
        solution = master.solve(rows, stabilization)
        if not (bad == 1e200 and spoil != "slope"):
            assert solution.status is MasterStatus.FAILED and solution.message
        assert solution.x is None or np.isfinite(solution.x).all()
        np.testing.assert_allclose(master.solve(good).x, expected, atol=1e-9)


@pytest.mark.parametrize(
    ("regularizer", "feasible_set", "stabilization", "reason"),
    [
        (L2(1.0), WholeSpace(), None, None),
        (L2(1.0, weights=LOOSE), WholeSpace(), None, None),
        (L2(1.0), WholeSpace(), Level, None),
        (NoRegularizer(), WholeSpace(), Prox, None),
        (NoRegularizer(), WholeSpace(), Level, None),
        (L2(1.0), Box(-np.inf, np.inf), None, None),
        (L2(1.0, weights=LOOSE), WholeSpace(), Level, "weights are all equal"),
        (NoRegularizer(), WholeSpace(), None, "neither a quadratic regularizer nor a prox term"),
        (L2(0.0), WholeSpace(), None, "neither a quadratic regularizer nor a prox term"),
        (L2(1.0), Box(0.0, np.inf), None, None),
        (L2(1.0), Simplex(), Level, None),
        (L2(1.0, weights=LOOSE), Simplex(), Prox, None),
        (L2(1.0, weights=LOOSE), Simplex(), None, "a coordinate without weight"),
        (L1(1.0), WholeSpace(), Prox, None),
        (L1(1.0), WholeSpace(), None, "neither a quadratic regularizer nor a prox term"),
        (ElasticNet(1.0, 0.5), WholeSpace(), None, None),
        (NegativeEntropy(1.0), WholeSpace(), Prox, "neither a diagonal quadratic nor"),
        (L2(1.0), L2Ball(1.0), None, "not a polyhedron"),
        (L2(1.0), Polyhedron(np.ones((2001, 6)), np.ones(2001)), None, "not a polyhedron with at most"),
    ],
)
def test_refusal(regularizer, feasible_set, stabilization, reason):
    answer = SimplexQP.refusal(ReducedProblem(6, 1, regularizer, feasible_set.resolve(6)), stabilization)
    assert answer is None if reason is None else reason in answer


@pytest.mark.parametrize("seed", range(8))
def test_half_spaces_hold_to_their_own_last_digits_next_to_steep_cuts(seed):
    rng = np.random.default_rng(seed)
    cuts, normals = 1e8 * rng.standard_normal((5, 6)), rng.standard_normal((8, 6))
    rows = rows_of(np.vstack([cuts, normals]), [*np.zeros(5), *np.full(8, -1.0)], [0] * 5 + [HALF_SPACE] * 8)
    x = master_for(L2(1.0), 6).solve(rows).x
    assert (normals @ x - 1.0 <= 2e-12 * (np.abs(normals) @ np.abs(x) + 1.0)).all()


def test_the_only_row_may_be_replaced():
    slopes = np.array([[1.0, 2.0, 0.0], [0.0, -3.0, 1.0], [2.0, 0.0, 5.0]])
    living, fresh = master_for(L2(1.0), 3), master_for(L2(1.0), 3)
    assert living.solve(rows_of(slopes[:1], [1.0])).x == pytest.approx(-slopes[0])
    rows = rows_of(slopes[1:], [1.0, 2.0])
    rows.ids = np.array([1, 2])
    assert living.solve(rows).multipliers == pytest.approx(fresh.solve(rows).multipliers)


@pytest.mark.parametrize("size", [1e4, 1e7])
def test_huge_slopes_on_coordinates_at_a_bound_leave_the_others_exact(size):
    rng, dim = np.random.default_rng(41), 24
    rows = random_rows(rng, 30, dim)
    rows.slopes[:, :3] = size * (1.0 + rng.random((30, 3)))
    rows.offsets[:] -= rows.slopes[:, :3] @ -np.ones(3)
    master = master_for(NoRegularizer(), dim, 1, Box(-1.0, 1.0, dim=dim))
    for weight in (1e8 * size, 1.0, 0.3):
        solution = master.solve(rows, Prox(np.full(dim, 0.9), weight))
        assert solution.status is MasterStatus.SOLVED, solution.message
    reduced = rows_of(rows.slopes[:, 3:], rows.offsets - rows.slopes[:, :3].sum(axis=1))
    rest = master_for(NoRegularizer(), dim - 3, 1, Box(-1.0, 1.0)).solve(
        reduced, Prox(np.full(dim - 3, 0.9), 0.3)
    )
    np.testing.assert_allclose(solution.x[:3], -1.0)
    np.testing.assert_allclose(solution.x[3:], rest.x, atol=1e-13 * size)


@pytest.mark.parametrize("dim", [50, 300])
@pytest.mark.parametrize("name", ["box", "simplex"])
def test_weak_prox_terms_in_many_dimensions(name, dim):
    """Nearly a linear programme: most coordinates end at a bound, found from far away."""
    feasible_set = (Box(-0.1, 0.1) if name == "box" else Simplex()).resolve(dim)
    rows = random_rows(np.random.default_rng(37), 60, dim)
    centre = np.full(dim, 1.0 / dim)
    for weight in (1e1, 1e-1, 1e-3):
        solution = master_for(NoRegularizer(), dim, 1, feasible_set).solve(rows, Prox(centre, weight))
        assert solution.status is MasterStatus.SOLVED, solution.message
        x = feasible_set.project(centre - solution.multipliers @ rows.slopes / weight)
        np.testing.assert_allclose(solution.x, x, atol=1e-8)
        values = rows.slopes @ solution.x + rows.offsets
        assert values.max() - solution.multipliers @ values <= 1e-10


def test_a_set_of_a_single_point():
    rows, point = random_rows(np.random.default_rng(0), 9, 6), CappedSimplex(1.0 / 6.0, dim=6)
    for stabilization in (None, PROX):
        solution = master_for(L2(0.3), 6, 1, point).solve(rows, stabilization)
        np.testing.assert_allclose(solution.x, 1.0 / 6.0, atol=1e-12)


def test_a_level_out_of_reach_of_the_set_is_infeasible():
    rows = rows_of([np.ones(6)], [0.0])
    for name, least in (("box", -1.8), ("simplex", 2.0)):
        master, centre = master_for(NoRegularizer(), 6, 1, SETS[name]), np.full(6, 1.0 / 3.0)
        assert master.solve(rows, Level(centre, least - 0.1)).status is MasterStatus.INFEASIBLE
        assert master.solve(rows, Level(centre, least + 0.1)).status is MasterStatus.SOLVED


def test_a_centre_below_the_level_is_its_own_projection():
    rows, centre = rows_of([[1.0, 0.0], [-1.0, 0.0]], [0.0, 0.0]), np.array([0.5, 2.0])
    solution = master_for(NoRegularizer(), 2).solve(rows, Level(centre, 0.5))
    np.testing.assert_array_equal(solution.x, centre)
    assert not solution.multipliers.any()


def test_half_spaces_alone_can_move_the_centre():
    rows = rows_of([[1.0, 0.0], [0.0, 1.0]], [0.0, 1.0], [0, HALF_SPACE])
    solution = master_for(NoRegularizer(), 2).solve(rows, Level(np.array([0.5, 2.0]), 1.0))
    np.testing.assert_allclose(solution.x, [0.5, -1.0], atol=1e-12)


@pytest.mark.parametrize("centre", [[0.0, 0.0], [3.0, 1.0], [1e6, 1e-6]])
@pytest.mark.parametrize("depth", [1e-6, 1e-3, 1.0, 1e6])
def test_a_level_below_the_model_is_infeasible(centre, depth):
    rows = rows_of([[1.0, 2.0], [-1.0, -2.0], [0.5, -1.0], [-0.5, 1.0]], [0.0, 0.0, 0.0, 0.0])
    master = master_for(NoRegularizer(), 2)
    assert master.solve(rows, Level(np.array(centre), -depth)).status is MasterStatus.INFEASIBLE
    above = master.solve(rows, Level(np.array([3.0, 1.0]), depth))
    assert (rows.slopes @ above.x + rows.offsets).max() <= depth + 1e-13


def test_levels_that_close_in_on_the_minimum_are_met():
    rng = np.random.default_rng(21)
    rows = rows_of(np.vstack([rng.standard_normal((30, 5)), np.eye(5), -np.eye(5)]), rng.standard_normal(40))
    x = master_for(NoRegularizer(), 5).solve(rows, Prox(np.zeros(5), 1e-9)).x
    least = (rows.slopes @ x + rows.offsets).max() + 1e-8
    master = master_for(NoRegularizer(), 5)
    for share in 10.0 ** -np.arange(8):
        solution = master.solve(rows, Level(np.full(5, 3.0), least + share))
        assert (rows.slopes @ solution.x + rows.offsets).max() <= least + share + 1e-12


def test_the_length_of_a_step_is_that_of_the_coordinates_in_the_metric():
    step, dual = np.array([2.0, 0.0, 4.0]), DualQP(1)
    assert dual.length(step) == pytest.approx(np.sqrt(20.0))
    dual.metric = np.array([1.0, 0.0, 4.0])
    assert dual.length(step) == pytest.approx(np.sqrt(8.0))


WIDE = np.random.default_rng(0).standard_normal((7, 9000))


@pytest.mark.parametrize("count", [0, 1, 1125, 1126, 9000])
def test_products_with_sparse_vectors_are_those_with_dense_ones(count):
    rng, x = np.random.default_rng(1), np.zeros(9000)
    x[rng.choice(9000, count, replace=False)] = rng.standard_normal(count)
    np.testing.assert_allclose(products(WIDE, x), WIDE @ x, atol=1e-10)
    np.testing.assert_allclose(sizes_at(WIDE, x), np.abs(WIDE) @ np.abs(x), rtol=1e-12)
    weights = np.where(rng.random(7) < 0.5, rng.random(7), 0.0)
    np.testing.assert_allclose(combined(weights, WIDE, np.flatnonzero(weights)), weights @ WIDE, atol=1e-12)


@pytest.mark.parametrize("known", [0, 3, 6])
@pytest.mark.parametrize("metric", [None, np.where(np.arange(9000) % 3, 2.0, 0.0), np.eye(1, 9000)[0]])
def test_a_gram_matrix_is_summed_over_parts_of_the_columns(known, metric):
    dual = DualQP(1)
    dual.metric = metric
    for count in {known, 7} - {0}:
        dual.sync(rows_of(WIDE[:count], np.zeros(count)))
    weighed = WIDE if metric is None else WIDE * metric
    np.testing.assert_allclose(dual.hessian[:7, :7], weighed @ WIDE.T, atol=1e-9)
    other = np.where(np.arange(9000) < 5000, 1.0, 3.0)
    dual.set_metric(other, WIDE)
    np.testing.assert_allclose(dual.hessian[:7, :7], (WIDE * other) @ WIDE.T, atol=1e-9)

"""The dual simplex QP master against cvxpy, enumeration of active sets, and its own optimality conditions."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simplex_qp_checks import (
    KINDS,
    LOOSE,
    PROX,
    WEIGHTS,
    Quadratic,
    Rows,
    assert_optimal,
    gap_of,
    make_rows,
    master_for,
    random_rows,
    sequence,
    solve_with_cvxpy,
)

from cutplane.masters.base import HALF_SPACE, Level, MasterStatus, Prox, ReducedProblem
from cutplane.masters.qp.dual_qp import DualQP
from cutplane.masters.qp.simplex_qp import SimplexQP
from cutplane.regularizers import ElasticNet, NegativeEntropy
from cutplane.regularizers.l1 import L1
from cutplane.regularizers.l2 import L2
from cutplane.regularizers.none import NoRegularizer
from cutplane.sets.ball import L2Ball
from cutplane.sets.box import Box
from cutplane.sets.polyhedron import Polyhedron
from cutplane.sets.simplex import Simplex
from cutplane.sets.whole import WholeSpace


@pytest.mark.parametrize("half_spaces", [0, 8])
@pytest.mark.parametrize("n_blocks", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_agrees_with_cvxpy_and_closes_the_gap(kind, n_blocks, half_spaces):
    regularizer, stabilization = KINDS[kind]
    rng = np.random.default_rng(7)
    for count in (30, 90):
        rows = random_rows(rng, count, 6, n_blocks, half_spaces)
        solution = master_for(regularizer, 6, n_blocks).solve(rows, stabilization)
        quadratic = Quadratic.of(regularizer, 6, stabilization)
        assert_optimal(rows, n_blocks, quadratic, solution)
        value, x = solve_with_cvxpy(rows, n_blocks, regularizer, stabilization)
        values = rows.slopes @ solution.x + rows.offsets
        mine = sum(values[rows.blocks == k].max() for k in range(n_blocks)) + quadratic(solution.x)
        assert float(mine) == pytest.approx(value, rel=1e-7, abs=1e-7)
        np.testing.assert_allclose(solution.x, x, atol=1e-4)


def enumerate_active_sets(rows, n_blocks, quadratic):
    """Return the minimiser by trying every set of active rows."""
    count, dim = rows.slopes.shape
    groups = np.array([rows.blocks == k for k in range(n_blocks)], dtype=float)
    best, winner = np.inf, None
    for size in range(n_blocks, min(count, dim + n_blocks) + 1):
        for active in map(list, itertools.combinations(range(count), size)):
            slopes, sums = rows.slopes[active], groups[:, active]
            # unknowns x, heights of the blocks, multipliers
            n = dim + n_blocks + size
            system, right = np.zeros((n, n)), np.zeros(n)
            system[:dim, :dim] = np.diag((quadratic.weights + quadratic.prox).astype(float))
            system[:dim, dim + n_blocks :] = slopes.T
            system[dim : dim + n_blocks, dim + n_blocks :] = sums
            system[dim + n_blocks :, :dim] = slopes
            system[dim + n_blocks :, dim : dim + n_blocks] = -sums.T
            right[:dim] = (quadratic.weights * quadratic.centre + quadratic.prox * quadratic.point).astype(
                float
            )
            right[dim : dim + n_blocks] = 1.0
            right[dim + n_blocks :] = -rows.offsets[active]
            answer = np.linalg.lstsq(system, right, rcond=None)[0]
            if np.abs(system @ answer - right).max() > 1e-9 or answer[dim + n_blocks :].min() < -1e-9:
                continue
            values = rows.slopes @ answer[:dim] + rows.offsets
            if values[rows.blocks == HALF_SPACE].max(initial=-1.0) > 1e-9:
                continue
            height = sum(values[rows.blocks == k].max() for k in range(n_blocks))
            value = height + float(quadratic(answer[:dim]))
            if value < best:
                best, winner = value, answer[:dim]
    return winner


@pytest.mark.parametrize("kind", ["l2", "diagonal", "bias", "l2 and prox"])
@pytest.mark.parametrize(("n_blocks", "half_spaces"), [(1, 0), (1, 2), (2, 0), (2, 1)])
def test_finds_the_best_active_set(kind, n_blocks, half_spaces):
    regularizer, stabilization = KINDS[kind]
    rng = np.random.default_rng(3)
    found = 0
    for _ in range(4):
        rows = random_rows(rng, 6, 6, n_blocks, half_spaces)
        solution = master_for(regularizer, 6, n_blocks).solve(rows, stabilization)
        expected = enumerate_active_sets(rows, n_blocks, Quadratic.of(regularizer, 6, stabilization))
        if solution.status is MasterStatus.UNBOUNDED:
            assert expected is None
            continue
        np.testing.assert_allclose(solution.x, expected, atol=1e-7)
        found += 1
    assert found >= 2


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(1, 60),
    dim=st.integers(1, 20),
    n_blocks=st.sampled_from([1, 1, 3]),
    half_spaces=st.integers(0, 10),
    log_lam=st.floats(-8, 4),
    log_scale=st.floats(-3, 3),
    prox=st.booleans(),
    degenerate=st.booleans(),
)
def test_optimality_conditions(seed, count, dim, n_blocks, half_spaces, log_lam, log_scale, prox, degenerate):
    rng = np.random.default_rng(seed)
    rows = random_rows(rng, max(count, n_blocks), dim, n_blocks, half_spaces, 10.0**log_scale)
    if degenerate:
        cuts = np.flatnonzero(rows.blocks == 0)
        rows.slopes[cuts[1:4]], rows.offsets[cuts[1:4]] = rows.slopes[cuts[0]], rows.offsets[cuts[0]]
        rows.slopes[cuts[4:6]] = (1 + 1e-9) * rows.slopes[cuts[0]]
        rows.slopes[cuts[6:8]] = 0.0
    regularizer = L2(10.0**log_lam, centre=rng.standard_normal(dim))
    stabilization = Prox(rng.standard_normal(dim), 10.0 ** rng.uniform(-3, 3)) if prox else None
    solution = master_for(regularizer, dim, n_blocks).solve(rows, stabilization)
    quadratic = Quadratic.of(regularizer, dim, stabilization)
    assert_optimal(rows, n_blocks, quadratic, solution)
    weights, x = solution.multipliers, solution.x
    terms = [weights @ np.abs(rows.slopes), np.abs(regularizer.lam * regularizer.centre)]
    if prox:
        terms.append(stabilization.weight * (np.abs(x) + np.abs(stabilization.centre)))
    residual = np.abs(np.asarray(weights @ rows.slopes + quadratic.gradient(x), dtype=float))
    assert (residual <= 1e-11 * (sum(terms) + regularizer.lam * np.abs(x))).all()
    values = rows.slopes @ x + rows.offsets
    sizes = np.abs(rows.slopes) @ np.abs(x) + np.abs(rows.offsets)
    heights = np.array([values[rows.blocks == k].max() for k in range(n_blocks)] + [0.0])[rows.blocks]
    slack = weights * (heights - values)
    scale = gap_of(rows, n_blocks, quadratic, solution)[2]
    assert (np.abs(slack) <= 1e-11 * (weights * sizes + scale)).all()


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


@pytest.mark.parametrize("lam", [1e-8, 1.0, 1e4])
@pytest.mark.parametrize("case", DEGENERATE)
def test_degenerate_rows(case, lam):
    rows = make_rows(*DEGENERATE[case])
    solution = master_for(L2(lam), 4).solve(rows)
    assert_optimal(rows, 1, Quadratic.of(L2(lam), 4), solution)


@pytest.mark.parametrize("lam", [1e-8, 1e-4, 1.0, 1e4])
@pytest.mark.parametrize("scale", [1e-8, 1e-3, 1e3, 1e8])
def test_a_change_of_units_changes_nothing_but_the_units(scale, lam):
    rng = np.random.default_rng(5)
    plain = random_rows(rng, 30, 12)
    solution = master_for(L2(lam), 12).solve(plain)
    # f(x) = scale * f0(x / unit), g likewise
    for unit in (1e-4, 1e4):
        rows = make_rows(scale / unit * plain.slopes, scale * plain.offsets)
        regularizer = L2(scale * lam / unit**2)
        scaled = master_for(regularizer, 12).solve(rows)
        assert_optimal(rows, 1, Quadratic.of(regularizer, 12), scaled)
        np.testing.assert_allclose(
            scaled.x / unit, solution.x, rtol=1e-7, atol=1e-9 * np.abs(solution.x).max()
        )


@pytest.mark.parametrize("n_blocks", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_warm_sequences_equal_cold_solves(kind, n_blocks):
    regularizer, stabilization = KINDS[kind]
    master = master_for(regularizer, 6, n_blocks)
    rng = np.random.default_rng(11)
    solved = 0
    for rows in sequence(rng, 6, n_blocks, 25):
        if stabilization is not None:
            stabilization = Prox(rng.standard_normal(6), 10.0 ** rng.uniform(-2, 2))
        warm = master.solve(rows, stabilization)
        cold = master_for(regularizer, 6, n_blocks).solve(rows, stabilization)
        assert warm.status is cold.status
        if warm.status is MasterStatus.SOLVED:
            solved += 1
            assert_optimal(rows, n_blocks, Quadratic.of(regularizer, 6, stabilization), warm)
            np.testing.assert_allclose(warm.x, cold.x, atol=1e-9)
    assert solved >= 12


@pytest.mark.parametrize(
    "weights", [None, LOOSE, WEIGHTS, WEIGHTS * LOOSE], ids=["equal", "bias", "any", "any, bias"]
)
@pytest.mark.parametrize("count", [3, 40])
def test_one_master_takes_every_stabilization_in_turn(weights, count):
    rng = np.random.default_rng(2)
    regularizer = L2(0.1, weights=weights)
    master = master_for(regularizer, 6)
    rows = random_rows(rng, count, 6)
    rows.slopes[1, -1], rows.slopes[2, -1] = 1.0, -1.0  # the last coordinate is bounded without a prox term
    for stabilization in (None, Prox(np.ones(6), 3.0), None, Prox(np.ones(6), 1e-3), PROX, PROX, None):
        solution = master.solve(rows, stabilization)
        assert_optimal(rows, 1, Quadratic.of(regularizer, 6, stabilization), solution)


def test_a_prox_centre_may_be_changed_in_place():
    rows = random_rows(np.random.default_rng(19), 20, 6)
    master = master_for(NoRegularizer(), 6)
    centre = np.ones(6)
    for _ in range(3):
        solution = master.solve(rows, Prox(centre, 0.5))
        assert_optimal(rows, 1, Quadratic.of(NoRegularizer(), 6, Prox(centre, 0.5)), solution)
        centre += 1.0


def test_accuracy_is_kept():
    rng = np.random.default_rng(4)
    rows = random_rows(rng, 200, 30)
    quadratic = Quadratic.of(L2(1e-2), 30)
    for accuracy in (1e-1, 1e-3, 1e-6):
        solution = master_for(L2(1e-2), 30).solve(rows, None, accuracy)
        gap = gap_of(rows, 1, quadratic, solution)[0]
        assert 0 <= gap <= accuracy


@pytest.mark.parametrize("case", ["fortran", "read-only", "float32"])
def test_rows_of_any_layout_are_taken_and_left_alone(case):
    rows = random_rows(np.random.default_rng(0), 20, 5)
    expected = master_for(L2(0.1), 5).solve(rows).x
    slopes = {"fortran": np.asfortranarray, "float32": np.float32}.get(case, np.copy)(rows.slopes)
    slopes.flags.writeable = rows.offsets.flags.writeable = False
    before = slopes.copy()
    solution = master_for(L2(0.1), 5).solve(Rows(slopes, rows.offsets, rows.blocks, rows.ids))
    np.testing.assert_allclose(solution.x, expected, rtol=1e-5 if case == "float32" else 1e-10)
    np.testing.assert_array_equal(slopes, before)


@pytest.mark.parametrize("lam", [1e-6, 1e-2, 1e2])
@pytest.mark.parametrize("n_free", [1, 3])
def test_slopes_vanish_on_unregularised_coordinates(n_free, lam):
    rng = np.random.default_rng(8)
    weights = np.r_[np.ones(10), np.zeros(n_free)]
    regularizer = L2(lam, weights=weights)
    master = master_for(regularizer, 10 + n_free)
    everything = random_rows(rng, 80, 10 + n_free, half_spaces=5)
    everything.slopes[:, 10:] *= 30.0
    for count in range(20, 86, 5):
        rows = everything.take(np.arange(count))
        solution = master.solve(rows)
        assert_optimal(rows, 1, Quadratic.of(regularizer, 10 + n_free), solution)
        slope = solution.multipliers @ rows.slopes[:, 10:]
        size = solution.multipliers @ np.abs(rows.slopes[:, 10:])
        assert (np.abs(slope) <= 1e-14 * size).all()


@pytest.mark.parametrize("distance", [1.0, 1e4, 1e8])
def test_an_unregularised_coordinate_can_be_far_away(distance):
    """The minimum of max(-b, b - 2 distance) + g lies at b = distance, whatever the other slopes."""
    rows = make_rows([[1e-3, -1.0], [2e-3, 1.0]], [0.0, -2.0 * distance])
    regularizer = L2(1.0, weights=[1.0, 0.0])
    solution = master_for(regularizer, 2).solve(rows)
    assert_optimal(rows, 1, Quadratic.of(regularizer, 2), solution)
    np.testing.assert_allclose(solution.multipliers, 0.5, rtol=1e-12)
    assert solution.x[1] == pytest.approx(distance, rel=1e-6)


def test_an_unregularised_coordinate_can_be_unbounded_until_a_cut_opposes():
    regularizer = L2(1.0, weights=[1.0, 0.0])
    master = master_for(regularizer, 2)
    everything = make_rows([[1.0, 1.0], [2.0, 0.5], [0.0, -1.0]], [0.0, 1.0, 0.0])
    for count, status in ((1, MasterStatus.UNBOUNDED), (2, MasterStatus.UNBOUNDED), (3, MasterStatus.SOLVED)):
        solution = master.solve(everything.take(np.arange(count)))
        assert solution.status is status
        assert (solution.x is None) == (status is not MasterStatus.SOLVED)
    assert_optimal(everything, 1, Quadratic.of(regularizer, 2), solution)
    assert master.solve(everything.take(np.arange(2))).status is MasterStatus.UNBOUNDED


def test_a_half_space_can_bound_an_unregularised_coordinate():
    regularizer = L2(1.0, weights=[1.0, 0.0])
    rows = make_rows([[1.0, 1.0], [0.0, -2.0]], [0.0, 6.0], [0, HALF_SPACE])
    solution = master_for(regularizer, 2).solve(rows)
    np.testing.assert_allclose(solution.x, [-1.0, 3.0], atol=1e-12)
    np.testing.assert_allclose(solution.multipliers, [1.0, 0.5], atol=1e-12)


@pytest.mark.parametrize(
    "stabilization", [None, PROX, Level(np.zeros(6), 1.0)], ids=["none", "prox", "level"]
)
@pytest.mark.parametrize("distance", [1e-6, 1.0, 1e6])
def test_half_spaces_without_a_common_point(distance, stabilization):
    normal = np.array([1.0, -2.0, 0.5, 3.0, 0.0, 1.0])
    rows = make_rows(
        [np.ones(6), normal, -5.0 * normal], [0.0, distance, 5.0 * (1.0 - 1.0 + distance)], [0, -1, -1]
    )
    solution = master_for(L2(0.5), 6).solve(rows, stabilization)
    assert solution.status is MasterStatus.INFEASIBLE
    assert solution.x is None


def test_a_false_half_space():
    rows = make_rows([[1.0, 1.0], [0.0, 0.0]], [0.0, 1.0], [0, HALF_SPACE])
    assert master_for(L2(1.0), 2).solve(rows).status is MasterStatus.INFEASIBLE
    rows = make_rows([[1.0, 1.0], [0.0, 0.0]], [0.0, -1.0], [0, HALF_SPACE])
    np.testing.assert_allclose(master_for(L2(1.0), 2).solve(rows).x, [-1.0, -1.0])


@pytest.mark.parametrize("n_blocks", [1, 2])
def test_a_block_without_a_cut_is_unbounded(n_blocks):
    rows = random_rows(np.random.default_rng(0), 4, 3, 1, 4)
    only = rows.take(np.flatnonzero(rows.blocks == (HALF_SPACE if n_blocks == 1 else 0)))
    assert master_for(L2(1.0), 3, n_blocks).solve(only).status is MasterStatus.UNBOUNDED
    assert master_for(L2(1.0), 3).solve(rows.take(np.arange(0))).status is MasterStatus.UNBOUNDED


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])
def test_numbers_that_are_not_finite_fail_and_are_forgotten(bad):
    rng = np.random.default_rng(1)
    good = random_rows(rng, 10, 3)
    master = master_for(L2(0.1), 3)
    expected = master.solve(good).x
    for spoil in ("slope", "offset", "centre"):
        rows = Rows(
            np.vstack([good.slopes, np.ones(3)]), np.r_[good.offsets, 0.0], np.zeros(11, int), np.arange(11)
        )
        stabilization = None
        if spoil == "slope":
            rows.slopes[10, 1] = bad
        elif spoil == "offset":
            rows.offsets[10] = bad
        else:
            stabilization = Prox(np.array([0.0, bad, 0.0]), 1.0)
        solution = master.solve(rows, stabilization)
        if not (bad == 1e200 and spoil != "slope"):
            assert solution.status is MasterStatus.FAILED
            assert solution.message
        if solution.x is not None:
            assert np.isfinite(solution.x).all()
        np.testing.assert_allclose(master.solve(good).x, expected, atol=1e-9)


@pytest.mark.parametrize(
    ("regularizer", "feasible_set", "stabilization", "reason"),
    [
        (L2(1.0), WholeSpace(), None, None),
        (L2(1.0, weights=LOOSE), WholeSpace(), None, None),
        (L2(1.0), WholeSpace(), Prox, None),
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
        (NoRegularizer(), Simplex(), None, "neither a quadratic regularizer nor a prox term"),
        (L1(1.0), WholeSpace(), Prox, None),
        (L1(1.0), WholeSpace(), None, "neither a quadratic regularizer nor a prox term"),
        (ElasticNet(1.0, 0.5), WholeSpace(), None, None),
        (NegativeEntropy(1.0), WholeSpace(), Prox, "neither a diagonal quadratic nor"),
        (L2(1.0), L2Ball(1.0), None, "not a polyhedron"),
        (L2(1.0), Polyhedron(np.ones((500, 6)), np.ones(500)), None, "not a polyhedron with at most"),
    ],
)
def test_refusal(regularizer, feasible_set, stabilization, reason):
    answer = SimplexQP.refusal(ReducedProblem(6, 1, regularizer, feasible_set.resolve(6)), stabilization)
    assert answer is None if reason is None else reason in answer


@pytest.mark.parametrize("seed", range(8))
def test_half_spaces_hold_to_their_own_last_digits_next_to_steep_cuts(seed):
    rng = np.random.default_rng(seed)
    cuts, normals = 1e8 * rng.standard_normal((5, 6)), rng.standard_normal((8, 6))
    rows = make_rows(
        np.vstack([cuts, normals]), [*np.zeros(5), *np.full(8, -1.0)], [0] * 5 + [HALF_SPACE] * 8
    )
    x = master_for(L2(1.0), 6).solve(rows).x
    assert (normals @ x - 1.0 <= 2e-12 * (np.abs(normals) @ np.abs(x) + 1.0)).all()


def test_the_only_row_may_be_replaced():
    slopes = np.array([[1.0, 2.0, 0.0], [0.0, -3.0, 1.0], [2.0, 0.0, 5.0]])
    living, fresh = master_for(L2(1.0), 3), master_for(L2(1.0), 3)
    assert living.solve(make_rows(slopes[:1], [1.0])).x == pytest.approx(-slopes[0])
    rows = replace(make_rows(slopes[1:], [1.0, 2.0]), ids=np.array([1, 2]))
    assert living.solve(rows).multipliers == pytest.approx(fresh.solve(rows).multipliers)


def test_the_length_of_a_step_is_that_of_the_coordinates_in_the_metric():
    step = np.array([2.0, 0.0, 4.0])
    assert DualQP(1, np.array([1.0, 0.0, 4.0])).length(step) == pytest.approx(np.sqrt(8.0))
    assert DualQP(1).length(step) == pytest.approx(np.sqrt(20.0))

"""Projections on level sets by the dual simplex QP master."""

from __future__ import annotations

import numpy as np
import pytest
from simplex_qp_checks import CENTRE, Quadratic, make_rows, master_for, random_rows, solve_with_cvxpy

from cutplane.masters.base import HALF_SPACE, Level, MasterStatus, Prox
from cutplane.regularizers.l1 import L1
from cutplane.regularizers.l2 import L2
from cutplane.regularizers.none import NoRegularizer


def projected(master, rows, n_blocks, regularizer, height, low, centre, share):
    """Return the projection on a level between the heights of two points, after a look at cvxpy's."""
    level = height(low) + share * abs(height(centre) - height(low))
    solution = master.solve(rows, Level(centre, level))
    value, x = solve_with_cvxpy(rows, n_blocks, regularizer, Level(centre, level))
    assert 0.5 * ((solution.x - centre) ** 2).sum() == pytest.approx(value, rel=1e-6, abs=1e-8)
    np.testing.assert_allclose(solution.x, x, atol=1e-4)
    assert height(solution.x) <= level + 1e-12 * (1 + abs(level) + abs(height(centre)))
    return solution


@pytest.mark.parametrize("half_spaces", [0, 6])
@pytest.mark.parametrize("n_blocks", [1, 3])
@pytest.mark.parametrize("regularizer", [NoRegularizer(), L2(0.3, centre=CENTRE)], ids=["none", "l2"])
def test_projection_on_a_level_set(regularizer, n_blocks, half_spaces):
    rng = np.random.default_rng(13)
    master = master_for(regularizer, 6, n_blocks)
    quadratic = Quadratic.of(regularizer, 6)
    rows = random_rows(rng, 40, 6, n_blocks, half_spaces)
    low = master.solve(rows, Prox(np.zeros(6), 1e-3)).x

    def height(x):
        values = rows.slopes @ x + rows.offsets
        return float(sum(values[rows.blocks == k].max() for k in range(n_blocks)) + quadratic(x))

    for share in (0.01, 0.3, 0.9):
        centre = 3.0 * rng.standard_normal(6)
        solution = projected(master, rows, n_blocks, regularizer, height, low, centre, share)
        assert ((rows.slopes @ solution.x + rows.offsets)[rows.blocks == HALF_SPACE] <= 1e-12).all()
        weights = solution.multipliers
        totals = [weights[rows.blocks == k].sum() for k in range(n_blocks)]
        np.testing.assert_allclose(totals, totals[0], rtol=1e-10)
        gradient = np.asarray(totals[0] * quadratic.gradient(solution.x), dtype=float)
        np.testing.assert_allclose(centre - solution.x, weights @ rows.slopes + gradient, atol=1e-9)


@pytest.mark.parametrize("n_blocks", [1, 3])
@pytest.mark.parametrize(
    "regularizer",
    [
        L1(1.0, weights=[0.4] * 6),
        L1(1.0, weights=[0.0, 0.1, 0.5, 1.0, 0.4, 0.0]),
        L2(0.3, centre=CENTRE) + L2(0.4),
        L1(0.2) + L2(0.3, centre=CENTRE) + L2(0.4),
    ],
    ids=["equal costs", "costs", "two centres", "two centres and costs"],
)
def test_projection_on_a_level_set_of_a_model_and_other_norms(regularizer, n_blocks):
    """Of two quadratics with different centres a constant is left, which the level includes."""
    rng = np.random.default_rng(14)
    master = master_for(regularizer, 6, n_blocks)
    rows = random_rows(rng, 40, 6, n_blocks, 0)
    low = master.solve(rows, Prox(np.zeros(6), 1e-3)).x

    def height(x):
        values = rows.slopes @ x + rows.offsets
        return sum(values[rows.blocks == k].max() for k in range(n_blocks)) + regularizer.value(x)

    for share in (0.01, 0.3, 0.9):
        centre = 3.0 * rng.standard_normal(6)
        projected(master, rows, n_blocks, regularizer, height, low, centre, share)


def test_a_centre_below_the_level_is_its_own_projection():
    rows = make_rows([[1.0, 0.0], [-1.0, 0.0]], [0.0, 0.0])
    centre = np.array([0.5, 2.0])
    solution = master_for(NoRegularizer(), 2).solve(rows, Level(centre, 0.5))
    np.testing.assert_array_equal(solution.x, centre)
    assert not solution.multipliers.any()


def test_half_spaces_alone_can_move_the_centre():
    rows = make_rows([[1.0, 0.0], [0.0, 1.0]], [0.0, 1.0], [0, HALF_SPACE])
    solution = master_for(NoRegularizer(), 2).solve(rows, Level(np.array([0.5, 2.0]), 1.0))
    np.testing.assert_allclose(solution.x, [0.5, -1.0], atol=1e-12)


@pytest.mark.parametrize("centre", [[0.0, 0.0], [3.0, 1.0], [1e6, 1e-6]])
@pytest.mark.parametrize("depth", [1e-6, 1e-3, 1.0, 1e6])
def test_a_level_below_the_model_is_infeasible(centre, depth):
    rows = make_rows([[1.0, 2.0], [-1.0, -2.0], [0.5, -1.0], [-0.5, 1.0]], [0.0, 0.0, 0.0, 0.0])
    master = master_for(NoRegularizer(), 2)
    solution = master.solve(rows, Level(np.array(centre), -depth))
    assert solution.status is MasterStatus.INFEASIBLE
    above = master.solve(rows, Level(np.array([3.0, 1.0]), depth))
    assert above.status is MasterStatus.SOLVED
    assert (rows.slopes @ above.x + rows.offsets).max() <= depth + 1e-13


def test_levels_that_close_in_on_the_minimum_are_met():
    rng = np.random.default_rng(21)
    rows = make_rows(
        np.vstack([rng.standard_normal((30, 5)), np.eye(5), -np.eye(5)]), rng.standard_normal(40)
    )
    least, _ = solve_with_cvxpy(rows, 1, L2(0.0))
    master = master_for(NoRegularizer(), 5)
    centre = np.full(5, 3.0)
    for share in 10.0 ** -np.arange(8):
        solution = master.solve(rows, Level(centre, least + share))
        assert solution.status is MasterStatus.SOLVED
        assert (rows.slopes @ solution.x + rows.offsets).max() <= least + share + 1e-12

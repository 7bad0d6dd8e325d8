"""Multipliers whose aggregate slope vanishes on free coordinates, and how far they are from exact ones."""

import numpy as np
import pytest
from scipy import sparse

from cutplane.masters.base import HALF_SPACE
from cutplane.proof import free as repair
from cutplane.proof.free import balance
from cutplane.proof.rounding import CANCELLED

ONE = np.zeros(4, dtype=int)
FREE = np.array([1])


def rows(*free, other=1.0):
    """Slopes whose coordinate 1 is free and whose coordinate 0 is `other`."""
    return np.column_stack([np.full(len(free), other), free])


@pytest.mark.parametrize("kind", [np.array, sparse.csr_array])
def test_multipliers_that_balance_are_kept(kind):
    weights = np.array([0.5, 0.5, 0.0, 0.0])
    found = balance(weights, kind(rows(1.0, -1.0, 3.0, 5.0)), ONE, FREE)
    assert found.weights is weights
    assert found.distance.tolist() == [0.0] * 4
    assert found.left == 0.0


@pytest.mark.parametrize("slope, row", [(3.0, 1), (-3.0, 0)])
def test_weight_moves_to_the_row_that_opposes_most(slope, row):
    """Residual r and the opposite slope s: the share r / (r + s) of that row makes them cancel."""
    slopes = np.array([5.0, -5.0, 1.0, -1.0])
    weights = np.array([0.0, 0.0, 0.5 + slope / 8.0, 0.5 - slope / 8.0])
    found = balance(weights, rows(*slopes), ONE, FREE)
    share = 0.75 / 5.75
    wanted = (1.0 - share) * weights
    wanted[row] += share
    assert found.weights == pytest.approx(wanted, abs=1e-15)
    assert found.weights.sum() == pytest.approx(1.0, abs=1e-15)
    assert abs(found.weights @ slopes) <= CANCELLED
    assert found.distance.sum() <= 1e-15
    assert found.left == 0.0


def test_a_residual_that_nothing_opposes_cannot_be_balanced():
    weights = np.array([0.5, 0.5, 0.0, 0.0])
    found = balance(weights, rows(1.0, 2.0, 3.0, 4.0), ONE, FREE)
    assert found.weights.tolist() == weights.tolist()
    assert found.distance is None
    assert found.left == 0.0


def test_flat_rows_alone_remain_if_nothing_opposes_the_residual():
    weights, bits = np.array([0.5, 0.25, 0.25, 0.0]), 0.9e-13
    found = balance(weights, rows(2.0, 2.0 * bits, bits, 3.0, other=2.0), ONE, FREE)
    assert found.weights == pytest.approx([0.0, 0.5, 0.5, 0.0])
    assert found.distance.tolist() == [0.0] * 4
    assert found.left == pytest.approx(1.5 * bits)
    steep = balance(np.array([0.0, 1.0, 0.0, 0.0]), rows(2.0, 2.2e-13, 1.0, 3.0, other=2.0), ONE, FREE)
    assert steep.distance is None


def test_every_block_needs_a_flat_row():
    slopes = np.array([[1.0, 1e-14], [1.0, 1.0], [1.0, 2e-14], [1.0, 1.0], [1.0, 0.0]])
    blocks = np.array([0, 0, 1, 1, HALF_SPACE])
    weights = np.array([0.5, 0.5, 0.25, 0.75, 2.0])
    found = balance(weights, slopes, blocks, FREE)
    assert found.weights == pytest.approx([1.0, 0.0, 1.0, 0.0, 2.0])
    assert found.left == pytest.approx(3e-14)
    lacking = repair._flat(np.array([0.5, 0.5, 0.0, 1.0, 2.0]), slopes[:, FREE], slopes, blocks)
    assert lacking.distance is None
    assert lacking.weights.tolist() == [0.5, 0.5, 0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    "residual, slopes, share, row",
    [
        (0.0, [1.0, 2.0], 0.0, 0),
        (1.0, [-1.0, -3.0], 0.25, 1),
        (-1.0, [1.0, 3.0], 0.25, 1),
        (1.0, [1.0, 2.0], np.inf, 0),
        (1.0, [0.0, 2.0], np.inf, 0),
        (-2.0, [-1.0, 0.5], 0.8, 1),
    ],
)
def test_the_opposing_share_makes_residual_and_row_cancel(residual, slopes, share, row):
    assert repair._opposing_share(residual, np.array(slopes)) == (share, row)


def test_two_free_coordinates_are_balanced_together():
    slopes = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    weights = np.array([0.3, 0.2, 0.25, 0.25])
    found = balance(weights, slopes, ONE, np.array([0, 1]))
    assert found.weights == pytest.approx([0.25] * 4, abs=1e-15)
    assert found.distance.sum() <= 1e-15
    assert found.left <= 1e-15


def test_half_spaces_change_freely_and_blocks_keep_their_sums():
    slopes = np.array([[2.0], [1.0], [-1.0], [1.0]])
    blocks = np.array([0, 0, HALF_SPACE, 1])
    weights = np.array([0.5, 0.5, 2.0, 1.0])
    found = balance(weights, slopes, blocks, np.array([0]))
    assert found.weights[:2].sum() == pytest.approx(1.0, abs=1e-15)
    assert found.weights[3] == pytest.approx(1.0, abs=1e-15)
    assert found.weights @ slopes[:, 0] == pytest.approx(0.0, abs=1e-15)


def test_a_linear_programme_brings_idle_rows_in():
    """Only row 2, without weight, opposes the residual of the block."""
    slopes = np.array([[1.0, 0.0], [3.0, 0.0], [-1.0, 0.0], [-0.5, 0.0]])
    found = balance(np.array([1.0, 0.0, 0.0, 0.0]), slopes, ONE, np.array([0, 1]))
    assert found.weights == pytest.approx([0.5, 0.0, 0.5, 0.0], abs=1e-15)
    assert found.distance.sum() <= 1e-15


def test_what_cannot_be_balanced_is_left_alone():
    slopes = np.array([[1.0, 0.0], [3.0, 0.0], [2.0, 0.0], [0.5, 0.0]])
    weights = np.array([0.5, 0.5, 0.0, 0.0])
    found = balance(weights, slopes, ONE, np.array([0, 1]))
    assert found.weights.tolist() == weights.tolist()
    assert found.distance is None


def test_multipliers_that_a_solver_left_of_zero_do_not_spoil_the_correction():
    slopes = np.array([[1.0, 0.0], [-1.0, 0.0], [1e6, 1.0], [0.0, -1e-4]])
    weights = np.array([0.5, 0.5, 1e-12, 1e-12])
    found = balance(weights, slopes, ONE, np.array([0, 1]))
    assert found.weights == pytest.approx([0.5, 0.5, 0.0, 0.0], abs=1e-5)
    assert np.abs(found.weights @ slopes).max() <= 1e-15
    assert found.distance is not None


CONSTRAINTS = np.array([[1.0, 1.0, 0.0], [1.0, -1.0, 0.0]])


def corrected(weights, right=(1.0, 0.0), bits=0.0, constraints=CONSTRAINTS):
    weights = np.array(weights)
    last = np.outer([0.0, 1.0], np.full(weights.size, bits))
    return repair._corrected(weights, constraints, np.array(right), last, np.ones(2))


def test_the_least_change_of_the_positive_multipliers_meets_the_constraints():
    found = corrected([0.6, 0.5, 0.0])
    assert found.weights == pytest.approx([0.5, 0.5, 0.0], abs=1e-15)
    assert found.distance[2] == 0.0
    assert (found.distance >= 0.0).all()
    assert found.distance.max() <= 1e-15
    assert found.left <= 1e-15


def test_a_correction_that_leaves_a_multiplier_negative_fails():
    assert corrected([0.5, 0.5, 0.0], right=(1.0, 1.5)) is None
    assert corrected([0.5, 0.5, 0.0], right=(1.0, 0.9)) is not None


def test_a_residual_may_be_as_large_as_the_last_bits_of_the_slopes():
    impossible = np.array([[1.0, 1.0, 0.0], [1e-9, 1e-9, 0.0]])
    assert corrected([0.5, 0.5, 0.0], constraints=impossible) is None
    assert corrected([0.5, 0.5, 0.0], bits=0.9e-9, constraints=impossible) is None
    found = corrected([0.5, 0.5, 0.0], bits=1.1e-9, constraints=impossible)
    assert found.left == pytest.approx(1e-9, rel=1e-3)
    assert found.weights == pytest.approx([0.5, 0.5, 0.0])


def test_the_nearest_multipliers_move_least():
    weights = np.array([0.9, 0.1, 0.0])
    constraints = np.array([[1.0, 1.0, 1.0], [4.0, -1.0, -36.0]])
    moved = repair._nearest_by_linear_programme(weights, constraints, np.array([1.0, 0.0]))
    assert moved == pytest.approx([0.8125, 0.1, 0.0875], abs=1e-9)


def test_tiny_moves_of_a_linear_programme_count_as_zero(monkeypatch):
    import scipy.optimize
    from scipy.optimize import OptimizeResult

    answer = np.array([1.0, 0.9e-9, 1.1e-9, 0.0, 0.0, 0.0])
    monkeypatch.setattr(scipy.optimize, "linprog", lambda *_, **__: OptimizeResult(x=answer))
    moved = repair._nearest_by_linear_programme(np.zeros(3), CONSTRAINTS, np.array([1.0, 0.0]))
    assert moved.tolist() == [1.0, 0.0, 1.1e-9]
    monkeypatch.setattr(scipy.optimize, "linprog", lambda *_, **__: OptimizeResult(x=None))
    assert repair._nearest_by_linear_programme(np.zeros(3), CONSTRAINTS, np.array([1.0, 0.0])) is None


def test_the_linear_programme_is_scaled_row_by_row():
    constraints = np.array([[1.0, 1.0, 1.0], [4e9, -1e9, -36e9], [0.0, 0.0, 0.0]])
    moved = repair._nearest_by_linear_programme(np.array([0.9, 0.1, 0.0]), constraints, np.array([1.0, 0, 0]))
    assert moved == pytest.approx([0.8125, 0.1, 0.0875], abs=1e-9)


@pytest.mark.parametrize("steepness", [1.0, 1e6, 1e14])
def test_the_sums_of_the_blocks_are_kept_however_steep_the_slopes(steepness):
    slopes = steepness * np.array([[0.5, 44.3], [-0.3, -44.7]])
    found = balance(np.ones(2), slopes, np.array([0, 1]), np.array([1]))
    assert found.distance is None


@pytest.mark.parametrize("steepness", [1e-13, 1.0, 1e13])
def test_multipliers_of_blocks_are_balanced_in_any_unit(steepness):
    slopes = steepness * np.array([[0.5, 2.0], [1.0, -1.0], [-0.3, -3.0], [0.1, 1.0]])
    weights = np.array([0.5, 0.5, 0.375, 0.625])
    found = balance(
        weights + 1e-10 * np.array([1.0, -1.0, 1.0, -1.0]), slopes, np.array([0, 0, 1, 1]), np.array([1])
    )
    assert found.distance is not None
    assert found.weights[:2].sum() == pytest.approx(1.0, abs=1e-15)
    assert found.weights[2:].sum() == pytest.approx(1.0, abs=1e-15)
    assert abs(found.weights @ slopes[:, 1]) <= 1e-14 * steepness

"""Points moved onto half-spaces, pulled back to a feasible point, and the end of an infeasible run."""

import numpy as np
import pytest
from scipy import sparse

import cutplane as cut
from cutplane.engine.bundle import Bundle
from cutplane.engine.half_spaces import (
    _share_inside,
    infeasible_end,
    into_half_spaces,
    point_towards,
    pull_back,
)
from cutplane.masters.base import HALF_SPACE
from cutplane.sets import HalfSpaces


def problem(feasible=None):
    return cut.Problem(cut.OracleRisk(lambda x: (0.0, np.zeros(2)), dim=2), cut.L2(1.0), feasible)


def bundle_with(*rows, kind=np.array):
    bundle = Bundle(2, 1)
    bundle.add(0, None, np.array([[1.0, 1.0]]), np.array([-1.0]), [0])
    for slope, offset in rows:
        bundle.add(0, None, kind([slope]), np.array([offset]), [HALF_SPACE])
    return bundle


@pytest.mark.parametrize("kind", [np.array, sparse.csr_array])
@pytest.mark.parametrize("share, moved", [(-0.5, False), (3e-15, False), (4e-15, True), (0.9e-6, True)])
def test_a_violation_by_the_tolerance_of_a_master_is_undone(share, moved, kind):
    """The terms of 4 x_0 - b at x_0 = 2 are 8 and b."""
    bound = 8.0 * (1.0 - share) / (1.0 + share)
    x = np.array([2.0, 5.0])
    found = into_half_spaces(problem(), bundle_with(([4.0, 0.0], -bound), kind=kind), x)
    assert (found is not x) == moved
    if moved:
        assert 4.0 * found[0] <= bound
        assert found == pytest.approx([bound / 4.0, 5.0], rel=1e-12)


def test_the_simple_set_is_obeyed_as_well():
    """x_0 + x_1 falls below 2, while x_0 >= 1."""
    box = cut.Box([1.0, -9.0], [9.0, 9.0])
    found = into_half_spaces(problem(box), bundle_with(([1.0, 1.0], -2.0 * (1.0 - 1e-8))), np.ones(2))
    assert found[0] >= 1.0
    assert found.sum() <= 2.0 * (1.0 - 1e-8)
    assert found == pytest.approx([1.0, 1.0], abs=1e-7)


class Run:
    """Separates in the interval around zero of this radius, or in a disc, and counts."""

    def __init__(self, radius):
        self.radius, self.asked = radius, []

    def cut_off(self, x):
        self.asked.append(x)
        distance = np.linalg.norm(x)
        inside = distance <= self.radius
        return HalfSpaces(*(np.empty((0, x.size)), []) if inside else ([x / distance], [self.radius]))


@pytest.mark.parametrize("radius", [0.3, 0.75, 0.999])
def test_the_point_pulled_back_is_feasible_and_close_to_the_boundary(radius):
    run, outside = Run(radius), np.array([1.0])
    found = pull_back(run.cut_off, outside, np.array([0.0]), run.cut_off(outside))
    assert radius - 1e-3 <= found[0] < radius
    assert len(run.asked) == 2


def test_a_round_set_is_approached_by_the_half_spaces_found_on_the_way():
    run, outside, inside = Run(1.0), np.array([3.0, 1.0]), np.array([0.0, -0.9])
    found = pull_back(run.cut_off, outside, inside, run.cut_off(outside))
    assert 0.99 < np.linalg.norm(found) <= 1.0
    assert 2 < len(run.asked) <= 4


@pytest.mark.parametrize(
    ("end", "expected"),
    [(1.0 + 1e-6, 1.0 - 9e-4 + 1e-6), (1.8, 0.9), (2.5, None), (1.0 - 1e-6, 1.0 - 9e-4 - 1e-6)],
)
def test_a_point_towards_a_minimiser_closes_the_gap_or_halves_it(end, expected):
    run = Run(1.0)
    outside = np.array([end])  # of the objective -x, from zero
    found = point_towards(outside, np.zeros(1), end, run.cut_off(outside), (0.9e-3, 0.5 * end))
    assert found == (None if expected is None else pytest.approx([expected]))


APART = ([1.0, 0.0], 1.0), ([-1.0, 0.0], 1.0)
TOUCHING = ([1.0, 0.0], -1.0), ([-1.0, 0.0], -1.0)


def ended(rows, stabilized, best=None):
    return infeasible_end(problem(), None if best else bundle_with(*rows), stabilized)


@pytest.mark.parametrize("stabilized", [True, False])
def test_half_spaces_without_a_common_point_are_infeasible(stabilized):
    status, message = ended(APART, stabilized)
    assert status is cut.Status.INFEASIBLE
    assert message.endswith("have no common point (certified by multipliers)")


@pytest.mark.parametrize("stabilized", [True, False])
@pytest.mark.parametrize("rows, best", [(TOUCHING, None), (APART, object())])
def test_what_cannot_be_certified_is_a_stall(rows, best, stabilized):
    status, message = ended(rows, stabilized, best)
    assert status is cut.Status.STALLED
    assert message.startswith("a backend calls the reduced problem infeasible, which could not be certified")
    assert ("the level may be below the rounding error of the bounds" in message) == stabilized


def test_a_half_space_that_both_ends_touch_does_not_shorten_the_segment():
    found = HalfSpaces(np.eye(2), np.ones(2))
    assert _share_inside(found, np.array([1.0, 0.0]), np.array([1.0, 3.0])) == pytest.approx(1.0 / 3.0)

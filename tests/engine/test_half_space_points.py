"""Points moved onto half-spaces, pulled back to a feasible point, and the end of an infeasible run."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

import cutplane as cut
from cutplane.engine.bundle import Bundle
from cutplane.engine.half_spaces import infeasible_end, into_half_spaces, pull_back
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


def test_a_larger_violation_is_left_alone():
    x = np.array([2.0, 5.0])
    assert into_half_spaces(problem(), bundle_with(([4.0, 0.0], -8.0 * (1.0 - 2.1e-6))), x) is x


def test_without_half_spaces_nothing_moves():
    x = np.array([2.0, 5.0])
    assert into_half_spaces(problem(), bundle_with(), x) is x


def test_only_the_half_spaces_nearby_are_obeyed():
    near, far = ([1.0, 0.0], -2.0 * (1.0 - 1e-8)), ([0.0, 1.0], 1.0)
    found = into_half_spaces(problem(), bundle_with(near, far), np.array([2.0, 5.0]))
    assert found == pytest.approx([2.0 * (1.0 - 1e-8), 5.0], rel=1e-13)


def test_the_simple_set_is_obeyed_as_well():
    """x_0 + x_1 falls below 2, while x_0 >= 1."""
    box = cut.Box([1.0, -9.0], [9.0, 9.0])
    found = into_half_spaces(problem(box), bundle_with(([1.0, 1.0], -2.0 * (1.0 - 1e-8))), np.ones(2))
    assert found[0] >= 1.0
    assert found.sum() <= 2.0 * (1.0 - 1e-8)
    assert found == pytest.approx([1.0, 1.0], abs=1e-7)


class Run:
    """Separates at x_0 = `edge`, and counts."""

    def __init__(self, edge):
        self.edge, self.asked, self.added = edge, [], []
        self.evaluator = SimpleNamespace(separate=self.separate)

    def separate(self, x):
        self.asked.append(float(x[0]))
        if x[0] <= self.edge:
            return HalfSpaces(np.empty((0, 1)), np.empty(0))
        return HalfSpaces(np.ones((1, 1)), np.array([self.edge]))

    def add_half_spaces(self, x, found):
        self.added.append((float(x[0]), found.offsets.tolist()))


@pytest.mark.parametrize("edge", [0.3, 0.75, 0.999])
def test_the_point_pulled_back_is_feasible_and_close_to_the_boundary(edge):
    run = Run(edge)
    found = pull_back(run, np.array([1.0]), np.array([0.0]))
    assert edge - 1e-3 <= found[0] <= edge
    assert run.asked[0] == 0.5
    outside = min(asked for asked in run.asked if asked > edge)
    assert run.added == [(outside, [edge])]
    assert 0.5e-3 * (1.0 - found[0]) < outside - found[0] <= 1e-3 * (1.0 - found[0])


def test_a_segment_that_is_feasible_is_followed_to_its_end():
    run = Run(5.0)
    found = pull_back(run, np.array([3.0]), np.array([1.0]))
    assert run.added == []
    assert 3.0 - 1e-8 < found[0] < 3.0
    assert len(run.asked) == 40


def test_where_only_the_inner_end_is_feasible_it_is_kept():
    run = Run(1.0)
    found = pull_back(run, np.array([3.0]), np.array([1.0]))
    assert found[0] == 1.0
    assert len(run.asked) == 10
    assert run.added == [(1.0 + 2.0 / 2**10, [1.0])]


APART = ([1.0, 0.0], 1.0), ([-1.0, 0.0], 1.0)
TOUCHING = ([1.0, 0.0], -1.0), ([-1.0, 0.0], -1.0)


def ended(rows, stabilized, best=None):
    run = SimpleNamespace(problem=problem(), bundle=bundle_with(*rows), best=best)
    return infeasible_end(run, stabilized)


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

"""Answers that contradict one another are told from rounding, just inside and just outside the tolerance."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from cutplane.engine.bounds import (
    allowed,
    check_cuts,
    check_separation,
)
from cutplane.engine.bundle import Bundle
from cutplane.engine.evaluator import Point
from cutplane.exceptions import OracleError
from cutplane.masters.base import HALF_SPACE
from cutplane.sets import HalfSpaces

INSIDE, OUTSIDE = 0.99e-7, 1.01e-7


def wave(x):
    return x


PROBLEM = SimpleNamespace(risk=wave)


def point(x, *values):
    return Point(np.array(x, dtype=float), float(np.sum(values)), np.array(values, dtype=float))


def test_tolerance_is_relative_to_the_answers_and_to_what_cancels():
    assert allowed(3.0, 0.0) == pytest.approx(3e-7)
    assert allowed(0.0, 5.0) == pytest.approx(5e-12)
    assert allowed(3.0, 1e6) == pytest.approx(3e-7 + 1e-6)


def above(slopes, offsets, origin, known, noise=0.0):
    """Compare cuts found at one point, one of each block, with the values at another."""
    cuts = np.array(slopes, dtype=float), np.array(offsets, dtype=float), range(len(offsets))
    check_cuts(PROBLEM, cuts, lambda _: origin, known.x, known.values, noise)


def cut_above(share, noise=0.0):
    """The cut -x + 2 y + 1 + s lies above the value at (1, -2) by `share` of its terms.

    They are 4, the offset, and 1 * (1 + 3) + 2 * (2 + 1).
    """
    offset = (1.0 + share * 14.0) / (1.0 - share)
    above([(-1.0, 2.0)], [offset], np.array([-3.0, 1.0]), point([1.0, -2.0], -4.0), noise)


@pytest.mark.parametrize("share", [-0.5, 0.0, INSIDE])
def test_a_cut_may_lie_above_a_value_by_the_tolerance(share):
    cut_above(share)


@pytest.mark.parametrize("share", [OUTSIDE, 1e-3])
def test_a_cut_above_a_value_is_a_contradiction(share):
    with pytest.raises(OracleError, match=r"at x = \[-3\.  1\.\] lies .* above") as error:
        cut_above(share)
    assert "its value at x = [ 1. -2.]:" in str(error.value)


def test_each_block_has_a_tolerance_of_its_own():
    known, slopes = point([0.0], 1.0, 1000.0), np.zeros((2, 1))
    above(slopes, [1.0, 1000.0 + 2e-4 * 0.99], known.x, known)
    with pytest.raises(OracleError, match=r"lies 3e-07 above"):
        above(slopes, [1.0 + 3e-7, 1000.0 + 2e-7], known.x, known)


def bundle_with(offset, slope=(3.0,), query_point=(-2.0,), block=0, n_blocks=1, sparse_slopes=False):
    bundle = Bundle(len(slope), n_blocks)
    slopes = np.array([slope], dtype=float)
    x = None if query_point is None else np.array(query_point, dtype=float)
    rows = sparse.csr_array(slopes) if sparse_slopes else slopes
    bundle.add(4, x, rows, np.array([offset]), [block])
    return bundle


def check(bundle, at, noise=0.0):
    cuts = bundle.slopes, bundle.offsets, bundle.blocks
    check_cuts(PROBLEM, cuts, bundle.origin, at.x, at.values, noise)


@pytest.mark.parametrize("sparse_slopes", [False, True])
@pytest.mark.parametrize("origin, terms", [((-2.0,), 22.0), ((50.0,), 166.0), (None, 16.0)])
def test_an_earlier_cut_may_lie_above_a_value_by_the_tolerance(origin, terms, sparse_slopes):
    """At x = -1 the value is 5 and the cut 3 x + 8 + e; the terms are 5 + 8 + 3 and those of its offset."""
    at = point([-1.0], 5.0)
    check(bundle_with(8.0 + INSIDE * terms, query_point=origin, sparse_slopes=sparse_slopes), at)
    with pytest.raises(OracleError, match=rf"lies {OUTSIDE * terms:.3g} above"):
        check(bundle_with(8.0 + OUTSIDE * terms, query_point=origin, sparse_slopes=sparse_slopes), at)


def test_the_error_names_the_point_of_the_cut():
    with pytest.raises(OracleError, match=r"The cut of wave at x = \[-2\.\] lies 0\.5 above .* x = \[-1\.\]"):
        check(bundle_with(8.5), point([-1.0], 5.0))
    with pytest.raises(OracleError, match=r"The cut of wave at an earlier point lies 0\.5 above"):
        check(bundle_with(8.5, query_point=None), point([-1.0], 5.0))


def test_terms_that_cancelled_widen_the_tolerance_of_an_earlier_cut():
    excess = 1e-3
    check(bundle_with(8.0 + excess), point([-1.0], 5.0), noise=1e9)
    with pytest.raises(OracleError):
        check(bundle_with(8.0 + excess), point([-1.0], 5.0), noise=0.99e9)


def test_half_spaces_are_no_cuts():
    bundle = bundle_with(0.0, slope=(0.0,))
    bundle.add(5, np.zeros(1), np.array([[0.0]]), np.array([1e6]), [HALF_SPACE])
    check(bundle, point([1.0], 0.0))


def test_the_cut_of_another_block_is_compared_with_its_own_value():
    bundle = bundle_with(10.0, slope=(0.0,), n_blocks=2, block=1)
    bundle.add(5, np.zeros(1), np.array([[1.0]]), np.array([0.5]), [0])
    at = point([0.0], 0.0, 10.0)
    with pytest.raises(OracleError, match=r"lies 0\.5 above"):
        check(bundle, at)


def separate(share, extent=2.0):
    """<(3, -4), x> <= b cuts off (1, 0) by `share` of the size 14 + |b| of its terms; b = 3 - that."""
    offset = (3.0 - share * 14.0) / (1.0 + share)
    spaces = HalfSpaces(np.array([[1.0, 0.0], [3.0, -4.0]]), np.array([5.0, offset]))
    check_separation(spaces, np.array([9.0, 8.0]), np.array([1.0, 0.0]), extent, 0.0)


@pytest.mark.parametrize("share", [-1e-2, 0.0, INSIDE])
def test_a_half_space_may_cut_off_a_feasible_point_by_the_tolerance(share):
    separate(share)


@pytest.mark.parametrize("share", [OUTSIDE, 0.5])
def test_a_half_space_that_cuts_off_a_feasible_point_is_a_contradiction(share):
    with pytest.raises(OracleError, match="Check the oracle with cutplane"):
        separate(share)


def test_the_tolerance_of_a_half_space_grows_with_the_extent():
    separate(3.0 * OUTSIDE, extent=8.0)


def test_a_half_space_through_the_only_point_known_is_no_contradiction():
    spaces = HalfSpaces(np.array([[1.0]]), np.array([0.0]))
    check_separation(spaces, np.array([1.0]), np.array([0.0]), 0.0, 0.0)


def test_the_tolerance_of_an_oracle_may_be_that_of_the_size_of_the_set():
    """Of a cone in a box of size 1e3, points of size 1e-6 are inside up to 1e-9 of the box."""
    spaces = HalfSpaces(np.array([[-1.0, 0.0]]), np.zeros(1))
    inside, x = np.array([-5e-7, 0.0]), np.array([-2e-6, 0.0])
    check_separation(spaces, x, inside, 2e-6, 1e3)
    for scale in (0.0, 1e2):
        with pytest.raises(OracleError, match="cuts off the point"):
            check_separation(spaces, x, inside, 2e-6, scale)

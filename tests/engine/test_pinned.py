"""Rows that can be combined to a slope that vanishes on the free coordinates."""

import numpy as np
import pytest
from scipy import sparse

from cutplane.engine.dual import has_flat_combination
from cutplane.masters.base import HALF_SPACE

ONE = np.array([1])


def rows(*free):
    return np.column_stack([np.ones(len(free)), free])


@pytest.mark.parametrize("kind", [np.array, sparse.csr_array])
@pytest.mark.parametrize(
    "free, blocks, pinned",
    [
        ([1.0, -2.0], [0, 0], True),
        ([1.0, 2.0], [0, 0], False),
        ([-1.0, -2.0], [0, 0], False),
        ([1.0, 0.0], [0, 0], True),
        ([-1.0, 0.0], [0, 0], True),
        ([1.0, -2.0], [0, 1], False),
        ([1.0, -1.0], [0, 1], True),
        ([1.0, -2.0], [0, HALF_SPACE], True),
        ([1.0, 2.0], [0, HALF_SPACE], False),
        ([1.0, -2.0, 3.0], [0, 0, 1], False),
        ([1.0, -3.0, 2.0], [0, 0, 1], True),
        ([0.0, 0.0], [0, 1], True),
    ],
)
def test_one_free_coordinate_is_pinned_by_slopes_that_cancel(free, blocks, pinned, kind):
    assert has_flat_combination(kind(rows(*free)), np.array(blocks), ONE) == pinned


@pytest.mark.parametrize("size", [1e-12, 1.0, 1e12])
def test_the_size_of_slopes_does_not_matter(size):
    free = np.array([1, 2])
    slopes = np.array([[1.0, 1.0, 0.0], [1.0, -1.0, 0.5], [1.0, -1.0, -1.0]]) * [1.0, size, size]
    assert has_flat_combination(slopes, np.zeros(3, dtype=int), free)
    assert not has_flat_combination(slopes[:2], np.zeros(2, dtype=int), free)
    assert not has_flat_combination(slopes * [1.0, -1.0, 0.0], np.array([0, 1, 2]), free)

"""Query points, kept without their zeros."""

import numpy as np
import pytest

from cutplane.engine.slopes import Points
from cutplane.proof.evidence import memory_of

pytestmark = pytest.mark.every


@pytest.mark.parametrize("nonzero", [0, 1, 1000, 1001, 3000])
def test_what_is_read_is_what_was_written(nonzero):
    x = np.zeros(3000)
    x[3000 - nonzero :] = np.arange(nonzero) + 0.5
    points = Points({4: x})
    written = x.copy()
    x[:] = 9.0
    assert np.array_equal(points[4], written)
    assert np.array_equal(points.copy()[4], written)
    assert memory_of(points) == (12 * nonzero if 3 * nonzero <= 3000 else 24_000)


def test_short_vectors_are_kept_as_they_are():
    assert memory_of(Points({0: np.zeros(10)})) == memory_of({0: np.zeros(10)}) == 80


def test_points_are_chosen_in_the_order_asked_for():
    points = Points({query: np.full(2, float(query)) for query in range(4)})
    assert [x[0] for x in points.only([3, 1, 7]).values()] == [3.0, 1.0]
    assert list(points.only([3, 1, 7])) == [3, 1]
    assert [x[0] for x in (points | {1: np.zeros(2)}).values()] == [0.0, 0.0, 2.0, 3.0]


def test_unions_are_those_of_dicts():
    sparse, full = np.eye(1, 3000)[0], np.ones(3000)
    points, others = Points({0: sparse, 1: full}), {1: 2.0 * sparse, 2: full}
    for union in (points | others, points | Points(others)):
        assert [x[0] for x in union.values()] == [1.0, 2.0, 1.0]
        assert union.nbytes == 2 * 12 + 24_000
    assert points[1] is not full
    assert points.nbytes == 12 + 24_000
    del points[1]
    points |= others
    assert list(points) == [0, 1, 2] and np.array_equal(points[1], others[1])

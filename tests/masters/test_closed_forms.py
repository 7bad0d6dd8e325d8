"""What the closed forms of inner minima decide by."""

import numpy as np
import pytest

import cutplane as cut
from cutplane.masters.base import HALF_SPACE
from cutplane.sets.base import is_whole_space


@pytest.mark.parametrize(
    ("feasible", "whole"),
    [
        (cut.WholeSpace(), True),
        (cut.Box(-np.inf, np.inf), True),
        (cut.Box(-np.inf, 1.0), False),
        (cut.Box(0.0, np.inf), False),
        (cut.Box([-np.inf, -1.0], np.inf), False),
        (cut.Box(-np.inf, [np.inf, 2.0]), False),
        (cut.L2Ball(1.0), False),
    ],
    ids=repr,
)
def test_only_a_set_without_any_bound_is_the_whole_space(feasible, whole):
    assert is_whole_space(feasible, 2) is whole


def test_an_entropy_too_weak_for_one_of_the_slopes_gives_no_bound():
    entropy = cut.NegativeEntropy(1e-300)
    assert entropy.conjugate_minimiser(np.array([1e10, 1.0]), cut.Simplex()).value == -np.inf
    assert entropy.conjugate_minimiser(np.array([1.0, 2.0]), cut.Simplex()).value == pytest.approx(1.0)


class Rows:
    slopes = np.array([[1.0, -2.0, 0.5], [-1.0, 0.5, 1.0], [0.5, 1.0, -1.0], [1.0, 1.0, 1.0]])
    offsets = np.array([0.5, 0.25, -0.75, 0.25])
    blocks = np.array([0, 0, 0, HALF_SPACE])
    ids = np.arange(4)

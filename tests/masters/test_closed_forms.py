"""What the closed forms of inner minima decide by."""

import numpy as np
import pytest

import cutplane as cut
from cutplane.masters.base import HALF_SPACE, ReducedProblem
from cutplane.masters.lp.highs import HighsMaster
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


@pytest.mark.parametrize(
    "feasible",
    [
        cut.Box([-4.0, 0.5, 2.0], [3.0, 0.5, 2.5]),
        cut.Box([-1.0, -np.inf, 0.0], [np.inf, -2.0, 1.0]),
        cut.Box([-3.0, -2.0, -1.0], [-2.0, -2.0, 4.0]),
        cut.Polyhedron([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]], [1.0, 2.0], A_eq=[[1.0, 1.0, 1.0]], b_eq=[-1.0])
        & cut.Box(-4.0, 4.0),
    ],
    ids=repr,
)
@pytest.mark.parametrize("regularizer", [cut.NoRegularizer(), cut.L1(0.3)], ids=repr)
def test_columns_and_rows_are_the_same_linear_programme(feasible, regularizer):
    reduced = ReducedProblem(3, 1, regularizer, feasible.resolve(3))
    rows, columns = (HighsMaster(reduced, layout).solve(Rows()) for layout in ("rows", "columns"))
    heights = [Rows.slopes @ x + Rows.offsets for x in (rows.x, columns.x)]
    values = [
        height[:3].max() + regularizer.value(x)
        for height, x in zip(heights, (rows.x, columns.x), strict=True)
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-9)
    assert max(height[3] for height in heights) <= 1e-9
    for solution in (rows, columns):
        assert (solution.multipliers >= -1e-12).all()
        assert solution.multipliers[:3].sum() == pytest.approx(1.0)
        least = solution.multipliers @ Rows.offsets
        problem = cut.Problem(
            cut.LinearObjective(solution.multipliers @ Rows.slopes), regularizer, reduced.simple_set
        )
        assert least + problem.solve(tol=1e-9).objective == pytest.approx(values[0], rel=1e-7)
        assert feasible.violation(solution.x) <= 1e-9

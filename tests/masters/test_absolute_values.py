"""Absolute values as differences: the optimum and the multipliers of a programme with a row for each side."""

import numpy as np
import pytest
from conformance import rows_of
from scipy import sparse

import cutplane as cut
from cutplane.masters.base import MasterStatus, ReducedProblem
from cutplane.masters.highs import HighsMaster
from cutplane.masters.least import LinearMinimum
from cutplane.regularizers import L1
from cutplane.sets import Box, Polyhedron, WholeSpace

DIM = 5
RNG = np.random.default_rng(0)
ROWS = Polyhedron(RNG.standard_normal((2, DIM)), [1.0, 2.0], RNG.standard_normal((1, DIM)), [0.25])
OFF_ZERO = Box([-1.0, 0.0, 0.5, -2.0, -np.inf], [1.0, 1.0, 2.0, -1.0, 3.0])
SETS = {"whole": WholeSpace(), "rows": ROWS, "box": Box(-1.0, 2.0), "off zero": OFF_ZERO}


@pytest.mark.parametrize("orientation", ["rows", "columns"])
@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("regularizer", [L1(1.0), L1(0.5, [1.0, 0.2, 2.0, 0.5, 1.0])], ids=repr)
def test_the_multipliers_prove_the_value_of_the_minimiser(name, regularizer, orientation):
    """Otherwise HiGHS would have to compute the minimum of the linear form of both again."""
    reduced = ReducedProblem(DIM, 1, regularizer, SETS[name].resolve(DIM))
    rng, found = np.random.default_rng(1), 0
    for turn in range(6):
        slopes, offsets = rng.standard_normal((8, DIM)), rng.standard_normal(8)
        rows = rows_of(sparse.csr_array(slopes) if turn % 2 else slopes, offsets)
        solution = HighsMaster(reduced, orientation).solve(rows)
        least = LinearMinimum(reduced.linear)
        if solution.status is MasterStatus.UNBOUNDED:
            continue
        found += 1
        value = (slopes @ solution.x + offsets).max() + regularizer.value(solution.x)
        v, constant = solution.multipliers @ slopes, solution.multipliers @ offsets
        assert constant + least(v, reach=10.0).value == pytest.approx(value, abs=1e-9)
        if orientation == "rows":
            given = LinearMinimum(reduced.linear)
            proven = given(v, solution.set_multipliers, reach=10.0).value
            assert constant + proven == pytest.approx(value, abs=1e-9)
            assert not given._solutions
    assert found >= 2


def test_pairs_of_auxiliaries_are_no_columns_of_the_cuts():
    """The l1 norm of a linear image pairs auxiliaries, which no cut has."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 12))
    y = X @ np.repeat([1.0, 0.0, -2.0], 4)
    regularizer = cut.L1(0.02) + cut.L1(0.05) @ np.diff(np.eye(12), axis=0)
    problem = cut.Problem(cut.LinearRisk(X, y, cut.losses.Absolute()), regularizer)
    result = problem.solve(cut.Kelley(), tol=1e-7)
    assert (result.status, result.backend) == ("OPTIMAL", "highs") and not any(result.history.notes)
    assert result.objective == pytest.approx(problem.solve(cut.methods.Direct(), tol=1e-8).objective)

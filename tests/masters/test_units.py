"""Pieces, rows and answers in another unit of x say the same."""

import cvxpy as cp
import numpy as np
import pytest
from covering import covering
from scipy import sparse

import cutplane as cut
from cutplane.engine.solver import ReducedSolver
from cutplane.masters.base import HALF_SPACE, Level, Prox, ReducedProblem
from cutplane.masters.highs import HighsMaster
from cutplane.masters.select import Backend
from cutplane.masters.simplex_qp import SimplexQP
from cutplane.masters.units import StatedRows, Unit, far_from_unit, piece_in_unit, unit_of
from cutplane.pieces.capabilities import Capability, offers

pytestmark = pytest.mark.every

UNITS = [2.0**-40, 0.5, 2.0**33]


class Rows:
    slopes = np.array([[1.0, -2.0], [-0.5, 1.0], [1.0, 1.0]])
    offsets = np.array([0.0, 0.25, -1.0])
    blocks = np.array([0, 0, HALF_SPACE])
    ids = np.arange(3)


@pytest.mark.parametrize("size", [1e-9, 0.7, 1.0, 3e12])
def test_a_unit_is_the_next_power_of_two(size):
    unit = unit_of(size)
    assert unit / 2.0 <= size < unit
    assert np.log2(unit) == round(np.log2(unit))
    assert not far_from_unit(size, unit)
    assert far_from_unit(1e4 * unit, unit)
    assert far_from_unit(1e-4 * unit, unit)
    assert not far_from_unit(0.0, unit)


@pytest.mark.parametrize("unit", UNITS)
def test_pieces_that_cannot_say_themselves_are_wrapped(unit):
    x = cp.Variable(2)
    regularizer = cut.CvxpyRegularizer(cp.norm1(x), x, lam=3.0)
    feasible = cut.CvxpySet([x >= unit, cp.sum(x) <= 4.0 * unit], x)
    stated, inside = piece_in_unit(regularizer, unit), piece_in_unit(feasible, unit)
    assert stated.value(np.array([1.0, -2.0])) == pytest.approx(9.0 * unit)
    assert inside.violation(np.array([0.5, 1.0])) == pytest.approx(0.5)
    u = cp.Variable(2)
    problem = cp.Problem(cp.Minimize(stated.cvxpy_form(u)), inside.cvxpy_form(u))
    assert problem.is_dcp()
    assert not offers(inside, Capability.LINEAR_FORM)
    assert not offers(stated, Capability.CONJUGATE)
    assert piece_in_unit(feasible, 1.0) is feasible


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("height", UNITS)
@pytest.mark.parametrize("matrix", [np.array, sparse.csr_array])
def test_rows_in_a_unit(unit, height, matrix):
    rows = Rows()
    rows.slopes = matrix(Rows.slopes)
    stated = StatedRows(Unit(unit, height)).of(rows)
    x = np.array([0.3, -0.7])
    heights, wanted = stated.slopes @ (x / unit) + stated.offsets, Rows.slopes @ x + Rows.offsets
    wanted[:2] /= height
    wanted[2] /= unit
    assert heights == pytest.approx(wanted, rel=1e-12)
    assert StatedRows(Unit()).of(rows) is rows


@pytest.mark.parametrize("height", [2.0**-9, 1.0, 2.0**11])
@pytest.mark.parametrize("unit", [2.0**-10, 0.5, 2.0**10])
@pytest.mark.parametrize(
    ("master", "regularizer", "stabilization"),
    [
        (HighsMaster, cut.L1(0.25), None),
        (SimplexQP, cut.L2(0.5), None),
        (SimplexQP, cut.NoRegularizer(), Prox(np.array([0.25, -0.5]), 0.5)),
        (SimplexQP, cut.L2(0.5), Level(np.array([1.5, -1.0]), 0.75)),
    ],
)
def test_an_answer_in_a_unit(unit, height, master, regularizer, stabilization):
    """The multipliers of a level are known up to a factor."""
    rows, reduced = Rows(), ReducedProblem(2, 1, regularizer, cut.Box(-2.0, 2.0, dim=2))
    wanted = master(reduced).solve(rows, stabilization)
    there = Unit(unit, height)
    solution = master(there.of_problem(reduced)).solve(
        StatedRows(there).of(rows), there.of_stabilization(stabilization)
    )
    found = there.back(solution, rows)
    assert found.x == pytest.approx(wanted.x, rel=1e-9, abs=1e-12)
    ours, theirs = found.multipliers, wanted.multipliers
    if isinstance(stabilization, Level):
        ours, theirs = ours / ours.sum(), theirs / theirs.sum()
    assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-12)


def test_units_are_changed_for_numbers_far_from_them():
    unit = Unit(2.0, 8.0)
    assert unit.fits(1.0, 16.0)
    assert unit.fits(0.0, 0.0)
    assert not unit.fits(1e-3, 8.0)
    assert not unit.fits(1e7, 8.0)
    assert not unit.fits(2.0, 1e-3)
    assert not unit.fits(2.0, 1e8)


def shifted_distance(size, height):
    target = np.array([0.75, -0.25, 0.5])

    @cut.risk(dim=3)
    def risk(x):
        u = x / size
        return height * (np.abs(u - target).sum() + 0.5 * u.sum()), height / size * (
            np.sign(u - target) + 0.5
        )

    return risk


BOUNDED = {
    "simplex": lambda size: cut.Simplex(radius=size),
    "ball": lambda size: cut.L2Ball(0.5 * size),
    "polyhedron": lambda size: cut.Polyhedron([[1.0, 1.0, 1.0]], [0.5 * size]) & cut.Box(-size, size),
}
OPTIMA = {"simplex": 1.0, "ball": 1.125 - np.sqrt(3.0 / 32.0), "polyhedron": 0.75}


@pytest.mark.parametrize(
    ("method", "name", "size", "height"),
    covering(
        [cut.Kelley(), cut.LevelBundle(), cut.ProximalBundle(), cut.BMRM()],
        BOUNDED,
        [1e-11, 1e-6, 1e6, 1e11],
        [1e-11, 1.0, 1e11],
    ),
    ids=str,
)
def test_solves_do_not_depend_on_units(method, name, size, height):
    result = cut.Problem(shifted_distance(size, height), feasible_set=BOUNDED[name](size)).solve(
        method, tol=1e-6
    )
    assert result.status is cut.Status.OPTIMAL
    assert result.objective == pytest.approx(height * OPTIMA[name], rel=1e-6)
    assert result.lower_bound <= height * OPTIMA[name] * (1.0 + 1e-12)


class Stubborn(cut.L2):
    """A user's regularizer that fails in every other unit."""

    asked = 0

    def in_unit(self, unit):
        Stubborn.asked += 1
        raise OverflowError("the weight overflows")


@pytest.mark.parametrize(
    ("regularizer", "size"), [(Stubborn(1.0), 1e-9), (cut.L2(1e-300), 1e-20), (cut.L2(1e200), 1e77)], ids=str
)
def test_a_unit_that_numbers_cannot_bear_is_refused_once(regularizer, size):
    box = cut.Box(-size, size, dim=2)
    solver = ReducedSolver(ReducedProblem(2, 1, regularizer, box), Backend(), (None,))
    for _ in range(3):
        solver.measure(size, 1.0)
    assert solver._unit == Unit()
    assert Stubborn.asked <= 1
    assert len(solver.notes) <= 1

"""Bounds from multipliers of the rows of a polyhedron, and points moved into one, against conic solves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutplane.masters.certificates import ConicProjection, InnerMinimum
from cutplane.masters.least import SolvedMinimum
from cutplane.masters.simplex_qp import RowsOfSet, project_on_polyhedron
from cutplane.regularizers import L1, L2, ElasticNet, NoRegularizer
from cutplane.regularizers.base import Minimum
from cutplane.sets import Box, Polyhedron, PSDCone

pytestmark = pytest.mark.every

DIM = 5
RNG = np.random.default_rng(3)
ROWS, SIDES = RNG.standard_normal((4, DIM)), RNG.uniform(0.1, 1.0, 4)
EQUATION = RNG.standard_normal((1, DIM))
REGIONS = {
    "rows": Polyhedron(ROWS, SIDES),
    "rows and an equation": Polyhedron(ROWS, SIDES, EQUATION, [0.3]),
    "rows in a box": Polyhedron(ROWS, SIDES) & Box(-1, 2, dim=DIM),
}
REGULARIZERS = {
    "l2": L2(0.7),
    "elastic net": ElasticNet(0.5),
    "l1": L1(2.0),
    "free coordinate": L2(0.7, weights=[1.0, 1.0, 1.0, 1.0, 0.0]),
}


def relaxed(regularizer, region):
    return SolvedMinimum(regularizer, region, DIM)._relaxed


@pytest.mark.parametrize("region", REGIONS)
@pytest.mark.parametrize("name", REGULARIZERS)
@given(seed=st.integers(0, 10**6))
def test_any_multipliers_give_a_lower_bound(name, region, seed):
    rng = np.random.default_rng(seed)
    regularizer, simple = REGULARIZERS[name], REGIONS[region]
    form = simple.linear_form(DIM)
    v, y = rng.standard_normal(DIM), rng.standard_normal(form.row_lower.size)
    bound = relaxed(regularizer, simple)(v, y, 10.0)
    x = simple.project(rng.standard_normal(DIM)) if hasattr(simple, "project") else project(simple, rng)
    assert bound <= regularizer.value(x) + v @ x + 1e-9


def project(simple, rng):
    x = project_on_polyhedron(simple, rng.standard_normal(DIM))
    assert x is not None
    return simple.restore(x)


@pytest.mark.parametrize("name", ["l2", "elastic net"])
def test_the_best_multipliers_give_the_minimum(name):
    """Of a slope that they balance at x, where two rows and an equation hold with equality."""
    regularizer, x = REGULARIZERS[name], RNG.standard_normal(DIM)
    simple = Polyhedron(ROWS, ROWS @ x + [0.0, 0.0, 1.0, 2.0], EQUATION, EQUATION @ x)
    form = simple.linear_form(DIM)
    equal, tight = form.row_lower == form.row_upper, form.row_upper - form.rows @ x < 1e-9
    y = np.where(equal, 0.7, -0.4 * tight)
    v = y @ form.rows - regularizer.subgradient(x)
    assert relaxed(regularizer, simple)(v, y, 10.0) == pytest.approx(regularizer.value(x) + v @ x, abs=1e-12)


def test_multipliers_of_half_spaces_are_those_of_the_form():
    form = (
        Polyhedron([[1.0, 0.0]], [2.0], [[0.0, 1.0]], [1.0]) & Polyhedron([[-1.0, 0.0]], [3.0])
    ).linear_form(2)
    stacked = RowsOfSet(form)
    assert stacked.multipliers(np.arange(1.0, 1.0 + stacked.count)).tolist() == [-2.0, -1.0, -3.0]


@pytest.mark.parametrize("region", REGIONS)
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_projections_agree_with_the_conic_ones(region, scale):
    simple = REGIONS[region].in_unit(1.0 / scale)
    x = 3.0 * scale * RNG.standard_normal(DIM)
    near = project_on_polyhedron(simple, x)
    assert near is not None
    np.testing.assert_allclose(near, ConicProjection(simple, DIM)(x), atol=1e-6 * scale)


@given(seed=st.integers(0, 10**6), size=st.sampled_from([1e-13, 1e-9, 1e-5]))
def test_points_just_outside_move_in(seed, size):
    """A chain of rows that hold with equality moves at once."""
    rng = np.random.default_rng(seed)
    chain = Polyhedron(np.eye(40, 41) - np.eye(40, 41, k=1), np.zeros(40)) & Box(-5, 5, dim=41)
    x = np.sort(np.repeat(rng.standard_normal(9), 5)[:41])
    moved = chain.restore(x + size * rng.standard_normal(41))
    assert chain.violation(moved) <= 1e-14
    assert np.abs(moved - x).max() <= 100 * size


def test_one_part_of_an_intersection_bounds_the_minimum_where_cone_solvers_fail(monkeypatch):
    monkeypatch.setattr(InnerMinimum, "__call__", lambda *_: Minimum(-np.inf, None))
    solved = SolvedMinimum(NoRegularizer(), Box(0.0, 1e11) & PSDCone(1), 1)
    assert solved(np.array([1e-11]), np.inf).value == 0.0
    assert solved(np.array([-1.0]), np.inf).value == -1e11

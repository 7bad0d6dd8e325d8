"""The dual simplex QP master over boxes, simplices and polyhedra."""

from __future__ import annotations

import numpy as np
import pytest
from covering import covering
from hypothesis import given, settings
from hypothesis import strategies as st
from simplex_qp_checks import (
    CENTRE,
    KINDS,
    PROX,
    Quadratic,
    height,
    make_rows,
    master_for,
    random_rows,
    sequence,
    solve_with_cvxpy,
)

from cutplane.masters.base import HALF_SPACE, Level, MasterStatus, Prox
from cutplane.regularizers.l2 import L2
from cutplane.regularizers.none import NoRegularizer
from cutplane.sets.box import Box, NonnegativeOrthant
from cutplane.sets.polyhedron import Polyhedron
from cutplane.sets.simplex import CappedSimplex, Simplex

SETS = {
    "box": Box(-0.3, np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.3])),
    "half a box": Box(
        np.array([-np.inf, 0.0, -np.inf, 0.0, -0.2, -0.2]), np.r_[0.1, np.inf, np.inf, 0.5, 0.2, -0.2]
    ),
    "orthant": NonnegativeOrthant(),
    "simplex": Simplex(radius=2.0),
    "capped simplex": CappedSimplex(0.3, dim=6),
    "a single point": CappedSimplex(1.0 / 6.0, dim=6),
    "polyhedron": Polyhedron(
        np.vander(np.linspace(-1, 1, 8), 6), np.linspace(0.2, 1.0, 8), np.ones((1, 6)), np.array([0.2])
    ),
}
BOUNDED_KINDS = [
    "l2",
    "centred",
    "diagonal",
    "prox",
    "l2 and prox",
    "bias and prox",
    "diagonal with bias and prox",
]


def assert_inside(rows, feasible_set, x):
    assert feasible_set.violation(x) <= 1e-12
    half_spaces = rows.blocks == HALF_SPACE
    assert ((rows.slopes @ x + rows.offsets)[half_spaces] <= 1e-11).all()


@pytest.mark.parametrize(("name", "kind", "counts"), covering(SETS, BOUNDED_KINDS, [(1, 0), (3, 2)]))
def test_feasible_sets_agree_with_cvxpy(name, kind, counts):
    n_blocks, half_spaces = counts
    regularizer, stabilization = KINDS[kind]
    feasible_set = SETS[name].resolve(6)
    if name == "a single point" and half_spaces:
        half_spaces = 0
    rng = np.random.default_rng(17)
    rows = random_rows(rng, 30, 6, n_blocks, half_spaces)
    if half_spaces:
        inside = solve_with_cvxpy(rows.take(np.arange(30)), n_blocks, L2(1.0), None, feasible_set)[1]
        rows.offsets[30:] = -rows.slopes[30:] @ inside - 1e-3
    solution = master_for(regularizer, 6, n_blocks, feasible_set).solve(rows, stabilization)
    assert solution.status is MasterStatus.SOLVED, solution.message
    value, x = solve_with_cvxpy(rows, n_blocks, regularizer, stabilization, feasible_set)
    quadratic = Quadratic.of(regularizer, 6, stabilization)
    assert height(rows, n_blocks, quadratic, solution.x) == pytest.approx(value, rel=1e-6, abs=1e-6)
    np.testing.assert_allclose(solution.x, x, atol=1e-3)
    assert_inside(rows, feasible_set, solution.x)
    for k in range(n_blocks):
        assert solution.multipliers[rows.blocks == k].sum() == pytest.approx(1.0, abs=1e-12)
    assert (solution.multipliers >= 0).all()


PROJECTED = [Box(-0.1, 0.2), NonnegativeOrthant(), Simplex(), CappedSimplex(0.5)]


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    chosen=st.integers(0, 3),
    count=st.integers(1, 40),
    dim=st.integers(2, 40),
    log_lam=st.floats(-2, 2),
    prox=st.booleans(),
)
def test_the_reported_multipliers_prove_optimality_over_a_set(seed, chosen, count, dim, log_lam, prox):
    """The set's own multipliers are not reported: x must be the projection, and close the gap."""
    rng = np.random.default_rng(seed)
    feasible_set = PROJECTED[chosen].resolve(dim)
    rows = random_rows(rng, count, dim)
    regularizer = L2(10.0**log_lam, centre=rng.standard_normal(dim))
    stabilization = Prox(rng.standard_normal(dim), 10.0 ** rng.uniform(-2, 2)) if prox else None
    solution = master_for(regularizer, dim, 1, feasible_set).solve(rows, stabilization)
    assert solution.status is MasterStatus.SOLVED, solution.message
    quadratic = Quadratic.of(regularizer, dim, stabilization)
    weight, v = float(quadratic.weights[0] + quadratic.prox), solution.multipliers @ rows.slopes
    linear = np.asarray(quadratic.weights * quadratic.centre + quadratic.prox * quadratic.point, dtype=float)
    np.testing.assert_allclose(solution.x, feasible_set.project((linear - v) / weight), atol=1e-9)
    least = float(quadratic(solution.x)) + v @ solution.x
    gap = height(rows, 1, quadratic, solution.x) - (solution.multipliers @ rows.offsets + least)
    assert abs(gap) <= 1e-10 * (1 + abs(least) + np.abs(rows.offsets).max())
    assert feasible_set.violation(solution.x) <= 1e-11


@pytest.mark.parametrize("kind", ["l2", "diagonal", "prox", "bias and prox"])
@pytest.mark.parametrize("name", ["box", "simplex", "polyhedron"])
def test_warm_sequences_over_a_set_equal_cold_solves(name, kind):
    regularizer, stabilization = KINDS[kind]
    master = master_for(regularizer, 6, 1, SETS[name])
    rng = np.random.default_rng(29)
    for rows in sequence(rng, 6, 1, 20):
        rows = rows.take(np.flatnonzero(rows.blocks == 0))
        if stabilization is not None:
            stabilization = Prox(rng.standard_normal(6), 10.0 ** rng.uniform(-2, 2))
        warm = master.solve(rows, stabilization)
        cold = master_for(regularizer, 6, 1, SETS[name]).solve(rows, stabilization)
        assert warm.status is cold.status is MasterStatus.SOLVED
        np.testing.assert_allclose(warm.x, cold.x, atol=1e-8)
        assert warm.multipliers.shape == rows.offsets.shape


@pytest.mark.parametrize("regularizer", [NoRegularizer(), L2(0.3, centre=CENTRE)], ids=["none", "l2"])
@pytest.mark.parametrize("name", [name for name in SETS if name != "a single point"])
def test_projection_on_a_level_set_within_a_set(name, regularizer):
    feasible_set = SETS[name].resolve(6)
    rng = np.random.default_rng(31)
    rows = random_rows(rng, 40, 6, 2)
    master = master_for(regularizer, 6, 2, feasible_set)
    quadratic = Quadratic.of(regularizer, 6)
    low = master.solve(rows, Prox(np.zeros(6), 1e-3)).x
    start = solve_with_cvxpy(rows, 2, L2(10.0), None, feasible_set)[1]
    for share in (1e-3, 0.3, 0.9):
        bottom, top = (height(rows, 2, quadratic, x) for x in (low, start))
        level = Level(start, bottom + share * (top - bottom))
        solution = master.solve(rows, level)
        assert solution.status is MasterStatus.SOLVED, solution.message
        value, x = solve_with_cvxpy(rows, 2, regularizer, level, feasible_set)
        assert 0.5 * ((solution.x - start) ** 2).sum() == pytest.approx(value, rel=1e-4, abs=1e-7)
        np.testing.assert_allclose(solution.x, x, atol=1e-3)
        assert height(rows, 2, quadratic, solution.x) <= level.level + 1e-12 * (1 + abs(level.level))
        assert_inside(rows, feasible_set, solution.x)


@pytest.mark.parametrize("name", ["box", "simplex", "polyhedron"])
@pytest.mark.parametrize(
    "stabilization", [None, PROX, Level(np.zeros(6), 0.0)], ids=["none", "prox", "level"]
)
def test_a_half_space_can_exclude_a_feasible_set(name, stabilization):
    normal = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    rows = make_rows([np.ones(6), -normal], [-2.0, 5.0], [0, HALF_SPACE])
    solution = master_for(L2(0.5), 6, 1, SETS[name]).solve(rows, stabilization)
    assert solution.status is MasterStatus.INFEASIBLE


def test_a_level_out_of_reach_of_the_set_is_infeasible():
    rows = make_rows([np.ones(6)], [0.0])
    for name, least in (("box", -1.8), ("simplex", 2.0)):
        master = master_for(NoRegularizer(), 6, 1, SETS[name])
        centre = np.full(6, 1.0 / 3.0)
        assert master.solve(rows, Level(centre, least - 0.1)).status is MasterStatus.INFEASIBLE
        assert master.solve(rows, Level(centre, least + 0.1)).status is MasterStatus.SOLVED


@pytest.mark.parametrize("size", [1e4, 1e7])
def test_huge_slopes_on_coordinates_at_a_bound_leave_the_others_exact(size):
    rng = np.random.default_rng(41)
    dim = 24
    rows = random_rows(rng, 30, dim)
    rows.slopes[:, :3] = size * (1.0 + rng.random((30, 3)))
    rows.offsets[:] -= rows.slopes[:, :3] @ -np.ones(3)
    feasible_set = Box(-1.0, 1.0, dim=dim)
    master = master_for(NoRegularizer(), dim, 1, feasible_set)
    for weight in (1e8 * size, 1.0, 0.3):
        solution = master.solve(rows, Prox(np.full(dim, 0.9), weight))
        assert solution.status is MasterStatus.SOLVED, solution.message
    reduced = make_rows(rows.slopes[:, 3:], rows.offsets - rows.slopes[:, :3].sum(axis=1))
    rest = master_for(NoRegularizer(), dim - 3, 1, Box(-1.0, 1.0)).solve(
        reduced, Prox(np.full(dim - 3, 0.9), 0.3)
    )
    np.testing.assert_allclose(solution.x[:3], -1.0)
    np.testing.assert_allclose(solution.x[3:], rest.x, atol=1e-13 * size)


@pytest.mark.parametrize("dim", [50, 300])
@pytest.mark.parametrize("name", ["box", "simplex"])
def test_weak_prox_terms_in_many_dimensions(name, dim):
    """Nearly a linear programme: most coordinates end at a bound, found from far away."""
    rng = np.random.default_rng(37)
    feasible_set = (Box(-0.1, 0.1) if name == "box" else Simplex()).resolve(dim)
    rows = random_rows(rng, 60, dim)
    centre = np.full(dim, 1.0 / dim)
    for weight in (1e1, 1e-1, 1e-3):
        stabilization = Prox(centre, weight)
        solution = master_for(NoRegularizer(), dim, 1, feasible_set).solve(rows, stabilization)
        assert solution.status is MasterStatus.SOLVED, solution.message
        v = solution.multipliers @ rows.slopes
        x = feasible_set.project(centre - v / weight)
        np.testing.assert_allclose(solution.x, x, atol=1e-8)
        values = rows.slopes @ solution.x + rows.offsets
        assert values.max() - solution.multipliers @ values <= 1e-10

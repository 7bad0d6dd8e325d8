"""The dual simplex QP master against cvxpy, enumeration of active sets, and its own optimality conditions."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutplane.masters import active_set
from cutplane.masters.base import HALF_SPACE, Level, MasterStatus, Prox, ReducedProblem
from cutplane.masters.gram import Gram
from cutplane.masters.simplex_qp import SimplexQP
from cutplane.regularizers.l1 import L1
from cutplane.regularizers.l2 import L2
from cutplane.regularizers.none import NoRegularizer
from cutplane.sets.ball import L2Ball
from cutplane.sets.box import Box, NonnegativeOrthant
from cutplane.sets.polyhedron import Polyhedron
from cutplane.sets.simplex import CappedSimplex, Simplex
from cutplane.sets.whole import WholeSpace


@dataclass(frozen=True, eq=False)
class Rows:
    slopes: np.ndarray
    offsets: np.ndarray
    blocks: np.ndarray
    ids: np.ndarray

    def take(self, chosen):
        return Rows(self.slopes[chosen], self.offsets[chosen], self.blocks[chosen], self.ids[chosen])


def make_rows(slopes, offsets, blocks=None):
    slopes = np.atleast_2d(np.asarray(slopes, dtype=float))
    count = slopes.shape[0]
    blocks = np.zeros(count, dtype=np.int64) if blocks is None else np.asarray(blocks, dtype=np.int64)
    return Rows(slopes, np.asarray(offsets, dtype=float), blocks, np.arange(count))


def random_rows(rng, count, dim, n_blocks=1, half_spaces=0, scale=1.0):
    """Return cuts of every block, then half-spaces with a common interior point."""
    slopes = scale * rng.standard_normal((count + half_spaces, dim))
    offsets = rng.standard_normal(count + half_spaces)
    inside = rng.standard_normal(dim)
    offsets[count:] = -slopes[count:] @ inside - rng.random(half_spaces)
    blocks = np.concatenate([np.arange(count) % n_blocks, np.full(half_spaces, HALF_SPACE)])
    return make_rows(slopes, offsets, blocks)


def master_for(regularizer, dim, n_blocks=1, feasible_set=None):
    feasible_set = (feasible_set or WholeSpace()).resolve(dim)
    return SimplexQP(ReducedProblem(dim, n_blocks, regularizer, feasible_set))


@dataclass(frozen=True, eq=False)
class Quadratic:
    """1/2 sum weights (x - centre)^2 + 1/2 prox ||x - point||^2, in extended precision."""

    weights: np.ndarray
    centre: np.ndarray
    prox: float
    point: np.ndarray

    @classmethod
    def of(cls, regularizer, dim, stabilization=None):
        form = regularizer.quadratic(dim)
        prox, point = (stabilization.weight, stabilization.centre) if stabilization else (0.0, np.zeros(dim))
        return cls(
            *(np.asarray(part, dtype=np.longdouble) for part in (form.weights, form.centre, prox, point))
        )

    def __call__(self, x):
        return (self.weights @ (x - self.centre) ** 2 + self.prox * ((x - self.point) ** 2).sum()) / 2

    def gradient(self, x):
        return self.weights * (x - self.centre) + self.prox * (x - self.point)

    def least(self, v):
        """Return the minimum of the quadratic + <v, x>; v must be zero where the quadratic is."""
        metric = self.weights + self.prox
        linear = self.weights * self.centre + self.prox * self.point - v
        bowl = metric > 0
        return self(np.zeros_like(v)) - (linear[bowl] ** 2 / metric[bowl]).sum() / 2


def gap_of(rows, n_blocks, quadratic, solution):
    """Return primal value - dual value, the largest half-space, and the scale of the terms, all exact."""
    slopes, x = rows.slopes.astype(np.longdouble), solution.x.astype(np.longdouble)
    values = slopes @ x + rows.offsets
    primal = sum(values[rows.blocks == k].max() for k in range(n_blocks)) + quadratic(x)
    weights = solution.multipliers.astype(np.longdouble)
    dual = weights @ rows.offsets + quadratic.least(weights @ slopes)
    sizes = np.abs(slopes) @ np.abs(x) + np.abs(rows.offsets)
    scale = abs(primal) + sizes.max() + weights @ sizes + quadratic(np.zeros_like(x)) + quadratic(x)
    half_spaces = rows.blocks == HALF_SPACE
    outside = (values[half_spaces] / sizes[half_spaces]).max(initial=-np.inf)
    return float(primal - dual), float(outside), float(scale)


def assert_optimal(rows, n_blocks, quadratic, solution, tolerance=1e-12):
    assert solution.status is MasterStatus.SOLVED, solution.message
    assert (solution.multipliers >= 0).all()
    for k in range(n_blocks):
        assert solution.multipliers[rows.blocks == k].sum() == pytest.approx(1.0, abs=1e-12)
    gap, outside, scale = gap_of(rows, n_blocks, quadratic, solution)
    assert -1e-13 * scale <= gap <= tolerance * scale
    assert outside <= tolerance


def solve_with_cvxpy(rows, n_blocks, regularizer, stabilization=None, feasible_set=None):
    import cvxpy as cp

    x = cp.Variable(rows.slopes.shape[1])
    inside = feasible_set.cvxpy_form(x) if feasible_set else []
    values = rows.slopes @ x + rows.offsets
    objective = sum(cp.max(values[np.flatnonzero(rows.blocks == k)]) for k in range(n_blocks))
    objective = objective + regularizer.cvxpy_form(x)
    half_spaces = np.flatnonzero(rows.blocks == HALF_SPACE)
    constraints = [values[half_spaces] <= 0] if half_spaces.size else []
    if isinstance(stabilization, Prox):
        objective = objective + stabilization.weight / 2 * cp.sum_squares(x - stabilization.centre)
    if isinstance(stabilization, Level):
        constraints.append(objective <= stabilization.level)
        objective = cp.sum_squares(x - stabilization.centre) / 2
    problem = cp.Problem(cp.Minimize(objective), constraints + inside)
    problem.solve(solver="CLARABEL")
    return problem.value, x.value


WEIGHTS = np.array([1.0, 0.5, 2.0, 0.1, 1.0, 3.0])
CENTRE = np.array([1.0, -2.0, 0.0, 0.5, 0.0, 3.0])
PROX = Prox(np.array([0.3, -1.0, 2.0, 0.0, 0.1, -0.4]), 0.7)
LOOSE = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 0.0])

KINDS = {
    "l2": (L2(0.3), None),
    "centred": (L2(0.3, centre=CENTRE), None),
    "diagonal": (L2(0.5, weights=WEIGHTS, centre=CENTRE), None),
    "bias": (L2(0.3, weights=LOOSE), None),
    "diagonal with bias": (L2(0.3, weights=WEIGHTS * LOOSE, centre=CENTRE), None),
    "prox": (NoRegularizer(), PROX),
    "l2 and prox": (L2(0.3, centre=CENTRE), PROX),
    "diagonal and prox": (L2(0.3, weights=WEIGHTS), PROX),
    "bias and prox": (L2(0.3, weights=LOOSE), PROX),
    "diagonal with bias and prox": (L2(0.3, weights=WEIGHTS * LOOSE), PROX),
}


@pytest.mark.parametrize("half_spaces", [0, 8])
@pytest.mark.parametrize("n_blocks", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_agrees_with_cvxpy_and_closes_the_gap(kind, n_blocks, half_spaces):
    regularizer, stabilization = KINDS[kind]
    rng = np.random.default_rng(7)
    for count in (30, 90):
        rows = random_rows(rng, count, 6, n_blocks, half_spaces)
        solution = master_for(regularizer, 6, n_blocks).solve(rows, stabilization)
        quadratic = Quadratic.of(regularizer, 6, stabilization)
        assert_optimal(rows, n_blocks, quadratic, solution)
        value, x = solve_with_cvxpy(rows, n_blocks, regularizer, stabilization)
        values = rows.slopes @ solution.x + rows.offsets
        mine = sum(values[rows.blocks == k].max() for k in range(n_blocks)) + quadratic(solution.x)
        assert float(mine) == pytest.approx(value, rel=1e-7, abs=1e-7)
        np.testing.assert_allclose(solution.x, x, atol=1e-4)


def enumerate_active_sets(rows, n_blocks, quadratic):
    """Return the minimiser by trying every set of active rows."""
    count, dim = rows.slopes.shape
    groups = np.array([rows.blocks == k for k in range(n_blocks)], dtype=float)
    best, winner = np.inf, None
    for size in range(n_blocks, min(count, dim + n_blocks) + 1):
        for active in map(list, itertools.combinations(range(count), size)):
            slopes, sums = rows.slopes[active], groups[:, active]
            # unknowns x, heights of the blocks, multipliers
            n = dim + n_blocks + size
            system, right = np.zeros((n, n)), np.zeros(n)
            system[:dim, :dim] = np.diag((quadratic.weights + quadratic.prox).astype(float))
            system[:dim, dim + n_blocks :] = slopes.T
            system[dim : dim + n_blocks, dim + n_blocks :] = sums
            system[dim + n_blocks :, :dim] = slopes
            system[dim + n_blocks :, dim : dim + n_blocks] = -sums.T
            right[:dim] = (quadratic.weights * quadratic.centre + quadratic.prox * quadratic.point).astype(
                float
            )
            right[dim : dim + n_blocks] = 1.0
            right[dim + n_blocks :] = -rows.offsets[active]
            answer = np.linalg.lstsq(system, right, rcond=None)[0]
            if np.abs(system @ answer - right).max() > 1e-9 or answer[dim + n_blocks :].min() < -1e-9:
                continue
            values = rows.slopes @ answer[:dim] + rows.offsets
            if values[rows.blocks == HALF_SPACE].max(initial=-1.0) > 1e-9:
                continue
            height = sum(values[rows.blocks == k].max() for k in range(n_blocks))
            value = height + float(quadratic(answer[:dim]))
            if value < best:
                best, winner = value, answer[:dim]
    return winner


@pytest.mark.parametrize("kind", ["l2", "diagonal", "bias", "l2 and prox"])
@pytest.mark.parametrize(("n_blocks", "half_spaces"), [(1, 0), (1, 2), (2, 0), (2, 1)])
def test_finds_the_best_active_set(kind, n_blocks, half_spaces):
    regularizer, stabilization = KINDS[kind]
    rng = np.random.default_rng(3)
    found = 0
    for _ in range(4):
        rows = random_rows(rng, 6, 6, n_blocks, half_spaces)
        solution = master_for(regularizer, 6, n_blocks).solve(rows, stabilization)
        expected = enumerate_active_sets(rows, n_blocks, Quadratic.of(regularizer, 6, stabilization))
        if solution.status is MasterStatus.UNBOUNDED:
            assert expected is None
            continue
        np.testing.assert_allclose(solution.x, expected, atol=1e-7)
        found += 1
    assert found >= 2


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(1, 60),
    dim=st.integers(1, 20),
    n_blocks=st.sampled_from([1, 1, 3]),
    half_spaces=st.integers(0, 10),
    log_lam=st.floats(-8, 4),
    log_scale=st.floats(-3, 3),
    prox=st.booleans(),
    degenerate=st.booleans(),
)
def test_optimality_conditions(seed, count, dim, n_blocks, half_spaces, log_lam, log_scale, prox, degenerate):
    rng = np.random.default_rng(seed)
    rows = random_rows(rng, max(count, n_blocks), dim, n_blocks, half_spaces, 10.0**log_scale)
    if degenerate:
        cuts = np.flatnonzero(rows.blocks == 0)
        rows.slopes[cuts[1:4]], rows.offsets[cuts[1:4]] = rows.slopes[cuts[0]], rows.offsets[cuts[0]]
        rows.slopes[cuts[4:6]] = (1 + 1e-9) * rows.slopes[cuts[0]]
        rows.slopes[cuts[6:8]] = 0.0
    regularizer = L2(10.0**log_lam, centre=rng.standard_normal(dim))
    stabilization = Prox(rng.standard_normal(dim), 10.0 ** rng.uniform(-3, 3)) if prox else None
    solution = master_for(regularizer, dim, n_blocks).solve(rows, stabilization)
    quadratic = Quadratic.of(regularizer, dim, stabilization)
    assert_optimal(rows, n_blocks, quadratic, solution)
    weights, x = solution.multipliers, solution.x
    terms = [weights @ np.abs(rows.slopes), np.abs(regularizer.lam * regularizer.centre)]
    if prox:
        terms.append(stabilization.weight * (np.abs(x) + np.abs(stabilization.centre)))
    residual = np.abs(np.asarray(weights @ rows.slopes + quadratic.gradient(x), dtype=float))
    assert (residual <= 1e-11 * (sum(terms) + regularizer.lam * np.abs(x))).all()
    values = rows.slopes @ x + rows.offsets
    sizes = np.abs(rows.slopes) @ np.abs(x) + np.abs(rows.offsets)
    heights = np.array([values[rows.blocks == k].max() for k in range(n_blocks)] + [0.0])[rows.blocks]
    slack = weights * (heights - values)
    scale = gap_of(rows, n_blocks, quadratic, solution)[2]
    assert (np.abs(slack) <= 1e-11 * (weights * sizes + scale)).all()


DEGENERATE = {
    "one row": (np.ones((1, 4)), [2.0]),
    "one zero row": (np.zeros((1, 4)), [2.0]),
    "zero rows": (np.zeros((5, 4)), [1.0, 3.0, 2.0, 3.0, 3.0]),
    "five times the same": (np.tile([1.0, -2.0, 0.5, 3.0], (5, 1)), np.full(5, 0.7)),
    "same slope, other offsets": (np.tile([1.0, -2.0, 0.5, 3.0], (5, 1)), np.arange(5.0)),
    "opposite": ([[1.0, 0, 0, 0], [-1.0, 0, 0, 0], [0, 1.0, 0, 0], [0, -1.0, 0, 0]], [0.0, 0, 0, 0]),
    "on a line": (np.outer(np.linspace(-1, 1, 41), [1.0, 2, 3, 4]), np.linspace(-1, 1, 41) ** 2),
    "more rows than dimensions": (np.vander(np.linspace(-1, 1, 200), 4), -(np.linspace(-1, 1, 200) ** 2)),
    "nearly the same": (1.0 + 1e-7 * np.vander(np.linspace(-1, 1, 30), 4), 1e-7 * np.linspace(-1, 1, 30)),
    "norms from 1e-8 to 1e8": (
        np.logspace(-8, 8, 17)[:, None] * np.vander(np.linspace(-1, 1, 17), 4),
        np.ones(17),
    ),
}


@pytest.mark.parametrize("lam", [1e-8, 1.0, 1e4])
@pytest.mark.parametrize("case", DEGENERATE)
def test_degenerate_rows(case, lam):
    rows = make_rows(*DEGENERATE[case])
    solution = master_for(L2(lam), 4).solve(rows)
    assert_optimal(rows, 1, Quadratic.of(L2(lam), 4), solution)


@pytest.mark.parametrize("lam", [1e-8, 1e-4, 1.0, 1e4])
@pytest.mark.parametrize("scale", [1e-8, 1e-3, 1e3, 1e8])
def test_a_change_of_units_changes_nothing_but_the_units(scale, lam):
    rng = np.random.default_rng(5)
    plain = random_rows(rng, 30, 12)
    solution = master_for(L2(lam), 12).solve(plain)
    # f(x) = scale * f0(x / unit), g likewise
    for unit in (1e-4, 1e4):
        rows = make_rows(scale / unit * plain.slopes, scale * plain.offsets)
        regularizer = L2(scale * lam / unit**2)
        scaled = master_for(regularizer, 12).solve(rows)
        assert_optimal(rows, 1, Quadratic.of(regularizer, 12), scaled)
        np.testing.assert_allclose(
            scaled.x / unit, solution.x, rtol=1e-7, atol=1e-9 * np.abs(solution.x).max()
        )


def sequence(rng, dim, n_blocks, steps):
    """Yield pools of rows that grow and shrink."""
    everything = random_rows(rng, 6 * steps, dim, n_blocks, steps)
    order = np.argsort(np.concatenate([np.arange(6 * steps), 6 * np.arange(steps) + 3]), kind="stable")
    kept = np.empty(0, dtype=np.int64)
    position = 0
    for step in range(steps):
        new = np.arange(position, position + 6)
        position += 6
        if step % 3 == 2:
            survivors = rng.random(kept.size) < 0.6
            kept = kept[survivors]
        kept = np.concatenate([kept, new])
        chosen = order[kept]
        rows = everything.take(chosen)
        if all((rows.blocks == k).any() for k in range(n_blocks)):
            yield Rows(rows.slopes, rows.offsets, rows.blocks, kept.copy())


@pytest.mark.parametrize("n_blocks", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_warm_sequences_equal_cold_solves(kind, n_blocks):
    regularizer, stabilization = KINDS[kind]
    master = master_for(regularizer, 6, n_blocks)
    rng = np.random.default_rng(11)
    solved = 0
    for rows in sequence(rng, 6, n_blocks, 25):
        if stabilization is not None:
            stabilization = Prox(rng.standard_normal(6), 10.0 ** rng.uniform(-2, 2))
        warm = master.solve(rows, stabilization)
        cold = master_for(regularizer, 6, n_blocks).solve(rows, stabilization)
        assert warm.status is cold.status
        if warm.status is MasterStatus.SOLVED:
            solved += 1
            assert_optimal(rows, n_blocks, Quadratic.of(regularizer, 6, stabilization), warm)
            np.testing.assert_allclose(warm.x, cold.x, atol=1e-9)
    assert solved >= 12


@pytest.mark.parametrize(
    "weights", [None, LOOSE, WEIGHTS, WEIGHTS * LOOSE], ids=["equal", "bias", "any", "any, bias"]
)
def test_one_master_takes_every_stabilization_in_turn(weights):
    rng = np.random.default_rng(2)
    regularizer = L2(0.1, weights=weights)
    master = master_for(regularizer, 6)
    rows = random_rows(rng, 40, 6)
    for stabilization in (None, Prox(np.ones(6), 3.0), None, Prox(np.ones(6), 1e-3), PROX, PROX, None):
        solution = master.solve(rows, stabilization)
        assert_optimal(rows, 1, Quadratic.of(regularizer, 6, stabilization), solution)


def test_a_prox_centre_may_be_changed_in_place():
    rows = random_rows(np.random.default_rng(19), 20, 6)
    master = master_for(NoRegularizer(), 6)
    centre = np.ones(6)
    for _ in range(3):
        solution = master.solve(rows, Prox(centre, 0.5))
        assert_optimal(rows, 1, Quadratic.of(NoRegularizer(), 6, Prox(centre, 0.5)), solution)
        centre += 1.0


def test_accuracy_is_kept():
    rng = np.random.default_rng(4)
    rows = random_rows(rng, 200, 30)
    quadratic = Quadratic.of(L2(1e-2), 30)
    for accuracy in (1e-1, 1e-3, 1e-6):
        solution = master_for(L2(1e-2), 30).solve(rows, None, accuracy)
        gap = gap_of(rows, 1, quadratic, solution)[0]
        assert 0 <= gap <= accuracy


@pytest.mark.parametrize("case", ["fortran", "read-only", "float32"])
def test_rows_of_any_layout_are_taken_and_left_alone(case):
    rows = random_rows(np.random.default_rng(0), 20, 5)
    expected = master_for(L2(0.1), 5).solve(rows).x
    slopes = {"fortran": np.asfortranarray, "float32": np.float32}.get(case, np.copy)(rows.slopes)
    slopes.flags.writeable = rows.offsets.flags.writeable = False
    before = slopes.copy()
    solution = master_for(L2(0.1), 5).solve(Rows(slopes, rows.offsets, rows.blocks, rows.ids))
    np.testing.assert_allclose(solution.x, expected, rtol=1e-5 if case == "float32" else 1e-10)
    np.testing.assert_array_equal(slopes, before)


# ------------------------------------------------------------------ unregularised coordinates


@pytest.mark.parametrize("lam", [1e-6, 1e-2, 1e2])
@pytest.mark.parametrize("n_free", [1, 3])
def test_slopes_vanish_on_unregularised_coordinates(n_free, lam):
    rng = np.random.default_rng(8)
    weights = np.r_[np.ones(10), np.zeros(n_free)]
    regularizer = L2(lam, weights=weights)
    master = master_for(regularizer, 10 + n_free)
    everything = random_rows(rng, 80, 10 + n_free, half_spaces=5)
    everything.slopes[:, 10:] *= 30.0
    for count in range(20, 86, 5):
        rows = everything.take(np.arange(count))
        solution = master.solve(rows)
        assert_optimal(rows, 1, Quadratic.of(regularizer, 10 + n_free), solution)
        slope = solution.multipliers @ rows.slopes[:, 10:]
        size = solution.multipliers @ np.abs(rows.slopes[:, 10:])
        assert (np.abs(slope) <= 1e-14 * size).all()


@pytest.mark.parametrize("distance", [1.0, 1e4, 1e8])
def test_an_unregularised_coordinate_can_be_far_away(distance):
    """The minimum of max(-b, b - 2 distance) + g lies at b = distance, whatever the other slopes."""
    rows = make_rows([[1e-3, -1.0], [2e-3, 1.0]], [0.0, -2.0 * distance])
    regularizer = L2(1.0, weights=[1.0, 0.0])
    solution = master_for(regularizer, 2).solve(rows)
    assert_optimal(rows, 1, Quadratic.of(regularizer, 2), solution)
    np.testing.assert_allclose(solution.multipliers, 0.5, rtol=1e-12)
    assert solution.x[1] == pytest.approx(distance, rel=1e-6)


def test_an_unregularised_coordinate_can_be_unbounded_until_a_cut_opposes():
    regularizer = L2(1.0, weights=[1.0, 0.0])
    master = master_for(regularizer, 2)
    everything = make_rows([[1.0, 1.0], [2.0, 0.5], [0.0, -1.0]], [0.0, 1.0, 0.0])
    for count, status in ((1, MasterStatus.UNBOUNDED), (2, MasterStatus.UNBOUNDED), (3, MasterStatus.SOLVED)):
        solution = master.solve(everything.take(np.arange(count)))
        assert solution.status is status
        assert (solution.x is None) == (status is not MasterStatus.SOLVED)
    assert_optimal(everything, 1, Quadratic.of(regularizer, 2), solution)
    assert master.solve(everything.take(np.arange(2))).status is MasterStatus.UNBOUNDED


def test_a_half_space_can_bound_an_unregularised_coordinate():
    regularizer = L2(1.0, weights=[1.0, 0.0])
    rows = make_rows([[1.0, 1.0], [0.0, -2.0]], [0.0, 6.0], [0, HALF_SPACE])
    solution = master_for(regularizer, 2).solve(rows)
    np.testing.assert_allclose(solution.x, [-1.0, 3.0], atol=1e-12)
    np.testing.assert_allclose(solution.multipliers, [1.0, 0.5], atol=1e-12)


# ------------------------------------------------------------------------------------- levels


@pytest.mark.parametrize("half_spaces", [0, 6])
@pytest.mark.parametrize("n_blocks", [1, 3])
@pytest.mark.parametrize("regularizer", [NoRegularizer(), L2(0.3, centre=CENTRE)], ids=["none", "l2"])
def test_projection_on_a_level_set(regularizer, n_blocks, half_spaces):
    rng = np.random.default_rng(13)
    master = master_for(regularizer, 6, n_blocks)
    quadratic = Quadratic.of(regularizer, 6)
    rows = random_rows(rng, 40, 6, n_blocks, half_spaces)
    low = master.solve(rows, Prox(np.zeros(6), 1e-3)).x

    def height(x):
        values = rows.slopes @ x + rows.offsets
        return float(sum(values[rows.blocks == k].max() for k in range(n_blocks)) + quadratic(x))

    for share in (0.01, 0.3, 0.9):
        centre = 3.0 * rng.standard_normal(6)
        level = height(low) + share * abs(height(centre) - height(low))
        solution = master.solve(rows, Level(centre, level))
        value, x = solve_with_cvxpy(rows, n_blocks, regularizer, Level(centre, level))
        assert 0.5 * ((solution.x - centre) ** 2).sum() == pytest.approx(value, rel=1e-6, abs=1e-8)
        np.testing.assert_allclose(solution.x, x, atol=1e-4)
        assert height(solution.x) <= level + 1e-12 * (1 + abs(level) + abs(height(centre)))
        assert ((rows.slopes @ solution.x + rows.offsets)[rows.blocks == HALF_SPACE] <= 1e-12).all()
        weights = solution.multipliers
        totals = [weights[rows.blocks == k].sum() for k in range(n_blocks)]
        np.testing.assert_allclose(totals, totals[0], rtol=1e-10)
        gradient = np.asarray(totals[0] * quadratic.gradient(solution.x), dtype=float)
        np.testing.assert_allclose(centre - solution.x, weights @ rows.slopes + gradient, atol=1e-9)


def test_a_centre_below_the_level_is_its_own_projection():
    rows = make_rows([[1.0, 0.0], [-1.0, 0.0]], [0.0, 0.0])
    centre = np.array([0.5, 2.0])
    solution = master_for(NoRegularizer(), 2).solve(rows, Level(centre, 0.5))
    np.testing.assert_array_equal(solution.x, centre)
    assert not solution.multipliers.any()


def test_half_spaces_alone_can_move_the_centre():
    rows = make_rows([[1.0, 0.0], [0.0, 1.0]], [0.0, 1.0], [0, HALF_SPACE])
    solution = master_for(NoRegularizer(), 2).solve(rows, Level(np.array([0.5, 2.0]), 1.0))
    np.testing.assert_allclose(solution.x, [0.5, -1.0], atol=1e-12)


@pytest.mark.parametrize("centre", [[0.0, 0.0], [3.0, 1.0], [1e6, 1e-6]])
@pytest.mark.parametrize("depth", [1e-6, 1e-3, 1.0, 1e6])
def test_a_level_below_the_model_is_infeasible(centre, depth):
    rows = make_rows([[1.0, 2.0], [-1.0, -2.0], [0.5, -1.0], [-0.5, 1.0]], [0.0, 0.0, 0.0, 0.0])
    master = master_for(NoRegularizer(), 2)
    solution = master.solve(rows, Level(np.array(centre), -depth))
    assert solution.status is MasterStatus.INFEASIBLE
    above = master.solve(rows, Level(np.array([3.0, 1.0]), depth))
    assert above.status is MasterStatus.SOLVED
    assert (rows.slopes @ above.x + rows.offsets).max() <= depth + 1e-13


def test_levels_that_close_in_on_the_minimum_are_met():
    rng = np.random.default_rng(21)
    rows = make_rows(
        np.vstack([rng.standard_normal((30, 5)), np.eye(5), -np.eye(5)]), rng.standard_normal(40)
    )
    least, _ = solve_with_cvxpy(rows, 1, L2(0.0))
    master = master_for(NoRegularizer(), 5)
    centre = np.full(5, 3.0)
    for share in 10.0 ** -np.arange(8):
        solution = master.solve(rows, Level(centre, least + share))
        assert solution.status is MasterStatus.SOLVED
        assert (rows.slopes @ solution.x + rows.offsets).max() <= least + share + 1e-12


# ------------------------------------------------------------------------------- feasible sets

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


def height(rows, n_blocks, quadratic, x):
    values = rows.slopes @ x + rows.offsets
    return float(sum(values[rows.blocks == k].max() for k in range(n_blocks)) + quadratic(x))


def assert_inside(rows, feasible_set, x):
    assert feasible_set.violation(x) <= 1e-12
    half_spaces = rows.blocks == HALF_SPACE
    assert ((rows.slopes @ x + rows.offsets)[half_spaces] <= 1e-11).all()


@pytest.mark.parametrize(("n_blocks", "half_spaces"), [(1, 0), (3, 2)])
@pytest.mark.parametrize("kind", BOUNDED_KINDS)
@pytest.mark.parametrize("name", SETS)
def test_feasible_sets_agree_with_cvxpy(name, kind, n_blocks, half_spaces):
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


@settings(max_examples=120, deadline=None)
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


# ------------------------------------------------------------------------------ what can go wrong


@pytest.mark.parametrize(
    "stabilization", [None, PROX, Level(np.zeros(6), 1.0)], ids=["none", "prox", "level"]
)
@pytest.mark.parametrize("distance", [1e-6, 1.0, 1e6])
def test_half_spaces_without_a_common_point(distance, stabilization):
    normal = np.array([1.0, -2.0, 0.5, 3.0, 0.0, 1.0])
    rows = make_rows(
        [np.ones(6), normal, -5.0 * normal], [0.0, distance, 5.0 * (1.0 - 1.0 + distance)], [0, -1, -1]
    )
    solution = master_for(L2(0.5), 6).solve(rows, stabilization)
    assert solution.status is MasterStatus.INFEASIBLE
    assert solution.x is None


def test_a_false_half_space():
    rows = make_rows([[1.0, 1.0], [0.0, 0.0]], [0.0, 1.0], [0, HALF_SPACE])
    assert master_for(L2(1.0), 2).solve(rows).status is MasterStatus.INFEASIBLE
    rows = make_rows([[1.0, 1.0], [0.0, 0.0]], [0.0, -1.0], [0, HALF_SPACE])
    np.testing.assert_allclose(master_for(L2(1.0), 2).solve(rows).x, [-1.0, -1.0])


@pytest.mark.parametrize("n_blocks", [1, 2])
def test_a_block_without_a_cut_is_unbounded(n_blocks):
    rows = random_rows(np.random.default_rng(0), 4, 3, 1, 4)
    only = rows.take(np.flatnonzero(rows.blocks == (HALF_SPACE if n_blocks == 1 else 0)))
    assert master_for(L2(1.0), 3, n_blocks).solve(only).status is MasterStatus.UNBOUNDED
    assert master_for(L2(1.0), 3).solve(rows.take(np.arange(0))).status is MasterStatus.UNBOUNDED


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])
def test_numbers_that_are_not_finite_fail_and_are_forgotten(bad):
    rng = np.random.default_rng(1)
    good = random_rows(rng, 10, 3)
    master = master_for(L2(0.1), 3)
    expected = master.solve(good).x
    for spoil in ("slope", "offset", "centre"):
        rows = Rows(
            np.vstack([good.slopes, np.ones(3)]), np.r_[good.offsets, 0.0], np.zeros(11, int), np.arange(11)
        )
        stabilization = None
        if spoil == "slope":
            rows.slopes[10, 1] = bad
        elif spoil == "offset":
            rows.offsets[10] = bad
        else:
            stabilization = Prox(np.array([0.0, bad, 0.0]), 1.0)
        solution = master.solve(rows, stabilization)
        if not (bad == 1e200 and spoil != "slope"):
            assert solution.status is MasterStatus.FAILED
            assert solution.message
        if solution.x is not None:
            assert np.isfinite(solution.x).all()
        np.testing.assert_allclose(master.solve(good).x, expected, atol=1e-9)


@pytest.mark.parametrize(
    ("regularizer", "feasible_set", "stabilization", "reason"),
    [
        (L2(1.0), WholeSpace(), None, None),
        (L2(1.0, weights=LOOSE), WholeSpace(), None, None),
        (L2(1.0), WholeSpace(), Prox, None),
        (L2(1.0), WholeSpace(), Level, None),
        (NoRegularizer(), WholeSpace(), Prox, None),
        (NoRegularizer(), WholeSpace(), Level, None),
        (L2(1.0), Box(-np.inf, np.inf), None, None),
        (L2(1.0, weights=LOOSE), WholeSpace(), Level, "weights are all equal"),
        (NoRegularizer(), WholeSpace(), None, "neither a quadratic regularizer nor a prox term"),
        (L2(0.0), WholeSpace(), None, "neither a quadratic regularizer nor a prox term"),
        (L2(1.0), Box(0.0, np.inf), None, None),
        (L2(1.0), Simplex(), Level, None),
        (L2(1.0, weights=LOOSE), Simplex(), Prox, None),
        (L2(1.0, weights=LOOSE), Simplex(), None, "a coordinate without weight"),
        (NoRegularizer(), Simplex(), None, "neither a quadratic regularizer nor a prox term"),
        (L1(1.0), WholeSpace(), Prox, "not a diagonal quadratic"),
        (L2(1.0), L2Ball(1.0), None, "not a polyhedron"),
        (L2(1.0), Polyhedron(np.ones((500, 6)), np.ones(500)), None, "not a polyhedron with at most"),
    ],
)
def test_refusal(regularizer, feasible_set, stabilization, reason):
    answer = SimplexQP.refusal(ReducedProblem(6, 1, regularizer, feasible_set.resolve(6)), stabilization)
    assert answer is None if reason is None else reason in answer


# -------------------------------------------------------------------------------------- kernels


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), dim=st.integers(1, 40))
def test_the_gram_matrix_follows_its_rows_and_its_metric(seed, dim):
    rng = np.random.default_rng(seed)
    slopes = rng.standard_normal((0, dim))
    gram = Gram(rng.random(dim))
    for _ in range(30):
        action = rng.integers(3)
        if action == 0 or not len(slopes):
            new = rng.standard_normal((rng.integers(1, 4), dim)) * 10.0 ** rng.integers(-4, 5, (1, dim))
            slopes = np.vstack([slopes, new])
            gram.extend(slopes, len(slopes) - len(new))
        elif action == 1:
            metric = gram.metric.copy()
            changed = rng.random(dim) < rng.choice([0.1, 0.5])
            metric[changed] = rng.random(changed.sum()) * (rng.random(changed.sum()) < 0.5)
            gram.change(metric, slopes)
        else:
            kept = np.flatnonzero(rng.random(len(slopes)) < 0.8)
            slopes = slopes[kept]
            gram.keep(kept)
        exact = (slopes * gram.metric) @ slopes.T
        lengths = np.sqrt(exact.diagonal())
        error = np.abs(gram.matrix[: len(slopes), : len(slopes)] - exact)
        assert (error <= 1e-10 * np.outer(lengths, lengths)).all()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n_groups=st.integers(0, 3))
def test_the_factor_follows_its_free_variables(seed, n_groups):
    rng = np.random.default_rng(seed)
    count = 12
    slopes = rng.standard_normal((count, 20))
    hessian = slopes @ slopes.T
    group = rng.integers(-1, n_groups, count)
    factor, sums = np.zeros((count, count)), np.zeros((count, n_groups))
    free, where = np.zeros(count, np.int64), np.full(count, -1)
    n_free = 0
    for _ in range(40):
        outside = np.flatnonzero(where < 0)
        if n_free == 0 or (outside.size and rng.random() < 0.6):
            j = int(rng.choice(outside))
            n_free = active_set.append(hessian, group, 2.0, factor, sums, free, where, n_free, j)
        else:
            n_free = active_set.delete(factor, sums, free, where, n_free, int(rng.integers(n_free)))
        chosen = free[:n_free]
        np.testing.assert_array_equal(where[chosen], np.arange(n_free))
        assert (where >= 0).sum() == n_free
        indicator = (group[chosen][:, None] == np.arange(n_groups)).astype(float)
        triangle = np.triu(factor[:n_free, :n_free])
        expected = hessian[np.ix_(chosen, chosen)] + 2.0 * indicator @ indicator.T
        np.testing.assert_allclose(triangle.T @ triangle, expected, atol=1e-9)
        np.testing.assert_allclose(triangle.T @ sums[:n_free], indicator, atol=1e-9)
        if n_free and all((group[chosen] == k).any() for k in range(n_groups)):
            gradient = rng.standard_normal(n_free)
            step = gradient.copy()
            active_set.newton(factor, sums, n_free, step)
            kkt = np.block(
                [[hessian[np.ix_(chosen, chosen)], indicator], [indicator.T, np.zeros((n_groups, n_groups))]]
            )
            exact = np.linalg.solve(kkt, np.r_[gradient, np.zeros(n_groups)])[:n_free]
            np.testing.assert_allclose(step, exact, atol=1e-6 * (1 + np.abs(exact).max()))

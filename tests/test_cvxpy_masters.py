"""Reduced problems with few rows go to cvxpy through their dual, and give the same answer."""

from types import SimpleNamespace

import numpy as np
import pytest

import cutplane as cut
from cutplane.masters.base import HALF_SPACE, Prox, ReducedProblem
from cutplane.masters.conic.cvxpy import CvxpyMaster, _respects_half_spaces
from cutplane.masters.lp.highs import HighsMaster
from cutplane.masters.qp.simplex_qp import SimplexQP

SLOPES = np.array([[1.0, -2.0, 0.5, 0.0, 1.0], [-1.0, 1.0, 0.0, 2.0, -0.5], [1.0, 1.0, 1.0, 1.0, 1.0]])
ROWS = SimpleNamespace(
    slopes=SLOPES, offsets=np.array([0.5, 0.25, -0.75]), blocks=np.array([0, 0, HALF_SPACE]), ids=np.arange(3)
)
CENTRE = np.array([0.5, -1.0, 2.0, 0.25, 1.0])


@pytest.mark.parametrize(
    ("regularizer", "stabilization"),
    [
        (cut.L2(0.5), None),
        (cut.L2(0.5, centre=CENTRE), None),
        (cut.L2(0.5, weights=[1, 2, 3, 4, 5], centre=CENTRE), Prox(CENTRE[::-1].copy(), 0.25)),
        (cut.L2(0.5, weights=[1, 0, 3, 0, 5]), Prox(CENTRE, 2.0)),
        (cut.NoRegularizer(), Prox(CENTRE, 2.0)),
    ],
    ids=repr,
)
def test_definite_quadratics_are_solved_by_their_dual(monkeypatch, regularizer, stabilization):
    reduced = ReducedProblem(5, 1, regularizer, cut.WholeSpace(5))
    master = CvxpyMaster(reduced, "clarabel")
    monkeypatch.setattr(master.primal, "solve", None)
    found, wanted = master.solve(ROWS, stabilization), SimplexQP(reduced).solve(ROWS, stabilization)
    assert found.x == pytest.approx(wanted.x, abs=1e-6)
    assert found.multipliers == pytest.approx(wanted.multipliers, abs=1e-6)


@pytest.mark.parametrize(
    ("regularizer", "simple_set", "stabilization"),
    [
        (cut.L2(0.5, weights=[1, 0, 3, 0, 5]), cut.Box(-9, 9, dim=5), None),
        (cut.L2(0.5), cut.Box(-9, 9, dim=5), None),
        (cut.L1(0.5), cut.WholeSpace(5), Prox(CENTRE, 2.0)),
    ],
    ids=repr,
)
def test_others_are_solved_as_they_are(monkeypatch, regularizer, simple_set, stabilization):
    master = CvxpyMaster(ReducedProblem(5, 1, regularizer, simple_set), "clarabel")
    monkeypatch.setattr(master.dual, "solve", None)
    assert master.solve(ROWS, stabilization).x is not None


def test_every_half_space_must_hold():
    rows = SimpleNamespace(
        slopes=np.array([[1.0, 0.0], [0.0, 1.0]]), offsets=-np.ones(2), blocks=np.full(2, HALF_SPACE)
    )
    assert _respects_half_spaces(rows, np.array([1.0, 1.0]))
    assert not _respects_half_spaces(rows, np.array([0.0, 2.0]))
    assert not _respects_half_spaces(rows, np.array([2.0, 0.0]))


def random_rows(count, unit, seed=0):
    """Cuts of two blocks and steep half-spaces around zero, of a problem in this unit of x."""
    rng = np.random.default_rng(seed)
    slopes, blocks = rng.standard_normal((count, 3)), np.arange(count) % 3 - 1
    half_spaces = blocks == HALF_SPACE
    slopes[half_spaces] *= 16.0
    offsets = np.where(
        half_spaces, -16.0 * unit * (1.0 + rng.random(count)), unit * rng.standard_normal(count)
    )
    return SimpleNamespace(slopes=slopes, offsets=offsets, blocks=blocks, ids=np.arange(count))


@pytest.mark.parametrize("unit", [1.0, 2.0**18, 2.0**-12])
@pytest.mark.parametrize("stabilised", [False, True])
def test_a_pool_that_grows_and_shrinks_gives_the_answers_of_fresh_masters(unit, stabilised):
    reduced = ReducedProblem(3, 2, cut.L1(0.25), cut.Box(-2.0 * unit, 2.0 * unit, dim=3))
    living = CvxpyMaster(reduced, "clarabel")
    every = random_rows(60, unit)
    for first, last in ((0, 6), (0, 12), (3, 30), (3, 31), (20, 60), (40, 60)):
        rows = SimpleNamespace(**{name: values[first:last] for name, values in vars(every).items()})
        stabilization = Prox(np.full(3, 0.5 * unit), 1.0 / unit) if stabilised and last != 31 else None
        found = living.solve(rows, stabilization)
        wanted = CvxpyMaster(reduced, "clarabel").solve(rows, stabilization)
        assert found.x == pytest.approx(wanted.x, abs=2e-5 * unit)
        heights = rows.slopes @ found.x + rows.offsets
        assert heights[rows.blocks == HALF_SPACE].max() <= 1e-5 * unit
        if stabilization is None:
            exact = HighsMaster(reduced).solve(rows)
            assert model(rows, found.x) == pytest.approx(model(rows, exact.x), abs=1e-6 * unit)
        for block in range(2):
            assert found.multipliers[rows.blocks == block].sum() == pytest.approx(1.0, abs=1e-5)
        v = found.multipliers @ rows.slopes
        if stabilization is not None:
            v = v + stabilization.weight * (found.x - stabilization.centre)
        inside = (np.abs(found.x) < 1.99 * unit) & (np.abs(found.x) > 1e-3 * unit)
        assert v[inside] == pytest.approx(-0.25 * np.sign(found.x[inside]), abs=1e-3)


def model(rows, x):
    heights = rows.slopes @ x + rows.offsets
    return sum(heights[rows.blocks == block].max() for block in range(2)) + 0.25 * np.abs(x).sum()


@pytest.mark.parametrize("steepness", [2.0**-9, 1.0, 2.0**9])
def test_steep_half_spaces_in_the_dual_form(steepness):
    reduced = ReducedProblem(5, 1, cut.L2(0.5), cut.WholeSpace(5))
    slopes = SLOPES * np.array([[1.0], [1.0], [steepness]])
    rows = SimpleNamespace(
        slopes=slopes,
        offsets=np.array([0.5, 0.25, 6.0 * steepness]),
        blocks=ROWS.blocks,
        ids=ROWS.ids,
    )
    found, wanted = CvxpyMaster(reduced, "clarabel").solve(rows), SimplexQP(reduced).solve(rows)
    assert wanted.multipliers[2] > 0.0
    assert found.x == pytest.approx(wanted.x, abs=1e-6)
    assert found.multipliers == pytest.approx(wanted.multipliers, rel=1e-4, abs=1e-6)


def test_osqp_is_updated_without_a_false_answer():
    """The sides of an equation that changes by rounding errors are passed on together."""
    reduced = ReducedProblem(5, 1, cut.L2(0.5), cut.WholeSpace(5))
    master = CvxpyMaster(reduced, "osqp")
    for scale in (1.0, 1.0 + 2.0**-40, 3.0, 1e-3):
        rows = SimpleNamespace(slopes=SLOPES, offsets=scale * ROWS.offsets, blocks=ROWS.blocks, ids=ROWS.ids)
        found, wanted = master.solve(rows), SimplexQP(reduced).solve(rows)
        assert found.x == pytest.approx(wanted.x, abs=1e-5)


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
def test_a_half_space_that_is_active_is_respected_up_to_rounding_of_its_terms(size):
    rows = SimpleNamespace(
        slopes=np.array([[1.0, 0.0]]), offsets=np.array([-size]), blocks=np.array([HALF_SPACE])
    )
    assert _respects_half_spaces(rows, np.array([size * (1.0 + 1e-14), 0.0]))
    assert not _respects_half_spaces(rows, np.array([size * (1.0 + 1e-3), 0.0]))

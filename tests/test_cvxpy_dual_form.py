"""Reduced problems with few rows go to cvxpy through their dual, and give the same answer."""

from types import SimpleNamespace

import numpy as np
import pytest

import cutplane as cut
from cutplane.masters.base import HALF_SPACE, Prox, ReducedProblem
from cutplane.masters.cvxpy import CvxpyMaster, _respects_half_spaces
from cutplane.masters.simplex_qp import SimplexQP

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

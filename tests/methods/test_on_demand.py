"""Oracles of on-demand accuracy: the engine asks for what the gap needs; its bounds hold at any accuracy."""

import math

import cvxpy as cp
import numpy as np
import pytest

import cutplane as cut
from cutplane import (
    BMRM,
    L2,
    OCAS,
    Box,
    Kelley,
    LevelBundle,
    OnDemandRisk,
    Problem,
    ProximalBundle,
    Simplex,
    Status,
)
from cutplane.risks import Estimate
from cutplane.testing import check_risk


class Roughly(OnDemandRisk):
    """max_j <a_j, x> + b_j, answered by the worst j that is allowed and a value in the middle of the rest."""

    def __init__(self, m, dim, seed=0):
        rng = np.random.default_rng(seed)
        self.A, self.b, self.dim = rng.standard_normal((m, dim)), rng.standard_normal(m), dim
        self.asked = []

    def estimate(self, x, accuracy, start=None):
        self.asked.append(accuracy)
        heights = self.A @ x + self.b
        value = heights.max()
        accuracy = min(accuracy, 1.0 + abs(value))
        allowed = np.flatnonzero(heights >= value - 0.5 * accuracy)
        chosen = allowed[np.argmin(heights[allowed])]
        upper = heights[chosen] + accuracy if accuracy > 0.0 else value
        u = np.zeros(self.b.size)
        u[chosen] = 1.0
        return Estimate(np.array([max(upper, value)]), self.A[chosen][np.newaxis], self.b[[chosen]], u)

    def dual_cut(self, u):
        return (u @ self.A)[np.newaxis], np.array([u @ self.b])


PROBLEMS = {
    "simplex": lambda risk: Problem(risk, feasible_set=Simplex()),
    "box": lambda risk: Problem(risk, feasible_set=Box(-2, 2)),
    "ridge": lambda risk: Problem(risk, L2(0.3)),
}
METHODS = [
    ("simplex", Kelley()),
    ("box", Kelley()),
    ("simplex", LevelBundle()),
    ("box", LevelBundle(0.7)),
    ("simplex", ProximalBundle()),
    ("box", ProximalBundle()),
    ("ridge", BMRM()),
    ("ridge", OCAS()),
    ("ridge", ProximalBundle()),
]


def optimum(problem):
    x = cp.Variable(problem.dim)
    risk = problem.risk
    objective = cp.max(risk.A @ x + risk.b) + problem.regularizer.cvxpy_form(x)
    return cp.Problem(cp.Minimize(objective), problem.simple_set.cvxpy_form(x)).solve(solver=cp.CLARABEL)


@pytest.mark.parametrize(("kind", "method"), METHODS, ids=str)
@pytest.mark.parametrize("seed", [0, 1])
def test_rough_answers_lead_to_the_optimum(kind, method, seed):
    rough = Roughly(40, 5, seed)
    problem = PROBLEMS[kind](rough)
    best = optimum(problem)
    result = problem.solve(method, tol=1e-6)
    assert result.status is Status.OPTIMAL, result.reason
    assert result.lower_bound - 1e-7 <= best <= result.objective + 1e-7
    assert rough.asked[0] == math.inf and 0.0 < min(rough.asked) < rough.asked[1]
    assert result.certificate.verify().valid


@pytest.mark.parametrize(("kind", "method"), METHODS[::2], ids=str)
def test_bounds_enclose_the_optimum_at_each_step(kind, method):
    problem = PROBLEMS[kind](Roughly(40, 5, 3))
    best = optimum(problem)
    for state in problem.iterate(method, tol=1e-6):
        assert state.lower_bound - 1e-7 <= best <= state.upper_bound + 1e-7


def test_cuts_are_reused_and_survive_a_file(tmp_path):
    first = Problem(Roughly(40, 5), L2(0.3)).solve(tol=1e-3)
    first.save(tmp_path / "rough.npz")
    risk = Roughly(40, 5)
    again = Problem(risk, L2(0.2)).solve(tol=1e-4, warm_start=cut.load(tmp_path / "rough.npz"))
    cold = Problem(Roughly(40, 5), L2(0.2)).solve(tol=1e-4)
    assert again.status is Status.OPTIMAL and again.certificate.verify().valid
    assert len(again.history) < len(cold.history)


def test_a_few_cuts_in_memory_do():
    result = Problem(Roughly(40, 5), L2(0.3)).solve(BMRM(), tol=1e-5, max_cuts=8)
    assert result.status is Status.OPTIMAL and result.certificate.verify().valid


def test_the_check_knows_estimates():
    assert check_risk(Roughly(40, 5))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda e: e._replace(offsets=e.offsets + 1.0), "above|another cut"),
        (lambda e: e._replace(values=e.values - 1.0), "f is|accuracy"),
        (lambda e: e._replace(values=e.values + 5.0), "was requested"),
        (lambda e: e._replace(multipliers=0.5 * e.multipliers), "another cut"),
    ],
)
def test_the_check_finds_wrong_estimates(change, complaint):
    class Wrong(Roughly):
        def estimate(self, x, accuracy, start=None):
            found = super().estimate(x, accuracy)
            return change(found) if accuracy else found

    with pytest.raises(cut.OracleError, match=complaint):
        check_risk(Wrong(40, 5))


class Nothing(OnDemandRisk):
    dim = 1

    def estimate(self, x, accuracy, start=None):
        return Estimate(np.zeros(1), np.zeros((1, 1)), np.zeros(1), np.zeros(1))

    def dual_cut(self, u):
        return np.zeros((1, 1)), np.zeros(1)


def test_what_rounding_does_to_exact_cuts_of_a_sum_is_charged_and_remembered():
    """max(-x, x - 3.3) is least at 1.65; its cut at 1e17, where 3.3 is less than one bit, is too high."""
    lines = cut.OracleRisk(lambda x: (max(-x[0], x[0] - 3.3), np.where(x < 1.65, -1.0, 1.0)), dim=1)
    problem = Problem(lines + Nothing())
    first = problem.solve(ProximalBundle(), x0=[1e17], max_iter=3)
    assert first.lower_bound <= -1.65
    second = problem.solve(ProximalBundle(), warm_start=first, max_iter=30)
    assert second.lower_bound <= -1.65 <= second.objective

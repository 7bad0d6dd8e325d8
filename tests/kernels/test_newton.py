"""Finite Newton steps for kernel machines: against the whole problem in cvxpy, and other methods."""

import numpy as np
import pytest
from kernel_machines import machine, optimum
from own_losses import LogCosh

import cutplane as cut
from cutplane.kernels import Decomposition, FiniteNewton, Gaussian, KernelRisk, Linear
from cutplane.losses import (
    Hinge,
    Huber,
    Logistic,
    ModifiedHuber,
    Squared,
    SquaredEpsilonInsensitive,
    SquaredHinge,
)  # fmt: skip

LOSSES = [
    SquaredHinge(), ModifiedHuber(), Logistic(), Squared(), Huber(0.3), SquaredEpsilonInsensitive(0.1),
]  # fmt: skip


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_agrees_with_the_whole_problem(loss, intercept):
    for k, lam in enumerate((1.0, 1e-2, 1e-4)):
        problem = machine(loss, lam, intercept, weighted=k == 1, kernel=Linear() if k == 0 else None)
        result = problem.solve(FiniteNewton(), tol=1e-9)
        assert result.status == "OPTIMAL", (lam, result)
        assert result.certificate.verify().valid
        assert result.n_iter < 40
        assert result.objective == pytest.approx(optimum(problem), rel=1e-7)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_conjugate_gradients_come_to_the_same(loss):
    problem = machine(loss, 1e-3, m=150)
    factored, iterated = (problem.solve(FiniteNewton(dense), tol=1e-8) for dense in (4000, 0))
    assert iterated.status == "OPTIMAL"
    assert iterated.objective == pytest.approx(factored.objective, rel=2e-8)


def test_logistic_machine_is_stationary_and_seeds_the_next():
    problem = machine(Logistic(), 1e-3)
    risk, result = problem.risk, problem.solve(FiniteNewton(), tol=1e-12)
    slopes = risk.weights * Logistic().derivative(risk.image(result.x), risk.y)
    assert np.abs(1e-3 * result.x[:-1] + slopes).max() < 1e-8  # lam a = -c l'(z): the full Newton solution
    assert abs(slopes.sum()) < 1e-7
    nearby = cut.Problem(risk, risk.squared_norm(8e-4))
    seeded = nearby.solve(FiniteNewton(), tol=1e-10, warm_start=result)
    assert seeded.n_iter < nearby.solve(FiniteNewton(), tol=1e-10).n_iter


def test_ends_after_finitely_many_steps():
    """Pieces that are found leave the exact solution, whatever the tolerance."""
    for loss in (SquaredHinge(), ModifiedHuber()):
        problem = machine(loss, 1e-3)
        loose, tight = (problem.solve(FiniteNewton(), tol=tol) for tol in (1e-4, 1e-13))
        assert tight.status == "OPTIMAL" and tight.n_iter <= loose.n_iter + 3
        assert tight.objective == pytest.approx(problem.solve(Decomposition(), tol=1e-10).objective, rel=1e-9)


def test_is_the_automatic_choice_where_there_is_no_other():
    assert "FiniteNewton" in machine(Logistic(), 0.1).solve().method
    own = machine(LogCosh(), 0.1).solve(FiniteNewton(), tol=1e-10)  # a user's loss
    assert own.status == "OPTIMAL" and own.certificate.verify().valid
    assert "Decomposition" in machine(SquaredHinge(), 0.1).solve().method


def test_one_class_and_degenerate_data():
    for y in (np.ones(6), np.array([1.0, -1, 1, -1, 1, -1])):
        risk = KernelRisk(np.ones((6, 2)), y, SquaredHinge(), Gaussian(1.0))
        result = cut.Problem(risk, risk.squared_norm(0.1)).solve(FiniteNewton(), tol=1e-9)
        assert result.objective - result.lower_bound < 1e-9


@pytest.mark.parametrize(
    "problem",
    [
        machine(Hinge(), 0.1),
        machine(Squared(), 0.0),
        cut.Problem(cut.LinearRisk(np.eye(2), [1.0, -1.0], SquaredHinge()), cut.L2(0.1)),
        cut.Problem(machine(Squared(), 0.1).risk, cut.L2(0.1)),
    ],
    ids=lambda problem: repr(problem.risk)[:25],
)
def test_refuses_other_problems(problem):
    with pytest.raises(cut.MissingCapabilityError):
        problem.solve(FiniteNewton())
    with pytest.raises(cut.InvalidInputError):
        FiniteNewton(dense=-1)

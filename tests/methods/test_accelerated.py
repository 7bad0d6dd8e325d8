"""Nesterov's method against its theorem, cvxpy, and its conditions."""

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from covering import covering
from smooth_cases import LAYOUTS, LOSSES, SETS, M, N, assert_sound, instance

import cutplane as cut
from cutplane.exceptions import InvalidInputError
from cutplane.methods.accelerated import AcceleratedGradient
from cutplane.status import Status


@pytest.mark.parametrize(("set_name", "loss", "layout"), covering(SETS, LOSSES, LAYOUTS))
def test_against_cvxpy(set_name, loss, layout):
    problem, optimum = instance(set_name, loss, layout)
    assert_sound(problem, problem.solve(AcceleratedGradient(), tol=1e-7, max_iter=1000), optimum, 2e-7)


def least_squares(seed):
    """An ill-conditioned quadratic over the unit ball, its constant, and its optimum by cvxpy."""
    rng = np.random.default_rng(seed)
    n = 30
    A = np.diag(np.logspace(0, -3, n)) @ np.linalg.qr(rng.standard_normal((n, n)))[0]
    b = A @ (0.3 * rng.standard_normal(n))

    @cut.risk(dim=n)
    def quadratic(x):
        r = A @ x - b
        return 0.5 * r @ r, A.T @ r

    x = cp.Variable(n)
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(A @ x - b)), [cp.norm2(x) <= 1.0])
    problem.solve(cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12)
    return quadratic, float(problem.value), x.value


@pytest.mark.parametrize("seed", range(3))
def test_the_bounds_of_the_theorem(seed):
    """f(y_N) - f* <= 2 L ||x_0 - x*||^2 / ((N + 1)(N + 2)); the gap, with the radius from x_0 for x*."""
    risk, optimum, solution = least_squares(seed)
    problem = cut.Problem(risk, feasible_set=cut.L2Ball(1.0))
    result = problem.solve(AcceleratedGradient(lipschitz=1.0, restart=False), tol=1e-12, max_iter=300)
    N = np.arange(result.n_iter)  # record N + 1 has seen y_N
    upper = result.history.column("upper_bound")[1:]
    assert (upper - optimum <= 2 * (solution @ solution) / ((N + 1) * (N + 2)) + 1e-9).all()
    gap = upper - result.history.column("lower_bound")[1:]
    since = np.floor(N / 1.06)  # the mean of the cuts is looked at every 20th part
    assert (gap <= 2 * 1.0 / ((since + 1) * (since + 2)) + 1e-12).all()
    assert gap[-1] < 1e-4 * gap[0]


def test_restarts_make_it_linear():
    rng = np.random.default_rng(1)
    n = 40
    scales = np.logspace(0, 2.5, n)
    centre = 0.5 * rng.standard_normal(n) / np.sqrt(n)

    @cut.risk(dim=n)
    def bowl(x):
        return 0.5 * scales @ (x - centre) ** 2 + 1.0, scales * (x - centre)

    problem = cut.Problem(bowl, feasible_set=cut.Box(-1, 1))
    steps = {
        restart: problem.solve(AcceleratedGradient(restart=restart), tol=1e-6, max_iter=1500).n_iter
        for restart in (True, False)
    }
    assert steps[True] < 0.6 * steps[False]
    assert "restart" in {record.step for record in problem.solve(AcceleratedGradient(), tol=1e-6).history}


def test_images_save_passes():
    """y_k, z_k and a gradient: the points between cost nothing."""

    class Counted(cut.LinearRisk):
        def image(self, x):
            calls.append(1)
            return super().image(x)

    rng = np.random.default_rng(0)
    calls = []
    risk = Counted(rng.standard_normal((M, N)), rng.standard_normal(M), cut.losses.Squared())
    problem = cut.Problem(risk, feasible_set=cut.Box(-0.1, 0.1))
    result = problem.solve(AcceleratedGradient(lipschitz=5.0, restart=False), tol=1e-12, max_iter=20)
    assert len(calls) <= 2 * result.n_iter + 1
    assert result.oracle_calls <= result.n_iter + 2


def test_overflow_is_stepped_back_from():
    """The first steps overshoot to where exp overflows: the constant grows until they no longer do."""

    class Counted(cut.LinearRisk):
        def values(self, z):
            value = super().values(z)
            overflows.append(not np.isfinite(value))
            return value

    overflows = []
    X = 1000.0 * np.vstack([np.eye(2), -np.eye(2)])
    risk = Counted(X, -np.ones(4), cut.losses.Exponential())
    problem = cut.Problem(risk, feasible_set=cut.Box(-1.0, 1.0))
    result = problem.solve(AcceleratedGradient(), tol=1e-6, max_iter=500, x0=[0.02, 0.01])
    assert any(overflows)
    assert result.status is Status.OPTIMAL
    assert result.objective == pytest.approx(1.0, rel=1e-6)


def test_the_lipschitz_constant_is_positive():
    with pytest.raises(InvalidInputError, match="lipschitz"):
        AcceleratedGradient(lipschitz=0.0)


@pytest.mark.parametrize("seed", [5, 43])
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_cuts_of_several_pieces_are_found_by_their_height(seed, layout):
    # A piece's slope in a product with all the others has other bits than alone.
    rng = np.random.default_rng(seed)
    B = rng.standard_normal((5, 4))
    data = [(rng.standard_normal((8, 5)), rng.standard_normal(8)) for _ in range(3)]
    pieces = [cut.LinearRisk(X, y, cut.losses.Squared()) for X, y in data]
    problem = cut.Problem(cut.maximum(*pieces) @ layout(B), feasible_set=cut.Simplex())
    result = problem.solve(AcceleratedGradient(), tol=1e-4, max_iter=60)
    w = cp.Variable(4, nonneg=True)
    losses = [cp.sum_squares(X @ (B @ w) - y) / 16 for X, y in data]
    optimum = float(cp.Problem(cp.Minimize(cp.max(cp.hstack(losses))), [cp.sum(w) == 1]).solve(cp.CLARABEL))
    assert result.status is Status.OPTIMAL
    assert result.lower_bound <= optimum * (1 + 1e-7)
    assert result.objective == pytest.approx(optimum, rel=2e-4)
    assert result.certificate.verify().valid

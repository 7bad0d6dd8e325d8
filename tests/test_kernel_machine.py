"""Kernel machines against cvxpy and scikit-learn, from any start, and in degenerate cases."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVC, SVR

from cutplane.exceptions import InvalidInputError
from cutplane.kernels.dual_form import dual_form
from cutplane.kernels.machine import KernelMachine
from cutplane.losses import (
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    ModifiedHuber,
    Poisson,
    Quantile,
    Squared,
    SquaredEpsilonInsensitive,
    SquaredHinge,
)
from cutplane.losses.base import MarginLoss

LOSSES = [
    Hinge(),
    SquaredHinge(),
    ModifiedHuber(),
    Squared(),
    Absolute(),
    Quantile(0.8),
    EpsilonInsensitive(0.2),
    SquaredEpsilonInsensitive(0.2),
    Huber(0.5),
]
BOUNDED = [loss for loss in LOSSES if np.isfinite(dual_form(loss, np.ones(1), 1.0).upper).all()]


def gaussian(X, width=1.5):
    norms = (X**2).sum(axis=1)
    return np.exp(-np.maximum(norms[:, None] + norms - 2.0 * X @ X.T, 0.0) / (2.0 * width**2))


def instance(loss, m=40, seed=0, rank=None):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, 3))
    f = X[:, 0] + np.sin(2.0 * X[:, 1]) + 0.5 * rng.standard_normal(m) + 0.3
    K = gaussian(X) if rank is None else X[:, :rank] @ X[:, :rank].T
    return K, np.where(f > 0.0, 1.0, -1.0) if isinstance(loss, MarginLoss) else f


def optimum(loss, K, y, C, intercept):
    values, vectors = np.linalg.eigh(K)
    kept = values > 1e-10 * values.max()
    F = vectors[:, kept] * np.sqrt(values[kept])
    w, b = cp.Variable(F.shape[1]), cp.Variable()
    t = F @ w + b if intercept else F @ w
    objective = 0.5 * cp.sum_squares(w) + C * cp.sum(loss.cvxpy_form(t, y))
    problem = cp.Problem(cp.Minimize(objective))
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return problem.value


def rounding(machine, K, a):
    """How far, times 1e11, rounding moves the losses and the squared norm."""
    return 1e-3 * (machine.C * np.abs(machine.y).sum() + np.abs(a) @ np.abs(K) @ np.abs(a))


def check(machine, K, solution):
    """Recompute everything that a solution states."""
    a, loss, y = solution.a, machine.loss, machine.y
    assert machine.feasible(a)
    if machine.intercept:
        assert abs(a.sum()) <= 1e-12 * max(machine.C * a.size, np.abs(a).sum())
    assert (np.abs(solution.predictions - K @ a) <= 1e-14 * a.size * (np.abs(K) @ np.abs(a))).all()
    norm2 = a @ K @ a
    size = 1.0 + abs(solution.primal_value) + rounding(machine, K, a)
    phi = machine.C * loss.conjugate(-a / machine.C * (1.0 - 1e-15), y).sum()
    assert solution.dual_value == pytest.approx(-phi - 0.5 * norm2, abs=1e-11 * size)
    assert machine.conjugate_sum(a) == pytest.approx(phi, abs=1e-11 * size)
    losses = machine.C * loss.value(solution.predictions + solution.intercept, y).sum()
    assert solution.primal_value == pytest.approx(0.5 * norm2 + losses, abs=1e-11 * size)
    assert solution.dual_value <= solution.primal_value


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("C", [0.05, 1.0, 30.0])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_optimum_is_that_of_cvxpy(loss, C, intercept):
    for rank in (None, 2):
        K, y = instance(loss, rank=rank)
        machine = KernelMachine(loss, y, C, intercept)
        solution = machine.solve(K)
        check(machine, K, solution)
        expected = optimum(loss, K, y, C, intercept)
        assert solution.dual_value == pytest.approx(expected, rel=1e-7, abs=1e-7)
        assert solution.gap <= 1e-9 * max(1.0, abs(expected))


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_form_is_the_conjugate_and_the_loss(loss):
    rng = np.random.default_rng(1)
    y = np.repeat([-1.0, 1.0], 50) if isinstance(loss, MarginLoss) else rng.standard_normal(100)
    C, t = 0.7, 3.0 * rng.standard_normal(100)
    form = dual_form(loss, y, C)
    assert form.losses(y - t) == pytest.approx(C * loss.value(t, y).sum())
    a = rng.uniform(np.maximum(form.lower, -5.0), np.minimum(form.upper, 5.0))
    assert form.conjugates(a) == pytest.approx(C * loss.conjugate(-a / C, y).sum())
    assert np.allclose(form.maximisers(y - t), -C * loss.derivative(t, y))
    for bound, outwards in ((form.lower, -1e-6), (form.upper, 1e-6)):
        beyond = np.isfinite(bound)
        outside = np.where(beyond, bound, 0.0) + outwards
        assert np.isinf(loss.conjugate(-outside / C, y)[beyond]).all()


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_best_intercept(loss):
    K, y = instance(loss, seed=3)
    machine = KernelMachine(loss, y, 2.0)
    predictions = K @ np.random.default_rng(2).standard_normal(y.size)
    value, b = machine.primal(1.5, predictions)
    at = [0.75 + 2.0 * loss.value(predictions + c, y).sum() for c in b + np.linspace(-1.0, 1.0, 2001)]
    assert value == pytest.approx(at[1000])
    assert value <= min(at) + 1e-12 * abs(value)
    _, expected = min((cost(loss, predictions, y, k), k) for k in kinks(loss, predictions, y))
    assert value <= 0.75 + 2.0 * cost(loss, predictions, y, expected) + 1e-9


def cost(loss, predictions, y, b):
    return loss.value(predictions + b, y).sum()


def kinks(loss, predictions, y):
    return [*(loss.pieces(y).knots - predictions).ravel().tolist(), 0.0]


@pytest.mark.parametrize("C", [0.1, 1.0, 100.0])
def test_support_vector_machines_of_scikit_learn(C):
    K, y = instance(Hinge(), m=120, seed=4)
    solution = KernelMachine(Hinge(), y, C).solve(K)
    svc = SVC(kernel="precomputed", C=C, tol=1e-9).fit(K, y)
    a = np.zeros(y.size)
    a[svc.support_] = svc.dual_coef_[0]
    assert np.abs(a).sum() - 0.5 * a @ K @ a == pytest.approx(solution.dual_value, rel=1e-6)
    assert svc.decision_function(K) == pytest.approx(solution.predictions + solution.intercept, abs=1e-3)
    K, y = instance(Squared(), m=120, seed=4)
    solution = KernelMachine(EpsilonInsensitive(0.1), y, C).solve(K)
    svr = SVR(kernel="precomputed", C=C, tol=1e-9, epsilon=0.1).fit(K, y)
    a = np.zeros(y.size)
    a[svr.support_] = svr.dual_coef_[0]
    assert y @ a - 0.1 * np.abs(a).sum() - 0.5 * a @ K @ a == pytest.approx(solution.dual_value, rel=1e-6)
    solution = KernelMachine(Squared(), y, C, intercept=False).solve(K, accuracy=1e-9)
    ridge = KernelRidge(kernel="precomputed", alpha=1.0 / C).fit(K, y)
    assert np.allclose(solution.a, ridge.dual_coef_, rtol=1e-6, atol=1e-9)
    assert solution.n_steps <= 3


@given(st.integers(0, 10**6), st.sampled_from(LOSSES), st.booleans(), st.floats(-3.0, 3.0))
@settings(max_examples=60, deadline=None)
def test_bounds_hold_at_any_accuracy_and_from_any_start(seed, loss, intercept, exponent):
    rng = np.random.default_rng(seed)
    m, rank = int(rng.integers(1, 25)), int(rng.integers(1, 6))
    X = rng.standard_normal((m, rank)) * 10.0 ** rng.integers(-2, 3)
    X[rng.random(m) < 0.3] = X[0]
    K = X @ X.T if seed % 2 else gaussian(X)
    y = rng.choice([-1.0, 1.0], m) if isinstance(loss, MarginLoss) else rng.standard_normal(m)
    machine = KernelMachine(loss, y, 10.0**exponent, intercept)
    best = machine.solve(K)
    size = max(1.0, abs(best.primal_value)) + rounding(machine, K, best.a)
    check(machine, K, best)
    assert best.gap <= 1e-8 * size
    previous = None
    a0 = 10.0**exponent * 2.0 * rng.standard_normal(m)
    for accuracy in (1.0, 1e-2, 1e-4, 1e-7):
        solution = machine.solve(K, a0, accuracy * size)
        check(machine, K, solution)
        assert solution.gap <= max(accuracy, 1e-8) * size
        assert solution.dual_value <= best.primal_value + 1e-11 * size
        assert solution.primal_value >= best.dual_value - 1e-11 * size
        if previous is not None:
            assert solution.dual_value >= previous - 1e-11 * size
        a0, previous = solution.a, solution.dual_value


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_start_near_the_optimum_takes_few_steps(loss):
    K, y = instance(loss, m=200, seed=5)
    machine = KernelMachine(loss, y, 1.0)
    cold = machine.solve(K, accuracy=1e-6)
    again = machine.solve(K, cold.a, accuracy=1e-6)
    assert again.n_steps == 0
    np.testing.assert_array_equal(again.a, cold.a)
    near = machine.solve(1.001 * K, cold.a, accuracy=1e-3)
    assert near.n_steps <= machine.solve(1.001 * K, accuracy=1e-3).n_steps


class Computed:
    def __init__(self, K):
        self.K, self.n, self.calls = K, K.shape[0], 0

    def diagonal(self):
        return self.K.diagonal()

    def row(self, i):
        self.calls += 1
        return self.K[i]


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("loss", [Hinge(), EpsilonInsensitive(0.2), SquaredHinge(), Squared()], ids=repr)
def test_computed_rows_give_the_same_answer(loss, intercept):
    K, y = instance(loss, m=60, seed=6)
    dense = KernelMachine(loss, y, 1.0, intercept).solve(K, accuracy=1e-8)
    for rows in (2, 10, 60):
        source = Computed(K)
        machine = KernelMachine(loss, y, 1.0, intercept, cache_bytes=rows * 60 * 8)
        solution = machine.solve(source, accuracy=1e-8)
        check(machine, K, solution)
        assert solution.dual_value == pytest.approx(dense.dual_value, abs=2e-8)
        assert solution.gap <= 1e-8
        if rows == 60:
            assert source.calls <= 60


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("intercept", [True, False])
def test_degenerate(loss, intercept):
    def solve(K, y, C=1.0):
        machine = KernelMachine(loss, y, C, intercept)
        solution = machine.solve(K)
        check(machine, K, solution)
        size = abs(solution.primal_value) + 0.01 * rounding(machine, K, solution.a)
        assert solution.gap <= 1e-9 * (1.0 + size)
        return solution

    K, y = instance(loss, m=12)
    same = solve(K, np.ones(12))
    if intercept:
        assert same.primal_value == pytest.approx(0.0, abs=1e-12)
    for size in (1, 2):
        solve(K[:size, :size], y[:size])
    zero = solve(np.zeros((12, 12)), y)
    value, _ = KernelMachine(loss, y, 1.0, intercept).primal(0.0, np.zeros(12))
    assert zero.primal_value == pytest.approx(value, abs=1e-9)
    twice = solve(np.tile(K, (2, 2)), np.tile(y, 2))
    assert twice.primal_value == pytest.approx(solve(K, y, 2.0).primal_value, rel=1e-9, abs=1e-9)
    for C in (1e-9, 1e7):
        solve(K, y, C)
    rounded = K - 1e-15 * np.eye(12)
    rounded[0] = rounded[:, 0] = 0.0
    rounded[0, 0] = -1e-17
    solve(rounded, y)


@pytest.mark.parametrize("loss", BOUNDED, ids=repr)
def test_repair_of_a_start(loss):
    _, y = instance(loss)
    machine = KernelMachine(loss, y, 1.0)
    for seed in range(20):
        a = np.random.default_rng(seed).normal(0.3, 2.0, y.size)
        a[:5] = 0.0
        mended = machine.into_domain(a)
        assert machine.feasible(mended)
        assert not mended[:5].any()
        np.testing.assert_array_equal(machine.into_domain(mended), mended)
    assert not machine.feasible(np.full(y.size, 1e3))
    assert machine.conjugate_sum(np.full(y.size, 1e3)) == np.inf


def test_layouts_of_the_matrix():
    K, y = instance(Hinge())
    machine = KernelMachine(Hinge(), y, 1.0)
    padded = np.zeros((2 * y.size, 2 * y.size))
    padded[::2, ::2] = K
    answers = [machine.solve(layout).dual_value for layout in (K, np.asfortranarray(K), padded[::2, ::2])]
    assert answers == [answers[0]] * 3


def test_wrong_input_is_named():
    K, y = instance(Hinge())
    machine = KernelMachine(Hinge(), y, 1.0)
    for loss in (Logistic(), Poisson()):
        with pytest.raises(InvalidInputError, match="Absolute, EpsilonInsensitive, Hinge"):
            KernelMachine(loss, y, 1.0)
    with pytest.raises(InvalidInputError, match="C must be"):
        KernelMachine(Hinge(), y, 0.0)
    with pytest.raises(InvalidInputError, match="labels"):
        KernelMachine(Hinge(), 2.0 * y, 1.0)
    with pytest.raises(InvalidInputError, match="empty"):
        KernelMachine(Squared(), [], 1.0)
    with pytest.raises(InvalidInputError, match=r"shape \(40, 40\)"):
        machine.solve(K[:5])
    with pytest.raises(InvalidInputError, match="float64"):
        machine.solve(K.astype(np.float32))
    with pytest.raises(InvalidInputError, match="got list"):
        machine.solve(K.tolist())
    with pytest.raises(InvalidInputError, match="nonnegative diagonal"):
        machine.solve(-K)
    with pytest.raises(InvalidInputError, match="a0 must have shape"):
        machine.solve(K, np.zeros(3))
    with pytest.raises(InvalidInputError, match="39 rows"):
        machine.solve(Computed(K[1:, 1:]))
    for wrong in (np.nan, np.inf):
        bad = K.copy()
        bad[3, 3] = wrong
        with pytest.raises(InvalidInputError, match=r"K\[3, 3\]"):
            machine.solve(bad)
        bad = K.copy()
        bad[0, 1:] = bad[1:, 0] = wrong
        with pytest.raises(InvalidInputError, match="not finite"):
            machine.solve(bad)


def test_matrix_and_start_are_left_alone():
    K, y = instance(Squared())
    machine = KernelMachine(Squared(), y, 1.0)
    before, a0 = K.copy(), np.zeros(y.size)
    machine.solve(K, a0)
    np.testing.assert_array_equal(K, before)
    assert not a0.any()

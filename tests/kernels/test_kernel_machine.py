"""Kernel machines against cvxpy, from any start, and in degenerate cases."""

import signal

import numpy as np
import pytest
from covering import covering
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_machines import Computed, least
from own_losses import BUILT_IN, Lopsided, ThreeKnots

from cutplane.exceptions import InvalidInputError
from cutplane.kernels import descent
from cutplane.kernels.descent import active_coordinates, worth_leaving_out
from cutplane.kernels.dual import dual_form
from cutplane.kernels.machine import KernelMachine
from cutplane.kernels.rows import as_rows
from cutplane.losses import (
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Logistic,
    Poisson,
    Squared,
    SquaredEpsilonInsensitive,
    SquaredHinge,
)
from cutplane.losses.base import MarginLoss
from cutplane.runtime.clock import clock

BOUNDED = [loss for loss in BUILT_IN if np.isfinite(dual_form(loss, np.ones(1), 1.0).upper).all()]


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
    return least(K, loss, y, C, 1.0, intercept)


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


@pytest.mark.parametrize("loss", [SquaredEpsilonInsensitive(0.2), EpsilonInsensitive(0.2)], ids=repr)
@pytest.mark.parametrize("seed", [0, 3, 10])
def test_newton_steps_that_kinks_cut_short_follow_one_another(loss, seed):
    """With a large kernel of low rank, each step on a pair undoes what a short Newton step has done."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(7, 2)).round(2), rng.normal(size=7).round(2)
    K, C = 1e3 * X @ X.T, 1e4
    solution = KernelMachine(loss, y, C).solve(K)
    assert solution.n_steps < 10_000
    assert solution.primal_value == pytest.approx(optimum(loss, K, y, C, True), rel=1e-6)
    assert solution.gap <= 1e-6 * solution.primal_value


@pytest.mark.parametrize(
    ("loss", "C", "intercept"), covering(BUILT_IN, [0.05, 1.0, 30.0], [True, False]), ids=str
)
def test_optimum_is_that_of_cvxpy(loss, C, intercept):
    for rank in (None, 2):
        K, y = instance(loss, rank=rank)
        machine = KernelMachine(loss, y, C, intercept)
        solution = machine.solve(K)
        check(machine, K, solution)
        expected = optimum(loss, K, y, C, intercept)
        assert solution.dual_value == pytest.approx(expected, rel=1e-7, abs=1e-7)
        assert solution.gap <= 1e-9 * max(1.0, abs(expected))


def test_losses_next_to_the_end_of_the_tube_are_not_negative():
    near = np.nextafter(0.2, [0.0, 1.0, 1.0, 1.0]) * [1.0, 1.0, -1.0, 1.0]
    loss, y = SquaredEpsilonInsensitive(0.2), np.zeros(4)
    assert dual_form(loss, y, 0.02).losses(near) == pytest.approx(0.02 * loss.value(-near, y).sum(), abs=0.0)


@pytest.mark.parametrize("loss", BUILT_IN, ids=repr)
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


@pytest.mark.parametrize("loss", BUILT_IN, ids=repr)
def test_best_intercept(loss):
    K, y = instance(loss, seed=3)
    machine = KernelMachine(loss, y, 2.0)
    predictions = K @ np.random.default_rng(2).standard_normal(y.size)
    value, b = machine.primal(1.5, predictions)
    kinks = (loss.pieces(y).knots - predictions).ravel()
    places = b, *(b + np.linspace(-1.0, 1.0, 99)), *kinks
    at = [0.75 + 2.0 * loss.value(predictions + c, y).sum() for c in places]
    assert value == pytest.approx(at[0])
    assert value <= min(at) + 1e-9


@pytest.mark.parametrize("C", [0.1, 1.0, 100.0])
def test_newton_steps_solve_a_linear_system_at_once(C):
    K, y = instance(Squared(), m=120, seed=4)
    solution = KernelMachine(Squared(), y, C, intercept=False).solve(K, accuracy=1e-9)
    np.testing.assert_allclose(solution.a, np.linalg.solve(K + np.eye(120) / C, y), rtol=1e-6, atol=1e-9)
    assert solution.n_steps <= 3


@given(st.integers(0, 10**6), st.sampled_from(BUILT_IN), st.booleans(), st.floats(-3.0, 3.0))
@settings(max_examples=25, deadline=None)
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


@pytest.mark.parametrize("loss", BUILT_IN, ids=repr)
def test_start_near_the_optimum_takes_few_steps(loss):
    K, y = instance(loss, m=200, seed=5)
    machine = KernelMachine(loss, y, 1.0)
    cold = machine.solve(K, accuracy=1e-6)
    again = machine.solve(K, cold.a, accuracy=1e-6)
    assert again.n_steps == 0
    np.testing.assert_array_equal(again.a, cold.a)
    near = machine.solve(1.001 * K, cold.a, accuracy=1e-3)
    assert near.n_steps <= machine.solve(1.001 * K, accuracy=1e-3).n_steps


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


def leave_out_often(patch, choose=active_coordinates):
    """Let the solver leave coordinates out whenever it can."""
    patch.setattr(descent, "active_coordinates", choose)
    patch.setattr(descent, "may_be_worth_it", lambda spent: spent > 0.0)
    patch.setattr(descent, "worth_leaving_out", lambda active, m, spent: 2 <= active < m)


HALVES = np.random.default_rng(0)


def random_half(g, rise, fall, intercept):
    return np.flatnonzero(HALVES.random(g.size) < 0.5)


@pytest.mark.parametrize("choose", [active_coordinates, random_half])
@given(st.integers(0, 10**6), st.sampled_from(BUILT_IN), st.booleans(), st.floats(-2.0, 3.0), st.booleans())
@settings(max_examples=25, deadline=None)
def test_leaving_coordinates_out_changes_no_answer(choose, seed, loss, intercept, exponent, computed):
    """Rightly or not, in parts and in parts of parts; the matrix and the start are not changed."""
    m = 20 + seed % 60
    K, y = instance(loss, m=m, seed=seed)
    exponent = exponent if choose is active_coordinates else min(exponent, 0.5)
    machine = KernelMachine(loss, y, 10.0**exponent, intercept)
    a0 = machine.into_domain(10.0**exponent * np.random.default_rng(seed).standard_normal(m))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(descent, "may_be_worth_it", lambda spent: False)
        whole = machine.solve(K, a0)
    size, before = 1.0 + abs(whole.primal_value), (K.copy(), a0.copy())
    for accuracy in (1e-3, 0.0):
        with pytest.MonkeyPatch.context() as patch:
            leave_out_often(patch, choose)
            given = Computed(K) if computed else np.asfortranarray(K) if accuracy else K
            parts = machine.solve(given, a0, accuracy * size)
        assert np.array_equal(K, before[0]) and np.array_equal(a0, before[1])
        check(machine, K, parts)
        assert parts.dual_value <= whole.primal_value + 1e-9 * size
        assert parts.primal_value >= whole.dual_value - 1e-9 * size
        assert parts.gap <= max(accuracy, 1e-8) * size


def start_of_descent(loss, C, intercept, seed):
    K, y = instance(loss, seed=seed)
    machine = KernelMachine(loss, y, C, intercept)
    a = machine.into_domain(C * np.random.default_rng(seed).choice([-2.0, -0.3, 0.0, 0.4, 2.0], y.size))
    return machine, K, descent.Descent(machine.form, as_rows(K, y.size, 0), a)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("loss", BUILT_IN, ids=repr)
def test_coordinates_are_left_out_that_no_step_can_use(loss, intercept):
    for seed in range(5):
        _, _, state = start_of_descent(loss, 1.0, intercept, seed)
        up, down = state.g - state.rise, state.g - state.fall
        to_raise, to_lower = (up, down) if intercept else (np.append(up, 0.0), np.append(down, 0.0))
        used = [
            k
            for k in range(state.a.size)
            if any(up[k] >= cost for cost in to_lower) or any(down[k] <= gain for gain in to_raise)
        ]
        active = active_coordinates(state.g, state.rise, state.fall, intercept)
        assert active.tolist() == used
        off_bounds = (state.a > state.form.lower) & (state.a < state.form.upper)
        kink = (state.a == 0.0) & (state.form.tube > 0.0)
        assert set(np.flatnonzero(off_bounds & ~kink)) <= set(used)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("loss", BUILT_IN, ids=repr)
def test_gap_of_a_part_is_a_lower_bound(loss, intercept):
    for seed in range(5):
        machine, K, state = start_of_descent(loss, 1.0, intercept, seed)
        kept = np.flatnonzero(np.random.default_rng(seed).random(state.a.size) < 0.5)
        part, a, y = state._part(kept), state.a[kept], machine.y[kept]
        assert part.gap <= state.gap * (1.0 + 1e-12)
        steps = np.append(0.0, np.linspace(-1.0, 1.0, 201)) if intercept else np.zeros(1)
        predictions = (K @ state.a)[kept] + part.b + steps[:, None]
        conjugates = loss.conjugate(-a * (1.0 - 1e-15), y)
        terms = [loss.value(t, y).sum() + conjugates.sum() + t @ a for t in predictions]
        assert part.gap == pytest.approx(terms[0], abs=1e-9)
        assert part.gap <= min(terms) + 1e-9


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge(), EpsilonInsensitive(0.2)], ids=repr)
def test_a_step_is_the_best_on_its_line_and_gains_what_it_says(loss, intercept):
    machine, K, state = start_of_descent(loss, 1.0, intercept, 0)
    for _ in range(60):
        before, value = state.a.copy(), -machine.conjugate_sum(state.a) - 0.5 * state.a @ K @ state.a
        gain, settled = state.steps(1)
        line = [before + t * (state.a - before) for t in (0.5, 0.9, 0.99, 1.0, 1.01, 1.1)]
        values = [-machine.conjugate_sum(a) - 0.5 * a @ K @ a for a in line]
        assert values[3] == pytest.approx(value + gain, abs=1e-10)
        assert values[3] >= max(values) - 1e-12 or settled


def test_when_it_pays_to_leave_coordinates_out():
    assert worth_leaving_out(100, 1000, 1e6)
    for active, m, spent in [(100, 1000, 1e5), (1, 1000, 1e9), (701, 1000, 1e9), (100, 10_000, 1e6)]:
        assert not worth_leaving_out(active, m, spent)


@pytest.mark.parametrize("accuracy", [1e-3, 0.0])
def test_a_larger_problem_leaves_coordinates_out_by_itself(accuracy, monkeypatch):
    K, y = instance(Hinge(), m=600, seed=8)
    machine = KernelMachine(Hinge(), y, 100.0)
    parts, inner = [], descent.Descent._part
    monkeypatch.setattr(descent.Descent, "_part", lambda self, c: parts.append(c.size) or inner(self, c))
    solution = machine.solve(K, accuracy=accuracy)
    assert parts
    assert max(parts) <= 420
    check(machine, K, solution)
    again = machine.solve(K, accuracy=accuracy)
    np.testing.assert_array_equal(solution.a, again.a)
    assert again.n_steps == solution.n_steps
    monkeypatch.setattr(descent, "may_be_worth_it", lambda spent: False)
    whole = machine.solve(K, accuracy=accuracy)
    size = max(accuracy, 1e-9 * whole.primal_value)
    assert solution.gap <= size
    assert solution.dual_value == pytest.approx(whole.dual_value, abs=size)


@pytest.mark.parametrize("intercept", [True, False])
def test_last_step_leaves_a_true_gap(intercept, monkeypatch):
    K, y = instance(Hinge(), m=80, seed=9)
    machine = KernelMachine(Hinge(), y, 100.0, intercept)
    optimum = machine.solve(K)
    leave_out_often(monkeypatch)
    monkeypatch.setattr(descent, "_MOST_STEPS", 60 - 1000 * 80)
    solution = machine.solve(K)
    check(machine, K, solution)
    assert 60 <= solution.n_steps < 100
    assert solution.gap > 1e-3
    assert solution.dual_value < optimum.dual_value <= solution.primal_value


class Interrupted(Computed):
    def row(self, i):
        if self.calls == 30:
            raise KeyboardInterrupt
        return super().row(i)


def test_interrupt_while_a_row_is_computed():
    K, y = instance(Hinge(), m=80)
    machine = KernelMachine(Hinge(), y, 100.0)
    source = Interrupted(K)
    with pytest.raises(KeyboardInterrupt):
        machine.solve(source)
    source.calls = 31
    check(machine, K, machine.solve(source))


def test_an_interrupt_leaves_the_slots_of_rows_empty():
    K, _ = instance(Hinge(), m=80)
    rows = as_rows(Interrupted(K), 80, K.nbytes)
    with pytest.raises(KeyboardInterrupt):
        rows.fetch_all(np.arange(40))
    assert rows.filled == 0 and (rows.where < 0).all()


def test_more_rows_are_computed_ahead_while_they_are_used():
    source = Computed(np.eye(400))
    rows, counts = as_rows(source, 400, 320 * 400 * 8), [0]
    for used in (True, True, False, True):
        missing = np.flatnonzero(rows.where < 0)
        rows.fetch(int(missing[-1]), lambda n, missing=missing: missing[:n])
        filled = np.flatnonzero(rows.owner >= 0)
        if used:
            rows.used[filled] += np.arange(filled.size)
        counts.append(source.calls)
    assert np.diff(counts).tolist() == [5, 9, 17, 10]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no interval timers")
@pytest.mark.parametrize("intercept", [True, False])
def test_interrupt_in_the_compiled_loops(intercept, monkeypatch):
    """Nothing but steps, for minutes."""
    X = np.random.default_rng(0).standard_normal((1000, 10))
    y = np.random.default_rng(1).choice([-1.0, 1.0], 1000)
    K, machine = gaussian(X, 20.0), KernelMachine(Hinge(), y, 1e8, intercept)
    monkeypatch.setattr(descent, "_NEWTON_OVERHEAD", np.inf)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        start = clock()
        with pytest.raises(KeyboardInterrupt):
            machine.solve(K)
        assert clock() - start < 1.2
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("loss", BUILT_IN, ids=repr)
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


def changed(K, i, j, value):
    K = K.copy()
    K[i, j] = K[j, i] = value
    return K


def test_wrong_input_is_named():
    K, y = instance(Hinge())
    machine = KernelMachine(Hinge(), y, 1.0)
    cases = [
        ("C must be", lambda: KernelMachine(Hinge(), y, 0.0)),
        ("labels", lambda: KernelMachine(Hinge(), 2.0 * y, 1.0)),
        ("empty", lambda: KernelMachine(Squared(), [], 1.0)),
        (r"shape \(40, 40\)", lambda: machine.solve(K[:5])),
        ("float64", lambda: machine.solve(K.astype(np.float32))),
        ("got list", lambda: machine.solve(K.tolist())),
        ("nonnegative diagonal", lambda: machine.solve(-K)),
        ("a0 must have shape", lambda: machine.solve(K, np.zeros(3))),
        ("39 rows", lambda: machine.solve(Computed(K[1:, 1:]))),
    ]
    for loss in (Logistic(), Poisson(), ThreeKnots(), Lopsided()):
        cases.append(
            (r"dual is a quadratic programme, such as Hinge", lambda loss=loss: KernelMachine(loss, y, 1.0))
        )
    for wrong in (np.nan, np.inf):
        cases.append((r"K\[3, 3\]", lambda wrong=wrong: machine.solve(changed(K, 3, 3, wrong))))
        cases.append(("finite", lambda wrong=wrong: machine.solve(changed(K, 0, slice(1, None), wrong))))
    for words, do in cases:
        with pytest.raises(InvalidInputError, match=words):
            do()


@pytest.mark.parametrize(
    ("loss", "y", "b"),
    [
        (EpsilonInsensitive(0.1), [2.5, 2.5, 2.5], 2.5),
        (EpsilonInsensitive(1.0), [0.0, 1.0], 0.5),
        (Absolute(), [1.0, 3.0], 2.0),
        (Hinge(), [1.0, -1.0], 0.0),
        (SquaredEpsilonInsensitive(0.5), [1.0, 1.0], 1.0),
    ],
    ids=str,
)
def test_of_many_best_intercepts_the_middle_one_is_taken(loss, y, b):
    m = len(y)
    solution = KernelMachine(loss, np.array(y), 1.0).solve(np.zeros((m, m)))
    assert solution.intercept == pytest.approx(b)

"""The line of a linear risk, the exact search along it, and the memory that the points on it share."""

import math
import threading
from dataclasses import replace

import numpy as np
import own_losses
import pytest
from covering import covering

import cutplane as cut
from cutplane.engine.line_search import minimise_on_line
from cutplane.losses import (
    Absolute,
    EpsilonInsensitive,
    Exponential,
    Hinge,
    Huber,
    Logistic,
    Poisson,
    Quantile,
    ScalarLoss,
    SquaredHinge,
)
from cutplane.pieces.lines import quadratic_line
from cutplane.regularizers import L1
from cutplane.risks import LinearRisk
from cutplane.risks.data import Data, RunningSum, make_data

PIECEWISE = [*own_losses.BUILT_IN, *own_losses.PIECEWISE]
SMOOTH = [Logistic(), Exponential(), Poisson(), *own_losses.SMOOTH]
each_piecewise = pytest.mark.parametrize("loss", PIECEWISE, ids=str)
each_smooth = pytest.mark.parametrize("loss", SMOOTH, ids=repr)


def line_of(loss, m, rng, ties=False, blocks=1):
    """A risk and two images; with ties, kinks at 0 and 1, repeated kinks, and examples that do not move."""
    if loss.variable == "margin":
        y = np.where(rng.random(m) < 0.5, 1.0, -1.0)
    else:
        y = rng.integers(0, 4, m) / 1.0 if ties or isinstance(loss, Poisson) else rng.standard_normal(m)
    weights = rng.random(m) * (rng.random(m) < 0.8)
    weights[0] = 1.0
    f = LinearRisk(np.ones((m, 1)), y, loss, weights, blocks=blocks)
    if ties:
        z0, z1 = rng.integers(-8, 9, size=(2, m)) / 4.0
        still = rng.random(m) < 0.2
        z1[still] = z0[still]
    else:
        z0, z1 = rng.standard_normal((2, m)) * 10.0 ** rng.uniform(-1, 1)
    return f, z0, z1


def slope_at(part, t):
    """The formula in the documentation of `PiecewiseLinear`, and the second derivative."""
    passed = part.kinks <= t
    bends = np.zeros(passed.size) if part.curvature_jumps is None else part.curvature_jumps
    slope = part.slope + part.curvature * (t - part.start) + part.slope_jumps[passed].sum()
    return slope + bends[passed] @ (t - part.kinks[passed]), part.curvature + bends[passed].sum()


def kink_times(f, z0, z1):
    knots = f.loss.pieces(f.y).knots
    if knots.shape[0] == 2 and (knots[0] == knots[1]).all():
        knots = knots[:1]
    with np.errstate(divide="ignore", invalid="ignore"):
        times = (knots - z0) / (z1 - z0)
    return times[np.isfinite(times) & (times > 0.0) & (f.weights > 0.0)]


@pytest.mark.parametrize(
    ("loss", "m", "ties"),
    [
        *covering(PIECEWISE, [1, 23, 600], [False, True]),
        *((loss, 90_000, k % 2 == 0) for k, loss in enumerate(PIECEWISE[::3])),
    ],
    ids=str,
)
def test_the_derivative_has_every_kink_and_the_right_jumps(loss, ties, m):
    rng = np.random.default_rng(m)
    f, z0, z1 = line_of(loss, m, rng, ties, blocks=min(m, 3))
    c, d = f.weights, z1 - z0
    derivative = f.line(z0, z1).derivative
    expected = kink_times(f, z0, z1)
    size = (c * np.abs(d) * (1.0 + np.abs(f.y) + np.abs(z0) + 5.0 * np.abs(d))).sum() + 1e-300

    def directional(t):
        return c @ loss.directional(z0 + t * d, f.y, d)

    for low, high in [(0.0, np.inf), (0.0, 0.5), (0.5, 1.0), (0.25, 3.0), (1.0, 1.0), (-0.5, 0.7)]:
        part = derivative.between(low, high)
        assert part.start == low and ((part.kinks > low) & (part.kinks < high)).all()
        assert (part.slope_jumps >= 0.0).all()
        if low >= 0.0 and ties:  # binary fractions: exact
            inside = expected[(expected > low) & (expected < high)]
            bends = np.zeros(part.kinks.size) if part.curvature_jumps is None else part.curvature_jumps
            found = part.kinks[(part.slope_jumps > 0.0) | (bends != 0.0)]
            np.testing.assert_allclose(np.sort(found), np.sort(inside), rtol=1e-15)
        end = min(high, 4.0)
        for t in [low, 0.7 * low + 0.3 * end, 0.2 * low + 0.8 * end]:
            found, _ = slope_at(part, t)
            before, after = directional(t - 1e-9), directional(t + 1e-9)
            assert min(before, after) - 1e-7 * size <= found <= max(before, after) + 1e-7 * size
            assert found == pytest.approx(derivative(t)[0], abs=1e-12 * size)
            if ties and t in (0.0, 0.5, 0.25, 1.0, -0.5):
                assert found == pytest.approx(directional(t), abs=1e-13 * size)
    whole = derivative.between(0.0, np.inf)
    for t in (0.05, 0.35, 1.15):
        _, curvature = derivative(t)
        assert slope_at(whole, t)[1] == pytest.approx(curvature, abs=1e-12 * size * (1 + np.abs(d).max()))
        step = 1e-7
        if (np.abs(expected - t) > 2 * step).all():
            around = (directional(t + step) - directional(t - step)) / (2 * step)
            assert curvature == pytest.approx(around, abs=1e-6 * size * (1 + np.abs(d).max()))


@each_piecewise
@pytest.mark.parametrize("m", [500, 50_000])
def test_an_estimate_is_off_by_a_few_deviations(loss, m):
    f, z0, z1 = line_of(loss, m, np.random.default_rng(1))
    derivative = f.line(z0, z1).derivative
    copy, deviation = derivative.estimate()
    assert copy.kinks.size < 6000 and (deviation > 0.0) == (m > 5000)
    for t in (0.0, 0.3, 1.0):
        assert abs(slope_at(copy, t)[0] - derivative(t)[0]) <= 6.0 * deviation + 1e-13


@each_smooth
@pytest.mark.parametrize("m", [7, 70_000])
def test_newton_derivatives(loss, m):
    f, z0, z1 = line_of(loss, m, np.random.default_rng(m), blocks=2)
    z0, z1 = 0.3 * z0, 0.3 * z1
    line = f.line(z0, z1)
    assert line.derivative is None and line.kinks is None
    for t in (0.0, 0.4, 1.0):
        slope, curvature = line.newton(t)
        assert slope == line(t)[1]
        assert slope == pytest.approx(
            f.weights @ loss.directional(z0 + t * (z1 - z0), f.y, z1 - z0), rel=1e-11
        )
        around = (line.newton(t + 1e-6)[0] - line.newton(t - 1e-6)[0]) / 2e-6
        assert curvature == pytest.approx(around, rel=1e-6, abs=1e-8)


def is_minimiser(line, t, limit, scale):
    """Slopes change their sign at t, or t is an end of [0, limit]."""
    slope = line.derivative(t)[0] if line.newton is None else line(t)[1]
    before = line.derivative(np.nextafter(t, -1.0))[0] if line.newton is None and t > 0.0 else slope
    rises = slope >= (0.0 if t == 0.0 else -1e-12 * scale)
    return (t == limit or rises) and (t == 0.0 or before <= 1e-12 * scale)


@each_piecewise
@pytest.mark.parametrize("kind", ["random", "ties", "heavy tailed", "one moves"])
def test_exact_search(loss, kind):
    """Of few examples, and of many, where it starts from a sample."""
    for seed, m in enumerate([*range(1, 25), 24, 20_000]):
        rng = np.random.default_rng(seed)
        f, z0, z1 = line_of(loss, m, rng, kind == "ties")
        if kind == "heavy tailed":
            f = LinearRisk(f.X, f.y, loss, rng.random(m) ** 40 + 1e-12)
        elif kind == "one moves":
            z1[np.arange(m) != m // 2] = z0[np.arange(m) != m // 2]
        line = f.line(z0, z1) + quadratic_line(0.0, -0.01 * (seed % 5), 0.02)
        limit = [math.inf, 1.0, 0.2][seed % 3]
        t = minimise_on_line(line, limit)
        scale = float(f.weights @ (np.abs(z1 - z0) * (1.0 + np.abs(z0)))) + 0.02
        assert 0.0 <= t <= limit and is_minimiser(line, t, limit, scale), (seed, t)


@each_smooth
@pytest.mark.parametrize("limit", [math.inf, 1.0])
def test_newton_search(loss, limit):
    for seed in range(60):
        rng = np.random.default_rng(seed)
        f, z0, z1 = line_of(loss, int(rng.integers(1, 40)), rng)
        x0, x1 = rng.standard_normal((2, 5)) * 10.0 ** rng.uniform(-2, 1)
        line = f.line(z0, z1) + quadratic_line(0.0, -0.1 * (seed % 3), 10.0 ** rng.uniform(-4, 1))
        if seed % 2:
            line = line + L1(10.0 ** rng.uniform(-3, 0)).line(x0, x1)
        t = minimise_on_line(line, limit)
        assert 0.0 <= t <= limit and (t == 0.0 or line(t * (1.0 - 1e-8))[1] <= 1e-9 * abs(line(0.0)[1])), seed
        assert t == limit or line(t * (1.0 + 1e-8) + 1e-14)[1] >= -1e-9 * abs(line(0.0)[1]), seed


@each_smooth
def test_a_newton_search_takes_few_passes(loss):
    f, z0, z1 = line_of(loss, 500, np.random.default_rng(3))
    line = f.line(0.3 * z0, 0.3 * z1 + 0.2 * f.y) + quadratic_line(0.0, -0.01, 0.01)
    calls = []

    def counted(t):
        calls.append(t)
        return line.newton(t)

    minimise_on_line(cut.lines.Line(line.evaluate, derivative=line.derivative, newton=counted), math.inf)
    assert len(calls) <= 7


class LogCosh(ScalarLoss):
    """A user's loss."""

    def value(self, t, y):
        return np.logaddexp(t - y, y - t) - np.log(2.0)

    def derivative(self, t, y):
        return np.tanh(t - y)


class Doubled(Hinge):
    """A subclass of a built-in loss that computes something else, so that its outline does not count."""

    def value(self, t, y):
        return 2.0 * np.maximum(0.0, 1.0 - y * t)

    def derivative(self, t, y):
        return self.directional(t, y, 1.0)

    def directional(self, t, y, d):
        s, pace = y * t, y * d
        return np.where((s < 1.0) | ((s == 1.0) & (pace < 0.0)), -2.0, 0.0) * pace


@pytest.mark.parametrize("loss", [LogCosh(), Doubled()], ids=["of a user", "a subclass"])
def test_losses_known_by_their_values(loss):
    rng = np.random.default_rng(0)
    y = np.where(rng.random(60) < 0.5, 1.0, -1.0)
    f = LinearRisk(
        rng.standard_normal((60, 3)), y, loss, rng.random(60) * (rng.random(60) < 0.8), intercept=True
    )
    w0, w1 = rng.standard_normal((2, 4))
    z0, z1 = f.image(w0), f.image(w1)
    assert f.values(z0) == pytest.approx(f.weights @ loss.value(z0, y))
    u = f.weights * loss.derivative(z0, y)
    np.testing.assert_allclose(f.slopes(z0), np.append(f.X.T @ u, u.sum()), atol=1e-14)
    line = f.line(z0, z1)
    assert line.derivative is None and line.newton is None
    assert line(0.4)[0] == pytest.approx(f.values(f.combine(z0, z1, 0.4)))
    t = minimise_on_line(line + quadratic_line(0.0, -0.5, 0.1), 2.0)
    assert t in (0.0, 2.0) or abs(line(t)[1] - 0.5 + 0.1 * t) < 1e-6 or isinstance(loss, Doubled)


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("loss", [Hinge(), Absolute(), Quantile(0.3), EpsilonInsensitive(0.2)], ids=repr)
@pytest.mark.parametrize("intercept", [False, True])
def test_remembered_subgradients_are_right(layout, loss, intercept, monkeypatch):
    from scipy import sparse

    partial = []
    add_rows = Data.add_rows
    monkeypatch.setattr(Data, "add_rows", lambda *args: partial.append(1) or add_rows(*args))
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 6)) * (rng.random((600, 6)) < 0.5)
    y = np.where(rng.random(600) < 0.5, 1.0, -1.0)
    f = LinearRisk(
        X if layout == "dense" else sparse.csr_array(X), y, loss, rng.random(600), intercept=intercept
    )
    w = rng.standard_normal(f.dim)
    z = f.image(w)
    for step in range(150):
        target = w + rng.standard_normal(f.dim)
        t = [0.02, 0.0, 1e-3, 0.9][step % 4]
        z, w = f.combine(z, f.image(target), t), w + t * (target - w)
        slope = f.slopes(z)
        fresh = f.slopes(f.image(w))
        np.testing.assert_allclose(slope, fresh, rtol=0, atol=1e-13)
        slope[:] = np.nan  # the caller's own
    assert len(partial) > 50


def test_a_running_sum_is_computed_from_all_rows_after_32_updates(monkeypatch):
    data, whole = make_data(np.ones((600, 2)), np.array([0, 600])), []
    passes = data.transposed_times
    monkeypatch.setattr(data, "transposed_times", lambda u: whole.append(1) or passes(u))
    total, u = RunningSum(data), np.ones(600)
    for k in range(66):
        u = np.where(np.arange(600) == k, 2.0, u)
        assert total(u).tolist() == [u.sum()] * 2
    assert len(whole) == 2


def test_nothing_is_remembered_of_an_overflow():
    f = LinearRisk(np.full((2, 1), 1e308), [1.0, 1.0], Absolute(), normalize=False)
    z = f.image(np.zeros(1))
    assert not f.slopes(z - 2.0 + 0.0).any()  # -1e308 - 1e308
    lifted = f.combine(z, z + 5.0, 1.0)
    assert f.slopes(lifted).tolist() == [0.0]
    lifted[1] = -5.0
    assert f.slopes(lifted).tolist() == [0.0] and np.isfinite(f.slopes(lifted)).all()


def test_memory_is_safe_in_threads():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((3000, 8)), np.where(rng.random(3000) < 0.5, 1.0, -1.0)
    f = LinearRisk(X, y, Hinge())
    start = f.image(np.zeros(8))
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(60):
            w = 0.05 * rng.standard_normal(8)
            slope = f.slopes(f.combine(start, f.image(w), 1.0))
            if np.abs(slope - f.slopes(f.image(w))).max() > 1e-12:
                wrong.append(w)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_second_run_gives_the_same_bits():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((3000, 8)), np.where(rng.random(3000) < 0.5, 1.0, -1.0)
    problem = cut.Problem(LinearRisk(X, y, Hinge()), cut.L2(1e-3))
    first, second = (problem.solve(cut.OCAS(), tol=1e-6) for _ in range(2))
    np.testing.assert_array_equal(first.x, second.x)
    assert first.lower_bound == second.lower_bound and first.certificate.verify().valid


class Tampered(LinearRisk):
    """A risk whose line claims something else about its derivative."""

    change = staticmethod(lambda line: {})

    def line(self, z0, z1):
        line = super().line(z0, z1)
        return replace(line, **type(self).change(line))


def without_kinks(line):
    whole = line.derivative.between(0.0, math.inf)
    return {"derivative": replace(whole, kinks=whole.kinks[::2], slope_jumps=whole.slope_jumps[::2])}


def without_bends(line):
    return {"derivative": replace(line.derivative.between(0.0, math.inf), curvature_jumps=None)}


@pytest.mark.parametrize(
    ("loss", "change", "passes"),
    [
        (Hinge(), lambda line: {}, True),
        (Huber(0.5), lambda line: {}, True),
        (Logistic(), lambda line: {}, True),
        (Hinge(), without_kinks, False),
        (Huber(0.5), without_bends, False),
        (SquaredHinge(), lambda line: {"derivative": 1.01 * line.derivative}, False),
        (Logistic(), lambda line: {"newton": lambda t: (1.01 * line.newton(t)[0], line.newton(t)[1])}, False),
        (Logistic(), lambda line: {"derivative": quadratic_line(0.0, 0.1, 0.0).derivative}, False),
    ],
)  # fmt: skip
def test_check_risk_finds_wrong_derivatives_of_lines(loss, change, passes, monkeypatch):
    rng = np.random.default_rng(0)
    monkeypatch.setattr(Tampered, "change", staticmethod(change))
    f = Tampered(rng.standard_normal((30, 3)), np.where(rng.random(30) < 0.5, 1.0, -1.0), loss)
    report = cut.testing.check_risk(f, raise_on_failure=False)
    assert bool(report) == passes, report

"""The compiled losses against the losses themselves, and their proximal maps against optimality."""

import math
import subprocess
import sys
import textwrap
from pathlib import Path

import cvxpy as cp
import numpy as np
import own_losses
import pytest
from covering import covering
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from own_losses import outlines

from cutplane import BMRM, L2, OCAS, LinearRisk, Problem, ProximalBundle
from cutplane.linear import CoordinateAscent
from cutplane.losses import (
    Absolute,
    Exponential,
    Hinge,
    Logistic,
    Poisson,
    ScalarLoss,
    compiling,
)
from cutplane.losses.inlined import exp, log1p
from cutplane.losses.weighted import CompiledLoss, WeightedLoss, weighted_loss

PIECEWISE = [*own_losses.BUILT_IN, *own_losses.PIECEWISE]
SMOOTH = [Logistic(), Exponential(), Poisson(), *own_losses.SMOOTH]
UNIVARIATE = [loss for loss in (*PIECEWISE, *SMOOTH) if not isinstance(loss, Poisson)]
each_univariate = pytest.mark.parametrize("loss", UNIVARIATE, ids=str)
each_loss = pytest.mark.parametrize("loss", [*PIECEWISE, *SMOOTH], ids=str)


class Outlined(ScalarLoss):
    """A loss of given pieces."""

    def __init__(self, phi, variable):
        self.phi, self.variable = phi, variable

    def outline(self):
        return self.phi


def compiled(loss):
    """At some targets that suit it."""
    return compiling.compiled(loss, own_losses.targets(loss, 20, np.random.default_rng(0)))


def phi_of(loss):
    """phi(s) and its derivatives to the left and to the right."""
    y = 1.0 if loss.variable == "margin" else 0.0
    return (
        lambda s: float(loss.value(s, y)),
        lambda s: (-float(loss.directional(s, y, -1.0)), float(loss.directional(s, y, 1.0))),
    )


def dual_prox(loss, s, q, start=None):
    """The compiled one, as a function of the argument of phi."""
    code, y = compiled(loss), 1.0 if loss.variable == "margin" else 0.0
    return code.passes["dual_prox"](code.numbers, s, y, q, s if start is None else start)


@each_univariate
@settings(deadline=None, max_examples=25)
@given(
    s=st.one_of(st.floats(-30, 30), st.integers(-4, 4).map(lambda k: k / 4.0)),
    q=st.one_of(st.floats(-8, 8).map(lambda e: 10.0**e), st.sampled_from([0.0, 0.5, 1.0, 2.0])),
    start=st.none() | st.floats(-40, 40),
)
def test_dual_prox_is_optimal(loss, s, q, start):
    """The slope v of phi at r = s - q v; and phi(r) + phi*(v) = r v, so that neither can be wrong alone."""
    value, slopes = phi_of(loss)
    v = dual_prox(loss, s, q, start)
    r = s - q * v
    near = 1e-12 * (1.0 + abs(r) + abs(s))
    low, high = slopes(r - near)[0], slopes(r + near)[1]
    slack = 1e-9 * (abs(low) + (loss.outline() is None))
    assert low - slack <= v <= high + slack
    fenchel = value(r) + float(loss.conjugate(v, 1.0 if loss.variable == "margin" else 0.0)) - r * v
    assert fenchel == pytest.approx(0.0, abs=1e-9 * (1.0 + abs(value(r)) + abs(r * v)))


@pytest.mark.parametrize("loss", [Logistic(), Exponential()], ids=repr)
def test_dual_prox_of_smooth_losses_to_full_precision(loss):
    rng = np.random.default_rng(0)
    s, q = rng.standard_normal(500) * 10.0 ** rng.uniform(-2, 2, 500), 10.0 ** rng.uniform(-8, 8, 500)
    for si, qi in zip(s, q, strict=True):
        v = np.longdouble(dual_prox(loss, si, qi))
        if v == 0.0 or (v < -1 + 1e-9 and isinstance(loss, Logistic)):
            continue
        gap = si - qi * v + np.log(-v) - (np.log1p(v) if isinstance(loss, Logistic) else 0.0)
        bend = -qi + 1.0 / v - (1.0 / (1.0 + v) if isinstance(loss, Logistic) else 0.0)
        assert abs(gap / bend / v) <= 1e-15 * (10.0 + abs(si) + abs(si - qi * v)), (si, qi)


def examples(loss, m, rng):
    z = rng.standard_normal(m) * 10.0 ** rng.uniform(-2, 1, m)
    y = own_losses.targets(loss, m, rng)
    z[: m // 5] = rng.integers(-4, 5, m // 5) / 4.0  # on the knots
    if loss.variable == "residual":
        z[: m // 5] += y[: m // 5]
    return z, y, rng.random(m) * (rng.random(m) < 0.9)


@pytest.mark.every
@pytest.mark.parametrize(
    ("loss", "m", "blocks"), covering([*PIECEWISE, *SMOOTH], [7, 1000, 100_000], [1, 3]), ids=str
)
def test_compiled_sums_are_those_of_the_loss(loss, m, blocks):
    z, y, weights = examples(loss, m, np.random.default_rng(m))
    edges = np.arange(blocks + 1) * m // blocks
    fast, slow = CompiledLoss(compiled(loss), loss, y, weights, edges), WeightedLoss(loss, y, weights, edges)
    np.testing.assert_allclose(fast.values(z), slow.values(z), rtol=1e-13)
    np.testing.assert_allclose(fast.derivatives(z), slow.derivatives(z), rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(fast.second_derivatives(z), slow.second_derivatives(z), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(fast.combine(z, y, 0.3), z + 0.3 * (y - z), rtol=1e-14, atol=1e-15)
    strided = np.repeat(z, 2)[::2]
    np.testing.assert_array_equal(fast.values(strided), fast.values(z))


@settings(deadline=None, max_examples=25)
@given(outlines(), st.sampled_from(["margin", "residual"]), st.integers(0, 10**6))
def test_passes_over_any_pieces(case, variable, seed):
    """Values, both derivatives, and both along a line, of loops and of numpy."""
    loss, rng = Outlined(case[0], variable), np.random.default_rng(seed)
    y = own_losses.targets(loss, 40, rng)
    y = y if variable == "margin" else np.round(4.0 * y) / 4.0
    z0, z1 = rng.integers(-24, 25, (2, 40)) / 8.0
    weights = rng.integers(0, 4, 40) / 4.0
    arguments = loss, y, weights, np.array([0, 25, 40])
    fast, slow = CompiledLoss(compiled(loss), *arguments), WeightedLoss(*arguments)
    for name in ("values", "derivatives", "second_derivatives"):
        np.testing.assert_allclose(getattr(fast, name)(z0), getattr(slow, name)(z0), rtol=1e-12, atol=1e-12)
    for low, high in ((0.0, math.inf), (0.25, 0.75), (0.5, 0.5)):
        parts = [one.line(z0, z1).derivative.between(low, high) for one in (fast, slow)]
        kinks = []
        for part in parts:
            bends = np.zeros(part.kinks.size) if part.curvature_jumps is None else part.curvature_jumps
            rows = np.column_stack([part.kinks, part.slope_jumps, bends])
            rows = rows[(np.abs(rows[:, 1:]) > 1e-12).any(axis=1)]
            kinks.append(rows[np.lexsort(rows.T[::-1])])
        np.testing.assert_allclose(*kinks, rtol=1e-12, atol=1e-12)
        assert parts[0].slope == pytest.approx(parts[1].slope, abs=1e-11)
        assert parts[0].curvature == pytest.approx(parts[1].curvature, abs=1e-11)


@each_loss
def test_compiled_sums_at_extreme_predictions(loss):
    y = np.array([1.0, 1.0, -1.0, -1.0]) if loss.variable == "margin" else np.array([0.0, 1.0, 2.0, 3.0])
    arguments = loss, y, np.ones(4), np.arange(5)
    fast, slow = CompiledLoss(compiled(loss), *arguments), WeightedLoss(*arguments)
    for scale in (1e-300, 1e-8, 40.0, 700.0, 1e3, 1e5, 1e150, np.inf):
        for z in (np.full(4, scale), np.full(4, -scale), scale * np.array([1.0, -1.0, 1.0, -1.0])):
            with np.errstate(all="ignore"):
                expected, slopes = slow.values(z), slow.derivatives(z)
            np.testing.assert_allclose(fast.values(z), expected, rtol=1e-13)
            if np.isfinite(scale):
                np.testing.assert_allclose(fast.derivatives(z), slopes, rtol=1e-13, atol=1e-300)


def test_a_prediction_within_rounding_of_a_kink_is_at_the_kink():
    for loss, y, kink in [
        (Hinge(), 1.0, 1.0),
        (Hinge(), -1.0, -1.0),
        (Absolute(), 3.0, 3.0),
    ]:
        arguments = loss, np.array([y]), np.ones(1), np.array([0, 1])
        for one in (WeightedLoss(*arguments), CompiledLoss(compiled(loss), *arguments)):
            slopes = {float(one.derivatives(np.array([kink * (1.0 + k * 4e-16)]))[0]) for k in range(-8, 9)}
            assert len(slopes) == 1
            assert one.derivatives(np.array([kink - 1e-9])) != one.derivatives(np.array([kink + 1e-9]))


def test_what_is_compiled():
    for loss in (*PIECEWISE, *SMOOTH, own_losses.Kinked()):
        assert compiled(loss) is not None
    assert "along" not in compiled(own_losses.Kinked()).passes
    assert compiled(own_losses.Opaque()) is None
    y = np.ones(2000)
    for loss, kind in ((own_losses.Opaque(), WeightedLoss), (own_losses.Kinked(), CompiledLoss)):
        assert type(weighted_loss(loss, y, y, np.array([0, 2000]))) is kind
        assert type(weighted_loss(loss, y[:500], y[:500], np.array([0, 500]))) is WeightedLoss
        risk = LinearRisk(np.ones((2000, 1)), y, loss)
        risk.oracle(np.zeros(1))
        assert ("not compiled" in repr(risk)) == (kind is WeightedLoss)


def test_methods_with_the_same_code_and_other_constants_are_told_apart():
    def make(factor):
        class Scaled(ScalarLoss):
            def value(self, t, y):
                return factor * (t - y) ** 2

            def derivative(self, t, y):
                return 2.0 * factor * (t - y)

        return Scaled()

    y, z, edges = np.ones(5), np.linspace(-1.0, 1.0, 5), np.array([0, 5])
    for factor in (1.0, 3.0):
        fast = CompiledLoss(compiled(make(factor)), make(factor), y, y, edges)
        assert compiled(make(factor)).tag is None
        np.testing.assert_allclose(fast.values(z), factor * ((z - y) ** 2).sum())


def test_numbers_of_any_object_are_arguments():
    class Scaled(ScalarLoss):
        def __init__(self, scale):
            self._scale = scale

    code = "def value(self, t, y): return self._scale * (t - y) ** 2"
    code += "\ndef derivative(self, t, y): return 2 * self._scale * (t - y)"
    methods = {}
    exec(code, {}, methods)
    for method, function in methods.items():
        setattr(Scaled, method, function)
    y, z = np.ones(5), np.linspace(-1.0, 1.0, 5)
    for scale in (2, 0.5, np.float32(3.0), True):
        fast = CompiledLoss(compiled(Scaled(scale)), Scaled(scale), y, y, np.array([0, 5]))
        np.testing.assert_allclose(fast.values(z), scale * ((z - y) ** 2).sum())


def test_a_compiled_loss_that_says_something_else_is_not_used():
    class Scaled(ScalarLoss):
        pass

    names = {"SCALE": 2.0}
    exec("def value(self, t, y): return SCALE * (t - y) ** 2", names)
    exec("def derivative(self, t, y): return 2.0 * SCALE * (t - y)", names)
    Scaled.value, Scaled.derivative = names["value"], names["derivative"]
    assert compiled(Scaled()) is not None
    names["SCALE"] = 3.0
    assert compiled(Scaled()) is None


def test_numbers_of_the_loss_are_arguments():
    y, z, edges = np.ones(5), np.linspace(-1.0, 1.0, 5), np.array([0, 5])
    codes = [compiled(own_losses.LogCosh(scale)) for scale in (0.5, 2.0)]
    assert codes[0].passes["values"] is codes[1].passes["values"] and codes[0].tag == codes[1].tag
    for scale, code in zip((0.5, 2.0), codes, strict=True):
        found = CompiledLoss(code, own_losses.LogCosh(scale), y, y, edges).values(z)
        np.testing.assert_allclose(found, own_losses.LogCosh(scale).value(z, y).sum())


@pytest.mark.slow
def test_other_processes_need_not_compile_again(tmp_path):
    program = """
        import numpy as np, own_losses
        from cutplane.losses.compiling import compiled
        for loss in (own_losses.LogCosh(3.0),):
            code = compiled(loss, np.array([-1.0, 1.0]))
            print(code.tag, sum(sum(one.stats.cache_hits.values()) for one in code.passes.values()))
    """
    root = Path(__file__).parents[2]
    environment = {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": f"{root}:{root / 'tests'}"}
    runs = [
        subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)],
            env=environment, capture_output=True, text=True, check=True,
        ).stdout.split()
        for _ in range(2)
    ]  # fmt: skip
    assert runs[0][::2] == runs[1][::2] and "None" not in runs[0]
    assert runs[0][1::2] == ["0"] and runs[1][1::2] == ["3"]


@pytest.mark.parametrize("m", [300, 3000])
def test_the_same_loss_by_another_name_takes_the_same_steps(m):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((m, 8))
    y = np.sign(X @ rng.standard_normal(8) + rng.standard_normal(m))
    for lam, method in ((1e-1, CoordinateAscent()), (1e-4, ProximalBundle())):  # "auto" depends on the clock
        results = [
            Problem(LinearRisk(X, y, loss), L2(lam)).solve(method, tol=1e-6)
            for loss in (Hinge(), own_losses.SubHinge(), own_losses.CopiedHinge())
        ]
        steps = [[record.step for record in result.history] for result in results]
        assert steps[0] == steps[1] == steps[2]
        for result in results[1:]:
            np.testing.assert_array_equal(result.x, results[0].x)


@pytest.mark.parametrize(
    ("loss", "method", "shape"),
    covering(
        [*own_losses.PIECEWISE[2:], own_losses.LogCosh()],
        ["auto", OCAS(second_cut=True), BMRM(), ProximalBundle()],
        [(40, 6), (700, 6), (30, 50)],
    ),
    ids=str,
)
def test_every_method_solves_a_loss_of_the_users(loss, method, shape):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal(shape), own_losses.targets(loss, shape[0], rng)
    risk, regularizer = LinearRisk(X, y, loss, intercept=True), L2(0.05)
    result = Problem(risk, regularizer).solve(method, tol=1e-6)
    x = cp.Variable(risk.dim)
    best = cp.Problem(cp.Minimize(risk.cvxpy_form(x) + regularizer.cvxpy_form(x))).solve(solver=cp.CLARABEL)
    assert abs(result.objective - best) <= 2e-6 * abs(best)
    if result.status == "OPTIMAL":
        assert result.lower_bound <= best + 1e-7 * abs(best) and result.certificate.verify().valid
    else:
        assert isinstance(method, ProximalBundle)


@njit
def _map(function, x):
    out = np.empty_like(x)
    for i in range(x.shape[0]):
        out[i] = function(x[i])
    return out


def test_exp_and_log1p():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-700, 700, 20_000), rng.uniform(-1, 1, 20_000), [0.0, -0.0, 709.7]])
    exact = np.exp(x.astype(np.longdouble))
    assert np.abs((_map(exp, x) - exact) / exact).max() < 2.5e-16
    np.testing.assert_array_equal(
        _map(exp, np.array([710.0, 1e300, np.inf, -746.0, -np.inf])), [np.inf] * 3 + [0.0] * 2
    )
    assert math.isnan(_map(exp, np.array([np.nan]))[0])
    assert _map(exp, np.array([-740.0]))[0] == pytest.approx(math.exp(-740.0))
    e = np.concatenate([rng.random(20_000), 10.0 ** rng.uniform(-300, 0, 20_000), [0.0, 1.0]])
    exact = np.log1p(e.astype(np.longdouble))
    found = _map(log1p, e)
    assert found[-2] == 0.0
    assert np.abs((found[:-2] - exact[:-2]) / exact[:-2]).max() < 5e-16 and found[-1] == pytest.approx(
        math.log(2.0)
    )

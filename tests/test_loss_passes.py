"""The compiled losses against the losses themselves, and their proximal maps against optimality."""

import math

import numpy as np
import pytest
from cutplane.losses.kernels import PIECEWISE, conjugate, dual_prox, kernel_form, prox
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from cutplane.losses import (
    Absolute,
    EpsilonInsensitive,
    Exponential,
    Hinge,
    Huber,
    Logistic,
    ModifiedHuber,
    Poisson,
    Quantile,
    ScalarLoss,
    Squared,
    SquaredEpsilonInsensitive,
    SquaredHinge,
)
from cutplane.losses.elementary import exp, log1p
from cutplane.losses.passes import profile
from cutplane.risks.compiled_loss import CompiledLoss, weighted_loss
from cutplane.risks.weighted_loss import WeightedLoss

BINARY = [Hinge(), SquaredHinge(), ModifiedHuber(), Logistic(), Exponential()]
RESIDUAL = [
    Squared(),
    Absolute(),
    Quantile(0.9),
    EpsilonInsensitive(0.25),
    EpsilonInsensitive(0.0),
    SquaredEpsilonInsensitive(0.25),
    Huber(0.25),
]
UNIVARIATE = [*BINARY, *RESIDUAL]
each_univariate = pytest.mark.parametrize("loss", UNIVARIATE, ids=repr)
each_loss = pytest.mark.parametrize("loss", [*UNIVARIATE, Poisson()], ids=repr)


def phi_of(loss):
    """phi(s) and its derivatives to the left and to the right."""
    y = 1.0 if loss in BINARY else 0.0
    return (
        lambda s: float(loss.value(s, y)),
        lambda s: (-float(loss.directional(s, y, -1.0)), float(loss.directional(s, y, 1.0))),
    )


def arguments(loss):
    form = kernel_form(loss)
    return form.kind, form.knots, form.pieces


@each_univariate
@settings(deadline=None, max_examples=150)
@given(
    s=st.one_of(st.floats(-30, 30), st.integers(-4, 4).map(lambda k: k / 4.0)),
    q=st.one_of(st.floats(-8, 8).map(lambda e: 10.0**e), st.sampled_from([0.0, 0.5, 1.0, 2.0])),
)
def test_prox_is_optimal(loss, s, q):
    _, slopes = phi_of(loss)
    r, v = prox(*arguments(loss), s, q), dual_prox(*arguments(loss), s, q)
    assert r == pytest.approx(s - q * v, rel=1e-12, abs=1e-12 * (1 + q * abs(v)))
    near = 1e-12 * (1.0 + abs(r) + abs(s))
    low, high = slopes(r - near)[0], slopes(r + near)[1]
    assert low - 1e-9 * abs(low) <= v <= high + 1e-9 * abs(high)
    if q == 0.0:
        assert r == s


@each_univariate
@settings(deadline=None, max_examples=150)
@given(s=st.floats(-20, 20), q=st.floats(-6, 6).map(lambda e: 10.0**e))
def test_dual_prox_closes_the_gap(loss, s, q):
    """phi(r) + phi*(v) = r v at the solution: neither can be wrong without the other."""
    value, _ = phi_of(loss)
    r, v = prox(*arguments(loss), s, q), dual_prox(*arguments(loss), s, q)
    v = min(max(v, -1e300), 1e300)
    fenchel = value(r) + conjugate(*arguments(loss), v) - r * v
    assert fenchel == pytest.approx(0.0, abs=1e-9 * (1.0 + abs(value(r)) + abs(r * v)))


@pytest.mark.parametrize("loss", [Logistic(), Exponential()], ids=repr)
def test_dual_prox_of_smooth_losses_to_full_precision(loss):
    rng = np.random.default_rng(0)
    s, q = rng.standard_normal(2000) * 10.0 ** rng.uniform(-2, 2, 2000), 10.0 ** rng.uniform(-8, 8, 2000)
    for si, qi in zip(s, q, strict=True):
        v = np.longdouble(dual_prox(*arguments(loss), si, qi))
        if v == 0.0 or (v < -1 + 1e-9 and isinstance(loss, Logistic)):
            continue
        gap = si - qi * v + np.log(-v) - (np.log1p(v) if isinstance(loss, Logistic) else 0.0)
        bend = -qi + 1.0 / v - (1.0 / (1.0 + v) if isinstance(loss, Logistic) else 0.0)
        assert abs(gap / bend / v) <= 1e-15 * (10.0 + abs(si)), (si, qi)


@each_univariate
def test_conjugate_is_that_of_the_loss(loss):
    y = 1.0 if loss in BINARY else 0.0
    for v in np.append(np.linspace(-5.0, 3.0, 641), [-0.9, 0.1, -0.1]):
        expected = float(loss.conjugate(v, y))
        assert conjugate(*arguments(loss), v) == pytest.approx(expected, rel=1e-14, abs=1e-14), v


def test_what_has_a_kernel_form():
    class Custom(ScalarLoss):
        def value(self, t, y):
            return t

        def derivative(self, t, y):
            return 1.0

    class Own(Hinge):
        pass

    assert kernel_form(Custom()) is None and kernel_form(Own()) is None
    assert kernel_form(Hinge()).uses_margin and not kernel_form(Huber()).uses_margin
    for loss in UNIVARIATE:
        form = kernel_form(loss)
        assert form.pieces.shape == ((form.knots.size + 1, 3) if form.kind == PIECEWISE else (0, 3))


@each_univariate
def test_a_profile_is_the_loss(loss):
    form = kernel_form(loss)
    if form.kind != PIECEWISE:
        return
    low, high, left, right, a, centre, tail = profile(form)
    value, _ = phi_of(loss)
    for s in np.append(np.linspace(-3, 3, 97), form.knots):
        inside = min(max(s, low), high)
        beyond = s - inside
        found = a * (inside - centre) ** 2 + (left if s < low else right) * beyond + tail * beyond**2
        assert found == pytest.approx(value(s), abs=1e-14)


def examples(loss, m, rng):
    z = rng.standard_normal(m) * 10.0 ** rng.uniform(-2, 1, m)
    y = np.where(rng.random(m) < 0.5, 1.0, -1.0)
    if loss not in BINARY:
        y = rng.poisson(2.0, m) / 1.0
        z[: m // 5] = y[: m // 5] + rng.integers(-4, 5, m // 5) / 4.0  # on the knots
    else:
        z[: m // 5] = rng.integers(-2, 3, m // 5)
    return z, y, rng.random(m) * (rng.random(m) < 0.9)


@each_loss
@pytest.mark.parametrize("m", [1, 7, 1000, 100_000])
@pytest.mark.parametrize("blocks", [1, 3])
def test_compiled_sums_are_those_of_the_loss(loss, m, blocks):
    z, y, weights = examples(loss, m, np.random.default_rng(m))
    edges = np.arange(min(blocks, m) + 1) * m // min(blocks, m)
    fast, slow = weighted_loss(loss, y, weights, edges), WeightedLoss(loss, y, weights, edges)
    assert isinstance(fast, CompiledLoss)
    np.testing.assert_allclose(fast.values(z), slow.values(z), rtol=1e-13)
    np.testing.assert_allclose(fast.derivatives(z), slow.derivatives(z), rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(fast.combine(z, y, 0.3), z + 0.3 * (y - z), rtol=1e-14, atol=1e-15)
    strided = np.repeat(z, 2)[::2]
    np.testing.assert_array_equal(fast.values(strided), fast.values(z))


@each_loss
def test_compiled_sums_at_extreme_predictions(loss):
    y = np.array([1.0, 1.0, -1.0, -1.0]) if loss in BINARY else np.array([0.0, 1.0, 2.0, 3.0])
    edges = np.arange(5)
    fast, slow = (kind(loss, y, np.ones(4), edges) for kind in (CompiledLoss, WeightedLoss))
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
        fast = weighted_loss(loss, np.array([y]), np.ones(1), np.array([0, 1]))
        slopes = {float(fast.derivatives(np.array([kink + k * 1e-15]))[0]) for k in range(-20, 21)}
        assert len(slopes) == 1
        assert fast.derivatives(np.array([kink - 1e-9])) != fast.derivatives(np.array([kink + 1e-9]))


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

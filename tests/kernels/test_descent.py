"""Solves of the dual of a kernel machine: working sets that grow, and starts that are scaled."""

from typing import Any

import numpy as np
import pytest

import cutplane as cut
from cutplane.kernels import Gaussian, KernelRisk, NuRisk
from cutplane.kernels.descent import Descent, within
from cutplane.kernels.dual import dual_form
from cutplane.kernels.rows import DenseRows
from cutplane.losses import EpsilonInsensitive, Hinge, SquaredHinge


def separable(m, d=4, seed=0):
    """Return two clouds of points that overlap a little."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(m) < 0.4, 1.0, -1.0)
    return rng.standard_normal((m, d)) + 1.5 * y[:, np.newaxis], y


def solved(risk, C, tol) -> Any:
    return cut.Problem(risk, risk.squared_norm(1.0 / (C * risk.y.size))).solve(tol=tol)


def test_few_rows_are_computed_where_few_examples_are_support_vectors():
    X, y = separable(3000)
    risk: Any = KernelRisk(X, y, Hinge(), Gaussian(4.0))
    result = solved(risk, 10.0, 1e-4)
    support = np.count_nonzero(result.x[:-1])
    assert result.status == "OPTIMAL"
    assert support < 150
    assert risk.gram.cache.filled < 600


def test_all_rows_of_few_examples_are_computed_at_once(monkeypatch):
    X, y = separable(300)
    risk = KernelRisk(X, y, Hinge(), Gaussian(2.0))
    counts, rows = [], risk.gram.rows
    monkeypatch.setattr(
        risk.gram, "rows", lambda chosen, out=None: counts.append(chosen.size) or rows(chosen, out)
    )
    assert solved(risk, 1.0, 1e-4).status == "OPTIMAL"
    assert counts == [300]


@pytest.mark.parametrize("intercept", [True, False])
def test_nothing_outside_violates_the_conditions_at_the_end(intercept):
    X, y = separable(2000, seed=2)
    gram = KernelRisk(X, y, Hinge(), Gaussian(4.0)).gram
    descent = Descent(dual_form(Hinge(), y, 1.0, intercept), gram.cache, np.zeros(y.size))
    descent.grow(0.0)
    missing = gram.cache.where < 0
    up, down = descent.g - descent.rise, descent.fall - descent.g
    most, least = (up.max(), down.max()) if intercept else (0.0, 0.0)
    assert missing.any()
    assert (up[missing] + least <= 0.0).all()
    assert (down[missing] + most <= 0.0).all()
    np.testing.assert_allclose(descent.g, y - gram.matrix() @ descent.a, atol=1e-10)


@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge(), EpsilonInsensitive(0.1)])
@pytest.mark.parametrize("factor", [1.5, 30.0])
def test_a_start_is_scaled_to_where_the_dual_is_largest(loss, factor):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((200, 3)), np.sign(rng.standard_normal(200))
    gram = KernelRisk(X, y, loss, Gaussian(1.0)).gram
    solution = Descent(dual_form(loss, y, 0.01), gram.cache, np.zeros(200))
    solution.run(1e-6)
    form = dual_form(loss, y, 0.01 * factor)
    descent = Descent(form, gram.cache, solution.a.copy())
    before = descent.dual_value
    descent.rescale()
    scale = float(np.abs(descent.a).max() / np.abs(solution.a).max())
    assert scale > 1.0
    assert descent.dual_value > before
    assert (descent.a >= form.lower).all() and (descent.a <= form.upper).all()
    np.testing.assert_allclose(descent.a, scale * solution.a, rtol=1e-12)
    np.testing.assert_allclose(
        descent.g, form.linear - gram.matrix() @ descent.a - form.ridge * descent.a, atol=1e-12
    )
    inside = bool((np.abs(descent.a) < np.maximum(form.upper, -form.lower)).all())
    assert inside == (abs(descent.a @ descent.g - form.tube * np.abs(descent.a).sum()) < 1e-9)


@pytest.mark.parametrize("task", ["machine", "classification", "regression", "novelty"])
def test_a_refresh_restores_the_sums(task):
    X, y = separable(60)
    if task == "machine":
        form = dual_form(Hinge(), y, 1.0)
    else:
        form = NuRisk(X, None if task == "novelty" else y, 0.4, Gaussian(1.0), task).dual(0.1)
    descent = Descent(form, DenseRows(Gaussian(1.0)(X)), form.feasible(0.3 * y))
    for part in np.split(np.arange(descent.a.size), len(form.sums)):
        k = part[np.argmax(descent.a[part] - form.lower[part])]
        descent.a[k] -= 1e-7
    descent.is_fresh = False
    descent.refresh()
    assert (descent.a >= form.lower).all() and (descent.a <= form.upper).all()
    assert descent.a.reshape(len(form.sums), -1).sum(axis=1) == pytest.approx(form.sums, rel=1e-14, abs=1e-15)


@pytest.mark.parametrize("size", [1.0, 1e4])
@pytest.mark.parametrize("unbounded", ["", "above", "both"])
@pytest.mark.parametrize("seed", range(3))
def test_a_point_within_bounds_has_the_sum_and_is_one_shift_away(seed, unbounded, size):
    rng = np.random.default_rng(seed)
    low, high = -rng.random(50), rng.random(50)
    high[: 50 * bool(unbounded) : 2] = np.inf
    low[: 50 * (unbounded == "both")] = -np.inf
    a, groups = size * rng.standard_normal(50), np.arange(50)[:, np.newaxis] % 2 == [0, 1]
    like = np.repeat([0.3, -0.1], [25, 25]) / 25.0
    found = within(a, low, high, groups, like)
    assert found is not None
    assert (low <= found).all() and (found <= high).all()
    for group in groups.T:
        assert found[group].sum() == pytest.approx(like[group].sum(), abs=1e-11 * size)
        shifts = (found - a)[group & (low < found) & (found < high)]
        assert not shifts.size or np.ptp(shifts) < 1e-11 * size
    np.testing.assert_array_equal(within(a, low, high, groups[:, :0], like), np.clip(a, low, high))


def test_a_sum_out_of_reach_gives_no_point_within_bounds():
    assert within(np.zeros(3), -np.ones(3), np.ones(3), np.ones((3, 1), bool), np.full(3, 2.0)) is None


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("loss", [Hinge(), EpsilonInsensitive(0.1)])
def test_a_newton_step_takes_many_coordinates_to_their_bounds(loss, intercept):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    y = np.sign(X[:, 0] + rng.standard_normal(200))
    K = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2) / 0.5)
    form = dual_form(loss, y, 1.0, intercept)
    a = form.feasible(0.5 * y)
    descent = Descent(form, DenseRows(K), a)
    total, value = float(a.sum()), descent.dual_value
    assert descent._newton_step()
    ends = (a == form.lower) | (a == form.upper) | (a == 0.0)
    assert np.count_nonzero(ends) > 10
    assert (a >= form.lower).all() and (a <= form.upper).all()
    assert not intercept or abs(float(a.sum()) - total) < 1e-10
    known = descent.dual_value
    descent.refresh()
    assert descent.dual_value == pytest.approx(known, rel=1e-10)
    assert descent.dual_value > value

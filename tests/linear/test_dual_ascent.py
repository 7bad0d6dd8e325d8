"""Dual coordinate ascent and the cuts of its multipliers, against the losses' conjugates and whole solves."""

import cvxpy as cp
import numpy as np
import pytest
from covering import covering
from hypothesis import example, given, settings
from hypothesis import strategies as st
from linear_cases import LAYOUTS, LOSSES, instance
from own_losses import Kinked, LogCosh
from scipy import sparse

import cutplane
from cutplane import L1, L2, Box, LinearRisk, MissingCapabilityError, Portfolio, Problem, Status
from cutplane.linear import CoordinateAscent
from cutplane.linear.dual_ascent import DualAscent
from cutplane.losses import (
    Hinge,
    Logistic,
    Quantile,
    ScalarLoss,
)
from cutplane.losses.compiling import compiled
from cutplane.pieces.capabilities import Capability, offers


def ascent_of(risk, quadratic, multipliers=None):
    code = compiled(risk.loss, risk.y)
    start = np.zeros(risk.y.size) if multipliers is None else multipliers
    return None if code is None else DualAscent(code, risk, quadratic, start)


def point_of(risk, lam, u, x):
    """-X'(c u) / lam; the bias stays: its proximal centre follows it."""
    X = risk.X.toarray() if sparse.issparse(risk.X) else risk.X
    return np.append(-X.T.astype(np.float64) @ (risk.weights * u) / lam, x[risk.X.shape[1] :])


def dual_value(risk, lam, u):
    slopes, offsets = risk.dual_cut(u)
    return float(offsets[0] - slopes[0] @ slopes[0] / (2.0 * lam))


@pytest.mark.parametrize(
    ("loss", "layout", "intercept"),
    covering([Hinge(), Logistic()], LAYOUTS, [False, True])
    + covering(LOSSES, ["csr"], [False, True])
    + [pytest.param(loss, "dense", True, marks=pytest.mark.slow) for loss in LOSSES],  # compiled for each
    ids=str,
)
def test_every_epoch_raises_the_dual_up_to_the_optimum(loss, layout, intercept):
    lam = 0.05
    risk = instance(loss, layout, intercept=intercept)
    ascent = ascent_of(risk, L2(lam).quadratic(risk.dim))
    values = [dual_value(risk, lam, ascent.multipliers)]
    for _ in range(100):
        assert ascent.run(5) > 0.0
        values.append(dual_value(risk, lam, ascent.multipliers))
        assert values[-1] >= values[-2] - 1e-13 * (1.0 + abs(values[-2]))
    objective = risk.oracle(ascent.x)[0] + L2(lam).value(ascent.x)
    assert values[-1] <= objective + 1e-12
    assert objective - values[-1] <= 1e-4 * abs(objective)
    np.testing.assert_allclose(ascent.x, point_of(risk, lam, ascent.multipliers, ascent.x), atol=1e-11)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_multipliers_of_another_weight_are_rescaled(loss):
    risk, lam = instance(loss), 1e-3
    before = ascent_of(risk, L2(100.0 * lam).quadratic(risk.dim))
    before.run(30)
    given = before.multipliers
    started = ascent_of(risk, L2(lam).quadratic(risk.dim), given)
    assert dual_value(risk, lam, started.multipliers) > dual_value(risk, lam, given)
    np.testing.assert_allclose(started.x, point_of(risk, lam, started.multipliers, started.x), atol=1e-11)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("lam", [1e-4, 1.0, 1e4])
def test_slopes_at_a_point_are_a_better_start_than_zeros(loss, lam):
    risk = instance(loss)
    quadratic, origin = L2(lam).quadratic(risk.dim), np.zeros(risk.dim)
    u, slope = loss.derivative(risk.image(origin), risk.y), risk.oracle(origin)[1]
    started, computed = (
        DualAscent(compiled(loss, risk.y), risk, quadratic, u, known) for known in (slope, None)
    )
    best = dual_value(risk, lam, started.multipliers)
    assert best >= dual_value(risk, lam, np.zeros(risk.y.size)) - 1e-15
    np.testing.assert_allclose(started.x, computed.x, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(started.x, point_of(risk, lam, started.multipliers, started.x), atol=1e-11)
    if lam == 1e4:  # where they are nearly optimal
        assert risk.oracle(started.x)[0] + L2(lam).value(started.x) - best <= 1e-3 * abs(best)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize(("blocks", "intercept"), [(1, False), (3, True)])
def test_the_cut_of_the_derivatives_is_the_cut_of_the_oracle(loss, blocks, intercept):
    risk = instance(loss, blocks=blocks, intercept=intercept)
    x = np.random.default_rng(1).standard_normal(risk.dim)
    values, slopes = risk.oracle(x)
    cut_slopes, offsets = risk.dual_cut(loss.derivative(risk.image(x), risk.y))
    np.testing.assert_allclose(cut_slopes, np.reshape(slopes, cut_slopes.shape), atol=1e-13)
    np.testing.assert_allclose(cut_slopes @ x + offsets, np.ravel(values), atol=1e-12)


@given(st.integers(0, 10**6), st.sampled_from(LOSSES), st.floats(0.0, 1.0))
@settings(max_examples=25, deadline=None)
@example(1, Quantile(0.8), 1.192092896e-07)
def test_the_cut_of_any_multipliers_lies_below_the_risk(seed, loss, t):
    risk = instance(loss, seed=seed % 7, blocks=2)
    rng = np.random.default_rng(seed)
    one, other, x = (3.0 * rng.standard_normal(risk.dim) for _ in range(3))
    u = t * loss.derivative(risk.image(one), risk.y) + (1.0 - t) * loss.derivative(risk.image(other), risk.y)
    slopes, offsets = risk.dual_cut(u)
    values = risk.oracle(x)[0]
    assert (slopes @ x + offsets <= values + 1e-9 * (1.0 + np.abs(values))).all()


def test_multipliers_outside_the_domain_give_no_cut():
    risk = instance(Hinge())
    assert risk.dual_cut(np.full(40, 0.5))[1] == -np.inf


@pytest.mark.parametrize(
    ("loss", "bias", "shape"), covering(LOSSES, [None, "regularized", "free"], [(40, 60), (80, 6)]), ids=str
)
def test_solves_with_ascent_agree_with_cvxpy(monkeypatch, loss, bias, shape):
    monkeypatch.setattr("cutplane.risks.normal_equations.is_affordable", lambda X: False)
    lam = 0.02
    risk = instance(loss, m=shape[0], n=shape[1], intercept=bias is not None)
    weights = np.ones(risk.dim)
    weights[-1] = 0.0 if bias == "free" else 1.0
    problem = Problem(risk, L2(lam, weights=weights))
    result = problem.solve(Portfolio(moves=(CoordinateAscent(),)), tol=1e-5)
    assert result.status is Status.OPTIMAL
    assert any(record.step.startswith("ascent") for record in result.history)
    x = cp.Variable(risk.dim)
    optimum = cp.Problem(cp.Minimize(risk.cvxpy_form(x) + problem.regularizer.cvxpy_form(x))).solve(
        solver=cp.CLARABEL
    )
    assert result.lower_bound <= optimum + 1e-7 * abs(optimum)
    assert abs(result.objective - optimum) <= 2e-5 * abs(optimum)
    assert result.certificate.verify().valid


def test_the_certificate_checks_dual_cuts_and_survives_the_disk(tmp_path):
    risk = instance(Hinge(), m=60, n=300)
    problem = Problem(risk, L2(1e-3))
    result = problem.solve(Portfolio(), tol=1e-4)
    certificate = result.certificate
    assert certificate.duals and result.n_bytes > 60 * 8
    loaded = cutplane.load(result.save(tmp_path / "run"), problem)
    assert loaded.certificate.verify().valid
    key = next(
        key for key in certificate.duals if (certificate.multipliers[certificate.queries == key] > 0).any()
    )
    certificate.duals[key][:] *= 0.9
    assert not certificate.verify().valid


def test_multipliers_are_where_the_next_solve_starts():
    risk = instance(Hinge(), m=200, n=1500)  # so many that a batch is no longer than needed
    cold = Problem(risk, L2(1e-3)).solve(Portfolio(), tol=1e-6)
    first = Problem(risk, L2(8e-4)).solve(Portfolio(), tol=1e-6)
    warm = Problem(risk, L2(1e-3)).solve(Portfolio(), tol=1e-6, warm_start=first)
    assert warm.status is Status.OPTIMAL and warm.certificate.verify().valid
    assert abs(warm.objective - cold.objective) <= 2e-6 * cold.objective
    assert _epochs(warm) < _epochs(cold)


def _epochs(result):
    return sum(int(record.step.split()[1]) for record in result.history if record.step.startswith("ascent"))


def test_few_cuts_and_repeated_runs():
    risk = instance(Hinge(), m=60, n=300)
    one, other = (Problem(risk, L2(1e-3)).solve(Portfolio(), tol=1e-5, max_cuts=6) for _ in range(2))
    assert one.status is Status.OPTIMAL and one.certificate.verify().valid
    np.testing.assert_array_equal(one.x, other.x)
    assert one.lower_bound == other.lower_bound


@pytest.mark.parametrize(
    "risk",
    [
        LinearRisk(sparse.csc_array(np.eye(3)), [1.0, 1.0, -1.0], Hinge()),
        LinearRisk(np.asfortranarray(np.arange(6.0).reshape(3, 2)), [1.0, 1.0, -1.0], Hinge()),
        LinearRisk(np.eye(3), [1.0, 1.0, -1.0], Hinge(), blocks=2),
        LinearRisk(np.eye(3), [1.0, 1.0, -1.0], Kinked()),
    ],
    ids=["csc", "columns", "blocks", "no conjugate"],
)
def test_where_it_is_not_offered_cuts_alone_do(risk):
    with pytest.raises(MissingCapabilityError, match="CoordinateAscent needs"):
        Problem(risk, L2(0.1)).solve(CoordinateAscent())
    result = Problem(risk, L2(0.1)).solve(Portfolio(), tol=1e-6)
    assert result.status is Status.OPTIMAL
    assert not any(record.step.startswith("ascent") for record in result.history)


class Uncompiled(LogCosh):
    """One whose second derivative cannot be compiled."""

    def second_derivative(self, t, y):
        return np.asarray(super().second_derivative(t, y))


def test_a_loss_that_cannot_be_compiled_does_without():
    risk = instance(Uncompiled())
    assert ascent_of(risk, L2(0.1).quadratic(risk.dim)) is None
    result = Problem(risk, L2(0.1)).solve(Portfolio(), tol=1e-6)
    expected = Problem(instance(LogCosh()), L2(0.1)).solve(Portfolio(), tol=1e-6)
    assert result.status is Status.OPTIMAL and result.objective == pytest.approx(expected.objective, rel=3e-6)
    assert any(record.step.startswith("ascent") for record in expected.history)
    assert not any(record.step.startswith("ascent") for record in result.history)


@pytest.mark.parametrize(
    "problem",
    [
        Problem(instance(Hinge()), L1(0.01)),
        Problem(instance(Hinge()), L2(0.01), Box(-1.0, 1.0)),
        Problem(instance(Hinge()), L2(0.01, weights=np.arange(1.0, 61.0))),
    ],
    ids=["L1", "box", "unequal weights"],
)
def test_other_regularizers_and_sets_do_without(problem):
    result = problem.solve(Portfolio(), tol=1e-4)
    assert result.status is Status.OPTIMAL
    assert not any(record.step.startswith("ascent") for record in result.history)


def test_a_loss_without_conjugate_has_no_dual_cut():
    class Plain(ScalarLoss):
        def value(self, t, y):
            return np.abs(t - y)

        def derivative(self, t, y):
            return np.where(t >= y, 1.0, -1.0)

    assert not offers(LinearRisk(np.eye(2), [1.0, 2.0], Plain()), Capability.DUAL_CUT)

"""The active set method for kernel machines: against the whole problem in cvxpy, and in degenerate cases."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_machines import machine, optimum
from own_losses import BUILT_IN, Lopsided, ThreeKnots, targets

import cutplane as cut
from cutplane.kernels import ActiveSet, Decomposition, Gaussian, KernelRisk, Linear
from cutplane.kernels.dual import mended
from cutplane.losses import (
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Poisson,
    Squared,
    SquaredHinge,
)
from cutplane.tracking.curves import Curves, curves_of
from cutplane.tracking.machine_path import Pivoting

LOSSES = [*BUILT_IN, ThreeKnots(), Lopsided()]


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_agrees_with_the_whole_problem(loss, intercept):
    for k, lam in enumerate((1e-1, 1e-3)):
        problem = machine(loss, lam, intercept, weighted=k == 1, kernel=Linear() if k == 0 else None)
        result = problem.solve(ActiveSet(), tol=1e-10)
        assert result.status == "OPTIMAL", (lam, result)
        assert result.certificate.verify().valid
        assert result.objective == pytest.approx(optimum(problem), rel=1e-7)


SMALL = st.tuples(st.integers(0, 10_000), st.sampled_from(LOSSES), st.integers(1, 9), st.booleans())


@settings(max_examples=25)
@given(SMALL, st.sampled_from([1e-3, 0.1, 3.0]), st.sampled_from(["normal", "ties", "zero", "one class"]))
def test_optimality_conditions_of_small_machines(small, lam, kind):
    """Ties, duplicates, a zero kernel and one class; each prediction is at its slope's place on the curve."""
    seed, loss, m, intercept = small
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, 2)) if kind == "normal" else rng.integers(-1, 2, (m, 2)) * (kind != "zero")
    y = np.ones(m) if kind == "one class" else targets(loss, m, rng)
    risk = KernelRisk(np.asarray(X, float), y, loss, Linear(), intercept)
    curves = curves_of("ActiveSet", risk, "")
    start = mended(rng.standard_normal(m) / m, *curves.bounds, intercept)
    walk = Pivoting(risk.gram, curves, lam, intercept, start)
    walk.finish()
    z, each = (walk.b - risk.gram.matrix() @ walk.p) / lam, np.arange(m)
    slack = 1e-8 * (1.0 + np.abs(z) + np.abs(risk.y))
    low, high = curves.places(curves.snapped(walk.p))
    assert not intercept or abs(walk.p.sum()) < 1e-12
    assert (z >= curves.z[low, each] - slack).all() and (z <= curves.z[high, each] + slack).all()
    oblique = (low < high) & curves.rises[np.minimum(low, len(curves.rises) - 1), each]
    s, i = low[oblique], each[oblique]
    assert (np.abs(z[i] - curves.base[s, i] - curves.ridge[s, i] * walk.p[i]) <= slack[i]).all()
    result = cut.Problem(risk, risk.squared_norm(lam)).solve(ActiveSet(), tol=1e-9, tol_abs=1e-12)
    assert result.status == "OPTIMAL"


def outlines(loss, y, weights) -> Curves:
    return curves_of("ActiveSet", SimpleNamespace(loss=loss, y=np.array(y), weights=np.array(weights)), "")


def test_curves_of_labels_and_targets():
    """Corners of the hinge for both labels, flat neighbours as one segment, and what has no least value."""
    hinge = outlines(Hinge(), [1.0, -1.0], [0.5, 2.0])
    assert hinge.z.T.tolist() == [[-np.inf, 1.0, 1.0, np.inf], [-np.inf, -1.0, -1.0, np.inf]]
    assert hinge.p.T.tolist() == [[-0.5, -0.5, 0.0, 0.0], [0.0, 0.0, 2.0, 2.0]]
    huber = outlines(Huber(0.5), [3.0], [1.0])
    assert huber.rises.T.tolist() == [[False, True, False]]
    assert huber.base[1, 0] + huber.ridge[1, 0] * 0.25 == pytest.approx(3.25)
    assert huber.places(np.array([0.25]))[0] == 1 and huber.places(np.array([0.5]))[0] == 2

    class Falling(cut.losses.ScalarLoss):
        def outline(self):
            return cut.losses.Pieces([0.0], [-2.0, -1.0])

    for loss in (Falling(), Logistic()):
        with pytest.raises(cut.MissingCapabilityError, match="has a least value"):
            outlines(loss, [1.0], [1.0])
    with pytest.raises(cut.MissingCapabilityError, match="too small"):
        outlines(Huber(0.5), [1.0], [1e-320])


@pytest.mark.parametrize("loss", [Hinge(), EpsilonInsensitive(0.1), SquaredHinge()], ids=repr)
def test_duplicates_and_starts(loss):
    """Starts between all bounds, where rows of K depend on one another, and from the last multipliers."""
    rng = np.random.default_rng(1)
    X = np.repeat(rng.standard_normal((8, 2)), 5, axis=0)
    risk = KernelRisk(X, targets(loss, 40, rng), loss, Gaussian(1.0))
    problem = cut.Problem(risk, risk.squared_norm(1e-2))
    cold = problem.solve(ActiveSet(), tol=1e-11)
    inside = np.append(0.2 * -cold.x[:-1] + 0.1 * np.sign(risk.y), 0.0)
    for start in ({"x0": inside}, {"x0": rng.standard_normal(41)}, {"warm_start": cold}):
        result = problem.solve(ActiveSet(), tol=1e-11, **start)
        assert result.status == "OPTIMAL"
        assert result.objective == pytest.approx(cold.objective, rel=1e-10)
    nearby = cut.Problem(risk, risk.squared_norm(9e-3))
    seeded = nearby.iterate(ActiveSet(), tol=1e-11, warm_start=cold)
    plain = nearby.iterate(ActiveSet(), tol=1e-11)
    assert seeded.run().status == plain.run().status == "OPTIMAL"
    assert seeded.method_state.walk.n_changes < plain.method_state.walk.n_changes


def test_is_chosen_by_name_and_where_there_is_no_other():
    table = cut.compare(machine(SquaredHinge(), 0.1), methods=["active_set", "Decomposition", "finitenewton"])
    assert [row.status for row in table] == ["OPTIMAL"] * 3
    assert "ActiveSet" in machine(ThreeKnots(), 0.1).solve(tol=1e-9).method
    assert "Decomposition" in machine(Hinge(), 0.1).solve().method


def test_rows_that_do_not_fit_the_cache():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 2)), np.sign(rng.standard_normal(60))
    risk = KernelRisk(X, y, Hinge(), Gaussian(1.0), cache_bytes=10_000)
    whole = KernelRisk(X, y, Hinge(), Gaussian(1.0))
    results = [cut.Problem(r, r.squared_norm(1e-3)).solve(ActiveSet(), tol=1e-10) for r in (risk, whole)]
    assert results[0].status == "OPTIMAL"
    assert results[0].objective == pytest.approx(results[1].objective, rel=1e-10)


def test_time_limit_and_interrupt_leave_bounds():
    problem = machine(Hinge(), 1e-6, m=400)
    stopped = problem.solve(ActiveSet(), tol=1e-10, time_limit=1e-3)
    assert stopped.status in ("TIME_LIMIT", "OPTIMAL") and stopped.lower_bound <= stopped.objective

    def interrupt(state):
        raise KeyboardInterrupt

    result = problem.solve(ActiveSet(), tol=1e-10, callback=interrupt)
    assert result.status == "INTERRUPTED" and result.lower_bound <= result.objective
    assert problem.solve(ActiveSet(), tol=1e-8).objective == pytest.approx(
        problem.solve(Decomposition(), tol=1e-8).objective, rel=1e-7
    )


@pytest.mark.parametrize(
    "problem",
    [
        machine(Logistic(), 0.1),
        machine(Poisson(), 0.1),
        machine(Squared(), 0.0),
        cut.Problem(cut.LinearRisk(np.eye(2), [1.0, -1.0], Hinge()), cut.L2(0.1)),
        cut.Problem(machine(Hinge(), 0.1).risk, cut.L2(0.1)),
    ],
    ids=lambda problem: repr(problem.risk)[:25],
)
def test_refuses_other_problems(problem):
    with pytest.raises(cut.MissingCapabilityError, match="ActiveSet"):
        problem.solve(ActiveSet())

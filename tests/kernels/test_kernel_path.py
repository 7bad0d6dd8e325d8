"""Exact paths over the weight of the squared norm: against cold solves, and where knots have to be."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_machines import machine
from own_losses import Asymmetric, targets

import cutplane as cut
from cutplane.kernels import ActiveSet, Decomposition, KernelPathTracking, KernelRisk, Linear
from cutplane.losses import Absolute, EpsilonInsensitive, Hinge, Pieces, Quantile, ScalarLoss, SquaredHinge


class Steps(ScalarLoss):
    """A user's loss with three kinks."""

    def outline(self):
        return Pieces([-1.0, 0.0, 0.5], [-2.0, -1.0, 0.0, 1.0])


LOSSES = [Hinge(), Absolute(), Quantile(0.8), EpsilonInsensitive(0.2), Asymmetric(), Steps()]


def value(problem, lam, x):
    at = cut.Problem(problem.risk, problem.regularizer.with_lam(lam))
    return at, at.risk.oracle(x)[0] + at.regularizer.value(x)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_every_knot_is_exact_and_the_path_between(loss, intercept):
    for seed, kernel in enumerate((None, Linear())):
        problem = machine(loss, intercept=intercept, kernel=kernel, weighted=bool(seed), seed=seed)
        path = problem.path(exact=True, tol=1e-10)
        assert path.result.status == "OPTIMAL" and path.result.certificate.verify().valid
        assert len(path) > 5 and (np.diff(path.knots) <= 0.0).all()
        assert path.gaps.max() < 1e-10
        for lam in np.geomspace(3.0 * path.knots[0], path.knots[-1], 9):
            at, mine = value(problem, lam, path(lam))
            cold = at.solve(ActiveSet(), tol=1e-11)
            assert cold.lower_bound * (1 - 1e-9) <= mine <= cold.objective * (1 + 1e-9)
            assert path.gap(lam) < 1e-10


def test_agrees_with_cold_solves_all_along():
    problem = machine(Hinge(), m=40)
    path = problem.path(exact=True)
    for lam in np.geomspace(2.0 * path.knots[0], path.knots[-1], 40):
        at, mine = value(problem, lam, path(lam))
        cold = at.solve(Decomposition(), tol=1e-10, probes=False)
        assert mine == pytest.approx(cold.objective, rel=2e-10)
        norm = at.regularizer.subgradient(cold.x - path(lam))  # of two solutions it is the same function
        assert np.abs(norm).max() < 1e-6 * lam * np.abs(at.risk.image(cold.x)).max()


def test_each_knot_is_one():
    """The slope of the multipliers in lam changes at every knot."""
    path = machine(Hinge(), m=30).path(1e-2, exact=True)
    p = -path.knots[:, np.newaxis] * path.coefficients[:, :-1]
    rates = np.diff(p, axis=0) / np.diff(path.knots)[:, np.newaxis]
    assert len(path) > 10
    assert np.abs(np.diff(rates, axis=0)).max(axis=1).min() > 1e-9
    kinds = {event.split()[0] for event in path.events}
    assert kinds == {"starts", "joins", "leaves", "ends"}


SMALL = st.tuples(st.integers(0, 10_000), st.sampled_from(LOSSES), st.integers(1, 10), st.booleans())


@settings(max_examples=25)
@given(SMALL, st.sampled_from(["normal", "ties", "zero", "one class"]))
def test_ties_duplicates_and_one_class(small, kind):
    seed, loss, m, intercept = small
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, 2)) if kind == "normal" else rng.integers(-1, 2, (m, 2)) * (kind != "zero")
    y = np.ones(m) if kind == "one class" else np.round(targets(loss, m, rng))
    y = np.where(y > 0.0, 1.0, -1.0) if loss.variable == "margin" else y
    risk = KernelRisk(np.asarray(X, float), y, loss, Linear(), intercept)
    path = cut.Problem(risk, risk.squared_norm(1e-3)).path(exact=True, tol=1e-9, tol_abs=1e-12)
    assert path.result.status == "OPTIMAL"
    for lam in (*path.knots, *np.geomspace(2.0 * path.knots[0], 1e-3, 5)):
        lower, upper = path._state.bounds(lam / 1e-3, path(lam))
        assert -1e-12 <= upper - lower <= 1e-10 * max(1e-2, upper)


def test_unbalanced_classes_start_where_the_larger_one_is_at_its_margin():
    """The best constant is the larger class; the first function is the shortest that holds it there."""
    X, y = np.array([[0.0], [2.0], [4.0], [6.0]]), np.array([-1.0, 1.0, 1.0, 1.0])
    risk = KernelRisk(X, y, Hinge(), Linear())
    path = cut.Problem(risk, risk.squared_norm(1e-2)).path(exact=True)
    far = path(1e9)
    assert far[-1] == pytest.approx(1.0) and np.abs(far[:-1]).max() < 1e-6
    slopes = -path.knots[0] * path.coefficients[0, :-1]
    assert slopes == pytest.approx([0.25, -0.25, 0.0, 0.0], abs=1e-12)  # the nearest of the larger class
    function = risk.function(path(1e-2))
    assert function.decision_function(np.array([[0.0], [2.0]])) == pytest.approx([-1.0, 1.0])


@pytest.mark.parametrize("weights", [None, [1.0, 2.0, 0.5, 0.0], [1.0, 1.0, 1.0, 3.0]], ids=repr)
def test_linear_risks(weights):
    from scipy import sparse

    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    for loss, layout in (
        (Hinge(), np.asarray),
        (Quantile(0.3), sparse.csr_array),
        (Hinge(), sparse.csc_array),
    ):
        risk = cut.LinearRisk(layout(X), targets(loss, 40, rng), loss, intercept=True)
        problem = cut.Problem(risk, cut.L2(1e-3, weights=weights))
        path = problem.path(exact=True, tol=1e-9)
        assert path.result.status == "OPTIMAL" and path.gaps.max() < 1e-9
        for lam in (0.3, 1e-2):
            at, mine = value(problem, lam, problem.path(lam, exact=True).result.x)
            assert mine == pytest.approx(value(problem, lam, path(lam))[1], rel=1e-9)
            whole = at.solve(cut.Direct(), backend="clarabel", tol=1e-8)
            assert mine == pytest.approx(whole.objective, rel=1e-7)


def test_limits_leave_the_knots_so_far():
    problem = machine(EpsilonInsensitive(0.05), m=150)
    path = problem.path(exact=True, max_iter=1)
    assert path.result.status == "MAX_ITER" and path.knots[-1] > 1e-4 and 30 < len(path) < 66
    assert path.gaps.max() < 1e-10
    with pytest.raises(cut.InvalidInputError, match="beyond the end"):
        path(1e-4)


@pytest.mark.parametrize(
    "problem",
    [
        machine(SquaredHinge()),
        cut.Problem(machine(Hinge()).risk, cut.L2(0.1)),
        cut.Problem(cut.LinearRisk(np.eye(2), [1.0, -1.0], Hinge()), cut.L2(0.1, centre=[1.0, 0.0])),
        cut.Problem(cut.LinearRisk(np.eye(2), [1.0, -1.0], Hinge()), cut.L2(0.1), cut.Box(-1, 1)),
    ],
    ids=lambda problem: repr(problem.risk)[:25],
)
def test_refuses_other_problems(problem):
    with pytest.raises(cut.MissingCapabilityError, match="KernelPathTracking"):
        problem.path(exact=True, method=KernelPathTracking())
    with pytest.raises(cut.MissingCapabilityError):
        problem.path(exact=True)

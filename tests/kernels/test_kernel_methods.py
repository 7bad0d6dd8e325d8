"""Methods for kernel machines: against the whole problem in cvxpy, in degenerate cases, and what they
refuse."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_machines import machine, optimum
from own_losses import BUILT_IN, LogCosh, Lopsided, ThreeKnots, targets

import cutplane as cut
from cutplane.kernels import (
    ActiveSet,
    Cosine,
    Decomposition,
    FiniteNewton,
    Gaussian,
    KernelRisk,
    Laplacian,
    Linear,
    Polynomial,
)
from cutplane.kernels.dual import dual_form, made_feasible
from cutplane.losses import (
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    ModifiedHuber,
    Poisson,
    Squared,
    SquaredEpsilonInsensitive,
    SquaredHinge,
)
from cutplane.risks.examples import bias_slopes
from cutplane.tracking.curves import Curves, curves_of
from cutplane.tracking.machine_path import Pivoting


def function(A, B):
    return np.exp(-0.3 * ((A[:, None] - B) ** 2).sum(axis=2))


KERNELS = [Linear(), None, Polynomial(2), Gaussian(0.8), Laplacian(1.5), Cosine(), function]
LOSSES = {
    Decomposition(): BUILT_IN,
    FiniteNewton(): [
        SquaredHinge(), ModifiedHuber(), Logistic(), Squared(), Huber(0.3), SquaredEpsilonInsensitive(0.1),
    ],
    ActiveSet(): [*BUILT_IN, ThreeKnots(), Lopsided()],
}  # fmt: skip
CASES = [(method, loss, number) for method, every in LOSSES.items() for number, loss in enumerate(every)]


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(("method", "loss", "number"), CASES, ids=repr)
def test_agrees_with_the_whole_problem(method, loss, number, intercept):
    for k, lam in enumerate((1e-1, 1e-2, 1e-4)):
        kernel = KERNELS[(number + 3 * intercept + k) % len(KERNELS)]
        problem = machine(loss, lam, intercept, weighted=k == 1, kernel=kernel)
        result = problem.solve(method, tol=1e-9)
        known = optimum(problem)
        assert result.status == "OPTIMAL", (lam, result)
        assert result.certificate.verify().valid
        assert result.objective == pytest.approx(known, rel=1e-7, abs=1e-9)
        assert result.lower_bound <= known + 1e-7 * abs(known) + 1e-9
        assert method.name != "FiniteNewton" or result.n_iter < 40


def test_the_automatic_choice():
    table = cut.compare(machine(SquaredHinge(), 0.1), methods=["active_set", "Decomposition", "finitenewton"])
    assert [row.status for row in table] == ["OPTIMAL"] * 3
    for loss, name in (
        (Hinge(), "Decomposition"), (SquaredHinge(), "Decomposition"), (Logistic(), "FiniteNewton"),
        (ThreeKnots(), "ActiveSet"),
    ):  # fmt: skip
        assert name in machine(loss, 0.1).solve(tol=1e-9).method
    own = machine(LogCosh(), 0.1).solve(FiniteNewton(), tol=1e-10)  # a user's loss
    assert own.status == "OPTIMAL" and own.certificate.verify().valid


@pytest.mark.parametrize("method", LOSSES, ids=repr)
def test_refuses_other_problems(method):
    loss = {"Decomposition": Logistic(), "FiniteNewton": Hinge(), "ActiveSet": Poisson()}[method.name]
    hinge = SquaredHinge()
    risk, other = (machine(hinge, 0.1, kernel=Gaussian(1.0)).risk for _ in range(2))
    linear = cut.LinearRisk(np.eye(2), [1.0, -1.0], hinge)
    for problem, words in (
        (machine(loss, 0.1), "needs a loss|quadratic programme"),
        (machine(hinge, 0.0), "lam > 0"),
        (cut.Problem(risk, other.squared_norm()), "risk.squared_norm"),
        (cut.Problem(risk, cut.L2(0.1)), "risk.squared_norm"),
        (cut.Problem(risk, risk.squared_norm(), cut.Box(-1.0, 1.0)), "no feasible set"),
        (cut.Problem(linear, cut.L2(1.0)), "kernel predictor"),
    ):
        with pytest.raises(cut.MissingCapabilityError, match=words):
            problem.solve(method)
    with pytest.raises(cut.InvalidInputError):
        FiniteNewton(dense=-1)


@pytest.mark.parametrize("method", [Decomposition(), ActiveSet()], ids=repr)
def test_time_limits_and_interrupts_leave_bounds(method):
    problem = machine(Hinge(), 1e-6, m=400)

    def interrupt(state):
        raise KeyboardInterrupt

    for callback in (interrupt, lambda state: True):
        result = problem.solve(method, tol=1e-12, callback=callback)
        assert result.status == "INTERRUPTED" and result.lower_bound <= result.objective
    stopped = problem.solve(method, tol=1e-12, time_limit=1e-9)
    assert stopped.status == "TIME_LIMIT" and stopped.lower_bound <= stopped.objective


@pytest.mark.parametrize("loss", LOSSES[FiniteNewton()], ids=repr)
def test_conjugate_gradients_come_to_the_same(loss):
    problem = machine(loss, 1e-3, m=150)
    factored, iterated = (problem.solve(FiniteNewton(dense), tol=1e-8) for dense in (4000, 0))
    assert iterated.status == "OPTIMAL"
    assert iterated.objective == pytest.approx(factored.objective, rel=2e-8)


def test_logistic_machine_is_stationary_and_seeds_the_next():
    problem = machine(Logistic(), 1e-3)
    risk, result = problem.risk, problem.solve(FiniteNewton(), tol=1e-12)
    slopes = risk.weights * Logistic().derivative(risk.image(result.x), risk.y)
    assert np.abs(1e-3 * result.x[:-1] + slopes).max() < 1e-8  # lam a = -c l'(z): the full Newton solution
    assert abs(slopes.sum()) < 1e-7
    nearby = cut.Problem(risk, risk.squared_norm(8e-4))
    seeded = nearby.solve(FiniteNewton(), tol=1e-10, warm_start=result)
    assert seeded.n_iter < nearby.solve(FiniteNewton(), tol=1e-10).n_iter


def test_newton_ends_after_finitely_many_steps():
    """Pieces that are found give the exact solution, whatever the tolerance."""
    for loss in (SquaredHinge(), ModifiedHuber()):
        problem = machine(loss, 1e-3)
        loose, tight = (problem.solve(FiniteNewton(), tol=tol) for tol in (1e-4, 1e-13))
        assert tight.status == "OPTIMAL" and tight.n_iter <= loose.n_iter + 3
        assert tight.objective == pytest.approx(problem.solve(Decomposition(), tol=1e-10).objective, rel=1e-9)


def test_damping_of_newton_steps_is_reduced_by_a_factor():
    driver = machine(Logistic(), 1e-3).iterate(FiniteNewton(), tol=1e-12)
    steps = iter(driver)
    next(steps)
    next(steps)
    driver.method_state.damping = 1.0
    next(steps)
    assert driver.method_state.damping == 0.125


@pytest.mark.parametrize("y", [[1.0], np.ones(6), np.resize([1.0, -1.0], 6), [1.0, -1.0, 1.0, 1.0]], ids=str)
@pytest.mark.parametrize("method", LOSSES, ids=repr)
def test_one_example_one_class_and_duplicates(method, y):
    for intercept in (True, False):
        risk = KernelRisk(np.ones((len(y), 2)), y, SquaredHinge(), Gaussian(1.0), intercept)
        result = cut.Problem(risk, risk.squared_norm(0.1)).solve(method, tol=1e-9)
        assert result.status == "OPTIMAL" and result.certificate.verify().valid
        assert result.objective - result.lower_bound < 1e-8


SMALL = st.tuples(
    st.integers(0, 10_000), st.sampled_from(LOSSES[ActiveSet()]), st.integers(1, 9), st.booleans()
)


@pytest.mark.parametrize("seed", range(100))
def test_multipliers_made_feasible_have_a_bound_with_an_intercept(seed):
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 300))
    p = rng.standard_normal(m)
    p += rng.standard_normal() * 1e-15 * np.abs(p).mean() - p.mean()
    feasible = made_feasible(p, np.full(m, -np.inf), np.full(m, np.inf), True)
    assert bias_slopes(feasible, np.array([0, m])) == [0.0]
    np.testing.assert_allclose(feasible, p, rtol=1e-12)


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
    start = made_feasible(rng.standard_normal(m) / m, *curves.bounds, intercept)
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
    """Corners of the hinge for both labels, flat neighbours as one segment, and losses without a least
    value."""
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


def test_feasible_coefficients_have_their_sums():
    """Of a nu-form too: scaled down or filled up, and within the bounds."""
    rng = np.random.default_rng(0)
    for c in (np.zeros(30), rng.standard_normal(30), 9.0 * rng.standard_normal(30)):
        for task, y in (
            ("classification", np.resize([1.0, -1.0, -1.0], 30)),
            ("regression", c),
            ("novelty", None),
        ):
            form = cut.kernels.NuRisk(rng.standard_normal((30, 2)), y, 0.5, Gaussian(1.0), task).dual(0.1)
            a = form.feasible(c)
            assert (a >= form.lower).all() and (a <= form.upper).all()
            assert a.reshape(len(form.sums), 30).sum(axis=1) == pytest.approx(form.sums)
        a = dual_form(Hinge(), np.resize([1.0, -1.0], 30), 1.0).feasible(c)
        assert abs(a.sum()) < 1e-12 and not a[c == 0.0].any()

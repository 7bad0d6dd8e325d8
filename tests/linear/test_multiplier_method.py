"""The method of multipliers with Newton steps: its loops against the losses, its answers against cvxpy."""

import cvxpy as cp
import numpy as np
import pytest
from covering import covering
from hypothesis import example, given, settings
from hypothesis import strategies as st
from linear_cases import LAYOUTS, LOSSES, instance
from own_losses import Kinked
from scipy import sparse

from cutplane import L1, L2, Box, LinearRisk, MissingCapabilityError, Portfolio, Problem, Status
from cutplane.linear import SemismoothNewton
from cutplane.linear.multiplier_method import MultiplierMethod, NewtonSteps
from cutplane.losses import EpsilonInsensitive, Hinge, Squared, SquaredEpsilonInsensitive
from cutplane.risks.passes import sparse_gram
from cutplane.runtime.threads import get_threads, set_threads

ALL_LOSSES = [*LOSSES, SquaredEpsilonInsensitive(0.3)]


def test_the_sparse_gram_matrix_takes_repeated_and_unsorted_entries():
    rng = np.random.default_rng(0)
    data, indices = rng.standard_normal(40), rng.integers(0, 6, 40).astype(np.uint32)
    indptr = np.array([0, 3, 3, 20, 40])
    dense = sparse.csr_array((data, indices.astype(np.int32), indptr), shape=(4, 6)).toarray()
    rows, coefficients = np.array([0, 2, 3]), np.array([0.5, 2.0, 1.0])
    out = np.zeros((6, 6))
    sparse_gram(data, indices, indptr, rows, coefficients, out)
    np.testing.assert_allclose(out + out.T, dense[rows].T @ (coefficients[:, None] * dense[rows]), atol=1e-12)


class Probe:
    """What a run is to the Newton steps, with all cuts kept."""

    def __init__(self, problem):
        from cutplane.engine.evaluator import Evaluator
        from cutplane.proof.dual import DualFunction

        self.problem, self.evaluator, self.safe = problem, Evaluator(problem), DualFunction(problem)
        self.lower, self.upper, self.closed, self.moved = -np.inf, np.inf, False, False
        self.cuts = []

    def evaluate(self, x):
        point = self.evaluator.point(x)
        self.upper = min(self.upper, point.objective)
        return point

    def between(self, start, end, t):
        return self.evaluator.between(start, end, t)

    def timed(self, function, *arguments, queries=0):
        return function(*arguments)

    def tolerance(self, objective):
        return 0.0

    def proceed(self):
        self.moved = True

    def add_dual_cut(self, u, cut):
        self.cuts.append((u, cut))
        if not self.safe.free.size:
            slopes, weights = cut[0][0], self.problem.regularizer.quadratic(self.problem.dim).weights
            self.lower = max(self.lower, float(cut[1][0] - 0.5 * slopes @ (slopes / weights)))


def newton_run(risk, regularizer, steps):
    run = Probe(Problem(risk, regularizer))
    point = run.evaluate(np.zeros(risk.dim))
    quadratic = regularizer.quadratic(risk.dim)
    method = MultiplierMethod(risk, quadratic, None, point.image, point.objective)
    newton = NewtonSteps(method, point)
    for _ in range(steps):
        if not newton.step(run):
            break
    return run, newton.point


@pytest.mark.parametrize(
    ("loss", "layout", "bias"), covering(ALL_LOSSES, LAYOUTS, [None, "regularized", "free"]), ids=str
)
def test_steps_from_the_origin_reach_the_optimum(loss, layout, bias):
    risk = instance(loss, layout, m=80, n=6, intercept=bias is not None)
    weights = np.ones(risk.dim)
    weights[-1] = 0.0 if bias == "free" else 1.0
    run, _ = newton_run(risk, L2(0.02, weights=weights), 150)
    x = cp.Variable(risk.dim)
    optimum = cp.Problem(cp.Minimize(risk.cvxpy_form(x) + L2(0.02, weights=weights).cvxpy_form(x))).solve(
        solver=cp.CLARABEL
    )
    assert run.upper == pytest.approx(optimum, rel=1e-6)
    if bias != "free":
        assert run.lower <= optimum * (1.0 + 1e-7)
        assert run.lower == pytest.approx(optimum, rel=1e-6)


@given(st.integers(0, 10**6), st.sampled_from(ALL_LOSSES), st.booleans())
@settings(max_examples=25, deadline=None)
@example(4929, Squared(), True)
@example(28849, Squared(), True)
def test_every_cut_lies_below_the_risk_and_is_that_of_its_multipliers(seed, loss, intercept):
    risk = instance(loss, seed=seed % 5, m=50, n=7, intercept=intercept)
    run, _ = newton_run(risk, L2(10.0 ** -(seed % 4)), 6)
    x = 3.0 * np.random.default_rng(seed).standard_normal(risk.dim)
    value = risk.oracle(x)[0]
    for u, (slopes, offsets) in run.cuts:
        assert slopes[0] @ x + offsets[0] <= value + 1e-9 * (1.0 + abs(value))
        again = risk.dual_cut(u)
        np.testing.assert_allclose(slopes, again[0], atol=1e-11)
        assert abs(offsets[0] - again[1][0]) <= 1e-9 * (1.0 + abs(offsets[0]))


@pytest.mark.parametrize("loss", ALL_LOSSES, ids=repr)
def test_a_certified_solve_takes_newton_steps_on_tall_data(monkeypatch, loss):
    monkeypatch.setattr("cutplane.risks.normal_equations.is_affordable", lambda X: False)
    risk = instance(loss, "dense", m=400, n=12)
    result = Problem(risk, L2(1e-4)).solve(Portfolio(), tol=1e-9)
    assert result.status is Status.OPTIMAL
    assert any(record.step == "Newton" for record in result.history)
    assert result.certificate.verify().valid


def test_results_do_not_depend_on_the_threads():
    rng = np.random.default_rng(0)
    X = sparse.random_array((60_000, 30), density=0.3, format="csr", rng=rng)
    y = np.sign(X @ rng.standard_normal(30) + 0.3 * rng.standard_normal(60_000))
    problem, before = Problem(LinearRisk(X, y, Hinge()), L2(1e-5)), get_threads()
    try:
        set_threads(1)
        one = problem.solve(Portfolio(), tol=1e-4)
        set_threads(2)
        two = problem.solve(Portfolio(), tol=1e-4)
    finally:
        set_threads(before)
    assert any(record.step == "Newton" for record in one.history)
    assert one.objective == two.objective and one.lower_bound == two.lower_bound


def test_unequal_weights_are_no_obstacle():
    problem = Problem(instance(Hinge(), m=200, n=6), L2(0.01, weights=np.arange(1.0, 7.0)))
    result = problem.solve(Portfolio(), tol=1e-8)
    steps = {record.step.split()[0] for record in result.history}
    assert result.status is Status.OPTIMAL and "Newton" in steps and "ascent" not in steps


@pytest.mark.parametrize(
    "risk",
    [
        LinearRisk(sparse.csc_array(np.eye(3)), [1.0, 1.0, -1.0], Hinge()),
        LinearRisk(np.eye(3), [1.0, 1.0, -1.0], Hinge(), blocks=2),
        LinearRisk(np.eye(3), [1.0, 1.0, -1.0], Kinked()),
        LinearRisk(sparse.csr_array((3, 3000)), [1.0, 1.0, -1.0], Hinge()),
    ],
    ids=["csc", "blocks", "no conjugate", "many features"],
)
def test_where_it_is_not_offered_the_rest_does(risk):
    with pytest.raises(MissingCapabilityError, match="SemismoothNewton needs"):
        Problem(risk, L2(0.1)).solve(SemismoothNewton())
    result = Problem(risk, L2(0.1)).solve(Portfolio(), tol=1e-6)
    assert result.status is Status.OPTIMAL
    assert not any(record.step == "Newton" for record in result.history)


@pytest.mark.parametrize("pieces", [(L1(0.01),), (L2(0.01), Box(-1.0, 1.0))], ids=["L1", "box"])
def test_other_regularizers_and_sets_do_without(pieces):
    result = Problem(instance(Hinge(), m=200, n=6), *pieces).solve(Portfolio(), tol=1e-4)
    assert result.status is Status.OPTIMAL
    assert not any(record.step == "Newton" for record in result.history)


@pytest.mark.parametrize("loss", [Hinge(), EpsilonInsensitive(0.1)], ids=repr)
@pytest.mark.parametrize(
    "data",
    [
        (np.ones((5, 3)), np.ones(5)),
        (np.zeros((5, 3)), np.array([1.0, -1.0, 1.0, -1.0, 1.0])),
        (np.repeat(np.eye(3), 40, axis=0), np.tile([1.0, -1.0, 1.0], 40)),
    ],
    ids=["one class", "zeros", "duplicates"],
)
def test_degenerate_data(loss, data):
    for intercept in (False, True):
        risk = LinearRisk(*data, loss, intercept=intercept)
        weights = np.ones(risk.dim)
        weights[3:] = 0.0
        result = Problem(risk, L2(1e-3, weights=weights)).solve(Portfolio(), tol=1e-7)
        x = cp.Variable(risk.dim)
        optimum = cp.Problem(cp.Minimize(risk.cvxpy_form(x) + L2(1e-3, weights=weights).cvxpy_form(x))).solve(
            solver=cp.CLARABEL
        )
        assert result.status is Status.OPTIMAL, result
        assert result.objective == pytest.approx(optimum, abs=1e-6)

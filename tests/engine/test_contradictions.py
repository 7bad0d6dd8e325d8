"""A lower bound above an objective is a contradiction, unless rounding explains it; zero has no scale."""

from __future__ import annotations

from decimal import Decimal, localcontext

import cvxpy as cp
import numpy as np
import pytest
from covering import covering

import cutplane as cut
from cutplane.engine.run import Run
from cutplane.masters.select import Backend
from cutplane.proof.dual import DualFunction

pytestmark = pytest.mark.every


WAYS = [cut.BMRM(), cut.OCAS(), cut.LevelBundle(), cut.ProximalBundle(), "auto"]


def by_name(method):
    return getattr(method, "name", method)


@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-9])
@pytest.mark.parametrize("method", WAYS, ids=by_name)
def test_rows_that_are_hardly_in_use_do_not_hide_a_residual(method, tol):
    pieces = np.array([1e9, 1e-4, -1e-4])

    @cut.risk(dim=2)
    def steep(x):
        values = [1e9 * (x[1] + 1e3), 1e-4 * (x[1] + 1e6), -1e-4 * (x[1] + 1e6)]
        k = int(np.argmax(values))
        return 1.0 + (x[0] - 1.0) ** 2 / 2.0 + values[k], np.array([x[0] - 1.0, pieces[k]])

    result = cut.Problem(steep, cut.L2(1.0, weights=[1.0, 0.0])).solve(method, tol=tol, max_iter=300)
    optimum = 1.25
    assert result.lower_bound <= optimum * (1.0 + 1e-9)
    assert result.objective >= optimum * (1.0 - 1e-9)
    assert result.status != "OPTIMAL" or result.objective <= optimum * (1.0 + tol + 1e-9)


def separable(n=4, m=40):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(m, n))
    X[:, 0] += np.where(X[:, 0] >= 0.0, 1.0, -1.0)
    return X, np.where(X[:, 0] >= 0.0, 1.0, -1.0)


MARGIN_LOSSES = [cut.losses.Hinge(), cut.losses.SquaredHinge()]


@pytest.mark.parametrize("loss", MARGIN_LOSSES, ids=repr)
@pytest.mark.parametrize("method", [cut.ProximalBundle(), cut.LevelBundle(), cut.Kelley()], ids=by_name)
@pytest.mark.parametrize("regularizer", [cut.NoRegularizer(), cut.L2(0.0)], ids=repr)
def test_the_infimum_of_a_loss_is_the_bound_without_regularizer(method, loss, regularizer):
    X, y = separable()
    result = cut.Problem(cut.LinearRisk(X, y, loss), regularizer).solve(method, tol_abs=1e-8)
    assert all(0.0 <= record.lower_bound <= record.upper_bound for record in result.history)
    assert result.status == "OPTIMAL" and result.objective <= 1e-8
    assert result.certificate.verify().valid


@pytest.mark.parametrize("loss", MARGIN_LOSSES, ids=repr)
@pytest.mark.parametrize("n_free", [1, 4])
def test_separable_data_with_free_weights_have_no_bound_above_zero(loss, n_free):
    X, y = separable()
    free = np.where(np.arange(4) < n_free, 0.0, 1.0)
    problem = cut.Problem(cut.LinearRisk(X, y, loss), cut.L2(0.1, weights=free))
    result = problem.solve(max_iter=300)
    assert 0.0 <= result.lower_bound <= result.objective <= 1e-9
    assert result.gap_abs == result.objective - result.lower_bound
    assert result.certificate.verify().valid


@pytest.mark.parametrize("method", [cut.BMRM(), cut.OCAS(), cut.LevelBundle(), "auto"], ids=by_name)
@pytest.mark.parametrize("blocks", [1, 5])
def test_the_first_record_holds_the_infimum(method, blocks):
    X, y = separable()
    risk = cut.LinearRisk(X, y, cut.losses.Hinge(), blocks=blocks)
    result = cut.Problem(risk, cut.L2(0.01)).solve(method)
    assert result.history[0].lower_bound == 0.0
    assert min(record.lower_bound for record in result.history) == 0.0


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("method", WAYS, ids=by_name)
def test_a_quadratic_form_at_its_optimum_zero(method, seed):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(4, 4))
    Q, c = root.T @ root, rng.normal(size=4)
    optimum = 0.0 if seed % 2 else -0.5 * c @ np.linalg.solve(Q, c)
    risk = cut.LinearObjective(-c if seed % 2 else np.zeros(4))
    problem = cut.Problem(risk, cut.QuadraticForm(0.5 * (Q + Q.T), c))
    size = 0.5 * c @ np.linalg.solve(Q, c)
    result = problem.solve(method, tol=1e-9, tol_abs=1e-9 * size, x0=rng.normal(size=4))
    assert result.status == "OPTIMAL"
    assert result.objective == pytest.approx(optimum, abs=2e-9 * size)
    assert result.lower_bound <= optimum + 1e-11 * size


@pytest.mark.parametrize("method", WAYS, ids=by_name)
@pytest.mark.parametrize("feasible_set", [None, cut.Box(0.0, 3.0), cut.Simplex()], ids=repr)
def test_a_solution_at_the_edge_of_the_domain_of_an_entropy(method, feasible_set):
    c = np.array([80.0, -1.0, 60.0, 0.5])
    problem = cut.Problem(cut.LinearObjective(c), cut.RelativeEntropy(np.full(4, 0.25)), feasible_set)
    result = problem.solve(method)
    weights = 0.25 * np.exp(-c)
    optimum = -np.log(weights.sum()) if isinstance(feasible_set, cut.Simplex) else -weights.sum() / np.e
    assert result.status == "OPTIMAL"
    assert (result.x >= 0.0).all()
    assert result.objective == pytest.approx(optimum, rel=1e-4, abs=1e-7)


REGIONS = {
    "ball": cut.L2Ball(0.7),
    "shifted ball": cut.L2Ball(0.7, centre=np.full(4, 0.2)),
    "polyhedron": cut.Polyhedron([[1.0, 1.0, 1.0, 1.0], [-1.0, 2.0, 0.0, 0.0]], [0.8, 0.5]),
    "box and ball": cut.Box(0.0, 1.0) & cut.L2Ball(0.9),
}


@pytest.mark.parametrize(("name", "lam", "seed"), covering(REGIONS, [0.1, 0.01], range(2)))
def test_entropies_over_sets_without_a_closed_form(name, lam, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 4))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=30) > 0.0, 1.0, -1.0)
    regularizer = cut.NegativeEntropy(lam)
    problem = cut.Problem(cut.LinearRisk(X, y, cut.losses.Hinge()), regularizer, REGIONS[name])
    result = problem.solve(tol=1e-6)
    x = cp.Variable(4)
    objective = cp.sum(cp.pos(1 - cp.multiply(y, X @ x))) / len(y) + regularizer.cvxpy_form(x)
    cp.Problem(cp.Minimize(objective), REGIONS[name].cvxpy_form(x)).solve(solver=cp.CLARABEL)
    optimum = problem.objective(np.maximum(x.value, 0.0))
    assert result.status == "OPTIMAL"
    assert result.objective == pytest.approx(optimum, rel=1e-5)
    assert result.lower_bound <= optimum + 1e-6 * abs(optimum)
    assert result.certificate.verify().valid


@pytest.mark.parametrize(("wrong", "accused"), [(4e-16, False), (1e-12, False), (1e-4, True)])
def test_of_constants_as_large_as_the_set_makes_them_the_last_bits_are_forgiven(wrong, accused):
    """The slopes are worth 1 over the ball, and so may be constants that cancel near zero, or more."""
    slope = np.array([1e-5, 0.0])

    @cut.risk(dim=2)
    def plane(x):
        return float(slope @ x) + (0.0 if x.any() else -wrong), slope

    run = Run(cut.Problem(plane, feasible_set=cut.L2Ball(1e5)), cut.Kelley(), Backend())
    run.first = run.query(np.zeros(2))
    point = np.full(2, 1e-9)
    if accused:
        with pytest.raises(cut.OracleError, match="above its value"):
            run.query(point)
    else:
        run.query(point)


@pytest.mark.parametrize("seed", range(30))
def test_the_least_value_over_a_ball_far_from_zero_is_charged_with_its_last_bits(seed):
    rng = np.random.default_rng(seed)
    centre = np.round(1e5 * rng.normal(size=3))
    slope = 1e-5 * rng.random() * centre / np.linalg.norm(centre)
    ball = cut.L2Ball(float(np.linalg.norm(centre)), centre=centre)
    problem = cut.Problem(cut.LinearObjective(slope), feasible_set=ball)
    rows = slope[np.newaxis], np.zeros(1), np.zeros(1, dtype=int), np.ones(1)
    least = DualFunction(problem)(*rows, 0.0)
    with localcontext(prec=60):
        v, c = [[Decimal(float(entry)) for entry in vector] for vector in (slope, centre)]
        length = sum(entry * entry for entry in v).sqrt()
        optimum = sum(a * b for a, b in zip(v, c, strict=True)) - Decimal(ball.radius) * length
        assert Decimal(least.value) <= optimum <= Decimal(least.value + 2.0 * least.error)


def started(function, low=-4.0, high=4.0):
    risk = cut.OracleRisk(function, dim=1)
    return Run(cut.Problem(risk, cut.L1(1e-12), cut.Box(low, high, dim=1)), cut.Kelley(), Backend())


def cancelling(x):
    """4e-12 |x|, computed as a difference of numbers of the size of 8."""
    return float((8.0 + 4e-12 * np.abs(x).sum()) - 8.0), 4e-12 * np.where(x < 0.0, -1.0, 1.0)


def test_terms_that_cancel_inside_are_found_and_charged():
    """2e-4 is worth less than half a bit of 8, and 2.5e-4 more: its cut lies above the value at 2e-4."""
    run = started(cancelling)
    run.first = run.query(np.array([2e-4]))
    run.query(np.array([2.5e-4]))
    assert run.evaluator.hidden == 8.0
    result = cut.Problem(cut.OracleRisk(cancelling, dim=1), cut.L1(1e-12), cut.Box(-4.0, 4.0)).solve(
        cut.Kelley(), x0=[2e-4], max_iter=30
    )
    assert result.status != "INVALID_ORACLE"
    assert result.lower_bound <= 0.0


rng = np.random.default_rng(0)
WRONG = {
    "slope": lambda x: (4e-12 * abs(x[0]), 2e-12 * np.sign(x)),
    "chance": lambda x: (cancelling(x)[0] + 1e-13 * rng.random(), cancelling(x)[1]),
    "steps": lambda x: (0.5 + 0.01 * float(x[0] < 5e-4), np.zeros(1)),
    "not convex": lambda x: (-1e-6 * x[0] ** 2, -2e-6 * x),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_rounding_does_not_explain_is_accused(name):
    run = started(WRONG[name])
    with pytest.raises(cut.OracleError, match="above its value"):
        run.first = run.query(np.array([2.0]))
        for x in (2.5e-4, 2e-4, 1e-4, 3e-4, -1.0, 1.0):
            run.query(np.array([x]))
    assert run.evaluator.hidden == 0.0

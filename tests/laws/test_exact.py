"""No bound above the optimum, and no OPTIMAL with a larger gap, in rational arithmetic."""

from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest
from exact_problems import KINDS, METHODS, TOL, complaint, draw

import cutplane as cut
from cutplane.exceptions import MissingCapabilityError

FEW, MANY = 240, 5000


def complaints(seed, methods):
    """Return what is wrong with the results of some methods on one problem, by method."""
    drawn = draw(seed)
    minimiser = drawn.exact.minimiser()
    optimum, found = drawn.exact.objective(minimiser), {}
    for method in methods:
        try:
            result = drawn.problem.solve(method, tol=TOL, time_limit=5.0)
        except MissingCapabilityError:
            continue
        wrong = complaint(drawn, result, optimum, minimiser)
        if wrong:
            found[method] = wrong
    return {drawn.name: found} if found else {}


@pytest.mark.parametrize("first", range(0, FEW, 24))
def test_results_hold_in_rational_arithmetic(first):
    wrong = {}
    for seed in range(first, first + 24):
        wrong |= complaints(seed, ["auto", METHODS[1 + seed % (len(METHODS) - 1)]])
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, MANY, 100))
def test_results_of_every_method_hold_in_rational_arithmetic(first):
    wrong = {}
    for seed in range(first, first + 100):
        wrong |= complaints(seed, METHODS)
    assert not wrong


@pytest.mark.parametrize("seed", range(60))
def test_rational_optimum_is_that_of_a_conic_solver(seed):
    seed = 3 * seed + KINDS.index("plain")
    drawn = draw(seed)
    exact, risk = drawn.exact, drawn.problem.risk
    w = cp.Variable(risk.dim)
    l2, l1 = (np.array(weights, dtype=float) for weights in (exact.l2, exact.l1))
    objective = risk.cvxpy_form(w) + l2 @ cp.square(w) / 2 + l1 @ cp.abs(w)
    rows = [np.array(normal, dtype=float) @ w >= float(offset) for normal, offset in exact.rows]
    value = cp.Problem(cp.Minimize(objective), rows).solve(solver="CLARABEL")
    x = exact.minimiser()
    assert exact.violation(x) <= 0
    assert float(exact.objective(x)) == pytest.approx(value, abs=1e-6 * (1.0 + abs(value)))


def near_interpolation(targets, half, loss=None):
    """Return a problem with one coordinate whose predictions are all x, and its exact optimum for |x - y|."""
    risk = cut.LinearRisk(np.ones((targets.size, 1)), targets, loss or cut.losses.Absolute())
    problem = cut.Problem(risk, feasible_set=cut.Box(targets[0] - half, targets[0] + half, dim=1))
    median = Fraction(float(np.median(targets)))
    return problem, sum(abs(Fraction(y) - median) for y in targets.tolist()) / targets.size


@pytest.mark.parametrize("method", ["auto", "bmrm", "ocas", "proximal", "level", "kelley", "direct"])
@pytest.mark.parametrize(
    "targets",
    [1e9 + 1e-6 * np.array([0.0, 1.0, 2.0, 3.0, 7.0]), 1.7e9 + 1e-3 * np.arange(-5.0, 6.0) ** 3],
    ids=["micro", "milliseconds"],
)
def test_kinks_closer_than_rounding_give_no_false_proof(targets, method):
    problem, optimum = near_interpolation(targets, 1.0)
    result = problem.solve(method, time_limit=5.0)
    assert Fraction(result.lower_bound) <= optimum * (1 + Fraction(1, 10**12))
    if result.status == "OPTIMAL":
        assert Fraction(result.objective) - optimum <= Fraction(1e-4) * Fraction(result.objective)


@pytest.mark.parametrize("method", ["auto", "proximal"])
@pytest.mark.parametrize(("loss", "shift"), [("Squared", 1e6), ("Absolute", 1e9), ("Huber", 1e8)])
def test_targets_with_a_large_mean_are_verified(loss, shift, method):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    y = X @ [1.0, 2.0, 3.0] + 0.1 * rng.standard_normal(200) + shift
    risk = cut.LinearRisk(X, y, getattr(cut.losses, loss)(), intercept=True)
    result = cut.Problem(risk, cut.L2(1e-3, weights=[1.0, 1.0, 1.0, 0.0])).solve(method, time_limit=5.0)
    assert result.certificate.verify().valid
    assert method != "auto" or result.status == "OPTIMAL"

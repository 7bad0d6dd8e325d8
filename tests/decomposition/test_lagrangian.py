"""Lagrangian duals: their bounds are those of the programme over columns, their primal averages feasible."""

import itertools

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linprog

import cutplane as cut
from cutplane.decomposition import CvxpySubproblem, LinearSubproblem


def solved(dual, tol=1e-7, **options):
    result = cut.Problem(dual).solve(tol=tol, **options)
    assert result.status == "OPTIMAL"
    assert result.certificate.verify().valid
    assert dual.infeasibility(result.primal) <= 1e-6
    return result


def assignment(agents, jobs, seed):
    """Return costs, weights and capacities of a generalised assignment problem."""
    rng = np.random.default_rng(seed)
    costs, weights = (rng.integers(5, 30, (agents, jobs)).astype(float) for _ in range(2))
    return costs, weights, 1.05 * weights.sum(axis=1) / agents


@pytest.mark.parametrize("seed", range(4))
def test_generalised_assignment(seed):
    agents, jobs = 3, 6
    costs, weights, capacities = assignment(agents, jobs, seed)
    knapsacks = [
        LinearSubproblem(costs[i], weights[[i]], row_upper=capacities[i], upper=1.0, integrality=True)
        for i in range(agents)
    ]
    dual = cut.LagrangianDual(knapsacks, [sparse.eye_array(jobs, format="csr")] * agents, np.ones(jobs))
    result = solved(dual)
    columns = [
        (i, x)
        for i in range(agents)
        for x in map(np.array, itertools.product((0.0, 1.0), repeat=jobs))
        if weights[i] @ x <= capacities[i]
    ]
    rows = np.array([np.concatenate([x, np.eye(agents)[i]]) for i, x in columns]).T
    master = linprog([costs[i] @ x for i, x in columns], A_eq=rows, b_eq=np.ones(jobs + agents))
    assert -result.objective == pytest.approx(master.fun, rel=1e-6)
    assert sum(costs[i] @ result.primal[i] for i in range(agents)) == pytest.approx(master.fun, rel=1e-6)
    for i in range(agents):
        assert weights[i] @ result.primal[i] <= capacities[i] + 1e-9


WIDTH, LENGTHS, DEMANDS = 100, np.array([45, 36, 31, 14]), np.array([97.0, 610.0, 395.0, 211.0])


def patterns():
    counts = (range(WIDTH // length + 1) for length in LENGTHS)
    return np.array([each for each in itertools.product(*counts) if np.array(each) @ LENGTHS <= WIDTH])


def best_pattern(prices):
    """Return the most valuable pattern, minus prices being values: an unbounded knapsack, and the roll."""
    P = patterns()
    worth = P @ -prices[:-1] - prices[-1]
    best = P[np.argmax(worth)]
    return np.append(best, 1.0) if worth.max() > 0.0 else np.zeros(prices.size)


def whole_patterns():
    P = patterns()
    return linprog(np.ones(len(P)), A_ub=-P.T, b_ub=-DEMANDS).fun


def test_cutting_stock_as_a_lagrangian_dual():
    """There are at most 1000 rolls, cut alike: 1000 times a pattern, or none."""

    def rolls(prices):
        x = 1000.0 * best_pattern(prices)
        return prices @ x, x

    coupling = np.hstack([np.eye(4), np.zeros((4, 1))])
    costs = [np.append(np.zeros(4), 1.0)]
    dual = cut.LagrangianDual(rolls, coupling, DEMANDS, sense=">=", costs=costs)
    result = solved(dual)
    assert (result.x <= 0.0).all()
    assert -result.objective == pytest.approx(whole_patterns(), rel=1e-6)
    assert result.primal[-1] == pytest.approx(whole_patterns(), rel=1e-6)
    assert (result.primal[:-1] >= DEMANDS - 1e-6).all()


def test_subproblems_may_be_functions_and_cvxpy_problems():
    x = cp.Variable(2)
    disc = CvxpySubproblem(cp.Problem(cp.Minimize(cp.sum_squares(x)), [cp.norm(x - 1) <= 2]), x)

    def box(prices):
        return np.where(prices > 0.0, -1.0, 1.0)

    A, b = np.array([[1.0, 2.0, 1.0, 0.0], [0.0, 1.0, -1.0, 1.0]]), np.array([3.0, 0.5])
    costs = [np.zeros(2), np.array([0.5, 1.0])]
    dual = cut.LagrangianDual([disc, box], A, b, sense=["<=", "=="], costs=costs)
    assert (dual.domain.lower.tolist(), dual.domain.upper.tolist()) == ([0.0, -np.inf], [np.inf, np.inf])
    result = cut.Problem(dual, feasible_set=cut.Box(-20, 20)).solve(tol=1e-6)
    y = cp.Variable(2)
    total = A[:, :2] @ x + A[:, 2:] @ y
    whole = cp.Problem(
        cp.Minimize(cp.sum_squares(x) + costs[1] @ y),
        [cp.norm(x - 1) <= 2, cp.abs(y) <= 1, total[0] <= b[0], total[1] == b[1]],
    )
    assert -result.objective == pytest.approx(whole.solve(solver="CLARABEL"), rel=1e-5)
    assert dual.infeasibility(result.primal) <= 1e-3
    assert result.primal[0] == pytest.approx(x.value, abs=1e-2)


def test_a_dual_without_a_bound_says_that_the_primal_is_infeasible():
    """Two units cannot make three: the prices rise for ever."""
    dual = cut.LagrangianDual(LinearSubproblem([1.0], upper=2.0), [[[1.0]]], [3.0], sense=">=")
    result = cut.Problem(dual).solve()
    assert result.status == "UNBOUNDED"


def test_infeasibility_looks_at_the_senses():
    senses = ["<=", ">=", "=="]
    dual = cut.LagrangianDual(lambda prices: np.zeros(3), np.eye(3), np.ones(3), senses)
    assert dual.infeasibility(np.array([0.0, 3.0, 1.0])) == 0.0
    assert dual.infeasibility(np.array([2.0, 1.0, 1.0])) == 1.0
    assert dual.infeasibility(np.array([0.0, 0.5, 1.0])) == 0.5
    assert dual.infeasibility(np.array([0.0, 3.0, 3.0])) == 2.0
    assert dual.infeasibility(np.array([0.0, 3.0, 0.0])) == 1.0
    assert repr(dual) == "LagrangianDual(1 subproblems, 3 coupling constraints)"


def test_what_does_not_fit_is_refused():
    def zero(prices):
        return np.zeros(2)

    def refused(match, *arguments, error=cut.InvalidInputError, **options):
        with pytest.raises(error, match=match):
            cut.LagrangianDual(*arguments, **options)

    refused("must be a function", [3.0], np.eye(2), np.ones(2))
    refused("sense must be", zero, np.eye(2), np.ones(2), "<")
    refused("sense must be", zero, np.eye(2), np.ones(2), ["<="])
    refused("do not fit 2 subproblems", [zero, zero], np.ones((2, 3)), np.ones(2))
    refused("2 matrices with 2 rows", [zero, zero], [np.eye(2)], np.ones(2))
    refused("1 matrices with 3 rows", zero, np.eye(2), np.ones(3))
    refused("costs must be 1 vectors", zero, np.eye(2), np.ones(2), costs=[])
    refused(r"costs\[0\]", zero, np.eye(2), np.ones(2), costs=[np.ones(3)])
    with pytest.raises(cut.OracleError, match=r"a solution x of shape \(3,\)"):
        cut.LagrangianDual(zero, np.ones((2, 3)), np.ones(2)).oracle(np.ones(2))
    with pytest.raises(cut.OracleError, match="has no solution"):
        LinearSubproblem([1.0], [[1.0]], row_lower=3.0, upper=2.0)(np.zeros(1))
    x = cp.Variable(1)
    with pytest.raises(cut.OracleError, match="cvxpy says infeasible"):
        CvxpySubproblem(cp.Problem(cp.Minimize(0), [x >= 1, x <= 0]), x)(np.zeros(1))
    with pytest.raises(cut.InvalidInputError, match="that minimises"):
        CvxpySubproblem(cp.Problem(cp.Maximize(cp.sum(x))), x)


@pytest.mark.parametrize("unit", [1e-9, 1e-5, 1.0, 1e8])
def test_the_least_integers_do_not_depend_on_the_unit_of_the_prices(unit):
    rng = np.random.default_rng(0)
    for _ in range(30):
        n = 3
        row = rng.integers(1, 9, (1, n)).astype(float)
        points = np.array(list(itertools.product(range(4), repeat=n)), dtype=float)
        points = points[points @ row[0] <= 12.0]
        prices = unit * rng.normal(size=n)
        knapsack = LinearSubproblem(np.zeros(n), row, row_upper=12.0, upper=3.0, integrality=True)
        assert knapsack(prices)[0] == pytest.approx((points @ prices).min(), rel=1e-8)

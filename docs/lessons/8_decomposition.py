r"""
8. Decomposition
================

Some functions are optimal values of other problems: what tomorrow will cost, if we decide x today; what
a set of agents would do at the prices u. They are convex, they have kinks everywhere, and solving the
inner problem gives a subgradient. Large problems fall apart into small ones by them.
"""

import itertools

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linprog

import cutplane as cut

# %%
# Tomorrow's cost
# ---------------
# Today we buy capacities x of three plants, at 8, 9 and 7 a unit. Tomorrow the demand of four regions
# is known; it is served from the plants, or bought elsewhere for 20. For one demand, tomorrow is a
# linear programme in which x stands on the right-hand side:
#
# .. math:: Q(x, \xi) = \min_{y \ge 0} \{ \langle q, y\rangle : W y \ge \xi - T x \}
#    = \max_{\pi \ge 0} \{ \langle \pi, \xi - Tx\rangle : W^\top \pi \le q \} .
#
# The second form is linear programming duality. It is a maximum of functions that are affine in x, so Q
# is *convex* in x, and the best :math:`\pi` gives a subgradient, :math:`-T^\top \pi`.
rng = np.random.default_rng(0)
price, transport, elsewhere = np.array([8.0, 9.0, 7.0]), rng.uniform(1.0, 4.0, (3, 4)), 20.0
demands = rng.uniform(1.0, 5.0, (20, 4))
q = np.append(transport.ravel(), np.full(4, elsewhere))  # 12 amounts served, 4 bought
supply = np.hstack([-np.kron(np.eye(3), np.ones(4)), np.zeros((3, 4))])  # -served >= -x
serve = np.hstack([np.tile(np.eye(4), 3), np.eye(4)])  # served + bought >= demand
W = np.vstack([supply, serve])


def tomorrow(x, demand):
    """Return the cost and a subgradient in x."""
    solved = linprog(q, -W, -np.append(-x, demand), bounds=(0, None))
    pi = -solved.ineqlin.marginals
    return solved.fun, -pi[:3]


# %%
# The claims, in numbers: tangents are below the function, and the slopes are not positive (more
# capacity never costs more).
points = rng.uniform(0.0, 8.0, (12, 3))
answers = [tomorrow(x, demands[0]) for x in points]
excess = [
    value + slope @ (z - x) - other
    for x, (value, slope) in zip(points, answers, strict=True)
    for z, (other, _) in zip(points, answers, strict=True)
]
print("largest tangent minus function:", np.round(max(excess), 9))
assert max(excess) <= 1e-7 and all((slope <= 1e-9).all() for _, slope in answers)

# %%
# The L-shaped method
# -------------------
# The mean over the scenarios is a sum of such functions, hence a risk; so is today's price, which is
# linear. Kelley's method on it is called the *L-shaped method*, or Benders decomposition.


@cut.risk(dim=3)
def mean_cost(x):
    x = np.maximum(x, 0.0)  # a solver may leave the box by its last digits
    values, slopes = zip(*(tomorrow(x, demand) for demand in demands), strict=True)
    return np.mean(values), np.mean(slopes, axis=0)


problem = cut.Problem(mean_cost + cut.LinearObjective(price), feasible_set=cut.Box(0, 20, dim=3))
shaped = problem.solve(cut.Kelley(), tol=1e-4)
level = problem.solve(cut.LevelBundle(), tol=1e-4)
print(f"capacities {shaped.x.round(2)}, cost {shaped.objective:.4f}")
print(f"queries: L-shaped {shaped.oracle_calls}, level {level.oracle_calls}")

# %%
# The alternative is to write all scenarios out as one programme with 20 x 16 + 3 variables, the
# *extensive form*. Its optimum is the same.
x = cp.Variable(3)
y = cp.Variable((20, 16), nonneg=True)
rows = [W @ y[s] >= cp.hstack([-x, demand]) for s, demand in enumerate(demands)]
whole = cp.Problem(cp.Minimize(price @ x + cp.sum(y @ q) / 20), [*rows, x >= 0, x <= 20])
print(f"extensive form {whole.solve(solver=cp.HIGHS):.4f}")
assert np.isclose(shaped.objective, whole.value, rtol=2e-4) and np.isclose(
    level.objective, whole.value, rtol=2e-4
)
assert shaped.lower_bound <= whole.value * (1 + 1e-7)

fig, ax = plt.subplots(layout="constrained")
shaped.plot(ax)
plt.show()

# %%
# In the library, `cutplane.ValueFunction` makes the risk from a cvxpy problem; its cuts are proven from
# dual points.
#
# Prices
# ------
# Now the other direction. Two machines share five jobs; machine i takes the time :math:`w_{ij}` for job
# j at the cost :math:`c_{ij}`, and has the time :math:`C_i`. The machines are coupled because each job
# is done once. *Relax* that, at a price :math:`u_j` for each job:
#
# .. math:: \theta(u) = \sum_i \min_{x_i \in X_i} \langle c_i + u, x_i\rangle - \sum_j u_j ,
#    \qquad X_i = \{x \in \{0, 1\}^5 : \langle w_i, x\rangle \le C_i\} .
#
# Each machine is on its own: a knapsack. Whatever the price, an assignment that does each job once
# costs :math:`\sum_i \langle c_i, x_i\rangle = \sum_i \langle c_i + u, x_i\rangle - \sum_j u_j \ge
# \theta(u)`. So every u gives a lower bound, and the best one is the *Lagrangian dual*: to maximise
# :math:`\theta`, a minimum of affine functions and hence concave.
costs = np.array([[5.0, 8, 6, 7, 6], [8, 6, 4, 5, 7]])
times = np.array([[5.0, 7, 3, 4, 7], [2, 6, 7, 7, 6]])
limits = np.array([14.0, 15.0])
every = np.array(list(itertools.product([0.0, 1.0], repeat=5)))
allowed = [every[every @ t <= limit] for t, limit in zip(times, limits, strict=True)]

answers = [(costs[i], allowed[i]) for i in (0, 1)]
pairs = [(a, b) for a in allowed[0] for b in allowed[1] if (a + b == 1.0).all()]
best = min(costs[0] @ a + costs[1] @ b for a, b in pairs)
print(f"{len(pairs)} assignments; the cheapest costs {best:g}")


def theta(u):
    picks = [points[((c + u) @ points.T).argmin()] for c, points in answers]
    value = sum((c + u) @ x for (c, _), x in zip(answers, picks, strict=True)) - u.sum()
    return value, sum(picks) - 1.0, picks


for _ in range(200):
    assert theta(rng.uniform(-20.0, 5.0, 5))[0] <= best + 1e-9

# %%
# Maximising :math:`\theta` is minimising :math:`-\theta`, whose subgradient is 1 minus how often each
# job is done. An oracle may return its solution as a third thing; the result averages it with the
# multipliers of the cuts.


@cut.risk(dim=5)
def dual(u):
    value, done, picks = theta(u)
    return -value, -done, np.array(picks)


prices = cut.Problem(dual, feasible_set=cut.Box(-50, 50)).solve(tol=1e-7)
bound = -prices.objective
print(f"bound {bound:.4f} at the prices {prices.x.round(2)}")
print(prices.primal.round(3))

# %%
# The path of the prices, in the plane in which they moved most:
cut.explore(cut.Problem(dual, feasible_set=cut.Box(-50, 50)), cut.ProximalBundle(), tol=1e-4)

# %%
# The average does each job once, and costs what the bound says: it solves the linear programme over the
# convex hulls of the :math:`X_i`. This is Dantzig-Wolfe decomposition, read from the dual (lesson 6).
# The bound is at least that of the plain relaxation :math:`0 \le x \le 1`, because the hull of a
# knapsack's solutions is smaller than the knapsack's polytope.
share = cp.Variable((2, 5))
once = [cp.sum(share, axis=0) == 1, share >= 0, share <= 1]
knapsacks = [cp.sum(cp.multiply(times, share), axis=1) <= limits]
plain = cp.Problem(cp.Minimize(cp.sum(cp.multiply(costs, share))), once + knapsacks).solve(solver=cp.HIGHS)
print(f"plain relaxation {plain:.4f} <= Lagrangian bound {bound:.4f} <= optimum {best:g}")
assert plain < bound < best
assert np.allclose(prices.primal.sum(axis=0), 1.0, atol=1e-3)
assert np.isclose((costs * prices.primal).sum(), bound, rtol=1e-3)

# %%
# Exercises
# ---------
# **1.** A newsagent buys x papers at 1 and sells at most the demand at 3 each; scenarios of the demand
# have probabilities p. Return the expected *loss* x - 3 E min(x, demand), and a subgradient.


def newsagent(x, demand, p): ...  # yours


def check_1(answer):
    rng = np.random.default_rng(1)
    demand, p = rng.uniform(0.0, 10.0, 6), rng.dirichlet(np.ones(6))

    def loss(x):
        return x - 3.0 * p @ np.minimum(x, demand)

    for _ in range(100):
        x, z = rng.uniform(0.0, 12.0, 2)
        found = answer(x, demand, p)
        assert found is not None and len(found) == 2, "a value and a subgradient are returned"
        assert np.isclose(found[0], loss(x)), "the value is wrong"
        assert loss(z) >= found[0] + found[1] * (z - x) - 1e-9, "the tangent is above the loss somewhere"


# check_1(newsagent)  # take the first mark away to be told whether you are right

# %%
# **2.** A covering problem: :math:`\min \langle c, x\rangle` over :math:`x \in \{0, 1\}^n` with
# :math:`Ax \ge b`. Relax the rows with prices :math:`u \ge 0`, and return the lower bound and a
# subgradient of it *as a concave function* (a supergradient).


def covering_bound(u, c, A, b): ...  # yours


def check_2(answer):
    rng = np.random.default_rng(2)
    c, A, b = rng.uniform(1.0, 5.0, 6), rng.integers(0, 2, (4, 6)).astype(float), np.ones(4)
    every = np.array(list(itertools.product([0.0, 1.0], repeat=6)))
    best = (every[(every @ A.T >= b).all(axis=1)] @ c).min()
    for _ in range(100):
        u, v = rng.uniform(0.0, 4.0, (2, 4))
        found, other = answer(u, c, A, b), answer(v, c, A, b)
        assert found is not None and len(found) == 2, "a bound and a supergradient are returned"
        assert found[0] <= best + 1e-9, "no bound: a cover is cheaper"
        assert np.isclose(found[0], (every @ c + (b - every @ A.T) @ u).min()), "a better bound holds at u"
        assert other[0] <= found[0] + found[1] @ (v - u) + 1e-9, "the tangent is below the bound somewhere"


# check_2(covering_bound)

# %%
# Solutions
# ---------
# **1.** Scenarios with more demand than x sell one paper more.


def solution_1(x, demand, p):
    return x - 3.0 * p @ np.minimum(x, demand), 1.0 - 3.0 * p[demand > x].sum()


check_1(solution_1)

# %%
# **2.** The Lagrangian is :math:`\langle c, x\rangle + \langle u, b - Ax\rangle`: take each x whose
# reduced cost :math:`c_j - \langle u, A_j\rangle` is negative.


def solution_2(u, c, A, b):
    x = (c - A.T @ u < 0.0).astype(float)
    return (c - A.T @ u) @ x + u @ b, b - A @ x


check_2(solution_2)

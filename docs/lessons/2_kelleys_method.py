r"""
2. Kelley's method, and why it zigzags
======================================

A model of cuts is below the function, and it is easy to minimise. So minimise it, ask the oracle there,
add the cut, and repeat. This is Kelley's method (`doi:10.1137/0108053
<https://doi.org/10.1137/0108053>`_), from which all others of these lessons descend. This lesson builds
it in ten lines, shows that its bounds are proofs, and then looks for the reason why it can be slow.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linprog

import cutplane as cut

# %%
# The method
# ----------
# We minimise f over a box. After t queries the *reduced problem* is
#
# .. math:: \min_{x, r} \; r \quad \text{subject to} \quad \langle a_i, x\rangle + b_i \le r, \;\; i \le t,
#    \qquad \ell \le x \le u ,
#
# a linear programme. Its least value is a *lower bound*, because the model is below f; the least value
# of f that was seen is an *upper bound*. The box matters: one cut alone has no minimum.


def kelley(f, dim, low, high, tol, max_iter=500):
    slopes, offsets, queries, bounds = [], [], [], []
    x, upper = np.full(dim, low, dtype=float), np.inf
    for _ in range(max_iter):
        value, s = f(x)
        queries.append(x)
        upper = min(upper, value)
        slopes.append(s)
        offsets.append(value - s @ x)
        rows = np.column_stack([slopes, -np.ones(len(slopes))])
        model = linprog(
            np.eye(dim + 1)[-1], rows, -np.array(offsets), bounds=[(low, high)] * dim + [(None, None)]
        )
        x = model.x[:-1]
        bounds.append((model.fun, upper))
        if upper - model.fun <= tol:
            break
    return np.array(queries), np.array(bounds)


# %%
# A piecewise linear function of two variables, the largest of four planes:
planes = np.array([[1.0, 2.0], [-3.0, 1.0], [1.0, -2.0], [-1.0, -1.0]])
heights = np.array([0.0, 1.0, 1.0, -1.0])


def roof(x):
    i = np.argmax(planes @ x + heights)
    return planes[i] @ x + heights[i], planes[i]


queries, bounds = kelley(roof, 2, -4.0, 4.0, tol=1e-9)
for k, (lower, upper) in enumerate(bounds):
    print(f"{k}: {lower:8.4f} <= optimum <= {upper:8.4f}")

# %%
# Two claims. The bounds are monotone: a model with one more cut is nowhere lower, and the best value
# never rises. And for a piecewise linear function the method ends: each query away from the optimum
# finds a new plane, and there are four.
assert (np.diff(bounds[:, 0]) >= -1e-9).all() and (np.diff(bounds[:, 1]) <= 0.0).all()
assert len(queries) <= len(planes) + 1
assert np.isclose(bounds[-1, 0], bounds[-1, 1])

# %%
# The library's `Kelley` is the same algorithm. Its lower bound is computed from multipliers (lesson 4),
# its reduced problem is a living model that grows by a row.
problem = cut.Problem(cut.risk(dim=2)(roof), feasible_set=cut.Box(-4, 4))
result = problem.solve(cut.Kelley(), tol=1e-9)
print(result.status, result.objective, result.lower_bound)
assert np.isclose(result.objective, bounds[-1, 1])

# %%
# Where it zigzags
# ----------------
# Now a function without planes: a bowl that is five times as steep across as along, with the least value 1.
Q = np.array([1.0, 5.0])


def bowl(x):
    return 0.5 * Q @ x**2 + 1.0, Q * x


queries, bounds = kelley(bowl, 2, -2.0, 2.4, tol=1e-3)
print(f"{len(queries)} queries")

axis = np.linspace(-2.0, 2.4, 200)
height = 0.5 * (Q[0] * axis[np.newaxis] ** 2 + Q[1] * axis[:, np.newaxis] ** 2)
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.contour(axis, axis, height, levels=12, colors="0.8", linewidths=0.8)
left.plot(*queries.T, "C0o-", markersize=4, linewidth=0.8)
left.plot(0, 0, "C3*", markersize=14)
left.set(title="the queries, in their order", xlabel="$x_1$", ylabel="$x_2$")
distance = np.linalg.norm(queries, axis=1)
right.semilogy(distance, "C0o-", label="distance of the query from the minimiser")
right.semilogy(bounds[:, 1] - bounds[:, 0], "C1.-", label="gap")
right.set(xlabel="query")
right.legend()
plt.show()

# %%
# The second query is the corner opposite to the first, and from then on the queries jump from one side
# of the minimiser to the other: nearly every step turns against the one before, and a third of them
# lead away from the minimiser.
steps = np.diff(queries, axis=0)
turning = np.mean(np.sum(steps[1:] * steps[:-1], axis=1) < 0.0)
away = np.mean(np.diff(distance) > 0.0)
print(f"{turning:.0%} of the steps turn back, {away:.0%} lead away from the minimiser")
assert np.allclose(queries[1], 2.4)
assert turning > 0.7 and away > 0.2

# %%
# The same run, one cut after the other: the dashed lines are the edges of the model.
bowl_problem = cut.Problem(cut.risk(dim=2)(bowl), feasible_set=cut.Box(-2, 2.4))
cut.explore(bowl_problem, cut.Kelley(), tol=1e-2, x0=[-2, -2])

# %%
# The reason is in the model. A cut is true everywhere and *tight* at one point; away from it, a bowl is
# far above its tangents. The model is minimised where it is least accurate: its minimum is a vertex where
# n + 1 cuts meet, far from all queries.
#
# It gets worse with the dimension
# --------------------------------
# A minimum in n dimensions is determined only by cuts on all sides. The function *Chained CB3 II*, a test
# problem of nonsmooth optimisation, exists in every dimension:
#
# .. math:: f(x) = \max\left\{\sum_i x_i^4 + x_{i+1}^2, \;\; \sum_i (2 - x_i)^2 + (2 - x_{i+1})^2, \;\;
#    \sum_i 2 e^{x_{i+1} - x_i}\right\}, \qquad i = 1, \ldots, n - 1 .
#
# Its least value is 2 (n - 1), at x = 1. We count the queries that prove a relative gap of one percent,
# also for the level method of the next lesson.


def chained(x):
    a, b = x[:-1], x[1:]
    values = np.sum(a**4 + b**2), np.sum((2 - a) ** 2 + (2 - b) ** 2), np.sum(2 * np.exp(b - a))
    i = int(np.argmax(values))
    left = (4 * a**3, -2 * (2 - a), -2 * np.exp(b - a))[i]
    right = (2 * b, -2 * (2 - b), 2 * np.exp(b - a))[i]
    return values[i], np.append(left, 0.0) + np.append(0.0, right)


dims = np.array([2, 4, 6, 8, 10, 12])
calls = {"Kelley": [], "LevelBundle": []}
for n in dims:
    problem = cut.Problem(cut.risk(dim=n)(chained), feasible_set=cut.Box(-3, 3))
    for method in (cut.Kelley(), cut.LevelBundle()):
        solved = problem.solve(method, tol=1e-2, x0=np.full(n, 2.0))
        assert solved.lower_bound <= 2 * (n - 1) <= solved.objective <= solved.lower_bound * 1.011
        calls[type(method).__name__].append(solved.oracle_calls)

fig, ax = plt.subplots()
for name, row in calls.items():
    ax.loglog(dims, row, "o-", label=name)
ax.set(xlabel="dimension", ylabel="queries", xticks=dims, xticklabels=dims)
ax.minorticks_off()
ax.legend()
plt.show()

# %%
# The slope of the line is the power of n with which the queries grow.
power = {name: np.polyfit(np.log(dims), np.log(row), 1)[0] for name, row in calls.items()}
for name, row in calls.items():
    print(f"{name:11} {row}, n to the power {power[name]:.1f}")
assert power["Kelley"] > 1.3 and power["LevelBundle"] < 0.6

# %%
# It can be far worse: for some functions Kelley's method needs a number of queries that is exponential
# in n (A. Nemirovskii and D. Yudin, *Problem complexity and method efficiency in optimization*, 1983).
#
# When it is the right method
# ---------------------------
# * f is linear, and only the feasible set is difficult, because then the model is exact (lesson 7).
# * f is the largest of few planes.
# * a strong regularizer keeps the minimiser near earlier queries: `BMRM`, lesson 5.
#
# Exercises
# ---------
# **1.** Cuts of a function f on the real line, as arrays of slopes and offsets, and an interval are
# given. Return the next query of Kelley's method, the minimiser of the model on the interval.


def next_query(slopes, offsets, low, high): ...  # yours


def check_1(answer):
    rng = np.random.default_rng(1)
    for _ in range(30):
        slopes, offsets = rng.standard_normal((2, 6))
        x = answer(slopes, offsets, -1.0, 2.0)
        assert x is not None and -1.0 <= float(x) <= 2.0, "the query lies in the interval"
        points = np.linspace(-1.0, 2.0, 20_001)
        least = (slopes[:, np.newaxis] * points + offsets[:, np.newaxis]).max(axis=0).min()
        assert (slopes * float(x) + offsets).max() <= least + 1e-6, "the model is lower elsewhere"


# check_1(next_query)  # take the first mark away to be told whether you are right

# %%
# **2.** A run stopped with lower and upper bounds l and u. What is the largest amount by which the best
# point seen can be worse than the optimum, relative to :math:`|u|`? Write the *relative gap*, with
# 1e-12 in place of an upper bound that is zero.


def relative_gap(lower, upper): ...  # yours


def check_2(answer):
    for lower, upper in [(1.0, 2.0), (-3.0, -2.0), (-1.0, 4.0), (0.5, 0.5), (0.0, 0.0)]:
        found = answer(lower, upper)
        assert found is not None, "nothing was returned"
        assert np.isclose(found, (upper - lower) / max(1e-12, abs(upper))), f"wrong for {lower}, {upper}"
    assert np.isclose(answer(result.lower_bound, result.objective), result.gap), "not what the library says"


# check_2(relative_gap)

# %%
# Solutions
# ---------
# **1.** The linear programme above, with one variable and r.


def solution_1(slopes, offsets, low, high):
    rows = np.column_stack([slopes, -np.ones(len(slopes))])
    return linprog([0.0, 1.0], rows, -offsets, bounds=[(low, high), (None, None)]).x[0]


check_1(solution_1)

# %%
# **2.** The optimum is at least l, so that the best point, with the value u, is worse by at most u - l.


def solution_2(lower, upper):
    return (upper - lower) / max(1e-12, abs(upper))


check_2(solution_2)

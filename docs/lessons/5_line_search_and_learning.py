r"""
5. Line search and learning
===========================

Training a linear classifier is a problem with a special structure: a pass over the data is costly, and
what happens on a line is nearly free. The method OCAS makes use of that. This lesson builds its line
search, and compares it with the same cuts without one.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize_scalar
from sklearn.datasets import load_digits

import cutplane as cut

# %%
# The problem
# -----------
# Even digits against odd ones, 1,797 images of 8 x 8 pixels and a constant feature:
#
# .. math:: F(w) = \frac1m \sum_{i=1}^m \max(0, 1 - y_i \langle x_i, w\rangle) + \frac\lambda2 \|w\|^2 .
X, digit = load_digits(return_X_y=True)
X, y = np.column_stack([X / 16, np.ones(len(X))]), np.where(digit % 2 == 0, 1.0, -1.0)
m, lam = len(y), 1e-4


def F(w):
    return np.maximum(0.0, 1.0 - y * (X @ w)).mean() + lam / 2 * w @ w


# %%
# BMRM: the regularizer stabilises
# --------------------------------
# Kelley's method with the regularizer kept exactly in the reduced problem is called *bundle method for
# regularized risk minimisation*,
#
# .. math:: w_t = \arg\min_w \; \max_i \, (\langle a_i, w\rangle + b_i) + \frac\lambda2 \|w\|^2 .
#
# It needs at most :math:`O(1/(\lambda \varepsilon))` iterations. So the smaller the weight, the longer it
# takes:
problem = {
    weight: cut.Problem(cut.LinearRisk(X, y, cut.losses.Hinge()), cut.L2(weight))
    for weight in (1e-1, 1e-2, 1e-3)
}
iterations = {}
for weight, each in problem.items():
    iterations[weight] = [each.solve(method, tol=1e-2).n_iter for method in (cut.BMRM(), cut.OCAS())]
    print(f"lam = {weight:g}: BMRM {iterations[weight][0]:4} iterations, OCAS {iterations[weight][1]:3}")
assert iterations[1e-3][0] > 3 * iterations[1e-1][0]

# %%
# This lesson explains the second column.
#
# A line costs nothing
# --------------------
# Let w be the best point, and v the minimiser of the model. On the line :math:`w + k (v - w)` the
# predictions are
#
# .. math:: X (w + k (v - w)) = Xw + k \, (Xv - Xw) ,
#
# a combination of two vectors that we have. So F on the line is a function of one variable that needs
# no pass over the data: 1,797 numbers, not 1,797 x 65.
rng = np.random.default_rng(0)
w, v = np.zeros(X.shape[1]), 0.3 * rng.standard_normal(X.shape[1])
v *= np.sign(y @ (X @ v))
z, d = y * (X @ w), y * (X @ (v - w))
steps = np.linspace(0.0, 2.0, 401)
on_line = [np.maximum(0.0, 1.0 - z - k * d).mean() + lam / 2 * np.sum((w + k * (v - w)) ** 2) for k in steps]
assert np.allclose(on_line, [F(w + k * (v - w)) for k in steps])

# %%
# Its derivative is increasing, and jumps where an example crosses its margin, at :math:`k_i = (1 -
# z_i)/d_i`:
#
# .. math:: \phi'(k) = \lambda \langle w + k(v - w), v - w\rangle
#    - \frac1m \sum_{i \,:\, z_i + k d_i < 1} d_i .


def derivative(k):
    return lam * (w + k * (v - w)) @ (v - w) - d[z + k * d < 1.0].sum() / m


fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
left.plot(steps, on_line)
left.set(xlabel="step k", ylabel="objective")
right.plot(steps, [derivative(k) for k in steps], drawstyle="steps-post")
right.axhline(0.0, color="0.5", linewidth=0.8)
right.set(xlabel="step k", ylabel="derivative")
best = minimize_scalar(
    lambda k: F(w + k * (v - w)), bounds=(0, 2), method="bounded", options={"xatol": 1e-10}
).x
for ax in (left, right):
    ax.axvline(best, color="C3", linestyle=":")
plt.show()
before, after = derivative(best - 1e-6), derivative(best + 1e-6)
print(f"best step {best:.6f}: derivative {before:.2e} before, {after:.2e} after")
assert before < 0.0 < after

# %%
# The zero crossing is found by sorting the breakpoints, and exactly: that is the second exercise.
#
# OCAS
# ----
# In each iteration (Franc and Sonnenburg, 2009, https://jmlr.org/papers/v10/franc09a.html):
#
# 1. v is the minimiser of the model plus regularizer;
# 2. the best point moves to the minimum on the line, :math:`w \leftarrow w + k^* (v - w)`;
# 3. the next cut is taken near it, at :math:`(1 - \theta) w + \theta v` with :math:`\theta = 0.1`.
#
# BMRM takes it at v. The bounds of the two, for the weight :math:`10^{-3}`:
fig, ax = plt.subplots(layout="constrained")
gaps = {}
for method in (cut.BMRM(), cut.OCAS()):
    history = problem[1e-3].solve(method, tol=1e-2).history
    gaps[type(method).__name__] = history.column("upper_bound")
    ax.plot(history.column("upper_bound"), label=f"{type(method).__name__}: best objective")
    ax.plot(history.column("lower_bound"), linestyle="--", label=f"{type(method).__name__}: lower bound")
ax.set(xscale="log", xlabel="iteration", ylim=(0.0, 1.1))
ax.legend()
plt.show()

# %%
# Fifteen iterations of both, in the plane through the best point in which the queries moved most.
cut.explore(problem[1e-3], methods=[cut.BMRM(), cut.OCAS()], max_iter=15)

# %%
# With the line search the best objective falls in every iteration in which the direction is one of
# descent, not just when a query happens to be good.
fell = {name: np.mean(np.diff(best) < 0.0) for name, best in gaps.items()}
print("iterations in which it fell:", *[f"{name} {share:.0%}" for name, share in fell.items()])
assert fell["OCAS"] > 0.8 > fell["BMRM"]
assert all(bmrm > ocas for bmrm, ocas in iterations.values())

# %%
# Both have the same worst case. The line search improves the usual case.
#
# Exercises
# ---------
# **1.** Write the value of :math:`\phi'(k)`, the derivative from the right, of the *squared* hinge loss
# :math:`\frac1{m} \sum_i \max(0, 1 - z_i - k d_i)^2`, without the regularizer.


def squared_hinge_derivative(k, z, d): ...  # yours


def check_1(answer):
    rng = np.random.default_rng(1)
    z, d = rng.standard_normal((2, 30))
    for k in (0.0, 0.3, 1.5):
        values = [np.mean(np.maximum(0.0, 1.0 - z - t * d) ** 2) for t in (k - 1e-6, k + 1e-6)]
        found = answer(k, z, d)
        assert found is not None, "nothing was returned"
        assert np.isclose(found, (values[1] - values[0]) / 2e-6, atol=1e-5), f"wrong at k = {k}"


# check_1(squared_hinge_derivative)  # take the first mark away to be told whether you are right

# %%
# **2.** Find the minimiser over :math:`k \ge 0` of
# :math:`\frac1m \sum_i \max(0, 1 - z_i - k d_i) + \frac{q}2 k^2 + p k` exactly, for q > 0.


def exact_step(z, d, q, p): ...  # yours


def check_2(answer):
    rng = np.random.default_rng(2)
    for _ in range(40):
        z, d = rng.standard_normal((2, 25))
        q, p = rng.uniform(0.05, 1.0), 0.2 * rng.standard_normal()

        def phi(k, z=z, d=d, q=q, p=p):
            return np.maximum(0.0, 1.0 - z - k * d).mean() + q / 2 * k * k + p * k

        k = answer(z, d, q, p)
        assert k is not None and k >= 0.0, "a step is not negative"
        near = np.append(np.linspace(0.0, 20.0, 2001), np.abs(k + np.linspace(-0.01, 0.01, 21)))
        assert phi(k) <= min(phi(t) for t in near) + 1e-12, "another step is better"


# check_2(exact_step)

# %%
# Solutions
# ---------
# **1.** The chain rule, for the examples inside the margin.


def solution_1(k, z, d):
    return -2.0 * np.mean(d * np.maximum(0.0, 1.0 - z - k * d))


check_1(solution_1)

# %%
# **2.** Between two breakpoints the derivative is a line with the slope q. Walk through the intervals
# in order: in each, the zero of that line is the answer if it lies before the interval's end, and the
# interval's beginning if it lies before even that.


def solution_2(z, d, q, p):
    breakpoints = (1.0 - z[d != 0.0]) / d[d != 0.0]
    ends = np.append(np.unique(breakpoints[breakpoints > 0.0]), np.inf)
    start = 0.0
    for end in ends:
        inside = start + 1.0 if np.isinf(end) else (start + end) / 2.0
        slope = p - d[z + inside * d < 1.0].sum() / len(z)
        if -slope / q < end:
            return max(start, -slope / q)
        start = end


check_2(solution_2)

r"""
1. Subgradients and cuts
========================

The risks of machine learning have kinks: hinge loss, absolute error, the worst case of many. Where
there is a kink there is no gradient. What is left of it is enough: this lesson shows what a subgradient
says about a function, how to compute one, and why it is worth more than a direction.
"""

import matplotlib.pyplot as plt
import numpy as np

import cutplane as cut

# %%
# One inequality
# --------------
# A vector s is a *subgradient* of the convex function f at x if the tangent with the slope s stays
# below f everywhere:
#
# .. math:: f(z) \ge f(x) + \langle s, z - x\rangle \quad \text{for all } z.
#
# The set of all subgradients at x is written :math:`\partial f(x)`. Where f is differentiable, it holds
# the gradient alone; at a kink there are many. We take the mean distance to five numbers,
#
# .. math:: f(x) = \frac15 \sum_{i=1}^5 |x - y_i| .
y = np.array([1.0, 2.0, 4.0, 7.0, 8.0])


def f(x):
    return np.abs(x - y).mean()


def slope(x):
    return np.sign(x - y).mean()


# %%
# The claim: ``slope`` is a subgradient. The inequality is tested for all pairs of points on a grid.
grid = np.linspace(-1.0, 10.0, 221)
values = np.array([f(z) for z in grid])
tangents = np.array([f(x) + slope(x) * (grid - x) for x in grid])
print("largest tangent minus function:", (tangents - values).max().round(12))
assert (tangents <= values + 1e-12).all()

# %%
# A tangent that is read as a lower bound of the whole function is a *cut*. It has a slope and an offset,
#
# .. math:: f(z) \ge a z + b, \qquad a = s, \quad b = f(x) - s x ,
#
# and it does not remember the point where it was found.
fig, ax = plt.subplots()
ax.plot(grid, values, "k", linewidth=2, label="f")
for x in (0.0, 3.0, 9.0):
    (line,) = ax.plot(grid, f(x) + slope(x) * (grid - x), label=f"cut at {x:g}, slope {slope(x):g}")
    ax.plot(x, f(x), "o", color=line.get_color())
ax.set(xlabel="x", ylim=(-1.0, 6.0))
ax.legend()
plt.show()

# %%
# At a kink
# ---------
# At x = 2 the function turns: its slope is -0.6 on the left and -0.2 on the right. Every number between
# is a subgradient there, and no other is.
kink = 2.0
for s in (-0.7, -0.6, -0.4, -0.2, -0.1):
    below = (f(kink) + s * (grid - kink) <= values + 1e-12).all()
    print(f"s = {s:4}: {'a subgradient' if below else 'no subgradient'}")
    assert below == (-0.6 <= s <= -0.2)

# %%
# So an *oracle* that returns f(x) and one subgradient is free to choose it. The methods of these
# lessons work with any choice.
#
# How to compute one
# ------------------
# Three rules suffice. With :math:`s_j \in \partial f_j(x)`:
#
# * sums: :math:`\sum_j c_j s_j` is a subgradient of :math:`\sum_j c_j f_j` if all :math:`c_j \ge 0`;
# * maxima: :math:`s_j` is one of :math:`\max_j f_j` if j attains the maximum at x;
# * linear images: :math:`A^\top s` is one of :math:`h(Ax)` if :math:`s \in \partial h(Ax)`.
#
# The largest of many affine functions, :math:`f(w) = \max_i \langle a_i, w\rangle + b_i`, by the second
# rule:
rng = np.random.default_rng(0)
A, b = rng.standard_normal((6, 3)), rng.standard_normal(6)


@cut.risk(dim=3)
def largest(w):
    i = np.argmax(A @ w + b)
    return A[i] @ w + b[i], A[i]


# %%
# The library makes the same test on random pairs of points: no cut may exceed a value.
print(cut.testing.check_risk(largest))


# %%
# It also finds a mistake that a plot in one dimension would show: here the sign is wrong.
@cut.risk(dim=3)
def wrong(w):
    value, s = largest(w), A[np.argmax(A @ w + b)]
    return value, -s


report = cut.testing.check_risk(wrong, raise_on_failure=False)
print("found:", report.failures[0].name)
assert not report

# %%
# Why it is more than a direction
# -------------------------------
# A gradient says where the function falls *near* x. A cut holds *everywhere*, so that it excludes: at
# any z with :math:`a z + b > f(x)` the function is larger than at x. And the largest of several cuts,
# the *cutting-plane model*
#
# .. math:: f_t(z) = \max_{i \le t} \; a_i z + b_i \;\le\; f(z),
#
# has a least value that is a lower bound of the least value of f. With four cuts, on the interval [-1,
# 10]:
queries = [0.0, 9.0, 1.5, 6.0]
cuts = np.array([(slope(x), f(x) - slope(x) * x) for x in queries])
model = (cuts[:, :1] * grid + cuts[:, 1:]).max(axis=0)
lower, upper = model.min(), min(f(x) for x in queries)
print(f"{lower:.4f} <= min f = {values.min():.4f} <= {upper:.4f}")
assert lower <= values.min() <= upper

fig, ax = plt.subplots()
ax.plot(grid, values, "k", linewidth=2, label="f")
ax.plot(grid, model, "C0", label="model of four cuts")
ax.plot(queries, [f(x) for x in queries], "C0o")
ax.axhspan(lower, upper, color="C1", alpha=0.25, label="where the least value is")
ax.set(xlabel="x", ylim=(0.0, 6.0))
ax.legend()
plt.show()


# %%
# Step through it: each query adds a cut, and the next query is where the model is least. (The arrow
# keys work, too. That rule is Kelley's method, the next lesson.)
@cut.risk(dim=1)
def distance(x):
    return f(x[0]), np.array([slope(x[0])])


cut.explore(cut.Problem(distance, feasible_set=cut.Box(-1, 10)), cut.Kelley(), tol=1e-6)

# %%
# When is x the minimiser? When zero is a subgradient there, for then the inequality reads
# :math:`f(z) \ge f(x)`. The median, 4, has the slopes -0.2 and 0.2 at its sides, and so 0 between them.
assert slope(4.0 - 1e-9) < 0.0 < slope(4.0 + 1e-9)
assert slope(4.0) == 0.0 and values.min() == f(4.0)

# %%
# Exercises
# ---------
# **1.** The hinge risk of a linear classifier is
#
# .. math:: f(w) = \frac1m \sum_{i=1}^m \max(0, \, 1 - y_i \langle x_i, w\rangle) .
#
# Write a function that returns a subgradient of it, for a matrix X with a row for each example and labels
# -1 and +1.


def hinge_subgradient(w, X, labels): ...  # yours


def check_1(answer):
    rng = np.random.default_rng(1)
    X, labels = rng.standard_normal((20, 4)), rng.choice([-1.0, 1.0], 20)

    def risk(w):
        return np.maximum(0.0, 1.0 - labels * (X @ w)).mean()

    for _ in range(200):
        w, z = rng.standard_normal((2, 4))
        s = np.asarray(answer(w, X, labels), dtype=float)
        assert s.shape == w.shape, "a subgradient has the shape of w"
        assert risk(z) >= risk(w) + s @ (z - w) - 1e-9, "the tangent is above the risk somewhere"


# check_1(hinge_subgradient)  # take the first mark away to be told whether you are right

# %%
# **2.** Given slopes and offsets of cuts of a function of one variable, return the least value of their
# model on the interval [low, high]. It is attained at an end of the interval or where two cuts meet.


def least_of_model(slopes, offsets, low, high): ...  # yours


def check_2(answer):
    rng = np.random.default_rng(2)
    for _ in range(50):
        slopes, offsets = rng.standard_normal((2, 5))
        points = np.linspace(-2.0, 3.0, 20_001)
        least = (slopes[:, np.newaxis] * points + offsets[:, np.newaxis]).max(axis=0).min()
        found = answer(slopes, offsets, -2.0, 3.0)
        assert found is not None and found <= least + 1e-9, "the model is lower somewhere"
        assert found >= least - 1e-3, "no point of the interval has so small a value"


# check_2(least_of_model)

# %%
# Solutions
# ---------
# **1.** Each term is a maximum of two functions: where the second is larger, its slope is
# :math:`-y_i x_i`. The rules for sums and linear images do the rest.


def solution_1(w, X, labels):
    inside = labels * (X @ w) < 1.0
    return -X.T @ (labels * inside) / len(labels)


check_1(solution_1)

# %%
# **2.** All meeting points, and the ends, are tried. That is quadratic in the number of cuts, and in n
# dimensions a linear programme takes its place: the next lesson.


def solution_2(slopes, offsets, low, high):
    i, j = np.triu_indices(len(slopes), 1)
    crossing = i[slopes[i] != slopes[j]], j[slopes[i] != slopes[j]]
    meet = (offsets[crossing[1]] - offsets[crossing[0]]) / (slopes[crossing[0]] - slopes[crossing[1]])
    points = np.concatenate([[low, high], meet[(low <= meet) & (meet <= high)]])
    return (slopes[:, np.newaxis] * points + offsets[:, np.newaxis]).max(axis=0).min()


check_2(solution_2)

r"""
4. Certificates
===============

A method stops and reports a number. Why believe it? Because the bounds can be proven by a short
calculation that does not involve the method: this lesson derives it, does it by hand, and shows what
goes wrong where a solver's word is taken instead.
"""

from dataclasses import replace

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

import cutplane as cut

# %%
# A linear classifier of 569 tumours by the hinge risk f, with the regularizer :math:`g(w) =
# \frac\lambda2\|w\|^2`:
X, labels = load_breast_cancer(return_X_y=True)
X, y, lam = StandardScaler().fit_transform(X), np.where(labels == 1, 1.0, -1.0), 0.1
problem = cut.Problem(cut.LinearRisk(X, y, cut.losses.Hinge()), cut.L2(lam))
result = problem.solve(cut.BMRM(), tol=1e-4)
print(f"{result.lower_bound:.8f} <= optimum <= {result.objective:.8f}")

# %%
# The upper bound
# ---------------
# It is the objective at a point, and two lines recompute it.
w = result.x
objective = np.maximum(0.0, 1.0 - y * (X @ w)).mean() + lam / 2 * w @ w
assert np.isclose(objective, result.objective, rtol=1e-12)

# %%
# The lower bound
# ---------------
# Each cut is below the risk, :math:`f(w) \ge \langle a_i, w\rangle + b_i`. So is each weighted mean of
# cuts: for multipliers :math:`\alpha \ge 0` with :math:`\sum_i \alpha_i = 1`, and the cuts' slopes as
# the columns of A,
#
# .. math:: f(w) + g(w) \;\ge\; \langle b, \alpha\rangle + \langle A\alpha, w\rangle + \frac\lambda2 \|w\|^2
#    \quad \text{for all } w.
#
# The right-hand side is least at :math:`w = -A\alpha/\lambda`. Its least value,
#
# .. math:: L(\alpha) = \langle b, \alpha\rangle - \frac{1}{2\lambda} \|A\alpha\|^2 ,
#
# is a lower bound of the optimum, *for every* :math:`\alpha`. We draw a thousand at random, and take
# the one that the run found.
cuts = result.certificate
optimum = cut.Problem(problem.risk, cut.L2(lam)).solve(tol=1e-9).objective


def bound(alpha):
    return cuts.offsets @ alpha - np.sum((cuts.slopes.T @ alpha) ** 2) / (2 * lam)


rng = np.random.default_rng(0)
random = np.array([bound(rng.dirichlet(np.full(len(cuts.offsets), 0.3))) for _ in range(1000)])
own = bound(cuts.multipliers)
print(f"random multipliers: {random.min():.3f} to {random.max():.3f}; those of the run: {own:.8f}")
assert (random <= optimum).all() and own <= optimum * (1 + 1e-9)
assert np.isclose(own, result.lower_bound, rtol=1e-9)

fig, ax = plt.subplots(layout="constrained")
ax.hist(random, bins=40, color="C0", alpha=0.6, label="bounds by random multipliers")
ax.axvline(own, color="C1", label="by the multipliers of the run")
ax.axvline(result.objective, color="k", linestyle=":", label="objective at w")
ax.set(xlabel="lower bound", ylabel="count")
ax.legend(loc="upper left")
plt.show()


# %%
# The multipliers are seen at work in one dimension: bars on the cuts, which move as cuts come. The
# lower bound is the least value of the weighted mean of the cuts plus the regularizer.
@cut.risk(dim=1)
def kinks(x):
    return np.abs(x[0] - 1) + np.abs(x[0] + 2), np.sign(x - 1) + np.sign(x + 2)


cut.explore(cut.Problem(kinks, cut.L2(0.5)), cut.BMRM(), tol=1e-6, x0=[4.0])

# %%
# This is *weak duality*. That the best :math:`\alpha` reaches the least value of model plus regularizer,
# with no gap between them, is *strong duality*:
a, offsets = cp.Variable(len(cuts.offsets), nonneg=True), cuts.offsets
dual = cp.Problem(cp.Maximize(offsets @ a - cp.sum_squares(cuts.slopes.T @ a) / (2 * lam)), [cp.sum(a) == 1])
v = cp.Variable(X.shape[1])
primal = cp.Problem(cp.Minimize(cp.max(cuts.slopes @ v + offsets) + lam / 2 * cp.sum_squares(v)))
print(f"{dual.solve(solver=cp.CLARABEL):.8f} = {primal.solve(solver=cp.CLARABEL):.8f}")
assert np.isclose(dual.value, primal.value, rtol=1e-6)

# %%
# Why not the solver's own objective?
# -----------------------------------
# The least value of the reduced problem *is* a lower bound, if it is exact. A solver stops at a
# tolerance, and its value may be too low or too high. Here a first-order solver is stopped early. We
# compare the dual value that it reports with the bound from its multipliers, clipped at zero and scaled to
# the sum 1. A marked value lies above the optimum: it is a false "lower bound".
for eps in (1e-1, 1e-2, 1e-3, 1e-4, 1e-6):
    printed = dual.solve(solver=cp.SCS, eps_abs=eps, eps_rel=eps)
    alpha = np.maximum(a.value, 0.0)
    mended = bound(alpha / alpha.sum())
    mark = "above" if printed > optimum else ""
    print(f"tolerance {eps:.0e}: printed {printed:.6f} {mark:5}  from the multipliers {mended:.6f}")
    assert mended <= optimum * (1 + 1e-9)

# %%
# The multipliers may be poor, and then the bound is weak. It cannot be false.
#
# Verification
# ------------
# A result is verified with the risk alone. ``verify`` evaluates it again at the query point of each cut
# in use, compares the answers with the cuts, and recomputes L and the objective:
print(cuts.verify())
assert cuts.verify().valid

# %%
# A forged certificate is found: here the offset of one cut and the bound are raised by a thousandth, and
# then a bound is claimed that the cuts do not prove.
used = int(cuts.multipliers.argmax())
raised = cuts.offsets + 1e-3 * (np.arange(len(cuts.offsets)) == used)
forged = replace(cuts, offsets=raised, lower_bound=cuts.lower_bound + 1e-3 * cuts.multipliers[used])
print(forged.verify().problems[0])
boastful = replace(cuts, lower_bound=cuts.upper_bound)
print(boastful.verify().problems[0])
assert not forged.verify().valid and not boastful.verify().valid

# %%
# The proof assumes that f is convex and that its slopes are subgradients; lesson 1 has a test of this.
#
# Other regularizers
# ------------------
# Only the inner minimum depends on g. In general
#
# .. math:: L(\alpha) = \langle b, \alpha\rangle + \min_{x \in X} \{ g(x) + \langle A\alpha, x\rangle \} ,
#
# and that minimum is minus the *conjugate* of g on X at :math:`-A\alpha`. For g = 0 it is the least
# value of a linear function: over the simplex :math:`\min_j v_j` with :math:`v = A\alpha`, over a box a
# corner.
#
# Exercises
# ---------
# **1.** Write L for g = 0 over the box :math:`-1 \le x_j \le 1`. ``slopes`` has a row for each cut.


def bound_over_box(alpha, slopes, offsets): ...  # yours


def check_1(answer):
    rng = np.random.default_rng(1)
    for _ in range(20):
        slopes, offsets, alpha = (
            rng.standard_normal((5, 3)),
            rng.standard_normal(5),
            rng.dirichlet(np.ones(5)),
        )
        corners = np.array(np.meshgrid(*[[-1.0, 1.0]] * 3)).reshape(3, -1).T
        least = (offsets @ alpha + corners @ (alpha @ slopes)).min()
        found = answer(alpha, slopes, offsets)
        assert found is not None and found <= least + 1e-9, "larger than the weighted cut at some corner"
        assert found >= least - 1e-9, "a better bound holds"


# check_1(bound_over_box)  # take the first mark away to be told whether you are right

# %%
# **2.** For :math:`g(x) = \lambda \sum_j x_j \ln x_j` over the simplex, find :math:`\min_x g(x) +
# \langle v, x\rangle` as a formula of v and :math:`\lambda`.


def inner_minimum(v, lam): ...  # yours


def check_2(answer):
    rng = np.random.default_rng(2)
    for lam in (0.5, 1.0, 3.0):
        v = rng.standard_normal(4)
        x = cp.Variable(4)
        least = cp.Problem(cp.Minimize(-lam * cp.sum(cp.entr(x)) + v @ x), [cp.sum(x) == 1])
        found = answer(v, lam)
        assert found is not None, "nothing was returned"
        assert np.isclose(found, least.solve(solver=cp.CLARABEL), atol=1e-6), "not the least value"


# check_2(inner_minimum)

# %%
# Solutions
# ---------
# **1.** Each coordinate goes to the side where its slope is negative.


def solution_1(alpha, slopes, offsets):
    return offsets @ alpha - np.abs(alpha @ slopes).sum()


check_1(solution_1)

# %%
# **2.** By a multiplier for :math:`\sum_j x_j = 1`, the minimiser is :math:`x_j = e^{-v_j/\lambda} / Z`
# with :math:`Z = \sum_k e^{-v_k/\lambda}`, and the value there :math:`-\lambda \ln Z`.


def solution_2(v, lam):
    return -lam * np.log(np.exp(-v / lam).sum())


check_2(solution_2)

r"""
Boosting as column generation
=============================

An ensemble :math:`w` of weak hypotheses :math:`h` has the margins :math:`y_i \sum_h w_h h(x_i)`. The largest
soft margin is a linear programme with a column for each hypothesis; its dual is

.. math::

   \min_{d \in D} \; \max_h \; \sum_{i=1}^m d_i y_i h(x_i),
   \qquad D = \{0 \le d_i \le 1/\nu, \; \sum_i d_i = 1\},

the minimum of a piecewise linear function of the weights d of the examples. A weak learner is its oracle:
asked about one d, it returns the hypothesis of the largest edge, which is a cut. Kelley's method with these
cuts is LPBoost, and the multipliers of the cuts are the ensemble.

The data are scikit-learn's 569 breast cancers, the hypotheses all decision stumps.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer

import cutplane as cut
from cutplane import boosting

X, benign = load_breast_cancer(return_X_y=True)
y = np.where(benign, 1.0, -1.0)
problem = boosting.SoftMargin(X, y, nu=0.05 * len(y), weak_learner=boosting.DecisionStumps())
result = problem.solve(boosting.LPBoost(), tol=1e-6)
print(result)

# %%
# The certificate
# ---------------
# Every distribution d bounds the soft margin of all ensembles from above by its edge, since the stumps are
# searched exactly; every ensemble bounds it from below. The two meet.
best_stump, margins = boosting.DecisionStumps().bind(X, y).best(result.distribution)
print(
    f"largest edge {margins @ result.distribution:.6f} ({best_stump}), soft margin {result.soft_margin:.6f}"
)

fig, ax = plt.subplots(layout="constrained")
result.plot(ax)
ax.set(ylabel="soft margin", ylim=(-0.5, 1.0))

# %%
# The margins move
# ----------------
# Rounds push up the margins of the worst examples. At the end, all but the outliers, at most nu of them, have
# at least the margin rho, on which many lie.
rounds = [0, 9, 29, len(result.stages) - 1]
curves = {}
for k, ensemble in enumerate(result.staged_ensembles()):
    if k in rounds:
        curves[f"round {k + 1}, {len(ensemble)} stumps"] = y * ensemble.decision_function(X)
fig, ax = plt.subplots(layout="constrained")
boosting.plot_margins(curves, result.soft_margin, ax=ax)

# %%
# A guarantee on the rounds
# -------------------------
# LPBoost may need as many rounds as there are examples. MLPBoost takes its ensembles too, but falls back on
# Frank-Wolfe steps on a smoothed problem, which bounds the rounds.
safe = problem.solve(boosting.MLPBoost(), tol=0.01)
print(f"LPBoost {result.n_iter} rounds to 1e-6; MLPBoost {safe.n_iter} rounds to 0.01")

assert result.status is safe.status is cut.Status.OPTIMAL
assert abs(margins @ result.distribution - result.soft_margin) <= 1e-6
assert 0.0 <= result.soft_margin - safe.soft_margin + 1e-6 <= 0.011

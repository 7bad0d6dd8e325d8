r"""
Six losses for a regression
===========================

The progression of diabetes in 442 patients after a year, predicted from ten measurements:

.. math:: \min_w \; \frac1m \sum_{i=1}^m \ell(\langle x_i, w\rangle, y_i) + \frac\lambda2 \|w\|^2 .

The loss decides what is predicted: the mean, the median, a quantile, or the logarithm of a rate.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import StandardScaler

import cutplane as cut

# %%
# The data, standardised, with a constant feature whose weight is not regularized; the target in hundreds.
X, target = load_diabetes(return_X_y=True)
X = np.column_stack([StandardScaler().fit_transform(X), np.ones(len(X))])
y = target / 100
regularizer = cut.L2(1e-2, weights=np.append(np.ones(10), 0.0))

# %%
# Each loss, and the same function of the prediction :math:`t = \langle x, w\rangle` for cvxpy, to compare
# with.
losses = {
    "squared": (cut.losses.Squared(), lambda t: cp.square(t - y) / 2),
    "absolute": (cut.losses.Absolute(), lambda t: cp.abs(t - y)),
    "quantile 0.9": (cut.losses.Quantile(0.9), lambda t: cp.maximum(0.9 * (y - t), 0.1 * (t - y))),
    "epsilon-insensitive": (cut.losses.EpsilonInsensitive(0.1), lambda t: cp.pos(cp.abs(t - y) - 0.1)),
    "Huber": (cut.losses.Huber(0.5), lambda t: cp.huber(t - y, 0.5) / 2),
    "Poisson": (cut.losses.Poisson(), lambda t: cp.exp(t) - cp.multiply(y, t)),
}

# %%
# The formulation
# ---------------
results = {}
for name, (loss, _) in losses.items():
    problem = cut.Problem(cut.LinearRisk(X, y, loss=loss), regularizer)
    results[name] = problem.solve(tol=1e-6)

# %%
# The share of patients below the prediction: one half for the absolute loss, nine tenths for the quantile.
predictions = {name: X @ result.x for name, result in results.items()}
predictions["Poisson"] = np.exp(predictions["Poisson"])
for name, result in results.items():
    below = np.mean(y <= predictions[name] + 1e-6)
    print(f"{name:<20} {result.objective:>9.6f}  {result.n_iter:>3} iterations  below: {below:.2f}")

# %%
# The predictions over the body mass index, each smoothed by a straight line.
bmi = X[:, 2]
fig, ax = plt.subplots()
ax.plot(bmi, y, ".", color="0.8")
for name, prediction in predictions.items():
    ax.plot(np.sort(bmi), np.polyval(np.polyfit(bmi, prediction, 1), np.sort(bmi)), label=name)
ax.set(xlabel="body mass index (standardised)", ylabel="progression (hundreds)")
ax.legend()
plt.show()

# %%
# The check
# ---------
# cvxpy solves each problem as a whole.
w = cp.Variable(X.shape[1])
for name, (_, expression) in losses.items():
    whole = cp.sum(expression(X @ w)) / len(y) + regularizer.lam / 2 * cp.sum_squares(w[:10])
    optimum = cp.Problem(cp.Minimize(whole)).solve(solver=cp.CLARABEL)
    assert results[name].status is cut.Status.OPTIMAL
    assert abs(results[name].objective - optimum) <= 1e-5 * abs(optimum), name

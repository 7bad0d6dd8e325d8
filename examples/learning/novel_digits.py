r"""
Novel digits
============

What does a zero look like? A novelty detector sees zeros only, and is then to tell which images are something
else. The one-class support vector machine looks for the half-space :math:`\langle w, x\rangle \ge \rho` that
is far from the origin and leaves out at most the share :math:`\nu` of what it has seen:

.. math:: \min_{w, \rho} \; \frac1{\nu m} \sum_{i=1}^m \max(0,\, \rho - \langle w, x_i\rangle) - \rho
   + \frac\lambda2 \|w\|^2 .

The risk has no lower bound of its own, and the offset :math:`\rho` is not regularized: the certificate has to
come from cuts whose slopes in :math:`\rho` cancel.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.svm import OneClassSVM

import cutplane as cut

# %%
# The images, each scaled to length 1: half of the zeros to learn from.
X, y = load_digits(return_X_y=True)
X = X / np.linalg.norm(X, axis=1, keepdims=True)
zeros = np.flatnonzero(y == 0)
seen = X[zeros[::2]]
m, n = seen.shape
nu, lam = 0.1, 1.0

# %%
# The formulation
# ---------------
# The vector of the problem is (w, rho).
problem = cut.Problem(cut.NoveltyRisk(seen, nu), cut.L2(lam, weights=np.append(np.ones(n), 0.0)))
result = problem.solve(tol=1e-8)
w, rho = result.x[:n], result.x[n]
print(result)

# %%
# How many images the half-space leaves out: of those seen, of the other zeros, and of the other digits.
for name, images in (("seen", seen), ("zeros", X[zeros[1::2]]), ("others", X[y != 0])):
    print(f"{name:<7} {np.mean(images @ w < rho):6.1%} of {len(images)} are left out")

# %%
# The scores.
fig, ax = plt.subplots()
bins = np.linspace((X @ w).min(), (X @ w).max(), 60)
ax.hist(
    [X[y != 0] @ w, X[zeros[1::2]] @ w], bins=bins, label=["other digits", "zeros not seen"], stacked=True
)
ax.axvline(rho, color="0.3", linestyle="--")
ax.set(xlabel="score", ylabel="images")
ax.legend()
plt.show()

# %%
# The check
# ---------
# Scikit-learn solves the dual problem by decomposition; its w and rho are ours times :math:`\lambda\nu m`.
other = OneClassSVM(kernel="linear", nu=nu, tol=1e-9).fit(seen)
theirs = np.append(other.coef_[0], -other.intercept_[0]) / (lam * nu * m)
assert result.status is cut.Status.OPTIMAL
assert abs(problem.objective(theirs) - result.objective) <= 1e-7 * abs(result.objective)
assert np.allclose(result.x, theirs, rtol=1e-3, atol=1e-4)
assert np.mean(seen @ w < rho - 1e-4) <= nu <= np.mean(seen @ w < rho + 1e-4)

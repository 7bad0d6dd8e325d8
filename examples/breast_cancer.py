"""
A certified linear classifier
=============================

A support vector machine for scikit-learn's breast-cancer data (569 tumours, 30 measurements), trained from
its declaration: the mean hinge loss plus an L2 regularizer. Each line of the log proves how far the best
classifier so far can be from the optimum.
"""

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

import cutplane as cut

# %%
# The data, standardised, with a constant feature whose weight is not regularized: the bias.
X, labels = load_breast_cancer(return_X_y=True)
X = np.column_stack([StandardScaler().fit_transform(X), np.ones(len(X))])
y = np.where(labels == 1, 1.0, -1.0)
unregularized_bias = np.append(np.ones(30), 0.0)

# %%
# The problem, and its solution.
problem = cut.Problem(cut.LinearRisk(X, y, loss=cut.losses.Hinge()), cut.L2(1e-3, weights=unregularized_bias))
result = problem.solve(tol=1e-4, log=True)
print(result)

# %%
# Nothing above has to be believed: the certificate recomputes both bounds from the risk alone.
verification = result.certificate.verify()
print(verification)

# %%
# Both bounds meet.
ax = result.plot()
ax.figure.savefig("breast_cancer.png", dpi=120, bbox_inches="tight")
print("convergence plot: breast_cancer.png")

accuracy = np.mean(np.sign(X @ result.x) == y)
print(f"accuracy on the training data: {accuracy:.3f}")

assert result.status is cut.Status.OPTIMAL and verification.valid
assert accuracy > 0.97

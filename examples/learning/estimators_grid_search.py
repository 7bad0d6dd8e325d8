r"""
A grid search over losses and penalties
=======================================

Estimators with scikit-learn's interface minimise

.. math::

   \min_{w, b} \; \frac1m \sum_{i=1}^m \ell(\langle w, x_i\rangle + b, \, y_i) + \alpha \, \Omega(w) ,

for any convex loss and penalty, so that a grid search can choose among them. The winner comes
with a proof: its objective is within the certified gap of the optimum.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import cutplane as cut
from cutplane.estimators import LinearClassifier, LinearClassifierCV

# %%
# 569 tumours, 30 measurements in three groups: the mean, the standard error, and the worst of ten features.
X, y = load_breast_cancer(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
groups = cut.SquaredGroupNorm(np.arange(30).reshape(3, 10), p=4 / 3)

# %%
# The search
# ----------
# Losses and penalties are parameters like any other; objects stand beside names.
pipeline = make_pipeline(StandardScaler(), LinearClassifier())
grid = {
    "linearclassifier__loss": ["hinge", "logistic", cut.losses.ModifiedHuber()],
    "linearclassifier__penalty": ["l2", "l1", groups],
    "linearclassifier__alpha": [1e-1, 1e-2],
}
search = GridSearchCV(pipeline, grid, cv=3).fit(X_train, y_train)
best = search.best_estimator_[-1]
print(best)
print(
    f"accuracy: {search.best_score_:.3f} in cross-validation, {search.score(X_test, y_test):.3f} on new data"
)
print(f"{best.lower_bound_:.6f} <= optimum <= {best.objective_:.6f}")

# %%
# The weight alone
# ----------------
# Where only `alpha` is searched for, each fold is one path that reuses every cut.
scaled = StandardScaler().fit_transform(X_train)
path = LinearClassifierCV("logistic", alphas=np.logspace(0, -4, 9), cv=5, scoring="neg_log_loss", tol=1e-4)
path.fit(scaled, y_train)
mean, spread = -path.scores_.mean(axis=1), path.scores_.std(axis=1)
fig, ax = plt.subplots()
ax.errorbar(path.alphas_, mean, spread, fmt="o-", capsize=3)
ax.axvline(path.alpha_, color="gray", linestyle=":")
ax.set(xscale="log", xlabel="alpha", ylabel="log loss on the fold left out")
plt.show()

# %%
# The check
# ---------
# The proof is recomputed from the data, and scikit-learn's own solver finds the same optimum.
reference = LogisticRegression(C=1 / (path.alpha_ * len(scaled)), tol=1e-8, max_iter=10_000).fit(
    scaled, y_train
)
margins = np.where(y_train == 1, 1.0, -1.0) * reference.decision_function(scaled)
optimum = np.logaddexp(0.0, -margins).mean() + path.alpha_ / 2 * np.sum(reference.coef_**2)
print(f"log loss {-path.scores_.mean(axis=1).max():.4f} at alpha = {path.alpha_:.2g}")
assert best.results_[0].certificate.verify().valid and best.gap_ <= best.tol
assert path.lower_bound_ <= optimum * (1 + 1e-9)
assert abs(path.objective_ - optimum) <= 1.1e-4 * optimum
assert search.score(X_test, y_test) > 0.94 and search.best_score_ > 0.96

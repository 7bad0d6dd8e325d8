r"""
Ten digits, one classifier
==========================

Scikit-learn's digits are 1797 images of 8 x 8 pixels. A linear classifier has one row of weights
:math:`w_j` per digit, and predicts the one with the largest score :math:`\langle w_j, x\rangle`. The loss
of an image looks at all its scores :math:`s` at once:

.. math:: \ell(s, y) = \max_j \,([j \ne y] + s_j) - s_y \qquad\text{or}\qquad
   \ell(s, y) = \ln \sum_j e^{s_j} - s_y ,

the multiclass hinge of Crammer and Singer, or the softmax loss of multinomial logistic regression.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.svm import LinearSVC

import cutplane as cut

# %%
# The images, with pixels between 0 and 1, two thirds of them to learn from.
X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, test_size=1 / 3, random_state=0)
m, lam = len(X_train), 1e-3

# %%
# The formulation
# ---------------
# The vector of the problem holds the ten rows of weights one after the other.
risks = {
    "hinge": cut.MulticlassRisk(X_train, y_train, cut.losses.MulticlassHinge()),
    "softmax": cut.MulticlassRisk(X_train, y_train, cut.losses.Softmax()),
}
weights, results = {}, {}
for name, risk in risks.items():
    results[name] = cut.Problem(risk, cut.L2(lam)).solve(tol=1e-6)
    weights[name] = results[name].x.reshape(risk.shape)
    accuracy = np.mean((X_test @ weights[name].T).argmax(axis=1) == y_test)
    print(
        f"{name:<8} {results[name].objective:.6f}  {results[name].n_iter:>3} iterations  test {accuracy:.3f}"
    )

# %%
# Some mistakes can be made dearer than others: here, to take another digit for a 9 costs 5.
cost = 1.0 - np.eye(10)
cost[:9, 9] = 5
dear = cut.MulticlassRisk(X_train, y_train, cut.losses.MulticlassHinge(cost))
weights["dear 9"] = cut.Problem(dear, cut.L2(lam)).solve(tol=1e-4).x.reshape(dear.shape)
for name in ("hinge", "dear 9"):
    nine = (X_test @ weights[name].T).argmax(axis=1) == 9
    print(f"{name:<8} {np.sum(nine & (y_test != 9))} false and {np.sum(~nine & (y_test == 9))} missed nines")

# %%
# The weights, seen as images: where a digit has ink (blue), and where it must not (red).
fig, axes = plt.subplots(2, 10, figsize=(10, 2.5), subplot_kw={"xticks": [], "yticks": []})
for row, name in zip(axes, risks, strict=True):
    row[0].set_ylabel(name)
    reach = np.abs(weights[name]).max()
    for axis, w in zip(row, weights[name], strict=True):
        axis.imshow(w.reshape(8, 8), cmap="RdBu", vmin=-reach, vmax=reach)
plt.show()

# %%
# The check
# ---------
# Scikit-learn solves both problems with other algorithms: dual coordinate ascent and L-BFGS. Its objective is
# ours divided by :math:`m\lambda`.
others = {
    "hinge": LinearSVC(
        multi_class="crammer_singer", C=1 / (m * lam), fit_intercept=False, tol=1e-7, max_iter=100_000
    ),
    "softmax": LogisticRegression(C=1 / (m * lam), fit_intercept=False, tol=1e-7, max_iter=10_000),
}
for name, risk in risks.items():
    other = cut.Problem(risk, cut.L2(lam)).objective(others[name].fit(X_train, y_train).coef_.ravel())
    assert results[name].status is cut.Status.OPTIMAL
    assert results[name].lower_bound <= other * (1 + 1e-12)
    assert abs(results[name].objective - other) <= 2e-6 * other, name

r"""
A boundary, and how it was chosen
=================================

A support vector machine with the Gaussian kernel has two numbers to choose: C, what an error costs, and
gamma, how fast the kernel falls. Cross-validation tries a grid of them. The solutions along the grid seed one
another: each starts close to its end.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from cutplane.estimators import KernelSVC

X, y = make_moons(200, noise=0.25, random_state=0)

# %%
# The grid
# --------
model = KernelSVC(C=np.logspace(-1, 3, 7), gamma=np.logspace(-2, 2, 7), cv=5).fit(X, y)
print(
    f"C = {model.C_:.3g}, gamma = {model.gamma_:.3g}: {model.scores_.mean(axis=2).max():.1%} of the held-out"
)

# %%
# The mean scores, and the boundary that the best of them gives. The larger points are the support vectors.
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4))
model.plot_scores(left)
a, b = np.meshgrid(np.linspace(-2, 3, 120), np.linspace(-1.5, 2, 120))
scores = model.decision_function(np.column_stack([a.ravel(), b.ravel()])).reshape(a.shape)
right.contourf(a, b, scores, levels=[-1e9, -1, 0, 1, 1e9], colors=["C0", "C0", "C1", "C1"], alpha=0.25)
right.contour(a, b, scores, levels=[-1, 0, 1], colors="k", linestyles=["--", "-", "--"], linewidths=0.8)
sizes = np.full(len(y), 10.0)
sizes[model.support_] = 35.0
right.scatter(*X.T, c=np.where(y == 1, "C1", "C0"), s=sizes)
right.set_title(f"{model.support_.size} of {len(y)} examples are support vectors")
plt.show()

# %%
# No function of the kernel's space has an objective that is lower by more than the gap, and the proof can be
# checked from the data alone. Every example that is not a support vector lies on its side of the margin.
check = model.result_.certificate.verify()
margins = np.where(y == 1, 1.0, -1.0) * model.decision_function(X)
others = np.setdiff1d(np.arange(len(y)), model.support_)
print(check)
assert check.valid
assert model.gap_ <= 1e-3
assert margins[others].min() > 0.95

r"""
Which newsgroup? A certified text classifier
============================================

A document is a sparse row of word weights, a class has a score for every word, and a document belongs to the
class with the largest sum. Learning the scores W, one row for each class, is

.. math::

   \min_W \; \frac1m \sum_{i=1}^m \max_c \left([c \ne y_i] + \langle w_c - w_{y_i}, x_i\rangle\right)
   + \frac\lambda2 \|W\|^2 ,

the multiclass hinge loss: the right class should win by one. The documents come from a generator, so that it
is known which words belong to which class, and the classifier can be asked whether it has found them.
"""

from itertools import product

import matplotlib.pyplot as plt
import numpy as np

import cutplane as cut
from cutplane.datasets import newsgroups_like

# %%
# The documents
# -------------
# Four groups with a vocabulary of 4,900 words; half of the words of a document are common words or words of
# other groups. The words need names.
groups = ["sea", "sky", "soil", "stars"]
syllables = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
words = np.array([a + b for a, b in product(syllables, repeat=2)])
X, y, topics = newsgroups_like(3000, len(words), len(groups), overlap=0.5, seed=0, return_topics=True)
train, test = slice(0, 2000), slice(2000, None)
share = X.nnz / (X.shape[0] * X.shape[1])
print(f"{X.shape[0]} documents, {X.shape[1]} words, {share:.2%} of the matrix are not zero")

# %%
# The formulation
# ---------------
lam = 1e-3
problem = cut.Problem(cut.MulticlassRisk(X[train], y[train]), cut.L2(lam))
result = problem.solve(tol=1e-3)
print(result)

# %%
# How good is it?
# ---------------
# As a solution of the problem: the certificate says that no W at all has an objective below the lower bound.
# As a classifier: that is for unseen documents to say.
print(result.certificate)
W = result.x.reshape(len(groups), len(words))
accuracy = np.mean((X[test] @ W.T).argmax(axis=1) == y[test])
print(f"accuracy on {X[test].shape[0]} unseen documents: {accuracy:.3f}")

# %%
# The words of each group
# -----------------------
top = (-W).argsort(axis=1)[:, :8]
for group, best in zip(groups, top, strict=True):
    print(f"{group:>6}: {' '.join(words[best])}")

fig, ax = plt.subplots(layout="constrained")
image = ax.imshow(W[:, top.ravel()], cmap="RdBu_r", aspect="auto", vmin=-abs(W).max(), vmax=abs(W).max())
ax.set(yticks=range(len(groups)), yticklabels=groups, title="scores of the top words of each group")
ax.set_xticks(range(top.size), words[top.ravel()], rotation=90, fontsize=7)
fig.colorbar(image)
plt.show()

# %%
# The check
# ---------
# Both bounds, recomputed in a few lines: the objective from its formula, and the lower bound from the cuts
# (slopes A, offsets b) and their multipliers :math:`\alpha`,
# :math:`\langle b, \alpha\rangle - \|A\alpha\|^2 / 2\lambda`. And the top words are truly those of their
# group: the generator draws them more often there than in any other.
scores = X[train] @ W.T
own = scores[np.arange(2000), y[train]]
margins = 1.0 + scores - own[:, None]
margins[np.arange(2000), y[train]] = 0.0
objective = margins.max(axis=1).mean() + lam / 2 * np.sum(W**2)
cuts = result.certificate
slope = cuts.slopes.T @ cuts.multipliers
lower_bound = cuts.offsets @ cuts.multipliers - slope @ slope / (2 * lam)
assert np.isclose(objective, result.objective, rtol=1e-9)
assert np.isclose(lower_bound, result.lower_bound, rtol=1e-9)
assert result.status is cut.Status.OPTIMAL and cuts.verify().valid
assert objective - lower_bound <= 1e-3 * objective

true_group = topics[: len(groups), top].argmax(axis=0)
found = np.mean(true_group == np.arange(len(groups))[:, None])
print(f"{found:.0%} of the top words are words of their group")
assert found > 0.8
assert accuracy > 0.7

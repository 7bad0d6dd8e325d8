r"""
Ranking inside queries
======================

A hundred and twenty users have rated ten films each, from 0 to 4. Some users are strict, and the strict ones
watch longer films. A regression of the ratings finds that length is bad. But a recommendation compares films
for *one* user, and there the longer film is the better one. The risk of a ranking looks at nothing but pairs
of films of the same user:

.. math:: \min_w \; \frac1{|P|} \sum_{(i, j) \in P} \max(0,\, 1 + \langle w, x_i - x_j\rangle)
   + \frac\lambda2 \|w\|^2 , \qquad P = \{(i, j) : \text{the same user},\; y_i < y_j\}.

The ratings follow the function of Friedman [1]_, in five of ten features, less the strictness of the user.

.. [1] J. H. Friedman, "Multivariate adaptive regression splines", Annals of Statistics 19, 1991,
   doi:10.1214/aos/1176347963.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import cutplane as cut

# %%
# The data. Feature 3 is the length: better films are longer, and strict users watch longer ones. One half of
# the users is to learn from, the other to test with.
rng = np.random.default_rng(0)
users, films, n = 120, 10, 10
user = np.repeat(np.arange(users), films)
strictness = rng.standard_normal(users)[user]
X = rng.random((users * films, n))
X[:, 3] += 0.5 * strictness
quality = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
rating = quality - 15 * strictness + rng.standard_normal(users * films)
y = np.digitize(rating, np.quantile(rating, [0.2, 0.4, 0.6, 0.8]))
fit, test = user < users // 2, user >= users // 2

# %%
# The formulation
# ---------------
# ``groups`` says which user each row belongs to. A number added to all scores of a user changes nothing, so
# there is no intercept.
lam = 1e-2
risk = cut.RankingRisk(X[fit], y[fit], groups=user[fit])
print(risk)
ranking = cut.Problem(risk, cut.L2(lam)).solve(tol=1e-6)
print(ranking.status, ranking.objective, ranking.gap)

# %%
# The regression of the ratings, with the same weight of the regularizer and a free bias.
squares = cut.LinearRisk(X[fit], y[fit], cut.losses.Squared(), intercept=True)
regression = cut.Problem(squares, cut.L2(lam, weights=np.append(np.ones(n), 0.0))).solve(tol=1e-6)

# %%
# What they learn
# ---------------
# The share of pairs of films that are in the right order, for users that neither has seen.
unseen = cut.RankingRisk(X[test], y[test], groups=user[test])
right = {"pairs": unseen.accuracy(ranking.x), "regression": unseen.accuracy(regression.x[:n])}
print({name: round(share, 3) for name, share in right.items()})

# %%
# The weights, in units of the largest: the regression has the sign of the length wrong.
fig, ax = plt.subplots()
for shift, (name, w) in zip(
    (-0.2, 0.2), (("pairs", ranking.x), ("regression", regression.x[:n])), strict=True
):
    ax.bar(np.arange(n) + shift, w / np.abs(w).max(), width=0.4, label=f"{name}: {right[name]:.0%} of pairs")
ax.axhline(0.0, color="0.3", linewidth=0.8)
ax.set(xlabel="feature", ylabel="weight", xticks=range(n))
ax.legend()
plt.show()

# %%
# The films of the users with the most different ratings, in the order of the scores, the best on the left:
# dark films were rated highly.
fig, axes = plt.subplots(1, 2, figsize=(8, 2.6), sharey=True)
unlike = {one: len(np.unique(y[user == one])) for one in np.unique(user[test])}
shown = sorted(unlike, key=unlike.__getitem__, reverse=True)[:8]
for ax, (name, w) in zip(axes, (("pairs", ranking.x), ("regression", regression.x[:n])), strict=True):
    rows = [y[user == one][np.argsort(-X[user == one] @ w)] for one in shown]
    ax.imshow(rows, cmap="Greens", aspect="auto")
    ax.set(title=f"by {name}", xlabel="place", xticks=range(films), xticklabels=range(1, films + 1))
axes[0].set(ylabel="user", yticks=[])
fig.tight_layout()
plt.show()

# %%
# The check
# ---------
# cvxpy solves the whole problem, with a row for every pair. And with two levels and one query the share of
# pairs in the right order is the area under the ROC curve, counted here pair by pair.
i, j = np.nonzero((user[fit, np.newaxis] == user[fit]) & (y[fit, np.newaxis] < y[fit]))
w = cp.Variable(n)
losses = cp.pos(1 + (X[fit][i] - X[fit][j]) @ w)
optimum = cp.Problem(cp.Minimize(cp.sum(losses) / i.size + lam / 2 * cp.sum_squares(w))).solve(
    solver=cp.CLARABEL
)
assert ranking.status is cut.Status.OPTIMAL and ranking.certificate.verify().valid
assert abs(ranking.objective - optimum) <= 2e-6 * optimum
assert ranking.x[3] > 0.0 > regression.x[3]
assert right["pairs"] > right["regression"] + 0.1

scores, liked = X @ ranking.x, y == 4
area = (scores[liked, np.newaxis] > scores[~liked]).mean()
assert abs(cut.RankingRisk(X, liked).accuracy(ranking.x) - area) <= 1e-12

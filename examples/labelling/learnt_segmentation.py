r"""
Foreground learnt from a photograph
===================================

Is a pixel part of the flower? Its colour says much, its neighbours the rest, but how much each of them counts
is to be learnt: the weights of colours for both answers, and those of pairs of neighbours. The picture is cut
into tiles, each a graph, and the risk is the largest violation of a margin over all labellings of a tile:

.. math:: f(w) = \frac1m \sum_i \max_s \Bigl[\,|\{u : s_u \ne y_{iu}\}| + F_w(x_i, s) - F_w(x_i, y_i)\Bigr],
   \qquad F_w(x, s) = \sum_u \langle x_u, E_{s_u}\rangle + \sum_{uv} T_{s_u s_v} .

A grid has cycles, so that the largest violation is itself a problem of graphical models. It is solved exactly
here, and relaxed to a linear programme in the check.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

import cutplane as cut
from cutplane.structured import GraphRisk

# %%
# A photograph of a dahlia, its pixels averaged by eights. The truth is what is red rather than green in the
# picture as it is; the learner sees it with much noise.
photograph = load_sample_image("flower.jpg")[:416] / 255
small = photograph.reshape(52, 8, 80, 8, 3).mean(axis=(1, 3))
flower = (small[..., 0] > small[..., 1]).astype(int)
noisy = small + 0.4 * np.random.default_rng(0).normal(size=small.shape)
size = 4


def tiles(picture):
    """Cut a picture into tiles, row after row, the pixels of each in one dimension."""
    cut_up = picture.reshape(52 // size, size, 80 // size, size, -1).swapaxes(1, 2)
    return cut_up.reshape(-1, size * size, cut_up.shape[-1])


pixels = np.arange(size * size).reshape(size, size)
sides = [np.stack([pixels[:, :-1], pixels[:, 1:]], 2), np.stack([pixels[:-1], pixels[1:]], 2)]
edges = np.concatenate([part.reshape(-1, 2) for part in sides])
X = [np.column_stack([tile, np.ones(len(tile))]) for tile in tiles(noisy)]
Y = [labels[:, 0] for labels in tiles(flower[..., None])]

# %%
# The formulation
# ---------------
# Every second tile is to learn from. Without edges each pixel is on its own.
lam = 1e-2
risk = GraphRisk(X[::2], Y[::2], edges)
result = cut.Problem(risk, cut.L2(lam)).solve(tol=1e-2)
alone = cut.Problem(GraphRisk(X[::2], Y[::2], edges[:0]), cut.L2(lam)).solve(tol=1e-2)
print(risk)
print(result.status, result.objective, result.gap)

# %%
# The whole picture is one graph of 4,160 pixels.
whole = np.arange(52 * 80).reshape(52, 80)
links = [np.stack([whole[:, :-1], whole[:, 1:]], 2), np.stack([whole[:-1], whole[1:]], 2)]
links = np.concatenate([part.reshape(-1, 2) for part in links])
rows = [np.column_stack([noisy.reshape(-1, 3), np.ones(52 * 80)])]
found = {
    "each pixel alone": risk.predict(np.append(alone.x[:8], np.zeros(4)), rows, links)[0],
    "learnt graph": risk.predict(result.x, rows, links)[0],
}
held_out = np.add.outer(np.arange(52) // size * (80 // size), np.arange(80) // size) % 2 == 1
wrong = {name: np.mean((labels.reshape(52, 80) != flower)[held_out]) for name, labels in found.items()}

fig, axes = plt.subplots(1, 4, figsize=(13, 2.4))
pictures = {"what is seen": np.clip(noisy, 0, 1), "the flower": flower}
pictures |= {f"{name}: {wrong[name]:.1%} wrong": labels.reshape(52, 80) for name, labels in found.items()}
for ax, (title, picture) in zip(axes, pictures.items(), strict=True):
    ax.imshow(picture, cmap="gray")
    ax.set_title(title)
    ax.set_axis_off()
fig.tight_layout()
plt.show()
assert wrong["learnt graph"] < 0.6 * wrong["each pixel alone"]

# %%
# The check
# ---------
# The linear programme in place of each largest violation has a dual; with it the whole problem on a few tiles
# is one convex programme. For each tile, messages :math:`\mu` from edges to pixels make the maxima apart as
# small as they can be:
#
# .. math:: \min_\mu \; \sum_u \max_s \Bigl[\theta_u(s) + \sum_v \mu_{uv}(s)\Bigr]
#    + \sum_{uv} \max_{s, t} \bigl[T_{st} - \mu_{uv}(s) - \mu_{vu}(t)\bigr] .
few = [i for i in range(0, len(Y), 2) if 4 <= Y[i].sum() <= 12][:3]
w = cp.Variable(risk.dim)
E, T = cp.reshape(w[:8], (2, 4), order="C"), cp.reshape(w[8:], (2, 2), order="C")
ends = [np.eye(size * size)[edges[:, k]] for k in (0, 1)]
total = 0.0
for i in few:
    messages = [cp.Variable((len(edges), 2)) for _ in range(2)]
    scores = X[i] @ E.T + (1.0 - np.eye(2)[Y[i]])
    received = sum(end.T @ each for end, each in zip(ends, messages, strict=True))
    apart = cp.sum(cp.max(scores + received, axis=1))
    pairs = [T[s, t] - messages[0][:, s] - messages[1][:, t] for s in (0, 1) for t in (0, 1)]
    apart += cp.sum(cp.max(cp.vstack(pairs), axis=0))
    counts = np.zeros((2, 2))
    np.add.at(counts, (Y[i][edges[:, 0]], Y[i][edges[:, 1]]), 1.0)
    truth = cp.sum(cp.multiply(np.eye(2)[Y[i]].T @ X[i], E)) + cp.sum(cp.multiply(counts, T))
    total += (apart - truth) / len(few)
optimum = cp.Problem(cp.Minimize(total + 0.5 * lam * cp.sum_squares(w))).solve(solver="CLARABEL")
relaxed = GraphRisk([X[i] for i in few], [Y[i] for i in few], edges, decoder="outer")
result = cut.Problem(relaxed, cut.L2(lam)).solve(tol=1e-5)
print(f"cutting planes {result.objective:.6f}, one convex programme {optimum:.6f}")
assert result.certificate.verify().valid
assert abs(result.objective - optimum) <= 2e-5 * optimum

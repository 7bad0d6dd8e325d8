r"""
Segmentation with a certificate
===============================

Each pixel of a noisy picture is to get one of a few colours: near to its own, and the same as its
neighbours' where that is possible. The labelling x of least energy

.. math:: E(x) = \sum_u \|\text{colour of pixel } u - c_{x_u}\|^2 + \lambda \sum_{uv} [x_u \neq x_v]

is hard to find for three colours or more. The graphical model is relaxed to a linear programme, whose dual
gives a lower bound; here it is tight, and proves that no labelling of the whole picture is better.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow
from sklearn.cluster import KMeans
from sklearn.datasets import load_sample_image

import cutplane as cut

# %%
# A photograph of a dahlia, its pixels averaged by fours in both directions; then noise is added.
photograph = load_sample_image("flower.jpg")[:424] / 255
small = photograph.reshape(106, 4, 160, 4, 3).mean(axis=(1, 3))
noisy = small + 0.2 * np.random.default_rng(0).normal(size=small.shape)
h, w, lam = *small.shape[:2], 0.12


# %%
# The formulation
# ---------------
# The colours are the centres of clusters of the pixels without noise.
def model_with(n_colours):
    palette = KMeans(n_colours, n_init=1, random_state=0).fit(small.reshape(-1, 3)).cluster_centers_
    costs = np.square(noisy[:, :, None] - palette).sum(axis=3)
    return cut.graphical.grid(costs, lam * (1 - np.eye(n_colours))), palette


model, palette = model_with(6)
result = model.map()
print(model)
print(result)

# %%
# What is given, the nearest colour of each pixel, and the solution.
costs = model.unaries.reshape(h, w, -1)
nearest, labels = costs.argmin(axis=2), result.labelling.reshape(h, w)
fig, axes = plt.subplots(1, 3, figsize=(12, 3))
titles = "with noise", "nearest colours", "least energy"
for ax, image, title in zip(axes, (noisy, palette[nearest], palette[labels]), titles, strict=True):
    ax.imshow(np.clip(image, 0, 1))
    ax.set_title(title)
    ax.set_axis_off()
fig.tight_layout()
plt.show()


# %%
# The check
# ---------
# The energy is what its formula says, and the certified gap is small. For two colours there is an independent
# answer: then the least energy is a minimum cut, which a maximum flow of integers finds.
def least_energy_by_flow(model, unit=1e-6):
    n, (u, v) = model.n_variables, model.edges.T
    pixels, source, sink = np.arange(n), np.full(n, n), np.full(n, n + 1)
    costs = model.unaries.reshape(n, 2)
    least = costs.min(axis=1)
    capacities = np.concatenate([costs[:, 1] - least, costs[:, 0] - least, np.full(2 * len(u), lam)])
    starts, stops = np.concatenate([source, pixels, u, v]), np.concatenate([pixels, sink, v, u])
    integers = np.rint(capacities / unit).astype(np.int32)
    graph = csr_array((integers, (starts, stops)), shape=(n + 2, n + 2))
    return least.sum() + unit * maximum_flow(graph, n, n + 1).flow_value


different = (labels[1:] != labels[:-1]).sum() + (labels[:, 1:] != labels[:, :-1]).sum()
energy = np.take_along_axis(costs, labels[:, :, None], axis=2).sum() + lam * different
assert abs(energy - result.energy) <= 1e-9 * energy
assert result.status is cut.Status.OPTIMAL and result.gap <= 1e-6
assert result.energy < model.energy(nearest.ravel())
two_colours, _ = model_with(2)
result, optimum = two_colours.map(), least_energy_by_flow(two_colours)
print(f"two colours: {result.energy:.4f}, by maximum flow {optimum:.4f}")
assert result.bound - 1e-5 * optimum <= optimum <= result.energy + 1e-5 * optimum
assert result.energy - optimum <= 1e-5 * optimum

r"""
Semidefinite constraints by eigenvectors
========================================

The largest cut of a graph with Laplacian L is at most the value of the semidefinite programme of Goemans
and Williamson (`doi:10.1145/227683.227684 <https://doi.org/10.1145/227683.227684>`_),

.. math:: \max_X \; \tfrac{1}{4} \langle L, X\rangle \quad \text{subject to} \; X_{ii} = 1, \; X \succeq 0 .

A matrix is positive semidefinite if :math:`v'Xv \ge 0` for every v. That is a half-space for each v, and
the eigenvectors of a matrix to its negative eigenvalues are the ones that cut it off: linear and quadratic
programmes solve a semidefinite one.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import cutplane as cut

# %%
# The Petersen graph: 10 vertices, 15 edges. Each vertex is a pair out of five; disjoint pairs are joined.
pairs = [(i, j) for i in range(5) for j in range(i)]
adjacency = np.array([[float(not set(p) & set(q)) for q in pairs] for p in pairs])
L = np.diag(adjacency.sum(axis=1)) - adjacency
n = len(pairs)
above = np.triu_indices(n, 1)


# %%
# The formulation
# ---------------
# The variables are the entries above the diagonal, all that ``eigh`` reads; for a unit vector v,
# :math:`v'Xv = 1 + 2 \sum_{i<j} v_i v_j x_{ij}`.
@cut.separation_oracle
def positive_semidefinite(x):
    X = np.eye(n)
    X[above] = x
    values, vectors = np.linalg.eigh(X, UPLO="U")
    return [cut.HalfSpace(-2 * np.outer(v, v)[above], 1.0) for v in vectors.T[values < -1e-7]]


elliptope = cut.Box(-1, 1, dim=len(above[0])) & positive_semidefinite
result = cut.Problem(cut.LinearObjective(-L[above] / 2), feasible_set=elliptope).solve(tol=1e-6)
bound = np.trace(L) / 4 - result.objective
print(result)

# %%
# Rounding: the signs of random projections of the factor of X give cuts of the graph.
X = np.eye(n)
X[above] = result.x
values, vectors = np.linalg.eigh(X, UPLO="U")
factor = vectors * np.sqrt(np.maximum(values, 0))
signs = np.sign(factor @ np.random.default_rng(0).normal(size=(n, 100)))
cuts = np.einsum("ik,ij,jk->k", signs, L, signs) / 4
best, side = cuts.max(), signs[:, cuts.argmax()]
print(f"a cut of {best:.0f} edges; none has more than {bound:.4f}")

# %%
# The best cut: the edges between the two colours.
angles = 2 * np.pi * np.arange(n) / n
points = np.column_stack([np.cos(angles), np.sin(angles)])
fig, ax = plt.subplots(figsize=(4, 4))
for i, j in np.argwhere(np.triu(adjacency)):
    ax.plot(*points[[i, j]].T, color="C3" if side[i] != side[j] else "0.8", zorder=0)
ax.scatter(*points.T, s=150, c=side, cmap="coolwarm", edgecolors="black")
ax.set_axis_off()
plt.show()

# %%
# The check
# ---------
# cvxpy solves the semidefinite programme. For a graph whose edges are all alike its value is also known:
# :math:`n \lambda_{\max}(L) / 4`.
X = cp.Variable((n, n), PSD=True)
optimum = cp.Problem(cp.Maximize(cp.trace(L @ X) / 4), [cp.diag(X) == 1]).solve(solver=cp.CLARABEL)
assert result.status is cut.Status.OPTIMAL
assert abs(bound - optimum) <= 1e-5 * optimum
assert abs(bound - n * np.linalg.eigvalsh(L)[-1] / 4) <= 1e-5 * optimum
assert best <= bound

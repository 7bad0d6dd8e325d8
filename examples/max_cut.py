r"""
Semidefinite constraints by eigenvectors
========================================

The largest cut of a graph with Laplacian L is at most the value of the semidefinite programme of Goemans
and Williamson (`doi:10.1145/227683.227684 <https://doi.org/10.1145/227683.227684>`_),

.. math:: \max_X \; \tfrac14 \langle L, X\rangle \quad \text{subject to} \quad X_{ii} = 1, \; X \succeq 0 .

A matrix is positive semidefinite if :math:`v'Xv \ge 0` for every v. That is a half-space for each v, and
the eigenvectors of a matrix to its negative eigenvalues are the ones that cut it off: linear programmes
solve a semidefinite one.
"""

import cvxpy as cp
import numpy as np

import cutplane as cut

# %%
# The Petersen graph: 10 vertices, 15 edges. Each vertex is a pair out of five; disjoint pairs are joined.
pairs = [(i, j) for i in range(5) for j in range(i)]
adjacency = np.array([[float(not set(p) & set(q)) for q in pairs] for p in pairs])
L = np.diag(adjacency.sum(axis=1)) - adjacency
n = len(pairs)
above = np.triu_indices(n, 1)


def matrix(x):
    """Return the symmetric matrix with unit diagonal whose entries above it are x."""
    X = np.eye(n)
    X[above] = x
    return X + np.triu(X, 1).T


# %%
# The formulation
# ---------------
# The variables are the entries above the diagonal; :math:`v'Xv = 1 + 2 \sum_{i<j} v_i v_j x_{ij}` for a
# unit vector v.
@cut.separation_oracle
def positive_semidefinite(x):
    values, vectors = np.linalg.eigh(matrix(x))
    return [cut.HalfSpace(-2 * np.outer(v, v)[above], 1.0) for v in vectors.T[values < -1e-7]]


box = cut.Box(-1, 1, dim=len(above[0]))
result = cut.Problem(cut.LinearObjective(-L[above] / 2), feasible_set=box & positive_semidefinite).solve(
    tol=1e-6
)
bound = np.trace(L) / 4 - result.objective
print(result)

# %%
# Rounding: the signs of random projections of the factor of X give cuts of the graph.
values, vectors = np.linalg.eigh(matrix(result.x))
factor = vectors * np.sqrt(np.maximum(values, 0))
signs = np.sign(factor @ np.random.default_rng(0).normal(size=(n, 100)))
best = np.einsum("ik,ij,jk->k", signs, L, signs).max() / 4
print(f"a cut of {best:.0f} edges; none has more than {bound:.4f}")

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

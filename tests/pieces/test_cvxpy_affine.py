"""Matrices of affine expressions, against cvxpy's gradients."""

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse

from cutplane.pieces.cvxpy_plan import _Compiler, _differentiated, matrices_of

RNG = np.random.default_rng(0)
A, b = RNG.standard_normal((5, 3)), RNG.standard_normal(5)
w, v, M = cp.Variable(3), cp.Variable(5), cp.Variable((2, 3))
KNOWN = {
    "a variable": w,
    "a product": A @ w,
    "a sparse product": sparse.csr_array(A) @ w,
    "a row": A[0] @ w,
    "sums": A @ w - b + v - (v - 1.0),
    "multiples": cp.multiply(b, A @ w) - 2.0 * v,
    "a matrix": 3.0 * M - cp.multiply(RNG.standard_normal((2, 3)), M) + np.ones((2, 3)),
}
OTHERS = {"a trace": cp.trace(M @ A[:3, :2]), "an index": w[0] + v, "a sum": cp.sum(v) + w}


def lowered(expression):
    """Return the expression as a plan has it: constants are evaluated."""
    return _Compiler(expression.variables()).lower(expression)


@pytest.mark.parametrize("name", KNOWN)
def test_matrices_are_those_of_the_gradients(name):
    affine = lowered(KNOWN[name])
    found = matrices_of(affine)
    assert found is not None
    matrices, offset = _differentiated(affine)
    np.testing.assert_allclose(found[1], offset, rtol=1e-15)
    assert found[0].keys() == matrices.keys()
    for key, matrix in matrices.items():
        mine = found[0][key]
        mine = mine.toarray() if sparse.issparse(mine) else mine
        np.testing.assert_allclose(mine, matrix.toarray(), rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize("name", OTHERS)
def test_other_atoms_are_left_to_cvxpy(name):
    assert matrices_of(lowered(OTHERS[name])) is None

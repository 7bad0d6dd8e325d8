"""Matrices that are kernel matrices up to rounding, and matrices that are none."""

from itertools import product

import numpy as np
import pytest
from kernel_machines import Computed

from cutplane.exceptions import InvalidInputError
from cutplane.kernels import KernelMachine, PrecomputedKernels
from cutplane.kernels.definite import check_along
from cutplane.kernels.rows import DenseRows
from cutplane.losses import Hinge, Squared
from cutplane.mkl import MKL

SLOW = pytest.mark.slow


def labels(m):
    return np.resize([1.0, -1.0, -1.0], m)


def gram(m, rank, seed=0):
    F = np.random.default_rng(seed).normal(size=(m, rank))
    return F @ F.T


def indefinite(m, share=0.05, seed=0):
    """A Gram matrix with one negative eigenvalue, a share of the largest."""
    K = gram(m, 5, seed)
    u = np.random.default_rng(seed + 1).normal(size=m)
    u -= K @ np.linalg.lstsq(K, u, rcond=1e-10)[0]
    u /= np.linalg.norm(u)
    return K - share * np.linalg.norm(K, 2) * np.outer(u, u)


@pytest.mark.parametrize("loss", [Hinge(), Squared()], ids=repr)
@pytest.mark.parametrize("m", [2, 40, 600])
@pytest.mark.parametrize("intercept", [False, True])
def test_an_indefinite_matrix_is_refused(loss, m, intercept):
    K = np.array([[1.0, 2.0], [2.0, 1.0]]) if m == 2 else indefinite(m)
    with pytest.raises(InvalidInputError, match=r"K is not positive semidefinite: (entry|u'K u = -)"):
        KernelMachine(loss, labels(m), 1.0, intercept).solve(K)
    with pytest.raises(InvalidInputError, match=r"positive semidefinite|diagonal"):
        KernelMachine(loss, labels(m), 1.0, intercept).solve(Computed(K))


def test_the_block_of_the_largest_coefficients_is_checked():
    K, a = np.eye(600), np.append([10.0, 10.0], np.ones(598))
    K[0, 1] = K[1, 0] = 2.0
    with pytest.raises(InvalidInputError, match=r"entry \[(0, 1|1, 0)\] is 2"):
        check_along("K", DenseRows(K), a, K @ a)


@pytest.mark.parametrize("m", [3, 600])
def test_a_matrix_that_is_not_symmetric_is_refused(m):
    K = gram(m, 5)
    K[np.triu_indices(m, 1)] *= 1.01
    with pytest.raises(InvalidInputError, match=r"K must be finite and symmetric, but entry \[\d+, \d+\] is"):
        KernelMachine(Hinge(), labels(m), 1.0).solve(K)


@pytest.mark.parametrize(
    ("m", "rank", "dtype"),
    [
        *product([2, 30, 520], [1, 4], [np.float64]),
        *((m, rank, np.float32) for m, rank in [(2, 1), (2, 4), (30, 4)]),
        *(pytest.param(m, rank, np.float32, marks=SLOW) for m, rank in [(30, 1), (520, 1), (520, 4)]),
    ],
)
def test_rounding_is_no_reason(m, rank, dtype):
    F = np.random.default_rng(m).normal(size=(m, rank)).astype(dtype)
    K = F @ F.T
    solution = KernelMachine(Hinge(), labels(m), 1.0).solve(K.astype(np.float64))
    assert solution.gap <= 1e-4 * max(1.0, solution.primal_value)
    PrecomputedKernels([K])


def test_a_negative_eigenvalue_of_the_size_of_rounding_is_allowed():
    K = gram(50, 3)
    u = np.linalg.eigh(K)[1][:, 0]
    barely = K - 1e-10 * np.trace(K) * np.outer(u, u)
    barely = 0.5 * (barely + barely.T)
    KernelMachine(Squared(), labels(50), 1.0).solve(barely)
    MKL([barely, np.eye(50)], labels(50)).solve()
    clearly = K - 1e-6 * np.trace(K) * np.outer(u, u)
    with pytest.raises(InvalidInputError, match="positive semidefinite"):
        KernelMachine(Squared(), labels(50), 1.0).solve(0.5 * (clearly + clearly.T))


def test_the_zero_matrix_is_a_kernel():
    solution = KernelMachine(Hinge(), labels(6), 1.0).solve(np.zeros((6, 6)))
    assert solution.gap <= 1e-12


@pytest.mark.parametrize("m", [10, 600])
def test_banks_refuse_them_too(m):
    with pytest.raises(InvalidInputError, match=r"matrices\[1\].*(positive semidefinite|diagonal)"):
        MKL([gram(m, 3), indefinite(m)], labels(m))

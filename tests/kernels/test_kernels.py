"""Kernels and banks of kernels against the matrices written out."""

import pickle
import subprocess
import sys
import tracemalloc
from functools import cache

import numpy as np
import pytest
from covering import covering
from hypothesis import given, settings
from hypothesis import strategies as st
from layouts import LAYOUTS, SPARSE
from scipy import sparse

import cutplane.kernels as kernels_package
from cutplane.exceptions import InvalidInputError
from cutplane.kernels import (
    Bank,
    Cosine,
    Gaussian,
    Kernel,
    KernelBank,
    Laplacian,
    Linear,
    Polynomial,
    PrecomputedKernels,
    as_bank,
    single_feature_kernels,
)
from cutplane.kernels import kernel_bank as bank_module
from cutplane.kernels.kernel_bank import low_rank_factor
from cutplane.kernels.matrices import FactoredKernels, panel_ranges
from cutplane.runtime.threads import get_threads, set_threads

M, N = 70, 5


@pytest.fixture
def both_threads():
    before = get_threads()
    yield (1, 2)
    set_threads(before)


def examples(m=M, n=N, seed=0):
    """A constant column, one of few values, a zero row and duplicate rows among them."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((m, n)) < 0.4, 0.0, rng.standard_normal((m, n)))
    X[:, 3] = 0.7
    X[:, 4] = np.round(X[:, 4])
    X[0] = 0.0
    X[-3:] = X[1]
    return X


def explicit(kernel, x, z):
    """k(x, z) by the formula, one number."""
    if kernel.features is not None:
        columns = np.atleast_1d(kernel.features)
        x, z = x[columns], z[columns]
    match kernel:
        case Linear():
            return x @ z
        case Polynomial(degree, coef0, gamma):
            return (gamma * (x @ z) + coef0) ** degree
        case Gaussian(width):
            return np.exp(-((x - z) ** 2).sum() / (2 * width**2))
        case Laplacian(width):
            return np.exp(-np.abs(x - z).sum() / width)
    sizes = np.linalg.norm(x) * np.linalg.norm(z)
    return x @ z / sizes if sizes else 0.0


def matrix(kernel, X, Z):
    return _matrix(kernel, X.shape, X.tobytes(), Z.shape, Z.tobytes())


@cache
def _matrix(kernel, X_shape, X, Z_shape, Z):
    X, Z = np.frombuffer(X).reshape(X_shape), np.frombuffer(Z).reshape(Z_shape)
    return np.array([[explicit(kernel, x, z) for z in Z] for x in X])


@cache
def raw(kernel, single):
    """X, Z and the kernels of all their points; `single` rounds these to float32 first."""
    X, Z = examples(), np.vstack([examples(9, seed=1), examples()[:2]])
    if single:
        X, Z = X.astype(np.float32).astype(np.float64), Z.astype(np.float32).astype(np.float64)
    return X, Z, matrix(kernel, np.vstack([X, Z]), np.vstack([X, Z]))


def normalised(kernel, steps, single=False):
    """The kernels of X and of Z with X after normalisation on X: from those of all points, step by step."""
    X, _, K = raw(kernel, single)
    m = len(X)
    for step in steps:
        if step == "trace":
            mean = np.trace(K[:m, :m]) / m
            K = K / mean if mean > 1e-12 else 0 * K
        elif step == "diagonal":
            sizes = np.sqrt(np.maximum(np.diag(K), 0.0))
            inverses = np.where(sizes > 1e-6, 1.0 / np.where(sizes > 1e-6, sizes, 1.0), 0.0)
            K = K * inverses[:, None] * inverses
        else:
            means = K[:, :m].mean(axis=1)
            K = K - means[:, None] - means + K[:m, :m].mean()
            if np.trace(K[:m, :m]) < 1e-12 * m:
                K = 0 * K
    return K[:m, :m], K[m:, :m]


KERNELS = [
    Linear(),
    Linear(features=1),
    Linear(features=3),
    Linear(features=(0, 4)),
    Polynomial(1, features=2),
    Polynomial(2, coef0=0.0, gamma=0.5),
    Polynomial(3, features=(2, 0)),
    Polynomial(3, coef0=0.3, gamma=2.0),
    Polynomial(7, features=1),
    Gaussian(0.05, features=0),
    Gaussian(1.0, features=4),
    Gaussian(8.0, features=1),
    Gaussian(2.0, features=3),
    Gaussian(0.5),
    Gaussian(64.0),
    Gaussian(3.0, features=(1, 2)),
    Laplacian(1.0, features=0),
    Laplacian(0.5, features=4),
    Laplacian(2.0),
    Cosine(),
    Cosine(features=(1, 2)),
    Cosine(features=4),
]


def kernels_for(layout):
    return [k for k in KERNELS if layout not in SPARSE or k.sparse or isinstance(k.features, int)]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_values_diagonal_and_factor_follow_the_formula(kernel, layout):
    if kernel not in kernels_for(layout):
        with pytest.raises(InvalidInputError, match=r"X.toarray\(\)"):
            kernel(LAYOUTS[layout](examples()))
        return
    X, Z = examples(), examples(9, seed=1)
    tol = 1e-11 if "32" not in layout else 1e-4
    K = kernel(LAYOUTS[layout](X))
    assert K.dtype == np.float64 and K.flags.c_contiguous
    size = np.abs(matrix(kernel, X, X)).max()
    np.testing.assert_allclose(K, matrix(kernel, X, X), atol=tol * size)
    np.testing.assert_allclose(kernel(LAYOUTS[layout](X), Z), matrix(kernel, X, Z), atol=tol * size)
    np.testing.assert_allclose(kernel(X, LAYOUTS[layout](Z)), matrix(kernel, X, Z), atol=tol * size)
    np.testing.assert_allclose(kernel.diagonal(LAYOUTS[layout](X)), np.diag(K), atol=1e-12 * size)
    F = kernel.factor(LAYOUTS[layout](X))
    if isinstance(kernel, Gaussian | Laplacian):
        assert F is None
    else:
        np.testing.assert_allclose(F @ F.T, K, atol=1e-12 * size)


@pytest.mark.parametrize(
    "kernel",
    [Linear(), Polynomial(3, 0.5, 0.2), Gaussian(3.0), Laplacian(3.0), Cosine()],
    ids=lambda k: k.name,
)
def test_many_columns(kernel):
    X, Z = examples(60, 40), examples(30, 40, seed=1)
    np.testing.assert_allclose(kernel(X, Z), matrix(kernel, X, Z), rtol=1e-10, atol=1e-12)
    for A in (X, sparse.csr_array(X)) if kernel.sparse else (X,):
        np.testing.assert_allclose(kernel(A), kernel(A).T, atol=1e-10)
        np.testing.assert_allclose(np.diag(kernel(A)), kernel.diagonal(X), rtol=1e-12)


def test_far_points_cost_no_digits():
    X = 1e6 + np.random.default_rng(0).standard_normal((20, 40))
    for columns in (1, 3, 40):
        K = Gaussian(5.0)(X[:, :columns])
        shifted = Gaussian(5.0)(X[:, :columns] - 1e6)
        np.testing.assert_allclose(K, shifted, atol=1e-8)
        assert (np.diag(K) == 1.0).all()
    assert Gaussian(1e-200)(X[:2]).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert np.array_equal(Gaussian(1e-200, features=0)(np.array([[1e200], [-1e200]])), np.eye(2))


NORMALISATIONS = [
    None,
    "trace",
    "diagonal",
    "center",
    ("center", "trace"),
    ("center", "diagonal"),
    ("diagonal", "center", "trace"),
]


@pytest.mark.parametrize(
    ("layout", "normalize", "dtype", "memory"),
    covering(["C", "float32", "csr", "csc"], NORMALISATIONS, [np.float64, np.float32], [1 << 30, 0]),
)
def test_bank_against_the_matrices(layout, normalize, dtype, memory):
    X, Z, _ = raw(KERNELS[0], layout == "float32")
    kernels = kernels_for(layout)
    steps = () if normalize is None else (normalize,) if isinstance(normalize, str) else normalize
    both = [normalised(kernel, steps, layout == "float32") for kernel in kernels]
    K, cross = np.array([pair[0] for pair in both]), np.array([pair[1] for pair in both])
    bank = KernelBank(kernels, LAYOUTS[layout](X), normalize=normalize, dtype=dtype, memory=memory)
    assert (bank.n_kernels, len(bank), bank.n_samples) == (len(kernels), len(kernels), M)
    check_bank(bank, K, 1e-10 if dtype == np.float64 else 1e-5)
    if memory:
        assert (bank.parts[1].n_bytes > 0) and bank.parts[0].n_columns
    else:
        assert bank.parts[1].n_bytes == 0 and len(bank.parts[1])
    weights, a = draws(len(kernels))
    predicted = bank.predict(LAYOUTS[layout](Z), weights, a)
    size = np.abs(cross).max(axis=(1, 2)) @ np.abs(weights) * np.abs(a).sum()
    np.testing.assert_allclose(predicted, np.einsum("k,kij,j", weights, cross, a), atol=1e-11 * size)
    np.testing.assert_allclose(  # the examples are points like others
        bank.predict(X, weights, a), bank.products(a).weighted(weights), atol=tolerance(dtype) * size
    )


def tolerance(dtype):
    return 1e-10 if dtype == np.float64 else 1e-5


def draws(n, m=M, seed=3):
    rng = np.random.default_rng(seed)
    weights = rng.random(n) * (rng.random(n) < 0.6)
    a = rng.standard_normal(m) * (rng.random(m) < 0.7)
    weights[0], a[0] = 0.3, 1.0
    return weights, a


def check_bank(bank, K, tol):
    """Every answer of the protocol, for a bank of the matrices K."""
    n, m = len(K), K.shape[1]
    weights, a = draws(n, m)
    b = draws(n, m, seed=4)[1]
    sizes = np.abs(K).max(axis=(1, 2))
    total = bank.weighted_sum(weights)
    assert total.dtype == np.float64 and total.flags.c_contiguous and (total == total.T).all()
    np.testing.assert_allclose(total, np.tensordot(weights, K, 1), atol=tol * (weights @ sizes))
    np.testing.assert_allclose(bank.weighted_sum(-weights), -total, atol=1e-13 * (weights @ sizes + 1e-300))
    assert not bank.weighted_sum(np.zeros(n)).any()

    def close(actual, expected, v):
        scale = sizes * np.abs(v).sum() ** 2
        assert actual.shape == (n,)
        assert (np.abs(actual - expected) <= tol * scale).all(), (actual, expected)

    forms = np.einsum("kij,i,j->k", K, a, a)
    close(bank.quadratic_forms(a), forms, a)
    assert (bank.quadratic_forms(a) >= 0.0).all()
    close(bank.traces, np.trace(K, axis1=1, axis2=2), np.ones(m))
    of_a, of_b = bank.products(a), bank.products(b)
    close(of_a.quadratic_forms(a), forms, a)
    middle = a + 0.3 * (b - a)
    mixed = of_a.combine(of_b, 0.3)
    close(mixed.quadratic_forms(middle), np.einsum("kij,i,j->k", K, middle, middle), middle)
    expected = np.einsum("k,kij,j->i", weights, K, middle)
    scale = (weights @ sizes) * np.abs(middle).sum()
    np.testing.assert_allclose(mixed.weighted(weights), expected, atol=tol * scale + 1e-300)


def few(bank, K):
    """Scaled and restricted banks, of each other too, and pickled ones."""
    rng = np.random.default_rng(5)
    n = len(K)
    factors = rng.random(n)
    order = rng.permutation(n)[: max(1, n // 2)]
    scaled = factors[:, None, None] * K
    yield bank.scaled(factors), scaled, order[:0]
    yield bank.restricted(order), K[order], order
    yield (
        bank.scaled(factors).restricted(order).scaled(factors[order]),
        (factors**2)[order, None, None] * K[order],
        order,
    )
    yield pickle.loads(pickle.dumps(bank.scaled(factors))), scaled, order[:0]


@pytest.mark.parametrize("built", [False, True])
@pytest.mark.parametrize("memory", [1 << 30, 0])
def test_scaled_restricted_and_pickled_banks(built, memory):
    X = examples()
    K = np.array([normalised(kernel, ("diagonal",))[0] for kernel in KERNELS])
    bank = KernelBank(KERNELS, X, normalize="diagonal", memory=memory)
    if built:
        bank.quadratic_forms(np.ones(M))
    for changed, matrices, order in few(bank, K):
        check_bank(changed, matrices, 1e-10)
        if order.size:
            assert changed.names == tuple(KERNELS[k].name for k in order)
        weights, a = draws(len(changed))
        np.testing.assert_allclose(
            changed.predict(X, weights, a), np.einsum("k,kij,j", weights, matrices, a), atol=1e-9
        )
    check_bank(bank, K, 1e-10)
    mask = np.arange(len(KERNELS)) == 5
    assert bank.restricted(mask).names == bank.restricted([5]).names == (KERNELS[5].name,)


def test_restriction_shares_what_is_computed(monkeypatch):
    bank = KernelBank(KERNELS, examples())
    bank.traces  # noqa: B018
    monkeypatch.setattr(bank_module, "cheapest_form", None)
    assert bank.restricted([3, 0, 14]).scaled([1.0, 2.0, 3.0]).quadratic_forms(np.ones(M)).shape == (3,)
    assert pickle.loads(pickle.dumps(bank))._made is None
    every = bank.restricted(np.arange(len(KERNELS))).parts[0]
    assert every.slabs[0].data is bank.parts[0].slabs[0].data


GIVEN = {
    "array": lambda K: K,
    "list": list,
    "Fortran": lambda K: [np.asfortranarray(k) for k in K],
    "strided": lambda K: [np.repeat(k, 2, axis=1)[:, ::2] for k in K],
    "last axis": lambda K: np.moveaxis(np.ascontiguousarray(np.moveaxis(K, 0, 2)), 2, 0),
    "float32": lambda K: K.astype(np.float32),
    "swapped": lambda K: K.astype(K.dtype.newbyteorder("S")),
    "mixed": lambda K: [k.astype(np.float32) if i % 2 else k for i, k in enumerate(K)],
    "nested lists": lambda K: K.tolist(),
}


@pytest.mark.parametrize("given_as", GIVEN)
@pytest.mark.parametrize("m", [1, 2, 300])
def test_precomputed_kernels(given_as, m):
    rng = np.random.default_rng(0)
    F = rng.standard_normal((4, m, 3))
    K = F @ F.transpose(0, 2, 1)
    K[2] = 0.0
    matrices = GIVEN[given_as](K)
    bank = as_bank(matrices)
    assert isinstance(bank, PrecomputedKernels) and as_bank(bank) is bank and bank.n_bytes == 0
    assert bank.names[3] == "kernel 3"
    check_bank(bank, K, 1e-5 if given_as in ("float32", "mixed") else 1e-12)
    for changed, expected, _ in few(bank, K):
        check_bank(changed, expected, 1e-5)
    weights, a = draws(4, m)
    cross = rng.standard_normal((4, 6, m))
    expected = np.einsum("k,kij,j", weights, cross, a)
    np.testing.assert_allclose(bank.predict(cross, weights, a), expected, atol=1e-10)
    sparse_cross = [block if weight else None for block, weight in zip(cross, weights, strict=True)]
    np.testing.assert_allclose(bank.predict(sparse_cross, weights, a), expected, atol=1e-10)


@pytest.mark.parametrize("given_as", ["array", "Fortran", "float32"])
def test_given_matrices_are_not_copied(given_as):
    K = GIVEN[given_as](np.ones((2, 300, 300)))
    bank = PrecomputedKernels(K)
    for matrix, source in zip(K, bank.parts[1].sources, strict=True):
        assert np.shares_memory(matrix, source.panel(0, 100))


def test_memory_mapped_kernels_are_not_read_at_once(tmp_path):
    m, n = 400, 6
    K = np.lib.format.open_memmap(tmp_path / "K.npy", mode="w+", dtype=np.float32, shape=(n, m, m))
    F = np.random.default_rng(0).standard_normal((n, m, 5)).astype(np.float32)
    for k in range(n):
        K[k] = F[k] @ F[k].T
    K.flush()
    K = np.load(tmp_path / "K.npy", mmap_mode="r")
    a = draws(n, m)[1]
    as_bank(K[:1, :9, :9]).quadratic_forms(np.ones(9))  # compiled by now
    tracemalloc.start()
    bank = PrecomputedKernels(K, names="abcdef")
    forms, _ = bank.quadratic_forms(a), bank.products(a)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * m * m * 4  # what checking one takes, less than all
    np.testing.assert_allclose(forms, ((F.transpose(0, 2, 1).astype(float) @ a) ** 2).sum(axis=1), rtol=1e-4)
    assert bank.names == tuple("abcdef")


def test_banks_of_low_rank_form_no_matrix():
    m = 1500
    X = np.random.default_rng(0).standard_normal((m, 2))
    X[:, 1] = np.round(3 * X[:, 1])
    kernels = [Gaussian(0.5, features=0), Gaussian(4.0, features=0), Laplacian(0.1, features=1), Linear()]
    a = np.ones(m)
    KernelBank(kernels, X[:50]).quadratic_forms(a[:50])
    for normalize in (None, ("center", "trace", "diagonal")):
        tracemalloc.start()
        bank = KernelBank(kernels, X, normalize=normalize)
        assert tracemalloc.get_traced_memory()[1] < 100 * m and bank._made is None
        bank.products(a).combine(bank.products(a), 0.5).quadratic_forms(a)
        bank.predict(X[:3], np.ones(4), a)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len(bank.parts[1]) == len(bank) - 4 and bank.parts[0].n_columns < 150
        assert peak < m * m * 8 / 4


def test_memory_for_matrices_is_bounded():
    m = 600
    X = np.random.default_rng(0).standard_normal((m, 8))
    one = sum((stop - first) * stop for first, stop in panel_ranges(m)) * 8
    for memory, n_kept in ((one - 1, 0), (one, 1), (2.5 * one, 2), (10 * one, 3)):
        bank = KernelBank([Gaussian(0.1), Gaussian(0.2), Gaussian(0.3), Linear(features=0)], X, memory=memory)
        assert bank.parts[1].n_bytes == n_kept * one
        assert bank.n_bytes == n_kept * one + 8 * m
    small = KernelBank([Gaussian(0.1)], X, dtype=np.float32, memory=np.inf)
    assert small.parts[1].n_bytes == one // 2 < 0.7 * m * m * 4


def test_numerical_factors_leave_rounding_out():
    x = np.random.default_rng(0).standard_normal((150, 1))
    for kernel in (Gaussian(0.3), Gaussian(5.0), Polynomial(9, 0.5), Linear()):
        K = kernel(x)
        for tol in (1e-14, 1e-7):
            F = low_rank_factor(lambda i, K=K: K[:, i], np.diag(K), 75, tol)
            assert F is not None
            residual = K - F @ F.T
            assert (np.abs(np.diag(residual)) <= (tol + 1e-14) * np.diag(K)).all()
            assert np.linalg.eigvalsh(residual).min() >= -1e-13 * np.linalg.norm(K, 2)
            if tol == 1e-7:
                assert np.linalg.norm(residual) > 0.0 and F.shape[1] <= 60
    F = low_rank_factor(lambda i: np.full(4, 2.0), np.full(4, 2.0), 4, 1e-14)
    assert F is not None and F.shape == (4, 1)
    np.testing.assert_allclose(F, np.sqrt(2.0), rtol=1e-15)
    F = low_rank_factor(lambda i: np.zeros(4), np.zeros(4), 4, 1e-14)
    assert F is not None and F.shape == (4, 0)


def test_hopeless_factors_are_given_up_early():
    X = np.random.default_rng(0).standard_normal((400, 20))
    for kernel, most in ((Gaussian(0.5), 16), (Gaussian(3.0), 60), (Cosine(), 20)):
        K, asked = kernel(X), []

        def column(i, K=K, asked=asked):
            asked.append(i)
            return K[:, i]

        F = low_rank_factor(column, np.diag(K), 100, 1e-14)
        assert len(asked) <= most and (F is None) == isinstance(kernel, Gaussian)


def test_few_values_bound_the_rank_and_are_tried_to_the_end():
    x = np.repeat(np.arange(30.0), 20)[:, None]
    for kernel in (Gaussian(0.01), Laplacian(0.01), Gaussian(3.0)):
        bank = KernelBank([kernel], x)
        assert not len(bank.parts[1]) and bank.parts[0].n_columns <= 30
        np.testing.assert_allclose(bank.weighted_sum([1.0]), kernel(x), atol=1e-13)
    x = np.tile(np.linspace(0.0, 1.0, 140), 5)[:, None]  # of which the residuals promise no rank of 140
    K = Laplacian(5.0)(x)
    assert low_rank_factor(lambda i: K[:, i], np.diag(K), 175, 1e-14) is None
    assert KernelBank([Laplacian(5.0)], x).parts[0].n_columns == 140


def test_slabs_and_batches_do_not_matter(monkeypatch):
    X = examples()
    whole = KernelBank(KERNELS, X)
    assert len(whole.parts[0].slabs) == 1
    monkeypatch.setattr("cutplane.kernels.matrices.SLAB", 5 * M)
    monkeypatch.setattr("cutplane.kernels.matrices.BATCH", 7)
    cut = KernelBank(KERNELS, X)
    assert len(cut.parts[0].slabs) > 5
    check_bank(cut, np.array([whole.weighted_sum(row) for row in np.eye(len(KERNELS))]), 1e-12)
    for order in ([3, 2], [19, 0, 8, 11]):
        matrices = np.array([whole.weighted_sum(np.eye(len(KERNELS))[k]) for k in order])
        check_bank(cut.restricted(order), matrices, 1e-12)
    empty = FactoredKernels.of(
        3, 3, enumerate([np.zeros((3, 0)), np.ones((3, 1)), np.zeros((3, 0))]), np.float64
    )
    assert empty.quadratic_forms(empty.coefficients(np.ones(3))).tolist() == [0.0, 9.0, 0.0]


def test_threads_do_not_matter(both_threads):
    X = np.random.default_rng(0).standard_normal((400, 12))
    kernels = [*single_feature_kernels(12), *(Gaussian(w) for w in (0.5, 1.0, 2.0)), Laplacian(1.0)]
    weights, a = draws(len(kernels), 400)
    answers = []
    for n in both_threads:
        set_threads(n)
        bank = KernelBank(kernels, X)
        products = bank.products(a)
        answers.append(
            [
                *(bank.quadratic_forms(a), bank.weighted_sum(weights), products.weighted(weights)),
                *(products.rows, bank.predict(X, weights, a), bank.traces),
            ]
        )
    assert all(np.array_equal(one, two) for one, two in zip(*answers, strict=True))


def test_weights_of_zero_cost_nothing(monkeypatch):
    bank = KernelBank([Laplacian(1.0), Gaussian(0.1), Laplacian(2.0)], examples(), memory=0)
    assert len(bank.parts[1]) == 3

    def refuse(self, A, B):
        raise AssertionError("evaluated")

    monkeypatch.setattr(Laplacian, "evaluate", refuse)
    weights = np.array([0.0, 1.0, 0.0])
    assert bank.weighted_sum(weights).any() and bank.predict(examples(), weights, np.ones(M)).any()
    with pytest.raises(AssertionError, match="evaluated"):
        bank.weighted_sum(np.ones(3))


@given(
    values=st.lists(st.lists(st.integers(-3, 3), min_size=2, max_size=2), min_size=1, max_size=20),
    scale=st.sampled_from([1.0, 1e-8, 1e8]),
    steps=st.lists(st.sampled_from(["trace", "diagonal", "center"]), max_size=3),
    seed=st.integers(0, 99),
)
@settings(max_examples=25, deadline=None)
def test_small_and_degenerate_banks(values, scale, steps, seed):
    """One sample, duplicates, constant and zero columns; sums stay positive semidefinite and consistent."""
    X = scale * np.array(values, dtype=float)
    kernels = [
        Linear(features=0),
        Linear(),
        Polynomial(2, features=1),
        Gaussian(scale),
        Laplacian(scale),
        Cosine(),
    ]
    bank = KernelBank(kernels, X, normalize=tuple(steps))
    a = np.random.default_rng(seed).standard_normal(len(X))
    K = np.array([bank.weighted_sum(row) for row in np.eye(6)])
    assert np.isfinite(K).all()
    traces = np.trace(K, axis1=1, axis2=2)
    np.testing.assert_allclose(bank.traces, traces, rtol=1e-12, atol=1e-300)
    for k in range(6):
        assert np.linalg.eigvalsh(K[k]).min() >= -1e-12 * traces[k]
    np.testing.assert_allclose(
        bank.quadratic_forms(a),
        np.einsum("kij,i,j->k", K, a, a),
        rtol=1e-9,
        atol=1e-11 * (traces * (a @ a)).max(),
    )
    if steps[-1:] == ["trace"]:
        assert all(abs(trace - len(X)) < 1e-9 * len(X) or trace == 0.0 for trace in traces)
    if steps[-1:] == ["diagonal"]:
        assert np.isin(np.round(np.diagonal(K, axis1=1, axis2=2), 9), (0.0, 1.0)).all()
    if "center" in steps and len(X) == 1:
        assert not K.any()
    predicted = bank.predict(X, np.ones(6), a)
    np.testing.assert_allclose(
        predicted, K.sum(axis=0) @ a, atol=1e-7 * (1e-300 + traces.max() * np.abs(a).sum())
    )


def test_a_constant_feature_is_zero_once_centred():
    X = np.column_stack([np.full(40, 0.1), np.random.default_rng(0).standard_normal(40)])
    kernels = [
        Linear(features=0),
        Polynomial(3, features=0),
        Gaussian(1.0, features=0),
        Laplacian(1.0, features=0),
    ]
    for normalize in (("center", "trace"), ("center", "diagonal", "trace"), ("trace", "center", "trace")):
        bank = KernelBank(kernels, X, normalize=normalize)
        assert not bank.traces.any() and not bank.weighted_sum(np.ones(4)).any()
        assert not bank.predict(np.array([[5.0, 0.0]]), np.ones(4), np.ones(40)).any()
    zero = KernelBank([Linear()], np.zeros((3, 2)), normalize=("trace", "diagonal"))
    assert not zero.weighted_sum([1.0]).any() and not zero.predict(np.ones((1, 2)), [1.0], np.ones(3)).any()


def test_small_values_are_as_accurate_as_large_ones():
    X = np.array([[0.0], [1e8], [3.0]])
    kernels = [Polynomial(2), Polynomial(5)]  # whose factors have 3 and 6 columns
    for m in (2, 3):
        K = np.array([kernel(X[:m]) for kernel in kernels])
        roots = np.sqrt(np.diagonal(K, axis1=1, axis2=2))
        expected = (K / roots[:, :, None] / roots[:, None, :]).sum(axis=0)
        bank = KernelBank(kernels, X[:m], normalize="diagonal")
        np.testing.assert_allclose(bank.weighted_sum([1.0, 1.0]), expected, atol=1e-12)
        predicted = bank.predict(X[:m], [1.0, 1.0], np.ones(m))
        np.testing.assert_allclose(predicted, expected.sum(axis=1), atol=1e-12)


def test_an_example_at_the_mean_is_zero_once_centred():
    X = np.array([[0.1], [0.3], [0.2]])
    assert X[2, 0] != X.mean()  # by rounding, which must not be divided by itself
    bank = KernelBank([Linear(), Laplacian(1e9)], X, normalize=("center", "diagonal"))
    K = bank.weighted_sum([1.0, 0.0])
    np.testing.assert_allclose(K, [[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0], [0.0, 0.0, 0.0]], atol=1e-12)
    predicted = bank.predict(np.array([[0.2], [0.4]]), [1.0, 0.0], [0.0, 1.0, 1.0])
    np.testing.assert_allclose(predicted, [0.0, 1.0], atol=1e-12)


def test_a_matrix_that_rounding_made_indefinite_is_accepted():
    above = np.nextafter(1.0, 2.0)
    rounded = np.array([[[1.0, above], [above, 1.0]]])
    assert PrecomputedKernels(rounded).quadratic_forms([1.0, -1.0]).tolist() == [0.0]


class Hat(Kernel):
    """A kernel of the user: max(0, 1 - |x - z|) on one feature."""

    def evaluate(self, A, B):
        return np.maximum(0.0, 1.0 - np.abs(A - B.T))

    def evaluate_diagonal(self, A):
        return np.ones(A.shape[0])


def test_kernels_of_the_user():
    X = examples()
    hat = Hat(features=0)
    assert hat.name == "hat of feature 0" and hat.factor(X) is None
    bank = KernelBank([hat, Linear()], X, normalize="center")
    K = hat(X)
    centred = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
    np.testing.assert_allclose(bank.weighted_sum([1.0, 0.0]), centred, atol=1e-12)


def test_single_feature_kernels():
    kernels = single_feature_kernels(3, also_all=True)
    assert len(kernels) == 4 * 13 and len(set(kernels)) == len(kernels)
    assert [k.width for k in kernels[:10]] == (2.0 ** np.arange(-3, 7)).tolist()
    assert kernels[13:26] == single_feature_kernels(3)[13:26]
    assert [kernel.features for kernel in kernels[::13]] == [0, 1, 2, None]
    assert single_feature_kernels(1, widths=[], degrees=[2]) == [Polynomial(2, features=0)]


def test_kernels_are_imported_without_numba():
    code = "import sys, cutplane.kernels as k; print('numba' in sys.modules, k.KernelMachine.__name__)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["False", "KernelMachine"]
    with pytest.raises(AttributeError, match="no attribute 'Machine'"):
        kernels_package.Machine  # noqa: B018


def test_names_and_displays():
    assert Gaussian(0.5, features=[3, np.int64(1)]).name == "gaussian(0.5) of features 3, 1"
    assert Linear(features=range(9)).name == "linear of 9 features"
    assert Laplacian(2).name == "laplacian(2)" and Cosine(features=1).name == "cosine of feature 1"
    bank = KernelBank(single_feature_kernels(5), examples(), normalize="trace", dtype=np.float32)
    assert repr(bank) == "KernelBank(65 kernels, 70 examples, normalize=('trace',), float32)"
    assert " as factors" not in bank._repr_html_()
    bank.quadratic_forms(np.ones(M))
    assert " as factors" in bank._repr_html_() and "gaussian(0.125) of feature 0" in bank._repr_html_()
    assert "identity" in PrecomputedKernels([np.eye(2)], names=["identity"])._repr_html_()


X0 = np.ones((4, 2))
BANK = KernelBank([Linear(), Gaussian(1.0)], X0)
GIVEN_BANK = PrecomputedKernels(np.ones((2, 4, 4)))
WRONG = {
    "width must be in": lambda: Gaussian(0.0),
    "degree must be at least 1": lambda: Polynomial(0),
    "degree must be an integer": lambda: Polynomial(1.5),
    "coef0 must be in": lambda: Polynomial(1, coef0=-1.0),
    "gamma must be in": lambda: Polynomial(1, gamma=0.0),
    "features must be different": lambda: Linear(features=(1, 1)),
    "at least one and none negative": lambda: Linear(features=()),
    "got -1": lambda: Linear(features=-1),
    "features must be None": lambda: Linear(features=1.0),
    "needs column 2, but X has 2": lambda: Linear(features=2)(X0),
    "X has 2 columns and Z has 3": lambda: Linear()(X0, np.ones((1, 3))),
    "not finite at row 0": lambda: Polynomial(3).diagonal(np.full((1, 1), 1e200)),
    "kernels is empty": lambda: KernelBank([], X0),
    "kernels[1] must be a kernel": lambda: KernelBank([Linear(), 1.0], X0),
    "the kernel 'linear of feature 7'".replace("the", "The"): lambda: KernelBank([Linear(features=7)], X0),
    "accepts dense data only, got X in CSR": lambda: KernelBank([Laplacian(1.0)], sparse.csr_array(X0)),
    "dtype must be float64 or float32": lambda: KernelBank([Linear()], X0, dtype=np.float16),
    "memory must be in [0, inf]": lambda: KernelBank([Linear()], X0, memory=-1),
    "normalize must be None": lambda: KernelBank([Linear()], X0, normalize="unit"),
    "divide the columns": lambda: KernelBank([Polynomial(3)], 1e200 * X0).traces,
    "weights must have shape (2,)": lambda: BANK.weighted_sum([1.0]),
    "a must have shape (4,)": lambda: BANK.quadratic_forms(np.ones(5)),
    "Z has 3 columns, but the bank was made of 2": lambda: BANK.predict(
        np.ones((1, 3)), np.ones(2), np.ones(4)
    ),
    "factors[1] is -1.0": lambda: BANK.scaled([1.0, -1.0]),
    "none twice": lambda: BANK.restricted([0, 0]),
    "at least one kernel": lambda: BANK.restricted([]),
    "integers below 2": lambda: BANK.restricted([2]),
    "matrices is empty": lambda: PrecomputedKernels([]),
    "matrices must be an array": lambda: PrecomputedKernels(3),
    "pass K[np.newaxis]": lambda: PrecomputedKernels(np.eye(2)),
    "matrices[1] must be square, like": lambda: PrecomputedKernels([np.eye(2), np.eye(3)]),
    "matrices[0] must be dense": lambda: PrecomputedKernels([sparse.eye_array(2)]),
    "matrices[0][1, 1] is -1.0": lambda: PrecomputedKernels([np.diag([1.0, -1.0])]),
    "entry [0, 1] is 2.0 and [1, 0] is 3.0": lambda: PrecomputedKernels([np.array([[1.0, 2.0], [3.0, 1.0]])]),
    "must be finite and symmetric": lambda: PrecomputedKernels([np.array([[1.0, np.nan], [np.nan, 1.0]])]),
    "names must name 1": lambda: PrecomputedKernels([np.eye(2)], names=["a", "b"]),
    "pass KernelBank(kernels, X)": lambda: as_bank([Linear()]),
    "Z must hold one matrix for each of the 2": lambda: GIVEN_BANK.predict(
        np.ones((1, 4)), np.ones(2), np.ones(4)
    ),
    "Z[1] must have shape (3, 4)": lambda: GIVEN_BANK.predict(
        [np.ones((3, 4)), np.ones((3, 3))], np.ones(2), np.ones(4)
    ),
    "Z holds no matrix": lambda: GIVEN_BANK.predict([None, None], np.ones(2), np.ones(4)),
    "widths and degrees are both empty": lambda: single_feature_kernels(2, widths=[], degrees=[]),
    "n_features must be at least 1": lambda: single_feature_kernels(0),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_input_is_named(message):
    with pytest.raises(InvalidInputError) as error:
        WRONG[message]()
    assert message in str(error.value)


def test_large_matrices_are_checked_by_a_sample():
    K = np.broadcast_to(1.0, (1, 1500, 1500))
    assert isinstance(as_bank(K), Bank)
    K = K.copy()
    K[0] += np.triu(np.ones((1500, 1500)), 1)
    with pytest.raises(InvalidInputError, match="symmetric"):
        as_bank(K)


def test_kernels_are_named_after_the_columns():
    X = np.arange(6.0).reshape(2, 3)
    kernels = [Linear(), Linear(features=1), Gaussian(2.0, features=(0, 2)), Linear(features=(0,))]
    plain = ("linear", "linear of feature 1", "gaussian(2) of features 0, 2", "linear of feature 0")
    assert KernelBank(kernels, X).names == plain
    named = ("linear", "linear of b", "gaussian(2) of a, c", "linear of a")
    bank = KernelBank(kernels, X, feature_names=["a", "b", "c"])
    assert bank.names == named and bank.restricted([1, 0]).names == named[1::-1]
    frame = pytest.importorskip("pandas").DataFrame(X, columns=["a", "b", "c"])
    assert KernelBank(kernels, frame).names == named
    with pytest.raises(InvalidInputError, match="3 columns"):
        KernelBank(kernels, X, feature_names=["a"])


@pytest.mark.parametrize("kind", ["factored", "mixed", "precomputed"])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 2.0])
def test_a_sum_near_a_vector_lacks_little_there_and_nowhere_too_much(kind, share):
    rng = np.random.default_rng(0)
    X, a, weights = rng.standard_normal((40, 3)), rng.standard_normal(40), rng.random(5)
    kernels = [Linear(), Polynomial(2), Gaussian(1.0, features=0), Linear(features=1), Linear(features=2)]
    if kind == "mixed":
        kernels[2:4] = [Laplacian(0.3), Gaussian(0.1)]
    bank = KernelBank(kernels, X)
    if kind == "precomputed":
        bank = PrecomputedKernels([kernel(X) for kernel in kernels])
    whole = bank.weighted_sum(weights)
    allowed = share * float(a @ whole @ a)
    near = bank.sum_near(weights, a, bank.products(a), allowed)
    missing = whole - near
    assert -1e-9 <= a @ missing @ a <= allowed + 1e-9
    assert np.linalg.eigvalsh(missing).min() >= -1e-9
    if share in (0.0, 2.0):
        assert (np.abs(missing).max() > 0.0) == (share > 0.0)

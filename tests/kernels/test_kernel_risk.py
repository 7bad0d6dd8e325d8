"""Kernel machines as risk + regularizer: known answers, bounds, memory, and kernels that are none."""

import numpy as np
import pytest
from scipy import sparse

import cutplane as cut
from cutplane import losses
from cutplane.exceptions import InvalidInputError
from cutplane.kernels import (
    ChiSquare,
    Cosine,
    Gaussian,
    KernelRisk,
    Laplacian,
    Linear,
    Polynomial,
    Precomputed,
)

RNG = np.random.default_rng(0)
X = np.abs(RNG.standard_normal((24, 3)))
LABELS = np.sign(X[:, 0] - X[:, 1] + 0.5 * RNG.standard_normal(24))
NUMBERS = X[:, 0] * X[:, 1] + 0.3 * RNG.standard_normal(24)
KERNELS = [
    Linear(),
    Polynomial(2),
    Gaussian(0.8),
    Laplacian(1.5),
    Cosine(),
    ChiSquare(0.7),
    lambda A, B: np.exp(-0.3 * ((A[:, None] - B) ** 2).sum(axis=2)),
]


def targets(loss):
    return LABELS if loss.variable == "margin" else NUMBERS


def solved(risk, lam=0.05, **options):
    return cut.Problem(risk, risk.squared_norm(lam)).solve(**{"tol": 1e-7} | options)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: getattr(kernel, "name", "function"))
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_and_products_are_those_of_the_dense_matrix(kernel, dtype):
    """In blocks, single, of parts, of the same row twice; float32 as far as its digits go."""
    A = np.vstack([X, X[:2]])
    gram = KernelRisk(A, np.r_[LABELS, LABELS[:2]], losses.Hinge(), kernel).gram
    known = gram.kernel(A)
    rows = np.array([3, 25, 1, 3])
    found = gram.rows(rows, np.empty((4, 26), dtype))
    np.testing.assert_allclose(found, known[rows], rtol=1e-12 if dtype == np.float64 else 2e-6)
    a = RNG.standard_normal(26) * (RNG.random(26) < 0.5)
    np.testing.assert_allclose(gram.product(a), known @ a, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(gram.product(-3.0 * a), -3.0 * known @ a, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(known @ gram.preimage(known @ a), known @ a, rtol=1e-6, atol=1e-9)
    part = np.ix_(rows[:3], rows[:3])
    np.testing.assert_allclose(gram.restricted(rows[:3]).matrix(), known[part], rtol=1e-12)
    np.testing.assert_allclose(gram.block(rows, rows[:2]), known[np.ix_(rows, rows[:2])], rtol=1e-12)


@pytest.mark.parametrize(
    ("kernel", "others"),
    [
        (Gaussian(0.8), [Gaussian(0.3), Gaussian(5.0), Laplacian(1.0), Gaussian(0.3, features=0)]),
        (Laplacian(1.5), [Laplacian(0.2)]),
        (ChiSquare(0.7), [ChiSquare(3.0)]),
        (Polynomial(2), [Polynomial(5, 0.5, 2.0)]),
        (Cosine(), [Linear()]),
    ],
    ids=lambda one: getattr(one, "name", ""),
)
def test_another_width_shares_the_distances_if_they_fit(kernel, others, monkeypatch):
    asked, known = [], [(other, other(X)) for other in (*others, kernel)]
    measure = type(kernel).measure
    monkeypatch.setattr(
        type(kernel), "measure", lambda self, A, B: asked.append(A.shape[0]) or measure(self, A, B)
    )
    for cache_bytes in (16 * 24**2, 16 * 24**2 - 1):
        asked.clear()
        risk = KernelRisk(X, LABELS, losses.Hinge(), kernel, cache_bytes=cache_bytes)
        for other, K in known:
            found = risk.with_kernel(other)
            np.testing.assert_allclose(found.gram.product(LABELS), K @ LABELS, atol=1e-12)
            part = found.restricted(np.arange(5, 20)).gram.matrix()
            np.testing.assert_allclose(part, K[5:20, 5:20], rtol=1e-12, atol=1e-14)
            if cache_bytes == 16 * 24**2:
                np.testing.assert_allclose(found.gram.matrix(), K, rtol=1e-12, atol=1e-14)
        if cache_bytes == 16 * 24**2 and measure(kernel, X, X) is not None:
            assert sum(asked) == 25  # each row once, and a look


@pytest.mark.parametrize(
    "kernel", [Linear(), Polynomial(3), Gaussian(1.0), Cosine()], ids=lambda one: one.name
)
def test_sparse_data_give_the_same_machine(kernel):
    A = np.where(X > 0.5, X, 0.0)
    dense, csr, single = (
        solved(KernelRisk(data, LABELS, losses.Hinge(), kernel))
        for data in (A, sparse.csc_array(A), A.astype(np.float32))
    )
    assert csr.objective == pytest.approx(dense.objective, rel=2e-7)
    assert single.objective == pytest.approx(dense.objective, rel=1e-5)
    Z = RNG.random((5, 3))
    one, other = (result.certificate.problem.risk.function(result.x) for result in (dense, csr))
    np.testing.assert_allclose(
        one.decision_function(Z), other.decision_function(sparse.csr_array(Z)), atol=2e-3
    )


def test_a_part_copies_the_rows_that_are_computed(monkeypatch):
    risk = KernelRisk(X, LABELS, losses.Hinge(), Gaussian(1.0))
    K = risk.gram.matrix()
    for name in ("measure", "products", "evaluate"):
        monkeypatch.setattr(Gaussian, name, None)
    np.testing.assert_array_equal(risk.restricted(np.arange(3, 9)).gram.matrix(), K[3:9, 3:9])


def large(m=400):
    rng = np.random.default_rng(1)
    A = rng.standard_normal((m, 5))
    return A, np.sign(A[:, 0] * A[:, 1] + 0.3 * rng.standard_normal(m))


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("rows", [3, 40, 330])
def test_a_small_cache_is_kept_and_changes_no_answer(rows, intercept):
    """Below the whole matrix in float64 rows are float32; the gap is certified all the same."""
    A, y = large()
    given = KernelRisk(Gaussian(1.0)(A), y, losses.Hinge(), "precomputed", intercept)
    whole = solved(given, 1e-3, tol=1e-8)
    risk = KernelRisk(A, y, losses.Hinge(), Gaussian(1.0), intercept, cache_bytes=4 * rows * y.size)
    result = solved(risk, 1e-3, tol=1e-8)
    assert risk.gram.dtype == np.float32
    assert risk.gram.cache.slots.nbytes <= risk.cache_bytes
    assert result.status == "OPTIMAL" and result.certificate.verify().valid
    assert result.objective == pytest.approx(whole.objective, rel=2e-8)


def test_a_path_over_lam_seeded_by_coefficients_is_that_of_cold_solves():
    A, y = large(150)
    risk, x = KernelRisk(A, y, losses.Hinge(), Gaussian(1.5)), None
    steps = {True: 0, False: 0}
    for lam in np.logspace(0, -4, 6):
        problem = cut.Problem(risk, risk.squared_norm(lam))
        seeded, cold = (problem.solve(tol=1e-8, x0=start) for start in (x, None))
        warm = problem.solve(tol=1e-8, warm_start=seeded)
        assert seeded.objective == pytest.approx(cold.objective, rel=2e-8)
        assert warm.status == "OPTIMAL" and warm.n_iter <= cold.n_iter
        x = seeded.x
        steps[True] += seeded.n_iter
        steps[False] += cold.n_iter
    assert steps[True] <= steps[False]


@pytest.mark.parametrize("loss", [losses.Hinge(), losses.SquaredHinge(), losses.EpsilonInsensitive(0.1)])
def test_weights_are_repetitions(loss):
    y, counts = targets(loss), RNG.integers(0, 3, 24)
    counts[:2] = 1
    weighted = KernelRisk(X, y, loss, Gaussian(1.0), sample_weight=counts)
    repeated = KernelRisk(np.repeat(X, counts, axis=0), np.repeat(y, counts), loss, Gaussian(1.0))
    assert solved(weighted).objective == pytest.approx(solved(repeated).objective, rel=1e-6)
    assert not solved(weighted).x[:24][counts == 0].any()


def test_the_function_keeps_the_support_alone_and_is_the_full_sum():
    risk = KernelRisk(X, LABELS, losses.Hinge(), Gaussian(1.0))
    result = solved(risk)
    function = risk.function(result.x)
    Z = RNG.random((7, 3))
    full = Gaussian(1.0)(Z, X) @ result.x[:24] + result.x[24]
    np.testing.assert_allclose(function.decision_function(Z), full, rtol=1e-12, atol=1e-12)
    assert len(function.examples) == np.count_nonzero(result.x[:24]) < 24


def test_far_from_the_origin_no_digits_cancel():
    near = solved(KernelRisk(X, LABELS, losses.Hinge(), Gaussian(0.5)))
    far = solved(KernelRisk(X + 1e5, LABELS, losses.Hinge(), Gaussian(0.5)))
    assert far.objective == pytest.approx(near.objective, rel=1e-6)
    assert Gaussian(1e-4).products(X, X) is None


def asymmetric(A, B):
    return np.exp(-np.abs(A[:, None, 0] - B[None, :, 0]) * (A[:, None, 0] > B[None, :, 0]))


def test_what_is_no_kernel_is_named():
    with pytest.raises(InvalidInputError, match="'asymmetric' must be finite and symmetric"):
        KernelRisk(X, LABELS, losses.Hinge(), asymmetric)
    with pytest.raises(InvalidInputError, match="not positive semidefinite"):
        KernelRisk(X, LABELS, losses.Hinge(), lambda A, B: np.tanh(A @ B.T - 3.0))
    with pytest.raises(InvalidInputError, match="'precomputed' is not positive semidefinite"):
        KernelRisk(np.array([[1.0, 2.0], [2.0, 1.0]]), [1.0, -1.0], losses.Hinge(), "precomputed")
    with pytest.raises(InvalidInputError, match="must return a matrix of shape"):
        KernelRisk(X, LABELS, losses.Hinge(), lambda A, B: np.ones(3))
    with pytest.raises(InvalidInputError, match="without negative entries, but row 4"):
        KernelRisk(-X, LABELS, losses.Hinge(), ChiSquare())
    with pytest.raises(InvalidInputError, match="did you mean Gaussian"):
        KernelRisk(X, LABELS, losses.Hinge(), Gaussian)
    with pytest.raises(InvalidInputError, match="must be square"):
        KernelRisk(X, LABELS, losses.Hinge(), Precomputed())


def test_other_methods_solve_it_too():
    """A small one, whose norm has a conjugate everywhere."""
    risk = KernelRisk(X, LABELS, losses.Hinge(), Gaussian(1.0), intercept=False)
    known = solved(risk, 0.1).objective
    assert solved(risk, 0.1, method="direct", tol=1e-5).objective == pytest.approx(known, rel=1e-4)


def test_a_slope_outside_the_range_of_a_singular_matrix_gives_no_bound():
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((30, 3)), 2, axis=0)  # each row twice
    gram = cut.kernels.KernelRisk(X, np.tile([1.0, -1.0], 30), losses.Hinge(), cut.kernels.Gaussian(1.0)).gram
    v = gram.matrix() @ rng.standard_normal(60)
    aside = np.tile([1.0, -1.0], 30) / np.sqrt(60.0)
    p = gram.preimage(v)
    assert p is not None and np.abs(gram.matrix() @ p - v).max() < 1e-9 * np.abs(v).max()
    assert gram.preimage(v + 1e-10 * np.linalg.norm(v) * aside) is None

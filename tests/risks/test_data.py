import copy
import pickle
import subprocess
import sys
import threading
import tracemalloc

import numpy as np
import pytest
from covering import covering
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view
from scipy import sparse

from cutplane.exceptions import InvalidInputError
from cutplane.risks import data as data_module
from cutplane.risks import matrix
from cutplane.risks.data import make_data
from cutplane.risks.matrix import as_matrix, contiguous
from cutplane.runtime import chunks
from cutplane.runtime import threads as threads_module
from cutplane.runtime.threads import get_threads, set_threads


def with_indices(A, indices, indptr=None):
    A.indices, A.indptr = A.indices.astype(indices), A.indptr.astype(indptr or indices)
    return A


def untidy(A):
    """The same matrix with every entry stored as two halves, in an order of chance, and unused memory."""
    rng = np.random.default_rng(5)
    lengths = 2 * np.diff(A.indptr)
    order = np.concatenate(
        [2 * start + rng.permutation(size) for start, size in zip(A.indptr[:-1], lengths, strict=True)]
    )
    A.data = np.append(np.repeat(A.data / 2, 2)[order], [np.nan] * 3).astype(A.dtype)
    A.indices = np.append(np.repeat(A.indices, 2)[order], [10**9] * 3).astype(np.int32)
    A.indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return A


def strided_arrays(A):
    A.data, A.indices, A.indptr = (np.repeat(array, 2)[::2] for array in (A.data, A.indices, A.indptr))
    return A


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


def unaligned(X):
    memory = np.empty(X.nbytes + 1, np.uint8)
    Y = memory[1:].view(X.dtype).reshape(X.shape)
    Y[:] = X
    assert not Y.flags.aligned
    return Y


def between_others(X):
    """A view of X, between rows and columns that are not finite, and are not X."""
    m, n = X.shape
    Y = np.full((3 * m + 1, 2 * n + 3), np.nan, X.dtype)
    Y[1::3, 2 : n + 2] = X
    return Y[1::3, 2 : n + 2]


DENSE = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "between others": between_others,
    "between others, F": lambda X: between_others(X.T).T,
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "strided, F": lambda X: np.repeat(X, 2, axis=0)[::2].T.copy().T[:, ::1],
    "strided twice": lambda X: np.repeat(np.repeat(X, 3, axis=0), 2, axis=1)[::3, ::2],
    "rows reversed": lambda X: X[::-1].copy()[::-1],
    "columns reversed": lambda X: X[:, ::-1].copy()[:, ::-1],
    "reversed, F": lambda X: X[:, ::-1].copy(order="F")[:, ::-1],
    "read-only": read_only,
    "unaligned": unaligned,
}
CSR = {
    "csr": sparse.csr_array,
    "csr_matrix": sparse.csr_matrix,
    "csr, 64 bit": lambda X: with_indices(sparse.csr_array(X), np.int64),
    "csr, 32 and 64 bit": lambda X: with_indices(sparse.csr_array(X), np.int32, np.int64),
    "csr, untidy": lambda X: untidy(sparse.csr_array(X)),
    "csr, strided": lambda X: strided_arrays(sparse.csr_array(X)),
}
CSC = {
    "csc": sparse.csc_array,
    "csc, 64 bit": lambda X: with_indices(sparse.csc_array(X), np.int64),
    "csc, untidy": lambda X: untidy(sparse.csc_array(X)),
}
LAYOUTS = DENSE | CSR | CSC
RARE = "csr, 64 bit", "csr, 32 and 64 bit", "csr, strided", "csc, 64 bit"
"""Layouts that are compiled for one type of numbers only."""
SPLITTINGS = "one chunk", "many chunks"
SHAPES = [(1, 1), (1, 7), (7, 1), (2, 2), (23, 5), (5, 23), (41, 30)]


def entries(shape, dtype, seed=0):
    """Numbers, a third of them zero, with empty and repeated rows and columns where there is room."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal(shape) * (rng.random(shape) < 0.67)
    X[shape[0] // 2, 1:] = 0.0
    if shape[0] > 3:
        X[shape[0] // 2] = 0.0
        X[-1] = X[0]
    if shape[1] > 3:
        X[:, shape[1] // 2] = 0.0
        X[:, -1] = X[:, 0]
    return X.astype(dtype)


def block_edges(m, count):
    return np.arange(count + 1) * m // count


@pytest.fixture(params=SPLITTINGS)
def splitting(request, monkeypatch):
    """Passes in one chunk, and chunks so small that every way to split a pass is taken."""
    if request.param == "many chunks":
        split_finely(monkeypatch)


def split_finely(monkeypatch):
    for module, name, size in [
        (chunks, "CHUNK", 3),
        (chunks, "PANEL", 4),
        (matrix, "TILE", 12),
        (matrix, "RUN", 3),
    ]:
        monkeypatch.setattr(module, name, size)


@pytest.fixture
def threads():
    before = get_threads()
    yield set_threads
    set_threads(before)


def assert_equal_sums(actual, exact, sizes, terms):
    """Sums of float64 products, in any order, are as exact as this; `sizes` is the sum of the absolutes."""
    assert actual.dtype == np.float64 and actual.shape == exact.shape
    assert (np.abs(actual - exact) <= (terms + 2) * 2.0**-52 * sizes).all()


@pytest.mark.parametrize(
    ("layout", "shape", "dtype", "splitting"),
    covering([name for name in LAYOUTS if name not in RARE], SHAPES, [np.float32, np.float64], SPLITTINGS)
    + covering(RARE, SHAPES, [np.float64], SPLITTINGS),
    indirect=["splitting"],
)
def test_passes_are_exact_to_rounding_in_float64(layout, shape, dtype, splitting):
    m, n = shape
    plain = entries(shape, dtype)
    exact = plain.astype(np.longdouble)
    given_X = LAYOUTS[layout](plain)
    X = as_matrix(given_X)
    assert (X is given_X or np.shares_memory(X.data, given_X.data)) and X.dtype == dtype
    rng = np.random.default_rng(1)
    v, u = rng.standard_normal(n), rng.standard_normal(m) * (rng.random(m) < 0.7)
    for count in sorted({1, 2, m // 2 + 1, m} - {m + 1}):
        data = make_data(X, block_edges(m, min(count, m)))
        assert_equal_sums(data.times(v), exact @ v, abs(exact) @ abs(v), 2 * n)
        assert_equal_sums(data.transposed_times(u), exact.T @ u, abs(exact).T @ abs(u), 2 * m)
        parts = [slice(*edge) for edge in zip(data.edges[:-1], data.edges[1:], strict=True)]
        sums = np.stack([exact[part].T @ u[part] for part in parts])
        assert_equal_sums(
            data.block_sums(u), sums, np.stack([abs(exact[part]).T @ abs(u[part]) for part in parts]), 2 * m
        )
    assert_equal_sums(data.squared_norms(), (exact**2).sum(axis=1), (exact**2).sum(axis=1), 2 * n)
    for k in (0, 1, 3, 2 * m):
        rows, coefficients = rng.integers(0, m, k), rng.standard_normal(k)
        out = before = rng.standard_normal(n)
        expected = before.astype(np.longdouble) + exact[rows].T @ coefficients
        sizes = abs(before) + abs(exact[rows]).T @ abs(coefficients)
        data.add_rows(rows, coefficients, out)
        assert_equal_sums(out, expected, sizes, 4 * m + 2)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_zero_matrix(layout, splitting):
    X = as_matrix(LAYOUTS[layout](np.zeros((9, 6))))
    data = make_data(X, block_edges(9, 3))
    for answer in (data.times(np.ones(6)), data.transposed_times(np.ones(9)), data.block_sums(np.ones(9))):
        assert not answer.any()
    assert not data.squared_norms().any()


@pytest.mark.parametrize(
    ("layout", "dtype"),
    [
        (name, np.float64 if name in RARE else (np.float64, np.float32)[k % 2])
        for k, name in enumerate(LAYOUTS)
    ]
    + [pytest.param(name, np.float32, marks=pytest.mark.slow) for name in RARE],  # compiled for each
)
def test_results_do_not_depend_on_the_threads(layout, dtype, threads, monkeypatch):
    split_finely(monkeypatch)
    X = as_matrix(LAYOUTS[layout](entries((60, 37), dtype)))
    rng = np.random.default_rng(2)
    v, u, rows = rng.standard_normal(37), rng.standard_normal(60), rng.integers(0, 60, 50)
    answers = []
    for n_threads in (1, 2, 3, 2):
        threads(n_threads)
        data, out = make_data(X, block_edges(60, 4)), np.zeros(37)
        data.add_rows(rows, u[rows], out)
        answers.append(
            (data.times(v), data.transposed_times(u), data.block_sums(u), data.squared_norms(), out)
        )
    for other in answers[1:]:
        for one, two in zip(answers[0], other, strict=True):
            np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("shape", [(200_000, 3), (3, 200_000), (2000, 500)], ids=str)
@pytest.mark.parametrize("order", ["C", "F", "strided", "csr", "csc"])
def test_passes_over_large_data_are_split(order, shape, monkeypatch):
    counts = []

    def run_chunks(function, pieces):
        pieces = list(pieces)
        counts.append(len(pieces))
        return threads_module.run_chunks(function, pieces)

    monkeypatch.setattr(data_module, "run_chunks", run_chunks)
    rng = np.random.default_rng(0)
    X = rng.standard_normal(shape).astype(np.float32)
    exact = X.astype(np.float64)
    data = make_data(as_matrix(LAYOUTS[order](X)), block_edges(shape[0], 3))
    v, u = rng.standard_normal(shape[1]), rng.standard_normal(shape[0])
    for actual, expected in [
        (data.times(v), exact @ v),
        (data.transposed_times(u), exact.T @ u),
        (data.block_sums(u), np.add.reduceat(exact * u[:, np.newaxis], data.edges[:-1])),
        (data.squared_norms(), (exact**2).sum(axis=1)),
    ]:
        np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-10 * np.sqrt(max(shape)))
    # Vectors of sums as long as the rows leave nothing to gain when there are only three rows.
    alone = {((3, 200_000), "csr"): 1, ((200_000, 3), "csc"): 0}.get((shape, order))
    assert all((count > 1) != (k == alone) for k, count in enumerate(counts[:3]))


@settings(max_examples=40, deadline=None)
@given(
    layout=st.sampled_from(sorted(LAYOUTS)),
    dtype=st.sampled_from([np.float32, np.float64]),
    m=st.integers(1, 40),
    n=st.integers(1, 40),
    seed=st.integers(0, 10**6),
    scale=st.sampled_from([1e-30, 1.0, 1e30]),
)
def test_the_two_passes_are_transposes(layout, dtype, m, n, seed, scale):
    X = entries((m, n), dtype, seed) * dtype(scale)
    rng = np.random.default_rng(seed)
    v, u = rng.standard_normal(n), rng.standard_normal(m)
    with pytest.MonkeyPatch.context() as patch:
        if seed % 2:
            split_finely(patch)
        data = make_data(as_matrix(LAYOUTS[layout](X)), block_edges(m, 1 + seed % m))
        size = np.abs(u) @ np.abs(X) @ np.abs(v)
        assert abs(data.times(v) @ u - v @ data.transposed_times(u)) <= 1e-14 * (m + n) * size
        np.testing.assert_allclose(
            data.block_sums(u).sum(axis=0), data.transposed_times(u), rtol=0, atol=1e-13 * m * scale * 10
        )


def test_overlapping_and_repeated_rows_share_memory():
    series = np.random.default_rng(0).standard_normal(500)
    for X in (sliding_window_view(series, 40), np.broadcast_to(series[:30], (50, 30))):
        data = make_data(as_matrix(X), block_edges(X.shape[0], 2))
        v, u = np.ones(X.shape[1]), np.arange(X.shape[0], dtype=float)
        np.testing.assert_allclose(data.times(v), X @ v, atol=1e-12)
        np.testing.assert_allclose(data.transposed_times(u), X.T @ u, atol=1e-9)
        np.testing.assert_allclose(data.squared_norms(), (X**2).sum(axis=1))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_vectors_of_any_type_and_stride_but_one_length(layout):
    X = LAYOUTS[layout](entries((6, 4), np.float64))
    data = make_data(X, block_edges(6, 2))
    v, u = np.arange(4), np.arange(6)
    np.testing.assert_array_equal(data.times(v), data.times(np.repeat(v, 2).astype(float)[::2]))
    np.testing.assert_array_equal(data.block_sums(u), data.block_sums(u.astype(np.float32)))
    read_only_u = u.astype(float)
    read_only_u.flags.writeable = False
    np.testing.assert_array_equal(data.transposed_times(u), data.transposed_times(read_only_u))
    for call, length in [
        (data.times, 4),
        (data.transposed_times, 6),
        (data.block_sums, 6),
        (lambda c: data.add_rows(np.zeros(3, int), c, np.zeros(4)), 3),
    ]:
        for shape in (length - 1, length + 1, (length, 1), ()):
            with pytest.raises(InvalidInputError, match=rf"A vector of shape \({length},\) was expected"):
                call(np.zeros(shape))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_without_a_coefficient_are_not_read(layout, splitting):
    X = entries((30, 9), np.float64)
    data = make_data(LAYOUTS[layout](X), block_edges(30, 3))
    assert data.cheap_rows == (layout in CSR or not (layout in CSC or layout.endswith("F")))
    if not data.cheap_rows:
        return
    u = np.where(np.arange(30) % 3 == 0, 1.0, 0.0)
    poisoned = X.copy()
    poisoned[(u == 0.0) & X.any(axis=1)] = np.inf
    worse = make_data(LAYOUTS[layout](poisoned), data.edges)
    for answers in ([], []):
        np.testing.assert_allclose(
            worse.transposed_times(u), data.transposed_times(u), rtol=1e-14, atol=1e-14
        )
        np.testing.assert_allclose(worse.block_sums(u), data.block_sums(u), rtol=1e-14, atol=1e-14)
        del answers
    one, two = np.zeros(9), np.zeros(9)
    worse.add_rows(np.arange(0, 30, 3), u[::3], one)
    data.add_rows(np.arange(0, 30, 3), u[::3], two)
    np.testing.assert_allclose(one, two, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_row_entries(layout):
    X = entries((30, 9), np.float64)
    data = make_data(LAYOUTS[layout](X), block_edges(30, 1))
    stored = X.size if layout in DENSE else np.count_nonzero(X) * (2 if "untidy" in layout else 1)
    assert data.row_entries == pytest.approx(stored / 30)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", ["C", "F", "between others", "csr", "csc"])
def test_nothing_of_the_size_of_the_data_is_allocated(layout, dtype):
    X = LAYOUTS[layout](np.random.default_rng(0).standard_normal((3000, 400)).astype(dtype))
    v, u, rows = np.ones(400), np.ones(3000), np.arange(1500)
    data = make_data(X, block_edges(3000, 2))
    data.times(v)
    tracemalloc.start()
    data = make_data(as_matrix(X), block_edges(3000, 2))
    data.times(v), data.transposed_times(u), data.block_sums(u), data.squared_norms()
    data.add_rows(rows, np.ones(1500), np.zeros(400))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3000 * 400 * np.dtype(dtype).itemsize / 2


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, lambda data: pickle.loads(pickle.dumps(data))], ids=["deepcopy", "pickle"]
)
def test_copies_hold_the_data_once(layout, duplicate):
    X = LAYOUTS[layout](entries((200, 40), np.float64))
    data = make_data(X, block_edges(200, 2))
    v, u = np.ones(40), np.ones(200)
    answers = data.times(v), data.block_sums(u)
    assert len(pickle.dumps(data)) < len(pickle.dumps(X)) + 600
    other = duplicate((data, X))
    assert other[0].X is other[1]
    np.testing.assert_allclose(other[0].times(v), answers[0], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(other[0].block_sums(u), answers[1], rtol=1e-12, atol=1e-14)
    stored = X if layout in DENSE else X.data
    copied = other[1] if layout in DENSE else other[1].data
    assert not np.shares_memory(stored, copied)
    for array in vars(other[0]).values():
        for part in array if isinstance(array, tuple) else (array,):
            assert not (isinstance(part, np.ndarray) and np.shares_memory(part, stored))


@pytest.mark.parametrize("layout", ["C", "F", "strided twice", "csr", "csc"])
def test_several_callers_at_once(layout, threads, monkeypatch):
    split_finely(monkeypatch)
    threads(3)
    data = make_data(as_matrix(LAYOUTS[layout](entries((60, 37), np.float32))), block_edges(60, 4))
    rng = np.random.default_rng(3)
    vectors = rng.standard_normal((6, 37)), rng.standard_normal((6, 60))
    expected = [(data.times(v), data.block_sums(u)) for v, u in zip(*vectors, strict=True)]
    wrong = []

    def call(k):
        for _ in range(20):
            if not np.array_equal(data.times(vectors[0][k]), expected[k][0]):
                wrong.append(("times", k))
            if not np.array_equal(data.block_sums(vectors[1][k]), expected[k][1]):
                wrong.append(("block_sums", k))

    callers = [threading.Thread(target=call, args=(k,)) for k in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert wrong == []


@pytest.mark.parametrize(
    ("value", "dtype", "layout", "splitting"),
    covering(
        [np.nan, np.inf, -np.inf],
        [np.float32, np.float64],
        [*DENSE, "csr", "csr_matrix", "csc"],
        ["one chunk", "many chunks"],
    ),
    indirect=["splitting"],
)
def test_every_entry_is_checked(layout, dtype, value, splitting):
    for i, j in [(0, 0), (22, 4), (11, 2), (0, 4), (22, 0)]:
        X = np.ones((23, 5), dtype)
        X[i, j] = value
        name = rf"X\[{i}, {j}\] is" if layout in DENSE else "X.data holds"
        with pytest.raises(InvalidInputError, match=rf"{name} {value}; every entry must be finite"):
            as_matrix(LAYOUTS[layout](X))


def test_large_entries_are_finite():
    for dtype in (np.float32, np.float64):
        X = np.full((50, 50), np.finfo(dtype).max)
        assert as_matrix(X) is X
        A = sparse.csr_array(X)
        assert as_matrix(A) is A


def tampered(**arrays):
    A = sparse.csr_array(np.arange(1.0, 13.0).reshape(4, 3))
    for name, change in arrays.items():
        setattr(A, name, change(getattr(A, name)))
    return A


def set_at(position, value):
    def change(array):
        array = array.copy()
        array[position] = value
        return array

    return change


@pytest.mark.parametrize(
    ("arrays", "complaint"),
    [
        ({"indices": set_at(7, 3)}, r"X.indices\[7\] is 3, which is not below 3"),
        ({"indices": set_at(11, -1)}, r"X.indices\[11\] is -1, which is not below 3"),
        ({"indices": lambda a: set_at(0, 2**40)(a.astype(np.int64))}, r"X.indices\[0\] is 1099511627776"),
        ({"indices": lambda a: a.astype(float)}, "X.indices is not a vector of integers"),
        ({"indices": lambda a: a.astype(a.dtype.newbyteorder())}, "X.indices is not a vector of integers"),
        ({"indices": lambda a: a.reshape(2, -1)}, "X.indices is not a vector of integers"),
        ({"indices": lambda a: a[:-1]}, "X.indptr ends at 12, but there are 11 indices and 12 entries"),
        ({"data": lambda a: a[:-2]}, "X.indptr ends at 12, but there are 12 indices and 10 entries"),
        ({"indptr": set_at(4, 13)}, "X.indptr ends at 13"),
        ({"indptr": set_at(2, 10)}, "X.indptr does not increase from 0 in 4 steps"),
        ({"indptr": set_at(0, 1)}, "X.indptr does not increase from 0"),
        ({"indptr": set_at(0, -3)}, "X.indptr does not increase from 0"),
        ({"indptr": lambda a: a[:-1]}, "X.indptr does not increase from 0"),
        ({"indptr": lambda a: a.astype(np.float32)}, "X.indptr is not a vector of integers"),
    ],
)
def test_a_malformed_sparse_matrix_is_an_error(arrays, complaint, splitting):
    with pytest.raises(InvalidInputError, match=f"X is not in CSR format: {complaint}.*coo_array"):
        as_matrix(tampered(**arrays))


def test_a_malformed_csc_matrix_is_an_error():
    A = sparse.csc_array(np.ones((4, 3)))
    A.indices[5] = 4
    with pytest.raises(InvalidInputError, match=r"X is not in CSC format: X.indices\[5\] is 4, .* below 4"):
        as_matrix(A)
    A.indices[5] = 3
    assert as_matrix(A) is A


@pytest.mark.parametrize(
    "convert",
    [
        lambda X: X.astype(int),
        lambda X: X.astype(np.float16),
        lambda X: X.astype(np.longdouble),
        lambda X: X.astype(">f4"),
        lambda X: X.tolist(),
        lambda X: sparse.csr_array(X.astype(np.int8)),
        lambda X: sparse.lil_array(X),
        lambda X: sparse.bsr_array(X),
    ],
)
def test_other_types_and_formats_are_converted_once(convert):
    X = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 4.0]])
    A = as_matrix(convert(X))
    assert A.dtype == np.float64 and as_matrix(A) is A
    np.testing.assert_array_equal(
        make_data(A, np.array([0, 3])).times(np.array([1.0, 2.0])), [1.0, 4.0, 11.0]
    )


def test_numba_is_not_imported_before_the_first_pass():
    code = (
        "import sys, numpy as np\n"
        "from cutplane.risks.data import make_data\n"
        "from cutplane.risks.matrix import as_matrix\n"
        "make_data(as_matrix(np.ones((3, 2))), np.array([0, 3])); assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_chunks_cover_and_balance():
    rng = np.random.default_rng(0)
    for _ in range(50):
        size, count = rng.integers(1, 200), int(rng.integers(1, 40))
        cumulative = np.append(0, np.cumsum(rng.integers(0, 20, size))) * 1000
        ranges = chunks.balanced_ranges(cumulative, count)
        assert [i for low, high in ranges for i in range(low, high)] == list(range(size))
        assert len(ranges) <= count
        costs = [cumulative[high] - cumulative[low] for low, high in ranges]
        assert max(costs) <= cumulative[-1] / count + 20_000
        ranges = chunks.equal_ranges(int(size), 1e9, count)
        assert [i for low, high in ranges for i in range(low, high)] == list(range(size))
        assert len(ranges) <= count
        blocks = np.unique(np.append([0, size], rng.integers(0, size, 5)))
        parts = chunks.segments(blocks, cumulative, width=int(rng.integers(1, 10_000)))
        assert set(blocks) <= set(parts.edges) and (np.diff(parts.edges) > 0).all()
        assert [s for low, high in parts.groups for s in range(low, high)] == list(range(len(parts)))
        sums = np.add.reduceat(np.arange(size), parts.edges[:-1])[:, np.newaxis]
        np.testing.assert_array_equal(
            parts.add_up(sums, 1)[:, 0], np.add.reduceat(np.arange(size), blocks[:-1])
        )


@pytest.mark.parametrize("cost", [0, 1, 1e4, 1e5, 2e5, 1e6, 1e7, 1e12])
def test_few_chunks_each_worth_a_thread(cost):
    count = chunks.count_chunks(cost)
    assert 1 <= count <= chunks.MOST and (count == 1 or cost / count >= chunks.CHUNK)
    assert count > cost / chunks.CHUNK / 2 or count == chunks.MOST


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_array])
@pytest.mark.parametrize("parts", [("indices",), ("indptr",), ("indices", "indptr")])
def test_indices_of_64_bits_are_narrowed_and_entries_shared(kind, parts):
    A = kind(entries((9, 5), np.float64))
    for part in parts:
        setattr(A, part, getattr(A, part).astype(np.int64))
    X = as_matrix(A)
    assert X.indices.dtype == X.indptr.dtype == np.int32 and X.data is A.data and X.format == A.format
    np.testing.assert_array_equal(X.toarray(), A.toarray())
    assert as_matrix(X) is X


def test_only_views_with_gaps_are_copied():
    X = entries((9, 6), np.float64)
    for whole in (X, np.asfortranarray(X), X[2:], sparse.csr_array(X)):
        assert contiguous(whole) is whole
    for view in (X[:, ::2], X[::2, 1:], X[:, :5]):
        copy = contiguous(view)
        assert copy.flags.c_contiguous and np.array_equal(copy, view)

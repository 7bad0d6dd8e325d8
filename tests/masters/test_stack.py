"""Rows of a set above those of a pool, and products that read only the columns they need."""

import numpy as np
import pytest

from cutplane.masters.qp.dual_qp import combined
from cutplane.masters.qp.gram import Gram
from cutplane.masters.qp.stack import Stack
from cutplane.masters.rows import products, sizes_at

pytestmark = pytest.mark.every
RNG = np.random.default_rng(0)
WHOLE = RNG.standard_normal((7, 9000))
KEYS = [
    *(slice(begin, end) for begin in (None, 0, 1, 2, 5) for end in (None, 1, 2, 4, 7)),
    [6, 0, 2],
    np.array([1]),
    3,
    0,
    (slice(None), [8, 0]),
    (slice(1, 3), slice(2, 5)),
    ([0, 5], slice(2, 5)),
]


@pytest.mark.parametrize("split", [0, 2, 7])
@pytest.mark.parametrize("key", KEYS, ids=str)
def test_a_stack_is_indexed_as_the_whole_is(split, key):
    part = Stack(WHOLE[:split], WHOLE[split:])[key]
    if isinstance(part, Stack):
        part = np.concatenate([part.above, part.below])
    assert np.array_equal(part, WHOLE[key])


def test_a_stack_shares_the_memory_of_both():
    stack = Stack(WHOLE[:2], WHOLE[2:])
    assert stack.shape == WHOLE.shape
    assert np.shares_memory(stack[1:].below, WHOLE)
    assert np.shares_memory(stack[3:], WHOLE)


@pytest.mark.parametrize("count", [0, 1, 1125, 1126, 9000])
@pytest.mark.parametrize("stacked", [False, True])
def test_products_with_sparse_vectors_are_those_with_dense_ones(count, stacked):
    rows = Stack(WHOLE[:2], WHOLE[2:]) if stacked else WHOLE
    x = np.zeros(9000)
    x[RNG.choice(9000, count, replace=False)] = RNG.standard_normal(count)
    np.testing.assert_allclose(products(rows, x), WHOLE @ x, atol=1e-10)
    np.testing.assert_allclose(sizes_at(rows, x), np.abs(WHOLE) @ np.abs(x), rtol=1e-12)
    weights = np.where(RNG.random(7) < 0.5, RNG.random(7), 0.0)
    np.testing.assert_allclose(combined(weights, rows), weights @ WHOLE, atol=1e-12)


@pytest.mark.parametrize("known", [0, 3, 6])
@pytest.mark.parametrize("metric", [None, np.where(np.arange(9000) % 3, 2.0, 0.0), np.eye(1, 9000)[0]])
def test_a_gram_matrix_is_summed_over_parts_of_the_columns(known, metric):
    rows, gram = Stack(WHOLE[:2], WHOLE[2:]), Gram(metric)
    if known:
        gram.extend(rows[:known], 0)
    gram.extend(rows, known)
    weighed = WHOLE if metric is None else WHOLE * metric
    np.testing.assert_allclose(gram.matrix[:7, :7], weighed @ WHOLE.T, atol=1e-9)
    other = np.where(np.arange(9000) < 5000, 1.0, 3.0)
    gram.change(other, rows)
    np.testing.assert_allclose(gram.matrix[:7, :7], (WHOLE * other) @ WHOLE.T, atol=1e-9)

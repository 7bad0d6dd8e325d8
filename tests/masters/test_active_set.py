"""The Gram matrix and the factor that the dual simplex QP master keeps between solves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutplane.masters.qp import active_set
from cutplane.masters.qp.dual_qp import Gram, combined
from cutplane.masters.rows import products, sizes_at


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), dim=st.integers(1, 40))
def test_the_gram_matrix_follows_its_rows_and_its_metric(seed, dim):
    rng = np.random.default_rng(seed)
    slopes = rng.standard_normal((0, dim))
    gram = Gram(rng.random(dim))
    for _ in range(30):
        action = rng.integers(3)
        if action == 0 or not len(slopes):
            new = rng.standard_normal((rng.integers(1, 4), dim))
            new[:, 0] *= 1e6
            slopes = np.vstack([slopes, new])
            gram.extend(slopes, len(slopes) - len(new))
        elif action == 1:
            metric = gram.metric.copy()
            changed = rng.random(dim) < rng.choice([0.1, 0.5])
            metric[changed] = rng.random(changed.sum())
            metric[0] = rng.integers(2)
            gram.change(metric, slopes)
        else:
            kept = np.flatnonzero(rng.random(len(slopes)) < 0.8)
            slopes = slopes[kept]
            gram.keep(kept)
        exact = (slopes * gram.metric) @ slopes.T
        lengths = np.sqrt(exact.diagonal())
        error = np.abs(gram.matrix[: len(slopes), : len(slopes)] - exact)
        assert (error <= 1e-8 * np.outer(lengths, lengths)).all()


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n_groups=st.integers(0, 3))
def test_the_factor_follows_its_free_variables(seed, n_groups):
    rng = np.random.default_rng(seed)
    count = 12
    slopes = rng.standard_normal((count, 20))
    hessian = slopes @ slopes.T
    group = rng.integers(-1, n_groups, count)
    factor, sums = np.zeros((count, count)), np.zeros((count, n_groups))
    free, where = np.zeros(count, np.int64), np.full(count, -1)
    n_free = 0
    for _ in range(40):
        outside = np.flatnonzero(where < 0)
        if n_free == 0 or (outside.size and rng.random() < 0.6):
            j = int(rng.choice(outside))
            n_free = active_set.append(hessian, group, 2.0, factor, sums, free, where, n_free, j)
        else:
            n_free = active_set.delete(factor, sums, free, where, n_free, int(rng.integers(n_free)))
        chosen = free[:n_free]
        np.testing.assert_array_equal(where[chosen], np.arange(n_free))
        assert (where >= 0).sum() == n_free
        indicator = (group[chosen][:, None] == np.arange(n_groups)).astype(float)
        triangle = np.triu(factor[:n_free, :n_free])
        expected = hessian[np.ix_(chosen, chosen)] + 2.0 * indicator @ indicator.T
        np.testing.assert_allclose(triangle.T @ triangle, expected, atol=1e-9)
        np.testing.assert_allclose(triangle.T @ sums[:n_free], indicator, atol=1e-9)
        if n_free and all((group[chosen] == k).any() for k in range(n_groups)):
            gradient = rng.standard_normal(n_free)
            step = gradient.copy()
            active_set.newton(factor, sums, n_free, step)
            kkt = np.block(
                [[hessian[np.ix_(chosen, chosen)], indicator], [indicator.T, np.zeros((n_groups, n_groups))]]
            )
            exact = np.linalg.solve(kkt, np.r_[gradient, np.zeros(n_groups)])[:n_free]
            np.testing.assert_allclose(step, exact, atol=1e-6 * (1 + np.abs(exact).max()))


WIDE = np.random.default_rng(0).standard_normal((7, 9000))


@pytest.mark.parametrize("count", [0, 1, 1125, 1126, 9000])
def test_products_with_sparse_vectors_are_those_with_dense_ones(count):
    rng = np.random.default_rng(1)
    x = np.zeros(9000)
    x[rng.choice(9000, count, replace=False)] = rng.standard_normal(count)
    np.testing.assert_allclose(products(WIDE, x), WIDE @ x, atol=1e-10)
    np.testing.assert_allclose(sizes_at(WIDE, x), np.abs(WIDE) @ np.abs(x), rtol=1e-12)
    weights = np.where(rng.random(7) < 0.5, rng.random(7), 0.0)
    np.testing.assert_allclose(combined(weights, WIDE, np.flatnonzero(weights)), weights @ WIDE, atol=1e-12)


@pytest.mark.parametrize("known", [0, 3, 6])
@pytest.mark.parametrize("metric", [None, np.where(np.arange(9000) % 3, 2.0, 0.0), np.eye(1, 9000)[0]])
def test_a_gram_matrix_is_summed_over_parts_of_the_columns(known, metric):
    gram = Gram(metric)
    if known:
        gram.extend(WIDE[:known], 0)
    gram.extend(WIDE, known)
    weighed = WIDE if metric is None else WIDE * metric
    np.testing.assert_allclose(gram.matrix[:7, :7], weighed @ WIDE.T, atol=1e-9)
    other = np.where(np.arange(9000) < 5000, 1.0, 3.0)
    gram.change(other, WIDE)
    np.testing.assert_allclose(gram.matrix[:7, :7], (WIDE * other) @ WIDE.T, atol=1e-9)

"""The multipliers of the best lower bound, while their rows are dropped and combined."""

import numpy as np
import pytest
from scipy import sparse

from cutplane.engine.bundle import AGGREGATE, TRIVIAL, Bundle, Proof

pytestmark = pytest.mark.every


def bundle_of(count, max_cuts=None, kind=np.array):
    bundle = Bundle(2, 1, max_cuts)
    for k in range(count):
        slope = kind([[float(k), 1.0]])
        bundle.add(k, np.full(2, float(k)), slope, np.array([10.0 * k]), [0])
        bundle.duals[k] = np.full(1, float(k))
    return bundle


def listed(rows):
    slopes = rows.slopes.toarray() if sparse.issparse(rows.slopes) else rows.slopes
    return [slopes[:, 0].tolist(), *(column.tolist() for column in rows[1:])]


@pytest.mark.parametrize("kind", [np.array, sparse.csr_array])
def test_rows_come_in_the_order_of_the_bundle_with_their_multipliers(kind):
    proof, bundle = Proof(np.array([0, 1, 2]), np.array([0.25, 0.0, 0.75])), bundle_of(4, kind=kind)
    assert bundle.bases(proof) == {0: 0.25, 2: 0.75}
    rows, (points, _, _) = bundle.evidence(proof)
    queries, weights = [0, 1, 2, 3], [0.25, 0.0, 0.75, 0.0]
    assert listed(rows) == [[0.0, 1.0, 2.0, 3.0], [0.0, 10.0, 20.0, 30.0], [0] * 4, queries, weights]
    assert rows.blocks.dtype == rows.queries.dtype == np.int64
    assert set(points) == {0, 1, 2, 3}


@pytest.mark.parametrize("kind", [np.array, sparse.csr_array])
def test_a_proof_that_is_kept_survives_its_rows(kind):
    proof, bundle = Proof(np.array([0, 2]), np.array([0.25, 0.75])), bundle_of(4, kind=kind)
    proof = bundle.pinned(proof)
    bundle.drop(np.array([True, True, True, False]))
    proof = bundle.pinned(proof)
    assert bundle.bases(proof) == {0: 0.25, 2: 0.75}
    rows, (points, duals, _) = bundle.evidence(proof)
    assert listed(rows) == [[3.0, 0.0, 2.0], [30.0, 0.0, 20.0], [0] * 3, [3, 0, 2], [0.0, 0.25, 0.75]]
    assert {query: x[0] for query, x in points.items()} == {0: 0.0, 2: 2.0, 3: 3.0}
    assert {query: dual[0] for query, dual in duals.items()} == {0: 0.0, 2: 2.0, 3: 3.0}


@pytest.mark.parametrize("kind", [np.array, sparse.csr_array])
def test_aggregates_are_replaced_by_the_rows_they_were_made_of(kind):
    bundle = bundle_of(4, max_cuts=4, kind=kind)
    bundle.weigh(np.array([0.125, 0.25, 0.5, 0.125]))
    bundle.make_room(1)
    assert bundle.queries.tolist() == [1, 2, AGGREGATE]
    proof = Proof(bundle.ids.copy(), np.array([0.5, 0.0, 0.5]))
    assert bundle.bases(proof) == {0: 0.0625, 1: 0.625, 2: 0.25, 3: 0.0625}
    rows, (points, duals, _) = bundle.evidence(proof)
    order = np.argsort(rows.queries)
    assert rows.queries[order].tolist() == [0, 1, 2, 3]
    assert rows.multipliers[order].tolist() == [0.0625, 0.625, 0.25, 0.0625]
    assert rows.offsets[order].tolist() == [0.0, 10.0, 20.0, 30.0]
    assert listed(rows)[0] == rows.queries.tolist()
    assert set(points) == set(duals) == {0, 1, 2, 3}
    assert rows.multipliers @ rows.offsets == pytest.approx(0.5 * 10.0 + 0.5 * bundle.offsets[-1])


def test_known_infima_need_no_row_of_the_bundle():
    bundle = bundle_of(1)
    proof = bundle.infima(np.array([7.0]))
    bundle.drop(np.zeros(1, dtype=bool))
    rows, (points, _, _) = bundle.evidence(proof)
    assert listed(rows) == [[0.0, 0.0], [0.0, 7.0], [0, 0], [0, TRIVIAL], [0.0, 1.0]]
    assert set(points) == {0}

"""The rows of a bundle: what is added, found, weighed, dropped and aggregated, with exact numbers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from cutplane.engine.bundle import AGGREGATE, TRIVIAL, Bundle, Points, Proof, Retired
from cutplane.masters.base import HALF_SPACE
from cutplane.proof.evidence import memory_of


def bundle_of(offsets, blocks=None, n_blocks=1, max_cuts=None):
    """Row k has slope (k, 1), comes from query k and the point (k, k)."""
    bundle = Bundle(2, n_blocks, max_cuts)
    for k, offset in enumerate(offsets):
        block = 0 if blocks is None else blocks[k]
        bundle.add(k, np.full(2, float(k)), np.array([[float(k), 1.0]]), np.array([float(offset)]), [block])
    return bundle


def added(bundle, *batch):
    """Add rows; return how many were new."""
    before, rows = len(bundle), bundle.add(*batch)
    assert all(bundle.blocks[row] == block for row, block in zip(rows, batch[4], strict=False))
    return len(bundle) - before


def test_a_new_bundle_is_empty():
    bundle = Bundle(3, 2)
    assert len(bundle) == 0
    assert bundle.slopes.shape == (0, 3)
    assert bundle.steepest == 0.0
    assert not bundle.has_half_spaces
    assert not bundle.has_cuts()
    assert bundle.block_models(np.ones(3)).sum() == -np.inf
    assert not bundle.is_full(10**9)


def test_columns_survive_growth_beyond_the_first_capacity():
    bundle = bundle_of(np.arange(600) - 20.0)
    assert len(bundle) == 600
    assert bundle.slopes.tolist() == [[k, 1.0] for k in range(600)]
    assert bundle.offsets.tolist() == [k - 20.0 for k in range(600)]
    assert bundle.ids.tolist() == bundle.queries.tolist() == list(range(600))
    assert bundle.blocks.tolist() == [0] * 600
    assert bundle.weights.tolist() == [0.0] * 600
    assert bundle.steepest == 599.0


def test_slopes_that_were_lent_stay_what_they_are():
    bundle = bundle_of([0.0, 1.0, 2.0])
    lent = bundle.evidence(Proof())[0].slopes
    bundle.add(3, None, np.array([[5.0, 5.0]]), np.zeros(1), [0])
    bundle.drop(np.array([True, False, False, False]))
    assert bundle.slopes.tolist() == [[1.0, 1.0], [2.0, 1.0], [5.0, 5.0]]
    assert lent.tolist() == [[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]]


def test_long_slopes_that_differ_in_one_entry_are_different_rows():
    bundle, slopes = Bundle(5000, 1), np.ones((3, 5000))
    slopes[1, 4321] = 2.0
    assert added(bundle, 0, None, slopes, np.zeros(3), [0] * 3) == 2
    assert [bundle.find(slope, 0.0, 0) for slope in slopes] == [0, 1, 0]


def test_add_counts_the_new_rows_and_keeps_a_copy_of_the_point():
    bundle, point = Bundle(2, 2), np.array([1.0, 2.0])
    slopes = np.array([[1.0, 0.0], [0.0, -3.0]])
    assert added(bundle, 7, point, slopes, np.array([1.0, 2.0]), [0, 1]) == 2
    point[:] = 9.0
    assert bundle.points[7].tolist() == [1.0, 2.0]
    assert bundle.queries.tolist() == [7, 7]
    assert bundle.steepest == 3.0
    assert added(bundle, 8, point, slopes, np.array([1.0, 3.0]), [0, 1]) == 1
    assert added(bundle, 9, point, slopes, np.array([1.0, 3.0]), [0, 1]) == 0
    assert set(bundle.points) == {7, 8}
    assert added(bundle, 10, None, slopes, np.array([5.0, 6.0]), [0, 1]) == 2
    assert set(bundle.points) == {7, 8}


@pytest.mark.parametrize(
    "slope, offset, block, row",
    [
        ([1.0, 2.0], 4.0, 0, 0),
        ([1.0, 2.0], 4.0 * (1.0 + 0.9e-14), 0, 0),
        ([1.0, 2.0], 4.0 * (1.0 - 0.9e-14), 0, 0),
        ([1.0, 2.0], 4.0 * (1.0 + 1.2e-14), 0, None),
        ([1.0, 2.0], 4.0 * (1.0 - 1.2e-14), 0, None),
        ([1.0, 2.0], -4.0, 0, None),
        ([1.0, 2.0], 4.0, 1, None),
        ([1.0, 2.5], 4.0, 0, None),
        ([0.0, 1.0], 0.0, 1, 1),
        ([-0.0, 1.0], -0.0, 1, 1),
        ([0.0, 1.0], 1e-300, 1, None),
    ],
)
def test_find_knows_a_row_up_to_the_rounding_of_its_offset(slope, offset, block, row):
    bundle = Bundle(2, 2)
    bundle.add(0, None, np.array([[1.0, 2.0], [0.0, 1.0]]), np.array([4.0, 0.0]), [0, 1])
    assert bundle.find(np.array(slope), offset, block) == row


def test_a_model_needs_a_cut_of_every_block():
    bundle = Bundle(1, 2)
    bundle.add(0, None, np.array([[1.0]]), np.array([0.0]), [1])
    assert not bundle.has_cuts()
    bundle.add(1, None, np.array([[1.0]]), np.array([0.0]), [HALF_SPACE])
    assert not bundle.has_cuts()
    assert bundle.block_models(np.array([2.0])).tolist() == [-np.inf, 2.0]
    bundle.add(2, None, np.array([[1.0]]), np.array([-3.0]), [0])
    assert bundle.has_cuts()
    bundle.drop(np.array([True, True, True]))
    assert bundle.has_cuts()


def test_block_models_take_the_largest_cut_of_each_block():
    blocks = [0, 1, 0, 1, HALF_SPACE]
    bundle = bundle_of([1.0, 2.0, -3.0, 0.0, 100.0], blocks, n_blocks=2)
    assert bundle.block_models(np.array([1.0, 0.0])).tolist() == [1.0, 3.0]
    assert bundle.block_models(np.array([1.0, 0.0])).sum() == 4.0
    assert bundle_of([1.0, 2.0]).block_models(np.array([0.0, 5.0])).tolist() == [7.0]
    only = bundle_of([1.0, 90.0], [0, HALF_SPACE])
    assert only.block_models(np.array([0.0, 5.0])).tolist() == [6.0]


def test_rows_that_are_not_weighed_have_weight_zero():
    bundle = bundle_of([0.0, 0.0])
    bundle.weigh(np.array([0.25, 0.75]))
    bundle.add(2, None, np.array([[9.0, 1.0]]), np.array([0.0]), [0])
    assert bundle.weights.tolist() == [0.25, 0.75, 0.0]


def test_drop_forgets_rows_points_and_duals():
    bundle = bundle_of([5.0, 6.0, 7.0])
    bundle.duals = {0: np.zeros(1), 2: np.ones(1)}
    bundle.drop(np.array([True, False, False]))
    assert bundle.ids.tolist() == [1, 2]
    assert bundle.offsets.tolist() == [6.0, 7.0]
    assert bundle.slopes.tolist() == [[1.0, 1.0], [2.0, 1.0]]
    assert set(bundle.points) == {1, 2}
    assert set(bundle.duals) == {2}
    assert bundle.retired == {}
    assert bundle.find(np.array([0.0, 1.0]), 5.0, 0) is None
    assert bundle.find(np.array([2.0, 1.0]), 7.0, 0) == 1
    bundle.add(9, None, np.array([[5.0, 5.0]]), np.array([0.0]), [0])
    assert bundle.ids.tolist() == [1, 2, 3]


@pytest.mark.parametrize("new_rows, full", [(0, False), (2, False), (3, True)])
def test_a_bundle_is_full_when_new_rows_exceed_the_limit(new_rows, full):
    assert bundle_of([0.0, 0.0], max_cuts=4).is_full(new_rows) == full


def test_the_rows_that_were_passive_longest_go_first():
    bundle = bundle_of(np.zeros(6), max_cuts=6)
    for active in (0, 1, 2):
        bundle.weigh(np.eye(6)[active])
    bundle.make_room(1)
    assert bundle.ids.tolist() == [0, 1, 2, 4, 5]
    bundle.make_room(3)
    assert bundle.ids.tolist() == [0, 1, 2]
    bundle.make_room(4)
    assert bundle.ids.tolist() == [1, 2]
    assert bundle.retired == {}
    assert set(bundle.points) == set(bundle.ids.tolist())


@pytest.mark.parametrize("new_rows, left", [(5, 1), (6, 4), (100, 4)])
def test_a_batch_too_large_gets_half_the_room(new_rows, left):
    bundle = bundle_of(np.zeros(6), max_cuts=6)
    bundle.weigh(np.array([0.0, 0.0, 0.0, 0.0, 0.0, 1.0]))
    bundle.make_room(new_rows)
    assert len(bundle) == left
    assert bundle.ids[-1] == 5


@pytest.mark.parametrize("new_rows, left", [(4, [4, 5]), (5, [2, 3, 4, 5])])
def test_room_counts_known_infima_and_kinds_of_rows(new_rows, left):
    bundle = Bundle(1, 2, max_cuts=8)
    bundle.add(TRIVIAL, None, np.zeros((2, 1)), np.array([1.0, 2.0]), [0, 1])
    for k in range(6):
        bundle.add(k, np.zeros(1), np.array([[k + 1.0]]), np.zeros(1), [k % 2])
    bundle.weigh(np.zeros(8))
    bundle.make_room(new_rows)
    assert bundle.queries.tolist() == [TRIVIAL, TRIVIAL, *left]


def test_active_rows_are_replaced_by_their_combination():
    bundle = bundle_of([10.0, 20.0, 30.0, 40.0], max_cuts=4)
    weights, slopes, offsets = (
        np.array([0.125, 0.25, 0.5, 0.125]),
        bundle.slopes.copy(),
        bundle.offsets.copy(),
    )
    bundle.weigh(weights)
    bundle.make_room(1)
    assert bundle.queries.tolist() == [1, 2, AGGREGATE]
    assert bundle.ids.tolist() == [1, 2, 4]
    assert bundle.blocks.tolist() == [0, 0, 0]
    assert bundle.slopes[-1].tolist() == (weights @ slopes).tolist()
    assert bundle.offsets[-1] == weights @ offsets
    assert bundle.weights.tolist() == [0.0, 0.0, 1.0]
    assert bundle.bases(Proof(bundle.ids[[2]], np.array([2.0]))) == {0: 0.25, 1: 0.5, 2: 1.0, 3: 0.25}
    assert bundle.bases(Proof(bundle.ids[[1, 2]], np.array([0.5, 0.5]))) == {
        0: 0.0625,
        1: 0.125,
        2: 0.75,
        3: 0.0625,
    }
    assert set(bundle.retired) == {0, 3}
    entry = bundle.retired[3]
    assert isinstance(entry, Retired)
    assert (entry.slope.tolist(), entry[1:]) == ([3.0, 1.0], (40.0, 0, 3))
    assert set(bundle.points) == {0, 1, 2, 3}


def test_an_aggregate_that_is_already_there_is_not_added():
    bundle = bundle_of([10.0, 20.0, 30.0], max_cuts=3)
    bundle.weigh(np.array([1.0, 2.0, 1.0]))
    bundle.make_room(1)
    assert bundle.ids.tolist() == [1]


def test_origins_of_an_aggregate_are_forgotten_with_it():
    bundle = bundle_of([10.0, 20.0, 30.0, 40.0], max_cuts=4)
    bundle.duals[0] = np.zeros(1)
    bundle.weigh(np.array([0.125, 0.25, 0.5, 0.125]))
    bundle.make_room(1)
    assert set(bundle.duals) == {0}
    bundle.drop(np.array([False, False, True]))
    assert bundle.retired == {}
    assert set(bundle.points) == {1, 2}
    assert bundle.duals == {}


def test_new_rows_stay_as_long_as_weighed_ones_can_go():
    bundle = bundle_of(np.zeros(4), max_cuts=6)
    bundle.weigh(np.array([0.0, 0.0, 0.0, 1.0]))
    for k in (4, 5):
        bundle.add(k, np.zeros(2), np.array([[float(k), 1.0]]), np.zeros(1), [0])
    bundle.make_room(3)
    assert bundle.ids.tolist() == [3, 4, 5]
    bundle.make_room(5)
    assert len(bundle) == 1


@pytest.mark.parametrize(
    "new_rows, ids", [(2, [0, 2, 3, 4, 5]), (3, [0, 3, 4, 5]), (4, [0, 4, 5]), (5, [0, 5])]
)
def test_no_more_new_rows_go_than_have_to(new_rows, ids):
    bundle = Bundle(1, 1, max_cuts=7)
    bundle.add(TRIVIAL, None, np.zeros((1, 1)), np.array([1.0]), [0])
    bundle.add(0, np.zeros(1), np.array([[1.0]]), np.zeros(1), [0])
    bundle.weigh(np.zeros(2))
    for k in range(1, 5):
        bundle.add(k, np.zeros(1), np.array([[k + 1.0]]), np.zeros(1), [0])
    bundle.make_room(new_rows)
    assert bundle.ids.tolist() == ids


def test_the_deepest_rows_of_a_batch_that_does_not_fit_are_taken():
    bundle = bundle_of([0.0, 0.0], max_cuts=4)
    slopes = np.array([[3.0, 4.0], [0.0, 1.0], [1.0, 0.0], [0.0, 0.0]])
    offsets = np.array([-1.5, 0.0, -0.5, 0.25])  # depths 1.1, 1, 0.5 and 0.25 at (1, 1)
    assert added(bundle, 5, np.ones(2), slopes, offsets, [0, HALF_SPACE, 0, 0]) == 2
    assert bundle.slopes[2:].tolist() == [[3.0, 4.0], [0.0, 1.0]]
    assert bundle.offsets[2:].tolist() == [-1.5, 0.0]
    assert bundle.blocks[2:].tolist() == [0, HALF_SPACE]


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1], [1, 2, 0]])
def test_depth_is_measured_in_lengths_of_normals(order):
    slopes = np.array([[100.0, 0.0], [0.0, 0.01], [0.0, 0.0]])[order]
    offsets = np.array([-50.0, 0.0, 0.75])[order]  # depths 0.5, 1 and 0.75 at (1, 1)
    bundle = Bundle(2, 1, max_cuts=2)
    assert added(bundle, 0, np.ones(2), slopes, offsets, [HALF_SPACE] * 3) == 2
    assert sorted(bundle.offsets.tolist()) == [0.0, 0.75]


def test_a_full_bundle_takes_nothing_of_a_batch_with_a_point():
    bundle = bundle_of([0.0, 0.0], max_cuts=2)
    assert added(bundle, 5, np.ones(2), np.array([[7.0, 1.0]]), np.array([1.0]), [0]) == 0
    assert len(bundle) == 2


def test_slopes_become_sparse_and_stay_known():
    bundle = bundle_of([5.0, 6.0])
    row = sparse.csr_array([[0.0, 2.0], [1.0, 1.0]])
    assert added(bundle, 2, np.ones(2), row, np.array([1.0, 6.0]), [HALF_SPACE, 0]) == 1
    assert sparse.issparse(bundle.slopes)
    assert bundle.slopes.toarray().tolist() == [[0.0, 1.0], [1.0, 1.0], [0.0, 2.0]]
    assert bundle.block_models(np.ones(2)).tolist() == [8.0]
    assert bundle.steepest == 2.0


def test_idle_half_spaces_are_dropped_after_their_age():
    """Multipliers below 1e-10 of the largest are zero; rows without half-spaces have no age."""
    for age, weights, ids in (
        (0, [[2.0, 0.0, 0.0, 1.9e-10, 2.1e-10]], [0, 2, 4]),
        (1, [[2.0, 0.0, 0.0, 1.9e-10, 2.1e-10]], [0, 1, 2, 3, 4]),
        (1, [[2.0, 0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0, 0.0]], [0, 2, 3, 4]),
        (0, [[1e-20, 0.9e-30, 0.0, 0.0, 0.0]], [0, 2]),
    ):
        bundle = bundle_of(np.zeros(5), [HALF_SPACE, HALF_SPACE, 0, HALF_SPACE, HALF_SPACE])
        for each in weights:
            bundle.weigh(np.array(each))
        bundle.drop_idle(age)
        assert bundle.ids.tolist() == ids


@pytest.mark.parametrize("share, ids", [(2e-15, {0, 1}), (0.5e-15, {0})])
def test_members_whose_share_is_rounding_do_not_count(share, ids):
    bundle = bundle_of([1.0, 1.0, 1.0, 1.0], max_cuts=4)
    bundle.weigh(np.array([1.0, share, 0.0, 0.0]))
    bundle.make_room(3)
    assert set(bundle.bases(Proof(bundle.ids, bundle.weights))) == ids


def test_rows_never_weighed_go_last_cuts_from_the_oldest_and_half_spaces_from_the_newest():
    for room, ids in ((1, [2, 3, 4, 5, 6]), (2, [2, 4, 5, 6]), (3, [2, 4, 6]), (4, [2, 6])):
        bundle = bundle_of([0.0], max_cuts=6)
        bundle.weigh(np.ones(1))
        for k, block in enumerate([0, HALF_SPACE, 0, HALF_SPACE, HALF_SPACE], 1):
            bundle.add(k, np.zeros(2), np.array([[float(k), 1.0]]), np.zeros(1), [block])
        bundle.make_room(room)
        assert bundle.ids.tolist() == ids


@pytest.mark.parametrize("nonzero", [0, 1, 1000, 1001, 3000])
def test_long_points_are_stored_without_zeros(nonzero):
    points, point = Points(), np.zeros(3000)
    point[:nonzero] = np.arange(nonzero) + 1.0
    points[5] = point
    assert points.nbytes == memory_of(points) == (12 * nonzero if 3 * nonzero <= 3000 else 24_000)
    assert np.array_equal(points[5], point)
    point[:] = 7.0
    assert not np.array_equal(points[5], point)
    assert points.only([5, 6]).nbytes == points.nbytes
    del points[5]
    assert len(points) == 0
    assert memory_of(Points({0: np.zeros(10)})) == memory_of({0: np.zeros(10)}) == 80


def bundle_with_duals(count, max_cuts=None, kind=np.array):
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
    proof, bundle = Proof(np.array([0, 1, 2]), np.array([0.25, 0.0, 0.75])), bundle_with_duals(4, kind=kind)
    assert bundle.bases(proof) == {0: 0.25, 2: 0.75}
    rows, (points, _, _) = bundle.evidence(proof)
    queries, weights = [0, 1, 2, 3], [0.25, 0.0, 0.75, 0.0]
    assert listed(rows) == [[0.0, 1.0, 2.0, 3.0], [0.0, 10.0, 20.0, 30.0], [0] * 4, queries, weights]
    assert rows.blocks.dtype == rows.queries.dtype == np.int64
    assert set(points) == {0, 1, 2, 3}


@pytest.mark.parametrize("kind", [np.array, sparse.csr_array])
def test_a_proof_that_is_kept_survives_its_rows(kind):
    proof, bundle = Proof(np.array([0, 2]), np.array([0.25, 0.75])), bundle_with_duals(4, kind=kind)
    proof = bundle.pinned(proof)
    bundle.drop(np.array([True, True, True, False]))
    proof = bundle.pinned(proof)
    assert bundle.bases(proof) == {0: 0.25, 2: 0.75}
    rows, (points, duals, _) = bundle.evidence(proof)
    assert listed(rows) == [[3.0, 0.0, 2.0], [30.0, 0.0, 20.0], [0] * 3, [3, 0, 2], [0.0, 0.25, 0.75]]
    assert {query: x[0] for query, x in points.items()} == {0: 0.0, 2: 2.0, 3: 3.0}
    assert {query: dual[0] for query, dual in duals.items()} == {0: 0.0, 2: 2.0, 3: 3.0}


def test_known_infima_need_no_row_of_the_bundle():
    bundle = bundle_with_duals(1)
    proof = bundle.infima(np.array([7.0]))
    bundle.drop(np.zeros(1, dtype=bool))
    rows, (points, _, _) = bundle.evidence(proof)
    assert listed(rows) == [[0.0, 0.0], [0.0, 7.0], [0, 0], [0, TRIVIAL], [0.0, 1.0]]
    assert set(points) == {0}


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.booleans(), st.sampled_from([None, 8, 11, 20]))
def test_rows_are_combinations_of_rows_from_queries_whatever_is_dropped(seed, thin, max_cuts):
    """Random batches, multipliers and limits: proofs keep their value, and rows their origins."""
    rng = np.random.default_rng(seed)
    bundle, ever = Bundle(3, 2, max_cuts), {}
    bundle.add(TRIVIAL, None, np.zeros((2, 3)), np.array([-1.0, -2.0]), [0, 1])
    ever |= {0: (np.zeros(3), -1.0), 1: (np.zeros(3), -2.0)}
    for query in range(30):
        slopes, offsets = rng.integers(-3, 4, (2, 3)).astype(float), rng.integers(-3, 4, 2).astype(float)
        blocks = [int(rng.integers(-1, 2)) for _ in range(2)]
        bundle.make_room(2)
        rows = bundle.add(
            query, np.full(3, float(query)), sparse.csr_array(slopes) if thin else slopes, offsets, blocks
        )
        ever |= {
            int(bundle.ids[row]): (slopes[k], offsets[k]) for k, row in enumerate(rows) if len(rows) == 2
        }
        assert max_cuts is None or len(bundle) <= max_cuts
        weights = rng.integers(0, 3, len(bundle)) * rng.integers(0, 2, len(bundle)).astype(float)
        weights[:2] = 1.0
        bundle.weigh(weights)
        if query % 7 == 6:
            bundle.drop_idle(2)
            weights = bundle.weights
        matrix = bundle.slopes.toarray() if sparse.issparse(bundle.slopes) else bundle.slopes
        assert (np.diff(bundle.ids) > 0).all() and (bundle.queries[:2] == TRIVIAL).all()
        for k in range(len(bundle)):
            bases = bundle.bases(Proof(bundle.ids[[k]], np.ones(1)))
            assert sum(share * ever[row][0] for row, share in bases.items()) == pytest.approx(
                matrix[k], abs=1e-9
            )
            assert sum(share * ever[row][1] for row, share in bases.items()) == pytest.approx(
                bundle.offsets[k], abs=1e-9
            )
        proof = Proof(bundle.ids.copy(), weights)
        found, origins = bundle.evidence(proof)
        assert found.multipliers @ found.slopes == pytest.approx(weights @ matrix, abs=1e-9)
        assert found.multipliers @ found.offsets == pytest.approx(weights @ bundle.offsets, abs=1e-9)
        assert {*found.queries.tolist()} - {TRIVIAL} <= origins.points.keys() <= {*range(query + 1)}
        assert AGGREGATE not in found.queries

"""Rows of a certificate that are asked for again, and what is said of those that are not given again."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

import cutplane as cut
from cutplane.engine.evaluator import Evaluator
from cutplane.masters.base import HALF_SPACE
from cutplane.proof.audit import Recomputed
from cutplane.proof.oracle import Oracle

pytestmark = pytest.mark.every

INSIDE, OUTSIDE = 0.9e-9, 1.1e-9
POINT = np.array([1.0, -2.0])


class Asked:
    """f = (2 <a, x> + 1) + (<b, x> - 3), and the half-spaces x_0 <= 0 and x_0 + x_1 <= -4."""

    slopes = np.array([[2.0, 4.0], [0.0, -1.0]])
    offsets = np.array([1.0, -3.0])

    def __init__(self):
        self.cuts = self.half_spaces = 0

    def oracle(self, x):
        self.cuts += 1
        return self.slopes @ x + self.offsets, self.slopes

    def separate(self, x):
        self.half_spaces += 1
        normals, offsets = np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([0.0, -4.0])
        cut_off = normals @ x > offsets
        return cut.sets.HalfSpaces(normals[cut_off], offsets[cut_off])


def of_problem(problem, rows, points=None, duals=None, kind=np.array, x=None):
    """Recompute a certificate; each row is (slope, offset, block, query), or has its multiplier as well."""
    slopes, offsets, blocks, queries = ([row[k] for row in rows] for k in range(4))
    certificate = SimpleNamespace(
        slopes=kind(slopes),
        offsets=np.array(offsets),
        blocks=np.array(blocks),
        queries=np.array(queries),
        multipliers=np.array([1.0 if len(row) == 4 else row[4] for row in rows]),
        points={5: POINT} if points is None else points,
        duals={} if duals is None else duals,
        x=x,
    )
    return Recomputed(certificate, Evaluator(problem))


def recomputed(rows, infimum=-np.inf, asked=None, **options):
    asked = asked or Asked()
    risk = cut.OracleRisk(asked.oracle, dim=2, blocks=2, infimum=infimum)
    return of_problem(cut.Problem(risk, cut.L2(1.0), cut.separation_oracle(asked.separate)), rows, **options)


def complaint(slope, offset, block, query=5, **options):
    return recomputed([(slope, offset, block, query)], **options).complaint(0)


OTHER = "the oracle gives another answer at query 5 than the one recorded"


@pytest.mark.parametrize("kind", [np.array, sparse.csr_array])
@pytest.mark.parametrize(
    "slope, offset, block, said",
    [
        ([2.0, 4.0], 1.0, 0, None),
        ([0.0, -1.0], -3.0, 1, None),
        ([1.0, 0.0], 0.0, HALF_SPACE, None),
        ([1.0, 1.0], 4.0, HALF_SPACE, None),
        ([1.0, 1.0], -4.0, HALF_SPACE, OTHER),
        ([0.0, -1.0], -3.0, 0, OTHER),
        ([2.0, 4.0], 1.0, 1, OTHER),
        ([2.0, 4.0], 1.0, HALF_SPACE, OTHER),
        ([1.0, 0.0], 0.0, 0, OTHER),
        ([0.0, 1.0], 0.0, HALF_SPACE, OTHER),
        ([4.0, 2.0], 1.0, 0, OTHER),
    ],
)
def test_a_row_is_given_again_or_not(slope, offset, block, said, kind):
    assert complaint(slope, offset, block, kind=kind) == said


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_offsets_may_differ_by_the_order_of_summation(sign):
    """The terms of the offset of block 0 are the value 5 and the products 2 and 8; of a half-space 3 + 4."""
    assert complaint([2.0, 4.0], 1.0 + sign * INSIDE * 15.0, 0) is None
    assert complaint([2.0, 4.0], 1.0 + sign * OUTSIDE * 15.0, 0) == OTHER
    assert complaint([1.0, 1.0], 4.0 + sign * INSIDE * 7.0, HALF_SPACE) is None
    assert complaint([1.0, 1.0], 4.0 + sign * OUTSIDE * 7.0, HALF_SPACE) == OTHER


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_slopes_may_differ_relative_to_their_largest_entry(sign):
    assert complaint([2.0, 4.0 + sign * INSIDE * 4.0], 1.0, 0) is None
    assert complaint([2.0 + sign * INSIDE * 4.0, 4.0], 1.0, 0) is None
    assert complaint([2.0, 4.0 + sign * OUTSIDE * 4.0], 1.0, 0) == OTHER
    assert complaint([2.0 + sign * OUTSIDE * 4.0, 4.0], 1.0, 0) == OTHER


@pytest.mark.parametrize(
    "share, others, size",
    [(0.5, 0.5, 12.0), (0.25, 0.5, 20.0), (0.0, 0.5, 4.0), (0.5, 0.0, 4.0), (0.5, -1, 4.0)],
)
def test_slopes_may_differ_relative_to_those_in_use(share, others, size):
    """Their sizes are 4 and 8: what the share of a row is worth next to both."""
    for error, said in ((INSIDE, None), (OUTSIDE, OTHER)):
        row = [2.0 + error * size, 4.0], 1.0, 0, 5, share
        assert recomputed([row, ([8.0, 0.0], 0.0, 1, 5, others)]).complaint(0) == said


class Gentle(Asked):
    slopes = np.array([[2e-3, 4e-3], [0.0, -1e-3]])


def test_small_slopes_are_compared_with_themselves():
    assert complaint([2e-3 + INSIDE * 4e-3, 4e-3], 1.0, 0, asked=Gentle()) is None
    assert complaint([2e-3 + OUTSIDE * 4e-3, 4e-3], 1.0, 0, asked=Gentle()) == OTHER
    assert complaint([2e-3, 4e-3 + OUTSIDE * 4e-3], 1.0, 0, asked=Gentle()) == OTHER


def test_slopes_with_equal_marks_are_compared_entry_by_entry():
    again = recomputed([([2.0, 4.0], 1.0, 0, 5)])
    first, second = again._probe
    swapped = [2.0 + second, 4.0 - first]
    assert np.dot(swapped, again._probe) == pytest.approx(np.dot([2.0, 4.0], again._probe), rel=1e-15)
    assert complaint(swapped, 1.0, 0) == OTHER


class Blocks(cut.Risk):
    dim, n_blocks = 2, 3

    def oracle(self, x):
        slopes = np.array([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
        return slopes @ x, slopes


@pytest.mark.parametrize("x", [[0.0, 0.0], [1.0, -2.0]])
def test_each_of_several_blocks_is_compared_with_its_own_cut(x):
    slopes, problem = [[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]], cut.Problem(Blocks(), cut.L2(1.0))
    for blocks, said in (([0, 1, 2], None), ([1, 2, 0], OTHER)):
        rows = [(slope, 0.0, block, 5) for slope, block in zip(slopes, blocks, strict=True)]
        again = of_problem(problem, rows, points={5: np.array(x)})
        assert [again.complaint(row) for row in range(3)] == [said] * 3


@pytest.mark.parametrize("block", [2, 7, -2])
def test_a_risk_has_so_many_blocks(block):
    assert complaint([2.0, 4.0], 1.0, block) == f"the risk has no block {block}"


@pytest.mark.parametrize(
    "slope, offset, block, known",
    [
        ([0.0, 0.0], -1.0, 0, True),
        ([0.0, 0.0], -1.5, 0, True),
        ([0.0, 0.0], -0.99, 0, False),
        ([0.0, 0.0], 0.5, 1, True),
        ([0.0, 0.0], 0.5, 0, False),
        ([0.0, 1.0], -1.0, 0, False),
        ([0.0, 0.0], -1.0, HALF_SPACE, False),
    ],
)
def test_a_known_infimum_is_flat_and_no_higher_than_known(slope, offset, block, known):
    said = complaint(slope, offset, block, -2, infimum=[-1.0, 0.5])
    assert said == (None if known else f"the known infimum of block {block} is not {offset:.6g}")


def test_a_query_without_a_point_cannot_be_asked_again():
    assert complaint([2.0, 4.0], 1.0, 0, query=6) == (
        "query 6 has no point, so that its answer cannot be asked for again"
    )
    assert complaint([2.0, 4.0], 1.0, 0, points={}, duals={5: np.zeros(1)}) == (
        "the risk gives no cut for the multipliers of query 5"
    )


def test_each_query_point_is_asked_once():
    asked = Asked()
    cuts = [([2.0, 4.0], 1.0, 0, 5), ([0.0, -1.0], -3.0, 1, 5)]
    rows = [*cuts, ([1.0, 0.0], 0.0, HALF_SPACE, 5), ([1.0, 1.0], 4.0, HALF_SPACE, 5)]
    again = recomputed(rows, asked=asked)
    assert [again.complaint(row) for row in (0, 1, 2, 3, 0, 2)] == [None] * 6
    assert (asked.cuts, asked.half_spaces) == (1, 1)


class WithDuals(cut.Risk):
    dim = 2

    def oracle(self, x):
        return 0.0, np.zeros(2)

    def dual_cut(self, multipliers):
        return np.array([[multipliers[0], -2.0]]), np.array([3.0])


def dual_complaint(offset, slope=(1.0, -2.0), block=0, x=None):
    problem, row = cut.Problem(WithDuals(), cut.L2(1.0)), (slope, offset, block, 5)
    return of_problem(problem, [row], points={}, duals={5: np.ones(1)}, x=x).complaint(0)


@pytest.mark.parametrize("x, size", [(None, 3.0), (np.array([4.0, -5.0]), 17.0)])
def test_a_cut_from_multipliers_is_compared_at_the_best_point(x, size):
    assert dual_complaint(3.0, x=x) is None
    assert dual_complaint(3.0 + INSIDE * size, x=x) is None
    assert dual_complaint(3.0 + OUTSIDE * size, x=x) == OTHER
    assert dual_complaint(3.0, slope=(1.0, -2.5), x=x) == OTHER


def test_half_spaces_do_not_come_from_multipliers():
    assert dual_complaint(3.0, block=HALF_SPACE) == (
        "query 5 has no point, so that its answer cannot be asked for again"
    )


@pytest.mark.parametrize(("rise", "valid"), [(1e-17, True), (1e-13, True), (1e-8, False)])
@pytest.mark.parametrize("feasible", [cut.Box(-1.0, 1.0), cut.WholeSpace()], ids=repr)
def test_a_slope_that_is_what_cancellation_left_is_compared_with_the_value(feasible, rise, valid):
    """At a minimiser the slope is a sum of terms that cancel, as large as the slope at zero."""

    @cut.risk(dim=1)
    def parabola(x):
        return 1.0 + float((x - 0.5) @ (x - 0.5)), 2.0 * (x - 0.5)

    problem = cut.Problem(parabola, feasible_set=feasible)
    proof = cut.Problem(parabola, feasible_set=cut.Box(-1.0, 1.0)).solve(x0=np.array([0.5])).certificate
    used = proof.multipliers > 0.0
    assert not proof.slopes[used].any()
    forged = replace(proof, problem=problem, slopes=proof.slopes + rise * used[:, np.newaxis])
    assert forged.verify().valid == valid


def proof_at(problem, queries, shares, x, slopes, lower):
    """A certificate of cuts at points of a line, whose slopes need not be those of the oracle."""
    points = {number: np.array([point]) for number, point in enumerate(queries)}
    values = [float(problem.risk.oracle(point)[0]) for point in points.values()]
    return cut.proof.certificate.Certificate(
        slopes=np.array(slopes)[:, np.newaxis],
        offsets=np.array(values) - np.array(slopes) * np.array(queries),
        blocks=np.zeros(len(queries), dtype=int),
        queries=np.arange(len(queries)),
        multipliers=np.array(shares),
        points=points,
        x=np.array([x]),
        lower_bound=lower,
        upper_bound=problem.objective(np.array([x])),
        risk_value=problem.objective(np.array([x])),
        problem=problem,
    )


@pytest.mark.parametrize(("error", "valid"), [(0.0, True), (2e-15, True), (-2e-15, True), (1e-11, False)])
def test_last_bits_of_steep_slopes_in_use_are_made_good_where_nothing_bounds_x(error, valid):
    """Their small multipliers are no size for what a sum of many terms leaves near a minimiser."""
    parabola = cut.OracleRisk(lambda x: (1.0 + float((x - 0.5) @ (x - 0.5)), 2.0 * (x - 0.5)), dim=1)
    problem = cut.Problem(parabola, feasible_set=cut.sets.NonnegativeOrthant())
    away, share = 2.0**-24, 2.0**-24
    shares, slopes = [1.0 - share / (1.0 + share), share / (1.0 + share)], [-2.0 * away + error, 2.0]
    proof = proof_at(problem, [0.5 - away, 1.5], shares, 0.5, slopes, 1.0 - 4.0 * away)
    assert proof.verify().valid == valid


def test_x_may_be_so_near_zero_that_no_slope_is_worth_anything_there():
    """The optimum is at 1, far from there."""
    peak = cut.OracleRisk(lambda x: (1.0 + float(np.abs(x - 1.0).sum()), np.sign(x - 1.0)), dim=1)
    problem = cut.Problem(peak, cut.L2(1e-3))
    honest = proof_at(problem, [1e-14, 2.0], [0.5, 0.5], 1e-14, [-1.0, 1.0], 1.0)
    assert honest.verify().valid
    assert not proof_at(problem, [1e-14], [1.0], 1e-14, [0.0], 2.0 - 1e-14).verify().valid


def test_half_spaces_that_a_point_violates_by_rounding_alone_do_not_count_beside_others():
    spaces = cut.sets.HalfSpaces(np.eye(2), np.array([1.0 - 2.0**-53, 0.5]))
    problem = cut.Problem(
        cut.LinearObjective(np.zeros(2)), feasible_set=cut.separation_oracle(lambda x: spaces)
    )
    assert Oracle(problem).separate(np.ones(2)).offsets.tolist() == [0.5]


def test_each_piece_of_a_maximum_is_a_cut_or_the_highest_alone():
    both = cut.maximum(cut.LinearObjective([1.0, 0.0]), cut.LinearObjective([0.0, 2.0]))
    oracle = Oracle(cut.Problem(both, cut.L2(1.0)))
    point = oracle.point(np.ones(2))
    assert sorted(oracle.cuts(point)[0].tolist()) == [[0.0, 2.0], [1.0, 0.0]]
    assert oracle.cuts(point, every=False)[0].tolist() == [[0.0, 2.0]]


class Twins(Asked):
    """Half-spaces whose slopes differ by last bits of 1e6, the size of a cut of the proof."""

    def separate(self, x):
        return cut.sets.HalfSpaces(np.array([[1.0 + 7e-7, 0.0], [1.0 + 2e-7, 0.0]]), np.array([0.0, -1e-9]))


@pytest.mark.parametrize("kind", [np.array, sparse.csr_array])
@pytest.mark.parametrize(("error", "nearest"), [(0.0, 1), (8e-7, 0)])
def test_of_answers_that_agree_but_for_last_bits_the_nearest_is_taken(error, nearest, kind):
    rows = [([1.0 + error, 0.0], 0.0, HALF_SPACE, 5), ([1e6, 0.0], 0.0, 0, 5, 0.0)]
    again = recomputed(rows, asked=Twins(), kind=kind)
    assert again.complaint(0) is None
    slopes, offsets = again.slopes(), again.offsets
    assert slopes[[0]].sum() == [1.0 + 7e-7, 1.0 + 2e-7][nearest]
    assert slopes[[1]].sum() == 1e6
    assert offsets.tolist() == [[0.0, 1e-9][nearest], 0.0]


def test_a_solver_of_dual_cuts_is_told_the_sizes_of_solutions_slopes_and_offsets(monkeypatch):
    told = []

    def dual_cut(evaluator, multipliers, *sizes):
        told.append(sizes)
        return np.array([[1.0, -2.0]]), np.array([3.0])

    monkeypatch.setattr(Evaluator, "dual_cut", dual_cut)
    for x in (np.array([4.0, -5.0]), None):
        assert dual_complaint(3.0, x=x) is None
    assert told == [(5.0, 2.0, 3.0), (0.0, 2.0, 3.0)]


def test_last_bits_are_worth_what_they_change_in_a_small_box():
    """A slope of 1e-8 is worth 1e-14 there, even if the best point is 0."""
    flat = cut.OracleRisk(lambda x: (1.0, np.zeros(1)), dim=1)
    problem = cut.Problem(flat, cut.L2(1.0), cut.Box(-1e-6, 1e-6))
    assert proof_at(problem, [0.0], [1.0], 0.0, [1e-8], 1.0 - 1e-15).verify().valid
    assert not proof_at(problem, [0.0], [1.0], 0.0, [1e-5], 1.0 - 1e-15).verify().valid


@pytest.mark.parametrize("minority", [-1.0, 1.0])
@pytest.mark.parametrize(("rise", "valid"), [(0.0, True), (1e-6, False)])
def test_multipliers_of_examples_are_balanced_where_a_coordinate_is_free(minority, rise, valid):
    """All features are equal: the best bias is right about two of three examples, and the mean loss is 2/3.

    At 0 each example has the multiplier 1, of the sign of its class. The flat row, which the oracle does not
    give, is replaced by the multipliers of which the two have 1/2.
    """
    risk = cut.LinearRisk(
        np.ones((3, 1)), minority * np.array([1.0, -1.0, -1.0]), cut.losses.Hinge(), intercept=True
    )
    problem = cut.Problem(risk, cut.L2(1.0, weights=[1.0, 0.0]))
    x = np.zeros(2)
    proof = cut.proof.certificate.Certificate(
        slopes=np.zeros((1, 2)),
        offsets=np.array([2.0 / 3.0]),
        blocks=np.zeros(1, dtype=int),
        queries=np.zeros(1, dtype=int),
        multipliers=np.ones(1),
        points={0: np.zeros(2)},
        x=x,
        lower_bound=2.0 / 3.0 + rise,
        upper_bound=1.0,
        risk_value=1.0,
        problem=problem,
    )
    assert proof.verify().valid == valid
    if valid:
        assert 2.0 / 3.0 - 1e-12 <= proof.verify().lower_bound <= 2.0 / 3.0

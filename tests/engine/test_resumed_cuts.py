"""Which rows of an earlier certificate a run takes over, with which multipliers, and where it starts."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import cutplane as cut
from cutplane.engine.bundle import Bundle, Proof
from cutplane.engine.warm_start import (
    _best_known,
    _check_shapes,
    _found_again,
    _transfer,
    check_origin,
    confirm_origin,
    resume,
)
from cutplane.masters.base import HALF_SPACE
from cutplane.proof.certificate import Certificate
from cutplane.proof.evidence import TRIVIAL

NORMALS, SIDES = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([5.0, 6.0])


def separate(x):
    return [
        cut.HalfSpace(normal, side) for normal, side in zip(NORMALS, SIDES, strict=True) if normal @ x > side
    ]


def oracle(x):
    return np.array([2.0 * x[0] + 1.0, -3.0 * x[1] + 4.0]), np.array([[2.0, 0.0], [0.0, -3.0]])


def problem(feasible=None):
    return cut.Problem(cut.OracleRisk(oracle, dim=2, blocks=2), cut.L2(2.0), feasible)


def earlier(rows, points=None, **changes):
    """Each row is (slope, offset, block, query, multiplier)."""
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    proof = {"x": None, "lower_bound": -np.inf, "upper_bound": np.inf, "risk_value": np.inf, "problem": None}
    return Certificate(*columns, points={} if points is None else points, **proof | changes)


CUTS = [
    ([2.0, 0.0], 1.0, 0, 3, 1.0),
    ([0.0, -3.0], 4.0, 1, 3, 0.25),
    ([0.0, -1.0], 7.0, 1, 5, 0.0),
    ([0.0, -2.0], 8.0, 1, 5, 0.75),
]
AT = {3: np.array([1.0, 2.0]), 5: np.array([3.0, 4.0])}


class Run(SimpleNamespace):
    def add_half_spaces(self, x, found):
        self.bundle.add(self.queries, x, found.normals, -found.offsets, [HALF_SPACE] * len(found))
        self.queries += 1


def run(feasible=None, trivial=False):
    own = problem(feasible)
    bundle = Bundle(2, 2)
    if trivial:
        bundle.add(TRIVIAL, None, np.zeros((2, 2)), np.array([-1.0, -2.0]), [0, 1])
    evaluator = cut.engine.evaluator.Evaluator(own)
    return Run(problem=own, bundle=bundle, queries=0, unconfirmed={}, evaluator=evaluator)


@pytest.mark.parametrize("foreign", [False, True])
def test_cuts_keep_their_multipliers_points_and_blocks(foreign):
    new = run()
    assert _transfer(new, earlier(CUTS, AT), foreign).tolist() == [1.0, 0.25, 0.0, 0.75]
    assert new.bundle.slopes.tolist() == [row[0] for row in CUTS]
    assert new.bundle.offsets.tolist() == [1.0, 4.0, 7.0, 8.0]
    assert new.bundle.blocks.tolist() == [0, 1, 1, 1]
    assert new.bundle.queries.tolist() == [0, 0, 1, 1]
    assert {query: x.tolist() for query, x in new.bundle.points.items()} == {0: [1.0, 2.0], 1: [3.0, 4.0]}
    assert new.queries == 2
    assert new.unconfirmed == ({2: 2} if foreign else {})


def test_idle_cuts_of_the_same_set_come_first():
    new = run()
    again = earlier(CUTS, AT, problem=new.problem)
    assert _transfer(new, again, False).tolist() == [0.0, 1.0, 0.25, 0.75]
    assert new.bundle.offsets.tolist() == [7.0, 1.0, 4.0, 8.0]
    assert new.bundle.queries.tolist() == [1, 0, 0, 1]
    assert {query: x.tolist() for query, x in new.bundle.points.items()} == {0: [1.0, 2.0], 1: [3.0, 4.0]}


def test_a_known_infimum_gives_its_multiplier_to_that_of_the_run():
    rows = [([0.0, 0.0], -1.0, 0, TRIVIAL, 0.5), ([0.0, 0.0], -2.0, 1, TRIVIAL, 0.25), *CUTS]
    new = run(trivial=True)
    assert _transfer(new, earlier(rows, AT), False).tolist() == [0.5, 0.25, 1.0, 0.25, 0.0, 0.75]
    without = run()
    assert _transfer(without, earlier(rows, AT), False).tolist() == [1.0, 0.25, 0.0, 0.75]
    assert (new.queries, without.queries) == (2, 2)


def test_a_row_that_is_there_twice_is_taken_once():
    rows = [*CUTS[:2], ([0.0, -3.0], 4.0, 1, 5, 0.75)]
    assert _transfer(run(), earlier(rows, AT), False).tolist() == [1.0, 0.25]


def test_multipliers_of_examples_are_kept():
    new = run()
    _transfer(new, earlier(CUTS, {3: AT[3]}, duals={5: np.arange(3.0)}), False)
    assert {query: dual.tolist() for query, dual in new.bundle.duals.items()} == {1: [0.0, 1.0, 2.0]}
    assert set(new.bundle.points) == {0}


FOUND = [
    ([1.0, 0.0], -5.0, HALF_SPACE, 4, 2.0),
    ([0.0, 1.0], -6.0, HALF_SPACE, 4, 0.0),
    ([7.0, 7.0], -7.0, HALF_SPACE, 4, 3.0),
]


@pytest.mark.parametrize("foreign", [False, True])
def test_half_spaces_of_the_same_set_are_taken(foreign):
    own = cut.separation_oracle(separate)
    new = run(own)
    before = earlier([CUTS[0], *FOUND], AT | {4: np.full(2, 9.0)}, problem=new.problem)
    assert sorted(_transfer(new, before, foreign)) == [0.0, 1.0, 2.0, 3.0]
    assert sorted(new.bundle.blocks) == [HALF_SPACE, HALF_SPACE, HALF_SPACE, 0]
    assert new.unconfirmed == {}


def test_half_spaces_of_another_set_are_asked_for_again():
    new = run(cut.separation_oracle(separate))
    before = earlier([CUTS[0], *FOUND], AT | {4: np.full(2, 9.0)}, problem=problem())
    assert _transfer(new, before, False).tolist() == [1.0, 2.0, 0.0]
    assert new.bundle.blocks.tolist() == [0, HALF_SPACE, HALF_SPACE]
    assert new.bundle.offsets.tolist() == [1.0, -5.0, -6.0]
    assert new.bundle.points[1].tolist() == [9.0, 9.0]


def test_half_spaces_that_are_new_have_no_multiplier_yet():
    new = run(cut.separation_oracle(separate))
    before = earlier([CUTS[0], FOUND[0]], AT | {4: np.full(2, 9.0)}, problem=problem())
    assert _transfer(new, before, False).tolist() == [1.0, 2.0, 0.0]


@pytest.mark.parametrize("feasible, points", [(None, {4: np.full(2, 9.0)}), (separate, {})])
def test_half_spaces_that_cannot_be_asked_for_are_left_out(feasible, points):
    new = run(None if feasible is None else cut.separation_oracle(feasible))
    before = earlier([CUTS[0], *FOUND], AT | points)
    assert _transfer(new, before, False).tolist() == [1.0]
    assert new.bundle.blocks.tolist() == [0]


def test_cuts_found_at_the_same_query_stay_when_its_half_spaces_go():
    new = run()
    before = earlier([FOUND[0], ([0.0, -1.0], 7.0, 1, 4, 0.5)], {4: np.full(2, 9.0)})
    assert _transfer(new, before, False).tolist() == [0.5]
    assert new.bundle.blocks.tolist() == [1]


def test_half_spaces_are_found_again_by_slope_and_offset():
    new = run()
    slopes = np.array([[0.0, 1.0], [1.0, 0.0]])
    new.bundle.add(0, None, slopes, np.array([-6.0, -5.5]), [HALF_SPACE, HALF_SPACE])
    before = earlier([CUTS[0], *FOUND])
    assert _found_again(new, before, np.array([1, 2, 3])) == {0: 0.0}
    new.bundle.add(0, None, slopes[1:], np.array([-5.0]), [HALF_SPACE])
    assert _found_again(new, before, np.array([1, 2, 3])) == {0: 0.0, 2: 2.0}


def test_another_dimension_or_more_blocks_do_not_fit():
    _check_shapes(run(), earlier(CUTS))
    _check_shapes(run(), earlier(FOUND))
    _check_shapes(run(), earlier(CUTS[:1]))
    with pytest.raises(cut.InvalidInputError, match="has dimension 3, the problem has 2"):
        _check_shapes(run(), earlier([([1.0, 0.0, 0.0], 0.0, 0, 0, 1.0)]))
    with pytest.raises(cut.InvalidInputError, match="has 3 blocks, the risk has 2; use the same number"):
        _check_shapes(run(), earlier([([1.0, 0.0], 0.0, 2, 0, 1.0)]))


def test_the_origin_of_cuts_is_asked_for_and_that_of_half_spaces_is_not():
    rows = [CUTS[0], CUTS[1], FOUND[2]]
    check_origin(run(), earlier(rows, AT), np.array([0, 1, 2]))
    wrong = earlier([CUTS[0], ([0.0, -3.0], 4.5, 1, 3, 1.0)], AT)
    check_origin(run(), wrong, np.array([0]))
    with pytest.raises(
        cut.InvalidInputError, match="comes from another risk: the oracle gives another answer"
    ):
        check_origin(run(), wrong, np.array([0, 1]))


def test_the_oracle_may_refuse_to_answer_for_another_risk():
    new = run()
    new.evaluator.risk.function = lambda x: 1 // 0
    with pytest.raises(
        cut.InvalidInputError, match=r"another risk: .* raised ZeroDivisionError: .*zero\. Cuts"
    ):
        check_origin(new, earlier(CUTS, AT), np.array([0]))


def test_without_points_the_start_is_that_of_the_problem():
    x, risk = _best_known(run(), earlier(CUTS))
    assert (x.tolist(), risk) == ([0.0, 0.0], None)


def test_the_start_is_the_point_of_least_objective_with_a_cut_of_each_block():
    """At (1, 2) the risk is 3 - 2 and the square 5; at (-1, 0) it is -1 + 4 and 1."""
    rows = [*CUTS[:2], ([2.0, 0.0], 1.0, 0, 6, 0.0), ([0.0, -3.0], 4.0, 1, 6, 0.0), *CUTS[2:]]
    points = AT | {6: np.array([-1.0, 0.0])}
    x, risk = _best_known(run(), earlier(rows, points))
    assert (x.tolist(), risk) == ([-1.0, 0.0], 3.0)
    x, risk = _best_known(run(), earlier(CUTS, AT))
    assert (x.tolist(), risk) == ([1.0, 2.0], 1.0)


def test_of_points_with_equal_objectives_the_first_is_taken():
    flat = [([0.0, 0.0], 5.0, block, query, 0.0) for query in (3, 6) for block in (0, 1)]
    points = {3: np.array([1.0, 2.0]), 6: np.array([2.0, 1.0])}
    assert _best_known(run(), earlier(flat, points))[0].tolist() == [1.0, 2.0]


def test_half_spaces_do_not_count_as_cuts_of_a_block():
    rows = [CUTS[0], ([1.0, 0.0], 0.0, HALF_SPACE, 3, 0.0)]
    assert _best_known(run(), earlier(rows, AT))[1] is None
    rows = [*CUTS[:2], ([1.0, 0.0], 100.0, HALF_SPACE, 3, 0.0)]
    assert _best_known(run(), earlier(rows, AT))[1] == 1.0


@pytest.mark.parametrize(
    "risk_value, wanted", [(1.0, [2.0, 1.0]), (0.99, [2.0, 1.0]), (1.01, [1.0, 2.0])], ids=str
)
def test_the_best_point_of_the_earlier_run_competes(risk_value, wanted):
    """Its square is 5 as well; at equal objectives the query point is taken."""
    proof = earlier(CUTS, AT, x=np.array([2.0, 1.0]), risk_value=risk_value)
    if risk_value == 1.0:
        wanted = [1.0, 2.0]
    x, risk = _best_known(run(), proof)
    assert (x.tolist(), risk) == (wanted, min(risk_value, 1.0))


def test_points_outside_the_simple_set_are_no_start():
    proof = earlier(CUTS, AT, x=np.array([2.0, 1.0]), risk_value=-100.0)
    x, risk = _best_known(run(cut.Box(0.0, [1.5, 9.0])), proof)
    assert (x.tolist(), risk) == ([1.0, 2.0], 1.0)
    x, risk = _best_known(run(cut.Box(5.0, 9.0)), proof)
    assert risk is None


class Begun(Run):
    """A run that notes where it begins and what it certifies."""

    method = cut.BMRM()

    def evaluate(self, x):
        return self.evaluator.point(x)

    cut_off = None

    def terms(self):
        return 1.0

    @property
    def began(self):
        return self.first.x.tolist()

    def add_cut(self, point):
        self.added = point.x.tolist()

    def certify(self, weights):
        self.certified = weights.tolist()


def begun(before, own=True, max_cuts=None):
    new = Begun(**vars(run()), certified=None)
    new.bundle.max_cuts = max_cuts
    resume(new, SimpleNamespace(certificate=replace(before, problem=new.problem) if own else before))
    return new


GIVEN = [([2.0, 0.0], 1.0, 0, 3, 1.0), ([0.0, -3.0], 4.0, 1, 3, 1.0)]
"""Both cuts of the risk, as its oracle gives them at any point."""


def test_a_run_begins_at_the_best_point_known_and_certifies_at_once():
    new = begun(earlier(GIVEN, AT))
    assert (new.began, new.added, new.certified) == ([1.0, 2.0], [1.0, 2.0], [1.0, 1.0])
    assert new.carried is not None
    assert new.unconfirmed == {}


def test_without_a_cut_of_each_block_nothing_is_certified():
    new = begun(earlier(GIVEN[:1], AT))
    assert (new.began, new.certified) == ([0.0, 0.0], None)


@pytest.mark.parametrize("max_cuts", [7, 8, 40])
def test_the_limit_of_rows_holds_after_all_are_added(max_cuts):
    rows = [*GIVEN, *(([float(k), 0.5], -9.0, 0, 5, 0.0) for k in range(8))]
    new = begun(earlier(rows, AT), max_cuts=max_cuts)
    assert len(new.bundle) == min(10, max_cuts)
    assert new.bundle.max_cuts == max_cuts
    assert sorted(new.certified)[-2:] == [1.0, 1.0]


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("share, same", [(0.9e-6, True), (1.1e-6, False)])
def test_the_risk_recorded_is_that_of_this_risk(sign, share, same):
    """At (2, 1) the blocks are 5 and 1; nothing else is known."""
    recorded = 6.0 * (1.0 + sign * share)
    before = earlier(GIVEN, {}, x=np.array([2.0, 1.0]), risk_value=recorded)
    if same:
        assert begun(before).began == [2.0, 1.0]
    else:
        with pytest.raises(cut.InvalidInputError, match=f"it recorded {recorded:.8g}, this risk is 6. Cuts"):
            begun(before)


WRONG = ([0.0, -1.0], 7.0, 1, 5, 0.0)
KNOWN = ([0.0, 0.0], -1.0, 0, TRIVIAL, 0.0)


@pytest.mark.parametrize(
    "rows, accepted",
    [
        ([GIVEN[0], WRONG, GIVEN[1]], True),
        ([GIVEN[0], GIVEN[1], WRONG], False),
        ([WRONG, GIVEN[0], GIVEN[1]], False),
        ([KNOWN, WRONG, GIVEN[0], GIVEN[1]], False),
        ([KNOWN, GIVEN[0], WRONG, GIVEN[1], KNOWN], True),
        ([GIVEN[0], (*WRONG[:4], 1e-9), GIVEN[1]], False),
    ],
)
def test_cuts_in_use_and_the_first_and_last_are_asked_for_again(rows, accepted):
    if accepted:
        middle = [tuple(row[0]) for row in rows].index((0.0, -1.0))
        assert list(begun(earlier(rows, AT), own=False).unconfirmed.values()) == [middle]
        return
    with pytest.raises(cut.InvalidInputError, match="comes from another risk"):
        begun(earlier(rows, AT), own=False)
    begun(earlier(rows, AT))


@pytest.mark.parametrize("weight, asked", [(0.0, False), (1e-9, True), (1.0, True)])
def test_cuts_are_confirmed_when_they_come_into_use(weight, asked):
    new = begun(earlier([GIVEN[0], WRONG, GIVEN[1]], AT), own=False)
    (base,) = new.unconfirmed
    new.proof = Proof(np.array([0, base]), np.array([1.0, weight]))
    if not asked:
        confirm_origin(new)
        return
    with pytest.raises(cut.InvalidInputError, match="comes from another risk"):
        confirm_origin(new)
    new.carried = None
    confirm_origin(new)

"""Which rows of an earlier certificate a run takes over, with which multipliers, and where it starts."""

from dataclasses import replace

import numpy as np
import pytest

import cutplane as cut
from cutplane.engine.run import Run
from cutplane.engine.warm_start import confirm_origin, resume
from cutplane.masters.base import HALF_SPACE
from cutplane.masters.select import Backend
from cutplane.proof.certificate import Certificate
from cutplane.proof.evidence import TRIVIAL

NORMALS, SIDES = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([5.0, 6.0])


def separate(x):
    return [
        cut.HalfSpace(normal, side) for normal, side in zip(NORMALS, SIDES, strict=True) if normal @ x > side
    ]


def oracle(x):
    return np.array([2.0 * x[0] + 1.0, -3.0 * x[1] + 4.0]), np.array([[2.0, 0.0], [0.0, -3.0]])


def problem(feasible=None, infima=None):
    risk = cut.OracleRisk(oracle, dim=2, blocks=2, **({} if infima is None else {"infimum": infima}))
    return cut.Problem(risk, cut.L2(2.0), feasible)


def earlier(rows, points=None, **changes):
    """Each row is (slope, offset, block, query, multiplier)."""
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    proof = {"x": None, "lower_bound": -np.inf, "upper_bound": np.inf, "risk_value": np.inf, "problem": None}
    return Certificate(*columns, points={} if points is None else points, **proof | changes)


CUTS = [
    ([2.0, 0.0], 1.0, 0, 3, 1.0),
    ([0.0, -3.0], 4.0, 1, 3, 1.0),
    ([0.0, -1.0], 7.0, 1, 5, 0.0),
]
"""Two cuts of the risk, in use, and an idle one that is wrong, and lies above."""
AT = {3: np.array([1.0, 2.0]), 5: np.array([3.0, 4.0]), 4: np.full(2, 9.0)}
FOUND = [([1.0, 0.0], -5.0, HALF_SPACE, 4, 2.0), ([0.0, 1.0], -6.0, HALF_SPACE, 4, 0.0)]
GONE = ([7.0, 7.0], -7.0, HALF_SPACE, 4, 3.0)


def begun(before, own=None, max_cuts=None):
    """A run that has resumed, and its unconfirmed rows; the certificate is of another risk, or of `own`."""
    run = Run(own or problem(), cut.ProximalBundle(), Backend(), max_cuts=max_cuts)
    return run, resume(run, before)


def of(own, before):
    return replace(before, problem=own)


def test_rows_keep_their_multipliers_points_and_blocks():
    own = problem()
    run, unconfirmed = begun(of(own, earlier([*CUTS[2:], *CUTS[:2]], AT)), own)
    assert unconfirmed == {}
    assert run.bundle.offsets[:3] == pytest.approx([7.0, 1.0, 4.0])
    assert run.bundle.blocks[:3].tolist() == [1, 0, 1]
    assert run.bundle.weights[:3].tolist() == [0.0, 1.0, 1.0]
    origins = [run.bundle.origin(row).tolist() for row in range(3)]
    assert origins == [[3.0, 4.0], [1.0, 2.0], [1.0, 2.0]]
    assert run.lower > -np.inf


@pytest.mark.parametrize("same_set", [True, False])
def test_half_spaces_of_the_same_set_are_taken_and_of_another_set_found_again(same_set):
    """The oracle returns two of the three again; the third is kept where the set is the same."""
    own = problem(cut.separation_oracle(separate))
    before = earlier([*CUTS[:2], *FOUND, GONE], AT)
    run, _ = begun(of(own if same_set else problem(), before), own)
    half = run.bundle.blocks == HALF_SPACE
    assert sorted(run.bundle.offsets[half].tolist()) == ([-7.0] if same_set else []) + [-6.0, -5.0]
    assert run.bundle.ids.size == len(set(run.bundle.ids.tolist()))


def test_half_spaces_without_a_point_or_an_oracle_are_left_out():
    before = earlier([*CUTS[:2], *FOUND], {3: AT[3]})
    for own in (problem(), problem(cut.separation_oracle(separate))):
        run, _ = begun(of(problem(), before), own)
        assert not run.bundle.has_half_spaces


def test_multipliers_of_examples_are_kept():
    own = problem()
    before = of(own, earlier(CUTS, {3: AT[3]}, duals={5: np.arange(3.0)}))
    run, _ = begun(before, own)
    assert [dual.tolist() for dual in run.bundle.duals.values()] == [[0.0, 1.0, 2.0]]
    assert run.known_multipliers().tolist() == [0.0, 1.0, 2.0]


def test_another_dimension_or_more_blocks_do_not_fit():
    with pytest.raises(cut.InvalidInputError, match="has dimension 3, the problem has 2"):
        begun(earlier([([1.0, 0.0, 0.0], 0.0, 0, 0, 1.0)]))
    with pytest.raises(cut.InvalidInputError, match="has 3 blocks, the risk has 2; use the same number"):
        begun(earlier([([1.0, 0.0], 0.0, 2, 0, 1.0)]))


def test_the_start_is_the_best_point_with_a_cut_of_each_block():
    """At (1, 2) the objective is 1 + 5, at (-1, 0) it is 3 + 1, at (0, 0) 5."""
    more = [([2.0, 0.0], 1.0, 0, 6, 0.0), ([0.0, -3.0], 4.0, 1, 6, 0.0)]
    half = ([1.0, 0.0], 100.0, HALF_SPACE, 6, 0.0)
    points = AT | {6: np.array([-1.0, 0.0])}
    for rows, start in (
        ([*CUTS, *more], [-1.0, 0.0]),
        (CUTS, [1.0, 2.0]),
        ([*CUTS[:2], more[0], half], [1.0, 2.0]),
        (CUTS[:1], [0.0, 0.0]),
    ):
        own = problem()
        assert begun(of(own, earlier(rows, points)), own)[0].first.x.tolist() == start
    inside = problem(cut.Box(0.0, 9.0))
    assert begun(of(inside, earlier([*CUTS, *more], points)), inside)[0].first.x.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("share, same", [(0.9e-6, True), (1.1e-6, False)])
def test_the_recorded_risk_is_compared(sign, share, same):
    """At (-1, 0) the blocks are -1 and 4; its objective is the least."""
    own, recorded = problem(), 3.0 * (1.0 + sign * share)
    before = of(own, earlier(CUTS, AT, x=np.array([-1.0, 0.0]), risk_value=recorded))
    if same:
        assert begun(before, own)[0].first.x.tolist() == [-1.0, 0.0]
    else:
        with pytest.raises(cut.InvalidInputError, match=f"it recorded {recorded:.8g}, this risk is 3. Cuts"):
            begun(before, own)


KNOWN = ([0.0, 0.0], -1.0, 0, TRIVIAL, 0.0)


@pytest.mark.parametrize(
    "order, accepted", [([0, 2, 1], True), ([0, 1, 2], False), ([2, 0, 1], False)], ids=str
)
def test_of_another_risk_cuts_in_use_and_the_first_and_last_are_confirmed(order, accepted):
    before = earlier([KNOWN, *(CUTS[k] for k in order), KNOWN], AT)
    if accepted:
        run, unconfirmed = begun(before)
        assert list(unconfirmed.values()) == [1 + order.index(2)]
        confirm_origin(run, before, unconfirmed)
        (base,) = unconfirmed
        run.proof = run.proof._replace(ids=np.array([base]), multipliers=np.array([1e-9]))
        with pytest.raises(cut.InvalidInputError, match="comes from another risk"):
            confirm_origin(run, before, unconfirmed)
    else:
        with pytest.raises(cut.InvalidInputError, match="comes from another risk: the oracle gives another"):
            begun(before)
    own = problem()
    assert begun(of(own, before), own)[1] == {}


def test_the_oracle_may_refuse_to_answer_for_another_risk():
    own = problem()
    own.risk.function = lambda x: 1 // 0
    with pytest.raises(cut.InvalidInputError, match=r"another risk: .* raised ZeroDivisionError: .*zero\. "):
        begun(earlier(CUTS[:2], AT), own)


@pytest.mark.parametrize("max_cuts", [7, 8, 40])
def test_the_limit_of_rows_holds_after_all_are_added(max_cuts):
    own = problem()
    rows = [*CUTS[:2], *(([float(k), 0.5], -90.0, 0, 5, 0.0) for k in range(8))]
    run, _ = begun(of(own, earlier(rows, {3: AT[3]})), own, max_cuts)
    assert len(run.bundle) <= max_cuts
    assert run.bundle.max_cuts == max_cuts
    assert sorted(run.bundle.weights)[-2:] == [1.0, 1.0]

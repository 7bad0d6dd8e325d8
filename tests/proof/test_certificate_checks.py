"""What `Certificate.verify` confirms and what it says, with numbers that are exact in binary."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import cutplane as cut
from cutplane.proof.certificate import Certificate, Verification
from cutplane.proof.dual import DualFunction
from cutplane.proof.rounding import CANCELLED

OPTIMUM = -15.0 / 32.0
INF = np.inf


def oracle(x):
    return (3.0 * x[0] - 3.0, np.array([3.0])) if 4.0 * x[0] > 3.0 else (-x[0], np.array([-1.0]))


def problem(feasible=None, function=oracle):
    """max(3 x - 3, -x) + x^2 / 2, least at 3/4."""
    return cut.Problem(cut.OracleRisk(function, dim=1), cut.L2(1.0), feasible)


def certificate(**changes):
    proof = Certificate(
        slopes=np.array([[3.0], [-1.0]]),
        offsets=np.array([-3.0, 0.0]),
        blocks=np.array([0, 0]),
        queries=np.array([0, 1]),
        multipliers=np.array([0.0625, 0.9375]),
        points={0: np.array([1.0]), 1: np.array([0.0])},
        x=np.array([0.75]),
        lower_bound=OPTIMUM,
        upper_bound=OPTIMUM,
        risk_value=-0.75,
        problem=problem(),
    )
    return replace(proof, **changes)


def one_row(slope, offset, x, function, **changes):
    """A certificate of one cut, made at 0."""
    return certificate(
        slopes=np.array([[slope]]),
        offsets=np.array([offset]),
        blocks=np.zeros(1, dtype=int),
        queries=np.zeros(1, dtype=int),
        multipliers=np.ones(1),
        points={0: np.zeros(1)},
        x=np.array([x]),
        problem=problem(function=function),
        **changes,
    )


PROVEN = certificate().verify().lower_bound


def test_a_proof_is_confirmed():
    assert OPTIMUM - 1e-13 < PROVEN <= OPTIMUM
    assert certificate().verify() == Verification(True, PROVEN, OPTIMUM, 2, ())
    assert certificate(problem=None).verify(problem()).valid
    assert certificate(slopes=sparse.csr_array([[3.0], [-1.0]])).verify().valid


def test_rows_without_multipliers_are_not_asked_for():
    idle = certificate(
        slopes=np.array([[3.0], [-1.0], [100.0]]),
        offsets=np.array([-3.0, 0.0, 100.0]),
        blocks=np.array([0, 0, 0]),
        queries=np.array([0, 1, 77]),
        multipliers=np.array([0.0625, 0.9375, 0.0]),
    )
    assert idle.verify() == Verification(True, PROVEN, OPTIMUM, 2, ())


def test_a_wrong_row_leaves_no_lower_bound():
    found = certificate(offsets=np.array([-2.5, 0.0]), queries=np.array([0, 1])).verify()
    assert found == Verification(
        False, -INF, OPTIMUM, 2, ("the oracle gives another answer at query 0 than the one recorded",)
    )


MALFORMED = {
    "dimension": (
        {"slopes": np.zeros((2, 2))},
        "slopes of shape (2, 2) and rows of shapes [(2,), (2,), (2,), (2,)] do not fit dimension 1",
    ),
    "one dimension": (
        {"slopes": np.zeros(2)},
        "slopes of shape (2,) and rows of shapes [(2,), (2,), (2,), (2,)] do not fit dimension 1",
    ),
    "offsets": (
        {"offsets": np.zeros(3)},
        "slopes of shape (2, 1) and rows of shapes [(3,), (2,), (2,), (2,)] do not fit dimension 1",
    ),
    "blocks": (
        {"blocks": np.zeros(1, dtype=int)},
        "slopes of shape (2, 1) and rows of shapes [(2,), (1,), (2,), (2,)] do not fit dimension 1",
    ),
    "x": ({"x": np.zeros(2)}, "x or a query point is not a vector of 1 finite numbers"),
    "x not finite": ({"x": np.array([np.nan])}, "x or a query point is not a vector of 1 finite numbers"),
    "points": (
        {"points": {0: np.ones(1), 1: np.array([INF])}},
        "x or a query point is not a vector of 1 finite numbers",
    ),
    "slopes not finite": (
        {"slopes": np.array([[3.0], [np.nan]])},
        "slopes, offsets or multipliers are not finite",
    ),
    "sparse slopes not finite": (
        {"slopes": sparse.csr_array([[3.0], [INF]])},
        "slopes, offsets or multipliers are not finite",
    ),
    "offsets not finite": (
        {"offsets": np.array([INF, 0.0])},
        "slopes, offsets or multipliers are not finite",
    ),
    "multipliers not finite": (
        {"multipliers": np.array([INF, 0.0])},
        "slopes, offsets or multipliers are not finite",
    ),
    "negative": ({"multipliers": np.array([1.0, -1e-300])}, "a multiplier is negative"),
    "lower nan": ({"lower_bound": np.nan}, "a bound is not a number"),
    "upper nan": ({"upper_bound": np.nan}, "a bound is not a number"),
    "risk nan": ({"risk_value": np.nan}, "a bound is not a number"),
    "no x": ({"x": None}, "there is no x to prove the upper bound -0.46875"),
    "no multipliers": (
        {"multipliers": np.zeros(2)},
        "there are no multipliers to prove the lower bound -0.46875",
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_numbers_that_cannot_be_a_proof_are_refused_before_an_oracle_is_asked(name):
    changes, said = MALFORMED[name]
    found = certificate(**changes).verify()
    assert found == Verification(False, -INF, INF, 0, (said,))
    assert certificate(**changes).malformed(1) == [said]


@pytest.mark.parametrize("name", ["x", "points"])
def test_one_entry_that_is_not_finite_is_enough(name):
    wide = certificate(slopes=np.zeros((2, 2)), points={0: np.zeros(2)}, x=np.zeros(2))
    bad = np.array([1.0, np.nan])
    assert wide.malformed(2) == []
    said = ["x or a query point is not a vector of 2 finite numbers"]
    assert replace(wide, **{name: bad if name == "x" else {0: bad}}).malformed(2) == said


def test_a_proof_of_one_bound_alone_is_confirmed():
    below = certificate(x=None, upper_bound=INF).verify()
    assert below == Verification(True, PROVEN, INF, 2, ())
    above = certificate(lower_bound=-INF, multipliers=np.zeros(2)).verify()
    assert above == Verification(True, -INF, OPTIMUM, 0, ())
    assert certificate(lower_bound=-INF).verify() == Verification(True, -INF, OPTIMUM, 2, ())


HALF = {"x": np.array([0.5]), "upper_bound": -0.375, "risk_value": -0.5}


@pytest.mark.parametrize("share, valid", [(-0.1, True), (0.0, True), (0.9e-9, True), (1.1e-9, False)])
def test_a_lower_bound_may_be_as_far_above_what_is_recomputed(share, valid):
    claimed = OPTIMUM + share * abs(OPTIMUM)
    found = certificate(**HALF, lower_bound=claimed).verify()
    assert found.valid == valid
    assert found.lower_bound == PROVEN
    if not valid:
        said = f"the multipliers give the lower bound -0.46875, not {claimed:.10g}"
        assert found.problems == (said,)


@pytest.mark.parametrize("share, valid", [(0.9e-9, True), (1.1e-9, False)])
def test_a_lower_bound_may_have_been_charged_less_for_rounding_errors_of_slopes(share, valid):
    """1e4 + 1e5 max(3 x - 3, -x) + 1e-8 |x|, whose multipliers have to be exact in the last bit."""
    weight = 1e-8

    def steep(x):
        value, slope = oracle(x)
        return 1e5 * (1.0 + value), 1e5 * slope

    declared = cut.Problem(cut.OracleRisk(steep, dim=1, infimum=0.0), cut.L1(weight))
    rows = np.array([[3e5], [-1e5]]), np.array([-2e5, 1e5]), np.zeros(2, dtype=int)
    dual, upper = DualFunction(declared), 2.5e4 + 0.75 * weight
    first = 0.25 * (1.0 + weight / 1e5)
    shares = first * (1.0 + 2.0**-52 * np.arange(-3.0, 4.0))
    multipliers = np.stack([shares, 1.0 - shares], axis=1)
    values = np.array([dual(*rows, one, upper).value for one in multipliers])
    above = DualFunction(declared, charged=False)(*rows, multipliers[values.argmin()], upper).value
    assert values.min() < 0.99 * values.max() and values.max() < above
    point = {"x": np.array([0.75]), "upper_bound": upper, "risk_value": 2.5e4, "problem": declared}
    given = {"slopes": rows[0], "offsets": rows[1], "multipliers": multipliers[values.argmin()], **point}
    found = certificate(**given, lower_bound=above * (1.0 + share)).verify()
    assert found.valid == valid and np.isclose(found.lower_bound, values.min(), rtol=1e-12)


@pytest.mark.parametrize("share, valid", [(0.9e-12, True), (1.1e-12, False)])
def test_a_lower_bound_may_be_above_the_objective_by_rounding(share, valid):
    found = certificate(lower_bound=OPTIMUM + share * abs(OPTIMUM)).verify()
    assert found.valid == valid
    said = "the lower bound -0.46875 is above the objective -0.46875"
    assert found.problems == (() if valid else (said,))
    assert found.lower_bound == PROVEN


@pytest.mark.parametrize("share, valid", [(0.5, True), (1.05, False)])
def test_a_lower_bound_may_be_above_an_objective_that_cancelled_by_bits_of_its_terms(share, valid):
    """8 - 4 x + x^2 / 2 is 0 at 4, where both terms are 8."""
    found = one_row(
        -4.0,
        8.0,
        4.0,
        lambda x: (8.0 - 4.0 * x[0], np.array([-4.0])),
        lower_bound=share * CANCELLED * 16.0,
        upper_bound=0.0,
        risk_value=-8.0,
    ).verify()
    assert found.valid == valid
    assert valid or "is above the objective 0" in found.problems[-1]


def test_a_proof_without_any_size_is_confirmed():
    zeros = {"lower_bound": 0.0, "upper_bound": 0.0, "risk_value": 0.0}
    zero = one_row(0.0, 0.0, 0.0, lambda x: (0.0, np.zeros(1)), **zeros)
    assert zero.verify() == Verification(True, 0.0, 0.0, 1, ())


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("share, valid", [(0.9e-9, True), (1.1e-9, False)])
def test_an_upper_bound_is_the_objective_up_to_its_terms(sign, share, valid):
    """The terms at 1/2 are 1/2 and 1/8."""
    claimed = -0.375 + sign * share * 0.625
    found = certificate(**HALF | {"upper_bound": claimed}).verify()
    assert found.valid == valid
    assert found.upper_bound == -0.375
    assert found.problems == (() if valid else (f"the objective at x is -0.375, not {claimed:.10g}",))


@pytest.mark.parametrize("share, valid", [(0.0, True), (0.9e-7, True), (1.1e-7, False)])
def test_x_may_be_outside_a_simple_set_by_the_tolerance(share, valid):
    box = cut.Box(-1.0, 0.75 * (1.0 - share))
    found = certificate(problem=problem(box)).verify()
    outside = [said for said in found.problems if said.startswith("x violates Box")]
    assert (not outside) == valid
    if not valid:
        assert outside[0].endswith(f"by {0.75 * share:.3g}")


@pytest.mark.parametrize("share, inside", [(0.9e-9, True), (1.1e-9, False)])
def test_points_of_a_simple_set_may_be_outside_by_what_projections_leave(share, inside):
    assert problem(cut.Box(-1.0, 0.75)).in_simple_set(np.array([0.75 * (1.0 + share)])) == inside


def test_a_separation_oracle_may_not_cut_x_off():
    cut_off = cut.separation_oracle(lambda x: [cut.HalfSpace(np.ones(1), 0.5)] if x[0] > 0.5 else [])
    found = certificate(problem=problem(cut_off)).verify()
    assert found == Verification(False, PROVEN, OPTIMUM, 2, ("a separation oracle cuts x off",))


def test_oracles_that_fail_are_named():
    def failing(where):
        def function(x):
            if x[0] == where:
                raise ValueError("no answer")
            return oracle(x)

        return problem(function=function)

    found = certificate(problem=failing(0.75)).verify()
    (said,) = found.problems
    assert said.startswith("the oracles cannot be asked about x: ")
    assert "no answer" in said
    assert (found.valid, found.lower_bound, found.upper_bound) == (False, PROVEN, INF)
    found = certificate(problem=failing(1.0)).verify()
    (said,) = found.problems
    assert said.startswith("query 0 cannot be asked for again: ")
    assert (found.lower_bound, found.upper_bound) == (-INF, OPTIMUM)


def test_the_same_complaint_is_made_once():
    found = certificate(points={}).verify()
    assert len(found.problems) == 2
    assert len(certificate(points={}, queries=np.array([4, 4])).verify().problems) == 1


class Estimated(cut.OnDemandRisk):
    dim = 1

    def oracle(self, x):
        return oracle(x)

    def estimate(self, x, accuracy, last):
        value, slope = oracle(x)
        offset = value - slope @ x
        return cut.risks.base.Estimate(
            np.array([value]), slope[np.newaxis], np.array([offset]), np.array([1.0])
        )

    def dual_cut(self, multipliers):
        return np.array([[3.0]]), np.array([-3.0])


@pytest.mark.parametrize("excess, valid", [(-0.1, True), (0.5e-9, True), (2e-9, False)])
def test_a_run_that_asked_for_less_accuracy_may_have_found_a_higher_value(excess, valid):
    """A recorded objective may be above the one that is recomputed, not below it."""
    claimed, own = -0.375 - excess, cut.Problem(Estimated(), cut.L2(1.0))
    assert certificate(**HALF | {"upper_bound": claimed}, problem=own).verify().valid == valid


def test_memory_and_display():
    proof = certificate(duals={5: np.zeros(3)})
    assert proof.n_bytes == 16 + 16 + 24
    assert certificate(slopes=sparse.csr_array([[3.0], [0.0]])).n_bytes == 8 + 16
    assert repr(proof) == "Certificate(-0.46875 <= optimum <= -0.46875, 2 of 2 cuts in use)"


def test_a_certificate_from_a_file_needs_the_problem():
    with pytest.raises(cut.InvalidInputError, match=r"call verify\(problem\)"):
        certificate(problem=None).verify()

"""Both bounds: what improves them, what rounding forgives, and what contradicts them."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

import cutplane as cut
from cutplane.engine.bounds import (
    Bounds,
    allowed,
    check_cuts,
    check_separation,
)
from cutplane.engine.bundle import Bundle, Proof
from cutplane.engine.evaluator import Point
from cutplane.engine.run import Run
from cutplane.exceptions import OracleError
from cutplane.masters.base import HALF_SPACE
from cutplane.masters.select import Backend
from cutplane.proof.rounding import CANCELLED
from cutplane.sets import HalfSpaces

INF = math.inf


def point(objective, feasible=True, x=1.0):
    return Point(np.array([x]), objective, np.array([objective]), feasible=feasible)


def bounds(upper=None, exact=True):
    found = Bounds(exact)
    if upper is not None:
        found.offer_point(point(upper))
    return found


def proof():
    return Proof(np.array([0]), np.array([1.0]))


@pytest.mark.parametrize(
    "objective, feasible, kept, better",
    [
        (9.0, True, True, True),
        (9.0, False, False, False),
        (10.0, True, False, False),
        (11.0, True, False, False),
        (10.0 * (1.0 - 2e-13), True, True, True),
        (10.0 * (1.0 - 0.5e-13), True, True, False),
        (INF, True, False, False),
        (-INF, True, True, True),
    ],
)
def test_a_feasible_point_that_is_better_is_kept(objective, feasible, kept, better):
    found = bounds(10.0)
    offered = point(objective, feasible)
    assert found.offer_point(offered) == better
    assert (found.best is offered) == kept
    assert found.upper == (objective if kept else 10.0)


def test_the_scale_is_the_largest_size_of_any_objective():
    found = Bounds()
    for objective, scale in ((-3.0, 3.0), (2.0, 3.0), (INF, 3.0), (-INF, 3.0), (7.0, 7.0)):
        found.offer_point(point(objective, feasible=False))
        assert found.scale == scale


@pytest.mark.parametrize(
    "value, kept, better",
    [
        (2.0, True, True),
        (1.0, False, False),
        (0.5, False, False),
        (1.0 + 2e-12, True, True),
        (1.0 + 0.5e-12, True, False),
        (-INF, False, False),
        (math.nan, False, False),
    ],
)
def test_a_better_bound_is_kept_with_its_proof(value, kept, better):
    found, new = bounds(10.0), proof()
    assert found.offer_bound(1.0, 10.0, proof())
    assert found.offer_bound(value, 10.0, new) == better
    assert found.lower == (value if kept else 1.0)
    assert (found.proof is new) == kept


@pytest.mark.parametrize(
    "excess, lower",
    [
        (0.0, 10.0),
        (-1e-13, 10.0 - 1e-13),
        (0.5e-11, 10.0 - 0.5e-11),
        (1.1e-11 + CANCELLED * 30.0, 10.0 - (1.1e-11 + CANCELLED * 30.0)),
        (1e-7, 10.0 - 1e-7),
        (2.9e-6, 10.0 - 2.9e-6),
    ],
)
def test_a_bound_above_a_point_is_settled(excess, lower):
    """Rounding and an oracle's error, 1e-7 of 20 + 10, leave a gap as large as the contradiction."""
    found = bounds(10.0)
    found.offer_bound(10.0 + excess, 20.0, proof())
    assert found.lower == pytest.approx(lower, abs=5e-15)


@pytest.mark.parametrize("excess", [3.1e-6, 1.0])
def test_a_bound_far_above_a_point_is_a_contradiction(excess):
    found = bounds(10.0)
    with pytest.raises(OracleError, match=r"exceeds the objective 10 at x = \[1\.\]") as error:
        found.offer_bound(10.0 + excess, 20.0, proof())
    assert f"The lower bound {10.0 + excess:.10g} " in str(error.value)
    assert found.lower == -INF


def test_rounding_of_the_largest_objective_that_was_seen_is_no_contradiction():
    found = bounds(10.0)
    found.offer_point(point(1e9, feasible=False))
    assert found.offer_bound(10.0 + 0.9e-3, 20.0, proof())
    assert found.lower == pytest.approx(10.0 - 0.9e-3, abs=1e-12)
    with pytest.raises(OracleError):
        found.offer_bound(10.0 + 1.1e-3, 20.0, proof())


def test_a_better_point_settles_the_bound_anew():
    found = bounds(10.0)
    kept = proof()
    found.offer_bound(9.0, 20.0, kept)
    found.offer_point(point(9.0 - 1e-7))
    assert found.lower == pytest.approx(9.0 - 2e-7, abs=1e-12)
    assert found.proof is kept
    with pytest.raises(OracleError, match="The lower bound 9 exceeds the objective 8"):
        found.offer_point(point(8.0))


def test_an_inexact_oracle_forgets_a_bound_that_a_point_contradicts():
    found = bounds(10.0, exact=False)
    kept = proof()
    found.offer_bound(9.0, 20.0, kept)
    assert found.offer_point(point(9.0))
    assert (found.lower, found.proof) == (9.0, kept)
    assert found.offer_point(point(8.0))
    assert found.lower == -INF
    assert found.proof.ids.size == 0
    assert found.offer_bound(8.5, 20.0, proof()) is False
    assert found.lower == -INF
    assert found.offer_bound(8.0, 20.0, proof())
    assert found.lower == 8.0


def test_an_inexact_oracle_falls_back_on_what_was_known_beforehand():
    found, known = bounds(10.0, exact=False), proof()
    found.offer_known(1.0, known)
    found.offer_bound(9.0, 20.0, proof())
    found.offer_point(point(8.0))
    assert (found.lower, found.proof) == (1.0, known)


def test_a_known_bound_has_no_rounding_errors():
    found, known = bounds(10.0), proof()
    found.offer_known(10.0 + 0.9e-11, known)
    assert found.lower == pytest.approx(10.0 - 0.9e-11, abs=2e-15)
    assert found.proof is known
    again = bounds(10.0)
    with pytest.raises(OracleError):
        again.offer_known(10.0 + 1.1e-6, proof())


def test_the_known_bound_takes_the_place_of_one_that_a_point_pushed_below_it():
    found, known, other = bounds(2.0), proof(), proof()
    found.offer_known(1.0, known)
    found.offer_bound(1.0 + 1e-8, 2.0, other)
    assert found.proof is other
    found.offer_point(point(1.0 + 0.2e-8))
    assert found.lower == 1.0
    assert found.proof is known
    found.offer_point(point(1.0 + 0.1e-8))
    assert (found.lower, found.proof) == (1.0, known)


def test_higher_cuts_raise_the_values_at_the_best_point():
    found = Bounds(exact=False)
    found.offer_point(Point(np.array([2.0]), 10.0, np.array([1.0, 5.0])))
    found.raise_best(np.array([[1.0], [1.0]]), np.array([0.5, 2.0]))
    assert found.best.values.tolist() == [2.5, 5.0]
    assert found.upper == 11.5
    best = found.best
    found.raise_best(np.array([[1.0], [1.0]]), np.array([0.5, 3.0]))
    assert found.best is best
    assert found.upper == 11.5


def test_terms_of_a_sum_that_cancel_are_charged_to_the_bound():
    """Far from zero both terms are 1e16: their slopes cancel, and the last digits of the values are lost."""
    X = np.array([[1.0], [-1.0]])
    hinges = cut.LinearRisk(X, np.array([1.0, 1.0]), cut.losses.Hinge())
    risk = hinges + cut.LinearObjective([-0.5])
    far = np.array([3.0**33])
    image = risk.image(far)
    assert risk.slopes(image).tolist() == [0.0]
    assert risk.cancelled(image) == pytest.approx(far[0], rel=1e-9)
    assert (0.5 * hinges + 2.0 * hinges).cancelled((image[0], image[0])) == 0.0
    assert risk.disaggregated().cancelled(image).tolist() == [0.0, 0.0]
    problem = cut.Problem(risk, feasible_set=cut.Box(-1e16, 1e16))
    result = problem.solve(cut.ProximalBundle(weight=1e-20), x0=far, tol=1e-9, max_iter=50)
    assert result.lower_bound <= 0.5
    assert result.status is not cut.Status.INVALID_ORACLE


def test_what_rounding_leaves_of_terms_of_a_known_size_is_no_contradiction():
    """Every objective may be 0 where terms of the size 1 cancel."""
    found = bounds(0.0)
    found.terms = lambda: 1.0
    found.offer_bound(3e-16, 3e-16, proof())
    assert found.lower == -3e-16
    with pytest.raises(OracleError):
        found.offer_bound(2e-12, 2e-12, proof())


def test_slopes_that_cancel_far_away_are_steep_elsewhere():
    """Two predictions of the size 1 are sums of terms of the size 1e15 whose last digits are lost."""
    r, s = np.random.default_rng(2).normal(size=(2, 3))
    risk = cut.LinearRisk(np.array([r, s, -(r + s)]), np.ones(3), cut.losses.Hinge())
    run = Run(cut.Problem(risk, cut.L2(1.0)), cut.Kelley(), Backend())
    run.first = run.query(np.zeros(3))
    run.query(5.0 * np.ones(3))
    far = run.query(3e14 * np.cross(r, s))
    slopes, offsets = run.evaluator.cut(far)
    assert np.abs(slopes).max() < 1e-15
    assert offsets[0] <= run.best.values[0]


@pytest.mark.parametrize("wrap", [lambda f: f, lambda f: f.shift(np.zeros(1)), lambda f: cut.maximum(f)])
def test_terms_of_a_sum_without_images_that_cancel_are_known(wrap):
    """The same for black boxes, which have no image: the sum keeps its terms."""
    calls = []

    @cut.risk(dim=1)
    def hinges(x):
        calls.append(x.copy())
        return float(np.maximum(0.0, 1.0 - x[0]) + np.maximum(0.0, 1.0 + x[0])), np.sign(x)

    risk = wrap(hinges + cut.LinearObjective([-1.0]))
    evaluator = Run(cut.Problem(risk, feasible_set=cut.Box(-1e16, 1e16)), cut.Kelley(), Backend()).evaluator
    far = evaluator.point(np.array([3.0**33]))
    assert evaluator.cancelled(far) == pytest.approx(2.0 * far.x[0], rel=1e-9)
    assert evaluator.cancelled(evaluator.point(np.zeros(1))) == 0.0
    assert len(calls) == 2
    evaluator.risk.cancelled(far.x)
    assert len(calls) == 3


INSIDE, OUTSIDE = 0.99e-7, 1.01e-7


def wave(x):
    return x


PROBLEM = SimpleNamespace(risk=wave)


def known_at(x, *values):
    return Point(np.array(x, dtype=float), float(np.sum(values)), np.array(values, dtype=float))


def test_tolerance_is_relative_to_the_answers_and_to_what_cancels():
    assert allowed(3.0, 0.0) == pytest.approx(3e-7)
    assert allowed(0.0, 5.0) == pytest.approx(5e-12)
    assert allowed(3.0, 1e6) == pytest.approx(3e-7 + 1e-6)


def bundle_with(offset, slope=(3.0,), query_point=(-2.0,), block=0, n_blocks=1, sparse_slopes=False):
    bundle = Bundle(len(slope), n_blocks)
    slopes = np.array([slope], dtype=float)
    x = None if query_point is None else np.array(query_point, dtype=float)
    rows = sparse.csr_array(slopes) if sparse_slopes else slopes
    bundle.add(4, x, rows, np.array([offset]), [block])
    return bundle


def check(bundle, at, noise=0.0):
    cuts = bundle.slopes, bundle.offsets, bundle.blocks
    check_cuts(PROBLEM, cuts, bundle.origin, at.x, at.values, noise)


@pytest.mark.parametrize("sparse_slopes", [False, True])
@pytest.mark.parametrize("origin, terms", [((-2.0,), 22.0), ((50.0,), 166.0), (None, 16.0)])
def test_an_earlier_cut_may_lie_above_a_value_by_the_tolerance(origin, terms, sparse_slopes):
    """At x = -1 the value is 5 and the cut 3 x + 8 + e; the terms are 5 + 8 + 3 and those of its offset."""
    at = known_at([-1.0], 5.0)
    check(bundle_with(8.0 + INSIDE * terms, query_point=origin, sparse_slopes=sparse_slopes), at)
    with pytest.raises(OracleError, match=rf"lies {OUTSIDE * terms:.3g} above"):
        check(bundle_with(8.0 + OUTSIDE * terms, query_point=origin, sparse_slopes=sparse_slopes), at)


def test_the_error_names_the_point_of_the_cut():
    with pytest.raises(OracleError, match=r"The cut of wave at x = \[-2\.\] lies 0\.5 above .* x = \[-1\.\]"):
        check(bundle_with(8.5), known_at([-1.0], 5.0))
    with pytest.raises(OracleError, match=r"The cut of wave at an earlier point lies 0\.5 above"):
        check(bundle_with(8.5, query_point=None), known_at([-1.0], 5.0))


def test_terms_that_cancelled_widen_the_tolerance_of_an_earlier_cut():
    excess = 1e-3
    check(bundle_with(8.0 + excess), known_at([-1.0], 5.0), noise=1e9)
    with pytest.raises(OracleError):
        check(bundle_with(8.0 + excess), known_at([-1.0], 5.0), noise=0.99e9)


def test_half_spaces_are_no_cuts():
    bundle = bundle_with(0.0, slope=(0.0,))
    bundle.add(5, np.zeros(1), np.array([[0.0]]), np.array([1e6]), [HALF_SPACE])
    check(bundle, known_at([1.0], 0.0))


def test_each_block_has_its_own_value_and_tolerance():
    at, bundle = known_at([0.0], 1.0, 1000.0), Bundle(1, 2)
    bundle.add(0, at.x, np.zeros((2, 1)), np.array([1.0, 1000.0 + 1.98e-4]), [0, 1])
    check(bundle, at)
    bundle.add(1, at.x, np.zeros((1, 1)), np.array([1.0 + 3e-7]), [0])
    with pytest.raises(OracleError, match=r"lies 3e-07 above"):
        check(bundle, at)


def separate(share, extent=2.0):
    """<(3, -4), x> <= b cuts off (1, 0) by `share` of the size 14 + |b| of its terms; b = 3 - that."""
    offset = (3.0 - share * 14.0) / (1.0 + share)
    spaces = HalfSpaces(np.array([[1.0, 0.0], [3.0, -4.0]]), np.array([5.0, offset]))
    check_separation(spaces, np.array([9.0, 8.0]), np.array([1.0, 0.0]), extent, 0.0)


@pytest.mark.parametrize("share", [-1e-2, 0.0, INSIDE])
def test_a_half_space_may_cut_off_a_feasible_point_by_the_tolerance(share):
    separate(share)


@pytest.mark.parametrize("share", [OUTSIDE, 0.5])
def test_a_half_space_that_cuts_off_a_feasible_point_is_a_contradiction(share):
    with pytest.raises(OracleError, match="Check the oracle with cutplane"):
        separate(share)


def test_the_tolerance_of_a_half_space_grows_with_the_extent():
    separate(3.0 * OUTSIDE, extent=8.0)


def test_a_half_space_through_the_only_point_known_is_no_contradiction():
    spaces = HalfSpaces(np.array([[1.0]]), np.array([0.0]))
    check_separation(spaces, np.array([1.0]), np.array([0.0]), 0.0, 0.0)


def test_the_tolerance_of_an_oracle_may_be_that_of_the_size_of_the_set():
    """Of a cone in a box of size 1e3, points of size 1e-6 are inside up to 1e-9 of the box."""
    spaces = HalfSpaces(np.array([[-1.0, 0.0]]), np.zeros(1))
    inside, x = np.array([-5e-7, 0.0]), np.array([-2e-6, 0.0])
    check_separation(spaces, x, inside, 2e-6, 1e3)
    for scale in (0.0, 1e2):
        with pytest.raises(OracleError, match="cuts off the point"):
            check_separation(spaces, x, inside, 2e-6, scale)


@pytest.mark.parametrize(("second", "raised"), [(0.5, True), (-0.5, False)])
def test_one_of_several_new_rows_above_the_model_is_a_change(second, raised):
    """The model is 0 at its minimiser, where the new rows have the values -1 and `second`."""
    risk = cut.OracleRisk(lambda x: (np.zeros(2), np.zeros((2, 1))), dim=1, blocks=2)
    run = Run(cut.Problem(risk, cut.L2(1.0)), cut.BMRM(), Backend())
    run.first = run.query(np.zeros(1))
    run.reduced()
    run.moved = False
    run.bundle.add(9, np.ones(1), np.ones((2, 1)), np.array([-1.0, second]), [0, 1])
    assert run._raises_model(slice(len(run.bundle) - 2, None)) is raised

"""Both bounds: what improves them, what rounding forgives, and what contradicts them."""

import math

import numpy as np
import pytest

import cutplane as cut
from cutplane.engine.bounds import Bounds
from cutplane.engine.bundle import Proof
from cutplane.engine.evaluator import Point
from cutplane.engine.run import Run
from cutplane.exceptions import OracleError
from cutplane.masters.select import Backend
from cutplane.proof.rounding import CANCELLED

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
    """Far out the two terms are 1e16 each: their slopes cancel, and so do the last digits of the values."""
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
    """The same of black boxes, of which no image tells: the sum remembers what it was made of."""
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

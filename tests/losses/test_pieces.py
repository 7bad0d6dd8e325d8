"""Convex piecewise quadratic functions against their definition, whatever their knots and curvatures."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from own_losses import outlines

from cutplane.exceptions import InvalidInputError, MissingCapabilityError
from cutplane.losses import ExamplePieces, Hinge, Huber, MarginLoss, Pieces, ScalarLoss

GRID = np.linspace(-4.0, 4.0, 513)


def slope_of(given, s, side):
    knots, slopes, curvatures = map(np.asarray, given)
    j = np.searchsorted(knots, s, side)
    return slopes[j] + curvatures[j] * s


def integral(given, start, ends):
    """The integral of the slope, exactly: trapezoids between the knots."""
    knots = np.asarray(given[0])

    def one(end):
        low, high = min(start, end), max(start, end)
        s = np.concatenate([[low], knots[(knots > low) & (knots < high)], [high]])
        areas = 0.5 * (slope_of(given, s[:-1], "right") + slope_of(given, s[1:], "left")) * np.diff(s)
        return np.sign(end - start) * areas.sum()

    return np.array([one(end) for end in ends])


@settings(deadline=None, max_examples=25)
@given(outlines())
def test_values_and_slopes_are_those_that_were_declared(case):
    phi, given = case
    np.testing.assert_array_equal(phi.slope(GRID), slope_of(given, GRID, "right"))
    np.testing.assert_array_equal(phi.slope(GRID, -1.0), slope_of(given, GRID, "left"))
    values = phi.value + integral(given, phi.at, GRID)
    np.testing.assert_allclose(phi(GRID), values, rtol=1e-13, atol=1e-13)
    step = 2.0**-20
    bends = (slope_of(given, GRID + step, "left") - slope_of(given, GRID, "right")) / step
    np.testing.assert_allclose(phi.curvature(GRID), bends, atol=1e-8)
    knots, slopes, curvatures = map(np.asarray, given)
    vertices = -slopes[curvatures > 0.0] / curvatures[curvatures > 0.0]
    least = phi(np.concatenate([knots, vertices, [0.0, -1e9, 1e9]])).min()
    assert phi.infimum == pytest.approx(least, rel=1e-12, abs=1e-12) or (
        phi.infimum == -np.inf and least < -1e7
    )


@settings(deadline=None, max_examples=25)
@given(outlines(), st.integers(-48, 48).map(lambda n: n / 8.0))
def test_the_conjugate_is_the_supremum(case, v):
    phi, given = case
    low, high = phi.domain
    far = np.array([-1e8, 1e8])
    inside = slope_of(given, far[0], "left") <= v <= slope_of(given, far[1], "right")
    assert np.isfinite(phi.conjugate(v)) == inside == (low <= v <= high)
    if inside:
        knots, slopes, curvatures = map(np.asarray, given)
        bent = curvatures > 0.0
        candidates = np.concatenate([knots, (v - slopes[bent]) / curvatures[bent], [0.0]])
        best = (v * candidates - phi(candidates)).max()
        assert phi.conjugate(v) == pytest.approx(best, rel=1e-12, abs=1e-12)
        assert (v * GRID - phi(GRID) <= best + 1e-12).all()


@settings(deadline=None, max_examples=25)
@given(outlines(), st.floats(-5.0, 5.0), st.sampled_from([0.0, 1e-3, 0.5, 20.0]))
def test_the_envelope_is_the_least_of_its_definition(case, s, mu):
    phi, given = case
    envelope = phi.envelope(mu)
    if mu == 0.0:
        np.testing.assert_allclose(envelope(GRID), phi(GRID), atol=1e-13)
        return
    assert not envelope.jumps.any()
    v = float(envelope.slope(s))
    r = s - mu * v
    slack = 1e-9 * (1.0 + 1.0 / mu)
    assert slope_of(given, r - slack, "left") - slack <= v <= slope_of(given, r + slack, "right") + slack
    assert envelope(s) == pytest.approx(phi(r) + 0.5 * mu * v**2, rel=1e-9, abs=1e-9)


@settings(deadline=None, max_examples=25)
@given(outlines())
def test_the_cvxpy_form_has_the_same_values_and_is_convex(case):
    phi, _ = case
    s = cp.Variable(17)
    form = phi.cvxpy_form(s)
    assert form.shape == (17,) and form.is_dcp() and form.is_convex()
    s.value = GRID[::32]
    np.testing.assert_allclose(form.value, phi(GRID[::32]), rtol=1e-12, atol=1e-12)


def test_far_from_the_knots_no_digit_is_lost():
    huber = Pieces([-1.0, 1.0], [-1.0, 0.0, 1.0], [0.0, 1.0, 0.0])
    s = np.array([1e8 + 0.5, -1e12, 3e15])
    np.testing.assert_array_equal(huber(s), np.abs(s) - 0.5)
    assert Pieces([1.0], [-2.0, 0.0], [2.0, 0.0]).conjugate(-1e-12) == pytest.approx(
        -1e-12 + 2.5e-25, rel=1e-15
    )


def test_a_point_within_rounding_of_a_kink_is_at_the_kink():
    kink = 0.1 + 0.2
    hinge = Pieces([0.3], [-1.0, 0.0])
    assert hinge.slope(kink) == hinge.slope(0.3) == 0.0 and hinge.slope(kink, -1.0) == -1.0
    assert hinge.slope(0.3 - 1e-9) == -1.0 and hinge.slope(0.3 + 1e-9, -1.0) == 0.0
    assert Pieces([0.0], [-1.0, 1.0]).slope(0.0, -1.0) == -1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, 0.0], [0.0, 1.0, 2.0]), r"knots must ascend, but knots\[1\] = 0 is less than knots\[0\] = 1"),
        (([0.0], [1.0, 0.0]), "not convex: at the knot 0 its slope falls from 1 to 0"),
        (([1.0], [0.0, 0.0], [1.0, 0.0]), "not convex: at the knot 1 its slope falls from 1 to 0"),
        (([0.0], [0.0, 1.0], [0.0, -1.0]), r"not convex: curvatures\[1\] = -1"),
        (([0.0], [1.0]), r"slopes must have shape \(2,\)"),
        (([0.0], [0.0, 1.0], [1.0]), r"curvatures must have shape \(2,\)"),
        (([[0.0, 1.0]], [0.0, 1.0]), "knots must have one dimension"),
        (([np.nan], [0.0, 1.0]), r"knots\[0\] is nan"),
        (([0.0], [0.0, np.inf]), r"slopes\[1\] is inf"),
        (([0.0], [0.0, 1.0], [0.0, np.nan]), r"curvatures\[1\] is nan"),
        (([0.0], [0.0, 1.0], None, np.inf), "value"),
        (([0.0], [0.0, 1.0], None, 0.0, np.nan), "at"),
        (("ab", [0.0, 1.0]), "knots must hold real numbers"),
    ],
)
def test_mistakes_are_named(arguments, message):
    with pytest.raises(InvalidInputError, match=f"Pieces.*{message}"):
        Pieces(*arguments)


def test_equal_knots_and_equal_slopes_by_rounding_are_no_mistake():
    tube = Pieces([0.0, 0.0], [-1.0, 0.0, 1.0])
    assert tube.knots.tolist() == [0.0] and tube.slopes.tolist() == [-1.0, 1.0]
    for slope in (0.3, 3.0 * 0.1, np.nextafter(3.0 * 0.1, 1.0)):
        assert not Pieces([0.1], [slope, 0.0], [0.0, 3.0]).jumps.any()


def test_a_loss_of_pieces_of_the_residual_or_the_margin():
    class Residual(ScalarLoss):
        def outline(self):
            return Huber(0.5).outline()

    class Margin(MarginLoss):
        def outline(self):
            return Hinge().outline()

    t, y = np.linspace(-3.0, 3.0, 25), np.where(np.arange(25) % 2, 1.0, -1.0)
    for own, ours in ((Residual(), Huber(0.5)), (Margin(), Hinge())):
        for name in ("value", "derivative", "second_derivative"):
            np.testing.assert_array_equal(getattr(own, name)(t, y), getattr(ours, name)(t, y))
        assert own.smoothness == ours.smoothness and own.curvature == ours.curvature and own.withheld == ()
    assert Huber(0.5).smoothness == 1.0 and Hinge().smoothness == np.inf
    with pytest.raises(InvalidInputError, match="Margin needs labels"):
        Margin().check_targets([0.0, 2.0])


def test_what_says_nothing_is_named():
    class Silent(ScalarLoss):
        pass

    class Half(Hinge):
        def value(self, t, y):
            return 0.5 * super().value(t, y)

    with pytest.raises(MissingCapabilityError, match=r"Silent has no outline\(\), and lacks the method"):
        Silent().value(0.0, 1.0)
    assert Half().outline() is None and Half().pieces(np.ones(2)) is None and len(Half().withheld) == 3
    with pytest.raises(MissingCapabilityError, match="Half has no outline"):
        Half().derivative(0.0, 1.0)
    assert isinstance(Hinge().pieces(np.ones(2)), ExamplePieces)

    class Pair(ScalarLoss):
        def outline(self):
            return (1.0,), ((0.0, -1.0), (0.0, 0.0))

    with pytest.raises(InvalidInputError, match=r"Pair.outline\(\) must return Pieces or None, got \(\(1.0"):
        Pair().value(0.0, 1.0)
    with pytest.raises(InvalidInputError, match='variable must be "residual" or "margin"'):
        type("Odd", (ScalarLoss,), {"variable": "score"})

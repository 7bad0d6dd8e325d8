"""The least value of a linear function over a polyhedron, and bounds from multipliers of its rows."""

import math

import numpy as np
import pytest
from scipy import sparse

import cutplane as cut
from cutplane.masters import least
from cutplane.masters.least import LinearMinimum
from cutplane.pieces.forms import LinearForm
from cutplane.regularizers import LInf
from cutplane.sets import Box

INF = math.inf


def form(row, low, high, lower=0.0, upper=1.0):
    row = np.atleast_2d(np.array(row, dtype=float))
    n = row.shape[1]
    sides = (
        np.broadcast_to(low, row.shape[0]).astype(float),
        np.broadcast_to(high, row.shape[0]).astype(float),
    )
    return LinearForm(np.zeros(n), np.full(n, lower), np.full(n, upper), sparse.csr_array(row), *sides)


@pytest.mark.parametrize("size", [1e-20, 1.0, 3.0, 1e20])
@pytest.mark.parametrize(
    "v, value, x",
    [([2.0, 1.0], 1.0, [0.0, 1.0]), ([-2.0, -1.0], -2.5, [1.0, 0.5]), ([-1.0, 3.0], -1.0, [1.0, 0.0])],
)
def test_the_minimum_over_a_slice_of_a_box(v, value, x, size):
    """1 <= x_0 + x_1 <= 3/2 in the unit square."""
    found = LinearMinimum(form([1.0, 1.0], 1.0, 1.5))(size * np.array(v))
    assert found.value == pytest.approx(size * value, rel=1e-12)
    assert found.x == pytest.approx(x, abs=1e-9)


def test_a_direction_of_zero_has_the_value_zero():
    assert LinearMinimum(form([1.0, 1.0], 1.0, 1.5))(np.zeros(2)).value == 0.0


def test_a_polyhedron_that_is_open_has_no_minimum():
    found = LinearMinimum(form([1.0, -1.0], -INF, 1.0, upper=INF))(np.array([-1.0, 0.0]))
    assert found == (-INF, None)


def test_a_polyhedron_that_is_empty_has_the_minimum_infinity():
    found = LinearMinimum(form([[1.0, 1.0], [1.0, 1.0]], [3.0, 3.0], [4.0, 4.0]))(np.array([1.0, 0.0]))
    assert found == (INF, None)


@pytest.mark.parametrize(
    "y, low, high, value",
    [
        (1.0, 1.0, 1.5, 1.0),
        (0.5, 1.0, 1.5, 0.5),
        (2.0, 1.0, 1.5, 1.0),
        (-1.0, 1.0, 1.5, -1.5),
        (0.0, 1.0, 1.5, 0.0),
        (0.5, -INF, 1.5, 0.0),
        (-1.0, 1.0, INF, 0.0),
    ],
)
def test_any_multipliers_give_a_bound(y, low, high, value):
    """The least of 2 x_0 + x_1 - y (x_0 + x_1) over the unit square, and y times the side that it holds."""
    found = LinearMinimum(form([1.0, 1.0], low, high))(np.array([2.0, 1.0]), np.array([y]))
    assert found == (value, None)


def test_multipliers_that_give_no_bound_or_do_not_fit_are_not_used():
    minimum = LinearMinimum(form([1.0, 1.0], 1.0, 1.5, upper=INF))
    for multipliers in (np.array([5.0]), np.zeros(3)):
        found = minimum(np.array([2.0, 1.0]), multipliers)
        assert found.value == pytest.approx(1.0)
        assert found.x == pytest.approx([0.0, 1.0])


def test_auxiliaries_of_another_size_are_not_charged_over_the_reach_of_x():
    """t = 1e12 x: the rounding error of the slope of t is not multiplied by the reach of x."""
    row = sparse.csr_array(np.array([[-1e12, 1.0]]))
    programme = LinearForm(
        np.array([0.0, 1.0]), np.array([0.5, -INF]), np.array([1.0, INF]), row, np.zeros(1), np.zeros(1)
    )
    minimum = LinearMinimum(programme)
    for y in (1.0, np.nextafter(1.0, 2.0), np.nextafter(1.0, 0.0)):
        found = minimum(np.zeros(1), np.array([y]), reach=1.0)
        assert found.value == pytest.approx(5e11, rel=1e-12)
        assert found.value <= 5e11
        assert (found.x is None) == (y == 1.0)


@pytest.mark.parametrize("cost", [1.0, 3.0, 5.0, 7.0])
def test_what_rounding_leaves_of_the_slope_of_an_auxiliary_is_charged(cost):
    """The least of cost * t with c t = 1e12 c x, x >= 1/2, whose multiplier cost / c is not a number."""
    for c in range(3, 60):
        row = sparse.csr_array(np.array([[-1e12 * c, float(c)]]))
        programme = LinearForm(
            np.array([0.0, cost]), np.array([0.5, -INF]), np.array([1.0, INF]), row, np.zeros(1), np.zeros(1)
        )
        value = LinearMinimum(programme)(np.zeros(1)).value
        assert value <= 5e11 * cost
        assert value == pytest.approx(5e11 * cost, rel=1e-13)


@pytest.mark.parametrize("excess", [2.0**-32, 2.0**-34, -(2.0**-33)])
def test_reduced_costs_within_the_tolerance_of_highs_are_not_charged(excess):
    """The least of max |x_j| - x_0 / 2 - (1 / 2 + excess) x_1 in a box of side 4, after another minimum."""
    programme = LInf(1.0).linear_form(2).merge(Box(-2.0, 2.0).linear_form(2), 2)
    minimum = LinearMinimum(programme)
    minimum(np.array([1.0, 0.0]))
    assert minimum(np.array([-0.5, -0.5 - excess])).value == pytest.approx(min(0.0, -2.0 * excess), abs=1e-14)


@pytest.mark.parametrize(
    ("error", "side"), [(2.0**-50, -INF), (2.0**-50, 0.0), (-(2.0**-50), INF), (-(2.0**-50), 1.0)]
)
def test_what_rounding_leaves_of_a_slope_is_worth_the_reach_only_where_x_is_unbounded(error, side):
    """The least of (1 + error) x_0 + x_1 subject to x_0 + x_1 >= 1, by the multiplier 1 of the row."""
    lower, upper = (
        np.array([side if side <= 0.0 else -INF, 0.0]),
        np.array([side if side > 0.0 else INF, 1.0]),
    )
    row = sparse.csr_array(np.ones((1, 2)))
    programme = LinearForm(np.zeros(2), lower, upper, row, np.ones(1), np.full(1, INF))
    found = LinearMinimum(programme)(np.array([1.0 + error, 1.0]), np.ones(1), reach=64.0)
    charge = 64.0 * 2.0**-50 if np.isinf(side) else max(0.0, -error * side)
    assert found == (1.0 - charge, None)


def test_solutions_that_are_known_show_which_minima_are_of_no_use():
    minimum = LinearMinimum(form([1.0, 1.0], 1.0, 1.5))
    v, other = np.array([1.0, 2.0]), np.array([1.0, 3.0])
    assert not minimum.is_at_most(v, np.inf)
    value = minimum(v).value
    assert minimum.is_at_most(v, value) and not minimum.is_at_most(v, value - 1e-9)
    assert not minimum.is_at_most(v, -np.inf)
    assert not minimum.is_at_most(other, minimum(other).value - 1e-9)


def test_a_bound_that_would_not_rise_is_not_computed(monkeypatch):
    R = np.random.default_rng(0).standard_normal((60, 8))
    risk = cut.OracleRisk(lambda w: (float(np.abs(R @ w).sum()), R.T @ np.sign(R @ w)), dim=8)
    region = cut.Simplex(8) & cut.Polyhedron([R[0]], [0.1])
    solved = []
    plain = least.rerun
    monkeypatch.setattr(least, "rerun", lambda model: solved.append(0) or plain(model))

    def lower_bounds():
        solved.clear()
        result = cut.Problem(risk, feasible_set=region).solve(cut.ProximalBundle())
        assert result.status == "OPTIMAL" and result.certificate.verify().valid
        return [record.lower_bound for record in result.history], len(solved)

    mine, fewer = lower_bounds()
    monkeypatch.setattr(LinearMinimum, "is_at_most", lambda *args: False)
    others, more = lower_bounds()
    np.testing.assert_allclose(mine, others, rtol=1e-12)
    assert fewer < more

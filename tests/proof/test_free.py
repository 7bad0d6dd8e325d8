"""Combinations of cuts whose slope vanishes on free coordinates, and what is charged for the rest of it."""

from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import cutplane as cut
from cutplane.masters.base import HALF_SPACE
from cutplane.proof.bound import combine, normalised
from cutplane.proof.dual import DualFunction, Intervals, balanced, directions

ONE = np.zeros(4, dtype=int)
FREE = np.array([1])
combined = partial(combine, n_blocks=1)


def rows(*free, other=1.0, kind=np.array):
    """Rows whose coordinate 1 is free and whose coordinate 0 is `other`."""
    return kind(np.column_stack([np.full(len(free), other), free])), np.zeros(len(free)), ONE[: len(free)]


@pytest.mark.parametrize("kind", [np.array, sparse.csr_array])
def test_multipliers_that_balance_are_kept(kind):
    mine = rows(1.0, -1.0, 3.0, 5.0, kind=kind)
    found = combine(*mine, np.array([0.5, 0.5, 0.0, 0.0]), 1)
    assert balanced(found, mine, combined, FREE) is found


@pytest.mark.parametrize("kind", [np.array, sparse.csr_array])
@pytest.mark.parametrize("left", [1e-9, -1e-3, 0.2])
def test_a_residual_vanishes_by_a_change_of_the_multipliers_in_use(left, kind):
    mine = rows(1.0, -1.0, 3.0, 5.0, kind=kind)
    found = balanced(combine(*mine, np.array([0.5 + left, 0.5 - left, 0.0, 0.0]), 1), mine, combined, FREE)
    assert found.multipliers == pytest.approx([0.5, 0.5, 0.0, 0.0], abs=1e-15)
    assert abs(found.slope[1]) <= found.error[1]


def test_an_idle_row_that_opposes_the_residual_comes_in():
    """Residual 1 and opposite slope 3: the share 1/4 of that row makes them cancel."""
    mine = rows(1.0, -1.0, -3.0, 2.0)
    found = balanced(combine(*mine, np.array([1.0, 0.0, 0.0, 0.0]), 1), mine, combined, FREE)
    assert found.multipliers == pytest.approx([0.75, 0.0, 0.25, 0.0], abs=1e-15)


def test_an_idle_row_comes_in_for_one_of_two_coordinates():
    """The rows in use balance the second one; the first one falls to 0 with the third row alone."""
    mine = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 0.0]]), np.zeros(3), ONE[:3]
    found = balanced(combine(*mine, np.array([0.6, 0.4, 0.0]), 1), mine, combined, np.arange(2))
    assert found.multipliers == pytest.approx([0.25, 0.25, 0.5], abs=1e-12)


def test_a_residual_that_nothing_opposes_stays():
    mine = rows(1.0, 2.0, 3.0, 4.0)
    found = balanced(combine(*mine, np.array([0.5, 0.5, 0.0, 0.0]), 1), mine, combined, FREE)
    assert found.slope[1] >= 1.0


@given(st.integers(0, 10_000), st.integers(1, 3), st.integers(1, 3))
def test_directions_change_one_slope_and_no_sum(seed, n_free, n_blocks):
    rng = np.random.default_rng(seed)
    blocks = np.append(np.repeat(np.arange(n_blocks), 6), [HALF_SPACE, HALF_SPACE])
    columns = rng.standard_normal((blocks.size, n_free))
    weights = rng.exponential(size=blocks.size)
    weights[0] = 0.0
    weights = normalised(weights, blocks, n_blocks)
    found = directions(weights, columns, blocks)
    assert found.T @ columns == pytest.approx(np.eye(n_free), abs=1e-9)
    for block in range(n_blocks):
        assert found[blocks == block].sum(axis=0) == pytest.approx(np.zeros(n_free), abs=1e-9)
    assert not found[0].any()


@given(st.integers(0, 10_000), st.integers(1, 3), st.integers(1, 2))
def test_combinations_of_many_rows_balance(seed, n_free, n_blocks):
    rng = np.random.default_rng(seed)
    blocks = np.append(np.repeat(np.arange(n_blocks), 8), HALF_SPACE)
    slopes = rng.standard_normal((blocks.size, n_free)) * 10.0 ** rng.integers(-6, 7, n_free)
    mine = slopes, np.zeros(blocks.size), blocks
    before = combine(*mine, rng.exponential(size=blocks.size), n_blocks)
    found = balanced(before, mine, partial(combine, n_blocks=n_blocks), np.arange(n_free))
    assert (found.multipliers >= 0.0).all()
    assert np.abs(found.slope).sum() <= np.abs(before.slope).sum()


def free_problem(l2):
    """A quadratic in the first coordinate; the second is free."""
    risk = cut.OracleRisk(lambda x: (0.0, np.zeros(2)), dim=2)
    return cut.Problem(risk, cut.L2(l2, weights=[1.0, 0.0]))


def exact_minimum(slopes, offsets, l2):
    """Return min over (x, b) of max_i(s_i x + t_i b + o_i) + l2 / 2 x^2, exactly.

    The dual: the best combination with a slope of 0 in b, which two or three cuts make.
    """
    s, t = ([Fraction(float(a)) for a in column] for column in slopes.T)
    o, l2 = [Fraction(float(a)) for a in offsets], Fraction(l2)

    def value(w):
        v = sum(a * w[i] for i, a in enumerate(s))
        return sum(a * w[i] for i, a in enumerate(o)) - v * v / (2 * l2)

    best, k = None, len(s)
    points = []
    for i in range(k):
        for j in range(k):
            if t[i] > 0 > t[j]:
                w = [Fraction(0)] * k
                w[i], w[j] = -t[j] / (t[i] - t[j]), t[i] / (t[i] - t[j])
                points.append(w)
        if t[i] == 0:
            points.append([Fraction(int(i == j)) for j in range(k)])
    for a in points:
        for b in points:
            d = [q - p for p, q in zip(a, b, strict=True)]
            va, vd = (sum(s[i] * w[i] for i in range(k)) for w in (a, d))
            rise = sum(o[i] * d[i] for i in range(k))
            share = Fraction(0) if vd == 0 else (rise - va * vd / l2) / (vd * vd / l2)
            share = min(max(share, Fraction(0)), Fraction(1))
            for u in (share, Fraction(0)):
                found = value([p + u * q for p, q in zip(a, d, strict=True)])
                best = found if best is None else max(best, found)
    return best


@given(st.integers(0, 100_000))
def test_bounds_with_a_free_coordinate_are_not_above_the_optimum(seed):
    """Three cuts, whose flat combinations form a segment; upper is a value of the model, or above it."""
    rng = np.random.default_rng(seed)
    slopes = rng.standard_normal((3, 2)) * 10.0 ** rng.integers(-4, 5)
    slopes[:, 1] *= 10.0 ** rng.integers(-4, 5)
    slopes[0, 1], slopes[1, 1] = abs(slopes[0, 1]), -abs(slopes[1, 1])
    offsets = rng.standard_normal(3) * 10.0 ** rng.integers(-4, 5)
    l2 = float(rng.choice([1.0, 1e-3, 1e3]))
    optimum = exact_minimum(slopes, offsets, l2)
    x = rng.standard_normal(2)
    values = [
        sum(Fraction(float(a)) * Fraction(float(z)) for a, z in zip(row, x, strict=True)) + Fraction(float(b))
        for row, b in zip(slopes, offsets, strict=True)
    ]
    upper = float(max(values) + Fraction(l2) / 2 * Fraction(float(x[0])) ** 2)
    upper = max(upper, float(optimum))
    upper += 1e-9 * abs(upper)
    dual = DualFunction(free_problem(l2))
    for multipliers in (rng.exponential(size=3), np.array([1.0, 1.0, 0.0]), rng.random(3) < 0.7):
        found = dual(slopes, offsets, np.zeros(3, dtype=int), np.asarray(multipliers, dtype=float), upper)
        assert found.value == -np.inf or Fraction(found.value) <= optimum


OPEN = np.array([[-np.inf, -np.inf], [np.inf, np.inf]])


def charged(found, mine, upper, reach=0.0, sides=OPEN):
    bound = found.constant
    return Intervals(sides, combined).charge(
        found, mine, FREE, upper, upper - bound, reach, lambda rise: rise.constant
    )


def test_what_is_left_is_charged_over_the_interval_that_the_cuts_prove():
    """Slopes 1 and -1 and height 3: where the objective is at most 5, |b| is at most 4 by half steps."""
    mine = np.array([[0.0, 1.0], [0.0, -1.0]]), np.array([3.0, 3.0]), ONE[:2]
    found = combine(*mine, np.array([0.5 + 1e-3, 0.5 - 1e-3]), 1)
    cost = charged(found, mine, 5.0)
    assert 2e-3 * 2.0 <= cost <= 2e-3 * 4.1
    assert charged(found, mine, np.inf) == np.inf
    assert charged(found, mine, 5.0, sides=np.array([[-np.inf, 0.0], [np.inf, np.inf]])) <= cost


@pytest.mark.parametrize(
    ("low", "high", "farthest"),
    [(-np.inf, np.inf, 8.0), (0.0, np.inf, 2.0), (-np.inf, 0.0, 8.0), (-100.0, np.inf, 100.0)],
)
def test_what_is_left_is_charged_as_far_as_points_of_the_set_may_be(low, high, farthest):
    """Slopes 1 and -1/4 and height 3: where the objective is at most 5, b is between -8 and 2.

    The cuts bound it towards open sides alone, by half steps.
    """
    mine = np.array([[0.0, 1.0], [0.0, -0.25]]), np.array([3.0, 3.0]), ONE[:2]
    found = combine(*mine, np.array([0.2 + 1e-3, 0.8 - 1e-3]), 1)
    cost = charged(found, mine, 5.0, sides=np.array([[-np.inf, low], [np.inf, high]]))
    assert 1.25e-3 * farthest <= cost <= 1.25e-3 * 2.1 * farthest


def test_an_interval_is_proven_again_when_the_gap_has_halved_or_upper_has_risen():
    mine = np.array([[0.0, 1.0], [0.0, -1.0]]), np.array([3.0, 3.0]), ONE[:2]
    found = combine(*mine, np.array([0.5 + 1e-3, 0.5 - 1e-3]), 1)
    intervals, asked = Intervals(OPEN, combined), []

    def bound(rise):
        asked.append(rise)
        return rise.constant

    first = intervals.charge(found, mine, FREE, 5.0, 2.0, 0.0, bound)
    assert intervals.charge(found, mine, FREE, 5.0, 2.0, 0.0, bound) == first and len(asked) == 2
    closer = intervals.charge(found, mine, FREE, 3.1, 0.1, 0.0, bound)
    assert 2e-3 * 0.1 <= closer < 0.1 * first and len(asked) == 4
    again = intervals.charge(found, mine, FREE, 5.0, 2.0, 0.0, bound)
    assert again == first and len(asked) == 6


def test_rounding_that_no_row_bounds_is_charged_over_the_reach():
    mine = np.array([[1.0, 1e-17]]), np.array([3.0]), ONE[:1]
    found = combine(*mine, np.ones(1), 1)
    assert 1e-16 <= charged(found, mine, 5.0, reach=10.0) <= 1.1e-16
    steep = np.array([[1.0, 1e-12]]), np.array([3.0]), ONE[:1]
    assert charged(combine(*steep, np.ones(1), 1), steep, 5.0, reach=10.0) == np.inf


@pytest.mark.parametrize(("slope", "wanted"), [(0.9e-9, 1.9e-8), (1.1e-9, np.inf)])
def test_a_slope_below_its_error_is_charged_over_the_reach_with_the_error(slope, wanted):
    mine = np.array([[1.0, slope]]), np.array([3.0]), ONE[:1]
    found = combine(*mine, np.ones(1), 1)._replace(error=np.full(2, 1e-9))
    assert charged(found, mine, 5.0, reach=10.0) == pytest.approx(wanted)


def test_rounding_of_a_row_is_not_mended_by_a_worse_one():
    slopes = np.array([[1.0, 1e-17], [0.0, 0.0]])
    mine = slopes, np.array([3.0, 0.0]), ONE[:2]
    found = balanced(combine(*mine, np.array([1.0, 0.0]), 1), mine, combined, FREE)
    assert found.multipliers.tolist() == [1.0, 0.0]

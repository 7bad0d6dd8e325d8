"""Lower bounds of black boxes are never above the optimum in rational arithmetic, not even by a last bit."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cutplane as cut
from cutplane.pieces.forms import DiagonalQuadratic, SeparableForm
from cutplane.proof.bound import SeparableInBox, bound_of, combine

METHODS = "kelley", "proximal", "level", "bmrm"


def exact_optimum(slopes, offsets, l2, half):
    """Return min over [-half, half] of max_i(s_i x + b_i) + l2 / 2 x^2: a kink, a vertex or an end."""
    s, b = ([Fraction(float(number)) for number in array] for array in (slopes, offsets))
    l2, half = Fraction(l2), Fraction(half)
    candidates = {-half, half}
    for i in range(len(s)):
        if l2:
            candidates.add(min(half, max(-half, -s[i] / l2)))
        for j in range(i):
            if s[i] != s[j]:
                candidates.add(min(half, max(-half, (b[j] - b[i]) / (s[i] - s[j]))))
    return min(max(p * x + q for p, q in zip(s, b, strict=True)) + l2 / 2 * x * x for x in candidates)


def exactly(slopes, offsets):
    """Return the oracle of max_i(s_i x + b_i), whose values are rounded down from the exact ones.

    A value that is rounded up would be a lie about an exact function.
    """
    s, b = ([Fraction(float(number)) for number in array] for array in (slopes, offsets))

    def oracle(w):
        x = Fraction(float(w[0]))
        values = [p * x + q for p, q in zip(s, b, strict=True)]
        i = max(range(len(values)), key=values.__getitem__)
        value = float(values[i])
        return (value if Fraction(value) <= values[i] else np.nextafter(value, -np.inf)), np.array(
            [slopes[i]]
        )

    return oracle


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("first", range(0, 200, 50))
def test_no_bound_is_above_the_optimum(method, first):
    above, ended = [], 0
    for seed in range(first, first + 50):
        rng = np.random.default_rng(seed)
        k = rng.integers(2, 7)
        slopes = rng.standard_normal(k) * 10.0 ** rng.integers(-6, 7)
        offsets = rng.standard_normal(k) * 10.0 ** rng.integers(-6, 7)
        offsets += 10.0 ** rng.integers(-3, 9) * rng.integers(-1, 2)
        l2, half = float(rng.choice([0.0, 1.0, 1e-3])), float(10.0 ** rng.integers(-2, 4))
        pieces = {"regularizer": cut.L2(l2)} if l2 else {}
        risk = cut.OracleRisk(exactly(slopes, offsets), dim=1)
        problem = cut.Problem(risk, feasible_set=cut.Box(-half, half), **pieces)
        result = problem.solve(method, tol=1e-13, max_iter=40)
        optimum = exact_optimum(slopes, offsets, l2, half)
        if Fraction(result.lower_bound) > optimum:
            above.append((seed, float(Fraction(result.lower_bound) - optimum), float(optimum)))
        ended += result.status == "OPTIMAL"
    assert not above
    assert ended > 10


def exact_least(form, lower, upper, u):
    """Return the exact least sum of the form + <u, x> over the box, coordinate by coordinate."""
    total = Fraction(form.quadratic.constant)
    numbers = form.quadratic.weights, form.quadratic.centre, form.costs, lower, upper, u
    for q, c, cost, low, high, v in zip(
        *(map(Fraction, map(float, array)) for array in numbers), strict=True
    ):
        candidates = {low, high, min(high, max(low, Fraction(0)))}
        if q:
            candidates |= {min(high, max(low, c - (v + sign * cost) / q)) for sign in (1, -1)}
        total += min(q / 2 * (x - c) ** 2 + cost * abs(x) + v * x for x in candidates)
    return total


numbers = st.floats(-1e9, 1e9, allow_subnormal=False)
sizes = st.floats(0.0, 1e6, allow_subnormal=False)


@given(
    st.lists(st.tuples(sizes, numbers, sizes, numbers, sizes, numbers, sizes), min_size=1, max_size=4),
    st.data(),
)
def test_least_is_below_the_exact_least_for_every_slope_within_the_error(rows, data):
    q, c, cost, low, width, v, error = map(np.array, zip(*rows, strict=True))
    form = SeparableForm(DiagonalQuadratic(q, c), cost)
    found = SeparableInBox(form, low, low + width).least(v, error)
    share = np.array([data.draw(st.floats(-1.0, 1.0)) for _ in rows])
    for part in (share, np.ones_like(share), -np.ones_like(share)):
        u = np.clip(v + part * error, v - error, v + error)
        u = np.where(np.abs(u - v) <= error, u, v)
        assert found == -np.inf or Fraction(found) <= exact_least(form, low, low + width, u)


@given(st.integers(0, 10_000))
def test_liars_prove_nothing_false(seed):
    """Whatever the weights, the bound of true cuts is below the objective everywhere."""
    rng = np.random.default_rng(seed)
    k, n = int(rng.integers(1, 6)), int(rng.integers(1, 4))
    slopes = rng.standard_normal((k, n)) * 10.0 ** rng.integers(-6, 7)
    offsets = rng.standard_normal(k) * 10.0 ** rng.integers(-6, 7)
    weights = rng.random(k) * rng.choice([0.0, 1.0, 1e-9, 1.0 + 1e-9], k)
    if rng.random() < 0.7 and weights.sum() > 0.0:
        weights /= weights.sum()
    form = SeparableForm(DiagonalQuadratic(rng.choice([0.0, 1.0, 1e-3], n), np.zeros(n)), rng.random(n))
    simple = SeparableInBox(form, -np.ones(n), np.ones(n))
    combined = combine(slopes, offsets, np.zeros(k, dtype=int), weights, 1)
    found = -np.inf
    if combined is not None:
        found = bound_of(combined, simple.least(combined.slope, combined.error))
    q, costs = ([Fraction(float(a)) for a in array] for array in (form.quadratic.weights, form.costs))
    for x in [np.zeros(n), *rng.uniform(-1.0, 1.0, (5, n)), *np.sign(rng.standard_normal((5, n)))]:
        x = [Fraction(float(a)) for a in x]
        cuts = [
            sum(Fraction(float(s)) * z for s, z in zip(row, x, strict=True)) + Fraction(float(b))
            for row, b in zip(slopes, offsets, strict=True)
        ]
        g = sum(w * z * z / 2 + a * abs(z) for w, a, z in zip(q, costs, x, strict=True))
        assert found == -np.inf or Fraction(found) <= max(cuts) + g


def least_over_box(cost, low, high):
    """Return the least value of <cost, x> over a box, exactly."""
    sides = zip(*(map(Fraction, map(float, array)) for array in (cost, low, high)), strict=True)
    value = sum(min(c * a, c * b) for c, a, b in sides)
    return value


digits = st.integers(-9, 9)


@given(st.lists(st.tuples(digits, digits, st.integers(0, 9)), min_size=1, max_size=6))
def test_bounds_of_integers_have_no_error(rows):
    cost, low, width = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    problem = cut.Problem(cut.LinearObjective(cost), feasible_set=cut.Box(low, low + width))
    assert problem.solve(cut.Kelley(), tol=1e-12).lower_bound == least_over_box(cost, low, low + width)


@given(st.lists(st.tuples(numbers, numbers, sizes), min_size=1, max_size=6))
def test_bounds_of_linear_risks_are_not_above_the_optimum(rows):
    cost, low, width = map(np.array, zip(*rows, strict=True))
    problem = cut.Problem(cut.LinearObjective(cost), feasible_set=cut.Box(low, low + width))
    found = problem.solve(cut.Kelley(), tol=1e-12).lower_bound
    assert Fraction(found) <= least_over_box(cost, low, low + width)


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 1.0, 0.1]), numbers), min_size=1, max_size=4),
    st.floats(0.0, 1e3),
)
def test_a_budget_bounds_the_decrease_where_a_cost_is_exceeded(rows, radius):
    """Points with g(x) <= budget: on the axes, where sum_j costs_j |x_j| = budget, <u, x> is least."""
    cost, v = map(np.array, zip(*rows, strict=True))
    cost = cost + 0.5
    simple = SeparableInBox(
        SeparableForm(DiagonalQuadratic(np.zeros(cost.size), np.zeros(cost.size)), cost),
        np.full(cost.size, -np.inf),
        np.full(cost.size, np.inf),
    )
    found = simple.least(v, np.zeros(cost.size), radius)
    pairs = zip(map(Fraction, map(float, cost)), map(Fraction, map(float, v)), strict=True)
    exact = min(Fraction(0), *(Fraction(radius) * (1 - abs(u) / c) for c, u in pairs))
    assert Fraction(found) <= exact
    assert found >= float(exact) * (1.0 + 1e-6) - 1e-9

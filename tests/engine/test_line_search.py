"""The search along a line against enumeration of every candidate."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from cutplane.engine.line_search import minimise_on_line
from cutplane.pieces.lines import NO_KINKS, Derivative, Line, PiecewiseLinear, quadratic_line


class Pieces:
    """phi(t) = linear t + curvature t^2 / 2 + sum_i hinge_i z_+ + squared_i z_+^2 with z = a_i t + b_i."""

    def __init__(self, linear, curvature, a, b, hinge, squared):
        self.linear, self.curvature = linear, curvature
        self.a, self.b, self.hinge, self.squared = a, b, hinge, squared
        self.evaluations = 0

    @property
    def kinks(self):
        return -self.b[self.a != 0] / self.a[self.a != 0]

    def value(self, t):
        positive = np.maximum(self.a * t + self.b, 0.0)
        return (
            t * (self.linear + 0.5 * self.curvature * t) + self.hinge @ positive + self.squared @ positive**2
        )

    def slope(self, t, side=1.0):
        """The derivative to the right of t (or to the left, for side = -1)."""
        argument = self.a * t + self.b
        snapped = np.abs(argument) <= 1e-12 * (np.abs(self.b) + np.abs(self.a * t))
        active = np.where(snapped, side * self.a > 0, argument > 0)
        return (
            self.linear
            + self.curvature * t
            + (self.hinge * self.a)[active].sum()
            + 2.0 * ((self.squared * self.a) * argument)[active & ~snapped].sum()
        )

    def line(self, with_kinks=True):
        def evaluate(t):
            self.evaluations += 1
            return self.value(t), self.slope(t)

        return Line(evaluate, self.kinks if with_kinks else None)

    def derivative(self):
        kinks = self.kinks
        moving, ahead = self.a != 0, kinks > 0
        a, hinge, squared = self.a[moving][ahead], self.hinge[moving][ahead], self.squared[moving][ahead]
        active = (self.b > 0) | ((self.b == 0) & (self.a > 0))
        curvature = self.curvature + 2.0 * (self.squared * self.a**2)[active].sum()
        bends = 2.0 * squared * a * np.abs(a)
        return PiecewiseLinear(self.slope(0.0), curvature, kinks[ahead], hinge * np.abs(a), bends)

    def least(self, limit):
        """The least value over [0, limit] among the ends, the kinks, and the stationary points between."""
        ends = np.concatenate([[0.0], self.kinks[(self.kinks > 0) & (self.kinks < limit)]])
        ends = np.unique(np.append(ends, limit if math.isfinite(limit) else ends.max() + 1.0))
        candidates = list(ends)
        for left, right in zip(ends, np.append(ends[1:], limit), strict=True):
            start = self.slope(left)
            middle = 0.5 * (left + right) if math.isfinite(right) else left + 1.0
            bend = (self.slope(middle) - start) / (middle - left) if middle > left else 0.0
            if start < 0.0 < bend:
                candidates.append(min(left - start / bend, limit))
        return min(self.value(t) for t in candidates)

    def size(self, t):
        """Size of the terms of phi(t)."""
        return (
            abs(self.linear * t)
            + abs(self.curvature * t**2)
            + abs(self.value(t))
            + abs(self.value(0.0))
            + 1e-300
        )


def random_pieces(seed: int) -> tuple[Pieces, float]:
    """A line with ties and duplicated kinks (integer data) or in general position, and a limit."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(0, 30)) if seed % 10 else 500
    if seed % 2:
        a, b = rng.integers(-3, 4, size=(2, count)).astype(float)
        hinge, squared = rng.integers(0, 3, size=(2, count)).astype(float)
        linear, curvature = float(rng.integers(-20, 3)), float(rng.integers(0, 3))
    else:
        a, b = rng.normal(size=(2, count)) * 10.0 ** rng.uniform(-3, 3)
        hinge, squared = rng.uniform(size=(2, count))
        linear, curvature = -(10.0 ** rng.uniform(-4, 4)), 10.0 ** rng.uniform(-4, 2)
    if seed % 3 == 0:
        squared = np.zeros(count)
        curvature = 0.0
    limit = [math.inf, 1.0, float(10.0 ** rng.uniform(-3, 3))][seed % 7 % 3]
    if math.isinf(limit) and curvature == 0.0:  # keep phi bounded below
        a, b, hinge, squared = (
            np.append(array, extra)
            for array, extra in [
                (a, 1.0),
                (b, -float(rng.integers(0, 5))),
                (hinge, 1.0 - linear + 2 * np.abs(hinge @ a)),
                (squared, 0.0),
            ]
        )
    return Pieces(linear, curvature, a, b, hinge, squared), limit


@pytest.mark.parametrize("block", range(10))
def test_exact_search_against_enumeration(block):
    for seed in range(50 * block, 50 * block + 50):
        pieces, limit = random_pieces(seed)
        t = minimise_on_line(pieces.line(), limit)
        assert 0.0 <= t <= limit, seed
        assert pieces.value(t) - pieces.least(limit) <= 1e-11 * pieces.size(t), seed
        assert pieces.evaluations <= 8 + 2 * math.log2(1 + pieces.kinks.size), seed


class Asked(Derivative):
    """A derivative that is evaluated by calls, and whose estimate has an error."""

    def __init__(self, whole, error):
        self.whole, self.error = whole, error

    def between(self, low, high):
        return self.whole.between(low, high)

    def estimate(self):
        slope = self.whole.slope + self.error
        few = slice(0, None, 3)
        bends = self.whole.curvature_jumps[few]
        copy = (
            slope,
            self.whole.curvature,
            self.whole.kinks[few],
            3.0 * self.whole.slope_jumps[few],
            3.0 * bends,
        )
        return PiecewiseLinear(*copy), 0.3 * abs(self.error) + 1e-3 * abs(self.whole.slope)


@pytest.mark.parametrize("kind", ["at hand", "asked", "a sum"])
def test_search_with_the_derivative_against_enumeration(kind):
    for seed in range(120 if kind == "at hand" else 60):
        pieces, limit = random_pieces(seed)
        derivative = pieces.derivative()
        if kind == "asked":
            derivative = Asked(derivative, [0.0, 0.5, -0.5, 100.0, -100.0][seed % 5] * pieces.linear)
        elif kind == "a sum":
            other, _ = random_pieces(seed + 1)
            derivative = 0.5 * Asked(derivative, pieces.linear) + 2.0 * other.derivative()
            other.hinge, other.squared = 4.0 * other.hinge, 4.0 * other.squared
            other.linear, other.curvature = 4.0 * other.linear, 4.0 * other.curvature
            pieces = Pieces(
                pieces.linear + other.linear,
                pieces.curvature + other.curvature,
                *(
                    np.concatenate([getattr(pieces, k), getattr(other, k)])
                    for k in ("a", "b", "hinge", "squared")
                ),
            )
            derivative = 2.0 * derivative
        t = minimise_on_line(Line(pieces.value, derivative=derivative), limit)
        assert 0.0 <= t <= limit, seed
        if math.isfinite(pieces.least(limit)) and (math.isfinite(limit) or pieces.slope(1e9) > 0.0):
            assert pieces.value(t) - pieces.least(limit) <= 1e-11 * pieces.size(t), seed
        assert pieces.evaluations == 0


def test_lines_add_and_scale_what_they_know():
    smooth = Line(lambda t: (np.exp(t), np.exp(t)), newton=lambda t: (np.exp(t), np.exp(t)))
    parabola = quadratic_line(1.0, -3.0, 0.0)
    kinked = Line(lambda t: (abs(t - 1), 1.0 if t >= 1 else -1.0), np.array([1.0]))
    total = 2.0 * (smooth + parabola) + smooth
    assert total.newton(0.5) == pytest.approx((3.0 * math.exp(0.5),) * 2)
    assert total.derivative(0.5) == pytest.approx((-6.0, 0.0))
    assert minimise_on_line(total, math.inf) == pytest.approx(math.log(2.0), rel=1e-12)
    assert minimise_on_line(total + kinked, 2.0) == pytest.approx(math.log(7.0 / 3.0), rel=1e-8)
    assert (kinked + parabola).derivative is None and (total + kinked).newton is None
    assert (total + kinked).kinks is None and (kinked + parabola).kinks.tolist() == [1.0]
    bent = PiecewiseLinear(-1.5, 0.0, np.array([2.0]), np.array([0.5]))
    both = kinked + Line(
        lambda t: (-1.5 * t + 0.5 * max(0.0, t - 2.0), -1.5 + 0.5 * (t >= 2.0)), derivative=bent
    )
    assert sorted(both.all_kinks()) == [1.0, 2.0] and minimise_on_line(both, math.inf) == 2.0
    assert (2.0 * kinked).kinks.tolist() == [1.0]


@pytest.mark.parametrize("known", ["derivative", "newton"])
def test_a_known_slope_that_is_negative_for_ever_gives_a_finite_step(known):
    falling = quadratic_line(0.0, -1.0, 0.0)
    if known == "newton":
        falling = falling + Line(lambda t: (0.0, 0.0), newton=lambda t: (0.0, 0.0))
    assert 0.0 < minimise_on_line(falling, math.inf) < math.inf
    assert minimise_on_line(falling, 3.0) == 3.0


@pytest.mark.parametrize("block", range(10))
def test_search_without_kinks_against_enumeration(block):
    for seed in range(50 * block, 50 * block + 50):
        pieces, limit = random_pieces(seed)
        t = minimise_on_line(pieces.line(with_kinks=False), limit)
        assert 0.0 <= t <= limit, seed
        assert pieces.evaluations <= 120, seed
        assert pieces.value(t) - pieces.least(limit) <= 1e-8 * pieces.size(t), seed


@pytest.mark.parametrize(
    ("kinks", "evaluate", "limit", "expected"),
    [
        (NO_KINKS, lambda t: (-t, -1.0), 5.0, 5.0),
        (NO_KINKS, lambda t: (t, 1.0), 5.0, 0.0),
        (NO_KINKS, lambda t: (0.0, 0.0), math.inf, 0.0),
        (None, lambda t: (-t, -1.0), 5.0, 5.0),
        (None, lambda t: (-t, -1.0), 0.0, 0.0),
        (NO_KINKS, lambda t: (-t, -1.0), 0.0, 0.0),
        (np.array([2.0, 2.0]), lambda t: (abs(t - 2), 1.0 if t >= 2 else -1.0), math.inf, 2.0),
        (np.array([2.0, 2.0]), lambda t: (abs(t - 2), 1.0 if t >= 2 else -1.0), 2.0, 2.0),
        (np.array([1e-9]), lambda t: (abs(t - 1e-9), 1.0 if t >= 1e-9 else -1.0), 1.0, 1e-9),
        (np.array([1e9]), lambda t: (abs(t - 1e9), 1.0 if t >= 1e9 else -1.0), math.inf, 1e9),
        (np.array([-1.0, np.inf, 3.0]), lambda t: (abs(t - 3), 1.0 if t >= 3 else -1.0), math.inf, 3.0),
    ],
)
def test_corner_cases(kinks, evaluate, limit, expected):
    assert minimise_on_line(Line(evaluate, kinks), limit) == pytest.approx(expected, rel=1e-12, abs=0.0)


@pytest.mark.parametrize(
    "kinks", [NO_KINKS, np.array([0.5, 3.0]), None], ids=["no kinks", "kinks", "unknown"]
)
def test_a_line_that_falls_for_ever_gives_a_finite_step(kinks):
    t = minimise_on_line(Line(lambda t: (-t, -1.0), kinks), math.inf)
    assert 0.0 < t < math.inf


def logistic(t):
    return np.logaddexp(0, 3 - t) + 0.1 * t, 0.1 - expit(3 - t)


def steep(t):
    return np.exp(1e3 * t) - 1e9 * t, 1e3 * np.exp(1e3 * t) - 1e9


def barrier(slope_outside):
    def evaluate(t):
        return (-np.log(2 - t) - 4 * t, 1 / (2 - t) - 4) if t < 2 else (np.inf, slope_outside)

    return evaluate


def entropy(t):
    return (t * np.log(t), np.log(t) + 1) if t > 0 else (0.0, -np.inf)


# (phi and its derivative, limit, the minimiser in closed form, relative accuracy of t, most evaluations)
SMOOTH = {
    "logistic": (logistic, math.inf, 3 + math.log(9), 1e-8, 20),
    "logistic, cut off": (logistic, 1.0, 1.0, 0.0, 2),
    "exponential": (lambda t: (np.exp(t) - 20 * t, np.exp(t) - 20), math.inf, math.log(20), 1e-7, 30),
    "steep": (steep, 9.0, math.log(1e6) / 1e3, 1e-8, 45),
    "far": (lambda t: (np.cosh(t / 1e6 - 5), np.sinh(t / 1e6 - 5)), math.inf, 5e6, 1e-7, 55),
    "near": (lambda t: ((1e7 * t - 1) ** 4, 4e7 * (1e7 * t - 1) ** 3), 1.0, 1e-7, 1e-2, 100),
    "infinite slope at 0": (entropy, 1.0, math.exp(-1), 1e-7, 25),
    "barrier": (barrier(np.inf), math.inf, 1.75, 1e-8, 20),
    "barrier without a slope": (barrier(np.nan), math.inf, 1.75, 1e-8, 20),
    "falling to the end": (lambda t: (-t, -1.0) if t <= 0.3 else (np.inf, -1.0), 1.0, 0.3, 1e-9, 40),
    "falling to a known end": (lambda t: (-t, -1.0), 0.3, 0.3, 0.0, 2),
}  # fmt: skip


@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_lines(name):
    function, limit, expected, accuracy, most_evaluations = SMOOTH[name]
    calls = []

    def counted(t):
        calls.append(t)
        with np.errstate(over="ignore"):
            return tuple(map(float, function(np.float64(t))))

    t = minimise_on_line(Line(counted), limit)
    assert t == pytest.approx(expected, rel=accuracy, abs=0.0)
    assert 0.0 <= t <= limit
    assert math.isfinite(counted(t)[0])
    assert len(calls) <= most_evaluations + 2


@settings(deadline=None, max_examples=200)
@given(
    st.lists(st.tuples(st.floats(-50, 50), st.floats(-50, 50)), min_size=1, max_size=20), st.floats(1e-3, 1e3)
)
def test_never_above_the_start_and_stationary(rows, limit):
    u, v = np.array(rows).T

    def evaluate(t):
        z = u + t * v
        return float(np.logaddexp(0, z).sum()), float(v @ expit(z))

    t = minimise_on_line(Line(evaluate), limit)
    slope, size = evaluate(t)[1], np.abs(v).sum() + 1e-300
    assert evaluate(t)[0] <= evaluate(0.0)[0] * (1 + 1e-12)
    assert (
        (t == 0.0 and slope >= 0)
        or (t == limit and slope <= 0)
        or abs(slope) <= 1e-6 * size * (1 + np.abs(v).max())
    )

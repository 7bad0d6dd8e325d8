"""Losses as a user writes them, by pieces or by value and derivative, and the built-in ones of pieces."""

from __future__ import annotations

from dataclasses import dataclass

import cvxpy as cp
import numpy as np
from hypothesis import strategies as st

from cutplane.losses import (
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Huber,
    ModifiedHuber,
    Pieces,
    Quantile,
    ScalarLoss,
    Squared,
    SquaredEpsilonInsensitive,
    SquaredHinge,
)
from cutplane.losses.elementary import x_log_x


class SubHinge(Hinge):
    """Another name for the hinge."""


class CopiedHinge(ScalarLoss):
    """The hinge once more."""

    variable = "margin"

    def outline(self):
        return Pieces(knots=[1.0], slopes=[-1.0, 0.0])


@dataclass(frozen=True)
class Asymmetric(ScalarLoss):
    """A snippet of the user's page."""

    def outline(self):
        return Pieces(knots=[0.0], slopes=[-0.2, 1.0])


@dataclass(frozen=True)
class ThreeKnots(ScalarLoss):
    """Piecewise linear and quadratic residuals: linear, a parabola, flat, linear."""

    def outline(self):
        return Pieces([-1.0, 0.25, 0.5], [-3.0, -0.5, 0.0, 1.0], [0.0, 2.0, 0.0, 0.0], value=-0.5)


@dataclass(frozen=True)
class Lopsided(ScalarLoss):
    """A quadratic tail on the left, a linear one on the right, of the margin."""

    shift: float = 0.5
    variable = "margin"

    def outline(self):
        return Pieces(
            [1.0 - self.shift, 1.0], [-1.0 - 2.0 * self.shift, -0.5, 0.25], [2.0, 0.0, 0.0], value=0.125
        )


@dataclass(frozen=True)
class LogCosh(ScalarLoss):
    """Smooth, with a parameter, and with all that there is to say."""

    scale: float = 2.0

    def value(self, t, y):
        return self.scale * (np.logaddexp(t - y, y - t) - np.log(2.0))

    def derivative(self, t, y):
        return self.scale * np.tanh(t - y)

    def second_derivative(self, t, y):
        return self.scale * (1.0 - np.tanh(t - y) ** 2)

    def conjugate(self, u, y):
        a = np.clip(u / self.scale, -1.0, 1.0)
        inside = 0.5 * self.scale * (x_log_x(1.0 + a) + x_log_x(1.0 - a))
        return np.where(np.abs(u) <= self.scale, inside, np.inf) + u * y

    def infimum(self, y):
        return np.zeros(np.shape(y))

    def cvxpy_form(self, t, y):
        return self.scale * (cp.logistic(2.0 * (t - y)) - (t - y) - np.log(2.0))


class Kinked(ScalarLoss):
    """Known by its values alone, with a kink that it tells of."""

    def value(self, t, y):
        return np.maximum(0.0, y - t) + 0.5 * (t - y) ** 2

    def derivative(self, t, y):
        return (t - y) - 1.0 * (t < y)

    def directional(self, t, y, d):
        return ((t - y) - 1.0 * ((t < y) | ((t == y) & (d < 0.0)))) * d


class Opaque(ScalarLoss):
    """Smooth, by code that cannot be compiled."""

    def value(self, t, y):
        return np.asarray([0.25, 1.0])[[1]] * (t - y) ** 4

    def derivative(self, t, y):
        return {"four": 4.0}["four"] * (t - y) ** 3


BUILT_IN = [
    Hinge(), SquaredHinge(), ModifiedHuber(), Squared(), Absolute(), Quantile(0.8), EpsilonInsensitive(0.25),
    EpsilonInsensitive(0.0), SquaredEpsilonInsensitive(0.25), Huber(0.5),
]  # fmt: skip
PIECEWISE = [SubHinge(), CopiedHinge(), Asymmetric(), ThreeKnots(), Lopsided()]
SMOOTH = [LogCosh(), LogCosh(0.5)]


def targets(loss, m, rng):
    """Labels, counts or numbers, as the loss needs them."""
    if loss.variable == "margin":
        return rng.choice([-1.0, 1.0], m)
    return rng.poisson(2.0, m) / 1.0 if type(loss).__name__ == "Poisson" else rng.standard_normal(m)


@st.composite
def outlines(draw):
    """Pieces of binary fractions: the slope at the first knot, its jumps, the curvatures."""
    k = draw(st.integers(0, 5))
    fractions = st.integers(-8, 8).map(lambda n: n / 4.0)
    knots = sorted(draw(st.lists(fractions, min_size=k, max_size=k, unique=draw(st.booleans()))))
    rises = st.integers(0, 8).map(lambda n: n / 4.0)
    curvatures = draw(st.lists(st.sampled_from([0.0, 0.0, 0.5, 1.0, 2.0]), min_size=k + 1, max_size=k + 1))
    slope, at = draw(fractions), knots[0] if knots else 0.0
    slopes = [slope - curvatures[0] * at]
    for knot, curvature, last in zip(knots, curvatures[1:], curvatures[:-1], strict=True):
        slope += last * (knot - at) + draw(rises)
        slopes.append(slope - curvature * knot)
        at = knot
    where = draw(st.none() | fractions)
    return Pieces(knots, slopes, curvatures, value=draw(fractions), at=where), (knots, slopes, curvatures)

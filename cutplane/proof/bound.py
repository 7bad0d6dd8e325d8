"""Lower bounds that are valid in spite of rounding errors, for separable regularizers in boxes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from cutplane.pieces.forms import SeparableForm
from cutplane.pieces.validation import Array
from cutplane.proof.rounding import ABOVE, UNIT, gamma
from cutplane.runtime.compiling import SUMS, routine

_LARGEST = float(np.finfo(np.float64).max)
_OPERATIONS = 12
"""Largest number of operations in a row from given numbers to the minimum of one coordinate, because each
adds a rounding error."""
_NEGLIGIBLE = 1e-14
"""Multipliers below this share of the largest one count as zero, because solvers give no exact zeros."""


@routine(fastmath=SUMS)
def offsets_down(values, slopes, x, beside, share, offsets):
    """Write values - <slopes, x> - beside - share * (sum of absolute terms); the least float on overflow."""
    for k in range(values.size):
        product = terms = 0.0
        row = slopes[k]
        for j in range(x.size):
            product += row[j] * x[j]
            terms += abs(row[j] * x[j])
        offset = values[k] - product - (share * (abs(values[k]) + terms) + beside[k])
        offsets[k] = offset if abs(offset) < np.inf else -_LARGEST


class Combination(NamedTuple):
    """A combination of cuts by multipliers: f(x) >= <u, x> + constant for some u with |u - slope| <= error.

    Multipliers are clipped at zero and sum to 1 over each block. The constant is rounded down, and `size` is
    the sum of its absolute terms.
    """

    multipliers: Array
    slope: Array
    error: Array
    constant: float
    size: float


def combine(
    slopes: Any, offsets: Array, blocks: Array, multipliers: Array, n_blocks: int
) -> Combination | None:
    """Return the combination of cuts and half-spaces (block -1); None if a block has no multiplier > 0.

    Only the K rows with positive multipliers are used. A weight is a quotient by a sum, so that its product
    has a relative error of at most gamma(K + 2). The sum of the products adds gamma(K).
    """
    weights = normalised(multipliers, blocks, n_blocks)
    if weights is None:
        return None
    if sparse.issparse(slopes):
        slope, size = np.asarray(weights @ slopes), np.asarray(weights @ abs(slopes))
        products = weights * offsets
        constant, terms, used = float(products.sum()), float(np.abs(products).sum()), offsets.size
    else:
        slope, size = np.zeros((2, slopes.shape[1]))
        constant, terms, used = _combine(slopes, offsets, weights, slope, size)
    off = 0.0 if used == 1 and weights.max() == 1.0 else gamma(2 * used + 8)
    size *= off
    return Combination(weights, slope, size, constant - off * terms, terms)


def normalised(multipliers: Array, blocks: Array, n_blocks: int) -> Array | None:
    """Return multipliers clipped at zero, with sum 1 over each block; None if a block has none > 0."""
    weights = np.empty(multipliers.size)
    return weights if _normalise(multipliers, blocks, np.zeros(n_blocks), weights) else None


@routine
def _normalise(multipliers, blocks, sums, weights):
    """Write the weights; tell whether each block has a positive weight.

    The multipliers of half-spaces are divided by the mean of the sums, because a level constraint makes the
    sums differ from 1.
    """
    largest = free = 0.0
    for i in range(weights.size):
        a = multipliers[i]
        if a > 0.0 and a < np.inf:
            if blocks[i] < 0:
                free = max(free, a)
            else:
                largest = max(largest, a)
    for i in range(weights.size):
        a = multipliers[i]
        kept = a < np.inf and a >= _NEGLIGIBLE * (free if blocks[i] < 0 else largest) and a > 0.0
        weights[i] = a / max(largest, 1.0) if kept else 0.0
        if blocks[i] >= 0:
            sums[blocks[i]] += weights[i]
    mean = 0.0
    for k in range(sums.size):
        if not sums[k] > 0.0:
            return False
        mean += sums[k] / sums.size
    for i in range(weights.size):
        weights[i] /= mean if blocks[i] < 0 else sums[blocks[i]]
    return True


@routine(fastmath=SUMS)
def _combine(slopes, offsets, weights, slope, size):
    """Add weights times rows, and their absolute values; return these sums of the offsets, and the count."""
    constant = terms = 0.0
    used = 0
    for i in range(offsets.size):
        w = weights[i]
        if w > 0.0:
            constant += w * offsets[i]
            terms += w * abs(offsets[i])
            used += 1
            row = slopes[i]
            for j in range(slope.size):
                slope[j] += w * row[j]
                size[j] += w * abs(row[j])
    return constant, terms, used


@dataclass(frozen=True)
class SeparableInBox:
    """g(x) = sum_j weights_j (x_j - centre_j)^2 / 2 + costs_j |x_j| for lower <= x <= upper, else inf.

    Parameters
    ----------
    form : SeparableForm
    lower, upper : ndarray of shape (dim,)
    """

    form: SeparableForm
    lower: Array
    upper: Array

    @cached_property
    def open_sides(self) -> Array:
        """Whether neither g nor the box bounds x from below, and from above; shape (2, dim)."""
        plain = (self.form.quadratic.weights == 0.0) & (self.form.costs == 0.0)
        return np.isinf([self.lower, self.upper]) & plain

    def least(self, v: Array, error: Array, budget: float = math.inf, x: Array | None = None) -> float:
        """Return a lower bound of min g(x) + <u, x> over all x and all u with |u - v| <= error.

        Only points with g(x) <= budget are considered. If |u_j| exceeds the only term costs_j |x_j|, with a
        difference excess_j, they bound the decrease: sum_j excess_j |x_j| <= max_j (excess_j / costs_j)
        budget. The minimiser is written to `x`.
        """
        quadratic = self.form.quadratic
        total, size, excess, exact = _least(
            v,
            error,
            quadratic.weights,
            quadratic.centre,
            self.form.costs,
            self.lower,
            self.upper,
            np.empty(v.size) if x is None else x,
        )
        constant = quadratic.constant
        if exact and excess == constant == 0.0:
            return total
        if excess > 0.0:
            total -= excess * budget * ABOVE
            size += excess * budget
        return total + constant - gamma(v.size + _OPERATIONS) * (size + constant)


@routine
def _least(v, error, weights, centre, costs, lower, upper, x):
    """Return sums over the coordinates of their minima, rounded down, and of the absolute minima.

    The worst u gives <u, x> = <v, x> - <error, |x|>, so that each coordinate is a quadratic on an interval on
    each side of zero. The third result is the largest excess of a slope over a cost, relative to the cost.
    The fourth tells whether the sum is exact, for example because all numbers are integers.
    """
    off = _OPERATIONS * UNIT / (1.0 - _OPERATIONS * UNIT)
    total = size = excess = 0.0
    exact = True
    for j in range(v.size):
        q, cost = weights[j], costs[j]
        plain = cost == error[j] == 0.0
        slack = 0.0 if plain else off * (abs(v[j]) + cost + error[j])
        best = np.inf
        for sign in (1.0, -1.0):
            c = sign * centre[j]
            low, high = (lower[j], upper[j]) if sign > 0.0 else (-upper[j], -lower[j])
            low = max(low, 0.0)
            if low > high:
                continue
            slope = sign * v[j] + cost - error[j] - slack
            if q > 0.0:
                y = c - slope / q
            else:
                y = high if slope < 0.0 else low
                if y == np.inf and cost > 0.0:
                    excess = max(excess, -slope / cost * (1.0 + off))
                    y = low
                    slope = 0.0
            y = min(max(y, low), high)
            value = 0.0 if y == 0.0 else slope * y
            if not (plain and q == 0.0 and _is_exact(slope, y)):
                value -= off * abs(value)
            if q > 0.0 and not y == c:
                square = 0.5 * q * (y - c) ** 2  # a difference of floats has a relative error
                value += square - off * square
                if low < y < high:
                    value -= q * (off * (abs(c) + abs(slope) / q)) ** 2
            if np.isnan(value):
                value = -np.inf
            if value < best:
                best = value
                x[j] = sign * y
        before = total
        total += best
        exact = exact and total - before == best and total - best == before
        size += abs(best)
    return total, size, excess, exact


@routine
def _is_exact(a, b):
    """Tell whether a product has no rounding error, because both factors have at most 24 bits."""
    return a == np.float64(np.float32(a)) and b == np.float64(np.float32(b))


def bound_of(found: Combination, least: float) -> float:
    """Return the bound that a combination and the minimum of the simple part give, rounded down."""
    value = found.constant + least
    exact = value - least == found.constant and value - found.constant == least
    return value if exact or not math.isfinite(value) else value - 2.0 * UNIT * abs(value)

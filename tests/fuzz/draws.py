"""Numbers whose sums and products are exact in float64: multiples of small powers of two."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

Array = np.ndarray
Rng = np.random.Generator


def dyadic(rng: Rng, *shape: int, bits: int = 6, spread: float = 1.0) -> Array:
    """Normal numbers, rounded to multiples of 2**-bits."""
    return np.round(spread * rng.normal(size=shape) * 2.0**bits) / 2.0**bits


def positive(rng: Rng, *shape: int, bits: int = 6) -> Array:
    """Positive multiples of 2**-bits."""
    return np.ceil(rng.exponential(size=shape) * 2.0**bits) / 2.0**bits


def shares(rng: Rng, n: int, zeros: bool = False, bits: int = 6) -> Array:
    """Nonnegative multiples of 2**-bits that sum to 1; positive ones unless `zeros`."""
    total = 2**bits
    weights = rng.dirichlet(np.ones(n))
    if zeros:
        return rng.multinomial(total, weights) / total
    return (1 + rng.multinomial(total - n, weights)) / total


def chance(rng: Rng, p: float) -> bool:
    """True with probability p."""
    return bool(rng.random() < p)


def pick(rng: Rng, choices: dict) -> object:
    """One of the keys, with probability proportional to its value."""
    names = list(choices)
    weights = np.array([choices[name] for name in names], float)
    return names[int(rng.choice(len(names), p=weights / weights.sum()))]


def power(rng: Rng, largest: int) -> float:
    """A power of two between 2**-largest and 2**largest."""
    return float(2.0 ** int(rng.integers(-largest, largest + 1)))


def turn(rng: Rng, n: int) -> Array:
    """A random orthonormal matrix, which is not dyadic."""
    return np.linalg.qr(rng.normal(size=(n, n)))[0]


@cache
def variable(n: int) -> Any:
    """The cvxpy variable of this size, because the pieces of one problem have the same."""
    import cvxpy as cp

    return cp.Variable(n)

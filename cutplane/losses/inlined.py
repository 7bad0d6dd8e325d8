"""exp and log1p for compiled loops, without branches and calls, so that the compiler can vectorise the loops.

Both are accurate to about one ulp. The C library would need a call per example, unless Intel's SVML is
installed. These functions must not be compiled with "reassoc", because it would remove the rounding to
integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numba.extending import overload

from cutplane.losses import elementary

INLINE: Any = {"cache": True, "error_model": "numpy", "fastmath": {"contract"}, "forceinline": True}

_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
"""ln 2 in two parts, because the product of the first part and an integer of at most 11 bits is exact."""
_ROUND = 6755399441055744.0
"""1.5 * 2^52, used because adding it to a number rounds the number to an integer, which is then in the last
bits."""
_FAR = 1000.0
"""Largest argument of exp, because beyond it the result is 0 or inf, and the exponent would overflow."""
_SQRT2 = 1.4142135623730951
"""The square root of 2, by which log1p divides large values of 1 + x because its series is shorter near 1."""


@njit(**INLINE)
def exp(x):
    """Return exp(x); inf above 709.78, with gradual underflow below -708."""
    x = _FAR if x > _FAR else x
    x = -_FAR if x < -_FAR else x
    k = (x * 1.4426950408889634 + _ROUND) - _ROUND
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    p = 1.0 / 6227020800.0
    p = p * r + 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    half = 0.5 * k + _ROUND  # its low bits are the integer half of k
    rest = (k - (half - _ROUND)) + _ROUND
    first = (np.float64(half).view(np.int64) + np.int64(1023)) << np.int64(52)
    second = (np.float64(rest).view(np.int64) + np.int64(1023)) << np.int64(52)
    return p * np.int64(first).view(np.float64) * np.int64(second).view(np.float64)


@njit(**INLINE)
def log1p(x):
    """Return ln(1 + x) for 0 <= x <= 1, as 2 artanh(x / (2 + x)); for large x by (1 + x) / sqrt(2)."""
    large = 1.0 * (x > _SQRT2 - 1.0)
    g = (x - large * (_SQRT2 - 1.0)) / (1.0 + large * (_SQRT2 - 1.0))
    f = g / (2.0 + g)
    w = f * f
    p = 1.0 / 23.0
    p = p * w + 1.0 / 21.0
    p = p * w + 1.0 / 19.0
    p = p * w + 1.0 / 17.0
    p = p * w + 1.0 / 15.0
    p = p * w + 1.0 / 13.0
    p = p * w + 1.0 / 11.0
    p = p * w + 1.0 / 9.0
    p = p * w + 1.0 / 7.0
    p = p * w + 1.0 / 5.0
    p = p * w + 1.0 / 3.0
    return 2.0 * (p * w * f + f) + large * 0.34657359027997264


@njit(**INLINE)
def softplus(x):
    """Return ln(1 + exp(x))."""
    return 0.5 * (abs(x) + x) + log1p(exp(-abs(x)))


overload(elementary.exp, INLINE)(lambda x: lambda x: exp(x))
overload(elementary.softplus, INLINE)(lambda x: lambda x: softplus(x))

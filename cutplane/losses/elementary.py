"""Functions for losses that compiled loops vectorise, unlike the functions of numpy.

For arrays they call numpy. In compiled code they are the functions of `cutplane.losses.inlined`, which are
accurate to about one ulp.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def exp(x: Any) -> Any:
    """Return exp(x), inf above 709.78.

    Examples
    --------
    >>> from cutplane.losses.elementary import exp
    >>> float(exp(0.0)), float(exp(1000.0))
    (1.0, inf)
    """
    with np.errstate(over="ignore"):
        return np.exp(x)


def softplus(x: Any) -> Any:
    """Return ln(1 + exp(x)), without overflow.

    Examples
    --------
    >>> from cutplane.losses.elementary import softplus
    >>> round(float(softplus(0.0)), 6), float(softplus(1000.0))
    (0.693147, 1000.0)
    """
    return 0.5 * (abs(x) + x) + np.log1p(np.exp(-abs(x)))


def x_log_x(x: Any) -> Any:
    """Return x ln x for x > 0, and 0 elsewhere; not for compiled code.

    Examples
    --------
    >>> from cutplane.losses.elementary import x_log_x
    >>> float(x_log_x(0.0)), float(x_log_x(1.0))
    (0.0, 0.0)
    """
    return x * np.log(np.where(x > 0.0, x, 1.0))

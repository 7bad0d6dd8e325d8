"""Checks of user input; each raises one sentence that names the object, the value and the remedy."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.exceptions import InvalidInputError

Array = NDArray[Any]


def as_vector(name: str, value: Any, dim: int | None = None, *, finite: bool = True) -> Array:
    """Return `value` as a float64 vector of shape (dim,), or raise `InvalidInputError`."""
    try:
        vector = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{name} must be a vector of numbers, got {type(value).__name__}.") from error
    if vector.ndim != 1:
        raise InvalidInputError(
            f"{name} must have one dimension, got shape {vector.shape}; pass {name}.ravel()."
        )
    if dim is not None and vector.shape[0] != dim:
        raise InvalidInputError(f"{name} must have shape ({dim},), got {vector.shape}.")
    if finite and not np.isfinite(vector).all():
        where = int(np.flatnonzero(~np.isfinite(vector))[0])
        raise InvalidInputError(f"{name}[{where}] is {vector[where]}; every entry must be finite.")
    return vector


def as_signs(owner: str, y: Any) -> Array:
    """Return labels -1 and +1 as a float64 vector, or raise `InvalidInputError`."""
    targets = as_vector("y", y)
    wrong = np.flatnonzero(np.abs(targets) != 1.0)
    if wrong.size == 0:
        return targets
    if np.isin(targets, (0.0, 1.0)).all():
        raise InvalidInputError(f"{owner} needs labels y in {{-1, +1}}, got {{0, 1}}; pass 2.0 * y - 1.0.")
    raise InvalidInputError(
        f"{owner} needs labels y in {{-1, +1}}, but y[{wrong[0]}] is {targets[wrong[0]]:g}; "
        "pass np.where(y == positive, 1.0, -1.0), with the label that is to be positive."
    )


def as_scalar(
    name: str,
    value: Any,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    low_open: bool = False,
    high_open: bool = False,
) -> float:
    """Return `value` as a float within the given range, or raise `InvalidInputError`."""
    if not isinstance(value, Real | np.number) or isinstance(value, bool | np.bool_):
        raise InvalidInputError(f"{name} must be a number, got {value!r}.")
    number = float(value)
    below = number <= low if low_open else number < low
    above = number >= high if high_open else number > high
    if math.isnan(number) or below or above:
        left, right = "(" if low_open else "[", ")" if high_open else "]"
        raise InvalidInputError(f"{name} must be in {left}{low:g}, {high:g}{right}, got {number:g}.")
    return number


def as_positive(name: str, value: Any) -> float:
    """Return `value` as a finite float above 0, or raise `InvalidInputError`."""
    return as_scalar(name, value, low=0.0, low_open=True, high_open=True)


def as_nonnegative(name: str, value: Any) -> float:
    """Return `value` as a finite float of at least 0, or raise `InvalidInputError`."""
    return as_scalar(name, value, low=0.0, high_open=True)


def as_count(name: str, value: Any, *, low: int = 1) -> int:
    """Return `value` as an int of at least `low`, or raise `InvalidInputError`."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise InvalidInputError(f"{name} must be an integer, got {value!r}.")
    if value < low:
        raise InvalidInputError(f"{name} must be at least {low}, got {value}.")
    return int(value)

"""Checks of user input; each error names the object, its value and a remedy."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cutplane.exceptions import InvalidInputError

Array = NDArray[Any]


def as_numbers(name: str, value: Any, *, finite: bool = True) -> Array:
    """Return `value` as an array of float64, or raise `InvalidInputError` if it has NaN or infinite entries.

    Infinite entries are allowed unless `finite`. All input numbers are checked here or in `as_scalar`. A
    float64 array is not copied.
    """
    array = as_real(name, value)
    wrong = ~np.isfinite(array) if finite else np.isnan(array)
    if wrong.any():
        where = tuple(int(i) for i in np.argwhere(wrong)[0])
        shown = f"[{', '.join(map(str, where))}]" if where else ""
        wanted = "finite" if finite else "a number"
        raise InvalidInputError(f"{name}{shown} is {array[where]}; every entry must be {wanted}.")
    return array


def as_real(name: str, value: Any, *, keep_float32: bool = False) -> Array:
    """Return `value` as an array of float64, or of float32 with `keep_float32`; entries are not checked."""
    least = np.float32 if keep_float32 else np.float64
    if type(value) is np.ndarray and value.dtype in (least, np.float64):
        return value
    if sparse.issparse(value):
        raise InvalidInputError(f"{name} must be dense, got a {type(value).__name__}; pass {name}.toarray().")
    refuse_masked(name, value)
    try:
        array = np.asarray(value)
        if array.dtype.kind == "O" and all(map(_is_real, array.ravel())):
            array = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        held = f"{type(value).__name__}: {str(error).rstrip('.')}"
        raise InvalidInputError(f"{name} must hold real numbers, got {held}.") from error
    if array.dtype.kind not in "biuf":
        held = f"{type(value).__name__} of dtype {array.dtype}"
        raise InvalidInputError(f"{name} must hold real numbers, got {held}; encode it as float64.")
    if array.dtype == least:
        return array.astype(least, copy=False)  # a subclass, or an array in another byte order
    with np.errstate(over="ignore"):  # a longdouble beyond float64 becomes infinite
        return array.astype(np.float64)


def _is_real(entry: Any) -> bool:
    return isinstance(entry, Real | np.bool_)


def refuse_masked(name: str, value: Any) -> None:
    """Raise if a masked array, or a list of them, has masked entries, because numpy would use them."""
    for part in value if isinstance(value, list | tuple) else (value,):
        if isinstance(part, np.ma.MaskedArray) and np.ma.is_masked(part):
            count = np.ma.count_masked(part)
            raise InvalidInputError(f"{name} has masked entries, {count} of {part.size}; fill or drop them.")


def as_integers(name: str, value: Any) -> Array:
    """Return `value` as an array of int64, or raise `InvalidInputError`, for example for floats."""
    refuse_masked(name, value)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise InvalidInputError(f"{name} must hold integers: {str(error).rstrip('.')}.") from error
    if array.size and array.dtype.kind not in "iu":
        raise InvalidInputError(f"{name} must hold integers, got dtype {array.dtype}.")
    return array.astype(np.int64)


def as_vector(name: str, value: Any, dim: int | None = None, *, finite: bool = True) -> Array:
    """Return `value` as a float64 vector of shape (dim,), or raise `InvalidInputError`."""
    vector = as_numbers(name, value, finite=finite)
    if vector.ndim != 1:
        raise InvalidInputError(
            f"{name} must have one dimension, got shape {vector.shape}; pass a vector, such as "
            f"{name}.ravel()."
        )
    if dim is None and vector.size == 0:
        raise InvalidInputError(f"{name} is empty; it must have at least one entry.")
    if dim is not None and vector.shape[0] != dim:
        raise InvalidInputError(f"{name} must have shape ({dim},), got {vector.shape}.")
    return vector


def as_sparse(
    name: str, value: Any, formats: tuple[str, ...] = ("csr",), *, keep_float32: bool = False
) -> Any:
    """Return a sparse array of float64 in one of the formats, by default the first; copy only if necessary.

    Sparse matrices become sparse arrays, because ``*`` is the matrix product for sparse matrices.
    """
    if value.ndim != 2:
        raise InvalidInputError(f"{name} must have two dimensions, got shape {value.shape}.")
    if value.dtype.kind not in "biuf":
        raise InvalidInputError(
            f"{name} must hold real numbers, got dtype {value.dtype}; encode it as floats."
        )
    kept = (np.float32, np.float64) if keep_float32 else (np.float64,)
    try:
        X = value if value.format in formats else value.asformat(formats[0])
        X = X if X.dtype in kept and X.dtype.isnative else X.astype(np.float64)
        return X if isinstance(X, sparse.sparray) else _ARRAYS[X.format](X)
    except ValueError as error:  # the indices may have been set by hand
        raise InvalidInputError(
            f"{name} is not in {value.format.upper()} format: {error}; build it from a "
            "scipy.sparse.coo_array((data, (rows, columns)), shape)."
        ) from error


_ARRAYS: Any = {"csr": sparse.csr_array, "csc": sparse.csc_array}


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
    infinite: bool = False,
) -> float:
    """Return `value` as a float within the given range, or raise `InvalidInputError`.

    Infinite values are allowed only with `infinite`.
    """
    if not isinstance(value, Real) or isinstance(value, bool):
        raise InvalidInputError(f"{name} must be a number, got {value!r}.")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf if bool(value > 0) else -math.inf  # type: ignore[operator]
    low_open |= math.isinf(low) and not infinite
    high_open |= math.isinf(high) and not infinite
    below = number <= low if low_open else number < low
    above = number >= high if high_open else number > high
    if math.isnan(number) or below or above:
        left, right = "(" if low_open else "[", ")" if high_open else "]"
        raise InvalidInputError(f"{name} must be in {left}{low:g}, {high:g}{right}, got {number:g}.")
    return number


def as_positive(name: str, value: Any) -> float:
    """Return `value` as a finite float above 0, or raise `InvalidInputError`."""
    return as_scalar(name, value, low=0.0, low_open=True)


def as_nonnegative(name: str, value: Any) -> float:
    """Return `value` as a finite float of at least 0, or raise `InvalidInputError`."""
    return as_scalar(name, value, low=0.0)


def as_count(name: str, value: Any, *, low: int = 1) -> int:
    """Return `value` as an int of at least `low`, or raise `InvalidInputError`."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise InvalidInputError(f"{name} must be an integer, got {value!r}.")
    if value < low:
        raise InvalidInputError(f"{name} must be at least {low}, got {value}.")
    return int(value)


def as_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return `value` if it is one of the choices, or raise `InvalidInputError`."""
    if value not in choices:
        raise InvalidInputError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}.")
    return value

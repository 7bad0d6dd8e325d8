"""Checks of the answers of oracles; each error names the oracle and the expected answer."""

from __future__ import annotations

import math
from copy import copy
from typing import Any

import numpy as np

from cutplane.exceptions import OracleError
from cutplane.pieces.validation import Array


def name_of(piece: Any) -> str:
    """Return the name of a user's function or the class of a piece."""
    return getattr(piece, "__name__", None) or type(piece).__name__


def show(x: Array) -> str:
    """Return a point as a short string."""
    return np.array2string(x, precision=6, threshold=8)


def own_floats(value: Any) -> Array | None:
    """Return a copy, because an oracle may use its array again; None if there are no real numbers."""
    if isinstance(value, np.ndarray | float) and (isinstance(value, float) or value.dtype == np.float64):
        return np.array(value)
    try:
        return None if np.iscomplexobj(value) else np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        return None


def is_finite(array: Array) -> bool:
    """Tell whether all entries are finite."""
    return math.isfinite(np.vdot(array, array)) or bool(np.isfinite(array).all())


def describe(value: Any) -> str:
    """Return the shape of numbers, or the value itself, for a message."""
    return f"shape {np.shape(value)}" if own_floats(value) is not None else repr(value)


def values_of(name: str, values: Any, n_blocks: int, x: Array) -> Array:
    """Return the values of a risk at x as a new array, shape (n_blocks,)."""
    array = own_floats(values)
    if array is not None and array.size == n_blocks == 1:
        array = array.reshape(1)
    if array is None or array.shape != (n_blocks,):
        wanted = "a float" if n_blocks == 1 else f"an array of shape {(n_blocks,)}"
        raise OracleError(f"The value of {name} must be {wanted}, got {describe(values)}.")
    if not is_finite(array) and (np.isnan(array).any() or (array == -np.inf).any()):
        raise OracleError(f"The value of {name} is {array} at x = {show(x)}; it must be a number.")
    return array


def slopes_of(name: str, slopes: Any, n_blocks: int, x: Array) -> Array:
    """Return the subgradients of a risk at x as a new array, shape (n_blocks, dim)."""
    array = own_floats(slopes)
    if array is not None and n_blocks == 1 and array.shape == x.shape:
        array = array.reshape(1, x.size)
    if array is None or array.shape != (n_blocks, x.size):
        wanted = x.shape if n_blocks == 1 else (n_blocks, x.size)
        raise OracleError(f"The subgradient of {name} must have shape {wanted}, got {describe(slopes)}.")
    if not is_finite(array):
        raise OracleError(f"The subgradient of {name} has entries that are not finite at x = {show(x)}.")
    return array


def solutions_of(name: str, solution: Any, n_blocks: int) -> tuple[Any, ...]:
    """Return the solution of an oracle as a tuple with one entry per block."""
    if n_blocks == 1:
        return (_own(solution),)
    if solution is None:
        return (None,) * n_blocks
    if not hasattr(solution, "__len__") or len(solution) != n_blocks:
        raise OracleError(
            f"The solution of {name}, its third result, must be a sequence of {n_blocks}, one for each "
            f"block, got {type(solution).__name__}."
        )
    return tuple(_own(one) for one in solution)


def _own(solution: Any) -> Any:
    """Return a copy, or a tuple of copies, because an oracle may use its memory again."""
    return tuple(map(_own, solution)) if isinstance(solution, tuple) else copy(solution)

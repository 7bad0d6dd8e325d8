"""Parameters of regularizers and feasible sets: checks, read-only copies, and short texts for a repr."""

from __future__ import annotations

import math
from dataclasses import MISSING, fields
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import Array, as_count, as_numbers, as_scalar, as_sparse, as_vector

_SHOWN = 3
"""Number of entries of a vector shown in a repr, because a repr should fit on a line."""


def read_only(array: Array) -> Array:
    """Return a read-only view of `array`, which shares its memory."""
    view = array.view()
    view.flags.writeable = False
    return view


def set_fields(piece: Any, **values: Any) -> None:
    """Set fields of a frozen dataclass, for use in ``__post_init__``."""
    for name, value in values.items():
        object.__setattr__(piece, name, value)


def as_parameter(
    name: str, value: Any, *, low: float = -math.inf, low_open: bool = False, finite: bool = True
) -> float | Array:
    """Return `value` as a float, or as a read-only copy of a vector, with every entry in range.

    Raises
    ------
    InvalidInputError
        If an entry is NaN, below `low` (or equal to it, with `low_open`), or infinite (with `finite`).
    """
    if isinstance(value, Real | np.number) or not hasattr(value, "__len__"):
        return as_scalar(name, value, low=low, low_open=low_open, infinite=not finite)
    vector = as_vector(name, value, finite=finite).copy()
    bad = (vector <= low) if low_open else (vector < low)
    if bad.any():
        where = int(np.flatnonzero(bad)[0])
        relation = "greater than" if low_open else "at least"
        raise InvalidInputError(
            f"{name}[{where}] is {vector[where]:g}; every entry must be {relation} {low:g}."
        )
    vector.flags.writeable = False
    return vector


def as_optional_vector(name: str, value: Any, *, low: float = -math.inf) -> Array | None:
    """Return None for None, otherwise a read-only copy of a vector with finite entries of at least `low`."""
    if value is None:
        return None
    vector = as_parameter(name, as_vector(name, value), low=low)
    return np.asarray(vector)


def common_dim(name: str, dim: int | None, **parameters: float | Array | None) -> int | None:
    """Return the common dimension of `dim` and the vectors among `parameters`; None if there are none."""
    sizes = {key: value.shape[0] for key, value in parameters.items() if isinstance(value, np.ndarray)}
    if dim is not None:
        sizes["dim"] = as_count(f"{name}.dim", dim)
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{key}: {size}" for key, size in sizes.items())
        raise InvalidInputError(f"The parameters of {name} must have one dimension, got {listed}.")
    return as_count(f"the dimension of {name}", next(iter(sizes.values()))) if sizes else None


def brief(value: Any) -> str:
    """Return a short text for a parameter; for a vector, its first entries, or its constant."""
    if isinstance(value, float | np.floating):
        return f"{value:g}"
    if isinstance(value, np.ndarray) and value.ndim == 1:
        if value.size and (value == value[0]).all():
            return f"{value[0]:g}"
        head = ", ".join(f"{entry:g}" for entry in value[:_SHOWN])
        return f"[{head}, ...]" if value.size > _SHOWN else f"[{head}]"
    if hasattr(value, "shape") and len(value.shape) == 2 and not hasattr(value, "is_convex"):
        return f"<{value.shape[0]}x{value.shape[1]} matrix>"
    return getattr(value, "__name__", None) or repr(value)


def short_repr(self: Any) -> str:
    """Return the constructor call of a dataclass, with `lam` and the fields that are not default."""
    shown = []
    for field in fields(self):
        value = getattr(self, field.name)
        default = field.default
        same = default is not MISSING and np.ndim(value) == 0 and (value is default or value == default)
        if field.init and field.repr and (field.name == "lam" or not same):
            text = f"<{len(value)} {field.name}>" if isinstance(value, tuple) else brief(value)
            shown.append(f"{field.name}={text}")
    return f"{type(self).__name__}({', '.join(shown)})"


def as_matrix(name: str, value: Any, *, columns: int | None = None) -> Any:
    """Return a float64 matrix, dense and read-only or sparse in CSR form, copied only if necessary."""
    matrix: Any
    if sparse.issparse(value):
        matrix = as_sparse(name, value)
        as_numbers(f"{name}.data", matrix.data)
    else:
        matrix = read_only(as_numbers(name, value))
    if len(matrix.shape) != 2 or (columns is not None and matrix.shape[1] != columns):
        wanted = "two dimensions" if columns is None else f"shape (any, {columns})"
        raise InvalidInputError(f"{name} must have {wanted}, got shape {matrix.shape}.")
    return matrix

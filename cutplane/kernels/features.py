"""Columns of a data matrix, and explicit feature maps of kernels on few of them."""

from __future__ import annotations

import math
from itertools import combinations_with_replacement
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import Array

Features = int | tuple[int, ...] | None


def as_features(features: Any) -> Features:
    """Return None, an int or a tuple of ints, none negative and none twice, or raise `InvalidInputError`."""
    if features is None:
        return None
    single = _is_index(features)
    columns = (features,) if single else features
    if not isinstance(columns, tuple | list | range | np.ndarray) or not all(map(_is_index, columns)):
        raise InvalidInputError(
            f"features must be None, a column number or a tuple of them, got {features!r}."
        )
    columns = tuple(int(j) for j in columns)
    if not columns or min(columns) < 0 or len(set(columns)) < len(columns):
        raise InvalidInputError(
            f"features must be different column numbers, at least one and none negative, got {features!r}."
        )
    return columns[0] if single else columns


def check_features(features: Features, n: int, name: str) -> None:
    """Raise `InvalidInputError` unless a matrix with n columns has those features."""
    largest = -1 if features is None else features if isinstance(features, int) else max(features)
    if largest >= n:
        raise InvalidInputError(
            f"The kernel {name!r} needs column {largest}, but X has {n} columns, 0 to {n - 1}."
        )


def select_columns(X: Any, features: Features) -> Any:
    """Return columns of a matrix that `as_matrix` has checked, as float64, C-ordered or CSR.

    A single column is dense. What has that form already is not copied.
    """
    columns = [features] if isinstance(features, int) else features
    A = X if columns is None else X[:, list(columns)]
    if not sparse.issparse(A):
        return np.ascontiguousarray(A, dtype=np.float64)
    A = A.tocsr().astype(np.float64, copy=False)
    return A.toarray() if isinstance(features, int) else A


def count_monomials(n_columns: int, degree: int, coef0: float) -> int:
    """Return the number of columns of `monomials`."""
    return math.comb(n_columns + (coef0 > 0.0) + degree - 1, degree)


def monomials(A: Array, degree: int, coef0: float, gamma: float) -> Array:
    """Return the map F with <F(x), F(z)> = (gamma <x, z> + coef0)^degree, shape (m, count_monomials)."""
    terms = [math.sqrt(gamma) * column for column in A.T]
    if coef0 > 0.0:
        terms.append(np.full(A.shape[0], math.sqrt(coef0)))
    picks = list(combinations_with_replacement(range(len(terms)), degree))
    F = np.empty((A.shape[0], len(picks)), order="F")
    for column, pick in zip(F.T, picks, strict=True):
        repeats = math.prod(math.factorial(pick.count(j)) for j in set(pick))
        column[:] = math.sqrt(math.factorial(degree) / repeats)
        for j in pick:
            column *= terms[j]
    return F


def _is_index(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)

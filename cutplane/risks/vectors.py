"""What passes over a data matrix have in common, whatever its layout."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import Array
from cutplane.risks.chunks import Segments, count_chunks, one_segment

ALL = np.empty(0, np.int64)
"""In the place of a list of rows: all of them."""


class Data(ABC):
    """Passes over X, of shape (m, n), whose rows edges[k] <= i < edges[k + 1] form block k.

    X, or its transpose, is stored row after row; call these its vectors. A pass takes the inner product of
    each vector with a given one, or adds up multiples of them.

    Attributes
    ----------
    label : str
        The layout and the number type.
    row_entries : float
        Stored entries per row, on average: the cost of a row in `add_rows`.
    cheap_rows : bool
        Whether the vectors are the rows of X, so that `add_rows` reads those that it is given and no others.
    """

    label: str
    row_entries: float
    cheap_rows: bool
    n_vectors: int
    length: int

    def __init__(self, X: Any, edges: Array) -> None:
        self.X = X
        self.edges = edges

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.X, self.edges)  # and none of the views that share the memory of X

    def times(self, v: Array) -> Array:
        """Return X v, shape (m,)."""
        v = _as_vector(v, self.X.shape[1])
        return self._dots(v, self._one_dot)[0] if self.cheap_rows else self._sums(v, self._one_sum)[0]

    def transposed_times(self, u: Array) -> Array:
        """Return X'u, shape (n,)."""
        u = _as_vector(u, self.X.shape[0])
        return self._sums(u, self._one_sum)[0] if self.cheap_rows else self._dots(u, self._one_dot)[0]

    def block_sums(self, u: Array) -> Array:
        """Return the sum of u_i x_i over each block, one row per block."""
        u = _as_vector(u, self.X.shape[0])
        return self._sums(u, self._by_block) if self.cheap_rows else self._dots(u, self._by_block)

    def add_rows(self, rows: Array, coefficients: Array, out: Array) -> None:
        """Add the sum of coefficients_r x_r over the given rows to `out`.

        Parameters
        ----------
        rows : ndarray of shape (k,)
            Numbers of rows, 0 <= r < m, in any order, maybe repeated.
        coefficients : ndarray of shape (k,)
        out : ndarray of shape (n,)
            float64.
        """
        rows = np.ascontiguousarray(rows, dtype=np.int64)
        coefficients = _as_vector(coefficients, rows.size)
        if not self.cheap_rows:
            out += self.transposed_times(np.bincount(rows, coefficients, self.X.shape[0]))
        elif rows.size:
            plan = one_segment(rows.size)
            if count_chunks(rows.size * self.row_entries) > 1:
                plan = self._plan_sums(plan.edges, rows)
            if len(plan) == 1:
                self._sums(coefficients, plan, rows, out)
            else:
                out += self._sums(coefficients, plan, rows)[0]

    @abstractmethod
    def squared_norms(self) -> Array:
        """Return the squared Euclidean norm of each row, shape (m,)."""

    @cached_property
    def _one_dot(self) -> Segments:
        return self._plan_dots(np.array([0, self.length]))

    @cached_property
    def _one_sum(self) -> Segments:
        return self._plan_sums(np.array([0, self.n_vectors]))

    @cached_property
    def _by_block(self) -> Segments:
        return (self._plan_sums if self.cheap_rows else self._plan_dots)(self.edges)

    @abstractmethod
    def _plan_dots(self, edges: Array) -> Segments:
        """Split inner products at `edges`."""

    @abstractmethod
    def _plan_sums(self, edges: Array, rows: Array = ALL) -> Segments:
        """Split the list of vectors at `edges`."""

    @abstractmethod
    def _dots(self, v: Array, plan: Segments) -> Array:
        """Return the inner products of each vector with v, one row per block of the plan."""

    @abstractmethod
    def _sums(self, u: Array, plan: Segments, rows: Array = ALL, out: Array | None = None) -> Array:
        """Return the sum of multiples of vectors, one row per block; added to `out` if it is given."""


def _as_vector(v: Array, size: int) -> Array:
    v = np.ascontiguousarray(v, dtype=np.float64)
    if v.shape != (size,):
        raise InvalidInputError(f"A vector of shape ({size},) was expected, got shape {v.shape}.")
    return v

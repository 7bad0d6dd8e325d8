"""The rows of a kernel matrix as the solver sees them: all in memory, or computed when needed and kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import Array
from cutplane.runtime.compiling import SUMS, routine
from cutplane.runtime.threads import get_threads, run_chunks

CACHE_BYTES = 200 * 2**20
_WORTH_A_THREAD = 2**20


@routine(fastmath=SUMS)
def add_rows(rows, where, a, low, high, out):
    """Set out[low:high] to that part of K a; every row with a_i != 0 must be there."""
    out = out[low:high]
    out[:] = 0.0
    chosen = np.flatnonzero(a)
    count = chosen.shape[0]
    n = 0
    while n + 4 <= count:
        i, j, k, p = chosen[n], chosen[n + 1], chosen[n + 2], chosen[n + 3]
        row_i, row_j = rows[where[i], low:high], rows[where[j], low:high]
        row_k, row_p = rows[where[k], low:high], rows[where[p], low:high]
        a_i, a_j, a_k, a_p = a[i], a[j], a[k], a[p]
        for q in range(out.shape[0]):
            out[q] += (a_i * row_i[q] + a_j * row_j[q]) + (a_k * row_k[q] + a_p * row_p[q])
        n += 4
    while n < count:
        row_i, a_i = rows[where[chosen[n]], low:high], a[chosen[n]]
        for q in range(out.shape[0]):
            out[q] += a_i * row_i[q]
        n += 1


@routine
def gather(rows, chosen):
    """Return a new array with those rows and columns."""
    out = np.empty((chosen.shape[0], chosen.shape[0]))
    for k in range(chosen.shape[0]):
        row = rows[chosen[k]]
        for q in range(chosen.shape[0]):
            out[k, q] = row[chosen[q]]
    return out


@runtime_checkable
class RowSource(Protocol):
    """A kernel matrix that computes its rows."""

    @property
    def n(self) -> int:
        """Number of rows."""
        ...

    def diagonal(self) -> Array:
        """Return the diagonal, shape (n,)."""
        ...

    def row(self, i: int) -> Array:
        """Return row i, shape (n,)."""
        ...


class Rows(ABC):
    """Row i of K is ``slots[where[i]]`` if ``where[i] >= 0``; `used` holds the time of its last use.

    Attributes
    ----------
    slots : ndarray of shape (k, m)
    where, used : ndarray of int64
    diagonal : ndarray of shape (m,)
    clock : int
        The time: later than that of any use so far.
    """

    slots: Array
    where: Array
    used: Array
    diagonal: Array
    clock = 0
    complete = False
    """Whether every row is in a slot."""

    @abstractmethod
    def fetch(self, i: int) -> None:
        """See to it that row i is in a slot."""

    @abstractmethod
    def product(self, a: Array) -> Array:
        """Return K a, from the rows with a_i != 0 alone."""

    @abstractmethod
    def block(self, chosen: Array) -> Array:
        """Return a new array with those rows and columns."""

    @abstractmethod
    def part(self, chosen: Array) -> Rows:
        """Return those rows, cut to those columns; a copy."""


class DenseRows(Rows):
    """All rows of an array, which is not copied."""

    complete = True

    def __init__(self, K: Array) -> None:
        self.slots = K
        self.where = np.arange(K.shape[0])
        self.used = np.zeros(K.shape[0], np.int64)
        self.diagonal = np.ascontiguousarray(K.diagonal())

    def fetch(self, i: int) -> None:
        """Do nothing: every row is there."""

    def product(self, a: Array) -> Array:
        """Return K a, on several threads if it is worth it."""
        m, out = a.size, np.empty(a.size)
        n_chunks = min(get_threads(), 1 + np.count_nonzero(a) * m // _WORTH_A_THREAD)
        edges = [64 * (m * k // (64 * n_chunks)) for k in range(n_chunks)] + [m]

        def part(k: int) -> None:
            add_rows(self.slots, self.where, a, edges[k], edges[k + 1], out)

        run_chunks(part, range(n_chunks))
        return out

    def block(self, chosen: Array) -> Array:
        """Return a new array with those rows and columns."""
        return gather(self.slots, chosen)

    def part(self, chosen: Array) -> Rows:
        """Return those rows, cut to those columns; a copy."""
        return DenseRows(self.block(chosen))


class CachedRows(Rows):
    """Rows computed by ``source.row(i)``; of those, the most recently used are kept."""

    def __init__(self, source: RowSource, cache_bytes: int) -> None:
        m = int(source.n)
        self.source = source
        self.slots = np.empty((min(m, max(2, cache_bytes // (8 * m))), m))
        self.where = np.full(m, -1)
        self.owner = np.full(self.slots.shape[0], -1)
        self.used = np.full(self.slots.shape[0], -1)
        self.diagonal = np.ascontiguousarray(source.diagonal(), dtype=np.float64)
        if self.diagonal.shape != (m,):
            raise InvalidInputError(
                f"diagonal() of {type(source).__name__} must have shape ({m},), got {self.diagonal.shape}."
            )

    def fetch(self, i: int) -> None:
        """Compute row i unless it is there, in the slot that was not used for the longest time."""
        if self.where[i] >= 0:
            return
        slot = int(self.used.argmin())
        if self.owner[slot] >= 0:
            self.where[self.owner[slot]] = -1
        self.owner[slot] = -1
        self.slots[slot] = self.source.row(i)
        self.owner[slot], self.where[i] = i, slot
        self.used[slot] = self.clock
        self.clock += 1

    def product(self, a: Array) -> Array:
        """Return K a, one row at a time; no row in the cache has to go for it."""
        out = np.zeros(a.size)
        for i in np.flatnonzero(a).tolist():
            if self.where[i] < 0 and (self.owner < 0).any():
                self.fetch(i)
            out += a[i] * (self.slots[self.where[i]] if self.where[i] >= 0 else self.source.row(i))
        return out

    def block(self, chosen: Array) -> Array:
        """Return a new array with those rows and columns."""
        out = np.empty((chosen.size, chosen.size))
        for k, i in enumerate(chosen.tolist()):
            self.fetch(i)
            out[k] = self.slots[self.where[i], chosen]
        return out

    def part(self, chosen: Array) -> Rows:
        """Return those rows, cut to those columns; each is copied when it is needed."""
        return CachedRows(_Part(self, chosen), 8 * chosen.size**2)


@dataclass(frozen=True, eq=False)
class _Part:
    rows: Rows
    chosen: Array

    @property
    def n(self) -> int:
        return self.chosen.size

    def diagonal(self) -> Array:
        return self.rows.diagonal[self.chosen]

    def row(self, i: int) -> Array:
        place = int(self.chosen[i])
        self.rows.fetch(place)
        return self.rows.slots[self.rows.where[place], self.chosen]


def as_rows(K: Any, m: int, cache_bytes: int) -> Rows:
    """Return the rows of an array or of an object that computes them, or raise `InvalidInputError`."""
    if isinstance(K, RowSource):
        if int(K.n) != m:
            raise InvalidInputError(f"K has {K.n} rows, but there are {m} targets y.")
        rows: Rows = CachedRows(K, cache_bytes)
    else:
        if not isinstance(K, np.ndarray):
            raise InvalidInputError(
                "K must be a float64 array of shape (m, m) or an object with n, diagonal() and row(i), "
                f"got {type(K).__name__}."
            )
        if K.shape != (m, m):
            raise InvalidInputError(f"K must have shape ({m}, {m}), as there are {m} targets, got {K.shape}.")
        if K.dtype != np.float64:
            raise InvalidInputError(f"K must be of type float64, got {K.dtype}; pass K.astype(np.float64).")
        rows = DenseRows(K if K.flags.c_contiguous else K.T if K.flags.f_contiguous else K.copy())
    diagonal = rows.diagonal
    if not np.isfinite(diagonal).all():
        i = int(np.flatnonzero(~np.isfinite(diagonal))[0])
        raise InvalidInputError(f"K[{i}, {i}] is {diagonal[i]}; every entry of K must be finite.")
    if (least := float(diagonal.min())) < -1e-9 * float(np.abs(diagonal).max()):
        i = int(diagonal.argmin())
        raise InvalidInputError(
            f"K[{i}, {i}] is {least:g}, but a kernel matrix has a nonnegative diagonal; "
            "check the kernel, or project K on the positive semidefinite matrices."
        )
    return rows

"""The rows of a kernel matrix for solvers: all in memory, or computed when needed and kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.parameters import read_only
from cutplane.pieces.validation import Array
from cutplane.runtime.compiling import SUMS, routine
from cutplane.runtime.threads import get_threads, run_chunks

CACHE_BYTES = 200 * 2**20
"""Memory for rows, because libsvm's default is as much."""
_WORTH_A_THREAD = 2**20
"""Products of a thread at least, because starting one takes as long as some hundred thousand."""
_MOST = 64
"""Rows computed ahead at most, because a matrix product of so many has its full speed."""
_CHUNK = 256
"""Rows of a product computed at a time where they do not fit the cache, because a product of so many has its
full speed and little memory."""
_FETCH = 30_000
"""Entries of rows computed in the time of a fetch besides them, because a fetch is interpreted."""


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
def gather(slots, places, chosen, out):
    """Set out to those rows of the slots, cut to the chosen columns."""
    for k in range(places.shape[0]):
        row = slots[places[k]]
        for q in range(chosen.shape[0]):
            out[k, q] = row[chosen[q]]


def product(slots: Array, where: Array, a: Array) -> Array:
    """Return K a; every row with a_i != 0 must be in a slot."""
    m, a, out = a.size, read_only(a), np.empty(a.size)
    n_chunks = min(get_threads(), 1 + np.count_nonzero(a) * m // _WORTH_A_THREAD)
    edges = [64 * (m * k // (64 * n_chunks)) for k in range(n_chunks)] + [m]

    def part(k: int) -> None:
        add_rows(slots, where, a, edges[k], edges[k + 1], out)

    run_chunks(part, range(n_chunks))
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


class BlockSource(ABC):
    """A kernel matrix that computes many rows at a time, of type `dtype`."""

    dtype = np.dtype(np.float64)

    @property
    @abstractmethod
    def n(self) -> int:
        """Number of rows."""

    @abstractmethod
    def diagonal(self) -> Array:
        """Return the diagonal, shape (n,)."""

    @abstractmethod
    def rows(self, chosen: Array, out: Array | None = None) -> Array:
        """Return those rows, shape (k, n), written to `out` if it is given."""

    def product(self, a: Array, rows: CachedRows) -> Array:
        """Return K a in float64; some rows are in the slots of `rows`."""
        support = np.flatnonzero(a)
        if support.size <= rows.slots.shape[0]:
            rows.fetch_all(support)
            return product(rows.slots, rows.where, a)
        parts = (support[start : start + _CHUNK] for start in range(0, support.size, _CHUNK))
        return sum((a[part] @ self.rows(part) for part in parts), np.zeros(a.size))


class KernelRows(ABC):
    """Row i of K is ``slots[where[i]]`` if ``where[i] >= 0``; `used` is the time of its last use.

    Attributes
    ----------
    slots : ndarray of shape (k, m)
    where, used : ndarray of int64
    diagonal : ndarray of shape (m,)
    clock : int
        The time: later than any use so far.
    """

    slots: Array
    where: Array
    used: Array
    diagonal: Array
    clock = 0
    complete = False
    """Whether every row is in a slot."""

    @abstractmethod
    def fetch(self, i: int, likely: Callable[[int], Array] | None = None) -> None:
        """Compute row i if it is in no slot, and maybe rows that `likely` names."""

    @abstractmethod
    def fetch_all(self, chosen: Array) -> None:
        """Compute those rows that are in no slot, as many of the first ones as there are slots."""

    @abstractmethod
    def product(self, a: Array) -> Array:
        """Return K a, from the rows with a_i != 0 alone."""

    @abstractmethod
    def block(self, chosen: Array) -> Array:
        """Return a new array with those rows and columns."""

    @abstractmethod
    def part(self, chosen: Array) -> KernelRows:
        """Return those rows, cut to those columns; a copy."""


class DenseRows(KernelRows):
    """All rows of an array, which is not copied."""

    complete = True

    def __init__(self, K: Array) -> None:
        self.slots = K
        self.where = np.arange(K.shape[0])
        self.used = np.zeros(K.shape[0], np.int64)
        self.diagonal = np.ascontiguousarray(K.diagonal())

    def fetch(self, i: int, likely: Callable[[int], Array] | None = None) -> None:
        """Do nothing, because every row is in memory."""

    def fetch_all(self, chosen: Array) -> None:
        """Do nothing, because every row is in memory."""

    def product(self, a: Array) -> Array:
        return product(self.slots, self.where, a)

    def block(self, chosen: Array) -> Array:
        out = np.empty((chosen.size, chosen.size))
        gather(self.slots, chosen, chosen, out)
        return out

    def part(self, chosen: Array) -> KernelRows:
        return DenseRows(self.block(chosen))


class CachedRows(KernelRows):
    """Rows that a source computes, many at a time; of those, the most recently used are kept."""

    def __init__(self, source: BlockSource, cache_bytes: int) -> None:
        m = int(source.n)
        self.source = source
        size = source.dtype.itemsize * m
        self.slots = np.empty((min(m, max(2, cache_bytes // size)), m), source.dtype)
        self.where = np.full(m, -1)
        self.owner = np.full(self.slots.shape[0], -1)
        self.used = np.full(self.slots.shape[0], -1)
        self.diagonal = np.ascontiguousarray(source.diagonal(), dtype=np.float64)
        self.filled = self.fetches = 0
        self.most = max(1, min(_MOST, self.slots.shape[0] // 8))
        self.ahead, self._last = min(4, self.most), np.empty(0, np.int64)
        if self.diagonal.shape != (m,):
            raise InvalidInputError(
                f"diagonal() of {type(source).__name__} must have shape ({m},), got {self.diagonal.shape}."
            )

    def fetch(self, i: int, likely: Callable[[int], Array] | None = None) -> None:
        """Compute row i unless it is there, and with it some that `likely` names, if the last ones were used.

        It takes how many rows to name at most, none of them in a slot.
        """
        if self.where[i] >= 0:
            return
        chosen, m = np.array([i]), self.where.size
        self.fetches += 1
        remaining = (m - self.filled) * m if self.slots.shape[0] == m else np.inf
        if self.fetches * _FETCH >= remaining:  # all cost no more than the fetches so far
            chosen = np.flatnonzero(self.where < 0)
        elif likely is not None:
            last = self.used[self._last]
            if last.size:
                most_used = 2 * (np.count_nonzero(last > last.min()) + 1) >= last.size
                self.ahead = min(2 * self.ahead, self.most) if most_used else 1 + self.ahead // 2
            if self.ahead > 1:
                others = likely(self.ahead)
                chosen = np.append(chosen, others[others != i])
        self.fetch_all(chosen)
        self._last = self.where[chosen]

    def fetch_all(self, chosen: Array) -> None:
        missing = chosen[self.where[chosen] < 0]
        if not missing.size:
            return
        missing, filled = missing[: self.slots.shape[0]], self.filled
        self.used[self.where[chosen[self.where[chosen] >= 0]]] = self.clock
        slots = self._oldest(missing.size)
        gone = self.owner[slots]
        self.where[gone[gone >= 0]] = -1
        self.owner[slots] = -1
        try:
            if slots[-1] - slots[0] == slots.size - 1:
                self.source.rows(missing, self.slots[slots[0] : slots[-1] + 1])
            else:
                self.slots[slots] = self.source.rows(missing)
        except BaseException:  # such as a deadline: the slots stay empty
            self.filled = filled
            raise
        self.owner[slots], self.where[missing] = missing, slots
        self.used[slots] = self.clock
        self.clock += 1

    def _oldest(self, count: int) -> Array:
        """Return the slots for so many new rows: the next empty ones, else those not used for the longest."""
        if self.filled + count <= self.slots.shape[0]:
            self.filled += count
            return np.arange(self.filled - count, self.filled)
        self.filled = self.slots.shape[0]
        return np.sort(np.argpartition(self.used, count - 1)[:count])

    def product(self, a: Array) -> Array:
        return self.source.product(a, self)

    def block(self, chosen: Array) -> Array:
        out = np.empty((chosen.size, chosen.size))
        for start in range(0, chosen.size, self.slots.shape[0]):
            part = chosen[start : start + self.slots.shape[0]]
            self.fetch_all(part)
            gather(self.slots, self.where[part], chosen, out[start : start + part.size])
        return out

    def part(self, chosen: Array) -> KernelRows:
        if (self.where[chosen] >= 0).all():
            return DenseRows(self.block(chosen))
        return CachedRows(_Part(self, chosen), 8 * chosen.size**2)


class RowByRow(BlockSource):
    """An object that computes single rows, as a source of many."""

    def __init__(self, source: RowSource) -> None:
        self.source = source

    @property
    def n(self) -> int:
        return int(self.source.n)

    def diagonal(self) -> Array:
        return self.source.diagonal()

    def rows(self, chosen: Array, out: Array | None = None) -> Array:
        out = np.empty((chosen.size, self.n)) if out is None else out
        for k, i in enumerate(chosen.tolist()):
            out[k] = self.source.row(i)
        return out


@dataclass(frozen=True, eq=False)
class _Part(BlockSource):
    """Some rows of others, cut to the same columns."""

    whole: KernelRows
    chosen: Array

    @property
    def n(self) -> int:
        return self.chosen.size

    def diagonal(self) -> Array:
        return self.whole.diagonal[self.chosen]

    def rows(self, chosen: Array, out: Array | None = None) -> Array:
        places = self.chosen[chosen]
        out = np.empty((places.size, self.n)) if out is None else out
        size = self.whole.slots.shape[0]
        for start in range(0, places.size, size):
            part = places[start : start + size]
            self.whole.fetch_all(part)
            gather(self.whole.slots, self.whole.where[part], self.chosen, out[start : start + part.size])
        return out


def as_rows(K: Any, m: int, cache_bytes: int) -> KernelRows:
    """Return the rows of an array or of an object that computes them, or raise `InvalidInputError`."""
    if isinstance(K, RowSource):
        if int(K.n) != m:
            raise InvalidInputError(f"K has {K.n} rows, but there are {m} targets y.")
        rows: KernelRows = CachedRows(RowByRow(K), cache_bytes)
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

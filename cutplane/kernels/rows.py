"""The rows of a kernel matrix for solvers, in memory or computed when needed and cached."""

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
"""Default memory for rows, because LIBSVM has the same default."""
_WORTH_A_THREAD = 2**20
"""Least number of multiplications per thread, because starting a thread takes as long as some hundred
thousand."""
_MOST = 64
"""Largest number of rows computed ahead, because a matrix product of this size reaches full speed."""
_CHUNK = 256
"""Number of rows computed at a time for a product without a cache, because so many reach full speed and need
little memory."""
_FETCH = 30_000
"""Fixed cost of a fetch, in entries of K that could be computed in the same time, because a fetch is
interpreted."""


@routine(fastmath=SUMS)
def add_rows(rows, where, a, low, high, out):
    """Set out[low:high] to this part of K a; every row with a_i != 0 must be in a slot."""
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
    """Set out to the slots at the given places, restricted to the chosen columns."""
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
    """A kernel matrix that computes blocks of rows of type `dtype`."""

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
        """Return the chosen rows, shape (k, n), written to `out` if it is given."""

    def product(self, a: Array, rows: CachedRows) -> Array:
        """Return K a in float64; rows in the slots of `rows` are reused."""
        support = np.flatnonzero(a)
        if support.size <= rows.slots.shape[0]:
            rows.fetch_all(support)
            return product(rows.slots, rows.where, a)
        parts = (support[start : start + _CHUNK] for start in range(0, support.size, _CHUNK))
        return sum((a[part] @ self.rows(part) for part in parts), np.zeros(a.size))


class KernelRows(ABC):
    """Rows of K in slots: row i is ``slots[where[i]]`` if ``where[i] >= 0``, else it is not in memory.

    Attributes
    ----------
    slots : ndarray of shape (k, m)
    where : ndarray of int64 of shape (m,)
    used : ndarray of int64 of shape (k,)
        The time of the last use of each slot.
    diagonal : ndarray of shape (m,)
    clock : int
        The time, a counter that is larger than each entry of `used`.
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
        """Compute row i if it is in no slot, and possibly rows that `likely` returns."""

    @abstractmethod
    def fetch_all(self, chosen: Array) -> None:
        """Compute the chosen rows that are in no slot; if there are too few slots, the first ones."""

    @abstractmethod
    def product(self, a: Array) -> Array:
        """Return K a, using only the rows with a_i != 0."""

    @abstractmethod
    def block(self, chosen: Array) -> Array:
        """Return a new array with the chosen rows and the same columns."""

    @abstractmethod
    def part(self, chosen: Array) -> KernelRows:
        """Return a copy of the chosen rows, restricted to the same columns."""


class DenseRows(KernelRows):
    """The rows of a square array, which is not copied."""

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
    """A cache of the most recently used rows of a source, which computes many rows at a time."""

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
        """Compute row i if it is in no slot, and rows that will probably be needed soon.

        `likely(n)` returns at most n such rows, none of them in a slot. The number of rows computed ahead
        doubles if most rows of the last fetch were used, and is halved otherwise.
        """
        if self.where[i] >= 0:
            return
        chosen, m = np.array([i]), self.where.size
        self.fetches += 1
        remaining = (m - self.filled) * m if self.slots.shape[0] == m else np.inf
        if self.fetches * _FETCH >= remaining:  # all rows cost at most as much as the fetches so far
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
        except BaseException:  # for example at a deadline; the slots stay empty
            self.filled = filled
            raise
        self.owner[slots], self.where[missing] = missing, slots
        self.used[slots] = self.clock
        self.clock += 1

    def _oldest(self, count: int) -> Array:
        """Return slots for `count` new rows: the next empty ones, else the least recently used ones."""
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
    """A block source that computes each row by a call of `source.row`."""

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
    """Some rows of other rows, restricted to the same columns."""

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
            "check the kernel, or project K onto the positive semidefinite matrices."
        )
    return rows

"""Convex combinations of labellings as vectors, the multipliers from which certificates recompute cuts.

The vector contains the number of labellings of each example, then the length of a labelling of each example.
For each slot k it then contains the shares of the k-th labellings of all examples that have more than k, and
the numbers of these labellings, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cutplane.exceptions import OracleError
from cutplane.pieces.validation import Array

_INVALID = "The multipliers are no convex combinations of labellings, one of each example."


def pack(shares: Array, labels: Array, sizes: Array) -> Array:
    """Return the vector of the labellings with a positive share.

    Parameters
    ----------
    shares : ndarray of shape (K, m)
        The share of example i in slot k; 0 if the slot is empty.
    labels : ndarray of shape (K, N)
        The numbers of all examples, one after the other.
    sizes : ndarray of shape (m,)
        The length of a labelling of each example.
    """
    order = np.argsort(shares <= 0.0, axis=0, kind="stable")
    counts = (shares > 0.0).sum(axis=0)
    of_number = np.repeat(np.arange(sizes.size), sizes)
    parts = [counts.astype(np.float64), sizes.astype(np.float64)]
    for k in range(int(counts.max())):
        there, places = np.flatnonzero(counts > k), np.flatnonzero(counts[of_number] > k)
        parts.append(shares[order[k, there], there])
        parts.append(labels[order[k, of_number[places]], places].astype(np.float64))
    return np.concatenate(parts)


def unpack(u: Array, sizes: Array) -> Iterator[tuple[Array, Array, Array, Array]]:
    """Yield for each slot the examples with a labelling, their shares, and the indices and values of numbers.

    The shares of an example are divided by their sum. Raise `OracleError` for other vectors.
    """
    u, m = np.asarray(u, dtype=np.float64), sizes.size
    counts = u[:m]
    if u.ndim != 1 or not np.array_equal(u[m : 2 * m], sizes) or not (counts >= 1.0).all():
        raise OracleError(_INVALID)
    of_number = np.repeat(np.arange(m), sizes)
    slots, place, most = [], 2 * m, counts.max()
    while len(slots) < most and place < u.size:
        there, places = np.flatnonzero(counts > len(slots)), np.flatnonzero(counts[of_number] > len(slots))
        middle, end = place + there.size, place + there.size + places.size
        slots.append((there, u[place:middle], places, u[middle:end]))
        place = end
    if len(slots) < most or place != u.size or not all((shares > 0.0).all() for _, shares, _, _ in slots):
        raise OracleError(_INVALID)
    totals = np.zeros(m)
    for there, shares, _, _ in slots:
        totals[there] += shares
    for there, shares, places, numbers in slots:
        yield there, shares / totals[there], places, numbers


def slots(u: Array, labels: Array, starts: Array, n_states: int) -> Iterator[tuple[Array, Array]]:
    """Yield for each slot the labels of all N nodes and the shares; empty slots have the true `labels`.

    The nodes of the m examples start at `starts`. Raise `OracleError` for labels that are not states.
    """
    for there, some, places, numbers in unpack(u, np.diff(starts)):
        if ((numbers < 0) | (numbers >= n_states) | (numbers % 1.0 != 0.0)).any():
            raise OracleError(f"A labelling contains a label that is none of 0 to {n_states - 1}.")
        shares, found = np.zeros(starts.size - 1), labels.copy()
        shares[there], found[places] = some, numbers
        yield found, shares


def sizes_in(u: Array, m: int) -> Array:
    """Read the length of a labelling of each of m examples from the vector."""
    sizes = np.asarray(u, dtype=np.float64)[m : 2 * m]
    if sizes.size < m or not ((sizes >= 1.0) & (sizes % 1.0 == 0.0) & (sizes < np.size(u))).all():
        raise OracleError(_INVALID)
    return sizes.astype(np.int64)

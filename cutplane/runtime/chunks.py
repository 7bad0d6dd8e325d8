"""The split of a pass over the data into chunks, which are computed in parallel.

The split depends only on the data, because results must not depend on the number of threads. Costs are in
nanoseconds, roughly: 1 for an entry of a sparse matrix or of a vector of sums, 1/4 for an entry of a dense
matrix.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from cutplane.pieces.validation import Array

CHUNK = 1 << 16
"""Least cost of a chunk, because waking a thread costs about as much."""

MOST = 32
"""Largest number of chunks of a pass, because more would not be faster on usual machines."""

PANEL = 1 << 12
"""Number of sums in a panel, because so many stay in the fastest cache while vectors are added to them."""

GAP = 16
"""Unused numbers between the sums of two threads, because writing to the same cache line slows both."""

Ranges = list[tuple[int, int]]


@dataclass(frozen=True, eq=False)
class Segments:
    """The blocks, split into segments from edges[s] to edges[s + 1], each with a vector of sums.

    first[k] is the first segment of block k; the segments low <= s < high of a group (low, high) are a chunk.
    """

    edges: Array
    first: Array
    groups: Ranges

    def __len__(self) -> int:
        return self.edges.size - 1

    def span(self, group: tuple[int, int]) -> tuple[int, int]:
        """Return the begin and the end of the segments of a group."""
        return int(self.edges[group[0]]), int(self.edges[group[1]])

    def room(self, length: int) -> Array:
        """Return memory for the vectors of sums, one row per segment of at least `length` numbers."""
        return np.empty((len(self), length + GAP if len(self) > 1 else length))

    def add_up(self, sums: Array, length: int) -> Array:
        """Return the sums over each block, one row per block, from the sums over the segments."""
        sums = sums[:, :length]
        if self.first.size == len(self):
            return np.ascontiguousarray(sums)
        totals = sums[self.first]
        for segment, block in self._others:  # np.add.reduceat takes ten times as long
            totals[block] += sums[segment]
        return totals

    @cached_property
    def _others(self) -> Ranges:
        """The segments that are not the first ones of their blocks, and their blocks."""
        others = np.setdiff1d(np.arange(len(self)), self.first)
        blocks = np.searchsorted(self.first, others) - 1
        return list(zip(others.tolist(), blocks.tolist(), strict=True))


def count_chunks(cost: float) -> int:
    """Return the number of chunks of a pass of a given cost, a power of two."""
    return min(MOST, 1 << max(0, int(math.log2(max(1.0, cost / CHUNK)))))


def equal_ranges(size: int, cost: float, most: int = MOST) -> Ranges:
    """Split range(size) into nearly equal parts, each of which costs at least as much as waking a thread."""
    count = max(1, min(count_chunks(cost), size, most))
    return [(size * k // count, size * (k + 1) // count) for k in range(count)]


def panels(length: int, cost: float) -> Ranges:
    """Split range(length) into panels that stay in cache, if a panel costs more than waking a thread."""
    width = max(PANEL, math.ceil(length * CHUNK / cost))
    return [(start, min(start + width, length)) for start in range(0, length, width)]


def balanced_ranges(cumulative: Array, count: int) -> Ranges:
    """Split range(cumulative.size - 1) into at most `count` parts of nearly equal cost.

    cumulative[i] is the cost of 0, ..., i - 1.
    """
    last = cumulative.size - 1
    edges = [0, *_cuts(cumulative, 0, last, count).tolist(), last]
    return [(low, high) for low, high in pairwise(edges) if low < high]


def one_segment(size: int) -> Segments:
    """Return range(size) as one segment, and one chunk."""
    return Segments(np.array([0, size]), np.array([0]), [(0, 1)])


def segments(blocks: Array, cost: Array | float, width: int, most: int = MOST) -> Segments:
    """Split each block of rows (or columns) into segments of nearly equal cost, at most `most` of them.

    `cost` is the cost of each row, or an array whose entry i is the cost of the rows before i. With vectors
    of sums of length `width`, a block of cost c is split into at most sqrt(c / (2 width)) segments, because
    clearing and adding all vectors of sums must cost less per thread than a segment.
    """
    costs = np.diff(_cost_before(cost, blocks))
    if costs.size == 1 and costs[0] + width < 2 * CHUNK:
        return Segments(blocks, np.array([0]), [(0, 1)])
    cuts = [blocks]
    for block in np.flatnonzero((costs >= 2 * CHUNK) & (costs >= 8 * width)):
        count = min(count_chunks(costs[block]), 1 << int(math.log2(costs[block] / (2 * width)) / 2), most)
        cuts.append(_cuts(cost, blocks[block], blocks[block + 1], count))
    edges = np.unique(np.concatenate(cuts))
    total = _cost_before(cost, edges) + np.arange(edges.size) * float(width)
    return Segments(
        edges, np.searchsorted(edges, blocks[:-1]), balanced_ranges(total, min(most, count_chunks(total[-1])))
    )


def _cost_before(cost: Array | float, i: Array) -> Array:
    return cost[i] if isinstance(cost, np.ndarray) else cost * i


def _cuts(cost: Array | float, start: int, stop: int, count: int) -> Array:
    shares = np.arange(1, count) / count
    if not isinstance(cost, np.ndarray):
        return start + (shares * (stop - start)).astype(np.int64)
    targets = cost[start] + shares * float(cost[stop] - cost[start])
    return start + np.searchsorted(cost[start : stop + 1], targets.astype(cost.dtype))

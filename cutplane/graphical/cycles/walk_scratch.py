"""Walks in compiled code, and the memory in which they are made into cycles.

Only modules that need numba anyway import this one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cutplane.pieces.validation import Array
from cutplane.runtime.compiling import routine


class Walk(NamedTuple):
    """A closed walk: edge i goes from node i to node i + 1, and is in F or not; the arrays may be longer."""

    nodes: Array
    edges: Array
    odd: Array


class Scratch(NamedTuple):
    """Memory of one search: -1 wherever `place` and `via` are not in use.

    Attributes
    ----------
    walk, cycle : Walk
    trail : ndarray
        Steps in the contracted graph: 4 arc + 2 (against its direction) + 1 (crossing in the doubled graph).
    place : ndarray of shape (n_nodes,)
        Where a node is in the cycle.
    prefix : ndarray of shape (n_nodes,)
        The weight of the cycle up to each of its nodes.
    queues, via : ndarray of shape (2, n_nodes)
        Of two breadth-first searches: their nodes, and the arcs by which they came.
    ends : ndarray of shape (2,)
        The lengths of the queues.
    """

    walk: Walk
    cycle: Walk
    trail: Array
    place: Array
    prefix: Array
    queues: Array
    via: Array
    ends: Array


@routine
def new_scratch(n):
    """Return the memory for a graph of n nodes."""
    longest = 8 * n + 8  # two paths, each through both copies of a component, joined within the components
    return Scratch(
        Walk(np.empty(longest, np.int32), np.empty(longest, np.int32), np.empty(longest, np.bool_)),
        Walk(np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.bool_)),
        np.empty(longest, np.int64),
        np.full(n, -1, np.int32),
        np.empty(n),
        np.empty((2, n), np.int32),
        np.full((2, n), -1, np.int32),
        np.zeros(2, np.int64),
    )

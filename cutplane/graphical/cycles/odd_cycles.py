"""Separation of odd cycle inequalities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError
from cutplane.graphical.cycles.cycle_graph import CycleGraph
from cutplane.pieces.validation import Array, as_scalar, as_vector
from cutplane.runtime.threads import run_chunks

_WORK = 64
_MOST_CHUNKS = 16
_PARALLEL = 0.5


@dataclass(frozen=True, eq=False)
class OddCycles:
    """Violated odd cycle inequalities, deepest cut first.

    Cycle i consists of the entries from ``starts[i]`` to before ``starts[i + 1]`` of `edges` and of `odd`,
    which says whether the edge is in F; the violation is 1 - sum over F of (1 - c_e) - sum over the rest of
    c_e.
    """

    starts: Array
    edges: Array
    odd: Array
    violations: Array

    @property
    def lengths(self) -> Array:
        """Number of edges of each cycle."""
        return np.diff(self.starts)

    def rows(self, n_edges: int) -> tuple[Any, Array]:
        """Return A, a sparse array of shape (t, n_edges), and b such that the inequalities are A c <= b.

        Row i is sum over F of c_e - sum over the rest of c_e <= |F| - 1.
        """
        entries = np.where(self.odd, 1.0, -1.0), self.edges, self.starts
        matrix = sparse.csr_array(entries, shape=(len(self), n_edges), copy=True)
        return matrix, (matrix.sum(axis=1) + self.lengths) / 2 - 1.0

    def take(self, chosen: Array) -> OddCycles:
        """Return the cycles of the given numbers, in that order."""
        lengths = self.lengths[chosen]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        places = np.arange(starts[-1]) + np.repeat(self.starts[:-1][chosen] - starts[:-1], lengths)
        return OddCycles(starts, self.edges[places], self.odd[places], self.violations[chosen])

    def __len__(self) -> int:
        return self.violations.size


def separate_odd_cycles(graph: CycleGraph, c: Any, *, tol: float = 1e-6) -> OddCycles:
    r"""Find cycles whose inequality c violates, and prove that there are none otherwise.

    .. math::
        \sum_{e \in F} (1 - c_e) + \sum_{e \in C \setminus F} c_e \ge 1, \qquad
        C \text{ a cycle}, \; F \subseteq C, \; |F| \text{ odd}

    They hold for the 0/1 vectors c that say which edges join nodes of different labels, for any two labels
    of the nodes. The edges with c_e = 0 or 1 are contracted; an edge that contradicts the others within a
    component closes a violated cycle. The other violated cycles are shortest paths from (u, 0) to (u, 1) in
    a doubled graph of the components, where an edge costs c_e and joins equal copies, or costs 1 - c_e and
    joins different ones (Barahona, Mahjoub 1986). Cycles with chords are replaced by chordless ones.

    There is at most one for each node or edge, by decreasing depth, which is violation / sqrt(length); of two
    whose normals have a cosine above 0.5, only the deeper is returned. Those violated by less than `tol` are
    left out, up to 1e-9 for each edge of the cycle.

    Examples
    --------
    Three nodes with two labels cannot all be different:

    >>> from cutplane.graphical.cycles.cycle_graph import CycleGraph
    >>> from cutplane.graphical.cycles.odd_cycles import separate_odd_cycles
    >>> triangle = CycleGraph(3, [[0, 1], [1, 2], [0, 2]])
    >>> cycles = separate_odd_cycles(triangle, [1, 1, 0.75])
    >>> matrix, right = cycles.rows(triangle.n_edges)
    >>> matrix.toarray().tolist(), right.tolist(), cycles.violations.tolist()
    ([[1.0, 1.0, 1.0]], [2.0], [0.75])
    """
    from cutplane.graphical.cycles.contraction_passes import contract
    from cutplane.graphical.cycles.cut_selection import select
    from cutplane.graphical.cycles.odd_cycle_passes import odd_cycles

    if not isinstance(graph, CycleGraph):
        raise InvalidInputError(f"graph must be a CycleGraph, got {type(graph).__name__}.")
    c = np.clip(as_vector("c", c, graph.n_edges), 0.0, 1.0)
    tol = as_scalar("tol", tol, low=1e-8, high=1.0, high_open=True)
    net, loops = contract(graph.arcs, c, tol)
    n_sources = net.starts.size - 1
    n_chunks = min(_MOST_CHUNKS, 1 + (n_sources + loops.size) // _WORK)
    sources = n_sources * np.arange(n_chunks + 1) // n_chunks
    arcs = loops.size * np.arange(n_chunks + 1) // n_chunks

    def search(i: int) -> tuple[Array, ...]:
        return odd_cycles(sources[i], sources[i + 1], loops[arcs[i] : arcs[i + 1]], graph.arcs, net, c, tol)

    lengths, edges, odd, violations = map(
        np.concatenate, zip(*run_chunks(search, range(n_chunks)), strict=True)
    )
    found = OddCycles(np.concatenate([[0], np.cumsum(lengths)]), edges, odd, violations)
    normals, _ = found.rows(graph.n_edges)
    return found.take(select(normals, violations, _PARALLEL))

"""Separation of odd cycle inequalities, and the graphs that are searched for them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError
from cutplane.graphical.factor_graph import FactorGraph
from cutplane.graphical.factors import places_of, starts_of
from cutplane.pieces.parameters import read_only
from cutplane.pieces.validation import Array
from cutplane.runtime.threads import run_chunks

_WORK = 64
"""Number of sources and loops per chunk, because starting a smaller chunk costs more than its searches."""
_MOST_CHUNKS = 16
"""Largest number of chunks of a search, because more would not be faster on usual machines."""
_PARALLEL = 0.5
"""Cosine from which a deeper cycle replaces another cycle, because both then share about half of their
edges."""


@dataclass(frozen=True, eq=False)
class OddCycles:
    """Violated odd cycle inequalities, deepest cut first.

    Cycle i has the edges ``edges[starts[i]:starts[i + 1]]``; the same entries of `odd` tell which of them are
    in F. The violation is 1 - sum over F of (1 - c_e) - sum over the rest of c_e.
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
        """Return the cycles with the given numbers, in this order."""
        lengths = self.lengths[chosen]
        places = places_of(self.starts[:-1][chosen], lengths)
        return OddCycles(starts_of(lengths), self.edges[places], self.odd[places], self.violations[chosen])

    def __len__(self) -> int:
        return self.violations.size


def separate_odd_cycles(graph: CycleGraph, c: Array, *, tol: float = 1e-6) -> OddCycles:
    r"""Find cycles whose inequality c violates; an empty result proves that there are none.

    .. math::
        \sum_{e \in F} (1 - c_e) + \sum_{e \in C \setminus F} c_e \ge 1, \qquad
        C \text{ a cycle}, \; F \subseteq C, \; |F| \text{ odd}

    They hold for the 0/1 vectors c of the edges between nodes of different labels, for all labellings of the
    nodes by two labels. The edges with c_e = 0 or 1 are contracted; an edge that contradicts the others
    within a component closes a violated cycle. The other violated cycles are shortest paths from (u, 0) to
    (u, 1) in a doubled graph of the components. There, an edge between equal copies costs c_e, and an edge
    between different copies costs 1 - c_e (Barahona, Mahjoub 1986). Cycles with chords are replaced by
    chordless ones.

    At most one cycle is returned for each node or edge, by decreasing depth, violation / sqrt(length). Of two
    cycles whose normals have a cosine above 0.5, only the deeper one is returned. Violations below `tol` are
    ignored, up to 1e-9 for each edge of the cycle.
    """
    from cutplane.graphical.primal.cut_passes import select
    from cutplane.graphical.primal.odd_cycle_passes import contract, odd_cycles

    c = np.clip(c, 0.0, 1.0)
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
    found = OddCycles(starts_of(lengths), edges, odd, violations)
    normals, _ = found.rows(graph.n_edges)
    return found.take(select(normals, violations, _PARALLEL))


_MOST_ARCS = 2**31 - 1
"""Largest number of arcs of a graph, because arc numbers are stored in 32 bits."""


class Arcs(NamedTuple):
    """The two arcs of each edge, grouped by their tails, with the nodes in random order.

    The arcs from u have the numbers ``starts[u]`` to before ``starts[u + 1]``. The order is random, because a
    search from a node excludes the nodes before it, and a random order then gives more different short
    cycles. For example, a grid needs half as many rounds.
    """

    starts: Array
    tails: Array
    heads: Array
    edges: Array


class CycleGraph:
    """An undirected graph without loops and double edges, built once for many separations."""

    def __init__(self, n_nodes: int, edges: Array) -> None:
        self.n_nodes, self.edges = n_nodes, read_only(edges.astype(np.int64))
        if 2 * self.n_edges > _MOST_ARCS or n_nodes > _MOST_ARCS // 2:
            raise InvalidInputError(
                f"A graph of {n_nodes} nodes and {self.n_edges} edges is too large for cycle inequalities: "
                f"at most 2**30 - 1 nodes and as many edges."
            )

    def __repr__(self) -> str:
        return f"CycleGraph({self.n_nodes} nodes, {self.n_edges} edges)"

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return self.edges.shape[0]

    @cached_property
    def arcs(self) -> Arcs:
        """The edges in both directions."""
        nodes = np.random.default_rng(0).permutation(self.n_nodes)[self.edges]
        tails, heads = np.concatenate([nodes, nodes[:, ::-1]]).T
        order = np.lexsort((heads, tails))
        starts = starts_of(np.bincount(tails, minlength=self.n_nodes))
        numbers = order % max(1, self.n_edges)
        return Arcs(*(array.astype(np.int32) for array in (starts, tails[order], heads[order], numbers)))


def projection_graph(model: FactorGraph) -> tuple[CycleGraph, Any]:
    r"""Return the graph of states, and the probabilities of their disagreement as a linear map.

    A node is a state i of a variable u; if u has two states, only the second one is a node. An edge joins
    states i of u and j of v if some factor has both variables; it disagrees if exactly one of both variables
    is in its state:

    .. math:: c = \mu_u(i) + \mu_v(j) - 2 \mu_{uv}(i, j)

    For each labelling, c is the cut vector of the two labels "in the state" and "not in it". Therefore the
    odd cycle inequalities hold for the vector c of every point of the marginal polytope (Sontag, Jaakkola
    2007). The argument of the map is the marginals of all variables, followed by the marginals of all tables.
    If several factors contain two variables, the smallest table is read.
    """
    owners, members = _nodes(model)
    pairs, marginals = pair_marginals(model)
    first_node = np.searchsorted(owners, np.arange(model.n_variables + 1))
    counts = np.diff(first_node)

    pair, place = _segments(counts[pairs].prod(axis=1))
    u, v = pairs[pair].T
    edges = np.stack([first_node[u] + place // counts[v], first_node[v] + place % counts[v]], axis=1)

    states = members[edges] - model.unary_starts[owners[edges]]
    k_u, k_v = model.cardinalities[pairs].T
    offsets = starts_of(k_u * k_v)
    entries = offsets[pair] + states[:, 0] * k_v[pair] + states[:, 1]
    numbers = np.arange(len(edges))
    both: Any = sparse.csr_array(
        (np.full(len(edges), -2.0), (numbers, entries)), shape=(len(edges), int(offsets[-1]))
    )
    indicators: Any = sparse.csr_array(
        (np.ones(members.size), members, np.arange(owners.size + 1)), shape=(owners.size, marginals.shape[1])
    )
    projection = indicators[edges[:, 0]] + indicators[edges[:, 1]] + both @ marginals
    return CycleGraph(owners.size, edges), sparse.csr_array(projection)


def pair_marginals(model: FactorGraph) -> tuple[Array, Any]:
    """Return the pairs of variables that share a factor, and the linear map to their tables of marginals."""
    factor, place = _segments(model.arities * (model.arities - 1) // 2)
    second = ((1.0 + np.sqrt(1.0 + 8.0 * place)) / 2.0).astype(np.int64)
    first = place - second * (second - 1) // 2
    links = model.scope_starts[factor][:, None] + np.stack([first, second], axis=1)
    scopes = model.scopes[links]
    order = np.lexsort((factor, model.table_sizes[factor], scopes[:, 1], scopes[:, 0]))
    scopes, links, factor = scopes[order], links[order], factor[order]
    keep = np.ones(len(scopes), dtype=bool)
    keep[1:] = (scopes[1:] != scopes[:-1]).any(axis=1)
    pairs, links, factor = scopes[keep], links[keep], factor[keep]

    k = model.cardinalities
    offsets = starts_of(k[pairs].prod(axis=1))
    table_starts = model.unaries.size + starts_of(model.table_sizes)
    pair, entry = _segments(model.table_sizes[factor])
    i, j = (entry // model.strides[links[pair, side]] % k[pairs[pair, side]] for side in range(2))
    rows = offsets[pair] + i * k[pairs[pair, 1]] + j
    columns = table_starts[factor[pair]] + entry
    shape = int(offsets[-1]), int(table_starts[-1])
    return pairs, sparse.csr_array((np.ones(rows.size), (rows, columns)), shape=shape)


def _nodes(model: FactorGraph) -> tuple[Array, Array]:
    """Return the variable of each node (ascending) and its state, as a place in ``model.unaries``."""
    owners = np.repeat(np.arange(model.n_variables), model.cardinalities)
    states = np.arange(model.unaries.size)
    alone = model.cardinalities[owners] > 2
    alone |= (model.cardinalities[owners] == 2) & (states > model.unary_starts[owners])
    return owners[alone], states[alone]


def _segments(counts: Array) -> tuple[Array, Array]:
    """Return the segment of each entry, and its place in this segment, for segments of given lengths."""
    return np.repeat(np.arange(counts.size), counts), places_of(np.zeros_like(counts), counts)

"""Facets of the cut polytopes of small contracted subgraphs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.graphical.cycles.cycle_graph import CycleGraph
from cutplane.graphical.primal.contraction import Contraction
from cutplane.pieces.validation import Array

_INTEGRAL = 1e-6
_TOLERANCE = 1e-4
_MAX_NODES = 9
"""A set of so many nodes has 256 cuts."""
_MAX_SETS = 64


def separate_local_cuts(graph: CycleGraph, c: Array) -> tuple[Any, Array]:
    """Find inequalities of the cut polytope, ``normals @ c <= offsets``, that c violates.

    Edges with c = 0 or 1 are contracted. Where the entries of c on a set of the nodes that are left are no
    mixture of the cuts of this set, the segment from the mean of these cuts to c leaves their convex hull
    through a facet, which a linear programme finds. Among the facets are the wheel, bicycle wheel and clique
    inequalities (Buchheim, Liers, Oswald 2008, doi:10.1016/j.orl.2008.01.004); c should satisfy the cycle
    inequalities.

    Examples
    --------
    Of five nodes at most six pairs can differ; two thirds of each pair satisfy all cycle inequalities.

    >>> import numpy as np
    >>> from itertools import combinations
    >>> from cutplane.graphical.cycles.cycle_graph import CycleGraph
    >>> from cutplane.graphical.primal.local_cuts import separate_local_cuts
    >>> graph = CycleGraph(5, list(combinations(range(5), 2)))
    >>> normals, offsets = separate_local_cuts(graph, np.full(10, 2 / 3))
    >>> (normals.toarray() / normals.max()).round(6).tolist(), (offsets / normals.max()).round(6).tolist()
    ([[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]], [6.0])
    """
    contracted = Contraction(graph.edges, np.clip(c, 0.0, 1.0), graph.n_nodes, _INTEGRAL)
    rows, offsets = [], []
    for nodes in _sets(contracted):
        inside = np.zeros(contracted.n_components, dtype=bool)
        inside[nodes] = True
        chosen = np.flatnonzero(inside[contracted.pairs].all(axis=1))
        facet = _facet(contracted.c[chosen], _cuts(nodes, contracted.pairs[chosen]))
        if facet is None:
            continue
        edges, normal, offset = contracted.lift(chosen, *facet)
        size = float(np.linalg.norm(normal))
        if normal @ c[edges] - offset > _TOLERANCE * size:
            rows.append((edges, normal / size))
            offsets.append(offset / size)
    starts = np.cumsum([0, *(edges.size for edges, _ in rows)])
    edges = np.concatenate([edges for edges, _ in rows]) if rows else np.empty(0, dtype=np.int64)
    values = np.concatenate([normal for _, normal in rows]) if rows else np.empty(0)
    return sparse.csr_array((values, edges, starts), shape=(len(rows), graph.n_edges)), np.array(offsets)


def _sets(contracted: Contraction) -> Iterator[Array]:
    """Yield different sets of many pairs each, grown from one node each, those not yet covered first."""
    n, (first, second) = contracted.n_components, contracted.pairs.T
    ends = np.concatenate([first, second]), np.concatenate([second, first])
    links = sparse.csr_array((np.ones(ends[0].size), ends), shape=(n, n))
    degrees = np.diff(links.indptr)
    times = np.zeros(n, dtype=np.int64)
    seeds, known = np.flatnonzero(degrees > 1), set()
    for _ in range(min(_MAX_SETS, seeds.size)):
        seed = int(seeds[np.lexsort((degrees[seeds], times[seeds]))[0]])
        seeds = seeds[seeds != seed]
        chosen, near = [seed], {}
        while len(chosen) < _MAX_NODES:
            for v in links.indices[links.indptr[chosen[-1]] : links.indptr[chosen[-1] + 1]].tolist():
                near[v] = near.get(v, 0) + 1
            near = {v: count for v, count in near.items() if v not in chosen}
            if not near:
                break
            chosen.append(max(near, key=lambda v: (near[v], -times[v], -v)))
        times[chosen] += 1
        nodes = tuple(sorted(chosen))
        if nodes not in known:
            known.add(nodes)
            yield np.array(nodes)


def _cuts(nodes: Array, pairs: Array) -> Array:
    """Return which of the pairs differ, for all ways to put the nodes on two sides."""
    sides = np.indices([1] + [2] * (nodes.size - 1)).reshape(nodes.size, -1).T
    first, second = np.searchsorted(nodes, pairs.T)
    return (sides[:, first] != sides[:, second]).astype(np.float64)


def _facet(x: Array, points: Array) -> tuple[Array, float] | None:
    """Return (normal, offset) of the facet of the hull of points between their mean and x; None if inside."""
    from scipy.optimize import linprog

    middle = points.mean(axis=0)
    answer = linprog(
        middle - x, A_ub=points - middle, b_ub=np.ones(len(points)), bounds=(None, None), method="highs-ds"
    )
    if answer.x is None or -answer.fun <= 1.0 + 1e-9:
        return None
    normal = np.where(np.abs(answer.x) > 1e-9 * np.abs(answer.x).max(), answer.x, 0.0)
    return normal, float((points @ normal).max())

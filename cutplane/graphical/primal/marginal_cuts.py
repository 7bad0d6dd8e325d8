"""Separation oracles over marginals: cycle inequalities, and other inequalities of cut polytopes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.graphical.primal.disagreement import Disagreements, RootedForest
from cutplane.graphical.primal.local_polytope import LocalPolytope
from cutplane.graphical.primal.odd_cycles import CycleGraph, separate_odd_cycles
from cutplane.pieces.forms import LinearForm
from cutplane.pieces.validation import Array
from cutplane.sets.base import FeasibleSet, HalfSpaces, Separator
from cutplane.sets.box import WholeSpace


class CycleInequalities(FeasibleSet):
    r"""The points whose probabilities of disagreement satisfy all cycle inequalities.

    .. math::
        \sum_{e \in F} (1 - c_e) + \sum_{e \in C \setminus F} c_e \ge 1, \qquad
        C \text{ a cycle}, \; F \subseteq C, \; |F| \text{ odd}

    They are valid because a labelling changes sides an even number of times around a cycle. For
    `Disagreements`, c is the point itself. For a `LocalPolytope`, one state of each variable is chosen, in
    all ways, and c is the probability that exactly one of two neighbours is in its chosen state.

    Parameters
    ----------
    relaxation : Disagreements or LocalPolytope
    local_cuts : bool, default False
        Whether to separate other inequalities too: cliques of states that exclude each other and odd sets
        of such cliques, and, when none of these is violated, facets of small subgraphs. See `Conflicts` and
        `separate_local_cuts`.
    tol : float, default 1e-6
        Violations of cycle inequalities up to `tol` are ignored.

    References
    ----------
    .. [1] F. Barahona, A. R. Mahjoub, "On the cut polytope", Mathematical Programming 36, 1986,
       doi:10.1007/BF02592023.
    .. [2] D. Sontag, T. Jaakkola, "New outer bounds on the marginal polytope", NIPS 20, 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.graphical import GraphicalModel
    >>> from cutplane.graphical.primal.disagreement import Disagreements
    >>> from cutplane.graphical.primal.marginal_cuts import CycleInequalities
    >>> differ = [[1, 0], [0, 1]]
    >>> model = GraphicalModel([2, 2, 2], [((0, 1), differ), ((1, 2), differ), ((0, 2), differ)])
    >>> CycleInequalities(Disagreements(model)).violation(np.ones(3))
    1.0
    """

    def __init__(
        self, relaxation: Disagreements | LocalPolytope, *, local_cuts: bool = False, tol: float = 1e-6
    ):
        self.dim = relaxation.dim
        self.relaxation = relaxation
        self._tol = tol
        self._local_cuts = local_cuts

    def __repr__(self) -> str:
        return f"CycleInequalities({self.relaxation!r})"

    @property
    def parts(self) -> tuple[FeasibleSet, tuple[Separator, ...]]:
        return WholeSpace(self.dim), (self,)

    def violation(self, x: Array) -> float:
        return float(self.separate(x).violations(x).max(initial=0.0))

    def separate(self, x: Array) -> HalfSpaces:
        """Return violated inequalities as sparse half-spaces; none if none were found."""
        for half_spaces in self.kinds(x):
            if half_spaces:
                return half_spaces
        return HalfSpaces(np.empty((0, x.size)), np.empty(0))

    def kinds(self, x: Array) -> Iterator[HalfSpaces | None]:
        """Yield half-spaces of one kind after the other, the fastest first; None in the middle of a kind."""
        relaxation = self.relaxation
        conflicts, literals = relaxation.conflicts, relaxation.literals
        excludes = self._local_cuts and len(conflicts) > 0
        if excludes:
            yield literals.pull_back(*conflicts.cliques(literals(x)))
        if self._is_labelling(x):
            return
        graph, differ = relaxation.projection
        cycles = separate_odd_cycles(graph, differ(x), tol=self._tol)
        found = differ.pull_back(*cycles.rows(graph.n_edges))
        if excludes:
            odd_sets = literals.pull_back(*conflicts.odd_sets(literals(x)))
            found = HalfSpaces.stack([found, odd_sets], x.size)
        yield found
        if self._local_cuts:
            graph, differ = relaxation.couplings
            for cuts in separate_local_cuts(graph, differ(x)):
                yield None if cuts is None else differ.pull_back(*cuts)

    def _is_labelling(self, x: Array) -> bool:
        """Return whether x is a labelling, because a labelling violates no inequality except conflicts."""
        relaxation, integral = self.relaxation, ((x == 0.0) | (x == 1.0)).all()
        return bool(integral) and np.array_equal(x, relaxation.embed(relaxation.read(x)))


_INTEGRAL = 1e-6
"""Distance from 0 or 1 up to which an edge is integral, because solvers of linear programmes err by less."""
_TOLERANCE = 1e-4
"""Least violation of a cut relative to its norm, because shallower cuts hardly raise the bound."""
_MAX_NODES = 9
"""Most nodes of a set, because nine nodes have 256 cuts, and each further node doubles the number."""
_MAX_SETS = 64
"""Most sets per round, because each takes a linear programme."""


def separate_local_cuts(graph: CycleGraph, c: Array) -> Iterator[tuple[Any, Array] | None]:
    """Find inequalities of the cut polytope, ``normals @ c <= offsets``, that c violates.

    Edges with c = 0 or 1 are contracted, and small sets of the remaining nodes are tested. If c on a set is
    not a convex combination of the cuts of this set, the segment from the mean of these cuts to c crosses a
    facet of their convex hull, which a linear programme finds. The facets include, for example, the wheel,
    bicycle wheel and clique inequalities (Buchheim, Liers, Oswald 2008, doi:10.1016/j.orl.2008.01.004). The
    point c should satisfy the cycle inequalities. Yield None after each set, and the inequalities at the end.
    """
    contracted = Contraction(graph.edges, np.clip(c, 0.0, 1.0), graph.n_nodes, _INTEGRAL)
    found = [(np.empty(0, dtype=np.int64), np.empty(0), 0.0)]
    for nodes in _node_sets(contracted):
        inside = np.zeros(contracted.n_components, dtype=bool)
        inside[nodes] = True
        chosen = np.flatnonzero(inside[contracted.pairs].all(axis=1))
        facet = _facet(contracted.c[chosen], _all_cuts(nodes, contracted.pairs[chosen]))
        if facet is not None:
            edges, normal, offset = contracted.lift(chosen, *facet)
            size = float(np.linalg.norm(normal))
            if normal @ c[edges] - offset > _TOLERANCE * size:
                found.append((edges, normal / size, offset / size))
        yield None
    edges, values, offsets = zip(*found, strict=True)
    starts = np.cumsum([part.size for part in edges])
    shape = len(found) - 1, graph.n_edges
    normals = sparse.csr_array((np.concatenate(values), np.concatenate(edges), starts), shape=shape)
    yield normals, np.array(offsets[1:])


def _node_sets(contracted: Contraction) -> Iterator[Array]:
    """Yield different sets with many pairs, each grown from one node; nodes not yet covered are first."""
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


def _all_cuts(nodes: Array, pairs: Array) -> Array:
    """Return which of the pairs differ, for all ways to put the nodes on two sides."""
    sides = np.indices([1] + [2] * (nodes.size - 1)).reshape(nodes.size, -1).T
    first, second = np.searchsorted(nodes, pairs.T)
    return (sides[:, first] != sides[:, second]).astype(np.float64)


def _facet(x: Array, points: Array) -> tuple[Array, float] | None:
    """Return (normal, offset) of the facet of the hull of points that separates x; None if x is inside.

    If x - middle is a nonnegative combination of the points - middle with the least sum s, then the segment
    from the middle to x crosses the facet at 1 / s of its length, and the multipliers are the normal.
    """
    from cutplane.masters.base import MasterStatus
    from cutplane.masters.highs import DUAL_SIMPLEX, living_model, rerun

    n, middle = len(points), points.mean(axis=0)
    rows = sparse.csr_array((points - middle).T)
    hull = LinearForm(np.ones(n), np.zeros(n), np.full(n, np.inf), rows, x - middle, x - middle)
    model = living_model(hull, DUAL_SIMPLEX)
    if rerun(model)[0] is not MasterStatus.SOLVED or model.getInfo().objective_function_value <= 1.0 + 1e-9:
        return None
    normal = np.array(model.getSolution().row_dual)
    normal[np.abs(normal) <= 1e-9 * np.abs(normal).max()] = 0.0
    return normal, float((points @ normal).max())


class Contraction:
    """A graph in which edges with c within `tol` of 0 or 1 are contracted; fractional edges remain.

    A node of a component has either the side of its root or the other side. `pairs` are the pairs of
    components joined by fractional edges; `c` is the disagreement of their roots, computed from the nearest
    of these edges.

    Examples
    --------
    Because c = 1 between nodes 2 and 3, contraction makes a triangle, whose cuts have at most two edges. In
    the lifted inequality, the contracted edge has a coefficient too, because a cut may put 2 and 3 on the
    same side.

    >>> import numpy as np
    >>> from cutplane.graphical.primal.marginal_cuts import Contraction
    >>> edges = np.array([[0, 1], [0, 2], [1, 3], [2, 3]])
    >>> triangle = Contraction(edges, np.array([0.6, 0.7, 0.4, 1.0]), 4, 1e-6)
    >>> triangle.pairs.tolist(), triangle.c.tolist()
    ([[0, 1], [0, 2], [1, 2]], [0.6, 0.7, 0.6])
    >>> numbers, normal, offset = triangle.lift(np.arange(3), np.ones(3), 2.0)
    >>> numbers.tolist(), normal.tolist(), offset
    ([0, 1, 2, 3], [1.0, 1.0, -1.0, 1.0], 2.0)
    """

    def __init__(self, edges: Array, c: Array, n_nodes: int, tol: float):
        fractional = (c > tol) & (c < 1.0 - tol)
        self._forest = forest = RootedForest(edges, np.flatnonzero(~fractional), n_nodes)
        self._edges, self._differs = edges, c > 0.5
        self.n_components = forest.n_components
        between = np.flatnonzero(fractional)
        ends = np.sort(forest.component[edges[between]], axis=1)
        order = np.lexsort((forest.depth[edges[between]].sum(axis=1), ends[:, 1], ends[:, 0]))
        order = order[ends[order, 0] != ends[order, 1]]
        self.pairs, first = np.unique(ends[order], axis=0, return_index=True)
        self._chosen = between[order[first]]
        turned = forest.sides(self._differs)[edges[self._chosen]].sum(axis=1) == 1
        self._turned = turned
        self.c = np.where(turned, 1.0 - c[self._chosen], c[self._chosen])

    def lift(self, chosen: Array, normal: Array, offset: float) -> tuple[Array, Array, float]:
        """Return an inequality (edges, normal, offset) for all cuts, given one over the chosen pairs.

        If a cut contradicts c on a contracted edge, the nodes beyond this edge change sides. The coefficient
        of the edge is at least as large as the effect of this change.
        """
        forest, numbers, turned = self._forest, self._chosen[chosen], self._turned[chosen]
        coefficients = dict(zip(numbers.tolist(), np.where(turned, -normal, normal).tolist(), strict=True))
        offset -= float(normal[turned].sum())
        beyond: dict[int, float] = {}
        total = np.zeros(self.n_components)
        for edge, weight in zip(numbers.tolist(), np.abs(normal).tolist(), strict=True):
            for node in self._edges[edge].tolist():
                total[forest.component[node]] += weight
                while forest.upward[node] >= 0:
                    beyond[node] = beyond.get(node, 0.0) + weight
                    node = int(forest.above[node])
        for node, weight in beyond.items():
            weight = min(weight, float(total[forest.component[node]]) - weight)
            if weight > 1e-12:
                edge = int(forest.upward[node])
                coefficients[edge] = weight if self._differs[edge] else -weight
                offset += weight if self._differs[edge] else 0.0
        return np.array(list(coefficients)), np.array(list(coefficients.values())), offset

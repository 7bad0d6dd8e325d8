"""Inequalities for literals that exclude each other: cliques of the conflict graph, and odd sets of cliques.

A literal is a pair of a variable and a state, and is true if the variable is in this state.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from cutplane.graphical.factor_graph import FactorGraph
from cutplane.graphical.factors import FactorArrays, by_shape, places_of, starts_of
from cutplane.pieces.validation import Array
from cutplane.sets.base import HalfSpaces

_TOL = 1e-6
"""Least violation of a cut, because solvers of linear programmes err by less."""


class AffineMap(NamedTuple):
    """The map x -> matrix @ x + offset."""

    matrix: Any
    offset: Array

    def __call__(self, x: Array) -> Array:
        return self.matrix @ x + self.offset

    def pull_back(self, normals: Any, offsets: Array) -> HalfSpaces:
        """Return the half-spaces of the points x whose image y satisfies ``normals @ y <= offsets``."""
        return HalfSpaces(sparse.csr_array(normals @ self.matrix), offsets - normals @ self.offset)


class Conflicts:
    r"""Pairs of literals of which at most one is true, and the inequalities that follow from them.

    .. math::
        \sum_{l \in C} p_l \le 1, \qquad
        \sum_l \lfloor k_l / 2 \rfloor \, p_l \le \lfloor |S| / 2 \rfloor

    for cliques C of the graph of conflicts, and for odd sets S of cliques, of which :math:`k_l` contain the
    literal l; p are the probabilities of the literals. The second inequality is half the sum of inequalities
    of the first kind, rounded down. For example, if the literals are the edges of a graph, and two edges at
    one node exclude each other, then the nodes are cliques, and the inequalities of odd sets of nodes are the
    blossom inequalities. Both together describe all matchings (Edmonds 1965, doi:10.6028/jres.069B.013).

    Parameters
    ----------
    n_literals : int
    pairs : ndarray of int, shape (m, 2)
        Two different literals each.

    Examples
    --------
    Of five literals in a ring, each excludes its neighbours, so at most two are true:

    >>> import numpy as np
    >>> from cutplane.graphical.primal.conflicts import Conflicts
    >>> ring = Conflicts(5, np.array([[0, 1], [1, 2], [2, 3], [3, 4], [4, 0]]))
    >>> len(ring.cliques(np.full(5, 0.5))[1])
    0
    >>> normals, offsets = ring.odd_sets(np.full(5, 0.5))
    >>> normals.toarray().tolist(), offsets.tolist()
    ([[1.0, 1.0, 1.0, 1.0, 1.0]], [2.0])
    """

    def __init__(self, n_literals: int, pairs: Array):
        self.n_literals = n_literals
        arcs = np.unique(np.concatenate([pairs @ [n_literals, 1], pairs @ [1, n_literals]]))
        self._tails, self._heads = np.divmod(arcs, max(1, n_literals))
        self._degrees = np.bincount(self._tails, minlength=n_literals)
        self._starts = starts_of(self._degrees)
        self._violated = self._tight = sparse.csr_array((0, n_literals))

    def __len__(self) -> int:
        return self._tails.size // 2

    def cliques(self, p: Array) -> tuple[Any, Array]:
        """Return the inequalities ``normals @ p <= offsets`` of cliques that p violates."""
        from cutplane.graphical.primal.cut_passes import select

        self._tight = self._cliques(p)
        found = self._tight[select(self._tight, self._tight @ p - 1.0 - _TOL, _PARALLEL)]
        self._violated = sparse.csr_array(sparse.vstack([self._violated, found]))
        return found, np.ones(found.shape[0])

    def odd_sets(self, p: Array) -> tuple[Any, Array]:
        """Return the inequalities ``normals @ p <= offsets`` of odd sets of cliques that p violates.

        The sets consist of cliques that were found by the last call of `cliques`, or violated before.
        """
        from cutplane.graphical.primal.cut_passes import odd_combinations, select

        cliques = self._different(sparse.csr_array(sparse.vstack([self._violated, self._tight])))
        slacks = 1.0 - cliques @ p
        cliques, slacks = cliques[slacks < 1.0], slacks[slacks < 1.0]
        likely = np.flatnonzero((p > _TOL) & (p < 1.0 - _TOL))
        likely = likely[np.argsort(-p[likely], kind="stable")]
        sets = odd_combinations(cliques[:, likely].toarray() > 0.0, p[likely], slacks, 2.0 * _TOL)
        if not len(sets):
            sets = self._sets_in_two(cliques, p, slacks)
        chosen = sparse.csr_array(np.unique(sets, axis=0).astype(np.float64))
        normals = chosen @ cliques
        normals.data = np.floor(0.5 * normals.data)
        normals.eliminate_zeros()
        offsets = np.floor(0.5 * chosen.sum(axis=1))
        kept = select(normals, normals @ p - offsets - _TOL, _PARALLEL)
        return normals[kept], offsets[kept]

    def _sets_in_two(self, cliques: Any, p: Array, slacks: Array) -> Array:
        """Return odd sets by odd cuts, exactly if each literal with positive p is in at most two cliques.

        Else large cliques are chosen such that this holds. They are the nodes of a graph, and their literals
        the edges. A set loses its slacks and the p of the literals in one of its cliques, which is a cut of
        this graph, if another node has an edge for each slack and for each literal in one clique.
        """
        from cutplane.graphical.primal.odd_cuts import light_odd_cuts

        owners: list[list[int]] = [[] for _ in range(self.n_literals)]
        chosen: list[int] = []
        for row in np.argsort(-np.diff(cliques.indptr), kind="stable").tolist():
            literals = cliques.indices[cliques.indptr[row] : cliques.indptr[row + 1]]
            inside = literals[p[literals] > _TOL].tolist()
            if all(len(owners[literal]) < 2 for literal in inside):
                chosen.append(row)
                for literal in inside:
                    owners[literal].append(len(chosen))
        used = [literal for literal, rows in enumerate(owners) if rows]
        ends = [(owners[literal][0], sum(owners[literal][1:])) for literal in used]
        ends += [(node, 0) for node in range(1, len(chosen) + 1)]
        edges = np.array(ends, dtype=np.int64).reshape(-1, 2)
        weights = np.tile(np.concatenate([p[used], np.maximum(slacks[chosen], 0.0)]), 2)
        tails, heads = np.concatenate([edges, edges[:, ::-1]]).T
        order = np.argsort(tails, kind="stable")
        opposite = np.argsort(order)[(order + len(edges)) % max(1, order.size)]
        starts = np.searchsorted(tails[order], np.arange(len(chosen) + 2))
        odd = np.arange(len(chosen) + 1) > 0
        odd[0] = len(chosen) % 2
        sides = light_odd_cuts(starts, heads[order], opposite, weights[order], odd, 1.0 - 2.0 * _TOL)
        sets = np.zeros((len(sides), cliques.shape[0]), dtype=np.uint8)
        sets[:, chosen] = sides[:, 1:]
        return sets

    def _cliques(self, p: Array) -> Any:
        """Return different maximal cliques of probability 1 or more, one per row.

        Each pair with positive p is extended greedily by the neighbours of largest p.
        """
        from cutplane.graphical.primal.cut_passes import greedy_cliques

        order = np.lexsort((-self._degrees[self._heads], -p[self._heads], self._tails))
        starts, members = greedy_cliques(self._starts, self._heads[order], p, _TOL, 1.0 - _TOL)
        entries = np.ones(members.size), members, starts
        found = sparse.csr_array(entries, shape=(starts.size - 1, self.n_literals))
        found.sort_indices()
        return self._different(found)

    def _different(self, cliques: Any) -> Any:
        """Return the different rows, with sorted indices."""
        sums = cliques @ np.random.default_rng(0).random(self.n_literals)
        return cliques[np.unique(sums, return_index=True)[1]]


_PARALLEL = 0.5
"""Cosine from which a deeper cut replaces another, because the two then share about half of their terms."""


def forbidden_pairs(model: FactorGraph) -> Array:
    """Return the pairs of literals, as places in ``model.unaries``, that some factor excludes.

    States of one variable exclude each other; these pairs are returned for variables with other conflicts.
    """
    parts = [np.empty((0, 2), dtype=np.int64)]
    hard = np.flatnonzero(_has_forbidden_tuples(model))
    for factors, scopes, shape in by_shape(model.cardinalities, model.scope_starts, model.scopes, hard):
        entries = model.table_starts[factors][:, None] + np.arange(np.prod(shape))
        banned = np.isinf(model.tables[entries]).reshape(-1, *shape)
        for axes in combinations(range(shape.size), 2):
            others = tuple(1 + k for k in range(shape.size) if k not in axes)
            factor, i, j = np.nonzero(banned.all(axis=others))
            starts = model.unary_starts[scopes[factor][:, axes]]
            parts.append(starts + np.column_stack([i, j]))
    pairs = np.concatenate(parts)
    owners = np.unique(np.repeat(np.arange(model.n_variables), model.cardinalities)[pairs])
    for count in np.unique(model.cardinalities[owners]).tolist():
        first = model.unary_starts[owners[model.cardinalities[owners] == count]]
        states = np.array(list(combinations(range(count), 2)), dtype=np.int64).reshape(-1, 2)
        parts.append((first[:, None, None] + states).reshape(-1, 2))
    return np.concatenate(parts)


def without_exclusions(model: FactorGraph) -> FactorGraph:
    """Return the model without the factors of pairs whose finite costs are all zero.

    Cliques of the pairs that they exclude replace them. For two variables, this is Hall's theorem: marginals
    have a joint table without forbidden entries if the inequalities of cliques hold.
    """
    nonzero = np.cumsum(np.append(0, np.isfinite(model.tables) & (model.tables != 0.0)))
    costs = nonzero[model.table_starts + model.table_sizes] - nonzero[model.table_starts]
    kept = np.flatnonzero((costs > 0) | (model.arities > 2))
    arities = model.arities[kept]
    factors = FactorArrays(
        unaries=model.unaries,
        scope_starts=starts_of(arities),
        scopes=model.scopes[places_of(model.scope_starts[kept], arities)],
        table_starts=model.table_starts[kept],
        tables=model.tables,
        constant=model.constant,
    )
    return FactorGraph.from_arrays(model.cardinalities, factors)


def _has_forbidden_tuples(model: FactorGraph) -> Array:
    before = np.concatenate([[0], np.cumsum(np.isinf(model.tables))])
    return before[model.table_starts + model.table_sizes] > before[model.table_starts]

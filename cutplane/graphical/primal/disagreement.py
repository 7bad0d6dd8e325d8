"""Binary pairwise models in terms of which variables differ."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from cutplane.exceptions import InvalidInputError
from cutplane.graphical.factor_graph import FactorGraph
from cutplane.graphical.primal.conflicts import AffineMap, Conflicts
from cutplane.graphical.primal.odd_cycles import CycleGraph
from cutplane.pieces.parameters import read_only
from cutplane.pieces.validation import Array
from cutplane.sets.base import FeasibleSet, HalfSpaces, Separator
from cutplane.sets.box import Box


class Disagreements(FeasibleSet):
    r"""The probabilities c with which neighbours in a binary pairwise model differ.

    .. math:: E(x) = \theta_0' + \sum_{uv} w_{uv} c_{uv}, \qquad c_{uv} = [x_u \ne x_v] \in [0, 1]

    The field of a variable is the weight of its edge to an *apex*, an additional node with state 0.
    Labellings are the cuts of this graph, as vectors of zeros and ones. Two labellings that are opposite
    throughout a connected component without fields have the same energy and the same vector. Cycle
    inequalities are not part of this set. For example, the inequalities of all triangles with the apex
    restrict it to the local polytope.

    A forbidden tuple becomes a bound, or two literals of which at most one is true, to which the set has a
    separation oracle. Pairs without interaction are removed, and so are variables with only one allowed
    state.

    Parameters
    ----------
    model : GraphicalModel
        With factors of pairs, and at most two states per variable.

    Attributes
    ----------
    edges : ndarray of int, shape (dim + n_forbidden, 2)
        The pairs of nodes; the apex is the node ``model.n_variables``. The last ones are the pairs with one
        forbidden tuple. These have no entry of c, because the entries of their fields determine whether the
        pair differs.
    cost, lower, upper : ndarray of shape (dim,)
    projection : (CycleGraph, AffineMap)
        The graph of `edges`, and the probabilities with which they differ.
    conflicts : Conflicts
        The literals of which at most one is true.
    literals : AffineMap
        The probabilities of the literals of `conflicts`.
    n_decisive : int
        `dim`, because no entry follows from others.
    constant : float
        The energy minus <cost, c>; inf if the model was found to forbid every labelling.
    rounding : float
        By how much <cost, c> + constant may differ from the energy of a labelling.

    Raises
    ------
    InvalidInputError
        If a factor has more than two variables, or a variable more than two states; use `LocalPolytope`.

    References
    ----------
    .. [1] F. Barahona, A. R. Mahjoub, "On the cut polytope", Mathematical Programming 36, 1986,
       doi:10.1007/BF02592023.

    Examples
    --------
    >>> from cutplane.graphical import GraphicalModel
    >>> from cutplane.graphical.primal.disagreement import Disagreements
    >>> model = GraphicalModel([2, 2], [((0,), [0, 3]), ((0, 1), [[1, 0], [0, 1]])])
    >>> c = Disagreements(model)
    >>> c.edges.tolist(), c.cost.tolist(), c.constant
    ([[0, 1], [0, 2]], [-1.0, 3.0], 1.0)
    >>> c.embed([1, 0]).tolist(), c.read(c.embed([1, 0])).tolist()
    ([1.0, 1.0], [1, 0])
    """

    bounded = True

    def __init__(self, model: FactorGraph):
        if not (model.is_pairwise and model.is_binary):
            raise InvalidInputError(f"{model!r} is not binary with factors of pairs; use LocalPolytope.")
        pairs = binary_pairs(model)
        single = pairs.forbidden[:, 0] >= 0
        needed = pairs.fields != 0.0
        needed[model.edges[single]] = True
        kept = np.flatnonzero((pairs.couplings != 0.0) | pairs.must_differ | pairs.must_agree)
        linked = np.flatnonzero(needed)
        to_apex = np.column_stack([linked, np.full(linked.size, model.n_variables)])
        self.model = model
        self.constant = pairs.constant
        self.rounding = pairs.rounding
        self.dim = self.n_decisive = kept.size + linked.size
        self.edges = read_only(np.concatenate([model.edges[kept], to_apex, model.edges[single]]))
        self.cost = read_only(np.concatenate([pairs.couplings[kept], pairs.fields[linked]]))
        free = np.zeros(linked.size)
        self.lower = read_only(np.concatenate([pairs.must_differ[kept], free]))
        self.upper = read_only(np.concatenate([~pairs.must_agree[kept], free + 1.0]))
        ends = (np.cumsum(needed) - 1)[model.edges[single]]
        self._exclude(kept.size, linked.size, ends, pairs.forbidden[single])
        self._states = pairs.states

    def _exclude(self, n_pairs: int, n_fields: int, ends: Array, states: Array) -> None:
        """Set the conflicts of pairs with a forbidden tuple, and the probabilities of their literals.

        The literals of the variable of field u are 2 u, for its state 0, and 2 u + 1.
        """
        numbers, signs = np.arange(2 * n_fields), np.tile([-1.0, 1.0], n_fields)
        dim, columns = n_pairs + n_fields, n_pairs + numbers // 2
        true = sparse.csr_array((signs, columns, np.arange(signs.size + 1)), shape=(signs.size, dim))
        self.literals = AffineMap(true, 0.5 - 0.5 * signs)
        pairs, opposite = 2 * ends + states, numbers.reshape(-1, 2)[np.unique(ends)]
        self.conflicts = Conflicts(signs.size, np.concatenate([pairs, opposite]))

        same = np.where(states[:, 0] == states[:, 1], 1.0, -1.0)
        entries = np.repeat(same, 2), pairs.ravel(), 2 * np.arange(len(pairs) + 1)
        differ = sparse.csr_array(entries, shape=(len(pairs), signs.size))
        all_differ = AffineMap(
            sparse.csr_array(sparse.vstack([sparse.eye_array(dim), differ @ true])),
            np.concatenate([np.zeros(dim), 0.5 - 0.5 * same + differ @ self.literals.offset]),
        )
        self.projection = CycleGraph(self.model.n_variables + 1, self.edges), all_differ

    def __repr__(self) -> str:
        return f"Disagreements({self.model!r})"

    @property
    def parts(self) -> tuple[FeasibleSet, tuple[Separator, ...]]:
        return Box(self.lower, self.upper), (self,)

    def violation(self, x: Array) -> float:
        outside = float(np.maximum(self.lower - x, x - self.upper).max(initial=0.0))
        return max(outside, float(self.separate(x).violations(x).max(initial=0.0)))

    def separate(self, x: Array) -> HalfSpaces:
        """Return violated inequalities of cliques of literals of which at most one is true."""
        return self.literals.pull_back(*self.conflicts.cliques(self.literals(x)))

    def embed(self, labelling: Any) -> Array:
        """Return which neighbours differ in a labelling, a vector of zeros and ones.

        Parameters
        ----------
        labelling : array_like of int, shape (n_variables,)
        """
        states = np.append(self.model._as_labellings(np.asarray(labelling)[None])[0], 0)
        first, second = self.edges[: self.dim].T
        return (states[first] != states[second]).astype(np.float64)

    def read(self, x: Array) -> Array:
        """Round x to a labelling, along a spanning tree of the entries that are nearest to 0 or 1."""
        n = self.model.n_variables
        sides = two_sides(self.edges, self.projection[1](x), n + 1)
        return np.where(self._states >= 0, self._states, sides[:n] != sides[n])


_ROUNDING = 1e-14
"""Largest weight, relative to its terms, that counts as zero, because it is rounding error."""
_EPS = float(np.finfo(np.float64).eps)
_OPERATIONS = 16
"""Additions to an entry of a table, in addition to the pairs of a variable, because each has an error."""


class BinaryPairs(NamedTuple):
    """The energy of a binary pairwise model in terms of its variables and of the pairs that differ.

    `states` is the only allowed state of a variable, or -1; fixed variables have no field and no pair. The
    constant is inf if fixing variables shows that no labelling is allowed. Pairs in `must_differ` or
    `must_agree` have two opposite forbidden tuples. `forbidden` is the only forbidden tuple of a pair, or
    (-1, -1); fields and couplings treat its cost as finite. `rounding` bounds the errors of all these terms
    in an energy.
    """

    constant: float
    states: Array
    fields: Array
    couplings: Array
    must_differ: Array
    must_agree: Array
    forbidden: Array
    rounding: float


def binary_pairs(model: FactorGraph) -> BinaryPairs:
    """Convert a binary pairwise model, after fixing the variables with one allowed state.

    Weights within rounding errors of zero are removed; their least sum is added to the constant, because
    bounds must stay valid.
    """
    n, (first, second) = model.n_variables, model.edges.T
    unaries, tables = _padded(model)
    sizes = _largest(unaries).sum() + _largest(tables.reshape(-1, 4)).sum()
    _propagate(unaries, tables, first, second)
    banned: Any = np.isinf(tables)
    count = banned.sum(axis=(1, 2))
    must_differ, must_agree = (count == 2) & banned[:, 0, 0], (count == 2) & banned[:, 0, 1]
    forbidden = np.full((model.n_factors, 2), -1)
    single = np.flatnonzero(count == 1)
    forbidden[single] = np.argwhere(banned[single])[:, 1:]
    _remove_coupling(tables, must_differ, must_agree, single, forbidden[single])

    (a, b), (c, d) = np.moveaxis(tables, 0, -1)
    couplings = 0.5 * ((b - a) + (c - d))
    for_first, for_second = 0.5 * ((c - a) - (b - d)), 0.5 * ((b - a) - (c - d))
    fixed = np.isinf(unaries).any(axis=1)
    states = np.where(fixed, unaries.argmin(axis=1), -1)
    constants = [model.constant, *unaries[fixed].min(axis=1).tolist(), *a.tolist()]
    unaries[fixed] = 0.0
    fields = unaries[:, 1] - unaries[:, 0]
    fields += np.bincount(first, for_first, n) + np.bincount(second, for_second, n)
    largest = np.abs(tables).max(axis=(1, 2), initial=0.0)
    scale = np.abs(unaries).max(axis=1, initial=0.0)
    scale += np.bincount(first, largest, n) + np.bincount(second, largest, n)
    constants += [*unaries[:, 0].tolist(), _drop(fields, scale), _drop(couplings, largest)]
    most = int(np.bincount(np.concatenate([first, second]), minlength=1).max())
    rounding = _EPS * (most + _OPERATIONS) * float(sizes + _largest(tables.reshape(-1, 4)).sum())
    constant = math.fsum(constants) if np.isfinite(constants).all() else math.inf
    return BinaryPairs(constant, states, fields, couplings, must_differ, must_agree, forbidden, rounding)


def _largest(rows: Array) -> Array:
    """Return the largest size of a finite entry of each row."""
    return np.abs(rows).max(axis=1, where=np.isfinite(rows), initial=0.0)


def _padded(model: FactorGraph) -> tuple[Array, Array]:
    """Return unaries of shape (n, 2) and tables of shape (m, 2, 2); missing states cost inf."""
    unaries = np.full((model.n_variables, 2), np.inf)
    unaries[:, 0] = model.unaries[model.unary_starts[:-1]]
    two = model.cardinalities == 2
    unaries[two, 1] = model.unaries[model.unary_starts[:-1][two] + 1]
    states = np.arange(2)
    last = model.cardinalities[model.edges] - 1
    rows, columns = np.minimum(states, last[:, :1]), np.minimum(states, last[:, 1:])
    places = rows[:, :, None] * (last[:, 1] + 1)[:, None, None] + columns[:, None, :]
    return unaries, model.tables[model.table_starts[:, None, None] + places]


def _propagate(unaries: Array, tables: Array, first: Array, second: Array) -> None:
    """Fix variables with one allowed state, and add their pairs to unaries of the neighbours, in place."""
    while True:
        for axis, ends in ((2, first), (1, second)):
            forbidden: Any = np.isinf(tables).all(axis=axis)
            pair, state = np.nonzero(forbidden)
            unaries[ends[pair], state] = np.inf
        fixed: Any = np.isinf(unaries).any(axis=1)
        state = unaries.argmin(axis=1)
        pending = (fixed[first] | fixed[second]) & tables.any(axis=(1, 2))
        if not pending.any():
            return
        for near, far, turned in ((first, second, False), (second, first, True)):
            pairs = np.flatnonzero(pending & fixed[near])
            views = np.swapaxes(tables[pairs], 1, 2) if turned else tables[pairs]
            np.add.at(unaries, far[pairs], views[np.arange(pairs.size), state[near[pairs]]])
            tables[pairs] = 0.0


def _remove_coupling(
    tables: Array, must_differ: Array, must_agree: Array, single: Array, places: Array
) -> None:
    """Give forbidden tuples finite costs with which the coupling is zero, in place."""
    tables[must_differ, [[0], [1]], [[0], [1]]] = 0.5 * (
        tables[must_differ, 0, 1] + tables[must_differ, 1, 0]
    )
    tables[must_agree, [[0], [1]], [[1], [0]]] = 0.5 * (tables[must_agree, 0, 0] + tables[must_agree, 1, 1])
    i, j = places.T
    neighbours = tables[single, 1 - i, j] + tables[single, i, 1 - j]
    tables[single, i, j] = neighbours - tables[single, 1 - i, 1 - j]


def _drop(weights: Array, sizes: Array) -> float:
    """Set weights that are rounding errors of terms of these sizes to zero; return their least sum."""
    noise = np.abs(weights) <= _ROUNDING * sizes
    least = float(np.minimum(weights[noise], 0.0).sum())
    weights[noise] = 0.0
    return least


def two_sides(edges: Array, c: Array, n_nodes: int) -> Array:
    """Round the disagreements c in [0, 1] of the edges to a side, 0 or 1, of each node.

    The sides agree with the rounded c on a spanning forest with the largest sum of |c - 1/2|. In each
    connected component the two sides may be exchanged.
    """
    low, high = np.sort(edges, axis=1).T
    unsure = 2.0 - np.abs(2.0 * c - 1.0)  # zero would mean that there is no edge
    graph = sparse.csr_array((unsure, (low, high)), shape=(n_nodes, n_nodes))
    tree = csgraph.minimum_spanning_tree(graph).tocoo()
    keys = low * n_nodes + high
    order = np.argsort(keys)
    believed = order[np.searchsorted(keys[order], tree.row.astype(np.int64) * n_nodes + tree.col)]
    # (node, side) and (neighbour, side that agrees with c): each tree has two connected components
    (first, second), turned = edges[believed].T, n_nodes * (c[believed] > 0.5)
    ends = np.append(first, first + n_nodes), np.append(second + turned, second + n_nodes - turned)
    doubled = sparse.csr_array((np.ones(ends[0].size), ends), shape=(2 * n_nodes, 2 * n_nodes))
    _, component = csgraph.connected_components(doubled, directed=False)
    return (component[:n_nodes] > component[n_nodes:]).astype(np.int64)

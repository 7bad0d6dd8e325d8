"""The local polytope: marginals of variables and factors that agree with each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError
from cutplane.graphical.factor_graph import FactorGraph
from cutplane.graphical.factors import FactorArrays, places_of, starts_of
from cutplane.graphical.primal.conflicts import AffineMap, Conflicts, forbidden_pairs
from cutplane.graphical.primal.odd_cycles import CycleGraph, projection_graph
from cutplane.pieces.forms import LinearForm
from cutplane.pieces.parameters import read_only
from cutplane.pieces.validation import Array
from cutplane.sets.base import FeasibleSet


class LocalPolytope(FeasibleSet):
    r"""The marginals :math:`\mu` of a graphical model that agree locally; 0/1 vectors are the labellings.

    .. math::
        \mu \ge 0, \qquad \sum_i \mu_u(i) = 1, \qquad \sum_{x_A : x_u = i} \mu_A(x_A) = \mu_u(i)

    for all variables u, all factors A, all u in A and all states i of u. Minimising <cost, x> + constant over
    it bounds the energy from below. The bound is exact on trees and for attractive binary pairs.

    The vector x contains the marginals of the variables in the order of ``model.unaries``, then the marginals
    of the factors in their order, each in C order, then of the added pairs and clusters. A forbidden tuple
    has the upper bound 0 and cost 0.

    Parameters
    ----------
    model : GraphicalModel
    clusters : iterable of sequences of int
        Sets of at least three variables. Their joint marginals are added, and have to agree with the
        marginals of all their pairs; missing pairs are added too.
    conflicts : Conflicts, optional
        States that exclude each other; by default they follow from the factors.

    Attributes
    ----------
    model : GraphicalModel
        The model with the added factors, whose costs are zero.
    cost, upper : ndarray of shape (dim,)
    rows : csr_array of shape (n_rows, dim)
    right : ndarray of shape (n_rows,)
        The polytope is {rows x = right, 0 <= x <= upper}. Redundant rows are omitted.
    n_decisive : int
        If this number of first entries of x are 0 or 1, so are all.
    constant : float
        The energy minus <cost, x>.
    rounding : float
        By how much <cost, x> + constant may differ from the energy of a labelling: 0, because the costs are
        the same.

    Raises
    ------
    InvalidInputError
        If a cluster has fewer than three variables, repeats a variable, or names one that does not exist.

    References
    ----------
    .. [1] M. J. Wainwright, M. I. Jordan, "Graphical models, exponential families, and variational
       inference", Foundations and Trends in Machine Learning 1, 2008, doi:10.1561/2200000001.

    Examples
    --------
    Three variables of two states cannot all differ, but in the local polytope without a cluster they do:

    >>> import cutplane as cut
    >>> from cutplane.graphical import GraphicalModel
    >>> from cutplane.graphical.primal.local_polytope import LocalPolytope
    >>> differ = [[1, 0], [0, 1]]
    >>> model = GraphicalModel([2, 2, 2], [((0, 1), differ), ((1, 2), differ), ((0, 2), differ)])
    >>> for polytope in LocalPolytope(model), LocalPolytope(model, clusters=[(0, 1, 2)]):
    ...     problem = cut.Problem(cut.LinearObjective(polytope.cost), feasible_set=polytope)
    ...     result = problem.solve(cut.Kelley(), x0=polytope.embed([0, 1, 0]))
    ...     print(polytope.dim, abs(round(result.lower_bound + polytope.constant, 6)))
    18 0.0
    26 1.0
    """

    bounded = True
    rounding = 0.0

    def __init__(
        self,
        model: FactorGraph,
        clusters: Iterable[Sequence[int]] = (),
        *,
        conflicts: Conflicts | None = None,
    ):
        if conflicts is not None:
            self.conflicts = conflicts
        scopes = sorted({_checked(model, cluster) for cluster in clusters})
        self.model, pairs = _extended(model, scopes)
        self.n_decisive = self.model.unaries.size
        ends = self.n_decisive + starts_of(self.model.table_sizes)
        self.table_starts, self.dim = read_only(ends[:-1]), int(ends[-1])
        self.constant = model.constant
        places = places_of(self.model.table_starts, self.model.table_sizes)
        costs = np.append(self.model.unaries, self.model.tables[places])
        allowed = np.isfinite(costs)
        self.cost = read_only(np.where(allowed, costs, 0.0))
        self.upper = read_only(allowed.astype(np.float64))
        consistency = ConsistencyRows(self.model, self.table_starts)
        consistency.normalise()
        numbers = np.arange(self.model.n_factors)
        consistency.with_variables(numbers[(numbers < model.n_factors) | (self.model.arities == 2)])
        for cluster, members in pairs.items():
            consistency.with_pairs(cluster, members, apart=cluster >= model.n_factors)
        self.rows, self.right = consistency.rows(self.dim)

    @cached_property
    def conflicts(self) -> Conflicts:
        """The literals that exclude each other; they are numbered like the states of all variables."""
        return Conflicts(self.model.unaries.size, forbidden_pairs(self.model))

    @property
    def literals(self) -> AffineMap:
        """The probabilities of the literals of `conflicts`."""
        size = self.model.unaries.size
        return AffineMap(sparse.csr_array(sparse.eye_array(size, self.dim)), np.zeros(size))

    @cached_property
    def projection(self) -> tuple[CycleGraph, AffineMap]:
        """The graph of states, and the probabilities with which its edges disagree."""
        graph, matrix = projection_graph(self.model)
        return graph, AffineMap(matrix, np.zeros(graph.n_edges))

    def __repr__(self) -> str:
        return f"LocalPolytope({self.model!r})"

    def violation(self, x: Array) -> float:
        rows = float(np.abs(self.rows @ x - self.right).max(initial=0.0))
        return max(rows, float(np.maximum(-x, x - self.upper).max(initial=0.0)))

    def linear_form(self, dim: int) -> LinearForm:
        """Return rows and bounds."""
        self.resolve(dim)
        return LinearForm(np.zeros(dim), np.zeros(dim), self.upper, self.rows, self.right, self.right)

    def cvxpy_form(self, x: Any) -> list[Any]:
        """Return rows and bounds as constraints."""
        return [self.rows @ x == self.right, x >= 0, x <= self.upper]

    def embed(self, labelling: Any) -> Array:
        """Return the marginals of a labelling, a vector of zeros and ones.

        Parameters
        ----------
        labelling : array_like of int, shape (n_variables,)
        """
        model, labelling = self.model, self.model._as_labellings(np.asarray(labelling)[None])[0]
        x = np.zeros(self.cost.size)
        x[model.unary_starts[:-1] + labelling] = 1.0
        if model.n_factors:
            steps = labelling[model.scopes] * model.strides
            x[self.table_starts + np.add.reduceat(steps, model.scope_starts[:-1])] = 1.0
        return x

    def read(self, x: Array) -> Array:
        """Return the labelling in which each variable has its most probable state, the first of equals."""
        starts, states = self.model.unary_starts[:-1], self.model.cardinalities
        marginals = x[: self.model.unaries.size]
        likeliest = np.flatnonzero(marginals == np.repeat(np.maximum.reduceat(marginals, starts), states))
        owners = np.repeat(np.arange(states.size), states)[likeliest]
        _, first = np.unique(owners, return_index=True)
        return likeliest[first] - starts


def _checked(model: FactorGraph, cluster: Sequence[int]) -> tuple[int, ...]:
    scope = tuple(sorted(int(u) for u in cluster))
    if len(scope) < 3 or len(set(scope)) < len(scope) or scope[0] < 0 or scope[-1] >= model.n_variables:
        raise InvalidInputError(
            f"A cluster is a set of at least three of the variables 0 to {model.n_variables - 1}, got "
            f"{cluster!r}."
        )
    return scope


def _extended(
    model: FactorGraph, clusters: Sequence[tuple[int, ...]]
) -> tuple[FactorGraph, dict[int, list[int]]]:
    """Return the model with zero-valued factors on clusters and their pairs, and the pairs of each cluster.

    Clusters and pairs are given by the numbers of their factors; pairs are in lexicographic order.
    """
    if not clusters:
        return model, {}
    known = {model.factor(a).variables: a for a in range(model.n_factors)}
    for scope in [*(pair for cluster in clusters for pair in combinations(cluster, 2)), *clusters]:
        known.setdefault(scope, len(known))
    added = list(known)[model.n_factors :]
    sizes = [int(np.prod(model.cardinalities[list(scope)])) for scope in added]
    arities = np.array([len(scope) for scope in added], dtype=np.int64)
    factors = FactorArrays(
        unaries=model.unaries,
        scope_starts=np.concatenate([model.scope_starts, model.scope_starts[-1] + np.cumsum(arities)]),
        scopes=np.concatenate([model.scopes, *map(np.array, added)]).astype(np.int64),
        table_starts=np.concatenate([model.table_starts, np.full(len(added), model.tables.size)]),
        tables=np.concatenate([model.tables, np.zeros(max(sizes, default=0))]),
        constant=model.constant,
    )
    extended = FactorGraph.from_arrays(model.cardinalities, factors)
    return extended, {known[c]: [known[pair] for pair in combinations(c, 2)] for c in clusters}


class ConsistencyRows:
    """Collects sparse rows, all factors of one shape at once; their columns begin at `table_starts`."""

    def __init__(self, model: FactorGraph, table_starts: Array):
        self._model = model
        self._table_starts = table_starts
        self._widths: list[Array] = []
        self._columns: list[Array] = []
        self._values: list[Array] = []

    def normalise(self) -> None:
        """Add the rows by which the marginals of each variable sum to 1."""
        model = self._model
        self._add(model.cardinalities, np.arange(model.unaries.size), np.ones(model.unaries.size))

    def with_variables(self, factors: Array) -> None:
        """Add the rows by which the factors agree with their variables.

        Only the first variable has a row for its last state. For every other variable this row is redundant,
        because the marginals of a factor sum to 1 by the agreement with its first variable.
        """
        model = self._model
        for arity in np.unique(model.arities[factors]).tolist():
            mine = factors[model.arities[factors] == arity]
            scopes = model.scopes[model.scope_starts[mine][:, None] + np.arange(arity)]
            shapes, group = np.unique(model.cardinalities[scopes], axis=0, return_inverse=True)
            for number, shape in enumerate(shapes):
                chosen = group.ravel() == number
                parents = self._table_starts[mine[chosen]]
                for axis, children in enumerate(model.unary_starts[scopes[chosen].T]):
                    self._link(parents, children, shape, [axis], dropped=[axis] if axis else [])

    def with_pairs(self, cluster: int, pairs: Sequence[int], apart: bool) -> None:
        """Add the rows by which a cluster agrees with its pairs, which are in lexicographic order.

        `apart` says that the cluster does not agree with its variables yet. Once it agrees with one variable
        of a pair, the row of the last state of the other variable is redundant.
        """
        scope, table = self._model.factor(cluster)
        settled = set() if apart else set(scope)
        for pair in pairs:
            members = self._model.factor(pair).variables
            axes = [scope.index(u) for u in members]
            dropped = [axis for axis, u in zip(axes, reversed(members), strict=True) if u in settled]
            self._link(self._table_starts[[cluster]], self._table_starts[[pair]], table.shape, axes, dropped)
            settled |= set(members)

    def rows(self, dim: int) -> tuple[sparse.csr_array, Array]:
        """Return the rows and their right-hand sides."""
        widths = np.concatenate(self._widths)
        starts = starts_of(widths)
        entries = np.concatenate(self._values), np.concatenate(self._columns).astype(np.int32), starts
        right = np.zeros(widths.size)
        right[: self._model.n_variables] = 1.0
        return sparse.csr_array(entries, shape=(widths.size, dim)), right

    def _link(
        self, parents: Array, children: Array, shape: Sequence[int], axes: list[int], dropped: list[int]
    ) -> None:
        """Add rows by which tables of one shape at `parents`, summed to `axes`, equal those at `children`.

        Tables begin at these columns. The last state of the axes in `dropped` is omitted.
        """
        inner = [shape[axis] for axis in axes]
        kept = np.ix_(*(np.arange(shape[axis] - (axis in dropped)) for axis in axes))
        states = np.arange(np.prod(inner)).reshape(inner)[kept].ravel()
        agreeing = np.moveaxis(np.arange(np.prod(shape)).reshape(shape), axes, range(len(axes)))
        agreeing = agreeing.reshape(*inner, -1)[kept].reshape(states.size, np.prod(shape) // np.prod(inner))
        columns = np.empty((parents.size, states.size, agreeing.shape[1] + 1), dtype=np.int64)
        columns[..., :-1] = parents[:, None, None] + agreeing
        columns[..., -1] = children[:, None] + states
        values = np.ones(columns.shape)
        values[..., -1] = -1.0
        self._add(np.full(parents.size * states.size, columns.shape[2]), columns.ravel(), values.ravel())

    def _add(self, widths: Array, columns: Array, values: Array) -> None:
        self._widths.append(widths)
        self._columns.append(columns)
        self._values.append(values)

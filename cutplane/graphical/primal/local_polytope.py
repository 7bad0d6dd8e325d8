"""The local polytope: marginals of variables and factors that agree with each other."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.graphical.factor_graph import FactorGraph
from cutplane.graphical.factors import by_shape, places_of, starts_of
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
    of the factors in their order, each in C order. A forbidden tuple has the upper bound 0 and cost 0.

    Parameters
    ----------
    model : GraphicalModel
    conflicts : Conflicts, optional
        States that exclude each other; by default they follow from the factors.

    Attributes
    ----------
    model : GraphicalModel
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

    References
    ----------
    .. [1] M. J. Wainwright, M. I. Jordan, "Graphical models, exponential families, and variational
       inference", Foundations and Trends in Machine Learning 1, 2008, doi:10.1561/2200000001.

    Examples
    --------
    Three variables of two states cannot all differ, but in the local polytope they do, unless one factor has
    the costs of all three pairs:

    >>> import numpy as np
    >>> import cutplane as cut
    >>> from cutplane.graphical import GraphicalModel
    >>> from cutplane.graphical.primal.local_polytope import LocalPolytope
    >>> same = np.eye(2)
    >>> pairs = [((0, 1), same), ((1, 2), same), ((0, 2), same)]
    >>> together = [((0, 1, 2), same[:, :, None] + same + same[:, None])]
    >>> for factors in pairs, together:
    ...     polytope = LocalPolytope(GraphicalModel([2, 2, 2], factors))
    ...     problem = cut.Problem(cut.LinearObjective(polytope.cost), feasible_set=polytope)
    ...     result = problem.solve(cut.Kelley(), x0=polytope.embed([0, 1, 0]))
    ...     print(polytope.dim, abs(round(result.lower_bound + polytope.constant, 6)))
    18 0.0
    14 1.0
    """

    bounded = True
    rounding = 0.0

    def __init__(self, model: FactorGraph, *, conflicts: Conflicts | None = None):
        if conflicts is not None:
            self.conflicts = conflicts
        self.model = model
        self.n_decisive = model.unaries.size
        ends = self.n_decisive + starts_of(model.table_sizes)
        self.table_starts, self.dim = read_only(ends[:-1]), int(ends[-1])
        self.constant = model.constant
        places = places_of(model.table_starts, model.table_sizes)
        costs = np.append(model.unaries, model.tables[places])
        allowed = np.isfinite(costs)
        self.cost = read_only(np.where(allowed, costs, 0.0))
        self.upper = read_only(allowed.astype(np.float64))
        self.rows, self.right = _consistency_rows(model, self.table_starts, self.dim)

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


def _consistency_rows(model: FactorGraph, table_starts: Array, dim: int) -> tuple[sparse.csr_array, Array]:
    """Return the rows by which marginals sum to 1 and agree, and their right-hand sides."""
    blocks = list(_agreements(model, table_starts))
    widths = np.concatenate([model.cardinalities, *(np.full(len(block), block.shape[1]) for block in blocks)])
    columns = np.concatenate([np.arange(model.unaries.size), *map(np.ravel, blocks)])
    starts, values, right = starts_of(widths), np.ones(columns.size), np.zeros(widths.size)
    values[starts[model.n_variables + 1 :] - 1] = -1.0
    right[: model.n_variables] = 1.0
    return sparse.csr_array((values, columns.astype(np.int32), starts), shape=(widths.size, dim)), right


def _agreements(model: FactorGraph, table_starts: Array) -> Iterator[Array]:
    """Yield the columns of rows of one length: marginals of a factor, and last the marginal that they sum to.

    The arrays have the shape (number of rows, length). Only the first variable of a factor has a row for its
    last state. For the others this row is redundant, because the marginals of a factor sum to 1 by the
    agreement with its first variable.
    """
    every = np.arange(model.n_factors)
    for factors, scopes, shape in by_shape(model.cardinalities, model.scope_starts, model.scopes, every):
        parents, table = table_starts[factors], np.arange(np.prod(shape)).reshape(shape)
        for axis, children in enumerate(model.unary_starts[scopes.T]):
            states = int(shape[axis]) - (axis > 0)
            inside = np.moveaxis(table, axis, 0).reshape(shape[axis], -1)[:states]
            columns = np.empty((parents.size, states, inside.shape[1] + 1), dtype=np.int64)
            columns[..., :-1] = parents[:, None, None] + inside
            columns[..., -1] = children[:, None] + np.arange(states)
            yield columns.reshape(parents.size * states, inside.shape[1] + 1)

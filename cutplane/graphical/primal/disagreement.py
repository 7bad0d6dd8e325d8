"""Binary models of pairs in terms of which variables differ."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError
from cutplane.graphical.factor_graph import FactorGraph
from cutplane.graphical.primal.binary_pairs import binary_pairs
from cutplane.graphical.primal.rooted_forest import two_sides
from cutplane.pieces.forms import LinearForm
from cutplane.pieces.parameters import read_only
from cutplane.pieces.validation import Array
from cutplane.sets.base import FeasibleSet


class Disagreements(FeasibleSet):
    r"""The probabilities c with which neighbours in a binary model of pairs differ, each by itself.

    .. math:: E(x) = \theta_0' + \sum_{uv} w_{uv} c_{uv}, \qquad c_{uv} = [x_u \ne x_v] \in [0, 1]

    The field of a variable is its edge to an *apex*, one more node whose state is 0. The vectors of zeros and
    ones that are cuts of this graph are the labellings; one that is opposite throughout a connected component
    without fields has the same energy and the same vector. That c is a mixture of cuts is left to cycle
    inequalities: those of the triangles with the apex alone give the local polytope.

    A forbidden tuple is a bound, or an equation over a triangle with the apex. Pairs without interaction drop
    out, and so do variables with one state left.

    Parameters
    ----------
    model : GraphicalModel
        With factors of pairs, and at most two states per variable.

    Attributes
    ----------
    edges : ndarray of int, shape (dim, 2)
        The pairs of nodes; the apex is the node ``model.n_variables``.
    cost, lower, upper : ndarray of shape (dim,)
    rows : csr_array of shape (n_rows, dim)
    right : ndarray of shape (n_rows,)
        The set is {rows c = right, lower <= c <= upper}.
    constant : float
        What <cost, c> lacks to the energy; inf if the model was found to forbid every labelling.
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
        kept = np.flatnonzero((pairs.couplings != 0.0) | single | pairs.must_differ | pairs.must_agree)
        linked = np.flatnonzero(needed)
        n = model.n_variables
        self.model = model
        self.constant = pairs.constant
        self.rounding = pairs.rounding
        self.dim = kept.size + linked.size
        self.edges = read_only(
            np.vstack([model.edges[kept], np.column_stack([linked, np.full(linked.size, n)])])
        )
        self.cost = read_only(np.concatenate([pairs.couplings[kept], pairs.fields[linked]]))
        free = np.zeros(linked.size)
        self.lower = read_only(np.concatenate([pairs.must_differ[kept], free]))
        self.upper = read_only(np.concatenate([~pairs.must_agree[kept], free + 1.0]))
        self.rows, self.right = self._forbid(pairs.forbidden[kept], kept.size + np.cumsum(needed) - 1)
        self._states = pairs.states

    def _forbid(self, tuples: Array, apex_columns: Array) -> tuple[sparse.csr_array, Array]:
        """Return the rows [x_u != i] + [x_v != j] + [[x_u != i] != [x_v != j]] = 2 for forbidden (i, j)."""
        pairs = np.flatnonzero(tuples[:, 0] >= 0)
        i, j = tuples[pairs].T
        signs = np.column_stack([1 - 2 * i, 1 - 2 * j, np.where(i == j, 1, -1)])
        columns = np.column_stack([apex_columns[self.edges[pairs]], pairs])
        starts = 3 * np.arange(pairs.size + 1)
        entries = signs.ravel().astype(np.float64), columns.ravel().astype(np.int32), starts
        return sparse.csr_array(entries, shape=(pairs.size, self.dim)), 2.0 - i - j - (i != j)

    def __repr__(self) -> str:
        return f"Disagreements({self.model!r})"

    def bounds(self, dim: int) -> tuple[Array, Array] | None:
        """Return (lower, upper), unless there are rows."""
        self.resolve(dim)
        return None if self.right.size else (self.lower, self.upper)

    def violation(self, x: Array) -> float:
        """Return the largest violation of a row or of a bound."""
        rows = float(np.abs(self.rows @ x - self.right).max(initial=0.0))
        return max(rows, float(np.maximum(self.lower - x, x - self.upper).max(initial=0.0)))

    def linear_form(self, dim: int) -> LinearForm:
        """Return rows and bounds."""
        self.resolve(dim)
        return LinearForm(np.zeros(dim), self.lower, self.upper, self.rows, self.right, self.right)

    def cvxpy_form(self, x: Any) -> list[Any]:
        """Return rows and bounds as constraints."""
        rows = [self.rows @ x == self.right] if self.right.size else []
        return [*rows, x >= self.lower, x <= self.upper]

    def embed(self, labelling: Any) -> Array:
        """Return which neighbours differ in a labelling, a vector of zeros and ones.

        Parameters
        ----------
        labelling : array_like of int, shape (n_variables,)
        """
        states = np.append(self.model._as_labellings(np.asarray(labelling)[None])[0], 0)
        return (states[self.edges[:, 0]] != states[self.edges[:, 1]]).astype(np.float64)

    def read(self, x: Array) -> Array:
        """Return the labelling that x, rounded, says along a spanning tree of its surest entries."""
        n = self.model.n_variables
        sides = two_sides(self.edges, x, n + 1)
        return np.where(self._states >= 0, self._states, sides[:n] != sides[n])

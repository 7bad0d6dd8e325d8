"""The Lagrangian of a graphical model over trees: a risk whose minimum is the negative best local bound."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.graphical.model import GraphicalModel
from cutplane.pieces.validation import Array, as_vector
from cutplane.risks.base import Risk

if TYPE_CHECKING:
    from cutplane.graphical.lagrangian.tree_passes import Copies
    from cutplane.graphical.sweeps.reparametrization import Reparametrization


_EPSILON = 2.0**-52
"""Relative spacing of floats, because each addition has an error of at most half of it."""


class InfeasibleModelError(InvalidInputError):
    """The hard constraints of a graphical model contradict each other."""


@dataclass(frozen=True, eq=False, repr=False)
class TreeLagrangian(Risk):
    r"""The negative sum of the least energies of trees that share a model.

    .. math:: f(\lambda) = -\theta_0 - \sum_t \min_x E_t(x; \lambda),
              \qquad \theta_0 + \sum_t E_t(x; \lambda) = E(x)

    The factors are divided among forests. Each forest has a copy of its variables with an equal part of their
    unary costs, and the multipliers :math:`\lambda` transfer costs between the copies of a variable. Every
    :math:`-f(\lambda)` is a lower bound of the energy; the largest one is the minimum of the energy over the
    local polytope. A subgradient counts the states in which the best labellings of the forests disagree.

    Parameters
    ----------
    model : GraphicalModel
    separate : bool, default False
        Whether each forest is a block with separate cuts. This needs fewer iterations, but larger reduced
        problems.

    Attributes
    ----------
    dim : int
        Number of multipliers: the sum, over variables, of the number of states times the number of copies
        minus 1. It is 0 if the model has no cycles; then ``bound([])`` is the least energy.
    trees : Trees

    Raises
    ------
    InvalidInputError
        If the hard constraints of a tree contradict each other, so that no labelling has a finite energy.

    References
    ----------
    .. [1] M. J. Wainwright, T. S. Jaakkola, A. S. Willsky, "MAP estimation via agreement on trees:
       message-passing and linear programming", IEEE Trans. Inf. Theory 51, 2005,
       doi:10.1109/TIT.2005.856938.
    .. [2] N. Komodakis, N. Paragios, G. Tziritas, "MRF energy minimization and beyond via dual
       decomposition", IEEE Trans. Pattern Anal. Mach. Intell. 33, 2011, doi:10.1109/TPAMI.2010.108.

    Examples
    --------
    Three variables of two states cannot all differ; in the local polytope they can, at cost 0.

    >>> import numpy as np, cutplane as cut
    >>> from cutplane.graphical import GraphicalModel
    >>> from cutplane.graphical.lagrangian.risk import TreeLagrangian
    >>> differ = np.eye(2)
    >>> model = GraphicalModel([2, 2, 2], [((0, 1), differ), ((1, 2), differ), ((0, 2), differ)])
    >>> lagrangian = TreeLagrangian(model)
    >>> result = cut.Problem(lagrangian).solve(cut.ProximalBundle())
    >>> print(abs(round(lagrangian.bound(result.x), 4)), model.brute_force()[1])
    0.0 1.0
    """

    black_box = False
    model: GraphicalModel
    separate: bool = False
    trees: Trees = field(init=False)
    copies: Copies = field(init=False)
    dim: int = field(init=False)
    n_blocks: int = field(init=False)

    def __post_init__(self) -> None:
        from cutplane.graphical.lagrangian.tree_passes import Copies

        model = self.model
        if not isinstance(model, GraphicalModel):
            raise InvalidInputError(f"TreeLagrangian needs a GraphicalModel, got {model!r}.")
        trees = Trees.of(model, cover(model))
        copies = Copies.of(model, trees)
        for name, value in {
            "trees": trees,
            "copies": copies,
            "dim": copies.dim,
            "n_blocks": trees.n_forests if self.separate else 1,
        }.items():
            object.__setattr__(self, name, value)
        least, _ = trees.minimise(copies.costs(np.zeros(copies.dim)))
        for root in trees.roots[np.isinf(least)]:
            raise InfeasibleModelError(
                f"{model!r} has no labelling of finite energy: the hard constraints in the tree of variable "
                f"{trees.variables[root]} contradict each other. Relax them."
            )
        if model.constant == np.inf:
            raise InfeasibleModelError(f"{model!r} has no labelling of finite energy: its constant is inf.")

    def oracle(self, x: Array) -> tuple[Array, Array]:
        least, states = self.trees.minimise(self.copies.costs(x))
        blocks = self.trees.forests if self.separate else np.zeros_like(self.trees.forests)
        values = -np.bincount(blocks[self.trees.roots], least, minlength=self.n_blocks)
        values[0] -= self.model.constant
        return values, self.copies.slopes(states, blocks, self.n_blocks)

    def multipliers(self, reparametrization: Reparametrization) -> Array:
        """Return multipliers whose bound is at least the bound of a reparametrisation without clusters.

        Parameters
        ----------
        reparametrization : Reparametrization
            Of the same model. States that it found to be forbidden are ignored.
        """
        trees, model = self.trees, self.model
        if reparametrization.model is not model:
            raise InvalidInputError(
                f"The reparametrisation is of {reparametrization.model!r}, not of {model!r}."
            )
        messages = reparametrization.messages
        sizes = model.cardinalities[model.scopes]
        starts = np.concatenate([[0], np.cumsum(sizes)])[trees.model_links]
        sizes = sizes[trees.model_links]
        offsets = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        moved = messages[np.repeat(starts, sizes) + offsets]
        places = np.repeat(trees.starts[trees.links], sizes) + offsets
        costs = np.bincount(places, np.where(np.isfinite(moved), moved, 0.0), trees.starts[-1])
        return self.copies.multipliers(costs)

    def bound(self, x: Any) -> float:
        """Return the lower bound of the energy proven by multipliers x: -f(x) minus rounding errors.

        Parameters
        ----------
        x : array_like of shape (dim,)
        """
        costs = self.copies.costs(as_vector("x", x, self.dim))
        below = _negative_part(costs, self.trees.starts[:-1]) + self._negative_in_tables
        least, _ = self.trees.minimise(costs)
        bound = float(least.sum()) + self.model.constant
        terms = self.trees.variables.size + self.trees.positions.size + 1
        return bound - 2.0 * terms * _EPSILON * (abs(bound) + abs(self.model.constant) + 2.0 * below)

    @cached_property
    def _negative_in_tables(self) -> float:
        starts, which = np.unique(self.model.table_starts, return_inverse=True)
        return _negative_part(self.model.tables, starts, which)

    def labellings(self, x: Any) -> Array:
        """Return labellings from the trees at multipliers x, shape (n_forests + 1, n_variables).

        The first labelling is a consensus: each variable in turn gets the state of least total cost over its
        copies, given the states of the previous variables. The others are the best labellings of the forests.
        A variable that is not in a forest gets its state from the first forest with this variable.

        Parameters
        ----------
        x : array_like of shape (dim,)
        """
        trees = self.trees
        costs = self.copies.costs(as_vector("x", x, self.dim))
        _, states = trees.minimise(costs)
        labellings = np.empty((trees.n_forests + 1, self.model.n_variables), dtype=np.int64)
        labellings[:, trees.variables[::-1]] = states[::-1]
        labellings[trees.forests + 1, trees.variables] = states
        labellings[0] = trees.consensus(costs)
        return labellings

    def __repr__(self) -> str:
        separate = ", separate=True" if self.separate else ""
        return f"TreeLagrangian({self.model!r}{separate})"


def _negative_part(costs: Array, starts: Array, which: Any = slice(None)) -> float:
    """Return the negative sum of the negative least costs after the chosen starts."""
    if not starts.size:
        return 0.0
    return -float(np.minimum(np.minimum.reduceat(costs, starts), 0.0)[which].sum())


def cover(model: GraphicalModel) -> list[Array]:
    """Return sets of factors without cycles that contain each factor once.

    Factors are ordered by the distance of the numbers of their variables. The first forest contains every
    factor that closes no cycle, the second forest the same for the remaining factors, and so on. For example,
    the forests of a grid are the rows with the first column, and the other columns.
    """
    from cutplane.graphical.lagrangian.tree_passes import greedy_forest

    first, last = model.scopes[model.scope_starts[:-1]], model.scopes[model.scope_starts[1:] - 1]
    left, forests = np.argsort(last - first, kind="stable"), []
    while left.size:
        taken = greedy_forest(model.scope_starts, model.scopes, left, model.n_variables)
        forests.append(left[taken])
        left = left[~taken]
    return forests


@dataclass(frozen=True, eq=False)
class Trees:
    """Forests of factors; each variable of a forest is a separate node, a copy of the variable.

    A variable without factors is a tree by itself in the first forest. The costs of the states of node i are
    ``costs[starts[i]:starts[i + 1]]``; each tree has a node in `roots`. The factors are in the order from the
    roots to the leaves. Factor f has the nodes ``links[link_starts[f]:link_starts[f + 1]]``, which are the
    entries `model_links` of ``model.scopes``; its parent is the node at ``positions[f]``. Its table is a
    table of the model.
    """

    variables: Array
    forests: Array
    starts: Array
    roots: Array
    link_starts: Array
    links: Array
    model_links: Array
    positions: Array
    table_starts: Array
    tables: Array

    @classmethod
    def of(cls, model: GraphicalModel, forests: list[Array]) -> Trees:
        """Root the trees of forests of factors."""
        from cutplane.graphical.lagrangian.tree_passes import hang

        parts, n_nodes = [], 0
        alone = np.setdiff1d(np.arange(model.n_variables), model.scopes)
        for number, factors in enumerate(forests or [np.empty(0, dtype=np.int64)]):
            links, _ = _links(model, factors)
            starters = np.union1d(model.scopes[links], alone[: None if number == 0 else 0])
            order, positions, variables, roots = hang(
                model.scope_starts, model.scopes, factors, starters, model.n_variables
            )
            node_of = np.zeros(model.n_variables, dtype=np.int64)
            node_of[variables] = n_nodes + np.arange(variables.size)
            links, arities = _links(model, order)
            parts.append(
                (
                    variables,
                    np.full(variables.size, number),
                    node_of[roots],
                    node_of[model.scopes[links]],
                    links,
                    arities,
                    positions,
                    model.table_starts[order],
                )
            )
            n_nodes += variables.size
        variables, numbers, roots, links, model_links, arities, positions, table_starts = (
            np.concatenate(pieces) for pieces in zip(*parts, strict=True)
        )
        return cls(
            variables=variables,
            forests=numbers,
            starts=_starts(model.cardinalities[variables]),
            roots=roots,
            link_starts=_starts(arities),
            links=links,
            model_links=model_links,
            positions=positions,
            table_starts=table_starts,
            tables=model.tables,
        )

    @property
    def n_forests(self) -> int:
        """Number of forests, at least 1."""
        return int(self.forests.max(initial=0)) + 1

    def minimise(self, costs: Array) -> tuple[Array, Array]:
        """Return the least energy of each tree, and the states that attain it; overwrite the costs."""
        from cutplane.graphical.lagrangian.tree_passes import label_trees, minimise_trees

        minimise_trees(*self._arrays, costs)
        states = label_trees(*self._arrays, self.roots, costs)
        return costs[self.starts[self.roots] + states[self.roots]], states

    def consensus(self, costs: Array) -> Array:
        """Return one labelling of all variables from costs that `minimise` has overwritten."""
        from cutplane.graphical.lagrangian.tree_passes import consensus

        counts = np.bincount(self.variables)
        _, first = np.unique(self.variables, return_index=True)
        below = np.ones(self.links.size, dtype=bool)
        below[self.link_starts[:-1] + self.positions] = False
        hangers = np.full(self.variables.size, -1)
        hangers[self.links[below]] = np.repeat(np.arange(self.positions.size), np.diff(self.link_starts) - 1)
        return consensus(
            self.variables[np.sort(first)],
            _starts(counts),
            np.argsort(self.variables, kind="stable"),
            self.variables,
            hangers,
            *self._arrays,
            costs,
        )

    @property
    def _arrays(self) -> tuple[Array, ...]:
        return self.starts, self.link_starts, self.links, self.positions, self.table_starts, self.tables


def _links(model: GraphicalModel, factors: Array) -> tuple[Array, Array]:
    """Return the positions in ``model.scopes`` of the scopes of these factors, and their sizes."""
    arities = model.arities[factors]
    starts = np.repeat(model.scope_starts[factors] - _starts(arities)[:-1], arities)
    return starts + np.arange(starts.size), arities


def _starts(sizes: Array) -> Array:
    return np.concatenate([[0], np.cumsum(sizes)])

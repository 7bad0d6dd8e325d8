"""Acyclic parts of a graphical model: a cover of its factors by forests, and the least labelling of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cutplane.pieces.validation import Array

if TYPE_CHECKING:
    from cutplane.graphical.model import GraphicalModel


def cover(model: GraphicalModel) -> list[Array]:
    """Return sets of factors without cycles that hold each factor once.

    The first forest takes the factors whose variables have the nearest numbers, as many as fit, the second of
    those that are left, and so on. On a grid these are the rows with the first column, and the other columns.
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
    """Forests of factors, each variable of a forest a node of its own: a copy of the variable.

    A variable without factors is a tree by itself in the first forest. The costs of the states of node i are
    ``costs[starts[i]:starts[i + 1]]``; each tree has a node in `roots`. The factors come from the roots to
    the leaves: factor f has the nodes ``links[link_starts[f]:link_starts[f + 1]]``, entries `model_links` of
    ``model.scopes``, and hangs from the one at ``positions[f]``; its table is where it is in the model.
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
        """Hang the trees of forests of factors."""
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
    """Return where the scopes of these factors are in ``model.scopes``, in this order, and their sizes."""
    arities = model.arities[factors]
    starts = np.repeat(model.scope_starts[factors] - _starts(arities)[:-1], arities)
    return starts + np.arange(starts.size), arities


def _starts(sizes: Array) -> Array:
    return np.concatenate([[0], np.cumsum(sizes)])

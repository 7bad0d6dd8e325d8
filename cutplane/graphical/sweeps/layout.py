"""The memory of a reparametrised model: its messages, its tables, and the clusters added to it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from itertools import chain, combinations
from typing import NamedTuple

import numpy as np

from cutplane.graphical.factor_graph import FactorGraph
from cutplane.graphical.factors import starts_of
from cutplane.pieces.parameters import read_only
from cutplane.pieces.validation import Array


class Layout(NamedTuple):
    """Factors and their links to variables in flat read-only arrays, an argument of compiled code.

    A link is one entry of `scopes`: a factor (in `link_factors`) and a variable of it. Its message, one
    number per state of the variable, begins at its entry of `message_starts`. The links of variable u are
    ``variable_links[variable_starts[u]:variable_starts[u + 1]]``.
    """

    cardinalities: Array
    unary_starts: Array
    scope_starts: Array
    scopes: Array
    table_starts: Array
    message_starts: Array
    link_factors: Array
    variable_starts: Array
    variable_links: Array


class ClusterLayout(NamedTuple):
    """Clusters and their links to factors in flat read-only arrays.

    A link is one entry of `children`, the factors inside each cluster; its message begins at its entry of
    `message_starts` and has the shape of the table of the factor. Scopes are ascending.
    """

    scope_starts: Array
    scopes: Array
    child_starts: Array
    children: Array
    message_starts: Array


def make_layout(
    model: FactorGraph, pairs: Sequence[tuple[int, int]] = (), table_starts: Array | None = None
) -> Layout:
    """Return the layout of a model with added pairs; tables may begin at other places."""
    scopes = np.append(model.scopes, np.array(pairs, dtype=np.int64))
    arities = np.append(model.arities, np.full(len(pairs), 2))
    arrays = (
        model.cardinalities,
        model.unary_starts,
        starts_of(arities),
        scopes,
        model.table_starts if table_starts is None else table_starts,
        starts_of(model.cardinalities[scopes]),
        np.repeat(np.arange(arities.size), arities),
        starts_of(np.bincount(scopes, minlength=model.n_variables)),
        np.argsort(scopes, kind="stable"),
    )
    return Layout(*(read_only(np.asarray(array, dtype=np.int64)) for array in arrays))


def scratch(layout: Layout) -> tuple[Array, Array]:
    """Return buffers for the states of one variable, and for the positions in one factor."""
    widest = np.diff(layout.scope_starts).max(initial=1)
    return np.empty(layout.cardinalities.max(initial=1)), np.empty(widest, dtype=np.int64)


class AddedClusters:
    """Clusters added to a model, with the pairs that had to be added for them.

    Added pairs are numbered after the factors of the model, and clusters after the added pairs.
    """

    def __init__(self, model: FactorGraph) -> None:
        self.model = model
        self.pairs: list[tuple[int, int]] = []
        self.clusters: dict[tuple[int, ...], list[int]] = {}
        self._pair_numbers = dict[tuple[int, int], int]()

    def copy(self, model: FactorGraph) -> AddedClusters:
        """Return an independent copy, for a model of the same scopes."""
        other = AddedClusters(model)
        for name in ("pairs", "clusters", "_pair_numbers"):
            setattr(other, name, getattr(self, name).copy())
        return other

    def add(self, variables: tuple[int, ...]) -> bool:
        """Add a cluster on these ascending variables; return whether it is new."""
        if variables in self.clusters:
            return False
        children = [self._pair(u, v) for u, v in combinations(variables, 2)]
        if not self.model.is_pairwise:
            factors = np.concatenate([self.model.factors_of(u) for u in variables])
            factors, counts = np.unique(factors, return_counts=True)
            arities = self.model.arities[factors]
            children += factors[(arities > 2) & (counts == arities)].tolist()
        self.clusters[variables] = children
        return True

    def _pair(self, u: int, v: int) -> int:
        """Return the number of the pair among the factors linked to variables; add it if it is missing."""
        model, pair = self.model, (u, v)
        if pair not in self._pair_numbers:
            keys, factors = self._pair_keys
            key = u * model.n_variables + v
            place = int(np.searchsorted(keys, key))
            if place < keys.size and keys[place] == key:
                self._pair_numbers[pair] = int(factors[place])
            else:
                self._pair_numbers[pair] = model.n_factors + len(self.pairs)
                self.pairs.append(pair)
        return self._pair_numbers[pair]

    @cached_property
    def _pair_keys(self) -> tuple[Array, Array]:
        """Ascending keys of the variables of each pair of the model, and the numbers of their factors."""
        model = self.model
        factors = np.flatnonzero(model.arities == 2)
        first = model.scope_starts[factors]
        keys = model.scopes[first] * model.n_variables + model.scopes[first + 1]
        order = np.argsort(keys)
        return keys[order], factors[order]

    def original_table(self, number: int) -> Array:
        """Return the original flat table of a factor that is linked to variables."""
        if number < self.model.n_factors:
            return self.model.factor(number).table.ravel()
        return np.zeros(self.model.cardinalities[[*self.pairs[number - self.model.n_factors]]].prod())

    def table_sizes(self) -> Array:
        """Return the sizes of the tables of the factors that are linked to variables."""
        pairs = np.array(self.pairs, dtype=np.int64).reshape(-1, 2)
        return np.append(self.model.table_sizes, self.model.cardinalities[pairs].prod(axis=1))

    def cluster_layout(self) -> ClusterLayout:
        """Return the layout of the clusters."""
        scope_starts, scopes = _stacked(self.clusters)
        child_starts, children = _stacked(self.clusters.values())
        starts = starts_of(self.table_sizes()[children])
        return ClusterLayout(*map(read_only, (scope_starts, scopes, child_starts, children, starts)))


def _stacked(rows: Collection[Sequence[int]]) -> tuple[Array, Array]:
    """Return where each row begins, and all rows one after the other."""
    sizes = np.fromiter(map(len, rows), dtype=np.int64)
    return starts_of(sizes), np.fromiter(chain.from_iterable(rows), dtype=np.int64)

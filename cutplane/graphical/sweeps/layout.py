"""The memory of a reparametrised model: its messages, its tables, and the clusters added to it."""

from __future__ import annotations

from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np

from cutplane.exceptions import InvalidInputError
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
    cardinalities: Array, unary_starts: Array, scope_starts: Array, scopes: Array, table_starts: Array
) -> Layout:
    """Return the layout of factors with these scopes."""
    counts = np.bincount(scopes, minlength=cardinalities.size)
    arrays = (
        cardinalities,
        unary_starts,
        scope_starts,
        scopes,
        table_starts,
        starts_of(cardinalities[scopes]),
        np.repeat(np.arange(table_starts.size), np.diff(scope_starts)),
        starts_of(counts),
        np.argsort(scopes, kind="stable"),
    )
    return Layout(*(read_only(np.asarray(array, dtype=np.int64)) for array in arrays))


def scratch(layout: Layout) -> tuple[Array, Array]:
    """Return buffers for the states of one variable, and for the positions in one factor."""
    widest = np.diff(layout.scope_starts).max(initial=1)
    return np.empty(layout.cardinalities.max(initial=1)), np.empty(widest, dtype=np.int64)


class AddedClusters:
    """Clusters added to a model, with the pairs that had to be added for them.

    Added pairs and clusters are numbered after the factors of the model, in the order in which they were
    added. A cluster has a number among the factors, and another one among the clusters.
    """

    def __init__(self, model: FactorGraph) -> None:
        self.model = model
        self.added: list[tuple[bool, int]] = []
        self.pairs: list[tuple[int, int]] = []
        self.clusters: list[tuple[int, ...]] = []
        self.children: list[list[int]] = []
        self._scopes = set[tuple[int, ...]]()
        self._pair_numbers = dict[tuple[int, int], int]()

    def copy(self) -> AddedClusters:
        """Return an independent copy."""
        other = AddedClusters(self.model)
        for name in ("added", "pairs", "clusters", "children", "_scopes", "_pair_numbers"):
            setattr(other, name, getattr(self, name).copy())
        return other

    def add(self, variables: tuple[int, ...]) -> bool:
        """Add a cluster on these ascending variables; return whether it is new."""
        if variables in self._scopes:
            return False
        self._scopes.add(variables)
        children = [self._pair(u, v) for u, v in combinations(variables, 2)]
        if not self.model.is_pairwise:
            children += self._larger_factors(variables)
        self.added.append((True, len(self.clusters)))
        self.clusters.append(variables)
        self.children.append(children)
        return True

    def _pair(self, u: int, v: int) -> int:
        """Return the number of the pair among the factors linked to variables; add it if it is missing."""
        if (u, v) not in self._pair_numbers:
            self._pair_numbers[u, v] = self._find_pair(u, v)
        return self._pair_numbers[u, v]

    def _find_pair(self, u: int, v: int) -> int:
        model = self.model
        keys, factors = self._pair_keys
        key = u * model.n_variables + v
        place = int(np.searchsorted(keys, key))
        if place < keys.size and keys[place] == key:
            return int(factors[place])
        self.added.append((False, model.n_factors + len(self.pairs)))
        self.pairs.append((u, v))
        return model.n_factors + len(self.pairs) - 1

    @cached_property
    def _pair_keys(self) -> tuple[Array, Array]:
        """Ascending keys of the variables of each pair of the model, and the numbers of their factors."""
        model = self.model
        factors = np.flatnonzero(model.arities == 2)
        first = model.scope_starts[factors]
        keys = model.scopes[first] * model.n_variables + model.scopes[first + 1]
        order = np.argsort(keys)
        return keys[order], factors[order]

    def _larger_factors(self, variables: tuple[int, ...]) -> list[int]:
        factors = np.concatenate([self.model.factors_of(u) for u in variables])
        factors, counts = np.unique(factors, return_counts=True)
        arities = self.model.arities[factors]
        return factors[(arities > 2) & (counts == arities)].tolist()

    def locate(self, a: int) -> tuple[bool, int]:
        """Return whether factor a is a cluster, and its number among its kind."""
        known = self.model.n_factors
        if not 0 <= a < known + len(self.added):
            raise InvalidInputError(f"There is no factor {a}: there are {known + len(self.added)}, from 0.")
        return self.added[a - known] if a >= known else (False, a)

    def scope(self, a: int) -> tuple[int, ...]:
        """Return the variables of factor a."""
        is_cluster, number = self.locate(a)
        if is_cluster:
            return self.clusters[number]
        known = self.model.n_factors
        return self.pairs[number - known] if number >= known else self.model.factor(number).variables

    def original_table(self, number: int) -> Array:
        """Return the original flat table of a factor that is linked to variables."""
        known = self.model.n_factors
        if number < known:
            return self.model.factor(number).table.ravel()
        return np.zeros(self.model.cardinalities[list(self.pairs[number - known])].prod())

    def table_sizes(self) -> Array:
        """Return the sizes of the tables of the factors that are linked to variables."""
        pairs = np.array(self.pairs, dtype=np.int64).reshape(-1, 2)
        return np.concatenate([self.model.table_sizes, self.model.cardinalities[pairs].prod(axis=1)])

    def layout(self, table_starts: Array) -> Layout:
        """Return the layout of the model with the added pairs."""
        model = self.model
        return make_layout(
            model.cardinalities,
            model.unary_starts,
            np.concatenate([model.scope_starts, model.n_links + 2 * np.arange(1, len(self.pairs) + 1)]),
            np.concatenate([model.scopes, np.array(self.pairs, dtype=np.int64).reshape(-1)]),
            table_starts,
        )

    def cluster_layout(self) -> ClusterLayout:
        """Return the layout of the clusters."""
        children = np.array([child for family in self.children for child in family], dtype=np.int64)
        families = np.array([len(family) for family in self.children], dtype=np.int64)
        arities = np.array([len(scope) for scope in self.clusters], dtype=np.int64)
        scopes = np.array([u for scope in self.clusters for u in scope], dtype=np.int64)
        arrays = (
            starts_of(arities),
            scopes,
            starts_of(families),
            children,
            starts_of(self.table_sizes()[children]),
        )
        return ClusterLayout(*(read_only(array) for array in arrays))

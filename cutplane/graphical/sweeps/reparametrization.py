"""Reparametrisations of a graphical model: the same energies, from which a lower bound can be read off."""

from __future__ import annotations

import math
from copy import copy
from functools import cached_property
from typing import NamedTuple

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.graphical.factor_graph import FactorGraph
from cutplane.graphical.factors import GivenFactors, places_of, starts_of
from cutplane.graphical.sweeps.layout import AddedClusters, ClusterLayout, Layout, make_layout, scratch
from cutplane.pieces.parameters import read_only
from cutplane.pieces.validation import Array, as_count
from cutplane.runtime.clock import clock

_EPS = float(np.finfo(np.float64).eps)
_PROBED = 64
"""Variables probed between two readings of the clock, because they take some milliseconds."""
_PER_PASS = 8
"""Additions to an entry in a pass, because it is forward and backward, in and out, twice with clusters."""


class Pairs(NamedTuple):
    """The ascending variables of all pairs, and where their reparametrised tables begin, in C order."""

    variables: Array
    table_starts: Array
    tables: Array


class Reparametrization:
    r"""The costs of a model, shifted between its factors so that the sum of their minima is a good bound.

    .. math:: E(x) = \theta'_0 + \sum_u \theta'_u(x_u) + \sum_A \theta'_A(x_A) \ge
              \theta'_0 + \sum_u \min \theta'_u + \sum_A \min \theta'_A

    At first, the costs are the costs of the model. They are shifted along links: between a factor and its
    variables, and between a cluster (see `add_cluster`) and the factors inside it. No method lowers the
    bound, except by rounding errors.

    Parameters
    ----------
    model : GraphicalModel
        Hard constraints are allowed: costs of states that they exclude become +inf, and the bound becomes inf
        if these are all states of a variable or of a factor.

    Examples
    --------
    The local polytope relaxation of a frustrated triangle is loose, and one cluster closes it:

    >>> from cutplane.graphical import GraphicalModel
    >>> from cutplane.graphical.sweeps.reparametrization import Reparametrization
    >>> differ = [[1, 0], [0, 1]]
    >>> model = GraphicalModel([2, 2, 2], [((0, 1), differ), ((1, 2), differ), ((0, 2), differ)])
    >>> rep = Reparametrization(model)
    >>> round(rep.sweep(10), 6)
    0.0
    >>> rep.add_cluster((0, 1, 2))
    True
    >>> round(rep.sweep(10), 6)
    1.0

    References
    ----------
    Kolmogorov (2015). A new look at reweighted message passing. IEEE TPAMI 37(5).
    https://doi.org/10.1109/TPAMI.2014.2363465
    """

    def __init__(self, model: FactorGraph) -> None:
        self.model = model
        self._added = AddedClusters(model)
        self._constant = model.constant
        self._unaries = model.unaries.copy()
        self._tables = model.tables
        self._own_tables = np.empty(0)
        self._layout = make_layout(model)
        self._clusters = self._added.cluster_layout()
        self._messages = np.zeros(self._layout.message_starts[-1])
        self._cluster_messages = np.empty(0)
        self._is_current = True
        self._bound: float | None = None
        self._passes = 0

    def copy(self) -> Reparametrization:
        """Return an independent copy."""
        self._bring_up_to_date()
        other = copy(self)
        other._added = self._added.copy(self.model)
        changed = ["_unaries", "_messages", "_cluster_messages"]
        for name in [*changed, "_tables"] if self.n_clusters else changed:
            setattr(other, name, getattr(self, name).copy())
        return other

    def restated(self, model: FactorGraph) -> Reparametrization:
        """Return the reparametrisation of a model of equal scopes by the same clusters and finite messages.

        States forbidden in this one are allowed in the new one, because its bound follows from the messages
        alone.
        """
        self._bring_up_to_date()
        other = Reparametrization(model)
        other._added = self._added.copy(model)
        other._is_current = False
        other._bring_up_to_date()
        layout, clusters = other._layout, other._clusters
        other._messages = np.where(np.isfinite(self._messages), self._messages, 0.0)
        given = self._cluster_messages
        other._cluster_messages = np.where(np.isfinite(given), given, 0.0)
        places, inside = layout.unary_starts[layout.scopes], layout.table_starts[clusters.children]
        for costs, messages, starts, first in (
            (other._unaries, other._messages, layout.message_starts, places),
            (other._tables, other._cluster_messages, clusters.message_starts, inside),
        ):
            if messages.size:
                costs -= np.bincount(places_of(first, np.diff(starts)), messages, costs.size)
        other._passes, other._bound = self._passes, None
        return other

    @property
    def n_factors(self) -> int:
        """Number of factors: factors of the model, then added pairs, then clusters."""
        return self.model.n_factors + len(self._added.pairs) + self.n_clusters

    @property
    def n_clusters(self) -> int:
        """Number of clusters that have been added."""
        return len(self._added.clusters)

    def scopes(self, a: int) -> tuple[int, ...]:
        """Return the variables of factor a, ascending."""
        layout, number = self._part(a)
        return tuple(layout.scopes[slice(*layout.scope_starts[number : number + 2])].tolist())

    def _part(self, a: int) -> tuple[Layout | ClusterLayout, int]:
        """Return the layout of factor a, and its number there."""
        self._bring_up_to_date()
        if not 0 <= a < self.n_factors:
            raise InvalidInputError(f"There is no factor {a}: there are {self.n_factors}, from 0.")
        n_linked = self._layout.table_starts.size
        return (self._layout, a) if a < n_linked else (self._clusters, a - n_linked)

    def unary(self, u: int) -> Array:
        """Return the reparametrised costs of the states of variable u, a read-only view."""
        self._check(u, 0)
        begin = self.model.unary_starts[u]
        return read_only(self._unaries[begin : begin + self.model.cardinalities[u]])

    @property
    def unaries(self) -> Array:
        """The reparametrised costs of all variables, laid out like ``model.unaries``; a read-only view."""
        return read_only(self._unaries)

    @property
    def messages(self) -> Array:
        """The costs shifted from variables to factors of the model, link by link; a read-only view.

        The links are in the order of ``model.scopes``; each has one number per state of its variable.
        """
        return read_only(self._messages[: self._layout.message_starts[self.model.n_links]])

    def table(self, a: int) -> Array:
        """Return the reparametrised costs of factor a, a new array with one axis per variable."""
        part, number = self._part(a)
        scope, layout = self.scopes(a), self._layout
        shape = self.model.cardinalities[list(scope)].tolist()
        if part is layout:
            return self._costs_of(np.array([number]))[1].reshape(shape)
        costs, links = np.zeros(shape), self._clusters
        for link in range(*links.child_starts[number : number + 2]):
            child = self.scopes(links.children[link])
            message = self._cluster_messages[slice(*links.message_starts[link : link + 2])]
            costs += message.reshape([k if u in child else 1 for u, k in zip(scope, shape, strict=True)])
        return costs

    def pairs(self) -> Pairs:
        """Return all pairs of the model and added ones, with new arrays of their reparametrised costs."""
        self._bring_up_to_date()
        layout = self._layout
        chosen = np.flatnonzero(np.diff(layout.scope_starts) == 2)
        first = layout.scope_starts[chosen]
        variables = np.stack([layout.scopes[first], layout.scopes[first + 1]], axis=1)
        starts, costs = self._costs_of(chosen)
        return Pairs(variables, starts[:-1], costs)

    def factors(self) -> GivenFactors:
        """Return all factors, of the model and added ones, with new arrays of their reparametrised costs."""
        self._bring_up_to_date()
        layout, clusters = self._layout, self._clusters
        starts, costs = self._costs_of(np.arange(layout.table_starts.size))
        added = [self.table(a) for a in range(layout.table_starts.size, self.n_factors)]
        scope_starts = np.append(layout.scope_starts, layout.scopes.size + clusters.scope_starts[1:])
        table_starts = np.append(
            starts, starts[-1] + np.cumsum([table.size for table in added], dtype=np.int64)
        )
        return GivenFactors(
            scope_starts,
            np.append(layout.scopes, clusters.scopes),
            table_starts[:-1],
            np.concatenate([costs, *added], axis=None),
        )

    def _costs_of(self, factors: Array) -> tuple[Array, Array]:
        """Return the starts and the reparametrised costs of factors that are linked to variables."""
        from cutplane.graphical.sweeps.variable_passes import factor_costs

        starts = starts_of(self._added.table_sizes()[factors])
        room = scratch(self._layout)[1]
        return starts, factor_costs(
            self._layout, read_only(self._tables), self._messages, factors, starts, room
        )

    @property
    def bound(self) -> float:
        """The present lower bound; inf if it is proven that no labelling has finite energy."""
        from cutplane.graphical.sweeps.variable_passes import lowest_costs

        self._bring_up_to_date()
        if self._bound is None:
            tables, own = read_only(self._tables), read_only(np.empty(0))
            room = scratch(self._layout)[1]
            factors = lowest_costs(self._layout, tables, own, self._messages, 0.0, room)
            clusters = self._lowest_of_clusters(self._cluster_messages)
            minima = self._minima(self._unaries).sum() + factors.sum() + clusters.sum()
            self._bound = float(self._constant + minima)
        return self._bound

    def _lowest_of_clusters(self, messages: Array) -> Array:
        from cutplane.graphical.sweeps.cluster_passes import lowest_cluster_costs, lowest_triangle_costs

        lowest = np.empty(self.n_clusters)
        if self.n_clusters:
            write = lowest_triangle_costs if self._has_only_triangles else lowest_cluster_costs
            write(self._layout, self._clusters, messages, 0, self.n_clusters, lowest)
        return lowest

    @property
    def _has_only_triangles(self) -> bool:
        """Whether each cluster consists of three pairs: then routines for others need not be compiled."""
        return self._clusters.children.size == 3 * self.n_clusters

    def _minima(self, unaries: Array) -> Array:
        return np.minimum.reduceat(unaries, self.model.unary_starts[:-1]) if unaries.size else unaries

    def certified_bound(self) -> float:
        """Return a lower bound that is valid despite rounding errors.

        The bound is recomputed from the costs of the model and the messages alone, because any messages give
        a valid bound. A bound on the rounding errors of this computation is subtracted.
        """
        from cutplane.graphical.sweeps.variable_passes import lower, lower_bound_of_sum, lowest_costs

        self._bring_up_to_date()
        if self._constant == np.inf:
            return np.inf
        model, layout, clusters = self.model, self._layout, self._clusters
        terms = max(
            np.diff(layout.variable_starts).max(initial=0),
            np.bincount(clusters.children).max(initial=0),
            np.diff(layout.scope_starts).max(initial=0),
            np.diff(clusters.child_starts).max(initial=0),
        )
        relative = (int(terms) + 4) * np.finfo(np.float64).eps
        unaries, sizes = model.unaries.copy(), np.abs(model.unaries)
        places = layout.unary_starts[layout.scopes]
        lower(unaries, sizes, places, layout.message_starts, self._messages, relative)
        unaries[np.isinf(self._unaries)] = np.inf
        own = np.where(np.isinf(self._tables[model.tables.size :]), np.inf, self._own_tables)
        given = self._cluster_messages
        places = layout.table_starts[clusters.children] - model.tables.size
        lower(own, np.abs(own), places, clusters.message_starts, given, relative)
        messages = _lowered(self._messages, relative)
        room = scratch(layout)[1]
        factors = lowest_costs(layout, read_only(model.tables), read_only(own), messages, relative, room)
        larger = self._lowest_of_clusters(_lowered(given, relative))
        return lower_bound_of_sum(np.concatenate([[model.constant], self._minima(unaries), factors, larger]))

    @property
    def rounding(self) -> float:
        """A bound on the total rounding error of the present costs in the energy of any labelling.

        In every pass, every message of its table has changed an entry by one addition; passes over clusters
        count like passes over variables.
        """
        self._bring_up_to_date()
        layout, clusters = self._layout, self._clusters
        links = np.abs(self._messages), np.abs(self._cluster_messages)
        largest = sum(float(sizes.sum(where=np.isfinite(sizes))) for sizes in links) + self._largest
        most = [
            np.diff(layout.variable_starts).max(initial=0),
            np.diff(layout.scope_starts).max(initial=0),
            np.bincount(clusters.children).max(initial=0),
        ]
        operations = _PER_PASS * self._passes + sum(map(int, most)) + _PER_PASS
        return float(_EPS * operations * largest)

    @cached_property
    def _largest(self) -> float:
        """An upper bound of the sum, over variables and factors, of the largest absolute finite cost."""
        model = self.model
        starts, which = np.unique(model.table_starts, return_inverse=True)
        tables = _largest_of(model.tables, starts)[which]
        return float(_largest_of(model.unaries, model.unary_starts[:-1]).sum() + tables.sum())

    def sweep(self, n: int = 1) -> float:
        """Pass n times over the variables, forward and backward; return the bound.

        Each variable collects the min-marginals of its factors, and distributes them in equal parts to its
        factors with later variables (TRW-S and SRMP). If there are clusters, they first exchange costs with
        the factors inside them; then all is repeated, with the clusters in reverse order.
        """
        self._bring_up_to_date()
        self._passes += as_count("n", n)
        for _ in range(n):
            if self.n_clusters:
                self._pass_over_clusters(forward=True)
                self._pass_over_variables()
                self._pass_over_clusters(forward=False)
            self._pass_over_variables()
        self._bound = self._constant
        return self._constant

    def state_bounds(self, near: int = 64, rounds: int = 3, *, deadline: float = math.inf) -> Array:
        """Sweep, and return for each state a lower bound of the energies of the labellings with it.

        For each state, the other states of its variable are forbidden temporarily, and passes over the
        variables near it raise the bound. It takes some 30 microseconds for each state of a grid.

        Parameters
        ----------
        near : int, default 64
            Most variables that the passes visit.
        rounds : int, default 3
            Passes forward and backward.
        deadline : float, default inf
            The time on `runtime.clock.clock` after which no further variables are visited.

        Returns
        -------
        ndarray of shape (n_states,)
            Laid out like ``model.unaries``. Rounding errors are subtracted.
        """
        from cutplane.graphical.sweeps.variable_passes import probe

        self.sweep()
        bound, rises = self.certified_bound(), np.zeros(self._unaries.size)
        if bound == np.inf:
            return np.full(rises.size, np.inf)
        costs = self._layout, read_only(self._tables), self._unaries, self._messages
        for begin in range(0, self.model.n_variables, _PROBED):
            if clock() > deadline:
                break
            end = min(begin + _PROBED, self.model.n_variables)
            probe(*costs, begin, end, near, rounds, *scratch(self._layout), rises)
        self._passes += rounds
        lower = bound + rises - 2.0 * self.rounding
        return np.where(rises < np.inf, np.nextafter(lower, -np.inf), np.inf)

    def _pass_over_clusters(self, forward: bool) -> None:
        from cutplane.graphical.sweeps.cluster_passes import cluster_pass, triangle_pass

        costs = self._layout, self._clusters, self._tables, self._messages, self._cluster_messages
        room = np.empty(self._layout.cardinalities.max(initial=1) ** 2)
        visit = triangle_pass if self._has_only_triangles else cluster_pass
        visit(*costs, 0, self.n_clusters, forward, room)

    def _pass_over_variables(self) -> None:
        from cutplane.graphical.sweeps.variable_passes import sweep_pass

        costs = self._layout, read_only(self._tables), self._unaries, self._messages
        room, variables = scratch(self._layout), np.arange(self.model.n_variables)
        for forward in (True, False):
            if self._constant < np.inf:
                self._constant += sweep_pass(*costs, variables, forward, *room)

    def add_cluster(self, variables: tuple[int, ...]) -> bool:
        """Add a zero factor on at least three variables, linked to all factors inside it.

        Pairs of its variables that are missing are added as zero factors.

        Parameters
        ----------
        variables : sequence of int
            Distinct.

        Returns
        -------
        bool
            False if this cluster has been added before.
        """
        scope = tuple(sorted({int(u) for u in variables}))
        if len(scope) < 3 or len(scope) != len(variables):
            raise InvalidInputError(f"A cluster has at least three distinct variables, got {variables!r}.")
        for u in scope:
            self._check(u, 0)
        is_new = self._added.add(scope)
        self._is_current &= not is_new
        return is_new

    def forbid(self, u: int, state: int) -> None:
        """Set the cost of a state of variable u to +inf."""
        self._check(u, state)
        self._unaries[self.model.unary_starts[u] + state] = np.inf
        self._bound = None

    def greedy_labelling(self, forward: bool = True) -> Array:
        """Return the labelling in which each variable takes the best state given those before it.

        If there are hard constraints, states are chosen such that all of them hold, if that is easy.

        Parameters
        ----------
        forward : bool, default True
            Whether variables are visited in ascending order; else in descending order.
        """
        from cutplane.graphical.sweeps.decoding import consistent, greedy

        self._bring_up_to_date()
        costs = self._layout, read_only(self._tables), self._unaries, self._messages
        if self._tables.max(initial=0.0) == np.inf:
            labelling = consistent(*costs, forward, *scratch(self._layout))
            if (labelling >= 0).all():
                return labelling
        return greedy(*costs, forward, *scratch(self._layout))

    def _bring_up_to_date(self) -> None:
        """Allocate memory for added clusters; factors inside them get separate tables, which change."""
        if self._is_current:
            return
        added = self._added
        clusters = added.cluster_layout()
        new = np.setdiff1d(clusters.children, self._clusters.children)
        tables = [added.original_table(a) for a in new]
        starts = np.empty(self.model.n_factors + len(added.pairs), dtype=np.int64)
        starts[: self._layout.table_starts.size] = self._layout.table_starts
        starts[new] = self._tables.size + starts_of(np.array([table.size for table in tables]))[:-1]
        self._clusters = clusters
        self._layout = make_layout(self.model, added.pairs, starts)
        self._tables = np.concatenate([self._tables, *tables])
        self._own_tables = np.concatenate([self._own_tables, *tables])
        for name, layout in (("_messages", self._layout), ("_cluster_messages", clusters)):
            given = getattr(self, name)
            setattr(self, name, np.append(given, np.zeros(layout.message_starts[-1] - given.size)))
        self._is_current = True

    def _check(self, u: int, state: int) -> None:
        model = self.model
        if not 0 <= u < model.n_variables:
            raise InvalidInputError(f"There is no variable {u}: there are {model.n_variables}, from 0.")
        if not 0 <= state < model.cardinalities[u]:
            raise InvalidInputError(
                f"Variable {u} has {model.cardinalities[u]} states, from 0; {state} is none of them."
            )


def _largest_of(costs: Array, starts: Array) -> Array:
    """Return the largest absolute value of a finite entry of each segment."""
    sizes = np.abs(costs)
    sizes[np.isinf(sizes)] = 0.0
    return np.maximum.reduceat(sizes, starts) if starts.size else starts


def _lowered(costs: Array, relative: float) -> Array:
    """Return costs minus `relative` times their absolute values."""
    return costs * np.where(costs > 0.0, 1.0 - relative, 1.0 + relative)

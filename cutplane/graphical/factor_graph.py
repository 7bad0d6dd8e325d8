"""The costs of a graphical model over discrete variables, its energies, and the best labelling found."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from numbers import Integral
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from cutplane.exceptions import InvalidInputError
from cutplane.graphical.factors import (
    EnergyLattice,
    FactorArrays,
    GivenFactors,
    Rest,
    as_cardinalities,
    as_costs,
    as_edges,
    as_energies,
    as_list,
    check_range,
    collect,
    energy_lattice,
    entries_of,
    finite_sizes,
    from_list,
    from_pairs,
    starts_of,
    strides_of,
)
from cutplane.pieces.html import table
from cutplane.pieces.parameters import read_only
from cutplane.pieces.validation import Array, as_count, as_scalar

_CHUNK = 2**14
"""Number of labellings per pass, because numpy is fast for many and their arrays should be small."""
_EPS = float(np.finfo(np.float64).eps)
_OF_SCOPES = "arities", "strides", "table_sizes", "is_forest", "_incidence"
"""Attributes that models of the same scopes share, because they do not depend on costs."""


class Factor(NamedTuple):
    """A table of energies over some variables.

    Attributes
    ----------
    variables : tuple of int
        Ascending.
    table : ndarray
        Its shape is the numbers of states of the variables.
    """

    variables: tuple[int, ...]
    table: Array


class FactorGraph:
    """Variables, their unary costs, and tables over some of them: the data of a `GraphicalModel`.

    Attributes
    ----------
    orders : dict
        Orders of elimination found so far. Models of the same scopes share it.
    """

    def __init__(self, cardinalities: Any, factors: Iterable[Any] = (), *, constant: float = 0.0) -> None:
        cardinalities = as_cardinalities(cardinalities)
        pieces = from_list(cardinalities, factors, _constant(constant))
        check_range(pieces, cardinalities.size)
        self._set_data(cardinalities, pieces)

    @classmethod
    def pairwise(cls, unaries: Any, edges: Any, tables: Any, *, constant: float = 0.0) -> Self:
        """Build a model of pairs from arrays, fast enough for millions of them.

        Parameters
        ----------
        unaries : array_like of shape (n_variables, k), or sequence of vectors
            The costs of the states of each variable.
        edges : array_like of int, shape (m, 2)
        tables : array_like of shape (m, k, k) or (k, k), or sequence of m matrices
            The costs of each pair, its first variable by rows. All pairs share a single matrix.
        constant : float, default 0

        Returns
        -------
        GraphicalModel

        Examples
        --------
        >>> import numpy as np
        >>> from cutplane.graphical import GraphicalModel
        >>> GraphicalModel.pairwise(np.zeros((3, 2)), [[0, 1], [1, 2]], [[0, 1], [1, 0]])
        GraphicalModel(3 variables, 2 states, 2 factors of arity 2)
        """
        flat, cardinalities = as_costs(unaries)
        if not isinstance(tables, np.ndarray):
            tables = as_list("tables", tables)
        if isinstance(tables, np.ndarray) or (tables and as_energies("tables[0]", tables[0]).ndim == 1):
            pieces = from_pairs(cardinalities, flat, edges, tables, _constant(constant))
        else:
            edges = as_edges(edges, cardinalities)
            if len(edges) != len(tables):
                raise InvalidInputError(f"there are {len(edges)} edges, but {len(tables)} tables.")
            pieces = from_list(cardinalities, zip(edges, tables, strict=True), _constant(constant))
            pieces = replace(pieces, unaries=flat)
        return cls.from_arrays(cardinalities, pieces)

    @classmethod
    def from_flat(cls, cardinalities: Any, arities: Array, scopes: Array, tables: Array) -> Self:
        """Build a model from lists of variables and tables in C order, one after the other."""
        cardinalities = as_cardinalities(cardinalities)
        starts = np.cumsum(entries_of(cardinalities, arities, scopes)).astype(np.int64)
        given = GivenFactors(starts_of(arities), scopes, np.append(0, starts[:-1])[: arities.size], tables)
        return cls.from_arrays(cardinalities, collect(cardinalities, given, 0.0))

    @classmethod
    def from_arrays(cls, cardinalities: Array, factors: FactorArrays) -> Self:
        """Build a model from factors over different variables, which are ascending."""
        check_range(factors, cardinalities.size)
        model = cls.__new__(cls)
        model._set_data(cardinalities, factors)
        return model

    def _set_data(self, cardinalities: Array, factors: FactorArrays) -> None:
        self._rest = factors.rest
        self.cardinalities = read_only(cardinalities)
        self.unary_starts = read_only(starts_of(cardinalities))
        self.unaries = read_only(factors.unaries)
        self.scope_starts = read_only(factors.scope_starts)
        self.scopes = read_only(factors.scopes)
        self.table_starts = read_only(factors.table_starts)
        self.tables = read_only(factors.tables)
        self.constant = factors.constant
        self.orders: dict[Any, Any] = {}

    @property
    def n_variables(self) -> int:
        """Number of variables."""
        return self.cardinalities.size

    @property
    def n_factors(self) -> int:
        """Number of factors of arity >= 2."""
        return self.table_starts.size

    @property
    def n_links(self) -> int:
        """Number of pairs of a factor and a variable of it."""
        return self.scopes.size

    @cached_property
    def arities(self) -> Array:
        """Number of variables of each factor, shape (n_factors,)."""
        return read_only(np.diff(self.scope_starts))

    @cached_property
    def strides(self) -> Array:
        """Distance in the table between successive states of a variable, one entry per entry of `scopes`."""
        return read_only(strides_of(self.cardinalities, self.scope_starts, self.scopes))

    @cached_property
    def table_sizes(self) -> Array:
        """Number of entries of the table of each factor, shape (n_factors,)."""
        first = self.scope_starts[:-1]
        return read_only(self.strides[first] * self.cardinalities[self.scopes[first]])

    @cached_property
    def is_pairwise(self) -> bool:
        """Whether no factor has more than two variables."""
        return bool((self.arities == 2).all())

    @cached_property
    def is_binary(self) -> bool:
        """Whether no variable has more than two states."""
        return bool((self.cardinalities <= 2).all())

    @cached_property
    def is_forest(self) -> bool:
        """Whether no factor has more than two variables, and the pairs form no cycle."""
        n, m = self.n_variables, self.n_factors
        if not self.is_pairwise or m >= max(1, n):
            return False
        ends = self.edges
        graph = sparse.coo_array((np.ones(m, dtype=np.int8), (ends[:, 0], ends[:, 1])), shape=(n, n))
        return n == 0 or connected_components(graph, directed=False, return_labels=False) == n - m

    @property
    def edges(self) -> Array:
        """The two variables of each factor of a model of pairs, shape (n_factors, 2)."""
        if not self.is_pairwise:
            raise InvalidInputError(f"{self!r} has factors of more than two variables; use factor.")
        return self.scopes.reshape(-1, 2)

    @cached_property
    def typical_cost(self) -> float:
        """The median size of the finite nonzero costs, or 0; not the mean, because of penalties."""
        sizes = finite_sizes(self.unaries, self.tables)
        return float(np.median(sizes)) if sizes.size else 0.0

    @cached_property
    def energy_lattice(self) -> EnergyLattice:
        """The lattice ``offset + unit * Z`` that contains all finite energies."""
        blocks = [(self.unaries, self.unary_starts[:-1]), (self.tables, self.table_starts)]
        constants = np.append(self._rest.constant, self.constant)
        return energy_lattice(constants, blocks, self._rest.values)

    def unary(self, u: int) -> Array:
        """Return the costs of the states of variable u."""
        self._check_variable(u)
        return self.unaries[self.unary_starts[u] : self.unary_starts[u + 1]]

    def factor(self, a: int) -> Factor:
        """Return the variables and the table of factor a."""
        if not 0 <= a < self.n_factors:
            raise InvalidInputError(f"There is no factor {a}: there are {self.n_factors}, numbered from 0.")
        scope = self.scopes[self.scope_starts[a] : self.scope_starts[a + 1]]
        start = self.table_starts[a]
        table = self.tables[start : start + self.table_sizes[a]]
        return Factor(tuple(scope.tolist()), table.reshape(self.cardinalities[scope]))

    def factors_of(self, u: int) -> Array:
        """Return the numbers of the factors that contain variable u, ascending, in time O(their number)."""
        self._check_variable(u)
        starts, factors = self._incidence
        return factors[starts[u] : starts[u + 1]]

    @cached_property
    def _incidence(self) -> tuple[Array, Array]:
        counts = np.bincount(self.scopes, minlength=self.n_variables)
        factors = np.repeat(np.arange(self.n_factors), self.arities)
        order = np.argsort(self.scopes, kind="stable")
        return starts_of(counts), read_only(factors[order])

    def energy(self, labelling: Any) -> float:
        """Return E(labelling), the exact sum of its terms, rounded once; +inf if it is forbidden.

        Parameters
        ----------
        labelling : array_like of int, shape (n_variables,)
        """
        return math.fsum(self.terms(labelling).tolist())

    def rounding(self, labelling: Any) -> float:
        """Return a bound of the rounding error of a computed lower bound whose exact value is E(labelling).

        The error of a sum is at most the sum of the absolute terms, times their number, times the rounding
        unit. The result is four times this, because a bound is a sum of costs that are sums themselves.
        """
        terms = np.abs(self.terms(labelling))
        return float(4.0 * _EPS * (terms.size + 8) * terms.sum())

    def terms(self, labelling: Any) -> Array:
        """Return terms that sum to E(labelling): the constant, and one cost per variable and per factor.

        Because sums of constants, and of tables over the same variables, are rounded down, the parts rounded
        off are further terms at the end.
        """
        x = self._as_labellings(np.asarray(labelling)[None])[0]
        places, chosen, rest = self.places(x), self.unary_starts[:-1] + x, self._rest
        terms = [[self.constant], self.unaries[chosen], self.tables[places], rest.constant]
        if rest.places.size:
            there = np.isin(rest.places, np.concatenate([chosen, places + self.unaries.size]))
            terms.append(rest.values[there])
        return np.concatenate(terms)

    def energies(self, labellings: Any) -> Array:
        """Return the energy of each row of `labellings`, an array of int of shape (b, n_variables).

        Every addition is rounded, unlike in `energy`, which is exact.
        """
        labellings = self._as_labellings(labellings)
        total = np.full(len(labellings), self.constant)
        rows = max(1, 2**22 // max(1, self.n_links + self.n_variables))
        for start in range(0, len(labellings), rows):
            x = labellings[start : start + rows]
            part = total[start : start + rows]
            part += self.unaries[self.unary_starts[:-1] + x].sum(axis=1)
            part += self.tables[self.places(x)].sum(axis=1)
        return total

    def places(self, x: Array) -> Array:
        """Return where in `tables` the entries of labellings are, an array of shape (..., n_factors)."""
        if not self.n_factors:
            return np.empty((*x.shape[:-1], 0), dtype=np.int64)
        steps = x[..., self.scopes] * self.strides
        return np.add.reduceat(steps, self.scope_starts[:-1], axis=-1) + self.table_starts

    def condition(self, evidence: Mapping[int, int]) -> Self:
        """Return the model in which some variables are observed: all other states of these cost +inf.

        Parameters
        ----------
        evidence : mapping of int to int
            The state of each observed variable.

        Raises
        ------
        InvalidInputError
            If a variable or a state is not an integer in its range.
        """
        if not isinstance(evidence, Mapping):
            raise InvalidInputError(f"evidence must be a dict {{variable: state}}, got {evidence!r}.")
        unaries = self.unaries.copy()
        for u, state in evidence.items():
            if not _is_integer(u) or not 0 <= u < self.n_variables:
                raise InvalidInputError(
                    f"The evidence {{{u!r}: {state!r}}} names the variable {u!r}; it must be an integer from "
                    f"0 to {self.n_variables - 1}."
                )
            costs = unaries[self.unary_starts[u] : self.unary_starts[u + 1]]
            if not _is_integer(state) or not 0 <= state < costs.size:
                raise InvalidInputError(
                    f"The evidence says that variable {u} has the state {state!r}; it must be an integer "
                    f"from 0 to {costs.size - 1}."
                )
            costs[np.arange(costs.size) != state] = np.inf
        return self.with_unaries(unaries)

    def with_unaries(self, unaries: Array) -> Self:
        """Return the model with other unary costs, an array laid out like `unaries`."""
        rest = self.scope_starts, self.scopes, self.table_starts, self.tables, self.constant, self._rest
        return self.alike(FactorArrays(unaries, *rest))

    def with_costs(self, unaries: Any = None, tables: Any = None, *, constant: float | None = None) -> Self:
        """Return a model of the same variables and factors with other costs.

        It shares with this model everything that does not depend on costs, for example an order of
        elimination. With ``map(start=result)``, a sequence of models whose costs change little is solved
        faster than each model alone.

        Parameters
        ----------
        unaries : array_like, optional
            As many entries as `unaries`, in the same order: the costs of the states of variable 0, then of
            variable 1, ... For example, an array of shape (n_variables, k).
        tables : array_like, optional
            As many entries as `tables`, in the same order; the variables of a factor are ascending. For
            example, an array of shape (n_factors, k, k).
        constant : float, optional
            By default, unaries, tables and constant are not changed.

        Raises
        ------
        InvalidInputError
            If an array has another number of entries, or contains NaN or -inf, or if a sum of energies may
            overflow.

        Examples
        --------
        >>> from cutplane.graphical import chain
        >>> model = chain([[0, 2], [1, 2], [2, 0.5]], [[0, 3], [3, 0]])
        >>> first = model.map()
        >>> second = model.with_costs([[0, 2], [1, 0], [2, 0]]).map(start=first)
        >>> first.labelling.tolist(), second.labelling.tolist()
        ([0, 0, 0], [1, 1, 1])
        """
        rest, places, n = self._rest, self._rest.places, self.unaries.size
        kept = np.where(places < n, unaries is None, tables is None)
        factors = FactorArrays(
            unaries=_like("unaries", unaries, self.unaries),
            scope_starts=self.scope_starts,
            scopes=self.scopes,
            table_starts=self.table_starts,
            tables=_like("tables", tables, self.tables),
            constant=self.constant if constant is None else _constant(constant),
            rest=Rest(rest.constant if constant is None else np.empty(0), places[kept], rest.values[kept]),
        )
        check_range(factors, self.n_variables)
        return self.alike(factors)

    def alike(self, factors: FactorArrays) -> Self:
        """Return a model with other factors of the same scopes, from which most of its attributes follow."""
        model = type(self).__new__(type(self))
        model._set_data(self.cardinalities, factors)
        model.orders = self.orders
        vars(model).update({name: vars(self)[name] for name in _OF_SCOPES if name in vars(self)})
        return model

    @property
    def rounded_off(self) -> float:
        """An upper bound of the rounded-off parts of sums, in the energy of any labelling."""
        return abs(math.fsum(self._rest.constant)) + float(np.abs(self._rest.values).sum())

    def brute_force(self, max_labellings: int = 2**20) -> tuple[Array, float]:
        """Return a labelling of least energy, and its energy, by enumerating all labellings.

        Parameters
        ----------
        max_labellings : int, default 2**20
            Largest number of labellings to enumerate.

        Raises
        ------
        InvalidInputError
            If there are more labellings; use `map`.
        """
        count = float(np.prod(self.cardinalities.astype(np.float64)))
        if count > as_count("max_labellings", max_labellings):
            raise InvalidInputError(
                f"{self!r} has {count:.3g} labellings, more than max_labellings = {max_labellings}; use map."
            )
        best, energy = np.zeros(self.n_variables, dtype=np.int64), np.inf
        radix = np.append(np.cumprod(self.cardinalities[:0:-1])[::-1], 1)[: self.n_variables]
        for start in range(0, int(count), _CHUNK):
            numbers = np.arange(start, min(start + _CHUNK, int(count)))
            labellings = numbers[:, None] // radix % self.cardinalities
            energies = self.energies(labellings)
            least = int(energies.argmin())
            if start == 0 or energies[least] < energy:
                best, energy = labellings[least], float(energies[least])
        return best, self.energy(best)

    def _as_labellings(self, labellings: Any) -> Array:
        array = np.asarray(labellings)
        if array.ndim != 2 or array.shape[1] != self.n_variables:
            raise InvalidInputError(
                f"A labelling of {self!r} has shape ({self.n_variables},), got {array.shape[1:]}."
            )
        if not np.issubdtype(array.dtype, np.integer):
            raise InvalidInputError(f"A labelling must be of integers, got {array.dtype}.")
        wrong = (array < 0) | (array >= self.cardinalities)
        if wrong.any():
            row, u = np.argwhere(wrong)[0]
            raise InvalidInputError(
                f"Variable {u} has {self.cardinalities[u]} states, numbered from 0; the labelling has "
                f"{array[row, u]}."
            )
        return array.astype(np.int64, copy=False)

    def _check_variable(self, u: int) -> None:
        if not 0 <= u < self.n_variables:
            raise InvalidInputError(f"There is no variable {u}: there are {self.n_variables}, from 0.")

    def __repr__(self) -> str:
        kinds = ", ".join(
            f"{count} {'factor' if count == 1 else 'factors'} of arity {arity}"
            for arity, count in enumerate(np.bincount(self.arities))
            if count
        )
        name = type(self).__name__
        return f"{name}({self.n_variables} variables, {self._states} states, {kinds or 'no factors'})"

    def _repr_html_(self) -> str:
        hard = int(np.isinf(self.tables).sum() + np.isinf(self.unaries).sum())
        return table(
            {
                "variables": self.n_variables,
                "states": self._states,
                "factors": self.n_factors,
                "largest arity": int(self.arities.max(initial=min(1, self.n_variables))),
                "table entries": int(self.table_sizes.sum()),
                "forbidden entries": hard,
                "constant": f"{self.constant:g}",
            }
        )

    @property
    def _states(self) -> str:
        if not self.n_variables:
            return "0"
        low, high = self.cardinalities.min(), self.cardinalities.max()
        return f"{low}" if low == high else f"{low} to {high}"


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _like(name: str, value: Any, present: Array) -> Array:
    """Return a flat copy of new costs, by default the present ones."""
    if value is None:
        return present
    costs = as_energies(name, value)
    if costs.size != present.size:
        raise InvalidInputError(
            f"{name} must have {present.size} entries, in the order of model.{name}, got shape {costs.shape}."
        )
    return costs.flatten()


def _constant(value: float) -> float:
    return as_scalar("constant", value, low_open=True, infinite=True)


class BestLabelling:
    """The best labelling offered so far; None, with energy inf, until a labelling has finite energy.

    Attributes
    ----------
    labelling : ndarray or None
    energy : float
    rounding : float
        `FactorGraph.rounding` of the labelling; 0 for None.
    """

    def __init__(self, model: FactorGraph, labelling: Array | None = None) -> None:
        self.model = model
        self.labelling: Array | None = None
        self.energy, self.rounding = math.inf, 0.0
        BestLabelling.offer(self, labelling)

    def offer(self, candidate: Array | None) -> bool:
        """Keep the candidate if it is better; tell whether it is."""
        present = self.labelling
        if candidate is None or (present is not None and np.array_equal(candidate, present)):
            return False
        energy = self.model.energy(candidate)
        if improved := energy < self.energy:
            self.labelling, self.energy = np.array(candidate, dtype=np.int64), energy
            self.rounding = self.model.rounding(candidate)
        return improved

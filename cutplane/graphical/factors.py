"""The factors of a graphical model in flat arrays, their sizes, and the unit of its energies."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import chain
from math import fsum, isfinite, nextafter, prod
from operator import index
from typing import Any, NamedTuple

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import Array

_TOO_LARGE = "Sums of the energies are too large for floats; divide them, or use inf for forbidden states."
_EXAMPLE = "e.g. ((0, 1), [[0, 1], [1, 0]])"


class Rest(NamedTuple):
    """The parts rounded off from sums of constants and tables: with them, the sums are exact.

    Attributes
    ----------
    constant : ndarray
        The terms to add to the constant.
    places, values : ndarray
        Each value is to be added to the entry at its place, which counts through unaries and then tables.
        Places may be repeated.
    """

    constant: Array = np.empty(0)
    places: Array = np.empty(0, dtype=np.int64)
    values: Array = np.empty(0)


@dataclass(frozen=True, eq=False)
class FactorArrays:
    """Factors of arity >= 2, the sums of the factors of arity 1, and the factors of arity 0.

    The variables of factor a, ascending, are ``scopes[scope_starts[a]:scope_starts[a + 1]]``; its table
    begins in `tables` at ``table_starts[a]``; several factors may share a table.
    """

    unaries: Array
    scope_starts: Array
    scopes: Array
    table_starts: Array
    tables: Array
    constant: float
    rest: Rest = field(default_factory=lambda: Rest())


class GivenFactors(NamedTuple):
    """Factors of any arity in flat arrays, their variables in any order, several over the same variables.

    The variables of factor a are ``scopes[scope_starts[a]:scope_starts[a + 1]]``; its table, in C order of
    these variables, begins in `tables` at ``table_starts[a]``. Factors of equal shape may share a table.
    """

    scope_starts: Array
    scopes: Array
    table_starts: Array
    tables: Array


def from_list(cardinalities: Array, factors: Iterable[Any], constant: float) -> FactorArrays:
    """Collect (variables, table) pairs. Factors that are given the same object as table share it."""
    sizes, numbers = cardinalities.tolist(), dict[int, int]()
    objects, tables, which, scopes = [], [], [], []
    for number, factor in enumerate(as_list("factors", factors)):
        scope, table = _checked(number, factor, sizes)
        place = numbers.setdefault(id(table), len(objects))
        if place == len(objects):
            objects.append(table)  # kept, because a later object could have the same id
            is_array = type(table) is np.ndarray and table.dtype == np.float64
            tables.append(table if is_array else as_energies(f"the table of factors[{number}]", table))
        if tables[place].shape != (wanted := tuple([sizes[u] for u in scope])):
            raise InvalidInputError(
                f"factors[{number}] needs a table of shape {wanted}, the numbers of states of the variables "
                f"{scope}, got {tables[place].shape}."
            )
        which.append(place)
        scopes.append(scope)
    starts = starts_of(np.array([table.size for table in tables], dtype=np.int64))
    given = GivenFactors(
        scope_starts=starts_of(np.fromiter(map(len, scopes), dtype=np.int64)),
        scopes=np.fromiter(chain.from_iterable(scopes), dtype=np.int64),
        table_starts=starts[np.array(which, dtype=np.int64)],
        tables=np.concatenate(tables, axis=None) if tables else np.empty(0),
    )
    return collect(cardinalities, given, constant)


def from_pairs(
    cardinalities: Array, unaries: Array, edges: Any, tables: Any, constant: float
) -> FactorArrays:
    """Collect pairs of variables whose tables are stacked in one array, or are one shared matrix."""
    edges = as_edges(edges, cardinalities)
    tables = as_energies("tables", tables)
    shape = tables.shape[-2:]
    if tables.ndim not in (2, 3) or (tables.ndim == 3 and len(tables) != len(edges)):
        raise InvalidInputError(
            f"tables must have shape (m, k, k) for the {len(edges)} edges, or (k, k) if they share one, got "
            f"{tables.shape}."
        )
    sizes = cardinalities[edges]
    wrong = np.flatnonzero((sizes != np.array(shape)).any(1))
    if wrong.size:
        raise InvalidInputError(
            f"the table of edges[{wrong[0]}] = {edges[wrong[0]].tolist()} has shape {shape}, but its "
            f"variables have {sizes[wrong[0], 0]} and {sizes[wrong[0], 1]} states."
        )
    m, each = len(edges), prod(shape) if tables.ndim == 3 else 0
    given = GivenFactors(
        2 * np.arange(m + 1), edges.ravel().astype(np.int64), each * np.arange(m), np.ravel(tables)
    )
    return replace(collect(cardinalities, given, constant), unaries=unaries)


def collect(cardinalities: Array, given: GivenFactors, constant: float) -> FactorArrays:
    """Sort the variables of each factor, and add factors over the same variables, rounded down.

    Factors keep the order of the first one over their variables. Tables remain shared, except those to which
    another table is added.
    """
    arities = np.diff(given.scope_starts)
    sizes = entries_of(cardinalities, arities, given.scopes).astype(np.int64)
    if not given.tables.min(initial=np.inf) > -np.inf:
        place = np.flatnonzero(~(given.tables > -np.inf))[0]
        is_there = (given.table_starts <= place) & (place < given.table_starts + sizes)
        as_energies(f"the table of factors[{np.argmax(is_there)}]", given.tables[place])
    given = _ascending(cardinalities, given)
    first = _first_alike(cardinalities.size, given)
    is_first = first == np.arange(first.size)
    constants = given.tables[given.table_starts[arities == 0]].tolist()
    sums = Sums([constant, *constants])
    kept = np.flatnonzero(is_first & (arities > 1))
    keys = given.table_starts[kept]
    again = np.flatnonzero(~is_first & (arities > 0))
    is_sum = np.isin(kept, first[again])
    keys[is_sum] = given.tables.size + kept[is_sum]
    _, copied, which = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(copied)
    copied = kept[copied[order]]
    starts = starts_of(sizes[copied])
    numbers = np.empty(order.size, dtype=np.int64)
    numbers[order] = np.arange(order.size)
    table_starts = starts[numbers[which]]
    unary_starts = starts_of(cardinalities)
    n_states = int(unary_starts[-1])
    single = np.flatnonzero(is_first & (arities == 1))
    targets = np.empty(first.size, dtype=np.int64)
    targets[single] = unary_starts[given.scopes[given.scope_starts[single]]]
    targets[kept] = n_states + table_starts
    costs = np.zeros(n_states + starts[-1])
    costs[places_of(targets[single], sizes[single])] = _taken(
        given.tables, given.table_starts[single], sizes[single]
    )
    costs[n_states:] = _taken(given.tables, given.table_starts[copied], sizes[copied])
    for added in _split(again, _ranks(first[again])):
        places = places_of(targets[first[added]], sizes[added])
        costs[places] = sums.of(
            costs[places], _taken(given.tables, given.table_starts[added], sizes[added]), places
        )
    return FactorArrays(
        unaries=costs[:n_states],
        scope_starts=starts_of(arities[kept]),
        scopes=_taken(given.scopes, given.scope_starts[kept], arities[kept]),
        table_starts=table_starts,
        tables=costs[n_states:],
        constant=sums.constant,
        rest=sums.rest,
    )


def places_of(starts: Array, sizes: Array) -> Array:
    """Return the places of pieces of these sizes, one piece after the other.

    >>> places_of(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    ends = np.cumsum(sizes)
    places = np.arange(ends[-1] if ends.size else 0)
    places += np.repeat(starts - ends + sizes, sizes)
    return places


def _taken(values: Array, starts: Array, sizes: Array) -> Array:
    """Return pieces of these sizes, one after the other; a view, if they already are."""
    if starts.size and (starts[1:] == starts[:-1] + sizes[:-1]).all():
        return values[starts[0] : starts[-1] + sizes[-1]]
    return values[places_of(starts, sizes)]


def entries_of(cardinalities: Array, arities: Array, scopes: Array) -> Array:
    """Return the number of entries of the table of each factor, as floats, because it may be too large."""
    starts, sizes = starts_of(arities), np.ones(arities.size)
    for i in range(int(arities.max(initial=0))):
        larger = np.flatnonzero(arities > i)
        sizes[larger] *= cardinalities[scopes[starts[larger] + i]]
    return sizes


def strides_of(cardinalities: Array, scope_starts: Array, scopes: Array) -> Array:
    """Return the distance in a C-ordered table between successive states of each variable of each scope."""
    strides, sizes = np.ones(scopes.size, dtype=np.int64), cardinalities[scopes]
    arities, last = np.diff(scope_starts), scope_starts[1:] - 1
    for back in range(1, int(arities.max(initial=0))):
        links = last[arities > back] - back
        strides[links] = strides[links + 1] * sizes[links + 1]
    return strides


def by_shape(
    cardinalities: Array, scope_starts: Array, scopes: Array, among: Array
) -> Iterator[tuple[Array, Array, Array]]:
    """Yield the factors of one shape among those of these numbers, ascending, their scopes, and the shape.

    Scopes have the shape (number of factors, arity).
    """
    arities = np.diff(scope_starts)[among]
    for arity in np.unique(arities).tolist():
        factors = among[arities == arity]
        rows = scopes[scope_starts[factors, None] + np.arange(arity)]
        shapes, group = np.unique(cardinalities[rows], axis=0, return_inverse=True)
        for number, shape in enumerate(shapes):
            chosen = group.ravel() == number
            yield factors[chosen], rows[chosen], shape


def _ascending(cardinalities: Array, given: GivenFactors) -> GivenFactors:
    """Sort the variables of each factor, and transpose the tables accordingly."""
    arities = np.diff(given.scope_starts)
    owners = np.repeat(np.arange(arities.size), arities)
    falls = (given.scopes[1:] < given.scopes[:-1]) & (owners[1:] == owners[:-1])
    turned = np.unique(owners[1:][falls])
    if not turned.size:
        return given
    scopes, starts = given.scopes.copy(), given.table_starts.copy()
    tables, end = [given.tables], given.tables.size
    for arity in np.unique(arities[turned]).tolist():
        chosen = turned[arities[turned] == arity]
        links = given.scope_starts[chosen, None] + np.arange(arity)
        orders = np.argsort(scopes[links], axis=1)
        shapes = cardinalities[scopes[links]]
        scopes[links] = np.take_along_axis(scopes[links], orders, axis=1)
        kinds, kind = np.unique(np.hstack([shapes, orders]), axis=0, return_inverse=True)
        for row, members in zip(kinds.tolist(), _split(chosen, kind.ravel()), strict=True):
            shape, order = row[:arity], row[arity:]
            places = np.arange(prod(shape)).reshape(shape).transpose(order).ravel()
            used, which = np.unique(starts[members], return_inverse=True)
            tables.append(given.tables[used[:, None] + places].ravel())
            starts[members] = end + places.size * which
            end += tables[-1].size
    return GivenFactors(given.scope_starts, scopes, starts, np.concatenate(tables))


def _first_alike(n_variables: int, given: GivenFactors) -> Array:
    """Return for each factor the first factor over the same variables."""
    arities = np.diff(given.scope_starts)
    first = np.empty(arities.size, dtype=np.int64)
    for arity in np.unique(arities).tolist():
        chosen = np.flatnonzero(arities == arity)
        keys = np.zeros(chosen.size, dtype=np.int64)
        for i in range(arity):
            keys = keys * n_variables + given.scopes[given.scope_starts[chosen] + i]
            _, places, keys = np.unique(keys, return_index=True, return_inverse=True)
        first[chosen] = chosen[places[keys] if arity else keys]
    return first


def _split(values: Array, groups: Array) -> list[Array]:
    """Return the values of each group, numbered from 0."""
    ends = np.cumsum(np.bincount(groups))
    return np.split(values[np.argsort(groups, kind="stable")], ends[:-1]) if ends.size else []


def _ranks(groups: Array) -> Array:
    """Return the number of earlier entries that are equal to each entry."""
    order = np.argsort(groups, kind="stable")
    ranks = np.empty(groups.size, dtype=np.int64)
    ranks[order] = np.arange(groups.size) - np.searchsorted(groups[order], groups[order])
    return ranks


class Sums:
    """Adds constants and tables, rounded down, and collects the parts rounded off."""

    def __init__(self, constants: list[float]) -> None:
        try:
            self.constant = sum_rounded_down(constants)
        except OverflowError:
            raise InvalidInputError(_TOO_LARGE) from None
        exact = len(constants) == 1 or not isfinite(self.constant)
        self._constant = np.array([] if exact else [*constants, -self.constant])
        self._places: list[Array] = [np.empty(0, dtype=np.int64)]
        self._values: list[Array] = [np.empty(0)]

    @property
    def rest(self) -> Rest:
        """The parts rounded off from all sums so far."""
        return Rest(self._constant, np.concatenate(self._places), np.concatenate(self._values))

    def of(self, first: Array, second: Array, places: Array) -> Array:
        """Return first + second, rounded down; `places` are the positions of their entries."""
        with np.errstate(over="ignore", invalid="ignore"):
            above = first + second
            back = above - first
            error = (first - (above - back)) + (second - back)  # exact (Knuth's two-sum)
        finite = np.isfinite(first) & np.isfinite(second)
        if np.isinf(above[finite]).any():
            raise InvalidInputError(_TOO_LARGE)
        below = np.where(finite & (error < 0.0), np.nextafter(above, -np.inf), above)
        for rest in (error, above - np.where(finite, below, 0.0)):
            kept = np.ravel(finite & (rest != 0.0))
            self._places.append(np.ravel(places)[kept])
            self._values.append(np.ravel(rest)[kept])
        return below


def sum_rounded_down(terms: Iterable[float]) -> float:
    """Return the largest float that is not above the exact sum; inf if a term is."""
    terms = list(terms)
    total = fsum(terms)
    if not isfinite(total):
        return total
    return total if fsum([*terms, -total]) >= 0.0 else nextafter(total, -np.inf)


def as_edges(edges: Any, cardinalities: Array) -> Array:
    """Return pairs of different variables, checked."""
    edges = np.asarray(edges)
    if edges.size == 0:
        edges = np.empty((0, 2), dtype=np.int64)
    if edges.ndim != 2 or edges.shape[1] != 2 or not np.issubdtype(edges.dtype, np.integer):
        raise InvalidInputError(f"edges must be integers of shape (m, 2), got {edges.dtype} {edges.shape}.")
    n = cardinalities.size
    wrong = np.flatnonzero((edges < 0).any(1) | (edges >= n).any(1) | (edges[:, 0] == edges[:, 1]))
    if wrong.size:
        raise InvalidInputError(
            f"edges[{wrong[0]}] = {edges[wrong[0]].tolist()} must be two different variables, "
            f"numbered from 0 to {n - 1}."
        )
    return edges


def check_range(factors: FactorArrays, n_variables: int) -> None:
    """Refuse energies if one of their sums may overflow."""
    largest = abs(factors.constant) if isfinite(factors.constant) else 0.0
    for costs in (factors.unaries, factors.tables):
        finite = np.isfinite(costs)
        low, high = (find(costs, initial=0.0, where=finite) for find in (np.min, np.max))
        largest = max(largest, -float(low), float(high))
    if largest > sys.float_info.max / (n_variables + factors.table_starts.size + 1):
        raise InvalidInputError(_TOO_LARGE)


def as_cardinalities(value: Any) -> Array:
    """Return the numbers of states of the variables, checked."""
    array = np.asarray(value)
    if array.size == 0:
        array = np.empty(0, dtype=np.int64)
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise InvalidInputError(
            f"cardinalities must be a vector of integers, got {array.dtype} {array.shape}."
        )
    if (array < 1).any():
        u = int(np.flatnonzero(array < 1)[0])
        raise InvalidInputError(f"cardinalities[{u}] is {array[u]}; a variable has at least one state.")
    return array.astype(np.int64)


def as_costs(unaries: Any) -> tuple[Array, Array]:
    """Return the costs of all variables, one after the other, and the numbers of their states."""
    if isinstance(unaries, np.ndarray) and unaries.ndim == 2:
        flat, sizes = np.ravel(as_energies("unaries", unaries)), np.full(len(unaries), unaries.shape[1])
    else:
        vectors = [
            as_energies(f"unaries[{u}]", vector) for u, vector in enumerate(as_list("unaries", unaries))
        ]
        if any(vector.ndim != 1 for vector in vectors):
            raise InvalidInputError("unaries must be a matrix, or a sequence of vectors, one per variable.")
        flat = np.concatenate(vectors) if vectors else np.empty(0)
        sizes = np.array([vector.size for vector in vectors], dtype=np.int64)
    return flat.copy(), as_cardinalities(sizes)


def as_list(name: str, value: Any) -> list[Any]:
    """Return the parts of a sequence or of another iterable."""
    try:
        return list(value)
    except TypeError as error:
        raise InvalidInputError(f"{name} must be a sequence, got {value!r}.") from error


def as_energies(name: str, value: Any) -> Array:
    """Return an array of energies: numbers, or +inf for forbidden states; refuse NaN and -inf."""
    try:
        array = np.asarray(value)
        if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
            raise TypeError("some are masked")
        if array.dtype.kind not in "biufO" and array.size:
            raise TypeError(f"got {array.dtype}")
        array = array.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"{name} must be an array of real numbers: {error}.") from error
    least = array.min(initial=np.inf)
    if not least > -np.inf:
        raise InvalidInputError(
            f"{name} contains {least:g}; an energy must be a number, or +inf for a forbidden state."
        )
    return array


def _checked(number: int, factor: Any, cardinalities: Sequence[int]) -> tuple[tuple[int, ...], Any]:
    """Return the variables of a factor, checked, and its table as it is given."""
    try:
        variables, table = factor
        if isinstance(variables, tuple | list) or np.ndim(variables):
            scope = tuple(map(index, variables))
        else:
            scope = (index(variables),)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"factors[{number}] must be (variables, table), {_EXAMPLE}; {error}."
        ) from error
    for u in scope:
        if not 0 <= u < len(cardinalities):
            raise InvalidInputError(
                f"factors[{number}] names the variable {u}; there are {len(cardinalities)}, numbered from 0."
            )
    if len(set(scope)) < len(scope):
        raise InvalidInputError(f"factors[{number}] names a variable twice: {scope}.")
    return scope, table


def starts_of(sizes: Array) -> Array:
    """Return the starts of consecutive pieces of these sizes, and the end of the last piece."""
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])


_FINEST = 1e-6
"""Least unit relative to the largest cost, because a bound with an error of 1e-9 needs coarser units."""
_MANY = 2**14
"""Largest number of distinct costs for which a unit is computed, because fractions are slow, and many costs
rarely have a unit."""
_FEW = 8
"""Number of costs that are tested first, because a few random numbers have no unit."""
_PENALTY, _SMALL = 1e3, 0.1
"""Ratio of the largest cost to small ones that indicates penalties, and the share of small ones; 1e3, because
normal costs have ratios up to 40."""


def finite_sizes(*costs: Array) -> Array:
    """Return the absolute values of the finite nonzero costs."""
    sizes = np.concatenate(costs)
    np.abs(sizes, out=sizes)
    return sizes[(sizes > 0.0) & (sizes < np.inf)]


def has_penalties(sizes: Array) -> bool:
    """Return whether some costs are so much larger than others that they may be penalties."""
    small = sizes < sizes.max(initial=0.0) / _PENALTY
    return bool(np.count_nonzero(small) >= 1.0 + _SMALL * (sizes.size - 1))


def common_unit(*costs: Array) -> float:
    """Return the largest number of which all finite costs are multiples, in exact arithmetic.

    Return 0 if it is less than a millionth of the largest cost, because such a unit is of no use.

    Examples
    --------
    >>> import numpy as np
    >>> common_unit(np.array([0, 1.5]), np.array([3, float("inf")]))
    1.5
    """
    if any(np.unique(part[: 4 * _MANY]).size > 2 * _MANY + 2 for part in costs):
        return 0.0  # more than _MANY absolute values: no need to sort the rest
    sizes = np.unique(finite_sizes(*costs))
    if sizes.size == 0 or sizes.size > _MANY or sizes[0] < _FINEST * sizes[-1]:
        return 0.0
    least = _FINEST * float(sizes[-1])
    if sizes.size > _FEW and not _divisor(sizes[-_FEW:], least):
        return 0.0
    return _divisor(sizes, least)


def _divisor(sizes: Array, least: float) -> float:
    """Return the greatest common divisor of floats, 0 if it is below `least`."""
    ratios = [size.as_integer_ratio() for size in sizes.tolist()]
    denominator, unit = max(below for _, below in ratios), 0
    floor = math.ceil(Fraction(least) * denominator)  # exact, because the denominator may be 2**1074
    for above, below in ratios:
        unit = math.gcd(unit, above * (denominator // below))
        if unit < floor:
            return 0.0
    return unit / denominator


class EnergyLattice(NamedTuple):
    """The set ``offset + unit * Z`` contains all finite energies; if `unit` is 0, no lattice was found."""

    unit: float = 0.0
    offset: float = 0.0

    def rounded_up(self, bound: float) -> float:
        """Return the least lattice number of at least `bound`; `bound` itself if there is no unit."""
        if self.unit == 0.0 or not math.isfinite(bound):
            return bound
        return self.offset + math.ceil((bound - self.offset) / self.unit) * self.unit

    def lifted(self, bound: float) -> float:
        """Return the bound rounded up, unless the rounding errors of sums are as large as the unit."""
        error = _SUM_ERROR * max(abs(bound), self.unit)
        return max(bound, self.rounded_up(bound - error)) if error < 1e-3 * self.unit else bound


_SUM_ERROR = 1e-9
"""Assumed relative error of a bound that is rounded up to the lattice, because sums of costs err by less."""


def energy_lattice(constants: Array, blocks: Sequence[tuple[Array, Array]], others: Array) -> EnergyLattice:
    """Return the lattice of all sums of the constants, one entry of each block, and any of the others.

    Entries of a block are equal modulo the unit. For example, energies of 100 pairs with costs -1 and 1 are
    even numbers. A start of a block that is given twice stands for two blocks.
    """
    fine = common_unit(constants, *(costs for costs, _ in blocks), others)
    if fine == 0.0 or others.size or not np.isfinite(constants).all():
        return EnergyLattice(fine)
    unit, offset = 0, sum(round(constant / fine) for constant in constants.tolist())
    for costs, starts in blocks:
        if not starts.size:
            continue
        distinct, counts = np.unique(starts, return_counts=True)
        finite = np.isfinite(costs)
        whole = np.rint(np.where(finite, costs, 0.0) / fine).astype(np.int64)
        least = np.minimum.reduceat(np.where(finite, whole, np.iinfo(np.int64).max), distinct)
        least = np.where(np.logical_or.reduceat(finite, distinct), least, 0)
        sizes = np.diff(np.append(distinct, costs.size))
        above = np.where(finite, whole - np.repeat(least, sizes), 0)
        unit = math.gcd(unit, int(np.gcd.reduce(above)))
        offset += sum(n * k for n, k in zip(counts.tolist(), least.tolist(), strict=True))
    return EnergyLattice(unit * fine, (offset % unit) * fine) if unit else EnergyLattice()

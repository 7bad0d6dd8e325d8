"""The factors of a graphical model in flat arrays: checked, one factor per set of variables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from operator import index
from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import Array

_EXAMPLE = "e.g. ((0, 1), [[0, 1], [1, 0]])"


@dataclass(frozen=True, eq=False)
class Factors:
    """Factors of arity >= 2, the sums of those of arity 1, and those of arity 0.

    The variables of factor a, ascending, are ``scopes[scope_starts[a]:scope_starts[a + 1]]``; its table
    begins in `tables` at ``table_starts[a]``; several factors may share one.
    """

    unaries: Array
    scope_starts: Array
    scopes: Array
    table_starts: Array
    tables: Array
    constant: float


def from_list(cardinalities: Array, factors: Iterable[Any], constant: float) -> Factors:
    """Collect (variables, table) pairs."""
    starts = np.concatenate([[0], np.cumsum(cardinalities)])
    unaries = np.zeros(starts[-1])
    merged: dict[tuple[int, ...], Array] = {}
    sizes = cardinalities.tolist()
    for number, factor in enumerate(factors):
        scope, table = _checked(number, factor, sizes)
        if not scope:
            constant += float(table)
        elif len(scope) == 1:
            unaries[starts[scope[0]] : starts[scope[0] + 1]] += table
        else:
            merged[scope] = merged[scope] + table if scope in merged else table
    lengths = np.array([table.size for table in merged.values()], dtype=np.int64)
    arities = np.array([len(scope) for scope in merged], dtype=np.int64)
    return Factors(
        unaries=unaries,
        scope_starts=_starts(arities),
        scopes=np.array([variable for scope in merged for variable in scope], dtype=np.int64),
        table_starts=_starts(lengths)[:-1],
        tables=np.concatenate([np.ravel(table) for table in merged.values()]) if merged else np.empty(0),
        constant=constant,
    )


def from_pairs(cardinalities: Array, unaries: Array, edges: Any, tables: Any, constant: float) -> Factors:
    """Collect pairs of variables whose tables are stacked in one array, or all the same."""
    edges = np.asarray(edges)
    if edges.size == 0:
        edges = np.empty((0, 2), dtype=np.int64)
    if edges.ndim != 2 or edges.shape[1] != 2 or not np.issubdtype(edges.dtype, np.integer):
        raise InvalidInputError(f"edges must be integers of shape (m, 2), got {edges.dtype} {edges.shape}.")
    n = cardinalities.size
    wrong = np.flatnonzero((edges < 0).any(1) | (edges >= n).any(1) | (edges[:, 0] == edges[:, 1]))
    if wrong.size:
        raise InvalidInputError(
            f"edges[{wrong[0]}] = {edges[wrong[0]].tolist()} is not a pair of two different variables of the "
            f"{n} there are, numbered from 0."
        )
    tables = _demanded(np.asarray(tables, dtype=np.float64))
    one = tables.ndim == 2
    shape = tables.shape[-2:]
    if tables.ndim not in (2, 3) or (tables.ndim == 3 and len(tables) != len(edges)):
        raise InvalidInputError(
            f"tables must have shape (m, k, k) for the {len(edges)} edges, or (k, k) if they share one, got "
            f"{tables.shape}."
        )
    _refuse_nan("tables", tables)
    sizes = cardinalities[edges]
    wrong = np.flatnonzero((sizes != np.array(shape)).any(1))
    if wrong.size:
        raise InvalidInputError(
            f"the table of edges[{wrong[0]}] = {edges[wrong[0]].tolist()} has shape {shape}, but its "
            f"variables have {sizes[wrong[0], 0]} and {sizes[wrong[0], 1]} states."
        )
    turned = edges[:, 0] > edges[:, 1]
    scopes = np.sort(edges, axis=1).astype(np.int64)
    if one:
        stacked = np.stack([tables, tables.T]) if turned.any() else tables[None]
        which = turned.astype(np.int64)
    else:
        stacked, which = tables, np.arange(len(edges))
        if turned.any():
            stacked = np.where(turned[:, None, None], np.swapaxes(tables, 1, 2), tables)
    _, first, group = np.unique(scopes[:, 0] * n + scopes[:, 1], return_index=True, return_inverse=True)
    if first.size < len(edges):
        summed = np.zeros((first.size, *shape))
        np.add.at(summed, group, stacked[which])
        scopes, stacked, which = scopes[first], summed, np.arange(first.size)
    return Factors(
        unaries=unaries,
        scope_starts=2 * np.arange(len(scopes) + 1),
        scopes=np.ravel(scopes),
        table_starts=which * prod(shape),
        tables=np.ravel(stacked),
        constant=constant,
    )


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
        flat, sizes = np.ravel(unaries).astype(np.float64), np.full(len(unaries), unaries.shape[1])
    else:
        vectors = [np.asarray(vector, dtype=np.float64) for vector in unaries]
        if any(vector.ndim != 1 for vector in vectors):
            raise InvalidInputError("unaries must be a matrix, or a sequence of vectors, one per variable.")
        flat = np.concatenate(vectors) if vectors else np.empty(0)
        sizes = np.array([vector.size for vector in vectors], dtype=np.int64)
    cardinalities = as_cardinalities(sizes)
    if np.isnan(flat).any():
        raise InvalidInputError("unaries contain NaN; use +inf for what is forbidden.")
    demanded = np.isneginf(flat)
    if demanded.any():
        owners = np.repeat(np.arange(cardinalities.size), cardinalities)
        flat[np.isin(owners, owners[demanded])] = np.inf
        flat[demanded] = 0.0
    return flat, cardinalities


def _checked(number: int, factor: Any, cardinalities: Sequence[int]) -> tuple[tuple[int, ...], Array]:
    """Return the variables, ascending, and the table with its axes in that order."""
    try:
        variables, table = factor
        scope = tuple(map(index, variables)) if np.ndim(variables) else (index(variables),)
        table = np.asarray(table, dtype=np.float64)
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
    wanted = tuple(cardinalities[u] for u in scope)
    if table.shape != wanted:
        raise InvalidInputError(
            f"factors[{number}] needs a table of shape {wanted}, the numbers of states of the variables "
            f"{scope}, got {table.shape}."
        )
    least = table.min(initial=np.inf)
    if not least > -np.inf:
        _refuse_nan(f"the table of factors[{number}]", table)
        table = _demanded(table)
    ascending = sorted(range(len(scope)), key=scope.__getitem__)
    if ascending != list(range(len(scope))):
        return tuple(scope[i] for i in ascending), np.transpose(table, ascending)
    return scope, table


def _refuse_nan(name: str, table: Array) -> None:
    if np.isnan(table).any():
        raise InvalidInputError(f"{name} contains NaN; use +inf for what is forbidden.")


def _demanded(table: Array) -> Array:
    """Return the table with 0 for -inf and, in a table that has such entries, +inf for all the others."""
    demanded = np.isneginf(table)
    if not demanded.any():
        return table
    touched = demanded.any(axis=(-2, -1), keepdims=True) if table.ndim == 3 else True
    return np.where(demanded, 0.0, np.where(touched, np.inf, table))


def _starts(sizes: Array) -> Array:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

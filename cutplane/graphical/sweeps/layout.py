"""Where the messages and the tables of a reparametrised model lie in memory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cutplane.pieces.parameters import read_only
from cutplane.pieces.validation import Array


class Layout(NamedTuple):
    """Factors and their links to variables in flat read-only arrays; compiled code takes it as it is.

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


def starts_of(sizes: Array) -> Array:
    """Return where pieces of these sizes begin when they follow each other, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])


def scratch(layout: Layout) -> tuple[Array, Array]:
    """Return room for the states of one variable, and for the positions in one factor."""
    widest = np.diff(layout.scope_starts).max(initial=1)
    return np.empty(layout.cardinalities.max(initial=1)), np.empty(widest, dtype=np.int64)

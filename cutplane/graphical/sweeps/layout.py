"""Where the messages and the tables of a reparametrised model lie in memory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cutplane.pieces.parameters import read_only
from cutplane.pieces.validation import Array


class Layout(NamedTuple):
    """Factors and their links to variables in flat read-only arrays; compiled code takes it as it is.

    A link is one entry of `scopes`: a factor and a variable of it. The message of a link, one number per
    state of the variable, begins at ``message_starts[link]``.

    Attributes
    ----------
    cardinalities : ndarray of shape (n,)
    unary_starts : ndarray of shape (n + 1,)
    scope_starts : ndarray of shape (m + 1,)
    scopes : ndarray of shape (links,)
    table_starts : ndarray of shape (m,)
    message_starts : ndarray of shape (links + 1,)
    link_factors : ndarray of shape (links,)
    variable_starts : ndarray of shape (n + 1,)
        The links of u are ``variable_links[variable_starts[u]:variable_starts[u + 1]]``.
    variable_links : ndarray of shape (links,)
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

    Attributes
    ----------
    scope_starts, scopes : ndarray
        The variables of each cluster, ascending.
    child_starts, children : ndarray
        The factors inside each cluster; a link is one entry of `children`.
    message_starts : ndarray of shape (children.size + 1,)
        Where the message of a link begins; it has the shape of the table of the factor.
    is_triangle : ndarray of bool
        Whether the cluster has three variables (u, v, w) and the children (u, v), (u, w), (v, w).
    """

    scope_starts: Array
    scopes: Array
    child_starts: Array
    children: Array
    message_starts: Array
    is_triangle: Array


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

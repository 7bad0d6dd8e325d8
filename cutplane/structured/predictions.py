"""Predictions of linear chains: the best labellings, and the probabilities of the states."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import Array, as_vector
from cutplane.runtime.threads import run_chunks
from cutplane.structured.sequences import Sequences, as_csr_or_dense, as_starts, stack


def decode(w: Array, X: Any, lengths: Any = None) -> Any:
    """Return the labellings with the largest scores of a chain with the weights w.

    Parameters
    ----------
    w : array_like of shape (dim,)
        As `ChainRisk` and `ChainLogLikelihood` have them.
    X : ndarray, sparse array, or list of these
        Positions of shape (N, n), or a list of sequences.
    lengths : array_like of int, optional
        How many positions each sequence has, if X is not a list.

    Returns
    -------
    ndarray of shape (N,), or list of ndarray
        A list if X is one.

    Raises
    ------
    InvalidInputError
        If a shape does not fit.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.structured import decode
    >>> E, T = np.array([[1.0], [-1.0]]), np.array([[0.0, 3.0], [0.0, 0.0]])
    >>> decode(np.append(E, T), np.array([[1.0], [1.0], [0.5]])).tolist()
    [0, 0, 1]
    """
    w, data, listed = _unlabelled(w, X, lengths)
    nothing = np.zeros(len(data))
    found = data.decode(w, nothing, nothing)[1].astype(np.int64)
    return np.split(found, data.starts[1:-1]) if listed else found


def marginals(w: Array, X: Any, lengths: Any = None) -> Any:
    """Return the probability of each state at each position, of a conditional random field.

    Parameters
    ----------
    w : array_like of shape (dim,)
        As `ChainLogLikelihood` has them.
    X : ndarray, sparse array, or list of these
        Positions of shape (N, n), or a list of sequences.
    lengths : array_like of int, optional
        How many positions each sequence has, if X is not a list.

    Returns
    -------
    ndarray of shape (N, S), or list of ndarray of shape (length, S)
        A list if X is one.

    Raises
    ------
    InvalidInputError
        If a shape does not fit.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.structured import marginals
    >>> E, T = np.zeros((2, 1)), np.log([[3.0, 1.0], [1.0, 1.0]])
    >>> marginals(np.append(E, T), np.ones((2, 1))).round(4).tolist()
    [[0.6667, 0.3333], [0.6667, 0.3333]]
    """
    from cutplane.structured.likelihood_passes import marginals as fill

    w, data, listed = _unlabelled(w, X, lengths)
    known, S = data.powers(w), data.n_states
    out = np.empty((data.labels.size, S))

    def do(part: tuple[int, int]) -> None:
        longest = int(np.diff(data.starts[part[0] : part[1] + 1]).max())
        tables, largest, room = np.empty((3, longest, S)), np.empty(longest), np.empty((3, S))
        fill(data.rows, data.starts, *part, *known, *tables, largest, room, out)

    run_chunks(do, data.chunks)
    return np.split(out, data.starts[1:-1]) if listed else out


def _unlabelled(w: Any, X: Any, lengths: Any) -> tuple[Array, Sequences, bool]:
    """Return checked weights, sequences whose labels are not known, and whether they came as a list."""
    listed = lengths is None and isinstance(X, list | tuple)
    X, _, lengths = stack(X, None, lengths)
    X = as_csr_or_dense(X)
    w = as_vector("w", w)
    n = X.shape[1]
    n_states = round(0.5 * (math.sqrt(n * n + 4.0 * w.size) - n))
    if n_states * (n + n_states) != w.size:
        raise InvalidInputError(
            f"w has {w.size} entries, which is no S (S + {n}) for sequences with {n} features."
        )
    labels = np.zeros(X.shape[0], dtype=np.min_scalar_type(n_states - 1))
    return w, Sequences(X, labels, as_starts(lengths, X.shape[0]), n_states), listed

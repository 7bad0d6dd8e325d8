"""Checked labelled sequences, stored one after the other as rows of a matrix."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError
from cutplane.linear.predictor import as_rows
from cutplane.pieces.parameters import read_only
from cutplane.pieces.validation import Array, as_integers, as_real, refuse_masked
from cutplane.risks.examples import as_labels
from cutplane.risks.matrix import as_matrix, contiguous
from cutplane.runtime.chunks import Ranges, Segments, balanced_ranges, count_chunks, segments
from cutplane.runtime.threads import run_chunks
from cutplane.structured.ascent import CHAINS, Forests

LabelLoss = Literal["hamming", "share"]

PER_STATE = 0.25
"""Nanoseconds per state and entry of a row, or per state and previous label, used because threads divide work
by time."""
_ROWS = 4096
"""Number of rows in a block, because a copy of the block must be small."""

_ALIKE = read_only(np.ones((1, 1)))


def as_costs(loss: Any, sizes: Array) -> Array:
    """Check the loss, and return the cost of a wrong label in each example with `sizes` labels."""
    if loss not in get_args(LabelLoss):
        raise InvalidInputError(f"loss must be one of {get_args(LabelLoss)}, got {loss!r}.")
    return np.ones(sizes.size) if loss == "hamming" else 1.0 / sizes


def as_starts(lengths: Any, n_positions: int) -> Array:
    """Return the index at which each sequence starts, and the end of the last one, shape (m + 1,)."""
    lengths = as_integers("lengths", [n_positions] if lengths is None else lengths)
    if lengths.ndim != 1 or lengths.size == 0:
        raise InvalidInputError(f"lengths must be a vector of integers, got {lengths!r}.")
    if (lengths < 1).any():
        where = int(np.argmin(lengths))
        raise InvalidInputError(f"lengths[{where}] is {lengths[where]}; drop empty sequences.")
    if lengths.sum() != n_positions:
        raise InvalidInputError(
            f"lengths must sum to the number of rows of X, {n_positions}, but they sum to {lengths.sum()}."
        )
    return np.append(0, np.cumsum(lengths))


def stack(X: Any, y: Any = None, lengths: Any = None) -> tuple[Any, Any, Any]:
    """Return a matrix, a vector of labels and lengths, which may be given as lists of sequences."""
    if lengths is not None or not isinstance(X, list | tuple):
        return X, y, lengths
    X = [
        part if sparse.issparse(part) else as_real(f"X[{i}]", part, keep_float32=True)
        for i, part in enumerate(X)
    ]
    if not X or any(part.ndim != 2 for part in X):
        raise InvalidInputError("X must be a list of arrays of shape (length, n_features), at least one.")
    widths = {part.shape[1] for part in X}
    if len(widths) > 1:
        raise InvalidInputError(f"The sequences of X must have equally many columns, got {sorted(widths)}.")
    lengths = np.array([part.shape[0] for part in X])
    if y is not None:
        if len(y) != len(X) or any(_shape(b) != (n,) for n, b in zip(lengths, y, strict=True)):
            raise InvalidInputError("y must be a list with one label for each row of each sequence of X.")
        for i, part in enumerate(y):
            refuse_masked(f"y[{i}]", part)
        y = np.concatenate([np.asarray(part) for part in y])
    if any(sparse.issparse(part) for part in X):
        return sparse.vstack(X, format="csr"), y, lengths
    return np.concatenate(X), y, lengths


def _shape(part: Any) -> Any:
    try:
        return np.shape(part)
    except ValueError:
        return None  # ragged


@dataclass(frozen=True, eq=False)
class Sequences:
    """m checked sequences: rows X, `labels` of the smallest unsigned type, and the indices `starts`."""

    X: Any
    labels: Array
    starts: Array
    n_states: int

    @classmethod
    def of(cls, X: Any, y: Any, lengths: Any, n_states: Any) -> Sequences:
        """Check the input of a risk."""
        X, y, lengths = stack(X, y, lengths)
        X = as_csr_or_dense(X)
        labels, n_states = as_labels(y, X.shape[0], n_states, "n_states")
        starts = as_starts(lengths, X.shape[0])
        return cls(X, labels.astype(np.min_scalar_type(n_states - 1)), starts, n_states)

    @property
    def n_features(self) -> int:
        """The number of columns of X."""
        return self.X.shape[1]

    @property
    def dim(self) -> int:
        """The number of weights, states x features plus states x states."""
        return self.n_states * (self.n_features + self.n_states)

    def __len__(self) -> int:
        return self.starts.size - 1

    def part(self, low: int, high: int) -> Sequences:
        """Return the sequences low <= i < high."""
        rows, starts = slice(self.starts[low], self.starts[high]), self.starts[low : high + 1]
        return Sequences(self.X[rows], self.labels[rows], starts - starts[0], self.n_states)

    @cached_property
    def rows(self) -> tuple[Array, Array, Array, Array]:
        """X in the form for compiled passes."""
        return as_rows(self.X)

    @cached_property
    def work(self) -> Array:
        """The cumulative time for decoding the sequences in nanoseconds, shape (m + 1,)."""
        entries = (
            self.X.indptr if sparse.issparse(self.X) else np.arange(self.X.shape[0] + 1) * self.n_features
        )
        before = entries[self.starts] + self.starts * float(self.n_states)
        return PER_STATE * self.n_states * before

    def forests(self, costs: Array, weights: Array) -> Forests:
        """Return the sequences for compiled block steps, with costs of a wrong label and weights."""
        entries = self.X.nnz if sparse.issparse(self.X) else self.X.size
        return Forests(
            self.rows, _ALIKE, self.starts, CHAINS, self.labels, self.n_states,
            costs, weights, entries / self.labels.size, float(self.work[-1]),
        )  # fmt: skip

    @cached_property
    def chunks(self) -> Ranges:
        """Ranges of sequences, each for one thread."""
        return balanced_ranges(self.work, count_chunks(self.work[-1]))

    @cached_property
    def sums(self) -> Segments:
        """Ranges of sequences, each with its vector of sums."""
        return segments(np.array([0, len(self)]), self.work / self.n_states, self.dim)

    def split(self, w: Array) -> tuple[Array, Array]:
        """Split w into the emission weights, features x states, and the transition weights."""
        size = self.n_states * self.n_features
        emissions = w[:size].reshape(self.n_states, -1).T.copy()
        return emissions, w[size:].reshape(self.n_states, -1).copy()

    @cached_property
    def _row_sizes(self) -> Array:
        """The sums of the absolute entries of the rows of each sequence, shape (m,)."""
        if sparse.issparse(self.X):
            rows = np.asarray(abs(self.X).sum(axis=1)).ravel()
        else:
            parts = (self.X[i : i + _ROWS] for i in range(0, self.X.shape[0], _ROWS))
            rows = np.concatenate([np.abs(part).sum(axis=1, dtype=np.float64) for part in parts])
        return np.add.reduceat(rows, self.starts[:-1])

    def size_of_scores(self, w: Array, weights: Array) -> float:
        """Return a bound of the weighted sum of the absolute terms of scores."""
        size = self.n_states * self.n_features
        pairs = np.diff(self.starts) - 1.0
        emissions, transitions = (float(np.abs(part).max()) for part in (w[:size], w[size:]))
        return emissions * float(weights @ self._row_sizes) + transitions * float(weights @ pairs)

    def powers(self, w: Array) -> tuple[Any, ...]:
        """Return the weights w in the form for `likelihood_passes`."""
        emissions, transitions = self.split(w)
        top = float(transitions.max())
        powers = np.exp(transitions - top)
        return emissions, transitions, powers, transitions.T.copy(), powers.T.copy(), top

    def decode(self, w: Array, costs: Array, weights: Array) -> tuple[float, Array]:
        """Return the weighted sum of the largest violations, and the labellings that attain them.

        `costs` and `weights` are the cost of a wrong label in each sequence and the weight of the sequence.
        """
        from cutplane.structured.forest_passes import decode

        emissions, transitions = self.split(w)
        found, none = np.empty_like(self.labels), np.empty((1, 0))

        def do(part: tuple[int, int]) -> float:
            longest = int(np.diff(self.starts[part[0] : part[1] + 1]).max())
            return decode(
                self.rows, _ALIKE, self.starts, CHAINS, *part, emissions, transitions.reshape(1, -1),
                self.labels, costs, weights, *np.empty((2, longest, self.n_states)), none,
                np.empty(self.n_states), found,
            )  # fmt: skip

        return sum(run_chunks(do, self.chunks)), found

    def differences(self, terms: Iterable[tuple[Array, Array]]) -> Array:
        """Return the sum of the features of labellings minus the true features, shape (dim,).

        Each term is a labelling of all positions, and a factor for each sequence.
        """
        from cutplane.structured.forest_passes import add_differences

        plan, size = self.sums, self.n_states * self.n_features
        sums = plan.room(self.dim)
        sums.fill(0.0)
        terms = list(terms)

        def do(group: tuple[int, int]) -> None:
            for segment in range(*group):
                emissions = sums[segment, :size].reshape(self.n_states, -1)
                transitions = sums[segment, size : self.dim].reshape(self.n_states, -1)
                for found, factors in terms:
                    add_differences(
                        self.rows, self.starts, plan.edges[segment], plan.edges[segment + 1],
                        found, self.labels, factors, emissions, transitions,
                    )  # fmt: skip

        run_chunks(do, plan.groups)
        return plan.add_up(sums, self.dim)[0]


def as_csr_or_dense(X: Any) -> Any:
    """Check a matrix, and convert sparse ones to CSR; a view with gaps is copied."""
    X = contiguous(as_matrix(X))
    return X.tocsr() if sparse.issparse(X) and X.format != "csr" else X

"""The max-margin risk of multi-label classification, where outputs are sets of labels."""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations
from typing import Any, Self

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.capabilities import Capability
from cutplane.pieces.validation import Array, as_numbers, as_vector
from cutplane.risks.examples import describe
from cutplane.structured.graphs import Graphs, as_edges
from cutplane.structured.pairwise import PairwiseRisk
from cutplane.structured.risk import Decoder
from cutplane.structured.sequences import LabelLoss, as_csr_or_dense

_MOST = 1 << 16
"""Largest number of sets that are enumerated, because `GraphicalModel.map` is faster for more."""
_ROOM = 1 << 22
"""Number of scores of sets computed together, because they take 32 MiB."""


class MultilabelRisk(PairwiseRisk):
    """The mean over m examples of the largest violation of a margin, for sets of labels.

    The vector w contains a row of weights W[u] for each of L labels, and a weight V[u, v] for each pair of
    labels. The score of a set s, a vector of zeros and ones, is [1]_

        F_w(x, s) = sum_u s_u <x, W[u]> + sum_{(u, v)} V[u, v] s_u s_v.

    With the loss D, the number of wrong entries, the risk is

        f(w) = sum_i c_i max_s [D(y_i, s) + F_w(x_i, s) - F_w(x_i, y_i)].

    Without pairs, f is the sum over the labels of mean hinge losses.

    Parameters
    ----------
    X : ndarray or sparse array of shape (m, n)
    Y : array_like of shape (m, L)
        1 if an example has a label, else 0.
    pairs : "all", or array_like of int, shape (n_pairs, 2), default ()
        The pairs of labels that have a weight.
    loss : {"hamming", "share"}, default "hamming"
        The number of wrong labels of an example ("hamming"), or their fraction ("share").
    decoder : {"exact", "outer", "inner"}, default "exact"
        The decoder if the pairs contain cycles, as in `GraphRisk`. For up to 16 labels "exact" compares all
        sets.
    intercept : bool, default True
        Whether the scores are <x, W[u]> + b_u. Then b is the last column of W.
    sample_weight : array_like of shape (m,), optional
        Weights >= 0 of the examples, by default 1 each.
    normalize : bool, default True
        Whether the weights c are divided by their sum.

    Attributes
    ----------
    shape : tuple of int
        The shape of W.
    pairs : ndarray of shape (n_pairs, 2)

    Raises
    ------
    InvalidInputError
        If a shape is wrong, an entry is not finite, Y has entries other than 0 and 1, a pair is wrong or
        occurs twice, or a weight is negative.

    References
    ----------
    .. [1] T. Finley, T. Joachims, "Training structural SVMs when exact inference is intractable", ICML 2008,
       doi:10.1145/1390156.1390195.

    Examples
    --------
    Two labels that exclude each other:

    >>> import numpy as np, cutplane as cut
    >>> X, Y = np.array([[1.0], [-1.0], [0.2]]), [[1, 0], [0, 1], [1, 0]]
    >>> risk = cut.structured.MultilabelRisk(X, Y, pairs="all")
    >>> risk
    MultilabelRisk(3 x 1 dense float64, 2 labels, 1 pairs)
    >>> result = cut.Problem(risk, cut.L2(0.1)).solve(tol=1e-6)
    >>> print(round(result.objective, 4), cut.structured.best_sets(result.x, X, risk.pairs).tolist())
    0.3222 [[1, 0], [0, 1], [1, 0]]
    """

    per_example = "X", "weights", "costs"

    def __init__(
        self,
        X: Any,
        Y: Any,
        pairs: Any = (),
        loss: LabelLoss = "hamming",
        decoder: Decoder = "exact",
        intercept: bool = True,
        sample_weight: Any = None,
        normalize: bool = True,
    ):
        self.X = as_csr_or_dense(X)
        Y, m = as_numbers("Y", Y), self.X.shape[0]
        if Y.ndim != 2 or Y.shape[0] != m or Y.shape[1] < 1:
            raise InvalidInputError(
                f"Y must have shape ({m}, n_labels), a row for each row of X, got {Y.shape}."
            )
        if not np.isin(Y, (0, 1)).all():
            wrong = tuple(np.argwhere(~np.isin(Y, (0, 1)))[0].tolist())
            raise InvalidInputError(f"Y must contain zeros and ones, but Y[{wrong}] is {Y[wrong]}.")
        L = Y.shape[1]
        listed = list(combinations(range(L), 2)) if isinstance(pairs, str) and pairs == "all" else pairs
        self.pairs, self.intercept = as_edges(listed, L, "pairs"), bool(intercept)
        self.shape = L, self.X.shape[1] + self.intercept
        self.dim = L * self.shape[1] + len(self.pairs)
        edges = (self.pairs + L * np.arange(m)[:, np.newaxis, np.newaxis]).reshape(-1, 2)
        starts = L * np.arange(m + 1), len(self.pairs) * np.arange(m + 1)
        graphs = Graphs(Y.astype(np.int64).ravel(), starts[0], edges, starts[1], 2)
        self._set(graphs, loss, decoder, sample_weight, normalize)

    def _derive(self) -> None:
        super()._derive()
        L = self.shape[0]
        whole = bool(self.graphs.forests.all())
        self._compares = self.decoder == "exact" and not whole and 2**L <= _MOST
        self._together = whole or self._compares
        rows = np.asarray(abs(self.X).sum(axis=1)).ravel() + self.intercept
        self._size = L * float(self.weights @ rows), len(self.pairs) * float(self.weights.sum())

    @property
    def withheld(self) -> tuple[Capability, ...]:
        """The missing capabilities, block steps and estimates if decoding all at once is much faster."""
        together = (Capability.BLOCK_ASCENT, Capability.ON_DEMAND) if self._together else ()
        return *super().withheld, *together

    def part(self, low: int, high: int) -> Self:
        part = super().part(low, high)
        part._derive()
        return part

    def __repr__(self) -> str:
        decoder = "" if self.decoder == "exact" else f", {self.decoder} decoder"
        return f"MultilabelRisk({describe(self.X)}, {self.shape[0]} labels, {len(self.pairs)} pairs{decoder})"

    def cancelled(self, z: Array) -> float:
        W, V = self._split(z)
        return float(np.abs(W).max()) * self._size[0] + float(np.abs(V).max(initial=0.0)) * self._size[1]

    def scores(self, w: Array, low: int, high: int) -> tuple[Array, Array]:
        """Return the scores of the labels of the examples low <= i < high, and one table per pair."""
        W, V = self._split(w)
        single = self.X[low:high] @ W[:, : self.X.shape[1]].T
        unaries, pairs = np.zeros((single.size, 2)), np.zeros((V.size, 2, 2))
        unaries[:, 1] = (single + W[:, -1] if self.intercept else single).ravel()
        pairs[:, 1, 1] = V
        return unaries, pairs

    def features(self, nodes: Array, edges: Array, low: int, high: int) -> Array:
        single, L = nodes[:, 1].reshape(high - low, -1), self.shape[0]
        of_pairs = edges[:, 1, 1].reshape(high - low, -1).sum(axis=0)
        rows = np.empty(self.shape)
        rows[:, : self.X.shape[1]] = (self.X[low:high].T @ single).T.reshape(L, -1)
        if self.intercept:
            rows[:, -1] = single.sum(axis=0)
        return np.concatenate([rows.ravel(), of_pairs])

    def labellings(self, unaries: Array, pairs: Array, low: int, high: int) -> Array:
        """Return sets of largest score, by comparing all sets if there are few."""
        if not self._compares:
            return super().labellings(unaries, pairs, low, high)
        return self._compared(unaries, pairs)

    def _compared(self, unaries: Array, pairs: Array) -> Array:
        sets = _all_sets(self.shape[0])
        single = (unaries[:, 1] - unaries[:, 0]).reshape(-1, self.shape[0])
        together = np.zeros((self.shape[0], self.shape[0]))
        together[tuple(np.sort(self.pairs, axis=1).T)] = pairs[:, 1, 1]
        of_pairs = np.zeros(1)
        for u, column in enumerate(together.T):  # the sets whose last label is u are last
            of_pairs = np.append(of_pairs, of_pairs + sets[: of_pairs.size, :u] @ column[:u])
        height = max(1, _ROOM // len(sets))
        best = [
            np.argmax(single[i : i + height] @ sets.T + of_pairs, axis=1)
            for i in range(0, len(single), height)
        ]
        return sets[np.concatenate(best)].ravel().astype(np.int64)

    def _split(self, w: Array) -> tuple[Array, Array]:
        size = self.shape[0] * self.shape[1]
        return w[:size].reshape(self.shape), w[size:]


def best_sets(w: Any, X: Any, pairs: Any = (), decoder: Decoder = "exact", intercept: bool = True) -> Array:
    """Return the sets of labels with the largest scores.

    Parameters
    ----------
    w : array_like of shape (dim,)
        The weights, as in `MultilabelRisk`.
    X : ndarray or sparse array of shape (m, n)
    pairs : array_like of int, shape (n_pairs, 2), default ()
        The pairs of labels that have a weight; `MultilabelRisk.pairs`.
    decoder : {"exact", "outer", "inner"}, default "exact"
        "outer" is replaced by "exact", because the answers of an outer decoder are not sets.
    intercept : bool, default True

    Returns
    -------
    ndarray of int, shape (m, L)
        Zeros and ones.

    Raises
    ------
    InvalidInputError
        If a shape is wrong.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.structured import best_sets
    >>> best_sets([1.0, -1.0, -3.0], np.array([[1.0], [-1.0]]), [[0, 1]], intercept=False).tolist()
    [[1, 0], [0, 1]]
    """
    w, X, count = as_vector("w", w), as_csr_or_dense(X), len(pairs)
    m, width = X.shape[0], X.shape[1] + bool(intercept)
    L = (w.size - count) // width
    if L < 1 or L * width + count != w.size:
        raise InvalidInputError(
            f"w has {w.size} entries, but L labels and {count} pairs need L * {width} + {count} entries."
        )
    kind = "inner" if decoder == "inner" else "exact"
    risk = MultilabelRisk(X, np.zeros((m, L), dtype=np.int64), pairs, "hamming", kind, intercept)
    parts = [risk.labellings(*risk.scores(w, *chunk), *chunk) for chunk in risk.graphs.chunks]
    return np.concatenate(parts).reshape(m, -1)


@lru_cache(2)
def _all_sets(n_labels: int) -> Array:
    """Return all vectors of zeros and ones, shape (2^L, L)."""
    return ((np.arange(2**n_labels)[:, np.newaxis] >> np.arange(n_labels)) & 1).astype(np.float64)

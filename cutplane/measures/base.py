"""The interface of a performance measure of scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import Array

_ROOM = 1 << 18
"""Tables that are looked at together: 2 MB, which a cache holds."""


class Measure(ABC):
    """A loss Delta(y, v) of labelling v, or of ordering as v does, examples whose labels are y.

    `MeasureRisk` makes it convex: it asks for the v that is largest in Delta(y, v) plus a linear function of
    the scores. A measure that depends on the numbers of true and false positives alone is a `TableMeasure`,
    which does the search; any other implements it.

    Attributes
    ----------
    ranks : bool
        Whether the order of the scores alone matters, so that a constant added to all of them means nothing.
    black_box : bool
        Whether mistakes are looked for by a few questions at the end of a solve; False for a measure that is
        known to be right.
    """

    ranks: bool = False
    black_box: bool = True

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @abstractmethod
    def most_violated(self, scores: Array, positive: Array) -> tuple[float, Array]:
        """Return Delta(y, v) and u for a v at which Delta(y, v) + <u, scores> is largest.

        Parameters
        ----------
        scores : ndarray of shape (m,)
        positive : ndarray of bool of shape (m,)
            The labels y; at least one of either kind.

        Returns
        -------
        loss : float
        u : ndarray of shape (m,)
        """

    def predicted(self, positives: int, negatives: int) -> int | None:
        """Return how many examples every labelling calls positive; None if that is free."""
        return None

    def infimum(self, positives: int, negatives: int) -> float:
        """Return what the largest sum is at least, whatever the scores: Delta(y, y) if v = y is possible."""
        return -np.inf


class TableMeasure(Measure):
    """A loss Delta(a, b) of the contingency table: a true positives and b false positives.

    Of the labellings with this table the worst one labels the b negatives with the largest scores and the a
    positives with the largest scores as positive, so that the search is one over tables [1]_.

    A subclass implements `loss`. With a number of predicted positives that is fixed (`predicted`) the search
    takes O(m) operations beside the sort of the scores; with `concave` set O(P log N), for P positives and N
    negatives; else O(P N), which is for some thousand examples. If the number of predicted positives is fixed
    and is not P, y is not among the labellings, and their mean with the best table takes its place [2]_.

    Attributes
    ----------
    concave : bool
        Whether Delta(a, b) is concave in b for every a, as b -> -1 / (c + b) is, and every linear function.
        `cutplane.testing.check_risk` finds out if it is not.

    References
    ----------
    .. [1] T. Joachims, "A support vector method for multivariate performance measures", ICML 2005,
       doi:10.1145/1102351.1102399.
    .. [2] P. Kar, H. Narasimhan, P. Jain, "Surrogate functions for maximizing precision at the top", ICML
       2015, https://arxiv.org/abs/1505.06813.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> class BalancedError(cut.measures.TableMeasure):
    ...     concave = True
    ...
    ...     def loss(self, true_positives, false_positives, positives, negatives):
    ...         return 0.5 * (1 - true_positives / positives) + 0.5 * false_positives / negatives
    >>> risk = cut.MeasureRisk(np.array([[-1.0], [-2.0], [4.0]]), [-1, -1, 1], BalancedError())
    >>> risk(np.zeros(1)), round(risk(np.array([0.3])), 6)
    (1.0, 0.05)
    """

    concave: bool = False

    @abstractmethod
    def loss(self, true_positives: Any, false_positives: Any, positives: int, negatives: int) -> Any:
        """Return Delta, finite, for arrays of the two counts that broadcast against each other."""

    def infimum(self, positives: int, negatives: int) -> float:
        """Return the loss of the labels, or of the best labellings that are compared."""
        a, b = self._best(positives, negatives)
        return float(self.loss(np.array([a]), np.array([b]), positives, negatives)[0])

    def most_violated(self, scores: Array, positive: Array) -> tuple[float, Array]:
        """Return the loss of the worst labelling v, and 2 (v - r) / m for labels 0 and 1.

        r are the labels; or, where they are not among the labellings that are compared, the mean of the best.
        """
        from cutplane.measures.passes import order_within

        m = scores.size
        P = int(positive.sum())
        N = m - P
        order = order_within(scores, positive.astype(np.int64), np.array([0, N, m]))
        negatives, positives = order[:N][::-1], order[N:][::-1]
        a, b = self._worst(2.0 / m * scores[negatives], 2.0 / m * scores[positives])
        loss = float(self.loss(np.array([a]), np.array([b]), P, N)[0])
        if not np.isfinite(loss):
            raise InvalidInputError(
                f"{self!r}.loss is {loss} with {a} true and {b} false positives among {P} positives and "
                f"{N} negatives; it must be finite."
            )
        best = self._best(P, N)
        u = np.where(positive, -best[0] / P, -best[1] / N)
        u[positives[:a]] += 1.0
        u[negatives[:b]] += 1.0
        return loss, 2.0 / m * u

    def _best(self, positives: int, negatives: int) -> tuple[int, int]:
        """Return the table of the best labellings."""
        k = self.predicted(positives, negatives)
        return (positives, 0) if k is None else (min(k, positives), max(0, k - positives))

    def _worst(self, negatives: Array, positives: Array) -> tuple[int, int]:
        """Return the a and b of the largest loss plus the first a of the positives and b of the negatives."""
        N, P = negatives.size, positives.size
        false, true = (np.append(0.0, np.cumsum(scores)) for scores in (negatives, positives))
        k = self.predicted(P, N)
        if k is not None:
            a = np.arange(max(0, k - N), min(P, k) + 1)
            best = int(np.argmax(self.loss(a, k - a, P, N) + true[a] + false[k - a]))
            return int(a[best]), k - int(a[best])
        a = np.arange(P + 1)
        if self.concave:
            b = self._best_for_each(a, negatives, P)
            best = int(np.argmax(self.loss(a, b, P, N) + true + false[b]))
            return best, int(b[best])
        found = []
        together = max(1, _ROOM // (N + 1))
        for rows in (a[start : start + together] for start in range(0, P + 1, together)):
            sums = self.loss(rows[:, np.newaxis], np.arange(N + 1), P, N) + true[rows, np.newaxis] + false
            best = int(np.argmax(sums))
            found.append((sums.flat[best], rows[0] + best // (N + 1), best % (N + 1)))
        _, a, b = max(found)
        return int(a), int(b)

    def _best_for_each(self, a: Array, gains: Array, P: int) -> Array:
        """Return the best number of false positives for each number of true ones: until the sum falls."""
        N = gains.size
        bits = N.bit_length()
        gains = np.append(gains, np.full((1 << bits) - N, -np.inf))
        b = np.zeros_like(a)
        for k in reversed(range(bits)):
            last = b + ((1 << k) - 1)
            after = self.loss(a, np.minimum(last + 1, N), P, N)
            b += (after - self.loss(a, np.minimum(last, N), P, N) + gains[last] > 0.0).astype(b.dtype) << k
        return b

"""The interface of a performance measure of scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import Array

_ROOM = 1 << 20
"""Tables that are looked at together: their losses stay in cache."""


class Measure(ABC):
    """A loss Delta(y, v) of labelling v, or of ordering as v does, examples whose labels are y.

    `MeasureRisk` makes it convex: it asks for the v that is largest in Delta(y, v) plus a linear function of
    the scores. A measure that depends on the numbers of true and false positives alone is a `TableMeasure`,
    which does the search; any other implements it.

    Attributes
    ----------
    ranks : bool
        Whether the order of the scores alone matters, so that a constant added to all of them means nothing.
    """

    ranks: bool = False

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
            A function of v that is zero at v = y.
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
    negatives; else O(P N), which is for some thousand examples.

    Attributes
    ----------
    concave : bool
        Whether Delta(a, b) is concave in b for every a, as b -> -1 / (c + b) is, and every linear function.
        `cutplane.testing.check_risk` finds out if it is not.

    References
    ----------
    .. [1] T. Joachims, "A support vector method for multivariate performance measures", ICML 2005,
       doi:10.1145/1102351.1102399.

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
        """Return the loss of the labels themselves, if they are possible."""
        if self.predicted(positives, negatives) not in (None, positives):
            return -np.inf
        return float(self.loss(np.array([positives]), np.array([0]), positives, negatives)[0])

    def most_violated(self, scores: Array, positive: Array) -> tuple[float, Array]:
        """Return the loss of the worst labelling, and (v - y) / m with labels v and y of -1 and 1."""
        from cutplane.measures.passes import order_within

        m = scores.size
        N = m - int(positive.sum())
        order = order_within(scores, positive.astype(np.int64), np.array([0, N, m]))
        negatives, positives = order[:N][::-1], order[N:]
        gains, costs = (2.0 / m * scores[group] for group in (negatives, positives))
        a, b = self._worst(gains, costs)
        loss = float(self.loss(np.array([a]), np.array([b]), m - N, N)[0])
        if not np.isfinite(loss):
            raise InvalidInputError(
                f"{self!r}.loss is {loss} with {a} true and {b} false positives among {m - N} positives and "
                f"{N} negatives; it must be finite."
            )
        u = np.zeros(m)
        u[negatives[:b]] = 2.0 / m
        u[positives[: m - N - a]] = -2.0 / m
        return loss, u

    def _worst(self, gains: Array, costs: Array) -> tuple[int, int]:
        """Return the table of the largest loss plus the first b gains less the first P - a costs."""
        N, P = gains.size, costs.size
        above, left_out = (np.append(0.0, np.cumsum(numbers)) for numbers in (gains, costs))
        below = -left_out[::-1]
        k = self.predicted(P, N)
        if k is not None:
            a = np.arange(max(0, k - N), min(P, k) + 1)
            best = int(np.argmax(self.loss(a, k - a, P, N) + below[a] + above[k - a]))
            return int(a[best]), k - int(a[best])
        a = np.arange(P + 1)
        if self.concave:
            b = self._best_for_each(a, gains, P)
            best = int(np.argmax(self.loss(a, b, P, N) + below + above[b]))
            return best, int(b[best])
        found = []
        for rows in np.array_split(a, max(1, (P + 1) * (N + 1) // _ROOM)):
            sums = self.loss(rows[:, np.newaxis], np.arange(N + 1), P, N) + below[rows, np.newaxis] + above
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

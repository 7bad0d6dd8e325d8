"""Performance measures of scores, and the search for their most violated labelling."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import Array, as_count, as_positive

_ROOM = 1 << 18
"""Number of contingency tables that are compared in one call, because 2 MB fit into the cache."""


class Measure(ABC):
    """A loss Delta(y, v) of a prediction v (a labelling or an order) for examples with the labels y.

    `MeasureRisk` is a convex upper bound: the maximum over v of Delta(y, v) plus a linear function of the
    scores. A measure that depends only on the numbers of true and false positives is a `TableMeasure`, which
    implements the search for v. Any other measure implements `most_violated`.

    Attributes
    ----------
    ranks : bool
        Whether the measure depends only on the order of the scores, so that adding a constant to all scores
        does not change it.
    black_box : bool
        Whether a few queries at the end of a solve test the search for mistakes.
    """

    ranks: bool = False
    black_box: bool = True

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @abstractmethod
    def most_violated(self, scores: Array, positive: Array) -> tuple[float, Array]:
        """Return Delta(y, v) and u for a v that maximises Delta(y, v) + <u, scores>.

        Parameters
        ----------
        scores : ndarray of shape (m,)
        positive : ndarray of bool of shape (m,)
            The labels y; at least one True and one False.

        Returns
        -------
        loss : float
        u : ndarray of shape (m,)
        """

    def predicted(self, positives: int, negatives: int) -> int | None:
        """Return the number of positives in every labelling v; None if it is not fixed."""
        return None

    def infimum(self, positives: int, negatives: int) -> float:
        """Return a lower bound of the risk over all scores; for example Delta(y, y) if v = y is possible."""
        return -np.inf


class TableMeasure(Measure):
    """A loss Delta(a, b) of the contingency table with a true positives and b false positives.

    The worst labelling with a given table labels as positive the a positives and the b negatives with the
    largest scores. Therefore only tables are searched (Joachims 2005, 10.1145/1102351.1102399).

    A subclass implements `loss`. After the scores are sorted, the search takes O(m) operations if the number
    of predicted positives is fixed (`predicted`). Otherwise it takes O(P log N) for P positives and N
    negatives if `concave`, else O(P N), which is affordable for some thousand examples. If the number of
    predicted positives is fixed and is not P, y is not among the labellings, and the mean of the labellings
    with the best table replaces it (Kar, Narasimhan, Jain 2015, arxiv.org/abs/1505.06813).

    Attributes
    ----------
    concave : bool
        Whether Delta(a, b) is concave in b for every a; for example linear functions and b -> -1 / (c + b)
        are. `cutplane.testing.check_risk` tests it.

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
        """Return Delta(a, b), finite, for arrays of both counts that numpy can broadcast."""

    def infimum(self, positives: int, negatives: int) -> float:
        a, b = self._best(positives, negatives)
        return float(self.loss(np.array([a]), np.array([b]), positives, negatives)[0])

    def most_violated(self, scores: Array, positive: Array) -> tuple[float, Array]:
        """Return the loss of the worst labelling v, and 2 (v - r) / m, where v has the entries 0 and 1.

        The reference r is y, also with entries 0 and 1, or the mean of the best labellings if y is not a
        possible labelling.
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
        k = self.predicted(positives, negatives)
        return (positives, 0) if k is None else (min(k, positives), max(0, k - positives))

    def _worst(self, negatives: Array, positives: Array) -> tuple[int, int]:
        """Return a and b that maximise the loss plus the first a of `positives` and b of `negatives`."""
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
        """Return the best number b of false positives for each a, by binary search on the concave loss."""
        N = gains.size
        bits = N.bit_length()
        gains = np.append(gains, np.full((1 << bits) - N, -np.inf))
        b = np.zeros_like(a)
        for k in reversed(range(bits)):
            last = b + ((1 << k) - 1)
            after = self.loss(a, np.minimum(last + 1, N), P, N)
            b += (after - self.loss(a, np.minimum(last, N), P, N) + gains[last] > 0.0).astype(b.dtype) << k
        return b


@dataclass(frozen=True)
class FBeta(TableMeasure):
    """1 - F, where F = (1 + beta^2) a / (a + b + beta^2 P) is a harmonic mean of precision and recall.

    a of the P positives and b of the negatives are labelled as positive.

    Parameters
    ----------
    beta : float, default 1.0
        The weight of recall relative to precision, greater than 0.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> float(cut.measures.FBeta().loss(np.array(3), np.array(2), 4, 10))
    0.33333333333333337
    """

    beta: float = 1.0
    concave = True
    black_box = False

    def __post_init__(self) -> None:
        as_positive("FBeta.beta", self.beta)

    def loss(self, true_positives: Any, false_positives: Any, positives: int, negatives: int) -> Any:
        weight = self.beta * self.beta
        labelled = true_positives + false_positives + weight * positives
        return 1.0 - (1.0 + weight) * true_positives / labelled


@dataclass(frozen=True)
class PrecisionAt(TableMeasure):
    """1 - a / k: the share of negatives among the k examples with the largest scores.

    All labellings with k positives are compared with y if k = P. Otherwise they are compared with the mean of
    the best labellings, which label as positive k of the P positives, or all of them and k - P negatives (see
    `TableMeasure`). If k is much less than P, y is no good reference, because it would require large scores
    of all positives. Training with k = P, which is `PrecisionRecallBreakEven`, often gives a better precision
    at a small k, too.

    Parameters
    ----------
    k : int
        At least 1, at most the number of examples.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> float(cut.measures.PrecisionAt(4).loss(np.array(3), np.array(1), 10, 10))
    0.25
    """

    k: int
    ranks = True
    black_box = False

    def __post_init__(self) -> None:
        as_count(f"{type(self).__name__}.k", self.k)

    def loss(self, true_positives: Any, false_positives: Any, positives: int, negatives: int) -> Any:
        return 1.0 - true_positives / self.k

    def predicted(self, positives: int, negatives: int) -> int:
        if self.k > positives + negatives:
            raise InvalidInputError(
                f"{self!r} needs at least {self.k} examples, got {positives + negatives}; pass a smaller k."
            )
        return self.k


@dataclass(frozen=True)
class RecallAt(PrecisionAt):
    """1 - a / P: the share of the P positives that are not among the k examples with the largest scores.

    It is at least 1 - k / P. The labellings are compared with the same reference as in `PrecisionAt`.

    Parameters
    ----------
    k : int
        At least 1, at most the number of examples.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> float(cut.measures.RecallAt(4).loss(np.array(3), np.array(1), 10, 10))
    0.7
    """

    def loss(self, true_positives: Any, false_positives: Any, positives: int, negatives: int) -> Any:
        return 1.0 - true_positives / positives


@dataclass(frozen=True)
class PrecisionRecallBreakEven(TableMeasure):
    """1 - a / P with P examples labelled as positive, so that precision and recall are equal.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> float(cut.measures.PrecisionRecallBreakEven().loss(np.array(3), np.array(1), 4, 10))
    0.25
    """

    ranks = True
    black_box = False

    def loss(self, true_positives: Any, false_positives: Any, positives: int, negatives: int) -> Any:
        return 1.0 - true_positives / positives

    def predicted(self, positives: int, negatives: int) -> int:
        return positives


@dataclass(frozen=True)
class RocArea(Measure):
    """1 - the area under the ROC curve: the share of pairs of a positive and a negative in the wrong order.

    Its risk is the mean hinge loss of the differences of scores of all such pairs, like a `RankingRisk` of
    one query with two levels. The search takes O(m) operations after a sort.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> X, y = np.array([[1.0], [2.0], [4.0]]), [-1, -1, 1]
    >>> round(cut.MeasureRisk(X, y, cut.measures.RocArea())(np.array([0.4])), 6)
    0.1
    """

    ranks = True
    black_box = False

    def most_violated(self, scores: Array, positive: Array) -> tuple[float, Array]:
        from cutplane.measures.passes import order_within, wrong_pairs

        m, P = scores.size, int(positive.sum())
        labels, starts = positive.astype(np.int64), np.array([0, m])
        order = order_within(scores, np.zeros(m, np.int64), starts)
        u = np.empty(m)
        costs = np.zeros((2, 2, 2))
        costs[0, 0, 1] = costs[1, 1, 0] = 1.0
        wrong = wrong_pairs(scores, order, starts, labels, 2, costs, 0, 1, u)
        pairs = float(P) * (m - P)
        return wrong / pairs, u / pairs

    def infimum(self, positives: int, negatives: int) -> float:
        return 0.0

"""The area under the ROC curve."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cutplane.measures.base import Measure
from cutplane.pieces.validation import Array

_COSTS = np.array([[[0.0, 1.0], [0.0, 0.0]], [[0.0, 0.0], [1.0, 0.0]]])


@dataclass(frozen=True)
class RocArea(Measure):
    """1 - the area under the ROC curve: the share of the pairs of a positive and a negative in wrong order.

    Its risk is the mean hinge loss of the differences of scores of all such pairs, that of a `RankingRisk` of
    one query with two levels. The search takes O(m) operations beside a sort.

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
        """Return the share of the pairs with a positive loss, and the slope of their losses in the scores."""
        from cutplane.measures.passes import order_within, wrong_pairs

        m, P = scores.size, int(positive.sum())
        labels, starts = positive.astype(np.int64), np.array([0, m])
        order = order_within(scores, np.zeros(m, np.int64), starts)
        u = np.empty(m)
        wrong = wrong_pairs(scores, order, starts, labels, 2, _COSTS, 0, 1, u)
        pairs = float(P) * (m - P)
        return wrong / pairs, u / pairs

    def infimum(self, positives: int, negatives: int) -> float:
        """Return 0."""
        return 0.0

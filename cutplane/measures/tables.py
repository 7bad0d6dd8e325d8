"""Measures of the contingency table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cutplane.exceptions import InvalidInputError
from cutplane.measures.base import TableMeasure
from cutplane.pieces.validation import as_count, as_positive


@dataclass(frozen=True)
class FBeta(TableMeasure):
    """1 - F, with F = (1 + beta^2) a / (a + b + beta^2 P): a harmonic mean of precision and recall.

    a of the P positives and b negatives are labelled as positive.

    Parameters
    ----------
    beta : float, default 1.0
        Greater than 0: how many times as much recall counts as precision.

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
        """Return 1 - F."""
        weight = self.beta * self.beta
        labelled = true_positives + false_positives + weight * positives
        return 1.0 - (1.0 + weight) * true_positives / labelled


@dataclass(frozen=True)
class PrecisionAt(TableMeasure):
    """1 - a / k: the share of negatives among the k examples with the largest scores.

    All labellings with k positives are compared with y or, if it is none of them, with the mean of the best
    ones [1]_: k of the P positives, or all of them and k - P negatives. With y itself, as in [2]_, the risk
    of a k that is much less than P rewards nothing but large scores of all positives. Training for k = P, for
    which there is `PrecisionRecallBreakEven`, often gives the better precision at a small k too.

    Parameters
    ----------
    k : int
        At least 1, at most the number of examples.

    References
    ----------
    .. [1] P. Kar, H. Narasimhan, P. Jain, "Surrogate functions for maximizing precision at the top", ICML
       2015, https://arxiv.org/abs/1505.06813.
    .. [2] T. Joachims, "A support vector method for multivariate performance measures", ICML 2005,
       doi:10.1145/1102351.1102399.

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
        """Return 1 - a / k."""
        return 1.0 - true_positives / self.k

    def predicted(self, positives: int, negatives: int) -> int:
        """Return k."""
        if self.k > positives + negatives:
            raise InvalidInputError(
                f"{self!r} needs at least {self.k} examples, got {positives + negatives}; pass a smaller k."
            )
        return self.k


@dataclass(frozen=True)
class RecallAt(PrecisionAt):
    """1 - a / P: the share of the P positives that are not among the k examples with the largest scores.

    It is at least 1 - k / P. What the labellings are compared with is that of `PrecisionAt`.

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
        """Return 1 - a / P."""
        return 1.0 - true_positives / positives


@dataclass(frozen=True)
class PrecisionRecallBreakEven(TableMeasure):
    """1 - a / P with as many examples labelled as positive as there are positives: precision is recall then.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> float(cut.measures.PrecisionRecallBreakEven().loss(np.array(3), np.array(1), 4, 10))
    0.25
    """

    ranks = True
    black_box = False

    def loss(self, true_positives: Any, false_positives: Any, positives: int, negatives: int) -> Any:
        """Return 1 - a / P."""
        return 1.0 - true_positives / positives

    def predicted(self, positives: int, negatives: int) -> int:
        """Return P."""
        return positives

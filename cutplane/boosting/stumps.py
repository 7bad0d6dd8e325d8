"""Decision stumps: the best split of one feature, exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from cutplane.boosting.ensemble import column
from cutplane.boosting.sorted_features import SortedFeatures, sort_features
from cutplane.boosting.weak_learner import TIE, as_signs, first_within_tie
from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import Array, as_vector
from cutplane.risks.chunks import balanced_ranges, count_chunks
from cutplane.risks.matrix import as_matrix
from cutplane.runtime.threads import run_chunks


@dataclass(frozen=True)
class Stump:
    """h(x) = sign if x_feature > threshold, else -sign; the constant `sign` if the threshold is -inf.

    Parameters
    ----------
    feature : int
        Number of the column.
    threshold : float
        Compared in float64, whatever the type of the data.
    sign : {1, -1}

    Examples
    --------
    >>> import numpy as np
    >>> stump = Stump(1, 0.5, -1)
    >>> stump
    Stump(-1 if x[1] > 0.5 else +1)
    >>> stump.predict(np.array([[9.0, 0.0], [9.0, 1.0]])).tolist()
    [1.0, -1.0]
    """

    feature: int
    threshold: float
    sign: int

    def predict(self, X: Any) -> Array:
        """Return the class of each row of X, shape (n,): -1.0 or +1.0.

        Raises
        ------
        InvalidInputError
            If X lacks the feature, or holds NaN there.
        """
        x = column(X, self.feature)
        if self.threshold == -math.inf:
            return np.full(x.size, float(self.sign))
        if np.isnan(x).any():
            i = int(np.argmax(np.isnan(x)))
            raise InvalidInputError(f"X[{i}, {self.feature}] is nan, but {self} splits there; impute it.")
        return np.where(x > np.float64(self.threshold), float(self.sign), -float(self.sign))

    def __repr__(self) -> str:
        if self.threshold == -math.inf:
            return f"Stump({self.sign:+d})"
        return f"Stump({self.sign:+d} if x[{self.feature}] > {self.threshold:g} else {-self.sign:+d})"


@dataclass(frozen=True)
class DecisionStumps:
    """All decision stumps: sign * (+1 if x_j > threshold else -1), and the constants -1 and +1.

    Every feature j, every threshold between two different values of it, and both signs. Binding sorts each
    feature once; then the stump with the largest edge is found exactly, in one pass over the sorted features:

        max over j, threshold, sign of   sum_i d_i y_i sign (+1 if x_ij > threshold else -1).

    Among those within 1e-12 of the largest edge the constants come first, then the lowest feature, the lowest
    threshold, and the sign +1, so that the answer depends neither on the number of threads nor on the layout
    of the data. Thresholds are half way between neighbouring values.

    Notes
    -----
    Dense float32 and float64 data of any memory order and sparse CSR and CSC data are referred to and not
    copied. The sorted features take 4 bytes per entry that is not zero; zeros are one group, which costs
    nothing.

    References
    ----------
    W. Iba, P. Langley, "Induction of one-level decision trees", ICML 1992,
    https://doi.org/10.1016/B978-1-55860-247-2.50035-8.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.boosting.stumps import DecisionStumps
    >>> X, y = np.array([[1.0, 5.0], [2.0, 3.0], [4.0, 4.0]]), np.array([-1.0, 1.0, 1.0])
    >>> stump, margins = DecisionStumps().bind(X, y).best(np.array([0.5, 0.25, 0.25]))
    >>> stump, margins.tolist()
    (Stump(+1 if x[0] > 1.5 else -1), [1.0, 1.0, 1.0])
    """

    def bind(self, X: Any, y: Array) -> BoundStumps:
        """Sort the features of X, of at most 2^31 rows, and return the oracle of edges."""
        X = as_matrix(X)
        y = as_signs(y, X.shape[0])
        return BoundStumps(y, sort_features(X))


@dataclass(frozen=True, eq=False)
class BoundStumps:
    """The stump with the largest edge on given examples."""

    y: Array
    features: SortedFeatures
    exact = True

    def best(self, d: Array) -> tuple[Stump, Array]:
        """Return the stump with the largest edge, and its margins."""
        from cutplane.boosting import stump_passes as stump_kernels

        u = as_vector("d", d, self.y.size) * self.y
        total = float(u.sum())
        codes, starts, middles = self.features.codes, self.features.starts, self.features.middles
        edges = np.empty(middles.size)
        run_chunks(
            lambda part: stump_kernels.largest_edges(codes, starts, middles, u, total, *part, edges),
            balanced_ranges(starts, count_chunks(float(starts[-1]))),
        )
        largest = max(abs(total), float(edges.max()))
        bar = largest - TIE
        if abs(total) >= bar:
            sign = 1 if total >= bar else -1
            return Stump(0, -math.inf, sign), sign * self.y
        j = first_within_tie(edges, largest)
        k, edge = stump_kernels.lowest_split(codes, starts[j], middles[j], starts[j + 1], u, total, bar)
        sign = 1 if edge >= bar else -1
        outputs = np.where(self.features.above(j, int(k)), float(sign), -float(sign))
        return Stump(j, self.features.threshold(j, int(k)), sign), outputs * self.y

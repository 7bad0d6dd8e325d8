"""Decision stumps: the exact best split of a single feature, from features that are sorted once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.boosting.weak_learner import TIE, column
from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import Array, as_signs, as_vector
from cutplane.risks.matrix import as_matrix, tiles
from cutplane.runtime.chunks import balanced_ranges, count_chunks
from cutplane.runtime.threads import run_chunks

LAST = np.uint32(1 << 31)
EXAMPLE = np.uint32((1 << 31) - 1)
_CHUNK = 1 << 18
"""Least number of entries that a thread sorts, because starting a thread takes longer than sorting fewer."""
_MOST_EXAMPLES = 1 << 31
"""Largest number of examples, because a code has 31 bits for the index of an example."""


@dataclass(frozen=True)
class Stump:
    """h(x) = sign if x_feature > threshold, else -sign; the constant `sign` if the threshold is -inf.

    Parameters
    ----------
    feature : int
        Index of the column.
    threshold : float
        Compared in float64 for all types of data.
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
            If X lacks the feature, or the feature contains NaN.
        """
        x = column(X, self.feature)
        if self.threshold == -math.inf:
            return np.full(x.size, float(self.sign))
        if np.isnan(x).any():
            i = int(np.argmax(np.isnan(x)))
            raise InvalidInputError(
                f"X[{i}, {self.feature}] is nan, but {self} splits this feature; impute it."
            )
        return np.where(x > np.float64(self.threshold), float(self.sign), -float(self.sign))

    def __repr__(self) -> str:
        if self.threshold == -math.inf:
            return f"Stump({self.sign:+d})"
        return f"Stump({self.sign:+d} if x[{self.feature}] > {self.threshold:g} else {-self.sign:+d})"


@dataclass(frozen=True)
class DecisionStumps:
    """The weak learner of all decision stumps, sign * (+1 if x_j > threshold else -1), and of -1 and +1.

    The hypotheses have every feature j, every threshold between two different values of the feature, and both
    signs. `bind` sorts each feature once. Then one pass over the sorted features finds the stump with the
    largest edge exactly:

        max over j, threshold, sign of   sum_i d_i y_i sign (+1 if x_ij > threshold else -1).

    Among hypotheses within 1e-12 of the largest edge, constants are preferred, then the lowest feature, the
    lowest threshold, and the sign +1. Therefore the answer depends neither on the number of threads nor on
    the layout of the data. Thresholds are midpoints of neighbouring values.

    Notes
    -----
    Dense float32 and float64 data in any memory order and sparse CSR and CSC data are not copied. The sorted
    features take 4 bytes per nonzero entry. Zeros need no memory, because they are one group of equal values.

    References
    ----------
    W. Iba, P. Langley, "Induction of one-level decision trees", ICML 1992,
    https://doi.org/10.1016/B978-1-55860-247-2.50035-8.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.boosting import DecisionStumps
    >>> X, y = np.array([[1.0, 5.0], [2.0, 3.0], [4.0, 4.0]]), np.array([-1.0, 1.0, 1.0])
    >>> stump, margins = DecisionStumps().bind(X, y).best(np.array([0.5, 0.25, 0.25]))
    >>> stump, margins.tolist()
    (Stump(+1 if x[0] > 1.5 else -1), [1.0, 1.0, 1.0])
    """

    def bind(self, X: Any, y: Array) -> BoundStumps:
        """Sort the features of X, which has at most 2^31 rows, and return the edge oracle."""
        X = as_matrix(X)
        y = as_signs("DecisionStumps", as_vector("y", y, X.shape[0]))
        return BoundStumps(y, sort_features(X))


@dataclass(frozen=True, eq=False)
class BoundStumps:
    """The edge oracle of `DecisionStumps` on given examples."""

    y: Array
    features: SortedFeatures
    exact = True

    def best(self, d: Array) -> tuple[Stump, Array]:
        """Return the stump with the largest edge, and its margins."""
        from cutplane.boosting import stump_passes

        u = as_vector("d", d, self.y.size) * self.y
        total = float(u.sum())
        codes, starts, middles = self.features.codes, self.features.starts, self.features.middles
        edges = np.empty(middles.size)
        run_chunks(
            lambda part: stump_passes.largest_edges(codes, starts, middles, u, total, *part, edges),
            balanced_ranges(starts, count_chunks(float(starts[-1]))),
        )
        bar = max(abs(total), float(edges.max())) - TIE
        if abs(total) >= bar:
            sign = 1 if total >= bar else -1
            return Stump(0, -math.inf, sign), sign * self.y
        j = int(np.argmax(edges >= bar))
        k, edge = stump_passes.lowest_split(codes, starts[j], middles[j], starts[j + 1], u, total, bar)
        sign = 1 if edge >= bar else -1
        outputs = np.where(self.features.above(j, int(k)), float(sign), -float(sign))
        return Stump(j, self.features.threshold(j, int(k)), sign), outputs * self.y


@dataclass(frozen=True, eq=False)
class SortedFeatures:
    """The examples in the order of each feature; zeros are one group and need no memory.

    Attributes
    ----------
    X : ndarray or sparse array of shape (m, n)
    codes : ndarray of uint32
        The indices of the examples with nonzero entries, feature after feature. The highest bit marks the
        last of several equal values, counted from the nearer end of the feature, because a split may follow.
    starts : ndarray of shape (n + 1,)
        The index in `codes` at which each feature begins.
    middles : ndarray of shape (n,)
        The index in `codes` from which the values of each feature are summed from above instead of from
        below, because the zeros are at this position.
    """

    X: Any
    codes: Array
    starts: Array
    middles: Array

    def threshold(self, j: int, k: int) -> float:
        """Return the midpoint of the two values that the split at codes[k] separates."""
        start, middle, stop = self.starts[j], self.middles[j], self.starts[j + 1]
        beyond = k + 1 if k < middle else k - 1
        is_last = beyond == middle if k < middle else beyond < middle
        has_zeros = stop - start < self.X.shape[0]
        values = self._value(j, k), 0.0 if is_last and has_zeros else self._value(j, beyond)
        return between(*sorted(values))

    def above(self, j: int, k: int) -> Array:
        """Return a mask, shape (m,), of the examples above the split at codes[k]."""
        from_below = k < self.middles[j]
        part = slice(self.starts[j], k + 1) if from_below else slice(k, self.starts[j + 1])
        above = np.full(self.X.shape[0], from_below)
        above[self.codes[part] & EXAMPLE] = not from_below
        return above

    def _value(self, j: int, k: int) -> float:
        return float(self.X[int(self.codes[k] & EXAMPLE), j])


def between(low: float, high: float) -> float:
    """Return the midpoint t of two numbers, rounded so that low <= t < high."""
    middle = 0.5 * low + 0.5 * high
    return middle if low <= middle < high else low


def sort_features(X: Any) -> SortedFeatures:
    """Sort every feature of a matrix that `as_matrix` has checked.

    During sorting, a CSR matrix is transposed, and a CSC matrix with duplicate entries or stored zeros is
    copied.
    """
    m, n = X.shape
    if m > _MOST_EXAMPLES:
        raise InvalidInputError(f"X has {m} rows; decision stumps allow at most 2^31: use a sample.")
    columns = X.tocsc() if sparse.issparse(X) else X
    if sparse.issparse(X):
        if not columns.has_canonical_format or not columns.data[: columns.indptr[-1]].all():
            columns = columns.copy() if columns is X else columns
            columns.sum_duplicates()
            columns.eliminate_zeros()
        counts = np.diff(columns.indptr)
    else:
        counts = np.zeros(n, dtype=np.int64)
        for rows, some in tiles(X):
            counts[some] += np.count_nonzero(X[rows, some], axis=0)
    starts = np.zeros(n + 1, dtype=np.int64)
    starts[1:] = np.cumsum(counts)
    middles = np.empty(n, dtype=np.int64)
    codes = np.empty(starts[-1], dtype=np.uint32)

    def sort(part: tuple[int, int]) -> None:
        first, last = starts[part[0]], starts[part[1]]
        examples, values = _entries(columns, *part)
        edges = starts[part[0] : part[1] + 1] - first
        codes[first:last], below = _sort(examples, values, edges, m)
        middles[slice(*part)] = starts[slice(*part)] + below

    run_chunks(sort, balanced_ranges(starts, max(1, int(starts[-1]) // _CHUNK)))
    return SortedFeatures(X, codes, starts, middles)


def _entries(X: Any, low: int, high: int) -> tuple[Array, Array]:
    """Return the rows and values of the nonzero entries in columns low to high - 1, column after column."""
    if sparse.issparse(X):
        part = slice(X.indptr[low], X.indptr[high])
        return X.indices[part], X.data[part]
    values = X[:, low:high].ravel(order="F")
    places = np.flatnonzero(values)
    return places % X.shape[0], values if places.size == values.size else values[places]


def _sort(examples: Array, values: Array, edges: Array, m: int) -> tuple[Array, Array]:
    """Return the codes of some features, and the number of codes of each feature below its middle."""
    order = np.empty(values.size, dtype=np.int64)
    for start, stop in pairwise(edges.tolist()):
        order[start:stop] = values[start:stop].argsort()
        order[start:stop] += start
    values, examples = values[order], examples[order].astype(np.int64)
    differs = np.ones(values.size + 1, dtype=bool)  # differs[k]: value k differs from value k - 1
    np.not_equal(values[1:], values[:-1], out=differs[1:-1])
    differs[edges] = True
    if not differs.all():
        examples |= np.cumsum(differs[:-1]) << 31
        examples.sort()  # within equal values, because numpy's fastest sort is not stable
        examples &= int(EXAMPLE)
    below = np.diff(np.append(0, np.cumsum(values < 0.0))[edges])
    half = (m + 1) // 2
    for j in np.flatnonzero(np.diff(edges) == m):  # without zeros, half of the values are summed from below
        below[j] = half + np.argmax(differs[edges[j] + half :])
    from_below = np.arange(values.size) < np.repeat(edges[:-1] + below, np.diff(edges))
    split = np.where(from_below, differs[1:], differs[:-1])
    split[edges[1:][below == m] - 1] = False
    codes = examples.astype(np.uint32)
    codes[split] |= LAST
    return codes, below

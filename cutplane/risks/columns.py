"""The units of the columns of a data matrix: means far from zero, and very different sizes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from cutplane.pieces.validation import Array

FAR = 8.0
"""Ratio of mean and deviation from which a column is centred, because coordinate descent takes twenty times
as long at ten."""
SPREAD = 1e4
"""Ratio of the sizes of two columns from which all columns are scaled, because the squares of slopes then
lose half of the digits."""
ODD = 1e3
"""Ratio of a column's size and the median size from which on the column is reported, because solves succeed
below it."""
_ROWS, _ENTRIES = 512, 1 << 18
"""Largest numbers of rows and of entries of a sample, because a hundred rows give the mean to a tenth of the
deviation, in a millisecond."""
_PIECE = 1 << 15
"""Number of entries squared at a time, because they fit into the cache; for a sparse matrix at least the
number of columns, because each piece adds to every column."""
_FEW = 8
"""Number of stored entries of a column in the sample that are needed for its size, because a single entry may
be tiny."""
_LARGEST = 64
"""Largest exponent of two in a size, because its square times a weight must not overflow."""


def moments(X: Any) -> tuple[Array, Array, Array]:
    """Return centre, mean and standard deviation of each column of X, from a sample of equally spaced rows.

    The centre is the mean of the stored entries; for a constant column it is exactly the constant. Mean and
    deviation are nan for a column with few stored entries in the sample.
    """
    m, n = X.shape
    count = min(m, _ROWS, max(64, _ENTRIES // n))
    sample = X[np.linspace(0, m - 1, count).astype(np.int64)] if count < m else X
    if not sparse.issparse(sample):
        sample = np.asarray(sample, dtype=np.float64)
        centre = sample[0] + (sample - sample[0]).mean(axis=0)
        return centre, centre, np.sqrt(np.square(sample - centre).mean(axis=0))
    sample = sparse.coo_array(sample)
    column, values = sample.coords[1], sample.data.astype(np.float64)
    stored = np.bincount(column, minlength=n)
    first = np.zeros(n)
    first[column] = values
    filled = np.maximum(stored, 1)
    centre = first + np.bincount(column, values - first[column], n) / filled
    mean = centre * (stored / count)
    squares = np.bincount(column, np.square(values - mean[column]), n)
    mean[stored < min(_FEW, count)] = np.nan
    return centre, mean, np.sqrt((squares + np.maximum(count - stored, 0) * np.square(mean)) / count)


def root_sums_of_squares(X: Any, weights: Array) -> Array:
    """Return sqrt(sum_i weights_i X_ij^2) of each column j."""
    m, n = X.shape
    if sparse.issparse(X):
        sums, step = np.zeros(n), max(1, max(_PIECE, n) * X.indptr.size // max(X.nnz, 1))
        for first in range(0, X.indptr.size - 1, step):
            ends = X.indptr[first : first + step + 1]
            squares = np.square(X.data[ends[0] : ends[-1]], dtype=np.float64)
            index, counts = X.indices[ends[0] : ends[-1]], np.diff(ends)
            vectors = np.arange(first, first + counts.size)
            if X.format == "csr":
                sums += np.bincount(index, squares * np.repeat(weights[vectors], counts), n)
            else:
                sums += np.bincount(np.repeat(vectors, counts), squares * weights[index], n)
        return np.sqrt(sums)
    if X.flags.f_contiguous and not X.flags.c_contiguous:
        return np.sqrt([weights @ np.square(column, dtype=np.float64) for column in X.T])
    step = max(1, _PIECE // n)
    pieces = ((X[k : k + step], weights[k : k + step]) for k in range(0, m, step))
    return np.sqrt(sum(part @ np.square(rows, dtype=np.float64) for rows, part in pieces))


class Columns(NamedTuple):
    """Statistics of the columns of a risk's data; each column is multiplied by a coordinate of x.

    Attributes
    ----------
    centre, mean, deviation : ndarray of shape (n,)
        The results of `moments`.
    rows : int
        Number of rows of x as a matrix stored row after row, for example one row per class. A row has a
        weight for each column, and possibly an intercept.
    intercept : bool
        Whether each row ends with an intercept.
    """

    centre: Array
    mean: Array
    deviation: Array
    rows: int = 1
    intercept: bool = False

    @property
    def intercepts(self) -> Array:
        """The indices of the intercepts in x."""
        width = self.mean.size + 1
        return np.arange(width - 1, width * self.rows, width) if self.intercept else np.empty(0, np.int64)

    @classmethod
    def of_all(cls, several: list[Columns | None]) -> Columns | None:
        """Return the statistics of the stacked data of several risks; None if their layouts differ."""
        known = [columns for columns in several if columns is not None]
        layouts = {(columns.mean.size, columns.rows, columns.intercept) for columns in known}
        if len(known) < len(several) or len(layouts) > 1:
            return None
        first, *others = known
        if not others:
            return first
        centres, means, deviations = (np.array([columns[k] for columns in known]) for k in range(3))
        same, mean = (centres == centres[0]).all(axis=0), means.mean(axis=0)
        spread = np.sqrt((deviations**2 + (means - mean) ** 2).mean(axis=0))
        return first._replace(centre=np.where(same, centres[0], mean), mean=mean, deviation=spread)


def unusual_units(columns: Columns, centred: bool, scaled: bool) -> tuple[Array, Array] | None:
    """Return the shift and the divisor of each column; None if none is needed.

    Parameters
    ----------
    columns : Columns
    centred, scaled : bool
        Whether the problem permits that columns are centred, and that they are scaled.

    Returns
    -------
    centre : ndarray of shape (n,)
        The shifts; 0 for a column whose mean is near zero.
    size : ndarray of shape (n,)
        The divisors: powers of two, because they cause no rounding error; all 1 if the sizes are similar.
    """
    mean, deviation = columns.mean, columns.deviation
    with np.errstate(all="ignore"):
        far = centred & (np.abs(mean) > FAR * deviation) & np.isfinite(columns.centre)
        centre = np.where(far, columns.centre, 0.0)
        size = np.where(far, deviation, np.hypot(mean, deviation))
    sizes = powers_of_two(np.append(size, 1.0) if columns.intercept else size) if scaled else None
    if sizes is not None:
        return centre, sizes[: size.size]
    return (centre, np.ones_like(size)) if far.any() else None


def powers_of_two(size: Array) -> Array | None:
    """Return each size rounded to a power of two, 1 for zero and nan; None if all sizes are similar."""
    known = np.isfinite(size) & (size > 0.0)
    if not known.any() or size[known].max() <= SPREAD * size[known].min():
        return None
    powers = np.rint(np.log2(np.where(known, size, 1.0)))
    return np.exp2(np.clip(powers, -_LARGEST, _LARGEST))


def in_units(X: Any, centre: Array, size: Array) -> Any:
    """Return a float64 copy of (X - 1 centre') / size, of the same format.

    An entry is rounded at most once, and not at all if it is between half of the centre and twice the centre.
    Centred columns of a sparse matrix become dense, but these were nearly dense already, because their mean
    is far from zero.
    """
    if not sparse.issparse(X):
        found = X - centre  # float64 for any type of X
        found /= size
        return found
    found, far = X.astype(np.float64), np.flatnonzero(centre)
    m, n = X.shape
    if far.size:
        ones = np.tile(centre[far], m), np.tile(far, m), np.arange(m + 1) * far.size
        found = (found.tocsr() - sparse.csr_array(ones, shape=(m, n))).asformat(X.format)
    columns = found.indices if X.format == "csr" else np.repeat(np.arange(n), np.diff(found.indptr))
    found.data /= size[columns]
    return found


def oddest(X: Any) -> tuple[int, float, float] | None:
    """Return the column with the most unusual unit, its mean and its deviation; None if all are usual.

    A column is unusual if it is far from zero, or a thousand times larger or smaller than the median column.
    """
    with np.errstate(all="ignore"):
        _, mean, deviation = moments(X)
        size = np.hypot(mean, deviation)
        known = np.isfinite(size) & (size > 0.0)
        if not known.any():
            return None
        usual = np.median(size[known])
        unlike = np.maximum(size / usual, usual / size) / ODD
        score = np.where(
            known, np.fmax(unlike, np.where(deviation > 0.0, np.abs(mean) / deviation / FAR, 0)), 0
        )
    j = int(np.argmax(score))
    return (j, float(mean[j]), float(deviation[j])) if score[j] > 1.0 else None

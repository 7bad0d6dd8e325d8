"""Breiman's classification problems, whose least possible error is known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cutplane.datasets.draws import as_generator, as_real_type
from cutplane.pieces.validation import Array, as_count

_N_FEATURES = 20
_SHIFT = 2.0 / math.sqrt(_N_FEATURES)
_PAIRS = np.array([[0, 1], [0, 2], [1, 2]])


def twonorm(n_samples: int, *, seed: Any = 0, dtype: Any = np.float64) -> tuple[Array, Array]:
    """Two Gaussian classes with the same covariance, in 20 dimensions [1]_.

        y = +1 or -1, equally likely,   x ~ N(y (a, ..., a), I),   a = 2 / sqrt(20).

    The best classifier is sign(x_1 + ... + x_20), whose error is 2.3%; it is oblique to all axes, so that
    many stumps are needed.

    Parameters
    ----------
    n_samples : int
        At least 1.
    seed : int or numpy.random.Generator, default 0
        The same seed gives the same data.
    dtype : numpy.float64 or numpy.float32, default numpy.float64
        Of X; float32 data are the float64 data, rounded.

    Returns
    -------
    X : ndarray of shape (n_samples, 20)
    y : ndarray of shape (n_samples,)
        Labels -1 and +1.

    Raises
    ------
    InvalidInputError
        If an argument is out of its range.

    References
    ----------
    .. [1] L. Breiman, "Arcing classifiers", Annals of Statistics 26, 1998,
       https://doi.org/10.1214/aos/1024691079.

    Examples
    --------
    >>> from cutplane.datasets import twonorm
    >>> X, y = twonorm(100_000)
    >>> error = ((X.sum(axis=1) > 0) != (y > 0)).mean()
    >>> X.shape, bool(abs(error - 0.0228) < 0.002)
    ((100000, 20), True)
    """
    X, y, dtype = _normal_with_signs(n_samples, seed, dtype)
    X += y[:, np.newaxis] * _SHIFT
    return X.astype(dtype, copy=False), y


def ringnorm(n_samples: int, *, seed: Any = 0, dtype: Any = np.float64) -> tuple[Array, Array]:
    """Gaussian classes, one around the other, in 20 dimensions [1]_.

        y = +1 or -1, equally likely,   x | +1 ~ N(0, 4 I),   x | -1 ~ N((a, ..., a), I),   a = 2 / sqrt(20).

    The best classifier asks on which side of a sphere x lies; its error is 1.2%, that of the best
    hyperplane 23%.

    Parameters
    ----------
    n_samples : int
        At least 1.
    seed : int or numpy.random.Generator, default 0
        The same seed gives the same data.
    dtype : numpy.float64 or numpy.float32, default numpy.float64
        Of X; float32 data are the float64 data, rounded.

    Returns
    -------
    X : ndarray of shape (n_samples, 20)
    y : ndarray of shape (n_samples,)
        Labels -1 and +1.

    Raises
    ------
    InvalidInputError
        If an argument is out of its range.

    References
    ----------
    .. [1] L. Breiman, "Arcing classifiers", Annals of Statistics 26, 1998,
       https://doi.org/10.1214/aos/1024691079.

    Examples
    --------
    >>> from cutplane.datasets import ringnorm
    >>> X, y = ringnorm(10_000)
    >>> [round(float(X[y == label].std()), 1) for label in (-1, 1)]
    [1.0, 2.0]
    """
    X, y, dtype = _normal_with_signs(n_samples, seed, dtype)
    wide = y > 0
    X[wide] *= 2.0
    X[~wide] += _SHIFT
    return X.astype(dtype, copy=False), y


def waveform(
    n_samples: int, *, binary: bool = True, seed: Any = 0, dtype: Any = np.float64
) -> tuple[Array, Array]:
    """Noisy mixtures of two of three triangular waves, at 21 places [1]_.

        x_j = u h(j) + (1 - u) h'(j) + e_j,   j = 1, ..., 21,   u ~ U(0, 1),   e_j ~ N(0, 1),
        h_1(j) = max(6 - |j - 11|, 0),   h_2(j) = h_1(j - 4),   h_3(j) = h_1(j + 4).

    The waves (h, h') are (h_1, h_2) in class 0, (h_1, h_3) in class 1, and (h_2, h_3) in class 2; the classes
    are equally likely. The least possible error is about 14% with three classes.

    Parameters
    ----------
    n_samples : int
        At least 1.
    binary : bool, default True
        Whether y tells class 0 (+1) from the other two (-1), instead of all three from each other.
    seed : int or numpy.random.Generator, default 0
        The same seed gives the same data, and the same examples whatever `binary` is.
    dtype : numpy.float64 or numpy.float32, default numpy.float64
        Of X; float32 data are the float64 data, rounded.

    Returns
    -------
    X : ndarray of shape (n_samples, 21)
    y : ndarray of shape (n_samples,)
        Labels -1.0 and +1.0; integers 0, 1 and 2 if not `binary`.

    Raises
    ------
    InvalidInputError
        If an argument is out of its range.

    References
    ----------
    .. [1] L. Breiman, J. Friedman, R. Olshen, C. Stone, "Classification and regression trees", 1984,
       section 2.6.2, https://doi.org/10.1201/9781315139470.

    Examples
    --------
    >>> from cutplane.datasets import waveform
    >>> X, y = waveform(30_000)
    >>> X.shape, round(float((y > 0).mean()), 2)
    ((30000, 21), 0.33)
    """
    m, rng, dtype = as_count("n_samples", n_samples), as_generator(seed), as_real_type(dtype)
    places = np.arange(1, 22)
    waves = np.maximum(6.0 - np.abs(places - np.array([[11], [15], [7]])), 0.0)
    classes = rng.integers(3, size=m)
    u = rng.random((m, 1))
    X = rng.normal(size=(m, places.size))
    first, second = _PAIRS[classes].T
    X += u * waves[first] + (1.0 - u) * waves[second]
    return X.astype(dtype, copy=False), np.where(classes == 0, 1.0, -1.0) if binary else classes


def _normal_with_signs(n_samples: int, seed: Any, dtype: Any) -> tuple[Array, Array, np.dtype[Any]]:
    m, rng, dtype = as_count("n_samples", n_samples), as_generator(seed), as_real_type(dtype)
    y = np.where(rng.random(m) < 0.5, -1.0, 1.0)
    return rng.normal(size=(m, _N_FEATURES)), y, dtype

"""Gaussian examples with a hidden hyperplane."""

from __future__ import annotations

from typing import Any

import numpy as np

from cutplane.datasets.draws import as_generator, as_real_type, noisy_signs
from cutplane.pieces.validation import Array, as_count, as_scalar


def planted_dense(
    n_samples: int, n_features: int, *, noise: float = 0.1, seed: Any = 0, dtype: Any = np.float64
) -> tuple[Array, Array]:
    """Gaussian examples, labelled by a hidden hyperplane through the origin; some labels are flipped.

        x_i ~ N(0, I),  w ~ N(0, I),  y_i = sign <x_i, w>, or its negative with probability `noise`.

    Parameters
    ----------
    n_samples, n_features : int
        At least 1.
    noise : float, default 0.1
        Probability in [0, 0.5] that a label is flipped: the rate of random classification noise [1]_.
    seed : int or numpy.random.Generator, default 0
        The same seed gives the same data, and the same examples whatever the noise.
    dtype : numpy.float64 or numpy.float32, default numpy.float64
        Of X; float32 data are the float64 data, rounded.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)
        Labels -1 and +1.

    Raises
    ------
    InvalidInputError
        If an argument is out of its range.

    References
    ----------
    .. [1] D. Angluin, P. Laird, "Learning from noisy examples", Machine Learning 2, 1988,
       https://doi.org/10.1023/A:1022873112823.

    Examples
    --------
    >>> from cutplane.datasets import planted_dense
    >>> X, y = planted_dense(1000, 20, noise=0.05)
    >>> X.shape, y.shape, sorted(set(y.tolist()))
    ((1000, 20), (1000,), [-1.0, 1.0])
    """
    m, n = as_count("n_samples", n_samples), as_count("n_features", n_features)
    noise, rng, dtype = as_scalar("noise", noise, low=0.0, high=0.5), as_generator(seed), as_real_type(dtype)
    w = rng.normal(size=n)
    X = rng.normal(size=(m, n))
    return X.astype(dtype, copy=False), noisy_signs(X @ w, noise, rng)

"""Sampling of product kernels with probability proportional to the gradient, without listing them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cutplane.pieces.validation import Array

if TYPE_CHECKING:
    from cutplane.mkl.polynomial.kernels import BaseKernels


def sample_tuple(
    a: Array, bases: BaseKernels, rho: Array, rng: np.random.Generator
) -> tuple[tuple[int, ...], float]:
    """Sample an ordered tuple I of up to D base kernels with probability ``q_I / ||q||_1`` (Algorithm 3).

    ``q_I = a' K_I a / rho_d^2`` for the product K_I of d kernels. The degree is drawn first, by the powers of
    the sum S of the kernels, then one factor after the other by its share in ``<M, S^k>``: the cost does not
    depend on the number of tuples, ``1 + r + ... + r^D``.

    Parameters
    ----------
    a : ndarray of shape (m,)
    bases : BaseKernels
        r kernels.
    rho : ndarray of shape (D + 1,)
        Positive, one per degree.
    rng : numpy.random.Generator

    Returns
    -------
    index : tuple of int
        Empty for the constant kernel.
    total : float
        ||q||_1, twice the l1 norm of the gradient of the objective; 0 if a is zero.

    References
    ----------
    .. [1] A. Afkanpour, A. György, C. Szepesvári, M. Bowling, "A randomized mirror descent algorithm for
       large scale multiple kernel learning", ICML 2013, http://proceedings.mlr.press/v28/afkanpour13.html.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.mkl.polynomial.kernels import LinearBases
    >>> from cutplane.mkl.polynomial.sampler import sample_tuple
    >>> bases = LinearBases(np.array([[1.0, 0.0], [1.0, 0.0]]), degree=2)
    >>> rng = np.random.default_rng(0)
    >>> index, total = sample_tuple(np.ones(2), bases, np.ones(3), rng)
    >>> set(index) <= {0}, total
    (True, 12.0)
    """
    weighting = bases.weighting(a)
    shares = np.maximum([bases.total(weighting, d) for d in range(rho.size)], 0.0) / rho**2
    index: list[int] = []
    degree = _choose(shares, rng)
    for remaining in range(degree - 1, -1, -1):
        j = _choose(bases.split(weighting, remaining), rng)
        weighting = bases.absorb(weighting, j)
        index.append(j)
    return tuple(index), float(shares.sum())


def sample_uniformly(n_kernels: int, degree: int, rng: np.random.Generator) -> tuple[tuple[int, ...], float]:
    """Return an ordered tuple, each with the same probability, and the number of tuples."""
    shares = float(n_kernels) ** np.arange(degree + 1)
    d = _choose(shares, rng)
    return tuple(rng.integers(n_kernels, size=d).tolist()), float(shares.sum())


def _choose(shares: Array, rng: np.random.Generator) -> int:
    """Draw an index in proportion to the shares; those that rounding made negative count as zero."""
    sums = np.cumsum(np.maximum(shares, 0.0))
    return min(int(np.searchsorted(sums, rng.random() * sums[-1], side="right")), sums.size - 1)

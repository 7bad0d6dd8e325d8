"""Stochastic mirror descent on the weights of product kernels; each step samples one product."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from scipy.linalg import get_blas_funcs, get_lapack_funcs

from cutplane.mkl.base_kernels import BaseKernels, orders_of
from cutplane.pieces.validation import Array

_symv, _syr = get_blas_funcs(("symv", "syr"), dtype=np.float64)
_potrf, _potri = get_lapack_funcs(("potrf", "potri"), dtype=np.float64)

_ACCURACY = 1e-12
"""Squared error of conjugate gradients relative to the dual objective, because steps need six digits."""
_MANY = 8
"""Number of conjugate gradient iterations before a new factorisation, because factoring is then cheaper."""
_MOST = 60
"""Largest number of conjugate gradient iterations after a factorisation, because only a singular system needs
more."""
_SMALL = 1e-6
"""Scale up to which the kernel is multiplied by it, because rounding errors grow with the inverse of the
scale."""
_SETTLED = 1e-3
"""Scale up to which the weights are multiplied by it, because sigma theta and the lag would otherwise be huge
numbers with a small difference."""
_FORGETTING = 0.05
"""Weight of a new entry in the running mean square of uniform sampling, because the mean then covers about
twenty entries."""

Sampling = Literal["importance", "uniform"]


def sample_tuple(
    a: Array, bases: BaseKernels, rho: Array, rng: np.random.Generator
) -> tuple[tuple[int, ...], float]:
    """Sample an ordered tuple I of up to D base kernels with probability ``q_I / ||q||_1`` (Algorithm 3).

    Here ``q_I = a' K_I a / rho_d^2`` for the product K_I of d kernels. The degree is drawn first, from the
    powers of the sum S of the kernels. The factors are then drawn one by one, each with probability
    proportional to its term of ``<M, S^k>``. The cost does not depend on the number of tuples, ``1 + r + ...
    + r^D``.

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
    >>> from cutplane.mkl.polynomial import LinearBases, sample_tuple
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


def _choose(shares: Array, rng: np.random.Generator) -> int:
    """Draw an index with probability proportional to the shares; negative shares (by rounding) count as 0."""
    sums = np.cumsum(np.maximum(shares, 0.0))
    return min(int(np.searchsorted(sums, rng.random() * sums[-1], side="right")), sums.size - 1)


class RidgeSystem:
    """Solves (K + I / C) a = y repeatedly while terms are added to K and K is multiplied by factors.

    K is stored as scale * kernel, so that a factor changes only the scale. Conjugate gradients start from the
    last solution. The preconditioner is the inverse of the last factored system, updated with every later
    rank-one term. A solve costs O(m^2) as long as few iterations suffice; else the system is factored again.
    Rounding errors of the updates affect only the preconditioner.
    """

    def __init__(self, y: Array, C: float):
        m = y.size
        self.y = y
        self.C = C
        self.scale = 1.0
        self.n_factorizations = 0
        self._kernel = np.zeros((m, m), order="F")
        self._inverse = np.asfortranarray(np.eye(m) * C)
        self._solution = C * y

    def add(self, weight: float, product: Array) -> None:
        """Add weight times a product kernel to K; a vector v stands for v v'."""
        weight /= self.scale
        if product.ndim == 2:
            self._kernel += weight * product
            return
        image = _symv(1.0, self._inverse, product, lower=1)
        shrink = weight / (1.0 + weight * float(product @ image))
        self._kernel = _syr(weight, product, lower=1, a=self._kernel, overwrite_a=1)
        self._inverse = _syr(-shrink, image, lower=1, a=self._inverse, overwrite_a=1)
        self._solution -= shrink * float(product @ self._solution) * image

    def rescale(self, factor: float) -> None:
        """Multiply K by a factor."""
        self.scale *= factor
        if self.scale < _SMALL:
            self._kernel *= self.scale
            self._solution /= self.scale
            self.scale = 1.0
            self._factor()

    def solve(self) -> Array:
        """Return a."""
        if not self._iterate(_MANY):
            self._factor()
            self._iterate(_MOST)
        return self._solution / self.scale

    @property
    def _ridge(self) -> float:
        return 1.0 / (self.scale * self.C)

    def _factor(self) -> None:
        """Invert the system; if rounding errors made it indefinite, keep the last inverse."""
        system = self._kernel.copy(order="F")
        system[np.diag_indices_from(system)] += self._ridge
        factor, failed = _potrf(system, lower=1, overwrite_a=1)
        if not failed:
            self._inverse, failed = _potri(factor, lower=1, overwrite_c=1)
        self.n_factorizations += 1

    def _iterate(self, most: int) -> bool:
        """Improve the solution by conjugate gradients; return whether it is accurate enough."""
        x, ridge = self._solution, self._ridge
        residual = self.y - _symv(1.0, self._kernel, x, lower=1) - ridge * x
        direction = np.zeros_like(x)
        before = np.inf
        for _ in range(most + 1):
            image = _symv(1.0, self._inverse, residual, lower=1)
            size = float(residual @ image)
            if size <= _ACCURACY * abs(float(self.y @ x)):
                return True
            direction = image + (size / before) * direction
            product = _symv(1.0, self._kernel, direction, lower=1) + ridge * direction
            step = size / float(direction @ product)
            x += step * direction
            residual -= step * product
            before = size
        return False


class TupleWeights:
    """Weights theta >= 0 with ||theta||_2 <= 1 of ordered tuples, equal for all orders of the same factors.

    Each multiset has a single stored weight W, the sum over its N orders, which contributes W^2 / N to the
    squared norm. A projection onto the ball multiplies all weights by a factor. Because this factor is stored
    separately, every step costs O(1). The average also costs O(1): in ``sum_k eta_k theta_k = sigma theta -
    lag``, a step changes sigma and one entry of the lag.
    """

    def __init__(self) -> None:
        self._entries: dict[tuple[int, ...], list[float]] = {}  # W / scale, entry of the lag, and N
        self._scale = 1.0
        self._square = 0.0
        self._sigma = 0.0
        self._mass = 0.0

    @property
    def indices(self) -> list[tuple[int, ...]]:
        """The multisets that have been sampled, as sorted tuples, in the order of their first occurrence."""
        return list(self._entries)

    def record(self, eta: float) -> None:
        """Add the current weights to the average with the weight eta > 0."""
        self._sigma += eta * self._scale
        self._mass += eta

    def add(self, index: tuple[int, ...], amount: float) -> float:
        """Add an amount to a tuple's multiset; return the factor of the projection onto the ball, <= 1."""
        index = tuple(sorted(index))
        entry = self._entries.get(index)
        if entry is None:
            entry = self._entries[index] = [0.0, 0.0, orders_of(index)]
        change = amount / self._scale
        self._square += change * (2.0 * entry[0] + change) / entry[2]
        entry[0] += change
        entry[1] += change * self._sigma
        norm = self._scale * math.sqrt(self._square)
        if norm <= 1.0:
            return 1.0
        self._scale /= norm
        if self._scale < _SETTLED:
            self._settle()
        return 1.0 / norm

    def current(self) -> Array:
        """Return the current weights, one per entry of `indices`."""
        return self._scale * np.array([weight for weight, _, _ in self._entries.values()])

    def average(self) -> Array:
        """Return the averaged weights, one per entry of `indices`."""
        total = np.array([self._sigma * weight - lag for weight, lag, _ in self._entries.values()])
        return np.maximum(total, 0.0) / max(self._mass, 1e-300)

    def _settle(self) -> None:
        """Multiply the weights by the scale, and add sigma theta to the lag."""
        for entry in self._entries.values():
            entry[1] -= self._sigma * entry[0]
            entry[0] *= self._scale
        self._sigma, self._scale = 0.0, 1.0
        self._square = sum(weight**2 / count for weight, _, count in self._entries.values())


class MirrorSteps:
    """Algorithm 2: sample a tuple, increase its weight, and project the weights onto the ball.

    The k-th step has the length ``eta_k ||g_k|| = 1 / sqrt(k)``, where ||g_k|| is the root mean square of the
    estimate. This is ``eta_k = sqrt(2 delta / (B k))`` of the theorem with delta = 1/2 and the B of this
    step. The average has the weights k eta_k, because early iterates then count less.

    The step is spread over the orders of the tuple, because they have the same kernel and the same
    probability. The estimate stays unbiased and has a smaller variance.
    """

    def __init__(self, bases: BaseKernels, y: Array, C: float, rho: Array, sampling: Sampling, seed: int):
        self.bases = bases
        self.rho = rho
        self.sampling = sampling
        self.rng = np.random.default_rng(seed)
        self.weights = TupleWeights()
        self.system = RidgeSystem(y, C)
        self.count = 0
        self._mean_square = 0.0

    def step(self) -> bool:
        """Do a step; return False if the gradient is zero."""
        index, slope, size = self.estimate(self.system.solve())
        self.count += 1
        if not (math.isfinite(size) and size > 0.0):
            return False
        eta = 1.0 / (size * math.sqrt(self.count))
        self.weights.record(eta * self.count)
        if slope != 0.0:
            product = self.bases.product(tuple(sorted(index)))
            self.system.add(eta * slope / self.rho[len(index)] ** 2, product)
            self.system.rescale(self.weights.add(index, eta * slope))
        return True

    def estimate(self, a: Array) -> tuple[tuple[int, ...], float, float]:
        """Return a tuple, the negative of its gradient estimate, and the root mean square of estimates."""
        if self.sampling == "importance":
            index, total = sample_tuple(a, self.bases, self.rho, self.rng)
            return index, 0.5 * total, 0.5 * total
        n = self.bases.n_kernels
        shares = float(n) ** np.arange(self.rho.size)
        index = tuple(self.rng.integers(n, size=_choose(shares, self.rng)).tolist())
        product = self.bases.product(index)
        form = float(product @ a) ** 2 if product.ndim == 1 else float(a @ product @ a)
        slope = 0.5 * float(shares.sum()) * max(form, 0.0) / self.rho[len(index)] ** 2
        share = max(_FORGETTING, 1.0 / (self.count + 1))
        self._mean_square += share * (slope**2 - self._mean_square)
        return index, slope, math.sqrt(self._mean_square)

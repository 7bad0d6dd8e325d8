"""Stochastic mirror descent on the weights of product kernels, which are sampled one by one."""

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
"""Squared error of conjugate gradients relative to the dual value, because steps need about six digits."""
_MANY = 8
"""Iterations of conjugate gradients until the system is factored again, because factoring is cheaper then."""
_MOST = 60
"""Iterations after factoring, because only a system that is singular up to rounding needs more."""
_SMALL = 1e-6
"""Scale at which it is multiplied into the kernel, because rounding errors grow with its inverse."""
_SETTLED = 1e-3
"""Scale at which it is multiplied into the weights, because the average is a difference of larger numbers."""
_FORGETTING = 0.05
"""Share of a new entry in the mean square of uniform sampling, because it follows some twenty entries."""

Sampling = Literal["importance", "uniform"]


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
    """Draw an index in proportion to the shares; those that rounding made negative count as zero."""
    sums = np.cumsum(np.maximum(shares, 0.0))
    return min(int(np.searchsorted(sums, rng.random() * sums[-1], side="right")), sums.size - 1)


class RidgeSystem:
    """Solves (K + I / C) a = y repeatedly while terms are added to K and K is multiplied by factors.

    K = scale * kernel; a factor changes the scale alone. The solution is found by conjugate gradients,
    started at the last one and preconditioned by the inverse of the last system that was factored, updated
    with every term of rank one since: O(m^2) while few iterations suffice; the system is factored again when
    they do not. Rounding errors affect the preconditioner alone.
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
        """Add weight times a product kernel, v v' if it is a vector v."""
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
        """Invert the system; for one that rounding made indefinite, the last inverse is used."""
        system = self._kernel.copy(order="F")
        system[np.diag_indices_from(system)] += self._ridge
        factor, failed = _potrf(system, lower=1, overwrite_a=1)
        if not failed:
            self._inverse, failed = _potri(factor, lower=1, overwrite_c=1)
        self.n_factorizations += 1

    def _iterate(self, most: int) -> bool:
        """Improve the solution by conjugate gradients; tell whether its error is small in the dual value."""
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
    """theta >= 0 with ||theta||_2 <= 1 over ordered tuples, equal for all orders of the same factors.

    Stored as one weight W per multiset, the sum over its N orders, which contributes W^2 / N to the squared
    norm. Projecting on the ball multiplies all weights by a factor, which is stored apart, so that every step
    costs O(1). So does the average: of ``sum_k eta_k theta_k = sigma theta - lag``, a step changes sigma and
    one entry of the lag.
    """

    def __init__(self) -> None:
        self._entries: dict[tuple[int, ...], list[float]] = {}  # W / scale, lag and N, in order of discovery
        self._scale = 1.0
        self._square = 0.0
        self._sigma = 0.0
        self._mass = 0.0

    @property
    def indices(self) -> list[tuple[int, ...]]:
        """The multisets that ever had weight, sorted tuples, in the order of their discovery."""
        return list(self._entries)

    def record(self, eta: float) -> None:
        """Count the weights in the average, with the weight eta > 0."""
        self._sigma += eta * self._scale
        self._mass += eta

    def add(self, index: tuple[int, ...], amount: float) -> float:
        """Add an amount, spread over the orders of the tuple; return the factor of the projection, <= 1."""
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
        """Return the weights now, one per entry of `indices`."""
        return self._scale * np.array([weight for weight, _, _ in self._entries.values()])

    def average(self) -> Array:
        """Return the averaged weights, one per entry of `indices`."""
        total = np.array([self._sigma * weight - lag for weight, lag, _ in self._entries.values()])
        return np.maximum(total, 0.0) / max(self._mass, 1e-300)

    def _settle(self) -> None:
        """Multiply the scale into the weights, and the sum so far into the lag."""
        for entry in self._entries.values():
            entry[1] -= self._sigma * entry[0]
            entry[0] *= self._scale
        self._sigma, self._scale = 0.0, 1.0
        self._square = sum(weight**2 / count for weight, _, count in self._entries.values())


class MirrorSteps:
    """The steps of Algorithm 2: one tuple sampled, its weight raised, the weights projected on the ball.

    The k-th step has the length ``eta_k ||g_k|| = 1 / sqrt(k)``, with ||g_k|| the root mean square of the
    estimate: eta_k is ``sqrt(2 delta / (B k))`` of the theorem, delta = 1/2, with the B of this step. The
    average has the weights k eta_k, which forget the start.

    The step is spread over the orders of the tuple, which have the same kernel and the same probability: the
    estimate is the mean over them, unbiased as before and of a smaller variance.
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
        """Do a step; return False if the gradient is zero, so that there is none to do."""
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
        """Return a tuple, minus its entry of the estimate, and the root mean square of such entries."""
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

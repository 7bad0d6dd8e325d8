"""Projected stochastic gradient descent on the weights of product kernels."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from scipy.linalg import get_blas_funcs, get_lapack_funcs

from cutplane.mkl.polynomial.bases import BaseKernels, orders_of
from cutplane.pieces.validation import Array

_symv, _syr = get_blas_funcs(("symv", "syr"), dtype=np.float64)
_potrf, _potri = get_lapack_funcs(("potrf", "potri"), dtype=np.float64)
_ACCURACY = 1e-12
_MANY = 8
_MOST = 60
_SMALL = 1e-6
_SETTLED = 1e-3
Sampling = Literal["importance", "uniform"]
_FORGETTING = 0.05


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
    >>> from cutplane.mkl.polynomial.bases import LinearBases
    >>> from cutplane.mkl.polynomial import sample_tuple
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


class RidgeSystem:
    """Solves (K + I / C) a = y again and again while K grows by terms and shrinks by factors.

    K = scale * kernel; a factor changes the scale alone. The solution comes from conjugate gradients, started
    at the last one and preconditioned by the inverse of the system as it was when last factored, kept up with
    every term of rank one since: O(m^2) as long as few iterations do, and factored anew when they do not.
    Only the preconditioner suffers from rounding.
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
        """Invert the system as it is; one that rounding made indefinite keeps the inverse it had."""
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

    Kept as one weight W per multiset, the sum over its N orders, of which it takes W^2 / N in the squared
    norm. Projecting on the ball multiplies all weights by a factor, which is kept apart: every step costs
    O(1). So does the average: of ``sum_k eta_k theta_k = sigma theta - lag``, a step changes sigma and one
    entry of the lag.

    Attributes
    ----------
    indices : list of tuple of int
        The multisets that ever had weight, sorted tuples, in the order of their discovery.
    """

    def __init__(self) -> None:
        self.indices: list[tuple[int, ...]] = []
        self._places: dict[tuple[int, ...], int] = {}
        self._scale = 1.0
        self._square = 0.0
        self._sigma = 0.0
        self._mass = 0.0
        self._orders = np.empty(64)
        self._raw = np.zeros(64)
        self._lag = np.zeros(64)
        self._settled = np.zeros(64)

    def record(self, eta: float) -> None:
        """Count the weights in the average, with the weight eta > 0."""
        self._sigma += eta * self._scale
        self._mass += eta

    def add(self, index: tuple[int, ...], amount: float) -> float:
        """Add an amount, spread over the orders of the tuple; return the factor of the projection, <= 1."""
        k = self._place(tuple(sorted(index)))
        change = amount / self._scale
        before = self._raw[k]
        self._raw[k] += change
        self._lag[k] += change * self._sigma
        self._square += (self._raw[k] ** 2 - before**2) / self._orders[k]
        norm = self._scale * math.sqrt(self._square)
        if norm <= 1.0:
            return 1.0
        self._scale /= norm
        if self._scale < _SETTLED:
            self._settle()
        return 1.0 / norm

    def current(self) -> Array:
        """Return the weights now, one per entry of `indices`."""
        return self._scale * self._raw[: len(self.indices)]

    def average(self) -> Array:
        """Return the averaged weights, one per entry of `indices`."""
        total = self._settled + self._sigma * self._raw - self._lag
        return np.maximum(total[: len(self.indices)], 0.0) / max(self._mass, 1e-300)

    def _settle(self) -> None:
        """Take the factor into the weights, before rounding is felt in the difference of sigma and lag."""
        self._settled += self._sigma * self._raw - self._lag
        self._lag[:] = 0.0
        self._sigma = 0.0
        self._raw *= self._scale
        self._scale = 1.0
        self._square = float((self._raw[: len(self.indices)] ** 2 / self._orders[: len(self.indices)]).sum())

    def _place(self, index: tuple[int, ...]) -> int:
        place = self._places.setdefault(index, len(self.indices))
        if place == len(self.indices):
            self.indices.append(index)
            if place == self._raw.size:
                arrays = (self._orders, self._raw, self._lag, self._settled)
                more = [np.concatenate([array, np.zeros(place)]) for array in arrays]
                self._orders, self._raw, self._lag, self._settled = more
            self._orders[place] = orders_of(index)
        return place


class Descent:
    """The steps of Algorithm 2: one tuple sampled, its weight raised, the weights projected on the ball.

    The k-th step has the length ``eta_k ||g_k|| = 1 / sqrt(k)``, with ||g_k|| what the estimate has as its
    root mean square: eta_k is ``sqrt(2 delta / (B k))`` of the theorem, delta = 1/2, with B as it is at this
    step. The average has the weights k eta_k, which forget the start.

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
        a = self.system.solve()
        index, slope, size = self._estimate(a)
        self.count += 1
        if not (math.isfinite(size) and size > 0.0):
            return False
        eta = 1.0 / (size * math.sqrt(self.count))
        self.weights.record(eta * self.count)
        if slope == 0.0:
            return True
        index = tuple(sorted(index))
        self.system.add(eta * slope / self.rho[len(index)] ** 2, self.bases.product(index))
        self.system.rescale(self.weights.add(index, eta * slope))
        return True

    def _estimate(self, a: Array) -> tuple[tuple[int, ...], float, float]:
        """Return a tuple, minus its entry of the estimate, and the root mean square of such entries."""
        if self.sampling == "importance":
            index, total = sample_tuple(a, self.bases, self.rho, self.rng)
            return index, 0.5 * total, 0.5 * total
        index, count = sample_uniformly(self.bases.n_kernels, self.rho.size - 1, self.rng)
        product = self.bases.product(index)
        form = float(product @ a) ** 2 if product.ndim == 1 else float(a @ product @ a)
        slope = 0.5 * count * max(form, 0.0) / self.rho[len(index)] ** 2
        share = max(_FORGETTING, 1.0 / (self.count + 1))
        self._mean_square += share * (slope**2 - self._mean_square)
        return index, slope, math.sqrt(self._mean_square)

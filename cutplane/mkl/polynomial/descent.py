"""Projected stochastic gradient descent on the weights of product kernels."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from cutplane.mkl.polynomial.kernels import BaseKernels
from cutplane.mkl.polynomial.ridge import RidgeSystem
from cutplane.mkl.polynomial.sampler import sample_tuple, sample_uniformly
from cutplane.mkl.polynomial.weights import TupleWeights
from cutplane.pieces.validation import Array

Sampling = Literal["importance", "uniform"]
_FORGETTING = 0.05


class Descent:
    """The steps of Algorithm 2: one tuple sampled, its weight raised, the weights projected on the ball.

    The k-th step has the length ``eta_k ||g_k|| = 1 / sqrt(k)``, with ||g_k|| what the estimate has as its
    root mean square: eta_k is ``sqrt(2 delta / (B k))`` of the theorem, delta = 1/2, with B as it is at this
    step. The average has the weights k eta_k, which forget the start.

    The step is spread over the orders of the tuple, which have the same kernel and the same probability: the
    estimate is the mean over them, unbiased as before and of a smaller variance.

    Parameters
    ----------
    bases : BaseKernels
    y : ndarray of shape (m,)
    C : float
    rho : ndarray of shape (D + 1,)
    sampling : {"importance", "uniform"}
    seed : int
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

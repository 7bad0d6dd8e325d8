"""The interface of a risk: a convex function known through a first-order oracle."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from cutplane.lines import Line
from cutplane.validation import Array, as_scalar


class Risk(ABC):
    """f(x), convex, maybe nonsmooth and expensive; known by its value and one subgradient at a point.

    A subclass implements `oracle`. Risks can be added and multiplied by nonnegative numbers: ``0.3 * r1 +
    r2``.

    Attributes
    ----------
    dim : int
        Number of coordinates of x.
    n_blocks : int
        Number of cuts the oracle returns per query; f is the sum of the blocks.
    infima : ndarray of shape (n_blocks,)
        A known lower bound of each block over all x; -inf where none is known. A finite one is the first cut.
    exact : bool
        Whether the values of the oracle are right. The cuts of an oracle that is not exact must hold, but its
        values may be too low: then the engine raises them when later cuts show it, and the upper bound with
        them, which is relative to what the oracle can find. A lower bound that a point contradicts is
        forgotten.
    """

    dim: int
    n_blocks: int = 1
    exact: bool = True

    @property
    def infima(self) -> Array:
        """A lower bound of each block over all x, shape (n_blocks,); -inf where none is known."""
        return np.full(self.n_blocks, -np.inf)

    @abstractmethod
    def oracle(self, x: Array) -> tuple[Any, Any]:
        """Return the value and a subgradient at `x`.

        Parameters
        ----------
        x : ndarray of shape (dim,)

        Returns
        -------
        value : float, or ndarray of shape (n_blocks,)
        subgradient : ndarray of shape (dim,), or of shape (n_blocks, dim)
        """

    def __add__(self, other: Any) -> Risk:
        from cutplane.risks.combination import WeightedSum

        if not isinstance(other, Risk):
            return NotImplemented
        return WeightedSum.of((1.0, self), (1.0, other))

    def __radd__(self, other: Any) -> Risk:
        return self if isinstance(other, int) and other == 0 else NotImplemented  # where sum() starts

    def __rmul__(self, factor: Any) -> Risk:
        from cutplane.risks.combination import WeightedSum

        return WeightedSum.of((as_scalar("the factor of a risk", factor, low=0.0), self))

    __mul__ = __rmul__


class ImagedRisk(Risk):
    """f(x) = h(M x): a costly linear map M (a pass over the data) and a cheap h.

    The engine keeps the image z = M x of each evaluated point, so that points on a line, and the value there,
    cost no pass over the data. An image is whatever `image` returns; only `combine` needs to understand it.
    """

    @abstractmethod
    def image(self, x: Array) -> Any:
        """Return z = M x: one pass over the data."""

    @abstractmethod
    def values(self, z: Any) -> Any:
        """Return h(z), a float or an ndarray of shape (n_blocks,)."""

    @abstractmethod
    def slopes(self, z: Any) -> Any:
        """Return a subgradient M'h'(z), shape (dim,) or (n_blocks, dim): one pass over the data."""

    @abstractmethod
    def line(self, z0: Any, z1: Any) -> Line:
        """Return t -> h(z0 + t (z1 - z0)), summed over the blocks."""

    def combine(self, z0: Any, z1: Any, t: float) -> Any:
        """Return the image of x0 + t (x1 - x0) from the images of x0 and x1."""
        return z0 + t * (z1 - z0)

    def oracle(self, x: Array) -> tuple[Any, Any]:
        """Return the value and a subgradient at `x`: two passes over the data."""
        z = self.image(x)
        return self.values(z), self.slopes(z)

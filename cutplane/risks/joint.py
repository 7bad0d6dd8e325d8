"""Risks of all scores together: the largest of many affine functions of the scores."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property

import numpy as np

from cutplane.pieces.lines import Line
from cutplane.pieces.validation import Array
from cutplane.risks.base import ImagedRisk
from cutplane.risks.data import Data
from cutplane.risks.examples import bias_slopes


class Scored:
    """The scores of a point, and the affine function that is largest there, found when it is asked for."""

    def __init__(self, risk: JointRisk, scores: Array) -> None:
        self.risk = risk
        self.scores = scores

    @cached_property
    def piece(self) -> tuple[float, Array]:
        """Its offset and its slope in the scores."""
        return self.risk.largest_piece(self.scores)

    @cached_property
    def sizes(self) -> tuple[float, float]:
        """The risk, inf where scores overflow, and the size of the terms that it is a sum of."""
        offset, u = self.piece
        with np.errstate(over="ignore", invalid="ignore"):
            terms = u * self.scores  # BLAS would wake threads, and add up less exactly
            value = offset + float(terms.sum())
            return (value if np.isfinite(value) else np.inf), float(np.abs(terms).sum())

    @property
    def value(self) -> float:
        """The risk."""
        return self.sizes[0]


class JointRisk(ImagedRisk):
    """f(w) = max over k of offset_k + <u_k, X w>, where the search for k costs as much as a pass over X.

    A subclass has the attributes `_data` and `intercept`.
    """

    intercept: bool = False
    _data: Data

    @abstractmethod
    def largest_piece(self, scores: Array) -> tuple[float, Array]:
        """Return offset_k and u_k of a function that is largest at the scores, shape (m,)."""

    def image(self, x: Array) -> Scored:
        """Return the scores: one pass over the data."""
        if not self.intercept:
            return Scored(self, self._data.times(x))
        return Scored(self, self._data.times(x[:-1]) + x[-1])

    def values(self, z: Scored) -> float:
        """Return the risk of the scores."""
        return z.value

    def slopes(self, z: Scored) -> Array:
        """Return a subgradient, shape (dim,): one pass over the data."""
        _, u = z.piece
        with np.errstate(over="ignore", invalid="ignore"):
            slope = self._data.transposed_times(u)
        if self.intercept:
            slope = np.append(slope, bias_slopes(u, self._data.edges))
        return slope if np.isfinite(z.value) and np.isfinite(slope).all() else np.zeros(self.dim)

    def combine(self, z0: Scored, z1: Scored, t: float) -> Scored:
        """Return the scores z0 + t (z1 - z0)."""
        return Scored(self, z0.scores + t * (z1.scores - z0.scores))

    def line(self, z0: Scored, z1: Scored) -> Line:
        """Return t -> the risk of the scores z0 + t (z1 - z0); no pass over the data."""
        step = z1.scores - z0.scores

        def evaluate(t: float) -> tuple[float, float]:
            z = self.combine(z0, z1, t)
            return z.value, float((z.piece[1] * step).sum())

        return Line(evaluate, costly=True)

    def cancelled(self, z: Scored) -> float:
        """Return the size of the terms that the value is a sum of."""
        return z.sizes[1]

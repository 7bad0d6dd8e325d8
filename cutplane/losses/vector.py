"""The interface of a loss of a vector of scores, one score for each class."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from cutplane.pieces.lines import Line
from cutplane.pieces.validation import Array


class VectorLoss(ABC):
    """l(s, y), convex in the scores s of the classes, for a label y; all methods take m examples at once.

    A subclass is a frozen dataclass. It implements `value` and `derivative`, and overrides what it can do
    better: `directional` if it is not smooth, `line` if it can be followed faster or exactly, `check_classes`
    if it does not fit every number of classes.

    Optional methods
    ----------------
    cvxpy_form(s, y) -> cvxpy.Expression
        The losses of m examples, shape (m,), for a cvxpy expression s of shape (m, p).
    margins(p) -> ndarray of shape (p, p)
        Where ``l(s, y) = max_j (margins[y, j] + s_j) - s_y``, with zeros on the diagonal: coordinate ascent
        over the examples, and cuts from their multipliers, follow.
    log_probability(s) -> ndarray
        The logarithms of the probabilities of the classes, shape (m, p), for estimators.

    Attributes
    ----------
    infimum : float
        A lower bound of l; -inf if none is known.
    smooth : bool
        Whether l is known to be differentiable: "auto" takes `LBFGS` then, where the rest of a problem fits.

    Examples
    --------
    >>> import numpy as np
    >>> from dataclasses import dataclass
    >>> from cutplane.losses import VectorLoss
    >>> @dataclass(frozen=True)
    ... class Brier(VectorLoss):
    ...     infimum = 0.0
    ...
    ...     def value(self, s, y):
    ...         return ((s - np.eye(s.shape[1])[y]) ** 2).sum(axis=1)
    ...
    ...     def derivative(self, s, y):
    ...         return 2.0 * (s - np.eye(s.shape[1])[y])
    >>> Brier().value(np.array([[0.5, 0.0, 0.5]]), np.array([2])).tolist()
    [0.5]
    """

    infimum: ClassVar[float] = -math.inf
    smooth: ClassVar[bool] = False

    @abstractmethod
    def value(self, s: Array, y: Array) -> Array:
        """Return the losses, shape (m,), of scores s of shape (m, p) and labels y of shape (m,)."""

    @abstractmethod
    def derivative(self, s: Array, y: Array) -> Array:
        """Return a subgradient in s of each loss, shape (m, p)."""

    def directional(self, s: Array, y: Array, d: Array) -> Array:
        """Return the right derivatives of t -> l(s + t d, y) at t = 0; the default is for smooth losses."""
        return np.einsum("ij,ij->i", self.derivative(s, y), d)

    def line(self, start: Array, step: Array, y: Array, weights: Array) -> Line:
        """Return t -> sum_i weights_i l(start_i + t step_i, y_i)."""

        def evaluate(t: float) -> tuple[float, float]:
            s = start + t * step
            return float(weights @ self.value(s, y)), float(weights @ self.directional(s, y, step))

        return Line(evaluate)

    def check_classes(self, n_classes: int) -> None:
        """Raise `InvalidInputError` if the loss does not fit this number of classes."""
        return

"""The interface of a scalar loss, and the two families that most losses belong to."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.validation import Array, as_vector


@dataclass(frozen=True, eq=False)
class Pieces:
    """A loss as a function of t, piece by piece: quadratic t^2 + linear t + constant.

    Parameters
    ----------
    knots : ndarray of shape (k, m)
        Where the pieces meet, ascending for each of the m examples.
    quadratic, linear, constant : ndarray of shape (k + 1, m)
        The coefficients of each piece; piece j lies between knots j - 1 and j.
    """

    knots: Array
    quadratic: Array
    linear: Array
    constant: Array


class ScalarLoss(ABC):
    """l(t, y), convex in the prediction t, for a target y; all methods accept arrays of examples.

    A subclass is a frozen dataclass. It implements `value` and `derivative`, and overrides what it can do
    better: `directional` if it is not smooth, `infimum` if it is bounded below, `pieces` if it is piecewise
    quadratic (an exact line search then becomes possible), `check_targets` if not every target makes sense.

    Attributes
    ----------
    smoothness : float
        A Lipschitz constant of the derivative in t, for every y; inf if there is none.
    curvature : float or None
        The second derivative in t, if it is the same everywhere: some problems are linear systems then.

    Optional methods
    ----------------
    conjugate(u, y) -> ndarray
        sup over t of u t - l(t, y); inf outside its domain.
    cvxpy_form(t, y) -> cvxpy.Expression
        The losses of m examples, shape (m,), for a cvxpy expression t of shape (m,).

    Examples
    --------
    >>> import numpy as np
    >>> from dataclasses import dataclass
    >>> from cutplane.losses import ScalarLoss
    >>> @dataclass(frozen=True)
    ... class LogCosh(ScalarLoss):
    ...     def value(self, t, y):
    ...         return np.logaddexp(t - y, y - t) - np.log(2.0)
    ...
    ...     def derivative(self, t, y):
    ...         return np.tanh(t - y)
    >>> float(LogCosh().value(1.0, 1.0))
    0.0
    """

    smoothness: float = math.inf
    curvature: float | None = None

    @abstractmethod
    def value(self, t: Any, y: Any) -> Any:
        """Return l(t, y)."""

    @abstractmethod
    def derivative(self, t: Any, y: Any) -> Any:
        """Return the right derivative of l in t, a subgradient."""

    def directional(self, t: Any, y: Any, d: Any) -> Any:
        """Return the right derivative of s -> l(t + s d, y) at s = 0; the default is for smooth losses."""
        with np.errstate(invalid="ignore"):
            return self.derivative(t, y) * d

    def infimum(self, y: Array) -> Array:
        """Return the infimum of l over t for each example; -inf if it is not known."""
        return np.full(np.shape(y), -np.inf)

    def pieces(self, y: Array) -> Pieces | None:
        """Return the loss of each example piece by piece; None if it is not piecewise quadratic."""
        return None

    def check_targets(self, y: Any) -> Array:
        """Return `y` as a float64 vector, or raise `InvalidInputError`."""
        return as_vector("y", y)


Outline = tuple[tuple[float, ...], tuple[tuple[float, float, float], ...]]
"""The k knots of a function of one variable, and its k + 1 pieces (quadratic, linear, constant)."""


class UnivariateLoss(ScalarLoss):
    """A nonnegative loss phi(s) with infimum 0, where s is affine in t.

    A subclass gives phi, its derivative along d, its conjugate, its cvxpy expression and, if phi is piecewise
    quadratic, its outline.
    """

    @abstractmethod
    def _phi(self, s: Any) -> Any: ...

    @abstractmethod
    def _slope(self, s: Any, d: Any) -> Any: ...

    @abstractmethod
    def _conjugate(self, v: Any) -> Any: ...

    @abstractmethod
    def _expression(self, s: Any) -> Any: ...

    def _outline(self) -> Outline | None:
        return None

    def derivative(self, t: Any, y: Any) -> Any:
        """Return the right derivative of l in t, a subgradient."""
        return self.directional(t, y, 1.0)

    def infimum(self, y: Array) -> Array:
        """Return 0 for each example."""
        return np.zeros(np.shape(y))


class MarginLoss(UnivariateLoss):
    """l(t, y) = phi(y t) for labels y in {-1, +1}."""

    def value(self, t: Any, y: Any) -> Any:
        """Return l(t, y)."""
        return self._phi(y * t)

    def directional(self, t: Any, y: Any, d: Any) -> Any:
        """Return the right derivative of s -> l(t + s d, y) at s = 0."""
        return self._slope(y * t, y * d)

    def conjugate(self, u: Any, y: Any) -> Any:
        """Return sup over t of u t - l(t, y); inf outside its domain."""
        return self._conjugate(u * y)

    def pieces(self, y: Array) -> Pieces | None:
        """Return the loss of each example piece by piece; None if it is not piecewise quadratic."""
        outline = self._outline()
        if outline is None:
            return None
        knots, coefficients = (np.asarray(part)[..., np.newaxis] for part in outline)
        quadratic, linear, constant = np.where(y > 0, coefficients, coefficients[::-1]).swapaxes(0, 1)
        return Pieces(np.where(y > 0, knots, -knots[::-1]), quadratic, y * linear, constant)

    def cvxpy_form(self, t: Any, y: Array) -> Any:
        """Return the losses as a cvxpy expression of the shape of t."""
        import cvxpy as cp

        return self._expression(cp.multiply(y, t))

    def check_targets(self, y: Any) -> Array:
        """Return `y` as a float64 vector of labels -1 and +1, or raise `InvalidInputError`."""
        labels = as_vector("y", y)
        wrong = np.flatnonzero(np.abs(labels) != 1.0)
        if wrong.size == 0:
            return labels
        name = type(self).__name__
        if np.isin(labels, (0.0, 1.0)).all():
            raise InvalidInputError(f"{name} needs labels y in {{-1, +1}}, got {{0, 1}}; pass 2.0 * y - 1.0.")
        raise InvalidInputError(
            f"{name} needs labels y in {{-1, +1}}, but y[{wrong[0]}] is {labels[wrong[0]]:g}; "
            "pass np.where(y == positive, 1.0, -1.0), with the label that is to be positive."
        )


class ResidualLoss(UnivariateLoss):
    """l(t, y) = phi(t - y) for real targets y."""

    def value(self, t: Any, y: Any) -> Any:
        """Return l(t, y)."""
        return self._phi(t - y)

    def directional(self, t: Any, y: Any, d: Any) -> Any:
        """Return the right derivative of s -> l(t + s d, y) at s = 0."""
        return self._slope(t - y, d)

    def conjugate(self, u: Any, y: Any) -> Any:
        """Return sup over t of u t - l(t, y); inf outside its domain."""
        return self._conjugate(u) + u * y

    def pieces(self, y: Array) -> Pieces | None:
        """Return the loss of each example piece by piece; None if it is not piecewise quadratic."""
        outline = self._outline()
        if outline is None:
            return None
        knots = np.asarray(outline[0])[:, np.newaxis]
        quadratic, linear, constant = np.asarray(outline[1]).T[..., np.newaxis]
        return Pieces(
            knots + y,
            np.broadcast_to(quadratic, (quadratic.shape[0], np.size(y))),
            linear - 2.0 * quadratic * y,
            constant - linear * y + quadratic * y**2,
        )

    def cvxpy_form(self, t: Any, y: Array) -> Any:
        """Return the losses as a cvxpy expression of the shape of t."""
        return self._expression(t - y)


def at_kink(s: Any, knot: float, left: float, right: float, d: Any) -> Any:
    """Return the derivative along d of a function with slope `left` before the knot and `right` after it."""
    after = (s > knot) | ((s == knot) & (np.asarray(d) > 0.0))
    # Exact, since one of the two terms is zero, and three times faster than np.where on random signs.
    return (left * ~after + right * after) * d


def within(v: Any, low: float, high: float, conjugate: Any) -> Any:
    """Return `conjugate` where low <= v <= high and inf elsewhere."""
    return np.where((v >= low) & (v <= high), conjugate, np.inf)


def x_log_x(x: Any) -> Any:
    """Return x ln x for x > 0, and 0 elsewhere."""
    return x * np.log(np.where(x > 0.0, x, 1.0))

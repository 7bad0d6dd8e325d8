"""The interface of a scalar loss."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from cutplane.exceptions import InvalidInputError, MissingCapabilityError
from cutplane.losses.pieces import Pieces
from cutplane.pieces.capabilities import Capability
from cutplane.pieces.latex import word
from cutplane.pieces.validation import Array, as_signs, as_vector

_OPTIONAL = Capability.CVXPY, Capability.LOSS_CONJUGATE, Capability.SECOND_DERIVATIVE

_outlines: dict[Any, Any] = {}
"""Outlines by class and parameters of the loss, stored because making one takes as long as a pass over few
examples."""
_MOST = 256
"""Largest number of stored outlines, because a search over a parameter of a loss makes many."""


@dataclass(frozen=True, eq=False)
class ExamplePieces:
    """The losses of m examples as functions of t; the derivative on piece j is slopes_j + curvatures_j t."""

    knots: Array
    """The ends of the pieces, ascending for each example, shape (k, m)."""
    slopes: Array
    """The slope of each piece, shape (k + 1, m); piece j is between knots j - 1 and j."""
    curvatures: Array
    """The curvature of each piece, shape (k + 1, m)."""


class ScalarLoss:
    """l(t, y), convex in the prediction t, for a target y.

    A subclass is a frozen dataclass that declares the loss in one of two ways.

    * `outline`: the loss is phi(t - y), or phi(y t) if `variable` is "margin", where phi is piecewise linear
      or quadratic. All other methods are derived from phi.
    * `value` and `derivative`, for one example or arrays of them. A loss with kinks also implements
      `directional`, and has no second derivative.

    `value`, `derivative` and `second_derivative` are compiled if they only use attributes of `self` that are
    numbers, arithmetic, and functions of numpy or of `cutplane.losses.elementary`. Other losses, and small
    problems, run in numpy.

    A class that overrides `value` or `derivative` does not inherit the outline of its base class.

    Attributes
    ----------
    variable : {"residual", "margin"}, default "residual"
        The argument of an outline: the residual t - y of a real target, or the margin y t of a label y in
        {-1, +1}.
    smoothness : float
        A Lipschitz constant of the derivative in t, for every y; inf if there is none.
    lipschitz : float
        A Lipschitz constant of l in t, for every y; inf if there is none.
    curvature : float or None
        The second derivative in t, if it is constant; some problems are then solved as linear systems.

    Optional methods
    ----------------
    The first three are derived from an outline; a loss without one may implement them.

    second_derivative(t, y) -> ndarray
        The second derivative in t, for Newton steps of line searches and, with a conjugate, of solves.
    conjugate(u, y) -> ndarray
        sup over t of u t - l(t, y), inf outside its domain, for bounds from multipliers of the examples.
    cvxpy_form(t, y) -> cvxpy.Expression
        The losses of m examples, shape (m,), for a cvxpy expression t of shape (m,).
    log_probability(t) -> ndarray
        The log-probability of the label 1 at the prediction t, for estimators.

    Examples
    --------
    >>> import numpy as np
    >>> from dataclasses import dataclass
    >>> from cutplane.losses import Pieces, ScalarLoss
    >>> class Asymmetric(ScalarLoss):
    ...     def outline(self):
    ...         return Pieces(knots=[0.0], slopes=[-0.2, 1.0])
    >>> float(Asymmetric().value(3.0, 1.0)), float(Asymmetric().conjugate(-0.1, 1.0))
    (2.0, -0.1)
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

    variable: ClassVar[Literal["residual", "margin"]] = "residual"
    # A subclass may replace these properties by numbers.
    smoothness: float = property(lambda self: _smoothness(self._phi))  # pyright: ignore[reportAssignmentType]
    lipschitz: float = property(lambda self: _lipschitz(self._phi))  # pyright: ignore[reportAssignmentType]
    curvature: float | None = property(lambda self: _curvature(self._phi))  # pyright: ignore[reportAssignmentType]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.variable not in ("residual", "margin"):
            raise InvalidInputError(
                f'{cls.__name__}.variable must be "residual" or "margin", got {cls.variable!r}.'
            )
        if {"value", "derivative", "directional"} & vars(cls).keys() and "outline" not in vars(cls):
            cls.outline = ScalarLoss.outline

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def formula(self, t: str = "t", y: str = "y_i") -> str:
        """Return l(t, y) in LaTeX; by default its name."""
        return rf"{word(type(self).__name__)}({t},\, {y})"

    def outline(self) -> Pieces | None:
        """Return phi; None if the loss is not piecewise quadratic."""
        return None

    @cached_property
    def _phi(self) -> Pieces | None:
        key = type(self), *vars(self).items()
        try:
            phi = _outlines[key] if key in _outlines else _outlines.setdefault(key, self.outline())
        except TypeError:  # a parameter has no hash
            phi = self.outline()
        if len(_outlines) > _MOST:
            _outlines.clear()
        if phi is None or isinstance(phi, Pieces):
            return phi
        raise InvalidInputError(f"{type(self).__name__}.outline() must return Pieces or None, got {phi!r}.")

    def value(self, t: Any, y: Any) -> Any:
        """Return l(t, y)."""
        return self._declared(self._place(t, y)[0])

    def derivative(self, t: Any, y: Any) -> Any:
        """Return the right derivative of l in t, a subgradient.

        For a loss with an outline, a prediction that differs from a kink only by rounding errors is treated
        as equal to it.
        """
        s, direction, size = self._place(t, y)
        return self._declared.slope(s, direction, size) * direction

    def cancelled(self, t: Any, y: Any) -> Any:
        """Return the size of the terms that cancel if `derivative` is the slope beyond a kink near t."""
        return np.zeros(np.shape(t)) if self._phi is None else self._phi.cancelled(*self._place(t, y))

    def directional(self, t: Any, y: Any, d: Any) -> Any:
        """Return the right derivative of s -> l(t + s d, y) at s = 0; the default is for smooth losses."""
        if self._phi is None:
            with np.errstate(invalid="ignore"):
                return self.derivative(t, y) * d
        s, direction, size = self._place(t, y, d)
        return self._phi.slope(s, direction, size) * direction

    def second_derivative(self, t: Any, y: Any) -> Any:
        """Return the second derivative of l in t."""
        return self._declared.curvature(self._place(t, y)[0])

    def conjugate(self, u: Any, y: Any) -> Any:
        """Return sup over t of u t - l(t, y); inf outside its domain."""
        if self.variable == "margin":
            return self._declared.conjugate(u * y)
        return self._declared.conjugate(u) + u * y

    def cvxpy_form(self, t: Any, y: Array) -> Any:
        """Return the losses as a cvxpy expression of the shape of t."""
        import cvxpy as cp

        return self._declared.cvxpy_form(cp.multiply(y, t) if self.variable == "margin" else t - y)

    def infimum(self, y: Array) -> Array:
        """Return the infimum of l over t for each example, or a lower bound; by default -inf."""
        return np.full(np.shape(y), -np.inf if self._phi is None else self._phi.infimum)

    def pieces(self, y: Array) -> ExamplePieces | None:
        """Return the pieces of the loss of each example; None if it is not piecewise quadratic."""
        if self._phi is None:
            return None
        phi = self._phi
        knots, slopes, curvatures = (a[:, np.newaxis] for a in (phi.knots, phi.slopes, phi.curvatures))
        if self.variable == "margin":
            knots, slopes, curvatures = (
                np.where(y > 0.0, array, array[::-1]) for array in (knots, slopes, curvatures)
            )
            return ExamplePieces(y * knots, y * slopes, curvatures)
        return ExamplePieces(knots + y, slopes - curvatures * y, np.repeat(curvatures, np.size(y), axis=1))

    def mean(self, t: Any) -> Any:
        """Return the expected target for a prediction t; by default t itself."""
        return t

    def link(self, mean: Any) -> Any:
        """Return the prediction t for an expected target; the inverse of `mean`."""
        return mean

    def check_targets(self, y: Any) -> Array:
        """Return `y` as a float64 vector (labels -1 and +1 for margins), or raise `InvalidInputError`."""
        return as_signs(type(self).__name__, y) if self.variable == "margin" else as_vector("y", y)

    @property
    def withheld(self) -> tuple[Capability, ...]:
        """The optional methods that the subclass does not implement, and that no outline provides."""
        if self._phi is not None:
            return ()
        kind = type(self)
        missing = [c for c in _OPTIONAL if getattr(kind, c.value) is getattr(ScalarLoss, c.value)]
        if kind.directional is not ScalarLoss.directional:
            missing.append(Capability.SECOND_DERIVATIVE)
        return tuple(missing)

    @property
    def _declared(self) -> Pieces:
        if self._phi is None:
            raise MissingCapabilityError(
                f"{type(self).__name__} has no outline(), and lacks the method that is called; implement "
                "outline(), or value(t, y) and derivative(t, y), and second_derivative, conjugate or "
                "cvxpy_form where they are used."
            )
        return self._phi

    def _place(self, t: Any, y: Any, d: Any = 1.0) -> tuple[Any, Any, Any]:
        """Return the argument s of phi, its derivative along d, and the size of the terms of s."""
        return (y * t, y * d, 1.0) if self.variable == "margin" else (t - y, d, np.abs(y))


def pieces_of(loss: ScalarLoss) -> Pieces | None:
    """Return `loss.outline()`, computed once."""
    return loss._phi


def _smoothness(phi: Pieces | None) -> float:
    return math.inf if phi is None or phi.jumps.any() else float(phi.curvatures.max())


def _lipschitz(phi: Pieces | None) -> float:
    if phi is None or phi.curvatures[[0, -1]].any():
        return math.inf
    return float(np.abs(phi.slopes[[0, -1]]).max())


def _curvature(phi: Pieces | None) -> float | None:
    return None if phi is None or phi.knots.size else float(phi.curvatures[0]) or None


class MarginLoss(ScalarLoss):
    """l(t, y) = phi(y t), a loss of the margin, for labels y in {-1, +1}; see `ScalarLoss`.

    Examples
    --------
    >>> from cutplane.losses import MarginLoss, Pieces
    >>> class Ramp(MarginLoss):
    ...     def outline(self):
    ...         return Pieces(knots=[-1.0, 1.0], slopes=[-2.0, -0.5, 0.0])
    >>> float(Ramp().value(0.5, 1.0)), float(Ramp().value(0.5, -1.0))
    (0.25, 0.75)
    """

    variable = "margin"

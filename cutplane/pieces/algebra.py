"""Convex functions with operators: shared code of sums, linear images, and functions of some coordinates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import cached_property, reduce
from operator import and_
from typing import Any, ClassVar

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.capabilities import Capability, offers
from cutplane.pieces.latex import word
from cutplane.pieces.linear_maps import LinearMap, Selection, as_linear_map
from cutplane.pieces.validation import Array


class ConvexFunction(ABC):
    """A convex function of a vector, with the operators for x -> f(A x)."""

    written: ClassVar[str]
    """The name of the function in an error message about a formula."""
    dim: Any
    open: bool = False
    domain: Any = None
    cvxpy_variables: tuple[Any, ...] = ()
    __array_ufunc__ = None  # so that numpy calls __rmul__ and __rmatmul__

    @abstractmethod
    def composed(self, linear_map: LinearMap) -> Any:
        """Return x -> f(A x)."""

    def formula(self, x: str = "x") -> str:
        """Return f(x) in LaTeX; by default its name."""
        return rf"{word(type(self).__name__)}({x})"

    def __radd__(self, other: Any) -> Any:
        return self if isinstance(other, int) and other == 0 else NotImplemented  # sum() starts with 0

    def __matmul__(self, matrix: Any) -> Any:
        return self.composed(as_linear_map(enclosed(self), matrix, None if self.open else self.dim))

    def __rmatmul__(self, matrix: Any) -> Any:
        name = self.written
        raise TypeError(f"The function x -> {name}(B x) is written {name} @ B, with the matrix on the right.")

    def on(self, index: Any, dim: int | None = None) -> Any:
        """Return x -> f(x[index]).

        Parameters
        ----------
        index : slice, or array_like of int or bool
            The coordinates that f depends on, without repetition.
        dim : int, optional
            The dimension of x. By default it is the dimension of the other terms of a sum, of the feasible
            set or of the regularizer, or the least possible dimension.

        Examples
        --------
        >>> import numpy as np, cutplane as cut
        >>> cut.L1(0.5).on(slice(0, 2)).value(np.array([1.0, -2.0, 50.0]))
        1.5
        >>> f = cut.LinearObjective([1.0, 2.0])
        >>> total = f.on(slice(1, 3)) + cut.LinearObjective([1.0, 0.0, 0.0, 0.0])
        >>> total.dim, total(np.array([1.0, 2.0, 3.0, 4.0]))
        (4, 9.0)
        """
        return self.composed(Selection(index, dim, self.dim))


class Composed:
    """x -> h(A x + b), with those capabilities in `passed_on` that h has."""

    passed_on: ClassVar[tuple[Capability, ...]]
    inner: Any
    map: LinearMap
    offset: Array | None = None

    def __repr__(self) -> str:
        return enclosed(self.inner) + (self.map.shown() if self.offset is None else ".shift(b)")

    @cached_property
    def withheld(self) -> tuple[Capability, ...]:
        """The capabilities that are missing because h does not have them."""
        return tuple(kind for kind in self.passed_on if not offers(self.inner, kind))

    @property
    def open(self) -> bool:
        """Whether `dim` is only the least possible dimension."""
        return self.map.open

    def at(self, x: Array) -> Array:
        """Return A x + b."""
        return self.map(x) if self.offset is None else self.map(x) + self.offset

    def expression(self, x: Any) -> Any:
        """Return A x + b as a cvxpy expression."""
        image = self.map.resolve(x.size).cvxpy_form(x)
        return image if self.offset is None else image + self.offset

    def cvxpy_form(self, x: Any) -> Any:
        return self.inner.cvxpy_form(self.expression(x))


def not_offered(parts: Iterable[Any], kinds: Iterable[Capability]) -> tuple[Capability, ...]:
    """Return the capabilities that some part lacks."""
    parts = tuple(parts)
    return tuple(kind for kind in kinds if not all(offers(part, kind) for part in parts))


def common_domain(parts: Iterable[Any]) -> Any:
    """Return the intersection of the domains of functions; None if none has a domain."""
    domains = [part.domain for part in parts if part.domain is not None]
    return reduce(and_, domains) if domains else None


def check_dimension(piece: Any, dim: int) -> None:
    """Raise `InvalidInputError` if a piece has a dimension other than `dim`."""
    if piece.dim not in (None, dim):
        raise InvalidInputError(f"{piece!r} has dimension {piece.dim}, but dimension {dim} is needed.")


def enclosed(piece: Any) -> str:
    """Return the repr of a piece, in parentheses if it is a sum or a product."""
    text, depth = repr(piece), 0
    for character in text:
        depth += (character in "([{<") - (character in ")]}>")
        if character == " " and depth == 0:
            return f"({text})"
    return text

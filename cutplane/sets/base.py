"""The interface of a feasible set."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from cutplane.exceptions import InvalidInputError
from cutplane.validation import Array, as_scalar, as_vector

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, eq=False)
class HalfSpace:
    """{x : <normal, x> <= offset}.

    Parameters
    ----------
    normal : array_like of shape (dim,)
        Not zero.
    offset : float
    """

    normal: Array
    offset: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "normal", as_vector("HalfSpace.normal", self.normal))
        object.__setattr__(self, "offset", as_scalar("HalfSpace.offset", self.offset))


class Separator(Protocol):
    """Anything that can say "inside" or cut a point off."""

    def separate(self, x: Array) -> Sequence[HalfSpace]:
        """Return no half-space if x is inside, else half-spaces that hold on the set and that x violates."""
        ...


class FeasibleSet(ABC):
    """A closed convex set X.

    Sets are intersected with ``&``. A *simple* set is described in closed form or to cvxpy; a separation
    oracle is not simple, and `parts` splits an intersection into the two kinds. Simple sets implement
    `violation` and whichever of the optional methods below they can: each is a capability that methods,
    masters and certificates ask for.

    Optional methods
    ----------------
    project(x) -> ndarray of shape (dim,)
        The Euclidean projection, exact up to rounding.
    minimise_linear(v) -> ndarray of shape (dim,)
        A minimiser of <v, x> over X (X bounded).
    minimise_entropy(v, log_reference) -> ndarray of shape (dim,)
        The minimiser over X of <v, x> + sum_j x_j (ln x_j - log_reference_j).
    linear_form(dim) -> LinearForm or None
        X as a polyhedron.
    cvxpy_form(x) -> list of cvxpy constraints
        X as constraints on the cvxpy variable x.

    Attributes
    ----------
    dim : int or None
        Dimension; None if the set fits any dimension.
    bounded : bool or None
        Whether X is bounded; None if not known.
    """

    dim: int | None = None
    bounded: bool | None = None

    @abstractmethod
    def violation(self, x: Array) -> float:
        """Return 0 inside, else how far the worst constraint is violated, in the unit of x."""

    def bounds(self, dim: int) -> tuple[Array, Array] | None:
        """Return (lower, upper), each of shape (dim,), if X is exactly {lower <= x <= upper}; else None."""
        return None

    def resolve(self, dim: int) -> FeasibleSet:
        """Return the same set with its dimension fixed to `dim`; an `InvalidInputError` if it has another."""
        if self.dim not in (None, dim):
            raise InvalidInputError(f"{self!r} has dimension {self.dim}, but dimension {dim} is needed.")
        return self

    @property
    def parts(self) -> tuple[FeasibleSet, tuple[Separator, ...]]:
        """The simple part X0 and the separation oracles: X is their intersection."""
        return self, ()

    def __and__(self, other: Any) -> FeasibleSet:
        from cutplane.sets.intersection import intersect

        if not isinstance(other, FeasibleSet):
            return NotImplemented
        return intersect(self, other)

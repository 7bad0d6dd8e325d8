"""Sets given only by a separation oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from cutplane.exceptions import InvalidInputError, OracleError
from cutplane.pieces.latex import word
from cutplane.pieces.parameters import brief, common_dim, read_only
from cutplane.pieces.validation import Array
from cutplane.sets.base import AnyDimension, FeasibleSet, HalfSpace, HalfSpaces, Separator, check_half_spaces
from cutplane.sets.box import WholeSpace


@dataclass(frozen=True, eq=False, repr=False)
class SeparationOracle(AnyDimension):
    """A closed convex set given by a function that separates a point from the set.

    Parameters
    ----------
    function : callable
        ``function(x)`` returns None or an empty list if x is in the set. Otherwise it returns a `HalfSpace`,
        an iterable of them or a `HalfSpaces`; each of these contains the set, and not x. x is a read-only
        ndarray of shape (dim,).
    dim : int, optional
        Dimension; by default the dimension of the set with which it is intersected.
    nearby : callable, optional
        ``nearby(x)`` returns a point of the set close to x, or None; for example by a rounding heuristic.
        Upper bounds are then computed at this point. By default they are computed on the segment between x
        and a point of the set, which takes one to three calls of ``function``.

    Raises
    ------
    OracleError
        When a call returns anything else, a half-space of the wrong dimension, or a zero normal.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.sets import HalfSpace, separation_oracle
    >>> @separation_oracle
    ... def disc(x):
    ...     norm = np.linalg.norm(x)
    ...     return None if norm <= 1 else HalfSpace(x / norm, 1.0)
    >>> disc, disc.violation(np.array([3.0, 4.0]))
    (SeparationOracle(disc), 4.0)
    """

    function: Callable[[Array], Any]
    dim: int | None = None
    nearby: Callable[[Array], Array | None] | None = None

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InvalidInputError(f"SeparationOracle.function must be callable, got {self.function!r}.")
        if self.nearby is not None and not callable(self.nearby):
            raise InvalidInputError(f"SeparationOracle.nearby must be callable, got {self.nearby!r}.")
        common_dim("SeparationOracle", self.dim)

    def __repr__(self) -> str:
        dim = "" if self.dim is None else f", dim={self.dim}"
        return f"SeparationOracle({brief(self.function)}{dim})"

    @property
    def parts(self) -> tuple[FeasibleSet, tuple[Separator, ...]]:
        return WholeSpace(self.dim), (self,)

    def separate(self, x: Array) -> Sequence[HalfSpace]:
        answer = self.function(read_only(x))
        if answer is None or isinstance(answer, HalfSpaces):
            return () if answer is None else answer
        if not isinstance(answer, HalfSpace | Iterable):
            raise OracleError(
                f"{self!r} returned {answer!r}; return None for inside, else a HalfSpace or a list of them."
            )
        half_spaces = (answer,) if isinstance(answer, HalfSpace) else tuple(answer)
        check_half_spaces(half_spaces, x.size, self)
        if not all(half_space.normal.any() for half_space in half_spaces):
            raise OracleError(f"{self!r} returned a HalfSpace whose normal is zero, which excludes nothing.")
        return half_spaces

    def formula(self, x: str = "x") -> str:
        name = getattr(self.function, "__name__", type(self).__name__)
        return rf"{x} \in {word(name)}"

    def violation(self, x: Array) -> float:
        return float(HalfSpaces.of(self.separate(x), x.size).violations(x).max(initial=0.0))


def separation_oracle(
    function: Callable[[Array], Any] | None = None,
    *,
    dim: int | None = None,
    nearby: Callable[[Array], Array | None] | None = None,
) -> Any:
    """Turn a function into a `SeparationOracle`; to be used as a decorator, with or without options.

    Parameters
    ----------
    function : callable
        See `SeparationOracle`.
    dim, nearby : optional
        See `SeparationOracle`.

    Examples
    --------
    >>> from cutplane.sets import separation_oracle
    >>> @separation_oracle(dim=2)
    ... def everything(x):
    ...     return None
    >>> everything
    SeparationOracle(everything, dim=2)
    """
    if function is None:
        return lambda function: SeparationOracle(function, dim, nearby)
    return SeparationOracle(function, dim, nearby)

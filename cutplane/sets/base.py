"""The interface of a feasible set."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np
from scipy import sparse

from cutplane.exceptions import OracleError
from cutplane.pieces.algebra import check_dimension
from cutplane.pieces.answers import describe
from cutplane.pieces.capabilities import Capability, ability, offers
from cutplane.pieces.forms import LinearForm
from cutplane.pieces.latex import word
from cutplane.pieces.parameters import as_matrix, set_fields
from cutplane.pieces.validation import Array, as_scalar, as_vector

LAST_BITS = 2.0**-48
"""Rounding error of a sum relative to its terms, because a few of them lose their last bits."""


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
        set_fields(
            self,
            normal=as_vector("HalfSpace.normal", self.normal),
            offset=as_scalar("HalfSpace.offset", self.offset),
        )


@dataclass(frozen=True, eq=False)
class HalfSpaces(Sequence[HalfSpace]):
    """Many half-spaces {x : <normals_i, x> <= offsets_i} in one object, which may be sparse.

    Parameters
    ----------
    normals : ndarray or csr_array of shape (n, dim)
        Sparse normals stay sparse throughout: thousands of cuts of a few variables each cost little.
    offsets : ndarray of shape (n,)

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from cutplane.sets import HalfSpaces
    >>> pairs = HalfSpaces(sparse.csr_array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]]), np.ones(2))
    >>> print(len(pairs), pairs.violations(np.array([1.0, 0.5, 0.0])))
    2 [ 0.5 -0.5]
    """

    normals: Any
    offsets: Array

    def __post_init__(self) -> None:
        normals = as_matrix("HalfSpaces.normals", self.normals)
        offsets = as_vector("HalfSpaces.offsets", self.offsets, normals.shape[0])
        set_fields(self, normals=normals, offsets=offsets)

    @classmethod
    def of(cls, answer: Sequence[HalfSpace], dim: int, name: str = "The oracle") -> HalfSpaces:
        """Return a copy of the answer of an oracle of this name, or raise `OracleError`."""
        if isinstance(answer, HalfSpaces):
            return cls(answer.normals.copy(), np.array(answer.offsets, dtype=np.float64))
        check_half_spaces(answer, dim, name)
        normals = np.array([half_space.normal for half_space in answer]).reshape(-1, dim)
        return cls(normals, np.array([half_space.offset for half_space in answer]))

    @classmethod
    def stack(cls, parts: Sequence[HalfSpaces], dim: int) -> HalfSpaces:
        """Return all half-spaces of several such objects; sparse if one of them is."""
        parts = [part for part in parts if len(part)]
        if len(parts) < 2:
            return parts[0] if parts else cls(np.empty((0, dim)), np.empty(0))
        normals = [part.normals for part in parts]
        stacked: Any = sparse.vstack if any(sparse.issparse(normal) for normal in normals) else np.vstack
        if stacked is sparse.vstack:
            normals = [sparse.csr_array(normal) for normal in normals]
        return cls(stacked(normals), np.concatenate([part.offsets for part in parts]))

    def __len__(self) -> int:
        return len(self.offsets)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return HalfSpaces(self.normals[index], self.offsets[index])
        row = self.normals[[range(len(self))[index]]]
        dense = row.toarray() if sparse.issparse(row) else row
        return HalfSpace(dense[0], float(self.offsets[index]))

    def violations(self, x: Array) -> Array:
        """Return <normals_i, x> - offsets_i, shape (n,)."""
        return self.normals @ x - self.offsets

    def sizes(self, x: Array) -> Array:
        """Return the sizes of the terms that the violations are sums of, shape (n,), for rounding errors."""
        return abs(self.normals) @ np.abs(x) + np.abs(self.offsets)


def check_half_spaces(answer: Sequence[Any], dim: int, name: Any) -> None:
    """Raise `OracleError` unless the answer of an oracle of this name holds half-spaces of this dimension."""
    for half_space in answer:
        if not isinstance(half_space, HalfSpace):
            raise OracleError(f"{name} must return HalfSpace objects, got {describe(half_space)}.")
        if half_space.normal.shape != (dim,):
            raise OracleError(
                f"{name} returned a HalfSpace of dimension {half_space.normal.shape[0]}; "
                f"the problem has dimension {dim}."
            )


class Separator(Protocol):
    """Anything that can say "inside" or cut a point off.

    It may also have a method ``nearby(x)`` that returns a point of the set close to x, or None: the engine
    then takes that point for the upper bound, and none on the segment to the best point.
    """

    def separate(self, x: Array) -> Sequence[HalfSpace]: ...


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
    restore(x) -> ndarray of shape (dim,)
        A point of X close to x, which is outside by a solver's tolerance; for sets without `project`.
    minimise_linear(v) -> ndarray of shape (dim,)
        A minimiser of <v, x> over X (X bounded).
    minimise_entropy(v, log_reference) -> ndarray of shape (dim,)
        The minimiser over X of <v, x> + sum_j x_j (ln x_j - log_reference_j).
    linear_form(dim) -> LinearForm or None
        X as a polyhedron.
    cvxpy_form(x) -> list of cvxpy constraints
        X as constraints on the cvxpy variable x.
    in_unit(unit) -> FeasibleSet
        {u : unit * u in X}: backends whose tolerances are absolute are given sets of the size of 1.

    Attributes
    ----------
    dim : int or None
        Dimension; None if the set fits any dimension.
    bounded : bool or None
        Whether X is bounded; None if not known.
    nonnegative : bool
        Whether X is known to lie in the nonnegative orthant, where an l1 norm is linear.
    cvxpy_variables : tuple of cvxpy.Variable
        The variables whose entries x holds, for `Result.value`; () if X was not given by cvxpy.
    """

    dim: int | None = None
    bounded: bool | None = None
    nonnegative: bool = False
    cvxpy_variables: tuple[Any, ...] = ()

    @abstractmethod
    def violation(self, x: Array) -> float:
        """Return 0 inside, else how far the worst constraint is violated, in the unit of x."""

    def formula(self, x: str = "x") -> str:
        """Return that x is in X, in LaTeX; by default by the name of X."""
        return rf"{x} \in {word(type(self).__name__)}"

    def bounds(self, dim: int) -> tuple[Array, Array] | None:
        """Return (lower, upper), each of shape (dim,), if X is exactly {lower <= x <= upper}; else None."""
        return None

    def resolve(self, dim: int) -> FeasibleSet:
        """Return the same set with its dimension fixed to `dim`; an `InvalidInputError` if it has another."""
        check_dimension(self, dim)
        return self

    @property
    def parts(self) -> tuple[FeasibleSet, tuple[Separator, ...]]:
        """The simple part X0 and the separation oracles: X is their intersection."""
        return self, ()

    @property
    def members(self) -> tuple[FeasibleSet, ...]:
        """The simple sets that the simple part of X is the intersection of."""
        return (self.parts[0],)

    def meet(self, other: FeasibleSet) -> FeasibleSet | None:
        """Return the intersection with another set as one simpler set, or None; ``a & b`` calls both."""
        return None

    def meet_box(self, lower: Any, upper: Any) -> FeasibleSet | None:
        """Return the part of X in the box ``lower <= x <= upper`` as one simple set; None if none is known.

        The sides are numbers or have shape (dim,); an `InvalidInputError` says that the part is empty.
        """
        return None

    def __and__(self, other: Any) -> FeasibleSet:
        from cutplane.sets.intersection import intersect

        if not isinstance(other, FeasibleSet):
            return NotImplemented
        return intersect(self, other)


class AnyDimension(FeasibleSet):
    """A set that is a dataclass whose field `dim` may be None, so that it fits any dimension."""

    def resolve(self, dim: int) -> Self:
        super().resolve(dim)
        piece: Any = self
        return self if self.dim == dim else replace(piece, dim=dim)


class LinearSet(AnyDimension):
    """A set given by bounds and rows, from which its constraints for cvxpy follow."""

    @abstractmethod
    def form_of(self, dim: int) -> LinearForm:
        """Return the bounds and rows, without auxiliaries."""

    @cached_property
    def _linear_forms(self) -> dict[int, LinearForm]:
        """The forms by dimension, because each bound of a solve needs one."""
        return {}

    def linear_form(self, dim: int) -> LinearForm:
        if dim not in self._linear_forms:
            self._linear_forms[dim] = self.form_of(dim)
        return self._linear_forms[dim]

    def cvxpy_form(self, x: Any) -> list[Any]:
        return self.linear_form(x.size).cvxpy_form(x)


def size_of(feasible_set: FeasibleSet, dim: int) -> float:
    """Return the largest entry of some extreme points of a bounded set; inf if none are known.

    Only bounds, or cheap linear minimisations, are used: a set that implements nothing else may be costly.
    """
    bounds = feasible_set.bounds(dim)
    if bounds is not None:
        return float(np.abs(bounds).max())
    minimise = ability(feasible_set, Capability.LINEAR_MINIMISATION)
    others = Capability.PROJECTION, Capability.LINEAR_FORM, Capability.CVXPY
    if minimise is None or not any(offers(feasible_set, other) for other in others):
        return np.inf
    return max(float(np.abs(minimise(np.full(dim, sign))).max()) for sign in (-1.0, 1.0))


def beyond_rounding(excess: Any, terms: Any) -> float:
    """Return the largest excess of a sum over its bound; 0 if it is rounding error of terms of this size."""
    return float(np.max(np.where(excess > LAST_BITS * terms, excess, 0.0), initial=0.0))


def scale_of(feasible_set: FeasibleSet, dim: int, unknown: float = 1.0) -> float:
    """Return the size of a set, or of the finite sides of its linear form; `unknown` if neither is."""
    size = size_of(feasible_set, dim)
    if size == np.inf and (linear_form := ability(feasible_set, Capability.LINEAR_FORM)) is not None:
        form = linear_form(dim)
        size = 0.0 if form is None else form.scale
    return size if 0.0 < size < np.inf else unknown


def is_whole_space(feasible_set: FeasibleSet, dim: int) -> bool:
    """Tell whether a set has no bounds at all."""
    bounds = None if feasible_set.bounded else feasible_set.bounds(dim)
    return bounds is not None and bool(np.isinf(bounds[0]).all() and np.isinf(bounds[1]).all())

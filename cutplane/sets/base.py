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
"""Rounding error of a sum relative to its terms, because each addition is rounded."""


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
        Sparse normals remain sparse, because thousands of cuts of a few variables each then take little
        memory.
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
        """Return a copy of the answer of the oracle `name`, or raise `OracleError`."""
        if isinstance(answer, HalfSpaces):
            return cls(answer.normals.copy(), np.array(answer.offsets, dtype=np.float64))
        check_half_spaces(answer, dim, name)
        normals = np.array([half_space.normal for half_space in answer]).reshape(-1, dim)
        return cls(normals, np.array([half_space.offset for half_space in answer]))

    @classmethod
    def stack(cls, parts: Sequence[HalfSpaces], dim: int) -> HalfSpaces:
        """Return the half-spaces of several objects as one; sparse if one of them is."""
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
        """Return the sums of the absolute terms of the violations, shape (n,), for their rounding errors."""
        return abs(self.normals) @ np.abs(x) + np.abs(self.offsets)


def check_half_spaces(answer: Sequence[Any], dim: int, name: Any) -> None:
    """Raise `OracleError` unless the oracle `name` returned half-spaces of dimension `dim`."""
    for half_space in answer:
        if not isinstance(half_space, HalfSpace):
            raise OracleError(f"{name} must return HalfSpace objects, got {describe(half_space)}.")
        if half_space.normal.shape != (dim,):
            raise OracleError(
                f"{name} returned a HalfSpace of dimension {half_space.normal.shape[0]}; "
                f"the problem has dimension {dim}."
            )


class Separator(Protocol):
    """An object with a separation oracle: it returns half-spaces that x violates, none if x is inside.

    It may also have a method ``nearby(x)`` that returns a point of the set close to x, or None. Then the
    engine computes the upper bound at this point, and not at a point on the segment from x to the best point.
    """

    def separate(self, x: Array) -> Sequence[HalfSpace]: ...


class FeasibleSet(ABC):
    """A closed convex set X.

    Sets are intersected with ``&``. A *simple* set has a closed form or a cvxpy form. A separation oracle is
    not simple; `parts` splits an intersection into simple sets and oracles. Simple sets implement
    `violation`, and any of the optional methods below; each is a capability that some methods, masters and
    certificates need.

    Optional methods
    ----------------
    project(x) -> ndarray of shape (dim,)
        The Euclidean projection, exact up to rounding.
    restore(x) -> ndarray of shape (dim,)
        A point of X close to x, where x violates X at most by the tolerance of a solver; for sets without
        `project`.
    minimise_linear(v) -> ndarray of shape (dim,)
        A minimiser of <v, x> over a bounded X.
    minimise_entropy(v, log_reference) -> ndarray of shape (dim,)
        The minimiser over X of <v, x> + sum_j x_j (ln x_j - log_reference_j).
    linear_form(dim) -> LinearForm or None
        X as a polyhedron.
    cvxpy_form(x) -> list of cvxpy constraints
        X as constraints on the cvxpy variable x.
    in_unit(unit) -> FeasibleSet
        {u : unit * u in X}, to scale x to the size of 1 for backends with absolute tolerances.

    Attributes
    ----------
    dim : int or None
        Dimension; None if the set fits any dimension.
    bounded : bool or None
        Whether X is bounded; None if this is not stated.
    nonnegative : bool
        Whether all x in X are nonnegative, so that an l1 norm is linear on X.
    cvxpy_variables : tuple of cvxpy.Variable
        The variables whose entries are the coordinates of x, for `Result.value`; () if X was not given by
        cvxpy.
    """

    dim: int | None = None
    bounded: bool | None = None
    nonnegative: bool = False
    cvxpy_variables: tuple[Any, ...] = ()

    @abstractmethod
    def violation(self, x: Array) -> float:
        """Return the largest violation of a constraint, in the unit of x; 0 if x is in X."""

    def formula(self, x: str = "x") -> str:
        """Return the constraint x in X in LaTeX; by default with the name of X."""
        return rf"{x} \in {word(type(self).__name__)}"

    def bounds(self, dim: int) -> tuple[Array, Array] | None:
        """Return (lower, upper), each of shape (dim,), if X is exactly {lower <= x <= upper}; else None."""
        return None

    def resolve(self, dim: int) -> FeasibleSet:
        """Return the set with its dimension fixed to `dim`, or raise `InvalidInputError`."""
        check_dimension(self, dim)
        return self

    @property
    def parts(self) -> tuple[FeasibleSet, tuple[Separator, ...]]:
        """The simple part and the separation oracles whose intersection is X."""
        return self, ()

    @property
    def members(self) -> tuple[FeasibleSet, ...]:
        """The simple sets whose intersection is the simple part of X."""
        return (self.parts[0],)

    def meet(self, other: FeasibleSet) -> FeasibleSet | None:
        """Return the intersection with another set as one simple set, or None.

        ``a & b`` calls ``a.meet(b)``, and ``b.meet(a)`` if the first call returns None.
        """
        return None

    def meet_box(self, lower: Any, upper: Any) -> FeasibleSet | None:
        """Return the intersection of X and a box as one simple set, or None.

        `lower` and `upper` are numbers or have shape (dim,). An `InvalidInputError` means an empty
        intersection.
        """
        return None

    def __and__(self, other: Any) -> FeasibleSet:
        from cutplane.sets.intersection import intersect

        if not isinstance(other, FeasibleSet):
            return NotImplemented
        return intersect(self, other)


class AnyDimension(FeasibleSet):
    """A dataclass whose field `dim` may be None, for a set that fits any dimension."""

    def resolve(self, dim: int) -> Self:
        super().resolve(dim)
        piece: Any = self
        return self if self.dim == dim else replace(piece, dim=dim)


class LinearSet(AnyDimension):
    """A set given by bounds and linear constraints."""

    @abstractmethod
    def form_of(self, dim: int) -> LinearForm:
        """Return the bounds and linear constraints, without auxiliary variables."""

    @cached_property
    def _linear_forms(self) -> dict[int, LinearForm]:
        """The forms by dimension, stored because each bound of a solve needs one."""
        return {}

    def linear_form(self, dim: int) -> LinearForm:
        if dim not in self._linear_forms:
            self._linear_forms[dim] = self.form_of(dim)
        return self._linear_forms[dim]

    def cvxpy_form(self, x: Any) -> list[Any]:
        return self.linear_form(x.size).cvxpy_form(x)


def size_of(feasible_set: FeasibleSet, dim: int) -> float:
    """Return the largest absolute entry of some extreme points of a bounded set; inf if it has none.

    The points are computed from bounds, or by two linear minimisations. The result is inf for a set that
    implements only linear minimisation, because it may be costly.
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
    """Return the largest excess of sums over their bounds; an excess below the rounding error counts as 0."""
    return float(np.max(np.where(excess > LAST_BITS * terms, excess, 0.0), initial=0.0))


def scale_of(feasible_set: FeasibleSet, dim: int, unknown: float = 1.0) -> float:
    """Return the size of a set, or the largest finite bound of its linear form, or `unknown`."""
    size = size_of(feasible_set, dim)
    if size == np.inf and (linear_form := ability(feasible_set, Capability.LINEAR_FORM)) is not None:
        form = linear_form(dim)
        size = 0.0 if form is None else form.scale
    return size if 0.0 < size < np.inf else unknown


def is_whole_space(feasible_set: FeasibleSet, dim: int) -> bool:
    """Tell whether a set has no bounds at all."""
    bounds = None if feasible_set.bounded else feasible_set.bounds(dim)
    return bounds is not None and bool(np.isinf(bounds[0]).all() and np.isinf(bounds[1]).all())

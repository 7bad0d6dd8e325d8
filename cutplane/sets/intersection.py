"""Intersections of feasible sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.algebra import not_offered
from cutplane.pieces.capabilities import Capability, ability, ask
from cutplane.pieces.cvxpy_tools import common_variables
from cutplane.pieces.forms import LinearForm
from cutplane.pieces.parameters import set_fields
from cutplane.pieces.validation import Array
from cutplane.sets.base import FeasibleSet, Separator, is_whole_space
from cutplane.sets.box import WholeSpace

if TYPE_CHECKING:
    from fractions import Fraction

    from cutplane.pieces.capabilities import ExactTerms


_BITS = 2.0**-48
"""Relative violation of a row that counts as a rounding error, because each term is rounded."""
_ROUNDS = 30
"""Largest number of least-squares steps, because each changes the side of one or two rows unless x is far
away."""
_MANY = 500
"""Largest number of rows corrected in one step, because the least-squares problem has an equation for each
row."""
_CYCLES = 200
"""Largest number of cycles of projections, because a few halve the violation unless the sets are almost
tangent."""


@dataclass(frozen=True, eq=False, repr=False)
class Intersection(FeasibleSet):
    """The intersection of simple sets and separation oracles; written ``a & b & c``.

    ``&`` returns a simpler set if possible: the whole space is omitted, boxes are merged, and a simplex in a
    box becomes a capped simplex. All other intersections are of this class, which has a cvxpy form and a
    linear form if all its parts have them, but no closed forms.

    Parameters
    ----------
    simple : sequence of FeasibleSet
        The simple sets.
    separators : sequence of SeparationOracle
        The sets given only by an oracle.

    Raises
    ------
    InvalidInputError
        If the dimensions differ, or there is no set.

    Examples
    --------
    >>> from cutplane.sets import Box, L2Ball, Simplex
    >>> Box(-1, 1, dim=3) & L2Ball(1.5)
    Box(-1, 1, dim=3) & L2Ball(radius=1.5, dim=3)
    >>> Simplex(3) & Box(0, 0.5)
    CappedSimplex(cap=0.5, dim=3)
    """

    simple: Sequence[FeasibleSet]
    separators: Sequence[Any] = ()

    def __post_init__(self) -> None:
        if not self.simple and not self.separators:
            raise InvalidInputError("Intersection needs at least one set; use WholeSpace for no constraint.")
        dim = _common_dim((*self.simple, *self.separators))
        for name in ("simple", "separators"):
            members = getattr(self, name)
            fixed = members if dim is None else (member.resolve(dim) for member in members)
            object.__setattr__(self, name, tuple(fixed))
        bounded = True if any(part.bounded for part in self.simple) else None
        variables = common_variables((*self.simple, *self.separators))
        set_fields(self, dim=dim, bounded=bounded, cvxpy_variables=variables)

    def __repr__(self) -> str:
        return " & ".join(repr(part) for part in (*self.simple, *self.separators))

    @property
    def parts(self) -> tuple[FeasibleSet, tuple[Separator, ...]]:
        if not self.separators:
            return self, ()
        return _of(self.simple, (), self.dim), tuple(self.separators)

    @cached_property
    def withheld(self) -> tuple[Capability, ...]:
        """The forms that are missing because a part has none; a separation oracle has none at all."""
        forms = (Capability.CVXPY, Capability.LINEAR_FORM, Capability.UNIT)
        return forms if self.separators else not_offered(self.simple, forms)

    @property
    def members(self) -> tuple[FeasibleSet, ...]:
        return tuple(self.simple)

    def resolve(self, dim: int) -> Intersection:
        super().resolve(dim)
        if self.dim == dim:
            return self
        return Intersection(
            *([part.resolve(dim) for part in kind] for kind in (self.simple, self.separators))
        )

    def formula(self, x: str = "x") -> str:
        return r",\; ".join(filter(None, (part.formula(x) for part in (*self.simple, *self.separators))))

    def violation(self, x: Array) -> float:
        return max(part.violation(x) for part in (*self.simple, *self.separators))

    def restore(self, x: Array) -> Array:
        """Return a point of the set close to x, by least squares for a polyhedron, else by projections."""
        form = self.linear_form(x.size)
        if form is not None and form.n_columns == x.size:
            return restore_by_rows(form, x)
        kinds = Capability.PROJECTION, Capability.RESTORATION
        maps = [found for part in self.simple for kind in kinds if (found := ability(part, kind)) is not None]
        return restore_by_cycles(maps, self.violation, x) if len(maps) == len(self.simple) else x

    def linear_form(self, dim: int) -> LinearForm | None:
        if self.dim != dim:
            return self.resolve(dim).linear_form(dim)
        return self._form

    @cached_property
    def _form(self) -> LinearForm | None:
        if Capability.LINEAR_FORM in self.withheld:
            return None
        dim: Any = self.dim
        forms: list[Any] = [ask(part, Capability.LINEAR_FORM, dim) for part in self.simple]
        return None if None in forms else reduce(lambda a, b: a.merge(b, dim), forms)

    def declare(self, found: ExactTerms, factor: Fraction) -> None:
        for member in self.members:
            found.add(member, factor)

    def in_unit(self, unit: float) -> FeasibleSet:
        simple: Any = self.simple
        return Intersection([part.in_unit(unit) for part in simple])

    def cvxpy_form(self, x: Any) -> list[Any]:
        simple: Any = self.simple
        return [constraint for part in simple for constraint in part.cvxpy_form(x)]


def intersect(a: FeasibleSet, b: FeasibleSet) -> FeasibleSet:
    """Return the intersection of two sets, as a simple set if possible.

    Raises
    ------
    InvalidInputError
        If the dimensions differ.
    """
    dim = _common_dim((a, b))
    simple: list[FeasibleSet] = []
    separators: list[Any] = []
    for member in (a, b):
        for part in member.members:
            simple = _merged(simple, part if dim is None else part.resolve(dim))
        separators += member.parts[1]
    return _of(simple, separators, dim)


def _of(simple: Sequence[FeasibleSet], separators: Sequence[Any], dim: int | None) -> FeasibleSet:
    kept = [part for part in simple if not is_whole_space(part, part.dim or 1)]
    if not separators and len(kept) <= 1:
        return kept[0] if kept else WholeSpace(dim)
    return Intersection(kept, separators)


def _common_dim(parts: Sequence[Any]) -> int | None:
    dims = {part.dim: part for part in parts if part.dim is not None}
    if len(dims) > 1:
        raise InvalidInputError(
            "Only sets of one dimension can be intersected, got "
            + ", ".join(f"{part!r} of dimension {dim}" for dim, part in dims.items())
            + "."
        )
    return next(iter(dims), None)


def _merged(parts: list[FeasibleSet], new: FeasibleSet) -> list[FeasibleSet]:
    for i, part in enumerate(parts):
        single = _single(part, new)
        if single is not None:
            return _merged(parts[:i] + parts[i + 1 :], single)
    return [*parts, new]


def _single(a: FeasibleSet, b: FeasibleSet) -> FeasibleSet | None:
    """Return a & b as one simple set; None if no set implements this, or if a & b is empty."""
    try:
        met = a.meet(b)
        return b.meet(a) if met is None else met
    except InvalidInputError:
        return None


def restore_by_rows(form: LinearForm, x: Array) -> Array:
    """Return a point close to x that satisfies rows and bounds, if a few least-squares steps find one."""
    point = x
    for number in range(_ROUNDS):
        point = np.clip(point, form.lower, form.upper)
        values = form.rows @ point
        excess = np.maximum(values - form.row_upper, 0.0) + np.minimum(values - form.row_lower, 0.0)
        rounding = _BITS * (form.sizes @ np.abs(point))
        outside = np.abs(excess) > rounding
        if not outside.any():
            return point
        if number == 0:  # active rows remain active
            slack = np.minimum(form.row_upper - values, values - form.row_lower)
            outside |= np.abs(slack) <= np.abs(excess).max()
        violated = np.flatnonzero(outside)
        if violated.size > _MANY:
            return x
        rows = form.rows[violated].toarray()
        free = (point > form.lower) & (point < form.upper)
        step = np.linalg.lstsq(rows * free, excess[violated])[0]
        if not step.any():
            step = np.linalg.lstsq(rows, excess[violated])[0]
        point = point - step
    return point


def restore_by_cycles(maps: Sequence[Callable[[Array], Array]], violation: Callable, x: Array) -> Array:
    """Return x after cyclic projections on several sets, until the violation is a rounding error."""
    for _ in range(_CYCLES):
        for project in maps:
            x = project(x)
        if violation(x) <= _BITS * float(np.abs(x).max()):
            break
    return x

"""A regularizer of some of the coordinates."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError, MissingCapabilityError
from cutplane.pieces.capabilities import Capability, ability, offers
from cutplane.pieces.forms import DiagonalQuadratic, LinearForm, SeparableForm
from cutplane.pieces.lines import Line
from cutplane.pieces.parameters import read_only
from cutplane.pieces.validation import Array
from cutplane.regularizers.base import UNBOUNDED, Minimum, Regularizer, has_slope, minimise_linear
from cutplane.sets.box import Box

if TYPE_CHECKING:
    from cutplane.sets.base import FeasibleSet

_PASSED_ON = (
    Capability.CONJUGATE,
    Capability.QUADRATIC,
    Capability.SEPARABLE,
    Capability.LINEAR_FORM,
    Capability.CVXPY,
    Capability.UNIT,
)


@dataclass(frozen=True, eq=False, repr=False)
class Partial(Regularizer):
    """g(x) = h(x[mask]): the other coordinates, such as a bias, are left unregularized.

    Parameters
    ----------
    regularizer : Regularizer
        h, of as many coordinates as `mask` has true entries. Its `lam` is that of g.
    mask : array_like of bool, shape (dim,)
        The coordinates h depends on: at least one, and not all.

    Raises
    ------
    InvalidInputError
        If `mask` is not a vector of both booleans, or h does not fit that many coordinates.
    MissingCapabilityError
        If h has no slope: neither a method ``subgradient`` nor a method ``line`` of its own.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.regularizers import ElasticNet
    >>> from cutplane.regularizers.partial import Partial
    >>> Partial(ElasticNet(1.0), [True, True, False]).value(np.array([1.0, -1.0, 50.0]))
    1.5
    """

    regularizer: Regularizer
    mask: Any

    def __post_init__(self) -> None:
        mask = np.array(self.mask)
        if mask.ndim != 1 or mask.dtype != np.bool_ or mask.all() or not mask.any():
            raise InvalidInputError(
                f"Partial.mask must be a vector of booleans, some True and some False, got {self.mask!r}."
            )
        inner = self.regularizer
        if not isinstance(inner, Regularizer):
            raise InvalidInputError(f"Partial.regularizer must be a Regularizer such as L1(), got {inner!r}.")
        inner.check_dim(int(mask.sum()))
        if not has_slope(inner):
            raise MissingCapabilityError(
                f"Partial needs the slope of {inner!r}: give it a method subgradient(x)."
            )
        object.__setattr__(self, "mask", read_only(mask))

    def __repr__(self) -> str:
        return f"Partial({self.regularizer!r}, {int(self.mask.sum())} of {self.mask.size} coordinates)"

    @property
    def lam(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The weight of h."""
        return self.regularizer.lam

    @cached_property
    def withheld(self) -> tuple[Capability, ...]:
        """The capabilities that h does not offer."""
        return tuple(kind for kind in _PASSED_ON if not offers(self.regularizer, kind))

    def check_dim(self, dim: int) -> None:
        """Raise `InvalidInputError` if the mask does not have shape (dim,)."""
        if self.mask.size != dim:
            raise InvalidInputError(
                f"Partial.mask has shape {self.mask.shape}, but the problem has dimension {dim}."
            )

    def with_lam(self, lam: float) -> Self:
        """Return the same regularizer with another weight."""
        return replace(self, regularizer=self.regularizer.with_lam(lam))

    def unregularized(self, dim: int) -> Array:
        """Return the coordinates outside the mask, and those that h leaves unregularized."""
        free = ~self.mask
        own = ability(self.regularizer, Capability.UNREGULARIZED)
        form = self.quadratic(dim) if own is None else None
        if own is not None:
            free[self.mask] = own(int(self.mask.sum()))
        elif form is not None:
            free[self.mask] = form.weights[self.mask] == 0.0
        return free

    def value(self, x: Array) -> float:
        """Return g(x)."""
        return self.regularizer.value(x[self.mask])

    def subgradient(self, x: Array) -> Array:
        """Return a subgradient."""
        return self._spread(self._inner("subgradient")(x[self.mask]), 0.0)

    def line(self, x0: Array, x1: Array) -> Line:
        """Return h along the masked part of the line."""
        return self.regularizer.line(x0[self.mask], x1[self.mask])

    def conjugate_minimiser(
        self, v: Array, feasible_set: FeasibleSet, budget: float = math.inf
    ) -> Minimum | None:
        """Return the minimum over a box of h(x[mask]) + <v, x>, in closed form if h has one."""
        bounds = feasible_set.bounds(v.shape[0])
        if bounds is None or not offers(self.regularizer, Capability.CONJUGATE):
            return None
        inside, outside = (Box(bounds[0][part], bounds[1][part]) for part in (self.mask, ~self.mask))
        masked = self._inner("conjugate_minimiser")(v[self.mask], inside, budget)
        rest = minimise_linear(v[~self.mask], outside)
        if masked is None or rest is None:
            return None
        if not math.isfinite(rest.value):
            return UNBOUNDED
        x = None if masked.x is None or rest.x is None else self._spread(masked.x, 0.0)
        if x is not None:
            x[~self.mask] = rest.x
        return Minimum(masked.value + rest.value, x)

    def quadratic(self, dim: int) -> DiagonalQuadratic | None:
        """Return the quadratic form of h, with weight zero outside the mask; None if it has none."""
        form = self._form(Capability.QUADRATIC)
        if form is None:
            return None
        return DiagonalQuadratic(self._spread(form.weights, 0.0), self._spread(form.centre, 0.0))

    def separable_form(self, dim: int) -> SeparableForm | None:
        """Return the separable form of h, with nothing outside the mask; None if it has none."""
        form = self._form(Capability.SEPARABLE)
        if form is None:
            return None
        weights, centre = self._spread(form.quadratic.weights, 0.0), self._spread(form.quadratic.centre, 0.0)
        return SeparableForm(DiagonalQuadratic(weights, centre), self._spread(form.costs, 0.0))

    def linear_form(self, dim: int) -> LinearForm | None:
        """Return the linear form of h, with free columns outside the mask; None if it has none."""
        form = self._form(Capability.LINEAR_FORM)
        if form is None:
            return None
        total = dim + form.n_columns - int(self.mask.sum())
        columns = np.concatenate([np.flatnonzero(self.mask), np.arange(dim, total)])
        rows = form.rows.tocoo()

        def spread(entries: Array, outside: float) -> Array:
            out = np.full(total, outside)
            out[columns] = entries
            return out

        return LinearForm(
            cost=spread(form.cost, 0.0),
            lower=spread(form.lower, -np.inf),
            upper=spread(form.upper, np.inf),
            rows=sparse.csr_array((rows.data, (rows.row, columns[rows.col])), shape=(rows.shape[0], total)),
            row_lower=form.row_lower,
            row_upper=form.row_upper,
        )

    def in_unit(self, unit: float) -> Partial:
        """Return u -> g(unit * u)."""
        return replace(self, regularizer=self._inner("in_unit")(unit))

    def cvxpy_form(self, x: Any) -> Any:
        """Return h of the masked entries of x."""
        return self._inner("cvxpy_form")(x[np.flatnonzero(self.mask)])

    def _inner(self, method: str) -> Any:
        return getattr(self.regularizer, method)

    def _form(self, kind: Capability) -> Any:
        return self._inner(kind.value)(int(self.mask.sum())) if offers(self.regularizer, kind) else None

    def _spread(self, entries: Array, outside: float) -> Array:
        out = np.full(self.mask.size, outside)
        out[self.mask] = entries
        return out

"""A regularizer of some of the coordinates."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError, MissingCapabilityError
from cutplane.pieces.capabilities import Capability, ask, offers
from cutplane.pieces.forms import DiagonalQuadratic, GroupedForm, LinearForm, SeparableForm
from cutplane.pieces.linear_maps import Selection, enclosed
from cutplane.pieces.lines import Line
from cutplane.pieces.parameters import set_fields
from cutplane.pieces.validation import Array
from cutplane.regularizers.base import (
    Minimum,
    Regularizer,
    has_slope,
    joined,
    minimise_linear,
    unregularized_by,
)
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
    """g(x) = h(x[index]): the other coordinates, such as a bias, are left unregularized.

    It is also written ``h.on(index)``.

    Parameters
    ----------
    regularizer : Regularizer
        h, of as many coordinates as `index` selects. Its `lam` is that of g.
    index : slice, or array_like of int or bool
        The coordinates h depends on: at least one, none twice. Booleans have shape (dim,).
    dim : int, optional
        The dimension of x; by default that of the problem, or of the booleans.

    Raises
    ------
    InvalidInputError
        If `index` is not as above, or h does not fit that many coordinates.
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
    index: Any
    dim: int | None = None

    def __post_init__(self) -> None:
        h, chosen = self.regularizer, self.index
        if not isinstance(h, Regularizer):
            raise InvalidInputError(f"Partial.regularizer must be a Regularizer such as L1(), got {h!r}.")
        if not has_slope(h):
            raise MissingCapabilityError(
                f"Partial needs the slope of {h!r}: give it a method subgradient(x)."
            )
        if not isinstance(chosen, Selection):
            chosen = Selection(chosen, self.dim, h.dim if isinstance(chosen, slice) else None)
        if not chosen.open:
            h = h.resolve(chosen.shape[0])
        set_fields(self, regularizer=h, index=chosen, dim=None if chosen.open else chosen.dim)

    def __repr__(self) -> str:
        return enclosed(self.regularizer) + self.index.shown()

    @property
    def lam(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The weight of h."""
        return self.regularizer.lam

    @cached_property
    def withheld(self) -> tuple[Capability, ...]:
        """The capabilities that h does not offer."""
        return tuple(kind for kind in _PASSED_ON if not offers(self.regularizer, kind))

    @property
    def mask(self) -> Array:
        """Which coordinates h depends on, shape (dim,)."""
        return self.index.mask

    @property
    def domain(self) -> FeasibleSet | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Where h is finite, with open sides elsewhere."""
        within = self.regularizer.domain
        bounds = None if within is None else within.bounds(self.index.shape[0])
        if bounds is None:
            return None
        return Box(self.index.spread(bounds[0], -math.inf), self.index.spread(bounds[1], math.inf))

    def check_dim(self, dim: int) -> None:
        """Raise `InvalidInputError` if the index does not fit vectors of dimension `dim`."""
        self.regularizer.check_dim(self._at(dim).shape[0])

    def resolve(self, dim: int) -> Regularizer:
        """Return the same regularizer of vectors of dimension `dim`, or raise `InvalidInputError`."""
        chosen = self._at(dim)
        inner = self.regularizer.resolve(chosen.shape[0])
        same = chosen is self.index and inner is self.regularizer
        return self if same else replace(self, regularizer=inner, index=chosen)

    def with_lam(self, lam: float) -> Self:
        """Return the same regularizer with another weight."""
        return replace(self, regularizer=self.regularizer.with_lam(lam))

    def unregularized(self, dim: int) -> Array:
        """Return the coordinates that are not selected, and those that h leaves unregularized."""
        chosen = self._at(dim)
        free, inner = ~chosen.mask, unregularized_by(self.regularizer, chosen.shape[0])
        free[chosen.index] = False if inner is None else inner
        return free

    def value(self, x: Array) -> float:
        """Return g(x)."""
        return self.regularizer.value(self._at(x.size)(x))

    def subgradient(self, x: Array) -> Array:
        """Return a subgradient."""
        chosen = self._at(x.size)
        return chosen.transposed(self._inner.subgradient(chosen(x)))

    def line(self, x0: Array, x1: Array) -> Line:
        """Return h along the part of the line that it depends on."""
        chosen = self._at(x0.size)
        return self.regularizer.line(chosen(x0), chosen(x1))

    def conjugate_minimiser(
        self, v: Array, feasible_set: FeasibleSet, budget: float = math.inf
    ) -> Minimum | None:
        """Return the minimum over a box of h(x[index]) + <v, x>, in closed form if h has one."""
        dim = v.shape[0]
        bounds = feasible_set.bounds(dim)
        if bounds is None or not offers(self.regularizer, Capability.CONJUGATE):
            return None
        chosen, rest = self._at(dim).positions, np.flatnonzero(~self._at(dim).mask)
        inside, outside = (
            Box(bounds[0][part], bounds[1][part]) if part.size else None for part in (chosen, rest)
        )
        parts = [(chosen, self._inner.conjugate_minimiser(v[chosen], inside, budget))]
        if outside is not None:
            parts.append((rest, minimise_linear(v[rest], outside)))
        return joined(parts, dim)

    def quadratic(self, dim: int) -> DiagonalQuadratic | None:
        """Return the quadratic form of h, with weight zero elsewhere; None if it has none."""
        chosen = self._at(dim)
        form = self._form(Capability.QUADRATIC, chosen)
        return None if form is None else _spread(form, chosen)

    def separable_form(self, dim: int) -> SeparableForm | None:
        """Return the separable form of h, with nothing elsewhere; None if it has none."""
        chosen = self._at(dim)
        form = self._form(Capability.SEPARABLE, chosen)
        if form is None:
            return None
        return SeparableForm(_spread(form.quadratic, chosen), chosen.spread(form.costs, 0.0))

    def grouped_form(self, dim: int) -> GroupedForm | None:
        """Return the grouped form of h, with nothing elsewhere; None if it has none."""
        chosen = self._at(dim)
        form = self._form(Capability.GROUPED, chosen)
        return None if form is None else GroupedForm(chosen.spread(form.labels, -1).astype(int), form.costs)

    def linear_form(self, dim: int) -> LinearForm | None:
        """Return the linear form of h, with free columns elsewhere; None if it has none."""
        chosen = self._at(dim)
        form = self._form(Capability.LINEAR_FORM, chosen)
        if form is None:
            return None
        total = dim + form.n_columns - chosen.shape[0]
        columns = np.concatenate([chosen.positions, np.arange(dim, total)])
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
        return replace(self, regularizer=self._inner.in_unit(unit))

    def cvxpy_form(self, x: Any) -> Any:
        """Return h of the entries of x that are selected."""
        return self._inner.cvxpy_form(self._at(x.size).cvxpy_form(x))

    def _at(self, dim: int) -> Selection:
        return self.index if dim == self.index.dim else self.index.resolve(dim)

    @property
    def _inner(self) -> Any:
        """h, which is known to offer what is asked for."""
        return self.regularizer

    def _form(self, kind: Capability, chosen: Selection) -> Any:
        return ask(self.regularizer, kind, chosen.shape[0])


def _spread(form: DiagonalQuadratic, chosen: Selection) -> DiagonalQuadratic:
    weights, centre = chosen.spread(form.weights, 0.0), chosen.spread(form.centre, 0.0)
    return DiagonalQuadratic(weights, centre, form.constant)

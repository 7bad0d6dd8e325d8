"""Sums of regularizers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial, reduce
from operator import add, and_
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.capabilities import Capability, ability, ask, offers
from cutplane.pieces.cvxpy_tools import common_variables
from cutplane.pieces.forms import DiagonalQuadratic, LinearForm, SeparableForm
from cutplane.pieces.lines import Line
from cutplane.pieces.parameters import set_fields
from cutplane.pieces.validation import Array
from cutplane.regularizers.base import (
    Minimum,
    Regularizer,
    check_lam,
    has_slope,
    joined,
    minimise_linear,
    separable_form_of,
    unregularized_by,
)
from cutplane.regularizers.none import NoRegularizer
from cutplane.regularizers.separable import minimise_separable
from cutplane.sets.box import Box

if TYPE_CHECKING:
    from cutplane.pieces.capabilities import ExactTerms
    from cutplane.sets.base import FeasibleSet

Closed = Callable[[Array, "FeasibleSet", float], Minimum | None]
"""A closed form of the conjugate: (v, feasible_set, budget) -> the minimum."""


class Combination(Regularizer):
    """g(x) = sum of `summands`: it offers what all of them offer, and a closed form where the sum has one.

    A subclass has `lam` and `summands`.
    """

    @cached_property
    def _terms(self) -> tuple[Regularizer, ...]:
        return tuple(term for term in self.summands if term.lam > 0.0) or (NoRegularizer(),)

    @cached_property
    def withheld(self) -> tuple[Capability, ...]:
        """The capabilities that not every term offers."""
        separable = Capability.SEPARABLE, Capability.QUADRATIC
        enough = {
            Capability.SUBGRADIENT: (Capability.SUBGRADIENT,),
            Capability.LINEAR_FORM: (Capability.LINEAR_FORM,),
            Capability.CVXPY: (Capability.CVXPY,),
            Capability.UNIT: (Capability.UNIT,),
            Capability.QUADRATIC: separable,
            Capability.SEPARABLE: separable,
            Capability.CONJUGATE: (Capability.CONJUGATE, *separable),
        }
        missing = [
            wanted
            for wanted, any_of in enough.items()
            if not all(any(offers(term, kind) for kind in any_of) for term in self._terms)
        ]
        return (*missing, *(() if all(map(has_slope, self._terms)) else (Capability.LINE,)))

    @property
    def dim(self) -> int | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The dimension that a term says."""
        return next((term.dim for term in self.summands if term.dim is not None), None)

    @property
    def domain(self) -> FeasibleSet | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The intersection of the domains of the terms."""
        domains = [term.domain for term in self._terms if term.domain is not None]
        return reduce(and_, domains) if domains else None

    def check_dim(self, dim: int) -> None:
        """Raise `InvalidInputError` if a term does not fit vectors of dimension `dim`."""
        for term in self.summands:
            term.check_dim(dim)

    def value(self, x: Array) -> float:
        """Return g(x)."""
        return sum(term.value(x) for term in self._terms)

    def subgradient(self, x: Array) -> Array:
        """Return the sum of subgradients."""
        return reduce(add, [term.subgradient(x) for term in self._known])

    def line(self, x0: Array, x1: Array) -> Line:
        """Return the sum of the lines of the terms, with the kinks of all."""
        return reduce(add, [term.line(x0, x1) for term in self._terms])

    def separable_form(self, dim: int) -> SeparableForm | None:
        """Return the sum of the separable forms of the terms; None if one has none."""
        form, others = self._parts(dim)
        return None if others else form

    def quadratic(self, dim: int) -> DiagonalQuadratic | None:
        """Return the sum of the quadratics, with the constant it leaves; None if there is a cost."""
        form = self.separable_form(dim)
        return None if form is None or form.costs.any() else form.quadratic

    def unregularized(self, dim: int) -> Array:
        """Return the coordinates that every term leaves unregularized."""
        masks = [unregularized_by(term, dim) for term in self._terms]
        return reduce(and_, [np.zeros(dim, dtype=bool) if mask is None else mask for mask in masks])

    def conjugate_minimiser(
        self, v: Array, feasible_set: FeasibleSet, budget: float = math.inf
    ) -> Minimum | None:
        """Return the minimum of g(x) + <v, x> in closed form.

        Separable terms have one together; with others, each needs one of its own, on coordinates of its own
        in a box. None otherwise.
        """
        dim = v.shape[0]
        form, others = self._parts(dim)
        if form is not None and not others:
            return minimise_separable(form, v, feasible_set, budget)
        if form is None and len(others) == 1:
            return others[0][1](v, feasible_set, budget)
        parts = others if form is None else [(_used(form), partial(minimise_separable, form)), *others]
        return _minimise_apart(parts, v, feasible_set, budget)

    def linear_form(self, dim: int) -> LinearForm | None:
        """Return the linear forms merged; None if a term has none."""
        forms = [ask(term, Capability.LINEAR_FORM, dim) for term in self._terms]
        known: list[LinearForm] = [form for form in forms if form is not None]
        return reduce(lambda one, other: one.merge(other, dim), known) if len(known) == len(forms) else None

    def in_unit(self, unit: float) -> Regularizer:
        """Return u -> g(unit * u)."""
        return RegularizerSum(tuple(term.in_unit(unit) for term in self._known))

    def cvxpy_form(self, x: Any) -> Any:
        """Return the sum of the expressions of the terms."""
        return reduce(add, [term.cvxpy_form(x) for term in self._known])

    @property
    def _known(self) -> tuple[Any, ...]:
        """The terms, of which every one is known to offer what is asked for."""
        return self._terms

    @cached_property
    def _parts_by_dim(self) -> dict[int, tuple[SeparableForm | None, list[tuple[Array, Closed]]]]:
        return {}

    def _parts(self, dim: int) -> tuple[SeparableForm | None, list[tuple[Array, Closed]]]:
        """Return the sum of the separable terms, and the coordinates and closed forms of the others."""
        if dim not in self._parts_by_dim:
            forms = [separable_form_of(term, dim) for term in self._terms]
            others = []
            for term, form in zip(self._known, forms, strict=True):
                if form is None:
                    free = unregularized_by(term, dim)
                    used = np.ones(dim, dtype=bool) if free is None else ~free
                    others.append((used, ability(term, Capability.CONJUGATE)))
            separable = [form for form in forms if form is not None]
            self._parts_by_dim[dim] = reduce(add, separable) if separable else None, others
        return self._parts_by_dim[dim]


@dataclass(frozen=True, eq=False, repr=False)
class RegularizerSum(Combination):
    """g(x) = lam sum_j g_j(x); written ``L1(0.1) + L2(0.1)``.

    Its `lam` is a factor of all terms: `Problem.path` keeps their proportions. A sum of diagonal quadratics
    and l1 norms, of all coordinates or of some, has the closed forms that `ElasticNet` has.

    Parameters
    ----------
    terms : tuple of Regularizer
        Those of sums are taken in place of the sums when regularizers are added.
    lam : float, default 1.0
        Nonnegative and finite.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> g = cut.L1(0.5) + 0.1 * cut.L2(2.0)
    >>> g
    L1(lam=0.5) + L2(lam=0.2)
    >>> g.value(np.array([1.0, -1.0])), (10 * g).value(np.array([1.0, -1.0]))
    (1.2, 12.0)
    """

    terms: tuple[Regularizer, ...]
    lam: float = 1.0

    def __post_init__(self) -> None:
        terms = tuple(self.terms)
        if not terms or not all(isinstance(term, Regularizer) for term in terms):
            raise InvalidInputError(f"RegularizerSum.terms must be regularizers, got {self.terms!r}.")
        lam = check_lam(self.lam) if any(term.lam > 0.0 for term in terms) else 0.0
        set_fields(self, terms=terms, lam=lam, cvxpy_variables=common_variables(terms))

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.summands))

    def formula(self, x: str = "x") -> str:
        """Return g(x) in LaTeX."""
        return " + ".join(filter(None, (term.formula(x) for term in self.summands)))

    @cached_property
    def summands(self) -> tuple[Regularizer, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The terms, multiplied by `lam`."""
        return self.terms if self.lam == 1.0 else tuple(self.lam * term for term in self.terms)

    def declare(self, found: ExactTerms, factor: Fraction) -> None:
        """State the terms; see `ExactTerms`."""
        for term in self.terms:
            found.add(term, factor * Fraction(self.lam))

    def resolve(self, dim: int) -> Regularizer:
        """Return the same sum of vectors of dimension `dim`, or raise `InvalidInputError`."""
        terms = tuple(term.resolve(dim) for term in self.terms)
        same = all(new is old for new, old in zip(terms, self.terms, strict=True))
        return self if same else replace(self, terms=terms)


def _used(form: SeparableForm) -> Array:
    return (form.costs > 0.0) | (form.quadratic.weights > 0.0)


def _minimise_apart(
    parts: list[tuple[Array, Closed]], v: Array, feasible_set: FeasibleSet, budget: float
) -> Minimum | None:
    """Return the minimum over a box of a sum of functions of coordinates of their own, plus <v, x>.

    Where that is -inf, each function is kept to what the least values of the others leave of the budget.
    """
    bounds, counts = feasible_set.bounds(v.size), np.sum([used for used, _ in parts], axis=0)
    if bounds is None or (counts > 1).any():
        return None
    rest = counts == 0
    beside = minimise_linear(v[rest], Box(bounds[0][rest], bounds[1][rest])) if rest.any() else None

    def least(budgets: list[float]) -> Minimum | None:
        found: list[tuple[Array, Minimum | None]] = [(rest, beside)] if rest.any() else []
        for (used, minimise), most in zip(parts, budgets, strict=True):
            part = minimise(np.where(used, v, 0.0), feasible_set, most)
            if part is not None and part.x is not None:
                part = Minimum(part.value, part.x[used])
            found.append((used, part))
        return joined(found, v.size)

    minimum = least([math.inf] * len(parts))
    if minimum is None or minimum.value > -math.inf or not math.isfinite(budget):
        return minimum
    floors = [minimise(np.zeros_like(v), feasible_set, math.inf) for _, minimise in parts]
    values = [-math.inf if floor is None else floor.value for floor in floors]
    return least([budget - sum(values[:k] + values[k + 1 :]) for k in range(len(parts))])

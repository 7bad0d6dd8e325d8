"""Regularizers that are sums over the coordinates: zero, absolute values, squares, and both."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.capabilities import Capability
from cutplane.pieces.forms import DiagonalQuadratic, LinearForm, SeparableForm
from cutplane.pieces.latex import minus, number, times
from cutplane.pieces.lines import Line
from cutplane.pieces.parameters import as_optional_vector, set_fields, short_repr
from cutplane.pieces.validation import Array, as_scalar
from cutplane.regularizers.base import Minimum, Regularizer, check_lam, minimise_separable

if TYPE_CHECKING:
    from cutplane.pieces.capabilities import ExactTerms
    from cutplane.sets.base import FeasibleSet


class SeparableRegularizer(Regularizer):
    """g(x) = sum_j weights_j/2 (x_j - centre_j)^2 + costs_j |x_j|; all methods use this form."""

    @abstractmethod
    def form_of(self, dim: int) -> tuple[Any, Any, Any]:
        """Return weights, centre and costs, as numbers or as vectors of shape (dim,)."""

    @property
    def curved(self) -> bool:
        """Whether a weight may be positive."""
        return True

    @property
    def withheld(self) -> tuple[Capability, ...]:
        """The linear form, if the regularizer has a quadratic term."""
        return (Capability.LINEAR_FORM,) if self.curved else ()

    @cached_property
    def _forms(self) -> dict[int, SeparableForm]:
        """The forms by dimension, stored because each bound of a solve needs one."""
        return {}

    def separable_form(self, dim: int) -> SeparableForm:
        if dim not in self._forms:
            weights, centre, costs = (np.full(dim, part) for part in self.form_of(dim))
            self._forms[dim] = SeparableForm(DiagonalQuadratic(weights, centre), costs)
        return self._forms[dim]

    def value(self, x: Array) -> float:
        return self.separable_form(x.shape[0])(x)

    def subgradient(self, x: Array) -> Array:
        return self.separable_form(x.shape[0]).subgradient(x)

    def line(self, x0: Array, x1: Array) -> Line:
        return self.separable_form(x0.shape[0]).line(x0, x1)

    def conjugate_minimiser(
        self, v: Array, feasible_set: FeasibleSet, budget: float = math.inf
    ) -> Minimum | None:
        """Return the minimum of g(x) + <v, x> over a box or, with equal weights, by a projection.

        If a coordinate of weight zero is unbounded, the minimum is -inf, or for a finite `budget` a lower
        bound of the minimum over {g <= budget}.
        """
        return minimise_separable(self.separable_form(v.shape[0]), v, feasible_set, budget)

    def quadratic(self, dim: int) -> DiagonalQuadratic | None:
        form = self.separable_form(dim)
        return form.quadratic if form.is_smooth else None

    def unregularized(self, dim: int) -> Array:
        form = self.separable_form(dim)
        return (form.costs == 0.0) & (form.quadratic.weights == 0.0)

    def linear_form(self, dim: int) -> LinearForm | None:
        return self.separable_form(dim).linear

    def cvxpy_form(self, x: Any) -> Any:
        return self.separable_form(x.size).cvxpy_form(x)


@dataclass(frozen=True, eq=False)
class NoRegularizer(SeparableRegularizer):
    """g(x) = 0.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.regularizers import NoRegularizer
    >>> from cutplane.sets import Box
    >>> NoRegularizer().conjugate_minimiser(np.array([1.0, -2.0]), Box(-1, 1)).value
    -3.0
    """

    lam: float = field(default=0.0, init=False, repr=False)

    curved = False  # pyright: ignore[reportAssignmentType]
    __repr__ = short_repr

    def with_lam(self, lam: float) -> NoRegularizer:
        if check_lam(lam) > 0.0:
            raise InvalidInputError(
                f"NoRegularizer has no weight to set to {lam:g}; choose a regularizer, such as L2(lam)."
            )
        return self

    def formula(self, x: str = "x") -> str:
        return ""

    def value(self, x: Array) -> float:
        return 0.0

    def form_of(self, dim: int) -> tuple[float, float, float]:
        return 0.0, 0.0, 0.0

    def declare(self, found: ExactTerms, factor: Fraction) -> None: ...

    def in_unit(self, unit: float) -> NoRegularizer:
        return self


@dataclass(frozen=True, eq=False)
class L1(SeparableRegularizer):
    """g(x) = lam sum_j weights_j |x_j|.

    Parameters
    ----------
    lam : float, default 1.0
        Nonnegative and finite.
    weights : array_like of shape (dim,), optional
        Nonnegative; by default all 1. A coordinate of weight zero, such as a bias, is not regularised.

    Raises
    ------
    InvalidInputError
        If `weights` do not have the dimension of the problem.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.regularizers import L1
    >>> from cutplane.sets import WholeSpace
    >>> L1(0.5).value(np.array([3.0, -4.0]))
    3.5
    >>> L1(0.5).conjugate_minimiser(np.array([1.0, 0.2]), WholeSpace(), budget=3.0)
    Minimum(value=-3.0, x=array([-6.,  0.]))
    """

    lam: float = 1.0
    weights: Any = None

    curved = False  # pyright: ignore[reportAssignmentType]
    __repr__ = short_repr

    def __post_init__(self) -> None:
        weights = as_optional_vector("L1.weights", self.weights, low=0.0)
        set_fields(
            self, lam=check_lam(self.lam), weights=weights, dim=None if weights is None else weights.size
        )

    def formula(self, x: str = "x") -> str:
        norm = rf"\lVert {x} \rVert_1" if self.weights is None else rf"\textstyle\sum_j w_j |({x})_j|"
        return times(self.lam, norm)

    def form_of(self, dim: int) -> tuple[Any, Any, Any]:
        return 0.0, 0.0, self.lam if self.weights is None else self.lam * self.weights

    def declare(self, found: ExactTerms, factor: Fraction) -> None:
        found.costs(self.weights, factor * Fraction(self.lam))

    def in_unit(self, unit: float) -> L1:
        return replace(self, lam=unit * self.lam)


@dataclass(frozen=True, eq=False)
class L2(SeparableRegularizer):
    """g(x) = lam/2 sum_j weights_j (x_j - centre_j)^2.

    Parameters
    ----------
    lam : float, default 1.0
        Nonnegative and finite.
    centre : array_like of shape (dim,), optional
        By default the origin.
    weights : array_like of shape (dim,), optional
        Nonnegative; by default all 1. A coordinate of weight zero, such as a bias, is not regularised.

    Raises
    ------
    InvalidInputError
        If `centre` or `weights` do not have the dimension of the problem.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.regularizers import L2
    >>> from cutplane.sets import WholeSpace
    >>> L2(0.5).value(np.array([3.0, 4.0]))
    6.25
    >>> L2(0.5).conjugate_minimiser(np.array([1.0, 2.0]), WholeSpace())
    Minimum(value=-5.0, x=array([-2., -4.]))
    """

    lam: float = 1.0
    centre: Any = None
    weights: Any = None

    __repr__ = short_repr

    def __post_init__(self) -> None:
        centre = as_optional_vector("L2.centre", self.centre)
        weights = as_optional_vector("L2.weights", self.weights, low=0.0)
        if weights is not None and centre is not None and weights.shape != centre.shape:
            raise InvalidInputError(
                f"L2.centre and L2.weights must agree, got shapes {centre.shape}, {weights.shape}."
            )
        given = weights if centre is None else centre
        dim = None if given is None else given.size
        set_fields(self, lam=check_lam(self.lam), centre=centre, weights=weights, dim=dim)

    def formula(self, x: str = "x") -> str:
        inner = rf"\lVert {minus(x, self.centre)} \rVert" + ("_2^2" if self.weights is None else "_W^2")
        return rf"\frac{{{number(self.lam)}}}{{2}} {inner}"

    def form_of(self, dim: int) -> tuple[Any, Any, Any]:
        weights = self.lam if self.weights is None else self.lam * self.weights
        return weights, 0.0 if self.centre is None else self.centre, 0.0

    def declare(self, found: ExactTerms, factor: Fraction) -> None:
        found.quadratic(self.weights, self.centre, factor * Fraction(self.lam))

    def in_unit(self, unit: float) -> L2:
        centre = None if self.centre is None else self.centre / unit
        return replace(self, lam=unit * unit * self.lam, centre=centre)


@dataclass(frozen=True, eq=False)
class ElasticNet(SeparableRegularizer):
    """g(x) = lam (l1_ratio ||x||_1 + (1 - l1_ratio)/2 ||x||_2^2).

    Parameters
    ----------
    lam : float, default 1.0
        Nonnegative and finite.
    l1_ratio : float, default 0.5
        In [0, 1]; 1 is `L1`, 0 is `L2`.

    References
    ----------
    Zou and Hastie, Regularization and variable selection via the elastic net, J. R. Stat. Soc. B 67 (2005),
    doi:10.1111/j.1467-9868.2005.00503.x.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.regularizers import ElasticNet
    >>> from cutplane.sets import WholeSpace
    >>> ElasticNet(2.0).conjugate_minimiser(np.array([3.0, -0.5]), WholeSpace())
    Minimum(value=-2.0, x=array([-2.,  0.]))
    >>> ElasticNet(2.0).summands
    (L1(lam=1), L2(lam=1))
    """

    lam: float = 1.0
    l1_ratio: float = 0.5

    __repr__ = short_repr

    def __post_init__(self) -> None:
        ratio = as_scalar("ElasticNet.l1_ratio", self.l1_ratio, low=0.0, high=1.0)
        set_fields(self, lam=check_lam(self.lam), l1_ratio=ratio)

    @property
    def curved(self) -> bool:
        return self.l1_ratio < 1.0

    @property
    def summands(self) -> tuple[Regularizer, ...]:
        return L1(self.lam * self.l1_ratio), L2(self.lam * (1.0 - self.l1_ratio))

    def form_of(self, dim: int) -> tuple[float, float, float]:
        return self.lam * (1.0 - self.l1_ratio), 0.0, self.lam * self.l1_ratio

    def declare(self, found: ExactTerms, factor: Fraction) -> None:
        factor, share = factor * Fraction(self.lam), Fraction(self.l1_ratio)
        found.costs(None, factor * share)
        found.quadratic(None, None, factor * (1 - share))

    def in_unit(self, unit: float) -> ElasticNet:
        absolute = self.l1_ratio + unit * (1.0 - self.l1_ratio)
        return replace(self, lam=unit * absolute * self.lam, l1_ratio=self.l1_ratio / absolute)

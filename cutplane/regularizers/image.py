"""A regularizer of a linear image of the vector."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy import sparse

from cutplane.pieces.capabilities import Capability, offers
from cutplane.pieces.forms import LinearForm
from cutplane.pieces.linear_maps import LinearMap, as_linear_map, enclosed
from cutplane.pieces.lines import Line
from cutplane.pieces.parameters import set_fields
from cutplane.pieces.validation import Array
from cutplane.regularizers.base import Regularizer, has_slope

_PASSED_ON = Capability.SUBGRADIENT, Capability.LINEAR_FORM, Capability.CVXPY, Capability.UNIT


@dataclass(frozen=True, eq=False, repr=False)
class LinearImage(Regularizer):
    """g(x) = h(D x); written ``L1(2.0) @ D``.

    The conjugate has no closed form: bounds are found by a linear programme, for an h with a linear form such
    as `L1`, or by a conic solve.

    Parameters
    ----------
    regularizer : Regularizer
        h. Its `lam` is that of g.
    matrix : array_like, scipy sparse matrix or array, or LinearOperator, of shape (any, dim)
        D. A sparse one stays sparse; a `LinearOperator` needs ``rmatvec``, and is multiplied out for masters.

    Raises
    ------
    InvalidInputError
        If D is no matrix of finite numbers, or h does not fit its number of rows.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> variation = cut.L1(2.0) @ np.diff(np.eye(4), axis=0)
    >>> variation
    L1(lam=2) @ <3x4 matrix>
    >>> variation.value(np.array([1.0, 1.0, 3.0, 2.0]))
    6.0
    """

    regularizer: Regularizer
    matrix: Any

    def __post_init__(self) -> None:
        h = self.regularizer
        image = self.matrix
        if not isinstance(image, LinearMap):
            image = as_linear_map(enclosed(h), image, h.dim)
        set_fields(self, regularizer=h.resolve(image.shape[0]), matrix=image)

    def __repr__(self) -> str:
        return enclosed(self.regularizer) + self._map.shown()

    def formula(self, x: str = "x") -> str:
        """Return g(x) in LaTeX."""
        return self.regularizer.formula(f"D {x}")

    @property
    def lam(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The weight of h."""
        return self.regularizer.lam

    @cached_property
    def withheld(self) -> tuple[Capability, ...]:
        """The capabilities that h does not offer."""
        missing = tuple(kind for kind in _PASSED_ON if not offers(self.regularizer, kind))
        return missing if has_slope(self.regularizer) else (*missing, Capability.LINE)

    @property
    def dim(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The number of columns of D."""
        return self._map.shape[1]

    def check_dim(self, dim: int) -> None:
        """Raise `InvalidInputError` if D does not have `dim` columns."""
        self._map.resolve(dim)

    def with_lam(self, lam: float) -> Self:
        """Return the same regularizer with another weight."""
        return replace(self, regularizer=self.regularizer.with_lam(lam))

    def value(self, x: Array) -> float:
        """Return g(x)."""
        return self.regularizer.value(self._map(x))

    def subgradient(self, x: Array) -> Array:
        """Return D'h'(D x)."""
        return self._map.transposed(self._inner.subgradient(self._map(x)))

    def line(self, x0: Array, x1: Array) -> Line:
        """Return h along the image of the line."""
        return self.regularizer.line(self._map(x0), self._map(x1))

    def unregularized(self, dim: int) -> Array:
        """Return the coordinates whose columns of D are zero."""
        return abs(self._map.matrix).sum(axis=0) == 0.0

    def linear_form(self, dim: int) -> LinearForm | None:
        """Return the linear form of h with z = D x among the auxiliaries; None if h has none."""
        return self._linear_form

    @cached_property
    def _linear_form(self) -> LinearForm | None:
        dim = self.dim
        rows = self._map.shape[0]
        form = self._inner.linear_form(rows)
        if form is None:
            return None
        others = form.n_columns - rows
        image = sparse.hstack(
            [sparse.csr_array(self._map.matrix), -sparse.eye_array(rows), sparse.csr_array((rows, others))]
        )
        below = sparse.hstack([sparse.csr_array((form.rows.shape[0], dim)), form.rows])
        zero = np.zeros(rows)
        return LinearForm(
            cost=np.concatenate([np.zeros(dim), form.cost]),
            lower=np.concatenate([np.full(dim, -np.inf), form.lower]),
            upper=np.concatenate([np.full(dim, np.inf), form.upper]),
            rows=sparse.csr_array(sparse.vstack([image, below])),
            row_lower=np.concatenate([zero, form.row_lower]),
            row_upper=np.concatenate([zero, form.row_upper]),
        )

    def in_unit(self, unit: float) -> LinearImage:
        """Return u -> g(unit * u)."""
        return replace(self, regularizer=self._inner.in_unit(unit))

    def cvxpy_form(self, x: Any) -> Any:
        """Return h of the image of x."""
        return self._inner.cvxpy_form(self._map.cvxpy_form(x))

    @property
    def _map(self) -> LinearMap:
        return self.matrix

    @property
    def _inner(self) -> Any:
        """h, which is known to offer what is asked for."""
        return self.regularizer

"""Balls of the l1 and the l2 norm (the ball of the maximum norm is a box)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy import sparse

from cutplane.pieces.forms import LinearForm
from cutplane.pieces.latex import minus, number
from cutplane.pieces.parameters import as_optional_vector, common_dim, set_fields, short_repr
from cutplane.pieces.validation import Array, as_positive
from cutplane.sets.base import AnyDimension, beyond_rounding
from cutplane.sets.projections import project_simplex


@dataclass(frozen=True, eq=False)
class _Ball(AnyDimension):
    radius: float
    centre: Any = None
    dim: int | None = None

    bounded = True

    def __post_init__(self) -> None:
        name = type(self).__name__
        radius = as_positive(f"{name}.radius", self.radius)
        centre = as_optional_vector(f"{name}.centre", self.centre)
        set_fields(self, radius=radius, centre=centre, dim=common_dim(name, self.dim, centre=centre))

    def in_unit(self, unit: float) -> Self:
        """Return {u : unit * u is in the set}."""
        centre = None if self.centre is None else self.centre / unit
        return replace(self, radius=self.radius / unit, centre=centre)

    @property
    def _middle(self) -> Array:
        return np.zeros(1) if self.centre is None else self.centre

    def _offset(self, x: Any) -> Any:
        return x if self.centre is None else x - self.centre

    def _shift(self, step: Array) -> Array:
        return step if self.centre is None else self.centre + step


@dataclass(frozen=True, eq=False)
class L1Ball(_Ball):
    """{x : sum_j |x_j - centre_j| <= radius}.

    Parameters
    ----------
    radius : float
        Positive and finite.
    centre : array_like of shape (dim,), optional
        By default the origin.
    dim : int, optional
        Dimension; by default that of `centre`, or any.

    References
    ----------
    Duchi, Shalev-Shwartz, Singer and Chandra, Efficient projections onto the l1-ball, ICML 2008,
    doi:10.1145/1390156.1390191.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.sets import L1Ball
    >>> L1Ball(1.0).project(np.array([1.0, -0.5, 0.0])).tolist()
    [0.75, -0.25, 0.0]
    """

    __repr__ = short_repr

    def formula(self, x: str = "x") -> str:
        """Return that x is in X, in LaTeX."""
        return rf"\lVert {minus(x, self.centre)} \rVert_1 \le {number(self.radius)}"

    def violation(self, x: Array) -> float:
        """Return by how much the l1 norm exceeds the radius; 0 if that is rounding."""
        excess = float(np.abs(self._offset(x)).sum()) - self.radius
        return beyond_rounding(excess, self.radius + float(np.abs(self._middle).sum()))

    def project(self, x: Array) -> Array:
        """Return the Euclidean projection, by projecting |x - centre| onto the simplex: O(dim log dim)."""
        offset = self._offset(x)
        sizes = np.abs(offset)
        if sizes.sum() <= self.radius:
            return x.copy()
        return self._shift(np.copysign(project_simplex(sizes, self.radius), offset))

    def minimise_linear(self, v: Array) -> Array:
        """Return the vertex opposite to the largest |v_j|."""
        step = np.zeros(v.shape[0])
        j = np.argmax(np.abs(v))
        step[j] = -np.sign(v[j]) * self.radius
        return self._shift(step)

    def linear_form(self, dim: int) -> LinearForm:
        """Return t_j >= |x_j - centre_j| with sum_j t_j <= radius."""
        centre = np.zeros(dim) if self.centre is None else self.centre
        eye = sparse.eye_array(dim, format="csr")
        total = sparse.hstack([sparse.csr_array((1, dim)), sparse.csr_array(np.ones((1, dim)))])
        rows = sparse.vstack([sparse.hstack([eye, -eye]), sparse.hstack([-eye, -eye]), total])
        return LinearForm(
            cost=np.zeros(2 * dim),
            lower=np.concatenate([np.full(dim, -np.inf), np.zeros(dim)]),
            upper=np.full(2 * dim, np.inf),
            rows=sparse.csr_array(rows),
            row_lower=np.full(2 * dim + 1, -np.inf),
            row_upper=np.concatenate([centre, -centre, [self.radius]]),
        )

    def cvxpy_form(self, x: Any) -> list[Any]:
        """Return one constraint on the l1 norm."""
        import cvxpy as cp

        return [cp.norm1(self._offset(x)) <= self.radius]


@dataclass(frozen=True, eq=False)
class L2Ball(_Ball):
    """{x : ||x - centre||_2 <= radius}.

    Parameters
    ----------
    radius : float
        Positive and finite.
    centre : array_like of shape (dim,), optional
        By default the origin.
    dim : int, optional
        Dimension; by default that of `centre`, or any.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.sets import L2Ball
    >>> L2Ball(10.0).project(np.array([30.0, -40.0])).tolist()
    [6.0, -8.0]
    """

    __repr__ = short_repr

    def formula(self, x: str = "x") -> str:
        """Return that x is in X, in LaTeX."""
        return rf"\lVert {minus(x, self.centre)} \rVert_2 \le {number(self.radius)}"

    def violation(self, x: Array) -> float:
        """Return the distance of x to the ball; 0 if that is rounding."""
        return beyond_rounding(_norm(self._offset(x)) - self.radius, self.radius + _norm(self._middle))

    def project(self, x: Array) -> Array:
        """Return the Euclidean projection, by scaling x - centre."""
        offset = self._offset(x)
        if _norm(offset) <= self.radius:
            return x.copy()
        return self._shift(self.radius * _direction(offset))

    def minimise_linear(self, v: Array) -> Array:
        """Return the point of the sphere opposite to v; the centre if v is zero."""
        return self._shift(-self.radius * _direction(v))

    def cvxpy_form(self, x: Any) -> list[Any]:
        """Return one constraint on the l2 norm."""
        import cvxpy as cp

        return [cp.norm2(self._offset(x)) <= self.radius]


def _norm(x: Array) -> float:
    scale = np.abs(x).max()
    return float(scale * np.linalg.norm(x / scale)) if scale > 0.0 else 0.0


def _direction(x: Array) -> Array:
    scale = np.abs(x).max()
    if scale == 0.0:
        return np.zeros_like(x, dtype=np.float64)
    scaled = x / scale
    return scaled / np.linalg.norm(scaled)

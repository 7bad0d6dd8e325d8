"""Balls of the l1 norm and the l2 norm, and nonnegative parts of balls of any lp norm."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from cutplane.pieces.capabilities import Capability
from cutplane.pieces.forms import LinearForm, bounded_sum, bounds_only
from cutplane.pieces.latex import minus, number
from cutplane.pieces.parameters import as_optional_vector, common_dim, set_fields, short_repr
from cutplane.pieces.validation import Array, as_positive, as_scalar
from cutplane.sets.base import AnyDimension, beyond_rounding
from cutplane.sets.simplex import project_simplex

_STEPS = 60
"""Largest number of Newton steps, because bisection needs about 50 for the digits of float64."""
_ROUNDING = 1e-15
"""Relative step at which Newton's method ends, because a smaller step changes only the last digit."""
_TINY = 1e-300
"""Entries up to this size are treated as zero, because a logarithm needs a positive number."""


@dataclass(frozen=True, eq=False)
class _Ball(AnyDimension):
    radius: float
    centre: Any = None
    dim: int | None = None

    bounded = True
    order: ClassVar[int]
    """1 for the l1 norm, 2 for the l2 norm."""

    def __post_init__(self) -> None:
        name = type(self).__name__
        radius = as_positive(f"{name}.radius", self.radius)
        centre = as_optional_vector(f"{name}.centre", self.centre)
        set_fields(self, radius=radius, centre=centre, dim=common_dim(name, self.dim, centre=centre))

    def formula(self, x: str = "x") -> str:
        return rf"\lVert {minus(x, self.centre)} \rVert_{self.order} \le {number(self.radius)}"

    def cvxpy_form(self, x: Any) -> list[Any]:
        import cvxpy as cp

        return [cp.norm(self._offset(x), self.order) <= self.radius]

    def in_unit(self, unit: float) -> Self:
        centre = None if self.centre is None else self.centre / unit
        return replace(self, radius=self.radius / unit, centre=centre)

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
        Dimension; by default the size of `centre`, or any.

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

    order = 1

    def violation(self, x: Array) -> float:
        excess = float(np.abs(self._offset(x)).sum()) - self.radius
        size = 0.0 if self.centre is None else float(np.abs(self.centre).sum())
        return beyond_rounding(excess, self.radius + size)

    def project(self, x: Array) -> Array:
        """Return the Euclidean projection, by projecting |x - centre| onto the simplex: O(dim log dim)."""
        offset = self._offset(x)
        sizes = np.abs(offset)
        if sizes.sum() <= self.radius:
            return x.copy()
        return self._shift(np.copysign(project_simplex(sizes, self.radius), offset))

    def minimise_linear(self, v: Array) -> Array:
        """Return the vertex on the axis of the largest |v_j|."""
        step = np.zeros(v.shape[0])
        j = np.argmax(np.abs(v))
        step[j] = -np.sign(v[j]) * self.radius
        return self._shift(step)

    def linear_form(self, dim: int) -> LinearForm:
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
        Dimension; by default the size of `centre`, or any.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.sets import L2Ball
    >>> L2Ball(10.0).project(np.array([30.0, -40.0])).tolist()
    [6.0, -8.0]
    """

    __repr__ = short_repr

    order = 2

    def violation(self, x: Array) -> float:
        size = 0.0 if self.centre is None else _norm(self.centre)
        return beyond_rounding(_norm(self._offset(x)) - self.radius, self.radius + size)

    def project(self, x: Array) -> Array:
        """Return the Euclidean projection, by scaling x - centre."""
        offset = self._offset(x)
        if _norm(offset) <= self.radius:
            return x.copy()
        return self._shift(self.radius * _direction(offset))

    def minimise_linear(self, v: Array) -> Array:
        """Return the point of the sphere in the direction -v from the centre; the centre if v is zero."""
        return self._shift(-self.radius * _direction(v))


def _norm(x: Array) -> float:
    scale = np.abs(x).max()
    return float(scale * np.linalg.norm(x / scale)) if scale > 0.0 else 0.0


def _direction(x: Array) -> Array:
    scale = np.abs(x).max()
    if scale == 0.0:
        return np.zeros_like(x, dtype=np.float64)
    scaled = x / scale
    return scaled / np.linalg.norm(scaled)


@dataclass(frozen=True, eq=False)
class NonnegativeBall(AnyDimension):
    """{x : x >= 0, ||x||_p <= radius}.

    A smaller p gives sparser minimisers of linear functions.

    Parameters
    ----------
    p : float
        The exponent of the norm, in [1, inf].
    radius : float, default 1.0
        Positive and finite.
    dim : int, optional
        Dimension; by default the set fits any.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.sets import NonnegativeBall
    >>> NonnegativeBall(2).project(np.array([3.0, -5.0, 4.0])).round(6).tolist()
    [0.6, 0.0, 0.8]
    >>> NonnegativeBall(1.5).minimise_linear(np.array([-1.0, -2.0, 3.0])).round(6).tolist()
    [0.23112, 0.924482, 0.0]
    """

    p: float
    radius: float = 1.0
    dim: int | None = None

    bounded = True
    nonnegative = True
    __repr__ = short_repr

    def __post_init__(self) -> None:
        common_dim("NonnegativeBall", self.dim)
        p = as_scalar("NonnegativeBall.p", self.p, low=1.0, infinite=True)
        radius = as_positive("NonnegativeBall.radius", self.radius)
        set_fields(self, p=p, radius=radius)

    @property
    def withheld(self) -> tuple[Capability, ...]:
        """The capability LINEAR_FORM unless p is 1 or inf, because the other balls are not polyhedra."""
        return () if self.p in (1.0, math.inf) else (Capability.LINEAR_FORM,)

    def formula(self, x: str = "x") -> str:
        return rf"{x} \ge 0,\; \lVert {x} \rVert_{{{number(self.p)}}} \le {number(self.radius)}"

    def violation(self, x: Array) -> float:
        return float(max(np.max(-x, initial=0.0), lp_norm(np.maximum(x, 0.0), self.p) - self.radius))

    def norm_ball(self) -> tuple[float, float]:
        return self.radius, self.p

    def project(self, x: Array) -> Array:
        """Return the Euclidean projection, by Newton's method unless p is 1, 2 or inf."""
        z = np.maximum(x, 0.0)
        if self.p == math.inf:
            return np.minimum(z, self.radius)
        norm = lp_norm(z, self.p)
        if norm <= self.radius:
            return z
        if self.p == 1.0:
            return project_simplex(z, self.radius)
        if self.p == 2.0:
            return self.radius * (z / norm)
        return self.radius * project_unit_ball(z / self.radius, self.p)

    def minimise_linear(self, v: Array) -> Array:
        """Return radius * u / ||u||_p with u = max(-v, 0)^(1 / (p - 1)); 0 if no v_j is negative."""
        u = np.maximum(-v, 0.0)
        largest = u.max()
        if not largest > 0.0:
            return np.zeros(v.shape[0])
        if self.p == math.inf:
            return np.where(u > 0.0, self.radius, 0.0)
        if self.p == 1.0:
            vertex = np.zeros(v.shape[0])
            vertex[np.argmax(u)] = self.radius
            return vertex
        u = (u / largest) ** (1.0 / (self.p - 1.0))
        return self.radius * (u / lp_norm(u, self.p))

    def bounds(self, dim: int) -> tuple[Array, Array] | None:
        return (np.zeros(dim), np.full(dim, self.radius)) if self.p == math.inf else None

    def linear_form(self, dim: int) -> LinearForm | None:
        if self.p == math.inf:
            return bounds_only(np.zeros(dim), np.full(dim, self.radius))
        return None if self.p > 1.0 else bounded_sum(dim, -np.inf, self.radius)

    def in_unit(self, unit: float) -> NonnegativeBall:
        return replace(self, radius=self.radius / unit)

    def cvxpy_form(self, x: Any) -> list[Any]:
        import cvxpy as cp

        if (form := self.linear_form(x.size)) is not None:
            return form.cvxpy_form(x)
        norm_order: Any = self.p
        norm = cp.norm2(x) if self.p == 2.0 else cp.pnorm(x, norm_order, approx=False)
        return [x >= 0, norm <= self.radius]


def lp_norm(x: Array, p: float) -> float:
    """Return ||x||_p of a vector x >= 0, for p in [1, inf], without overflow."""
    largest = float(x.max(initial=0.0))
    if not 0.0 < largest < math.inf or p == math.inf:
        return largest
    return largest * float(np.sum((x / largest) ** p)) ** (1.0 / p)


def project_unit_ball(z: Array, p: float) -> Array:
    """Return the Euclidean projection on the unit ball of a z >= 0 outside it, for 1 < p < inf.

    The projection is the u(mu) of norm 1 with ``u_j + mu u_j^(p-1) = z_j``. Newton's method inside a bracket
    finds the mu with ``||u(mu)||^(1-p) = 1``, because this function of mu is nearly linear.
    """
    positive = z > _TINY
    logs = np.log(z[positive])
    low, high = max(float(z.max()) - 1.0, 0.0), lp_norm(z, p / (p - 1.0))
    mu, log_u, log_norm = low, logs, 0.0
    for _ in range(_STEPS):
        log_u = _log_roots(logs, mu, p)
        top = float(log_u.max())
        shares = np.exp(p * (log_u - top))
        total = float(shares.sum())
        log_norm = top + math.log(total) / p
        low, high = (mu, high) if log_norm > 0.0 else (low, mu)
        with np.errstate(over="ignore"):
            fall = float(shares @ (1.0 / (np.exp((2.0 - p) * log_u) + (p - 1.0) * mu))) / total
        step = math.expm1((p - 1.0) * log_norm) / ((p - 1.0) * fall)
        target = mu + step
        if abs(step) <= _ROUNDING * mu or high - low <= _ROUNDING * high:
            break
        mu = target if low < target < high else 0.5 * (low + high)
    u = np.zeros_like(z)
    u[positive] = np.exp(log_u - log_norm)
    return np.minimum(u, z)


def _log_roots(logs: Array, mu: float, p: float) -> Array:
    """Return t_j with ``exp(t_j) + mu exp((p - 1) t_j) = exp(logs_j)``, by Newton's method from above.

    Newton's method solves the logarithm of the equation, because its left side is then convex and increasing
    in t, and exceeds logs_j by at most ln 2 at the start.
    """
    if mu == 0.0:
        return logs
    log_mu, s = math.log(mu), p - 1.0
    t = np.minimum(logs, (logs - log_mu) / s)
    for _ in range(_STEPS):
        value = np.logaddexp(t, log_mu + s * t)
        share = np.exp(t - value)
        step = (value - logs) / (share + s * (1.0 - share))
        t = t - step
        if np.abs(step).max() <= _ROUNDING * (1.0 + np.abs(t).max()):
            break
    return t

"""The nonnegative part of the ball of an lp norm."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.pieces.capabilities import Capability
from cutplane.pieces.forms import LinearForm, bounds_only
from cutplane.pieces.parameters import common_dim, short_repr
from cutplane.pieces.validation import Array, as_scalar
from cutplane.sets.base import FeasibleSet
from cutplane.sets.lp_projection import lp_norm, project_unit_ball
from cutplane.sets.projections import project_simplex


@dataclass(frozen=True, eq=False)
class NonnegativeBall(FeasibleSet):
    """{x : x >= 0, ||x||_p <= radius}.

    The smaller p, the sparser the points at which a linear function is least over it.

    Parameters
    ----------
    p : float
        The norm, in [1, inf].
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
        p = as_scalar("NonnegativeBall.p", self.p, low=1.0)
        radius = as_scalar(
            "NonnegativeBall.radius", self.radius, low=0.0, low_open=True, high=math.inf, high_open=True
        )
        object.__setattr__(self, "p", p)
        object.__setattr__(self, "radius", radius)

    @property
    def withheld(self) -> tuple[Capability, ...]:
        """The linear form, unless p is 1 or inf."""
        return () if self.p in (1.0, math.inf) else (Capability.LINEAR_FORM,)

    def resolve(self, dim: int) -> NonnegativeBall:
        """Return the same ball with its dimension fixed to `dim`."""
        super().resolve(dim)
        return self if self.dim == dim else replace(self, dim=dim)

    def violation(self, x: Array) -> float:
        """Return the larger of max_j -x_j and the excess of the norm of the positive part of x."""
        return float(max(np.max(-x, initial=0.0), lp_norm(np.maximum(x, 0.0), self.p) - self.radius))

    def norm_ball(self) -> tuple[float, float]:
        """Return the radius and p of {x >= 0 : ||x||_p <= radius}."""
        return self.radius, self.p

    def project(self, x: Array) -> Array:
        """Return the Euclidean projection: in closed form for p in {1, 2, inf}, else by Newton's method."""
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
        """Return r u / ||u||_p with u = max(-v, 0)^(1 / (p - 1)); 0 if no v_j is negative."""
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
        """Return (0, radius) if p is inf; else None."""
        return (np.zeros(dim), np.full(dim, self.radius)) if self.p == math.inf else None

    def linear_form(self, dim: int) -> LinearForm | None:
        """Return one inequality if p is 1, bounds if p is inf; else None."""
        if self.p == math.inf:
            return bounds_only(np.zeros(dim), np.full(dim, self.radius))
        if self.p > 1.0:
            return None
        return LinearForm(
            cost=np.zeros(dim),
            lower=np.zeros(dim),
            upper=np.full(dim, np.inf),
            rows=sparse.csr_array(np.ones((1, dim))),
            row_lower=np.array([-np.inf]),
            row_upper=np.array([self.radius]),
        )

    def in_unit(self, unit: float) -> NonnegativeBall:
        """Return {u : unit * u is in the set}."""
        return replace(self, radius=self.radius / unit)

    def cvxpy_form(self, x: Any) -> list[Any]:
        """Return x >= 0 and one constraint on the norm, by power cones unless p is 1, 2 or inf."""
        import cvxpy as cp

        if self.p == 1.0:
            return [x >= 0, cp.sum(x) <= self.radius]
        if self.p == math.inf:
            return [x >= 0, x <= self.radius]
        norm_order: Any = self.p
        norm = cp.norm2(x) if self.p == 2.0 else cp.pnorm(x, norm_order, approx=False)
        return [x >= 0, norm <= self.radius]

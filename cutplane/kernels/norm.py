"""The squared norm of a function of a kernel's space."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.exceptions import InvalidInputError, MissingCapabilityError
from cutplane.pieces.capabilities import Capability, ask, require
from cutplane.pieces.lines import Line, quadratic_line
from cutplane.pieces.validation import Array
from cutplane.regularizers.base import (
    UNBOUNDED,
    Minimum,
    Regularizer,
    check_lam,
    minimise_linear,
    minimum,
)
from cutplane.sets.base import is_whole_space

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.kernels.gram import Gram
    from cutplane.sets.base import FeasibleSet


@dataclass(frozen=True, eq=False, repr=False)
class SquaredNorm(Regularizer):
    """g(a, b) = lam/2 ||sum_j a_j k(x_j, .)||^2 = lam/2 a'K a; intercepts b are free.

    `KernelRisk.squared_norm` makes it: both share one kernel matrix. Its conjugate is known at the slopes of
    the risk, which are K p for a p that the matrix remembers; of up to 3000 examples, at any slope.

    Parameters
    ----------
    gram : Gram
    intercept : int
        The number of intercepts.
    lam : float, default 1.0
        Nonnegative and finite.
    """

    gram: Gram
    intercept: int
    lam: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "lam", check_lam(self.lam))

    def __repr__(self) -> str:
        return f"SquaredNorm({self.lam:g}, {self.gram.kernel.name!r})"

    @property
    def dim(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Number of examples, and of intercepts."""
        return self.gram.n + self.intercept

    def check_dim(self, dim: int) -> None:
        """Raise `InvalidInputError` unless there are as many coordinates."""
        if dim != self.dim:
            raise InvalidInputError(f"{self!r} has dimension {self.dim}, but the problem has {dim}.")

    def kernel_norm(self) -> tuple[Gram, float]:
        """Return the kernel matrix and the weight."""
        return self.gram, self.lam

    def value(self, x: Array) -> float:
        """Return g(x)."""
        a = x[: self.gram.n]
        return 0.5 * self.lam * max(float(a @ self.gram.product(a)), 0.0)

    def subgradient(self, x: Array) -> Array:
        """Return the gradient, lam K a."""
        return self._whole(self.lam * self.gram.product(x[: self.gram.n]))

    def line(self, x0: Array, x1: Array) -> Line:
        """Return a parabola."""
        a, d = x0[: self.gram.n], (x1 - x0)[: self.gram.n]
        image = self.gram.product(d)
        return quadratic_line(self.value(x0), self.lam * float(a @ image), self.lam * float(d @ image))

    def conjugate_minimiser(
        self, v: Array, feasible_set: FeasibleSet, budget: float = math.inf
    ) -> Minimum | None:
        """Return the minimum of g(x) + <v, x> over the whole space; -inf unless v = (K p, 0), p known."""
        if self.lam == 0.0:
            return minimise_linear(v, feasible_set)
        if not is_whole_space(feasible_set, v.shape[0]):
            return None
        if v[self.gram.n :].any():
            return UNBOUNDED
        v = v[: self.gram.n]
        p = self.gram.preimage(v)
        if p is None:
            return UNBOUNDED
        return minimum(-0.5 * max(float(p @ v), 0.0) / self.lam, self._whole(-p / self.lam))

    def unregularized(self, dim: int) -> Array:
        """Return the intercepts."""
        return np.arange(dim) >= self.gram.n

    def cvxpy_form(self, x: Any) -> Any:
        """Return g as a quadratic form."""
        import cvxpy as cp

        K = self.gram.matrix()
        return 0.5 * self.lam * cp.quad_form(x[: self.gram.n], 0.5 * (K + K.T), assume_PSD=True)

    def _whole(self, a: Array) -> Array:
        return np.append(a, np.zeros(self.intercept)) if self.intercept else a


def machine_of(
    problem: Declaration, method: str, remedy: str, kind: Capability = Capability.KERNEL_PREDICTOR
) -> tuple[Any, float]:
    """Return the risk of a kernel machine and the weight of its norm; raise if it is no such problem."""
    require(problem.risk, kind, method, remedy)
    risk: Any = ask(problem.risk, kind)
    found = ask(problem.active_regularizer, Capability.KERNEL_NORM)
    if found is None or found[0] is not risk.gram or not found[1] > 0.0 or not problem.is_unconstrained:
        raise MissingCapabilityError(
            f"{method} needs the squared norm of the risk's functions, risk.squared_norm(lam) with lam > 0, "
            f"and no feasible set; got {problem.regularizer!r} over {problem.feasible_set!r}."
        )
    return risk, found[1]

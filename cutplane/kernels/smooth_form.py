"""Kernel machines whose losses have a second derivative, in numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.exceptions import MissingCapabilityError
from cutplane.kernels.dual import multipliers
from cutplane.kernels.norm import machine_of
from cutplane.losses.base import pieces_of
from cutplane.pieces.capabilities import Capability, offers, require
from cutplane.pieces.validation import Array

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.kernels.risk import KernelRisk


@dataclass(frozen=True, eq=False)
class SmoothForm:
    """sum_i c_i l(z_i, y_i) + lam/2 a'K a with z = K a + b, for a loss with a second derivative.

    Attributes
    ----------
    risk : KernelRisk
    lam : float
    """

    risk: KernelRisk
    lam: float

    @property
    def varies(self) -> bool:
        """Whether the second derivative of the loss is not the same everywhere."""
        return self.risk.loss.curvature is None

    def slopes(self, z: Array) -> Array:
        """Return c_i l'(z_i)."""
        return self.risk.losses.derivatives(z)

    def bends(self, z: Array, least: float = 0.0) -> Array:
        """Return c_i l''(z_i), each at least a share `least` of what it can be."""
        risk, bends = self.risk, self.risk.losses.second_derivatives(z)
        if least == 0.0:
            return bends
        steepest = min(risk.loss.smoothness, max(1.0, float((bends[risk.weights > 0.0]).max(initial=0.0))))
        return np.maximum(bends, least * steepest * risk.weights)

    def multipliers(self, x: Array) -> Array:
        """Return multipliers of the examples, in the domain of the conjugate, that are next to -lam a / c.

        With an intercept the heavier of their signs is scaled down, so that their weighted sum is zero: zero
        is in the domain of every loss that has a minimiser.
        """
        risk = self.risk
        weights, u = risk.weights, multipliers(risk, -self.lam * x[: risk.gram.n])
        if not risk.intercept:
            return u
        parts = weights * u
        positive, negative = float(parts[parts > 0.0].sum()), -float(parts[parts < 0.0].sum())
        if abs(positive - negative) <= 1e-14 * (positive + negative):
            return u
        ratio = min(positive, negative) / max(positive, negative)
        return np.where((u > 0.0) == (positive > negative), ratio * u, u)


def smooth_form(problem: Declaration, method: str) -> SmoothForm:
    """Return a kernel machine in numbers; raise `MissingCapabilityError` if the problem has another form."""
    remedy = "Use Decomposition() or ProximalBundle()."
    require(problem.risk, Capability.KERNEL_PREDICTOR, method, remedy)
    require(problem.risk, Capability.DUAL_CUT, method, remedy)
    risk: Any = problem.risk
    phi = pieces_of(risk.loss)
    if not offers(risk.loss, Capability.SECOND_DERIVATIVE) or (phi is not None and phi.jumps.any()):
        raise MissingCapabilityError(
            f"{method} needs a loss without kinks, such as SquaredHinge() or Logistic(), got {risk.loss!r}. "
            f"{remedy}"
        )
    return SmoothForm(*machine_of(problem, method, remedy))

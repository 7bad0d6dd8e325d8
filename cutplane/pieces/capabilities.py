"""What a piece of a problem can do, and the error that names what it cannot."""

from __future__ import annotations

from enum import Enum
from typing import Any

from cutplane.exceptions import MissingCapabilityError


class Capability(Enum):
    """Something a piece of a problem, or a loss, may offer; the value is the method that offers it."""

    IMAGE = "image"
    LINE = "line"
    SUBGRADIENT = "subgradient"
    PROJECTION = "project"
    RESTORATION = "restore"
    LINEAR_MINIMISATION = "minimise_linear"
    NORM_BALL = "norm_ball"
    CONJUGATE = "conjugate_minimiser"
    QUADRATIC = "quadratic"
    LINEAR_FORM = "linear_form"
    ENTROPY = "log_reference"
    ENTROPIC_MINIMISATION = "minimise_entropy"
    CVXPY = "cvxpy_form"
    UNIT = "in_unit"
    SEPARATION = "separate"
    DUAL_CUT = "dual_cut"
    LINEAR_PREDICTOR = "linear_predictor"
    MINIMISER = "minimise_with"
    CURVATURE = "curvature_bound"
    GRADIENT_SAMPLING = "sample_gradient"
    LOSS_CONJUGATE = "conjugate"
    SECOND_DERIVATIVE = "second_derivative"
    LOG_PROBABILITY = "log_probability"


def offers(piece: Any, capability: Capability) -> bool:
    """Tell whether `piece` has `capability`.

    A piece offers a capability by having the method of that name; a composite, whose offer depends on its
    parts, says so in an attribute ``withheld`` (a collection of capabilities it does not offer).
    """
    return callable(getattr(piece, capability.value, None)) and capability not in getattr(
        piece, "withheld", ()
    )


def ask(piece: Any, capability: Capability, *arguments: Any) -> Any:
    """Return the answer of the method that offers `capability`, or None if the piece does not offer it."""
    return getattr(piece, capability.value)(*arguments) if offers(piece, capability) else None


def require(piece: Any, capability: Capability, needed_by: str, remedy: str) -> None:
    """Raise `MissingCapabilityError` unless `piece` offers `capability`."""
    if not offers(piece, capability):
        raise MissingCapabilityError(
            f"{needed_by} needs {capability.name.lower().replace('_', ' ')} from {type(piece).__name__}, "
            f"which has no method {capability.value!r}. {remedy}"
        )

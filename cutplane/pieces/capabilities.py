"""What a piece of a problem can do, asked in one way of everyone's, and the error if it cannot."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Protocol, runtime_checkable

from cutplane.exceptions import MissingCapabilityError


class Capability(Enum):
    """Something a piece of a problem, or a loss, may offer; the value is the method that offers it."""

    IMAGE = "image"
    LINE = "line"
    PIECES = "pieces"
    SUBGRADIENT = "subgradient"
    PROJECTION = "project"
    RESTORATION = "restore"
    LINEAR_MINIMISATION = "minimise_linear"
    NORM_BALL = "norm_ball"
    CONJUGATE = "conjugate_minimiser"
    QUADRATIC = "quadratic"
    HESSIAN = "hessian"
    SEPARABLE = "separable_form"
    GROUPED = "grouped_form"
    UNREGULARIZED = "unregularized"
    LINEAR_FORM = "linear_form"
    ENTROPY = "log_reference"
    ENTROPIC_MINIMISATION = "minimise_entropy"
    CVXPY = "cvxpy_form"
    UNIT = "in_unit"
    SEPARATION = "separate"
    NEARBY = "nearby"
    DUAL_CUT = "dual_cut"
    EXAMPLE_SLOPES = "example_slopes"
    BLOCK_ASCENT = "block_ascent"
    IMAGE_FORM = "cvxpy_image_form"
    PROGRAMME = "programme_form"
    LINEAR_PREDICTOR = "linear_predictor"
    UNITS = "in_usual_units"
    MINIMISER = "minimise_with"
    CURVATURE = "curvature_bound"
    GRADIENT_SAMPLING = "sample_gradient"
    LOSS_CONJUGATE = "conjugate"
    SECOND_DERIVATIVE = "second_derivative"
    LOG_PROBABILITY = "log_probability"
    MARGINS = "margins"
    OWN_METHOD = "own_method"
    KERNEL_PREDICTOR = "kernel_predictor"
    KERNEL_SIDES = "kernel_sides"
    KERNEL_NORM = "kernel_norm"
    SPLIT = "split"


@runtime_checkable
class SparseReader(Protocol):
    """A master that says whether it reads sparse slopes; one that does not say is given dense ones."""

    sparse: bool


def ability(piece: Any, capability: Capability) -> Callable[..., Any] | None:
    """Return the method by which `piece` offers `capability`; None if it does not offer it.

    A piece offers a capability by having the method of that name; a composite, whose offer depends on its
    parts, says so in an attribute ``withheld`` (a collection of capabilities it does not offer).
    """
    method = getattr(piece, capability.value, None)
    return method if callable(method) and capability not in getattr(piece, "withheld", ()) else None


def offers(piece: Any, capability: Capability) -> bool:
    """Tell whether `piece` has `capability`."""
    return ability(piece, capability) is not None


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

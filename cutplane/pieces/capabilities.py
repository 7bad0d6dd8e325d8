"""Capabilities of the pieces of a problem, which users' pieces offer as ours do."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from fractions import Fraction
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
    UNITS = "data_columns"
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
    EXACT = "declare"
    EXACT_SLOPES = "exact_slopes"


@runtime_checkable
class SparseReader(Protocol):
    """A master that says whether it reads sparse slopes; one that does not say is given dense ones."""

    sparse: bool


class ExactTerms(Protocol):
    """What a piece states itself to in `declare`, with a factor, for a check in rational arithmetic.

    None stands for ones as weights, and for zero as a centre. A class states itself, and not for those that
    inherit from it, because these may compute something else.
    """

    def add(self, piece: Any, factor: Fraction) -> None:
        """Add another piece."""
        ...

    def losses(
        self, loss: Any, X: Any, y: Any, weights: Any, normalize: bool, intercept: bool, factor: Fraction
    ) -> None:
        """Add sum_i c_i loss(<x_i, w> + b, y_i), with weights c that sum to 1 if they are normalized."""
        ...

    def linear(self, c: Any, factor: Fraction) -> None:
        """Add <c, x>."""
        ...

    def quadratic(self, weights: Any, centre: Any, factor: Fraction) -> None:
        """Add sum_j weights_j (x_j - centre_j)^2 / 2."""
        ...

    def costs(self, costs: Any, factor: Fraction) -> None:
        """Add sum_j costs_j |x_j|."""
        ...

    def within(self, lower: Any, upper: Any) -> None:
        """Bound x from both sides."""
        ...

    def rows(self, A: Any, b: Any, A_eq: Any, b_eq: Any) -> None:
        """Add the rows A x <= b and A_eq x = b_eq; A_eq may be None."""
        ...

    def total(self, total: float) -> None:
        """Fix the sum of all coordinates."""
        ...


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


def users_parts(piece: Any, kind: type) -> list[Any]:
    """Return the parts of a piece whose class this package does not define: itself, or parts that it holds.

    Parameters
    ----------
    piece : object
    kind : type
        Parts that are instances of it are searched, for example the factors of an intersection.
    """
    found = [] if type(piece).__module__.partition(".")[0] == __name__.partition(".")[0] else [piece]
    for value in getattr(piece, "__dict__", {}).values():
        for part in value if isinstance(value, tuple | list) else (value,):
            if isinstance(part, kind):
                found += users_parts(part, kind)
    return found

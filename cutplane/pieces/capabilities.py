"""Capabilities: optional methods of the pieces of a problem, written by the package or by users."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

from cutplane.exceptions import MissingCapabilityError


class Capability(Enum):
    """An optional method of a piece of a problem or of a loss; the value is the name of the method."""

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
    ON_DEMAND = "estimate"
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
    """A master whose attribute `sparse` tells whether it accepts sparse slopes; others get dense slopes."""

    sparse: bool


class ExactTerms(Protocol):
    """The receiver of the terms of a piece in `declare`, for a check in rational arithmetic.

    None as weights means ones, and None as centre means zero. A subclass does not inherit `declare`, because
    it may compute another function.
    """

    def add(self, piece: Any, factor: Fraction) -> None:
        """Add another piece."""
        ...

    def losses(
        self, loss: Any, X: Any, y: Any, weights: Any, normalize: bool, intercept: bool, factor: Fraction
    ) -> None:
        """Add sum_i c_i loss(<x_i, w> + b, y_i); the weights c sum to 1 if `normalize`."""
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
        """Add the bounds lower <= x <= upper."""
        ...

    def rows(self, A: Any, b: Any, A_eq: Any, b_eq: Any) -> None:
        """Add the rows A x <= b and A_eq x = b_eq; A_eq may be None."""
        ...

    def total(self, total: float) -> None:
        """Fix the sum of all coordinates."""
        ...


def ability(piece: Any, capability: Capability) -> Callable[..., Any] | None:
    """Return the method of `piece` for `capability`; None if it lacks the capability.

    A piece has a capability if it has the method, unless its attribute ``withheld`` contains the capability.
    For example, a sum has a cvxpy form only if all its terms have one.
    """
    method = getattr(piece, capability.value, None)
    return method if callable(method) and capability not in getattr(piece, "withheld", ()) else None


def offers(piece: Any, capability: Capability) -> bool:
    """Tell whether `piece` has `capability`."""
    return ability(piece, capability) is not None


def ask(piece: Any, capability: Capability, *arguments: Any) -> Any:
    """Call the method for `capability` and return its result; None if the piece lacks the capability."""
    return getattr(piece, capability.value)(*arguments) if offers(piece, capability) else None


def require(piece: Any, capability: Capability, needed_by: str, remedy: str) -> None:
    """Raise `MissingCapabilityError` unless `piece` has `capability`."""
    if not offers(piece, capability):
        raise MissingCapabilityError(
            f"{needed_by} needs {capability.name.lower().replace('_', ' ')} from {type(piece).__name__}, "
            f"which has no method {capability.value!r}. {remedy}"
        )


def users_parts(piece: Any, kind: type) -> list[Any]:
    """Return all parts of a piece, itself included, whose class is not defined in this package.

    Parameters
    ----------
    piece : object
    kind : type
        The class of the parts, for example `FeasibleSet` for the sets of an intersection.
    """
    found = [] if type(piece).__module__.partition(".")[0] == __name__.partition(".")[0] else [piece]
    for value in getattr(piece, "__dict__", {}).values():
        for part in value if isinstance(value, tuple | list) else (value,):
            if isinstance(part, kind):
                found += users_parts(part, kind)
    return found

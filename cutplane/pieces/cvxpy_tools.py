"""What pieces of a problem need in order to be cvxpy objects: evaluation, gradients, and another variable."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError, NotConvexError, OracleError
from cutplane.pieces.validation import Array

_LOCK = RLock()


def check_variable(owner: str, variable: Any) -> None:
    """Raise `InvalidInputError` unless `variable` is a cvxpy variable without attributes.

    Attributes (``nonneg=True``, ``PSD=True``, ``bounds=...``) are constraints that would be lost silently
    when the variable is replaced; they belong into a `CvxpySet`.
    """
    import cvxpy as cp

    if not isinstance(variable, cp.Variable):
        raise InvalidInputError(f"{owner}.variable must be a cvxpy.Variable, got {type(variable).__name__}.")
    attributes = sorted(name for name, value in variable.attributes.items() if value)
    if attributes:
        raise InvalidInputError(
            f"{owner}.variable has the attributes {attributes}; declare a plain "
            f"cvxpy.Variable({variable.shape}) and state them as constraints in a CvxpySet."
        )


def check_depends_only_on(owner: str, piece: Any, variable: Any) -> None:
    """Raise `InvalidInputError` if a cvxpy object has other variables, or parameters without a value."""
    others = [found.name() for found in piece.variables() if found is not variable]
    if others:
        raise InvalidInputError(
            f"{owner} may depend on its variable {variable.name()} only, but {piece} depends on {others}."
        )
    unset = [parameter.name() for parameter in piece.parameters() if parameter.value is None]
    if unset:
        raise InvalidInputError(f"{owner} has parameters without a value: {unset}; set their .value first.")


def check_convex(owner: str, expression: Any) -> None:
    """Raise `InvalidInputError` unless `expression` is scalar, `NotConvexError` unless it is convex."""
    import cvxpy as cp

    if not isinstance(expression, cp.Expression) or not expression.is_scalar():
        raise InvalidInputError(f"{owner}.expression must be a scalar cvxpy expression, got {expression!r}.")
    if not expression.is_convex():
        raise NotConvexError(
            f"{owner}.expression {shortened(expression)} must be convex, but has curvature "
            f"{expression.curvature}. Rewrite it by the rules of disciplined convex programming "
            "(https://dcp.cvxpy.org); if it is concave and to be maximised, pass its negative."
        )


def shortened(expression: Any, width: int = 200) -> str:
    """Show a cvxpy expression on one line of at most `width` characters."""
    text = " ".join(str(expression).split())
    return text if len(text) <= width else text[: width - 3] + "..."


@contextmanager
def at(variable: Any, x: Array) -> Iterator[None]:
    """Give `variable` the value x for a while: of shape (variable.size,), in column-major order.

    Only one thread at a time: expressions share variables.
    """
    with _LOCK:
        before = variable.value
        variable.value = np.reshape(x, variable.shape, order="F")
        try:
            with np.errstate(all="ignore"):
                yield
        finally:
            variable.value = before


def gradient(expression: Any, variable: Any) -> Array:
    """Return a subgradient of a convex scalar expression at the variable's present value.

    It has shape (variable.size,), in column-major order. `with_usable_gradients` replaces atoms without a
    gradient. An `OracleError` says that there is none: outside the domain of an atom, or at its boundary.
    """
    slope: Any
    try:
        slope = expression.grad.get(variable, 0.0)
    except NotImplementedError as error:
        raise OracleError(f"An atom of {expression} has no gradient in cvxpy.") from error
    except TypeError:  # a sum of a gradient and None, which is cvxpy's gradient outside the domain
        slope = None
    dense = slope.toarray() if sparse.issparse(slope) else np.asarray(slope, dtype=np.float64)
    if not np.isfinite(dense).all():
        raise OracleError(
            f"cvxpy has no subgradient of {expression} at {variable.name()} = {variable.value}: outside the "
            "domain of an atom, or at its boundary; keep the feasible set in the interior of the domain."
        )
    return np.array(np.broadcast_to(np.ravel(dense), (variable.size,)))


def substitute(piece: Any, variable: Any, x: Any) -> Any:
    """Return a cvxpy expression or constraint with `variable` replaced by x, of shape (variable.size,).

    The new one shares with the old one all subexpressions that do not depend on `variable`; a constraint
    gets dual variables and an id of its own. Atoms that cannot be rebuilt raise an `InvalidInputError`.
    """
    import cvxpy as cp

    image = x if variable.shape == (x.size,) else cp.reshape(x, variable.shape, order="F")
    result = _rewrite(piece, {id(variable): image})
    if _holds(result, variable) and not _holds(x, variable):
        raise InvalidInputError(f"{type(piece).__name__} {piece} cannot be rebuilt with another variable.")
    return result


def _rewrite(node: Any, done: dict[int, Any]) -> Any:
    """Return `node` with the replacements in `done`, keyed by identity; what does not change is shared."""
    import cvxpy as cp

    kinds: Any = (cp.Expression, cp.Constraint)
    if not isinstance(node, kinds):
        return node
    if id(node) not in done:
        args = [_rewrite(arg, done) for arg in node.args]
        same = all(new is old for new, old in zip(args, node.args, strict=True))
        done[id(node)] = node if same else _rebuild(node, args)
    return done[id(node)]


def _rebuild(node: Any, args: list[Any]) -> Any:
    import cvxpy as cp

    try:
        if isinstance(node, cp.Constraint):
            *data, _ = node.get_data()
            return type(node)(*args, *data)
        return node.copy(args)
    except (AssertionError, AttributeError, TypeError, ValueError) as error:
        raise InvalidInputError(
            f"The cvxpy atom {type(node).__name__} cannot be rebuilt with another variable: {node}."
        ) from error


def _holds(piece: Any, variable: Any) -> bool:
    return any(found is variable for found in piece.variables())

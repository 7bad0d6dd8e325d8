"""What pieces of a problem need in order to be cvxpy objects: evaluation, gradients, and another variable."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError, OracleError
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

    Parameters
    ----------
    expression : cvxpy.Expression
        Passed through `with_usable_gradients` of `cvxpy_gradients` if it may have atoms whose gradient cvxpy
        lacks, such as the maximum norm.
    variable : cvxpy.Variable

    Returns
    -------
    ndarray of shape (variable.size,)
        In column-major order, as the entries of the variable.

    Raises
    ------
    OracleError
        If cvxpy knows none there: outside the domain of an atom, or at its boundary.

    Examples
    --------
    >>> import cvxpy as cp, numpy as np
    >>> from cutplane.pieces.cvxpy_tools import at, gradient
    >>> x = cp.Variable(2)
    >>> with at(x, np.array([3.0, 4.0])):
    ...     gradient(cp.norm(x), x).round(3).tolist()
    [0.6, 0.8]
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
    """Return a cvxpy expression or constraint with `variable` replaced by the expression x.

    Parameters
    ----------
    piece : cvxpy expression or constraint
        Left as it is. The new one shares with it all subexpressions that do not depend on `variable`; a
        constraint gets dual variables and an id of its own.
    variable : cvxpy.Variable
        Without attributes.
    x : cvxpy expression of shape (variable.size,)
        The entries of the variable in column-major order.

    Raises
    ------
    InvalidInputError
        If an atom cannot be rebuilt with other arguments (``perspective``, ``partial_optimize``).

    Examples
    --------
    >>> import cvxpy as cp
    >>> from cutplane.pieces.cvxpy_tools import substitute
    >>> W, x = cp.Variable((2, 2), name="W"), cp.Variable(4, name="x")
    >>> substitute(cp.norm(W, "nuc") <= 1, W, x).variables()
    [Variable((4,), x)]
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

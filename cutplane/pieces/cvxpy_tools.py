"""Cvxpy objects as pieces of a problem: checks, values, and substitution of variables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from threading import RLock
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError, NotConvexError
from cutplane.pieces.parameters import set_fields
from cutplane.pieces.validation import Array

_LOCK = RLock()
_SHOWN = 20
"""Entries up to which a message shows a constant in full, because larger constants do not fit on a line."""


def as_variables(owner: str, variables: Any) -> tuple[Any, ...]:
    """Return one variable, or a sequence of them, as a tuple.

    Raise `InvalidInputError` unless they are different cvxpy variables without attributes. Attributes are
    refused because they are constraints (for example ``nonneg=True``), which would be lost when x replaces
    the variables.
    """
    import cvxpy as cp

    found = tuple(variables) if isinstance(variables, list | tuple) else (variables,)
    if not found:
        raise InvalidInputError(f"{owner}.variable must be one cvxpy.Variable or several, got none.")
    for variable in found:
        if not isinstance(variable, cp.Variable):
            raise InvalidInputError(
                f"{owner}.variable must be a cvxpy.Variable, got {type(variable).__name__}."
            )
        if variable.size == 0:
            raise InvalidInputError(f"{owner}.variable has no entries, shape {variable.shape}; omit it.")
        attributes = sorted(name for name, value in variable.attributes.items() if value)
        if attributes:
            raise InvalidInputError(
                f"{owner}.variable has the attributes {attributes}; declare a plain "
                f"cvxpy.Variable({variable.shape}) and state them as constraints in a CvxpySet."
            )
    if len({variable.id for variable in found}) < len(found):
        raise InvalidInputError(f"{owner}.variable has {names(found)}; they must be different.")
    return found


def names(variables: tuple[Any, ...]) -> str:
    """Return the name of one variable, or the list of the names of several."""
    shown = [variable.name() for variable in variables]
    return shown[0] if len(shown) == 1 else f"[{', '.join(shown)}]"


def common_variables(parts: Iterable[Any]) -> tuple[Any, ...]:
    """Return the variables whose entries are the coordinates of x; () if no part has variables.

    Raises
    ------
    InvalidInputError
        If two parts have different variables, or the same ones in another order.
    """
    stated = [part for part in parts if part.cvxpy_variables]
    for part in stated[1:]:
        one, other = stated[0].cvxpy_variables, part.cvxpy_variables
        if [variable.id for variable in one] != [variable.id for variable in other]:
            raise InvalidInputError(
                f"x holds the entries of {names(one)} for {stated[0]!r}, but the entries of {names(other)} "
                f"for {part!r}; give all pieces of a problem the same variables in the same order."
            )
    return stated[0].cvxpy_variables if stated else ()


def order_of_entries(variables: Sequence[Any]) -> str:
    """Return a sentence on the order of the entries of matrices in x; "" if no variable is a matrix."""
    matrices = [v for v in variables if sum(length > 1 for length in v.shape) > 1]
    shown = " and ".join(f"{v.name()} of shape {v.shape}" for v in matrices)
    return f"x holds {shown} in row-major order, as numpy's ravel() and cvxpy's order='C'" if matrices else ""


def total_size(variables: tuple[Any, ...]) -> int:
    """Return the number of entries of all variables."""
    return sum(int(variable.size) for variable in variables)


def pieces(variables: Sequence[Any], x: Any) -> list[Any]:
    """Return the part of the vector x of each variable."""
    ends = np.cumsum([variable.size for variable in variables])
    return [x[end - variable.size : end] for variable, end in zip(variables, ends, strict=True)]


def check_depends_only_on(owner: str, piece: Any, variables: tuple[Any, ...]) -> None:
    """Raise `InvalidInputError` if a cvxpy object has other variables, or parameters without a value."""
    allowed = {variable.id for variable in variables}
    others = [found.name() for found in piece.variables() if found.id not in allowed]
    if others:
        raise InvalidInputError(
            f"{owner} may depend on its variable {names(variables)} only, but {piece} depends on {others}."
        )
    unset = [parameter.name() for parameter in piece.parameters() if parameter.value is None]
    if unset:
        raise InvalidInputError(f"{owner} has parameters without a value: {unset}; set their .value first.")
    check_numbers(owner, piece, finite=hasattr(piece, "is_convex"))


def check_numbers(owner: str, piece: Any, *, finite: bool = True) -> None:
    """Raise `InvalidInputError` if a constant or parameter of `piece` is NaN, or infinite if `finite`."""
    for leaf in [*piece.constants(), *piece.parameters()]:
        if leaf.value is None:
            continue
        entries = np.asarray(leaf.value.data if sparse.issparse(leaf.value) else leaf.value)
        wrong = entries[~np.isfinite(entries) if finite else np.isnan(entries)]
        if wrong.size:
            name = "a constant" if leaf.is_constant() and not leaf.parameters() else leaf.name()
            raise InvalidInputError(
                f"{owner} holds {wrong.flat[0]}, in {name} of "
                f"{shortened(piece)}; every number must be {'finite' if finite else 'a number'}."
            )


class CvxpyFunction:
    """A convex scalar cvxpy expression of the entries x of some variables, for a risk or a regularizer."""

    expression: Any
    variable: Any
    cvxpy_variables: tuple[Any, ...]

    def _check(self) -> None:
        """Check the expression and its variables, and set `cvxpy_variables` and `dim`.

        Raises
        ------
        NotConvexError
            If the expression is not convex by cvxpy's rules; the message shows it.
        InvalidInputError
            If it is not a scalar, depends on other variables, or a variable has attributes.
        """
        import cvxpy as cp

        owner, expression = type(self).__name__, self.expression
        variables = as_variables(owner, self.variable)
        if not isinstance(expression, cp.Expression) or not expression.is_scalar():
            raise InvalidInputError(
                f"{owner}.expression must be a scalar cvxpy expression, got {expression!r}."
            )
        if not expression.is_convex():
            raise NotConvexError(
                f"{owner}.expression {shortened(expression)} must be convex, but has curvature "
                f"{expression.curvature}. Rewrite it by the rules of disciplined convex programming "
                "(https://dcp.cvxpy.org); if it is concave and to be maximised, pass its negative."
            )
        check_depends_only_on(owner, expression, variables)
        set_fields(self, cvxpy_variables=variables, dim=total_size(variables))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({shortened(self.expression)}, {names(self.cvxpy_variables)})"

    @cached_property
    def plan(self) -> Any:
        """The compiled expression."""
        from cutplane.pieces.cvxpy_plan import Plan

        return Plan(self.expression, self.cvxpy_variables)

    def cvxpy_form(self, x: Any) -> Any:
        """Return the expression with x, a cvxpy expression of shape (dim,), in place of its variables."""
        return substitute(self.expression, self.cvxpy_variables, x)


def shortened(expression: Any, width: int = 200) -> str:
    """Return a cvxpy expression as a line of at most `width` characters."""
    with np.printoptions(threshold=_SHOWN, edgeitems=2):
        text = " ".join(str(expression).split())
    return text if len(text) <= width else text[: width - 3] + "..."


@contextmanager
def at(variables: Sequence[Any], x: Array) -> Iterator[None]:
    """Set variables temporarily to the parts of x, which holds matrices in row-major order.

    A lock admits one thread at a time, because expressions share variables.
    """
    with _LOCK:
        before = [variable.value for variable in variables]
        try:
            for variable, part in zip(variables, pieces(variables, x), strict=True):
                variable.value = np.reshape(part, variable.shape)
            with np.errstate(all="ignore"):
                yield
        finally:
            for variable, value in zip(variables, before, strict=True):
                variable.value = value


def substitute(piece: Any, variables: tuple[Any, ...], x: Any) -> Any:
    """Return a cvxpy expression or constraint with the vector x in place of its variables.

    Subexpressions that do not depend on the variables are shared and not copied. A constraint gets new dual
    variables and a new id. Atoms that cannot be rebuilt raise an `InvalidInputError`.
    """
    import cvxpy as cp

    parts = [x] if len(variables) == 1 else pieces(variables, x)
    images = {
        id(variable): part if variable.shape == part.shape else cp.reshape(part, variable.shape, order="C")
        for variable, part in zip(variables, parts, strict=True)
    }
    result = _rewrite(piece, images)
    kept = {variable.id for variable in variables} - {variable.id for variable in x.variables()}
    if any(found.id in kept for found in result.variables()):
        raise InvalidInputError(f"{type(piece).__name__} {piece} cannot be rebuilt with another variable.")
    return result


def assign(variables: Sequence[Any], x: Array) -> None:
    """Set each variable to its part of x."""
    if variables:
        for variable, part in zip(variables, pieces(variables, x), strict=True):
            variable.save_value(np.reshape(part, variable.shape))


def value_at(expression: Any, layouts: Sequence[tuple[Any, ...]], x: Array) -> Any:
    """Return the value of a cvxpy expression at x; each layout has the variables whose entries are in x."""
    import cvxpy as cp

    if not isinstance(expression, cp.Expression):
        raise InvalidInputError(f"The expression must be one of cvxpy's, got {type(expression).__name__}.")
    for variables in filter(None, layouts):
        expression = substitute(expression, variables, cp.Constant(x))
    unknown = [variable.name() for variable in expression.variables()]
    if unknown:
        raise InvalidInputError(
            f"{shortened(expression)} has variables that are not of the problem: {unknown}."
        )
    return expression.value


def _rewrite(node: Any, done: dict[int, Any]) -> Any:
    """Return `node` with the replacements in `done`, by id; unchanged subexpressions are shared."""
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

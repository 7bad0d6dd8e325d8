"""Affine expressions as sums of scaled data matrices times variables, without multiplying anything out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
from scipy import sparse

from cutplane.pieces.validation import Array
from cutplane.recognition.curves import same


@dataclass(frozen=True, eq=False)
class Data:
    """X @ variable, with a constant matrix X of the user."""

    X: Any
    variable: Any

    def agrees(self, other: Any) -> bool:
        """Tell whether another one has the same matrix and variable."""
        return isinstance(other, Data) and self.variable is other.variable and equal(self.X, other.X)


@dataclass(frozen=True, eq=False)
class Bias:
    """A scalar variable, added to every row."""

    variable: Any

    def agrees(self, other: Any) -> bool:
        """Tell whether another one has the same variable."""
        return isinstance(other, Bias) and self.variable is other.variable


@dataclass(frozen=True, eq=False)
class Whole:
    """The linear part of any affine expression."""

    expression: Any

    def agrees(self, other: Any) -> bool:
        """Tell whether another one has the same expression."""
        return isinstance(other, Whole) and self.expression is other.expression


Core = Data | Bias | Whole


@dataclass(frozen=True, eq=False)
class Image:
    """sum of scale * core over the parts, plus shift: the entries of an expression in column-major order."""

    parts: tuple[tuple[Core, Array], ...]
    shift: Array

    @property
    def has_data(self) -> bool:
        """Whether a matrix of constants is in it."""
        return any(
            isinstance(core, Data) or (isinstance(core, Whole) and has_matrix(core.expression))
            for core, _ in self.parts
        )

    def times(self, factor: Array) -> Image:
        """Return the product with a vector, entry by entry."""
        return Image(tuple((core, scale * factor) for core, scale in self.parts), self.shift * factor)

    def plus(self, other: Image) -> Image:
        """Return the sum; equal cores are joined."""
        parts = list(self.parts)
        for core, scale in other.parts:
            where = _find(core, parts)
            if where is None:
                parts.append((core, scale))
            else:
                parts[where] = (parts[where][0], parts[where][1] + scale)
        return Image(tuple(parts), self.shift + other.shift)

    def ratio(self, other: Image) -> Array | None:
        """Return the factor of each row that gives the linear part of the other, if there is one."""
        if len(self.parts) != len(other.parts) or self.shift.size != other.shift.size:
            return None
        factor: Array | None = None
        for core, scale in other.parts:
            where = _find(core, self.parts)
            if where is None or not self.parts[where][1].all():
                return None
            found = scale / self.parts[where][1]
            if factor is not None and not same(found, factor):
                return None
            factor = found
        return factor


def image_of(expression: Any) -> Image:
    """Return an affine expression as an image."""
    m = expression.size
    if expression.is_constant():
        return Image((), flat(expression.value, expression.shape))
    kind, args = type(expression).__name__, expression.args
    if kind == "NegExpression":
        return image_of(args[0]).times(np.full(m, -1.0))
    if kind == "AddExpression" and all(arg.shape == expression.shape for arg in args):
        total = image_of(args[0])
        for arg in args[1:]:
            total = total.plus(image_of(arg))
        return total
    if kind in ("multiply", "DivExpression"):
        factor, inner = split_product(expression)
        if inner is not None and inner.shape == expression.shape:
            return image_of(inner).times(flat(factor, expression.shape))
    if isinstance(expression, cp.Variable) and expression.shape == ():
        return Image(((Bias(expression), np.ones(1)),), np.zeros(1))
    if kind in ("Promote", "broadcast_to") and args[0].size == 1:
        inner = image_of(args[0])
        if all(isinstance(core, Bias) for core, _ in inner.parts):
            parts = tuple((core, np.repeat(scale, m)) for core, scale in inner.parts)
            return Image(parts, np.repeat(inner.shift, m))
    if kind in ("reshape", "Reshape") and keeps_order(expression):
        return image_of(args[0])
    data = _data(expression) if kind == "MulExpression" else None
    if data is not None:
        return Image(((data, np.ones(m)),), np.zeros(m))
    with zeroed(expression.variables()):
        shift = flat(expression.value, expression.shape)
    return Image(((Whole(expression), np.ones(m)),), shift)


def has_matrix(expression: Any) -> bool:
    """Tell whether a matrix of constants multiplies a variable in an expression."""
    if type(expression).__name__ == "MulExpression" and any(
        arg.is_constant() and arg.ndim == 2 and min(arg.shape) > 1 for arg in expression.args
    ):
        return True
    return any(has_matrix(arg) for arg in expression.args)


def split_product(expression: Any) -> tuple[Any, Any]:
    """Return the constant factor of a product or quotient and the other one; (None, None) if none is."""
    left, right = expression.args
    if type(expression).__name__ == "DivExpression":
        return (1.0 / dense(right.value), left) if right.is_constant() else (None, None)
    if left.is_constant():
        return dense(left.value), right
    return (dense(right.value), left) if right.is_constant() else (None, None)


def keeps_order(expression: Any) -> bool:
    """Tell whether a reshaping keeps the column-major order of the entries."""
    thin = all(max(e.shape, default=1) == e.size for e in (expression, expression.args[0]))
    return expression.order == "F" or thin


def dense(value: Any) -> Array:
    """Return a constant as an array."""
    return np.asarray(value.toarray() if sparse.issparse(value) else value, dtype=np.float64)


def flat(value: Any, shape: tuple[int, ...]) -> Array:
    """Return a constant, broadcast to a shape, as a vector in column-major order."""
    return np.broadcast_to(dense(value), shape).ravel(order="F")


@contextmanager
def zeroed(variables: Any) -> Iterator[None]:
    """Give variables the value 0 for a while, whether or not their attributes allow it."""
    before = [variable.value for variable in variables]
    try:
        for variable in variables:
            variable.save_value(np.zeros(variable.shape))
        yield
    finally:
        for variable, value in zip(variables, before, strict=True):
            variable.save_value(value)


def _data(expression: Any) -> Data | None:
    """Return X @ w, or w @ X', with a constant X and a variable that is a vector."""
    left, right = expression.args
    constant, other, transposed = (left, right, False) if left.is_constant() else (right, left, True)
    if not (isinstance(other, cp.Variable) and constant.is_constant() and constant.is_real()):
        return None
    X = constant.value
    if transposed:
        X = X.T
    if len(X.shape) == 1:
        X = X[np.newaxis, :]
    return Data(X, other) if X.shape == (expression.size, other.size) else None


def _find(core: Core, parts: Any) -> int | None:
    return next((i for i, (known, _) in enumerate(parts) if known.agrees(core)), None)


def equal(a: Any, b: Any) -> bool:
    """Tell whether two matrices are the same."""
    if a is b:
        return True
    if a.shape != b.shape or sparse.issparse(a) != sparse.issparse(b):
        return False
    return (a != b).nnz == 0 if sparse.issparse(a) else np.array_equal(a, b)

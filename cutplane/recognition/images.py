"""Affine expressions as sums of scaled data matrices times variables, and losses of their rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import cvxpy as cp
import numpy as np
from scipy import sparse

from cutplane.pieces.cvxpy_tools import substitute
from cutplane.pieces.validation import Array
from cutplane.recognition.losses import Curve, same


@dataclass(frozen=True, eq=False)
class Core:
    """X @ source for a matrix X and a variable; without X, the linear part of the expression `source`.

    A bias, which is a scalar variable added to every row, has no X.
    """

    source: Any
    X: Any = None

    @property
    def is_bias(self) -> bool:
        """Whether this is a scalar variable."""
        return isinstance(self.source, cp.Variable) and self.source.shape == ()

    def agrees(self, other: Core) -> bool:
        """Tell whether both cores are the same function."""
        return self.source is other.source and equal(self.X, other.X)


@dataclass(frozen=True, eq=False)
class Image:
    """The entries of an expression, in column-major order, as the sum of scale * core plus shift."""

    parts: tuple[tuple[Core, Array], ...]
    shift: Array

    @property
    def has_data(self) -> bool:
        """Whether the image has a constant matrix."""
        return any(core.X is not None or has_matrix(core.source) for core, _ in self.parts)

    def times(self, factor: Array) -> Image:
        """Return the elementwise product with a vector."""
        return Image(tuple((core, scale * factor) for core, scale in self.parts), self.shift * factor)

    def plus(self, other: Image) -> Image:
        """Return the sum; the scales of equal cores are added."""
        parts = list(self.parts)
        for core, scale in other.parts:
            where = _find(core, parts)
            if where is None:
                parts.append((core, scale))
            else:
                parts[where] = (parts[where][0], parts[where][1] + scale)
        return Image(tuple(parts), self.shift + other.shift)

    def ratio(self, other: Image) -> Array | None:
        """Return factors of the rows with which the linear parts are equal; None if there are none."""
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

    def relation(self, other: Image) -> tuple[float, float] | None:
        """Return numbers a != 0 and b with other = a self + b in every row; None if there are none."""
        ratio = self.ratio(other)
        if ratio is None or not same(ratio, ratio[0]) or not ratio[0]:
            return None
        rest, size = other.shift - ratio * self.shift, float(np.abs(other.shift).max())
        if not same(rest, rest[0], size):
            return None
        return float(ratio[0]), 0.0 if same(rest[0], 0.0, size) else float(rest[0])


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
    if kind in ("Promote", "broadcast_to") and args[0].size == 1:
        inner = image_of(args[0])
        if all(core.is_bias for core, _ in inner.parts):
            parts = tuple((core, np.repeat(scale, m)) for core, scale in inner.parts)
            return Image(parts, np.repeat(inner.shift, m))
    if kind in ("reshape", "Reshape") and keeps_order(expression):
        return image_of(args[0])
    core = (_data(expression) if kind == "MulExpression" else None) or Core(expression)
    return Image(((core, np.ones(m)),), np.zeros(m) if core.X is not None else at_zero(expression))


def _data(expression: Any) -> Core | None:
    """Return the core of X @ w or w @ X', for a constant X and a vector variable w; None for others."""
    left, right = expression.args
    constant, other, transposed = (left, right, False) if left.is_constant() else (right, left, True)
    if not (isinstance(other, cp.Variable) and constant.is_constant() and constant.is_real()):
        return None
    X = constant.value.T if transposed else constant.value
    if len(X.shape) == 1:
        X = X[np.newaxis, :]
    return Core(other, X) if X.shape == (expression.size, other.size) else None


def has_matrix(expression: Any) -> bool:
    """Tell whether an expression has a product with a constant matrix."""
    if type(expression).__name__ == "MulExpression" and any(
        arg.is_constant() and arg.ndim == 2 and min(arg.shape) > 1 for arg in expression.args
    ):
        return True
    return any(has_matrix(arg) for arg in expression.args)


def split_product(expression: Any) -> tuple[Any, Any]:
    """Return the constant factor of a product or quotient and the other factor, otherwise (None, None)."""
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


def equal(a: Any, b: Any) -> bool:
    """Tell whether two matrices are equal; either may be None."""
    if a is b or a is None or b is None:
        return a is b
    if a.shape != b.shape or sparse.issparse(a) != sparse.issparse(b):
        return False
    return (a != b).nnz == 0 if sparse.issparse(a) else np.array_equal(a, b)


def at_zero(expression: Any) -> Array:
    """Return the entries of an expression where all variables are 0."""
    with _zeroed(expression.variables()):
        return flat(expression.value, expression.shape)


@contextmanager
def _zeroed(variables: Any) -> Iterator[None]:
    """Set variables temporarily to 0, even if their attributes exclude it."""
    before = [variable.value for variable in variables]
    try:
        for variable in variables:
            variable.save_value(np.zeros(variable.shape))
        yield
    finally:
        for variable, value in zip(variables, before, strict=True):
            variable.save_value(value)


def _find(core: Core, parts: Any) -> int | None:
    return next((i for i, (other, _) in enumerate(parts) if other.agrees(core)), None)


@dataclass(frozen=True, eq=False)
class LossTerm:
    """sum_i weight_i h(u_i), where u is an image, and h a curve or the name of a smooth atom of cvxpy.

    `expression` is this sum in cvxpy.
    """

    function: Curve | str
    image: Image
    weight: Array
    expression: Any

    @property
    def linear(self) -> tuple[float, float] | None:
        """The constant and the slope of h, if it is linear."""
        if not isinstance(self.function, Curve) or not self.function.is_line:
            return None
        constant, slope, _ = self.function.coefficients[0]
        return float(constant), float(slope)

    def joined(self, new: LossTerm) -> LossTerm | None:
        """Return the sum with another term as one term; None if they are functions of different data."""
        if not (self.image.has_data and new.image.has_data) or not isinstance(new.function, Curve):
            return None
        total = self.expression + new.expression
        if isinstance(self.function, str):
            image = self._folded(new)
            return None if image is None else replace(self, image=image, expression=total)
        lines = self.image.relation(new.image)
        if lines is None:
            return None
        if lines == (1.0, 0.0) and self.function.agrees(new.function):
            return replace(self, weight=self.weight + new.weight, expression=total)
        if not self.weight.all():
            return None
        factors = new.weight / self.weight
        if not same(factors, factors[0]):
            return None
        curve = self.function.plus(new.function.of(*lines).times(float(factors[0])))
        return replace(self, function=curve, expression=total)

    def _folded(self, new: LossTerm) -> Image | None:
        """Return v = u or -u with ln(1 + exp(v)) = ln(1 + exp(u)) - y u, if `new` is -y u with y = 0 or 1."""
        line = new.linear
        ratio = self.image.ratio(new.image) if line and self.function == "logistic" else None
        if line is None or ratio is None or not self.weight.all():
            return None
        y = -new.weight * line[1] * ratio / self.weight
        labels = np.round(y)
        if line[0] or not same(y, labels, 1.0) or not np.isin(labels, (0.0, 1.0)).all():
            return None
        if self.image.shift.any() or new.image.shift.any():
            return None
        return self.image.times(1.0 - 2.0 * labels)


def stacked(terms: list[LossTerm]) -> list[LossTerm]:
    """Stack similar terms of one row each, for example from a loop over the examples; keep the others."""
    groups: list[list[LossTerm]] = []
    others: list[LossTerm] = []
    for rows in terms:
        if rows.weight.size > 1 or any(core.X is None and not core.is_bias for core, _ in rows.image.parts):
            others.append(rows)
        elif group := next((group for group in groups if _is_similar(group[0], rows)), None):
            group.append(rows)
        else:
            groups.append([rows])
    return [*others, *(group[0] if len(group) == 1 else _stack(group) for group in groups)]


def _is_similar(one: LossTerm, other: LossTerm) -> bool:
    """Tell whether two terms of one row each have the same function and the same variables."""
    h, k = one.function, other.function
    same_function = h.agrees(k) if isinstance(h, Curve) and isinstance(k, Curve) else h is k
    sources = ([core.source.id for core, _ in rows.image.parts] for rows in (one, other))
    return same_function and next(sources) == next(sources)


def _stack(group: list[LossTerm]) -> LossTerm:
    images = [rows.image for rows in group]
    parts = []
    for i, (core, _) in enumerate(images[0].parts):
        if core.X is not None:
            blocks: Any = [image.parts[i][0].X for image in images]
            thin = any(sparse.issparse(X) for X in blocks)
            core = replace(core, X=sparse.csr_array(sparse.vstack(blocks)) if thin else np.vstack(blocks))
        parts.append((core, np.concatenate([image.parts[i][1] for image in images])))
    image = Image(tuple(parts), np.concatenate([image.shift for image in images]))
    weight = np.concatenate([rows.weight for rows in group])
    return LossTerm(group[0].function, image, weight, cp.sum(cp.hstack([rows.expression for rows in group])))


class Stack:
    """The concatenation x of the variables, each in column-major order; the last one may be negated.

    Attributes
    ----------
    variables : tuple of cvxpy.Variable
    dim : int
    variable : cvxpy.Variable
        x in the remaining cvxpy expressions: the only variable of the model, or a new variable.
    """

    def __init__(self, variables: Sequence[Any], last_sign: float = 1.0) -> None:
        self.variables = tuple(variables)
        starts = np.cumsum([0, *(variable.size for variable in variables)]).tolist()
        self.dim: int = starts[-1]
        self._slices = tuple(slice(*ends) for ends in pairwise(starts))
        self._signs = (*(1.0 for _ in self.variables[1:]), last_sign)
        only = self.variables[0]
        alone = len(self.variables) == 1 and not any(only.attributes.values()) and last_sign > 0.0
        plain = alone and only.size == max(only.shape, default=1)  # pieces use row-major order
        self.variable = only if plain else cp.Variable(self.dim, name="x")

    def place(self, variable: Any) -> tuple[slice, float]:
        """Return the slice of a variable in x, and its sign in x, 1 or -1."""
        k = [mine.id for mine in self.variables].index(variable.id)  # a deep copy has different ids
        return self._slices[k], self._signs[k]

    def matrix(self, expression: Any) -> Any:
        """Return the sparse matrix A of an affine expression A x + b in column-major order."""
        with _zeroed(expression.variables()):
            gradients = expression.grad
        total: Any = sparse.csr_array((expression.size, self.dim))
        for variable, gradient in gradients.items():
            where, sign = self.place(variable)
            columns = gradient if sparse.issparse(gradient) else np.reshape(gradient, (variable.size, -1))
            total = total + self.columns(sign * sparse.coo_array(columns.T), where)
        total.eliminate_zeros()
        return total

    def columns(self, matrix: Any, where: slice) -> Any:
        """Return a sparse matrix with a column for each entry of x, given its columns in a slice."""
        block: Any = sparse.coo_array(matrix)
        rows, columns = block.coords
        shape = (block.shape[0], self.dim)
        return sparse.csr_array((block.data, (rows, columns + where.start)), shape=shape)

    def substituted(self, piece: Any) -> Any:
        """Return an expression or a constraint as a function of `variable`."""
        if self.variables[0] is self.variable:
            return piece
        for variable in piece.variables():
            where, sign = self.place(variable)
            part = self.variable[where]
            part = part if variable.ndim == 1 else cp.reshape(part, variable.shape, order="F")
            piece = substitute(piece, (variable,), part if sign > 0.0 else -part)
        return piece

    def entries(self) -> Array:
        """Return x for the current values of the variables."""
        return np.concatenate([self.place(v)[1] * np.ravel(v.value, order="F") for v in self.variables])

    def store(self, x: Array | None) -> None:
        """Set the variables to their values in x; None removes their values."""
        for variable in self.variables:
            where, sign = self.place(variable)
            value = None if x is None else np.reshape(sign * x[where], variable.shape, order="F")
            variable.save_value(value)

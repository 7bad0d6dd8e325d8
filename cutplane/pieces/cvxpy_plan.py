"""Scalar cvxpy expressions, compiled once and evaluated on numpy arrays.

A plan is a list of steps. Each step applies a nonlinear atom to affine images A x + b of the variables and of
the results of earlier steps. Slopes are computed in reverse order. Threads may share a plan, because no
variable is assigned a value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import neg
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
from cvxpy.atoms.atom import Atom
from scipy import sparse

from cutplane.exceptions import InvalidInputError, OracleError
from cutplane.pieces.cvxpy_gradients import routine, usable
from cutplane.pieces.cvxpy_tools import at, shortened
from cutplane.pieces.validation import Array

_DENSE = 0.25
"""Share of nonzeros from which on a matrix is stored dense, because dense products are then faster."""


class _Image(NamedTuple):
    """The affine function sum_i A_i v_i + b of the vectors v, reshaped to `shape` in column-major order."""

    parts: tuple[tuple[int, Any], ...]
    offset: Any
    shape: tuple[int, ...]

    def __call__(self, vectors: list[Any]) -> Any:
        if not self.parts:
            return self.offset
        z = self.offset
        for source, matrix in self.parts:
            z = matrix @ vectors[source] + z
        return z.reshape(self.shape, order="F")


class _PlanStep(NamedTuple):
    atom: Any
    images: tuple[_Image, ...]
    routine: Any


class Plan:
    """A scalar expression of variables as a function of their concatenation x, in row-major order.

    It is compiled again if the value of a parameter of the expression has changed.
    """

    def __init__(self, expression: Any, variables: Sequence[Any]) -> None:
        self.expression = expression
        self.variables = tuple(variables)
        self._compiled: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_compiled": None}

    def value(self, x: Array) -> float:
        """Return the value at `x`; inf outside the domain."""
        return self._forward(*self._steps(), x)[0]

    def value_and_slope(self, x: Array) -> tuple[float, Array | None]:
        """Return the value and a subgradient at `x`, or (inf, None) if there is no subgradient."""
        steps, last = self._steps()
        value, vectors, arguments = self._forward(steps, last, x)
        slope = self._backward(steps, last, vectors, arguments) if math.isfinite(value) else None
        return (value, slope) if slope is not None else (math.inf, None)

    def _forward(self, steps: Any, last: _Image, x: Array) -> tuple[float, list[Any], list[Any]]:
        vectors, arguments = [np.asarray(x, dtype=np.float64)], []
        with np.errstate(all="ignore"):
            for step in steps:
                values = [image(vectors) for image in step.images]
                out = np.asarray(_value(step, values), dtype=np.float64)
                if not np.isfinite(out).all():
                    return math.inf, vectors, arguments
                vectors.append(out.ravel(order="F"))
                arguments.append((values, out))
            value = float(np.reshape(last(vectors), ()))
        return (value if math.isfinite(value) else math.inf), vectors, arguments

    def _backward(self, steps: Any, last: _Image, vectors: list[Any], arguments: list[Any]) -> Array | None:
        bars: list[Any] = [0.0] * len(vectors)
        _pull(last, np.ones(1), bars)
        with np.errstate(all="ignore"):
            for source in range(len(steps), 0, -1):
                step, (values, out) = steps[source - 1], arguments[source - 1]
                bar = np.broadcast_to(bars[source], out.size).reshape(out.shape, order="F")
                slopes = _slopes(step, values, out, bar)
                if slopes is None:
                    return None
                for image, slope in zip(step.images, slopes, strict=True):
                    if image.parts:
                        _pull(image, np.ravel(slope, order="F"), bars)
        slope = np.array(np.broadcast_to(bars[0], vectors[0].shape), dtype=np.float64)
        return slope if np.isfinite(slope).all() else None

    def _steps(self) -> tuple[Any, _Image]:
        parameters = self.expression.parameters()
        compiled = self._compiled
        if compiled is None or not all(map(_same, compiled[0], parameters)):
            values = [np.array(_value_of(parameter)) for parameter in parameters]
            compiled = values, *_Compiler(self.variables).compile(self.expression)
            self._compiled = compiled
        return compiled[1:]


def _value_of(parameter: Any) -> Any:
    value = parameter.value
    if value is None:
        raise InvalidInputError(f"The parameter {parameter.name()} has no value; set its .value first.")
    return value.toarray() if sparse.issparse(value) else value


def _same(value: Any, parameter: Any) -> bool:
    return np.array_equal(value, _value_of(parameter))


def _value(step: _PlanStep, values: list[Any]) -> Any:
    if step.routine is not None:
        return step.routine.value(step.atom, values)
    if not _is_plain(step.atom):
        with at(step.atom.variables(), _concatenated(values)):
            return step.atom.value
    if step.atom._domain():
        constraints = step.atom.copy([cp.Constant(value) for value in values])._domain()
        # With a positive tolerance, cvxpy would evaluate x^2 / y at a small negative y.
        if not all(constraint.value(tolerance=0.0) for constraint in constraints):
            return math.inf
    return step.atom.numeric(list(values))


def _slopes(step: _PlanStep, values: list[Any], out: Any, bar: Any) -> Any:
    """Return the slope in each argument, given the slope in the value; None if there is no gradient."""
    if step.routine is not None:
        return step.routine.pull(step.atom, values, out, bar)
    flat = np.ravel(bar, order="F")
    try:
        jacobians = _jacobians(step.atom, values)  # some atoms omit it for constant arguments
        found = [jacobians[i] if image.parts else 0.0 for i, image in enumerate(step.images)]
        if any(jacobian is None for jacobian in found):
            return None
        return [jacobian @ flat if np.ndim(jacobian) == 2 else jacobian * flat for jacobian in found]
    except (NotImplementedError, ValueError) as error:
        raise OracleError(f"cvxpy has no gradient of {shortened(step.atom)}.") from error


def _jacobians(atom: Any, values: list[Any]) -> Any:
    """Return cvxpy's gradients of an atom in its arguments, column-major matrices or numbers."""
    if _is_plain(atom):
        return atom._grad(list(values))
    with at(atom.variables(), _concatenated(values)):
        gradients = atom.grad
    return [gradients[variable] for variable in atom.variables()]


def _concatenated(values: list[Any]) -> Array:
    return np.concatenate([np.ravel(value) for value in values])


def _is_plain(expression: Any) -> bool:
    """Tell whether an expression is an atom whose value depends only on the values of its arguments."""
    return isinstance(expression, Atom) and type(expression)._value_impl is Atom._value_impl


def _pull(image: _Image, bar: Any, bars: list[Any]) -> None:
    """Add the slope in an image, times the transposed matrices, to the slopes in its sources."""
    for source, matrix in image.parts:
        bars[source] = matrix.T @ bar + bars[source]


class _Compiler:
    """The steps of an expression; a subexpression that occurs several times is one step."""

    def __init__(self, variables: Sequence[Any]) -> None:
        self.steps: list[_PlanStep] = []
        self.sources: dict[int, Any] = {variable.id: cp.Variable(variable.shape) for variable in variables}
        self.inputs = list(self.sources.values())
        self.outputs: dict[int, int] = {}
        self.lowered: dict[int, tuple[Any, Any]] = {}
        self.images: dict[int, tuple[Any, _Image]] = {}

    def compile(self, expression: Any) -> tuple[list[_PlanStep], _Image]:
        last = self.image(expression)
        return self.steps, last

    def image(self, expression: Any) -> _Image:
        """Return the expression as an affine image of the variables and of the results of steps."""
        if id(expression) not in self.images:
            self.images[id(expression)] = expression, self._image(self.lower(expression))
        return self.images[id(expression)][1]

    def lower(self, expression: Any) -> Any:
        """Return an affine expression of new variables, one for each variable and for each step."""
        if id(expression) not in self.lowered:
            self.lowered[id(expression)] = expression, self._lower(expression)
        return self.lowered[id(expression)][1]

    def _lower(self, expression: Any) -> Any:
        if isinstance(expression, cp.Variable):
            return self.sources[expression.id]
        if expression.is_constant():
            return expression if isinstance(expression, cp.Constant) else cp.Constant(expression.value)
        if not _is_plain(expression):
            return self._step(expression, expression.variables(), None)
        found = routine(expression)
        if found is None:
            expression, former = usable(expression), expression
            if type(expression) is not type(former):
                return self.lower(expression)
            if expression.is_atom_affine():
                return expression.copy([self.lower(arg) for arg in expression.args])
        return self._step(expression, expression.args, found)

    def _step(self, atom: Any, args: Any, found: Any) -> Any:
        images = tuple(self.image(arg) for arg in args)
        self.steps.append(_PlanStep(atom, images, found))
        output = cp.Variable(atom.shape)
        self.outputs[output.id] = len(self.steps)
        return output

    def _image(self, affine: Any) -> _Image:
        if isinstance(affine, cp.Constant):
            return _Image((), affine.value, affine.shape)
        matrices, offset = matrices_of(affine) or _differentiated(affine)
        square = len(affine.shape) == 2 and affine.shape[0] == affine.shape[1] > 1
        parts = [(self.outputs[key], matrix) for key, matrix in matrices.items() if key in self.outputs]
        if any(variable.id in matrices for variable in self.inputs):
            empty = {v.id: sparse.csr_array((affine.size, v.size)) for v in self.inputs}
            blocks = [_by_rows((empty | matrices)[v.id], v.shape) for v in self.inputs]
            parts.append(
                (0, blocks[0] if len(blocks) == 1 else sparse.hstack(list(map(sparse.csr_array, blocks))))
            )
        # Sparse products add all rows in the same order, which keeps symmetric matrices symmetric.
        parts = [(source, _stored(matrix, dense=not square)) for source, matrix in parts]
        return _Image(tuple(parts), offset, affine.shape)


def _differentiated(affine: Any) -> tuple[dict[int, Any], Array]:
    """Return the matrices and the constant of an affine expression, by cvxpy's gradients."""
    for variable in affine.variables():
        variable.value = np.zeros(variable.shape)
    offset = affine.value
    offset = offset.toarray() if sparse.issparse(offset) else np.asarray(offset)
    matrices = {key.id: _matrix(slope, key.size, affine.size) for key, slope in affine.grad.items()}
    return matrices, np.ravel(offset, order="F")


def _matrix(slope: Any, n_columns: int, n_rows: int) -> Any:
    """Return cvxpy's gradient as a matrix of n_rows x n_columns."""
    if sparse.issparse(slope):
        return sparse.csr_array(slope.T)
    return sparse.csr_array(np.broadcast_to(np.asarray(slope), (n_columns, n_rows)).T)


def _by_rows(matrix: Any, shape: tuple[int, ...]) -> Any:
    """Return a matrix for entries in row-major order, given the matrix for column-major order."""
    if len(shape) < 2:
        return matrix
    return matrix[:, np.arange(matrix.shape[1]).reshape(shape, order="F").ravel()]


def _stored(matrix: Any, *, dense: bool) -> Any:
    if isinstance(matrix, np.ndarray) and dense and np.count_nonzero(matrix) >= _DENSE * matrix.size:
        return matrix
    matrix = sparse.csr_array(matrix)
    n_rows, n_columns = matrix.shape
    return matrix.toarray() if dense and matrix.nnz >= _DENSE * n_rows * n_columns else matrix


Parts = dict[int, Any]
"""The matrix of each variable, by its id, with a column for each entry in column-major order."""


def matrices_of(affine: Any) -> tuple[Parts, Array] | None:
    """Return the matrices and the constant of an affine expression, in column-major order.

    Return None if it has atoms other than sums and products with constants; use cvxpy's gradients then.
    """
    if isinstance(affine, cp.Variable):
        return {affine.id: sparse.eye_array(affine.size, format="csr")}, np.zeros(affine.size)
    if isinstance(affine, cp.Constant):
        return {}, np.ravel(_dense(affine.value), order="F")
    kind, args = type(affine).__name__, affine.args
    if kind == "Promote" and isinstance(args[0], cp.Constant):
        return {}, np.full(affine.size, float(np.reshape(_dense(args[0].value), ())))
    if kind == "AddExpression":
        return _sum([matrices_of(arg) if arg.shape == affine.shape else None for arg in args])
    if kind == "NegExpression":
        return _mapped(matrices_of(args[0]), neg)
    if kind not in ("MulExpression", "multiply"):
        return None
    left, right = args if kind == "MulExpression" or isinstance(args[0], cp.Constant) else reversed(args)
    if not isinstance(left, cp.Constant):
        return None
    if kind == "multiply" and right.shape == affine.shape and left.shape in ((), affine.shape):
        factors = np.broadcast_to(np.ravel(_dense(left.value), order="F"), (affine.size,))
        return _mapped(matrices_of(right), sparse.diags_array(factors, format="csr").__matmul__)
    if kind == "MulExpression" and right.ndim == 1 and left.ndim in (1, 2):
        A = left.value if left.ndim == 2 else np.reshape(_dense(left.value), (1, -1))
        A = sparse.csr_array(A) if sparse.issparse(A) else np.asarray(A, dtype=np.float64)
        return _mapped(matrices_of(right), lambda factor: A @ factor)
    return None


def _sum(terms: list[tuple[Parts, Array] | None]) -> tuple[Parts, Array] | None:
    parts: Parts = {}
    for term in terms:
        for key, matrix in (term[0] if term else {}).items():
            parts[key] = parts[key] + matrix if key in parts else matrix
    return None if None in terms else (parts, np.sum([term[1] for term in terms if term], axis=0))


def _mapped(found: tuple[Parts, Array] | None, apply: Callable[[Any], Any]) -> tuple[Parts, Array] | None:
    """Apply a linear map to the matrices and the constant."""
    if found is None:
        return None
    return {key: apply(matrix) for key, matrix in found[0].items()}, np.atleast_1d(apply(found[1]))


def _dense(value: Any) -> Any:
    return value.toarray() if sparse.issparse(value) else np.asarray(value, dtype=np.float64)

"""The variables of a model as one vector x."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import cvxpy as cp
import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.cvxpy_tools import substitute
from cutplane.pieces.validation import Array
from cutplane.recognition.images import zeroed


class Stack:
    """The variables one after the other, each in column-major order, those in `negated` with the other sign.

    Attributes
    ----------
    variables : tuple of cvxpy.Variable
    dim : int
    variable : cvxpy.Variable
        x for what remains a cvxpy expression: the only variable of the model, or a new one.
    """

    def __init__(self, variables: Sequence[Any], negated: Sequence[Any] = ()) -> None:
        self.variables = tuple(variables)
        starts = np.cumsum([0, *(variable.size for variable in variables)]).tolist()
        self.dim: int = starts[-1]
        self._slices = tuple(slice(*ends) for ends in pairwise(starts))
        self._signs = tuple(-1.0 if any(v is other for other in negated) else 1.0 for v in variables)
        only = self.variables[0]
        alone = len(self.variables) == 1 and not any(only.attributes.values()) and not negated
        plain = alone and only.size == max(only.shape, default=1)  # pieces have matrices in row-major order
        self.variable = only if plain else cp.Variable(self.dim, name="x")

    def slice_of(self, variable: Any) -> slice:
        """Return where a variable is in x."""
        return self._slices[self._place(variable)]

    def sign_of(self, variable: Any) -> float:
        """Return 1, or -1 if x holds the negative of the variable."""
        return self._signs[self._place(variable)]

    def _place(self, variable: Any) -> int:
        return [mine.id for mine in self.variables].index(variable.id)  # a deep copy has other ids

    def matrix(self, expression: Any) -> Any:
        """Return A, sparse, of an affine expression A x + b in column-major order."""
        with zeroed(expression.variables()):
            gradients = expression.grad
        shape = (expression.size, self.dim)
        total: Any = sparse.csr_array(shape)
        for variable, gradient in gradients.items():
            where = self.slice_of(variable)
            columns = gradient if sparse.issparse(gradient) else np.reshape(gradient, (variable.size, -1))
            block: Any = sparse.coo_array(columns.T) * self.sign_of(variable)
            rows, cols = block.coords
            total = total + sparse.csr_array((block.data, (rows, cols + where.start)), shape=shape)
        total.eliminate_zeros()
        return total

    def substituted(self, piece: Any) -> Any:
        """Return an expression or a constraint of `variable`."""
        if self.variables[0] is self.variable:
            return piece
        for variable in piece.variables():
            part = self.variable[self.slice_of(variable)]
            part = part if variable.ndim == 1 else cp.reshape(part, variable.shape, order="F")
            piece = substitute(piece, (variable,), part if self.sign_of(variable) > 0.0 else -part)
        return piece

    def entries(self) -> Array:
        """Return x of the present values of the variables."""
        return np.concatenate([self.sign_of(v) * np.ravel(v.value, order="F") for v in self.variables])

    def store(self, x: Array | None) -> None:
        """Give the variables the values in x; None leaves them without."""
        for variable in self.variables:
            value = None if x is None else self.sign_of(variable) * x[self.slice_of(variable)]
            variable.save_value(None if value is None else np.reshape(value, variable.shape, order="F"))


def check_variables(variables: Sequence[Any]) -> None:
    """Raise `InvalidInputError` if there is no variable, or one that is not a vector or matrix of reals."""
    if not variables:
        raise InvalidInputError("from_cvxpy needs a problem with a variable.")
    for variable in variables:
        if variable.size == 0:
            raise InvalidInputError(
                f"{variable.name()} has no entries, shape {variable.shape}; remove it from the model."
            )
        unsupported = [
            name
            for name, value in variable.attributes.items()
            if name not in _KNOWN and value is not None and value is not False and value != []
        ]
        if unsupported:
            raise InvalidInputError(
                f"from_cvxpy cannot have variables with the attribute {unsupported[0]}, but "
                f"{variable.name()} has it: problems are convex, in real vectors."
            )


_KNOWN = ("nonneg", "nonpos", "pos", "neg", "bounds", "symmetric", "PSD", "NSD")

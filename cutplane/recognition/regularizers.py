"""The terms of a model without data as a regularizer."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
from scipy import sparse

from cutplane.pieces.validation import Array
from cutplane.recognition.curves import Curve, line, same
from cutplane.recognition.images import flat, zeroed
from cutplane.recognition.risks import matrix_of
from cutplane.recognition.rows import Rows
from cutplane.recognition.stack import Stack
from cutplane.regularizers.base import Regularizer
from cutplane.regularizers.cvxpy import CvxpyRegularizer
from cutplane.regularizers.elastic_net import ElasticNet
from cutplane.regularizers.l1 import L1
from cutplane.regularizers.l2 import L2
from cutplane.regularizers.partial import Partial
from cutplane.regularizers.quadratic import QuadraticForm

_ABSOLUTE = line(0.0, 1.0).maximum(line(0.0, -1.0))


class Penalty:
    """<absolute, |x|> + <square, x^2> + x'Qx + <tilt, x> + constant, collected term by term."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._absolute, self._square, self._tilt = np.zeros((3, stack.dim))
        self._form: Any = None
        self.constant = 0.0

    def takes(self, rows: Rows) -> bool:
        """Add rows, if they are of this kind; tell whether they are."""
        curve, image = rows.function, rows.image
        if image.has_data or not isinstance(curve, Curve) or (rows.weight < 0.0).any():
            return False
        if curve.degree == 2 and not curve.knots.size:
            weight = rows.weight * curve.coefficients[0, 2]
            return self._takes_squares(matrix_of(image, self._stack), image.shift, weight)
        size = float(curve.at(np.ones(1))[0])
        if image.shift.any() or size <= 0.0 or not curve.agrees(_ABSOLUTE.times(size)):
            return False
        matrix = matrix_of(image, self._stack)
        if not _is_selection(matrix):
            return False
        self._absolute += abs(matrix).T @ (size * rows.weight)
        return True

    def takes_form(self, weight: float, expression: Any) -> bool:
        """Add weight u'P u with an affine u, a cvxpy expression; tell whether its matrix was added."""
        inner, form = expression.args
        matrix = self._stack.matrix(inner)
        if not _is_selection(matrix) or not form.is_constant():
            return False
        P = sparse.csr_array(form.value) if sparse.issparse(form.value) else np.asarray(form.value)
        P = (P + P.T) * (weight / 2.0)
        shift = _at_zero(inner)
        self._tilt += 2.0 * (matrix.T @ (P @ shift))
        self.constant += float(shift @ (P @ shift))
        whole = matrix.shape[0] == self._stack.dim and (matrix != sparse.eye_array(self._stack.dim)).nnz == 0
        self._add_form(P if whole else matrix.T @ sparse.csr_array(P) @ matrix)
        return True

    def regularizer(self) -> Regularizer | None:
        """Return the piece; None if there is no term."""
        l1 = _l1(self._absolute) if self._absolute.any() else None
        if self._form is not None:
            Q = 2.0 * (self._form + _diagonal(self._square, self._form))
            form = QuadraticForm(Q, self._tilt if self._tilt.any() else None)
            return form if l1 is None else self._sum(l1, form)
        if not self._square.any():
            return l1
        centre = np.divide(
            -self._tilt, 2.0 * self._square, out=np.zeros_like(self._tilt), where=self._square > 0
        )
        self.constant -= float(self._square @ centre**2)
        lam, weights = _factored(2.0 * self._square)
        l2 = L2(lam, centre if centre.any() else None, weights)
        return l2 if l1 is None else self._net(l1, l2)

    def _takes_squares(self, matrix: Any, shift: Array, weight: Array) -> bool:
        matrix = sparse.csr_array(matrix)
        self._tilt += 2.0 * (matrix.T @ (weight * shift))
        self.constant += float(weight @ shift**2)
        if _is_selection(matrix):
            self._square += (matrix * matrix).T @ weight
        else:
            self._add_form(matrix.T @ sparse.diags_array(weight) @ matrix)
        return True

    def _add_form(self, Q: Any) -> None:
        if self._form is None or sparse.issparse(self._form) == sparse.issparse(Q):
            self._form = Q if self._form is None else self._form + Q
        else:
            dense, thin = (self._form, Q) if sparse.issparse(Q) else (Q, self._form)
            self._form = dense + thin.toarray()

    def _net(self, l1: L1, l2: L2) -> Regularizer:
        """Return an elastic net, if both have equal weights on the same entries."""
        mask = self._absolute > 0.0
        even = all(same(weights[mask], weights[mask][0]) for weights in (self._absolute, self._square))
        if l2.centre is not None or not even or (self._square[~mask] > 0.0).any():
            return self._sum(l1, l2)
        a, b = float(self._absolute[mask][0]), 2.0 * float(self._square[mask][0])
        net = ElasticNet(a + b, a / (a + b))
        return net if mask.all() else Partial(net, mask)

    def _sum(self, l1: Any, other: Any) -> CvxpyRegularizer:
        x = self._stack.variable  # the one of the other pieces
        flat = x if x.ndim == 1 else cp.reshape(x, (self._stack.dim,), order="F")
        return CvxpyRegularizer(l1.cvxpy_form(flat) + other.cvxpy_form(flat), x)


def _l1(costs: Array) -> L1:
    lam, weights = _factored(costs)
    return L1(lam, weights)


def _factored(numbers: Array) -> tuple[float, Array | None]:
    lam = float(numbers.max())
    return lam, None if same(numbers, lam) else numbers / lam


def _diagonal(square: Array, like: Any) -> Any:
    return sparse.diags_array(square) if sparse.issparse(like) else np.diag(square)


def _is_selection(matrix: Any) -> bool:
    """Tell whether each row has at most one entry, and no two share a column."""
    rows = sparse.csr_array(matrix)
    return bool((np.diff(rows.indptr) <= 1).all() and np.unique(rows.indices).size == rows.nnz)


def _at_zero(expression: Any) -> Array:
    with zeroed(expression.variables()):
        return flat(expression.value, expression.shape)

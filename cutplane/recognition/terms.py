"""The objective of a model as a sum of losses, quadratic forms, scores of classes, and other terms.

Three tables describe the atoms of cvxpy: `_SUMS` has the terms of linear expressions, and `_ATOMS` and
`_COMBINED` have functions of one variable that are applied to each entry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import cvxpy as cp
import numpy as np

from cutplane.pieces.validation import Array
from cutplane.recognition.images import (
    Image,
    LossTerm,
    dense,
    flat,
    image_of,
    keeps_order,
    split_product,
    stacked,
)
from cutplane.recognition.losses import Curve, line, same

_POWERS = ("power", "Power", "PowerApprox")
_NORMS = ("norm1", "pnorm", "Pnorm", "PnormApprox")


@dataclass(frozen=True, eq=False)
class Scores:
    """sum_i weight_i ln sum_k exp((X W)_ik), for a matrix X and a matrix variable W.

    `expression` is this sum in cvxpy.
    """

    X: Any
    variable: Any
    weight: Array
    expression: Any


@dataclass(eq=False)
class Reading:
    """The terms of an objective; the objective is their sum.

    Attributes
    ----------
    quadratics : list of (float, QuadForm)
    others : list of cvxpy.Expression
        Convex and scalar.
    """

    constant: float = 0.0
    rows: list[LossTerm] = field(default_factory=list)
    quadratics: list[tuple[float, Any]] = field(default_factory=list)
    scores: list[Scores] = field(default_factory=list)
    others: list[Any] = field(default_factory=list)


def read(expression: Any, sign: float) -> Reading:
    """Return the terms of a scalar expression times `sign`; losses of equal data become one term."""
    reading = Reading()
    _collect(reading, expression, np.full(1, sign))
    joined: list[LossTerm] = []
    for rows in sorted(stacked(reading.rows), key=lambda rows: rows.linear is not None):
        for i, other in enumerate(joined):
            if (both := other.joined(rows)) is not None:
                joined[i] = both
                break
        else:
            joined.append(rows)
    reading.rows = joined
    return reading


def _collect(reading: Reading, expression: Any, weight: Array) -> None:
    """Add the terms of sum_i weight_i expression_i, in column-major order."""
    kind, args = type(expression).__name__, expression.args
    if expression.is_constant():
        reading.constant += float(weight @ flat(expression.value, expression.shape))
    elif summed := _SUMS.get(kind, _none)(expression, weight):
        for part, each in summed:
            _collect(reading, part, each if part.size == each.size else each.sum(keepdims=True))
    elif rows := _rows(expression, kind, weight):
        reading.rows.append(rows)
    elif kind == "QuadForm" and args[0].is_affine() and weight[0] > 0.0:
        reading.quadratics.append((float(weight[0]), expression))
    elif kind == "log_sum_exp" and expression.axis == 1 and (factors := score_matrix(args[0])):
        reading.scores.append(Scores(*factors, weight, _weighted(expression, weight)))
    else:
        reading.others.append(_weighted(expression, weight))


_Parts = Sequence[tuple[Any, Array]] | None


def _none(*_: Any) -> None:
    return None


def _terms(expression: Any, weight: Array) -> _Parts:
    """Return the terms of a sum; None for a vector of affine entries, because it is a single image."""
    if expression.size > 1 and expression.is_affine():
        return None
    compatible = all(arg.size in (1, expression.size) for arg in expression.args)
    return [(arg, weight) for arg in expression.args] if compatible else None


def _product(expression: Any, weight: Array) -> _Parts:
    factor, inner = split_product(expression)
    if inner is None or inner.size not in (1, expression.size):
        return None
    return [(inner, weight * flat(factor, expression.shape))]


def _inner_product(expression: Any, weight: Array) -> _Parts:
    factor, inner = split_product(expression)
    if expression.shape or inner is None or (inner.size > 1 and np.shape(factor) != inner.shape):
        return None
    return [(inner, weight * factor)]


def _sum(expression: Any, weight: Array) -> _Parts:
    outer = np.reshape(weight, expression.shape, order="F")
    if expression.axis is not None and not expression.keepdims:
        outer = np.expand_dims(outer, expression.axis)
    return [(expression.args[0], flat(outer, expression.args[0].shape))]


def _promoted(expression: Any, weight: Array) -> _Parts:
    return [(expression.args[0], weight)] if expression.args[0].size == 1 else None


def _reshaped(expression: Any, weight: Array) -> _Parts:
    return [(expression.args[0], weight)] if keeps_order(expression) else None


def _two_exponentials(expression: Any, weight: Array) -> _Parts:
    """Return the terms u and logistic(v - u) of ln(exp(u) + exp(v)), for affine u and v."""
    stack = expression.args[0]
    along = {"Vstack": 0, "Hstack": 1}.get(type(stack).__name__)
    if along is None or not stack.is_affine() or (expression.size > 1 and expression.axis != along):
        return None
    if len(stack.args) != 2 or any(arg.size != expression.size for arg in stack.args):
        return None
    u, v = stack.args
    return [(u, weight), (cp.logistic(v - u), weight)]


_SUMS: dict[str, Callable[[Any, Array], _Parts]] = {
    "AddExpression": _terms,
    "NegExpression": lambda expression, weight: [(expression.args[0], -weight)],
    "multiply": _product,
    "DivExpression": _product,
    "MulExpression": _inner_product,
    "Sum": _sum,
    "Promote": _promoted,
    "broadcast_to": _promoted,
    "reshape": _reshaped,
    "Reshape": _reshaped,
    "log_sum_exp": _two_exponentials,
}
"""The expressions and weights of the terms of a sum, by the name of the atom; None if it is not such a
sum."""


def _rows(expression: Any, kind: str, weight: Array) -> LossTerm | None:
    """Return the loss term of an expression that is a function of each entry, or the sum of such; or None."""
    if kind in ("exp", "logistic") and expression.args[0].is_affine():
        return LossTerm(kind, image_of(expression.args[0]), weight, _weighted(expression, weight))
    inner, outer = _summed(expression, kind) or (expression, None)
    found = _function(inner)
    if found is None or found[1] is None:
        return None
    curve = outer(found[0]) if outer else found[0]
    spread = np.full(inner.size, weight[0]) if outer else weight
    return None if curve is None else LossTerm(curve, found[1], spread, _weighted(expression, weight))


def _summed(expression: Any, kind: str) -> tuple[Any, Callable[[Curve], Curve | None]] | None:
    """Return u and h of an atom that is sum_i h(u_i); None for others."""
    if expression.shape != () or not expression.args:
        return None
    inner = expression.args[0]
    if kind == "norm1" or (kind in _NORMS and expression.p == 1):
        return inner, _ATOMS["abs"]
    if kind == "quad_over_lin" and expression.args[1].is_constant():
        divisor = float(dense(expression.args[1].value))
        return inner, lambda h: None if (square := h.squared()) is None else square.times(1.0 / divisor)
    if kind in _POWERS and _exponent(expression) == 2 and inner.shape == ():
        if type(inner).__name__ in _NORMS[1:] and inner.p == 2:
            return inner.args[0], Curve.squared
    return None


def _exponent(expression: Any) -> float:
    return float(dense(cp.Expression.cast_to_const(expression.p).value))


def _weighted(expression: Any, weight: Array) -> Any:
    if same(weight, weight[0]):
        total = expression if expression.shape == () else cp.sum(expression)
        return total if weight[0] == 1.0 else float(weight[0]) * total
    return cp.sum(cp.multiply(np.reshape(weight, expression.shape, order="F"), expression))


def _function(expression: Any) -> tuple[Curve, Image | None] | None:
    """Return (h, u) if the expression is a function h of each entry of an image u; otherwise None.

    The image of a constant is None.
    """
    if expression.is_constant():
        value = dense(expression.value)
        return (line(float(value.flat[0]), 0.0), None) if same(value, value.flat[0]) else None
    if expression.is_affine():
        return line(0.0, 1.0), image_of(expression)
    kind = type(expression).__name__
    if kind in _COMBINED:
        return _combined(expression, _COMBINED[kind])
    inner: Any = expression.args[0]
    atom = _ATOMS.get(kind)
    if kind in ("multiply", "DivExpression"):
        constant, inner = split_product(expression)
        if inner is not None and same(constant, constant.flat[0]):
            factor = float(constant.flat[0])
            atom = lambda h: h.times(factor)  # noqa: E731
    elif kind in _POWERS:
        atom = {1.0: lambda h: h, 2.0: Curve.squared}.get(_exponent(expression))
    elif kind == "huber":
        atom = lambda h: _huber(h, float(dense(expression.M.value)))  # noqa: E731
    found = _function(inner) if atom and inner is not None and inner.shape == expression.shape else None
    curve = atom(found[0]) if atom and found else None
    return None if curve is None or found is None else (curve, found[1])


def _huber(h: Curve, m: float) -> Curve | None:
    """Return the function u^2 if |u| <= m, else 2 m |u| - m^2, of a linear function u; None for others."""
    if not h.is_line:
        return None
    constant, slope, _ = h.coefficients[0]
    pieces = [[-m * m, -2.0 * m, 0.0], [0.0, 0.0, 1.0], [-m * m, 2.0 * m, 0.0]]
    return Curve(np.array([-m, m]), np.array(pieces)).of(slope, constant)


_ATOMS: dict[str, Callable[[Curve], Curve | None]] = {
    "NegExpression": lambda h: h.times(-1.0),
    "abs": lambda h: h.maximum(h.times(-1.0)),
}
"""Atoms of one argument without a parameter, as maps of functions of one variable."""

_COMBINED: dict[str, Callable[[Curve, Curve], Curve]] = {
    "AddExpression": Curve.plus,
    "maximum": Curve.maximum,
    "minimum": lambda h, k: h.times(-1.0).maximum(k.times(-1.0)).times(-1.0),
}
"""Atoms of several arguments that are functions of the same image."""


def _combined(expression: Any, combine: Callable[[Curve, Curve], Curve]) -> tuple[Curve, Image | None] | None:
    common: Image | None = None
    curves: list[Curve] = []
    for arg in expression.args:
        found = _function(arg) if arg.shape in ((), expression.shape) else None
        if found is None or (found[1] is not None and arg.shape != expression.shape):
            return None
        curve, image = found
        if image is not None and common is not None:
            lines = common.relation(image)
            if lines is None:
                return None
            curve = curve.of(*lines)
        common = common or image
        curves.append(curve)
    return reduce(combine, curves), common


def score_matrix(expression: Any) -> tuple[Any, Any] | None:
    """Return (X, W) for an expression X @ W with a constant X and a matrix variable W; None for others."""
    if type(expression).__name__ != "MulExpression" or expression.ndim != 2:
        return None
    left, right = expression.args
    if left.is_constant() and left.ndim == 2 and isinstance(right, cp.Variable) and right.ndim == 2:
        return left.value, right
    return None

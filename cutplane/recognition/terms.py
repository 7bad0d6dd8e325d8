"""The objective of a model as a sum of rows, quadratic forms, and whatever else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import cvxpy as cp
import numpy as np

from cutplane.pieces.validation import Array
from cutplane.recognition.curves import Curve, huber, line, same
from cutplane.recognition.images import Image, dense, flat, image_of, keeps_order, split_product
from cutplane.recognition.rows import Rows, joined, relation, stacked
from cutplane.recognition.scores import Scores, score_matrix

_SMOOTH = ("exp", "logistic")
_POWERS = ("power", "Power", "PowerApprox")
_NORMS = ("pnorm", "Pnorm", "PnormApprox")


@dataclass(eq=False)
class Reading:
    """What an objective consists of: constant + rows + quadratic forms + others.

    Attributes
    ----------
    quadratics : list of (float, QuadForm)
    scores : list of Scores
    others : list of cvxpy.Expression
        Convex and scalar.
    """

    constant: float = 0.0
    rows: list[Rows] = field(default_factory=list)
    quadratics: list[tuple[float, Any]] = field(default_factory=list)
    scores: list[Scores] = field(default_factory=list)
    others: list[Any] = field(default_factory=list)


def read(expression: Any, sign: float) -> Reading:
    """Return a scalar expression, times 1 or -1, as a sum; rows of equal data are joined."""
    reading = Reading()
    _walk(reading, expression, np.full(1, sign))
    together: list[Rows] = []
    for rows in sorted(stacked(reading.rows), key=lambda rows: rows.is_linear):
        for i, known in enumerate(together):
            both = joined(known, rows)
            if both is not None:
                together[i] = both
                break
        else:
            together.append(rows)
    reading.rows = together
    return reading


def _walk(reading: Reading, expression: Any, weight: Array) -> None:
    """Add sum_i weight_i expression_i, in column-major order."""
    kind, args, shape = type(expression).__name__, expression.args, expression.shape
    if expression.is_constant():
        reading.constant += float(weight @ flat(expression.value, shape))
    elif kind == "AddExpression" and _is_split(expression):
        for arg in args:
            _walk(reading, arg, weight if arg.size == expression.size else weight.sum(keepdims=True))
    elif kind == "NegExpression":
        _walk(reading, args[0], -weight)
    elif kind in ("multiply", "DivExpression") and _scales(expression):
        factor, inner = split_product(expression)
        total = weight * flat(factor, shape)
        _walk(reading, inner, total if inner.size == expression.size else total.sum(keepdims=True))
    elif kind == "MulExpression" and shape == () and _scales(expression):
        factor, inner = split_product(expression)
        _walk(reading, inner, weight * factor)
    elif kind == "Sum":
        outer = np.reshape(weight, shape, order="F")
        if expression.axis is not None and not expression.keepdims:
            outer = np.expand_dims(outer, expression.axis)
        _walk(reading, args[0], flat(outer, args[0].shape))
    elif kind in ("Promote", "broadcast_to") and args[0].size == 1:
        _walk(reading, args[0], weight.sum(keepdims=True))
    elif kind in ("reshape", "Reshape") and keeps_order(expression):
        _walk(reading, args[0], weight)
    elif kind == "log_sum_exp" and (pair := _pair(expression)) is not None:
        _walk(reading, pair[0], weight)
        _walk(reading, cp.logistic(pair[1] - pair[0]), weight)
    else:
        _leaf(reading, expression, kind, weight)


def _is_split(expression: Any) -> bool:
    """Tell whether the terms of a sum are read one by one: those of affine rows are kept together."""
    affine_rows = expression.size > 1 and expression.is_affine()
    return not affine_rows and all(arg.size in (1, expression.size) for arg in expression.args)


def _pair(expression: Any) -> Sequence[Any] | None:
    """Return u and v, affine, of ln(exp(u) + exp(v)) entry by entry; None of other sums."""
    stack = expression.args[0]
    along = {"Vstack": 0, "Hstack": 1}.get(type(stack).__name__)
    if along is None or not stack.is_affine() or (expression.size > 1 and expression.axis != along):
        return None
    known = len(stack.args) == 2 and all(arg.size == expression.size for arg in stack.args)
    return stack.args if known else None


def _scales(expression: Any) -> bool:
    factor, inner = split_product(expression)
    return inner is not None and (inner.size in (1, expression.size) or np.shape(factor) == inner.shape)


def _leaf(reading: Reading, expression: Any, kind: str, weight: Array) -> None:
    entries = _entries(expression, kind, weight)
    if entries is not None:
        reading.rows.append(entries)
    elif kind == "QuadForm" and expression.args[0].is_affine() and weight[0] > 0.0:
        reading.quadratics.append((float(weight[0]), expression))
    elif kind == "log_sum_exp" and expression.axis == 1 and (known := score_matrix(expression.args[0])):
        reading.scores.append(Scores(*known, weight, _weighted(expression, weight)))
    else:
        reading.others.append(_weighted(expression, weight))


def _entries(expression: Any, kind: str, weight: Array) -> Rows | None:
    """Return rows of an expression: its entries, or those that an atom adds up."""
    scalar = expression.shape == ()
    inner, outer = expression, None
    if scalar and (kind == "norm1" or (kind in _NORMS and expression.p == 1)):
        inner, outer = expression.args[0], lambda u: u.maximum(u.times(-1.0))
    elif kind == "quad_over_lin" and scalar and expression.args[1].is_constant():
        divisor = float(dense(expression.args[1].value))
        inner, outer = expression.args[0], lambda u: _over(u.squared(), divisor)
    elif kind in _POWERS and scalar and _exponent(expression) == 2 and _is_norm2(expression.args[0]):
        inner, outer = expression.args[0].args[0], lambda u: u.squared()
    if outer is None and kind in _SMOOTH and expression.args[0].is_affine():
        return Rows(kind, image_of(expression.args[0]), weight, _weighted(expression, weight))
    found = _function(inner)
    curve = None if found is None else found[0] if outer is None else outer(found[0])
    if curve is None or found is None or found[1] is None:
        return None
    spread = weight if outer is None else np.full(inner.size, weight[0])
    return Rows(curve, found[1], spread, _weighted(expression, weight))


def _over(curve: Curve | None, divisor: float) -> Curve | None:
    return None if curve is None else curve.times(1.0 / divisor)


def _is_norm2(expression: Any) -> bool:
    return type(expression).__name__ in _NORMS and expression.shape == () and expression.p == 2


def _exponent(expression: Any) -> float:
    return float(dense(cp.Expression.cast_to_const(expression.p).value))


def _weighted(expression: Any, weight: Array) -> Any:
    if same(weight, weight[0]):
        total = expression if expression.shape == () else cp.sum(expression)
        return total if weight[0] == 1.0 else float(weight[0]) * total
    return cp.sum(cp.multiply(np.reshape(weight, expression.shape, order="F"), expression))


def _function(expression: Any) -> tuple[Curve, Image | None] | None:
    """Return (h, u) if every entry of the expression is the same function h of that of an image u.

    The image of a constant is None.
    """
    if expression.is_constant():
        value = dense(expression.value)
        return (line(float(value.flat[0]), 0.0), None) if same(value, value.flat[0]) else None
    if expression.is_affine():
        return line(0.0, 1.0), image_of(expression)
    kind = type(expression).__name__
    if kind in ("maximum", "minimum", "AddExpression"):
        return _combined(kind, expression)
    inner = expression.args[0]
    factor = 1.0
    if kind in ("multiply", "DivExpression"):
        constant, inner = split_product(expression)
        if inner is None or inner.shape != expression.shape or not same(constant, constant.flat[0]):
            return None
        factor = float(constant.flat[0])
    found = _function(inner) if inner.shape == expression.shape else None
    if found is None:
        return None
    curve = _applied(expression, kind, found[0], factor)
    return None if curve is None else (curve, found[1])


def _applied(expression: Any, kind: str, curve: Curve, factor: float) -> Curve | None:
    """Return an atom of one argument, applied to a curve."""
    if kind == "NegExpression":
        return curve.times(-1.0)
    if kind in ("multiply", "DivExpression"):
        return curve.times(factor)
    if kind == "abs":
        return curve.maximum(curve.times(-1.0))
    if kind in _POWERS and _exponent(expression) in (1, 2):
        return curve.squared() if _exponent(expression) == 2 else curve
    if kind == "huber" and curve.is_line:
        constant, slope, _ = curve.coefficients[0]
        return huber(float(dense(expression.M.value))).of(slope, constant)
    return None


def _combined(kind: str, expression: Any) -> tuple[Curve, Image | None] | None:
    """Return an atom of several arguments, which must be functions of one image."""
    common: Image | None = None
    total: Curve | None = None
    for arg in expression.args:
        found = _function(arg) if arg.shape in ((), expression.shape) else None
        if found is None or (found[1] is not None and arg.shape != expression.shape):
            return None
        curve, image = found
        if image is not None and common is not None:
            lines = relation(common, image)
            if lines is None:
                return None
            curve = curve.of(*lines)
        common = common or image
        if total is None:
            total = curve
        elif kind == "AddExpression":
            total = total.plus(curve)
        elif kind == "maximum":
            total = total.maximum(curve)
        else:
            total = total.times(-1.0).maximum(curve.times(-1.0)).times(-1.0)
    return None if total is None else (total, common)

"""The likelihood of classes, by a linear score for each, as a multiclass risk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np

from cutplane.losses.vector import Softmax
from cutplane.pieces.validation import Array
from cutplane.recognition.curves import Curve, same
from cutplane.recognition.images import Whole, equal
from cutplane.recognition.rows import Rows
from cutplane.recognition.stack import Stack
from cutplane.risks.multiclass import MulticlassRisk


@dataclass(frozen=True, eq=False)
class Scores:
    """sum_i weight_i ln sum_k exp((X W)_ik), with a matrix X of the user and a matrix variable W.

    `expression` is the same sum as cvxpy has it.
    """

    X: Any
    variable: Any
    weight: Array
    expression: Any


def score_matrix(expression: Any) -> tuple[Any, Any] | None:
    """Return (X, W) of an expression X @ W with a constant X and a matrix variable W; None of others."""
    if type(expression).__name__ != "MulExpression" or expression.ndim != 2:
        return None
    left, right = expression.args
    if left.is_constant() and left.ndim == 2 and isinstance(right, cp.Variable) and right.ndim == 2:
        return left.value, right
    return None


def multiclass_risk(scores: Scores, rows: list[Rows], stack: Stack) -> tuple[MulticlassRisk, Rows] | None:
    """Return the risk of scores minus those of the classes observed, and the rows that hold the latter."""
    if [v.id for v in stack.variables] != [scores.variable.id] or not (scores.weight > 0.0).all():
        return None
    for term in rows:
        y = _labels(scores, term)
        if y is not None:
            p, m = scores.variable.shape[1], y.size
            mean = same(scores.weight * m, 1.0)
            weight = None if mean or same(scores.weight, 1.0) else scores.weight
            risk = MulticlassRisk(scores.X, y, Softmax(), p, weight, normalize=mean)
            return risk, term
    return None


def _labels(scores: Scores, rows: Rows) -> Array | None:
    """Return the class whose score the rows take from each example; None if they do something else."""
    if not rows.is_linear or not isinstance(rows.function, Curve) or len(rows.image.parts) != 1:
        return None
    core, scale = rows.image.parts[0]
    if not isinstance(core, Whole):
        return None
    known = score_matrix(core.expression)
    constant, slope, _ = rows.function.coefficients[0]
    if known is None or known[1] is not scores.variable or not equal(known[0], scores.X):
        return None
    if constant or rows.image.shift.any():
        return None
    taken = np.reshape(-slope * scale * rows.weight, core.expression.shape, order="F")
    picked = taken / scores.weight[:, np.newaxis]
    y = picked.argmax(axis=1)
    return y if same(picked, np.eye(picked.shape[1])[y]) else None

"""The constraints of a model as feasible sets."""

from __future__ import annotations

from itertools import chain
from typing import Any

import cvxpy as cp
import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.cvxpy_tools import check_numbers
from cutplane.pieces.validation import Array
from cutplane.recognition.images import dense, flat, image_of
from cutplane.recognition.risks import matrix_of
from cutplane.recognition.stack import Stack
from cutplane.sets.base import FeasibleSet
from cutplane.sets.box import Box
from cutplane.sets.cvxpy import CvxpySet
from cutplane.sets.polyhedron import Polyhedron
from cutplane.sets.whole import WholeSpace


def feasible_set(constraints: Any, stack: Stack) -> FeasibleSet:
    """Return the points that satisfy constraints, and the attributes of the variables."""
    lower, upper = _attributes(stack)
    inequalities, equations, others = [], [], []
    for constraint in [*chain.from_iterable(map(_bounded, constraints)), *_shapes(stack)]:
        affine = _affine(constraint)
        if affine is None:
            others.append(stack.substituted(constraint))
            continue
        expression, equal = affine
        A, b = _rows(expression, stack)
        single = _entries_of_row(A) == 1
        if single.any():
            _tighten(A[single], b[single], equal, lower, upper)
        if not single.all():
            rest = (A, b) if not single.any() else (A[~single], b[~single])
            (equations if equal else inequalities).append(rest)
    found: FeasibleSet = WholeSpace()
    if np.isfinite(lower).any() or np.isfinite(upper).any():
        found = found & Box(lower, np.inf) & Box(-np.inf, upper)
    if inequalities or equations:
        found = found & Polyhedron(*_stacked(inequalities), *_stacked(equations))
    if others:
        found = found & CvxpySet(others, stack.variable)
    return found


def _bounded(constraint: Any) -> list[Any]:
    """Return the entries of a constraint that no infinite side makes void, as in x <= inf, as constraints."""
    if type(constraint).__name__ != "Inequality":
        check_numbers("The model", constraint)
        return [constraint]
    void = np.zeros(constraint.shape, dtype=bool)
    for side, infinite in zip(constraint.args, (-np.inf, np.inf), strict=True):
        if side.is_constant():
            void |= dense(side.value) == infinite
            if (dense(side.value) == -infinite).any():
                raise InvalidInputError(
                    f"The constraint {constraint} holds nowhere, because one side is {-infinite}."
                )
        else:
            check_numbers("The model", side)
    if not void.any():
        return [constraint]
    kept = np.flatnonzero(~void.ravel(order="F"))
    left, right = (cp.vec(side + np.zeros(constraint.shape), order="F")[kept] for side in constraint.args)
    return [left <= right] if kept.size else []


def _affine(constraint: Any) -> tuple[Any, bool] | None:
    """Return the affine e of a constraint e <= 0 or e = 0, and whether it is the latter; None for others."""
    kind = type(constraint).__name__
    if kind not in ("Inequality", "Equality", "Zero", "NonPos", "NonNeg"):
        return None
    args = constraint.args
    expression = args[0] - args[1] if len(args) == 2 else -args[0] if kind == "NonNeg" else args[0]
    return (expression, kind in ("Equality", "Zero")) if expression.is_affine() else None


def _rows(expression: Any, stack: Stack) -> tuple[Any, Array]:
    """Return A and b of the rows A x - b of an affine expression."""
    image = image_of(expression)
    return matrix_of(image, stack), 0.0 - image.shift


def _entries_of_row(A: Any) -> Array:
    return np.diff(sparse.csr_array(A).indptr) if sparse.issparse(A) else np.count_nonzero(A, axis=1)


def _tighten(A: Any, b: Array, equal: bool, lower: Array, upper: Array) -> None:
    """Move the sides of a box to rows with one entry each."""
    rows = sparse.csr_array(A)
    rows.eliminate_zeros()
    sides, entries = b / rows.data, rows.data
    above, below = (np.ones_like(entries, dtype=bool),) * 2 if equal else (entries > 0.0, entries < 0.0)
    np.minimum.at(upper, rows.indices[above], sides[above])
    np.maximum.at(lower, rows.indices[below], sides[below])


def _attributes(stack: Stack) -> tuple[Array, Array]:
    """Return the sides of the box that the variables declare."""
    lower, upper = np.full(stack.dim, -np.inf), np.full(stack.dim, np.inf)
    for variable in stack.variables:
        given = variable.attributes
        sides: Any = given["bounds"] or (-np.inf, np.inf)
        low, high = (flat(cp.Expression.cast_to_const(side).value, variable.shape) for side in sides)
        if given["nonneg"] or given["pos"]:
            low = np.maximum(low, 0.0)
        if given["nonpos"] or given["neg"]:
            high = np.minimum(high, 0.0)
        where = stack.slice_of(variable)
        lower[where], upper[where] = (low, high) if stack.sign_of(variable) > 0.0 else (-high, -low)
    return lower, upper


def _shapes(stack: Stack) -> list[Any]:
    """Return the attributes of matrices as constraints."""
    found = []
    for variable in stack.variables:
        given = variable.attributes
        if given["symmetric"] or given["PSD"] or given["NSD"]:
            found.append(variable == variable.T)
        if given["PSD"] or given["NSD"]:
            found.append(variable >> 0 if given["PSD"] else variable << 0)
    return found


def _stacked(blocks: list[tuple[Any, Array]]) -> tuple[Any, Any]:
    if not blocks:
        return None, None
    right = np.concatenate([b for _, b in blocks])
    if len(blocks) == 1:
        return blocks[0][0], right
    if all(not sparse.issparse(A) for A, _ in blocks):
        return np.vstack([A for A, _ in blocks]), right
    return sparse.csr_array(sparse.vstack([sparse.csr_array(A) for A, _ in blocks])), right

"""The risk, the regularizer and the feasible set, made from the terms and constraints of a model."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import cvxpy as cp
import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError
from cutplane.losses.vector import Softmax
from cutplane.pieces.cvxpy_tools import check_numbers
from cutplane.pieces.validation import Array
from cutplane.problem import Problem
from cutplane.recognition.images import (
    Core,
    Image,
    LossTerm,
    Stack,
    at_zero,
    dense,
    equal,
    flat,
    has_matrix,
    image_of,
)
from cutplane.recognition.losses import Curve, fit, line, same
from cutplane.recognition.terms import Reading, Scores, read, score_matrix
from cutplane.regularizers.algebra import Partial
from cutplane.regularizers.base import Regularizer
from cutplane.regularizers.cvxpy import CvxpyRegularizer
from cutplane.regularizers.quadratic import QuadraticForm
from cutplane.regularizers.separable import L1, L2, ElasticNet, NoRegularizer
from cutplane.risks.base import Risk
from cutplane.risks.cvxpy import CvxpyRisk
from cutplane.risks.linear import LinearRisk
from cutplane.risks.multiclass import MulticlassRisk
from cutplane.risks.sums import LinearObjective, WeightedSum
from cutplane.sets.base import FeasibleSet
from cutplane.sets.box import Box, WholeSpace
from cutplane.sets.conic import CvxpySet
from cutplane.sets.polyhedron import Polyhedron

_ABSOLUTE = line(0.0, 1.0).maximum(line(0.0, -1.0))


def assembled(model: Any, sign: float) -> tuple[Problem, float, tuple[Any, ...], Stack]:
    """Return the problem, the constant of the objective, the unrecognised terms, and the variables."""
    reading = read(model.objective.expr, sign)
    stack = _stacked(model.variables(), reading)
    penalty, constant = _Penalty(stack), reading.constant
    risks: list[Risk] = []
    costs, others = np.zeros(stack.dim), list(reading.others)
    remaining = list(reading.rows)
    for scores in reading.scores:
        likelihood = _multiclass_risk(scores, remaining, stack)
        if likelihood is None:
            others.append(scores.expression)
        else:
            risks.append(likelihood[0])
            remaining = [rows for rows in remaining if rows is not likelihood[1]]
    for rows in remaining:
        if rows.linear:
            height, slope = rows.linear
            constant += float(rows.weight @ (height + slope * rows.image.shift))
            for core, scale in rows.image.parts:
                where, matrix = _columns(core, rows.weight.size, stack)
                costs[where] += matrix.T @ (slope * scale * rows.weight)
        elif not rows.image.has_data:
            if not penalty.takes(rows):
                others.append(rows.expression)
        elif (found := _linear_risk(rows, stack)) is not None:
            risks.append(found[0])
            constant += found[1]
        else:
            others.append(rows.expression)
    others += [weight * form for weight, form in reading.quadratics if not penalty.takes_form(weight, form)]
    regularizer = penalty.regularizer()
    if costs.any() or not (risks or others):
        risks.append(LinearObjective(costs))
    plain, rest = [term for term in others if not has_matrix(term)], others
    if regularizer is None and len(plain) == 1 and (len(others) > 1 or risks):
        regularizer = CvxpyRegularizer(stack.substituted(plain[0]), stack.variable)
        rest = [term for term in others if term is not plain[0]]
    if rest:
        risks.append(CvxpyRisk(stack.substituted(sum(rest[1:], start=rest[0])), stack.variable))
    risk: Risk = risks[0] if len(risks) == 1 else WeightedSum.of(*((1.0, risk) for risk in risks))
    problem = Problem(risk, regularizer or NoRegularizer(), _feasible_set(model.constraints, stack))
    return problem, constant + penalty.constant, tuple(others), stack


def _stacked(variables: Sequence[Any], reading: Reading) -> Stack:
    """Return the variables; a bias is last, possibly negated, because it becomes the intercept."""
    last, sign = next(filter(None, (_bias(rows.image) for rows in reading.rows)), (None, 1.0))
    first = [variable for variable in variables if variable is not last]
    return Stack(first if last is None else [*first, last], sign)


# Risks


def _linear_risk(rows: LossTerm, stack: Stack) -> tuple[LinearRisk, float] | None:
    """Return rows as (risk, constant), if possible with the model's matrix; None if they are not a loss."""
    image, bias = rows.image, _bias(rows.image)
    data = next(((core, scale) for core, scale in image.parts if core.X is not None), image.parts[0])
    scale = data[1] if bias or len(image.parts) == 1 else None
    plain = np.ones(image.shift.size) if scale is None else scale
    found = fit(rows.function, rows.weight, plain, image.shift)
    if found is None:
        return None
    X: Any = data[0].X if scale is not None else None
    if X is not None:
        where, sign = stack.place(data[0].source)
        fits = where.start == 0 and sign > 0.0 and stack.dim == X.shape[1] + (bias is not None)
        if not fits or (bias and (found.factor is not None or stack.place(bias[0])[1] != bias[1])):
            X = None
    intercept = X is not None and bias is not None
    if X is None:
        X = _matrix(image, stack, scale)
    if found.factor is not None:
        X = _scaled(X, found.factor)
    mean, weights = _weights(found.weight)
    risk = LinearRisk(X, found.y, found.loss, weights, normalize=mean, intercept=intercept)
    return risk, found.constant


def _weights(weight: Array) -> tuple[bool, Array | None]:
    """Return whether all weights are 1/m, and the weights; None if all are 1/m or all are 1."""
    mean = same(weight * weight.size, 1.0)
    return mean, None if mean or same(weight, 1.0) else weight


def _bias(image: Image) -> tuple[Any, float] | None:
    """Return (b, 1) for rows X w + b and (b, -1) for X w - b, up to a scale of each row; otherwise None."""
    if len(image.parts) != 2:
        return None
    (core, a), (bias, b) = sorted(image.parts, key=lambda part: part[0].is_bias)
    if core.X is None or not bias.is_bias:
        return None
    sign = 1.0 if same(a, b) else -1.0 if same(a, -b) else 0.0
    return (bias.source, sign) if sign else None


def _matrix(image: Image, stack: Stack, without: Array | None = None) -> Any:
    """Return the matrix of an image, a column for each entry of x, with rows divided by `without`."""
    m, blocks = image.shift.size, []
    for core, scale in image.parts:
        where, matrix = _columns(core, m, stack)
        if without is None:
            matrix = _scaled(matrix, scale)
        elif not same(scale, without):
            matrix = -matrix
        blocks.append((where, matrix))
    held = sum(matrix.shape[1] for _, matrix in blocks)
    if any(sparse.issparse(matrix) for _, matrix in blocks) or stack.dim > 2 * held:
        empty = sparse.csr_array((m, stack.dim))
        return sum((stack.columns(matrix, where) for where, matrix in blocks), empty)
    total = np.zeros((m, stack.dim))
    for where, matrix in blocks:
        total[:, where] += matrix
    return total


def _columns(core: Core, m: int, stack: Stack) -> tuple[slice, Any]:
    """Return the slice of x that a `Core` depends on, and the matrix of this slice."""
    if core.X is None and not core.is_bias:
        return slice(0, stack.dim), stack.matrix(core.source)
    where, sign = stack.place(core.source)
    matrix: Any = np.ones((m, 1)) if core.is_bias else core.X
    return where, matrix if sign == 1.0 else sign * matrix


def _scaled(matrix: Any, factors: Array) -> Any:
    if sparse.issparse(matrix):
        return sparse.csr_array(sparse.diags_array(factors) @ sparse.csr_array(matrix))
    return factors[:, np.newaxis] * matrix


def _multiclass_risk(
    scores: Scores, rows: list[LossTerm], stack: Stack
) -> tuple[MulticlassRisk, LossTerm] | None:
    """Return the multiclass risk, and the term with the scores of the true classes; None if there is none."""
    if [v.id for v in stack.variables] != [scores.variable.id] or not (scores.weight > 0.0).all():
        return None
    for term in rows:
        y = _labels(scores, term)
        if y is not None:
            mean, weight = _weights(scores.weight)
            classes = scores.variable.shape[1]
            return MulticlassRisk(scores.X, y, Softmax(), classes, weight, normalize=mean), term
    return None


def _labels(scores: Scores, rows: LossTerm) -> Array | None:
    """Return the class whose score is subtracted in each row; None if the rows have another form."""
    if not rows.linear or len(rows.image.parts) != 1:
        return None
    core, scale = rows.image.parts[0]
    factors = score_matrix(core.source) if core.X is None else None
    constant, slope = rows.linear
    if factors is None or factors[1] is not scores.variable or not equal(factors[0], scores.X):
        return None
    if constant or rows.image.shift.any():
        return None
    taken = np.reshape(-slope * scale * rows.weight, core.source.shape, order="F")
    picked = taken / scores.weight[:, np.newaxis]
    y = picked.argmax(axis=1)
    return y if same(picked, np.eye(picked.shape[1])[y]) else None


# The regularizer


class _Penalty:
    """<absolute, |x|> + <square, x^2> + x'Qx + <tilt, x> + constant, added term by term."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._absolute, self._square, self._tilt = np.zeros((3, stack.dim))
        self._form: Any = None
        self.constant = 0.0

    def takes(self, rows: LossTerm) -> bool:
        """Add rows if they have this form; tell whether they were added."""
        curve, shift = rows.function, rows.image.shift
        if not isinstance(curve, Curve) or (rows.weight < 0.0).any():
            return False
        matrix = sparse.csr_array(_matrix(rows.image, self._stack))
        if curve.degree == 2 and not curve.knots.size:
            weight = rows.weight * curve.coefficients[0, 2]
            self._tilt += 2.0 * (matrix.T @ (weight * shift))
            self.constant += float(weight @ shift**2)
            if _is_selection(matrix):
                self._square += (matrix * matrix).T @ weight
            else:
                self._add_form(matrix.T @ sparse.diags_array(weight) @ matrix)
            return True
        size = float(curve.at(np.ones(1))[0])
        if shift.any() or size <= 0.0 or not curve.agrees(_ABSOLUTE.times(size)) or not _is_selection(matrix):
            return False
        self._absolute += abs(matrix).T @ (size * rows.weight)
        return True

    def takes_form(self, weight: float, expression: Any) -> bool:
        """Add weight u'P u for an affine expression u; tell whether it was added."""
        inner, form = expression.args
        matrix = self._stack.matrix(inner)
        if not _is_selection(matrix) or not form.is_constant():
            return False
        P = sparse.csr_array(form.value) if sparse.issparse(form.value) else np.asarray(form.value)
        P = (P + P.T) * (weight / 2.0)
        shift = at_zero(inner)
        self._tilt += 2.0 * (matrix.T @ (P @ shift))
        self.constant += float(shift @ (P @ shift))
        whole = matrix.shape[0] == self._stack.dim and (matrix != sparse.eye_array(self._stack.dim)).nnz == 0
        self._add_form(P if whole else matrix.T @ sparse.csr_array(P) @ matrix)
        return True

    def _add_form(self, Q: Any) -> None:
        total = Q if self._form is None else self._form + Q
        self._form = total if sparse.issparse(total) else np.asarray(total)

    def regularizer(self) -> Regularizer | None:
        """Return the sum of the terms without constants; None if there are none."""
        l1 = L1(*_factored(self._absolute)) if self._absolute.any() else None
        other: Any
        if self._form is not None:
            thin = sparse.issparse(self._form)
            diagonal: Any = sparse.diags_array(self._square) if thin else np.diag(self._square)
            tilt = self._tilt if self._tilt.any() else None
            other = QuadraticForm(2.0 * (self._form + diagonal), tilt)
        elif self._square.any():
            centre = np.zeros_like(self._tilt)
            np.divide(-self._tilt, 2.0 * self._square, out=centre, where=self._square > 0)
            self.constant -= float(self._square @ centre**2)
            lam, weights = _factored(2.0 * self._square)
            other = L2(lam, centre if centre.any() else None, weights)
        else:
            return l1
        if l1 is None:
            return other
        mask = self._absolute > 0.0
        even = all(same(weights[mask], weights[mask][0]) for weights in (self._absolute, self._square))
        if isinstance(other, L2) and other.centre is None and even and not (self._square[~mask] > 0.0).any():
            a, b = float(self._absolute[mask][0]), 2.0 * float(self._square[mask][0])
            net = ElasticNet(a + b, a / (a + b))
            return net if mask.all() else Partial(net, mask)
        x = self._stack.variable
        vector = x if x.ndim == 1 else cp.reshape(x, (self._stack.dim,), order="F")
        return CvxpyRegularizer(l1.cvxpy_form(vector) + other.cvxpy_form(vector), x)


def _factored(numbers: Array) -> tuple[float, Array | None]:
    lam = float(numbers.max())
    return lam, None if same(numbers, lam) else numbers / lam


def _is_selection(matrix: Any) -> bool:
    """Tell whether each row has at most one entry, and no two share a column."""
    rows = sparse.csr_array(matrix)
    return bool((np.diff(rows.indptr) <= 1).all() and np.unique(rows.indices).size == rows.nnz)


# The feasible set


def _feasible_set(constraints: Any, stack: Stack) -> FeasibleSet:
    """Return the points that satisfy constraints, and the attributes of the variables."""
    lower, upper, shapes = _attributes(stack)
    affine: dict[bool, list[tuple[Any, Array]]] = {False: [], True: []}
    others = []
    for constraint in [*chain.from_iterable(map(_bounded, constraints)), *shapes]:
        kind, args = type(constraint).__name__, constraint.args
        expression = args[0] - args[1] if len(args) == 2 else -args[0] if kind == "NonNeg" else args[0]
        is_linear = kind in ("Inequality", "Equality", "Zero", "NonPos", "NonNeg") and expression.is_affine()
        if not is_linear:
            others.append(stack.substituted(constraint))
            continue
        equal_sides, image = kind in ("Equality", "Zero"), image_of(expression)
        A, b = _matrix(image, stack), 0.0 - image.shift
        entries = np.diff(sparse.csr_array(A).indptr) if sparse.issparse(A) else np.count_nonzero(A, axis=1)
        single = entries == 1
        if single.any():
            _tighten(A[single], b[single], equal_sides, lower, upper)
        if not single.all():
            affine[equal_sides].append((A, b) if not single.any() else (A[~single], b[~single]))
    found: FeasibleSet = WholeSpace()
    if np.isfinite(lower).any() or np.isfinite(upper).any():
        found = found & Box(lower, np.inf) & Box(-np.inf, upper)
    if affine[False] or affine[True]:
        found = found & Polyhedron(*_stacked_rows(affine[False]), *_stacked_rows(affine[True]))
    if others:
        found = found & CvxpySet(others, stack.variable)
    return found


def _bounded(constraint: Any) -> list[Any]:
    """Return a constraint without void entries, for example x_j <= inf; an empty list if all are void."""
    if type(constraint).__name__ != "Inequality":
        check_numbers("The model", constraint)
        return [constraint]
    void = np.zeros(constraint.shape, dtype=bool)
    for side, infinite in zip(constraint.args, (-np.inf, np.inf), strict=True):
        if side.is_constant():
            void |= dense(side.value) == infinite
            if (dense(side.value) == -infinite).any():
                raise InvalidInputError(
                    f"The constraint {constraint} is infeasible, because one side is {-infinite}; correct it."
                )
        else:
            check_numbers("The model", side)
    if not void.any():
        return [constraint]
    kept = np.flatnonzero(~void.ravel(order="F"))
    left, right = (cp.vec(side + np.zeros(constraint.shape), order="F")[kept] for side in constraint.args)
    return [left <= right] if kept.size else []


def _tighten(A: Any, b: Array, equal_sides: bool, lower: Array, upper: Array) -> None:
    """Tighten the bounds of a box by rows with one entry each."""
    rows = sparse.csr_array(A)
    rows.eliminate_zeros()
    sides, entries = b / rows.data, rows.data
    above, below = entries > 0.0, entries < 0.0
    if equal_sides:
        above = below = np.ones_like(above)
    np.minimum.at(upper, rows.indices[above], sides[above])
    np.maximum.at(lower, rows.indices[below], sides[below])


def _attributes(stack: Stack) -> tuple[Array, Array, list[Any]]:
    """Return the bounds and the constraints on matrices from the attributes of the variables."""
    lower, upper = np.full(stack.dim, -np.inf), np.full(stack.dim, np.inf)
    shapes = []
    for variable in stack.variables:
        given = variable.attributes
        sides: Any = given["bounds"] or (-np.inf, np.inf)
        low, high = (flat(cp.Expression.cast_to_const(side).value, variable.shape) for side in sides)
        if given["nonneg"] or given["pos"]:
            low = np.maximum(low, 0.0)
        if given["nonpos"] or given["neg"]:
            high = np.minimum(high, 0.0)
        where, sign = stack.place(variable)
        lower[where], upper[where] = (low, high) if sign > 0.0 else (-high, -low)
        if given["symmetric"] or given["PSD"] or given["NSD"]:
            shapes.append(variable == variable.T)
        if given["PSD"] or given["NSD"]:
            shapes.append(variable >> 0 if given["PSD"] else variable << 0)
    return lower, upper, shapes


def _stacked_rows(blocks: list[tuple[Any, Array]]) -> tuple[Any, Any]:
    if not blocks:
        return None, None
    right = np.concatenate([b for _, b in blocks])
    if len(blocks) == 1:
        return blocks[0][0], right
    if all(not sparse.issparse(A) for A, _ in blocks):
        return np.vstack([A for A, _ in blocks]), right
    return sparse.csr_array(sparse.vstack([sparse.csr_array(A) for A, _ in blocks])), right

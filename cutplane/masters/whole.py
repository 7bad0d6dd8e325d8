"""The whole problem as one conic programme, with a certificate from its dual point."""

from __future__ import annotations

import math
from typing import Any

import cvxpy as cp
import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from cutplane.masters.backends import LAST_DIGITS, tolerances
from cutplane.masters.base import Least, ReducedProblem, Whole
from cutplane.masters.cone_programme import BACKENDS, ConeProgramme, Solved, call, solve_conic
from cutplane.masters.units import unit_of
from cutplane.pieces.capabilities import Capability, offers
from cutplane.pieces.forms import ImageForm
from cutplane.pieces.validation import Array
from cutplane.proof.rounding import REACH

_OF_GAP = 1e-6
"""Tolerance of a conic solve relative to the allowed gap, because bounds add some thousand such errors."""
_COARSEST = 1e-10
"""Loosest tolerance, because one more iteration of an interior-point method gains a digit or two."""
_ENOUGH = 1e-6
"""Relative gap up to which no second backend is tried, because a smaller gap is not worth another solve."""
_SAME = 1e-7
"""Relative difference allowed between the objective of a cone programme and the function, because auxiliary
variables have errors of some thousand tolerances."""


def solve_whole(risk: Any, reduced: ReducedProblem, backend: str, gap: float = 0.0) -> Whole:
    """Solve the whole problem by a conic solver of cvxpy to a relative gap; 0 is the tightest tolerance."""
    tolerance = min(max(_OF_GAP * gap, LAST_DIGITS), _COARSEST)
    forms: tuple[Any, Any] = reduced.regularizer, reduced.simple_set
    regularizer, simple_set = forms
    x = cp.Variable(reduced.dim)
    image, value, multipliers_of = image_form(risk, x)
    z = cp.Variable(image.shape)
    copies = z == image
    objective = cp.Minimize(value(z) + regularizer.cvxpy_form(x))
    whole = cp.Problem(objective, [copies, *simple_set.cvxpy_form(x)])
    if backend in BACKENDS:
        answer = ConeProgramme(whole, backend).solve(tolerance)
        if answer.present:
            found = _split(answer, backend, z, x, regularizer)
            if multipliers_of is None or found.x is None or found.multipliers is None:
                return found
            return found._replace(multipliers=multipliers_of(found.multipliers, found.x))
    _, message = call(whole, backend, tolerances(backend, tolerance))
    if x.value is None or copies.dual_value is None:
        return Whole(message or f"{backend}: {whole.status}")
    slope = -np.array(copies.dual_value)
    point = np.array(x.value)
    return Whole(message, point, multipliers_of(slope, point) if multipliers_of else slope)


def image_form(risk: Any, x: Any) -> ImageForm:
    """Return the image of a risk as a cvxpy expression; x itself if its cuts have no multipliers."""
    kinds = Capability.DUAL_CUT, Capability.IMAGE_FORM
    if all(offers(risk, kind) for kind in kinds):
        return risk.cvxpy_image_form(x)
    return ImageForm(x, risk.cvxpy_form, None)


def _split(answer: Solved, backend: str, of_risk: Any, of_rest: Any, regularizer: Any) -> Whole:
    """Split the dual point into the rows connected with the image z, and the other rows.

    Without the rows of z = M x, each part is a separate cone programme, which its dual point bounds as in
    `solve_conic`. The multipliers of these rows are chosen such that the residual at z is zero.
    """
    A, y = sparse.csc_array(answer.A), answer.y
    x, z = answer.values(of_rest), answer.values(of_risk)
    z_columns = answer.columns[of_risk.id] + np.arange(z.size)
    x_columns = answer.columns[of_rest.id] + np.arange(x.size)
    risks, equations = _risk_side(answer, A, z_columns, x_columns)
    message = "" if answer.status == cp.OPTIMAL else f"{backend}: {answer.status}"
    if risks[x_columns].any():
        return Whole(message, x)
    own = np.where(equations, 0.0, y)
    residual = answer.c + answer.Pv + A.T @ own
    copies = sparse.csr_array(A)[equations]
    row_of = copies[:, z_columns].tocoo()
    multipliers = np.zeros(copies.shape[0])
    multipliers[row_of.row] = -residual[z_columns][row_of.col] / row_of.data
    through = copies.T @ multipliers
    slope, v = residual[z_columns], through[x_columns]
    residual = residual + through
    curvature, sides = 0.5 * answer.v * answer.Pv, answer.b * own
    sides[equations] = answer.b[equations] * multipliers
    in_risk = np.zeros(own.size, dtype=bool)
    in_risk[answer.cone_of[A[:, risks].indices]] = True
    in_risk = in_risk[answer.cone_of] & ~equations
    values, reaches = [], answer.reaches()
    for columns, rows in ((risks, in_risk), (~risks, ~in_risk)):
        charge = float(reaches[columns] @ np.abs(residual[columns]))
        values.append(-float(curvature[columns].sum()) - float(sides[rows].sum()) - charge)
    stated = float(curvature[~risks].sum() + answer.c[~risks] @ answer.v[~risks])
    value = regularizer.value(x)
    if not abs(stated - value) <= _SAME * max(abs(value), abs(answer.value)):
        return Whole(message, x, slope)
    largest = float(np.abs(residual[x_columns]).max(initial=0.0))
    return Whole("", x, slope, values[0] + answer.constant, Least(v, values[1], answer.reach, largest))


def _risk_side(
    answer: Solved, A: sparse.csc_array, z_columns: Array, x_columns: Array
) -> tuple[Array, Array]:
    """Return the columns that rows, cones or the quadratic form connect with z, and the rows of z = M x."""
    n_rows, n_columns = answer.b.size, answer.c.size
    touches = [np.zeros(n_rows, dtype=bool) for _ in range(2)]
    for touched, columns in zip(touches, (z_columns, x_columns), strict=True):
        touched[A[:, columns].indices] = True
    equations = touches[0] & touches[1] & (np.arange(n_rows) < answer.n_equations)
    rows = A.tocoo()
    kept = ~equations[rows.row]
    links = [(answer.cone_of[rows.row[kept]] + n_columns, rows.col[kept])]
    if answer.P is not None:
        form = sparse.coo_array(answer.P)
        links.append((form.row, form.col))
    ends = [np.concatenate(side) for side in zip(*links, strict=True)]
    size = n_rows + n_columns
    graph = sparse.coo_array((np.ones(ends[0].size), (ends[0], ends[1])), shape=(size, size))
    labels = connected_components(graph, directed=False)[1]
    return np.isin(labels[:n_columns], labels[z_columns]), equations


class Conjugate:
    """slope -> the offset of the highest cut of a risk over X0 with this slope, min f(u) - <slope, u>.

    The offset is certified by the dual point of a conic solve; it is -inf if this fails. The problem is
    solved in u / unit, where solutions and slopes have a size of about 1, if their sizes are given. The slope
    may be outside of the domain of the conjugate by a solver's tolerance. Then the minimum is computed over a
    box ten times larger than solutions, which is the range of the other bounds of `solve_conic`, too.
    """

    def __init__(self, risk: Any, simple_set: Any, dim: int):
        self._risk, self._set = risk, simple_set
        self._u, self._slope = cp.Variable(dim), cp.Parameter(dim)
        self._stated: tuple[float, float, tuple[Any, ...]] = math.nan, math.nan, ()
        self._side = cp.Parameter(nonneg=True)
        self.solver_gap = 0.0
        """The gap of the solver of the last offset, a bound of its error."""

    def __call__(
        self, slope: Array, extent: float = 0.0, steepest: float = 0.0, highest: float = 0.0
    ) -> float:
        """Return the offset, given the sizes of solutions, slopes and offsets, or 0 if unknown."""
        steepest = max(steepest, float(np.abs(slope).max(initial=0.0)))
        size = max(extent, highest / steepest if steepest > 0.0 else 0.0)
        units = dict.fromkeys((unit_of(size), 1.0))  # also 1, because `highest` may be a rounding error
        for k in range(2):
            for unit in units:
                self._side.value = REACH * max(1.0, extent / unit)
                if (offset := self._solve(slope, unit, steepest, k)) > -math.inf:
                    return offset
        return -math.inf

    def _solve(self, slope: Array, unit: float, steepest: float, k: int) -> float:
        height = unit_of(steepest * unit)
        problem = self._problems(unit, height)[k]
        self._slope.value = slope * (unit / height)
        best = -math.inf
        for backend in BACKENDS:
            outcome = solve_conic(problem, self._u, backend)
            if outcome.x is None:
                continue
            self._u.value = outcome.x  # not the backend's value, because its auxiliaries may be inaccurate
            value = float(problem.objective.value)
            if outcome.bound > best:
                best, self.solver_gap = outcome.bound, height * max(0.0, value - outcome.bound)
            if value - outcome.bound <= _ENOUGH * abs(value):
                break
        return height * best

    def _problems(self, unit: float, height: float) -> tuple[Any, ...]:
        """Return two solves: over X0, and over X0 in a box."""
        if self._stated[:2] != (unit, height):
            u = unit * self._u
            objective = cp.Minimize(self._risk.cvxpy_form(u) / height - self._slope @ self._u)
            inside, box = self._set.cvxpy_form(u), [self._u <= self._side, -self._u <= self._side]
            problems = cp.Problem(objective, inside), cp.Problem(objective, [*inside, *box])
            self._stated = unit, height, problems
        return self._stated[2]

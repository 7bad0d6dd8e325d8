"""The master for diagonal quadratics: the dual of the reduced problem, a QP over simplices."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from cutplane.masters.active_set import EQUATION
from cutplane.masters.base import (
    HALF_SPACE,
    Kind,
    Level,
    MasterSolution,
    MasterStatus,
    Prox,
    ReducedProblem,
    Rows,
    Stabilization,
)
from cutplane.masters.dual_qp import DualQP
from cutplane.masters.prox_problem import Answer, BoundedProblem, ProxProblem, violations
from cutplane.masters.rows import RowCopies, products, sides_of
from cutplane.masters.units import piece_in_unit, unit_of
from cutplane.pieces.capabilities import Capability, offers
from cutplane.pieces.forms import LinearForm
from cutplane.pieces.validation import Array
from cutplane.regularizers.separable import NoRegularizer
from cutplane.runtime.deadline import check_time

_MANY = 2000
"""Largest number of rows of a set, because their Gram matrix takes 32 MB."""

_ROUNDS = 100
"""Most steps of a level search, because so many bisections reduce a ratio of 1e30 to the last digit."""
_PATIENCE = 10
"""Number of Newton steps from below after which a lower end of the bracket is required, because steps without
it may not end."""
_ROUNDING = 1e-14
"""Relative violation of a level that counts as zero, because rounding errors have this size."""
_LEAP, _DROP = 100.0, 0.01
"""Factors of tau while the bracket has no upper end, and no lower end, because such a bracket has no
midpoint."""
_FAR = 1e9
"""Distance, relative to the step, within which an infeasible level must have no point, because rounding
errors of the slope hide points farther away."""
_STILL = 1e-12
"""Speed relative to the squared step that counts as zero, because rounding errors have this size."""
_NEGLIGIBLE = 1e-14
"""Bound of the step length, relative to the distance of the answer, at which a search ends, because it is a
rounding error of the distance."""
_BRACKET = 4e-16
"""Relative width of a bracket at which a search ends, because its ends are then neighbouring floats."""

_STEPS = 60
"""Most changes of the centre of unweighted coordinates, because a few suffice with a good stiffness."""
_STIFFNESS = 1e3
"""Stiffness: spread of the rows in the unweighted coordinates relative to the others, large because a small
weight around the centre needs few steps."""
_FALLING, _BOOST = 0.3, 30.0
"""Ratio of successive slopes from which the stiffness increases, and its factor, because a stiffer problem
needs fewer steps."""
_ZERO = 1e-15
"""Mean slope relative to its terms that counts as zero, because rounding errors have this size."""
_ACCEPTED = 1e-12
"""Mean slope relative to the largest slopes that is accepted if it does not decrease, because no further step
reduces it."""
_HULL = 1e-9
"""Mean slope relative to its terms that counts as possibly zero, because the solve minimises its square only
up to rounding."""
_SAME = 1e-12
"""Spread relative to the mean square that counts as zero, because it is a difference of rounded numbers."""


class SimplexQP:
    """Solves the reduced problem through its dual when g + prox is a diagonal quadratic.

    With M = diag(weights of g + prox weight) and x_bar the minimiser of g + prox, x = x_bar - inv(M) A'a,
    where

        a maximises  sum_i a_i (<A_i, x_bar> + b_i) - 1/2 a'A inv(M) A'a,  a >= 0, each block's sum = 1.

    An active-set method keeps the Gram matrix A inv(M) A', the multipliers and a factor between calls.
    Therefore a solve costs one product of the rows with each new row, and some microseconds. For a level
    constraint it searches for the weight of a prox term. Coordinates without a weight, for example an
    unregularised bias, are solved by a proximal point method. Bounds on x and an l1 norm need a Newton method
    whose steps are such solves. Rows of a polyhedron are treated as half-spaces. Answers are exact up to
    rounding or the requested accuracy; otherwise the status is FAILED.
    """

    name = "simplex_qp"
    exact = True

    def __init__(self, reduced: ReducedProblem):
        form, regularizer = reduced.polyhedron, reduced.separable
        assert regularizer is not None and form is not None, "refused"
        self._own = RowsOfSet(form) if form.row_lower.size else None
        if self._own is None and not regularizer.costs.any() and np.isinf([form.lower, form.upper]).all():
            self._problem = ProxProblem(reduced.n_blocks, regularizer)
        else:
            self._problem = BoundedProblem(reduced.n_blocks, regularizer, form.lower, form.upper)
        free = self._problem.unweighted.size and not isinstance(self._problem, BoundedProblem)
        self._free = UnweightedCoordinates(self._problem) if free else None
        self._levels = LevelSearch(self._problem)

    @staticmethod
    def refusal(reduced: ReducedProblem, stabilization: Kind) -> str | None:
        """See `MasterKind.refusal`."""
        if reduced.separable is None:
            return "the regularizer is neither a diagonal quadratic nor one and an l1 norm"
        weights, costs = reduced.separable.quadratic.weights, reduced.separable.costs
        form = reduced.polyhedron
        if form is None or form.n_columns > reduced.dim or form.row_lower.size > _MANY:
            return f"the feasible set is not a polyhedron with at most {_MANY} rows"
        if stabilization is None and not weights.any():
            return "there is neither a quadratic regularizer nor a prox term"
        bounded = form.row_lower.size or np.isfinite(form.lower).any() or np.isfinite(form.upper).any()
        if stabilization is None and (bounded or costs.any()) and not weights.all():
            return "a coordinate without weight in a feasible set, or beside an l1 norm, needs a prox term"
        if stabilization is Level and np.ptp(weights) > 0.0:
            return "a level constraint needs a regularizer whose weights are all equal"
        return None

    def solve(self, rows: Rows, stabilization: Stabilization = None, accuracy: float = 0.0) -> MasterSolution:
        """Solve; `accuracy` is the allowed absolute error of the optimal value.

        Half-spaces are satisfied up to rounding for any accuracy, and a level up to the accuracy.
        """
        problem, dual = self._problem, self._problem.dual
        factor, own = 1.0, 0
        if self._own is not None:
            rows, own = self._own.of(rows), self._own.count
        with np.errstate(all="ignore"):
            if dual.sync(rows):
                problem.forget()
                if self._free is not None:
                    self._free.bounded = False
            if not dual.complete:
                return MasterSolution(None, None, MasterStatus.UNBOUNDED, "a block of the risk has no cut")
            if not dual.finite:
                return MasterSolution(None, None, MasterStatus.FAILED, "the square of a slope is not finite")
            if isinstance(stabilization, Level):
                answer, factor = self._levels.solve(rows, stabilization.centre, stabilization.level, accuracy)
            elif stabilization is not None and stabilization.weight > 0.0:
                answer = problem.solve(rows, stabilization.centre, stabilization.weight, accuracy)
            elif self._free is not None:
                answer = self._free.solve(rows, accuracy)
            else:
                answer = problem.solve(rows, None, 0.0, accuracy)
        if answer.x is None:
            return MasterSolution(None, None, answer.status, answer.message)
        multipliers = dual.multipliers if factor == 1.0 else factor * dual.multipliers
        held = None if self._own is None else self._own.multipliers(multipliers[:own])
        return MasterSolution(answer.x, multipliers[own:], set_multipliers=held)


class LevelSearch:
    """The projection of a centre on {model(x) + g(x) <= level}, by a search for the level's multiplier tau.

    x(tau) minimises the reduced problem with a prox term of weight 1 / tau. The model + g at x(tau) decreases
    in tau, piecewise linearly if g = 0, so that finitely many Newton steps inside a bracket suffice.
    """

    def __init__(self, problem: ProxProblem):
        self._problem = problem
        self._tau = 0.0

    def solve(self, rows: Rows, centre: Array, level: float, accuracy: float) -> tuple[Answer, float]:
        """Return the answer, and the factor by which to multiply the dual's multipliers.

        The answer is exact for some level that differs from the given level by at most the accuracy.
        """
        problem, dual = self._problem, self._problem.dual
        values = problem.values(rows, centre)
        largest = float(np.abs(values).max())
        if not (math.isfinite(level) and math.isfinite(largest)):
            return Answer(MasterStatus.FAILED, message="the level or the centre is not finite"), 0.0
        excess = dual.model(values) + problem.regularizer(centre) - level
        tolerance = _ROUNDING * (abs(level) + largest)
        if excess <= 0.0 and violations(rows.blocks, values).max() <= tolerance and problem.contains(centre):
            return Answer(MasterStatus.SOLVED, centre.copy()), 0.0
        low, high, leaps = 0.0, math.inf, 0
        steepest = math.sqrt(float(np.einsum("ij,ij->i", rows.slopes, rows.slopes).max()))
        tau = self._tau or (abs(excess) / steepest**2 if excess and steepest else 1.0)
        for rounds in range(_ROUNDS):
            check_time()
            answer = problem.solve(rows, centre, 1.0 / tau, 0.0)
            if answer.x is None:
                return answer, 0.0
            step = answer.x - centre
            distance = math.sqrt(float(step @ step))
            moved = products(rows.slopes, step)
            excess = dual.model(values + moved) + problem.regularizer(answer.x) - level
            if abs(excess) <= max(tolerance, accuracy) or high <= low * (1.0 + _BRACKET):
                break
            free = problem.free_part(step)
            uphill = (moved if free is step else products(rows.slopes, free))[dual.support]
            length = float(free @ free)
            speed = length + float(uphill @ dual.newton_step(-uphill))
            newton = math.nan
            if speed > _STILL * length and (low > 0.0 or excess > 0.0 or rounds < _PATIENCE):
                newton = tau + excess * tau * tau * (problem.weight * tau + 1.0) / speed
            if excess < 0.0:
                high = tau
                if tau * steepest <= _NEGLIGIBLE * distance:
                    break
            else:
                low = tau
                leaps = 0 if newton < _LEAP * tau or high < math.inf else leaps + 1
                if leaps > 2 and excess * tau > _FAR * distance * (distance + float(np.linalg.norm(centre))):
                    return Answer(MasterStatus.INFEASIBLE, message="the model is above the level"), 0.0
            if low < newton < high:
                tau = newton
            elif high == math.inf:
                tau *= _LEAP
            else:
                tau = math.sqrt(low * high) if low > 0.0 else _DROP * high
        else:
            return Answer(MasterStatus.FAILED, message=f"the level is missed by {excess:.2g}"), 0.0
        self._tau = tau
        return answer, tau


class UnweightedCoordinates:
    """The proximal point method for coordinates without a weight, for example a bias.

    The coordinates get a small weight around a centre. The solution is the next centre, until the aggregate
    slope in these coordinates is zero up to rounding. `bounded` tells whether the reduced problem is proven
    to be bounded in them.
    """

    def __init__(self, problem: ProxProblem):
        self._problem = problem
        self._centre = np.zeros(problem.unweighted.size)
        self.bounded = False
        self._tuned, self._stiffness = 0, 1.0

    def solve(self, rows: Rows, accuracy: float) -> Answer:
        """Solve a problem without a prox term."""
        problem, dual = self._problem, self._problem.dual
        columns = rows.slopes[:, problem.unweighted]
        if not self.bounded:
            self.bounded = self._holds_zero(rows, columns)
            if not self.bounded:
                return Answer(MasterStatus.UNBOUNDED, message="a coordinate without weight is unbounded")
        if not self._tuned <= dual.count < 2 * self._tuned:
            self._tuned, self._stiffness = dual.count, self._stiffness_for(rows)
        kappa = self._stiffness
        t = problem.step_size(rows, 0.0, kappa)
        middle = problem.quadratic.centre.copy()
        middle[problem.unweighted] = 0.0
        base = problem.values(rows, middle)
        sizes = np.abs(columns)
        largest = sizes.max(axis=0)
        residual = last = np.inf
        for _ in range(_STEPS):
            check_time()
            middle[problem.unweighted] = self._centre
            answer = problem.minimise_from(rows, middle, base + columns @ self._centre, t, accuracy)
            if answer.x is None:
                return answer
            a = dual.multipliers
            slope = np.abs(a @ columns)
            last, residual = residual, _largest(slope, a @ sizes)
            if residual <= _ZERO:
                return answer
            if residual > _FALLING * last:
                if _largest(slope, largest) <= _ACCEPTED:
                    return answer
                kappa *= _BOOST
                problem.step_size(rows, 0.0, kappa)
            self._centre = answer.x[problem.unweighted]
        message = f"a coordinate without weight keeps a slope of {residual:.2g}"
        return Answer(MasterStatus.FAILED, message=message)

    def _holds_zero(self, rows: Rows, columns: Array) -> bool:
        """Tell whether some multipliers give an aggregate slope of 0 in the coordinates without weight."""
        zero = np.zeros(columns.shape[0])
        hull = DualQP(self._problem.dual.n_blocks)
        these = SimpleNamespace(slopes=columns, offsets=zero, blocks=rows.blocks, ids=rows.ids)
        hull.sync(cast(Rows, these))
        hull.maximise(zero, zero, 1.0, 0.0)
        a = hull.multipliers
        return bool(np.all(np.abs(a @ columns) <= _HULL * (a @ np.abs(columns))))

    def _stiffness_for(self, rows: Rows) -> float:
        """Return the stiffness kappa, from the mean squared distance of the rows from their mean."""
        self._problem.step_size(rows, 0.0, 1.0)
        metric = self._problem.dual.in_metric(np.ones(rows.slopes.shape[1]))
        squares = metric * np.einsum("ij,ij->j", rows.slopes, rows.slopes) / rows.offsets.size
        means = metric * rows.slopes.mean(axis=0) ** 2
        spreads = []
        for columns in (self._problem.quadratic.weights > 0.0, self._problem.unweighted):
            size = float(squares[columns].sum())
            spread = size - float(means[columns].sum())
            spreads.append(spread if spread > _SAME * size else size)
        return _STIFFNESS * spreads[0] / spreads[1] if min(spreads) > 0.0 else 1.0


def _largest(numerator: Array, denominator: Array) -> float:
    """Return the largest ratio; 0/0 counts as 0."""
    return float(np.max(numerator / denominator, initial=0.0, where=denominator > 0.0))


class RowsOfSet(RowCopies):
    """The sides of the rows of a linear form, as equations and half-spaces before the rows of a pool."""

    def __init__(self, form: LinearForm):
        self._sides, self._n_rows = sides_of(form, bounds=False), form.row_lower.size
        blocks = np.full(self._sides.b.size, HALF_SPACE)
        blocks[: self._sides.n_equations] = EQUATION
        super().__init__(self._sides.A.toarray(), -self._sides.b, blocks)

    def multipliers(self, own: Array) -> Array:
        """Return the multipliers of the form's rows, given the multipliers of their sides."""
        return self._sides.multipliers(own, self._n_rows)


def project_on_polyhedron(simple_set: Any, x: Array) -> Array | None:
    """Return the projection of x, up to rounding; None if it fails, or the set is no polyhedron of few rows.

    It solves the reduced problem whose only cut is zero, with the prox term around x.
    """
    if not offers(simple_set, Capability.LINEAR_FORM):
        return None
    unit = unit_of(max(float(np.abs(x).max()), min(simple_set.violation(x), 1e300)))
    reduced = ReducedProblem(x.size, 1, NoRegularizer(), piece_in_unit(simple_set, unit))
    if SimplexQP.refusal(reduced, Prox) is not None:
        return None
    zero = SimpleNamespace(
        slopes=np.zeros((1, x.size)), offsets=np.zeros(1), blocks=np.zeros(1, int), ids=np.zeros(1, int)
    )
    solution = SimplexQP(reduced).solve(cast(Rows, zero), Prox(x / unit, 1.0))
    return None if solution.x is None else unit * solution.x

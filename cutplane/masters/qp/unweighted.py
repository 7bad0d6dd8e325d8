"""Coordinates that the regularizer leaves free, such as a bias, in a reduced problem without a prox term."""

from __future__ import annotations

import numpy as np

from cutplane.masters.base import MasterStatus, Rows
from cutplane.masters.qp.dual_qp import DualQP
from cutplane.masters.qp.prox_problem import Answer, ProxProblem
from cutplane.pieces.validation import Array
from cutplane.runtime.deadline import check_time

_ROUNDS = 60  # proximal steps; a few do, unless the stiffness is wrong by orders of magnitude
_STIFFNESS = 1e3  # the spread of the rows in the coordinates without weight, relative to that in the others
_FALLING = 0.3  # a slope that falls to less of the last one falls fast enough
_BOOST = 30.0  # the factor of the stiffness where the slope does not fall
_ROUNDING = 1e-15  # a slope this small, relative to the slopes it is a mean of, is zero
_ACCEPTED = 1e-12  # the same where it falls no further
_HULL = 1e-9  # the same in telling whether the mean can be zero at all
_SAME = 1e-12  # a spread this small, relative to the mean square, is rounding


class UnweightedCoordinates:
    """Proximal point method on the coordinates of weight zero.

    They get a small weight around a centre, which moves to the solution until it stays: the aggregate slope
    on them, which is the multiplier of the move, is then zero up to rounding.
    """

    def __init__(self, problem: ProxProblem, n_blocks: int):
        self._problem = problem
        self._n_blocks = n_blocks
        self._centre = np.zeros(problem.unweighted.size)
        self._bounded = False
        self._tuned = 0
        self._stiffness = 1.0

    def forget(self) -> None:
        """Forget that the reduced problem is bounded, because rows were deleted."""
        self._bounded = False

    def solve(self, rows: Rows, accuracy: float) -> Answer:
        """Solve without a prox term."""
        problem = self._problem
        columns = rows.slopes[:, problem.unweighted]
        if not self._bounded:
            self._bounded = self._holds_zero(rows, columns)
            if not self._bounded:
                return Answer(MasterStatus.UNBOUNDED, message="a coordinate without weight is unbounded")
        t = problem.step_size(rows, 0.0)
        problem.dual.set_kappa(self._stiffness_for(problem.dual))
        middle = problem.quadratic.centre.copy()
        middle[problem.unweighted] = 0.0
        base = problem.values(rows, middle)
        sizes = np.abs(columns)
        largest = sizes.max(axis=0)
        residual = last = np.inf
        for _ in range(_ROUNDS):
            check_time()
            middle[problem.unweighted] = self._centre
            answer = problem.minimise_from(rows, middle, base + columns @ self._centre, t, accuracy)
            if answer.x is None:
                break
            a = problem.dual.multipliers
            slope = np.abs(a @ columns)
            last, residual = residual, _largest(slope, a @ sizes)
            if residual <= _ROUNDING:
                break
            if residual > _FALLING * last:
                if _largest(slope, largest) <= _ACCEPTED:
                    break
                problem.dual.set_kappa(_BOOST * problem.dual.kappa)
            self._centre = answer.x[problem.unweighted]
        else:
            message = f"a coordinate without weight keeps a slope of {residual:.2g}"
            answer = Answer(MasterStatus.FAILED, message=message)
        return answer

    def _holds_zero(self, rows: Rows, columns: Array) -> bool:
        """Tell whether some multipliers give a zero aggregate slope on the coordinates without weight."""
        zero = np.zeros(columns.shape[0])
        hull = DualQP(self._n_blocks, None, None)
        hull.sync(_Columns(columns, rows))
        hull.maximise(zero, zero, 0.0)
        a = hull.multipliers
        return bool(np.all(np.abs(a @ columns) <= _HULL * (a @ np.abs(columns))))

    def _stiffness_for(self, dual: DualQP) -> float:
        """Return kappa, chosen by the spread of the rows; anew when their number has doubled."""
        if not self._tuned <= dual.count < 2 * self._tuned:
            self._tuned = dual.count
            assert dual.unweighted is not None
            weighted, unweighted = (
                _spread(gram.matrix[: dual.count, : dual.count]) for gram in (dual.gram, dual.unweighted)
            )
            known = weighted > 0.0 and unweighted > 0.0
            self._stiffness = _STIFFNESS * weighted / unweighted if known else 1.0
        return self._stiffness


def _largest(numerator: Array, denominator: Array) -> float:
    """Return the largest ratio, 0/0 being 0."""
    return float(np.max(numerator / denominator, initial=0.0, where=denominator > 0.0))


def _spread(gram: Array) -> float:
    """Return the mean squared distance of the rows from their mean; from zero, if they are all the same."""
    squares = float(gram.diagonal().mean())
    around_mean = squares - float(gram.mean())
    return around_mean if around_mean > _SAME * squares else squares


class _Columns:
    """Some columns of rows."""

    def __init__(self, slopes: Array, rows: Rows):
        self.slopes = slopes
        self.offsets, self.blocks, self.ids = rows.offsets, rows.blocks, rows.ids

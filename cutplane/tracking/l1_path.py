"""The path of solutions over the weight of an l1 norm."""

from __future__ import annotations

import math
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.exceptions import MissingCapabilityError
from cutplane.linear.descent import LineDescent
from cutplane.linear.predictor import predictor_of
from cutplane.linear.terms import terms_of
from cutplane.linear.working_set import Position
from cutplane.methods.base import Knots
from cutplane.pieces.validation import Array
from cutplane.runtime.compiling import routine
from cutplane.tracking.cholesky import CholeskyFactor
from cutplane.tracking.walker import CROSSES, JOINS, LEAVES, NOW, ZERO_RATE, Event, PathWalker

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.run import Run

_LOST = 1e-9
"""Error of the slopes of active coordinates, as a share of their costs, above which the solution is
corrected, because bounds along the path should be this accurate."""
_CORRECTIONS = 20
"""Largest number of Newton steps at the start, because few examples change their piece from a point next to a
minimiser."""
_CHECK = 8
"""Number of events between two checks of the slopes, because a check costs about an eighth of an event."""
_KINDS = ("", JOINS, LEAVES, CROSSES)


class L1Path(PathWalker):
    """The path over the weight of an l1 norm; `lam` is a multiple of the last weight.

    Attributes
    ----------
    x : ndarray of shape (dim,)
    z : ndarray of shape (m,)
        The predictions.
    slopes : ndarray of shape (dim,)
        The gradient of the risk and of the squares; -lam costs_j sign(x_j) for active coordinates.
    signs : ndarray of shape (dim,)
        The signs of active coordinates with a cost; 0 for the others.
    active : list of int
        The active coordinates in the order of the factor; `index` is the same list as an array.
    bends, bases, low, high : ndarray of shape (m,)
        The weighted curvature of the loss at the prediction, its slope extrapolated to 0, and the ends of its
        piece.
    """

    end = 1.0
    patience = 1000

    def __init__(self, problem: Declaration):
        risk: Any = predictor_of(problem)
        terms: Any = terms_of(problem)
        m, dim = risk.X.shape[0], problem.dim
        start = LineDescent(problem, np.zeros(dim), np.zeros(m))
        paid = terms.costs > 0.0
        start.slopes_without(paid)
        self.problem, self.terms, self.weights = problem, terms, risk.weights
        self.columns = start.columns(np.arange(dim))
        self.pieces = risk.loss.pieces(risk.y)
        ends = np.full((1, m), np.inf)
        self._knots = np.vstack([-ends, np.where(risk.weights > 0.0, self.pieces.knots, np.inf), ends])
        self.x, self.signs = start.position.x, np.zeros(dim)
        self.factor, self.active = CholeskyFactor(), []
        self._reorder()
        self._locate()
        self._settle(np.flatnonzero(~paid).tolist())
        self.knots, self.n_events = Knots(), 0
        self.lam = max(1.0, float((np.abs(self.slopes[paid]) / terms.costs[paid]).max()))
        if self.lam > 1.0 and len(self.active) < dim - paid.sum():
            raise MissingCapabilityError(
                "PathTracking needs coordinates without a cost that the examples determine, but where the "
                "others are zero the losses do not bend along some of them, or they depend on one another."
            )
        self.keep("starts")

    @cached_property
    def ending(self) -> LineDescent:
        """Coordinate descent from the end of the path, for the proof of the bounds."""
        return LineDescent(self.problem, self.x.copy(), self.predictions(self.x))

    def prove(self, run: Run) -> str | None:
        return self.ending.advance(run)

    def bounds(self, weight: float, x: Array) -> tuple[float, float]:
        descent = copy(self.ending)
        descent.position = Position(x, self.predictions(x))
        descent.terms = replace(self.terms, costs=weight * self.terms.costs)
        upper = descent.objective
        return upper - descent.dual_point()[-1], upper

    def predictions(self, v: Array) -> Array:
        """Return the predictions of v, shape (m,)."""
        return self.columns.times(v)

    def direction(self) -> tuple[Array, Array, Array]:
        v = np.zeros_like(self.x)
        v[self.index] = self.factor.solve(self.pull)
        moves = self.predictions(v)
        return v, moves, self.columns.products(self.bends * moves) + self.terms.weights * v

    def next_event(self, v: Array, moves: Array, changes: Array, pace: float = 1.0) -> Event:
        tau, kind, index, side = first_event(
            self.lam, pace, self.x, self.slopes, v, changes, self.terms.costs, self.signs, self.z, moves,
            self.low, self.high,
        )  # fmt: skip
        return tau, _KINDS[kind], index, side

    def move(self, tau: float, v: Array, moves: Array, changes: Array) -> None:
        self.x += tau * v
        self.z += tau * moves
        self.slopes += tau * changes
        self.n_events += 1

    def change(self, kind: str, index: int, side: float) -> None:
        if kind == LEAVES:
            place = self.active.index(index)
            self.factor.remove(place)
            del self.active[place]
            self.x[index] = self.signs[index] = 0.0
            self._reorder()
        elif kind == JOINS:
            self.signs[index] = side
            while not self._append(index):
                column, _ = self._column(index)
                self._move_freely(np.append(-self.factor.solve(column), 1.0) * side, [*self.active, index])
        else:
            before = self.bends[index]
            self.piece[index] += int(side)
            self._set_pieces(index)
            while not self.factor.add(row := self.columns.row(index, self.index), self.bends[index] - before):
                null = self.factor.solve(row)
                self._move_freely(side * null / max(abs(float(row @ null)), 1e-300), self.active)

    def keep(self, event: str, coordinates: list[int] | None = None) -> None:
        index = self.index if coordinates is None else np.array(coordinates)
        self.knots.add(self.lam, index, self.x[index], event)

    def mend(self) -> None:
        if self.n_events % _CHECK == 0 and self._has_drifted:
            self._correct()

    def refresh(self) -> None:
        if self.lam <= self.end:
            self._correct()

    def _correct(self) -> None:
        """Recompute the factor and the slopes, and correct the solution by a Newton step."""
        active = self.index
        if active.size and not self.factor.factorise(self._gram()):
            raise ArithmeticError("the active columns depend on one another up to rounding")
        for correct in (True, True, False):
            self.z = self.predictions(self.x)
            self.slopes = self._gradient()
            if correct:
                self.x[active] -= self.factor.solve(self.slopes[active] + self.lam * self.pull)
        if self._has_drifted:
            raise ArithmeticError("rounding errors are too large")

    @property
    def _has_drifted(self) -> bool:
        """Whether rounding errors in the slopes of active coordinates are too large."""
        off = np.abs(self.slopes[self.index] + self.lam * self.pull).max(initial=0.0)
        return bool(off > _LOST * self.lam * self.terms.costs.max())

    def _locate(self) -> None:
        """Compute the predictions, their pieces, and the slopes of a point."""
        self.z = self.predictions(self.x)
        self.piece = (self._knots[1:-1] <= self.z).sum(axis=0)
        self.bends, self.bases, self.low, self.high = np.empty((4, self.z.size))
        self._set_pieces(np.arange(self.z.size))
        self.slopes = self._gradient()

    def _set_pieces(self, i: Any) -> None:
        """Set curvatures, slopes and ends of the pieces of some examples."""
        p = self.piece[i]
        self.bends[i] = self.weights[i] * self.pieces.curvatures[p, i]
        self.bases[i] = self.weights[i] * self.pieces.slopes[p, i]
        self.low[i], self.high[i] = self._knots[p, i], self._knots[p + 1, i]

    def _settle(self, free: list[int]) -> None:
        """Make coordinates without a cost active, and minimise over them to full accuracy."""
        if not free or not all(map(self._append, free)):
            return
        for _ in range(_CORRECTIONS):
            before = self.piece
            self.x[free] -= self.factor.solve(self.slopes[free])
            self._locate()
            if (before == self.piece).all() or not self.factor.factorise(self._gram()):
                break

    def _gradient(self) -> Array:
        terms = self.terms
        slopes = self.columns.products(self.bases + self.bends * self.z)
        return slopes + terms.weights * (self.x - terms.centre)

    def _reorder(self) -> None:
        """Set the active coordinates, and the rates at which their slopes change as lam decreases."""
        self.index = np.array(self.active, dtype=np.int64)
        self.pull = self.terms.costs[self.index] * self.signs[self.index]

    def _move_freely(self, null: Array, coordinates: list[int]) -> None:
        """Follow a direction that changes no slope, until a coordinate or an example changes its piece."""
        v = np.zeros_like(self.x)
        v[coordinates] = null
        moves = self.predictions(v)
        moves[self.bends > 0.0] = 0.0
        direction = v, moves, np.zeros_like(v)
        tau, kind, index, side = self.next_event(*direction, pace=0.0)
        self.n_idle += 1
        if not kind or self.n_idle > self.patience:
            raise ArithmeticError("columns of active coordinates depend on one another")
        self.move(tau, *direction)
        if kind == LEAVES:
            self.x[index] = 0.0
        if tau > 0.0:
            self.keep(f"{kind} {index}", coordinates)
        self.change(kind, index, side)

    def _append(self, j: int) -> bool:
        done = self.factor.append(*self._column(j))
        if done:
            self.active.append(j)
            self._reorder()
        return done

    def _column(self, j: int) -> tuple[Array, float]:
        """Return the products of a column with the active ones, and with itself."""
        unit = np.zeros_like(self.x)
        unit[j] = 1.0
        products = self.columns.products(self.bends * self.predictions(unit), np.array([*self.active, j]))
        return products[:-1], float(products[-1] + self.terms.weights[j])

    def _gram(self) -> Array:
        return self.columns.gram(self.index, self.bends) + np.diag(self.terms.weights[self.index])


@routine
def first_event(t, pace, x, slopes, v, changes, costs, signs, z, moves, low, high):
    """Return the distance, the number in `_KINDS`, the index and the side of the next event.

    The weight t decreases at the rate `pace`, 1 or 0. The rates of change are v for x, `changes` for the
    slopes of the smooth part, and `moves` for the predictions. Of several events at distance zero, the first
    is chosen, because with a positive definite matrix a sequence of such choices ends (the least-index rule
    of Murty for linear complementarity problems).
    """
    best, kind, index, side = math.inf, 0, -1, 0.0
    now = NOW * t
    largest = 0.0
    for j in range(x.shape[0]):
        largest = max(largest, abs(v[j]))
    for j in range(x.shape[0]):
        cost = costs[j]
        if cost == 0.0 or (best <= now and pace > 0.0):
            continue
        if signs[j] != 0.0:
            if v[j] * signs[j] < -ZERO_RATE * largest:
                tau = max(0.0, -x[j] / v[j])
                if tau < best:
                    best, kind, index = tau, 2, j
        elif pace > 0.0:
            for k in range(2):
                s = 1.0 - 2.0 * k
                rate = cost + s * changes[j]
                if rate > ZERO_RATE * (cost + abs(changes[j])):
                    room = t * cost - s * slopes[j]
                    tau = max(0.0, room) / rate if room > NOW * t * cost else 0.0
                    if tau < best and not best <= now:
                        best, kind, index, side = tau, 1, j, -s
    if best <= now and pace > 0.0:
        return best, kind, index, side
    largest = 0.0
    for i in range(z.shape[0]):
        largest = max(largest, abs(moves[i]))
    for i in range(z.shape[0]):
        if abs(moves[i]) > ZERO_RATE * largest:
            end = high[i] if moves[i] > 0.0 else low[i]
            tau = max(0.0, (end - z[i]) / moves[i])
            if tau < best:
                best, kind, index, side = tau, 3, i, math.copysign(1.0, moves[i])
                if tau <= now and pace > 0.0:
                    return best, kind, index, side
    return best, kind, index, side

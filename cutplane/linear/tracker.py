"""The state of `PathTracking`: a solution that is followed from knot to knot."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.exceptions import MissingCapabilityError
from cutplane.linear import sweeps
from cutplane.linear.cholesky import Factor
from cutplane.linear.descent import Descent
from cutplane.linear.predictor import predictor_of
from cutplane.linear.terms import terms_of
from cutplane.linear.tracking_passes import CROSSES, JOINS, LEAVES, NONE, next_event
from cutplane.linear.working_set import Position
from cutplane.methods.base import Knots
from cutplane.pieces.validation import Array

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration

_LOST = 1e-9
"""The slopes of active coordinates that are off by this share of their costs have lost too many digits."""
_CORRECTIONS = 20
"""Newton steps at the beginning, from a point that is a minimiser up to rounding of the objective."""
_CHECK = 8
"""Events between two looks at these slopes."""
_IDLE = 1000
"""Events at one weight, after which rounding errors are taken to go in circles."""
_NAMES = {JOINS: "joins", LEAVES: "leaves", CROSSES: "crosses"}


class Tracker:
    """Where the path is: the weight t, in multiples of that at the end, and the solution there.

    Attributes
    ----------
    t : float
    x : ndarray of shape (dim,)
    z : ndarray of shape (m,)
        The predictions.
    slopes : ndarray of shape (dim,)
        Those of the risk and of the squares; -t costs_j sign(x_j) for active coordinates.
    signs : ndarray of shape (dim,)
        Of active coordinates with a cost; 0 for the others.
    active : list of int
        In the order of the factor; `index` is the same as an array.
    knots : Knots
    """

    def __init__(self, problem: Declaration):
        risk: Any = predictor_of(problem)
        terms: Any = terms_of(problem)
        m, dim = risk.X.shape[0], problem.dim
        start = Descent(problem, np.zeros(dim), np.zeros(m))
        paid = terms.costs > 0.0
        start.slopes_without(paid)
        which = np.arange(dim)
        self.problem, self.terms, self.weights = problem, terms, risk.weights
        self._dearest = float(terms.costs.max())
        self.columns = start._columns(which)
        self.pieces = risk.loss.pieces(risk.y)
        ends = np.full((1, m), np.inf)
        self._knots = np.vstack([-ends, np.where(risk.weights > 0.0, self.pieces.knots, np.inf), ends])
        self._ones = np.ones(m)
        self.x, self.signs = start.position.x, np.zeros(dim)
        self.factor, self.active = Factor(), []
        self._reorder()
        self._look()
        self._settle(np.flatnonzero(~paid).tolist())
        self.knots = Knots()
        self.n_events, self._idle = 0, 0
        self.t = max(1.0, float((np.abs(self.slopes[paid]) / terms.costs[paid]).max()))
        if self.t > 1.0 and len(self.active) < dim - paid.sum():
            raise MissingCapabilityError(
                "PathTracking needs coordinates without a cost that the examples determine, but where the "
                "others are zero the losses do not bend along some of them, or they depend on one another."
            )
        self._keep("starts")

    @cached_property
    def ending(self) -> Descent:
        """Coordinate descent from where the path ended, which proves the bounds."""
        return Descent(self.problem, self.x.copy(), self.predictions(self.x))

    def advance(self, n_events: int) -> bool:
        """Go on by so many events; tell whether the end is reached."""
        for _ in range(n_events):
            if self.t <= 1.0:
                return True
            v = self._direction()
            moves = self.predictions(v)
            changes = self._products(self.bends * moves)
            changes += self.terms.weights * v
            tau, kind, index, side = self._next(1.0, v, changes, moves)
            if tau >= self.t - 1.0:
                tau, kind = self.t - 1.0, NONE
            self._idle = 0 if tau > 0.0 else self._idle + 1
            if self._idle > _IDLE:
                raise ArithmeticError(f"{_IDLE} events at one weight")
            self.x += tau * v
            self.z += tau * moves
            self.slopes += tau * changes
            self.t = self.t - tau if kind != NONE else 1.0
            self.n_events += 1
            if kind == LEAVES:
                self.x[index] = 0.0
            if kind == NONE or (self.n_events % _CHECK == 0 and self._has_drifted):
                self._refresh()
            if tau > 0.0:
                self._keep(f"{_NAMES[kind]} {index}" if kind != NONE else "ends")
            self._change(kind, index, side)
        return self.t <= 1.0

    def bounds(self, weight: float, x: Array) -> tuple[float, float]:
        """Return a certified lower bound, and the objective at x, for a multiple of the weight at the end."""
        descent = copy(self.ending)
        descent.position = Position(x, self.predictions(x))
        descent.terms = replace(self.terms, costs=weight * self.terms.costs)
        upper = descent.objective
        return upper - descent.outlook()[-1], upper

    def predictions(self, v: Array) -> Array:
        """Return what v predicts for each example."""
        z = np.zeros(self._ones.size)
        sweeps.add_columns(self.columns._arrays, self.columns.which, v, self._ones, z)
        return z

    def _products(self, u: Array, coordinates: Array | None = None) -> Array:
        """Return the products of columns with u."""
        which = self.columns.which if coordinates is None else self.columns.which[coordinates]
        out = np.empty(which.size)
        sweeps.slopes_and_bends(self.columns._arrays, which, u, u, out, out[:0])
        return out

    def _look(self) -> None:
        """Compute what follows from the point."""
        self.z = self.predictions(self.x)
        self.piece = piece = (self._knots[1:-1] <= self.z).sum(axis=0)
        rows = np.arange(piece.size)
        self.bends = self.weights * self.pieces.curvatures[piece, rows]
        self.bases = self.weights * self.pieces.slopes[piece, rows]
        self.low, self.high = self._knots[piece, rows], self._knots[piece + 1, rows]
        self.slopes = self._slopes()

    def _settle(self, free: list[int]) -> None:
        """Make coordinates without a cost active, and minimise over them to the last digits."""
        if not free or not all(map(self._append, free)):
            return
        for _ in range(_CORRECTIONS):
            before = self.piece
            self.x[free] -= self.factor.solve(self.slopes[free])
            self._look()
            if (before == self.piece).all() or not self.factor.become(self._gram()):
                break

    def _slopes(self) -> Array:
        terms = self.terms
        return self._products(self.bases + self.bends * self.z) + terms.weights * (self.x - terms.centre)

    def _reorder(self) -> None:
        """Take over which coordinates are active, and what their slopes rise by, per unit that t falls."""
        self.index = np.array(self.active, dtype=np.int64)
        self.pull = self.terms.costs[self.index] * self.signs[self.index]

    def _direction(self) -> Array:
        v = np.zeros_like(self.x)
        v[self.index] = self.factor.solve(self.pull)
        return v

    def _next(self, pace: float, v: Array, changes: Array, moves: Array) -> tuple[float, int, int, float]:
        return next_event(
            self.t, pace, self.x, self.slopes, v, changes, self.terms.costs, self.signs, self.z, moves,
            self.low, self.high,
        )  # fmt: skip

    def _change(self, kind: int, index: int, side: float) -> None:
        """Do what an event says; where the active columns become dependent, first move until they are not."""
        if kind == LEAVES:
            place = self.active.index(index)
            self.factor.remove(place)
            del self.active[place]
            self.signs[index] = 0.0
            self._reorder()
        elif kind == JOINS:
            self.signs[index] = side
            while not self._append(index):
                column, _ = self._column(index)
                self._move_freely(np.append(-self.factor.solve(column), 1.0) * side, [*self.active, index])
        elif kind == CROSSES:
            before = self.bends[index]
            self.piece[index] += int(side)
            self._set_piece(index)
            while not self.factor.add(row := self._row(index), self.bends[index] - before):
                null = self.factor.solve(row)
                self._move_freely(side * null / max(abs(float(row @ null)), 1e-300), self.active)

    def _set_piece(self, i: int) -> None:
        p, weight = self.piece[i], self.weights[i]
        self.bends[i], self.bases[i] = (
            weight * self.pieces.curvatures[p, i],
            weight * self.pieces.slopes[p, i],
        )
        self.low[i], self.high[i] = self._knots[p, i], self._knots[p + 1, i]

    def _move_freely(self, null: Array, coordinates: list[int]) -> None:
        """Move along a direction in which nothing changes, until a coordinate or an example does."""
        v = np.zeros_like(self.x)
        v[coordinates] = null
        moves = self.predictions(v)
        moves[self.bends > 0.0] = 0.0
        tau, kind, index, side = self._next(0.0, v, np.zeros_like(v), moves)
        self._idle += 1
        if kind == NONE or self._idle > _IDLE:
            raise ArithmeticError("columns of active coordinates depend on one another")
        self.x += tau * v
        self.z += tau * moves
        self.n_events += 1
        if kind == LEAVES:
            self.x[index] = 0.0
        if tau > 0.0:
            self._keep(f"{_NAMES[kind]} {index}", *coordinates)
        self._change(kind, index, side)

    def _append(self, j: int) -> bool:
        column, diagonal = self._column(j)
        done = self.factor.append(column, diagonal)
        if done:
            self.active.append(j)
            self._reorder()
        return done

    def _column(self, j: int) -> tuple[Array, float]:
        """Return the products of a column with the active ones, and with itself."""
        unit = np.zeros_like(self.x)
        unit[j] = 1.0
        products = self._products(self.bends * self.predictions(unit), np.array([*self.active, j]))
        return products[:-1], float(products[-1] + self.terms.weights[j])

    def _gram(self) -> Array:
        """Return the matrix of the factor."""
        return self.columns.gram(self.index, self.bends) + np.diag(self.terms.weights[self.index])

    def _row(self, i: int) -> Array:
        """Return the entries of an example in the active columns."""
        unit = np.zeros_like(self.z)
        unit[i] = 1.0
        return self._products(unit, self.index)

    @property
    def _has_drifted(self) -> bool:
        """Whether rounding errors show in the slopes of active coordinates."""
        off = np.abs(self.slopes[self.index] + self.t * self.pull).max(initial=0.0)
        return bool(off > _LOST * self.t * self._dearest)

    def _refresh(self) -> None:
        """Compute the factor and the slopes anew, and correct the solution by a Newton step."""
        active = self.index
        if active.size and not self.factor.become(self._gram()):
            raise ArithmeticError("the active columns depend on one another but for rounding")
        for _ in range(2):
            self.z = self.predictions(self.x)
            self.slopes = self._slopes()
            self.x[active] -= self.factor.solve(self.slopes[active] + self.t * self.pull)
        self.z = self.predictions(self.x)
        self.slopes = self._slopes()
        if self._has_drifted:
            raise ArithmeticError("rounding errors are too large")

    def _keep(self, event: str, *coordinates: int) -> None:
        """Note the knot; some coordinates may be active, though the factor lacks them still."""
        index = np.array(coordinates) if coordinates else self.index
        self.knots.add(self.t, index, self.x[index], event)

"""Coordinate descent on working sets, and the cuts of its multipliers."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from cutplane.engine.costs import OVERHEAD, PER_DENSE_ENTRY
from cutplane.linear.columns import DataColumns
from cutplane.linear.predictor import predictor_of
from cutplane.linear.smoothing import Examples, bend_of_conjugate
from cutplane.linear.terms import Terms, terms_of
from cutplane.linear.working_set import (
    HALVINGS,
    Compressed,
    Position,
    WorkingSet,
    cost_of_compression,
    search,
)
from cutplane.pieces.validation import Array
from cutplane.proof.rounding import EPS, ROUNDING

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.run import Run
    from cutplane.linear.predictor import LinearPredictor

_INNER = 0.3
"""Gap to which a working set is solved, as a share of the whole gap; 0.3 because this share is published."""
_INEXACT = 0.3
"""Distance to the minimiser of the smoothed problem, relative to the smoothing error, at which the shifts
change, because a smaller distance does not improve the bound."""
_LEAST = 1e-4
"""Least share of the gap at which a solve aims, because a smaller estimate would be a rounding error."""
_STALE = 0.25
"""Largest share of the gap that may remain after a step on an old Gram matrix, because a new matrix costs a
few such steps."""
_SHARE = 10.0
"""Least cost of a step relative to the cost of its bound, because the bound is then at most a tenth of the
work."""
_CORRECTIONS = 3
"""Number of Newton steps on free coordinates, because each corrects the rounding errors of the last one."""


class LineDescent:
    """The state of `CoordinateDescent`: its position, the terms, the examples, and the required accuracy."""

    def __init__(self, problem: Declaration, x: Array, z: Array):
        risk, terms = predictor_of(problem), terms_of(problem, groups=True)
        assert risk is not None and terms is not None
        self.risk: LinearPredictor = risk
        self.terms: Terms = terms
        self.position = Position(x, z)
        self.examples = Examples(risk)
        self._free = np.flatnonzero(terms.free)
        self._free_columns = self.columns(self._free) if self._free.size else None
        self._pass = risk.X.shape[0] * risk.data.row_entries
        self._proof = OVERHEAD / PER_DENSE_ENTRY + self._pass
        self.compresses = self.examples.quadratic and x.size < z.size
        self.price = cost_of_compression(z.size, x.size)
        self._whole: Compressed | None = None
        self._before = math.inf
        self._last_multipliers: tuple[Array, Array, float, Array] | None = None
        self._aim, self._share = 1.0, _INNER
        self._steps = self._gap_checks = 0

    @property
    def cost(self) -> float:
        """Nanoseconds so far on a usual machine, computed from sizes so that runs are reproducible."""
        return PER_DENSE_ENTRY * self.position.visited + OVERHEAD * self._steps

    def gap(self, run: Run) -> float:
        """Return the gap of the run."""
        return run.upper - run.lower

    def set_terms(self, terms: Terms) -> None:
        """Change to other terms with the same free coordinates."""
        self.terms, self._before, self._aim = terms, math.inf, 1.0

    def advance(self, run: Run) -> str | None:
        """Solve working sets until the gap is probably closed, or the work so far has doubled.

        Return the reason if no further step is possible, otherwise None.
        """
        position, began = self.position, self.position.visited
        most = began + max(began, _SHARE * self._proof)
        checks = self._gap_checks
        reached, factor, r = run.timed(self.approach, run.tolerance, most)
        run.evaluator.calls += self._gap_checks - checks
        self._steps += 1
        position.z = np.array(run.evaluate(position.x.copy()).image, dtype=np.float64)
        self._add_cut(run, factor, r)
        if reached and not run.closed:
            self._aim *= 0.1
        stuck = self._share < _LEAST or self._aim < _LEAST
        return "rounding errors leave no step" if stuck and not run.closed else None

    def approach(
        self, tolerance: Callable[[float], float], most: float = math.inf
    ) -> tuple[bool, float, Array]:
        """Solve working sets until the gap is probably closed, or `most` entries were visited.

        Return whether the gap is probably closed, and the multipliers, as a factor and slopes of the losses.
        """
        position, examples = self.position, self.examples
        self._share = _INNER
        while True:
            r, g, factor, gap = self.dual_point()
            error = examples.error(1.0, position.z, r) if examples.kinked else 0.0
            away, gap = gap, gap + error
            goal = self._aim * tolerance(self.objective)
            if gap <= goal or self._share < _LEAST or position.visited > most:
                return gap <= goal, factor, r
            if away <= _INEXACT * error and examples.advance(r):
                continue
            least = min(self._share, 0.5) * max(goal, _INEXACT * error)
            moved = self._solve(r, g, away, max(self._share * away, least), least)
            self._share = _INNER if moved else 0.1 * self._share

    def dual_point(self) -> tuple[Array, Array, float, float]:
        """Return weighted multipliers, the slopes of their cut, the factor of the best bound, and the gap."""
        position, self._gap_checks = self.position, self._gap_checks + 1
        seen = self._last_multipliers
        if seen is None or seen[0] is not position.z or self.examples.kinked:
            r, gap = self._multipliers()
            self._last_multipliers = seen = position.z, r, gap, self._slopes(r)
        _, r, gap, g = seen
        factor, own = self.terms.best_factor(position.x, g)
        return r, g, factor, gap + own + self.examples.excess(factor, position.z, r)

    @property
    def objective(self) -> float:
        """The objective at the current point."""
        return self.examples.risk_at(self.position.z) + self.terms(self.position.x)

    def slopes_without(self, coordinates: Array) -> Array:
        """Minimise over the coordinates outside of a mask, and return the risk's slopes at the minimiser."""
        others = np.flatnonzero(~coordinates)
        if others.size:
            size = self.examples.value(self.position.z)
            self._working_set(others).solve(ROUNDING * max(size, EPS))
        return self._slopes(self._multipliers()[0])

    def _multipliers(self) -> tuple[Array, float]:
        """Return weighted multipliers of the examples, and the share of free coordinates in the gap.

        The multipliers are the slopes of the losses, after a Newton step that makes the slopes in free
        coordinates zero.
        """
        z, columns = self.position.z, self._free_columns
        r, gap = self.examples.slopes(z), 0.0
        if columns is not None:
            d = self.examples.bends(z)
            hessian = columns.gram(np.arange(self._free.size), d)
            for _ in range(_CORRECTIONS):
                slopes, _ = columns.slopes(d, r)
                step = -np.linalg.lstsq(hessian, slopes)[0]
                gap -= 0.5 * float(step @ slopes)
                r = self.risk.weights * self.examples.unweighted(r + d * columns.times(step))
        return r, gap

    def _slopes(self, r: Array) -> Array:
        self.position.visited += self._pass
        g = self.risk.data.transposed_times(r)
        return np.append(g, r.sum()) if self.risk.intercept else g

    def _solve(self, r: Array, g: Array, gap: float, tolerance: float, least: float) -> bool:
        """Solve a working set, or the model of all columns if this is faster; tell whether x changed."""
        position, examples, terms = self.position, self.examples, self.terms
        x, z = position.x, position.z
        paid = self._whole is not None or position.visited > self.price
        if not (self.compresses and paid and terms.labels is None):
            return self._working_set(terms.chosen(x, g)).solve(tolerance)
        d = examples.bends(z)
        if self._whole is None or (not examples.quadratic and gap > _STALE * self._before):
            self._whole, gap = Compressed(self._columns_of_all, d), math.inf
            position.visited += self.price
        self._before = gap
        if self._free.size:  # g was computed at a point without slopes in free coordinates
            g = self._slopes(r := examples.slopes(z))
        ahead, visited = self._whole.minimiser(x, terms, g, bend_of_conjugate(r, d), least)
        step = ahead - x
        move, t = self._whole.columns.times(step), 1.0
        position.visited += visited + self._pass
        if not examples.quadratic:
            t, _ = search(examples, terms, x, z, step, move, g, HALVINGS)
        position.x, position.z = ahead if t == 1.0 else x + t * step, z + t * move
        return t > 0.0 and bool(step.any())

    def _working_set(self, which: Array) -> WorkingSet:
        return WorkingSet(self.examples, self.terms.on(which), self.columns(which), which, self.position)

    @cached_property
    def _columns_of_all(self) -> DataColumns:
        return self.columns(np.arange(self.position.x.size))

    def columns(self, which: Array) -> DataColumns:
        """Return the columns of some coordinates."""
        return DataColumns(self.risk.data, np.where(which < self.risk.X.shape[1], which, -1))

    def _add_cut(self, run: Run, factor: float, r: Array) -> None:
        """Add the cut of the multipliers, with slopes computed as in `verify`, because both must be equal."""
        risk, u = self.risk, factor * self.examples.unweighted(r)
        present = risk.weights > 0.0
        if np.isfinite(risk.loss.conjugate(u[present], risk.y[present])).all():
            run.add_dual_cut(u)

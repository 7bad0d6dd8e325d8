"""The working sets of coordinate descent, and the cuts of its multipliers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cutplane.engine.tolerances import EPS, ROUNDING
from cutplane.linear.columns import Columns
from cutplane.linear.compressed import Compressed, cost_of_compression
from cutplane.linear.costs import OVERHEAD, PER_DENSE_ENTRY
from cutplane.linear.examples import Examples, bend_of_conjugate
from cutplane.linear.group_terms import GroupTerms, group_terms_of
from cutplane.linear.group_working_set import GroupWorkingSet
from cutplane.linear.predictor import predictor_of
from cutplane.linear.terms import Terms, terms_of
from cutplane.linear.working_set import Position, WorkingSet
from cutplane.pieces.validation import Array

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.run import Run
    from cutplane.linear.predictor import LinearPredictor

_INNER = 0.3
"""The gap to which a working set is solved, as a share of the whole one, as published."""
_INEXACT = 0.3
"""How close to the minimiser of smoothed losses is close enough, in the error of the smoothing."""
_LEAST = 1e-4
"""The gap that is expected is accurate to the second order: one so much smaller is lost in rounding."""
_SHARE = 10.0
"""What a step costs at least, as a multiple of what proves its bound, which then takes a tenth."""
_CORRECTIONS = 3
"""Each leaves the rounding errors of the last."""


class Descent:
    """The state of `CoordinateDescent`: where it is, and how exact it has to be.

    Attributes
    ----------
    position : Position
    terms : Terms
        What regularizer and bounds are for each coordinate.
    examples : Examples
        The losses.
    """

    def __init__(self, problem: Declaration, x: Array, z: Array):
        risk, terms = predictor_of(problem), terms_of(problem) or group_terms_of(problem)
        assert risk is not None and terms is not None
        self.risk: LinearPredictor = risk
        self.terms: Terms | GroupTerms = terms
        self.position = Position(x, z)
        self.examples = Examples(risk)
        self._free = np.flatnonzero(terms.free)
        self._free_columns = self._columns(self._free) if self._free.size else None
        self._pass = risk.X.shape[0] * risk.data.row_entries
        self._proof = OVERHEAD / PER_DENSE_ENTRY + self._pass
        self._whole: Compressed | None = None
        self._aim = 1.0
        self._steps = 0

    @property
    def cost(self) -> float:
        """Nanoseconds so far, on a usual machine: counted, not measured, so that a run can be repeated."""
        return PER_DENSE_ENTRY * self.position.visited + OVERHEAD * self._steps

    def gap(self, run: Run) -> float:
        """Return the gap that it has to close."""
        return run.upper - run.lower

    def advance(self, run: Run) -> str | None:
        """Solve working sets until the gap is expected to be closed, or as much is done as ever before.

        Return the reason if it cannot go on.
        """
        position, examples = self.position, self.examples
        began, share = position.visited, _INNER
        while True:
            r, g, factor, gap = run.timed(self.outlook, queries=1)
            error = examples.error(1.0, position.z, r) if examples.kinked else 0.0
            away, gap = gap, gap + error
            goal = self._aim * run.tolerance(self.objective)
            spent = position.visited - began
            if gap <= goal or share < _LEAST or spent > max(began, _SHARE * self._proof):
                break
            if away <= _INEXACT * error and examples.advance(r):
                continue
            least = min(share, 0.5) * max(goal, _INEXACT * error)
            moved = run.timed(self._solve, g, max(share * away, least), least)
            share = _INNER if moved else 0.1 * share
        self._steps += 1
        position.z = np.array(run.evaluate(position.x.copy()).image, dtype=np.float64)
        self._add_cut(run, factor, r)
        if gap <= goal and not run.closed:
            self._aim *= 0.1
        stuck = share < _LEAST or self._aim < _LEAST
        return "rounding errors leave no step" if stuck and not run.closed else None

    def outlook(self) -> tuple[Array, Array, float, float]:
        """Return weighted multipliers, the slopes of their cut, the factor that they need, and the gap."""
        position, examples = self.position, self.examples
        r, gap = self._multipliers()
        g = self._slopes(r)
        factor, own = self.terms.outlook(position.x, g, self._free)
        bends = examples.bends(position.z, position.damping)
        return r, g, factor, gap + own + examples.excess(factor, position.z, r, bends)

    @property
    def objective(self) -> float:
        """The objective where it is."""
        return self.examples.risk_at(self.position.z) + self.terms(self.position.x)

    def slopes_without(self, coordinates: Array) -> Array:
        """Minimise over all but these coordinates, and return the slopes of the risk there."""
        others = np.flatnonzero(~coordinates)
        if others.size:
            size = self.examples.value(self.position.z)
            self._working_set(others).solve(ROUNDING * max(size, EPS))
        return self._slopes(self._multipliers()[0])

    def _multipliers(self) -> tuple[Array, float]:
        """Return weighted multipliers of the examples, and the share of free coordinates in the gap.

        They are the slopes of the losses, moved by a Newton step such that free coordinates have no slope.
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
                change = np.zeros_like(z)
                columns.add(step, change)
                r = self.risk.weights * self.examples.unweighted(r + d * change)
        return r, gap

    def _slopes(self, r: Array) -> Array:
        self.position.visited += self._pass
        g = self.risk.data.transposed_times(r)
        return np.append(g, r.sum()) if self.risk.intercept else g

    def _solve(self, g: Array, tolerance: float, least: float) -> bool:
        """Solve the coordinates that move, and those that are pulled most; tell whether any moved."""
        x, everywhere = self.position.x, np.arange(self.terms.costs.size)
        compressible = self.examples.quadratic and isinstance(self.terms, Terms)
        if self._whole is None and compressible and x.size < self.position.z.size:
            if self.position.visited > cost_of_compression(self.position.z.size, x.size):
                self._whole = Compressed(self._columns(everywhere), self.examples.bends(self.position.z))
        if self._whole is not None and isinstance(self.terms, Terms):
            z = self.position.z
            r = self.examples.slopes(z)
            g = self._slopes(r) if self._free.size else g  # g is where free coordinates have no slope
            bend = bend_of_conjugate(r, self.examples.bends(z))
            return self._whole.solve(self.position, self.terms, g, bend, least)
        return self._working_set(self.terms.chosen(x, g)).solve(tolerance)

    def _working_set(self, which: Array) -> WorkingSet:
        kind = GroupWorkingSet if isinstance(self.terms, GroupTerms) else WorkingSet
        return kind(self.examples, self.terms.on(which), self._columns(which), which, self.position)

    def _columns(self, which: Array) -> Columns:
        return Columns(self.risk.data, np.where(which < self.risk.X.shape[1], which, -1))

    def _add_cut(self, run: Run, factor: float, r: Array) -> None:
        """Add the cut of the multipliers, with slopes computed anew: their rounding is that of `verify`."""
        risk, u = self.risk, factor * self.examples.unweighted(r)
        present = risk.weights > 0.0
        if np.isfinite(risk.loss.conjugate(u[present], risk.y[present])).all():
            run.add_dual_cut(u)

"""Primal coordinate descent on working sets, for l1 and other sums over the coordinates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cutplane.exceptions import MissingCapabilityError
from cutplane.linear.columns import Columns
from cutplane.linear.costs import OVERHEAD, PER_ENTRY
from cutplane.linear.predictor import predictor_of
from cutplane.linear.terms import Terms, terms_of
from cutplane.linear.working_set import Position, WorkingSet, bend_of_conjugate, second_derivatives
from cutplane.methods.base import Method, Step
from cutplane.pieces.capabilities import Capability, offers
from cutplane.pieces.validation import Array
from cutplane.risks.weighted_loss import weighted_loss

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.run import Run
    from cutplane.linear.predictor import LinearPredictor

_INNER = 0.3
"""The gap that a working set is solved to, as a share of the whole gap."""
_SHARE = 10.0
"""Work of a step at least, in iterations outside the data."""
_LEAST_AIM = 1e-4
"""The gap that is expected is accurate to the second order: one so much smaller is lost in rounding."""


@dataclass(frozen=True)
class CoordinateDescent(Method):
    """Coordinate descent."""

    turn = 1
    memory = 0.0

    def check(self, problem: Declaration) -> None:
        """Raise unless the problem has the form."""
        risk, terms = predictor_of(problem), terms_of(problem)
        if risk is None or not suits(risk) or not offers(problem.risk, Capability.DUAL_CUT):
            raise MissingCapabilityError(
                f"{self.name} needs a risk of linear predictions, one block, and a smooth loss with a second "
                f"derivative and a conjugate, got {problem.risk!r}. Use Portfolio()."
            )
        if terms is None or not terms.scalable:
            raise MissingCapabilityError(
                f"{self.name} needs a regularizer and bounds of the coordinates, as L1(0.1) over a Box, got "
                f"{problem.regularizer!r} over {problem.feasible_set!r}. Use Portfolio()."
            )
        if not terms.costs.any() and problem.is_unconstrained:
            raise MissingCapabilityError(
                f"{self.name} is for costs |x_j| and bounds, and {problem.regularizer!r} is smooth. "
                "Use Portfolio()."
            )

    def usual_rate(self, problem: Declaration) -> float:
        """Return inf: to be tried first."""
        return math.inf

    def start(self, run: Run) -> Descent:
        """Return the position of the best point."""
        return Descent(run)

    def step(self, run: Run, state: Descent) -> Step:
        """Solve working sets, add the cut of the multipliers, and evaluate there."""
        before = state.position.visited
        state.advance(run)
        state.cost += PER_ENTRY * (state.position.visited - before) + OVERHEAD
        return Step("descent", state, state.finished)


class Descent:
    """The state of `CoordinateDescent`."""

    def __init__(self, run: Run):
        risk, terms = predictor_of(run.problem), terms_of(run.problem)
        assert risk is not None and terms is not None
        self.risk: LinearPredictor = risk
        self.terms: Terms = terms
        m, self._n = risk.X.shape
        self._free = np.flatnonzero(terms.free)
        self._losses = weighted_loss(risk.loss, risk.y, risk.weights, np.array([0, m]))
        point = run.anchor
        self.position = Position(point.x.copy(), np.array(point.image, dtype=np.float64))
        self.cost = 0.0
        self.finished: str | None = None
        self._aim = 1.0
        self._pass = m * risk.data.row_entries
        self._size = 0

    def gap(self, run: Run) -> float:
        """Return the gap that it has to close."""
        return run.upper - run.lower

    def advance(self, run: Run) -> None:
        """Solve working sets until the gap is expected to be closed, or some work is done."""
        position, terms = self.position, self.terms
        began, stuck = position.visited, False
        while True:
            self._settle()
            r = self._losses.derivatives(position.z)
            g = run.timed(self._slopes, r, queries=1)
            bend = bend_of_conjugate(r, second_derivatives(self._losses, position))
            factor, gap = terms.outlook(position.x, g, self._free, bend)
            objective = float(self._losses.values(position.z)[0]) + terms(position.x)
            goal = self._aim * run.tolerance(objective)
            spent = position.visited - began
            if gap <= goal or stuck or spent > max(began, _SHARE * OVERHEAD):
                break
            stuck = not run.timed(self._solve, g, max(_INNER * gap, 0.5 * goal))
        run.evaluate(position.x.copy())
        self._add_cut(run, r, g, factor)
        if run.closed:
            return
        if gap <= goal:
            self._aim *= 0.1
        if stuck or self._aim < _LEAST_AIM:
            self.finished = "rounding errors leave no step"

    def _slopes(self, r: Array) -> Array:
        self.position.visited += self._pass
        g = self.risk.data.transposed_times(r)
        return np.append(g, r.sum()) if self.risk.intercept else g

    def _solve(self, g: Array, tolerance: float) -> bool:
        x = self.position.x
        kept = self.terms.moves(x) | self.terms.free
        ratio = self.terms.pulls(x, g)
        ratio[kept] = np.inf
        size = int(max(2 * np.count_nonzero(kept), x.size // 20, 10, self._size))
        if size < x.size:
            which = np.argpartition(-ratio, size)[:size]
            which = which[np.argsort(-ratio[which], kind="stable")]
        else:
            which = np.argsort(-ratio, kind="stable")
        return self._working_set(which).solve(tolerance)

    def _settle(self) -> None:
        if self._free.size:
            self._working_set(self._free).solve(0.0)

    def _working_set(self, which: Array) -> WorkingSet:
        names = np.where(which < self._n, which, -1)
        columns = Columns(self.risk.data, names)
        return WorkingSet(self._losses, self.terms.on(which), columns, which, self.position)

    def _add_cut(self, run: Run, r: Array, g: Array, factor: float) -> None:
        risk = self.risk
        present = risk.weights > 0.0
        u = np.divide(r, risk.weights, out=np.zeros_like(r), where=present) * factor
        conjugates = risk.loss.conjugate(u, risk.y)
        offset = -float(risk.weights[present] @ conjugates[present])
        if math.isfinite(offset):
            run.add_dual_cut(u, ((factor * g)[np.newaxis], np.array([offset])))


def suits(risk: LinearPredictor) -> bool:
    """Tell whether coordinate descent suits a risk."""
    from cutplane.losses.base import pieces_of

    phi = pieces_of(risk.loss)
    smooth = phi is None or not phi.jumps.any()
    return bool(smooth and risk.n_blocks == 1 and offers(risk.loss, Capability.SECOND_DERIVATIVE))

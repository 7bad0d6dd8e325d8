"""Primal coordinate descent on working sets, for l1 and other sums over the coordinates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cutplane.engine.tolerances import EPS, ROUNDING
from cutplane.exceptions import MissingCapabilityError
from cutplane.linear.columns import Columns
from cutplane.linear.costs import OVERHEAD, PER_ENTRY
from cutplane.linear.examples import Examples
from cutplane.linear.predictor import predictor_of
from cutplane.linear.terms import Terms, terms_of
from cutplane.linear.working_set import Position, WorkingSet
from cutplane.losses.base import pieces_of
from cutplane.methods.base import Method, Step
from cutplane.pieces.capabilities import Capability, offers
from cutplane.pieces.validation import Array

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.run import Run
    from cutplane.linear.examples import Examples
from cutplane.linear.predictor import LinearPredictor

_INNER = 0.3
"""The gap that a working set is solved to, as a share of the whole gap."""
_SHARE = 10.0
"""Work of a step at least, in iterations outside the data."""
_CORRECTIONS = 3
"""Each leaves the rounding errors of the last."""
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
        point = run.anchor
        return Descent(run.problem, point.x.copy(), np.array(point.image, dtype=np.float64))

    def step(self, run: Run, state: Descent) -> Step:
        """Solve working sets, add the cut of the multipliers, and evaluate there."""
        before = state.position.visited
        state.advance(run)
        state.cost += PER_ENTRY * (state.position.visited - before) + OVERHEAD
        return Step("descent", state, state.finished)


class Descent:
    """The state of `CoordinateDescent`."""

    def __init__(self, problem: Declaration, x: Array, z: Array):
        risk, terms = predictor_of(problem), terms_of(problem)
        assert risk is not None and terms is not None
        self.risk: LinearPredictor = risk
        self.terms: Terms = terms
        m, self._n = risk.X.shape
        self._free = np.flatnonzero(terms.free)
        self._free_columns = self._columns(self._free) if self._free.size else None
        self._examples = Examples(risk)
        self.position = Position(x, z)
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
        began, share = position.visited, _INNER
        while True:
            r, left = run.timed(self._multipliers)
            g = run.timed(self._slopes, r, queries=1)
            factor, gap = terms.outlook(position.x, g, self._free)
            d = self._examples.bends(position.z, position.damping)
            gap += left + self._examples.excess(factor, position.z, r, d)
            objective = self._examples.value(position.z) + terms(position.x)
            goal = self._aim * run.tolerance(objective)
            spent = position.visited - began
            if gap <= goal or share < _LEAST_AIM or spent > max(began, _SHARE * OVERHEAD):
                break
            moved = run.timed(self._solve, g, max(share * gap, min(share, 0.5) * goal))
            share = _INNER if moved else 0.1 * share
        run.evaluate(position.x.copy())
        self._add_cut(run, r, g, factor)
        if run.closed:
            return
        if gap <= goal:
            self._aim *= 0.1
        if share < _LEAST_AIM or self._aim < _LEAST_AIM:
            self.finished = "rounding errors leave no step"

    def _multipliers(self) -> tuple[Array, float]:
        """Return weighted multipliers of the examples, and the share of free coordinates in the gap.

        They are the slopes of the losses, moved by a Newton step such that free coordinates have no slope.
        """
        z, columns = self.position.z, self._free_columns
        r, left = self._examples.slopes(z), 0.0
        if columns is not None:
            d = self._examples.bends(z)
            hessian = columns.gram(np.arange(self._free.size), d)
            for _ in range(_CORRECTIONS):
                slopes, _ = columns.slopes(d, r)
                step = -np.linalg.lstsq(hessian, slopes)[0]
                left -= 0.5 * float(step @ slopes)
                change = np.zeros_like(z)
                columns.add(step, change)
                r = self.risk.weights * self._examples.unweighted(r + d * change)
        return r, left

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

    def _working_set(self, which: Array) -> WorkingSet:
        terms = self.terms.on(which)
        return WorkingSet(self._examples, terms, self._columns(which), which, self.position)

    def _columns(self, which: Array) -> Columns:
        return Columns(self.risk.data, np.where(which < self._n, which, -1))

    def _add_cut(self, run: Run, r: Array, g: Array, factor: float) -> None:
        risk = self.risk
        present = risk.weights > 0.0
        u = factor * self._examples.unweighted(r)
        conjugates = risk.loss.conjugate(u, risk.y)
        offset = -float(risk.weights[present] @ conjugates[present])
        if math.isfinite(offset):
            run.add_dual_cut(u, ((factor * g)[np.newaxis], np.array([offset])))


def largest_weight(problem: Declaration) -> float:
    """Return the least weight of the regularizer with which all coordinates that it has costs for are zero.

    The others are minimised over, with these at zero; then it is the largest slope for its cost.
    """
    CoordinateDescent().check(problem)
    lam, x = problem.regularizer.lam, np.zeros(problem.dim)
    state = Descent(problem, x, np.zeros(problem.risk.image(x).shape))
    terms, others = state.terms, np.flatnonzero(state.terms.costs == 0.0)
    if terms.weights[others].any() or (terms.low > 0.0).any() or (terms.high < 0.0).any():
        raise MissingCapabilityError(
            f"No weight of {problem.regularizer!r} makes all coordinates zero over {problem.feasible_set!r}."
        )
    if others.size:
        size = state._examples.value(state.position.z)
        state._working_set(others).solve(ROUNDING * max(size, EPS))
    r, _ = state._multipliers()
    pulls = terms.ratios(x, state._slopes(r))
    return lam * float(pulls[terms.costs > 0.0].max(initial=0.0))


def suits(risk: LinearPredictor) -> bool:
    """Tell whether coordinate descent suits a risk."""
    phi = pieces_of(risk.loss)
    smooth = phi is None or not phi.jumps.any()
    return bool(smooth and risk.n_blocks == 1 and offers(risk.loss, Capability.SECOND_DERIVATIVE))

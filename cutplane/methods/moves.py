"""What an iteration does: cuts, epochs of dual ascent or a Newton step, whichever closes the gap fastest."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from cutplane.methods.example_duals import (
    direct_minimiser,
    dual_ascent,
    known_multipliers,
    multiplier_method,
    offers_dual_ascent,
    offers_multiplier_method,
)
from cutplane.methods.newton import NewtonSteps
from cutplane.pieces.capabilities import LinearPredictor
from cutplane.pieces.validation import Array

if TYPE_CHECKING:
    from cutplane.engine.run import Run

CUTS, EPOCHS, NEWTON, DIRECT = "cuts", "epochs", "Newton", "direct"

_FIRST = 4
_GROWTH = 1.5
_TURN = {CUTS: 10, EPOCHS: 1, NEWTON: 12}
_MEMORY = 0.5

_USUAL_FALL = math.log(1e3)
_USUAL_ITERATIONS = 30
_USUAL_IF_WIDE = 300
_USUAL_NEWTON = 12
_USUAL_SHARE = 0.1

_OVERHEAD = 1e6
_PER_EXAMPLE = 10.0
_PER_ENTRY = 1.0
_PER_COEFFICIENT = 4.0


class Moves:
    """Chooses what the next iteration does, by the cost and the gap of the last ones.

    Costs are those of a model, in nanoseconds, not measured times, so that a run can be repeated. Iterations
    of cuts come first, then a batch of epochs. From then on, the move that is expected to close the gap
    first has the next turn: each is taken to go on at the rate of its last turn, or at a usual one before it
    had any.
    """

    def __init__(self) -> None:
        self._move = DIRECT
        self._left = 0
        self._rates: dict[str, float] = {}
        self._ascent: Any = None
        self._newton: Any = None
        self._planned = float(_FIRST)
        self._epochs = 0
        self._cost = 0.0
        self._gap = math.inf
        self._bound = -math.inf
        self._own_gap = math.inf
        """That of the epochs alone, which may lag behind what cuts have proved."""

    @property
    def probing(self) -> bool:
        """Whether epochs come next in any case, so that cuts would be of little use."""
        return self._rates.get(EPOCHS) == math.inf

    def choose(self, run: Run) -> str:
        """Return DIRECT, once, then CUTS, EPOCHS or NEWTON."""
        if self._move == DIRECT and self._left == 0:
            self._left = 1
            return DIRECT
        if not self._rates:
            self._move = CUTS
            self._left = self._prepare(run)
        elif self._left == 0:
            self._move = min(self._rates, key=lambda move: self._to_go(run, move))
            if self._move == EPOCHS and self._ascent is None:
                known = known_multipliers(run) is not None
                self._own_gap = math.inf if known else run.upper - run.lower
                self._ascent = dual_ascent(run)
                if self._ascent is None:
                    del self._rates[EPOCHS]
                    return self.choose(run)
            self._left = _TURN[self._move]
            self._cost, self._gap = 0.0, run.upper - run.lower
        self._left -= 1
        return self._move

    def direct(self, run: Run) -> bool:
        """Go to the solution, and cut there, if it is that of a linear system; tell whether it is."""
        x = direct_minimiser(run)
        if x is None:
            return False
        run.add_cut(run.evaluate(x))
        run.reduced()
        return True

    def epochs(self, run: Run) -> tuple[int, Array]:
        """Do a batch of epochs, and add the cut they give; return how many, and their point."""
        self._epochs = int(self._planned)
        self._cost += run.timed(self._ascent.run, self._epochs)
        self._bound = run.add_dual_cut(self._ascent.multipliers)
        return self._epochs, self._ascent.x.copy()

    def newton(self, run: Run) -> bool:
        """Do a Newton step; return False if there is none, and then there will be no other."""
        if self._newton is None:
            assert run.best is not None
            self._newton = NewtonSteps(multiplier_method(run, run.best), run.best)
        if self._newton.step(run):
            self._cost += _OVERHEAD + self._newton.method.cost
            return True
        del self._rates[NEWTON]
        self._move, self._left = CUTS, 0
        return False

    def learn(self, run: Run) -> None:
        """Learn from the iteration."""
        if len(self._rates) == 1:
            return
        if self._move == EPOCHS:
            self._cost += _cost_of_passes(run)
            self._learn_of_epochs(run)
            return
        if self._move == CUTS:
            self._cost += _cost_of_cuts(run)
        if self._left == 0 and not self.probing:
            rate = _fall(self._gap, run.upper - run.lower) / self._cost
            if self._move == NEWTON:
                rate = max(rate, _MEMORY * self._rates[NEWTON])  # the gap falls in leaps
            if rate < math.inf:
                self._rates[self._move] = rate

    def _learn_of_epochs(self, run: Run) -> None:
        before, self._own_gap = self._own_gap, run.upper - self._bound
        fall = _fall(before, self._own_gap) if self._own_gap < math.inf else 0.0
        known = 0.0 < fall < math.inf
        needed = 1.2 * self._epochs * self._log(run, self._own_gap) / fall + 1.0 if known else math.inf
        self._planned = max(1.0, min(_GROWTH * self._planned, needed))
        self._rates[EPOCHS] = fall / self._cost

    def _prepare(self, run: Run) -> int:
        """Find out which moves there are; return how many iterations of cuts come first."""
        m, n, entries = _size(run)
        cuts = _USUAL_ITERATIONS if m >= n else _USUAL_IF_WIDE
        self._rates[CUTS] = _USUAL_FALL / (cuts * _cost_of_cuts(run)) if m else 0.0
        dense = entries == m * n
        cold = run.queries <= 1
        self._gap = math.inf if cold else run.upper - run.lower
        if offers_dual_ascent(run):
            self._rates[EPOCHS] = 0.0 if dense and m >= n else math.inf
        if offers_multiplier_method(run):
            from cutplane.risks.multiplier_method import step_cost

            cost = _OVERHEAD + step_cost(m, n, entries, _USUAL_SHARE * m)
            self._rates[NEWTON] = _USUAL_FALL / (_USUAL_NEWTON * cost)
        return _TURN[CUTS] if cold and dense and m >= n else 1

    def _to_go(self, run: Run, move: str) -> float:
        """Return what it is expected to cost until the gap is closed by one of the moves."""
        rate = self._rates[move]
        if rate in (0.0, math.inf):
            return math.inf if rate == 0.0 else 0.0
        own = move == EPOCHS and math.isfinite(self._own_gap)
        return self._log(run, self._own_gap if own else run.upper - run.lower) / rate

    def _log(self, run: Run, gap: float) -> float:
        tolerance = run.tolerance(run.upper)
        return math.log(gap / tolerance) if gap > tolerance > 0.0 else 0.0


def _fall(before: float, after: float) -> float:
    """Return by how much the logarithm of a gap fell; inf if there was none before."""
    if before == math.inf:
        return math.inf
    return math.log(before / after) if after > 0.0 else 0.0


def _cost_of_passes(run: Run) -> float:
    m, _, entries = _size(run)
    return _OVERHEAD + _PER_EXAMPLE * m + _PER_ENTRY * entries


def _cost_of_cuts(run: Run) -> float:
    return _cost_of_passes(run) + _PER_COEFFICIENT * run.problem.dim * len(run.bundle)


def _size(run: Run) -> tuple[int, int, float]:
    """Return the numbers of examples, of features, and of entries stored; zeros if there are no data."""
    risk = run.problem.risk
    if not isinstance(risk, LinearPredictor):
        return 0, 0, 0.0
    m, n = risk.data.X.shape
    return m, n, m * risk.data.row_entries

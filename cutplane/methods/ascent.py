"""When to ascend in the dual, and when to add cuts: whatever closes the gap faster."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from cutplane.validation import Array

if TYPE_CHECKING:
    from cutplane.engine.run import Run

_FIRST = 4
_GROWTH = 1.5
_TRIAL = 10

_USUAL_FALL = math.log(1e3)
_USUAL_ITERATIONS = 30
_USUAL_IF_WIDE = 300

_OVERHEAD = 3e5
_PER_EXAMPLE = 10.0
_PER_ENTRY = 1.0
_PER_COEFFICIENT = 4.0


class Ascent:
    """Chooses epochs of dual coordinate ascent before an iteration, by the cost and the gap of the last ones.

    Costs are those of a model, in nanoseconds, not measured times, so that a run can be repeated. The first
    iteration is one of cuts alone; then epochs are tried, twice at least. When the gap falls more slowly than
    cuts usually make it fall, these get a trial; from then on whichever was faster goes on.
    """

    def __init__(self) -> None:
        self._epochs = 0
        self._ascent: Any = None
        self._planned = float(_FIRST)
        self._batches = 0
        self._cuts_left = 0
        self._cost = 0.0
        self._gap = math.inf
        self._ascent_rate = math.inf
        self._cut_rate = math.nan

    @property
    def point(self) -> Array:
        """The point that the multipliers give."""
        return self._ascent.x.copy()

    def before(self, run: Run) -> int:
        """Do epochs, if they pay, and add the cut they give; return how many."""
        self._epochs = 0
        if self._cuts_left > 0:
            return 0
        if self._ascent is None:
            self._ascent = run.dual_ascent()
            if self._ascent is None:
                self._cuts_left = math.inf
                return 0
            self._cuts_left = _first_cuts(run)
            return 0
        self._epochs = int(self._planned)
        self._cost += run.timed(self._ascent.run, self._epochs)
        run.add_dual_cut(self._ascent.multipliers)
        self._batches += 1
        return self._epochs

    def after(self, run: Run) -> None:
        """Learn from the iteration."""
        if self._cuts_left == math.inf:
            return
        cost = self._cost_of_cuts(run)
        self._cost += cost
        gap = _distance(run)
        if self._epochs:
            self._planned = max(1.0, min(_GROWTH * self._planned, self._needed(run, gap)))
            self._ascent_rate = self._rate(gap)
            usual = self._usual_rate(run, cost) if math.isnan(self._cut_rate) else self._cut_rate
            if self._batches > 1 and self._ascent_rate < usual:
                self._cuts_left = _TRIAL
                self._planned = max(_FIRST, self._planned / _GROWTH**2)
            return
        self._cuts_left -= 1
        if self._cuts_left == 0 and self._batches:
            self._cut_rate = self._rate(gap)
            if self._cut_rate >= self._ascent_rate:
                self._cuts_left = _TRIAL
        elif self._cuts_left == 0:
            self._rate(gap)

    def _needed(self, run: Run, gap: float) -> float:
        """Return how many epochs will close the gap, if it goes on falling as in the last ones."""
        fall = math.log(self._gap / gap) if 0.0 < gap < self._gap < math.inf else 0.0
        to_go = math.log(gap / max(run.tol, 1e-15)) if gap > 0.0 else 0.0
        return 1.2 * self._epochs * to_go / fall + 1.0 if fall > 0.0 else math.inf

    def _rate(self, gap: float) -> float:
        """Return by how much the logarithm of the gap fell per unit of cost since the last call."""
        rate = math.log(self._gap / gap) / self._cost if gap > 0.0 and math.isfinite(self._gap) else 0.0
        self._gap, self._cost = gap, 0.0
        return rate

    def _cost_of_cuts(self, run: Run) -> float:
        m, n, entries = _size(run)
        return _OVERHEAD + _PER_EXAMPLE * m + _PER_ENTRY * entries + _PER_COEFFICIENT * n * len(run.bundle)

    def _usual_rate(self, run: Run, cost: float) -> float:
        m, n, _ = _size(run)
        return _USUAL_FALL / ((_USUAL_ITERATIONS if m >= n else _USUAL_IF_WIDE) * cost)


def _size(run: Run) -> tuple[int, int, float]:
    """Return the numbers of examples, of features, and of entries stored, of a risk that offers ascent."""
    data: Any = getattr(run.problem.risk, "data")  # noqa: B009
    m, n = data.X.shape
    return m, n, m * data.row_entries


def _first_cuts(run: Run) -> int:
    """Return how many iterations of cuts come first: few epochs are as good as cuts on tall dense data."""
    m, n, entries = _size(run)
    return _TRIAL if m >= n and entries == m * n else 1


def _distance(run: Run) -> float:
    """Return the gap, relative to the lower bound where that is positive: early on that says more."""
    return (run.upper - run.lower) / (run.lower if run.lower > 0.0 else 1.0)

"""The rounds of boosting, whatever the method, as a process of the driver: certify the ensemble of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cutplane.boosting.ensemble import Ensemble
from cutplane.boosting.result import BoostingResult, soft_margin
from cutplane.engine.driver import Standing, Turn
from cutplane.engine.history import History, State
from cutplane.pieces.validation import Array
from cutplane.status import Status
from cutplane.stopping import Stop, StoppingRule

if TYPE_CHECKING:
    from cutplane.boosting.early_stopping import EarlyStopping
    from cutplane.boosting.methods import BoostingMethod
    from cutplane.boosting.pool import Pool
    from cutplane.boosting.soft_margin import SoftMargin


class Rounds:
    """One iteration of a method each, and the soft margin of the ensemble that it gives."""

    def __init__(
        self,
        problem: SoftMargin,
        method: BoostingMethod,
        pool: Pool,
        tol: float,
        early_stopping: EarlyStopping | None,
    ):
        self.problem = problem
        self.method = method
        self.pool = pool
        self._booster = method.start(pool, problem.y.size, problem.nu, tol)
        self._monitor = early_stopping.start() if early_stopping is not None else None
        self._best = -np.inf, np.empty(0)
        self._stages: list[Array] = []

    @property
    def started(self) -> bool:
        """Whether there is an ensemble."""
        return bool(self._stages)

    @property
    def standing(self) -> Standing:
        """The soft margin, the edge, and what the method counts."""
        inner = self._booster.process.standing
        return inner._replace(lower=self._best[0], upper=self.pool.edge, x=self.pool.distribution, scale=1.0)

    def step(self) -> Turn:
        """Do an iteration of the method; keep its ensemble if that is the best."""
        turn = self._booster.process.step()
        weights = self._booster.weights()
        weights = weights if weights.any() else np.ones(1)
        self._stages.append(weights)
        value = soft_margin(weights @ self.pool.columns[: weights.size], self.problem.nu)
        self._best = max(self._best, (value, weights), key=lambda pair: pair[0])
        return Turn(turn.kind, self._enough() or turn.finished)

    def confirm(self, stop: Stop) -> Stop:
        """Return the stop: the edge was found by the weak learner itself."""
        return stop

    def result(self, stop: Stop, history: History) -> BoostingResult:
        """Return the best ensemble, or that of the least error on validation data."""
        pool, monitor = self.pool, self._monitor
        chosen = self._stages[monitor.best] if monitor is not None and monitor.errors else self._best[1]
        margins = chosen @ pool.columns[: chosen.size]
        return BoostingResult(
            ensemble=Ensemble.of(pool.hypotheses, chosen),
            soft_margin=soft_margin(margins, self.problem.nu),
            edge=pool.edge,
            distribution=pool.distribution,
            margins=margins,
            is_global=pool.learner.exact,
            status=stop.status,
            reason=stop.reason,
            history=history,
            method=repr(self.method),
            nu=self.problem.nu,
            hypotheses=tuple(pool.hypotheses),
            stages=tuple(self._stages),
            problem=self.problem,
        )

    def _enough(self) -> Stop | None:
        if self._monitor is not None and self._monitor.is_enough(self.pool.hypotheses, self._stages[-1]):
            return Stop(Status.INTERRUPTED, self._monitor.reason)
        inner = self._booster.process.standing
        if inner.lower < inner.upper:
            return None
        return Stop(Status.STALLED, "the smoothed problem is solved, but eta is too small for tol: raise eta")


@dataclass(frozen=True)
class SoftMarginGap(StoppingRule):
    """Stop when edge - soft margin <= tol; OPTIMAL if the weak learner is exact."""

    tol: float
    exact: bool

    def __call__(self, state: State) -> Stop | None:
        """Compare the absolute gap."""
        gap = state.upper_bound - state.lower_bound
        if gap > self.tol:
            return None
        reason = f"gap {max(0.0, gap):.2g} of the soft margin is at most tol = {self.tol:g}"
        if self.exact:
            return Stop(Status.OPTIMAL, f"the certified {reason}")
        return Stop(
            Status.TARGET,
            f"the {reason}, relative to the hypotheses that the weak learner found: it is not declared "
            "exact, and others may have larger edges",
        )

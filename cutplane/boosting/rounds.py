"""The rounds of boosting, whatever the method: certify the ensemble, record, stop."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from cutplane.boosting.ensemble import Ensemble
from cutplane.boosting.result import BoostingResult
from cutplane.callbacks import Callback, Log, progress_display
from cutplane.exceptions import OracleError
from cutplane.history import History
from cutplane.sets.simplex import CappedSimplex
from cutplane.state import State
from cutplane.status import Status
from cutplane.stopping import Stop
from cutplane.validation import Array

if TYPE_CHECKING:
    from cutplane.boosting.early_stopping import EarlyStopping
    from cutplane.boosting.methods import Booster, BoostingMethod
    from cutplane.boosting.pool import Pool
    from cutplane.boosting.soft_margin import SoftMargin
    from cutplane.boosting.weak_learner import EdgeOracle


def soft_margin(margins: Array, nu: float) -> float:
    """Return the mean of the nu least margins: min over d in the capped simplex of <d, margins>."""
    return float(margins @ CappedSimplex(1.0 / nu, margins.size).minimise_linear(margins))


def boost(
    problem: SoftMargin,
    method: BoostingMethod,
    pool: Pool,
    booster: Booster,
    tol: float,
    early_stopping: EarlyStopping | None,
    callback: Callback | None,
    progress: bool,
    log: bool,
) -> BoostingResult:
    """Run the engine until the soft margin of an ensemble is certified to be within tol of the best."""
    loop = booster.loop
    best, stages, records = (-np.inf, np.empty(0)), [], []
    monitor = early_stopping.start() if early_stopping is not None else None

    def finish(stop: Stop) -> BoostingResult:
        chosen = stages[monitor.best] if monitor is not None and monitor.errors else best[1]
        margins = chosen @ pool.columns[: chosen.size]
        return BoostingResult(
            ensemble=Ensemble.of(pool.hypotheses, chosen),
            soft_margin=soft_margin(margins, problem.nu),
            edge=pool.edge,
            distribution=pool.distribution,
            margins=margins,
            is_global=pool.learner.exact,
            status=stop.status,
            reason=stop.reason,
            history=History(records),
            method=repr(method),
            nu=problem.nu,
            hypotheses=tuple(pool.hypotheses),
            stages=tuple(stages),
            problem=problem,
        )

    with progress_display(progress) as display:
        watchers = [watcher for watcher in (callback, Log() if log else None, display) if watcher is not None]
        try:
            for state in loop:
                weights = booster.weights()
                weights = weights if weights.any() else np.ones(1)
                stages.append(weights)
                value = soft_margin(weights @ pool.columns[: weights.size], problem.nu)
                best = max(best, (value, weights), key=lambda pair: pair[0])
                records.append(replace(state.record, lower_bound=best[0], upper_bound=pool.edge))
                if pool.edge - best[0] <= tol:
                    loop.stop = _closed(max(0.0, pool.edge - best[0]), tol, pool.learner)
                shown = State(records[-1], pool.distribution)
                if any([watcher(shown) is True for watcher in watchers]):
                    loop.stop = Stop(Status.INTERRUPTED, "the callback asked to stop")
                elif monitor is not None and monitor.is_enough(pool.hypotheses, stages[-1]):
                    loop.stop = Stop(Status.INTERRUPTED, monitor.reason)
        except KeyboardInterrupt:
            if not stages:
                raise
            loop.stop = Stop(Status.INTERRUPTED, "interrupted from the keyboard")
        except OracleError as error:
            if stages:
                error.result = finish(Stop(Status.INVALID_ORACLE, str(error)))
            raise
    stop = loop.stop
    assert stop is not None
    if stop.status is Status.OPTIMAL and pool.edge - best[0] > tol:
        stop = Stop(Status.STALLED, "the smoothed problem is solved, but eta is too small for tol: raise eta")
    return finish(stop)


def _closed(gap: float, tol: float, learner: EdgeOracle) -> Stop:
    if learner.exact:
        reason = f"the certified gap {gap:.2g} of the soft margin is at most tol = {tol:g}"
        return Stop(Status.OPTIMAL, reason)
    return Stop(
        Status.TARGET,
        f"the gap {gap:.2g} of the soft margin is at most tol = {tol:g}, relative to the hypotheses that the "
        "weak learner found: it is not declared exact, and others may have larger edges",
    )

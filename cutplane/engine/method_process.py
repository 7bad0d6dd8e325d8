"""A method on a problem, as a process of the driver."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from cutplane.engine.bundle import AGGREGATE
from cutplane.engine.declaration import Declaration
from cutplane.engine.driver import Standing, Turn
from cutplane.engine.evaluator import Point
from cutplane.engine.half_spaces import into_domain
from cutplane.engine.history import History
from cutplane.engine.probes import probe, probe_pieces
from cutplane.engine.run import Run
from cutplane.engine.standard import Change, SameVariables
from cutplane.engine.warm_start import confirm_origin, resume
from cutplane.exceptions import CutplaneError, InfeasibleError, OracleError
from cutplane.methods.base import Method, checked
from cutplane.pieces.capabilities import Capability, offers, users_parts
from cutplane.pieces.validation import Array
from cutplane.proof.certificate import Certificate
from cutplane.proof.dual import DualFunction
from cutplane.proof.rounding import REACH
from cutplane.result import Result
from cutplane.risks.oracle import OracleRisk
from cutplane.status import Status, relative_gap
from cutplane.stopping import Stop

_PATIENCE = 10
"""Number of iterations without progress, or of audits that do not close the gap, after which a run stalls,
because rounding errors may cause a few."""
_FEW_CALLS = 100
"""Number of oracle calls below which no advice is given, because the solve is fast enough."""
_DONE = Status.MAX_ITER, Status.STALLED, Status.TARGET
"""Statuses after which the best point is evaluated again, because the oracles work and time remains."""


class MethodProcess:
    """Evaluate the first point, x0 projected or a `Point`, then call steps of the method.

    The problem of the run may be the problem `user` after a `change` of variables; points, marks and the
    result are in the user's variables. With `probes`, a black box is called a few more times before the
    status is OPTIMAL. The cuts of `warm_start` are reused where they are valid.
    """

    def __init__(
        self,
        run: Run,
        x0: Array | Point | None = None,
        warm_start: Result | None = None,
        probes: bool = True,
        user: Declaration | None = None,
        change: Change | SameVariables | None = None,
    ):
        self.run, self.problem = run, run.problem
        self.user, self.change = user or run.problem, change
        self.x0, self.warm_start, self.probes = x0, warm_start, probes
        self.method_state: Any = None
        self._begun = False
        self._idle = self._unproven = 0
        self._last_note = ""
        self._users_best: tuple[Array, Point] | None = None
        self._unconfirmed: dict[int, int] = {}

    @property
    def started(self) -> bool:
        """Whether a first point was evaluated, so that there is a result."""
        return hasattr(self.run, "first")

    @property
    def standing(self) -> Standing:
        """Bounds, counts and seconds; the best point and marks in the user's variables."""
        run, x, marks = self.run, None if self.run.best is None else self.run.best.x, self.run.marks
        if self.change is not None:
            outward = self.change.outward
            x = None if x is None else outward(x)
            marks = [mark._replace(points=tuple(map(outward, mark.points))) for mark in marks]
        return Standing(
            lower=run.lower,
            upper=run.upper,
            x=x,
            n_cuts=len(run.bundle),
            oracle_calls=run.evaluator.calls,
            separations=run.evaluator.separations,
            oracle_seconds=run.evaluator.seconds,
            master_seconds=run.solver.seconds,
            note="; ".join(run.solver.notes),
            scale=run.scale,
            marks=tuple(marks),
        )

    def step(self) -> Turn:
        """Evaluate the first point, or do an iteration of the method."""
        run = self.run
        run.solver.notes, run.marks = [], []
        if not self._begun:
            self._begun = True
            if self.warm_start is not None:
                self._unconfirmed = resume(run, self.warm_start.certificate)
            else:
                run.first = self._first()
            self.method_state = run.method.start(run)
            return Turn("start")
        run.exact, run.solver.idle = self._idle > 0, self._idle > 1
        run.moved = False
        try:
            step = checked(run.method, run.method.step(run, self.method_state))
        except OracleError as error:
            if error.__cause__ is None and self.probes:
                probe_pieces(run)  # an error of a user's set or regularizer may explain the contradiction
            raise
        self.method_state = step.state
        self._idle = 0 if run.moved else self._idle + 1
        self._last_note = "; ".join(run.solver.notes) or self._last_note
        if step.finished is not None:
            return Turn(step.kind, Stop(Status.STALLED, step.finished))
        if self._idle < _PATIENCE:
            return Turn(step.kind)
        reason = (
            f"for {_PATIENCE} iterations neither bound moved and no cut changed the model beyond rounding"
        )
        return Turn(step.kind, Stop(Status.STALLED, "; ".join(filter(None, [reason, self._last_note]))))

    def confirm(self, stop: Stop) -> Stop | None:
        """Confirm the proof by further calls of the oracle; return None if the gap is open again."""
        run = self.run
        if self.warm_start is not None and self._unconfirmed:
            confirm_origin(run, self.warm_start.certificate, self._unconfirmed)
        upper = run.upper
        run.evaluate_best_again()
        optimal = stop.status is Status.OPTIMAL
        if optimal and run.upper > upper and not run.closed:
            run.evaluator.combines = False
            return None
        lower = self._true_lower() if optimal else run.lower
        if lower < run.lower and (gap := run.upper - lower) > run.tolerance(run.upper):
            self._unproven += 1
            run.offer_known(lower, run.proof)  # so that a bound with a better proof can replace this one
            run.dual.forget()
            reason = f"rounding errors of float64 leave a gap of {gap:.2g}"
            return None if self._unproven <= _PATIENCE else Stop(Status.STALLED, reason)
        if not run.problem.risk.exact:
            return Stop(Status.TARGET, f"{stop.reason}, relative to what the oracle finds")
        if self.probes:
            probe_pieces(run)
            if count := probe(run):
                reason = f"{stop.reason}; {count} probes of the oracle found no mistake"
                stop = Stop(stop.status, reason)
        best = self._best()
        if not optimal or self.change is None or best is None:
            return stop
        if best.objective - run.lower <= run.tolerance(best.objective):
            return stop
        gap = relative_gap(run.lower, best.objective, run.scale)
        far = self.change.farthest(self.change.outward(best.x))
        reason = (
            f"the intercept is {far:.3g} in units of the data, and its last bit is worth a gap of {gap:.2g}"
        )
        return Stop(Status.STALLED, reason)

    def _best(self) -> Point | None:
        """Return the best point, evaluated after rounding in the user's variables."""
        best = self.run.best
        if best is None or self.change is None:
            return best
        if self._users_best is None or self._users_best[0] is not best.x:
            x = self.change.inward(self.change.outward(best.x))
            self._users_best = best.x, self.run.evaluator.point(x)
        return self._users_best[1]

    def result(self, stop: Stop, history: History) -> Result:
        """Return the best point, the bounds and their proof.

        The bounds of a user's method are computed again from its multipliers and the oracles, because such a
        method may change any attribute of the run.
        """
        run = self.run
        if stop.status is not Status.OPTIMAL and self.method_state is not None:
            with suppress(CutplaneError):
                run.method.finish(run, self.method_state)
        if stop.status in _DONE:
            run.evaluate_best_again()
        rows, origins = run.bundle.evidence(run.proof)
        certificate = Certificate(
            **rows._asdict(),
            **origins._asdict(),
            x=run.best.x if run.best is not None else None,
            lower_bound=self._true_lower(),
            upper_bound=run.upper,
            risk_value=float(run.best.values.sum()) if run.best is not None else math.inf,
            scale=run.scale,
            problem=self.problem,
        )
        history = history.ending(certificate.lower_bound)
        if users_parts(run.method, Method):
            found = certificate.verify()
            certificate = replace(certificate, lower_bound=min(certificate.lower_bound, found.lower_bound))
            if not found.valid:
                certificate = replace(certificate, upper_bound=found.upper_bound)
                reason = f"the bounds of {run.method.name} are not confirmed: {'; '.join(found.problems)}"
                stop = Stop(Status.INVALID_ORACLE, reason)
        if self.change is not None:
            if (best := self._best()) is not None:
                value = float(best.values.sum())
                certificate = replace(certificate, x=best.x, upper_bound=best.objective, risk_value=value)
            certificate = self.change.certificate_outward(certificate, self.user)
        calls, advice = run.evaluator.calls, ""
        if isinstance(self.problem.risk, OracleRisk) and calls > max(_FEW_CALLS, self.problem.dim):
            advice = (
                f"{calls} calls of a function whose form is hidden: declared as a LinearRisk, a cvxpy "
                "expression or a sum of such pieces, it would be solved with fewer passes"
            )
        return Result(
            certificate=certificate,
            status=stop.status,
            reason="; ".join(filter(None, [stop.reason, self.problem.order, advice])),
            history=history,
            method=run.method.describe(self.method_state),
            backend=run.solver.names,
            max_cuts=run.bundle.max_cuts,
        )

    def _true_lower(self) -> float:
        """Return the lower bound that the rows of the certificate prove, which has no aggregates.

        Intervals of free coordinates that other rows imply are not used.
        """
        run = self.run
        if run.lower == -math.inf or run.dual.simple is None:
            return run.lower
        if not (run.dual.remembers or (run.bundle.queries == AGGREGATE).any()):
            return run.lower
        rows, _ = run.bundle.evidence(run.proof)
        reach = 0.0 if run.best is None else REACH * run.best.extent
        used = np.flatnonzero(rows.multipliers > 0.0)
        given = rows.slopes[used], rows.offsets[used], rows.blocks[used], rows.multipliers[used]
        return min(run.lower, DualFunction(self.problem)(*given, run.upper, reach=reach).value)

    def _first(self) -> Point:
        """Evaluate the first point, or find a finite one by a solver if x0 is not given."""
        run, problem = self.run, self.problem
        pieces = problem.risk, problem.active_regularizer
        if isinstance(self.x0, Point):
            return run.offer(self.x0)
        try:
            first = into_domain(problem, run.bundle, run.cut_off, problem.starting_point(self.x0))
            return run.query(first) if run.method.first_cut else run.evaluate(first)
        except OracleError:
            if self.x0 is not None or not all(offers(piece, Capability.CVXPY) for piece in pieces):
                raise
            x = run.solver.whole(problem.risk, run.tol).x
            if x is None:
                from cutplane.masters.certificates import is_nowhere_finite

                stated = offers(problem.simple_set, Capability.CVXPY)
                if stated and is_nowhere_finite(pieces, problem.simple_set, problem.dim):
                    message = "the objective is inf at every point of the feasible set"
                    raise InfeasibleError(message) from None
                raise
        return run.query(problem.into_simple_set(x))

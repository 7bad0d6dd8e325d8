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
from cutplane.methods.base import Method, Step, checked
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
_FEW_CALLS = 100
"""Calls up to which nothing is advised, because a solve ends in the time of reading the advice."""
_DONE = Status.MAX_ITER, Status.STALLED, Status.TARGET
"""Statuses after which the oracles answer and there is time to evaluate the best point again."""


class MethodProcess:
    """Evaluates the first point, then does steps of the method.

    Parameters
    ----------
    run : Run
    x0 : ndarray of shape (dim,), Point or None
        Where the first query is, projected; by default the point of X nearest to zero. A point is evaluated.
    warm_start : Result or None
        Its cuts are reused as far as they are valid.
    probes : bool, default True
        Whether a black box is asked a few questions more before the word OPTIMAL is given.
    user : Problem, optional
        The problem as its user states it. Points, marks and the result are in its variables; by default it is
        the problem of the run.
    change : Change or SameVariables, optional
        The change from the user's variables to the variables of the run, if they differ.
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
        self.x0 = x0
        self.warm_start = warm_start
        self.probes = probes
        self.method_state: Any = None
        self._begun = False
        self._idle = self._unproven = 0
        self._last_note = ""
        self._unconfirmed: dict[int, int] = {}
        self._users_best: tuple[Array, Point] | None = None

    @property
    def started(self) -> bool:
        """Whether a first point was evaluated, so that there is something to return."""
        return hasattr(self.run, "first")

    @property
    def standing(self) -> Standing:
        """Bounds, counts and seconds; best point and marks in the user's variables."""
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
            return self._begin()
        run.exact, run.solver.idle = self._idle > 0, self._idle > 1
        run.moved = False
        step = self._stepped()
        self.method_state = step.state
        self._idle = 0 if run.moved else self._idle + 1
        self._last_note = "; ".join(run.solver.notes) or self._last_note
        finished = None if step.finished is None else Stop(Status.STALLED, step.finished)
        return Turn(step.kind, finished or self._stalled())

    def _stepped(self) -> Step:
        """Do an iteration; a contradiction may come from a user's set or regularizer rather than the risk."""
        try:
            return checked(self.run.method, self.run.method.step(self.run, self.method_state))
        except OracleError as error:
            if error.__cause__ is None and self.probes:
                probe_pieces(self.run)
            raise

    def confirm(self, stop: Stop) -> Stop | None:
        """Confirm the proof by questions to the oracle, and say how many; None if the gap is open again."""
        if self.warm_start is not None and self._unconfirmed:
            confirm_origin(self.run, self.warm_start.certificate, self._unconfirmed)
        upper = self.run.upper
        self.run.evaluate_best_again()
        if stop.status is Status.OPTIMAL and self.run.upper > upper and not self.run.closed:
            self.run.evaluator.combines = False
            return None
        if stop.status is Status.OPTIMAL and (gap := self._open_gap()) > 0.0:
            self._unproven += 1
            reason = f"rounding errors of float64 leave a gap of {gap:.2g}"
            return None if self._unproven <= _PATIENCE else Stop(Status.STALLED, reason)
        if not self.run.problem.risk.exact:
            return Stop(Status.TARGET, f"{stop.reason}, relative to what the oracle finds")
        if self.probes:
            probe_pieces(self.run)
        count = probe(self.run) if self.probes else 0
        if count:
            stop = Stop(stop.status, f"{stop.reason}; {count} probes of the oracle found no mistake")
        return stop if self.change is None else self._confirmed_outside(stop, self.change)

    def _confirmed_outside(self, stop: Stop, change: Change | SameVariables) -> Stop:
        """Confirm the proof for the best point as its user gets it: with an intercept that is rounded."""
        run, best = self.run, self._best()
        if stop.status is not Status.OPTIMAL or best is None:
            return stop
        if best.objective - run.lower <= run.tolerance(best.objective):
            return stop
        gap, far = (
            relative_gap(run.lower, best.objective, run.scale),
            change.farthest(change.outward(best.x)),
        )
        return Stop(
            Status.STALLED,
            f"the intercept is {far:.3g} in units of the data, and its last bit is worth a gap of {gap:.2g}",
        )

    def _best(self) -> Point | None:
        """Return the best point, evaluated where its rounding in the user's variables puts it."""
        best = self.run.best
        if best is None or self.change is None:
            return best
        if self._users_best is None or self._users_best[0] is not best.x:
            x = self.change.inward(self.change.outward(best.x))
            self._users_best = best.x, self.run.evaluator.point(x)
        return self._users_best[1]

    def result(self, stop: Stop, history: History) -> Result:
        """Return the best point, the bounds and their proof.

        The bounds of a user's method are recomputed from its multipliers and the oracles, because it may call
        or change anything within its reach.
        """
        if stop.status is not Status.OPTIMAL and self.method_state is not None:
            with suppress(CutplaneError):
                self.run.method.finish(self.run, self.method_state)
        if stop.status in _DONE:
            self.run.evaluate_best_again()
        certificate = self._certificate()
        history = history.ending(certificate.lower_bound)
        if users_parts(self.run.method, Method):
            found = certificate.verify()
            lower = min(certificate.lower_bound, found.lower_bound)
            certificate = replace(certificate, lower_bound=lower)
            if not found.valid:
                certificate = replace(certificate, upper_bound=found.upper_bound)
                reason = (
                    f"the bounds of {self.run.method.name} are not confirmed: {'; '.join(found.problems)}"
                )
                stop = Stop(Status.INVALID_ORACLE, reason)
        if self.change is not None:
            best = self._best()
            if best is not None:
                value = float(best.values.sum())
                certificate = replace(certificate, x=best.x, upper_bound=best.objective, risk_value=value)
            certificate = self.change.certificate_outward(certificate, self.user)
        return Result(
            certificate=certificate,
            status=stop.status,
            reason="; ".join(filter(None, [stop.reason, self.problem.order, self._advice()])),
            history=history,
            method=self.run.method.describe(self.method_state),
            backend=self.run.solver.names,
            max_cuts=self.run.bundle.max_cuts,
        )

    def _advice(self) -> str:
        """Return one sentence on a faster way to state a black box that took many calls; "" else."""
        calls, dim = self.run.evaluator.calls, self.problem.dim
        if not isinstance(self.problem.risk, OracleRisk) or calls <= max(_FEW_CALLS, dim):
            return ""
        return (
            f"{calls} calls of a function whose form is hidden: declared as a LinearRisk, a cvxpy expression "
            "or a sum of such pieces, it would be solved with fewer passes"
        )

    def _open_gap(self) -> float:
        """Return the gap of the certificate if it is too large, and larger than the run's; else 0."""
        run, lower = self.run, self._true_lower()
        gap = run.upper - lower
        return gap if lower < run.lower and gap > run.tolerance(run.upper) else 0.0

    def _true_lower(self) -> float:
        """Return the lower bound that the rows of the certificate prove, which have no aggregates.

        Intervals of free coordinates that other rows proved do not count.
        """
        run = self.run
        if run.lower == -math.inf or run.dual.simple is None:
            return run.lower
        if not (run.dual.remembers or (run.bundle.queries == AGGREGATE).any()):
            return run.lower
        rows, _ = run.bundle.evidence(run.proof)
        dual = DualFunction(self.problem)
        reach = 0.0 if run.best is None else REACH * run.best.extent
        used = np.flatnonzero(rows.multipliers > 0.0)
        given = rows.slopes[used], rows.offsets[used], rows.blocks[used], rows.multipliers[used]
        return min(run.lower, dual(*given, run.upper, reach=reach).value)

    def _certificate(self) -> Certificate:
        """Return the proof of the bounds so far."""
        run = self.run
        rows, origins = run.bundle.evidence(run.proof)
        return Certificate(
            **rows._asdict(),
            **origins._asdict(),
            x=run.best.x if run.best is not None else None,
            lower_bound=self._true_lower(),
            upper_bound=run.upper,
            risk_value=float(run.best.values.sum()) if run.best is not None else math.inf,
            scale=run.scale,
            problem=self.problem,
        )

    def _begin(self) -> Turn:
        run = self.run
        if self.warm_start is not None:
            self._unconfirmed = resume(run, self.warm_start.certificate)
        else:
            run.first = self._first()
        self.method_state = run.method.start(run)
        return Turn("start")

    def _first(self) -> Point:
        """Evaluate the first point; where the objective is inf at a default one, solve for one inside."""
        run, pieces = self.run, (self.run.problem.risk, self.run.problem.active_regularizer)
        if isinstance(self.x0, Point):
            run.offer(self.x0)
            return self.x0
        try:
            first = into_domain(run.problem, run.bundle, run.cut_off, run.problem.starting_point(self.x0))
            return run.query(first) if run.method.first_cut else run.evaluate(first)
        except OracleError:
            if self.x0 is not None or not all(offers(piece, Capability.CVXPY) for piece in pieces):
                raise
            x = run.solver.whole(run.problem.risk, run.tol).x
            if x is None:
                self._refuse_if_nowhere_finite()
                raise
        return run.query(run.problem.into_simple_set(x))

    def _refuse_if_nowhere_finite(self) -> None:
        from cutplane.masters.certificates import is_nowhere_finite

        problem = self.problem
        terms = problem.risk, problem.active_regularizer
        if offers(problem.simple_set, Capability.CVXPY) and is_nowhere_finite(
            terms, problem.simple_set, problem.dim
        ):
            raise InfeasibleError("the objective is inf at every point of the feasible set")

    def _stalled(self) -> Stop | None:
        if self._idle < _PATIENCE:
            return None
        reason = (
            f"for {_PATIENCE} iterations neither bound moved and no cut changed the model beyond rounding"
        )
        return Stop(Status.STALLED, f"{reason}; {self._last_note}" if self._last_note else reason)

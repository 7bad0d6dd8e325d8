"""The process of a problem in standard variables, as its user sees it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cutplane.engine.declaration import Declaration
from cutplane.engine.driver import Standing, Turn
from cutplane.engine.evaluator import Point
from cutplane.engine.held import SameVariables
from cutplane.engine.history import History
from cutplane.engine.method_process import MethodProcess
from cutplane.engine.run import Run
from cutplane.engine.standard import Change
from cutplane.pieces.validation import Array
from cutplane.result import Result
from cutplane.status import Status, relative_gap
from cutplane.stopping import Stop


class InUsersUnits:
    """A process of a standard problem; points, marks and the result are in the user's variables.

    Parameters
    ----------
    process : MethodProcess
        It solves the standard problem.
    problem : Problem
        The user's.
    change : Change or SameVariables
    """

    def __init__(self, process: MethodProcess, problem: Declaration, change: Change | SameVariables):
        self.process = process
        self.problem = problem
        self.change = change
        self._rounded: tuple[Array, Point] | None = None

    @property
    def run(self) -> Run:
        """The run that solves the standard problem."""
        return self.process.run

    @property
    def method_state(self) -> Any:
        """The state of the method after the last iteration."""
        return self.process.method_state

    @property
    def started(self) -> bool:
        """Whether a first point was evaluated."""
        return self.process.started

    @property
    def standing(self) -> Standing:
        """Bounds, counts and seconds; best point and marks in the user's variables."""
        now, outward = self.process.standing, self.change.outward
        marks = tuple(mark._replace(points=tuple(map(outward, mark.points))) for mark in now.marks)
        return now._replace(x=None if now.x is None else outward(now.x), marks=marks)

    def step(self) -> Turn:
        """Do the next step."""
        return self.process.step()

    def confirm(self, stop: Stop) -> Stop | None:
        """Confirm the proof for the best point as its user gets it: with an intercept that is rounded."""
        confirmed, run = self.process.confirm(stop), self.run
        best = self._best()
        if confirmed is None or confirmed.status is not Status.OPTIMAL or best is None:
            return confirmed
        if best.objective - run.lower <= run.tolerance(best.objective):
            return confirmed
        gap = relative_gap(run.lower, best.objective, self.process.standing.scale)
        far = self.change.farthest(self.change.outward(best.x))
        return Stop(
            Status.STALLED,
            f"the intercept is {far:.3g} in units of the data, and its last bit is worth a gap of {gap:.2g}",
        )

    def result(self, stop: Stop, history: History) -> Result:
        """Return the best point, the bounds and their proof."""
        result, best = self.process.result(stop, history), self._best()
        proof = result.certificate
        if best is not None:
            value = float(best.values.sum())
            proof = replace(proof, x=best.x, upper_bound=best.objective, risk_value=value)
        return replace(result, certificate=self.change.certificate_outward(proof, self.problem))

    def _best(self) -> Point | None:
        """Return the best point, evaluated where its rounding in the user's variables puts it."""
        best = self.run.best
        if best is None:
            return None
        if self._rounded is None or self._rounded[0] is not best.x:
            x = self.change.inward(self.change.outward(best.x))
            self._rounded = best.x, self.run.evaluator.point(x)
        return self._rounded[1]

"""Newton steps with the method of multipliers, seen from a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.pieces.validation import Array

if TYPE_CHECKING:
    from cutplane.engine.evaluator import Point
    from cutplane.engine.run import Run

_CLOSE = 0.1
_FAR = 10.0


class NewtonSteps:
    """A sequence of points of its own, which starts from the best one of the run.

    Every point is offered to the run, and multipliers whose cut raises the lower bound are added to it.

    Parameters
    ----------
    method : object
        What a risk returned from `multiplier_method`.
    point : Point
        An evaluated point.
    """

    def __init__(self, method: Any, point: Point):
        self.method = method
        self.point = point

    def step(self, run: Run) -> bool:
        """Do one step; return False if rounding errors leave none."""
        method, point = self.method, self.point
        z = np.asarray(point.image)
        distance, error = run.timed(method.look, point.x, z, float(point.values.sum()), queries=1)
        self._add_cut(run, distance <= max(error, _CLOSE * (run.upper - run.lower)))
        if run.closed:
            return True
        run.timed(method.advance, z)
        step = run.timed(method.direction, point.x)
        if step is None:
            return False
        target = run.evaluate(point.x + step)
        t = run.timed(method.step_length, point.x, step, z, np.asarray(target.image))
        if t == 0.0:
            return False
        if t > _FAR:  # an image extrapolated that far has lost digits
            self.point = run.evaluate(point.x + t * step)
        else:
            self.point = run.between(point, target, t) if t != 1.0 else target
        run.proceed()
        return True

    def _add_cut(self, run: Run, close: bool) -> None:
        slopes, offset = self.method.slopes, self.method.offset
        if not np.isfinite(offset):
            return
        free = run.safe.dual.free
        if close if free.size else (self._bound(slopes, offset) > run.lower):
            run.add_dual_cut(self.method.multipliers, (slopes[np.newaxis], np.array([offset])))

    def _bound(self, slopes: Array, offset: float) -> float:
        weights, centre = self.method.quadratic.weights, self.method.quadratic.centre
        return offset + float(slopes @ centre) - 0.5 * float(slopes @ (slopes / weights))

"""Calls of the oracles in a solve: their times, and evaluations on a line by combined images."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.exceptions import OracleError
from cutplane.pieces.answers import describe, is_finite, name_of, own_floats
from cutplane.pieces.capabilities import Capability, ability, offers
from cutplane.pieces.lines import Line
from cutplane.pieces.validation import Array
from cutplane.proof.oracle import Oracle, Point
from cutplane.proof.rounding import EPS
from cutplane.risks.base import ImagedRisk
from cutplane.runtime.clock import clock
from cutplane.runtime.threads import usual_blas_threads

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.pieces.forms import DiagonalQuadratic

_FAR = 2.0
"""Largest |t| of an extrapolated image z0 + t (z1 - z0), because errors grow with |t|."""
_DRIFTED = 1e-13
"""Relative error above which a combined image is computed again, because slopes should be exact to 1e-9 even
where scores cancel; a few hundred combinations stay below it."""
_SHORT = 2e-4
"""Seconds below which a user's oracle is called with one thread of BLAS, because changing the number takes
microseconds, and short products gain nothing."""


class Evaluator(Oracle):
    """All calls of the oracles of a problem in a solve."""

    def __init__(self, problem: Declaration):
        super().__init__(problem)
        self.combines = True
        """Whether images on a line are combined: fast, but with other rounding errors than a pass over the
        data."""
        self.seconds = 0.0
        users = problem.risk.black_box or problem.separators
        self._is_users = bool(users)
        self._took = math.inf  # seconds of the last call of an oracle

    def between(self, start: Point, end: Point, t: float, accuracy: float = 0.0) -> Point:
        """Evaluate start + t (end - start), without a pass over the data if the risk has images.

        Each combination adds a rounding error; an image with a large error is computed again.
        """
        x = start.x + t * (end.x - start.x)
        risk = self.risk
        drift = _drift(start, end, t, x) if self.imaged else np.inf
        if not isinstance(risk, ImagedRisk) or drift > _DRIFTED or not self.combines:
            return self.point(x, accuracy)
        image = self._call(risk.combine, start.image, end.image, t)
        values = self._values(self._call(risk.values, image), x)
        objective = float(values.sum()) + self.problem.regularizer.value(x)
        return Point(x, objective, values, image, drift=drift)

    def line(self, start: Point, end: Point) -> Line:
        """Return the objective on the line through two points, for a risk with images."""
        assert isinstance(self.risk, ImagedRisk)
        line = self._call(self.risk.line, start.image, end.image)
        return line + self.problem.regularizer.line(start.x, end.x)

    def curvature(self, x: Array, direction: Array) -> float:
        """Return c with f(x + t direction) <= f(x) + t <f'(x), direction> + c t^2 / 2 for all t in [0, 1]."""
        risk: Any = self.risk
        bound = self._call(risk.curvature_bound, x, direction)
        if not 0.0 <= bound < np.inf:
            raise OracleError(f"The curvature bound of {name_of(self.risk)} is {bound}, not a number >= 0.")
        return float(bound)

    def minimiser(self, quadratic: DiagonalQuadratic) -> Array | None:
        """Return the minimiser of f(x) + quadratic(x) in closed form; None if the risk has none."""
        risk: Any = self.risk
        x = self._call(risk.minimise_with, quadratic)
        if x is None:
            return None
        array, shape = own_floats(x), (self.problem.dim,)
        if array is None or array.shape != shape or not is_finite(array):
            raise OracleError(
                f"{name_of(risk)}.minimise_with must return a finite point of shape "
                f"{shape} or None, got {describe(x)}."
            )
        return array

    @property
    def knows_nearby(self) -> bool:
        """Whether a separation oracle can propose a point of its set."""
        return any(offers(separator, Capability.NEARBY) for separator in self.problem.separators)

    def nearby(self, x: Array) -> Array | None:
        """Return a point of X close to x that a separation oracle proposes; None if none does."""
        for separator in self.problem.separators:
            function = ability(separator, Capability.NEARBY)
            if function is None:
                continue
            found = self._call(function, x)
            if found is not None and np.shape(found) != x.shape:
                raise OracleError(
                    f"{name_of(separator)}.nearby must return a point of shape {x.shape} or None, got "
                    f"{describe(found)}."
                )
            if found is not None and self.problem.in_simple_set(found) and not len(self.separate(found)):
                return found
        return None

    def _call(self, function: Any, *arguments: Any) -> Any:
        start = clock()
        try:
            if not self._is_users or self._took < _SHORT:
                return super()._call(function, *arguments)
            with usual_blas_threads():
                return super()._call(function, *arguments)
        finally:
            self._took = clock() - start
            self.seconds += self._took


def _drift(start: Point, end: Point, t: float, x: Array) -> float:
    """Return a bound of the relative error of a combined image; it is large if the terms cancel."""
    if not -_FAR <= t <= _FAR:
        return np.inf
    size = float(np.abs(x).max())
    if size == 0.0:
        return np.inf
    inherited = abs(1.0 - t) * start.extent * start.drift + abs(t) * end.extent * end.drift
    rounding = EPS * (start.extent + abs(t) * (start.extent + end.extent))  # of z0 + t (z1 - z0)
    return (inherited + rounding) / size

"""Linear predictors along a path: each weight starts from the point and the models of the previous weight."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from cutplane.linear.descent import LineDescent
from cutplane.linear.moves import CoordinateDescent, has_bends, newton_suits, usual_cost_of_newton
from cutplane.linear.multiplier_method import MultiplierMethod, Steps, walk
from cutplane.linear.predictor import predictions, predictor_of, regularized
from cutplane.linear.terms import terms_of
from cutplane.linear.working_set import PER_PRODUCT
from cutplane.methods.estimates import suits
from cutplane.pieces.capabilities import Capability, offers
from cutplane.pieces.validation import Array

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.linear.predictor import LinearPredictor

_PASSES = 30.0
"""Number of passes over the data that a Gram matrix may cost, because a path has many weights."""
_LONGEST = 10.0
"""Usual solves that Newton steps at one weight may cost, because other methods are faster beyond it."""


class LinearFollower:
    """Coordinate descent from weight to weight, which keeps the point and the Gram matrix of few columns."""

    def __init__(self, problem: Declaration, x0: Array | None = None):
        risk: Any = predictor_of(problem)
        x = problem.starting_point(x0)
        self._descent = LineDescent(problem, x, predictions(risk, x))
        self._free = self._descent.terms.free
        self._descent.compresses = _few_columns(risk)
        self._descent.price = 0.0
        self._known: list[tuple[float, Array, Array]] = []

    @property
    def x(self) -> Array:
        """The current point."""
        return self._descent.position.x

    def solve(self, problem: Declaration, tolerance: Callable[[float], float]) -> tuple[Array, Array] | None:
        """Return a point and multipliers of the examples whose gap should be within the tolerance."""
        descent, terms = self._descent, terms_of(problem, groups=True)
        if terms is None or not np.array_equal(terms.free, self._free):
            return None
        descent.set_terms(terms)
        lam = problem.regularizer.lam
        lams = {known[0] for known in self._known} | {lam}
        different = len(lams) == len(self._known) + 1 > 2 and min(lams) > 0.0
        if not descent.examples.quadratic and different:
            self._extrapolate(lam)
        _, factor, r = descent.approach(tolerance)
        self._known = [*self._known[-2:], (lam, descent.position.x.copy(), descent.position.z)]
        return self._known[-1][1], factor * descent.examples.unweighted(r)

    def _extrapolate(self, lam: float) -> None:
        """Extrapolate the last points by a polynomial in log(lam), if this decreases the objective."""
        position, terms = self._descent.position, self._descent.terms
        logs = [math.log(known[0] / lam) for known in self._known]
        shares = [math.prod(other / (other - mine) for other in logs if other != mine) for mine in logs]
        x, z = (np.dot(shares, np.array([known[k] for known in self._known])) for k in (1, 2))
        if not terms.smooth:
            x[(x * position.x <= 0.0) & (terms.costs > 0.0)] = 0.0
            x = np.clip(x, terms.low, terms.high)
            z = predictions(self._descent.risk, x)
        before = self._descent.objective
        position.x, position.z, kept = x, z, (position.x, position.z)
        if not self._descent.objective < before:
            position.x, position.z = kept


class NewtonFollower:
    """Newton steps of the method of multipliers from weight to weight, from the last point."""

    def __init__(self, problem: Declaration, x0: Array | None = None):
        form: Any = regularized(problem)
        self.x = problem.starting_point(x0)
        self._z = predictions(form.risk, self.x)
        self._method = MultiplierMethod(form.risk, form.quadratic, None, self._z, math.inf)

    def solve(self, problem: Declaration, tolerance: Callable[[float], float]) -> tuple[Array, Array] | None:
        """Return a point and multipliers of the examples whose gap should be within the tolerance."""
        form = regularized(problem)
        if form is None:
            return None
        if form.quadratic is not self._method.quadratic:
            self._method.set_quadratic(form.quadratic, self.x, self._z)
        steps = Steps(self.x, self._z)
        walk(self._method, steps, tolerance, _LONGEST * usual_cost_of_newton(form))
        self.x, self._z = steps.x, steps.z
        return None if steps.cut is None else (steps.best, steps.cut[0])


def can_step(problem: Declaration) -> bool:
    """Tell whether `NewtonFollower` suits: losses with kinks, all coordinates squared, few dense columns.

    With sparse or wide data, epochs of coordinate ascent take less time than a Newton step; with a free
    intercept, the multipliers give no bound.
    """
    form = regularized(problem)
    if form is None or not form.quadratic.is_strict or math.isfinite(form.risk.loss.smoothness):
        return False
    return _few_columns(form.risk) and not sparse.issparse(form.risk.X) and newton_suits(form.risk)


def can_follow(problem: Declaration) -> bool:
    """Tell whether `LinearFollower` suits: losses without kinks, and terms of `CoordinateDescent`, or L2.

    With kinks, models cannot be reused, because the examples near kinks change from weight to weight.
    """
    risk, terms = predictor_of(problem), terms_of(problem)
    if risk is None or not has_bends(risk) or not math.isfinite(risk.loss.smoothness):
        return False
    if suits(CoordinateDescent(), problem):
        return True
    return (
        _few_columns(risk)
        and terms is not None
        and terms.smooth
        and not terms.free.all()
        and offers(problem.risk, Capability.DUAL_CUT)
    )


def _few_columns(risk: LinearPredictor) -> bool:
    """Tell whether a Gram matrix of all columns saves time along a path."""
    m, n = risk.X.shape
    return n < m and n <= _PASSES / PER_PRODUCT

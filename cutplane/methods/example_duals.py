"""What a problem offers through the multipliers of its examples: dual ascent, the method of multipliers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.pieces.capabilities import Capability, LinearPredictor, ability, offers
from cutplane.pieces.validation import Array

if TYPE_CHECKING:
    from cutplane.engine.evaluator import Point
    from cutplane.engine.run import Run


def offers_dual_ascent(run: Run) -> bool:
    """Tell whether the risk offers it and the regularizer has equal weights, but for a bias."""
    quadratic = _quadratic(run, Capability.DUAL_ASCENT)
    return quadratic is not None and np.ptp(quadratic.weights[: _n_features(run)]) == 0.0


def offers_multiplier_method(run: Run) -> bool:
    """Tell whether the risk offers it and the regularizer has positive weights, but for a bias."""
    return _quadratic(run, Capability.MULTIPLIER_METHOD) is not None


def direct_minimiser(run: Run) -> Array | None:
    """Return the minimiser of a problem that is one linear system; None if it is not, or a singular one."""
    quadratic = _quadratic(run, Capability.MINIMISER)
    return None if quadratic is None else run.evaluator.minimiser(quadratic)


def dual_ascent(run: Run) -> Any:
    """Return coordinate ascent on the dual of the problem, from known multipliers."""
    risk: Any = run.problem.risk
    return risk.dual_ascent(_quadratic(run, Capability.DUAL_ASCENT), known_multipliers(run))


def multiplier_method(run: Run, point: Point) -> Any:
    """Return the method of multipliers, from known multipliers and an evaluated point."""
    quadratic = _quadratic(run, Capability.MULTIPLIER_METHOD)
    gap = point.objective - run.lower
    risk: Any = run.problem.risk
    size = gap if math.isfinite(gap) else abs(point.objective)
    return risk.multiplier_method(quadratic, known_multipliers(run), point.image, size)


def known_multipliers(run: Run) -> Array | None:
    """Return the multipliers of the examples, shape (m,), that the last dual cut came from."""
    duals = run.bundle.duals
    return duals[max(duals)] if duals else None


def _n_features(run: Run) -> int:
    risk = run.problem.risk
    return run.problem.dim - int(isinstance(risk, LinearPredictor) and risk.intercept)


def _quadratic(run: Run, capability: Capability) -> Any:
    """Return the regularizer, if it is all there is beside a risk with the capability."""
    problem, regularizer = run.problem, run.problem.active_regularizer
    form = ability(regularizer, Capability.QUADRATIC)
    if form is None or not problem.is_unconstrained or not offers(problem.risk, capability):
        return None
    quadratic = form(problem.dim)
    n = _n_features(run)
    return quadratic if quadratic is not None and n and quadratic.weights[:n].all() else None

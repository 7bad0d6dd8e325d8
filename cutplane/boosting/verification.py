"""The check of a boosting result from the examples and the weak learner alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cutplane.boosting.rounds import soft_margin
from cutplane.boosting.weak_learner import margins_of
from cutplane.engine.certificate import Verification
from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import Array
from cutplane.sets.simplex import CappedSimplex
from cutplane.status import Status

if TYPE_CHECKING:
    from cutplane.boosting.result import BoostingResult
    from cutplane.boosting.soft_margin import SoftMargin

_AGREEMENT = 1e-9
"""Margins are in [-1, 1], and sums of numbers of sum 1: what rounding and ties between hypotheses leave."""


def verify(result: BoostingResult, problem: SoftMargin | None) -> Verification:
    """Do what `BoostingResult.verify` says."""
    if problem is None:
        raise InvalidInputError("This result was loaded from a file: call verify(problem).")
    m = problem.y.size
    if result.distribution.shape != (m,):
        raise InvalidInputError(
            f"The result is for {result.distribution.size} examples, {problem!r} has {m}."
        )
    problems: list[str] = []
    if result.nu != problem.nu:
        problems.append(f"nu is {problem.nu:g}, not {result.nu:g}")
    lower = _soft_margin(result, problem, problems)
    upper = _edge(result, problem, problems)
    if lower - upper > _AGREEMENT:
        problems.append(f"the soft margin {lower:.10g} is above the edge {upper:.10g}")
    return Verification(not problems, lower, upper, len(result.hypotheses) + 1, tuple(problems))


def _soft_margin(result: BoostingResult, problem: SoftMargin, problems: list[str]) -> float:
    weights = result.ensemble.weights
    if (weights < 0.0).any() or abs(float(weights.sum()) - 1.0) > _AGREEMENT:
        problems.append("the weights of the ensemble are not those of a mean")
    margins = problem.y * result.ensemble.decision_function(problem.X)
    if np.abs(margins - result.margins).max() > _AGREEMENT:
        i = int(np.abs(margins - result.margins).argmax())
        problems.append(f"the margin of example {i} is {margins[i]:.10g}, not {result.margins[i]:.10g}")
    value = soft_margin(margins, problem.nu)
    if abs(value - result.soft_margin) > _AGREEMENT:
        problems.append(f"the soft margin of the ensemble is {value:.10g}, not {result.soft_margin:.10g}")
    return value


def _edge(result: BoostingResult, problem: SoftMargin, problems: list[str]) -> float:
    d, y = result.distribution, problem.y
    outside = distance(d, problem.nu)
    if outside > _AGREEMENT:
        problems.append(f"the distribution is {outside:.3g} away from the capped simplex")
    learner = problem.weak_learner.bind(problem.X, y)
    _, margins = learner.best(d)
    edges = [float(margins_of(hypothesis, problem.X, y) @ d) for hypothesis in result.hypotheses]
    edge = max([float(margins @ d), *edges]) + outside
    too_high = edge - result.edge > _AGREEMENT
    if too_high or (learner.exact and result.edge - edge > _AGREEMENT):
        problems.append(f"the largest edge is {edge:.10g}, not {result.edge:.10g}")
    if result.is_global != learner.exact:
        problems.append(f"is_global is {result.is_global}, but the weak learner says exact = {learner.exact}")
    if result.status is Status.OPTIMAL and not learner.exact:
        problems.append("OPTIMAL is claimed, but the weak learner is not exact")
    return edge


def distance(d: Array, nu: float) -> float:
    """Return how far d is from the capped simplex at most, in the sum norm: by so much edges may be wrong."""
    return float(np.abs(d - CappedSimplex(1.0 / nu, d.size).project(d)).sum())

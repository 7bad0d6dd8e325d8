"""The check of a result of MAP inference from the model alone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.graphical.integrality import rounded_up
from cutplane.proof.certificate import Verification
from cutplane.status import Status

if TYPE_CHECKING:
    from cutplane.engine.history import State
    from cutplane.graphical.factor_graph import FactorGraph
    from cutplane.graphical.result import MAPResult

_AGREEMENT = 1e-9
"""Part of the bound by which two ways to compute it may differ, because the errors of both are charged."""


def verify(result: MAPResult, model: Any, time_limit: float | None) -> Verification:
    """Do what `MAPResult.verify` says."""
    problems: list[str] = []
    upper = _upper(result, model, problems)
    if result.bound > max(upper, result.energy):
        problems.append(f"the bound {result.bound:.17g} is above the energy {upper:.17g} of the labelling")
    slack = _AGREEMENT * abs(result.bound) if math.isfinite(result.bound) else 0.0
    if upper < math.inf:
        slack = max(slack, model.rounding(result.labelling))
    wanted = result.bound - slack
    lower = min(_kept(result, model), upper)
    n_checked = model.n_variables + model.n_factors if lower > -math.inf else 0
    if lower < wanted:
        again = _again(result, model, wanted, time_limit)
        lower, n_checked = max(lower, again), n_checked + 1
    if lower < wanted:
        problems.append(f"only the lower bound {lower:.10g} could be proven, not {result.bound:.10g}")
    if len(result.history) and result.history[-1].lower_bound != result.bound:
        problems.append(f"the history ends at the bound {result.history[-1].lower_bound:.17g}")
    if result.status is Status.INFEASIBLE and lower < math.inf:
        problems.append("that no labelling satisfies the hard constraints could not be proven")
    return Verification(not problems, lower, upper, n_checked, tuple(problems))


def _upper(result: MAPResult, model: FactorGraph, problems: list[str]) -> float:
    if result.labelling is None:
        if result.energy < math.inf:
            problems.append(f"there is no labelling of the energy {result.energy:.10g}")
        return math.inf
    try:
        upper = model.energy(result.labelling)
    except InvalidInputError as error:
        problems.append(str(error))
        return math.inf
    if upper != result.energy:
        problems.append(f"the energy of the labelling is {upper:.17g}, not {result.energy:.17g}")
    return upper


def _kept(result: MAPResult, model: FactorGraph) -> float:
    """Return the bound of the messages that were kept, on the costs of the model."""
    if result.proof is None:
        return -math.inf
    bound = result.proof.restated(model).certified_bound()
    return rounded_up(bound, model.energy_unit) if math.isfinite(bound) else bound


def _again(result: MAPResult, model: Any, wanted: float, time_limit: float | None) -> float:
    """Return the bound of another run, which may use the labelling and ends when the bound is reached."""

    def is_enough(state: State) -> bool:
        return state.lower_bound >= wanted

    start = result.labelling
    if start is not None and (
        np.shape(start) != (model.n_variables,) or (start >= model.cardinalities).any()
    ):
        start = None
    found = model.map(tol=0.0, labelling=start, time_limit=time_limit, callback=is_enough)
    if found.bound < wanted and result.method.startswith(("primal", "local polytope")):
        found = model.map("primal", tol=0.0, labelling=start, time_limit=time_limit, callback=is_enough)
    return found.bound

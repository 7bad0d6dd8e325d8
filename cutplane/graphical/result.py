"""The result of MAP inference, and its verification from the model alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import Array
from cutplane.proof.certificate import Verification
from cutplane.result import BaseResult, SpecialCertificate
from cutplane.status import Status

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from cutplane.engine.history import State
    from cutplane.graphical.factor_graph import FactorGraph
    from cutplane.graphical.sweeps.reparametrization import Reparametrization


@dataclass(frozen=True, eq=False, repr=False)
class MAPResult(BaseResult):
    """A labelling, its energy, and a bound that no labelling is below.

    Attributes
    ----------
    labelling : ndarray of int, shape (n_variables,), or None
        The best one found; None if none of finite energy was found.
    energy : float
        Its energy, the upper bound of the least; inf if there is none.
    bound : float
        The certified lower bound; inf if it is proven that no labelling satisfies the hard constraints.
    status : Status
        OPTIMAL only if `gap` is at most the tolerance.
    reason : str
    method : str
        What was done, in order.
    history : History
        ``n_cuts`` are the cuts or clusters in use, ``oracle_calls`` the sweeps, ``separations`` the searches
        for cuts or clusters. It has a method `to_frame`.
    model : GraphicalModel
    proof : Reparametrization or None
        The messages of the sweeps, if there were any.
    """

    labelling: Array | None
    energy: float
    bound: float
    model: FactorGraph = field(repr=False)
    proof: Reparametrization | None = field(default=None, repr=False)

    @property
    def x(self) -> Array | None:
        """The labelling."""
        return self.labelling

    @property
    def objective(self) -> float:
        """The energy."""
        return self.energy

    @property
    def lower_bound(self) -> float:
        """The bound."""
        return self.bound

    @property
    def certificate(self) -> SpecialCertificate:
        """What `verify` checks: the labelling, and the messages of the sweeps."""
        return SpecialCertificate(self)

    @property
    def gap(self) -> float:
        """The relative gap, (energy - bound) / max(1e-12, abs(energy)); 0 if infeasibility is proven.

        0 too where energy and bound differ by no more than the rounding errors of their sums.
        """
        within = self.labelling is not None and self.gap_abs <= self.model.rounding(self.labelling)
        return 0.0 if within or self.status is Status.INFEASIBLE else super().gap

    @property
    def gap_abs(self) -> float:
        """The absolute gap, energy - bound; 0 if infeasibility is proven."""
        return 0.0 if self.status is Status.INFEASIBLE else super().gap_abs

    def verify(self, model: FactorGraph | None = None, *, time_limit: float | None = None) -> Verification:
        """Recompute the energy, and prove the bound again.

        The energy is the exact sum of the costs of the labelling, and must be the one that was reported. The
        bound is read off the messages of the sweeps, which prove one whatever they are: the costs that they
        leave sum to those of the model. Where that does not reach the bound that was reported, because it
        came from a linear programme, an elimination, a search, or states that were forbidden on the way,
        another run proves it: the tree of a search is not kept, so that this takes about as long as the
        inference did. What it shares with the first run is the code, and the labelling if that is confirmed.

        Parameters
        ----------
        model : GraphicalModel, optional
            By default the one that the result refers to.
        time_limit : float, optional
            Seconds for the other run; a bound that it does not reach counts as not confirmed.

        Returns
        -------
        Verification
            ``lower_bound`` is what could be proven; ``n_checked`` counts the costs of variables and factors
            that the messages were applied to, and the other run as one.
        """
        return verify(self, self.model if model is None else model, time_limit)

    def plot(self, ax: Axes | None = None) -> Axes:
        axes = super().plot(ax)
        axes.set_ylabel("energy")
        return axes

    def _facts(self) -> dict[str, Any]:
        cuts = {"cuts": self.history[-1].n_cuts} if len(self.history) else {}
        return {
            "energy": f"{self.energy:.10g}",
            "bound": f"{self.bound:.10g}",
            "gap": f"{self.gap:.3g}",
            "method": self.method,
            "iterations": len(self.history),
            **cuts,
            **self._seconds(),
        }

    @property
    def _remedy(self) -> str:
        return "" if self.status in (Status.OPTIMAL, Status.INFEASIBLE) else remedy(self.status)


def remedy(status: Status) -> str:
    """Return what to do about a status, in terms of models."""
    return {
        Status.MAX_ITER: "Raise max_iter.",
        Status.TIME_LIMIT: "Raise time_limit, or be content with the gap.",
        Status.STALLED: "Set tighten=True, or try method='search'.",
        Status.INTERRUPTED: "Run it again for longer.",
    }.get(status, status.remedy)


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
    return model.energy_lattice.rounded_up(bound)


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

"""The result of MAP inference, and its verification from the model alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import Array, as_scalar
from cutplane.proof.certificate import Verification
from cutplane.result import BaseResult, SpecialCertificate
from cutplane.runtime.clock import clock
from cutplane.status import Status

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from cutplane.engine.history import State
    from cutplane.graphical.factor_graph import FactorGraph
    from cutplane.graphical.sweeps.reparametrization import Reparametrization


@dataclass(frozen=True, eq=False, repr=False)
class MAPResult(BaseResult):
    """A labelling, its energy, and a lower bound of the energies of all labellings.

    Attributes
    ----------
    labelling : ndarray of int, shape (n_variables,), or None
        The best labelling found; None if no labelling of finite energy was found.
    energy : float
        The energy of `labelling`, an upper bound of the least energy; inf if `labelling` is None.
    bound : float
        The certified lower bound; inf if it is proven that no labelling satisfies the hard constraints.
    status : Status
        OPTIMAL only if `gap` is at most the tolerance.
    reason : str
    method : str
        The stages that were run, in order.
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
        """The labelling and the messages of the sweeps, which `verify` checks."""
        return SpecialCertificate(self)

    @property
    def gap(self) -> float:
        """The relative gap, (energy - bound) / max(1e-12, abs(energy)); 0 if infeasibility is proven.

        It is also 0 if energy and bound differ by no more than the rounding errors of their sums.
        """
        within = self.labelling is not None and self.gap_abs <= self.model.rounding(self.labelling)
        return 0.0 if within or self.status is Status.INFEASIBLE else super().gap

    @property
    def gap_abs(self) -> float:
        """The absolute gap, energy - bound; 0 if infeasibility is proven."""
        return 0.0 if self.status is Status.INFEASIBLE else super().gap_abs

    def verify(
        self, model: FactorGraph | None = None, *, independent: bool = False, time_limit: float | None = None
    ) -> Verification:
        """Recompute the energy, and prove the bound again.

        The energy is computed again as the exact sum of the costs of the labelling, and must equal the
        reported energy. The bound is computed again from the messages of the sweeps; any messages prove a
        bound, because they do not change the sum of all costs. If this bound is below the reported one, for
        example because a linear programme, elimination or a search proved the reported bound, the inference
        runs again to prove it. This takes about as long as the first run, because the tree of a search is not
        stored. The second run uses nothing of the first one except the labelling, if its energy is confirmed.

        With `independent`, a proof by cases replaces the second run. It divides the labellings into cases,
        and bounds each case by messages, as above, or by the elimination of `min_marginals`. The search, the
        elimination of `map` and the linear programmes are not used; sweeps only propose messages. It takes up
        to some ten times as long as the inference, and does not end in reasonable time if only cycle
        inequalities close the gap, for example on a large torus.

        Parameters
        ----------
        model : GraphicalModel, optional
            By default the model of the result.
        independent : bool, default False
            Whether the bound is proven by cases instead of a second run.
        time_limit : float, optional
            Seconds for the second run or the cases; a bound that they do not reach counts as not confirmed.

        Returns
        -------
        Verification
            ``lower_bound`` is the proven bound; ``n_checked`` counts the variables and factors to whose costs
            the messages were applied, and the second run as one, or each case.

        Raises
        ------
        InvalidInputError
            If `time_limit` is negative.
        """
        if time_limit is not None:
            time_limit = as_scalar("time_limit", time_limit, low=0.0, infinite=True)
        return verify(self, self.model if model is None else model, independent, time_limit)

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
    """Return the remedy for a status, in terms of graphical models."""
    return {
        Status.MAX_ITER: "Raise max_iter.",
        Status.TIME_LIMIT: "Raise time_limit, or accept the gap.",
        Status.STALLED: "Set tighten=True, or try method='search'.",
        Status.INTERRUPTED: "Run it again for longer.",
    }.get(status, status.remedy)


_AGREEMENT = 1e-9
"""Relative difference allowed between two computations of a bound, because both subtract their rounding
errors."""


def verify(result: MAPResult, model: Any, independent: bool, time_limit: float | None) -> Verification:
    """Implement `MAPResult.verify`."""
    problems: list[str] = []
    upper = _upper(result, model, problems)
    if result.bound > max(upper, result.energy):
        problems.append(f"the bound {result.bound:.17g} is above the energy {upper:.17g} of the labelling")
    slack = _AGREEMENT * abs(result.bound) if math.isfinite(result.bound) else 0.0
    if upper < math.inf:
        slack = max(slack, model.rounding(result.labelling))
    wanted = result.bound - slack
    lower = min(_bound_of_messages(result, model), upper)
    n_checked = model.n_variables + model.n_factors if lower > -math.inf else 0
    if lower < wanted and independent:
        from cutplane.graphical.checker import Checker

        checker = Checker(model, wanted, result.proof)
        lower = max(lower, checker.run(math.inf if time_limit is None else clock() + time_limit))
        n_checked += checker.n_cases
    elif lower < wanted:
        rerun = _bound_of_rerun(result, model, wanted, time_limit)
        lower, n_checked = max(lower, rerun), n_checked + 1
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


def _bound_of_messages(result: MAPResult, model: FactorGraph) -> float:
    """Return the bound proven by the stored messages for the costs of the model."""
    if result.proof is None:
        return -math.inf
    bound = result.proof.restated(model).certified_bound()
    return model.energy_lattice.rounded_up(bound)


def _bound_of_rerun(result: MAPResult, model: Any, wanted: float, time_limit: float | None) -> float:
    """Return the bound of another run, which starts from the labelling and ends at the bound `wanted`."""

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

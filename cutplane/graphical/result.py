"""What MAP inference returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cutplane.pieces.validation import Array
from cutplane.result import BaseResult, SpecialCertificate
from cutplane.status import Status

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from cutplane.graphical.factor_graph import FactorGraph
    from cutplane.graphical.sweeps.reparametrization import Reparametrization
    from cutplane.proof.certificate import Verification


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
        from cutplane.graphical.verification import verify

        return verify(self, self.model if model is None else model, time_limit)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot energy and bound over the iterations and return the axes (needs the extra ``plot``)."""
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

"""What MAP inference returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cutplane.engine.gap import relative_gap
from cutplane.history import History
from cutplane.html import table
from cutplane.status import Status
from cutplane.validation import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from cutplane.certificate import Verification
    from cutplane.graphical.model import GraphicalModel
    from cutplane.graphical.sweeps.reparametrization import Reparametrization


@dataclass(frozen=True, eq=False, repr=False)
class MAPResult:
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
        OPTIMAL only if the gap between `energy` and `bound` is within the tolerance.
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
    status: Status
    reason: str
    method: str
    history: History
    model: GraphicalModel = field(repr=False)
    proof: Reparametrization | None = field(default=None, repr=False)

    @property
    def gap(self) -> float:
        """The relative gap, (energy - bound) / max(1e-12, abs(energy)); 0 if infeasibility is proven."""
        return 0.0 if self.status is Status.INFEASIBLE else relative_gap(self.bound, self.energy)

    @property
    def gap_abs(self) -> float:
        """The absolute gap, energy - bound; 0 if infeasibility is proven."""
        return 0.0 if self.status is Status.INFEASIBLE else max(0.0, self.energy - self.bound)

    def verify(self, model: GraphicalModel | None = None, *, time_limit: float | None = None) -> Verification:
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
        """Plot energy and bound over the iterations and return the axes (needs the extra ``plot``).

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Drawn into; new axes by default.
        """
        from cutplane.plotting import plot_bounds

        axes = plot_bounds(self.history, ax=ax)
        axes.set_ylabel("energy")
        return axes

    @property
    def _facts(self) -> dict[str, Any]:
        facts = {
            "status": self.status.name,
            "reason": self.reason,
            "energy": f"{self.energy:.10g}",
            "bound": f"{self.bound:.10g}",
            "gap": f"{self.gap:.3g}",
            "method": self.method,
            "iterations": len(self.history),
        }
        if len(self.history):
            facts["cuts"] = self.history[-1].n_cuts
            facts["seconds"] = f"{self.history[-1].elapsed:.3g}"
        if self.status not in (Status.OPTIMAL, Status.INFEASIBLE):
            facts["what to do"] = remedy(self.status)
        return facts

    def __repr__(self) -> str:
        width = max(map(len, self._facts))
        return "MAPResult\n" + "\n".join(f"  {name:{width}}  {value}" for name, value in self._facts.items())

    def _repr_html_(self) -> str:
        return table(self._facts)


def remedy(status: Status) -> str:
    """Return what to do about a status, in terms of models."""
    return {
        Status.MAX_ITER: "Raise max_iter.",
        Status.TIME_LIMIT: "Raise time_limit, or be content with the gap.",
        Status.STALLED: "Set tighten=True, or try method='search'.",
        Status.INTERRUPTED: "Run it again for longer.",
    }.get(status, status.remedy)

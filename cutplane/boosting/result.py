"""What soft-margin boosting returns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.boosting.ensemble import Ensemble, as_columns
from cutplane.pieces.validation import Array
from cutplane.result import BaseResult, SpecialCertificate
from cutplane.status import Status

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from cutplane.boosting.soft_margin import SoftMargin
    from cutplane.engine.certificate import Verification


@dataclass(frozen=True, eq=False, repr=False)
class BoostingResult(BaseResult):
    """The ensemble, its soft margin, and how far that is from the largest.

    Attributes
    ----------
    ensemble : Ensemble
    soft_margin : float
        Of the ensemble: the mean of its nu least margins on the training data.
    edge : float
        No ensemble has a larger soft margin; relative to what the weak learner can find unless `is_global`.
    distribution : ndarray of shape (m,)
        The distribution of the examples at which the best hypothesis has that edge.
    margins : ndarray of shape (m,)
        y_i times the prediction of the ensemble, in [-1, 1].
    is_global : bool
        Whether the weak learner is exact, so that `edge` bounds the soft margin of every ensemble.
    status : Status
        OPTIMAL only if the gap is within the tolerance and `is_global`; TARGET if it is within the tolerance
        relative to what the weak learner found.
    reason : str
    history : History
        Of every round; its bounds are `soft_margin` and `edge` so far.
    method : str
    nu : float
    hypotheses : tuple
        All that were found.
    stages : tuple of ndarray
        The weights of the first hypotheses after each round.
    problem : SoftMargin or None
        None if it was loaded from a file: pass the problem to `verify`.
    """

    ensemble: Ensemble
    soft_margin: float
    edge: float
    distribution: Array
    margins: Array
    is_global: bool
    nu: float
    hypotheses: tuple[Any, ...]
    stages: tuple[Array, ...]
    problem: SoftMargin | None = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"problem": None}

    @property
    def x(self) -> Array:
        """The distribution: the point of the minimisation of the edge."""
        return self.distribution

    @property
    def objective(self) -> float:
        """The edge, which is minimised over the distributions."""
        return self.edge

    @property
    def lower_bound(self) -> float:
        """The soft margin: no distribution has a smaller edge."""
        return self.soft_margin

    @property
    def certificate(self) -> SpecialCertificate:
        """What `verify` checks: the ensemble and the distribution."""
        return SpecialCertificate(self)

    def verify(self, problem: SoftMargin | None = None) -> Verification:
        """Recompute soft margin and edge from the examples, the hypotheses and the weak learner alone.

        The lower bound is the mean of the nu least margins of the ensemble, whose hypotheses are asked for
        their predictions again. The upper bound is the largest edge at `distribution`, whose feasibility is
        checked, among the hypotheses that are known and the one that the weak learner, bound to the examples
        anew, answers with. With an exact weak learner that bounds every ensemble. With another it bounds
        those of the hypotheses that were asked for, and nothing proves more; and if the learner is random,
        it may answer otherwise than it did.

        Parameters
        ----------
        problem : SoftMargin, optional
            Needed only if the result was loaded from a file.

        Returns
        -------
        Verification
            ``n_checked`` counts the hypotheses that were asked.

        Raises
        ------
        InvalidInputError
            If no problem is known.
        """
        from cutplane.boosting.verification import verify

        return verify(self, problem or self.problem)

    def staged_ensembles(self) -> Iterator[Ensemble]:
        """Yield the ensemble after each round."""
        for weights in self.stages:
            yield Ensemble.of(self.hypotheses, weights)

    def staged_decision_function(self, X: Any) -> Iterator[Array]:
        """Yield the weighted mean of the hypotheses, shape (n,), after each round; each is asked once."""
        X = as_columns(X)
        predictions = np.empty((len(self.hypotheses), X.shape[0]))
        known = 0
        for weights in self.stages:
            for k in range(known, weights.size):
                predictions[k] = self.hypotheses[k].predict(X)
            known = max(known, weights.size)
            yield weights @ predictions[: weights.size] / weights.sum()

    def staged_predict(self, X: Any) -> Iterator[Array]:
        """Yield the predictions, -1 or +1, after each round."""
        for scores in self.staged_decision_function(X):
            yield np.where(scores >= 0.0, 1.0, -1.0)

    def plot_margins(self, ax: Axes | None = None) -> Axes:
        """Plot the cumulative distribution of the margins and return the axes (needs the extra ``plot``)."""
        from cutplane.boosting.plotting import plot_margins

        return plot_margins({"": self.margins}, self.soft_margin, ax=ax)

    def _facts(self) -> dict[str, Any]:
        bound = "global" if self.is_global else "relative to what the weak learner can find"
        return {
            "soft margin": f"{self.soft_margin:.10g}",
            "edge": f"{self.edge:.10g} ({bound})",
            "gap": f"{self.gap_abs:.3g}",
            "ensemble": f"{len(self.ensemble)} of {len(self.hypotheses)} hypotheses",
            "rounds": str(self.n_iter),
            "method": self.method,
            **self._seconds("weak learner"),
        }

    @property
    def _remedy(self) -> str:
        if self.status is Status.TARGET:
            return "Nothing if the ensemble is enough; an exact weak learner (DecisionStumps) proves it."
        return super()._remedy

"""The result of soft-margin boosting, the ensemble, and its verification."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from cutplane.boosting.weak_learner import margins_of
from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import Array
from cutplane.proof.certificate import Verification
from cutplane.report.plotting import as_axes
from cutplane.result import BaseResult, SpecialCertificate
from cutplane.sets.simplex import CappedSimplex
from cutplane.status import Status

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from cutplane.boosting.soft_margin import SoftMargin

_AGREEMENT = 1e-9
"""Difference at which margins or edges count as equal, because both are in [-1, 1] and ties have an error of
1e-12."""


@dataclass(frozen=True, eq=False)
class Ensemble:
    """The function x -> sum_k weights_k h_k(x), without hypotheses of weight zero.

    Attributes
    ----------
    hypotheses : tuple
        Objects with ``predict(X)``, ndarray of shape (n,) of values in [-1, 1].
    weights : ndarray of shape (K,)
        Positive; they sum to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.boosting import Ensemble, Stump
    >>> ensemble = Ensemble((Stump(0, 1.0, 1), Stump(0, 2.0, 1)), np.array([0.75, 0.25]))
    >>> ensemble.decision_function(np.array([[0.0], [1.5], [3.0]])).tolist()
    [-1.0, 0.5, 1.0]
    """

    hypotheses: tuple[Any, ...]
    weights: Array

    @staticmethod
    def of(hypotheses: Sequence[Any], weights: Array) -> Ensemble:
        """Return the ensemble of the hypotheses with a positive weight, scaled to sum 1."""
        used = np.flatnonzero(weights > 0.0).tolist()
        return Ensemble(tuple(hypotheses[k] for k in used), weights[used] / weights[used].sum())

    def __len__(self) -> int:
        return len(self.hypotheses)

    def __repr__(self) -> str:
        return f"Ensemble({len(self)} hypotheses)"

    def decision_function(self, X: Any) -> Array:
        """Return the weighted mean of the hypotheses, shape (n,), in [-1, 1]."""
        X = _by_columns(X)
        total = np.zeros(X.shape[0])
        for hypothesis, weight in zip(self.hypotheses, self.weights, strict=True):
            total += weight * hypothesis.predict(X)
        return total

    def predict(self, X: Any) -> Array:
        """Return the signs of `decision_function`, shape (n,); 0 counts as +1."""
        return np.where(self.decision_function(X) >= 0.0, 1.0, -1.0)


def _by_columns(X: Any) -> Any:
    """Return X as an ndarray or a CSC matrix, because reading one of their columns is fast."""
    return X.tocsc() if sparse.issparse(X) else np.asarray(X)


@dataclass(frozen=True, eq=False, repr=False)
class BoostingResult(BaseResult):
    """An ensemble, its soft margin, and an upper bound of the largest soft margin.

    Attributes
    ----------
    ensemble : Ensemble
    soft_margin : float
        The mean of the nu least margins of the ensemble on the training data.
    edge : float
        An upper bound of the soft margin of every ensemble. Unless `is_global`, it is valid only for
        ensembles of the hypotheses found.
    distribution : ndarray of shape (m,)
        The distribution of the examples at which the best hypothesis has this edge.
    margins : ndarray of shape (m,)
        y_i times the prediction of the ensemble, in [-1, 1].
    is_global : bool
        Whether the weak learner is exact, so that `edge` bounds the soft margin of every ensemble.
    status : Status
        OPTIMAL only if the gap is within the tolerance and `is_global`; TARGET if the gap is within the
        tolerance but not `is_global`.
    reason : str
    history : History
        One record for each round; the bounds are the `soft_margin` and `edge` so far.
    method : str
    nu : float
    hypotheses : tuple
        All hypotheses found.
    stages : tuple of ndarray
        The weights after each round, one for each hypothesis found until then.
    problem : SoftMargin or None
        None if the result was loaded from a file; then pass the problem to `verify`.
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
        """The distribution, the variable of the edge problem."""
        return self.distribution

    @property
    def objective(self) -> float:
        """The edge, the objective of the minimisation over distributions."""
        return self.edge

    @property
    def lower_bound(self) -> float:
        """The soft margin, because no distribution has a smaller edge."""
        return self.soft_margin

    @property
    def certificate(self) -> SpecialCertificate:
        """The proof that `verify` checks: the ensemble and the distribution."""
        return SpecialCertificate(self)

    def verify(self, problem: SoftMargin | None = None) -> Verification:
        """Recompute the soft margin and the edge from the examples, the hypotheses and the weak learner.

        The lower bound is the mean of the nu least margins of the ensemble, with new predictions of its
        hypotheses. The upper bound is the largest edge at `distribution`, which is checked to be feasible. It
        is the maximum over the hypotheses found and a new answer of the weak learner. If the weak learner is
        exact, the edge bounds the soft margin of every ensemble; otherwise only of ensembles of these
        hypotheses. A random learner may return another hypothesis than in the run.

        Parameters
        ----------
        problem : SoftMargin, optional
            Needed only if the result was loaded from a file.

        Returns
        -------
        Verification
            ``n_checked`` counts the hypotheses that were evaluated.

        Raises
        ------
        InvalidInputError
            If no problem is given.
        """
        problem = problem or self.problem
        if problem is None:
            raise InvalidInputError("This result was loaded from a file: call verify(problem).")
        d, m = self.distribution, problem.y.size
        if d.shape != (m,):
            raise InvalidInputError(f"The result is for {d.size} examples, {problem!r} has {m}.")
        problems: list[str] = []
        if self.nu != problem.nu:
            problems.append(f"nu is {problem.nu:g}, not {self.nu:g}")
        lower, upper = self._true_margin(problem, problems), self._true_edge(problem, problems)
        if lower - upper > _AGREEMENT:
            problems.append(f"the soft margin {lower:.10g} is above the edge {upper:.10g}")
        return Verification(not problems, lower, upper, len(self.hypotheses) + 1, tuple(problems))

    def _true_margin(self, problem: SoftMargin, problems: list[str]) -> float:
        weights = self.ensemble.weights
        if (weights < 0.0).any() or abs(float(weights.sum()) - 1.0) > _AGREEMENT:
            problems.append("the weights of the ensemble are negative or do not sum to 1")
        margins = problem.y * self.ensemble.decision_function(problem.X)
        i = int(np.abs(margins - self.margins).argmax())
        if abs(margins[i] - self.margins[i]) > _AGREEMENT:
            problems.append(f"the margin of example {i} is {margins[i]:.10g}, not {self.margins[i]:.10g}")
        value = soft_margin(margins, problem.nu)
        if abs(value - self.soft_margin) > _AGREEMENT:
            problems.append(f"the soft margin of the ensemble is {value:.10g}, not {self.soft_margin:.10g}")
        return value

    def _true_edge(self, problem: SoftMargin, problems: list[str]) -> float:
        d, y = self.distribution, problem.y
        feasible = CappedSimplex(1.0 / problem.nu, d.size).project(d)
        outside = float(np.abs(d - feasible).sum())  # the sum norm bounds the error of an edge
        if outside > _AGREEMENT:
            problems.append(f"the distribution is {outside:.3g} away from the capped simplex")
        learner = problem.weak_learner.bind(problem.X, y)
        _, margins = learner.best(d)
        edges = [float(margins_of(hypothesis, problem.X, y) @ d) for hypothesis in self.hypotheses]
        edge = max([float(margins @ d), *edges]) + outside
        too_high = edge - self.edge > _AGREEMENT
        if too_high or (learner.exact and self.edge - edge > _AGREEMENT):
            problems.append(f"the largest edge is {edge:.10g}, not {self.edge:.10g}")
        if self.is_global != learner.exact:
            problems.append(
                f"is_global is {self.is_global}, but the weak learner says exact = {learner.exact}"
            )
        if self.status is Status.OPTIMAL and not learner.exact:
            problems.append("OPTIMAL is claimed, but the weak learner is not exact")
        return edge

    def staged_ensembles(self) -> Iterator[Ensemble]:
        """Yield the ensemble after each round."""
        for weights in self.stages:
            yield Ensemble.of(self.hypotheses, weights)

    def staged_decision_function(self, X: Any) -> Iterator[Array]:
        """Yield the decision function after each round, shape (n,); each hypothesis predicts once."""
        X = _by_columns(X)
        predictions = np.empty((len(self.hypotheses), X.shape[0]))
        done = 0
        for weights in self.stages:
            for k in range(done, weights.size):
                predictions[k] = self.hypotheses[k].predict(X)
            done = max(done, weights.size)
            yield weights @ predictions[: weights.size] / weights.sum()

    def staged_predict(self, X: Any) -> Iterator[Array]:
        """Yield the predictions, -1 or +1, after each round."""
        for scores in self.staged_decision_function(X):
            yield np.where(scores >= 0.0, 1.0, -1.0)

    def plot_margins(self, ax: Axes | None = None) -> Axes:
        """Plot the cumulative distribution of the margins and return the axes (needs the extra ``plot``)."""
        return plot_margins({"": self.margins}, self.soft_margin, ax=ax)

    def _facts(self) -> dict[str, Any]:
        bound = "global" if self.is_global else "relative to the hypotheses of the weak learner"
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
            return "Use an exact weak learner, such as DecisionStumps, to prove that no ensemble is better."
        return super()._remedy


def plot_margins(margins: Mapping[str, Array], soft_margin: float | None = None, ax: Any = None) -> Axes:
    """Plot the cumulative distribution of margins, and return the axes.

    Parameters
    ----------
    margins : mapping of str to ndarray of shape (m,)
        A curve for each label.
    soft_margin : float, optional
        Drawn as a vertical line.
    ax : matplotlib Axes, optional
        The axes to draw into; by default new axes.
    """
    ax = as_axes(ax)
    for label, values in margins.items():
        ax.ecdf(np.asarray(values), label=label or None)
    if soft_margin is not None:
        ax.axvline(soft_margin, color="0.5", linestyle="--", linewidth=1.0, label="soft margin")
    ax.set_xlabel("margin")
    ax.set_ylabel("share of examples")
    if ax.get_legend_handles_labels()[1]:
        ax.legend()
    return ax


def soft_margin(margins: Array, nu: float) -> float:
    """Return the mean of the nu least margins, min over d in the capped simplex of <d, margins>."""
    return float(margins @ CappedSimplex(1.0 / nu, margins.size).minimise_linear(margins))

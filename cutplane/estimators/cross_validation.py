"""The weight of the penalty chosen by cross-validation, along paths that reuse every cut."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np

from cutplane.engine.path import ExactPath, followed
from cutplane.estimators.base import CrossValidated, ascending, uninterrupted
from cutplane.estimators.classification import AnyLossClassification
from cutplane.estimators.documentation import documented
from cutplane.estimators.formulation import unit_weight
from cutplane.estimators.linear import AnyPenalty
from cutplane.estimators.regression import AnyLossRegression
from cutplane.exceptions import MissingCapabilityError
from cutplane.linear.tracking import PathTracking
from cutplane.methods.auto import as_method
from cutplane.pieces.validation import Array
from cutplane.problem import Problem
from cutplane.status import Status, relative_gap

_ALPHAS = np.logspace(0, -5, 11)[::-1]


@dataclass(eq=False, repr=False)
class CrossValidatedPenalty(AnyPenalty, CrossValidated):
    """The weight of the penalty by cross-validation, from the largest to the smallest.

    Parameters
    ----------
    alphas : array_like, optional
        Weights of the penalty beside the mean loss, each greater than 0; by default 11 from 1 to 1e-5.

    Attributes
    ----------
    alpha_ : float
        The weight with the best mean score; of equals, the largest.
    alphas_ : ndarray of shape (n_alphas,)
        The weights in the order of the path, descending.
    scores_ : ndarray of shape (n_alphas, n_folds)
    """

    _: KW_ONLY
    alphas: Any = None
    alphas_: Array = field(init=False)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Choose `alpha_` by cross-validation and fit with it on all data.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_samples, n_features)
        y : array_like of shape (n_samples,)
        sample_weight : array_like of shape (n_samples,), optional
            Weights >= 0, by default 1 for each example; also passed to the scorer.

        Returns
        -------
        self

        Raises
        ------
        InvalidInputError
            A ``ValueError``; if a parameter or an argument is wrong.
        """
        self._set_weights()
        problems = self._declare(X, y, sample_weight)
        best = self._best(X, y, sample_weight)
        self.alpha_ = float(self.alphas_[best])
        paths = [self._follow(problem, self.alphas_[: best + 1]) for problem in problems]
        self._store([deque(results, 1)[0] for results in paths])
        return self

    def _set_weights(self) -> None:
        self.alphas_ = ascending("alphas", self.alphas, _ALPHAS)[::-1]

    def _weight(self, total: float) -> tuple[float, float]:
        return float(self.alphas_[0]), 1.0

    def _follow(self, problem: Problem, alphas: Array | None = None) -> Iterator[Any]:
        """Yield the results along the path; one weight at a time, for a whole path keeps the cuts of all.

        The exact path is followed first, if there is one, for as long as it may cost less; it gives points
        with bounds, and one result.
        """
        lams = (self.alphas_ if alphas is None else alphas) * unit_weight(self.penalty)
        if (exact := self._on_exact_path(problem, lams, alphas is not None)) is not None:
            yield from exact
            return
        options = {**self._options, "x0": self._x0(problem)}
        yield from map(uninterrupted, followed(problem, lams, as_method(self.method, problem), options))

    def _on_exact_path(self, problem: Problem, lams: Array, last: bool) -> list[Any] | None:
        """Return what the exact path gives, at the last weight or at all; None if it may not be followed,
        has cost as much as solves should, is lost, or does not keep the tolerance.
        """
        own = self.method == "auto" and self.max_cuts is None and not self.verbose
        turns = PathTracking().turns(problem, lams.size) if own else 0
        if not turns:
            return None
        limits = {"tol": self.tol, "time_limit": self.time_limit, "max_iter": turns}
        try:
            path = problem.path(float(lams[-1]), exact=True, **limits)
        except MissingCapabilityError:
            return None
        if uninterrupted(path.result).status is not Status.OPTIMAL:
            return None
        found = [path.result] if last else [_on(path, lam) for lam in lams]
        return found if max(point.gap for point in found) <= self.tol else None


@dataclass(frozen=True)
class _OnPath:
    """What the attributes of an estimator are made of, of a point on an exact path."""

    x: Array
    lower_bound: float
    objective: float
    gap: float
    n_iter: int = 1
    status: Status = Status.OPTIMAL


def _on(path: ExactPath, lam: float) -> _OnPath:
    lower, upper = path.bounds(lam)
    return _OnPath(path(lam), lower, upper, relative_gap(lower, upper))


@documented
@dataclass(eq=False, repr=False)
class LinearClassifierCV(AnyLossClassification, CrossValidatedPenalty):
    """A `LinearClassifier` whose `alpha` is chosen by cross-validation.

    In each fold the problems are solved from the largest weight to the smallest, and all cuts of the loss are
    kept from one to the next: they hold for every weight. The final fit follows the same path on all data as
    far as the weight that was chosen.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.estimators import LinearClassifierCV
    >>> X = np.linspace(-1.0, 1.0, 20)[:, np.newaxis]
    >>> model = LinearClassifierCV("logistic", alphas=[1e-3, 1e-1], cv=4).fit(X, X[:, 0] > 0.3)
    >>> model.alpha_, model.scores_.shape, model.score(X, X[:, 0] > 0.3)
    (0.001, (2, 4), 1.0)
    """


@documented
@dataclass(eq=False, repr=False)
class LinearRegressorCV(AnyLossRegression, CrossValidatedPenalty):
    """A `LinearRegressor` whose `alpha` is chosen by cross-validation.

    In each fold the problems are solved from the largest weight to the smallest, and all cuts of the loss are
    kept from one to the next: they hold for every weight. The final fit follows the same path on all data as
    far as the weight that was chosen.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.estimators import LinearRegressorCV
    >>> X = np.linspace(-1.0, 1.0, 20)[:, np.newaxis]
    >>> model = LinearRegressorCV("absolute", alphas=[1e-2, 1.0], cv=4).fit(X, 3.0 * X[:, 0])
    >>> model.alpha_, model.scores_.shape, model.coef_.round(6).tolist()
    (0.01, (2, 4), [3.0])
    """

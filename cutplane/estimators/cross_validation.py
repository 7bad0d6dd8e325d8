"""Estimators that choose a weight by cross-validation, along paths of problems that share their cuts."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin, clone, is_classifier
from sklearn.metrics import check_scoring, r2_score
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing, indexable

from cutplane.engine.path import followed
from cutplane.estimators.base import CertifiedEstimator, as_weights, ascending, estimator, uninterrupted
from cutplane.estimators.formulation import unit_weight
from cutplane.estimators.linear import LinearEstimator
from cutplane.exceptions import MissingCapabilityError
from cutplane.methods.auto import as_method
from cutplane.pieces.validation import Array
from cutplane.problem import Problem
from cutplane.status import Status, relative_gap
from cutplane.tracking.methods import PathTracking


@estimator
class CrossValidated(CertifiedEstimator):
    """An estimator that chooses a weight by cross-validation, along a path in each fold (`_follow`).

    Parameters
    ----------
    cv : int, cross-validation generator or iterable, optional
        As in scikit-learn; by default 5 folds, stratified for classes.
    scoring : str or callable, optional
        As in scikit-learn; by default the accuracy or the coefficient of determination.
    """

    _: KW_ONLY
    cv: Any = None
    scoring: Any = None
    _grid: ClassVar[str] = "alphas"
    _default: ClassVar[Array]

    def _fitted(self, X: Any, y: Any, sample_weight: Any = None) -> list[Any]:
        values = self._set_grid()
        problems = self._declare(X, y, sample_weight)
        best = self._best(X, y, sample_weight)
        setattr(self, f"{self._grid[:-1]}_", float(values[best]))
        return [deque(self._follow(problem, values[: best + 1], True), 1)[0] for problem in problems]

    def _set_grid(self) -> Array:
        """Set the weights in the order of the path, and return them."""
        values = ascending(self._grid, getattr(self, self._grid), self._default)
        values = values[::-1] if self._grid == "alphas" else values
        setattr(self, f"{self._grid}_", values)
        return values

    def _follow(self, problem: Any, values: Array, last: bool = False) -> Iterator[Any]:
        """Yield the results of a problem along the path; with `last`, only the last result is needed."""
        raise NotImplementedError

    def _best(self, X: Any, y: Any, sample_weight: Any) -> int:
        """Set ``scores_``, and return the position of the weight with the best mean score."""
        X, y = indexable(X, y)
        weights = as_weights(sample_weight, len(y))
        folds: Any = check_cv(self.cv, y, classifier=is_classifier(self))
        scores = [self._scores(X, y, weights, *fold) for fold in folds.split(X, y)]
        self.scores_ = np.column_stack(scores)
        return int(np.argmax(self.scores_.mean(axis=1)))

    def _scores(self, X: Any, y: Any, weights: Array | None, train: Array, test: Array) -> Sequence[float]:
        """Follow the path on the training part, and return the score on the test part for each weight."""
        given: Any = self.get_params(deep=False) | {"cv": None}  # a generator cannot be copied
        model: Any = clone(type(self)(**given))
        values = model._set_grid()
        known, held_out = ((_safe_indexing(X, part), _safe_indexing(y, part)) for part in (train, test))
        weigh = [{} if weights is None else {"sample_weight": weights[part]} for part in (train, test)]
        problems = model._declare(*known, **weigh[0])
        at_once = _AT_ONCE.get(type(model).score) if self.scoring is None else None
        scorer: Any = check_scoring(model, scoring=self.scoring)
        found = []
        for results in zip(*[model._follow(problem, values) for problem in problems], strict=True):
            model._store(results)
            found.append(
                scorer(model, *held_out, **weigh[1]) if at_once is None else model.predict(held_out[0])
            )
        if at_once is not None:
            found = at_once(np.ravel(held_out[1]), np.column_stack(found), **weigh[1])
        return [float(score) for score in found]


def _accuracies(y: Array, predictions: Array, sample_weight: Array | None = None) -> Array:
    return np.average(predictions == y[:, np.newaxis], axis=0, weights=sample_weight)


def _determinations(y: Array, predictions: Array, sample_weight: Array | None = None) -> Array:
    targets = np.broadcast_to(y[:, np.newaxis], predictions.shape)
    found = r2_score(targets, predictions, sample_weight=sample_weight, multioutput="raw_values")
    return np.asarray(found)


_AT_ONCE: dict[Any, Any] = {ClassifierMixin.score: _accuracies, RegressorMixin.score: _determinations}
"""scikit-learn's `score` for a matrix of predictions, with a column for each weight, because its checks of
single columns take longer than the predictions."""


def first_of(name: str) -> Any:
    """Return a property that replaces a parameter with a single value by the first value of the path."""
    return property(lambda self: float(getattr(self, name)[0]), doc="The first value of the path.")


@estimator
class CrossValidatedPenalty(CrossValidated, LinearEstimator):
    """A linear estimator that chooses the weight of the penalty by cross-validation.

    In each fold the problems are solved from the largest weight to the smallest. Each reuses the cuts of the
    previous one, because cuts of the loss are valid for every weight. The final fit on all data follows the
    same path to the chosen weight.

    Parameters
    ----------
    alphas : array_like, optional
        Weights of the penalty relative to the mean loss, each greater than 0; by default 11 from 1 to 1e-5.

    Attributes
    ----------
    alpha_ : float
        The weight with the best mean score; the largest one if there are ties.
    alphas_ : ndarray of shape (n_alphas,)
        The weights in the order of the path, descending.
    scores_ : ndarray of shape (n_alphas, n_folds)
    """

    _: KW_ONLY
    alphas: Any = None
    alpha: ClassVar[Any] = first_of("alphas_")
    warm_start: ClassVar[bool] = False
    _default = np.logspace(-5, 0, 11)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Choose `alpha_` by cross-validation and fit with it on all data.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_samples, n_features)
            float32 and float64, dense, CSR and CSC are not copied.
        y : array_like of shape (n_samples,)
        sample_weight : array_like of shape (n_samples,), optional
            Weights >= 0, by default 1 for each example; also passed to the scorer.
        """
        self._store(self._fitted(X, y, sample_weight))
        return self

    def _follow(self, problem: Problem, values: Array, last: bool = False) -> Iterator[Any]:
        """Yield the results along the path, one weight at a time, because a whole path stores all cuts."""
        lams = values * unit_weight(self.penalty)
        exact = self._on_exact_path(problem, lams, last)
        if exact is not None:
            yield from exact
            return
        options = {**self._options, "x0": self._x0(problem)}
        yield from map(uninterrupted, followed(problem, lams, as_method(self.method, problem), options))

    def _on_exact_path(self, problem: Problem, lams: Array, last: bool) -> list[Any] | None:
        """Return the last result or all points of the exact path.

        Return None if the exact path does not apply, costs more than separate solves, loses its active set or
        misses the tolerance.
        """
        free = self.method == "auto" and self.max_cuts is None and not self.verbose
        turns = PathTracking().turns(problem, lams.size) if free else 0
        if not turns:
            return None
        limits = {"tol": self.tol, "time_limit": self.time_limit, "max_iter": turns}
        try:
            path = problem.path(float(lams[-1]), exact=True, **limits)
        except MissingCapabilityError:
            return None
        if uninterrupted(path.result).status is not Status.OPTIMAL:
            return None
        found = [path.result] if last else [_OnPath(path(lam), *path.bounds(lam)) for lam in lams]
        return found if max(point.gap for point in found) <= self.tol else None


@dataclass(frozen=True)
class _OnPath:
    """A point on an exact path, with the members of a result that fitted attributes need."""

    x: Array
    lower_bound: float
    objective: float
    n_iter: int = 1
    status: Status = Status.OPTIMAL

    @property
    def gap(self) -> float:
        return relative_gap(self.lower_bound, self.objective)

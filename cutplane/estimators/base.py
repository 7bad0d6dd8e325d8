"""What all estimators share: certified results, classes, and cross-validation."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from numbers import Real
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import check_scoring, r2_score
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import Array, as_scalar, as_vector, refuse_masked
from cutplane.risks.columns import oddest


@dataclass(eq=False, repr=False, kw_only=True)
class CertifiedEstimator(BaseEstimator):
    """An estimator whose problems are solved with certificates; a pickle leaves their results out.

    Parameters
    ----------
    tol : float, default 1e-3
        Relative certified gap, (objective - lower bound) / objective, of each problem.
    max_iter : int, default 10000
        Most iterations for each problem.
    time_limit : float, optional
        Seconds for each problem.
    verbose : int, default 0
        Whether to print a line per iteration.

    Attributes
    ----------
    gap_ : float
        The largest relative gap of the problems.
    n_iter_ : int
        The most iterations of the problems.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        If X has column names.
    """

    tol: float = 1e-3
    max_iter: int = 10_000
    time_limit: float | None = None
    verbose: int = 0
    results_: tuple[Any, ...] = field(init=False)
    n_features_in_: int = field(init=False)
    _formats: ClassVar[Any] = MappingProxyType(
        {"accept_sparse": ("csr", "csc"), "dtype": (np.float64, np.float32)}
    )
    _target_checks: ClassVar[Any] = MappingProxyType({})
    _unpickled = ("results_",)

    @property
    def result_(self) -> Any:
        """The result of the only problem; AttributeError if there are several, as in one-vs-rest."""
        check_is_fitted(self)
        if len(self.results_) != 1:
            raise AttributeError(f"{len(self.results_)} problems were solved; their results are in results_.")
        return self.results_[0]

    def fit(self, X: Any, y: Any, **unsupported: Any) -> Any:
        """Fit.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_samples, n_features)
        y : array_like of shape (n_samples,)
        **unsupported
            Refused by name, as `sample_weight` is: this machine has no weights of examples.

        Returns
        -------
        self

        Raises
        ------
        InvalidInputError
            A ``ValueError``; if a parameter or an argument is wrong.
        """
        for name in unsupported:
            remedy = "; repeat the examples that count more" if name == "sample_weight" else ""
            raise InvalidInputError(f"{type(self).__name__}.fit takes X and y, and no {name}{remedy}.")
        self._store(self._fitted(X, y))
        return self

    def _fitted(self, X: Any, y: Any) -> Sequence[Any]:
        """Return the results of the problems."""
        raise NotImplementedError

    def _store(self, results: Sequence[Any]) -> None:
        """Set the fitted attributes."""
        raise NotImplementedError

    def _predictions(self, X: Any) -> Array:
        """Return the values of the predictors, one column for each problem."""
        raise NotImplementedError

    def _training(self, X: Any, y: Any) -> tuple[Any, Array]:
        """Return the checked examples and targets."""
        X, y = checked(self, X, y, **self._formats, **self._target_checks)
        self._note_units(X)
        return X, y

    def _note_units(self, X: Any) -> None:
        """Keep which column of X stands out, to be named by a warning; a kernel matrix has no units."""
        self._odd = None if getattr(self, "kernel", None) == "precomputed" else oddest(X)

    def _examples(self, X: Any) -> Any:
        """Return checked examples to predict for."""
        check_is_fitted(self)
        return checked(self, X, reset=False, **self._formats)

    def _keep(self, results: Sequence[Any]) -> None:
        """Set the attributes that speak of the results; warn of those that are not optimal."""
        for result in results:
            if result.status.name != "OPTIMAL":
                warn(self, result, f"relative gap {result.gap:.2g}", stacklevel=5, units=self._units())
        self.results_ = tuple(results)
        self.n_iter_ = max(1, *(result.n_iter for result in results), 1)
        self.gap_ = max(result.gap for result in results)
        self.objective_ = sum(result.objective for result in results)
        self.lower_bound_ = sum(result.lower_bound for result in results)

    def _units(self) -> str:
        """Return a sentence about the column whose units are a likely cause of slow progress, or nothing."""
        odd = vars(self).get("_odd")
        if odd is None:
            return ""
        j, mean, deviation = odd
        names = vars(self).get("feature_names_in_")
        column = f"Column {j}" if names is None else f"Column {names[j]!r}"
        return (
            f" {column} of X has the mean {mean:.3g} and the standard deviation {deviation:.3g}, unlike the "
            "others: its units are the likely cause; use sklearn.preprocessing.StandardScaler."
        )

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        return {name: value for name, value in state.items() if name not in self._unpickled}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = bool(self._formats.get("accept_sparse"))
        return tags


class Classification(ClassifierMixin, CertifiedEstimator):
    """Classes, one problem for each against the rest, and scores.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    """

    classes_: Array

    def decision_function(self, X: Any) -> Array:
        """Return the scores of the classes.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            The class with the largest is predicted; with two classes of shape (n_samples,), positive for
            ``classes_[1]``.
        """
        found = self._predictions(X)
        return found[:, 0] if found.shape[1] == 1 else found

    def predict(self, X: Any) -> Array:
        """Return the classes.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._classes(self.decision_function(X))

    def _classes(self, scores: Array) -> Array:
        chosen = (scores > 0.0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[chosen]

    def _labels(self, y: Array) -> Array:
        """Set ``classes_``, and return the number of each example's class."""
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            found = f"1 class: {self.classes_.tolist()[0]!r}"
            raise InvalidInputError(f"{type(self).__name__} needs at least 2 classes in y, got {found}.")
        return labels

    def _against_rest(self, labels: Array) -> list[Array]:
        """Return targets -1 and 1: of the second class if there are two, else of each."""
        count = len(self.classes_)
        return [np.where(labels == k, 1.0, -1.0) for k in ((1,) if count == 2 else range(count))]


class Regression(RegressorMixin, CertifiedEstimator):
    """Numbers to predict, one problem."""

    _target_checks = MappingProxyType({"y_numeric": True})

    def predict(self, X: Any) -> Array:
        """Return the predictions.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._predictions(X)[:, 0]


@dataclass(eq=False, repr=False, kw_only=True)
class CrossValidated(CertifiedEstimator):
    """A weight chosen by cross-validation, along paths of problems that share their cuts.

    A subclass says which weights (`_set_weights`), and follows the path of a problem (`_follow`).

    Parameters
    ----------
    cv : int, cross-validation generator or iterable, optional
        As in scikit-learn; by default 5 folds, stratified for classes.
    scoring : str or callable, optional
        As in scikit-learn; by default the accuracy or the coefficient of determination.
    """

    cv: Any = None
    scoring: Any = None

    def _set_weights(self) -> None:
        """Set the weights in the order of the path."""
        raise NotImplementedError

    def _declare(self, X: Any, y: Any) -> list[Any]:
        """Return the problems on these examples, with the first weight."""
        raise NotImplementedError

    def _follow(self, problem: Any) -> Iterator[Any]:
        """Yield the results of a problem along the path."""
        raise NotImplementedError

    def _best(self, X: Any, y: Any, sample_weight: Any = None) -> int:
        """Set ``scores_``, and return the position of the weight with the best mean score."""
        X, y = indexable(X, y)
        weights = as_weights(sample_weight, len(y))
        folds: Any = check_cv(self.cv, y, classifier=is_classifier(self))
        scores = [self._scores(X, y, weights, *fold) for fold in folds.split(X, y)]
        self.scores_ = np.column_stack(scores)
        return int(np.argmax(self.scores_.mean(axis=1)))

    def _scores(self, X: Any, y: Any, weights: Array | None, train: Array, test: Array) -> list[float]:
        """Return the score on the test part for each weight, of the path on the training part."""
        given: Any = self.get_params(deep=False) | {"cv": None}  # a generator cannot be copied
        model: Any = clone(type(self)(**given))
        model._set_weights()
        known, held_out = ((_safe_indexing(X, part), _safe_indexing(y, part)) for part in (train, test))
        weigh = [{} if weights is None else {"sample_weight": weights[part]} for part in (train, test)]
        problems = model._declare(*known, **weigh[0])
        at_once = _AT_ONCE.get(type(model).score) if self.scoring is None else None
        scorer: Any = check_scoring(model, scoring=self.scoring)
        found = []
        for results in zip(*map(model._follow, problems), strict=True):
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
"""What scikit-learn's `score` is for each of several columns of predictions: it checks them one by one."""


def checked(estimator: Any, X: Any, *y: Any, **options: Any) -> Any:
    """Return what scikit-learn's `validate_data` returns; masks and dates, which it drops, are refused."""
    for name, value in zip("Xy", (X, *y), strict=False):
        refuse_masked(name, value)
        if getattr(getattr(value, "dtype", None), "kind", "f") in "mMV":
            raise InvalidInputError(f"{name} must hold numbers or labels, got dtype {value.dtype}.")
    return validate_data(estimator, X, *y, **options)


def ascending(name: str, values: Any, default: Array) -> Array:
    """Return different positive numbers, the least first."""
    found = default if values is None else np.unique(as_vector(name, values))
    if found.size == 0 or found[0] <= 0.0:
        raise InvalidInputError(f"{name} must be positive numbers, at least one, got {values!r}.")
    return found


def warn(estimator: Any, result: Any, gap: str, stacklevel: int, units: str = "") -> None:
    """Warn that a fit ended without the accuracy that was asked for."""
    warnings.warn(
        f"{type(estimator).__name__} ended as {result.status} with the {gap}, not tol = {estimator.tol:g}: "
        f"{result.reason}. {result.status.remedy}{units}",
        ConvergenceWarning,
        stacklevel=stacklevel,
    )


def uninterrupted(result: Any) -> Any:
    """Return the result; raise `KeyboardInterrupt` again if that ended it."""
    if result.status.name == "INTERRUPTED":
        raise KeyboardInterrupt
    return result


def as_weights(sample_weight: Any, m: int) -> Array | None:
    """Return the weights of m examples as a vector; None stays None, and a number holds for each."""
    if sample_weight is None:
        return None
    if isinstance(sample_weight, Real):
        return np.full(m, as_scalar("sample_weight", sample_weight, low=0.0))
    return as_vector("sample_weight", sample_weight, m)

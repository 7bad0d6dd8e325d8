"""What the estimators of multiple kernel learning share."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from cutplane.estimators.formulation import CLASSIFICATION, REGRESSION, as_loss
from cutplane.estimators.mkl_banks import as_kernels, as_scaler
from cutplane.exceptions import InvalidInputError
from cutplane.kernels import KernelBank
from cutplane.losses.base import ScalarLoss
from cutplane.losses.regression import EpsilonInsensitive, SquaredEpsilonInsensitive
from cutplane.mkl import MKL, MKLResult
from cutplane.pieces.validation import Array

_CLASSIFICATION = {name: CLASSIFICATION[name] for name in ("hinge", "squared_hinge", "modified_huber")}
_REGRESSION = {name: REGRESSION[name] for name in ("squared", "absolute", "huber", "quantile")}
_TUBES = {
    "epsilon_insensitive": EpsilonInsensitive,
    "squared_epsilon_insensitive": SquaredEpsilonInsensitive,
}


class MKLEstimator(BaseEstimator):
    """A kernel machine with learnt weights of its kernels, and a certificate.

    A subclass says which loss (`_loss`), what the targets of its problems are (`_encode`), and stores its
    parameters in its own ``__init__``. All problems share one bank.
    """

    kernels: Any
    C: float
    norm: float
    entropy: float
    normalize: Any
    fit_intercept: bool
    method: Any
    tol: float
    max_iter: int
    time_limit: float | None
    verbose: int
    weights_: Array
    dual_coef_: Array
    intercept_: Any
    n_features_in_: int
    _target_checks: Mapping[str, Any] = MappingProxyType({})

    def fit(self, X: Any, y: Any) -> Any:
        """Fit.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_samples, n_features)
        y : array_like of shape (n_samples,)

        Returns
        -------
        self

        Raises
        ------
        InvalidInputError
            A ``ValueError``; if a parameter or an argument is wrong.
        """
        problems = self._declare(X, y)
        self._store([self._solve(problem) for problem in problems])
        return self

    @property
    def _first_C(self) -> float:
        """The C with which the problems are declared."""
        return self.C

    def _loss(self) -> ScalarLoss:
        raise NotImplementedError

    def _encode(self, y: Array) -> list[Array]:
        """Return the targets of each problem."""
        raise NotImplementedError

    def _declare(self, X: Any, y: Any) -> list[MKL]:
        """Check the data and return the problems whose solutions are the rows of ``dual_coef_``."""
        loss = self._loss()
        X, y = validate_data(self, X, y, **self._formats, **self._target_checks)
        kernels = as_kernels(self.kernels, X.shape[1])
        targets = self._encode(y)
        self._scaler = as_scaler(self.kernels, sparse.issparse(X))
        if self._scaler is not None:
            X = self._scaler.fit_transform(X)
        bank = KernelBank(
            kernels,
            X,
            normalize=self.normalize,
            feature_names=getattr(self, "feature_names_in_", None),
        )
        options = {"entropy": self.entropy, "intercept": bool(self.fit_intercept)}
        return [MKL(bank, target, self._first_C, loss, self.norm, **options) for target in targets]

    def _solve(self, problem: MKL, warm_start: MKLResult | None = None) -> MKLResult:
        result = problem.solve(
            self.method,
            tol=self.tol,
            max_iter=self.max_iter,
            time_limit=self.time_limit,
            warm_start=warm_start,
            log=bool(self.verbose),
        )
        if result.status.name == "INTERRUPTED":
            raise KeyboardInterrupt
        return result

    def _store(self, results: Sequence[MKLResult]) -> None:
        """Set the fitted attributes."""
        for result in results:
            if result.status.name != "OPTIMAL":
                warnings.warn(
                    f"{type(self).__name__} ended as {result.status} with the relative gap {result.gap:.2g}, "
                    f"not tol = {self.tol:g}: {result.reason}. {result.status.remedy}",
                    ConvergenceWarning,
                    stacklevel=3,
                )
        bank, single = results[0].mkl.bank, len(results) == 1
        weights = np.array([result.weights for result in results])
        total = weights.sum(axis=0)
        order = np.argsort(-total, kind="stable")
        self.selected_kernels_ = order[total[order] > 0.0]
        self.kernel_names_ = np.array(bank.names, dtype=object)
        self._kept = self.selected_kernels_ if self.selected_kernels_.size else order[:1]
        self._bank = bank.restricted(self._kept)
        self.weights_ = weights[0] if single else weights
        self.dual_coef_ = results[0].coefficients if single else np.array([r.coefficients for r in results])
        self.intercept_ = results[0].intercept if single else np.array([r.intercept for r in results])
        self.results_ = tuple(results)
        self.n_iter_ = max(1, *(result.n_iter for result in results), 1)
        self.gap_ = max(result.gap for result in results)
        self.objective_ = sum(result.objective for result in results)
        self.lower_bound_ = sum(result.lower_bound for result in results)

    @property
    def result_(self) -> MKLResult:
        """The result of the only problem; AttributeError if there are several, as in one-vs-rest."""
        if len(self.results_) != 1:
            raise AttributeError(f"{len(self.results_)} problems were solved; their results are in results_.")
        return self.results_[0]

    def _predictions(self, X: Any) -> Array:
        """Return the values of the predictors, shape (n_samples, n_problems)."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, **self._formats)
        if self._scaler is not None:
            X = self._scaler.transform(X)
        rows = zip(np.atleast_2d(self.weights_), np.atleast_2d(self.dual_coef_), strict=True)
        values = [self._bank.predict(X, weights[self._kept], a) for weights, a in rows]
        return np.column_stack(values) + self.intercept_

    @property
    def _formats(self) -> dict[str, Any]:
        return {"accept_sparse": ("csr", "csc"), "dtype": (np.float64, np.float32)}

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        return {name: value for name, value in state.items() if name != "results_"}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class MKLClassification(ClassifierMixin, MKLEstimator):
    """What the classifiers share: classes, one problem for each against the rest, scores."""

    loss: Any

    def decision_function(self, X: Any) -> Array:
        """Return the scores of the classes; only kernels with weight are evaluated.

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
        found = self._predictions(X)
        chosen = (found[:, 0] > 0.0).astype(np.intp) if found.shape[1] == 1 else found.argmax(axis=1)
        return self.classes_[chosen]

    def _loss(self) -> ScalarLoss:
        return as_loss(self.loss, _CLASSIFICATION)

    def _encode(self, y: Array) -> list[Array]:
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        count = len(self.classes_)
        if count < 2:
            raise InvalidInputError(
                f"{type(self).__name__} needs at least 2 classes in y, got 1 class: {self.classes_[0]!r}."
            )
        return [np.where(labels == k, 1.0, -1.0) for k in ((1,) if count == 2 else range(count))]


class MKLRegression(RegressorMixin, MKLEstimator):
    """What the regressors share."""

    loss: Any
    epsilon: float
    _target_checks = MappingProxyType({"y_numeric": True})

    def predict(self, X: Any) -> Array:
        """Return the predictions; only kernels with weight are evaluated.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._predictions(X)[:, 0]

    def _loss(self) -> ScalarLoss:
        tubes = {name: kind(self.epsilon) for name, kind in _TUBES.items()}
        return as_loss(self.loss, _REGRESSION | tubes)

    def _encode(self, y: Array) -> list[Array]:
        return [y]

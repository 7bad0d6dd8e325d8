"""Learnt weights of kernels, with C chosen by cross-validation along paths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing, indexable

from cutplane.estimators.mkl_base import MKLClassification, MKLEstimator, MKLRegression
from cutplane.exceptions import InvalidInputError
from cutplane.mkl import MKL, MKLResult
from cutplane.pieces.validation import Array, as_vector

_CS = np.logspace(-2, 3, 6)


class CrossValidatedMKL(MKLEstimator):
    """What the cross-validated estimators share: one bank and one path of problems for each fold."""

    Cs: Any
    cv: Any
    scoring: Any

    def fit(self, X: Any, y: Any) -> Any:
        """Choose `C_` by cross-validation and fit with it on all data.

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
        self.Cs_ = _ascending(self.Cs)
        problems = self._declare(X, y)
        X, y = indexable(X, y)
        folds: Any = check_cv(self.cv, y, classifier=is_classifier(self))
        self.scores_ = np.column_stack([self._scores(X, y, *fold) for fold in folds.split(X, y)])
        best = int(np.argmax(self.scores_.mean(axis=1)))
        self.C_ = float(self.Cs_[best])
        self._store([self._solve(problem.with_C(self.C_)) for problem in problems])
        return self

    @property
    def _first_C(self) -> float:
        return float(self.Cs_[0])

    def _follow(self, problem: MKL) -> Iterator[MKLResult]:
        """Yield the results along the path, each with the cuts of the one before."""
        result = None
        for C in self.Cs_.tolist():
            result = self._solve(problem.with_C(C), result)
            yield result

    def _scores(self, X: Any, y: Any, train: Array, test: Array) -> list[float]:
        """Return the score on the test part for each C, of the path on the training part."""
        model: Any = clone(self)
        model.Cs_ = self.Cs_
        problems = model._declare(_safe_indexing(X, train), _safe_indexing(y, train))
        held_out = _safe_indexing(X, test), _safe_indexing(y, test)
        scorer: Any = check_scoring(model, scoring=self.scoring)
        scores = []
        for results in zip(*map(model._follow, problems), strict=True):
            model._store(results)
            scores.append(float(scorer(model, *held_out)))
        return scores


class MKLClassifierCV(CrossValidatedMKL, MKLClassification):
    """An `MKLClassifier` whose `C` is chosen by cross-validation.

    Each fold has one bank, of its training examples, and the problems are solved from the smallest C to the
    largest; the coefficients of each cut are rescaled, so that it holds for the next C. The final fit is on
    all data with the C that was chosen.

    Parameters
    ----------
    kernels : {"default", "single-feature"}, Kernel or list of Kernel, default "default"
        Kernels of `cutplane.kernels`. "default" are 8 of all features: linear, polynomial of degree 2 and 3,
        and Gaussian with the widths sqrt(n_features) times 1/4, 1/2, 1, 2, 4; "single-feature" the 13 for
        each feature of `cutplane.kernels.single_feature_kernels`. Both are for features of mean 0 and
        variance 1 and make them so; sparse features are scaled only. Given kernels get X as it is. Matrices
        of kernels are for `cutplane.mkl.MKL`.
    Cs : array_like, optional
        Weights of the loss, each greater than 0; by default 6 from 1e-2 to 1e3.
    cv : int, cross-validation generator or iterable, optional
        As in scikit-learn; by default 5 folds, stratified.
    scoring : str or callable, optional
        As in scikit-learn; by default the accuracy.
    norm : float, default 1.0
        p, in [1, inf]: with 1 few kernels get weight.
    entropy : float, default 0.0
        Weight of ``sum_k beta_k ln(n_kernels beta_k)``, for norm 1: at least 0.
    loss : {"hinge", "squared_hinge", "modified_huber"} or ScalarLoss, default "hinge"
        l; an object for targets -1 and 1 must be one that `cutplane.kernels.machine.KernelMachine` takes.
    normalize : {"trace", "diagonal", "center"}, tuple of these or None, default "trace"
        How each kernel is normalised on the training examples; see `cutplane.kernels.KernelBank`.
    fit_intercept : bool, default True
        Whether there is a b.
    method : Method or "auto", default "auto"
        Such as ``cutplane.LevelBundle()``.
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
    C_ : float
        The weight with the best mean score; of equals, the smallest.
    Cs_ : ndarray of shape (n_Cs,)
        The weights in the order of the path, ascending.
    scores_ : ndarray of shape (n_Cs, n_folds)
    weights_ : ndarray of shape (n_kernels,) or (n_classes, n_kernels)
        One row for each class if there are more than two.
    kernel_names_ : ndarray of shape (n_kernels,)
    selected_kernels_ : ndarray of int
        The kernels with weight in any of the problems, the largest sum first.
    dual_coef_ : ndarray of shape (n_samples,) or (n_classes, n_samples)
    intercept_ : float or ndarray of shape (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    objective_, lower_bound_ : float
        The objective, summed over the problems, and what is certified to be below its optimum.
    gap_ : float
        The largest relative gap of the problems.
    n_iter_ : int
        The most iterations of the problems.
    results_ : tuple of MKLResult
        One for each problem: ``results_[0].certificate.verify()``. They keep all kernels, and are left out
        when the estimator is pickled.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        If X has column names.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from cutplane.estimators import MKLClassifierCV
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MKLClassifierCV(Cs=[0.01, 1.0], cv=3).fit(X, y)
    >>> model.C_, model.scores_.shape, model.weights_.shape, model.score(X, y) > 0.95
    (1.0, (2, 3), (3, 8), True)
    """

    def __init__(
        self,
        kernels: Any = "default",
        *,
        Cs: Any = None,
        cv: Any = None,
        scoring: Any = None,
        norm: float = 1.0,
        entropy: float = 0.0,
        loss: Any = "hinge",
        normalize: Any = "trace",
        fit_intercept: bool = True,
        method: Any = "auto",
        tol: float = 1e-3,
        max_iter: int = 10_000,
        time_limit: float | None = None,
        verbose: int = 0,
    ):
        self.kernels = kernels
        self.Cs = Cs
        self.cv = cv
        self.scoring = scoring
        self.norm = norm
        self.entropy = entropy
        self.loss = loss
        self.normalize = normalize
        self.fit_intercept = fit_intercept
        self.method = method
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.verbose = verbose


class MKLRegressorCV(CrossValidatedMKL, MKLRegression):
    """An `MKLRegressor` whose `C` is chosen by cross-validation.

    Each fold has one bank, of its training examples, and the problems are solved from the smallest C to the
    largest; the coefficients of each cut are rescaled, so that it holds for the next C. The final fit is on
    all data with the C that was chosen.

    Parameters
    ----------
    kernels : {"default", "single-feature"}, Kernel or list of Kernel, default "default"
        Kernels of `cutplane.kernels`. "default" are 8 of all features: linear, polynomial of degree 2 and 3,
        and Gaussian with the widths sqrt(n_features) times 1/4, 1/2, 1, 2, 4; "single-feature" the 13 for
        each feature of `cutplane.kernels.single_feature_kernels`. Both are for features of mean 0 and
        variance 1 and make them so; sparse features are scaled only. Given kernels get X as it is. Matrices
        of kernels are for `cutplane.mkl.MKL`.
    Cs : array_like, optional
        Weights of the loss, each greater than 0; by default 6 from 1e-2 to 1e3.
    cv : int, cross-validation generator or iterable, optional
        As in scikit-learn; by default 5 folds.
    scoring : str or callable, optional
        As in scikit-learn; by default the coefficient of determination.
    norm : float, default 1.0
        p, in [1, inf]: with 1 few kernels get weight.
    entropy : float, default 0.0
        Weight of ``sum_k beta_k ln(n_kernels beta_k)``, for norm 1: at least 0.
    loss : str or ScalarLoss, default "epsilon_insensitive"
        l: "epsilon_insensitive", "squared_epsilon_insensitive", "squared" (half the squared residual),
        "absolute", "huber" (delta = 1), "quantile" (the median), or a loss object such as
        ``cutplane.losses.Quantile(0.9)``.
    epsilon : float, default 0.1
        Half the width of the tube without loss of the first two, in the unit of y; at least 0.
    normalize : {"trace", "diagonal", "center"}, tuple of these or None, default "trace"
        How each kernel is normalised on the training examples; see `cutplane.kernels.KernelBank`.
    fit_intercept : bool, default True
        Whether there is a b.
    method : Method or "auto", default "auto"
        Such as ``cutplane.LevelBundle()``.
    tol : float, default 1e-3
        Relative certified gap, (objective - lower bound) / objective.
    max_iter : int, default 10000
    time_limit : float, optional
        Seconds.
    verbose : int, default 0
        Whether to print a line per iteration.

    Attributes
    ----------
    C_ : float
        The weight with the best mean score; of equals, the smallest.
    Cs_ : ndarray of shape (n_Cs,)
        The weights in the order of the path, ascending.
    scores_ : ndarray of shape (n_Cs, n_folds)
    weights_ : ndarray of shape (n_kernels,)
    kernel_names_ : ndarray of shape (n_kernels,)
    selected_kernels_ : ndarray of int
        The kernels with weight, the largest first.
    dual_coef_ : ndarray of shape (n_samples,)
    intercept_ : float
    objective_, lower_bound_ : float
        The objective, and what is certified to be below its optimum.
    gap_ : float
        The relative gap.
    n_iter_ : int
        Number of iterations.
    results_ : tuple of MKLResult
        The result: ``results_[0].certificate.verify()``. It keeps all kernels, and is left out when the
        estimator is pickled.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        If X has column names.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.estimators import MKLRegressorCV
    >>> X = np.random.default_rng(0).uniform(-2.0, 2.0, (60, 2))
    >>> model = MKLRegressorCV(Cs=[0.01, 10.0], cv=3).fit(X, np.sin(2.0 * X[:, 1]))
    >>> model.C_, model.scores_.shape, model.score(X, np.sin(2.0 * X[:, 1])) > 0.9
    (10.0, (2, 3), True)
    """

    def __init__(
        self,
        kernels: Any = "default",
        *,
        Cs: Any = None,
        cv: Any = None,
        scoring: Any = None,
        norm: float = 1.0,
        entropy: float = 0.0,
        loss: Any = "epsilon_insensitive",
        epsilon: float = 0.1,
        normalize: Any = "trace",
        fit_intercept: bool = True,
        method: Any = "auto",
        tol: float = 1e-3,
        max_iter: int = 10_000,
        time_limit: float | None = None,
        verbose: int = 0,
    ):
        self.kernels = kernels
        self.Cs = Cs
        self.cv = cv
        self.scoring = scoring
        self.norm = norm
        self.entropy = entropy
        self.loss = loss
        self.epsilon = epsilon
        self.normalize = normalize
        self.fit_intercept = fit_intercept
        self.method = method
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.verbose = verbose


def _ascending(Cs: Any) -> Array:
    values = _CS if Cs is None else np.unique(as_vector("Cs", Cs))
    if values.size == 0 or values[0] <= 0.0:
        raise InvalidInputError(f"Cs must be positive numbers, at least one, got {Cs!r}.")
    return values

"""Boosting classifiers: ensembles of the largest soft margin."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from cutplane.boosting import DecisionStumps, EarlyStopping, ERLPBoost, LPBoost, MLPBoost, SoftMargin
from cutplane.boosting.ensemble import Ensemble
from cutplane.boosting.methods import BoostingMethod
from cutplane.boosting.result import BoostingResult
from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import Array, as_count, as_scalar

_split: Any = train_test_split


class BoostingClassifier(ClassifierMixin, BaseEstimator):
    """What the boosting classifiers share; a subclass says which method.

        maximise  rho - 1/(nu m) sum_i xi_i   over ensembles w, y_i sum_h w_h h(x_i) >= rho - xi_i, xi >= 0

    With more than two classes, each is separated from the rest, one ensemble for each class, and the class
    with the largest score is predicted.

    Parameters
    ----------
    estimator : scikit-learn classifier, weak learner or None, default None
        Whose ``fit`` accepts ``sample_weight``; or a weak learner of `cutplane.boosting`; None: decision
        stumps, for which the gap is certified over all stumps.
    nu : float, default 0.1
        In (0, 1]: the share of the examples that may count as outliers; ``nu m`` is at least 1.
    tol : float, default 0.01
        Absolute gap of the soft margin; margins are in [-1, 1].
    max_iter : int, default 1000
        Most rounds for each ensemble.
    time_limit : float, optional
        Seconds for each ensemble.
    validation_fraction : float, optional
        In (0, 1): share of the examples set aside to stop when the error on them no longer falls.
    n_iter_no_change : int, default 20
        Rounds without a lower error there.
    random_state : int, RandomState instance or None, default None
        For the split, and passed on to `estimator` if it has such a parameter.
    verbose : int, default 0
        Whether to print a line per round.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    ensembles_ : tuple of Ensemble
        One with two classes, else one for each class.
    results_ : tuple of BoostingResult
        Left out when the estimator is pickled.
    gap_ : float
        The largest absolute gap of the soft margins.
    n_iter_ : int
        The most rounds.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        If X has column names.
    """

    _method: ClassVar[BoostingMethod]
    ensembles_: tuple[Ensemble, ...]
    n_features_in_: int

    def __init__(
        self,
        estimator: Any = None,
        nu: float = 0.1,
        *,
        tol: float = 0.01,
        max_iter: int = 1000,
        time_limit: float | None = None,
        validation_fraction: float | None = None,
        n_iter_no_change: int = 20,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.estimator = estimator
        self.nu = nu
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.random_state = random_state
        self.verbose = verbose

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
            A ``ValueError``; if a parameter is wrong, or y has one class only.
        """
        share = as_scalar("nu", self.nu, low=0.0, low_open=True, high=1.0)
        as_count("max_iter", self.max_iter)
        X, y = validate_data(self, X, y, **self._formats)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        count = len(self.classes_)
        if count < 2:
            raise InvalidInputError(
                f"{type(self).__name__} needs at least 2 classes in y, got 1 class: {self.classes_[0]!r}."
            )
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        results = []
        for k in (1,) if count == 2 else range(count):
            results.append(self._fit_one(X, np.where(labels == k, 1.0, -1.0), share, seed))
        self._store(results)
        return self

    def _fit_one(self, X: Any, y: Array, share: float, seed: int) -> BoostingResult:
        stopping = None
        if self.validation_fraction is not None:
            fraction = as_scalar(
                "validation_fraction",
                self.validation_fraction,
                low=0.0,
                low_open=True,
                high=1.0,
                high_open=True,
            )
            X, other_X, y, other_y = _split(X, y, test_size=fraction, random_state=seed, stratify=y)
            stopping = EarlyStopping(other_X, other_y, as_count("n_iter_no_change", self.n_iter_no_change))
        problem = SoftMargin(X, y, max(1.0, share * y.size), self._weak_learner(seed))
        return problem.solve(
            self._method,
            tol=self.tol,
            max_iter=self.max_iter,
            time_limit=self.time_limit,
            early_stopping=stopping,
            log=bool(self.verbose),
        )

    def _weak_learner(self, seed: int) -> Any:
        if self.estimator is None:
            return DecisionStumps()
        if not hasattr(self.estimator, "get_params"):
            return self.estimator
        learner: Any = clone(self.estimator)
        if "random_state" in learner.get_params() and learner.get_params()["random_state"] is None:
            learner.set_params(random_state=seed)
        return learner

    def _store(self, results: list[BoostingResult]) -> None:
        for result in results:
            if result.status.name == "INTERRUPTED" and not result.reason.startswith("early stopping"):
                raise KeyboardInterrupt
            if result.status.name not in ("OPTIMAL", "TARGET", "INTERRUPTED"):
                warnings.warn(
                    f"{type(self).__name__} ended as {result.status} with the gap {result.gap_abs:.2g}, not "
                    f"tol = {self.tol:g}: {result.reason}. {result.status.remedy}",
                    ConvergenceWarning,
                    stacklevel=3,
                )
        self.results_ = tuple(results)
        self.ensembles_ = tuple(result.ensemble for result in results)
        self.gap_ = max(result.gap_abs for result in results)
        self.n_iter_ = max(1, *(result.n_iter for result in results), 1)

    def decision_function(self, X: Any) -> Array:
        """Return the scores of the classes, in [-1, 1].

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            With two classes of shape (n_samples,), positive for ``classes_[1]``.
        """
        X = self._checked(X)
        scores = [ensemble.decision_function(X) for ensemble in self.ensembles_]
        return scores[0] if len(scores) == 1 else np.column_stack(scores)

    def predict(self, X: Any) -> Array:
        """Return the classes, shape (n_samples,)."""
        return self._classes(self.decision_function(X))

    def staged_predict(self, X: Any) -> Iterator[Array]:
        """Yield the predictions after each round; an ensemble that has ended stays as it is."""
        X = self._checked(X)
        streams = [result.staged_decision_function(X) for result in self.results_]
        for scores in _last_known(streams):
            yield self._classes(scores[0] if len(scores) == 1 else np.column_stack(scores))

    def _classes(self, scores: Array) -> Array:
        chosen = (scores >= 0.0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[chosen]

    def _checked(self, X: Any) -> Any:
        check_is_fitted(self)
        return validate_data(self, X, reset=False, **self._formats)

    @property
    def _formats(self) -> dict[str, Any]:
        return {
            "accept_sparse": ("csr", "csc"),
            "accept_large_sparse": not hasattr(self.estimator, "get_params"),
            "dtype": (np.float64, np.float32),
        }

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        return {name: value for name, value in state.items() if name != "results_"}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _last_known(streams: list[Iterator[Array]]) -> Iterator[list[Array]]:
    """Yield the next item of each stream, or the last one of a stream that has ended, until all have."""
    current = [next(stream) for stream in streams]
    going = True
    while going:
        yield list(current)
        going = False
        for k, stream in enumerate(streams):
            item = next(stream, None)
            if item is not None:
                current[k], going = item, True


class LPBoostClassifier(BoostingClassifier):
    """Soft-margin boosting by `cutplane.boosting.LPBoost`: few rounds as a rule, small ensembles.

    The parameters and attributes are those of `BoostingClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from cutplane.estimators import LPBoostClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LPBoostClassifier(nu=0.2, tol=0.01).fit(X, y)
    >>> model.gap_ <= 0.01, model.score(X, y) > 0.95
    (True, True)
    """

    _method = LPBoost()


class ERLPBoostClassifier(BoostingClassifier):
    """Soft-margin boosting by `cutplane.boosting.ERLPBoost`: a guaranteed number of rounds.

    The parameters and attributes are those of `BoostingClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from cutplane.estimators import ERLPBoostClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = ERLPBoostClassifier(nu=0.2, tol=0.05).fit(X, y)
    >>> model.gap_ <= 0.05
    True
    """

    _method = ERLPBoost()


class MLPBoostClassifier(BoostingClassifier):
    """Soft-margin boosting by `cutplane.boosting.MLPBoost`: LPBoost's rounds, with a guarantee.

    The parameters and attributes are those of `BoostingClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from cutplane.estimators import MLPBoostClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = MLPBoostClassifier(nu=0.2, tol=0.02).fit(X, y)
    >>> model.gap_ <= 0.02
    True
    """

    _method = MLPBoost()

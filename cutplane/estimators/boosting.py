"""Boosting classifiers: ensembles with the largest soft margin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, field
from itertools import zip_longest
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state

from cutplane.boosting import DecisionStumps, EarlyStopping, ERLPBoost, LPBoost, MLPBoost, SoftMargin
from cutplane.boosting.methods import BoostingMethod
from cutplane.boosting.result import BoostingResult, Ensemble
from cutplane.estimators.base import Classification, estimator
from cutplane.pieces.validation import Array, as_count, as_scalar

_split: Any = train_test_split


@estimator
class BoostingClassifier(Classification):
    """A boosting classifier; a derived class defines the method.

        maximise  rho - 1/(nu m) sum_i xi_i   over ensembles w, y_i sum_h w_h h(x_i) >= rho - xi_i, xi >= 0

    With more than two classes, there is one ensemble for each class against the rest, and the class with the
    largest score is predicted.

    Parameters
    ----------
    estimator : scikit-learn classifier, weak learner or None, default None
        A classifier whose ``fit`` accepts ``sample_weight``, or a weak learner of `cutplane.boosting`. None
        means decision stumps; the gap is then certified over all stumps.
    nu : float, default 0.1
        Fraction of the examples that may be outliers, in (0, 1]; ``nu m`` is at least 1.
    tol : float, default 0.01
        Absolute gap of the soft margin; margins are in [-1, 1].
    max_iter : int, default 1000
        Largest number of rounds for each ensemble.
    validation_fraction : float, optional
        Fraction of the examples, in (0, 1), that are held out for early stopping.
    n_iter_no_change : int, default 20
        Number of rounds without a lower error on the held-out examples after which training stops.
    random_state : int, RandomState instance or None, default None
        Seed of the split, and of `estimator` if it has a parameter ``random_state``.

    Attributes
    ----------
    ensembles_ : tuple of Ensemble
        One ensemble if there are two classes, otherwise one for each class.
    objective_, lower_bound_ : float
        The sum of the edges, and the sum of the soft margins.
    gap_ : float
        The largest absolute gap of the soft margins.
    n_iter_ : int
        The largest number of rounds.
    """

    _method: ClassVar[BoostingMethod]
    _gap = "gap_abs"
    estimator: Any = None
    nu: float = 0.1
    _: KW_ONLY
    tol: float = 0.01
    max_iter: int = 1000
    validation_fraction: float | None = None
    n_iter_no_change: int = 20
    random_state: Any = None
    ensembles_: tuple[Ensemble, ...] = field(init=False)

    def _fitted(self, X: Any, y: Any, sample_weight: Any = None) -> list[BoostingResult]:
        share = as_scalar("nu", self.nu, low=0.0, low_open=True, high=1.0)
        as_count("max_iter", self.max_iter)
        X, y = self._training(X, y)
        targets = self._against_rest(self._labels(y))
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        return [self._fit_one(X, target, share, seed) for target in targets]

    def _fit_one(self, X: Any, y: Array, share: float, seed: int) -> BoostingResult:
        stopping = None
        if self.validation_fraction is not None:
            inside = {"low": 0.0, "low_open": True, "high": 1.0, "high_open": True}
            fraction = as_scalar("validation_fraction", self.validation_fraction, **inside)
            X, other_X, y, other_y = _split(X, y, test_size=fraction, random_state=seed, stratify=y)
            stopping = EarlyStopping(other_X, other_y, as_count("n_iter_no_change", self.n_iter_no_change))
        problem = SoftMargin(X, y, max(1.0, share * y.size), self._weak_learner(seed))
        return problem.solve(self._method, early_stopping=stopping, **self._limits)

    def _weak_learner(self, seed: int) -> Any:
        if self.estimator is None:
            return DecisionStumps()
        if not self._is_sklearn:
            return self.estimator
        learner: Any = clone(self.estimator)
        if "random_state" in learner.get_params() and learner.get_params()["random_state"] is None:
            learner.set_params(random_state=seed)
        return learner

    def _store(self, results: Sequence[BoostingResult]) -> None:
        for result in results:
            if result.status.name == "INTERRUPTED" and not result.reason.startswith("early stopping"):
                raise KeyboardInterrupt
        self._keep(results, accepted=("OPTIMAL", "TARGET", "INTERRUPTED"))
        self.ensembles_ = tuple(result.ensemble for result in results)

    def _predictions(self, X: Any) -> Array:
        X = self._examples(X)
        return np.column_stack([ensemble.decision_function(X) for ensemble in self.ensembles_])

    def staged_predict(self, X: Any) -> Iterator[Array]:
        """Yield the predictions after each round; finished ensembles do not change."""
        X = self._examples(X)
        streams = [result.staged_decision_function(X) for result in self.results_]
        latest: list[Any] = [None] * len(streams)
        for scores in zip_longest(*streams):  # None for a stream that has ended
            latest = [old if new is None else new for old, new in zip(latest, scores, strict=True)]
            yield self._classes(latest[0] if len(latest) == 1 else np.column_stack(latest))

    def _classes(self, scores: Array) -> Array:
        """Return the classes; a score of 0 counts as positive, as in `Ensemble`."""
        return super()._classes(np.where(scores == 0.0, 1.0, scores) if scores.ndim == 1 else scores)

    @property
    def _formats(self) -> dict[str, Any]:
        return {**Classification._formats, "accept_large_sparse": not self._is_sklearn}

    @property
    def _is_sklearn(self) -> bool:
        """Whether the weak learner is a classifier of scikit-learn."""
        return hasattr(self.estimator, "get_params")


@estimator
class LPBoostClassifier(BoostingClassifier):
    """Soft-margin boosting by `cutplane.boosting.LPBoost`, with usually few rounds and small ensembles.

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


@estimator
class ERLPBoostClassifier(BoostingClassifier):
    """Soft-margin boosting by `cutplane.boosting.ERLPBoost`, with a guaranteed number of rounds.

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


@estimator
class MLPBoostClassifier(BoostingClassifier):
    """Soft-margin boosting by `cutplane.boosting.MLPBoost`, with the few rounds of LPBoost and a guarantee.

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

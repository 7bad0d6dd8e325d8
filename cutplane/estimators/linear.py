"""The base classes of the linear estimators: data to problems, and results to attributes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import KW_ONLY, field
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.metaestimators import available_if

from cutplane.estimators.base import (
    CertifiedEstimator,
    Classification,
    Regression,
    Weighted,
    as_weights,
    estimator,
    uninterrupted,
)
from cutplane.estimators.formulation import (
    Loss,
    first_bias,
    first_point,
    is_joint,
    make_regularizer,
    make_risk,
    shape_of,
    starting_point,
    unit_weight,
)
from cutplane.estimators.on_workers import Encoder, RemoteExamples, as_given, by_class, is_collection
from cutplane.exceptions import InvalidInputError
from cutplane.pieces.capabilities import Capability, offers
from cutplane.pieces.validation import Array, as_positive
from cutplane.problem import Problem
from cutplane.regularizers.base import Regularizer
from cutplane.result import Result
from cutplane.risks.data import scores

_ROWS = 1 << 10
"""Number of rows in a block that `digest` hashes, because a copy of all rows may not fit into memory."""


@estimator
class LinearBase(CertifiedEstimator):
    """A linear predictor fitted by the engine, with a certificate.

    Parameters
    ----------
    penalty : {"l2", "l1", "elasticnet"} or Regularizer, default "l2"
        Omega: "l2" is half the squared Euclidean norm; "l1" is the l1 norm; "elasticnet" is `l1_ratio` times
        the l1 norm plus ``1 - l1_ratio`` times "l2"; or a regularizer object of cutplane, whose `lam` is a
        factor. In a joint problem the penalty applies to one vector of the coefficients of all classes, class
        by class.
    alpha : float, default 1e-4
        Weight of the penalty relative to the mean loss; greater than 0.
    l1_ratio : float, default 0.5
        Fraction of the l1 norm in "elasticnet", in [0, 1].
    fit_intercept : bool, default True
        Whether there is an intercept b.
    regularize_intercept : bool, default False
        Whether the penalty includes b, as if X had a constant column. This takes fewer iterations.
    max_cuts : int, optional
        Largest number of cuts stored for each problem; by default unlimited.
    method : Method or "auto", default "auto"
        For example ``cutplane.OCAS()``.
    backend : str or Backend, default "auto"
        The solver of the reduced problems.
    """

    _: KW_ONLY
    max_cuts: int | None = None
    method: Any = "auto"
    backend: Any = "auto"
    coef_: Array = field(init=False)
    intercept_: Any = field(init=False)
    penalty = "l2"
    l1_ratio = 0.5
    fit_intercept = False
    regularize_intercept = False

    @property
    def _biased(self) -> bool:
        return bool(self.fit_intercept)

    def _weight(self, total: float) -> tuple[float, float]:
        """Return lam, the weight of the penalty relative to the mean loss, and the objective's factor."""
        return as_positive("alpha", self.alpha), 1.0  # type: ignore[attr-defined]

    def _regularizer(self, lam: float, shape: tuple[int, int]) -> Regularizer:
        """Return the penalty of coefficients of this shape, with the weight `lam`.

        A joint problem determines only the differences of its biases. Therefore the penalty includes the last
        bias, which fixes their common level without changing the optimum.
        """
        regularized = np.ones(shape, dtype=bool)
        if self._biased and not self.regularize_intercept:
            regularized[:, -1] = False
            if shape[0] > 1 and isinstance(self.penalty, str):
                regularized[-1, -1] = True
        weight = lam * unit_weight(self.penalty)
        return make_regularizer(self.penalty, weight, self.l1_ratio, regularized.ravel())

    @property
    def _options(self) -> dict[str, Any]:
        chosen = {"method": self.method, "backend": self.backend, "max_cuts": self.max_cuts}
        return {**chosen, **self._limits}

    def _solve(self, problems: Sequence[Problem], starts: Any = None) -> list[Result]:
        starts = self._starts(problems) if starts is None else starts
        return [
            uninterrupted(problem.solve(**self._options, **start))
            for problem, start in zip(problems, starts, strict=True)
        ]

    def _starts(self, problems: Sequence[Problem]) -> list[dict[str, Any]]:
        """Return the start of each solve."""
        return [{"x0": self._x0(problem)} for problem in problems]

    def _x0(self, problem: Problem) -> Array | None:
        return None if self.regularize_intercept else starting_point(problem.risk)

    def _store(self, results: Sequence[Result]) -> None:
        self._keep(results)
        solution = np.concatenate([np.asarray(result.x) for result in results])
        solution = solution.reshape(-1, self.n_features_in_ + self._biased)
        self._set_solution(solution[:, : self.n_features_in_], solution[:, self.n_features_in_ :].ravel())

    def _set_solution(self, coef: Array, intercept: Array) -> None:
        """Set ``coef_`` and ``intercept_`` from one row per problem or class; `intercept` may be empty."""
        raise NotImplementedError

    def _predictions(self, X: Any) -> Array:
        """Return X coef_' + intercept_, shape (n_samples, n_rows)."""
        return scores(self._examples(X), np.atleast_2d(self.coef_)) + self.intercept_


@estimator
class LinearEstimator(Weighted, LinearBase):
    """A linear predictor that minimises a mean loss of examples.

    Parameters
    ----------
    warm_start : bool, default False
        Whether the next fit reuses this one. If X, y, the weights and the loss are the same, it starts from
        the cuts (the penalty, its weight and `tol` may change), otherwise from the solution.
    """

    _: KW_ONLY
    fit_intercept: bool = True
    regularize_intercept: bool = False
    warm_start: bool = False
    _unpickled = ("results_", "_digests")

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_samples, n_features)
            float32 and float64 data, dense, CSR or CSC, are not copied. Or a Dask array or dataframe, whose
            blocks stay on the workers of the current Dask client.
        y : array_like of shape (n_samples,)
            A Dask array or series if X is a Dask collection.
        """
        self._store(self._fitted(X, y, sample_weight))
        return self

    def _fitted(self, X: Any, y: Any, sample_weight: Any = None) -> list[Result]:
        if is_collection(X):
            return self._solve(*self._declare_on_workers(X, y, sample_weight))
        return self._solve(self._declare(X, y, sample_weight))

    def _loss(self) -> Loss:
        raise NotImplementedError

    def _encode(self, y: Array, weights: Array | None, loss: Loss) -> tuple[list[Array], Array | None]:
        """Return the targets of each problem, and the weights of the examples."""
        raise NotImplementedError

    def _declare(self, X: Any, y: Any, sample_weight: Any = None) -> list[Problem]:
        """Check the data and return the problems whose solutions are the rows of ``coef_``."""
        loss = self._loss()
        X, y = self._training(X, y)
        weights = as_weights(sample_weight, X.shape[0])
        targets, weights = self._encode(y, weights, loss)
        total = float(X.shape[0]) if weights is None else float(weights.sum())
        lam, self._scale = self._weight(total)
        risks = [make_risk(X, target, loss, weights, bool(self.fit_intercept)) for target in targets]
        regularizer = self._regularizer(lam, shape_of(risks[0]))
        return [Problem(risk, regularizer) for risk in risks]

    def _declare_on_workers(self, X: Any, y: Any, sample_weight: Any) -> tuple[list[Problem], Any]:
        """Return the problems of examples in Dask collections, and the start of each solve."""
        loss, data = self._loss(), RemoteExamples(X, y, sample_weight)
        self.n_features_in_ = data.n_features
        vars(self).pop("feature_names_in_", None)
        if data.names is not None:
            self.feature_names_in_ = data.names
        encoders, total, bias = self._encoders(data, loss)
        lam, self._scale = self._weight(total)
        intercept = bool(self.fit_intercept)
        scores = len(self.classes_) if is_joint(loss) else 1  # type: ignore[attr-defined]
        shape = scores, data.n_features + intercept
        regularizer = self._regularizer(lam, shape)
        risks = data.risks(encoders, loss, total, intercept, scores)
        problems = [Problem(risk, regularizer) for risk in risks]
        first = None if self.regularize_intercept else first_point(shape, intercept, bias)
        last = [self._last_x(k, problem) if self.warm_start else None for k, problem in enumerate(problems)]
        self._digests = []
        return problems, [{"x0": first if x is None else x} for x in last]

    def _encoders(self, data: RemoteExamples, loss: Loss) -> tuple[list[Encoder], float, float]:
        """Return the encoder of each problem, the total weight, and an initial bias."""
        raise NotImplementedError

    def _starts(self, problems: Sequence[Problem]) -> list[dict[str, Any]]:
        """Start from the cuts of the last fit if the risk is the same, else from its solution if possible."""
        starts = super()._starts(problems)
        if not self.warm_start:
            return starts
        results, digests = (vars(self).get(name, ()) for name in self._unpickled)
        self._digests = [digest(problem.risk) for problem in problems]
        for k, (problem, key) in enumerate(zip(problems, self._digests, strict=True)):
            if k < len(digests) and digests[k] == key:
                starts[k] = {"warm_start": results[k]}
            elif (x := self._last_x(k, problem)) is not None:
                starts[k] = {"x0": x}
        return starts

    def _last_x(self, k: int, problem: Problem) -> Array | None:
        """Return the solution of the last fit if it has the right size, otherwise None."""
        results = vars(self).get("results_", ())
        fits = k < len(results) and results[k].x is not None and results[k].x.size == problem.dim
        return results[k].x if fits else None


def _gives_probabilities(model: Any) -> bool:
    try:
        loss = model._loss()
    except InvalidInputError:
        return False
    if offers(loss, Capability.LOG_PROBABILITY):
        return True
    raise AttributeError(
        f"{type(model).__name__} has probabilities only with a loss with log_probability, such as 'logistic' "
        f"or 'softmax', not with {loss!r}."
    )


@estimator
class LinearClassification(LinearEstimator, Classification):
    """A linear classifier with one-vs-rest or joint problems, and probabilities.

    Attributes
    ----------
    coef_ : ndarray of shape (n_rows, n_features)
        One row if there are two classes, otherwise one for each class.
    intercept_ : ndarray of shape (n_rows,)
        Zero without `fit_intercept`.
    """

    _: KW_ONLY
    class_weight: Any = None

    @available_if(_gives_probabilities)
    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithms of `predict_proba`, shape (n_samples, n_classes)."""
        found = self._predictions(X)
        loss: Any = self._loss()
        single = found.shape[1] == 1
        if is_joint(loss):
            return loss.log_probability(np.hstack([0.0 * found, found]) if single else found)
        logarithms = loss.log_probability(np.hstack([-found, found]) if single else found)
        return logarithms if single else logarithms - np.logaddexp.reduce(logarithms, axis=1, keepdims=True)

    @available_if(_gives_probabilities)
    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of the classes, for the losses "logistic" and "softmax".

        With "logistic" and more than two classes, the probabilities of the one-vs-rest problems are divided
        by their sum.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return np.exp(self.predict_log_proba(X))

    def _encode(self, y: Array, weights: Array | None, loss: Loss) -> tuple[list[Array], Array | None]:
        labels = self._labels(y)
        targets = [labels] if is_joint(loss) else self._against_rest(labels)
        return targets, self._weighed(y, labels, weights, self.class_weight)

    def _encoders(self, data: RemoteExamples, loss: Loss) -> tuple[list[Encoder], float, float]:
        classes, totals = data.classes()
        targets, weights = self._encode(classes, totals, loss)  # one example for each class
        assert weights is not None
        factors = np.divide(weights, totals, out=np.zeros_like(totals), where=totals > 0.0)
        encoders: list[Encoder] = [partial(by_class, classes, target, factors) for target in targets]
        return encoders, float(weights.sum()), 1.0

    def _set_solution(self, coef: Array, intercept: Array) -> None:
        if len(coef) == 2:  # only the difference of the scores of two classes matters
            coef, intercept = coef[1:] - coef[:1], intercept[1:] - intercept[:1]
        self.coef_ = coef
        self.intercept_ = intercept if intercept.size else np.zeros(len(coef))


@estimator
class LinearRegression(LinearEstimator, Regression):
    """A linear regressor with one problem.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
        Zero without `fit_intercept`.
    """

    def predict(self, X: Any) -> Array:
        """Return the predictions; with the loss "poisson" these are the means."""
        loss: Any = self._loss()
        return loss.mean(super().predict(X))

    def _encode(self, y: Array, weights: Array | None, loss: Loss) -> tuple[list[Array], Array | None]:
        return [y], weights

    def _encoders(self, data: RemoteExamples, loss: Any) -> tuple[list[Encoder], float, float]:
        total, mean, spread = data.moments()
        return [as_given], total, first_bias(loss, mean + spread)

    def _set_solution(self, coef: Array, intercept: Array) -> None:
        self.coef_ = coef[0]
        self.intercept_ = float(intercept[0]) if intercept.size else 0.0


def digest(risk: Any) -> str:
    """Return a hash of the data, the targets, the weights and the loss of a risk."""
    found = hashlib.blake2b(repr((type(risk), risk.loss, risk.X.shape, risk.intercept)).encode())
    X = risk.X
    parts = [X.data, X.indices, X.indptr] if sparse.issparse(X) else [X if X.flags.c_contiguous else X.T]
    for array in (*parts, risk.y, risk.weights):
        found.update(f"{array.dtype}{array.shape}".encode())
        for start in range(0, len(array), _ROWS):
            found.update(np.ascontiguousarray(array[start : start + _ROWS]).data)
    return found.hexdigest()

"""What the linear estimators share: from data to problems, from results to attributes."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from numbers import Real
from types import MappingProxyType
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from cutplane.estimators.digest import digest
from cutplane.estimators.formulation import Loss, make_regularizer, starting_point, unit_weight
from cutplane.losses.vector import VectorLoss
from cutplane.pieces.validation import Array, as_scalar, as_vector
from cutplane.problem import Problem
from cutplane.result import Result
from cutplane.risks.linear import LinearRisk
from cutplane.risks.multiclass import MulticlassRisk
from cutplane.risks.scores import scores


class LinearEstimator(BaseEstimator):
    """A linear predictor fitted by the engine, with a certificate.

    A subclass says which loss and which penalty (`_loss`, `_weight`), what the targets of its problems are
    (`_encode`), and stores its parameters in its own ``__init__``.
    """

    penalty: Any
    l1_ratio: float = 0.5
    fit_intercept: bool
    regularize_intercept: bool
    tol: float
    max_iter: int
    time_limit: float | None
    max_cuts: int | None
    method: Any
    backend: Any
    verbose: int
    warm_start: bool = False
    coef_: Array
    intercept_: Any
    n_features_in_: int
    _target_checks: Mapping[str, Any] = MappingProxyType({})

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_samples, n_features)
            float32 and float64, dense, CSR and CSC are not copied.
        y : array_like of shape (n_samples,)
        sample_weight : array_like of shape (n_samples,), optional
            Weights >= 0, by default 1 for each example.

        Returns
        -------
        self

        Raises
        ------
        InvalidInputError
            A ``ValueError``; if a parameter or an argument is wrong.
        """
        problems = self._declare(X, y, sample_weight)
        self._store(self._solve(problems))
        return self

    def _loss(self) -> Loss:
        raise NotImplementedError

    def _weight(self, total: float) -> tuple[float, float]:
        """Return lam, the weight of the penalty beside the mean loss, and the factor of the objective."""
        raise NotImplementedError

    def _encode(self, y: Array, weights: Array | None, loss: Loss) -> tuple[list[Array], Array | None]:
        """Return the targets of each problem, and the weights of the examples."""
        raise NotImplementedError

    def _declare(self, X: Any, y: Any, sample_weight: Any) -> list[Problem]:
        """Check the data and return the problems whose solutions are the rows of ``coef_``."""
        loss = self._loss()
        X, y = validate_data(
            self, X, y, accept_sparse=("csr", "csc"), dtype=(np.float64, np.float32), **self._target_checks
        )
        weights = as_weights(sample_weight, X.shape[0])
        targets, weights = self._encode(y, weights, loss)
        total = float(X.shape[0]) if weights is None else float(weights.sum())
        lam, self._scale = self._weight(total)
        options = {"sample_weight": weights, "intercept": bool(self.fit_intercept)}
        kind: Any = MulticlassRisk if isinstance(loss, VectorLoss) else LinearRisk
        risks = [kind(X, target, loss, **options) for target in targets]
        shape = getattr(risks[0], "shape", (1, risks[0].dim))
        regularizer = make_regularizer(
            self.penalty, lam * unit_weight(self.penalty), self.l1_ratio, self._regularized(shape)
        )
        return [Problem(risk, regularizer) for risk in risks]

    def _regularized(self, shape: tuple[int, int]) -> Array:
        """Return which coordinates the penalty depends on.

        Of the biases of a joint problem only the differences matter, so that a penalty on one of them changes
        no optimum; it keeps their common level at zero, which nothing else determines.
        """
        regularized = np.ones(shape, dtype=bool)
        if self.fit_intercept and not self.regularize_intercept:
            regularized[:, -1] = False
            if shape[0] > 1 and isinstance(self.penalty, str):
                regularized[-1, -1] = True
        return regularized.ravel()

    @property
    def _options(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "backend": self.backend,
            "tol": self.tol,
            "max_iter": self.max_iter,
            "time_limit": self.time_limit,
            "max_cuts": self.max_cuts,
            "log": bool(self.verbose),
        }

    def _solve(self, problems: Sequence[Problem]) -> list[Result]:
        starts: list[dict[str, Any]] = [{"x0": self._x0(problem)} for problem in problems]
        if self.warm_start:
            digests = [digest(problem.risk) for problem in problems]
            starts = [self._start(k, problem, digests[k]) for k, problem in enumerate(problems)]
            self._digests = digests
        return [
            uninterrupted(problem.solve(**self._options, **start))
            for problem, start in zip(problems, starts, strict=True)
        ]

    def _start(self, k: int, problem: Problem, key: str) -> dict[str, Any]:
        """Start from the cuts of the last fit if the risk is the same, else from its solution if it fits."""
        results, keys = getattr(self, "results_", ()), getattr(self, "_digests", ())
        if k < len(keys) and keys[k] == key:
            return {"warm_start": results[k]}
        fits = k < len(results) and results[k].x is not None and results[k].x.size == problem.dim
        return {"x0": results[k].x if fits else self._x0(problem)}

    def _x0(self, problem: Problem) -> Array | None:
        risk: Any = problem.risk
        return None if self.regularize_intercept else starting_point(risk)

    def _store(self, results: Sequence[Result]) -> None:
        """Set the fitted attributes."""
        for result in results:
            if result.status.name != "OPTIMAL":
                warnings.warn(
                    f"{type(self).__name__} ended as {result.status} with the relative gap {result.gap:.2g}, "
                    f"not tol = {self.tol:g}: {result.reason}. {result.status.remedy}",
                    ConvergenceWarning,
                    stacklevel=4,
                )
        solution = np.concatenate([np.asarray(result.x) for result in results])
        solution = solution.reshape(-1, self.n_features_in_ + bool(self.fit_intercept))
        self._set_solution(solution[:, : self.n_features_in_], solution[:, self.n_features_in_ :].ravel())
        self.results_ = tuple(results)
        self.n_iter_ = max(result.n_iter for result in results)
        self.gap_ = max(result.gap for result in results)
        self.objective_ = self._scale * sum(result.objective for result in results)
        self.lower_bound_ = self._scale * sum(result.lower_bound for result in results)

    @property
    def result_(self) -> Result:
        """The result of the only problem; AttributeError if there are several, as in one-vs-rest."""
        if len(self.results_) != 1:
            raise AttributeError(f"{len(self.results_)} problems were solved; their results are in results_.")
        return self.results_[0]

    def _set_solution(self, coef: Array, intercept: Array) -> None:
        """Set ``coef_`` and ``intercept_`` from one row per problem or class; `intercept` may be empty."""
        raise NotImplementedError

    def _predictions(self, X: Any) -> Array:
        """Return X coef_' + intercept_, shape (n_samples, n_rows)."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse=("csr", "csc"), dtype=(np.float64, np.float32), reset=False)
        return scores(X, np.atleast_2d(self.coef_)) + self.intercept_

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        return {name: value for name, value in state.items() if name not in ("results_", "_digests")}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def uninterrupted(result: Result) -> Result:
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

"""What the linear estimators share: from data to problems, from results to attributes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.estimators.base import CertifiedEstimator, as_weights, uninterrupted
from cutplane.estimators.formulation import (
    Loss,
    first_point,
    is_joint,
    make_regularizer,
    make_risk,
    shape_of,
    starting_point,
    unit_weight,
)
from cutplane.estimators.on_workers import Encoder, Examples, is_collection
from cutplane.pieces.validation import Array
from cutplane.problem import Problem
from cutplane.regularizers.base import Regularizer
from cutplane.result import Result
from cutplane.risks.scores import scores

_ROWS = 1 << 10


@dataclass(eq=False, repr=False, kw_only=True)
class LinearPredictor(CertifiedEstimator):
    """A linear predictor fitted by the engine, with a certificate.

    Parameters
    ----------
    max_cuts : int, optional
        Most cuts kept for each problem; by default no limit.
    method : Method or "auto", default "auto"
        Such as ``cutplane.OCAS()``.
    backend : str or Backend, default "auto"
        Who solves the reduced problems.

    Attributes
    ----------
    objective_, lower_bound_ : float
        The objective, summed over the problems, and what is certified to be below its optimum.
    results_ : tuple of Result
        One for each problem, in the scaling of the mean loss: ``results_[0].certificate.verify()``. They
        refer to the training data, and are left out when the estimator is pickled.
    """

    max_cuts: int | None = None
    method: Any = "auto"
    backend: Any = "auto"
    coef_: Array = field(init=False)
    intercept_: Any = field(init=False)
    penalty = "l2"
    l1_ratio = 0.5
    fit_intercept = False
    regularize_intercept = False
    _scale = 1.0

    @property
    def _biased(self) -> bool:
        """Whether the problems have biases."""
        return bool(self.fit_intercept)

    def _regularizer(self, lam: float, shape: tuple[int, int]) -> Regularizer:
        """Return the penalty of coefficients of this shape, with the weight `lam`."""
        weight = lam * unit_weight(self.penalty)
        return make_regularizer(self.penalty, weight, self.l1_ratio, self._regularized(shape))

    def _regularized(self, shape: tuple[int, int]) -> Array:
        """Return which coordinates the penalty depends on.

        Of the biases of a joint problem only the differences matter, so that a penalty on one of them changes
        no optimum; it keeps their common level at zero, which nothing else determines.
        """
        regularized = np.ones(shape, dtype=bool)
        if self._biased and not self.regularize_intercept:
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

    def _solve(self, problems: Sequence[Problem], starts: Any = None) -> list[Result]:
        starts = self._starts(problems) if starts is None else starts
        return [
            uninterrupted(problem.solve(**self._options, **start))
            for problem, start in zip(problems, starts, strict=True)
        ]

    def _starts(self, problems: Sequence[Problem]) -> list[dict[str, Any]]:
        """Return where each solve begins."""
        return [{"x0": self._x0(problem)} for problem in problems]

    def _x0(self, problem: Problem) -> Array | None:
        return None if self.regularize_intercept else starting_point(problem.risk)

    def _store(self, results: Sequence[Result]) -> None:
        """Set the fitted attributes."""
        self._keep(results)
        self.objective_ *= self._scale
        self.lower_bound_ *= self._scale
        solution = np.concatenate([np.asarray(result.x) for result in results])
        solution = solution.reshape(-1, self.n_features_in_ + self._biased)
        self._set_solution(solution[:, : self.n_features_in_], solution[:, self.n_features_in_ :].ravel())

    def _set_solution(self, coef: Array, intercept: Array) -> None:
        """Set ``coef_`` and ``intercept_`` from one row per problem or class; `intercept` may be empty."""
        raise NotImplementedError

    def _predictions(self, X: Any) -> Array:
        """Return X coef_' + intercept_, shape (n_samples, n_rows)."""
        return scores(self._examples(X), np.atleast_2d(self.coef_)) + self.intercept_


@dataclass(eq=False, repr=False, kw_only=True)
class LinearEstimator(LinearPredictor):
    """A linear predictor of the mean loss of examples.

    A subclass says which loss and which penalty (`_loss`, `_weight`), and what the targets of its problems
    are (`_encode`).

    Parameters
    ----------
    fit_intercept : bool, default True
        Whether there is a b.
    regularize_intercept : bool, default False
        Whether the penalty includes b, as if X had a constant column; its optimum is found in fewer
        iterations.
    """

    fit_intercept: bool = True
    regularize_intercept: bool = False
    warm_start = False
    _unpickled = ("results_", "_digests")

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_samples, n_features)
            float32 and float64, dense, CSR and CSC are not copied. Or a Dask array or dataframe, whose blocks
            stay on the workers of the current Dask client.
        y : array_like of shape (n_samples,)
            A Dask array or series if X is one.
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
        if is_collection(X):
            self._store(self._solve(*self._declare_on_workers(X, y, sample_weight)))
        else:
            self._store(self._solve(self._declare(X, y, sample_weight)))
        return self

    def _loss(self) -> Loss:
        raise NotImplementedError

    def _weight(self, total: float) -> tuple[float, float]:
        """Return lam, the weight of the penalty beside the mean loss, and the factor of the objective."""
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
        """Return the same problems of examples in Dask collections, and where each solve begins."""
        loss, data = self._loss(), Examples(X, y, sample_weight)
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

    def _encoders(self, data: Examples, loss: Loss) -> tuple[list[Encoder], float, float]:
        """Return the encoder of each problem, the total weight, and a bias to start from."""
        raise NotImplementedError

    def _starts(self, problems: Sequence[Problem]) -> list[dict[str, Any]]:
        if not self.warm_start:
            return super()._starts(problems)
        digests = [digest(problem.risk) for problem in problems]
        starts = [self._start(k, problem, digests[k]) for k, problem in enumerate(problems)]
        self._digests = digests
        return starts

    def _start(self, k: int, problem: Problem, key: str) -> dict[str, Any]:
        """Start from the cuts of the last fit if the risk is the same, else from its solution if it fits."""
        results, keys = (vars(self).get(name, ()) for name in self._unpickled)
        if k < len(keys) and keys[k] == key:
            return {"warm_start": results[k]}
        x = self._last_x(k, problem)
        return {"x0": self._x0(problem) if x is None else x}

    def _last_x(self, k: int, problem: Problem) -> Array | None:
        """Return the solution of the last fit, if it fits."""
        results = vars(self).get("results_", ())
        fits = k < len(results) and results[k].x is not None and results[k].x.size == problem.dim
        return results[k].x if fits else None


@dataclass(eq=False, repr=False, kw_only=True)
class WarmStarted(LinearEstimator):
    """A linear estimator whose next fit may start where the last one ended.

    Parameters
    ----------
    warm_start : bool, default False
        Whether the next fit starts from the cuts of this one, if X, y, the weights and the loss are the same
        (the penalty, its weight and `tol` may change), and else from its solution.
    """

    warm_start: bool = False


@dataclass(eq=False, repr=False)
class AnyPenalty(LinearEstimator):
    """A linear estimator with any loss and any penalty.

    Parameters
    ----------
    penalty : {"l2", "l1", "elasticnet"} or Regularizer, default "l2"
        Omega: half the squared Euclidean norm; the l1 norm; `l1_ratio` times the second plus ``1 - l1_ratio``
        times the first; or a regularizer object of cutplane, whose own `lam` is a factor. The penalty of a
        joint problem is that of the coefficients of all classes in one vector, class by class.
    alpha : float, default 1e-4
        Weight of the penalty beside the mean loss; greater than 0.
    l1_ratio : float, default 0.5
        Share of the l1 norm in "elasticnet", in [0, 1].
    """

    loss: Any = None
    penalty: Any = "l2"
    _: KW_ONLY
    l1_ratio: float = 0.5


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

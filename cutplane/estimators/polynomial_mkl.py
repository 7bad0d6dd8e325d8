"""Regression with a learnt polynomial kernel."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from cutplane.mkl import PolynomialMKL
from cutplane.pieces.validation import Array, as_count


class PolynomialMKLRegressor(RegressorMixin, BaseEstimator):
    """Ridge regression with learnt weights of all products of at most `degree` features.

        minimise  1/2 ||f||^2 + C/2 sum_i (f(x_i) - y_i)^2   over theta >= 0, ||theta||_2 <= 1, f in H_theta

    where H_theta has the kernel ``sum_I theta_I / rho_d^2 prod_{j in I} x_j z_j`` over all ordered tuples I
    of d <= `degree` features; see `cutplane.mkl.PolynomialMKL`. Tuples are sampled, never listed. There is no
    free intercept: the empty product, the constant 1, is one of the kernels. Features are best standardised.
    There are no weights of examples.

    Parameters
    ----------
    degree : int, default 3
        The most factors of a product, at least 0.
    C : float, default 1.0
        Weight of the loss; greater than 0.
    rho : array_like of shape (degree + 1,), optional
        Positive weights of the norms by degree; larger ones make a degree dearer. Default: all 1.
    max_iter : int, default 10000
        Steps at most. The gap falls like 1 / sqrt(steps).
    sampling : {"importance", "uniform"}, default "importance"
        "uniform" gives all tuples the same probability: the baseline.
    tol : float, default 0.01
        Relative certified gap at which the steps end.
    time_limit : float, optional
        Seconds.
    random_state : int, RandomState instance or None, default None
        For the sampling.
    verbose : int, default 0
        Whether to print a line per evaluation of the objective.

    Attributes
    ----------
    weights_ : dict
        From tuples of features, sorted, to their weights; the others have none.
    polynomial_ : dict
        The predictor: from tuples of features, sorted, to the coefficients of their products.
    objective_, lower_bound_ : float
        The objective, and what is certified to be below its optimum.
    gap_ : float
        The relative gap.
    n_iter_ : int
        Number of steps.
    result_ : PolynomialMKLResult
        Left out when the estimator is pickled.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        If X has column names.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.estimators import PolynomialMKLRegressor
    >>> X = np.random.default_rng(0).uniform(-1.0, 1.0, (60, 5))
    >>> y = X[:, 0] * X[:, 3] - 0.1 * X[:, 1]
    >>> model = PolynomialMKLRegressor(C=1e4, max_iter=300, tol=0.5, random_state=0).fit(X, y)
    >>> max(model.polynomial_, key=lambda index: abs(model.polynomial_[index])), model.score(X, y) > 0.99
    ((0, 3), True)
    """

    def __init__(
        self,
        degree: int = 3,
        C: float = 1.0,
        *,
        rho: Any = None,
        max_iter: int = 10_000,
        sampling: Any = "importance",
        tol: float = 0.01,
        time_limit: float | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.degree = degree
        self.C = C
        self.rho = rho
        self.max_iter = max_iter
        self.sampling = sampling
        self.tol = tol
        self.time_limit = time_limit
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Any:
        """Fit.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
        y : array_like of shape (n_samples,)

        Returns
        -------
        self

        Raises
        ------
        InvalidInputError
            A ``ValueError``; if a parameter or an argument is wrong.
        """
        steps = as_count("max_iter", self.max_iter)
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        result = PolynomialMKL(X, y, self.degree, C=self.C, rho=self.rho).solve(
            steps,
            self.time_limit,
            sampling=self.sampling,
            seed=check_random_state(self.random_state).randint(2**31 - 1),
            tol=self.tol,
            log=bool(self.verbose),
        )
        if result.status.name == "INTERRUPTED":
            raise KeyboardInterrupt
        self._store(result)
        return self

    def _store(self, result: Any) -> None:
        if result.status.name != "OPTIMAL":
            warnings.warn(
                f"{type(self).__name__} ended as {result.status} with the relative gap {result.gap:.2g}, not "
                f"tol = {self.tol:g}: {result.reason}. Raise max_iter, time_limit or tol.",
                ConvergenceWarning,
                stacklevel=3,
            )
        self.result_ = result
        self.weights_ = result.weights
        self.polynomial_ = result.polynomial()
        self.n_iter_ = max(1, result.n_iter)
        self.gap_ = result.gap
        self.objective_ = result.objective
        self.lower_bound_ = result.lower_bound

    def predict(self, X: Any) -> Array:
        """Return the predictions: the values of ``polynomial_``.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        out = np.zeros(X.shape[0])
        for index, coefficient in self.polynomial_.items():
            out += coefficient * X[:, list(index)].prod(axis=1)
        return out

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        return {name: value for name, value in state.items() if name != "result_"}

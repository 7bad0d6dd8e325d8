"""Regression with a learnt polynomial kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from cutplane.estimators.base import Regression, uninterrupted
from cutplane.estimators.documentation import documented
from cutplane.mkl import PolynomialMKL, PolynomialMKLResult
from cutplane.pieces.validation import Array, as_count


@documented
@dataclass(eq=False, repr=False)
class PolynomialMKLRegressor(Regression):
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

    degree: int = 3
    C: float = 1.0
    _: KW_ONLY
    rho: Any = None
    max_iter: int = 10_000
    sampling: Any = "importance"
    tol: float = 0.01
    random_state: Any = None
    _formats = MappingProxyType({"dtype": np.float64})

    def _fitted(self, X: Any, y: Any) -> list[PolynomialMKLResult]:
        steps = as_count("max_iter", self.max_iter)
        X, y = self._training(X, y)
        result = PolynomialMKL(X, y, self.degree, C=self.C, rho=self.rho).solve(
            steps,
            self.time_limit,
            sampling=self.sampling,
            seed=check_random_state(self.random_state).randint(2**31 - 1),
            tol=self.tol,
            log=bool(self.verbose),
        )
        return [uninterrupted(result)]

    def _store(self, results: Sequence[PolynomialMKLResult]) -> None:
        self._keep(results)
        self.weights_ = results[0].weights
        self.polynomial_ = results[0].polynomial()

    def _predictions(self, X: Any) -> Array:
        X = self._examples(X)
        out = np.zeros((X.shape[0], 1))
        for index, coefficient in self.polynomial_.items():
            out[:, 0] += coefficient * X[:, list(index)].prod(axis=1)
        return out

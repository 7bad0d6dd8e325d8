"""Linear regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cutplane.estimators.base import Regression
from cutplane.estimators.documentation import documented
from cutplane.estimators.formulation import REGRESSION, Loss, as_loss, first_bias
from cutplane.estimators.linear import AnyPenalty, LinearEstimator, WarmStarted
from cutplane.estimators.on_workers import Encoder, Examples, as_given
from cutplane.pieces.validation import Array, as_scalar


class LinearRegression(LinearEstimator, Regression):
    """What the linear regressors share: one problem.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
        Zero without `fit_intercept`.
    """

    def predict(self, X: Any) -> Array:
        """Return the predictions, shape (n_samples,): with the loss "poisson" the means."""
        loss: Any = self._loss()
        return loss.mean(super().predict(X))

    def _encode(self, y: Array, weights: Array | None, loss: Loss) -> tuple[list[Array], Array | None]:
        return [y], weights

    def _encoders(self, data: Examples, loss: Any) -> tuple[list[Encoder], float, float]:
        total, mean, spread = data.moments()
        return [as_given], total, first_bias(loss, mean + spread)

    def _set_solution(self, coef: Array, intercept: Array) -> None:
        self.coef_ = coef[0]
        self.intercept_ = float(intercept[0]) if intercept.size else 0.0


@dataclass(eq=False, repr=False)
class AnyLossRegression(AnyPenalty, LinearRegression):
    """A linear regressor with any loss.

    Parameters
    ----------
    loss : str or ScalarLoss, default "squared"
        "squared" (half the squared residual), "absolute", "huber" (delta = 1), "quantile" (the median),
        "epsilon_insensitive", "squared_epsilon_insensitive" (epsilon = 0.1), "poisson", or a loss object such
        as ``cutplane.losses.Quantile(0.9)``. With "poisson" the prediction is the mean, exp(<w, x> + b).
    """

    loss: Any = "squared"

    def _loss(self) -> Loss:
        return as_loss(self.loss, REGRESSION)


@documented
@dataclass(eq=False, repr=False)
class LinearRegressor(AnyLossRegression, WarmStarted):
    """Linear regression with any convex loss and any convex penalty, with a certificate.

        minimise  (1 / sum_i c_i) sum_i c_i l(<w, x_i> + b, y_i) + alpha Omega(w)

    With the squared loss and "l1" or "elasticnet" it is scikit-learn's `Lasso` or `ElasticNet`; with "l2" it
    is `Ridge` with n_samples times this `alpha`.

    Examples
    --------
    >>> from cutplane.estimators import LinearRegressor
    >>> model = LinearRegressor("absolute", alpha=0.01, tol=1e-9).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
    >>> model.coef_.round(6).tolist(), round(abs(model.intercept_), 6), round(model.objective_, 6)
    ([1.0], 0.0, 0.005)
    """

    alpha: float = 1e-4

    def _weight(self, total: float) -> tuple[float, float]:
        return as_scalar("alpha", self.alpha, low=0.0, low_open=True), 1.0

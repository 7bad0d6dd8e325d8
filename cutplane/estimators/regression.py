"""Linear regression."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from sklearn.base import RegressorMixin

from cutplane.estimators.base import LinearEstimator
from cutplane.estimators.formulation import REGRESSION, Loss, as_loss
from cutplane.pieces.validation import Array, as_scalar


class LinearRegression(RegressorMixin, LinearEstimator):
    """What the linear regressors share."""

    _target_checks = MappingProxyType({"y_numeric": True})

    def predict(self, X: Any) -> Array:
        """Return the predictions.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        loss: Any = self._loss()
        return loss.mean(self._predictions(X)[:, 0])

    def _encode(self, y: Array, weights: Array | None, loss: Loss) -> tuple[list[Array], Array | None]:
        return [y], weights

    def _set_solution(self, coef: Array, intercept: Array) -> None:
        self.coef_ = coef[0]
        self.intercept_ = float(intercept[0]) if intercept.size else 0.0


class LinearRegressor(LinearRegression):
    """Linear regression with any convex loss and any convex penalty, with a certificate.

        minimise  (1 / sum_i c_i) sum_i c_i l(<w, x_i> + b, y_i) + alpha Omega(w)

    With the squared loss and "l1" or "elasticnet" it is scikit-learn's `Lasso` or `ElasticNet`; with "l2" it
    is `Ridge` with n_samples times this `alpha`.

    Parameters
    ----------
    loss : str or ScalarLoss, default "squared"
        "squared" (half the squared residual), "absolute", "huber" (delta = 1), "quantile" (the median),
        "epsilon_insensitive", "squared_epsilon_insensitive" (epsilon = 0.1), "poisson", or a loss object such
        as ``cutplane.losses.Quantile(0.9)``. With "poisson" the prediction is the mean, exp(<w, x> + b).
    penalty : {"l2", "l1", "elasticnet"} or Regularizer, default "l2"
        Omega: half the squared Euclidean norm; the l1 norm; `l1_ratio` times the second plus ``1 - l1_ratio``
        times the first; or a regularizer object of cutplane, whose own `lam` is a factor.
    alpha : float, default 1e-4
        Weight of the penalty beside the mean loss; greater than 0.
    l1_ratio : float, default 0.5
        Share of the l1 norm in "elasticnet", in [0, 1].
    fit_intercept : bool, default True
        Whether there is a b.
    regularize_intercept : bool, default False
        Whether Omega includes b, as if X had a constant column.
    tol : float, default 1e-3
        Relative certified gap, (objective - lower bound) / objective.
    max_iter : int, default 10000
    time_limit : float, optional
        Seconds.
    max_cuts : int, optional
        Most cuts kept; by default no limit.
    method : Method or "auto", default "auto"
        Such as ``cutplane.OCAS()``.
    backend : str or Backend, default "auto"
        Who solves the reduced problems.
    warm_start : bool, default False
        Whether the next fit starts from the cuts of this one, if X, y, the weights and the loss are the same
        (`alpha`, `penalty` and `tol` may change), and else from its solution.
    verbose : int, default 0
        Whether to print a line per iteration.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
        Zero without `fit_intercept`.
    objective_, lower_bound_ : float
        The objective, and what is certified to be below its optimum.
    gap_ : float
        The relative gap.
    n_iter_ : int
        Number of iterations.
    results_ : tuple of Result
        The result: ``results_[0].certificate.verify()``. It refers to the training data, and is left out when
        the estimator is pickled.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        If X has column names.

    Examples
    --------
    >>> from cutplane.estimators import LinearRegressor
    >>> model = LinearRegressor("absolute", alpha=0.01, tol=1e-9).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
    >>> model.coef_.round(6).tolist(), round(abs(model.intercept_), 6), round(model.objective_, 6)
    ([1.0], 0.0, 0.005)
    """

    def __init__(
        self,
        loss: Any = "squared",
        penalty: Any = "l2",
        alpha: float = 1e-4,
        *,
        l1_ratio: float = 0.5,
        fit_intercept: bool = True,
        regularize_intercept: bool = False,
        tol: float = 1e-3,
        max_iter: int = 10_000,
        time_limit: float | None = None,
        max_cuts: int | None = None,
        method: Any = "auto",
        backend: Any = "auto",
        warm_start: bool = False,
        verbose: int = 0,
    ):
        self.loss = loss
        self.penalty = penalty
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.regularize_intercept = regularize_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.max_cuts = max_cuts
        self.method = method
        self.backend = backend
        self.warm_start = warm_start
        self.verbose = verbose

    def _loss(self) -> Loss:
        return as_loss(self.loss, REGRESSION)

    def _weight(self, total: float) -> tuple[float, float]:
        return as_scalar("alpha", self.alpha, low=0.0, low_open=True), 1.0

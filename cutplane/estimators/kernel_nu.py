"""Nu-forms of kernel machines for scikit-learn: a given fraction of examples is beyond a free margin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, field
from typing import Any, ClassVar

import numpy as np
from sklearn.base import OutlierMixin

from cutplane.estimators.base import Regression, checked, estimator
from cutplane.estimators.kernel import KernelClassification, KernelFunctionEstimator, Part
from cutplane.kernels.base import Kernel
from cutplane.kernels.nu import NuRisk
from cutplane.pieces.validation import Array


class NuPart(Part):
    """The problem of a nu-form; a classifier's function is divided by rho, so that its margin is 1."""

    def coefficients(self, x: Array) -> tuple[Array, Array]:
        """Return the coefficients of the examples, and the intercept."""
        rho = (self.risk.margin(x) if self.risk.task == "classification" else 1.0) or 1.0
        return x[: self.examples.size, np.newaxis] / rho, np.array([self.risk.intercept(x) / rho])


@estimator
class KernelNuEstimator(KernelFunctionEstimator):
    """A function of a kernel's space with a given fraction of examples beyond its margin.

    Parameters
    ----------
    nu : float, default 0.5
        In (0, 1]. At most this fraction of the (weighted) examples is beyond the margin, and at least this
        fraction has a nonzero coefficient.
    """

    nu: float = 0.5
    _task: ClassVar[str]

    def _parts(self, kernel: Kernel, X: Any, y: Array, weights: Array | None, risk: Any = None) -> list[Part]:
        targets, weights = self._targets(y, weights)
        weights = np.ones(X.shape[0]) if weights is None else weights
        whole, parts = NuRisk(X, None, self.nu, kernel, "novelty", cache_bytes=self.cache_bytes), []
        for target, rows in targets:
            one = whole if rows is None else whole.restricted(rows)
            examples = np.arange(X.shape[0]) if rows is None else rows
            one = one.with_targets(target, weights[examples], self._task)
            parts.append(NuPart(one, examples, norm=one.squared_norm))
        return parts

    def _margins(self, results: Sequence[Any]) -> Array:
        """Return the optimal margin of each problem."""
        return np.array([result.certificate.problem.risk.margin(result.x) for result in results])


@estimator
class KernelNuSVC(KernelClassification, KernelNuEstimator):
    """The nu-form of the support vector classifier, with a certificate.

        minimise  1/2 ||f||^2 + sum_i c_i (max(0, rho - y_i (f(x_i) + b)) - nu rho)   over f, b, rho

    At most a fraction nu of the examples is on the wrong side of the margin, and at least this fraction are
    support vectors. The function is divided by rho, so that its margin is 1; it then equals the function of
    ``KernelSVC(C=1/rho)``. If no function separates the classes, rho is 0.

    Parameters
    ----------
    nu : float, default 0.5
        In (0, 1], and at most twice the fraction of the smaller class in each problem.
    multi_class : {"ovo", "ovr"}, default "ovo"
        With more than two classes: one problem for each pair of classes ("ovo"), or one for each class
        against the rest ("ovr"). "ovr" needs a smaller nu, because a single class is a smaller fraction of
        all examples.

    Attributes
    ----------
    rho_ : ndarray of shape (n_problems,)
        The margins before the division.

    References
    ----------
    B. Schölkopf, A. J. Smola, R. C. Williamson, P. L. Bartlett, "New support vector algorithms", Neural
    Computation 12, 2000, doi:10.1162/089976600300015565.

    Examples
    --------
    >>> from cutplane.estimators import KernelNuSVC
    >>> model = KernelNuSVC(0.4, kernel="linear", tol=1e-9).fit([[-2.0], [-1.0], [1.0], [3.0]], [0, 0, 1, 1])
    >>> model.predict([[-0.5], [2.0]]).tolist(), model.rho_.round(6).tolist()
    ([0, 1], [1.6])
    """

    _: KW_ONLY
    multi_class: str = "ovo"
    _task = "classification"
    rho_: Array = field(init=False)

    def _store(self, results: Sequence[Any]) -> None:
        super()._store(results)
        self.rho_ = self._margins(results)


@estimator
class KernelNuSVR(Regression, KernelNuEstimator):
    """The nu-form of support vector regression, with a certificate.

        minimise  1/2 ||f||^2 + C sum_i c_i (nu eps + max(0, |f(x_i) + b - y_i| - eps))   over f, b, eps

    The width of the tube is such that at most a fraction nu of the examples is outside.

    Parameters
    ----------
    nu : float, default 0.5
        In (0, 1].

    Attributes
    ----------
    epsilon_ : float
        Half the width of the tube.

    References
    ----------
    B. Schölkopf, A. J. Smola, R. C. Williamson, P. L. Bartlett, "New support vector algorithms", Neural
    Computation 12, 2000, doi:10.1162/089976600300015565.

    Examples
    --------
    >>> from cutplane.estimators import KernelNuSVR
    >>> model = KernelNuSVR(0.5, C=10.0, kernel="linear", tol=1e-9)
    >>> model.fit([[0.0], [1.0], [2.0]], [0.0, 2.0, 4.0]).predict([[3.0]]).round(6).tolist()
    [6.0]
    """

    _: KW_ONLY
    C: float = 1.0
    _task = "regression"
    epsilon_: float = field(init=False)

    def _store(self, results: Sequence[Any]) -> None:
        super()._store(results)
        self.epsilon_ = float(self._margins(results)[0])

    def _choose(self, X: Any, y: Array, weights: Array | None) -> tuple[float, float | None]:
        return self.C, super()._choose(X, y, weights)[1]


@estimator
class KernelOneClass(OutlierMixin, KernelNuEstimator):
    """The one-class support vector machine, with a certificate.

        minimise  1/2 ||f||^2 + sum_i c_i (max(0, rho - f(x_i)) - nu rho)   over f and rho

    At most a fraction nu of the training examples are outliers, that is f < rho.

    Parameters
    ----------
    nu : float, default 0.5
        In (0, 1].

    Attributes
    ----------
    offset_ : float
        The value of rho; ``score_samples(X)`` is ``decision_function(X) + offset_``.

    References
    ----------
    B. Schölkopf, J. C. Platt, J. Shawe-Taylor, A. J. Smola, R. C. Williamson, "Estimating the support of a
    high-dimensional distribution", Neural Computation 13, 2001, doi:10.1162/089976601750264965.

    Examples
    --------
    >>> from cutplane.estimators import KernelOneClass
    >>> model = KernelOneClass(0.25, gamma=1.0).fit([[0.0], [0.1], [0.2], [5.0]])
    >>> model.predict([[0.15], [3.0]]).tolist()
    [1, -1]
    """

    _task = "novelty"
    offset_: float = field(init=False)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit to the rows of X; `y` is not used."""
        self._store(self._fitted(X, y, sample_weight))
        return self

    def _store(self, results: Sequence[Any]) -> None:
        super()._store(results)
        self.offset_ = -float(self.intercept_[0])

    def decision_function(self, X: Any) -> Array:
        """Return f - rho, negative for outliers, shape (n_samples,)."""
        return self._predictions(X)[:, 0]

    def score_samples(self, X: Any) -> Array:
        """Return f, shape (n_samples,)."""
        return self.decision_function(X) + self.offset_

    def predict(self, X: Any) -> Array:
        """Return 1 for examples like the training set, -1 for outliers."""
        return np.where(self.decision_function(X) < 0.0, -1, 1)

    def _training(self, X: Any, y: Any) -> tuple[Any, Array]:
        X = checked(self, X, **self._formats)
        self._note_units(X)
        return X, np.zeros(X.shape[0])

    def _targets(self, y: Array, weights: Array | None) -> Any:
        return [(None, None)], weights

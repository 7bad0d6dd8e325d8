"""Ordinal regression with kernels, for scikit-learn."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np

from cutplane.estimators.base import Classification
from cutplane.estimators.documentation import documented
from cutplane.estimators.formulation import CLASSIFICATION, as_loss
from cutplane.estimators.kernel import KernelEstimator, Part
from cutplane.estimators.kernel_formulation import basis_of
from cutplane.exceptions import InvalidInputError
from cutplane.kernels.base import Kernel
from cutplane.losses.base import ScalarLoss
from cutplane.pieces.validation import Array
from cutplane.risks.ordinal import OrdinalRisk


@documented
@dataclass(eq=False, repr=False)
class KernelOrdinalClassifier(Classification, KernelEstimator):
    """Classes in an order, told apart by thresholds on one function of a kernel's space, with a certificate.

        minimise  1/2 ||f||^2 + C sum_i c_i sum_j l(sign(y_i > j) (f(x_i) - b_j))   over f, and thresholds b

    The classes are ordered as ``numpy.unique`` orders them. An example is compared with all thresholds, or
    with its own two; the thresholds are not regularized. See `cutplane.OrdinalRisk`. It is solved in features
    that span the functions of all examples, or of `n_basis` random ones.

    Parameters
    ----------
    C : float, default 1.0
        Weight of the loss; greater than 0.
    loss : str or ScalarLoss, default "hinge"
        "hinge", "squared_hinge", "modified_huber", "logistic", or a loss for targets -1 and 1.
    fit_intercept : bool, default True
        Has to be True: the thresholds are intercepts.
    thresholds : {"all", "immediate"}, default "all"
        With which thresholds an example is compared.

    Attributes
    ----------
    thresholds_ : ndarray of shape (n_classes - 1,)
        Ascending.

    References
    ----------
    W. Chu, S. S. Keerthi, "Support vector ordinal regression", Neural Computation 19, 2007,
    doi:10.1162/neco.2007.19.3.792.

    Examples
    --------
    >>> from cutplane.estimators import KernelOrdinalClassifier
    >>> X, y = [[0.0], [0.2], [1.0], [1.2], [2.0], [2.2]], [0, 0, 1, 1, 2, 2]
    >>> model = KernelOrdinalClassifier(C=10.0).fit(X, y)
    >>> model.predict([[0.1], [1.1], [2.1]]).tolist(), model.thresholds_.size
    ([0, 1, 2], 2)
    """

    C: Any = 1.0
    _: KW_ONLY
    loss: Any = "hinge"
    thresholds: Any = "all"
    thresholds_: Array = field(init=False)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit; see `KernelEstimator.fit`."""
        if np.ndim(self.C) or np.ndim(self.gamma):
            raise InvalidInputError("KernelOrdinalClassifier takes one C and one gamma: see GridSearchCV.")
        if not self.fit_intercept:
            raise InvalidInputError("The thresholds are intercepts: fit_intercept has to be True.")
        super().fit(X, y, sample_weight)
        self.thresholds_ = np.sort(self.results_[0].x[1 - len(self.classes_) :])
        return self

    def decision_function(self, X: Any) -> Array:
        """Return how far inside the interval of each class the function is.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            The distance to the nearest threshold, negative outside; the class with the largest is predicted.
            With two classes f - b_0, of shape (n_samples,).
        """
        f = self._predictions(X)
        if self.thresholds_.size == 1:
            return f[:, 0] - self.thresholds_[0]
        ends = np.concatenate([[-np.inf], self.thresholds_, [np.inf]])
        return np.minimum(f - ends[:-1], ends[1:] - f)

    def _parts(self, kernel: Kernel, X: Any, y: Array, weights: Array | None, risk: Any = None) -> list[Part]:
        levels, loss = self._labels(y), self._loss()
        count = X.shape[0] if self.n_basis is None else self.n_basis
        basis, features, back = basis_of(kernel, X, count, self.random_state)
        risk = OrdinalRisk(features, levels, loss, self.thresholds, len(self.classes_), weights)
        return [OrdinalPart(risk, basis, back)]

    def _loss(self) -> ScalarLoss:
        return as_loss(self.loss, CLASSIFICATION)


class OrdinalPart(Part):
    """A machine whose thresholds are no intercept of its function."""

    def coefficients(self, x: Array) -> tuple[Array, float]:
        """Return those of the examples, and 0."""
        return super().coefficients(x)[0], 0.0

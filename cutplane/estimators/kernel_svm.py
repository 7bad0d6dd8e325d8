"""Kernel machines for scikit-learn."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.metaestimators import available_if

from cutplane.estimators.base import Regression
from cutplane.estimators.documentation import documented
from cutplane.estimators.formulation import CLASSIFICATION, REGRESSION, as_choice, as_loss
from cutplane.estimators.kernel import KernelEstimator
from cutplane.estimators.kernel_classes import LossClassification, coupled
from cutplane.exceptions import InvalidInputError
from cutplane.losses.base import ScalarLoss
from cutplane.losses.classification import Logistic
from cutplane.losses.multiclass import MulticlassHinge, Softmax
from cutplane.losses.regression import EpsilonInsensitive, Huber, Quantile, SquaredEpsilonInsensitive
from cutplane.losses.vector import VectorLoss
from cutplane.pieces.validation import Array


def _is_calibrated(estimator: Any) -> bool:
    if estimator.probability is not None:
        return True
    raise AttributeError(
        f"{type(estimator).__name__} gives probabilities with probability='sigmoid' or 'isotonic', or take "
        "KernelLogisticRegression."
    )


@documented
@dataclass(eq=False, repr=False)
class KernelSVC(LossClassification):
    """The support vector classifier with a kernel, with a certificate.

        minimise  1/2 ||f||^2 + C sum_i c_i l(f(x_i) + b, y_i)   over functions f of the kernel's space, and b

    It is solved as ``lam/2 ||f||^2`` plus the weighted mean loss, lam = 1 / (C sum_i c_i). Several C, or
    several gamma, are compared by cross-validation: along C each solution starts from the last, and so do
    folds and widths; a fold's kernel matrix is a part of the one of all examples.

    Parameters
    ----------
    C : float or array_like, default 1.0
        Weight of the loss; greater than 0.
    loss : str or ScalarLoss, default "hinge"
        "hinge", "squared_hinge", "modified_huber", or a loss of `cutplane.losses` for targets -1 and 1 whose
        conjugate is quadratic on an interval.
    probability : {"sigmoid", "isotonic"}, optional
        Whether `predict_proba` is wanted: scores of five folds are mapped to probabilities by Platt's
        sigmoid, or by isotonic regression, for the price of five more fits and one.

    References
    ----------
    B. E. Boser, I. M. Guyon, V. N. Vapnik, "A training algorithm for optimal margin classifiers", COLT 1992,
    doi:10.1145/130385.130401. K. Crammer, Y. Singer, "On the algorithmic implementation of multiclass
    kernel-based vector machines", JMLR 2, 2001, https://www.jmlr.org/papers/v2/crammer01a.html.

    Examples
    --------
    >>> from cutplane.estimators import KernelSVC
    >>> X, y = [[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]], ["same", "same", "other", "other"]
    >>> model = KernelSVC(C=10.0, gamma=1.0, tol=1e-9).fit(X, y)
    >>> model.predict([[0.1, 0.0], [0.0, 0.9]]).tolist(), model.support_.tolist()
    (['same', 'other'], [0, 1, 2, 3])
    """

    C: Any = 1.0
    _: KW_ONLY
    loss: Any = "hinge"
    probability: str | None = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit; see `KernelEstimator.fit`."""
        super().fit(X, y, sample_weight)
        if self.probability is not None:
            from sklearn.calibration import CalibratedClassifierCV

            as_choice("probability", self.probability, ("sigmoid", "isotonic"))
            gamma = self.gamma if self.gamma_ is None else self.gamma_
            plain: Any = clone(self)
            plain.set_params(probability=None, C=self.C_, gamma=gamma, cv=None)
            options: Any = {"method": self.probability, "ensemble": False}
            calibrated = CalibratedClassifierCV(plain, **options)
            self.calibrated_ = calibrated.fit(X, y, sample_weight=sample_weight)
        return self

    @available_if(_is_calibrated)
    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of the classes.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        self._examples(X)
        return self.calibrated_.predict_proba(X)

    def _loss(self) -> ScalarLoss:
        return as_loss(self.loss, CLASSIFICATION)

    def _joint_loss(self) -> VectorLoss:
        if self.loss != "hinge":
            raise InvalidInputError(
                f'multi_class="joint" is the hinge of all scores: it needs loss="hinge", got {self.loss!r}.'
            )
        return MulticlassHinge()


@documented
@dataclass(eq=False, repr=False)
class KernelLogisticRegression(LossClassification):
    """Kernel logistic regression, with a certificate.

        minimise  1/2 ||f||^2 + C sum_i c_i ln(1 + exp(-y_i (f(x_i) + b)))   over functions f, and b

    Parameters
    ----------
    C : float or array_like, default 1.0
        Weight of the loss; greater than 0.

    References
    ----------
    S. S. Keerthi, K. B. Duan, S. K. Shevade, A. N. Poo, "A fast dual algorithm for kernel logistic
    regression", Machine Learning 61, 2005, doi:10.1007/s10994-005-0768-5. T.-F. Wu, C.-J. Lin, R. C. Weng,
    "Probability estimates for multi-class classification by pairwise coupling", JMLR 5, 2004,
    https://www.jmlr.org/papers/v5/wu04a.html.

    Examples
    --------
    >>> from cutplane.estimators import KernelLogisticRegression
    >>> X, y = [[0.0], [1.0], [3.0], [4.0]], [0, 0, 1, 1]
    >>> model = KernelLogisticRegression(C=10.0, gamma=1.0, tol=1e-6).fit(X, y)
    >>> model.predict_proba([[2.0]]).round(3).tolist()
    [[0.5, 0.5]]
    """

    C: Any = 1.0

    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of the classes.

        Those of classes against the rest are divided by their sum, those of pairs are coupled; of all classes
        together they are the softmax.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        found = self._predictions(X)
        if self._is_split:
            return coupled(np.exp(Logistic().log_probability(found)), len(self.classes_))
        if found.shape[1] == 1:
            found = np.hstack([-found, found])
        if self.multi_class == "joint" and found.shape[1] > 2:
            return np.exp(Softmax().log_probability(found))
        shares = np.exp(Logistic().log_probability(found))
        return shares / shares.sum(axis=1, keepdims=True)

    def decision_function(self, X: Any) -> Array:
        """Return the scores of the classes; those of pairs are the logarithms of the probabilities.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            The class with the largest is predicted; with two classes of shape (n_samples,), positive for
            ``classes_[1]``.
        """
        return np.log(self.predict_proba(X)) if self._is_split else super().decision_function(X)

    @property
    def _is_split(self) -> bool:
        """Whether there is a problem for each pair of classes."""
        return self.multi_class == "ovo" and len(self.classes_) > 2

    def _loss(self) -> ScalarLoss:
        return Logistic()

    def _joint_loss(self) -> VectorLoss:
        return Softmax()


@documented
@dataclass(eq=False, repr=False)
class KernelSVR(Regression, KernelEstimator):
    """Regression with a kernel, with a certificate.

        minimise  1/2 ||f||^2 + C sum_i c_i l(f(x_i) + b, y_i)   over functions f of the kernel's space, and b

    Parameters
    ----------
    C : float or array_like, default 1.0
        Weight of the loss; greater than 0.
    epsilon : float, default 0.1
        Half the width of the tube of the epsilon-insensitive losses, and what Huber's loss takes for large.
    loss : str or ScalarLoss, default "epsilon_insensitive"
        "epsilon_insensitive", max(0, |r| - epsilon); "squared_epsilon_insensitive"; "absolute"; "quantile";
        "huber"; "squared", r^2 / 2, which is kernel ridge regression; or a loss of `cutplane.losses` whose
        conjugate is quadratic on an interval.
    quantile : float, default 0.5
        Of the loss "quantile".

    References
    ----------
    A. J. Smola, B. Schölkopf, "A tutorial on support vector regression", Statistics and Computing 14, 2004,
    doi:10.1023/B:STCO.0000035301.49549.88.

    Examples
    --------
    >>> from cutplane.estimators import KernelSVR
    >>> model = KernelSVR(C=10.0, epsilon=0.5, kernel="linear", tol=1e-9)
    >>> model.fit([[0.0], [1.0], [2.0]], [0.0, 2.0, 4.0]).predict([[3.0]]).round(6).tolist()
    [5.0]
    """

    C: Any = 1.0
    _: KW_ONLY
    epsilon: float = 0.1
    loss: Any = "epsilon_insensitive"
    quantile: float = 0.5

    def _loss(self) -> ScalarLoss:
        chosen = {
            "epsilon_insensitive": lambda: EpsilonInsensitive(self.epsilon),
            "squared_epsilon_insensitive": lambda: SquaredEpsilonInsensitive(self.epsilon),
            "huber": lambda: Huber(self.epsilon),
            "quantile": lambda: Quantile(self.quantile),
        }
        if isinstance(self.loss, str) and self.loss in chosen:
            return chosen[self.loss]()
        return as_loss(self.loss, REGRESSION)

    def _targets(self, y: Array, weights: Array | None) -> Any:
        return [(y, None)], weights

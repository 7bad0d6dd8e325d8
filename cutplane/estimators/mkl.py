"""Classification and regression by multiple kernel learning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, field
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state

from cutplane.estimators.base import CertifiedEstimator, Classification, Regression, estimator, uninterrupted
from cutplane.estimators.cross_validation import CrossValidated, first_of
from cutplane.estimators.formulation import CLASSIFICATION, REGRESSION, TUBES, as_loss
from cutplane.exceptions import InvalidInputError
from cutplane.kernels import Gaussian, Kernel, KernelBank, Linear, Polynomial, single_feature_kernels
from cutplane.losses.base import ScalarLoss
from cutplane.mkl import MKL, MKLResult, PolynomialMKL, PolynomialMKLResult
from cutplane.pieces.validation import Array, as_count

_CLASSIFICATION = {name: CLASSIFICATION[name] for name in ("hinge", "squared_hinge", "modified_huber")}
_REGRESSION = {name: REGRESSION[name] for name in ("squared", "absolute", "huber", "quantile")}


def default_kernels(n_features: int) -> list[Kernel]:
    """Return 8 kernels for standardised features: linear, polynomial, and Gaussian with five widths.

    The widths are sqrt(n_features) times powers of 2, because random points have a distance of about
    sqrt(2 n_features).
    """
    size = float(n_features) ** 0.5
    return [
        Linear(),
        *(Polynomial(degree, gamma=1.0 / n_features) for degree in (2, 3)),
        *(Gaussian(size * 2.0**octave) for octave in range(-2, 3)),
    ]


BANKS = {"default": default_kernels, "single-feature": single_feature_kernels}


@estimator
class MKLEstimator(CertifiedEstimator):
    """A kernel machine with learnt weights of its kernels, and a certificate.

        minimise  1/2 ||f||^2 + C sum_i l(f(x_i) + b, y_i)   over beta >= 0, ||beta||_p <= 1, f in H_beta, b

    where H_beta has the kernel ``sum_k beta_k K_k``; see `cutplane.mkl.MKL`. Weights of examples are not
    supported. All problems share one bank of kernels.

    Parameters
    ----------
    kernels : {"default", "single-feature"}, Kernel or list of Kernel, default "default"
        Kernels of `cutplane.kernels`. "default" stands for 8 kernels of all features: linear, polynomial of
        degree 2 and 3, and Gaussian with the widths sqrt(n_features) times 1/4, 1/2, 1, 2, 4.
        "single-feature" stands for the 13 kernels per feature of `cutplane.kernels.single_feature_kernels`.
        With both names, features are standardised (sparse features are only scaled). Kernels in a list are
        applied to X without scaling. For kernel matrices use `cutplane.mkl.MKL`.
    norm : float, default 1.0
        p, in [1, inf]; with 1 few kernels have nonzero weights.
    entropy : float, default 0.0
        Weight of ``sum_k beta_k ln(n_kernels beta_k)``, at least 0; a positive weight needs norm 1.
    normalize : {"trace", "diagonal", "center"}, tuple of these or None, default "trace"
        The normalisation of each kernel on the training examples; see `cutplane.kernels.KernelBank`.
    fit_intercept : bool, default True
        Whether there is an intercept b.
    method : Method or "auto", default "auto"
        For example ``cutplane.LevelBundle()``.

    Attributes
    ----------
    weights_ : ndarray of shape (n_kernels,) or (n_classes, n_kernels)
        One row for each class if there are more than two classes.
    kernel_names_ : ndarray of shape (n_kernels,)
    selected_kernels_ : ndarray of int
        The kernels with nonzero weight in any problem, in decreasing order of the sum of their weights.
    dual_coef_ : ndarray of shape (n_samples,) or (n_classes, n_samples)
    intercept_ : float or ndarray of shape (n_classes,)
    """

    kernels: Any = "default"
    C: float = 1.0
    _: KW_ONLY
    norm: float = 1.0
    entropy: float = 0.0
    normalize: Any = "trace"
    fit_intercept: bool = True
    method: Any = "auto"
    weights_: Array = field(init=False)
    dual_coef_: Array = field(init=False)
    intercept_: Any = field(init=False)

    def _loss(self) -> ScalarLoss:
        raise NotImplementedError

    def _encode(self, y: Array) -> list[Array]:
        """Return the targets of each problem."""
        return [y]

    def _declare(self, X: Any, y: Any, sample_weight: Any = None) -> list[MKL]:
        """Check the data and return the problems whose solutions are the rows of ``dual_coef_``."""
        loss = self._loss()
        X, y = self._training(X, y)
        kernels, targets, self._scaler = self._kernels(X.shape[1]), self._encode(y), None
        if isinstance(self.kernels, str):
            self._scaler = StandardScaler(with_mean=not sparse.issparse(X))
            X = self._scaler.fit_transform(X)
        names = vars(self).get("feature_names_in_")
        bank = KernelBank(kernels, X, normalize=self.normalize, feature_names=names)
        options = {"entropy": self.entropy, "intercept": bool(self.fit_intercept)}
        return [MKL(bank, target, self.C, loss, self.norm, **options) for target in targets]

    def _kernels(self, n_features: int) -> Sequence[Kernel]:
        """Return the kernels that a name stands for, or the given ones."""
        kernels = self.kernels
        if isinstance(kernels, Kernel):
            return [kernels]
        if isinstance(kernels, str) and kernels in BANKS:
            return BANKS[kernels](n_features)
        if isinstance(kernels, list | tuple) and all(isinstance(kernel, Kernel) for kernel in kernels):
            return kernels
        raise InvalidInputError(
            f"kernels must be one of {sorted(BANKS)} or a list of kernels such as cutplane.kernels.Linear(), "
            f"got {kernels!r}. For kernel matrices use cutplane.mkl.MKL."
        )

    def _solve(self, problem: MKL, warm_start: MKLResult | None = None) -> MKLResult:
        return uninterrupted(problem.solve(self.method, warm_start=warm_start, **self._limits))

    def _store(self, results: Sequence[MKLResult]) -> None:
        self._keep(results)
        bank, single = results[0].mkl.bank, len(results) == 1
        weights = np.array([result.weights for result in results])
        total = weights.sum(axis=0)
        order = np.argsort(-total, kind="stable")
        self.selected_kernels_ = order[total[order] > 0.0]
        self.kernel_names_ = np.array(bank.names, dtype=object)
        self._kept = self.selected_kernels_ if self.selected_kernels_.size else order[:1]
        self._bank = bank.restricted(self._kept)
        self.weights_ = weights[0] if single else weights
        self.dual_coef_ = results[0].coefficients if single else np.array([r.coefficients for r in results])
        self.intercept_ = results[0].intercept if single else np.array([r.intercept for r in results])

    def _predictions(self, X: Any) -> Array:
        X = self._examples(X)
        if self._scaler is not None:
            X = self._scaler.transform(X)
        rows = zip(np.atleast_2d(self.weights_), np.atleast_2d(self.dual_coef_), strict=True)
        values = [self._bank.predict(X, weights[self._kept], a) for weights, a in rows]
        return np.column_stack(values) + self.intercept_


@estimator
class MKLClassifier(Classification, MKLEstimator):
    """The support vector classifier with a learnt weighted sum of kernels, and a certificate.

    With more than two classes, there is one problem for each class against the rest, with separate weights of
    the same kernels.

    Parameters
    ----------
    loss : {"hinge", "squared_hinge", "modified_huber"} or ScalarLoss, default "hinge"
        The loss l. An object must be a loss for targets -1 and 1 that
        `cutplane.kernels.machine.KernelMachine` supports.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from cutplane.estimators import MKLClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = MKLClassifier("single-feature").fit(X, y)
    >>> model.gap_ <= 1e-3, model.weights_.shape, model.score(X, y) > 0.95
    (True, (390,), True)
    """

    _: KW_ONLY
    loss: Any = "hinge"

    def _loss(self) -> ScalarLoss:
        return as_loss(self.loss, _CLASSIFICATION)

    def _encode(self, y: Array) -> list[Array]:
        return self._against_rest(self._labels(y))


@estimator
class MKLRegressor(Regression, MKLEstimator):
    """Kernel regression with a learnt weighted sum of kernels, and a certificate.

    Parameters
    ----------
    loss : str or ScalarLoss, default "epsilon_insensitive"
        The loss l: "epsilon_insensitive", "squared_epsilon_insensitive", "squared" (half the squared
        residual), "absolute", "huber" (delta = 1), "quantile" (the median), or a loss object, for example
        ``cutplane.losses.Quantile(0.9)``.
    epsilon : float, default 0.1
        Half the width of the tube of the epsilon-insensitive losses, in the unit of y; at least 0.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.estimators import MKLRegressor
    >>> X = np.random.default_rng(0).uniform(-2.0, 2.0, (80, 3))
    >>> model = MKLRegressor("single-feature", C=10.0, epsilon=0.01).fit(X, np.sin(2.0 * X[:, 1]))
    >>> model.gap_ <= 1e-3, model.score(X, np.sin(2.0 * X[:, 1])) > 0.95
    (True, True)
    >>> model.kernel_names_[model.selected_kernels_[0]].endswith("of feature 1")
    True
    """

    _: KW_ONLY
    loss: Any = "epsilon_insensitive"
    epsilon: float = 0.1

    def _loss(self) -> ScalarLoss:
        tubes = {name: kind(self.epsilon) for name, kind in TUBES.items()}
        return as_loss(self.loss, _REGRESSION | tubes)


@estimator
class CrossValidatedMKL(CrossValidated, MKLEstimator):
    """A kernel machine with learnt weights of its kernels that chooses C by cross-validation.

    Each fold has one bank of kernels on its training examples. The problems are solved from the smallest C to
    the largest, and the coefficients of each cut are rescaled so that it is valid for the next C. The final
    fit on all data uses the chosen C.

    Parameters
    ----------
    Cs : array_like, optional
        Weights of the loss, each greater than 0; by default 6 from 1e-2 to 1e3.

    Attributes
    ----------
    C_ : float
        The weight with the best mean score; the smallest one if there are ties.
    Cs_ : ndarray of shape (n_Cs,)
        The weights in the order of the path, ascending.
    scores_ : ndarray of shape (n_Cs, n_folds)
    """

    _: KW_ONLY
    Cs: Any = None
    C: ClassVar[Any] = first_of("Cs_")
    _grid = "Cs"
    _default = np.logspace(-2, 3, 6)

    def _follow(self, problem: MKL, values: Array, last: bool = False) -> Iterator[MKLResult]:
        """Yield the result for each C, from the cuts of the previous one; with `last`, only the last."""
        result = None
        for C in values[-1:].tolist() if last else values.tolist():
            result = self._solve(problem.with_C(C), result)
            yield result


@estimator
class MKLClassifierCV(CrossValidatedMKL, MKLClassifier):
    """An `MKLClassifier` whose `C` is chosen by cross-validation.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from cutplane.estimators import MKLClassifierCV
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MKLClassifierCV(Cs=[0.01, 1.0], cv=3).fit(X, y)
    >>> model.C_, model.scores_.shape, model.weights_.shape, model.score(X, y) > 0.95
    (1.0, (2, 3), (3, 8), True)
    """


@estimator
class MKLRegressorCV(CrossValidatedMKL, MKLRegressor):
    """An `MKLRegressor` whose `C` is chosen by cross-validation.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.estimators import MKLRegressorCV
    >>> X = np.random.default_rng(0).uniform(-2.0, 2.0, (60, 2))
    >>> model = MKLRegressorCV(Cs=[0.01, 10.0], cv=3).fit(X, np.sin(2.0 * X[:, 1]))
    >>> model.C_, model.scores_.shape, model.score(X, np.sin(2.0 * X[:, 1])) > 0.9
    (10.0, (2, 3), True)
    """


@estimator
class PolynomialMKLRegressor(Regression):
    """Ridge regression with learnt weights of all products of at most `degree` features.

        minimise  1/2 ||f||^2 + C/2 sum_i (f(x_i) - y_i)^2   over theta >= 0, ||theta||_2 <= 1, f in H_theta

    where H_theta has the kernel ``sum_I theta_I / rho_d^2 prod_{j in I} x_j z_j`` over all ordered tuples I
    of d <= `degree` features; see `cutplane.mkl.PolynomialMKL`. Tuples are sampled because there are too many
    to list. There is no unpenalised intercept, because the empty product 1 is one of the kernels. Features
    should be standardised. Weights of examples are not supported.

    Parameters
    ----------
    degree : int, default 3
        The largest number of factors of a product, at least 0.
    rho : array_like of shape (degree + 1,), optional
        Positive penalties rho_d of the degrees d, by default 1. A larger one penalises products of degree d
        more.
    max_iter : int, default 10000
        Largest number of steps. The gap decreases like 1 / sqrt(steps).
    sampling : {"importance", "uniform"}, default "importance"
        "uniform" gives all tuples the same probability, as a baseline.
    tol : float, default 0.01
        Relative certified gap at which the steps end.
    random_state : int, RandomState instance or None, default None
        Seed of the sampling.
    verbose : int, default 0
        Whether to print a line per evaluation of the objective.

    Attributes
    ----------
    weights_ : dict
        The nonzero weights by sorted tuples of features.
    polynomial_ : dict
        The predictor, as coefficients of products by sorted tuples of features.

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

    def _fitted(self, X: Any, y: Any, sample_weight: Any = None) -> list[PolynomialMKLResult]:
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

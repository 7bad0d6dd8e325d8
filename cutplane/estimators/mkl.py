"""Classification and regression with learnt weights of kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from cutplane.estimators.base import (
    CertifiedEstimator,
    Classification,
    CrossValidated,
    Regression,
    ascending,
    uninterrupted,
)
from cutplane.estimators.documentation import documented
from cutplane.estimators.formulation import CLASSIFICATION, REGRESSION, as_loss
from cutplane.exceptions import InvalidInputError
from cutplane.kernels import Gaussian, Kernel, KernelBank, Linear, Polynomial, single_feature_kernels
from cutplane.losses.base import ScalarLoss
from cutplane.losses.regression import EpsilonInsensitive, SquaredEpsilonInsensitive
from cutplane.mkl import MKL, MKLResult
from cutplane.pieces.validation import Array

_CLASSIFICATION = {name: CLASSIFICATION[name] for name in ("hinge", "squared_hinge", "modified_huber")}
_REGRESSION = {name: REGRESSION[name] for name in ("squared", "absolute", "huber", "quantile")}
_TUBES = {
    "epsilon_insensitive": EpsilonInsensitive,
    "squared_epsilon_insensitive": SquaredEpsilonInsensitive,
}
_CS = np.logspace(-2, 3, 6)
_OCTAVES = range(-2, 3)


@dataclass(eq=False, repr=False)
class MKLEstimator(CertifiedEstimator):
    """A kernel machine with learnt weights of its kernels, and a certificate.

    A subclass says which loss (`_loss`), and what the targets of its problems are (`_encode`). All problems
    share one bank.

    Parameters
    ----------
    kernels : {"default", "single-feature"}, Kernel or list of Kernel, default "default"
        Kernels of `cutplane.kernels`. "default" are 8 of all features: linear, polynomial of degree 2 and 3,
        and Gaussian with the widths sqrt(n_features) times 1/4, 1/2, 1, 2, 4; "single-feature" the 13 for
        each feature of `cutplane.kernels.single_feature_kernels`. Both are for features of mean 0 and
        variance 1 and make them so; sparse features are scaled only. Given kernels get X as it is. Matrices
        of kernels are for `cutplane.mkl.MKL`.
    C : float, default 1.0
        Weight of the loss; greater than 0.
    norm : float, default 1.0
        p, in [1, inf]: with 1 few kernels get weight.
    entropy : float, default 0.0
        Weight of ``sum_k beta_k ln(n_kernels beta_k)``, for norm 1: at least 0.
    normalize : {"trace", "diagonal", "center"}, tuple of these or None, default "trace"
        How each kernel is normalised on the training examples; see `cutplane.kernels.KernelBank`.
    fit_intercept : bool, default True
        Whether there is a b.
    method : Method or "auto", default "auto"
        Such as ``cutplane.LevelBundle()``.

    Attributes
    ----------
    objective_, lower_bound_ : float
        The objective, summed over the problems, and what is certified to be below its optimum.
    weights_ : ndarray of shape (n_kernels,) or (n_classes, n_kernels)
        One row for each class if there are more than two.
    kernel_names_ : ndarray of shape (n_kernels,)
    selected_kernels_ : ndarray of int
        The kernels with weight in any of the problems, the largest sum first.
    dual_coef_ : ndarray of shape (n_samples,) or (n_classes, n_samples)
    intercept_ : float or ndarray of shape (n_classes,)
    results_ : tuple of MKLResult
        One for each problem: ``results_[0].certificate.verify()``. They keep all kernels, and are left out
        when the estimator is pickled.
    """

    kernels: Any = "default"
    _: KW_ONLY
    norm: float = 1.0
    entropy: float = 0.0
    loss: Any = None
    normalize: Any = "trace"
    fit_intercept: bool = True
    method: Any = "auto"
    weights_: Array = field(init=False)
    dual_coef_: Array = field(init=False)
    intercept_: Any = field(init=False)
    C = 1.0

    def _fitted(self, X: Any, y: Any) -> list[MKLResult]:
        return [self._solve(problem) for problem in self._declare(X, y)]

    @property
    def _first_C(self) -> float:
        """The C with which the problems are declared."""
        return self.C

    def _loss(self) -> ScalarLoss:
        raise NotImplementedError

    def _encode(self, y: Array) -> list[Array]:
        """Return the targets of each problem."""
        raise NotImplementedError

    def _declare(self, X: Any, y: Any) -> list[MKL]:
        """Check the data and return the problems whose solutions are the rows of ``dual_coef_``."""
        loss = self._loss()
        X, y = self._training(X, y)
        kernels = as_kernels(self.kernels, X.shape[1])
        targets = self._encode(y)
        self._scaler = as_scaler(self.kernels, sparse.issparse(X))
        if self._scaler is not None:
            X = self._scaler.fit_transform(X)
        names = vars(self).get("feature_names_in_")
        bank = KernelBank(kernels, X, normalize=self.normalize, feature_names=names)
        options = {"entropy": self.entropy, "intercept": bool(self.fit_intercept)}
        return [MKL(bank, target, self._first_C, loss, self.norm, **options) for target in targets]

    def _solve(self, problem: MKL, warm_start: MKLResult | None = None) -> MKLResult:
        return uninterrupted(
            problem.solve(
                self.method,
                tol=self.tol,
                max_iter=self.max_iter,
                time_limit=self.time_limit,
                warm_start=warm_start,
                log=bool(self.verbose),
            )
        )

    def _store(self, results: Sequence[MKLResult]) -> None:
        """Set the fitted attributes."""
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
        """Return the values of the predictors, shape (n_samples, n_problems)."""
        X = self._examples(X)
        if self._scaler is not None:
            X = self._scaler.transform(X)
        rows = zip(np.atleast_2d(self.weights_), np.atleast_2d(self.dual_coef_), strict=True)
        values = [self._bank.predict(X, weights[self._kept], a) for weights, a in rows]
        return np.column_stack(values) + self.intercept_


@dataclass(eq=False, repr=False, kw_only=True)
class MKLClassification(MKLEstimator, Classification):
    """What the classifiers share: one problem for each class against the rest.

    Parameters
    ----------
    loss : {"hinge", "squared_hinge", "modified_huber"} or ScalarLoss, default "hinge"
        l; an object for targets -1 and 1 must be one that `cutplane.kernels.machine.KernelMachine` takes.
    """

    loss: Any = "hinge"

    def _loss(self) -> ScalarLoss:
        return as_loss(self.loss, _CLASSIFICATION)

    def _encode(self, y: Array) -> list[Array]:
        return self._against_rest(self._labels(y))


@dataclass(eq=False, repr=False, kw_only=True)
class MKLRegression(MKLEstimator, Regression):
    """What the regressors share: one problem.

    Parameters
    ----------
    loss : str or ScalarLoss, default "epsilon_insensitive"
        l: "epsilon_insensitive", "squared_epsilon_insensitive", "squared" (half the squared residual),
        "absolute", "huber" (delta = 1), "quantile" (the median), or a loss object such as
        ``cutplane.losses.Quantile(0.9)``.
    epsilon : float, default 0.1
        Half the width of the tube without loss of the first two, in the unit of y; at least 0.
    """

    loss: Any = "epsilon_insensitive"
    epsilon: float = 0.1

    def _loss(self) -> ScalarLoss:
        tubes = {name: kind(self.epsilon) for name, kind in _TUBES.items()}
        return as_loss(self.loss, _REGRESSION | tubes)

    def _encode(self, y: Array) -> list[Array]:
        return [y]


@dataclass(eq=False, repr=False)
class CrossValidatedMKL(MKLEstimator, CrossValidated):
    """C by cross-validation, from the smallest to the largest: one bank and one path for each fold.

    Parameters
    ----------
    Cs : array_like, optional
        Weights of the loss, each greater than 0; by default 6 from 1e-2 to 1e3.

    Attributes
    ----------
    C_ : float
        The weight with the best mean score; of equals, the smallest.
    Cs_ : ndarray of shape (n_Cs,)
        The weights in the order of the path, ascending.
    scores_ : ndarray of shape (n_Cs, n_folds)
    """

    _: KW_ONLY
    Cs: Any = None
    Cs_: Array = field(init=False)

    def _fitted(self, X: Any, y: Any) -> list[MKLResult]:
        self._set_weights()
        problems = self._declare(X, y)
        self.C_ = float(self.Cs_[self._best(X, y)])
        return [self._solve(problem.with_C(self.C_)) for problem in problems]

    def _set_weights(self) -> None:
        self.Cs_ = ascending("Cs", self.Cs, _CS)

    @property
    def _first_C(self) -> float:
        return float(self.Cs_[0])

    def _follow(self, problem: MKL) -> Iterator[MKLResult]:
        """Yield the results along the path, each with the cuts of the one before."""
        result = None
        for C in self.Cs_.tolist():
            result = self._solve(problem.with_C(C), result)
            yield result


@documented
@dataclass(eq=False, repr=False)
class MKLClassifier(MKLClassification):
    """The support vector classifier whose kernel is a weighted sum of many, with a certificate.

        minimise  1/2 ||f||^2 + C sum_i l(f(x_i) + b, y_i)   over beta >= 0, ||beta||_p <= 1, f in H_beta, b

    where H_beta has the kernel ``sum_k beta_k K_k``; see `cutplane.mkl.MKL`. With more than two classes, each
    is separated from the rest, by a problem of its own with weights of its own; all share the kernels. There
    are no weights of examples.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from cutplane.estimators import MKLClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = MKLClassifier("single-feature").fit(X, y)
    >>> model.gap_ <= 1e-3, model.weights_.shape, model.score(X, y) > 0.95
    (True, (390,), True)
    """

    C: float = 1.0


@documented
@dataclass(eq=False, repr=False)
class MKLRegressor(MKLRegression):
    """Kernel regression whose kernel is a weighted sum of many, with a certificate.

        minimise  1/2 ||f||^2 + C sum_i l(f(x_i) + b, y_i)   over beta >= 0, ||beta||_p <= 1, f in H_beta, b

    where H_beta has the kernel ``sum_k beta_k K_k``; see `cutplane.mkl.MKL`. There are no weights of
    examples.

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

    C: float = 1.0


@documented
@dataclass(eq=False, repr=False)
class MKLClassifierCV(MKLClassification, CrossValidatedMKL):
    """An `MKLClassifier` whose `C` is chosen by cross-validation.

    Each fold has one bank, of its training examples, and the problems are solved from the smallest C to the
    largest; the coefficients of each cut are rescaled, so that it holds for the next C. The final fit is on
    all data with the C that was chosen.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from cutplane.estimators import MKLClassifierCV
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MKLClassifierCV(Cs=[0.01, 1.0], cv=3).fit(X, y)
    >>> model.C_, model.scores_.shape, model.weights_.shape, model.score(X, y) > 0.95
    (1.0, (2, 3), (3, 8), True)
    """


@documented
@dataclass(eq=False, repr=False)
class MKLRegressorCV(MKLRegression, CrossValidatedMKL):
    """An `MKLRegressor` whose `C` is chosen by cross-validation.

    Each fold has one bank, of its training examples, and the problems are solved from the smallest C to the
    largest; the coefficients of each cut are rescaled, so that it holds for the next C. The final fit is on
    all data with the C that was chosen.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.estimators import MKLRegressorCV
    >>> X = np.random.default_rng(0).uniform(-2.0, 2.0, (60, 2))
    >>> model = MKLRegressorCV(Cs=[0.01, 10.0], cv=3).fit(X, np.sin(2.0 * X[:, 1]))
    >>> model.C_, model.scores_.shape, model.score(X, np.sin(2.0 * X[:, 1])) > 0.9
    (10.0, (2, 3), True)
    """


def default_kernels(n_features: int) -> list[Kernel]:
    """Return 8 kernels for standardised features: linear, polynomial, and Gaussian ones of five widths.

    The widths are sqrt(n_features) times powers of 2: random points are sqrt(2 n_features) from one another.
    """
    size = float(n_features) ** 0.5
    return [
        Linear(),
        *(Polynomial(degree, gamma=1.0 / n_features) for degree in (2, 3)),
        *(Gaussian(size * 2.0**octave) for octave in _OCTAVES),
    ]


BANKS = {"default": default_kernels, "single-feature": single_feature_kernels}


def as_kernels(kernels: Any, n_features: int) -> Sequence[Kernel]:
    """Return the kernels that a name stands for, or those given."""
    if isinstance(kernels, Kernel):
        return [kernels]
    if isinstance(kernels, str) and kernels in BANKS:
        return BANKS[kernels](n_features)
    if isinstance(kernels, list | tuple) and all(isinstance(kernel, Kernel) for kernel in kernels):
        return kernels
    raise InvalidInputError(
        f"kernels must be one of {sorted(BANKS)} or a list of kernels such as cutplane.kernels.Linear(), got "
        f"{kernels!r}. Matrices are for cutplane.mkl.MKL."
    )


def as_scaler(kernels: Any, is_sparse: bool) -> Any:
    """Return what standardises the features for the banks with a name; None for given kernels.

    Sparse data are scaled, not centred.
    """
    return StandardScaler(with_mean=not is_sparse) if isinstance(kernels, str) else None

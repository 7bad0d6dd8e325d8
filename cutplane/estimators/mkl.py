"""Classification and regression with learnt weights of kernels."""

from __future__ import annotations

from typing import Any

from cutplane.estimators.mkl_base import MKLClassification, MKLRegression


class MKLClassifier(MKLClassification):
    """The support vector classifier whose kernel is a weighted sum of many, with a certificate.

        minimise  1/2 ||f||^2 + C sum_i l(f(x_i) + b, y_i)   over beta >= 0, ||beta||_p <= 1, f in H_beta, b

    where H_beta has the kernel ``sum_k beta_k K_k``; see `cutplane.mkl.MKL`. With more than two classes, each
    is separated from the rest, by a problem of its own with weights of its own; all share the kernels. There
    are no weights of examples.

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
    loss : {"hinge", "squared_hinge", "modified_huber"} or ScalarLoss, default "hinge"
        l; an object for targets -1 and 1 must be one that `cutplane.kernels.machine.KernelMachine` takes.
    normalize : {"trace", "diagonal", "center"}, tuple of these or None, default "trace"
        How each kernel is normalised on the training examples; see `cutplane.kernels.KernelBank`.
    fit_intercept : bool, default True
        Whether there is a b.
    method : Method or "auto", default "auto"
        Such as ``cutplane.LevelBundle()``.
    tol : float, default 1e-3
        Relative certified gap, (objective - lower bound) / objective, of each problem.
    max_iter : int, default 10000
        Most iterations for each problem.
    time_limit : float, optional
        Seconds for each problem.
    verbose : int, default 0
        Whether to print a line per iteration.

    Attributes
    ----------
    weights_ : ndarray of shape (n_kernels,) or (n_classes, n_kernels)
        One row for each class if there are more than two.
    kernel_names_ : ndarray of shape (n_kernels,)
    selected_kernels_ : ndarray of int
        The kernels with weight in any of the problems, the largest sum first.
    dual_coef_ : ndarray of shape (n_samples,) or (n_classes, n_samples)
    intercept_ : float or ndarray of shape (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    objective_, lower_bound_ : float
        The objective, summed over the problems, and what is certified to be below its optimum.
    gap_ : float
        The largest relative gap of the problems.
    n_iter_ : int
        The most iterations of the problems.
    results_ : tuple of MKLResult
        One for each problem: ``results_[0].certificate.verify()``. They keep all kernels, and are left out
        when the estimator is pickled.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        If X has column names.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from cutplane.estimators import MKLClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = MKLClassifier("single-feature").fit(X, y)
    >>> model.gap_ <= 1e-3, model.weights_.shape, model.score(X, y) > 0.95
    (True, (390,), True)
    """

    def __init__(
        self,
        kernels: Any = "default",
        C: float = 1.0,
        *,
        norm: float = 1.0,
        entropy: float = 0.0,
        loss: Any = "hinge",
        normalize: Any = "trace",
        fit_intercept: bool = True,
        method: Any = "auto",
        tol: float = 1e-3,
        max_iter: int = 10_000,
        time_limit: float | None = None,
        verbose: int = 0,
    ):
        self.kernels = kernels
        self.C = C
        self.norm = norm
        self.entropy = entropy
        self.loss = loss
        self.normalize = normalize
        self.fit_intercept = fit_intercept
        self.method = method
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.verbose = verbose


class MKLRegressor(MKLRegression):
    """Kernel regression whose kernel is a weighted sum of many, with a certificate.

        minimise  1/2 ||f||^2 + C sum_i l(f(x_i) + b, y_i)   over beta >= 0, ||beta||_p <= 1, f in H_beta, b

    where H_beta has the kernel ``sum_k beta_k K_k``; see `cutplane.mkl.MKL`. There are no weights of
    examples.

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
    loss : str or ScalarLoss, default "epsilon_insensitive"
        l: "epsilon_insensitive", "squared_epsilon_insensitive", "squared" (half the squared residual),
        "absolute", "huber" (delta = 1), "quantile" (the median), or a loss object such as
        ``cutplane.losses.Quantile(0.9)``.
    epsilon : float, default 0.1
        Half the width of the tube without loss of the first two, in the unit of y; at least 0.
    normalize : {"trace", "diagonal", "center"}, tuple of these or None, default "trace"
        How each kernel is normalised on the training examples; see `cutplane.kernels.KernelBank`.
    fit_intercept : bool, default True
        Whether there is a b.
    method : Method or "auto", default "auto"
        Such as ``cutplane.LevelBundle()``.
    tol : float, default 1e-3
        Relative certified gap, (objective - lower bound) / objective.
    max_iter : int, default 10000
    time_limit : float, optional
        Seconds.
    verbose : int, default 0
        Whether to print a line per iteration.

    Attributes
    ----------
    weights_ : ndarray of shape (n_kernels,)
    kernel_names_ : ndarray of shape (n_kernels,)
    selected_kernels_ : ndarray of int
        The kernels with weight, the largest first.
    dual_coef_ : ndarray of shape (n_samples,)
    intercept_ : float
    objective_, lower_bound_ : float
        The objective, and what is certified to be below its optimum.
    gap_ : float
        The relative gap.
    n_iter_ : int
        Number of iterations.
    results_ : tuple of MKLResult
        The result: ``results_[0].certificate.verify()``. It keeps all kernels, and is left out when the
        estimator is pickled.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        If X has column names.

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

    def __init__(
        self,
        kernels: Any = "default",
        C: float = 1.0,
        *,
        norm: float = 1.0,
        entropy: float = 0.0,
        loss: Any = "epsilon_insensitive",
        epsilon: float = 0.1,
        normalize: Any = "trace",
        fit_intercept: bool = True,
        method: Any = "auto",
        tol: float = 1e-3,
        max_iter: int = 10_000,
        time_limit: float | None = None,
        verbose: int = 0,
    ):
        self.kernels = kernels
        self.C = C
        self.norm = norm
        self.entropy = entropy
        self.loss = loss
        self.epsilon = epsilon
        self.normalize = normalize
        self.fit_intercept = fit_intercept
        self.method = method
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.verbose = verbose

"""Linear support vector machines, in the scaling of scikit-learn."""

from __future__ import annotations

from typing import Any

from cutplane.estimators.classification import LinearClassification
from cutplane.estimators.formulation import CLASSIFICATION, Loss, as_choice
from cutplane.estimators.regression import LinearRegression
from cutplane.exceptions import InvalidInputError
from cutplane.losses.multiclass import MulticlassHinge
from cutplane.losses.regression import EpsilonInsensitive, SquaredEpsilonInsensitive
from cutplane.pieces.validation import as_scalar


def _weight(C: Any, total: float) -> tuple[float, float]:
    """Return lam = 1 / (C total), and the factor C total of the objective."""
    factor = as_scalar("C", C, low=0.0, low_open=True) * total
    return 1.0 / factor if factor > 0.0 else 1.0, factor


class LinearSVC(LinearClassification):
    """The linear support vector classifier, with a certificate.

        minimise  1/2 ||w||^2 + C sum_i c_i max(0, 1 - y_i (<w, x_i> + b))

    It is solved as ``lam/2 ||w||^2`` plus the weighted mean loss, lam = 1 / (C sum_i c_i), whose numbers do
    not grow with the data.

    Parameters
    ----------
    C : float, default 1.0
        Weight of the loss; greater than 0.
    loss : {"hinge", "squared_hinge"}, default "hinge"
        The second squares the maximum.
    penalty : {"l2", "l1"}, default "l2"
        "l1" replaces ``1/2 ||w||^2`` by ``||w||_1``.
    multi_class : {"ovr", "crammer_singer"}, default "ovr"
        With more than two classes: one problem for each class against the rest, or one joint problem with the
        loss max_j (1[j != y] + s_j) - s_y of the scores s, for which `loss` must be "hinge".
    fit_intercept : bool, default True
        Whether there is a b.
    regularize_intercept : bool, default False
        Whether the penalty includes b. scikit-learn's `LinearSVC` does so, its ``SVC(kernel="linear")`` does
        not.
    class_weight : dict, "balanced" or None, default None
        Factors of the weights of the examples by class, in every problem; "balanced" gives all classes the
        same total weight.
    tol : float, default 1e-3
        Relative certified gap, (objective - lower bound) / objective, of each problem.
    max_iter : int, default 10000
        Most iterations for each problem.
    time_limit : float, optional
        Seconds for each problem.
    max_cuts : int, optional
        Most cuts kept for each problem; by default no limit.
    method : Method or "auto", default "auto"
        Such as ``cutplane.OCAS()``.
    backend : str or Backend, default "auto"
        Who solves the reduced problems.
    warm_start : bool, default False
        Whether the next fit starts from the cuts of this one, if X, y, the weights and the loss are the same
        (`C`, `penalty` and `tol` may change), and else from its solution.
    verbose : int, default 0
        Whether to print a line per iteration.

    Attributes
    ----------
    coef_ : ndarray of shape (n_rows, n_features)
        One row with two classes, else one for each class.
    intercept_ : ndarray of shape (n_rows,)
        Zero without `fit_intercept`.
    classes_ : ndarray of shape (n_classes,)
    objective_, lower_bound_ : float
        The objective, summed over the problems, and what is certified to be below its optimum.
    gap_ : float
        The largest relative gap of the problems.
    n_iter_ : int
        The most iterations of the problems.
    results_ : tuple of Result
        One for each problem, in the scaling of the mean loss: ``results_[0].certificate.verify()``. They
        refer to the training data, and are left out when the estimator is pickled.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        If X has column names.

    References
    ----------
    C. Cortes, V. Vapnik, "Support-vector networks", Machine Learning 20, 1995, doi:10.1007/BF00994018.

    Examples
    --------
    >>> from cutplane.estimators import LinearSVC
    >>> model = LinearSVC(C=10.0, tol=1e-9).fit([[0.0], [1.0], [3.0], [4.0]], [0, 0, 1, 1])
    >>> model.coef_.round(6).tolist(), model.intercept_.round(6).tolist(), round(model.objective_, 6)
    ([[1.0]], [-2.0], 0.5)
    """

    l1_ratio = 0.5

    def __init__(
        self,
        C: float = 1.0,
        *,
        loss: str = "hinge",
        penalty: str = "l2",
        multi_class: str = "ovr",
        fit_intercept: bool = True,
        regularize_intercept: bool = False,
        class_weight: Any = None,
        tol: float = 1e-3,
        max_iter: int = 10_000,
        time_limit: float | None = None,
        max_cuts: int | None = None,
        method: Any = "auto",
        backend: Any = "auto",
        warm_start: bool = False,
        verbose: int = 0,
    ):
        self.C = C
        self.loss = loss
        self.penalty = penalty
        self.multi_class = multi_class
        self.fit_intercept = fit_intercept
        self.regularize_intercept = regularize_intercept
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.max_cuts = max_cuts
        self.method = method
        self.backend = backend
        self.warm_start = warm_start
        self.verbose = verbose

    def _loss(self) -> Loss:
        as_choice("penalty", self.penalty, ("l2", "l1"))
        name = as_choice("loss", self.loss, ("hinge", "squared_hinge"))
        if as_choice("multi_class", self.multi_class, ("ovr", "crammer_singer")) == "ovr":
            return CLASSIFICATION[name]
        if name != "hinge":
            raise InvalidInputError(
                f"multi_class='crammer_singer' has a loss of its own: use loss='hinge', got {name!r}."
            )
        return MulticlassHinge()

    def _weight(self, total: float) -> tuple[float, float]:
        return _weight(self.C, total)


class LinearSVR(LinearRegression):
    """Linear support vector regression, with a certificate.

        minimise  1/2 ||w||^2 + C sum_i c_i max(0, |<w, x_i> + b - y_i| - epsilon)

    Parameters
    ----------
    C : float, default 1.0
        Weight of the loss; greater than 0.
    epsilon : float, default 0.0
        Half the width of the tube without loss, in the unit of y; at least 0.
    loss : {"epsilon_insensitive", "squared_epsilon_insensitive"}, default "epsilon_insensitive"
        The second squares the maximum.
    penalty : {"l2", "l1"}, default "l2"
        "l1" replaces ``1/2 ||w||^2`` by ``||w||_1``.
    fit_intercept : bool, default True
        Whether there is a b.
    regularize_intercept : bool, default False
        Whether the penalty includes b. scikit-learn's `LinearSVR` does so, its ``SVR(kernel="linear")`` does
        not.
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
        (`C`, `penalty` and `tol` may change), and else from its solution.
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
        The result, in the scaling of the mean loss: ``results_[0].certificate.verify()``. It refers to the
        training data, and is left out when the estimator is pickled.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        If X has column names.

    References
    ----------
    A. J. Smola, B. Schölkopf, "A tutorial on support vector regression", Statistics and Computing 14, 2004,
    doi:10.1023/B:STCO.0000035301.49549.88.

    Examples
    --------
    >>> from cutplane.estimators import LinearSVR
    >>> model = LinearSVR(C=10.0, epsilon=0.5, tol=1e-9).fit([[0.0], [1.0], [2.0]], [0.0, 2.0, 4.0])
    >>> model.coef_.round(6).tolist(), round(model.intercept_, 6), round(model.objective_, 6)
    ([1.5], 0.5, 1.125)
    """

    l1_ratio = 0.5

    def __init__(
        self,
        C: float = 1.0,
        *,
        epsilon: float = 0.0,
        loss: str = "epsilon_insensitive",
        penalty: str = "l2",
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
        self.C = C
        self.epsilon = epsilon
        self.loss = loss
        self.penalty = penalty
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
        as_choice("penalty", self.penalty, ("l2", "l1"))
        losses = {
            "epsilon_insensitive": EpsilonInsensitive,
            "squared_epsilon_insensitive": SquaredEpsilonInsensitive,
        }
        return losses[as_choice("loss", self.loss, losses)](self.epsilon)

    def _weight(self, total: float) -> tuple[float, float]:
        return _weight(self.C, total)

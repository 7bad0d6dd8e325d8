"""Kernel machines with a loss: classification, regression, ordinal, semi-supervised, and sparse ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, field
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if

from cutplane.estimators.base import Classification, Regression, estimator
from cutplane.estimators.formulation import as_choice, as_residual_loss
from cutplane.estimators.kernel import KernelClassification, KernelEstimator, Part
from cutplane.exceptions import InvalidInputError
from cutplane.kernels.base import Kernel
from cutplane.kernels.graph import deformed, laplacian
from cutplane.kernels.greedy import GreedyBasis, greedy_basis
from cutplane.kernels.risk import KernelRisk
from cutplane.losses.base import ScalarLoss
from cutplane.losses.scalar import Logistic, Quantile
from cutplane.losses.vector import MulticlassHinge, Softmax, VectorLoss
from cutplane.pieces.validation import Array, as_count, as_scalar
from cutplane.result import Result
from cutplane.risks.linear import LinearRisk
from cutplane.risks.multiclass import MulticlassRisk
from cutplane.risks.ordinal import OrdinalRisk


@estimator
class LossClassification(KernelClassification, KernelEstimator):
    """A kernel classifier whose loss also has a joint form for the scores of all classes.

    Parameters
    ----------
    multi_class : {"ovr", "ovo", "joint"}, default "ovr"
        With more than two classes: one problem for each class against the rest ("ovr"), one for each pair of
        classes ("ovo"), or one problem with the scores of all classes ("joint"). "ovo" predicts the class
        with most votes, and among equal votes the largest sum of scores. "joint" uses features that span the
        functions of all examples, or of `n_basis` random ones.
    """

    _schemes = ("ovr", "ovo", "joint")

    def _joint_loss(self) -> VectorLoss:
        """Return the loss of the scores of all classes."""
        raise NotImplementedError

    def _parts(self, kernel: Kernel, X: Any, y: Array, weights: Array | None, risk: Any = None) -> list[Part]:
        if self.multi_class != "joint" or np.unique(y).size <= 2:
            return super()._parts(kernel, X, y, weights, risk)
        ((labels, _),), weights = self._targets(y, weights)
        basis, features, back = self._basis(kernel, X)
        options: Any = {"sample_weight": weights, "intercept": bool(self.fit_intercept)}
        joint = MulticlassRisk(features, labels, self._joint_loss(), **options)
        return [Part(joint, basis, back, n_functions=len(self.classes_))]


def _is_calibrated(model: Any) -> bool:
    if model.probability is not None:
        return True
    raise AttributeError(
        f"{type(model).__name__} has probabilities only with probability='sigmoid' or 'isotonic'; or use "
        "KernelLogisticRegression."
    )


@estimator
class KernelSVC(LossClassification):
    """The support vector classifier with a kernel, with a certificate.

        minimise  1/2 ||f||^2 + C sum_i c_i l(f(x_i) + b, y_i)   over functions f of the kernel's space, and b

    It is solved as ``lam/2 ||f||^2`` plus the weighted mean loss, with lam = 1 / (C sum_i c_i). Several
    values of C or gamma are compared by cross-validation. Each solve starts from the previous solution along
    C, folds and gamma, and the kernel matrices of all folds are parts of one matrix.

    Parameters
    ----------
    loss : str or ScalarLoss, default "hinge"
        "hinge", "squared_hinge", "modified_huber", or a loss of `cutplane.losses` for targets -1 and 1 whose
        conjugate is quadratic on an interval.
    probability : {"sigmoid", "isotonic"}, optional
        The map from scores to probabilities in `predict_proba`: Platt's sigmoid or isotonic regression. It is
        learnt from the scores of five folds, which takes six more fits. By default there is no
        `predict_proba`.

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

    _: KW_ONLY
    loss: Any = "hinge"
    probability: str | None = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit."""
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

    def _joint_loss(self) -> VectorLoss:
        if self.loss != "hinge":
            raise InvalidInputError(f'multi_class="joint" needs loss="hinge", got {self.loss!r}.')
        return MulticlassHinge()


def coupled(shares: Array, count: int) -> Array:
    """Return class probabilities p from probabilities of pairs, by pairwise coupling.

    With r_ij the probability of class i among i and j, p minimises sum_{i != j} (r_ji p_i - r_ij p_j)^2:
    T.-F. Wu, C.-J. Lin, R. C. Weng, JMLR 5 (2004), 975-1005.

    Parameters
    ----------
    shares : ndarray of shape (n, n_pairs)
        The probability of the second class of each pair.
    """
    system, right = np.zeros((len(shares), count + 1, count + 1)), np.zeros((count + 1, 1))
    for k, (i, j) in enumerate(combinations(range(count), 2)):
        r = np.clip(shares[:, k], 1e-9, 1.0 - 1e-9)
        system[:, i, i] += r * r
        system[:, j, j] += (1.0 - r) ** 2
        system[:, i, j] = system[:, j, i] = -r * (1.0 - r)
    system[:, -1, :-1] = system[:, :-1, -1] = right[-1] = 1.0
    p = np.maximum(np.linalg.solve(system, right)[:, :-1, 0], np.finfo(np.float64).tiny)
    return p / p.sum(axis=1, keepdims=True)


@estimator
class KernelLogisticRegression(LossClassification):
    """Kernel logistic regression, with a certificate.

        minimise  1/2 ||f||^2 + C sum_i c_i ln(1 + exp(-y_i (f(x_i) + b)))   over functions f, and b

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

    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of the classes.

        With "ovr" the probabilities of the problems are divided by their sum. With "ovo" they are combined by
        pairwise coupling. With "joint" they are the softmax of the scores.

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
        """Return the scores of the classes; with "ovo" the logarithms of the probabilities."""
        return np.log(self.predict_proba(X)) if self._is_split else super().decision_function(X)

    @property
    def _is_split(self) -> bool:
        return self.multi_class == "ovo" and len(self.classes_) > 2

    def _loss(self) -> ScalarLoss:
        return Logistic()

    def _joint_loss(self) -> VectorLoss:
        return Softmax()


@estimator
class KernelSVR(Regression, KernelEstimator):
    """Regression with a kernel, with a certificate.

        minimise  1/2 ||f||^2 + C sum_i c_i l(f(x_i) + b, y_i)   over functions f of the kernel's space, and b

    Parameters
    ----------
    epsilon : float, default 0.1
        Half the width of the tube of the epsilon-insensitive losses, or the largest residual in the quadratic
        part of Huber's loss.
    loss : str or ScalarLoss, default "epsilon_insensitive"
        "epsilon_insensitive", max(0, |r| - epsilon); "squared_epsilon_insensitive"; "absolute"; "quantile";
        "huber"; "squared", r^2 / 2, which is kernel ridge regression; or a loss of `cutplane.losses` whose
        conjugate is quadratic on an interval.
    quantile : float, default 0.5
        The quantile of the loss "quantile", in (0, 1).

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

    _: KW_ONLY
    epsilon: float = 0.1
    loss: Any = "epsilon_insensitive"
    quantile: float = 0.5

    def _loss(self) -> ScalarLoss:
        if isinstance(self.loss, str) and self.loss == "quantile":
            return Quantile(self.quantile)
        return as_residual_loss(self.loss, self.epsilon)


class OrdinalPart(Part):
    """An ordinal problem, whose thresholds are not intercepts of the function."""

    def coefficients(self, x: Array) -> tuple[Array, Array]:
        """Return the coefficients of the examples, and 0 as the intercept."""
        return super().coefficients(x)[0], np.zeros(1)


@estimator
class KernelOrdinalClassifier(Classification, KernelEstimator):
    """Ordinal classification by thresholds on a function of a kernel's space, with a certificate.

        minimise  1/2 ||f||^2 + C sum_i c_i sum_j l(sign(y_i > j) (f(x_i) - b_j))   over f, and thresholds b

    The classes have the order of ``numpy.unique``. An example is compared with all thresholds, or with the
    two thresholds next to its class. Thresholds are not regularized. See `cutplane.OrdinalRisk`. The problem
    is solved in features that span the functions of all examples, or of `n_basis` random ones.

    Parameters
    ----------
    C : float, default 1.0
        Weight of the loss; greater than 0.
    loss : str or ScalarLoss, default "hinge"
        "hinge", "squared_hinge", "modified_huber", "logistic", or a loss for targets -1 and 1.
    fit_intercept : bool, default True
        Must be True, because the thresholds are intercepts.
    thresholds : {"all", "immediate"}, default "all"
        The thresholds with which an example is compared.

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

    _: KW_ONLY
    loss: Any = "hinge"
    thresholds: Any = "all"
    thresholds_: Array = field(init=False)
    _compares = False

    def _store(self, results: Sequence[Any]) -> None:
        super()._store(results)
        self.thresholds_ = np.sort(results[0].x[1 - len(self.classes_) :])

    def decision_function(self, X: Any) -> Array:
        """Return the distance of f to the nearest threshold of each class, negative outside the class.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            The class with the largest value is predicted. With two classes the result is f - b_0, shape
            (n_samples,).
        """
        f = self._predictions(X)
        if self.thresholds_.size == 1:
            return f[:, 0] - self.thresholds_[0]
        ends = np.concatenate([[-np.inf], self.thresholds_, [np.inf]])
        return np.minimum(f - ends[:-1], ends[1:] - f)

    def _parts(self, kernel: Kernel, X: Any, y: Array, weights: Array | None, risk: Any = None) -> list[Part]:
        if not self.fit_intercept:
            raise InvalidInputError("fit_intercept must be True, because the thresholds are intercepts.")
        levels, loss = self._labels(y), self._loss()
        basis, features, back = self._basis(kernel, X)
        risk = OrdinalRisk(features, levels, loss, self.thresholds, len(self.classes_), weights)
        return [OrdinalPart(risk, basis, back)]


@estimator
class GraphSVC(KernelClassification, KernelEstimator):
    """A kernel classifier whose function varies slowly along a graph of all examples, with a certificate.

        minimise  1/2 ||f||^2 + graph_weight/2 f'Lf + C sum over labelled i of c_i l(y_i (f(x_i) + b))

    over functions f of the kernel's space, and b, where L is the Laplacian of the graph of nearest
    neighbours. f'Lf is the sum of squared differences over the edges of the graph (manifold regularization).
    Examples with the label -1 are unlabelled, as in ``sklearn.semi_supervised``. With the squared hinge it is
    the Laplacian SVM, with the squared loss the Laplacian LS-SVM.

    It is solved as a kernel machine of the labelled examples with a deformed kernel. Deforming the kernel
    takes a dense linear system of the size of all examples.

    Parameters
    ----------
    C : float, default 1.0
        Weight of the loss; greater than 0.
    graph_weight : float, default 1.0
        Weight of the graph term; at least 0. With 0 it is a `KernelSVC` of the labelled examples.
    n_neighbors : int, default 6
        Number of nearest neighbours with which each example is joined by edges of weight 1.
    normalized : bool, default True
        Whether the Laplacian is normalized.
    graph : sparse matrix or callable, optional
        The weights of the edges, shape (n_samples, n_samples), or a function of X that returns them; by
        default the graph of nearest neighbours.
    loss : str or ScalarLoss, default "hinge"
        "hinge", "squared_hinge", "modified_huber", "logistic", or a loss for targets -1 and 1.

    Attributes
    ----------
    transduction_ : ndarray of shape (n_samples,)
        The given classes of the labelled examples, and the predicted classes of the unlabelled ones.

    References
    ----------
    M. Belkin, P. Niyogi, V. Sindhwani, "Manifold regularization: a geometric framework for learning from
    labeled and unlabeled examples", JMLR 7, 2006, https://jmlr.org/papers/v7/belkin06a.html.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from cutplane.estimators import GraphSVC
    >>> X, y = make_moons(200, noise=0.05, random_state=0)
    >>> some = y.copy()
    >>> some[10:] = -1                                        # ten labels remain
    >>> model = GraphSVC(C=10.0, graph_weight=10.0, gamma=5.0).fit(X, some)
    >>> bool(model.score(X, y) > 0.98), model.gap_ <= 1e-3
    (True, True)
    """

    _: KW_ONLY
    graph_weight: float = 1.0
    n_neighbors: int = 6
    normalized: bool = True
    graph: Any = None
    loss: Any = "hinge"
    transduction_: Array = field(init=False)
    _compares = False

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit; examples with the label -1 are unlabelled."""
        super().fit(X, y, sample_weight)
        y = np.asarray(y).ravel()
        self.transduction_ = np.where(_is_labelled(y), y, self.predict(X))
        return self

    def _parts(self, kernel: Kernel, X: Any, y: Array, weights: Array | None, risk: Any = None) -> list[Part]:
        if self.n_basis is not None:
            raise InvalidInputError(
                "GraphSVC does not support n_basis: it expands functions in all examples."
            )
        labelled = np.flatnonzero(_is_labelled(y))
        targets, weights = self._targets(y[labelled], None if weights is None else weights[labelled])
        K = kernel.check_examples(X) if kernel.matrix_of(X) is not None else kernel(X)
        weight = as_scalar("graph_weight", self.graph_weight, low=0.0)
        matrix, back = deformed(np.asarray(K, dtype=np.float64), self._laplacian(X), weight, labelled)
        loss, intercept, parts = self._loss(), bool(self.fit_intercept), []
        for target, rows in targets:
            chosen = slice(None) if rows is None else rows
            part = matrix if rows is None else np.ascontiguousarray(matrix[np.ix_(rows, rows)])
            weight = None if weights is None else weights[chosen]
            machine = KernelRisk(part, target, loss, "precomputed", intercept, weight, self.cache_bytes)
            parts.append(Part(machine, np.arange(len(y)), back[:, chosen], machine.squared_norm))
        return parts

    def _laplacian(self, X: Any) -> Any:
        if self.graph is not None:
            weights: Any = self.graph(X) if callable(self.graph) else self.graph
            if weights.shape[0] != X.shape[0]:
                raise InvalidInputError(
                    f"graph must have one row per row of X, {X.shape[0]}, got shape {weights.shape}."
                )
            return laplacian(weights, bool(self.normalized))
        if isinstance(self.kernel, str) and self.kernel == "precomputed":
            raise InvalidInputError("A precomputed kernel does not define nearest neighbours; pass graph.")
        from sklearn.neighbors import kneighbors_graph

        count = min(as_count("n_neighbors", self.n_neighbors), X.shape[0] - 1)
        return laplacian(kneighbors_graph(X, count), bool(self.normalized))


def _is_labelled(y: Array) -> Array:
    """Return a mask of the labels other than -1; labels may be objects, such as strings."""
    return y != -1 if y.dtype.kind in "iuf" else np.array([label != -1 for label in y.tolist()])


@estimator
class SparseKernelEstimator(KernelEstimator):
    """A function of a few kernel functions, which are chosen greedily; the machine on them is certified.

    Parameters
    ----------
    C : float, default 1.0
        Weight of the loss; greater than 0.
    gamma : "scale", "auto" or float, default "scale"
        1 / (d var X), 1 / d, or a number > 0.
    n_basis : int, default 50
        Largest number of functions k(x_j, .) in the expansion of each problem.
    n_candidates : int, default 59
        Number of random candidates for each function.
    random_state : int, RandomState or None, default None
        Seed of the candidates.

    Attributes
    ----------
    bases_ : tuple of GreedyBasis
        One basis for each problem, in the order in which functions were chosen; pickles exclude them.
    """

    _: KW_ONLY
    n_basis: Any = 50
    n_candidates: int = 59
    bases_: tuple[GreedyBasis, ...] = field(init=False)
    _unpickled = ("results_", "bases_")
    _compares = False

    def _parts(self, kernel: Kernel, X: Any, y: Array, weights: Array | None, risk: Any = None) -> list[Part]:
        targets, weights = self._targets(y, weights)
        loss, intercept = self._loss(), bool(self.fit_intercept)
        seeds = check_random_state(self.random_state)
        size, candidates = as_count("n_basis", self.n_basis), as_count("n_candidates", self.n_candidates)
        parts, bases, first = [], [], None
        for target, rows in targets:
            chosen = np.arange(len(y)) if rows is None else rows
            weight = None if weights is None else weights[chosen]
            if rows is None and first is not None:
                whole = first.with_targets(target, weight)
            else:
                some = X if rows is None else kernel.restrict(X, rows)
                whole = KernelRisk(some, target, loss, kernel, intercept, weight, self.cache_bytes)
                first = whole if rows is None else first
            lam = self._lam(Part(whole, chosen), self.C)
            basis = greedy_basis(whole, lam, size, candidates, seeds.randint(2**31 - 1))
            if not basis.examples.size:
                raise InvalidInputError(f"The kernel {kernel.name!r} is zero at all examples.")
            linear = LinearRisk(basis.features, target, loss, weight, intercept=intercept)
            parts.append(Part(linear, chosen[basis.examples], basis.back))
            bases.append(basis)
        self.bases_ = tuple(bases)
        return parts

    def _solve_part(self, part: Part, C: float, x0: Any = None) -> Result:
        refitted = next(basis.x for basis in self.bases_ if basis.back is part.back)
        return super()._solve_part(part, C, refitted)


@estimator
class SparseKernelClassifier(SparseKernelEstimator, KernelClassification):
    """A kernel classifier on a basis that is chosen greedily, with a certificate for the machine on it.

        minimise  1/2 ||f||^2 + C sum_i c_i l(y_i (f(x_i) + b))   over f = sum_{j in J} a_j k(x_j, .), and b

    Each step adds to J the random candidate that decreases the objective most. A few dozen functions are
    often as accurate as hundreds of support vectors, with faster predictions.

    Parameters
    ----------
    loss : str or ScalarLoss, default "squared_hinge"
        "squared_hinge", "modified_huber", "logistic", or a loss of `cutplane.losses` for targets -1 and 1
        that has no kinks.

    References
    ----------
    S. S. Keerthi, O. Chapelle, D. DeCoste, "Building support vector machines with reduced classifier
    complexity", JMLR 7, 2006, https://jmlr.org/papers/v7/keerthi06a.html.

    Examples
    --------
    >>> from cutplane.estimators import SparseKernelClassifier
    >>> X, y = [[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]] * 5, ["same", "same", "other", "other"] * 5
    >>> model = SparseKernelClassifier(C=10.0, gamma=1.0, n_basis=4, random_state=0).fit(X, y)
    >>> model.predict([[0.1, 0.0], [0.0, 0.9]]).tolist(), model.support_.size
    (['same', 'other'], 4)
    """

    _: KW_ONLY
    loss: Any = "squared_hinge"


@estimator
class SparseKernelRegressor(Regression, SparseKernelEstimator):
    """Kernel regression on a basis that is chosen greedily, with a certificate for the machine on it.

        minimise  1/2 ||f||^2 + C sum_i c_i l(f(x_i) + b, y_i)   over f = sum_{j in J} a_j k(x_j, .), and b

    Parameters
    ----------
    epsilon : float, default 0.1
        The largest residual in the quadratic part of Huber's loss, or half the width of the tube of the
        epsilon-insensitive loss.
    loss : str or ScalarLoss, default "squared"
        "squared", r^2 / 2; "huber"; "squared_epsilon_insensitive"; or a loss of `cutplane.losses` that has
        no kinks.

    References
    ----------
    S. S. Keerthi, O. Chapelle, D. DeCoste, "Building support vector machines with reduced classifier
    complexity", JMLR 7, 2006, https://jmlr.org/papers/v7/keerthi06a.html.

    Examples
    --------
    >>> from cutplane.estimators import SparseKernelRegressor
    >>> model = SparseKernelRegressor(C=1e6, kernel="linear", n_basis=1, tol=1e-9)
    >>> model.fit([[0.0], [1.0], [2.0]], [0.0, 2.0, 4.0]).predict([[3.0]]).round(3).tolist()
    [6.0]
    """

    _: KW_ONLY
    epsilon: float = 0.1
    loss: Any = "squared"

    def _loss(self) -> ScalarLoss:
        return as_residual_loss(self.loss, self.epsilon)

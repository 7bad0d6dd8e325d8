"""The base classes of the kernel estimators: kernels, problems, and cross-validation of C and gamma."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from scipy import linalg, sparse
from sklearn.base import is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils import check_random_state

from cutplane.estimators.base import Classification, Weighted, as_weights, ascending, estimator, uninterrupted
from cutplane.estimators.formulation import CLASSIFICATION, as_choice, as_loss
from cutplane.exceptions import InvalidInputError
from cutplane.kernels.base import Kernel, as_kernel
from cutplane.kernels.functions import ChiSquare, Cosine, Gaussian, Laplacian, Linear, Polynomial
from cutplane.kernels.risk import KernelFunction, KernelRisk
from cutplane.kernels.rows import CACHE_BYTES
from cutplane.losses.base import ScalarLoss
from cutplane.pieces.validation import Array, as_count, as_positive
from cutplane.problem import Problem
from cutplane.regularizers.base import Regularizer
from cutplane.regularizers.separable import L2
from cutplane.result import Result
from cutplane.risks.linear import LinearRisk

WITH_GAMMA = "rbf", "poly", "laplacian", "chi2"
NAMES = *WITH_GAMMA, "linear", "cosine", "precomputed"


@dataclass(frozen=True, eq=False)
class Part:
    """A problem of one or several functions, and the expansion of these in kernel functions k(x_j, .).

    Attributes
    ----------
    risk : Risk
        The risk of a vector with a row for each function, which contains the weights and, if there is one,
        the intercept.
    examples : ndarray of int
        The indices of the x_j.
    back : ndarray of shape (n_examples, n_weights), optional
        The map from weights to coefficients of the examples; by default the identity.
    norm : callable, optional
        A function lam -> the regularizer lam/2 times the squared norm of the functions; by default `L2` of
        the weights.
    n_functions : int
    """

    risk: Any
    examples: Array
    back: Array | None = None
    norm: Callable[[float], Regularizer] | None = None
    n_functions: int = 1

    def problem(self, lam: float) -> Problem:
        """Return the problem with this weight of the squared norm."""
        if self.norm is not None:
            return Problem(self.risk, self.norm(lam))
        regularized = np.zeros((self.n_functions, self.risk.dim // self.n_functions))
        regularized[:, : self._n_weights] = 1.0
        return Problem(self.risk, L2(lam, weights=regularized.ravel()))

    @property
    def _n_weights(self) -> int:
        return self.examples.size if self.back is None else self.back.shape[1]

    def coefficients(self, x: Array) -> tuple[Array, Array]:
        """Return the coefficients of the examples, one column for each function, and the intercepts."""
        rows = x.reshape(self.n_functions, -1)
        a, b = rows[:, : self._n_weights].T, rows[:, self._n_weights :]
        return a if self.back is None else self.back @ a, b[:, 0] if b.size else np.zeros(len(rows))


@estimator
class KernelFunctionEstimator(Weighted):
    """A function of a kernel's space, fitted by the engine with a certificate.

    Parameters
    ----------
    kernel : str, Kernel or callable, default "rbf"
        "rbf", exp(-gamma ||x - z||^2); "linear"; "poly", (gamma <x, z> + coef0)^degree; "laplacian",
        exp(-gamma ||x - z||_1); "cosine"; "chi2", exp(-gamma sum_j (x_j - z_j)^2 / (x_j + z_j));
        "precomputed" if X contains the kernel values; a kernel of `cutplane.kernels`; or a function of two
        matrices.
    gamma : "scale", "auto" or float, default "scale"
        1 / (d var X), 1 / d, or a number > 0.
    degree : int, default 3
        The degree of "poly".
    coef0 : float, default 0.0
        The constant of "poly"; at least 0.
    cache_bytes : int, default 200 MiB
        The memory for rows of the kernel matrix.

    Attributes
    ----------
    support_ : ndarray of shape (n_support,)
        The indices of the examples with a nonzero coefficient in a function.
    dual_coef_ : ndarray of shape (n_problems, n_support)
        The coefficients of these examples.
    intercept_ : ndarray of shape (n_problems,)
    function_ : KernelFunction
        The function for predictions; it stores a copy of the examples in `support_`.
    gamma_ : float
        The gamma of the kernel; None for a kernel without gamma.
    """

    _: KW_ONLY
    kernel: Any = "rbf"
    gamma: Any = "scale"
    degree: int = 3
    coef0: float = 0.0
    cache_bytes: int = CACHE_BYTES
    function_: Any = field(init=False)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_samples, n_features)
            With kernel="precomputed" the kernel matrix, of shape (n_samples, n_samples).
        """
        self._store(self._fitted(X, y, sample_weight))
        return self

    def _fitted(self, X: Any, y: Any, sample_weight: Any = None) -> list[Result]:
        X, y = self._training(X, y)
        X = X.tocsr() if sparse.issparse(X) else X
        weights = as_weights(sample_weight, X.shape[0])
        self.C_, self.gamma_ = self._choose(X, y, weights)
        kernel = self._make_kernel(X, self.gamma_)
        parts = self._parts(kernel, X, y, weights)
        results = [self._solve_part(part, self.C_) for part in parts]
        self._scale = np.array([1.0 / self._lam(part, self.C_) for part in parts])
        coefficients, self.intercept_ = self._expansion(parts, [np.asarray(result.x) for result in results])
        self.support_ = np.flatnonzero(coefficients.any(axis=1))
        coefficients = coefficients[self.support_]
        self.dual_coef_ = coefficients.T
        self.function_ = KernelFunction(
            kernel, kernel.select(X, self.support_), coefficients, self.intercept_
        )
        return results

    def _targets(self, y: Array, weights: Array | None) -> tuple[list[tuple[Any, Array | None]], Any]:
        """Return the targets of each problem, its examples (None for all), and the weights of examples."""
        return [(y, None)], weights

    def _make_kernel(self, X: Any, gamma: Any) -> Kernel:
        return make_kernel(self.kernel, gamma_of(self.kernel, X, gamma), self.degree, self.coef0)

    def _choose(self, X: Any, y: Array, weights: Array | None) -> tuple[float, float | None]:
        """Return the weight of the losses, and gamma if the kernel has one."""
        return 1.0, gamma_of(self.kernel, X, self.gamma)

    def _parts(self, kernel: Kernel, X: Any, y: Array, weights: Array | None, risk: Any = None) -> list[Part]:
        """Return the problems, which share one kernel matrix: the matrix of `risk`, if it is given."""
        raise NotImplementedError

    def _lam(self, part: Part, C: float) -> float:
        weights = part.risk.sample_weight
        total = part.risk.y.size if weights is None else float(np.sum(weights))
        return 1.0 / (as_positive("C", C) * total)

    def _solve_part(self, part: Part, C: float, x0: Any = None) -> Result:
        return uninterrupted(part.problem(self._lam(part, C)).solve(x0=x0, **self._limits))

    @staticmethod
    def _expansion(parts: Sequence[Part], vectors: Sequence[Array]) -> tuple[Array, Array]:
        """Return the coefficients of all examples, one column for each function, and the intercepts."""
        size, columns, intercepts = 1 + max(int(part.examples.max()) for part in parts), [], []
        for part, x in zip(parts, vectors, strict=True):
            a, b = part.coefficients(x)
            column = np.zeros((size, b.size))
            column[part.examples] = a
            columns.append(column)
            intercepts.append(b)
        return np.hstack(columns), np.concatenate(intercepts)

    def _predictions(self, X: Any) -> Array:
        X = self._examples(X)
        return self.function_.decision_function(X)

    @property
    def _formats(self) -> dict[str, Any]:
        if isinstance(self.kernel, str):
            takes_sparse = self.kernel not in ("laplacian", "chi2", "precomputed")
        else:
            takes_sparse = getattr(self.kernel, "sparse", True)
        formats = Weighted._formats
        return {**formats, "accept_sparse": formats["accept_sparse"] if takes_sparse else False}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = isinstance(self.kernel, str) and self.kernel == "precomputed"
        tags.input_tags.positive_only = isinstance(self.kernel, str) and self.kernel == "chi2"
        return tags


@estimator
class KernelEstimator(KernelFunctionEstimator):
    """A function of a kernel's space that minimises a loss; C and gamma may be cross-validated.

    Parameters
    ----------
    C : float or array_like, default 1.0
        Weight of the loss; greater than 0. Several values are compared by cross-validation.
    gamma : "scale", "auto", float or array_like, default "scale"
        1 / (d var X), 1 / d, or a number > 0. Several values are compared by cross-validation.
    fit_intercept : bool, default True
        Whether there is an intercept b, which is not penalised.
    n_basis : int, optional
        Number of random examples in which functions are expanded (a linear machine on Nystroem features); by
        default all. The certificate is then valid for this low-rank problem, not for the whole space.
    cv : int, cross-validation generator or iterable, optional
        As in scikit-learn, by default 5 folds; used only if C or gamma has several values.
    scoring : str or callable, optional
        As in scikit-learn; by default the accuracy or the coefficient of determination.
    random_state : int, RandomState or None, default None
        Seed of the choice of the basis.

    Attributes
    ----------
    C_ : float
        The C of the final fit.
    scores_ : ndarray of shape (n_C, n_gamma, n_folds)
        The scores of cross-validation, with `C` and `gamma` in ascending order.
    """

    C: Any = 1.0
    _: KW_ONLY
    fit_intercept: bool = True
    n_basis: int | None = None
    cv: Any = None
    scoring: Any = None
    random_state: Any = None
    loss: Any = field(init=False)
    scores_: Array = field(init=False)
    Cs_: Array = field(init=False)
    gammas_: Array = field(init=False)
    _compares: ClassVar[bool] = True

    def _loss(self) -> ScalarLoss:
        return as_loss(self.loss, CLASSIFICATION)

    def _choose(self, X: Any, y: Array, weights: Array | None) -> tuple[float, float | None]:
        several = np.ndim(self.C) > 0 or np.ndim(self.gamma) > 0
        if several and not self._compares:
            raise InvalidInputError(
                f"{type(self).__name__} takes a single C and a single gamma; use GridSearchCV for several."
            )
        return choose(self, X, y, weights) if several else (self.C, super()._choose(X, y, weights)[1])

    def _parts(self, kernel: Kernel, X: Any, y: Array, weights: Array | None, risk: Any = None) -> list[Part]:
        targets, weights = self._targets(y, weights)
        whole, every = self._whole(kernel, X) if risk is None else risk, np.arange(X.shape[0])
        if self.n_basis is not None or whole.own_method(Problem(whole, whole.squared_norm())) is None:
            basis, features, back = self._basis(kernel, X)
        else:
            basis, features, back = every, None, None
        parts = []
        for target, rows in targets:
            chosen = slice(None) if rows is None else rows
            weight = None if weights is None else weights[chosen]
            if features is None:
                one = whole if rows is None else whole.restricted(rows)
                one = one.with_targets(target, weight)
                parts.append(Part(one, every[chosen], norm=one.squared_norm))
            else:
                one = LinearRisk(features[chosen], target, whole.loss, weight, intercept=whole.intercept)
                parts.append(Part(one, basis, back))
        return parts

    def _basis(self, kernel: Kernel, X: Any) -> tuple[Array, Array, Array]:
        """Return the basis (by default all examples), its features, and the map to coefficients."""
        return basis_of(kernel, X, X.shape[0] if self.n_basis is None else self.n_basis, self.random_state)

    def _whole(self, kernel: Kernel, X: Any) -> KernelRisk:
        """Return a risk of all examples with arbitrary targets, because it provides the kernel matrix."""
        signs = np.where(np.arange(X.shape[0]) % 2, 1.0, -1.0)
        intercept = bool(self.fit_intercept)
        return KernelRisk(X, signs, self._loss(), kernel, intercept, cache_bytes=self.cache_bytes)

    def plot_scores(self, ax: Any = None) -> Any:
        """Plot the mean scores of cross-validation as a function of C, and of gamma if there are several.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional

        Returns
        -------
        matplotlib.axes.Axes
        """
        if not hasattr(self, "scores_"):
            raise InvalidInputError(
                f"{type(self).__name__} has no scores; pass several values of C or gamma, and fit."
            )
        if ax is None:
            from matplotlib import pyplot

            ax = pyplot.subplots()[1]
        means = self.scores_.mean(axis=2)
        ax.set_xscale("log")
        ax.set_xlabel("C")
        if means.shape[1] == 1:
            ax.plot(self.Cs_, means[:, 0], marker="o")
            ax.set_ylabel("mean score")
            return ax
        ax.set_yscale("log")
        ax.set_ylabel("gamma")
        picture = ax.contourf(self.Cs_, self.gammas_, means.T, levels=12)
        ax.figure.colorbar(picture, ax=ax, label="mean score")
        ax.plot([self.C_], [self.gamma_], "w*", markersize=12)
        return ax


@estimator
class KernelClassification(Classification, KernelFunctionEstimator):
    """A kernel classifier, one-vs-rest or one-vs-one, with class weights.

    Parameters
    ----------
    multi_class : {"ovr", "ovo"}, default "ovr"
        With more than two classes: one problem for each class against the rest ("ovr"), or one for each pair
        of classes ("ovo"). "ovo" predicts the class with most votes, and among equal votes the largest sum of
        scores.
    """

    _: KW_ONLY
    multi_class: str = "ovr"
    class_weight: Any = None
    _schemes: ClassVar[tuple[str, ...]] = ("ovr", "ovo")

    def decision_function(self, X: Any) -> Array:
        """Return the scores of the classes."""
        found = self._predictions(X)
        if found.shape[1] == 1:
            return found[:, 0]
        return votes(found, len(self.classes_)) if self.multi_class == "ovo" else found

    def _targets(self, y: Array, weights: Array | None) -> Any:
        labels = self._labels(y)
        weights, count = self._weighed(y, labels, weights, self.class_weight), len(self.classes_)
        scheme = as_choice("multi_class", self.multi_class, self._schemes)
        if scheme == "ovr" or count == 2:
            return [(target, None) for target in self._against_rest(labels)], weights
        if scheme == "joint":
            return [(labels, None)], weights
        pairs = []
        for i, j in combinations(range(count), 2):
            rows = np.flatnonzero((labels == i) | (labels == j))
            pairs.append((np.where(labels[rows] == j, 1.0, -1.0), rows))
        return pairs, weights


def votes(scores: Array, count: int) -> Array:
    """Return the votes for each class, plus less than half a vote by its sum of scores."""
    votes, sums = np.zeros((2, len(scores), count))
    for k, (i, j) in enumerate(combinations(range(count), 2)):
        won = scores[:, k] > 0.0
        votes[:, j] += won
        votes[:, i] += ~won
        sums[:, j] += scores[:, k]
        sums[:, i] -= scores[:, k]
    return votes + sums / (3.0 * (np.abs(sums) + 1.0))


def gamma_of(kernel: Any, X: Any, gamma: Any) -> float | None:
    """Return gamma as a number: with d columns, "scale" is 1 / (d var X), and "auto" is 1 / d.

    Return None for a kernel without gamma.
    """
    if not (isinstance(kernel, str) and kernel in WITH_GAMMA):
        return None
    if not isinstance(gamma, str):
        return as_positive("gamma", gamma)
    if gamma not in ("scale", "auto"):
        raise InvalidInputError(f'gamma must be "scale", "auto" or a number > 0, got {gamma!r}.')
    if gamma == "auto":
        return 1.0 / X.shape[1]
    variance = float(X.multiply(X).mean() - X.mean() ** 2 if sparse.issparse(X) else X.var())
    return 1.0 / (X.shape[1] * variance) if variance > 0.0 else 1.0


def make_kernel(kernel: Any, gamma: float | None, degree: Any, coef0: Any) -> Kernel:
    """Return the kernel with this name, or the given kernel."""
    if not isinstance(kernel, str) or kernel == "precomputed":
        return as_kernel(kernel)
    if kernel not in NAMES:
        raise InvalidInputError(
            f"kernel must be one of {list(NAMES)}, a kernel such as cutplane.kernels.Gaussian(1.0), or a "
            f"function of two matrices, got {kernel!r}."
        )
    if gamma is None:
        return Linear() if kernel == "linear" else Cosine()
    if kernel == "rbf":
        return Gaussian(math.sqrt(0.5 / gamma))
    if kernel == "poly":
        return Polynomial(degree, coef0, gamma)
    return Laplacian(1.0 / gamma) if kernel == "laplacian" else ChiSquare(gamma)


def basis_of(kernel: Kernel, X: Any, n_basis: Any, seed: Any) -> tuple[Array, Array, Array]:
    """Return a random basis, the Nystroem features of all examples, and the map to coefficients.

    With the block K_bb = U S U' of the basis, the features are K_mb U S^-1/2. Weights w of the features
    correspond to the coefficients U S^-1/2 w of the basis.
    """
    count = min(as_count("n_basis", n_basis), X.shape[0])
    chosen = np.sort(check_random_state(seed).permutation(X.shape[0])[:count])
    columns = kernel.cross(X, kernel.select(X, chosen))
    block = columns[chosen]
    values, vectors = linalg.eigh(0.5 * (block + block.T))
    kept = values > count * np.finfo(np.float64).eps * values[-1]
    if values[-1] <= 0.0 or values[0] < -1e-6 * values[-1]:
        raise InvalidInputError(
            f"The kernel {kernel.name!r} is not positive semidefinite: a matrix of {count} examples has the "
            f"eigenvalue {values[0]:.3g}, and the largest is {values[-1]:.3g}."
        )
    back = vectors[:, kept] / np.sqrt(values[kept])
    return chosen, columns @ back, back


def choose(model: Any, X: Any, y: Array, weights: Array | None) -> tuple[float, float | None]:
    """Return the C and gamma with the best mean score in cross-validation, and set ``scores_``."""
    several = np.ndim(model.gamma) > 0
    if several and not (isinstance(model.kernel, str) and model.kernel in WITH_GAMMA):
        raise InvalidInputError(f"The kernel {model.kernel!r} has no gamma; pass a single value.")
    given = ascending("gamma", model.gamma, np.ones(1)) if several else [model.gamma]
    gammas = [gamma_of(model.kernel, X, gamma) for gamma in given]
    Cs = ascending("C", np.atleast_1d(model.C), np.ones(1))
    folds: Any = check_cv(model.cv, y, classifier=is_classifier(model))
    splits = list(folds.split(X, y))
    scores = np.zeros((len(Cs), len(gammas), len(splits)))
    starts: list[Any] = [None] * len(splits)
    first, whole = None, None
    if model.n_basis is None:
        first = model._whole(model._make_kernel(X, gammas[0]), X)
    for j, gamma in enumerate(gammas):
        kernel, whole = model._make_kernel(X, gamma), None  # free the last kernel matrix first
        if first is not None:
            whole = first.with_kernel(kernel) if several else first
        for k, (train, test) in enumerate(splits):
            parts, score = _fold(model, X, y, weights, train, test, kernel, whole)
            seeds = starts[k]
            if seeds is None and k > 0 and all(part.examples.size == train.size for part in parts):
                seeds = _transferred(starts[k - 1], splits[k - 1][0], train)
            seeds = [None] * len(parts) if seeds is None else seeds
            for i, C in enumerate(Cs):
                seeds, scores[i, j, k] = score(float(C), seeds)
                if i == 0 and all(part.back is None for part in parts):
                    starts[k] = seeds  # weights of features depend on gamma
    model.scores_, model.Cs_, model.gammas_ = scores, Cs, np.array(gammas)
    i, j = np.unravel_index(int(scores.mean(axis=2).argmax()), scores.shape[:2])
    return float(Cs[i]), gammas[j]


def _transferred(seeds: Any, before: Array, now: Array) -> list[Array] | None:
    """Transfer the coefficients of one fold to the examples of another; other examples get 0."""
    if seeds is None:
        return None
    found = []
    for x in seeds:
        every = np.zeros(1 + max(int(before.max()), int(now.max())))
        every[before] = x[: before.size]
        found.append(np.append(every[now], x[before.size :]))
    return found


def _fold(
    model: Any,
    X: Any,
    y: Array,
    weights: Array | None,
    train: Array,
    test: Array,
    kernel: Kernel,
    whole: KernelRisk | None,
) -> tuple[Sequence[Part], Callable[[float, Any], tuple[list[Array], float]]]:
    """Return the problems on a training part, and a function that solves them and scores the test part."""
    machine: Any = copy.copy(model)
    some, rest = (None if weights is None else weights[part] for part in (train, test))
    risk = None if whole is None else whole.restricted(train)
    parts = machine._parts(kernel, kernel.restrict(X, train), y[train], some, risk)
    if whole is not None:
        cross = whole.gram.block(test, train)
    else:
        cross = kernel.cross(X[test], kernel.select(X[train], parts[0].examples))
    scorer: Any = check_scoring(model, scoring=model.scoring)

    def score(C: float, seeds: Any) -> tuple[list[Array], float]:
        results = [machine._solve_part(part, C, x0) for part, x0 in zip(parts, seeds, strict=True)]
        vectors = [np.asarray(result.x) for result in results]
        coefficients, intercepts = machine._expansion(parts, vectors)
        if model.n_basis is not None:
            coefficients = coefficients[parts[0].examples]
        values = cross[:, : len(coefficients)] @ coefficients + intercepts
        machine._predictions = lambda X: values
        if model.scoring is None and is_classifier(model):  # the accuracy, without scikit-learn's checks
            return vectors, float(np.average(machine.predict(cross) == y[test], weights=rest))
        known = {} if rest is None else {"sample_weight": rest}
        return vectors, float(scorer(machine, cross, y[test], **known))

    return parts, score

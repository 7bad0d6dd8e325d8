"""What the kernel estimators share: from data to problems, from results to functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from cutplane.estimators.base import CertifiedEstimator, as_weights, checked, uninterrupted
from cutplane.estimators.kernel_formulation import basis_of, make_kernel
from cutplane.estimators.kernel_grid import Choice, choose, chosen, plot_scores
from cutplane.kernels.base import Kernel
from cutplane.kernels.function import KernelFunction
from cutplane.kernels.risk import KernelRisk
from cutplane.kernels.rows import CACHE_BYTES
from cutplane.losses.base import ScalarLoss
from cutplane.pieces.validation import Array, as_positive
from cutplane.problem import Problem
from cutplane.regularizers.l2 import L2
from cutplane.result import Result
from cutplane.risks.linear import LinearRisk


class Part(NamedTuple):
    """A problem, the examples that its function is expanded in, and how its vector gives coefficients."""

    risk: Any
    examples: Array
    back: Array | None = None

    def problem(self, lam: float) -> Problem:
        """Return the problem with this weight of the norm."""
        if self.back is None:
            return Problem(self.risk, self.risk.squared_norm(lam))
        regularized = np.arange(self.risk.dim) < self.back.shape[1]
        return Problem(self.risk, L2(lam, weights=regularized.astype(float)))

    def coefficients(self, x: Array) -> tuple[Array, Any]:
        """Return those of the examples, and the intercept; of several functions as many columns."""
        count = self.examples.size if self.back is None else self.back.shape[1]
        a = x[:count] if self.back is None else self.back @ x[:count]
        return a, float(x[count]) if x.size > count else 0.0


@dataclass(eq=False, repr=False, kw_only=True)
class KernelFunctionEstimator(CertifiedEstimator):
    """A function of a kernel's space, fitted by the engine with a certificate.

    Parameters
    ----------
    kernel : str, Kernel or callable, default "rbf"
        "rbf", exp(-gamma ||x - z||^2); "linear"; "poly", (gamma <x, z> + coef0)^degree; "laplacian",
        exp(-gamma ||x - z||_1); "cosine"; "chi2", exp(-gamma sum_j (x_j - z_j)^2 / (x_j + z_j));
        "precomputed", where X holds the values; a kernel of `cutplane.kernels`; or a function of two
        matrices.
    gamma : "scale", "auto" or float, default "scale"
        1 / (d var X), 1 / d, or a number > 0.
    degree : int, default 3
        Of "poly".
    coef0 : float, default 0.0
        Of "poly", at least 0.
    cache_bytes : int, default 200 MiB
        The memory for rows of the kernel matrix.

    Attributes
    ----------
    support_ : ndarray of shape (n_support,)
        The examples with a coefficient in one of the functions.
    dual_coef_ : ndarray of shape (n_problems, n_support)
        Their coefficients.
    intercept_ : ndarray of shape (n_problems,)
    function_ : KernelFunction
        Which predicts; it keeps a copy of the examples of `support_`.
    gamma_ : float
        The one in use; None for a kernel without one.
    results_ : tuple of Result
        One for each problem, in the scaling of the mean loss. They refer to the training data, and are left
        out when the estimator is pickled.
    """

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
        y : array_like of shape (n_samples,)
        sample_weight : array_like of shape (n_samples,), optional
            Weights >= 0, by default 1 for each example.

        Returns
        -------
        self

        Raises
        ------
        InvalidInputError
            A ``ValueError``; if a parameter or an argument is wrong.
        """
        X, y = self._training(X, y)
        X = X.tocsr() if sparse.issparse(X) else X
        weights = as_weights(sample_weight, X.shape[0])
        choice = self._choose(X, y, weights)
        self.C_, self.gamma_ = choice.C, choice.gamma
        parts = self._parts(choice.make(X), X, y, weights)
        self._fit_parts(parts, [self._solve(part, self.C_) for part in parts])
        support = np.flatnonzero(self._coefficients.any(axis=1))
        kernel: Kernel = choice.make(X)
        self.support_, self.dual_coef_ = support, self._coefficients[support].T
        self.function_ = KernelFunction(
            kernel, kernel.select(X, support), self._coefficients[support], self.intercept_
        )
        del self._coefficients
        return self

    def _targets(self, y: Array, weights: Array | None) -> tuple[list[tuple[Array, Array | None]], Any]:
        """Return the targets of each problem, with its examples if these are not all, and the weights."""
        raise NotImplementedError

    def _make_kernel(self, X: Any, gamma: Any) -> Kernel:
        return make_kernel(self.kernel, X, gamma, self.degree, self.coef0)

    def _choose(self, X: Any, y: Array, weights: Array | None) -> Choice:
        """Return the weight of the losses and the kernel."""
        return chosen(self, X, 1.0, self.gamma)

    def _parts(self, kernel: Kernel, X: Any, y: Array, weights: Array | None, risk: Any = None) -> list[Part]:
        """Return the problems; they share the kernel matrix, that of `risk` if it is given."""
        raise NotImplementedError

    def _lam(self, part: Part, C: float) -> float:
        """Return 1 / (C times the sum of the weights)."""
        weights = part.risk.sample_weight
        total = part.risk.y.size if weights is None else float(np.sum(weights))
        return 1.0 / (as_positive("C", C) * total)

    def _solve(self, part: Part, C: float, x0: Any = None) -> Result:
        problem = part.problem(self._lam(part, C))
        options = {"tol": self.tol, "max_iter": self.max_iter, "time_limit": self.time_limit}
        return uninterrupted(problem.solve(x0=x0, log=bool(self.verbose), **options))

    def _fit_parts(self, parts: Sequence[Part], results: Sequence[Result]) -> None:
        """Set the attributes that speak of the results."""
        self._keep(results)
        scales = [1.0 / self._lam(part, self.C_) for part in parts]
        pairs = list(zip(scales, results, strict=True))
        self.objective_ = sum(scale * result.objective for scale, result in pairs)
        self.lower_bound_ = sum(scale * result.lower_bound for scale, result in pairs)
        vectors = [np.asarray(result.x) for result in results]
        self._coefficients, self.intercept_ = self._expansion(parts, vectors)

    @staticmethod
    def _expansion(parts: Sequence[Part], vectors: Sequence[Array]) -> tuple[Array, Array]:
        """Return the coefficients of all examples, one column for each function, and the intercepts."""
        size, columns, intercepts = 1 + max(int(part.examples.max()) for part in parts), [], []
        for part, x in zip(parts, vectors, strict=True):
            a, b = part.coefficients(x)
            column = np.zeros((size, np.size(b)))
            column[part.examples] = a.reshape(-1, np.size(b))
            columns.append(column)
            intercepts.append(np.atleast_1d(b))
        return np.hstack(columns), np.concatenate(intercepts)

    def _predictions(self, X: Any) -> Array:
        X = self._examples(X)
        return self.function_.decision_function(X)

    def _training(self, X: Any, y: Any) -> tuple[Any, Array]:
        X, y = checked(self, X, y, **self._formats | self._layout, **self._target_checks)
        self._note_units(X)
        return X, y

    def _examples(self, X: Any) -> Any:
        check_is_fitted(self)
        return checked(self, X, reset=False, **self._formats | self._layout)

    @property
    def _layout(self) -> dict[str, Any]:
        return {"accept_sparse": ("csr", "csc") if self._sparse else False}

    @property
    def _sparse(self) -> bool:
        """Whether the kernel takes sparse data."""
        if isinstance(self.kernel, str):
            return self.kernel not in ("laplacian", "chi2", "precomputed")
        return getattr(self.kernel, "sparse", True)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._sparse
        tags.input_tags.pairwise = isinstance(self.kernel, str) and self.kernel == "precomputed"
        tags.input_tags.positive_only = isinstance(self.kernel, str) and self.kernel == "chi2"
        return tags


@dataclass(eq=False, repr=False, kw_only=True)
class KernelEstimator(KernelFunctionEstimator):
    """A function of a kernel's space that minimises a loss, maybe on a basis, with C and gamma to choose.

    Parameters
    ----------
    gamma : "scale", "auto", float or array_like, default "scale"
        1 / (d var X), 1 / d, or a number > 0; several are compared by cross-validation.
    fit_intercept : bool, default True
        Whether there is a b, which the penalty leaves out.
    n_basis : int, optional
        If given, functions are expanded in so many random examples alone (Nystroem features and a linear
        machine). The certificate is for that problem of low rank; how much better the best function of the
        whole space is, it does not say.
    cv : int, cross-validation generator or iterable, optional
        As in scikit-learn; by default 5 folds where C or gamma are several, and then only.
    scoring : str or callable, optional
        As in scikit-learn; by default the accuracy or the coefficient of determination.
    random_state : int, RandomState or None, default None
        Of the choice of a basis.

    Attributes
    ----------
    C_ : float
        The one in use.
    scores_ : ndarray of shape (n_C, n_gamma, n_folds)
        After cross-validation, with `C` and `gamma` ascending.
    """

    fit_intercept: bool = True
    n_basis: int | None = None
    cv: Any = None
    scoring: Any = None
    random_state: Any = None
    C: Any = 1.0

    def _loss(self) -> ScalarLoss:
        raise NotImplementedError

    def _choose(self, X: Any, y: Array, weights: Array | None) -> Choice:
        return choose(self, X, y, weights)

    def _parts(self, kernel: Kernel, X: Any, y: Array, weights: Array | None, risk: Any = None) -> list[Part]:
        targets, weights = self._targets(y, weights)
        every = np.arange(X.shape[0])
        whole = self._whole(kernel, X) if risk is None else risk
        count = self.n_basis
        if count is None and whole.own_method(Problem(whole, whole.squared_norm())) is None:
            count = every.size  # the features of all examples have the same span
        if count is None:
            risks = [(whole if rows is None else whole.restricted(rows), rows) for _, rows in targets]
            return [
                Part(one.with_targets(target, weights if weights is None or rows is None else weights[rows]),
                     every if rows is None else rows)
                for (one, rows), (target, _) in zip(risks, targets, strict=True)
            ]  # fmt: skip
        basis, features, back = basis_of(kernel, X, count, self.random_state)

        def low_rank(target: Array, rows: Any) -> Part:
            weight = None if weights is None else weights[rows]
            one = LinearRisk(features[rows], target, whole.loss, weight, intercept=whole.intercept)
            return Part(one, basis, back)

        return [low_rank(target, slice(None) if rows is None else rows) for target, rows in targets]

    def _whole(self, kernel: Kernel, X: Any) -> KernelRisk:
        """Return a risk of all examples, for targets to come."""
        signs = np.where(np.arange(X.shape[0]) % 2, 1.0, -1.0)
        intercept = bool(self.fit_intercept)
        return KernelRisk(X, signs, self._loss(), kernel, intercept, cache_bytes=self.cache_bytes)

    def plot_scores(self, ax: Any = None) -> Any:
        """Plot the mean scores of cross-validation over C, and over gamma if there are several.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional

        Returns
        -------
        matplotlib.axes.Axes
        """
        return plot_scores(self, ax)

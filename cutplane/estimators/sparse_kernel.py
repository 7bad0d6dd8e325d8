"""Kernel machines on a small greedy basis, for scikit-learn."""

from __future__ import annotations

from dataclasses import KW_ONLY, field
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from cutplane.estimators.base import Regression
from cutplane.estimators.documentation import estimator
from cutplane.estimators.formulation import as_residual_loss
from cutplane.estimators.kernel import KernelClassification, KernelEstimator, Part
from cutplane.exceptions import InvalidInputError
from cutplane.kernels.base import Kernel
from cutplane.kernels.greedy import GreedyBasis, greedy_basis
from cutplane.kernels.risk import KernelRisk
from cutplane.losses.base import ScalarLoss
from cutplane.pieces.validation import Array, as_count
from cutplane.result import Result
from cutplane.risks.linear import LinearRisk


@estimator
class SparseKernelEstimator(KernelEstimator):
    """A function of few kernel functions, chosen greedily; the machine on them is certified.

    Parameters
    ----------
    C : float, default 1.0
        Weight of the loss; greater than 0.
    gamma : "scale", "auto" or float, default "scale"
        1 / (d var X), 1 / d, or a number > 0.
    n_basis : int, default 50
        Largest number of functions k(x_j, .) that each problem is expanded in.
    n_candidates : int, default 59
        Number of random functions that each one is chosen from.
    random_state : int, RandomState or None, default None
        Seed of the candidates.

    Attributes
    ----------
    bases_ : tuple of GreedyBasis
        One for each problem, in the order of the choice; pickles of the estimator exclude them.
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

    J grows by the function that lowers the objective most among random candidates. A few dozen are often as
    accurate as a support vector machine with hundreds of support vectors, and predict as much faster.

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
        The largest residual that Huber's loss squares, and half the width of the tube of the
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

"""Kernel machines for several classes: against the rest, in pairs, or all together."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import compute_class_weight

from cutplane.estimators.base import Classification
from cutplane.estimators.formulation import as_choice
from cutplane.estimators.kernel import KernelEstimator, KernelFunctionEstimator, Part
from cutplane.estimators.kernel_formulation import basis_of
from cutplane.exceptions import InvalidInputError
from cutplane.kernels.base import Kernel
from cutplane.losses.vector import VectorLoss
from cutplane.pieces.validation import Array
from cutplane.problem import Problem
from cutplane.regularizers.l2 import L2
from cutplane.risks.multiclass import MulticlassRisk


@dataclass(eq=False, repr=False, kw_only=True)
class KernelClassification(Classification, KernelFunctionEstimator):
    """What the kernel classifiers share: problems of classes, and weights of these.

    Parameters
    ----------
    multi_class : {"ovr", "ovo"}, default "ovr"
        With more than two classes: one problem for each class against the rest, or one for each pair, of
        which the votes decide, and of equal votes the sums of the scores.
    class_weight : dict, "balanced" or None, default None
        Factors of the weights of the examples by class; "balanced" gives all classes the same total weight.
    """

    multi_class: str = "ovr"
    class_weight: Any = None
    _schemes: ClassVar[tuple[str, ...]] = ("ovr", "ovo")

    def decision_function(self, X: Any) -> Array:
        """Return the scores of the classes.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            The class with the largest is predicted; with two classes of shape (n_samples,), positive for
            ``classes_[1]``.
        """
        found = self._predictions(X)
        if found.shape[1] == 1:
            return found[:, 0]
        return votes(found, len(self.classes_)) if self.multi_class == "ovo" else found

    def _targets(self, y: Array, weights: Array | None) -> Any:
        labels = self._labels(y)
        if self.class_weight is not None:
            ones = np.ones(len(y)) if weights is None else weights
            weights = ones * self._class_weights(y, labels, ones)[labels]
        if weights is not None and weights.any() and np.count_nonzero(np.bincount(labels, weights)) < 2:
            raise InvalidInputError(
                f"{type(self).__name__} needs at least 2 classes, but all classes but one have weight 0."
            )
        count = len(self.classes_)
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

    def _class_weights(self, y: Array, labels: Array, weights: Array) -> Array:
        if self.class_weight == "balanced":
            totals = np.bincount(labels, weights)
            return weights.sum() / (totals.size * np.where(totals > 0.0, totals, np.inf))
        return compute_class_weight(self.class_weight, classes=self.classes_, y=y)


@dataclass(eq=False, repr=False, kw_only=True)
class LossClassification(KernelClassification, KernelEstimator):
    """Classifiers with a loss that there is for the scores of all classes together too.

    Parameters
    ----------
    multi_class : {"ovr", "ovo", "joint"}, default "ovr"
        With more than two classes: one problem for each class against the rest; one for each pair, of which
        the votes decide, and of equal votes the sums of the scores; or one problem with the scores of all
        classes, in features that span the functions of all examples, or of `n_basis` random ones.
    """

    _schemes = ("ovr", "ovo", "joint")

    def _joint_loss(self) -> VectorLoss:
        """Return the loss of the scores of all classes."""
        raise NotImplementedError

    def _parts(self, kernel: Kernel, X: Any, y: Array, weights: Array | None, risk: Any = None) -> list[Part]:
        if self.multi_class != "joint" or np.unique(y).size <= 2:
            return super()._parts(kernel, X, y, weights, risk)
        ((labels, _),), weights = self._targets(y, weights)
        count = X.shape[0] if self.n_basis is None else self.n_basis
        basis, features, back = basis_of(kernel, X, count, self.random_state)
        joint = MulticlassRisk(
            features, labels, self._joint_loss(), sample_weight=weights, intercept=bool(self.fit_intercept)
        )
        return [JointPart(joint, basis, back)]


class JointPart(Part):
    """One problem with a function for each class."""

    def problem(self, lam: float) -> Problem:
        """Return the problem with this weight of the sum of the squared norms."""
        weights = np.ones(self.risk.shape)
        if self.risk.intercept:
            weights[:, -1] = 0.0
        return Problem(self.risk, L2(lam, weights=weights.ravel()))

    def coefficients(self, x: Array) -> tuple[Array, Any]:
        """Return those of the examples, one column for each class, and the intercepts."""
        assert self.back is not None
        W = x.reshape(self.risk.shape)
        rank = self.back.shape[1]
        return self.back @ W[:, :rank].T, W[:, rank] if self.risk.intercept else np.zeros(len(W))


def votes(scores: Array, count: int) -> Array:
    """Return the votes of pairs of classes, and less than half a vote for the sum of the scores."""
    votes, sums = np.zeros((2, len(scores), count))
    for k, (i, j) in enumerate(combinations(range(count), 2)):
        won = scores[:, k] > 0.0
        votes[:, j] += won
        votes[:, i] += ~won
        sums[:, j] += scores[:, k]
        sums[:, i] -= scores[:, k]
    return votes + sums / (3.0 * (np.abs(sums) + 1.0))


def coupled(shares: Array, count: int) -> Array:
    """Return the probabilities p of the classes that agree best with those of the pairs.

    With r_ij the probability of i among i and j they minimise sum_{i != j} (r_ji p_i - r_ij p_j)^2: T.-F. Wu,
    C.-J. Lin, R. C. Weng, JMLR 5 (2004), 975-1005.

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

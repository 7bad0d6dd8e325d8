"""Structured outputs by a joint feature, a loss and a decoder of one's own, and sets of labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from cutplane.estimators.base import CertifiedEstimator, as_weights, checked, uninterrupted
from cutplane.estimators.documentation import documented
from cutplane.estimators.formulation import as_choice
from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import Array, as_positive
from cutplane.problem import Problem
from cutplane.regularizers.l2 import L2
from cutplane.risks.base import Risk
from cutplane.structured.multilabel import MultilabelRisk, best_sets
from cutplane.structured.risk import StructuredRisk


@dataclass(eq=False, repr=False)
class Structured(CertifiedEstimator):
    """A structured risk and a square.

    Attributes
    ----------
    results_ : tuple of Result
        The certified result of the problem; `result_` is the only one.
    objective_, lower_bound_ : float
        The objective, and what is certified to be below its optimum.
    """

    def _solve(self, risk: Risk, alpha: Any) -> Array:
        """Keep the result, and return its point."""
        problem = Problem(risk, L2(as_positive("alpha", alpha)))
        options: Any = {"tol": self.tol, "max_iter": self.max_iter, "time_limit": self.time_limit}
        result: Any = uninterrupted(problem.solve(**options, log=bool(self.verbose)))
        self._keep([result])
        return result.x


@documented
@dataclass(eq=False, repr=False)
class StructuredSVM(Structured):
    """A labelling machine learnt with a margin, from three functions, with a certificate.

        minimise  mean_i max_y [loss(y_i, y) + <w, joint_feature(x_i, y) - joint_feature(x_i, y_i)>]
                  + alpha/2 ||w||^2

    See `cutplane.StructuredRisk`; `cutplane.testing.check_structured` finds wrong decoders.

    Parameters
    ----------
    joint_feature : callable
        ``joint_feature(x, y)``, an array, a sparse row, or a pair (indices, values).
    loss : callable
        ``loss(y_true, y)``, a number >= 0.
    loss_augmented_inference : callable
        ``loss_augmented_inference(x, y_true, w)``, a labelling that attains the maximum.
    inference : callable, optional
        ``inference(x, w)``, a labelling of largest score, for predictions.
    alpha : float, default 1e-2
        Weight of the penalty; greater than 0.
    rescaling : {"margin", "slack"}, default "margin"
        Whether the loss is added to the violation, or multiplies it.
    decoder : {"exact", "outer", "inner"}, default "exact"
        What `loss_augmented_inference` does, and so what is proven.
    dim : int, optional
        The number of coordinates of w, needed if joint features are pairs.

    Attributes
    ----------
    coef_ : ndarray of shape (dim,)

    References
    ----------
    I. Tsochantaridis, T. Joachims, T. Hofmann, Y. Altun, "Large margin methods for structured and
    interdependent output variables", JMLR 6, 2005.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.estimators import StructuredSVM
    >>> def scores(x, w):
    ...     return w.reshape(3, 2) @ x
    >>> model = StructuredSVM(
    ...     joint_feature=lambda x, y: (2 * y + np.arange(2), x),
    ...     loss=lambda y_true, y: float(y_true != y),
    ...     loss_augmented_inference=lambda x, y, w: int(np.argmax(scores(x, w) + (np.arange(3) != y))),
    ...     inference=lambda x, w: int(np.argmax(scores(x, w))),
    ...     alpha=0.1, dim=6)
    >>> X, Y = [np.array([1.0, 0.0]), np.array([0.0, 1.0]), np.array([-1.0, -1.0])], [0, 1, 2]
    >>> model.fit(X, Y).predict(X), model.score(X, Y)
    ([0, 1, 2], -0.0)
    """

    joint_feature: Callable[[Any, Any], Any]
    loss: Callable[[Any, Any], float]
    loss_augmented_inference: Callable[[Any, Any, Array], Any]
    inference: Callable[[Any, Array], Any] | None = None
    alpha: float = 1e-2
    _: KW_ONLY
    rescaling: str = "margin"
    decoder: str = "exact"
    dim: int | None = None

    def fit(self, X: Sequence[Any], y: Sequence[Any], sample_weight: Any = None) -> Any:
        """Fit.

        Parameters
        ----------
        X, y : sequence
            The examples, and their true labellings, of any kind that the functions take.
        sample_weight : array_like of shape (n_samples,), optional

        Returns
        -------
        self

        Raises
        ------
        InvalidInputError
            A ``ValueError``; if a parameter or an argument is wrong.
        """
        options: Any = {"rescaling": self.rescaling, "decoder": self.decoder, "dim": self.dim}
        functions = self.joint_feature, self.loss, self.loss_augmented_inference
        risk = StructuredRisk(X, y, *functions, sample_weight=as_weights(sample_weight, len(X)), **options)
        self.coef_ = self._solve(risk, self.alpha)
        return self

    def predict(self, X: Sequence[Any]) -> list[Any]:
        """Return what `inference` finds for each example.

        Parameters
        ----------
        X : sequence

        Returns
        -------
        list
        """
        check_is_fitted(self)
        if not callable(self.inference):
            raise InvalidInputError(f"Predictions need a function inference(x, w), got {self.inference!r}.")
        return [self.inference(x, self.coef_) for x in X]

    def score(self, X: Sequence[Any], y: Sequence[Any], sample_weight: Any = None) -> float:
        """Return minus the mean loss of the predictions.

        Parameters
        ----------
        X, y : sequence
        sample_weight : array_like of shape (n_samples,), optional

        Returns
        -------
        float
        """
        losses = [self.loss(truth, found) for truth, found in zip(y, self.predict(X), strict=True)]
        return -float(np.average(losses, weights=as_weights(sample_weight, len(losses))))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.sparse, tags.no_validation = False, False, True
        tags.target_tags.required = True
        return tags


@documented
@dataclass(eq=False, repr=False)
class MultilabelSVM(ClassifierMixin, Structured):
    """Sets of labels, learnt with a margin for the whole set, with a certificate.

        minimise  mean_i max_s [D(y_i, s) + F_w(x_i, s) - F_w(x_i, y_i)] + alpha/2 ||w||^2

    where F_w(x, s) adds up a linear score for each label of the set s, and a weight for each pair of its
    labels, and D counts wrong labels; see `cutplane.structured.MultilabelRisk`.

    Parameters
    ----------
    alpha : float, default 1e-2
        Weight of the penalty, which the intercepts share; greater than 0.
    pairs : "all", or array_like of int, shape (n_pairs, 2), default "all"
        The pairs of labels that have a weight.
    loss : {"hamming", "share"}, default "hamming"
        How many labels of an example are wrong, or what share of them.
    decoder : {"exact", "outer", "inner"}, default "exact"
        What is done where pairs form cycles: with more than 16 labels, "outer" relaxes.

    Attributes
    ----------
    coef_ : ndarray of shape (n_labels, n_features)
    intercept_ : ndarray of shape (n_labels,)
    pairs_ : ndarray of shape (n_pairs, 2)
    pair_coef_ : ndarray of shape (n_pairs,)
        The weight of each pair of labels.

    References
    ----------
    T. Finley, T. Joachims, "Training structural SVMs when exact inference is intractable", ICML 2008.

    Examples
    --------
    >>> from cutplane.estimators import MultilabelSVM
    >>> X, Y = [[1.0], [-1.0], [0.2], [-0.3]], [[1, 0], [0, 1], [1, 0], [0, 1]]
    >>> model = MultilabelSVM(alpha=0.1).fit(X, Y)
    >>> model.predict(X).tolist(), model.coef_.shape, model.pair_coef_.shape
    ([[1, 0], [0, 1], [1, 0], [0, 1]], (2, 1), (1,))
    """

    alpha: float = 1e-2
    _: KW_ONLY
    pairs: Any = "all"
    loss: str = "hamming"
    decoder: str = "exact"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_samples, n_features)
        y : array_like of shape (n_samples, n_labels)
            Zeros and ones, or booleans.
        sample_weight : array_like of shape (n_samples,), optional

        Returns
        -------
        self

        Raises
        ------
        InvalidInputError
            A ``ValueError``; if a parameter or an argument is wrong.
        """
        X, y = checked(self, X, y, **self._formats, multi_output=True)
        self._note_units(X)
        loss: Any = as_choice("loss", self.loss, ("hamming", "share"))
        decoder: Any = as_choice("decoder", self.decoder, ("exact", "outer", "inner"))
        weights = as_weights(sample_weight, len(y))
        risk = MultilabelRisk(X, y, self.pairs, loss, decoder, True, weights)
        w = self._solve(risk, self.alpha)
        L, n = risk.shape
        self.coef_, self.intercept_ = np.split(w[: L * n].reshape(L, n), [n - 1], axis=1)
        self.intercept_ = self.intercept_[:, 0]
        self.pairs_, self.pair_coef_ = risk.pairs, w[L * n :]
        return self

    def predict(self, X: Any) -> Array:
        """Return the best sets.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of int, shape (n_samples, n_labels)
        """
        X, decoder = self._examples(X), self.decoder
        w = np.append(np.column_stack([self.coef_, self.intercept_]), self.pair_coef_)
        return best_sets(w, X, self.pairs_, "inner" if decoder == "inner" else "exact")

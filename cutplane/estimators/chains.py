"""Labels of sequences by linear chains: max-margin, and conditional random fields."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from cutplane.estimators.base import CertifiedEstimator, CrossValidated, ascending, uninterrupted
from cutplane.estimators.documentation import documented
from cutplane.estimators.formulation import as_choice
from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import Array, as_positive
from cutplane.problem import Problem
from cutplane.regularizers.l2 import L2
from cutplane.risks.base import Risk
from cutplane.structured.chain import ChainRisk
from cutplane.structured.likelihood import ChainLogLikelihood
from cutplane.structured.predictions import decode, marginals
from cutplane.structured.sequences import stack

_ALPHAS = np.logspace(0, -4, 5)[::-1]


@dataclass(eq=False, repr=False)
class Chains(ClassifierMixin, CertifiedEstimator):
    """Linear chains: a weight for each class and feature, and for each pair of neighbouring classes.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (n_classes, n_features)
        The emission weights.
    transitions_ : ndarray of shape (n_classes, n_classes)
        The weight of a class, the row, being followed by another.
    results_ : tuple of Result
        The certified result of the problem; `result_` is the only one.
    objective_, lower_bound_ : float
        The objective, and what is certified to be below its optimum.
    """

    def _declare(self, X: Any, y: Any, sample_weight: Any = None) -> list[Problem]:
        """Return the only problem."""
        y = _listed("y", y)
        _check_labels(y)
        rows, classes, lengths = stack(_listed("X", X), y)
        self.classes_, labels = np.unique(classes, return_inverse=True)
        self.n_features_in_ = rows.shape[1]
        self._note_units(rows)
        return [Problem(self._risk(rows, labels, lengths, sample_weight), L2(self._first_alpha()))]

    def _store(self, results: Sequence[Any]) -> None:
        (result,) = results
        size = len(self.classes_) * self.n_features_in_
        self.coef_ = result.x[:size].reshape(len(self.classes_), -1)
        self.transitions_ = result.x[size:].reshape(len(self.classes_), -1)
        self._keep(results)

    @property
    def _options(self) -> dict[str, Any]:
        limits = {"tol": self.tol, "max_iter": self.max_iter, "time_limit": self.time_limit}
        return {**limits, "log": bool(self.verbose)}

    def _first_alpha(self) -> float:
        """Return the weight of the penalty, the first if there are several."""
        raise NotImplementedError

    def predict(self, X: Any) -> list[Array]:
        """Return the classes of the positions, those with the largest score of each sequence together.

        Parameters
        ----------
        X : sequence of ndarray or sparse matrix of shape (length, n_features)

        Returns
        -------
        list of ndarray of shape (length,)
        """
        none = np.empty(0, dtype=np.int64)
        return [self.classes_[labels] for labels in self._of_each(decode, X, none)]

    def _of_each(self, routine: Any, X: Any, empty: Array) -> list[Array]:
        """Return what a routine finds for each sequence, and `empty` for sequences without positions."""
        w, X = self._weights_and_sequences(X)
        full = [part for part in X if np.shape(part)[0]]
        found = iter(routine(w, full) if full else ())
        return [next(found) if np.shape(part)[0] else empty for part in X]

    def _weights_and_sequences(self, X: Any) -> tuple[Array, Sequence[Any]]:
        check_is_fitted(self)
        X = _listed("X", X)
        widths = {np.shape(part)[-1] for part in X}
        if widths - {self.n_features_in_}:
            raise InvalidInputError(
                f"The sequences of X have {sorted(widths)} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        return np.append(self.coef_, self.transitions_), X

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of positions whose class is predicted, of all sequences together.

        Parameters
        ----------
        X : sequence of ndarray or sparse matrix of shape (length, n_features)
        y : sequence of array_like of shape (length,)
        sample_weight : array_like of shape (n_sequences,), optional
            Weights of the sequences.

        Returns
        -------
        float
        """
        right = [np.asarray(a) == np.asarray(b) for a, b in zip(self.predict(X), y, strict=True)]
        weights = np.ones(len(right)) if sample_weight is None else np.asarray(sample_weight)
        hits, sizes = np.array([(each.sum(), each.size) for each in right]).T
        return float(weights @ hits / (weights @ sizes))

    def _risk(self, X: Any, y: Array, lengths: Array, sample_weight: Any) -> Risk:
        """Return the risk that is minimised."""
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.sparse, tags.no_validation = False, False, True
        return tags


@dataclass(eq=False, repr=False)
class OneWeight(Chains):
    """Chains with a given weight of the penalty.

    Parameters
    ----------
    alpha : float, default 1e-2
        Weight of the penalty; greater than 0.
    """

    alpha: float = 1e-2

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit.

        Parameters
        ----------
        X : sequence of ndarray or sparse matrix of shape (length, n_features)
            One for each sequence.
        y : sequence of array_like of shape (length,)
            The classes of the positions, of any kind.
        sample_weight : array_like of shape (n_sequences,), optional
            Weights of the sequences.

        Returns
        -------
        self

        Raises
        ------
        InvalidInputError
            A ``ValueError``; if a parameter or an argument is wrong.
        """
        (problem,) = self._declare(X, y, sample_weight)
        self._store([uninterrupted(problem.solve(**self._options))])
        return self

    def _first_alpha(self) -> float:
        return as_positive("alpha", self.alpha)


@dataclass(eq=False, repr=False)
class ChosenWeight(Chains, CrossValidated):
    """Chains whose weight of the penalty is chosen by cross-validation, from the largest to the smallest.

    Parameters
    ----------
    alphas : array_like, optional
        Weights of the penalty, each greater than 0; by default 5 from 1 to 1e-4.
    cv : int, cross-validation generator or iterable, optional
        As in scikit-learn, over the sequences; by default 5 folds in their order. For random ones pass
        ``KFold(5, shuffle=True, random_state=0)``.
    scoring : callable, optional
        By default the share of positions whose class is predicted.

    Attributes
    ----------
    alpha_ : float
        The weight with the best mean score; of equals, the largest.
    alphas_ : ndarray of shape (n_alphas,)
        The weights in the order of the path, descending.
    scores_ : ndarray of shape (n_alphas, n_folds)
    """

    alphas: Any = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Choose `alpha_` by cross-validation and fit with it on all sequences.

        Parameters
        ----------
        X : sequence of ndarray or sparse matrix of shape (length, n_features)
            One for each sequence.
        y : sequence of array_like of shape (length,)
            The classes of the positions, of any kind.
        sample_weight : array_like of shape (n_sequences,), optional
            Weights of the sequences; also passed to the scorer.

        Returns
        -------
        self

        Raises
        ------
        InvalidInputError
            A ``ValueError``; if a parameter or an argument is wrong.
        """
        self._set_weights()
        (problem,) = self._declare(X, y, sample_weight)
        best = self._best(_listed("X", X), [np.asarray(part) for part in y], sample_weight)
        self.alpha_ = float(self.alphas_[best])
        self._store([deque(self._follow(problem, self.alphas_[: best + 1]), 1)[0]])
        return self

    def _set_weights(self) -> None:
        self.alphas_ = ascending("alphas", self.alphas, _ALPHAS)[::-1]

    def _first_alpha(self) -> float:
        return float(self.alphas_[0])

    def _follow(self, problem: Problem, alphas: Array | None = None) -> Iterator[Any]:
        """Yield the results along the path, each from the labellings or the point of the last."""
        result: Any = None
        for alpha in self.alphas_ if alphas is None else alphas:
            result = uninterrupted(problem.path([alpha], warm_start=result, **self._options)[0])
            yield result


def _listed(name: str, value: Any) -> Sequence[Any]:
    """Return sequences as a list; a single matrix is refused, for its rows are no sequences."""
    kind = type(value).__name__
    if isinstance(value, np.ndarray) and value.dtype == object:
        return value.tolist()
    if not isinstance(value, list | tuple):
        raise InvalidInputError(
            f"{name} must be a list with one entry for each sequence, got {kind}; pass [{name}] for one."
        )
    return list(value)


def _check_labels(y: Sequence[Any]) -> None:
    """Refuse missing labels, and strings beside numbers, which numpy would make strings of."""
    kinds = set()
    for i, part in enumerate(y):
        if not np.iterable(part):
            raise InvalidInputError(f"y[{i}] must hold a label for each row of X[{i}], got {part!r}.")
        for label in part[:1] if isinstance(part, np.ndarray) and part.dtype != object else part:
            if label is None or label != label:
                raise InvalidInputError(f"y[{i}] holds {label}; every position needs a label.")
            kinds.add(isinstance(label, str))
    if len(kinds) > 1:
        raise InvalidInputError("y holds strings beside other labels; make all of them strings or numbers.")


@dataclass(eq=False, repr=False)
class Margins(Chains):
    """Chains learnt with a margin.

    Parameters
    ----------
    loss : {"hamming", "share"}, default "hamming"
        How many labels of a sequence are wrong, or what share of them.
    """

    _: KW_ONLY
    loss: str = "hamming"

    def _risk(self, X: Any, y: Array, lengths: Array, sample_weight: Any) -> Risk:
        loss = as_choice("loss", self.loss, ("hamming", "share"))
        return ChainRisk(X, y, lengths, loss, len(self.classes_), sample_weight)


class Probabilities(Chains):
    """Chains learnt by their likelihood."""

    def predict_proba(self, X: Any) -> list[Array]:
        """Return the probabilities of the classes at the positions, given the whole sequence.

        Parameters
        ----------
        X : sequence of ndarray or sparse matrix of shape (length, n_features)

        Returns
        -------
        list of ndarray of shape (length, n_classes)
        """
        return self._of_each(marginals, X, np.empty((0, len(self.classes_))))

    def _risk(self, X: Any, y: Array, lengths: Array, sample_weight: Any) -> Risk:
        return ChainLogLikelihood(X, y, lengths, len(self.classes_), sample_weight)


@documented
@dataclass(eq=False, repr=False)
class ChainSSVM(Margins, OneWeight):
    """Max-margin linear chains, with a certificate.

        minimise  mean_i max_s [D(y_i, s) + F_w(x_i, s) - F_w(x_i, y_i)] + alpha/2 ||w||^2

    where F_w(x, s) adds up the weights of emissions and transitions, and D counts wrong labels; see
    `cutplane.structured.ChainRisk`.

    References
    ----------
    B. Taskar, C. Guestrin, D. Koller, "Max-margin Markov networks", NIPS 2003.

    Examples
    --------
    >>> from cutplane.estimators import ChainSSVM
    >>> X = [[[0.0], [1.0], [1.0]], [[1.0], [0.0]]]
    >>> model = ChainSSVM(alpha=0.1).fit(X, [["a", "b", "b"], ["b", "a"]])
    >>> [labels.tolist() for labels in model.predict(X)]
    [['a', 'b', 'b'], ['b', 'a']]
    """


@documented
@dataclass(eq=False, repr=False)
class ChainSSVMCV(Margins, ChosenWeight):
    """A `ChainSSVM` whose `alpha` is chosen by cross-validation.

    In each fold the problems are solved from the largest weight to the smallest, and all cuts and labellings
    are kept from one to the next. The final fit follows the same path as far as the weight that was chosen.

    Examples
    --------
    >>> from cutplane.estimators import ChainSSVMCV
    >>> X, y = [[[0.0], [1.0], [1.0]], [[1.0], [0.0]]] * 4, [["a", "b", "b"], ["b", "a"]] * 4
    >>> model = ChainSSVMCV(alphas=[0.1, 1.0], cv=2).fit(X, y)
    >>> model.alpha_, model.scores_.shape, model.score(X, y)
    (1.0, (2, 2), 1.0)
    """


@documented
@dataclass(eq=False, repr=False)
class ChainCRF(Probabilities, OneWeight):
    """Conditional random fields on linear chains, with a certificate.

        minimise  mean_i [log sum_s exp F_w(x_i, s) - F_w(x_i, y_i)] + alpha/2 ||w||^2

    where F_w(x, s) adds up the weights of emissions and transitions; see
    `cutplane.structured.ChainLogLikelihood`.

    References
    ----------
    J. Lafferty, A. McCallum, F. Pereira, "Conditional random fields", ICML 2001.

    Examples
    --------
    >>> from cutplane.estimators import ChainCRF
    >>> X = [[[0.0], [1.0], [1.0]], [[1.0], [0.0]]]
    >>> model = ChainCRF(alpha=0.1).fit(X, [["a", "b", "b"], ["b", "a"]])
    >>> [labels.tolist() for labels in model.predict(X)]
    [['a', 'b', 'b'], ['b', 'a']]
    """


@documented
@dataclass(eq=False, repr=False)
class ChainCRFCV(Probabilities, ChosenWeight):
    """A `ChainCRF` whose `alpha` is chosen by cross-validation.

    In each fold the problems are solved from the largest weight to the smallest, each from the solution of
    the last. The final fit follows the same path as far as the weight that was chosen.

    Examples
    --------
    >>> from cutplane.estimators import ChainCRFCV
    >>> X, y = [[[0.0], [1.0], [1.0]], [[1.0], [0.0]]] * 4, [["a", "b", "b"], ["b", "a"]] * 4
    >>> model = ChainCRFCV(alphas=[0.1, 1.0], cv=2).fit(X, y)
    >>> model.scores_.shape, model.score(X, y)
    ((2, 2), 1.0)
    """

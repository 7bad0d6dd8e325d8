"""Structured outputs: labels of sequences, sets of labels, and outputs given by three functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from cutplane.estimators.base import Weighted, as_weights, checked, estimator, uninterrupted
from cutplane.estimators.cross_validation import CrossValidated, first_of
from cutplane.estimators.formulation import as_choice
from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import Array, as_positive
from cutplane.problem import Problem
from cutplane.regularizers.separable import L2
from cutplane.risks.base import Risk
from cutplane.structured.chain import ChainLogLikelihood, ChainRisk, decode, marginals
from cutplane.structured.multilabel import MultilabelRisk, best_sets
from cutplane.structured.risk import StructuredRisk
from cutplane.structured.sequences import stack


@estimator
class Structured(Weighted):
    """An estimator that minimises a structured risk plus alpha/2 ||w||^2.

    Parameters
    ----------
    alpha : float, default 1e-2
        Weight of the penalty; greater than 0.
    """

    alpha = 1e-2

    def _declare(self, X: Any, y: Any, sample_weight: Any = None) -> list[Problem]:
        return [Problem(self._risk(X, y, sample_weight), L2(as_positive("alpha", self.alpha)))]

    def _risk(self, X: Any, y: Any, sample_weight: Any) -> Risk:
        """Check the data and return the risk that is minimised."""
        raise NotImplementedError

    def _store(self, results: Sequence[Any]) -> None:
        self._keep(results)
        self._set_solution(results[0].x)

    def _set_solution(self, w: Array) -> None:
        """Set the attributes of the weights."""
        raise NotImplementedError


class Unvalidated(Structured):
    """A structured estimator whose examples are not the rows of a matrix."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.sparse, tags.no_validation = False, False, True
        tags.target_tags.required = True
        return tags


@estimator
class Chains(ClassifierMixin, Unvalidated):
    """A linear chain with weights of each class and feature, and of each pair of neighbouring classes.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (n_classes, n_features)
        The emission weights.
    transitions_ : ndarray of shape (n_classes, n_classes)
        The weight of a class (row) followed by another class (column).
    """

    alpha: float = 1e-2

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit.

        Parameters
        ----------
        X : sequence of ndarray or sparse matrix of shape (length, n_features)
            One matrix for each sequence.
        y : sequence of array_like of shape (length,)
            The classes of the positions, of any type.
        sample_weight : array_like of shape (n_sequences,), optional
            Weights of the sequences, in cross-validation also for the scores.
        """
        self._store(self._fitted(X, y, sample_weight))
        return self

    def _risk(self, X: Any, y: Any, sample_weight: Any) -> Risk:
        y = _listed("y", y)
        _check_labels(y)
        rows, classes, lengths = stack(_listed("X", X), y)
        self.classes_, labels = np.unique(classes, return_inverse=True)
        self.n_features_in_ = rows.shape[1]
        self._note_units(rows)
        return self._chain_risk(rows, labels, lengths, sample_weight)

    def _chain_risk(self, X: Any, y: Array, lengths: Array, sample_weight: Any) -> Risk:
        """Return the risk of the rows of all sequences, one after the other."""
        raise NotImplementedError

    def _set_solution(self, w: Array) -> None:
        size = len(self.classes_) * self.n_features_in_
        self.coef_ = w[:size].reshape(len(self.classes_), -1)
        self.transitions_ = w[size:].reshape(len(self.classes_), -1)

    def predict(self, X: Any) -> list[Array]:
        """Return the labelling with the largest total score for each sequence.

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
        """Apply a routine to all nonempty sequences; the value of empty sequences is `empty`."""
        check_is_fitted(self)
        X = _listed("X", X)
        widths = {np.shape(part)[-1] for part in X}
        if widths - {self.n_features_in_}:
            raise InvalidInputError(
                f"The sequences of X have {sorted(widths)} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        w, full = np.append(self.coef_, self.transitions_), [part for part in X if np.shape(part)[0]]
        found = iter(routine(w, full) if full else ())
        return [next(found) if np.shape(part)[0] else empty for part in X]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the fraction of correct classes over the positions of all sequences.

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


@estimator
class CrossValidatedChains(CrossValidated, Chains):
    """A linear chain that chooses the weight of the penalty by cross-validation.

    In each fold the problems are solved from the largest weight to the smallest. Each starts from the cuts
    and labellings, or from the solution, of the previous one. The final fit follows the same path to the
    chosen weight.

    Parameters
    ----------
    alphas : array_like, optional
        Weights of the penalty, each greater than 0; by default 5 from 1 to 1e-4.
    cv : int, cross-validation generator or iterable, optional
        As in scikit-learn, with folds of sequences; by default 5 folds of consecutive sequences. For random
        folds pass ``KFold(5, shuffle=True, random_state=0)``.
    scoring : callable, optional
        By default the fraction of correct classes.

    Attributes
    ----------
    alpha_ : float
        The weight with the best mean score; the largest one if there are ties.
    alphas_ : ndarray of shape (n_alphas,)
        The weights in the order of the path, descending.
    scores_ : ndarray of shape (n_alphas, n_folds)
    """

    alphas: Any = None
    alpha: ClassVar[Any] = first_of("alphas_")
    _default = np.logspace(-4, 0, 5)

    def _best(self, X: Any, y: Any, sample_weight: Any) -> int:
        return super()._best(_listed("X", X), [np.asarray(part) for part in y], sample_weight)

    def _follow(self, problem: Problem, values: Array, last: bool = False) -> Iterator[Any]:
        """Yield the results along the path, each started from the last labellings or the last point."""
        result: Any = None
        for alpha in values:
            result = uninterrupted(problem.path([alpha], warm_start=result, **self._limits)[0])
            yield result


def _listed(name: str, value: Any) -> Sequence[Any]:
    """Return sequences as a list; refuse a single matrix, because its rows are not sequences."""
    kind = type(value).__name__
    if isinstance(value, np.ndarray) and value.dtype == object:
        return value.tolist()
    if not isinstance(value, list | tuple):
        raise InvalidInputError(
            f"{name} must be a list with one entry per sequence, got {kind}; pass [{name}] for one sequence."
        )
    return list(value)


def _check_labels(y: Sequence[Any]) -> None:
    """Refuse missing labels, and strings among numbers, because numpy converts numbers to strings."""
    kinds = set()
    for i, part in enumerate(y):
        if not np.iterable(part):
            raise InvalidInputError(f"y[{i}] must contain a label for each row of X[{i}], got {part!r}.")
        for label in part[:1] if isinstance(part, np.ndarray) and part.dtype != object else part:
            if label is None or label != label:
                raise InvalidInputError(f"y[{i}] contains {label}; every position needs a label.")
            kinds.add(isinstance(label, str))
    if len(kinds) > 1:
        raise InvalidInputError("y contains strings and other labels; use only strings or only numbers.")


@estimator
class ChainSSVM(Chains):
    """Max-margin linear chains, with a certificate.

        minimise  mean_i max_s [D(y_i, s) + F_w(x_i, s) - F_w(x_i, y_i)] + alpha/2 ||w||^2

    where F_w(x, s) is the sum of the weights of emissions and transitions, and D counts wrong labels; see
    `cutplane.structured.ChainRisk`.

    Parameters
    ----------
    loss : {"hamming", "share"}, default "hamming"
        The number ("hamming") or the fraction ("share") of wrong labels of a sequence.

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

    _: KW_ONLY
    loss: str = "hamming"

    def _chain_risk(self, X: Any, y: Array, lengths: Array, sample_weight: Any) -> Risk:
        loss = as_choice("loss", self.loss, ("hamming", "share"))
        return ChainRisk(X, y, lengths, loss, len(self.classes_), sample_weight)


@estimator
class ChainCRF(Chains):
    """Conditional random fields on linear chains, with a certificate.

        minimise  mean_i [log sum_s exp F_w(x_i, s) - F_w(x_i, y_i)] + alpha/2 ||w||^2

    where F_w(x, s) is the sum of the weights of emissions and transitions; see
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

    def predict_proba(self, X: Any) -> list[Array]:
        """Return the probabilities of the classes at each position, given the whole sequence.

        Parameters
        ----------
        X : sequence of ndarray or sparse matrix of shape (length, n_features)

        Returns
        -------
        list of ndarray of shape (length, n_classes)
        """
        return self._of_each(marginals, X, np.empty((0, len(self.classes_))))

    def _chain_risk(self, X: Any, y: Array, lengths: Array, sample_weight: Any) -> Risk:
        return ChainLogLikelihood(X, y, lengths, len(self.classes_), sample_weight)


@estimator
class ChainSSVMCV(CrossValidatedChains, ChainSSVM):
    """A `ChainSSVM` whose `alpha` is chosen by cross-validation.

    Examples
    --------
    >>> from cutplane.estimators import ChainSSVMCV
    >>> X, y = [[[0.0], [1.0], [1.0]], [[1.0], [0.0]]] * 4, [["a", "b", "b"], ["b", "a"]] * 4
    >>> model = ChainSSVMCV(alphas=[0.1, 1.0], cv=2).fit(X, y)
    >>> model.alpha_, model.scores_.shape, model.score(X, y)
    (1.0, (2, 2), 1.0)
    """


@estimator
class ChainCRFCV(CrossValidatedChains, ChainCRF):
    """A `ChainCRF` whose `alpha` is chosen by cross-validation.

    Examples
    --------
    >>> from cutplane.estimators import ChainCRFCV
    >>> X, y = [[[0.0], [1.0], [1.0]], [[1.0], [0.0]]] * 4, [["a", "b", "b"], ["b", "a"]] * 4
    >>> model = ChainCRFCV(alphas=[0.1, 1.0], cv=2).fit(X, y)
    >>> model.scores_.shape, model.score(X, y)
    ((2, 2), 1.0)
    """


@estimator
class StructuredSVM(Unvalidated):
    """A structured support vector machine, defined by three functions, with a certificate.

        minimise  mean_i max_y [loss(y_i, y) + <w, joint_feature(x_i, y) - joint_feature(x_i, y_i)>]
                  + alpha/2 ||w||^2

    See `cutplane.StructuredRisk`. `cutplane.testing.check_structured` detects wrong decoders.

    Parameters
    ----------
    joint_feature : callable
        ``joint_feature(x, y)`` returns an array, a sparse row, or a pair (indices, values).
    loss : callable
        ``loss(y_true, y)`` returns a number >= 0.
    loss_augmented_inference : callable
        ``loss_augmented_inference(x, y_true, w)`` returns a labelling that attains the maximum.
    inference : callable, optional
        ``inference(x, w)`` returns a labelling of largest score, for predictions.
    rescaling : {"margin", "slack"}, default "margin"
        Whether the loss is added to the violation ("margin") or multiplies it ("slack").
    decoder : {"exact", "outer", "inner", "bounded"}, default "exact"
        The kind of `loss_augmented_inference`, because the proof depends on it; see `StructuredRisk`.
    dim : int, optional
        The number of coordinates of w; required if joint features are pairs.

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
        X : sequence
            The examples, of any type that the functions accept.
        y : sequence
            The true labellings, of any type that the functions accept.
        """
        self._store(self._fitted(X, y, sample_weight))
        return self

    def _risk(self, X: Any, y: Any, sample_weight: Any) -> Risk:
        options: Any = {"rescaling": self.rescaling, "decoder": self.decoder, "dim": self.dim}
        functions = self.joint_feature, self.loss, self.loss_augmented_inference
        return StructuredRisk(X, y, *functions, sample_weight=as_weights(sample_weight, len(X)), **options)

    def _set_solution(self, w: Array) -> None:
        self.coef_ = w

    def predict(self, X: Sequence[Any]) -> list[Any]:
        """Return the labelling of `inference` for each example.

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
        """Return the negative mean loss of the predictions.

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


@estimator
class MultilabelSVM(ClassifierMixin, Structured):
    """Max-margin multi-label classification with weights of pairs of labels, and a certificate.

        minimise  mean_i max_s [D(y_i, s) + F_w(x_i, s) - F_w(x_i, y_i)] + alpha/2 ||w||^2

    where F_w(x, s) is the sum of a linear score for each label of the set s and a weight for each pair of its
    labels, and D counts wrong labels; see `cutplane.structured.MultilabelRisk`.

    Parameters
    ----------
    alpha : float, default 1e-2
        Weight of the penalty, which includes the intercepts; greater than 0.
    pairs : "all", or array_like of int, shape (n_pairs, 2), default "all"
        The pairs of labels that have a weight.
    loss : {"hamming", "share"}, default "hamming"
        The number ("hamming") or the fraction ("share") of wrong labels of an example.
    decoder : {"exact", "outer", "inner"}, default "exact"
        The decoder if the pairs contain cycles; for more than 16 labels "outer" may be faster.

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
        y : array_like of shape (n_samples, n_labels)
            Zeros and ones, or booleans.
        """
        self._store(self._fitted(X, y, sample_weight))
        return self

    def _risk(self, X: Any, y: Any, sample_weight: Any) -> Risk:
        X, y = checked(self, X, y, **self._formats, multi_output=True)
        self._note_units(X)
        loss: Any = as_choice("loss", self.loss, ("hamming", "share"))
        decoder: Any = as_choice("decoder", self.decoder, ("exact", "outer", "inner"))
        weights = as_weights(sample_weight, len(y))
        risk = MultilabelRisk(X, y, self.pairs, loss, decoder, True, weights)
        self.pairs_ = risk.pairs
        return risk

    def _set_solution(self, w: Array) -> None:
        rows, self.pair_coef_ = np.split(w, [w.size - len(self.pairs_)])
        rows = rows.reshape(-1, self.n_features_in_ + 1)
        self.coef_, self.intercept_ = rows[:, :-1], rows[:, -1]

    def predict(self, X: Any) -> Array:
        """Return the sets of labels with the largest scores.

        Returns
        -------
        ndarray of int, shape (n_samples, n_labels)
        """
        X, decoder = self._examples(X), self.decoder
        w = np.append(np.column_stack([self.coef_, self.intercept_]), self.pair_coef_)
        return best_sets(w, X, self.pairs_, "inner" if decoder == "inner" else "exact")

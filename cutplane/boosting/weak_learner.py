"""Weak learners: the interface between boosting and hypotheses, with adapters for functions and classifiers.

A weak learner is bound to the examples once. For each distribution d of weights on the examples, it then
returns a hypothesis h with a large edge

    sum_i d_i y_i h(x_i),   h(x) in [-1, 1].
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError, OracleError
from cutplane.pieces.validation import Array, as_signs
from cutplane.runtime.extras import require_extra

TIE = 1e-12
"""Difference at which edges count as equal, because their rounding errors are as large."""
_ROUNDING = 1e-9
"""Excess of a value over 1 that is accepted, because hypotheses are sums of rounded numbers."""


class Hypothesis(Protocol):
    """A function of examples with values in [-1, 1]: sign and size are the class and the confidence."""

    def predict(self, X: Any) -> Array:
        """Return the value at each row of X, shape (n,); zero is an abstention."""
        ...


class EdgeOracle(Protocol):
    """A weak learner bound to its examples."""

    @property
    def exact(self) -> bool:
        """Whether `best` always returns a hypothesis with the largest edge.

        If True, bounds of the soft margin are valid for all hypotheses, and a run may end as OPTIMAL. If
        False, they are valid only for the hypotheses found so far, and a run ends as TARGET.
        """
        ...

    def best(self, d: Array) -> tuple[Hypothesis, Array]:
        """Return a hypothesis with a large edge, and its margins y_i h(x_i).

        Parameters
        ----------
        d : ndarray of shape (m,)
            Nonnegative, of sum 1.
        """
        ...


@runtime_checkable
class WeakLearner(Protocol):
    """An object that can be bound to examples."""

    def bind(self, X: Any, y: Array) -> EdgeOracle:
        """Return the edge oracle on these examples.

        Parameters
        ----------
        X : any
            The data as the user gave it, one row per example.
        y : ndarray of shape (m,)
            Labels -1.0 and +1.0.
        """
        ...


def as_weak_learner(learner: Any) -> WeakLearner:
    """Convert an object with `bind`, a classifier, or a function to a weak learner.

    Examples
    --------
    A function that chooses the better one of two experts:

    >>> import numpy as np
    >>> from cutplane.boosting.hypothesis_matrix import Column
    >>> def better_expert(X, y, d):
    ...     return Column(int(np.argmax((d * y) @ X)))
    >>> oracle = as_weak_learner(better_expert).bind(np.array([[1.0, -0.5], [1.0, 0.5]]), np.array([-1.0, 1]))
    >>> hypothesis, margins = oracle.best(np.array([0.5, 0.5]))
    >>> hypothesis, margins.tolist(), oracle.exact
    (Column(j=1, sign=1), [0.5, 0.5], False)
    """
    if isinstance(learner, type):
        raise InvalidInputError(
            f"weak_learner is the class {learner.__name__}; pass an object, such as {learner.__name__}()."
        )
    if isinstance(learner, WeakLearner):
        return learner
    if hasattr(learner, "fit") and hasattr(learner, "predict"):
        return SklearnLearner(learner)
    if callable(learner):
        return FunctionLearner(learner)
    raise InvalidInputError(
        f"weak_learner is {learner!r}, but must be an object with bind(X, y), a classifier with fit(X, y, "
        "sample_weight) and predict(X), or a function (X, y, d) -> hypothesis; for example DecisionStumps()."
    )


@dataclass(frozen=True)
class FunctionLearner:
    """A weak learner given by a function (X, y, d) -> hypothesis."""

    function: Callable[..., Any]
    exact: bool = False

    def bind(self, X: Any, y: Array) -> EdgeOracle:
        """Return the oracle of edges on these examples."""
        return _BoundFunction(self.function, self.exact, X, y)


@dataclass(frozen=True, eq=False)
class _BoundFunction:
    function: Callable[..., Any]
    exact: bool
    X: Any
    y: Array

    def best(self, d: Array) -> tuple[Hypothesis, Array]:
        hypothesis = self.function(self.X, self.y, d)
        if not hasattr(hypothesis, "predict"):
            raise OracleError(
                f"{self.function!r} must return a hypothesis, an object with predict(X), got {hypothesis!r}."
            )
        return hypothesis, margins_of(hypothesis, self.X, self.y)


@dataclass(frozen=True)
class SklearnLearner:
    """A classifier that is fitted for each distribution of weights on the examples.

    A clone of the classifier is fitted to the labels -1 and +1 with ``sample_weight = m * d``, whose mean is
    1. `exact` is False, because a classifier need not maximise the edge.

    Parameters
    ----------
    estimator : classifier of scikit-learn, or object like one
        An object with ``fit(X, y, sample_weight=...)`` and ``predict(X)``, which is not changed. In the
        clone, each parameter ``random_state``, also of nested estimators, is set to a number computed from
        its value (0 if None) and d, so that the same d gives the same hypothesis. A generator is not
        replaced.
    confidence_rated : bool, default False
        Whether h(x) is 2 p(x) - 1 with p(x) = ``predict_proba``, the probability of +1, instead of the
        predicted class.

    Raises
    ------
    InvalidInputError
        If ``fit`` has no ``sample_weight``, or the estimator lacks ``predict`` or, with `confidence_rated`,
        ``predict_proba``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from cutplane.boosting import SklearnLearner
    >>> X, y = np.array([[1.0], [2.0], [4.0]]), np.array([-1.0, 1.0, 1.0])
    >>> oracle = SklearnLearner(DecisionTreeClassifier(max_depth=2)).bind(X, y)
    >>> hypothesis, margins = oracle.best(np.array([0.5, 0.25, 0.25]))
    >>> margins.tolist(), hypothesis.predict(np.array([[0.0], [9.0]])).tolist()
    ([1.0, 1.0, 1.0], [-1.0, 1.0])
    """

    estimator: Any
    confidence_rated: bool = False

    def __post_init__(self) -> None:
        name = type(self.estimator).__name__
        validation = require_extra("sklearn.utils.validation", "sklearn")
        if not hasattr(self.estimator, "predict"):
            raise InvalidInputError(f"{name} has no predict(X); pass a classifier.")
        if not validation.has_fit_parameter(self.estimator, "sample_weight"):
            raise InvalidInputError(
                f"{name}.fit has no sample_weight; pass a classifier that supports weights of examples, or a "
                "function (X, y, d) -> hypothesis."
            )
        if self.confidence_rated and not hasattr(self.estimator, "predict_proba"):
            raise InvalidInputError(f"{name} has no predict_proba(X); set confidence_rated=False.")

    def bind(self, X: Any, y: Array) -> EdgeOracle:
        """Return the edge oracle for data X that the classifier accepts, one row per example."""
        return _BoundFunction(self._fitted, False, X, as_signs(type(self).__name__, y))

    def _fitted(self, X: Any, y: Array, d: Array) -> FittedClassifier:
        from sklearn.base import clone

        estimator: Any = clone(self.estimator, safe=False)
        _set_random_states(estimator, zlib.crc32(d.tobytes()))
        estimator.fit(X, y.astype(np.int64), sample_weight=d.size * d)
        return FittedClassifier(estimator, self.confidence_rated)


@dataclass(frozen=True, eq=False)
class FittedClassifier:
    """The classes that a fitted classifier predicts, -1.0 and +1.0, or its confidence in +1."""

    estimator: Any
    confidence_rated: bool = False

    def predict(self, X: Any) -> Array:
        """Return a number in [-1, 1] for each row of X, shape (n,)."""
        if not self.confidence_rated:
            return np.asarray(self.estimator.predict(X), dtype=np.float64)
        probabilities = np.asarray(self.estimator.predict_proba(X), dtype=np.float64)
        positive = np.asarray(self.estimator.classes_) > 0
        return 2.0 * probabilities[:, positive].sum(axis=1) - 1.0


def _set_random_states(estimator: Any, salt: int) -> None:
    """Replace each random_state that is None or an integer by a number computed from it and `salt`."""
    if not hasattr(estimator, "get_params"):
        return
    changed = {}
    for name, value in sorted(estimator.get_params().items()):
        if name.split("__")[-1] == "random_state" and (value is None or isinstance(value, int | np.integer)):
            sequence = np.random.SeedSequence([int(value or 0), salt, len(changed)])
            changed[name] = int(sequence.generate_state(1)[0] >> 1)
    estimator.set_params(**changed)


def margins_of(hypothesis: Hypothesis, X: Any, y: Array) -> Array:
    """Return the margins y_i h(x_i), shape (m,), or raise `OracleError` if a value is not in [-1, 1]."""
    return y * check_values(hypothesis, hypothesis.predict(X), y.size)


def check_values(hypothesis: Hypothesis, values: Any, size: int) -> Array:
    """Return the predictions or margins of a hypothesis as float64, shape (size,), or raise `OracleError`."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise OracleError(f"The hypothesis {hypothesis!r} must predict numbers, got {values!r}.") from error
    if array.shape != (size,):
        raise OracleError(
            f"The hypothesis {hypothesis!r} must predict one number per example, {size} of them, "
            f"got shape {array.shape}."
        )
    wrong = ~(np.abs(array) <= 1.0 + _ROUNDING)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise OracleError(
            f"The hypothesis {hypothesis!r} has the value {array[i]:g} at example {i}; values must be in "
            "[-1, 1]: divide them by their largest absolute value, or predict signs."
        )
    return array


def column(X: Any, j: int) -> Array:
    """Return column j of X, shape (m,), as a view if X is an ndarray."""
    X = X if sparse.issparse(X) else np.asarray(X)
    if X.ndim != 2 or X.shape[1] <= j:
        raise InvalidInputError(f"X has shape {X.shape}; a hypothesis needs column {j}: pass all columns.")
    if not sparse.issparse(X):
        return X[:, j]
    X = X if X.format in ("csr", "csc") else X.tocsr()
    return X[:, [j]].toarray().ravel()

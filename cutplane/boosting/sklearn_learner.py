"""Classifiers of scikit-learn as weak learners."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from cutplane.boosting.weak_learner import as_signs, margins_of
from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import Array, as_vector
from cutplane.runtime.extras import require_extra


@dataclass(frozen=True)
class SklearnLearner:
    """A classifier that is fitted anew for each distribution of weights on the examples.

    A clone of it is fitted to the labels -1 and +1 with ``sample_weight = m * d``, which is 1 on average. It
    need not maximise the edge: `exact` is False.

    Parameters
    ----------
    estimator : classifier of scikit-learn, or object like one
        Has ``fit(X, y, sample_weight=...)`` and ``predict(X)``. It is not changed. Every parameter called
        ``random_state``, also of an estimator within it, is set to a number drawn from its value (from 0 if
        it is None) and from d: the same d gives the same hypothesis. A generator given there is kept.
    confidence_rated : bool, default False
        Whether h(x) is 2 p(x) - 1 with p(x) = ``predict_proba``, the probability of +1, instead of the
        predicted class.

    Raises
    ------
    InvalidInputError
        If the estimator cannot take ``sample_weight``, or lacks ``predict`` or, confidence rated,
        ``predict_proba``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from cutplane.boosting.sklearn_learner import SklearnLearner
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
                f"{name}.fit takes no sample_weight; pass a classifier that weights examples, or a function "
                "(X, y, d) -> hypothesis that does."
            )
        if self.confidence_rated and not hasattr(self.estimator, "predict_proba"):
            raise InvalidInputError(f"{name} has no predict_proba(X); set confidence_rated=False.")

    def bind(self, X: Any, y: Array) -> BoundClassifier:
        """Return the oracle of edges, for X as the classifier takes it: one row per example."""
        return BoundClassifier(self.estimator, self.confidence_rated, X, as_signs(y, len(y)))


@dataclass(frozen=True, eq=False)
class BoundClassifier:
    """A classifier that is fitted to given examples, anew for each d."""

    estimator: Any
    confidence_rated: bool
    X: Any
    y: Array
    exact = False

    def best(self, d: Array) -> tuple[FittedClassifier, Array]:
        """Return the classifier fitted to the examples with weights d, and its margins."""
        from sklearn.base import clone

        d = as_vector("d", d, self.y.size)
        estimator: Any = clone(self.estimator, safe=False)
        _set_random_states(estimator, zlib.crc32(d.tobytes()))
        estimator.fit(self.X, self.y.astype(np.int64), sample_weight=d.size * d)
        hypothesis = FittedClassifier(estimator, self.confidence_rated)
        return hypothesis, margins_of(hypothesis, self.X, self.y)


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
    """Give every integer or absent random_state a value that depends on it and on `salt`."""
    if not hasattr(estimator, "get_params"):
        return
    changed = {}
    for name, value in sorted(estimator.get_params().items()):
        if name.split("__")[-1] == "random_state" and (value is None or isinstance(value, int | np.integer)):
            sequence = np.random.SeedSequence([int(value or 0), salt, len(changed)])
            changed[name] = int(sequence.generate_state(1)[0] >> 1)
    estimator.set_params(**changed)

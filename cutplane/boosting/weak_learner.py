"""Weak learners: the interface by which boosting asks for a hypothesis, and what can be made into one.

A weak learner is bound to the examples once; then it is asked, for one distribution of weights d on the
examples after the other, for a hypothesis h with a large edge

    sum_i d_i y_i h(x_i),   h(x) in [-1, 1].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from cutplane.exceptions import InvalidInputError, OracleError
from cutplane.pieces.validation import Array, as_vector

TIE = 1e-12
"""Edges that differ by less are equal: sums of numbers that sum to 1 are no more accurate."""

_ROUNDING = 1e-9


class Hypothesis(Protocol):
    """A function of examples with values in [-1, 1]: the sign is the class, the size the confidence."""

    def predict(self, X: Any) -> Array:
        """Return the value at each row of X, shape (n,); zero abstains."""
        ...


class EdgeOracle(Protocol):
    """A weak learner bound to its examples."""

    @property
    def exact(self) -> bool:
        """Whether no other hypothesis has a larger edge than the one that `best` finds.

        Then bounds on the soft margin hold for all hypotheses, and a run may end as OPTIMAL; else they hold
        only for those that have been found, and it ends as TARGET.
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
    """Whatever can be bound to examples."""

    def bind(self, X: Any, y: Array) -> EdgeOracle:
        """Return the oracle of edges on these examples.

        Parameters
        ----------
        X : any
            As the user gave it: one row per example.
        y : ndarray of shape (m,)
            Labels -1.0 and +1.0.
        """
        ...


def as_weak_learner(learner: Any) -> WeakLearner:
    """Return `learner` as a weak learner.

    Examples
    --------
    A function that picks the better one of two experts:

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
        from cutplane.boosting.sklearn_learner import SklearnLearner

        return SklearnLearner(learner)
    if callable(learner):
        return FunctionLearner(learner)
    raise InvalidInputError(
        f"weak_learner is {learner!r}, which has neither bind(X, y), nor fit(X, y, sample_weight) and "
        "predict(X), nor is it a function (X, y, d) -> hypothesis; DecisionStumps() is a good first choice."
    )


@dataclass(frozen=True)
class FunctionLearner:
    """A weak learner given by a function."""

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


def margins_of(hypothesis: Hypothesis, X: Any, y: Array) -> Array:
    """Return the margins y_i h(x_i), shape (m,), or raise `OracleError` if a value is not in [-1, 1]."""
    return y * check_values(hypothesis, hypothesis.predict(X), y.size)


def check_values(hypothesis: Hypothesis, values: Any, size: int) -> Array:
    """Return what a hypothesis predicts, or its margins, as float64 of shape (size,); nothing is clipped."""
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
            "[-1, 1]: divide them by their largest size, or predict signs."
        )
    return array


def as_signs(y: Any, size: int) -> Array:
    """Return labels as float64 of shape (size,), or raise `InvalidInputError` if one is not -1 or +1."""
    y = as_vector("y", y, size)
    wrong = np.abs(y) != 1.0
    if wrong.any():
        i = int(np.argmax(wrong))
        raise InvalidInputError(f"y[{i}] is {y[i]:g}; labels must be -1 or +1.")
    return y


def first_within_tie(edges: Array, largest: float) -> int:
    """Return the first position whose edge is `largest`, but for rounding."""
    return int(np.argmax(edges >= largest - TIE))

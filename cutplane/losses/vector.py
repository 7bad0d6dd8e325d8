"""Losses of a vector of scores, one score for each class."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.losses.weighted import LinePart, LossesOnLine
from cutplane.pieces.lines import NO_KINKS, Line
from cutplane.pieces.parameters import read_only, set_fields, short_repr
from cutplane.pieces.validation import Array, as_numbers
from cutplane.runtime.threads import run_chunks

_CHUNK = 1 << 16
"""Number of scores that a thread handles at a time, because 512 KiB fit into its cache."""

_ONE = read_only(np.empty((0, 0)))
"""The margins if all costs are 1, empty because these need no matrix."""


class VectorLoss(ABC):
    """A loss l(s, y), convex in the scores s of the classes, for a label y; methods take m examples at once.

    A subclass is a frozen dataclass. It implements `value` and `derivative`. It overrides `directional` if it
    is not smooth, `line` for a faster or exact line search, and `check_classes` if it admits only some
    numbers of classes.

    Optional methods
    ----------------
    cvxpy_form(s, y) -> cvxpy.Expression
        The losses of m examples, shape (m,), for a cvxpy expression s of shape (m, p).
    margins(p) -> ndarray of shape (p, p)
        For ``l(s, y) = max_j (margins[y, j] + s_j) - s_y``, with zeros on the diagonal; the engine derives
        coordinate ascent over the examples, and cuts from their multipliers.
    log_probability(s) -> ndarray
        The logarithms of the probabilities of the classes, shape (m, p), for estimators.

    Attributes
    ----------
    infimum : float
        A lower bound of l; -inf if there is none.
    smooth : bool
        Whether l is differentiable, because "auto" may then choose `LBFGS`.

    Examples
    --------
    >>> import numpy as np
    >>> from dataclasses import dataclass
    >>> from cutplane.losses import VectorLoss
    >>> @dataclass(frozen=True)
    ... class Brier(VectorLoss):
    ...     infimum = 0.0
    ...
    ...     def value(self, s, y):
    ...         return ((s - np.eye(s.shape[1])[y]) ** 2).sum(axis=1)
    ...
    ...     def derivative(self, s, y):
    ...         return 2.0 * (s - np.eye(s.shape[1])[y])
    >>> Brier().value(np.array([[0.5, 0.0, 0.5]]), np.array([2])).tolist()
    [0.5]
    """

    infimum: ClassVar[float] = -math.inf
    smooth: ClassVar[bool] = False

    @abstractmethod
    def value(self, s: Array, y: Array) -> Array:
        """Return the losses, shape (m,), of scores s of shape (m, p) and labels y of shape (m,)."""

    @abstractmethod
    def derivative(self, s: Array, y: Array) -> Array:
        """Return a subgradient in s of each loss, shape (m, p)."""

    def directional(self, s: Array, y: Array, d: Array) -> Array:
        """Return the right derivatives of t -> l(s + t d, y) at t = 0; the default is for smooth losses."""
        return np.einsum("ij,ij->i", self.derivative(s, y), d)

    def line(self, start: Array, step: Array, y: Array, weights: Array) -> Line:
        """Return t -> sum_i weights_i l(start_i + t step_i, y_i)."""

        def evaluate(t: float) -> tuple[float, float]:
            s = start + t * step
            return float(weights @ self.value(s, y)), float(weights @ self.directional(s, y, step))

        return Line(evaluate)

    def check_classes(self, n_classes: int) -> None:
        """Raise `InvalidInputError` if the loss does not admit this number of classes."""
        return


@dataclass(frozen=True, eq=False)
class MulticlassHinge(VectorLoss):
    """l(s, y) = max_j (cost_yj + s_j) - s_y (Crammer, Singer 2001, jmlr.org/papers/v2/crammer01a.html).

    With the default costs, 1 for each mistake, the loss is zero if the score of the true class exceeds all
    others by 1.

    Parameters
    ----------
    cost : array_like of shape (p, p), optional
        Entry (y, j) is the cost of predicting class j for an example of class y; nonnegative, with zeros on
        the diagonal.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.losses import MulticlassHinge
    >>> scores, labels = np.array([[2.0, 0.5, 1.5]]), np.array([0])
    >>> MulticlassHinge().value(scores, labels).tolist()
    [0.5]
    >>> MulticlassHinge().derivative(scores, labels).tolist()
    [[-1.0, 0.0, 1.0]]
    """

    cost: Any = None

    infimum: ClassVar[float] = 0.0
    __repr__ = short_repr

    def __post_init__(self) -> None:
        if self.cost is not None:
            set_fields(self, cost=_as_cost(self.cost))

    def value(self, s: Array, y: Array) -> Array:
        from cutplane.losses.multiclass_passes import hinge_losses

        s, out = _rows(s), np.empty(y.size)
        run_chunks(lambda part: hinge_losses(s[part], y[part], self._margins, out[part]), _chunks(s))
        return out

    def derivative(self, s: Array, y: Array) -> Array:
        """Return a subgradient in s of each loss, shape (m, p); it is 0 if the true class is tied."""
        from cutplane.losses.multiclass_passes import hinge_slopes

        s, out = _rows(s), np.empty(s.shape)
        run_chunks(lambda part: hinge_slopes(s[part], y[part], self._margins, out[part]), _chunks(s))
        return out

    def directional(self, s: Array, y: Array, d: Array) -> Array:
        rises = s - s[np.arange(y.size), y, np.newaxis] + self.margins(s.shape[1])[y]
        steps = d - d[np.arange(y.size), y, np.newaxis]
        return np.where(rises == rises.max(axis=1, keepdims=True), steps, -np.inf).max(axis=1)

    def line(self, start: Array, step: Array, y: Array, weights: Array) -> Line:
        from cutplane.losses.multiclass_passes import hinge_at, hinge_between

        start, step, margins, chunks = _rows(start), _rows(step), self._margins, _chunks(start)

        def evaluate(t: float) -> tuple[float, float]:
            def at(part: slice) -> tuple[float, float]:
                return hinge_at(t, start[part], step[part], y[part], weights[part], margins)

            value, slope = _sums(run_chunks(at, chunks))
            return value, slope

        def find(low: float, high: float, *rows: Array) -> LinePart:
            kinks, jumps = np.empty((2, rows[0].size))
            slope, _, count = hinge_between(low, high, *rows, margins, kinks, jumps)
            return slope, 0.0, kinks[:count], jumps[:count], None

        def squares(*rows: Array) -> float:
            return hinge_between(0.0, 0.0, *rows, margins, NO_KINKS, NO_KINKS)[1]

        return Line(evaluate, derivative=LossesOnLine(find, squares, (start, step, y, weights), chunks))

    def cvxpy_form(self, s: Any, y: Array) -> Any:
        import cvxpy as cp

        return cp.max(s + self.margins(s.shape[1])[y], axis=1) - _true_scores(s, y)

    def check_classes(self, n_classes: int) -> None:
        if self.cost is not None and self.cost.shape[0] != n_classes:
            raise InvalidInputError(
                f"MulticlassHinge.cost has shape {self.cost.shape}, but there are {n_classes} classes; pass "
                "one row and one column per class, or n_classes if some of them have no example."
            )

    @property
    def _margins(self) -> Array:
        return _ONE if self.cost is None else self.cost

    def margins(self, n_classes: int) -> Array:
        """Return the cost of predicting one class for another, shape (p, p)."""
        return 1.0 - np.eye(n_classes) if self.cost is None else self.cost


@dataclass(frozen=True)
class Softmax(VectorLoss):
    """l(s, y) = ln sum_j exp(s_j) - s_y, the loss of multinomial logistic regression, without overflow.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.losses import Softmax
    >>> Softmax().value(np.array([[0.0, 0.0], [0.0, 1000.0]]), np.array([0, 0])).round(6).tolist()
    [0.693147, 1000.0]
    """

    infimum: ClassVar[float] = 0.0
    smooth: ClassVar[bool] = True

    def value(self, s: Array, y: Array) -> Array:
        shares = _rises(s, y)
        top = _exponentiate(shares)
        return top + np.log(shares.sum(axis=0))

    def derivative(self, s: Array, y: Array) -> Array:
        shares = np.array(s.T, order="C")
        _exponentiate(shares)
        shares /= shares.sum(axis=0)
        shares[y, np.arange(y.size)] -= 1.0
        return shares.T

    def line(self, start: Array, step: Array, y: Array, weights: Array) -> Line:
        from cutplane.losses.multiclass_passes import softmax_at

        chunks = _chunks(start)
        parts = [(_rises(start[k], y[k]), _rises(step[k], y[k]), weights[k]) for k in chunks]
        top, total = np.empty((2, y.size))

        def newton(t: float) -> tuple[float, float]:
            def at(k: int) -> tuple[float, float]:
                return softmax_at(t, *parts[k], top[chunks[k]], total[chunks[k]])

            slope, curvature = _sums(run_chunks(at, range(len(chunks))))
            return slope, curvature

        def evaluate(t: float) -> tuple[float, float]:
            slope, _ = newton(t)
            return float(weights @ (top + np.log(total))), slope

        return Line(evaluate, newton=newton)

    def log_probability(self, s: Array) -> Array:
        from scipy.special import log_softmax

        return log_softmax(s, axis=1)

    def cvxpy_form(self, s: Any, y: Array) -> Any:
        import cvxpy as cp

        return cp.log_sum_exp(s, axis=1) - _true_scores(s, y)


def _rises(s: Array, y: Array) -> Array:
    """Return s_ij - s_iy with one row per class, because numpy is several times faster along long rows."""
    rises = np.array(s.T, order="C")
    rises -= rises[y, np.arange(y.size)]
    return rises


def _exponentiate(rises: Array) -> Array:
    """Replace each column by its exponentials, divided by the largest; return the largest entries."""
    top = rises.max(axis=0)
    rises -= top
    np.exp(rises, out=rises)
    return top


def _sums(parts: list[tuple[float, ...]]) -> tuple[float, ...]:
    return tuple(sum(column) for column in zip(*parts, strict=True))


def _chunks(s: Array) -> list[slice]:
    height = max(1, _CHUNK // s.shape[1])
    return [slice(i, i + height) for i in range(0, s.shape[0], height)]


def _rows(s: Array) -> Array:
    return np.ascontiguousarray(s, dtype=np.float64)


def _true_scores(s: Any, y: Array) -> Any:
    import cvxpy as cp
    from scipy import sparse

    true = sparse.csr_array((np.ones(y.size), (np.arange(y.size), y)), shape=s.shape)
    return cp.sum(cp.multiply(true, s), axis=1)


def _as_cost(cost: Any) -> Array:
    name = "MulticlassHinge.cost"
    cost = np.array(as_numbers(name, cost), order="C")
    if cost.ndim != 2 or cost.shape[0] != cost.shape[1] or cost.size == 0:
        raise InvalidInputError(
            f"{name} must be a square matrix, one row and one column per class, got shape {cost.shape}."
        )
    for wrong, wanted in (
        (cost < 0.0, "every cost must be at least 0"),
        (np.diag(np.diag(cost) != 0.0), "the true class must cost nothing"),
    ):
        if wrong.any():
            row, column = np.argwhere(wrong)[0].tolist()
            raise InvalidInputError(f"{name}[{row}, {column}] is {cost[row, column]:g}; {wanted}.")
    return read_only(cost)

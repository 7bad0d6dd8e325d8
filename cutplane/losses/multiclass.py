"""Losses of a vector of scores, one score for each class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.losses.vector import VectorLoss
from cutplane.pieces.lines import Line
from cutplane.pieces.parameters import read_only, short_repr
from cutplane.pieces.validation import Array, as_numbers
from cutplane.runtime.threads import run_chunks


@dataclass(frozen=True, eq=False)
class MulticlassHinge(VectorLoss):
    """l(s, y) = max_j (cost_yj + s_j) - s_y, the loss of Crammer and Singer.

    By default all mistakes cost 1, which asks the score of the true class to exceed the others by 1.

    Parameters
    ----------
    cost : array_like of shape (p, p), optional
        What it costs to take an example of class y for one of class j: nonnegative, zero on the diagonal.

    Raises
    ------
    InvalidInputError
        If `cost` is not such a matrix.

    References
    ----------
    K. Crammer, Y. Singer, "On the algorithmic implementation of multiclass kernel-based vector machines",
    JMLR 2, 2001, https://jmlr.org/papers/v2/crammer01a.html.

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
            object.__setattr__(self, "cost", _as_cost(self.cost))

    def value(self, s: Array, y: Array) -> Array:
        """Return the losses, shape (m,), of scores s of shape (m, p) and labels y of shape (m,)."""
        from cutplane.losses.multiclass_passes import hinge_losses

        s, out = _rows(s), np.empty(y.size)
        run_chunks(lambda part: hinge_losses(s[part], y[part], self._margins, out[part]), _chunks(s))
        return out

    def derivative(self, s: Array, y: Array) -> Array:
        """Return a subgradient in s of each loss, shape (m, p); of tied classes the true one counts."""
        from cutplane.losses.multiclass_passes import hinge_slopes

        s, out = _rows(s), np.empty(s.shape)
        run_chunks(lambda part: hinge_slopes(s[part], y[part], self._margins, out[part]), _chunks(s))
        return out

    def directional(self, s: Array, y: Array, d: Array) -> Array:
        """Return the right derivatives of t -> l(s + t d, y) at t = 0."""
        rises = s - s[np.arange(y.size), y, np.newaxis] + self._margin_rows(y, s.shape[1])
        steps = d - d[np.arange(y.size), y, np.newaxis]
        return np.where(rises == rises.max(axis=1, keepdims=True), steps, -np.inf).max(axis=1)

    def line(self, start: Array, step: Array, y: Array, weights: Array) -> Line:
        """Return t -> sum_i weights_i l(start_i + t step_i, y_i), and its whole derivative."""
        from cutplane.losses.multiclass_passes import HingeDerivative, hinge_at

        start, step, margins, chunks = _rows(start), _rows(step), self._margins, _chunks(start)

        def evaluate(t: float) -> tuple[float, float]:
            def at(part: slice) -> tuple[float, float]:
                return hinge_at(t, start[part], step[part], y[part], weights[part], margins)

            value, slope = _sums(run_chunks(at, chunks))
            return value, slope

        return Line(evaluate, derivative=HingeDerivative(start, step, y, weights, margins, chunks))

    def cvxpy_form(self, s: Any, y: Array) -> Any:
        """Return the losses as a cvxpy expression of shape (m,)."""
        import cvxpy as cp

        return cp.max(s + self._margin_rows(y, s.shape[1]), axis=1) - _true_scores(s, y)

    def check_classes(self, n_classes: int) -> None:
        """Raise `InvalidInputError` if `cost` is for another number of classes."""
        if self.cost is not None and self.cost.shape[0] != n_classes:
            raise InvalidInputError(
                f"MulticlassHinge.cost has shape {self.cost.shape}, but there are {n_classes} classes; pass "
                "one row and one column per class, or n_classes if some of them have no example."
            )

    @property
    def _margins(self) -> Array:
        return _ONE if self.cost is None else self.cost

    def margins(self, n_classes: int) -> Array:
        """Return what it costs to take one class for another, shape (p, p)."""
        return 1.0 - np.eye(n_classes) if self.cost is None else self.cost

    def _margin_rows(self, y: Array, n_classes: int) -> Array:
        return self.margins(n_classes)[y]


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
        """Return the losses, shape (m,), of scores s of shape (m, p) and labels y of shape (m,)."""
        shares = _rises(s, y)
        top = _exponentiate(shares)
        return top + np.log(shares.sum(axis=0))

    def derivative(self, s: Array, y: Array) -> Array:
        """Return the gradient in s of each loss, shape (m, p)."""
        shares = np.array(s.T, order="C")
        _exponentiate(shares)
        shares /= shares.sum(axis=0)
        shares[y, np.arange(y.size)] -= 1.0
        return shares.T

    def line(self, start: Array, step: Array, y: Array, weights: Array) -> Line:
        """Return t -> sum_i weights_i l(start_i + t step_i, y_i)."""
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
        """Return the logarithms of the probabilities of the classes, shape (m, p)."""
        from scipy.special import log_softmax

        return log_softmax(s, axis=1)

    def cvxpy_form(self, s: Any, y: Array) -> Any:
        """Return the losses as a cvxpy expression of shape (m,)."""
        import cvxpy as cp

        return cp.log_sum_exp(s, axis=1) - _true_scores(s, y)


_CHUNK = 1 << 16
"""Scores taken at a time: 512 KiB."""

_ONE = read_only(np.empty((0, 0)))
"""Stands for the costs that are all 1, which need no matrix."""


def _rises(s: Array, y: Array) -> Array:
    """Return s_ij - s_iy, one row per class: numpy is several times faster along long rows."""
    rises = np.array(s.T, order="C")
    rises -= rises[y, np.arange(y.size)]
    return rises


def _exponentiate(rises: Array) -> Array:
    """Replace each column by its exponentials divided by the largest; return the largest entries."""
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

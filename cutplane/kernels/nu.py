"""Nu-forms of kernel machines: the margin is a variable, and the share of examples beyond it is given."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.kernels.dual import DualForm
from cutplane.kernels.gram import Gram
from cutplane.kernels.risk import KernelExpansion
from cutplane.kernels.rows import CACHE_BYTES
from cutplane.losses.scalar import Hinge
from cutplane.pieces.lines import Line, shortfall_line
from cutplane.pieces.parameters import set_fields
from cutplane.pieces.validation import Array, as_scalar, as_vector
from cutplane.risks.examples import as_weights, bias_slopes, describe

if TYPE_CHECKING:
    from cutplane.methods.base import Method

TASKS = "classification", "regression", "novelty"
_ROUNDING = 1e-12
"""Relative excess of nu over its bound that is accepted, because sums of weights have rounding errors."""


@dataclass(frozen=True, eq=False, repr=False)
class NuRisk(KernelExpansion):
    """f(a, b) = sum_U c_i max(0, t_i - f_i - b_1) + sum_D c_i max(0, f_i + b_2 - t_i) + nu/2 (b_1 - b_2).

    The variables are (a, b_1, b_2), and f_i = sum_j a_j k(x_j, x_i). Each term has its intercept, and this
    makes the three nu-machines special cases [1]_:

    * "classification": U are the examples of class 1, D the examples of class -1, and t = 0. With
      b_1 = b - rho and b_2 = b + rho it is the mean of max(0, rho - y_i (f_i + b)), minus nu rho.
    * "regression": U and D are all examples, t = y. With b_1 = b + eps and b_2 = b - eps it is the mean of
      max(0, |f_i + b - y_i| - eps), plus nu eps.
    * "novelty": U are all examples, t = 0, and there is no D and no b_2. With b_1 = -rho it is the mean of
      max(0, rho - f_i), minus nu rho. It is the one-class machine [2]_.

    At the optimum, at most a fraction nu of the examples is beyond the margin or the tube, and at least this
    fraction is beyond or on it. The regularizer is ``risk.squared_norm(lam)``. If rho > 0, the classifier is
    rho times the classifier of `Hinge` with the weight rho lam.

    Parameters
    ----------
    X : ndarray, sparse array or sparse matrix of shape (m, d)
        One example per row; see `KernelRisk`.
    y : array_like of shape (m,) or None
        Labels -1 and 1, numbers, or None for "novelty".
    nu : float
        In (0, 1]; for a classifier at most twice the weight of the smaller class.
    kernel : Kernel, callable or "precomputed"
        See `KernelRisk`.
    task : {"classification", "regression", "novelty"}, default "classification"
    sample_weight : array_like of shape (m,), optional
        Weights >= 0, by default 1 for each example; c are these divided by their sum.
    cache_bytes : int, default 200 MiB
        The memory for rows of the kernel matrix.

    Raises
    ------
    InvalidInputError
        If a shape is wrong, an entry is not finite, nu is out of range or too large for the smaller class, or
        the kernel is found not to be positive semidefinite.

    References
    ----------
    .. [1] B. Schölkopf, A. J. Smola, R. C. Williamson, P. L. Bartlett, "New support vector algorithms",
       Neural Computation 12, 2000, doi:10.1162/089976600300015565.
    .. [2] B. Schölkopf, J. C. Platt, J. Shawe-Taylor, A. J. Smola, R. C. Williamson, "Estimating the support
       of a high-dimensional distribution", Neural Computation 13, 2001, doi:10.1162/089976601750264965.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> X, y = np.array([[-2.0], [-1.0], [1.0], [3.0]]), np.array([-1.0, -1.0, 1.0, 1.0])
    >>> risk = cut.kernels.NuRisk(X, y, 0.4, cut.kernels.Linear())
    >>> result = cut.Problem(risk, risk.squared_norm(0.1)).solve(tol=1e-9)
    >>> print(result.status, round(result.objective, 6), round(risk.margin(result.x), 6))
    OPTIMAL -0.8 4.0
    """

    X: Any
    y: Any
    nu: float
    kernel: Any
    task: str = "classification"
    sample_weight: Array | None = None
    cache_bytes: int = CACHE_BYTES
    weights: Array = field(init=False)
    dim: int = field(init=False)
    gram: Gram = field(init=False)
    shares: Array = field(init=False)
    goals: Array = field(init=False)
    _rows: Array = field(init=False)
    _sides: Array = field(init=False)
    _signs: Array = field(init=False)
    _costs: Array = field(init=False)

    def __post_init__(self) -> None:
        if self.task not in TASKS:
            raise InvalidInputError(f"task must be one of {list(TASKS)}, got {self.task!r}.")
        self._set(self._matrix(), self.y)

    def _set(self, gram: Gram, y: Any) -> None:
        m, nu = gram.n, as_scalar("nu", self.nu, low=0.0, high=1.0, low_open=True)
        weights = as_weights(self.sample_weight, m, True)
        shares = [weights, weights]
        if self.task == "classification":
            y = Hinge().check_targets(y)
        elif self.task == "regression":
            y = as_vector("y", y)
        elif y is None:
            shares = [weights]
        else:
            raise InvalidInputError(f'y must be None for the task "novelty", got {type(y).__name__}.')
        if y is not None and y.shape != (m,):
            raise InvalidInputError(f"y must have one target per row of X, shape ({m},), got {y.shape}.")
        if self.task == "classification":
            shares = [np.where(y == sign, weights, 0.0) for sign in (1.0, -1.0)]
        least = min(float(share.sum()) for share in shares)
        if least == 0.0:
            raise InvalidInputError('y has one class only; give both classes, or use the task "novelty".')
        if self.total(nu) > least * (1.0 + _ROUNDING):
            raise InvalidInputError(
                f"nu = {nu:g} is infeasible: the smaller class has {least:g} of the total weight, so nu must "
                f"be at most {2.0 * least:g}."
            )
        rows = [np.flatnonzero(share > 0.0) for share in shares]
        sides = np.repeat(np.arange(len(rows)), [part.size for part in rows])
        set_fields(
            self, X=gram.X, y=y, nu=nu, kernel=gram.kernel, gram=gram, weights=weights, dim=m + len(rows),
            shares=np.array(shares), goals=y if self.task == "regression" else np.zeros(m),
            _rows=np.concatenate(rows), _sides=sides, _signs=np.where(sides == 0, 1.0, -1.0),
            _costs=np.concatenate([share[part] for share, part in zip(shares, rows, strict=True)]),
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"NuRisk({self.task}, nu={self.nu:g}, {describe(self.X)}, {self.kernel.name!r})"

    def total(self, nu: float) -> float:
        """Return the sum of the multipliers of each term: nu / 2, or nu for a single term."""
        return nu if self.task == "novelty" else 0.5 * nu

    def with_targets(self, y: Any, sample_weight: Any = None, task: str | None = None) -> NuRisk:
        """Return the risk with other targets, weights and possibly task; it shares the kernel matrix."""
        return self._with(self.gram, y, sample_weight=sample_weight, task=task or self.task)

    def _bias(self, x: Array) -> float:
        return float(x[self.gram.n :].mean())

    def intercept(self, x: Any) -> float:
        """Return b, the mean of b_1 and b_2; for novelty b_1 = -rho."""
        return self._bias(as_vector("x", x, self.dim))

    def margin(self, x: Any) -> float:
        """Return rho, or for regression eps, half the width of the tube; at least 0 except for novelty."""
        b = as_vector("x", x, self.dim)[self.gram.n :]
        if self.task == "novelty":
            return -float(b[0])
        half = 0.5 * float(b[0] - b[1])
        return max(0.0, half if self.task == "regression" else -half)

    def image(self, x: Array) -> Array:
        return np.append(self.gram.product(x[: self.gram.n]), x[self.gram.n :])

    def values(self, z: Array) -> float:
        return float(self._costs @ np.maximum(0.0, self._short(z))) + self._level(z)

    def slopes(self, z: Array) -> Array:
        return self._slope((self._short(z) > 0.0).astype(float))

    def line(self, z0: Array, z1: Array) -> Line:
        step = z1 - z0
        short, level = self._short(z0), self._level(z0)
        return shortfall_line(short, self._short(z1) - short, self._costs, level, self._level(step))

    def dual_cut(self, u: Array) -> tuple[Array, Array]:
        """Return the cut of multipliers in [0, 1], one for each example of U, then one for each of D.

        Returns
        -------
        slopes : ndarray of shape (1, dim)
        offsets : ndarray of shape (1,)
            -inf if a multiplier is not in [0, 1].
        """
        inside = (u >= 0.0).all() and (u <= 1.0).all()
        height = float((self._costs * u * self._signs) @ self.goals[self._rows])
        return self._slope(u)[np.newaxis], np.array([height if inside else -np.inf])

    def kernel_sides(self) -> NuRisk:
        """Return the risk itself, because `NuDecomposition` can solve problems with it."""
        return self

    def dual(self, lam: float) -> DualForm:
        """Return the dual form divided by lam, with one group of coefficients for each term."""
        most, nothing, total = self.shares / lam, np.zeros_like(self.goals), self.total(self.nu) / lam
        lower = np.concatenate([nothing, *-most[1:]])
        upper = np.concatenate([most[0], *(0.0 * most[1:])])
        return DualForm(self.goals, 0.0, nothing, lower, upper, (total, -total)[: len(most)])

    def multipliers(self, a: Array, lam: float) -> Array:
        """Return the multipliers for `dual_cut` that belong to coefficients a of shape (n_terms * m,)."""
        own = a[self._sides * self.gram.n + self._rows]
        return np.clip(lam * np.abs(own) / self._costs, 0.0, 1.0)

    def _methods(self) -> tuple[Method, ...]:
        from cutplane.kernels import NuDecomposition

        return (NuDecomposition(),)

    def cvxpy_form(self, x: Any) -> Any:
        import cvxpy as cp

        m = self.gram.n
        z, total = cp.Constant(self.gram.matrix()) @ x[:m], self.total(self.nu)
        terms = [
            cp.sum(cp.multiply(share, cp.pos(sign * (self.goals - z - b)))) + sign * total * b
            for share, sign, b in zip(self.shares, (1.0, -1.0), x[m:], strict=False)
        ]
        return sum(terms)

    def _short(self, z: Array) -> Array:
        """Return the violation of the margin by each prediction; negative if there is none."""
        m = self.gram.n
        return self._signs * (self.goals[self._rows] - z[self._rows] - z[m + self._sides])

    def _level(self, z: Array) -> float:
        """Return the linear term."""
        b = z[self.gram.n :]
        return self.total(self.nu) * float(b[0] - b[1] if b.size > 1 else b[0])

    def _slope(self, u: Array) -> Array:
        p, total = -self._signs * self._costs * u, self.total(self.nu)
        parts = [
            np.append(p[self._sides == side], sign * total)
            for side, sign in zip(range(len(self.shares)), (1.0, -1.0), strict=False)
        ]
        ends = [bias_slopes(part, np.array([0, part.size])) for part in parts]
        return np.concatenate([self.gram.product(np.bincount(self._rows, p, self.gram.n)), *ends])

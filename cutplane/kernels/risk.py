"""Functions sum_j a_j k(x_j, .) + b of a kernel's space: their norm, their risk, and their values."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.kernels.base import Kernel, as_kernel
from cutplane.kernels.gram import Gram
from cutplane.kernels.rows import CACHE_BYTES
from cutplane.losses.base import ScalarLoss
from cutplane.pieces.capabilities import Capability, offers
from cutplane.pieces.lines import Line, quadratic_line
from cutplane.pieces.parameters import set_fields
from cutplane.pieces.validation import Array, as_count, as_vector
from cutplane.regularizers.base import UNBOUNDED, Minimum, Regularizer, check_lam, minimise_linear, minimum
from cutplane.risks.base import ImagedRisk
from cutplane.risks.examples import as_weights, bias_slopes, describe, weighted_conjugates
from cutplane.risks.matrix import as_matrix
from cutplane.runtime.threads import run_chunks
from cutplane.sets.base import is_whole_space

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.losses.weighted import WeightedLoss
    from cutplane.methods.base import Method
    from cutplane.sets.base import FeasibleSet

_BLOCK = 1 << 18
"""Number of entries of a block of kernel values, because a block then stays in the second-level cache."""


@dataclass(frozen=True, eq=False)
class KernelFunction:
    """The function f(z) = sum_j coefficients_j k(x_j, z) + intercept.

    Attributes
    ----------
    kernel : Kernel
    examples : object
        The x_j with nonzero coefficients, as `Kernel.select` returns them.
    coefficients : ndarray of shape (n_support,) or (n_support, k)
        The coefficients of one function or of k functions.
    intercept : float or ndarray of shape (k,)

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.kernels import KernelFunction, Linear
    >>> f = KernelFunction(Linear(), np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([1.0, 0.5]), 3.0)
    >>> f.decision_function(np.array([[5.0, 7.0]])).tolist()
    [15.0]
    """

    kernel: Kernel
    examples: Any
    coefficients: Array
    intercept: Any = 0.0

    def decision_function(self, Z: Any) -> Array:
        """Return the values at the rows of Z, shape (n,) or (n, k)."""
        Z = as_matrix(Z, "Z")
        Z = Z.tocsr() if not isinstance(Z, np.ndarray) else Z
        out = np.zeros((Z.shape[0], *self.coefficients.shape[1:])) + self.intercept
        if self.coefficients.size == 0:
            return out
        height = max(1, _BLOCK // len(self.coefficients))

        def part(start: int) -> None:
            rows = slice(start, start + height)
            out[rows] += self.kernel.cross(Z[rows], self.examples) @ self.coefficients

        run_chunks(part, range(0, Z.shape[0], height))
        return out


@dataclass(frozen=True, eq=False, repr=False)
class SquaredNorm(Regularizer):
    """g(a, b) = lam/2 ||sum_j a_j k(x_j, .)||^2 = lam/2 a'K a; intercepts b are free.

    `KernelRisk.squared_norm` creates it, because both share one kernel matrix. With up to 3000 examples, its
    conjugate is computed at any slope K p; with more, only at slopes of the risk, because K p and p are
    stored.

    Parameters
    ----------
    gram : Gram
    intercept : int
        The number of intercepts.
    lam : float, default 1.0
        Nonnegative and finite.
    """

    gram: Gram
    intercept: int
    lam: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "lam", check_lam(self.lam))

    def __repr__(self) -> str:
        return f"SquaredNorm({self.lam:g}, {self.gram.kernel.name!r})"

    @property
    def dim(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Number of examples plus number of intercepts."""
        return self.gram.n + self.intercept

    def check_dim(self, dim: int) -> None:
        if dim != self.dim:
            raise InvalidInputError(f"{self!r} has dimension {self.dim}, but the problem has {dim}.")

    def kernel_norm(self) -> tuple[Gram, float]:
        """Return the kernel matrix and the weight."""
        return self.gram, self.lam

    def value(self, x: Array) -> float:
        a = x[: self.gram.n]
        return 0.5 * self.lam * max(float(a @ self.gram.product(a)), 0.0)

    def subgradient(self, x: Array) -> Array:
        return self._whole(self.lam * self.gram.product(x[: self.gram.n]))

    def line(self, x0: Array, x1: Array) -> Line:
        a, d = x0[: self.gram.n], (x1 - x0)[: self.gram.n]
        image = self.gram.product(d)
        return quadratic_line(self.value(x0), self.lam * float(a @ image), self.lam * float(d @ image))

    def conjugate_minimiser(
        self, v: Array, feasible_set: FeasibleSet, budget: float = math.inf
    ) -> Minimum | None:
        """Return the minimum of g(x) + <v, x> over all x; -inf unless a p with v = (K p, 0) is found."""
        if self.lam == 0.0:
            return minimise_linear(v, feasible_set)
        if not is_whole_space(feasible_set, v.shape[0]):
            return None
        if v[self.gram.n :].any():
            return UNBOUNDED
        v = v[: self.gram.n]
        p = self.gram.preimage(v)
        if p is None:
            return UNBOUNDED
        return minimum(-0.5 * max(float(p @ v), 0.0) / self.lam, self._whole(-p / self.lam))

    def unregularized(self, dim: int) -> Array:
        return np.arange(dim) >= self.gram.n

    def cvxpy_form(self, x: Any) -> Any:
        import cvxpy as cp

        K = self.gram.matrix()
        return 0.5 * self.lam * cp.quad_form(x[: self.gram.n], 0.5 * (K + K.T), assume_PSD=True)

    def _whole(self, a: Array) -> Array:
        return np.append(a, np.zeros(self.intercept)) if self.intercept else a


class KernelExpansion(ImagedRisk):
    """A risk of a function sum_j a_j k(x_j, .) plus intercepts on the examples of a kernel matrix."""

    black_box = False
    X: Any
    y: Any
    kernel: Any
    sample_weight: Any
    cache_bytes: int
    gram: Gram

    def _matrix(self) -> Gram:
        return Gram(as_kernel(self.kernel), self.X, as_count("cache_bytes", self.cache_bytes))

    @abstractmethod
    def _set(self, gram: Gram, y: Any) -> None:
        """Check the targets and the weights, and set all fields."""

    @abstractmethod
    def _bias(self, x: Array) -> float:
        """Return the intercept of the function."""

    @abstractmethod
    def _methods(self) -> tuple[Method, ...]:
        """Return the methods for this risk with its norm, the fastest one first."""

    def restricted(self, chosen: Array) -> Self:
        """Return the risk of some of the examples; it reuses the kernel matrix if all of it is cached."""
        weight = None if self.sample_weight is None else np.asarray(self.sample_weight)[chosen]
        y = None if self.y is None else self.y[chosen]
        return self._with(self.gram.restricted(chosen), y, sample_weight=weight)

    def _with(self, gram: Gram, y: Any, **changes: Any) -> Self:
        other = object.__new__(type(self))
        given = [item.name for item in fields(self) if item.init]  # type: ignore[arg-type]
        set_fields(other, **{name: getattr(self, name) for name in given} | changes)
        other._set(gram, y)
        return other

    def squared_norm(self, lam: float = 1.0) -> SquaredNorm:
        """Return the regularizer lam/2 a'K a, which is lam/2 times the squared norm of the function."""
        return SquaredNorm(self.gram, self.dim - self.gram.n, lam)

    def function(self, x: Any) -> KernelFunction:
        """Return the function with the coefficients x; it stores only the examples with a_j != 0."""
        x = as_vector("x", x, self.dim)
        support = np.flatnonzero(x[: self.gram.n])
        return KernelFunction(self.kernel, self.kernel.select(self.X, support), x[support], self._bias(x))

    def own_method(self, problem: Declaration) -> Method | None:
        """Return the first of the methods for this risk that can solve the problem; None if none can."""
        from cutplane.methods.estimates import suits

        return next((method for method in self._methods() if suits(method, problem)), None)


@dataclass(frozen=True, eq=False, repr=False)
class KernelRisk(KernelExpansion):
    """f(a, b) = sum_i c_i l(sum_j a_j k(x_j, x_i) + b, y_i), the loss of a function of a kernel's space.

    The function is sum_j a_j k(x_j, .) + b, and the variables are (a, b). The regularizer is
    ``risk.squared_norm(lam)``, that is lam/2 a'K a, where a'K a is the squared norm of the function. By the
    representer theorem, the minimiser over all functions of the space has this form [1]_. The C of a support
    vector machine is 1 / (lam m).

    Parameters
    ----------
    X : ndarray, sparse array or sparse matrix of shape (m, d)
        One example per row. It is not copied if it is a float64 array in C order or CSR, and must not be
        changed afterwards.
    y : array_like of shape (m,)
        Targets: labels -1 and +1 for the losses of classification, else any numbers.
    loss : ScalarLoss
        For example ``Hinge()``.
    kernel : Kernel, callable or "precomputed"
        A kernel such as ``cutplane.kernels.Gaussian(1.0)``, a function of two matrices that returns the
        matrix of kernel values, or "precomputed" if X is the kernel matrix.
    intercept : bool, default True
        Whether there is an intercept b, which is not regularized.
    sample_weight : array_like of shape (m,), optional
        Weights >= 0, by default 1 for each example; c are these divided by their sum.
    cache_bytes : int, default 200 MiB
        The memory for rows of the kernel matrix. If all rows fit in float64, they are computed once. Else
        solvers use float32 rows, and bounds are still computed in float64. If twice as many rows fit,
        `with_kernel` stores distances for other widths.

    Raises
    ------
    InvalidInputError
        If a shape is wrong, an entry is not finite, the loss refuses y, the kernel refuses X, or a user's
        kernel is found not to be symmetric positive semidefinite. Matrices of up to 512 rows are tested as a
        whole. In larger matrices some principal blocks are tested, and given matrices also by Lanczos steps.

    References
    ----------
    .. [1] G. Kimeldorf, G. Wahba, "Some results on Tchebycheffian spline functions", J. Math. Anal. Appl. 33,
       1971, doi:10.1016/0022-247X(71)90184-3.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> X, y = np.array([[-2.0], [-1.0], [1.0], [3.0]]), np.array([-1.0, -1.0, 1.0, 1.0])
    >>> risk = cut.kernels.KernelRisk(X, y, cut.losses.Hinge(), cut.kernels.Linear())
    >>> result = cut.Problem(risk, risk.squared_norm(0.1)).solve(tol=1e-9)
    >>> print(result.status, round(result.objective, 6))
    OPTIMAL 0.05
    >>> risk.function(result.x).decision_function(np.array([[2.0]])).round(6).tolist()
    [2.0]
    """

    X: Any
    y: Array
    loss: ScalarLoss
    kernel: Any
    intercept: bool = True
    sample_weight: Array | None = None
    cache_bytes: int = CACHE_BYTES
    weights: Array = field(init=False)
    dim: int = field(init=False)
    gram: Gram = field(init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.loss, ScalarLoss):
            raise InvalidInputError(
                f"loss must be a loss such as cutplane.losses.Hinge(), got {self.loss!r}."
            )
        if not isinstance(self.intercept, bool | np.bool_):
            raise InvalidInputError(f"intercept must be True or False, got {self.intercept!r}.")
        self._set(self._matrix(), self.y)

    def _set(self, gram: Gram, y: Any) -> None:
        m, y = gram.n, self.loss.check_targets(y)
        if y.shape != (m,):
            raise InvalidInputError(f"y must have one target per row of X, shape ({m},), got {y.shape}.")
        weights, dim = as_weights(self.sample_weight, m, True), m + int(self.intercept)
        set_fields(self, X=gram.X, y=y, kernel=gram.kernel, gram=gram, weights=weights, dim=dim)

    def __repr__(self) -> str:
        intercept = ", intercept" if self.intercept else ""
        return f"KernelRisk({self.loss!r}, {describe(self.X)}, {self.kernel.name!r}{intercept})"

    def with_targets(self, y: Any, sample_weight: Any = None) -> KernelRisk:
        """Return the risk with other targets and weights of the examples; it shares the kernel matrix."""
        return self._with(self.gram, y, sample_weight=sample_weight)

    def with_kernel(self, kernel: Any) -> KernelRisk:
        """Return the risk with another kernel; distances are reused if only the width differs."""
        return self._with(self.gram.with_kernel(as_kernel(kernel)), self.y)

    def _bias(self, x: Array) -> float:
        return float(x[-1]) if self.intercept else 0.0

    @cached_property
    def withheld(self) -> tuple[Capability, ...]:
        """The capabilities that the loss does not have."""
        missing = [] if offers(self.loss, Capability.CVXPY) else [Capability.CVXPY]
        if not offers(self.loss, Capability.LOSS_CONJUGATE):
            missing.append(Capability.DUAL_CUT)
        return tuple(missing)

    @property
    def infima(self) -> Array:
        with np.errstate(invalid="ignore"):
            least = np.where(self.weights > 0.0, self.weights * self.loss.infimum(self.y), 0.0)
        return np.array([least.sum()])

    def image(self, x: Array) -> Array:
        z = self.gram.product(x[: self.gram.n])
        return z + x[-1] if self.intercept else z

    def values(self, z: Array) -> float:
        return float(self.losses.values(z)[0])

    def slopes(self, z: Array) -> Array:
        return self._slope(self.losses.derivatives(z))

    def cancelled(self, z: Array) -> float:
        return float(self.losses.cancelled(z)[0])

    def line(self, z0: Array, z1: Array) -> Line:
        return self.losses.line(z0, z1)

    def dual_cut(self, u: Array) -> tuple[Array, Array]:
        """Return the cut of multipliers of the examples: the sum of c_i (u_i t_i - l*(u_i, y_i)).

        Parameters
        ----------
        u : ndarray of shape (m,)
            In the domain of the conjugate l* of the loss; else the offset is -inf.

        Returns
        -------
        slopes : ndarray of shape (1, dim)
        offsets : ndarray of shape (1,)
        """
        heights = weighted_conjugates(self.loss, u, self.y, self.weights, np.array([0, u.size]))
        return self._slope(self.weights * u)[np.newaxis], -heights

    def example_slopes(self, x: Array) -> Array:
        """Return the derivatives of the losses at x, shape (m,): multipliers for `dual_cut`."""
        return np.asarray(self.loss.derivative(self.image(x), self.y))

    def kernel_predictor(self) -> KernelRisk:
        """Return the risk itself, because methods for kernel machines can solve problems with it."""
        return self

    def _methods(self) -> tuple[Method, ...]:
        from cutplane.kernels import ActiveSet, Decomposition, FiniteNewton

        return Decomposition(), FiniteNewton(), ActiveSet()

    def cvxpy_form(self, x: Any) -> Any:
        import cvxpy as cp

        z = cp.Constant(self.gram.matrix()) @ x[: self.gram.n]
        z = z + x[-1] if self.intercept else z
        return cp.sum(cp.multiply(self.weights, self.loss.cvxpy_form(z, self.y)))

    def _slope(self, p: Array) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            slope = self.gram.product(p) if np.isfinite(p).all() else np.zeros(p.size)
            if self.intercept:
                slope = np.append(slope, bias_slopes(p, np.array([0, p.size])))
        return slope

    @cached_property
    def losses(self) -> WeightedLoss:
        """The weighted losses as functions of the predictions, compiled."""
        from cutplane.losses.weighted import weighted_loss

        return weighted_loss(self.loss, self.y, self.weights, np.array([0, self.y.size]))

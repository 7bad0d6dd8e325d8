"""The risk of a function of a kernel's space."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.kernels.function import KernelFunction
from cutplane.kernels.given import as_kernel
from cutplane.kernels.gram import Gram
from cutplane.kernels.norm import SquaredNorm
from cutplane.kernels.rows import CACHE_BYTES
from cutplane.losses.base import ScalarLoss
from cutplane.pieces.capabilities import Capability, offers
from cutplane.pieces.lines import Line
from cutplane.pieces.parameters import set_fields
from cutplane.pieces.validation import Array, as_count, as_vector
from cutplane.risks.base import ImagedRisk
from cutplane.risks.examples import as_weights, bias_slopes, describe, weighted_conjugates

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.losses.weighted import WeightedLoss
    from cutplane.methods.base import Method


@dataclass(frozen=True, eq=False, repr=False)
class KernelRisk(ImagedRisk):
    """f(a, b) = sum_i c_i l(sum_j a_j k(x_j, x_i) + b, y_i), the loss of a function of a kernel's space.

    The function is sum_j a_j k(x_j, .) + b, and the vector of the problem (a, b). Its regularizer is
    ``risk.squared_norm(lam)``, that is lam/2 a'K a, the squared norm of the function: among all functions of
    the space the minimiser of the sum is of this form [1]_. The C of a support vector machine is 1 / (lam m).

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
        matrix of the kernel's values, or "precomputed" where X is that matrix.
    intercept : bool, default True
        Whether there is a b, which is not regularized.
    sample_weight : array_like of shape (m,), optional
        Weights >= 0, by default 1 for each example; c are these divided by their sum.
    cache_bytes : int, default 200 MiB
        The memory for rows of the kernel matrix. If it holds all of them in float64, they are computed once;
        else rows for the steps of solvers are float32, and what bounds are computed from is float64. If it
        holds twice as many, `with_kernel` keeps distances for other widths.

    Raises
    ------
    InvalidInputError
        If a shape does not fit, an entry is not finite, the loss refuses y, the kernel refuses X, or a kernel
        that is not one of ours is found not to be symmetric and positive semidefinite: matrices of up to 512
        rows are tested as a whole, of larger ones some principal blocks, and given matrices by Lanczos steps.

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

    black_box = False
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
        kernel = as_kernel(self.kernel)
        gram = Gram(kernel, self.X, as_count("cache_bytes", self.cache_bytes))
        self._take(kernel, gram, self.y)

    def _take(self, kernel: Any, gram: Gram, y: Any) -> None:
        m, y = gram.n, self.loss.check_targets(y)
        if y.shape != (m,):
            raise InvalidInputError(f"y must have one target per row of X, shape ({m},), got {y.shape}.")
        weights = as_weights(self.sample_weight, m, True)
        set_fields(
            self, X=gram.X, y=y, kernel=kernel, gram=gram, weights=weights, dim=m + int(self.intercept)
        )

    def __repr__(self) -> str:
        intercept = ", intercept" if self.intercept else ""
        return f"KernelRisk({self.loss!r}, {describe(self.X)}, {self.kernel.name!r}{intercept})"

    def with_targets(self, y: Any, sample_weight: Any = None) -> KernelRisk:
        """Return the risk of other targets and weights on the same examples; it shares the kernel matrix."""
        return self._with(self.gram, y, sample_weight)

    def with_kernel(self, kernel: Any) -> KernelRisk:
        """Return the risk with another kernel; with another width the distances are not computed again."""
        return self._with(self.gram.with_kernel(as_kernel(kernel)), self.y, self.sample_weight)

    def restricted(self, chosen: Array) -> KernelRisk:
        """Return the risk of some of the examples, with a part of the kernel matrix if all of it fits."""
        weight = None if self.sample_weight is None else np.asarray(self.sample_weight)[chosen]
        return self._with(self.gram.restricted(chosen), self.y[chosen], weight)

    def _with(self, gram: Gram, y: Any, sample_weight: Any) -> KernelRisk:
        other = object.__new__(KernelRisk)
        names = "loss", "intercept", "cache_bytes"
        set_fields(other, sample_weight=sample_weight, **{name: getattr(self, name) for name in names})
        other._take(gram.kernel, gram, y)
        return other

    def squared_norm(self, lam: float = 1.0) -> SquaredNorm:
        """Return the regularizer lam/2 a'K a, half the squared norm of the function times lam."""
        return SquaredNorm(self.gram, int(self.intercept), lam)

    def function(self, x: Any) -> KernelFunction:
        """Return the function that the coefficients x = (a, b) stand for; it keeps examples with a_j != 0."""
        x = as_vector("x", x, self.dim)
        support = np.flatnonzero(x[: self.gram.n])
        examples = self.kernel.select(self.X, support)
        return KernelFunction(self.kernel, examples, x[support], float(x[-1]) if self.intercept else 0.0)

    @cached_property
    def withheld(self) -> tuple[Capability, ...]:
        """The capabilities that this loss cannot give."""
        missing = [] if offers(self.loss, Capability.CVXPY) else [Capability.CVXPY]
        if not offers(self.loss, Capability.LOSS_CONJUGATE):
            missing.append(Capability.DUAL_CUT)
        return tuple(missing)

    @property
    def infima(self) -> Array:
        """The weighted sum of the least losses, shape (1,)."""
        with np.errstate(invalid="ignore"):
            least = np.where(self.weights > 0.0, self.weights * self.loss.infimum(self.y), 0.0)
        return np.array([least.sum()])

    def image(self, x: Array) -> Array:
        """Return the predictions, shape (m,)."""
        z = self.gram.product(x[: self.gram.n])
        return z + x[-1] if self.intercept else z

    def values(self, z: Array) -> float:
        """Return the risk of the predictions z."""
        return float(self.losses.values(z)[0])

    def slopes(self, z: Array) -> Array:
        """Return a subgradient, shape (dim,): a product with the kernel matrix."""
        return self._slope(self.losses.derivatives(z))

    def cancelled(self, z: Array) -> float:
        """Return the size of the terms that cancel where the subgradient crosses a kink."""
        return float(self.losses.cancelled(z)[0])

    def line(self, z0: Array, z1: Array) -> Line:
        """Return t -> the risk of the predictions z0 + t (z1 - z0)."""
        return self.losses.line(z0, z1)

    def dual_cut(self, u: Array) -> tuple[Array, Array]:
        """Return the cut that multipliers of the examples give: c_i (u_i t_i - l*(u_i, y_i)), summed.

        Parameters
        ----------
        u : ndarray of shape (m,)
            Each in the domain of the conjugate l* of the loss; for those that are not the offset is -inf.

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
        """Return the examples, their losses and the kernel matrix, for methods on kernel machines."""
        return self

    def own_method(self, problem: Declaration) -> Method | None:
        """Return the method that suits a problem with this risk; None if none of ours does."""
        from cutplane.kernels import ActiveSet, Decomposition, FiniteNewton
        from cutplane.methods.estimates import suits

        methods = Decomposition(), FiniteNewton(), ActiveSet()
        return next((method for method in methods if suits(method, problem)), None)

    def cvxpy_form(self, x: Any) -> Any:
        """Return the risk as a cvxpy expression in x, a cvxpy expression of shape (dim,)."""
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

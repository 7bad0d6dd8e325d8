"""The risk of a linear predictor."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError
from cutplane.losses.base import ScalarLoss
from cutplane.losses.pieces import Pieces
from cutplane.pieces.capabilities import Capability, offers
from cutplane.pieces.forms import ImageForm, ProgrammeForm
from cutplane.pieces.lines import Line
from cutplane.pieces.parameters import read_only, set_fields
from cutplane.pieces.validation import Array, as_count, as_scalar
from cutplane.risks.base import ImagedRisk, Risk, RoundedTerms
from cutplane.risks.columns import Columns, in_units, moments, root_sums_of_squares
from cutplane.risks.data import Data, RunningSum, make_data
from cutplane.risks.examples import as_weights, bias_slopes, describe, split_rows, weighted_conjugates
from cutplane.risks.matrix import as_matrix
from cutplane.risks.sums import LinearObjective

if TYPE_CHECKING:
    from fractions import Fraction

    from cutplane.losses.weighted import WeightedLoss
    from cutplane.pieces.capabilities import ExactTerms
    from cutplane.pieces.forms import DiagonalQuadratic


_ROUNDED = 8
"""Number of rounded operations per term besides its sum: product, loss, weight and bound; few, because all
other operations are sums."""


class Predictions(np.ndarray):
    """The predictions X w, with the subgradient computed last in the current line search as `memory`."""

    memory: RunningSum | None = None


@dataclass(frozen=True, eq=False, repr=False)
class LinearRisk(ImagedRisk):
    """f(w) = sum_i c_i l(<x_i, w>, y_i), the weighted loss of the linear predictor w on m examples.

    With ``intercept`` the prediction is <x_i, w> + b, and the vector of the problem is (w, b).

    With ``normalize`` the weights c sum to 1, which makes f the (weighted) mean loss; without, c is
    `sample_weight`, which makes f the (weighted) sum.

    Parameters
    ----------
    X : ndarray, sparse array or sparse matrix of shape (m, n)
        One example per row, every entry finite. float32 and float64 ndarrays with contiguous rows or
        columns, CSR and CSC are not copied, and must not be changed afterwards. Other sparse formats are
        converted to CSR once, other number types to float64, and indices of 64 bits to 32 if these suffice.
        Results from float32 data are float64.
    y : array_like of shape (m,)
        Targets: labels -1 and +1 for a loss of classification such as `Hinge`, counts >= 0 for `Poisson`,
        else any numbers.
    loss : ScalarLoss
        For example ``Hinge()``.
    sample_weight : array_like of shape (m,), optional
        Weights >= 0, by default 1 for each example.
    normalize : bool, default True
        Whether the weights are divided by their sum.
    blocks : int, default 1
        Number of cuts per query, at most m. The examples are split into contiguous blocks of nearly equal
        size, and f is the sum of the risks of the blocks.
    intercept : bool, default False
        Whether the last coordinate of the problem, of dimension n + 1 then, is a bias that is added to every
        prediction; X is not copied. ``L2(lam, weights=[1, ..., 1, 0])`` leaves it unregularised.

    Raises
    ------
    InvalidInputError
        If a shape does not fit, an entry is not finite, X is empty, the loss refuses y, a weight is
        negative, or all are zero and `normalize` is set.

    Notes
    -----
    Where a loss overflows, the risk is inf and its subgradient is returned as zero. If a prediction differs
    from a kink of the loss only by rounding errors, it is treated as equal to the kink. For a piecewise
    linear loss, a line search updates the last subgradient only by the examples whose derivative has changed,
    because these are few.

    A `Problem` with a free intercept is solved for a centred copy of X if the mean of a column is eight or
    more times its deviation, for example if it is a year or a time stamp. Columns whose sizes differ by 1e4
    or more are scaled if regularizer and set are separable, or the regularizer is separable over groups.
    Results and certificates are in the units of X.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.losses import Hinge
    >>> from cutplane.risks import LinearRisk
    >>> risk = LinearRisk(np.eye(2), [1.0, -1.0], Hinge())
    >>> risk
    LinearRisk(Hinge(), 2 x 2 dense float64)
    >>> value, slope = risk.oracle(np.array([0.5, 0.0]))
    >>> float(value), slope.tolist()
    (0.75, [-0.5, 0.5])
    >>> LinearRisk(np.eye(2), [1.0, -1.0], Hinge(), intercept=True).image(np.array([0.5, 0.0, 3.0])).tolist()
    [3.5, 3.0]
    """

    black_box = False
    X: Any
    y: Array
    loss: ScalarLoss
    sample_weight: Array | None = None
    normalize: bool = True
    blocks: int = 1
    intercept: bool = False
    weights: Array = field(init=False)
    dim: int = field(init=False)
    n_blocks: int = field(init=False)
    _data: Data = field(init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.loss, ScalarLoss):
            raise InvalidInputError(
                f"loss must be a loss such as cutplane.losses.Hinge(), got {self.loss!r}."
            )
        X = as_matrix(self.X)
        m, n = X.shape
        y = self.loss.check_targets(self.y)
        if y.shape != (m,):
            raise InvalidInputError(f"y must have one target per row of X, shape ({m},), got {y.shape}.")
        blocks = as_count("blocks", self.blocks)
        if blocks > m:
            raise InvalidInputError(f"blocks must be at most the number of examples, {m}, got {blocks}.")
        if not isinstance(self.intercept, bool | np.bool_):
            raise InvalidInputError(f"intercept must be True or False, got {self.intercept!r}.")
        set_fields(
            self,
            X=X,
            y=y,
            weights=as_weights(self.sample_weight, m, self.normalize),
            dim=n + int(self.intercept),
            n_blocks=blocks,
            _data=make_data(X, np.arange(blocks + 1) * m // blocks),
        )

    def __repr__(self) -> str:
        blocks = f", {self.n_blocks} blocks" if self.n_blocks > 1 else ""
        intercept = ", intercept" if self.intercept else ""
        losses = vars(self).get("_losses")
        slow = ", its loss not compiled" if losses is not None and losses.refused else ""
        return f"LinearRisk({self.loss!r}, {describe(self.X)}{intercept}{blocks}{slow})"

    def formula(self, x: str = "x") -> str:
        share = r"\frac{1}{m} " if self.normalize else ""
        weighted = "" if self.sample_weight is None else "c_i "
        share = share if self.sample_weight is None else ""
        score = rf"\langle a_i, {x}\rangle" + (" + b" if self.intercept else "")
        return rf"{share}\sum_{{i=1}}^{{{len(self.y)}}} {weighted}{self.loss.formula(score)}"

    @cached_property
    def withheld(self) -> tuple[Capability, ...]:
        """The capabilities that this loss, or this storage format of X, does not have."""
        from cutplane.risks.normal_equations import is_affordable

        missing = [] if offers(self.loss, Capability.CVXPY) else [Capability.CVXPY]
        if not offers(self.loss, Capability.LOSS_CONJUGATE):
            missing.append(Capability.DUAL_CUT)
        if math.isinf(self.loss.smoothness):
            missing.append(Capability.CURVATURE)
        if self.loss.curvature is None or not is_affordable(self.X):
            missing.append(Capability.MINIMISER)
        return tuple(missing)

    @property
    def data(self) -> Data:
        """The passes over X."""
        return self._data

    @cached_property
    def infima(self) -> Array:  # pyright: ignore[reportIncompatibleMethodOverride]
        with np.errstate(invalid="ignore"):
            least = np.where(self.weights > 0.0, self.weights * self.loss.infimum(self.y), 0.0)
        return read_only(np.add.reduceat(least, self._data.edges[:-1]))

    def image(self, x: Array) -> Array:
        if not self.intercept:
            return self._remembering(self._data.times(x))
        z = self._data.times(x[:-1])
        z += x[-1]
        return self._remembering(z)

    def values(self, z: Array) -> Any:
        values = self._losses.values(z)
        return float(values[0]) if self.n_blocks == 1 else values

    def slopes(self, z: Array) -> Array:
        u = self._losses.derivatives(z)
        add = _memory(z) or self._data.transposed_times
        with np.errstate(over="ignore", invalid="ignore"):
            slopes = add(u) if self.n_blocks == 1 else self._data.block_sums(u)
            if self.intercept:
                bias = bias_slopes(u, self._data.edges)
                bias = bias if self.n_blocks == 1 else bias[:, np.newaxis]
                slopes = np.concatenate([slopes, bias], axis=-1)
        finite = np.isfinite(slopes)
        if not finite.all():
            slopes[~finite.all(axis=-1)] = 0.0
        return slopes

    def cancelled(self, z: Array) -> Any:
        sizes = self._losses.cancelled(z)
        return float(sizes[0]) if self.n_blocks == 1 else sizes

    def rounded_terms(self, x: Array, excess: float) -> RoundedTerms | None:
        """Return sizes of the terms at x; None if the loss is neither Lipschitz nor smooth.

        Let L be the Lipschitz constant of the loss, and beta the Lipschitz constant of its derivative. The
        derivatives u_i of the losses satisfy sum_i c_i u_i^2 <= min(L^2 sum_i c_i, 2 beta (f(x) - inf f)). By
        Cauchy-Schwarz, the sum of c_i |u_i X_ij| is at most the root of this bound times the root of
        sum_i c_i X_ij^2.
        """
        steep, smoothness, sizes, slopes, least = self._sizes
        if smoothness < math.inf:
            steep = min(steep, math.sqrt(2.0 * smoothness * max(excess, 0.0)))
        if steep == math.inf:
            return None
        losses = excess + 2.0 * least if excess < math.inf else 0.0
        count = sum(self.X.shape) + _ROUNDED
        return RoundedTerms(count, losses + steep * float(sizes @ np.abs(x)), steep * slopes)

    def line(self, z0: Array, z1: Array) -> Line:
        return self._losses.line(z0, z1)

    def curvature_bound(self, x: Array, direction: Array) -> float:
        """Return c with f(x + t d) <= f(x) + t <f'(x), d> + c t^2 / 2 for all t: one pass over the data."""
        return self.loss.smoothness * float(self.weights @ np.square(self.image(direction)))

    def combine(self, z0: Array, z1: Array, t: float) -> Array:
        return self._remembering(self._losses.combine(z0, z1, t), _memory(z0))

    def dual_cut(self, u: Array) -> tuple[Array, Array]:
        """Return slopes and offsets of the sum of c_i (u_i <x_i, w> - l*(u_i, y_i)) over each block.

        The shapes are (n_blocks, dim) and (n_blocks,). An offset is -inf if some u_i is outside the domain
        of l*.
        """
        edges, weighted = self._data.edges, self.weights * u
        slopes = self._data.block_sums(weighted)
        if self.intercept:
            slopes = np.append(slopes, bias_slopes(weighted, edges)[:, np.newaxis], axis=1)
        return slopes, -weighted_conjugates(self.loss, u, self.y, self.weights, edges)

    def declare(self, found: ExactTerms, factor: Fraction) -> None:
        weights = self.sample_weight, self.normalize
        found.losses(self.loss, self.X, self.y, *weights, self.intercept, factor)

    def linear_predictor(self) -> LinearRisk:
        return self

    def data_columns(self) -> Columns:
        with np.errstate(all="ignore"):
            return Columns(*moments(self.X), intercept=bool(self.intercept))

    def in_units(self, centre: Array, size: Array) -> LinearRisk:
        """Return the risk of the columns (X - 1 centre') / size."""
        return replace(self, X=in_units(self.X, centre, size))

    def split(self, n_parts: int) -> list[LinearRisk]:
        return split_rows(self, n_parts, blocks=1)

    def minimise_with(self, quadratic: DiagonalQuadratic) -> Array | None:
        from cutplane.risks.normal_equations import minimiser

        return minimiser(self, quadratic)

    def cvxpy_form(self, x: Any) -> Any:
        predictions, value, _ = self.cvxpy_image_form(x)
        return value(predictions)

    def cvxpy_image_form(self, x: Any) -> ImageForm:
        import cvxpy as cp

        X = cp.Constant(self.X)
        predictions = X @ x[:-1] + x[-1] if self.intercept else X @ x

        def value(z: Any) -> Any:
            return cp.sum(cp.multiply(self.weights, self.loss.cvxpy_form(z, self.y)))

        return ImageForm(predictions, value, self.multipliers)

    def programme_form(self) -> ProgrammeForm | None:
        from cutplane.risks.programmes import of_losses

        return of_losses(self)

    def example_slopes(self, x: Array) -> Array:
        return np.asarray(self.loss.derivative(np.asarray(self.image(x)), self.y))

    def multipliers(self, slope: Array, x: Array) -> Array:
        """Return multipliers for `dual_cut`, given the derivatives of the risk in the predictions.

        A multiplier with an infinite conjugate is replaced by the derivative of the loss at x.
        """
        at_x = self.example_slopes(x)
        u = np.divide(slope, self.weights, out=at_x.copy(), where=self.weights > 0.0)
        return np.where(np.isfinite(self.loss.conjugate(u, self.y)), u, at_x)

    @cached_property
    def _sizes(self) -> tuple[float, float, Array, Array, float]:
        """The numbers in `rounded_terms` that do not depend on x.

        They are L sqrt(sum_i c_i), beta, the sizes of the columns for the value, the same sizes for the
        slope, and the sum of |infima|. The size of column j is sqrt(sum_i c_i X_ij^2). The slope of the
        intercept has a smaller error than a sum, because `bias_slopes` is nearly exact.
        """
        whole = math.sqrt(self.weights.sum())
        with np.errstate(over="ignore"):
            sizes = root_sums_of_squares(self.X, self.weights)
        if not np.isfinite(sizes).all():  # the squares overflow, so that no bound is given
            return math.inf, math.inf, sizes, sizes, 0.0
        slopes = sizes
        if self.intercept:
            share = _ROUNDED / (sum(self.X.shape) + _ROUNDED)
            sizes, slopes = np.append(sizes, whole), np.append(sizes, share * whole)
        return (
            self.loss.lipschitz * whole,
            self.loss.smoothness,
            sizes,
            slopes,
            float(np.abs(self.infima).sum()),
        )

    @cached_property
    def _losses(self) -> WeightedLoss:
        from cutplane.losses.weighted import weighted_loss

        return weighted_loss(self.loss, self.y, self.weights, self._data.edges)

    def _remembering(self, z: Array, memory: RunningSum | None = None) -> Array:
        """Return z with a place for the last subgradient, if updates of it by few examples are possible."""
        if not (self.n_blocks == 1 and self._losses.is_piecewise_linear and self._data.cheap_rows):
            return z
        predictions = z.view(Predictions)
        predictions.memory = memory or RunningSum(self._data)
        return predictions


def _memory(z: Array) -> RunningSum | None:
    return z.memory if isinstance(z, Predictions) else None


@dataclass(frozen=True)
class Shortfall(ScalarLoss):
    """l(t, y) = max(0, y - t)."""

    def outline(self) -> Pieces:
        return Pieces(knots=[0.0], slopes=[-1.0, 0.0])


def NoveltyRisk(X: Any, nu: float, sample_weight: Any = None) -> Risk:
    """Return f(w, rho) = (1/nu) sum_i c_i max(0, rho - <w, x_i>) - rho, with weights c that sum to 1.

    This is the one-class support vector machine. Use it with ``L2(lam, weights=...)``, with weights 1 for w
    and 0 for rho: the half-space <w, x> >= rho then excludes at most the share nu of the (weighted) examples,
    and its distance from the origin is the largest possible. The vector of the problem is (w, rho), of
    dimension n + 1. Without a regularizer, f is unbounded below if a half-space separates all examples from
    the origin.

    Parameters
    ----------
    X : ndarray, sparse array or sparse matrix of shape (m, n)
        One example per row; see `LinearRisk`.
    nu : float
        The largest share of the examples that may be excluded, in (0, 1].
    sample_weight : array_like of shape (m,), optional
        Weights >= 0, not all zero, by default 1 for each example; c are these weights divided by their sum.

    Returns
    -------
    WeightedSum
        1/nu times a `LinearRisk` of the vector (w, -rho), minus rho.

    Raises
    ------
    InvalidInputError
        If X is empty or not finite, nu is out of range, a weight is negative or all are zero.

    References
    ----------
    B. Schoelkopf, J. C. Platt, J. Shawe-Taylor, A. J. Smola, R. C. Williamson, "Estimating the support of a
    high-dimensional distribution", Neural Computation 13, 2001, doi:10.1162/089976601750264965.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.risks import NoveltyRisk
    >>> risk = NoveltyRisk(np.array([[1.0], [2.0]]), nu=0.5)
    >>> value, slope = risk.oracle(np.array([1.0, 1.5]))
    >>> float(value), slope.tolist()
    (-1.0, [-1.0, 0.0])
    """
    X = as_matrix(X)
    m, n = X.shape
    nu = as_scalar("nu", nu, low=0.0, high=1.0, low_open=True)
    excess = LinearRisk(X, np.zeros(m), Shortfall(), sample_weight, intercept=True)
    rho = np.eye(1, n + 1, n)[0]
    return (1.0 / nu) * (excess @ sparse.diags_array(1.0 - 2.0 * rho)) + LinearObjective(-rho)

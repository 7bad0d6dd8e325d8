"""The risk of a linear classifier with one score for each class."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError, OracleError
from cutplane.losses.vector import MulticlassHinge, VectorLoss
from cutplane.pieces.capabilities import Capability, offers
from cutplane.pieces.forms import ImageForm
from cutplane.pieces.lines import Line
from cutplane.pieces.parameters import read_only, set_fields
from cutplane.pieces.validation import Array
from cutplane.risks.base import ImagedRisk
from cutplane.risks.columns import Columns, in_units, moments
from cutplane.risks.data import make_data, score_sums, scores
from cutplane.risks.examples import as_labels, as_weights, bias_slopes, describe, split_rows
from cutplane.risks.matrix import as_matrix, contiguous, unsigned
from cutplane.runtime.deadline import seconds_left

if TYPE_CHECKING:
    from cutplane.pieces.forms import DiagonalQuadratic

_CHECKED = 16
"""Number of classes whose margins are compared with values of the loss, because other classes have similar
margins."""
_SAME = 1e-9
"""Difference of values, relative to the scores, that is an error, because it is far above rounding errors."""
_MOST = 100
"""Largest number of passes over changing examples per full pass, because rounding errors could change them
forever."""
_OF_MARGINS = Capability.DUAL_CUT, Capability.BLOCK_ASCENT, Capability.IMAGE_FORM


@dataclass(frozen=True, eq=False, repr=False)
class MulticlassRisk(ImagedRisk):
    """f(W) = sum_i c_i l(W x_i, y_i), the weighted loss of m examples with a linear score for each class.

    The vector x of the problem is W, of shape (p, n) for p classes, row after row: ``W =
    x.reshape(risk.shape)``. The class predicted for an example is the one with the largest score.

    Parameters
    ----------
    X : ndarray, sparse array or sparse matrix of shape (m, n)
        One example per row, every entry finite; copied or not as by `LinearRisk`.
    y : array_like of shape (m,)
        Labels 0, 1, ..., p - 1.
    loss : VectorLoss, default MulticlassHinge()
        For example ``Softmax()``, or a subclass of `VectorLoss`.
    n_classes : int, optional
        p; by default one more than the largest label.
    sample_weight : array_like of shape (m,), optional
        Weights >= 0, by default 1 for each example.
    normalize : bool, default True
        Whether the weights c are divided by their sum, which makes f the (weighted) mean loss.
    intercept : bool, default False
        Whether the scores are W x_i + b. W then has a last column, b, and shape (p, n + 1); X is not copied.

    Attributes
    ----------
    shape : tuple of int
        The shape of W.

    Raises
    ------
    InvalidInputError
        If a shape does not fit, an entry is not finite, X is empty, a label is not an integer or out of
        range, the loss refuses this number of classes, a weight is negative, or all are zero and `normalize`
        is set.

    Notes
    -----
    The image of W is the matrix of scores, shape (m, p). To leave b unregularized, use ``L2(lam,
    weights=M.ravel())``, where M has the shape `shape`, zeros in its last column and ones elsewhere.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.risks import MulticlassRisk
    >>> risk = MulticlassRisk(np.eye(3), [0, 1, 2], intercept=True)
    >>> risk
    MulticlassRisk(MulticlassHinge(), 3 x 3 dense float64, 3 classes, intercept)
    >>> value, slope = risk.oracle(np.zeros(risk.dim))
    >>> round(float(value), 6), (3 * slope.reshape(risk.shape)).round(6)[0].tolist()
    (1.0, [-1.0, 1.0, 1.0, 1.0])
    """

    black_box = False
    X: Any
    y: Array
    loss: VectorLoss = field(default_factory=MulticlassHinge)
    n_classes: Any = None
    sample_weight: Array | None = None
    normalize: bool = True
    intercept: bool = False
    weights: Array = field(init=False)
    shape: tuple[int, int] = field(init=False)
    dim: int = field(init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.loss, VectorLoss):
            raise InvalidInputError(
                f"loss must be MulticlassHinge(), Softmax() or another VectorLoss, got {self.loss!r}."
            )
        X = as_matrix(self.X)
        y, n_classes = as_labels(self.y, X.shape[0], self.n_classes, "n_classes")
        self.loss.check_classes(n_classes)
        shape = n_classes, X.shape[1] + bool(self.intercept)
        set_fields(
            self,
            X=X,
            y=y,
            n_classes=n_classes,
            weights=as_weights(self.sample_weight, X.shape[0], self.normalize),
            shape=shape,
            dim=shape[0] * shape[1],
        )

    def __repr__(self) -> str:
        intercept = ", intercept" if self.intercept else ""
        return f"MulticlassRisk({self.loss!r}, {describe(self.X)}, {self.n_classes} classes{intercept})"

    @property
    def withheld(self) -> tuple[Capability, ...]:
        """The capabilities that this loss does not have."""
        form = () if offers(self.loss, Capability.CVXPY) else (Capability.CVXPY, Capability.IMAGE_FORM)
        return form if offers(self.loss, Capability.MARGINS) else (*form, *_OF_MARGINS)

    @property
    def smooth(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.loss.smooth

    @property
    def infima(self) -> Array:
        total = self.weights.sum()
        return np.array([total * self.loss.infimum if total > 0.0 else 0.0])

    def split(self, n_parts: int) -> list[MulticlassRisk]:
        return split_rows(self, n_parts)

    def data_columns(self) -> Columns:
        with np.errstate(all="ignore"):
            return Columns(*moments(self.X), self.n_classes, bool(self.intercept))

    def in_units(self, centre: Array, size: Array) -> MulticlassRisk:
        """Return the risk of the columns (X - 1 centre') / size."""
        return replace(self, X=in_units(self.X, centre, size))

    def image(self, x: Array) -> Array:
        W = x.reshape(self.shape)
        if not self.intercept:
            return scores(self.X, W)
        z = scores(self.X, W[:, :-1])
        z += W[:, -1]
        return z

    def values(self, z: Array) -> float:
        return float(self.weights @ self.loss.value(z, self.y))

    def slopes(self, z: Array) -> Array:
        return self._slope(self.loss.derivative(z, self.y) * self.weights[:, np.newaxis])

    def _slope(self, u: Array) -> Array:
        slopes = np.empty(self.shape)
        slopes[:, : self.X.shape[1]] = score_sums(self.X, u)
        if self.intercept:
            slopes[:, -1] = bias_slopes(u, np.array([0, len(u)]))[0]
        return slopes.ravel()

    def line(self, z0: Array, z1: Array) -> Line:
        return self.loss.line(z0, z1 - z0, self.y, self.weights)

    @cached_property
    def margins(self) -> Array:
        loss, p = cast(Any, self.loss), self.n_classes
        margins = np.ascontiguousarray(loss.margins(p), dtype=np.float64)
        if margins.shape != (p, p):
            raise OracleError(f"{loss!r}.margins({p}) must have shape {(p, p)}, got {margins.shape}.")
        y = np.arange(min(p, _CHECKED))
        s = np.random.default_rng(0).standard_normal((y.size, p))
        values, said = loss.value(s, y), (s + margins[y]).max(axis=1) - s[y, y]
        sizes = np.abs(s).max() + np.abs(margins[y]).max(axis=1)
        wrong = np.flatnonzero(~(np.abs(values - said) <= _SAME * sizes))
        if wrong.size:
            i = wrong[0]
            raise OracleError(
                f"{loss!r}.value is {values[i]:.6g} where its margins give {said[i]:.6g}, which is "
                "max_j (margins[y, j] + s_j) - s_y; correct one of them, or leave margins out."
            )
        return read_only(margins)

    def shares_of(self, multipliers: Array) -> Array:
        """Return multipliers as shares of the classes, shape (m, p): nonnegative, with sum 1 in each row."""
        shares = np.maximum(multipliers.reshape(self.y.size, self.n_classes), 0.0)
        sums = shares.sum(axis=1, keepdims=True)
        return np.divide(shares, sums, out=np.eye(self.n_classes)[self.y], where=sums > 0.0)

    def dual_cut(self, u: Array) -> tuple[Array, Array]:
        shares = self.shares_of(u)
        offset = self.weights @ (shares * self.margins[self.y]).sum(axis=1)
        shares[np.arange(self.y.size), self.y] -= 1.0
        return self._slope(shares * self.weights[:, np.newaxis])[np.newaxis], np.array([offset])

    def block_ascent(
        self, quadratic: DiagonalQuadratic, multipliers: Array | None = None
    ) -> MulticlassAscent:
        return MulticlassAscent(self, quadratic, multipliers)

    def cvxpy_form(self, x: Any) -> Any:
        scores, value, _ = self.cvxpy_image_form(x)
        return value(scores)

    def cvxpy_image_form(self, x: Any) -> ImageForm:
        import cvxpy as cp

        m, p = self.y.size, self.n_classes
        W = cp.reshape(x, self.shape, order="C")
        Z: Any = cp.Constant(self.X) @ W[:, : self.X.shape[1]].T
        if self.intercept:
            Z = Z + cp.Constant(np.ones((m, 1))) @ W[:, -1:].T
        loss: Any = self.loss

        def value(z: Any) -> Any:
            return cp.sum(
                cp.multiply(self.weights, loss.cvxpy_form(cp.reshape(z, (m, p), order="C"), self.y))
            )

        def shares(slope: Array, x: Array) -> Array:
            weights = self.weights[:, np.newaxis]
            found = np.divide(slope.reshape(m, p), weights, out=np.zeros((m, p)), where=weights > 0.0)
            found[np.arange(m), self.y] += 1.0
            return found.ravel()

        return ImageForm(cp.reshape(Z, (m * p,), order="C"), value, shares)


class MulticlassAscent:
    """Coordinate ascent on the dual of a loss of margins.

    The dual variables of an example are the shares of the classes, which lie in a simplex; the shares of all
    examples determine W. A visit maximises the dual over the shares of one example, by a projection on the
    simplex. After a pass over all examples, the changed ones are visited again, as long as the bound
    increases as fast per visit. The quadratic has equal positive weights. By default the share of the true
    class starts at 1.
    """

    def __init__(self, risk: MulticlassRisk, quadratic: DiagonalQuadratic, multipliers: Array | None = None):
        from cutplane.risks.multiclass_passes import visit_dense, visit_sparse

        self.risk = risk
        m, (p, width) = risk.y.size, risk.shape
        self._lam = float(quadratic.weights[0])
        self._shares = np.zeros((m, p))
        self._shares[np.arange(m), risk.y] = 1.0
        x = quadratic.centre
        if multipliers is not None:
            self._shares = risk.shares_of(multipliers)
            x = x - risk.dual_cut(multipliers)[0][0] / self._lam
        n = risk.X.shape[1]
        self._W = np.zeros((n + 1, p))
        self._W[:width] = x.reshape(p, width).T
        self._margins = risk.margins
        X: Any = sparse.csr_array(risk.X) if sparse.issparse(risk.X) else contiguous(risk.X)
        self._squares = make_data(X, np.array([0, m])).squared_norms() + float(risk.intercept)
        self._present = np.flatnonzero(risk.weights > 0.0)
        self._active = np.zeros(m, dtype=bool)
        self._rng = np.random.default_rng(0)
        self._visit: Any = visit_sparse if sparse.issparse(X) else visit_dense
        self._rows = (
            (read_only(X.data), unsigned(X.indices), unsigned(X.indptr))
            if sparse.issparse(X)
            else (read_only(X),)
        )

    @property
    def x(self) -> Array:
        """The point determined by the shares, shape (dim,)."""
        return self._W[: self.risk.shape[1]].T.ravel()

    @property
    def average(self) -> Array:
        """The same point as `x`, because visits are exact maximisations, which need no averaging."""
        return self.x

    @property
    def multipliers(self) -> Array:
        """The shares."""
        return self._shares.ravel().copy()

    def advance(self) -> float:
        """Visit all examples, then the changed ones as long as this is faster; return the sum of the gaps."""
        gap, rise = self._pass(self._present)
        visits = self._present.size
        for _ in range(_MOST):
            changing = np.flatnonzero(self._active)
            if not changing.size or seconds_left() == 0.0:
                break
            _, more = self._pass(changing)
            rise, visits = rise + more, visits + changing.size
            if more * visits < rise * changing.size:
                break
        return gap

    def _pass(self, examples: Array) -> tuple[float, float]:
        order, risk = self._rng.permutation(examples), self.risk
        return self._visit(
            *self._rows, order, risk.y, risk.weights, self._squares, self._margins, self._lam,
            float(risk.intercept), self._W, self._shares, self._active,
        )  # fmt: skip

"""The risk of a linear classifier with one score for each class."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from cutplane.exceptions import InvalidInputError, OracleError
from cutplane.losses.vector import MulticlassHinge, VectorLoss
from cutplane.pieces.capabilities import Capability, offers
from cutplane.pieces.forms import ImageForm
from cutplane.pieces.lines import Line
from cutplane.pieces.parameters import read_only, set_fields
from cutplane.pieces.validation import Array
from cutplane.risks.base import ImagedRisk
from cutplane.risks.columns import Columns, in_units, moments
from cutplane.risks.examples import as_labels, as_weights, bias_slopes, describe, split_rows
from cutplane.risks.matrix import as_matrix
from cutplane.risks.scores import score_sums, scores

if TYPE_CHECKING:
    from cutplane.pieces.forms import DiagonalQuadratic
    from cutplane.risks.multiclass_ascent import MulticlassAscent

_ASKED = 16
"""Classes for which a loss is asked whether its margins are those of its values."""
_SAME = 1e-9
"""Far above what rounding leaves of a difference of scores, relative to them."""
_OF_MARGINS = Capability.DUAL_CUT, Capability.BLOCK_ASCENT, Capability.IMAGE_FORM


@dataclass(frozen=True, eq=False, repr=False)
class MulticlassRisk(ImagedRisk):
    """f(W) = sum_i c_i l(W x_i, y_i), the weighted loss of m examples with a linear score for each class.

    The vector x of the problem is W, of shape (p, n) for p classes, row after row: ``W =
    x.reshape(risk.shape)``. The class predicted for an example is the one with the largest score.

    Parameters
    ----------
    X : ndarray, sparse array or sparse matrix of shape (m, n)
        One example per row, every entry finite. float32 and float64 ndarrays (of any memory order), CSR and
        CSC are not copied, and must not be changed afterwards; other sparse formats are converted to CSR and
        other number types to float64, once. All that is computed from float32 data is float64.
    y : array_like of shape (m,)
        Labels 0, 1, ..., p - 1.
    loss : VectorLoss, default MulticlassHinge()
        Or ``Softmax()``, or a subclass of your own.
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
        If a shape does not fit, an entry is not finite, X is empty, a label is no integer or out of range,
        the loss does not fit the number of classes, a weight is negative, or all are zero and `normalize` is
        set.

    Notes
    -----
    The image of W is the matrix of scores, shape (m, p). To leave b unregularized, use ``L2(lam,
    weights=...)`` with zeros in the last column of an array of ones of shape `shape`, flattened.

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
        """The capabilities that this loss cannot give."""
        form = () if offers(self.loss, Capability.CVXPY) else (Capability.CVXPY, Capability.IMAGE_FORM)
        return form if offers(self.loss, Capability.MARGINS) else (*form, *_OF_MARGINS)

    @property
    def smooth(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether the loss is."""
        return self.loss.smooth

    @property
    def infima(self) -> Array:
        """The least loss times the sum of the weights, shape (1,)."""
        total = self.weights.sum()
        return np.array([total * self.loss.infimum if total > 0.0 else 0.0])

    def split(self, n_parts: int) -> list[MulticlassRisk]:
        """Return at most `n_parts` risks of some of the examples each, whose sum is the risk."""
        return split_rows(self, n_parts)

    def data_columns(self) -> Columns:
        """Return what is known of the columns of X, which each class has a weight for."""
        with np.errstate(all="ignore"):
            return Columns(*moments(self.X), self.n_classes, bool(self.intercept))

    def in_units(self, centre: Array, size: Array) -> MulticlassRisk:
        """Return the risk of the columns (X - 1 centre') / size."""
        return replace(self, X=in_units(self.X, centre, size))

    def image(self, x: Array) -> Array:
        """Return the scores, shape (m, p): one pass over the data."""
        W = x.reshape(self.shape)
        if not self.intercept:
            return scores(self.X, W)
        z = scores(self.X, W[:, :-1])
        z += W[:, -1]
        return z

    def values(self, z: Array) -> float:
        """Return the risk of the scores z."""
        return float(self.weights @ self.loss.value(z, self.y))

    def slopes(self, z: Array) -> Array:
        """Return a subgradient, shape (dim,): one pass over the data."""
        return self._slope(self.loss.derivative(z, self.y) * self.weights[:, np.newaxis])

    def _slope(self, u: Array) -> Array:
        slopes = np.empty(self.shape)
        slopes[:, : self.X.shape[1]] = score_sums(self.X, u)
        if self.intercept:
            slopes[:, -1] = bias_slopes(u, np.array([0, len(u)]))[0]
        return slopes.ravel()

    def line(self, z0: Array, z1: Array) -> Line:
        """Return t -> the risk of the scores z0 + t (z1 - z0); no pass over the data."""
        return self.loss.line(z0, z1 - z0, self.y, self.weights)

    @cached_property
    def margins(self) -> Array:
        """Those of a loss of margins, shape (p, p); cuts are made of them, so its values are compared."""
        loss, p = cast(Any, self.loss), self.n_classes
        margins = np.ascontiguousarray(loss.margins(p), dtype=np.float64)
        if margins.shape != (p, p):
            raise OracleError(f"{loss!r}.margins({p}) must have shape {(p, p)}, got {margins.shape}.")
        y = np.arange(min(p, _ASKED))
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
        """Return multipliers as shares of the classes, shape (m, p): at least 0, the sums of rows 1."""
        shares = np.maximum(multipliers.reshape(self.y.size, self.n_classes), 0.0)
        sums = shares.sum(axis=1, keepdims=True)
        return np.divide(shares, sums, out=np.eye(self.n_classes)[self.y], where=sums > 0.0)

    def dual_cut(self, u: Array) -> tuple[Array, Array]:
        """Return the cut that shares of the classes give, for a loss of margins."""
        shares = self.shares_of(u)
        offset = self.weights @ (shares * self.margins[self.y]).sum(axis=1)
        shares[np.arange(self.y.size), self.y] -= 1.0
        return self._slope(shares * self.weights[:, np.newaxis])[np.newaxis], np.array([offset])

    def block_ascent(
        self, quadratic: DiagonalQuadratic, multipliers: Array | None = None
    ) -> MulticlassAscent:
        """Return coordinate ascent over the examples, for a loss of margins."""
        from cutplane.risks.multiclass_ascent import MulticlassAscent

        return MulticlassAscent(self, quadratic, multipliers)

    def cvxpy_image_form(self, x: Any) -> ImageForm:
        """Return the scores, the risk of them, and the shares that slopes in the scores come from."""
        import cvxpy as cp

        m, p = self.y.size, self.n_classes

        def shares(slope: Array, x: Array) -> Array:
            weights = self.weights[:, np.newaxis]
            steps = slope.reshape(m, p)
            own = np.divide(steps, weights, out=np.zeros((m, p)), where=weights > 0.0)
            own[np.arange(m), self.y] += 1.0
            return own.ravel()

        def value(z: Any) -> Any:
            return self._cvxpy_value(cp.reshape(z, (m, p), order="C"))

        return ImageForm(cp.reshape(self._cvxpy_scores(x), (m * p,), order="C"), value, shares)

    def cvxpy_form(self, x: Any) -> Any:
        """Return the risk as a cvxpy expression in x, a cvxpy expression of shape (dim,)."""
        return self._cvxpy_value(self._cvxpy_scores(x))

    def _cvxpy_scores(self, x: Any) -> Any:
        import cvxpy as cp

        W = cp.reshape(x, self.shape, order="C")
        z: Any = cp.Constant(self.X) @ W[:, : self.X.shape[1]].T
        return z + cp.Constant(np.ones((self.X.shape[0], 1))) @ W[:, -1:].T if self.intercept else z

    def _cvxpy_value(self, z: Any) -> Any:
        import cvxpy as cp

        loss: Any = self.loss
        return cp.sum(cp.multiply(self.weights, loss.cvxpy_form(z, self.y)))

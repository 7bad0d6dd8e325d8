"""The risk of a linear predictor whose loss is a measure of all predictions together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.measures.measures import Measure
from cutplane.pieces.parameters import set_fields
from cutplane.pieces.validation import Array, as_signs
from cutplane.risks.data import Data, make_data
from cutplane.risks.examples import describe
from cutplane.risks.joint import JointRisk
from cutplane.risks.matrix import as_matrix


@dataclass(frozen=True, eq=False, repr=False)
class MeasureRisk(JointRisk):
    """f(w) = max over labellings v of Delta(y, v) + (1/m) sum_i (v_i - y_i) <w, x_i>, for a measure Delta.

    v and y are vectors of m labels -1 and 1. Where the scores <w, x_i> have the right signs f is small, and
    f(w) is at least Delta(y, v) for the labels v_i = sign <w, x_i> that w predicts [1]_. For measures of the
    k largest scores, v has k positives; unless y has too, the mean of the best v takes its place in the sum,
    and f(w) is at least the loss of the k largest scores. For the area under the ROC curve v is an order of
    the examples, and f the mean hinge loss of pairs. An evaluation takes one sort of the scores and a search
    beside the passes over X.

    Parameters
    ----------
    X : ndarray, sparse array or sparse matrix of shape (m, n)
        One example per row, every entry finite. float32 and float64 ndarrays (of any memory order), CSR and
        CSC are not copied, and must not be changed afterwards; other sparse formats are converted to CSR and
        other number types to float64, once. All that is computed from float32 data is float64.
    y : array_like of shape (m,)
        Labels -1 and +1, at least one of either.
    measure : Measure
        ``measures.FBeta()``, ``measures.RocArea()``, ``measures.PrecisionAt(k)``, ``measures.RecallAt(k)``,
        ``measures.PrecisionRecallBreakEven()``, or one of your own (`measures.TableMeasure`).
    intercept : bool, default False
        Whether the last coordinate of the problem, of dimension n + 1 then, is a bias that is added to every
        score. ``L2(lam, weights=[1, ..., 1, 0])`` leaves it unregularised. Where the order of the scores
        alone matters, as in all of the above but F_beta, a bias means nothing, and is refused.

    Raises
    ------
    InvalidInputError
        If a shape does not fit, an entry is not finite, X is empty, all labels are the same, `measure` is no
        `Measure` or has no use for an intercept, or k is larger than m.

    References
    ----------
    .. [1] T. Joachims, "A support vector method for multivariate performance measures", ICML 2005,
       doi:10.1145/1102351.1102399.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> X, y = np.array([[2.0], [1.0], [-1.0], [-3.0]]), [1, 1, 1, -1]
    >>> risk = cut.MeasureRisk(X, y, cut.measures.FBeta(1.0))
    >>> risk
    MeasureRisk(FBeta(beta=1.0), 4 x 1 dense float64)
    >>> risk(np.zeros(1)), risk(np.ones(1))
    (1.0, 0.7)
    """

    X: Any
    y: Array
    measure: Measure
    intercept: bool = False
    dim: int = field(init=False)
    _data: Data = field(init=False)
    _positive: Array = field(init=False)
    _infimum: float = field(init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.measure, Measure):
            hint = f"; did you mean {self.measure.__name__}()?" if isinstance(self.measure, type) else "."
            raise InvalidInputError(
                f"measure must be a measure such as cutplane.measures.FBeta(), got {self.measure!r}{hint}"
            )
        X = as_matrix(self.X)
        m, n = X.shape
        y = as_signs("MeasureRisk", self.y)
        if y.shape != (m,):
            raise InvalidInputError(f"y must have one label per row of X, shape ({m},), got {y.shape}.")
        if (y == y[0]).all():
            raise InvalidInputError(f"MeasureRisk needs labels of both signs, but every y is {y[0]:g}.")
        if not isinstance(self.intercept, bool | np.bool_):
            raise InvalidInputError(f"intercept must be True or False, got {self.intercept!r}.")
        if self.intercept and self.measure.ranks:
            raise InvalidInputError(
                f"{self.measure!r} looks at the order of the scores alone, which a bias does not change; "
                "pass intercept=False."
            )
        positive = y > 0.0
        positives = int(positive.sum())
        set_fields(
            self,
            X=X,
            y=y,
            dim=n + int(self.intercept),
            _data=make_data(X, np.array([0, m])),
            _positive=positive,
            _infimum=self.measure.infimum(positives, m - positives),
        )

    def __repr__(self) -> str:
        return f"MeasureRisk({self.measure!r}, {describe(self.X)}{', intercept' if self.intercept else ''})"

    @property
    def black_box(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether the measure is one: somebody's own."""
        return self.measure.black_box

    @property
    def infima(self) -> Array:
        """What the measure says, shape (1,): 0 for most."""
        return np.array([self._infimum])

    def largest_piece(self, scores: Array) -> tuple[float, Array]:
        """Return the loss of the most violated labelling, and the slope of its function of the scores."""
        return self.measure.most_violated(scores, self._positive)

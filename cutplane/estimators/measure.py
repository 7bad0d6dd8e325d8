"""Linear classification by a measure of all predictions together."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from cutplane.estimators.base import Classification
from cutplane.estimators.documentation import documented
from cutplane.estimators.linear import LinearPredictor
from cutplane.exceptions import InvalidInputError
from cutplane.measures import FBeta, Measure, PrecisionRecallBreakEven, RocArea
from cutplane.pieces.validation import Array, as_scalar
from cutplane.problem import Problem
from cutplane.risks.measure import MeasureRisk

_NAMED: dict[str, Measure] = {
    "f1": FBeta(),
    "roc_area": RocArea(),
    "break_even": PrecisionRecallBreakEven(),
}


@documented
@dataclass(eq=False, repr=False)
class MeasureClassifier(Classification, LinearPredictor):
    """A linear classifier of two classes, trained for a measure of all predictions, with a certificate.

        minimise  max over labellings v of Delta(y, v) + (1/m) sum_i (v_i - y_i) z_i + alpha Omega(w)

    with the scores z_i = <w, x_i> + b; Delta is 1 - F1, for example. See `cutplane.MeasureRisk`. The positive
    class is ``classes_[1]``. Where the order of the scores alone matters for the measure, the bias is set
    after the fit: as many examples of the training set are predicted to be positive as are, or as the measure
    says.

    Parameters
    ----------
    measure : {"f1", "roc_area", "break_even"} or Measure, default "f1"
        What is trained for; or a measure such as ``cutplane.measures.PrecisionAt(100)``.
    penalty : {"l2", "l1", "elasticnet"} or Regularizer, default "l2"
        Omega: half the squared Euclidean norm; the l1 norm; `l1_ratio` times the second plus ``1 - l1_ratio``
        times the first; or a regularizer object of cutplane, whose own `lam` is a factor.
    alpha : float, default 1e-4
        Weight of the penalty; greater than 0.
    l1_ratio : float, default 0.5
        Share of the l1 norm in "elasticnet", in [0, 1].
    fit_intercept : bool, default True
        Whether there is a b.
    regularize_intercept : bool, default False
        Whether the penalty includes b.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
    intercept_ : ndarray of shape (1,)
        Zero without `fit_intercept`.

    Examples
    --------
    >>> from cutplane.estimators import MeasureClassifier
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], ["no", "no", "no", "yes"]
    >>> model = MeasureClassifier("f1", alpha=0.01).fit(X, y)
    >>> model.predict([[0.5], [2.9]]).tolist(), model.gap_ <= 1e-3
    (['no', 'yes'], True)
    """

    measure: Any = "f1"
    penalty: Any = "l2"
    alpha: float = 1e-4
    _: KW_ONLY
    l1_ratio: float = 0.5
    fit_intercept: bool = True
    regularize_intercept: bool = False

    def _fitted(self, X: Any, y: Any) -> Any:
        alpha = as_scalar("alpha", self.alpha, low=0.0, low_open=True)
        measure = self._measure()
        X, y = self._training(X, y)
        labels = self._labels(y)
        if len(self.classes_) > 2:
            raise InvalidInputError(
                "Only binary classification is supported by MeasureClassifier, but y has "
                f"{len(self.classes_)} classes."
            )
        risk = MeasureRisk(X, 2.0 * labels - 1.0, measure, self._biased)
        results: Any = self._solve([Problem(risk, self._regularizer(alpha, (1, risk.dim)))])
        if not results[0].x[: risk.X.shape[1]].any():
            warnings.warn(
                f"MeasureClassifier found coef_ = 0, where all scores are equal, because alpha = {alpha:g} "
                "outweighs the measure; pass a smaller alpha.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return results

    def _measure(self) -> Measure:
        if isinstance(self.measure, Measure):
            return self.measure
        if isinstance(self.measure, str) and self.measure in _NAMED:
            return _NAMED[self.measure]
        raise InvalidInputError(
            f"measure must be one of {sorted(_NAMED)} or a measure such as "
            f"cutplane.measures.PrecisionAt(100), got {self.measure!r}."
        )

    @property
    def _biased(self) -> bool:
        return bool(self.fit_intercept) and not self._measure().ranks

    def _set_solution(self, coef: Array, intercept: Array) -> None:
        self.coef_, self.intercept_ = coef, np.zeros(1)
        if intercept.size:
            self.intercept_ = intercept
        elif self.fit_intercept:
            self.intercept_ = np.array([-_threshold(self.results_[0].certificate.problem.risk, coef[0])])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _threshold(risk: MeasureRisk, coef: Array) -> float:
    """Return a score that as many examples exceed as the measure labels positive, or as are positive."""
    scores = np.sort(risk.image(coef).scores)[::-1]
    positives = int((risk.y > 0.0).sum())
    k = risk.measure.predicted(positives, scores.size - positives) or positives
    return 0.5 * (scores[k - 1] + scores[k]) if k < scores.size else scores[-1] - 1.0

"""Regularized linear prediction for scikit-learn: ``fit``, ``predict``, `GridSearchCV`, `Pipeline`."""

from cutplane.extras import require_extra

require_extra("sklearn", "sklearn")

from cutplane.estimators.classification import LinearClassifier  # noqa: E402
from cutplane.estimators.cross_validation import LinearClassifierCV, LinearRegressorCV  # noqa: E402
from cutplane.estimators.regression import LinearRegressor  # noqa: E402
from cutplane.estimators.svm import LinearSVC, LinearSVR  # noqa: E402

__all__ = [
    "LinearClassifier",
    "LinearClassifierCV",
    "LinearRegressor",
    "LinearRegressorCV",
    "LinearSVC",
    "LinearSVR",
]

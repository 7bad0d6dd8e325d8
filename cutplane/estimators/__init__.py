"""Linear prediction, boosting, kernels, sequences for scikit-learn: ``fit``, `GridSearchCV`, `Pipeline`."""

from cutplane.runtime.extras import require_extra

require_extra("sklearn", "sklearn")

from cutplane.estimators.boosting import (  # noqa: E402
    ERLPBoostClassifier,
    LPBoostClassifier,
    MLPBoostClassifier,
)
from cutplane.estimators.chains import ChainCRF, ChainCRFCV, ChainSSVM, ChainSSVMCV  # noqa: E402
from cutplane.estimators.classification import LinearClassifier  # noqa: E402
from cutplane.estimators.cross_validation import LinearClassifierCV, LinearRegressorCV  # noqa: E402
from cutplane.estimators.graph import GraphSVC  # noqa: E402
from cutplane.estimators.kernel_nu import KernelNuSVC, KernelNuSVR, KernelOneClass  # noqa: E402
from cutplane.estimators.kernel_ordinal import KernelOrdinalClassifier  # noqa: E402
from cutplane.estimators.kernel_svm import KernelLogisticRegression, KernelSVC, KernelSVR  # noqa: E402
from cutplane.estimators.measure import MeasureClassifier  # noqa: E402
from cutplane.estimators.mkl import (  # noqa: E402
    MKLClassifier,
    MKLClassifierCV,
    MKLRegressor,
    MKLRegressorCV,
)
from cutplane.estimators.polynomial_mkl import PolynomialMKLRegressor  # noqa: E402
from cutplane.estimators.ranking import LinearRanker  # noqa: E402
from cutplane.estimators.regression import LinearRegressor  # noqa: E402
from cutplane.estimators.sparse_kernel import SparseKernelClassifier, SparseKernelRegressor  # noqa: E402
from cutplane.estimators.structured import MultilabelSVM, StructuredSVM  # noqa: E402
from cutplane.estimators.svm import LinearSVC, LinearSVR  # noqa: E402

__all__ = [
    "ChainCRF",
    "ChainCRFCV",
    "ChainSSVM",
    "ChainSSVMCV",
    "ERLPBoostClassifier",
    "GraphSVC",
    "KernelLogisticRegression",
    "KernelNuSVC",
    "KernelNuSVR",
    "KernelOneClass",
    "KernelOrdinalClassifier",
    "KernelSVC",
    "KernelSVR",
    "LPBoostClassifier",
    "LinearClassifier",
    "LinearClassifierCV",
    "LinearRanker",
    "LinearRegressor",
    "LinearRegressorCV",
    "LinearSVC",
    "LinearSVR",
    "MKLClassifier",
    "MKLClassifierCV",
    "MKLRegressor",
    "MKLRegressorCV",
    "MLPBoostClassifier",
    "MeasureClassifier",
    "MultilabelSVM",
    "PolynomialMKLRegressor",
    "SparseKernelClassifier",
    "SparseKernelRegressor",
    "StructuredSVM",
]

"""scikit-learn estimators for linear prediction, boosting, kernels and structured outputs."""

from cutplane.runtime.extras import require_extra

require_extra("sklearn", "sklearn")

from cutplane.estimators.boosting import ERLPBoostClassifier, LPBoostClassifier, MLPBoostClassifier  # noqa: E402
from cutplane.estimators.kernel_nu import KernelNuSVC, KernelNuSVR, KernelOneClass  # noqa: E402
from cutplane.estimators.kernel_svm import (  # noqa: E402
    GraphSVC,
    KernelLogisticRegression,
    KernelOrdinalClassifier,
    KernelSVC,
    KernelSVR,
    SparseKernelClassifier,
    SparseKernelRegressor,
)
from cutplane.estimators.linear_models import (  # noqa: E402
    LinearClassifier,
    LinearClassifierCV,
    LinearRanker,
    LinearRegressor,
    LinearRegressorCV,
    LinearSVC,
    LinearSVR,
    MeasureClassifier,
)
from cutplane.estimators.mkl import (  # noqa: E402
    MKLClassifier,
    MKLClassifierCV,
    MKLRegressor,
    MKLRegressorCV,
    PolynomialMKLRegressor,
)
from cutplane.estimators.structured import (  # noqa: E402
    ChainCRF,
    ChainCRFCV,
    ChainSSVM,
    ChainSSVMCV,
    MultilabelSVM,
    StructuredSVM,
)

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

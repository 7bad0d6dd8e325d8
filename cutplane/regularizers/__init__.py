"""Regularizers: convex functions that every reduced problem contains exactly."""

from cutplane.regularizers.algebra import LinearImage, Partial, RegularizerSum, total_variation, trend_filter
from cutplane.regularizers.base import Minimum, Regularizer
from cutplane.regularizers.cvxpy import CvxpyRegularizer
from cutplane.regularizers.entropy import NegativeEntropy, RelativeEntropy
from cutplane.regularizers.norms import (
    GroupLasso,
    LInf,
    Norm,
    NuclearNorm,
    SpectralNorm,
    SquaredGroupNorm,
)
from cutplane.regularizers.quadratic import QuadraticForm
from cutplane.regularizers.separable import L1, L2, ElasticNet, NoRegularizer

__all__ = [
    "L1",
    "L2",
    "CvxpyRegularizer",
    "ElasticNet",
    "GroupLasso",
    "LInf",
    "LinearImage",
    "Minimum",
    "NegativeEntropy",
    "NoRegularizer",
    "Norm",
    "NuclearNorm",
    "Partial",
    "QuadraticForm",
    "Regularizer",
    "RegularizerSum",
    "RelativeEntropy",
    "SpectralNorm",
    "SquaredGroupNorm",
    "total_variation",
    "trend_filter",
]

"""Regularizers: convex functions that stay exact in every reduced problem."""

from cutplane.regularizers.base import Minimum, Regularizer
from cutplane.regularizers.combination import RegularizerSum
from cutplane.regularizers.cvxpy import CvxpyRegularizer
from cutplane.regularizers.differences import total_variation, trend_filter
from cutplane.regularizers.elastic_net import ElasticNet
from cutplane.regularizers.entropy import NegativeEntropy, RelativeEntropy
from cutplane.regularizers.group import SquaredGroupNorm
from cutplane.regularizers.group_lasso import GroupLasso
from cutplane.regularizers.image import LinearImage
from cutplane.regularizers.l1 import L1
from cutplane.regularizers.l2 import L2
from cutplane.regularizers.matrix_norms import NuclearNorm, SpectralNorm
from cutplane.regularizers.none import NoRegularizer
from cutplane.regularizers.norm import LInf, Norm
from cutplane.regularizers.partial import Partial
from cutplane.regularizers.quadratic import QuadraticForm

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

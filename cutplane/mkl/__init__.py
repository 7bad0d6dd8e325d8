"""Multiple kernel learning: a kernel machine whose kernel is a weighted sum of many."""

from cutplane.mkl.closed_form import ClosedFormWeights
from cutplane.mkl.nesterov import SmoothMKL
from cutplane.mkl.path import MKLPath
from cutplane.mkl.polynomial import PolynomialMKL, PolynomialMKLResult
from cutplane.mkl.problem import MKL
from cutplane.mkl.result import MKLResult
from cutplane.mkl.risk import MKLRisk
from cutplane.mkl.smooth import SmoothedDual
from cutplane.mkl.uniform import UniformWeights

__all__ = [
    "MKL",
    "ClosedFormWeights",
    "MKLPath",
    "MKLResult",
    "MKLRisk",
    "PolynomialMKL",
    "PolynomialMKLResult",
    "SmoothMKL",
    "SmoothedDual",
    "UniformWeights",
]

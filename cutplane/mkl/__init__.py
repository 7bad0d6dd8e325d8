"""Multiple kernel learning: a kernel machine whose kernel is a weighted sum of many."""

from cutplane.mkl.methods import ClosedFormWeights, UniformWeights
from cutplane.mkl.polynomial import PolynomialMKL, PolynomialMKLResult
from cutplane.mkl.problem import MKL
from cutplane.mkl.result import MKLPath, MKLResult
from cutplane.mkl.risk import MKLRisk
from cutplane.mkl.smooth import SmoothedDual, SmoothMKL

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

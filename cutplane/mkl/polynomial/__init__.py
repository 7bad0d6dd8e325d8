"""Kernels that are products of base kernels: too many to list, sampled one by one."""

from cutplane.mkl.polynomial.kernels import BaseKernels, GramBases, LinearBases
from cutplane.mkl.polynomial.problem import PolynomialMKL
from cutplane.mkl.polynomial.result import PolynomialMKLResult
from cutplane.mkl.polynomial.sampler import sample_tuple

__all__ = ["BaseKernels", "GramBases", "LinearBases", "PolynomialMKL", "PolynomialMKLResult", "sample_tuple"]

"""Kernels that are products of base kernels: too many to list, sampled one by one."""

from cutplane.mkl.polynomial.bases import BaseKernels, GramBases, LinearBases
from cutplane.mkl.polynomial.descent import sample_tuple
from cutplane.mkl.polynomial.problem import PolynomialMKL
from cutplane.mkl.polynomial.result import PolynomialMKLResult

__all__ = ["BaseKernels", "GramBases", "LinearBases", "PolynomialMKL", "PolynomialMKLResult", "sample_tuple"]

"""Kernels, and banks of many kernels on the same examples for multiple kernel learning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cutplane.kernels.bank import Bank, PrecomputedKernels, Products, as_bank
from cutplane.kernels.base import FunctionKernel, Kernel, Precomputed
from cutplane.kernels.functions import (
    ChiSquare,
    Cosine,
    Gaussian,
    Laplacian,
    Linear,
    Polynomial,
    single_feature_kernels,
)
from cutplane.kernels.kernel_bank import KernelBank

if TYPE_CHECKING:
    from cutplane.kernels.decomposition import Decomposition, NuDecomposition
    from cutplane.kernels.graph import deformed, laplacian
    from cutplane.kernels.greedy import GreedyBasis, greedy_basis
    from cutplane.kernels.held_out import leave_one_out, xi_alpha
    from cutplane.kernels.machine import KernelMachine, MachineSolution
    from cutplane.kernels.newton import FiniteNewton
    from cutplane.kernels.nu import NuRisk
    from cutplane.kernels.risk import KernelFunction, KernelRisk, SquaredNorm
    from cutplane.tracking.methods import ActiveSet, KernelPathTracking

__all__ = [
    "ActiveSet",
    "Bank",
    "ChiSquare",
    "Cosine",
    "Decomposition",
    "FiniteNewton",
    "FunctionKernel",
    "Gaussian",
    "GreedyBasis",
    "Kernel",
    "KernelBank",
    "KernelFunction",
    "KernelMachine",
    "KernelPathTracking",
    "KernelRisk",
    "Laplacian",
    "Linear",
    "MachineSolution",
    "NuDecomposition",
    "NuRisk",
    "Polynomial",
    "Precomputed",
    "PrecomputedKernels",
    "Products",
    "SquaredNorm",
    "as_bank",
    "deformed",
    "greedy_basis",
    "laplacian",
    "leave_one_out",
    "single_feature_kernels",
    "xi_alpha",
]


_LATER = {
    "ActiveSet": "cutplane.tracking.methods",
    "Decomposition": "cutplane.kernels.decomposition",
    "FiniteNewton": "cutplane.kernels.newton",
    "GreedyBasis": "cutplane.kernels.greedy",
    "KernelFunction": "cutplane.kernels.risk",
    "KernelMachine": "cutplane.kernels.machine",
    "KernelPathTracking": "cutplane.tracking.methods",
    "KernelRisk": "cutplane.kernels.risk",
    "MachineSolution": "cutplane.kernels.machine",
    "NuDecomposition": "cutplane.kernels.decomposition",
    "NuRisk": "cutplane.kernels.nu",
    "SquaredNorm": "cutplane.kernels.risk",
    "deformed": "cutplane.kernels.graph",
    "greedy_basis": "cutplane.kernels.greedy",
    "laplacian": "cutplane.kernels.graph",
    "leave_one_out": "cutplane.kernels.held_out",
    "xi_alpha": "cutplane.kernels.held_out",
}


def __getattr__(name: str) -> Any:
    """Import machines on first use, because their compiled loops need numba."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LATER[name]), name)

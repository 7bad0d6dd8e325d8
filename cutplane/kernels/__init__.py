"""Kernels, and banks of many kernels on the same examples: what multiple kernel learning sums up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cutplane.kernels.bank import KernelBank
from cutplane.kernels.base import Kernel
from cutplane.kernels.functions import Cosine, Gaussian, Laplacian, Linear, Polynomial, single_feature_kernels
from cutplane.kernels.precomputed import PrecomputedKernels, as_bank
from cutplane.kernels.protocol import Bank, Products

if TYPE_CHECKING:
    from cutplane.kernels.machine import KernelMachine, MachineSolution

__all__ = [
    "Bank",
    "Cosine",
    "Gaussian",
    "Kernel",
    "KernelBank",
    "KernelMachine",
    "Laplacian",
    "Linear",
    "MachineSolution",
    "Polynomial",
    "PrecomputedKernels",
    "Products",
    "as_bank",
    "single_feature_kernels",
]


def __getattr__(name: str) -> Any:
    """Import the kernel machine when it is first asked for: its compiled loops need numba."""
    if name not in ("KernelMachine", "MachineSolution"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from cutplane.kernels import machine

    return getattr(machine, name)

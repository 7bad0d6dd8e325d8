"""Tests whether a matrix is a kernel matrix: symmetric, and positive semidefinite up to rounding.

Matrices of up to 512 rows are tested as a whole. For larger matrices, principal blocks and the least Ritz
value of some Lanczos steps are tested. A failed test proves that the matrix is not a kernel matrix. A passed
test does not exclude negative eigenvalues that are small relative to the largest eigenvalue.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import cholesky, eigh, eigh_tridiagonal

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import Array

_WHOLE = 512
"""Rows up to which a matrix is tested as a whole, because factorising it takes some milliseconds."""
_BLOCKS, _BLOCK = 3, 128
"""Number of principal blocks tested in a larger matrix, and of their rows, because most indefinite kernels
have an indefinite block of this size."""
_STEPS = 20
"""Number of Lanczos steps, because an extreme eigenvalue is then accurate to about one percent."""
ASYMMETRY = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-4}
"""Allowed difference of K_ij and K_ji relative to the largest diagonal entry, because the two may be summed
in different orders."""
NEGATIVE = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-5}
"""Allowed negative eigenvalue relative to the trace, because rounding the entries, and computing the
eigenvalues, change them by some hundred rounding units of the trace."""


def accuracy_of(block: Array) -> np.dtype[Any]:
    """Return float32 if every entry is a float32 number, as in a matrix that was converted from float32."""
    with np.errstate(over="ignore"):
        return np.dtype(np.float32 if np.array_equal(block.astype(np.float32), block) else np.float64)


def check_definite(
    name: str,
    diagonal: Array,
    block: Callable[[Array], Array],
    product: Callable[[Array], Array] | None = None,
    whole: int = _WHOLE,
) -> None:
    """Raise `InvalidInputError` if the tests find that a matrix is not symmetric positive semidefinite."""
    m, trace = diagonal.size, float(diagonal.sum())
    rng = np.random.default_rng(0)
    kind = np.dtype(np.float32)
    for chosen in (
        [np.arange(m)]
        if m <= whole
        else [np.sort(rng.choice(m, _BLOCK, replace=False)) for _ in range(_BLOCKS)]
    ):
        entries = np.asarray(block(chosen))
        kind = max(kind, accuracy_of(entries), key=lambda dtype: dtype.itemsize)
        check_block(name, entries, chosen, trace, kind)
    if product is not None and m > whole:
        value, u = _least_ritz(product, m, rng)
        if value < -NEGATIVE[kind] * trace:
            raise InvalidInputError(describe(name, value, u, np.arange(m)))


def check_block(name: str, entries: Array, chosen: Array, trace: float, kind: np.dtype[Any]) -> None:
    """Raise `InvalidInputError` if a principal block is not symmetric and positive semidefinite."""
    entries = entries.astype(np.float64, copy=False)
    largest = float(entries.diagonal().max(initial=0.0))
    with np.errstate(invalid="ignore"):
        wrong = ~(np.abs(entries - entries.T) <= ASYMMETRY[kind] * largest)
    if wrong.any():
        i, j = np.argwhere(wrong)[0]
        raise InvalidInputError(
            f"{name} must be finite and symmetric, but entry [{chosen[i]}, {chosen[j]}] is "
            f"{entries[i, j]:.10g} and [{chosen[j]}, {chosen[i]}] is {entries[j, i]:.10g}; "
            "pass (K + K.T) / 2."
        )
    allowed = NEGATIVE[kind] * trace
    sizes = np.maximum(entries.diagonal(), 0.0) + allowed
    beyond = np.abs(entries) - np.sqrt(np.outer(sizes, sizes))
    i, j = np.unravel_index(int(beyond.argmax()), beyond.shape)
    if beyond[i, j] > 0.0:
        raise InvalidInputError(
            f"{name} is not positive semidefinite: entry [{chosen[i]}, {chosen[j]}] is {entries[i, j]:.6g}, "
            f"and {entries[i, i]:.6g} and {entries[j, j]:.6g} on the diagonal allow no more than the square "
            "root of their product. Pass a kernel, or K with its negative eigenvalues set to 0."
        )
    symmetric = 0.5 * (entries + entries.T)
    try:
        cholesky(symmetric + max(allowed, np.finfo(np.float64).tiny) * np.eye(chosen.size), lower=True)
    except np.linalg.LinAlgError:
        values, vectors = eigh(symmetric, subset_by_index=[0, 0])
        if values[0] < -allowed:
            raise InvalidInputError(describe(name, float(values[0]), vectors[:, 0], chosen)) from None


def check_along(name: str, rows: Any, a: Array, product: Array) -> None:
    """Raise `InvalidInputError` if a'K a is negative or the block with the largest |a_i| is indefinite."""
    trace, norm2 = float(rows.diagonal.sum()), float(a @ a)
    if norm2 > 0.0 and a @ product < -NEGATIVE[np.dtype(np.float32)] * trace * norm2:
        raise InvalidInputError(describe(name, float(a @ product) / norm2, a, np.arange(a.size)))
    if a.size > _WHOLE:
        chosen = np.sort(np.argsort(-np.abs(a), kind="stable")[:_WHOLE])
        entries = rows.block(chosen)
        check_block(name, entries, chosen, trace, accuracy_of(entries))


def describe(name: str, value: float, u: Array, numbers: Array) -> str:
    """Return the error message for a direction u of negative curvature."""
    u = u / np.linalg.norm(u)
    heaviest = np.argsort(-np.abs(u), kind="stable")[:3]
    parts = ", ".join(f"u[{numbers[i]}] = {u[i]:.3g}" for i in heaviest)
    return (
        f"{name} is not positive semidefinite: u'K u = {value:.3g} for a unit vector u with {parts} and "
        "smaller entries. Pass a kernel, or K with its negative eigenvalues set to 0."
    )


def _least_ritz(product: Callable[[Array], Array], m: int, rng: np.random.Generator) -> tuple[float, Array]:
    """Return the least Ritz value after some Lanczos steps, computed as u'K u, and its unit vector u."""
    basis = np.zeros((_STEPS, m))
    main, beside = np.zeros(_STEPS), np.zeros(_STEPS)
    v = rng.standard_normal(m)
    v /= np.linalg.norm(v)
    size = 0
    for k in range(_STEPS):
        basis[k], size = v, k + 1
        w = product(v)
        main[k] = v @ w
        for _ in range(2):
            w = w - basis[:size].T @ (basis[:size] @ w)
        beside[k] = np.linalg.norm(w)
        if not beside[k] > 1e-10 * abs(main[: k + 1]).max():
            break
        v = w / beside[k]
    _, vectors = eigh_tridiagonal(main[:size], beside[: size - 1], select="i", select_range=(0, 0))
    u = basis[:size].T @ vectors[:, 0]
    u /= np.linalg.norm(u)
    return float(u @ product(u)), u

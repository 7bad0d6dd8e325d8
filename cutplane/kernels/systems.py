"""The linear system of a Newton step of a kernel machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from cutplane.pieces.validation import Array
from cutplane.runtime.deadline import check_time

if TYPE_CHECKING:
    from cutplane.kernels.smooth_form import SmoothForm

Solve = Callable[[Array, Array | None], Array]
"""(right, start) -> the solution; conjugate gradients begin at the start."""

_NOTHING = 1e-100
"""Entries this small, relative to the diagonal, are nothing, but their products are subnormal, and slow."""


def solve_system(
    form: SmoothForm, x: Array, z: Array, bends: Array, dense: int, tolerance: float, steps: int | None
) -> Array | None:
    """Return the (a, b) that minimises the quadratic model of the losses at predictions z; None if it fails.

    With S the examples that bend, D their second derivatives and a known on the others, it solves

        (lam + D^1/2 K_SS D^1/2) v = D^1/2 (z_S - r_S / d_S - K_SN a_N - b),   a_S = D^1/2 v,

    whose matrix is at least lam, for the b with sum a = 0. The system is factorised if it has at most `dense`
    unknowns and `steps` of conjugate gradients are not given.
    """
    risk, lam, slopes = form.risk, form.lam, form.slopes(z)
    S = np.flatnonzero(bends > 0.0)
    a = np.where(bends > 0.0, 0.0, -slopes / lam)
    outside = risk.gram.product(a)[S]
    roots = np.sqrt(bends[S])
    right = roots * (z[S] - outside) - slopes[S] / roots
    if S.size and (S.size > dense or steps is not None):
        solve, begin = _by_gradients(form, S, roots, tolerance, steps), x[S] / roots
    else:
        solve, begin = _by_factor(form, S, roots), None
    if solve is None:
        return None
    first = solve(right, begin)
    if not risk.intercept:
        a[S] = roots * first
        return a if np.isfinite(a).all() else None
    second = solve(roots, None)
    share = float(roots @ second)
    b = (float(roots @ first) + float(a.sum())) / share if share > 0.0 else x[-1]
    a[S] = roots * (first - b * second)
    x = np.append(a, b)
    return x if np.isfinite(x).all() else None


def _by_factor(form: SmoothForm, S: Array, roots: Array) -> Solve | None:
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    if not S.size:
        return lambda right, start: right
    H = form.risk.gram.rows(S)[:, S]
    H *= roots[:, np.newaxis]
    H *= roots
    H[np.abs(H) < _NOTHING * form.lam] = 0.0
    np.einsum("ii->i", H)[...] += form.lam
    try:
        factor = cho_factor(H, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return None
    return lambda right, start: cho_solve(factor, right, check_finite=False)


def _by_gradients(form: SmoothForm, S: Array, roots: Array, tolerance: float, steps: int | None) -> Solve:
    whole = np.zeros(form.risk.gram.n)

    def times(v: Array) -> Array:
        whole[S] = roots * v
        return form.lam * v + roots * form.risk.gram.product(whole)[S]

    def solve(right: Array, start: Array | None) -> Array:
        v = np.zeros_like(right) if start is None else start.copy()
        residual = right - times(v) if v.any() else right.copy()
        direction, square = residual.copy(), float(residual @ residual)
        least = tolerance**2 * float(right @ right)
        for _ in range(2 * S.size if steps is None else steps):
            if square <= least:
                break
            check_time()
            image = times(direction)
            step = square / float(direction @ image)
            v += step * direction
            residual -= step * image
            before, square = square, float(residual @ residual)
            direction = residual + (square / before) * direction
        return v

    return solve

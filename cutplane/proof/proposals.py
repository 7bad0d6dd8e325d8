"""Float multipliers of the rows of a polyhedron, which `cutplane.proof.exact` makes exact."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from cutplane.proof.declared import ZERO, Declared, fractions


def proposals(found: Declared, slope: Sequence[Fraction], x: Any) -> Iterable[list[Fraction]]:
    """Return multipliers of the rows of the polyhedron, from float programmes."""
    held, n, size = (*found.inequalities, *found.equations), found.dim, len(found.inequalities)
    yield [ZERO] * len(held)
    if not held:
        return
    from scipy import optimize

    A, right = np.zeros((len(held), n)), np.array([float(b) for _, b in held])
    for k, (row, _) in enumerate(held):
        A[k, list(row)] = [float(a) for a in row.values()]
    q, v = (
        np.array(list(map(float, part))) for part in (found.q, map(sum, zip(found.b, slope, strict=True)))
    )
    a = np.array(list(map(float, found.l)))
    low, high = (
        np.array([float(end) if side is None else float(side) for side in sides])
        for sides, end in ((found.lower, -np.inf), (found.upper, np.inf))
    )
    at = np.zeros(n) if x is None else np.asarray(x, np.float64)
    # linear in (x, t) with t >= |x|, the quadratic by its tangent at x
    eye, none = np.eye(n), np.zeros((len(held), n))
    norm = np.block([[eye, -eye], [-eye, -eye]])
    wide = np.hstack([A, none])
    answer = optimize.linprog(
        np.concatenate([v + q * at, a]),
        np.vstack([wide[:size], norm]),
        np.concatenate([right[:size], np.zeros(2 * n)]),
        wide[size:] if size < len(held) else None,
        right[size:] if size < len(held) else None,
        [*zip(low, high, strict=True), *[(0.0, None)] * n],
    )
    start = np.zeros(len(held))
    if answer.status == 0:
        start = -np.concatenate([answer.ineqlin.marginals[:size], answer.eqlin.marginals])
        start[:size] = np.maximum(start[:size], 0.0)
        yield fractions(start)
    if not (q > 0.0).any():
        return

    def negative(mu: Any) -> tuple[float, Any]:
        c, soft = v + mu @ A, np.where(q > 0.0, q, 1e-300)  # any tiny number: linear coordinates go to a side
        with np.errstate(over="ignore"):
            z = np.clip(-np.sign(c) * np.maximum(np.abs(c) - a, 0.0) / soft, low, high)
        z = np.clip(z, -1e100, 1e100)
        return -float(0.5 * q @ z**2 + c @ z + a @ np.abs(z) - mu @ right), right - A @ z

    sides = [(0.0, None)] * size + [(None, None)] * (len(held) - size)
    options = {"ftol": 0.0, "gtol": 1e-15, "maxiter": 1000}
    best = optimize.minimize(negative, start, jac=True, bounds=sides, options=options).x
    yield fractions(np.nan_to_num(best))

"""Carries the cuts of one C over to another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cutplane.engine.certificate import Certificate
from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import Array
from cutplane.result import Result

if TYPE_CHECKING:
    from cutplane.kernels.dual_form import DualForm
    from cutplane.mkl.problem import MKL
    from cutplane.mkl.result import MKLResult


def transferred(earlier: MKLResult, mkl: MKL) -> Result:
    """Return a result for `mkl` with the cuts of a result for another C, from which the engine can start.

    The coefficients a of each cut are multiplied by the number s that keeps them in the domain of the
    conjugates and makes the cut highest at the last weights; its slopes by s^2. Cuts whose coefficients
    cannot be scaled into the domain are left out.

    Raises
    ------
    InvalidInputError
        If the earlier problem has other kernels or targets.
    """
    known, machine = earlier.certificate, mkl.machine
    if earlier.mkl.bank is not mkl.bank or not np.array_equal(earlier.mkl.machine.y, machine.y):
        raise InvalidInputError(
            "warm_start must be a result for the same kernels and targets: make the problem with the same "
            "bank (and rho), or by with_C."
        )
    rows = [row for row in range(known.offsets.size) if int(known.queries[row]) in known.duals]
    slopes, offsets, queries, duals = [], [], [], {}
    for row in rows:
        a = known.duals[int(known.queries[row])]
        s = _best_scale(machine.form, a, -2.0 * float(known.slopes[row] @ earlier.weights))
        if s is None:
            continue
        scaled = np.clip(s * a, machine.form.lower, machine.form.upper)
        if not machine.feasible(scaled):
            continue
        queries.append(len(duals))
        duals[len(duals)] = scaled
        slopes.append(s * s * known.slopes[row])
        offsets.append(-machine.conjugate_sum(scaled))
    multipliers = np.zeros(len(offsets))
    multipliers[-1:] = 1.0
    certificate = Certificate(
        slopes=np.array(slopes).reshape(-1, mkl.bank.n_kernels),
        offsets=np.array(offsets),
        blocks=np.zeros(len(offsets), dtype=np.int64),
        queries=np.array(queries, dtype=np.int64),
        multipliers=multipliers,
        points={},
        duals=duals,
        x=earlier.weights,
        lower_bound=-np.inf,
        upper_bound=np.inf,
        risk_value=earlier.objective,
        problem=mkl.problem,
    )
    return Result(
        status=earlier.status,
        reason=earlier.reason,
        history=earlier.history,
        method=earlier.method,
        certificate=certificate,
        backend="none",
    )


def _best_scale(form: DualForm, a: Array, curvature: float) -> float | None:
    """Return the s > 0 for which ``-sum_i phi_i(s a_i) - s^2 curvature / 2`` is largest, if there is one."""
    gain = float(form.linear @ a - form.tube * np.abs(a).sum())
    bend = form.ridge * float(a @ a) + curvature
    ends = np.where(a > 0.0, form.upper, form.lower)
    room = float((ends[a != 0.0] / a[a != 0.0]).min(initial=np.inf))
    s = min(gain / bend, room) if bend > 0.0 else room
    return s if 0.0 < s < np.inf else None

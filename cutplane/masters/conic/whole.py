"""The whole problem as one conic programme."""

from __future__ import annotations

import math
from typing import Any

import cvxpy as cp
import numpy as np

from cutplane.masters.base import MasterStatus, ReducedProblem
from cutplane.masters.conic.call import EXACT, call
from cutplane.masters.conic.cone_programme import BACKENDS, try_conic
from cutplane.pieces.validation import Array

_ENOUGH = 1e-6
"""A gap this small, relative to the value, is not worth a second backend."""


def solve_whole(risk: Any, reduced: ReducedProblem, backend: str) -> tuple[str, Array | None, Array | None]:
    """Solve min f(u) + g(x) over x in X0 subject to u = x.

    Returns
    -------
    message : str
        What the backend said, if it is not that the problem is solved.
    x : ndarray of shape (dim,) or None
    slope : ndarray of shape (dim,) or None
        The multiplier of the equation: a subgradient of f at x, and minus one of g over X0.
    """
    forms: tuple[Any, Any] = reduced.regularizer, reduced.simple_set
    regularizer, simple_set = forms
    u, x = cp.Variable(reduced.dim), cp.Variable(reduced.dim)
    copies = u == x
    objective = cp.Minimize(risk.cvxpy_form(u) + regularizer.cvxpy_form(x))
    whole = cp.Problem(objective, [copies, *simple_set.cvxpy_form(x)])
    status, message = call(whole, backend, EXACT.get(backend, {}))
    if status is not MasterStatus.SOLVED or x.value is None:
        return message, None, None
    slope = copies.dual_value
    return message, np.array(x.value), None if slope is None else -np.array(slope)


class Conjugate:
    """slope -> the offset of the highest cut of a risk over X0 with that slope: min of f(u) - <slope, u>.

    It is certified by the dual point of a conic solve; -inf if there is none.
    """

    def __init__(self, risk: Any, simple_set: Any, dim: int):
        self._u, self._slope = cp.Variable(dim), cp.Parameter(dim)
        objective = cp.Minimize(risk.cvxpy_form(self._u) - self._slope @ self._u)
        self._problem = cp.Problem(objective, simple_set.cvxpy_form(self._u))

    def __call__(self, slope: Array) -> float:
        """Return the offset."""
        self._slope.value = slope
        best = -math.inf
        for backend in BACKENDS:
            outcome = try_conic(self._problem, self._u, backend)
            if outcome is not None:
                best = max(best, outcome.bound)
                if outcome.value - outcome.bound <= _ENOUGH * abs(outcome.value):
                    break
        return best

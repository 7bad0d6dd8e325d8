"""Reduced problems of any kind, through cvxpy, by any backend it knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cvxpy as cp
import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.masters.base import (
    HALF_SPACE,
    Level,
    MasterSolution,
    MasterStatus,
    ReducedProblem,
    Rows,
    Stabilization,
)
from cutplane.masters.conic.call import EXACT, SLOPE_SIZES, call
from cutplane.masters.conic.dual_form import DualForm
from cutplane.masters.conic.primal_form import PrimalForm
from cutplane.masters.rows import is_finite
from cutplane.pieces.capabilities import Capability, ask, require
from cutplane.pieces.forms import DiagonalQuadratic
from cutplane.pieces.validation import Array

_FEASIBLE = 1e-4  # what an inaccurate backend violates, relative to the terms, in a problem that is feasible


class CvxpyMaster:
    """Solves any reduced problem whose regularizer and simple set have cvxpy forms.

    The problem is compiled once for a pool of parametrised rows that doubles, and re-solved warm. For a
    diagonal quadratic on the whole space (L2, or any such g with a prox term) with fewer rows than variables,
    the dual over the multipliers is solved instead.

    Parameters
    ----------
    reduced : ReducedProblem
    backend : str
        One of ``cvxpy.installed_solvers()``, in any case.
    options : mapping, optional
        Passed to the backend (``eps_abs``, ``max_iter``, ...), on top of defaults that make it accurate.

    Raises
    ------
    InvalidInputError
        If the backend is not installed; the message lists those that are.
    MissingCapabilityError
        If a cvxpy form is missing; the message names the piece.

    Examples
    --------
    >>> import numpy as np
    >>> from types import SimpleNamespace
    >>> from cutplane.masters.base import ReducedProblem
    >>> from cutplane.masters.conic.cvxpy import CvxpyMaster
    >>> from cutplane.regularizers import L2
    >>> from cutplane.sets import WholeSpace
    >>> master = CvxpyMaster(ReducedProblem(1, 1, L2(1.0), WholeSpace(1)), "clarabel")
    >>> cuts = SimpleNamespace(
    ...     slopes=np.array([[1.0], [-3.0]]), offsets=np.zeros(2), blocks=np.zeros(2, int), ids=np.arange(2)
    ... )
    >>> solution = master.solve(cuts)
    >>> abs(solution.x).round(4).tolist(), solution.multipliers.round(4).tolist()
    ([0.0], [0.75, 0.25])
    """

    def __init__(self, reduced: ReducedProblem, backend: str, options: Mapping[str, Any] | None = None):
        installed = [name for name in cp.installed_solvers() if name.upper() == str(backend).upper()]
        if not installed:
            names = sorted(name.lower() for name in cp.installed_solvers())
            raise InvalidInputError(f"The backend {backend!r} is not installed; choose one of {names}.")
        for piece in (reduced.regularizer, reduced.simple_set):
            require(piece, Capability.CVXPY, "CvxpyMaster", "Give it a method cvxpy_form(x).")
        self.reduced = reduced
        self.name = installed[0].lower()
        self._backend, self._options, self._exact = installed[0], dict(options or {}), False
        self.primal = PrimalForm(reduced, self._call, SLOPE_SIZES.get(installed[0], 1.0))
        self.dual = DualForm(reduced, self._call)

    def solve(self, rows: Rows, stabilization: Stabilization = None, accuracy: float = 0.0) -> MasterSolution:
        """Solve, with tighter tolerances if `accuracy` is 0, which is asked for when nothing else helps.

        Where the dual form fails, or leaves a half-space violated, the reduced problem may be infeasible: the
        primal form decides.
        """
        if np.unique(rows.blocks[rows.blocks != HALF_SPACE]).size < self.reduced.n_blocks:
            return MasterSolution(None, None, MasterStatus.UNBOUNDED, "a block of the risk has no cut")
        if not is_finite(rows):
            return MasterSolution(None, None, MasterStatus.FAILED, f"{self.name}: a row is not finite")
        self._exact = accuracy == 0.0
        quadratic = self._quadratic(stabilization) if rows.ids.size < self.reduced.dim else None
        if quadratic is not None:
            solution = self.dual.solve(rows, quadratic)
            if solution.x is not None and _respects_half_spaces(rows, solution.x):
                return solution
        return self.primal.solve(rows, stabilization)

    def _call(self, problem: cp.Problem, **how: Any) -> tuple[MasterStatus, str]:
        tight = EXACT.get(self._backend, {}) if self._exact else {}
        return call(problem, self._backend, {**tight, **self._options}, **how)

    def _quadratic(self, stabilization: Stabilization) -> DiagonalQuadratic | None:
        """Return g + prox as a definite diagonal quadratic on the whole space; None if it is not one."""
        reduced = self.reduced
        bounds = reduced.simple_set.bounds(reduced.dim)
        if isinstance(stabilization, Level) or bounds is None or np.isfinite(bounds).any():
            return None
        form: DiagonalQuadratic | None = ask(reduced.regularizer, Capability.QUADRATIC, reduced.dim)
        if form is None or stabilization is None:
            return form if form is not None and (form.weights > 0.0).all() else None
        weights = form.weights + stabilization.weight
        centre = (form.weights * form.centre + stabilization.weight * stabilization.centre) / weights
        return DiagonalQuadratic(weights, centre) if (weights > 0.0).all() else None


def _respects_half_spaces(rows: Rows, x: Array) -> bool:
    mine = rows.blocks == HALF_SPACE
    slopes, offsets = rows.slopes[mine], rows.offsets[mine]
    size = np.abs(slopes) @ np.abs(x) + np.abs(offsets)
    return bool((slopes @ x + offsets <= _FEASIBLE * size).all())

"""OSQP through cvxpy, without updates that it rejects in silence."""

from __future__ import annotations

from typing import Any

import numpy as np
import osqp
from cvxpy.reductions.solvers.qp_solvers.osqp_qpif import OSQP


class CarefulOSQP(OSQP):
    """cvxpy's interface to OSQP, except that a warm start passes on both sides of the constraints.

    cvxpy passes on the side that changed. OSQP compares it with the other one, which it has scaled and
    rounded since, and may find an equation whose lower side is larger than the upper one by a rounding error.
    Then it rejects the update and solves the old problem, and cvxpy does not notice. Nor does it notice that
    OSQP has caught a Ctrl-C.
    """

    def name(self) -> str:
        """Return a name of its own, as cvxpy asks of custom solvers."""
        return "CAREFUL_OSQP"

    def solve_via_data(
        self, data: Any, warm_start: bool, verbose: bool, solver_opts: Any, solver_cache: Any = None
    ) -> Any:
        """Solve, having made cvxpy forget the sides it passed on last time."""
        if solver_cache and self.name() in solver_cache:
            _, last, _ = solver_cache[self.name()]
            for side in ("l", "u"):
                last[side] = np.full_like(last[side], np.nan)
        results = super().solve_via_data(data, warm_start, verbose, solver_opts, solver_cache)
        if results.info.status_val == osqp.SolverStatus.OSQP_SIGINT:  # pyright: ignore[reportAttributeAccessIssue]
            raise KeyboardInterrupt
        return results

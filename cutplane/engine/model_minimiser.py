"""The minimiser of the model, with or without a stabilisation, and the bound that its multipliers give."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cutplane.engine.dual import pins
from cutplane.engine.half_spaces import infeasible_end, into_half_spaces
from cutplane.masters.base import MasterSolution, MasterStatus, Prox, Stabilization
from cutplane.pieces.validation import Array
from cutplane.status import Status
from cutplane.stopping import Ended

if TYPE_CHECKING:
    from cutplane.engine.bundle import Bundle
    from cutplane.engine.run import Run


_NOISE = 1e-13
"""Rounding errors of a row at a point, relative to its terms."""


@dataclass(eq=False)
class Reduced:
    """The solution of a reduced problem.

    Attributes
    ----------
    x : ndarray of shape (dim,)
        The minimiser, in X0.
    objective : float
        f_t(x) + g(x), without the stabilisation.
    models : ndarray of shape (n_blocks,)
        The blocks of f_t(x).
    """

    x: Array
    objective: float
    models: Array


class ModelMinimiser:
    """Solves the reduced problems of a run, which it does not keep, because a cycle of objects lives on.

    Attributes
    ----------
    last : Reduced or None
        The last solution.
    set_multipliers : ndarray or None
        Those of the simple set's rows that came with it, if the master has them.
    """

    def __init__(self) -> None:
        self.last: Reduced | None = None
        self.set_multipliers: Array | None = None
        self._multipliers = np.empty(0)
        self._guard = 0.0
        self._pinned = False

    @property
    def extent(self) -> float:
        """The largest absolute entry of the last minimiser, where the next best point may lie."""
        return 0.0 if self.last is None else float(np.abs(self.last.x).max())

    def minimise(self, run: Run, stabilization: Stabilization) -> Reduced:
        """Solve the reduced problem, and take the lower bound; see `Run.reduced`."""
        if not run.bundle.has_cuts():
            raise Ended(Status.STALLED, "no block of the risk could be evaluated at any point")
        status = (
            self._solve(run, stabilization)
            if stabilization or self._is_pinned(run)
            else MasterStatus.UNBOUNDED
        )
        if status is MasterStatus.UNBOUNDED and stabilization is None:
            self._guard = 0.5 * self._guard if self._guard else run.natural_weight(run.anchor)
            stabilization = Prox(run.anchor.x, self._guard)
            status = self._solve(run, stabilization)
        if status is MasterStatus.INFEASIBLE:
            raise Ended(*infeasible_end(run, stabilization is not None))
        if status is MasterStatus.UNBOUNDED:
            if math.isfinite(run.lower):
                raise Ended(Status.STALLED, "masters call a reduced problem unbounded that has a lower bound")
            raise Ended(Status.UNBOUNDED, "the reduced problem is unbounded below")
        run.certify(self._multipliers, self.set_multipliers, run.lower)
        assert self.last is not None
        if isinstance(stabilization, Prox):
            run.mark("prox", stabilization.centre, self.last.x, value=stabilization.weight)
        elif stabilization is not None:
            run.mark("level", stabilization.centre, self.last.x, value=stabilization.level)
        else:
            run.mark("model", self.last.x)
        return self.last

    def is_raised_by(self, bundle: Bundle, new: slice) -> bool:
        """Tell whether rows of the bundle lie above the last model at its minimiser, if there was one."""
        if self.last is None:
            return True
        products, offsets = bundle.slopes[new] @ self.last.x, bundle.offsets[new]
        rise = products + offsets - np.append(self.last.models, 0.0)[bundle.blocks[new]]
        return bool((rise > _NOISE * (np.abs(offsets) + np.abs(products))).any())

    def _is_pinned(self, run: Run) -> bool:
        free = run.dual.free
        if free.size and not self._pinned:
            self._pinned = pins(run.bundle.slopes, run.bundle.blocks, free)
        return not free.size or self._pinned

    def _solve(self, run: Run, stabilization: Stabilization) -> MasterStatus:
        gap = run.upper - run.lower
        accuracy = 1e-6 * gap if math.isfinite(gap) and not run.exact else 0.0

        def complaint(solution: MasterSolution) -> str | None:
            assert solution.x is not None and solution.multipliers is not None
            x = run.problem.into_simple_set(solution.x)
            if run.bundle.has_half_spaces:
                x = into_half_spaces(run.problem, run.bundle, x)
            models = run.bundle.block_models(x)
            total = models.item() if models.size == 1 else float(models.sum())
            self.last = Reduced(x, total + run.problem.regularizer.value(x), models)
            self._multipliers = solution.multipliers
            self.set_multipliers = solution.set_multipliers
            if stabilization is not None or not math.isfinite(run.upper):
                return None
            size = max(abs(run.upper), run.scale)
            allowed = max(gap, 1e-3 * abs(run.upper)) if math.isfinite(gap) else size
            if self.last.objective - run.upper <= allowed:
                return None
            return (
                f"its minimiser of the model has the value {self.last.objective:.3g}, above the objective "
                f"{run.upper:.3g} already reached"
            )

        run.solver.measure(run.anchor.extent, run.bundle.steepest)
        return run.solver.solve(run.bundle, stabilization, accuracy, complaint).status

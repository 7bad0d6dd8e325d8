"""Finite lower bounds from multipliers that a solver left slightly outside the domain of the conjugate."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from cutplane.engine.bound import DualFunction, DualValue, combine
from cutplane.engine.bundle import Bundle
from cutplane.masters.base import MasterStatus, Prox, ReducedProblem
from cutplane.masters.select import Backend, first_candidate
from cutplane.pieces.validation import Array

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration

_SHARES = (1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2, 0.1, 0.5)
_LARGE = 100_000
"""From so many entries of the cuts on, a linear programme takes longer than prox problems (measured)."""
_WEIGHTS = (1.0, 1e-2, 1e-4, 1e-6)
"""Prox weights in units of the steepest cut: the slope that they leave has to be small."""


class SafeDual:
    """The dual function, with a way back into its domain.

    For a regularizer that grows linearly (a norm), L is finite only for multipliers in a polar set, whose
    boundary is where the solutions lie. Multipliers of the reduced problem with half the weight of the
    regularizer, and a weak prox term where a linear programme would take long, lie well inside; mixing in a
    small share of them makes the bound finite, at a loss of that share.

    Parameters
    ----------
    problem : Problem
    """

    def __init__(self, problem: Declaration):
        self.problem = problem
        self.dual = DualFunction(problem)
        self._ids = np.empty(0, dtype=np.int64)
        self._weights = np.empty(0)
        self._slope: Array | None = None  # that these give
        self._next_attempt = 0
        self._least = 0
        """Which share was the least that helped, the last time: where the next search begins."""

    @property
    def calls_solver(self) -> bool:
        """Whether an evaluation includes a small convex solve."""
        return self.dual.calls_solver

    def evaluate(
        self,
        bundle: Bundle,
        multipliers: Array,
        upper: float,
        set_multipliers: Array | None = None,
        reach: float = 0.0,
        lower: float = -math.inf,
    ) -> DualValue:
        """Return L(multipliers), or L of a nearby mixture if that is -inf; see `Run.certify`."""
        rows = bundle.slopes, bundle.offsets, bundle.blocks
        known = reach, bundle.sizes
        if self.problem.regularizer.lam > 0.0:
            lower = -math.inf
        exact = self.dual(*rows, multipliers, upper, set_multipliers, *known, lower)
        if exact.value > -math.inf or not self.problem.regularizer.lam > 0.0:
            return exact
        inside = self._inside(bundle)
        if inside is None:
            return exact

        if self._slope is None:
            self._slope = combine(inside, bundle.slopes)
        outer, inner = exact.slope, self._slope

        def mixture(share: float) -> DualValue:
            mixed = (1.0 - share) * exact.multipliers + share * inside
            return self.dual(*rows, mixed, upper, None, *known)

        def helps(trial: int) -> bool:
            share, finite = _SHARES[trial], None
            if outer is not None:
                finite = self.dual.is_finite((1.0 - share) * outer + share * inner, upper, reach)
            return mixture(share).value > -math.inf if finite is None else finite

        least = self._least
        while least < len(_SHARES) and not helps(least):
            least += 1
        if least == len(_SHARES):
            return exact
        while 0 < least <= self._least and helps(least - 1):
            least -= 1
        self._least = least
        return mixture(2.0 * _SHARES[least])

    def _inside(self, bundle: Bundle) -> Array | None:
        """Return multipliers well inside the domain, one per row of the bundle, or None if none are known."""
        if not np.isin(self._ids, bundle.ids).all() or not self._ids.size:
            if len(bundle) < self._next_attempt:
                return None
            self._next_attempt = len(bundle) + len(bundle) // 4
            self._ids, self._weights = self._solve_with_half_weight(bundle)
            self._slope = None
        if not self._ids.size:
            return None
        inside = np.zeros(len(bundle))
        inside[np.searchsorted(bundle.ids, self._ids)] = self._weights
        return inside

    def _solve_with_half_weight(self, bundle: Bundle) -> tuple[Array, Array]:
        problem = self.problem
        half = problem.regularizer.with_lam(0.5 * problem.regularizer.lam)
        reduced = ReducedProblem(problem.dim, problem.risk.n_blocks, half, problem.simple_set)
        weights = _WEIGHTS if bundle.slopes.size > _LARGE else ()
        proxes = [Prox(np.zeros(problem.dim), weight * bundle.steepest) for weight in weights]
        for prox in proxes or [None]:
            try:
                solution = first_candidate(reduced, prox and Prox, Backend()).build().solve(bundle, prox)
            except Exception:
                break
            if solution.status is MasterStatus.SOLVED and solution.multipliers is not None:
                multipliers = np.maximum(solution.multipliers, 0.0)
                rows = bundle.slopes, bundle.offsets, bundle.blocks
                if not proxes or self.dual(*rows, multipliers, math.inf).value > -math.inf:
                    return bundle.ids.copy(), multipliers
        return np.empty(0, dtype=np.int64), np.empty(0)

"""The lower bound, with other multipliers where the multipliers of the reduced problem give no bound."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.masters.base import HALF_SPACE, MasterStatus, Prox, ReducedProblem
from cutplane.masters.select import Backend, first_candidate
from cutplane.pieces.validation import Array
from cutplane.proof.dual import DualFunction, DualValue
from cutplane.proof.evidence import dense, row_sizes

if TYPE_CHECKING:
    from cutplane.engine.bundle import Bundle
    from cutplane.engine.declaration import Declaration

_PARTS = 0.5, *(1.0 - 10.0**-digits for digits in range(1, 7))
"""Factors of the regularizer's weight, ascending because smaller weights give multipliers farther inside the
domain of L."""
_NOTHING = np.empty(0, dtype=np.int64), np.empty(0)
_SHARES = (1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2, 0.1, 0.5)
"""Shares of the multipliers inside the domain in a mixture, ascending because a larger share lowers the bound
more."""
_LARGE = 100_000
"""Number of entries of the cuts from which prox problems replace linear programmes, because the latter are
then slower."""
_WEIGHTS = (1.0, 1e-2, 1e-4, 1e-6)
"""Weights of the prox term relative to the steepest cut, tried in this order until one gives a bound, because
a smaller one changes the minimiser less."""
_FLAT = 1e-9
"""Largest relative residual of a flat combination of slopes, because nnls is less accurate than float64."""


class DualSearch(DualFunction):
    """The lower bound as a function of multipliers, which are mixed with others where the bound is -inf."""

    def __init__(self, problem: Declaration):
        super().__init__(problem)
        self._inside: tuple[Array, Array] = _NOTHING
        self._attempt = self._share = 0

    def evaluate(
        self,
        bundle: Bundle,
        multipliers: Array,
        upper: float,
        set_multipliers: Array | None = None,
        reach: float = 0.0,
        lower: float = -math.inf,
    ) -> DualValue:
        """Return L(multipliers), or L of a mixture if that is -inf; see `__call__` for the parameters.

        If the regularizer grows linearly, for example a norm, L is finite only in a polar set of multipliers,
        and solutions lie on its boundary, where rounding errors make L infinite. The multipliers of a reduced
        problem with half the weight of the regularizer lie well inside. A mixture with a small share of them
        makes the bound finite, and lowers it by about this share.
        """
        rows = bundle.slopes, bundle.offsets, bundle.blocks
        if self.problem.regularizer.lam > 0.0:
            lower = -math.inf
        found = self(*rows, multipliers, upper, set_multipliers, reach, lower)
        if found.value > -math.inf or not self.problem.regularizer.lam > 0.0:
            return found
        inside = self._multipliers_inside(bundle)
        if inside is None:
            return found
        for least in range(max(self._share - 1, 0), len(_SHARES)):
            if self(*rows, _mixed(found, inside, _SHARES[least]), upper, None, reach).value > -math.inf:
                self._share = least
                return self(*rows, _mixed(found, inside, 2.0 * _SHARES[least]), upper, None, reach)
        return found

    def _multipliers_inside(self, bundle: Bundle) -> Array | None:
        """Return multipliers well inside the domain of L, one per row of the bundle; None if not found."""
        ids, weights = self._inside
        if not ids.size or not np.isin(ids, bundle.ids).all():
            if len(bundle) < self._attempt:
                return None
            self._attempt = len(bundle) + len(bundle) // 4
            found = self._multipliers_of_less_weight(bundle)
            self._inside = (ids, weights) = (bundle.ids.copy(), found) if found is not None else _NOTHING
        if not ids.size:
            return None
        inside = np.zeros(len(bundle))
        inside[np.searchsorted(bundle.ids, ids)] = weights
        return inside

    def _multipliers_of_less_weight(self, bundle: Bundle) -> Array | None:
        """Return multipliers of the model's minimum with the smallest weight for which it exists.

        If the model with nearly the whole weight has no minimum, no smaller weight is tried.
        """
        mildest = self._with_weight(bundle, _PARTS[-1])
        others = () if mildest is None else (self._with_weight(bundle, part) for part in _PARTS[:-1])
        return next((found for found in others if found is not None), mildest)

    def _with_weight(self, bundle: Bundle, part: float) -> Array | None:
        """Return multipliers of the model's minimum with `part` of the weight; None if they give no bound."""
        problem: Any = self.problem
        less = problem.regularizer.with_lam(part * problem.regularizer.lam)
        reduced = ReducedProblem(problem.dim, problem.risk.n_blocks, less, problem.simple_set)
        weights = _WEIGHTS if bundle.slopes.size > _LARGE else ()
        proxes = [Prox(np.zeros(problem.dim), weight * bundle.steepest) for weight in weights]
        for prox in proxes or [None]:
            try:
                solution = (
                    first_candidate(reduced, prox and Prox, Backend()).build(reduced).solve(bundle, prox)
                )
            except Exception:
                return None
            if solution.status is MasterStatus.SOLVED and solution.multipliers is not None:
                multipliers = np.maximum(solution.multipliers, 0.0)
                rows = bundle.slopes, bundle.offsets, bundle.blocks
                if self(*rows, multipliers, math.inf).value > -math.inf:
                    return multipliers
        return None


def _mixed(found: DualValue, inside: Array, share: float) -> Array:
    return (1.0 - share) * found.multipliers + share * inside


def has_flat_combination(slopes: Any, blocks: Array, free: Array) -> bool:
    """Tell whether some convex combination of rows is flat in the `free` coordinates.

    Free coordinates have neither a regularizer nor bounds. Cuts with slope zero, for example infima, do not
    count, because a model that only they bound has minimisers that are arbitrarily far away.
    """
    steep = np.flatnonzero(row_sizes(slopes))
    columns, of = dense(slopes[steep][:, free]), blocks[steep]
    if not columns.size:
        return False
    if columns.shape[1] == 1 and not of.any():
        return bool(columns.min() <= 0.0 <= columns.max())
    from scipy.optimize import nnls

    scale = np.abs(columns).max(axis=0)
    cuts = (of == np.arange(blocks.max() + 1)[:, np.newaxis]) & (of != HALF_SPACE)
    cuts = cuts[cuts.any(axis=1)]
    matrix = np.vstack([(columns / np.where(scale > 0.0, scale, 1.0)).T, cuts.astype(np.float64)])
    right = np.concatenate([np.zeros(free.size), np.ones(len(cuts))])
    return nnls(matrix, right)[1] <= _FLAT

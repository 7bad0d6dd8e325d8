"""Coordinate descent by groups of coordinates, whose norms are the regularizer."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from cutplane.linear.working_set import RIDGE, WorkingSet
from cutplane.pieces.validation import Array

_ABOVE = 1.0 + 1e-10
"""Over the largest eigenvalue as it is computed."""


class GroupWorkingSet(WorkingSet):
    """The same for groups: sweeps of proximal gradient steps, and Newton steps in the groups that move."""

    def _sweep(self, x: Array, bends: Array, *model: Any) -> tuple[float, float]:
        labels, costs = self.terms.form.labels, self.terms.form.costs
        free = np.flatnonzero(labels < 0)  # they come first
        starts = np.concatenate([free, np.searchsorted(labels, range(costs.size)), [labels.size]])
        costs = np.concatenate([np.zeros(free.size), costs])
        parts = [np.arange(start, end) for start, end in pairwise(starts)]
        steep = np.array([self._largest(part, bends, model[0]) for part in parts])
        return self.columns.descend_groups(x, starts, costs, steep, *model)

    def _largest(self, part: Array, bends: Array, d: Array) -> float:
        """Return the largest eigenvalue of the model in some coordinates."""
        if part.size == 1:
            return float(bends[part[0]])
        return _ABOVE * float(np.linalg.eigvalsh(self.columns.gram(part, d))[-1])

    def _newton(self, moving: Array, slopes: Array, d: Array) -> Array | None:
        from scipy.linalg import LinAlgError, cho_factor, cho_solve

        self.position.visited += self._cost_of_newton(moving)
        x, pull = self.x, self.terms.pull_of_norms(self.x)
        hessian = self.columns.gram(moving, d)
        diagonal = np.einsum("jj->j", hessian)
        diagonal += pull[moving] + RIDGE * diagonal.max(initial=0.0)
        labels, norms = self.terms.form.labels, self.terms.form.norms(x)
        for k in np.flatnonzero(norms).tolist():
            mine = np.flatnonzero(labels[moving] == k)
            unit = x[moving[mine]] / norms[k]
            hessian[np.ix_(mine, mine)] -= pull[moving[mine[0]]] * np.outer(unit, unit)
        try:
            factor = cho_factor(hessian, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            return None
        step = np.zeros_like(x)
        step[moving] = -cho_solve(factor, (slopes + pull * x)[moving], check_finite=False)
        return step if step.any() and np.isfinite(step).all() else None

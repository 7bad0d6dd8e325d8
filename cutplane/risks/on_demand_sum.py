"""Sums in which some risks have on-demand accuracy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from cutplane.pieces.validation import Array
from cutplane.risks.base import Estimate, OnDemandRisk, Risk, answer_of
from cutplane.risks.combination import WeightedSum


class OnDemandWeightedSum(WeightedSum, OnDemandRisk):
    """A weighted sum of risks of which some have on-demand accuracy.

    Its multipliers are those of these risks, and x, at which the others give their cuts. It is not probed:
    its values differ by what was asked for.
    """

    black_box = False  # pyright: ignore[reportAssignmentType]

    def oracle(self, x: Array) -> tuple[Any, Any]:
        """Return the value and a subgradient at `x`, as exact as can be."""
        return OnDemandRisk.oracle(self, x)

    def estimate(self, x: Array, accuracy: float, start: Estimate | None = None) -> Estimate:
        """Return the sums of values and cuts; each risk is asked for its share of the accuracy."""
        asked = sum(isinstance(r, OnDemandRisk) for _, r in self.terms)
        pairs = (
            (r.estimate(x, accuracy / (asked * c)), r.cancelled(x))
            if isinstance(r, OnDemandRisk)
            else _exact(r, x)
            for c, r in self.terms
        )
        answers, sizes = zip(*pairs, strict=True)
        values = np.atleast_1d(self.add_values(answer.values for answer in answers))
        self.remember(x, self.hidden(sizes, [answer.values for answer in answers]))
        slopes, offsets = self._joined((answer.slopes, answer.offsets) for answer in answers)
        u = np.concatenate([*(answer.multipliers for answer in answers), x])
        return Estimate(values, slopes, offsets, u)

    def dual_cut(self, u: Array) -> tuple[Array, Array]:
        """Return slopes and offsets of the cuts, one per block, for multipliers of all terms and x."""
        *parts, x = np.split(u, self._ends(u))
        pairs = zip(self.terms, parts, strict=True)
        return self._joined(
            r.dual_cut(part) if isinstance(r, OnDemandRisk) else _exact(r, x)[0][1:3]
            for (_, r), part in pairs
        )

    def _joined(self, cuts: Iterable[tuple[Array, Array]]) -> tuple[Array, Array]:
        slopes, offsets = zip(*cuts, strict=True)
        return self.add_slopes(slopes).reshape(self.n_blocks, self.dim), np.atleast_1d(
            self.add_values(offsets)
        )

    def _ends(self, u: Array) -> Array:
        """Return where the multipliers of each term end in those of the sum; x is the rest."""
        x, sizes = u[-self.dim :], np.zeros(len(self.terms), dtype=np.int64)
        asked = [j for j, (_, r) in enumerate(self.terms) if isinstance(r, OnDemandRisk)]
        for j in asked:
            risk: Any = self.terms[j][1]
            sizes[j] = u.size - self.dim if len(asked) == 1 else risk.estimate(x, np.inf).multipliers.size
        return np.cumsum(sizes)


def _exact(risk: Risk, x: Array) -> tuple[Estimate, Any]:
    """Return the value of a risk and its cut at x, and the size of what cancelled in both."""
    (value, slope, *_), size = answer_of(risk, x)
    values, slopes = np.atleast_1d(value), np.reshape(slope, (risk.n_blocks, risk.dim))
    if risk.linear:
        return Estimate(values, slopes, np.zeros(risk.n_blocks), np.empty(0)), size
    return Estimate(values, slopes, values - slopes @ x, np.empty(0)), size + np.abs(slopes) @ np.abs(x)

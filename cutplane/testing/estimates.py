"""The checks of a risk with on-demand accuracy: rough answers lie on the right side of the exact ones."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from cutplane.pieces.validation import Array
from cutplane.risks.base import Estimate, OnDemandRisk
from cutplane.testing.report import Counterexample, Property
from cutplane.testing.sampling import exceeds, worst

_ACCURACY = "The cuts of estimate(x, accuracy) must lie below its values at x, by at most accuracy in total."
_SIDES = "The values of an estimate must not be below f(x), its cuts nowhere above f."
_DUAL = "dual_cut(estimate.multipliers) must return the slopes and the offsets of the estimate."
_SHARES = (1.0, 0.1, 1e-3)


class EstimateProbe:
    """The tests of a risk with on-demand accuracy."""

    def __init__(self, risk: OnDemandRisk, X: Array, values: Sequence[Array]):
        self.risk = risk
        self.X = X
        self.values = values

    def properties(self) -> Iterator[Property]:
        """Yield every property."""
        yield Property("an estimate is as accurate as it was asked to be", self._accurate, _ACCURACY)
        yield Property("estimates are on the right side of exact answers", self._sides, _SIDES)
        yield Property("the multipliers of an estimate give its cuts", self._dual, _DUAL)

    def _estimates(self) -> Iterator[tuple[int, float, Estimate]]:
        last = None
        for i, (x, values) in enumerate(zip(self.X, self.values, strict=True)):
            for accuracy in (math.inf, *(share * float(np.abs(values).sum()) for share in _SHARES)):
                last = self.risk.estimate(x.copy(), accuracy, last)
                yield i, accuracy, last

    def _accurate(self) -> str:
        for i, accuracy, found in self._estimates():
            error = np.sum(found.values - found.slopes @ self.X[i] - found.offsets)
            if exceeds(np.array([error - accuracy]), self.values[i].sum(keepdims=True)).max() > 0.0:
                raise Counterexample(
                    f"the accuracy {accuracy:.3g} was asked for, got {error:.3g}", x=self.X[i]
                )
        return f"{len(self.X)} points"

    def _sides(self) -> str:
        exact = np.array(self.values)
        for i, accuracy, found in self._estimates():
            below = worst(exceeds(exact[i] - found.values, exact[i]))
            if below is not None:
                raise Counterexample(
                    f"f is {exact[i].sum():.8g}, its estimate with accuracy {accuracy:.3g} is "
                    f"{found.values.sum():.8g}",
                    x=self.X[i],
                )
            cuts = self.X @ found.slopes.T + found.offsets
            above = worst(exceeds(cuts - exact, exact, cuts))
            if above is not None:
                raise Counterexample(
                    f"the cut of an estimate at x is {cuts[above]:.8g} at z, where f is {exact[above]:.8g}",
                    x=self.X[i],
                    z=self.X[above[0]],
                )
        return f"{len(self.X)} points"

    def _dual(self) -> str:
        for i, _, found in self._estimates():
            slopes, offsets = self.risk.dual_cut(found.multipliers)
            pairs = ((slopes, found.slopes), (offsets, found.offsets))
            if any(worst(exceeds(np.abs(new - old), old)) is not None for new, old in pairs):
                raise Counterexample("dual_cut gives another cut than the estimate", x=self.X[i])
        return f"{len(self.X)} points"

"""The checks of a risk with images: image, line and kinks agree with the oracle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from cutplane.pieces.validation import Array
from cutplane.risks.base import ImagedRisk
from cutplane.testing.report import Counterexample, NotTested, Property
from cutplane.testing.sampling import CANCELLATION, STEP, Sampler, exceeds, worst

_ORACLE = "Define oracle(x) as values(image(x)) and slopes(image(x)), or do not override it."
_KEPT = (
    "image, combine, values, slopes and line must return new arrays and leave the images they are given "
    "alone."
)
_LINEAR = (
    "image must be linear in x (no constant term: put it into values), and combine must return z0 + t (z1 "
    "- z0)."
)
_LINE = (
    "line(z0, z1) must return the values at z0 + t (z1 - z0), summed over the blocks, and their right "
    "derivative in t."
)
_KINKS = (
    "Line.kinks must hold every t >= 0 at which a linear or quadratic piece ends; pass None if they are "
    "not known."
)
_KNOWN = (
    "Line.derivative and Line.newton must add up to the derivative of the line, with every kink and the "
    "second derivative right; pass None if they are not known."
)
_INTERVALS = 20
_NEAR = 1e-7


class ImageProbe:
    """The tests of a risk with images."""

    def __init__(
        self, risk: ImagedRisk, sampler: Sampler, X: Array, values: Sequence[Array], slopes: Sequence[Array]
    ):
        self.risk = risk
        self.sampler = sampler
        self.X = X
        self.values = values
        self.slopes = slopes

    def properties(self) -> Iterator[Property]:
        """Yield every property."""
        yield Property("the oracle agrees with values and slopes of the image", self._oracle, _ORACLE)
        yield Property("an image survives what is done with it", self._keeps_images, _KEPT)
        yield Property("combine gives the image of the point between", self._combines, _LINEAR)
        yield Property("line gives the value and a slope of it", self._lines, _LINE)
        yield Property("the pieces between the kinks of a line are quadratic", self._kinks, _KINKS)
        yield Property("what a line knows of its derivative is true", self._known, _KNOWN)

    def _image(self, x: Array) -> Any:
        return self.risk.image(x.copy())

    def _value(self, z: Any) -> Array:
        return np.array(self.risk.values(z), dtype=np.float64).reshape(self.risk.n_blocks)

    def _pairs(self) -> Iterator[tuple[Array, Array]]:
        for i, k in self.sampler.pairs():
            if np.isfinite(self.values[i]).all() and np.isfinite(self.values[k]).all():
                yield self.X[i], self.X[k]

    def _oracle(self) -> str:
        for x, values in zip(self.X, self.values, strict=True):
            direct = np.reshape(self.risk.oracle(x.copy())[0], values.shape)
            found = worst(exceeds(np.abs(direct - values), direct, values))
            if found is not None:
                raise Counterexample(
                    f"oracle(x) has the value {direct[found]:.8g}, values(image(x)) is {values[found]:.8g}",
                    x=x,
                )
        return f"{len(self.X)} points"

    def _keeps_images(self) -> str:
        x0, x1 = self.X[-1], self.X[-2]
        z0 = self._image(x0)
        before = self._value(z0)
        z1 = self._image(x1)
        self.risk.combine(z0, z1, 0.5)
        self.risk.slopes(z0)
        self.risk.line(z0, z1)(0.5)
        after = self._value(z0)
        if not np.array_equal(before, after, equal_nan=True):
            raise Counterexample(f"the values of the image of x were {before}, later {after}", x=x0, z=x1)
        return "2 points"

    def _combines(self) -> str:
        count = 0
        for (x0, x1), t in zip(self._pairs(), self.sampler.shares(), strict=False):
            z0, z1 = self._image(x0), self._image(x1)
            combined = self.risk.combine(z0, z1, float(t))
            direct = self._value(self._image(x0 + t * (x1 - x0)))
            values = self._value(combined)
            found = worst(exceeds(np.abs(values - direct), self._value(z0), self._value(z1)))
            if found is not None:
                raise Counterexample(
                    f"at x0 + {t:.3g} (x1 - x0) the combined image has the value {values[found]:.8g}, "
                    f"the image of that point {direct[found]:.8g}",
                    x0=x0,
                    x1=x1,
                )
            self._supports(combined, values, x0 + t * (x1 - x0))
            count += 1
        return f"{count} segments"

    def _supports(self, combined: Any, values: Array, x: Array) -> None:
        slopes = np.reshape(self.risk.slopes(combined), (self.risk.n_blocks, x.shape[0]))
        rise = (self.X - x) @ slopes.T
        known = np.array(self.values)
        cancelled = CANCELLATION * (np.abs(self.X - x) @ np.abs(slopes).T)
        found = worst(exceeds(values + rise - known, values, rise, known, cancelled))
        if found is not None:
            raise Counterexample(
                "the slope of the combined image of x gives a cut that lies "
                f"{(values + rise - known)[found]:.3g} above f(z)",
                x=x,
                z=self.X[found[0]],
            )

    def _lines(self) -> str:
        grid = np.array([0.0, STEP, 0.25, 0.5 - STEP, 0.5, 0.5 + STEP, 0.75, 1.0 - STEP, 1.0])
        count = 0
        for x0, x1 in self._pairs():
            z0, z1 = self._image(x0), self._image(x1)
            line = self.risk.line(z0, z1)
            values, slopes = np.array([line(float(t)) for t in grid]).T
            direct = np.array([self._value(self.risk.combine(z0, z1, float(t))).sum() for t in grid])
            found = worst(exceeds(np.abs(values - direct), direct, direct[0], direct[-1]))
            if found is not None:
                raise Counterexample(
                    f"at t = {grid[found]:g} the line has the value {values[found]:.8g}, "
                    f"values(combine(z0, z1, t)) sum to {direct[found]:.8g}",
                    x0=x0,
                    x1=x1,
                )
            rise = slopes[:, np.newaxis] * (grid - grid[:, np.newaxis])
            found = worst(exceeds(values[:, np.newaxis] + rise - values, values[:, np.newaxis], rise, values))
            if found is not None:
                s, t = found
                raise Counterexample(
                    f"the slope {slopes[s]:.8g} of the line at t = {grid[s]:g}, where it is "
                    f"{values[s]:.8g}, predicts "
                    f"{values[s] + rise[found]:.8g} at t = {grid[t]:g}, where it is {values[t]:.8g}",
                    x0=x0,
                    x1=x1,
                )
            count += 1
        return f"{count} lines at {len(grid)} points"

    def _kinks(self) -> str:
        count = 0
        for x0, x1 in self._pairs():
            line = self.risk.line(self._image(x0), self._image(x1))
            kinks = line.all_kinks()
            if kinks is None:
                raise NotTested("the line has no kinks")
            intervals = self._intervals(kinks)
            steepest = (
                max(abs(line(0.0)[1]), abs(line(max(end for _, end in intervals))[1])) if intervals else 0.0
            )
            for start, end in intervals:
                count += 1
                quarters = np.array([0.75, 0.5, 0.25]) * start + np.array([0.25, 0.5, 0.75]) * end
                left, middle, right = (line(float(t))[1] for t in quarters)
                if worst(exceeds([abs(left - 2.0 * middle + right)], left, middle, right, steepest)):
                    raise Counterexample(
                        f"between the kinks {start:.8g} and {end:.8g} the slope is {left:.8g}, "
                        f"{middle:.8g} and {right:.8g} "
                        "at the quarters: it is not affine",
                        x0=x0,
                        x1=x1,
                    )
        return f"{count} intervals"

    def _known(self) -> str:
        grid = np.array([0.0, 0.2, 0.45, 0.7, 0.95])
        count = 0
        for x0, x1 in self._pairs():
            line = self.risk.line(self._image(x0), self._image(x1))
            derivative, newton = line.derivative, line.newton
            if derivative is None and newton is None:
                raise NotTested("the line knows nothing of its derivative")
            for low, t in pairwise(grid.tolist()):
                known = sum(part(t)[0] for part in (derivative, newton) if part is not None)
                before, after = line(t - _NEAR)[1], line(t + _NEAR)[1]
                wrong = exceeds([before - known, known - after], before, known, after)
                if derivative is not None:
                    there, along = derivative(t), derivative.between(low, t + STEP)(t)
                    wrong = np.append(
                        wrong, exceeds(np.subtract(along, there), *np.abs(along), *np.abs(there))
                    )
                    wrong = np.append(
                        wrong, exceeds(np.subtract(there, along), *np.abs(along), *np.abs(there))
                    )
                if worst(wrong) is not None:
                    raise Counterexample(
                        f"at t = {t:g} the slope is said to be {known:.8g}; nearby the line has "
                        f"{before:.8g} and {after:.8g}; between({low:g}, {t + STEP:g}) must say the same",
                        x0=x0,
                        x1=x1,
                    )
            count += 1
        return f"{count} lines at {len(grid) - 1} points"

    def _intervals(self, kinks: Array) -> list[tuple[float, float]]:
        """Return some intervals of [0, inf) between neighbouring kinks, longer than rounding errors."""
        kinks = np.unique(np.append(kinks[kinks > 0.0], 0.0))
        ends = np.append(kinks[1:], 2.0 * kinks[-1] + 1.0)
        long = np.flatnonzero((ends - kinks > 1e-9 * (1.0 + kinks)) & (ends < 1e6))
        chosen = self.sampler.rng.permutation(long)[:_INTERVALS]
        return [(float(kinks[i]), float(ends[i])) for i in chosen]

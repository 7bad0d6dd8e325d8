"""The checks of a separation oracle: its half-spaces hold on a convex set and cut off what is outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError, OracleError
from cutplane.pieces.capabilities import Capability, offers
from cutplane.pieces.validation import Array, as_count
from cutplane.sets.base import HalfSpace, Separator
from cutplane.sets.separation import SeparationOracle
from cutplane.testing.report import Counterexample, NotTested, Property, Report, examine
from cutplane.testing.sampling import TOLERANCE, Sampler

_ANSWER = (
    "Return None or [] for a point inside, else a HalfSpace or a list of them, with finite normals of "
    "shape (dim,)."
)
_CUTS = (
    "Return only half-spaces <normal, x> <= offset that x violates; look for a sign, or a test with "
    "another tolerance."
)
_REPEATS = "The answer must depend on x alone, and x must be left as it is."
_INSIDE = "The oracle must return nothing for these points: look at its test, and its tolerance."
_VALID = (
    "Each half-space must hold on the whole set: look for a sign, an offset too small, or a set that is "
    "not convex."
)
_CONVEX = "The set of the points called inside must be convex."
_RELAXATIONS = 100
_BISECTIONS = 30


def check_separation(
    oracle: Separator | Callable[[Array], Any],
    dim: int | None = None,
    *,
    inside: Any = None,
    rng: int | np.random.Generator = 0,
    n_points: int = 20,
    scale: float = 1.0,
    raise_on_failure: bool = True,
) -> Report:
    """Look for a mistake in a separation oracle.

    Finds points inside by following the half-spaces, then the boundary by bisection, and tests whether every
    half-space cuts off the point it was returned for and holds at all points called inside, whether these
    form a convex set, and whether answers repeat.

    Parameters
    ----------
    oracle : SeparationOracle, function, or object with a method separate(x)
    dim : int, optional
        Dimension; default: that of the oracle.
    inside : array_like of shape (n, dim) or (dim,), optional
        Points known to be in the set. Needed if the set has no interior, or is far smaller than `scale`.
    rng : int or numpy.random.Generator, default 0
        Seed of the random points.
    n_points : int, default 20
        Number of points, at least 2; the oracle is asked some 100 times as often.
    scale : float, default 1.0
        Size of the entries of the random points: they should lie inside as well as outside.
    raise_on_failure : bool, default True
        Whether a failed check is an error.

    Returns
    -------
    Report
        Lists every check; ``bool(report)`` is whether all passed.

    Raises
    ------
    OracleError
        If a check failed; the message shows the points, the numbers, and what to do.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> @cut.separation_oracle(dim=2)
    ... def disc(x):
    ...     return [] if x @ x <= 1 else [cut.HalfSpace(x, 1.0)]
    >>> report = cut.testing.check_separation(disc, raise_on_failure=False)
    >>> [check.name for check in report.failures]
    ['each half-space holds at the points called inside']
    """
    given: Any = oracle
    separator: Any = given if offers(given, Capability.SEPARATION) else SeparationOracle(given, dim)
    size = getattr(separator, "dim", None) if dim is None else as_count("dim", dim)
    if size is None:
        raise InvalidInputError(f"{oracle!r} has no dimension: pass dim.")
    known = np.empty((0, size)) if inside is None else np.atleast_2d(np.asarray(inside, dtype=np.float64))
    if known.ndim != 2 or known.shape[1] != size:
        raise InvalidInputError(f"inside must have shape (n, {size}), got {known.shape}.")
    probe = SeparationProbe(separator, Sampler(size, rng, n_points, scale), known)
    return examine(repr(oracle), probe.properties(), OracleError if raise_on_failure else None)


class SeparationProbe:
    """The tests of a separation oracle."""

    def __init__(self, separator: Separator, sampler: Sampler, known: Array):
        self.separator = separator
        self.sampler = sampler
        self.known = known
        self.inside: list[Array] = []
        self.cuts: list[tuple[Array, HalfSpace]] = []
        self.clear = 0
        """How many of the cuts belong to points that are not within rounding of the boundary."""

    def properties(self) -> Iterator[Property]:
        """Yield every property."""
        yield Property("answers are half-spaces of the right dimension", self._answers, _ANSWER, True)
        yield Property("the points known to be inside are called inside", self._known_inside, _INSIDE)
        yield Property("each half-space cuts off the point it was returned for", self._separates, _CUTS)
        yield Property("the same x gives the same answer", self._repeats, _REPEATS)
        yield Property("each half-space holds at the points called inside", self._valid, _VALID)
        yield Property("the points called inside form a convex set", self._convex, _CONVEX)

    def ask(self, x: Array) -> Sequence[HalfSpace]:
        """Query, remembering where the point lies and what was returned."""
        found = self._query(x)
        if found:
            self.cuts += [(x, half_space) for half_space in found]
        else:
            self.inside.append(x)
        return found

    def _query(self, x: Array) -> Sequence[HalfSpace]:
        given = x.copy()
        found = self.separator.separate(given)
        for half_space in found:
            if not isinstance(half_space, HalfSpace) or half_space.normal.shape != x.shape:
                raise Counterexample(
                    f"the answer at x holds {half_space!r}, not a HalfSpace of dimension {len(x)}", x=x
                )
        if not np.array_equal(given, x):
            raise Counterexample("the oracle wrote to x", x=x, afterwards=given)
        return found

    def _rounding(self, half_space: HalfSpace, x: Array) -> Any:
        """Return the violation that is forgiven at x, or at each row of x: oracles have a tolerance."""
        size = (np.abs(x) + self.sampler.scale) @ np.abs(half_space.normal)
        return TOLERANCE * (size + abs(half_space.offset))

    def _answers(self) -> str:
        for x in (*self.known, *self.sampler.points()):
            self._walk_inside(x)
        self.clear = len(self.cuts)
        outside = [x for x, _ in self.cuts[:: max(1, len(self.cuts) // self.sampler.n_points)]]
        for k, x in enumerate(outside if self.inside else ()):
            self._bisect(self.inside[k % len(self.inside)], x)
        return f"{len(self.inside)} points found inside, {len(self.cuts)} half-spaces"

    def _walk_inside(self, x: Array) -> None:
        """Step across the half-spaces that x violates until it is inside."""
        for _ in range(_RELAXATIONS):
            found = self.ask(x)
            deepest = max(found, key=lambda h: _violation(h, x) / np.linalg.norm(h.normal), default=None)
            if deepest is None or not _violation(deepest, x) > 0.0:
                return
            length = self.sampler.rng.uniform(1.0, 1.9) * _violation(deepest, x)
            x = x - length / (deepest.normal @ deepest.normal) * deepest.normal

    def _bisect(self, inside: Array, outside: Array) -> None:
        for _ in range(_BISECTIONS):
            middle = 0.5 * (inside + outside)
            if self.ask(middle):
                outside = middle
            else:
                inside = middle

    def _known_inside(self) -> str:
        if not len(self.known):
            raise NotTested("no such point was given")
        for x in self.known:
            for half_space in self._query(x):
                raise Counterexample(
                    f"the oracle cuts x off by {_violation(half_space, x):.6g}", x=x, normal=half_space.normal
                )
        return f"{len(self.known)} points"

    def _separates(self) -> str:
        for k, (x, half_space) in enumerate(self.cuts):
            rounding = 0.0 if k < self.clear else self._rounding(half_space, x)
            if not _violation(half_space, x) > -rounding:
                raise Counterexample(
                    f"<normal, x> = {half_space.normal @ x:.8g} is not above the offset "
                    f"{half_space.offset:.8g}",
                    x=x,
                    normal=half_space.normal,
                )
        return f"{len(self.cuts)} half-spaces"

    def _repeats(self) -> str:
        asked = [(x, False) for x in self.inside[:5]] + [(x, True) for x, _ in self.cuts[:5]]
        for x, was_outside in asked:
            found = self._query(x)
            if bool(found) != was_outside:
                raise Counterexample(
                    f"x was {_side(was_outside)} at first and {_side(not was_outside)} later", x=x
                )
            first = [h for point, h in self.cuts if point is x]
            for old, new in zip(first, found, strict=False):
                close = np.allclose(
                    old.normal, new.normal, rtol=TOLERANCE, atol=TOLERANCE * np.abs(old.normal).max()
                )
                if (
                    len(first) != len(found)
                    or not close
                    or abs(old.offset - new.offset) > TOLERANCE * (1.0 + abs(old.offset))
                ):
                    raise Counterexample("the half-spaces at x were others when x was asked for again", x=x)
        return f"{len(asked)} points"

    def _valid(self) -> str:
        if not self.inside:
            raise NotTested("no point was found inside: pass inside=")
        points = np.array(self.inside)
        for x, half_space in self.cuts:
            products = points @ half_space.normal
            excess = products - half_space.offset - self._rounding(half_space, points)
            k = int(np.argmax(excess))
            if excess[k] > 0.0:
                raise Counterexample(
                    "the half-space returned at x cuts off z, which is called inside: <normal, z> = "
                    f"{products[k]:.8g} "
                    f"> {half_space.offset:.8g} = offset",
                    x=x,
                    z=points[k],
                    normal=half_space.normal,
                )
        return f"{len(self.cuts)} half-spaces at {len(points)} points"

    def _convex(self) -> str:
        if len(self.inside) < 2:
            raise NotTested("fewer than two points were found inside: pass inside=")
        points, count = list(self.inside), 5 * self.sampler.n_points
        for i, k in self.sampler.rng.integers(len(points), size=(count, 2)):
            t = self.sampler.rng.uniform(0.1, 0.9)
            between = points[i] + t * (points[k] - points[i])
            for half_space in self._query(between):
                if _violation(half_space, between) > self._rounding(half_space, between):
                    raise Counterexample(
                        f"x and z are called inside, x + {t:.3g} (z - x) is cut off by "
                        f"{_violation(half_space, between):.6g}",
                        x=points[i],
                        z=points[k],
                    )
        return f"{count} segments"


def _violation(half_space: HalfSpace, x: Array) -> float:
    return float(half_space.normal @ x - half_space.offset)


def _side(outside: bool) -> str:
    return "cut off" if outside else "called inside"

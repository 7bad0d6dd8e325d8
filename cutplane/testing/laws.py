"""Laws that pieces must obey (name, test and remedy), the points of the tests, and the report."""

from __future__ import annotations

import inspect
import re
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from cutplane.exceptions import CutplaneError
from cutplane.pieces.capabilities import Capability, offers
from cutplane.pieces.validation import Array, as_count, as_positive

OK, FAILED, NOT_TESTED = "ok", "FAILED", "not tested"

TOLERANCE = 1e-7
"""Rounding error of a sum, relative to its terms, that is accepted, because the engine accepts as much."""

CANCELLATION = 1e-6
"""Weight of the absolute terms of an inner product in its rounding error, because the terms may cancel."""

STEP = 1e-3
"""Distance of nearby points, in units of the scale, because differences of values lose half their digits."""

UNITS = 2.0**-20, 2.0**10
"""Units for pieces, powers of two because these cause no rounding errors."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True, eq=False)
class Check:
    """One property and whether it holds.

    Attributes
    ----------
    name : str
        The property.
    outcome : str
        "ok", "FAILED" or "not tested".
    detail : str
        The extent of the test, or the numbers of the counterexample.
    points : mapping of str to ndarray
        The points of the counterexample.
    remedy : str
        How to correct the piece if the property fails.
    """

    name: str
    outcome: str
    detail: str = ""
    points: Mapping[str, Array] = field(default_factory=dict)
    remedy: str = ""

    @property
    def explanation(self) -> str:
        """The detail and the points; for a failure, also the remedy."""
        lines = [self.detail]
        for name, point in self.points.items():
            shown = re.sub(r"\s+", " ", np.array2string(point + 0.0, precision=6, threshold=8))
            lines.append(f"{name} = {shown.replace('[ ', '[')}")
        return "\n".join(line for line in [*lines, self.remedy] if line)


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """The checks of one piece of a problem; its truth value tells whether none failed.

    Attributes
    ----------
    name : str
        The piece.
    checks : tuple of Check
    """

    name: str
    checks: tuple[Check, ...]

    def __bool__(self) -> bool:
        return not self.failures

    @property
    def failures(self) -> tuple[Check, ...]:
        """The checks that failed."""
        return tuple(check for check in self.checks if check.outcome == FAILED)

    @property
    def summary(self) -> str:
        """A line with the number of checks that failed."""
        if self:
            return f"{self.name} passes all checks"
        return f"{self.name} fails {len(self.failures)} of {len(self.checks)} checks"

    def __repr__(self) -> str:
        width = max((len(check.name) for check in self.checks), default=0)
        lines = [self.summary]
        for check in self.checks:
            if check.outcome == FAILED:
                lines.append(f"  {check.outcome:<10}  {check.name}")
                lines += [" " * 14 + line for line in check.explanation.split("\n")]
            else:
                lines.append(f"  {check.outcome:<10}  {check.name:<{width}}  {check.detail}".rstrip())
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from cutplane.pieces.html import grid

        rows = [(check.outcome, check.name, check.explanation) for check in self.checks]
        return grid(("", "property", "what was found"), rows, caption=self.summary)

    def raise_if_failed(self, error: type[CutplaneError]) -> None:
        """Raise `error` with every counterexample, if a check failed."""
        if self.failures:
            found = [f"* {check.name}: {check.explanation}".replace("\n", "\n  ") for check in self.failures]
            raise error("\n".join([f"{self.summary}.", *found]))


class Counterexample(Exception):
    """The property does not hold; raised by its test."""

    def __init__(self, detail: str, **points: Array):
        super().__init__(detail)
        self.points = {name: np.array(point) for name, point in points.items()}


class NotTested(Exception):
    """The test does not apply to this piece; raised by the test."""


class Law(NamedTuple):
    """A property of a piece. Its test returns the extent of the test, or raises."""

    name: str
    remedy: str
    needs: Capability | None = None
    """The optional method that the law is about."""
    essential: bool = False
    """Whether the other laws are not tested if this one fails."""
    each: tuple[Any, ...] | str = ()
    """Arguments of the test, each of which makes a law of its name; or the attribute that lists them."""


def law(name: str, remedy: str, **options: Any) -> Callable[[_Function], _Function]:
    """Decorate the test of a law with the law's name and the remedy for a failure."""

    def decorate(test: Any) -> Any:
        test.law = Law(name, remedy, **options)
        return test

    return decorate


class Laws:
    """The laws of one kind of piece: methods of a subclass that are decorated with `law`, in their order."""

    piece: Any

    def tests(self) -> Iterator[tuple[Law, Callable[[], str]]]:
        """Yield each law with its test."""
        names = dict.fromkeys(name for kind in reversed(type(self).__mro__) for name in vars(kind))
        for test in (getattr(self, name) for name in names if hasattr(getattr(type(self), name), "law")):
            found: Law = test.law
            cases = getattr(self, found.each) if isinstance(found.each, str) else found.each
            if not cases:
                yield found, test
            for case in cases:
                yield found._replace(name=found.name.format(case)), partial(test, case)

    def require(self, capability: Capability | None) -> None:
        """Raise `NotTested` if the piece has no method for a capability."""
        if capability is not None and not offers(self.piece, capability):
            raise NotTested(f"there is no method {capability.value}")


def examine(name: str, error: type[CutplaneError] | None, *tables: Laws) -> Report:
    """Test laws in order; raise `error`, unless it is None, if one does not hold."""
    checks: list[Check] = []
    stopped = False
    for table in tables:
        for found, test in table.tests():
            if stopped:
                checks.append(Check(found.name, NOT_TESTED, "not reached"))
                continue
            checks.append(_outcome(table, found, test))
            stopped = found.essential and checks[-1].outcome == FAILED
    report = Report(name, tuple(checks))
    if error is not None:
        report.raise_if_failed(error)
    return report


def _outcome(table: Laws, found: Law, test: Callable[[], str]) -> Check:
    try:
        table.require(found.needs)
        with np.errstate(all="ignore"):
            return Check(found.name, OK, test())
    except NotTested as reason:
        return Check(found.name, NOT_TESTED, str(reason))
    except Counterexample as wrong:
        return Check(found.name, FAILED, str(wrong), wrong.points, found.remedy)
    except Exception as error:
        cause = error.__cause__ or error
        if isinstance(cause, CutplaneError):
            return Check(found.name, FAILED, str(cause), remedy=found.remedy)
        where = traceback.extract_tb(cause.__traceback__)[-1]
        place = f"in {where.name}, line {where.lineno} of {where.filename}"
        return Check(found.name, FAILED, f"{type(cause).__name__} {place}: {cause}")


_RANDOM = """rng : int or numpy.random.Generator, default 0
    Seed of the random points.
"""
_POINTS = """n_points : int, default 20
    Number of points, at least 2; an oracle is called up to {calls} times per point.
scale : float, default 1.0
    Size of the entries of the random points: {scale}.
"""
_OUTCOME = """raise_on_failure : bool, default True
    Whether a failed check is an error.

Returns
-------
Report
    Lists every check; ``bool(report)`` is whether all passed.

Raises
------
{error}
    If a check failed; the message shows the points, the numbers, and what to do.
"""


def described(error: type[CutplaneError], **words: Any) -> Callable[[_Function], _Function]:
    """Append to the docstring of a check the parameters, the result and the error that all checks share."""
    shared = _RANDOM + (_POINTS.format(**words) if words else "")

    def decorate(function: _Function) -> _Function:
        text, _, example = inspect.cleandoc(str(function.__doc__)).partition("Examples\n")
        function.__doc__ = (
            f"{text.rstrip()}\n{shared}{_OUTCOME.format(error=error.__name__)}\nExamples\n{example}"
        )
        return function

    return decorate


class Sampler:
    """Random points of dimension `dim` whose entries are of size `scale`."""

    def __init__(self, dim: int, rng: int | np.random.Generator, n_points: int, scale: float):
        self.dim = dim
        self.rng = np.random.default_rng(rng)
        self.n_points = as_count("n_points", n_points, low=2)
        self.scale = as_positive("scale", scale)

    def directions(self, count: int = 0) -> Array:
        """Return normally distributed vectors with entries of size 1, n_points of them by default."""
        return self.rng.standard_normal((count or self.n_points, self.dim))

    def points(self) -> Array:
        """Return zero, then random points near zero and far from it, shape (n_points, dim)."""
        sizes = self.scale * np.where(np.arange(self.n_points) % 3 == 2, 0.1, 1.0)
        points = sizes[:, np.newaxis] * self.directions()
        points[0] = 0.0
        return points

    def pairs(self, count: int) -> Array:
        """Return pairs of different indices below count, each index twice, shape (count, 2)."""
        first = self.rng.permutation(count)
        return np.column_stack([first, np.roll(first, 1)])

    def share(self) -> float:
        """Return a number in [0.1, 0.9], with probability 1/2 the number 0.5."""
        return float(self.rng.choice([0.5, self.rng.uniform(0.1, 0.9)]))


def exceeds(excess: Any, *terms: Any) -> Array:
    """Return the part of `excess` above the rounding error of a sum of `terms`, relative to this error.

    It is <= 0 if `excess` is within the error, or if a term is infinite, because such a test proves nothing.
    """
    size = sum(np.abs(term) for term in terms)
    return np.nan_to_num(np.asarray(excess) / np.maximum(TOLERANCE * size, 1e-300) - 1.0, nan=-1.0)


def worst(excess: Any, *terms: Any) -> tuple[int, ...] | None:
    """Return the index of the entry that exceeds the rounding error of its terms most, or None."""
    ratios = np.atleast_1d(exceeds(excess, *terms))
    if not (ratios > 0.0).any():
        return None
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(ratios)), ratios.shape))


def require_below(text: str, low: Any, high: Any, *terms: Any, Z: Any = None, **points: Array) -> None:
    """Raise a counterexample where an entry of `low` is above `high` by more than the rounding of `terms`.

    By default the terms are low and high. The text refers to low, high and the terms by {0}, {1}, {2}, ...,
    and to the index of a block, the last axis, by {block}; the row of Z is the point z.
    """
    _require(text, np.subtract(low, high), (low, high, *terms), terms or (low, high), Z, points)


def require_equal(text: str, a: Any, b: Any, *terms: Any, Z: Any = None, **points: Array) -> None:
    """Raise a counterexample where entries of a and b differ by more than the rounding of `terms`."""
    _require(text, np.abs(np.subtract(a, b)), (a, b, *terms), terms or (a, b), Z, points)


def _require(text: str, excess: Any, shown: Any, terms: Any, Z: Any, points: Any) -> None:
    found = worst(excess, *terms)
    if found is None:
        return
    shape = np.shape(np.atleast_1d(excess))
    block = f"_{found[-1]}" if shape[-1] > 1 else ""
    numbers = [np.broadcast_to(part, shape)[found] for part in shown]
    raise Counterexample(
        text.format(*numbers, block=block), **points, **({} if Z is None else {"z": Z[found[0]]})
    )

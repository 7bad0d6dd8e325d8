"""What a check found: properties that hold, and counterexamples of those that do not."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from cutplane.exceptions import CutplaneError
from cutplane.pieces.validation import Array

OK, FAILED, NOT_TESTED = "ok", "FAILED", "not tested"


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
        How much was tested, or the numbers of the counterexample.
    points : mapping of str to ndarray
        The points of the counterexample.
    remedy : str
        What to do about a failure.
    """

    name: str
    outcome: str
    detail: str = ""
    points: Mapping[str, Array] = field(default_factory=dict)
    remedy: str = ""

    @property
    def explanation(self) -> str:
        """The detail and the points, and for a failure what to do."""
        parts = [
            self.detail,
            *(f"{name} = {show(point)}" for name, point in self.points.items()),
            self.remedy,
        ]
        return "\n".join(part for part in parts if part)


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """The checks of one piece of a problem; true if none failed.

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
        """How many checks failed, in one line."""
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
    """Raised by a test of a property that does not hold."""

    def __init__(self, detail: str, **points: Array):
        super().__init__(detail)
        self.points = {name: np.array(point) for name, point in points.items()}


class NotTested(Exception):
    """Raised by a test that does not apply."""


class Property(NamedTuple):
    """A property, the test that returns what was tested or raises, and what to do if it does not hold."""

    name: str
    test: Callable[[], str]
    remedy: str
    essential: bool = False
    """Whether nothing else can be tested if this fails."""


def examine(name: str, properties: Iterable[Property], error: type[CutplaneError] | None) -> Report:
    """Test the properties in order; raise `error`, unless it is None, if one does not hold."""
    checks: list[Check] = []
    stopped = False
    for each in properties:
        if stopped:
            checks.append(Check(each.name, NOT_TESTED, "not reached"))
            continue
        checks.append(_outcome(each))
        stopped = each.essential and checks[-1].outcome == FAILED
    report = Report(name, tuple(checks))
    if error is not None:
        report.raise_if_failed(error)
    return report


def _outcome(each: Property) -> Check:
    try:
        with np.errstate(all="ignore"):
            return Check(each.name, OK, each.test())
    except NotTested as reason:
        return Check(each.name, NOT_TESTED, str(reason))
    except Counterexample as found:
        return Check(each.name, FAILED, str(found), found.points, each.remedy)
    except Exception as error:
        cause = error.__cause__ or error
        if isinstance(cause, CutplaneError):
            return Check(each.name, FAILED, str(cause), remedy=each.remedy)
        where = traceback.extract_tb(cause.__traceback__)[-1]
        place = f"in {where.name}, line {where.lineno} of {where.filename}"
        return Check(each.name, FAILED, f"{type(cause).__name__} {place}: {cause}")


def show(point: Array) -> str:
    """Return a point as a short string on one line."""
    return re.sub(r"\s+", " ", np.array2string(point + 0.0, precision=6, threshold=8)).replace("[ ", "[")

"""The time at which a run has to end, in a context variable.

A time limit applies inside masters, projections, conjugates and oracles on a cluster, which share no
argument. Therefore the driver sets the deadline for each iteration, and functions that may take long read it:
a loop calls `check_time` in each iteration, and a backend gets `seconds_left` as its limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter

from cutplane.runtime.clock import clock

_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)
_patience: ContextVar[float] = ContextVar("patience", default=math.inf)


class OutOfTime(BaseException):
    """The deadline has passed.

    Like `KeyboardInterrupt`, it is not caught by handlers of `Exception`, because the interrupted piece has
    not failed.
    """


def seconds_left() -> float:
    """Return the seconds until the deadline, at least 0; inf if there is none."""
    moment = _deadline.get()
    return moment if moment == math.inf else max(moment - clock(), 0.0)


def patience() -> float:
    """Return the seconds by the wall clock until a compilation must end; inf if there is no time limit.

    The clock of `seconds_left` stops during compilation, but a solve with a time limit of a second should not
    wait for a compilation of ten seconds.
    """
    return max(_patience.get() - perf_counter(), 0.0)


@contextmanager
def patient_until(moment: float) -> Iterator[None]:
    """Set the end of `patience`, a time of `time.perf_counter`, unless an earlier end is set."""
    token = _patience.set(min(_patience.get(), moment))
    try:
        yield
    finally:
        _patience.reset(token)


def check_time() -> None:
    """Raise `OutOfTime` if the deadline has passed."""
    moment = _deadline.get()
    if moment < math.inf and clock() >= moment:
        raise OutOfTime("the time limit has passed")


@contextmanager
def limited_to(seconds: float) -> Iterator[None]:
    """Set the deadline inside the context to `seconds` from now, unless an earlier one is set."""
    token = _deadline.set(min(_deadline.get(), clock() + seconds))
    try:
        yield
    finally:
        _deadline.reset(token)

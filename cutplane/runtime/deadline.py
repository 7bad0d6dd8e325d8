"""The moment by which a run has to end, in a context variable.

A time limit holds inside masters, projections, conjugates and oracles on a cluster, which have no signature
in common. So the driver sets it for each iteration, and functions that may take long read it: with
`check_time` between iterations, or with `seconds_left` for a backend.
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

    It passes through handlers of `Exception`, as `KeyboardInterrupt` does, because the interrupted piece has
    not failed.
    """


def seconds_left() -> float:
    """Return the seconds until the deadline, at least 0; inf without one."""
    moment = _deadline.get()
    return moment if moment == math.inf else max(moment - clock(), 0.0)


def patience() -> float:
    """Return the seconds by the wall clock in which a compilation has to pay; inf without a time limit.

    It is not the clock of `seconds_left`, which stops during compilation, because a solve with a time limit
    of a second must not wait for ten seconds of compilation.
    """
    return max(_patience.get() - perf_counter(), 0.0)


@contextmanager
def patient_until(moment: float) -> Iterator[None]:
    """Set the end of `patience`, a moment of `time.perf_counter`, unless it ends earlier."""
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
    """Set the deadline to so many seconds from now for what runs inside, unless an earlier one is set."""
    token = _deadline.set(min(_deadline.get(), clock() + seconds))
    try:
        yield
    finally:
        _deadline.reset(token)

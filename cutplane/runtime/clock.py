"""The clock of time limits and histories, which stops while numba compiles, because this is done once."""

from __future__ import annotations

import threading
from time import perf_counter
from typing import NamedTuple


class _State(NamedTuple):
    waiting: int
    """Number of threads that compile, or wait for the thread that compiles."""
    since: float
    seconds: float
    """Seconds of compilation until the last time at which the clock stopped."""


_state = _State(0, 0.0, 0.0)
_lock = threading.Lock()


def clock() -> float:
    """Return `time.perf_counter()` minus the seconds in which routines were compiled or loaded."""
    waiting, since, seconds = _state
    return (since if waiting else perf_counter()) - seconds


def compiled_seconds() -> float:
    """Return the seconds that this process has spent compiling routines, or loading compiled ones."""
    waiting, since, seconds = _state
    return seconds + (perf_counter() - since if waiting else 0.0)


def stop() -> None:
    """Stop the clock; it continues after as many calls of `go_on` as of `stop`."""
    global _state
    with _lock:
        waiting, since, seconds = _state
        _state = _State(waiting + 1, since if waiting else perf_counter(), seconds)


def go_on() -> None:
    """Undo one `stop`; the last one lets the clock continue."""
    global _state
    with _lock:
        waiting, since, seconds = _state
        _state = _State(waiting - 1, since, seconds if waiting > 1 else seconds + perf_counter() - since)

"""Hypothesis draws the same examples in each run; ``--hypothesis-profile=random`` draws others.

Routines are compiled when they are first called, so that answers are the same to the last bit, whatever ran
before. The processes of a run compile in turn: each loads from numba's cache what another has compiled.

The processes share the cores: with several threads of BLAS in each, most of their time would pass in waiting.

A process that a shell started in the background ignores Ctrl-C, and so would the tests of it.

Of the combinations of a test's parameters, a usual run has those in which some value of a parameter is new;
the others are `slow`, but where a test is marked `every`.
"""

import atexit
import gc
import os
import signal
import threading
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import settings
from numba.core import event

os.environ.setdefault("CUTPLANE_COMPILE", "always")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

settings.register_profile("repeatable", derandomize=True, max_examples=25, deadline=None)
settings.register_profile("random", derandomize=False, deadline=None)
settings.load_profile("repeatable")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


class InTurn(event.Listener):
    """Holds a lock of this file while a thread of the process waits for numba's compiler or has it."""

    def __init__(self, lock):
        self.file, self.lock = Path(__file__).open(), lock
        atexit.register(self.file.close)
        self.threads, self.count = threading.Lock(), 0

    def on_start(self, event):
        with self.threads:
            if self.count == 0:
                self.lock.flock(self.file, self.lock.LOCK_EX)
            self.count += 1

    def on_end(self, event):
        with self.threads:
            self.count -= 1
            if self.count == 0:
                self.lock.flock(self.file, self.lock.LOCK_UN)


with suppress(ImportError):  # Windows has no such locks
    import fcntl

    import cutplane.runtime.compiling  # its clock stops before a process waits  # noqa: F401

    event.register("numba:compiler_lock", InTurn(fcntl))


def identity(value):
    """What two parameters have in common that are the same value."""
    return (type(value), value) if isinstance(value, str | float | int) else id(value)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect without the garbage collector: modules and tests live as long as the process."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    known = defaultdict(set)
    for item in items:
        parameters = getattr(item, "callspec", None) and item.callspec.params
        if not parameters or any(item.get_closest_marker(name) for name in ("every", "slow")):
            continue
        values = {(name, identity(value)) for name, value in parameters.items()}
        seen = known[item.nodeid.partition("[")[0]]
        if len(values) > 1 and values <= seen:
            item.add_marker(pytest.mark.slow)
        seen |= values

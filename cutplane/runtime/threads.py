"""The threads on which passes over the data run, shared by all problems of the process.

A pass is split into chunks whose kernels release the interpreter lock. The chunks are the same whatever the
number of threads, and so are the results. The calling thread takes chunks like the others, and at the end it
waits for those threads only that have begun one: calls from several threads, and calls within calls, cannot
wait for each other. A thread is woken in a third of the time that concurrent.futures takes, which matters
for passes of some tenths of a millisecond.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from typing import Any, TypeVar

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import as_count
from cutplane.runtime.blas import one_blas_thread
from cutplane.runtime.deadline import check_time

Chunk = TypeVar("Chunk")
Answer = TypeVar("Answer")

VARIABLE = "CUTPLANE_NUM_THREADS"

_lock = threading.RLock()
_here = threading.local()
_n_threads: int | None = None
_crew: list[threading.Thread] = []
_calls: SimpleQueue[_Call] = SimpleQueue()


def get_threads() -> int:
    """Return the number of threads on which a pass over the data runs.

    It is what `set_threads` was last given; before that, the environment variable ``CUTPLANE_NUM_THREADS`` if
    it is set, else the number of cores on which this process may run.

    Returns
    -------
    int
        At least 1.

    Raises
    ------
    InvalidInputError
        If the environment variable is not a positive integer.
    """
    global _n_threads
    with _lock:
        if _n_threads is None:
            _n_threads = _default()
        return _n_threads


def set_threads(n: int) -> None:
    """Set the number of threads on which a pass over the data runs, for the whole process.

    Results do not depend on it, not even in the last bit. Set it to 1 in each of several processes that share
    the cores between them.

    Parameters
    ----------
    n : int
        At least 1; the calling thread is one of them.

    Raises
    ------
    InvalidInputError
        If `n` is not a positive integer.

    Examples
    --------
    >>> from cutplane.runtime.threads import get_threads, set_threads
    >>> before = get_threads()
    >>> set_threads(1)
    >>> get_threads()
    1
    >>> set_threads(before)
    """
    global _n_threads
    n = as_count("the number of threads", n)
    with _lock:
        _n_threads = n


def run_chunks(function: Callable[[Chunk], Answer], chunks: Iterable[Chunk]) -> list[Answer]:
    """Return [function(chunk) for chunk in chunks], computed on `get_threads` threads.

    Parameters
    ----------
    function : callable
        Spends its time in code that releases the interpreter lock. If it calls `run_chunks` itself, then that
        call wakes no further threads.
    chunks : iterable
        Each worth more than 50 microseconds, the time that it takes to wake a thread.

    Raises
    ------
    Exception
        What a call of `function` raises; the chunks not begun by then are left out.
    OutOfTime
        If the deadline passes between two chunks of the calling thread.

    Examples
    --------
    >>> from cutplane.runtime.threads import run_chunks
    >>> run_chunks(sum, [(1, 2), (3, 4)])
    [3, 7]
    """
    chunks = list(chunks)
    wanted = min(get_threads(), len(chunks)) - 1
    if wanted < 1 or getattr(_here, "helps", False):
        return [_in_time(function, chunk) for chunk in chunks]
    call = _Call(function, chunks)
    with one_blas_thread():
        for _ in range(_enlist(wanted)):
            _calls.put(call)
        try:
            call.work()
        finally:
            call.close()
    if call.error is not None:
        raise call.error
    return call.answers


def _in_time(function: Callable[[Chunk], Answer], chunk: Chunk) -> Answer:
    check_time()
    return function(chunk)


class _Call:
    """One call of `run_chunks`."""

    def __init__(self, function: Callable[[Any], Any], chunks: list[Any]) -> None:
        self.function = function
        self.todo = deque(enumerate(chunks))
        self.answers: list[Any] = [None] * len(chunks)
        self.error: BaseException | None = None
        self.lock = threading.Lock()
        self.open = True
        self.helpers = 0
        self.last_helper_left = threading.Lock()
        self.last_helper_left.acquire()

    def work(self) -> None:
        """Do chunks until none is left."""
        while self.todo:
            try:
                position, chunk = self.todo.popleft()
            except IndexError:  # another thread was faster
                return
            try:
                self.answers[position] = _in_time(self.function, chunk)
            except BaseException as error:
                self.error = error
                self.todo.clear()

    def help(self) -> None:
        """Work in a thread of the crew, unless the calling thread has finished."""
        with self.lock:
            if not self.open:
                return
            self.helpers += 1
        self.work()
        with self.lock:
            self.helpers -= 1
            if not self.open and not self.helpers:
                self.last_helper_left.release()

    def close(self) -> None:
        """Wait until no helper works any more; no other can begin."""
        with self.lock:
            self.open = False
            helped = self.helpers > 0
        if helped:
            self.last_helper_left.acquire()


def _enlist(wanted: int) -> int:
    """Start threads until there are as many as wanted, and return how many of those there are."""
    with _lock:
        while len(_crew) < wanted:
            thread = threading.Thread(target=_serve, args=(_calls,), name="cutplane", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the system has no more, or the interpreter is shutting down
                return len(_crew)
            _crew.append(thread)
    return wanted


def _serve(calls: SimpleQueue[_Call]) -> None:
    _here.helps = True
    while True:
        calls.get().help()  # without a name: an idle thread must not keep the data of its last call


def _default() -> int:
    value = os.environ.get(VARIABLE)
    if value is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not value.strip().isdecimal() or int(value) < 1:
        raise InvalidInputError(
            f"The environment variable {VARIABLE} must be a positive integer, got {value!r}."
        )
    return int(value)


def _after_fork() -> None:
    global _lock, _calls
    _lock, _calls = threading.RLock(), SimpleQueue()
    _crew.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)  # a child process has none of the threads of its parent

"""The threads on which passes over the data run, shared by all problems of the process; one thread for BLAS.

A pass is split into chunks, which release the interpreter lock. Neither the chunks nor the results depend on
the number of threads. The calling thread computes chunks like the others, and at the end it waits only for
threads that have begun a chunk. Therefore calls from several threads, and nested calls, cannot wait for each
other. concurrent.futures is not used because it takes three times as long to wake a thread, and a pass may
take only a few tenths of a millisecond.

Within a solve, BLAS has one thread, because most of its calls are small and its threads wait for each other
in loops. Oracles of the user run with all threads of BLAS, unless their calls are so short that changing the
number would take a considerable part of their time.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ContextDecorator, contextmanager, nullcontext
from contextvars import copy_context
from functools import cache
from queue import SimpleQueue
from typing import Any, TypeVar

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import as_count
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

    It is the last argument of `set_threads`. Before the first call, it is the environment variable
    ``CUTPLANE_NUM_THREADS`` if it is set, otherwise the number of cores on which this process may run.

    If this is not a positive integer, `InvalidInputError` is raised.
    """
    global _n_threads
    with _lock:
        if _n_threads is None:
            value = os.environ.get(VARIABLE)
            if value is None:
                cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
            elif not value.strip().isdecimal() or int(value) < 1:
                raise InvalidInputError(
                    f"The environment variable {VARIABLE} must be a positive integer, got {value!r}."
                )
            else:
                cores = int(value)
            _n_threads = cores or 1
        return _n_threads


def set_threads(n: int) -> None:
    """Set the number of threads on which a pass over the data runs, for the whole process.

    Results of passes do not depend on it, not even in the last bit. A branch and bound search by
    `GraphicalModel.map` visits other nodes, so that it may return another labelling of the same least energy
    and, if it is stopped early, another labelling and bound; both are valid for any number of threads. Set
    the number to 1 in each process if several processes share the cores.

    Parameters
    ----------
    n : int
        At least 1, or `InvalidInputError` is raised; the calling thread is one of them.

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

    The function should release the interpreter lock most of the time. Nested calls of `run_chunks` wake no
    further threads. A chunk should take more than 50 microseconds, because waking a thread takes as long.
    The context variables of the caller apply in all threads. After an error in a call no further chunk
    begins, and `OutOfTime` is raised if the deadline passes between two chunks.
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
        self.finished = threading.Lock()
        self.finished.acquire()
        self.context = copy_context()  # the deadline, for example

    def work(self) -> None:
        """Compute chunks until there are no more."""
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
        """Compute chunks in another thread, unless the calling thread has finished."""
        with self.lock:
            if not self.open:
                return
            self.helpers += 1
        self.context.copy().run(self.work)
        with self.lock:
            self.helpers -= 1
            if not self.open and not self.helpers:
                self.finished.release()

    def close(self) -> None:
        """Let no further helper begin, and wait until all helpers have ended."""
        with self.lock:
            self.open = False
            helped = self.helpers > 0
        if helped:
            self.finished.acquire()


def _enlist(wanted: int) -> int:
    """Start threads until there are `wanted` threads; return their number."""
    with _lock:
        while len(_crew) < wanted:
            thread = threading.Thread(target=_serve, args=(_calls,), name="cutplane", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the system has no more threads, or the interpreter is shutting down
                return len(_crew)
            _crew.append(thread)
    return wanted


def _serve(calls: SimpleQueue[_Call]) -> None:
    _here.helps = True
    while True:
        calls.get().help()  # no variable, because an idle thread must not keep the data of its last call


_usual: list[int] | None = None
"""The number of threads of each BLAS library before `one_blas_thread`; None outside of this context."""


class one_blas_thread(ContextDecorator):
    """Limit BLAS to the calling thread; do nothing while any thread is in such a context."""

    _before: list[int] | None = None

    def _recreate_cm(self) -> one_blas_thread:
        return one_blas_thread()

    def __enter__(self) -> None:
        global _usual
        if _usual is not None:
            return
        with _lock:
            if _usual is None:
                _usual = self._before = [library.num_threads for library in _libraries()]
                _set([1] * len(_usual))

    def __exit__(self, *error: object) -> None:
        global _usual
        if self._before is not None:
            with _lock:
                _set(self._before)
                _usual = None


def usual_blas_threads() -> AbstractContextManager[None]:
    """Give BLAS the number of threads that it had before `one_blas_thread`."""
    usual = _usual
    return nullcontext() if usual is None or max(usual, default=1) == 1 else _with_threads(usual)


@contextmanager
def _with_threads(usual: list[int]) -> Iterator[None]:
    _set(usual)
    try:
        yield
    finally:
        with _lock:
            if _usual is usual:
                _set([1] * len(usual))


def _set(numbers: list[int]) -> None:
    for library, number in zip(_libraries(), numbers, strict=True):
        if library.num_threads != number:
            library.set_num_threads(number)


@cache
def _libraries() -> list[Any]:
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas").lib_controllers


def _after_fork() -> None:
    global _lock, _calls
    _lock, _calls = threading.RLock(), SimpleQueue()
    _crew.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)  # a child process has none of the threads of its parent

"""Failures that may happen at any point of a solve: Ctrl-C, and memory that runs out."""

from __future__ import annotations

import signal
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from typing import Any

from cutplane.exceptions import OutOfMemoryError


class Interrupt:
    """Whether Ctrl-C was pressed."""

    pressed = False


@contextmanager
def watched_interrupt() -> Iterator[Interrupt]:
    """Record Ctrl-C and raise `KeyboardInterrupt`; only in the main thread, and in place of Python's handler.

    Ctrl-C is recorded because the exception may be lost. For example, a module that is being imported
    replaces it by ImportError, and a compiled solver drops it.
    """
    interrupt, python = Interrupt(), signal.default_int_handler
    if current_thread() is not main_thread() or signal.getsignal(signal.SIGINT) is not python:
        yield interrupt
        return

    def handle(number: int, frame: Any) -> None:
        interrupt.pressed = True
        python(number, frame)

    signal.signal(signal.SIGINT, handle)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, python)


@contextmanager
def memory_for(task: str) -> Iterator[None]:
    """Raise `OutOfMemoryError` if the block runs out of memory."""
    try:
        yield
    except MemoryError as error:
        raise out_of_memory(error, task) from error


def out_of_memory(error: MemoryError, task: str) -> OutOfMemoryError:
    """Return an `OutOfMemoryError` to raise from `error`, which names the task and the failed function."""
    if isinstance(error, OutOfMemoryError):
        return error
    told = str(error).rstrip(".") or "the size is not known"
    return OutOfMemoryError(
        f"Memory ran out in {task}, at {_place(error)}: {told}. Use fewer examples or features, float32 or "
        "sparse data, or a small max_cuts, or give the process more memory."
    )


def _place(error: MemoryError) -> str:
    """Return the function that allocated memory, the innermost one of this package or of the user's code."""
    skipped = sysconfig.get_paths()["stdlib"], "site-packages"
    names, ours = [], []
    for frame, _ in traceback.walk_tb(error.__traceback__):
        name = f"{frame.f_globals.get('__name__', '?')}.{frame.f_code.co_qualname}"
        names.append(name)
        if name.startswith("cutplane.") or not any(part in frame.f_code.co_filename for part in skipped):
            ours.append(name)
    return (ours or names)[-1]

"""Ctrl-C, also where the code that it arrives in loses it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from typing import Any


class Interrupt:
    """Whether Ctrl-C was pressed.

    Attributes
    ----------
    pressed : bool
    """

    pressed = False


@contextmanager
def watched_interrupt() -> Iterator[Interrupt]:
    """Record Ctrl-C beside raising `KeyboardInterrupt`, in the main thread and with Python's handler only.

    A module that is imported then raises ImportError instead, because its initialisation failed; a solver or
    a destructor of compiled code drops the exception.
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

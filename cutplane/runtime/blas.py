"""One thread for BLAS within a solve.

The passes of a solve run on threads of ours, and what is left to BLAS is mostly small. Its own threads would
nest in ours, and they wait for one another in loops: beside any other process that wants the same cores a
solve took up to a hundred times as long. Oracles of the user keep the threads that they would have, unless
their calls are so short that changing the number takes a share of them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ContextDecorator, contextmanager, nullcontext
from functools import cache
from typing import Any

_lock = threading.Lock()
_usual: list[int] | None = None


class one_blas_thread(ContextDecorator):
    """Keep BLAS on the calling thread; within another such context, of any thread, this does nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.runtime.blas import one_blas_thread
    >>> with one_blas_thread():
    ...     product = np.ones((2, 2)) @ np.ones((2, 2))
    >>> product.tolist()
    [[2.0, 2.0], [2.0, 2.0]]
    """

    _own: list[int] | None = None

    def _recreate_cm(self) -> one_blas_thread:
        return one_blas_thread()

    def __enter__(self) -> None:
        global _usual
        if _usual is not None:
            return
        with _lock:
            if _usual is None:
                _usual = self._own = [library.num_threads for library in _libraries()]
                _set([1] * len(_usual))

    def __exit__(self, *error: object) -> None:
        global _usual
        if self._own is not None:
            with _lock:
                _set(self._own)
                _usual = None


def usual_blas_threads() -> AbstractContextManager[None]:
    """Give BLAS the threads that it had before `one_blas_thread`."""
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

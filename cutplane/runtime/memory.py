"""What was allocated, and for what, when memory runs out."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from cutplane.exceptions import OutOfMemoryError


def out_of_memory(error: MemoryError, task: str) -> OutOfMemoryError:
    """Return the error that names a task and the function that could not allocate; raise it from `error`."""
    if isinstance(error, OutOfMemoryError):
        return error
    told = str(error).rstrip(".") or "the size is not known"
    return OutOfMemoryError(
        f"Memory ran out in {task}, at {_place(error)}: {told}. Use fewer examples or features, float32 or "
        "sparse data, or a small max_cuts, or give the process more memory."
    )


@contextmanager
def memory_for(task: str) -> Iterator[None]:
    """Raise `OutOfMemoryError` where a block runs out of memory."""
    try:
        yield
    except MemoryError as error:
        raise out_of_memory(error, task) from error


def _place(error: MemoryError) -> str:
    """Return the function that allocated: the innermost of this package, or of the user's code."""
    skipped = sysconfig.get_paths()["stdlib"], "site-packages"
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    names = [f"{frame.f_globals.get('__name__', '?')}.{frame.f_code.co_qualname}" for frame in frames]
    files = [frame.f_code.co_filename for frame in frames]
    ours = [
        name
        for name, file in zip(names, files, strict=True)
        if name.startswith("cutplane.") or not any(part in file for part in skipped)
    ]
    return (ours or names)[-1]

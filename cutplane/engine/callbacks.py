"""Things called with the state after each iteration: a log line, a progress display."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import IO, Any

from cutplane.engine.history import State
from cutplane.pieces.validation import as_count
from cutplane.runtime.extras import require_extra

Callback = Callable[[State], Any]

HEADER = f"{'iter':>6} {'lower':>15} {'upper':>15} {'gap':>9} {'time':>8} {'cuts':>6}  step"


def format_line(state: State) -> str:
    """Return iteration, bounds, gap, time, cuts and step kind as one line under `HEADER`."""
    return (
        f"{state.iteration:>6} {state.lower_bound:>15.8g} {state.upper_bound:>15.8g} {state.gap:>9.2e} "
        f"{state.elapsed:>7.2f}s {state.n_cuts:>6}  {state.step}{'  ! ' + state.note if state.note else ''}"
    )


@dataclass
class Log:
    """Print a line per iteration.

    Parameters
    ----------
    every : int, default 1
        Print only each `every`-th iteration.
    stream : file, optional
        Default: standard output at the time of the call.
    """

    every: int = 1
    stream: IO[str] | None = None

    def __post_init__(self) -> None:
        as_count("every", self.every)

    def __call__(self, state: State) -> None:
        """Print the line of this state."""
        stream = self.stream or sys.stdout
        if state.iteration == 0:
            print(HEADER, file=stream)
        if state.iteration % self.every == 0:
            print(format_line(state), file=stream)


def progress_display(enabled: bool) -> AbstractContextManager[Callback | None]:
    """Return a context that gives a live display (needs the extra ``progress``), or None if not enabled."""
    if not enabled:
        return nullcontext()
    require_extra("rich.progress", "progress")
    from cutplane.report.progress import LiveProgress

    return LiveProgress()

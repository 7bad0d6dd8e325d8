"""Runs a loop to its end before an audience: a callback, a log, a progress display."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cutplane.callbacks import Callback, Log, progress_display
from cutplane.status import Status
from cutplane.stopping import Stop

if TYPE_CHECKING:
    from cutplane.engine.loop import Loop
    from cutplane.result import Result
    from cutplane.state import State


def run(
    loop: Loop,
    callback: Callback | None,
    progress: bool,
    log: bool,
    view: Callable[[State], State] = lambda state: state,
) -> Result:
    """Iterate until a rule, the callback or Ctrl-C stops the loop; the audience sees `view` of each state."""
    with progress_display(progress) as display:
        watchers = [watcher for watcher in (callback, Log() if log else None, display) if watcher is not None]
        try:
            for state in loop:
                if any([watcher(view(state)) is True for watcher in watchers]):
                    loop.stop = Stop(Status.INTERRUPTED, "the callback asked to stop")
        except KeyboardInterrupt:
            if not loop.started:
                raise
            loop.stop = Stop(Status.INTERRUPTED, "interrupted from the keyboard")
    return loop.result()

"""Runs a loop to its end before an audience: a callback, a log, a progress display."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from cutplane.callbacks import Callback, Log, progress_display
from cutplane.state import State
from cutplane.status import Status
from cutplane.stopping import Stop

Answer = TypeVar("Answer", covariant=True)


class Watchable(Protocol[Answer]):
    """A loop that yields a state after each iteration and can be stopped from outside."""

    stop: Stop | None

    def __iter__(self) -> Iterator[State]: ...

    @property
    def started(self) -> bool:
        """Whether there is something to return."""
        ...

    def result(self) -> Answer:
        """Return the result so far."""
        ...


def run(
    loop: Watchable[Answer],
    callback: Callback | None,
    progress: bool,
    log: bool,
    view: Callable[[State], State] = lambda state: state,
) -> Answer:
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

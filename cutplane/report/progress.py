"""The live progress display, drawn by rich."""

from __future__ import annotations

import math

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from cutplane.engine.history import State
from cutplane.runtime.extras import require_extra

_DECADES = 12.0
"""Decades of the gap in a full bar, because rounding errors seldom allow a gap below 1e-12."""


class LiveProgress:
    """One line with iteration, gap on a logarithmic bar, bounds, cuts and time."""

    def __init__(self) -> None:
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.fields[line]}"),
            BarColumn(bar_width=12),
            TimeElapsedColumn(),
            transient=True,
        )
        if self._progress.console.is_jupyter:
            require_extra("ipywidgets", "notebook")  # because rich draws in a widget there
        self._task = self._progress.add_task("solve", total=_DECADES, line="")

    def __enter__(self) -> LiveProgress:
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()

    def __call__(self, state: State) -> None:
        """Show this state."""
        closed = -math.log10(max(state.gap, 10.0**-_DECADES)) if math.isfinite(state.gap) else 0.0
        line = (
            f"iteration {state.iteration}  gap {state.gap:.2e}  "
            f"[{state.lower_bound:.6g}, {state.upper_bound:.6g}]  {state.n_cuts} cuts"
        )
        self._progress.update(self._task, completed=max(0.0, closed), line=line)

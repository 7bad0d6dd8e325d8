"""A table of the times and bounds of several methods and backends on one problem."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from cutplane.masters.select import Backend, as_backend, refusal_of
from cutplane.methods.auto import as_method
from cutplane.methods.base import Method
from cutplane.pieces.parameters import short_repr
from cutplane.pieces.validation import as_count
from cutplane.problem import Problem, refuse_options
from cutplane.result import Result
from cutplane.runtime.clock import clock
from cutplane.runtime.extras import require_extra
from cutplane.status import Status

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_WARM_UP = 3
"""Number of iterations of the first run, which is not timed because it compiles and loads routines."""
_WATCHERS = ("callback", "log", "progress", "stop")
_COLUMNS = {
    "seconds": "{0.seconds:.3g}",
    "oracle": "{0.oracle_seconds:.3g}",
    "master": "{0.master_seconds:.3g}",
    "iterations": "{0.iterations}",
    "calls": "{0.oracle_calls}",
    "objective": "{0.objective:.8g}",
    "gap": "{0.gap:.1e}",
    "objective error": "{0.objective_error:.1e}",
    "bound error": "{0.bound_error:.1e}",
}
_HEADER = ("method, backend", "status", *_COLUMNS)


@dataclass(frozen=True, eq=False)
class Row:
    """One method with one backend.

    Attributes
    ----------
    method, backend : str
        The arguments.
    status : str
        Status of the result; "FAILED" if there is none.
    seconds, oracle_seconds, master_seconds : float
        Time of the fastest repetition, and its time in the oracles and in the masters.
    iterations, oracle_calls : int
    objective, lower_bound, gap : float
        Values of the fastest repetition; the gap is relative and certified.
    objective_error : float
        Objective minus the least objective of all rows, divided by the latter.
    bound_error : float
        Excess of the lower bound over the least objective of all rows, divided by the latter; 0 unless the
        bound is wrong.
    method_used, backend_used : str
        The method and backend that solved the problem. They differ from the arguments if these are "auto", or
        if a backend failed.
    note : str
        The reason why there is no result, or the failures from which the solve recovered.
    result : Result or None
    """

    method: str
    backend: str
    status: str
    seconds: float = math.nan
    oracle_seconds: float = math.nan
    master_seconds: float = math.nan
    iterations: int = 0
    oracle_calls: int = 0
    objective: float = math.nan
    lower_bound: float = math.nan
    gap: float = math.nan
    objective_error: float = math.nan
    bound_error: float = math.nan
    method_used: str = ""
    backend_used: str = ""
    note: str = ""
    result: Result | None = field(default=None, repr=False)

    @property
    def label(self) -> str:
        """Method and backend in a few characters; if others were used, they follow in brackets."""
        pairs = ((self.method, self.method_used), (self.backend, self.backend_used))
        return ", ".join(asked if used in ("", asked) else f"{asked} ({used})" for asked, used in pairs)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """The table that `compare` returns.

    Attributes
    ----------
    rows : tuple of Row
        The rows in the order of the runs.
    tol : float
        The relative gap that ends a run.
    """

    rows: tuple[Row, ...]
    tol: float

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Row:
        return self.rows[index]

    @property
    def results(self) -> tuple[Result | None, ...]:
        """The result of each row; None for a row that failed."""
        return tuple(row.result for row in self.rows)

    @property
    def best(self) -> Row | None:
        """The fastest row that is OPTIMAL, else the one with the smallest gap; None if every row failed."""
        solved = [row for row in self.rows if row.result is not None]
        return min(
            solved,
            key=lambda row: (row.status != "OPTIMAL", row.seconds if row.status == "OPTIMAL" else row.gap),
            default=None,
        )

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas DataFrame with one row per run (needs the extra ``tables``)."""
        pd = require_extra("pandas", "tables")
        names = [field.name for field in fields(Row) if field.name != "result"]
        return pd.DataFrame([[getattr(row, name) for name in names] for row in self.rows], columns=names)

    def plot(self, ax: Axes | None = None, by: str = "seconds") -> Axes:
        """Plot the gap of every run and return the axes (needs the extra ``plot``).

        Parameters
        ----------
        ax : matplotlib Axes, optional
            The axes to draw into; new axes by default.
        by : {"seconds", "calls", "iterations"}, default "seconds"
            The horizontal axis: time, oracle calls or iterations.
        """
        from cutplane.report.plotting import plot_comparison

        return plot_comparison(self, ax=ax, by=by)

    def _cells(self) -> list[list[str]]:
        return [
            [
                row.label,
                row.status,
                *("" if row.result is None else text.format(row) for text in _COLUMNS.values()),
            ]
            for row in self.rows
        ]

    def _notes(self) -> list[str]:
        labels: dict[str, list[str]] = {}
        for row in self.rows:
            if row.note:
                labels.setdefault(row.note, []).append(row.label)
        return [f"{' / '.join(found)}: {note}" for note, found in labels.items()]

    def __repr__(self) -> str:
        table = [list(_HEADER), *self._cells()]
        widths = [max(len(line[column]) for line in table) for column in range(len(_HEADER))]
        lines = [
            "  ".join(
                cell.ljust(width) if column < 2 else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(line, widths, strict=True))
            )
            for line in table
        ]
        return "\n".join(line.rstrip() for line in [*lines, *self._notes()])

    def _repr_html_(self) -> str:
        from cutplane.pieces.html import grid

        return grid(_HEADER, self._cells(), caption="; ".join(self._notes()))


def compare(
    problem: Problem,
    methods: Sequence[Method | str] = ("auto",),
    backends: Sequence[str | Backend] = ("auto",),
    *,
    tol: float = 1e-4,
    time_limit: float | None = 60.0,
    max_iter: int = 10_000,
    repeat: int = 1,
    **options: Any,
) -> Comparison:
    """Solve one problem with every method and every backend.

    Each combination first runs for 3 iterations that are not timed, because they may compile routines and
    import modules. A combination that cannot solve the problem gives a row with the reason, not an error.

    Parameters
    ----------
    problem : Problem
    methods : sequence of Method or str, default ("auto",)
        As in `Problem.solve`.
    backends : sequence of str or Backend, default ("auto",)
    tol : float, default 1e-4
        Relative certified gap at which a run ends.
    time_limit : float or None, default 60
        Seconds for each run.
    max_iter : int, default 10000
        Iterations of each run.
    repeat : int, default 1
        Number of timed runs of each combination, of which the fastest is reported.
    **options
        Passed to `Problem.solve`.

    Returns
    -------
    Comparison
        A table to print or plot; ``to_frame()`` turns it into a DataFrame.

    Raises
    ------
    InvalidInputError
        If a method is neither a `Method` nor the name of one.
    TypeError
        If `Problem.solve` has no such option.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> X, y = np.array([[2.0], [-2.0]]), np.array([1.0, -1.0])
    >>> problem = cut.Problem(cut.LinearRisk(X, y, cut.losses.Hinge()), cut.L2(1.0))
    >>> table = cut.compare(problem, methods=[cut.BMRM(), cut.OCAS()], tol=1e-8)
    >>> [(row.method, row.status, round(row.objective, 6)) for row in table.rows]
    [('BMRM', 'OPTIMAL', 0.125), ('OCAS', 'OPTIMAL', 0.125)]
    """
    known = inspect.signature(Problem.solve).parameters
    refuse_options({name: value for name, value in options.items() if name not in known})
    as_count("repeat", repeat)
    for method in methods:
        as_method(method, problem)
    limits: dict[str, Any] = {"tol": tol, "time_limit": time_limit, "max_iter": max_iter}
    rows: list[Row] = []
    for method in methods:
        for backend in backends:
            rows.append(_run(problem, method, backend, repeat, limits | options))
            if rows[-1].status == Status.INTERRUPTED and "callback" not in options:
                return _table(rows, tol)
    return _table(rows, tol)


def _run(problem: Problem, method: Any, backend: Any, repeat: int, options: dict[str, Any]) -> Row:
    label = backend if isinstance(backend, str) else getattr(backend, "name", repr(backend))
    names = _name(method), repr(backend) if isinstance(backend, Backend) else label
    try:
        chosen, solver = as_method(method, problem), as_backend(backend)
        refusals = [refusal_of(problem.reduced, kind, solver) for kind in chosen.stabilizations]
        if refusals and all(refusals):
            note = f"the backend cannot solve these reduced problems: {refusals[0]}"
            return Row(*names, "FAILED", note=note)
        quiet: dict[str, Any] = {name: value for name, value in options.items() if name not in _WATCHERS}
        quiet["max_iter"] = min(_WARM_UP, quiet["max_iter"])
        problem.solve(chosen, backend, **quiet)
        fastest, best = math.inf, None
        for _ in range(repeat):
            start = clock()
            result = problem.solve(chosen, backend, **options)
            seconds = clock() - start
            interrupted = result.status is Status.INTERRUPTED
            if seconds < fastest or interrupted:
                fastest, best = seconds, result
            if interrupted:
                break
    except Exception as error:
        return Row(*names, "FAILED", note=f"{type(error).__name__}: {error}")
    assert best is not None
    return Row(
        *names,
        status=str(best.status),
        seconds=fastest,
        oracle_seconds=float(best.history.column("oracle_seconds").sum()),
        master_seconds=float(best.history.column("master_seconds").sum()),
        iterations=best.n_iter,
        oracle_calls=best.oracle_calls,
        objective=best.objective,
        lower_bound=best.lower_bound,
        gap=best.gap,
        method_used="+".join(re.findall(r"[A-Za-z]\w*(?=\()", best.method)) or best.method,
        backend_used=best.backend,
        note="; ".join(best.history.notes),
        result=best,
    )


def _name(method: Any) -> str:
    """Return the constructor call of a method without default values, and without empty brackets."""
    if not isinstance(method, Method):
        return str(method)
    return (short_repr(method) if is_dataclass(method) else repr(method)).removesuffix("()")


def _table(rows: list[Row], tol: float) -> Comparison:
    """Return the rows with their errors, relative to the least objective."""
    best = min((row.objective for row in rows if row.result is not None), default=math.inf)
    if math.isfinite(best):
        size = max(1e-12, abs(best))
        rows = [
            replace(
                row,
                objective_error=(row.objective - best) / size,
                bound_error=max(0.0, row.lower_bound - best) / size,
            )
            for row in rows
        ]
    return Comparison(tuple(rows), tol)

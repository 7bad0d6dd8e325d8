"""Records of iterations, and the state after each step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cutplane.exceptions import MissingExtraError
from cutplane.pieces.html import sparkline
from cutplane.pieces.validation import Array
from cutplane.runtime.extras import require_extra
from cutplane.status import relative_gap

if TYPE_CHECKING:
    import pandas as pd


class Record(NamedTuple):
    """One iteration.

    Attributes
    ----------
    iteration : int
        0 is the evaluation of the first point.
    lower_bound, upper_bound : float
        The certified bounds; they never become worse.
    n_cuts : int
        Rows kept in the bundle: cuts and half-spaces.
    step : str
        The kind of step, for example "cut", "serious", "null", "level", "separation".
    oracle_calls : int
        Number of queries of the risk so far, each for a value and a subgradient.
    separations : int
        Number of queries of the separation oracles so far.
    oracle_seconds, master_seconds, other_seconds : float
        Time of this iteration in the oracles, in the masters (with the solver of the certificate, if it needs
        one), and in the engine itself.
    elapsed : float
        Seconds since the start of the solve.
    note : str
        A failure that was repaired, for example of a backend.
    scale : float
        The largest absolute objective so far, to which the gap is relative if the objective is near zero.
    compiled : float
        Seconds since the start in which numba compiled or loaded routines. These seconds are not in the other
        times, and do not count for time limits.
    """

    iteration: int
    lower_bound: float
    upper_bound: float
    n_cuts: int
    step: str
    oracle_calls: int
    separations: int
    oracle_seconds: float
    master_seconds: float
    other_seconds: float
    elapsed: float
    note: str = ""
    scale: float = 1.0
    compiled: float = 0.0

    @property
    def gap(self) -> float:
        """The relative gap."""
        return relative_gap(self.lower_bound, self.upper_bound, self.scale)

    @property
    def gap_abs(self) -> float:
        """The absolute gap."""
        return max(0.0, self.upper_bound - self.lower_bound)


class History:
    """The records of a solve, in order."""

    def __init__(self, records: list[Record]):
        self._records = tuple(records)

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records)

    def __getitem__(self, index: int) -> Record:
        return self._records[index]

    def column(self, name: str) -> Array:
        """Return one attribute of every record as an array."""
        return np.array([getattr(record, name) for record in self._records])

    def ending(self, lower: float) -> History:
        """Return the history with the result's lower bound in the last record, unless it would decrease."""
        if not self._records or lower == -np.inf:
            return self
        *before, last = self._records
        lower = max(lower, before[-1].lower_bound) if before else lower
        return History([*before, last._replace(lower_bound=lower)])

    @property
    def notes(self) -> list[str]:
        """The notes of the records, in order."""
        return [record.note for record in self._records if record.note]

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas DataFrame with one row per iteration (needs the extra ``tables``)."""
        pd = require_extra("pandas", "tables")

        frame = pd.DataFrame(
            [record._asdict() | {"gap": record.gap} for record in self._records],
            columns=[*Record._fields, "gap"],
        )
        return frame.set_index("iteration")

    def __repr__(self) -> str:
        if not self._records:
            return "History(empty)"
        last = self._records[-1]
        return (
            f"History({last.iteration} iterations, lower {last.lower_bound:.6g}, "
            f"upper {last.upper_bound:.6g}, gap {last.gap:.2g})"
        )

    @property
    def sparkline(self) -> str:
        """The relative gap over the iterations, as a small inline SVG chart."""
        return sparkline([record.gap for record in self._records], "relative gap over the iterations")

    def _repr_html_(self) -> str | None:
        try:
            return self.sparkline + self.to_frame().to_html(max_rows=60)
        except MissingExtraError:
            return None


class Mark(NamedTuple):
    """A part of a step that can be drawn.

    Attributes
    ----------
    kind : str
        "model", "prox" (centre and minimiser; the weight), "level" (centre and projection; the level),
        "search" (both ends of a line search, and the point found), "vertex" (the minimiser of the linearised
        objective, and the point of tangency), or another word that a method chooses.
    points : tuple of ndarray of shape (dim,)
    value : float or None
    """

    kind: str
    points: tuple[Array, ...]
    value: float | None = None


@dataclass(frozen=True, eq=False)
class State:
    """The state after an iteration, with the attributes of its `Record`.

    Attributes
    ----------
    record : Record
    x : ndarray of shape (dim,) or None
        The best feasible point so far.
    marks : tuple of Mark
        The parts of the iteration, in order.
    """

    record: Record
    x: Array | None
    marks: tuple[Mark, ...] = ()

    def __getattr__(self, name: str):
        if name.startswith("_") or name == "record":
            raise AttributeError(name)
        return getattr(self.record, name)

    def __repr__(self) -> str:
        return (
            f"State(iteration {self.iteration}, {self.step}, lower {self.lower_bound:.6g}, "
            f"upper {self.upper_bound:.6g}, gap {self.gap:.2g}, {self.n_cuts} cuts)"
        )

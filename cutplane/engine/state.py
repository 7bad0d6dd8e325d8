"""What a step-by-step run shows after each iteration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from cutplane.engine.history import Record
from cutplane.pieces.validation import Array


class Mark(NamedTuple):
    """Something that a step did, to be drawn: what, at which points, with which number.

    Attributes
    ----------
    kind : str
        "model", "prox" (centre and minimiser; the weight), "level" (centre and projection; the level),
        "search" (both ends of a line search, and what it found), "vertex" (where the linearised objective is
        least, seen from where it is tangent), or a word of a method's own.
    points : tuple of ndarray of shape (dim,)
    value : float or None
    """

    kind: str
    points: tuple[Array, ...]
    value: float | None = None


@dataclass(frozen=True, eq=False)
class State:
    """The state after an iteration: the attributes of its `Record`, the best point, and what was done.

    Attributes
    ----------
    record : Record
    x : ndarray of shape (dim,) or None
        The best feasible point so far.
    marks : tuple of Mark
        What the iteration did, in order.
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

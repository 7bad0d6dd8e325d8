"""What a step-by-step run shows after each iteration."""

from __future__ import annotations

from dataclasses import dataclass

from cutplane.engine.history import Record
from cutplane.pieces.validation import Array


@dataclass(frozen=True, eq=False)
class State:
    """The state after an iteration: the attributes of its `Record`, and the best point.

    Attributes
    ----------
    record : Record
    x : ndarray of shape (dim,) or None
        The best feasible point so far.
    """

    record: Record
    x: Array | None

    def __getattr__(self, name: str):
        if name.startswith("_") or name == "record":
            raise AttributeError(name)
        return getattr(self.record, name)

    def __repr__(self) -> str:
        return (
            f"State(iteration {self.iteration}, {self.step}, lower {self.lower_bound:.6g}, "
            f"upper {self.upper_bound:.6g}, gap {self.gap:.2g}, {self.n_cuts} cuts)"
        )

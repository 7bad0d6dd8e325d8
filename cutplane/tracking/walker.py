"""The walk along a path of solutions, from knot to knot."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from cutplane.methods.base import Knots
from cutplane.pieces.validation import Array

if TYPE_CHECKING:
    from cutplane.engine.run import Run

JOINS, LEAVES, CROSSES = "joins", "leaves", "crosses"
Event = tuple[float, str, int, float]
"""The decrease of the weight until the event (inf if there is none), its kind, its index, and its side."""

ZERO_RATE = 1e-11
"""Share of the terms of a rate up to which it counts as zero, because rounding errors of solves with a factor
are as large."""
NOW = 1e-13
"""Share of the weight within which events are simultaneous, because rounding errors separate such events."""


class PathWalker(ABC):
    """The solution at a decreasing weight; between knots it is linear in the weight or its inverse.

    A subclass has the equations of the active members. It computes the direction of the solution, the next
    event, and the change of the members at an event.

    Attributes
    ----------
    lam, end : float
    knots : Knots
    patience : int
        Number of events at one weight after which rounding errors are assumed to cause a cycle.
    """

    lam: float
    end: float
    knots: Knots
    patience: int
    n_idle = 0

    def advance(self, n_events: int) -> bool:
        """Pass `n_events` events; tell whether the end is reached."""
        for _ in range(n_events):
            if self.lam <= self.end:
                break
            self.mend()
            direction = self.direction()
            tau, kind, index, side = self.next_event(*direction)
            last = tau >= self.lam - self.end
            tau = self.lam - self.end if last else tau
            self.n_idle = 0 if tau > NOW * self.lam else self.n_idle + 1
            if self.n_idle > self.patience:
                self.skip()
                continue
            self.move(tau, *direction)
            self.lam = self.end if last else self.lam - tau
            if last:
                break
            if kind == LEAVES:
                self.change(kind, index, side)
            if self.n_idle == 0:
                self.keep(f"{kind} {index}")
            if kind != LEAVES:
                self.change(kind, index, side)
        self.refresh()
        if self.lam <= self.end and self.knots.weights[-1] > 1.0 and self.knots.events[-1] != "ends":
            self.keep("ends")
        return self.lam <= self.end

    @abstractmethod
    def direction(self) -> tuple[Any, ...]:
        """Return the change of the solution while the weight decreases by 1."""

    @abstractmethod
    def next_event(self, *direction: Any) -> Event:
        """Return the next event; of simultaneous ones the one with the least index, which prevents cycles."""

    @abstractmethod
    def move(self, tau: float, *direction: Any) -> None:
        """Change the solution by tau times a direction."""

    @abstractmethod
    def change(self, kind: str, index: int, side: float) -> None:
        """Change the members at an event."""

    @abstractmethod
    def keep(self, event: str) -> None:
        """Record a knot."""

    @abstractmethod
    def mend(self) -> None:
        """Correct the solution if rounding errors have grown."""

    @abstractmethod
    def refresh(self) -> None:
        """Recompute sums that accumulate rounding errors, after many events or at the end."""

    @abstractmethod
    def prove(self, run: Run) -> str | None:
        """Prove the last point; return the reason if there is still a gap."""

    @abstractmethod
    def bounds(self, weight: float, x: Array) -> tuple[float, float]:
        """Return a certified lower bound and the objective at x, for a multiple of the last weight."""

    def skip(self) -> None:
        """Continue below a weight where events form a cycle."""
        raise ArithmeticError(f"{self.n_idle} events at one weight")

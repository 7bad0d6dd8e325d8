"""The interface of a method: where to query next, how to move the centre, what the reduced problem adds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from cutplane.exceptions import InvalidInputError
from cutplane.masters.base import Level, Prox
from cutplane.pieces.validation import Array

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.run import Run


@dataclass(frozen=True)
class Step:
    """What one iteration of a method did.

    Attributes
    ----------
    kind : str
        ``"cut"``, ``"serious"``, ``"null"``, ``"level"``, ...: one word for the history.
    state : object
        The method's own state for the next iteration.
    finished : str or None
        The reason, in words, if the method's natural stopping test holds although the gap is not certified.
    """

    kind: str
    state: Any = None
    finished: str | None = None


class Follower(Protocol):
    """Solves problems that differ in the regularizer alone, each from the solution of the last."""

    @property
    def x(self) -> Array:
        """The point it has reached."""
        ...

    def solve(self, problem: Declaration, tolerance: Callable[[float], float]) -> tuple[Array, Array] | None:
        """Return a point and multipliers of the examples; None if it cannot.

        Their gap should be at most the tolerance at the objective.
        """
        ...


@runtime_checkable
class Leads(Protocol):
    """A method that has a follower for the path of a problem."""

    def follower(self, problem: Declaration, x0: Array | None = None) -> Follower | None:
        """Return a follower that begins at x0; None if the problem has another form."""
        ...


class Method(ABC):
    """A frozen dataclass of parameters that says what it needs, where it starts, what an iteration does.

    A method owns no loop, no stopping test, no clock and no log.

    Attributes
    ----------
    stabilizations : tuple
        The kinds of reduced problem it solves: None, `Prox`, `Level`.
    first_cut : bool
        Whether the cut at the first point is wanted; without, its subgradient is not computed.
    """

    first_cut: ClassVar[bool] = True

    stabilizations: tuple[type[Prox] | type[Level] | None, ...] = (None,)

    def needs_infima(self, problem: Declaration) -> bool:
        """Tell whether a known infimum of the risk is to be a row of the reduced problem."""
        return True

    @property
    def name(self) -> str:
        """The name of the method."""
        return type(self).__name__

    def check(self, problem: Declaration) -> None:
        """Raise `MissingCapabilityError` if a piece of the problem lacks what the method needs."""
        return

    def start(self, run: Run) -> Any:
        """Return the state before the first iteration; ``run.anchor`` has been evaluated."""
        return None

    def finish(self, run: Run, state: Any) -> None:
        """Take the best bound that is known when a run ends without a proof."""
        return

    def describe(self, state: Any) -> str:
        """Return what a result says of the method: its parameters, and of a portfolio what ran."""
        return repr(self)

    @abstractmethod
    def step(self, run: Run, state: Any) -> Step:
        """Do one iteration."""


def checked(method: Method, step: Any) -> Step:
    """Return what a method's step returned, if that is a `Step`."""
    if isinstance(step, Step) and isinstance(step.kind, str) and isinstance(step.finished, str | None):
        return step
    raise InvalidInputError(
        f"{method.name}.step must return a cutplane.methods.Step, with a word as kind and a sentence or "
        f"None as finished, got {step!r}."
    )

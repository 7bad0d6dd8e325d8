"""The interface of a method, and the checks that methods share."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError, MissingCapabilityError
from cutplane.masters.base import Level, Prox
from cutplane.pieces.capabilities import Capability, ask, require
from cutplane.pieces.validation import Array
from cutplane.regularizers.base import has_slope

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.run import Run
    from cutplane.pieces.forms import DiagonalQuadratic


CALL = 1e-4
"""Least seconds of a call of an oracle with unknown work, because a small call takes about as long."""


@dataclass(frozen=True)
class Step:
    """The result of one iteration of a method.

    Attributes
    ----------
    kind : str
        ``"cut"``, ``"serious"``, ``"null"``, ``"level"``, ...: one word for the history.
    state : object
        The state of the method for the next iteration.
    finished : str or None
        The reason, in words, if the method's stopping test holds although the gap is not certified.
    """

    kind: str
    state: Any = None
    finished: str | None = None


class Follower(Protocol):
    """Solves problems that differ only in the regularizer, each from the solution of the previous one."""

    @property
    def x(self) -> Array:
        """The last solution."""
        ...

    def solve(self, problem: Declaration, tolerance: Callable[[float], float]) -> tuple[Array, Array] | None:
        """Return a point and multipliers of the examples; None if no solution is found.

        Their gap should be at most the tolerance for this objective.
        """
        ...


@runtime_checkable
class HasFollower(Protocol):
    """A method that has a follower for the path of a problem."""

    def follower(self, problem: Declaration, x0: Array | None = None) -> Follower | None:
        """Return a follower that begins at x0; None if the problem has another form."""
        ...


@dataclass(eq=False)
class Knots:
    """The points where the linear pieces of a path meet, in the order of their discovery."""

    weights: list[float] = field(default_factory=list)  # multiples of the last weight, decreasing
    points: list[tuple[Array, Array]] = field(default_factory=list)  # nonzero coordinates and their values
    events: list[str] = field(default_factory=list)  # at the end of the last piece, for example "joins 3"
    reciprocal: bool = False  # whether the solution is linear in 1 / weight between knots
    limit: Array | None = None  # the solution at an infinite weight; None if it is the first knot

    def add(self, weight: float, index: Array, values: Array, event: str) -> None:
        """Add a knot at the point with these coordinates; the others are zero."""
        self.weights.append(weight)
        self.points.append((index, values))
        self.events.append(event)

    def matrix(self, dim: int) -> sparse.csr_array:
        """Return the points as rows."""
        counts = [index.size for index, _ in self.points]
        columns, values = (np.concatenate(parts) for parts in zip(*self.points, strict=True))
        rows = sparse.csr_array((values, columns, np.cumsum([0, *counts])), shape=(len(counts), dim))
        rows.eliminate_zeros()
        rows.sort_indices()
        return rows


@runtime_checkable
class FollowsPath(Protocol):
    """The state of a method that follows the path down to the weight of its problem."""

    knots: Knots

    def bounds(self, weight: float, x: Array) -> tuple[float, float]:
        """Return a certified lower bound and the objective at x, for a multiple of the last weight."""
        ...


@runtime_checkable
class Counts(Protocol):
    """A state of a method that counts its work.

    Attributes
    ----------
    counted : float
        Seconds so far, computed from sizes and `engine.costs`, because measured times would make runs
        irreproducible.
    """

    @property
    def counted(self) -> float:
        """Seconds so far."""
        ...


class Refusal(NamedTuple):
    """The reason why a method does not suit a problem."""

    reason: str


class Estimate(NamedTuple):
    """The expected time of a method, correct to about a factor of two.

    Attributes
    ----------
    seconds : float
        Time outside the oracle; inf if it is not estimated.
    calls : float
        Number of calls of the oracle, whose time is measured at the first call.
    whole : bool
        Whether the first step is nearly all of the work, and cannot be divided.
    rounds : float
        Number of iterations; 0 if it is not estimated.
    """

    seconds: float
    calls: float = 0.0
    whole: bool = False
    rounds: float = 0.0

    def total(self, call: float = CALL) -> float:
        """Return the whole time, if a call of the oracle takes `call` seconds."""
        return self.seconds + self.calls * call


class Method(ABC):
    """A frozen dataclass of parameters; its methods check requirements, start a run and do an iteration.

    The driver, and not the method, has the loop, the stopping tests, the clock and the log.

    Attributes
    ----------
    stabilizations : tuple
        The kinds of reduced problem that it solves: None, `Prox`, `Level`.
    kind : str
        ``"cuts"``, ``"whole"``, ``"moves"`` or ``"first order"``: "auto" runs at most two of a kind.
    first_cut : bool
        Whether to add the cut at the first point; if False, its subgradient is not computed.
    """

    kind: ClassVar[str] = "cuts"
    first_cut: ClassVar[bool] = True

    stabilizations: tuple[type[Prox] | type[Level] | None, ...] = (None,)

    def needs_infima(self, problem: Declaration) -> bool:
        """Tell whether the infimum of the risk must be a row of the reduced problem."""
        return True

    @property
    def name(self) -> str:
        """The name of the method."""
        return type(self).__name__

    def check(self, problem: Declaration) -> None:
        """Raise `MissingCapabilityError` if a piece of the problem lacks what the method needs."""
        return

    def estimate(self, problem: Declaration) -> Refusal | Estimate:
        """Return the expected time for a problem that `check` accepts, from sizes and `engine.costs`.

        A refusal has the reason why the method would prove nothing; the method then runs only if it is chosen
        by name.
        """
        return Estimate(math.inf)

    def suits(self, problem: Declaration) -> Refusal | Estimate:
        """Return the estimate, or a refusal if the problem lacks a capability that the method needs."""
        try:
            self.check(problem)
        except MissingCapabilityError as error:
            return Refusal(str(error))
        return self.estimate(problem)

    def start(self, run: Run) -> Any:
        """Return the state before the first iteration; ``run.anchor`` is already evaluated."""
        return None

    def finish(self, run: Run, state: Any) -> None:
        """Add the best bound of the state; called when a run ends without a proof."""
        return

    def describe(self, state: Any) -> str:
        """Return the method's text in a result: its parameters, and the parts that ran."""
        return repr(self)

    @abstractmethod
    def step(self, run: Run, state: Any) -> Step:
        """Do one iteration."""


def checked(method: Method, step: Any) -> Step:
    """Return the result of a method's step if it is a `Step`, or raise `InvalidInputError`."""
    if isinstance(step, Step) and isinstance(step.kind, str) and isinstance(step.finished, str | None):
        return step
    raise InvalidInputError(
        f"{method.name}.step must return a cutplane.methods.Step, with a word as kind and a sentence or "
        f"None as finished, got {step!r}."
    )


def is_certifiable(problem: Declaration) -> bool:
    """Tell whether some multipliers give a finite lower bound: X0 bounded, or g with a finite conjugate."""
    return problem.simple_set.bounded is not False or problem.regularizer.lam > 0


def require_bounded_model(problem: Declaration, method: str) -> None:
    """Raise unless the reduced problem is bounded below: X0 is bounded, or g or all infima are given."""
    if is_certifiable(problem):
        return
    if np.isfinite(problem.risk.infima).all():
        return
    raise MissingCapabilityError(
        f"{method} needs a bounded reduced problem, but the problem has no regularizer and "
        f"{problem.simple_set!r} is unbounded. Add a regularizer, intersect the feasible set with a Box, or "
        "use ProximalBundle()."
    )


def require_line(problem: Declaration, method: str) -> None:
    """Raise an error unless the slope of the regularizer along a line can be computed."""
    regularizer = problem.regularizer
    if has_slope(regularizer):
        return
    raise MissingCapabilityError(
        f"{method} searches along lines and needs the slope of {regularizer!r}: give it a method "
        "subgradient(x), or use BMRM()."
    )


def require_square(problem: Declaration, method: str, kind: str, equal: bool = False) -> DiagonalQuadratic:
    """Return the regularizer if it is a square with positive, or equal, weights, and X the whole space."""
    if problem.is_unconstrained and has_slope(problem.regularizer):
        quadratic = ask(problem.active_regularizer, Capability.QUADRATIC, problem.dim)
        if quadratic is not None and quadratic.weights.min() > 0.0:
            if not equal or np.ptp(quadratic.weights) == 0.0:
                return quadratic
    raise MissingCapabilityError(
        f"{method} needs a square {kind}, such as L2(0.1), and no feasible set; got {problem.regularizer!r} "
        f"over {problem.simple_set!r}. Use ProximalBundle()."
    )


def require_linear_minimisation(problem: Declaration, method: str) -> None:
    """Raise an error unless the problem is a risk alone over a set that can minimise linear functions."""
    if problem.regularizer.lam > 0:
        raise MissingCapabilityError(
            f"{method} minimises a risk alone, but the problem has the regularizer {problem.regularizer!r}. "
            "Make it a part of the risk, bound it by the feasible set instead, as in L1Ball, or use OCAS()."
        )
    if problem.separators:
        raise MissingCapabilityError(
            f"{method} minimises linear functions over the whole feasible set, but {problem.separators[0]!r} "
            "only cuts points off. Use LevelBundle()."
        )
    remedy = (
        "Use a bounded set such as Simplex, L1Ball, L2Ball or Box, give yours a method minimise_linear(v), "
        "or use LevelBundle()."
    )
    require(problem.simple_set, Capability.LINEAR_MINIMISATION, method, remedy)

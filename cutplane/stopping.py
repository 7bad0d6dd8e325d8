"""Stopping rules decide when a solve ends and with which status; they are combined by ``|`` and ``&``."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.parameters import set_fields
from cutplane.pieces.validation import as_count, as_nonnegative, as_scalar
from cutplane.status import Status

if TYPE_CHECKING:
    from cutplane.engine.history import State


class Stop(NamedTuple):
    """The reason why a run stops."""

    status: Status
    reason: str


class Ended(Exception):
    """The run cannot continue; raised inside a step."""

    def __init__(self, status: Status, reason: str):
        super().__init__(reason)
        self.stop = Stop(status, reason)


def time_is_up(seconds: float) -> Stop:
    """Return the stop at a time limit."""
    return Stop(Status.TIME_LIMIT, f"time_limit = {seconds:g} s has passed")


class StoppingRule(ABC):
    """A stopping rule; ``a | b`` stops when one of both stops, ``a & b`` when both stop."""

    @abstractmethod
    def __call__(self, state: State) -> Stop | None:
        """Return the stop, or None to continue."""

    @property
    def time_limit(self) -> float:
        """Seconds after which the rule stops any run, so that an iteration can be interrupted."""
        return math.inf

    def __or__(self, other: StoppingRule) -> StoppingRule:
        return AnyOf((self, other))

    def __and__(self, other: StoppingRule) -> StoppingRule:
        return AllOf((self, other))


@dataclass(frozen=True)
class AnyOf(StoppingRule):
    """Stop when one of the rules stops; if several do, a stop with the status OPTIMAL is preferred."""

    rules: tuple[StoppingRule, ...]

    def __call__(self, state: State) -> Stop | None:
        stops = [stop for rule in self.rules if (stop := rule(state)) is not None]
        return min(stops, key=lambda stop: stop.status is not Status.OPTIMAL, default=None)

    @property
    def time_limit(self) -> float:
        return min((rule.time_limit for rule in self.rules), default=math.inf)


@dataclass(frozen=True)
class AllOf(StoppingRule):
    """Stop when all the rules stop; the status is OPTIMAL only if all of them return it."""

    rules: tuple[StoppingRule, ...]

    def __call__(self, state: State) -> Stop | None:
        found = [stop for rule in self.rules if (stop := rule(state)) is not None]
        if len(found) < len(self.rules):
            return None
        status = max((stop.status for stop in found), key=lambda status: status is not Status.OPTIMAL)
        return Stop(status, " and ".join(stop.reason for stop in found))

    @property
    def time_limit(self) -> float:
        return max((rule.time_limit for rule in self.rules), default=math.inf)


def gap_reason(gap: float, tol: float) -> str:
    """Return the reason of a result that is OPTIMAL by its relative gap."""
    return f"the certified relative gap {gap:.2g} is at most tol = {tol:g}"


@dataclass(frozen=True)
class RelativeGap(StoppingRule):
    """Stop when (upper - lower) / max(1e-12 min(1, s), |upper|) <= tol, both certified.

    s is the largest size of the objective in the solve.
    """

    tol: float

    def __post_init__(self) -> None:
        set_fields(self, tol=as_nonnegative("tol", self.tol))

    def __call__(self, state: State) -> Stop | None:
        if state.gap <= self.tol:
            return Stop(Status.OPTIMAL, gap_reason(state.gap, self.tol))
        return None


@dataclass(frozen=True)
class AbsoluteGap(StoppingRule):
    """Stop when upper - lower <= tol_abs, both certified."""

    tol_abs: float

    def __post_init__(self) -> None:
        set_fields(self, tol_abs=as_nonnegative("tol_abs", self.tol_abs))

    def __call__(self, state: State) -> Stop | None:
        gap = state.upper_bound - state.lower_bound
        if gap <= self.tol_abs:
            return Stop(Status.OPTIMAL, f"the certified gap {gap:.2g} is at most tol_abs = {self.tol_abs:g}")
        return None


@dataclass(frozen=True)
class MaxIter(StoppingRule):
    """Stop after this many iterations."""

    max_iter: int

    def __post_init__(self) -> None:
        as_count("max_iter", self.max_iter, low=0)

    def __call__(self, state: State) -> Stop | None:
        if state.iteration >= self.max_iter:
            return Stop(Status.MAX_ITER, f"max_iter = {self.max_iter} iterations were done")
        return None


@dataclass(frozen=True)
class TimeLimit(StoppingRule):
    """Stop after this many seconds, at the end of an iteration or inside a long reduced problem."""

    seconds: float

    def __post_init__(self) -> None:
        set_fields(self, seconds=as_scalar("time_limit", self.seconds, low=0.0, infinite=True))

    def __call__(self, state: State) -> Stop | None:
        return time_is_up(self.seconds) if state.elapsed >= self.seconds else None

    @property
    def time_limit(self) -> float:
        return self.seconds


@dataclass(frozen=True)
class OracleCalls(StoppingRule):
    """Stop after this many queries of the risk."""

    calls: int

    def __post_init__(self) -> None:
        as_count("calls", self.calls)

    def __call__(self, state: State) -> Stop | None:
        if state.oracle_calls >= self.calls:
            return Stop(Status.MAX_ITER, f"{state.oracle_calls} oracle calls were made")
        return None


@dataclass(frozen=True)
class TargetReached(StoppingRule):
    """Stop when the objective is at most `target`, whatever the lower bound."""

    target: float

    def __post_init__(self) -> None:
        set_fields(self, target=as_scalar("target", self.target, infinite=True))

    def __call__(self, state: State) -> Stop | None:
        if state.upper_bound <= self.target:
            return Stop(
                Status.TARGET, f"the objective {state.upper_bound:.6g} reached the target {self.target:g}"
            )
        return None


def stopping_rules(
    tol: float = 1e-4,
    tol_abs: float = 0.0,
    max_iter: int = 10_000,
    time_limit: float | None = None,
    stop: StoppingRule | None = None,
) -> StoppingRule:
    """Return the rules for these options of `solve`."""
    if stop is not None and not callable(stop):
        raise InvalidInputError(f"stop must be a stopping rule, such as OracleCalls(100), got {stop!r}.")
    rules: list[StoppingRule] = [RelativeGap(tol), MaxIter(max_iter)]
    if as_scalar("tol_abs", tol_abs, low=0.0) > 0.0:
        rules.append(AbsoluteGap(tol_abs))
    if time_limit is not None:
        rules.append(TimeLimit(time_limit))
    if stop is not None:
        rules.append(stop)
    return AnyOf(tuple(rules))

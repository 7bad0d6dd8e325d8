"""Which masters may solve a reduced problem, the best first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from cutplane.exceptions import MissingCapabilityError
from cutplane.masters.base import Level, Master, Prox, ReducedProblem
from cutplane.masters.registry import Backend, as_backend, is_exact
from cutplane.pieces.capabilities import Capability, offers

__all__ = ["Backend", "Candidate", "as_backend", "candidates", "first_candidate", "refusal_of"]

_FALLBACKS = ("clarabel", "osqp", "scs")


@dataclass(frozen=True)
class Candidate:
    """A master that accepts a kind of reduced problem, not yet built; one name is one living master.

    Attributes
    ----------
    name : str
    build : callable
    exact : bool
        Whether its answers are exact up to rounding, so that where they get a run no further, no other's do.
    """

    name: str
    build: Callable[[], Master]
    exact: bool = False


def candidates(
    reduced: ReducedProblem, stabilization: type[Prox] | type[Level] | None, backend: Backend
) -> Iterator[Candidate]:
    """Yield the masters that accept the problem, the chosen one first, the others as fallbacks.

    Raises
    ------
    MissingCapabilityError
        If there is none.
    """

    def through_cvxpy(name: str, options: Mapping[str, Any]) -> Candidate:
        def build() -> Master:
            from cutplane.masters.conic.cvxpy import CvxpyMaster

            return CvxpyMaster(reduced, name, dict(options))

        return Candidate(name, build)

    takes_cvxpy, chosen = _cvxpy_refusal(reduced) is None, backend.solver
    own = next((kind for kind in backend.kinds if kind.name == chosen), None)
    found = False
    if chosen and takes_cvxpy and (own is None or own.refusal(reduced, stabilization) is not None):
        if not _is_unsafe(chosen, reduced, stabilization):
            found = True
            yield through_cvxpy(chosen, backend.options)
    for kind in backend.kinds:
        if kind.refusal(reduced, stabilization) is None:
            found = True
            yield Candidate(kind.name, partial(kind, reduced), is_exact(kind))
    if takes_cvxpy:
        yield from (through_cvxpy(name, {}) for name in _FALLBACKS if name != backend.name)
    elif not found:
        raise MissingCapabilityError(
            f"No master accepts this problem with {_describe(stabilization)}: "
            f"{_reasons(reduced, stabilization, backend)}"
        )


def first_candidate(
    reduced: ReducedProblem, stabilization: type[Prox] | type[Level] | None, backend: Backend
) -> Candidate:
    """Return the first of the candidates, without asking the others."""
    return next(candidates(reduced, stabilization, backend))


def _is_unsafe(solver: str, reduced: ReducedProblem, stabilization: type[Prox] | type[Level] | None) -> bool:
    """Tell whether HiGHS would be given a quadratic programme, in which it may cycle or corrupt memory."""
    linear = stabilization is None and offers(reduced.regularizer, Capability.LINEAR_FORM)
    return solver == "highs" and not linear


def refusal_of(
    reduced: ReducedProblem, stabilization: type[Prox] | type[Level] | None, backend: Backend
) -> str | None:
    """Return why `backend` itself (not a fallback) cannot solve this kind of problem, or None if it can."""
    first = first_candidate(reduced, stabilization, backend)
    if backend.name in ("auto", first.name):
        return None
    return _reasons(reduced, stabilization, backend)


def _cvxpy_refusal(reduced: ReducedProblem) -> str | None:
    """Return None if both pieces describe themselves to cvxpy, else why not; without importing it."""
    for piece in (reduced.regularizer, reduced.simple_set):
        if not offers(piece, Capability.CVXPY):
            return f"{piece!r} has no cvxpy form"
    return None


def _describe(stabilization: type[Prox] | type[Level] | None) -> str:
    return "no stabilisation" if stabilization is None else f"a {stabilization.__name__.lower()} term"


def _reasons(
    reduced: ReducedProblem, stabilization: type[Prox] | type[Level] | None, backend: Backend
) -> str:
    refusals = {kind.name: kind.refusal(reduced, stabilization) for kind in backend.kinds}
    refusals["cvxpy"] = _cvxpy_refusal(reduced)
    return "; ".join(f"{name}: {reason}" for name, reason in refusals.items() if reason) + "."

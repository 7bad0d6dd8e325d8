"""The masters by name, and the choice of the masters that can solve a reduced problem, the best first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

from cutplane.exceptions import InvalidInputError, MissingCapabilityError
from cutplane.masters.base import Kind, Master, MasterKind, ReducedProblem
from cutplane.pieces.capabilities import Capability, offers

_OWN = {
    "interior_point": "cutplane.masters.interior.InteriorPoint",
    "simplex_qp": "cutplane.masters.simplex_qp.SimplexQP",
    "smoothed_lp": "cutplane.masters.entropy.SmoothedLP",
    "highs": "cutplane.masters.highs.HighsMaster",
    "entropy_dual": "cutplane.masters.entropy.EntropyMaster",
}
"""Import paths of the classes, in order of preference, as text because a class is imported only when
needed."""
_FALLBACKS = ("clarabel", "osqp", "scs")
"""Solvers of cvxpy that are tried if the masters of the package fail."""


@cache
def own_kinds() -> tuple[MasterKind, ...]:
    """Return the masters of the package, the best first."""
    places = [place.rpartition(".") for place in _OWN.values()]
    return tuple(getattr(import_module(module), name) for module, _, name in places)


@dataclass(frozen=True)
class Backend:
    """The solver of the reduced problem, with options.

    Parameters
    ----------
    name : str, default "auto"
        ``"auto"``; ``"simplex_qp"`` (an active-set method for a quadratic regularizer, with or without an l1
        norm, or a prox term), ``"interior_point"`` (for the same without an l1 norm, over many blocks),
        ``"highs"`` (HiGHS for linear programmes, as one updated model; its solver of quadratic programmes is
        not used), ``"smoothed_lp"`` (Newton's method for linear programmes over a large capped simplex),
        ``"entropy_dual"`` (Newton's method for an entropy over a box or a simplex), ``"clarabel"`` (any cone
        programme), or another of ``cvxpy.installed_solvers()``, called through cvxpy. Upper and lower case
        are equivalent.
    options : dict, optional
        Options of Clarabel or the cvxpy solver (``max_iter``, ``eps_abs``, ...); the other masters have none.

    Examples
    --------
    >>> from cutplane import Backend
    >>> Backend("osqp", {"eps_abs": 1e-6})
    Backend(name='osqp', options={'eps_abs': 1e-06})
    """

    name: str = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise InvalidInputError(f"Backend.name must be a string, got {self.name!r}.")
        object.__setattr__(self, "name", self.name.lower())
        if self.options and (self.name == "auto" or self.name in _OWN):
            raise InvalidInputError(f"The backend {self.name!r} takes no options, got {dict(self.options)}.")

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def solver(self) -> str | None:
        """The chosen cvxpy solver, or "highs" as a solver of cvxpy if the package's HiGHS master refuses."""
        return None if self.name == "auto" or (self.name in _OWN and self.name != "highs") else self.name

    @property
    def kinds(self) -> list[MasterKind]:
        """The available masters, the chosen one first."""
        chosen = [ConicSolver(self.solver, self.options)] if self.solver else []
        kinds = [*own_kinds(), *chosen, *map(ConicSolver, _FALLBACKS)]
        return sorted(kinds, key=lambda kind: kind.name != self.name)


@dataclass(frozen=True)
class OwnMaster(Backend):
    """A user's master, which is tried first; the other masters solve if it refuses or fails."""

    kind: Any = None

    __hash__ = Backend.__hash__

    @property
    def solver(self) -> None:
        """Always None, because a user's master is not a solver of cvxpy."""
        return

    @property
    def kinds(self) -> list[MasterKind]:
        """The user's master, then the masters of the package."""
        return [self.kind, *super().kinds]


@dataclass(frozen=True)
class ConicSolver:
    """A solver of cvxpy as a kind of master: Clarabel directly, others through cvxpy."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    exact = False

    def refusal(self, reduced: ReducedProblem, stabilization: Kind) -> str | None:
        """Return None if both pieces have a cvxpy form, otherwise the reason, without importing cvxpy."""
        for piece in (reduced.regularizer, reduced.simple_set):
            if not offers(piece, Capability.CVXPY):
                return f"{piece!r} has no cvxpy form"
        linear = stabilization is None and offers(reduced.regularizer, Capability.LINEAR_FORM)
        if self.name == "highs" and not linear:
            return "in quadratic programmes HiGHS may cycle or corrupt memory"
        return None

    def __call__(self, reduced: ReducedProblem) -> Master:
        """Return a new master."""
        from cutplane.masters.cone_master import ConeMaster, CvxpyMaster

        if self.name == "clarabel":
            return ConeMaster(reduced, self.options)
        return CvxpyMaster(reduced, self.name, self.options)


def as_backend(backend: Any) -> Backend:
    """Return a `Backend` from a name, after checking that it is installed, or from a user's master."""
    if isinstance(backend, str):
        backend = Backend(backend)
    if not isinstance(backend, Backend):
        return OwnMaster(_name_of(backend), kind=backend)
    if isinstance(backend, OwnMaster) or backend.name == "auto" or backend.name in _OWN:
        return backend
    import cvxpy

    installed = [name.lower() for name in cvxpy.installed_solvers()]
    if backend.name not in installed:
        raise InvalidInputError(
            f"The backend {backend.name!r} is not installed; choose one of "
            f"{sorted({'auto', *_OWN, *installed})}, or pass a master of your own."
        )
    return backend


def _name_of(kind: Any) -> str:
    """Return the name of a user's master; raise `InvalidInputError` if the object is no master."""
    missing = [name for name in ("name", "refusal") if not hasattr(kind, name)]
    if not callable(kind):
        missing.append("__call__")
    if isinstance(kind, type) and not hasattr(kind, "solve"):
        missing.append("solve")
    if missing:
        raise InvalidInputError(
            f"backend must be a name, a Backend, or a class of masters, but {kind!r} has no "
            f"{', '.join(missing)}: see cutplane.masters.MasterKind."
        )
    if not isinstance(kind.name, str) or kind.name == "auto" or kind.name in _OWN:
        raise InvalidInputError(f"The name of the master {kind!r} is {kind.name!r}; give it one of its own.")
    return kind.name


@dataclass(frozen=True)
class Candidate:
    """A master that accepts a kind of reduced problem, not yet built.

    If `exact`, its answers are exact up to rounding, so that another master would not give a better answer.
    """

    name: str
    build: Callable[[ReducedProblem], Master]
    exact: bool = False


def candidates(reduced: ReducedProblem, stabilization: Kind, backend: Backend) -> Iterator[Candidate]:
    """Yield the masters that accept the problem: the chosen one, then the others as fallbacks.

    Raises
    ------
    MissingCapabilityError
        If there is none.
    """
    names: set[str] = set()
    for kind in backend.kinds:
        if kind.name not in names and kind.refusal(reduced, stabilization) is None:
            names.add(kind.name)
            yield Candidate(kind.name, kind, getattr(kind, "exact", False))
    if not names:
        term = "no stabilisation" if stabilization is None else f"a {stabilization.__name__.lower()} term"
        reasons = _reasons(reduced, stabilization, backend)
        raise MissingCapabilityError(f"No master accepts this problem with {term}: {reasons}")


def first_candidate(reduced: ReducedProblem, stabilization: Kind, backend: Backend) -> Candidate:
    """Return the first candidate, from a cache and without computing the others."""
    try:
        return reduced.first_masters[stabilization, backend]
    except KeyError:
        first = reduced.first_masters[stabilization, backend] = next(
            candidates(reduced, stabilization, backend)
        )
        return first


def refusal_of(reduced: ReducedProblem, stabilization: Kind, backend: Backend) -> str | None:
    """Return the reason why `backend` alone cannot solve this kind of problem; None if it can."""
    first = first_candidate(reduced, stabilization, backend)
    if backend.name in ("auto", first.name):
        return None
    return _reasons(reduced, stabilization, backend)


def _reasons(reduced: ReducedProblem, stabilization: Kind, backend: Backend) -> str:
    names: dict[str, list[str]] = {}
    for kind in backend.kinds:
        if reason := kind.refusal(reduced, stabilization):
            names.setdefault(reason, []).append(kind.name)
    return "; ".join(f"{', '.join(who)}: {reason}" for reason, who in names.items()) + "."

"""Which masters may solve a reduced problem, the best first."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cutplane.capabilities import Capability, offers
from cutplane.exceptions import InvalidInputError, MissingCapabilityError
from cutplane.masters.base import Level, Master, Prox, ReducedProblem
from cutplane.masters.cvxpy_refusal import refusal as cvxpy_refusal

OWN_MASTERS = ("simplex_qp", "smoothed_lp", "highs", "entropy_dual")
_NOT_IN_CVXPY = ("auto", "simplex_qp", "smoothed_lp", "entropy_dual")
_FALLBACKS = ("clarabel", "osqp", "scs")


@dataclass(frozen=True)
class Backend:
    """Who solves the reduced problem, with options.

    Parameters
    ----------
    name : str, default "auto"
        ``"auto"``; ``"simplex_qp"`` (own active-set method for a quadratic regularizer or a prox term),
        ``"highs"`` (a living HiGHS model for linear programmes; its solver of quadratic ones is not used),
        ``"smoothed_lp"`` (own Newton method for linear programmes over a large capped simplex),
        ``"entropy_dual"`` (own Newton method for an entropy over a box or a simplex), or any of
        ``cvxpy.installed_solvers()``, in any case, through cvxpy.
    options : dict, optional
        Passed to the cvxpy solver (``eps_abs``, ``max_iter``, ...); none for the others.

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
        if self.options and (self.name == "auto" or self.name in OWN_MASTERS):
            raise InvalidInputError(f"The backend {self.name!r} takes no options, got {dict(self.options)}.")


@dataclass(frozen=True)
class Candidate:
    """A master that accepts a kind of reduced problem, not yet built.

    Attributes
    ----------
    name : str
    build : callable
    shared : hashable, optional
        Candidates for several kinds of stabilisation that have this in common are one living master, built
        once; None: each kind has its own.
    exact : bool
        Whether its answers are exact up to rounding, so that where they get a run no further, no other's do.
    """

    name: str
    build: Callable[[], Master]
    shared: Hashable | None = None
    exact: bool = False


def as_backend(backend: str | Backend) -> Backend:
    """Return a `Backend` from its name, checking that it is installed."""
    backend = backend if isinstance(backend, Backend) else Backend(backend)
    if backend.name != "auto" and backend.name not in OWN_MASTERS:
        import cvxpy

        installed = [name.lower() for name in cvxpy.installed_solvers()]
        if backend.name not in installed:
            raise InvalidInputError(
                f"The backend {backend.name!r} is not installed; choose one of "
                f"{sorted({'auto', *OWN_MASTERS, *installed})}."
            )
    return backend


def candidates(
    reduced: ReducedProblem, stabilization: type[Prox] | type[Level] | None, backend: Backend
) -> list[Candidate]:
    """Return the masters that accept the problem, the chosen one first, the others as fallbacks."""
    from cutplane.masters.entropy_dual import EntropyMaster
    from cutplane.masters.highs import HighsMaster
    from cutplane.masters.simplex_qp import SimplexQP
    from cutplane.masters.smoothed_lp import SmoothedLP

    def through_cvxpy(name: str, options: Mapping[str, Any]) -> Candidate:
        def build() -> Master:
            from cutplane.masters.cvxpy import CvxpyMaster

            return CvxpyMaster(reduced, name, dict(options))

        return Candidate(name, build, shared=("cvxpy", name))

    own = [
        Candidate(name, lambda kind=kind: kind(reduced), shared=kind, exact=True)
        for name, kind in (
            ("simplex_qp", SimplexQP),
            ("smoothed_lp", SmoothedLP),
            ("highs", HighsMaster),
            ("entropy_dual", EntropyMaster),
        )
        if kind.refusal(reduced, stabilization) is None
    ]
    found = [candidate for candidate in own if candidate.name == backend.name]
    if cvxpy_refusal(reduced, stabilization) is None:
        if (
            backend.name not in _NOT_IN_CVXPY
            and not found
            and not _is_unsafe(backend, reduced, stabilization)
        ):
            found.append(through_cvxpy(backend.name, backend.options))
        found += [candidate for candidate in own if candidate not in found]
        found += [through_cvxpy(name, {}) for name in _FALLBACKS if name != backend.name]
    else:
        found += [candidate for candidate in own if candidate not in found]
    if not found:
        raise MissingCapabilityError(
            f"No master accepts this problem with {_describe(stabilization)}: "
            f"{_reasons(reduced, stabilization)}"
        )
    return found


def _is_unsafe(
    backend: Backend, reduced: ReducedProblem, stabilization: type[Prox] | type[Level] | None
) -> bool:
    """Tell whether HiGHS would be given a quadratic programme, in which it may cycle or corrupt memory."""
    linear = stabilization is None and offers(reduced.regularizer, Capability.LINEAR_FORM)
    return backend.name == "highs" and not linear


def refusal_of(
    reduced: ReducedProblem, stabilization: type[Prox] | type[Level] | None, backend: Backend
) -> str | None:
    """Return why `backend` itself (not a fallback) cannot solve this kind of problem, or None if it can."""
    first = candidates(reduced, stabilization, backend)[0]
    if backend.name in ("auto", first.name):
        return None
    return _reasons(reduced, stabilization)


def _describe(stabilization: type[Prox] | type[Level] | None) -> str:
    return "no stabilisation" if stabilization is None else f"a {stabilization.__name__.lower()} term"


def _reasons(reduced: ReducedProblem, stabilization: type[Prox] | type[Level] | None) -> str:
    from cutplane.masters.entropy_dual import EntropyMaster
    from cutplane.masters.highs import HighsMaster
    from cutplane.masters.simplex_qp import SimplexQP
    from cutplane.masters.smoothed_lp import SmoothedLP

    masters = {
        "simplex_qp": SimplexQP,
        "smoothed_lp": SmoothedLP,
        "highs": HighsMaster,
        "entropy_dual": EntropyMaster,
    }
    refusals = {name: kind.refusal(reduced, stabilization) for name, kind in masters.items()}
    refusals["cvxpy"] = cvxpy_refusal(reduced, stabilization)
    return "; ".join(f"{name}: {reason}" for name, reason in refusals.items() if reason) + "."

"""The choice of a method by what the pieces of a problem offer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cutplane.exceptions import InvalidInputError, MissingCapabilityError
from cutplane.linear.portfolio import Portfolio
from cutplane.methods.base import Method
from cutplane.methods.frank_wolfe import FrankWolfe
from cutplane.methods.kelley import Kelley
from cutplane.methods.level import LevelBundle
from cutplane.methods.proximal import ProximalBundle
from cutplane.pieces.capabilities import Capability, offers

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration


def as_method(method: Any, problem: Declaration) -> Method:
    """Return `method`, or the one that suits the problem if it is "auto"."""
    if isinstance(method, Method):
        return method
    if method == "auto":
        return choose(problem)
    hint = f"; did you mean {method.__name__}()?" if isinstance(method, type) else ""
    raise InvalidInputError(f'method must be "auto" or a method such as OCAS(), got {method!r}{hint}')


def choose(problem: Declaration) -> Method:
    """Choose a method.

    * separation oracles: `LevelBundle`, whose queries stay away from the vertices of the outer approximation;
    * a linear risk: `Kelley`, whose model is the risk itself;
    * a set that is known by its linear minimisation alone, and no regularizer: `FrankWolfe`;
    * a regularizer that stabilises: `Portfolio`: `OCAS`, and the moves that the problem has a form for;
    * none, but a bounded set: `LevelBundle`;
    * neither: `ProximalBundle`, which certifies the gap if some combination of the cuts is flat.
    """
    bounded = problem.simple_set.bounded is not False
    method: Method
    if problem.separators and bounded:
        method = LevelBundle()
    elif problem.risk.linear:
        method = Kelley()
    elif problem.regularizer.lam > 0:
        method = Portfolio()
    elif _is_known_by_linear_minimisation(problem):
        method = FrankWolfe("short" if offers(problem.risk, Capability.CURVATURE) else "exact")
    elif bounded:
        method = LevelBundle()
    else:
        return ProximalBundle()
    try:
        method.check(problem)
    except MissingCapabilityError:
        return ProximalBundle()
    return method


def _is_known_by_linear_minimisation(problem: Declaration) -> bool:
    others = Capability.PROJECTION, Capability.LINEAR_FORM, Capability.CVXPY
    offered = [other for other in others if offers(problem.simple_set, other)]
    return offers(problem.simple_set, Capability.LINEAR_MINIMISATION) and not offered

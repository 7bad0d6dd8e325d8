"""The checks that methods share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cutplane.exceptions import MissingCapabilityError
from cutplane.methods.base import Estimate, Refusal
from cutplane.methods.estimates import sizes
from cutplane.pieces.capabilities import Capability, require
from cutplane.regularizers.base import has_slope

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.methods.base import Method


def is_certifiable(problem: Declaration) -> bool:
    """Tell whether some multipliers give a finite lower bound: X0 bounded, or g with a finite conjugate."""
    return problem.simple_set.bounded is not False or problem.regularizer.lam > 0


def answer(method: Method, problem: Declaration) -> Refusal | Estimate:
    """Return what a method says of a problem; each method is asked once."""
    answers = problem.suitable
    try:
        return answers[method]
    except KeyError:
        answers[method] = found = method.suits(problem)
        return found
    except TypeError:  # a method that has no hash
        return method.suits(problem)


def suits(method: Method, problem: Declaration) -> bool:
    """Tell whether the problem has the capabilities that a method needs."""
    return isinstance(answer(method, problem), Estimate)


def has_masters(method: Method, problem: Declaration) -> bool:
    """Tell whether the reduced problems of a method have masters."""
    return all(sizes(problem).master(kind) is not None for kind in method.stabilizations)


def require_bounded_model(problem: Declaration, method: str) -> None:
    """Raise unless the reduced problem is bounded below: X0 bounded, a regularizer, or known infima."""
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
    """Raise unless the regularizer can be followed along a line."""
    regularizer = problem.regularizer
    if has_slope(regularizer):
        return
    raise MissingCapabilityError(
        f"{method} searches along lines and needs the slope of {regularizer!r}: give it a method "
        "subgradient(x), or use BMRM()."
    )


def require_linear_minimisation(problem: Declaration, method: str) -> None:
    """Raise unless the problem is a risk alone over a set that can minimise linear functions."""
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

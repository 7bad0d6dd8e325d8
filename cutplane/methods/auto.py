"""The choice of a method by what the pieces of a problem offer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.kernels.active_set import ActiveSet
from cutplane.kernels.decomposition import Decomposition
from cutplane.kernels.newton import FiniteNewton
from cutplane.kernels.tracking import KernelPathTracking
from cutplane.linear.portfolio import MOVES, Portfolio
from cutplane.linear.tracking import PathTracking
from cutplane.masters.base import Prox
from cutplane.methods.accelerated import AcceleratedGradient
from cutplane.methods.base import Method
from cutplane.methods.block_frank_wolfe import BlockFrankWolfe
from cutplane.methods.bmrm import BMRM
from cutplane.methods.direct import Direct
from cutplane.methods.frank_wolfe import FrankWolfe
from cutplane.methods.kelley import Kelley
from cutplane.methods.lbfgs import LBFGS
from cutplane.methods.level import LevelBundle
from cutplane.methods.mirror_descent import MirrorDescent
from cutplane.methods.ocas import OCAS
from cutplane.methods.proximal import ProximalBundle
from cutplane.methods.reduced_gradient import ReducedGradient
from cutplane.methods.relay import Relay
from cutplane.methods.requirements import has_own_master, is_certifiable, suits
from cutplane.pieces.capabilities import Capability, ask, offers

_ROUNDS = 20
"""Linear programmes after which a set is taken to be round."""
_PASSES = 30
"""Passes of block steps after which examples are taken to be few for the tolerance."""

_FEW = 2e5
"""Nonzero numbers in a risk: a conic solve takes half a second then, as long as twenty reduced problems that
are conic programmes too."""
_VERY_FEW = 1e4
"""The same where a reduced problem takes a millisecond: a conic solve takes 0.03 s, most of it to compile."""
_LEAST = 6e3
"""Numbers of a quadratic programme that takes 0.015 s, as sweeps over the coordinates of kinked losses do."""

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration


NAMES: dict[str, Method] = {
    method.name.lower().removesuffix("bundle"): method
    for method in (
        AcceleratedGradient(),
        ActiveSet(),
        BMRM(),
        BlockFrankWolfe(),
        Decomposition(),
        Direct(),
        FiniteNewton(),
        FrankWolfe(),
        Kelley(),
        KernelPathTracking(),
        LBFGS(),
        LevelBundle(),
        MirrorDescent(),
        OCAS(),
        PathTracking(),
        Portfolio(),
        ProximalBundle(),
        ReducedGradient(),
    )
}
"""Methods by name, in any case and with or without "bundle", with their default parameters."""


def as_method(method: Any, problem: Declaration) -> Method:
    """Return `method`, the one of that name, or the one that suits the problem if it is "auto"."""
    if isinstance(method, Method):
        return method
    if method == "auto":
        return choose(problem)
    if isinstance(method, str):
        named = NAMES.get(method.lower().replace("_", "").removesuffix("bundle"))
        if named is None:
            raise InvalidInputError(
                f"There is no method {method!r}; choose one of {sorted(['auto', *NAMES])}."
            )
        return named
    hint = f"; did you mean {method.__name__}()?" if isinstance(method, type) else ""
    raise InvalidInputError(f'method must be "auto" or a method such as OCAS(), got {method!r}{hint}')


def path_method(problem: Declaration) -> Method:
    """Return the method that follows the path of a problem exactly, or the one whose refusal says why not."""
    machine, coordinates = KernelPathTracking(), PathTracking()
    kernel = offers(problem.risk, Capability.KERNEL_PREDICTOR)
    return machine if kernel or suits(machine, problem) else coordinates


def choose(problem: Declaration) -> Method:
    """Choose a method, and those that go on where it gets stuck.

    * a risk that knows a method for this problem: that one;
    * separation oracles over a linear risk on a polyhedron: `Kelley`, since its linear programmes end in a
      few rounds where X is a polyhedron, and from the twentieth on `ProximalBundle` too, since they do not
      where X is round;
    * other separation oracles: `ProximalBundle`, and from the twentieth iteration on `LevelBundle` too, whose
      queries stay away from the vertices of the outer approximation;
    * a linear risk: `Kelley`, whose model is the risk itself, or `Direct` where that is a conic programme;
      with separation oracles too, if the regularizer is a strictly convex quadratic;
    * a sum over examples that takes block steps, with L2: `BlockFrankWolfe`, and after 30 passes, which
      suffice where examples are many, `ProximalBundle` too;
    * a risk that says that it is smooth, with L2: `LBFGS`;
    * losses with kinks, with l1 norms or bounds, of fewer than 6e3 nonzero numbers: `Direct`;
    * a problem of a form that one of the moves needs: `Portfolio`;
    * a set that is known by its linear minimisation alone, and no regularizer: `FrankWolfe`;
    * pieces that are all known to cvxpy, with fewer than 2e5 nonzero numbers where reduced problems are
      conic programmes, or 1e4 where they have masters of their own: `Direct`;
    * reduced problems that are linear programmes, and with a prox term conic ones: `Portfolio`;
    * else `ProximalBundle`; without a bounded set and a regularizer its gap is certified if some combination
      of the cuts is flat.
    """
    if (own := ask(problem.risk, Capability.OWN_METHOD, problem)) is not None:
        return own
    bounded = problem.simple_set.bounded is not False
    alone = None
    methods: tuple[Method, ...]
    if problem.separators and bounded and not _is_strict_quadratic(problem):
        stable = ProximalBundle()
        methods = (Kelley(), stable) if _is_programme(problem) else (stable, LevelBundle())
        alone = _ROUNDS
    elif problem.risk.linear and has_own_master(problem, None):
        methods = Kelley(), ProximalBundle()
    elif suits(BlockFrankWolfe(), problem):
        methods, alone = (BlockFrankWolfe(), ProximalBundle()), _PASSES
    elif problem.risk.smooth and suits(LBFGS(), problem):
        methods = LBFGS(), ProximalBundle()
    elif _is_least_programme(problem):
        methods = Direct(), Portfolio(), ProximalBundle()
    elif is_certifiable(problem) and any(suits(move, problem) for move in MOVES):
        methods = Portfolio(), ProximalBundle()
    elif _is_known_by_linear_minimisation(problem):
        methods = (
            FrankWolfe("short" if offers(problem.risk, Capability.CURVATURE) else "exact"),
            ProximalBundle(),
        )
    elif _is_small_programme(problem):
        methods = Direct(), LevelBundle(), Kelley()
    elif problem.risk.linear:
        methods = Kelley(), ProximalBundle()
    elif not has_own_master(problem, Prox) and has_own_master(problem, None):
        methods = Portfolio(), LevelBundle(), ProximalBundle()
    else:
        methods = ProximalBundle(), LevelBundle(), Kelley()
    first = next((k for k, method in enumerate(methods[:-1]) if suits(method, problem)), -1)
    return Relay(methods[first:], alone)


def _is_programme(problem: Declaration) -> bool:
    """Tell whether the problem without its separation oracles is a linear programme with rows."""
    form = ask(problem.simple_set, Capability.LINEAR_FORM, problem.dim) if problem.risk.linear else None
    return form is not None and form.rows.shape[0] > 0 and not problem.regularizer.lam > 0


def _is_strict_quadratic(problem: Declaration) -> bool:
    """Tell whether the risk is linear and minimisers of all relaxations are unique, so that they converge."""
    form = ask(problem.active_regularizer, Capability.QUADRATIC, problem.dim)
    return problem.risk.linear and form is not None and form.is_strict and has_own_master(problem, None)


def _is_least_programme(problem: Declaration) -> bool:
    """Tell whether of the moves only the last, coordinate descent, suits, and a programme is as fast."""
    *others, last = MOVES
    if any(suits(move, problem) for move in others) or not (suits(last, problem) and is_certifiable(problem)):
        return False
    form = ask(problem.risk, Capability.PROGRAMME)
    return form is not None and form.kinked and form.size <= _LEAST


def _is_small_programme(problem: Declaration) -> bool:
    """Tell whether `Direct` takes the problem, and its data are few for what reduced problems cost.

    It leaves to cuts what an interior point does not give: the weights of a maximum's parts, and a slope that
    is exactly zero where only that is bounded.
    """
    risk: Any = problem.risk
    if risk.n_blocks > 1 or offers(risk, Capability.PIECES) or not suits(Direct(), problem):
        return False
    if offers(risk, Capability.DUAL_CUT) and not is_certifiable(problem):
        return False
    own = any(has_own_master(problem, kind) for kind in (None, Prox))
    return _size(risk, problem.dim) < (_VERY_FEW if own else _FEW)


def _size(risk: Any, dim: int) -> int:
    """Return how many numbers state a risk as a quadratic programme, or else as an expression of cvxpy."""
    programme = ask(risk, Capability.PROGRAMME)
    if programme is not None:
        return programme.size
    import cvxpy

    return sum(_nonzeros(constant.value) for constant in risk.cvxpy_form(cvxpy.Variable(dim)).constants())


def _nonzeros(value: Any) -> int:
    return value.nnz if hasattr(value, "nnz") else int(np.count_nonzero(value))


def _is_known_by_linear_minimisation(problem: Declaration) -> bool:
    others = Capability.PROJECTION, Capability.LINEAR_FORM, Capability.CVXPY
    offered = [other for other in others if offers(problem.simple_set, other)]
    return offers(problem.simple_set, Capability.LINEAR_MINIMISATION) and not offered

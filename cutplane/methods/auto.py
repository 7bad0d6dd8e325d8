"""The choice of a method by the capabilities of the pieces of a problem."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from cutplane.engine.declaration import remembered
from cutplane.exceptions import InvalidInputError
from cutplane.kernels.decomposition import Decomposition
from cutplane.kernels.newton import FiniteNewton
from cutplane.linear.portfolio import Portfolio
from cutplane.methods.accelerated import AcceleratedGradient
from cutplane.methods.base import Estimate, Follower, Method, is_certifiable
from cutplane.methods.block_frank_wolfe import BlockFrankWolfe
from cutplane.methods.direct import Direct
from cutplane.methods.estimates import answer, has_masters, sizes, suits
from cutplane.methods.frank_wolfe import FrankWolfe, ReducedGradient
from cutplane.methods.kelley import BMRM, Kelley
from cutplane.methods.lbfgs import LBFGS
from cutplane.methods.level import LevelBundle
from cutplane.methods.mirror_descent import MirrorDescent
from cutplane.methods.ocas import OCAS
from cutplane.methods.proximal import ProximalBundle
from cutplane.methods.race import Contender, Race, Relay, contenders
from cutplane.pieces.capabilities import Capability, ask, offers
from cutplane.tracking.methods import ActiveSet, KernelPathTracking, PathTracking

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.pieces.validation import Array


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
"""Methods with default parameters, by name; upper case and the word "bundle" are ignored."""


def as_method(method: Any, problem: Declaration) -> Method:
    """Return a method given as an object, a name, or "auto", which chooses a method for the problem."""
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
    """Return the method that follows a problem's path exactly, or one that refuses with the reason."""
    machine, coordinates = KernelPathTracking(), PathTracking()
    kernel = offers(problem.risk, Capability.KERNEL_PREDICTOR)
    return machine if kernel or suits(machine, problem) else coordinates


CANDIDATES: tuple[Method, ...] = (
    Portfolio(),
    Kelley(),
    LBFGS(),
    ProximalBundle(),
    Direct(),
    LevelBundle(),
    BlockFrankWolfe(),
    FrankWolfe("short"),
    FrankWolfe("exact"),
)
"""The candidates of "auto"; if estimates are equal, the first one is chosen."""
_MOST, _ALIKE = 4, 2
"""Most methods in a race, and most of one kind, because each takes time from the best one."""
_QUICK = 1.5e-3
"""Seconds of the best estimate, per estimate computed, below which other methods are estimated only when its
promise has passed, because an estimate takes 0.1 ms, or more with cvxpy."""


class Auto(Race):
    """The race of all candidates; the others are estimated when the first one has used its time."""

    one_of_a_kind = True

    def needs_infima(self, problem: Declaration) -> bool:
        return any(method.needs_infima(problem) for method in CANDIDATES)

    def first(self, problem: Declaration) -> Contender:
        return contenders(self.methods, problem)[0]

    def contenders(self, problem: Declaration) -> list[Contender]:
        """Return the candidates with the least estimates: at most four, two of a kind."""
        chosen: list[Contender] = []
        for found in contenders(CANDIDATES, problem):
            alike = sum(other.kind == found[1].kind for _, other in chosen)
            if len(chosen) < _MOST and alike < _ALIKE:
                chosen.append(found)
        return chosen

    def follower(self, problem: Declaration, x0: Array | None = None) -> Follower | None:
        return Race(CANDIDATES).follower(problem, x0)


@remembered
def choose(problem: Declaration) -> Method:
    """Return the method that the risk implements for this problem, or the race of "auto".

    Without a bounded set and a regularizer, bounds depend on flat combinations of cuts, and steps of other
    methods remove such combinations. Therefore the proximal bundle method runs alone until it is stuck,
    unless one solve of the whole problem is possible.
    """
    if (own := ask(problem.risk, Capability.OWN_METHOD, problem)) is not None:
        return own
    if not is_certifiable(problem) and not suits(Direct(), problem):
        return Relay((ProximalBundle(), LevelBundle(), Kelley()))
    least, first, call = math.inf, ProximalBundle(), sizes(problem).call
    for count, method in enumerate(CANDIDATES, 1):
        found = answer(method, problem)
        if isinstance(found, Estimate) and found.total(call) < least and has_masters(method, problem):
            least, first = found.total(call), method
        if least < _QUICK * count:
            break
    return Auto((first,))

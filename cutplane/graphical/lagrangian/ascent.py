"""The largest bound of the Lagrangian over trees, by the generic engine, and labellings from it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.engine.history import History
from cutplane.graphical.lagrangian.risk import InfeasibleModelError, TreeLagrangian
from cutplane.graphical.lagrangian.tree_decoder import TreeDecoder
from cutplane.graphical.model import GraphicalModel
from cutplane.graphical.result import MAPResult
from cutplane.graphical.sweeps.reparametrization import Reparametrization
from cutplane.methods.proximal import ProximalBundle
from cutplane.pieces.validation import Array, as_scalar
from cutplane.problem import Problem
from cutplane.status import Status
from cutplane.stopping import Stop

if TYPE_CHECKING:
    from cutplane.engine.callbacks import Callback
    from cutplane.methods.base import Method

_SWEEPS = 30
_FEW = 3
_FLAT = 1e-3


@dataclass(frozen=True, eq=False, repr=False)
class LagrangianResult(MAPResult):
    """A `MAPResult` with the multipliers that prove its bound.

    Attributes
    ----------
    multipliers : ndarray or None
        ``TreeLagrangian(model).bound(multipliers)`` is the bound; None if they were not needed.
    """

    multipliers: Array | None = None


def solve_lagrangian(
    model: GraphicalModel,
    method: Method | None = None,
    *,
    labelling: Any = None,
    reparametrization: Reparametrization | None = None,
    tol: float = 1e-4,
    max_iter: int = 10_000,
    time_limit: float | None = None,
    max_cuts: int | None = None,
    callback: Callback | None = None,
    progress: bool = False,
    log: bool = False,
) -> LagrangianResult:
    """Bound the least energy by the best Lagrangian over trees, and find a labelling close to it.

    The bound rises to the minimum over the local polytope, which message passing does not always reach. Where
    that is below the least energy, the gap cannot be closed in this way.

    Parameters
    ----------
    model : GraphicalModel
        With factors of any arity.
    method : Method, default ProximalBundle()
        Any method of the engine that needs no bounded feasible set.
    labelling : array_like of int, shape (n_variables,), optional
        A good one, if known.
    reparametrization : Reparametrization, optional
        Where to start; clusters in it are left out. Default: at a few sweeps if the model has at most three
        forests, as a grid has, where they save iterations; else at equal parts, where they would cost some.
    tol : float, default 1e-4
        Relative gap between energy and bound at which the search ends. It ends too when the model of the
        engine predicts that the bound rises by less than half of this.
    max_iter, time_limit, max_cuts, callback, progress, log
        As in `cutplane.Problem.solve`; states show energies.

    Returns
    -------
    LagrangianResult

    Raises
    ------
    InvalidInputError
        If `labelling` does not fit the model, or `reparametrization` is of another one.

    Examples
    --------
    >>> from cutplane.graphical import potts
    >>> from cutplane.graphical.lagrangian.ascent import solve_lagrangian
    >>> result = solve_lagrangian(potts(8, 8, 3))
    >>> print(result.status, round(result.energy, 3))
    OPTIMAL 31.936
    """
    from cutplane.graphical.sweeps.decoding import decode

    as_scalar("tol", tol, low=0.0)
    try:
        lagrangian = TreeLagrangian(model)
    except InfeasibleModelError as error:
        return _result(model, Stop(Status.INFEASIBLE, str(error)))
    decoder = TreeDecoder(lagrangian, tol)
    if labelling is not None:
        decoder.offer(np.asarray(labelling))
    if not lagrangian.dim:
        decoder.multipliers, decoder.bound = np.empty(0), lagrangian.bound([])
        decoder.decode()
        return _result(model, Stop(Status.OPTIMAL, "the model has no cycles"), decoder)
    from_sweeps = reparametrization is not None or lagrangian.trees.n_forests <= _FEW
    if reparametrization is None:
        reparametrization = Reparametrization(model)
        reparametrization.sweep(_SWEEPS)
    if reparametrization.bound == math.inf:
        return _result(model, Stop(Status.INFEASIBLE, "the hard constraints leave a variable no state"))
    x0 = lagrangian.multipliers(reparametrization) if from_sweeps else np.zeros(lagrangian.dim)
    decoder.offer(decode(reparametrization))
    if method is None:
        steepness = float(np.linalg.norm(lagrangian.oracle(x0)[1]))
        method = ProximalBundle(weight=max(steepness, _FLAT))
    driver = Problem(lagrangian).iterate(
        method,
        tol=tol,
        max_iter=max_iter,
        time_limit=time_limit,
        max_cuts=max_cuts,
        x0=x0,
        stop=decoder,
    )
    found = driver.run(callback, progress, log, decoder.view)
    decoder.decode()
    stop = Stop(found.status, found.reason)
    if stop.status in (Status.OPTIMAL, Status.STALLED):
        stop = decoder.verdict or Stop(
            Status.STALLED, f"a gap remains that the trees do not close; {stop.reason}"
        )
    return _result(model, stop, decoder, decoder.history(found.history), found.method)


def _result(
    model: GraphicalModel,
    stop: Stop,
    decoder: TreeDecoder | None = None,
    history: History | None = None,
    method: str = "dynamic programming",
) -> LagrangianResult:
    infeasible = stop.status is Status.INFEASIBLE
    return LagrangianResult(
        labelling=decoder.best.labelling if decoder else None,
        energy=decoder.best.energy if decoder else math.inf,
        bound=decoder.bound if decoder and not infeasible else math.inf,
        status=stop.status,
        reason=stop.reason,
        method=f"Lagrangian over trees, {method}",
        history=History([]) if history is None else history,
        model=model,
        multipliers=decoder.multipliers if decoder else None,
    )

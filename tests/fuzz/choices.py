"""Random methods, backends and options."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np

import cutplane as cut
from cutplane.methods import AcceleratedGradient, MirrorDescent, ReducedGradient
from cutplane.pieces.capabilities import Capability, offers
from fuzz.draws import Rng, chance, pick, power
from fuzz.problems import Known

ITERATIVE = ("FrankWolfe", "ReducedGradient", "AcceleratedGradient", "MirrorDescent")
BUNDLE = ("Kelley", "BMRM", "OCAS", "LevelBundle", "ProximalBundle")
METHODS = ("auto", *BUNDLE, "Relay", *ITERATIVE, "LBFGS", "BlockFrankWolfe")
OWN = {"simplex_qp": 3, "highs": 2, "entropy_dual": 1, "smoothed_lp": 1}
CVXPY = {"clarabel": 1, "osqp": 1, "scs": 1, "ecos": 1, "loose osqp": 1, "loose scs": 0.5}


def method(rng: Rng, name: str) -> Any:
    """A method of this name, with its parameters at their defaults or not."""
    other = chance(rng, 0.4)
    if name == "auto":
        return "auto"
    if name == "Kelley":
        return cut.Kelley(max_age=int(rng.integers(1, 6))) if other else cut.Kelley()
    if name == "OCAS":
        theta = float(pick(rng, {0.1: 1, 0.5: 1, 1.0: 1})) if other else 0.1
        ocas = cut.OCAS(theta, second_cut=chance(rng, 0.7))
        moves = tuple(move for move in cut.linear.portfolio.MOVES if chance(rng, 0.6))
        return ocas if chance(rng, 0.4) else cut.Portfolio(ocas, moves)
    if name == "LevelBundle":
        return cut.LevelBundle(float(pick(rng, {0.1: 1, 0.3: 1, 0.9: 1}))) if other else cut.LevelBundle()
    if name == "ProximalBundle":
        return cut.ProximalBundle(weight=power(rng, 8)) if other else cut.ProximalBundle()
    if name == "Relay":
        others = rng.permutation([*BUNDLE, "Direct", "FrankWolfe"])[: rng.integers(0, 3)]
        names = [str(rng.choice(BUNDLE)), *others]
        alone = int(rng.integers(1, 20)) if chance(rng, 0.5) else None
        return cut.Relay(tuple(method(rng, each) for each in names), alone)
    if name == "Direct":
        return cut.Direct()
    if name == "FrankWolfe":
        step = pick(rng, {"short": 1, "exact": 2, "open_loop": 1})
        variant = pick(rng, {"vanilla": 1, "away": 1, "pairwise": 1, "fully_corrective": 1})
        if step == "open_loop":
            variant = "vanilla"
        return cut.FrankWolfe(step, variant)
    if name == "MirrorDescent":
        sampling = pick(rng, {"importance": 1, "uniform": 1, "full": 2})
        return MirrorDescent(pick(rng, {"l2": 1, "entropy": 1}), sampling)
    kinds = {
        "ReducedGradient": ReducedGradient,
        "AcceleratedGradient": AcceleratedGradient,
        "BMRM": cut.BMRM,
        "LBFGS": cut.LBFGS,
        "BlockFrankWolfe": cut.BlockFrankWolfe,
    }
    return kinds[name]()


def method_name(rng: Rng, known: Known) -> str:
    """A method that is likely to accept the problem; one that does not, now and then."""
    bare = known.problem.regularizer.lam == 0.0 and known.problem.simple_set.bounded
    gradient = (1.2 if known.smooth else 0.2) if bare else 0.03
    weights = {name: gradient if name in ITERATIVE else 1.5 for name in METHODS}
    if _is_slow_when_stabilised(known.problem):
        weights |= {"LevelBundle": 0.4, "ProximalBundle": 0.4}
    weights["LBFGS"] = 1.0 if known.smooth and not bare else 0.03
    sums = offers(known.problem.risk, Capability.BLOCK_ASCENT)
    weights["BlockFrankWolfe"] = 2.0 if sums else 0.03
    weights["Direct"] = 2.0 if known.slow else 0.1
    weights["ReducedGradient"] *= 2.0 if isinstance(known.problem.simple_set, cut.Simplex) else 0.1
    return str(pick(rng, weights))


def _is_slow_when_stabilised(problem: cut.Problem) -> bool:
    """Tell whether the reduced problems of a bundle method with a stabiliser go through cvxpy."""
    quick = isinstance(problem.active_regularizer, cut.L2 | cut.NoRegularizer)
    return not (quick and isinstance(problem.simple_set, cut.Box | cut.Simplex | cut.WholeSpace))


def backend(rng: Rng, slow: bool) -> Any:
    """The name of a backend, or a `Backend` with loose tolerances."""
    if chance(rng, 0.75):
        return "auto"
    name = str(pick(rng, OWN | CVXPY if slow or chance(rng, 0.1) else OWN))
    if name == "loose osqp":
        return cut.Backend("osqp", {"eps_abs": 1e-3, "eps_rel": 1e-3})
    if name == "loose scs":
        return cut.Backend("scs", {"eps_abs": 1e-3, "eps_rel": 1e-3})
    if name == "ecos" and find_spec("ecos") is None:
        return "clarabel"
    return name


def options(rng: Rng, known: Known, name: str, cheap: bool) -> dict[str, Any]:
    """Tolerances, limits and a first point."""
    tol = float(pick(rng, {1e-2: 1, 1e-3: 1, 1e-4: 2, 1e-6: 2, 1e-9: 2, 0.0: 0.3}))
    most = 60 if not cheap or known.slow else 150 if name in ITERATIVE else 300
    chosen: dict[str, Any] = {"tol": tol, "max_iter": 20 if tol == 0.0 else most, "time_limit": 5.0}
    if chance(rng, 0.03):
        chosen["time_limit"] = 0.05
    if chance(rng, 0.15):
        chosen["tol_abs"] = 10.0 ** rng.uniform(-9, -1) * max(abs(known.optimum), 1e-12)
    if chance(rng, 0.15):
        chosen["max_cuts"] = 3 * known.problem.risk.n_blocks + 2 + int(rng.integers(0, 5))
    if chance(rng, 0.2):
        step = known.scale * 2.0 ** int(rng.integers(-3, 6)) * rng.normal(size=len(known.x))
        entropic = hasattr(known.problem.regularizer, "log_reference")
        x0 = np.abs(known.x + step) if entropic else known.x + step
        if np.isfinite(known.problem.objective(known.problem.into_simple_set(x0))):
            chosen["x0"] = x0
    elif chance(rng, 0.05):
        chosen["x0"] = known.x
    return chosen

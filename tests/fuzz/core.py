"""Trials of the engine: a random problem with a known solution, solved in a random way."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import cutplane as cut
from cutplane.runtime.clock import clock
from cutplane.status import Status
from fuzz import checks, choices, problems
from fuzz.draws import Rng, chance, pick
from fuzz.outcome import Outcome
from fuzz.problems import Known


class Refused(Exception):
    """A documented refusal before the first iteration."""


def trial(rng: Rng) -> Outcome:
    """Solve a random problem once, from a warm start, along a path, or in two parts."""
    known = problems.draw(rng)
    name = choices.method_name(rng, known)
    backend = choices.backend(rng, known.slow)
    often = 0.4 if known.slow else 1.0
    ways = {"other weight": often, "other set": often, "other data": 1.0, "path": often, "file": often}
    way = pick(rng, {"once": 16.0, **ways})
    label = backend.name if isinstance(backend, cut.Backend) else backend
    family = f"{way}/{name}/{label}"
    chosen = choices.method(rng, name)
    cheap = label in ("auto", *choices.OWN)
    options = choices.options(rng, known, name, cheap)
    solve = {
        "once": _once,
        "other weight": _other_weight,
        "other set": _other_set,
        "other data": _other_data,
        "path": _path,
        "file": _through_a_file,
    }[str(way)]
    status, failures = "", []
    with quiet():
        try:
            result = solve(rng, known, {"method": chosen, "backend": backend, **options})
            failures = checks.of_result(known, result, options["tol"], options.get("tol_abs", 0.0))
            status = str(result.status)
            if result.status is Status.STALLED:
                status = _stall(known, name, options)
        except Refused:
            status = "REFUSED"
        except Broken as error:
            status, failures = "BROKEN", error.args[0]
        except OverTime as error:
            status, failures = "OVER TIME", [str(error)]
        except Exception as error:
            status, failures = type(error).__name__, [checks.of_exception(error)]
    return Outcome(family, status, [f"{failure} [{known.name}; n={len(known.x)}]" for failure in failures])


def _stall(known: Known, name: str, options: dict[str, Any]) -> str:
    """STALLED only where a proof of the tolerance is known to exist, and to be within reach of the method."""
    if not known.certifiable:
        return "UNCERTIFIED"
    if name in choices.ITERATIVE and not known.smooth:
        return "NOT SMOOTH"
    asked = max(options["tol"] * max(abs(known.optimum), 1e-12), options.get("tol_abs", 0.0))
    return "STALLED" if asked > 1e-11 * known.terms(known.x) else "ROUNDING"


class Broken(Exception):
    """Promises broken on the way; the argument is the list of them."""


class OverTime(Exception):
    """A solve took longer than its limit."""


@contextmanager
def quiet() -> Iterator[None]:
    """Warnings become errors; those of osqp's own wheels are not ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=DeprecationWarning, module="osqp.*")
        yield


def guarded(run: Callable[[], Any], limit: float) -> Any:
    """Run a solve; a refusal before the first iteration is no failure, being late is one."""
    began = clock()
    try:
        result = run()
    except cut.MissingCapabilityError as error:
        if checks.began(error):
            raise
        raise Refused from error
    elapsed = clock() - began
    if elapsed > 2.0 * limit + 2.0:
        raise OverTime(f"over time: {elapsed:.1f} s with a limit of {limit:g} s")
    return result


def _solve(problem: cut.Problem, options: dict[str, Any]) -> Any:
    return guarded(lambda: problem.solve(**options), options["time_limit"])


def _once(rng: Rng, known: Known, options: dict[str, Any]) -> Any:
    return _solve(known.problem, options)


def _loose(options: dict[str, Any]) -> dict[str, Any]:
    return options | {"tol": 1e-2, "max_iter": 30}


def _other_weight(rng: Rng, known: Known, options: dict[str, Any]) -> Any:
    problem = known.problem
    regularizer = problem.regularizer.with_lam(problem.regularizer.lam * 2.0 ** int(rng.integers(-6, 7)))
    other = cut.Problem(problem.risk, regularizer, problem.feasible_set)
    start = _solve(other, _loose(options))
    return _solve(problem, options | {"warm_start": start})


def _other_set(rng: Rng, known: Known, options: dict[str, Any]) -> Any:
    """A warm start from a box that holds the solution."""
    problem = known.problem
    side = known.scale * 2.0 ** int(rng.integers(-3, 5))
    lower, upper = known.x - side * rng.random(len(known.x)), known.x + side * rng.random(len(known.x))
    other = cut.Problem(problem.risk, problem.regularizer, cut.Box(lower, upper))
    start = _solve(other, _loose({name: value for name, value in options.items() if name != "x0"}))
    return _solve(problem, options | {"warm_start": start})


def _other_data(rng: Rng, known: Known, options: dict[str, Any]) -> Any:
    """A warm start from another risk may be refused, but must prove nothing false."""
    for _ in range(20):
        stranger = problems.draw(rng)
        same_blocks = stranger.problem.risk.n_blocks == known.problem.risk.n_blocks
        if len(stranger.x) == len(known.x) and same_blocks and not stranger.slow:
            break
    else:
        return _solve(known.problem, options)
    start = _solve(stranger.problem, _loose({"method": "auto", "backend": "auto", "time_limit": 5.0}))
    try:
        return _solve(known.problem, options | {"warm_start": start})
    except cut.InvalidInputError as error:
        raise Refused from error


def _path(rng: Rng, known: Known, options: dict[str, Any]) -> Any:
    """The last problem of the path is the known one."""
    lam = known.problem.regularizer.lam
    lams = [lam * 2.0 ** int(rng.integers(-4, 8)) for _ in range(2)]
    path = guarded(lambda: known.problem.path([*lams, lam], **options), 3.0 * options["time_limit"])
    return path[-1]


def _through_a_file(rng: Rng, known: Known, options: dict[str, Any]) -> Any:
    """Half a solve, saved, loaded, verified, and resumed."""
    half = _solve(known.problem, options | {"max_iter": int(rng.integers(1, 10))})
    with tempfile.TemporaryDirectory() as folder:
        loaded = cut.load(half.save(Path(folder) / "half"))
    again = loaded.certificate.verify(known.problem)
    straight = half.certificate.verify()
    if again.valid != straight.valid or not np.isclose(
        again.lower_bound, straight.lower_bound, equal_nan=True
    ):
        raise Broken([f"file: the loaded certificate verifies as {again}, the saved one as {straight}"])
    broken = checks.bounds(known, loaded)
    if broken:
        raise Broken(broken)
    if chance(rng, 0.3):
        return half
    return _solve(known.problem, options | {"warm_start": loaded})

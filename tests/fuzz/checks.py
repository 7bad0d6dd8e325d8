"""What a result promises, checked against a known solution."""

from __future__ import annotations

import traceback
from typing import Any

import numpy as np

from cutplane.status import Status
from fuzz.problems import Known


def of_result(known: Known, result: Any, tol: float, tol_abs: float) -> list[str]:
    """Every promise of a result that is broken."""
    slack = 1e-13 * _terms(known, result)
    if result.x is not None:
        x = np.asarray(result.x)
        slack += _outside(known, x) + 1e-13 * known.terms(x)
    failures = bounds(known, result) + history(result, 2.0 * slack)
    status, gap = result.status, result.objective - result.lower_bound
    if status is Status.OPTIMAL:
        within = gap <= tol * max(1e-12, abs(result.objective)) or gap <= tol_abs
        if not within:
            failures.append(
                f"false OPTIMAL: gap {gap:.3g} at {result.objective:.6g}, tol {tol:.1g}, {tol_abs:.1g}"
            )
    if gap < -slack - 1e-12 * abs(result.objective):
        failures.append(f"crossed bounds: {result.lower_bound!r} > {result.objective!r}")
    if status in (Status.UNBOUNDED, Status.INFEASIBLE, Status.INVALID_ORACLE, Status.INTERRUPTED):
        failures.append(f"false {status}: {result.reason}")
    verification = result.certificate.verify()
    if status is Status.OPTIMAL and not verification.valid:
        failures.append(f"verify: {'; '.join(verification.problems)}")
    return failures


def bounds(known: Known, result: Any) -> list[str]:
    """Whether the bounds enclose the optimum, and x is what it is said to be."""
    failures = []
    optimum, terms = known.optimum, _terms(known, result)
    rounding = 1e-12 * abs(optimum) + 1e-13 * terms
    if not result.lower_bound <= optimum + rounding:
        excess = result.lower_bound - optimum
        failures.append(
            f"false bound: {result.lower_bound!r} > {optimum!r} by {excess:.2g}, "
            f"{excess / terms:.1g} of the terms"
        )
    if result.x is None:
        return failures if result.objective == np.inf else [*failures, "objective without a point"]
    x = np.asarray(result.x)
    violation = known.violation(x)
    if not violation <= known.tolerance:
        failures.append(f"infeasible x: by {violation:.2g} of the scale")
    outside = _outside(known, x)
    here = 1e-13 * known.terms(x)
    if not result.objective >= optimum - rounding - here - outside:
        failures.append(
            f"false objective: {result.objective!r} < {optimum!r} by {optimum - result.objective:.2g}"
        )
    mine = known.value(x)
    if not abs(mine - result.objective) <= 1e-12 * abs(mine) + here:
        failures.append(f"objective: {result.objective!r} at x, but there it is {mine!r}")
    return failures


def history(result: Any, rounding: float) -> list[str]:
    """Whether the bounds are monotone but for rounding, and end with those of the result, checked.

    Without a proof of the tolerance, the result's lower bound may be what its certificate alone proves.
    """
    lower, upper = result.history.column("lower_bound"), result.history.column("upper_bound")
    failures = []
    allowed = rounding if result.status is Status.OPTIMAL else np.inf
    if (lower[1:] < lower[:-1] - rounding).any() or (upper[1:] > upper[:-1] + rounding).any():
        failures.append("history: a bound is not monotone")
    ends = not len(lower) or (
        (lower[-1] == result.lower_bound or 0.0 <= lower[-1] - result.lower_bound <= allowed)
        and (upper[-1] == result.objective or abs(upper[-1] - result.objective) <= rounding)
    )
    if not ends:
        failures.append("history: it does not end with the bounds of the result")
    return failures


def of_exception(error: BaseException) -> str:
    """One line that says what was raised and where."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/cutplane/" in frame.filename] or frames
    place = f"{ours[-1].filename.split('/cutplane/')[-1]}:{ours[-1].lineno}"
    kind = "warning" if isinstance(error, Warning) else "exception"
    return f"{kind}: {type(error).__name__} in {place}: {' '.join(str(error).split())[:200]}"


def began(error: BaseException) -> bool:
    """Whether an error was raised in an iteration, and not before the first one."""
    frames = traceback.extract_tb(error.__traceback__)
    return any(frame.name == "step" and "/methods/" in frame.filename for frame in frames)


def _outside(known: Known, x: np.ndarray) -> float:
    """How far the objective at x may be below the optimum, because x is a little outside the set."""
    return 1.01 * max(0.0, float(known.normal @ (x - known.x)))


def _terms(known: Known, result: Any) -> float:
    """The size of the numbers that the bounds are sums of, at the optimum and in the rows of the proof."""
    certificate = result.certificate
    sizes = [known.terms(known.x), abs(known.optimum)]
    for row in np.flatnonzero(certificate.multipliers > 0.0):
        offset = abs(float(certificate.offsets[row]))
        point = certificate.points.get(int(certificate.queries[row]))
        away = 0.0
        if point is not None:
            away = float((abs(certificate.slopes[[row]]) @ np.abs(point))[0])
        sizes.append(0.01 * float(certificate.multipliers[row]) * (offset + away))
    return float(np.sum(sizes))

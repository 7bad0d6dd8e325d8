"""Trials of forged certificates: none may be called valid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from cutplane.proof.certificate import Certificate
from cutplane.status import Status
from fuzz import checks, problems
from fuzz.core import Refused, guarded, quiet
from fuzz.draws import Rng, pick
from fuzz.outcome import Outcome
from fuzz.problems import Known


class Impossible(Exception):
    """This certificate cannot be forged in this way."""


def trial(rng: Rng) -> Outcome:
    """Forge the certificate of an honest result."""
    known = problems.draw(rng)
    while known.slow or not known.certifiable:
        known = problems.draw(rng)
    kind = str(pick(rng, dict.fromkeys(FORGERIES, 1.0)))
    family, where = f"{kind}/auto/auto", f"[{known.name}; n={len(known.x)}]"
    with quiet():
        try:
            result = guarded(lambda: known.problem.solve(tol=1e-9, max_iter=200, time_limit=5.0), 5.0)
            if result.status is not Status.OPTIMAL or checks.bounds(known, result):
                return Outcome(family, "SKIPPED", [])
            forged = FORGERIES[kind](rng, known, result.certificate)
        except (Impossible, Refused):
            return Outcome(family, "SKIPPED", [])
        except Exception as error:
            return Outcome(family, type(error).__name__, [f"{checks.of_exception(error)} {where}"])
        try:
            valid = forged.verify().valid
        except Exception as error:
            return Outcome(family, type(error).__name__, [f"{checks.of_exception(error)} {where}"])
    if valid is False:
        return Outcome(family, "INVALID", [])
    if kind == "swapped points":  # the claims are true, and examples may prove them whatever the points are
        return Outcome(family, "PROVEN", [])
    return Outcome(family, "VALID", [f"forged and valid: {kind} {where}"])


def _size(known: Known) -> float:
    """The unit of the objective."""
    return max(known.terms(known.x), abs(known.optimum)) or 1.0


def _used(certificate: Certificate) -> np.ndarray:
    """Cuts with a positive multiplier whose query point is known."""
    asked = np.isin(certificate.queries, list(certificate.points))
    return np.flatnonzero((certificate.multipliers > 1e-6) & asked & (certificate.blocks >= 0))


def _one(rng: Rng, certificate: Certificate) -> int:
    rows = _used(certificate)
    if not rows.size:
        raise Impossible
    return int(rng.choice(rows))


def _changed(array: Any, row: int, value: Any) -> Any:
    array = np.array(array)
    array[row] = value
    return array


def _with_row(
    certificate: Certificate, slope: np.ndarray, offset: float, block: int, multiplier: float
) -> Any:
    """The certificate with one more row without a query point; a cut takes the place of the others."""
    slopes = certificate.slopes
    stack: Any = partial(sp.vstack, format="csr") if sp.issparse(slopes) else np.vstack
    old = certificate.multipliers.copy()
    if block >= 0:
        old[certificate.blocks == block] = 0.0
    return replace(
        certificate,
        slopes=stack([slopes, slope[np.newaxis]]),
        offsets=np.append(certificate.offsets, offset),
        blocks=np.append(certificate.blocks, block),
        queries=np.append(certificate.queries, -1),
        multipliers=np.append(old, multiplier),
    )


def _aggregate(rng: Rng, known: Known, certificate: Certificate) -> Certificate:
    """An invented row that passes through the risk at x, with a slope of its own, and a bound from it."""
    size, n = _size(known), len(known.x)
    slope = rng.normal(size=n) * size / known.scale
    value = float(np.sum(np.atleast_1d(known.problem.risk.oracle(certificate.x)[0])))
    forged = _with_row(certificate, slope, value - slope @ certificate.x, 0, 1.0)
    return replace(forged, lower_bound=_claim(forged, known, certificate))


def _half_space(rng: Rng, known: Known, certificate: Certificate) -> Certificate:
    """An invented half-space that holds at x, with so large a multiplier that it matters."""
    size, n = _size(known), len(known.x)
    normal = rng.normal(size=n) / known.scale
    forged = _with_row(certificate, normal, -float(normal @ certificate.x), -1, size)
    return replace(forged, lower_bound=_claim(forged, known, certificate))


def _claim(forged: Certificate, known: Known, certificate: Certificate) -> float:
    """What the forged rows prove, if anything; the forged certificate claims no more than that."""
    from cutplane.proof.dual import DualFunction

    lower, *_ = DualFunction(known.problem)(
        forged.slopes, forged.offsets, forged.blocks, forged.multipliers, certificate.upper_bound
    )
    if not np.isfinite(lower):
        raise Impossible
    return float(lower)


def _no_point(rng: Rng, known: Known, certificate: Certificate) -> Certificate:
    return replace(certificate, x=None)


def _nan(rng: Rng, known: Known, certificate: Certificate) -> Certificate:
    return replace(certificate, **{str(rng.choice(["lower_bound", "upper_bound"])): np.nan})


def _offset_by_little(rng: Rng, known: Known, certificate: Certificate) -> Certificate:
    """All offsets of one block are raised, and the bound with them."""
    rise = 9e-8 * _size(known)
    mine = certificate.blocks == 0
    return replace(
        certificate,
        offsets=certificate.offsets + rise * mine,
        lower_bound=max(certificate.lower_bound, known.optimum) + 0.999 * rise,
    )


def _offset_when_small(rng: Rng, known: Known, certificate: Certificate) -> Certificate:
    """The same by a tenth, where all numbers are tiny."""
    size = _size(known)
    if size > 1e-6:
        raise Impossible
    mine = certificate.blocks == 0
    return replace(
        certificate,
        offsets=certificate.offsets + 0.1 * size * mine,
        lower_bound=certificate.lower_bound + 0.0999 * size,
    )


def _outside(rng: Rng, known: Known, certificate: Certificate) -> Certificate:
    """x beyond the set, along the normal or along a random direction."""
    direction = known.normal if known.normal.any() else rng.normal(size=len(known.x))
    x = known.x + 1e-3 * known.scale * direction / np.linalg.norm(direction)
    if known.violation(x) < 1e-5:
        raise Impossible
    return replace(certificate, x=x, upper_bound=known.problem.objective(x))


def _query(rng: Rng, known: Known, certificate: Certificate) -> Certificate:
    row = _one(rng, certificate)
    return replace(certificate, queries=_changed(certificate.queries, row, int(rng.choice([10**6, -7, -3]))))


def _block(rng: Rng, known: Known, certificate: Certificate) -> Certificate:
    row = _one(rng, certificate)
    return replace(certificate, blocks=_changed(certificate.blocks, row, int(rng.choice([99, -5]))))


def _negative(rng: Rng, known: Known, certificate: Certificate) -> Certificate:
    row = int(rng.integers(len(certificate.multipliers)))
    return replace(certificate, multipliers=_changed(certificate.multipliers, row, -0.5))


def _raised(rng: Rng, known: Known, certificate: Certificate) -> Certificate:
    rise = float(pick(rng, {1e-6: 1, 1e-3: 1, 1.0: 1})) * _size(known)
    return replace(certificate, lower_bound=max(certificate.lower_bound, known.optimum) + rise)


def _lowered(rng: Rng, known: Known, certificate: Certificate) -> Certificate:
    fall = float(pick(rng, {1e-6: 1, 1e-3: 1, 1.0: 1})) * _size(known)
    return replace(certificate, upper_bound=min(certificate.upper_bound, known.optimum) - fall)


def _swapped(rng: Rng, known: Known, certificate: Certificate) -> Certificate:
    """The points of two queries change places, whose slopes differ by more than last bits of the value."""
    rows = _used(certificate)
    if len(rows) < 2:
        raise Impossible
    i, j = rng.choice(rows, size=2, replace=False)
    p, q = int(certificate.queries[i]), int(certificate.queries[j])
    slopes = certificate.slopes.toarray() if sp.issparse(certificate.slopes) else certificate.slopes
    change = np.abs(slopes[i] - slopes[j]).max()
    apart = change > 1e-3 * np.abs(slopes[[i, j]]).max() and change * known.scale > 1e-9 * _size(known)
    if p == q or not apart or certificate.blocks[i] != certificate.blocks[j]:
        raise Impossible
    points = dict(certificate.points)
    points[p], points[q] = points[q], points[p]
    return replace(certificate, points=points)


def _near_zero(rng: Rng, known: Known, certificate: Certificate) -> Certificate:
    """A flat row at an x so small that no slope is worth anything there."""
    x = 1e-14 * known.scale * rng.normal(size=len(known.x))
    upper = known.problem.objective(x)
    if known.violation(x) > 0.0 or not upper - known.optimum > 1e-3 * _size(known):
        raise Impossible
    value = float(np.sum(np.atleast_1d(known.problem.risk.oracle(x)[0])))
    query = max(certificate.points, default=0) + 1
    forged = _with_row(certificate, np.zeros(x.size), value, 0, 1.0)
    queries = _changed(forged.queries, -1, query)
    points = certificate.points | {query: x}
    forged = replace(forged, queries=queries, points=points, x=x, upper_bound=upper, risk_value=value)
    claim = _claim(forged, known, forged)
    if not claim > known.optimum + 1e-6 * _size(known):
        raise Impossible
    return replace(forged, lower_bound=claim)


def _not_finite(rng: Rng, known: Known, certificate: Certificate) -> Certificate:
    """One multiplier is NaN or inf."""
    row = _one(rng, certificate)
    return replace(
        certificate, multipliers=_changed(certificate.multipliers, row, rng.choice([np.nan, np.inf]))
    )


FORGERIES: dict[str, Callable[[Rng, Known, Certificate], Certificate]] = {
    "invented aggregate": _aggregate,
    "invented half-space": _half_space,
    "no point": _no_point,
    "NaN bound": _nan,
    "offsets a little higher": _offset_by_little,
    "offsets higher, tiny scale": _offset_when_small,
    "x outside": _outside,
    "unknown query": _query,
    "unknown block": _block,
    "negative multiplier": _negative,
    "raised lower bound": _raised,
    "lowered upper bound": _lowered,
    "swapped points": _swapped,
    "multiplier not finite": _not_finite,
    "flat near zero": _near_zero,
}

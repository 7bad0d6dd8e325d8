"""Start a run from the cuts of an earlier one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.engine.bundle import rows_of
from cutplane.engine.half_spaces import into_domain
from cutplane.exceptions import InvalidInputError, OracleError
from cutplane.masters.base import HALF_SPACE
from cutplane.pieces.capabilities import Capability, offers
from cutplane.pieces.validation import Array
from cutplane.proof.audit import Recomputed
from cutplane.proof.evidence import TRIVIAL
from cutplane.proof.rounding import RECOMPUTED

if TYPE_CHECKING:
    from cutplane.engine.run import Run
    from cutplane.proof.certificate import Certificate

_OTHER = "Cuts can be reused for another regularizer or set, not for another risk or other data."
_APART = 1e-6
"""Relative difference allowed between two values of one risk, because other hardware or threads may round
differently."""


def resume(run: Run, earlier: Certificate) -> dict[int, int]:
    """Add every cut of `earlier` that is valid for the run's problem, and start from its best point.

    Cuts of the risk hold for every regularizer and set. If the risk is another object, the oracle is called
    again at the query points of the cuts in use. The other cuts are confirmed later, before a proof uses
    them; the method returns their rows by their ids in the bundle. Half-spaces hold if the set is the same
    object; otherwise its oracle is called again at their query points. The first point is the best point
    under the new objective, of the points with a recorded risk.

    Raise `InvalidInputError` if the shapes differ, or the result is of another risk.
    """
    dim, n_blocks = run.problem.dim, run.problem.risk.n_blocks
    if earlier.slopes.shape[1] != dim:
        raise InvalidInputError(f"warm_start has dimension {earlier.slopes.shape[1]}, the problem has {dim}.")
    if earlier.blocks.max(initial=-1) >= n_blocks:
        raise InvalidInputError(
            f"warm_start has {earlier.blocks.max() + 1} blocks, the risk has {n_blocks}; use the same number."
        )
    foreign = earlier.problem is None or earlier.problem.risk is not run.problem.risk
    if foreign:
        queried = np.flatnonzero((earlier.queries != TRIVIAL) & (earlier.blocks != HALF_SPACE))
        asked = np.append(np.flatnonzero(earlier.multipliers > 0.0), [*queried[:1], *queried[-1:]])
        check_origin(run, earlier, np.unique(asked).astype(np.int64))
    most, run.bundle.max_cuts = run.bundle.max_cuts, None
    weights, unconfirmed = _transfer(run, earlier)
    run.bundle.weigh(weights)
    run.bundle.max_cuts = most
    run.bundle.make_room(0)
    start, known = _best_known(run, earlier)
    point = run.evaluate(into_domain(run.problem, run.bundle, run.cut_off, start))
    if known is not None and point.offsets is None and point.feasible and np.array_equal(point.x, start):
        value = float(point.values.sum())
        rounding = RECOMPUTED * (run.terms() + float(np.sum(run.evaluator.cancelled(point))))
        rounding += 2.0 * run.evaluator.rounding(point)
        if abs(value - known) > _APART * max(abs(value), abs(known)) + rounding:
            raise InvalidInputError(
                f"warm_start comes from another risk: it recorded {known:.8g}, this risk is {value:.8g}. "
                + _OTHER
            )
    run.first = point
    if run.method.first_cut:
        run.add_cut(point)
    if run.bundle.has_cuts():
        run.certify(run.bundle.weights)
    return unconfirmed if foreign else {}


def confirm_origin(run: Run, earlier: Certificate, unconfirmed: dict[int, int]) -> None:
    """Call the oracle again for the cuts in use that are not confirmed yet; see `check_origin`."""
    weights = run.bundle.bases(run.proof)
    rows = [row for base, row in unconfirmed.items() if weights.get(base, 0.0) > 0.0]
    check_origin(run, earlier, np.array(rows, dtype=np.int64))


def check_origin(run: Run, earlier: Certificate, rows: Array) -> None:
    """Call the oracle again for these cuts; raise `InvalidInputError` if its answers differ."""
    again = Recomputed(earlier, run.evaluator)
    for row in rows[earlier.blocks[rows] != HALF_SPACE].tolist():
        if (complaint := again.complaint(row)) is not None:
            raise InvalidInputError(f"warm_start comes from another risk: {complaint}. {_OTHER}")


def _transfer(run: Run, earlier: Certificate) -> tuple[Array, dict[int, int]]:
    """Copy the valid rows; return the multipliers of all rows, and the rows of idle cuts, by id."""
    bundle, problem = run.bundle, run.problem
    same_set = earlier.problem is not None and problem.has_set_of(earlier.problem)
    known, outside = earlier.queries == TRIVIAL, earlier.blocks == HALF_SPACE
    infima = np.bincount(earlier.blocks[known], earlier.multipliers[known], problem.risk.n_blocks)
    rows = np.flatnonzero(~known & (same_set | ~outside))
    slopes, offsets = earlier.slopes, earlier.offsets
    if earlier.duals and not (same_set or offers(problem.risk, Capability.DUAL_CUT)):
        slopes, offsets, rows = _highest_again(run, earlier, rows)
    rows = rows[np.argsort(earlier.multipliers[rows] > 0.0, kind="stable")]  # idle rows are dropped first
    found, queries = np.unique(earlier.queries[rows], return_inverse=True)
    mine: Any = bundle.points, bundle.duals, bundle.solutions
    for own, other in zip(mine, (earlier.points, earlier.duals, earlier.solutions), strict=True):
        new = {run.queries + place: old for place, old in enumerate(found.tolist()) if old in other}
        own.update((place, other[old]) for place, old in new.items())
    weights = np.concatenate([infima[: len(bundle)], earlier.multipliers[rows]])
    bundle.fill(slopes[rows], offsets[rows], earlier.blocks[rows], run.queries + queries)
    run.queries += found.size
    idle = (earlier.multipliers[rows] <= 0.0) & ~outside[rows]
    first = len(bundle) - rows.size
    unconfirmed = dict(zip(bundle.ids[first:][idle].tolist(), rows[idle].tolist(), strict=True))
    again = np.unique(earlier.queries[outside]).tolist() if not same_set and problem.separators else []
    for query in again:
        if (point := earlier.points.get(query)) is None:
            continue
        run.add_half_spaces(point, run.evaluator.separate(point))
        weights = np.append(weights, np.zeros(len(bundle) - weights.size))
        mine = np.flatnonzero(outside & (earlier.queries == query))
        for row, slope in zip(mine.tolist(), rows_of(earlier.slopes[mine]), strict=True):
            place = bundle.find(slope, float(earlier.offsets[row]), HALF_SPACE)
            if place is not None:
                weights[place] = earlier.multipliers[row]
    return weights, unconfirmed


def _highest_again(run: Run, earlier: Certificate, rows: Array) -> tuple[Array, Array, Array]:
    """Compute highest cuts over the run's set, because the earlier ones hold only over the earlier set."""
    slopes, offsets = earlier.slopes.copy(), earlier.offsets.copy()
    for row in [row for row in rows.tolist() if int(earlier.queries[row]) in earlier.duals]:
        try:
            slope, offset = run.evaluator.dual_cut(earlier.duals[int(earlier.queries[row])])
        except OracleError:
            rows = rows[rows != row]
        else:
            slopes[row], offsets[row] = slope[0], offset[0]
    return slopes, offsets, rows


def _best_known(run: Run, earlier: Certificate) -> tuple[Array, float | None]:
    """Return the point with the least objective among the points with a recorded risk, and its risk."""
    problem, before = run.problem, earlier.problem
    if earlier.x is not None and before is not None and before.regularizer is problem.regularizer:
        if problem.has_set_of(before) and problem.in_simple_set(earlier.x):
            return earlier.x, earlier.risk_value
    points, cuts = [], {}
    if not offers(problem.risk, Capability.PIECES):  # the highest piece at a point may have been dropped
        for row in np.flatnonzero(earlier.blocks != HALF_SPACE).tolist():
            cuts.setdefault(int(earlier.queries[row]), []).append(row)
    for query, x in earlier.points.items():
        if len(rows := cuts.get(query, [])) >= problem.risk.n_blocks:
            points.append((x, float((earlier.slopes[rows] @ x + earlier.offsets[rows]).sum())))
    if earlier.x is not None:
        points.append((earlier.x, earlier.risk_value))
    points.sort(key=lambda pair: pair[1] + problem.regularizer.value(pair[0]))
    for x, risk in points:
        if problem.in_simple_set(x):
            return x, risk
    return problem.starting_point(), None

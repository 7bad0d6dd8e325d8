"""Starts a run from the cuts of an earlier one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from cutplane.engine.half_spaces import into_domain
from cutplane.engine.slopes import rows_of
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
    from cutplane.result import Result


def resume(run: Run, result: Result) -> None:
    """Add every cut of `result` that is valid for the run's problem, and start from its best point.

    Cuts of the risk hold for every regularizer and set. Whether they are cuts of this risk is known if it is
    the same object; else the oracle is asked again where the cuts in use were made, and the run remembers to
    ask for others before it uses them in a proof. Half-spaces hold if the set is the same object; else its
    oracle is asked again at their query points, and its new answers are taken. The first point is the best
    one, under the new objective, of those whose risk is known.

    Raises
    ------
    InvalidInputError
        If the result has another dimension or number of blocks, or comes from another risk.
    """
    earlier = result.certificate
    _check_shapes(run, earlier)
    run.carried = earlier
    same_risk = earlier.problem is not None and earlier.problem.risk is run.problem.risk
    if not same_risk:
        queried = np.flatnonzero((earlier.queries != TRIVIAL) & (earlier.blocks != HALF_SPACE))
        asked = np.append(np.flatnonzero(earlier.multipliers > 0.0), [*queried[:1], *queried[-1:]])
        check_origin(run, earlier, np.unique(asked).astype(np.int64))
    most, run.bundle.max_cuts = run.bundle.max_cuts, None
    run.bundle.weigh(_transfer(run, earlier, not same_risk))
    run.bundle.max_cuts = most
    run.bundle.make_room(0)
    start, known = _best_known(run, earlier)
    point = run.evaluate(into_domain(run.problem, run.bundle, run.cut_off, start))
    if known is not None and point.offsets is None and point.feasible and np.array_equal(point.x, start):
        value = float(point.values.sum())
        rounding = RECOMPUTED * (run.terms() + float(np.sum(run.evaluator.cancelled(point))))
        rounding += 2.0 * run.evaluator.rounding(point)
        if abs(value - known) > 1e-6 * max(abs(value), abs(known)) + rounding:
            raise InvalidInputError(
                f"warm_start comes from another risk: it recorded {known:.8g}, this risk is {value:.8g}. "
                "Cuts can be reused for another regularizer or set, not for another risk or other data."
            )
    run.first = point
    if run.method.first_cut:
        run.add_cut(point)
    if run.bundle.has_cuts():
        run.certify(run.bundle.weights)


def confirm_origin(run: Run) -> None:
    """Ask the oracle again for carried cuts in use that it has not been asked for; see `check_origin`."""
    weights = run.bundle.bases(run.proof)
    rows = [row for base, row in run.unconfirmed.items() if weights.get(base, 0.0) > 0.0]
    if run.carried is not None and rows:
        check_origin(run, run.carried, np.array(rows))


def check_origin(run: Run, earlier: Certificate, rows: Array) -> None:
    """Ask the run's oracle again for these cuts; raise `InvalidInputError` if it gives others."""
    again = Recomputed(earlier, run.evaluator)
    for row in rows[earlier.blocks[rows] != HALF_SPACE].tolist():
        if (complaint := again.complaint(row)) is not None:
            raise InvalidInputError(
                f"warm_start comes from another risk: {complaint}. Cuts can be reused for another "
                "regularizer or set, not for another risk or other data."
            )


def _check_shapes(run: Run, earlier: Certificate) -> None:
    dim, n_blocks = run.problem.dim, run.problem.risk.n_blocks
    if earlier.slopes.shape[1] != dim:
        raise InvalidInputError(f"warm_start has dimension {earlier.slopes.shape[1]}, the problem has {dim}.")
    if earlier.blocks.max(initial=-1) >= n_blocks:
        raise InvalidInputError(
            f"warm_start has {earlier.blocks.max() + 1} blocks, the risk has {n_blocks}; use the same number."
        )


def _transfer(run: Run, earlier: Certificate, foreign: bool) -> Array:
    """Copy the valid rows into the bundle; return the multipliers of the rows the bundle then holds."""
    same_set = earlier.problem is not None and run.problem.has_set_of(earlier.problem)
    if same_set and not foreign and not sparse.issparse(earlier.slopes):
        return _copied(run, earlier)
    weights = dict.fromkeys(range(len(run.bundle)), 0.0)
    for query in np.unique(earlier.queries).tolist():
        rows = np.flatnonzero(earlier.queries == query)
        if query == TRIVIAL:
            if len(run.bundle):
                for row in rows:
                    weights[int(earlier.blocks[row])] += float(earlier.multipliers[row])
            continue
        point, dual = earlier.points.get(query), earlier.duals.get(query)
        half_spaces = earlier.blocks[rows] == HALF_SPACE
        known = rows[half_spaces]
        if half_spaces.any() and not same_set:
            rows = rows[~half_spaces]
            if point is not None and run.problem.separators:
                run.add_half_spaces(point, run.evaluator.separate(point))
                weights |= {row: 0.0 for row in range(len(run.bundle)) if row not in weights}
                weights |= _found_again(run, earlier, known)
        highest = not (same_set or offers(run.problem.risk, Capability.DUAL_CUT))
        for row in rows.tolist():
            slope, offset = earlier.slopes[row : row + 1], earlier.offsets[row : row + 1]
            if dual is not None and highest:  # it is a cut over the earlier set alone
                try:
                    slope, offset = run.evaluator.dual_cut(dual)
                except OracleError:
                    continue
            if run.bundle.add(run.queries, point, slope, offset, [int(earlier.blocks[row])]):
                weights[len(run.bundle) - 1] = float(earlier.multipliers[row])
                if foreign and not earlier.multipliers[row] > 0.0 and earlier.blocks[row] != HALF_SPACE:
                    run.unconfirmed[int(run.bundle.ids[-1])] = row
        if dual is not None:
            run.bundle.duals[run.queries] = dual
        if query in earlier.solutions:
            run.bundle.solutions[run.queries] = earlier.solutions[query]
        run.queries += 1
    return np.array([weights[row] for row in range(len(run.bundle))])


def _copied(run: Run, earlier: Certificate) -> Array:
    """Copy all rows as they are, but known infima; return the multipliers of the rows of the bundle."""
    bundle, known = run.bundle, earlier.queries == TRIVIAL
    weights = np.bincount(earlier.blocks[known], earlier.multipliers[known], run.problem.risk.n_blocks)
    rows = np.flatnonzero(~known)
    rows = rows[np.argsort(earlier.multipliers[rows] > 0.0, kind="stable")]  # idle ones are dropped first
    found, queries = np.unique(earlier.queries[rows], return_inverse=True)
    mine, theirs = (bundle.points, bundle.duals, bundle.solutions), (earlier.points, earlier.duals)
    pairs: Any = zip(mine, (*theirs, earlier.solutions), strict=True)
    for own, other in pairs:
        own.update((new, other[old]) for new, old in enumerate(found.tolist(), run.queries) if old in other)
    offsets, blocks = earlier.offsets[rows], earlier.blocks[rows]
    weights = weights if len(bundle) else weights[:0]
    bundle.fill(earlier.slopes[rows], offsets, blocks, run.queries + queries)
    run.queries += found.size
    return np.concatenate([weights, earlier.multipliers[rows]])


def _found_again(run: Run, earlier: Certificate, half_spaces: Array) -> dict[int, float]:
    """Return the multipliers of the half-spaces that the oracle returned again, by their new rows."""
    found = {}
    for row, slope in zip(half_spaces.tolist(), rows_of(earlier.slopes[half_spaces]), strict=True):
        place = run.bundle.find(slope, float(earlier.offsets[row]), HALF_SPACE)
        if place is not None:
            found[place] = float(earlier.multipliers[row])
    return found


def _best_known(run: Run, earlier: Certificate) -> tuple[Array, float | None]:
    """Return the point with the least objective among those whose risk is known, and its risk."""
    problem, before = run.problem, earlier.problem
    if earlier.x is not None and before is not None and before.regularizer is problem.regularizer:
        if problem.has_set_of(before) and problem.in_simple_set(earlier.x):
            return earlier.x, earlier.risk_value
    best, best_risk, best_objective = None, None, np.inf
    several = offers(problem.risk, Capability.PIECES)  # of which the largest may have been dropped
    cuts: dict[int, list[int]] = {query: [] for query in earlier.points} if not several else {}
    for row in np.flatnonzero(earlier.blocks != HALF_SPACE).tolist():
        cuts.get(int(earlier.queries[row]), []).append(row)
    for query, rows in cuts.items():
        x = earlier.points[query]
        if len(rows) < problem.risk.n_blocks:
            continue
        risk = float((earlier.slopes[rows] @ x + earlier.offsets[rows]).sum())
        objective = risk + problem.regularizer.value(x)
        if objective < best_objective and problem.in_simple_set(x):
            best, best_risk, best_objective = x, risk, objective
    if earlier.x is not None and problem.in_simple_set(earlier.x):
        if earlier.risk_value + problem.regularizer.value(earlier.x) < best_objective:
            return earlier.x, earlier.risk_value
    if best is None:
        return problem.starting_point(), None
    return best, best_risk

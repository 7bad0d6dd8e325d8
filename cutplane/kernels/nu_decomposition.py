"""Decomposition for nu-forms: steps on pairs inside each of two sums, compiled, and Newton steps between."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from cutplane.exceptions import InvalidInputError, MissingCapabilityError
from cutplane.kernels.decomposition import Decomposition, DecompositionState
from cutplane.kernels.descent import Descent
from cutplane.kernels.directions import longest_step
from cutplane.kernels.intercept import measure
from cutplane.kernels.smo import MORE, OPTIMAL, ROW, larger, second
from cutplane.pieces.capabilities import Capability, ask, require
from cutplane.pieces.validation import Array
from cutplane.runtime.compiling import routine

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.run import Run
    from cutplane.kernels.nu import NuRisk
    from cutplane.kernels.rows import Rows

_FLOOR = 1e-12
_ROUNDING = 2.0**-50
_SHIFTS = 1e-12, 1e-9
_BLOCK = 1024
_FLAGS = frozenset({"contract", "nnan", "nsz"})


@dataclass(frozen=True)
class NuDecomposition(Decomposition):
    """Sequential minimal optimisation on the dual of a nu-form, with Newton steps in between.

    The coefficients are a = sum_s a_s, one vector a_s >= 0 or <= 0 for each term of a `NuRisk`, with bounds
    and a fixed sum: nu / (2 lam) each. A step takes one coefficient up and another of the same term down, of
    the term that violates the optimality conditions more. Otherwise it is as `Decomposition`.

    Raises
    ------
    MissingCapabilityError
        Unless the risk is a `NuRisk`, the regularizer its `squared_norm`, and there is no feasible set.

    References
    ----------
    C.-C. Chang, C.-J. Lin, "Training nu-support vector classifiers: theory and algorithms", Neural
    Computation 13, 2001, doi:10.1162/089976601750399335.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> risk = cut.kernels.NuRisk(np.array([[1.0], [2.0]]), None, 0.5, cut.kernels.Linear(), "novelty")
    >>> result = cut.Problem(risk, risk.squared_norm()).solve(cut.kernels.NuDecomposition(), tol=1e-9)
    >>> print(result.status, round(result.objective, 6))
    OPTIMAL -0.125
    """

    def check(self, problem: Declaration) -> None:
        """Raise unless the problem is a nu-form."""
        _parts_of(problem, self.name)

    def start(self, run: Run) -> DecompositionState:
        """Start from the coefficients of the first point.

        The objective may be 0 there and at the optimum: one with a single coefficient tells the gap its size.
        """
        risk, lam = _parts_of(run.problem, self.name)
        descent = run.timed(SidedDescent, risk, lam, risk.gram.cache, run.anchor.x[: risk.gram.n])
        single = np.zeros(risk.dim)
        single[int(risk.gram.diagonal().argmax())] = descent.sums[0]
        run.evaluate(single)
        return DecompositionState(descent, lam)

    def _certify(self, run: Run, state: DecompositionState) -> None:
        descent: Any = state.descent
        risk = run.problem.risk.kernel_sides()  # type: ignore[attr-defined]
        run.timed(descent.refresh, queries=1)
        run.evaluate(np.append(descent.coefficients, descent.intercepts()))
        run.add_dual_cut(risk.multipliers(descent.a, state.lam))


def _parts_of(problem: Declaration, method: str) -> tuple[NuRisk, float]:
    remedy = "Use Decomposition() for a KernelRisk, or make the risk a cutplane.kernels.NuRisk."
    require(problem.risk, Capability.KERNEL_SIDES, method, remedy)
    risk: Any = problem.risk
    found = ask(problem.active_regularizer, Capability.KERNEL_NORM)
    if found is None or found[0] is not risk.gram or not found[1] > 0.0 or not problem.is_unconstrained:
        raise MissingCapabilityError(
            f"{method} needs the squared norm of the risk's functions, risk.squared_norm(lam) with lam > 0, "
            f"and no feasible set; got {problem.regularizer!r} over {problem.feasible_set!r}."
        )
    return risk, found[1]


class SidedDescent(Descent):
    """The state of a solve: a, one row for each term, and g = goals - K sum_s a_s.

    Term 0 has 0 <= a <= upper, term 1 lower <= a <= 0; `sums` are what the rows sum up to.
    """

    def __init__(self, risk: NuRisk, lam: float, rows: Rows, a: Array) -> None:
        signs = np.array([[1.0], [-1.0]])[: len(risk.shares)]
        most = risk.shares / lam
        total = risk.total(risk.nu) / lam
        self.sums = signs[:, 0] * total
        self.lower, self.upper = np.where(signs < 0.0, -most, 0.0), np.where(signs > 0.0, most, 0.0)
        self.a = signs * np.array(
            [filled(part, end, total) for part, end in zip(signs * a, most, strict=True)]
        )
        self.goals, self.rows = risk.goals, rows
        self.rise = np.where(self.a >= self.upper, math.inf, 0.0)
        self.fall = np.where(self.a <= self.lower, -math.inf, 0.0)
        self.r, self._zeros = np.empty_like(risk.goals), np.zeros_like(risk.goals)
        largest = float(rows.diagonal.max())
        self.floor = _FLOOR * largest if largest > 0.0 else 1e-100
        self.b = np.zeros(len(signs))
        self.n_steps, self.chain = 0, 1
        self.is_fresh = True
        self.spent = self.total = self.on_all = 0.0
        self.most_steps = 10_000_000 + 1000 * a.size
        self.refresh()

    @property
    def coefficients(self) -> Array:
        """The sum of the rows of a."""
        return self.a.sum(axis=0)

    @property
    def dual_value(self) -> float:
        """The value of the dual, up to what rounding has added to the slopes."""
        return 0.5 * float(self.coefficients @ (self.goals + self.g))

    def intercepts(self) -> Array:
        """Return the middles of the intervals of the best intercepts."""
        found = self.b.copy()
        for s in range(found.size):
            low = float(self.g[np.isfinite(self.rise[s])].max(initial=-math.inf))
            high = float(self.g[np.isfinite(self.fall[s])].min(initial=math.inf))
            if math.isfinite(low + high) and low <= high:
                found[s] = 0.5 * (low + high)
        return found

    def refresh(self) -> None:
        """Compute K a and the gap anew."""
        if not self.is_fresh:
            self._restore_sum()
        predictions = self.rows.product(self.coefficients)
        self.g = self.goals - predictions
        self.is_fresh = True
        self.scale = float(np.abs(self.goals).max() + np.abs(predictions).max())
        self.measure()

    def measure(self) -> None:
        """Find the best intercepts and the gap."""
        self.gap = self.size = 0.0
        for s, total in enumerate(self.sums):
            self.b[s], gap, size = measure(
                self.g, self.a[s], self.goals, 0.0, self._zeros, self.lower[s], self.upper[s],
                True, total, self.b[s], self.r,
            )  # fmt: skip
            self.gap, self.size = self.gap + gap, self.size + size
        if math.isnan(self.gap):
            raise InvalidInputError(
                "K holds entries that are not finite, or so large that K a overflows; clean or rescale it."
            )

    def _grow(self, accuracy: float) -> None:
        pass

    def _leave_out(self, accuracy: float) -> bool:
        return False

    def steps(self, most: int, tolerance: float = 0.0) -> tuple[float, bool]:
        """Do some steps; return how much they gain, and whether no violation above the tolerance is left."""
        rows, total, left = self.rows, 0.0, most
        while left > 0:
            status, wanted, done, decrease = sided_steps(
                rows.slots, rows.where, rows.used, rows.clock, rows.diagonal, self.lower, self.upper,
                self.a, self.g, self.rise, self.fall, self.floor,
                max(tolerance, _ROUNDING * self.scale), left,
            )  # fmt: skip
            rows.clock += done + 1
            total += decrease
            left -= done
            self.n_steps += done
            self.is_fresh &= done == 0
            if status != ROW:
                return total, status != MORE
            rows.fetch(wanted, self._likely)
        return total, False

    def _likely(self, count: int) -> Array:
        """Return the examples without a row that violate the optimality conditions most."""
        excess = self.g - self.b[:, np.newaxis]
        rates = np.maximum(excess - self.rise, self.fall - excess).max(axis=0)
        rates[self.rows.where >= 0] = -math.inf
        chosen = np.argsort(-rates)[:count]
        return chosen[rates[chosen] > 0.0]

    def _free(self) -> Array:
        return np.flatnonzero((self.a > self.lower) & (self.a < self.upper)) % self.g.size

    def _newton_step(self) -> bool:
        """Go along the Newton direction on the free coefficients, as far as they stay within their bounds."""
        term, place = np.nonzero((self.a > self.lower) & (self.a < self.upper))
        if not place.size:
            return False
        d = newton_direction(self.rows.block(place), self.g[place], term)
        if d is None or not (rate := float(self.g[place] @ d)) > 0.0:
            return False
        moved = self.rows.product(np.bincount(place, d, self.g.size))
        curvature = max(float(d @ moved[place]), 0.0)
        best = rate / curvature if curvature > 0.0 else math.inf
        low, high = self.lower[term, place], self.upper[term, place]
        limit = longest_step(self.a[term, place], d, low, high)
        t = min(best, limit)
        if not math.isfinite(t):
            return False
        new = self.a[term, place] + t * d
        if limit <= best:  # rounding must not keep off its bound what ended the step
            ends = np.where(d > 0.0, high, low)
            near = np.abs(ends - new) <= 4.0 * _ROUNDING * np.abs(high - low)
            new = np.where((d != 0.0) & near, ends, new)
        self.a[term, place] = np.clip(new, low, high)
        self.g -= t * moved
        self.rise = np.where(self.a >= self.upper, math.inf, 0.0)
        self.fall = np.where(self.a <= self.lower, -math.inf, 0.0)
        self.is_fresh = False
        self.n_steps += 1
        self.measure()
        return limit < best

    def _restore_sum(self) -> None:
        """Take what rounding has added to the sums from the coefficients that have the most room."""
        for s, total in enumerate(self.sums):
            room = np.minimum(self.upper[s] - self.a[s], self.a[s] - self.lower[s])
            k = int(room.argmax())
            excess = math.fsum(self.a[s]) - float(total)
            if room[k] > abs(excess):
                self.a[s, k] -= excess


def filled(a: Array, most: Array, total: float) -> Array:
    """Return a clipped to [0, most], then scaled down, or its first entries filled up, to that sum."""
    a = np.clip(a, 0.0, most)
    missing = total - float(a.sum())
    if missing <= 0.0:
        return a * (total / max(float(a.sum()), total))
    room = most - a
    before = np.cumsum(room) - room
    return np.minimum(a + np.clip(missing - before, 0.0, room), most)


def newton_direction(H: Array, rates: Array, term: Array) -> Array | None:
    """Return the minimiser d of d'Hd / 2 - rates'd whose entries sum to 0 in each term; None if it fails."""
    terms = np.unique(term)
    E = (term[:, np.newaxis] == terms).astype(float)
    scale = float(H.diagonal().max())
    for shift in (0.0, *_SHIFTS):
        try:
            factor = cho_factor(H + shift * scale * np.eye(len(H)), lower=True, check_finite=False)
        except LinAlgError:
            continue
        if factor[0].diagonal().min() ** 2 > 1e-15 * scale:
            break
    else:
        return None
    solved = cho_solve(factor, np.column_stack([rates, E]), check_finite=False)
    Z = solved[:, 1:]
    try:
        d = solved[:, 0] - Z @ np.linalg.solve(E.T @ Z, E.T @ solved[:, 0])
    except np.linalg.LinAlgError:
        return None
    return d - E @ ((E.T @ d) / E.sum(axis=0)) if np.isfinite(d).all() else None


@routine(fastmath=_FLAGS)
def sided_steps(
    rows, where, used, clock, diagonal, lower, upper, a, g, rise, fall, floor, tolerance, most
):  # fmt: skip
    """Do at most `most` steps, each on a pair inside one row of a; as `pair_steps`."""
    decrease = 0.0
    highs, places, lows = np.empty(a.shape[0]), np.empty(a.shape[0], np.int64), np.empty(a.shape[0])
    _lower(g, rise, fall, rows[0], rows[0], 0.0, highs, places, lows)
    for step in range(most):
        side = 0
        for s in range(1, a.shape[0]):
            if highs[s] - lows[s] > highs[side] - lows[side]:
                side = s
        if not highs[side] - lows[side] > tolerance:
            return OPTIMAL, -1, step, decrease
        i = places[side]
        while g[i] - rise[side, i] < highs[side]:
            i += 1
        if where[i] < 0:
            return ROW, i, step, decrease
        used[where[i]] = clock + step
        j, _ = second(g, fall[side], rows[where[i]], diagonal, g[i], diagonal[i], floor)
        if j < 0:
            return OPTIMAL, -1, step, decrease
        if where[j] < 0:
            return ROW, j, step, decrease
        row_i, row_j = rows[where[i]], rows[where[j]]
        used[where[j]] = clock + step
        rate = g[i] - g[j]
        curvature = max(diagonal[i] + diagonal[j] - 2.0 * row_i[j], floor)
        room_i, room_j = upper[side, i] - a[side, i], a[side, j] - lower[side, j]
        t = min(rate / curvature, min(room_i, room_j))
        a[side, i] = upper[side, i] if t >= room_i else a[side, i] + t
        a[side, j] = lower[side, j] if t >= room_j else a[side, j] - t
        for k in (i, j):
            rise[side, k] = math.inf if a[side, k] >= upper[side, k] else 0.0
            fall[side, k] = -math.inf if a[side, k] <= lower[side, k] else 0.0
        decrease += t * (rate - 0.5 * curvature * t)
        _lower(g, rise, fall, row_i, row_j, t, highs, places, lows)
    return MORE, -1, most, decrease


@routine(fastmath=_FLAGS)
def _lower(g, rise, fall, row_i, row_j, t, highs, places, lows):
    """Subtract t (row_i - row_j) from g.

    Set the largest g - rise[s], the block where it is, and the least g - fall[s].
    """
    for s in range(highs.shape[0]):
        highs[s], places[s], lows[s] = -math.inf, 0, math.inf
    for start in range(0, g.shape[0], _BLOCK):
        part = slice(start, min(start + _BLOCK, g.shape[0]))
        g_part = g[part]
        if t > 0.0:
            _subtract(g_part, row_i[part], row_j[part], t)
        for s in range(highs.shape[0]):
            high, low = _extremes(g_part, rise[s, part], fall[s, part])
            lows[s] = min(lows[s], low)
            if high > highs[s]:
                highs[s], places[s] = high, start


@routine(fastmath=_FLAGS)
def _subtract(g, row_i, row_j, t):
    for k in range(g.shape[0]):
        g[k] -= t * (row_i[k] - row_j[k])


@routine(fastmath=_FLAGS)
def _extremes(g, rise, fall):
    high, opposite = -math.inf, -math.inf
    for k in range(g.shape[0]):
        high = larger(g[k] - rise[k], high)
        opposite = larger(fall[k] - g[k], opposite)
    return high, -opposite

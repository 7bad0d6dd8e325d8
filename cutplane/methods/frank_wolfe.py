"""Methods on vertices: Frank-Wolfe and its variants, and reduced gradients over the simplex."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import compress
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, get_args

import numpy as np

from cutplane.engine.costs import ITERATION
from cutplane.engine.evaluator import Point
from cutplane.exceptions import InvalidInputError, MissingCapabilityError, OracleError
from cutplane.methods.base import Estimate, Method, Refusal, Step, require_linear_minimisation
from cutplane.methods.estimates import sizes
from cutplane.pieces.capabilities import Capability, ask, offers, require
from cutplane.pieces.validation import Array, as_choice

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.run import Run

_STEPS = 1000.0
"""Expected number of steps to reduce the gap to 1e-3 of its first value, because the gap is proportional to 1
/ steps."""
_FLAT = 0.1
"""Share of the first slope at which a search by calls of the oracle ends, because a new direction is then
better."""
_HALVINGS = 60
"""Most halvings of a step to a point of infinite risk, because a shorter step changes x only in its last
digits."""
_INNER_STEPS, _INNER_SHARE = 100, 0.1
"""Largest number of pairwise steps over the atoms in an iteration, and share of the gap over X at which they
end, because a smaller gap would not improve the next atom."""
_NEGLIGIBLE = 1e-15
"""Weight of an atom below which it is dropped, because its share of the point is a rounding error."""
_ROUNDING = 1e-6
"""Error allowed in the weights of a correction, because solvers of users have such errors."""
_STUCK = "no better point lies against the gradient: rounding, or the risk is not differentiable there"
_ACCURACY = 1e-3
"""Error of an on-demand risk relative to the gap, or to the objective, because steps need no smaller
error."""
_SELDOM = 10
"""In iterations 10 k to 10 k + 9, the bound of all cuts is computed in every (k + 1)-th one, because its cost
grows with the number of cuts."""
_FLAT_ON_FACE = 0.5
"""Share of the first slope at which a search by calls of the oracle ends, because the gradient then gives a
better direction."""
_CANCELLED = 1e-15
"""Relative size of a difference that counts as zero, because it may be a rounding error of its terms."""

StepSize = Literal["short", "exact", "open_loop"]
Variant = Literal["vanilla", "away", "pairwise", "fully_corrective"]


class Correction(Protocol):
    """An object that computes better weights for the atoms than a Frank-Wolfe step."""

    def correct(self, atoms: Array, weights: Array, run: Run) -> Array | tuple[Array, Array] | None:
        """Return other weights, shape (K,), nonnegative and of sum 1, or None to change nothing.

        To add atoms, return a pair: further points of the feasible set, shape (J, dim), that are not among
        the atoms, and the weights of all, shape (K + J,).

        Parameters
        ----------
        atoms : ndarray of shape (K, dim)
            All atoms in the order of their discovery, so that the atoms of the last call are the first rows.
        weights : ndarray of shape (K,)
            The weights after the step.
        run : Run
            The run, whose attributes may be read.
        """
        ...


class Atoms:
    """Distinct points in the order of their discovery: the rows of an array that doubles when it is full.

    A row never changes, so that views of `rows` stay valid when atoms are added.
    """

    def __init__(self, first: Array):
        self._rows = np.empty((16, first.size))
        self._places: dict[bytes, int] = {}
        self.index(first)

    def __len__(self) -> int:
        return len(self._places)

    @property
    def rows(self) -> Array:
        """Shape (K, dim), read-only."""
        rows = self._rows[: len(self)]
        rows.flags.writeable = False
        return rows

    def index(self, atom: Array) -> int:
        """Return the row of an atom, which is added if it is new."""
        count = len(self)
        key = blake2b((atom + 0.0).tobytes()).digest()  # 0.0 and -0.0 have the same key
        row = self._places.setdefault(key, count)
        if row == len(self._rows):
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
        if row == count:
            self._rows[row] = atom
        return row

    def restricted(self, kept: Array) -> Atoms:
        """Return the atoms where `kept`, shape (K,), is True."""
        chosen = copy.copy(self)
        chosen._rows = self.rows[kept]
        chosen._places = {key: row for row, key in enumerate(compress(self._places, kept))}
        return chosen


@dataclass(frozen=True, eq=False)
class Mixture:
    """A point as a convex combination of atoms.

    Attributes
    ----------
    atoms : ndarray of shape (K, dim)
        Points of the feasible set.
    weights : ndarray of shape (K,)
        Nonnegative, of sum 1.
    objective : float
        The objective at the point.
    """

    atoms: Array
    weights: Array
    objective: float

    @property
    def x(self) -> Array:
        """The point, up to rounding."""
        return self.weights @ self.atoms


@dataclass(frozen=True, eq=False)
class FrankWolfeState:
    """The current point as a convex combination of atoms, and the best point so far.

    Attributes
    ----------
    point : Point
        The current point, evaluated.
    weights : ndarray of shape (K,)
        The weights of `atoms` at the current point.
    best : Mixture
        Atoms and weights of the best point.
    count : int
        Number of iterations so far.
    """

    point: Point
    known: Atoms
    weights: Array
    best: Mixture
    count: int = 0

    @property
    def atoms(self) -> Array:
        """The atoms of the current point, shape (K, dim), in the order of their discovery."""
        return self.known.rows[: self.weights.size]

    def with_atom(self, atom: Array) -> tuple[FrankWolfeState, int]:
        """Return the state with an atom, with weight zero if it is new, and the row of the atom."""
        row = self.known.index(atom)
        missing = len(self.known) - self.weights.size
        return replace(self, weights=np.append(self.weights, np.zeros(missing))) if missing else self, row

    def at(self, point: Point, weights: Array) -> FrankWolfeState:
        """Return the state at another point with these weights."""
        best = self.best
        if point.objective <= best.objective:
            best = Mixture(self.atoms, weights, point.objective)
        return replace(self, point=point, weights=weights, best=best)

    def pruned(self) -> FrankWolfeState:
        """Return the state without the atoms of weight zero."""
        kept = self.weights > _NEGLIGIBLE
        if kept.all():
            return self
        known, weights = self.known.restricted(kept), self.weights[kept] / self.weights[kept].sum()
        best = self.best
        if best.weights is self.weights:
            best = Mixture(known.rows, weights, best.objective)
        return replace(self, known=known, weights=weights, best=best)


@dataclass(frozen=True)
class FrankWolfe(Method):
    """Frank-Wolfe, or conditional gradients: steps towards minimisers of the linearised risk.

    ``v_t = argmin {<f'(x_t), v> : v in X}``, ``x_{t+1} = x_t + gamma_t (v_t - x_t)``. There is no projection
    and no master: the set implements ``minimise_linear``, which is called once per iteration. Because v_t
    minimises the cut at x_t over X, the certified gap is the Frank-Wolfe gap ``<f'(x_t), x_t - v_t>`` [1]_.
    After t open-loop steps the objective is within 2 C / (t + 2) of the optimum, with C the curvature of f
    over X.

    f must be convex and differentiable, because its subgradients are used as gradients. Otherwise the bounds
    are valid, but the method may stop at a point that is not optimal.

    Parameters
    ----------
    step_size : {"short", "exact", "open_loop"}, default "short"
        The step gamma_t:

        * "short": the minimiser of ``f(x) + t <f'(x), d> + c t^2 / 2``, a bound of ``f(x + t d)`` for t in
          [0, 1], where d is the whole direction and c the risk's ``curvature_bound(x, d)``.
          `LinearRisk` implements it for smooth losses, by a pass over the data.
        * "exact": a line search. It needs no pass over the data if the risk has images, such as `LinearRisk`;
          otherwise it calls the oracle a few times, until the slope is a tenth of the first one.
        * "open_loop": ``2 / (t + 2)``. The objective may increase in a step. Not for "away" and
          "pairwise", which could exchange the same atoms again and again.
    variant : {"vanilla", "away", "pairwise", "fully_corrective"}, default "vanilla"
        * "away": a step may also lead away from the atom with the largest ``<f'(x_t), a>``, if this slope is
          steeper [2]_.
        * "pairwise": weight is transferred from this atom to v_t [3]_. Over polytopes, "away" and "pairwise"
          converge linearly if f is strongly convex, whereas "vanilla" does not.
        * "fully_corrective": after a step, at most a hundred pairwise steps over the atoms, until the gap
          over their hull is a tenth of the gap over X. They are exact if the step is open-loop. Use it if the
          set's linear minimisation is expensive.
    correction : object, optional
        An object with a method ``correct(atoms, weights, run)``, which returns weights for the atoms found so
        far, or None; see `cutplane.methods.frank_wolfe.Correction`. It is called after every step, and its
        point is used if the objective is lower there. Without it, atoms whose weight becomes zero are
        dropped.

    Raises
    ------
    MissingCapabilityError
        If the problem has a regularizer or a separation oracle, the set has no ``minimise_linear``, or the
        risk has no ``curvature_bound`` and the steps are short.

    Notes
    -----
    The first atom is the starting point. The attribute ``method_state`` of the object that ``iterate``
    returns has the atoms and the weights of the current point; its ``best`` has the ones of the best point.

    ``max_cuts=4`` saves memory, because only the last cut gives a bound, but a warm start then has fewer
    cuts. If ``minimise_linear`` misses the minimum, the bound is wrong by the difference. It must not return
    a point that is worse than a point that it returned before.

    References
    ----------
    .. [1] M. Jaggi, "Revisiting Frank-Wolfe: projection-free sparse convex optimization", ICML 2013,
       http://proceedings.mlr.press/v28/jaggi13.html.
    .. [2] J. Guélat, P. Marcotte, "Some comments on Wolfe's 'away step'", Math. Program. 35, 1986,
       doi:10.1007/BF01589445.
    .. [3] S. Lacoste-Julien, M. Jaggi, "On the global linear convergence of Frank-Wolfe optimization
       variants", NIPS 2015, doi:10.48550/arXiv.1511.05932.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> from cutplane.methods import FrankWolfe
    >>> X, y = np.eye(3), np.array([1.0, 0.5, -2.0])
    >>> risk = cut.LinearRisk(X, y, cut.losses.Squared(), normalize=False)
    >>> problem = cut.Problem(risk, feasible_set=cut.Simplex())
    >>> loop = problem.iterate(FrankWolfe("exact", "pairwise"), tol=1e-9)
    >>> states = list(loop)
    >>> print(loop.result().status, loop.result().x.round(6))
    OPTIMAL [0.75 0.25 0.  ]
    >>> print(loop.method_state.best.weights.round(6))
    [0.75 0.25]
    """

    step_size: StepSize = "short"
    variant: Variant = "vanilla"
    correction: Correction | None = None

    kind = "first order"
    stabilizations = ()

    def __post_init__(self) -> None:
        as_choice("FrankWolfe.step_size", self.step_size, get_args(StepSize))
        as_choice("FrankWolfe.variant", self.variant, get_args(Variant))
        if self.step_size == "open_loop" and self.variant in ("away", "pairwise"):
            raise InvalidInputError(
                f'FrankWolfe with variant="{self.variant}" needs the step_size "short" or "exact": open-loop '
                "steps may exchange the same atoms again and again."
            )
        if self.correction is not None and not callable(getattr(self.correction, "correct", None)):
            raise InvalidInputError(
                "FrankWolfe.correction must have a method correct(atoms, weights, run), "
                f"got {self.correction!r}."
            )

    def check(self, problem: Declaration) -> None:
        require_linear_minimisation(problem, self.name)
        if self.step_size == "short":
            remedy = 'Use FrankWolfe("exact") or FrankWolfe("open_loop").'
            require(problem.risk, Capability.CURVATURE, 'FrankWolfe("short")', remedy)

    def estimate(self, problem: Declaration) -> Refusal | Estimate:
        """Return the estimate of a thousand steps, because the gap is proportional to 1 / steps.

        If the risk has kinks, the gap may not decrease. Then the method is refused, unless no other method
        suits the set.
        """
        others = Capability.PROJECTION, Capability.LINEAR_FORM, Capability.CVXPY
        if not sizes(problem).smooth and any(offers(problem.simple_set, other) for other in others):
            return Refusal("the gap of vertices of the set may not fall where the risk has kinks")
        return Estimate(1e-9 * _STEPS * ITERATION, _STEPS, rounds=_STEPS)

    def start(self, run: Run) -> FrankWolfeState:
        first = run.anchor
        known, weights = Atoms(first.x), np.ones(1)
        return FrankWolfeState(first, known, weights, Mixture(known.rows, weights, first.objective))

    def step(self, run: Run, state: FrankWolfeState) -> Step:
        gradient, vertex, _ = run.minimise_cut(state.point)
        if run.closed:
            return Step("bound", state)
        gap = float(gradient @ (state.point.x - vertex))
        state, newest = state.with_atom(vertex)
        products = state.atoms @ gradient if self.variant in ("away", "pairwise") else None
        direction = _direction(self.variant, state, newest, products)
        state, kind = _walk(run, state, direction, gradient, self.step_size), direction.kind
        if self.variant == "fully_corrective":
            state, kind = self._minimise_over_hull(run, state, _INNER_SHARE * gap)
        state = replace(state, count=state.count + 1)
        if self.step_size == "open_loop":  # the next step is shorter and may succeed
            run.proceed()
        if self.correction is None:
            return Step(kind, state.pruned())
        corrected = self._corrected(run, state, self.correction)
        return Step(kind, state) if corrected is None else Step("corrected", corrected)

    def _minimise_over_hull(
        self, run: Run, state: FrankWolfeState, gap: float
    ) -> tuple[FrankWolfeState, str]:
        """Take pairwise steps until the gap over the hull of the atoms is small, or a step fails."""
        rule = "exact" if self.step_size == "open_loop" else self.step_size
        for count in range(_INNER_STEPS):
            slopes = run.slopes(state.point)
            before = state = replace(state, point=replace(state.point, slopes=slopes))
            gradient = slopes.sum(axis=0)
            products = state.atoms @ gradient
            least = int(np.argmin(products))
            if state.weights @ products - products[least] > gap:
                state = _walk(run, state, _direction("pairwise", state, least, products), gradient, rule)
            if state is before:
                return state, f"corrective {count}"
        return state, f"corrective {_INNER_STEPS}"

    def _corrected(self, run: Run, state: FrankWolfeState, correction: Correction) -> FrankWolfeState | None:
        """Return the state at the corrected weights; None if the objective is not lower there."""
        answer = run.timed(correction.correct, state.atoms, state.weights.copy(), run, master=True)
        if answer is None:
            return None
        further, weights = answer if isinstance(answer, tuple) else ((), answer)
        for atom in further:
            state, _ = state.with_atom(atom)
        weights = np.asarray(weights, dtype=np.float64)
        if weights.shape != state.weights.shape:
            raise OracleError(
                f"{correction!r} must return weights of shape {state.weights.shape}, got {weights.shape}."
            )
        if not (weights.min() >= -_ROUNDING and abs(weights.sum() - 1.0) <= _ROUNDING):
            raise OracleError(
                f"The weights of {correction!r} must be nonnegative and of sum 1; "
                f"their least is {weights.min():g}, their sum {weights.sum():g}."
            )
        weights = np.maximum(weights, 0.0)
        weights /= weights.sum()
        point = run.visit(weights @ state.atoms)
        return state.at(point, weights) if point.objective < state.point.objective else None


class _Direction(NamedTuple):
    """A direction, given by its far end."""

    kind: str
    weights: Array
    x: Array


def _direction(variant: str, state: FrankWolfeState, newest: int, products: Array | None) -> _Direction:
    """Return the direction of a variant; "away" and "pairwise" need the `products` <f'(x), a> of atoms a."""
    atoms, weights = state.atoms, state.weights
    if products is not None:
        worst = int(np.argmax(np.where(weights > 0.0, products, -np.inf)))
        others = weights.copy()
        others[worst] = 0.0
        if variant == "pairwise" and worst != newest:
            others[newest] += weights[worst]
            return _Direction(variant, others, others @ atoms)
        here = float(weights @ products)
        if variant == "away" and others.any() and products[worst] - here > here - products[newest]:
            others /= others.sum()
            return _Direction(variant, others, others @ atoms)
    alone = np.zeros(len(atoms))
    alone[newest] = 1.0
    return _Direction("towards", alone, atoms[newest].copy())


def _walk(
    run: Run, state: FrankWolfeState, direction: _Direction, gradient: Array, rule: str
) -> FrankWolfeState:
    """Return the state after a step; the same object if rounding errors allow no step."""
    start, end = state.point, direction.x
    change = end - start.x
    fall = -float(gradient @ change)
    if rule == "exact":
        t, point = run.search_segment(start, run.visit(end), _FLAT)
    else:
        t, point = 0.0, start
        if rule == "open_loop":
            t = 2.0 / (state.count + 2.0)
        elif fall > 0.0:
            curvature = run.evaluator.curvature(start.x, change)
            t = 1.0 if fall >= curvature else fall / curvature
        for _ in range(_HALVINGS if t > 0.0 else 0):
            point = run.visit(end if t == 1.0 else start.x + t * change)
            if math.isfinite(point.objective):
                break
            t *= 0.5
    if t == 0.0 or not math.isfinite(point.objective):
        return state
    return state.at(point, (1.0 - t) * state.weights + t * direction.weights)


@dataclass(frozen=True)
class ReducedGradient(Method):
    """Reduced gradients over the simplex: SimpleMKL's method [1]_, for any differentiable risk.

    The largest coordinate balances the changes of the others, so that the reduced gradient is ``f'_j -
    f'_largest``. The direction is its negative, with 0 in coordinates that would become negative. Along the
    direction, each coordinate that becomes 0 is fixed at a corner of the path. Without a new gradient, the
    step passes one corner, two more, four more, and so on, as long as the objective decreases. Then bisection
    finds the best corner, and the segment from there to the next corner is searched. The gap is certified by
    the cut at the iterate as ``max_j <f'(x), x - radius e_j>``, which is the duality gap of SimpleMKL. After
    every few iterations, it is also certified by the minimum of all cuts so far, a linear programme.

    f must be differentiable, as for `FrankWolfe`.

    Raises
    ------
    MissingCapabilityError
        If the feasible set is not a `Simplex`, or the problem has a regularizer.

    Notes
    -----
    The line search costs no pass over the data if the risk has images, such as `LinearRisk`; otherwise it
    calls the oracle a few times, until the slope is half of the first one.

    References
    ----------
    .. [1] A. Rakotomamonjy, F. R. Bach, S. Canu, Y. Grandvalet, "SimpleMKL", J. Mach. Learn. Res. 9, 2008,
       https://jmlr.org/papers/v9/rakotomamonjy08a.html.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> from cutplane.methods import ReducedGradient
    >>> X, y = np.eye(3), np.array([1.0, 0.5, -2.0])
    >>> risk = cut.LinearRisk(X, y, cut.losses.Squared(), normalize=False)
    >>> result = cut.Problem(risk, feasible_set=cut.Simplex()).solve(ReducedGradient(), tol=1e-9)
    >>> print(result.status, result.x.round(6))
    OPTIMAL [0.75 0.25 0.  ]
    """

    stabilizations = (None,)

    def check(self, problem: Declaration) -> None:
        require_linear_minimisation(problem, self.name)
        form = ask(problem.simple_set, Capability.LINEAR_FORM, problem.dim)
        if form is not None and form.n_columns == problem.dim and form.rows.shape[0] == 1:
            signs = (form.lower == 0.0) & np.isposinf(form.upper) & (form.rows.toarray()[0] == 1.0)
            if signs.all() and form.row_lower[0] == form.row_upper[0]:
                return
        raise MissingCapabilityError(
            f"{self.name} moves along the edges of a Simplex, but the feasible set is "
            f"{problem.simple_set!r}. Use FrankWolfe() or LevelBundle()."
        )

    def start(self, run: Run) -> tuple[Point, int]:
        return run.anchor, 0

    def step(self, run: Run, state: tuple[Point, int]) -> Step:
        accuracy = 0.0 if run.exact else _ACCURACY * min(run.upper - run.lower, abs(run.upper))
        point, count = state
        if run.exact:
            point = run.visit(point.x, accuracy)
        gradient, _, _ = run.minimise_cut(point)
        due = count % (1 + count // _SELDOM) == 0
        if not run.closed and (due or not run.evaluator.imaged):
            run.reduced()
        if run.closed:
            return Step("bound", (point, count))
        path = FacePath.against(gradient, point.x)
        low, high, stride, far = 0, len(path.ends) + 1, 1, None
        while high - low > 1:
            k = min(low + stride, high - 1) if far is None else (low + high) // 2
            probe = run.visit(path.end(k), accuracy)
            if probe.objective < point.objective:
                low, point, stride = k, probe, 2 * stride
            else:
                high, far = k, probe
        found = point if far is None else run.search_segment(point, far, _FLAT_ON_FACE, accuracy)[1]
        stuck = run.exact and low == 0 and not found.objective < point.objective
        return Step(f"faces {low}", (found, count + 1), _STUCK if stuck else None)


class FacePath(NamedTuple):
    """The piecewise linear path x(s): coordinates stop at 0, and one coordinate balances the others."""

    x: Array  # the start
    change: Array  # the speed of each coordinate as long as it is positive; 0 for the base
    base: int  # the coordinate that balances the others
    ends: Array  # the s, ascending, at which a coordinate becomes 0; the last one ends the path

    @classmethod
    def against(cls, gradient: Array, x: Array) -> FacePath:
        """Return the path along the negative reduced gradient; the largest coordinate is the base."""
        base = int(np.argmax(x))
        change = gradient[base] - gradient
        noise = _CANCELLED * (np.abs(gradient) + abs(gradient[base]))
        change[(np.abs(change) <= noise) | ((x <= 0.0) & (change < 0.0))] = 0.0
        falling = np.flatnonzero(change < 0.0)
        times = x[falling] / -change[falling]
        order = np.argsort(times)
        falling, times = falling[order], np.append(times[order], np.inf)
        left = x[base] + np.append(0.0, np.cumsum(x[falling]))
        speeds = change.sum() - np.append(0.0, np.cumsum(change[falling]))
        used_up = np.divide(left, speeds, out=np.full_like(left, np.inf), where=speeds > 0.0)
        last = int(np.argmax(used_up <= times))
        ends = np.unique(np.append(times[:last], used_up[last]))
        return cls(x, change, base, ends[ends < np.inf])

    def end(self, k: int) -> Array:
        """Return the end of the k-th piece, k = 1, ..., K."""
        s, falling = self.ends[k - 1], self.change < 0.0
        x = self.x + s * self.change
        x[falling] = np.where(self.x[falling] / -self.change[falling] <= s, 0.0, x[falling])
        x[self.base] = 0.0
        rest = self.x.sum() - x.sum()
        x[self.base] = rest if rest > _CANCELLED * self.x.sum() else 0.0
        return x

"""The Frank-Wolfe method and its variants."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from cutplane.engine.evaluator import Point
from cutplane.engine.tangent import minimise_cut
from cutplane.exceptions import InvalidInputError, OracleError
from cutplane.methods.atoms import Atoms, Combination
from cutplane.methods.base import Method, Step
from cutplane.methods.directions import Direction, pairwise, towards, towards_or_away, walk
from cutplane.methods.requirements import require_linear_minimisation
from cutplane.pieces.capabilities import Capability, require
from cutplane.pieces.validation import Array

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.run import Run

_STEP_SIZES = ("short", "exact", "open_loop")
_VARIANTS = ("vanilla", "away", "pairwise", "fully_corrective")
_INNER_STEPS = 100
_INNER_SHARE = 0.1
_NEGLIGIBLE = 1e-15
_ROUNDING = 1e-6


class Correction(Protocol):
    """Something that knows better weights for the atoms than a Frank-Wolfe step."""

    def correct(self, atoms: Array, weights: Array, run: Run) -> Array | tuple[Array, Array] | None:
        """Return other weights, shape (K,), nonnegative and of sum 1, or None.

        Or return a pair: further points of the feasible set, shape (J, dim), that are not among the atoms,
        and the weights of all, shape (K + J,).

        Parameters
        ----------
        atoms : ndarray of shape (K, dim)
            All those known, in the order of their discovery: one call's are the first rows of the next one's.
        weights : ndarray of shape (K,)
            Those after the step.
        run : Run
            The run, to look at.
        """
        ...


@dataclass(frozen=True, eq=False)
class FrankWolfeState:
    """The current point as a convex combination of atoms, and the best one so far.

    Attributes
    ----------
    point : Point
        The current point, evaluated.
    weights : ndarray of shape (K,)
        Those of `atoms` that give it.
    count : int
        Number of iterations so far.
    best : Combination
        Atoms and weights of the best point.
    """

    point: Point
    known: Atoms
    weights: Array
    best: Combination
    count: int = 0

    @property
    def atoms(self) -> Array:
        """The atoms of the current point, shape (K, dim), in the order of their discovery."""
        return self.known.rows[: self.weights.size]

    def with_atom(self, atom: Array) -> tuple[FrankWolfeState, int]:
        """Return the state with an atom, of weight zero if it had none, and the row of the atom."""
        row = self.known.index(atom)
        missing = len(self.known) - self.weights.size
        return replace(self, weights=np.append(self.weights, np.zeros(missing))) if missing else self, row

    def at(self, point: Point, weights: Array) -> FrankWolfeState:
        """Return the state at another point, which has these weights."""
        moved = replace(self, point=point, weights=weights)
        if point.objective > self.best.objective:
            return moved
        return replace(moved, best=Combination(moved.atoms, weights, point.objective))

    def pruned(self) -> FrankWolfeState:
        """Return the state without the atoms that have no weight."""
        kept = self.weights > _NEGLIGIBLE
        if kept.all():
            return self
        weights = self.weights[kept] / self.weights[kept].sum()
        pruned = replace(self, known=self.known.restricted(kept), weights=weights)
        if self.best.weights is not self.weights:
            return pruned
        return replace(pruned, best=Combination(pruned.atoms, weights, self.best.objective))


@dataclass(frozen=True)
class FrankWolfe(Method):
    """Frank-Wolfe, or conditional gradients: steps towards minimisers of the linearised risk.

    ``v_t = argmin {<f'(x_t), v> : v in X}``, ``x_{t+1} = x_t + gamma_t (v_t - x_t)``. No projection, no
    master: the set needs no more than ``minimise_linear``, which is called once per iteration. The cut at x_t
    has its minimum over X at v_t, so the certified gap of the engine is the Frank-Wolfe gap
    ``<f'(x_t), x_t - v_t>`` [1]_. After t open-loop steps the objective is within 2 C / (t + 2) of the
    optimum, with C the curvature of f over X.

    f must be convex and differentiable: the subgradients that the risk returns are taken for its gradients.
    If they are not, the bounds hold all the same, but the method may come to a stop away from the optimum.

    Parameters
    ----------
    step_size : {"short", "exact", "open_loop"}, default "short"
        The step gamma_t:

        * "short": the minimiser of ``f(x) + t <f'(x), d> + c t^2 / 2``, a bound of ``f(x + t d)`` for t in
          [0, 1], where d is the whole direction and c what the risk's ``curvature_bound(x, d)`` returns.
          `LinearRisk` has it for smooth losses, and takes a pass over the data for it.
        * "exact": a line search, without a pass over the data if the risk keeps images, as `LinearRisk` does;
          otherwise with a few calls of the oracle, until the slope is a tenth of the first one.
        * "open_loop": ``2 / (t + 2)``. The objective may rise from one step to the next. Not for "away" and
          "pairwise", which could exchange the same atoms again and again.
    variant : {"vanilla", "away", "pairwise", "fully_corrective"}, default "vanilla"
        * "away": away from the atom with the largest ``<f'(x_t), a>``, if that slope is the steeper one [2]_.
        * "pairwise": the weight of that atom is moved to v_t [3]_. Over polytopes both converge linearly if f
          is strongly convex, where "vanilla" does not.
        * "fully_corrective": after a step, pairwise steps over the known atoms, a hundred at most, until the
          gap over their hull is a tenth of that over X. They are exact if the step is open-loop. For a set
          that is expensive to ask.
    correction : object, optional
        Has a method ``correct(atoms, weights, run)`` that returns weights for the atoms known so far, or
        None; see `cutplane.methods.frank_wolfe.Correction`. It is called after every step, and its point is
        taken if the objective is lower there. Without it, atoms whose weight falls to zero are forgotten.

    Raises
    ------
    MissingCapabilityError
        If the problem has a regularizer or a separation oracle, the set has no ``minimise_linear``, or the
        risk has no ``curvature_bound`` and the steps are short.

    Notes
    -----
    The first atom is where the run starts. ``method_state`` of the loop that ``iterate`` returns has the
    atoms and the weights of the current point and, as ``best``, of the best one.

    Only the last cut gives a bound: ``max_cuts=4`` saves memory, at the cost of fewer cuts for a warm start.

    A ``minimise_linear`` that does not find the minimum makes the bound wrong by as much. It must not return
    a point that is worse than one that it returned before.

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

    step_size: Literal["short", "exact", "open_loop"] = "short"
    variant: Literal["vanilla", "away", "pairwise", "fully_corrective"] = "vanilla"
    correction: Correction | None = None

    stabilizations = ()

    def __post_init__(self) -> None:
        for name, choices in (("step_size", _STEP_SIZES), ("variant", _VARIANTS)):
            if getattr(self, name) not in choices:
                raise InvalidInputError(
                    f"FrankWolfe.{name} must be one of {', '.join(map(repr, choices))}, "
                    f"got {getattr(self, name)!r}."
                )
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
        """Raise unless a linear function can be minimised over X, f is alone, and its curvature is known."""
        require_linear_minimisation(problem, self.name)
        if self.step_size == "short":
            remedy = 'Use FrankWolfe("exact") or FrankWolfe("open_loop").'
            require(problem.risk, Capability.CURVATURE, 'FrankWolfe("short")', remedy)

    def start(self, run: Run) -> FrankWolfeState:
        """Start from the first evaluated point, the first atom."""
        first = run.anchor
        known, weights = Atoms(first.x), np.ones(1)
        return FrankWolfeState(first, known, weights, Combination(known.rows, weights, first.objective))

    def step(self, run: Run, state: FrankWolfeState) -> Step:
        """Ask the set for the minimiser of the cut, which gives the bound; move; correct."""
        gradient, vertex = minimise_cut(run, state.point)
        if run.closed:
            return Step("bound", state)
        gap = float(gradient @ (state.point.x - vertex))
        state, newest = state.with_atom(vertex)
        direction = self._direction(state, newest, gradient)
        state, kind = self._move(run, state, direction, gradient, self.step_size), direction.kind
        if self.variant == "fully_corrective":
            state, kind = self._minimise_over_hull(run, state, _INNER_SHARE * gap)
        state = replace(state, count=state.count + 1)
        if self.step_size == "open_loop":  # the next step is shorter
            run.proceed()
        if self.correction is None:
            return Step(kind, state.pruned())
        corrected = self._corrected(run, state, self.correction)
        return Step(kind, state) if corrected is None else Step("corrected", corrected)

    def _direction(self, state: FrankWolfeState, newest: int, gradient: Array) -> Direction:
        atoms, weights = state.atoms, state.weights
        if self.variant == "away":
            return towards_or_away(atoms, weights, newest, atoms @ gradient)
        if self.variant == "pairwise":
            return pairwise(atoms, weights, newest, atoms @ gradient)
        return towards(atoms, newest)

    def _move(
        self, run: Run, state: FrankWolfeState, direction: Direction, gradient: Array, rule: str
    ) -> FrankWolfeState:
        t, point = walk(rule, run, state.point, direction, gradient, state.count)
        if t == 0.0:
            return state
        weights = direction.weights if t == 1.0 else (1.0 - t) * state.weights + t * direction.weights
        return state.at(point, weights)

    def _minimise_over_hull(
        self, run: Run, state: FrankWolfeState, gap: float
    ) -> tuple[FrankWolfeState, str]:
        rule = "exact" if self.step_size == "open_loop" else self.step_size
        for count in range(_INNER_STEPS):
            slopes = run.slopes(state.point)
            state = replace(state, point=replace(state.point, slopes=slopes))
            gradient = slopes.sum(axis=0)
            products = state.atoms @ gradient
            least = int(np.argmin(products))
            if state.weights @ products - products[least] <= gap:
                return state, f"corrective {count}"
            direction = pairwise(state.atoms, state.weights, least, products)
            point = state.point
            state = self._move(run, state, direction, gradient, rule)
            if state.point is point:
                return state, f"corrective {count}"
        return state, f"corrective {_INNER_STEPS}"

    def _corrected(self, run: Run, state: FrankWolfeState, correction: Correction) -> FrankWolfeState | None:
        known = state.atoms, state.weights.copy()
        answer = run.timed(correction.correct, *known, run, master=True)
        if answer is None:
            return None
        further, weights = answer if isinstance(answer, tuple) else (state.atoms[:0], answer)
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

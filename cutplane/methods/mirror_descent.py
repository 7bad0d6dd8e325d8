"""Mirror descent, with one sampled coordinate of each gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from cutplane.exceptions import OracleError
from cutplane.methods.base import Method, Step, require_linear_minimisation
from cutplane.pieces.capabilities import Capability, ability, require
from cutplane.pieces.validation import Array, as_choice, as_count, as_positive

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.run import Run

_PAUSE = 0.2
"""Steps between two evaluations, as a share of the steps so far, because an evaluation costs a gradient and
the average changes slowly."""
_TINY = 1e-300
"""Replaces coordinates of zero, because their logarithm would be infinite."""


class Euclidean:
    """Psi(x) = ||x||_2^2 / 2, 1-strongly convex in the l2 norm: steps are projected gradient steps."""

    capability = Capability.PROJECTION
    remedy = 'Use a set such as Simplex, Box or L2Ball, or MirrorDescent("entropy") on a Simplex.'

    def step(self, feasible_set: Any, x: Array, move: Array) -> Array:
        """Return the minimiser over X of <move, z> + D(z, x)."""
        return feasible_set.project(x - move)

    def spread(self, x: Array, start: Array) -> float:
        """Return D(x, start) divided by the modulus of strong convexity."""
        return 0.5 * float(((x - start) ** 2).sum())

    def second_moment(self, gradient: Array) -> float:
        """Return the square of the dual norm."""
        return float(gradient @ gradient)


class Entropy:
    """Psi(x) = sum_j x_j ln x_j, 1 / ||x||_1-strongly convex in the l1 norm: steps are multiplicative."""

    capability = Capability.ENTROPIC_MINIMISATION
    remedy = 'Use a set such as Simplex or CappedSimplex, or MirrorDescent("l2").'

    def step(self, feasible_set: Any, x: Array, move: Array) -> Array:
        """Return the minimiser over X of <move, z> + D(z, x)."""
        return feasible_set.minimise_entropy(move, np.log(np.maximum(x, _TINY)))

    def spread(self, x: Array, start: Array) -> float:
        """Return D(x, start) divided by the modulus of strong convexity."""
        used = x > 0.0
        ratio = np.log(x[used]) - np.log(np.maximum(start[used], _TINY))
        return float(x.sum()) * float(x[used] @ ratio - x.sum() + start.sum())

    def second_moment(self, gradient: Array) -> float:
        """Return the square of the dual norm."""
        return float(np.abs(gradient).max(initial=0.0)) ** 2


Potential = Literal["l2", "entropy"]
Sampling = Literal["importance", "uniform", "full"]
_POTENTIALS = {"l2": Euclidean(), "entropy": Entropy()}


@dataclass(frozen=True, eq=False)
class MirrorDescentState:
    """The current point, and the average of all earlier points."""

    x: Array
    average: Array
    start: Array
    spread: float  # range of the potential, from the start to the farthest vertex so far
    rng: np.random.Generator
    mass: float = 0.0  # sum of the weights in the average
    count: int = 0
    next_evaluation: int = 1


@dataclass(frozen=True)
class MirrorDescent(Method):
    """Stochastic mirror descent on sampled coordinates of the gradient, with the average of the points.

    ``x_{k+1} = argmin over x in X of eta_k <g_k, x> + D(x, x_k)``, with the Bregman distance D of the
    potential. g_k is an unbiased estimate of the gradient with one nonzero coordinate i, drawn with
    probability s_i: ``g_k = f'(x_k)_i / s_i e_i`` [1]_. For T steps of ``eta = sqrt(2 alpha delta / (B T))``,
    the expected objective of the mean of the points exceeds the optimum by at most ``sqrt(2 B delta / (alpha
    T))``. Here alpha is the modulus of strong convexity of the potential, delta its range from the start, and
    B the second moment of the estimates, all in one norm.

    The cut at the average bounds the optimum, with a gap that tends to 0 if f is differentiable. The method
    is useful if the gradient is expensive and can be sampled; otherwise a bundle method is faster.

    Parameters
    ----------
    potential : {"l2", "entropy"}, default "l2"
        ``||x||^2 / 2``, for sets with a projection, or ``sum_j x_j ln x_j``, for the simplex.
    sampling : {"importance", "uniform", "full"}, default "importance"
        "importance": s proportional to the sizes of the entries of the gradient, which makes the second
        moment least. "uniform": all s_i equal. "full": the whole gradient, the deterministic method.
    step_size : float, optional
        eta, positive, for all steps; the average is then the mean of the points. By default eta_k is the
        formula above with T = k, B at x_k, and delta at the farthest minimiser of a cut, and the average has
        the weights k eta_k.
    seed : int, default 0
        Seed of the random numbers.
    evaluate_every : int, optional
        Number of steps between evaluations of the average. By default a fifth of the steps so far.

    Raises
    ------
    MissingCapabilityError
        If the problem has a regularizer or a separation oracle, or the set has no ``minimise_linear``, or no
        ``project`` ("l2") or ``minimise_entropy`` ("entropy").

    Notes
    -----
    A risk whose gradient can be sampled without computing it implements ``sample_gradient(x, rng) -> (index,
    estimate)``. The estimate is ``f'(x)_i / s_i``, with s about proportional to the absolute entries; it is
    used with "importance". Without this method, the entry is drawn from the whole subgradient.

    References
    ----------
    .. [1] A. Afkanpour, A. György, C. Szepesvári, M. Bowling, "A randomized mirror descent algorithm for
       large scale multiple kernel learning", ICML 2013, http://proceedings.mlr.press/v28/afkanpour13.html.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> from cutplane.methods import MirrorDescent
    >>> risk = cut.LinearRisk(np.eye(3), np.array([1.0, 0.5, -2.0]), cut.losses.Squared(), normalize=False)
    >>> problem = cut.Problem(risk, feasible_set=cut.Simplex())
    >>> result = problem.solve(MirrorDescent("entropy"), tol=0.01)
    >>> print(result.status, abs(result.objective - 2.0625) < 0.02)
    OPTIMAL True
    """

    potential: Potential = "l2"
    sampling: Sampling = "importance"
    step_size: float | None = None
    seed: int = 0
    evaluate_every: int | None = None

    stabilizations = ()

    def __post_init__(self) -> None:
        as_choice("MirrorDescent.potential", self.potential, get_args(Potential))
        as_choice("MirrorDescent.sampling", self.sampling, get_args(Sampling))
        if self.step_size is not None:
            as_positive("MirrorDescent.step_size", self.step_size)
        as_count("MirrorDescent.seed", self.seed, low=0)
        if self.evaluate_every is not None:
            as_count("MirrorDescent.evaluate_every", self.evaluate_every)

    def check(self, problem: Declaration) -> None:
        require_linear_minimisation(problem, self.name)
        potential = _POTENTIALS[self.potential]
        needed_by = f'MirrorDescent("{self.potential}")'
        require(problem.simple_set, potential.capability, needed_by, potential.remedy)

    def start(self, run: Run) -> MirrorDescentState:
        x = run.anchor.x
        _, vertex, _ = run.minimise_cut(run.anchor)
        spread = _POTENTIALS[self.potential].spread(vertex, x)
        return MirrorDescentState(x, x, x, spread, np.random.default_rng(self.seed))

    def step(self, run: Run, state: MirrorDescentState) -> Step:
        run.proceed()  # sampling may not change the bounds for many steps
        potential = _POTENTIALS[self.potential]
        estimate, moment = self._estimate(run, state)
        kind, count = "average", state.count + 1
        if moment == 0.0 or not (self.step_size or state.spread):
            kind, state = "stationary", replace(state, average=state.x, count=count)
        else:
            eta = self.step_size or math.sqrt(2.0 * state.spread / (moment * count))
            weight = eta * (1.0 if self.step_size else count)
            mass = state.mass + weight
            state = replace(
                state,
                x=potential.step(run.problem.simple_set, state.x, eta * estimate),
                average=state.average + weight / mass * (state.x - state.average),
                mass=mass,
                count=count,
            )
            if count < state.next_evaluation:
                return Step("step", state)
        _, vertex, _ = run.minimise_cut(run.evaluate(state.average))
        spread = max(state.spread, potential.spread(vertex, state.start))
        pause = self.evaluate_every or math.ceil(_PAUSE * count)
        return Step(kind, replace(state, spread=spread, next_evaluation=count + pause))

    def _estimate(self, run: Run, state: MirrorDescentState) -> tuple[Array, float]:
        """Return the estimate, and the mean of its squared dual norm."""
        risk, x = run.problem.risk, state.x
        sample = ability(risk, Capability.GRADIENT_SAMPLING) if self.sampling == "importance" else None
        if sample is not None:
            index, value = run.timed(sample, x, state.rng)
            if not (0 <= index < x.size and math.isfinite(value)):
                raise OracleError(
                    f"sample_gradient of {risk!r} must return an index in 0..{x.size - 1} and a finite "
                    f"number, got {index!r} and {value!r}."
                )
            estimate = np.zeros(x.size)
            estimate[index] = value
            return estimate, float(value) ** 2
        gradient = run.slopes(run.evaluate(x)).sum(axis=0)
        if self.sampling == "full":
            return gradient, _POTENTIALS[self.potential].second_moment(gradient)
        if self.sampling == "importance":
            sizes = np.abs(gradient)
            return sampled(gradient, sizes, state.rng), float(sizes.sum()) ** 2
        return sampled(gradient, np.ones(x.size), state.rng), x.size * float(gradient @ gradient)


def sampled(gradient: Array, shares: Array, rng: np.random.Generator) -> Array:
    """Return an unbiased estimate with one nonzero entry, drawn in proportion to the shares.

    The shares are nonnegative, and positive where the gradient is not zero.
    """
    estimate, sums = np.zeros_like(gradient), np.cumsum(shares)
    if sums[-1] > 0.0:
        index = min(int(np.searchsorted(sums, rng.random() * sums[-1], side="right")), gradient.size - 1)
        estimate[index] = gradient[index] * (sums[-1] / shares[index])
    return estimate

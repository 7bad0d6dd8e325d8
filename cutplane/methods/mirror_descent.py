"""Mirror descent, with gradients of which one coordinate is sampled."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from cutplane.engine.tangent import minimise_cut
from cutplane.exceptions import InvalidInputError, OracleError
from cutplane.methods.base import Method, Step
from cutplane.methods.potentials import POTENTIALS, Potential
from cutplane.methods.requirements import require_linear_minimisation
from cutplane.pieces.capabilities import Capability, ability, require
from cutplane.pieces.validation import Array, as_count, as_scalar

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.run import Run

_SAMPLINGS = ("importance", "uniform", "full")
_GROWTH = 1.2


@dataclass(frozen=True, eq=False)
class MirrorDescentState:
    """The current point and the average.

    Attributes
    ----------
    x : ndarray of shape (dim,)
        The current point.
    average : ndarray of shape (dim,)
        Of all points before it; where the run starts, if there are none.
    count : int
        Number of steps so far.
    """

    x: Array
    average: Array
    start: Array
    spread: float
    rng: np.random.Generator
    mass: float = 0.0
    count: int = 0
    next_evaluation: int = 1


@dataclass(frozen=True)
class MirrorDescent(Method):
    """Stochastic mirror descent on sampled coordinates of the gradient, with the average of the points.

    ``x_{k+1} = argmin over x in X of eta_k <g_k, x> + D(x, x_k)``, with the Bregman distance D of the
    potential and an unbiased estimate g_k of the gradient of which one coordinate i, drawn with probability
    s_i, is not zero: ``g_k = f'(x_k)_i / s_i e_i`` [1]_. For T steps of ``eta = sqrt(2 alpha delta / (B T))``
    the expected objective of the mean of the points is within ``sqrt(2 B delta / (alpha T))`` of the optimum:
    alpha is the strong convexity of the potential, delta its range from the start, B the second moment of the
    estimates, all in one norm.

    The average is evaluated now and then; its cut bounds the optimum, with a gap that tends to 0 if f is
    differentiable. Steps of this kind are cheap where the gradient is expensive and can be sampled; a method
    of bundles is faster where it is not.

    Parameters
    ----------
    potential : {"l2", "entropy"}, default "l2"
        ``||x||^2 / 2``, for sets with a projection, or ``sum_j x_j ln x_j``, for the simplex.
    sampling : {"importance", "uniform", "full"}, default "importance"
        "importance": s proportional to the sizes of the entries of the gradient, which makes the second
        moment least. "uniform": all the same. "full": the whole gradient, the deterministic method.
    step : float, optional
        eta, positive, for all steps, with a plain mean as the average. Default: eta_k is that of the theorem
        with k for T, B as it is at x_k, and delta from the farthest vertex that the cuts have led to; the
        average has the weights k eta_k.
    seed : int, default 0
        The same seed gives the same run.
    evaluate_every : int, optional
        Steps between evaluations of the average. Default: a fifth of the steps so far.

    Raises
    ------
    MissingCapabilityError
        If the problem has a regularizer or a separation oracle, or the set has no ``minimise_linear``, or no
        ``project`` ("l2") or ``minimise_entropy`` ("entropy").

    Notes
    -----
    A risk whose gradient can be sampled without being computed offers a method ``sample_gradient(x, rng) ->
    (index, estimate)``, the estimate being ``f'(x)_i / s_i`` with s close to proportional to the sizes; it is
    called with "importance". Without it, the entry is drawn from the whole subgradient.

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
    sampling: Literal["importance", "uniform", "full"] = "importance"
    step_size: float | None = None
    seed: int = 0
    evaluate_every: int | None = None

    stabilizations = ()

    def __post_init__(self) -> None:
        for name, choices in (("potential", tuple(POTENTIALS)), ("sampling", _SAMPLINGS)):
            if getattr(self, name) not in choices:
                raise InvalidInputError(
                    f"MirrorDescent.{name} must be one of {', '.join(map(repr, choices))}, "
                    f"got {getattr(self, name)!r}."
                )
        if self.step_size is not None:
            as_scalar("MirrorDescent.step_size", self.step_size, low=0.0, low_open=True)
        as_count("MirrorDescent.seed", self.seed, low=0)
        if self.evaluate_every is not None:
            as_count("MirrorDescent.evaluate_every", self.evaluate_every)

    def check(self, problem: Declaration) -> None:
        """Raise unless f is alone and the set has the steps and the minimisers of cuts."""
        require_linear_minimisation(problem, self.name)
        potential = POTENTIALS[self.potential]
        needed_by = f'MirrorDescent("{self.potential}")'
        require(problem.simple_set, potential.capability, needed_by, potential.remedy)

    def start(self, run: Run) -> MirrorDescentState:
        """Start from the best evaluated point; its cut leads to a first far vertex."""
        first = run.anchor
        _, vertex = minimise_cut(run, first)
        spread = POTENTIALS[self.potential].spread(vertex, first.x)
        rng = np.random.default_rng(self.seed)
        return MirrorDescentState(first.x, first.x, first.x, spread, rng)

    def step(self, run: Run, state: MirrorDescentState) -> Step:
        """Estimate the gradient, take a step and extend the average; evaluate that if it is time."""
        run.proceed()  # by chance, bounds may stay for long
        potential = POTENTIALS[self.potential]
        estimate, moment = self._estimate(run, state)
        count = state.count + 1
        if moment == 0.0 or not (self.step_size or state.spread):
            return self._evaluate(run, replace(state, average=state.x, count=count), "stationary")
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
        return self._evaluate(run, state, "average")

    def _estimate(self, run: Run, state: MirrorDescentState) -> tuple[Array, float]:
        """Return the estimate, and the mean of the square of its dual norm."""
        risk, x = run.problem.risk, state.x
        sample = ability(risk, Capability.GRADIENT_SAMPLING) if self.sampling == "importance" else None
        if sample is not None:
            index, value = run.timed(sample, x, state.rng)
            if not (0 <= index < x.size and math.isfinite(value)):
                raise OracleError(
                    f"sample_gradient of {risk!r} must return an index in 0..{x.size - 1} and a finite "
                    f"number, got {index!r} and {value!r}."
                )
            return _entry(x.size, index, value), float(value) ** 2
        gradient = run.slopes(run.evaluate(x)).sum(axis=0)
        if self.sampling == "full":
            return gradient, POTENTIALS[self.potential].second_moment(gradient)
        sizes = np.abs(gradient)
        if self.sampling == "importance":
            return sampled(gradient, sizes, state.rng), float(sizes.sum()) ** 2
        return sampled(gradient, np.ones(x.size), state.rng), x.size * float(gradient @ gradient)

    def _evaluate(self, run: Run, state: MirrorDescentState, kind: str) -> Step:
        _, vertex = minimise_cut(run, run.evaluate(state.average))
        spread = POTENTIALS[self.potential].spread(vertex, state.start)
        pause = self.evaluate_every or math.ceil((_GROWTH - 1.0) * state.count)
        later = replace(state, spread=max(spread, state.spread), next_evaluation=state.count + pause)
        return Step(kind, later)


def sampled(gradient: Array, shares: Array, rng: np.random.Generator) -> Array:
    """Return an unbiased estimate with one nonzero entry, drawn in proportion to the shares.

    Parameters
    ----------
    gradient, shares : ndarray of shape (dim,)
        Shares are nonnegative, and positive where the gradient is not zero.
    rng : numpy.random.Generator
    """
    sums = np.cumsum(shares)
    if not sums[-1] > 0.0:
        return np.zeros_like(gradient)
    index = min(int(np.searchsorted(sums, rng.random() * sums[-1], side="right")), gradient.size - 1)
    return _entry(gradient.size, index, gradient[index] * (sums[-1] / shares[index]))


def _entry(size: int, index: Any, value: Any) -> Array:
    entry = np.zeros(size)
    entry[index] = value
    return entry

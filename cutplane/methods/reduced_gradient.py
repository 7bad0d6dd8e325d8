"""The reduced gradient method over the simplex."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cutplane.engine.evaluator import Point
from cutplane.exceptions import MissingCapabilityError
from cutplane.methods.base import Method, Step
from cutplane.methods.requirements import require_linear_minimisation
from cutplane.pieces.capabilities import Capability, ask
from cutplane.pieces.validation import Array
from cutplane.sets.base import FeasibleSet

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.run import Run

_STUCK = "no better point lies against the gradient: rounding, or the risk is not differentiable there"
_ACCURACY = 1e-3
"""Share of the gap, or of the objective, that a risk with on-demand accuracy may be off."""
_SELDOM = 10
"""Iterations after which the bound of all cuts is computed in every second one only, after twice as many in
every third, and so on, because its cost grows with the number of cuts."""
_FLAT = 0.5
"""Share of the first slope at which a search by calls of the oracle ends, because each call gives a gradient,
with which the next direction is better than this one."""
_ROUNDING = 1e-15
"""Rounding errors of a difference, relative to its terms."""


@dataclass(frozen=True)
class ReducedGradient(Method):
    """Reduced gradients over the simplex: SimpleMKL's method [1]_, for any differentiable risk.

    The largest coordinate balances the changes of the others, so that their gradient is
    ``f'_j - f'_largest``; the direction is against it, and 0 in coordinates that it would make negative. As
    long as the objective falls, the step goes on to the point where further coordinates become 0, and stay
    there, without a new gradient: one more, two more, four more, ..., then between the last two numbers by
    bisection. The line from there to the next such point is searched. The gap is certified by the cut at the
    iterate, ``max_j <f'(x), x - radius e_j>``, which is the duality gap of SimpleMKL, and from time to time
    by the least value of all cuts so far, a linear programme.

    f must be convex and differentiable, because its subgradients are taken for gradients. If it is not, the
    bounds hold, but the method may stop away from the optimum.

    Raises
    ------
    MissingCapabilityError
        If the feasible set is not a `Simplex`, or the problem has a regularizer.

    Notes
    -----
    The line search costs no pass over the data if the risk keeps images, as `LinearRisk` does; otherwise a
    few calls of the oracle, until the slope is half of the first one.

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
        """Raise unless the problem is a risk alone over a simplex."""
        require_linear_minimisation(problem, self.name)
        if not _is_simplex(problem.simple_set, problem.dim):
            raise MissingCapabilityError(
                f"{self.name} moves along the edges of a Simplex, but the feasible set is "
                f"{problem.simple_set!r}. Use FrankWolfe() or LevelBundle()."
            )

    def start(self, run: Run) -> tuple[Point, int]:
        """Start from the best evaluated point."""
        return run.anchor, 0

    def step(self, run: Run, state: tuple[Point, int]) -> Step:
        """Take the bound from the cut at the iterate; go from face to face, then search the last segment."""
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
        found = point if far is None else run.search_segment(point, far, _FLAT, accuracy)[1]
        stuck = run.exact and low == 0 and not found.objective < point.objective
        return Step(f"faces {low}", (found, count + 1), _STUCK if stuck else None)


class FacePath(NamedTuple):
    """The broken line x(s) along which falling coordinates stay at 0, and one balances the others."""

    x: Array  # the start
    change: Array  # the speed of each coordinate as long as it is positive; 0 for the base
    base: int  # the coordinate that balances the others
    ends: Array  # the s, ascending, at which another coordinate becomes 0; the last one ends the path

    @classmethod
    def against(cls, gradient: Array, x: Array) -> FacePath:
        """Return the path against the reduced gradient, relative to the largest coordinate of x."""
        base = int(np.argmax(x))
        change = gradient[base] - gradient
        noise = _ROUNDING * (np.abs(gradient) + abs(gradient[base]))
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
        """Return the point at which the k-th piece ends, k = 1, ..., K."""
        s, falling = self.ends[k - 1], self.change < 0.0
        x = self.x + s * self.change
        x[falling] = np.where(self.x[falling] / -self.change[falling] <= s, 0.0, x[falling])
        x[self.base] = 0.0
        rest = self.x.sum() - x.sum()
        x[self.base] = rest if rest > _ROUNDING * self.x.sum() else 0.0
        return x


def _is_simplex(feasible_set: FeasibleSet, dim: int) -> bool:
    """Tell whether the linear form of a set is x >= 0 and a given sum."""
    form = ask(feasible_set, Capability.LINEAR_FORM, dim)
    if form is None or form.n_columns != dim or form.rows.shape[0] != 1:
        return False
    signs = (form.lower == 0.0) & np.isposinf(form.upper) & (form.rows.toarray()[0] == 1.0)
    return bool(signs.all() and form.row_lower[0] == form.row_upper[0])

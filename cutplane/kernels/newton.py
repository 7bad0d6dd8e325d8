"""The finite Newton method for kernel machines, in the primal."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cutplane.engine.line_search import minimise_on_line
from cutplane.kernels.smooth_form import SmoothForm, smooth_form
from cutplane.kernels.systems import solve_system
from cutplane.methods.base import Method, Step
from cutplane.pieces.lines import quadratic_line
from cutplane.pieces.validation import Array, as_count

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.evaluator import Point
    from cutplane.engine.run import Run

_FIRST = 10
"""Steps of conjugate gradients in the first iteration, as published."""
_LOOSE, _TIGHT = 0.1, 1e-12
"""The residual at which conjugate gradients end, relative to the first: before and after the examples that
bend have settled."""
_LEAST = 1e-3
"""A smaller share of damping is left out."""
_SETTLED = 0.01
"""The share of the examples whose second derivative changes in an iteration, at most, once they have."""


@dataclass(eq=False)
class NewtonState:
    """Where the method stands.

    Attributes
    ----------
    form : SmoothForm
    point : Point
    bends : ndarray of shape (m,)
        The second derivatives of the last iteration, by which the examples are seen to settle.
    tolerance : float
        That of conjugate gradients.
    damping : float
        The share of the largest second derivative that each example has at least in the model: 1 after a step
        that failed, since that model lies above the losses.
    """

    form: SmoothForm
    point: Point
    bends: Array
    tolerance: float = _LOOSE
    damping: float = 0.0


@dataclass(frozen=True)
class FiniteNewton(Method):
    """Newton steps in the function's values, each with an exact line search, for losses without kinks.

    With r_i = c_i l'(z_i) and d_i = c_i l''(z_i) at the predictions z of the current function, the next one,
    sum_j a_j k(x_j, .) + b, minimises the quadratic model of the losses there:

        lam a_i = -(r_i + d_i (z'_i - z_i)),   z' = K a + b,   sum a = 0 if there is an intercept.

    Only the examples with d_i > 0 are unknown: those within the margin of a squared hinge, all of a logistic
    loss. Of up to `dense` of them the system is solved by a Cholesky factor, of more by conjugate gradients.
    For losses that are quadratic on pieces the method ends after finitely many steps [1]_, usually 5 to 20,
    whatever lam is.

    Two rules of thumb of the method [2]_ are followed: from a function that is zero the first step is cut
    off after 10 steps of conjugate gradients, which is enough to tell most examples that do not matter; and
    conjugate gradients are loose until the examples that bend have settled, then tight. A solve starts from
    the function at the first point: for another lam, from that of the last (seeding).

    The multipliers -lam a_i / c_i, moved into the domain of the conjugate, give a cut and the lower bound.

    With `Squared` this is kernel ridge regression, or the LS-SVM, solved in one step; with `SquaredHinge` the
    L2-SVM, with `Logistic` kernel logistic regression.

    Parameters
    ----------
    dense : int, default 4000
        The most unknowns for which the system is factorised; its matrix has 8 dense^2 bytes.

    Raises
    ------
    MissingCapabilityError
        Unless the risk is a `KernelRisk` with a loss that has a second derivative and a conjugate, the
        regularizer its `squared_norm`, and there is no feasible set.

    References
    ----------
    .. [1] O. L. Mangasarian, "A finite Newton method for classification", Optim. Methods Softw. 17, 2002,
       doi:10.1080/1055678021000028375.
    .. [2] S. S. Keerthi, D. DeCoste, "A modified finite Newton method for fast solution of large scale linear
       SVMs", JMLR 6, 2005, https://jmlr.org/papers/v6/keerthi05a.html; for kernels: O. Chapelle, "Training a
       support vector machine in the primal", Neural Comput. 19, 2007, doi:10.1162/neco.2007.19.5.1155.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> X, y = np.array([[-2.0], [-1.0], [1.0], [3.0]]), np.array([-1.0, -1.0, 1.0, 1.0])
    >>> risk = cut.kernels.KernelRisk(X, y, cut.losses.Squared(), cut.kernels.Gaussian(1.0))
    >>> result = cut.Problem(risk, risk.squared_norm(0.1)).solve(cut.kernels.FiniteNewton(), tol=1e-9)
    >>> print(result.status, round(result.objective, 4), result.n_iter)
    OPTIMAL 0.1182 1
    """

    dense: int = 4000

    first_cut = False
    stabilizations = ()

    def __post_init__(self) -> None:
        as_count("FiniteNewton.dense", self.dense, low=0)

    def check(self, problem: Declaration) -> None:
        """Raise unless the problem is a kernel machine with a loss that has a second derivative."""
        smooth_form(problem, self.name)

    def start(self, run: Run) -> NewtonState:
        """Start from the function at the first point."""
        form = smooth_form(run.problem, self.name)
        return NewtonState(form, run.anchor, np.full(form.risk.gram.n, -1.0))

    def step(self, run: Run, state: NewtonState) -> Step:
        """Minimise the model of the losses, search the line to its minimiser, and take the bound there."""
        form, point = state.form, state.point
        z = np.asarray(point.image)
        bends = form.bends(z, state.damping)
        changed = np.count_nonzero(np.abs(bends - state.bends) > 0.5 * np.maximum(bends, state.bends))
        if changed <= _SETTLED * bends.size:
            state.tolerance = max(_TIGHT, 1e-3 * state.tolerance)
        few = _FIRST if form.varies and not point.x[: z.size].any() and not state.damping else None
        state.bends = bends
        x = run.timed(solve_system, form, point.x, z, bends, self.dense, state.tolerance, few, queries=1)
        if x is None:
            return Step("Newton", state, "rounding errors leave no solution of the Newton system")
        target = run.evaluate(x)
        t = run.timed(_best_share, form, point, target)
        moved = target if t == 1.0 else run.between(point, target, t)
        if not few:
            run.add_dual_cut(form.multipliers(x))
        if moved.objective < point.objective:
            state.point, state.damping = moved, state.damping / 8.0 if state.damping > _LEAST else 0.0
        elif state.tolerance <= _TIGHT and state.damping == 1.0 and not run.closed:
            return Step("Newton", state, "rounding errors leave no step that lowers the objective")
        else:
            state.tolerance, state.damping = _TIGHT, 1.0
        run.proceed()
        return Step("Newton", state)


def _best_share(form: SmoothForm, start: Point, end: Point) -> float:
    """Return how far to go from one point to the other: 1 where that is best up to rounding."""
    n = form.risk.gram.n
    bias = (start.x[n], end.x[n]) if form.risk.intercept else (0.0, 0.0)
    z0, z1 = np.asarray(start.image), np.asarray(end.image)
    values, change = z0 - bias[0], (z1 - bias[1]) - (z0 - bias[0])
    d = end.x[:n] - start.x[:n]
    square = quadratic_line(0.0, form.lam * float(d @ values), form.lam * max(float(d @ change), 0.0))
    line = form.risk.line(z0, z1) + square
    _, slope = line(1.0)
    _, first = line(0.0)
    if abs(slope) <= 1e-9 * abs(first) or not math.isfinite(first):
        return 1.0
    return minimise_on_line(line, math.inf)

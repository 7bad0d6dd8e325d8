"""The finite Newton method for kernel machines with losses that have a second derivative, in the primal."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.engine.line_search import minimise_on_line
from cutplane.exceptions import MissingCapabilityError
from cutplane.kernels.dual import machine_of, made_feasible, multipliers
from cutplane.losses.base import pieces_of
from cutplane.methods.base import Method, Step
from cutplane.pieces.capabilities import Capability, offers, require
from cutplane.pieces.lines import quadratic_line
from cutplane.pieces.validation import Array, as_count
from cutplane.runtime.deadline import check_time

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.evaluator import Point
    from cutplane.engine.run import Run
    from cutplane.kernels.risk import KernelRisk

_FIRST = 10
"""Number of conjugate gradient steps in the first iteration, because the authors found it sufficient."""
_LOOSE, _TIGHT = 0.1, 1e-12
"""Relative residual of conjugate gradients before and after the set of examples with a positive second
derivative has settled, because an exact solution of a wrong model is useless."""
_LEAST = 1e-3
"""Damping below which it is set to zero, because it then hardly changes the model."""
_SETTLED = 0.01
"""Share of the examples whose second derivatives may still change in a settled set, because few examples
hardly change the model."""
_NOTHING = 1e-100
"""Entries below this fraction of the diagonal are set to zero, because their products are subnormal numbers,
which are slow."""

Solve = Callable[[Array, Array | None], Array]
"""(right side, starting point) -> the solution. The Cholesky solver ignores the starting point."""


@dataclass(frozen=True, eq=False)
class SmoothForm:
    """sum_i c_i l(z_i, y_i) + lam/2 a'K a with z = K a + b, for a loss with a second derivative."""

    risk: KernelRisk
    lam: float

    @property
    def varies(self) -> bool:
        """Whether the second derivative of the loss is not constant."""
        return self.risk.loss.curvature is None

    def slopes(self, z: Array) -> Array:
        """Return c_i l'(z_i)."""
        return self.risk.losses.derivatives(z)

    def bends(self, z: Array, least: float = 0.0) -> Array:
        """Return c_i l''(z_i), each at least `least` times its largest possible value."""
        risk, bends = self.risk, self.risk.losses.second_derivatives(z)
        if least == 0.0:
            return bends
        steepest = min(risk.loss.smoothness, max(1.0, float((bends[risk.weights > 0.0]).max(initial=0.0))))
        return np.maximum(bends, least * steepest * risk.weights)

    def multipliers(self, x: Array) -> Array:
        """Return multipliers of the examples in the domain of the conjugate, close to -lam a / c.

        With an intercept, the multipliers of the sign with the larger sum are scaled down so that the
        weighted sum is zero. This is possible because the domain contains zero if the loss has a minimiser.
        """
        weights, u = self.risk.weights, multipliers(self.risk, -self.lam * x[: self.risk.gram.n])
        if not self.risk.intercept:
            return u
        p = made_feasible(weights * u, np.full(u.size, -np.inf), np.full(u.size, np.inf), True)
        return np.divide(p, weights, out=u, where=weights > 0.0)


def smooth_form(problem: Declaration, method: str) -> SmoothForm:
    """Return the smooth form of a kernel machine; raise `MissingCapabilityError` for another problem."""
    remedy = "Use Decomposition() or ProximalBundle()."
    require(problem.risk, Capability.KERNEL_PREDICTOR, method, remedy)
    require(problem.risk, Capability.DUAL_CUT, method, remedy)
    risk: Any = problem.risk
    phi = pieces_of(risk.loss)
    if not offers(risk.loss, Capability.SECOND_DERIVATIVE) or (phi is not None and phi.jumps.any()):
        raise MissingCapabilityError(
            f"{method} needs a loss without kinks, such as SquaredHinge() or Logistic(), got {risk.loss!r}. "
            f"{remedy}"
        )
    return SmoothForm(*machine_of(problem, method, remedy))


@dataclass(eq=False)
class NewtonState:
    """The machine and the current point.

    Attributes
    ----------
    bends : ndarray of shape (m,)
        The second derivatives of the last iteration, to detect when they settle.
    tolerance : float
        The tolerance of conjugate gradients.
    damping : float
        Least second derivative of the model, relative to the largest possible one. It is 1 after a failed
        step, because the model is then an upper bound of the losses.
    """

    form: SmoothForm
    point: Point
    bends: Array
    tolerance: float = _LOOSE
    damping: float = 0.0


@dataclass(frozen=True)
class FiniteNewton(Method):
    """Newton steps in the function's values, each with an exact line search, for losses without kinks.

    Let r_i = c_i l'(z_i) and d_i = c_i l''(z_i) at the predictions z of the current function. The next
    function sum_j a_j k(x_j, .) + b minimises the quadratic model of the losses at z:

        lam a_i = -(r_i + d_i (z'_i - z_i)),   z' = K a + b,   sum a = 0 if there is an intercept.

    Only the a_i with d_i > 0 are unknown: the examples within the margin for a squared hinge, all examples
    for a logistic loss. A system with up to `dense` unknowns is solved by a Cholesky factor, a larger system
    by conjugate gradients. For piecewise quadratic losses the method ends after finitely many steps [1]_,
    usually 5 to 20 for any lam.

    Two heuristics of the authors [2]_ save time. The first step from the zero function stops after 10
    conjugate gradient steps, because this identifies most of the irrelevant examples. Conjugate gradients
    have a loose tolerance until the set of examples with d_i > 0 has settled, then a tight one. A solve
    starts from the function at the first point, for example the solution for another lam.

    The multipliers -lam a_i / c_i, projected onto the domain of the conjugate, give a cut and the lower
    bound.

    With `Squared` this is kernel ridge regression (the LS-SVM), solved in one step; with `SquaredHinge` the
    L2-SVM; with `Logistic` kernel logistic regression.

    Parameters
    ----------
    dense : int, default 4000
        The largest number of unknowns for which the system is factorised; its matrix takes 8 dense^2 bytes.

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
        smooth_form(problem, self.name)

    def start(self, run: Run) -> NewtonState:
        form = smooth_form(run.problem, self.name)
        return NewtonState(form, run.anchor, np.full(form.risk.gram.n, -1.0))

    def step(self, run: Run, state: NewtonState) -> Step:
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
            return Step("Newton", state, "rounding errors prevent a solution of the Newton system")
        target = run.evaluate(x)
        t = run.timed(_best_share, form, point, target)
        moved = target if t == 1.0 else run.between(point, target, t)
        if not few:
            run.add_dual_cut(form.multipliers(x))
        if moved.objective < point.objective:
            state.point, state.damping = moved, state.damping / 8.0 if state.damping > _LEAST else 0.0
        elif state.tolerance <= _TIGHT and state.damping == 1.0 and not run.closed:
            return Step("Newton", state, "rounding errors prevent a lower objective")
        else:
            state.tolerance, state.damping = _TIGHT, 1.0
        run.proceed()
        return Step("Newton", state)


def _best_share(form: SmoothForm, start: Point, end: Point) -> float:
    """Return the optimal step length from `start` towards `end`; 1 if 1 is optimal up to rounding."""
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


def solve_system(
    form: SmoothForm, x: Array, z: Array, bends: Array, dense: int, tolerance: float, steps: int | None
) -> Array | None:
    """Return the (a, b) that minimises the quadratic model of the losses at predictions z; None if it fails.

    Let S be the examples with positive second derivatives D; a_i = -r_i / lam for the other examples N. It
    solves

        (lam + D^1/2 K_SS D^1/2) v = D^1/2 (z_S - r_S / d_S - K_SN a_N - b),   a_S = D^1/2 v,

    where b is such that sum a = 0. No eigenvalue of the matrix is below lam. The system is factorised if it
    has at most `dense` unknowns and no number of conjugate gradient `steps` is given.
    """
    risk, lam, slopes = form.risk, form.lam, form.slopes(z)
    S = np.flatnonzero(bends > 0.0)
    a = np.where(bends > 0.0, 0.0, -slopes / lam)
    outside = risk.gram.product(a)[S]
    roots = np.sqrt(bends[S])
    right = roots * (z[S] - outside) - slopes[S] / roots
    if S.size and (S.size > dense or steps is not None):
        solve, begin = _by_gradients(form, S, roots, tolerance, steps), x[S] / roots
    else:
        solve, begin = _by_factor(form, S, roots), None
    if solve is None:
        return None
    first = solve(right, begin)
    if not risk.intercept:
        a[S] = roots * first
        return a if np.isfinite(a).all() else None
    second = solve(roots, None)
    share = float(roots @ second)
    b = (float(roots @ first) + float(a.sum())) / share if share > 0.0 else x[-1]
    a[S] = roots * (first - b * second)
    x = np.append(a, b)
    return x if np.isfinite(x).all() else None


def _by_factor(form: SmoothForm, S: Array, roots: Array) -> Solve | None:
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    if not S.size:
        return lambda right, start: right
    H = form.risk.gram.rows(S)[:, S]
    H *= roots[:, np.newaxis]
    H *= roots
    H[np.abs(H) < _NOTHING * form.lam] = 0.0
    np.einsum("ii->i", H)[...] += form.lam
    try:
        factor = cho_factor(H, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return None
    return lambda right, start: cho_solve(factor, right, check_finite=False)


def _by_gradients(form: SmoothForm, S: Array, roots: Array, tolerance: float, steps: int | None) -> Solve:
    whole = np.zeros(form.risk.gram.n)

    def times(v: Array) -> Array:
        whole[S] = roots * v
        return form.lam * v + roots * form.risk.gram.product(whole)[S]

    def solve(right: Array, start: Array | None) -> Array:
        v = np.zeros_like(right) if start is None else start.copy()
        residual = right - times(v) if v.any() else right.copy()
        direction, square = residual.copy(), float(residual @ residual)
        least = tolerance**2 * float(right @ right)
        for _ in range(2 * S.size if steps is None else steps):
            if square <= least:
                break
            check_time()
            image = times(direction)
            step = square / float(direction @ image)
            v += step * direction
            residual -= step * image
            before, square = square, float(residual @ residual)
            direction = residual + (square / before) * direction
        return v

    return solve

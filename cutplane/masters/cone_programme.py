"""Cone programmes: problems of cvxpy solved by a backend, with lower bounds from its dual point."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
import osqp
from cvxpy.reductions.solvers.qp_solvers.osqp_qpif import OSQP
from cvxpy.settings import SOLUTION_PRESENT, USER_LIMIT
from scipy import sparse

from cutplane.masters.backends import ACCURATE, LAST_DIGITS, STATUSES, timed, tolerances
from cutplane.masters.base import MasterStatus
from cutplane.pieces.validation import Array
from cutplane.proof.rounding import REACH
from cutplane.runtime.clock import clock
from cutplane.runtime.deadline import check_time

BACKENDS = "CLARABEL", "SCS"
"""The backends whose dual points are used for bounds, in order of preference."""

_LENIENT = {"eps_abs": 1e-6, "eps_rel": 1e-6, "max_iter": 20_000, "adaptive_rho_tolerance": 20.0}
"""Options of OSQP after its iteration limit, with rare changes of the step size, because with frequent ones
OSQP cycles on linear programmes."""

# ------------------------------------------------------------------ without a bound


def call(
    problem: cp.Problem, backend: str, options: Mapping[str, Any], **how: Any
) -> tuple[MasterStatus, str]:
    """Solve a cvxpy problem without warnings, and without exceptions except `OutOfTime`.

    If the solution is less accurate than requested, the status is also SOLVED, with a message.
    """
    accurate = {**ACCURATE.get(backend, {}), **options}
    if backend == "HIGHS":  # its active-set methods cycle on some QPs
        size = sum(x.size for x in problem.variables()) + sum(c.size for c in problem.constraints)
        limit = 1000 + 20 * size
        accurate = {"qp_iteration_limit": limit, "simplex_iteration_limit": limit, **accurate}
    status, message = _attempt(problem, backend, accurate, how)
    lenient = {**accurate, **_LENIENT, **options}
    if backend == "OSQP" and message.endswith(USER_LIMIT) and lenient != accurate:
        status, message = _attempt(problem, backend, lenient, {**how, "warm_start": False})
        message = message or f"{backend}: solved with a looser tolerance"
    return status, message


def _attempt(
    problem: cp.Problem, backend: str, settings: Mapping[str, Any], how: Mapping[str, Any]
) -> tuple[MasterStatus, str]:
    check_time()
    solver: Any = _OSQP if backend == "OSQP" else backend
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            problem.solve(solver=solver, **how, **timed(backend, settings))
        except Exception as error:
            check_time()
            return MasterStatus.FAILED, f"{backend}: {type(error).__name__}: {error}"
    status = STATUSES.get(problem.status, MasterStatus.FAILED)
    if status is not MasterStatus.SOLVED:
        check_time()
    if status is MasterStatus.UNBOUNDED and backend == "HIGHS" and not problem.objective.expr.is_pwl():
        return MasterStatus.FAILED, f"{backend}: {problem.status}, which is not to be trusted here"
    return status, "" if problem.status == cp.OPTIMAL else f"{backend}: {problem.status}"


class CarefulOSQP(OSQP):
    """cvxpy's interface to OSQP, with correct warm starts, and with Ctrl-C raised again as
    `KeyboardInterrupt`.

    In a warm start, cvxpy passes only the sides of the constraints that changed. OSQP compares them with the
    other sides, which it has scaled and rounded. It may then reject an equation and solve the old problem,
    without an error in cvxpy. Therefore both sides are always passed.
    """

    def name(self) -> str:
        """Return a name that differs from the names of cvxpy's solvers, because custom solvers need one."""
        return "CAREFUL_OSQP"

    def solve_via_data(
        self, data: Any, warm_start: bool, verbose: bool, solver_opts: Any, solver_cache: Any = None
    ) -> Any:
        """Solve, after replacing the last sides in the cache by NaN, so that every side counts as changed."""
        if solver_cache and self.name() in solver_cache:
            _, last, _ = solver_cache[self.name()]
            for side in ("l", "u"):
                last[side] = np.full_like(last[side], np.nan)
        results = super().solve_via_data(data, warm_start, verbose, solver_opts, solver_cache)
        if results.info.status_val == osqp.SolverStatus.OSQP_SIGINT:  # pyright: ignore[reportAttributeAccessIssue]
            raise KeyboardInterrupt
        return results


_OSQP = CarefulOSQP()


# --------------------------------------------------------------------- with a bound

FAR = 1e6
"""Largest coordinate, relative to the sides, of points for which infeasibility is proven, because at more
distant points the residual may exceed the proven violation."""

_DIVERGED = 1e100
"""Size of entries above which an answer is no solution, because the squares would overflow."""

_LINKS = 10
"""Longest chain of auxiliary variables that depend on one another, because users write no longer ones."""

_LARGEST_EXPONENT = 700.0
"""Largest argument of exp, because exp(709.8) overflows."""


class Outcome(NamedTuple):
    """The answer of a backend to a conic problem, with cvxpy's name of its status.

    `value` is the objective at `x`, and `bound` a lower bound of the minimum, from the dual point.
    """

    status: str
    x: Array | None = None
    value: float = math.nan
    bound: float = -math.inf


def solve_conic(problem: cp.Problem, x: cp.Variable, backend: str, extent: float = 1.0) -> Outcome:
    """Solve a cvxpy problem as a cone programme, and bound it from its dual; see `attempted` for failures.

    The programme is min 1/2 u'Pu + c'u + d subject to A u + s = b, s in K, with u = (x, auxiliaries). For any
    u0, and any y in the dual cone of K, with r = c + P u0 + A'y,

        d - 1/2 u0'P u0 - b'y - R ||r||_1  <=  the least value over all feasible u with ||u||_inf <= R. The
        left side is evaluated at the backend's primal point u0 and its dual point, projected into the dual
        cone, with R = 10 max(extent, ||u0||_inf, ||b||_inf). It bounds the value of all feasible u in this
        box, and of all feasible u if r = 0. For auxiliary variables that are squares, R is ten times the
        square of these sizes.

    If the backend calls the problem infeasible, the bound is inf if the dual point proves that no feasible u
    has ||u||_inf <= 1e6 max(1, ||b||_inf), otherwise -inf.
    """
    return attempted(lambda: ConeProgramme(problem, backend).solve().outcome(x, extent))


def attempted(solve: Callable[[], Outcome]) -> Outcome:
    """Return the outcome of a solve, or an outcome without x if the backend fails or refuses the problem."""
    try:
        return solve()
    except (cp.SolverError, ValueError, ArithmeticError):
        return Outcome(cp.SOLVER_ERROR)


@dataclass(frozen=True)
class Solved:
    """The cone programme min 1/2 v'Pv + c'v + constant subject to A v + s = b, s in K, and an answer.

    Attributes
    ----------
    A, b, c, P, constant
        The data, with auxiliary variables scaled to about 1; P is None if there is no quadratic form.
    v, y : ndarray
        The primal point, and the dual point projected into the dual cone.
    status : str
        cvxpy's name of the status.
    n_equations : int
        The number of equations, which are the first rows.
    cone_of : ndarray of int
        For each row the first row of its cone.
    columns : dict
        The first column of each variable of cvxpy, by its id.
    known : ndarray of bool
        The columns of variables of the problem; the others are auxiliaries.
    """

    A: Any
    b: Array
    c: Array
    P: Any
    constant: float
    v: Array
    y: Array
    status: str
    n_equations: int
    cone_of: Array
    columns: dict[int, int]
    known: Array

    @property
    def present(self) -> bool:
        """Whether there is an answer whose numbers do not overflow."""
        sizes = (np.abs(point).max(initial=0.0) for point in (self.v, self.y))
        return self.status in SOLUTION_PRESENT and all(size < _DIVERGED for size in sizes)

    @cached_property
    def Pv(self) -> Array:
        """The gradient P v of the quadratic form."""
        return np.zeros_like(self.v) if self.P is None else self.P @ self.v

    @property
    def value(self) -> float:
        """The objective at the primal point."""
        return self.constant + 0.5 * float(self.v @ self.Pv) + float(self.c @ self.v)

    @property
    def reach(self) -> float:
        """Ten times the largest entry of the primal point and of the sides."""
        return REACH * max(
            1.0, float(np.abs(self.v).max(initial=0.0)), float(np.abs(self.b).max(initial=0.0))
        )

    def reaches(self, extent: float = 0.0) -> Array:
        """Return a bound of each column: ten times `extent` or the current reach, and ten times `squares`."""
        return np.maximum(max(self.reach, REACH * extent), REACH * self.squares(extent))

    def squares(self, extent: float) -> Array:
        """Return the size of auxiliaries that are squares, and 0 for other columns.

        A square t >= ||z||^2 is stated as 1 + t >= ||(1 - t, 2 z)||, so that its column has entries in the
        first row of a cone and in another row. The size of 2 z is computed from the rows of the cone and the
        sizes of the other columns.
        """
        sizes = np.zeros(self.v.size)
        several = np.bincount(self.cone_of)[self.cone_of] > 1
        if self.known.all() or not several.any():
            return sizes
        cones, kinds = np.unique(self.cone_of, return_inverse=True)
        entries = sparse.coo_array(self.A)
        inside = several[entries.row]
        rows, columns = entries.row[inside], entries.col[inside]
        heads = rows == self.cone_of[rows]
        at_head, elsewhere = (kinds[rows[side]] + cones.size * columns[side] for side in (heads, ~heads))
        both = np.intersect1d(at_head, elsewhere)
        both = both[~self.known[both // cones.size]]
        if not both.size:
            return sizes
        at, cone = np.divmod(both, cones.size)
        squared = np.zeros(self.v.size, dtype=bool)
        squared[at] = True
        others = np.where(squared, 0.0, max(1.0, extent, float(np.abs(self.v[~squared]).max(initial=0.0))))
        z = np.abs(self.b) + abs(self.A) @ others
        squares = np.bincount(kinds, z * z)[cone] / np.abs(sparse.csr_array(self.A)[cones[cone], at])
        np.maximum.at(sizes, at, squares)
        return sizes

    def values(self, variable: cp.Variable) -> Array:
        """Return the entries of a variable."""
        first = self.columns[variable.id]
        return self.v[first : first + variable.size]

    def outcome(self, x: cp.Variable, extent: float = 1.0) -> Outcome:
        """Return the value of x and the bound proven by the dual point; see `solve_conic`."""
        nothing = Outcome(self.status)
        if not np.abs(self.y).max(initial=0.0) < _DIVERGED:
            return nothing
        if self.status in (cp.INFEASIBLE, cp.INFEASIBLE_INACCURATE):
            far = FAR * max(1.0, float(np.abs(self.b).max(initial=0.0)))
            proven = -float(self.b @ self.y) > far * float(np.abs(self.A.T @ self.y).sum())
            return nothing._replace(bound=math.inf) if proven else nothing
        if not self.present:
            return nothing
        residual = self.c + self.Pv + self.A.T @ self.y
        curvature = 0.5 * float(self.v @ self.Pv)
        charge = float(self.reaches(extent) @ np.abs(residual))
        bound = self.constant - curvature - float(self.b @ self.y) - charge
        return Outcome(self.status, self.values(x), self.value, bound if math.isfinite(bound) else -math.inf)


_SETUP = 0.6
"""Seconds of a solver's set-up per second of compilation, needed because the solver's time limit excludes its
set-up: Clarabel takes 0.27 s after 0.45 s on 20,000 x 50 numbers."""


class ConeProgramme:
    """A cvxpy problem compiled once for a backend, and solved for several objectives and sides.

    Compiling a small problem by cvxpy takes about ten times as long as solving it by a backend.

    Parameters
    ----------
    problem : cvxpy.Problem
    backend : str
        A name of `BACKENDS`.
    side : cvxpy.Parameter, optional
        A number on which b depends affinely.
    """

    def __init__(self, problem: cp.Problem, backend: str, side: cp.Parameter | None = None):
        check_time()
        began = clock()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if side is not None:
                side.value = 1.0
                self._rise = problem.get_problem_data(backend)[0]["b"]
                side.value = 0.0
            data, chain, inverse = problem.get_problem_data(backend)
        self._rise = np.zeros_like(data["b"]) if side is None else self._rise - data["b"]
        self._problem, self._backend = problem, backend
        self._chain: Any = chain
        self._known = _known_columns(data, problem)
        self.data = _in_own_units(data, self._known)
        self.constant = float(inverse[-1]["offset"])
        self._setup = _SETUP * (clock() - began)
        self.columns: dict[int, int] = data["param_prob"].var_id_to_col
        check_time()

    def solve(self, tolerance: float = LAST_DIGITS) -> Solved:
        """Solve to a tolerance, by default the smallest that the backend reaches."""
        return self._solve(self.data, self.constant, tolerance)

    def solve_with(self, scale: float, x: cp.Variable, v: Array, side: float = 0.0) -> Solved:
        """Solve with the objective `scale` times the problem's objective plus <v, x>, and with a side."""
        c = scale * self.data["c"]
        c[self.columns[x.id] :][: x.size] += v
        data = {**self.data, "c": c, "b": self.data["b"] + side * self._rise}
        if data.get("P") is not None:
            data["P"] = scale * data["P"]
        return self._solve(data, scale * self.constant, LAST_DIGITS)

    def _solve(self, data: dict[str, Any], constant: float, tolerance: float) -> Solved:
        settings = ACCURATE.get(self._backend, {}) | tolerances(self._backend, tolerance)
        v, z, status = self._answer(data, settings)
        if status == cp.SOLVER_ERROR:  # the tightest tolerance may not be reached
            v, z, status = self._answer(data, {})
        if status != cp.OPTIMAL:
            check_time()
        dims = data["dims"]
        if np.abs(z).max(initial=0.0) < _DIVERGED:
            z = into_dual_cone(z, dims, upper=self._backend == "CLARABEL")
        return Solved(
            A=data["A"],
            b=data["b"],
            c=data["c"],
            P=data.get("P"),
            constant=constant,
            v=v,
            y=z,
            status=status,
            n_equations=dims.zero,
            cone_of=np.repeat(*_cones(dims)),
            columns=self.columns,
            known=self._known,
        )

    def _answer(self, data: dict[str, Any], settings: dict[str, Any]) -> tuple[Array, Array, str]:
        """Return the primal and the dual point of the backend, and cvxpy's name of its status."""
        check_time()
        options = timed(self._backend, settings, self._setup)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            raw = self._chain.solve_via_data(self._problem, data, warm_start=False, solver_opts=options)
        names = self._chain.solver.STATUS_MAP
        if self._backend == "SCS":
            return np.array(raw["x"]), np.array(raw["y"]), names[raw["info"]["status_val"]]
        return np.array(raw.x), np.array(raw.z), names.get(str(raw.status), cp.SOLVER_ERROR)


def _known_columns(data: dict[str, Any], problem: cp.Problem) -> Array:
    """Return a mask of the columns of the problem's variables; the others are auxiliaries."""
    places = data["param_prob"].var_id_to_col
    known = np.zeros(data["c"].size, dtype=bool)
    for variable in problem.variables():
        if variable.id in places:
            known[places[variable.id] :][: variable.size] = True
    return known


def _in_own_units(data: dict[str, Any], known: Array) -> dict[str, Any]:
    """Scale auxiliary variables to size 1 if they are larger for variables of size 1."""
    units = column_sizes(data["A"], known)
    if (units == 1.0).all():
        return data
    by_unit = sparse.diags_array(units)
    own = {"A": sparse.csc_array(data["A"] @ by_unit), "c": data["c"] * units}
    if data.get("P") is not None:
        own["P"] = sparse.csc_array(by_unit @ data["P"] @ by_unit)
    return {**data, **own}


def column_sizes(A: Any, known: Array) -> Array:
    """Return the column sizes that rows imply if known columns have size 1: powers of two, at least 1."""
    entries = sparse.coo_array(A)
    rows, columns, values = entries.row, entries.col, np.abs(entries.data)
    sizes = np.where(known, 1.0, 0.0)
    for _ in range(_LINKS):
        heights = np.zeros(A.shape[0])
        np.maximum.at(heights, rows, values * sizes[columns])
        new = (sizes[columns] == 0.0) & (heights[rows] > 0.0) & (values > 0.0)
        if not new.any():
            break
        np.maximum.at(sizes, columns[new], heights[rows[new]] / values[new])
    return np.exp2(np.ceil(np.log2(np.clip(sizes, 1.0, _DIVERGED))))


def _cones(dims: Any) -> tuple[Array, Array]:
    """Return first row and number of rows of each cone; an equation or inequality is a cone of one row."""
    triangles = [size * (size + 1) // 2 for size in dims.psd]
    powers = [3] * len(dims.p3d) + [len(alphas) + 1 for alphas in dims.pnd]
    sizes = np.array(
        [1] * (dims.zero + dims.nonneg) + [*dims.soc, *triangles, *[3] * dims.exp, *powers], dtype=int
    )
    return np.cumsum(sizes) - sizes, sizes


def into_dual_cone(z: Array, dims: Any, upper: bool) -> Array:
    """Return a point of the dual cone close to z, a dual point of ``A x + s = b, s in K``.

    K is a product of cones in the order zero, nonnegative, second-order, positive semidefinite (a triangle as
    a vector, off-diagonal entries times sqrt(2)), exponential, power; `dims` are cvxpy's `ConeDims`, and
    `upper` tells whether triangles are upper ones, stacked by columns. z is projected onto the nonnegative
    and semidefinite cones; for the others some coordinates are changed.
    """
    y = z.copy()
    start = dims.zero + dims.nonneg
    y[dims.zero : start] = np.maximum(y[dims.zero : start], 0.0)
    cones: list[tuple[int, Callable[[Array], None]]] = [
        *((size, _second_order) for size in dims.soc),
        *((size * (size + 1) // 2, partial(_semidefinite, upper=upper)) for size in dims.psd),
        *((3, _exponential) for _ in range(dims.exp)),
        *((3, partial(_power, alphas=np.array([alpha, 1.0 - alpha]))) for alpha in dims.p3d),
        *((len(alphas) + 1, partial(_power, alphas=np.asarray(alphas))) for alphas in dims.pnd),
    ]
    for size, correct in cones:
        correct(y[start : start + size])
        start += size
    return y


def _second_order(y: Array) -> None:
    y[0] = max(y[0], float(np.linalg.norm(y[1:])))


def _semidefinite(y: Array, upper: bool) -> None:
    size = math.isqrt(2 * y.size)
    columns, rows = np.tril_indices(size) if upper else np.triu_indices(size)
    scaling = np.where(rows == columns, 1.0, math.sqrt(2.0))
    matrix = np.zeros((size, size))
    matrix[rows, columns] = matrix[columns, rows] = y / scaling
    eigenvalues, vectors = np.linalg.eigh(matrix)
    if eigenvalues[0] < 0.0:
        matrix = (vectors * np.maximum(eigenvalues, 0.0)) @ vectors.T
        y[:] = matrix[rows, columns] * scaling


def _exponential(y: Array) -> None:
    """Dual of s_2 exp(s_1 / s_2) <= s_3, s_2 > 0: -u exp(v / u - 1) <= w, u < 0, or u = 0, v >= 0, w >= 0."""
    y[2] = max(y[2], 0.0)
    u, v, w = (float(entry) for entry in y)
    if u >= 0.0:
        y[:] = 0.0, max(v, 0.0), w
        return
    exponent = min(v / u - 1.0, _LARGEST_EXPONENT)
    lifted_w = -u * math.exp(exponent)
    if lifted_w <= w:
        return
    lifted_v = u * (1.0 + math.log(w / -u)) if w > 0.0 else math.inf
    if lifted_v - v < lifted_w - w:
        y[1] = lifted_v
    elif exponent < _LARGEST_EXPONENT:
        y[2] = lifted_w
    else:
        y[:] = 0.0, max(v, 0.0), w


def _power(y: Array, alphas: Array) -> None:
    """Dual of {prod_i s_i^alpha_i >= |s_last|}: {prod_i (u_i / alpha_i)^alpha_i >= |w|, u >= 0}."""
    y[:-1] = np.maximum(y[:-1], 0.0)
    most = float(np.prod((y[:-1] / alphas) ** alphas))
    y[-1] = np.clip(y[-1], -most, most)

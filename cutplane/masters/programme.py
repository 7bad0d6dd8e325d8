"""The whole problem as one quadratic programme, assembled from the forms of its pieces."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from cutplane.masters.backends import by_clarabel, tolerances
from cutplane.masters.base import Least, MasterStatus, ReducedProblem, Whole
from cutplane.masters.rows import sides_of
from cutplane.masters.units import unit_of
from cutplane.pieces.capabilities import Capability, ask
from cutplane.pieces.forms import LinearForm, bounds_only
from cutplane.pieces.validation import Array
from cutplane.proof.rounding import CANCELLED, REACH
from cutplane.regularizers.separable import L1


class _SimplePart(NamedTuple):
    """g(x) over X0: the minimum over u = (x, auxiliaries) of constant + cost'u + 1/2 x'Hx on linear rows."""

    linear: LinearForm
    H: Any
    constant: float


def solve_programme(risk: Any, reduced: ReducedProblem) -> Whole | None:
    """Solve min f(x) + g(x) over x in X0 by Clarabel; None if it is not a QP or Clarabel fails.

    The risk needs a `ProgrammeForm`, X0 a linear form, and g a linear form, a separable form or a Hessian.
    The cut of the risk is computed from the multipliers of its rows by its conjugates, and the bound of g
    over X0 from the other multipliers. The solver's objective is not used.
    """
    stated = ask(risk, Capability.PROGRAMME)
    rest = None if stated is None else _simple_part(reduced)
    if stated is None or rest is None:
        return None
    programme, dim = stated.build(), reduced.dim
    form = programme.linear.merge(rest.linear, dim)
    found = _minimise(form, _with_corner(rest.H, programme.curvatures, form.n_columns))
    if found is None:
        return None
    u, y = found
    n_rows = programme.linear.row_lower.size
    multipliers, slope, offset = programme.cut(y[:n_rows], u[:dim])
    multipliers = slope if multipliers is None else multipliers
    return Whole("", u[:dim], multipliers, offset, _least(rest, slope, y[n_rows:], float(np.abs(u).max())))


def _simple_part(reduced: ReducedProblem) -> _SimplePart | None:
    """Return the regularizer and the set as a programme; None if one of them has no form."""
    dim, regularizer = reduced.dim, reduced.regularizer
    H, constant = sparse.csr_array((dim, dim)), 0.0
    if reduced.linear is not None or reduced.polyhedron is None:
        return reduced.linear and _SimplePart(reduced.linear, H, constant)
    linear: Any = None
    if (separable := reduced.separable) is not None:
        quadratic = separable.quadratic
        H, constant = sparse.diags_array(quadratic.weights), quadratic(np.zeros(dim))
        linear = L1(1.0, weights=separable.costs).linear_form(dim)
        linear.cost[:dim] -= quadratic.weights * quadratic.centre
    elif (quadratic := ask(regularizer, Capability.HESSIAN)) is not None:
        H, cost = quadratic
        linear = bounds_only(np.full(dim, -np.inf), np.full(dim, np.inf), cost)
    return None if linear is None else _SimplePart(linear.merge(reduced.polyhedron, dim), H, constant)


def _with_corner(H: Any, curvatures: Array, size: int) -> Any:
    """Return the upper triangle of a matrix: H is its corner, `curvatures` the rest of its diagonal."""
    corner, bent = sparse.coo_array(sparse.triu(H)), np.flatnonzero(curvatures)
    rows, columns = (np.concatenate([places, bent]) for places in (corner.row, corner.col))
    data = np.concatenate([corner.data, curvatures[bent]])
    return sparse.csc_array((data, (rows, columns)), shape=(size, size))


def _least(rest: _SimplePart, v: Array, y: Array, size: float) -> Least | None:
    """Return the lower bound of g(x) + <v, x> over X0 that multipliers of the rows prove, if H is diagonal.

    Where u_j is unbounded and its slope is not zero, u_j is bounded by ten times the size of the solution.
    """
    form, dim = rest.linear, v.size
    if sparse.coo_array(sparse.triu(rest.H, 1)).nnz:
        return None
    weights = np.zeros(form.n_columns)
    weights[:dim] = rest.H.diagonal()
    row_sides = np.where(y > 0.0, form.row_lower, form.row_upper)
    y, row_sides = (np.where(np.isfinite(row_sides), part, 0.0) for part in (y, row_sides))
    slope = form.cost - form.rows.T @ y
    slope[:dim] += v
    reach = REACH * max(1.0, size, form.scale)
    with np.errstate(divide="ignore", invalid="ignore"):
        u = np.where(weights > 0.0, -slope / weights, np.copysign(np.inf, -slope))
    u = np.where(slope == 0.0, 0.0, u)
    u = np.clip(u, form.lower, form.upper)
    free = np.isinf(u)
    u[free] = np.copysign(reach, u[free])
    terms = row_sides * y, slope * u, 0.5 * weights * u * u, np.array([rest.constant])
    rounding = CANCELLED * sum(float(np.abs(part).sum()) for part in terms)
    residual = float(np.abs(slope[:dim][free[:dim]]).max(initial=0.0))
    return Least(v, sum(float(part.sum()) for part in terms) - rounding, reach, residual)


def _minimise(form: LinearForm, H: Any) -> tuple[Array, Array] | None:
    """Return a minimiser and the multipliers of the rows, positive where the lower side is active; or None.

    The programme is solved in u / unit, where sides and costs have a size of about 1.
    """
    import clarabel

    unit = unit_of(form.scale or 1.0)
    form, H = form.in_unit(unit), unit * unit * H
    height = unit_of(max(float(np.abs(form.cost).max(initial=0.0)), float(np.abs(H.data).max(initial=0.0))))
    sides = sides_of(form, bounds=True)
    solver: Any = clarabel
    n_equations, A = sides.n_equations, sides.A.tocsc()
    cones = [solver.ZeroConeT(n_equations), solver.NonnegativeConeT(sides.b.size - n_equations)]
    for settings in (tolerances("CLARABEL"), {}):  # the defaults if the tightest fail
        status, _, u, z = by_clarabel(H / height, form.cost / height, A, sides.b, cones, settings)
        if status is MasterStatus.SOLVED:
            return unit * u, (height / unit) * sides.multipliers(z, form.row_lower.size)
    return None

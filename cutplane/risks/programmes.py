"""Risks as quadratic programmes with auxiliary variables, for solvers of the whole problem."""

from __future__ import annotations

from dataclasses import replace
from functools import partial, reduce
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.losses.base import pieces_of
from cutplane.losses.pieces import Pieces
from cutplane.pieces.capabilities import Capability, ask
from cutplane.pieces.forms import LinearForm, Programme, ProgrammeForm, bounds_only
from cutplane.pieces.linear_maps import LinearMap
from cutplane.pieces.validation import Array


def of_losses(risk: Any) -> ProgrammeForm | None:
    """Return the weighted losses of predictions as a programme; None if the loss has no outline."""
    phi = pieces_of(risk.loss)
    if phi is None or risk.n_blocks > 1:
        return None
    X = risk.X
    entries = X.nnz if sparse.issparse(X) else int(np.count_nonzero(X))
    n_rows = len(np.unique(phi.terms[1][:, 1]))
    rows = n_rows * X.shape[0]
    build = partial(_of_losses, risk, phi)
    return ProgrammeForm(n_rows * entries + 2 * rows, build, bool(phi.jumps.any()), rows)


def _of_losses(risk: Any, phi: Pieces) -> Programme:
    """Build the programme.

    Let s_i be the argument of phi. Each nonnegative term of `Pieces.terms` becomes a row ``sign (s_i - knot)
    <= a + b`` with variables a, b >= 0, which cost ``jump (a + b) + curvature (a^2 / 2 + width b)``. Two
    terms of opposite signs at one knot share a row, which is then an equation.
    """
    X: Any = sparse.csr_array(risk.X, dtype=np.float64)
    if risk.intercept:
        X = sparse.hstack([X, np.ones((X.shape[0], 1))], format="csr")
    kept = np.flatnonzero(risk.weights)
    y, c = np.asarray(risk.y, dtype=np.float64)[kept], risk.weights[kept]
    X = X[kept] if kept.size < X.shape[0] else X
    margin = risk.loss.variable == "margin"
    S, shift = (sparse.diags_array(y) @ X, np.zeros(y.size)) if margin else (X, y)  # s = S x - shift
    base, terms = phi.terms
    (m, n), each = S.shape, np.arange(S.shape[0])
    entry = np.repeat(each, np.diff(S.indptr))
    triplets, costs, bends = [(S.data[:0], entry[:0], entry[:0])], [base * (S.T @ c)], [np.zeros(n)]
    signs, sides, lower_sides = [], [np.zeros(0)], [np.zeros(0)]
    for knot in np.unique(terms[:, 1]).tolist():
        here = terms[terms[:, 1] == knot].tolist()
        sign, first = here[0][0], m * len(signs)
        triplets.append((sign * S.data, first + entry, S.indices))
        signs.append(sign)
        sides.append(sign * (shift + knot))
        lower_sides.append(sides[-1] if len(here) > 1 else np.full(m, -np.inf))
        for way, _, width, jump, curvature in here:
            more = [(jump + curvature * width, 0.0)] if curvature and np.isfinite(width) else []
            for price, bend in [(jump, curvature), *more]:
                triplets.append((np.full(m, -sign * way), first + each, m * (len(costs) - 1) + n + each))
                costs.append(price * c)
                bends.append(bend * c)
    cost, row_upper = np.concatenate(costs), np.concatenate(sides)
    lower = np.zeros(cost.size)
    lower[:n] = -np.inf
    data, rows, columns = (np.concatenate(part) for part in zip(*triplets, strict=True))
    linear = LinearForm(
        cost=cost,
        lower=lower,
        upper=np.full(cost.size, np.inf),
        rows=sparse.csr_array((data, (rows, columns)), shape=(row_upper.size, cost.size)),
        row_lower=np.concatenate(lower_sides),
        row_upper=row_upper,
    )

    def cut(multipliers: Array, x: Array) -> tuple[Array, Array, float]:
        slopes = base - np.array(signs) @ multipliers.reshape(len(signs), m) / c
        weighted = np.zeros(risk.y.size)
        weighted[kept] = c * np.clip(slopes, *phi.domain) * (y if margin else 1.0)
        u = risk.multipliers(weighted, x)
        slope, offset = risk.dual_cut(u)
        return u, slope[0], float(offset[0])

    constant = phi.value * float(c.sum()) - base * float(c @ (shift + phi.at))
    return Programme(linear, np.concatenate(bends), constant, cut)


def of_linear(c: Array) -> ProgrammeForm:
    """Return <c, x> as a programme."""
    free = np.full(c.size, np.inf)
    stated = Programme(bounds_only(-free, free, c), np.zeros(c.size), 0.0, lambda y, x: (None, c, 0.0))
    return ProgrammeForm(c.size, lambda: stated)


def of_image(form: ProgrammeForm, linear_map: LinearMap, offset: Array | None) -> ProgrammeForm:
    """Return the programme of h(A x + b), given the programme of h."""
    return form._replace(build=lambda: _of_image(form.build(), linear_map, offset))


def _of_image(inner: Programme, linear_map: LinearMap, offset: Array | None) -> Programme:
    form, (d, n) = inner.linear, linear_map.shape
    b = np.zeros(d) if offset is None else offset
    A: Any = sparse.csr_array(linear_map.matrix)
    shifts, free = form.rows[:, :d] @ b, np.full(n, np.inf)
    linear = LinearForm(
        cost=np.concatenate([A.T @ form.cost[:d], form.cost[d:]]),
        lower=np.concatenate([-free, form.lower[d:]]),
        upper=np.concatenate([free, form.upper[d:]]),
        rows=sparse.csr_array(sparse.hstack([form.rows[:, :d] @ A, form.rows[:, d:]])),
        row_lower=form.row_lower - shifts,
        row_upper=form.row_upper - shifts,
    )

    def cut(multipliers: Array, x: Array) -> tuple[Array | None, Array, float]:
        u, slope, height = inner.cut(multipliers, linear_map(x) + b)
        return u, linear_map.transposed(slope), height + float(slope @ b)

    curvatures = np.concatenate([np.zeros(n), inner.curvatures[d:]])
    return Programme(linear, curvatures, inner.constant + float(form.cost[:d] @ b), cut)


def of_sum(terms: tuple[tuple[float, Any], ...], dim: int) -> ProgrammeForm | None:
    """Return the programme of sum_j c_j f_j, if each f_j has one."""
    found = [(c, ask(risk, Capability.PROGRAMME)) for c, risk in terms]
    if any(form is None for _, form in found):
        return None
    size, rows = (sum(getattr(form, name) for _, form in found) for name in ("size", "rows"))
    build = partial(_of_sum, found, dim)
    return ProgrammeForm(size, build, any(form.kinked for _, form in found), rows)


def _of_sum(found: list[tuple[float, Any]], dim: int) -> Programme:
    terms = [(c, form.build()) for c, form in found]
    edges = np.cumsum([0, *(term.linear.row_lower.size for _, term in terms)])

    def cut(multipliers: Array, x: Array) -> tuple[None, Array, float]:
        slope, offset = np.zeros(dim), 0.0
        for (c, term), start, end in zip(terms, edges[:-1], edges[1:], strict=True):
            _, steepness, height = term.cut(multipliers[start:end] / c, x)
            slope, offset = slope + c * steepness, offset + c * height
        return None, slope, offset

    return Programme(
        linear=reduce(
            lambda a, b: a.merge(b, dim),
            (replace(term.linear, cost=c * term.linear.cost) for c, term in terms),
        ),
        curvatures=np.concatenate([np.zeros(dim), *(c * term.curvatures[dim:] for c, term in terms)]),
        constant=sum(c * term.constant for c, term in terms),
        cut=cut,
    )

"""Absolute values as differences: the same optimum, points and multipliers as with a row for each side."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linprog

import cutplane as cut
from cutplane.masters.highs import AbsoluteValues
from cutplane.pieces.forms import LinearForm
from cutplane.regularizers import L1
from cutplane.sets import Box, Polyhedron

DIM = 5
LAYOUTS = {"dense": np.array, "sparse": sparse.csr_array}


def forms():
    rng = np.random.default_rng(0)
    row = Polyhedron(rng.standard_normal((2, DIM)), [1.0, 2.0], rng.standard_normal((1, DIM)), [0.25])
    weighted = L1(0.5, [1.0, 0.0, 2.0, 0.5, 1.0])
    yield "whole", L1(1.0).linear_form(DIM), DIM
    yield "rows", weighted.linear_form(DIM).merge(row.linear_form(DIM), DIM), DIM - 1
    yield "box", L1(1.0).linear_form(DIM).merge(Box(-1.0, 2.0).linear_form(DIM), DIM), DIM
    off = Box([-1.0, 0.0, 0.5, -2.0, -np.inf], [1.0, 1.0, 2.0, -1.0, 3.0]).linear_form(DIM)
    yield "box off zero", L1(1.0).linear_form(DIM).merge(off, DIM), 3
    yield "no absolute value", row.linear_form(DIM), 0


FORMS = {name: (form, count) for name, form, count in forms()}


def least(form: LinearForm, slopes, offsets):
    """Minimise cost'u + xi over the form and the cuts, with scipy; return the value and HiGHS's answer."""
    rows, k = form.rows.toarray(), len(offsets)
    A = np.vstack([rows, -rows, slopes])
    b = np.concatenate([form.row_upper, -form.row_lower, -offsets])
    A = np.column_stack([A, np.concatenate([np.zeros(2 * len(rows)), -np.ones(k)])])
    kept = np.isfinite(b)
    bounds = [*zip(form.lower, form.upper, strict=True), (None, None)]
    return linprog(np.append(form.cost, 1.0), A[kept], b[kept], bounds=bounds)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", FORMS)
def test_the_optimum_is_the_same_and_lies_at_the_same_point(name, layout):
    form, count = FORMS[name]
    values = AbsoluteValues(form)
    assert values.x.size == count and values.form.row_lower.size == form.row_lower.size - 2 * count
    rng = np.random.default_rng(1)
    for _ in range(5):
        slopes, offsets = rng.standard_normal((8, DIM)), rng.standard_normal(8)
        wide = np.zeros((8, form.n_columns))
        wide[:, :DIM] = slopes
        whole = least(form, wide, offsets)
        split = values.columns(LAYOUTS[layout](slopes))
        split = split.toarray() if sparse.issparse(split) else split
        padded = np.zeros_like(wide)
        padded[:, : split.shape[1]] = split
        found = least(values.form, padded, offsets)
        assert (found.status, whole.status) in [(0, 0), (3, 3)]
        if whole.status:
            continue
        assert found.fun == pytest.approx(whole.fun, abs=1e-9)
        x = values.point(found.x[:-1].copy())[:DIM]
        pinned = LinearForm(
            form.cost, np.append(x, form.lower[DIM:]), np.append(x, form.upper[DIM:]), form.rows,
            form.row_lower, form.row_upper,
        )  # fmt: skip
        assert least(pinned, wide, offsets).fun == pytest.approx(whole.fun, abs=1e-8)


@pytest.mark.parametrize("name", ["whole", "rows", "box", "box off zero"])
def test_multipliers_of_all_rows_prove_the_optimum(name):
    """They leave each column a reduced cost that its bounds can hold, and the sides sum to the minimum."""
    form, _ = FORMS[name]
    values = AbsoluteValues(form)
    v = np.array([0.3, -0.2, 0.1, 0.0, -0.4])
    split = values.form
    cost = split.cost + np.ravel(values.columns(v[np.newaxis]))
    rows = split.rows.toarray()
    low, high = split.row_lower, split.row_upper
    A, b = np.vstack([rows, -rows]), np.concatenate([high, -low])
    kept = np.isfinite(b)
    found = linprog(
        cost, A[kept], b[kept], bounds=[*zip(split.lower, split.upper, strict=True)], method="highs-ds"
    )
    y = np.zeros(2 * len(rows))
    y[kept] = found.ineqlin.marginals
    y = y[: len(rows)] - y[len(rows) :]
    every = values.multipliers(y, cost - rows.T @ y)
    rest = form.cost + np.append(v, np.zeros(form.n_columns - DIM)) - form.rows.T @ every
    sides = np.where(rest > 0.0, form.lower, form.upper)
    used = np.abs(rest) > 1e-9
    row_sides = np.where(every > 0.0, form.row_lower, form.row_upper)
    active = np.abs(every) > 1e-9
    assert float(sides[used] @ rest[used] + row_sides[active] @ every[active]) == pytest.approx(found.fun)


def test_pairs_of_auxiliaries_are_no_columns_of_the_cuts():
    """The l1 norm of a linear image pairs auxiliaries, which no cut has."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 12))
    y = X @ np.repeat([1.0, 0.0, -2.0], 4)
    regularizer = cut.L1(0.02) + cut.L1(0.05) @ np.diff(np.eye(12), axis=0)
    problem = cut.Problem(cut.LinearRisk(X, y, cut.losses.Absolute()), regularizer)
    result = problem.solve(cut.Kelley(), tol=1e-7)
    assert (result.status, result.backend) == ("OPTIMAL", "highs") and not any(result.history.notes)
    assert result.objective == pytest.approx(problem.solve(cut.methods.Direct(), tol=1e-8).objective)

"""Data, layouts and checks that tests of risks share."""

from itertools import pairwise

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse

LAYOUTS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "reversed": lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
    "csr": sparse.csr_array,
    "csc": sparse.csc_array,
    "csr_matrix": sparse.csr_matrix,
    "csc_matrix": sparse.csc_matrix,
    "coordinates": sparse.coo_array,
}


def features(rng, m, n):
    """Data with an empty row, duplicate rows and a zero column."""
    X = rng.standard_normal((m, n)) * (rng.random((m, n)) < 0.6)
    X[m // 2] = 0.0
    X[-1] = X[0]
    X[:, n // 2] = 0.0
    return X


def some_zero(rng, m):
    """Weights, some of them zero."""
    weights = rng.random(m) * (rng.random(m) < 0.7)
    weights[0] = 1.0
    return weights


def right_derivative(piecewise, t):
    """The formula in the docstring of `PiecewiseLinear`."""
    passed = piecewise.kinks <= t
    bends = 0.0 if piecewise.curvature_jumps is None else piecewise.curvature_jumps * (t - piecewise.kinks)
    smooth = piecewise.slope + piecewise.curvature * (t - piecewise.start)
    return smooth + ((piecewise.slope_jumps + bends) * passed).sum()


def check_derivative(line):
    """The derivative of a line is what the line says between its kinks, as a whole and in part; return it."""
    whole = line.derivative.between(0.0, np.inf)
    assert (whole.kinks > 0.0).all() and (whole.slope_jumps >= 0.0).all()
    assert whole.slope == pytest.approx(line(0.0)[1], rel=1e-12, abs=1e-12)
    kinks = np.unique(np.append(whole.kinks, 0.0))
    ends = np.append(kinks[1:], 2.0 * kinks[-1] + 1.0)
    middles = (0.5 * (kinks + ends))[ends - kinks > 1e-9 * (1.0 + kinks)]
    for t in middles:
        expected = line(t)[1]
        assert right_derivative(whole, t) == pytest.approx(expected, rel=1e-9, abs=1e-9 * (1.0 + t))
    for low, high in pairwise(middles):
        part = line.derivative.between(low, high)
        assert part.start == low and ((part.kinks > low) & (part.kinks < high)).all()
        for t in (low, high):
            assert right_derivative(part, t) == pytest.approx(line(t)[1], rel=1e-9, abs=1e-9 * (1.0 + t))
    return whole


def whole_optimum(risk, g):
    """What cvxpy finds for the whole problem."""
    x = cp.Variable(risk.dim)
    problem = cp.Problem(cp.Minimize(risk.cvxpy_form(x) + g.cvxpy_form(x)))
    return problem.solve(solver=cp.CLARABEL, tol_gap_rel=1e-9, tol_gap_abs=1e-9, tol_feas=1e-9)

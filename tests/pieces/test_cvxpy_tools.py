"""Replacing the variable of a cvxpy expression, and its plan."""

import cvxpy as cp
import numpy as np
import pytest
from cvxpy.transforms.partial_optimize import partial_optimize

import cutplane as cut
from cutplane.exceptions import InvalidInputError, OracleError
from cutplane.pieces.cvxpy_plan import Plan
from cutplane.pieces.cvxpy_tools import at, substitute

RNG = np.random.default_rng(11)
A, B, Y = RNG.standard_normal((4, 3)), RNG.standard_normal((3, 2)), RNG.standard_normal(4)
SPD = np.eye(3) + 0.3 * np.ones((3, 3))

VECTOR = {
    "linear": lambda w: Y[:3] @ w + 2,
    "sum of many": lambda w: w[0] + 2 * w[1] - w[2] + cp.norm1(w) + 3,
    "norms": lambda w: cp.norm1(A @ w - Y) + cp.norm2(w) + cp.norm_inf(w) + cp.pnorm(w, 3),
    "power": lambda w: cp.sum(cp.power(cp.abs(w), 1.5)) + cp.sum(w**4),
    "quad_form": lambda w: cp.quad_form(w - Y[:3], SPD) + cp.sum_squares(A @ w),
    "psd_wrap": lambda w: cp.quad_form(w, cp.psd_wrap(SPD)),
    "matrix_frac": lambda w: cp.matrix_frac(w, SPD),
    "huber": lambda w: cp.sum(cp.huber(A @ w - Y, 0.5)),
    "logistic": lambda w: cp.sum(cp.logistic(-cp.multiply(Y, A @ w))),
    "log_sum_exp": lambda w: cp.log_sum_exp(A @ w) + cp.sum(cp.exp(w)),
    "entropies": lambda w: -cp.sum(cp.entr(cp.square(w)[0] * 0 + 1.5)) + cp.sum(cp.exp(w / 2)),
    "max": lambda w: cp.max(w) + cp.maximum(w[0], w[1], 0) - cp.minimum(w[1], w[2]) + cp.sum(cp.pos(w)),
    "sum_largest": lambda w: cp.sum_largest(w, 2) + cp.cvar(A @ w, 0.5),
    "dotsort": lambda w: cp.dotsort(w, np.array([1.0, 0.0, 2.0])),
    "slices": lambda w: (
        cp.norm1(w[1:]) + cp.norm1(w[::-1][[0, 2]]) + cp.norm1(w[np.array([True, False, True])])
    ),
    "stacks": lambda w: cp.norm(cp.hstack([w, 2 * w[:2], 1.0])) + cp.norm(cp.vstack([w, -w]), "fro"),
    "affine": lambda w: cp.sum_squares(cp.cumsum(w)) + cp.norm1(cp.diff(w)) + cp.norm1(cp.convolve(Y, w)),
    "diag": lambda w: (
        cp.norm(cp.diag(w) + SPD, "fro") + cp.norm1(cp.outer(w, Y)) + cp.norm1(cp.kron(SPD, cp.diag(w)))
    ),
    "tv": lambda w: cp.tv(w),
    "quad_over_lin": lambda w: cp.quad_over_lin(w, 3.0) + cp.inv_pos(cp.exp(cp.Constant(1.0))) * cp.norm2(w),
    "mixed_norm": lambda w: cp.mixed_norm(cp.outer(w, Y), 2, 1),
    "shared": lambda w: (lambda r: cp.norm1(r) + cp.sum_squares(r) + cp.norm_inf(r))(A @ w - Y),
    "parameter": lambda w: cp.Parameter(nonneg=True, value=0.7) * cp.norm1(w),
    "transforms": lambda w: cp.scalar_product(w, Y[:3]) + cp.std(w) + cp.ptp(w),
}
MATRIX = {
    "nuclear": lambda W: cp.norm(W, "nuc") + cp.norm(A @ W, "fro"),
    "spectral": lambda W: cp.sigma_max(W) + cp.norm(W, 1) + cp.norm(W, "inf"),
    "eigenvalues": lambda W: cp.lambda_max(W[:2, :] + W[:2, :].T) + cp.lambda_sum_largest(W[:2] + W[:2].T, 1),
    "axis": lambda W: cp.sum(cp.norm(W, 2, axis=1)) + cp.sum(cp.max(W, axis=0)) + cp.norm1(cp.sum(W, axis=0)),
    "trace": lambda W: (
        cp.trace(B.T @ W) + cp.sum_squares(cp.vec(W, order="F")) + cp.norm1(cp.reshape(W, 6, order="C"))
    ),
    "rows": lambda W: (
        cp.norm1(W[1, :]) + cp.norm2(W[:, 0]) + cp.norm1(cp.upper_tri(W[:2, :])) + cp.norm1(W.T @ A.T)
    ),
    "multiply": lambda W: cp.norm1(cp.multiply(B, W)) + cp.max(W) + cp.log_sum_exp(W),
    "bmat": lambda W: cp.norm(cp.bmat([[W, B], [B, W]]), "fro"),
}
CASES = {**{n: (f, (3,)) for n, f in VECTOR.items()}, **{n: (f, (3, 2)) for n, f in MATRIX.items()}}
each_case = pytest.mark.parametrize(("build", "shape"), CASES.values(), ids=CASES.keys())


@each_case
def test_substitution_keeps_value_and_convexity(build, shape):
    w = cp.Variable(shape)
    expression = build(w)
    assert expression.is_convex()
    x, y = cp.Variable(w.size), cp.Variable(w.size)
    for _ in range(3):
        point, step = RNG.standard_normal(w.size), RNG.standard_normal(w.size)
        for image in (x, 2 * x - y + step):
            replaced = substitute(expression, (w,), image)
            assert replaced.is_convex()
            assert {v.id for v in replaced.variables()} == {v.id for v in image.variables()}
            x.value, y.value = point, point + step
            with at((w,), image.value):
                assert replaced.value == pytest.approx(expression.value, rel=1e-12, abs=1e-12)
    assert {v.id for v in expression.variables()} == {w.id}


CONSTRAINTS = {
    "inequality": lambda w: cp.norm1(w) <= 1,
    "equality": lambda w: A @ w == Y,
    "second-order cone": lambda w: cp.SOC(w[0] + 1, A @ w),
    "exponential cone": lambda w: cp.ExpCone(w[0], w[1], w[2]),
    "power cone": lambda w: cp.PowCone3D(w[0], w[1], w[2], 0.3),
    "semidefinite": lambda w: cp.diag(w) + SPD >> 0,
    "nonnegative": lambda w: cp.NonNeg(w),
    "zero": lambda w: cp.Zero(w[:2]),
}


@pytest.mark.parametrize("build", CONSTRAINTS.values(), ids=CONSTRAINTS.keys())
def test_substitution_in_constraints(build):
    w, x = cp.Variable(3), cp.Variable(3)
    constraint = build(w)
    replaced, again = substitute(constraint, (w,), x), substitute(constraint, (w,), x)
    assert len({constraint.id, replaced.id, again.id}) == 3
    assert type(replaced) is type(constraint)
    assert replaced.is_dcp()
    for _ in range(4):
        x.value = RNG.standard_normal(3)
        with at((w,), x.value):
            np.testing.assert_allclose(replaced.violation(), constraint.violation(), atol=1e-12)


def test_subexpressions_stay_shared():
    w, x = cp.Variable(3), cp.Variable(3)
    residual = A @ w - Y
    replaced = substitute(cp.norm1(residual) + cp.norm_inf(residual), (w,), x)
    first, second = (term.args[0] for term in replaced.args)
    assert first is second


def test_an_expression_without_the_variable_is_returned_as_it_is():
    w, x, other = cp.Variable(3), cp.Variable(3), cp.Variable(2)
    expression = cp.norm1(other)
    assert substitute(expression, (w,), x) is expression
    np.testing.assert_array_equal(
        Plan(cp.Constant(1.0) + 0, (w,)).value_and_slope(np.ones(3))[1], np.zeros(3)
    )


def test_atoms_that_cannot_be_rebuilt_are_named():
    w, s = cp.Variable(3), cp.Variable(nonneg=True)
    with pytest.raises(InvalidInputError, match="perspective"):
        substitute(cp.perspective(cp.sum_squares(w), s), (w,), cp.Variable(3))


def test_partial_minimisation_cannot_be_rebuilt():
    w, u = cp.Variable(3), cp.Variable(3)
    inner = cp.Problem(cp.Minimize(cp.norm1(w - u) + cp.sum_squares(u)))
    expression = partial_optimize(inner, [u], [w], cp.CLARABEL)
    with pytest.raises(InvalidInputError, match="cannot be rebuilt"):
        substitute(expression, (w,), cp.Variable(3))


def test_a_scalar_variable():
    w, x = cp.Variable(), cp.Variable(1)
    replaced = substitute(cp.square(w - 1), (w,), x)
    x.value = np.array([3.0])
    assert replaced.value == 4.0
    with at((w,), x.value):
        assert w.value == 3.0
    np.testing.assert_array_equal(Plan(cp.square(w - 1), (w,)).value_and_slope(x.value)[1], [4.0])


def test_values_are_restored_also_after_an_error():
    w = cp.Variable((2, 2))
    with at((w,), np.arange(4.0)):
        np.testing.assert_array_equal(w.value, [[0.0, 1.0], [2.0, 3.0]])
    assert w.value is None
    with pytest.raises(ZeroDivisionError), at((w,), np.arange(4.0)):
        raise ZeroDivisionError
    assert w.value is None


def test_no_slope_outside_the_domain():
    w = cp.Variable(2, name="w")
    plan = Plan(cp.norm1(w) - cp.sum(cp.log(w)), (w,))
    assert plan.value_and_slope(np.array([-1.0, 1.0])) == (np.inf, None)
    with pytest.raises(OracleError, match=r"no subgradient of .* at w"):
        cut.CvxpyRegularizer(-cp.sum(cp.log(w)), w).subgradient(np.zeros(2))
    with pytest.raises(OracleError, match="no gradient of cummax"):
        Plan(cp.sum(cp.cummax(w)), (w,)).value_and_slope(np.ones(2))

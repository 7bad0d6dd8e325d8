"""Replacing the variable of a cvxpy expression, and its plan."""

import cvxpy as cp
import numpy as np
import pytest
from cvxpy.transforms.partial_optimize import partial_optimize
from cvxpy_cases import ATOMS, W

import cutplane as cut
from cutplane.exceptions import InvalidInputError, OracleError
from cutplane.pieces.cvxpy_plan import Plan
from cutplane.pieces.cvxpy_tools import at, substitute

RNG = np.random.default_rng(11)
A, B, Y = RNG.standard_normal((4, 3)), RNG.standard_normal((3, 2)), RNG.standard_normal(4)
SPD = np.eye(3) + 0.3 * np.ones((3, 3))


@pytest.mark.parametrize("expression", ATOMS.values(), ids=ATOMS)
def test_substitution_keeps_value_and_convexity(expression):
    x, y = cp.Variable(4), cp.Variable(4)
    for _ in range(2):
        point, step = RNG.uniform(0.1, 1.0, (2, 4))
        for image in (x, 2 * x - y + step):
            replaced = substitute(expression, (W,), image)
            assert replaced.is_convex()
            assert {v.id for v in replaced.variables()} == {v.id for v in image.variables()}
            x.value, y.value = point + step, point
            with at((W,), image.value):
                assert replaced.value == pytest.approx(expression.value, rel=1e-12, abs=1e-12)
    assert {v.id for v in expression.variables()} == {W.id}


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
    with pytest.raises(OracleError, match=r"has no subgradient at w"):
        cut.CvxpyRegularizer(-cp.sum(cp.log(w)), w).subgradient(np.zeros(2))
    with pytest.raises(OracleError, match="no gradient of cummax"):
        Plan(cp.sum(cp.cummax(w)), (w,)).value_and_slope(np.ones(2))

"""x holds the same variables, in the same order, for all pieces; the order of a matrix is stated."""

import cvxpy as cp
import numpy as np
import pytest

import cutplane as cut

W, Z = cp.Variable(2, name="w"), cp.Variable(2, name="z")


def risk_of(variable):
    return cut.CvxpyRisk(cp.sum_squares(variable - 1.0), variable)


def regularizer_of(variable):
    return cut.CvxpyRegularizer(cp.norm1(variable), variable)


def set_of(variable):
    return cut.CvxpySet([cp.sum(variable) <= 1.0], variable)


def value_function_of(variable):
    y = cp.Variable()
    return cut.ValueFunction(cp.Problem(cp.Minimize(y), [y >= variable[0], y >= -variable[0]]), variable)


@pytest.mark.parametrize(
    "declare",
    [
        lambda: cut.Problem(risk_of(W), cut.L2(0.1), set_of(Z)),
        lambda: cut.Problem(risk_of(W), regularizer_of(Z)),
        lambda: cut.Problem(cut.LinearObjective([1.0, 0.0]), regularizer_of(W), set_of(Z)),
        lambda: risk_of(W) + risk_of(Z),
        lambda: cut.maximum(risk_of(W), risk_of(Z)),
        lambda: cut.Problem(cut.maximum(risk_of(W), risk_of(W)), None, set_of(Z)),
        lambda: regularizer_of(W) + regularizer_of(Z),
        lambda: cut.Problem(risk_of(W), cut.L2(0.1) + regularizer_of(Z)),
        lambda: set_of(W) & set_of(Z),
        lambda: cut.Problem(risk_of(W), None, cut.Box(-1, 1) & set_of(Z)),
        lambda: cut.Problem(value_function_of(W), cut.L2(1.0), set_of(Z)),
        lambda: cut.Problem(risk_of(W) + regularizer_of(Z)),
        lambda: cut.Problem(risk_of(W) + regularizer_of(W) + regularizer_of(Z)),
    ],
)
def test_two_variables_of_one_size_are_not_the_same_vector(declare):
    with pytest.raises(cut.InvalidInputError, match=r"x holds the entries of w .* but the entries of z"):
        declare()


def test_the_order_of_several_variables_is_one():
    first = cut.CvxpyRisk(cp.sum_squares(W) + cp.sum_squares(Z - 1.0), [W, Z])
    with pytest.raises(cut.InvalidInputError, match=r"\[w, z\].*\[z, w\]"):
        cut.Problem(first, None, cut.CvxpySet([W >= 1.0], [Z, W]))
    assert cut.Problem(first, cut.L2(1.0), cut.CvxpySet([W >= 1.0], [W, Z])).dim == 4


def test_values_are_set_where_only_a_part_of_a_sum_is_given_by_cvxpy():
    problem = cut.Problem(
        cut.LinearRisk(np.eye(2), [1.0, -1.0], cut.losses.Squared()), 0.1 * cut.L2(1.0) + regularizer_of(W)
    )
    result = problem.solve(tol=1e-6)
    assert result.value(W) == pytest.approx(result.x)


M = cp.Variable((2, 3), name="M")
ROWS = cut.CvxpySet([cp.sum(M, axis=1) <= np.array([0.0, 3.0]), cp.abs(M) <= 2.0], M)


def test_a_risk_beside_a_matrix_variable_states_the_order():
    target = np.arange(6.0).reshape(2, 3) / 3.0

    @cut.risk(dim=6)
    def by_columns(x):
        away = x.reshape(2, 3, order="F") - target
        return float((away**2).sum()), 2.0 * away.ravel(order="F")

    result = cut.Problem(by_columns, feasible_set=ROWS).solve(tol=1e-3)
    assert "M of shape (2, 3) in row-major order" in result.reason


@pytest.mark.parametrize(
    "problem, stated",
    [
        (cut.Problem(cut.CvxpyRisk(cp.sum_squares(M - 1.0), M), None, ROWS), True),
        (cut.Problem(cut.CvxpyRisk(cp.sum_squares(M - 1.0), M), None, cut.Box(-1, np.arange(6.0))), True),
        (cut.Problem(cut.LinearObjective(np.arange(6.0)), None, ROWS), True),
        (cut.Problem(cut.LinearObjective([1.0, 0.0]), None, set_of(W) & cut.Box(-1, 1)), False),
    ],
)
def test_the_order_is_stated_where_a_variable_is_a_matrix(problem, stated):
    assert ("row-major" in problem.solve(tol=1e-3).reason) == stated

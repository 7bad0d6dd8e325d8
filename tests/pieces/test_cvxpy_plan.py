"""Compiled cvxpy expressions against cvxpy's own values and gradients."""

import pickle

import cvxpy as cp
import numpy as np
import pytest
from cvxpy.transforms.suppfunc import SuppFunc
from cvxpy_cases import ATOMS, W
from scipy import sparse

import cutplane as cut
from cutplane.exceptions import InvalidInputError
from cutplane.pieces.cvxpy_plan import Plan

RNG = np.random.default_rng(3)
A, B, Y = RNG.standard_normal((7, 4)), RNG.standard_normal((2, 3)), RNG.standard_normal(7)
SPARSE = sparse.random_array((50, 4), density=0.1, rng=0, format="csr")
SPD = A.T @ A


@pytest.mark.parametrize("name", ATOMS)
def test_slopes_are_differences(name):
    plan = Plan(ATOMS[name], (W,))
    for x in RNG.uniform(0.2, 1.2, (3, 4)):
        value, slope = plan.value_and_slope(x)
        assert plan.value(x) == value
        step = 1e-6
        differences = [(plan.value(x + step * e) - plan.value(x - step * e)) / (2 * step) for e in np.eye(4)]
        np.testing.assert_allclose(slope, differences, rtol=1e-4, atol=1e-4 * (1.0 + np.abs(slope).max()))


def test_parameters_may_change():
    w, p, q = cp.Variable(4), cp.Parameter(nonneg=True, value=1.0), cp.Parameter(7, value=Y)
    M = cp.Parameter(nonneg=True, value=0.5)
    plan = Plan(p * cp.norm1(A @ w - q) + cp.sum(cp.huber(w, M)), (w,))
    x = RNG.standard_normal(4)

    def expected():
        r = A @ x - q.value
        m = M.value
        huber = np.where(np.abs(x) <= m, x**2, 2 * m * np.abs(x) - m**2).sum()
        slope = p.value * A.T @ np.sign(r) + 2 * np.clip(x, -m, m)
        return p.value * np.abs(r).sum() + huber, slope

    for change in (lambda: None, lambda: setattr(p, "value", 3.0), lambda: q.value.__imul__(2.0)):
        change()
        value, slope = plan.value_and_slope(x)
        assert value == pytest.approx(expected()[0])
        np.testing.assert_allclose(slope, expected()[1])
    M.value = 2.0
    assert plan.value(x) == pytest.approx(expected()[0])


def test_a_support_function_is_evaluated_by_cvxpy():
    w, u = cp.Variable(2), cp.Variable(2)
    support = SuppFunc(u, [cp.norm2(u) <= 1])
    risk = cut.CvxpyRisk(2 * support(w) + cp.sum(w), w)
    value, slope = risk.oracle(np.array([3.0, 4.0]))
    assert w.value is None
    assert value == pytest.approx(2 * 5 + 7, abs=1e-5)
    np.testing.assert_allclose(slope, [2.2, 2.6], atol=1e-4)


def test_several_variables_of_any_shape():
    V, s, u = cp.Variable((2, 3), name="V"), cp.Variable(name="s"), cp.Variable((1, 2), name="u")
    expression = cp.sum_squares(V - B + s) + cp.norm1(u - 1) + cp.sum(cp.max(V, axis=0))
    risk = cut.CvxpyRisk(expression, [V, s, u])
    assert risk.dim == 9 and repr(risk).endswith("[V, s, u])")
    x = RNG.standard_normal(9)
    value, slope = risk.oracle(x)
    V.value, s.value, u.value = x[:6].reshape(2, 3), x[6], x[7:].reshape(1, 2)
    assert value == pytest.approx(float(expression.value))
    grads = [np.reshape(_dense(expression.grad[v]), v.shape, order="F").ravel() for v in (V, s, u)]
    np.testing.assert_allclose(slope, np.concatenate(grads))
    y = cp.Variable(9)
    form = risk.cvxpy_form(y)
    y.value = x
    assert form.value == pytest.approx(value)


def _dense(slope):
    return slope.toarray() if sparse.issparse(slope) else np.asarray(slope)


def test_the_three_pieces_agree_on_the_order():
    V, s = cp.Variable((2, 3)), cp.Variable()
    variables = [V, s]
    problem = cut.Problem(
        0.5 * cut.CvxpyRisk(cp.norm1(V - B - s), variables),
        cut.CvxpyRegularizer(cp.sum_squares(V) + cp.square(s), variables, lam=0.1),
        cut.CvxpySet([V[0] >= 0.25, s <= 0.1], variables),
    )
    result = problem.solve(tol=1e-7)
    direct = cp.Problem(
        cp.Minimize(0.5 * cp.norm1(V - B - s) + 0.1 * cp.sum_squares(V) + 0.1 * cp.square(s)),
        [V[0] >= 0.25, s <= 0.1],
    )
    assert result.objective == pytest.approx(direct.solve(cp.CLARABEL), rel=1e-5)
    np.testing.assert_allclose(result.value(V), V.value, atol=1e-3)
    np.testing.assert_array_equal(result.value(V), result.x[:6].reshape(2, 3))
    assert result.value(2 * s) == pytest.approx(2 * result.x[6])
    with pytest.raises(InvalidInputError, match="not of the problem"):
        result.value(cp.Variable(name="other"))
    with pytest.raises(InvalidInputError, match="one of cvxpy's"):
        result.value(3.0)


def test_the_value_of_a_loaded_result_needs_the_problem(tmp_path):
    w = cp.Variable(2)
    problem = cut.Problem(cut.CvxpyRisk(cp.norm1(w - 1), w), cut.L2(0.1))
    loaded = cut.load(problem.solve().save(tmp_path / "result.npz"))
    with pytest.raises(InvalidInputError, match="which a file does not hold"):
        loaded.value(w)
    np.testing.assert_array_equal(loaded.value(w, problem), loaded.x)


def test_variables_must_be_different_and_some():
    w = cp.Variable(2, name="w")
    with pytest.raises(InvalidInputError, match="must be different"):
        cut.CvxpyRisk(cp.norm1(w), [w, w])
    with pytest.raises(InvalidInputError, match="got none"):
        cut.CvxpyRisk(cp.norm1(w), [])


def test_a_plan_is_compiled_again_after_pickling():
    w = cp.Variable(4)
    plan = Plan(cp.norm1(A @ w - Y), (w,))
    x = RNG.standard_normal(4)
    value = plan.value(x)
    assert pickle.loads(pickle.dumps(plan)).value(x) == value

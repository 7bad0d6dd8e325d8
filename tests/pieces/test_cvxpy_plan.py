"""Compiled cvxpy expressions against cvxpy's own values and gradients."""

import pickle

import cvxpy as cp
import numpy as np
import pytest
from cvxpy.transforms.suppfunc import SuppFunc
from scipy import sparse

import cutplane as cut
from cutplane.exceptions import InvalidInputError
from cutplane.pieces.cvxpy_plan import Plan

RNG = np.random.default_rng(3)
A, B, Y = RNG.standard_normal((7, 4)), RNG.standard_normal((2, 3)), RNG.standard_normal(7)
SPARSE = sparse.random_array((50, 4), density=0.1, rng=0, format="csr")
SPD = A.T @ A

EXPRESSIONS = {
    "hinge": lambda w: cp.sum(cp.pos(1 - cp.multiply(Y, A @ w))) / 7,
    "abs": lambda w: cp.sum(cp.abs(A @ w - Y)),
    "norm1": lambda w: cp.norm1(A @ w - Y),
    "norm2": lambda w: cp.norm2(A @ w - Y),
    "norm_inf": lambda w: cp.max(cp.abs(A @ w - Y)),
    "sum_squares": lambda w: cp.sum_squares(A @ w - Y),
    "quad_over_lin": lambda w: cp.quad_over_lin(A @ w, 3.0),
    "square": lambda w: cp.sum(cp.square(cp.pos(A @ w - Y))),
    "power": lambda w: cp.sum(cp.power(A @ w, 4)),
    "logistic": lambda w: cp.sum(cp.logistic(A @ w)),
    "huber": lambda w: cp.sum(cp.huber(A @ w - Y, 0.5)),
    "exp": lambda w: cp.sum(cp.exp(w)) + cp.exp(cp.norm1(w)),
    "entr": lambda w: -cp.sum(cp.entr(w + 9)),
    "log": lambda w: -cp.sum(cp.log(w + 9)),
    "log_sum_exp": lambda w: cp.log_sum_exp(A @ w),
    "log_sum_exp rows": lambda w: cp.sum(cp.log_sum_exp(cp.outer(w, Y), axis=1)),
    "max": lambda w: cp.max(A @ w) - cp.min(A @ w),
    "maximum": lambda w: cp.sum(cp.maximum(w, 2 * w, -1)) - cp.sum(cp.minimum(w, w[::-1] - 0.1)),
    "maximum, broadcast": lambda w: cp.sum(cp.maximum(w, cp.norm1(w) / 5)) - cp.sum(cp.minimum(w, w[0])),
    "sum_largest": lambda w: cp.sum_largest(A @ w, 3),
    "lambda_max": lambda w: cp.lambda_max(cp.diag(w) + SPD),
    "normNuc": lambda w: cp.normNuc(cp.reshape(w, (2, 2), order="C") @ B),
    "quad_form": lambda w: cp.quad_form(w - 1, SPD),
    "affine above": lambda w: 2 * cp.sum(cp.multiply([1.0, 0, 2, 3], cp.abs(w))[1:]) + cp.norm2(w) - w[0],
    "sparse": lambda w: cp.norm1(SPARSE @ w - 1) + cp.sum_squares(SPARSE @ w),
    "constants": lambda w: cp.norm1(w) + cp.sum_squares(cp.Constant(Y)) + cp.maximum(cp.Constant(1.0), 2.0),
}


@pytest.mark.parametrize("build", EXPRESSIONS.values(), ids=EXPRESSIONS.keys())
def test_values_and_slopes_are_those_of_cvxpy_and_of_differences(build):
    w = cp.Variable(4)
    expression = build(w)
    plan = Plan(expression, (w,))
    for x in RNG.standard_normal((5, 4)):
        value, slope = plan.value_and_slope(x)
        assert w.value is None
        assert plan.value(x) == value
        step = 1e-6
        differences = [(plan.value(x + step * e) - plan.value(x - step * e)) / (2 * step) for e in np.eye(4)]
        np.testing.assert_allclose(slope, differences, rtol=1e-5, atol=1e-5)
        w.value = x
        assert value == pytest.approx(float(expression.value), rel=1e-12)
        if build is not EXPRESSIONS["maximum, broadcast"]:  # cvxpy adds up what a scalar is compared with
            np.testing.assert_allclose(slope, np.ravel(expression.grad[w].toarray()), rtol=1e-9, atol=1e-9)
        w.value = None


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

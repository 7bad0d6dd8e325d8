import copy

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse

import cutplane as cut
from cutplane.exceptions import InvalidInputError, NotConvexError
from cutplane.losses import Absolute, Hinge, Huber, Logistic, Quantile, Squared, SquaredHinge
from cutplane.recognition.losses import Curve, fit

RNG = np.random.default_rng(5)
M, N = 40, 4
X = RNG.standard_normal((M, N))
T = X @ RNG.standard_normal(N) + RNG.standard_normal(M)
Y = np.where(T > 0.3, 1.0, -1.0)
COSTS = RNG.uniform(0.5, 2.0, M)
THIN = sparse.random_array((M, N), density=0.5, rng=RNG, format="csr")
W, V, B = cp.Variable(N, name="w"), cp.Variable(3, name="v"), cp.Variable(name="b")
COLUMN, POSITIVE = cp.Variable((N, 1), name="column"), cp.Variable(N, nonneg=True, name="p")
BOUNDED, SQUARE = cp.Variable(N, bounds=[-0.1, 0.2], name="q"), cp.Variable((2, 2), PSD=True, name="S")
WEIGHTS, CLASSES = cp.Variable((N, 3), name="W"), np.eye(3)[RNG.integers(3, size=M)]
SCORES = X @ WEIGHTS
SMALL_BIAS = cp.Variable(bounds=[0.1, 0.15], name="c")
LAM = cp.Parameter(nonneg=True, value=0.3)
P = RNG.standard_normal((N, N))
P = P @ P.T + np.eye(N)
F = X @ W
R = T - F
MARGIN = cp.multiply(Y, F)
RIDGE = 0.05 * cp.sum_squares(W)

# The expression to minimise, and words that the repr has.
ROWS = {
    "hinge, pos": (cp.sum(cp.pos(1 - MARGIN)) / M + RIDGE, "LinearRisk(Hinge(), 40 x 4 dense"),
    "hinge, maximum": (cp.mean(cp.maximum(0, 1 - MARGIN)) + RIDGE, "LinearRisk(Hinge()"),
    "hinge, rows multiplied": (np.full(M, 0.1) @ cp.pos(1 - (Y[:, None] * X) @ W) + RIDGE, "Hinge()"),
    "hinge, intercept": (cp.sum(cp.pos(1 - cp.multiply(Y, F + B))) + RIDGE, "dense float64, intercept"),
    "hinge, minus intercept": (
        cp.sum(cp.pos(1 - cp.multiply(Y, F - B))) + LAM * cp.norm(W, 1),
        "Hinge(), 40 x 4 dense float64, intercept",
    ),
    "hinge, columns": (
        cp.sum(cp.pos(1 - cp.multiply(Y[:, None], X @ COLUMN + B))) / M + cp.norm(COLUMN, "fro") ** 2,
        "Hinge(), 40 x 4 dense float64, intercept",
    ),
    "hinge, loop": (
        sum(cp.pos(1 - Y[i] * (X[i] @ W + B)) for i in range(M)) / M + RIDGE,
        "Hinge(), 40 x 4 dense float64, intercept",
    ),
    "hinge, costs": (cp.sum(cp.multiply(COSTS, cp.pos(1 - MARGIN))) + RIDGE, "Hinge()"),
    "hinge, sparse": (cp.sum(cp.pos(1 - cp.multiply(Y, THIN @ W))) + RIDGE, "Hinge(), 40 x 4 cs"),
    "squared hinge": (cp.sum_squares(cp.pos(1 - MARGIN)) + 7, "SquaredHinge()"),
    "squared hinge, squares": (cp.sum(cp.square(cp.pos(1 - MARGIN))) / 3 + RIDGE, "SquaredHinge()"),
    "logistic": (cp.sum(cp.logistic(-MARGIN)) / M + RIDGE, "LinearRisk(Logistic(), 40 x 4 dense"),
    "logistic, likelihood": (
        cp.sum(cp.logistic(F) - cp.multiply(Y > 0, F)) / M + 0.01 * cp.norm1(W),
        "LinearRisk(Logistic(), 40 x 4 dense float64)\n",
    ),
    "logistic, two exponentials": (
        cp.sum(cp.log_sum_exp(cp.vstack([np.zeros(M), -MARGIN]), axis=0)) / M + 0.1 * cp.norm1(W),
        "LinearRisk(Logistic(), 40 x 4 dense",
    ),
    "logistic, two columns": (
        cp.sum(cp.log_sum_exp(cp.hstack([0.5 * X @ COLUMN, X @ -COLUMN]), axis=1)) + cp.norm1(COLUMN - 1),
        "Logistic(), 40 x 4",
    ),
    "logistic, loop": (
        sum(cp.log_sum_exp(cp.hstack([0, -y * (x @ W)])) for x, y in zip(X, Y, strict=True)) + RIDGE,
        "LinearRisk(Logistic(), 40 x 4 dense",
    ),
    "absolute": (cp.norm1(F - T) + RIDGE, "Absolute()"),
    "absolute, scaled rows": (
        cp.sum(cp.abs(cp.multiply(COSTS, R))) + 0.1 * cp.norm1(W) + RIDGE,
        "ElasticNet",
    ),
    "quantile": (cp.sum(cp.maximum(0.9 * R, -0.1 * R)) + RIDGE, "Quantile(tau=0.9)"),
    "quantile, tilted": (cp.sum(0.5 * cp.abs(R) + 0.4 * R) + RIDGE, "Quantile(tau=0.9)"),
    "quantile, two sums": (0.9 * cp.sum(cp.pos(R)) + 0.1 * cp.sum(cp.neg(R)) + RIDGE, "Quantile(tau=0.9)"),
    "squared": (cp.sum_squares(F - T) / (2 * M) + LAM * cp.norm1(W), "LinearRisk(Squared(), 40 x 4 dense"),
    "squared, norm": (cp.norm(F - T) ** 2 + RIDGE, "Squared()"),
    "squared, intercept": (cp.sum((X @ W + B - T) ** 2) / M + RIDGE, "Squared(), 40 x 4 dense float64, int"),
    "squared, quad_over_lin": (cp.quad_over_lin(R, 2) + cp.quad_form(W, P), "QuadraticForm("),
    "huber": (cp.sum(cp.huber(F - T, 0.7)) + RIDGE, "Huber(delta=0.7)"),
    "epsilon-insensitive": (cp.mean(cp.pos(cp.abs(R) - 0.2)) + RIDGE, "EpsilonInsensitive(epsilon=0.2)"),
    "squared epsilon-insensitive": (
        cp.sum_squares(cp.maximum(R - 0.2, -R - 0.2, 0)) + RIDGE,
        "SquaredEpsilonInsensitive(epsilon=0.2)",
    ),
    "exponential": (cp.mean(cp.exp(0.1 - MARGIN)) + RIDGE, "Exponential()"),
    "poisson": (cp.sum(cp.exp(0.3 * F) - cp.multiply(COSTS, F)) / M + RIDGE, "LinearObjective(dim=4)"),
    "classes": (
        cp.sum(cp.log_sum_exp(SCORES, axis=1) - cp.sum(cp.multiply(CLASSES, SCORES), axis=1)) / M
        + cp.sum_squares(WEIGHTS),
        "MulticlassRisk(Softmax(), 40 x 4 dense",
    ),
    "classes, two sums": (
        cp.sum(cp.log_sum_exp(SCORES, axis=1))
        - cp.sum(cp.multiply(CLASSES, X @ WEIGHTS))
        + cp.norm1(WEIGHTS),
        "MulticlassRisk(Softmax(), 40 x 4 dense",
    ),
    "no name": (cp.sum(cp.maximum(R, -0.5 * R, 3 * R - 1)) + RIDGE, "PiecewiseLoss("),
    "no common image": (cp.sum(cp.maximum(F - T, 2 * F - COSTS)) + RIDGE, "risk: CvxpyRisk("),
    "one-sided": (cp.sum(cp.pos(F - T)) + RIDGE, "PiecewiseLoss("),
}
OTHERS = {
    "bounds, l1": (cp.norm1(F - T) + cp.norm1(W), [W >= -0.2, W <= 0.4, W[0] == 0.1], "Box("),
    "sign": (cp.sum_squares(X @ POSITIVE - T), [], "NonnegativeOrthant(dim=4)"),
    "attribute bounds": (cp.sum_squares(X @ BOUNDED - T), [], "Box(-0.1, 0.2"),
    "linear constraints": (cp.sum_squares(F - T) / M, [cp.sum(W) == 1, P @ W <= 1, W >= -2], "Polyhedron("),
    "sparse constraints": (cp.norm1(F - T) + RIDGE, [cp.diff(W) >= 0], "Polyhedron("),
    "ball": (cp.sum(cp.pos(1 - MARGIN)), [cp.norm2(W) <= 0.5], "CvxpySet("),
    "two variables": (cp.sum_squares(F + X[:, :3] @ V - T) + cp.norm1(V) + cp.norm1(W), [V[0] >= 0.5], "L1("),
    "minus a bounded intercept": (
        cp.sum(cp.pos(1 - cp.multiply(Y, F - SMALL_BIAS))) + RIDGE,
        [],
        "dense float64, intercept",
    ),
    "subvector": (cp.norm1(F - T) + 2 * cp.sum_squares(W[1:] - 1), [], "L2("),
    "net on a subvector": (cp.norm1(F - T) + cp.norm1(W[1:]) + cp.sum_squares(W[1:]), [], "ElasticNet(lam=3"),
    "uneven net": (cp.norm1(F - T) + cp.norm1(W[1:]) + cp.sum_squares(W), [], "CvxpyRegularizer("),
    "cvxpy regularizer": (cp.sum_squares(F - T) + cp.norm_inf(W), [], "CvxpyRegularizer(norm_inf(w)"),
    "unrecognised": (cp.sum(cp.pos(1 - MARGIN)) + cp.norm2(F - T) + RIDGE, [], "not recognised: Pnorm"),
    "matrix": (cp.sum_squares(SQUARE - np.array([[1, 2], [2, 1]])), [cp.trace(SQUARE) <= 2], "CvxpySet("),
    "rows of a matrix": (
        cp.sum_squares(SCORES - X[:, :3]) / M + cp.sum(cp.norm(WEIGHTS, axis=1)),
        [],
        "CvxpyRegularizer(",
    ),
    "matrix and vector": (
        cp.tv(WEIGHTS) + cp.sum_squares(WEIGHTS - X[:N, :3]) + cp.norm2(WEIGHTS @ [1, 2, 3] - W),
        [WEIGHTS[0, 1] <= 0.1, cp.norm(WEIGHTS[:, 1]) <= 0.5],
        "CvxpySet(",
    ),
    "linear": (cp.sum(P @ W), [W >= -1, W <= 2], "LinearObjective(dim=4)"),
    "multi-output": (
        cp.sum_squares(X @ cp.reshape(cp.hstack([W, V, B]), (N, 2), order="F") - T[:, None]) + cp.norm1(V),
        [],
        "L1(",
    ),
}
MODELS = {name: (loss, [], words) for name, (loss, words) in ROWS.items()} | OTHERS


@pytest.mark.parametrize("name", MODELS)
def test_the_model_is_recognised_and_solved(name):
    expression, constraints, words = MODELS[name]
    user = cp.Problem(cp.Minimize(expression), constraints)
    model = cut.from_cvxpy(user)
    assert words in repr(model)
    for _ in range(5):
        for variable in user.variables():
            variable.save_value(RNG.standard_normal(variable.shape))
        assert model.objective(model.entries()) == pytest.approx(float(expression.value), rel=1e-9, abs=1e-9)
    result = model.solve(tol=1e-6)
    assert result.status == "OPTIMAL"
    assert float(expression.value) == pytest.approx(model.value, rel=1e-7, abs=1e-7)
    assert max([0.0, *(float(np.max(c.violation())) for c in constraints)]) < 1e-6
    assert model.value == pytest.approx(user.solve(solver="CLARABEL"), rel=1e-4, abs=1e-5)


def test_a_maximum_has_the_sign_of_the_user():
    likelihood = cp.sum(cp.multiply(Y > 0, F) - cp.logistic(F))
    user = cp.Problem(cp.Maximize(likelihood / M - LAM * cp.norm(W, 1) + 3), [W <= 1])
    model = cut.from_cvxpy(user)
    assert model.value is None
    assert "maximised" in repr(model)
    model.solve(tol=1e-6)
    assert model.value == pytest.approx(user.solve(solver="CLARABEL"), rel=1e-4)


def test_the_variables_hold_the_solution_in_their_shapes():
    bias, column = cp.Variable(name="b"), cp.Variable((N, 1), name="w")
    losses = cp.pos(1 - cp.multiply(Y[:, None], X @ column - bias))
    model = cut.from_cvxpy(cp.Problem(cp.Minimize(cp.sum(losses) + cp.sum_squares(column))))
    result = model.solve(tol=1e-6)
    assert [variable.name() for variable in model.variables] == ["w", "b"]
    assert column.value.shape == (N, 1)
    assert np.shape(bias.value) == ()
    assert column.value[:, 0].tolist() == result.x[:N].tolist()
    assert float(bias.value) == -result.x[N]
    assert model.entries().tolist() == result.x.tolist()


@pytest.mark.parametrize("data", [X, THIN], ids=["dense", "sparse"])
def test_data_are_not_copied(data):
    constant = cp.Constant(data)
    losses = cp.pos(1 - cp.multiply(Y, constant @ W + B))
    risk = cut.from_cvxpy(cp.Problem(cp.Minimize(cp.mean(losses) + cp.sum_squares(W)))).problem.risk
    assert risk.X is constant.value


@pytest.mark.parametrize(
    ("loss", "expected", "y"),
    [
        (cp.sum(cp.pos(1 - MARGIN)), Hinge(), Y),
        (cp.sum_squares(cp.pos(1 - MARGIN)), SquaredHinge(), Y),
        (cp.sum(cp.logistic(-MARGIN)), Logistic(), Y),
        (cp.sum(cp.logistic(F) - cp.multiply(Y > 0, F)), Logistic(), Y),
        (cp.norm1(R), Absolute(), T),
        (cp.sum_squares(F - T) / 2, Squared(), T),
        (cp.sum(cp.maximum(0.3 * R, -0.7 * R)), Quantile(0.3), T),
    ],
)
def test_the_examples_are_those_of_the_user(loss, expected, y):
    risk = cut.from_cvxpy(cp.Problem(cp.Minimize(loss + RIDGE))).problem.risk
    assert risk.loss == expected
    assert risk.y == pytest.approx(y)
    assert risk.weights == pytest.approx(1.0)


def test_the_repr_names_the_pieces():
    model = cut.from_cvxpy(cp.Problem(cp.Minimize(cp.mean(cp.pos(1 - MARGIN)) + RIDGE + cp.norm_inf(W) + 2)))
    assert repr(model).splitlines() == [
        "RecognisedModel in w, minimised",
        "  risk: LinearRisk(Hinge(), 40 x 4 dense float64) + CvxpyRisk(norm_inf(w), w)",
        "  regularizer: L2(lam=0.1)",
        "  feasible set: WholeSpace()",
        "  constant: 2",
        "  not recognised: norm_inf(w)",
    ]


@pytest.mark.parametrize(
    ("model", "error", "words"),
    [
        (cp.sum_squares(W), InvalidInputError, "needs a cvxpy.Problem"),
        (cp.Problem(cp.Minimize(cp.sqrt(W[0]))), NotConvexError, "not convex by cvxpy's rules"),
        (cp.Problem(cp.Minimize(cp.sum(cp.Variable(2, integer=True)))), InvalidInputError, "integer"),
        (cp.Problem(cp.Minimize(cp.norm1(cp.Variable(2, complex=True)))), InvalidInputError, "complex"),
        (cp.Problem(cp.Minimize(cp.Parameter() * W[0])), InvalidInputError, "without a value"),
        (cp.Problem(cp.Minimize(3)), InvalidInputError, "with a variable"),
    ],
)
def test_what_is_no_problem_of_ours_is_refused(model, error, words):
    with pytest.raises(error, match=words):
        cut.from_cvxpy(model)


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("data_size", [1e-7, 1e7])
def test_the_unit_of_the_data_does_not_matter(size, data_size):
    targets, predictions = size * T, data_size * X @ W
    r = targets - predictions
    for loss, expected in [
        (0.9 * cp.sum(cp.pos(r)) + 0.1 * cp.sum(cp.neg(r)), Quantile(0.9)),
        (cp.sum(cp.multiply(1e-13 * COSTS, cp.abs(r))), Absolute()),
        (cp.sum(cp.huber(r, 0.7 * size)), Huber(0.7 * size)),
        (1e-13 * cp.sum_squares(r), Squared()),
        (cp.sum(cp.pos(1 - cp.multiply(Y, predictions))), Hinge()),
        (cp.sum(cp.logistic(predictions) - cp.multiply(Y > 0, predictions)), Logistic()),
    ]:
        model = cut.from_cvxpy(cp.Problem(cp.Minimize(loss)))
        assert model.problem.risk.loss == expected
        W.save_value(RNG.standard_normal(N) * size / data_size)
        assert model.objective(model.entries()) == pytest.approx(float(loss.value), rel=1e-9, abs=0.0)


def test_a_function_that_is_not_convex_is_no_loss():
    concave = Curve(np.zeros(1), np.array([[0.0, 0.0, -1.0], [0.0, 1.0, 0.0]]))
    assert not concave.is_convex and fit(concave, np.ones(M), np.ones(M), np.zeros(M)) is None


def test_a_deep_copy_is_solved_apart():
    x = cp.Variable(3)
    model = cut.from_cvxpy(cp.Problem(cp.Minimize(cp.sum_squares(x - 1) + cp.norm1(x)), [x >= -1]))
    copied = copy.deepcopy(model)
    np.testing.assert_allclose(copied.solve(tol=1e-9).x, 0.5, atol=1e-4)
    assert x.value is None
    np.testing.assert_allclose(copied.variables[0].value, 0.5, atol=1e-4)


def test_a_variable_without_entries_is_named():
    empty = cp.Variable((2, 0), name="empty")
    with pytest.raises(InvalidInputError, match="empty has no entries"):
        cut.from_cvxpy(cp.Problem(cp.Minimize(cp.sum(empty))))


@pytest.mark.parametrize(
    "rows",
    [
        lambda v: [v >= np.inf],
        lambda v: [v <= -np.inf],
        lambda v: [np.array([0.0, np.inf, 0.0]) <= v],
        lambda v: [cp.norm(v) <= -np.inf],
        lambda v: [-np.inf >= v[0]],
    ],
)
def test_a_constraint_that_an_infinite_side_makes_impossible_is_refused(rows):
    v = cp.Variable(3)
    with pytest.raises(cut.InvalidInputError, match="is infeasible, because one side is"):
        cut.from_cvxpy(cp.Problem(cp.Minimize(cp.sum_squares(v)), rows(v)))


@pytest.mark.parametrize("shape", [(4,), (4, 1), "two variables"])
def test_a_quadratic_form_beside_a_norm_and_a_ball_is_solved(shape):
    """Regularizer and set, both expressions, are of the same variable."""
    rng = np.random.default_rng(0)
    X, goal = rng.standard_normal((12, 4)), rng.standard_normal(12)
    w = cp.Variable(4 if isinstance(shape, str) else shape)
    b = cp.Variable()
    scores = (X @ w + b if isinstance(shape, str) else X @ w).flatten(order="F")
    form = cp.quad_form(w, np.eye(4) + np.ones((4, 4)))
    sides = [cp.norm(w) <= 0.25] + [cp.abs(b) <= 4.0] * isinstance(shape, str)
    model = cp.Problem(cp.Minimize(cp.norm1(scores - goal) + 4.0 * form + cp.norm1(w)), sides)
    result = cut.from_cvxpy(model).solve(tol=1e-7)
    assert result.status == "OPTIMAL"
    assert result.objective == pytest.approx(model.solve("CLARABEL"), rel=1e-5)

from dataclasses import dataclass

import numpy as np
import pytest
from covering import covering
from scipy import sparse
from vector_risks import (
    LAYOUTS,
    check_derivative,
    features,
    right_derivative,
    some_zero,
)

import cutplane.losses.vector as losses_module
import cutplane.risks.data as scores_module
import cutplane.risks.matrix as matrix_module
from cutplane import L2, Problem
from cutplane.exceptions import InvalidInputError
from cutplane.losses.vector import MulticlassHinge, Softmax, VectorLoss
from cutplane.risks.data import score_sums, scores
from cutplane.risks.multiclass import MulticlassRisk
from cutplane.runtime.threads import get_threads, set_threads

M, N, P = 23, 5, 4
COST = np.abs(np.subtract.outer(np.arange(P), np.arange(P))) * np.array([[1.0], [2.0], [0.5], [0.0]])


@dataclass(frozen=True)
class Brier(VectorLoss):
    """A loss of the user's: squared distance from the unit vector of the label."""

    infimum = 0.0

    def value(self, s, y):
        return ((s - np.eye(s.shape[1])[y]) ** 2).sum(axis=1)

    def derivative(self, s, y):
        return 2.0 * (s - np.eye(s.shape[1])[y])


HINGES = [MulticlassHinge(), MulticlassHinge(COST)]
LOSSES = [*HINGES, Softmax(), Brier()]


def instance(seed=0, m=M, n=N, p=P):
    rng = np.random.default_rng(seed)
    return features(rng, m, n), rng.integers(0, p, m), some_zero(rng, m), rng


def plain(loss, s, y):
    """Loss and subgradient of one example by the definition."""
    if isinstance(loss, MulticlassHinge):
        heights = s - s[y] + (1.0 - np.eye(s.size) if loss.cost is None else loss.cost)[y]
        j = y if heights[y] == heights.max() else int(np.argmax(heights))
        return heights[j], np.eye(s.size)[j] - np.eye(s.size)[y]
    if isinstance(loss, Softmax):
        return np.logaddexp.reduce(s) - s[y], np.exp(s - np.logaddexp.reduce(s)) - np.eye(s.size)[y]
    return loss.value(s[np.newaxis], np.array([y]))[0], loss.derivative(s[np.newaxis], np.array([y]))[0]


@pytest.fixture
def small_parts(monkeypatch):
    """Parts so small that every pass takes many of them."""
    monkeypatch.setattr(losses_module, "_CHUNK", 3 * P)
    monkeypatch.setattr(scores_module, "_COST", 1e9)
    monkeypatch.setattr(matrix_module, "TILE", 12)
    monkeypatch.setattr(matrix_module, "RUN", 3)


@pytest.mark.parametrize(
    ("layout", "dtype", "loss", "intercept"),
    covering(LAYOUTS, [np.float32, np.float64], LOSSES, [False, True]),
    ids=str,
)
def test_multiclass_risk_is_its_formula(layout, dtype, loss, intercept, small_parts):
    X, y, sample_weight, rng = instance()
    X = X.astype(dtype)
    rows = np.column_stack([X, np.ones(M)]).astype(np.float64) if intercept else X.astype(np.float64)
    for weights, normalize in [(None, True), (None, False), (sample_weight, True), (sample_weight, False)]:
        c = np.ones(M) if weights is None else weights
        c = c / c.sum() if normalize else c
        f = MulticlassRisk(LAYOUTS[layout](X), y, loss, None, weights, normalize, intercept)
        assert (f.shape, f.dim, f.X.dtype) == ((P, N + intercept), P * (N + intercept), dtype)
        W = rng.standard_normal(f.shape)
        answers = [plain(loss, W @ row, label) for row, label in zip(rows, y, strict=True)]
        value, slope = f.oracle(W.ravel())
        assert value == pytest.approx(sum(c * np.array([a[0] for a in answers])), rel=1e-12)
        expected = sum(
            weight * np.outer(u, row) for weight, (_, u), row in zip(c, answers, rows, strict=True)
        )
        np.testing.assert_allclose(slope, expected.ravel(), atol=1e-13)
        np.testing.assert_allclose(f.image(W.ravel()), rows @ W.T, atol=1e-13)
        assert f.infima.tolist() == [0.0] and slope.dtype == np.float64


@pytest.mark.parametrize("p", [1, 2, 3, 7])
def test_passes_for_several_vectors(p):
    rng = np.random.default_rng(0)
    for shape in [(1, 1), (1, 9), (9, 1), (3000, 40), (40, 3000)]:
        X = rng.standard_normal(shape) * (rng.random(shape) < 0.3)
        W, U = rng.standard_normal((p, shape[1])), rng.standard_normal((shape[0], p))
        U[rng.random(U.shape) < 0.7] = 0.0
        for layout in LAYOUTS.values():
            for dtype in (np.float32, np.float64):
                A = X.astype(dtype).astype(np.float64)
                laid_out = layout(X.astype(dtype))
                laid_out = laid_out.tocsr() if getattr(laid_out, "format", "") == "coo" else laid_out
                np.testing.assert_allclose(scores(laid_out, W), A @ W.T, atol=1e-11)
                np.testing.assert_allclose(score_sums(laid_out, U), U.T @ A, atol=1e-11)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("layout", ["C", "csr"])
def test_results_do_not_depend_on_the_number_of_threads(loss, layout, small_parts):
    X, y, weights, rng = instance()
    f = MulticlassRisk(LAYOUTS[layout](X), y, loss, sample_weight=weights)
    x0, x1 = rng.standard_normal((2, f.dim))
    before, answers = get_threads(), []
    try:
        for threads in (1, 3):
            set_threads(threads)
            z0 = f.image(x0)
            answers.append((f.values(z0), f.slopes(z0).tolist(), f.line(z0, f.image(x1))(0.7)))
    finally:
        set_threads(before)
    assert answers[0] == answers[1]


def test_newton_derivatives_of_softmax(small_parts):
    X, y, weights, rng = instance()
    f = MulticlassRisk(X, y, Softmax(), sample_weight=weights)
    line = f.line(*map(f.image, rng.standard_normal((2, f.dim))))
    for t in (0.0, 0.4, 1.7):
        slope, curvature = line.newton(t)
        assert slope == line(t)[1]
        assert curvature == pytest.approx((line(t + 1e-5)[1] - line(t - 1e-5)[1]) / 2e-5, rel=1e-7)


def test_a_sample_of_many_examples_estimates_the_derivative():
    rng = np.random.default_rng(0)
    m = 20_000
    f = MulticlassRisk(np.zeros((m, 1)), rng.integers(0, P, m), n_classes=P)
    z0, z1 = rng.standard_normal((2, m, P))
    derivative = f.line(z0, z1).derivative
    rough, deviation = derivative.estimate()
    whole = derivative.between(0.0, np.inf)
    assert rough.kinks.size < 0.3 * whole.kinks.size
    for t in (0.0, 0.3, 1.0, 3.0):
        assert abs(right_derivative(rough, t) - right_derivative(whole, t)) < 4.0 * deviation < 0.5
        assert derivative(t)[0] == pytest.approx(right_derivative(whole, t))
    few, none = f.loss.line(z0[:9], z1[:9], f.y[:9], f.weights[:9]).derivative.estimate()
    assert none == 0.0 and few.kinks.size > 0
    alike = f.loss.line(
        np.tile(z0[0], (m, 1)), np.tile(z1[0], (m, 1)), np.zeros(m, int), f.weights
    ).derivative
    assert alike.estimate()[1] < 1e-6 < abs(alike.estimate()[0].slope)


def test_an_envelope_of_many_lines():
    """All p lines of one example appear, tangents of a parabola: more kinks than there is room for first."""
    p = 40
    f = MulticlassRisk(np.ones((3, 1)), [0, 0, 0], n_classes=p, normalize=False)
    touch = np.arange(p) - 1.0
    z0 = np.tile(np.where(touch < 0, 0.0, -1.0 - 0.5 * touch**2), (3, 1))
    whole = check_derivative(f.line(z0, z0 + np.where(touch < 0, 0.0, touch)))
    assert whole.kinks.size == 3 * (p - 2)
    np.testing.assert_allclose(np.sort(whole.kinks), np.repeat(np.arange(p - 2) + 0.5, 3), rtol=1e-12)
    assert whole.slope_jumps.tolist() == [1.0] * (3 * (p - 2))


def test_ties_are_broken_for_the_true_class_then_the_first():
    y = np.array([1])
    loss = MulticlassHinge()
    assert loss.derivative(np.array([[0.0, 1.0, 0.0]]), y).tolist() == [[0.0, 0.0, 0.0]]
    assert loss.derivative(np.array([[0.5, 1.0, 0.5]]), y).tolist() == [[1.0, -1.0, 0.0]]
    along = loss.directional(np.array([[0.0, 1.0, 0.0]]), y, np.array([[1.0, 0.0, 3.0]]))
    assert along.tolist() == [3.0]


def test_softmax_does_not_overflow():
    s, y = np.array([[1e4, 0.0, -1e4]] * 3), np.array([0, 1, 2])
    loss = Softmax()
    np.testing.assert_array_equal(loss.value(s, y), [0.0, 1e4, 2e4])
    np.testing.assert_array_equal(loss.derivative(s, y), [[0, 0, 0], [1, -1, 0], [1, 0, -1]])
    assert loss.line(s, -s, y, np.ones(3))(0.0) == (3e4, -3e4)


def test_two_classes_are_the_binary_losses():
    from cutplane.losses import Hinge, Logistic
    from cutplane.risks import LinearRisk

    X, y, weights, rng = instance(p=2)
    w = rng.standard_normal(N)
    W = np.concatenate([-0.5 * w, 0.5 * w])
    for vector, scalar in [(MulticlassHinge(), Hinge()), (Softmax(), Logistic())]:
        f, g = MulticlassRisk(X, y, vector, None, weights), LinearRisk(X, 2.0 * y - 1.0, scalar, weights)
        assert f.oracle(W)[0] == pytest.approx(g.oracle(w)[0], rel=1e-12)
        half = np.split(f.oracle(W)[1], 2)
        np.testing.assert_allclose(0.5 * (half[1] - half[0]), g.oracle(w)[1], atol=1e-13)


@pytest.mark.parametrize("loss", [MulticlassHinge(), Softmax()], ids=repr)
def test_one_class_costs_nothing(loss):
    f = MulticlassRisk(np.eye(2), [0, 0], loss)
    value, slope = f.oracle(np.ones(2))
    assert f.shape == (1, 2) and value == 0.0 and not slope.any()
    assert Problem(f, L2(1.0)).solve(tol=1e-6).objective == 0.0


def test_infima_of_a_loss_without_a_known_one():
    class Linear(VectorLoss):
        def value(self, s, y):
            return s.sum(axis=1)

        def derivative(self, s, y):
            return np.ones_like(s)

    assert MulticlassRisk(np.eye(2), [0, 1], Linear()).infima.tolist() == [-np.inf]
    assert MulticlassRisk(np.eye(2), [0, 1], Linear(), None, [0, 0], False).infima.tolist() == [0.0]


def test_repr():
    X, y, _, _ = instance()
    assert repr(MulticlassRisk(X, y)) == "MulticlassRisk(MulticlassHinge(), 23 x 5 dense float64, 4 classes)"
    f = MulticlassRisk(sparse.csc_array(X.astype("f")), y, MulticlassHinge(COST), intercept=True)
    expected = "MulticlassRisk(MulticlassHinge(cost=<4x4 matrix>), 23 x 5 csc float32, 4 classes, intercept)"
    assert repr(f) == expected


E2 = np.eye(2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (E2, [0, 1], MulticlassHinge),
            r"loss must be MulticlassHinge\(\), Softmax\(\) or another VectorLoss",
        ),
        ((E2, [0, 1], "hinge"), "got 'hinge'"),
        ((np.ones((0, 2)), []), "at least one row"),
        ((E2, [0, 1, 1]), r"y must have one label per row of X, shape \(2,\), got \(3,\)"),
        ((E2, [[0, 1]]), r"got \(1, 2\)"),
        ((E2, ["a", "b"]), r"of dtype <U1; encode y as numpy.unique\(y, return_inverse=True\)\[1\]"),
        ((E2, [-1, 1]), r"y\[0\] is -1"),
        ((E2, [0.0, 1.5]), r"y\[1\] is 1.5"),
        ((E2, [1, 2], Softmax(), 2), r"n_classes is 2, but y\[1\] is 2; .*pass at least n_classes=3"),
        ((E2, [0, 1], Softmax(), 0), "n_classes must be at least 1"),
        ((E2, [0, 1], Softmax(), 2.5), "n_classes must be an integer"),
        (
            (E2, [0, 1], MulticlassHinge(np.zeros((3, 3)))),
            r"cost has shape \(3, 3\), but there are 2 classes",
        ),
    ],
)
def test_errors(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        MulticlassRisk(*arguments)


@pytest.mark.parametrize(
    ("cost", "message"),
    [
        ([[0.0, 1.0]], r"square matrix, .* got shape \(1, 2\)"),
        (np.zeros((0, 0)), r"got shape \(0, 0\)"),
        ([1.0], r"got shape \(1,\)"),
        ([[0.0, -1.0], [1.0, 0.0]], r"cost\[0, 1\] is -1; every cost must be at least 0"),
        ([[0.0, 1.0], [1.0, 2.0]], r"cost\[1, 1\] is 2; the true class must cost nothing"),
    ],
)
def test_errors_of_the_cost(cost, message):
    with pytest.raises(InvalidInputError, match=message):
        MulticlassHinge(cost)

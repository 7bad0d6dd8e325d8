import numpy as np
import pytest
from covering import covering
from scipy import sparse
from vector_risks import LAYOUTS, features, some_zero

from cutplane import L2, Problem
from cutplane.exceptions import InvalidInputError
from cutplane.losses import Exponential, Hinge, Huber, Logistic, ModifiedHuber, SquaredHinge
from cutplane.risks.ordinal import OrdinalRisk

M, N, R = 23, 5, 4
LOSSES = [Hinge(), SquaredHinge(), ModifiedHuber(), Logistic(), Exponential()]
KINDS = ["all", "immediate"]


def instance(seed=0, m=M, n=N):
    rng = np.random.default_rng(seed)
    X = features(rng, m, n)
    return X, rng.integers(0, R, m), some_zero(rng, m), rng


def plain(loss, kind, X, y, c, x):
    """The value and a subgradient by the definition, example by example and threshold by threshold."""
    n = X.shape[1]
    value, slope = 0.0, np.zeros_like(x)
    for row, level, weight in zip(X, y, c, strict=True):
        for j in range(R - 1):
            if kind == "immediate" and j not in (level - 1, level):
                continue
            sign = 1.0 if level > j else -1.0
            margin = sign * (row @ x[:n] - x[n + j])
            u = weight * sign * loss.derivative(margin, 1.0)
            value += weight * loss.value(margin, 1.0)
            slope[:n] += u * row
            slope[n + j] -= u
    return value, slope


@pytest.mark.parametrize(
    ("layout", "dtype", "loss", "kind"),
    covering(LAYOUTS, [np.float32, np.float64], LOSSES, KINDS),
    ids=str,
)
def test_ordinal_risk_is_its_formula(layout, dtype, loss, kind):
    X, y, sample_weight, rng = instance()
    X = X.astype(dtype)
    for weights, normalize in [(None, True), (None, False), (sample_weight, True), (sample_weight, False)]:
        c = np.ones(M) if weights is None else weights
        c = c / c.sum() if normalize else c
        f = OrdinalRisk(LAYOUTS[layout](X), y, loss, kind, R, weights, normalize)
        x = rng.standard_normal(N + R - 1)
        value, slope = plain(loss, kind, X.astype(np.float64), y, c, x)
        assert (f.dim, f.X.dtype) == (x.size, dtype)
        assert f.oracle(x)[0] == pytest.approx(value, rel=1e-12)
        np.testing.assert_allclose(f.oracle(x)[1], slope, atol=1e-12)
        assert f.infima.tolist() == [0.0]


@pytest.mark.parametrize("kind", KINDS)
def test_two_levels_are_a_classifier_with_a_bias(kind):
    from cutplane.risks import LinearRisk

    X, y, weights, rng = instance()
    y = y // 2
    for loss in LOSSES:
        f = OrdinalRisk(X, y, loss, kind, sample_weight=weights)
        g = LinearRisk(np.column_stack([X, -np.ones(M)]), 2.0 * y - 1.0, loss, weights)
        x = rng.standard_normal(N + 1)
        assert f.oracle(x)[0] == pytest.approx(g.oracle(x)[0], rel=1e-12)
        np.testing.assert_allclose(f.oracle(x)[1], g.oracle(x)[1], atol=1e-12)


def test_overflow_is_infinite_with_zero_slope():
    f = OrdinalRisk(np.array([[1.0], [0.0]]), [0, 1], Exponential())
    far = np.array([1e4, 0.0])
    value, slope = f.oracle(far)
    assert value == np.inf and not slope.any()
    line = f.line(f.image(np.zeros(2)), f.image(far))
    assert line(1.0) == (np.inf, np.inf) and np.isfinite(line(0.01)).all()
    weightless = OrdinalRisk(np.array([[1.0], [0.0]]), [0, 1], Exponential(), sample_weight=[0, 1])
    assert np.isfinite(weightless.oracle(far)[0])


def test_the_best_thresholds_are_in_order_and_predict():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    y = np.digitize(X @ [1.0, -2.0, 0.5], [-1.5, 0.0, 1.0])
    f = OrdinalRisk(X, y)
    x = Problem(f, L2(1e-4, weights=np.append(np.ones(3), np.zeros(3)))).solve(tol=1e-6).x
    assert (np.diff(x[3:]) > 0.0).all()
    levels = (X @ x[:3] > x[3:, np.newaxis]).sum(axis=0)
    np.testing.assert_array_equal(f.predict_levels(x), levels)
    np.testing.assert_array_equal(f.predict_levels(x, sparse.csr_array(X[:7])), levels[:7])
    assert np.mean(levels == y) > 0.95


def test_levels_are_the_number_of_thresholds_exceeded_in_any_order():
    f = OrdinalRisk(np.array([[0.0], [1.0], [2.0], [3.0]]), [0, 1, 2, 2], thresholds="immediate")
    assert f.predict_levels(np.array([1.0, 2.0, 0.5])).tolist() == [0, 1, 1, 2]


def test_all_weights_zero_is_the_zero_function_if_not_normalized():
    f = OrdinalRisk(np.eye(2), [0, 1], Hinge(), sample_weight=[0.0, 0.0], normalize=False)
    value, slope = f.oracle(np.ones(3))
    assert value == 0.0 and not slope.any() and f.infima.tolist() == [0.0]
    assert f.line(*map(f.image, (np.zeros(3), np.ones(3))))(1.0) == (0.0, 0.0)


def test_repr():
    f = OrdinalRisk(sparse.csr_array(np.eye(3, dtype="f")), [0, 2, 1], Logistic(), "immediate")
    assert repr(f) == "OrdinalRisk(Logistic(), 3 x 3 csr float32, 3 levels, immediate)"


E2 = np.eye(2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((E2, [0, 1], Hinge), r"loss must be a loss of the margin, such as cutplane.losses.Hinge\(\)"),
        ((E2, [0, 1], Huber()), r"got Huber\(delta=1.0\)"),
        ((E2, [0, 1], Hinge(), "some"), 'thresholds must be "all" or "immediate", got \'some\''),
        ((E2, [0, 0]), "at least 2 levels, but all y are 0; pass n_levels"),
        ((E2, [0, 2], Hinge(), "all", 2), r"n_levels is 2, but y\[1\] is 2"),
        ((E2, [0.5, 1]), r"y\[0\] is 0.5"),
    ],
)
def test_errors(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        OrdinalRisk(*arguments)

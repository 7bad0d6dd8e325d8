import pickle
from itertools import pairwise

import cvxpy as cp
import numpy as np
import pytest
from covering import covering
from linear_cases import CLASSIFICATION as BINARY
from linear_cases import REGRESSION
from scipy import sparse
from scipy.optimize import linprog
from vector_risks import LAYOUTS, features, some_zero

from cutplane.exceptions import InvalidInputError
from cutplane.losses import (
    Absolute,
    EpsilonInsensitive,
    Exponential,
    Hinge,
    Huber,
    Pieces,
    Poisson,
    ScalarLoss,
    Squared,
)
from cutplane.pieces.capabilities import Capability, offers
from cutplane.risks import LinearRisk

LOSSES = [*BINARY, *REGRESSION]
M, N = 23, 5


def instance(loss, seed=0, m=M, n=N):
    """Data with an empty row, duplicate rows and a zero column, targets, and weights, some of them zero."""
    rng = np.random.default_rng(seed)
    X = features(rng, m, n)
    signs = np.where(rng.random(m) < 0.5, 1.0, -1.0)
    y = signs if loss in BINARY else rng.poisson(2.0, m).astype(float)
    return X, y, some_zero(rng, m), rng


def plain(loss, X, y, c, w):
    """The value and the subgradient of each example, by the definition."""
    z = X.astype(np.float64) @ w
    return c * loss.value(z, y), (c * loss.derivative(z, y))[:, np.newaxis] * X.astype(np.float64)


@pytest.mark.parametrize(
    ("layout", "dtype", "loss"), covering(LAYOUTS, [np.float32, np.float64], LOSSES), ids=str
)
def test_linear_risk_is_its_formula(layout, dtype, loss):
    X, y, sample_weight, rng = instance(loss)
    X = X.astype(dtype)
    w = rng.standard_normal(N)
    for weights, normalize, blocks in [
        (None, True, 1),
        (None, False, 4),
        (sample_weight, True, M),
        (sample_weight, False, 1),
        (sample_weight, True, 3),
    ]:
        c = np.ones(M) if weights is None else weights
        c = c / c.sum() if normalize else c
        f = LinearRisk(LAYOUTS[layout](X), y, loss, weights, normalize, blocks)
        assert (f.dim, f.n_blocks, f.X.dtype) == (N, blocks, dtype)
        values, slopes = plain(loss, X, y, c, w)
        parts = np.array_split(
            np.arange(M), blocks
        )  # unequal blocks may be cut elsewhere: compare the sums too
        value, slope = f.oracle(w)
        assert np.shape(value) == (() if blocks == 1 else (blocks,))
        assert slope.shape == ((N,) if blocks == 1 else (blocks, N)) and slope.dtype == np.float64
        np.testing.assert_allclose(np.sum(value), values.sum(), rtol=1e-13)
        np.testing.assert_allclose(np.reshape(slope, (-1, N)).sum(axis=0), slopes.sum(axis=0), atol=1e-13)
        if M % blocks == 0:
            np.testing.assert_allclose(np.ravel(value), [values[p].sum() for p in parts], atol=1e-14)
            np.testing.assert_allclose(
                np.reshape(slope, (-1, N)), [slopes[p].sum(axis=0) for p in parts], atol=1e-13
            )
        np.testing.assert_allclose(f.image(w), X.astype(np.float64) @ w, atol=1e-13)
        assert (np.ravel(value) >= f.infima - 1e-12).all() and np.isfinite(f.infima).all()
        np.testing.assert_allclose(f.infima.sum(), (c * loss.infimum(y)).sum(), atol=1e-13)
        biased = LinearRisk(LAYOUTS[layout](X), y, loss, weights, normalize, blocks, intercept=True)
        appended = LinearRisk(np.c_[X, np.ones(M)], y, loss, weights, normalize, blocks)
        for x in (np.append(w, 0.0), np.append(w, -0.7)):
            for ours, theirs in zip(biased.oracle(x), appended.oracle(x), strict=True):
                assert np.shape(ours) == np.shape(theirs)
                np.testing.assert_allclose(ours, theirs, atol=1e-12)
            np.testing.assert_allclose(biased.image(x), appended.image(x), atol=1e-13)
        np.testing.assert_array_equal(biased.infima, f.infima)
        assert biased.dim == N + 1 and biased.X.shape == (M, N)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("blocks", [2, 5, 22])
def test_blocks_are_contiguous_of_nearly_equal_size_and_convex(layout, blocks):
    X, y, _, rng = instance(Hinge())
    f = LinearRisk(LAYOUTS[layout](X.astype(np.float32)), y, Absolute(), normalize=False, blocks=blocks)
    edges = [k * M // blocks for k in range(blocks + 1)]
    assert set(np.diff(edges)) <= {M // blocks, M // blocks + 1}
    w = rng.standard_normal(N)
    for k, (start, stop) in enumerate(pairwise(edges)):
        part = LinearRisk(X.astype(np.float32)[start:stop], y[start:stop], Absolute(), normalize=False)
        value, slope = part.oracle(w)
        assert f.oracle(w)[0][k] == pytest.approx(value, abs=1e-12)
        np.testing.assert_allclose(f.oracle(w)[1][k], slope, atol=1e-12)


def test_pickling_stores_the_data_once():
    X, y, _, rng = instance(Hinge(), m=200)
    A = sparse.csr_array(X.astype(np.float32))
    f = LinearRisk(A, y, Hinge())
    w = rng.standard_normal(N)
    f.oracle(w)
    stored = pickle.dumps(f)
    np.testing.assert_array_equal(pickle.loads(stored).oracle(w)[1], f.oracle(w)[1])
    # A second copy of y alone adds 1600 bytes to the 800 to 1100 of the loss, whose outline others share.
    assert len(stored) < len(pickle.dumps((A, f.y, f.weights))) + 2000


@pytest.mark.parametrize("loss", [Exponential(), Poisson()], ids=repr)
@pytest.mark.parametrize("blocks", [1, 2])
def test_overflow_is_infinite_with_zero_slope(loss, blocks):
    f = LinearRisk(
        np.array([[1.0], [1e-3], [0.0]]),
        [-1.0, 1.0, 1.0] if loss in BINARY else [1, 1, 1],
        loss,
        blocks=blocks,
    )
    value, slope = f.oracle(np.array([1e4]))
    assert np.sum(value) == np.inf and not np.isnan(value).any()
    assert np.isfinite(slope).all()
    line = f.line(f.image(np.zeros(1)), f.image(np.array([1e4])))
    assert line(1.0) == (np.inf, np.inf)
    assert np.isfinite(line(0.01)).all()
    reversed_line = f.line(f.image(np.array([1e4])), f.image(np.zeros(1)))
    assert reversed_line(0.0) == (np.inf, -np.inf)
    nowhere_finite = LinearRisk(
        [[1.0, 0.0], [0.0, 1.0]], f.y[:2] * [1.0, -1.0] if loss in BINARY else [1, 1], loss
    )
    assert nowhere_finite.line(np.array([1e4, 0.0]), np.array([1e4, 1.0]))(0.5) == (np.inf, 0.0)
    weightless = LinearRisk(
        [[1.0], [0.0]], [-1.0, 1.0] if loss in BINARY else [1, 1], loss, sample_weight=[0, 1]
    )
    assert weightless.oracle(np.array([1e4])) == (pytest.approx(float(loss.value(0.0, 1.0))), np.zeros(1))
    assert np.isfinite(weightless.line(np.array([0.0, 0.0]), np.array([1e4, 0.0]))(1.0)).all()


def test_linear_risk_withholds_what_its_loss_does_not_offer():
    class Quartic(ScalarLoss):
        def value(self, t, y):
            return (t - y) ** 4

        def derivative(self, t, y):
            return 4.0 * (t - y) ** 3

    f = LinearRisk(np.eye(2), [1.0, 2.0], Quartic(), sample_weight=[1.0, 0.0])
    assert not offers(f, Capability.CVXPY) and offers(f, Capability.LINE)
    assert offers(LinearRisk(np.eye(2), [1.0, 2.0], Squared()), Capability.CVXPY)
    assert f.infima.tolist() == [-np.inf]
    assert f.line(np.zeros(2), np.ones(2)).kinks is None


E2 = np.eye(2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((E2, [1, -1], Hinge), r"loss must be a loss such as cutplane.losses.Hinge\(\)"),
        ((E2, [1, -1], "hinge"), "got 'hinge'"),
        ((np.ones(3), [1, 1, 1], Hinge()), r"X must have two dimensions, got shape \(3,\)"),
        ((np.ones((0, 2)), [], Hinge()), "at least one row and one column"),
        ((np.ones((2, 0)), [1, 1], Hinge()), "at least one row and one column"),
        ((sparse.csr_array((0, 3)), [], Hinge()), "at least one row"),
        ((E2, [1, -1, 1], Hinge()), r"one target per row of X, shape \(2,\), got \(3,\)"),
        ((E2, [0, 1], Hinge()), r"pass 2\.0 \* y - 1\.0"),
        ((E2, [1, -1], Hinge(), [1.0]), r"sample_weight must have shape \(2,\)"),
        ((E2, [1, -1], Hinge(), [1.0, -2.0]), r"sample_weight\[1\] is -2"),
        ((E2, [1, -1], Hinge(), [0.0, 0.0]), "sample_weight is zero for every example"),
        ((E2, [1, -1], Hinge(), None, True, 3), "blocks must be at most the number of examples, 2, got 3"),
        ((E2, [1, -1], Hinge(), None, True, 0), "blocks must be at least 1"),
        ((E2, [1, -1], Hinge(), None, True, 1, "yes"), "intercept must be True or False, got 'yes'"),
    ],
)
def test_linear_risk_errors(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        LinearRisk(*arguments)


def test_all_weights_zero_is_the_zero_function_if_not_normalized():
    f = LinearRisk(E2, [1, -1], Hinge(), [0.0, 0.0], normalize=False)
    value, slope = f.oracle(np.ones(2))
    assert value == 0.0 and not slope.any() and f.infima.tolist() == [0.0]


class Lowered(ScalarLoss):
    """max((y - t) / 2, t - y) - 5."""

    def outline(self):
        return Pieces([0.0], [-0.5, 1.0], value=-5.0)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", [Absolute(), EpsilonInsensitive(0.3), Lowered()], ids=repr)
def test_the_programme_of_a_piecewise_linear_loss_has_its_minimum(loss, intercept):
    X, y, weights, _ = instance(loss)
    risk = LinearRisk(X, y, loss, weights, intercept=intercept)
    programme = risk.programme_form().build()
    form, w = programme.linear, cp.Variable(risk.dim)
    below, above = np.isfinite(form.row_lower), np.isfinite(form.row_upper)
    rows = sparse.vstack([form.rows[above], -form.rows[below]])
    sides = np.append(form.row_upper[above], -form.row_lower[below])
    bounds = np.column_stack([form.lower, form.upper])
    least = linprog(form.cost, rows, sides, bounds=bounds).fun + programme.constant
    assert least == pytest.approx(cp.Problem(cp.Minimize(risk.cvxpy_form(w))).solve("CLARABEL"), abs=1e-6)


def test_linear_risk_repr():
    X, y, _, _ = instance(Hinge())
    assert repr(LinearRisk(X, y, Hinge())) == "LinearRisk(Hinge(), 23 x 5 dense float64)"
    f = LinearRisk(sparse.csc_array(X.astype("f")), y, Huber(2), blocks=3)
    assert repr(f) == "LinearRisk(Huber(delta=2.0), 23 x 5 csc float32, 3 blocks)"
    f = LinearRisk(X, y, Huber(2), blocks=3, intercept=True)
    assert repr(f) == "LinearRisk(Huber(delta=2.0), 23 x 5 dense float64, intercept, 3 blocks)"

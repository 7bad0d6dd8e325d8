import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from cutplane.exceptions import InvalidInputError
from cutplane.losses import (
    Absolute,
    EpsilonInsensitive,
    Exponential,
    Hinge,
    Huber,
    Logistic,
    ModifiedHuber,
    Poisson,
    Quantile,
    ScalarLoss,
    Squared,
    SquaredHinge,
)

BINARY = [Hinge(), SquaredHinge(), ModifiedHuber(), Logistic(), Exponential()]
RESIDUAL = [
    Squared(),
    Absolute(),
    Quantile(),
    Quantile(0.9),
    EpsilonInsensitive(0.25),
    EpsilonInsensitive(0.0),
    Huber(),
    Huber(0.25),
]
LOSSES = [*BINARY, *RESIDUAL, Poisson()]
SMOOTH = [
    SquaredHinge(),
    ModifiedHuber(),
    Logistic(),
    Exponential(),
    Squared(),
    Huber(),
    Huber(0.25),
    Poisson(),
]
each_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)


def targets(loss):
    # Binary fractions, as the parameters are: the residuals at the knots are then exact.
    if loss in BINARY:
        return np.array([-1.0, 1.0, 1.0, -1.0])
    return np.array([0.0, 1.0, 4.0, 2.5]) if isinstance(loss, Poisson) else np.array([-2.0, 0.0, 0.25, 1.75])


def awkward_predictions(loss):
    """Rows of predictions: a grid, and the knots exactly."""
    y = targets(loss)
    grid = np.repeat(np.linspace(-4.0, 4.0, 81)[:, np.newaxis], y.size, axis=1)
    pieces = loss.pieces(y)
    return grid if pieces is None else np.vstack([grid, pieces.knots])


# Each formula once more, in plain Python and for one example: an independent statement of the conventions.
FORMULAS = {
    Hinge: lambda t, y, _: max(0.0, 1 - y * t),
    SquaredHinge: lambda t, y, _: max(0.0, 1 - y * t) ** 2,
    ModifiedHuber: lambda t, y, _: max(0.0, 1 - y * t) ** 2 if y * t >= -1 else -4 * y * t,
    Logistic: lambda t, y, _: np.log(1 + np.exp(-y * t)),
    Exponential: lambda t, y, _: np.exp(-y * t),
    Squared: lambda t, y, _: (t - y) ** 2 / 2,
    Absolute: lambda t, y, _: abs(t - y),
    Quantile: lambda t, y, loss: max(loss.tau * (y - t), (loss.tau - 1) * (y - t)),
    EpsilonInsensitive: lambda t, y, loss: max(0.0, abs(t - y) - loss.epsilon),
    Huber: lambda t, y, loss: (
        (t - y) ** 2 / 2 if abs(t - y) <= loss.delta else loss.delta * (abs(t - y) - loss.delta / 2)
    ),
    Poisson: lambda t, y, _: np.exp(t) - y * t,
}


@each_loss
def test_value_is_the_documented_formula(loss):
    assert type(loss) in FORMULAS, f"add {type(loss).__name__} to FORMULAS of this file"
    y, T = targets(loss), awkward_predictions(loss)
    expected = [[FORMULAS[type(loss)](t, label, loss) for t, label in zip(row, y, strict=True)] for row in T]
    np.testing.assert_allclose(loss.value(T, y), expected, rtol=1e-13, atol=1e-13)


@each_loss
@pytest.mark.parametrize("d", [1.0, -1.0, 2.5])
def test_directional_derivative_matches_one_sided_differences(loss, d):
    y, T, h = targets(loss), awkward_predictions(loss), 1e-6
    difference = (loss.value(T + h * d, y) - loss.value(T, y)) / h
    # A knot of the grid may lie within h of a point by rounding, on either side of it: leave those out.
    pieces = loss.pieces(y)
    clear = np.ones(T.shape, dtype=bool)
    if pieces is not None:
        distance = T[:, np.newaxis, :] - pieces.knots
        clear = (np.abs(distance).min(axis=1, initial=np.inf) > 1e-9) | (distance == 0.0).any(axis=1)
    assert clear.sum() > 300
    np.testing.assert_allclose(
        np.broadcast_to(loss.directional(T, y, d), T.shape)[clear], difference[clear], rtol=1e-5, atol=3e-5
    )


@each_loss
def test_derivative_is_the_right_derivative(loss):
    y, T = targets(loss), awkward_predictions(loss)
    np.testing.assert_array_equal(loss.derivative(T, y), loss.directional(T, y, 1.0))


@pytest.mark.parametrize("loss", SMOOTH, ids=repr)
def test_smooth_losses_have_linear_directional_derivatives(loss):
    y, T = targets(loss), awkward_predictions(loss)
    np.testing.assert_allclose(loss.directional(T, y, -1.0), -loss.derivative(T, y))


@each_loss
@given(st.floats(-30, 30), st.floats(-30, 30))
def test_derivative_is_a_subgradient(loss, t, other):
    y = targets(loss)
    value, at_other = loss.value(t, y), loss.value(other, y)
    cut = value + loss.derivative(t, y) * (other - t)
    assert (at_other >= cut - 1e-12 * (1 + np.abs(value) * (1 + abs(other - t)))).all()


@each_loss
@given(st.floats(-20, 20), st.floats(-30, 30))
def test_fenchel_young(loss, t, u):
    y = targets(loss)
    value, slope = loss.value(t, y), loss.derivative(t, y)
    assert (value + loss.conjugate(u, y) >= u * t - 1e-10 * (1 + np.abs(value))).all()
    gap = value + loss.conjugate(slope, y) - slope * t
    np.testing.assert_allclose(gap, 0.0, atol=1e-11 * (1 + np.abs(value) * (1 + abs(t))).max())


@each_loss
def test_conjugate_is_the_supremum(loss):
    y = targets(loss)
    steepest, flattest = loss.derivative(-4.0, y), loss.derivative(4.0, y)
    for share in (0.1, 0.37, 0.5, 0.8):
        u = steepest + share * (flattest - steepest)
        conjugate = loss.conjugate(u, y)
        for i in range(y.size):
            best = minimize_scalar(
                lambda t, i=i, u=u: loss.value(t, y[i]) - u[i] * t,
                bounds=(-6.0, 6.0),
                method="bounded",
                options={"xatol": 1e-10},
            )
            assert conjugate[i] == pytest.approx(-best.fun, abs=1e-6)


@each_loss
def test_conjugate_is_infinite_where_the_supremum_is(loss):
    y, far = targets(loss), 200.0
    for end in (-far, far):
        limit = loss.derivative(end, y)
        beyond = limit + np.sign(end) * 0.01 * (1 + np.abs(limit))
        runaway = beyond * end - loss.value(end, y) > beyond * end / 2 - loss.value(end / 2, y) + 0.1
        bounded_slope = np.abs(loss.derivative(2 * end, y) - limit) < 1e-9
        outside = np.isinf(loss.conjugate(beyond, y))
        np.testing.assert_array_equal(outside, runaway & bounded_slope)


@pytest.mark.parametrize("loss", [x for x in LOSSES if x.pieces(targets(x)) is not None], ids=repr)
def test_pieces_reproduce_the_slopes_of_the_loss(loss):
    y, T = targets(loss), awkward_predictions(loss)
    pieces = loss.pieces(y)
    k = pieces.knots.shape[0]
    assert pieces.slopes.shape == pieces.curvatures.shape == (k + 1, y.size)
    assert (np.diff(pieces.knots, axis=0) >= 0).all()
    for t in T:
        for d, after in ((-1.0, t > pieces.knots), (1.0, t >= pieces.knots)):
            piece, columns = after.sum(axis=0), np.arange(y.size)
            slopes = pieces.slopes[piece, columns] + pieces.curvatures[piece, columns] * t
            np.testing.assert_allclose(d * slopes, loss.directional(t, y, d), atol=1e-12)


def test_the_losses_without_pieces_are_the_transcendental_ones():
    without = {type(loss) for loss in LOSSES if loss.pieces(targets(loss)) is None}
    assert without == {Logistic, Exponential, Poisson}


@each_loss
def test_infimum(loss):
    y = targets(loss)
    if isinstance(loss, Poisson):
        y = np.append(y, 1e-3)
    least = loss.value(np.linspace(-40.0, 40.0, 200_001)[:, np.newaxis], y).min(axis=0)
    infimum = loss.infimum(y)
    assert infimum.shape == y.shape
    assert (least >= infimum - 1e-12).all()
    np.testing.assert_allclose(least, infimum, atol=1e-7)


@each_loss
def test_cvxpy_form_has_the_same_values_and_is_convex(loss):
    y = targets(loss)
    t = cp.Variable(y.size)
    form = loss.cvxpy_form(t, y)
    assert form.shape == (y.size,)
    assert form.is_dcp() and form.is_convex()
    for row in awkward_predictions(loss)[::5]:
        t.value = row
        np.testing.assert_allclose(form.value, loss.value(row, y), atol=1e-12)


@each_loss
@pytest.mark.parametrize("t", [-1000.0, 1000.0])
def test_extreme_predictions_raise_no_warning(loss, t):
    y = targets(loss)
    value, slope = loss.value(t, y), loss.derivative(t, y)
    loss.directional(np.full(4, t), y, np.zeros(4))
    assert not np.isnan(value).any() and not np.isnan(slope).any()
    if not isinstance(loss, Exponential | Poisson):
        assert np.isfinite(value).all() and np.isfinite(slope).all()


def test_logistic_is_accurate_in_both_tails():
    t = np.array([-1000.0, -40.0, 40.0, 1000.0])
    np.testing.assert_allclose(Logistic().value(t, 1.0), [1000.0, 40.0 + np.exp(-40.0), np.exp(-40.0), 0.0])
    np.testing.assert_allclose(Logistic().derivative(t, 1.0), [-1.0, -1.0, -np.exp(-40.0), 0.0])


@pytest.mark.parametrize("loss", BINARY, ids=repr)
@pytest.mark.parametrize(
    ("y", "remedy"),
    [
        ([0, 1, 1], r"\{0, 1\}; pass 2\.0 \* y - 1\.0"),
        ([0, 0], r"2\.0 \* y"),
        ([1, -1, 2], r"y\[2\] is 2; pass np.where"),
    ],
)
def test_labels_must_be_signs(loss, y, remedy):
    with pytest.raises(InvalidInputError, match=type(loss).__name__ + ".*" + remedy):
        loss.check_targets(y)


@each_loss
@pytest.mark.parametrize("y", [[1.0, np.nan], [np.inf], [[1.0], [1.0]], "ab"])
def test_targets_must_be_a_finite_vector(loss, y):
    with pytest.raises(InvalidInputError, match="y"):
        loss.check_targets(y)


@each_loss
def test_good_targets_come_back_as_float64(loss):
    y = loss.check_targets([1, 1] if loss not in BINARY else [1, -1])
    assert y.dtype == np.float64 and y.shape == (2,)


def test_poisson_refuses_negative_counts():
    with pytest.raises(InvalidInputError, match=r"y\[1\] is -1"):
        Poisson().check_targets([3, -1])


@pytest.mark.parametrize(
    ("loss", "bad"),
    [
        (Quantile, [0.0, 1.0, -1, np.nan, "a"]),
        (EpsilonInsensitive, [-0.1, np.inf, None]),
        (Huber, [0.0, -1, np.inf, True]),
    ],
)
def test_parameters_out_of_range(loss, bad):
    for value in bad:
        with pytest.raises(InvalidInputError, match=loss.__name__):
            loss(value)


def test_losses_compare_and_print_by_value():
    assert Huber(2) == Huber(2.0) and Huber(1.0) != Huber(2.0)
    assert hash(Quantile(0.5)) == hash(Quantile())
    assert repr(Hinge()) == "Hinge()" and repr(Huber()) == "Huber(delta=1.0)"


def test_a_new_loss_needs_two_methods():
    class Quartic(ScalarLoss):
        def value(self, t, y):
            return (t - y) ** 4

        def derivative(self, t, y):
            return 4.0 * (t - y) ** 3

    y = Quartic().check_targets([1, 2])
    assert Quartic().pieces(y) is None
    assert (Quartic().infimum(y) == -np.inf).all()
    np.testing.assert_array_equal(Quartic().directional(3.0, y, -1.0), [-32.0, -4.0])

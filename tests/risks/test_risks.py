import cvxpy as cp
import numpy as np
import pytest

from cutplane.exceptions import InvalidInputError, OracleError
from cutplane.losses import Hinge, Huber
from cutplane.pieces.capabilities import Capability, offers
from cutplane.risks import ImagedRisk, LinearObjective, LinearRisk, OracleRisk, WeightedSum, risk

N = 5


def test_decorated_function():
    @risk(dim=3, infimum=0.0)
    def sums(x):
        """Sum of absolute values."""
        return np.abs(x).sum(), np.sign(x)

    x = np.array([1.0, -2.0, 0.0])
    assert isinstance(sums, OracleRisk) and (sums.__name__, sums.__doc__) == (
        "sums",
        "Sum of absolute values.",
    )
    assert repr(sums) == "OracleRisk(sums, dim=3)"
    assert sums(x) == 3.0
    for value, slope in (sums.function(x), sums.oracle(x)):
        assert value == 3.0 and slope.tolist() == [1.0, -1.0, 0.0]
    assert sums.infima.tolist() == [0.0] and sums.n_blocks == 1


def test_an_oracle_cannot_change_the_point():
    f = OracleRisk(lambda x: (x.__setitem__(0, 9.0), x), dim=2)
    x = np.zeros(2)
    with pytest.raises(ValueError, match="read-only"):
        f.oracle(x)
    x[0] = 1.0  # still writable by its owner


def test_blocks_and_infima_of_an_oracle():
    f = OracleRisk(lambda x: (x, np.eye(2)), dim=2, blocks=2, infimum=[0.0, -np.inf])
    assert f.n_blocks == 2 and f.infima.tolist() == [0.0, -np.inf]
    assert repr(f).endswith("dim=2, blocks=2)")
    assert OracleRisk(lambda x: (x, np.eye(2)), 2, 2, -1.0).infima.tolist() == [-1.0, -1.0]
    assert OracleRisk(lambda x: (0.0, x), 2).infima.tolist() == [-np.inf]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: risk(lambda x: (0.0, x)), r"write @risk\(dim=\.\.\.\)"),
        (lambda: risk(), r"write @risk\(dim=\.\.\.\)"),
        (lambda: OracleRisk(3, 2), "function must be a function"),
        (lambda: OracleRisk(abs, 0), "dim must be at least 1"),
        (lambda: OracleRisk(abs, 2.0), "dim must be an integer"),
        (lambda: OracleRisk(abs, 2, blocks=0), "blocks must be at least 1"),
        (lambda: OracleRisk(abs, 2, infimum=np.inf), "infimum must be in"),
        (lambda: OracleRisk(abs, 2, blocks=2, infimum=[0.0] * 3), r"infimum must have shape \(2,\)"),
    ],
)
def test_oracle_errors(make, message):
    with pytest.raises(InvalidInputError, match=message):
        make()


def test_linear_objective():
    f = LinearObjective([1, -2, 0])
    x, y = np.array([1.0, 2.0, 3.0]), np.array([0.0, 1.0, 5.0])
    value, slope = f.oracle(x)
    assert value == -3.0 and slope.tolist() == [1.0, -2.0, 0.0] and f.dim == 3
    line = f.line(f.image(x), f.image(y))
    assert line.kinks is not None and line.kinks.size == 0
    assert line(0.25) == (pytest.approx(f.oracle(x + 0.25 * (y - x))[0]), pytest.approx(slope @ (y - x)))
    assert f.infima.tolist() == [-np.inf] and LinearObjective(np.zeros(2)).infima.tolist() == [0.0]
    variable = cp.Variable(3)
    form = f.cvxpy_form(variable)
    variable.value = x
    assert form.value == -3.0
    for bad in ([1.0, np.nan], [[1.0]], "a"):
        with pytest.raises(InvalidInputError, match=r"LinearObjective\.c"):
            LinearObjective(bad)


def four_terms():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((23, N)), np.where(rng.random(23) < 0.5, 1.0, -1.0)
    linear = LinearRisk(X, y, Hinge(), blocks=3)
    huber = LinearRisk(X, y, Huber(), normalize=False)
    cost = LinearObjective(rng.standard_normal(N))
    oracle = OracleRisk(
        lambda x: (np.array([np.abs(x).sum(), x @ x]), np.stack([np.sign(x), 2 * x])), N, 2, 0.0
    )
    return linear, huber, cost, oracle


@pytest.mark.parametrize("count", [2, 3, 4])
def test_sums_are_sums(count):
    terms = four_terms()[:count]
    weights = [0.5, 2.0, 3.0, 0.25][:count]
    f = WeightedSum.of(*zip(weights, terms, strict=True))
    x, other = np.random.default_rng(3).standard_normal((2, N))
    answers = [(np.atleast_1d(r.oracle(x)[0]), np.atleast_2d(r.oracle(x)[1])) for r in terms]
    values = np.concatenate([c * v for c, (v, _) in zip(weights, answers, strict=True)])
    slopes = np.concatenate([c * s for c, (_, s) in zip(weights, answers, strict=True)])
    infima = np.concatenate([c * r.infima for c, r in zip(weights, terms, strict=True)])
    apart = f.disaggregated()
    assert (f.n_blocks, apart.n_blocks, f.dim) == (1, sum(r.n_blocks for r in terms), N)
    assert f.oracle(x)[0] == pytest.approx(values.sum()) and isinstance(f.oracle(x)[0], float)
    np.testing.assert_allclose(f.oracle(x)[1], slopes.sum(axis=0))
    np.testing.assert_allclose(apart.oracle(x)[0], values)
    np.testing.assert_allclose(apart.oracle(x)[1], slopes)
    np.testing.assert_array_equal(f.infima, [infima.sum()])
    np.testing.assert_array_equal(apart.infima, infima)
    assert isinstance(f, ImagedRisk) == isinstance(apart, ImagedRisk) == (count < 4)
    assert (
        offers(f, Capability.IMAGE)
        == offers(f, Capability.LINE)
        == offers(f, Capability.CVXPY)
        == (count < 4)
    )
    if isinstance(f, ImagedRisk):
        assert isinstance(apart, ImagedRisk)
        z0, z1 = f.image(x), f.image(other)
        z = f.combine(z0, z1, 0.3)
        point = x + 0.3 * (other - x)
        assert f.values(z) == pytest.approx(f.oracle(point)[0])
        np.testing.assert_allclose(f.slopes(z), f.oracle(point)[1])
        np.testing.assert_allclose(apart.values(z), apart.oracle(point)[0])
        np.testing.assert_allclose(apart.slopes(z), apart.oracle(point)[1])
        line = f.line(z0, z1)
        assert line(0.3)[0] == pytest.approx(f.values(z))
        assert line(0.3)[1] == pytest.approx(f.slopes(z) @ (other - x))
        kinks = [r.line(r.image(x), r.image(other)).derivative.between(0.0, np.inf).kinks for r in terms]
        assert line.derivative.between(0.0, np.inf).kinks.size == sum(part.size for part in kinks)
        variable = cp.Variable(N)
        form = f.cvxpy_form(variable)
        variable.value = x
        assert form.value == pytest.approx(values.sum())


def test_operators_flatten():
    linear, huber, cost, oracle = four_terms()
    f = 2.0 * (0.5 * linear + 3 * (huber + cost * 0.5)) + oracle
    assert isinstance(f, WeightedSum)
    assert f.terms == ((1.0, linear), (6.0, huber), (3.0, cost), (1.0, oracle))
    assert repr(0.25 * cost + huber).startswith("0.25 * LinearObjective(dim=5) + LinearRisk(Huber")


def test_a_disaggregated_part_disaggregates_the_sum():
    linear, huber, _, _ = four_terms()
    f = 2.0 * (linear + huber).disaggregated()
    assert isinstance(f, WeightedSum) and f.n_blocks == 4 and repr(f).endswith(").disaggregated()")
    assert (linear + f).n_blocks == 7


def test_zero_weights():
    linear, huber, _, oracle = four_terms()
    infinite = OracleRisk(lambda x: (np.inf, np.zeros(N)), N)
    x = np.ones(N)
    f = linear + 0.0 * infinite + 0 * oracle
    assert f.oracle(x)[0] == pytest.approx(linear.oracle(x)[0].sum())
    zero = WeightedSum.of((0.0, infinite))
    assert zero.dim == N and zero.oracle(x)[0] == 0.0 and not zero.oracle(x)[1].any()
    assert zero.infima.tolist() == [0.0] and (zero + huber).oracle(x)[0] == huber.oracle(x)[0]


def test_a_term_outside_its_domain_makes_the_sum_infinite():
    infinite = OracleRisk(lambda x: (np.inf, np.zeros(2)), 2)
    value, slope = (LinearObjective([1.0, 1.0]) + infinite).oracle(np.ones(2))
    assert value == np.inf and np.isfinite(slope).all()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((np.zeros(2), np.zeros(2)), r"a value of shape \(2,\) instead of \(\)"),
        ((0.0, np.zeros(3)), r"a subgradient of shape \(3,\) instead of \(2,\)"),
        ((0.0, np.zeros((2, 1))), r"a subgradient of shape \(2, 1\)"),
        ((0.0, None), "a subgradient that is not numeric|shape"),
        (("high", np.zeros(2)), "a value that is not numeric"),
    ],
)
def test_a_wrong_answer_is_not_broadcast(answer, message):
    f = OracleRisk(lambda x: answer, 2) + LinearObjective([1.0, 1.0])
    with pytest.raises(OracleError, match=r"OracleRisk\(<lambda>, dim=2\) returned " + message):
        f.oracle(np.zeros(2))


def test_errors_of_sums():
    a, b = LinearObjective([1.0]), LinearObjective([1.0, 2.0])
    with pytest.raises(InvalidInputError, match=r"same dimension, but LinearObjective\(dim=1\) has 1"):
        a + b
    with pytest.raises(InvalidInputError, match="factor of a risk"):
        -1.0 * a
    with pytest.raises(InvalidInputError, match="the weight of a risk"):
        WeightedSum.of((np.inf, a))
    with pytest.raises(InvalidInputError, match="at least one term"):
        WeightedSum.of()
    with pytest.raises(InvalidInputError, match="must be"):
        WeightedSum.of((1.0, "risk"))  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError):
        a + 1.0


def test_a_sum_is_exact_if_all_its_terms_are():
    exact, other = LinearObjective([1.0, 2.0]), LinearObjective([0.0, 1.0])
    object.__setattr__(other, "exact", False)
    assert (exact + exact).exact and not (exact + 0.5 * other).exact


def test_a_sum_states_the_size_of_the_terms_that_cancel():
    large = LinearObjective([1e8, 0.0])
    x = np.ones(2)
    for total in (large + LinearObjective([-1e8, 1.0]), (large + OracleRisk(lambda x: (-1e8, 0.0 * x), 2))):
        point = total.image(x) if isinstance(total, ImagedRisk) else x
        assert total.cancelled(point) == pytest.approx(2e8, rel=1e-6)

"""A black box is asked a few questions before the word OPTIMAL is given."""

from __future__ import annotations

import numpy as np
import pytest
from covering import covering

import cutplane as cut
from cutplane.methods import AcceleratedGradient, MirrorDescent, ReducedGradient

METHODS = {
    "auto": "auto",
    "Kelley": cut.Kelley(),
    "BMRM": cut.BMRM(),
    "OCAS": cut.OCAS(),
    "LevelBundle": cut.LevelBundle(),
    "ProximalBundle": cut.ProximalBundle(),
    "FrankWolfe": cut.FrankWolfe("exact", "pairwise"),
    "ReducedGradient": ReducedGradient(),
    "AcceleratedGradient": AcceleratedGradient(),
    "MirrorDescent": MirrorDescent(),
}
CENTRE = np.array([0.5, 0.3, -0.4, 0.1, 0.25])


def honest(x):
    return float(((x - CENTRE) ** 2).mean()), 2.0 * (x - CENTRE) / x.size


def without_one_over_m(x):
    return honest(x)[0], 2.0 * (x - CENTRE)


def concave(x):
    return -float(((x - CENTRE) ** 2).mean()), -2.0 * (x - CENTRE) / x.size


def flat(x):
    return honest(x)[0], np.zeros_like(x)


def doubled(x):
    value, slope = honest(x)
    return value, 2.0 * slope


def sign_of_one_coordinate(x):
    value, slope = honest(x)
    return value, slope * np.array([1.0, -1.0, 1.0, 1.0, 1.0])


class OffFromTheFourthCallOn:
    def __init__(self):
        self.calls = 0

    def __call__(self, x):
        self.calls += 1
        value, slope = honest(x)
        return value + 0.1 * (self.calls >= 4), slope


MISTAKES = {
    "no 1/m": lambda: without_one_over_m,
    "concave": lambda: concave,
    "zero slope": lambda: flat,
    "slopes x 2": lambda: doubled,
    "one sign": lambda: sign_of_one_coordinate,
    "off by 0.1": OffFromTheFourthCallOn,
}


def over(function, name, **options):
    simplex = name == "ReducedGradient"
    bare = simplex or name in ("FrankWolfe", "AcceleratedGradient", "MirrorDescent")
    regularizer = cut.NoRegularizer() if bare else cut.L2(0.1)
    feasible_set = cut.Simplex() if simplex else cut.Box(-1.0, 1.0)
    return cut.Problem(cut.OracleRisk(function, 5, **options), regularizer, feasible_set)


def least(problem, function):
    """The least value of the true objective."""
    if function is concave:
        cube = np.array(np.meshgrid(*[[-1.0, 1.0]] * 5)).reshape(5, -1).T
        corners = np.eye(5) if isinstance(problem.feasible_set, cut.Simplex) else cube
        return min(concave(x)[0] + problem.regularizer.value(x) for x in corners)
    if isinstance(problem.feasible_set, cut.Simplex):
        return honest(cut.Simplex().project(CENTRE))[0]
    x = 0.4 / (0.4 + problem.regularizer.lam) * CENTRE
    return honest(x)[0] + problem.regularizer.value(x)


STARTS = {"zero": None, "inside": np.full(5, 0.2), "at the minimum": CENTRE}


@pytest.mark.every
@pytest.mark.parametrize(("mistake", "name", "start"), covering(MISTAKES, METHODS, STARTS))
def test_a_mistake_is_named_or_does_no_harm(mistake, name, start):
    function = MISTAKES[mistake]()
    problem = over(function, name)
    tol_abs = 1e-3
    try:
        result = problem.solve(METHODS[name], tol=1e-6, tol_abs=tol_abs, max_iter=300, x0=STARTS[start])
    except cut.OracleError:
        return
    if result.status == "OPTIMAL":
        true = concave if function is concave else honest
        best = least(problem, function)
        here = true(result.x)[0] + problem.regularizer.value(result.x)
        assert here <= best + tol_abs + 1e-6
        assert result.lower_bound <= best + 1e-6
    elif result.status == "INVALID_ORACLE":
        assert "check_risk" in result.reason


@pytest.mark.parametrize("name", METHODS)
def test_an_honest_oracle_is_asked_and_the_reason_says_so(name):
    result = over(honest, name).solve(METHODS[name], tol=1e-2, tol_abs=1e-2, max_iter=2000)
    assert result.status == "OPTIMAL"
    assert "probes of the oracle found no mistake" in result.reason
    assert result.certificate.verify().valid


def test_without_probes_a_mistake_may_pass():
    off = over(flat, "Kelley").solve(cut.Kelley(), probes=False)
    assert off.status == "OPTIMAL"
    assert over(flat, "Kelley").solve(cut.Kelley()).status == "INVALID_ORACLE"


@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-6])
@pytest.mark.parametrize("name", ["BMRM", "LevelBundle", "ProximalBundle", "OCAS"])
def test_probes_cost_a_twentieth_of_the_calls_and_at_least_four(name, tol):
    rng = np.random.default_rng(0)
    A, b = rng.normal(size=(60, 12)), rng.normal(size=60)
    calls = []

    @cut.risk(dim=12)
    def distance(x):
        calls.append(x)
        r = A @ x - b
        return np.abs(r).mean(), A.T @ np.sign(r) / len(b)

    problem = cut.Problem(distance, cut.L2(1e-3))
    without = problem.solve(METHODS[name], tol=tol, probes=False)
    assert without.oracle_calls == len(calls)
    calls.clear()
    result = problem.solve(METHODS[name], tol=tol)
    asked = len(calls) - without.oracle_calls
    assert 4 <= asked <= max(4, without.oracle_calls // 20 + 1)
    assert f"{asked} probes" in result.reason
    assert result.oracle_calls == len(calls)
    assert np.array_equal(result.x, without.x)


def test_a_linear_risk_is_not_probed():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), np.sign(rng.normal(size=40))
    risk = cut.LinearRisk(X, y, cut.losses.Hinge())
    own, none = (cut.Problem(risk, cut.L2(0.1)).solve(probes=probes) for probes in (True, False))
    assert own.status == "OPTIMAL" and "probe" not in own.reason
    assert own.oracle_calls == none.oracle_calls


@pytest.mark.parametrize(("black_box", "words"), [(True, "4 probes"), (False, "at most tol")])
def test_a_risk_says_whether_it_is_a_black_box(black_box, words):
    class Distance(cut.OracleRisk):
        pass

    Distance.black_box = black_box
    result = cut.Problem(Distance(honest, 5), cut.L2(0.1)).solve()
    assert words in result.reason
    assert ("probes" in result.reason) == black_box


@pytest.mark.parametrize("part", [honest, doubled], ids=["right", "wrong"])
def test_a_sum_with_a_black_box_is_one(part):
    rng = np.random.default_rng(0)
    linear = cut.LinearRisk(rng.normal(size=(20, 5)), np.ones(20), cut.losses.Hinge())
    result = cut.Problem(linear + cut.OracleRisk(part, 5), cut.L2(0.1)).solve()
    assert "probes" in result.reason if part is honest else result.status == "INVALID_ORACLE"


def at_call(number, answer):
    calls = []

    def function(x):
        calls.append(x)
        return answer(x) if len(calls) >= number else honest(x)

    return function


@pytest.mark.parametrize("name", METHODS)
def test_values_that_are_all_infinite_from_some_call_on(name):
    def infinite(x):
        return np.inf, np.zeros(5)

    problem = over(at_call(4, infinite), name)
    result = problem.solve(METHODS[name], tol=1e-9, max_iter=50)
    assert result.status != "OPTIMAL" or result.objective == pytest.approx(least(problem, honest), abs=1e-6)
    assert np.isfinite(result.objective)


@pytest.mark.parametrize("size", [1e-12, 1.0, 1e12])
def test_a_short_run_in_a_set_of_unknown_size_is_probed_where_it_has_been(size):
    asked = []

    @cut.risk(dim=3)
    def slope(x):
        asked.append(x.copy())
        return size * float(x.sum()), np.full(3, size)

    result = cut.Problem(slope, cut.L2(1.0)).solve(cut.BMRM())
    assert result.status == "OPTIMAL"
    assert result.x == pytest.approx(np.full(3, -size))
    assert 0.5 * size < np.abs(asked).max() < 10.0 * size


def test_a_slope_that_is_wrong_at_the_best_point_alone_is_seen():
    """The coordinate that the oracle forgets has slopes of zero nearly everywhere in the set."""

    @cut.risk(dim=2)
    def forgetful(x):
        return 1e3 * (x[1] - 1.0) ** 2 + max(-x[0], -0.01), np.array([0.0, 2e3 * (x[1] - 1.0)])

    result = cut.Problem(forgetful, cut.L2(1e-3), cut.Box(0.0, 10.0)).solve(cut.Kelley())
    assert result.status == "INVALID_ORACLE"


@pytest.mark.parametrize("forgets", [False, True])
def test_a_coordinate_in_which_all_slopes_are_zero_is_moved_alone(forgets):
    """Between points close to one another the kinks of other coordinates would hide it."""
    asked = []

    @cut.risk(dim=3)
    def partial(x):
        asked.append(x.copy())
        return float(np.abs(x[:2] - 1.0).sum()) + forgets * 1e-3 * abs(x[2] - 4.0), np.append(
            np.sign(x[:2] - 1.0), 0.0
        )

    result = cut.Problem(partial, cut.L2(0.1)).solve(cut.BMRM(), tol=1e-6)
    assert result.status == ("INVALID_ORACLE" if forgets else "OPTIMAL")
    away = np.array(asked) - result.x
    assert ((away[:, 2] != 0.0) & ~away[:, :2].any(axis=1)).any()


@pytest.mark.every
@pytest.mark.parametrize(
    "method", [cut.FrankWolfe("exact"), AcceleratedGradient(), cut.Kelley(), "auto"], ids=str
)
def test_what_is_convex_where_the_run_has_been_alone_shows_from_afar(method):
    """A slope to a local minimum at 0.4, and a lower one at the other end of the set."""

    def oracle(x):
        step = x[0] + 1.0
        value = (x[0] - 1.0) ** 2 + 4.5 * x[0] - 4.0 * np.log(1.0 + step * step)
        return value, np.array([2.0 * (x[0] - 1.0) + 4.5 - 8.0 * step / (1.0 + step * step)])

    problem = cut.Problem(cut.OracleRisk(oracle, 1), feasible_set=cut.Box(-8.0, 1.0, dim=1))
    grid = np.linspace(-8.0, 1.0, 1001)
    least = min(oracle(x)[0] for x in grid[:, np.newaxis])
    result = problem.solve(method, x0=[0.5], tol=1e-4)
    assert result.status == "INVALID_ORACLE" or result.objective <= least + 1e-3

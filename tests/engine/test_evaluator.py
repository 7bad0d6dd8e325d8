"""Answers of oracles: their shapes, their numbers, and images that are combined or computed anew."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import cutplane as cut
from cutplane.engine.evaluator import Evaluator, Point, _drift
from cutplane.exceptions import OracleError
from cutplane.proof.rounding import EPS
from cutplane.stopping import Stop

INF = math.inf
X = np.array([1.0, -2.0])


def affine(x):
    return 3.0 * x[0] + 5.0 * x[1] + 1.0, np.array([3.0, 5.0])


def evaluator(function=affine, blocks=1, dim=2, feasible=None, regularizer=None):
    risk = cut.OracleRisk(function, dim=dim, blocks=blocks)
    return Evaluator(cut.Problem(risk, regularizer or cut.L2(2.0), feasible))


def test_a_point_has_objective_values_and_slopes():
    found = evaluator()
    point = found.point(X)
    assert (point.objective, point.values.tolist(), point.slopes.tolist()) == (-1.0, [-6.0], [[3.0, 5.0]])
    assert (found.calls, point.feasible, point.drift, point.extent) == (1, True, EPS, 2.0)
    assert (point.image, point.offsets, point.multipliers) == (None, None, None)
    slopes, offsets = found.cut(point)
    assert slopes.tolist() == [[3.0, 5.0]] and 1.0 - 1e-13 < offsets[0] < 1.0
    assert found.calls == 1


ANSWERS = {
    "no pair": (5.0, 1, r"must return \(value, subgradient\), or \(value, subgradient, solution\), got 5\.0"),
    "four": ((1.0, np.zeros(2), 0, 0), 1, r"must return \(value, subgradient\)"),
    "one solution": ((np.zeros(2), np.zeros((2, 2)), 0), 2, r"must be a sequence of 2, one for each block"),
    "two values": ((np.zeros(2), np.zeros(2)), 1, r"must be a float, got shape \(2,\)"),
    "one value": ((1.0, np.zeros((2, 2))), 2, r"must be an array of shape \(2,\), got shape \(\)"),
    "a word": (("much", np.zeros(2)), 1, r"must be a float, got 'much'"),
    "complex": ((1.0 + 2.0j, np.zeros(2)), 1, r"must be a float, got \(1\+2j\)"),
    "nan": ((math.nan, np.zeros(2)), 1, r"is \[nan\] at x = \[ 1\. -2\.\]; it must be a number"),
    "minus infinity": ((-INF, np.zeros(2)), 1, r"is \[-inf\] at x"),
    "both infinities": ((np.array([INF, -INF]), np.zeros((2, 2))), 2, r"is \[ inf -inf\] at x"),
    "slope too long": ((1.0, np.zeros(3)), 1, r"must have shape \(2,\), got shape \(3,\)"),
    "slope of blocks": ((np.zeros(3), np.zeros(2)), 3, r"must have shape \(3, 2\), got shape \(2,\)"),
    "slope of one block": ((1.0, np.zeros((2, 1))), 1, r"must have shape \(2,\), got shape \(2, 1\)"),
    "slope nan": ((1.0, np.array([0.0, math.nan])), 1, r"entries that are not finite at x = \[ 1\. -2\.\]"),
    "slope infinite": ((1.0, np.array([INF, -INF])), 1, r"entries that are not finite"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_of_other_shapes_or_without_numbers_are_refused(name):
    answer, blocks, said = ANSWERS[name]
    with pytest.raises(OracleError, match=said):
        evaluator(lambda x: answer, blocks).point(X)


@pytest.mark.parametrize(
    "answer",
    [(2.0, [3, 5]), ([2.0], [[3.0, 5.0]]), (np.array([[2]]), np.array([3.0, 5.0])), [2, (3.0, 5.0)]],
)
def test_answers_of_equivalent_shapes_are_taken(answer):
    point = evaluator(lambda x: answer).point(X)
    assert (point.values.tolist(), point.slopes.tolist()) == ([2.0], [[3.0, 5.0]])


def test_an_infinite_value_has_no_cut():
    found = evaluator(lambda x: (INF, None))
    point = found.point(X)
    assert (point.objective, point.slopes) == (INF, None)
    with pytest.raises(OracleError, match=r"is \[inf\] at x = \[ 1\. -2\.\]: no cut is there"):
        found.slopes(point)


def test_an_oracle_may_use_its_arrays_again():
    slope = np.array([3.0, 5.0])
    point = evaluator(lambda x: (1.0, slope)).point(X)
    slope[:] = 0.0
    assert point.slopes.tolist() == [[3.0, 5.0]]


def test_an_exception_names_the_function():
    def divided(x):
        return 1 // 0

    with pytest.raises(OracleError, match="raised ZeroDivisionError: "):
        evaluator(divided).point(X)


def at(x, drift=EPS):
    return Point(np.array(x, dtype=float), 0.0, np.zeros(1), drift=drift)


@pytest.mark.parametrize("t", [-2.0, 0.0, 0.5, 1.0, 2.0])
def test_drift_grows_as_the_terms_cancel(t):
    start, end = at([1.0, 4.0], 3.0 * EPS), at([-8.0, 2.0], 7.0 * EPS)
    x = start.x + t * (end.x - start.x)
    wanted = EPS + (abs(1.0 - t) * 4.0 * 4.0 * EPS + abs(t) * 8.0 * 8.0 * EPS) / np.abs(x).max()
    assert _drift(start, end, t, x) == pytest.approx(wanted, rel=1e-14)


def imaged():
    data = np.array([[1.0, 2.0], [3.0, -1.0]])
    return Evaluator(cut.Problem(cut.LinearRisk(data, np.ones(2), cut.losses.Absolute()), cut.L2(1.0)))


@pytest.mark.parametrize("drift, combined", [(0.9e-13, True), (1.1e-13, False)])
def test_images_are_computed_anew_when_they_have_drifted(drift, combined):
    found = imaged()
    start, end = found.point(np.array([1.0, 0.0])), found.point(np.array([0.0, 1.0]))
    start = Point(start.x, start.objective, start.values, start.image, drift=drift)
    middle = found.between(start, end, 0.0)
    assert (middle.drift > EPS) == combined
    assert middle.objective == pytest.approx(start.objective)
    if combined:
        assert middle.drift == pytest.approx(drift + 2.0 * EPS, rel=1e-10)


def test_a_proof_is_confirmed_for_the_best_point_computed_again():
    loop = imaged().problem.iterate(cut.BMRM())
    list(loop)
    run, best = loop.process.run, loop.process.run.best
    run.replace_best(replace(best, objective=best.objective * (1.0 + 1e-13), drift=1e-13))
    loop.process.confirm(Stop(cut.Status.OPTIMAL, "closed"))
    assert (run.best.objective, run.best.drift) == (run.problem.objective(best.x), EPS)


def test_between_two_points_lies_their_mixture():
    found = imaged()
    start, end = found.point(np.array([1.0, 0.0])), found.point(np.array([0.0, 1.0]))
    quarter, direct = found.between(start, end, 0.25), found.point(np.array([0.75, 0.25]))
    assert quarter.x.tolist() == [0.75, 0.25]
    assert quarter.objective == pytest.approx(direct.objective, rel=1e-15)
    assert quarter.values == pytest.approx(direct.values, rel=1e-15)
    assert found.slopes(quarter) == pytest.approx(found.slopes(direct))
    plain = evaluator()
    half = plain.between(plain.point(X), plain.point(-X), 0.25)
    assert (half.x.tolist(), plain.calls) == ([0.5, -1.0], 3)


def test_slopes_of_a_point_are_a_call_of_the_oracle_once():
    found = imaged()
    start, end = found.point(np.array([1.0, 0.0])), found.point(np.array([0.0, 1.0]))
    asked = found.calls
    for point, more in ((start, 1), (start, 1), (end, 2), (end, 2)):
        found.slopes(point)
        assert found.calls == asked + more


def separating(answer):
    separator = SimpleNamespace(separate=lambda x: answer)
    return Evaluator(SimpleNamespace(risk=cut.OracleRisk(affine, dim=2), dim=2, separators=[separator]))


def half_space(normal, offset):
    return cut.HalfSpace(np.array(normal, dtype=float), offset)


@pytest.mark.parametrize(
    "share, count", [(-0.9e-7, 1), (0.0, 1), (1e-15, 0), (3.4e-15, 0), (3.8e-15, 1), (0.5, 1)]
)
def test_violations_by_rounding_do_not_count(share, count):
    """The terms of <(3, 4), x> - b at x = (1, -2) are 3 + 8 + 5."""
    found = separating(cut.sets.HalfSpaces(np.array([[3.0, 4.0]]), np.array([-5.0 - 16.0 * share])))
    assert len(found.separate(X)) == count
    assert found.separations == 1


@pytest.mark.parametrize("kind", ["objects", "arrays"])
def test_some_of_many_half_spaces_count(kind):
    spaces = [half_space([1.0, 0.0], 1.0 - 1e-15), half_space([0.0, -1.0], 1.0)]
    answer = spaces if kind == "objects" else cut.sets.HalfSpaces.of(spaces, 2)
    found = separating(answer).separate(X)
    assert (found.normals.tolist(), found.offsets.tolist()) == ([[0.0, -1.0]], [1.0])


@pytest.mark.parametrize("share, wrong", [(0.9e-7, False), (1.2e-7, True)])
def test_a_half_space_has_to_separate(share, wrong):
    found = separating([half_space([1.0, 0.0], 0.0), half_space([3.0, 4.0], -5.0 + 16.0 * share)])
    if not wrong:
        assert len(found.separate(X)) == 2
        return
    with pytest.raises(OracleError, match=r"<normal, x> = -5 <= -5 = offset at x = \[ 1\. -2\.\]"):
        found.separate(X)


REFUSED = {
    "a number": ([5.0], r"must return HalfSpace objects, got shape \(\)"),
    "a word": (["no"], r"must return HalfSpace objects, got 'no'"),
    "dimension": ([half_space([1.0], 0.0)], "a HalfSpace of dimension 1; the problem has dimension 2"),
    "dimensions": (
        cut.sets.HalfSpaces(np.ones((1, 3)), np.zeros(1)),
        "returned half-spaces of dimension 3; the problem has dimension 2",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_answers_that_are_no_half_spaces_are_refused(name):
    answer, said = REFUSED[name]
    with pytest.raises(OracleError, match=said):
        separating(answer).separate(X)


def nearby(*answers, inside=True):
    """A set that proposes one point after the other, and calls them inside or not."""
    proposals = iter(answers)
    separate = (lambda x: []) if inside else (lambda x: [half_space([1.0, 0.0], -1.0)])
    return evaluator(feasible=cut.separation_oracle(separate, nearby=lambda x: next(proposals)))


def test_a_point_nearby_is_one_that_is_inside():
    assert nearby(np.zeros(2)).nearby(X).tolist() == [0.0, 0.0]
    assert nearby(None).nearby(X) is None
    assert nearby(np.zeros(2), inside=False).nearby(X) is None
    assert nearby(np.zeros(2)).knows_nearby
    assert not evaluator().knows_nearby
    assert not separating([]).knows_nearby
    assert separating([]).nearby(X) is None
    with pytest.raises(OracleError, match=r"nearby must return a point of shape \(2,\) or None, got shape"):
        nearby(np.zeros(3)).nearby(X)


BOUNDS = [(0.0, True), (3, True), (-1e-300, False), (INF, False), (math.nan, False)]


@pytest.mark.parametrize("bound, fine", BOUNDS)
def test_a_curvature_is_a_number_that_is_not_negative(bound, fine):
    found = evaluator()
    found.risk = SimpleNamespace(curvature_bound=lambda x, d: bound, curvature=lambda x, d: bound)
    if fine:
        assert found.curvature(X, X) == float(bound)
    else:
        with pytest.raises(OracleError, match=rf"curvature bound of SimpleNamespace is {bound}, not"):
            found.curvature(X, X)


@pytest.mark.parametrize("size", [1.0, 1e12])
def test_a_value_whose_subgradient_overflows_is_infinite(size):
    """exp(700) is a number, but times the data they are not: a zero slope would be a lie."""
    X = size * np.array([[1.0], [2.0], [-0.5]])
    risk = cut.LinearRisk(X, np.array([1.0, 2.0, 0.0]), cut.losses.Poisson())
    evaluator = Evaluator(cut.Problem(risk, cut.L2(1.0)))
    for t in (200.0, 300.0, 330.0, 350.0, 400.0):
        point = evaluator.point(np.array([t / size]))
        assert np.isinf(point.objective) == (t > 310.0)
        if np.isfinite(point.objective):
            assert (evaluator.slopes(point) != 0.0).all()
    result = cut.Problem(risk, cut.L1(size)).solve(
        cut.ProximalBundle(), x0=np.array([300.0 / size]), max_iter=4
    )
    assert result.status in ("MAX_ITER", "STALLED", "OPTIMAL")


@pytest.mark.parametrize("imaged", [True, False])
def test_a_sum_that_overflows_is_infinite_there(imaged):
    steep = cut.LinearRisk(np.array([[1.0]]), np.array([-1.0]), cut.losses.Exponential())
    plain = cut.risk(dim=1)(lambda x: (float(np.exp(x[0])), np.exp(x)))
    total = 2.0**20 * (steep if imaged else plain) + cut.LinearObjective([1.0])
    with np.errstate(all="raise"):
        point = Evaluator(cut.Problem(total, cut.L2(1.0))).point(np.array([700.0]))
    assert point.objective == np.inf

"""The stopping rules, alone, combined, and at the end of a solve."""

import itertools
import math

import numpy as np
import pytest

import cutplane as cut
from cutplane.engine.history import Record, State
from cutplane.stopping import (
    AbsoluteGap,
    MaxIter,
    OracleCalls,
    RelativeGap,
    Stop,
    StoppingRule,
    TargetReached,
    TimeLimit,
)


def state(lower=-math.inf, upper=math.inf, iteration=0, calls=1, elapsed=0.0) -> State:
    record = Record(iteration, lower, upper, 1, "cut", calls, 0, 0.0, 0.0, 0.0, elapsed)
    return State(record, None)


class Constant(StoppingRule):
    """Always gives the same answer."""

    def __init__(self, answer):
        self.answer = answer

    def __call__(self, state):
        return self.answer


OPTIMAL = Stop(cut.Status.OPTIMAL, "proven")
MAX_ITER = Stop(cut.Status.MAX_ITER, "many")
TIME = Stop(cut.Status.TIME_LIMIT, "late")
ANSWERS = [None, OPTIMAL, MAX_ITER, TIME]


# (rule, a state just before it holds, a state in which it just holds, status, a part of the reason)
RULES = [
    (RelativeGap(0.01), state(-10.11, -10.0), state(-10.1, -10.0), cut.Status.OPTIMAL, "relative gap 0.01"),
    (RelativeGap(0.0), state(1.0, 1.0 + 1e-15), state(1.0, 1.0), cut.Status.OPTIMAL, "tol = 0"),
    (AbsoluteGap(0.5), state(-10.51, -10.0), state(-10.5, -10.0), cut.Status.OPTIMAL, "tol_abs = 0.5"),
    (MaxIter(3), state(iteration=2), state(iteration=3), cut.Status.MAX_ITER, "max_iter = 3"),
    (MaxIter(0), None, state(iteration=0), cut.Status.MAX_ITER, "max_iter = 0"),
    (TimeLimit(2.0), state(elapsed=1.999), state(elapsed=2.0), cut.Status.TIME_LIMIT, "time_limit = 2 s"),
    (OracleCalls(7), state(calls=6), state(calls=7), cut.Status.MAX_ITER, "7 oracle calls"),
    (TargetReached(-2.0), state(upper=-1.999), state(upper=-2.0), cut.Status.TARGET, "target -2"),
]


@pytest.mark.parametrize(("rule", "before", "at", "status", "words"), RULES, ids=lambda item: repr(item)[:24])
def test_a_rule_holds_from_its_threshold_on(rule, before, at, status, words):
    assert before is None or rule(before) is None
    stop = rule(at)
    assert words in stop.reason
    assert stop.status is not cut.Status.OPTIMAL if status is None else stop.status is status


@pytest.mark.parametrize(("lower", "upper", "gap"), [(1.0, 3.5, 2.5), (2.0, 1.0, 0.0)])
def test_a_record_has_a_gap_that_is_not_negative(lower, upper, gap):
    assert Record(0, lower, upper, 1, "cut", 1, 0, 0.0, 0.0, 0.0, 0.0).gap_abs == gap


@pytest.mark.parametrize("kind", [RelativeGap, AbsoluteGap])
def test_a_gap_rule_that_accepts_any_gap_is_refused(kind):
    with pytest.raises(cut.InvalidInputError, match="inf"):
        kind(math.inf)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (RelativeGap, -1e-9),
        (RelativeGap, math.nan),
        (RelativeGap, "small"),
        (AbsoluteGap, -1.0),
        (MaxIter, -1),
        (MaxIter, 2.5),
        (TimeLimit, -1.0),
        (OracleCalls, 0),
        (OracleCalls, True),
        (TargetReached, math.nan),
    ],
)
def test_a_wrong_threshold_is_refused_by_name(kind, value):
    with pytest.raises(cut.InvalidInputError, match="must be"):
        kind(value)


@pytest.mark.parametrize("answers", list(itertools.product(ANSWERS, repeat=3)), ids=repr)
def test_any_of_prefers_optimal_then_the_first(answers):
    first, second, third = map(Constant, answers)
    found = [answer for answer in answers if answer is not None]
    expected = OPTIMAL if OPTIMAL in found else (found[0] if found else None)
    assert (first | second | third)(state()) == expected


@pytest.mark.parametrize("answers", list(itertools.product(ANSWERS, repeat=3)), ids=repr)
def test_all_of_waits_for_all_and_is_optimal_only_if_all_are(answers):
    first, second, third = map(Constant, answers)
    stop = (first & second & third)(state())
    if None in answers:
        assert stop is None
    else:
        others = [answer.status for answer in answers if answer is not OPTIMAL]
        assert stop.status is (others[0] if others else cut.Status.OPTIMAL)
        assert stop.reason == " and ".join(answer.reason for answer in answers)


def test_time_limits_of_combined_rules_and_a_gap_of_zeros():
    short, long = cut.stopping.TimeLimit(1.0), cut.stopping.TimeLimit(2.0)
    assert ((short | long).time_limit, (short & long).time_limit) == (1.0, 2.0)
    assert (short & cut.stopping.OracleCalls(3)).time_limit == math.inf
    assert cut.status.relative_gap(0.0, 0.0, 0.0) == 0.0
    assert cut.status.relative_gap(-1e-300, 0.0, 0.0) == math.inf


# ------------------------------------------------------------------------------------------------ in a solve


def problem() -> cut.Problem:
    centre = np.linspace(-1.0, 1.0, 8)

    @cut.risk(dim=8)
    def distance(x):
        return np.abs(x - centre).sum() + 1.0, np.sign(x - centre)

    return cut.Problem(distance, feasible_set=cut.Box(-3, 3))


SOLVES = [
    ({"tol": 1e-3}, cut.Status.OPTIMAL, "tol = 0.001"),
    ({"tol": 0.0, "tol_abs": 1e-3}, cut.Status.OPTIMAL, "tol_abs = 0.001"),
    ({"tol": 1e-9, "max_iter": 4}, cut.Status.MAX_ITER, "max_iter = 4"),
    ({"tol": 1e-9, "max_iter": 0}, cut.Status.MAX_ITER, "max_iter = 0"),
    ({"tol": 1e-9, "time_limit": 0.0}, cut.Status.TIME_LIMIT, "time_limit = 0 s"),
    ({"tol": 1e-9, "stop": OracleCalls(5)}, cut.Status.MAX_ITER, "5 oracle calls"),
    (
        {"tol": 1e-9, "stop": MaxIter(3) & TargetReached(100.0)},
        cut.Status.MAX_ITER,
        "max_iter = 3 iterations were done and",
    ),
    ({"tol": 1e-9, "stop": MaxIter(3) | OracleCalls(2)}, cut.Status.MAX_ITER, "2 oracle calls"),
    ({"tol": 1e-9, "stop": RelativeGap(0.9)}, cut.Status.OPTIMAL, "tol = 0.9"),
    (
        {"tol": 1e-9, "max_iter": 7, "stop": MaxIter(7) & AbsoluteGap(1e30)},
        cut.Status.MAX_ITER,
        "max_iter = 7",
    ),
]


@pytest.mark.parametrize(("options", "status", "words"), SOLVES, ids=lambda item: str(item)[:50])
def test_a_solve_says_why_it_stopped(options, status, words):
    result = problem().solve(cut.Kelley(), **options)
    assert result.status is status
    assert words in result.reason


def test_a_solve_stops_in_the_first_iteration_in_which_the_rule_holds():
    result = problem().solve(cut.Kelley(), stop=OracleCalls(5), tol=1e-9)
    assert result.oracle_calls == 5
    gaps = problem().solve(cut.Kelley(), tol=1e-2).history.column("gap")
    assert gaps[-1] <= 1e-2 < gaps[:-1].min()


def test_the_natural_stop_of_an_uncertified_gap_says_so():
    @cut.risk(dim=30)
    def rounded(x):
        value = np.sqrt(1.0 + (steepness * (x - 0.3) ** 2).sum())
        return value, steepness * (x - 0.3) / value

    steepness = np.linspace(1.0, 10.0, 30)
    result = cut.Problem(rounded).solve(cut.ProximalBundle(), x0=np.arange(30.0), max_cuts=6)
    assert result.status is cut.Status.STALLED
    assert "not certified" in result.reason
    assert result.objective == pytest.approx(1.0, abs=1e-4)


def test_flat_combinations_of_cuts_certify_without_bounds():
    @cut.risk(dim=2)
    def distance(x):
        return np.abs(x - 0.3).max(), np.where(
            np.arange(2) == np.argmax(np.abs(x - 0.3)), np.sign(x - 0.3), 0.0
        )

    result = cut.Problem(distance + cut.LinearObjective([0.2, 0.1])).solve(x0=[3.0, 5.0], tol=1e-8)
    assert result.status is cut.Status.OPTIMAL
    assert result.objective == pytest.approx(0.09)
    assert result.certificate.verify().valid

"""The promise of a race, with methods and a clock that are not real."""

import itertools
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_diabetes

import cutplane as cut
from cutplane.exceptions import BackendError
from cutplane.methods import Estimate, Method, Race, Step, race
from cutplane.methods.auto import choose
from cutplane.runtime.deadline import OutOfTime, seconds_left

TOL = 1e-4
ROUND = 1.5


class Clock:
    """Seconds that pass when a method says so."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    for module in ("cutplane.methods.race", "cutplane.runtime.deadline"):
        monkeypatch.setattr(f"{module}.clock", found)
    return found


class FakeRun:
    """A run with a gap, whose methods prove nothing but say how far they are."""

    def __init__(self):
        self.problem = cut.Problem(cut.LinearObjective(np.ones(1)), feasible_set=cut.Box(0, 1))
        self.evaluator = type("Evaluator", (), {"seconds": 0.0, "calls": 0})()
        self.lower, self.upper, self.moved = 0.0, 1.0, False

    def tolerance(self, objective):
        return TOL

    def proceed(self):
        self.moved = True


@dataclass(frozen=True)
class Fake(Method):
    """Closes the gap at a constant rate of its logarithm, in `needs` seconds of its own."""

    clock: Clock = field(compare=False)
    needs: float
    says: float
    whole: bool = False
    dies: bool = False
    stabilizations = ()

    def estimate(self, problem):
        return Estimate(self.says, whole=self.whole)

    def start(self, run):
        return 0.0

    def step(self, run: Any, state: Any) -> Step:
        if self.whole:
            return self.one_call(run)
        step = 1e-3
        self.clock.now += step
        state += step
        gap = TOL ** (state / self.needs)
        if gap < run.upper:
            run.upper, run.moved = gap, True
        run.moved = run.moved or not self.dies
        return Step("step", state)

    def one_call(self, run: Any) -> Step:
        allowed = seconds_left()
        if allowed < self.needs:
            self.clock.now += allowed
            raise OutOfTime
        self.clock.now += self.needs
        run.upper, run.moved = TOL, True
        return Step("whole", None)


def solve(methods: Any, most: float = 1e4) -> Any:
    """Return the seconds until the gap is closed, and the schedule."""
    run: Any = FakeRun()
    method = Race(tuple(methods))
    state, clock = method.start(run), methods[0].clock
    while run.upper > TOL * (1.0 + 1e-9) and clock.now < most:
        run.moved = False
        if (finished := method.step(run, state).finished) is not None:
            return finished, state
    return clock.now, state


@pytest.mark.parametrize("needs", list(itertools.permutations([0.05, 1.0, 30.0, 1e9], 3)))
@pytest.mark.parametrize("says", [(0.1, 0.1, 0.1), (0.02, 1.0, 50.0)])
def test_a_race_takes_2k_times_as_long_as_the_best_whatever_the_estimates_are(clock, needs, says):
    seconds, state = solve([Fake(clock, *pair) for pair in zip(needs, says, strict=True)])
    best, promise = min(needs), state.promise
    last = state.length  # the round that was begun last is at most a third of all
    assert seconds <= 2 * len(needs) * best + promise + last + 0.1
    assert seconds <= ROUND * 2 * len(needs) * best + 2 * promise + 0.1


def test_the_best_takes_its_time_where_its_estimate_is_right(clock):
    seconds, state = solve([Fake(clock, 3.0, 2.0), Fake(clock, 1e9, 2.5), Fake(clock, 1e9, 9.0)])
    assert seconds == pytest.approx(3.0, abs=0.01)
    assert len(state.entrants) == 1


def test_a_second_method_waits_for_20_ms(clock):
    seconds, state = solve([Fake(clock, 0.019, 1e-6), Fake(clock, 1e-3, 1e-5)])
    assert seconds == pytest.approx(0.019) and len(state.entrants) == 1


def test_half_of_the_time_goes_to_the_method_that_closes_the_gap_fastest(clock):
    methods = [Fake(clock, 1e9, 0.1), Fake(clock, 40.0, 0.2), Fake(clock, 1e9, 0.3), Fake(clock, 1e9, 0.4)]
    seconds, state = solve(methods)
    times = {entrant.method.needs: entrant.seconds for entrant in state.entrants}
    assert times[40.0] == pytest.approx(40.0, abs=0.1) and seconds < 75.0
    least = min(entrant.seconds for entrant in state.entrants)
    assert least >= seconds / 8 / ROUND - 0.2


def test_a_stuck_method_leaves_and_the_others_go_on(clock):
    @dataclass(frozen=True)
    class Stuck(Fake):
        def step(self, run: Any, state: Any) -> Step:
            self.clock.now += 1e-3
            return Step("stuck")

    seconds, state = solve([Stuck(clock, 1.0, 0.5), Fake(clock, 0.1, 1.0)])
    assert seconds < 0.15 and "5 iterations changed neither" in state.reasons[0]


def test_a_method_whose_masters_fail_leaves(clock):
    @dataclass(frozen=True)
    class Failing(Fake):
        def step(self, run: Any, state: Any) -> Step:
            raise BackendError("no backend")

    seconds, state = solve([Failing(clock, 1.0, 0.5), Fake(clock, 0.1, 1.0)])
    assert seconds < 0.15 and state.reasons == ["Failing: no backend"]
    reason, _ = solve([Failing(clock, 1.0, 0.5), Failing(clock, 2.0, 0.6)])
    assert reason == "Failing: no backend; Failing: no backend"


def test_a_call_that_cannot_be_divided_is_started_again_with_twice_as_much(clock):
    slow = Fake(clock, 5.0, 0.5, whole=True)
    seconds, state = solve([slow, Fake(clock, 1e9, 1.0)])
    whole = next(entrant for entrant in state.entrants if entrant.whole)
    assert whole.limit == 8.0 and whole.seconds == 2.0 + 4.0 + 5.0
    assert seconds < 40.0


def test_a_call_that_cannot_be_divided_has_no_limit_where_it_is_alone(clock):
    seconds, _ = solve([Fake(clock, 5.0, 0.1, whole=True)])
    assert seconds == 5.0


def test_the_deadline_of_the_run_passes_through(clock):
    from cutplane.runtime.deadline import limited_to

    methods = [Fake(clock, 5.0, 2.0, whole=True), Fake(clock, 1e9, 50.0)]
    with pytest.raises(OutOfTime), limited_to(1.0):
        solve(methods)
    assert clock.now == 1.0


def test_ctrl_c_ends_a_race_with_the_best_point(monkeypatch):
    monkeypatch.setattr(race, "_ALONE", 10.0)

    @dataclass(frozen=True)
    class Interrupted(Method):
        def estimate(self, problem):
            return Estimate(0.0)

        def step(self, run: Any, state: Any) -> Step:
            count = (state or 0) + 1
            if count == 3:
                raise KeyboardInterrupt
            run.query(run.best.x + 0.1)
            return Step("cut", count)

    @cut.risk(dim=2)
    def distance(x):
        return np.abs(x - 1.0).sum(), np.sign(x - 1.0)

    problem = cut.Problem(distance, cut.L2(0.1), cut.Box(-5, 5))
    result = problem.solve(Race((Interrupted(), cut.Kelley())))
    assert result.status == "INTERRUPTED" and np.isfinite(result.objective)
    assert "Interrupted" in result.method


def test_a_result_says_who_ran_for_how_long_and_gave_which_bound(monkeypatch):
    monkeypatch.setattr(race, "_ALONE", 1e-3)

    @cut.risk(dim=60)
    def largest(x):
        values = np.abs(x - np.arange(60.0))
        k = int(values.argmax())
        return values[k], np.sign(x[k] - k) * np.eye(60)[k]

    @dataclass(frozen=True)
    class Quick(cut.ProximalBundle):
        def estimate(self, problem):
            return Estimate(0.0)

        def step(self, run, state):
            time.sleep(3e-3)  # so that others have their turns
            return super().step(run, state)

    problem = cut.Problem(largest, cut.L2(1e-3))
    result = problem.solve(Race((Quick(), cut.Kelley(), cut.LevelBundle())), tol=1e-6)
    assert result.status == "OPTIMAL" and " s" in result.method
    assert "lower bound" in result.method and "upper bound" in result.method


def test_auto_races_at_most_four_methods_of_different_kinds():
    rng = np.random.default_rng(0)
    risk = cut.LinearRisk(
        rng.standard_normal((60, 5)), np.sign(rng.standard_normal(60)), cut.losses.Logistic()
    )
    problem = cut.Problem(risk, cut.L1(0.01), cut.Box(-1, 1))
    chosen = choose(problem)
    assert isinstance(chosen, Race)
    kinds = [method.kind for _, method in chosen.contenders(problem)]
    assert 2 <= len(kinds) <= 4
    assert all(kinds.count(kind) <= 2 for kind in kinds) and len(set(kinds)) > 1


def test_a_proof_that_needs_dropped_rows_is_replaced_by_another_one():
    """The bound of the conic solve rests on intervals of the free thresholds that other cuts proved."""
    X, progression = load_diabetes(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    levels = np.digitize(progression, np.quantile(progression, [0.25, 0.5, 0.75]))
    regularizer = cut.L2(1e-2, weights=np.append(np.ones(10), np.zeros(3)))
    signs = np.where(levels[:, np.newaxis] > np.arange(3), 1.0, -1.0).ravel()
    thresholds = np.tile(np.eye(3), (len(X), 1))
    margins = signs[:, np.newaxis] * np.hstack([np.repeat(X, 3, axis=0), -thresholds])
    ones = np.ones(len(signs))
    each = cut.LinearRisk(np.eye(ones.size), ones, cut.losses.Hinge(), ones / len(X), normalize=False)
    result = cut.Problem(each @ margins, regularizer).solve(
        tol=1e-6, method=cut.methods.Race((cut.ProximalBundle(), cut.Direct()))
    )
    assert result.status == "OPTIMAL"
    assert result.objective == pytest.approx(1.3828474318731, rel=1e-6)

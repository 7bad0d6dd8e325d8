"""One driver for every process: rules, callbacks, Ctrl-C, failures; and one kind of result."""

import math

import numpy as np
import pytest
from sklearn.datasets import load_iris

import cutplane as cut
from cutplane.boosting import DecisionStumps, LPBoost, SoftMargin
from cutplane.engine.driver import Driver, Standing, Turn
from cutplane.exceptions import BackendError
from cutplane.mkl import MKL, PolynomialMKL
from cutplane.result import BaseResult
from cutplane.runtime.deadline import check_time
from cutplane.stopping import Ended, MaxIter, RelativeGap, Stop, TimeLimit


class Halving:
    """Each step halves the gap; the step of a given number calls an action."""

    def __init__(self, number=None, action=None, ends=math.inf):
        self.number, self.action, self.ends = number, action, ends
        self.count = 0
        self.confirmed = 0

    started = True

    def step(self):
        self.count += 1
        if self.count == self.number:
            self.action()
        return Turn("half", Stop(cut.Status.STALLED, "no more") if self.count >= self.ends else None)

    @property
    def standing(self):
        return Standing(lower=1.0 - 0.5**self.count, upper=1.0, x=np.ones(1), oracle_calls=self.count)

    def confirm(self, stop):
        self.confirmed += 1
        return Stop(stop.status, stop.reason + "; confirmed")

    def result(self, stop, history):
        return stop, history


def raising(error):
    def action():
        raise error

    return action


def test_a_rule_ends_it_and_the_proof_is_confirmed():
    process = Halving()
    (status, reason), history = Driver(process, RelativeGap(0.1) | MaxIter(100)).run()
    assert status == "OPTIMAL"
    assert reason.endswith("; confirmed")
    assert process.confirmed == 1
    assert history.column("iteration").tolist() == [0, 1, 2, 3]
    assert history.column("lower_bound").tolist() == [0.5, 0.75, 0.875, 0.9375]


class Doubting(Halving):
    """A process that confirms a proof from its seventh step on."""

    def confirm(self, stop):
        return super().confirm(stop) if self.count >= 7 else None


def test_a_proof_that_is_not_confirmed_takes_further_steps():
    process = Doubting()
    (status, reason), history = Driver(process, RelativeGap(0.1) | MaxIter(100)).run()
    assert (status, process.count, len(history)) == ("OPTIMAL", 7, 7)
    assert reason.endswith("; confirmed")


@pytest.mark.parametrize("last", [4, 5])
def test_a_process_without_further_steps_ends_without_a_confirmed_proof(last):
    (status, reason), history = Driver(Doubting(ends=last), RelativeGap(0.1) | MaxIter(100)).run()
    assert (status, reason, len(history)) == ("STALLED", "no more", last)


def test_a_step_that_gives_up_ends_without_a_confirmed_proof():
    process = Doubting(5, raising(Ended(cut.Status.STALLED, "it is stuck")))
    (status, reason), _ = Driver(process, RelativeGap(0.1) | MaxIter(100)).run()
    assert (status, reason, process.count) == ("STALLED", "it is stuck", 5)


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (Ended(cut.Status.UNBOUNDED, "it fell"), "UNBOUNDED", "it fell"),
        (BackendError("none is left"), "STALLED", "none is left"),
        (cut.OracleError("it lies"), "INVALID_ORACLE", "it lies"),
        (KeyboardInterrupt(), "INTERRUPTED", "interrupted from the keyboard"),
    ],
    ids=repr,
)
def test_what_goes_wrong_in_a_step_becomes_a_status_and_nothing_is_lost(error, status, reason):
    stop, history = Driver(Halving(3, raising(error)), MaxIter(100)).run()
    assert stop == (status, reason)
    assert history.column("lower_bound")[:2].tolist() == [0.5, 0.75]


def test_a_rule_that_holds_goes_before_the_end_of_the_process():
    stop, _ = Driver(Halving(ends=4), RelativeGap(0.1)).run()
    assert stop.status == "OPTIMAL"
    stop, _ = Driver(Halving(ends=2), RelativeGap(0.1)).run()
    assert stop == ("STALLED", "no more")


def test_an_error_of_an_oracle_carries_the_result():
    error = cut.OracleError("it raised")
    error.__cause__ = ValueError("bug")
    with pytest.raises(cut.OracleError, match="it raised") as caught:
        Driver(Halving(3, raising(error)), MaxIter(100)).run()
    (status, _), history = caught.value.result
    assert status == "INVALID_ORACLE"
    assert len(history) == 2


def test_a_time_limit_holds_inside_steps_but_not_in_the_first():
    def wait():
        while True:
            check_time()

    stop, history = Driver(Halving(2, wait), TimeLimit(0.05)).run()
    assert stop.status == "TIME_LIMIT"
    assert len(history) == 2
    stop, history = Driver(Halving(1, lambda: check_time()), TimeLimit(0.0)).run()
    assert stop.status == "TIME_LIMIT"
    assert len(history) == 1


def test_callbacks_see_each_state_and_can_end_it():
    seen = []

    def callback(state):
        seen.append(state.upper_bound)
        return len(seen) == 3

    stop, history = Driver(Halving(), MaxIter(100)).run(callback)
    assert stop == ("INTERRUPTED", "the callback asked to stop")
    assert seen == [1.0, 1.0, 1.0]
    assert len(history) == 3


X, Y = load_iris(return_X_y=True)
X, Y = X[50:], np.where(Y[50:] == 1, 1.0, -1.0)
KERNELS = [np.outer(column, column) for column in (X - X.mean(axis=0)).T]
SOLVES = {
    "problem": lambda **how: cut.Problem(cut.LinearRisk(X, Y, cut.losses.Hinge()), cut.L2(0.1)).solve(**how),
    "boosting": lambda **how: SoftMargin(X, Y, nu=20, weak_learner=DecisionStumps()).solve(LPBoost(), **how),
    "kernels": lambda **how: MKL(KERNELS, Y, C=1.0).solve(**how),
    "polynomial": lambda **how: PolynomialMKL(X, Y, degree=2).solve(**how),
    "labelling": lambda **how: cut.graphical.potts(5, 5, 3).map(**how),
}


@pytest.mark.parametrize("name", SOLVES)
def test_results_have_one_interface(name, tmp_path):
    result = SOLVES[name]()
    assert isinstance(result, BaseResult)
    assert result.lower_bound <= result.objective
    assert result.gap_abs == pytest.approx(result.objective - result.lower_bound)
    assert result.gap == pytest.approx(result.gap_abs / abs(result.objective))
    assert result.history[-1].lower_bound <= result.lower_bound + 1e-3
    assert np.ndim(result.x) == 1
    assert result.status in cut.Status
    assert result.reason
    assert result.method
    assert result.oracle_calls >= 0
    assert result.certificate.verify().valid
    shown = repr(result)
    assert shown.startswith(type(result).__name__)
    assert all(word in shown for word in ("status", "reason", "gap", "seconds"))
    assert "<table>" in result._repr_html_()
    again = cut.load(result.save(tmp_path / "result"), trusted=True)
    assert (again.objective, again.lower_bound) == (result.objective, result.lower_bound)
    assert np.array_equal(again.x, result.x)
    if name != "problem":
        with pytest.raises(cut.InvalidInputError, match="trusted=True"):
            cut.load(tmp_path / "result.npz")


@pytest.mark.parametrize("name", SOLVES)
def test_every_solve_can_be_interrupted_and_watched(name):
    seen = []

    def callback(state):
        seen.append(state.iteration)
        raise KeyboardInterrupt

    result = SOLVES[name](callback=callback)
    assert result.status == "INTERRUPTED"
    assert seen == [0]
    assert result.x is not None

"""Methods that take over from one another."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import cutplane as cut
from cutplane.exceptions import InvalidInputError
from cutplane.methods import Method, Step
from cutplane.methods.race import Schedule


@cut.risk(dim=3)
def distance(x):
    return np.abs(x - 1.0).sum(), np.sign(x - 1.0)


PROBLEM = cut.Problem(distance, cut.L2(0.1), cut.Box(-5, 5))


@dataclass(frozen=True)
class Stuck(Method):
    """Does nothing, or says after some iterations that it is done."""

    after: int = 0

    def step(self, run, state) -> Step:
        count = (state or 0) + 1
        return Step("stuck", count, "nothing to do" if self.after and count >= self.after else None)


@dataclass(frozen=True)
class Incapable(Method):
    """Lacks something that no problem has."""

    def check(self, problem: Any) -> None:
        raise cut.MissingCapabilityError("no")

    def step(self, run, state) -> Step:
        raise AssertionError


@pytest.mark.parametrize("stuck", [Stuck(), Stuck(after=2)])
@pytest.mark.parametrize("between", [(), (Incapable(),)])
def test_the_next_method_goes_on_where_one_is_stuck(stuck, between):
    result = PROBLEM.solve(cut.Relay((stuck, *between, cut.ProximalBundle())), tol=1e-8)
    assert result.status == "OPTIMAL"
    assert result.objective == pytest.approx(PROBLEM.solve(cut.BMRM(), tol=1e-9).objective, rel=1e-7)
    assert "Stuck" in result.method and "ProximalBundle" in result.method


def test_a_run_is_stalled_where_all_methods_are():
    result = PROBLEM.solve(cut.Relay((Stuck(after=3), Incapable(), Stuck())))
    assert result.status == "STALLED"
    assert "nothing to do" in result.reason and "changed neither" in result.reason


def test_methods_share_the_time():
    relay = cut.Relay((cut.Kelley(), cut.ProximalBundle()), alone=3)
    result = cut.Problem(distance, feasible_set=cut.Box(-5, [3.3, 4.7, 0.5])).solve(relay, tol=1e-10)
    assert result.status == "OPTIMAL"
    kinds = result.history.column("step")
    assert list(kinds[1:4]) == ["cut"] * 3


def test_the_first_method_must_be_able():
    with pytest.raises(cut.MissingCapabilityError):
        PROBLEM.solve(cut.Relay((Incapable(), cut.BMRM())))


@pytest.mark.parametrize("methods", [(), 5, (cut.BMRM(), None), cut.BMRM])
def test_what_is_no_method_is_refused(methods):
    with pytest.raises(InvalidInputError, match=r"Relay\.methods"):
        cut.Relay(methods)


def test_a_single_method_stands_for_itself():
    assert PROBLEM.solve(cut.Relay(cut.BMRM())).method == repr(cut.BMRM())
    assert repr(cut.Relay((cut.BMRM(), cut.OCAS()), alone=2)).startswith("Relay((BMRM(")


def test_many_blocks_are_solved_by_the_interior_point_method():
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((200, 4, 5)), rng.standard_normal((200, 4))

    @cut.risk(dim=5, blocks=200)
    def heights(x):
        values = A @ x + b
        top = values.argmax(axis=1)
        return values[np.arange(200), top], A[np.arange(200), top]

    problem = cut.Problem(heights, feasible_set=cut.Box(-3, 3))
    result = problem.solve(cut.ProximalBundle(), tol=1e-7)
    assert result.status == "OPTIMAL" and "interior_point" in result.backend
    assert result.objective == pytest.approx(problem.solve(cut.Kelley(), tol=1e-9).objective, rel=1e-6)


@pytest.mark.parametrize(("gap", "rate"), [(0.5, np.log(2.0)), (1.0, 0.0), (0.0, 0.0), (np.inf, 0.0)])
def test_a_turn_that_loses_its_bound_has_the_rate_0(gap, rate):
    """A bound that the certificate does not prove is taken back, so that the gap may become infinite."""
    entrant = SimpleNamespace(began=(2.0, 1.0), seconds=3.0, rate=None, memory=0.5, gap=lambda run: gap)
    Schedule._measure(None, None, entrant)
    assert entrant.rate == pytest.approx(rate)

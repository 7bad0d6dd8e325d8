"""A method of a user cannot write a bound, and what it returns is checked."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import cutplane as cut
from cutplane.methods import Method, Step
from cutplane.sets.base import HalfSpaces

pytestmark = pytest.mark.every


def problem():
    @cut.risk(dim=2)
    def distance(x):
        return np.abs(x - 2.0).sum(), np.sign(x - 2.0)

    return cut.Problem(distance, cut.L2(1.0))  # least at (1, 1): 2 + 1


def writes_a_bound(run):
    run.lower = run.upper


def moves_a_cut(run):
    run.bundle.offsets[:] += 1.0


def adds_a_forged_point(run):
    point = run.evaluate(np.full(2, 0.5))
    run.add_cut(replace(point, values=point.values + 1.0))


def changes_the_problem(run):
    run.problem = cut.Problem(cut.risk(dim=2)(lambda x: (3.0, np.zeros(2))), cut.L2(1.0))


FRAUDS = {
    "writes a bound": writes_a_bound,
    "offers a bound": lambda run: run.offer_bound(3.5, 1.0, run.proof),
    "moves a cut": moves_a_cut,
    "adds a forged point": adds_a_forged_point,
    "offers a forged point": lambda run: run.offer_point(replace(run.best, objective=0.5)),
    "changes the problem": changes_the_problem,
    "adds a forged half-space": lambda run: run.add_half_spaces(
        np.zeros(2), HalfSpaces(np.array([[-1.0, 0.0]]), np.array([-5.0]))
    ),
}


@dataclass(frozen=True)
class Fraud(Method):
    deed: object

    def step(self, run, state):
        self.deed(run)
        run.reduced()
        run.query(np.full(2, 0.9))
        return Step("fraud")


@dataclass(frozen=True)
class FraudulentBMRM(cut.BMRM):
    deed: object = None

    def step(self, run, state):
        done = super().step(run, state)
        self.deed(run)
        run.reduced()
        return done


@pytest.mark.parametrize(
    "method", [Fraud, lambda deed: cut.Relay((Fraud(deed),)), lambda deed: FraudulentBMRM(deed=deed)]
)
@pytest.mark.parametrize("deed", FRAUDS.values(), ids=FRAUDS)
@pytest.mark.parametrize("options", [{}, {"max_iter": 3}])
def test_no_method_proves_what_its_multipliers_do_not(deed, method, options):
    try:
        result = problem().solve(method(deed), **options)
    except (cut.OracleError, AttributeError, ValueError):
        return
    assert result.lower_bound <= 3.0 + 1e-9
    assert result.objective >= 3.0 - 1e-9
    assert result.status != "OPTIMAL" or result.gap <= 1e-4


def test_an_honest_method_of_a_user_is_optimal():
    @dataclass(frozen=True)
    class Mine(Method):
        def step(self, run, state):
            run.query(run.reduced().x)
            return Step("mine")

    result = problem().solve(Mine())
    assert result.status == "OPTIMAL"
    assert abs(result.objective - 3.0) <= 1e-3


def test_the_reason_names_the_method_and_both_numbers():
    result = problem().solve(Fraud(writes_a_bound))
    assert result.status == "INVALID_ORACLE"
    assert "the bounds of Fraud are not confirmed" in result.reason and "3.01" in result.reason


@pytest.mark.parametrize(
    "answer", [None, "cut", 3, ("cut", None), Step, Step(None), Step(3), Step("cut", None, True), object()]
)
def test_a_step_that_is_none_is_one_clear_error(answer):
    @dataclass(frozen=True)
    class Mine(Method):
        def step(self, run, state):
            return answer

    with pytest.raises(cut.InvalidInputError, match=r"Mine\.step must return a cutplane\.methods\.Step"):
        problem().solve(Mine())

"""A method of a user cannot write a bound, and what it returns is checked."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import cutplane as cut
from cutplane.methods import Method, Step

pytestmark = pytest.mark.every


def problem():
    @cut.risk(dim=2)
    def distance(x):
        return np.abs(x - 2.0).sum(), np.sign(x - 2.0)

    return cut.Problem(distance, cut.L2(1.0))  # least at (1, 1): 2 + 1


def writes_a_bound(run):
    run.lower = 3.5


def offers_a_bound(run):
    run.offer_bound(3.5, 1.0, run.proof)


def moves_a_cut(run):
    run.bundle.offsets[:] += 1.0
    run.reduced()


def adds_a_forged_point(run):
    point = run.evaluate(np.full(2, 0.5))
    forged = replace(point, values=point.values + 1.0)
    run.add_cut(forged)
    run.reduced()


def offers_a_forged_point(run):
    run.offer_point(replace(run.best, objective=0.5))


def reaches_inside(run):
    run.lower = run.upper


def changes_the_problem(run):
    @cut.risk(dim=2)
    def other(x):
        return 3.0, np.zeros(2)

    run.problem = cut.Problem(other, cut.L2(1.0))
    run.reduced()


def adds_a_forged_half_space(run):
    from cutplane.sets.base import HalfSpaces

    run.add_half_spaces(np.zeros(2), HalfSpaces(np.array([[-1.0, 0.0]]), np.array([-5.0])))
    run.reduced()


FRAUDS = [
    writes_a_bound,
    offers_a_bound,
    moves_a_cut,
    adds_a_forged_point,
    offers_a_forged_point,
    reaches_inside,
    changes_the_problem,
    adds_a_forged_half_space,
]


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
        return done


@pytest.mark.parametrize(
    "method", [Fraud, lambda deed: cut.Relay((Fraud(deed),)), lambda deed: FraudulentBMRM(deed=deed)]
)
@pytest.mark.parametrize("deed", FRAUDS)
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
    result = problem().solve(Fraud(reaches_inside))
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

"""Rounding inside a black box is told from a wrong slope, from chance, and from what is not convex."""

import numpy as np
import pytest

import cutplane as cut
from cutplane.engine.run import Run
from cutplane.masters.select import Backend


def started(function, low=-4.0, high=4.0):
    risk = cut.OracleRisk(function, dim=1)
    return Run(cut.Problem(risk, cut.L1(1e-12), cut.Box(low, high, dim=1)), cut.Kelley(), Backend())


def cancelling(x):
    """4e-12 |x|, computed as a difference of numbers of the size of 8."""
    return float((8.0 + 4e-12 * np.abs(x).sum()) - 8.0), 4e-12 * np.where(x < 0.0, -1.0, 1.0)


def test_terms_that_cancel_inside_are_found_and_charged():
    """2e-4 is worth less than half a bit of 8, and 2.5e-4 more: its cut lies above the value at 2e-4."""
    run = started(cancelling)
    run.first = run.query(np.array([2e-4]))
    run.query(np.array([2.5e-4]))
    assert run.evaluator.hidden == 8.0
    result = cut.Problem(cut.OracleRisk(cancelling, dim=1), cut.L1(1e-12), cut.Box(-4.0, 4.0)).solve(
        cut.Kelley(), x0=[2e-4], max_iter=30
    )
    assert result.status != "INVALID_ORACLE"
    assert result.lower_bound <= 0.0


rng = np.random.default_rng(0)
WRONG = {
    "slope": lambda x: (4e-12 * abs(x[0]), 2e-12 * np.sign(x)),
    "chance": lambda x: (cancelling(x)[0] + 1e-13 * rng.random(), cancelling(x)[1]),
    "steps": lambda x: (0.5 + 0.01 * float(x[0] < 5e-4), np.zeros(1)),
    "not convex": lambda x: (-1e-6 * x[0] ** 2, -2e-6 * x),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_rounding_does_not_explain_is_accused(name):
    run = started(WRONG[name])
    with pytest.raises(cut.OracleError, match="above its value"):
        run.first = run.query(np.array([2.0]))
        for x in (2.5e-4, 2e-4, 1e-4, 3e-4, -1.0, 1.0):
            run.query(np.array([x]))
    assert run.evaluator.hidden == 0.0

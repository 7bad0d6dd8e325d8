"""Formulations as their users write them, against cvxpy's solution of the whole problem."""

import pytest
from learning_problems import FORMULATIONS


@pytest.mark.parametrize("name", FORMULATIONS)
def test_defaults_give_the_optimum_of_cvxpy_with_a_proof(name):
    ours, reference = FORMULATIONS[name]()
    result = ours()
    optimum = reference.solve(solver="CLARABEL")
    assert result.status == "OPTIMAL", result
    assert result.objective == pytest.approx(optimum, rel=2e-4)
    assert result.lower_bound <= optimum + 1e-6 * abs(optimum)
    assert result.certificate.verify().valid

"""L-BFGS where it gets stuck: at a kink, and where the model of one cut leads on."""

import numpy as np
import pytest

import cutplane as cut


@cut.risk(dim=2)
def kink(x):
    """Return |x_1|, and of its subgradients at 0 the largest."""
    return abs(x[0]), np.array([1.0 if x[0] >= 0.0 else -1.0, 0.0])


def test_a_point_that_no_step_improves_has_a_bound_all_the_same():
    """With the square the cut x_1 is least at (-0.5, 0), where the sum is 0."""
    result = cut.Problem(kink, cut.L2(1.0, centre=[0.5, 0.0])).solve(cut.LBFGS(), x0=np.zeros(2))
    assert result.status is cut.Status.STALLED and "no step along the gradient" in result.reason
    assert result.objective == 0.125
    assert result.lower_bound == pytest.approx(0.0, abs=1e-12)
    assert result.certificate.verify()


def test_where_the_model_leads_lower_it_begins_anew():
    problem = cut.Problem(kink, cut.L2(1.0, centre=[0.99, 1.0], weights=[1.0, 0.1]))
    result = problem.solve(cut.LBFGS(), x0=np.zeros(2), max_iter=1)
    assert result.history[-1].step == "model"
    assert result.x == pytest.approx([-0.01, 1.0])
    assert result.objective < problem.objective(np.zeros(2))

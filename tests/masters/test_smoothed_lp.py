"""The smoothed linear programmes against HiGHS, with the certificate of their multipliers."""

import numpy as np
import pytest

import cutplane as cut
from cutplane.boosting import DecisionStumps, LPBoost, MLPBoost, SoftMargin
from cutplane.masters.base import ReducedProblem
from cutplane.masters.entropy import SmoothedLP
from cutplane.regularizers import L2, NoRegularizer
from cutplane.sets import Box, CappedSimplex, Simplex

DIM = 2000


def reduced(nu=300.0, regularizer=None, simple_set=None):
    return ReducedProblem(DIM, 1, regularizer or NoRegularizer(), simple_set or CappedSimplex(1.0 / nu, DIM))


@pytest.mark.parametrize(
    "problem",
    [
        reduced(regularizer=L2(1.0)),
        reduced(simple_set=Box(0.0, 1.0, DIM)),
        reduced(simple_set=Simplex(DIM)),
        reduced(simple_set=CappedSimplex(np.linspace(0.01, 0.02, DIM))),
        reduced(nu=float(DIM)),
        ReducedProblem(10, 1, NoRegularizer(), CappedSimplex(0.5, 10)),
    ],
    ids=["quadratic", "box", "simplex", "caps", "one point", "small"],
)
def test_it_refuses_what_it_cannot_solve(problem):
    assert SmoothedLP.refusal(problem, None)


def test_boosting_many_examples_is_certified():
    """The optimum is in the interval of either method."""
    X, y = cut.datasets.twonorm(1000, seed=0)
    problem = SoftMargin(X, y, 0.5 * y.size, DecisionStumps())
    first, second = (problem.solve(method, tol=0.01) for method in (LPBoost(), MLPBoost()))
    for one, other in ((first, second), (second, first)):
        assert one.status is cut.Status.OPTIMAL and one.gap_abs <= 0.01
        assert one.lower_bound <= other.objective + 1e-9

"""A run that is stopped early gives the bound and the average of what it has seen."""

import numpy as np
import pytest

import cutplane as cut
from cutplane.decomposition import LinearSubproblem
from cutplane.estimators import ChainCRF

OPTIMUM = 9.0  # two at 1, two at 2, one at 3


def machines():
    made = [LinearSubproblem([cost], upper=2.0, integrality=True) for cost in (1.0, 3.0, 2.0)]
    return cut.LagrangianDual(made, coupling=[[[1.0]]] * 3, rhs=[5.0], sense=">=")


@pytest.mark.parametrize("method", ["auto", "proximal", "level", "bmrm", "kelley"])
@pytest.mark.parametrize("max_iter", range(6))
def test_a_stopped_dual_has_a_bound_and_columns(max_iter, method):
    dual = machines()
    try:
        result = cut.Problem(dual).solve(method, max_iter=max_iter)
    except cut.MissingCapabilityError:
        pytest.skip("the method needs a bounded set")
    assert -result.objective <= OPTIMUM + 1e-9  # of the maximisation
    assert len(result.primal) == 3 and all(0.0 <= x[0] <= 2.0 for x in result.primal)
    assert 0.0 <= dual.infeasibility(result.primal) <= 5.0
    assert result.certificate.verify().valid


def test_columns_are_averaged_before_a_bound_is_proven():
    dual = machines()
    result = cut.Problem(dual).solve("proximal", max_iter=4)
    assert result.lower_bound == -np.inf
    assert dual.infeasibility(result.primal) < dual.infeasibility(cut.Problem(dual).solve(max_iter=0).primal)


def sequences():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(8, 6)) for _ in range(40)]
    return X, [(x[:, 0] + 0.5 * rng.normal(size=8) > 0.0).astype(int) for x in X]


@pytest.mark.parametrize("max_iter", [1, 2, 3, 5])
def test_a_stopped_chain_has_the_best_bound_of_its_cuts(max_iter):
    with pytest.warns(UserWarning):
        stopped = ChainCRF(max_iter=max_iter).fit(*sequences()).result_
    whole = ChainCRF(tol=1e-5).fit(*sequences()).result_
    assert 0.0 < stopped.lower_bound <= whole.objective
    assert stopped.gap < 1.0 and stopped.certificate.verify().valid


@pytest.mark.parametrize("risk_weight", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("max_iter", range(4))
def test_a_stopped_smooth_machine_has_more_than_the_known_infimum(max_iter, risk_weight):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 10))
    y = np.sign(X[:, 0] + 0.5 * rng.normal(size=200))
    risk = risk_weight * cut.LinearRisk(X, y, cut.losses.Logistic())
    centred = cut.L2(1e-3, centre=np.ones(10))
    problem = cut.Problem(risk, centred)
    optimum = problem.solve(tol=1e-8).objective
    result = problem.solve(cut.LBFGS(), max_iter=max_iter)
    assert 0.0 < result.lower_bound <= optimum * (1.0 + 1e-12)
    assert result.certificate.verify().valid

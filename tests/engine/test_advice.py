"""A black box that took many calls is told of a faster statement, in the reason of its result."""

import numpy as np
import pytest

import cutplane as cut

RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((60, 12)), RNG.standard_normal(60)


def distance(x):
    r = A @ x - B
    return np.abs(r).mean(), A.T @ np.sign(r) / B.size


@pytest.mark.parametrize(("max_iter", "advised"), [(5, False), (400, True)])
def test_many_calls_of_a_black_box_are_advised_about(max_iter, advised):
    result = cut.Problem(cut.OracleRisk(distance, dim=12), cut.L2(1e-3)).solve(
        "bmrm", tol=1e-10, max_iter=max_iter
    )
    assert ("declared as a LinearRisk" in result.reason) is advised
    assert advised is (result.oracle_calls > 100)


def test_a_declared_risk_is_not():
    risk = cut.LinearRisk(A, B, cut.losses.Absolute())
    result = cut.Problem(risk, cut.L2(1e-3)).solve("bmrm", tol=1e-10, max_iter=400)
    assert "declared" not in result.reason

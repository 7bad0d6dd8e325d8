"""A bundle of limited size: never more rows than asked for, and bounds that stay what they were."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from covering import covering

import cutplane as cut

rng = np.random.default_rng(0)
X = rng.normal(size=(80, 6))
y = np.sign(X[:, 0] + 0.5 * rng.normal(size=80))
CORNERS = np.array(np.meshgrid(*[[-1.0, 1.0]] * 6)).reshape(6, -1).T


@cut.separation_oracle
def ball(x):
    length = np.linalg.norm(x)
    return [] if length <= 1.0 else [cut.HalfSpace(x / length, 1.0)]


@cut.separation_oracle
def cross_polytope(x):
    """Up to 64 half-spaces at once."""
    return [cut.HalfSpace(corner, 1.2) for corner in CORNERS if corner @ x > 1.2 + 1e-9]


FORMULATIONS = {
    "L2": lambda risk: cut.Problem(risk, cut.L2(0.01)),
    "box": lambda risk: cut.Problem(risk, feasible_set=cut.Box(-1, 1)),
    "L1": lambda risk: cut.Problem(risk, cut.L1(0.01), cut.Box(-3, 3)),
    "ball": lambda risk: cut.Problem(risk, cut.L2(0.01), cut.Box(-3, 3) & ball),
    "polytope": lambda risk: cut.Problem(risk, cut.L2(0.01), cut.Box(-3, 3) & cross_polytope),
}
METHODS = [
    cut.Kelley(),
    cut.BMRM(),
    cut.OCAS(),
    cut.LevelBundle(),
    cut.ProximalBundle(),
    "auto",
]


@cache
def least(formulation):
    return FORMULATIONS[formulation](cut.LinearRisk(X, y, cut.losses.Hinge())).solve(tol=1e-7).objective


@pytest.mark.parametrize(
    ("method", "formulation", "n_blocks", "more"),
    covering(METHODS, FORMULATIONS, [1, 4], [0, 3, 12]),
    ids=str,
)
def test_no_iteration_has_more_rows_than_allowed(method, formulation, n_blocks, more):
    problem = FORMULATIONS[formulation](cut.LinearRisk(X, y, cut.losses.Hinge(), blocks=n_blocks))
    most = 3 * n_blocks + 1 + bool(problem.separators) + more
    many = more == 12
    result = problem.solve(method, max_cuts=most, tol=1e-3 if many else 1e-4, max_iter=3000 if many else 25)
    assert max(record.n_cuts for record in result.history) <= most
    lower = np.array([record.lower_bound for record in result.history])
    assert (lower[1:] >= lower[:-1]).all()
    optimum = least(formulation)
    assert result.lower_bound <= optimum * (1.0 + 1e-7)
    assert optimum <= result.objective * (1.0 + 1e-6)
    if many and formulation == "L2":
        assert result.status is cut.Status.OPTIMAL
    assert result.status in (cut.Status.OPTIMAL, cut.Status.MAX_ITER, cut.Status.STALLED)
    assert result.certificate.verify().valid


def test_the_least_number_is_named():
    risk = cut.LinearRisk(X, y, cut.losses.Hinge(), blocks=2)
    with pytest.raises(cut.InvalidInputError, match="7"):
        cut.Problem(risk, cut.L2(0.1)).solve(max_cuts=6)
    with pytest.raises(cut.InvalidInputError, match="8"):
        cut.Problem(risk, cut.L2(0.1), cut.Box(-3, 3) & ball).solve(max_cuts=7)


def test_a_warm_start_fits_in_too():
    problem = cut.Problem(cut.LinearRisk(X, y, cut.losses.Hinge()), cut.L2(1e-3))
    first = problem.solve(cut.BMRM(), tol=1e-6)
    assert len(first.certificate.offsets) > 12
    again = problem.solve(cut.BMRM(), warm_start=first, max_cuts=8, tol=1e-5)
    assert max(record.n_cuts for record in again.history) <= 8
    assert again.status is cut.Status.OPTIMAL
    assert again.n_iter == 0
    assert again.certificate.verify().valid

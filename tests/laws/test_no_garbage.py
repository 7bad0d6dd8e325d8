"""A solve leaves no cycles of objects behind, which only the garbage collector would free, and late."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import cutplane as cut

rng = np.random.default_rng(0)
X = rng.normal(size=(40, 3))
y = np.sign(X[:, 0] + 0.3 * rng.normal(size=40))


@cut.risk(dim=3)
def distance(x):
    return float(np.abs(x - 1.0).sum()), np.sign(x - 1.0)


PROBLEMS = {
    "black box": (cut.Problem(distance, cut.L2(0.1)), ("proximal", "level", "bmrm", "ocas")),
    "box": (cut.Problem(distance, None, cut.Box(-2.0, 0.5)), ("kelley", "proximal", "auto")),
    "hinge": (cut.Problem(cut.LinearRisk(X, y, cut.losses.Hinge()), cut.L2(0.1)), ("auto", "ocas")),
    "logistic": (cut.Problem(cut.LinearRisk(X, y, cut.losses.Logistic()), cut.L2(0.1)), ("auto", "lbfgs")),
}


@pytest.mark.parametrize(
    ("name", "method"), [(name, method) for name, (_, methods) in PROBLEMS.items() for method in methods]
)
def test_a_solve_leaves_no_cycles(name, method):
    problem = PROBLEMS[name][0]
    assert problem.solve(method).status == "OPTIMAL"  # compiles and imports
    gc.disable()
    try:
        found = []
        for _ in range(3):  # in one of which a routine may be compiled
            gc.collect()
            problem.solve(method)
            found.append(gc.collect())
        assert min(found) == 0
    finally:
        gc.enable()

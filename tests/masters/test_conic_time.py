"""A conic solver is given the seconds that remain once its programme is compiled."""

import cvxpy as cp
import numpy as np
import pytest

from cutplane.masters.cone_programme import solve_conic
from cutplane.runtime import clock
from cutplane.runtime.deadline import OutOfTime, limited_to


def test_the_limit_of_a_solver_leaves_out_what_compiling_took(monkeypatch):
    x = cp.Variable(3)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(x - np.arange(3.0))), [x <= 1.0])
    compiled, elapsed = cp.Problem.get_problem_data, [0.0]
    monkeypatch.setattr(clock, "perf_counter", lambda: elapsed[0])

    def slowly(self, *arguments, **options):
        elapsed[0] += 8.0
        return compiled(self, *arguments, **options)

    monkeypatch.setattr(cp.Problem, "get_problem_data", slowly)
    limits = []
    from cutplane.masters import cone_programme

    timed = cone_programme.timed
    monkeypatch.setattr(cone_programme, "timed", lambda *given: limits.append(timed(*given)) or limits[-1])
    with limited_to(10.0):
        assert solve_conic(problem, x, "CLARABEL").x == pytest.approx([0.0, 1.0, 1.0], abs=1e-5)
    assert limits[-1]["time_limit"] < 2.0
    with limited_to(5.0), pytest.raises(OutOfTime):
        solve_conic(problem, x, "CLARABEL")

"""Every method on every formulation, against one monolithic cvxpy solve."""

import numpy as np
import pytest
from formulations import FORMULATIONS, formulation

import cutplane as cut
from cutplane.status import Status

METHODS = {
    "auto": "auto",
    "Kelley": cut.Kelley(),
    "BMRM": cut.BMRM(),
    "OCAS": cut.OCAS(),
    "proximal": cut.ProximalBundle(),
    "level": cut.LevelBundle(),
}
TOL = 1e-5


@pytest.mark.parametrize("name", FORMULATIONS)
@pytest.mark.parametrize("method", [m for m in METHODS if m != "Kelley"])
def test_against_one_monolithic_solve(name, method):
    problem, optimum = formulation(name)
    scale = max(1e-12, abs(optimum))
    result = problem.solve(METHODS[method], tol=TOL, max_iter=1000)
    assert result.status is Status.OPTIMAL, result
    assert result.gap <= TOL
    assert abs(result.objective - optimum) <= 2 * TOL * scale
    assert result.lower_bound <= optimum + 1e-7 * scale
    verification = result.certificate.verify()
    assert verification.valid, verification
    lower, upper = result.history.column("lower_bound"), result.history.column("upper_bound")
    assert (np.diff(lower[np.isfinite(lower)]) >= -1e-12 * np.abs(lower[-1])).all()
    assert (np.diff(upper[np.isfinite(upper)]) <= 0).all()
    assert (lower <= optimum + 1e-7 * scale).all()


def test_cuts_outlive_regularizer_and_set():
    result = formulation("hinge, L2")[0].solve(tol=1e-8)
    for name in ("hinge, L1", "hinge, L2, box", "hinge, elastic net", "hinge, entropy, simplex"):
        problem, optimum = formulation(name)
        warm = problem.solve(tol=1e-6, warm_start=result)
        assert warm.status is Status.OPTIMAL
        assert warm.objective == pytest.approx(optimum, rel=1e-5)
        assert warm.certificate.verify().valid


def test_the_path_equals_cold_solves():
    problem, _ = formulation("hinge, L2")
    lams = np.logspace(0, -4, 9)
    path = problem.path(lams, method=cut.BMRM(), tol=1e-6)
    cold = [cut.Problem(problem.risk, cut.L2(lam)).solve(cut.BMRM(), tol=1e-6) for lam in lams]
    assert path.objectives == pytest.approx([result.objective for result in cold], rel=2e-6)
    assert path.oracle_calls <= 0.8 * sum(result.oracle_calls for result in cold)
    assert all(result.status is Status.OPTIMAL for result in path)
    assert path.coefficients.shape == (9, problem.dim)


def test_iterate_is_the_same_as_solve():
    problem, _ = formulation("hinge, L2")
    loop = problem.iterate(cut.Kelley(), tol=1e-6)
    states = list(loop)
    solved = problem.solve(cut.Kelley(), tol=1e-6)
    assert states[-1].upper_bound == solved.objective == loop.result().objective
    assert [state.iteration for state in states] == list(range(solved.n_iter + 1))
    assert loop.result().status is Status.OPTIMAL
    left = problem.iterate(cut.Kelley(), tol=1e-6)
    next(iter(left))
    assert left.result().status is Status.INTERRUPTED


CHOICES = {
    "hinge, L2": cut.Portfolio(),
    "black box, L1": cut.ProximalBundle(),
    "hinge, box": cut.ProximalBundle(),
    "ball by separation": cut.ProximalBundle(),
    "risk over ball by separation": cut.ProximalBundle(),
}


@pytest.mark.parametrize("name", CHOICES)
def test_the_automatic_choice(name):
    assert formulation(name)[0].solve(max_iter=1).method.startswith(repr(CHOICES[name]))


def test_the_automatic_choice_for_linear_and_unbounded_problems():
    objective = cut.LinearObjective(np.arange(1.0, 4.0))
    assert cut.Problem(objective, feasible_set=cut.Simplex()).solve().method == repr(cut.Kelley())
    free = cut.Problem(formulation("hinge, L2")[0].risk)
    assert free.solve(max_iter=1).method == repr(cut.ProximalBundle())


def test_the_choice_of_the_backend():
    assert formulation("hinge, L2")[0].solve(max_iter=1).backend == "simplex_qp"
    assert formulation("hinge, L1, box")[0].solve(cut.Kelley(), max_iter=1).backend == "highs"
    assert formulation("hinge, L2")[0].solve(max_iter=1, backend="Clarabel").backend == "clarabel"


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(cut.InvalidInputError, match=r"no method 'simplex'.*'direct'.*'proximal'"):
        formulation("hinge, L2")[0].solve("simplex")


@pytest.mark.parametrize(
    ("option", "ours"), [("solver", "backend"), ("verbose", "log"), ("max_iters", "max_iter")]
)
def test_options_of_other_libraries_are_answered_with_ours(option, ours):
    problem = formulation("hinge, L2")[0]
    for solve in (problem.solve, problem.iterate):
        with pytest.raises(TypeError, match=rf"no option '{option}'; it is called {ours}"):
            solve(**{option: 1})

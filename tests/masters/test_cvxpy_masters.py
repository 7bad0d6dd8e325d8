"""Masters through cvxpy: deadlines, failures, OSQP's updates; and Clarabel's dual of few rows."""

from functools import partial
from types import SimpleNamespace

import cvxpy as cp
import numpy as np
import osqp
import pytest
from conformance import rows_of
from cvxpy.reductions.solvers.qp_solvers.osqp_qpif import OSQP

import cutplane as cut
from cutplane.masters.base import HALF_SPACE, MasterStatus, ReducedProblem
from cutplane.masters.cone_master import ConeMaster, CvxpyMaster
from cutplane.masters.cone_programme import call
from cutplane.masters.highs import HighsMaster
from cutplane.masters.simplex_qp import SimplexQP
from cutplane.runtime import deadline
from cutplane.runtime.deadline import OutOfTime

SLOPES = np.array([[1.0, -2.0, 0.5, 0.0, 1.0], [-1.0, 1.0, 0.0, 2.0, -0.5], [1.0, 1.0, 1.0, 1.0, 1.0]])
ROWS = rows_of(SLOPES, [0.5, 0.25, -0.75], [0, 0, HALF_SPACE])


def boxed(backend, options=None):
    """A master of a linear programme."""
    return CvxpyMaster(ReducedProblem(5, 1, cut.L1(0.5), cut.Box(-9, 9, dim=5)), backend, options)


def solved_by(monkeypatch, solve):
    """Put `solve(problem, **options)` in the place of cvxpy's."""
    monkeypatch.setattr(cp.Problem, "solve", solve)


@pytest.mark.parametrize("variable_only", [True, False])
def test_an_answer_that_is_not_finite_is_none(monkeypatch, variable_only):
    def solve(problem, **options):
        right(problem, **options)
        for variable in problem.variables():
            variable.save_value(np.full(variable.shape, np.nan))
        if not variable_only:
            problem.constraints[0].dual_variables[0].save_value(None)

    right = cp.Problem.solve
    solved_by(monkeypatch, solve)
    reduced = ReducedProblem(5, 1, cut.L2(0.5), cut.WholeSpace(5))
    found = CvxpyMaster(reduced, "clarabel").solve(ROWS)
    assert (found.x, found.multipliers) == (None, None)
    assert (found.status, found.message) == (MasterStatus.FAILED, "no finite multipliers")


@pytest.mark.parametrize(
    ("backend", "options", "limit"),
    [
        ("clarabel", {}, "time_limit"),
        ("osqp", {}, "time_limit"),
        ("osqp", {"time_limit": 60.0}, "time_limit"),
        ("osqp", {"time_limit": 2.0}, "time_limit"),
        ("scs", {}, "time_limit_secs"),
        ("ecos", {}, None),
    ],
)
@pytest.mark.parametrize("seconds", [30.0, np.inf])
def test_a_backend_is_told_the_seconds_that_are_left(monkeypatch, backend, options, limit, seconds):
    told = {}
    solved_by(monkeypatch, lambda problem, **options: told.update(options))
    if backend.upper() not in cp.installed_solvers():
        pytest.skip(f"{backend} is not installed")
    with deadline.limited_to(seconds):
        boxed(backend, options).solve(ROWS)
    least = min(seconds, options.get("time_limit", np.inf))
    assert {"time_limit", "time_limit_secs"} & told.keys() == ({limit} if limit and least < np.inf else set())
    assert None not in told
    if limit in told:
        assert 0.9 * least < told[limit] <= least


@pytest.mark.parametrize("ending", ["solved", "raised", "stopped"])
def test_an_answer_that_comes_late_counts_and_a_failure_does_not(monkeypatch, ending):
    now = [0.0]

    def slow(problem, **options):
        right(problem, **options)
        now[0] += 10.0
        if ending == "raised":
            raise cp.SolverError("no time left")
        if ending == "stopped":
            problem._status = cp.settings.USER_LIMIT

    right = cp.Problem.solve
    monkeypatch.setattr(deadline, "clock", lambda: now[0])
    solved_by(monkeypatch, slow)
    with deadline.limited_to(5.0):
        if ending == "solved":
            assert boxed("clarabel").solve(ROWS).status is MasterStatus.SOLVED
        with pytest.raises(OutOfTime):
            boxed("clarabel").solve(ROWS)


def test_after_the_deadline_no_backend_is_asked(monkeypatch):
    solved_by(monkeypatch, lambda problem, **options: pytest.fail("the time was up"))
    with deadline.limited_to(0.0), pytest.raises(OutOfTime):
        boxed("clarabel").solve(ROWS)


@pytest.mark.parametrize(("backend", "attempts"), [("osqp", 2), ("clarabel", 1)])
def test_osqp_at_its_limit_is_asked_again_with_a_looser_tolerance(monkeypatch, backend, attempts):
    told = []

    def stopped_once(problem, **options):
        told.append(options)
        right(problem, **options)
        if len(told) == 1:
            problem._status = cp.settings.USER_LIMIT

    right = cp.Problem.solve
    solved_by(monkeypatch, stopped_once)
    found = boxed(backend).solve(ROWS)
    assert len(told) == attempts
    if attempts == 1:
        assert (found.status, found.message) == (MasterStatus.FAILED, "CLARABEL: user_limit")
    else:
        assert (found.status, found.message) == (
            MasterStatus.SOLVED,
            "OSQP: solved with a looser tolerance",
        )
        assert not told[1]["warm_start"]
        assert told[0]["eps_abs"] < told[1]["eps_abs"] < 1e-5
        assert told[0]["eps_rel"] < told[1]["eps_rel"] < 1e-5


@pytest.mark.parametrize(
    ("regularizer", "status"), [(cut.L2(0.5), MasterStatus.FAILED), (cut.L1(0.5), MasterStatus.UNBOUNDED)]
)
def test_highs_is_not_trusted_if_it_calls_a_quadratic_programme_unbounded(monkeypatch, regularizer, status):
    def unbounded(problem, **options):
        problem._status = cp.UNBOUNDED

    solved_by(monkeypatch, unbounded)
    master = CvxpyMaster(ReducedProblem(5, 1, regularizer, cut.Box(-9, 9, dim=5)), "highs")
    found = master.solve(ROWS)
    assert found.status is status
    assert found.message.startswith("HIGHS: unbounded")
    assert ("not to be trusted" in found.message) == (status is MasterStatus.FAILED)


def test_a_ctrl_c_that_osqp_has_caught_interrupts_the_run(monkeypatch):
    stopped = SimpleNamespace(info=SimpleNamespace(status_val=osqp.SolverStatus.OSQP_SIGINT))
    monkeypatch.setattr(OSQP, "solve_via_data", lambda *data, **options: stopped)
    problem = cut.Problem(cut.LinearRisk(SLOPES, np.ones(3), cut.losses.Hinge()), cut.L1(0.1), cut.Box(-1, 1))
    assert problem.solve(cut.BMRM(), backend="osqp").status is cut.Status.INTERRUPTED


@pytest.mark.parametrize("steepness", [2.0**-9, 1.0, 2.0**9])
def test_steep_half_spaces_in_the_dual_form(steepness):
    reduced = ReducedProblem(5, 1, cut.L2(0.5), cut.WholeSpace(5))
    slopes = SLOPES * np.array([[1.0], [1.0], [steepness]])
    rows = rows_of(slopes, [0.5, 0.25, 6.0 * steepness], ROWS.blocks)
    found, wanted = ConeMaster(reduced).solve(rows), SimplexQP(reduced).solve(rows)
    assert wanted.multipliers[2] > 0.0
    assert found.x == pytest.approx(wanted.x, abs=1e-6)
    assert found.multipliers == pytest.approx(wanted.multipliers, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_osqp_keeps_the_equations_of_a_set_while_the_rows_change(seed):
    rng = np.random.default_rng(seed)
    A, b = rng.normal(size=(3, 5)), rng.normal(size=3)
    simple_set = cut.Polyhedron(A_eq=A, b_eq=b) & cut.Box(-50, 50)
    reduced = ReducedProblem(5, 1, cut.L2(0.5), simple_set.resolve(5))
    master, slopes, offsets = CvxpyMaster(reduced, "osqp"), rng.normal(size=(6, 5)), rng.normal(size=6)
    for k in range(4):
        rows = rows_of(slopes, (1.0 + k) * offsets, ids=np.arange(6) + 6 * k)
        wanted = CvxpyMaster(reduced, "clarabel").solve(rows)
        assert master.solve(rows).x == pytest.approx(wanted.x, abs=1e-5)


def test_clarabel_is_asked_for_its_last_digits_if_nothing_else_helps():
    rng = np.random.default_rng(1)
    reduced = ReducedProblem(8, 1, cut.L2(0.5), cut.WholeSpace(8))
    slopes, offsets = rng.normal(size=(6, 8)), rng.normal(size=6)
    rows = rows_of(slopes, offsets)
    found, wanted = ConeMaster(reduced).solve(rows), SimplexQP(reduced).solve(rows)
    assert found.x == pytest.approx(wanted.x, abs=1e-10)
    assert found.multipliers == pytest.approx(wanted.multipliers, abs=1e-10)


DUAL = {"clarabel": ConeMaster} | {name: partial(CvxpyMaster, backend=name) for name in ("osqp", "scs")}


@pytest.mark.parametrize("backend", DUAL)
def test_few_rows_are_solved_in_the_dual_form_while_they_change(monkeypatch, backend):
    """The problem in x is not solved; flat cuts do not change the centre."""
    rng, reduced = (
        np.random.default_rng(0),
        ReducedProblem(40, 1, cut.L2(0.5, centre=np.ones(40)), cut.WholeSpace(40)),
    )
    slopes, offsets = rng.normal(size=(38, 40)), rng.normal(size=38)
    slopes[:2] = 0.0
    master = DUAL[backend](reduced)
    monkeypatch.setattr(master, "_solve", None)
    for ids in ([0], [0, 1], [0, 1, 2, 3], [1, 3], [3, 4], [0, 2, 6, 7, 8], range(17), range(38), [36, 37]):
        rows = rows_of(slopes[[*ids]], offsets[[*ids]], ids=[*ids])
        found, wanted = master.solve(rows), SimplexQP(reduced).solve(rows)
        assert found.x == pytest.approx(wanted.x, abs=1e-5)
        assert found.multipliers.sum() == pytest.approx(1.0)


def test_osqp_is_updated_without_a_false_answer():
    """The sides of an equation that changes by rounding errors are passed on together."""
    reduced = ReducedProblem(5, 1, cut.L2(0.5), cut.WholeSpace(5))
    master = CvxpyMaster(reduced, "osqp")
    for scale in (1.0, 1.0 + 2.0**-40, 3.0, 1e-3):
        rows = rows_of(SLOPES, scale * ROWS.offsets, ROWS.blocks)
        found, wanted = master.solve(rows), SimplexQP(reduced).solve(rows)
        assert found.x == pytest.approx(wanted.x, abs=1e-5)


def test_osqp_is_told_both_sides_of_the_constraints_when_one_of_them_changes(monkeypatch):
    told, update = [], osqp.OSQP.update

    def noted(solver, **sides):
        told.append(sides)
        return update(solver, **sides)

    monkeypatch.setattr(osqp.OSQP, "update", noted)
    x, side = cp.Variable(2), cp.Parameter()
    problem = cp.Problem(cp.Minimize(cp.sum_squares(x - 3.0)), [cp.sum(x) <= side, x[0] == 1.0])
    for side.value in (1.0, 2.0):
        assert call(problem, "OSQP", {})[0] is MasterStatus.SOLVED
        assert x.value == pytest.approx([1.0, side.value - 1.0], abs=1e-6)
    assert [{"l", "u"} <= sides.keys() for sides in told] == [True]


@pytest.mark.parametrize("unit", [1.0, 2.0**18, 2.0**-12])
@pytest.mark.parametrize(
    "build", [ConeMaster, partial(CvxpyMaster, backend="clarabel")], ids=["own", "cvxpy"]
)
def test_multipliers_of_steep_half_spaces_hold_in_every_unit_of_x(unit, build):
    rng = np.random.default_rng(0)
    slopes, blocks = rng.standard_normal((30, 3)), np.arange(30) % 3 - 1
    steep = blocks == HALF_SPACE
    slopes[steep] *= 16.0
    rows = rows_of(slopes, unit * np.where(steep, -0.8 - rng.random(30), rng.standard_normal(30)), blocks)
    reduced = ReducedProblem(3, 2, cut.L1(0.25), cut.Box(-2.0 * unit, 2.0 * unit, dim=3))
    living, exact = build(reduced), HighsMaster(reduced).solve(rows)
    assert exact.multipliers[steep].max() > 0.0
    for _ in range(2):
        found = living.solve(rows)
        assert found.x == pytest.approx(exact.x, abs=2e-5 * unit)
        assert found.multipliers == pytest.approx(exact.multipliers, abs=1e-4)

"""A living HiGHS model: its options, its rows as HiGHS takes them, and how it solves again."""

import math
import subprocess
import sys
from types import SimpleNamespace

import highspy
import numpy as np
import pytest
from scipy import sparse

from cutplane.masters import highs
from cutplane.masters.base import HALF_SPACE, MasterStatus
from cutplane.masters.highs import (
    DUAL_SIMPLEX,
    PRIMAL_SIMPLEX,
    entries,
    living_model,
    rerun,
    set_costs,
)
from cutplane.pieces.forms import LinearForm
from cutplane.runtime.deadline import OutOfTime, limited_to

INF = math.inf
STATUS = highspy.HighsModelStatus


def programme(cost, rows, low, high, lower=-INF, upper=INF):
    cost, rows = np.array(cost, dtype=float), np.atleast_2d(np.array(rows, dtype=float))
    return LinearForm(
        cost,
        np.full(cost.size, lower),
        np.full(cost.size, upper),
        sparse.csr_array(rows),
        np.array(low, dtype=float),
        np.array(high, dtype=float),
    )


PROGRAMMES = {
    "solved": (programme([1.0, 2.0], [[1.0, 1.0]], [1.0], [INF], lower=0.0), MasterStatus.SOLVED),
    "infeasible": (
        programme([1.0, 1.0], [[1.0, 1.0], [1.0, 1.0]], [2.0, -INF], [INF, 1.0]),
        MasterStatus.INFEASIBLE,
    ),
    "unbounded": (programme([-1.0, 0.0], [[1.0, -1.0]], [-INF], [1.0], lower=0.0), MasterStatus.UNBOUNDED),
    "unbounded without rows": (programme([1.0], np.empty((0, 1)), [], []), MasterStatus.UNBOUNDED),
}


@pytest.mark.parametrize("strategy", [DUAL_SIMPLEX, PRIMAL_SIMPLEX])
@pytest.mark.parametrize("name", PROGRAMMES)
def test_programmes_are_solved_or_told_apart(name, strategy):
    form, verdict = PROGRAMMES[name]
    status, message = rerun(living_model(form, strategy))
    assert status is verdict
    assert message == "" if verdict is MasterStatus.SOLVED else message.startswith("HiGHS: ")


def test_the_solution_is_that_of_the_programme():
    form = programme([2.0, 3.0], [[1.0, 1.0], [1.0, -1.0]], [4.0, -2.0], [INF, 2.0], lower=0.0, upper=10.0)
    model = living_model(form, DUAL_SIMPLEX)
    rerun(model)
    assert np.array(model.getSolution().col_value) == pytest.approx([3.0, 1.0])
    assert model.getInfo().objective_function_value == pytest.approx(9.0)
    set_costs(model, np.array([3.0, 2.0]))
    assert rerun(model) == (MasterStatus.SOLVED, "")
    assert np.array(model.getSolution().col_value) == pytest.approx([1.0, 3.0])
    assert list(model.getLp().col_cost_) == [3.0, 2.0]


@pytest.mark.parametrize("strategy", [DUAL_SIMPLEX, PRIMAL_SIMPLEX])
def test_a_model_is_silent_and_keeps_its_basis(strategy):
    model = living_model(PROGRAMMES["solved"][0], strategy)
    wanted = {
        "output_flag": False,
        "threads": 0,
        "presolve": "off",
        "solver": "simplex",
        "simplex_strategy": strategy,
        "small_matrix_value": 1e-12,
    }
    assert {name: model.getOptionValue(name)[1] for name in wanted} == wanted
    assert (DUAL_SIMPLEX, PRIMAL_SIMPLEX) == (1, 4)


def test_a_model_of_somebody_else_may_have_other_threads():
    script = """
import highspy, numpy as np
from cutplane.masters.highs import DUAL_SIMPLEX, SilentHighs, living_model, rerun
from cutplane.pieces.forms import LinearForm
from scipy import sparse
one = np.ones(1)
form = LinearForm(one, one, 9 * one, sparse.csr_array(np.ones((1, 1))), 2 * one, 3 * one)
for threads in (3, 2):
    other = SilentHighs()
    highspy.Highs.resetGlobalScheduler(True)
    other.setOptionValue("threads", threads)
    other.passModel(living_model(form, DUAL_SIMPLEX).getLp())
    other.run()
    print(rerun(living_model(form, DUAL_SIMPLEX))[0].name)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["SOLVED", "SOLVED"], "and nothing else is printed"


class Scripted:
    """Replaces HiGHS: returns a given status for each run, and a given number of iterations."""

    def __init__(self, *answers, iterations=100, rows=3, columns=2):
        self.answers, self.iterations = list(answers), iterations
        self.rows, self.columns = rows, columns
        self.status, self.options, self.runs, self.cleared, self.costs = None, {}, [], 0, []

    def getNumRow(self):
        return self.rows

    def getNumCol(self):
        return self.columns

    def setOptionValue(self, name, value):
        self.options[name] = value

    def getRunTime(self):
        return 7.0

    def run(self):
        self.runs.append(dict(self.options))
        answer = self.answers.pop(0)
        self.status = answer() if callable(answer) else answer

    def clearSolver(self):
        self.cleared += 1

    def getModelStatus(self):
        return self.status

    def modelStatusToString(self, status):
        return status.name

    def getInfo(self):
        return SimpleNamespace(simplex_iteration_count=self.iterations)

    def getLp(self):
        return SimpleNamespace(col_cost_=[3.0, 4.0])

    def changeColsCost(self, count, indices, cost):
        assert (count, indices.tolist(), indices.dtype) == (2, [0, 1], np.int32)
        self.costs.append(cost.tolist())

    def of(self, name):
        return [run[name] for run in self.runs]


EITHER, LIMIT = STATUS.kUnboundedOrInfeasible, STATUS.kIterationLimit
ATTEMPTS = {
    "at once": ([STATUS.kOptimal], MasterStatus.SOLVED, "", 0),
    "from scratch": ([LIMIT, STATUS.kOptimal], MasterStatus.SOLVED, "", 1),
    "a loose solve": ([LIMIT, LIMIT, STATUS.kOptimal], MasterStatus.SOLVED, "", 2),
    "a first verdict is checked": ([STATUS.kInfeasible, STATUS.kOptimal], MasterStatus.SOLVED, "", 1),
    "infeasible": ([LIMIT, STATUS.kInfeasible], MasterStatus.INFEASIBLE, "HiGHS: kInfeasible", 1),
    "unbounded": ([LIMIT, LIMIT, STATUS.kUnbounded], MasterStatus.UNBOUNDED, "HiGHS: kUnbounded", 2),
    "given up": ([LIMIT, LIMIT, LIMIT], MasterStatus.FAILED, "HiGHS: kIterationLimit", 2),
    "feasible, so unbounded": (
        [EITHER, EITHER, EITHER, STATUS.kOptimal],
        MasterStatus.UNBOUNDED,
        "HiGHS: kUnboundedOrInfeasible",
        2,
    ),
    "infeasible without costs": (
        [EITHER, EITHER, EITHER, STATUS.kInfeasible],
        MasterStatus.INFEASIBLE,
        "HiGHS: kUnboundedOrInfeasible",
        2,
    ),
    "neither": ([EITHER] * 4, MasterStatus.FAILED, "HiGHS: kUnboundedOrInfeasible", 2),
}


@pytest.mark.parametrize("name", ATTEMPTS)
def test_attempts_follow_one_another_until_there_is_a_verdict(name):
    answers, verdict, message, from_scratch = ATTEMPTS[name]
    model = Scripted(*answers)
    assert rerun(model) == (verdict, message)
    assert model.answers == []
    assert model.cleared == from_scratch
    tolerances = [1e-9, 1e-9, 1e-7, 1e-7][: len(answers)]
    perturbations = [0.0, 1.0, 1.0, 1.0][: len(answers)]
    assert model.of("primal_feasibility_tolerance") == tolerances
    assert model.of("dual_feasibility_tolerance") == tolerances
    assert model.of("dual_simplex_cost_perturbation_multiplier") == perturbations
    assert model.of("primal_simplex_bound_perturbation_multiplier") == perturbations
    assert model.of("simplex_iteration_limit") == [1100, 11000, 11000, 11000][: len(answers)]
    assert model.costs == ([[0.0, 0.0], [3.0, 4.0]] if len(answers) == 4 else [])


@pytest.mark.parametrize(
    "iterations, seconds, limits",
    [
        (10, [1.0, 1.0, 1.0], [100, 90, 80]),
        (9, [1.0, 2.0, 4.0], [100, 91, 82]),
        (0, [1.0, 2.0, 4.0], [100, 100, 100]),
        (-1, [1.0, 2.0, 4.0], [100, 100, 100]),
        (60, [1.0, 1.0], [100, 40]),
        (50, [1.0, 1.0], [100, 50]),
    ],
)
def test_slices_of_time_go_on_within_the_limit_and_grow_if_little_is_done(iterations, seconds, limits):
    model = Scripted(STATUS.kTimeLimit, STATUS.kTimeLimit, STATUS.kOptimal, iterations=iterations)
    highs._run(model, 100)
    assert model.of("simplex_iteration_limit") == limits
    assert model.of("time_limit") == [7.0 + slice_ for slice_ in seconds]


@pytest.mark.parametrize("limit, runs", [(0, 0), (-5, 0), (1, 1)])
def test_without_iterations_left_nothing_runs(limit, runs):
    model = Scripted(STATUS.kOptimal)
    highs._run(model, limit)
    assert len(model.runs) == runs


def test_a_slice_ends_at_the_deadline_at_the_latest():
    model = Scripted(STATUS.kOptimal)
    with limited_to(0.5):
        highs._run(model, 100)
    assert 7.4 < model.of("time_limit")[0] <= 7.5


def test_a_deadline_that_has_passed_ends_the_run():
    model = Scripted(STATUS.kTimeLimit)
    with limited_to(0.0), pytest.raises(OutOfTime):
        highs._run(model, 100)
    assert model.of("time_limit") == [7.0]


SLOPES = np.array([[1.0, 0.0, -2.0], [0.0, 0.0, 0.0], [0.0, 5.0, 0.0], [7.0, 8.0, 0.0]])


@pytest.mark.parametrize("kind", [np.array, sparse.csr_array])
@pytest.mark.parametrize(
    "blocks", [[0, 1, 0, HALF_SPACE], [HALF_SPACE] * 4, [0, 0, 0, 0], [2, HALF_SPACE, 1, 0]]
)
@pytest.mark.parametrize("n_columns", [3, 5])
def test_entries_are_the_slopes_and_minus_one_for_the_block_of_a_cut(blocks, n_columns, kind):
    blocks = np.array(blocks)
    starts, indices, values = entries(kind(SLOPES), blocks, n_columns)
    assert starts.dtype == indices.dtype == np.int32
    found = np.zeros((4, n_columns + 3))
    for row, (begin, end) in enumerate(zip(starts, [*starts[1:], values.size], strict=True)):
        assert len(set(indices[begin:end].tolist())) == end - begin
        found[row, indices[begin:end]] = values[begin:end]
    wanted = np.zeros_like(found)
    wanted[:, :3] = SLOPES
    for row, block in enumerate(blocks):
        if block != HALF_SPACE:
            wanted[row, n_columns + block] = -1.0
    assert found.tolist() == wanted.tolist()
    assert values.size == np.count_nonzero(wanted)

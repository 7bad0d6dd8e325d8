"""A time limit, or Ctrl-C, inside a reduced problem: the best point and the bounds so far, soon."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import cutplane as cut
from cutplane.masters import active_set
from cutplane.masters.base import HALF_SPACE, MasterStatus
from cutplane.masters.certificates import ConicProjection, InnerMinimum, certify_infeasible
from cutplane.masters.highs import PRIMAL_SIMPLEX, living_model, rerun
from cutplane.masters.least import LinearMinimum
from cutplane.runtime.clock import clock
from cutplane.runtime.deadline import OutOfTime, check_time, limited_to, seconds_left
from cutplane.sets.polyhedron import Polyhedron

BLOCKS = 500


class ManyBlocks(cut.Risk):
    """The sum of the maxima of some affine functions: a reduced problem that takes seconds."""

    dim, n_blocks = 100, BLOCKS

    def __init__(self):
        rng = np.random.default_rng(0)
        self.A, self.b = rng.normal(size=(BLOCKS, 20, self.dim)), rng.normal(size=(BLOCKS, 20))

    def oracle(self, x):
        values = self.A @ x + self.b
        best = values.argmax(axis=1)
        blocks = np.arange(BLOCKS)
        return values[blocks, best] / BLOCKS, self.A[blocks, best] / BLOCKS


def test_the_deadline_is_seen_inside_and_ends_there():
    assert seconds_left() == np.inf
    check_time()
    with limited_to(60.0):
        with limited_to(1e9):
            assert seconds_left() <= 60.0
        with limited_to(0.0):
            assert seconds_left() == 0.0
            with pytest.raises(OutOfTime):
                check_time()
        check_time()
    assert seconds_left() == np.inf
    assert not issubclass(OutOfTime, Exception)


def test_the_time_limit_of_combined_rules():
    long, short, never = cut.stopping.TimeLimit(9.0), cut.stopping.TimeLimit(2.0), cut.stopping.MaxIter(3)
    assert (long | short | never).time_limit == 2.0
    assert (long & short).time_limit == 9.0
    assert (short & never).time_limit == never.time_limit == np.inf


@pytest.mark.parametrize(
    ("method", "backend", "limit", "patience"),
    [
        (cut.BMRM(), "simplex_qp", {"time_limit": 0.7}, 0.9),
        (cut.BMRM(), "simplex_qp", {"stop": cut.stopping.TimeLimit(0.7)}, 0.9),
        (cut.ProximalBundle(), "simplex_qp", {"time_limit": 0.7}, 0.9),
        (cut.LevelBundle(), "simplex_qp", {"time_limit": 0.7}, 0.9),
        (cut.BMRM(), "clarabel", {"time_limit": 0.7}, 2.3),
        (cut.BMRM(), "osqp", {"time_limit": 0.7}, 2.3),
    ],
    ids=str,
)
def test_many_blocks(method, backend, limit, patience):
    problem = cut.Problem(ManyBlocks(), cut.L2(1e-6))
    began = clock()
    result = problem.solve(method, backend=backend, tol=1e-9, **limit)
    assert clock() - began <= 0.7 + patience
    assert result.status is cut.Status.TIME_LIMIT
    assert "time_limit = 0.7 s" in result.reason
    assert result.lower_bound <= result.objective < np.inf
    assert result.certificate.verify().valid
    assert result.history.notes == []


def test_the_active_set_goes_on_where_it_was(monkeypatch):
    rng = np.random.default_rng(0)
    problem = cut.Problem(
        cut.LinearRisk(rng.normal(size=(60, 8)), np.ones(60), cut.losses.Hinge()), cut.L2(0.01)
    )
    whole = problem.solve(cut.BMRM(), tol=1e-8)
    monkeypatch.setattr(active_set, "_SLICE", 0.0)  # one step at a time
    sliced = problem.solve(cut.BMRM(), tol=1e-8)
    assert sliced.n_iter == whole.n_iter
    assert np.array_equal(sliced.x, whole.x)


def test_an_inner_loop_does_not_swallow_the_deadline_of_an_outer_one():
    inner = cut.Problem(ManyBlocks(), cut.L2(1e-6))

    @cut.risk(dim=1)
    def nested(x):
        value = inner.solve(cut.BMRM(), tol=1e-9, max_iter=0 if x[0] == 0.0 else 100).objective
        return value + (x[0] - 1.0) ** 2, 2.0 * (x - 1.0)

    result = cut.Problem(nested, cut.L2(0.1)).solve(cut.BMRM(), time_limit=0.5)
    assert result.status is cut.Status.TIME_LIMIT
    assert result.x is not None


class Rows:
    def __init__(self, slopes, offsets, blocks):
        self.slopes, self.offsets, self.blocks = slopes, offsets, blocks
        self.ids = np.arange(len(offsets))


def test_small_solves_of_certificates_are_out_of_time():
    simple = Polyhedron([[1.0, 1.0], [-1.0, 2.0]], [1.0, 1.0])
    half_spaces = Rows(np.eye(2), np.ones(2), np.full(2, HALF_SPACE))
    with limited_to(0.0):
        with pytest.raises(OutOfTime):
            InnerMinimum(cut.L2(1.0), simple, 2)(np.ones(2))
        with pytest.raises(OutOfTime):
            ConicProjection(simple, 2)(np.array([5.0, 5.0]))
        with pytest.raises(OutOfTime):
            certify_infeasible(half_spaces, simple, 2)
        with pytest.raises(OutOfTime):
            LinearMinimum(simple.linear_form(2))(np.ones(2))


def test_highs_goes_on_after_a_slice(monkeypatch):
    monkeypatch.setattr("cutplane.masters.highs._SLICE", 0.02)
    rng = np.random.default_rng(0)
    form = Polyhedron(rng.normal(size=(300, 150)), np.abs(rng.normal(size=300)) + 0.1).linear_form(150)
    box = cut.Box(0, 10, dim=150).linear_form(150)
    model = living_model(form.merge(box, 150), PRIMAL_SIMPLEX)
    model.changeColsCost(150, np.arange(150, dtype=np.int32), -np.abs(rng.normal(size=150)))
    status, _ = rerun(model)
    assert status is MasterStatus.SOLVED
    with limited_to(0.05), pytest.raises(OutOfTime):
        model.clearSolver()
        while True:
            model.clearSolver()
            rerun(model)


INTERRUPTED = """
    import json, os, signal, sys, threading, time
    sys.path.insert(0, {tests!r})
    import numpy as np
    import cutplane as cut
    from test_time_limits import ManyBlocks

    risk = ManyBlocks()
    MANY, LINEAR = cut.Problem(risk, cut.L2(1e-6)), cut.Problem(risk, feasible_set=cut.Box(-1, 1))

    def later():
        time.sleep(0.1)
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    def callback(state):
        if state.iteration == 1:
            threading.Thread(target=later, daemon=True).start()

    for problem, method, backend in {solves}:
        sent = []
        result = problem.solve(method, backend, tol=1e-12, callback=callback, time_limit=40.0)
        print(json.dumps([str(result.status), time.perf_counter() - sent[0], result.objective < np.inf]))
"""


@pytest.mark.parametrize(
    ("solves", "patience"),
    [
        ('(MANY, cut.BMRM(), "auto"), (LINEAR, cut.Kelley(), "highs")', [3.0, 5.0]),
        pytest.param(
            '(MANY, cut.BMRM(), "osqp"), (MANY, cut.ProximalBundle(), "clarabel")',
            [5.0, 15.0],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_ctrl_c_inside_a_master(solves, patience):
    code = INTERRUPTED.format(tests=str(__file__).rpartition("/")[0], solves=solves)
    answer = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert answer.returncode == 0, answer.stderr
    found = [json.loads(line) for line in answer.stdout.splitlines() if line.startswith("[")]
    for (status, waited, known), longest in zip(found, patience, strict=True):
        assert status == "INTERRUPTED" and known
        assert waited < longest

"""Masters that raise, lie or stop: the run goes on with another one and proves nothing false."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest

import cutplane as cut
from cutplane.engine import solver as engine
from cutplane.masters import select
from cutplane.masters.base import Level, MasterSolution, MasterStatus, Prox
from cutplane.masters.highs import HighsMaster
from cutplane.masters.select import Candidate

EXCEPTIONS = (
    RuntimeError,
    MemoryError,
    np.linalg.LinAlgError,
    AssertionError,
    FloatingPointError,
    ZeroDivisionError,
    ValueError,
    KeyError,
    AttributeError,
    StopIteration,
    OSError,
    cut.InvalidInputError,
)
rng = np.random.default_rng(0)
X = rng.normal(size=(60, 4))
y = np.sign(X[:, 0] + 0.5 * rng.normal(size=60))


def classification(regularizer=None, feasible_set=None):
    return cut.Problem(cut.LinearRisk(X, y, cut.losses.Hinge()), regularizer, feasible_set)


def with_stub(monkeypatch, answer, built=None, others=True):
    """Put a master first, or alone: ``answer(solution, stabilization)`` for the right answer."""
    right = select.candidates

    class Stub:
        sparse = True

        def __init__(self, reduced, backend):
            self.inner = {}
            self.build = lambda kind: next(right(reduced, kind, backend)).build(reduced)
            if built is not None:
                built.append(self)

        def solve(self, rows, stabilization=None, accuracy=0.0):
            kind = None if stabilization is None else type(stabilization)
            inner = self.inner.setdefault(kind, self.build(kind))
            return answer(inner.solve(rows, stabilization, accuracy), stabilization)

    def candidates(reduced, kind, backend):
        yield Candidate("stub", lambda stated: Stub(stated, backend))
        yield from right(reduced, kind, backend) if others else ()

    monkeypatch.setattr(select, "candidates", candidates)
    monkeypatch.setattr(engine, "candidates", candidates)


@pytest.mark.parametrize("exception", EXCEPTIONS, ids=lambda kind: kind.__name__)
def test_a_master_that_raises_is_replaced_and_built_anew(exception, monkeypatch):
    built, calls = [], itertools.count()

    def once(solution, stabilization):
        if next(calls) == 1:
            raise exception("broken")
        return solution

    with_stub(monkeypatch, once, built)
    result = classification(cut.L2(0.1)).solve(cut.BMRM())
    assert result.status is cut.Status.OPTIMAL
    notes = result.history.notes
    assert len(notes) == 1
    assert exception.__name__ in notes[0] and "fell back to simplex_qp" in notes[0]
    assert len(built) == 2
    assert next(calls) >= result.n_iter  # it was asked again in the next iteration, and from then on
    assert result.backend == "stub+simplex_qp"


@pytest.mark.parametrize("exception", [KeyboardInterrupt, SystemExit])
def test_exits_are_no_failures(exception, monkeypatch):
    def leave(solution, stabilization):
        raise exception

    with_stub(monkeypatch, leave)
    problem = classification(cut.L2(0.1))
    if exception is SystemExit:
        with pytest.raises(SystemExit):
            problem.solve(cut.BMRM())
    else:
        assert problem.solve(cut.BMRM()).status is cut.Status.INTERRUPTED


def test_a_hopeless_master_is_passed_over(monkeypatch):
    calls = []

    def never(solution, stabilization):
        calls.append(stabilization)
        raise RuntimeError("out of order")

    with_stub(monkeypatch, never)
    result = classification(cut.L2(1e-4)).solve(cut.BMRM(), tol=1e-10)
    assert result.status is cut.Status.OPTIMAL
    assert result.n_iter > 20
    assert len(calls) == len(result.history.notes) == 3
    assert result.backend == "simplex_qp"


def test_a_run_ends_where_no_master_is_left(monkeypatch):
    with_stub(monkeypatch, lambda *_: MasterSolution(None, None, MasterStatus.FAILED), others=False)
    result = classification(cut.L2(0.1)).solve(cut.BMRM())
    assert result.status is cut.Status.STALLED
    assert "No backend" in result.reason and np.isfinite(result.objective)


def test_a_failure_with_one_kind_leaves_the_other_kinds_alone(monkeypatch):
    def no_levels(solution, stabilization):
        if isinstance(stabilization, Level):
            raise RuntimeError("levels are out of order")
        return solution

    with_stub(monkeypatch, no_levels)
    result = classification(cut.L2(0.01)).solve(cut.LevelBundle())
    assert result.status is cut.Status.OPTIMAL
    assert result.backend == "stub+simplex_qp"


@pytest.mark.parametrize("method", [cut.LevelBundle(), cut.ProximalBundle()], ids=str)
@pytest.mark.parametrize(
    "regularizer, feasible_set",
    [(cut.L1(0.01), cut.Box(-3, 3)), (None, cut.Box(-3, 3)), (None, cut.Simplex(4)), (cut.L2(0.1), None)],
    ids=["l1", "box", "simplex", "l2"],
)
def test_highs_for_every_kind(method, regularizer, feasible_set):
    problem = classification(regularizer, feasible_set)
    result = problem.solve(method, backend="highs", tol=1e-6, time_limit=20.0)
    assert result.status is cut.Status.OPTIMAL
    assert result.objective == pytest.approx(problem.solve(tol=1e-8).objective, rel=1e-5)


def test_one_living_master_serves_the_kinds_that_it_accepts():
    problem = classification(cut.L2(0.01))
    loop = problem.iterate(cut.LevelBundle())
    list(loop)
    assert len(loop.process.run.solver._masters) == 1
    loop = classification(feasible_set=cut.Box(-3, 3)).iterate(cut.LevelBundle(), backend="highs")
    list(loop)
    masters = loop.process.run.solver._masters
    assert isinstance(masters["highs"], HighsMaster) and len(masters) == 2


def test_highs_is_not_given_quadratic_programmes():
    """On these it runs for ever."""
    draws = np.random.default_rng(3)
    dim, m = int(draws.integers(2, 40)), int(draws.integers(10, 200))
    data = draws.normal(size=(m, dim)) * 10.0 ** draws.integers(-2, 3)
    labels = np.sign(data[:, 0] + 0.3 * draws.normal(size=m))
    risk = cut.LinearRisk(data, labels, cut.losses.Hinge())
    problem = cut.Problem(risk, cut.L1(0.01), cut.Box(-3, 3))
    result = problem.solve(cut.LevelBundle(), backend="highs", tol=1e-6, time_limit=60.0)
    assert result.status is not cut.Status.TIME_LIMIT
    assert result.backend.split("+")[0] == "highs" and len(result.backend.split("+")) == 2


def lie(kind, solution, draws):
    """Return a wrong answer, or raise."""
    x, multipliers = solution.x, solution.multipliers
    if x is None or multipliers is None:
        return solution
    if kind == "raise":
        raise EXCEPTIONS[draws.integers(len(EXCEPTIONS))]("broken")
    answers = {
        "none": lambda: None,
        "no x": lambda: MasterSolution(None, multipliers),
        "no multipliers": lambda: MasterSolution(x, None),
        "nan": lambda: MasterSolution(np.full_like(x, np.nan), multipliers),
        "inf": lambda: MasterSolution(x, np.full_like(multipliers, np.inf)),
        "short x": lambda: MasterSolution(x[:-1], multipliers),
        "long x": lambda: MasterSolution(np.append(x, 0.0), multipliers),
        "matrix": lambda: MasterSolution(x[None], multipliers),
        "list": lambda: MasterSolution(list(x), list(multipliers)),
        "objects": lambda: MasterSolution(x.astype(object), multipliers),
        "far": lambda: MasterSolution(1e6 * draws.normal(size=x.size), multipliers),
        "near": lambda: MasterSolution(x + draws.normal(size=x.size), draws.random(multipliers.size)),
        "same": lambda: MasterSolution(np.full_like(x, 0.1), np.eye(1, multipliers.size)[0]),
        "negative": lambda: MasterSolution(x, -multipliers),
        "mixed": lambda: MasterSolution(x, multipliers + draws.normal(size=multipliers.size)),
        "zero": lambda: MasterSolution(x, np.zeros_like(multipliers)),
        "huge": lambda: MasterSolution(x, 1e300 * multipliers),
        "short": lambda: MasterSolution(x, multipliers[:-1]),
        "long": lambda: MasterSolution(x, np.append(multipliers, 1.0)),
        "set": lambda: MasterSolution(x, multipliers, set_multipliers=draws.normal(size=3)),
        "infeasible": lambda: MasterSolution(None, None, MasterStatus.INFEASIBLE),
        "unbounded": lambda: MasterSolution(None, None, MasterStatus.UNBOUNDED),
        "failed": lambda: MasterSolution(None, None, MasterStatus.FAILED, "out of order"),
        "no status": lambda: MasterSolution(x, multipliers, status=None),
    }
    return answers[kind]()


LIES = ("raise", "none", "no x", "no multipliers", "nan", "inf", "short x", "long x", "matrix", "list")
LIES += ("objects", "far", "near", "same", "negative", "mixed", "zero", "huge", "short", "long", "set")
LIES += ("infeasible", "unbounded", "failed", "no status")
SAID = {"failed": "out of order", "nan": "not finite", "far": "above the objective"}


def boxed():
    return classification(feasible_set=cut.Box(-1, 1))


@cache
def optimum():
    return boxed().solve(tol=1e-9).objective


@pytest.mark.parametrize(
    ("kind", "method"),
    [
        *((kind, method) for kind in LIES for method in (cut.BMRM(), cut.ProximalBundle())),
        *(pytest.param(kind, cut.LevelBundle(), marks=pytest.mark.slow) for kind in LIES if kind != "zero"),
        ("zero", cut.LevelBundle()),
    ],
    ids=str,
)
def test_a_master_that_always_lies_in_one_way(kind, method, monkeypatch):
    draws, best = np.random.default_rng(1), optimum()
    with_stub(monkeypatch, lambda solution, stabilization: lie(kind, solution, draws))
    result = boxed().solve(method, tol=1e-5)
    lower = np.array([record.lower_bound for record in result.history])
    assert (lower <= best * (1.0 + 1e-9) + 1e-12).all()
    assert (np.diff(lower[np.isfinite(lower)]) >= 0.0).all()
    assert result.status is cut.Status.OPTIMAL, result.reason
    assert result.objective == pytest.approx(best, rel=2e-5)
    assert result.certificate.verify().valid
    if kind in SAID and isinstance(method, cut.BMRM):
        assert SAID[kind] in result.history.notes[0] and "fell back to" in result.history.notes[0]


def test_a_prox_term_cannot_be_unbounded(monkeypatch):
    def unbounded(solution, stabilization):
        if isinstance(stabilization, Prox):
            return MasterSolution(None, None, MasterStatus.UNBOUNDED)
        return solution

    with_stub(monkeypatch, unbounded)
    result = classification(cut.L2(0.1)).solve(cut.ProximalBundle())
    assert result.status is cut.Status.OPTIMAL
    assert "unbounded that is not" in result.history.notes[0]

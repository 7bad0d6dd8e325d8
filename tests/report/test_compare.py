"""cutplane.compare: honest rows, no exception for a combination that fails, fair clocks."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from formulations import formulation

import cutplane as cut
from cutplane.methods.base import Method, Step
from cutplane.report.compare import _table, compare
from cutplane.report.plotting import _colours_and_styles
from cutplane.status import Status

METHODS = (cut.BMRM(), cut.OCAS(), cut.ProximalBundle(), cut.LevelBundle(kappa=0.3))


@pytest.fixture(scope="module")
def table():
    problem, _ = formulation("hinge, L2")
    return compare(problem, METHODS, ["auto", "clarabel"], tol=1e-6)


def test_every_combination_is_a_row_in_order(table):
    assert [(row.method, row.backend) for row in table.rows] == [
        (method, backend)
        for method in ("BMRM", "OCAS", "ProximalBundle", "LevelBundle(kappa=0.3)")
        for backend in ("auto", "clarabel")
    ]
    assert len(table) == 8 and table[3] is table.rows[3]


def test_rows_agree_with_their_results_and_with_the_optimum(table):
    optimum = formulation("hinge, L2")[1]
    for row, result in zip(table.rows, table.results, strict=True):
        assert row.status == "OPTIMAL" == str(result.status)
        assert (row.objective, row.lower_bound, row.gap) == (result.objective, result.lower_bound, result.gap)
        assert (row.iterations, row.oracle_calls) == (result.n_iter, result.oracle_calls)
        assert row.backend_used == result.backend
        assert row.gap <= 1e-6
        assert abs(row.objective - optimum) <= 2e-6 * optimum
        assert 0.0 <= row.objective_error <= 1e-6
        assert 0.0 <= row.bound_error <= 1e-12
        assert (
            0.0 < row.oracle_seconds + row.master_seconds < 1.1 * row.seconds + 0.1
        )  # clocks of cores differ
    assert min(row.objective_error for row in table.rows) == 0.0


def test_best_is_the_fastest_optimal_row(table):
    assert table.best.seconds == min(row.seconds for row in table.rows)


def test_auto_shows_what_it_chose():
    problem, _ = formulation("hinge, L2")
    (row,) = compare(problem).rows
    assert (row.method, row.backend, row.method_used) == ("auto", "auto", "Portfolio")
    assert row.label == f"auto (Portfolio), auto ({row.backend_used})"


@dataclass(frozen=True)
class Fails(Method):
    """A method that breaks down."""

    def step(self, run, state):
        raise ZeroDivisionError("oops")


class NotADataclass(Method):
    """A method without parameters."""

    def step(self, run, state):
        run.query(run.reduced().x)
        return Step("cut")

    def __repr__(self):
        return "my method"


def test_what_cannot_be_solved_is_a_row_with_the_reason():
    problem = cut.Problem(cut.risk(dim=2)(lambda x: (np.abs(x - 1.0).sum(), np.sign(x - 1.0))))
    table = compare(
        problem, [cut.Kelley(), Fails(), cut.ProximalBundle()], ["auto", "no such solver"], max_iter=2
    )
    notes = [row.note for row in table.rows]
    assert notes[0].startswith("MissingCapabilityError: Kelley needs a bounded reduced problem")
    assert notes[1].startswith("InvalidInputError: The backend 'no such solver'")
    assert notes[2] == "ZeroDivisionError: oops"
    assert [row.status for row in table.rows] == ["FAILED"] * 4 + [table.rows[4].status, "FAILED"]
    assert table.rows[4].result is not None and table.best is table.rows[4]
    for row in table.rows[:4]:
        assert row.result is None and math.isnan(row.seconds) and math.isnan(row.objective)
    text = repr(table)
    assert text.count("no such solver'") == 1  # one note for three rows
    assert "oops" in text and "oops" in table._repr_html_()


def test_nothing_solved():
    problem = cut.Problem(cut.LinearObjective([1.0]))
    table = compare(problem, [cut.Kelley()])
    assert table.best is None and table.results == (None,)
    assert "FAILED" in repr(table)


def test_a_backend_that_refuses_the_problem_is_not_replaced_in_silence():
    problem, _ = formulation("black box, box")
    refused, solved = compare(problem, [cut.Kelley()], ["simplex_qp", "highs"]).rows
    assert refused.status == "FAILED" and "simplex_qp" in refused.note
    assert (solved.status, solved.backend_used) == ("OPTIMAL", "highs")


def test_a_method_of_ones_own_and_one_that_is_no_method():
    problem, _ = formulation("hinge, L2")
    assert compare(problem, [NotADataclass()], max_iter=5).rows[0].label.startswith("my method, ")
    with pytest.raises(cut.InvalidInputError, match=r"did you mean OCAS\(\)"):
        compare(problem, [cut.OCAS])


def test_options_reach_the_solve_and_unknown_ones_are_refused():
    problem, _ = formulation("hinge, L2")
    assert compare(problem, tol=0.5, max_iter=2).rows[0].iterations <= 2
    assert (
        compare(problem, [cut.BMRM()], stop=cut.stopping.OracleCalls(4), tol=0.0).rows[0].status == "MAX_ITER"
    )
    assert compare(problem, time_limit=0.0, tol=0.0).rows[0].status == "TIME_LIMIT"
    with pytest.raises(TypeError, match="tolerance"):
        compare(problem, tolerance=1e-3)
    with pytest.raises(cut.InvalidInputError, match="repeat"):
        compare(problem, repeat=0)


def test_warm_up_is_short_untimed_and_silent():
    calls, seen = [], []
    problem, _ = formulation("black box, L2")

    @cut.risk(dim=problem.dim)
    def counted(x):
        calls.append(x)
        return problem.risk.oracle(x)

    same = cut.Problem(counted, problem.regularizer)
    (row,) = compare(same, [cut.BMRM()], tol=1e-6, repeat=2, callback=seen.append).rows
    assert len(seen) == 2 * (row.iterations + 1)
    assert 2 * row.oracle_calls + 1 <= len(calls) <= 2 * row.oracle_calls + 4


def test_the_fastest_repetition_counts():
    problem, _ = formulation("hinge, L2")
    delays = iter([0.0, 0.05, 0.0, 0.05])

    class Sleeps(cut.stopping.StoppingRule):
        def __call__(self, state):
            from time import sleep

            if state.iteration == 0:
                sleep(next(delays, 0.0))
            return None

    (row,) = compare(problem, [cut.OCAS()], repeat=3, stop=Sleeps()).rows
    assert row.seconds < 0.05


def test_an_interrupt_ends_the_comparison_with_what_there_is():
    problem, _ = formulation("hinge, L2")

    class Interrupt(cut.stopping.StoppingRule):
        def __call__(self, state):
            raise KeyboardInterrupt

    table = compare(problem, METHODS, stop=Interrupt(), repeat=3)
    assert [row.status for row in table.rows] == ["INTERRUPTED"]
    stopped = compare(problem, METHODS[:2], callback=lambda state: True)
    assert [row.status for row in stopped.rows] == ["INTERRUPTED"] * 2
    assert stopped.results[0].status is Status.INTERRUPTED


def test_a_wrong_bound_shows():
    problem, _ = formulation("hinge, L2")
    good = compare(problem, [cut.BMRM()], tol=1e-8)
    worse = cut.Problem(2.0 * problem.risk, problem.regularizer)
    bad = compare(worse, [cut.BMRM()], tol=1e-8)
    mixed = _table([good[0], bad[0]], 1e-8)
    assert mixed[0].bound_error <= 1e-12
    assert mixed[1].bound_error == pytest.approx((bad[0].lower_bound - good[0].objective) / good[0].objective)


def test_frame_text_and_html(table):
    frame = table.to_frame()
    assert list(frame["objective"]) == [row.objective for row in table.rows]
    assert "result" not in frame.columns and len(frame) == len(table)
    header, *lines = repr(table).split("\n")
    assert header.split()[:4] == ["method,", "backend", "status", "seconds"]
    assert len(lines) == len(table)
    assert len({line.index("OPTIMAL") for line in lines}) == 1
    assert table._repr_html_().count("<tr>") == 1 + len(table)
    colours, styles = _colours_and_styles(table)  # more methods than backends
    assert (len(set(colours)), len(set(styles))) == (4, 2) and len({*zip(colours, styles, strict=True)}) == 8

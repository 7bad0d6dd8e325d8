"""Multipliers slightly outside the domain of the conjugate give finite bounds all the same."""

import numpy as np
import pytest

import cutplane as cut
from cutplane.engine import safe
from cutplane.engine.bound import DualValue
from cutplane.engine.bundle import Bundle
from cutplane.engine.safe import SafeDual
from cutplane.masters.base import HALF_SPACE, MasterSolution, MasterStatus

pytestmark = pytest.mark.every

INF = float("inf")


def oracle(x):
    return (3.0 * x[0] - 3.0, np.array([3.0])) if 4.0 * x[0] > 3.0 else (-x[0], np.array([-1.0]))


def problem(regularizer=None):
    """max(3 x - 3, -x) + |x|: 4 a - 1 in [-1, 1] and the bound -3 a for the multipliers (a, 1 - a)."""
    return cut.Problem(cut.OracleRisk(oracle, dim=1), cut.L1() if regularizer is None else regularizer)


def cuts(*more):
    bundle = Bundle(1, 1)
    slopes, offsets = np.array([[3.0], [-1.0], *more]), np.array([-3.0, 0.0, *([-9.0] * len(more))])
    bundle.add(0, np.zeros(1), slopes, offsets, [0] * len(offsets))
    return bundle


def outside(excess):
    return np.array([0.5 + excess, 0.5 - excess])


def counted(monkeypatch, answer=None):
    """Count the attempts to solve with half the weight; `answer` takes the place of the master's."""
    asked, first_candidate = [], safe.first_candidate

    def note(reduced, stabilization, backend):
        asked.append((reduced, stabilization, backend))
        if answer is None:
            return first_candidate(reduced, stabilization, backend)
        return _Candidate(answer)

    monkeypatch.setattr(safe, "first_candidate", note)
    return asked


class _Candidate:
    def __init__(self, answer):
        self.answer = answer

    def build(self):
        return self

    def solve(self, bundle, stabilization=None):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_a_finite_value_needs_no_help(monkeypatch):
    asked = counted(monkeypatch)
    found = SafeDual(problem()).evaluate(cuts(), np.array([0.25, 0.75]), INF)
    assert found.value == pytest.approx(-0.75, abs=1e-14)
    assert found.multipliers.tolist() == [0.25, 0.75]
    assert asked == []


@pytest.mark.parametrize(
    "excess, share",
    [(0.375e-11, 1e-10), (0.375e-9, 1e-8), (0.375e-7, 1e-6), (0.375e-3, 1e-2), (0.0625, 0.5), (0.3, 0.5)],
)
def test_twice_the_least_share_that_helps_is_mixed_in(excess, share):
    """The solution for half the weight is (1/8, 7/8), so a share s leads inside if s (3/8 + d) >= d."""
    found = SafeDual(problem()).evaluate(cuts(), outside(excess), INF)
    first = 0.5 + excess - 2.0 * share * (0.375 + excess)
    assert found.multipliers == pytest.approx([first, 1.0 - first], abs=1e-12)
    assert found.value == pytest.approx(-3.0 * first, abs=1e-11)
    assert found.value <= 0.0


def test_the_bound_is_better_than_that_of_the_mixture_alone():
    found = SafeDual(problem()).evaluate(cuts(), outside(1e-9), INF)
    assert -1.5 < found.value <= -1.5 + 1e-6


def test_multipliers_well_inside_solve_the_problem_with_half_the_weight(monkeypatch):
    asked = counted(monkeypatch)
    dual = SafeDual(problem(cut.L1(2.0)))
    ids, weights = dual._solve_with_half_weight(cuts())
    [(reduced, stabilization, backend)] = asked
    assert ids.tolist() == [0, 1]
    assert weights == pytest.approx([0.0, 1.0], abs=1e-9)
    assert reduced.regularizer.lam == 1.0
    assert (reduced.dim, reduced.n_blocks) == (1, 1)
    assert stabilization is None
    assert backend == cut.Backend()


@pytest.mark.parametrize(
    "regularizer", [cut.NoRegularizer(), cut.L1(0.0)], ids=["no regularizer", "weight zero"]
)
def test_without_a_weight_there_is_nothing_to_halve(regularizer, monkeypatch):
    asked = counted(monkeypatch)
    found = SafeDual(problem(regularizer)).evaluate(cuts(), np.array([0.9, 0.1]), INF)
    assert asked == []
    assert found.value == -INF


def test_an_earlier_solution_serves_as_long_as_its_rows_are_there(monkeypatch):
    asked = counted(monkeypatch)
    dual, bundle = SafeDual(problem()), cuts()
    first = dual.evaluate(bundle, outside(1e-7), INF)
    again = dual.evaluate(bundle, outside(1e-7), INF)
    assert len(asked) == 1
    assert again.value == first.value
    bundle.add(1, np.zeros(1), np.array([[0.5]]), np.array([-9.0]), [0])
    longer = dual.evaluate(bundle, np.append(outside(1e-7), 0.0), INF)
    assert len(asked) == 1
    assert longer.multipliers == pytest.approx([*first.multipliers, 0.0], abs=1e-15)


def test_it_is_solved_again_when_one_of_its_rows_has_left(monkeypatch):
    asked = counted(monkeypatch)
    dual, bundle = SafeDual(problem()), cuts([0.5], [0.75], [1.5])
    assert np.isfinite(dual.evaluate(bundle, np.array([0.51, 0.49, 0.0, 0.0, 0.0]), INF).value)
    bundle.drop(np.array([False, False, True, False, False]))
    bundle.add(1, np.zeros(1), np.array([[2.0], [2.5]]), np.array([-9.0, -9.0]), [0, 0])
    found = dual.evaluate(bundle, np.array([0.51, 0.49, 0.0, 0.0, 0.0, 0.0]), INF)
    assert len(asked) == 2
    assert np.isfinite(found.value)
    assert dual._ids.tolist() == [0, 1, 3, 4, 5, 6]


def test_multipliers_inside_belong_to_the_rows_they_were_found_for():
    dual, bundle = SafeDual(problem()), cuts([0.5])
    dual._ids, dual._weights = np.array([1, 2]), np.array([0.25, 0.75])
    assert dual._inside(bundle).tolist() == [0.0, 0.25, 0.75]


FAILURES = {
    "raises": RuntimeError("no"),
    "not solved": MasterSolution(np.zeros(1), np.array([0.125, 0.875]), MasterStatus.FAILED),
    "no multipliers": MasterSolution(np.zeros(1), None),
}


@pytest.mark.parametrize("answer", FAILURES.values(), ids=FAILURES)
def test_a_failure_leaves_the_infinite_value(answer, monkeypatch):
    asked = counted(monkeypatch, answer)
    dual = SafeDual(problem())
    ids, weights = dual._solve_with_half_weight(cuts())
    assert (ids.tolist(), weights.tolist()) == ([], [])
    assert ids.dtype == np.int64
    found = dual.evaluate(cuts(), outside(1e-3), INF)
    assert found.value == -INF
    assert found.multipliers == pytest.approx(outside(1e-3))
    assert len(asked) == 2


def test_after_a_failure_it_waits_for_a_quarter_more_rows(monkeypatch):
    asked = counted(monkeypatch, RuntimeError("no"))
    dual, bundle = SafeDual(problem()), cuts(*[[k / 8.0] for k in range(6)])
    for rows, attempts in ((8, 1), (9, 1), (10, 2), (11, 2), (12, 3)):
        while len(bundle) < rows:
            bundle.add(1, np.zeros(1), np.array([[2.0 + len(bundle)]]), np.array([-9.0]), [0])
        multipliers = np.zeros(rows)
        multipliers[:2] = outside(0.1)
        assert dual.evaluate(bundle, multipliers, INF).value == -INF
        assert len(asked) == attempts


def test_negative_multipliers_of_a_master_are_clipped(monkeypatch):
    counted(monkeypatch, MasterSolution(np.zeros(1), np.array([-0.5, 1.0])))
    bundle = cuts()
    ids, weights = SafeDual(problem())._solve_with_half_weight(bundle)
    assert weights.tolist() == [0.0, 1.0]
    assert ids.tolist() == [0, 1]
    assert not np.shares_memory(ids, bundle.ids)


def test_mixtures_that_do_not_help_leave_the_infinite_value(monkeypatch):
    counted(monkeypatch, MasterSolution(np.zeros(1), np.array([1.0, 0.0])))
    found = SafeDual(problem()).evaluate(cuts(), outside(0.1), INF)
    assert found.value == -INF
    assert found.multipliers == pytest.approx(outside(0.1))


def test_half_spaces_are_mixed_in_as_well():
    dual, bundle = SafeDual(problem()), cuts()
    bundle.add(1, np.zeros(1), np.array([[1.0]]), np.array([-0.5]), [HALF_SPACE])
    found = dual.evaluate(bundle, np.array([0.5, 0.5, 1e-3]), INF)
    assert found.multipliers == pytest.approx([0.49, 0.51, 0.01098])
    assert found.value == pytest.approx(-3.0 * 0.49 - 0.5 * 0.01098)


def test_only_an_inner_minimum_without_a_closed_form_calls_a_solver():
    assert SafeDual(problem()).calls_solver is False
    dual = SafeDual(problem())
    dual.dual._inner = object()
    assert dual.calls_solver is True


def test_nothing_is_known_inside_at_first():
    dual = SafeDual(problem())
    assert (dual._ids.size, dual._weights.size) == (0, 0)


class Recorded:
    """Takes the place of the dual function: infinite until the share of row 1 is above 1/2."""

    def __init__(self):
        self.calls = []

    def __call__(self, slopes, offsets, blocks, multipliers, *others):
        self.calls.append(others)
        return DualValue(0.0 if multipliers[1] > 0.5 else -INF, multipliers, 1.0)

    def is_finite(self, v, upper, reach):
        return None


@pytest.mark.parametrize("given, set_multipliers, reach", [({}, None, 0.0), ({"reach": 7.0}, None, 7.0)])
def test_what_is_known_of_the_rows_reaches_the_dual_function(given, set_multipliers, reach):
    dual, bundle = SafeDual(problem()), cuts()
    dual.dual = Recorded()
    dual.evaluate(bundle, np.array([0.5, 0.5]), 11.0, **given)
    assert len(dual.dual.calls) == 3
    for upper, sides, known, sizes, *_ in dual.dual.calls:
        assert (upper, sides, known) == (11.0, set_multipliers, reach)
        assert sizes.tolist() == [3.0, 1.0]


def test_multipliers_of_the_set_belong_to_the_first_attempt():
    dual, sides = SafeDual(problem()), np.ones(1)
    dual.dual = Recorded()
    dual.evaluate(cuts(), np.array([0.5, 0.5]), INF, sides)
    assert [call[1] is sides for call in dual.dual.calls] == [True, False, False]

"""The master for entropies: against cvxpy, and against its own dual in extended precision."""

import itertools

import cvxpy as cp
import numpy as np
import pytest
from conformance import rows_of
from hypothesis import given, settings
from hypothesis import strategies as st

import cutplane as cut
from cutplane.masters.base import HALF_SPACE, Level, MasterStatus, Prox, ReducedProblem
from cutplane.masters.entropy import EntropyMaster
from cutplane.masters.select import Backend, candidates, first_candidate, refusal_of
from cutplane.regularizers import L2, NegativeEntropy, NoRegularizer, RelativeEntropy
from cutplane.sets import Box, CappedSimplex, L2Ball, Simplex, WholeSpace
from cutplane.sets.base import is_whole_space
from cutplane.sets.simplex import entropic_capped


def by_cvxpy(reduced, rows):
    x = cp.Variable(reduced.dim)
    values = rows.slopes @ x + rows.offsets
    tops = sum(cp.max(values[np.flatnonzero(rows.blocks == k)]) for k in range(reduced.n_blocks))
    outside = np.flatnonzero(rows.blocks == HALF_SPACE)
    constraints = [*reduced.simple_set.cvxpy_form(x), *([values[outside] <= 0] if outside.size else [])]
    scale = reduced.regularizer.lam
    objective = tops / scale + reduced.regularizer.with_lam(1.0).cvxpy_form(x)
    problem = cp.Problem(cp.Minimize(objective), constraints)
    problem.solve(solver="CLARABEL")
    return scale * problem.value, x.value


def test_a_new_row_starts_from_the_last_multipliers(monkeypatch):
    rng = np.random.default_rng(0)
    m, count = 300, 40
    rows = rows_of(rng.choice([-1.0, 1.0], (count, m)), np.zeros(count))
    reduced = ReducedProblem(m, 1, RelativeEntropy(1.0 / m, 0.02), CappedSimplex(0.02, dim=m))

    def steps(master, k):
        seen, curvature = [], master._minimiser.curvature
        monkeypatch.setattr(master._minimiser, "curvature", lambda *args: seen.append(1) or curvature(*args))
        assert master.solve(rows_of(rows.slopes[:k], rows.offsets[:k])).status is MasterStatus.SOLVED
        assert master.gap <= 1e-9
        return len(seen)

    living = EntropyMaster(reduced)
    warm = [steps(living, k) for k in range(1, count + 1)]
    assert steps(living, count) == 0
    assert np.mean(warm[-10:]) < steps(EntropyMaster(reduced), count)


def test_one_row_is_the_entropic_projection():
    slope, q = np.array([0.3, -2.0, 1.0]), np.array([0.5, 0.2, 0.3])
    reduced = ReducedProblem(3, 1, RelativeEntropy(q, 0.5), CappedSimplex(0.6, dim=3))
    solution = EntropyMaster(reduced).solve(rows_of([slope], [7.0]))
    rest = q[[0, 2]] * np.exp(-slope[[0, 2]] / 0.5)
    np.testing.assert_allclose(solution.x[[0, 2]], 0.4 * rest / rest.sum(), rtol=1e-14)
    assert solution.x[1] == 0.6 and solution.multipliers.tolist() == [1.0]


def test_the_limits_of_lam():
    """A tiny lam gives the linear programme, a huge one the reference."""
    rng = np.random.default_rng(3)
    slopes, m = rng.normal(size=(8, 30)), 30
    rows = rows_of(slopes, np.zeros(8))
    capped = CappedSimplex(0.15, dim=m)
    solution = EntropyMaster(ReducedProblem(m, 1, NegativeEntropy(1e-9), capped)).solve(rows)
    x, top = cp.Variable(m), cp.Variable()
    problem = cp.Problem(cp.Minimize(top), [slopes @ x <= top, *capped.cvxpy_form(x)])
    assert (slopes @ solution.x).max() == pytest.approx(problem.solve(solver="HIGHS"), abs=1e-7)
    solution = EntropyMaster(ReducedProblem(m, 1, NegativeEntropy(1e9), capped)).solve(rows)
    np.testing.assert_allclose(solution.x, 1.0 / m, rtol=1e-7)


def test_half_spaces_that_exclude_the_set():
    reduced = ReducedProblem(3, 1, NegativeEntropy(0.1), Simplex(3))
    master = EntropyMaster(reduced)
    rows = rows_of([[1.0, 0.0, 2.0], [-1.0, -1.0, 0.0]], [0.0, 1.5], [0, HALF_SPACE])
    assert master.solve(rows).status is MasterStatus.INFEASIBLE
    rows.offsets[1] = 0.9
    solution = master.solve(rows)
    assert solution.status is MasterStatus.SOLVED
    assert solution.x[:2].sum() == pytest.approx(0.9, abs=1e-9) or solution.x[:2].sum() > 0.9


@pytest.mark.parametrize(
    ("regularizer", "simple_set", "stabilization", "words"),
    [
        (NegativeEntropy(0.1), Simplex(3), Prox, "prox"),
        (NegativeEntropy(0.1), Simplex(3), Level, "level"),
        (NegativeEntropy(0.0), Simplex(3), None, "entropy with lam > 0"),
        (L2(0.1), Simplex(3), None, "entropy with lam > 0"),
        (NoRegularizer(), Simplex(3), None, "entropy with lam > 0"),
        (NegativeEntropy(0.1), L2Ball(1.0, dim=3), None, "neither a box nor"),
        (NegativeEntropy(0.1), Box(-2, -1, 3), None, "no point where"),
    ],
)
def test_refusals_say_why(regularizer, simple_set, stabilization, words):
    reduced = ReducedProblem(3, 1, regularizer, simple_set)
    assert words in EntropyMaster.refusal(reduced, stabilization)


def test_auto_takes_it_before_cvxpy():
    entropic = ReducedProblem(3, 1, NegativeEntropy(0.1), Simplex(3))
    assert [c.name for c in candidates(entropic, None, Backend())][:2] == ["entropy_dual", "clarabel"]
    assert first_candidate(entropic, Prox, Backend("entropy_dual")).name == "clarabel"
    quadratic = ReducedProblem(3, 1, L2(0.1), WholeSpace(3))
    assert "entropy with lam > 0" in refusal_of(quadratic, None, Backend("entropy_dual"))


def test_a_boosting_run_agrees_with_the_whole_problem():
    rng = np.random.default_rng(1)
    m, n = 60, 25
    margins = rng.choice([-1.0, 1.0], (n, m), p=[0.4, 0.6])

    @cut.risk(dim=m)
    def edge(d):
        edges = margins @ d
        return edges.max(), margins[edges.argmax()]

    problem = cut.Problem(edge, RelativeEntropy(1.0 / m, 0.1), CappedSimplex(0.05, dim=m))
    result = problem.solve(cut.BMRM(), tol=1e-9)
    reduced = ReducedProblem(m, 1, problem.regularizer, problem.simple_set)
    best, d = by_cvxpy(reduced, rows_of(margins, np.zeros(n)))
    assert result.status is cut.Status.OPTIMAL and "entropy_dual" in str(result)
    assert result.objective == pytest.approx(best, abs=1e-7)
    np.testing.assert_allclose(result.x, d, atol=1e-4)
    result.certificate.verify()


# --- the projection -------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    entries=st.lists(
        st.floats(-5, 5) | st.sampled_from([-np.inf, 0.0, 1.0, 1e3, -1e3, 1e20]), min_size=1, max_size=12
    ),
    nu=st.floats(1.0, 12.0),
)
def test_one_cap_is_like_many_equal_caps(entries, nu):
    logits, cap = np.array(entries), 1.0 / min(nu, len(entries))
    x = entropic_capped(logits, cap)
    assert abs(x.sum() - 1.0) <= 1e-13 and (x >= 0.0).all() and (x <= cap).all()
    np.testing.assert_allclose(x, entropic_capped(logits, np.full(len(entries), cap)), rtol=1e-10, atol=1e-15)


@pytest.mark.parametrize("m", [1, 2, 7, 30])
def test_the_projection_satisfies_its_optimality_conditions(m):
    """x = min(cap, exp(logits - theta)) for one theta; with ties, caps active and inactive."""
    rng = np.random.default_rng(m)
    for scale, nu, ties in itertools.product((0.0, 0.1, 3.0, 100.0), (1.0, 1.5, m / 2, m - 0.25, m), (0, 1)):
        cap = 1.0 / np.clip(nu, 1.0, m)
        logits = scale * rng.normal(size=m)
        if ties:
            logits = np.round(logits)
        x = entropic_capped(logits, cap)
        assert x.sum() == pytest.approx(1.0, abs=1e-14)
        free = (x < cap) & (x > 1e-290)
        thetas = logits[free] - np.log(x[free])
        if free.any():
            np.testing.assert_allclose(thetas, thetas[0], atol=1e-12 * max(1.0, scale))
            assert (logits[x >= cap] - np.log(cap) >= thetas[0] - 1e-12 * max(1.0, scale)).all()


# --- closed forms ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("feasible", "whole"),
    [
        (cut.WholeSpace(), True),
        (cut.Box(-np.inf, np.inf), True),
        (cut.Box(-np.inf, 1.0), False),
        (cut.Box(0.0, np.inf), False),
        (cut.Box([-np.inf, -1.0], np.inf), False),
        (cut.Box(-np.inf, [np.inf, 2.0]), False),
        (cut.L2Ball(1.0), False),
    ],
    ids=repr,
)
def test_only_a_set_without_any_bound_is_the_whole_space(feasible, whole):
    assert is_whole_space(feasible, 2) is whole


def test_an_entropy_too_weak_for_one_of_the_slopes_gives_no_bound():
    entropy = cut.NegativeEntropy(1e-300)
    assert entropy.conjugate_minimiser(np.array([1e10, 1.0]), cut.Simplex()).value == -np.inf
    assert entropy.conjugate_minimiser(np.array([1.0, 2.0]), cut.Simplex()).value == pytest.approx(1.0)

"""Half-spaces in batches, dense and sparse; points near a set; half-spaces that are dropped."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import linprog

import cutplane as cut
from cutplane.engine.bundle import Bundle
from cutplane.sets import HalfSpaces


class Packing:
    """{x : A x <= b} known through the rows that x violates, at most `most` at a time."""

    def __init__(self, A, b, kind, most=3):
        self.A, self.b, self.kind, self.most = A, b, kind, most

    def __call__(self, x):
        violation = self.A @ x - self.b
        worst = np.argsort(-violation)[: self.most]
        worst = worst[violation[worst] > 1e-9]
        if self.kind == "single":
            return [cut.HalfSpace(self.A[i], self.b[i]) for i in worst]
        rows = self.A[worst]
        return HalfSpaces(sparse.csr_array(rows) if self.kind == "sparse" else rows, self.b[worst])

    def scaled_down(self, x):
        return x * (self.b / np.maximum(self.A @ x, self.b)).min()


def packing(seed, dim=12, rows=30):
    rng = np.random.default_rng(seed)
    A = np.where(rng.random((rows, dim)) < 0.3, rng.integers(1, 4, (rows, dim)), 0.0)
    A[np.arange(rows), rng.integers(dim, size=rows)] += 1.0
    return rng.normal(size=dim) - 0.5, A, rng.integers(1, 6, rows).astype(float)


def solve(c, A, b, kind, method=None, nearby=None, **options):
    rows = Packing(A, b, kind)
    oracle = cut.separation_oracle(rows, nearby=rows.scaled_down if nearby is True else nearby)
    feasible = cut.Box(0, 3, dim=c.size) & oracle
    problem = cut.Problem(cut.LinearObjective(c), feasible_set=feasible)
    return problem, problem.solve(method or cut.Kelley(), tol=1e-9, tol_abs=1e-9, **options)


@pytest.mark.parametrize("kind", ["single", "dense", "sparse"])
@pytest.mark.parametrize("backend", ["highs", "clarabel"])
def test_all_kinds_of_answers_give_the_optimum(kind, backend):
    c, A, b = packing(0)
    _, result = solve(c, A, b, kind, backend=backend)
    optimum = linprog(c, A, b, bounds=(0, 3)).fun
    assert result.lower_bound <= optimum + 1e-8
    assert result.lower_bound == pytest.approx(optimum, abs=1e-6)
    assert sparse.issparse(result.certificate.slopes) == (kind == "sparse")
    assert result.certificate.verify().valid


@pytest.mark.parametrize("max_age", [None, 1, 3])
def test_old_half_spaces_are_dropped_and_the_certificate_holds(max_age):
    c, A, b = packing(1, dim=30, rows=120)
    _, result = solve(c, A, b, "sparse", cut.Kelley(max_age=max_age))
    assert result.lower_bound == pytest.approx(linprog(c, A, b, bounds=(0, 3)).fun, abs=1e-6)
    assert result.certificate.verify().valid
    lower = result.history.column("lower_bound")
    assert (np.diff(lower) >= 0).all()
    counts = result.history.column("n_cuts")
    assert (np.diff(counts) < 0).any() == (max_age == 1) or max_age == 3


def test_a_nearby_point_is_the_upper_bound():
    c, A, b = packing(2)
    _, early = solve(c, A, b, "sparse", nearby=True, max_iter=3)
    assert early.objective < 0.0 and early.status is cut.Status.MAX_ITER
    assert (A @ early.x <= b + 1e-9).all()
    _, result = solve(c, A, b, "sparse", nearby=True)
    assert result.status is cut.Status.OPTIMAL
    assert result.objective == pytest.approx(linprog(c, A, b, bounds=(0, 3)).fun, abs=1e-7)
    assert result.history[-1].separations <= 2 * len(result.history)


def test_a_sparse_run_is_saved_and_goes_on(tmp_path):
    c, A, b = packing(3, dim=30, rows=120)
    problem, part = solve(c, A, b, "sparse", max_iter=3)
    loaded = cut.load(part.save(tmp_path / "run"), problem)
    assert (loaded.certificate.slopes != part.certificate.slopes).nnz == 0
    assert loaded.certificate.verify().valid
    result = problem.solve(cut.Kelley(), tol=1e-9, tol_abs=1e-9, warm_start=loaded)
    assert result.lower_bound == pytest.approx(linprog(c, A, b, bounds=(0, 3)).fun, abs=1e-6)
    assert result.history[0].n_cuts >= part.history[-1].n_cuts


def test_a_polyhedron_is_certified_by_the_multipliers_of_its_rows():
    c, A, b = packing(4)
    polytope = cut.Box(0, 3, dim=c.size) & cut.Polyhedron(A[:15], b[:15])
    problem = cut.Problem(
        cut.LinearObjective(c), feasible_set=polytope & cut.SeparationOracle(Packing(A, b, "sparse"))
    )
    result = problem.solve(cut.Kelley(), tol=1e-9, tol_abs=1e-9)
    assert result.lower_bound == pytest.approx(linprog(c, A, b, bounds=(0, 3)).fun, abs=1e-8)
    assert result.certificate.verify().valid


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (HalfSpaces(np.ones((1, 4)), np.zeros(1)), "of dimension 4; the problem has dimension 3"),
        (HalfSpaces(sparse.csr_array(np.ones((1, 3))), np.full(1, 5.0)), "does not separate"),
    ],
)
def test_wrong_batches_are_refused(answer, message):
    feasible = cut.Box(0, 1, dim=3) & cut.SeparationOracle(lambda x: answer)
    with pytest.raises(cut.OracleError, match=message):
        cut.Problem(cut.LinearObjective(-np.ones(3)), feasible_set=feasible).solve(cut.Kelley())


@given(st.lists(st.integers(0, 11), min_size=1, max_size=40), st.integers(0, 3))
def test_a_sparse_bundle_holds_what_a_dense_one_does(picks, age):
    rng = np.random.default_rng(7)
    pool = np.where(rng.random((12, 6)) < 0.4, rng.integers(-2, 3, (12, 6)), 0).astype(float)
    dense, thin = Bundle(6, 1), Bundle(6, 1)
    for query, pick in enumerate(picks):
        row, offset = pool[[pick]], np.array([float(pick % 3)])
        added = dense.add(query, row[0], row, offset, [-1])
        assert thin.add(query, row[0], sparse.csr_array(row), offset, [-1]) == added
        weights = np.arange(len(dense)) % 2.0
        dense.weigh(weights)
        thin.weigh(weights)
        if query % 5 == 4:
            dense.drop_idle(age)
            thin.drop_idle(age)
    assert np.array_equal(dense.slopes, thin.slopes.toarray())
    assert np.array_equal(dense.ids, thin.ids)
    assert dense.points.keys() == thin.points.keys()


@pytest.mark.parametrize("method", ["kelley", "bmrm", "proximal"])
def test_what_a_separation_oracle_forgives_is_no_contradiction_next_to_the_origin(method):
    """The half-space proves 0; the oracle lets a point pass that is 5e-12 outside."""
    risk = cut.OracleRisk(lambda x: (10.0 * x[0], np.array([10.0])), dim=1)
    positive = cut.SeparationOracle(
        lambda x: None if x[0] >= -1e-11 else cut.HalfSpace(np.array([-1.0]), 0.0), dim=1
    )
    result = cut.Problem(risk, feasible_set=cut.Box(-1.7, 0.5, dim=1) & positive).solve(method, x0=[-5e-12])
    assert result.status != "INVALID_ORACLE" and result.lower_bound <= result.objective

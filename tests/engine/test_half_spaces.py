"""Half-spaces in batches, dense and sparse; points near a set; half-spaces that are dropped."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linprog

import cutplane as cut
from cutplane.engine.bundle import Bundle
from cutplane.engine.half_spaces import (
    _share_inside,
    infeasible_end,
    into_half_spaces,
    point_towards,
    pull_back,
)
from cutplane.masters.base import HALF_SPACE
from cutplane.sets import HalfSpaces


class Packing:
    """{x : A x <= b}, of which the oracle returns at most `most` rows that x violates."""

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


@pytest.mark.parametrize("method", ["kelley", "bmrm", "proximal"])
def test_what_a_separation_oracle_forgives_is_no_contradiction_next_to_the_origin(method):
    """The half-space proves 0; the oracle lets a point pass that is 5e-12 outside."""
    risk = cut.OracleRisk(lambda x: (10.0 * x[0], np.array([10.0])), dim=1)
    positive = cut.SeparationOracle(
        lambda x: None if x[0] >= -1e-11 else cut.HalfSpace(np.array([-1.0]), 0.0), dim=1
    )
    result = cut.Problem(risk, feasible_set=cut.Box(-1.7, 0.5, dim=1) & positive).solve(method, x0=[-5e-12])
    assert result.status != "INVALID_ORACLE" and result.lower_bound <= result.objective


def problem(feasible=None):
    return cut.Problem(cut.OracleRisk(lambda x: (0.0, np.zeros(2)), dim=2), cut.L2(1.0), feasible)


def bundle_with(*rows, kind=np.array):
    bundle = Bundle(2, 1)
    bundle.add(0, None, np.array([[1.0, 1.0]]), np.array([-1.0]), [0])
    for slope, offset in rows:
        bundle.add(0, None, kind([slope]), np.array([offset]), [HALF_SPACE])
    return bundle


@pytest.mark.parametrize("kind", [np.array, sparse.csr_array])
@pytest.mark.parametrize("share, moved", [(-0.5, False), (3e-15, False), (4e-15, True), (0.9e-6, True)])
def test_a_violation_by_the_tolerance_of_a_master_is_undone(share, moved, kind):
    """The terms of 4 x_0 - b at x_0 = 2 are 8 and b."""
    bound = 8.0 * (1.0 - share) / (1.0 + share)
    x = np.array([2.0, 5.0])
    found = into_half_spaces(problem(), bundle_with(([4.0, 0.0], -bound), kind=kind), x)
    assert (found is not x) == moved
    if moved:
        assert 4.0 * found[0] <= bound
        assert found == pytest.approx([bound / 4.0, 5.0], rel=1e-12)


def test_the_simple_set_is_obeyed_as_well():
    """x_0 + x_1 falls below 2, while x_0 >= 1."""
    box = cut.Box([1.0, -9.0], [9.0, 9.0])
    found = into_half_spaces(problem(box), bundle_with(([1.0, 1.0], -2.0 * (1.0 - 1e-8))), np.ones(2))
    assert found[0] >= 1.0
    assert found.sum() <= 2.0 * (1.0 - 1e-8)
    assert found == pytest.approx([1.0, 1.0], abs=1e-7)


class Run:
    """Separates in the interval around zero of this radius, or in a disc, and counts."""

    def __init__(self, radius):
        self.radius, self.asked = radius, []

    def cut_off(self, x):
        self.asked.append(x)
        distance = np.linalg.norm(x)
        inside = distance <= self.radius
        return HalfSpaces(*(np.empty((0, x.size)), []) if inside else ([x / distance], [self.radius]))


@pytest.mark.parametrize("radius", [0.3, 0.75, 0.999])
def test_the_point_pulled_back_is_feasible_and_close_to_the_boundary(radius):
    run, outside = Run(radius), np.array([1.0])
    found = pull_back(run.cut_off, outside, np.array([0.0]), run.cut_off(outside))
    assert radius - 1e-3 <= found[0] < radius
    assert len(run.asked) == 2


def test_a_round_set_is_approached_by_the_half_spaces_found_on_the_way():
    run, outside, inside = Run(1.0), np.array([3.0, 1.0]), np.array([0.0, -0.9])
    found = pull_back(run.cut_off, outside, inside, run.cut_off(outside))
    assert 0.99 < np.linalg.norm(found) <= 1.0
    assert 2 < len(run.asked) <= 4


@pytest.mark.parametrize(
    ("end", "expected"),
    [(1.0 + 1e-6, 1.0 - 9e-4 + 1e-6), (1.8, 0.9), (2.5, None), (1.0 - 1e-6, 1.0 - 9e-4 - 1e-6)],
)
def test_a_point_towards_a_minimiser_closes_the_gap_or_halves_it(end, expected):
    run = Run(1.0)
    outside = np.array([end])  # of the objective -x, from zero
    found = point_towards(outside, np.zeros(1), end, run.cut_off(outside), (0.9e-3, 0.5 * end))
    assert found == (None if expected is None else pytest.approx([expected]))


APART = ([1.0, 0.0], 1.0), ([-1.0, 0.0], 1.0)
TOUCHING = ([1.0, 0.0], -1.0), ([-1.0, 0.0], -1.0)


def ended(rows, stabilized, best=None):
    return infeasible_end(problem(), None if best else bundle_with(*rows), stabilized)


@pytest.mark.parametrize("stabilized", [True, False])
def test_half_spaces_without_a_common_point_are_infeasible(stabilized):
    status, message = ended(APART, stabilized)
    assert status is cut.Status.INFEASIBLE
    assert message.endswith("have no common point (certified by multipliers)")


@pytest.mark.parametrize("stabilized", [True, False])
@pytest.mark.parametrize("rows, best", [(TOUCHING, None), (APART, object())])
def test_what_cannot_be_certified_is_a_stall(rows, best, stabilized):
    status, message = ended(rows, stabilized, best)
    assert status is cut.Status.STALLED
    assert message.startswith("a backend calls the reduced problem infeasible, which could not be certified")
    assert ("the level may be below the rounding error of the bounds" in message) == stabilized


def test_a_half_space_that_both_ends_touch_does_not_shorten_the_segment():
    found = HalfSpaces(np.eye(2), np.ones(2))
    assert _share_inside(found, np.array([1.0, 0.0]), np.array([1.0, 3.0])) == pytest.approx(1.0 / 3.0)

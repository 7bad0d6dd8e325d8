"""Masters beside generated problems: cones, verdicts, bad rows, options, refusals, and masters of users."""

from functools import partial

import cvxpy as cp
import numpy as np
import pytest
from conformance import OfAnyBlocks, rows_of
from users_master import UsersMaster

import cutplane as cut
from cutplane.exceptions import InvalidInputError, MissingCapabilityError
from cutplane.masters.base import HALF_SPACE, Level, MasterSolution, MasterStatus, Prox, ReducedProblem
from cutplane.masters.certificates import InnerMinimum
from cutplane.masters.cone_master import ConeMaster, CvxpyMaster
from cutplane.masters.entropy import EntropyMaster
from cutplane.masters.highs import HighsMaster
from cutplane.masters.simplex_qp import SimplexQP
from cutplane.regularizers import (
    L1,
    L2,
    CvxpyRegularizer,
    NegativeEntropy,
    NoRegularizer,
    QuadraticForm,
    SquaredGroupNorm,
)
from cutplane.sets import Box, CvxpySet, L2Ball, Simplex, WholeSpace

BACKENDS = [
    name
    for name in ("CLARABEL", "OSQP", "SCS", "HIGHS", "ECOS", "SCIPY", "PIQP")
    if name in cp.installed_solvers()
]
MASTERS = {
    "simplex_qp": SimplexQP,
    "interior_point": OfAnyBlocks,
    "highs rows": partial(HighsMaster, orientation="rows"),
    "highs columns": partial(HighsMaster, orientation="columns"),
    "entropy_dual": EntropyMaster,
    "a user's": UsersMaster,
    "clarabel": ConeMaster,
    **{f"cvxpy {name}": partial(CvxpyMaster, backend=name.lower()) for name in BACKENDS},
}

DIM = 5
W = cp.Variable(DIM)
GRAM = np.random.default_rng(3).normal(size=(4, DIM))
CONES = {
    "ball": (L2(0.2), L2Ball(0.7)),
    "quadratic form": (QuadraticForm(GRAM.T @ GRAM, np.ones(DIM), 0.1), Box(-1, 1)),
    "group norm": (SquaredGroupNorm([[0, 1], [2], [3, 4]], 0.5, p=1.0), WholeSpace()),
    "cvxpy": (CvxpyRegularizer(cp.norm_inf(W), W, 0.5), CvxpySet([W >= 0, cp.sum(W) <= 3], W)),
    "entropy": (NegativeEntropy(0.4), Simplex()),
}


@pytest.mark.parametrize("label", ["clarabel", "cvxpy SCS", "cvxpy ECOS"])
@pytest.mark.parametrize("name", CONES)
def test_cones_against_a_direct_solve(name, label):
    """The optimum, and multipliers that prove it by the inner minimum; with levels, the projection."""
    if label.split()[-1] not in ("clarabel", *BACKENDS):
        pytest.skip(f"{label} is not installed")
    regularizer, simple_set = CONES[name]
    reduced = ReducedProblem(DIM, 1, regularizer, simple_set.resolve(DIM))
    rng = np.random.default_rng(7)
    slopes, offsets = rng.normal(size=(20, DIM)), rng.normal(size=20) - 1.0
    living, inner = MASTERS[label](reduced), InnerMinimum(regularizer, reduced.simple_set, DIM)
    for count in (1, 7, 20):
        rows = rows_of(slopes[:count], offsets[:count])

        def height(x, rows=rows):
            return (rows.slopes @ x + rows.offsets).max() + regularizer.value(x)

        found, wanted = living.solve(rows), UsersMaster(reduced).solve(rows)
        assert found.status is MasterStatus.SOLVED, found.message
        assert reduced.simple_set.violation(found.x) <= 1e-5
        assert height(found.x) == pytest.approx(height(wanted.x), abs=1e-5)
        weights = np.maximum(found.multipliers, 0.0)
        assert weights.sum() == pytest.approx(1.0, abs=1e-5)
        weights /= weights.sum()
        bound = weights @ rows.offsets + inner(weights @ rows.slopes, height(found.x) + 10.0).value
        assert bound == pytest.approx(height(wanted.x), abs=2e-5)
        centre = np.full(DIM, 1.0 / DIM)
        prox = Prox(centre, 2.5)
        near, expected = living.solve(rows, prox).x, UsersMaster(reduced).solve(rows, prox).x
        assert near == pytest.approx(expected, abs=2e-3)
        level = 0.5 * (height(wanted.x) + height(centre))
        if height(centre) - level > 1e-3:
            held = living.solve(rows, Level(centre, level))
            assert height(held.x) == pytest.approx(level, abs=1e-4)
            x = cp.Variable(DIM)
            model = cp.max(rows.slopes @ x + rows.offsets) + regularizer.cvxpy_form(x)
            nearest = cp.Problem(
                cp.Minimize(cp.sum_squares(x - centre)), [model <= level, *reduced.simple_set.cvxpy_form(x)]
            )
            assert np.sum((held.x - centre) ** 2) == pytest.approx(nearest.solve("CLARABEL"), abs=1e-4)


@pytest.mark.parametrize("backend", ["OSQP", "HIGHS"])
def test_cones_that_a_backend_does_not_know_are_failures(backend):
    solution = CvxpyMaster(ReducedProblem(2, 1, NegativeEntropy(1.0), Simplex(2)), backend).solve(ONE_CUT)
    assert solution.status is MasterStatus.FAILED and backend in solution.message


LINEAR = [label for label in MASTERS if label not in ("simplex_qp", "interior_point", "entropy_dual")]
ONE_CUT = rows_of([[1.0, 2.0]], [0.0])
APART = rows_of([[1.0, 2.0], [1.0, 0.0], [-1.0, 0.0]], [0.0, 1.0, 1.0], [0, HALF_SPACE, HALF_SPACE])


@pytest.mark.parametrize("label", LINEAR)
def test_unbounded_then_solved(label):
    master = MASTERS[label](ReducedProblem(2, 1, NoRegularizer(), WholeSpace(2)))
    solution = master.solve(ONE_CUT)
    assert solution.status is MasterStatus.UNBOUNDED, solution.message
    assert solution.x is None and solution.multipliers is None and solution.message
    corners = rows_of([[1.0, 2.0], [-1.0, 0.0], [0.0, -1.0]], [0.0, 0.0, 0.0])
    solution = master.solve(corners)
    assert solution.status is MasterStatus.SOLVED
    assert (corners.slopes @ solution.x).max() == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize("label", [*LINEAR, "simplex_qp"])
def test_infeasible_then_solved(label):
    quadratic = label == "simplex_qp"
    reduced = ReducedProblem(2, 1, *((L2(1.0), WholeSpace(2)) if quadratic else (L1(2.0), Box(-5, 5, 2))))
    master = MASTERS[label](reduced)
    solution = master.solve(APART)
    assert solution.status is MasterStatus.INFEASIBLE, solution
    assert solution.x is None and solution.multipliers is None and solution.message
    without = rows_of(APART.slopes[:2], APART.offsets[:2], APART.blocks[:2])
    solution = master.solve(without)
    assert solution.status is MasterStatus.SOLVED
    np.testing.assert_allclose(solution.x[0], -1.0, atol=1e-5)


@pytest.mark.parametrize("dim", [2, 9])
def test_infeasible_half_spaces_are_found_by_either_form_of_clarabel(dim):
    """Nine variables and three rows: the dual over multipliers, which is unbounded; two: the primal."""
    rows = rows_of(np.pad(APART.slopes, ((0, 0), (0, dim - 2))), APART.offsets, APART.blocks)
    solution = ConeMaster(ReducedProblem(dim, 1, L2(1.0), WholeSpace(dim))).solve(rows)
    assert solution.status is MasterStatus.INFEASIBLE, solution


@pytest.mark.parametrize(
    "build", [MASTERS[label] for label in MASTERS if label not in ("cvxpy SCIPY",)], ids=str
)
@pytest.mark.parametrize("dim", [1, 6])
def test_a_block_without_cuts_is_unbounded(build, dim):
    master = getattr(build, "func", build)
    pieces = {
        HighsMaster: (NoRegularizer(), Box(-1, 1, dim)),
        EntropyMaster: (NegativeEntropy(1.0), Simplex(dim)),
    }
    reduced = ReducedProblem(dim, 2, *pieces.get(master, (L2(1.0), WholeSpace(dim))))
    assert build(reduced).solve(rows_of(np.ones((1, dim)), [0.0])).status is MasterStatus.UNBOUNDED


@pytest.mark.every
@pytest.mark.parametrize("label", [label for label in MASTERS if label != "a user's"])
@pytest.mark.parametrize("entry", [np.nan, np.inf, 1e200])
def test_rows_that_no_backend_can_take_fail_and_leave_no_trace(label, entry):
    own = {"simplex_qp": (L2(1.0), WholeSpace(2)), "entropy_dual": (NegativeEntropy(1.0), Box(0, 1, 2))}
    pieces = own.get(label, (NoRegularizer(), Box(-1, 1, 2)))
    master = MASTERS[label](ReducedProblem(2, 1, *pieces))
    good = rows_of([[1.0, 2.0], [-1.0, 1.0]], [0.0, -1.0])
    before = master.solve(good).x
    bad = rows_of([*good.slopes, [entry, -3.0]], [0.0, -1.0, -9.0])
    with np.errstate(all="ignore"):
        solution = master.solve(bad)
    if not np.isfinite(entry):
        assert solution.status is MasterStatus.FAILED and solution.message
    np.testing.assert_allclose(master.solve(good).x, before, atol=1e-5)


def test_failures_are_answers():
    hasty = CvxpyMaster(ReducedProblem(2, 1, NoRegularizer(), Box(-1, 1, 2)), "osqp", {"max_iter": 1})
    solution = hasty.solve(rows_of([[1.0, 2.0], [-1.0, 3.0]], [0.0, 1.0]))
    assert solution.status is MasterStatus.FAILED and "user_limit" in solution.message
    entropy = ReducedProblem(2, 1, NegativeEntropy(1.0), Simplex(2))
    solution = CvxpyMaster(entropy, "scs", {"no_such_option": 1}).solve(ONE_CUT)
    assert solution.status is MasterStatus.FAILED and "no_such_option" in solution.message


def test_options_reach_the_backend():
    rng = np.random.default_rng(0)
    reduced, rows = (
        ReducedProblem(5, 1, L2(0.2), Box(-1, 1, 5)),
        rows_of(rng.normal(size=(20, 5)), np.zeros(20)),
    )
    exact, errors = SimplexQP(reduced).solve(rows).x, []
    for eps in (1e-2, 1e-9):
        x = CvxpyMaster(reduced, "OSQP", {"eps_abs": eps, "eps_rel": eps, "polishing": False}).solve(rows).x
        errors.append(np.abs(x - exact).max())
    assert errors[1] < 1e-6 < 1e-4 < errors[0]


class Opaque(NoRegularizer):
    """A regularizer without any form for a master."""

    cvxpy_form = linear_form = quadratic = None


def test_refusals_name_the_piece_and_a_missing_backend_those_installed():
    opaque = ReducedProblem(2, 1, Opaque(), Box(-1, 1, 2))
    with pytest.raises(MissingCapabilityError, match="Opaque"):
        CvxpyMaster(opaque, "clarabel")
    assert "Opaque" in HighsMaster.refusal(opaque, None)
    assert "L2" in HighsMaster.refusal(ReducedProblem(2, 1, L2(1.0), Box(-1, 1, 2)), None)
    assert "level" in HighsMaster.refusal(ReducedProblem(2, 1, L1(1.0), Box(-1, 1, 2)), Level)
    with pytest.raises(InvalidInputError, match=r"'nonesuch' is not installed.*clarabel.*osqp"):
        CvxpyMaster(ReducedProblem(2, 1, L1(1.0), Box(-1, 1, 2)), "nonesuch")


@pytest.mark.parametrize("orientation", ["rows", "columns"])
def test_the_highs_model_lives_and_starts_from_its_basis(orientation):
    rng = np.random.default_rng(0)
    dim, count = 30, 80
    slopes, offsets = rng.normal(size=(count, dim)), rng.normal(size=count)
    reduced = ReducedProblem(dim, 1, NoRegularizer(), Box(-1, 1, dim))
    master = HighsMaster(reduced, orientation)
    master.solve(rows_of(slopes[:2], offsets[:2]))
    model = master.model
    size = model.getNumRow if orientation == "rows" else model.getNumCol
    base = size() - 2
    warm = []
    for k in range(3, count + 1):
        warm_solution = master.solve(rows_of(slopes[:k], offsets[:k]))
        warm.append(model.getInfo().simplex_iteration_count)
        assert size() == base + k
    cold = HighsMaster(reduced, orientation)
    cold_solution = cold.solve(rows_of(slopes, offsets))
    assert np.mean(warm[-20:]) < 0.5 * cold.model.getInfo().simplex_iteration_count
    height = (slopes @ warm_solution.x + offsets).max()
    assert height == pytest.approx((slopes @ cold_solution.x + offsets).max(), abs=1e-9)
    active = np.flatnonzero(warm_solution.multipliers > 1e-9)
    kept = np.setdiff1d(np.arange(count), active[::2])
    thinned = rows_of(slopes[kept], offsets[kept], ids=kept)
    solution = master.solve(thinned)
    assert master.model is model and size() == base + kept.size
    fresh = HighsMaster(reduced, orientation).solve(thinned)
    lower = (slopes[kept] @ solution.x + offsets[kept]).max()
    assert lower == pytest.approx((slopes[kept] @ fresh.x + offsets[kept]).max(), abs=1e-9)


def test_highs_chooses_columns_for_few_variables():
    few, many = (ReducedProblem(dim, 1, NoRegularizer(), Box(-1, 1, dim)) for dim in (100, 101))
    assert HighsMaster(few).orientation == "columns" and HighsMaster(many).orientation == "rows"


class Configured:
    """An object that builds masters, with an option."""

    name = "mine"
    refusal = staticmethod(UsersMaster.refusal)

    def __call__(self, reduced):
        return UsersMaster(reduced)


def absolute(dim):
    target = np.arange(1.0, dim + 1.0)
    return cut.risk(dim=dim)(lambda x: (float(np.abs(x - target).sum()), np.sign(x - target)))


@pytest.mark.parametrize("method", [cut.BMRM(), cut.ProximalBundle(), cut.LevelBundle()], ids=repr)
@pytest.mark.parametrize("backend", [UsersMaster, Configured()], ids=["class", "object"])
def test_a_users_master_solves_and_others_help_out(method, backend):
    """It refuses level problems, which other masters solve."""
    result = cut.Problem(absolute(3), cut.L2(0.1), cut.Box(-2.0, 2.0)).solve(method, backend, tol=1e-6)
    assert result.status == "OPTIMAL"
    assert "mine" in result.backend
    assert (result.backend == "mine") == (method.name != "LevelBundle")
    assert result.certificate.verify().valid


class Failing(UsersMaster):
    name = "failing"

    def solve(self, rows, stabilization=None, accuracy=0.0):
        raise RuntimeError("out of order")


def test_a_users_master_that_fails_is_replaced():
    result = cut.Problem(absolute(3), cut.L2(0.1)).solve(cut.BMRM(), Failing, tol=1e-6)
    assert result.status == "OPTIMAL"
    assert "failing: RuntimeError: out of order; fell back to simplex_qp" in result.history.notes[0]


class Lying(UsersMaster):
    name = "lying"

    def solve(self, rows, stabilization=None, accuracy=0.0):
        dim = self.reduced.dim
        return MasterSolution(np.full(dim, 0.5), np.full(len(rows.ids), 1.0 / len(rows.ids)))


def test_a_users_master_that_lies_proves_nothing_false():
    problem = cut.Problem(absolute(3), cut.L2(0.1))
    wanted = problem.solve(tol=1e-9).objective
    result = problem.solve(cut.BMRM(), Lying, max_iter=30)
    assert result.lower_bound <= wanted * (1.0 + 1e-12)
    assert result.certificate.verify().valid


@pytest.mark.parametrize(
    ("backend", "words"),
    [
        (3, "has no name, refusal, __call__"),
        (type("Half", (), {"name": "half", "refusal": None}), "has no solve"),
        (type("Taken", (UsersMaster,), {"name": "highs"}), "give it one of its own"),
        (None, "backend must be a name"),
    ],
)
def test_what_is_no_master_is_named(backend, words):
    with pytest.raises(InvalidInputError, match=words):
        cut.Problem(absolute(2), cut.L2(1.0)).solve(backend=backend)


def test_masters_of_users_are_compared():
    table = cut.compare(
        cut.Problem(absolute(2), cut.L2(1.0)), [cut.BMRM()], ["simplex_qp", UsersMaster], tol=1e-5
    )
    assert [row.backend for row in table.rows] == ["simplex_qp", "mine"]
    assert {row.status for row in table.rows} == {"OPTIMAL"}

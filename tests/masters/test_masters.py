"""Every master on every reduced problem it accepts, against one direct cvxpy solve."""

from functools import cache, partial
from itertools import islice

import cvxpy as cp
import numpy as np
import pytest
from reduced_problems import CASES, REACH, STAGES, Rows, dual_value, optimum
from users_master import UsersMaster

import cutplane as cut
from cutplane.exceptions import InvalidInputError, MissingCapabilityError
from cutplane.masters.base import HALF_SPACE, Level, MasterSolution, MasterStatus, ReducedProblem
from cutplane.masters.certificates import InnerMinimum
from cutplane.masters.cone_master import CvxpyMaster
from cutplane.masters.entropy import EntropyMaster
from cutplane.masters.highs import HighsMaster
from cutplane.masters.interior import InteriorPoint
from cutplane.masters.simplex_qp import SimplexQP
from cutplane.regularizers import L1, L2, NegativeEntropy, NoRegularizer
from cutplane.sets import Box, Simplex, WholeSpace

BACKENDS = [
    name
    for name in ("CLARABEL", "OSQP", "SCS", "HIGHS", "ECOS", "SCIPY", "PIQP")
    if name in cp.installed_solvers()
]


class OfAnyBlocks(InteriorPoint):
    """Takes problems with few blocks, too."""

    least_blocks = blocks_per_coordinate = 0


MASTERS = {
    "simplex_qp": SimplexQP,
    "interior_point": OfAnyBlocks,
    "highs rows": partial(HighsMaster, orientation="rows"),
    "highs columns": partial(HighsMaster, orientation="columns"),
    "entropy_dual": EntropyMaster,
    "a user's": UsersMaster,
    **{f"cvxpy {name}": partial(CvxpyMaster, backend=name.lower()) for name in BACKENDS},
}
ACCURACY = {
    "simplex_qp": 1e-8,
    "interior_point": 1e-8,
    "highs rows": 1e-8,
    "highs columns": 1e-8,
    "entropy_dual": 1e-8,
    "a user's": 1e-6,
    "cvxpy CLARABEL": 1e-6,
    "cvxpy OSQP": 1e-5,
    "cvxpy SCS": 1e-6,
    "cvxpy HIGHS": 1e-5,
    "cvxpy ECOS": 1e-5,
    "cvxpy SCIPY": 1e-7,
    "cvxpy PIQP": 1e-6,
}
"""Largest error of the value, relative to the size of the terms it is the sum of."""

CLASSES = {
    "cvxpy OSQP": ("lp", "qp"),
    "cvxpy PIQP": ("lp", "qp"),
    "cvxpy HIGHS": ("lp", "qp"),
    "cvxpy SCIPY": ("lp",),
}
"""The classes of programmes that a backend takes, if not all."""

UNRELIABLE = ("cvxpy HIGHS",)
"""Backends whose quadratic solver sometimes fails, and must then say so."""


def class_of(master):
    return master.func if isinstance(master, partial) else master


def accepts(master, reduced, kind):
    """cvxpy takes every case; the others say which they take."""
    return class_of(master) is CvxpyMaster or class_of(master).refusal(reduced, kind) is None


def accepted():
    """All pairs; but cvxpy's backends that are no default take every second case, in turn."""
    for turn, (label, build) in enumerate(MASTERS.items()):
        sampled = class_of(build) is CvxpyMaster and "CLARABEL" not in label
        for name, case in islice(CASES.items(), turn % 2 if sampled else 0, None, 2 if sampled else 1):
            kind = type(case.stabilization(case.rows("few"))) if case.stabilize else None
            scaled = (label, name) != ("a user's", "box, tiny slopes")  # units are left to the engine
            if scaled and accepts(build, case.reduced, kind):
                yield label, name


@pytest.mark.parametrize(("label", "name"), [*accepted()])
def test_conformance(label, name):
    case = CASES[name]
    master = MASTERS[label](case.reduced)
    supported = case.kind in CLASSES.get(label, (case.kind,))
    if not supported:
        rows = case.rows("few")
        solution = master.solve(rows, case.stabilization(rows))
        assert solution.status is MasterStatus.FAILED
        assert label.split()[1] in solution.message
        return
    for stage in STAGES:
        rows = case.rows(stage)
        stabilization = case.stabilization(rows)
        solution = master.solve(rows, stabilization)
        if label in UNRELIABLE and case.kind == "qp" and solution.status is MasterStatus.FAILED:
            continue
        assert solution.status is MasterStatus.SOLVED, (stage, solution.message)
        check_solution(case, rows, solution, optimum(name, stage), ACCURACY[label])


def check_solution(case, rows, solution, best, accuracy):
    """Feasible, optimal, with multipliers that prove it."""
    x, multipliers = solution.x, solution.multipliers
    tol = accuracy * (case.scale + abs(best))
    assert np.abs(x).max() < REACH
    assert x.shape == (case.dim,) and multipliers.shape == rows.ids.shape
    assert case.violation(rows, x) <= 10 * accuracy * max(1.0, np.abs(x).max())
    into = getattr(case.reduced.simple_set, "project", np.array)
    assert case.value(rows, into(x)) <= best + 10 * tol
    level = isinstance(case.stabilization(rows), Level)
    cuts = rows.blocks != HALF_SPACE
    sums = np.bincount(rows.blocks[cuts], multipliers[cuts], minlength=case.n_blocks)
    factor = sums.mean() if level else 1.0
    assert multipliers.min() >= -10 * accuracy * factor
    np.testing.assert_allclose(sums, factor, rtol=10 * accuracy)
    values = rows.slopes @ x + rows.offsets
    tops = np.array([values[rows.blocks == block].max() for block in range(case.n_blocks)])
    slack = np.append(tops, 0.0)[rows.blocks] - values
    assert multipliers @ slack <= 100 * tol * factor
    bound = dual_value(case, rows, multipliers)
    assert best - 10 * tol <= bound <= best + 1e-7 * (case.scale + abs(best))


def rows_of(slopes, offsets, blocks=None, ids=None):
    count = len(offsets)
    blocks = np.zeros(count, dtype=int) if blocks is None else np.asarray(blocks)
    return Rows(
        np.asarray(slopes, dtype=float),
        np.asarray(offsets, dtype=float),
        blocks,
        np.arange(count) if ids is None else np.asarray(ids),
    )


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


@pytest.mark.parametrize("backend", [name for name in BACKENDS if name != "SCIPY"])
@pytest.mark.parametrize("dim", [2, 9])
def test_infeasible_half_spaces_through_either_form(backend, dim):
    """Nine variables and three rows: the dual form, which is unbounded; two: the primal."""
    slopes = np.pad(APART.slopes, ((0, 0), (0, dim - 2)))
    master = CvxpyMaster(ReducedProblem(dim, 1, L2(1.0), WholeSpace(dim)), backend)
    solution = master.solve(rows_of(slopes, APART.offsets, APART.blocks))
    assert solution.status is MasterStatus.INFEASIBLE, solution


@pytest.mark.parametrize("build", [*MASTERS.values()], ids=[*MASTERS])
@pytest.mark.parametrize("dim", [1, 6])
def test_a_block_without_cuts_is_unbounded(build, dim):
    regularizer, simple_set = L2(1.0), WholeSpace(dim)
    if class_of(build) is HighsMaster or "scipy" in str(build):
        regularizer, simple_set = NoRegularizer(), Box(-1, 1, dim)
    if build is EntropyMaster:
        regularizer = NegativeEntropy(1.0)
    solution = build(ReducedProblem(dim, 2, regularizer, simple_set)).solve(rows_of(np.ones((1, dim)), [0.0]))
    assert solution.status is MasterStatus.UNBOUNDED, solution


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
    entropy = ReducedProblem(2, 1, NegativeEntropy(1.0), Simplex(2))
    solution = CvxpyMaster(entropy, "highs").solve(ONE_CUT)
    assert solution.status is MasterStatus.FAILED and "HIGHS" in solution.message
    solution = CvxpyMaster(entropy, "clarabel", {"no_such_option": 1}).solve(ONE_CUT)
    assert solution.status is MasterStatus.FAILED and "no_such_option" in solution.message
    hasty = CvxpyMaster(ReducedProblem(5, 1, NoRegularizer(), Box(-1, 1, 5)), "osqp", {"max_iter": 1})
    solution = hasty.solve(CASES["box"].rows("few"))
    assert solution.status is MasterStatus.FAILED and "user_limit" in solution.message


def test_options_reach_the_backend():
    case, rows = CASES["L2, polyhedron"], CASES["L2, polyhedron"].rows("pool doubled")
    errors = []
    for eps in (1e-2, 1e-9):
        options = {"eps_abs": eps, "eps_rel": eps, "polishing": False}
        x = CvxpyMaster(case.reduced, "OSQP", options).solve(rows).x
        errors.append(abs(case.model(rows, x) - optimum("L2, polyhedron", "pool doubled")))
    assert errors[1] < 1e-6 < 1e-4 < errors[0]


def test_a_missing_backend_is_named_with_those_installed():
    with pytest.raises(InvalidInputError, match=r"'nonesuch' is not installed.*clarabel.*osqp"):
        CvxpyMaster(CASES["box"].reduced, "nonesuch")


class Opaque(NoRegularizer):
    """A regularizer that describes itself to nobody."""

    cvxpy_form = linear_form = quadratic = None


def test_refusals_name_the_piece():
    opaque = ReducedProblem(2, 1, Opaque(), Box(-1, 1, 2))
    with pytest.raises(MissingCapabilityError, match="Opaque"):
        CvxpyMaster(opaque, "clarabel")
    assert "Opaque" in HighsMaster.refusal(opaque, None)
    assert "L2" in HighsMaster.refusal(CASES["L2"].reduced, None)
    assert "level" in HighsMaster.refusal(CASES["box"].reduced, Level)


@pytest.mark.parametrize(
    "label", [label for label in MASTERS if label.split()[-1] in ("OSQP", "CLARABEL", "SCS")]
)
@pytest.mark.parametrize("name", ["L2, weights and centre", "L1 and box, prox, 2 blocks"])
def test_a_long_life_of_rows_coming_and_going(label, name):
    """OSQP rejects some updates without a word, and cvxpy then returns the solution of an old problem."""
    case = CASES[name]
    living = MASTERS[label](case.reduced)
    for rows, fresh in life(name):
        x = living.solve(rows, case.stabilization(rows)).x
        assert case.value(rows, x) == pytest.approx(case.value(rows, fresh), abs=1e-5)


@cache
def life(name):
    """Rows that come and go, and the solutions of masters that never knew others."""
    case, pairs = CASES[name], []
    rng = np.random.default_rng(5)
    slopes, offsets = rng.normal(size=(400, case.dim)), rng.normal(size=400)
    blocks = np.arange(400) % case.n_blocks
    ids = np.arange(20)
    for _ in range(20):
        ids = np.concatenate([np.sort(rng.choice(ids, 15, replace=False)), ids[-1] + 1 + np.arange(5)])
        ids = np.union1d(ids, np.arange(2))
        rows = rows_of(slopes[ids], offsets[ids], blocks[ids], ids)
        fresh = CvxpyMaster(case.reduced, "clarabel").solve(rows, case.stabilization(rows))
        pairs.append((rows, fresh.x))
    return pairs


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


@pytest.mark.parametrize("name", ["cvxpy", "L2, polyhedron", "group norm"])
def test_the_inner_minimum_certifies_the_masters_multipliers(name):
    case, rows = CASES[name], CASES[name].rows("pool doubled")
    best = optimum(name, "pool doubled")
    weights = np.maximum(CvxpyMaster(case.reduced, "clarabel").solve(rows).multipliers, 0.0)
    weights /= weights.sum()
    inner = InnerMinimum(case.regularizer, case.reduced.simple_set, case.dim)
    bound = weights @ rows.offsets + inner(weights @ rows.slopes).value
    assert best - 1e-5 <= bound <= best + 1e-9


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
    """It refuses levels: others take them."""
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

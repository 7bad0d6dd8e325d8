import itertools
import math

import numpy as np
import pytest
from graphical_models import (
    SPECIAL,
    frustrated_cycle,
    random_binary,
    random_model,
    reference_bound,
    states,
)
from scipy.optimize import linprog
from scipy.sparse import csr_array

import cutplane as cut
from cutplane.exceptions import InvalidInputError
from cutplane.graphical import GraphicalModel, grid, spin_glass
from cutplane.graphical.primal import programme as primal
from cutplane.graphical.primal.disagreement import Disagreements, two_sides
from cutplane.graphical.primal.local_polytope import LocalPolytope
from cutplane.graphical.primal.marginal_cuts import CycleInequalities
from cutplane.graphical.primal.programme import CutProgramme, MarginalProgramme
from cutplane.masters.base import MasterStatus
from cutplane.pieces.forms import LinearForm
from cutplane.sets import HalfSpaces
from cutplane.status import Status


def solved(model, tighten=True, labelling=None):
    """The linear programme after its last round of cuts."""
    found = MarginalProgramme(model, tighten, labelling)
    for _ in found.steps():
        pass
    return found


def labellings(model):
    return [np.array(x, dtype=int) for x in states(model, range(model.n_variables))]


def same(a, b):
    return a == b or abs(a - b) <= 1e-7 * max(1.0, abs(b))


def hard_binary(rng, hard=0.2, fields=0.5):
    cardinalities = np.where(rng.random(6) < 0.1, 1, 2)
    factors = []
    for u in np.flatnonzero(rng.random(6) < fields):
        factors.append(((u,), np.where(rng.random(cardinalities[u]) < hard / 2, np.inf, rng.normal())))
    for _ in range(8):
        scope = rng.permutation(6)[:2]
        shape = tuple(cardinalities[scope])
        even = np.array([[1.0, -1.0], [-1.0, 1.0]])[: shape[0], : shape[1]]
        table = rng.normal(size=shape) if rng.random() < fields else rng.normal() * even
        factors.append((scope, np.where(rng.random(shape) < hard, np.inf, table)))
    return GraphicalModel(cardinalities, factors, constant=rng.normal())


BINARY = {
    **{f"random {seed}": random_binary(np.random.default_rng(seed)) for seed in range(3)},
    **{f"hard {seed}": hard_binary(np.random.default_rng(seed)) for seed in range(8)},
    **{f"without fields {seed}": hard_binary(np.random.default_rng(seed), 0.1, 0.0) for seed in range(3)},
    **{name: model for name, model in SPECIAL.items() if model.is_binary and model.is_pairwise},
}
ANY = {
    **{
        f"random {seed}": random_model(np.random.default_rng(seed), hard=0.1 * (seed % 2))
        for seed in range(4)
    },
    "unequal": random_model(np.random.default_rng(9), n=5, max_states=5, max_arity=3),
    **SPECIAL,
}


@pytest.mark.parametrize("name", ANY)
def test_the_local_polytope_is_the_one_written_row_by_row(name):
    model = ANY[name]
    if not model.n_variables:
        return
    polytope = LocalPolytope(model)
    answer = linprog(
        polytope.cost,
        A_eq=polytope.rows,
        b_eq=polytope.right,
        bounds=np.column_stack([np.zeros(polytope.dim), polytope.upper]),
    )
    bound = answer.fun + polytope.constant if answer.status == 0 else math.inf
    assert same(bound, reference_bound(model))
    assert bound <= model.brute_force()[1] + 1e-9
    assert np.linalg.matrix_rank(polytope.rows.toarray()) == polytope.rows.shape[0]


@pytest.mark.parametrize("kind", [LocalPolytope, Disagreements])
@pytest.mark.parametrize("name", BINARY)
def test_labellings_are_points_of_the_relaxation(kind, name):
    model = BINARY[name]
    relaxation = kind(model)
    for labelling in labellings(model):
        energy, x = model.energy(labelling), relaxation.embed(labelling)
        if math.isfinite(energy):
            assert relaxation.violation(x) == 0.0
            assert relaxation.cost @ x + relaxation.constant == pytest.approx(energy, abs=1e-12)
            assert model.energy(relaxation.read(x)) == pytest.approx(energy, abs=1e-12)
        elif math.isfinite(relaxation.constant) and kind is LocalPolytope:
            assert relaxation.violation(x) == 1.0


@pytest.mark.parametrize("name", BINARY)
def test_disagreements_leave_out_exactly_what_is_forbidden(name):
    model = BINARY[name]
    relaxation = Disagreements(model)
    allowed = [labelling for labelling in labellings(model) if math.isfinite(model.energy(labelling))]
    if relaxation.constant == math.inf:
        assert not allowed
        return
    points = {tuple(relaxation.embed(labelling)) for labelling in allowed}
    for labelling in labellings(model):
        x = relaxation.embed(labelling)
        if tuple(x) not in points:
            implied = np.array_equal(relaxation.read(x), labelling)  # no state of it was ruled out beforehand
            assert relaxation.violation(x) >= 1.0 or not implied


@pytest.mark.parametrize("name", BINARY)
def test_cycle_inequalities_bound_both_forms_alike(name):
    model = BINARY[name]
    labelling, optimum = model.brute_force()
    bounds = []
    for kind in (LocalPolytope, Disagreements) if math.isfinite(optimum) else ():
        relaxation = kind(model)
        if not relaxation.dim:
            bounds.append(relaxation.constant)
            continue
        feasible_set = relaxation & CycleInequalities(relaxation, tol=1e-8)
        problem = cut.Problem(cut.LinearObjective(relaxation.cost), feasible_set=feasible_set)
        result = problem.solve(cut.Kelley(), x0=relaxation.embed(labelling), tol=1e-9)
        bounds.append(result.lower_bound + relaxation.constant)
    assert len(bounds) == 0 or bounds[0] == pytest.approx(bounds[1], abs=1e-6)


@pytest.mark.parametrize("tighten", [False, True])
@pytest.mark.parametrize("name", ANY | BINARY)
def test_the_bounds_enclose_the_least_energy(name, tighten):
    model = (ANY | BINARY)[name]
    _, optimum = model.brute_force()
    solution = solved(model, tighten)
    assert solution.bound <= optimum + 1e-9 * max(1.0, abs(optimum))
    if solution.bound == math.inf:
        assert solution.status is Status.INFEASIBLE and solution.best.energy == math.inf
        return
    assert solution.status is Status.OPTIMAL
    assert solution.best.energy >= optimum - 1e-9
    if solution.best.energy < math.inf:
        assert model.energy(solution.best.labelling) == solution.best.energy
    if not tighten and model.n_variables:
        assert same(solution.bound, reference_bound(model))


@pytest.mark.parametrize("tighten", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_energies_that_cancel_to_zero_are_proven(seed, tighten):
    model = random_model(np.random.default_rng(seed), max_states=3, integers=True)
    lift = np.full(model.cardinalities[0], model.constant - model.brute_force()[1])
    factors = [model.factor(a) for a in range(model.n_factors)]
    unaries = [((u,), model.unary(u)) for u in range(model.n_variables)]
    solution = solved(
        GraphicalModel(model.cardinalities, [*factors, *unaries, ((0,), lift)]), tighten=tighten
    )
    assert solution.status is Status.OPTIMAL
    assert solution.bound <= 1e-9 and solution.best.energy >= -1e-9


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (1, 6)])
@pytest.mark.parametrize("seed", range(4))
def test_cycle_inequalities_solve_planar_glasses_without_a_field(shape, seed):
    model = spin_glass(*shape, seed=seed)
    solution = solved(model)
    energy = model.brute_force()[1]
    assert solution.best.energy == pytest.approx(energy, abs=1e-9)
    assert solution.bound == pytest.approx(energy, abs=1e-6)


@pytest.mark.parametrize("options", [{"field": 0.5}, {"wrap": True}])
def test_larger_glasses_are_proven(options):
    model = spin_glass(10, 10, seed=1, **options)
    solution = solved(model)
    assert solution.status is Status.OPTIMAL and solution.best.energy - solution.bound <= 1e-6 * abs(
        solution.best.energy
    )
    again = model.map("primal")
    assert again.status is Status.OPTIMAL and again.energy == pytest.approx(solution.best.energy)
    bounds = [record.lower_bound for record in again.history]
    assert bounds == sorted(bounds) and again.bound == bounds[-1]


def test_cycle_inequalities_of_states_against_the_rest_close_the_gap_of_three_labels():
    model = frustrated_cycle(4, 3)
    plain, tight = solved(model, tighten=False), solved(model)
    assert plain.bound <= tight.bound + 1e-9 <= model.brute_force()[1] + 2e-9
    mixed = grid(np.zeros((3, 3, 3)), 1.0 - np.eye(3), np.eye(3))
    assert solved(mixed).bound <= mixed.brute_force()[1] + 1e-9


def test_cycles_that_cannot_be_satisfied_are_found_infeasible():
    solution = solved(SPECIAL["infeasible cycle"])
    assert (solution.status, solution.bound, solution.best.energy) == (
        Status.INFEASIBLE,
        math.inf,
        math.inf,
    )


def test_a_labelling_that_is_known_is_used():
    model = spin_glass(6, 6, seed=2)
    first = solved(model).best
    again = MarginalProgramme(model, True, first.labelling)
    next(again.steps())
    assert again.best.energy == first.energy


@pytest.mark.parametrize("kind", [LocalPolytope, Disagreements])
@pytest.mark.parametrize("labelling", [[0, 1], [0, 1, 2], [0.5, 0, 1]])
def test_wrong_labellings_are_refused(kind, labelling):
    with pytest.raises(InvalidInputError, match="labelling"):
        kind(frustrated_cycle(3)).embed(labelling)


def test_disagreements_are_for_binary_pairs():
    with pytest.raises(InvalidInputError, match="use LocalPolytope"):
        Disagreements(frustrated_cycle(3, 3))


def test_a_million_marginals_are_set_up_at_once():
    model = grid(np.zeros((60, 60, 6)), np.eye(6))
    polytope = LocalPolytope(model)
    assert polytope.dim == 60 * 60 * 6 + 2 * 60 * 59 * 36
    assert polytope.rows.nnz == 60 * 60 * 6 + 2 * 60 * 59 * (36 + 6 + 30 + 5)
    assert polytope.violation(polytope.embed(np.zeros(3600, dtype=int))) == 0.0
    uniform = np.concatenate([np.full(60 * 60 * 6, 1 / 6), np.full(2 * 60 * 59 * 36, 1 / 36)])
    assert polytope.violation(uniform) <= 1e-12


def test_the_likeliest_states_are_read_off_the_first_of_several():
    model = GraphicalModel([3, 1, 2])
    assert LocalPolytope(model).read(np.array([0.2, 0.4, 0.4, 1.0, 0.1, 0.9])).tolist() == [1, 0, 1]


@pytest.mark.parametrize("seed", range(5))
def test_the_two_sides_agree_with_a_cut_whatever_was_made_unsure(seed):
    rng = np.random.default_rng(seed)
    sides = rng.integers(0, 2, 12)
    edges = np.array([pair for pair in itertools.combinations(range(12), 2) if rng.random() < 0.25])
    c = (sides[edges[:, 0]] != sides[edges[:, 1]]).astype(float)
    found = two_sides(edges, c, 12)
    assert np.array_equal(found[edges[:, 0]] != found[edges[:, 1]], c > 0.5)
    first, second, third = two_sides(np.array([[0, 1], [1, 2], [0, 2]]), np.array([1.0, 0.0, 0.6]), 4)[:3]
    assert first != second == third


def test_rounding_keeps_the_best():
    model = spin_glass(3, 3, seed=0)
    best, energy = model.brute_force()
    solution = MarginalProgramme(model, True, best)
    for candidate in np.random.default_rng(0).integers(0, 2, (5, 9)):
        solution._offer(candidate)
        assert solution.best.energy == energy and model.energy(solution.best.labelling) == energy


def test_half_spaces_are_not_dropped_and_found_again_for_ever():
    angles = np.linspace(0.1, 6.3, 12, endpoint=False)
    normals = np.column_stack([np.zeros(12), np.cos(angles), np.sin(angles)])
    offsets = 0.1 + 0.3 * normals[:, 1:].sum(axis=1)

    @cut.separation_oracle
    def prism(x):
        worst = int(np.argmax(normals @ x - offsets))
        found = cut.HalfSpace(normals[worst], offsets[worst])
        return found if normals[worst] @ x > offsets[worst] + 1e-9 else None

    # the objective does not see the sides of the prism, whose multipliers are always zero
    problem = cut.Problem(
        cut.LinearObjective(np.array([1.0, 0.0, 0.0])), feasible_set=cut.Box(-1, 1, dim=3) & prism
    )
    result = problem.solve(cut.Kelley(max_age=1), max_iter=100)
    assert result.status is Status.OPTIMAL and result.objective == -1.0


@pytest.mark.parametrize("hard", [0.0, 0.1])
def test_branching_without_cuts_finds_the_least_energy(hard, monkeypatch):
    monkeypatch.setattr(CycleInequalities, "kinds", lambda *_: iter(()))
    monkeypatch.setattr(primal, "without_exclusions", lambda model: model)
    nodes = []
    for seed in range(8):
        model = random_model(np.random.default_rng(seed), n=7, max_states=3, max_arity=3, hard=hard)
        factors = [model.factor(a) for a in range(model.n_factors)]
        model = GraphicalModel([*model.cardinalities, 3], factors)  # one variable has three states
        _, optimum = model.brute_force()
        solution = solved(model)
        if optimum == math.inf:
            assert solution.status is Status.INFEASIBLE
            continue
        assert solution.status is Status.OPTIMAL
        assert solution.best.energy == pytest.approx(optimum)
        assert optimum - 1e-7 <= solution.bound <= optimum + 1e-9
        nodes.append(solution.nodes)
    assert max(nodes) > 1


@pytest.mark.parametrize("seed", range(5))
def test_branching_without_labellings_enumerates_all_of_them(seed, monkeypatch):
    monkeypatch.setattr(CycleInequalities, "kinds", lambda *_: iter(()))
    monkeypatch.setattr(MarginalProgramme, "_offer", lambda *_: None)
    rng = np.random.default_rng(seed)
    pairs = itertools.combinations(range(7), 2)
    model = GraphicalModel([3] * 7, [(pair, rng.normal(size=(3, 3))) for pair in pairs])
    solution = solved(model)
    assert solution.nodes > 1
    assert solution.bound == pytest.approx(model.brute_force()[1])


@pytest.mark.parametrize("hard", [False, True])
def test_branching_with_cuts_finds_the_least_energy(hard, monkeypatch):
    monkeypatch.setattr(primal, "_PATIENCE", 1)
    nodes = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        model = hard_binary(rng) if hard else random_binary(rng, n=12, density=0.9)
        _, optimum = model.brute_force()
        bounds, solution = [], MarginalProgramme(model, True)
        for _ in solution.steps():
            bounds.append(solution.bound)
        assert bounds == sorted(bounds) and bounds[-1] <= optimum + 1e-9
        assert solution.status is (Status.OPTIMAL if optimum < math.inf else Status.INFEASIBLE)
        assert solution.best.energy == pytest.approx(optimum)
        nodes.append(solution.nodes)
    assert hard or max(nodes) > 1


@pytest.mark.parametrize("tighten", [False, True])
def test_a_programme_that_is_solved_in_parts_has_the_same_value(tighten, monkeypatch):
    model = random_model(np.random.default_rng(3), n=12, max_states=4)
    whole, n_whole = solved(model, tighten), len(list(MarginalProgramme(model, tighten).steps()))
    monkeypatch.setattr(primal, "_SLICE", 1e-7)
    parts, n_parts = solved(model, tighten), len(list(MarginalProgramme(model, tighten).steps()))
    assert n_parts > n_whole + 5
    assert parts.status is whole.status
    assert parts.bound == pytest.approx(whole.bound, abs=1e-7)


def test_cuts_are_dropped_once_they_are_idle():
    square = LinearForm(np.zeros(2), np.zeros(2), np.ones(2), csr_array((0, 2)), np.empty(0), np.empty(0))
    programme = CutProgramme(square, np.array([-2.0, -1.0]))
    programme.add(HalfSpaces(np.array([[1.0, 1.0], [1.0, 0.0]]), np.array([1.5, 5.0])))
    for _ in range(3):
        programme.solve()
        assert programme.x.tolist() == [1.0, 0.5] and programme.bound() == pytest.approx(-2.5)
    programme.drop_idle(3)
    assert len(programme) == 2
    programme.drop_idle(2)
    programme.solve()
    assert len(programme) == 1 and programme.x.tolist() == [1.0, 0.5]
    assert not programme.is_empty()
    programme.add(HalfSpaces(np.array([[-1.0, -1.0]]), np.array([-2.0])))
    assert programme.solve() is MasterStatus.INFEASIBLE and programme.is_empty()


@pytest.mark.parametrize("size", [1e-320, 1e300])
def test_costs_of_any_size_are_scaled(size):
    model = GraphicalModel([2, 3], [((0,), [size, 0.0]), ((0, 1), size * np.eye(3)[:2])])
    solution = solved(model)
    assert 0.0 <= solution.best.energy <= 2.0 * size and -4.0 * size <= solution.bound <= 0.0

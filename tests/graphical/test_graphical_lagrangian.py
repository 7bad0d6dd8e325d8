"""The Lagrangian over trees: its values, its maximum, and the labellings found on the way."""

import numpy as np
import pytest
from graphical_models import SMALL, SPECIAL, random_model, reference_bound
from hypothesis import given
from hypothesis import strategies as st

import cutplane as cut
from cutplane.graphical import GraphicalModel, chain, potts, spin_glass
from cutplane.graphical.exact.clique_tree import eliminate
from cutplane.graphical.lagrangian import InfeasibleModelError, TreeLagrangian, solve_lagrangian
from cutplane.graphical.sweeps.reparametrization import Reparametrization
from cutplane.graphical.trees import Trees, cover

FEASIBLE = [model for model in SMALL.values() if model.brute_force()[1] < np.inf]


def submodel(model, lagrangian, forest, x):
    """A forest with its part of the unary costs, as a model of its own."""
    trees, costs = lagrangian.trees, lagrangian.costs(x)
    factors = [model.factor(a) for a in cover(model)[forest]] if model.n_factors else []
    for node in np.flatnonzero(trees.forests == forest):
        own = costs[trees.starts[node] : trees.starts[node + 1]]
        factors.append(((int(trees.variables[node]),), own))
    return GraphicalModel(model.cardinalities, factors)


@pytest.mark.parametrize("model", FEASIBLE, ids=repr)
def test_each_forest_is_minimised_exactly_and_together_they_are_the_model(model):
    lagrangian = TreeLagrangian(model, separate=True)
    x = np.random.default_rng(1).normal(size=lagrangian.dim)
    values, _ = lagrangian.oracle(x)
    parts = [submodel(model, lagrangian, t, x) for t in range(lagrangian.n_blocks)]
    least = np.array([part.brute_force()[1] for part in parts])
    least[0] += model.constant
    np.testing.assert_allclose(-values, least, atol=1e-12)
    labellings = np.array([random_labelling(model, seed) for seed in range(5)])
    together = model.constant + sum(part.energies(labellings) for part in parts)
    np.testing.assert_allclose(together, model.energies(labellings), atol=1e-12)
    of_forests = lagrangian.labellings(x)[1:]
    for value, labelling, part in zip(least, of_forests, parts, strict=True):
        assert part.energy(labelling) + model.constant * (part is parts[0]) == pytest.approx(value, abs=1e-12)


def random_labelling(model, seed):
    return np.random.default_rng(seed).integers(model.cardinalities)


def test_the_forests_have_no_cycles_and_hold_each_factor_once():
    rng = np.random.default_rng(2)
    for _ in range(20):
        model = random_model(rng, n=8, max_arity=4, n_factors=12)
        forests = cover(model)
        assert sorted(np.concatenate(forests)) == list(range(model.n_factors))
        for factors in forests:
            links = [u for a in factors for u in model.factor(a).variables]
            trees = Trees.of(model, [factors])
            n_trees = np.isin(trees.variables[trees.roots], links).sum()
            assert len(links) == len(set(links)) + factors.size - n_trees


def test_a_grid_has_two_forests():
    assert [forest.size for forest in cover(spin_glass(5, 7))] == [34, 24]


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_lagrangian_is_a_convex_risk(seed, separate):
    model = random_model(np.random.default_rng(seed), n=6, max_arity=2 + seed, n_factors=9)
    assert cut.testing.check_risk(TreeLagrangian(model, separate=separate), n_points=8)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("arity", [2, 4])
def test_the_largest_bound_is_the_minimum_over_the_local_polytope(seed, arity):
    model = random_model(np.random.default_rng(seed), n=6, max_states=3, max_arity=arity, n_factors=8)
    minimum = reference_bound(model)
    for separate in (False, True):
        lagrangian = TreeLagrangian(model, separate=separate)
        found = cut.Problem(lagrangian).solve(cut.ProximalBundle(), tol=1e-7)
        bound = lagrangian.bound(found.x)
        assert minimum - 1e-5 <= bound <= minimum + 1e-9
        assert bound == pytest.approx(-found.objective, abs=1e-9)


def test_other_methods_reach_the_same_bound():
    model = spin_glass(4, 4, field=0.3, seed=1)
    lagrangian, minimum = TreeLagrangian(model), reference_bound(model)
    found = cut.Problem(lagrangian, feasible_set=cut.Box(-5, 5)).solve(cut.LevelBundle(), tol=1e-6)
    assert found.status is cut.Status.OPTIMAL
    assert found.certificate.verify()
    assert lagrangian.bound(found.x) == pytest.approx(minimum, rel=2e-6)


@given(seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([0.0, 0.3, 10.0, 1e6]))
def test_every_multiplier_gives_a_lower_bound(seed, scale):
    rng = np.random.default_rng(seed)
    model = random_model(rng, n=4, max_states=3, max_arity=3, hard=0.1)
    optimum = model.brute_force()[1]
    try:
        lagrangian = TreeLagrangian(model)
    except InfeasibleModelError:
        assert optimum == np.inf
        return
    assert lagrangian.bound(scale * rng.normal(size=lagrangian.dim)) <= optimum


@pytest.mark.parametrize("k", [1, 2, 4])
def test_a_tree_is_solved_exactly_without_multipliers(k):
    rng = np.random.default_rng(k)
    tables = [((u, v), rng.normal(size=(k, k))) for u, v in [(5, 0), (0, 3), (2, 5), (1, 4)]]
    tables += [((6, 7, 3), rng.normal(size=(k, k, k))), *(((u,), rng.normal(size=k)) for u in (0, 2, 4, 7))]
    for model in (
        GraphicalModel([k] * 8, tables),
        chain(rng.normal(size=(6, k)), rng.normal(size=(5, k, k))),
    ):
        lagrangian = TreeLagrangian(model)
        best, optimum = model.brute_force()
        assert lagrangian.dim == 0
        assert optimum - 1e-12 <= lagrangian.bound([]) <= optimum
        assert lagrangian.labellings([]).tolist() == [best.tolist()] * 2
        solution = solve_lagrangian(model)
        assert solution.status is cut.Status.OPTIMAL
        assert solution.labelling.tolist() == best.tolist()


@pytest.mark.parametrize("seed", range(10))
def test_a_reparametrisation_gives_multipliers(seed):
    rng = np.random.default_rng(seed)
    model = random_model(rng, n=7, max_states=3, max_arity=2 + seed % 3, n_factors=10)
    rep = Reparametrization(model)
    rep.sweep(20)
    lagrangian = TreeLagrangian(model)
    assert lagrangian.bound(lagrangian.multipliers(rep)) >= rep.bound - 1e-9


@pytest.mark.parametrize("name", SPECIAL)
def test_solutions_of_tricky_models(name):
    model = SPECIAL[name]
    _, optimum = model.brute_force()
    solution = solve_lagrangian(model)
    if name == "infeasible":
        assert (solution.status, solution.bound, solution.labelling) == (cut.Status.INFEASIBLE, np.inf, None)
        return
    minimum = reference_bound(model)
    assert minimum - 1e-4 * max(1.0, abs(minimum)) <= solution.bound <= min(optimum, minimum + 1e-9)
    if optimum == np.inf:
        assert solution.labelling is None and solution.energy == np.inf
    else:
        assert solution.energy == model.energy(solution.labelling) == pytest.approx(optimum)
    closed = solution.energy - solution.bound <= 1e-4 * max(1e-12, abs(solution.energy))
    assert solution.status is (cut.Status.OPTIMAL if closed and optimum < np.inf else cut.Status.STALLED)


def test_hard_constraints_without_local_marginals_are_proven_infeasible():
    def allow(relation, shape=(3, 3)):
        table = np.full(shape, np.inf)
        table[tuple(np.transpose(relation))] = 0.0
        return table

    same, turned = allow([(0, 0), (1, 1), (2, 2)]), allow([(0, 1), (1, 2), (2, 0)])
    two, one = allow([(0, 0), (1, 0), (2, 1)], (3, 2)), allow([(0, 0), (1, 1), (2, 1)], (3, 2))
    factors = [((0, 1), same), ((1, 2), same), ((0, 2), turned), ((0, 3), two), ((0, 4), one)]
    model = GraphicalModel([3, 3, 3, 2, 2], [*factors, ((3, 4), np.array([[0.0, np.inf], [np.inf, 0.0]]))])
    assert reference_bound(model) == np.inf
    solution = solve_lagrangian(model)
    assert solution.status is cut.Status.INFEASIBLE
    assert solution.bound == np.inf


@pytest.mark.parametrize(
    "model", [potts(6, 6, 3), spin_glass(6, 6, field=0.5), potts(5, 5, 3, mixed=True)], ids=repr
)
def test_solutions_enclose_the_optimum(model):
    seen = []
    solution = solve_lagrangian(model, callback=seen.append)
    _, optimum = eliminate(model)
    assert solution.bound <= optimum <= solution.energy + 1e-9
    assert solution.bound == pytest.approx(reference_bound(model), rel=2e-4)
    assert solution.energy <= optimum + 0.1 * abs(optimum)
    assert solution.energy == model.energy(solution.labelling)
    assert (solution.status is cut.Status.OPTIMAL) == (solution.gap <= 1e-4)
    assert TreeLagrangian(model).bound(solution.multipliers) == pytest.approx(solution.bound, rel=1e-12)
    for records in (seen, solution.history):
        bounds = np.array([(record.lower_bound, record.upper_bound) for record in records])
        assert len(bounds) == len(solution.history)
        assert (np.diff(bounds[:, 0]) >= 0).all() and (np.diff(bounds[:, 1]) <= 0).all()
        assert tuple(bounds[-1]) == (solution.bound, solution.energy)


def test_a_search_can_be_cut_short():
    model = spin_glass(6, 6, field=0.5)
    few = solve_lagrangian(model, max_iter=2)
    assert few.status is cut.Status.MAX_ITER and len(few.history) == 3
    left = solve_lagrangian(model, callback=lambda state: state.iteration == 4)
    assert left.status is cut.Status.INTERRUPTED and len(left.history) == 5
    assert few.bound <= left.bound
    late = solve_lagrangian(model, time_limit=1e-9)
    assert late.status is cut.Status.TIME_LIMIT
    known = solve_lagrangian(model, labelling=left.labelling, max_iter=0)
    assert known.energy <= left.energy


def test_a_dense_model_starts_at_equal_parts_unless_told_otherwise():
    rng = np.random.default_rng(3)
    pairs = np.argwhere(np.triu(np.ones((8, 8)), 1))
    model = GraphicalModel.pairwise(rng.normal(size=(8, 2)), pairs, rng.normal(size=(len(pairs), 2, 2)))
    rep, lagrangian = Reparametrization(model), TreeLagrangian(model)
    rep.sweep(50)
    assert lagrangian.trees.n_forests > 3
    assert solve_lagrangian(model, max_iter=0).bound == lagrangian.bound(np.zeros(lagrangian.dim))
    started = solve_lagrangian(model, reparametrization=rep, max_iter=0)
    assert started.bound >= rep.bound - 1e-9
    assert solve_lagrangian(model).bound == pytest.approx(reference_bound(model), rel=1e-4)


def test_what_cannot_be_a_lagrangian_is_named():
    with pytest.raises(cut.exceptions.InvalidInputError, match="needs a GraphicalModel, got 3"):
        TreeLagrangian(3)
    with pytest.raises(InfeasibleModelError, match="the tree of variable 0"):
        TreeLagrangian(SPECIAL["infeasible"])
    with pytest.raises(InfeasibleModelError, match="constant is inf"):
        TreeLagrangian(GraphicalModel([2], constant=np.inf))
    with pytest.raises(cut.exceptions.InvalidInputError, match="not of GraphicalModel"):
        TreeLagrangian(spin_glass(3, 3)).multipliers(Reparametrization(spin_glass(3, 4)))
    with pytest.raises(cut.exceptions.InvalidInputError, match="shape"):
        solve_lagrangian(spin_glass(3, 3), labelling=[0, 1])

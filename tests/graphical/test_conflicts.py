"""Cliques and odd sets of literals that exclude each other."""

import itertools
import math

import numpy as np
import pytest
from graphical_models import random_model
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from cutplane.graphical import GraphicalModel
from cutplane.graphical.primal.conflicts import Conflicts, forbidden_pairs
from cutplane.graphical.primal.disagreement import Disagreements
from cutplane.graphical.primal.local_polytope import LocalPolytope
from cutplane.graphical.primal.marginal_cuts import CycleInequalities
from cutplane.graphical.primal.odd_cuts import light_odd_cuts
from cutplane.graphical.primal.programme import MarginalProgramme
from cutplane.runtime.deadline import OutOfTime, limited_to
from cutplane.status import Status

BOTH = np.array([[0.0, 0.0], [0.0, math.inf]])


def solved(model):
    found = MarginalProgramme(model, True)
    for _ in found.steps():
        pass
    return found


def random_pairs(rng, n, density):
    return np.array([pair for pair in itertools.combinations(range(n), 2) if rng.random() < density])


def stable_sets(n, pairs):
    sets = np.array(list(itertools.product([0.0, 1.0], repeat=n)))
    return sets[(sets[:, pairs].sum(axis=2) <= 1.0).all(axis=1)]


def edges_of(rng, n, degree):
    edges = {tuple(sorted(rng.choice(n, 2, replace=False).tolist())) for _ in range(n * degree // 2)}
    return sorted(edges), rng.integers(1, 101, len(edges)).astype(float)


def exclusive_edges(edges):
    """The pairs of edges that share a node."""
    together = itertools.combinations(range(len(edges)), 2)
    return np.array([(e, f) for e, f in together if set(edges[e]) & set(edges[f])])


def heaviest_matching(edges, weights):
    at = np.array([[float(node in edge) for edge in edges] for node in range(1 + max(map(max, edges)))])
    answer = milp(-weights, integrality=1, bounds=Bounds(0, 1), constraints=LinearConstraint(at, ub=1.0))
    return -round(answer.fun)


@pytest.mark.parametrize("density", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("seed", range(4))
def test_all_inequalities_hold_for_all_stable_sets(seed, density):
    rng = np.random.default_rng(seed)
    pairs = random_pairs(rng, 10, density)
    sets = stable_sets(10, pairs)
    conflicts = Conflicts(10, pairs)
    n_cliques = n_odd = 0
    for _ in range(30):
        p = rng.random(10) ** rng.integers(1, 4)
        normals, offsets = conflicts.cliques(p)
        assert (normals @ sets.T <= offsets[:, None]).all() and (normals @ p > offsets).all()
        assert len(offsets) or (p[pairs].sum(axis=1) <= 1.0 + 1e-5).all()
        n_cliques += len(offsets)

        p = p / max(1.0, float(p[pairs].sum(axis=1).max()))  # all pairs are satisfied, some with equality
        p = np.where(rng.random(10) < 0.7, 0.5, np.minimum(p, 0.5))
        for normals, offsets in conflicts.cliques(p), conflicts.odd_sets(p):
            assert (normals @ sets.T <= offsets[:, None]).all() and (normals @ p > offsets).all()
        n_odd += len(offsets)
    assert n_cliques > 0 and (n_odd > 0 or density != 0.5)


@pytest.mark.parametrize("seed", range(8))
def test_odd_sets_of_cliques_are_all_that_matchings_need(seed):
    rng = np.random.default_rng(seed)
    edges, weights = edges_of(rng, 40, 5)
    conflicts = Conflicts(len(edges), exclusive_edges(edges))
    rows, right = np.empty((0, len(edges))), np.empty(0)
    while True:
        answer = linprog(-weights, A_ub=rows, b_ub=right, bounds=(0, 1))
        new = conflicts.cliques(answer.x)
        if not new[1].size:
            new = conflicts.odd_sets(answer.x)
        if not new[1].size:
            break
        rows, right = np.vstack([rows, new[0].toarray()]), np.append(right, new[1])
    assert -answer.fun == pytest.approx(heaviest_matching(edges, weights))


@pytest.mark.parametrize("seed", range(20))
def test_the_lightest_odd_cut_is_found(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 9))
    tails, heads = np.argwhere(np.triu(rng.random((n, n)) < 0.7, 1)).T
    weights, odd = rng.integers(1, 20, tails.size) / 16, np.arange(n) > 0
    odd[0] = (n - 1) % 2
    ends = np.concatenate([tails, heads])
    order = np.argsort(ends, kind="stable")
    opposite = np.argsort(order)[(order + tails.size) % max(1, order.size)]
    starts = np.searchsorted(ends[order], np.arange(n + 1))
    arcs = np.concatenate([heads, tails])[order]
    found = light_odd_cuts(starts, arcs, opposite, np.tile(weights, 2)[order], odd, math.inf)

    sides = np.indices([1] + [2] * (n - 1)).reshape(n, -1).T
    sides = sides[sides[:, odd].sum(axis=1) % 2 == 1]
    assert (found[:, odd].sum(axis=1) % 2 == 1).all()
    found, sides = ((cuts[:, tails] != cuts[:, heads]) @ weights for cuts in (found, sides))
    assert found.min() == sides.min()


def test_odd_cuts_end_at_the_deadline():
    starts, heads, opposite = np.array([0, 1, 2]), np.array([1, 0]), np.array([1, 0])
    given = starts, heads, opposite, np.ones(2), np.array([True, True]), math.inf
    assert light_odd_cuts(*given).tolist() == [[False, True]]
    with limited_to(0.0), pytest.raises(OutOfTime):
        light_odd_cuts(*given)


@pytest.mark.parametrize("seed", range(3))
def test_geometric_matchings_need_no_branching(seed):
    rng = np.random.default_rng(seed)
    points = rng.random((60, 2))
    lengths = np.linalg.norm(points[:, None] - points, axis=2)[np.triu_indices(60, 1)]
    nearest = np.argsort(lengths)[:240]
    edges = np.transpose(np.triu_indices(60, 1))[nearest].tolist()
    weights = np.rint(1000 * (1.5 * lengths[nearest].max() - lengths[nearest]))
    factors = [((e,), [0.0, -weight]) for e, weight in enumerate(weights)]
    solution = solved(GraphicalModel([2] * 240, factors + [(pair, BOTH) for pair in exclusive_edges(edges)]))
    assert solution.status is Status.OPTIMAL and solution.nodes <= 1
    assert solution.best.energy == -heaviest_matching(edges, weights)


@pytest.mark.parametrize("arity", ["pairs", "nodes"])
@pytest.mark.parametrize("seed", range(3))
def test_matchings_are_proven(seed, arity):
    rng = np.random.default_rng(seed)
    edges, weights = edges_of(rng, 20 if arity == "nodes" else 100, 4)
    factors = [((e,), [0.0, -weight]) for e, weight in enumerate(weights)]
    if arity == "pairs":
        factors += [(pair, BOTH) for pair in exclusive_edges(edges)]
    for node in range(20) if arity == "nodes" else ():
        scope = [e for e, edge in enumerate(edges) if node in edge]
        if len(scope) > 1:
            states = np.indices([2] * len(scope)).sum(axis=0)
            factors.append((scope, np.where(states > 1, math.inf, 0.0)))
    solution = solved(GraphicalModel([2] * len(edges), factors))
    assert solution.status is Status.OPTIMAL
    assert solution.best.energy == -heaviest_matching(edges, weights)
    assert solution.bound == pytest.approx(solution.best.energy, rel=1e-8) and solution.nodes <= 1


@pytest.mark.parametrize("seed", range(6))
def test_forbidden_pairs_are_those_that_some_factor_excludes(seed):
    rng = np.random.default_rng(seed)
    model = random_model(rng, n=5, max_states=3, max_arity=4, hard=(0.2, 0.5, 0.8)[seed % 3])
    expected = set()
    for a in range(model.n_factors):
        scope, table = model.factor(a)
        for (s, u), (t, v) in itertools.combinations(enumerate(scope), 2):
            for i, j in itertools.product(range(model.cardinalities[u]), range(model.cardinalities[v])):
                if np.isinf(table.take([i], axis=s).take([j], axis=t)).all():
                    expected.add((int(model.unary_starts[u]) + i, int(model.unary_starts[v]) + j))
    owner = np.repeat(np.arange(5), model.cardinalities)
    hard = {int(owner[literal]) for pair in expected for literal in pair}
    states = [range(*model.unary_starts[[u, u + 1]].tolist()) for u in hard]
    expected |= {pair for literals in states for pair in itertools.combinations(literals, 2)}
    assert {tuple(sorted(pair)) for pair in forbidden_pairs(model).tolist()} == expected


def at_most_one(rng, n=7, mixed=True):
    """A random model of binary pairs, of which some forbid one of the four tuples."""
    factors = [((u,), [0.0, float(rng.normal())]) for u in range(n)]
    for pair in random_pairs(rng, n, 0.6):
        table = rng.normal(size=(2, 2)) if mixed and rng.random() < 0.5 else np.zeros((2, 2))
        if rng.random() < 0.6:
            table[tuple(rng.integers(0, 2, 2))] = math.inf
        factors.append((pair, table))
    return GraphicalModel([2] * n, factors)


@pytest.mark.parametrize("kind", [Disagreements, LocalPolytope])
@pytest.mark.parametrize("seed", range(8))
def test_no_labelling_of_finite_energy_is_cut_off(seed, kind):
    rng = np.random.default_rng(seed)
    model = at_most_one(rng, mixed=seed % 2 == 0)
    relaxation = kind(model)
    labellings = np.array(list(itertools.product([0, 1], repeat=7)))
    allowed = labellings[np.isfinite(model.energies(labellings))]
    points = np.array([relaxation.embed(labelling) for labelling in allowed])
    cuts = CycleInequalities(relaxation, local_cuts=True)
    for _ in range(20):
        x = rng.dirichlet(np.full(5, 0.3)) @ points[rng.integers(0, len(points), 5)]
        x = np.clip(x + rng.normal(scale=0.2, size=x.size), 0.0, 1.0)
        found = cuts.separate(x)
        assert (found.normals @ points.T <= found.offsets[:, None] + 1e-9).all()
        assert (found.violations(x) > 0.0).all()
    assert not any(len(cuts.separate(point)) for point in points)


@pytest.mark.parametrize("seed", range(8))
def test_pairs_and_literals_have_their_probabilities(seed):
    model = at_most_one(np.random.default_rng(seed))
    relaxation = Disagreements(model)
    graph, differ = relaxation.projection
    for labelling in itertools.product([0, 1], repeat=7):
        if math.isfinite(model.energy(labelling)):
            states, x = np.append(labelling, 0), relaxation.embed(labelling)
            first, second = states[graph.edges.T]
            np.testing.assert_array_equal(differ(x), first != second)
            fields = states[relaxation.edges[: relaxation.dim]][relaxation.edges[: relaxation.dim, 1] == 7, 0]
            expected = np.column_stack([1 - fields, fields]).ravel()
            np.testing.assert_array_equal(relaxation.literals(x), expected)


@pytest.mark.parametrize("seed", range(3))
def test_independent_sets_are_bounded_better_than_by_halves(seed):
    rng = np.random.default_rng(seed)
    weights = rng.integers(1, 11, 18)
    factors = [((u,), [0.0, -float(weight)]) for u, weight in enumerate(weights)]
    model = GraphicalModel([2] * 18, [*factors, *((p, BOTH) for p in random_pairs(rng, 18, 0.4))])
    _, optimum = model.brute_force()
    programme = MarginalProgramme(model, True)
    for _ in programme.steps():
        if programme.nodes <= 1:
            root = programme.bound
    assert root == pytest.approx(optimum, rel=0.05) and optimum > -0.5 * weights.sum()
    assert programme.bound == optimum


def test_latin_squares_are_proven_by_cliques():
    n = 5
    rng = np.random.default_rng(0)
    differ = np.where(np.eye(n) > 0, math.inf, 0.0)
    cells = list(itertools.product(range(n), range(n)))
    lines = [(a, b) for a, b in itertools.combinations(range(n * n), 2) if np.equal(cells[a], cells[b]).any()]
    costs = rng.integers(0, 100, (n * n, n))
    factors = [*((pair, differ) for pair in lines), *(((u,), costs[u]) for u in range(n * n))]
    solution = solved(GraphicalModel([n] * (n * n), factors))
    assert solution.status is Status.OPTIMAL
    assert solution.bound == pytest.approx(solution.best.energy, rel=1e-8) and solution.nodes <= 1


def exclusions(rng, n, k, density, hard):
    """Random unary costs, and pairs of variables that exclude random pairs of states at no cost."""
    factors = [((u,), rng.normal(size=k)) for u in range(n)]
    pairs = random_pairs(rng, n, density)
    factors += [(pair, np.where(rng.random((k, k)) < hard, math.inf, 0.0)) for pair in pairs]
    return GraphicalModel([k] * n, factors)


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("seed", range(6))
def test_cliques_replace_tables_of_pairs_without_costs(seed, k):
    model = exclusions(np.random.default_rng(seed), 6, k, 0.6, 0.15 * (1 + seed % 3))
    _, optimum = model.brute_force()
    tight, plain = solved(model), MarginalProgramme(model, False)
    for _ in plain.steps():
        pass
    assert plain.bound - 1e-7 <= tight.bound <= optimum + 1e-7
    assert tight.bound < math.inf or tight.status is Status.INFEASIBLE
    if k > 2:
        assert tight.relaxation.dim == model.unaries.size

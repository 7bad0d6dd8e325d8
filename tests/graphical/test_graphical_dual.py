"""Dual cutting planes enclose the optimum, and close what the local polytope leaves open."""

import itertools

import numpy as np
import pytest
from graphical_models import SPECIAL, frustrated_cycle, random_binary, random_model
from hypothesis import given, settings
from hypothesis import strategies as st

from cutplane.graphical import GraphicalModel
from cutplane.graphical.dual.ascent import ClusterAscent, states_to_forbid
from cutplane.graphical.dual.cycles import (
    Cycles,
    PairCosts,
    guaranteed_increases,
    triangles_and_squares,
    triplets_of,
)
from cutplane.graphical.dual.frustrated_cycles import frustrated_cycles
from cutplane.graphical.exact.clique_tree import eliminate
from cutplane.graphical.factors import EnergyLattice
from cutplane.graphical.grids import potts, spin_glass
from cutplane.graphical.sweeps.reparametrization import Reparametrization

SEEDS = st.integers(0, 2**31)


def run(model, *, tighten=True, steps=60):
    """The ascent after some steps, and (bound, energy) after each."""
    ascent = ClusterAscent(Reparametrization(model), tighten)
    return ascent, [(ascent.bound, ascent.best.energy) for _, _ in zip(range(steps), ascent, strict=False)]


def closed(ascent):
    return ascent.best.energy - ascent.bound <= 1e-9 * max(1.0, abs(ascent.best.energy))


def random_costs(rng, n=8, density=0.6, max_states=3):
    edges = [pair for pair in itertools.combinations(range(n), 2) if rng.random() < density]
    k = rng.integers(1, max_states + 1, n)
    factors = [((u,), rng.normal(size=k[u])) for u in range(n)]
    model = GraphicalModel(k, factors + [(e, rng.normal(size=k[list(e)])) for e in edges])
    return PairCosts.of(Reparametrization(model))


def pair_table(costs, u, v):
    """The table of a pair of variables, u by rows."""
    number = costs.pairs.tolist().index(sorted((u, v)))
    shape = costs.cardinalities[costs.pairs[number]]
    start = costs.table_starts[number]
    table = costs.tables[start : start + shape.prod()].reshape(shape)
    return table if u < v else table.T


def unary(costs, u):
    return costs.unaries[costs.unary_starts[u] : costs.unary_starts[u + 1]]


def adjacency(costs):
    n = costs.cardinalities.size
    matrix = np.zeros((n, n), dtype=bool)
    matrix[costs.pairs[:, 0], costs.pairs[:, 1]] = True
    return matrix | matrix.T


@given(SEEDS, st.floats(0, 1))
@settings(max_examples=25, deadline=None)
def test_triangles_and_squares_are_all_those_of_the_graph(seed, density):
    costs = random_costs(np.random.default_rng(seed), density=density)
    near = adjacency(costs)
    three, four = triangles_and_squares(*costs.graph[:2], 1000)
    assert sorted(map(tuple, three.tolist())) == [
        (u, v, w)
        for u, v, w in itertools.combinations(range(8), 3)
        if near[u, v] and near[v, w] and near[u, w]
    ]
    chordless = {
        frozenset([frozenset((u, w)), frozenset((v, x))])
        for u, v, w, x in itertools.permutations(range(8), 4)
        if near[u, v] and near[v, w] and near[w, x] and near[x, u] and not near[u, w] and not near[v, x]
    }
    rows = four.tolist()
    assert len(rows) == len(chordless)
    assert {frozenset([frozenset((u, w)), frozenset((v, x))]) for u, v, w, x in rows} == chordless


def test_many_common_neighbours_give_few_squares():
    n = 2000
    edges = [(hub, leaf) for hub in (0, 1) for leaf in range(2, n)]
    model = GraphicalModel.pairwise(np.zeros((n, 2)), edges, np.zeros((2, 2)))
    graph = PairCosts.of(Reparametrization(model)).graph[:2]
    assert [len(triangles_and_squares(*graph, limit)[1]) for limit in (10**6, 100)] == [n - 3, 100]


@given(SEEDS)
@settings(max_examples=20, deadline=None)
def test_scores_are_the_exact_minima_over_the_cycle(seed):
    rng = np.random.default_rng(seed)
    costs = random_costs(rng, n=6, density=1.0)
    cycle = rng.permutation(6)[: rng.integers(3, 6)]
    pairs = list(zip(cycle, np.roll(cycle, -1), strict=True))
    score = guaranteed_increases(costs, Cycles(np.array([0, cycle.size]), cycle))[0]
    separate = sum(pair_table(costs, u, v).min() for u, v in pairs) + sum(
        unary(costs, u).min() for u in cycle
    )
    together = np.inf
    for states in itertools.product(*(range(costs.cardinalities[u]) for u in cycle)):
        x = dict(zip(cycle, states, strict=True))
        total = sum(pair_table(costs, u, v)[x[u], x[v]] for u, v in pairs)
        together = min(together, total + sum(unary(costs, u)[x[u]] for u in cycle))
    assert score == pytest.approx(together - separate, abs=1e-12)


@given(SEEDS)
@settings(max_examples=20, deadline=None)
def test_frustrated_cycles_are_simple_cycles_of_the_graph(seed):
    rng = np.random.default_rng(seed)
    costs = random_costs(rng, n=9, density=0.5, max_states=int(rng.integers(2, 5)))
    near = adjacency(costs)
    cycles = frustrated_cycles(costs, 1e-9)
    for begin, end in itertools.pairwise(cycles.starts):
        cycle = cycles.variables[begin:end]
        assert len(set(cycle.tolist())) == cycle.size >= 3
        assert near[cycle, np.roll(cycle, -1)].all()


@given(SEEDS, st.integers(3, 9))
@settings(max_examples=25, deadline=None)
def test_a_frustrated_cycle_of_binary_variables_is_found_with_its_full_worth(seed, n):
    """Pairs that prefer one sign by a margin, an odd number of them to differ: worth the smallest margin."""
    rng = np.random.default_rng(seed)
    margins = rng.uniform(0.1, 1.0, n)
    differ = np.zeros(n, dtype=bool)
    differ[rng.permutation(n)[: 2 * rng.integers(0, (n - 1) // 2 + 1) + 1]] = True
    order = rng.permutation(n)
    factors = [
        ((order[i], order[(i + 1) % n]), margins[i] * (np.eye(2) if differ[i] else 1.0 - np.eye(2)))
        for i in range(n)
    ]
    costs = PairCosts.of(Reparametrization(GraphicalModel([2] * n, factors)))
    cycles = frustrated_cycles(costs, 1e-9)
    assert len(cycles) == 1
    assert cycles.variables.size == n
    assert guaranteed_increases(costs, cycles) == pytest.approx([margins.min()])


@given(st.permutations(range(7)), st.integers(3, 7))
@settings(deadline=None)
def test_triplets_triangulate_a_cycle(order, size):
    cycles = Cycles(size * np.arange(3), np.array([*order[:size], *order[:size][::-1]]))
    triplets = triplets_of(cycles, np.array([1]), np.arange(2, 9))
    assert len(triplets) == size - 2
    assert (np.diff(triplets) > 0).all()
    covered = {pair for row in triplets.tolist() for pair in itertools.combinations(row, 2)}
    assert {tuple(sorted(p)) for p in zip(order[:size], [*order[1:size], order[0]], strict=True)} <= covered
    assert len(covered) == 2 * size - 3


@given(SEEDS)
@settings(max_examples=25, deadline=None)
def test_the_bound_rises_by_the_score(seed):
    """Full pushes of the unaries and pairs of a triangle and one minimisation over it realise its score."""
    rng = np.random.default_rng(seed)
    model = (
        random_binary(rng, n=5, density=1.0) if seed % 2 else random_model(rng, n=4, max_arity=2, n_factors=9)
    )
    rep = Reparametrization(model)
    rep.sweep(int(rng.integers(0, 20)) + 1)
    costs = PairCosts.of(rep)
    rows, _ = triangles_and_squares(*costs.graph[:2], 100)
    if len(rows) == 0:
        return
    scores = guaranteed_increases(costs, Cycles(3 * np.arange(len(rows) + 1), rows.ravel()))
    best = int(scores.argmax())
    before = rep.bound
    rep.add_cluster(tuple(rows[best].tolist()))
    assert rep.bound == pytest.approx(before, abs=1e-9)
    after = rep.sweep(300)
    assert after >= before + scores[best] - 1e-6


@given(SEEDS)
@settings(max_examples=25, deadline=None)
def test_bounds_are_monotone_and_enclose_the_optimum(seed):
    rng = np.random.default_rng(seed)
    hard = float(rng.choice([0.0, 0.1, 0.3]))
    model = random_model(
        rng, n=6, max_arity=int(rng.integers(2, 5)), hard=hard, integers=bool(rng.integers(2))
    )
    optimum = model.brute_force()[1]
    ascent, path = run(model, tighten=bool(rng.integers(2)), steps=30)
    lower, upper = zip(*path, strict=True)
    assert list(lower) == sorted(lower)
    assert list(upper) == sorted(upper, reverse=True)
    slack = 1e-9 * max(1.0, abs(optimum)) if np.isfinite(optimum) else 0.0
    assert ascent.bound <= optimum + slack
    assert ascent.best.energy >= optimum - slack
    if ascent.best.labelling is not None:
        assert model.energy(ascent.best.labelling) == ascent.best.energy


@given(SEEDS)
@settings(max_examples=15, deadline=None)
def test_it_continues_from_where_another_one_stood(seed):
    rng = np.random.default_rng(seed)
    model = random_model(rng, n=6, max_arity=3)
    first, _ = run(model, tighten=False, steps=2)
    second = ClusterAscent(first.reparametrization, labelling=first.best.labelling)
    next(iter(second))
    assert second.bound >= first.bound - 1e-9 * max(1.0, abs(first.bound))
    assert second.best.energy <= first.best.energy
    assert second.bound <= model.brute_force()[1] + 1e-9


@pytest.mark.parametrize("name", SPECIAL)
def test_special_models_are_solved(name):
    model = SPECIAL[name]
    ascent, _ = run(model)
    optimum = model.brute_force()[1]
    assert ascent.best.energy == optimum
    assert ascent.bound == pytest.approx(optimum, abs=1e-9)
    assert (ascent.reason == "no labelling has finite energy") == (optimum == np.inf)


@pytest.mark.parametrize("k", [2, 3])
def test_one_triplet_closes_a_frustrated_triangle(k):
    prefers = 1.0 - np.eye(k)
    turned = np.roll(np.eye(k), 1, axis=1)
    model = GraphicalModel(
        [k] * 3, [((0, 1), prefers), ((1, 2), np.sqrt(2) * prefers), ((0, 2), 2 * (1.0 - turned))]
    )
    loose, _ = run(model, tighten=False)
    assert loose.bound == pytest.approx(0.0, abs=1e-9)
    assert "tighten=True" in loose.reason
    ascent, _ = run(model)
    assert (ascent.bound, ascent.best.energy) == pytest.approx((1.0, 1.0))
    assert ascent.n_clusters == 1


def test_many_frustrated_triangles_are_closed_in_one_round():
    k = 20_000
    edges = (3 * np.arange(k)[:, None, None] + [[0, 1], [1, 2], [0, 2]]).reshape(-1, 2)
    tables = np.broadcast_to(
        10.0 + np.eye(2), (3 * k, 2, 2)
    )  # each closes a share of 1 / 30,000 of the bound
    result = GraphicalModel.pairwise(np.zeros((3 * k, 2)), edges, tables).map("dual", max_iter=20)
    assert (result.status, result.bound) == ("OPTIMAL", 31.0 * k)
    assert result.history[-1].separations == 1


@pytest.mark.parametrize("n", [4, 5, 6, 9, 20])
def test_long_frustrated_cycles_are_closed(n):
    ascent, _ = run(frustrated_cycle(n))
    assert (ascent.bound, ascent.best.energy) == (1.0, 1.0)
    assert ascent.n_clusters <= n - 2
    assert ascent.reason == "the bound meets the energy"


def test_larger_clusters_close_what_triplets_cannot():
    """Four variables of three states that all want to differ, and a model of larger factors."""
    edges = list(itertools.combinations(range(4), 2))
    ascent, _ = run(GraphicalModel.pairwise(np.zeros((4, 3)), edges, np.pi * np.eye(3)))
    assert (ascent.bound, ascent.best.energy) == pytest.approx((np.pi, np.pi))
    rng = np.random.default_rng(6)
    scopes = list(itertools.combinations(range(5), 3))
    model = GraphicalModel([2] * 5, [(scope, rng.normal(size=(2, 2, 2))) for scope in scopes])
    loose, _ = run(model, tighten=False)
    ascent, _ = run(model)
    assert not closed(loose)
    assert closed(ascent)
    assert ascent.best.energy == pytest.approx(model.brute_force()[1])


@pytest.mark.parametrize(
    "model",
    [
        potts(8, 8, 3, mixed=True, seed=2),
        potts(6, 6, 6, mixed=True, seed=1),
        spin_glass(6, 6, field=0.4, seed=3),
        spin_glass(5, 5, wrap=True, seed=0),
    ],
    ids=["potts 3", "potts 6", "spin glass", "torus"],
)
def test_frustrated_grids_are_proven(model):
    loose, _ = run(model, tighten=False, steps=200)
    ascent, _ = run(model, steps=300)
    assert not closed(loose)
    assert closed(ascent)
    assert ascent.best.energy == pytest.approx(eliminate(model)[1])


@given(SEEDS)
@settings(max_examples=15, deadline=None)
def test_a_forbidden_state_has_no_better_labelling(seed):
    rng = np.random.default_rng(seed)
    model = random_model(rng, n=5, max_arity=3, max_states=3)
    best, optimum = model.brute_force()
    rep = Reparametrization(model)
    bound = rep.sweep(int(rng.integers(1, 10)))
    for u, state in states_to_forbid(rep, optimum + 0.5 - bound):
        others = model.condition({u: state})
        assert others.brute_force()[1] > optimum + 0.5 - 1e-9
        assert best[u] != state


@pytest.mark.parametrize(
    ("costs", "unit", "offset"),
    [
        ([2.0, 4.0], 2.0, 0.0),
        ([0.5, 1.75], 1.25, 0.5),
        ([0.1, 0.3], 0.0, 0.0),
        ([0.1, 0.2], 0.1, 0.0),
        ([0.0, 0.0], 0.0, 0.0),
        ([np.inf, -3.0], 0.0, 0.0),
        ([1e300, 1.0], 0.0, 0.0),
        ([-1.0, 3.0], 4.0, 3.0),
    ],
)
def test_the_lattice_of_the_energies(costs, unit, offset):
    assert GraphicalModel([2], [((0,), costs)]).energy_lattice == (unit, offset)


@given(st.integers(0, 2**32))
def test_all_energies_are_in_the_lattice(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, 4)
    size, base = rng.choice([0.5, 1.0, 3.0], 2)
    pairs = [(0, 1), (1, 2), (2, 3), (0, 3)]
    shared = base + size * rng.integers(-2, 3, (3, 3))
    factors = [(pair, shared[: sizes[pair[0]], : sizes[pair[1]]]) for pair in pairs]
    factors += [((u,), np.where(rng.random(sizes[u]) < 0.1, np.inf, base)) for u in range(4)]
    model = GraphicalModel(sizes, factors, constant=base)
    lattice = model.energy_lattice
    energies = model.energies(np.stack(np.unravel_index(range(np.prod(sizes)), sizes), axis=1))
    energies = energies[np.isfinite(energies)]
    if lattice.unit:
        assert (np.mod(energies - lattice.offset, lattice.unit) == 0.0).all()
        assert lattice.unit >= size * (np.unique(energies).size > 1)
        assert all(lattice.rounded_up(energy - 0.3 * lattice.unit) == energy for energy in energies)


@pytest.mark.parametrize(
    ("bound", "unit", "expected"),
    [(1.2, 1.0, 2.0), (2.0, 1.0, 2.0), (-0.6, 0.5, -0.5), (1.2, 0.0, 1.2), (np.inf, 1.0, np.inf)],
)
def test_rounding_up(bound, unit, expected):
    assert EnergyLattice(unit).rounded_up(bound) == expected
    assert EnergyLattice(unit, 0.25).rounded_up(bound) >= bound


def test_integral_costs_are_proven_by_rounding():
    """Half a violation per odd cycle is all that the local polytope sees; the first rise rounds up to one."""
    costs = np.array([[0.0, 1.0], [1.0, 0.0]])
    model = GraphicalModel([2] * 3, [((0, 1), costs), ((1, 2), costs), ((0, 2), 1.0 - costs)])
    rep = Reparametrization(model)
    rep.add_cluster((0, 1, 2))
    ascent = ClusterAscent(rep, tighten=False)
    steps = list(ascent)
    assert ascent.bound == ascent.best.energy == 1.0
    assert len(steps) == 1

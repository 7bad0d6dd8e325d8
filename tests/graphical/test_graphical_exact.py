"""Forests, elimination, reduction and branch and bound against looking at all labellings."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest
from graphical_models import SMALL, SPECIAL, frustrated_cycle, random_binary, random_model
from hypothesis import given, settings
from hypothesis import strategies as st

from cutplane.exceptions import InvalidInputError
from cutplane.graphical import GraphicalModel, chain, potts, spin_glass
from cutplane.graphical.exact import branching, orders
from cutplane.graphical.exact.branching import Branching
from cutplane.graphical.exact.clique_tree import CliqueTree, eliminate
from cutplane.graphical.exact.orders import best_order, neighbourhoods, scopes_of
from cutplane.graphical.exact.reduction import reduce_model
from cutplane.graphical.exact.search import search as search_steps
from cutplane.graphical.exact.search_node import restrict, root, undo
from cutplane.graphical.exact.search_passes import branching_variable, cheapest, propagate
from cutplane.graphical.factor_graph import BestLabelling
from cutplane.graphical.sweeps.reparametrization import Reparametrization
from cutplane.graphical.trees import solve_forest
from cutplane.runtime.clock import clock
from cutplane.runtime.threads import get_threads, set_threads

HARD = [0.0, 0.1, 0.3, 0.6]


@pytest.fixture(autouse=True)
def one_thread():
    """The nodes of a search by several threads differ from run to run."""
    before = get_threads()
    set_threads(1)
    yield
    set_threads(before)


def random_forest(rng, n=8, hard=0.0):
    """A random forest; a third of the variables begin a tree."""
    cardinalities = rng.integers(1, 5, n)
    names = rng.permutation(n)
    factors = [((u,), rng.normal(size=cardinalities[u])) for u in range(n)]
    for i in range(1, n):
        if rng.random() < 0.7:
            pair = (names[i], names[rng.integers(i)])
            table = rng.normal(size=cardinalities[list(pair)])
            factors.append((pair, np.where(rng.random(table.shape) < hard, np.inf, table)))
    return GraphicalModel(cardinalities, factors, constant=rng.normal())


def assert_solves(model, labelling, energy):
    """The answer is a labelling of the least energy, found by looking at all of them."""
    least = model.brute_force()[1]
    if least == np.inf:
        assert labelling is None and energy == np.inf
    else:
        assert labelling.shape == (model.n_variables,)
        assert energy == model.energy(labelling)
        assert energy == pytest.approx(least, abs=1e-8)


def dense(integers=False, n=16):
    """Binary variables, all pairs with random costs: the local polytope is far from tight."""
    rng = np.random.default_rng(11)
    edges = np.stack(np.triu_indices(n, 1), axis=1)
    tables = (
        rng.integers(-9, 10, (len(edges), 2, 2)).astype(float)
        if integers
        else rng.normal(size=(len(edges), 2, 2))
    )
    return GraphicalModel.pairwise(np.zeros((n, 2)), edges, tables)


def search(model, **options):
    """What a search has found at its end."""
    *_, result = search_steps(model, **options)
    return result


@pytest.mark.parametrize("hard", HARD)
def test_forest_against_brute_force(hard):
    rng = np.random.default_rng(int(10 * hard))
    for _ in range(60):
        model = random_forest(rng, hard=hard)
        assert model.is_forest
        assert_solves(model, *solve_forest(model))


def test_special_forests():
    for model in SPECIAL.values():
        if model.is_forest:
            assert_solves(model, *solve_forest(model))
    assert not frustrated_cycle(4).is_forest
    with pytest.raises(InvalidInputError, match="has a cycle"):
        solve_forest(frustrated_cycle(3))
    with pytest.raises(InvalidInputError, match="more than two variables"):
        solve_forest(GraphicalModel([2, 2, 2], [((0, 1, 2), np.zeros((2, 2, 2)))]))


def test_long_chain_and_star_against_elimination():
    rng = np.random.default_rng(0)
    long = chain(rng.normal(size=(3000, 4)), rng.normal(size=(2999, 4, 4)))
    star = GraphicalModel.pairwise(
        rng.normal(size=(2000, 3)),
        np.stack([np.full(1999, 1000), np.delete(np.arange(2000), 1000)], axis=1),
        rng.normal(size=(1999, 3, 3)),
    )
    for model in (long, star):
        assert solve_forest(model)[1] == pytest.approx(eliminate(model)[1], rel=1e-12)


@pytest.mark.parametrize("name", SMALL)
def test_elimination_against_brute_force(name):
    model = SMALL[name]
    assert_solves(model, *eliminate(model))


def test_elimination_with_many_states():
    rng = np.random.default_rng(1)
    shapes = [300, 2, 260]
    factors = [((0, 1), rng.normal(size=(300, 2))), ((1, 2), rng.normal(size=(2, 260)))]
    model = GraphicalModel(shapes, [*factors, ((0, 2), rng.normal(size=(300, 260)))])
    assert_solves(model, *eliminate(model))


def test_elimination_with_large_tables():
    model = random_binary(np.random.default_rng(2), n=14, density=1.0)
    assert_solves(model, *eliminate(model))


@pytest.mark.parametrize("by_fill", [False, True])
def test_a_greedy_order_takes_the_cheapest_variable(by_fill):
    """The least (added pairs, size of the table, tie), computed again before each elimination."""
    rng = np.random.default_rng(4)
    for n in (5, 12, 12, 40, 40):
        model = random_model(rng, n=n, max_states=2, max_arity=3, n_factors=n + n // 3)
        weights, ties = np.ones(n), rng.permutation(n)
        near = neighbourhoods(n, scopes_of(model))
        order, _ = orders._greedy(near, weights, np.inf, by_fill, ties, np.inf)
        assert sorted(order) == list(range(n))
        for u in order:
            keys = {}
            for v, scope in enumerate(near):
                added = sum(b not in near[a] for a in scope for b in scope if a < b)
                keys[v] = added * by_fill, weights[v] + sum(weights[w] for w in scope), ties[v]
            assert keys[u] == min(keys[v] for v in order[order.index(u) :])
            for v in near[u]:
                near[v] = (near[v] | near[u]) - {u, v}


def order_of(model):
    """An order of elimination, and the log2 of its largest table."""
    return best_order(neighbourhoods(model.n_variables, scopes_of(model)), np.log2(model.cardinalities))


@pytest.mark.parametrize("h, w, width", [(1, 9, 2), (3, 50, 4), (6, 6, 7), (12, 5, 6)])
def test_width_of_grids(h, w, width):
    order, found = order_of(spin_glass(h, w, field=1.0, seed=0))
    assert found == width
    assert sorted(order) == list(range(h * w))


def test_width_is_that_of_the_tables():
    """The largest table in the order returned, by simulation on sets."""
    rng = np.random.default_rng(3)
    for _ in range(30):
        model = random_model(rng, n=8)
        order, width = order_of(model)
        scopes = [{u} for u in range(8)] + [set(model.factor(a).variables) for a in range(model.n_factors)]
        largest = 0.0
        for u in order:
            union = {u}.union(*(scope for scope in scopes if u in scope))
            largest = max(largest, np.log2(model.cardinalities[list(union)]).sum())
            scopes = [scope for scope in scopes if u not in scope] + [union - {u}]
        assert width == pytest.approx(largest)


def test_observed_variables_cost_no_width():
    model = spin_glass(6, 6, field=1.0, seed=0)
    observed = model.condition({u: 0 for u in range(6, 36)})
    assert eliminate(observed, max_entries=2**5)[1] >= eliminate(model)[1]


def test_elimination_refuses_what_is_too_large():
    model = spin_glass(12, 12, seed=0)
    with pytest.raises(InvalidInputError, match=r"2\^1[0-9]\.0 entries or more, beyond max_entries = 1000;"):
        eliminate(model, max_entries=1000)
    huge = spin_glass(100, 100, seed=0)
    start = time.perf_counter()
    with pytest.raises(InvalidInputError, match="max_entries"):
        eliminate(huge)
    assert time.perf_counter() - start < 20.0
    with pytest.raises(TimeoutError):
        eliminate(model, deadline=clock() - 1.0)


def test_elimination_refuses_too_much_memory():
    """A thousand tables of choices of 2^12 entries are more than 64 bytes per entry of the largest table."""
    model = potts(4, 300, 8, seed=0)
    with pytest.raises(InvalidInputError, match=r"MiB; raise max_entries, now 32768, to \d+") as error:
        eliminate(model, max_entries=2**15)
    enough = int(str(error.value).split(" to ")[-1].rstrip("."))
    assert eliminate(model, max_entries=enough)[1] < np.inf


@pytest.mark.parametrize("name", SMALL)
def test_reduction_keeps_the_least_energy(name):
    model = SMALL[name]
    finite = np.add.reduceat(np.isfinite(model.unaries), model.unary_starts[:-1]) if model.n_variables else 1
    if np.min(finite) == 0:
        return
    reduction = reduce_model(model)
    labelling, energy = reduction.model.brute_force()
    least = model.brute_force()[1]
    assert energy == pytest.approx(least, abs=1e-9)
    if least < np.inf:
        assert model.energy(reduction.expand(labelling)) == pytest.approx(least, abs=1e-9)


@pytest.mark.parametrize("seed", range(40))
def test_reduction_of_models_with_functions(seed):
    """Tables of up to five variables with infinite costs; some pairs are functions of one variable."""
    rng = np.random.default_rng(seed)
    n = rng.integers(2, 9)
    cardinalities, factors = rng.integers(1, 5, n), []
    for _ in range(2 * n):
        scope = rng.permutation(n)[: rng.integers(2, 6)]
        table = rng.integers(0, 9, cardinalities[scope]).astype(float)
        if table.ndim == 2:
            k, m = table.shape
            table[np.arange(k)[:, None] != rng.integers(0, k, m)] = np.inf
        else:
            table[rng.random(table.shape) < 0.3] = np.inf
        factors.append((scope, table))
    model = GraphicalModel(cardinalities, factors)
    before = model.tables.copy()
    reduction, (_, least) = reduce_model(model), model.brute_force()
    labelling, energy = reduction.model.brute_force()
    assert energy == least and np.array_equal(model.tables, before)
    assert least == np.inf or model.energy(reduction.expand(labelling)) == least


def test_reduction_keeps_shared_tables():
    """Variable 0 is eliminated into the table of 1 and 2, which 3 and 4 share."""
    table = np.random.default_rng(0).integers(0, 9, (3, 3)).astype(float)
    pairs = [(0, 1), (0, 2), (1, 2), (3, 4), *((u, v) for u in (1, 2) for v in (3, 4))]
    model = GraphicalModel.pairwise(np.zeros((5, 3)), pairs, table)
    reduction = reduce_model(model)
    assert reduction.model.n_variables < 5
    labelling, energy = reduction.model.brute_force()
    assert energy == model.brute_force()[1] == model.energy(reduction.expand(labelling))


def test_reduction_merges_what_determines_each_other():
    """A permutation between two variables of 5 states leaves one of them; the rest is dense."""
    rng = np.random.default_rng(5)
    tables = {
        pair: rng.normal(size=(5, 5))
        for pair in [(0, 2), (0, 3), (1, 2), (1, 3), (2, 3), (1, 4), (2, 4), (3, 4)]
    }
    tables[0, 1] = np.where(np.eye(5)[rng.permutation(5)] > 0, rng.normal(size=(5, 5)), np.inf)
    model = GraphicalModel([5] * 5, tables.items())
    reduction = reduce_model(model)
    assert reduction.model.n_variables == 4
    labelling, energy = reduction.model.brute_force()
    assert energy == pytest.approx(model.brute_force()[1])
    assert model.energy(reduction.expand(labelling)) == pytest.approx(energy)


@pytest.fixture
def no_elimination(monkeypatch):
    monkeypatch.setattr(branching, "_NARROW", -1.0)


class Incumbent(BestLabelling):
    """The best labelling, and the limit below which one is sought."""

    @property
    def limit(self):
        return self.energy - 1e-9


def nonnegative(model):
    """The model with its negative costs moved to the constant."""
    factors = [model.factor(a) for a in range(model.n_factors)]
    factors += [((u,), model.unary(u)) for u in range(model.n_variables)]
    lows = [np.min(table[np.isfinite(table)], initial=np.inf) for _, table in factors]
    lows = [low if low < np.inf else 0.0 for low in lows]
    tables = [(scope, table - low) for (scope, table), low in zip(factors, lows, strict=True)]
    return GraphicalModel(model.cardinalities, tables, constant=model.constant + sum(lows))


@pytest.mark.usefixtures("no_elimination")
@pytest.mark.parametrize("name", SMALL)
def test_branching_against_brute_force(name):
    """The tree alone: neither reduced before, nor handed over to elimination."""
    model = nonnegative(SMALL[name])
    best = Incumbent(model)
    tree = Branching(model)
    tree.run(best)
    assert tree.finished and tree.lower_bound() == np.inf
    assert_solves(model, best.labelling, best.energy)


@pytest.mark.parametrize("narrow", [-1.0, 4.0])
@pytest.mark.parametrize("seed", range(6))
def test_branching_on_trees_of_some_depth(seed, narrow, monkeypatch):
    monkeypatch.setattr(branching, "_NARROW", narrow)
    rng = np.random.default_rng(seed)
    model = nonnegative(
        random_binary(rng, n=16, density=0.5) if seed % 2 else random_model(rng, 12, 3, 3, n_factors=20)
    )
    best, optimum = Incumbent(model), eliminate(model)[1]
    tree = Branching(model)
    bounds = []
    while not tree.finished:
        tree.run(best, max_nodes=tree.nodes + 1)
        bounds.append(min(tree.lower_bound(), best.energy))
        assert bounds[-1] <= optimum + 1e-9 <= best.energy + 2e-9
    assert best.energy == pytest.approx(optimum)
    assert np.all(np.diff(bounds) >= -1e-9)
    assert len(bounds) > 3 or narrow > 0


@pytest.mark.parametrize("seed", range(20))
def test_a_tree_for_fewer_states_is_as_one_made_for_them(seed):
    rng = np.random.default_rng(seed)
    model = random_model(rng, 8, 4, 3, n_factors=14, hard=0.1 * (seed % 2))
    tree = CliqueTree(model, rng.random(model.unaries.size) < 0.9 if seed % 3 else None)
    for share in (1.0, 0.8, 0.5):
        alive = rng.random(model.unaries.size) < share
        alive[tree.kept[tree.unaries == 0.0]] = True
        restricted = tree.restricted(alive)
        afresh = CliqueTree(model, alive & np.isin(np.arange(alive.size), tree.kept))
        assert np.array_equal(restricted.kept, afresh.kept)
        (labelling, least), (expected, _) = restricted.least(), afresh.least()
        assert (labelling is None) == (expected is None)
        if labelling is not None:
            assert alive[model.unary_starts[:-1] + labelling].all()
            assert model.energy(labelling) == pytest.approx(model.energy(expected), abs=1e-12)
            assert least + restricted.constant == pytest.approx(model.energy(labelling), abs=1e-12)
        lower = restricted.lower_bounds(restricted.min_marginals())
        assert lower == pytest.approx(afresh.lower_bounds(afresh.min_marginals()), abs=1e-12)
        assert restricted.log_partition() == pytest.approx(afresh.log_partition(), abs=1e-12)
    nothing = tree.restricted(np.zeros(model.unaries.size, dtype=bool))
    assert nothing.least() == (None, np.inf)


def test_nodes_are_eliminated_if_all_tables_fit(monkeypatch):
    """After as long a search as an elimination takes; never if the tables are too large together."""
    rng, calls = np.random.default_rng(3), []
    model = nonnegative(random_model(rng, 40, 6, 2, n_factors=70))
    restricted = CliqueTree.restricted
    monkeypatch.setattr(CliqueTree, "restricted", lambda *args: calls.append(args) or restricted(*args))
    monkeypatch.setattr(branching, "_OVERHEAD", 0.0)
    energies, counts = [], []
    for most in (2.0**27, 1.0):
        monkeypatch.setattr(branching, "_TOTAL", most)
        best, tree = Incumbent(model), Branching(model)
        tree.run(best)
        energies.append(best.energy)
        counts.append(len(calls))
    assert energies == pytest.approx(2 * [eliminate(model)[1]])
    assert counts[0] == counts[1] > 0


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), hard=st.sampled_from([0.0, 0.2]), steps=st.integers(1, 4))
def test_a_node_has_the_energies_of_the_model_and_is_undone(seed, hard, steps):
    rng = np.random.default_rng(seed)
    model = nonnegative(random_model(rng, n=5, max_states=3, hard=hard))
    network, node = root(model)
    bound = propagate(network, node, model.constant, np.inf, 2, 0.0)
    if bound == np.inf:
        assert model.brute_force()[1] == np.inf
        return
    before = [array.copy() for array in (node.values, node.alive, node.counts)]
    top, root_bound = int(node.tops[1]), bound
    node.tops[2] += 1
    for _ in range(steps):
        u = int(rng.integers(5))
        state, kept = (
            int(rng.choice(node.alive[network.block_starts[u] :][: node.counts[u]])),
            rng.random() < 0.3,
        )
        if not kept and node.counts[u] == 1:
            continue
        restrict(network, node, u, state, state, kept)
        new = propagate(network, node, bound, np.inf, 3, 0.0)
        assert new >= bound - 1e-12
        bound = new
        if bound == np.inf:
            break
    allowed = [set(node.alive[network.block_starts[u] :][: node.counts[u]].tolist()) for u in range(5)]
    starts, idle = network.block_starts, network.block_starts[5 + network.scopes.size :]
    for labelling in np.ndindex(*model.cardinalities):
        energy = model.energy(labelling)
        if bound == np.inf or energy == np.inf or any(x not in allowed[u] for u, x in enumerate(labelling)):
            continue
        costs = sum(node.values[model.unary_starts[u] + x] for u, x in enumerate(labelling))
        for a in np.flatnonzero(node.values[idle[: network.table_starts.size]] == 0.0).tolist():
            links = range(network.scope_starts[a], network.scope_starts[a + 1])
            place = sum(labelling[network.scopes[link]] * network.strides[link] for link in links)
            costs += network.tables[network.table_starts[a] + place]
            costs += sum(node.values[starts[5 + link] + labelling[network.scopes[link]]] for link in links)
            if network.added_starts[a] >= 0:
                costs += node.values[network.added_starts[a] + place]
        assert bound + costs == pytest.approx(energy, abs=1e-9)
        assert energy >= bound - 1e-9
    undo(network, node, top)
    for array, old in zip((node.values, node.counts), (before[0], before[2]), strict=True):
        np.testing.assert_array_equal(array, old)
    for u in range(5):
        begin = network.block_starts[u]
        kept = slice(begin, begin + node.counts[u])
        assert sorted(node.alive[kept]) == sorted(before[1][kept])
    labelling = np.zeros(5, dtype=np.int64)
    cheapest(network, node, labelling)
    assert root_bound <= model.energy(labelling) + 1e-9


@pytest.mark.parametrize("name", SMALL)
def test_search_against_brute_force(name):
    model = SMALL[name]
    result = search(model)
    assert result.finished
    assert_solves(model, result.labelling, result.energy)
    assert result.bound <= result.energy
    assert result.energy == np.inf or result.bound >= result.energy - 2e-9 * max(1.0, abs(result.energy))


@pytest.mark.usefixtures("no_elimination")
@pytest.mark.parametrize("integers", [False, True])
def test_a_stopped_search_encloses_the_optimum(integers):
    model = dense(integers)
    optimum = eliminate(model)[1]
    full = search(model)
    assert full.finished and full.energy == pytest.approx(optimum, abs=1e-8) and full.nodes > 5
    assert full.bound == (full.energy if integers else pytest.approx(full.energy, abs=1e-7))
    stops = range(0, full.nodes, max(1, full.nodes // 10))
    results = [search(model, max_nodes=n) for n in stops]
    for n, result in zip(stops, results, strict=True):
        assert result.nodes == n and not result.finished
        assert result.bound <= optimum + 1e-9 <= result.energy + 2e-9
        assert model.energy(result.labelling) == result.energy
    assert np.all(np.diff([result.bound for result in results]) >= -1e-9)
    steps = list(search_steps(model))
    assert steps[0].nodes > 0  # the first step ends with nodes, so that a short turn is not wasted
    assert (steps[-1].energy, steps[-1].bound, steps[-1].nodes) == (full.energy, full.bound, full.nodes)
    assert all(step.bound <= optimum + 1e-9 and step.energy >= optimum - 1e-9 for step in steps)
    late = search(model, deadline=clock() - 1.0)
    assert not late.finished and late.bound <= optimum <= late.energy


@pytest.mark.usefixtures("no_elimination")
def test_search_is_repeatable_and_takes_what_it_is_given():
    model = dense()
    first, second = search(model), search(model)
    assert (first.nodes, first.energy, first.bound) == (second.nodes, second.energy, second.bound)
    np.testing.assert_array_equal(first.labelling, second.labelling)
    given_best = search(model, labelling=first.labelling)
    assert given_best.energy == first.energy and given_best.nodes <= first.nodes
    rep = Reparametrization(model)
    rep.sweep(20)
    for a in range(6):
        for b in range(a + 1, 7):
            rep.add_cluster((a, b, 10))
    rep.sweep(30)
    tightened = search(model, reparametrization=rep)
    assert tightened.finished and tightened.energy == pytest.approx(first.energy)
    with pytest.raises(InvalidInputError, match="of this model"):
        search(spin_glass(2, 2, seed=0), reparametrization=rep)


def assert_active_links_first(model, network, node):
    """The list of each variable has its links: first the active ones, whose factors are not idle."""
    idle = network.block_starts[model.n_variables + network.scopes.size :]
    for u in range(model.n_variables):
        near = node.near[network.near_starts[u] : network.near_starts[u + 1]]
        active = node.values[idle[network.link_factors[near]]] == 0.0
        assert active[: node.active[u]].all() and not active[node.active[u] :].any()
        assert np.array_equal(np.sort(near), np.flatnonzero(network.scopes == u))


def third_order(rng, n=9, count=30, integers=True):
    """Random factors of two to four variables with three states, of which many share pairs."""
    factors = []
    for _ in range(count):
        scope = np.sort(rng.permutation(n)[: rng.integers(2, 5)]).tolist()
        table = rng.integers(0, 4, (2,) * len(scope)) if integers else rng.random((2,) * len(scope))
        factors.append((scope, np.where(rng.random(table.shape) < 0.05, np.inf, table)))
    return GraphicalModel(np.full(n, 2), factors)


@pytest.mark.usefixtures("no_elimination")
@pytest.mark.parametrize("seed", range(30))
def test_search_of_third_order_models(seed):
    rng = np.random.default_rng(seed)
    model = third_order(rng, integers=bool(seed % 2))
    best, tree = Incumbent(model), Branching(model)
    tree.run(best)
    assert tree.finished
    assert_solves(model, best.labelling, best.energy)


@pytest.mark.parametrize("seed", range(5))
def test_passes_at_a_node_reach_the_bound_of_sweeps(seed):
    """Clauses of three variables, of which some are fixed; costs are passed on in both directions."""
    rng = np.random.default_rng(seed)
    n, fixed = 20, 6
    clauses = [np.sort(rng.permutation(n)[:3]) for _ in range(6 * n)]
    states = [tuple(rng.integers(0, 2, 3)) for _ in clauses]

    def clause(falsified):
        table = np.zeros([2] * len(falsified))
        table[tuple(falsified)] = 1.0
        return table

    model = GraphicalModel(np.full(n, 2), [(c, clause(s)) for c, s in zip(clauses, states, strict=True)])
    network, node = root(model)
    for u in range(fixed):
        restrict(network, node, u, 0, 0, True)
    bound = propagate(network, node, 0.0, np.inf, 200, -1.0)
    rest, constant = [], 0.0
    for scope, false in zip(clauses, states, strict=True):
        if all(x == 0 for u, x in zip(scope, false, strict=True) if u < fixed):
            free = [(u - fixed, x) for u, x in zip(scope, false, strict=True) if u >= fixed]
            constant += not free
            rest += [([u for u, _ in free], clause([x for _, x in free]))] if free else []
    swept = Reparametrization(GraphicalModel(np.full(n - fixed, 2), rest, constant=constant))
    for _ in range(200):
        swept.sweep()
    assert bound >= swept.bound - 0.05 * (swept.bound - constant) and swept.bound > constant + 0.5


@pytest.mark.parametrize("seed", range(20))
def test_the_bound_of_a_node_is_below_the_least_energy_that_it_leaves(seed):
    """Random decisions, so that factors with two free variables are added to tables of pairs, and undone."""
    rng = np.random.default_rng(seed)
    model = third_order(rng, integers=bool(seed % 2))
    network, node = root(model)
    added = 0
    for _ in range(6):
        evidence = {}
        for u in rng.permutation(model.n_variables)[: rng.integers(2, 7)].tolist():
            evidence[u] = int(rng.integers(2))
            if node.counts[u] < 2 and node.alive[network.block_starts[u]] != evidence[u]:
                break
            restrict(network, node, u, evidence[u], evidence[u], True)
            node.tops[2] += 1
            bound = propagate(network, node, model.constant, np.inf, 3, 0.0)
            least = model.condition(evidence).brute_force()[1]
            assert bound <= least + 1e-9
            if np.isinf(bound):
                break
        added += node.values[network.added_starts[network.added_starts >= 0]].sum()
        assert_active_links_first(model, network, node)
        undo(network, node, 0)
        assert_active_links_first(model, network, node)
        node.dirty[:] = node.stale[:] = True
    assert added > 0.0 and not np.isinf(node.values[: model.unaries.size]).any()


def test_clauses_of_one_pair_are_bounded_by_their_sum():
    """All four clauses of (x, y), each with a third variable: one is violated if the latter are fixed."""
    factors = []
    for z, (x, y) in enumerate(np.ndindex(2, 2), start=2):
        table = np.zeros((2, 2, 2))
        table[x, y, 0] = 1.0
        factors.append(((0, 1, z), table))
    network, node = root(GraphicalModel(np.full(6, 2), factors))
    for z in range(2, 6):
        restrict(network, node, z, 0, 0, True)
    assert propagate(network, node, 0.0, np.inf, 5, 0.0) == pytest.approx(1.0)


@pytest.mark.usefixtures("no_elimination")
@pytest.mark.parametrize("seed", range(5))
def test_the_open_share_of_a_search_falls_to_zero(seed):
    model = third_order(np.random.default_rng(seed), integers=False)
    best, tree = Incumbent(model), Branching(model)
    shares = [tree.open_share]
    while not tree.finished:
        tree.run(best, max_nodes=tree.nodes + 1)
        shares.append(tree.open_share)
    assert shares[0] == 1.0 and shares[-1] == 0.0
    assert (np.diff(shares) <= 0.0).all()


@pytest.mark.usefixtures("no_elimination")
@pytest.mark.parametrize("seed", range(6))
def test_many_states_are_halved(seed):
    rng = np.random.default_rng(seed)
    pairs = [(u, v) for v in range(5) for u in range(v)]
    states = np.array([11, 12, 13, 2, 23])
    model = GraphicalModel(states, [(pair, rng.random(states[[*pair]])) for pair in pairs])
    best, tree, halved = Incumbent(model), Branching(model), 0
    while not tree.finished:
        tree.run(best, max_nodes=tree.nodes + 1)
        path = tree._dives[0].tree.path[: tree._dives[0].tree.at[branching._DEPTH]]
        halved += (path[:, 1] < path[:, 2]).any()
    assert best.energy == pytest.approx(model.brute_force()[1])
    assert halved


@pytest.mark.usefixtures("no_elimination")
@pytest.mark.parametrize("state", [0, 1, 2])
def test_a_branch_begins_with_the_state_of_the_best_labelling(state):
    rng = np.random.default_rng(3)
    tables = [((u, v), rng.random((3, 3))) for v in range(8) for u in range(v)]
    model = GraphicalModel(np.full(8, 3), tables)
    tree, best = Branching(model), Incumbent(model)
    best.offer(model.brute_force()[0])  # so that the search finds none
    tree._best[:] = state
    tree.run(best, max_nodes=1)
    fixed = tree._dives[0].tree.path[: tree._dives[0].tree.at[branching._DEPTH]]
    assert len(fixed) and (fixed == [[u, state, state, 1] for u in fixed[:, 0]]).all()


@pytest.mark.usefixtures("no_elimination")
@pytest.mark.parametrize("seed", range(3))
def test_a_branch_continues_with_the_variable_whose_states_were_removed(seed):
    rng = np.random.default_rng(seed)
    tables = [((u, v), rng.random((4, 4))) for v in range(10) for u in range(v)]
    model = GraphicalModel(np.full(10, 4), tables)
    tree, best = Branching(model), Incumbent(model)
    continued = 0
    while not tree.finished:
        tree.run(best, max_nodes=tree.nodes + 1)
        dive = tree._dives[0]
        path = dive.tree.path[: dive.tree.at[branching._DEPTH]]
        if len(path) < 2:
            continue
        before, last = path[-2:].tolist()
        if last[3] and not before[3]:
            assert last[0] == before[0] or dive.node.counts[before[0]] == 1
            continued += last[0] == before[0]
    assert continued


@pytest.mark.parametrize(
    ("sizes", "factors", "expected"),
    [
        ([2] * 6, {(0, 1): 0.1, (0, 2): 0.1, (0, 3): 0.1, (4, 5): 1.0, (3, 4): 0.1}, 4),  # strong factors
        ([2] * 6, {(0, 1, 2): 1.0, (0, 3, 4): 1.0, (1, 5): 1.0, (2, 5): 1.0}, 5),  # of few variables
        ([9, 2, 9, 2], {(0, 2): 1.0, (0, 1): 1.0, (0, 3): 1.0, (1, 3): 1.0}, 1),  # few states
        ([2] * 3, {(0, 1): np.inf, (1, 2): 1.0}, 1),  # a hard constraint counts as the largest cost
    ],
)
def test_the_branching_variable_is_in_many_strong_factors(sizes, factors, expected):
    def at_zero(scope, cost):
        table = np.zeros([sizes[u] for u in scope])
        table.flat[0] = cost
        return table

    model = GraphicalModel(sizes, [(scope, at_zero(scope, cost)) for scope, cost in factors.items()])
    assert branching_variable(*root(model), np.zeros(len(sizes))) == expected


INTERPRETED = """
import numpy as np
from cutplane.graphical import GraphicalModel
for seed in range(3):
    rng = np.random.default_rng(seed)
    factors = [(rng.permutation(7)[:3].tolist(), rng.integers(0, 4, (2, 2, 2))) for _ in range(14)]
    model = GraphicalModel([2] * 7, factors)
    energies = [model.map(method).energy for method in ("search", "dual", "primal", "auto", "elimination")]
    assert min(energies) == energies[0] == energies[3] == energies[4] == model.brute_force()[1], energies
"""


def test_the_methods_need_no_compilation(tmp_path):
    """As in the first minute after an installation, when nothing is in the cache of compiled routines."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "CUTPLANE_COMPILE": "never"}
    run = subprocess.run([sys.executable, "-c", INTERPRETED], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr

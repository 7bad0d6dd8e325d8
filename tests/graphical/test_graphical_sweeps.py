"""Reparametrisations, what is read off them, and local search."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from graphical_models import SPECIAL, frustrated_cycle, random_binary, random_model
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from cutplane.exceptions import InvalidInputError
from cutplane.graphical.grids import chain, potts, spin_glass
from cutplane.graphical.model import GraphicalModel
from cutplane.graphical.sweeps.decoding import decode, local_search
from cutplane.graphical.sweeps.reparametrization import Reparametrization

TINY = 1e-9


def labellings(model):
    ranges = [range(k) for k in model.cardinalities]
    return np.array(list(itertools.product(*ranges)), dtype=int).reshape(-1, model.n_variables)


def energies(rep, x):
    """Energies from the pieces of a reparametrisation; its constant is the bound minus their minima."""
    model = rep.model
    total, minima = np.zeros(len(x)), 0.0
    for u in range(model.n_variables):
        total += rep.unary(u)[x[:, u]]
        minima += rep.unary(u).min()
    for a in range(rep.n_factors):
        total += rep.table(a)[tuple(x[:, u] for u in rep.scopes(a))]
        minima += rep.table(a).min()
    return total + (rep.bound - minima)


def lp_bound(model, clusters=()):
    """The optimum of the local polytope: an LP with one variable per state, tuple, and cluster tuple."""
    costs, rows, places = list(model.unaries), [], {}
    for u in range(model.n_variables):
        places[u,] = np.arange(model.unary_starts[u], model.unary_starts[u + 1])
        rows.append((dict.fromkeys(places[u,], 1.0), 1.0))
    pairs = {pair for cluster in clusters for pair in itertools.combinations(cluster, 2)}
    factors = {model.factor(a).variables: model.factor(a).table for a in range(model.n_factors)}
    scopes = sorted({*factors, *pairs}, key=lambda scope: (len(scope), scope))
    for scope in [*scopes, *(cluster for cluster in clusters if cluster not in factors)]:
        shape = model.cardinalities[list(scope)]
        table = factors.get(scope, np.zeros(shape))
        own = np.arange(table.size).reshape(shape) + len(costs)
        costs.extend(table.ravel())
        inner = [(u,) for u in scope]
        if scope in clusters:
            inner += [part for part in scopes if len(part) < len(scope) and {*part} < {*scope}]
        for part in inner:
            axes = tuple(i for i, u in enumerate(scope) if u not in part)
            moved = np.moveaxis(own, axes, range(len(axes))).reshape(-1, places[part].size)
            for x, place in enumerate(places[part].ravel()):
                rows.append(({**dict.fromkeys(moved[:, x], 1.0), place: -1.0}, 0.0))
        places[scope] = own
    costs = np.array(costs)
    matrix = np.zeros((len(rows), costs.size))
    for i, (entries, _) in enumerate(rows):
        matrix[i, list(entries)] = list(entries.values())
    hard = np.isinf(costs)
    found = linprog(
        np.where(hard, 0.0, costs),
        A_eq=matrix,
        b_eq=[right for _, right in rows],
        bounds=[(0, 0 if h else 1) for h in hard],
    )
    return model.constant + found.fun if found.status == 0 else np.inf


def converged(rep, sweeps=3000):
    for _ in range(sweeps // 50):
        before = rep.bound
        if rep.sweep(50) <= before + 1e-12:
            break
    return rep.bound


@pytest.mark.parametrize("name", SPECIAL)
def test_special_models_are_bounded_and_labelled(name):
    model = SPECIAL[name]
    best = model.brute_force()[1]
    rep = Reparametrization(model)
    assert rep.bound <= best
    rep.sweep(20)
    assert rep.certified_bound() <= rep.bound + TINY <= best + 2 * TINY
    assert model.energy(decode(rep)) == pytest.approx(best)
    if model.n_variables >= 3:
        for triple in itertools.combinations(range(model.n_variables), 3):
            assert rep.add_cluster(triple)
        assert converged(rep) == pytest.approx(best)
        assert rep.certified_bound() == pytest.approx(best)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    hard=st.sampled_from([0.0, 0.1, 0.3, 0.5]),
    steps=st.lists(st.sampled_from(["sweep", "cluster"]), min_size=1, max_size=8),
)
def test_steps_keep_energies_and_never_lower_the_bound(seed, hard, steps):
    rng = np.random.default_rng(seed)
    model = random_model(rng, n=5, max_states=3, hard=hard)
    x = labellings(model)
    true = model.energies(x)
    rep = Reparametrization(model)
    bound = rep.bound
    assert bound <= true.min() + TINY
    for step in steps:
        if step == "cluster":
            rep.add_cluster(rng.permutation(5)[: rng.integers(3, 6)].tolist())
            assert rep.bound == pytest.approx(bound, abs=TINY)
        else:
            rep.sweep()
        assert bound - TINY <= rep.bound <= true.min() + TINY
        bound = rep.bound
        certified = rep.certified_bound()
        assert certified <= true.min()
        assert certified == pytest.approx(bound, abs=TINY)
        if bound < np.inf:
            finite = true < np.inf
            after = energies(rep, x)
            np.testing.assert_allclose(after[finite], true[finite], atol=TINY)
            assert np.isinf(after[~finite]).all()


@pytest.mark.parametrize("scale", [1.0, 1e6, 1e15])
def test_certified_bounds_hold_in_exact_arithmetic(scale):
    rng = np.random.default_rng(1)
    rough = random_model(rng, n=4, max_states=3, n_factors=6)
    model = mapped(rough, lambda costs: scale * np.round(costs) + costs / 3)
    exact = [sum(Fraction(float(cost)) for cost in costs) for costs in terms(model)]
    rep = Reparametrization(model)
    rep.add_cluster((0, 1, 2, 3))
    for _ in range(20):
        rep.sweep(3)
        assert Fraction(rep.certified_bound()) <= min(exact)
    assert rep.certified_bound() == pytest.approx(float(min(exact)), abs=3e-12 * scale + 1e-4)


def terms(model):
    """The costs that make up the energy of each labelling."""
    for row in labellings(model):
        factors = map(model.factor, range(model.n_factors))
        tables = [table[tuple(row[list(scope)])] for scope, table in factors]
        yield [model.constant, *(model.unary(u)[x] for u, x in enumerate(row)), *tables]


@pytest.mark.parametrize("seed", range(8))
def test_binary_pairs_reach_the_lp(seed):
    model = random_binary(np.random.default_rng(seed), density=0.8)
    assert converged(Reparametrization(model)) == pytest.approx(lp_bound(model), abs=1e-5)


@pytest.mark.parametrize("seed", range(12))
def test_limits_do_not_exceed_the_lp(seed):
    model = random_model(np.random.default_rng(seed), n=5, max_states=3, hard=0.15 * (seed % 3))
    optimum = lp_bound(model)
    assert converged(Reparametrization(model)) <= optimum + 1e-7


def test_sweeps_are_near_the_lp_where_states_are_many():
    shortfalls = []
    for seed in range(20):
        model = random_model(np.random.default_rng(seed), n=5, max_states=3)
        shortfalls.append(lp_bound(model) - converged(Reparametrization(model)))
    assert min(shortfalls) > -1e-7
    assert np.median(shortfalls) < 1e-3


@pytest.mark.parametrize("seed", range(10))
def test_clusters_tighten_up_to_their_lp(seed):
    model = random_model(np.random.default_rng(seed), n=5, max_states=3, max_arity=2 + seed % 2, n_factors=8)
    triples = list(itertools.combinations(range(5), 3))
    rep = Reparametrization(model)
    plain = converged(rep)
    for triple in triples:
        rep.add_cluster(triple)
    limit = converged(rep)
    optimum = lp_bound(model, triples)
    assert plain - TINY <= limit <= optimum + 1e-6
    assert limit == pytest.approx(optimum, abs=0.1)
    assert limit == pytest.approx(model.brute_force()[1], abs=0.1)


@pytest.mark.parametrize("seed", range(3))
def test_overlapping_clusters_share_what_pairs_have(seed):
    model = spin_glass(4, 4, seed=seed)
    rep = Reparametrization(model)
    plain, best = converged(rep), model.brute_force()[1]
    assert plain < best - 1.0
    for u in (0, 1, 2, 4, 5, 6, 8, 9, 10):
        rep.add_cluster((u, u + 1, u + 4))
        rep.add_cluster((u + 1, u + 4, u + 5))
    assert rep.sweep(100) > best - 0.1 * (best - plain)


def test_a_cluster_holds_the_larger_factors_inside_it():
    rng = np.random.default_rng(3)
    scopes = [(0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)]
    model = GraphicalModel([2] * 4, [(scope, rng.normal(size=(2, 2, 2))) for scope in scopes])
    best = model.brute_force()[1]
    rep = Reparametrization(model)
    assert converged(rep) < best - 0.1
    assert rep.add_cluster((0, 1, 2, 3))
    assert converged(rep) == pytest.approx(best)


@pytest.mark.parametrize("k", [2, 5])
def test_chains_are_exact_after_one_sweep(k):
    rng = np.random.default_rng(k)
    model = chain(rng.normal(size=(9, k)), rng.normal(size=(8, k, k)))
    unary, table = model.unaries.reshape(9, k), model.tables.reshape(8, k, k)
    costs = unary[0]
    for step in range(8):
        costs = (costs[:, None] + table[step]).min(axis=0) + unary[step + 1]
    rep = Reparametrization(model)
    assert rep.sweep() == pytest.approx(costs.min())
    assert model.energy(decode(rep)) == pytest.approx(costs.min())


def test_contradictions_are_proven_by_a_cluster():
    model = SPECIAL["infeasible cycle"]
    rep = Reparametrization(model)
    assert rep.sweep(5) == 0.0
    rep.add_cluster((0, 1, 2))
    assert rep.sweep(2) == rep.bound == rep.certified_bound() == rep.sweep() == np.inf


@pytest.mark.parametrize("seed", range(10))
def test_evidence_forbids_states(seed):
    rng = np.random.default_rng(seed)
    model = random_model(rng, n=5, max_states=3, hard=0.1)
    u = int(np.argmax(model.cardinalities))
    rep = Reparametrization(model)
    rep.sweep(3)
    for state in {*range(model.cardinalities[u])} - {1}:
        rep.forbid(u, state)
    best = model.condition({u: 1}).brute_force()[1]
    assert rep.bound <= best + TINY
    assert rep.sweep(20) <= best + TINY
    assert rep.certified_bound() <= best
    assert rep.bound == np.inf or rep.greedy_labelling()[u] == 1


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.3, 0.4, 0.5, 0.6]), st.integers(0, 2), st.booleans())
def test_greedy_labellings_satisfy_constraints_that_can_be_satisfied(seed, hard, sweeps, forward):
    rng = np.random.default_rng(seed)
    sizes, factors = rng.integers(2, 4, 7), []
    for _ in range(12):
        scope = rng.permutation(7)[: rng.integers(2, 4)]
        table = rng.random(sizes[scope])
        factors.append((scope, np.where(rng.random(table.shape) < hard, np.inf, table)))
    model = GraphicalModel(sizes, factors)
    rep = Reparametrization(model)
    if sweeps:
        rep.sweep(sweeps)
    costs = rep.unaries.copy(), rep.messages.copy()
    labelling = rep.greedy_labelling(forward)
    assert (model.energy(labelling) < np.inf) == (model.brute_force()[1] < np.inf)
    assert all(np.array_equal(*pair) for pair in zip(costs, (rep.unaries, rep.messages), strict=True))


@pytest.mark.parametrize("seed", range(3))
def test_conditional_tables_with_evidence_have_a_labelling_after_some_sweeps(seed):
    """Greedy labellings without propagation end in contradictions that no local search repairs."""
    rng, n, factors = np.random.default_rng(seed), 40, []
    truth = np.zeros(n * n, dtype=int)
    for u in range(n * n):
        scope = [v for v, there in ((u - 1, u % n > 0), (u - n, u >= n)) if there]
        one = rng.random((2,) * len(scope))
        one = np.where(rng.random(one.shape) < 0.5, np.round(one), one)
        truth[u] = rng.random() < one[tuple(truth[scope])]
        with np.errstate(divide="ignore"):
            factors.append(([*scope, u], -np.log(np.stack([1 - one, one], axis=-1))))
    model = GraphicalModel([2] * (n * n), factors)
    model = model.condition({int(u): int(truth[u]) for u in rng.permutation(n * n)[: n * n // 10]})
    rep = Reparametrization(model)
    rep.sweep(5)
    assert model.energy(decode(rep)) < np.inf


def test_restated_ones_are_independent_and_runs_repeat():
    model = potts(5, 5, 3, mixed=True, seed=1)
    rep = Reparametrization(model)
    rep.add_cluster((0, 1, 5))
    rep.sweep(2)
    other = rep.restated(model)
    before, tables = rep.bound, rep.pairs().tables
    other.add_cluster((6, 7, 11))
    other.forbid(3, 0)
    assert other.sweep(5) > before
    assert (rep.bound, rep.n_clusters, rep.n_factors + 2) == (before, 1, other.n_factors)
    np.testing.assert_array_equal(rep.pairs().tables, tables)
    again = Reparametrization(model)
    again.add_cluster((5, 1, 0))
    assert again.sweep(2) == before


def test_added_pairs_are_numbered_before_clusters():
    model = GraphicalModel([2, 3, 2, 2], [((0, 1), np.ones((2, 3))), ((1, 2, 3), np.ones((3, 2, 2)))])
    rep = Reparametrization(model)
    assert rep.add_cluster([0, 1, 2]) and not rep.add_cluster((2, 1, 0))
    assert rep.add_cluster((1, 2, 3))
    assert [rep.scopes(a) for a in range(rep.n_factors)] == [
        (0, 1), (1, 2, 3), (0, 2), (1, 2), (1, 3), (2, 3), (0, 1, 2), (1, 2, 3),
    ]  # fmt: skip
    rep.sweep(2)
    pairs = rep.pairs()
    for a, scope, start in zip([0, 2, 3, 4, 5], pairs.variables, pairs.table_starts, strict=True):
        assert tuple(scope) == rep.scopes(a)
        table = rep.table(a)
        np.testing.assert_array_equal(pairs.tables[start : start + table.size], table.ravel())


def test_tables_of_a_model_stay_shared():
    model = spin_glass(4, 4, seed=0)
    shared = GraphicalModel.pairwise(
        np.zeros((100, 2)), [(u, u + 1) for u in range(99)], [[0.0, 1.0], [1.0, 0.0]]
    )
    rep = Reparametrization(shared)
    rep.sweep(2)
    assert np.shares_memory(rep._tables, shared.tables)
    rep = Reparametrization(model)
    rep.add_cluster((0, 1, 4))
    tables = model.tables.copy()
    rep.sweep(3)
    np.testing.assert_array_equal(model.tables, tables)


@pytest.mark.parametrize("seed", range(20))
def test_local_search_ends_where_no_one_and_no_pair_helps(seed):
    rng = np.random.default_rng(seed)
    model = random_model(rng, n=6, max_states=3, max_arity=3, hard=0.2 * (seed % 3))
    start = rng.integers(0, model.cardinalities)
    found = local_search(model, start)
    assert model.energy(found) <= model.energy(start)
    x = labellings(model)
    changed = x != found
    near = changed.sum(axis=1) <= 1
    for a in range(model.n_factors):
        if len(scope := model.factor(a).variables) == 2:
            near |= changed.sum(axis=1) == changed[:, scope].sum(axis=1)
    broken, finite = (mapped(model, f).energies(x[near]) for f in (np.isinf, finite_part))
    own = (~changed[near].any(axis=1)).argmax()
    assert broken[own] == broken.min()
    assert finite[own] <= finite[broken == broken.min()].min() + TINY


def test_local_search_ends_when_costs_cancel():
    rng = np.random.default_rng(0)
    model = random_model(rng, n=8, max_states=3, n_factors=30)
    huge = mapped(model, lambda costs: 1e15 * np.round(costs) + costs)
    for seed in range(5):
        start = np.random.default_rng(seed).integers(0, model.cardinalities)
        assert huge.energy(local_search(huge, start)) <= huge.energy(start)


def finite_part(costs):
    return np.where(np.isinf(costs), 0.0, costs)


def mapped(model, f):
    """The model with f of its costs."""
    unaries = [((u,), f(model.unary(u)).astype(float)) for u in range(model.n_variables)]
    factors = [(scope, f(table).astype(float)) for scope, table in map(model.factor, range(model.n_factors))]
    return GraphicalModel(model.cardinalities, unaries + factors)


def test_decoding_is_near_the_optimum():
    worse = 0
    for seed in range(60):
        model = random_model(np.random.default_rng(seed), n=6, max_states=3, hard=0.1 * (seed % 3))
        rep = Reparametrization(model)
        rep.sweep(10)
        worse += model.energy(decode(rep)) > model.brute_force()[1] + TINY
    assert worse <= 9


@pytest.mark.parametrize("wrong", [(0, 1), (0, 1, 1), (0, 1, 7), (-1, 0, 1)])
def test_clusters_are_checked(wrong):
    with pytest.raises(InvalidInputError):
        Reparametrization(frustrated_cycle(4)).add_cluster(wrong)


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("forbid", (9, 0)),
        ("forbid", (0, 2)),
        ("unary", (4,)),
        ("table", (4,)),
        ("scopes", (-1,)),
        ("sweep", (0,)),
    ],
)
def test_numbers_are_checked(method, arguments):
    with pytest.raises(InvalidInputError):
        getattr(Reparametrization(frustrated_cycle(4)), method)(*arguments)

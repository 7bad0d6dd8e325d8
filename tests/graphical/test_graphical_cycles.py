import itertools

import numpy as np
import pytest
from graphical_models import SPECIAL, random_model
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import linprog
from scipy.sparse import csgraph

from cutplane.graphical import GraphicalModel
from cutplane.graphical.primal.cut_passes import select
from cutplane.graphical.primal.odd_cycles import (
    CycleGraph,
    OddCycles,
    pair_marginals,
    projection_graph,
    separate_odd_cycles,
)
from cutplane.runtime.threads import get_threads, set_threads

TOL = 1e-6


def random_graph(rng, n, density):
    edges = [pair for pair in itertools.combinations(range(n), 2) if rng.random() < density]
    edges = np.array(edges, dtype=int).reshape(-1, 2)
    turned = rng.random(len(edges)) < 0.5
    edges[turned] = edges[turned, ::-1]
    return CycleGraph(n, rng.permutation(edges))


def grid_graph(h, w, *, wrap=False, apex=False):
    nodes = np.arange(h * w).reshape(h, w)
    steps = [(nodes[:, :-1], nodes[:, 1:]), (nodes[:-1], nodes[1:])]
    if wrap:
        steps += [(nodes[:, -1], nodes[:, 0]), (nodes[-1], nodes[0])]
    if apex:
        steps += [(nodes, np.full_like(nodes, h * w))]
    return CycleGraph(h * w + apex, np.concatenate([np.stack([a.ravel(), b.ravel()], 1) for a, b in steps]))


def cut_vectors(graph, labellings):
    labellings = np.asarray(labellings)
    return (labellings[:, graph.edges[:, 0]] != labellings[:, graph.edges[:, 1]]).astype(float)


def random_point(rng, graph):
    """A point as an LP has them: many entries 0 or 1, mixtures of a few cuts, some of it wrong."""
    m = graph.n_edges
    kind = rng.integers(5)
    if kind == 0:
        return rng.random(m)
    if kind == 1:
        return rng.choice([0.0, 1.0, 0.5, 1 / 3, 0.25], m)
    c = rng.dirichlet(np.ones(4)) @ cut_vectors(graph, rng.integers(0, 2, (4, graph.n_nodes)))
    if kind == 2:
        return c
    wrong = rng.random(m) < (0.1 if kind == 3 else 0.5)
    return np.where(wrong, np.clip(c + rng.normal(size=m) * rng.choice([1e-7, 1e-4, 0.1, 1.0]), 0, 1), c)


def simple_cycles(graph):
    """All simple cycles, each once, as lists of edges."""
    number = {frozenset(edge): e for e, edge in enumerate(graph.edges.tolist())}
    neighbours = [[] for _ in range(graph.n_nodes)]
    for u, v in graph.edges.tolist():
        neighbours[u].append(v)
        neighbours[v].append(u)

    def extend(path):
        for v in neighbours[path[-1]]:
            if v == path[0] and len(path) > 2 and path[1] < path[-1]:
                yield [number[frozenset(pair)] for pair in itertools.pairwise([*path, v])]
            if v > path[0] and v not in path:
                yield from extend([*path, v])

    return [cycle for u in range(graph.n_nodes) for cycle in extend([u])]


def largest_violation(graph, c):
    """By looking at all cycles; the best F rounds c and, if that makes |F| even, turns the worst edge."""
    best = 0.0
    for cycle in simple_cycles(graph):
        values = c[cycle]
        odd = values > 0.5
        if odd.sum() % 2 == 0:
            turned = np.abs(values - 0.5).argmin()
            odd[turned] = ~odd[turned]
        best = max(best, 1.0 - np.where(odd, 1.0 - values, values).sum())
    return best


def least_odd_walk(graph, c):
    """By Dijkstra's method from all nodes of the doubled graph."""
    n, (u, v) = graph.n_nodes, graph.edges.T
    tails = np.concatenate([u, u + n, u, v])
    heads = np.concatenate([v, v + n, v + n, u + n])
    costs = np.concatenate([c, c, 1.0 - c, 1.0 - c]) + 1e-14  # csgraph takes a stored zero for no edge
    doubled = sparse.csr_array((costs, (tails, heads)), shape=(2 * n, 2 * n))
    distances = csgraph.dijkstra(doubled, directed=False, indices=np.arange(n), limit=1.5)
    return float(distances[np.arange(n), np.arange(n) + n].min(initial=np.inf))


def check_cycles(graph, c, cycles):
    """Each is a simple odd cycle, violated as said, not there twice, and no part and chord would do."""
    assert isinstance(cycles, OddCycles) and cycles.starts[-1] == cycles.edges.size == cycles.odd.size
    adjacent = {frozenset(edge): e for e, edge in enumerate(graph.edges.tolist())}
    seen = set()
    for i, (start, end) in enumerate(itertools.pairwise(cycles.starts)):
        edges, odd = cycles.edges[start:end], cycles.odd[start:end]
        nodes, counts = np.unique(graph.edges[edges], return_counts=True)
        assert odd.sum() % 2 == 1 and nodes.size == edges.size >= 3 and (counts == 2).all()
        links = sparse.coo_array((np.ones(edges.size), graph.edges[edges].T), shape=(graph.n_nodes,) * 2)
        assert csgraph.connected_components(links)[0] == graph.n_nodes - nodes.size + 1
        assert cycles.violations[i] > TOL
        np.testing.assert_allclose(cycles.violations[i], 1 - np.where(odd, 1 - c[edges], c[edges]).sum())
        seen.add(frozenset(zip(edges.tolist(), odd.tolist(), strict=True)))
        path = [next(u for u in graph.edges[edges[0]] if u not in graph.edges[edges[1]])]
        for e in edges[:-1]:
            path.append(graph.edges[e].sum() - path[-1])
        for a, b in itertools.combinations(range(len(path)), 2):
            chord = adjacent.get(frozenset((path[a], path[b])))
            if chord is None or chord in edges:
                continue
            parity = odd[a:b].sum() % 2
            inner = np.where(odd[a:b], 1 - c[edges[a:b]], c[edges[a:b]]).sum()
            inner += c[chord] if parity else 1 - c[chord]
            assert inner >= 1 - TOL - 1e-9 and 1 + (1 - cycles.violations[i]) - inner >= 1 - TOL - 1e-9
    assert len(seen) == len(cycles)


@pytest.mark.parametrize("seed", range(40))
def test_cycles_are_found_if_and_only_if_there_are_violated_ones(seed):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, int(rng.integers(1, 8)), rng.choice([0.3, 0.6, 1.0]))
    for _ in range(4):
        c = random_point(rng, graph)
        cycles = separate_odd_cycles(graph, c, tol=TOL)
        check_cycles(graph, c, cycles)
        assert (len(cycles) > 0) == (largest_violation(graph, c) > TOL)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "graph",
    [grid_graph(9, 8), grid_graph(7, 7, wrap=True), grid_graph(6, 7, apex=True), "sparse", "dense"],
    ids=repr,
)
def test_cycles_agree_with_shortest_paths_on_larger_graphs(graph, seed):
    rng = np.random.default_rng(seed)
    if isinstance(graph, str):
        graph = random_graph(rng, 40, 0.08 if graph == "sparse" else 0.5)
    c = random_point(rng, graph)
    cycles = separate_odd_cycles(graph, c, tol=TOL)
    check_cycles(graph, c, cycles)
    assert (len(cycles) > 0) == (1.0 - least_odd_walk(graph, c) > TOL)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(2, 7), st.sampled_from([0.4, 0.8, 1.0]))
def test_inequalities_hold_at_all_cuts_and_not_at_the_point(seed, n, density):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, n, density)
    c = random_point(rng, graph)
    cycles = separate_odd_cycles(graph, c, tol=TOL)
    matrix, right = cycles.rows(graph.n_edges)
    cuts = cut_vectors(graph, list(itertools.product((0, 1), repeat=n)))
    assert (matrix @ cuts.T <= right[:, None]).all()
    np.testing.assert_allclose(matrix @ c - right, cycles.violations, atol=1e-12)


@pytest.mark.parametrize(("h", "w", "apex"), [(4, 4, False), (3, 4, True)])
def test_cycle_inequalities_describe_the_cuts_of_planar_grids(h, w, apex):
    graph = grid_graph(h, w, apex=False)
    if apex:  # only to the border, so that the graph stays planar
        border = [u for u in range(h * w) if u // w in (0, h - 1) or u % w in (0, w - 1)]
        graph = CycleGraph(h * w + 1, np.concatenate([graph.edges, [[u, h * w] for u in border]]))
    weights = np.random.default_rng(0).normal(size=graph.n_edges)
    labellings = np.arange(2 ** (graph.n_nodes - 1))[:, None] >> np.arange(graph.n_nodes) & 1
    best = (cut_vectors(graph, labellings) @ weights).min()
    rows, right = sparse.csr_array((0, graph.n_edges)), np.empty(0)
    for _ in range(50):
        answer = linprog(weights, rows, right, bounds=(0, 1))
        cycles = separate_odd_cycles(graph, answer.x)
        if not len(cycles):
            break
        more, more_right = cycles.rows(graph.n_edges)
        rows, right = sparse.vstack([rows, more]), np.concatenate([right, more_right])
    assert answer.fun == pytest.approx(best, abs=1e-6)


@pytest.mark.parametrize(("n", "edges"), [(0, []), (5, []), (4, [[3, 1]]), (4, [[0, 1], [2, 1]])])
def test_graphs_without_cycles_have_none(n, edges):
    graph = CycleGraph(n, np.array(edges, dtype=np.int64).reshape(-1, 2))
    cycles = separate_odd_cycles(graph, np.full(graph.n_edges, 0.5))
    matrix, right = cycles.rows(graph.n_edges)
    assert len(cycles) == 0 and matrix.shape == (0, graph.n_edges) and right.shape == (0,)


def test_values_outside_the_unit_interval_are_moved_into_it():
    graph = CycleGraph(3, np.array([[0, 1], [1, 2], [0, 2]]))
    assert len(separate_odd_cycles(graph, np.array([1 + 1e-9, -1e-9, 1.0]))) == 0
    assert separate_odd_cycles(graph, np.array([1.5, 1.0, 1.5])).violations.tolist() == [1.0]


@pytest.mark.parametrize("seed", range(10))
def test_values_almost_integral_are_no_trap(seed):
    rng = np.random.default_rng(seed)
    graph = grid_graph(5, 5, apex=bool(seed % 2))
    cut = cut_vectors(graph, rng.integers(0, 2, (1, graph.n_nodes)))[0]
    near = rng.choice([1e-9, np.nextafter(1e-9, 0), np.nextafter(1e-9, 1), 1.0000001e-9, 1e-17], cut.size)
    c = np.where(cut > 0.5, 1.0 - near, near)
    assert len(separate_odd_cycles(graph, c)) == 0
    c[0] = 1.0 - c[0]
    cycles = separate_odd_cycles(graph, c)
    check_cycles(graph, c, cycles)
    assert cycles.violations.max() == pytest.approx(1.0)


def test_the_number_of_threads_does_not_matter():
    graph = grid_graph(40, 40)
    before, answers = get_threads(), []
    rng = np.random.default_rng(0)
    c = np.where(rng.random(graph.n_edges) < 0.3, rng.random(graph.n_edges), rng.random(graph.n_edges) < 0.5)
    for n in (1, 2):
        set_threads(n)
        answers.append(separate_odd_cycles(graph, c))
    set_threads(before)
    assert len(answers[0]) > 300
    for name in ("starts", "edges", "odd", "violations"):
        np.testing.assert_array_equal(getattr(answers[0], name), getattr(answers[1], name))


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(0, 30), st.integers(1, 6), st.sampled_from([0.0, 0.3, 0.8]))
def test_selection_is_the_greedy_one(seed, t, dim, cosine):
    rng = np.random.default_rng(seed)
    normals = np.where(rng.random((t, dim)) < 0.5, rng.integers(-2, 3, (t, dim)), 0).astype(float)
    violations = rng.normal(size=t) + 0.5
    norms = np.linalg.norm(normals, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        depths = violations / norms
        units = np.nan_to_num(normals / norms[:, None])
    expected = []
    for i in np.argsort(-depths, kind="stable"):
        if violations[i] > 0 and all(units[i] @ units[j] <= cosine + 1e-12 for j in expected):
            expected.append(int(i))
    close = cosine + 1e-7
    for matrix in (normals, sparse.csr_array(normals)):
        assert select(matrix, violations, close).tolist() == expected


def marginals_of(model, weights, labellings):
    """The marginals of a distribution over labellings, one factor after the other."""
    parts = []
    scopes = [(u,) for u in range(model.n_variables)] + [model.factor(a)[0] for a in range(model.n_factors)]
    for scope in scopes:
        table = np.zeros(model.cardinalities[list(scope)])
        np.add.at(table, tuple(labellings[:, u] for u in scope), weights)
        parts.append(table.ravel())
    return np.concatenate([np.empty(0), *parts])


@pytest.mark.parametrize("seed", range(6))
def test_projections_are_the_probabilities_that_states_disagree(seed):
    rng = np.random.default_rng(seed)
    model = random_model(rng, n=5, max_states=4, max_arity=4)
    k, states = model.cardinalities, model.unaries.size
    labellings = rng.integers(0, k, (50, 5))
    weights = rng.dirichlet(np.ones(50))
    graph, projection = projection_graph(model)
    c = projection @ marginals_of(model, weights, labellings)

    nodes = []
    for u in range(5):
        members = [np.arange(k[u]) == i for i in range(k[u])] if k[u] > 2 else [np.arange(2) == 1][: k[u] - 1]
        nodes += [(u, group) for group in members]
    assert graph.n_nodes == len(nodes)
    together = {
        frozenset(pair)
        for a in range(model.n_factors)
        for pair in itertools.combinations(model.factor(a)[0], 2)
    }
    expected = {
        (a, b): weights @ (nodes[a][1][labellings[:, nodes[a][0]]] != nodes[b][1][labellings[:, nodes[b][0]]])
        for a, b in itertools.combinations(range(len(nodes)), 2)
        if frozenset((nodes[a][0], nodes[b][0])) in together
    }
    assert set(map(tuple, graph.edges.tolist())) == set(expected)
    np.testing.assert_allclose(c, [expected[tuple(edge)] for edge in graph.edges.tolist()], atol=1e-12)
    assert len(separate_odd_cycles(graph, c)) == 0

    pairs, pair_map = pair_marginals(model)
    tables = pair_map @ marginals_of(model, weights, labellings)
    joint = GraphicalModel(k, [(tuple(pair), np.zeros(k[pair])) for pair in pairs])
    np.testing.assert_allclose(tables, marginals_of(joint, weights, labellings)[states:], atol=1e-12)


@pytest.mark.parametrize("name", SPECIAL)
def test_projections_of_special_models(name):
    model = SPECIAL[name]
    graph, projection = projection_graph(model)
    assert projection.shape == (graph.n_edges, model.unaries.size + model.table_sizes.sum())
    assert len(separate_odd_cycles(graph, np.zeros(graph.n_edges))) == 0

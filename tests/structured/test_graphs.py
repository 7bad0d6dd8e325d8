"""Trees, graphs and sets of labels: decoders against enumeration, optima against one convex solve."""

import pickle
from itertools import combinations, product

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse

import cutplane as cut
from cutplane.exceptions import InvalidInputError, MissingCapabilityError, OracleError
from cutplane.structured import ChainRisk, GraphRisk, MultilabelRisk, best_sets
from cutplane.structured.ascent import ExampleAscent
from cutplane.testing import check_risk

S, N, K, L = 3, 2, 2, 3
CYCLE = np.array([[0, 1], [2, 1], [2, 3], [3, 0]])
TREES = [
    np.array([[1, 0], [1, 2], [3, 1]]),  # a star
    np.array([[3, 1], [1, 2]]),  # a path, and a node alone
    np.empty((0, 2), dtype=int),
]


def draw(rng, *shape, integer=False):
    """Return random numbers; with `integer`, small ones, so that scores are often equal."""
    return rng.integers(-1, 2, shape).astype(float) if integer else rng.standard_normal(shape)


def graph_features(x, labels, edges, z):
    nodes, pairs = np.zeros((S, N)), np.zeros((S, S, K))
    for row, s in zip(x, labels, strict=True):
        nodes[s] += row
    for (u, v), row in zip(edges, z, strict=True):
        pairs[labels[u], labels[v]] += row
    return np.concatenate([nodes.ravel(), pairs.ravel()])


def graphs(edges, seed=0, integer=False, **options):
    """Return a risk of graphs, and for each graph the features and losses of all labellings."""
    rng = np.random.default_rng(seed)
    X = [draw(rng, 4, N, integer=integer) for _ in edges]
    y = [rng.integers(S, size=4) for _ in edges]
    Z = [draw(rng, len(part), K, integer=integer) for part in edges]
    risk = GraphRisk(X, y, edges, Z, n_states=S, **options)
    everything = [
        [(graph_features(x, t, e, z) - graph_features(x, own, e, z), np.sum(t != own))
         for t in map(np.array, product(range(S), repeat=4))]
        for x, own, e, z in zip(X, y, edges, Z, strict=True)
    ]  # fmt: skip
    return risk, everything


def sets(pairs, seed=0, integer=False, m=6, **options):
    """Return a risk of sets of labels, and for each example the features and losses of all sets."""
    rng = np.random.default_rng(seed)
    X, Y = draw(rng, m, N, integer=integer), rng.integers(2, size=(m, L))
    risk = MultilabelRisk(X, Y, pairs, **options)

    def features(x, labels):
        together = [labels[u] * labels[v] for u, v in risk.pairs]
        return np.append(np.outer(labels, np.append(x, 1.0) if risk.intercept else x), together)

    everything = [
        [(features(x, t) - features(x, own), np.sum(t != own))
         for t in map(np.array, product(range(2), repeat=L))]
        for x, own in zip(X, Y, strict=True)
    ]  # fmt: skip
    return risk, everything


TREE_CASE = graphs, [TREES[i % 3] for i in range(5)]
MIXED_CASE = graphs, [TREES[0], CYCLE, TREES[1], CYCLE]
CASES = {
    "trees": TREE_CASE,
    "cycles": MIXED_CASE,
    "labels": (sets, ()),
    "chain of labels": (sets, [[0, 1], [2, 1]]),
    "pairs of labels": (sets, "all"),
}
EACH = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def value_of(risk, everything, w):
    return sum(
        c * max(cost * loss + psi @ w for psi, loss in labellings)
        for c, cost, labellings in zip(risk.weights, risk.costs, everything, strict=True)
    )


def n_slack(risk, everything, lam):
    """Return the optimum by one cvxpy solve with a constraint for every labelling."""
    w, slack = cp.Variable(risk.dim), cp.Variable(len(everything))
    rows = [
        slack[i] >= np.array([psi for psi, _ in each]) @ w + risk.costs[i] * np.array([d for _, d in each])
        for i, each in enumerate(everything)
    ]  # fmt: skip
    objective = risk.weights @ slack + 0.5 * lam * cp.sum_squares(w)
    return cp.Problem(cp.Minimize(objective), rows).solve(solver="CLARABEL")


@EACH
def test_values_are_the_best_of_all(case):
    build, structure = case
    for seed in range(6):
        integer = bool(seed % 2)
        options = {"loss": ("hamming", "share")[seed % 3 == 1]}
        risk, everything = build(structure, seed, integer, **options)
        rng = np.random.default_rng(seed)
        for w in (np.zeros(risk.dim), draw(rng, risk.dim, integer=integer)):
            value, slope = risk.oracle(w)
            assert value == pytest.approx(value_of(risk, everything, w), abs=1e-9)
            other = draw(rng, risk.dim)
            assert value_of(risk, everything, other) >= value + slope @ (other - w) - 1e-9
            one_by_one = sum(factors.dot(w) + offset for _, factors, offset in
                             (risk.best(w, i) for i in range(risk.n_examples)))  # fmt: skip
            assert one_by_one == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize(
    ("case", "method"),
    [
        *((case, "auto") for case in CASES.values()),
        (TREE_CASE, "blockfrankwolfe"),
        (MIXED_CASE, "blockfrankwolfe"),
    ],
)
def test_the_optimum_is_that_of_the_n_slack_problem(case, method):
    build, structure = case
    risk, everything = build(structure, sample_weight=np.arange(1.0, len(build(structure)[1]) + 1.0))
    problem = cut.Problem(risk, cut.L2(0.1))
    result = problem.solve(method, tol=1e-5)
    assert result.status == "OPTIMAL"
    assert result.objective == pytest.approx(n_slack(risk, everything, 0.1), rel=2e-5)
    assert result.certificate.verify().valid
    if method != "auto":
        again = problem.solve(method, tol=1e-5, warm_start=result)
        assert again.history[-1].iteration <= 1
        key = int(result.certificate.queries[np.argmax(result.certificate.multipliers)])
        result.certificate.duals[key][-1] += 1.0
        assert not result.certificate.verify().valid


@EACH
def test_the_checks_pass(case):
    build, structure = case
    assert check_risk(build(structure)[0], n_points=2)


@pytest.mark.parametrize("case", [MIXED_CASE, (sets, "all")])
def test_relaxed_graphs_are_certified_for_what_they_are(case):
    build, structure = case
    outer, everything = build(structure, decoder="outer")
    exact, _ = build(structure)
    assert "outer" in repr(outer)
    rng = np.random.default_rng(0)
    points = rng.standard_normal((4, outer.dim))
    values = np.array([outer(w) for w in points])
    assert (values >= [exact(w) - 1e-9 for w in points]).all()
    for w in points:
        assert pickle.loads(pickle.dumps(outer))(w) == pytest.approx(outer(w), rel=1e-9)
        value, slope = outer.oracle(w)
        assert (values >= value + (points - w) @ slope - 1e-9).all()
    problem = cut.Problem(outer, cut.L2(0.1))
    result = problem.solve(tol=1e-5)
    assert result.status == "OPTIMAL"
    assert result.objective >= n_slack(exact, everything, 0.1) * (1.0 - 1e-5)
    assert result.certificate.verify().valid
    with pytest.raises(MissingCapabilityError, match="block ascent"):
        problem.solve(cut.BlockFrankWolfe())
    inner = cut.Problem(build(structure, decoder="inner")[0], cut.L2(0.1)).solve(tol=1e-5)
    assert inner.status == "TARGET"
    assert inner.lower_bound <= n_slack(exact, everything, 0.1) * (1.0 + 1e-5)


def test_a_relaxation_can_be_loose():
    differ = np.zeros((2, 2, 1))
    differ[0, 1] = differ[1, 0] = 10.0
    w = np.append(np.zeros(2), differ)
    triangle = np.array([[0, 1], [1, 2], [2, 0]])
    parts = [np.zeros((3, 1))], [[0, 1, 0]], triangle
    assert GraphRisk(*parts)(w) == pytest.approx(3.0)  # [1, 0, 1] errs thrice, and has no fewer pairs
    assert GraphRisk(*parts, decoder="outer")(w) == pytest.approx(30.0 - 20.0 + 1.5)


def test_trees_have_no_outer_and_no_inner_decoder():
    risk, _ = graphs(TREE_CASE[1], decoder="inner")
    assert cut.Problem(risk, cut.L2(0.1)).solve(tol=1e-4).status == "OPTIMAL"
    chains_of_labels, _ = sets([[0, 1], [2, 1]])
    with pytest.raises(MissingCapabilityError, match="block ascent"):  # to decode all together is faster
        cut.Problem(chains_of_labels, cut.L2(0.1)).solve(cut.BlockFrankWolfe())


@pytest.mark.parametrize("integer", [False, True])
@pytest.mark.parametrize("loss", ["hamming", "share"])
def test_block_steps_of_trees_find_the_best_of_all(integer, loss):
    for seed in range(8):
        risk, everything = graphs(TREE_CASE[1], seed, integer, loss=loss, sample_weight=[1, 2, 0, 1, 1])
        w = draw(np.random.default_rng(seed), risk.dim, integer=integer)
        ascent = risk.block_ascent(cut.L2(1e12, centre=w).quadratic(risk.dim))  # steps do not move w
        gap = ascent.epoch(exact=True).gap
        assert gap == pytest.approx(value_of(risk, everything, w), abs=1e-6)
        assert ascent.epoch(exact=False).gap == pytest.approx(0.0, abs=1e-6)  # the best have all shares


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, np.float32])
def test_compiled_steps_are_those_of_any_sum(kind):
    rng = np.random.default_rng(4)
    sizes = [*rng.integers(1, 9, 20), 40]
    edges = [np.stack([np.arange(1, n), rng.integers(0, np.arange(1, n))], axis=1) for n in sizes]
    X, y = [kind(rng.standard_normal((n, N))) for n in sizes], [rng.integers(S, size=n) for n in sizes]
    for Z in (None, [rng.standard_normal((len(part), K)) for part in edges]):
        risk = GraphRisk(X, y, edges, Z, n_states=S)
        quadratic = cut.L2(0.05, centre=np.full(risk.dim, 0.1)).quadratic(risk.dim)
        ascent, bounds = risk.block_ascent(quadratic), []
        for _ in range(40):
            assert ascent.advance() >= 0.0
            (slope,), (offset,) = risk.dual_cut(ascent.multipliers)
            bounds.append(offset + 0.1 * slope.sum() - 10.0 * slope @ slope)
            np.testing.assert_allclose(ascent.x, 0.1 - 20.0 * slope, atol=1e-5)
        assert np.diff(bounds).min() >= -1e-12
        general = ExampleAscent(risk, quadratic, ascent.multipliers)
        np.testing.assert_allclose(general.x, ascent.x, atol=1e-5)
        assert general.advance() <= 1e-2 * bounds[-1]
        again = risk.block_ascent(quadratic, general.multipliers)
        np.testing.assert_allclose(again.x, general.x, atol=1e-5)


def test_paths_are_chains():
    rng = np.random.default_rng(1)
    sizes = rng.integers(1, 7, size=20)
    X, y = [rng.standard_normal((n, N)) for n in sizes], [rng.integers(S, size=n) for n in sizes]
    edges = [np.stack([np.arange(n - 1), np.arange(1, n)], axis=1) for n in sizes]
    chain, graph = ChainRisk(X, y, n_states=S), GraphRisk(X, y, edges, n_states=S)
    lazy = GraphRisk([sparse.csr_array(x).astype(np.float32) for x in X], y, edges, n_states=S)
    for w in rng.standard_normal((3, chain.dim)):
        value, slope = chain.oracle(w)
        assert graph(w) == pytest.approx(value, rel=1e-12)
        np.testing.assert_allclose(graph.oracle(w)[1], slope, atol=1e-12)
        assert lazy(w) == pytest.approx(value, rel=1e-6)
        found = cut.structured.decode(w, X)
        assert all(np.array_equal(a, b) for a, b in zip(found, graph.predict(w, X, edges), strict=True))


def test_large_trees_are_split_and_added_up():
    rng = np.random.default_rng(2)
    m, n = 60, 400
    parents = [np.stack([rng.integers(0, np.arange(1, n)), np.arange(1, n)], axis=1) for _ in range(m)]
    X, y = [rng.standard_normal((n, 4)) for _ in range(m)], [rng.integers(6, size=n) for _ in range(m)]
    Z = [rng.standard_normal((n - 1, 1)) for _ in range(m)]
    risk = GraphRisk(X, y, parents, Z, n_states=6)
    assert len(risk.graphs.chunks) > 1
    w = rng.standard_normal(risk.dim)
    pieces = [risk.best(w, i) for i in range(m)]
    assert risk(w) == pytest.approx(sum(a.dot(w) + b for _, a, b in pieces), rel=1e-10)


def test_labels_without_pairs_are_hinge_losses():
    risk, _ = sets((), m=30)
    w = np.random.default_rng(0).standard_normal(risk.dim)
    Y = risk.graphs.labels.reshape(-1, L)
    for X in (risk.X, sparse.csr_array(risk.X)):
        each = [
            cut.LinearRisk(X, 2.0 * Y[:, u] - 1.0, cut.losses.Hinge(), intercept=True)(row)
            for u, row in enumerate(w.reshape(L, -1))
        ]
        assert MultilabelRisk(X, Y)(w) == pytest.approx(sum(each), rel=1e-12)


def test_many_labels_are_mapped():
    rng = np.random.default_rng(3)
    X, Y = rng.standard_normal((3, 2)), rng.integers(2, size=(3, 17))
    pairs = [*combinations(range(4), 2), *((u, u + 1) for u in range(4, 16))]
    risk = MultilabelRisk(X, Y, pairs)
    w = rng.standard_normal(risk.dim)
    small = MultilabelRisk(X, Y[:, :4], pairs[:6])
    W, V = w[: 17 * 3], w[17 * 3 :]
    rest = MultilabelRisk(X, Y[:, 4:], np.array(pairs[6:]) - 4)
    parts = small(np.append(W[:12], V[:6])) + rest(np.append(W[12:], V[6:]))
    assert risk(w) == pytest.approx(parts, rel=1e-9)
    assert (
        best_sets(w, X, pairs)[:, :4].tolist() == best_sets(np.append(W[:12], V[:6]), X, pairs[:6]).tolist()
    )


def one_graph(edges=([(0, 1)],), X=None, **options):
    return GraphRisk([np.ones((2, 2))] if X is None else X, [[0, 1]], list(edges), **options)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: one_graph(X=np.ones((2, 2))), "list of matrices"),
        (lambda: one_graph([[(0, 2)]]), "the nodes are 0 to 1"),
        (lambda: one_graph([[(0, 1), (1, 0)]]), "no other edge the same"),
        (lambda: one_graph([[(1, 1)]]), "two different nodes"),
        (lambda: one_graph([[(0, 1)], []]), "one array for each"),
        (lambda: one_graph(edge_features=[np.ones((2, 1))]), "one row for each edge"),
        (lambda: one_graph(loss="zero"), "loss must be one of"),
        (lambda: one_graph(decoder="rough"), "decoder must be one of"),
        (lambda: MultilabelRisk(np.ones((2, 2)), [0, 1]), "a row for each row of X"),
        (lambda: MultilabelRisk(np.ones((2, 2)), [[0, 2], [1, 1]]), "zeros and ones"),
        (lambda: MultilabelRisk(np.ones((2, 2)), [[0, 1], [1, 1]], [[0, 2]]), "pairs"),
        (lambda: best_sets(np.ones(2), np.ones((2, 2)), [[0, 1]]), "which is no L 3"),
    ],
)  # fmt: skip
def test_wrong_input_is_refused(call, words):
    with pytest.raises(InvalidInputError, match=words):
        call()


def test_forged_labellings_are_refused():
    risk, _ = sets("all")
    ascent = risk.block_ascent(cut.L2(0.1).quadratic(risk.dim))
    for value in (2.0, -1.0, 0.5):
        forged = ascent.multipliers.copy()
        forged[-1] = value
        with pytest.raises(OracleError, match="none of 0 to 1"):
            risk.dual_cut(forged)


@pytest.mark.parametrize("decoder", ["exact", "outer", "inner"])
def test_graphs_without_nodes_are_refused_and_those_of_one_state_are_right(decoder):
    X, y, edges = [np.eye(2), np.zeros((0, 2))], [[0, 1], []], [[(0, 1)], []]
    with pytest.raises(cut.InvalidInputError, match=r"X\[1\] has no nodes; drop empty graphs"):
        cut.structured.GraphRisk(X, y, edges, decoder=decoder)
    risk = cut.structured.GraphRisk(X[:1], y[:1], edges[:1], decoder=decoder)
    with pytest.raises(cut.InvalidInputError, match=r"X\[1\] has no nodes; drop empty graphs"):
        risk.predict(np.zeros(risk.dim), X, edges)
    for nodes in ([np.eye(2)], [np.eye(3)[:, :2]]):
        pairs = [(0, 1), (1, 2), (0, 2)][: 3 * (len(nodes[0]) > 2) or 1]
        one = cut.structured.GraphRisk(nodes, [[0] * len(nodes[0])], [pairs], decoder=decoder, n_states=1)
        assert one.oracle(np.ones(one.dim))[0] == 0.0

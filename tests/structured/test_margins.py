"""Max-margin risks of chains, graphs, sets and alignments: against enumeration and one convex solve."""

import pickle
from itertools import combinations, pairwise, product

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse

import cutplane as cut
from cutplane.exceptions import InvalidInputError, MissingCapabilityError, OracleError
from cutplane.structured import (
    AlignmentRisk,
    ChainRisk,
    GraphRisk,
    Hierarchy,
    MultilabelRisk,
    align,
    best_sets,
    decode,
)
from cutplane.structured.ascent import CachedAscent, Epoch, ExampleAscent
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


def differences(truths, labellings, feature, wrong=lambda t, own: np.sum(t != own)):
    """Return for each example the features of all labellings less those of the true one, and their losses."""
    return [
        [(feature(i, t) - feature(i, own), wrong(t, own)) for t in labellings(i)]
        for i, own in enumerate(truths)
    ]


def graph_feature(x, labels, edges, z):
    nodes, pairs = np.zeros((S, x.shape[1])), np.zeros((S, S, z.shape[1]))
    for row, s in zip(x, labels, strict=True):
        nodes[s] += row
    for (u, v), row in zip(edges, z, strict=True):
        pairs[labels[u], labels[v]] += row
    return np.concatenate([nodes.ravel(), pairs.ravel()])


def all_labels(size, states=S):
    return list(map(np.array, product(range(states), repeat=size)))


def graphs(edges, seed=0, integer=False, **options):
    """Return a risk of graphs, and the differences of all labellings."""
    rng = np.random.default_rng(seed)
    X = [draw(rng, 4, N, integer=integer) for _ in edges]
    y = [rng.integers(S, size=4) for _ in edges]
    Z = [draw(rng, len(part), K, integer=integer) for part in edges]
    risk = GraphRisk(X, y, edges, Z, n_states=S, **options)
    known = differences(y, lambda i: all_labels(4), lambda i, t: graph_feature(X[i], t, edges[i], Z[i]))
    return risk, known


def sequences(m=6, n=3, seed=0, integer=False):
    rng = np.random.default_rng(seed)
    X = [draw(rng, length, n, integer=integer) for length in rng.integers(1, 5, size=m)]
    return X, [rng.integers(S, size=len(x)) for x in X]


def chains(kind, seed=0, integer=False, m=6, **options):
    X, y = sequences(m, seed=seed, integer=integer)
    risk = ChainRisk([kind(x) for x in X], y, n_states=S, **options)

    def feature(i, t):
        return graph_feature(X[i], t, pairwise(range(len(t))), np.ones((len(t) - 1, 1)))

    return risk, differences(y, lambda i: all_labels(len(y[i])), feature)


def sets(pairs, seed=0, integer=False, m=6, **options):
    rng = np.random.default_rng(seed)
    X, Y = draw(rng, m, N, integer=integer), rng.integers(2, size=(m, L))
    risk = MultilabelRisk(X, Y, pairs, **options)

    def feature(i, t):
        together = [t[u] * t[v] for u, v in risk.pairs]
        return np.append(np.outer(t, np.append(X[i], 1.0) if risk.intercept else X[i]), together)

    return risk, differences(Y, lambda i: all_labels(L, 2), feature)


def matches(n, m):
    """Yield every alignment of sequences of these lengths."""
    for k in range(min(n, m) + 1):
        for here, there in product(combinations(range(n), k), combinations(range(m), k)):
            y = np.full(n, -1)
            y[list(here)] = there
            yield y


def alignment_feature(a, b, y):
    """Return the joint feature, gaps counted position by position."""
    feature = np.zeros(S * S + 2)
    here = [(i, j) for i, j in enumerate(y) if j >= 0]
    for i, j in here:
        feature[a[i] * S + b[j]] += 1.0
    for (i, j), (k, n) in pairwise([(-1, -1), *here, (len(a), len(b))]):
        for gap in (k - i - 1, n - j - 1):
            feature[-2] += gap > 0
            feature[-1] += gap
    return feature


def alignments(_, seed=0, integer=False, m=6, **options):
    rng = np.random.default_rng(seed)
    A, B = ([rng.integers(S, size=rng.integers(1, 5)) for _ in range(m)] for _ in range(2))
    every = [list(matches(len(a), len(b))) for a, b in zip(A, B, strict=True)]
    y = [each[rng.integers(len(each))] for each in every]
    risk = AlignmentRisk(A, B, y, n_symbols=S, **options)
    feature = lambda i, t: alignment_feature(A[i], B[i], t)  # noqa: E731
    return risk, differences(y, every.__getitem__, feature, lambda t, own: np.sum((own >= 0) & (t != own)))


TREE_CASE = graphs, [TREES[i % 3] for i in range(5)]
MIXED_CASE = graphs, [TREES[0], CYCLE, TREES[1], CYCLE]
CASES = {
    "chains": (chains, np.asarray),
    "sparse chains": (chains, sparse.csr_array),
    "trees": TREE_CASE,
    "cycles": MIXED_CASE,
    "labels": (sets, ()),
    "chain of labels": (sets, [[0, 1], [2, 1]]),
    "pairs of labels": (sets, [[1, 0], [0, 2], [2, 1]]),
    "alignments": (alignments, None),
}
BLOCKS = ["chains", "sparse chains", "trees", "cycles", "alignments"]


def built(name, *arguments, **options):
    build, structure = CASES[name]
    return build(structure, *arguments, **options)


def value_of(risk, known, w):
    return sum(
        c * max(cost * loss + psi @ w for psi, loss in each)
        for c, cost, each in zip(risk.weights, risk.costs, known, strict=True)
    )


def n_slack(risk, known, lam, centre=0.0):
    """Return the optimum by one cvxpy solve with a constraint for every labelling."""
    w, slack = cp.Variable(risk.dim), cp.Variable(len(known))
    rows = [
        slack[i] >= np.array([psi for psi, _ in each]) @ w + risk.costs[i] * np.array([d for _, d in each])
        for i, each in enumerate(known)
    ]
    objective = risk.weights @ slack + 0.5 * lam * cp.sum_squares(w - centre)
    return cp.Problem(cp.Minimize(objective), rows).solve(solver="CLARABEL")


@pytest.mark.parametrize("name", CASES)
def test_values_are_the_best_of_all(name):
    for seed in range(12):
        integer = bool(seed % 2)
        loss = ("hamming", "share")[seed % 3 == 1]
        risk, known = built(name, seed, integer, loss=loss)
        most = np.array([max(1.0, *(wrong for _, wrong in each)) for each in known])
        np.testing.assert_allclose(risk.costs, 1.0 / most if loss == "share" else np.ones(len(known)))
        rng = np.random.default_rng(seed)
        for w in (np.zeros(risk.dim), draw(rng, risk.dim, integer=integer)):
            value, slope = risk.oracle(w)
            assert value == pytest.approx(value_of(risk, known, w), abs=1e-9)
            other = draw(rng, risk.dim)
            assert value_of(risk, known, other) >= value + slope @ (other - w) - 1e-9
            if hasattr(risk, "best"):
                best = (risk.best(w, i) for i in range(risk.n_examples))
                one_by_one = sum(factors.dot(w) + offset for _, factors, offset in best)
                assert one_by_one == pytest.approx(value, abs=1e-9)


def test_predictions_have_the_largest_scores():
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X, _ = sequences(seed=seed, integer=seed % 2)
        w = draw(rng, S * 3 + S * S, integer=seed % 2)
        for x, found in zip(X, decode(w, X), strict=True):
            edges, z = list(pairwise(range(len(x)))), np.ones((len(x) - 1, 1))
            best = max(graph_feature(x, t, edges, z) @ w for t in all_labels(len(x)))
            assert graph_feature(x, found, edges, z) @ w == pytest.approx(best, abs=1e-12)
        risk, _ = alignments(None, seed)
        w = draw(rng, risk.dim, integer=seed % 2)
        for a, b, found in zip(risk.A, risk.B, align(w, risk.A, risk.B), strict=True):
            best = max(alignment_feature(a, b, t) @ w for t in matches(len(a), len(b)))
            assert alignment_feature(a, b, found) @ w == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize(
    ("name", "method"),
    [(name, "auto") for name in CASES]
    + [(name, "blockfrankwolfe") for name in BLOCKS]
    + [("chains", "proximalbundle")],
)
def test_the_optimum_is_that_of_the_n_slack_problem(name, method, tmp_path):
    count = len(built(name)[1])
    risk, known = built(name, sample_weight=np.arange(1.0, count + 1.0) % 3)  # one has none
    problem = cut.Problem(risk, cut.L2(0.1))
    result = problem.solve(method, tol=1e-5)
    assert result.status == "OPTIMAL"
    assert result.objective == pytest.approx(n_slack(risk, known, 0.1), rel=2e-5)
    certificate = result.certificate
    assert certificate.verify().valid
    if method != "blockfrankwolfe":
        return
    loaded = cut.load(result.save(tmp_path / "run"), problem)
    assert loaded.certificate.verify().valid
    assert problem.solve(method, tol=1e-5, warm_start=loaded).history[-1].iteration <= 1
    key = int(certificate.queries[np.argmax(certificate.multipliers)])
    honest = certificate.duals[key].copy()
    for place, value in ((2 * count, 0.1), (-1, honest[-1] + 1.0), (-1, 7.0), (0, honest[0] + 1.0), (3, 0.0)):
        certificate.duals[key] = honest.copy()
        certificate.duals[key][place] = value
        assert not certificate.verify().valid, (place, value)
    certificate.duals[key] = honest[:-1]
    assert not certificate.verify().valid


@pytest.mark.parametrize(
    ("rises", "n_cached"), [([4.0, 3.0, 2.0, 1.0], 2), ([4.0, 0.0], 1), ([1.0] * 101, 100)]
)
def test_cached_epochs_go_on_while_they_are_worth_their_cost(rises, n_cached):
    """An epoch with decoders costs 1, one without costs 1/2."""

    class Scripted(CachedAscent):
        def epoch(self, exact):
            ran.append(exact)
            return Epoch(float(exact), rises[len(ran) - 1], 1.0 if exact else 0.5)

        x = multipliers = average = None

    ran = []
    assert Scripted().advance() == 1.0
    assert ran == [True] + [False] * n_cached


@pytest.mark.parametrize("name", BLOCKS)
def test_bounds_of_block_steps_rise_and_stay_below_the_optimum(name):
    risk, known = built(name, 3)
    quadratic = cut.L2(0.02, centre=np.full(risk.dim, 0.1)).quadratic(risk.dim)
    optimum, bounds = n_slack(risk, known, 0.02, 0.1), []
    ascent = risk.block_ascent(quadratic)
    for _ in range(12):
        assert ascent.advance() >= 0.0
        (slope,), (offset,) = risk.dual_cut(ascent.multipliers)
        bounds.append(offset + 0.1 * slope.sum() - 25.0 * slope @ slope)
        np.testing.assert_allclose(ascent.x, 0.1 - 50.0 * slope, atol=1e-5)
    assert np.diff(bounds).min() >= -1e-12
    assert bounds[0] < bounds[-1] <= optimum + 1e-9
    assert risk(ascent.average) + quadratic(ascent.average) >= optimum - 1e-9
    again = risk.block_ascent(quadratic, ascent.multipliers)
    np.testing.assert_allclose(again.multipliers, ascent.multipliers, rtol=1e-12)
    np.testing.assert_allclose(again.average, ascent.x, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_the_checks_pass(name):
    assert check_risk(built(name, loss="share" if "chain" in name else "hamming")[0], n_points=3)


@pytest.mark.parametrize("loss", ["hamming", "share"])
def test_block_steps_of_trees_find_the_best_of_all(loss):
    for seed in range(8):
        risk, known = graphs(TREE_CASE[1], seed, seed % 2, loss=loss, sample_weight=[1, 2, 0, 1, 1])
        w = draw(np.random.default_rng(seed), risk.dim, integer=seed % 2)
        ascent = risk.block_ascent(cut.L2(1e12, centre=w).quadratic(risk.dim))  # steps do not move w
        assert ascent.epoch(exact=True).gap == pytest.approx(value_of(risk, known, w), abs=1e-6)
        assert ascent.epoch(exact=False).gap == pytest.approx(0.0, abs=1e-6)  # the best have all shares


@pytest.mark.parametrize("compiled", [True, False])
def test_the_average_has_weights_in_proportion_to_the_visits(compiled):
    risk, _ = graphs([TREES[0]])  # one example, so that an epoch is one visit
    quadratic = cut.L2(0.05).quadratic(risk.dim)
    ascent = risk.block_ascent(quadratic) if compiled else ExampleAscent(risk, quadratic)
    iterates, shares = [ascent.x], np.arange(1.0, 8.0)
    for _ in shares[1:]:
        ascent.epoch(exact=True)
        iterates.append(ascent.x)
    assert np.ptp(iterates, axis=0).max() > 0.0
    np.testing.assert_allclose(ascent.average, shares @ np.array(iterates) / shares.sum(), atol=1e-12)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, np.float32])
def test_compiled_steps_are_those_of_any_sum(kind):
    rng = np.random.default_rng(4)
    sizes = [*rng.integers(1, 9, 20), 40]
    edges = [np.stack([np.arange(1, n), rng.integers(0, np.arange(1, n))], axis=1) for n in sizes]
    X, y = [kind(rng.standard_normal((n, N))) for n in sizes], [rng.integers(S, size=n) for n in sizes]
    for Z in (None, [rng.standard_normal((len(part), K)) for part in edges]):
        risk = GraphRisk(X, y, edges, Z, n_states=S)
        quadratic = cut.L2(0.05, centre=np.full(risk.dim, 0.1)).quadratic(risk.dim)
        ascent = risk.block_ascent(quadratic)
        for _ in range(40):
            ascent.advance()
        general = ExampleAscent(risk, quadratic, ascent.multipliers)
        np.testing.assert_allclose(general.x, ascent.x, atol=1e-5)
        assert general.advance() <= 1e-2 * risk(ascent.x)
        again = risk.block_ascent(quadratic, general.multipliers)
        np.testing.assert_allclose(again.x, general.x, atol=1e-5)


def test_entries_in_two_parts_and_lists_of_sparse_sequences():
    X, y = sequences(m=40, n=7)
    lengths, stacked, labels = [len(part) for part in y], np.concatenate(X), np.concatenate(y)
    stacked[np.random.default_rng(0).random(stacked.shape) < 0.5] = 0.0
    reference = ChainRisk(stacked, labels, lengths)
    w = np.random.default_rng(0).standard_normal(reference.dim)
    value = reference(w)
    halves = sparse.csr_array(stacked)  # each entry stored twice
    twice = np.repeat(halves.data / 2.0, 2), np.repeat(halves.indices, 2), 2 * halves.indptr
    doubled = ChainRisk(sparse.csr_array(twice, halves.shape), labels, lengths)
    assert doubled(w) == pytest.approx(value, rel=1e-12)
    objectives = [
        cut.Problem(risk, cut.L2(0.1)).solve(cut.BlockFrankWolfe(), tol=1e-6).objective
        for risk in (reference, doubled)
    ]
    assert objectives[0] == pytest.approx(objectives[1], rel=2e-6)
    pieces = [sparse.csr_array(part) for part in np.split(stacked, np.cumsum(lengths)[:-1])]
    assert ChainRisk(pieces, y)(w) == pytest.approx(value, rel=1e-12)


def test_results_do_not_depend_on_the_threads():
    rng = np.random.default_rng(0)
    risk = ChainRisk(rng.standard_normal((6000, 30)), rng.integers(8, size=6000), [6] * 1000)
    assert len(risk.sequences.chunks) > 1
    w, before, answers = rng.standard_normal(risk.dim), cut.get_threads(), []
    try:
        for n in (1, 2):
            cut.set_threads(n)
            answers.append(risk.oracle(w))
    finally:
        cut.set_threads(before)
    assert answers[0][0] == answers[1][0]
    np.testing.assert_array_equal(answers[0][1], answers[1][1])


def test_a_path_reuses_labellings():
    problem = cut.Problem(chains(np.asarray, m=30)[0], cut.L2(1.0))
    path = problem.path([0.1, 0.05, 0.02], method=cut.BlockFrankWolfe(), tol=1e-4)
    for lam, result in zip([0.1, 0.05, 0.02], path, strict=True):
        direct = cut.Problem(problem.risk, cut.L2(lam)).solve(cut.ProximalBundle(), tol=1e-6)
        assert result.objective == pytest.approx(direct.objective, rel=2e-4)


def test_examples_without_weight_and_without_features_are_no_obstacle():
    X, y = sequences(m=5)
    whole = ChainRisk(X, y, sample_weight=[1.0, 0.0, 1.0, 0.0, 2.0], n_states=3)
    part = ChainRisk(X[::2], y[::2], sample_weight=[1.0, 1.0, 2.0], n_states=3)
    w = np.random.default_rng(0).standard_normal(whole.dim)
    assert whole(w) == pytest.approx(part(w), rel=1e-12)
    empty = cut.Problem(ChainRisk([np.zeros_like(x) for x in X], y, n_states=3), cut.L2(0.05))
    block, bundle = (
        empty.solve(method, tol=1e-5) for method in (cut.BlockFrankWolfe(), cut.ProximalBundle())
    )
    assert block.status == "OPTIMAL" and block.objective == pytest.approx(bundle.objective, rel=2e-5)
    one_state = ChainRisk(X, [np.zeros_like(part) for part in y], n_states=1)
    assert cut.Problem(one_state, cut.L2(0.05)).solve(cut.BlockFrankWolfe()).objective == 0.0


@pytest.mark.parametrize("name", ["cycles", "pairs of labels"])
def test_relaxed_graphs_are_certified_for_what_they_are(name):
    (outer, known), (exact, _) = built(name, decoder="outer"), built(name)
    assert "outer" in repr(outer)
    points = np.random.default_rng(0).standard_normal((4, outer.dim))
    values = np.array([outer(w) for w in points])
    assert (values >= [exact(w) - 1e-9 for w in points]).all()
    for w in points:
        assert pickle.loads(pickle.dumps(outer))(w) == pytest.approx(outer(w), rel=1e-9)
        value, slope = outer.oracle(w)
        assert (values >= value + (points - w) @ slope - 1e-9).all()
    problem, optimum = cut.Problem(outer, cut.L2(0.1)), n_slack(exact, known, 0.1)
    result = problem.solve(tol=1e-5)
    assert result.status == "OPTIMAL" and result.certificate.verify().valid
    assert result.objective >= optimum * (1.0 - 1e-5)
    with pytest.raises(MissingCapabilityError, match="block ascent"):
        problem.solve(cut.BlockFrankWolfe())
    inner = cut.Problem(built(name, decoder="inner")[0], cut.L2(0.1)).solve(tol=1e-5)
    assert inner.status == "TARGET" and inner.lower_bound <= optimum * (1.0 + 1e-5)


def test_a_relaxation_can_be_loose():
    differ = np.zeros((2, 2, 1))
    differ[0, 1] = differ[1, 0] = 10.0
    w, triangle = np.append(np.zeros(2), differ), np.array([[0, 1], [1, 2], [2, 0]])
    parts = [np.zeros((3, 1))], [[0, 1, 0]], triangle
    assert GraphRisk(*parts)(w) == pytest.approx(3.0)  # [1, 0, 1] errs thrice, and has no fewer pairs
    assert GraphRisk(*parts, decoder="outer")(w) == pytest.approx(30.0 - 20.0 + 1.5)


def test_trees_have_no_outer_and_no_inner_decoder():
    risk, _ = graphs(TREE_CASE[1], decoder="inner")
    assert cut.Problem(risk, cut.L2(0.1)).solve(tol=1e-4).status == "OPTIMAL"
    with pytest.raises(MissingCapabilityError, match="block ascent"):  # to decode all together is faster
        cut.Problem(built("chain of labels")[0], cut.L2(0.1)).solve(cut.BlockFrankWolfe())


@pytest.mark.parametrize("name", ["chains", "trees", "labels", "alignments"])
def test_bounds_of_scores_grow_with_the_weights(name):
    first, _ = built(name)
    w, count = np.random.default_rng(0).standard_normal(first.dim), first.n_examples
    one, three = (built(name, sample_weight=np.full(count, c), normalize=False)[0] for c in (1.0, 3.0))
    assert three.cancelled(w) == pytest.approx(3.0 * one.cancelled(w), rel=1e-12)


def test_a_labelling_worse_than_the_true_one_has_no_share_in_a_cut(monkeypatch):
    risk, _ = graphs([CYCLE], decoder="inner")
    w = 10.0 * np.random.default_rng(0).standard_normal(risk.dim)
    best = risk.labellings
    monkeypatch.setattr(risk, "labellings", lambda unaries, pairs, *ends: best(-unaries, -pairs, *ends))
    value, slope = risk.oracle(w)
    assert value == 0.0 and not slope.any()


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
        assert all(map(np.array_equal, decode(w, X), graph.predict(w, X, edges)))


def test_large_trees_are_split_and_added_up():
    rng = np.random.default_rng(2)
    m, n = 60, 400
    parents = [np.stack([rng.integers(0, np.arange(1, n)), np.arange(1, n)], axis=1) for _ in range(m)]
    X, y = [rng.standard_normal((n, 4)) for _ in range(m)], [rng.integers(6, size=n) for _ in range(m)]
    risk = GraphRisk(X, y, parents, [rng.standard_normal((n - 1, 1)) for _ in range(m)], n_states=6)
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
    W, V = w[: 17 * 3], w[17 * 3 :]
    few = np.append(W[:12], V[:6])
    rest = MultilabelRisk(X, Y[:, 4:], np.array(pairs[6:]) - 4)(np.append(W[12:], V[6:]))
    assert risk(w) == pytest.approx(MultilabelRisk(X, Y[:, :4], pairs[:6])(few) + rest, rel=1e-9)
    assert best_sets(w, X, pairs)[:, :4].tolist() == best_sets(few, X, pairs[:6]).tolist()


def test_a_hierarchy_is_its_tree():
    tree = Hierarchy([-1, 0, 0, 1, 1, 2, -1, 6])  # leaves 3, 4 below 1, 5 below 2, 7 below another root
    assert tree.leaves.tolist() == [3, 4, 5, 7]
    expected = [[0, 2, 4, 5], [2, 0, 4, 5], [4, 4, 0, 5], [5, 5, 5, 0]]
    np.testing.assert_array_equal(tree.distances, expected)
    assert tree.paths.toarray()[0].tolist() == [1, 1, 0, 1, 0, 0, 0, 0]
    V = np.random.default_rng(0).standard_normal((8, 2))
    np.testing.assert_allclose((tree.spread(2) @ V.ravel()).reshape(4, 2), tree.paths @ V)


def test_the_optimum_over_a_hierarchy_is_that_of_the_whole_problem():
    rng = np.random.default_rng(0)
    tree = Hierarchy([-1, 0, 0, 1, 1, 2])
    X, y = rng.standard_normal((20, 2)), rng.integers(3, size=20)
    loss = cut.losses.MulticlassHinge(tree.distances)
    risk = cut.MulticlassRisk(sparse.csr_array(X), y, loss) @ tree.spread(2)
    result = cut.Problem(risk, cut.L2(0.1)).solve(tol=1e-6)
    V = cp.Variable((6, 2))
    scores = X @ (tree.paths.toarray() @ V).T
    own = cp.sum(cp.multiply(np.eye(3)[y], scores), axis=1)
    hinge = cp.max(scores + tree.distances[y], axis=1) - own
    optimum = cp.Problem(cp.Minimize(cp.sum(hinge) / 20 + 0.05 * cp.sum_squares(V))).solve(solver="CLARABEL")
    assert result.objective == pytest.approx(optimum, rel=1e-5)
    assert result.certificate.verify().valid


def chain(*arguments, **options):
    return lambda: ChainRisk(*arguments, **options)


def graph(edges=([(0, 1)],), X=None, **options):
    return lambda: GraphRisk([np.ones((2, 2))] if X is None else X, [[0, 1]], list(edges), **options)


def alignment(*arguments, **options):
    return lambda: AlignmentRisk(*arguments, **options)


TWO = np.ones((2, 2))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (chain(np.ones((3, 2)), [0, 1], None), "one label per row"),
        (chain(np.ones((3, 2)), [0, 1, 0], [2, 2]), "lengths must sum to"),
        (chain(np.ones((3, 2)), [0, 1, 0], [3, 0]), "drop empty sequences"),
        (chain(np.ones((3, 2)), [0, 1, 0], [1.5, 1.5]), "lengths must hold integers"),
        (chain([np.ones((3, 2)), np.ones((1, 3))], [[0, 1, 0], [1]]), "equally many columns"),
        (chain([np.ones((3, 2))], [[0, 1]]), "one label for each row"),
        (chain([np.ones((3, 2))], [["a", "b", "c"]]), "encode y"),
        (chain(np.full((2, 2), np.nan), [0, 1]), "must be finite"),
        (chain(TWO, [0, 1], loss="zero"), "loss must be one of"),
        (lambda: decode(np.ones(19), sequences()[0]), "need S \\(S"),
        (graph(X=TWO), "list of matrices"),
        (graph([[(0, 2)]]), "the nodes are 0 to 1"),
        (graph([[(0, 1), (1, 0)]]), "may occur only once"),
        (graph([[(1, 1)]]), "two different nodes"),
        (graph([[(0, 1)], []]), "one array for each"),
        (graph(edge_features=[np.ones((2, 1))]), "one row for each edge"),
        (graph(loss="zero"), "loss must be one of"),
        (graph(decoder="rough"), "decoder must be one of"),
        (lambda: MultilabelRisk(TWO, [0, 1]), "a row for each row of X"),
        (lambda: MultilabelRisk(TWO, [[0, 2], [1, 1]]), "zeros and ones"),
        (lambda: MultilabelRisk(TWO, [[0, 1], [1, 1]], [[0, 2]]), "pairs"),
        (lambda: best_sets(np.ones(2), TWO, [[0, 1]]), "need L \\* 3"),
        (alignment([[0]], [], [[0]]), "as many entries"),
        (alignment([[]], [[0]], [[0]]), r"A\[0\] must be a nonempty vector of symbols"),
        (alignment([["a"]], [[0]], [[0]]), "encode letters"),
        (alignment([[0, 1]], [[0, 1]], [[1, 0]]), "ascending order"),
        (alignment([[0, 1]], [[0, 1]], [[2, -1]]), "below 2"),
        (alignment([[0, 1]], [[0, 1]], [[0, -1]], n_symbols=1), "a symbol 1"),
        (lambda: align(np.ones(5), [[0]], [[0]]), r"S\^2 \+ 2"),
        (lambda: align(np.ones(6), [[0], [1]], [[0]]), "as many entries"),
        (lambda: Hierarchy([1, 0]), "a cycle"),
        (lambda: Hierarchy([-1, 0, 3, 4, 3]), "a cycle"),
        (lambda: Hierarchy([0.5]), "parents must hold integers"),
    ],
)
def test_wrong_input_is_refused(call, words):
    with pytest.raises(InvalidInputError, match=words):
        call()


@pytest.mark.parametrize(
    ("name", "words"),
    [("chains", "none of 0"), ("pairs of labels", "none of 0"), ("alignments", "no alignment")],
)
def test_forged_labellings_are_refused(name, words):
    risk, _ = built(name)
    honest = risk.block_ascent(cut.L2(0.1).quadratic(risk.dim)).multipliers
    for value in (7.0, -2.0, 0.5):
        forged = honest.copy()
        forged[-1] = value
        with pytest.raises(OracleError, match=words):
            risk.dual_cut(forged)
    with pytest.raises(OracleError, match="no convex combinations"):
        risk.dual_cut(np.ones(3))
    twice, m = honest.copy(), risk.n_examples
    twice[2 * m : 3 * m] *= 2.0  # the shares of the first slot, which are all of them
    assert not honest[:m].max() > 1.0
    for found, expected in zip(risk.dual_cut(twice), risk.dual_cut(honest), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_block_steps_need_equal_weights_and_examples():
    with pytest.raises(MissingCapabilityError, match="equal weights"):
        cut.Problem(built("chains")[0], cut.L1(0.1)).solve(cut.BlockFrankWolfe())
    linear = cut.LinearRisk(np.eye(2), [1.0, -1.0], cut.losses.Hinge())
    with pytest.raises(MissingCapabilityError, match="block ascent"):
        cut.Problem(linear, cut.L2(1.0)).solve(cut.BlockFrankWolfe())


@pytest.mark.parametrize("decoder", ["exact", "outer", "inner"])
def test_graphs_without_nodes_are_refused_and_those_of_one_state_are_right(decoder):
    X, y, edges = [np.eye(2), np.zeros((0, 2))], [[0, 1], []], [[(0, 1)], []]
    risk = GraphRisk(X[:1], y[:1], edges[:1], decoder=decoder)
    for call in (
        lambda: GraphRisk(X, y, edges, decoder=decoder),
        lambda: risk.predict(np.zeros(risk.dim), X, edges),
    ):
        with pytest.raises(InvalidInputError, match=r"X\[1\] has no nodes; drop empty graphs"):
            call()
    for nodes, pairs in ((np.eye(2), [(0, 1)]), (np.eye(3)[:, :2], [(0, 1), (1, 2), (0, 2)])):
        one = GraphRisk([nodes], [[0] * len(nodes)], [pairs], decoder=decoder, n_states=1)
        assert one.oracle(np.ones(one.dim))[0] == 0.0

"""Linear chains: passes against enumeration, optima against one convex solve, certificates that can fail."""

from itertools import pairwise, product

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse

import cutplane as cut
from cutplane.exceptions import InvalidInputError, MissingCapabilityError, OracleError
from cutplane.structured import ChainRisk, decode
from cutplane.testing import check_risk


def features_of(x, labels, n_states):
    """Return the joint feature: emissions, states x features, then transitions."""
    emissions, transitions = np.zeros((n_states, x.shape[1])), np.zeros((n_states, n_states))
    for row, label in zip(x, labels, strict=True):
        emissions[label] += row
    for pair in pairwise(labels):
        transitions[pair] += 1.0
    return np.concatenate([emissions.ravel(), transitions.ravel()])


def chains(m=6, n=3, n_states=3, longest=4, seed=0, integer=False):
    """Return random sequences; with `integer`, small integers, so that scores are often equal."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest + 1, size=m)
    draw = (lambda size: rng.integers(-1, 2, size).astype(float)) if integer else rng.standard_normal
    X = [draw((length, n)) for length in lengths]
    return X, [rng.integers(n_states, size=length) for length in lengths]


def enumerated(X, Y, w, n_states, loss):
    """Return the mean over the sequences of the largest violation, over all labellings."""
    total = 0.0
    for x, y in zip(X, Y, strict=True):
        truth = features_of(x, y.tolist(), n_states) @ w
        violations = []
        for labels in product(range(n_states), repeat=len(y)):
            wrong = np.sum(np.array(labels) != y) / (1 if loss == "hamming" else len(y))
            violations.append(wrong + features_of(x, labels, n_states) @ w - truth)
        total += max(violations)
    return total / len(X)


def n_slack(X, Y, n_states, lam):
    """Return the optimum with Hamming loss by one cvxpy solve with a constraint for every labelling."""
    w, slack = cp.Variable(n_states * (X[0].shape[1] + n_states)), cp.Variable(len(X))
    rows = []
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        truth = features_of(x, y.tolist(), n_states)
        for labels in product(range(n_states), repeat=len(y)):
            wrong = float(np.sum(np.array(labels) != y))
            rows.append(slack[i] >= wrong + (features_of(x, labels, n_states) - truth) @ w)
    problem = cp.Problem(cp.Minimize(cp.sum(slack) / len(X) + 0.5 * lam * cp.sum_squares(w)), rows)
    return problem.solve(solver="CLARABEL")


@pytest.mark.parametrize("integer", [False, True])
def test_values_and_labellings_are_the_best_of_all(integer):
    rng = np.random.default_rng(1)
    for seed in range(25):
        X, Y = chains(seed=seed, integer=integer)
        loss = ("hamming", "share")[seed % 2]
        risk = ChainRisk(X, Y, loss=loss, n_states=3)
        w = rng.integers(-1, 2, risk.dim).astype(float) if integer else rng.standard_normal(risk.dim)
        assert risk(w) == pytest.approx(enumerated(X, Y, w, 3, loss), abs=1e-12)
        for x, found in zip(X, decode(w, X), strict=True):
            scores = [features_of(x, labels, 3) @ w for labels in product(range(3), repeat=len(x))]
            assert features_of(x, found.tolist(), 3) @ w == pytest.approx(max(scores), abs=1e-12)


@pytest.mark.parametrize("loss", ["hamming", "share"])
def test_the_checks_pass(loss):
    X, Y = chains(m=4)
    assert check_risk(ChainRisk(X, Y, loss=loss, sample_weight=[1.0, 0.0, 2.0, 1.0]), n_points=6)


def test_all_layouts_give_the_same_risk():
    X, Y = chains(m=40, n=7)
    lengths, stacked, labels = [len(y) for y in Y], np.concatenate(X), np.concatenate(Y)
    stacked[np.random.default_rng(0).random(stacked.shape) < 0.5] = 0.0
    reference = ChainRisk(stacked, labels, lengths)
    w = np.random.default_rng(0).standard_normal(reference.dim)
    value, slope = reference.oracle(w)
    single = stacked.astype(np.float32)
    kinds = [(kind, stacked, 1e-12) for kind in (sparse.csr_array, sparse.csc_array, np.asfortranarray)]
    for kind, X, tolerance in [*kinds, (sparse.csr_array, single, 1e-6), (np.asarray, single, 1e-6)]:
        again, same = ChainRisk(kind(X), labels, lengths).oracle(w)
        assert again == pytest.approx(value, rel=tolerance)
        np.testing.assert_allclose(same, slope, rtol=0.0, atol=tolerance * np.abs(slope).max())
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
    assert ChainRisk(pieces, Y)(w) == pytest.approx(value, rel=1e-12)


def test_results_do_not_depend_on_the_threads():
    rng = np.random.default_rng(0)
    risk = ChainRisk(rng.standard_normal((6000, 30)), rng.integers(8, size=6000), [6] * 1000)
    assert len(risk.sequences.chunks) > 1
    w, before = rng.standard_normal(risk.dim), cut.get_threads()
    try:
        answers = []
        for n in (1, 2):
            cut.set_threads(n)
            answers.append(risk.oracle(w))
    finally:
        cut.set_threads(before)
    assert answers[0][0] == answers[1][0]
    np.testing.assert_array_equal(answers[0][1], answers[1][1])


@pytest.mark.parametrize("method", [cut.BlockFrankWolfe(), cut.ProximalBundle(), "auto"])
def test_the_optimum_is_that_of_the_n_slack_problem(method):
    X, Y = chains(m=8)
    result = cut.Problem(ChainRisk(X, Y), cut.L2(0.05)).solve(method, tol=1e-6)
    assert result.status == "OPTIMAL"
    assert result.objective == pytest.approx(n_slack(X, Y, 3, 0.05), rel=1e-5)
    assert result.certificate.verify().valid


def test_the_bound_of_block_steps_rises_and_stays_below_the_optimum():
    X, Y = chains(m=10, seed=3)
    problem = cut.Problem(ChainRisk(X, Y), cut.L2(0.02, centre=np.full(18, 0.1)))
    optimum = problem.solve(cut.ProximalBundle(), tol=1e-9).objective
    risk, bounds = problem.risk, []
    ascent = risk.block_ascent(problem.regularizer.quadratic(18))
    for _ in range(12):
        gap = ascent.advance()
        (slope,), (offset,) = risk.dual_cut(ascent.multipliers)
        bounds.append(offset + problem.regularizer.conjugate_minimiser(slope, problem.simple_set).value)
        assert gap >= 0.0
    assert np.diff(bounds).min() >= -1e-12
    assert bounds[0] < bounds[-1] <= optimum + 1e-9
    assert problem.objective(ascent.average) >= optimum - 1e-9
    again = risk.block_ascent(problem.regularizer.quadratic(18), ascent.multipliers)
    np.testing.assert_allclose(again.multipliers, ascent.multipliers, rtol=1e-12)
    np.testing.assert_allclose(again.average, np.full(18, 0.1) - slope / 0.02, atol=1e-12)


@pytest.mark.parametrize(
    ("kind", "tolerance"),
    [(sparse.csr_array, 1e-5), pytest.param(np.float32, 1e-4, marks=pytest.mark.slow)],  # compiled once more
    ids=["sparse", "single precision"],
)
def test_sparse_and_single_precision_data_take_the_same_block_steps(kind, tolerance):
    X, Y = chains(m=30, n=5)
    objectives = [
        cut.Problem(ChainRisk(X, Y), cut.L2(0.02)).solve(cut.BlockFrankWolfe(), tol=1e-5).objective
        for X in (X, [kind(x) for x in X])
    ]
    assert objectives[0] == pytest.approx(objectives[1], rel=tolerance)


def test_a_tampered_certificate_fails(tmp_path):
    X, Y = chains(m=8)
    problem = cut.Problem(ChainRisk(X, Y), cut.L2(0.05))
    result = problem.solve(cut.BlockFrankWolfe(), tol=1e-4)
    certificate = result.certificate
    assert certificate.verify().valid
    key = int(certificate.queries[np.argmax(certificate.multipliers)])
    honest = certificate.duals[key].copy()
    forged = (2 * len(X), 0.1), (-1, honest[-1] + 1.0), (-1, 7.0), (0, honest[0] + 1.0), (3, 0.0)
    for place, value in forged:
        certificate.duals[key] = honest.copy()
        certificate.duals[key][place] = value
        assert not certificate.verify().valid, (place, value)
    certificate.duals[key] = honest[:-1]
    assert not certificate.verify().valid
    certificate.duals[key] = honest
    loaded = cut.load(result.save(tmp_path / "chain"), problem)
    assert loaded.certificate.verify().valid
    assert problem.solve(cut.BlockFrankWolfe(), warm_start=loaded, tol=1e-4).history[-1].iteration <= 1


def test_a_path_reuses_labellings():
    X, Y = chains(m=30, n=5)
    problem = cut.Problem(ChainRisk(X, Y), cut.L2(1.0))
    path = problem.path([0.1, 0.05, 0.02], method=cut.BlockFrankWolfe(), tol=1e-4)
    for lam, result in zip([0.1, 0.05, 0.02], path, strict=True):
        direct = cut.Problem(problem.risk, cut.L2(lam)).solve(cut.ProximalBundle(), tol=1e-6)
        assert result.objective == pytest.approx(direct.objective, rel=2e-4)


def test_examples_without_weight_and_without_features_are_no_obstacle():
    X, Y = chains(m=5)
    weights = [1.0, 0.0, 1.0, 0.0, 2.0]
    some = [i for i, c in enumerate(weights) if c > 0.0]
    whole = ChainRisk(X, Y, sample_weight=weights, n_states=3)
    part = ChainRisk([X[i] for i in some], [Y[i] for i in some], sample_weight=[1.0, 1.0, 2.0], n_states=3)
    for risk in (whole, part, ChainRisk([np.zeros_like(x) for x in X], Y, n_states=3)):
        block, bundle = (
            cut.Problem(risk, cut.L2(0.05)).solve(method, tol=1e-5)
            for method in (cut.BlockFrankWolfe(), cut.ProximalBundle())
        )
        assert block.status == "OPTIMAL"
        assert block.objective == pytest.approx(bundle.objective, rel=2e-5)
    w = np.random.default_rng(0).standard_normal(whole.dim)
    assert whole(w) == pytest.approx(part(w), rel=1e-12)
    one_state = ChainRisk(X, [np.zeros_like(y) for y in Y], n_states=1)
    assert cut.Problem(one_state, cut.L2(0.05)).solve(cut.BlockFrankWolfe()).objective == 0.0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((np.ones((3, 2)), [0, 1], None), "one label per row"),
        ((np.ones((3, 2)), [0, 1, 0], [2, 2]), "lengths must sum to"),
        ((np.ones((3, 2)), [0, 1, 0], [3, 0]), "drop empty sequences"),
        ((np.ones((3, 2)), [0, 1, 0], [1.5, 1.5]), "lengths must hold integers"),
        (([np.ones((3, 2)), np.ones((1, 3))], [[0, 1, 0], [1]]), "equally many columns"),
        (([np.ones((3, 2))], [[0, 1]]), "one label for each row"),
        (([np.ones((3, 2))], [["a", "b", "c"]]), "encode y"),
        ((np.full((2, 2), np.nan), [0, 1]), "must be finite"),
    ],
)
def test_wrong_input_is_refused(arguments, words):
    with pytest.raises(InvalidInputError, match=words):
        ChainRisk(*arguments)


def test_wrong_options_are_refused():
    X, Y = chains()
    with pytest.raises(InvalidInputError, match="loss must be one of"):
        ChainRisk(X, Y, loss="zero")
    with pytest.raises(InvalidInputError, match="which is no S"):
        decode(np.ones(19), X)
    problem = cut.Problem(ChainRisk(X, Y), cut.L1(0.1))
    with pytest.raises(MissingCapabilityError, match="equal weights"):
        problem.solve(cut.BlockFrankWolfe())
    with pytest.raises(MissingCapabilityError, match="block ascent"):
        cut.Problem(cut.LinearRisk(np.eye(2), [1.0, -1.0], cut.losses.Hinge()), cut.L2(1.0)).solve(
            cut.BlockFrankWolfe()
        )
    with pytest.raises(OracleError, match="no convex combinations"):
        problem.risk.dual_cut(np.ones(3))

"""Structured risks from a user's three functions, against enumeration and one convex solve."""

import itertools

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse

import cutplane as cut
from cutplane.exceptions import InvalidInputError, MissingCapabilityError, OracleError
from cutplane.testing import check_risk, check_structured

N, S, LENGTH = 2, 3, 3
DIM = S * N + S * S


def joint_feature(x, y):
    emissions, transitions = np.zeros((S, N)), np.zeros((S, S))
    for row, label in zip(x, y, strict=True):
        emissions[label] += row
    for pair in itertools.pairwise(y):
        transitions[pair] += 1.0
    return np.concatenate([emissions.ravel(), transitions.ravel()])


def as_pair(x, y):
    dense = joint_feature(x, y)
    halves = np.flatnonzero(dense).repeat(2)  # indices may repeat
    return halves, 0.5 * dense[halves]


def as_row(x, y):
    return sparse.csr_array(joint_feature(x, y)[np.newaxis])


def hamming(y, z):
    return float(np.mean(np.asarray(y) != np.asarray(z)))


def zero_one(y, z):
    return float(tuple(y) != tuple(z))


def labellings(x, y=None):
    return itertools.product(range(S), repeat=len(x))


def decoder(loss, rescaling):
    known = {}

    def inference(x, y, w):
        if (x.tobytes(), tuple(y)) not in known:
            found = list(labellings(x))
            features = np.array([joint_feature(x, z) for z in found]) - joint_feature(x, y)
            known[x.tobytes(), tuple(y)] = found, features, np.array([loss(y, z) for z in found])
        found, features, losses = known[x.tobytes(), tuple(y)]
        own = features @ w
        scores = losses + own if rescaling == "margin" else losses * (1.0 + own)
        return found[int(np.argmax(scores))]

    return inference


def examples(m=5, seed=0):
    rng = np.random.default_rng(seed)
    X = [rng.standard_normal((rng.integers(1, LENGTH + 1), N)) for _ in range(m)]
    return X, [tuple(rng.integers(S, size=len(x)).tolist()) for x in X]


def structured(rescaling="margin", loss=hamming, feature=joint_feature, inference=None, **options):
    X, Y = examples()
    inference = inference or decoder(loss, rescaling)
    return cut.StructuredRisk(X, Y, feature, loss, inference, rescaling, dim=DIM, **options)


def n_slack(risk, lam):
    """Return the optimum by one cvxpy solve with a constraint for every labelling."""
    w, slack = cp.Variable(risk.dim), cp.Variable(risk.n_examples)
    rows = []
    for i, x in enumerate(risk.X):
        for y in labellings(x):
            factors, offset = risk.piece(i, y)
            dense = np.zeros(risk.dim)
            factors.add_to(dense, 1.0)
            rows.append(slack[i] >= dense @ w + offset)
    problem = cp.Problem(cp.Minimize(cp.sum(slack) + 0.5 * lam * cp.sum_squares(w)), rows)
    return problem.solve(solver="CLARABEL")


@pytest.mark.parametrize("loss", [hamming, zero_one])
@pytest.mark.parametrize("rescaling", ["margin", "slack"])
def test_the_optimum_is_that_of_the_n_slack_problem(rescaling, loss):
    risk = structured(rescaling, loss)
    result = cut.Problem(risk, cut.L2(0.05)).solve(tol=1e-6)
    assert result.status == "OPTIMAL"
    assert result.certificate.verify().valid
    assert result.objective == pytest.approx(n_slack(risk, 0.05), rel=1e-5)


@pytest.mark.every
@pytest.mark.parametrize("rescaling", ["margin", "slack"])
@pytest.mark.parametrize("kind", [tuple, list, np.array])
def test_block_steps_reach_the_same_optimum(rescaling, kind):
    X, Y = examples()
    inference = decoder(hamming, rescaling)
    risk = cut.StructuredRisk(
        X,
        [kind(y) for y in Y],
        as_pair,
        hamming,
        lambda x, y, w: kind(inference(x, y, w)),
        rescaling,
        dim=DIM,
    )
    problem = cut.Problem(risk, cut.L2(0.05))
    result = problem.solve(cut.BlockFrankWolfe(), tol=1e-4)
    assert result.status == "OPTIMAL"
    assert result.objective == pytest.approx(n_slack(risk, 0.05), rel=1e-4)
    assert result.certificate.verify().valid
    again = problem.solve(cut.BlockFrankWolfe(), tol=1e-4, warm_start=result)
    assert again.history[-1].iteration <= 1
    key = int(result.certificate.queries[np.argmax(result.certificate.multipliers)])
    result.certificate.duals[key][-1] += 1.0
    assert not result.certificate.verify().valid


def test_labellings_of_another_kind_are_solved_by_cuts():
    X, Y = examples()
    words = ["".join(map(str, y)) for y in Y]

    def read(y):
        return tuple(map(int, y))

    risk = cut.StructuredRisk(
        X,
        words,
        lambda x, y: as_pair(x, read(y)),
        lambda y, z: hamming(read(y), read(z)),
        lambda x, y, w: "".join(map(str, decoder(hamming, "margin")(x, read(y), w))),
        dim=DIM,
    )
    problem = cut.Problem(risk, cut.L2(0.05))
    with pytest.raises(MissingCapabilityError, match="block ascent"):
        problem.solve(cut.BlockFrankWolfe())
    assert problem.solve(tol=1e-5).objective == pytest.approx(n_slack(structured(), 0.05), rel=1e-4)


@pytest.mark.parametrize("rescaling", ["margin", "slack"])
def test_the_checks_pass(rescaling):
    risk = structured(rescaling, sample_weight=[1.0, 2.0, 0.0, 1.0, 3.0])
    assert check_risk(risk, n_points=8)
    assert check_structured(risk, labellings)
    assert check_structured(risk)  # every label occurs


def test_margin_and_slack_agree_where_every_loss_is_one():
    margin, slack = structured("margin", zero_one), structured("slack", zero_one)
    for w in np.random.default_rng(0).standard_normal((10, DIM)):
        assert margin(w) == pytest.approx(slack(w), rel=1e-12)


@pytest.mark.parametrize("feature", [as_pair, as_row])
def test_sparse_joint_features_give_the_same_risk(feature):
    dense, other = structured(), structured(feature=feature)
    for w in np.random.default_rng(0).standard_normal((3, DIM)):
        (value, slope), (again, slope_again) = dense.oracle(w), other.oracle(w)
        assert value == pytest.approx(again, rel=1e-12)
        np.testing.assert_allclose(slope, slope_again, atol=1e-12)


def test_a_wrong_decoder_is_found():
    def plain(x, y, w):  # the loss is left out
        return max(labellings(x), key=lambda z: joint_feature(x, z) @ w)

    def last_step(x, y, w):  # a right labelling but for its end
        return (*decoder(hamming, "margin")(x, y, w)[:-1], 0)

    for wrong in (plain, last_step):
        with pytest.raises(OracleError, match=r"but .* has"):
            check_structured(structured(inference=wrong), labellings)
        assert check_structured(structured(inference=wrong, decoder="inner"), labellings)
    with pytest.raises(OracleError, match="the true labelling has the score 0"):
        structured(inference=lambda x, y, w: (0,) * len(x))(np.ones(DIM) @ np.diag(np.arange(DIM)))


def test_an_inner_decoder_gives_lower_bounds_and_no_optimum():
    def beam(x, y, w):  # labellings that differ from the true one in one place at most
        near = [(*y[:t], s, *y[t + 1 :]) for t in range(len(y)) for s in range(S)]
        return max(near, key=lambda z: hamming(y, z) + joint_feature(x, z) @ w)

    risk, exact = structured(inference=beam, decoder="inner"), structured()
    result = cut.Problem(risk, cut.L2(0.05)).solve(tol=1e-6)
    assert result.status == "TARGET"
    assert result.lower_bound <= n_slack(exact, 0.05) + 1e-6


def test_an_outer_decoder_certifies_the_relaxed_risk():
    def soft_feature(x, y):  # y: a row of shares for each position, whose neighbours need not agree
        shares = np.asarray(y[0])
        emissions = shares.T @ x
        return np.concatenate([emissions.ravel(), np.asarray(y[1]).ravel()])

    def soft_loss(y, z):
        return float(1.0 - np.mean((np.asarray(y[0]) * np.asarray(z[0])).sum(axis=1)))

    def whole(x, y):
        pairs = np.zeros((S, S))
        for pair in itertools.pairwise(y):
            pairs[pair] += 1.0
        return np.eye(S)[list(y)], pairs

    def loose(x, y, w):  # labels and pairs of labels each on their own: more than the labellings
        W, T = w[: S * N].reshape(S, N), w[S * N :].reshape(S, S)
        scores = x @ W.T + (1.0 - np.asarray(y[0])) / len(x)
        pairs = np.zeros((S, S))
        pairs.ravel()[np.argmax(T)] = len(x) - 1
        return np.eye(S)[np.argmax(scores, axis=1)], pairs

    X, Y = examples()
    Z = [whole(x, y) for x, y in zip(X, Y, strict=True)]
    relaxed = cut.StructuredRisk(X, Z, soft_feature, soft_loss, loose, decoder="outer")
    exact = structured()
    result = cut.Problem(relaxed, cut.L2(0.05)).solve(tol=1e-5)
    assert result.status == "OPTIMAL"
    assert "outer" in repr(relaxed)
    assert exact(result.x) <= relaxed(result.x) + 1e-12
    assert result.objective >= n_slack(exact, 0.05)
    assert check_structured(relaxed, lambda x, y: [whole(x, z) for z in labellings(x)])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rescaling": "both"}, "rescaling must be one of"),
        ({"loss": lambda y, z: 1.0}, "must be 0"),
        ({"inference": "viterbi"}, "must be a function"),
        ({"decoder": "rough"}, "decoder must be one of"),
    ],
)
def test_wrong_input_is_refused(options, words):
    with pytest.raises(InvalidInputError, match=words):
        structured(**options)


def test_wrong_answers_are_refused():
    for feature in (lambda x, y: np.ones(DIM + 1), lambda x, y: ([DIM], [1.0]), lambda x, y: ([0], [np.nan])):
        with pytest.raises(OracleError, match="joint_feature"):
            structured(feature=feature)(np.zeros(DIM))
    with pytest.raises(InvalidInputError, match="pass dim"):
        cut.StructuredRisk(*examples(), as_pair, hamming, decoder(hamming, "margin"))
    with pytest.raises(InvalidInputError, match="as many entries"):
        cut.StructuredRisk([0], [], as_pair, hamming, decoder(hamming, "margin"))


def test_a_decoder_that_raises_or_changes_its_mind_is_named():
    class Faulty(cut.structured.ExampleSum):
        dim, n_examples, calls = 1, 2, 0

        def __init__(self, answers):
            self.answers = answers

        def decode(self, w, i):
            self.calls += 1
            return self.answers(self.calls)

        def piece(self, i, y):
            return cut.structured.Factors(np.array([0]), np.array([float(self.calls)])), 1.0 + self.calls

    def raises(calls):
        if calls > 5:
            raise ZeroDivisionError("no luck")
        return [1.0]

    for answers, words in ((raises, "no luck"), (lambda calls: np.ones(calls), "pad them in as_numbers")):
        with pytest.raises(OracleError, match=words):
            result = cut.Problem(Faulty(answers), cut.L2(1.0)).solve(cut.BlockFrankWolfe())
            assert result.status == "INVALID_ORACLE"
            raise OracleError(result.reason)


def test_a_time_limit_leaves_bounds_that_are_certified():
    risk = structured()
    result = cut.Problem(risk, cut.L2(1e-3)).solve(cut.BlockFrankWolfe(), tol=1e-12, time_limit=0.2)
    assert result.status in ("TIME_LIMIT", "OPTIMAL")
    assert result.certificate.verify().valid
    assert np.isfinite(result.gap)


def bounded(slack=0.0, requests=None):
    """Return a decoder whose bound exceeds the largest score by at most `slack` and the accuracy."""
    exact = decoder(hamming, "margin")

    def inference(x, y, w, accuracy):
        if requests is not None:
            requests.append(accuracy)
        best = exact(x, y, w)
        score = hamming(y, best) + joint_feature(x, best) @ w
        excess = min(slack, 0.5 * accuracy)
        near = [z for z in labellings(x) if hamming(y, z) + joint_feature(x, z) @ w >= score - excess]
        return near[0], score + excess

    return inference


@pytest.mark.parametrize("method", ["auto", cut.BlockFrankWolfe()])
def test_a_bounded_decoder_is_asked_for_what_the_gap_needs(method):
    requests = []
    risk = structured(inference=bounded(10.0, requests), decoder="bounded", sample_weight=[0, 1, 2, 3, 4])
    exact = structured(sample_weight=[0, 1, 2, 3, 4])
    result = cut.Problem(risk, cut.L2(0.05)).solve(method, tol=1e-6)
    assert result.status == "OPTIMAL" and result.certificate.verify().valid
    assert result.objective == pytest.approx(n_slack(exact, 0.05), rel=1e-5)
    wanted = [each for each in requests if 0.0 < each < np.inf]
    assert min(wanted) < 1e-3 * max(wanted)
    rng = np.random.default_rng(0)
    for accuracy in (np.inf, 1.0, 0.1, 0.0):
        w, other = rng.normal(size=(2, DIM))
        answer = risk.estimate(w, accuracy)
        assert answer.slopes[0] @ other + answer.offsets[0] <= exact(other) + 1e-12
        height = answer.slopes[0] @ w + answer.offsets[0]
        assert height - 1e-12 <= exact(w) <= answer.values[0] + 1e-12
        assert answer.values[0] - height <= accuracy + 1e-12


def test_loose_bounds_are_part_of_the_gap():
    whole = bounded()
    risk = structured(inference=lambda x, y, w, _: (whole(x, y, w, 0.0)[0], whole(x, y, w, 0.0)[1] + 0.1),
                      decoder="bounded")  # fmt: skip
    optimum = n_slack(structured(), 0.05)
    result = cut.Problem(risk, cut.L2(0.05)).solve(tol=1e-6, max_iter=300)
    assert result.status != "OPTIMAL" and result.objective >= optimum + 0.09
    assert optimum * (1 - 1e-3) <= result.lower_bound <= optimum * (1 + 1e-9)
    assert result.certificate.verify().valid


def test_wrong_bounds_are_found():
    whole = bounded()

    def low(x, y, w, accuracy):
        return whole(x, y, w, accuracy)[0], hamming(y, y) + joint_feature(x, y) @ w

    assert check_structured(structured(inference=whole, decoder="bounded"), labellings)
    report = check_structured(
        structured(inference=low, decoder="bounded"), labellings, raise_on_failure=False
    )
    assert [check.name.startswith("the decoder finds") for check in report.failures] == [True]
    for answer in ((1, np.nan), 3, (1,), (1, "high"), (1, -np.inf)):
        risk = structured(inference=lambda *_, answer=answer: answer, decoder="bounded")
        with pytest.raises(OracleError, match="pair"):
            risk.estimate(np.zeros(DIM), 0.0)
    with pytest.raises(InvalidInputError, match="bounded"):
        structured("slack", inference=whole, decoder="bounded")

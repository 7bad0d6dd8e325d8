"""Alignments and class hierarchies, against enumeration and one convex solve."""

from itertools import combinations, pairwise

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse

import cutplane as cut
from cutplane.exceptions import InvalidInputError, OracleError
from cutplane.structured import AlignmentRisk, Hierarchy, align
from cutplane.testing import check_risk

S = 3


def alignments(n, m):
    """Yield every alignment of sequences of these lengths."""
    for k in range(min(n, m) + 1):
        for here in combinations(range(n), k):
            for there in combinations(range(m), k):
                y = np.full(n, -1)
                y[list(here)] = there
                yield y


def features_of(a, b, y):
    """Return the joint feature, gaps counted position by position."""
    feature = np.zeros(S * S + 2)
    here = [(i, j) for i, j in enumerate(y) if j >= 0]
    for i, j in here:
        feature[a[i] * S + b[j]] += 1.0
    ends = [(-1, -1), *here, (len(a), len(b))]
    for (i, j), (k, n) in pairwise(ends):
        for gap in (k - i - 1, n - j - 1):
            feature[-2] += gap > 0
            feature[-1] += gap
    return feature


def pairs(m=5, seed=0):
    rng = np.random.default_rng(seed)
    A, B = ([rng.integers(S, size=rng.integers(1, 5)) for _ in range(m)] for _ in range(2))
    y = []
    for a, b in zip(A, B, strict=True):
        everything = list(alignments(len(a), len(b)))
        y.append(everything[rng.integers(len(everything))])
    return A, B, y


def everything_of(risk):
    """Return features and losses of all alignments, less those of the true one."""
    return [
        [(features_of(a, b, t) - features_of(a, b, own), np.sum((own >= 0) & (t != own)))
         for t in alignments(len(a), len(b))]
        for a, b, own in zip(risk.A, risk.B, risk.y, strict=True)
    ]  # fmt: skip


@pytest.mark.parametrize("integer", [False, True])
def test_values_and_alignments_are_the_best_of_all(integer):
    rng = np.random.default_rng(0)
    for seed in range(12):
        risk = AlignmentRisk(*pairs(seed=seed), loss=("hamming", "share")[seed % 2], n_symbols=S)
        w = rng.integers(-1, 2, risk.dim).astype(float) if integer else rng.standard_normal(risk.dim)
        everything = everything_of(risk)
        expected = sum(
            c * max(cost * loss + psi @ w for psi, loss in each)
            for c, cost, each in zip(risk.weights, risk.costs, everything, strict=True)
        )
        assert risk(w) == pytest.approx(expected, abs=1e-12)
        for a, b, found in zip(risk.A, risk.B, align(w, risk.A, risk.B), strict=True):
            best = max(features_of(a, b, t) @ w for t in alignments(len(a), len(b)))
            assert features_of(a, b, found) @ w == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("method", ["auto", "blockfrankwolfe"])
def test_the_optimum_is_that_of_the_n_slack_problem(method):
    risk = AlignmentRisk(*pairs(m=8), n_symbols=S)
    w, slack = cp.Variable(risk.dim), cp.Variable(risk.n_examples)
    rows = [
        slack[i] >= np.array([psi for psi, _ in each]) @ w + np.array([loss for _, loss in each])
        for i, each in enumerate(everything_of(risk))
    ]
    objective = risk.weights @ slack + 0.05 * cp.sum_squares(w)
    optimum = cp.Problem(cp.Minimize(objective), rows).solve(solver="CLARABEL")
    result = cut.Problem(risk, cut.L2(0.1)).solve(method, tol=1e-5)
    assert result.status == "OPTIMAL"
    assert result.objective == pytest.approx(optimum, rel=2e-5)
    assert result.certificate.verify().valid


def test_the_checks_pass_and_forged_alignments_are_refused():
    risk = AlignmentRisk(*pairs())
    assert check_risk(risk, n_points=4)
    honest = risk.block_ascent(cut.L2(0.1).quadratic(risk.dim)).multipliers
    for value in (7.0, -2.0, 0.5):
        forged = honest.copy()
        forged[-1] = value
        with pytest.raises(OracleError, match="no alignment of pair"):
            risk.dual_cut(forged)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: AlignmentRisk([[0]], [], [[0]]), "as many entries"),
        (lambda: AlignmentRisk([[]], [[0]], [[0]]), r"A\[0\] must be a vector of symbols"),
        (lambda: AlignmentRisk([["a"]], [[0]], [[0]]), "encode letters"),
        (lambda: AlignmentRisk([[0, 1]], [[0, 1]], [[1, 0]]), "ascending order"),
        (lambda: AlignmentRisk([[0, 1]], [[0, 1]], [[2, -1]]), "below 2"),
        (lambda: AlignmentRisk([[0, 1]], [[0, 1]], [[0, -1]], n_symbols=1), "a symbol 1"),
        (lambda: align(np.ones(5), [[0]], [[0]]), r"S\^2 \+ 2"),
        (lambda: align(np.ones(6), [[0], [1]], [[0]]), "as many entries"),
        (lambda: Hierarchy([1, 0]), "circle"),
        (lambda: Hierarchy([-1, 0, 3, 4, 3]), "circle"),
        (lambda: Hierarchy([0.5]), "parents must hold integers"),
    ],
)
def test_wrong_input_is_refused(call, words):
    with pytest.raises(InvalidInputError, match=words):
        call()


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

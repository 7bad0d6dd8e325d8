"""Regularizers of some coordinates, unregularized biases in a problem, and the squared tube."""

import cvxpy as cp
import numpy as np
import pytest
from covering import covering

from cutplane.exceptions import InvalidInputError, MissingCapabilityError
from cutplane.losses import Hinge, Logistic, Squared, SquaredHinge
from cutplane.pieces.capabilities import Capability, offers
from cutplane.problem import Problem
from cutplane.regularizers import (
    L1,
    L2,
    CvxpyRegularizer,
    ElasticNet,
    NegativeEntropy,
    NoRegularizer,
    Regularizer,
    SquaredGroupNorm,
)
from cutplane.regularizers.algebra import Partial
from cutplane.risks import LinearRisk
from cutplane.risks.examples import bias_slopes
from cutplane.risks.multiclass import MulticlassRisk
from cutplane.sets import Box, NonnegativeOrthant
from cutplane.testing import check_regularizer

MASK = np.array([True, False, True, True, False])
W = cp.Variable(3)
INNER = {
    "l2": L2(0.7, centre=[1.0, 0.0, -1.0]),
    "l2, weights": L2(0.7, weights=[1.0, 0.0, 2.0]),
    "l1": L1(0.8),
    "elastic net": ElasticNet(0.9, 0.4),
    "entropy": NegativeEntropy(0.5),
    "groups": SquaredGroupNorm([[0, 2], [1]], 0.6),
    "cvxpy": CvxpyRegularizer(cp.norm_inf(W), W, 0.5),
}


@pytest.mark.parametrize("inner", INNER.values(), ids=INNER.keys())
def test_partial_keeps_its_word(inner):
    partial = Partial(inner, MASK)
    sets = [NonnegativeOrthant()] if isinstance(inner, NegativeEntropy) else [Box(-1, 2), Box(-np.inf, 1)]
    assert check_regularizer(partial, 5, feasible_sets=sets, n_points=6)
    for capability in (Capability.CONJUGATE, Capability.QUADRATIC, Capability.LINEAR_FORM, Capability.CVXPY):
        assert offers(partial, capability) == offers(inner, capability)
    assert partial.lam == inner.lam and partial.with_lam(3.0).lam == 3.0
    expected = ~MASK | (np.array([0, 0, 1, 0, 0], dtype=bool) if inner is INNER["l2, weights"] else False)
    assert (partial.unregularized(5) == expected).all()


class Slopeless(Regularizer):
    lam = 1.0

    def value(self, x):
        return float(x @ x)


@pytest.mark.parametrize(
    ("inner", "mask", "error"),
    [
        (L1(), [1.0, 0.0], InvalidInputError),
        (L1(), [0, 0], InvalidInputError),
        (L1(), [False, False], InvalidInputError),
        (L1(weights=np.ones(2)), MASK, InvalidInputError),
        ("l1", MASK, InvalidInputError),
        (Slopeless(), MASK, MissingCapabilityError),
    ],
)
def test_partial_errors(inner, mask, error):
    with pytest.raises(error):
        Partial(inner, mask)
    with pytest.raises(InvalidInputError, match="dimension 3"):
        Partial(L1(), MASK).check_dim(3)


# Unregularized biases


def balanced(seed, m=60, n=5, shift=0.0):
    """Two classes of equal weight but for rounding: the first cut is flat in the bias."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, n)) + shift
    scores = X @ rng.normal(size=n) + 0.5 * rng.normal(size=m)
    y = np.where(scores > np.quantile(scores, 0.4), 1.0, -1.0)
    weights = np.where(y > 0, 1.0 / (y > 0).sum(), 1.0 / (y < 0).sum()) / 3.0
    return X, y, weights


@pytest.mark.parametrize(
    ("loss", "penalty", "seed"),
    covering([Hinge(), SquaredHinge(), Logistic(), Squared()], ["l2", "l1", "elastic net"], [0, 1, 2]),
    ids=str,
)
def test_a_free_bias_is_certified(loss, penalty, seed):
    X, y, weights = balanced(seed, shift=seed)
    mask = np.arange(6) < 5
    regularizer = {
        "l2": L2(1e-3, weights=1.0 * mask),
        "l1": L1(1e-3, weights=1.0 * mask),
        "elastic net": Partial(ElasticNet(1e-3), mask),
    }[penalty]
    risk = LinearRisk(X, y, loss, sample_weight=weights, intercept=True)
    assert risk.oracle(np.zeros(6))[1][-1] == 0.0
    result = Problem(risk, regularizer).solve(tol=1e-5)
    x = cp.Variable(6)
    whole = cp.Problem(cp.Minimize(risk.cvxpy_form(x) + regularizer.cvxpy_form(x)))
    optimum = whole.solve(solver=cp.CLARABEL)
    assert result.status.name == "OPTIMAL", result.reason
    assert result.lower_bound <= optimum * (1.0 + 1e-6) and result.objective <= optimum * (1.0 + 2e-5)
    assert result.certificate.verify().valid


def test_bias_slopes_are_sums_without_their_rounding():
    u = np.array([0.1, 0.2, -0.3, 1e-3, 1e-20, 0.0])
    assert bias_slopes(u, np.array([0, 3, 6])).tolist() == [0.0, 1e-3 + 1e-20]
    assert bias_slopes(np.stack([u, -u]).T[:3], np.array([0, 3])).tolist() == [[0.0, 0.0]]
    X, y, weights = balanced(0)
    risk = MulticlassRisk(X, (y > 0).astype(int), sample_weight=weights, intercept=True)
    assert (risk.oracle(np.zeros(risk.dim))[1].reshape(2, 6)[:, -1] == 0.0).all()


# The loss


def test_no_regularizer_leaves_everything_free():
    assert Partial(NoRegularizer(), MASK).unregularized(5).all()

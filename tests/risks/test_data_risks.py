"""Laws of every risk of a data matrix, by `check_risk`, cvxpy and the memory that is used."""

import tracemalloc

import numpy as np
import pytest
from covering import covering
from scipy import sparse
from vector_risks import LAYOUTS, features, some_zero, whole_optimum

from cutplane import L2, MeasureRisk, MulticlassRisk, NoveltyRisk, OrdinalRisk, Problem, RankingRisk, Status
from cutplane.losses import (
    Exponential,
    Hinge,
    Logistic,
    ModifiedHuber,
    MulticlassHinge,
    Softmax,
    SquaredHinge,
)
from cutplane.measures import FBeta, RocArea
from cutplane.pieces.capabilities import Capability, offers
from cutplane.risks import LinearRisk
from cutplane.testing import check_risk

MARGINS = [Hinge(), SquaredHinge(), ModifiedHuber(), Logistic(), Exponential()]
COST = np.abs(np.subtract.outer(np.arange(4), np.arange(4))) * np.array([[1.0], [2.0], [0.5], [0.0]])


def labels(X):
    return np.random.default_rng(X.shape[0]).integers(0, 4, X.shape[0])


def signs(X):
    return np.where(labels(X) > 1, 1.0, -1.0)


def linear(loss):
    return lambda X, c: LinearRisk(X, signs(X), loss, c, intercept=True)


def multiclass(loss, intercept=False):
    return lambda X, c: MulticlassRisk(X, labels(X), loss, 4, c, intercept=intercept)


def ordinal(loss, thresholds):
    return lambda X, c: OrdinalRisk(X, labels(X), loss, thresholds, 4, c)


WEIGHTED = {
    **{repr(loss): linear(loss) for loss in MARGINS},
    "MulticlassHinge": multiclass(MulticlassHinge()),
    "MulticlassHinge, costs": multiclass(MulticlassHinge(COST), intercept=True),
    "Softmax": multiclass(Softmax(), intercept=True),
    **{f"OrdinalRisk, {loss}, all": ordinal(loss, "all") for loss in MARGINS},
    **{f"OrdinalRisk, {loss}, immediate": ordinal(loss, "immediate") for loss in MARGINS},
    **{f"NoveltyRisk, {nu}": lambda X, c, nu=nu: NoveltyRisk(X, nu, c) for nu in (0.05, 0.5, 1.0)},
}
PAIRS = {
    "RankingRisk": lambda X, c: RankingRisk(X, labels(X)),
    "RankingRisk, gains": lambda X, c: RankingRisk(X, labels(X), np.arange(X.shape[0]) % 3, "gain"),
    "RocArea": lambda X, c: MeasureRisk(X, signs(X), RocArea()),
    "FBeta": lambda X, c: MeasureRisk(X, signs(X), FBeta(), intercept=True),
}
RISKS = WEIGHTED | PAIRS


@pytest.mark.every
@pytest.mark.parametrize("name", RISKS)
@pytest.mark.parametrize("weighted", [False, True])
def test_checks_find_nothing_wrong(name, weighted):
    rng = np.random.default_rng(0)
    assert check_risk(RISKS[name](features(rng, 23, 5), some_zero(rng, 23) if weighted else None))


@pytest.mark.parametrize(
    ("name", "method", "layout"), covering(WEIGHTED, ["auto", "bmrm", "ocas"], ["csr", "csc", "F"]), ids=str
)
def test_solutions_agree_with_cvxpy(name, method, layout):
    rng = np.random.default_rng(1)
    X = LAYOUTS[layout](features(rng, 60, 5).astype("f") + np.float32(0.5))
    risk, regularizer = WEIGHTED[name](X, some_zero(rng, 60)), L2(0.1)
    result = Problem(risk, regularizer).solve(method, tol=1e-6)
    optimum = whole_optimum(risk, regularizer)
    size = 1e-7 * max(abs(optimum), 0.1)
    assert result.status is Status.OPTIMAL
    assert result.lower_bound - size <= optimum <= result.objective + size
    assert result.objective - optimum <= 2e-6 * abs(optimum) + size


DEGENERATE = {
    "two examples": np.eye(2),
    "one feature": np.ones((3, 1)),
    "one example": np.ones((1, 3)),
    "equal examples": sparse.csc_array(np.ones((4, 2))),
    "zero": np.zeros((4, 2)),
    "empty": sparse.csr_array((4, 2)),
}


@pytest.mark.every
@pytest.mark.parametrize(("name", "data"), covering(list(WEIGHTED)[len(MARGINS) :], DEGENERATE))
def test_degenerate_data(name, data):
    risk = WEIGHTED[name](DEGENERATE[data], None)
    assert check_risk(risk, n_points=4)
    result = Problem(risk, L2(1.0)).solve(tol=1e-6, tol_abs=1e-12)  # the optimum may be 0
    assert result.status is Status.OPTIMAL
    if offers(risk, Capability.CVXPY):
        assert result.objective == pytest.approx(whole_optimum(risk, L2(1.0)), rel=1e-5, abs=1e-6)


@pytest.mark.every
@pytest.mark.parametrize(
    "name", ["Hinge()", "Softmax", "OrdinalRisk, Hinge(), all", "NoveltyRisk, 0.5", *PAIRS]
)
@pytest.mark.parametrize("layout", ["C", "csc"])
def test_no_copy_of_the_data(name, layout):
    X = LAYOUTS[layout](np.random.default_rng(0).standard_normal((4000, 500)).astype(np.float32))
    small = RISKS[name](X[:20], None)
    small.oracle(np.ones(small.dim))  # compiles
    tracemalloc.start()
    risk = RISKS[name](X, None)
    risk.oracle(np.ones(risk.dim))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.25 * X.size * 4 + 2e6 * (layout == "csc")


@pytest.mark.parametrize("name", ["RankingRisk", "RocArea"])
def test_scores_that_overflow_give_an_infinite_value_and_a_zero_slope(name):
    risk = RISKS[name](1e200 * features(np.random.default_rng(0), 23, 5), None)
    value, slope = risk.oracle(np.full(risk.dim, 1e200))
    assert value == np.inf and not slope.any()

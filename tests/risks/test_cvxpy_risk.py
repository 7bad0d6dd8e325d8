from concurrent.futures import ThreadPoolExecutor

import cvxpy as cp
import numpy as np
import pytest
from cvxpy_cases import ATOMS, FITTED, RNG, W

import cutplane as cut
from cutplane.exceptions import InvalidInputError, NotConvexError
from cutplane.pieces.capabilities import Capability, offers
from cutplane.risks import CvxpyRisk, LinearObjective, Risk

DEGENERATE = [
    np.zeros(4),
    np.ones(4),
    -np.ones(4),
    np.array([1.0, 1.0, 0.0, 0.0]),
    np.array([1.0, -1.0, 1.0, -1.0]),
    np.array([0.0, 0.0, 0.0, 1.0]),
    np.array([2.0, 2.0, 1.0, 1.0]),
    np.array([0.0, 0.5, 0.5, 1.0]),
    1e-12 * np.ones(4),
    FITTED,
]
POINTS = [*DEGENERATE, *RNG.standard_normal((6, 4)), *RNG.uniform(0.1, 2.0, (6, 4))]
BOUNDARY = {  # no subgradient at zeros, where the slope is infinite, and 0/0
    "minus entropy",
    "minus entropy + norm",
    "kl_div",
    "minus geo_mean",
    "quad_over_lin",
}


@pytest.mark.parametrize("name", ATOMS)
def test_cvxpy_subgradients(name):
    f = CvxpyRisk(ATOMS[name], W)
    W.value = np.array([5.0, 6.0, 7.0, 8.0])
    answers = [f.oracle(x) for x in POINTS]
    assert W.value.tolist() == [5.0, 6.0, 7.0, 8.0]
    inside = [
        (x, value, slope) for x, (value, slope) in zip(POINTS, answers, strict=True) if np.isfinite(value)
    ]
    assert len(inside) >= 7
    for x, value, slope in inside:
        assert slope.shape == (4,) and slope.dtype == np.float64
        W.value = x
        assert value == pytest.approx(float(ATOMS[name].value))
        for other, at_other, _ in inside:
            terms = np.abs(slope) @ np.abs(other - x)
            assert at_other >= value + slope @ (other - x) - 1e-12 * (1 + abs(value) + abs(at_other) + terms)
    for x, (value, slope) in zip(POINTS, answers, strict=True):
        if not np.isfinite(value):
            assert value == np.inf and not slope.any()
            W.value = x
            violated = not all(constraint.value(tolerance=0.0) for constraint in ATOMS[name].domain)
            with np.errstate(all="ignore"):
                outside = violated or not np.isfinite(ATOMS[name].value)
            assert outside or (name in BOUNDARY and (x == 0.0).any())
    assert (f.infima == (0.0 if ATOMS[name].is_nonneg() else -np.inf)).all()


def test_matrix_variables_are_flattened_by_rows():
    V, C = cp.Variable((2, 3)), np.arange(6.0).reshape(2, 3)
    f = CvxpyRisk(cp.sum(cp.multiply(C, V)), V)
    x = RNG.standard_normal(6)
    assert f.dim == 6
    value, slope = f.oracle(x)
    assert value == pytest.approx((C * x.reshape(2, 3)).sum())
    np.testing.assert_allclose(slope, C.ravel())
    flat = cp.Variable(6)
    form = f.cvxpy_form(flat)
    flat.value = x
    assert form.value == pytest.approx(value)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_scalar_variables_and_expressions(shape):
    v = cp.Variable(shape)
    f = CvxpyRisk(cp.square(v - 1), v)
    value, slope = f.oracle(np.array([3.0]))
    assert f.dim == 1 and value == 4.0 and isinstance(value, float) and slope.tolist() == [4.0]
    assert v.value is None


def test_just_outside_the_domain_is_outside():
    f = CvxpyRisk(cp.matrix_frac(W[:1], cp.reshape(W[1], (1, 1), order="F")), W)
    assert f.oracle(np.array([1.0, 1e-10, 0.0, 0.0]))[0] == pytest.approx(1e10)
    assert f.oracle(np.array([1.0, -1e-10, 0.0, 0.0]))[0] == np.inf


def test_not_convex():
    with pytest.raises(NotConvexError, match=r"curvature CONCAVE.*pass its negative"):
        CvxpyRisk(cp.sum(cp.sqrt(W)), W)
    with pytest.raises(NotConvexError, match=r"w.* curvature UNKNOWN.*https://dcp.cvxpy.org"):
        CvxpyRisk(cp.sum(cp.multiply(W, W)), W)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CvxpyRisk(cp.norm1(W), 2 * W), "variable must be a cvxpy.Variable, got"),
        (lambda: CvxpyRisk(3.0, W), "must be a scalar cvxpy expression, got 3.0"),
        (lambda: CvxpyRisk(cp.abs(W), W), "must be a scalar cvxpy expression"),
        (lambda: CvxpyRisk(cp.norm1(W) + cp.Variable(name="q"), W), r"\['q'\]"),
        (lambda: CvxpyRisk(cp.norm1(cp.Constant([1.0])), W), "is constant; it must depend on w"),
        (
            lambda: CvxpyRisk(cp.Parameter(nonneg=True, name="p") * cp.norm1(W), W),
            r"without a value: \['p'\]",
        ),
        (lambda: (lambda v: CvxpyRisk(cp.sum(v), v))(cp.Variable(2, nonneg=True)), "nonneg"),
        (lambda: CvxpyRisk(cp.sum(cp.cummax(W)), W), "cannot compute a gradient.*@cutplane.risk"),
    ],
)
def test_cvxpy_errors(make, message):
    with pytest.raises(InvalidInputError, match=message):
        make()


def test_cvxpy_risk_in_a_sum_and_its_repr():
    f = 2.0 * CvxpyRisk(cp.norm1(W), W) + LinearObjective(np.ones(4))
    assert isinstance(f, Risk) and offers(f, Capability.CVXPY) and not offers(f, Capability.IMAGE)
    x = cp.Variable(4)
    form = f.cvxpy_form(x)
    x.value = POINTS[5]
    assert form.value == pytest.approx(f.oracle(POINTS[5])[0])
    assert repr(CvxpyRisk(cp.norm1(W), W)) == "CvxpyRisk(norm1(w), w)"
    long = CvxpyRisk(cp.norm1(cp.hstack([W[i % 4] * i for i in range(99)])), W)
    assert len(repr(long)) < 230


@pytest.mark.parametrize("method", [cut.BMRM(), cut.LevelBundle()], ids=repr)
def test_threads_may_share_a_risk(method):
    rng = np.random.default_rng(0)
    A, b = rng.normal(size=(20, 5)), rng.normal(size=20)
    x = cp.Variable(5)
    risk = cut.CvxpyRisk(cp.norm1(A @ x - b), x)
    lams = [0.1, 0.5, 1.0, 5.0]

    def solve(lam):
        return cut.Problem(risk, cut.L2(lam)).solve(method, tol=1e-6)

    alone = [solve(lam) for lam in lams]
    with ThreadPoolExecutor(len(lams)) as pool:
        together = list(pool.map(solve, lams))
    for one, other in zip(alone, together, strict=True):
        assert other.status == "OPTIMAL"
        assert np.array_equal(one.x, other.x)
        assert other.certificate.verify().valid

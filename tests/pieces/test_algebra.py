"""Pieces are algebra: sums, multiples, images, parts and shifts, against cvxpy or the definition."""

import math

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import cutplane as cut
from cutplane.engine.line_search import minimise_on_line
from cutplane.exceptions import InvalidInputError
from cutplane.pieces.capabilities import Capability, offers
from cutplane.regularizers import (
    L1,
    L2,
    CvxpyRegularizer,
    ElasticNet,
    LinearImage,
    NegativeEntropy,
    NoRegularizer,
    Partial,
    QuadraticForm,
    Regularizer,
    RegularizerSum,
    SquaredGroupNorm,
)
from cutplane.risks import (
    AffineRisk,
    CompositeObjective,
    LinearObjective,
    LinearRisk,
    OracleRisk,
    WeightedSum,
)
from cutplane.testing import check_regularizer, check_risk

RNG = np.random.default_rng(0)
N, M = 6, 40
X, XA, XB = (RNG.standard_normal((M, n)) for n in (N, 4, 5))
Y = np.where(X[:, 0] + 0.5 * RNG.standard_normal(M) > 0, 1.0, -1.0)
B = RNG.standard_normal((5, N))
D = np.diff(np.eye(N), axis=0)
CENTRE = RNG.standard_normal(N)
MAPS = {
    "dense": lambda A: A,
    "float32": lambda A: A.astype(np.float32),
    "sparse matrix": sparse.csc_matrix,
    "sparse array": sparse.coo_array,
    "operator": aslinearoperator,
}


def hinge(A=X, y=Y, **options):
    return LinearRisk(A, y, cut.losses.Hinge(), **options)


def absolute(A=XB, y=X[:, 1], **options):
    return LinearRisk(A, y, cut.losses.Absolute(), **options)


def logistic(A=XB):
    return LinearRisk(A, Y, cut.losses.Logistic())


def black_box(A=XB):
    return OracleRisk(
        lambda x: (np.abs(A @ x).max(), A[np.abs(A @ x).argmax()] * np.sign(A @ x)[np.abs(A @ x).argmax()]),
        A.shape[1],
        infimum=0.0,
    )


def minimum(expression, constraints=()):
    problem = cp.Problem(cp.Minimize(expression), list(constraints))
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return problem.value


# Regularizers


GROUPED = SquaredGroupNorm([[0, 1], [2]], 0.6)
SUMS = {
    "l1 + l2": L1(0.3) + L2(0.2),
    "centres": L1(0.3) + L2(0.2, CENTRE) + L2(0.4, -CENTRE),
    "parts": L2(0.3).on(slice(0, 4)) + L1(0.2).on(slice(2, None)),
    "negative index": ElasticNet(0.4).on([-1, 0]) + 0.5 * L2(1.0),
    "apart": GROUPED.on(slice(0, 3)) + L1(0.2).on(slice(3, None)),
    "entropy and l2": NegativeEntropy(0.4).on([0, 1, 2]) + L2(0.2),
    "form": QuadraticForm(np.eye(N) + B.T @ B, CENTRE, 0.3) + L1(0.1),
    "variation": L1(0.3) @ D,
    "fused": L1(0.3) @ D + L1(0.1),
    "part of an image": (L1(0.3) @ D).on(slice(0, N)),
    "image of a part": L2(0.3).on(slice(0, 3)) @ B,
    "image of a sum": (L1(0.1) + L2(0.2)) @ B,
    "smooth image": L2(0.3) @ B + L2(1e-2),
    "multiple": 3 * (0.5 * L1(0.1) + L2(0.2)) * 2,
}


@pytest.mark.parametrize("g", SUMS.values(), ids=SUMS)
def test_a_composite_regularizer_keeps_its_word(g):
    sets = [cut.Box(0.1, 2.0), cut.Box(0.0, np.inf), cut.Simplex()]
    assert check_regularizer(
        g, N, feasible_sets=sets if g.domain is not None else [*sets, cut.Box(-1, 2)], n_points=5
    )
    assert g.with_lam(0.0).value(np.ones(N)) == 0.0
    assert g.resolve(N).value(np.ones(N)) == g.value(np.ones(N))


@pytest.mark.parametrize("g", SUMS.values(), ids=SUMS)
def test_a_problem_with_a_composite_regularizer(g):
    x = cp.Variable(N)
    loss = cp.sum(cp.pos(1 - cp.multiply(Y, X @ x))) / M
    result = cut.Problem(hinge(), g).solve(tol=1e-7)
    assert result.status == "OPTIMAL", result
    assert result.objective == pytest.approx(minimum(loss + g.resolve(N).cvxpy_form(x)), rel=2e-6, abs=1e-7)
    assert result.certificate.verify().valid


@pytest.mark.parametrize("as_map", MAPS.values(), ids=MAPS)
def test_images_of_any_kind_of_matrix(as_map):
    exact, found = (
        L1(0.3) @ B.astype(np.float32).astype(float),
        L1(0.3) @ as_map(B.astype(np.float32).astype(float)),
    )
    x = RNG.standard_normal(N)
    assert found.value(x) == pytest.approx(exact.value(x), rel=1e-12)
    np.testing.assert_allclose(found.subgradient(x), exact.subgradient(x), rtol=1e-12)
    assert check_regularizer(found, N, n_points=5)
    risk = absolute() @ as_map(B.astype(np.float32).astype(float))
    expected = absolute() @ B.astype(np.float32).astype(float)
    assert risk(x) == pytest.approx(expected(x), rel=1e-12)
    np.testing.assert_allclose(risk.oracle(x)[1], expected.oracle(x)[1], rtol=1e-12)
    assert check_risk(risk)
    many = absolute(blocks=3) @ as_map(B)
    assert many.oracle(x)[1].shape == (3, N)
    assert check_risk(many)


def test_images_of_a_diagonal_matrix():
    found, exact = (hinge(blocks=3) @ matrix for matrix in (sparse.diags_array(CENTRE), np.diag(CENTRE)))
    x = RNG.standard_normal(N)
    assert repr(found) == repr(exact) and found(x) == pytest.approx(exact(x), rel=1e-12)
    np.testing.assert_allclose(found.oracle(x)[1], exact.oracle(x)[1], rtol=1e-12)
    assert check_risk(found) and check_regularizer(L1(0.3) @ sparse.diags_array(CENTRE), N, n_points=5)


def test_a_sum_is_flat_and_scales():
    g = L1(0.1) + (L2(0.2) + 2.0 * (L1(0.3) + L2(0.4)))
    assert isinstance(g, RegularizerSum)
    assert [term.lam for term in g.summands] == pytest.approx([0.1, 0.2, 0.6, 0.8])
    assert g.with_lam(2.0).value(np.ones(2)) == pytest.approx(2.0 * g.value(np.ones(2)))
    assert sum([L1(0.1), L2(0.2)]).value(np.ones(2)) == pytest.approx(0.4)
    assert sum([L1(0.1)]).lam == 0.1 and (np.float32(2) * L1(0.5)).lam == 1.0
    assert repr(0.5 * g) == "L1(lam=0.05) + L2(lam=0.1) + L1(lam=0.3) + L2(lam=0.4)"
    assert (L1(0.0) + L2(0.0)).lam == 0.0 and (NoRegularizer() + L2(0.3)).quadratic(2).weights.tolist() == [
        0.3
    ] * 2


def test_a_sum_of_quadratics_keeps_its_constant():
    form = (L2(1.0, [2.0, 0.0]) + L2(3.0, [0.0, 0.0]) + L2(1.0, weights=[0.0, 0.0])).quadratic(2)
    assert form.weights.tolist() == [4.0, 4.0] and form.centre.tolist() == [0.5, 0.0]
    assert form.constant == pytest.approx(1.5)
    assert form.in_unit(2.0)(np.array([1.0, 1.0])) == pytest.approx(form(np.array([2.0, 2.0])))
    x, centre = cp.Variable(N), np.full(N, 50.0)
    loss = cp.sum(cp.pos(1 - cp.multiply(Y, X @ x))) / M
    g = L2(1.0, centre) + L2(1.0, -centre)
    for method in ("auto", cut.LevelBundle(), cut.ProximalBundle(), cut.BMRM()):
        result = cut.Problem(hinge(), g, cut.Box(-3, 3)).solve(method, tol=1e-7)
        assert result.status == "OPTIMAL" and result.certificate.verify().valid
        bounds = [x >= -3, x <= 3]
        assert result.objective == pytest.approx(minimum(loss + g.cvxpy_form(x), bounds), rel=1e-6)


def test_a_sum_offers_what_all_its_terms_offer():
    class Bare(Regularizer):
        lam = 1.0

        def value(self, x):
            return float(x @ x)

    for missing in (
        Capability.SUBGRADIENT,
        Capability.CVXPY,
        Capability.UNIT,
        Capability.CONJUGATE,
        Capability.LINE,
    ):
        assert not offers(L1() + Bare(), missing) and offers(L1() + L2(), missing)
    assert not offers(L1() @ D + L2(), Capability.CONJUGATE) and offers(
        L1() @ D + L1(), Capability.LINEAR_FORM
    )
    assert not offers(L1() + L2(), Capability.LINEAR_FORM)
    assert not offers(Bare() @ D, Capability.LINE)
    assert (L1() @ D + L1()).linear_form(N).n_columns == N + (N - 1) + (N - 1) + N
    with pytest.raises(cut.MissingCapabilityError, match="slope"):
        cut.Problem(hinge(), L1() + Bare()).solve(cut.OCAS())


def test_a_sum_of_l1_and_l2_has_the_closed_forms_of_the_elastic_net():
    net, total = ElasticNet(0.5, 0.4), L1(0.2) + L2(0.3)
    v = RNG.standard_normal(N)
    for feasible_set in (cut.WholeSpace(), cut.Box(-0.3, 0.5), cut.Simplex()):
        one, other = (g.conjugate_minimiser(v, feasible_set, math.inf) for g in (net, total))
        assert one.value == other.value and (one.x == other.x).all()


def test_apart_the_budget_is_shared():
    """Where a term alone is unbounded below, what the others need of the budget is theirs."""
    g = L1(1.0).on([0, 1]) + NegativeEntropy(1.0).on([2, 3])
    v = np.array([3.0, 0.0, 0.0, 0.0])
    everywhere = g.domain.resolve(4)
    assert g.conjugate_minimiser(v, everywhere, math.inf).value == -math.inf
    budget = 2.0
    least = g.conjugate_minimiser(v, everywhere, budget).value
    for _ in range(2000):
        x = np.append(3 * RNG.standard_normal(2), RNG.exponential(size=2))
        assert g.value(x) > budget or least <= g.value(x) + v @ x + 1e-12
    assert math.isfinite(least)


def test_a_path_scales_every_term():
    g = L1(0.3) + 2 * L2(0.5)
    path = cut.Problem(hinge(), g).path([1.0, 0.1], tol=1e-6)
    x = cp.Variable(N)
    loss = cp.sum(cp.pos(1 - cp.multiply(Y, X @ x))) / M
    for lam, result in zip(path.lams, path, strict=True):
        assert result.objective == pytest.approx(minimum(loss + lam * g.cvxpy_form(x)), rel=1e-5)


# Risks


V = cp.Variable(N)
RISKS = {
    "image": (absolute() @ B, cp.sum(cp.abs(XB @ (B @ V) - X[:, 1])) / M),
    "part": (hinge(XA).on(slice(1, 5), dim=N), cp.sum(cp.pos(1 - cp.multiply(Y, XA @ V[1:5]))) / M),
    "mask": (hinge(XA).on(np.arange(N) > 1), cp.sum(cp.pos(1 - cp.multiply(Y, XA @ V[2:]))) / M),
    "order": (hinge(XA).on([3, -1, 0, 1]), None),
    "shift": (hinge().shift(CENTRE), cp.sum(cp.pos(1 - cp.multiply(Y, X @ (V + CENTRE)))) / M),
    "shifted image": (
        (logistic() @ B).shift(CENTRE),
        cp.sum(cp.logistic(-cp.multiply(Y, XB @ (B @ (V + CENTRE))))) / M,
    ),
    "image of a shift": (
        logistic().shift(CENTRE[:5]) @ B,
        cp.sum(cp.logistic(-cp.multiply(Y, XB @ (B @ V + CENTRE[:5])))) / M,
    ),
    "black box": (black_box() @ B, cp.norm_inf(XB @ (B @ V))),
    "blocks": (absolute(blocks=4) @ B, cp.sum(cp.abs(XB @ (B @ V) - X[:, 1])) / M),
    "sum": (
        0.5 * hinge(XA).on(slice(0, 4)) + absolute() @ B,
        0.5 * cp.sum(cp.pos(1 - cp.multiply(Y, XA @ V[:4]))) / M + cp.sum(cp.abs(XB @ (B @ V) - X[:, 1])) / M,
    ),
    "image of a sum": (
        (logistic() + absolute()).disaggregated() @ B,
        cp.sum(cp.logistic(-cp.multiply(Y, XB @ (B @ V)))) / M + cp.sum(cp.abs(XB @ (B @ V) - X[:, 1])) / M,
    ),
    "linear": (LinearObjective(CENTRE[:5]) @ B, CENTRE[:5] @ (B @ V)),
    "intercept": (hinge(XB, intercept=True), cp.sum(cp.pos(1 - cp.multiply(Y, XB @ V[:5] + V[5]))) / M),
}


@pytest.mark.parametrize("risk", [risk for risk, _ in RISKS.values()], ids=RISKS)
def test_a_composite_risk_keeps_its_word(risk):
    assert check_risk(risk)
    x = RNG.standard_normal(risk.dim)
    assert isinstance(risk(x), float) and risk(x) == np.sum(risk.oracle(x)[0])
    if offers(risk, Capability.CVXPY):
        v = cp.Variable(risk.dim)
        v.value = x
        assert risk.cvxpy_form(v).value == pytest.approx(risk(x), rel=1e-9)


@pytest.mark.parametrize("name", [name for name, (_, expression) in RISKS.items() if expression is not None])
def test_a_problem_with_a_composite_risk(name):
    risk, expression = RISKS[name]
    result = cut.Problem(risk, L2(0.05)).solve(tol=1e-7)
    assert result.status == "OPTIMAL", result
    assert result.objective == pytest.approx(minimum(expression + 0.025 * cp.sum_squares(V)), rel=1e-6)
    assert result.certificate.verify().valid


def test_multipliers_give_cuts_of_images_too():
    f = hinge().shift(CENTRE) @ np.eye(N)
    slopes, offsets = f.dual_cut(np.where(Y > 0, -0.5, 0.5))
    for x in RNG.standard_normal((20, N)):
        assert slopes[0] @ x + offsets[0] <= f(x) + 1e-12
        tight, offset = f.dual_cut(hinge().example_slopes(x + CENTRE))
        assert tight[0] @ x + offset[0] == pytest.approx(f(x), abs=1e-12)
    smooth = logistic().on(slice(0, 5), dim=N)
    x, d = RNG.standard_normal((2, N))
    bound = smooth.curvature_bound(x, d)
    slope = smooth.oracle(x)[1] @ d
    for t in (-1.0, 0.1, 1.0):
        assert smooth(x + t * d) <= smooth(x) + t * slope + 0.5 * bound * t * t + 1e-12


def test_the_lines_of_images_are_exact():
    f = hinge(XA).on(slice(0, 4), dim=N).shift(CENTRE)
    start, end = RNG.standard_normal((2, N))
    line = f.line(f.image(start), f.image(end))
    t = minimise_on_line(line, math.inf)
    grid = np.append(np.linspace(0, 3, 301), t)
    assert min(grid, key=lambda s: f(start + s * (end - start))) == t or f(start + t * (end - start)) <= min(
        f(start + s * (end - start)) + 1e-12 for s in grid
    )


# Dimensions


def test_open_dimensions_come_from_the_other_terms_the_set_or_the_regularizer():
    part = hinge(XA).on(slice(1, 5))
    assert part.open and part.dim == 5 and hinge(XA).on(slice(None, -1)).dim == 5
    assert (part + absolute() @ B).dim == N and not (part + absolute() @ B).open
    both = part + logistic().on(slice(2, 7))
    assert both.open and both.dim == 7 and both.resolve(9).dim == 9
    assert (2 * both + LinearObjective(np.ones(8))).dim == 8
    assert cut.Problem(part, L2(1.0)).dim == 5
    assert cut.Problem(part, L2(1.0, np.ones(8))).dim == 8
    assert cut.Problem(part, L1() @ D).dim == N
    assert cut.Problem(part, L2(1.0), cut.Box(-1, 1, dim=9)).dim == 9
    assert (part @ D[:, :]).dim == N
    assert (
        cut.Problem(part, NegativeEntropy(0.1).on(slice(0, 2)), cut.Box(-1, 1, dim=9))
        .simple_set.bounds(9)[0]
        .tolist()
        == [0] * 2 + [-1] * 7
    )


def test_a_part_of_an_open_vector_is_regularized():
    g = L1(0.5).on(slice(1, None))
    for n in (3, 7):
        assert g.value(np.ones(n)) == 0.5 * (n - 1) and g.unregularized(n).tolist() == [True] + [False] * (
            n - 1
        )
        assert g.quadratic(n) is None if offers(g, Capability.QUADRATIC) else True
    assert isinstance(g, Partial) and repr(g) == "L1(lam=0.5).on(slice(1, None))"
    assert Partial(L1(), [True, False]).mask.tolist() == [True, False]
    w = cp.Variable(2)
    assert CvxpyRegularizer(cp.norm2(w), w).on([0, 3]).value(np.array([3.0, 9.0, 9.0, 4.0])) == pytest.approx(
        5.0
    )


# A risk plus a regularizer


def test_a_risk_plus_a_regularizer_is_a_problem():
    y = np.cumsum(RNG.standard_normal(20))
    second = np.diff(np.eye(20), 2, axis=0)
    trend = LinearRisk(np.eye(20), y, cut.losses.Absolute()) + L1(2.0) @ second
    assert isinstance(trend, CompositeObjective) and isinstance(trend.regularizer, LinearImage)
    x = cp.Variable(20)
    expression = cp.sum(cp.abs(x - y)) / 20 + 2 * cp.norm1(second @ x)
    result = cut.Problem(trend).solve(tol=1e-7)
    assert result.objective == pytest.approx(minimum(expression), rel=1e-6)
    assert trend(result.x) == pytest.approx(result.objective, rel=1e-12)
    more = L2(0.1) + 2 * trend + LinearObjective(y) + sum([trend])
    expression = 3 * expression + 0.05 * cp.sum_squares(x) + y @ x
    result = cut.Problem(more, feasible_set=cut.Box(-1, 4)).solve(tol=1e-7)
    assert result.objective == pytest.approx(minimum(expression, [x >= -1, x <= 4]), rel=1e-6)
    result = cut.Problem(trend, L2(0.1)).solve(tol=1e-7)
    assert result.objective == pytest.approx(trend(result.x) + 0.05 * result.x @ result.x)
    assert repr(hinge() + L1()) == "LinearRisk(Hinge(), 40 x 6 dense float64) + L1(lam=1)"
    small = (absolute() + L2(0.3)) @ B
    assert small(CENTRE) == pytest.approx(absolute()(B @ CENTRE) + 0.15 * (B @ CENTRE) @ (B @ CENTRE))


def test_the_solution_is_read_only():
    result = cut.Problem(hinge(), L2(0.1)).solve()
    with pytest.raises(ValueError, match="read-only"):
        result.x[0] = 1.0


# Errors


class Forward(LinearOperator):
    """An operator without a transpose."""

    def __init__(self):
        super().__init__(np.float64, (5, N))

    def _matvec(self, x):
        return B @ x


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: B.T @ absolute(), TypeError, "written risk @ B"),
        (lambda: sparse.csr_array(B.T) @ absolute(), TypeError, "written risk @ B"),
        (lambda: B @ L1(), TypeError, "written g @ B"),
        (lambda: B @ (absolute() + L1()), TypeError, "written f @ B"),
        (lambda: absolute() @ B.T, InvalidInputError, r"shape \(5, any\), got shape \(6, 5\)"),
        (lambda: absolute() @ np.ones(5), InvalidInputError, "two dimensions"),
        (lambda: absolute() @ np.full((5, 2), np.nan), InvalidInputError, "every entry must be finite"),
        (lambda: absolute() @ "B", InvalidInputError, "must hold real numbers"),
        (lambda: absolute() @ Forward(), InvalidInputError, "needs rmatvec"),
        (lambda: absolute() @ aslinearoperator(1j * B), InvalidInputError, "must be real"),
        (lambda: L1(weights=np.ones(3)) @ B, InvalidInputError, r"shape \(3, any\)"),
        (lambda: L1() @ np.ones((0, 3)), InvalidInputError, "at least one row"),
        (lambda: absolute().on([]), InvalidInputError, "nonempty"),
        (lambda: L1().on([0.5]), InvalidInputError, "integers or booleans"),
        (lambda: L1().on([1, 1]), InvalidInputError, "twice"),
        (lambda: L1().on([1, -1], dim=2), InvalidInputError, "twice"),
        (lambda: L1().on(slice(3, 3), dim=5), InvalidInputError, "selects nothing"),
        (lambda: absolute().on([0, 1]), InvalidInputError, "function of 5"),
        (lambda: absolute().on(slice(0, 3)), InvalidInputError, "does not select 5 coordinates of any"),
        (lambda: absolute().on(slice(0, 5), dim=4), InvalidInputError, "beyond"),
        (lambda: absolute().on([True] * 5, dim=7), InvalidInputError, "mask has 5 entries"),
        (lambda: absolute().shift(np.ones(4)), InvalidInputError, r"shape \(5,\)"),
        (lambda: absolute() + hinge(), InvalidInputError, "same dimension"),
        (lambda: absolute() + 1, TypeError, "unsupported"),
        (lambda: L1() + 1, TypeError, "unsupported"),
        (lambda: -1 * L1(), InvalidInputError, "factor of a regularizer"),
        (lambda: cut.Problem(hinge(), L1().on(slice(0, 9))), InvalidInputError, "beyond"),
        (lambda: cut.Problem(hinge(), L1() @ np.eye(3)), InvalidInputError, "3 coordinates"),
        (lambda: hinge()(np.ones(3)), InvalidInputError, r"shape \(6,\)"),
        (lambda: absolute().resolve(7), InvalidInputError, "dimension 7 is needed"),
        (lambda: RegularizerSum(()), InvalidInputError, "must be regularizers"),
    ],
)
def test_mistakes_are_named(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_the_kind_of_a_composite_follows_its_parts():
    assert isinstance(absolute() @ B, cut.ImagedRisk) and isinstance(absolute() @ B, AffineRisk)
    assert not isinstance(black_box() @ B, cut.ImagedRisk)
    assert isinstance(absolute() @ B + hinge(), WeightedSum) and isinstance(
        absolute() @ B + hinge(), cut.ImagedRisk
    )
    assert (LinearObjective(np.ones(5)) @ B).linear and not (absolute() @ B).linear
    assert (black_box() @ B).black_box and not (absolute() @ B).black_box

"""Regularizers: their conjugates over every set, their forms, and their values, against cvxpy."""

import math
import warnings
from dataclasses import dataclass
from itertools import product

import cvxpy as cp
import numpy as np
import pytest
from covering import covering
from regularizer_cases import DIM, FACTOR, REGULARIZERS, RNG, W
from scipy import sparse
from set_cases import SETS

from cutplane.exceptions import InvalidInputError, MissingCapabilityError, NotConvexError
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
    QuadraticForm,
    Regularizer,
    RelativeEntropy,
    SquaredGroupNorm,
)
from cutplane.regularizers.algebra import Partial
from cutplane.risks import LinearRisk
from cutplane.risks.examples import bias_slopes
from cutplane.risks.multiclass import MulticlassRisk
from cutplane.sets import (
    Box,
    NonnegativeOrthant,
    Simplex,
    WholeSpace,
)
from cutplane.testing import check_regularizer

BOXES = {"whole", "box", "box, vectors", "half-open box", "orthant", "linf"}
SIMPLICES = {"simplex", "wide simplex", "capped", "capped, vectors"}
BALLS = {"l1", "l2"}
SETS = {name: SETS[name] for name in (*BOXES, *SIMPLICES, *BALLS, "polyhedron", "intersection", "cvxpy")}
CLOSED = {
    "l2, weights": BOXES,
    "l1": BOXES | SIMPLICES,
    "l1, weights": BOXES | SIMPLICES,
    "elastic net": BOXES | SIMPLICES,
    "elastic net, all l1": BOXES | SIMPLICES,
    "entropy": BOXES | SIMPLICES,
    "entropy, lam 0": BOXES | SIMPLICES,
    "relative entropy": BOXES | SIMPLICES,
    "relative entropy, scalar": BOXES | SIMPLICES,
    "groups, p 1": {"whole"},
    "groups, p 4/3": {"whole"},
    "groups, p 2": {"whole"},
    "groups, p 3": {"whole"},
    "quadratic": {"whole"},
    "quadratic, sparse": {"whole"},
    "sum": BOXES | SIMPLICES,
    "sum, weights": BOXES,
    "sum, partly flat": BOXES,
    "sum, one term": {"whole"},
    "sum, apart": {"whole"},
    "quadratic, singular": {"whole"},
}
PAIRS = [(r, s) for r in REGULARIZERS if r != "cvxpy" for s in CLOSED.get(r, BOXES | SIMPLICES | BALLS)]
PAIRS = sorted(PAIRS)
each_regularizer = pytest.mark.parametrize("regularizer", REGULARIZERS.values(), ids=REGULARIZERS.keys())


def directions():
    rng = np.random.default_rng(5)
    ties = rng.choice([-1.0, 0.0, 1.0], DIM)
    return [
        np.zeros(DIM),
        rng.standard_normal(DIM),
        5 * rng.standard_normal(DIM),
        ties,
        np.full(DIM, -0.8),
    ]


def domain(regularizer):
    return isinstance(regularizer, NegativeEntropy | RelativeEntropy)


def draw(regularizer, rng=RNG):
    x = rng.standard_normal(DIM)
    return np.abs(x) if domain(regularizer) else x


def by_cvxpy(regularizer, feasible_set, budget=None):
    """The minimum as a function of v."""
    x, slope = cp.Variable(DIM), cp.Parameter(DIM)
    omega = regularizer.cvxpy_form(x)
    constraints = feasible_set.cvxpy_form(x) + ([] if budget is None else [omega <= budget])
    problem = cp.Problem(cp.Minimize(omega + slope @ x), constraints)

    def minimum(v):
        slope.value = v
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            problem.solve(cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
        return problem.value

    return minimum


@pytest.mark.parametrize(("name", "set_name"), PAIRS)
def test_conjugate_minimiser_is_the_minimum(name, set_name):
    regularizer, feasible_set = REGULARIZERS[name], SETS[set_name]
    least = by_cvxpy(regularizer, feasible_set)
    for v in directions():
        minimum, best = regularizer.conjugate_minimiser(v, feasible_set, math.inf), least(v)
        if not np.isfinite(best):
            assert minimum.value == best
            assert minimum.x is None
            continue
        assert minimum.value == pytest.approx(best, rel=1e-6, abs=1e-6)
        assert feasible_set.violation(minimum.x) <= 1e-13
        attained = regularizer.value(minimum.x) + v @ minimum.x
        assert attained == pytest.approx(minimum.value, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(("name", "set_name"), PAIRS)
def test_conjugate_minimiser_is_a_lower_bound_at_any_size(name, set_name):
    """No feasible point is below the value, whatever the size of v."""
    regularizer, feasible_set = REGULARIZERS[name], SETS[set_name]
    rng = np.random.default_rng(6)
    for scale, direction in product([1e-12, 1e6, 1e15, 1e300], directions()):
        v = scale * direction
        value = regularizer.conjugate_minimiser(v, feasible_set, math.inf).value
        assert not math.isnan(value)
        for _ in range(4):
            y = feasible_set.project(rng.choice([0.1, 1.0, 10.0]) * rng.standard_normal(DIM) - direction)
            other = regularizer.value(y) + v @ y
            assert value <= other + 1e-13 * (1 + abs(other) + np.abs(v) @ np.abs(y))


def test_a_minimum_that_overflows_is_none():
    minimum = NegativeEntropy(1.0).conjugate_minimiser(np.full(2, -1e6), NonnegativeOrthant(), math.inf)
    assert minimum.value == -math.inf and minimum.x is None


def test_pairs_without_a_closed_form_say_so():
    v = np.ones(DIM)
    for name, regularizer in REGULARIZERS.items():
        if name == "cvxpy":
            continue
        for set_name, feasible_set in SETS.items():
            minimum = regularizer.conjugate_minimiser(v, feasible_set, math.inf)
            assert (minimum is not None) == ((name, set_name) in PAIRS), (name, set_name)


# --- the budget of the l1 norm --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["l1", "l1, weights"])
@pytest.mark.parametrize("set_name", sorted(BOXES))
@pytest.mark.parametrize("budget", [4.0, 40.0])
def test_a_budget_gives_a_finite_lower_bound(name, set_name, budget):
    """Exact on the whole space; elsewhere between the minimum without the budget and the minimum with it."""
    regularizer, feasible_set = REGULARIZERS[name], SETS[set_name]
    least = by_cvxpy(regularizer, feasible_set, budget)
    for v in directions():
        without = regularizer.conjugate_minimiser(v, feasible_set, math.inf).value
        minimum = regularizer.conjugate_minimiser(v, feasible_set, budget)
        best = least(v)
        assert minimum.value >= without - 1e-12 * abs(without if np.isfinite(without) else 0)
        assert minimum.value <= best + 1e-6 * (1 + abs(best)) or not np.isfinite(best)
        if set_name == "whole":
            assert minimum.value == pytest.approx(best, rel=1e-6, abs=1e-6)
        if minimum.x is not None:
            assert feasible_set.violation(minimum.x) == 0.0
            assert regularizer.value(minimum.x) + v @ minimum.x == pytest.approx(minimum.value, abs=1e-12)
        if name == "l1":
            assert np.isfinite(minimum.value)


def test_a_budget_does_not_help_an_unregularised_coordinate():
    assert L1(1.0, [1.0, 0.0]).conjugate_minimiser(np.array([0.0, 0.1]), WholeSpace(), 5.0).value == -math.inf
    assert L1(1.0, [1.0, 0.0]).conjugate_minimiser(np.array([9.0, 0.0]), WholeSpace(), 5.0).value == -40.0
    assert L1(1.0).conjugate_minimiser(np.array([1.0, -1.0]), WholeSpace(), math.inf).value == 0.0


def test_a_budget_tightens_a_wide_box():
    minimum = L1(1.0).conjugate_minimiser(np.array([3.0, 0.0]), Box(-1e6, 1e6), 2.0)
    assert minimum.value == -4.0


@each_regularizer
def test_a_regularizer_keeps_its_word(regularizer):
    """Value, cvxpy form, subgradients, lines, forms and units agree."""
    sets = [SETS["orthant"]] if domain(regularizer) else [SETS["box, vectors"], SETS["whole"]]
    assert check_regularizer(regularizer, DIM, feasible_sets=sets, n_points=8)
    assert np.isfinite(regularizer.subgradient(np.zeros(DIM))).all()


# --- values, subgradients, lines, forms -----------------------------------------------------------


def test_the_slope_of_a_line_at_a_kink_is_that_of_the_right_side():
    line = L1(2.0).line(np.array([1.0, 3.0]), np.array([-1.0, 3.0]))
    assert [line(t)[1] for t in (0.25, 0.5, 0.75)] == [-4.0, 4.0, 4.0]
    assert line.all_kinks().tolist() == [0.5]


@each_regularizer
def test_another_weight(regularizer):
    if isinstance(regularizer, NoRegularizer):
        assert regularizer.with_lam(0.0) is regularizer
        with pytest.raises(InvalidInputError, match="no weight"):
            regularizer.with_lam(1.0)
        return
    other = regularizer.with_lam(2.0)
    x = draw(regularizer)
    assert other.lam == 2.0
    assert type(other) is type(regularizer)
    if regularizer.lam > 0:
        assert other.value(x) == pytest.approx(2.0 / regularizer.lam * regularizer.value(x), rel=1e-12)


# --- particular cases -----------------------------------------------------------------------------


@pytest.mark.parametrize("regularizer", [NegativeEntropy(2.0), RelativeEntropy(np.ones(3))])
def test_entropies_are_infinite_outside_their_domain(regularizer):
    assert regularizer.value(np.array([0.5, -1e-30, 0.5])) == math.inf
    assert regularizer.conjugate_minimiser(np.zeros(3), Box(-2, [1, -1, 1]), math.inf).value == math.inf


def test_entropy_on_the_simplex_is_a_logsumexp():
    v = np.array([-1e5, -1e5 + 2, 3e4, 0.0])
    value = NegativeEntropy(0.5).conjugate_minimiser(v, Simplex(), math.inf).value
    assert value == pytest.approx(-1e5 - 0.5 * np.log1p(np.exp(-4.0)), abs=1e-10)


def test_an_entropy_over_a_box_that_ends_at_zero():
    box, v = Box([-1.0, 0.0], [0.0, 2.0]), np.array([-3.0, -1.0])
    assert NegativeEntropy().conjugate_minimiser(v, box).x == pytest.approx([0.0, 1.0])
    assert NegativeEntropy().conjugate_minimiser(v, box).value == pytest.approx(-1.0)
    assert NegativeEntropy().conjugate_minimiser(v, Box([-2.0, 0.0], [-1.0, 2.0])) == (math.inf, None)


def test_groups_may_be_given_by_a_label_of_each_coordinate():
    labels = np.array([7, 2, 2, 7, 5])
    x = np.array([1.0, -2.0, 3.0, 0.5, -1.0])
    labelled, listed = SquaredGroupNorm(labels, 0.6), SquaredGroupNorm([[1, 2], [4], [0, 3]], 0.6)
    assert [group.tolist() for group in labelled.groups] == [[1, 2], [4], [0, 3]]
    assert labelled.value(x) == listed.value(x)


def test_regularizers_are_summed_from_zero_and_from_nothing_else():
    x = np.array([1.0, -2.0])
    assert sum([L1(0.5), L2(2.0)]).value(x) == 6.5
    for other in (1, 0.0, None):
        with pytest.raises(TypeError):
            _ = other + L2(2.0)


def test_weights_tell_the_dimension():
    assert L1(weights=[1.0, 0.0, 2.0]).dim == 3 and L1().dim is None


def test_entropy_of_a_singular_weight_overflows_to_a_valid_bound():
    assert NegativeEntropy(1e-320).conjugate_minimiser(np.ones(2), Simplex(), math.inf).value == -math.inf


def test_quadratic_form_of_large_sparse_matrices():
    n = 30
    path = sparse.diags_array(
        [np.r_[1, np.full(n - 2, 2.0), 1], -np.ones(n - 1), -np.ones(n - 1)], offsets=[0, 1, -1]
    )
    laplacian = sparse.kronsum(path, path, format="csr")
    singular = QuadraticForm(laplacian)
    assert singular.conjugate_minimiser(np.ones(n * n), WholeSpace(), math.inf) is None
    definite = QuadraticForm(laplacian + 0.1 * sparse.eye_array(n * n))
    v = np.random.default_rng(0).standard_normal(n * n)
    minimum = definite.conjugate_minimiser(v, WholeSpace(), math.inf)
    np.testing.assert_allclose(definite.subgradient(minimum.x), -v, atol=1e-12)
    with pytest.raises(NotConvexError, match="positive semidefinite"):
        QuadraticForm(laplacian - 1e-6 * sparse.eye_array(n * n))


def test_quadratic_form_keeps_its_factor_along_a_path():
    form = QuadraticForm(FACTOR.T @ FACTOR + np.eye(DIM))
    assert form.with_lam(3.0)._solve is form._solve


@pytest.mark.parametrize("seed", range(4))
def test_a_form_of_low_rank_is_unbounded_across_its_range_only(seed):
    factor = np.random.default_rng(seed).standard_normal((2, 6))
    form, across = QuadraticForm(factor.T @ factor), np.linalg.svd(factor)[2][2:]
    assert form.conjugate_minimiser(factor[0], WholeSpace()).value == pytest.approx(-0.5)
    for v in across:
        assert form.conjugate_minimiser(v, WholeSpace()).value == -math.inf


@pytest.mark.parametrize("zero", [np.zeros((3, 3)), sparse.csr_array((3, 3))])
def test_the_zero_form(zero):
    form = QuadraticForm(zero)
    minimum = form.conjugate_minimiser(np.zeros(3), WholeSpace(), math.inf)
    assert minimum is None or minimum.value == 0.0


@dataclass(frozen=True)
class Written(Regularizer):
    """A user's regularizer: lam max(0, max_j x_j)."""

    lam: float = 1.0

    def value(self, x):
        return self.lam * max(0.0, float(x.max()))

    def cvxpy_form(self, x):
        return self.lam * cp.pos(cp.max(x))


def test_a_written_regularizer_needs_no_more_than_a_value_and_a_form():
    regularizer = Written(0.5)
    regularizer.check_dim(7)
    assert regularizer.with_lam(2.0).value(np.array([1.0, 3.0])) == 6.0


def test_reprs_are_short():
    assert repr(L2(1e-2)) == "L2(lam=0.01)"
    assert repr(L2(1, weights=[1, 1, 0, 1, 1])) == "L2(lam=1, weights=[1, 1, 0, ...])"
    assert repr(ElasticNet(0.1)) == "ElasticNet(lam=0.1)"
    assert repr(QuadraticForm(sparse.eye_array(4))) == "QuadraticForm(Q=<4x4 matrix>, lam=1)"
    assert repr(NoRegularizer()) == "NoRegularizer()"
    assert repr(RelativeEntropy(0.25)) == "RelativeEntropy(reference=0.25, lam=1)"
    assert repr(SquaredGroupNorm([[0], [1, 2]], 0.5)) == "SquaredGroupNorm(groups=<2 groups>, lam=0.5)"
    assert repr(CvxpyRegularizer(cp.norm1(W), W)) == "CvxpyRegularizer(norm1(w), w, lam=1)"


SQUARE = np.array([[1.0, 0.5], [0.4, 1.0]])
ERRORS = {
    "negative lam": (lambda: L2(-1.0), "lam must be in"),
    "weights": (lambda: L2(weights=[1, -1]), r"L2.weights\[1\] is -1"),
    "shapes": (lambda: L2(centre=[1, 2], weights=[1]), "must agree"),
    "l1 weights": (lambda: L1(weights=np.ones((2, 2))), "one dimension"),
    "dim of centre": (lambda: L2(centre=[1, 2]).check_dim(3), "has dimension 2"),
    "dim of weights": (lambda: L1(weights=[1, 2]).check_dim(3), "has dimension 2"),
    "ratio": (lambda: ElasticNet(1.0, 1.5), "l1_ratio must be in"),
    "reference": (lambda: RelativeEntropy([1, 0]), r"reference\[1\] is 0"),
    "dim of reference": (lambda: RelativeEntropy([1, 1]).check_dim(3), "has dimension 2"),
    "overlap": (lambda: SquaredGroupNorm([[0, 1], [1, 2]]), "1 is in two groups"),
    "hole": (lambda: SquaredGroupNorm([[0, 1], [3]]), "2 is in no group"),
    "negative index": (lambda: SquaredGroupNorm([[0, -1]]), "-1 is not a coordinate"),
    "empty group": (lambda: SquaredGroupNorm([[0], []]), r"groups\[1\] must be a nonempty"),
    "float group": (lambda: SquaredGroupNorm([[0.0]]), r"groups\[0\] must be a nonempty"),
    "no groups": (lambda: SquaredGroupNorm([]), "groups is empty"),
    "p": (lambda: SquaredGroupNorm([[0]], p=0.5), "p must be in"),
    "rho": (lambda: SquaredGroupNorm([[0]], rho=[1, 2]), r"rho must have shape \(1,\)"),
    "dim of groups": (lambda: SquaredGroupNorm([[0]]).check_dim(2), "has dimension 1"),
    "not square": (lambda: QuadraticForm(np.ones((2, 3))), "must be square"),
    "not symmetric": (lambda: QuadraticForm(SQUARE), "not symmetric"),
    "c": (lambda: QuadraticForm(np.eye(2), [1, 2, 3]), "QuadraticForm.c must have shape"),
    "dim of Q": (lambda: QuadraticForm(np.eye(2)).check_dim(3), "has dimension 2"),
    "indefinite": (lambda: QuadraticForm(np.diag([1, -1e-6])), "least eigenvalue is -1e-06"),
    "sparse, indefinite": (
        lambda: QuadraticForm(sparse.diags_array([1, -1e-6])),
        "not positive semidefinite",
    ),
    "sparse, zero diagonal": (lambda: QuadraticForm(sparse.csr_array([[0.0, 1], [1, 0]])), "semidefinite"),
    "concave": (lambda: CvxpyRegularizer(cp.sum(cp.sqrt(W)), W), "CONCAVE"),
    "matrix expression": (lambda: CvxpyRegularizer(cp.abs(W), W), "scalar"),
    "other variable": (lambda: CvxpyRegularizer(cp.norm1(W), cp.Variable(DIM)), r"depends on \['w'\]"),
    "attributes": (lambda: CvxpyRegularizer(cp.norm1(W), cp.Variable(DIM, nonneg=True)), "nonneg"),
    "parameter": (lambda: CvxpyRegularizer(cp.norm1(W - cp.Parameter(name="p")), W), r"\['p'\]"),
    "dim of the variable": (lambda: CvxpyRegularizer(cp.norm1(W), W).check_dim(3), "has dimension 5"),
}


@pytest.mark.parametrize(("build", "message"), ERRORS.values(), ids=ERRORS.keys())
def test_errors_name_the_fault(build, message):
    with pytest.raises(InvalidInputError, match=message):
        build()


def test_a_cvxpy_regularizer_of_a_matrix():
    V = cp.Variable((2, 3), name="V")
    regularizer = CvxpyRegularizer(cp.norm(V, "nuc"), V, 0.5)
    x = RNG.standard_normal(6)
    matrix = x.reshape(2, 3)
    assert regularizer.value(x) == pytest.approx(0.5 * np.linalg.norm(matrix, "nuc"))
    y = cp.Variable(6)
    prox = cp.Problem(cp.Minimize(regularizer.cvxpy_form(y) + 0.5 * cp.sum_squares(y - x)))
    prox.solve(cp.CLARABEL)
    u, s, vt = np.linalg.svd(matrix, full_matrices=False)
    shrunk = u @ np.diag(np.maximum(s - 0.5, 0)) @ vt
    np.testing.assert_allclose(y.value.reshape(2, 3), shrunk, atol=1e-5)
    assert V.value is None
    outside = CvxpyRegularizer(-cp.sum(cp.log(V)), V)
    assert outside.value(-np.ones(6)) == math.inf


# --- parts, and unregularized biases ---------------------------------------------------------------

MASK = np.array([True, False, True, True, False])
THREE = cp.Variable(3)
INNER = {
    "l2": L2(0.7, centre=[1.0, 0.0, -1.0]),
    "l2, weights": L2(0.7, weights=[1.0, 0.0, 2.0]),
    "l1": L1(0.8),
    "elastic net": ElasticNet(0.9, 0.4),
    "entropy": NegativeEntropy(0.5),
    "groups": SquaredGroupNorm([[0, 2], [1]], 0.6),
    "cvxpy": CvxpyRegularizer(cp.norm_inf(THREE), THREE, 0.5),
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


def test_no_regularizer_leaves_everything_free():
    assert Partial(NoRegularizer(), MASK).unregularized(5).all()

"""The moves for linear predictors: optima against cvxpy, proofs, cuts of multipliers, refused forms."""

import numpy as np
import pytest
from covering import covering
from hypothesis import example, given, settings
from hypothesis import strategies as st
from linear_cases import LAYOUTS, LOSSES, instance, optimum
from own_losses import Kinked, LogCosh
from scipy import sparse

import cutplane as cut
from cutplane import L1, L2, Box, LinearRisk, MissingCapabilityError, Portfolio, Problem
from cutplane.linear import CoordinateAscent, LinearSystem, SemismoothNewton
from cutplane.linear.dual_ascent import DualAscent
from cutplane.linear.multiplier_method import MultiplierMethod
from cutplane.losses import (
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Quantile,
    ScalarLoss,
    Squared,
    SquaredEpsilonInsensitive,
)
from cutplane.losses.compiling import compiled
from cutplane.pieces.capabilities import Capability, offers
from cutplane.risks.passes import sparse_gram
from cutplane.runtime.threads import get_threads, set_threads

ALL_LOSSES = [*LOSSES, SquaredEpsilonInsensitive(0.3)]
BIASES = [None, "regularized", "free"]
WIDE, TALL = {"m": 40, "n": 60}, {"m": 80, "n": 6}
ASCENT, NEWTON = CoordinateAscent(), SemismoothNewton()


def declared(loss, layout="csr", bias=None, lam=0.02, **options):
    risk = instance(loss, layout, intercept=bias is not None, **options)
    weights = np.ones(risk.dim)
    weights[-1] = 0.0 if bias == "free" else 1.0
    return Problem(risk, L2(lam, weights=weights))


def steps(result):
    return [record.step.split()[0] for record in result.history]


@pytest.fixture(autouse=True)
def no_linear_systems(monkeypatch):
    monkeypatch.setattr("cutplane.risks.normal_equations.is_affordable", lambda X: False)


CASES = [
    *(("ascent", ASCENT, *row) for row in covering(LOSSES, ["csr"], BIASES, [WIDE, TALL])),
    *(("Newton", NEWTON, *row) for row in covering(ALL_LOSSES, LAYOUTS, BIASES, [TALL])),
    *(("cut", cut.OCAS(), Hinge(), "dense", *row) for row in covering(BIASES, [WIDE, TALL])),
    *(("ascent", Portfolio(cut.BMRM(), (ASCENT,)), Hinge(), "dense", bias, WIDE) for bias in BIASES),
]


@pytest.mark.parametrize(("step", "move", "loss", "layout", "bias", "shape"), CASES, ids=str)
def test_each_move_alone_reaches_the_optimum_with_a_proof(step, move, loss, layout, bias, shape):
    problem = declared(loss, layout, bias, **shape)
    if bias == "free" and move in (ASCENT, NEWTON):  # their cuts alone prove nothing
        move = Portfolio(moves=(move,))
    result = problem.solve(move, tol=1e-6, max_iter=3000)
    known = optimum(problem)
    assert result.status == "OPTIMAL" and result.certificate.verify().valid
    assert step == "cut" or step in steps(result)
    assert result.lower_bound <= known + 1e-7 * abs(known)
    assert abs(result.objective - known) <= 2e-6 * abs(known)


@pytest.mark.parametrize("loss", ALL_LOSSES, ids=repr)
def test_newton_steps_on_tall_data_reach_nine_digits(loss):
    result = declared(loss, "dense", lam=1e-4, m=400, n=12).solve(Portfolio(), tol=1e-9)
    assert result.status == "OPTIMAL" and result.certificate.verify().valid
    assert "Newton" in steps(result)


def ascent_of(risk, quadratic, multipliers=None, slope=None):
    code = compiled(risk.loss, risk.y)
    start = np.zeros(risk.y.size) if multipliers is None else multipliers
    return None if code is None else DualAscent(code, risk, quadratic, start, slope)


def dual_value(risk, lam, u):
    slopes, offsets = risk.dual_cut(u)
    return float(offsets[0] - slopes[0] @ slopes[0] / (2.0 * lam))


def check_point(risk, lam, ascent):
    """x is -X'(c u) / lam; the bias stays, because its proximal centre follows it."""
    X = risk.X.toarray() if sparse.issparse(risk.X) else risk.X
    x = -X.T.astype(np.float64) @ (risk.weights * ascent.multipliers) / lam
    np.testing.assert_allclose(ascent.x, np.append(x, ascent.x[x.size :]), atol=1e-11)


@pytest.mark.parametrize(
    ("loss", "layout", "intercept"),
    covering([Hinge(), Logistic()], LAYOUTS, [False, True])
    + covering(LOSSES, ["csr"], [False, True])
    + [pytest.param(loss, "dense", True, marks=pytest.mark.slow) for loss in LOSSES],  # compiled for each
    ids=str,
)
def test_every_epoch_raises_the_dual_up_to_the_optimum(loss, layout, intercept):
    lam, risk = 0.05, instance(loss, layout, intercept=intercept)
    ascent = ascent_of(risk, L2(lam).quadratic(risk.dim))
    values = [dual_value(risk, lam, ascent.multipliers)]
    for _ in range(100):
        assert ascent.run(5) > 0.0
        values.append(dual_value(risk, lam, ascent.multipliers))
        assert values[-1] >= values[-2] - 1e-13 * (1.0 + abs(values[-2]))
    objective = risk.oracle(ascent.x)[0] + L2(lam).value(ascent.x)
    assert values[-1] <= objective + 1e-12
    assert objective - values[-1] <= 1e-4 * abs(objective)
    check_point(risk, lam, ascent)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("lam", [1e-4, 1.0, 1e4])
def test_ascent_starts_from_the_best_multiple_of_given_multipliers(loss, lam):
    risk = instance(loss)
    quadratic, origin = L2(lam).quadratic(risk.dim), np.zeros(risk.dim)
    u, slope = loss.derivative(risk.image(origin), risk.y), risk.oracle(origin)[1]
    started, computed = (ascent_of(risk, quadratic, u, known) for known in (slope, None))
    best = dual_value(risk, lam, started.multipliers)
    assert best >= dual_value(risk, lam, np.zeros(risk.y.size)) - 1e-15
    np.testing.assert_allclose(started.x, computed.x, rtol=1e-12, atol=1e-15)
    check_point(risk, lam, started)
    if lam == 1e4:  # where they are nearly optimal
        assert risk.oracle(started.x)[0] + L2(lam).value(started.x) - best <= 1e-3 * abs(best)
    before = ascent_of(risk, L2(100.0 * lam).quadratic(risk.dim))
    before.run(30)
    again = ascent_of(risk, quadratic, before.multipliers)
    rise = dual_value(risk, lam, again.multipliers) - dual_value(risk, lam, before.multipliers)
    assert rise > 0.0 if lam == 1e-4 else rise >= 0.0
    check_point(risk, lam, again)


@given(st.integers(0, 10**6), st.sampled_from(LOSSES), st.floats(0.0, 1.0), st.sampled_from([1, 2]))
@settings(max_examples=40, deadline=None)
@example(1, Quantile(0.8), 1.192092896e-07, 2)
def test_cuts_of_multipliers_are_those_of_slopes_or_lie_below_the_risk(seed, loss, t, blocks):
    risk = instance(loss, seed=seed % 7, blocks=blocks, intercept=seed % 2 == 1)
    rng = np.random.default_rng(seed)
    one, other, x = (3.0 * rng.standard_normal(risk.dim) for _ in range(3))
    derivatives = [loss.derivative(risk.image(point), risk.y) for point in (one, other)]
    slopes, offsets = risk.dual_cut(t * derivatives[0] + (1.0 - t) * derivatives[1])
    values = np.asarray(risk.oracle(x)[0])
    assert (slopes @ x + offsets <= values + 1e-9 * (1.0 + np.abs(values))).all()
    values, expected = risk.oracle(one)
    slopes, offsets = risk.dual_cut(derivatives[0])
    np.testing.assert_allclose(slopes, np.reshape(expected, slopes.shape), atol=1e-12)
    np.testing.assert_allclose(slopes @ one + offsets, np.ravel(values), rtol=1e-9, atol=1e-11)


def test_there_is_no_cut_without_a_conjugate_or_outside_its_domain():
    class Plain(ScalarLoss):
        def value(self, t, y):
            return np.abs(t - y)

        def derivative(self, t, y):
            return np.where(t >= y, 1.0, -1.0)

    assert not offers(LinearRisk(np.eye(2), [1.0, 2.0], Plain()), Capability.DUAL_CUT)
    assert instance(Hinge()).dual_cut(np.full(40, 0.5))[1] == -np.inf


def test_the_certificate_checks_dual_cuts_and_survives_the_disk(tmp_path):
    problem = declared(Hinge(), m=60, n=300, lam=1e-3)
    result, other = (problem.solve(Portfolio(), tol=1e-4) for _ in range(2))
    np.testing.assert_array_equal(result.x, other.x)
    certificate = result.certificate
    assert certificate.duals and result.n_bytes > 60 * 8 and result.lower_bound == other.lower_bound
    assert cut.load(result.save(tmp_path / "run"), problem).certificate.verify().valid
    key = next(k for k in certificate.duals if (certificate.multipliers[certificate.queries == k] > 0).any())
    certificate.duals[key][:] *= 0.9
    assert not certificate.verify().valid
    assert problem.solve(Portfolio(), tol=1e-5, max_cuts=6).certificate.verify().valid


def test_multipliers_are_where_the_next_solve_starts():
    risk = instance(Hinge(), m=200, n=1500)  # so many that a batch is no longer than needed
    cold = Problem(risk, L2(1e-3)).solve(Portfolio(), tol=1e-6)
    first = Problem(risk, L2(8e-4)).solve(Portfolio(), tol=1e-6)
    warm = Problem(risk, L2(1e-3)).solve(Portfolio(), tol=1e-6, warm_start=first)
    assert warm.status == "OPTIMAL" and warm.certificate.verify().valid
    assert abs(warm.objective - cold.objective) <= 2e-6 * cold.objective
    warm, cold = (
        sum(int(record.step.split()[1]) for record in result.history if record.step.startswith("ascent"))
        for result in (warm, cold)
    )
    assert warm < cold


def plain(*arguments, **options):
    return Problem(LinearRisk(*arguments, **options), L2(0.1))


THREE = [1.0, 1.0, -1.0]
FORTRAN = np.asfortranarray(np.arange(6.0).reshape(3, 2))
OTHERS = {
    "csc": (plain(sparse.csc_array(np.eye(3)), THREE, Hinge()), [ASCENT, NEWTON]),
    "columns": (plain(FORTRAN, THREE, Hinge()), [ASCENT]),
    "blocks": (plain(np.eye(3), THREE, Hinge(), blocks=2), [ASCENT, NEWTON]),
    "no conjugate": (plain(np.eye(3), THREE, Kinked()), [ASCENT, NEWTON]),
    "many features": (plain(sparse.csr_array((3, 3000)), THREE, Hinge()), [NEWTON]),
    "L1": (Problem(instance(Hinge(), m=80, n=6), L1(0.01)), [ASCENT, NEWTON]),
    "box": (Problem(instance(Hinge(), m=80, n=6), L2(0.01), Box(-1.0, 1.0)), [ASCENT, NEWTON]),
    "unequal": (Problem(instance(Hinge(), m=200, n=6), L2(0.01, weights=np.arange(1.0, 7.0))), [ASCENT]),
    "kinks": (declared(Hinge(), **TALL), [LinearSystem()]),
    "L1 of a system": (Problem(instance(Squared()), L1(0.1)), [LinearSystem()]),
}


@pytest.mark.parametrize("form", OTHERS)
def test_forms_that_a_move_does_not_take_are_refused_and_solved_by_the_others(form):
    problem, moves = OTHERS[form]
    for move in moves:
        with pytest.raises(MissingCapabilityError, match=f"{move.name} needs"):
            problem.solve(move)
    result = problem.solve(Portfolio(), tol=1e-5)
    assert result.status == "OPTIMAL"
    used = {"ascent": ASCENT, "Newton": NEWTON}
    assert not any(step in steps(result) for step, move in used.items() if move in moves)
    assert form != "unequal" or "Newton" in steps(result)


class Uncompiled(LogCosh):
    """One whose second derivative cannot be compiled."""

    def second_derivative(self, t, y):
        return np.asarray(super().second_derivative(t, y))


def test_a_loss_that_cannot_be_compiled_does_without():
    risk = instance(Uncompiled())
    assert ascent_of(risk, L2(0.1).quadratic(risk.dim)) is None
    result = Problem(risk, L2(0.1)).solve(Portfolio(), tol=1e-6)
    expected = Problem(instance(LogCosh()), L2(0.1)).solve(Portfolio(), tol=1e-6)
    assert result.status == "OPTIMAL" and result.objective == pytest.approx(expected.objective, rel=3e-6)
    assert "ascent" in steps(expected) and "ascent" not in steps(result)


def test_the_sparse_gram_matrix_takes_repeated_and_unsorted_entries():
    rng = np.random.default_rng(0)
    data, indices = rng.standard_normal(40), rng.integers(0, 6, 40).astype(np.uint32)
    indptr = np.array([0, 3, 3, 20, 40])
    dense = sparse.csr_array((data, indices.astype(np.int32), indptr), shape=(4, 6)).toarray()
    rows, coefficients = np.array([0, 2, 3]), np.array([0.5, 2.0, 1.0])
    out = np.zeros((6, 6))
    sparse_gram(data, indices, indptr, rows, coefficients, out)
    np.testing.assert_allclose(out + out.T, dense[rows].T @ (coefficients[:, None] * dense[rows]), atol=1e-12)


def test_results_do_not_depend_on_the_threads():
    rng = np.random.default_rng(0)
    X = sparse.random_array((60_000, 30), density=0.3, format="csr", rng=rng)
    y = np.sign(X @ rng.standard_normal(30) + 0.3 * rng.standard_normal(60_000))
    problem, before, results = Problem(LinearRisk(X, y, Hinge()), L2(1e-5)), get_threads(), []
    try:
        for count in (1, 2):
            set_threads(count)
            results.append(problem.solve(Portfolio(), tol=1e-4))
    finally:
        set_threads(before)
    one, two = results
    assert "Newton" in steps(one)
    assert one.objective == two.objective and one.lower_bound == two.lower_bound


@pytest.mark.parametrize("loss", [Hinge(), EpsilonInsensitive(0.1), Huber(0.5)], ids=repr)
@pytest.mark.parametrize(
    "data",
    [
        (np.ones((5, 3)), np.ones(5)),
        (np.zeros((5, 3)), np.array([1.0, -1.0, 1.0, -1.0, 1.0])),
        (np.repeat(np.eye(3), 40, axis=0), np.tile([1.0, -1.0, 1.0], 40)),
    ],
    ids=["one class", "zeros", "duplicates"],
)
@pytest.mark.parametrize("intercept", [False, True])
def test_degenerate_data(loss, data, intercept):
    problem = Problem(
        LinearRisk(*data, loss, intercept=intercept), L2(1e-3, weights=np.arange(3 + intercept) < 3)
    )
    result = problem.solve(Portfolio(), tol=1e-7)
    assert result.status == "OPTIMAL", result
    assert result.objective == pytest.approx(optimum(problem), abs=1e-6)


@pytest.mark.parametrize("loss", ALL_LOSSES, ids=repr)
def test_newton_steps_give_a_free_bias_its_best_value(loss):
    problem = declared(loss, "dense", "free", **TALL)
    risk, x = problem.risk, np.zeros(problem.dim)
    method = MultiplierMethod(risk, problem.regularizer.quadratic(problem.dim), None, risk.image(x), 1.0)
    best, z = method.evaluate(x, risk.image(x))
    np.testing.assert_allclose(z, risk.image(best), atol=1e-12)
    assert abs(method.slopes[-1]) <= 1e-12

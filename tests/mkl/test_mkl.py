"""Multiple kernel learning against the same problem written whole in cvxpy."""

import warnings
from functools import cache

import cvxpy as cp
import numpy as np
import pytest
from covering import covering

import cutplane as cut
from cutplane import FrankWolfe, Kelley, LevelBundle, ProximalBundle, Status
from cutplane.exceptions import InvalidInputError, MissingCapabilityError
from cutplane.kernels import Gaussian, KernelBank, Linear, Polynomial, single_feature_kernels
from cutplane.losses import (
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Logistic,
    Quantile,
    Squared,
    SquaredEpsilonInsensitive,
    SquaredHinge,
)
from cutplane.methods import ReducedGradient
from cutplane.mkl import MKL, ClosedFormWeights, SmoothMKL, UniformWeights
from cutplane.mkl.problem import _best_scale
from cutplane.testing import check_risk

CLASSIFICATION = [Hinge(), SquaredHinge()]
REGRESSION = [Squared(), Absolute(), Quantile(0.8), EpsilonInsensitive(0.2), SquaredEpsilonInsensitive(0.2)]
LOSSES = CLASSIFICATION + REGRESSION
SIMPLEX_METHODS = [
    Kelley(),
    LevelBundle(),
    ProximalBundle(),
    ReducedGradient(),
    ClosedFormWeights(),
    FrankWolfe("exact", "pairwise"),
]


def data(loss, m=24, n_features=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, n_features))
    y = X[:, 0] - 0.5 * X[:, 1] ** 2 + 0.3 * rng.standard_normal(m)
    return X, np.where(y > np.median(y), 1.0, -1.0) if loss in CLASSIFICATION else y


def bank_of(X):
    kernels = [Gaussian(width, features=j) for j in range(X.shape[1]) for width in (0.5, 2.0)]
    return KernelBank([*kernels, Polynomial(2), Linear(), Linear(features=0)], X, normalize="trace")


def matrices(bank):
    return [bank.weighted_sum(unit) for unit in np.eye(bank.n_kernels)]


def factors(kernels):
    values = [np.linalg.eigh(kernel) for kernel in kernels]
    chosen = [numbers > 1e-12 * numbers.max() if numbers.max() else numbers == 0.0 for numbers, _ in values]
    return [
        vectors[:, some] * np.sqrt(np.maximum(numbers[some], 0.0))
        for some, (numbers, vectors) in zip(chosen, values, strict=True)
    ]


def whole(kernels, y, C, loss, norm=1.0, entropy=0.0, intercept=True, rho=None):
    """Return the optimum of the primal over all f_k, as one conic problem."""
    roots = factors(kernels)
    n = len(roots)
    w = [cp.Variable(root.shape[1]) for root in roots]
    b = cp.Variable() if intercept else 0.0
    rho = np.ones(n) if rho is None else rho
    fit = C * cp.sum(loss.cvxpy_form(sum(root @ part for root, part in zip(roots, w, strict=True)) + b, y))
    beta = cp.Variable(n, nonneg=True)
    size = 0.5 * sum(cp.quad_over_lin(rho[k] * w[k], beta[k]) for k in range(n))
    entropic = entropy * cp.sum(cp.rel_entr(beta, np.full(n, 1.0 / n))) if entropy else 0.0
    problem = cp.Problem(cp.Minimize(fit + size + entropic), [cp.pnorm(beta, norm) <= 1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # Clarabel's "may be inaccurate": 1e-7 instead of 1e-8
        return problem.solve(solver=cp.CLARABEL)


@cache
def optimum_of(loss, C=1.0, norm=1.0, entropy=0.0, intercept=True):
    """Return the optimum for the usual data and kernels."""
    X, y = data(loss)
    return whole(matrices(bank_of(X)), y, C, loss, norm, entropy, intercept)


@pytest.mark.parametrize("method", [LevelBundle(), SmoothMKL(), "auto"], ids=str)
def test_the_reason_states_the_tolerance_that_was_given(method):
    X, y = data(Hinge())
    entropy = 0.1 if isinstance(method, SmoothMKL) else 0.0
    result = MKL(bank_of(X), y, 1.0, entropy=entropy, intercept=False).solve(method, tol=1e-2)
    assert result.status == "OPTIMAL"
    assert result.reason == f"the certified relative gap {result.gap:.2g} is at most tol = 0.01"


def agrees(result, optimum, tol=1e-5):
    assert result.status is Status.OPTIMAL, result.reason
    assert result.lower_bound <= optimum + 1e-6 * abs(optimum)
    assert result.objective >= optimum - 1e-6 * abs(optimum)
    assert result.objective == pytest.approx(optimum, rel=tol)


@pytest.mark.every
@pytest.mark.parametrize(
    ("method", "intercept", "C"), covering(SIMPLEX_METHODS, [True, False], [0.1, 10.0]), ids=str
)
def test_every_method_reaches_the_optimum_of_the_whole_problem(method, intercept, C):
    X, y = data(Hinge())
    optimum = optimum_of(Hinge(), C, intercept=intercept)
    result = MKL(bank_of(X), y, C, intercept=intercept).solve(method, tol=5e-6, max_iter=3000)
    agrees(result, optimum)
    assert result.weights.min() >= 0.0 and result.weights.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("loss", "norm", "intercept"), covering(LOSSES, [1.0, 4 / 3, 2.0, np.inf], [True, False]), ids=str
)
def test_every_loss_and_norm_reaches_the_optimum_of_the_whole_problem(loss, norm, intercept):
    X, y = data(loss)
    result = MKL(bank_of(X), y, 1.0, loss, norm, intercept=intercept).solve(tol=5e-6)
    agrees(result, optimum_of(loss, 1.0, norm, intercept=intercept))
    assert np.linalg.norm(result.weights, norm) <= 1.0 + 1e-9


@pytest.mark.parametrize("norm", [1.0, 2.0])
def test_rho_weighs_the_group_norm(norm):
    X, y = data(Hinge())
    bank = bank_of(X)
    rho = np.linspace(0.5, 2.0, bank.n_kernels)
    optimum = whole(matrices(bank), y, 1.0, Hinge(), norm, rho=rho)
    agrees(MKL(bank, y, 1.0, norm=norm, rho=rho).solve(tol=5e-6), optimum)


@pytest.mark.parametrize("entropy", [0.01, 1.0])
@pytest.mark.parametrize("method", ["auto", LevelBundle(), SmoothMKL()], ids=str)
def test_smooth_mkl_from_both_sides(entropy, method):
    X, y = data(Hinge())
    result = MKL(bank_of(X), y, 1.0, entropy=entropy, intercept=False).solve(method, tol=5e-6)
    agrees(result, optimum_of(Hinge(), entropy=entropy, intercept=False))


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_objective_is_that_of_the_predictor(loss):
    X, y = data(loss)
    mkl = MKL(bank_of(X), y, 0.7, loss)
    result = mkl.solve(tol=1e-6)
    kernel = mkl.bank.weighted_sum(result.weights)
    predictions = kernel @ result.coefficients + result.intercept
    size = 0.5 * result.coefficients @ kernel @ result.coefficients
    assert result.objective == pytest.approx(size + 0.7 * loss.value(predictions, y).sum(), rel=1e-9)
    np.testing.assert_allclose(result.predict(X), predictions, atol=1e-9)
    assert result.certificate.verify().valid


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("intercept", [True, False])
def test_the_risk_keeps_its_word(loss, intercept):
    X, y = data(loss, m=12)
    mkl = MKL(bank_of(X), y, 2.0, loss, intercept=intercept)
    assert check_risk(mkl.problem.risk, feasible_set=cut.Simplex(), n_points=3)


@pytest.mark.parametrize("method", ["auto", SmoothMKL()], ids=str)
def test_bounds_are_monotone_and_enclose_the_optimum(method):
    X, y = data(Hinge())
    bank = bank_of(X)
    entropy = 0.1 if isinstance(method, SmoothMKL) else 0.0
    optimum = optimum_of(Hinge(), entropy=entropy, intercept=False)
    states = []
    MKL(bank, y, entropy=entropy, intercept=False).solve(method, tol=1e-6, callback=states.append)
    lower, upper = ([getattr(state, name) for state in states] for name in ("lower_bound", "upper_bound"))
    assert (np.diff(lower[1:]) >= 0.0).all() and (np.diff(upper) <= 0.0).all()
    assert max(lower) <= optimum * (1 + 1e-7) and min(upper) >= optimum * (1 - 1e-7)


@pytest.mark.parametrize(
    ("loss", "order"),
    [(Hinge(), 1), (SquaredHinge(), -1), (Squared(), 1), (EpsilonInsensitive(0.2), -1)],
    ids=repr,
)
def test_a_path_over_C_reuses_cuts(loss, order):
    X, y = data(loss, m=40)
    mkl = MKL(bank_of(X), y, loss=loss)
    Cs = np.logspace(-1, 1, 5)[::order]
    path = mkl.path(Cs, tol=1e-4)
    cold = [mkl.with_C(C).solve(tol=1e-4) for C in Cs]
    for warm, alone in zip(path, cold, strict=True):
        assert warm.status is Status.OPTIMAL
        assert warm.lower_bound <= alone.objective * (1 + 1e-9)
        assert alone.lower_bound <= warm.objective * (1 + 1e-9)
    assert path.oracle_calls < sum(result.oracle_calls for result in cold)
    assert path.weights.shape == (5, mkl.bank.n_kernels) and "MKLPath" in repr(path)


@pytest.mark.parametrize("loss", [Hinge(), EpsilonInsensitive(0.2), SquaredHinge()], ids=repr)
def test_the_cuts_of_another_C_are_scaled_to_be_highest(loss):
    X, y = data(loss)
    machine = MKL(bank_of(X), y, 2.0, loss).machine
    a = machine.into_domain(0.1 * np.random.default_rng(0).standard_normal(y.size))
    scales = np.linspace(0.01, 9.0, 2000)
    for curvature in (0.01, 5.0):
        s = _best_scale(machine.form, a, curvature)
        heights = [-machine.conjugate_sum(t * a) - 0.5 * t * t * curvature for t in (s, *scales)]
        assert heights[0] >= max(heights) - 1e-9


def test_negligible_weights_are_set_to_zero():
    X, y = data(Hinge())
    mkl = MKL(bank_of(X), y)
    solved = mkl.solve(tol=1e-6)
    x = solved.weights + 1e-9
    found, _ = mkl._trained(x, (1.0 + 1e-3) * solved.objective, 1e-3, None)
    assert (solved.weights == 0.0).any()
    assert (found[solved.weights == 0.0] == 0.0).all()
    assert found.sum() == pytest.approx(x.sum(), rel=1e-12)


def test_uniform_weights_are_certified_too():
    X, y = data(Hinge())
    bank = bank_of(X)
    result = MKL(bank, y).solve(UniformWeights(), tol=1e-6)
    optimum = optimum_of(Hinge())
    np.testing.assert_allclose(result.weights, 1.0 / bank.n_kernels)
    assert result.lower_bound <= optimum <= result.objective
    assert result.status is Status.STALLED and "equal weights" in result.reason


DEGENERATE = {
    "one kernel": lambda X, y: ([X @ X.T], y),
    "a zero kernel": lambda X, y: ([X @ X.T, np.zeros((len(y), len(y)))], y),
    "only zero kernels": lambda X, y: (np.zeros((2, len(y), len(y))), y),
    "equal kernels": lambda X, y: ([X @ X.T, X @ X.T], y),
    "duplicate rows": lambda X, y: (
        [np.ones((len(y), len(y))), np.repeat(X[:2], 5, 0) @ np.repeat(X[:2], 5, 0).T],
        y,
    ),
    "one class": lambda X, y: ([X @ X.T, np.eye(len(y))], np.ones(len(y))),
    "one example": lambda X, y: ([np.ones((1, 1)), 2.0 * np.ones((1, 1))], y[:1]),
    "float32": lambda X, y: (np.array([X @ X.T, np.eye(len(y))], dtype=np.float32), y),
}


@pytest.mark.parametrize(("case", "intercept", "norm"), covering(DEGENERATE, [True, False], [1.0, 2.0]))
def test_degenerate_kernels(case, intercept, norm):
    X, y = data(Hinge(), m=10)
    kernels, y = DEGENERATE[case](X, y)
    optimum = whole([np.asarray(k, np.float64) for k in kernels], y, 1.0, Hinge(), norm, intercept=intercept)
    result = MKL(kernels, y, norm=norm, intercept=intercept).solve(tol=1e-5)
    assert result.lower_bound <= optimum + 1e-5 and result.objective >= optimum - 1e-5
    assert result.objective == pytest.approx(optimum, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"C": 0.0}, "C"),
        ({"norm": 0.5}, "norm"),
        ({"entropy": -1.0}, "entropy"),
        ({"entropy": 1.0, "norm": 2.0}, "norm=1"),
        ({"loss": Logistic()}, "Hinge"),
        ({"rho": [1.0, -1.0]}, "rho"),
        ({"y": np.zeros(5)}, "-1"),
        ({"y": np.ones(4)}, "4"),
        ({"kernels": np.ones((2, 5, 4))}, "square"),
    ],
)
def test_bad_input_is_named(change, message):
    arguments = {"kernels": np.array([np.eye(5), np.ones((5, 5))]), "y": np.array([1.0, 1, 1, -1, -1])}
    with pytest.raises(InvalidInputError, match=message):
        MKL(**{**arguments, **change})


def test_methods_that_do_not_fit_are_named():
    X, y = data(Hinge())
    bank = bank_of(X)
    with pytest.raises(InvalidInputError, match="entropy"):
        MKL(bank, y).solve(SmoothMKL())
    with pytest.raises(InvalidInputError, match="intercept"):
        MKL(bank, y, entropy=1.0).solve(SmoothMKL())
    with pytest.raises(MissingCapabilityError, match="Simplex"):
        MKL(bank, y, norm=2.0).solve(ReducedGradient())
    with pytest.raises(InvalidInputError, match="method"):
        MKL(bank, y).solve("level")


@pytest.mark.parametrize("change", [{"intercept": False}, {"loss": SquaredHinge()}, {"norm": 2.0}])
def test_a_warm_start_from_another_machine_is_valid(change):
    X, y = data(Hinge())
    bank = bank_of(X)
    earlier = MKL(bank, y, **change).solve(tol=1e-4)
    warm, cold = MKL(bank, y).solve(tol=1e-5, warm_start=earlier), MKL(bank, y).solve(tol=1e-5)
    assert warm.status is Status.OPTIMAL and warm.certificate.verify().valid
    assert warm.objective == pytest.approx(cold.objective, rel=2e-5)


def test_a_warm_start_for_other_kernels_is_refused():
    X, y = data(Hinge())
    bank = bank_of(X)
    rho = np.linspace(1.0, 2.0, bank.n_kernels)
    for other in (MKL(bank, y, rho=rho), MKL(bank_of(X[::-1]), y), MKL(bank, -y)):
        with pytest.raises(InvalidInputError, match="same kernels"):
            MKL(bank, y).solve(warm_start=other.solve())


def test_silp_needs_many_more_machines_than_level():
    X, y = data(Hinge(), m=50, n_features=6)
    bank = KernelBank(single_feature_kernels(6), X, normalize="trace")
    counts = [MKL(bank, y, 10.0).solve(method).oracle_calls for method in (Kelley(), "auto")]
    assert counts[1] < 0.5 * counts[0]


def test_a_cut_is_that_of_the_coefficients_as_they_are_now():
    X, y = data(Hinge(), m=10)
    y = np.resize([1.0, -1.0], 10)
    risk = MKL([X @ X.T, np.eye(10)], y).problem.risk
    a = 0.5 * y
    before, _ = risk.dual_cut(a)
    a *= 0.5
    np.testing.assert_allclose(risk.dual_cut(a)[0], 0.25 * before, rtol=1e-12)


def test_results_show_themselves():
    X, y = data(Hinge())
    result = MKL(bank_of(X), y).solve()
    assert "gaussian" in repr(result) and "<table>" in result._repr_html_()
    assert list(result.to_frame().columns) == ["kernel", "weight"]
    assert result.plot_weights().get_xlabel() == "weight"
    assert result.plot().get_xlabel()
    np.testing.assert_array_equal(np.sort(result.selected), np.flatnonzero(result.weights))

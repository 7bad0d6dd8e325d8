"""Nu-forms: the optimum of the whole problem, agreement with the C-forms, memory, and what is infeasible."""

import cvxpy as cp
import numpy as np
import pytest

import cutplane as cut
from cutplane.exceptions import InvalidInputError, MissingCapabilityError
from cutplane.kernels import Decomposition, Gaussian, KernelRisk, Linear, NuDecomposition, NuRisk
from cutplane.losses import EpsilonInsensitive, Hinge

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 3))
LABELS = np.where(X[:, 0] - X[:, 1] + 0.7 * RNG.standard_normal(40) > 0.3, 1.0, -1.0)
NUMBERS = X[:, 0] * X[:, 1] + 0.3 * RNG.standard_normal(40)
TARGETS = {"classification": LABELS, "regression": NUMBERS, "novelty": None}


def risk_of(task, nu, kernel=None, **options):
    return NuRisk(X, TARGETS[task], nu, kernel or Gaussian(1.5), task, **options)


def known_optimum(task, K, nu, lam, weights):
    """The textbook's primal problem, with its margin or tube and its sign constraint, by Clarabel."""
    values, vectors = np.linalg.eigh(K)
    f, b, s = (
        (vectors * np.sqrt(np.maximum(values, 0.0))) @ (w := cp.Variable(40)),
        cp.Variable(),
        cp.Variable(),
    )
    if task == "classification":
        losses, limits = cp.pos(s - cp.multiply(LABELS, f + b)), [s >= 0]
    elif task == "regression":
        losses, limits = cp.pos(cp.abs(f + b - NUMBERS) - s), [s >= 0]
    else:
        losses, limits = cp.pos(s - f), []
    sign = 1.0 if task == "regression" else -1.0
    value = weights @ losses + sign * nu * s + lam / 2 * cp.sum_squares(w)
    problem = cp.Problem(cp.Minimize(value), limits)
    problem.solve("CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return problem.value


@pytest.mark.every
@pytest.mark.parametrize("task", TARGETS)
@pytest.mark.parametrize(("nu", "lam"), [(0.05, 0.1), (0.3, 1e-3), (0.6, 0.02)])
def test_the_optimum_is_that_of_the_whole_problem(task, nu, lam):
    weights = RNG.random(40) if nu == 0.3 else np.ones(40)
    risk = risk_of(task, nu, Linear() if nu == 0.6 else None, sample_weight=weights)
    result = cut.Problem(risk, risk.squared_norm(lam)).solve(tol=1e-9)
    known = known_optimum(task, risk.gram.matrix(), nu, lam, weights / weights.sum())
    assert result.status == "OPTIMAL" and result.method == "NuDecomposition()"
    assert result.objective == pytest.approx(known, rel=1e-6, abs=1e-9)
    assert result.lower_bound <= known + 1e-9 + 1e-6 * abs(known)
    assert result.certificate.verify().valid
    f, margin = risk.function(result.x).decision_function(X), risk.margin(result.x)
    slack = 1e-4 * max(1.0, abs(margin))
    beyond = {
        "classification": lambda: margin - LABELS * f, "regression": lambda: np.abs(f - NUMBERS) - margin,
        "novelty": lambda: -f,
    }[task]()  # fmt: skip
    assert risk.weights[beyond > slack].sum() <= nu + 1e-9 <= risk.weights[beyond >= -slack].sum() + 1e-6


def test_the_nu_forms_are_the_c_forms_of_their_margins():
    """With rho of the first the weight rho lam gives the second, rho times smaller; eps its tube."""
    lam = 0.01
    for task, form in (("classification", Hinge), ("regression", EpsilonInsensitive)):
        risk = risk_of(task, 0.33)
        x = cut.Problem(risk, risk.squared_norm(lam)).solve(tol=1e-10).x
        margin, f = risk.margin(x), risk.function(x)
        scale, loss = (margin, form()) if task == "classification" else (1.0, form(margin))
        other = KernelRisk(X, TARGETS[task], loss, Gaussian(1.5))
        y = cut.Problem(other, other.squared_norm(lam * scale)).solve(tol=1e-10).x
        known = other.function(y)
        np.testing.assert_allclose(f.decision_function(X) / scale, known.decision_function(X), atol=2e-4)


@pytest.mark.parametrize("task", TARGETS)
def test_a_small_cache_and_a_seed_change_no_answer(task):
    risk = risk_of(task, 0.35)
    lam = 1e-3
    whole = cut.Problem(risk, risk.squared_norm(lam)).solve(tol=1e-8)
    small = risk_of(task, 0.35, cache_bytes=4 * 40 * 3)
    few = cut.Problem(small, small.squared_norm(lam)).solve(tol=1e-7)
    assert small.gram.cache.slots.shape[0] == 3 and few.status == "OPTIMAL"
    assert few.objective == pytest.approx(whole.objective, rel=1e-6)
    seeded = cut.Problem(risk, risk.squared_norm(2.0 * lam)).solve(tol=1e-8, x0=whole.x)
    cold = cut.Problem(risk, risk.squared_norm(2.0 * lam)).solve(tol=1e-8)
    assert seeded.objective == pytest.approx(cold.objective, rel=1e-7)
    half = risk.restricted(np.arange(0, 40, 2))
    alone = NuRisk(X[::2], None if risk.y is None else risk.y[::2], 0.35, Gaussian(1.5), task)
    part, other = (cut.Problem(r, r.squared_norm(lam)).solve(tol=1e-8).objective for r in (half, alone))
    assert part == pytest.approx(other, rel=1e-7)


@pytest.mark.parametrize("task", TARGETS)
def test_the_pieces_are_right(task):
    """Slopes and lines by differences; another method; cuts of wrong multipliers prove nothing."""
    risk = risk_of(task, 0.4)
    report = cut.testing.check_risk(risk)
    assert report, report
    count = 40 if task != "regression" else 80
    assert risk.dual_cut(np.full(count, 1.5))[1] == -np.inf < risk.dual_cut(np.full(count, 0.5))[1]
    problem = cut.Problem(risk, risk.squared_norm(0.1))
    known = problem.solve(tol=1e-9).objective
    assert problem.solve(method="direct", tol=1e-5).objective == pytest.approx(known, rel=1e-4, abs=1e-7)


def test_a_regression_of_many_examples_does_not_stall():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((1200, 20))
    risk = NuRisk(A, A[:, 0] * A[:, 1] + 0.3 * rng.standard_normal(1200), 0.3, Gaussian(3.0), "regression")
    assert cut.Problem(risk, risk.squared_norm(1e-3)).solve(tol=1e-4).status == "OPTIMAL"


def test_classes_that_cannot_be_told_apart_have_no_margin():
    A = np.repeat(np.arange(4.0), 2)[:, np.newaxis]
    risk = NuRisk(A, np.tile([-1.0, 1.0], 4), 1.0, Gaussian(1.0))
    result = cut.Problem(risk, risk.squared_norm(0.1)).solve()
    assert result.status == "OPTIMAL"
    assert abs(result.objective) < 1e-12 and risk.margin(result.x) < 1e-6


def test_what_is_wrong_is_named():
    share = 2.0 * min((LABELS > 0).mean(), (LABELS < 0).mean())
    with pytest.raises(InvalidInputError, match=f"nu = 0.99 is infeasible.*at most {share:g}"):
        risk_of("classification", 0.99)
    with pytest.raises(InvalidInputError, match="y has one class only"):
        NuRisk(np.eye(3), np.ones(3), 0.3, Gaussian(1.0))
    for nu in (0.0, 1.5, np.nan):
        with pytest.raises(InvalidInputError, match="nu"):
            risk_of("regression", nu)
    with pytest.raises(InvalidInputError, match="task must be one of"):
        NuRisk(X, LABELS, 0.5, Linear(), "ranking")
    with pytest.raises(InvalidInputError, match="y must be None"):
        NuRisk(X, LABELS, 0.5, Linear(), "novelty")
    risk = risk_of("novelty", 0.5)
    with pytest.raises(MissingCapabilityError, match="kernel predictor"):
        cut.Problem(risk, risk.squared_norm(1.0)).solve(Decomposition())
    with pytest.raises(MissingCapabilityError, match="no feasible set"):
        cut.Problem(risk, risk.squared_norm(1.0), cut.Box(-1.0, 1.0)).solve(NuDecomposition())

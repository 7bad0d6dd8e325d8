"""The smoothed dual of multiple kernel learning, and the closed-form weights for any falling risk."""

from functools import cache

import cvxpy as cp
import numpy as np
import pytest

import cutplane as cut
from cutplane.exceptions import InvalidInputError, MissingCapabilityError
from cutplane.kernels import PrecomputedKernels
from cutplane.mkl.methods import ClosedFormWeights
from cutplane.mkl.smooth import SmoothedDual
from cutplane.sets.balls import NonnegativeBall
from cutplane.status import Status
from cutplane.testing import check_risk

M = 20


@cache
def kernels(n_kernels=6):
    """Gaussian and linear kernels of one feature each; the last kernel is zero."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((M, n_kernels - 1))
    y = np.where(X[:, 0] + X[:, 1] ** 2 + 0.3 * rng.standard_normal(M) > 0.5, 1.0, -1.0)
    K = [np.exp(-0.5 * np.subtract.outer(x, x) ** 2) for x in X[:, :3].T]
    K += [np.outer(x, x) for x in X[:, 3:].T]
    return np.array([*K, np.zeros((M, M))]), y


# --- the smoothed dual ----------------------------------------------------------------------------


@pytest.mark.parametrize("entropy", [1e-3, 0.1, 10.0])
def test_its_oracle_line_and_image_agree(entropy):
    K, y = kernels()
    risk = SmoothedDual(PrecomputedKernels(K), y, 1.0, entropy)
    assert check_risk(risk, scale=1.0)


@pytest.mark.parametrize("entropy", [1e-2, 0.5])
@pytest.mark.parametrize("C", [0.3, 20.0])
def test_gradient_by_differences_and_bounds_by_the_entropy(entropy, C):
    K, y = kernels()
    risk = SmoothedDual(PrecomputedKernels(K), y, C, entropy)
    rng = np.random.default_rng(1)
    for _ in range(5):
        x = rng.uniform(0.0, C, M)
        value, slope = risk.oracle(x)
        forms = np.einsum("i,kij,j->k", y * x, K, y * x)
        direct = -x.sum() + entropy * (
            forms.max() / (2 * entropy) + np.log(np.exp((forms - forms.max()) / (2 * entropy)).mean())
        )
        assert value == pytest.approx(direct, rel=1e-12)
        h = 1e-5 * C
        numeric = [(risk.oracle(x + h * e)[0] - risk.oracle(x - h * e)[0]) / (2 * h) for e in np.eye(M)]
        np.testing.assert_allclose(slope, numeric, rtol=1e-5, atol=1e-5 * (1 + np.abs(slope).max()))
        sharp = -x.sum() + 0.5 * forms.max()
        assert sharp - entropy * np.log(len(K)) - 1e-12 * abs(sharp) <= value <= sharp + 1e-12 * abs(sharp)
        weights = risk.weights(x)
        attained = (
            -x.sum()
            + 0.5 * weights @ forms
            - entropy * weights[weights > 0] @ np.log(len(K) * weights[weights > 0])
        )
        assert value == pytest.approx(attained, rel=1e-10)


def test_the_curvature_bound_holds_and_is_not_idle():
    K, y = kernels()
    rng = np.random.default_rng(2)
    for entropy in (0.05, 5.0):
        risk = SmoothedDual(PrecomputedKernels(K), y, 1.0, entropy)
        for _ in range(20):
            x, d = rng.uniform(0, 1, M), 0.3 * rng.standard_normal(M)
            value, slope = risk.oracle(x)
            c = risk.curvature_bound(x, d)
            shares = np.linspace(0.05, 1, 20)
            bends = [2 * (risk.oracle(x + t * d)[0] - value - t * slope @ d) / t**2 for t in shares]
            assert max(bends) <= c * (1 + 1e-9)
            if entropy > 1.0:
                assert c <= 30 * max(bends)
    single = SmoothedDual(PrecomputedKernels(K[:1]), y, 1.0, 0.1)
    assert single.curvature_bound(x, d) == pytest.approx((y * d) @ K[0] @ (y * d))
    result = cut.Problem(risk, feasible_set=risk.feasible_set).solve(
        cut.FrankWolfe("short", "away"), tol=1e-2
    )
    assert result.status is Status.OPTIMAL


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros(M), 1.0, 0.1), "SmoothedDual needs labels y in {-1, .1}"),
        ((np.ones(3), 1.0, 0.1), "shape"),
        ((np.ones(M), 0.0, 0.1), "SmoothedDual.C"),
        ((np.ones(M), 1.0, 0.0), "SmoothedDual.entropy"),
    ],
)
def test_what_it_refuses(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        SmoothedDual(PrecomputedKernels(kernels()[0]), *arguments)


# --- closed-form weights --------------------------------------------------------------------------

EXPONENTS = (1.0, 4 / 3, 2.0, 4.0, np.inf)


def reciprocals(n, shift=0.1, seed=0):
    c = np.random.default_rng(seed).uniform(0.01, 5.0, n)
    c[-1] = 0.0

    @cut.risk(dim=n)
    def decreasing(x):
        return (c / (x + shift)).sum(), -c / (x + shift) ** 2

    return decreasing, c


@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("x0", ["zero", "even"])
def test_closed_form_on_a_decreasing_function(p, x0):
    risk, c = reciprocals(8)
    x = cp.Variable(8)
    objective = cp.sum(cp.multiply(c, cp.inv_pos(x + 0.1)))
    optimum = float(cp.Problem(cp.Minimize(objective), NonnegativeBall(p).cvxpy_form(x)).solve(cp.CLARABEL))
    problem = cut.Problem(risk, feasible_set=NonnegativeBall(p))
    start = None if x0 == "zero" else np.full(8, 0.1)
    result = problem.solve(ClosedFormWeights(), tol=1e-6, x0=start, max_iter=200)
    assert result.status is Status.OPTIMAL
    assert result.n_iter <= (60 if p == 1.0 else 15)
    assert result.objective == pytest.approx(optimum, rel=1e-5)
    assert result.lower_bound <= optimum * (1 + 1e-6)
    assert result.x[-1] == (1.0 if p == np.inf else pytest.approx(0.0, abs=1e-9))
    assert result.certificate.verify().valid


@pytest.mark.parametrize("p", [1.0, 4 / 3, 2.0, 4.0])
def test_the_first_step_is_the_formula_and_the_objective_falls(p):
    risk, ball = reciprocals(6)[0], NonnegativeBall(p, 0.8)
    x0 = np.linspace(0.05, 0.1, 6)
    forms = -2.0 * risk.oracle(x0)[1]
    after = (x0**2 * forms) ** (1.0 / (p + 1.0))
    after *= 0.8 / (after**p).sum() ** (1.0 / p)
    loop = cut.Problem(risk, feasible_set=ball).iterate(ClosedFormWeights(), x0=x0, tol=1e-9, max_iter=12)
    states = list(loop)
    np.testing.assert_allclose(states[1].x, after, rtol=1e-12)
    objectives = [state.upper_bound for state in states]
    assert (np.diff(objectives) <= 1e-14).all()


def test_a_weight_of_zero_comes_back_unless_p_is_one():
    """At the start the slope in x[1] is 0, so that its weight becomes 0, where it matters again."""

    @cut.risk(dim=2)
    def saturated(x):
        short = max(0.5 - x[1], 0.0)
        return 0.2 / (x[0] + 0.1) + 0.3 * short**2, np.array([-0.2 / (x[0] + 0.1) ** 2, -0.6 * short])

    for p in (4 / 3, 2.0, 4.0):
        problem = cut.Problem(saturated, feasible_set=NonnegativeBall(p))
        result = problem.solve(ClosedFormWeights(), x0=[0.1, 0.6], tol=1e-6, max_iter=50)
        assert result.status is Status.OPTIMAL
        assert result.x[1] > 0.05
    result = cut.Problem(saturated, feasible_set=cut.Simplex()).solve(ClosedFormWeights(), x0=[0.4, 0.6])
    assert result.status is Status.STALLED
    assert result.lower_bound < result.objective


@pytest.mark.parametrize("n", [10, 300])
@pytest.mark.parametrize("shift", [1e-3, 0.1, 10.0])
def test_steps_for_six_digits(n, shift):
    risk, _ = reciprocals(n, shift, seed=1)
    for p, most in ((4 / 3, 15), (2.0, 10), (4.0, 8)):
        result = cut.Problem(risk, feasible_set=NonnegativeBall(p)).solve(ClosedFormWeights(), tol=1e-6)
        assert result.status is Status.OPTIMAL and result.n_iter <= most


def test_flat_risks_end_at_once():
    problem = cut.Problem(cut.LinearObjective(np.zeros(3)), feasible_set=NonnegativeBall(2.0))
    assert problem.solve(ClosedFormWeights()).status is Status.OPTIMAL


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (lambda risk: cut.Problem(risk, cut.L2(0.1), NonnegativeBall(2.0)), "risk alone"),
        (lambda risk: cut.Problem(risk, feasible_set=cut.Box(0, 1)), "NonnegativeBall or a Simplex"),
        (
            lambda risk: cut.Problem(cut.LinearObjective(np.array([-1.0, 2.0])), feasible_set=cut.Simplex()),
            "needs a risk that decreases .* has the slope 2 in coordinate 1",
        ),
    ],
)
def test_what_the_closed_form_needs(problem, message):
    with pytest.raises(MissingCapabilityError, match=message):
        problem(reciprocals(3)[0]).solve(ClosedFormWeights())

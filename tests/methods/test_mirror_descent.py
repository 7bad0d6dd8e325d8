"""Mirror descent on sampled gradients, against the theorem's bound and plain projected gradients."""

import math
from functools import cache

import numpy as np
import pytest

import cutplane as cut
from cutplane.methods import MirrorDescent
from cutplane.methods.mirror_descent import sampled
from cutplane.status import Status


class Quadratic(cut.Risk):
    """||A x - b||^2 / 2; counts its calls."""

    def __init__(self, A, b):
        self.A, self.b = A, b
        self.dim = A.shape[1]
        self.calls = self.samples = 0

    def gradient(self, x):
        return self.A.T @ (self.A @ x - self.b)

    def oracle(self, x):
        self.calls += 1
        residual = self.A @ x - self.b
        return 0.5 * residual @ residual, self.A.T @ residual


class Sampled(Quadratic):
    def sample_gradient(self, x, rng):
        self.samples += 1
        gradient = self.gradient(x)
        sizes = np.abs(gradient)
        index = rng.choice(self.dim, p=sizes / sizes.sum())
        return index, math.copysign(sizes.sum(), gradient[index])


def quadratic(kind=Quadratic, dim=8, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((12, dim)) / 3.0
    return kind(A, A @ (3.0 * np.eye(dim)[0] + 0.2) + 0.1 * rng.standard_normal(12))


SETS = {"simplex": cut.Simplex(), "large simplex": cut.Simplex(radius=2.5), "ball": cut.L2Ball(1.0)}
SETS |= {"box": cut.Box(-0.4, 0.4), "capped": cut.CappedSimplex(0.3)}
CASES = [("l2", name) for name in SETS] + [("entropy", n) for n in ("simplex", "large simplex", "capped")]


def test_the_estimate_is_unbiased_and_importance_has_the_least_variance():
    rng = np.random.default_rng(1)
    gradient, draws = np.array([3.0, -1.0, 0.5, 0.0, -0.1]), 40_000
    moments = {}
    for name, shares in {"importance": np.abs(gradient), "uniform": np.ones(5)}.items():
        estimates = np.array([sampled(gradient, shares, rng) for _ in range(draws)])
        assert (np.count_nonzero(estimates, axis=1) <= 1).all()
        error = estimates.std(axis=0) / math.sqrt(draws)
        assert (np.abs(estimates.mean(axis=0) - gradient) <= 4.5 * error + 1e-12).all()
        moments[name] = (estimates**2).sum(axis=1).mean()
    assert moments["importance"] == pytest.approx(np.abs(gradient).sum() ** 2, rel=1e-9)
    assert moments["uniform"] == pytest.approx(5 * (gradient**2).sum(), rel=0.03)
    assert not sampled(np.zeros(3), np.zeros(3), rng).any()


@cache
def least(name):
    return cut.Problem(quadratic(), feasible_set=SETS[name]).solve(cut.LevelBundle(), tol=1e-9).objective


@pytest.mark.parametrize("potential, name", CASES)
@pytest.mark.parametrize("sampling", ["importance", "uniform", "full"])
def test_the_bound_of_the_theorem(potential, name, sampling):
    risk, steps = quadratic(), 150
    problem = cut.Problem(risk, feasible_set=SETS[name])
    optimum, start = least(name), problem.starting_point()
    rng = np.random.default_rng(2)
    points = [problem.simple_set.minimise_linear(v) for v in rng.standard_normal((100, 8))]
    gradients = np.array([risk.gradient(x) for x in points])
    norms = {
        "importance": np.abs(gradients).sum(axis=1) ** 2,
        "uniform": 8 * (gradients**2).sum(axis=1),
        "full": np.linalg.norm(gradients, np.inf if potential == "entropy" else 2, axis=1) ** 2,
    }
    B = norms[sampling].max()  # a convex function: largest at an extreme point
    if potential == "l2":
        spread = max(0.5 * np.sum((x - start) ** 2) for x in points)
    else:
        entropy = [np.sum(x[x > 0] * np.log(x[x > 0])) for x in points]
        spread = max(entropy) - np.sum(start * np.log(start))
        spread *= start.sum()  # strongly convex with modulus 1 / radius
    gaps = []
    for seed in range(1 if sampling == "full" else 3):
        method = MirrorDescent(potential, sampling, step_size=math.sqrt(2 * spread / (B * steps)), seed=seed)
        loop = problem.iterate(method, tol=0.0, max_iter=steps)
        for _ in loop:
            pass
        gaps.append(problem.objective(loop.method_state.average) - optimum)
        assert problem.simple_set.violation(loop.method_state.average) <= 1e-9
    assert -1e-9 <= np.mean(gaps) <= math.sqrt(2 * B * spread / steps)


@pytest.mark.parametrize("potential, name", CASES)
@pytest.mark.parametrize("sampling", ["importance", "uniform", "full"])
def test_certified_convergence(potential, name, sampling):
    problem = cut.Problem(quadratic(), feasible_set=SETS[name])
    optimum = least(name)
    start = problem.objective(problem.starting_point())
    result = problem.solve(MirrorDescent(potential, sampling), tol=0.0, tol_abs=0.02 * start, max_iter=5000)
    assert result.status is Status.OPTIMAL, result
    assert result.lower_bound <= optimum * (1 + 1e-8)
    assert optimum * (1 - 1e-8) <= result.objective <= optimum + 0.02 * start
    assert result.certificate.verify().valid


@pytest.mark.parametrize("potential", ["l2", "entropy"])
def test_the_full_gradient_gives_plain_mirror_descent(potential):
    risk, eta = quadratic(), 0.02
    problem = cut.Problem(risk, feasible_set=cut.Simplex())
    loop = problem.iterate(MirrorDescent(potential, "full", step_size=eta), tol=0.0, max_iter=30)
    x, points = np.full(8, 1 / 8), []
    for state in loop:
        if state.iteration == 0:
            continue
        points.append(x)
        move = eta * risk.gradient(x)
        if potential == "l2":
            x = cut.Simplex().project(x - move)
        else:
            x = x * np.exp(-move) / (x @ np.exp(-move))
        np.testing.assert_allclose(loop.method_state.x, x, rtol=1e-10, atol=1e-14)
        np.testing.assert_allclose(loop.method_state.average, np.mean(points, axis=0), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("sampling", ["importance", "uniform"])
def test_the_same_seed_gives_the_same_run(sampling):
    problem = cut.Problem(quadratic(), feasible_set=cut.Simplex())
    first, again, other = (
        problem.solve(MirrorDescent("entropy", sampling, seed=seed), tol=0.0, max_iter=50)
        for seed in (4, 4, 5)
    )
    assert (first.history.column("upper_bound") == again.history.column("upper_bound")).all()
    assert (first.x == again.x).all()
    assert (first.x != other.x).any()


def test_a_gradient_that_can_be_sampled_is_not_computed():
    risk = quadratic(Sampled)
    problem = cut.Problem(risk, feasible_set=cut.Simplex())
    result = problem.solve(MirrorDescent("entropy"), tol=0.03, max_iter=5000)
    assert result.status is Status.OPTIMAL
    assert risk.samples == result.n_iter
    assert risk.calls < 60 < 4 * risk.samples
    plain = cut.Problem(quadratic(), feasible_set=cut.Simplex()).solve(
        MirrorDescent("entropy"), tol=0.03, max_iter=5000
    )
    assert result.objective == pytest.approx(plain.objective, rel=0.03)
    risk.samples = 0
    problem.solve(MirrorDescent("entropy", "uniform"), tol=0.0, max_iter=5)
    assert risk.samples == 0


@pytest.mark.parametrize("answer", [(8, 1.0), (-1, 1.0), (0, math.nan)])
def test_a_wrong_sample_is_noticed(answer):
    risk = quadratic(Sampled)
    risk.sample_gradient = lambda x, rng: answer
    result = cut.Problem(risk, feasible_set=cut.Simplex()).solve(MirrorDescent(), max_iter=5)
    assert result.status is Status.INVALID_ORACLE
    assert "sample_gradient" in result.reason


@pytest.mark.parametrize("sampling", ["importance", "uniform", "full"])
def test_a_start_at_the_optimum(sampling):
    risk = Quadratic(np.eye(3), np.zeros(3))
    problem = cut.Problem(risk, feasible_set=cut.L2Ball(1.0))
    assert problem.solve(MirrorDescent(sampling=sampling)).status is Status.OPTIMAL
    result = problem.solve(MirrorDescent(sampling=sampling), x0=np.array([0.0, 1.0, 0.0]), tol_abs=1e-3)
    assert result.status is Status.OPTIMAL

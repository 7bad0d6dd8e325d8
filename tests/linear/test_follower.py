"""Paths whose weights a follower solves: the same optima as cold solves, each with a proof of its own."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy import sparse

import cutplane as cut
from cutplane.losses import (
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    MarginLoss,
    Quantile,
    Squared,
    SquaredHinge,
)

LAMS = [0.5, 0.1, 0.1, 0.03, 0.05, 0.005]


def risk(loss, m=60, n=8, layout=np.asarray, integers=False, **options):
    rng = np.random.default_rng(3)
    X = rng.integers(-1, 2, (m, n)).astype(float) if integers else rng.standard_normal((m, n))
    t = X @ rng.standard_normal(n) + rng.standard_normal(m) + 0.3
    y = np.where(t > 0.0, 1.0, -1.0) if isinstance(loss, MarginLoss) else np.round(t) if integers else t
    return cut.LinearRisk(layout(X), y, loss, **options)


def check(problem, lams=LAMS, followed=True, **options):
    path = problem.path(lams, tol=1e-6, **options)
    for lam, result in zip(lams, path, strict=True):
        cold = cut.Problem(problem.risk, problem.regularizer.with_lam(lam), problem.feasible_set)
        best = cold.solve(tol=1e-7)
        assert result.status == "OPTIMAL" and result.certificate.verify().valid
        assert result.lower_bound <= best.objective + 1e-14
        assert result.objective <= best.objective * (1.0 + 1.1e-6)
        assert ("along the path" in result.method) == followed
    return path


@pytest.mark.parametrize("loss", [Squared(), Logistic(), SquaredHinge(), Huber(0.3)], ids=repr)
@pytest.mark.parametrize(
    "regularizer", [cut.L1(), cut.L2(), cut.ElasticNet(1.0, 0.7), cut.GroupLasso(np.arange(8) // 2)], ids=repr
)
def test_losses_without_kinks(loss, regularizer):
    check(cut.Problem(risk(loss), regularizer))


@pytest.mark.parametrize("loss", [Squared(), Logistic()], ids=repr)
def test_boxes_and_free_intercepts(loss):
    check(cut.Problem(risk(loss), cut.L1(), cut.Box(-0.1, 0.2)))
    check(cut.Problem(risk(loss, intercept=True), cut.L1(1.0, np.arange(9.0) < 8)))
    check(cut.Problem(risk(loss, m=600, intercept=True), cut.L2(weights=np.arange(9.0) < 8)))
    check(cut.Problem(risk(loss, m=20, n=40), cut.L1()))


@pytest.mark.parametrize("loss", [Hinge(), Absolute(), Quantile(0.2), EpsilonInsensitive(0.2)], ids=repr)
@pytest.mark.parametrize("layout", [np.asarray, np.asfortranarray, sparse.csr_array, sparse.csc_array])
def test_vertices_of_piecewise_linear_losses(loss, layout):
    check(cut.Problem(risk(loss, layout=layout), cut.L1()))


@pytest.mark.parametrize("loss", [Hinge(), Absolute(), Quantile(0.2)], ids=repr)
def test_vertices_with_ties_weights_and_an_intercept(loss):
    weights = np.where(np.arange(60) % 5, 1.0 + np.arange(60), 0.0)
    check(cut.Problem(risk(loss, integers=True), cut.L1()))
    check(cut.Problem(risk(loss, intercept=True, sample_weight=weights), cut.L1(1.0, 1.0 + np.arange(9.0))))
    check(cut.Problem(risk(loss, m=12, n=30), cut.L1()))


@pytest.mark.parametrize("loss", [Hinge(), Absolute(), Quantile(0.2), EpsilonInsensitive(0.2)], ids=repr)
def test_newton_steps_on_losses_with_kinks(loss):
    weights = np.where(np.arange(60) % 5, 1.0 + np.arange(60), 0.0)
    check(cut.Problem(risk(loss), cut.L2()))
    check(cut.Problem(risk(loss, integers=True), cut.L2(1.0, np.arange(8.0), 1.0 + np.arange(8.0))))
    check(cut.Problem(risk(loss, sample_weight=weights), cut.L2()), x0=np.ones(8))
    check(cut.Problem(risk(loss, intercept=True), cut.L2(weights=1.0 + (np.arange(9.0) < 8))))
    check(cut.Problem(risk(loss, intercept=True), cut.L2(weights=np.arange(9.0) < 8)), followed=False)
    check(cut.Problem(risk(loss), cut.L2(1.0)), [0.1, 0.01, 0.1])
    check(cut.Problem(risk(loss, layout=sparse.csr_array), cut.L2()), followed=False)


@dataclass(frozen=True)
class Liar(cut.Portfolio):
    kind: str = "none"

    def follower(self, problem, x0=None):
        return Guess(self.kind, problem.dim, len(problem.risk.y))


class Guess:
    def __init__(self, kind, dim, m):
        self.kind, self.x, self.m = kind, np.zeros(dim), m
        self.rng = np.random.default_rng(0)

    def solve(self, problem, tolerance):
        if self.kind == "none":
            return None
        x, u = self.rng.standard_normal(self.x.size), self.rng.standard_normal(self.m)
        if self.kind == "nan":
            u[0] = np.nan
        if self.kind == "far":
            u *= 1e6
        return x, np.clip(u, -0.3, 0.3) if self.kind == "poor" else u


@pytest.mark.parametrize("kind", ["none", "nan", "far", "poor"])
def test_a_follower_that_lies_proves_nothing(kind):
    problem = cut.Problem(risk(Squared()), cut.L1())
    check(problem, [0.3, 0.1], followed=False, method=Liar(kind=kind))


def test_options_of_a_path_with_a_follower():
    problem, seen = cut.Problem(risk(Logistic()), cut.L2()), []
    problem.path([0.1, 0.01], callback=lambda state: seen.append(state.iteration))
    assert seen == [0, 1, 0, 1]
    stopped = problem.path([0.1, 0.01], callback=lambda state: True)
    assert len(stopped) == 1 and stopped[0].status == "INTERRUPTED"
    check(problem, followed=False, backend="clarabel")
    with pytest.raises(TypeError, match="no option 'eps'"):
        problem.path([0.1, 0.01], eps=1.0)


@pytest.mark.parametrize("loss", [Logistic(), Squared(), Hinge()], ids=repr)
def test_columns_that_are_centred_and_scaled_inside(loss):
    given = risk(loss, m=80, intercept=True)
    X = given.X * 10.0 ** np.arange(-4.0, 4.0) + np.where(np.arange(8) % 2, 2000.0, 0.0)
    far = cut.LinearRisk(X, given.y, loss, intercept=True)
    penalized = cut.L1(1.0, np.append(10.0 ** np.arange(-4.0, 4.0), 0.0))
    path = check(cut.Problem(far, penalized), [0.3, 0.1, 0.03], followed=not isinstance(loss, Hinge))
    assert all(result.certificate.standard is not None for result in path)

"""Norms as regularizers, penalties of differences, semidefinite matrices: against cvxpy and brute force."""

import math

import cvxpy as cp
import numpy as np
import pytest

import cutplane as cut
from cutplane.exceptions import InvalidInputError
from cutplane.pieces.capabilities import Capability, offers
from cutplane.regularizers import GroupLasso, LInf, Norm, NuclearNorm, SpectralNorm
from cutplane.testing import check_regularizer, check_set

RNG = np.random.default_rng(0)
SHAPE = (2, 3)
N = 6
V = cp.Variable(N)
MATRIX = cp.reshape(V, SHAPE, order="C")
GROUPS = [[0, 4], [1], [5, 3, 2]]
WEIGHTS = np.array([1.0, 0.5, 2.0])
X, Y = RNG.standard_normal((50, N)), RNG.standard_normal(50)
NORMS = {
    "largest entry": (LInf(0.6), 0.6 * cp.norm_inf(V)),
    "groups": (GroupLasso(GROUPS, 0.3), 0.3 * sum(cp.norm2(V[g]) for g in GROUPS)),
    "weighted groups": (
        GroupLasso(GROUPS, 0.3, WEIGHTS),
        0.3 * sum(w * cp.norm2(V[g]) for w, g in zip(WEIGHTS, GROUPS, strict=True)),
    ),
    "nuclear": (NuclearNorm(SHAPE, 0.3), 0.3 * cp.normNuc(MATRIX)),
    "spectral": (SpectralNorm(SHAPE, 0.5), 0.5 * cp.sigma_max(MATRIX)),
    "variation": (cut.total_variation(N, 0.2), 0.2 * cp.norm1(cp.diff(V))),
    "variation of a grid": (
        cut.total_variation(SHAPE, 0.2),
        0.2 * (cp.sum(cp.abs(cp.diff(MATRIX, axis=0))) + cp.sum(cp.abs(cp.diff(MATRIX, axis=1)))),
    ),
    "trend": (cut.trend_filter(N, 0.2), 0.2 * cp.norm1(cp.diff(V, 2))),
    "quadratic trend": (cut.trend_filter(N, 0.2, order=2), 0.2 * cp.norm1(cp.diff(V, 3))),
    "sparse groups": (
        GroupLasso(GROUPS, 0.2) + cut.L1(0.1),
        0.2 * sum(cp.norm2(V[g]) for g in GROUPS) + 0.1 * cp.norm1(V),
    ),
    "overlap": (
        GroupLasso([[0, 1, 2], [3, 4, 5]], 0.2) @ np.eye(N)[[0, 1, 2, 2, 3, 4]],
        0.2 * (cp.norm2(V[:3]) + cp.norm2(V[2:5])),
    ),
    "low rank plus sparse": (
        NuclearNorm((2, 2), 0.2).on(slice(0, 4)) + cut.L1(0.1).on(slice(4, 6)),
        0.2 * cp.normNuc(cp.reshape(V[:4], (2, 2), order="C")) + 0.1 * cp.norm1(V[4:]),
    ),
}


def minimum(objective, constraints=()):
    problem = cp.Problem(cp.Minimize(objective), list(constraints))
    return problem.solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("name", NORMS)
def test_a_norm_keeps_its_word(name):
    g, expression = NORMS[name]
    assert check_regularizer(g, N, feasible_sets=[cut.Box(-1, 2), cut.Simplex()], n_points=6)
    for x in RNG.standard_normal((5, N)):
        V.value = x
        assert g.value(x) == pytest.approx(float(expression.value), rel=1e-9)
        assert g.in_unit(4.0).value(x) == pytest.approx(g.value(4.0 * x), rel=1e-12)


@pytest.mark.parametrize("name", NORMS)
def test_a_problem_with_a_norm(name):
    g, expression = NORMS[name]
    problem = cut.Problem(cut.LinearRisk(X, Y, cut.losses.Absolute()), g)
    result = problem.solve(tol=1e-6)
    expected = minimum(cp.sum(cp.abs(X @ V - Y)) / 50 + expression)
    assert result.status == "OPTIMAL", result
    assert result.objective == pytest.approx(expected, rel=3e-6)
    assert result.certificate.verify().valid


@pytest.mark.parametrize("name", [name for name, (g, _) in NORMS.items() if isinstance(g, Norm)])
def test_the_conjugate_is_that_of_the_dual_ball(name):
    g, _ = NORMS[name]
    whole = cut.WholeSpace(N)
    for v in RNG.standard_normal((10, N)):
        dual, atom = g.dual_norm(v)
        assert g.norm(atom) == pytest.approx(1.0) and v @ atom == pytest.approx(dual)
        assert all(v @ x <= dual * g.norm(x) + 1e-12 for x in RNG.standard_normal((50, N)))
        slope = g.norm_slope(v)
        assert g.dual_norm(slope)[0] == pytest.approx(1.0) and slope @ v == pytest.approx(g.norm(v))
        inside, outside = (factor * g.lam / dual * v for factor in (0.999, 1.5))
        assert g.conjugate_minimiser(inside, whole, math.inf).value == 0.0
        assert g.conjugate_minimiser(outside, whole, math.inf).value == -math.inf
        found = g.conjugate_minimiser(outside, whole, 3.0)
        assert found.value == pytest.approx(-1.5) and g.value(found.x) == pytest.approx(3.0)
    assert g.conjugate_minimiser(v, cut.Box(-1, 1), math.inf) is None
    assert g.with_lam(0.0).conjugate_minimiser(v, cut.Box(-1, 1), math.inf).value == pytest.approx(
        -np.abs(v).sum()
    )


def test_at_zero():
    for name, (g, _) in NORMS.items():
        assert g.value(np.zeros(N)) == 0.0 and np.isfinite(g.subgradient(np.zeros(N))).all(), name
    assert offers(LInf(), Capability.LINEAR_FORM)


def test_a_grid_of_three_dimensions():
    g, x = cut.total_variation((2, 1, 3)), np.arange(6.0)
    assert g.value(x) == 3 * 3 + 4


@pytest.mark.parametrize("n", [1, 3])
def test_semidefinite_matrices(n):
    cone = cut.PSDCone(n)
    assert check_set(cone)
    for x in RNG.standard_normal((10, n * n)):
        near = cone.project(x)
        assert cone.violation(near) == 0.0
        P = cp.Variable((n, n), symmetric=True)
        assert np.sum((near - x) ** 2) == pytest.approx(
            minimum(cp.sum_squares(cp.vec(P, order="C") - x), [P >> 0]), rel=1e-5, abs=1e-7
        )


@pytest.mark.parametrize("seed", range(3))
def test_problems_over_semidefinite_matrices_are_certified(seed):
    rng, n = np.random.default_rng(seed), 4
    C = rng.standard_normal((n, n))
    C += C.T
    P = cp.Variable((n, n), symmetric=True)
    result = cut.Problem(cut.LinearObjective(C.ravel()), feasible_set=cut.PSDCone(n) & cut.Box(-1, 1)).solve(
        tol=1e-6
    )
    expected = minimum(cp.sum(cp.multiply(C, P)), [P >> 0, cp.abs(P) <= 1])
    assert result.status == "OPTIMAL" and result.objective == pytest.approx(expected, rel=1e-5)
    assert result.certificate.verify().valid
    target = rng.standard_normal(n * n)
    nearest = cut.LinearRisk(np.eye(n * n), target, cut.losses.Absolute())
    result = cut.Problem(nearest, cut.L2(0.1), cut.PSDCone(n)).solve(tol=1e-5)
    expected = minimum(
        cp.sum(cp.abs(cp.vec(P, order="C") - target)) / n**2 + 0.05 * cp.sum_squares(P), [P >> 0]
    )
    assert result.status == "OPTIMAL" and result.objective == pytest.approx(expected, rel=2e-5)
    assert result.certificate.verify().valid


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GroupLasso([[0, 1], [1]]), r"GroupLasso\.groups must be a partition"),
        (lambda: GroupLasso([]), r"GroupLasso\.groups is empty"),
        (lambda: GroupLasso([[0], [1]], weights=[1.0]), r"GroupLasso\.weights must have shape \(2,\)"),
        (lambda: GroupLasso([[0], [1]], weights=[1.0, 0.0]), r"GroupLasso\.weights"),
        (lambda: GroupLasso([[0], [1]]).check_dim(3), "has dimension 2"),
        (lambda: NuclearNorm(3), r"NuclearNorm\.shape must be"),
        (lambda: SpectralNorm((2, 0)), r"SpectralNorm\.shape must be at least 1"),
        (lambda: NuclearNorm((2, 3)).check_dim(5), "has dimension 6"),
        (lambda: LInf(-1.0), "lam must be"),
        (lambda: cut.total_variation(1), "two neighbours"),
        (lambda: cut.total_variation((2, 0)), "shape must be at least 1"),
        (lambda: cut.trend_filter(2), "dim must be at least 3"),
        (lambda: cut.trend_filter(5, order=-1), "order must be at least 0"),
        (lambda: cut.PSDCone(0), r"PSDCone\.n must be at least 1"),
    ],
)
def test_mistakes_are_named(make, message):
    with pytest.raises(InvalidInputError, match=message):
        make()

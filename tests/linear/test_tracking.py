"""Exact paths over the weight of an l1 norm: against cold solves, LARS, and where knots have to be."""

import numpy as np
import pytest
from own_losses import targets
from scipy import sparse

import cutplane as cut
from cutplane.linear import CoordinateDescent, PathTracking, lam_max
from cutplane.losses import Hinge, Huber, ModifiedHuber, Pieces, ScalarLoss, Squared, SquaredHinge
from cutplane.tracking.cholesky import CholeskyFactor
from cutplane.tracking.l1_path import L1Path


class Lopsided(ScalarLoss):
    """A user's loss: flat, then two curvatures, then a line."""

    def outline(self):
        return Pieces(knots=[-0.2, 0.4, 1.0], slopes=[-0.2, 0.0, -0.4, 0.6], curvatures=[0.0, 1.0, 2.0, 1.0])


LAYOUTS = [np.asarray, np.asfortranarray, lambda X: X.astype(np.float32), sparse.csr_array, sparse.csc_array]
FORMS = {
    "l1": lambda n, b, lam=1.0: cut.L1(lam, [1.0] * n + [0.0] * b),
    "weights": lambda n, b, lam=1.0: cut.L1(lam, np.append(np.linspace(0.0, 2.0, n), [0.3] * b)),
    "squares": lambda n, b, lam=1.0: (
        cut.L1(lam, [1.0] * n + [0.0] * b) + cut.L2(0.1, centre=np.linspace(0, 0.1, n + b))
    ),
    "elastic net": lambda n, b, lam=1.0: (
        cut.ElasticNet(1.0, 0.7) if lam == 1.0 else cut.L1(0.7 * lam) + cut.L2(0.3)
    ),
}


def problem(loss, layout=np.asarray, form="l1", intercept=True, m=40, n=8, seed=0, whole=False):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, n)).astype(np.float32).astype(np.float64)
    if whole:  # ties and dependent columns
        X = np.round(X)
        X[:, 1] = X[:, 0]
    weights = rng.integers(0, 3, m).astype(float)
    risk = cut.LinearRisk(layout(X), targets(loss, m, rng), loss, sample_weight=weights, intercept=intercept)
    return cut.Problem(risk, FORMS[form](n, int(intercept)))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "loss", [Squared(), SquaredHinge(), Huber(0.5), ModifiedHuber(), Lopsided()], ids=repr
)
def test_agrees_with_cold_solves(loss, form):
    for k, layout in enumerate(LAYOUTS):
        declared = problem(loss, layout, form, intercept=k % 2 == 0, seed=k)
        high = lam_max(declared) if form in ("l1", "weights") else 1.0
        path = declared.path(high / 200, exact=True, tol=1e-10)
        assert path.result.status == "OPTIMAL"
        assert path.gaps.max() < 1e-11
        for lam in np.geomspace(1.1 * path.knots[0], path.knots[-1], 3):
            at = cut.Problem(declared.risk, FORMS[form](8, k % 2 == 0, lam))
            cold = at.solve(cut.Direct(), backend="clarabel", tol=1e-8)
            assert cold.lower_bound - 1e-12 <= value(at, path(lam)) <= cold.objective * (1 + 1e-9)
            assert path.gap(lam) < 1e-11


def value(problem, x):
    return problem.risk.oracle(x)[0] + problem.regularizer.value(x)


@pytest.mark.parametrize("loss", [SquaredHinge(), Huber(0.5), ModifiedHuber()], ids=repr)
def test_each_knot_is_one_and_there_is_no_other(loss):
    """The direction changes at every knot; between two the solution is the mean of theirs."""
    path = problem(loss, m=40, n=5).path(1e-3, exact=True)
    x, lams = path.coefficients, path.knots
    slopes = np.diff(x, axis=0) / np.diff(lams)[:, np.newaxis]
    assert len(path) > 5
    assert np.abs(np.diff(slopes, axis=0)).max(axis=1).min() > 1e-6
    for k in range(len(path) - 1):
        middle = 0.5 * (lams[k] + lams[k + 1])
        at = cut.Problem(path.result.certificate.problem.risk, cut.L1(middle, [1.0] * 5 + [0.0]))
        assert np.abs(at.solve(CoordinateDescent(), tol=1e-13).x - 0.5 * (x[k] + x[k + 1])).max() < 1e-5


def test_knots_of_the_lasso_are_those_of_lars():
    from sklearn.linear_model import lars_path

    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 50)), rng.standard_normal(30)
    alphas, _, coefficients = lars_path(X, y, method="lasso", alpha_min=1e-3)
    path = cut.Problem(cut.LinearRisk(X, y, Squared()), cut.L1(1.0)).path(alphas[-1], exact=True)
    assert np.allclose(path.knots, alphas, rtol=1e-8)
    assert np.allclose(path.coefficients, coefficients.T, atol=1e-8)
    assert any(event.startswith("leaves") for event in path.events)


@pytest.mark.every
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", [Squared(), SquaredHinge(), Huber(0.5), ModifiedHuber()], ids=repr)
def test_ties_and_dependent_columns(loss, intercept):
    for seed, (m, n) in enumerate([(5, 30), (30, 5), (12, 12), (8, 20), (25, 10)]):
        declared = problem(loss, intercept=intercept, m=m, n=n, seed=seed, whole=True)
        path = declared.path(lam_max(declared) / 100, exact=True, tol=1e-9)
        assert path.result.status == "OPTIMAL", (seed, path.result)
        assert path.gaps.max() < 1e-10
        assert max(path.gap(lam) for lam in np.geomspace(path.knots[0], path.knots[-1], 7)) < 1e-10


def test_a_solution_with_rounding_errors_is_corrected():
    path = L1Path(cut.Problem(problem(Huber(0.5)).risk, cut.L1(1e-3, [1.0] * 8 + [0.0])))
    path.advance(12)
    x = path.x.copy()
    path.x[path.index] += 1e-7
    path._correct()
    assert np.abs(path.x - x).max() < 1e-13 and not path._has_drifted


def test_end_of_the_path():
    declared = problem(SquaredHinge())
    high = lam_max(declared)
    path = declared.path(2.0 * high, exact=True)
    assert len(path) == 1 and path.events == ("starts",) and not path(5.0 * high)[:-1].any()
    assert path.result.status == "OPTIMAL"
    own = cut.Problem(declared.risk, cut.L1(0.1 * high, declared.regularizer.weights))
    assert own.path(exact=True).knots[-1] == pytest.approx(0.1 * high)
    with pytest.raises(cut.InvalidInputError, match="beyond the end"):
        path(high)
    for end in (0.0, -1.0, np.nan):
        with pytest.raises(cut.InvalidInputError):
            declared.path(end, exact=True)
    alone = cut.LinearRisk(
        np.eye(3), np.ones(3), SquaredHinge(), intercept=True
    )  # one class: zero for all lam
    assert (
        not cut.Problem(alone, cut.L1(0.1, [1.0, 1.0, 1.0, 0.0])).path(exact=True).coefficients[:, :3].any()
    )


def test_limits_leave_the_knots_so_far():
    path = problem(Huber(0.1), m=200, n=40).path(1e-5, exact=True, max_iter=1)
    assert path.result.status == "MAX_ITER" and 60 < len(path) < 66 and path.knots[-1] > 1e-4
    assert path.gaps.max() < 1e-10


@pytest.mark.parametrize(
    ("risk", "regularizer", "feasible_set"),
    [
        (cut.LinearRisk(np.eye(2), [1.0, -1.0], Hinge()), cut.L1(0.1), None),
        (cut.LinearRisk(np.eye(2), [1.0, -1.0], cut.losses.Logistic()), cut.L1(0.1), None),
        (cut.LinearRisk(np.eye(2), [1.0, -1.0], Squared()), cut.L2(0.1), None),
        (cut.LinearRisk(np.eye(2), [1.0, -1.0], Squared()), cut.L1(0.1), cut.Box(-1, 1)),
        (cut.LinearObjective(np.ones(2)), cut.L1(0.1), None),
    ],
)
def test_refuses_other_problems(risk, regularizer, feasible_set):
    pieces = (risk, regularizer) if feasible_set is None else (risk, regularizer, feasible_set)
    with pytest.raises(cut.MissingCapabilityError, match="PathTracking needs"):
        cut.Problem(*pieces).path(exact=True)
    with pytest.raises(cut.MissingCapabilityError, match="follows no path"):
        cut.Problem(problem(Squared()).risk, cut.L1(0.1)).path(exact=True, method=CoordinateDescent())


def test_is_a_method_with_a_certificate_plots_and_tables():
    declared = cut.Problem(problem(ModifiedHuber()).risk, cut.L1(0.01, [1.0] * 8 + [0.0]))
    result = declared.solve(PathTracking(), tol=1e-11)
    assert result.status == "OPTIMAL" and result.certificate.verify().valid
    path = declared.path(exact=True)
    assert "knots" in repr(path)
    assert path.to_frame().shape == (len(path), 4)
    assert len(path.plot().get_lines()) == 10
    assert np.array_equal(declared.path(exact=True).coefficients, path.coefficients)


def test_factor_follows_its_matrix():
    rng = np.random.default_rng(0)
    factor, H = CholeskyFactor(), np.zeros((0, 0))
    for step in range(200):
        n = len(H)
        kind = rng.integers(4) if n else 0
        if kind == 0 and n < 40:
            column = rng.standard_normal(n)
            diagonal = 1.0 + float(column @ np.linalg.solve(H, column)) if n else 1.0
            assert factor.append(column, diagonal)
            H = np.block([[H, column[:, np.newaxis]], [column[np.newaxis], np.array([[diagonal]])]])
        elif kind == 1:
            place = rng.integers(n)
            factor.remove(place)
            H = np.delete(np.delete(H, place, 0), place, 1)
        elif n:
            u = rng.standard_normal(n)
            weight = 1.0 if kind == 2 else -0.5 / float(u @ np.linalg.solve(H, u))
            assert factor.add(u, weight)
            H = H + weight * np.outer(u, u)
        if len(H) and step % 10 == 0:
            b = rng.standard_normal(len(H))
            assert np.allclose(H @ factor.solve(b), b, atol=1e-6)
    assert not factor.append(H[0].copy(), H[0, 0])
    u = np.linalg.cholesky(H)[:, 0]
    assert not factor.add(u, -1.0 / float(u @ np.linalg.solve(H, u)))
    assert factor.factorise(np.eye(3)) and not factor.factorise(-np.eye(3))

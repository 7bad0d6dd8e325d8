"""Coordinate descent on working sets: every loss, regularizer and layout against cvxpy, and odd shapes."""

import signal
import threading
import time

import numpy as np
import pytest
from covering import covering
from linear_cases import LOSSES, optimum
from own_losses import Kinked, targets
from scipy import sparse

import cutplane as cut
from cutplane.linear import CoordinateDescent, lam_max
from cutplane.losses import Hinge, Huber, Logistic, Squared, SquaredEpsilonInsensitive

ALL_LOSSES = [*LOSSES, SquaredEpsilonInsensitive(0.1)]
LAYOUTS = {
    "dense C": np.ascontiguousarray,
    "dense F": np.asfortranarray,
    "float32": lambda X: X.astype(np.float32),
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "csc": sparse.csc_array,
    "csr": sparse.csr_array,
}
LAM = 0.03


def weights(dim, intercept):
    return [1.0] * (dim - intercept) + [0.0] * intercept


FORMS = {
    "l1": lambda dim, b: (cut.L1(LAM, weights(dim, b)), None),
    "l1 with the bias": lambda dim, b: (cut.L1(LAM), None),
    "weights": lambda dim, b: (cut.L1(LAM, np.append(np.linspace(0.0, 2.0, dim - 1), 1.0 - b)), None),
    "elastic net": lambda dim, b: (cut.ElasticNet(LAM), None),
    "almost l1": lambda dim, b: (cut.L1(LAM, weights(dim, b)) + cut.L2(1e-6, weights=weights(dim, b)), None),
    "l1 in a box": lambda dim, b: (cut.L1(LAM), cut.Box(-0.1, 0.2)),
    "nonnegative": lambda dim, b: (cut.L1(LAM), cut.sets.NonnegativeOrthant()),
    "l2 in a box": lambda dim, b: (cut.L2(LAM), cut.Box(0.05, 0.2)),
    "a box": lambda dim, b: (None, cut.Box(-0.1, 0.2)),
    "groups": lambda dim, b: (cut.GroupLasso(np.arange(dim) // 3, LAM), None),
    "weighted groups": lambda dim, b: (
        cut.GroupLasso(np.arange(dim - 1) % 4, LAM, [0.5, 1.0, 2.0, 0.1]).on(slice(0, dim - 1)),
        None,
    ),
    "part": lambda dim, b: (cut.L1(LAM).on(slice(2, dim)) + cut.L2(LAM).on(slice(0, 2)), None),
}


def data(loss, layout, m, n, seed=0):
    """Data with a duplicate column, a column of zeros and a row of zeros."""
    rng = np.random.default_rng(seed)
    X = (rng.standard_normal((m, n)) * (rng.random((m, n)) < 0.6)).astype(np.float32).astype(np.float64)
    X[:, 1], X[:, 2], X[0] = X[:, 0], 0.0, 0.0
    return LAYOUTS[layout](X), targets(loss, m, rng)


def solve(problem, tol=1e-7, **options):
    return problem.solve(CoordinateDescent(), tol=tol, max_iter=50, **options)


@pytest.mark.parametrize(
    ("loss", "form", "layout", "shape", "intercept"),
    covering(ALL_LOSSES, FORMS, LAYOUTS, [(40, 12), (15, 40)], [False, True]),
    ids=str,
)
def test_solves_agree_with_cvxpy(loss, form, layout, shape, intercept):
    X, y = data(loss, layout, *shape)
    risk = cut.LinearRisk(X, y, loss, np.linspace(0.0, 1.0, len(y)), intercept=intercept)
    problem = cut.Problem(risk, *FORMS[form](risk.dim, intercept))
    result = solve(problem)
    known = optimum(problem)
    assert result.status == "OPTIMAL" and result.certificate.verify().valid
    np.testing.assert_allclose(result.objective, known, rtol=1e-6, atol=1e-8)
    assert result.lower_bound <= known + 1e-6 * abs(known)


def test_zeros_are_exact_and_the_support_is_that_of_the_optimum():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((100, 30))
    y = X[:, :3] @ [2.0, -1.0, 1.0] + 0.01 * rng.standard_normal(100)
    result = cut.Problem(cut.LinearRisk(X, y, Squared()), cut.L1(0.1)).solve(tol=1e-8)
    assert np.flatnonzero(result.x).tolist() == [0, 1, 2]
    assert "CoordinateDescent" in result.method and "OCAS" not in result.method


@pytest.mark.parametrize("seed", range(6))
def test_coordinates_without_a_cost_are_minimised_to_the_last_digits(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((40, 8)), rng.standard_normal(40)
    risk = cut.LinearRisk(X, y, Squared(), sample_weight=rng.integers(0, 3, 40), intercept=True)
    problem = cut.Problem(risk, cut.L1(10.0 ** -rng.uniform(1, 3), [0.0, *[1.0] * 7, 0.0]))
    result = problem.solve(CoordinateDescent(), tol=1e-11, time_limit=20.0)
    assert result.status == "OPTIMAL"
    assert np.abs(risk.oracle(result.x)[1][[0, 8]]).max() < 1e-6


@pytest.mark.parametrize("loss", [Squared(), Logistic(), Huber(0.5)], ids=repr)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("groups", [False, True])
def test_above_the_largest_weight_the_solution_is_zero(loss, intercept, groups):
    X, y = data(loss, "csr", 30, 10)
    risk = cut.LinearRisk(X, y, loss, intercept=intercept)
    regularizer = cut.L1(1.0, weights(risk.dim, intercept))
    if groups:
        regularizer = cut.GroupLasso(np.arange(10) // 2, 1.0, np.linspace(1.0, 2.0, 5)).on(slice(0, 10))
    largest = lam_max(cut.Problem(risk, regularizer))
    result = solve(cut.Problem(risk, regularizer.with_lam(1.001 * largest)))
    assert result.status == "OPTIMAL" and not result.x[:10].any()
    found = solve(cut.Problem(risk, regularizer.with_lam(0.99 * largest))).x[:10]
    assert found.any()
    assert not groups or np.count_nonzero(found.reshape(5, 2).any(axis=1)) == 1


def test_the_largest_weight_of_a_loss_with_kinks_is_not_known():
    X, y = data(Hinge(), "csr", 30, 10)
    with pytest.raises(cut.MissingCapabilityError, match="without kinks"):
        lam_max(cut.Problem(cut.LinearRisk(X, y, Hinge()), cut.L1(1.0)))


def test_the_image_of_x_and_of_a_starting_point_with_entries_that_have_to_go():
    X, y = data(Squared(), "dense C", 20, 30)
    problem = cut.Problem(cut.LinearRisk(X, y, Squared()), cut.L1(0.1))
    result = solve(problem, x0=np.ones(30))
    np.testing.assert_allclose(result.objective, solve(problem).objective, rtol=1e-6)
    assert result.x[2] == 0.0


@pytest.mark.parametrize(
    ("m", "n", "lam"), [(1, 1, 0.1), (1, 50, 0.1), (50, 1, 0.1), (6, 200, 1e-6), (200, 6, 1e-9)]
)
@pytest.mark.parametrize("loss", [Squared(), Logistic()], ids=repr)
def test_odd_shapes(m, n, lam, loss):
    rng = np.random.default_rng(m + n)
    X = np.exp(5.0 * rng.standard_normal(n)) * rng.standard_normal((m, n))
    y = np.sign(rng.standard_normal(m)) if loss == Logistic() else rng.standard_normal(m)
    problem = cut.Problem(cut.LinearRisk(X, y, loss), cut.L1(lam))
    result = problem.solve(tol=1e-5)
    assert result.status == "OPTIMAL" and result.certificate.verify().valid
    for most in (1, 2):  # whatever was reached is proven
        assert problem.solve(tol=1e-9, max_iter=most).certificate.verify().valid


def test_a_path_is_warm():
    X, y = data(Logistic(), "dense F", 60, 100)
    problem = cut.Problem(cut.LinearRisk(X, y, Logistic()), cut.L1(1.0))
    lams = lam_max(problem) * np.logspace(0, -2, 6)
    path = problem.path(lams, tol=1e-6)
    assert all(result.status == "OPTIMAL" for result in path)
    cold = [cut.Problem(problem.risk, cut.L1(lam)).solve(tol=1e-6).objective for lam in lams]
    np.testing.assert_allclose(path.objectives, cold, rtol=2e-6)
    assert not path[0].x.any()


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        (lambda X, y: cut.Problem(cut.LinearRisk(X, y, Kinked()), cut.L1(0.1)), "loss with pieces"),
        (lambda X, y: cut.Problem(cut.LinearRisk(X, y, Squared(), blocks=2), cut.L1(0.1)), "one block"),
        (lambda X, y: cut.Problem(cut.LinearRisk(X, y, Squared()), cut.L2(0.1)), "is smooth"),
        (
            lambda X, y: cut.Problem(cut.LinearRisk(X, y, Squared()), cut.LInf(0.1)),
            "bounds of the coord",
        ),
        (
            lambda X, y: cut.Problem(cut.LinearRisk(X, y, Squared()), cut.L1(0.1), cut.L2Ball(1.0)),
            "bounds of the coord",
        ),
        (lambda X, y: cut.Problem(cut.LinearObjective(np.ones(4)), cut.L1(0.1)), "linear predictions"),
    ],
)
def test_another_form_is_refused_before_the_first_iteration(declared, words):
    X = np.random.default_rng(0).standard_normal((10, 4))
    with pytest.raises(cut.MissingCapabilityError, match=words):
        declared(X, np.sign(X[:, 0])).solve(CoordinateDescent())


def slow_problem():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3000)) + 3.0 * rng.standard_normal((400, 1))
    y = np.sign(rng.standard_normal(400))
    return cut.Problem(cut.LinearRisk(X, y, Logistic()), cut.L1(1e-7))


def test_a_time_limit_ends_inside_a_step():
    slow_problem().solve(CoordinateDescent(), max_iter=1)  # compiles
    began = time.perf_counter()
    result = slow_problem().solve(CoordinateDescent(), tol=1e-13, time_limit=0.2)
    assert result.status in ("TIME_LIMIT", "OPTIMAL", "STALLED")
    assert time.perf_counter() - began < 5.0


def test_ctrl_c_gives_the_best_point():
    timer = threading.Timer(0.1, signal.raise_signal, [signal.SIGINT])

    def callback(state):
        if state.iteration == 0:
            timer.start()
        time.sleep(0.01)

    result = slow_problem().solve(CoordinateDescent(), tol=1e-15, callback=callback)
    timer.cancel()
    assert result.status in ("INTERRUPTED", "STALLED")
    assert result.x is not None

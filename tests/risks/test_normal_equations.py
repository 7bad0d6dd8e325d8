"""Ridge regression is one linear system, solved and certified in one iteration."""

import numpy as np
import pytest
from scipy import sparse

import cutplane as cut
from cutplane.risks import normal_equations

LAYOUTS = {
    "dense": np.ascontiguousarray,
    "by columns": np.asfortranarray,
    "float32": lambda X: X.astype(np.float32),
    "sparse": lambda X: sparse.csr_array(X * (np.abs(X) > 0.8)),
    "sparse by columns": lambda X: sparse.csc_array(X * (np.abs(X) > 0.8)),
}


def minimiser(X, y, weights, intercept, curvatures, centre):
    """The solution of the normal equations, in plain numpy."""
    X = X.toarray() if sparse.issparse(X) else np.asarray(X, dtype=float)
    if intercept:
        X = np.column_stack([X, np.ones(len(y))])
    H = X.T @ (weights[:, None] * X) + np.diag(curvatures)
    return np.linalg.solve(H, X.T @ (weights * y) + curvatures * centre)


@pytest.mark.every
@pytest.mark.parametrize("shape", [(60, 7), (7, 60), (30, 30), (1, 5), (5, 1)], ids=str)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_iteration_solves_ridge_regression(shape, intercept, weighted, layout):
    rng = np.random.default_rng(shape)
    m, n = shape
    X, y = LAYOUTS[layout](rng.standard_normal(shape)), 3.0 + rng.standard_normal(m)
    weights = np.where(rng.random(m) < 0.3, 0.0, rng.random(m)) + 1e-3 * (np.arange(m) == 0)
    dim = n + intercept
    curvatures, centre = rng.random(dim) + 0.1, rng.standard_normal(dim)
    if intercept:
        curvatures[-1] = 0.0
    risk = cut.LinearRisk(
        X, y, cut.losses.Squared(), sample_weight=weights if weighted else None, intercept=intercept
    )
    problem = cut.Problem(risk, cut.L2(0.5, centre=centre, weights=2.0 * curvatures))
    result = problem.solve(tol=1e-9)
    assert result.status is cut.Status.OPTIMAL
    assert result.history.column("step").tolist() == ["start", "direct"]
    wanted = minimiser(X, y, risk.weights, intercept, curvatures, centre)
    assert result.x == pytest.approx(wanted, rel=1e-6, abs=1e-8)
    assert result.objective == pytest.approx(problem.objective(wanted), rel=1e-9)
    assert result.certificate.verify().valid


@pytest.mark.parametrize(
    ("mean", "spread"), [(1990.0, 15.0), (290.0, 10.0), (3000.0, 1000.0), (206855.0, 115000.0)]
)
@pytest.mark.parametrize("tol", [1e-3, 1e-9])
def test_targets_far_from_zero(mean, spread, tol):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 5))
    y = mean + spread * (X @ rng.standard_normal(5) + rng.standard_normal(200))
    risk = cut.LinearRisk(X, y, cut.losses.Squared(), intercept=True)
    result = cut.Problem(risk, cut.L2(0.1, weights=[1, 1, 1, 1, 1, 0])).solve(tol=tol)
    wanted = minimiser(X, y, risk.weights, True, np.array([0.1] * 5 + [0.0]), np.zeros(6))
    assert result.status is cut.Status.OPTIMAL
    assert result.n_iter == 1
    assert result.x == pytest.approx(wanted, rel=1e-9)
    assert result.certificate.verify().valid


def test_blocks_and_chunks(monkeypatch):
    monkeypatch.setattr("cutplane.risks.normal_equations._CHUNK", 50)
    rng = np.random.default_rng(1)
    for shape in ((40, 9), (9, 40)):
        X, y = rng.standard_normal(shape), rng.standard_normal(shape[0])
        risk = cut.LinearRisk(X, y, cut.losses.Squared(), blocks=3)
        result = cut.Problem(risk, cut.L2(0.3)).solve(tol=1e-9)
        wanted = minimiser(X, y, risk.weights, False, np.full(shape[1], 0.3), np.zeros(shape[1]))
        assert result.n_iter == 1
        assert result.x == pytest.approx(wanted, rel=1e-7)


def test_what_is_no_small_linear_system_is_solved_by_cuts(monkeypatch):
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((30, 4)), rng.standard_normal(30)
    risk = cut.LinearRisk(X, y, cut.losses.Squared())
    huber = cut.LinearRisk(X, y, cut.losses.Huber())
    problems = [
        cut.Problem(risk, cut.L1(0.1)),
        cut.Problem(risk, cut.L2(0.1), cut.Box(-1, 1)),
        cut.Problem(huber, cut.L2(0.1)),
        cut.Problem(risk, cut.L2(0.1, weights=[1, 1, 0, 1])),
    ]
    results = [problem.solve(tol=1e-6) for problem in problems]
    monkeypatch.setattr(normal_equations, "is_affordable", lambda X: False)
    risk = cut.LinearRisk(X, y, cut.losses.Squared())
    results.append(cut.Problem(risk, cut.L2(0.1)).solve(tol=1e-6))
    for result in results:
        assert result.status is cut.Status.OPTIMAL
        assert "direct" not in result.history.column("step")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("shape", [(30, 4), (4, 30)], ids=str)
@pytest.mark.parametrize("size", [1e160, 1e200])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_a_system_that_overflows_is_left_to_cuts(shape, size, layout):
    rng = np.random.default_rng(4)
    risk = cut.LinearRisk(
        layout(size * rng.standard_normal(shape)), rng.standard_normal(shape[0]), cut.losses.Squared()
    )
    assert risk.minimise_with(cut.L2(0.1).quadratic(shape[1])) is None


def test_systems_that_cost_more_than_cuts_are_refused():
    """Sparse products cost a hundred times those of BLAS."""
    eye = sparse.eye_array(20_000, format="csr")
    wide = sparse.hstack([sparse.csr_array(np.ones((900, 900))), sparse.csr_array((900, 10_000))], "csr")
    assert normal_equations.is_affordable(np.ones((5000, 200)))
    assert normal_equations.is_affordable(np.ones((200, 5000)))
    assert normal_equations.is_affordable(np.ones((3000, 900)))
    assert not normal_equations.is_affordable(sparse.csr_array(np.ones((3000, 900))))
    assert not normal_equations.is_affordable(eye)  # 3.2 GB
    assert normal_equations.is_affordable(wide) == normal_equations.is_affordable(wide.tocsc())


@pytest.mark.parametrize("answer", [np.ones(3), np.full(4, np.nan), "x", 1j * np.ones(4)], ids=str)
def test_a_minimiser_of_the_users_is_checked(answer):
    class Own(cut.risks.Risk):
        dim = 4

        def oracle(self, x):
            return float((x - 1.0) @ (x - 1.0)), 2.0 * (x - 1.0)

        def minimise_with(self, quadratic):
            return answer

    result = cut.Problem(Own(), cut.L2(0.1)).solve(cut.Portfolio())
    assert result.status is cut.Status.INVALID_ORACLE
    assert "Own.minimise_with must return a finite point of shape (4,)" in result.reason
    assert result.objective == 4.0


def test_a_minimiser_of_the_users_ends_the_run():
    class Own(cut.risks.Risk):
        dim = 4

        def oracle(self, x):
            return float((x - 1.0) @ (x - 1.0)), 2.0 * (x - 1.0)

        def minimise_with(self, quadratic):
            return (2.0 + quadratic.weights * quadratic.centre) / (2.0 + quadratic.weights)

    result = cut.Problem(Own(), cut.L2(2.0)).solve(cut.Portfolio(), tol=1e-9)
    assert result.status is cut.Status.OPTIMAL
    assert result.n_iter == 1
    assert result.x == pytest.approx(np.full(4, 0.5))


def test_the_paper_is_followed_without_moves_of_other_kinds():
    rng = np.random.default_rng(3)
    risk = cut.LinearRisk(rng.standard_normal((30, 4)), rng.standard_normal(30), cut.losses.Squared())
    result = cut.Problem(risk, cut.L2(0.1)).solve(cut.Portfolio(moves=()), tol=1e-6)
    assert "direct" not in result.history.column("step")

"""The reduced gradient method against cvxpy and Frank-Wolfe, and its broken lines by brute force."""

from functools import cache

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from covering import covering
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import cutplane as cut
from cutplane.exceptions import MissingCapabilityError
from cutplane.methods.frank_wolfe import FacePath, ReducedGradient
from cutplane.status import Status

M, N = 60, 12
LAYOUTS = ("dense", "csr", "float32", "oracle")


@cache
def instance(loss_name, layout="dense", radius=1.0):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((M, N))
    t = X[:, :4] @ np.array([0.5, 0.3, 0.2, 0.1]) + 0.3 * rng.standard_normal(M)
    loss, y = (cut.losses.Squared(), t) if loss_name == "squared" else (cut.losses.Logistic(), np.sign(t))
    simplex, w = cut.Simplex(radius=radius), cp.Variable(N)
    data = {"csr": sp.csr_array(X), "float32": X.astype(np.float32)}.get(layout, X)
    risk = cut.LinearRisk(data, y, loss)
    rows = data.toarray() if layout == "csr" else data.astype(np.float64)
    monolith = cp.sum(loss.cvxpy_form(rows @ w, y)) / M
    optimum = cp.Problem(cp.Minimize(monolith), simplex.cvxpy_form(w)).solve(
        cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10
    )
    if layout == "oracle":
        risk = cut.risk(dim=N)(risk.oracle)
    return cut.Problem(risk, feasible_set=simplex), float(optimum)


@pytest.mark.parametrize(("loss", "layout", "radius"), covering(["squared", "logistic"], LAYOUTS, [1.0, 3.0]))
def test_against_cvxpy_and_frank_wolfe(loss, layout, radius):
    problem, optimum = instance(loss, layout, radius)
    result = problem.solve(ReducedGradient(), tol=1e-7, max_iter=400)
    assert result.status is Status.OPTIMAL
    assert result.objective == pytest.approx(optimum, rel=2e-7)
    assert result.lower_bound <= optimum * (1 + 1e-9)
    assert problem.simple_set.violation(result.x) <= 1e-12 * radius
    upper = result.history.column("upper_bound")
    assert (np.diff(upper) <= 0).all()
    assert result.certificate.verify().valid
    other = problem.solve(cut.FrankWolfe("exact", "pairwise"), tol=1e-7)
    np.testing.assert_allclose(result.x, other.x, atol=2e-3 * radius)
    assert result.n_iter <= 3 * other.n_iter + 10


def test_the_gap_is_that_of_the_simplex():
    """max_j <f'(x), x - e_j>, at the one iterate that the run ends at."""
    problem, _ = instance("logistic")
    result = problem.solve(ReducedGradient(), tol=1e-12, max_iter=1)
    start = problem.starting_point()
    gradient = problem.risk.oracle(start)[1]
    value = problem.objective(start)
    assert result.lower_bound == pytest.approx(value - gradient @ start + gradient.min(), rel=1e-12)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_the_broken_line_is_that_of_simplemkl(data):
    """Step to the bound, zero that coordinate's direction, let the largest take the rest; again."""
    n = data.draw(st.integers(2, 7))
    x = data.draw(arrays(np.float64, n, elements=st.sampled_from([0.0, 0.1, 0.25, 1.0, 3.0])))
    x = x / x.sum() if x.any() else np.full(n, 1.0 / n)
    gradient = data.draw(arrays(np.float64, n, elements=st.integers(-4, 4).map(float)))
    path = FacePath.against(gradient, x)
    base = int(np.argmax(x))
    reduced = gradient - gradient[base]
    change = np.where((x <= 0) & (reduced > 0), 0.0, -reduced)
    change[base] = -np.delete(change, base).sum()
    assert change @ gradient <= 1e-12
    here = x.copy()
    for k in range(1, len(path.ends) + 1):
        falling = change < -1e-12
        t = (here[falling] / -change[falling]).min()
        here = np.maximum(here + t * change, 0.0)
        np.testing.assert_allclose(path.end(k), here, atol=1e-12)
        assert cut.Simplex().violation(path.end(k)) <= 1e-14
        here[here < 1e-13] = 0.0
        change[(here == 0.0) & (change < 0.0)] = 0.0
        if here[base] > 0.0:
            change[base] = -np.delete(change, base).sum()
    assert here[base] <= 1e-12 or not (change < -1e-12).any()


def test_many_faces_cost_few_calls():
    n = 1000
    c = np.linspace(1.0, 2.0, n)

    @cut.risk(dim=n)
    def tilted(x):
        return 0.5 * x @ x + 5.0 * c @ x, x + 5.0 * c

    result = cut.Problem(tilted, feasible_set=cut.Simplex()).solve(ReducedGradient(), tol=1e-9, max_iter=100)
    assert result.status is Status.OPTIMAL
    assert result.oracle_calls <= 30 * result.n_iter
    assert result.oracle_calls < 0.5 * n


def test_degenerate_problems():
    for dim in (1, 2):
        risk = cut.LinearObjective(np.zeros(dim))
        assert cut.Problem(risk, feasible_set=cut.Simplex()).solve(ReducedGradient()).status is Status.OPTIMAL
    risk = cut.LinearObjective(np.array([3.0, 1.0, 2.0]))
    result = cut.Problem(risk, feasible_set=cut.Simplex()).solve(ReducedGradient())
    assert result.x.tolist() == [0.0, 1.0, 0.0]


def test_a_kink_ends_the_run_with_its_reason():
    @cut.risk(dim=3)
    def kinked(x):
        return abs(x[0] - x[1]) + 0.1 * x[2], np.array(
            [np.sign(x[0] - x[1]) or 1.0, -np.sign(x[0] - x[1]) or -1.0, 0.1]
        )

    problem = cut.Problem(kinked, feasible_set=cut.Simplex())
    result = problem.solve(ReducedGradient(), x0=[0.4, 0.4, 0.2])
    assert result.status is Status.STALLED
    assert "differentiable" in result.reason
    assert result.lower_bound <= 0.0 <= result.objective


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (lambda risk: cut.Problem(risk, cut.L2(0.1), cut.Simplex()), "risk alone"),
        (
            lambda risk: cut.Problem(risk, feasible_set=cut.Box(0, 1)),
            "a Simplex, but the feasible set is Box",
        ),
        (lambda risk: cut.Problem(risk, feasible_set=cut.CappedSimplex(0.5)), "a Simplex, but"),
    ],
)
def test_what_it_needs(problem, message):
    with pytest.raises(MissingCapabilityError, match=message):
        problem(instance("squared")[0].risk).solve(ReducedGradient())

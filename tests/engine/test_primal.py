"""Primal recovery: the solutions behind the cuts, averaged by the multipliers of the lower bound."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linprog

import cutplane as cut

C, A, B = np.array([-3.0, -2.5, -4.2]), np.array([[1.0, 1.0, 2.0], [2.0, 0.0, 3.0]]), np.array([2.5, 3.2])
"""min <C, x> with A x <= B and x in the unit box."""
WHOLE = linprog(C, A, B, bounds=(0.0, 1.0))


def answer(u, coordinates=slice(None)):
    """Return minus the Lagrangian of the coordinates without its constant, the slope, and the minimiser."""
    costs = C[coordinates] + A[:, coordinates].T @ u
    x = (costs < 0.0).astype(float)
    return -costs @ x, -A[:, coordinates] @ x, x


def dual(wrap=lambda x: x):
    @cut.risk(dim=2)
    def lagrangian(u):
        value, slope, x = answer(u)
        return value + B @ u, slope + B, wrap(x)

    return lagrangian


def problem(risk, largest=10.0):
    return cut.Problem(risk, feasible_set=cut.Box(0.0, largest))


def check(primal):
    assert C @ primal == pytest.approx(WHOLE.fun)
    assert (A @ primal <= B + 1e-9).all()
    assert primal == pytest.approx(WHOLE.x)


@pytest.mark.parametrize("method", [cut.Kelley(), cut.LevelBundle(), cut.ProximalBundle()])
def test_the_average_solves_the_primal(method):
    result = problem(dual()).solve(method, tol=1e-9)
    assert result.objective == pytest.approx(-WHOLE.fun)
    check(result.primal)
    assert result.certificate.verify().valid


class Columns:
    def __init__(self, x):
        self.x = x

    def __add__(self, other):
        return Columns(self.x + other.x)

    def __mul__(self, number):
        assert isinstance(number, float)
        return Columns(number * self.x)


@pytest.mark.parametrize(
    "wrap, back",
    [
        (lambda x: sparse.csr_array(x[np.newaxis]), lambda s: s.toarray()[0]),
        (lambda x: sparse.coo_array(x[np.newaxis]), lambda s: s.toarray()[0]),
        (Columns, lambda c: c.x),
        (lambda x: (x[:1], float(x[1]), x[2]), lambda t: np.hstack(t)),
    ],
)
def test_a_solution_may_be_anything_that_can_be_averaged(wrap, back):
    primal = problem(dual(wrap)).solve(tol=1e-9)
    check(back(primal.primal))


def separable():
    @cut.risk(dim=2, blocks=3)
    def lagrangian(u):
        values, slopes, solutions = zip(*[answer(u, slice(j, j + 1)) for j in range(3)], strict=True)
        return np.array(values), np.array(slopes), solutions

    return lagrangian


def test_every_block_has_its_average_and_a_sum_keeps_them():
    risk = (separable() + cut.LinearObjective(B)).disaggregated()
    result = problem(risk).solve(cut.Kelley(), tol=1e-9)
    assert result.primal[3] is None
    check(np.concatenate(result.primal[:3]))
    merged = problem(separable() + cut.LinearObjective(B)).solve(cut.Kelley(), tol=1e-9)
    check(np.concatenate(merged.primal))
    two = problem(0.5 * dual() + 0.5 * dual()).solve(cut.Kelley(), tol=1e-9)
    assert len(two.primal) == 2
    check(two.primal[0])


def test_the_average_survives_aggregation_files_and_warm_starts(tmp_path):
    rng = np.random.default_rng(0)
    points = rng.standard_normal((300, 6))

    @cut.risk(dim=6)
    def support(u):
        x = points[np.argmax(points @ u)]
        return float(x @ u), x, x

    whole = cut.Problem(support, cut.L2(1.0))  # the dual: the point of the convex hull nearest to zero
    shifted = points + 3.0
    points[:] = shifted
    few = whole.solve(cut.BMRM(), max_cuts=4, tol=1e-3, max_iter=3000)
    many = whole.solve(cut.BMRM(), tol=1e-9)
    assert len(few.certificate.solutions) < len(many.certificate.points) + 50
    for result, tolerance in ((few, 3e-2), (many, 1e-4)):
        assert result.primal == pytest.approx(-result.x, abs=10 * tolerance)
        weights = result.certificate.multipliers
        assert set(result.certificate.queries[weights > 0]) <= set(result.certificate.solutions)
    loaded = cut.load(many.save(tmp_path / "run"), whole)
    assert loaded.primal == pytest.approx(many.primal, rel=1e-12)
    again = whole.solve(cut.BMRM(), tol=1e-9, warm_start=loaded)
    assert again.oracle_calls < many.oracle_calls
    assert again.primal == pytest.approx(many.primal, abs=1e-3)


def test_files_keep_sparse_and_block_solutions_and_leave_objects_out(tmp_path):
    blocks = problem((separable() + cut.LinearObjective(B)).disaggregated()).solve(cut.Kelley(), tol=1e-9)
    loaded = cut.load(blocks.save(tmp_path / "blocks"))
    check(np.concatenate(loaded.primal[:3]))
    thin = problem(dual(lambda x: sparse.csr_array(x[np.newaxis]))).solve(tol=1e-9)
    check(cut.load(thin.save(tmp_path / "thin")).primal[0])
    objects = problem(dual(Columns)).solve(tol=1e-9)
    assert cut.load(objects.save(tmp_path / "objects")).primal is None


def test_there_is_none_where_the_oracle_returned_none():
    @cut.risk(dim=2)
    def plain(u):
        value, slope, _ = answer(u)
        return value + B @ u, slope + B

    assert problem(plain).solve().primal is None

    @cut.risk(dim=2)
    def sometimes(u):
        value, slope, x = answer(u)
        return value + B @ u, slope + B, x if u[0] > 0.5 else None

    assert problem(sometimes).solve(cut.Kelley(), tol=1e-9).primal is None

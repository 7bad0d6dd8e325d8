"""The Frank-Wolfe method against closed forms, one cvxpy solve, and its published rates."""

from functools import cache
from itertools import pairwise, product

import cvxpy as cp
import numpy as np
import pytest
from covering import covering
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import nnls
from smooth_cases import LAYOUTS, LOSSES, SETS, assert_sound, data, instance

import cutplane as cut
from cutplane.exceptions import InvalidInputError, MissingCapabilityError, OracleError
from cutplane.losses import Hinge, Huber, Logistic, ModifiedHuber, Squared, SquaredHinge
from cutplane.methods import AcceleratedGradient, MirrorDescent
from cutplane.methods.frank_wolfe import Atoms, FacePath, FrankWolfe, ReducedGradient
from cutplane.risks.base import Risk
from cutplane.sets.base import FeasibleSet
from cutplane.status import Status

STEPS = ("short", "exact", "open_loop")
VARIANTS = ("vanilla", "away", "pairwise", "fully_corrective")
UNSAFE = list(product(["open_loop"], ["away", "pairwise"]))
CHOICES = [choice for choice in product(STEPS, VARIANTS) if choice not in UNSAFE]
METHODS = [FrankWolfe(*choice) for choice in CHOICES]
SMOOTH = (Squared(), SquaredHinge(), Huber(0.5), ModifiedHuber(), Logistic())


class Quadratic(Risk):
    """||A x - b||^2 / 2, without images; counts its calls."""

    def __init__(self, A, b):
        self.A, self.b, self.dim, self.calls = A, b, A.shape[1], 0

    def oracle(self, x):
        self.calls += 1
        residual = self.A @ x - self.b
        return 0.5 * residual @ residual, self.A.T @ residual

    def curvature_bound(self, x, direction):
        return float(np.sum((self.A @ direction) ** 2))


class Hull(FeasibleSet):
    """The hull of the rows of V, which has a linear minimisation and nothing else."""

    bounded = True

    def __init__(self, V, answer=None):
        self.V, self.dim, self.answer, self.calls = V, V.shape[1], answer, 0

    def violation(self, x):
        return 0.0

    def minimise_linear(self, v):
        self.calls += 1
        if self.answer is not None and self.calls > 3:
            return self.answer()
        return self.V[np.argmin(self.V @ v)].copy()


class Answer:
    def __init__(self, weights):
        self.weights = weights

    def correct(self, atoms, weights, run):
        return self.weights(weights)


def assert_combination(state, feasible_set, x):
    for weights, atoms in ((state.weights, state.atoms), (state.best.weights, state.best.atoms)):
        assert weights.shape == (len(atoms),)
        assert weights.min() >= 0 and weights.sum() == pytest.approx(1, abs=1e-12)
        assert all(feasible_set.violation(atom) <= 1e-12 for atom in atoms)
        assert len(np.unique(atoms, axis=0)) == len(atoms)
    assert state.best.x == pytest.approx(x, abs=1e-12)
    assert state.weights @ state.atoms == pytest.approx(state.point.x, abs=1e-12)


def run(problem, method, **options):
    loop = problem.iterate(method, **options)
    states = list(loop)
    if method.correction is None:
        assert min(loop.method_state.weights.min(), loop.method_state.best.weights.min()) > 0
    return loop.result(), loop.method_state, states


def tolerance(method):
    return 1e-2 if method.variant == "vanilla" else 1e-6


@pytest.mark.parametrize(("method", "set_name", "loss"), covering(METHODS, SETS, LOSSES))
def test_against_one_monolithic_solve(method, set_name, loss):
    problem, optimum = instance(set_name, loss)
    tol = tolerance(method)
    result, state, _ = run(problem, method, tol=tol, max_iter=3000)
    assert_sound(problem, result, optimum, tol)
    assert_combination(state, problem.simple_set, result.x)


@settings(max_examples=10, deadline=None)
@given(
    A=arrays(np.float64, (5, 4), elements=st.floats(-2, 2).map(lambda v: round(v, 2))),
    b=arrays(np.float64, 5, elements=st.floats(-2, 2).map(lambda v: round(v, 2))),
    step=st.sampled_from(STEPS),
    variant=st.sampled_from(["vanilla", "fully_corrective"]),
)
def test_the_published_rates(A, b, step, variant):
    problem = cut.Problem(Quadratic(A, b), feasible_set=cut.Simplex())
    curvature = max(np.sum((A[:, i] - A[:, j]) ** 2) for i in range(4) for j in range(4))
    least = problem.solve(FrankWolfe("exact", "pairwise"), tol=0.0, tol_abs=1e-9, max_iter=500).lower_bound
    loop = problem.iterate(FrankWolfe(step, variant), x0=np.eye(4)[0], tol=0.0, max_iter=60)
    for state in loop:
        t = state.iteration
        if t >= 1:
            assert loop.method_state.point.objective - least <= 2 * curvature / (t + 2) + 1e-8
        if t >= 3:
            assert state.upper_bound - state.lower_bound <= 27 / 4 * curvature / (t + 1) + 1e-8


def test_away_and_pairwise_converge_linearly_where_vanilla_does_not():
    rng = np.random.default_rng(3)
    A = rng.normal(size=(40, 20))
    inside = np.where(np.arange(20) < 7, rng.uniform(0.5, 1.5, 20), 0.0)
    problem = cut.Problem(Quadratic(A, A @ (inside / inside.sum()) + 0.3), feasible_set=cut.Simplex())
    for step in STEPS[:2]:
        gaps = {}
        for variant in VARIANTS:
            method = FrankWolfe(step, variant)
            gaps[variant] = problem.solve(method, x0=np.eye(20)[0], tol=1e-11, max_iter=250).gap
        assert gaps["vanilla"] > 1e-4
        assert max(gaps[variant] for variant in VARIANTS[1:]) < 1e-8, gaps


@pytest.mark.parametrize("method", METHODS, ids=lambda method: f"{method.step_size}-{method.variant}")
def test_a_set_known_by_its_linear_minimisation_alone_is_asked_once_per_iteration(method):
    rng = np.random.default_rng(1)
    V, c = rng.normal(size=(12, 5)), rng.normal(size=5)
    w = cp.Variable(12)
    simplex = [w >= 0, cp.sum(w) == 1]
    optimum = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(V.T @ w - c)), simplex).solve(cp.CLARABEL)
    hull, tol = Hull(V), tolerance(method)
    problem = cut.Problem(Quadratic(np.eye(5), c), feasible_set=hull)
    result, state, _ = run(problem, method, tol=tol)
    assert hull.calls == result.n_iter + 2  # and once for the starting point, and once at the end
    assert_sound(problem, result, optimum, tol)
    known = {tuple(row) for row in V}
    assert all(tuple(atom) in known for atom in state.best.atoms)


@pytest.mark.parametrize(("step", "variant"), [c for c in CHOICES if c[1] != "fully_corrective"])
def test_passes_over_the_data(step, variant):
    class Counted(cut.LinearRisk):
        passes = 0

        def image(self, x):
            Counted.passes += 1
            return super().image(x)

        def slopes(self, z):
            Counted.passes += 1
            return super().slopes(z)

    X, t = data()
    problem = cut.Problem(Counted(X, t, Squared()), feasible_set=cut.Simplex())
    result = problem.solve(FrankWolfe(step, variant), tol=1e-9, max_iter=30)
    assert result.n_iter >= 8
    assert Counted.passes <= (3 if step == "short" else 2) * result.n_iter + 2


@pytest.mark.parametrize(("step", "variant"), [choice for choice in CHOICES if choice[0] != "short"])
def test_a_risk_that_is_infinite_at_the_vertices(step, variant):
    c = np.array([0.1, 0.2, 0.3, 0.4])

    @cut.risk(dim=4)
    def entropy(x):
        with np.errstate(divide="ignore"):
            return -float(c @ np.log(x)), -c / x

    problem = cut.Problem(entropy, feasible_set=cut.Simplex())
    loop = problem.iterate(FrankWolfe(step, variant), tol=1e-2, max_iter=3000)
    for state in loop:
        assert state.iteration == 0 or loop.method_state.weights.size > 1  # it has moved
    result = loop.result()
    assert result.status is Status.OPTIMAL
    assert result.objective == pytest.approx(-float(c @ np.log(c)), rel=1e-2)
    assert result.lower_bound <= -float(c @ np.log(c)) + 1e-9


@settings(max_examples=20)
@given(centre=st.floats(0.001, 0.9), rate=st.floats(0.1, 30.0))
def test_the_search_by_oracle_ends_where_the_slope_is_a_tenth(centre, rate):
    @cut.risk(dim=1)
    def cosh(x):
        return np.cosh(rate * (x[0] - centre)), rate * np.sinh(rate * (x - centre))

    problem = cut.Problem(cosh, feasible_set=cut.Box(0, 1))
    loop = problem.iterate(FrankWolfe("exact"), tol=1e-12, max_iter=1)
    *_, state = loop
    slopes = [float(cosh.oracle(x)[1][0]) for x in (np.zeros(1), loop.method_state.point.x)]
    assert state.step == "towards" and abs(slopes[1]) <= 0.1 * abs(slopes[0])


def test_open_loop_steps_are_those_of_the_book():
    b = np.array([0.3])
    loop = cut.Problem(Quadratic(np.eye(1), b), feasible_set=cut.Box(-1, 1)).iterate(
        FrankWolfe("open_loop"), x0=[0.1], tol=0.0, max_iter=12
    )
    x, best = 0.1, 0.02
    for t, state in enumerate(loop):
        if t:
            x += 2 / (t + 1) * (np.sign(0.3 - x) - x)  # t counts from 0 in the book
            best = min(best, 0.5 * (x - 0.3) ** 2)
        assert loop.method_state.point.x == pytest.approx([x], abs=1e-14)
        assert state.upper_bound == pytest.approx(best, abs=1e-14)
        assert loop.method_state.best.x == pytest.approx(state.x, abs=1e-14)
        assert loop.method_state.best.objective == state.upper_bound


def test_open_loop_steps_that_are_too_long_do_not_stall():
    first = Answer(lambda weights: np.eye(weights.size)[0])
    problem = cut.Problem(Quadratic(np.eye(1), np.array([0.0123])), feasible_set=cut.Box(-1, 1))
    result = problem.solve(FrankWolfe("open_loop", correction=first), x0=[0.0], tol=0.0, max_iter=300)
    assert [record.step for record in result.history][1:80] == ["corrected"] * 79
    assert result.status is not Status.STALLED and result.objective < 5e-6


DEGENERATE = {
    "one coordinate": (np.eye(1), np.array([0.25]), cut.Box(-1, 1)),
    "one point": (np.eye(1), np.array([3.0]), cut.Simplex()),
    "optimum at a vertex": (np.eye(3), np.array([9.0, 0.0, 0.0]), cut.Simplex()),
    "optimum where it starts": (np.eye(3), np.zeros(3), cut.L2Ball(1.0)),
    "zero data": (np.zeros((2, 3)), np.ones(2), cut.L1Ball(1.0)),
    "equal columns": (np.ones((2, 3)), np.array([2.0, -1.0]), cut.Simplex()),
    "zero residual inside": (np.eye(2), np.array([0.5, 0.5]), cut.Box(0, [1, 2])),
}


@cache
def least_squares(name):
    A, b, feasible_set = DEGENERATE[name]
    x = cp.Variable(A.shape[1])
    constraints = feasible_set.resolve(A.shape[1]).cvxpy_form(x)
    return float(cp.Problem(cp.Minimize(0.5 * cp.sum_squares(A @ x - b)), constraints).solve(cp.CLARABEL))


@pytest.mark.parametrize("name", DEGENERATE)
@pytest.mark.parametrize("method", METHODS, ids=lambda method: f"{method.step_size}-{method.variant}")
def test_degenerate_problems(name, method):
    A, b, feasible_set = DEGENERATE[name]
    optimum = least_squares(name)
    for risk in (Quadratic(A, b), cut.LinearRisk(A, b, Squared(), normalize=False)):
        problem = cut.Problem(risk, feasible_set=feasible_set)
        result, state, _ = run(problem, method, tol=1e-6, tol_abs=5e-3, max_iter=2000)
        assert result.status is Status.OPTIMAL, result
        assert result.lower_bound <= optimum + 1e-7 and abs(result.objective - optimum) <= 5e-3 + 1e-7
        assert_combination(state, problem.simple_set, result.x)


class LeastSquares:
    """Computes the best weights of the atoms, by a penalty on their sum, and keeps the atoms of each call."""

    def __init__(self, A, b):
        self.A, self.b, self.seen = A, b, []

    def correct(self, atoms, weights, run):
        assert weights.sum() == pytest.approx(1) and len(weights) == len(atoms)
        self.seen.append(atoms.copy())
        rows = np.vstack([self.A @ atoms.T, np.full(len(atoms), 1e4)])
        found = nnls(rows, np.append(self.b, 1e4))[0]
        return found / found.sum()


@pytest.mark.parametrize(("step", "variant"), CHOICES)
def test_a_correction_sees_every_atom_and_is_taken_if_it_is_better(step, variant):
    A, b = data()
    problem = cut.Problem(Quadratic(A, b), feasible_set=cut.L1Ball(1.5))
    correction = LeastSquares(A, b)
    result, state, states = run(problem, FrankWolfe(step, variant, correction), tol=1e-6)
    assert result.status is Status.OPTIMAL
    assert "corrected" in [s.step for s in states]
    assert len(correction.seen) >= 3
    for earlier, later in pairwise(correction.seen):
        assert np.array_equal(later[: len(earlier)], earlier)
    assert np.array_equal(state.atoms, correction.seen[-1])
    assert_combination(state, problem.simple_set, result.x)
    assert result.n_iter <= 15  # that of a corrective method, whatever the steps


def test_a_worse_correction_is_not_taken_and_a_wrong_one_is_reported():
    problem, _ = instance("simplex", "squared")
    plain = problem.solve(FrankWolfe("exact"), tol=1e-2)
    for answer in (lambda w: None, lambda w: np.eye(len(w))[0]):
        result = problem.solve(FrankWolfe("exact", correction=Answer(answer)), tol=1e-2)
        assert result.n_iter == plain.n_iter and result.objective == pytest.approx(plain.objective, rel=1e-12)
    for answer, message in (
        (lambda w: np.ones(len(w) + 1), "shape"),
        (lambda w: 2.0 * w, "of sum 1"),
        (lambda w: np.append(-1.0, np.full(len(w) - 1, 2.0 / (len(w) - 1))), "nonnegative"),
        (lambda w: np.full(len(w), np.nan), "nonnegative"),
    ):
        result = problem.solve(FrankWolfe("exact", correction=Answer(answer)))
        assert result.status is Status.INVALID_ORACLE and message in result.reason
        assert np.isfinite(result.objective)


def _raise(error):
    raise error


def test_what_goes_wrong_in_the_set_leaves_the_best_point():
    V, c = np.random.default_rng(1).normal(size=(12, 5)), np.ones(5)

    def problem(answer):
        return cut.Problem(Quadratic(np.eye(5), c), feasible_set=Hull(V, answer))

    result = problem(lambda: _raise(KeyboardInterrupt())).solve(FrankWolfe("exact"), tol=1e-9)
    assert result.status is Status.INTERRUPTED and result.n_iter == 2
    with pytest.raises(OracleError, match="Hull raised ZeroDivisionError: no") as caught:
        problem(lambda: _raise(ZeroDivisionError("no"))).solve(FrankWolfe("exact"), tol=1e-9)
    assert caught.value.result.n_iter == 2
    assert caught.value.result.objective == result.objective == 0.5 * np.sum((result.x - c) ** 2)
    for wrong, message in ((np.ones((5, 1)), "shape"), (np.full(5, np.nan), "returned infs or nans")):
        result = problem(lambda wrong=wrong: wrong).solve(FrankWolfe("exact"), tol=1e-9)
        assert result.status is Status.INVALID_ORACLE and message in result.reason
    below = problem(lambda: V[np.argmax(V @ np.ones(5))] * -100.0)  # not in the set
    assert below.solve(FrankWolfe("exact"), tol=1e-9).status is not Status.OPTIMAL


@pytest.mark.parametrize("variant", VARIANTS)
def test_few_cuts_are_enough(variant):
    problem, optimum = instance("l1 ball", "logistic")
    method = FrankWolfe("exact", variant)
    free, few = (problem.solve(method, tol=1e-4, max_cuts=limit) for limit in (None, 4))
    assert few.n_iter == free.n_iter and few.lower_bound == free.lower_bound
    assert few.history.column("n_cuts").max() <= 4
    assert_sound(problem, few, optimum, 1e-4)


SQUARES = Quadratic(np.eye(2), np.ones(2))
KINKS = cut.LinearRisk(np.eye(2), [1.0, -1.0], Hinge())
CUT_OFF = cut.Box(0, 1, dim=2) & cut.SeparationOracle(lambda x: None, dim=2)


@pytest.mark.parametrize(
    ("method", "problem", "message"),
    [
        (FrankWolfe(), (SQUARES, cut.L2(0.5), cut.Simplex()), r"regularizer L2\("),
        (FrankWolfe(), (SQUARES,), "linear minimisation from WholeSpace"),
        (FrankWolfe(), (SQUARES, None, cut.NonnegativeOrthant()), "linear minimisation from Box"),
        (FrankWolfe(), (SQUARES, None, CUT_OFF), "only cuts points off"),
        (
            FrankWolfe(),
            (KINKS, None, cut.Simplex()),
            r'short"\) needs curvature from LinearRisk, .* Use FrankWolfe\("exact"\)',
        ),
        (AcceleratedGradient(), (SQUARES, cut.L2(0.1), cut.Box(0, 1)), "risk alone"),
        (AcceleratedGradient(), (SQUARES,), "minimise_linear"),
        (AcceleratedGradient(), (SQUARES, None, cut.Box(0, 1) & cut.L2Ball(1)), "minimise_linear"),
        (MirrorDescent("entropy"), (SQUARES, cut.L2(1.0), cut.Simplex()), "regularizer"),
        (MirrorDescent("entropy"), (SQUARES,), "minimise_linear"),
        (MirrorDescent("entropy"), (SQUARES, None, cut.L2Ball(1.0)), r'MirrorDescent\("l2"\)'),
        (ReducedGradient(), (SQUARES, cut.L2(0.1), cut.Simplex()), "risk alone"),
        (ReducedGradient(), (SQUARES, None, cut.Box(0, 1)), "a Simplex, but the feasible set is Box"),
        (ReducedGradient(), (SQUARES, None, cut.CappedSimplex(0.5)), "a Simplex, but"),
    ],
)
def test_what_is_missing_is_named(method, problem, message):
    with pytest.raises(MissingCapabilityError, match=message):
        cut.Problem(*problem).solve(method)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"step_size": "long"}, "step_size must be one of 'short', 'exact', 'open_loop', got 'long'"),
        ({"variant": "towards"}, "variant must be one of 'vanilla'"),
        *(({"step_size": s, "variant": v}, f"{v}.* needs the step_size") for s, v in UNSAFE),
        ({"correction": 3}, "correction must have a method correct"),
    ],
)
def test_parameters_are_checked(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        FrankWolfe(**arguments)


def test_a_curvature_that_is_no_bound_is_reported():
    class Wrong(Quadratic):
        def curvature_bound(self, x, direction):
            return -1.0

    problem = cut.Problem(Wrong(np.eye(2), np.ones(2)), feasible_set=cut.Simplex())
    result = problem.solve(FrankWolfe())
    assert result.status is Status.OPTIMAL  # the start is optimal: no step, no curvature
    result = problem.solve(FrankWolfe(), x0=np.eye(2)[0])
    assert result.status is Status.INVALID_ORACLE and "curvature bound of Wrong is -1" in result.reason


VECTOR = arrays(np.float64, 4, elements=st.floats(-3, 3))


@settings(max_examples=25)
@given(loss=st.sampled_from(SMOOTH), x=VECTOR, direction=VECTOR, t=st.floats(0, 1), intercept=st.booleans())
def test_the_curvature_bound_of_a_linear_risk(loss, x, direction, t, intercept):
    X = np.random.default_rng(0).normal(size=(8, 4 - intercept))
    weights = np.arange(8.0)
    risk = cut.LinearRisk(X, np.sign(X[:, 0]), loss, weights, normalize=False, intercept=intercept)
    value, slope = risk.oracle(x)
    bound = risk.curvature_bound(x, direction)
    reached = risk.oracle(x + t * direction)[0]
    allowed = value + t * slope @ direction + 0.5 * bound * t**2
    assert reached <= allowed + 1e-12 * (abs(value) + abs(allowed) + bound)


@settings(max_examples=25)
@given(st.lists(arrays(np.float64, 2, elements=st.sampled_from([0.0, -0.0, 1.0, 0.1])), max_size=60))
def test_atoms_are_distinct_and_keep_their_order(points):
    atoms = Atoms(np.zeros(2))
    expected = [(0.0, 0.0)]
    early = atoms.rows
    for point in points:
        if tuple(point) not in expected:
            expected.append(tuple(point))
        assert atoms.index(point) == expected.index(tuple(point))
    assert [tuple(row) for row in atoms.rows] == expected and len(atoms) == len(expected)
    assert np.array_equal(early, np.zeros((1, 2)))
    kept = np.arange(len(atoms)) % 2 == 0
    fewer = atoms.restricted(kept)
    assert np.array_equal(fewer.rows, atoms.rows[kept])
    assert fewer.index(np.array([7.0, 7.0])) == kept.sum()
    assert len(atoms) == len(expected)
    with pytest.raises(ValueError, match="read-only"):
        atoms.rows[0] = 1.0


def test_auto_takes_it_where_the_set_has_nothing_else():
    risk = cut.LinearRisk(np.eye(3), [1.0, 0.5, -2.0], Squared(), normalize=False)
    result = cut.Problem(risk, feasible_set=Hull(np.eye(3))).solve(tol=1e-3)
    assert result.method.startswith("FrankWolfe") and result.status is Status.OPTIMAL
    np.testing.assert_allclose(result.x, [0.75, 0.25, 0.0], atol=0.05)


@pytest.mark.parametrize(
    ("set_name", "loss", "layout"),
    covering(["simplex", "large simplex"], LOSSES, LAYOUTS),
)
def test_the_reduced_gradient_method_against_cvxpy_and_frank_wolfe(set_name, loss, layout):
    problem, optimum = instance(set_name, loss, layout)
    result = problem.solve(ReducedGradient(), tol=1e-7, max_iter=400)
    assert_sound(problem, result, optimum, 2e-7)
    other = problem.solve(cut.FrankWolfe("exact", "pairwise"), tol=1e-7)
    np.testing.assert_allclose(result.x, other.x, atol=6e-3)
    assert result.n_iter <= 3 * other.n_iter + 10


def test_the_gap_is_that_of_the_simplex():
    """max_j <f'(x), x - e_j>, at the one iterate that the run ends at."""
    problem, _ = instance("simplex", "logistic")
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

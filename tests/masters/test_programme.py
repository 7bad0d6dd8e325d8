"""The whole problem as a quadratic programme, against the conic programme that cvxpy makes of it."""

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse

import cutplane as cut
from cutplane.losses import Pieces, ScalarLoss
from cutplane.masters.base import ReducedProblem
from cutplane.masters.programme import solve_programme
from cutplane.masters.whole import solve_whole

N = 4
RNG = np.random.default_rng(3)
X, NOISE = RNG.standard_normal((30, N)), RNG.standard_normal(30)
SIGNS = np.where(X[:, 0] + 0.5 * NOISE > 0.0, 1.0, -1.0)
TARGET = X @ [1.0, -2.0, 0.0, 0.5] + NOISE
SOME = np.where(np.arange(30) % 4, 1.5, 0.0)
D = np.diff(np.eye(N), axis=0)


class Tails(ScalarLoss):
    """A quadratic left tail, a linear right one, and a slope at the minimum of neither."""

    def outline(self):
        return Pieces(knots=[-1.0, 0.5, 2.0], slopes=[0.25, -0.75, 1.0, 3.0], curvatures=[1.0, 0.0, 0.0, 0.0])


class Falling(ScalarLoss):
    """Unbounded below: a term for the slope itself."""

    def outline(self):
        return Pieces(knots=[0.0], slopes=[-2.0, -1.0])


def _risk(loss, **options):
    y = SIGNS if loss.variable == "margin" else TARGET
    return cut.LinearRisk(X, y, loss, **options)


LOSSES = {
    "hinge": cut.losses.Hinge(),
    "squared hinge": cut.losses.SquaredHinge(),
    "absolute": cut.losses.Absolute(),
    "quantile": cut.losses.Quantile(0.3),
    "Huber": cut.losses.Huber(0.5),
    "epsilon-insensitive": cut.losses.EpsilonInsensitive(0.2),
    "squared": cut.losses.Squared(),
    "tails": Tails(),
}
RISKS = {name: _risk(loss) for name, loss in LOSSES.items()} | {
    "weights": _risk(cut.losses.Hinge(), sample_weight=SOME),
    "bias": cut.LinearRisk(sparse.csr_array(X[:, 1:]), SIGNS, cut.losses.Hinge(), intercept=True),
    "sum": 0.5 * _risk(cut.losses.Hinge()) + cut.LinearObjective([0.1, 0.0, 0.0, -0.2]),
    "parts": _risk(cut.losses.Quantile(0.2)) + 2.0 * cut.LinearRisk(X[:, :2], TARGET, Tails()).on([3, 1]),
    "image": (_risk(cut.losses.Absolute()) @ (np.eye(N) + 0.3)).shift([0.1, 0.0, -0.4, 0.0]),
    "column of zeros": cut.LinearRisk(X * [1.0, 0.0, 1.0, 1.0], SIGNS, cut.losses.Hinge()),
    "image of a sum": (_risk(cut.losses.Absolute()).on([0, 2, 3, 5]) + cut.LinearObjective(np.ones(6)))
    @ np.vstack([np.eye(N), np.full((2, N), 0.5)]),
    "falling": _risk(Falling()) + 0.25 * _risk(cut.losses.Squared()),
}
REGULARIZERS = {
    "none": cut.NoRegularizer(),
    "l1": cut.L1(0.05),
    "ridge": cut.L2(0.1),
    "l2": cut.L2(0.1, centre=np.full(N, 0.3)),
    "elastic net": cut.ElasticNet(0.2, l1_ratio=0.3),
    "fused": cut.L1(0.1) @ D,
    "quadratic form": cut.QuadraticForm(D.T @ D + 0.1 * np.eye(N), [0.1, 0.0, 0.0, -0.1], lam=0.3),
}
SETS = {
    "whole": cut.WholeSpace(),
    "box": cut.Box(-0.5, 1.0, dim=N),
    "polyhedron": cut.Polyhedron(np.vstack([np.ones(N), [1.0, -1.0, 0.0, 2.0]]), [0.4, 1.0]),
    "simplex": cut.Simplex(N) & cut.Polyhedron([[1.0, 0.0, 0.0, -1.0]], [0.1]),
}
PAIRS = [("column of zeros", "ridge", "whole"), *((r, "l2", "polyhedron") for r in RISKS)] + [
    (r, g, s)
    for g in REGULARIZERS
    for s in SETS
    for r in (("hinge",) if s == "whole" else ("hinge", "parts"))
    if (g, s) not in [("none", "whole"), ("fused", "whole")]
]


@pytest.mark.every
@pytest.mark.parametrize(("risk", "regularizer", "feasible"), PAIRS)
def test_it_proves_the_optimum_of_cvxpy(risk, regularizer, feasible):
    f, g, X0 = RISKS[risk], REGULARIZERS[regularizer], SETS[feasible]
    reduced = ReducedProblem(N, 1, g, X0)
    whole, conic = solve_programme(f, reduced), solve_whole(f, reduced, "CLARABEL")
    value = f(whole.x) + g.value(whole.x)
    assert value == pytest.approx(f(conic.x) + g.value(conic.x), rel=1e-7, abs=1e-9)
    assert X0.violation(whole.x) <= 1e-9
    if whole.least is None:
        assert regularizer == "quadratic form"
        return
    bound = whole.offset + whole.least.value
    assert value - 1e-6 <= bound <= value + 1e-10


@pytest.mark.parametrize("scale", [1e-10, 1e-4, 1e5, 1e10])
def test_scales_are_those_of_the_data(scale):
    """x -> scale x, and losses of scale^2 of the size."""
    risk = cut.LinearRisk(X, scale * TARGET, cut.losses.Huber(0.5 * scale))
    box = cut.Box(-0.5 * scale, scale, dim=N) & cut.Polyhedron(np.ones((1, N)), [0.4 * scale])
    whole = solve_programme(risk, ReducedProblem(N, 1, cut.L2(0.1), box))
    value = risk(whole.x) + cut.L2(0.1).value(whole.x)
    plain = cut.Problem(
        _risk(cut.losses.Huber(0.5)), cut.L2(0.1), SETS["box"] & cut.Polyhedron(np.ones((1, N)), [0.4])
    ).solve(tol=1e-9)
    assert value == pytest.approx(scale**2 * plain.objective, rel=1e-7)
    assert whole.offset + whole.least.value == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize(
    ("risk", "feasible"),
    [
        (cut.LinearRisk(X, SIGNS, cut.losses.Logistic()), cut.WholeSpace()),
        (_risk(cut.losses.Hinge()), cut.L2Ball(1.0)),
        (cut.LinearObjective(np.ones(N)), cut.Polyhedron([[1.0, 0.0, 0.0, 0.0]], [1.0])),
        (_risk(cut.losses.Hinge()), cut.Polyhedron([[1.0] * N, [-1.0] * N], [-1.0, 0.5])),
    ],
    ids=["no outline", "a ball", "unbounded", "empty"],
)
def test_what_is_no_quadratic_programme_with_a_solution_is_left_to_others(risk, feasible):
    assert solve_programme(risk, ReducedProblem(N, 1, cut.NoRegularizer(), feasible)) is None


def test_the_least_value_of_the_programme_is_the_risk():
    """At a given x, minimised over the auxiliaries by cvxpy."""
    x = RNG.standard_normal(N)
    for name, risk in RISKS.items():
        stated = risk.programme_form().build()
        form, free = stated.linear, cp.Variable(stated.linear.n_columns - N)
        u = cp.hstack([x, free])
        sides = np.where(np.isfinite(form.row_lower), form.row_lower, -1e6)
        rows = [form.rows @ u <= form.row_upper, form.rows @ u >= sides] if form.row_upper.size else []
        value = form.cost @ u + 0.5 * cp.sum(cp.multiply(stated.curvatures, cp.square(u)))
        least = cp.Problem(cp.Minimize(value), [free >= 0, *rows]).solve(cp.CLARABEL) + stated.constant
        assert least == pytest.approx(risk(x), rel=1e-6), name


def test_a_solve_of_native_pieces_ends_at_the_optimum_and_its_certificate_holds():
    ordered = cut.Polyhedron(np.hstack([X, -X]), np.zeros(30))
    low = cut.LinearRisk(X, TARGET, cut.losses.Quantile(0.2)).on(slice(0, N))
    high = cut.LinearRisk(X, TARGET, cut.losses.Quantile(0.8)).on(slice(N, 2 * N))
    problem = cut.Problem(low + high, cut.L2(1e-2), ordered)
    result = problem.solve(cut.Direct(), tol=1e-9)
    assert result.status == "OPTIMAL" and result.certificate.verify(problem).valid


@pytest.mark.parametrize("m", [30, 3000])
def test_few_losses_with_kinks_next_to_an_l1_norm_are_one_programme(m):
    rows = np.resize(X, (m, N)) + 0.01 * np.random.default_rng(1).standard_normal((m, N))
    risk = cut.LinearRisk(rows, np.resize(SIGNS, m), cut.losses.Hinge())
    result = cut.Problem(risk, cut.L1(0.1)).solve()
    assert result.status == "OPTIMAL"
    assert m == 30 or not result.method.startswith("Direct()")
    wide = np.random.default_rng(2).standard_normal((30, 120))
    few = cut.LinearRisk(wide, np.resize(SIGNS, 30), cut.losses.Hinge())
    assert cut.Problem(few, cut.L1(0.1)).solve().method.startswith("Direct()")
    smooth = cut.LinearRisk(rows, np.resize(SIGNS, m), cut.losses.SquaredHinge())
    assert cut.Problem(smooth, cut.L1(0.1)).solve().method.startswith("Portfolio()")

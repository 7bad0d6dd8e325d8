"""Small random problems of every kind, each with its monolithic cvxpy solution."""

from dataclasses import dataclass
from functools import cache

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

import cutplane as cut

M, N = 60, 6


@dataclass(frozen=True)
class Formulation:
    """A problem, and the same problem as one cvxpy programme."""

    problem: cut.Problem
    monolith: cp.Problem

    def optimum(self):
        return float(self.monolith.solve(solver=cp.CLARABEL))


def data(seed=0, m=M, n=N, kind="binary"):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, n)) / np.sqrt(n)
    t = X @ rng.normal(size=n) + 0.3 * rng.normal(size=m)
    if kind == "binary":
        return X, np.where(t >= 0, 1.0, -1.0)
    return X, (np.floor(np.exp(t)) if kind == "count" else t)


LOSSES = {
    "hinge": (cut.losses.Hinge(), "binary"),
    "squared hinge": (cut.losses.SquaredHinge(), "binary"),
    "modified huber": (cut.losses.ModifiedHuber(), "binary"),
    "logistic": (cut.losses.Logistic(), "binary"),
    "exponential": (cut.losses.Exponential(), "binary"),
    "squared": (cut.losses.Squared(), "real"),
    "absolute": (cut.losses.Absolute(), "real"),
    "quantile": (cut.losses.Quantile(0.9), "real"),
    "epsilon insensitive": (cut.losses.EpsilonInsensitive(0.1), "real"),
    "huber": (cut.losses.Huber(0.5), "real"),
    "poisson": (cut.losses.Poisson(), "count"),
}


def linear(loss_name, regularizer, feasible_set=None, sparse=False, blocks=1):
    """LinearRisk with a regularizer and a set, all in closed form."""
    loss, kind = LOSSES[loss_name]
    X, y = data(kind=kind)
    w = cp.Variable(N)
    objective = cp.sum(loss.cvxpy_form(X @ w, y)) / M + regularizer.cvxpy_form(w)
    constraints = [] if feasible_set is None else feasible_set.cvxpy_form(w)
    X = sp.csr_array(X) if sparse else X
    problem = cut.Problem(cut.LinearRisk(X, y, loss, blocks=blocks), regularizer, feasible_set)
    return Formulation(problem, cp.Problem(cp.Minimize(objective), constraints))


def bias():
    """Hinge loss with an unregularised bias."""
    weights = np.ones(N)
    weights[-1] = 0.0
    X, y = data()
    X[:, -1] = 1.0
    w = cp.Variable(N)
    regularizer = cut.L2(0.05, weights=weights)
    objective = cp.sum(cp.pos(1 - cp.multiply(y, X @ w))) / M + regularizer.cvxpy_form(w)
    problem = cut.Problem(cut.LinearRisk(X, y, cut.losses.Hinge()), regularizer)
    return Formulation(problem, cp.Problem(cp.Minimize(objective)))


def black_box(regularizer, feasible_set=None):
    """An l1 distance known through its oracle alone."""
    A, b = data(3, kind="real")

    @cut.risk(dim=N)
    def distance(x):
        r = A @ x - b
        return np.abs(r).sum(), A.T @ np.sign(r)

    x = cp.Variable(N)
    constraints = [] if feasible_set is None else feasible_set.cvxpy_form(x)
    monolith = cp.Problem(cp.Minimize(cp.norm1(A @ x - b) + regularizer.cvxpy_form(x)), constraints)
    return Formulation(cut.Problem(distance, regularizer, feasible_set), monolith)


def through_cvxpy():
    """Every piece a cvxpy object."""
    A, b = data(4, kind="real")
    x = cp.Variable(N)
    pieces = (
        cut.CvxpyRisk(cp.norm1(A @ x - b), x),
        cut.CvxpyRegularizer(cp.norm_inf(x), x, lam=0.5),
        cut.CvxpySet([x >= 0, cp.sum(x) <= 2], x),
    )
    monolith = cp.Problem(cp.Minimize(cp.norm1(A @ x - b) + 0.5 * cp.norm_inf(x)), [x >= 0, cp.sum(x) <= 2])
    return Formulation(cut.Problem(*pieces), monolith)


def ball_by_oracle():
    """A linear objective over the unit ball, known through half-spaces only."""
    c = np.arange(1.0, 4.0)

    @cut.separation_oracle
    def unit_ball(x):
        norm = np.linalg.norm(x)
        return [] if norm <= 1.0 + 1e-9 else [cut.HalfSpace(x / norm, 1.0)]

    x = cp.Variable(3)
    problem = cut.Problem(cut.LinearObjective(c), feasible_set=cut.Box(-2, 2) & unit_ball)
    return Formulation(problem, cp.Problem(cp.Minimize(c @ x), [cp.norm(x) <= 1]))


def risk_over_ball_by_oracle():
    """A nonsmooth risk with L2 over a ball known through half-spaces only."""
    base = black_box(cut.L2(0.1))

    @cut.separation_oracle
    def small_ball(x):
        norm = np.linalg.norm(x)
        return [] if norm <= 0.3 + 1e-9 else [cut.HalfSpace(x / norm, 0.3)]

    x = base.monolith.variables()[0]
    return Formulation(
        cut.Problem(base.problem.risk, base.problem.regularizer, cut.Box(-1, 1) & small_ball),
        cp.Problem(base.monolith.objective, [cp.norm(x) <= 0.3]),
    )


FORMULATIONS = {
    **{f"{name}, L2": (lambda name=name: linear(name, cut.L2(0.1))) for name in LOSSES},
    "hinge, L2, sparse": lambda: linear("hinge", cut.L2(0.01), sparse=True),
    "hinge, L2, 3 blocks": lambda: linear("hinge", cut.L2(0.01), blocks=3),
    "hinge, L2 around a centre": lambda: linear("hinge", cut.L2(0.1, centre=np.ones(N))),
    "hinge, L2, bias": bias,
    "hinge, L2, box": lambda: linear("hinge", cut.L2(0.01), cut.Box(-0.2, 0.2)),
    "hinge, L2, simplex": lambda: linear("hinge", cut.L2(0.01), cut.Simplex()),
    "hinge, L2, l1 ball": lambda: linear("hinge", cut.L2(0.01), cut.L1Ball(1.0)),
    "hinge, L2, polyhedron": lambda: linear(
        "hinge", cut.L2(0.01), cut.Polyhedron(np.ones((1, N)), np.array([0.5]))
    ),
    "hinge, L1": lambda: linear("hinge", cut.L1(0.05)),
    "hinge, L1, box": lambda: linear("hinge", cut.L1(0.05), cut.Box(-1, 1)),
    "hinge, elastic net": lambda: linear("hinge", cut.ElasticNet(0.05)),
    "hinge, entropy, simplex": lambda: linear("hinge", cut.NegativeEntropy(0.1), cut.Simplex()),
    "hinge, entropy, capped simplex": lambda: linear(
        "hinge", cut.NegativeEntropy(0.1), cut.CappedSimplex(0.3)
    ),
    "hinge, relative entropy, simplex": lambda: linear(
        "hinge", cut.RelativeEntropy(np.arange(1.0, N + 1.0), 0.1), cut.Simplex()
    ),
    "hinge, group norm": lambda: linear(
        "hinge", cut.SquaredGroupNorm([np.arange(3), np.arange(3, 6)], 0.1, p=1.5)
    ),
    "hinge, quadratic form": lambda: linear(
        "hinge", cut.QuadraticForm(np.diag(np.arange(1.0, N + 1.0)), lam=0.1)
    ),
    "hinge, box": lambda: linear("hinge", cut.NoRegularizer(), cut.Box(-1, 1)),
    "absolute, simplex": lambda: linear("absolute", cut.NoRegularizer(), cut.Simplex()),
    "absolute, l2 ball": lambda: linear("absolute", cut.NoRegularizer(), cut.L2Ball(0.5)),
    "black box, L2": lambda: black_box(cut.L2(1.0)),
    "black box, L1": lambda: black_box(cut.L1(1.0)),
    "black box, box": lambda: black_box(cut.NoRegularizer(), cut.Box(-2, 2)),
    "all through cvxpy": through_cvxpy,
    "ball by separation": ball_by_oracle,
    "risk over ball by separation": risk_over_ball_by_oracle,
}


@cache
def formulation(name):
    """Return a formulation and its optimum, solved once."""
    made = FORMULATIONS[name]()
    return made.problem, made.optimum()

"""Problems to test the choice of a method after it was changed; no constant is fitted to them.

Each function takes a random generator and returns a problem as a user would declare it.
"""

import cvxpy as cp
import numpy as np

import cutplane as cut
from cutplane import losses as L

HELD_OUT = {}


def held_out(function):
    """Register a problem by the name of its function."""
    HELD_OUT[function.__name__.replace("_", " ")] = function
    return function


def line(rng, m, n, active=None, noise=0.5):
    """Return rows and targets, which depend on the first `active` coordinates."""
    X, w = rng.standard_normal((m, n)), rng.standard_normal(n)
    w[active or n :] = 0.0
    return X, X @ w + noise * rng.standard_normal(m)


@held_out
def tube_with_groups(rng):
    X, y = line(rng, 300, 60, 12)
    groups = cut.GroupLasso(np.repeat(np.arange(12), 5), 0.02)
    return cut.Problem(cut.LinearRisk(X, y, L.EpsilonInsensitive(0.3)), groups)


@held_out
def largest_of_quadratics(rng):
    roots, c = rng.standard_normal((30, 20, 20)), rng.standard_normal((30, 20))
    matrices = roots @ roots.transpose(0, 2, 1) / 20

    @cut.risk(dim=20)
    def largest(x):
        values = 0.5 * (matrices @ x) @ x + c @ x
        i = int(np.argmax(values))
        return values[i], matrices[i] @ x + c[i]

    return cut.Problem(largest, None, cut.Box(-2, 2, dim=20))


@held_out
def portfolio_at_risk(rng):
    returns, w, t = rng.standard_normal((400, 25)) * 0.02 + 0.001, cp.Variable(25), cp.Variable()
    risk = t + cp.sum(cp.pos(-returns @ w - t)) / (400 * 0.05)
    held = [w >= 0, cp.sum(w) == 1, returns.mean(0) @ w >= 0.001]
    return cut.Problem(cut.CvxpyRisk(risk, [w, t]), None, cut.CvxpySet(held, [w, t]))


@held_out
def robust_trend(rng):
    level = np.cumsum(0.3 * rng.standard_normal(300).round()) + 0.5 * rng.standard_normal(300)
    second = np.diff(np.eye(300), 2, axis=0)
    return cut.Problem(cut.LinearRisk(np.eye(300), level, L.Huber(0.5)), cut.L1(0.02) @ second)


@held_out
def bounded_sparse_logistic(rng):
    X, y = line(rng, 500, 40)
    return cut.Problem(cut.LinearRisk(X, np.sign(y), L.Logistic()), cut.L1(0.01), cut.Box(-0.5, 0.5))


@held_out
def matrix_completion(rng):
    M, known = rng.standard_normal((12, 3)) @ rng.standard_normal((3, 10)), rng.random((12, 10)) < 0.6
    W = cp.Variable((12, 10))
    risk = cut.CvxpyRisk(cp.sum_squares(cp.multiply(known, W - M)), W)
    return cut.Problem(risk, cut.CvxpyRegularizer(0.5 * cp.normNuc(W), W))


@held_out
def quantile_of_shares(rng):
    X, y = line(rng, 400, 15)
    return cut.Problem(cut.LinearRisk(np.abs(X), np.abs(y), L.Quantile(0.8)), None, cut.Simplex(15))


def game(rng):
    """Return the best answer to a mixed strategy as a risk."""
    B = rng.standard_normal((60, 40))

    @cut.risk(dim=40)
    def best_answer(x):
        values = B @ x
        i = int(np.argmax(values))
        return values[i], B[i].copy()

    return best_answer


@held_out
def smoothed_game(rng):
    return cut.Problem(game(rng), cut.NegativeEntropy(0.05), cut.Simplex(40))


@held_out
def matrix_game(rng):
    return cut.Problem(game(rng), None, cut.Simplex(40))


@held_out
def log_of_a_sum(rng):
    v, A, b = cp.Variable(15), rng.standard_normal((40, 15)), rng.standard_normal(40)
    return cut.Problem(cut.CvxpyRisk(cp.log_sum_exp(A @ v + b), v), cut.L2(0.1))


@held_out
def largest_coefficient(rng):
    v, A, b = cp.Variable(15), rng.standard_normal((40, 15)), rng.standard_normal(40)
    norm = cut.CvxpyRegularizer(2 * cp.norm_inf(v), v)
    return cut.Problem(cut.CvxpyRisk(cp.norm1(A @ v - b), v), norm, cut.CvxpySet([v >= -1], v))


@held_out
def wide_least_deviations(rng):
    X, y = line(rng, 200, 400, 8)
    return cut.Problem(cut.LinearRisk(X, y, L.Absolute()), cut.L1(0.05))


@held_out
def wide_sparse_machine(rng):
    X, y = line(rng, 200, 400, 8)
    return cut.Problem(cut.LinearRisk(X, np.sign(y), L.Hinge()), cut.L1(0.03))


@held_out
def two_losses(rng):
    X, y = line(rng, 200, 60, 8)
    risk = 0.5 * cut.LinearRisk(X, np.sign(y), L.Hinge()) + cut.LinearRisk(X, y, L.Huber(1.0))
    return cut.Problem(risk, cut.L2(0.05))


@held_out
def worst_group(rng):
    X, y = line(rng, 200, 30, 8)
    parts = [cut.LinearRisk(X[k::4], np.sign(y[k::4]), L.Logistic()) for k in range(4)]
    return cut.Problem(cut.maximum(*parts), cut.L2(0.01))


@held_out
def sparse_ranking(rng):
    X, _ = line(rng, 200, 25)
    risk = cut.RankingRisk(X, rng.integers(0, 3, 200).astype(float), np.repeat(np.arange(20), 10))
    return cut.Problem(risk, cut.L1(0.01))


@cut.separation_oracle
def second_order_cone(x):
    """Cut off points outside of |x[1:]| <= x[0]."""
    length = np.linalg.norm(x[1:])
    return [] if length <= x[0] + 1e-9 else [cut.HalfSpace(np.r_[-1.0, x[1:] / length], 0.0)]


@held_out
def linear_over_a_cone(rng):
    region = cut.Box(-1, 1, dim=8) & second_order_cone
    return cut.Problem(cut.LinearObjective(rng.standard_normal(8)), feasible_set=region)


@held_out
def squares_over_a_cone(rng):
    X, y = line(rng, 40, 8)
    region = cut.Box(-1, 1, dim=8) & second_order_cone
    return cut.Problem(cut.LinearRisk(X, y, L.Squared()), feasible_set=region)


@held_out
def classes_with_a_time_stamp(rng):
    X, y = line(rng, 600, 6)
    X = np.c_[X, 1.6e9 + 1e6 * rng.standard_normal(600), 1e5 * np.exp(rng.standard_normal(600))]
    return cut.Problem(cut.MulticlassRisk(X, np.digitize(y, [-1.0, 1.0])), cut.L2(1e-3))

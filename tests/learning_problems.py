"""Learning problems as their users write them: our few lines, and the whole problem in cvxpy.

Each function returns a pair: ours, which declares and solves the problem, and the same in cvxpy's words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
from scipy import sparse

import cutplane as cut

Pair = tuple[Callable[[], cut.Result], cp.Problem]
FORMULATIONS: dict[str, Callable[[], Pair]] = {}


def formulation(function: Callable[[], Pair]) -> Callable[[], Pair]:
    FORMULATIONS[function.__name__] = function
    return function


def _classes(m: int, n: int, seed: int = 0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, n))
    y = np.where(X @ rng.standard_normal(n) + 0.5 * rng.standard_normal(m) > 0, 1.0, -1.0)
    return rng, X, y


def _line(m: int, n: int, seed: int = 0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, n))
    return rng, X, X @ rng.standard_normal(n) + 0.5 * rng.standard_t(3, m)


# Portfolios and regression


@formulation
def cvar_portfolio() -> Pair:
    rng = np.random.default_rng(0)
    R, k = 0.01 + 0.03 * rng.standard_normal((500, 20)) * rng.uniform(0.5, 2.0, 20), 25
    target = float(np.quantile(R.mean(axis=0), 0.6))

    def ours() -> cut.Result:
        @cut.risk(dim=20)
        def cvar(w):
            loss = -R @ w
            worst = np.argpartition(loss, -k)[-k:]
            return loss[worst].mean(), -R[worst].mean(axis=0)

        enough = cut.Polyhedron([-R.mean(axis=0)], [-target])
        return cut.Problem(cvar, feasible_set=cut.Simplex(20) & enough).solve()

    w = cp.Variable(20)
    held = [w >= 0, cp.sum(w) == 1, R.mean(axis=0) @ w >= target]
    return ours, cp.Problem(cp.Minimize(cp.sum_largest(-R @ w, k) / k), held)


@formulation
def noncrossing_quantiles() -> Pair:
    _, X, y = _line(200, 4)

    def ours() -> cut.Result:
        low = cut.LinearRisk(X, y, cut.losses.Quantile(0.2)).on(slice(0, 4))
        high = cut.LinearRisk(X, y, cut.losses.Quantile(0.8)).on(slice(4, 8))
        ordered = cut.Polyhedron(np.hstack([X, -X]), np.zeros(200))
        return cut.Problem(low + high, cut.L2(1e-2), ordered).solve()

    a, b = cp.Variable(4), cp.Variable(4)

    def pinball(w, tau):
        return cp.sum(cp.maximum(tau * (y - X @ w), (tau - 1) * (y - X @ w))) / 200

    ridge = 0.005 * (cp.sum_squares(a) + cp.sum_squares(b))
    return ours, cp.Problem(cp.Minimize(pinball(a, 0.2) + pinball(b, 0.8) + ridge), [X @ a <= X @ b])


@formulation
def isotonic_l1() -> Pair:
    rng = np.random.default_rng(3)
    n = 100
    y = np.linspace(0, 2, n) + rng.standard_t(2, n)
    down = sparse.diags_array([np.ones(n - 1), -np.ones(n - 1)], offsets=[0, 1], shape=(n - 1, n)).tocsr()

    def ours() -> cut.Result:
        rising = cut.Polyhedron(down, np.zeros(n - 1)) & cut.Box(y.min(), y.max(), dim=n)
        return cut.Problem(cut.LinearRisk(np.eye(n), y, cut.losses.Absolute()), feasible_set=rising).solve()

    x = cp.Variable(n)
    return ours, cp.Problem(cp.Minimize(cp.norm1(x - y) / n), [down @ x <= 0])


@formulation
def trend_filtering() -> Pair:
    rng = np.random.default_rng(4)
    n = 120
    y = np.abs(np.linspace(-2, 2, n)) + 0.3 * rng.standard_t(2, n)
    second = sparse.diags_array(
        [np.ones(n - 2), -2 * np.ones(n - 2), np.ones(n - 2)], offsets=[0, 1, 2], shape=(n - 2, n)
    ).tocsr()

    def ours() -> cut.Result:
        return cut.Problem(
            cut.LinearRisk(np.eye(n), y, cut.losses.Absolute()) + cut.L1(0.05) @ second
        ).solve()

    x = cp.Variable(n)
    return ours, cp.Problem(cp.Minimize(cp.norm1(x - y) / n + 0.05 * cp.norm1(second @ x)))


@formulation
def box_robust_regression() -> Pair:
    _, X, y = _line(150, 10)

    def ours() -> cut.Result:
        """Each entry of X may be off by 0.1: the worst case is an l1 norm."""
        return cut.Problem(cut.LinearRisk(X, y, cut.losses.Absolute()), cut.L1(0.1)).solve()

    w = cp.Variable(10)
    return ours, cp.Problem(cp.Minimize(cp.norm1(X @ w - y) / 150 + 0.1 * cp.norm1(w)))


@formulation
def chebyshev_approximation() -> Pair:
    t = np.linspace(-1, 1, 200)
    A, y = np.vander(t, 8), np.exp(t) * np.sin(3 * t)

    def ours() -> cut.Result:
        w = cp.Variable(8)
        return cut.Problem(
            cut.CvxpyRisk(cp.norm_inf(A @ w - y), w), feasible_set=cut.Box(-100, 100, dim=8)
        ).solve()

    w = cp.Variable(8)
    return ours, cp.Problem(cp.Minimize(cp.norm_inf(A @ w - y)), [w >= -100, w <= 100])


# Structure


@formulation
def sparse_group_lasso() -> Pair:
    _, X, y = _line(150, 40)
    groups = np.repeat(np.arange(8), 5)

    def ours() -> cut.Result:
        risk = cut.LinearRisk(X, y, cut.losses.Squared())
        return cut.Problem(risk, cut.GroupLasso(groups, 0.1) + cut.L1(0.05)).solve()

    w = cp.Variable(40)
    norms = sum(cp.norm2(w[groups == g]) for g in range(8))
    fit = cp.sum_squares(X @ w - y) / 300
    return ours, cp.Problem(cp.Minimize(fit + 0.1 * norms + 0.05 * cp.norm1(w)))


@formulation
def matrix_completion() -> Pair:
    rng = np.random.default_rng(6)
    shape = (12, 10)
    M = rng.standard_normal((12, 2)) @ rng.standard_normal((2, 10))
    seen = np.flatnonzero(rng.random(shape).ravel() < 0.6)

    def ours() -> cut.Result:
        risk = cut.LinearRisk(np.eye(120)[seen], M.ravel()[seen], cut.losses.Squared())
        return cut.Problem(risk, cut.NuclearNorm(shape, 0.02)).solve()

    Z = cp.Variable(shape)
    entries = cp.reshape(Z, (120,), order="C")[seen]
    fit = cp.sum_squares(entries - M.ravel()[seen]) / (2 * seen.size)
    return ours, cp.Problem(cp.Minimize(fit + 0.02 * cp.normNuc(Z)))


@formulation
def robust_pca() -> Pair:
    rng = np.random.default_rng(7)
    M = rng.standard_normal((12, 1)) @ rng.standard_normal((1, 10))
    M += 3.0 * (rng.random(M.shape) < 0.05)

    def ours() -> cut.Result:
        outliers = cut.LinearRisk(np.eye(120), M.ravel(), cut.losses.Absolute(), normalize=False)
        return cut.Problem(0.3 * outliers, cut.NuclearNorm((12, 10), 1.0)).solve()

    L = cp.Variable((12, 10))
    return ours, cp.Problem(cp.Minimize(cp.normNuc(L) + 0.3 * cp.sum(cp.abs(M - L))))


@formulation
def graphical_lasso() -> Pair:
    rng = np.random.default_rng(8)
    S = np.cov(rng.standard_normal((60, 6)) @ (np.eye(6) + 0.5 * np.eye(6, k=1)), rowvar=False)

    def ours() -> cut.Result:
        T = cp.Variable((6, 6), symmetric=True)
        model = cp.Minimize(cp.trace(S @ T) - cp.log_det(T) + 0.1 * cp.sum(cp.abs(T)))
        return cut.from_cvxpy(cp.Problem(model)).solve()

    T = cp.Variable((6, 6), symmetric=True)
    return ours, cp.Problem(cp.Minimize(cp.trace(S @ T) - cp.log_det(T) + 0.1 * cp.sum(cp.abs(T))))


@formulation
def metric_learning() -> Pair:
    rng = np.random.default_rng(9)
    n = 4
    X = rng.standard_normal((60, n)) * np.array([3.0, 1.0, 1.0, 1.0])
    label = X[:, 1] > 0
    i, j = rng.integers(0, 60, (2, 150))
    pairs = np.einsum("ka,kb->kab", X[i] - X[j], X[i] - X[j]).reshape(-1, n * n)
    near = label[i] == label[j]

    class Near(cut.losses.ScalarLoss):
        def outline(self):
            return cut.losses.Pieces(knots=[1.0], slopes=[0.0, 1.0])

    class Far(cut.losses.ScalarLoss):
        def outline(self):
            return cut.losses.Pieces(knots=[3.0], slopes=[-1.0, 0.0])

    def ours() -> cut.Result:
        """Pairs of one class are to be nearer than 1, the others farther than 3."""
        same = cut.LinearRisk(pairs[near], np.zeros(near.sum()), Near())
        apart = cut.LinearRisk(pairs[~near], np.zeros((~near).sum()), Far())
        return cut.Problem(same + apart, cut.L2(1e-2), cut.PSDCone(n)).solve()

    M = cp.Variable((n, n), PSD=True)
    v = cp.reshape(M, (n * n,), order="C")
    hinge = (
        cp.sum(cp.pos(pairs[near] @ v - 1)) / near.sum()
        + cp.sum(cp.pos(3 - pairs[~near] @ v)) / (~near).sum()
    )
    return ours, cp.Problem(cp.Minimize(hinge + 0.005 * cp.sum_squares(v)))


@formulation
def multitask_laplacian() -> Pair:
    tasks, n, m = 5, 6, 40
    data = [_classes(m, n, seed)[1:] for seed in range(tasks)]
    links = 2 * np.eye(tasks) - np.eye(tasks, k=1) - np.eye(tasks, k=-1)
    Q = np.kron(links, np.eye(n)) * 0.1

    def ours() -> cut.Result:
        risk = sum(
            cut.LinearRisk(X, y, cut.losses.Hinge()).on(slice(n * t, n * t + n), dim=n * tasks)
            for t, (X, y) in enumerate(data)
        )
        return cut.Problem(risk, cut.QuadraticForm(Q)).solve()

    w = cp.Variable(n * tasks)
    hinges = sum(
        cp.sum(cp.pos(1 - cp.multiply(y, X @ w[n * t : n * t + n]))) / m for t, (X, y) in enumerate(data)
    )
    return ours, cp.Problem(cp.Minimize(hinges + 0.5 * cp.quad_form(w, Q)))


# Classification with a difference


@formulation
def wasserstein_logistic() -> Pair:
    _, X, y = _classes(200, 10, 11)

    def ours() -> cut.Result:
        """The worst distribution within 0.1 of the sample: a norm that is not squared."""
        ball = cut.GroupLasso(np.zeros(10, int), 0.1)
        return cut.Problem(cut.LinearRisk(X, y, cut.losses.Logistic()), ball).solve()

    w = cp.Variable(10)
    return ours, cp.Problem(
        cp.Minimize(cp.sum(cp.logistic(-cp.multiply(y, X @ w))) / 200 + 0.1 * cp.norm2(w))
    )


@formulation
def fair_svm() -> Pair:
    _, X, y = _classes(300, 8, 12)
    s = X[:, 0] > 0.3
    gap = X[s].mean(axis=0) - X[~s].mean(axis=0)

    def ours() -> cut.Result:
        fair = cut.Polyhedron(np.vstack([gap, -gap]), [0.05, 0.05])
        return cut.Problem(cut.LinearRisk(X, y, cut.losses.Hinge()), cut.L2(1e-2), fair).solve()

    w = cp.Variable(8)
    hinge = cp.sum(cp.pos(1 - cp.multiply(y, X @ w))) / 300
    return ours, cp.Problem(cp.Minimize(hinge + 0.005 * cp.sum_squares(w)), [cp.abs(gap @ w) <= 0.05])


@formulation
def privileged_information() -> Pair:
    rng, X, y = _classes(80, 5, 13)
    Z = X[:, :2] + 0.1 * rng.standard_normal((80, 2))

    def model() -> cp.Problem:
        w, v, a = cp.Variable(5), cp.Variable(2), cp.Variable()
        slack = Z @ v + a
        size = 0.5 * cp.sum_squares(w) + 0.5 * cp.sum_squares(v)
        margins = cp.multiply(y, X @ w) >= 1 - slack
        return cp.Problem(cp.Minimize(size + cp.sum(slack) / 8), [margins, slack >= 0])

    return lambda: cut.from_cvxpy(model()).solve(), model()


@formulation
def minimax_groups() -> Pair:
    _, X, y = _classes(300, 8, 14)
    groups = [slice(0, 30), slice(30, 120), slice(120, 300)]

    def ours() -> cut.Result:
        worst = cut.maximum(*[cut.LinearRisk(X[g], y[g], cut.losses.Hinge()) for g in groups])
        return cut.Problem(worst, cut.L2(1e-2)).solve()

    w = cp.Variable(8)
    risks = [cp.sum(cp.pos(1 - cp.multiply(y[g], X[g] @ w))) / len(y[g]) for g in groups]
    return ours, cp.Problem(cp.Minimize(cp.maximum(*risks) + 0.005 * cp.sum_squares(w)))


@formulation
def auc_over_pairs() -> Pair:
    _, X, y = _classes(60, 6, 15)
    D = (X[y > 0][:, None] - X[y < 0]).reshape(-1, 6)

    def ours() -> cut.Result:
        return cut.Problem(cut.LinearRisk(D, np.ones(len(D)), cut.losses.Hinge()), cut.L2(1e-2)).solve()

    w = cp.Variable(6)
    return ours, cp.Problem(cp.Minimize(cp.sum(cp.pos(1 - D @ w)) / len(D) + 0.005 * cp.sum_squares(w)))


@formulation
def positive_unlabelled() -> Pair:
    _, X, y = _classes(300, 6, 16)
    P, U, share = X[y > 0][:60], X[60:], 0.5

    class DoubleHinge(cut.losses.ScalarLoss):
        """max(0, (1 + t)/2, t): the loss of an unlabelled example."""

        def outline(self):
            return cut.losses.Pieces(knots=[-1.0, 1.0], slopes=[0.0, 0.5, 1.0])

    def ours() -> cut.Result:
        unlabelled = cut.LinearRisk(U, np.zeros(len(U)), DoubleHinge())
        return cut.Problem(unlabelled + cut.LinearObjective(-share * P.mean(axis=0)), cut.L2(0.1)).solve()

    w = cp.Variable(6)
    t = U @ w
    double = cp.sum(cp.maximum(0, (1 + t) / 2, t)) / len(U)
    return ours, cp.Problem(cp.Minimize(double - share * P.mean(axis=0) @ w + 0.05 * cp.sum_squares(w)))


@formulation
def chain_svm() -> Pair:
    rng = np.random.default_rng(17)
    words, length, n, k = 8, 4, 3, 2
    X = rng.standard_normal((words, length, n))
    Y = (X[:, :, 0] + 0.3 * rng.standard_normal((words, length)) > 0).astype(int)
    labellings = np.array(np.meshgrid(*[range(k)] * length)).reshape(length, -1).T

    def features(x, z):
        phi = np.zeros((k, n))
        np.add.at(phi, z, x)
        steps = np.zeros((k, k))
        np.add.at(steps, (z[:-1], z[1:]), 1.0)
        return np.concatenate([phi.ravel(), steps.ravel()])

    dim = k * n + k * k
    rows = [
        np.array([features(x, z) - features(x, y) for z in labellings]) for x, y in zip(X, Y, strict=True)
    ]
    costs = [(labellings != y).sum(axis=1).astype(float) for y in Y]

    def ours() -> cut.Result:
        @cut.risk(dim=dim)
        def chains(w):
            """Loss-augmented inference, here by enumeration."""
            best = [int(np.argmax(c + F @ w)) for c, F in zip(costs, rows, strict=True)]
            value = sum(c[b] + F[b] @ w for c, F, b in zip(costs, rows, best, strict=True))
            return value / words, sum(F[b] for F, b in zip(rows, best, strict=True)) / words

        return cut.Problem(chains, cut.L2(0.1)).solve()

    w = cp.Variable(dim)
    slack = sum(cp.max(c + F @ w) for c, F in zip(costs, rows, strict=True)) / words
    return ours, cp.Problem(cp.Minimize(slack + 0.05 * cp.sum_squares(w)))


# Sums, designs and optimal values


@formulation
def d_optimal_design() -> Pair:
    rng = np.random.default_rng(18)
    V = rng.standard_normal((30, 4))

    def ours() -> cut.Result:
        @cut.risk(dim=30)
        def minus_logdet(p):
            M = V.T @ (p[:, None] * V)
            sign, size = np.linalg.slogdet(M)
            if sign <= 0:
                return np.inf, np.zeros(30)
            return -size, -np.einsum("ij,jk,ik->i", V, np.linalg.inv(M), V)

        return cut.Problem(minus_logdet, feasible_set=cut.Simplex(30)).solve(x0=np.full(30, 1 / 30))

    p = cp.Variable(30, nonneg=True)
    return ours, cp.Problem(cp.Minimize(-cp.log_det(V.T @ cp.diag(p) @ V)), [cp.sum(p) == 1])


@formulation
def federated_sum() -> Pair:
    sites = [_classes(100, 8, 20 + s)[1:] for s in range(4)]

    def ours() -> cut.Result:
        risk = sum(0.25 * cut.LinearRisk(X, y, cut.losses.Logistic()) for X, y in sites)
        return cut.Problem(risk.disaggregated(), cut.L2(1e-2)).solve()

    w = cp.Variable(8)
    fit = sum(cp.sum(cp.logistic(-cp.multiply(y, X @ w))) / 400 for X, y in sites)
    return ours, cp.Problem(cp.Minimize(fit + 0.005 * cp.sum_squares(w)))


@formulation
def soft_maximum() -> Pair:
    rng = np.random.default_rng(21)
    M = rng.standard_normal((200, 20))

    def ours() -> cut.Result:
        @cut.risk(dim=20)
        def log_sum_exp(w):
            """The function of which `cut.autodiff_risk` takes the gradient by torch or jax."""
            z = M @ w
            p = np.exp(z - z.max())
            return z.max() + np.log(p.sum()), M.T @ (p / p.sum())

        return cut.Problem(log_sum_exp, cut.L2(0.1)).solve()

    w = cp.Variable(20)
    return ours, cp.Problem(cp.Minimize(cp.log_sum_exp(M @ w) + 0.05 * cp.sum_squares(w)))


@formulation
def transport_semidual() -> Pair:
    rng = np.random.default_rng(22)
    C = rng.random((15, 40))
    a, b = np.full(15, 1 / 15), np.full(40, 1 / 40)

    def ours() -> cut.Result:
        @cut.risk(dim=15)
        def semidual(u):
            """-<a, u> - sum_j b_j min_i (C_ij - u_i)."""
            near = np.argmin(C - u[:, None], axis=0)
            value = -a @ u - b @ (C - u[:, None])[near, np.arange(40)]
            return value, np.bincount(near, b, minlength=15) - a

        return cut.Problem(semidual, feasible_set=cut.Box(-1, 1, dim=15)).solve()

    u, v = cp.Variable(15), cp.Variable(40)
    below = u[:, None] @ np.ones((1, 40)) + np.ones((15, 1)) @ v[None, :] <= C
    return ours, cp.Problem(cp.Minimize(-a @ u - b @ v), [below, cp.abs(u) <= 1])


@formulation
def two_stage() -> Pair:
    rng = np.random.default_rng(23)
    cost, price = np.array([2.0, 3.0]), np.array([6.0, 8.0, 20.0])
    demands = [{"h": rng.uniform(5, 15, 3)} for _ in range(20)]
    T, W = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), np.eye(3)

    def ours() -> cut.Result:
        x, y, h = cp.Variable(2), cp.Variable(3), cp.Parameter(3)
        recourse = cp.Problem(cp.Minimize(price @ y), [W @ y >= h - T @ x, y >= 0])
        Q = cut.ValueFunction(recourse, x, scenarios=[{h: d["h"]} for d in demands])
        return cut.Problem(Q + cut.LinearObjective(cost), feasible_set=cut.Box(0, 20, dim=2)).solve()

    x, ys = cp.Variable(2), [cp.Variable(3, nonneg=True) for _ in demands]
    held = [W @ y >= d["h"] - T @ x for y, d in zip(ys, demands, strict=True)]
    total = cost @ x + sum(price @ y for y in ys) / len(ys)
    return ours, cp.Problem(cp.Minimize(total), [*held, x >= 0, x <= 20])


@formulation
def cutting_stock() -> Pair:
    widths, demand, roll = [45, 36, 31, 14], np.array([97.0, 610.0, 395.0, 211.0]), 100
    patterns = np.array([
        p for p in np.ndindex(*[roll // w + 1 for w in widths]) if 0 < np.dot(p, widths) <= roll
    ])  # fmt: skip

    def ours() -> cut.Result:
        """The dual of the linear programme over all patterns; the knapsack finds the most violated one."""

        @cut.separation_oracle
        def worth_no_more_than_a_roll(u):
            worth = patterns @ u
            best = int(np.argmax(worth))
            return [] if worth[best] <= 1 + 1e-9 else [cut.HalfSpace(patterns[best], 1.0)]

        return cut.Problem(
            cut.LinearObjective(-demand), feasible_set=cut.Box(0, 1, dim=4) & worth_no_more_than_a_roll
        ).solve()

    u = cp.Variable(4, nonneg=True)
    return ours, cp.Problem(cp.Minimize(-demand @ u), [patterns @ u <= 1, u <= 1])


@formulation
def multicommodity_flow() -> Pair:
    rng = np.random.default_rng(25)
    nodes, pairs = 8, [(0, 7), (1, 6), (2, 5)]
    arcs = [(i, j) for i in range(nodes) for j in range(nodes) if 0 < (j - i) % nodes <= 3]
    length, room = rng.uniform(1, 3, len(arcs)), rng.uniform(0.5, 1.5, len(arcs))
    tail, head = np.array(arcs).T
    N = (np.arange(nodes)[:, None] == tail) * 1.0 - (np.arange(nodes)[:, None] == head)

    def shortest(costs, s, t):
        graph = sparse.csr_array((costs, (tail, head)), shape=(nodes, nodes))
        previous = sparse.csgraph.dijkstra(graph, indices=s, return_predecessors=True)[1]
        flow, node = np.zeros(len(arcs)), t
        while node != s:
            flow[arcs.index((previous[node], node))] = 1.0
            node = previous[node]
        return flow

    def ours() -> cut.Result:
        paths = [lambda costs, s=s, t=t: shortest(costs, s, t) for s, t in pairs]
        eye = [np.eye(len(arcs))] * len(paths)
        dual = cut.LagrangianDual(paths, eye, room, "<=", costs=[length] * len(paths))
        return cut.Problem(dual, feasible_set=cut.Box(0, 20, dim=len(arcs))).solve()

    flows = [cp.Variable(len(arcs), nonneg=True) for _ in pairs]
    excess = cp.Variable(len(arcs), nonneg=True)
    net = [N @ f == np.eye(nodes)[s] - np.eye(nodes)[t] for f, (s, t) in zip(flows, pairs, strict=True)]
    total = sum(length @ f for f in flows) + 20 * cp.sum(excess)
    return ours, cp.Problem(cp.Maximize(-total), [*net, sum(flows) <= room + excess])


@formulation
def facility_location() -> Pair:
    rng = np.random.default_rng(26)
    sites, clients = rng.random((10, 2)), rng.random((40, 2))
    C = np.linalg.norm(clients[:, None] - sites, axis=2)
    opening = np.full(10, 1.5)

    def ours() -> cut.Result:
        """Prices u of the clients: each site opens if the clients it saves are worth it."""

        @cut.risk(dim=40)
        def minus_dual(u):
            savings = np.maximum(u[:, None] - C, 0.0)
            worth = savings.sum(axis=0) - opening
            open_ = worth > 0
            return -u.sum() + worth[open_].sum(), -1.0 + (savings[:, open_] > 0).sum(axis=1)

        return cut.Problem(minus_dual, feasible_set=cut.Box(0, 3, dim=40)).solve()

    u, v = cp.Variable(40), cp.Variable((40, 10), nonneg=True)
    saves = [v >= u[:, None] @ np.ones((1, 10)) - C, u >= 0, u <= 3]
    worth = cp.sum(cp.pos(cp.sum(v, axis=0) - opening))
    return ours, cp.Problem(cp.Minimize(-cp.sum(u) + worth), saves)

"""Learning problems from papers, which no choice of the package was tuned on; `textbook_design` has others.

Each function returns the problem as a user would declare it, and the whole problem in cvxpy's words, whose
value is the independent optimum. The source stands above each. `automatic.py` runs them.
"""

from functools import partial

import cvxpy as cp
import numpy as np
from scipy import sparse

import cutplane as cut

TEXTBOOK = {}


def textbook(**larger):
    """Register a formulation by its name, and one of larger sizes if they are given."""

    def register(function):
        TEXTBOOK[function.__name__] = function
        if larger:
            TEXTBOOK[f"{function.__name__}, larger"] = partial(function, **larger)
        return function

    return register


def line(m, n, seed, active=None):
    """Return rows and targets with heavy tails, of which the first `active` coordinates matter."""
    rng = np.random.default_rng(seed)
    X, w = rng.standard_normal((m, n)), rng.standard_normal(n)
    w[active or n :] = 0.0
    return X, X @ w + 0.5 * rng.standard_t(3, m)


def classes(m, n, seed):
    """Return rows and labels."""
    X, t = line(m, n, seed, 5)
    return X, np.where(t > 0, 1.0, -1.0)


def differences(n, edges):
    """Return the matrix of x_i - x_j over the edges."""
    i, j = np.transpose(edges)
    k, one = np.arange(len(edges)), np.ones(len(edges))
    return sparse.csr_array((np.r_[one, -one], (np.r_[k, k], np.r_[i, j])), shape=(len(edges), n))


def grid_edges(rows, columns):
    """Return the edges of a grid, nodes numbered row by row."""
    at = np.arange(rows * columns).reshape(rows, columns)
    across = np.c_[at[:, :-1].ravel(), at[:, 1:].ravel()]
    return np.vstack([across, np.c_[at[:-1].ravel(), at[1:].ravel()]])


# R. Tibshirani et al., "Sparsity and smoothness via the fused lasso", JRSS B 67, 2005,
# doi:10.1111/j.1467-9868.2005.00490.x
@textbook(m=1000, n=300)
def fused_lasso(m=100, n=40):
    X, y = line(m, n, 1, 10)
    risk = cut.LinearRisk(X, y, cut.losses.Squared())
    w = cp.Variable(n)
    fit = cp.sum_squares(X @ w - y) / (2 * m)
    whole = cp.Minimize(fit + 0.05 * cp.norm1(w) + 0.1 * cp.norm1(cp.diff(w)))
    return cut.Problem(risk, cut.L1(0.05) + cut.total_variation(n, 0.1)), cp.Problem(whole)


# S. Kim, E. P. Xing, "Statistical estimation of correlated genome associations to a quantitative trait
# network", PLoS Genetics 5, 2009, doi:10.1371/journal.pgen.1000587
@textbook(m=1500, rows=14, columns=14)
def graph_guided_fusion(m=150, rows=5, columns=6):
    n = rows * columns
    X, y = classes(m, n, 2)
    D = differences(n, grid_edges(rows, columns))
    risk = cut.LinearRisk(X, y, cut.losses.Logistic())
    w = cp.Variable(n)
    fit = cp.sum(cp.logistic(-cp.multiply(y, X @ w))) / m
    whole = cp.Minimize(fit + 0.01 * cp.norm1(w) + 0.02 * cp.norm1(D @ w))
    return cut.Problem(risk, cut.L1(0.01) + cut.L1(0.02) @ D), cp.Problem(whole)


# L. Rudin, S. Osher, E. Fatemi, "Nonlinear total variation based noise removal algorithms", Physica D 60,
# 1992, doi:10.1016/0167-2789(92)90242-F; anisotropic
@textbook(n=40)
def image_denoising(n=12):
    rng = np.random.default_rng(3)
    image = np.zeros((n, n))
    image[n // 4 : 3 * n // 4, n // 3 : 5 * n // 6] = 1.0
    y = (image + 0.3 * rng.standard_normal(image.shape)).ravel()
    risk = cut.LinearRisk(sparse.eye_array(n * n, format="csr"), y, cut.losses.Squared(), normalize=False)
    x = cp.Variable(n * n)
    D = differences(n * n, grid_edges(n, n))
    whole = cp.Minimize(0.5 * cp.sum_squares(x - y) + 0.3 * cp.norm1(D @ x))
    return cut.Problem(risk, cut.total_variation((n, n), 0.3)), cp.Problem(whole)


# V. Kalofolias, X. Bresson, M. Bronstein, P. Vandergheynst, "Matrix completion on graphs", 2014,
# arXiv:1408.1717
@textbook()
def completion_on_a_graph():
    rng = np.random.default_rng(4)
    M = np.repeat(rng.standard_normal((4, 8)), 3, axis=0) + 0.1 * rng.standard_normal((12, 8))
    seen = np.flatnonzero(rng.random(96) < 0.5)
    D = differences(12, [(i, i + 1) for i in range(11)]).toarray()
    laplacian = np.kron(D.T @ D, np.eye(8))
    risk = cut.LinearRisk(np.eye(96)[seen], M.ravel()[seen], cut.losses.Squared())
    Z = cp.Variable((12, 8))
    fit = cp.sum_squares(cp.reshape(Z, (96,), order="C")[seen] - M.ravel()[seen]) / (2 * seen.size)
    whole = cp.Minimize(fit + 0.02 * cp.normNuc(Z) + 0.005 * cp.sum_squares(D @ Z))
    return cut.Problem(
        risk, cut.NuclearNorm((12, 8), 0.02) + cut.QuadraticForm(0.01 * laplacian)
    ), cp.Problem(whole)


# N. Higham, "Computing the nearest correlation matrix", IMA Journal of Numerical Analysis 22, 2002,
# doi:10.1093/imanum/22.3.329
@textbook(n=25)
def nearest_correlation(n=8):
    rng = np.random.default_rng(5)
    A = rng.uniform(-1, 1, (n, n))
    A = np.triu(A, 1) + np.triu(A, 1).T + np.eye(n)
    unit = cut.Polyhedron(A_eq=np.eye(n * n)[:: n + 1], b_eq=np.ones(n))
    risk = cut.LinearRisk(np.eye(n * n), A.ravel(), cut.losses.Squared(), normalize=False)
    M = cp.Variable((n, n), PSD=True)
    whole = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(M - A)), [cp.diag(M) == 1])
    return cut.Problem(risk, feasible_set=cut.PSDCone(n) & unit), whole


# E. Seijo, B. Sen, "Nonparametric least squares estimation of a multivariate convex regression function",
# Ann. Statist. 39, 2011, doi:10.1214/10-AOS852
@textbook(m=60)
def convex_regression(m=30):
    rng = np.random.default_rng(6)
    P = rng.uniform(-1, 1, (m, 2))
    y = (P**2).sum(axis=1) + 0.1 * rng.standard_normal(m)
    risk = cut.LinearRisk(np.eye(m), y, cut.losses.Squared()).on(slice(0, m), dim=3 * m)
    box = cut.Box(-10, 10, dim=3 * m)
    t, S = cp.Variable(m), cp.Variable((m, 2))
    above = [t[j] + (P - P[j]) @ S[j] <= t for j in range(m)]
    whole = cp.Problem(
        cp.Minimize(cp.sum_squares(t - y) / (2 * m)), [*above, cp.abs(t) <= 10, cp.abs(S) <= 10]
    )
    return cut.Problem(risk, feasible_set=box & convexity(P)), whole


def convexity(P):
    """Return the set of heights and slopes of a convex function at points, by the worst row of each point."""
    m, d = P.shape

    @cut.separation_oracle
    def convex(x):
        t, S = x[:m], x[m:].reshape(m, d)
        excess = planes(P, t, S) - t[:, None]
        worst = excess.argmax(axis=1)
        rows = []
        for i in np.flatnonzero(excess.max(axis=1) > 1e-7):
            j, row = worst[i], np.zeros(m + m * d)
            row[j] += 1.0
            row[i] -= 1.0
            row[m + d * j : m + d * j + d] = P[i] - P[j]
            rows.append(cut.HalfSpace(row, 0.0))
        return rows

    return convex


def planes(P, t, S):
    """Return the heights at P_i of the planes through (P_j, t_j) with slope S_j."""
    return t + P @ S.T - (P * S).sum(axis=1)


# H. D. Bondell, B. J. Reich, H. Wang, "Noncrossing quantile regression curve estimation", Biometrika 97,
# 2010, doi:10.1093/biomet/asq048; with an l1 norm
@textbook()
def quantile_tube():
    X, y = line(120, 6, 7, 3)
    X[:, 0] = 1.0
    low = cut.LinearRisk(X, y, cut.losses.Quantile(0.1)).on(slice(0, 6), dim=12)
    high = cut.LinearRisk(X, y, cut.losses.Quantile(0.9)).on(slice(6, 12), dim=12)
    a, b = cp.Variable(6), cp.Variable(6)

    def pinball(w, tau):
        return cp.sum(cp.maximum(tau * (y - X @ w), (tau - 1) * (y - X @ w))) / 120

    whole = cp.Minimize(pinball(a, 0.1) + pinball(b, 0.9) + 0.01 * (cp.norm1(a) + cp.norm1(b)))
    apart = cut.Polyhedron(np.hstack([X, -X]), np.zeros(120))
    return cut.Problem(low + high, cut.L1(0.01), apart), cp.Problem(whole, [X @ a <= X @ b])


# D. Hallac, J. Leskovec, S. Boyd, "Network lasso", KDD 2015, doi:10.1145/2783258.2783313
@textbook()
def network_lasso():
    X, y = line(120, 3, 8)
    node, edges = np.arange(120) % 12, grid_edges(3, 4)
    rows = np.zeros((120, 12, 3))
    rows[np.arange(120), node] = X
    risk = cut.LinearRisk(rows.reshape(120, 36), y, cut.losses.Squared())
    D = sparse.csr_array(sparse.kron(differences(12, edges), np.eye(3)))
    norms = cut.GroupLasso(np.repeat(np.arange(len(edges)), 3), 0.05) @ D
    W = cp.Variable((12, 3))
    fit = cp.sum_squares(cp.sum(cp.multiply(X, W[node]), axis=1) - y) / 240
    whole = cp.Minimize(fit + 0.05 * sum(cp.norm2(W[i] - W[j]) for i, j in edges))
    return cut.Problem(risk, norms), cp.Problem(whole)


# P. K. Shivaswamy, C. Bhattacharyya, A. J. Smola, "Second order cone programming approaches for handling
# missing and uncertain data", JMLR 7, 2006, https://jmlr.org/papers/v7/shivaswamy06a.html
@textbook(m=2000, n=30)
def robust_svm(m=150, n=8):
    X, y = classes(m, n, 9)
    spread = np.random.default_rng(9).uniform(0.1, 0.6, X.shape)

    @cut.risk(dim=n)
    def worst_margin(w):
        size = np.linalg.norm(spread * w, axis=1)
        short = 1.0 - y * (X @ w) + size
        wrong = short > 0.0
        grown = spread**2 * w / np.maximum(size, 1e-300)[:, None]
        return short[wrong].sum() / m, (grown - y[:, None] * X)[wrong].sum(axis=0) / m

    w = cp.Variable(n)
    size = cp.norm2(cp.multiply(spread, cp.vstack([w] * m)), axis=1)
    hinge = cp.sum(cp.pos(1 - cp.multiply(y, X @ w) + size)) / m
    return cut.Problem(worst_margin, cut.L2(0.01)), cp.Problem(cp.Minimize(hinge + 0.005 * cp.sum_squares(w)))


# S. Shafieezadeh-Abadeh, P. Mohajerin Esfahani, D. Kuhn, "Distributionally robust logistic regression",
# NIPS 2015, arXiv:1509.09259: labels may be wrong at a price of 1, the l1 norm moves a row
@textbook()
def robust_logistic():
    X, y = classes(150, 6, 10)

    @cut.risk(dim=7)
    def worst_case(v):
        w, price = v[:6], v[6]
        t = y * (X @ w)
        right, wrong = np.logaddexp(0, -t), np.logaddexp(0, t) - price
        flip = wrong > right
        slope = np.where(flip, 1 / (1 + np.exp(-t)), -1 / (1 + np.exp(t)))
        return 0.1 * price + np.maximum(right, wrong).mean(), np.r_[
            X.T @ (slope * y) / 150, 0.1 - flip.mean()
        ]

    v, u = cp.Variable(7), cp.Variable(7)
    t = cp.multiply(y, X @ u[:6])
    mean = cp.sum(cp.maximum(cp.logistic(-t), cp.logistic(t) - u[6])) / 150
    moved = cut.CvxpySet([cp.norm_inf(v[:6]) <= v[6], v[6] <= 20], v)
    whole = cp.Problem(cp.Minimize(0.1 * u[6] + mean), [cp.norm_inf(u[:6]) <= u[6], u[6] <= 20])
    return cut.Problem(worst_case, feasible_set=moved), whole


# M. J. Best, N. Chakravarti, "Active set algorithms for isotonic regression", Math. Program. 47, 1990,
# doi:10.1007/BF01580873; in two orders, with Huber's loss
@textbook()
def isotonic_surface():
    rng = np.random.default_rng(11)
    D = differences(64, grid_edges(8, 8))
    y = np.add.outer(np.arange(8), np.arange(8)).ravel() / 7 + 0.3 * rng.standard_t(2, 64)
    risk = cut.LinearRisk(np.eye(64), y, cut.losses.Huber(0.5))
    rising = cut.Polyhedron(D, np.zeros(D.shape[0])) & cut.Box(y.min(), y.max(), dim=64)
    x = cp.Variable(64)
    whole = cp.Problem(cp.Minimize(cp.sum(cp.huber(x - y, 0.5)) / 128), [D @ x <= 0])
    return cut.Problem(risk, feasible_set=rising), whole


# S.-J. Kim, K. Koh, S. Boyd, D. Gorinevsky, "l1 trend filtering", SIAM Review 51, 2009,
# doi:10.1137/070690274
@textbook()
def trend_with_outliers():
    rng = np.random.default_rng(12)
    y = np.abs(np.linspace(-2, 2, 100)) + 0.1 * rng.standard_normal(100) + 3 * (rng.random(100) < 0.05)
    risk = cut.LinearRisk(np.eye(100), y, cut.losses.Huber(0.3), normalize=False)
    x = cp.Variable(100)
    whole = cp.Minimize(0.5 * cp.sum(cp.huber(x - y, 0.3)) + 2.0 * cp.norm1(cp.diff(x, 2)))
    return cut.Problem(risk, cut.trend_filter(100, 2.0)), cp.Problem(whole)


# O. Banerjee, L. El Ghaoui, A. d'Aspremont, "Model selection through sparse maximum likelihood
# estimation", JMLR 9, 2008, https://jmlr.org/papers/v9/banerjee08a.html: the dual, over a box
@textbook(m=600, n=20)
def sparse_inverse_covariance(m=80, n=7):
    rng = np.random.default_rng(13)
    S = np.cov(rng.standard_normal((m, n)) @ (np.eye(n) + 0.3 * np.eye(n, k=1)), rowvar=False)
    i, j = np.triu_indices(n)

    @cut.risk(dim=i.size)
    def minus_log_det(u):
        U = np.zeros((n, n))
        U[i, j] = U[j, i] = u
        inverse = np.linalg.inv(S + U)
        return -np.linalg.slogdet(S + U)[1], -inverse[i, j] * np.where(i == j, 1.0, 2.0)

    U = cp.Variable((n, n), symmetric=True)
    whole = cp.Problem(cp.Minimize(-cp.log_det(S + U)), [cp.abs(U) <= 0.05])
    return cut.Problem(minus_log_det, feasible_set=cut.Box(-0.05, 0.05, dim=i.size)), whole


# K. Q. Weinberger, L. K. Saul, "Distance metric learning for large margin nearest neighbor
# classification", JMLR 10, 2009, https://jmlr.org/papers/v10/weinberger09a.html
@textbook()
def large_margin_neighbours():
    rng = np.random.default_rng(14)
    X, label = rng.standard_normal((50, 4)), rng.integers(0, 2, 50)
    X[:, 0] += 1.5 * label
    i, j, k = rng.integers(0, 50, (3, 1000))
    use = (label[i] == label[j]) & (label[i] != label[k]) & (i != j)

    def square(a, b):
        return np.einsum("ka,kb->kab", X[a] - X[b], X[a] - X[b]).reshape(-1, 16)

    near, rows = square(i[use], j[use]).mean(axis=0), (square(i, k) - square(i, j))[use]
    risk = cut.LinearRisk(rows, np.ones(len(rows)), cut.losses.Hinge()) + cut.LinearObjective(0.1 * near)
    M = cp.Variable((4, 4), PSD=True)
    v = cp.reshape(M, (16,), order="C")
    whole = cp.Minimize(cp.sum(cp.pos(1 - rows @ v)) / len(rows) + 0.1 * near @ v)
    return cut.Problem(risk, feasible_set=cut.PSDCone(4)), cp.Problem(whole)


# T. Joachims, "Optimizing search engines using clickthrough data", KDD 2002, doi:10.1145/775047.775067;
# l1 norm
@textbook()
def sparse_ranking():
    X, t = line(150, 15, 15, 4)
    grade, query = np.digitize(t, [-1.0, 1.0]), np.arange(150) // 15
    pairs = [(a, b) for a in range(150) for b in range(150) if query[a] == query[b] and grade[a] > grade[b]]
    a, b = np.transpose(pairs)
    w = cp.Variable(15)
    whole = cp.Minimize(cp.sum(cp.pos(1 - (X[a] - X[b]) @ w)) / len(pairs) + 0.02 * cp.norm1(w))
    return cut.Problem(cut.RankingRisk(X, grade, query), cut.L1(0.02)), cp.Problem(whole)


# R. Jenatton, J.-Y. Audibert, F. Bach, "Structured variable selection with sparsity-inducing norms", JMLR
# 12, 2011, https://jmlr.org/papers/v12/jenatton11b.html: windows of six, three of which the next one
# shares
@textbook(m=600, n=150)
def overlapping_groups(m=120, n=30):
    X, y = line(m, n, 16, 9)
    windows = [list(range(start, start + 6)) for start in range(0, n - 3, 3)]
    copies = sparse.csr_array(np.eye(n)[np.concatenate(windows)])
    norms = cut.GroupLasso(np.repeat(np.arange(len(windows)), 6), 0.1) @ copies
    risk = cut.LinearRisk(X, y, cut.losses.Absolute())
    w = cp.Variable(n)
    whole = cp.Minimize(cp.norm1(X @ w - y) / m + 0.1 * sum(cp.norm2(w[group]) for group in windows))
    return cut.Problem(risk, norms), cp.Problem(whole)


# E. Candes, T. Tao, "The Dantzig selector", Ann. Statist. 35, 2007, doi:10.1214/009053606000001523
@textbook(m=200, n=400)
def dantzig_selector(m=60, n=80):
    X, y = line(m, n, 17, 6)
    G, c = X.T @ X / m, X.T @ y / m
    near = cut.Polyhedron(np.vstack([G, -G]), np.r_[c + 0.2, 0.2 - c])
    w = cp.Variable(n)
    whole = cp.Problem(cp.Minimize(cp.norm1(w)), [cp.abs(G @ w - c) <= 0.2])
    return cut.Problem(cut.LinearObjective(np.zeros(n)), cut.L1(1.0), near), whole


# M. A. Davenport, Y. Plan, E. van den Berg, M. Wootters, "1-bit matrix completion", Information and
# Inference 3, 2014, doi:10.1093/imaiai/iau006
@textbook(m=40, n=30, lam=0.008)
def one_bit_completion(m=12, n=10, lam=0.03):
    rng = np.random.default_rng(18)
    M = rng.standard_normal((m, 2)) @ rng.standard_normal((2, n)) + 0.3 * rng.standard_normal((m, n))
    seen = np.flatnonzero(rng.random(m * n) < 0.6)
    y = np.where(M.ravel()[seen] > 0, 1.0, -1.0)
    risk = cut.LinearRisk(np.eye(m * n)[seen], y, cut.losses.Logistic())
    Z = cp.Variable((m, n))
    entries = cp.reshape(Z, (m * n,), order="C")[seen]
    whole = cp.Minimize(cp.sum(cp.logistic(-cp.multiply(y, entries))) / seen.size + lam * cp.normNuc(Z))
    return cut.Problem(risk, cut.NuclearNorm((m, n), lam)), cp.Problem(whole)

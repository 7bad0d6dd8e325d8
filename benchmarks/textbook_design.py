"""Problems of geometry, design and planning from papers and textbooks; `textbook` registers them."""

import cvxpy as cp
import numpy as np
from textbook import textbook

import cutplane as cut


# C. Helmberg, F. Rendl, "A spectral bundle method for semidefinite programming", SIAM J. Optim. 10, 2000,
# doi:10.1137/S1052623497328987
@textbook(n=60)
def largest_cut_dual(n=15):
    rng = np.random.default_rng(21)
    W = np.triu(rng.random((n, n)) < 0.4, 1) * rng.integers(1, 5, (n, n))
    W = W + W.T
    L = (np.diag(W.sum(axis=0)) - W) / 4.0

    @cut.risk(dim=n)
    def eigenvalue(u):
        values, vectors = np.linalg.eigh(L + np.diag(u))
        return n * values[-1], n * vectors[:, -1] ** 2

    balanced = cut.Box(-20, 20, dim=n) & cut.Polyhedron(A_eq=np.ones((1, n)), b_eq=[0.0])
    u = cp.Variable(n)
    whole = cp.Problem(cp.Minimize(n * cp.lambda_max(L + cp.diag(u))), [cp.sum(u) == 0])
    return cut.Problem(eigenvalue, feasible_set=balanced), whole


# S. Boyd, L. Vandenberghe, "Convex Optimization", 2004, section 7.2, doi:10.1017/CBO9780511804441
@textbook(n=2000)
def entropy_with_moments(n=100):
    t = np.linspace(-1, 1, n)
    rows, moments = np.vstack([t, t**2, 3 * t**3 - 2 * t]), np.array([0.1, 0.5, -0.2])
    held = cut.Simplex(n) & cut.Polyhedron(A_eq=rows, b_eq=moments)
    p = cp.Variable(n)
    whole = cp.Problem(cp.Minimize(-cp.sum(cp.entr(p))), [rows @ p == moments, cp.sum(p) == 1])
    return cut.Problem(cut.LinearObjective(np.zeros(n)), cut.NegativeEntropy(1.0), held), whole


# J. R. Birge, F. Louveaux, "Introduction to Stochastic Programming", 2011, chapter 6,
# doi:10.1007/978-1-4614-0237-4: stock bought now, and again once the first of two demands is seen
@textbook()
def three_stage_tree():
    rng = np.random.default_rng(22)
    first, second = rng.uniform(0, 10, (6, 4)), rng.uniform(0, 10, (6, 3, 4))
    price = np.array([3.0, 4.0, 5.0, 6.0])

    def later(stock, seen, futures):
        """Return the cost from the second stage on, and its constraints."""
        sold, more, sales = cp.Variable(4), cp.Variable(4), [cp.Variable(4) for _ in range(3)]
        kept = stock - sold + more
        rows = [sold >= 0, sold <= seen, sold <= stock, more >= 0, cp.sum(more) <= 8]
        for sale, demand in zip(sales, futures, strict=True):
            rows += [sale >= 0, sale <= demand, sale <= kept]
        return -price @ sold + 2.0 * cp.sum(more) - sum(price @ sale for sale in sales) / 3, rows

    stock, seen, futures = cp.Variable(4), cp.Parameter(4), [cp.Parameter(4) for _ in range(3)]
    cost, rows = later(stock, seen, futures)
    nodes = [{seen: first[k], **dict(zip(futures, second[k], strict=True))} for k in range(6)]
    risk = cut.ValueFunction(cp.Problem(cp.Minimize(cost), rows), stock, nodes)
    x = cp.Variable(4)
    parts = [later(x, first[k], second[k]) for k in range(6)]
    whole = cp.Minimize(cp.sum(x) + sum(part for part, _ in parts) / 6)
    held = [x >= 0, x <= 20, *(row for _, part in parts for row in part)]
    problem = cut.Problem(risk + cut.LinearObjective(np.ones(4)), feasible_set=cut.Box(0, 20))
    return problem, cp.Problem(whole, held)


# M. Agueh, G. Carlier, "Barycenters in the Wasserstein space", SIAM J. Math. Anal. 43, 2011,
# doi:10.1137/100805741
@textbook()
def wasserstein_barycentre():
    rng = np.random.default_rng(23)
    P = rng.uniform(0, 1, (15, 2))
    C = ((P[:, None] - P) ** 2).sum(axis=2)
    Q = rng.dirichlet(np.full(15, 0.5), 4)
    p, q, T = cp.Variable(15), cp.Parameter(15), cp.Variable((15, 15), nonneg=True)
    rows = [cp.sum(T, axis=1) == p, cp.sum(T, axis=0) == q]
    risk = cut.ValueFunction(cp.Problem(cp.Minimize(cp.sum(cp.multiply(C, T))), rows), p, [{q: r} for r in Q])
    b, plans = cp.Variable(15), [cp.Variable((15, 15), nonneg=True) for _ in Q]
    held = [cp.sum(b) == 1]
    for r, plan in zip(Q, plans, strict=True):
        held += [cp.sum(plan, axis=1) == b, cp.sum(plan, axis=0) == r]
    whole = cp.Minimize(sum(cp.sum(cp.multiply(C, plan)) for plan in plans) / 4)
    return cut.Problem(risk, feasible_set=cut.Simplex(15)), cp.Problem(whole, held)


# S. Boyd et al., "Multi-period trading via convex optimization", 2017, doi:10.1561/2400000023
@textbook(periods=12, n=30)
def multi_period_portfolio(periods=5, n=8):
    rng = np.random.default_rng(24)
    mu = 0.02 * rng.standard_normal((periods, n))
    F = rng.standard_normal((n, 3)) * 0.1
    sigma = F @ F.T + 0.01 * np.eye(n)
    trades = np.kron(np.eye(periods, k=0) - np.eye(periods, k=-1), np.eye(n))
    budgets = cut.Polyhedron(A_eq=np.kron(np.eye(periods), np.ones(n)), b_eq=np.ones(periods))
    costs = cut.L1(0.005) @ trades[n:] + cut.QuadraticForm(2.0 * np.kron(np.eye(periods), sigma))
    w = cp.Variable((periods, n))
    risk = sum(cp.quad_form(w[k], sigma) for k in range(periods))
    whole = cp.Minimize(-cp.sum(cp.multiply(mu, w)) + risk + 0.005 * cp.sum(cp.abs(w[1:] - w[:-1])))
    held = [w >= 0, cp.sum(w, axis=1) == 1]
    problem = cut.Problem(cut.LinearObjective(-mu.ravel()), costs, cut.Box(0, 1, dim=periods * n) & budgets)
    return problem, cp.Problem(whole, held)


# R. T. Rockafellar, S. Uryasev, "Optimization of conditional value-at-risk", J. Risk 2, 2000,
# doi:10.21314/JOR.2000.038
@textbook(m=5000, n=50)
def value_at_risk(m=300, n=15):
    rng = np.random.default_rng(25)
    R = 0.01 + 0.03 * rng.standard_normal((m, n)) * rng.uniform(0.5, 2.0, n)

    def model(v):
        return v[n] + cp.sum(cp.pos(-R @ v[:n] - v[n])) / (0.05 * m)

    v, u = cp.Variable(n + 1), cp.Variable(n + 1)
    shares = cut.CvxpySet([v[:n] >= 0, cp.sum(v[:n]) == 1, cp.abs(v[n]) <= 1], v)
    whole = cp.Problem(cp.Minimize(model(u)), [u[:n] >= 0, cp.sum(u[:n]) == 1, cp.abs(u[n]) <= 1])
    return cut.Problem(cut.CvxpyRisk(model(v), v), feasible_set=shares), whole


# Boyd and Vandenberghe, section 7.5.2: A-optimal, with a prior of weight 1e-2
@textbook(m=400, n=15)
def a_optimal_design(m=40, n=5):
    V = np.random.default_rng(26).standard_normal((m, n))

    @cut.risk(dim=m)
    def trace_of_inverse(p):
        inverse = np.linalg.inv(V.T @ (p[:, None] * V) + 0.01 * np.eye(n))
        return np.trace(inverse), -((V @ inverse) ** 2).sum(axis=1)

    p = cp.Variable(m, nonneg=True)
    information = V.T @ cp.diag(p) @ V + 0.01 * np.eye(n)
    whole = cp.Problem(cp.Minimize(cp.tr_inv(information)), [cp.sum(p) == 1])
    return cut.Problem(trace_of_inverse, feasible_set=cut.Simplex(m)), whole


# E. Welzl, "Smallest enclosing disks (balls and ellipsoids)", 1991, doi:10.1007/BFb0038202
@textbook(m=3000, n=40)
def enclosing_ball(m=200, n=8):
    P = np.random.default_rng(27).standard_normal((m, n))

    @cut.risk(dim=n)
    def farthest(x):
        distance = np.linalg.norm(P - x, axis=1)
        k = distance.argmax()
        return distance[k], (x - P[k]) / distance[k]

    x = cp.Variable(n)
    whole = cp.Minimize(cp.max(cp.norm2(P - cp.vstack([x] * m), axis=1)))
    return cut.Problem(farthest, feasible_set=cut.Box(-5, 5)), cp.Problem(whole)


# Sylvester's problem for discs, by an oracle of tangents: N. Megiddo, "On the ball spanned by balls",
# Discrete Comput. Geom. 4, 1989, doi:10.1007/BF02187750
@textbook()
def smallest_circle():
    rng = np.random.default_rng(28)
    P, r = rng.standard_normal((50, 2)), rng.uniform(0.1, 0.5, 50)

    @cut.separation_oracle
    def holds_all(v):
        away = v[:2] - P
        distance = np.linalg.norm(away, axis=1)
        k = (distance + r).argmax()
        if distance[k] + r[k] <= v[2] + 1e-8:
            return []
        normal = away[k] / distance[k]
        return [cut.HalfSpace(np.r_[normal, -1.0], normal @ P[k] - r[k])]

    x, R = cp.Variable(2), cp.Variable()
    whole = cp.Problem(cp.Minimize(R), [cp.norm2(P - cp.vstack([x] * 50), axis=1) + r <= R])
    box = cut.Box([-5.0, -5.0, 0.0], [5.0, 5.0, 20.0])
    return cut.Problem(cut.LinearObjective(np.array([0.0, 0.0, 1.0])), feasible_set=box & holds_all), whole


# Boyd and Vandenberghe, section 8.5.1: the largest ball in a polyhedron given by the row it violates most
@textbook(m=3000, n=30)
def chebyshev_centre(m=400, n=10):
    rng = np.random.default_rng(29)
    A = rng.standard_normal((m, n))
    b = rng.uniform(0.5, 2.0, m)
    rows = np.c_[A, np.linalg.norm(A, axis=1)]

    @cut.separation_oracle
    def inside(v):
        excess = rows @ v - b
        k = excess.argmax()
        return [cut.HalfSpace(rows[k], b[k])] if excess[k] > 1e-8 else []

    c = np.r_[np.zeros(n), -1.0]
    v = cp.Variable(n + 1)
    whole = cp.Problem(cp.Minimize(c @ v), [rows @ v <= b, cp.abs(v) <= 5])
    return cut.Problem(cut.LinearObjective(c), feasible_set=cut.Box(-5, 5, dim=n + 1) & inside), whole


# Y. Vardi, C.-H. Zhang, "The multivariate L1-median and associated data depth", PNAS 97, 2000,
# doi:10.1073/pnas.97.4.1423
@textbook(m=3000, n=40)
def geometric_median(m=500, n=5):
    P = np.random.default_rng(30).standard_t(2, (m, n))

    @cut.risk(dim=n)
    def mean_distance(x):
        distance = np.linalg.norm(P - x, axis=1)
        return distance.mean(), ((x - P) / np.maximum(distance, 1e-300)[:, None]).mean(axis=0)

    x = cp.Variable(n)
    whole = cp.Minimize(cp.sum(cp.norm2(P - cp.vstack([x] * m), axis=1)) / m)
    return cut.Problem(mean_distance, feasible_set=cut.Box(-10, 10)), cp.Problem(whole)


# R. T. Rockafellar, "Convex Analysis", 1970, section 16, doi:10.1515/9781400873173: the support function
# of an intersection is an infimal convolution of those of a ball, a box and an l1 ball
@textbook()
def support_of_an_intersection():
    c = np.random.default_rng(31).standard_normal(12)

    @cut.risk(dim=24)
    def convolution(v):
        y, z = v[:12], v[12:]
        rest = c - y - z
        size, top = np.linalg.norm(rest), np.abs(z).argmax()
        slope = np.r_[0.4 * np.sign(y), np.zeros(12)] - np.tile(rest / max(size, 1e-300), 2)
        slope[12 + top] += 2.0 * np.sign(z[top])
        return 0.4 * np.abs(y).sum() + 2.0 * np.abs(z[top]) + size, slope

    x = cp.Variable(12)
    whole = cp.Problem(cp.Maximize(c @ x), [cp.norm2(x) <= 1, cp.norm_inf(x) <= 0.4, cp.norm1(x) <= 2])
    return cut.Problem(convolution, feasible_set=cut.Box(-10, 10)), whole


# J. McClellan, T. Parks, L. Rabiner, "A computer program for designing optimum FIR linear phase digital
# filters", 1973, doi:10.1109/TAU.1973.1162525
@textbook(n=40)
def minimax_filter(n=12):
    omega = np.r_[np.linspace(0, 0.4 * np.pi, 200), np.linspace(0.5 * np.pi, np.pi, 200)]
    rows = np.cos(np.outer(omega, np.arange(n)))
    wanted, weight = 1.0 * (omega < 0.45 * np.pi), np.where(omega < 0.45 * np.pi, 1.0, 5.0)

    @cut.risk(dim=n)
    def ripple(h):
        error = weight * (rows @ h - wanted)
        k = np.abs(error).argmax()
        return np.abs(error[k]), np.sign(error[k]) * weight[k] * rows[k]

    h = cp.Variable(n)
    whole = cp.Minimize(cp.norm_inf(cp.multiply(weight, rows @ h - wanted)))
    return cut.Problem(ripple, feasible_set=cut.Box(-2, 2)), cp.Problem(whole)


# W. Dorn, R. Gomory, H. Greenberg, "Automatic design of optimal structures", J. de Mecanique 3, 1964; A.
# Ben-Tal, A. Nemirovski, "Lectures on Modern Convex Optimization", 2001, doi:10.1137/1.9780898718829
@textbook(columns=12)
def truss(columns=5):
    place = np.array([(a, b) for a in range(columns) for b in range(3)], dtype=float)
    bars = [(i, j) for i in range(len(place)) for j in range(i) if np.abs(place[i] - place[j]).max() <= 2]
    length = np.array([np.linalg.norm(place[i] - place[j]) for i, j in bars])
    balance = np.zeros((len(place), 2, len(bars)))
    for k, (i, j) in enumerate(bars):
        balance[i, :, k] = (place[i] - place[j]) / length[k]
        balance[j, :, k] = -balance[i, :, k]
    load = np.zeros((len(place), 2))
    load[-2] = 0.3, -1.0
    balance, load = balance[3:].reshape(-1, len(bars)), load[3:].ravel()
    f = cp.Variable(len(bars))
    whole = cp.Problem(cp.Minimize(length @ cp.abs(f)), [balance @ f == load])
    held = cut.Polyhedron(A_eq=balance, b_eq=load)
    nothing = cut.LinearObjective(np.zeros(len(bars)))
    return cut.Problem(nothing, cut.L1(1.0, weights=length), held), whole


# G. Peyre, M. Cuturi, "Computational optimal transport", 2019, doi:10.1561/2200000073: both potentials,
# and an oracle that returns the worst pair of each place
@textbook(n=80)
def transport_potentials(n=20):
    rng = np.random.default_rng(32)
    a, b = rng.dirichlet(np.ones(n)), rng.dirichlet(np.ones(n))
    C = np.linalg.norm(rng.uniform(0, 1, (n, 1, 2)) - rng.uniform(0, 1, (n, 2)), axis=2)

    @cut.separation_oracle
    def pairs(v):
        excess = v[:n, None] + v[n:] - C
        worst = excess.argmax(axis=1)
        return [
            cut.HalfSpace(np.r_[np.eye(n)[i], np.eye(n)[worst[i]]], C[i, worst[i]])
            for i in np.flatnonzero(excess.max(axis=1) > 1e-8)
        ]

    T = cp.Variable((n, n), nonneg=True)
    rows = [cp.sum(T, axis=1) == a, cp.sum(T, axis=0) == b]
    whole = cp.Problem(cp.Maximize(-cp.sum(cp.multiply(C, T))), rows)
    potentials = cut.Box(-2, 2, dim=2 * n) & pairs
    return cut.Problem(cut.LinearObjective(-np.r_[a, b]), feasible_set=potentials), whole

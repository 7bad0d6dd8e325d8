r"""
3. Stabilisation: proximal and level
====================================

Kelley's queries run away because the model is trusted where nothing is known. Two remedies have become
methods of their own: stay near the best point, at a price per distance (the *proximal bundle*), or ask
for a modest improvement in place of the greatest (the *level method*). Both keep every cut.
"""

import matplotlib.pyplot as plt
import numpy as np

import cutplane as cut

# %%
# A function of one variable and a model of two cuts, from queries at -2 and 2.


def f(x):
    return 0.5 * x**2 + np.abs(x - 0.5)


def slope(x):
    return x + np.sign(x - 0.5)


points = np.array([-2.0, 2.0])
cuts = np.column_stack([slope(points), f(points) - slope(points) * points])
grid = np.linspace(-3.0, 3.0, 6001)
model = (cuts[:, :1] * grid + cuts[:, 1:]).max(axis=0)

# %%
# The proximal bundle
# -------------------
# The *centre* :math:`\hat x` is the best point so far. The next query is
#
# .. math:: x_t = \arg\min_x \; f_t(x) + \frac{\nu}{2} \|x - \hat x\|^2 .
#
# It *promises* the decrease :math:`\delta_t = f(\hat x) - f_t(x_t) - \frac{\nu}{2}\|x_t - \hat x\|^2`.
# If f falls by at least a share m of it, the query becomes the centre (a *serious step*); if not, the
# centre stays, and the new cut improves the model near it (a *null step*).
#
# The level method
# ----------------
# With the least value of the model as lower bound l, and the best value u, the next query is the point
# nearest to the last one at which the model is at most a *level* between the two:
#
# .. math:: x_{t+1} = \arg\min_x \; \|x - x_t\|^2 \quad \text{subject to} \quad f_t(x) \le l + \kappa (u - l).
#
# The three choices from the same model:
centre, nu, kappa = 2.0, 3.0, 0.5
prox = model + nu / 2 * (grid - centre) ** 2
lower, upper = model.min(), min(f(points))
level = lower + kappa * (upper - lower)
inside = grid[model <= level]
queries = {
    "Kelley": grid[model.argmin()],
    "proximal": grid[prox.argmin()],
    "level": inside[np.abs(inside - centre).argmin()],
}
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
for ax in (left, right):
    ax.plot(grid, f(grid), "k", label="f")
    ax.plot(grid, model, "C0", label="model")
    ax.plot(queries["Kelley"], lower, "C0v", markersize=9, label="Kelley's query")
    ax.set(xlabel="x", ylim=(-4.0, 6.0), xlim=(-2.5, 3.0))
left.plot(grid, prox, "C1", label="model + parabola")
left.plot(queries["proximal"], prox.min(), "C1o", markersize=8, label="proximal query")
right.axhspan(lower, level, color="C2", alpha=0.2, label="below the level")
right.plot(queries["level"], level, "C2o", markersize=8, label="level query")
left.legend(loc="upper left")
right.legend(loc="upper left")
plt.show()
for name, x in queries.items():
    print(f"{name:9} asks at {x:5.2f}, where f = {f(x):.3f}")

# %%
# Both stay between the centre and Kelley's query. That is no accident: as :math:`\nu` falls to 0 the
# proximal query goes to Kelley's, and so does the level query as :math:`\kappa` does.
for small in (1.0, 0.1, 0.001):
    near = grid[(model + small / 2 * (grid - centre) ** 2).argmin()]
    low = grid[model <= lower + small * (upper - lower)]
    print(f"nu = kappa = {small:5}: {near:6.3f}, {low[np.abs(low - centre).argmin()]:6.3f}")
assert np.isclose(near, queries["Kelley"], atol=2e-3)
assert queries["Kelley"] < queries["proximal"] < centre and queries["Kelley"] < queries["level"] < centre

# %%
# The gain
# --------
# We take the bowl on which Kelley's method zigzagged in the last lesson. The pictures show the queries in
# their order; the certificate of a run contains those that its proof may need.


@cut.risk(dim=2)
def bowl(x):
    return 0.5 * (x[0] ** 2 + 5 * x[1] ** 2) + 1.0, np.array([1.0, 5.0]) * x


problem = cut.Problem(bowl, feasible_set=cut.Box(-2, 2.4))
methods = {"Kelley": cut.Kelley(), "proximal": cut.ProximalBundle(), "level": cut.LevelBundle()}
runs = {name: problem.solve(method, tol=1e-3, x0=[-2, 2.4]) for name, method in methods.items()}

X1, X2 = np.meshgrid(*[np.linspace(-2.0, 2.4, 160)] * 2)
fig, axes = plt.subplots(1, 3, figsize=(11, 3.7), sharey=True, layout="constrained")
for ax, (name, run) in zip(axes, runs.items(), strict=True):
    path = np.array(list(run.certificate.points.values()))
    ax.contour(X1, X2, 0.5 * (X1**2 + 5 * X2**2), levels=12, colors="0.8", linewidths=0.8)
    ax.plot(*path.T, "o-", markersize=4, linewidth=0.8)
    ax.plot(0, 0, "C3*", markersize=12)
    ax.set(title=f"{name}: {run.oracle_calls} queries", xlabel="$x_1$")
plt.show()
assert all(run.status == "OPTIMAL" for run in runs.values())
assert max(runs["proximal"].oracle_calls, runs["level"].oracle_calls) < runs["Kelley"].oracle_calls

# %%
# Side by side, step by step: the centre with its prox term, and the level.
cut.explore(problem, methods=[cut.ProximalBundle(), cut.LevelBundle()], tol=1e-3, x0=[-2, 2.4])

# %%
# In two dimensions the difference is small. The function of the last lesson, *Chained CB3 II*, in more
# of them:


def chained(x):
    a, b = x[:-1], x[1:]
    values = np.sum(a**4 + b**2), np.sum((2 - a) ** 2 + (2 - b) ** 2), np.sum(2 * np.exp(b - a))
    i = int(np.argmax(values))
    left = (4 * a**3, -2 * (2 - a), -2 * np.exp(b - a))[i]
    right = (2 * b, -2 * (2 - b), 2 * np.exp(b - a))[i]
    return values[i], np.append(left, 0.0) + np.append(0.0, right)


print("dimension ", *[f"{name:>9}" for name in methods])
for n in (4, 8, 12):
    problem = cut.Problem(cut.risk(dim=n)(chained), feasible_set=cut.Box(-3, 3))
    counts = [problem.solve(method, tol=1e-2, x0=np.full(n, 2.0)).oracle_calls for method in methods.values()]
    print(f"{n:9} ", *[f"{count:9}" for count in counts])
assert counts[0] > 10 * max(counts[1:])

# %%
# A bound without the dimension
# -----------------------------
# If f has the Lipschitz constant L and the set the diameter D, the level method proves a gap of
# :math:`\varepsilon` after at most
#
# .. math:: c(\kappa) \left(\frac{L D}{\varepsilon}\right)^2, \qquad
#    c(\kappa) = \frac{1}{\kappa (2 - \kappa) (1 - \kappa)^2}
#
# queries (Lemaréchal, Nemirovskii and Nesterov, `doi:10.1007/BF01585555
# <https://doi.org/10.1007/BF01585555>`_). The idea: while the gap g has not fallen by the factor
# :math:`1 - \kappa`, the level sets have a point in common; each step, of length at least :math:`(1 -
# \kappa) g / L`, brings the queries nearer to it, and that cannot go on for long inside a set of
# diameter D.
#
# The least constant is 4, at :math:`\kappa = 1 - 1/\sqrt2`:


def constant(kappa):
    return 1.0 / (kappa * (2.0 - kappa) * (1.0 - kappa) ** 2)


kappas = np.linspace(0.01, 0.99, 981)
best = kappas[constant(kappas).argmin()]
print(f"c({best:.3f}) = {constant(best):.4f}")
assert np.isclose(best, 1 - np.sqrt(0.5), atol=1e-3) and np.isclose(constant(best), 4.0, atol=1e-4)

# %%
# The largest of n coordinates in absolute value has L = 1, and the ball of radius 1 has D = 2.
for n in (2, 10, 50):
    start = np.linspace(0.5, 1.0, n) / np.sqrt(n)

    @cut.risk(dim=n)
    def largest(x):
        i = np.argmax(np.abs(x))
        return np.abs(x[i]), np.sign(x[i]) * np.eye(len(x))[i]

    run = cut.Problem(largest, feasible_set=cut.L2Ball(1.0, dim=n)).solve(
        cut.LevelBundle(kappa=0.3), tol=0, tol_abs=0.05, x0=start
    )
    bound = constant(0.3) * (1.0 * 2.0 / 0.05) ** 2
    print(f"n = {n:2}: {run.oracle_calls:3} queries, at most {bound:.0f}")
    assert run.status == "OPTIMAL" and run.oracle_calls <= bound

# %%
# The guarantee holds for the worst function, and is far from the number of queries here. No method that
# uses only values and subgradients can guarantee less than :math:`(L D / \varepsilon)^2` up to a constant
# when the dimension is large.
#
# Exercises
# ---------
# **1.** A model of a single cut, :math:`\langle a, x\rangle + b`, over the whole space. Return the
# proximal query from the centre c with the weight nu.


def proximal_query(a, b, c, nu): ...  # yours


def check_1(answer):
    rng = np.random.default_rng(1)
    for _ in range(20):
        a, c = rng.standard_normal((2, 4))
        b, nu = rng.standard_normal(), rng.uniform(0.1, 5.0)
        x = answer(a, b, c, nu)
        assert np.shape(x) == (4,), "a query is a point"
        others = x + 0.1 * rng.standard_normal((200, 4))
        value = a @ x + b + nu / 2 * np.sum((x - c) ** 2)
        assert (value <= others @ a + b + nu / 2 * np.sum((others - c) ** 2, axis=1) + 1e-9).all(), (
            "another point is better"
        )


# check_1(proximal_query)  # take the first mark away to be told whether you are right

# %%
# **2.** The same model, and a level. Return the point nearest to c at which the model is at most the
# level.


def level_query(a, b, c, level): ...  # yours


def check_2(answer):
    rng = np.random.default_rng(2)
    for _ in range(20):
        a, c = rng.standard_normal((2, 4))
        b, level = rng.standard_normal(2)
        x = answer(a, b, c, level)
        assert np.shape(x) == (4,), "a query is a point"
        assert a @ x + b <= level + 1e-9, "the model is above the level"
        distance = max(0.0, a @ c + b - level) / np.linalg.norm(a)
        assert np.isclose(np.linalg.norm(x - c), distance), "there is a nearer point"


# check_2(level_query)

# %%
# Solutions
# ---------
# **1.** The derivative :math:`a + \nu (x - c)` is zero.


def solution_1(a, b, c, nu):
    return c - a / nu


check_1(solution_1)

# %%
# **2.** The projection on a half-space; c itself, if it lies in it.


def solution_2(a, b, c, level):
    return c - max(0.0, a @ c + b - level) / (a @ a) * a


check_2(solution_2)

r"""
6. Duality: columns and ensembles
=================================

Every cutting-plane method solves two problems at once. The multipliers of the cuts, which so far proved
a bound, are themselves the solution of another problem, and sometimes that is the one we wanted. The
example is boosting: the cuts are weak classifiers, and their multipliers are the ensemble.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linprog
from sklearn.datasets import load_breast_cancer

import cutplane as cut
from cutplane import boosting

# %%
# Two linear programmes
# ---------------------
# The reduced problem of a linear model over the simplex, with the cuts :math:`\langle a_h, d\rangle`, is
#
# .. math:: \min_{d} \; \max_h \; \langle a_h, d\rangle \quad \text{subject to}
#    \quad d \ge 0, \; \sum_i d_i = 1,
#
# and its dual has a variable, a *column*, for each cut:
#
# .. math:: \max_{w} \; \min_i \; \sum_h w_h a_{hi} \quad \text{subject to} \quad w \ge 0, \; \sum_h w_h = 1 .
#
# One is a game's row player, the other its column player. By von Neumann's theorem they have the same
# value:
rng = np.random.default_rng(0)
A = rng.standard_normal((4, 6))


def game(A):
    """Return the value, the least d and the best w, by one linear programme and its multipliers."""
    rows = np.column_stack([A, -np.ones(len(A))])
    sums = np.append(np.ones(A.shape[1]), 0.0)[np.newaxis]
    solved = linprog(
        np.eye(len(sums[0]))[-1],
        rows,
        np.zeros(len(A)),
        sums,
        [1.0],
        bounds=[(0, None)] * A.shape[1] + [(None, None)],
    )
    return solved.fun, solved.x[:-1], -solved.ineqlin.marginals


value, d, w = game(A)
print(f"max over cuts at d: {(A @ d).max():.6f}; min over coordinates at w: {(w @ A).min():.6f}")
assert np.isclose((A @ d).max(), value) and np.isclose((w @ A).min(), value)
assert np.isclose(w.sum(), 1.0) and (w >= -1e-12).all()

# %%
# Three examples and hypotheses that are right about two of them, more or less: the distributions are a
# triangle, each hypothesis is a cut, and the bars are the ensemble.
opinions = np.array([[1, 1, -1], [1, -1, 1], [-1, 1, 1], [0.9, 0.3, -0.2], [-0.3, 0.8, 0.3], [0.1, 0.0, 0.7]])


@cut.risk(dim=3)
def best_edge(d):
    h = np.argmax(opinions @ d)
    return opinions[h] @ d, opinions[h]


small = cut.Problem(best_edge, feasible_set=cut.Simplex(3))
plane = {"along": [[1, -1, 0], [1, 1, -2]], "region": ((-0.9, 0.9), (-0.9, 0.6))}
cut.explore(small, cut.Kelley(), tol=1e-6, x0=[1, 0, 0], **plane)

# %%
# A cut that is added to the one is a column that is added to the other. So *column generation* and
# *cutting planes* are one algorithm, read from two sides; an oracle that finds a violated cut *prices*
# a column.
#
# Boosting
# --------
# A hypothesis h says -1 or +1 about each example. Its *margins* :math:`y_i h(x_i)` are +1 where it is
# right. An ensemble :math:`\sum_h w_h h` has the margins :math:`\sum_h w_h y_i h(x_i)`, and we want the
# worst of them large. That is the second programme, with :math:`a_{hi} = y_i h(x_i)`.
#
# In the first one, d is a distribution of the examples, and :math:`\langle a_h, d\rangle` is the *edge*
# of h: its share of right answers minus that of wrong ones, weighted by d. There are too many
# hypotheses to list, but for one d the *weak learner* finds the best. It is the oracle, and its answer
# is a cut.
#
# A few outliers must not spoil all: with :math:`d_i \le 1/\nu` in the first problem, the second one's
# objective becomes the *soft margin*, the mean of the :math:`\nu` least margins.
X, benign = load_breast_cancer(return_X_y=True)
y = np.where(benign, 1.0, -1.0)
m, nu = len(y), 0.05 * len(y)
stumps = boosting.DecisionStumps().bind(X, y)
hypothesis, margins = stumps.best(np.full(m, 1.0 / m))
print(f"best stump for equal weights: {hypothesis}, edge {margins.mean():.4f}")

# %%
# LPBoost by hand
# ---------------
# Kelley's method over :math:`\{0 \le d_i \le 1/\nu, \sum_i d_i = 1\}`, in ten lines. The largest edge
# that the weak learner finds at d is an upper bound of every soft margin; that of the present ensemble
# is a lower bound.


def soft_margin(values, nu):
    whole = int(nu)
    least = np.sort(values)[: whole + 1]
    return (least[:whole].sum() + (nu - whole) * least[whole]) / nu


columns, d, bounds = [], np.full(m, 1.0 / m), []
for _ in range(40):
    columns.append(stumps.best(d)[1])
    edge = columns[-1] @ d
    rows = np.column_stack([columns, -np.ones(len(columns))])
    sums = np.append(np.ones(m), 0.0)[np.newaxis]
    master = linprog(
        np.eye(m + 1)[-1],
        rows,
        np.zeros(len(columns)),
        sums,
        [1.0],
        bounds=[(0, 1 / nu)] * m + [(None, None)],
    )
    d, w = master.x[:-1], -master.ineqlin.marginals
    bounds.append((soft_margin(w @ np.array(columns), nu), edge))
    assert np.isclose(bounds[-1][0], master.fun, atol=1e-7)  # the multipliers attain the master's value
lower, upper = np.maximum.accumulate([b[0] for b in bounds]), np.minimum.accumulate([b[1] for b in bounds])
print(f"after 40 rounds: {lower[-1]:.4f} <= largest soft margin <= {upper[-1]:.4f}")
assert (lower <= upper + 1e-9).all()

# %%
# The library does the same until the two meet; the multipliers of the cuts are the ensemble.
problem = boosting.SoftMargin(X, y, nu=nu, weak_learner=boosting.DecisionStumps())
result = problem.solve(boosting.LPBoost(), tol=1e-4)
print(f"{result.n_iter} rounds, {len(result.ensemble.weights)} stumps, soft margin {result.soft_margin:.4f}")
assert result.status == "OPTIMAL"
assert lower[-1] <= result.soft_margin + 1e-4 and result.soft_margin <= upper[-1] + 1e-9

# %%
# The margins move
# ----------------
# Rounds lift the worst margins, at the price of the best ones.
curves = {}
for k, ensemble in enumerate(result.staged_ensembles()):
    if k + 1 in (1, 10, 40, result.n_iter):
        curves[f"round {k + 1}"] = y * ensemble.decision_function(X)
fig, ax = plt.subplots(layout="constrained")
boosting.plot_margins(curves, result.soft_margin, ax=ax)
ax.legend(loc="upper left")
plt.show()

# %%
# All rounds, to step through:
cut.pictures.margins(result)

# %%
# Complementary slackness
# -----------------------
# At the optimum, an example with a margin above the :math:`\nu`-th least, :math:`\rho`, has the weight
# zero: it does not matter. An example below it has the full weight :math:`1/\nu`. So at most
# :math:`\nu` examples lie below.
final = y * result.ensemble.decision_function(X)
d = result.distribution
rho = np.sort(final)[int(nu)]
print(f"rho = {rho:.4f}; {np.sum(final < rho - 1e-3)} examples below it, nu = {nu:.1f}")
print(f"{np.sum(d > 1e-9)} of {m} examples have a weight")
assert np.sum(final < rho - 1e-3) <= nu
assert d[final > rho + 1e-2].sum() < 0.02 and d[final < rho - 1e-2].min() > 0.9 / nu

# %%
# Exercises
# ---------
# **1.** A weak learner for hypotheses that are given as a matrix: ``margins`` has a row for each
# hypothesis. Return the number of the one with the largest edge, and that edge, for a distribution d.


def best_column(margins, d): ...  # yours


def check_1(answer):
    rng = np.random.default_rng(1)
    for _ in range(20):
        margins, d = rng.choice([-1.0, 1.0], (8, 15)), rng.dirichlet(np.ones(15))
        found = answer(margins, d)
        assert found is not None and len(found) == 2, "a number and an edge are returned"
        edges = [sum(d[i] * row[i] for i in range(15)) for row in margins]
        assert np.isclose(edges[int(found[0])], max(edges)), "another hypothesis has a larger edge"
        assert np.isclose(found[1], max(edges)), "this is not its edge"


# check_1(best_column)  # take the first mark away to be told whether you are right

# %%
# **2.** For any distribution d with :math:`d_i \le 1/\nu` and any ensemble w, the soft margin of w is
# at most the largest edge at d. Show it in numbers: return an upper bound of all soft margins of
# ensembles of the rows of ``margins``, from d alone, or None if d is not allowed and proves nothing.


def bound_from(d, margins, nu): ...  # yours


def check_2(answer):
    rng = np.random.default_rng(2)
    for _ in range(20):
        margins, nu = rng.choice([-1.0, 1.0], (6, 12)), 4
        fine, uneven = rng.uniform(0.8, 1.0, 12), np.append(1.0, np.zeros(11))
        found = answer(fine / fine.sum(), margins, nu)
        assert found is not None, "this distribution is allowed"
        for w in rng.dirichlet(np.ones(6), 50):
            assert soft_margin(w @ margins, nu) <= found + 1e-9, "an ensemble has a larger soft margin"
        assert np.isclose(found, (margins @ fine).max() / fine.sum()), "a smaller bound holds"
        assert answer(uneven, margins, nu) is None, "this d gives one example more than 1 / nu"


# check_2(bound_from)

# %%
# Solutions
# ---------
# **1.** One product.


def solution_1(margins, d):
    edges = margins @ d
    return int(edges.argmax()), float(edges.max())


check_1(solution_1)

# %%
# **2.** The soft margin is the least of :math:`\langle d', \text{margins}\rangle` over all allowed d',
# so that it is at most that at d, which is a mean of edges with the weights w.


def solution_2(d, margins, nu):
    if d.min() < 0.0 or d.max() > 1.0 / nu + 1e-12 or not np.isclose(d.sum(), 1.0):
        return None
    return (margins @ d).max()


check_2(solution_2)

"""Draw the picture of the landing page and the README: ``python docs/picture.py`` writes _static/cuts.png."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import cutplane as cut

BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#777777"


def f(x):
    a, b = 0.12 * (x[0] - 1.0) ** 2 + np.abs(x[0] - 2.0) * 0.5, 1.5 * np.exp(-0.7 * (x[0] + 1.5))
    slope = 0.24 * (x[0] - 1.0) + 0.5 * np.sign(x[0] - 2.0) - 1.05 * np.exp(-0.7 * (x[0] + 1.5))
    return a + b, np.array([slope])


def draw():
    grid = np.linspace(-3.0, 7.0, 400)
    values = np.array([f(np.array([x]))[0] for x in grid])
    problem = cut.Problem(cut.risk(dim=1)(f), feasible_set=cut.Box(-3, 7))
    run = problem.solve(cut.Kelley(), tol=1e-8, x0=[-2.0]).certificate
    queries = np.array([point[0] for point in run.points.values()])[:4]
    heights = np.array([f(np.array([x]))[0] for x in queries])
    slopes = np.array([f(np.array([x]))[1][0] for x in queries])
    cuts = heights[:, np.newaxis] + slopes[:, np.newaxis] * (grid - queries[:, np.newaxis])
    model = cuts.max(axis=0)
    fig, (left, right) = plt.subplots(1, 2, figsize=(9.0, 4.2), width_ratios=(1.5, 1), layout="constrained")
    left.axhspan(model.min(), heights.min(), color=ORANGE, alpha=0.15, linewidth=0)
    left.plot(grid, cuts.T, color=GREY, linewidth=0.8, alpha=0.7)
    left.plot(grid, model, color=BLUE, linewidth=2, label="model: the largest of the cuts")
    left.plot(grid, values, color="black", linewidth=2, label="your function")
    left.plot(queries, heights, "o", color=BLUE)
    left.plot(queries[heights.argmin()], heights.min(), "o", color=ORANGE, markersize=9)
    left.plot(grid[model.argmin()], model.min(), "v", color=ORANGE, markersize=9)
    left.annotate("the optimum is between", (6.9, (model.min() + heights.min()) / 2), ha="right", va="center")
    left.set(
        ylim=(model.min() - 0.5, 5.0), xlim=(-3.0, 7.0), xticks=[], yticks=[], title="cuts below a function"
    )
    left.legend(loc="upper center", frameon=False)
    history = problem.solve(cut.Kelley(), tol=1e-8, x0=[-2.0]).history
    lower, upper = history.column("lower_bound"), history.column("upper_bound")
    count = np.arange(1, len(upper) + 1)
    right.fill_between(count, np.maximum(lower, -1.0), upper, color=ORANGE, alpha=0.15, linewidth=0)
    right.plot(count, upper, "o-", color=ORANGE, markersize=4, label="best objective")
    right.plot(count, lower, "o-", color=BLUE, markersize=4, label="proven lower bound")
    right.set(ylim=(-0.5, 4.5), xlabel="queries", title="both bounds close in", yticks=[])
    right.legend(frameon=False)
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
    return fig


if __name__ == "__main__":
    path = Path(__file__).parent / "_static" / "cuts.png"
    draw().savefig(path, dpi=130)
    print(path)

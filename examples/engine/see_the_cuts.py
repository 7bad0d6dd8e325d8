r"""
See the cuts: Kelley's method and a bundle method side by side
==============================================================

The same function of two variables,

.. math:: f(x) = |3 x_1 + x_2 - 1| + |x_1 + 2 x_2 + 1| + 0.3 \lVert x \rVert_2^2 ,

over a box, by two methods. Kelley's queries jump to the corners of the model; the prox term keeps the other
method's near its centre. Step with the slider, the arrow keys, or by dragging the charts.
"""

import numpy as np

import cutplane as cut

A, b = np.array([[3.0, 1.0], [1.0, 2.0]]), np.array([1.0, -1.0])


@cut.risk(dim=2)
def residuals(x):
    r = A @ x - b
    return np.abs(r).sum() + 0.3 * x @ x, A.T @ np.sign(r) + 0.6 * x


problem = cut.Problem(residuals, feasible_set=cut.Box(-2.0, 3.0))
methods = [cut.Kelley(), cut.ProximalBundle()]

# %%
# One frame, for print.
figure = cut.explore(problem, methods=methods, tol=1e-6).plot(4)

# %%
# All of them. ``save("cuts.html")`` writes the page; in a notebook the picture shows itself.
cut.explore(problem, methods=methods, tol=1e-6)

# %%
# Both methods end with the same proof.
results = [problem.solve(method, tol=1e-6) for method in methods]
for result in results:
    print(f"{result.method.split('(')[0]:<15} {result.lower_bound:.7f} <= optimum <= {result.objective:.7f}")
assert abs(results[0].objective - results[1].objective) <= 1e-6

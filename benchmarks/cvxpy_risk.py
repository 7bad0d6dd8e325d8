"""A query of `CvxpyRisk` against the same function written by hand in numpy.

Prints microseconds for value and slope, and their ratio. Products with one thread are the least noisy:
OPENBLAS_NUM_THREADS=1 python benchmarks/cvxpy_risk.py
"""

from __future__ import annotations

import time
import timeit
from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
from scipy.special import expit

import cutplane as cut

SHAPES = ((10_000, 10), (1_000, 1_000))
REPEATS = 7


def functions(X: Any, y: Any, w: cp.Variable) -> dict[str, tuple[Any, Callable[[Any], tuple[float, Any]]]]:
    """Pairs of an expression, and value and slope by hand."""
    m = len(y)

    def hinge(x: Any) -> tuple[float, Any]:
        slack = 1.0 - y * (X @ x)
        return np.maximum(slack, 0.0).sum() / m, -(X.T @ (y * (slack > 0))) / m

    def logistic(x: Any) -> tuple[float, Any]:
        margin = -y * (X @ x)
        return np.logaddexp(0.0, margin).sum() / m, -(X.T @ (y * expit(margin))) / m

    def norm1(x: Any) -> tuple[float, Any]:
        residual = X @ x - y
        return np.abs(residual).sum(), X.T @ np.sign(residual)

    def squares(x: Any) -> tuple[float, Any]:
        residual = X @ x - y
        return residual @ residual, 2.0 * (X.T @ residual)

    margins = cp.multiply(y, X @ w)
    return {
        "hinge": (cp.sum(cp.pos(1 - margins)) / m, hinge),
        "logistic": (cp.sum(cp.logistic(-margins)) / m, logistic),
        "norm1": (cp.norm1(X @ w - y), norm1),
        "sum_squares": (cp.sum_squares(X @ w - y), squares),
    }


def seconds(function: Callable[[Any], Any], x: Any) -> float:
    """Return the best of a few averages."""
    timer = timeit.Timer(lambda: function(x))
    number, _ = timer.autorange()
    return min(timer.repeat(REPEATS, number)) / number


def main() -> None:
    rng = np.random.default_rng(0)
    heads = f"{'numpy us':>10} {'CvxpyRisk us':>13} {'ratio':>6} {'compile ms':>11}"
    print(f"{'shape':>14}  {'function':<12} {heads}")
    for m, n in SHAPES:
        X, y, x = rng.standard_normal((m, n)), np.sign(rng.standard_normal(m)), rng.standard_normal(n) / n
        w = cp.Variable(n)
        for name, (expression, by_hand) in functions(X, y, w).items():
            start = time.perf_counter()
            risk = cut.CvxpyRisk(expression, w)
            compiling = time.perf_counter() - start
            np.testing.assert_allclose(risk.oracle(x)[1], by_hand(x)[1], atol=1e-9 * m)
            hand, plan = seconds(by_hand, x), seconds(risk.oracle, x)
            print(
                f"{f'{m} x {n}':>14}  {name:<12} {1e6 * hand:10.1f} {1e6 * plan:13.1f} {plan / hand:6.2f} "
                f"{1e3 * compiling:11.1f}"
            )


if __name__ == "__main__":
    main()

"""cvxpy models through `cut.from_cvxpy`, beside cvxpy with Clarabel: seconds, and the two optimal values.

Hinge, logistic, quantile and Huber losses with a ridge, and squared losses with an l1 norm, all written as
for cvxpy, on dense data of 10,000 x 100 and 100,000 x 50. The seconds of both include reading the model;
compiling is done before, by a small model of the same kind.

Run: python benchmarks/from_cvxpy.py [--scale 1.0] [--tol 1e-6] [--models hinge logistic ...]
"""

import argparse
from time import perf_counter

import cvxpy as cp
import numpy as np

import cutplane as cut

SHAPES = ((10_000, 100), (100_000, 50))


def data(m, n, seed=0):
    """Return X, targets t and labels y."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, n))
    t = X @ rng.standard_normal(n) / np.sqrt(n) + 0.5 * rng.standard_normal(m)
    return X, t, np.where(t > 0.2, 1.0, -1.0)


def hinge(X, t, y, w, b):
    """Return the linear support vector machine with an intercept."""
    return cp.sum(cp.pos(1 - cp.multiply(y, X @ w + b))) / len(y) + 1e-3 * cp.sum_squares(w)


def logistic(X, t, y, w, b):
    """Return logistic regression by its likelihood."""
    return cp.sum(cp.logistic(X @ w + b) - cp.multiply(y > 0, X @ w + b)) / len(y) + 1e-3 * cp.sum_squares(w)


def quantile(X, t, y, w, b):
    """Return quantile regression."""
    r = t - X @ w - b
    return cp.sum(0.5 * cp.abs(r) + 0.4 * r) / len(y) + 1e-3 * cp.sum_squares(w)


def huber(X, t, y, w, b):
    """Return robust regression."""
    return cp.sum(cp.huber(X @ w + b - t, 0.5)) / len(y) + 1e-3 * cp.sum_squares(w)


def lasso(X, t, y, w, b):
    """Return squared losses with the l1 norm."""
    return cp.sum_squares(X @ w + b - t) / (2 * len(y)) + 1e-2 * cp.norm1(w)


MODELS = {f.__name__: f for f in (hinge, logistic, quantile, huber, lasso)}


def timed(name, m, n, tol):
    """Return our seconds and value, and those of cvxpy."""
    X, t, y = data(m, n)
    model = cp.Problem(cp.Minimize(MODELS[name](X, t, y, cp.Variable(n), cp.Variable())))
    start = perf_counter()
    ours = cut.from_cvxpy(model)
    result = ours.solve(tol=tol)
    middle = perf_counter()
    theirs = model.solve(solver="CLARABEL")
    return middle - start, ours.value, result.status, perf_counter() - middle, theirs


def main():
    """Print a row per model and shape."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of rows")
    parser.add_argument("--tol", type=float, default=1e-6)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    args = parser.parse_args()
    print("| model | rows x columns | ours, s | Clarabel, s | ratio | status | values differ by |")
    print("|---|---|---|---|---|---|---|")
    for name in args.models:
        timed(name, 2000, 10, args.tol)
        for m, n in SHAPES:
            m = int(m * args.scale)
            ours, value, status, theirs, known = timed(name, m, n, args.tol)
            off = abs(value - known) / abs(known)
            seconds = f"{ours:.2f} | {theirs:.2f} | {theirs / ours:.1f}"
            print(f"| {name} | {m} x {n} | {seconds} | {status} | {off:.0e} |", flush=True)


if __name__ == "__main__":
    main()

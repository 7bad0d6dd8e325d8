"""Count the proofs for functions given by value and subgradient alone, where no regularizer bounds the model.

Run: python benchmarks/black_boxes.py [--tol 1e-5] [--seeds 101 102]

Nine functions with a minimiser, smooth and not, in 2, 8 and 30 dimensions: over the whole space, over the
orthant, and with 0.1 ||x||_1. A proof counts if the status is OPTIMAL and `verify()` confirms it. Prints the
problems without a proof, the counts, and the median and the largest time.
"""

import argparse
from time import perf_counter

import numpy as np

import cutplane as cut


def functions(n, rng):
    """Return functions of n coordinates by name, each x -> (value, subgradient)."""
    m = 2 * n + 3
    A, b = rng.standard_normal((m, n)), rng.standard_normal(m)
    D, C = np.exp(rng.uniform(-1.5, 1.5, n)), rng.standard_normal((5, n))

    def pseudo_huber(x):
        root = np.sqrt(1.0 + (A @ x - b) ** 2)
        return root.mean(), A.T @ ((A @ x - b) / root) / m

    def squared_hinge(x):
        r = np.maximum(0.0, 1.0 - np.abs(b) * (A @ x))
        return r @ r / m + 0.05 * x @ x, -2.0 * A.T @ (np.abs(b) * r) / m + 0.1 * x

    def distances(x):
        away = x - C
        sizes = np.linalg.norm(away, axis=1)
        return sizes.sum(), (away / np.maximum(sizes, 1e-300)[:, np.newaxis]).sum(axis=0)

    def largest(x):
        r = A @ x - b
        i = np.argmax(np.abs(r))
        return abs(r[i]), np.sign(r[i]) * A[i]

    return {
        "quadratic": lambda x: (1.0 + 0.5 * D @ (x - 1.0) ** 2, D * (x - 1.0)),
        "pseudo-Huber": pseudo_huber,
        "log cosh": lambda x: (
            (np.logaddexp(0.0, A @ x - b) + np.logaddexp(0.0, b - A @ x)).mean(),
            A.T @ np.tanh((A @ x - b) / 2.0) / m,
        ),
        "squared hinge": squared_hinge,
        "cubes": lambda x: (
            1.0 + (np.abs(A @ x - b) ** 3).mean(),
            3.0 * A.T @ (np.sign(A @ x - b) * (A @ x - b) ** 2) / m,
        ),
        "distances": distances,
        "quantile": lambda x: (
            np.maximum(0.8 * (b - A @ x), 0.2 * (A @ x - b)).mean(),
            -A.T @ np.where(b - A @ x > 0.0, 0.8, -0.2) / m,
        ),
        "largest residual": largest,
        "exponentials": lambda x: ((np.exp(x) - 2.0 * x).sum() + 5.0, np.exp(x) - 2.0),
    }


def main():
    """Solve all and print the counts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tol", type=float, default=1e-5)
    parser.add_argument("--seeds", type=int, nargs="+", default=[101, 102])
    options = parser.parse_args()
    kinds = {
        "whole space": {},
        "orthant": {"feasible_set": cut.NonnegativeOrthant()},
        "l1 norm": {"regularizer": cut.L1(0.1)},
    }
    for kind, pieces in kinds.items():
        proven, seconds = 0, []
        for seed in options.seeds:
            for n in (2, 8, 30):
                for name, function in functions(n, np.random.default_rng(seed + n)).items():
                    problem = cut.Problem(cut.risk(dim=n)(function), **pieces)
                    began = perf_counter()
                    with np.errstate(over="ignore"):
                        result = problem.solve(tol=options.tol, time_limit=8.0)
                    seconds.append(perf_counter() - began)
                    found = result.status == "OPTIMAL" and result.certificate.verify().valid
                    proven += found
                    if not found:
                        print(f"{kind}, {name}, n = {n}, seed {seed}: {result.status}, gap {result.gap:.2g}")
        print(
            f"{kind}: {proven} of {len(seconds)}, median {1e3 * np.median(seconds):.0f} ms, "
            f"largest {1e3 * max(seconds):.0f} ms"
        )


if __name__ == "__main__":
    main()

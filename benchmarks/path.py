"""A path of 25 weights on 20,000 x 1,000 problems: oracle calls with cuts reused and with 25 cold solves.

Target: at least 3 times fewer calls, same objectives.

Run: python benchmarks/path.py [tol]
"""

import sys
from time import perf_counter

import numpy as np
from sklearn.datasets import make_classification
from sklearn.preprocessing import StandardScaler

import cutplane as cut

LAMS = np.logspace(0, -6, 25)
M, N = 20_000, 1_000


def classes():
    X, y = make_classification(M, N, n_informative=50, n_redundant=0, flip_y=0.05, random_state=0)
    return StandardScaler().fit_transform(X), 2.0 * y - 1.0


def isotropic():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(M, N)) / np.sqrt(N)
    return X, np.where(X @ rng.normal(size=N) + 0.5 * rng.normal(size=M) >= 0, 1.0, -1.0)


def main(tol):
    for make in (classes, isotropic):
        X, y = make()
        for loss in (cut.losses.Hinge(), cut.losses.Logistic()):
            risk = cut.LinearRisk(X, y, loss)
            start = perf_counter()
            path = cut.Problem(risk, cut.L2(1.0)).path(LAMS, tol=tol)
            warm_seconds = perf_counter() - start
            start = perf_counter()
            cold = [cut.Problem(risk, cut.L2(lam)).solve(tol=tol) for lam in LAMS]
            cold_seconds = perf_counter() - start
            calls = sum(result.oracle_calls for result in cold)
            apart = max(abs(a.objective - b.objective) / b.objective for a, b in zip(path, cold, strict=True))
            optimal = sum(str(result.status) == "OPTIMAL" for result in [*path, *cold])
            print(
                f"{make.__name__:<10} {loss!r:<12} tol {tol:g}: {path.oracle_calls} calls and "
                f"{warm_seconds:.1f} s with cuts reused, {calls} and {cold_seconds:.1f} s cold: "
                f"{calls / path.oracle_calls:.1f} times fewer; objectives agree to {apart:.1e}; "
                f"{optimal} of {2 * len(LAMS)} solves OPTIMAL",
                flush=True,
            )


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 1e-2)

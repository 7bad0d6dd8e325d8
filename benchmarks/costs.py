"""Estimates of `cutplane.methods.estimates` beside iterations and times of solves.

Run: python benchmarks/costs.py [--tol 1e-4] [--seeds 3]

Random problems of four families in 5, 20 and 60 dimensions, and whole programmes of growing size. A row has
the estimated and the true number of iterations, microseconds of an iteration outside oracle and master,
microseconds of a reduced problem, and the estimated over the true seconds: medians over the seeds. Estimates
within a factor of two are right enough for the race.
"""

import argparse
from statistics import median
from time import process_time

import numpy as np

import cutplane as cut
from cutplane.methods.base import Estimate


def mean_absolute(rng, n, regularizer, box):
    """Return mean |A x - b| by an oracle."""
    A, b = rng.standard_normal((4 * n, n)), rng.standard_normal(4 * n)

    @cut.risk(dim=n)
    def risk(x):
        r = A @ x - b
        return np.abs(r).mean(), A.T @ np.sign(r) / b.size

    return cut.Problem(risk, regularizer, box)


def largest(rng, n, regularizer, box):
    """Return max(A x - b) by an oracle."""
    A, b = rng.standard_normal((6 * n, n)), rng.standard_normal(6 * n)

    @cut.risk(dim=n)
    def risk(x):
        r = A @ x - b
        k = int(r.argmax())
        return r[k], A[k]

    return cut.Problem(risk, regularizer, box)


def soft(rng, n, regularizer, box):
    """Return mean log(1 + exp(A x)), by an oracle that is smooth."""
    A = rng.standard_normal((4 * n, n)) + 0.3

    def risk(x):
        z = A @ x
        return np.logaddexp(0.0, z).mean(), A.T @ (1.0 / (1.0 + np.exp(-z))) / z.size

    found = cut.risk(dim=n)(risk)
    found.smooth = True
    return cut.Problem(found, regularizer, box)


FAMILIES = {
    "mean |Ax - b|": mean_absolute,
    "max(Ax - b)": largest,
    "mean log(1 + exp(Ax))": soft,
}
METHODS = cut.ProximalBundle(), cut.LevelBundle(), cut.OCAS(), cut.Kelley(), cut.LBFGS()


def cuts(tol, seeds):
    """Print the table of iterative methods."""
    print("| family | n | method | estimated | iterations | us outside | us master | estimate / taken |")
    print("|---" * 8 + "|")
    for family, declare in FAMILIES.items():
        for name, pieces in (("box", (None, cut.Box(-2, 2))), ("L2", (cut.L2(0.01), None))):
            for n in (5, 20, 60):
                problems = [declare(np.random.default_rng(seed), n, *pieces) for seed in range(seeds)]
                for method in METHODS:
                    if isinstance(estimate := method.suits(problems[0]), Estimate):
                        row(f"{family}, {name}", n, method, estimate, problems, tol)


def row(family, n, method, estimate, problems, tol):
    """Print a row."""
    found = []
    for problem in problems:
        problem.solve(method, tol=tol, time_limit=10.0, probes=False)
        began = process_time()
        result = problem.solve(method, tol=tol, time_limit=10.0, probes=False)
        seconds, count = process_time() - began, result.n_iter
        oracle, master = (result.history.column(f"{part}_seconds").sum() for part in ("oracle", "master"))
        each = (seconds - oracle - master) / count, master / count
        found.append((count, *each, estimate.total(oracle / result.oracle_calls) / seconds))
    iterations, outside, master, ratio = (median(column) for column in zip(*found, strict=True))
    told = estimate.calls / (4.5 if isinstance(method, cut.OCAS) else 1.0)
    numbers = f"{told:.0f} | {iterations:.0f} | {1e6 * outside:.0f} | {1e6 * master:.0f} | {ratio:.2f}"
    print(f"| {family} | {n} | {method.name} | {numbers} |", flush=True)


def wholes(tol):
    """Print the table of whole programmes."""
    print("\n| programme | size | estimated ms | taken ms | ratio |")
    print("|---" * 5 + "|")
    rng = np.random.default_rng(0)
    for m, n in ((50, 10), (200, 40), (1000, 50), (3000, 100), (300, 300)):
        X, y = rng.standard_normal((m, n)), rng.standard_normal(m)
        pinball = cut.LinearRisk(X, y, cut.losses.Quantile(0.3))
        whole("pinball, l1", f"{m} x {n}", cut.Problem(pinball, cut.L1(0.01)), tol)
        squared = cut.LinearRisk(X, y, cut.losses.Squared())
        whole("squared, groups", f"{m} x {n}", cut.Problem(squared, cut.GroupLasso(np.arange(n) // 5)), tol)
    for n in (5, 10, 20, 30):
        M = rng.standard_normal(n * n)
        near = cut.LinearRisk(np.eye(n * n), M, cut.losses.Squared(), normalize=False)
        whole("squared, PSD", f"{n} x {n}", cut.Problem(near, feasible_set=cut.PSDCone(n)), tol)
        whole("squared, nuclear", f"{n} x {n}", cut.Problem(near, cut.NuclearNorm((n, n), 0.1)), tol)


def whole(name, size, problem, tol):
    """Print a row."""
    method = cut.Direct()
    estimate, least = method.suits(problem), np.inf
    if not isinstance(estimate, Estimate):
        return
    for _ in range(2):
        began = process_time()
        result = problem.solve(method, tol=tol, time_limit=60.0)
        least = min(least, process_time() - began)
    taken = f"{1e3 * estimate.seconds:.1f} | {1e3 * least:.1f} | {estimate.seconds / least:.2f}"
    print(f"| {name} | {size} | {taken} | {'' if result.status == 'OPTIMAL' else result.status}", flush=True)


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tol", type=float, default=1e-4)
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    cuts(args.tol, args.seeds)
    wholes(args.tol)


if __name__ == "__main__":
    main()

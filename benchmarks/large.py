"""A black box of 200 rows in 100,000 dimensions: boxes, simplices, l1 and l2, certified to a gap of 1e-3.

Each case runs in a process of its own, after a solve in 100 dimensions that compiles. Memory is the peak
resident size of the process, of which 153 MiB are the data, and some 185 MiB what is imported. BLAS has one
thread, so that CPU seconds are those of the work and not of threads that wait for one another.

Run: python benchmarks/large.py [--cases box simplex l1 l2 elastic] [--dim 100000] [--rows 200] [--tol 1e-3]
         [--cap 100] [--threads 1]
"""

import argparse
import multiprocessing
import os
import resource
from time import perf_counter, process_time

import numpy as np

import cutplane as cut

CASES = ("box", "simplex", "l1", "l2", "elastic")


def problem(case, rows, dim):
    """Return mean |<a_i, x> - b_i| with what the case adds; b is what a sparse x gives, and noise."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((rows, dim))
    truth = np.zeros(dim)
    truth[rng.choice(dim, 10, replace=False)] = 1.0 if case == "simplex" else rng.choice([-1.0, 1.0], 10)
    b = A @ (truth / 10.0 if case == "simplex" else truth)
    b += 0.5 * b.std() * rng.standard_normal(rows)

    @cut.risk(dim=dim)
    def mean_error(x):
        r = A @ x - b
        return np.abs(r).mean(), np.sign(r) @ A / rows

    steepest = float(np.abs(A.T @ np.sign(b)).max()) / rows
    added = {
        "box": (None, cut.Box(-2e-4, 2e-4)),
        "simplex": (None, cut.Simplex()),
        "l1": (cut.L1(0.1 * steepest), None),
        "l2": (cut.L2(1.0), None),
        "elastic": (cut.L1(0.1 * steepest) + cut.L2(0.1), None),
    }[case]
    return cut.Problem(mean_error, *added)


def run(case, args, pipe):
    """Send what a case takes."""
    problem(case, 20, 100).solve(tol=args.tol)
    declared = problem(case, args.rows, args.dim)
    cpu, clock = process_time(), perf_counter()
    result = declared.solve(tol=args.tol, time_limit=args.cap)
    spent = process_time() - cpu, perf_counter() - clock
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    calls = result.history.column("oracle_seconds").sum()
    pipe.send((str(result.status), result.gap, result.n_iter, *spent, calls, peak))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=CASES)
    parser.add_argument("--dim", type=int, default=100_000)
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--cap", type=float, default=100.0, help="seconds of a solve")
    parser.add_argument("--threads", type=int, default=1, help="of OpenBLAS")
    args = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = str(args.threads)
    print("| case | status, gap | iterations | CPU s | s | of which oracle | MiB |\n" + "|---" * 7 + "|")
    for case in args.cases:
        here, there = multiprocessing.Pipe()
        process = multiprocessing.Process(target=run, args=(case, args, there))
        process.start()
        status, gap, count, cpu, clock, calls, peak = here.recv()
        process.join()
        print(
            f"| {case} | {status}, {gap:.0e} | {count} | {cpu:.1f} | {clock:.1f} | {calls:.1f} | "
            f"{peak:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    main()

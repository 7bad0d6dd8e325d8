"""Oracle calls, seconds and errors of the methods on the classical nonsmooth problems.

The proximal bundle runs without a box to a relative error of 1e-6, and in a box to a certified gap of 1e-6;
level bundle and Kelley's method run in a box to a certified gap of 1e-4 (and the level bundle to 1e-6). The
problems are those of the tests.

Run: python benchmarks/nonsmooth.py [seconds per run]
"""

import sys
from pathlib import Path
from time import perf_counter

import cutplane as cut

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from nonsmooth import PROBLEMS

RUNS = {
    "proximal, 1e-6": (cut.ProximalBundle(), False, 1e-7),
    "proximal in a box": (cut.ProximalBundle(), True, 1e-6),
    "level, 1e-4": (cut.LevelBundle(), True, 1e-4),
    "level, 1e-6": (cut.LevelBundle(), True, 1e-6),
    "Kelley, 1e-4": (cut.Kelley(), True, 1e-4),
}


def run(problem, method, in_box, tol, seconds):
    """Return oracle calls, seconds and the relative error as one cell."""
    box = cut.Box(-problem.box_radius, problem.box_radius) if in_box else None
    start = perf_counter()
    result = cut.Problem(problem.risk(), feasible_set=box).solve(
        method,
        x0=problem.x0,
        tol=tol,
        tol_abs=0.0 if problem.optimum else tol,
        max_iter=100_000,
        time_limit=seconds,
    )
    error = abs(result.objective - problem.optimum) / max(1.0, abs(problem.optimum))
    done = "" if result.status is not cut.Status.TIME_LIMIT else " (time limit)"
    return f"{result.oracle_calls:>5} calls {perf_counter() - start:>6.2f} s, error {error:.0e}{done}"


def main(seconds):
    print("| problem | n | " + " | ".join(RUNS) + " |")
    print("|---" * (len(RUNS) + 2) + "|")
    for problem in PROBLEMS:
        cells = [run(problem, *setting, seconds) for setting in RUNS.values()]
        print(f"| {problem.name} | {problem.dim} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0)

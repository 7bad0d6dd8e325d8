"""Learning problems in a few lines, solved with defaults, beside cvxpy's solution of the whole problem.

Run: python benchmarks/formulations.py [names]

CPU seconds of the second solve, with everything that declares the problem. The problems are those of the
tests.
"""

import sys
from math import exp, log
from pathlib import Path
from time import process_time

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from learning_problems import FORMULATIONS


def seconds_of(function):
    """Return the least CPU seconds of two calls after a first one, and the last answer."""
    answer, times = function(), []
    for _ in range(2):
        began = process_time()
        answer = function()
        times.append(process_time() - began)
    return min(times), answer


def main(names):
    """Print the table."""
    print("| problem | status | gap | method | ours, ms | cvxpy, ms | ratio |")
    print("|---|---|---|---|---|---|---|")
    ratios = []
    for name in names or FORMULATIONS:
        ours, _ = FORMULATIONS[name]()
        mine, result = seconds_of(ours)
        theirs, _ = seconds_of(lambda name=name: FORMULATIONS[name]()[1].solve(solver="CLARABEL"))
        ratios.append(mine / theirs)
        method = result.method.partition("(")[0]
        cells = name, result.status, f"{result.gap:.0e}", method, f"{1e3 * mine:.0f}", f"{1e3 * theirs:.0f}"
        print("|", " | ".join(map(str, cells)), "|", f"{ratios[-1]:.2f} |", flush=True)
    mean = exp(sum(map(log, ratios)) / len(ratios))
    print(f"geometric mean {mean:.2f}, worst {max(ratios):.1f}, of {len(ratios)}")


if __name__ == "__main__":
    main(sys.argv[1:])

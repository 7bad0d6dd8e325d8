"""Bounds and objectives of random small problems against rational arithmetic.

Run: python benchmarks/exact.py --first 0 --count 5000 [--methods auto,bmrm]

Prints what no result may say (`tests/exact_problems.py`), and how often each status was returned.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
os.environ.setdefault("OMP_NUM_THREADS", "1")

from exact_problems import METHODS, TOL, complaint, draw

from cutplane.exceptions import CutplaneError, MissingCapabilityError


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--methods", default=",".join(METHODS))
    options = parser.parse_args()
    statuses: Counter[str] = Counter()
    for seed in range(options.first, options.first + options.count):
        drawn = draw(seed)
        minimiser = drawn.exact.minimiser()
        optimum = drawn.exact.objective(minimiser)
        for method in options.methods.split(","):
            try:
                result = drawn.problem.solve(method, tol=TOL, time_limit=10.0)
            except MissingCapabilityError:
                continue
            except CutplaneError as error:
                statuses[type(error).__name__] += 1
                print(f"{drawn.name}, {method}: {type(error).__name__}: {error}", flush=True)
                continue
            statuses[str(result.status)] += 1
            wrong = complaint(drawn, result, optimum, minimiser)
            if wrong:
                statuses["WRONG"] += 1
                print(f"{drawn.name}, {method}: {result.status}: {wrong}", flush=True)
    print(dict(statuses))


if __name__ == "__main__":
    main()

"""Files with random mistakes: each is refused by name and line, or read as its text says.

Run: python benchmarks/mutated_files.py [--count 20000] [--seed 0] [--only NUMBER] [FORMAT ...]

A file is made from the name of its format and a number: ``--only 1234 uai`` repeats one. A read that takes
more than ten seconds is a hang.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from fuzz.mutated_files import FORMATS, trial

PATIENCE = 10
SHOWN = 10


def main() -> int:
    """Print how the files of each format fare, and return how many broke a promise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("formats", nargs="*", default=list(FORMATS))
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int)
    options = parser.parse_args()

    def late(*_: Any) -> None:
        raise TimeoutError(f"more than {PATIENCE} seconds")

    signal.signal(signal.SIGALRM, late)
    columns = ("refused", "warned", "same", "other", "broken")
    print(f"{'format':>10} {'files':>7} " + " ".join(f"{name:>8}" for name in columns) + f" {'s':>7}")
    n_broken = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in options.formats:
            counts, shown, began = Counter[str](), set[int](), time.process_time()
            first = options.seed if options.only is None else options.only
            for number in range(first, first + (options.count if options.only is None else 1)):
                signal.alarm(PATIENCE)
                outcome, words = trial(name, number, Path(folder))
                signal.alarm(0)
                counts[outcome] += 1
                if options.only is not None:
                    print(outcome, words)
                if outcome == "broken" and len(shown) < SHOWN:
                    shown.add(number)
                    print(f"--only {number} {name}: {words[:100]}", flush=True)
            n_broken += counts["broken"]
            row = " ".join(f"{counts[column]:8d}" for column in columns)
            seconds = time.process_time() - began
            print(f"{name:>10} {sum(counts.values()):7d} {row} {seconds:7.1f}", flush=True)
    return n_broken


if __name__ == "__main__":
    sys.exit(min(1, main()))

"""Seconds until a labelling within 1% of the best known energy, beside toulbar2, on generated families.

toulbar2 (pytoulbar2, of the interpreter --peer) reads the model from a CFN file, with and without virtual arc
consistency, and the earlier of the two counts; its seconds are the ones that it prints, without its imports.
Best is the least energy that anyone found. One thread each, after a warm-up.

Run: python benchmarks/map_labellings.py --peer PYTHON [--families latin ...] [--seeds 0 1 ...] [--cap 10]
     [--sizes 2]
"""

from __future__ import annotations

import argparse
import itertools
import re
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from map_families import FAMILIES

from cutplane.graphical import spin_glass, write_cfn
from cutplane.runtime.threads import set_threads

PEER = """
import sys, pytoulbar2
problem = pytoulbar2.CFN(resolution=6, vac=int(sys.argv[3]), verbose=0)
problem.Read(sys.argv[1])
problem.Solve(timeLimit=int(sys.argv[2]))
"""
SOLUTION = re.compile(r"New solution: (\S+) .*?([\d.]+) seconds")


def ours(model, cap):
    """Return the energies found, with their seconds."""
    return [(record.upper_bound, record.elapsed) for record in model.map(time_limit=cap).history]


def peers(model, cap, peer):
    """Return the energies that toulbar2 found, with their seconds, for each of its two settings."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.cfn"
        write_cfn(model, file)
        for vac in (0, 1):
            command = [peer, "-c", PEER, str(file), str(int(cap)), str(vac)]
            said = subprocess.run(command, capture_output=True, text=True, timeout=10 * cap + 60).stdout
            yield [(float(energy), float(seconds)) for energy, seconds in SOLUTION.findall(said)]


def main():
    """Print a line for each model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--families", nargs="*", default=list(FAMILIES), choices=list(FAMILIES))
    parser.add_argument("--seeds", type=int, nargs="*", default=range(3))
    parser.add_argument("--sizes", type=int, nargs="*", default=[2])
    parser.add_argument("--cap", type=float, default=10.0)
    parser.add_argument("--peer", required=True)
    args = parser.parse_args()
    set_threads(1)
    spin_glass(6, 6, seed=0).map("search")
    for name, size, seed in itertools.product(args.families, args.sizes, args.seeds):
        model = FAMILIES[name](np.random.default_rng([seed, size]), size)
        runs = [ours(model, args.cap), *peers(model, args.cap, args.peer)]
        best = min(energy for run in runs for energy, _ in run)
        first = [
            min((t for energy, t in run if energy <= best + 0.01 * abs(best)), default=np.inf) for run in runs
        ]
        print(
            f"{name:12} {size} {seed} best {best:12.4f}  ours {first[0]:7.3f} s  "
            f"toulbar2 {min(first[1:]):7.3f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()

"""Seconds and memory of sweeps against the size of a grid, from a hundred to a million edges.

Potts grids of both signs, each size in a process of its own: building the model and its reparametrization,
a sweep (both directions, mean of ten), one labelling, and the memory beyond that of an empty process.
Seconds are those of the processor, on one thread. The slope is that of log seconds (or memory) over log
edges on the upper half of the sizes: 1 is linear.

Run: python benchmarks/map_scaling.py [--labels 2 5] [--quick] [--figure map_scaling.png]
"""

import argparse
import json
import subprocess
import sys
from resource import RUSAGE_SELF, getrusage
from time import process_time

import numpy as np

from cutplane.graphical import Reparametrization, potts
from cutplane.graphical.sweeps.decoding import decode

NAMES = ("edges", "build", "sweep", "decode", "memory")
SWEEPS = 10


def measure(side, k):
    """Return edges, seconds to build, of a sweep and of a labelling, and MiB, in this process."""
    warm = Reparametrization(potts(4, 4, k, mixed=True))
    warm.sweep()
    decode(warm)
    empty = getrusage(RUSAGE_SELF).ru_maxrss
    began = process_time()
    model = potts(side, side, k, mixed=True)
    rep = Reparametrization(model)
    built = process_time() - began
    began = process_time()
    rep.sweep(SWEEPS)
    swept = (process_time() - began) / SWEEPS
    began = process_time()
    labelling = decode(rep)
    decoded = process_time() - began
    assert rep.certified_bound() <= model.energy(labelling)
    return model.n_factors, built, swept, decoded, (getrusage(RUSAGE_SELF).ru_maxrss - empty) / 1024


def apart(side, k):
    """Measure in a process of its own."""
    command = [sys.executable, __file__, "--one", str(side), str(k)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def slope(sizes, values):
    """Return the exponent of growth."""
    half = len(sizes) // 2
    return np.polyfit(np.log(sizes[half:]), np.log(np.maximum(values[half:], 1e-9)), 1)[0]


def draw(found, file):
    """Draw seconds and memory against edges."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
    for k, rows in found.items():
        for column, style in ((2, "-"), (3, "--")):
            left.loglog(rows[:, 0], rows[:, column], f"o{style}", label=f"{NAMES[column]}, {k} labels")
        right.loglog(rows[:, 0], rows[:, 4], "o-", label=f"{k} labels")
    left.set(xlabel="edges", ylabel="seconds")
    right.set(xlabel="edges", ylabel="MiB")
    for ax in (left, right):
        ax.legend(frameon=False)
        ax.grid(alpha=0.3)
    fig.savefig(file, dpi=120)


def main():
    """Print the table, draw the figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--labels", type=int, nargs="+", default=[2, 5])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--figure", default="map_scaling.png")
    parser.add_argument("--one", type=int, nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(*args.one)))
        return
    sides = [8, 23, 71, 224] if args.quick else [8, 23, 71, 224, 400, 708]
    found = {}
    print("| labels | edges | build, s | a sweep, ms | a labelling, s | MiB |\n|---|---|---|---|---|---|")
    for k in args.labels:
        rows = np.array([apart(side, k) for side in sides])
        for edges, built, swept, decoded, memory in rows:
            print(f"| {k} | {edges:,.0f} | {built:.3g} | {1e3 * swept:.3g} | {decoded:.3g} | {memory:.3g} |")
        slopes = ", ".join(f"{NAMES[i]} {slope(rows[:, 0], rows[:, i]):.2f}" for i in (1, 2, 3, 4))
        print(f"\nslope, {k} labels: {slopes}\n")
        found[k] = rows
    draw(found, args.figure)


if __name__ == "__main__":
    main()

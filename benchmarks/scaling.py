"""Seconds of an OCAS iteration against examples, features, entries and threads, as a table and a figure.

Each run has a fixed number of iterations, far from the end, so that all do the same work; the medians of the
whole iteration, of its oracle and of its master are shown. The slope is that of log seconds over log size on
the upper half of the sizes: 1 is linear. Passes over data below some ten thousand entries cost less than what
surrounds them.

Run: python benchmarks/scaling.py [--quick] [--threads 1 2] [--float32] [--figure scaling.png]
"""

import argparse

import numpy as np

import cutplane as cut
from cutplane.datasets import planted_dense, planted_text
from cutplane.runtime.threads import set_threads

ITERATIONS = 25
LAM = 1e-5


def sweeps(quick):
    """Return, for each sweep, its axis, the sizes, and how to make the data of a size."""
    part = 10 if quick else 1

    def doubling(low, high):
        return [low * 2**k for k in range(20) if low * 2**k <= high]

    return {
        "dense, n = 50": (
            "examples",
            doubling(6_250 // part, 400_000 // part),
            lambda m, dtype: planted_dense(m, 50, dtype=dtype),
        ),
        f"dense, m = {20_000 // part:,}": (
            "features",
            doubling(25, 800),
            lambda n, dtype: planted_dense(20_000 // part, n, dtype=dtype),
        ),
        "text, n = 20,000, 75 words each": (
            "examples",
            doubling(6_250 // part, 200_000 // part),
            lambda m, dtype: planted_text(m, 20_000, 75 / 20_000, dtype=dtype),
        ),
        f"text, {20_000 // part:,} x 50,000": (
            "words in an example",
            doubling(10, 320),
            lambda words, dtype: planted_text(20_000 // part, 50_000, words / 50_000, dtype=dtype),
        ),
    }


def iteration(X, y):
    """Return the median seconds of an iteration, and its parts in the oracle and the master."""
    problem = cut.Problem(cut.LinearRisk(X, y, cut.losses.Hinge()), cut.L2(LAM))
    history = problem.solve(cut.OCAS(second_cut=True), tol=1e-12, max_iter=ITERATIONS).history
    parts = [history.column(f"{part}_seconds")[2:] for part in ("oracle", "master", "other")]
    return np.median(sum(parts)), np.median(parts[0]), np.median(parts[1])


def slope(sizes, seconds):
    half = len(sizes) // 2
    return np.polyfit(np.log(sizes[half:]), np.log(seconds[half:]), 1)[0]


def main(args):
    dtype = np.float32 if args.float32 else np.float64
    found = {}
    iteration(*planted_dense(500, 5, dtype=dtype))
    iteration(*planted_text(200, 500, 0.02, dtype=dtype))
    for title, (axis, sizes, make) in sweeps(args.quick).items():
        print(f"\n{title}, {np.dtype(dtype)}: ms per iteration (oracle + master)\n")
        print(f"| {axis} | entries | " + " | ".join(f"{n} thread(s)" for n in args.threads) + " | speed-up |")
        print("|---" * (len(args.threads) + 3) + "|")
        rows = []
        for size in sizes:
            X, y = make(size, dtype)
            cells = []
            for n in args.threads:
                set_threads(n)
                cells.append(iteration(X, y))
            rows.append([whole for whole, *_ in cells])
            text = [f"{1e3 * w:.3g} ({1e3 * o:.3g} + {1e3 * q:.3g})" for w, o, q in cells]
            entries = X.nnz if hasattr(X, "nnz") else X.size
            print(
                f"| {size:,} | {entries:,} | " + " | ".join(text) + f" | {rows[-1][0] / rows[-1][-1]:.2f} |",
                flush=True,
            )
        found[title] = axis, sizes, np.array(rows)
        slopes = ", ".join(
            f"{slope(sizes, column):.2f} on {n} thread(s)"
            for n, column in zip(args.threads, found[title][2].T, strict=True)
        )
        print(f"\nslope {slopes}")
    draw(found, args)


def draw(found, args):
    """Draw one panel for each sweep."""
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, len(found), figsize=(4 * len(found), 3.4), constrained_layout=True)
    for ax, (title, (axis, sizes, rows)) in zip(axes, found.items(), strict=True):
        for n, column in zip(args.threads, rows.T, strict=True):
            ax.loglog(sizes, 1e3 * column, "o-", label=f"{n} thread(s)")
        ax.loglog(sizes, 1e3 * rows[-1, 0] * np.array(sizes) / sizes[-1], "k:", label="linear")
        ax.set(title=title, xlabel=axis, ylabel="ms per iteration")
        ax.legend()
    fig.savefig(args.figure, dpi=120)
    print(f"\nfigure: {args.figure}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the examples")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--float32", action="store_true")
    parser.add_argument("--figure", default="scaling.png")
    main(parser.parse_args())

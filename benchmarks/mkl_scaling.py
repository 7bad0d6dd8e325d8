"""Seconds of multiple kernel learning to a certified gap of 1e-3, and memory, against kernels and examples.

Planted dense data; on each feature Gaussian kernels of 7 widths and polynomials of degree 1 to 3. The level
bundle, C = 1. Seconds are those of the processor, on one thread by default. The slope is that of log seconds
over log size on the upper half of the sizes: 1 is linear.

Run: python benchmarks/mkl_scaling.py [--quick] [--threads 1] [--figure mkl_scaling.png]
"""

import argparse
from time import process_time

import numpy as np
from threadpoolctl import threadpool_limits

from cutplane.datasets import planted_dense
from cutplane.kernels import KernelBank, single_feature_kernels
from cutplane.mkl import MKL
from cutplane.runtime.threads import set_threads

WIDTHS = 2.0 ** np.arange(-2, 5)
PER_FEATURE = len(WIDTHS) + 3
TOL = 1e-3
SLOPES = {0: "bank", 1: "solve", 4: "memory"}


def run(m, n_kernels):
    """Return the seconds of the bank, of the solve, of its machines and its master, and the memory in MiB."""
    X, y = planted_dense(m, n_kernels // PER_FEATURE, seed=0)
    start = process_time()
    kernels = single_feature_kernels(X.shape[1], widths=WIDTHS)
    bank = KernelBank(kernels, (X - X.mean(axis=0)) / X.std(axis=0), normalize="trace")
    assert np.allclose(bank.traces, m)
    built = process_time() - start
    start = process_time()
    result = MKL(bank, y).solve(tol=TOL)
    solved = process_time() - start
    parts = [result.history.column(f"{part}_seconds").sum() for part in ("oracle", "master", "other")]
    machines, master = solved * parts[0] / sum(parts), solved * parts[1] / sum(parts)
    print(
        f"| {m:,} | {n_kernels:,} | {built:.3g} | {solved:.3g} | {machines:.3g} | {master:.3g} | "
        f"{result.oracle_calls} | {result.selected.size} | {bank.n_bytes / 2**20:.4g} | {result.gap:.1g} |",
        flush=True,
    )
    return built, solved, machines, master, bank.n_bytes / 2**20


def slope(sizes, seconds):
    half = len(sizes) // 2
    return np.polyfit(np.log(sizes[half:]), np.log(seconds[half:]), 1)[0]


def main(args):
    set_threads(args.threads)
    run_quietly = MKL(KernelBank(single_feature_kernels(2), planted_dense(40, 2)[0]), planted_dense(40, 2)[1])
    run_quietly.solve(tol=TOL)
    kernels = [50, 100, 200, 500, 1000] if args.quick else [50, 100, 200, 500, 1000, 2000, 5000]
    examples = [200, 500, 1000] if args.quick else [200, 500, 1000, 2000, 5000]
    sweeps = {
        "kernels": ("m = 500", kernels, lambda n: run(500, n)),
        "examples": ("50 kernels", examples, lambda m: run(m, 50)),
    }
    found = {}
    for axis, (title, sizes, measure) in sweeps.items():
        print(f"\n{title}, C = 1, {args.threads} thread(s)\n")
        print(
            "| m | kernels | bank, s | solve, s | machines, s | master, s | machines | chosen | MiB | gap |"
        )
        print("|---" * 10 + "|")
        found[axis] = title, sizes, np.array([measure(size) for size in sizes])
        slopes = (f"{part} {slope(sizes, found[axis][2][:, i]):.2f}" for i, part in SLOPES.items())
        print(f"\nslope: {', '.join(slopes)}")
    draw(found, args.figure)


def draw(found, file):
    """Draw the seconds and the memory of each sweep."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 2 * len(found), figsize=(8 * len(found), 3.4), constrained_layout=True)
    for (axis, (title, sizes, rows)), pair in zip(found.items(), axes.reshape(-1, 2), strict=True):
        for label, column in zip(("bank", "solve", "machines", "master"), rows.T[:4], strict=True):
            style = "o-" if label in ("bank", "solve") else ".--"
            pair[0].loglog(sizes, column, style, label=label)
        pair[0].set(title=f"{title}, gap {TOL:g}", xlabel=axis, ylabel="seconds")
        pair[0].legend()
        pair[1].loglog(sizes, rows[:, 4], "o-", label="bank")
        dense = 8.0 * np.array(sizes, float) * (500.0**2 if axis == "kernels" else 50.0 * np.array(sizes))
        pair[1].loglog(sizes, dense / 2**20, "k:", label="all as matrices")
        pair[1].set(title=f"{title}, memory", xlabel=axis, ylabel="MiB")
        pair[1].legend()
        for ax in pair:
            ax.minorticks_off()
            ax.set_xticks(sizes, [f"{size:,}" for size in sizes])
    fig.savefig(file, dpi=120)
    print(f"\nfigure: {file}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--figure", default="mkl_scaling.png")
    options = parser.parse_args()
    with threadpool_limits(options.threads):
        main(options)

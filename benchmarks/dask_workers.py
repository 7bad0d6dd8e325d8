"""A support vector machine on data larger than the memory limit of a worker, to a certified gap of 1e-3.

Two local workers of 1 GB each make their partitions of 2,800,000 x 100 float32 examples (1.12 GB) by seed.
Prints what an iteration takes and moves, and what it takes in one process. Needs 4 GB.

Run: python benchmarks/dask_workers.py
"""

import functools
import resource
import time
from collections import defaultdict

import dask
import numpy as np
import psutil
from distributed import Client, LocalCluster, get_task_stream

import cutplane as cut
from cutplane.distributed import distribute

M, N, PARTS, WORKERS, LIMIT = 2_800_000, 100, 8, 2, "1GB"
REGULARIZER, TOL = cut.L2(1e-4), 1e-3


def examples(part):
    rng = np.random.default_rng([part, 0])
    rows = M // PARTS
    X = rng.standard_normal((rows, N), dtype=np.float32)
    planted = (np.random.default_rng(1).normal(size=N) / np.sqrt(N)).astype(np.float32)
    return X, np.where(X @ planted + rng.standard_normal(rows, dtype=np.float32) >= 0.0, 1.0, -1.0)


def make(part):
    return cut.LinearRisk(*examples(part), cut.losses.Hinge(), normalize=False)


def solve(risk):
    began, moved = time.perf_counter(), traffic()
    result = cut.Problem(risk, REGULARIZER).solve(cut.OCAS(), tol=TOL)
    seconds = time.perf_counter() - began
    iterations = len(result.history) - 1
    print(f"  {result.status.name}, objective {result.objective:.8f}, gap {result.gap:.1e}")
    print(f"  {iterations} iterations, {seconds:.2f} s, {seconds / iterations:.3f} s per iteration")
    return iterations, seconds, traffic() - moved


def traffic():
    """Bytes sent over the loopback device."""
    return psutil.net_io_counters(pernic=True)["lo"].bytes_sent


def busy(tasks):
    """Seconds of computing on the busiest worker."""
    seconds = defaultdict(float)
    for task in tasks:
        seconds[task["worker"]] += sum(
            step["stop"] - step["start"] for step in task["startstops"] if step["action"] == "compute"
        )
    return max(seconds.values())


def on_workers():
    keep_in_memory = {f"distributed.worker.memory.{part}": False for part in ("target", "spill", "pause")}
    with (
        dask.config.set(keep_in_memory),
        LocalCluster(
            n_workers=WORKERS,
            threads_per_worker=1,
            memory_limit=LIMIT,
            dashboard_address=":0",
            env={"CUTPLANE_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        ) as cluster,
        Client(cluster) as client,
    ):
        began = time.perf_counter()
        risk = distribute(
            client, [functools.partial(make, part) for part in range(PARTS)], weights=[1.0 / M] * PARTS
        )
        print(
            f"{M:,} x {N} float32, {4e-9 * M * N:.2f} GB on {WORKERS} workers of {LIMIT}, {PARTS} partitions"
        )
        print(f"  made in {time.perf_counter() - began:.1f} s")
        risk.line(risk.image(np.zeros(N)), risk.image(np.ones(N))).search(
            REGULARIZER.line(np.zeros(N), np.ones(N)), 1.0
        )
        with get_task_stream(client) as stream:
            iterations, seconds, moved = solve(risk)
        peaks = client.run(lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        print(f"  at most {1e-6 * max(peaks.values()):.2f} GB of memory in a worker")
        tasks = [task for task in stream.data if "serve-" in str(task["key"])]
        rounds = len(tasks) / WORKERS / iterations
        print(f"  {rounds:.1f} round trips and {1e-3 * moved / iterations:.0f} kB per iteration")
        print(f"  {(seconds - busy(tasks)) / iterations:.3f} s of an iteration in which no worker computes")


def in_one_process():
    X, y = np.empty((M, N), dtype=np.float32), np.empty(M)
    for part in range(PARTS):
        rows = slice(part * M // PARTS, (part + 1) * M // PARTS)
        X[rows], y[rows] = examples(part)
    risk = cut.LinearRisk(X, y, cut.losses.Hinge())
    cut.Problem(risk, REGULARIZER).solve(cut.OCAS(), max_iter=2)
    print("the same in one process")
    solve(risk)


if __name__ == "__main__":
    on_workers()
    in_one_process()

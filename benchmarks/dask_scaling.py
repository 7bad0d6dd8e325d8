"""What an iteration costs on a cluster that a few numbers describe, and where more workers end to help.

A model of one question: the scheduler reads the graph, the request goes down the tree of workers, each
thread passes over its rows, the answers come up the tree. The cost of an entry of the data, of a task and of
a message are measured here. The model is checked against a small cluster at other sizes, and extrapolated to
links of the latency and throughput given, with workers that are late at random.

Run: python benchmarks/dask_scaling.py [--rows 1e9] [--features 1e5] [--entries 100] [--workers 64]
"""

import argparse
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from uuid import uuid4

import numpy as np
from distributed import Client, LocalCluster
from scipy import sparse

import cutplane as cut
from cutplane.distributed import distribute
from cutplane.distributed.cluster import FAN

PASSES, QUESTIONS = 2, 6
"""An iteration of OCAS: predictions and a subgradient, and what a search along a line asks besides."""


MESSAGES = 10
"""Hops that a question to two workers takes in the model."""

LINKS = {"1 Gbit/s": 1.25e8, "10 Gbit/s": 1.25e9, "100 Gbit/s": 1.25e10}


@dataclass(frozen=True)
class Machines:
    """Seconds of a message, a task of the scheduler and an entry of the data; bytes per second of a link."""

    latency: float
    throughput: float
    task: float
    entry: float
    threads: int = 1
    jitter: float = 0.0  # standard deviation of the logarithm of the time of a pass


def question(machines, workers, sent, returned, entries, rng):
    """Return when the client has the answer: bytes sent and returned, entries passed over by all workers."""
    inner = max(1, -(-(workers - 1) // FAN))
    tasks = inner + workers + up_tree(workers)
    at = np.empty(workers)
    at[0] = machines.latency + machines.task * tasks + machines.latency + sent / machines.throughput
    for k in range(1, workers):
        waits = (k - 1) % FAN + 1  # the children of a worker fetch from one link
        at[k] = at[(k - 1) // FAN] + 2.0 * machines.latency + waits * sent / machines.throughput
    work = machines.entry * entries / (workers * machines.threads)
    at += work * np.exp(machines.jitter * rng.standard_normal(workers)) + machines.latency
    while at.size > 1:
        groups = [at[i : i + FAN] for i in range(0, at.size, FAN)]
        fetched = [(group.size - 1) * returned / machines.throughput for group in groups]
        at = np.array([group.max() for group in groups]) + fetched + 3.0 * machines.latency
    return float(at[0]) + 2.0 * machines.latency + returned / machines.throughput


def up_tree(workers):
    """Tasks that add up the answers of workers."""
    count = 0
    while workers > 1:
        workers = -(-workers // FAN)
        count += workers
    return count


def iteration(machines, workers, features, entries, seed=0):
    """Return seconds of an iteration, and of them those without the passes."""
    rng = np.random.default_rng(seed)
    vector, bracket = 8.0 * features, 1e5
    costs = []
    for amount in (entries, 0.0):
        passes = question(machines, workers, vector, 24.0, amount, rng)
        passes += question(machines, workers, 200.0, vector, amount, rng)
        costs.append(passes)
    search = (QUESTIONS - PASSES) * question(machines, workers, 200.0, bracket, 0.0, rng)
    return costs[0] + search, costs[1] + search


def rows(part, m, n, stored):
    rng = np.random.default_rng(part)
    columns = rng.integers(0, n, (m, stored)).astype(np.int32)
    X = sparse.csr_array(
        (rng.standard_normal(m * stored), columns.ravel(), np.arange(m + 1) * stored), shape=(m, n)
    )
    return cut.LinearRisk(X, np.where(rng.random(m) < 0.5, 1.0, -1.0), cut.losses.Hinge(), normalize=False)


def best(function, repeats):
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def measure(n, stored):
    """Return what an entry, a message and a task cost on this machine."""
    m = 4_000_000 // stored
    risk, rng = rows(0, m, n, stored), np.random.default_rng(0)
    w = rng.standard_normal(n)
    z = risk.image(w)
    risk.slopes(z)
    entry = best(lambda: risk.slopes(risk.image(w)), 5) / (2.0 * m * stored)

    with cluster(2, 1) as client:
        small = distribute(client, [partial(rows, k, 4, 8, 4) for k in range(2)])
        few = best(partial(asked, small), 40)
        task = (best(partial(many_tasks, client, 300), 10) - best(partial(many_tasks, client, 0), 10)) / 300
    return Machines(max(0.0, few - 4.0 * task) / MESSAGES, np.inf, task, entry)


def many_tasks(client, count):
    """Wait for the sum of tasks without work."""
    token = uuid4().hex
    graph = {(f"one-{token}", k): (int, k) for k in range(count)}
    graph[f"sum-{token}"] = (len, [*graph])
    return client.get(graph, f"sum-{token}")


@contextmanager
def cluster(workers, threads):
    with (
        LocalCluster(
            n_workers=workers,
            threads_per_worker=threads,
            dashboard_address=":0",
            memory_limit=0,
            env={"CUTPLANE_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        ) as local,
        Client(local) as client,
    ):
        yield client


def check(machines, n, stored, workers=2):
    """Print seconds of a question that passes over data twice, as modelled and as measured."""
    rng = np.random.default_rng(0)
    with cluster(workers, 1) as client:
        for m in (10_000, 100_000, 300_000):
            parts = [partial(rows, k, m // workers, n, stored) for k in range(workers)]
            risk = distribute(client, parts)
            measured = best(partial(asked, risk), 10)
            modelled = question(machines, workers, 8.0 * n, 8.0 * n, 2.0 * m * stored, rng)
            print(f"  {m:>9,} rows: {1e3 * modelled:7.1f} ms modelled, {1e3 * measured:7.1f} ms measured")


def asked(risk):
    return risk.oracle(np.random.default_rng().standard_normal(risk.dim))


def main():
    parser = argparse.ArgumentParser()
    sizes = {"rows": 1e9, "features": 1e5, "entries": 100, "workers": 64, "threads": 8}
    for name, value in sizes.items():
        parser.add_argument(f"--{name}", type=float, default=value)
    given = parser.parse_args()
    here = measure(2_000, 50)
    print(f"here an entry takes {1e9 * here.entry:.2f} ns, ", end="")
    print(f"a task {1e3 * here.task:.2f} ms, a message {1e3 * here.latency:.2f} ms")
    check(here, 2_000, 50)
    extrapolate(here, given.rows * given.entries, given.features, int(given.workers), int(given.threads))


def extrapolate(here, total, features, workers, threads):
    there = replace(here, threads=threads, jitter=0.1)
    print(
        f"{total:.0e} entries, {features:.0e} features, {threads} threads a worker: seconds of an iteration,"
    )
    print("and of them those that are no pass over the data")
    print("  workers " + "".join(f"{name:>20}" for name in LINKS))
    for count in sorted({4, 16, workers, 256, 1024, 4096}):
        found = [
            iteration(replace(there, throughput=speed), count, features, total) for speed in LINKS.values()
        ]
        print(f"  {count:>7} " + "".join(f"{whole:12.3f} {rest:7.3f}" for whole, rest in found))
    for name, speed in LINKS.items():
        even = replace(there, throughput=speed, jitter=0.0)
        counts = np.unique(np.logspace(0.0, 4.0, 81).astype(int)).tolist()
        costs = {count: iteration(even, count, features, total)[0] for count in counts}
        end = min(costs, key=costs.__getitem__)
        half = max(count for count, cost in costs.items() if count * cost <= 2.0 * costs[1])
        print(f"  {name}: at {half} workers half of the time is passes; ", end="")
        print(f"no number is faster than {end}, {costs[end]:.2f} s")
    slow = replace(there, throughput=LINKS["10 Gbit/s"], jitter=0.5)
    seconds = iteration(slow, workers, features, total)[0]
    print(f"  10 Gbit/s, {workers} workers whose passes differ by 50% in place of 10%: {seconds:.2f} s")


if __name__ == "__main__":
    main()

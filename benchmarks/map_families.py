"""MAP inference on generated families: proven, energy, bound and seconds, beside toulbar2 and HiGHS.

Each family is drawn in three sizes from seeds. toulbar2 (pytoulbar2, of the interpreter --peer) reads the
model from a WCSP file if its costs are integers, else from a UAI file, with and without virtual arc
consistency, and the better run counts. HiGHS (--highs) solves the local polytope with integer marginals of
variables. One thread each, seconds of the processor, after a warm-up; ours on --threads, if there are several
in seconds of the wall clock.

Run: python benchmarks/map_families.py [--families latin maxsat ...] [--seeds 0 1 ...] [--cap 60]
     [--peer PYTHON] [--highs] [--sizes 0 1 2] [--method auto] [--threads 1]
"""

from __future__ import annotations

import argparse
import itertools
from time import perf_counter, process_time

import numpy as np
from map import lp, timed, toulbar2

from cutplane.graphical import GraphicalModel, spin_glass
from cutplane.runtime.threads import set_threads

FORBIDDEN = float("inf")


def complete(rng, size):
    """Complete graphs with 4 to 8 states and random tables."""
    n, k = [(12, 4), (15, 4), (12, 8)][size]
    tables = [((u, v), rng.integers(0, 100, (k, k))) for u, v in itertools.combinations(range(n), 2)]
    return GraphicalModel([k] * n, [*tables, *(((u,), rng.integers(0, 100, k)) for u in range(n))])


def maxsat(rng, size):
    """Weighted Max-3-SAT with six clauses a variable."""
    n = (30, 40, 60)[size]
    factors = []
    for _ in range(6 * n):
        scope = rng.choice(n, 3, replace=False)
        table = np.zeros((2, 2, 2))
        table[tuple(rng.integers(0, 2, 3))] = rng.integers(1, 11)
        factors.append((scope, table))
    return GraphicalModel([2] * n, factors)


def latin(rng, size):
    """Latin squares with random costs of the symbols."""
    n = (4, 5, 6)[size]
    differ = np.where(np.eye(n) > 0, FORBIDDEN, 0.0)
    cells = list(itertools.product(range(n), range(n)))
    pairs = [
        ((a, b), differ)
        for a, b in itertools.combinations(range(n * n), 2)
        if cells[a][0] == cells[b][0] or cells[a][1] == cells[b][1]
    ]
    return GraphicalModel([n] * (n * n), [*pairs, *(((u,), rng.integers(0, 100, n)) for u in range(n * n))])


def independent(rng, size):
    """Weighted independent sets of random graphs."""
    n, density = [(60, 0.1), (100, 0.1), (100, 0.2)][size]
    both = np.array([[0.0, 0.0], [0.0, FORBIDDEN]])
    pairs = [((u, v), both) for u, v in itertools.combinations(range(n), 2) if rng.random() < density]
    return GraphicalModel([2] * n, [*pairs, *(((u,), [0.0, -float(rng.integers(1, 11))]) for u in range(n))])


def warehouse(rng, size):
    """Warehouses that open at a cost, and stores that choose an open one."""
    warehouses, stores = [(8, 25), (12, 40), (16, 60)][size]
    sites, shops = rng.random((warehouses, 2)), rng.random((stores, 2))
    costs = np.round(1000 * np.linalg.norm(shops[:, None] - sites[None], axis=2))
    factors = [((w,), [0.0, float(rng.integers(300, 900))]) for w in range(warehouses)]
    factors += [((warehouses + s,), costs[s]) for s in range(stores)]
    for s, w in itertools.product(range(stores), range(warehouses)):
        closed = np.zeros((2, warehouses))
        closed[0, w] = FORBIDDEN
        factors.append(((w, warehouses + s), closed))
    return GraphicalModel([2] * warehouses + [warehouses] * stores, factors)


def colouring(rng, size):
    """Soft colouring: an edge of two equal colours costs its weight."""
    n, k, degree = [(30, 3, 6), (40, 4, 9), (50, 5, 12)][size]
    pairs = [
        ((u, v), float(rng.integers(1, 11)) * np.eye(k))
        for u, v in itertools.combinations(range(n), 2)
        if rng.random() < degree / n
    ]
    return GraphicalModel([k] * n, [*pairs, *(((u,), rng.integers(0, 4, k)) for u in range(n))])


def xor(rng, size):
    """Noisy parity checks on three bits."""
    n = (30, 50, 80)[size]
    parity = np.indices((2, 2, 2)).sum(axis=0) % 2
    factors = [((u,), [0.0, float(rng.normal())]) for u in range(n)]
    factors += [
        (rng.choice(n, 3, replace=False), float(rng.exponential()) * (parity == rng.integers(2)))
        for _ in range(n)
    ]
    return GraphicalModel([2] * n, factors)


def torus(rng, size):
    """Tori of couplings of +-1."""
    n = (8, 12, 20)[size]
    factors = []
    for i, j in itertools.product(range(n), range(n)):
        for other in (((i + 1) % n) * n + j, i * n + (j + 1) % n):
            factors.append(((i * n + j, other), rng.choice([-1.0, 1.0]) * np.array([[1, -1], [-1, 1]])))
    return GraphicalModel([2] * (n * n), factors)


def sk(rng, size):
    """Complete spin glasses of Gaussian couplings (Sherrington and Kirkpatrick)."""
    n = (20, 30, 40)[size]
    spins = np.array([[1.0, -1.0], [-1.0, 1.0]])
    pairs = itertools.combinations(range(n), 2)
    return GraphicalModel([2] * n, [(pair, rng.normal() * spins) for pair in pairs])


def lattice(rng, size):
    """Spin glasses on cubes."""
    n = (4, 5, 6)[size]
    spins = np.array([[1.0, -1.0], [-1.0, 1.0]])
    number = np.arange(n**3).reshape(n, n, n)
    pairs = [
        (int(u), int(v))
        for axis in range(3)
        for u, v in zip(
            number.take(range(n - 1), axis).ravel(), number.take(range(1, n), axis).ravel(), strict=True
        )
    ]
    return GraphicalModel([2] * n**3, [(pair, rng.normal() * spins) for pair in pairs])


def grid(rng, size):
    """Grids of conditional tables: each variable given its upper and left neighbour (Bayesian)."""
    n = (10, 17, 21)[size]
    factors = []
    for i, j in itertools.product(range(n), range(n)):
        scope = [k for k, there in ((i * n + j - n, i > 0), (i * n + j - 1, j > 0)) if there] + [i * n + j]
        p = rng.random((2,) * (len(scope) - 1))
        hard = rng.random(p.shape) < 0.5
        p = np.where(hard, np.round(p), p)
        with np.errstate(divide="ignore"):
            factors.append((scope, -np.log(np.stack([p, 1.0 - p], axis=-1))))
    return GraphicalModel([2] * (n * n), factors)


def matching(rng, size):
    """Heaviest matchings of nearby points: the pairs of a point exclude each other."""
    n, n_pairs = [(50, 150), (100, 500), (200, 1000)][size]
    points = rng.random((n, 2))
    lengths = np.linalg.norm(points[:, None] - points, axis=2)
    nearest = sorted(itertools.combinations(range(n), 2), key=lengths.__getitem__)[: n_pairs + 1]
    *pairs, farthest = nearest
    weights = [np.rint(1000 * (1.5 * lengths[farthest] - lengths[pair])) for pair in pairs]
    both = np.array([[0.0, 0.0], [0.0, FORBIDDEN]])
    touching = [(i, j) for i, j in itertools.combinations(range(n_pairs), 2) if {*pairs[i]} & {*pairs[j]}]
    unaries = [((i,), [0.0, -float(weight)]) for i, weight in enumerate(weights)]
    return GraphicalModel([2] * n_pairs, [*unaries, *((pair, both) for pair in touching)])


FAMILIES = {
    f.__name__: f
    for f in (
        complete,
        maxsat,
        latin,
        independent,
        warehouse,
        colouring,
        xor,
        torus,
        sk,
        lattice,
        grid,
        matching,
    )
}


def main():
    """Print a line for each model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--families", nargs="*", default=list(FAMILIES), choices=list(FAMILIES))
    parser.add_argument("--seeds", type=int, nargs="*", default=range(10))
    parser.add_argument("--sizes", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--cap", type=float, default=60.0)
    parser.add_argument("--method", default="auto")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--peer")
    parser.add_argument("--highs", action="store_true")
    args = parser.parse_args()
    set_threads(args.threads)
    clock = process_time if args.threads == 1 else perf_counter
    spin_glass(6, 6, seed=0).map("search")
    for name, size, seed in itertools.product(args.families, args.sizes, args.seeds):
        model = FAMILIES[name](np.random.default_rng([seed, size]), size)
        result, seconds = timed(lambda model=model: model.map(args.method, time_limit=args.cap), clock)
        line = f"{name:12} {size} {seed} {result.status.name:10} {result.energy:12.4f} {result.bound:12.4f}"
        line += f" {seconds:7.2f} s"
        if args.peer:
            proven, spent = toulbar2(model, args.cap, args.peer)
            line += f"   toulbar2 {'proven' if proven else 'open':6} {spent:7.2f} s"
        if args.highs:
            optimum, spent = lp(model, args.cap, integer=True)
            line += f"   HiGHS {'open' if optimum is None else 'proven':6} {spent:7.2f} s"
        print(line, result.method, flush=True)


if __name__ == "__main__":
    main()

"""Two versions of the package beside each other: linear, classical nonsmooth, and special problems.

Each version solves in a process of its own; the two take turns, cell by cell, after a solve that compiles.
Printed are the ratios of the least CPU seconds, new over old, with the iterations and the status of both.

Run: git worktree add ../old COMMIT; python benchmarks/versions.py ../old [--new .]
         [--parts linear losses nonsmooth special] [--repeats 5] [--cap 60]
"""

import argparse
import json
import os
import subprocess
import sys
from itertools import chain, product
from pathlib import Path
from time import process_time

import numpy as np

HERE = Path(__file__).resolve().parent
WEIGHTS = 1e-2, 1e-4, 1e-6
METHODS = {  # in a box or not, and the tolerance
    "ProximalBundle": (False, 1e-7),
    "LevelBundle": (True, 1e-6),
    "Kelley": (True, 1e-4),
}
LOSSES = "Hinge", "SquaredHinge", "Logistic", "Squared", "Absolute", "Huber"
PENALTIES, LAMS = ("L2", "L1", "EN"), ("1e-1", "1e-3")
LARGE = "dense", "text", "a9a", "w8a"
KELLEY = 20  # the most variables for Kelley's method


def data():
    """Return a function of a name, for the data of linear.py."""
    from data import HAS_FILES, SETS, load, real

    from cutplane.datasets import planted_dense, planted_text

    drawn = {"dense": lambda: planted_dense(20_000, 20), "text": lambda: planted_text(5000, 8000, 0.004)}
    files = {name: lambda name=name: real(name) for name in SETS} if HAS_FILES else {}
    return drawn | files | {name: lambda name=name: load(name) for name in ("a9a", "w8a")}


def learners(cap):
    """Return how each kind of special problem is solved on examples X, y."""
    import cutplane as cut
    from cutplane import estimators

    def penalised(loss, share):
        def solve(X, y):
            risk = cut.LinearRisk(X, y, loss)
            smooth = cut.LinearRisk(X, y, cut.losses.Squared())
            lam = share * cut.linear.lam_max(cut.Problem(smooth, cut.L1(1.0)))
            return cut.Problem(risk, cut.L1(lam)).solve(tol=1e-4, time_limit=cap)

        return solve

    def chains(X, y):
        lengths = np.full(len(X) // 5, 5)
        rows = slice(lengths.sum())
        risk = cut.structured.ChainRisk(X[rows], (y[rows] > 0.0).astype(int), lengths)
        return cut.Problem(risk, cut.L2(1e-2)).solve(tol=1e-3, time_limit=cap)

    def labelling(X, y):
        side = 10 + len(X) % 7
        return cut.graphical.spin_glass(side, side, seed=len(X)).map(time_limit=cap)

    return {
        "l1, squared": penalised(cut.losses.Squared(), 0.05),
        "l1, logistic": penalised(cut.losses.Logistic(), 0.05),
        "l1, hinge": penalised(cut.losses.Hinge(), 0.05),
        "KernelSVC": estimators.KernelSVC().fit,
        "KernelLogisticRegression": estimators.KernelLogisticRegression().fit,
        "MKLClassifier": estimators.MKLClassifier().fit,
        "LPBoostClassifier": estimators.LPBoostClassifier().fit,
        "ERLPBoostClassifier": estimators.ERLPBoostClassifier().fit,
        "chains": chains,
        "MAP": labelling,
    }


def serve(cap):
    """Read a cell per line, solve it, and write its CPU seconds, iterations and status."""
    import cutplane as cut

    sys.path.insert(0, str(HERE.parent / "tests"))
    from nonsmooth import PROBLEMS

    known, problems = {}, {problem.name: problem for problem in PROBLEMS}
    print("[]", flush=True)
    for line in sys.stdin:
        part, name, third = json.loads(line)
        if part == "linear":
            known[name] = known.get(name) or data()[name]()
            began = process_time()
            risk = cut.LinearRisk(*known[name], cut.losses.Hinge())
            result = cut.Problem(risk, cut.L2(third)).solve(tol=1e-3, time_limit=cap)
        elif part == "losses":
            known[name] = known.get(name) or data()[name]()
            loss, kind, lam = third.split()
            risk = cut.LinearRisk(*known[name], getattr(cut.losses, loss)())
            penalty = cut.ElasticNet(float(lam), 0.5) if kind == "EN" else getattr(cut, kind)(float(lam))
            began = process_time()
            result = cut.Problem(risk, penalty).solve(tol=1e-4, time_limit=cap)
        elif part == "special":
            known[name] = known.get(name) or data()[name]()
            began = process_time()
            result = learners(cap)[third](*known[name])
        else:
            given, (in_box, tol) = problems[name], METHODS[third]
            box = cut.Box(-given.box_radius, given.box_radius) if in_box else None
            stop = {"tol": tol, "tol_abs": 0.0 if given.optimum else tol, "max_iter": 100_000}
            began = process_time()
            problem = cut.Problem(given.risk(), feasible_set=box)
            result = problem.solve(getattr(cut, third)(), x0=given.x0, time_limit=cap, **stop)
        found = [getattr(result, "n_iter", None), str(getattr(result, "status", "fitted"))]
        print(json.dumps([process_time() - began, *found]), flush=True)


class Worker:
    """A process in which one version solves."""

    def __init__(self, root, cap):
        command = [sys.executable, "-W", "ignore", __file__, "--serve", "--cap", str(cap), root]
        env = os.environ | {"PYTHONPATH": str(Path(root).resolve()), "OMP_NUM_THREADS": "1"}
        self.pipe = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
        )
        self.read()

    def read(self):
        """Return the next answer; what the version says of its compiling is passed over."""
        for line in self.pipe.stdout:
            if line.startswith("["):
                return json.loads(line)
        raise SystemExit("a version ended before it had answered")

    def ask(self, cell):
        """Return seconds, iterations and status."""
        self.pipe.stdin.write(json.dumps(cell) + "\n")
        self.pipe.stdin.flush()
        return self.read()


def cells(part):
    """Return the cells of a part."""
    if part == "linear":
        return [(part, *cell) for cell in product(data(), WEIGHTS)]
    if part == "losses":
        return [(part, name, " ".join(kind)) for name in data() for kind in product(LOSSES, PENALTIES, LAMS)]
    if part == "special":
        return [(part, *cell) for cell in product(data(), learners(1.0)) if cell[0] not in LARGE]
    from nonsmooth import PROBLEMS

    found = product(PROBLEMS, METHODS)
    return [(part, p.name, method) for p, method in found if method != "Kelley" or p.dim <= KELLEY]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", help="the folder that holds the other version's package")
    parser.add_argument("--new", default=str(HERE.parent))
    parser.add_argument("--parts", nargs="+", default=["linear", "nonsmooth"])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--cap", type=float, default=60.0)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        return serve(args.cap)
    sys.path.insert(0, str(HERE.parent / "tests"))
    workers = Worker(args.old, args.cap), Worker(args.new, args.cap)
    for part in args.parts:
        ratios = {}
        for cell in cells(part):
            for worker in workers:
                worker.ask(cell)
            took = [[], []]
            for turn in range(args.repeats):
                for side in (turn % 2, 1 - turn % 2):
                    took[side].append(workers[side].ask(cell))
            old, new = map(min, took)
            ratio = new[0] / old[0]
            ratios.setdefault(cell[2], []).append(ratio)
            print(f"{cell[1]} {cell[2]}: {1e3 * new[0]:.1f} / {1e3 * old[0]:.1f} ms = {ratio:.2f}", end="; ")
            print(f"{new[1]} / {old[1]} iterations, {new[2]} / {old[2]}", flush=True)
        if not ratios:
            print(f"{part}: no data; set CUTPLANE_DATA to the folder that holds uci")
            continue
        for name, group in {**ratios, "all": [*chain(*ratios.values())]}.items():
            print(
                f"{part}, {name}: geometric mean {np.exp(np.mean(np.log(group))):.2f}, worst {max(group):.2f}"
            )


if __name__ == "__main__":
    main()

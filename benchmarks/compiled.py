"""Routines that are compiled or interpreted after a warm-up, over a table of pieces by layouts of the data.

Run: python benchmarks/compiled.py [--cache FOLDER] [--parts linear classes black kernels boosting
         graphical structured]

``python -m cutplane.warmup`` fills a cache, by default a new one, which takes minutes. Each part is then
solved in a new process with a copy of it, because what one part compiles would serve the next. The target is
a table of zeros.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path

import numpy as np
from first_solve import Compilations
from scipy import sparse

import cutplane as cut
from cutplane.runtime import compiling

TYPES = (np.float64, np.float32)
SHAPES = ((300, 8), (40, 90))


def wide_indices(X):
    """Return CSR with indices of 64 bits."""
    A = sparse.csr_array(X)
    A.indices, A.indptr = A.indices.astype(np.int64), A.indptr.astype(np.int64)
    return A


LAYOUTS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "read-only": lambda X: np.frombuffer(np.ascontiguousarray(X).tobytes(), X.dtype).reshape(X.shape),
    "CSR": sparse.csr_array,
    "CSR, int64": wide_indices,
    "CSC": sparse.csc_array,
}


def data(m, n):
    """Return rows of which half the entries are zero, and real targets."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((m, n)) * (rng.random((m, n)) < 0.5)
    return X, X @ rng.standard_normal(n) + 0.5 * rng.standard_normal(m)


def layouts():
    """Yield name, data and targets of every shape, layout and type."""
    for (m, n), (name, layout), dtype in product(SHAPES, LAYOUTS.items(), TYPES):
        X, t = data(m, n)
        yield f"{m} x {n}, {name}, {dtype.__name__}", layout(X.astype(dtype)), t


def linear():
    """Yield solves of every scalar loss."""
    abstract = cut.losses.ScalarLoss, cut.losses.MarginLoss
    scalar = [
        loss
        for loss in vars(cut.losses).values()
        if isinstance(loss, type) and issubclass(loss, abstract[0]) and loss not in abstract
    ]
    regularizers = cut.L2(1e-2), cut.L1(2e-2), cut.ElasticNet(1e-2, 0.5)
    for (name, X, t), loss, g in product(list(layouts()), scalar, regularizers):
        margin = issubclass(loss, cut.losses.MarginLoss)
        y = np.sign(t) if margin else np.round(np.abs(t)) if loss is cut.losses.Poisson else t
        risk = cut.LinearRisk(X, y, loss(), intercept=loss is cut.losses.Hinge)
        problem = cut.Problem(risk, g)
        yield (
            f"{loss.__name__}, {type(g).__name__}, {name}",
            lambda problem=problem: problem.solve(max_iter=200),
        )
    for name, X, t in layouts():
        risk = cut.LinearRisk(X, t, cut.losses.Squared(), sample_weight=np.abs(t))
        problem = cut.Problem(risk, cut.L1(1e-2))
        yield f"path, {name}", lambda problem=problem: problem.path([0.1, 0.03])
        problem = cut.Problem(cut.LinearRisk(X, t, cut.losses.Huber(0.1)), cut.L1(1e-2))
        yield f"exact path, {name}", lambda problem=problem: problem.path(exact=True)


def classes():
    """Yield solves of risks of several classes, grades and measures."""
    for name, X, t in layouts():
        labels = np.digitize(t, [-0.5, 0.5])
        for risk in (
            cut.MulticlassRisk(X, labels, cut.losses.MulticlassHinge()),
            cut.MulticlassRisk(X, labels, cut.losses.Softmax()),
            cut.OrdinalRisk(X, labels),
            cut.NoveltyRisk(X, 0.1),
            cut.RankingRisk(X, labels),
            cut.MeasureRisk(X, np.sign(t), cut.measures.RocArea()),
            cut.MeasureRisk(X, np.sign(t), cut.measures.FBeta()),
        ):
            problem = cut.Problem(risk, cut.L2(1e-1))
            yield f"{type(risk).__name__}, {name}", lambda problem=problem: problem.solve(max_iter=100)


def black():
    """Yield solves of a black box and of an image over regularizers and sets, by every method that suits."""
    X, t = data(200, 10)

    def oracle(w):
        r = X @ w - t
        return float(np.abs(r).mean()), X.T @ np.sign(r) / len(t)

    def blocks(w):
        r = X @ w - t
        rows = (X * np.sign(r)[:, np.newaxis]).reshape(4, -1, 10)
        return np.abs(r).reshape(4, -1).sum(axis=1) / len(t), rows.sum(axis=1) / len(t)

    risks = {
        "black box": cut.OracleRisk(oracle, 10),
        "4 blocks": cut.OracleRisk(blocks, 10, blocks=4),
        "image": cut.LinearRisk(X, t, cut.losses.Absolute()),
    }
    groups = np.arange(10) // 2
    regularizers = (
        None, cut.L2(1e-2), cut.L1(1e-2), cut.ElasticNet(1e-2), cut.LInf(1e-2), cut.GroupLasso(groups, 1e-2),
        cut.QuadraticForm(np.eye(10) + 0.1), cut.NegativeEntropy(1e-2), cut.NuclearNorm((5, 2), 1e-2),
        cut.total_variation(10, 1e-2),
    )  # fmt: skip
    sets = (
        None, cut.Box(-1, 0.5), cut.Simplex(10), cut.L2Ball(1.0), cut.L1Ball(1.0), cut.CappedSimplex(0.3),
        cut.Polyhedron([np.ones(10)], [0.5]) & cut.Box(-1, 1), cut.NonnegativeOrthant(10),
    )  # fmt: skip
    methods = "auto", "proximal", "level", "bmrm", "kelley", "ocas"
    for (name, risk), g, held, method in product(risks.items(), regularizers, sets, methods):
        if g is None and held is None:
            continue

        def solve(risk=risk, g=g, held=held, method=method):
            return cut.Problem(risk, g, held).solve(method, max_iter=100, time_limit=5)

        yield f"{name}, {type(g).__name__}, {type(held).__name__}, {method}", solve


def kernels():
    """Yield kernel machines and sums of kernels."""
    from cutplane.estimators import KernelSVC, KernelSVR

    X, t = data(150, 6)
    for dtype in TYPES:
        rows, y = X.astype(dtype), np.sign(t)
        yield f"KernelSVC, {dtype.__name__}", lambda rows=rows, y=y: KernelSVC(C=1.0).fit(rows, y)
        yield f"KernelSVR, {dtype.__name__}", lambda rows=rows: KernelSVR(C=1.0).fit(rows, t)
        bank = cut.kernels.KernelBank(cut.kernels.single_feature_kernels(6), X, dtype=dtype)
        for norm in (1.0, 2.0):
            yield (
                f"MKL, {norm}, {dtype.__name__}",
                lambda b=bank, y=y, p=norm: cut.mkl.MKL(b, y, norm=p).solve(),
            )


def boosting():
    """Yield boosted stumps by each method."""
    for name, X, t in layouts():
        for method in ("auto", cut.boosting.LPBoost(), cut.boosting.ERLPBoost()):
            learner = cut.boosting.DecisionStumps()

            def solve(X=X, t=t, method=method, learner=learner):
                problem = cut.boosting.SoftMargin(X, np.sign(t), 0.2 * len(t), learner)
                return problem.solve(method, tol=1e-2, max_iter=50)

            yield f"stumps, {method}, {name}", solve


def graphical():
    """Yield the inference of grids and of denser models."""
    for name, model in {
        "glass": cut.graphical.spin_glass(12, 12, seed=1),
        "potts": cut.graphical.potts(10, 12, 3, mixed=True, seed=1),
        "attractive": cut.graphical.potts(10, 12, 4, seed=1),
    }.items():
        yield name, model.map
        yield f"{name}, tightened", lambda model=model: model.map(tighten=True)


def structured():
    """Yield chains, with a margin and by their likelihood."""
    for name, X, t in layouts():
        labels, lengths = np.digitize(t, [-0.5, 0.5]), [10] * (len(t) // 10)
        for risk in cut.structured.ChainRisk, cut.structured.ChainLogLikelihood:
            problem = cut.Problem(risk(X, labels, lengths), cut.L2(1e-1))
            yield f"{risk.__name__}, {name}", lambda problem=problem: problem.solve(max_iter=50)


PARTS = {part.__name__: part for part in (linear, classes, black, kernels, boosting, graphical, structured)}


def measure(part):
    """Solve all of a part; return the counts, and the first case of each routine that is not ready."""
    from numba.core import event

    seen, interpreted, compiled, refused, count, case = {}, [], 0, 0, 0, ""
    interpret = compiling._Policy.interpret

    def counted(policy, *args):
        interpreted.append(f"{policy.source.__module__}.{policy.source.__name__}")
        seen.setdefault(f"interpreted {interpreted[-1]}", case)
        return interpret(policy, *args)

    compiling._Policy.interpret = counted
    began = time.process_time()
    with event.install_listener("numba:compile", Compilations(event)) as listener:
        for case, solve in PARTS[part]():  # `counted` reads the case
            known = len(listener.rows)
            count += 1
            try:
                solve()
            except cut.CutplaneError:
                refused += 1
            for function, signature, seconds in listener.rows[known:]:
                if not function.startswith("cutplane."):  # numba's loops, compiled for ours
                    continue
                compiled += 1
                seen.setdefault(f"compiled {function}({signature}) in {seconds:.1f} s", case)
    return {
        "solves": count, "refused": refused, "seconds": time.process_time() - began,
        "compiled": compiled, "compilation": sum(seconds for _, _, seconds in listener.rows),
        "interpreted": len(set(interpreted)),
        "calls": len(interpreted), "seen": seen,
    }  # fmt: skip


def main():
    """Warm up, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", help="a folder to keep the cache in")
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(measure(arguments.child)))
        return
    with tempfile.TemporaryDirectory() as folder:
        table(arguments.parts, Path(arguments.cache or f"{folder}/warm"), Path(folder))


def table(parts, cache, folder):
    """Warm up a cache and print what each part does with copies of it in the folder."""
    subprocess.run([sys.executable, "-m", "cutplane.warmup"], env=environment(cache), check=True)
    print("| part | solves | refused | CPU s | routines compiled | CPU s | routines interpreted | calls |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    everything = {}
    for part in parts:
        copy = folder / part
        shutil.copytree(cache, copy)
        command = [sys.executable, "-W", "ignore", __file__, "--child", part]
        run = subprocess.run(command, env=environment(copy), check=True, stdout=subprocess.PIPE, text=True)
        found = json.loads(run.stdout.splitlines()[-1])
        cells = (
            found["solves"], found["refused"], f"{found['seconds']:.1f}", found["compiled"],
            f"{found['compilation']:.1f}", found["interpreted"], found["calls"],
        )  # fmt: skip
        print(f"| {part} |", " | ".join(map(str, cells)), "|", flush=True)
        everything |= {f"{part}: {routine}": case for routine, case in found["seen"].items()}
    for routine, case in everything.items():
        print(f"{routine}, first by {case}")


def environment(cache):
    """Return the variables of a process with this cache."""
    return os.environ | {"NUMBA_CACHE_DIR": str(cache), "OMP_NUM_THREADS": "1"}


if __name__ == "__main__":
    main()

"""Multiple kernel learning to a certified gap: level, SILP, proximal and SimpleMKL beside a loop and MKLpy.

scikit-learn's breast cancer, 569 x 30 standardised: on each feature 10 Gaussian kernels and polynomials of
degree 1 to 3, 390 kernels of mean diagonal 1. The loop (mkl_loop.py) has SVC(kernel="precomputed"), cvxpy and
one array of all kernels. MKLpy is taken from the interpreter of --peer, which may be that of another
environment; each of its solvers counts at the best of its settings. Every gap is computed here: the objective
of the predictor, and the bound that the cuts give; for the weights of MKLpy, divided by their sum, those of a
machine trained with them and of its cut. "Above" is by how much the objective exceeds a bound from a run to
1e-6. Seconds are those of the processor, on one thread by default.

Run: python benchmarks/mkl.py [--C 1 100] [--tol 1e-2 1e-3] [--threads 1] [--cap 300] [--peer PYTHON]
         [--peer-cap 60] [--parts ours loop peers] [--quick]
"""

import argparse
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from time import process_time

import mkl_loop
import numpy as np
from threadpoolctl import threadpool_limits

import cutplane as cut
from cutplane.kernels import KernelBank, single_feature_kernels
from cutplane.mkl import MKL
from cutplane.runtime.threads import set_threads

METHODS = {
    "level (auto)": "auto",
    "proximal": cut.ProximalBundle(),
    "SimpleMKL (ReducedGradient)": cut.methods.ReducedGradient(),
    "SILP (Kelley)": cut.Kelley(),
}


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    method: str
    seconds: float
    machines: int | str
    objective: float
    lower_bound: float
    note: str = ""

    @property
    def gap(self):
        """The relative certified gap."""
        return (self.objective - self.lower_bound) / self.objective


def data(quick=False):
    """Return X, standardised, and y."""
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    if quick:
        X, y = X[:200, :5], y[:200]
    return (X - X.mean(axis=0)) / X.std(axis=0), np.where(y > 0, 1.0, -1.0)


def stack_of(X):
    """Return the kernels as one array, as one would compute them with numpy."""
    kernels = []
    for x in X.T:
        squares, products = (x[:, None] - x) ** 2, np.outer(x, x)
        kernels += [np.exp(squares / (-2.0 * width**2)) for width in 2.0 ** np.arange(-3, 7)]
        kernels += [(1.0 + products) ** degree for degree in (1, 2, 3)]
    return np.array([K * (len(K) / np.trace(K)) for K in kernels])


def bound(mkl, answers):
    """Return the best lower bound that coefficients give: the cutting-plane model's minimum, by its dual."""
    from scipy.optimize import linprog

    answers = [mkl.machine.into_domain(a) for a in answers]
    cuts = np.array([-mkl.machine.conjugate_sum(a) - 0.5 * mkl.bank.quadratic_forms(a) for a in answers])
    n = len(cuts)
    if n == 1:
        return cuts.min()
    rows = np.hstack([-cuts.T, np.ones((cuts.shape[1], 1))])
    found = linprog(
        np.r_[np.zeros(n), -1.0],
        A_ub=rows,
        b_ub=np.zeros(len(rows)),
        A_eq=[np.r_[np.ones(n), 0.0]],
        b_eq=[1.0],
        bounds=[(0.0, None)] * n + [(None, None)],
    )
    shares = np.maximum(found.x[:-1], 0.0)
    return (shares / shares.sum() @ cuts).min()


def objective(mkl, weights, a):
    """Return the objective of a predictor, with the best intercept."""
    predictions = mkl.bank.weighted_sum(weights) @ a
    return mkl.machine.primal(a @ predictions, predictions)[0]


def ours(mkl, tol, cap, names):
    for name in names:
        start = process_time()
        result = mkl.solve(METHODS[name], tol=tol, time_limit=cap)
        seconds = process_time() - start
        note = "" if result.status is cut.Status.OPTIMAL else f" ({result.status})"
        yield Row(name, seconds, result.oracle_calls + 1, result.objective, result.lower_bound, note)


def loop(mkl, stack, tol, cap):
    for method in ("level", "SILP"):
        answer = mkl_loop.solve(stack, mkl.machine.y, mkl.C, tol, method, cap)
        value = objective(mkl, answer.weights, answer.a)
        row = Row(f"loop, {method}", answer.seconds, len(answer.answers), value, bound(mkl, answer.answers))
        yield row if answer.seconds < cap else replace(row, note=" (time)")


def peer_weights(stack, y, args):
    """Return what mkl_peers.py found, by name, setting, note and seconds; nothing if it could not run."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("kernels.npy", "labels.npy", "weights.npz")]
        np.save(files[0], stack)
        np.save(files[1], y)
        script = Path(__file__).with_name("mkl_peers.py")
        options = ["--C", *map(str, args.C), "--cap", str(args.peer_cap), "--threads", str(args.threads)]
        done = subprocess.run([args.peer, script, *files, *options], capture_output=True, text=True)
        if done.returncode:
            print(f"MKLpy: {done.stderr.strip().splitlines()[-1]}; give --peer an interpreter that has it")
            return {}
        return dict(np.load(files[2]))


def peers(mkl, found):
    """Yield the best setting of each solver of MKLpy."""
    best = {}
    for key, weights in found.items():
        name, setting, note, seconds = key.split("|")
        words = ", ".join(part for part in (setting, note) if part)
        row = Row(f"MKLpy {name}", float(seconds), "", np.inf, -np.inf, f" ({words})" if words else "")
        weights = np.maximum(np.nan_to_num(weights), 0.0)
        if weights.sum() > 0.0:
            kernel = mkl.bank.weighted_sum(weights / weights.sum())
            solution = mkl.machine.solve(kernel, accuracy=1e-6 * mkl.C)
            row = replace(row, objective=solution.primal_value, lower_bound=bound(mkl, [solution.a]))
        if name not in best or row.objective < best[name].objective:
            best[name] = row
    yield from best.values()


def table(title, rows, building, best):
    """Print the rows; `building` is the seconds that our bank and the array of kernels took."""
    print(
        f"\n{title}\n\n| method | s | times level | with the kernels | times level | machines | objective | "
        "certified gap | above |\n" + "|---" * 9 + "|"
    )
    first = None
    for row in rows:
        whole = row.seconds + building["array" if row.method.startswith(("loop", "MKLpy")) else "bank"]
        first = first or (row.seconds, whole)
        print(
            f"| {row.method}{row.note} | {row.seconds:.3g} | {row.seconds / first[0]:.3g} | {whole:.3g} | "
            f"{whole / first[1]:.3g} | {row.machines} | {row.objective:.6g} | {row.gap:.2g} | "
            f"{(row.objective - best) / best:.2g} |",
            flush=True,
        )


def warm_up():
    X, y = np.random.default_rng(0).normal(size=(30, 2)), np.tile([1.0, -1.0], 15)
    bank = KernelBank(single_feature_kernels(2), X, normalize="trace")
    for method in METHODS.values():
        MKL(bank, y).solve(method, tol=1e-2)


def main(args):
    set_threads(args.threads)
    X, y = data(args.quick)
    warm_up()
    start = process_time()
    bank = KernelBank(single_feature_kernels(X.shape[1]), X, normalize="trace")
    traces = bank.traces
    building = {"bank": process_time() - start}
    start = process_time()
    stack = stack_of(X)
    building["array"] = process_time() - start
    weights = np.random.default_rng(0).dirichlet(np.ones(len(stack)))
    assert np.allclose(bank.weighted_sum(weights), np.tensordot(weights, stack, 1), atol=1e-9)
    assert np.allclose(traces, len(y))
    sizes = bank.n_bytes / 2**20, stack.nbytes / 2**20
    print(
        f"{bank.n_kernels} kernels, {bank.n_samples} examples, {args.threads} thread(s): the bank takes "
        f"{building['bank']:.3g} s and {sizes[0]:.3g} MiB, the array {building['array']:.3g} s and "
        f"{sizes[1]:.4g} MiB"
    )
    found = peer_weights(stack, y, args) if "peers" in args.parts else {}
    for C in args.C:
        mkl = MKL(bank, y, C)
        best = mkl.solve(tol=1e-6).lower_bound
        for tol in args.tol:
            title = f"C = {C:g}, to a gap of {tol:g}"

            def rows(mkl=mkl, tol=tol):
                if "ours" in args.parts:
                    yield from ours(mkl, tol, args.cap, METHODS)
                if "loop" in args.parts:
                    yield from loop(mkl, stack, tol, args.cap)

            table(title, rows(), building, best)
        if "peers" in args.parts:
            table(f"C = {C:g}, weights of MKLpy", peers(mkl, found), building, best)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--C", nargs="+", type=float, default=[1.0, 100.0])
    parser.add_argument("--tol", nargs="+", type=float, default=[1e-2, 1e-3])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cap", type=float, default=300.0, help="seconds of one run")
    parser.add_argument("--peer", default=sys.executable, help="a Python that has MKLpy")
    parser.add_argument("--peer-cap", type=int, default=60, help="seconds of one setting of MKLpy")
    parser.add_argument("--parts", nargs="+", default=["ours", "loop", "peers"])
    parser.add_argument("--quick", action="store_true", help="200 examples, 65 kernels")
    options = parser.parse_args()
    with threadpool_limits(options.threads):
        main(options)

"""Kernel support vector machines from raw data, beside scikit-learn's SVC and SVR.

A cell is a data set, a C and a gamma. SVC runs with its default tolerance; the duality gap of what it returns
is computed from its coefficients, and ours is asked for the same relative gap, certified, from the same raw
data. CPU seconds are those of all threads, so that they count both cores against libsvm's one; seconds are
those of the clock. SVC's cache and ours are 200 MB.

--path: 11 C from 0.01 to 1000, cold and each from the last, to the gaps of SVC. --grid: 9 x 9 values of C
and gamma with 5 folds, beside GridSearchCV(SVC). --large: 20,000 rows of 50 features, with the peak of
memory.

The files are read from $CUTPLANE_DATA/uci (default ../shared/data/uci); missing ones are left out.

Run: python benchmarks/kernel_svm.py [--path] [--grid] [--large] [--quick] [names]
"""

import argparse
import os
import resource
import warnings
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
from sklearn.datasets import load_digits, make_classification, make_friedman1
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC, SVR

import cutplane as cut
from cutplane.estimators import KernelSVC
from cutplane.kernels import Gaussian, KernelRisk
from cutplane.losses import EpsilonInsensitive, Hinge

FOLDER = Path(os.environ.get("CUTPLANE_DATA", Path(__file__).parents[2] / "shared" / "data")) / "uci"
FILES = {
    "pima": "pima",
    "german": "statlog-german-credit",
    "splice": "molec-biol-splice",
    "ringnorm": "ringnorm",
    "twonorm": "twonorm",
    "waveform": "waveform",
}
MOST = 2500
EPSILON = 0.1


def load(name):
    """Return X and y, or None if there is no file."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        return X / 16.0, np.where(y % 2 == 1, 1.0, -1.0)
    if name == "friedman":
        return make_friedman1(2_000, noise=1.0, random_state=0)
    if name.startswith("planted"):
        m, d = (20_000, 50) if name.endswith("20000") else (5_000, 20)
        X, y = make_classification(m, d, n_informative=8, n_redundant=0, flip_y=0.05, random_state=0)
        return X, 2.0 * y - 1.0
    path = FOLDER / f"{FILES[name]}.csv"
    if not path.exists():
        print(f"{name}: no file {path}; set CUTPLANE_DATA to the folder that holds uci/{path.name}")
        return None
    table = np.genfromtxt(path, delimiter=",")
    rows = np.random.default_rng(0).permutation(len(table))[:MOST]
    target = 2.0 if name == "splice" else 0.0
    return np.ascontiguousarray(table[rows, :-1]), np.where(table[rows, -1] == target, 1.0, -1.0)


def timed(function, rounds):
    """Return the least CPU seconds and seconds of some runs, and the last answer."""
    cpu, wall = [], []
    while len(cpu) < rounds and sum(cpu) < 3.0:
        begun, began = process_time(), perf_counter()
        answer = function()
        cpu.append(process_time() - begun)
        wall.append(perf_counter() - began)
    return min(cpu), min(wall), answer


def bounds(risk, model, lam):
    """Return the primal and the dual value of a fitted SVC or SVR, in the unit of the problem."""
    a = np.zeros(risk.gram.n)
    a[model.support_] = model.dual_coef_[0]
    z = risk.gram.product(a)
    norm = 0.5 * lam * float(a @ z)
    dual = lam * float(risk.y @ a) - norm
    dual -= lam * EPSILON * np.abs(a).sum() if isinstance(model, SVR) else 0.0
    return norm + risk.values(z + model.intercept_[0]), dual


def cell(X, y, C, gamma, rounds):
    """Return the gap of libsvm, its CPU seconds and seconds, and ours, cold and from a neighbour."""
    real = np.unique(y).size > 2
    loss = EpsilonInsensitive(EPSILON) if real else Hinge()
    machine = SVR(C=C, gamma=gamma, epsilon=EPSILON) if real else SVC(C=C, gamma=gamma)
    *svm, model = timed(lambda: machine.fit(X, y), rounds)
    kernel, lam = Gaussian(np.sqrt(0.5 / gamma)), 1.0 / (C * y.size)
    risk = KernelRisk(X, y, loss, kernel)
    upper, lower = bounds(risk, model, lam)
    gap = (upper - lower) / upper

    def cold():
        risk = KernelRisk(X, y, loss, kernel)
        return cut.Problem(risk, risk.squared_norm(lam)).solve(tol=gap)

    *ours, result = timed(cold, rounds)
    assert result.status == "OPTIMAL", result.reason
    neighbour = cut.Problem(risk, risk.squared_norm(1.25 * lam)).solve(tol=gap)
    problem = cut.Problem(risk, risk.squared_norm(lam))
    *warm, _ = timed(lambda: problem.solve(tol=gap, x0=neighbour.x), rounds)
    return gap, svm, ours, warm


def table(names, rounds):
    """Print a line for each cell, and what they come to."""
    print(f"{'data':<14} {'m':>5} {'C':>6} {'gamma':>8} {'gap':>8} {'SVC s':>8} {'ours s':>8} "
          f"{'CPU':>6} {'clock':>6} {'warm':>6}")  # fmt: skip
    ratios = []
    for name in names:
        data = load(name)
        if data is None:
            continue
        X, y = data
        scale = 1.0 / (X.shape[1] * X.var())
        for gamma in (0.1 * scale, scale, 10.0 * scale):
            for C in (0.1, 1.0, 100.0, 1000.0):
                gap, svm, ours, warm = cell(X, y, C, gamma, rounds)
                row = [one / other for one, other in zip(ours, svm, strict=True)] + [warm[0] / svm[0]]
                ratios.append(row)
                columns = " ".join(f"{ratio:>6.2f}" for ratio in row)
                print(
                    f"{name:<14} {len(y):>5} {C:>6g} {gamma:>8.2g} {gap:>8.1e} {svm[0]:>8.3f} "
                    f"{ours[0]:>8.3f} {columns}",
                    flush=True,
                )
    ratios = np.array(ratios)
    mean = np.exp(np.log(ratios).mean(axis=0))
    print("ratios of CPU, clock, warm: geometric mean", mean.round(2), "worst", ratios.max(axis=0).round(2))


def path(names, rounds):
    """Print the seconds of 11 C, cold and seeded."""
    for name in names:
        data = load(name)
        if data is None or np.unique(data[1]).size > 2:
            continue
        X, y = data
        scale = 1.0 / (X.shape[1] * X.var())
        kernel, Cs = Gaussian(np.sqrt(0.5 / scale)), np.logspace(-2, 3, 11)
        risk, gaps = KernelRisk(X, y, Hinge(), kernel), []
        for C in Cs:
            upper, lower = bounds(risk, SVC(C=C, gamma=scale).fit(X, y), 1.0 / (C * len(y)))
            gaps.append((upper - lower) / upper)

        def ours(seeded):
            risk, x, results = KernelRisk(X, y, Hinge(), kernel), None, []  # noqa: B023
            for C, gap in zip(Cs, gaps, strict=True):  # noqa: B023
                if not seeded:
                    risk = KernelRisk(X, y, Hinge(), kernel)  # noqa: B023
                problem = cut.Problem(risk, risk.squared_norm(1.0 / (C * len(y))))  # noqa: B023
                results.append(problem.solve(tol=gap, x0=x))
                assert results[-1].status == "OPTIMAL", results[-1].reason
                x = results[-1].x if seeded else None
            return results

        cold, seeded = timed(lambda: ours(False), rounds), timed(lambda: ours(True), rounds)
        svm = timed(lambda: [SVC(C=C, gamma=scale).fit(X, y) for C in Cs], rounds)  # noqa: B023
        print(f"path {name:<10} SVC {svm[0]:.2f} s, ours cold {cold[0]:.2f}, seeded {seeded[0]:.2f}; "
              f"CPU ratio {seeded[0] / svm[0]:.2f}, clock {seeded[1] / svm[1]:.2f}")  # fmt: skip


def grid(names):
    """Print the seconds of a grid of C and gamma with five folds."""
    for name in names:
        data = load(name)
        if data is None or np.unique(data[1]).size > 2:
            continue
        X, y = data
        scale = 1.0 / (X.shape[1] * X.var())
        Cs, gammas = np.logspace(-2, 3, 9), scale * np.logspace(-2, 2, 9)
        ours = timed(lambda: KernelSVC(C=Cs, gamma=gammas, cv=5).fit(X, y), 1)  # noqa: B023
        search = GridSearchCV(SVC(), {"C": Cs, "gamma": gammas}, cv=5)
        svm = timed(lambda: search.fit(X, y), 1)  # noqa: B023
        print(f"grid {name:<10} GridSearchCV {svm[0]:.1f} s, ours {ours[0]:.1f}; CPU ratio "
              f"{ours[0] / svm[0]:.2f}, clock {ours[1] / svm[1]:.2f}; best scores "
              f"{search.best_score_:.4f} {ours[2].scores_.mean(axis=2).max():.4f}", flush=True)  # fmt: skip


def large():
    """Print seconds and memory of 20,000 rows."""
    X, y = load("planted 20000")
    began, begun = perf_counter(), process_time()
    model = KernelSVC(tol=1e-3).fit(X, y)
    print(f"20,000 x 50: ours {perf_counter() - began:.1f} s ({process_time() - begun:.1f} CPU), gap "
          f"{model.gap_:.1e}, {model.support_.size} support vectors, peak "
          f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB", flush=True)  # fmt: skip
    began = perf_counter()
    svc = SVC(gamma=model.gamma_).fit(X, y)
    print(f"            SVC {perf_counter() - began:.1f} s, {svc.support_.size} support vectors")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", default=[*FILES, "digits", "planted", "friedman"])
    for option in ("path", "grid", "large", "quick"):
        parser.add_argument(f"--{option}", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    KernelSVC().fit([[0.0], [1.0]], [0, 1])
    rounds = 1 if args.quick else 3
    if args.path:
        path(args.names, rounds)
    if args.grid:
        grid(args.names)
    if args.large:
        large()
    if not (args.path or args.grid or args.large):
        table(args.names, rounds)


if __name__ == "__main__":
    main()

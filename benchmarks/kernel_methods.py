"""Exact l1 paths, finite Newton and greedy bases, each beside what installs.

--path: the exact l1 path of the squared hinge from lam_max to lam_max / 100, each knot with its gap, beside
25 cold fits of liblinear on a logarithmic grid of the same range.

--activeset: kernel machines with piecewise linear and quadratic losses to a certified 1e-10, beside
Decomposition.

--svmpath: the exact path over C, each knot with its gap, beside 25 cold solves of Decomposition to 1e-6 and
of scikit-learn's SVC on a logarithmic grid of the same range.

--newton: kernel machines with smooth losses to a certified 1e-6, beside Decomposition, scikit-learn's
KernelRidge and, for the logistic loss, LogisticRegression (newton-cholesky and lbfgs, the faster one) on
features that span the same functions, which are part of its time, to the same objective.

--greedy: test error and seconds of SparseKernelClassifier and of Nystroem with LinearSVC, for as many
functions.

--nu: nu-forms to a certified 1e-3, beside NuSVC, NuSVR and OneClassSVM at the largest tol whose dual value is
within 1e-3 of ours too.

--widths: the kernel matrices of five widths on 1,500 examples, by `KernelRisk.with_kernel`, which computes
distances once, and each afresh.

The files are read from $CUTPLANE_DATA/uci (default ../shared/data/uci); missing ones are left out.

Run: python benchmarks/kernel_methods.py [--path] [--svmpath] [--activeset] [--newton] [--greedy] [--nu]
[--widths] [--repeats 3]
"""

import argparse
import os
import warnings
from pathlib import Path
from time import process_time

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, LinearSVC, NuSVC, NuSVR, OneClassSVM

import cutplane as cut
from cutplane.datasets import ringnorm, twonorm, waveform
from cutplane.estimators import SparseKernelClassifier
from cutplane.kernels import (
    ActiveSet,
    ChiSquare,
    Decomposition,
    FiniteNewton,
    Gaussian,
    KernelRisk,
    Laplacian,
    NuRisk,
)
from cutplane.linear import lam_max
from cutplane.losses import EpsilonInsensitive, Hinge, Logistic, ModifiedHuber, Squared, SquaredHinge

FOLDER = Path(os.environ.get("CUTPLANE_DATA", Path(__file__).parents[2] / "shared" / "data")) / "uci"
FILES = {
    "sonar": "conn-bench-sonar-mines-rocks",
    "german": "statlog-german-credit",
    "ionosphere": "ionosphere",
}


def load(name):
    """Return standardised X, and y; None if there is no file."""
    if name == "breast cancer":
        X, y = load_breast_cancer(return_X_y=True)
    else:
        path = FOLDER / f"{FILES.get(name, name)}.csv"
        if not path.exists():
            print(f"{name}: no file {path}; set CUTPLANE_DATA")
            return None
        table = np.genfromtxt(path, delimiter=",")
        X, y = table[:, :-1], table[:, -1]
    X = X[:, X.std(axis=0) > 0.0]
    return (X - X.mean(axis=0)) / X.std(axis=0), np.where(y == y[0], 1.0, -1.0)


def timed(function, repeats):
    """Return the least CPU seconds of some runs, and the last answer."""
    seconds = []
    for _ in range(repeats):
        began = process_time()
        answer = function()
        seconds.append(process_time() - began)
    return min(seconds), answer


def paths(repeats):
    print(
        "| data | knots | ours | largest gap of a knot | 25 fits of liblinear | ratio |\n" + "|---" * 6 + "|"
    )
    for name in ("sonar", "german", "breast cancer", "ionosphere"):
        if (data := load(name)) is None:
            continue
        X, y = data
        high = lam_max(cut.Problem(cut.LinearRisk(X, y, SquaredHinge()), cut.L1(1.0)))

        def follow(X=X, y=y, high=high):
            problem = cut.Problem(cut.LinearRisk(X, y, SquaredHinge()), cut.L1(1.0))
            return problem.path(high / 100, exact=True)

        def fit(X=X, y=y, high=high):
            for lam in np.geomspace(high, high / 100, 25):
                C = 1.0 / (lam * y.size)
                LinearSVC(penalty="l1", dual=False, C=C, fit_intercept=False).fit(X, y)

        follow()
        ours, path = timed(follow, repeats)
        peer, _ = timed(fit, repeats)
        print(
            f"| {name} {X.shape[0]} x {X.shape[1]} | {len(path)} | {ours:.3f} | {path.gaps.max():.0e} | "
            f"{peer:.3f} | {ours / peer:.2f} |"
        )


def active_sets(repeats):
    print("| data | loss | C | ActiveSet | changes | Decomposition | gap | ratio |\n" + "|---" * 8 + "|")
    for name in ("sonar", "breast cancer", "ionosphere", "german"):
        if (data := load(name)) is None:
            continue
        X, y = data
        width = np.sqrt(0.5 * X.shape[1])
        for loss in (Hinge(), SquaredHinge(), EpsilonInsensitive(0.1)):
            for C in (1.0, 1e2, 1e4):

                def solve(method, X=X, y=y, width=width, loss=loss, C=C):
                    risk = KernelRisk(X, y, loss, Gaussian(width))
                    problem = cut.Problem(risk, risk.squared_norm(1.0 / (C * y.size)))
                    driver = problem.iterate(method, tol=1e-10)
                    return driver.run(), driver.method_state

                solve(ActiveSet()), solve(Decomposition())
                ours, (_, state) = timed(lambda solve=solve: solve(ActiveSet()), repeats)
                peer, (other, _) = timed(lambda solve=solve: solve(Decomposition()), repeats)
                print(
                    f"| {name} {X.shape[0]} x {X.shape[1]} | {type(loss).__name__} | {C:g} | {ours:.3f} | "
                    f"{state.walk.n_changes} | {peer:.3f} | {other.gap:.0e} | {ours / peer:.2f} |"
                )


def svm_paths(repeats):
    print(
        "| data | knots | ours | largest gap of a knot | 25 x Decomposition | ratio | 25 x SVC | ratio |\n"
        + "|---" * 8
        + "|"
    )
    for name in ("sonar", "breast cancer", "ionosphere", "german"):
        if (data := load(name)) is None:
            continue
        X, y = data
        width, grid = np.sqrt(0.5 * X.shape[1]), np.geomspace(1e-2, 1e3, 25)

        def follow(X=X, y=y, width=width):
            risk = KernelRisk(X, y, Hinge(), Gaussian(width))
            return cut.Problem(risk, risk.squared_norm(1e-3 / y.size)).path(exact=True)

        def solves(X=X, y=y, width=width, grid=grid):
            for C in grid:
                risk = KernelRisk(X, y, Hinge(), Gaussian(width))
                cut.Problem(risk, risk.squared_norm(1.0 / (C * y.size))).solve(Decomposition(), tol=1e-6)

        def fits(X=X, y=y, width=width, grid=grid):
            for C in grid:
                SVC(C=C, gamma=0.5 / width**2, tol=1e-6).fit(X, y)

        follow(), solves()
        ours, path = timed(follow, repeats)
        cold, peer = timed(solves, repeats)[0], timed(fits, repeats)[0]
        print(
            f"| {name} {X.shape[0]} x {X.shape[1]} | {len(path)} | {ours:.3f} | {path.gaps.max():.0e} | "
            f"{cold:.3f} | {ours / cold:.2f} | {peer:.3f} | {ours / peer:.2f} |"
        )


def newton(repeats):
    print("| data | loss | C | FiniteNewton | steps | beside | seconds | ratio |\n" + "|---" * 8 + "|")
    for name in ("german", "waveform", "twonorm"):
        if (data := load(name)) is None:
            continue
        X, y = (part[:2000] for part in data)
        width = np.sqrt(0.5 * X.shape[1])
        for loss in (Squared(), SquaredHinge(), ModifiedHuber(), Logistic()):
            for C in (1.0, 100.0):
                lam = 1.0 / (C * y.size)

                def solve(method, X=X, y=y, width=width, loss=loss, lam=lam):
                    risk = KernelRisk(X, y, loss, Gaussian(width))
                    return cut.Problem(risk, risk.squared_norm(lam)).solve(method, tol=1e-6)

                solve(FiniteNewton())
                ours, result = timed(lambda solve=solve: solve(FiniteNewton()), repeats)
                beside = []
                if not isinstance(loss, Logistic):
                    solve(Decomposition())
                    beside.append(
                        ("Decomposition", timed(lambda solve=solve: solve(Decomposition()), repeats)[0])
                    )
                else:
                    beside.append(
                        ("LogisticRegression", logistic(X, y, width, C, result.objective / lam, repeats))
                    )
                if isinstance(loss, Squared):
                    ridge = KernelRidge(alpha=1.0 / C, kernel="rbf", gamma=0.5 / width**2)
                    beside.append(("KernelRidge", timed(lambda r=ridge, X=X, y=y: r.fit(X, y), repeats)[0]))
                for peer, seconds in beside:
                    print(
                        f"| {name} {X.shape[0]} x {X.shape[1]} | {type(loss).__name__} | {C:g} | "
                        f"{ours:.3f} | {result.n_iter} | {peer} | {seconds:.3f} | {ours / seconds:.2f} |"
                    )


def logistic(X, y, width, C, objective, repeats):
    """Return the seconds of the faster solver, from X, to within 1e-6 of the objective."""
    times = []
    for solver in ("newton-cholesky", "lbfgs"):
        for tol in (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7):

            def fit(solver=solver, tol=tol):
                K = Gaussian(width)(X)
                values, vectors = np.linalg.eigh(K)
                kept = values > 1e-12 * values[-1]
                F = vectors[:, kept] * np.sqrt(values[kept])
                return F, LogisticRegression(C=C, solver=solver, tol=tol, max_iter=10_000).fit(F, y)

            seconds, (F, model) = timed(fit, 1)
            w = model.coef_[0]
            value = 0.5 * w @ w + C * np.logaddexp(0.0, -y * (F @ w + model.intercept_)).sum()
            if value <= objective * (1.0 + 1e-6):
                times.append(seconds)
                break
    return min(times, default=np.inf)


def greedy(repeats):
    print(
        "| data | d | greedy: error | seconds | Nystroem: error | seconds | SVC: error | vectors |\n"
        + "|---" * 8
        + "|"
    )
    for name in ("ringnorm", "waveform", "twonorm", "german"):
        if (data := load(name)) is None:
            continue
        X, y = data
        order = np.random.default_rng(0).permutation(len(y))
        train, test = order[: min(2000, len(y) // 2)], order[min(2000, len(y) // 2) :]
        gamma = 1.0 / X.shape[1]
        svc = SVC(gamma=gamma).fit(X[train], y[train])
        full = f"{1 - svc.score(X[test], y[test]):.4f} | {svc.n_support_.sum()}"
        for d in (10, 20, 50, 100, 200):

            def ours(d=d, seed=0, X=X, y=y, train=train, gamma=gamma):
                model = SparseKernelClassifier(n_basis=d, gamma=gamma, random_state=seed)
                return model.fit(X[train], y[train])

            def peer(d=d, seed=0, X=X, y=y, train=train, gamma=gamma):
                features = Nystroem(gamma=gamma, n_components=d, random_state=seed)
                return make_pipeline(features, LinearSVC(dual=False)).fit(X[train], y[train])

            ours()
            row = [f"{name} {train.size} x {X.shape[1]}", str(d)]
            for make in (ours, peer):
                seconds, _ = timed(make, repeats)
                errors = [1 - make(seed=seed).score(X[test], y[test]) for seed in range(3)]
                row += [f"{np.mean(errors):.4f}", f"{seconds:.3f}"]
            print(f"| {' | '.join(row)} | {full} |")


def nus(repeats):
    print("| data | machine | nu | ours | peer, tol | ratio |\n" + "|---" * 6 + "|")
    for make in (ringnorm, twonorm, waveform):
        X, y = make(2000)
        y = np.where(y == y.max(), 1.0, -1.0)
        m, gamma = X.shape[0], 1.0 / X.shape[1] / X.var()
        kernel = Gaussian(np.sqrt(0.5 / gamma))
        K = kernel(X)
        t = np.sin(X[:, 0]) + 0.3 * np.random.default_rng(0).standard_normal(m)
        machines = {
            "classification": (y, lambda nu, tol, gamma=gamma: NuSVC(nu=nu, gamma=gamma, tol=tol)),
            "regression": (t, lambda nu, tol, gamma=gamma: NuSVR(nu=nu, gamma=gamma, tol=tol)),
            "novelty": (None, lambda nu, tol, gamma=gamma: OneClassSVM(nu=nu, gamma=gamma, tol=tol)),
        }
        for task, (target, peer) in machines.items():
            for nu in (0.1, 0.3, 0.6):

                def ours(task=task, target=target, nu=nu, X=X, kernel=kernel):
                    risk = NuRisk(X, target, nu, kernel, task)
                    return cut.Problem(risk, risk.squared_norm(1.0 / len(X))).solve(tol=1e-3)

                ours()
                mine, result = timed(ours, repeats)
                for tol in 10.0 ** -np.arange(3, 10):

                    def other(peer=peer, nu=nu, tol=tol, X=X, target=target):
                        return peer(nu, tol).fit(X, target)

                    model, a = other(), np.zeros(m)
                    a[model.support_] = model.dual_coef_[0]
                    a *= nu * m / np.abs(a).sum()
                    dual = ((0.0 if task != "regression" else target @ a) - 0.5 * a @ K @ a) / m
                    if dual >= result.objective - 2e-3 * abs(result.objective):
                        break
                seconds, _ = timed(other, repeats)
                print(
                    f"| {make.__name__} {m} x {X.shape[1]} | {task} | {nu:g} | {mine:.3f} | {seconds:.3f}, "
                    f"{tol:.0e} | {mine / seconds:.2f} |",
                    flush=True,
                )


def widths(repeats):
    print("| kernel | columns | shared | each afresh | ratio |\n" + "|---" * 5 + "|")
    for columns in (10, 100, 800):
        X = np.random.default_rng(0).random((1500, columns))
        y = np.tile([-1.0, 1.0], 750)
        for make in (Gaussian, Laplacian, ChiSquare):
            kernels = [make(width) for width in np.sqrt(columns) * 2.0 ** np.arange(-2, 3)]

            def shared(X=X, y=y, kernels=kernels):
                first = KernelRisk(X, y, SquaredHinge(), kernels[0])
                return [first.with_kernel(kernel).gram.matrix() for kernel in kernels]

            def afresh(X=X, y=y, kernels=kernels):
                return [KernelRisk(X, y, SquaredHinge(), kernel).gram.matrix() for kernel in kernels]

            shared(), afresh()
            ours, other = timed(shared, repeats)[0], timed(afresh, repeats)[0]
            print(f"| {make.__name__} | {columns} | {ours:.3f} | {other:.3f} | {ours / other:.2f} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = {"path": paths, "svmpath": svm_paths, "activeset": active_sets}
    parts |= {"newton": newton, "greedy": greedy, "nu": nus, "widths": widths}
    for name in parts:
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    for name, part in parts.items():
        if getattr(args, name) or not any(getattr(args, other) for other in parts):
            part(args.repeats)
            print()

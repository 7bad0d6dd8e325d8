"""Milliseconds to solve a support vector machine on a given kernel matrix, beside scikit-learn's SVC.

SVC is given a tolerance; the accuracy asked of ours is the duality gap of what SVC returns. Warm: the matrix
is that of a kernel 2% wider, and the start the solution for the one before, as in learning with many kernels;
SVC has no warm start. Beside each time is the number of steps.

Run: python benchmarks/kernel_machine.py
"""

from time import perf_counter

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.svm import SVC

from cutplane.datasets import planted_dense
from cutplane.kernels.machine import KernelMachine
from cutplane.losses import Hinge

ROUNDS = 5


def data():
    """Yield names, X and y."""
    X, y = load_breast_cancer(return_X_y=True)
    yield "breast cancer", (X - X.mean(axis=0)) / X.std(axis=0), 2.0 * y - 1.0
    X, y = planted_dense(2_000, 20)
    yield "planted", X, y
    X = np.random.default_rng(0).standard_normal((5_000, 10))
    noise = 0.5 * np.random.default_rng(1).standard_normal(5_000)
    yield "product", X, np.where(X[:, 0] + X[:, 1] * X[:, 2] + noise > 0.0, 1.0, -1.0)


def gaussian(X, width):
    """Return the kernel matrix, for distances in units of the root of the number of features."""
    norms = (X**2).sum(axis=1)
    return np.exp(-np.maximum(norms[:, None] + norms - 2.0 * X @ X.T, 0.0) / (2.0 * width**2 * X.shape[1]))


def seconds(function):
    """Return the least of some measurements, of fewer if they are long, and the last answer."""
    times = []
    while len(times) < ROUNDS and sum(times) < 5.0:
        start = perf_counter()
        answer = function()
        times.append(perf_counter() - start)
    return min(times), answer


def measure(machine, K, start, tol):
    """Return SVC's gap relative to its primal value, and (time, steps) of SVC and of ours, cold and warm."""
    y = machine.y
    time, svc = seconds(lambda: SVC(kernel="precomputed", C=machine.C, tol=tol).fit(K, y))
    a = np.zeros(y.size)
    a[svc.support_] = svc.dual_coef_[0]
    predictions = K @ a
    primal, _ = machine.primal(a @ predictions, predictions)
    gap = primal - (y @ a - 0.5 * a @ predictions)
    cold, answer = seconds(lambda: machine.solve(K, accuracy=gap))
    warm, again = seconds(lambda: machine.solve(K, start, gap))
    return gap / primal, (time, int(svc.n_iter_[0])), (cold, answer.n_steps), (warm, again.n_steps)


def main():
    KernelMachine(Hinge(), np.array([-1.0, 1.0]), 1.0).solve(np.eye(2))
    print(
        f"{'data':<14} {'m':>5} {'C':>5} {'gap / value':>11} {'SVC':>17} {'cold':>17} {'warm':>17}"
        f" {'cold / SVC':>10} {'warm / SVC':>10}"
    )
    for name, X, y in data():
        K, wider = gaussian(X, 1.0), gaussian(X, 1.02)
        for C in (1.0, 100.0):
            machine = KernelMachine(Hinge(), y, C)
            start = machine.solve(wider, accuracy=1e-6 * C).a
            for tol in (1e-3, 1e-5):
                gap, *runs = measure(machine, K, start, tol)
                columns = " ".join(f"{1e3 * time:>7.1f} ms {steps:>6}" for time, steps in runs)
                svc, cold, warm = (time for time, _ in runs)
                print(
                    f"{name:<14} {y.size:>5} {C:>5g} {gap:>11.1e} {columns}"
                    f" {cold / svc:>10.2f} {warm / svc:>10.2f}"
                )


if __name__ == "__main__":
    main()

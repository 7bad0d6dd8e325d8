"""Seconds to find the best decision stump, beside a tree of depth 1 of scikit-learn (target: a tenth).

Run: python benchmarks/stumps.py
"""

from time import perf_counter

import numpy as np
from sklearn.tree import DecisionTreeClassifier

from cutplane.boosting.stumps import DecisionStumps
from cutplane.datasets import planted_dense, planted_text
from cutplane.runtime.threads import get_threads, set_threads

ROUNDS = 5


def data():
    """Yield names, X and y."""
    X, y = planted_dense(50_000, 100)
    yield "dense 50,000 x 100, C", X, y
    yield "dense 50,000 x 100, F, float32", np.asfortranarray(X, dtype=np.float32), y
    yield "rounded 50,000 x 100, C", np.round(X), y
    X, y = planted_text(20_000, 5_000, 0.01)
    yield "text 20,000 x 5,000, CSR", X, y
    X, y = planted_dense(1_000_000, 10)
    yield "dense 1,000,000 x 10, C", X, y


def seconds(function, *arguments):
    """Return the least of some measurements, and the last answer."""
    times = []
    for _ in range(ROUNDS):
        start = perf_counter()
        answer = function(*arguments)
        times.append(perf_counter() - start)
    return min(times), answer


def weights(m):
    """Return weights as boosting makes them: many examples at the cap, many without weight."""
    d = np.clip(np.random.default_rng(0).normal(0.3, 0.5, m), 0.0, 1.0)
    return d / d.sum()


def main():
    most = get_threads()
    print(
        f"{'data':<32} {'sort':>9} {'1 thread':>10} {f'{most} threads':>10} {'tree':>11} {'ratio':>7}"
        f" {'edge':>8} {'edge of tree':>12}"
    )
    DecisionStumps().bind(np.eye(2), np.array([-1.0, 1.0])).best(np.full(2, 0.5))
    for name, X, y in data():
        d = weights(len(y))
        sort, oracle = seconds(DecisionStumps().bind, X, y)
        times = []
        for threads in (1, most):
            set_threads(threads)
            best, (_, margins) = seconds(oracle.best, d)
            times.append(best)
        tree = DecisionTreeClassifier(max_depth=1)
        start = perf_counter()
        tree.fit(X, y, sample_weight=len(y) * d)
        fit = perf_counter() - start
        print(
            f"{name:<32} {sort:>7.3f} s {1e3 * times[0]:>7.2f} ms {1e3 * times[1]:>7.2f} ms"
            f" {1e3 * fit:>8.0f} ms {fit / times[1]:>7.0f} {d @ margins:>8.5f}"
            f" {d @ (y * tree.predict(X)):>12.5f}"
        )


if __name__ == "__main__":
    main()

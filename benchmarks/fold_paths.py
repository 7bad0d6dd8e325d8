"""Cross-validated l1 models: folds by the exact path, by solves from weight to weight, and as it is chosen.

CPU seconds of a fit, one thread, the least of three. The choice is to follow the path for as long as solves
should take; the last column is what it takes over the better of the two ways.

Run: python benchmarks/fold_paths.py [--weights 5 25]
"""

import argparse
import warnings

import numpy as np
from data import HAS_FILES, real
from linear_table import timed
from scipy import sparse
from sklearn.datasets import make_friedman1, make_sparse_uncorrelated

from cutplane.estimators import LinearClassifierCV, LinearRegressorCV
from cutplane.runtime.threads import set_threads
from cutplane.tracking.methods import PathTracking

CHOICE = PathTracking.turns
WAYS = {"chosen": CHOICE, "path": lambda *_: 10**6, "solves": lambda *_: 0}


def scaled(X):
    """Return columns of mean 0 and variance 1."""
    return (X - X.mean(axis=0)) / (X.std(axis=0) + 1e-12)


def walks(m, n, rng):
    """Draw columns each of which is the one before and noise, and a target from a tenth of them."""
    X = scaled(rng.standard_normal((m, n)).cumsum(axis=1))
    return X, X @ (rng.random(n) < 0.1) + rng.standard_normal(m)


def words(m, n, rng):
    """Draw a sparse matrix, and two classes."""
    X = sparse.random(m, n, 0.02, format="csr", random_state=3)
    return X, X @ rng.standard_normal(n) > 0


def problems():
    """Yield a name, an estimator and data."""
    rng = np.random.default_rng(9)
    yield "Friedman's function", LinearRegressorCV, make_friedman1(400, 50, noise=1, random_state=0)
    yield "independent columns", LinearRegressorCV, make_sparse_uncorrelated(1000, 100, random_state=0)
    yield "walks", LinearRegressorCV, walks(150, 600, rng)
    yield "walks", LinearRegressorCV, walks(2000, 60, rng)
    for name in ("pima", "ionosphere", "waveform") if HAS_FILES else ():
        X, y = real(name)
        yield name, LinearClassifierCV, (scaled(X), y)
    yield "words", LinearClassifierCV, words(800, 500, rng)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weights", nargs="+", type=int, default=[5, 25])
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    set_threads(1)
    print("| data | weights | " + " | ".join(WAYS) + " | chosen / better |")
    print("|---" * 6 + "|")
    for name, kind, (X, y) in problems():
        if kind is LinearRegressorCV:
            y, loss = scaled(y), "squared"
        else:
            loss = "squared_hinge"
        for count in args.weights:
            model = kind(loss, penalty="l1", alphas=np.logspace(0, -4, count), cv=3)
            took = {}
            for way, turns in WAYS.items():
                PathTracking.turns = turns
                took[way] = min(timed(lambda model=model, X=X, y=y: model.fit(X, y))[0] for _ in range(3))
            regret = took["chosen"] / min(took.values())
            cells = " | ".join(f"{seconds:.3f}" for seconds in took.values())
            print(f"| {name} {X.shape[0]} x {X.shape[1]} | {count} | {cells} | {regret:.2f} |", flush=True)


if __name__ == "__main__":
    main()

"""Certified l1 models against scikit-learn's Lasso and liblinear, celer and skglm, at the same error.

The squared and the logistic loss with an l1 norm, at weights that leave about 1 %, 10 % and 50 % of the most
entries that a solution can have. Ours: all the time from X, y to a certified relative gap, by "auto". Theirs:
all the time of `fit` at the loosest tolerance, found outside the clock, at which the objective is within the
same relative error of the best known one. Best of `--repeats`, in alternation, on one thread, compiled.
celer and skglm take part where they are installed. A ratio below 1 means that we are faster than the best.

Run: python benchmarks/sparse_linear.py [--quick] [--data NAME ...] [--tol 1e-3 1e-6] [--repeats 3]
"""

import argparse
import os
import warnings
from time import perf_counter

import numpy as np
from data import load
from scipy import sparse

import cutplane as cut
from cutplane.linear import lam_max
from cutplane.runtime.threads import set_threads

SHARES = (0.01, 0.1, 0.5)
LADDER = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)
LONG = 5.0  # seconds; what took longer is not repeated


def correlated(m, n, rho, rng):
    """Correlate neighbouring features."""
    X = rng.standard_normal((m, n))
    for j in range(1, n):
        X[:, j] = rho * X[:, j - 1] + np.sqrt(1.0 - rho**2) * X[:, j]
    return X


def power_law(m, n, rng):
    """Let the singular values fall as a power."""
    k = min(m, n)
    return rng.standard_normal((m, k)) * np.arange(1, k + 1) ** -0.7 @ rng.standard_normal((k, n))


def text(m, n, rng):
    """Draw words by Zipf's law; rows of norm 1, in CSC."""
    counts = rng.poisson(60, m) + 1
    words = (n ** rng.random(counts.sum())).astype(np.int64) - 1
    X = sparse.csr_array((np.ones(words.size), (np.repeat(np.arange(m), counts), words)), shape=(m, n))
    X.sum_duplicates()
    norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    return sparse.csc_array(sparse.diags_array(1.0 / norms) @ X)


def for_all(X):
    """Return CSC with the indices that all take."""
    return sparse.csc_array((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)


MAKERS = {
    "wide 100 x 500": lambda rng: correlated(100, 500, 0.5, rng),
    "wide 100 x 4,000": lambda rng: correlated(100, 4000, 0.5, rng),
    "wide 200 x 20,000": lambda rng: correlated(200, 20_000, 0.5, rng),
    "correlated 1,000 x 1,000": lambda rng: correlated(1000, 1000, 0.95, rng),
    "power law 500 x 2,000": lambda rng: power_law(500, 2000, rng),
    "tall 20,000 x 100": lambda rng: correlated(20_000, 100, 0.9, rng),
    "tall C 20,000 x 100": lambda rng: np.ascontiguousarray(correlated(20_000, 100, 0.5, rng)),
    "text 5,000 x 20,000": lambda rng: text(5000, 20_000, rng),
}
FILES = ("a9a", "w8a")


def make(name, quick):
    """Return X, a real target and labels; None if there is no file."""
    if name in FILES:
        found = load(name, quick=quick)
        if found is None:
            return None
        return for_all(sparse.csc_array(found[0])), found[1], found[1]
    rng = np.random.default_rng(0)
    X = MAKERS[name](rng)
    m, n = X.shape
    w = np.zeros(n)
    w[rng.choice(n, max(1, n // 20), replace=False)] = rng.standard_normal(max(1, n // 20))
    z = X @ w
    y = z + 0.3 * z.std() * rng.standard_normal(m)
    X = for_all(X) if sparse.issparse(X) else X if "C" in name else np.asfortranarray(X)
    return X, y, np.where(y > 0.0, 1.0, -1.0)


def problem(X, y, loss, lam):
    return cut.Problem(cut.LinearRisk(X, y, loss), cut.L1(lam))


def weight(X, y, loss, share):
    """Return a weight that leaves about this share of the most entries that a solution can have."""
    most, largest = min(X.shape), lam_max(problem(X, y, loss, 1.0))
    low, high = 1e-5, 1.0
    for _ in range(8):
        middle = np.sqrt(low * high)
        x = problem(X, y, loss, middle * largest).solve(tol=1e-2, time_limit=5.0).x
        low, high = (low, middle) if np.count_nonzero(x) < share * most else (middle, high)
    return np.sqrt(low * high) * largest


def peers(loss, lam, m):
    """Return what makes the model of each peer at a tolerance."""
    from sklearn.linear_model import Lasso, LogisticRegression

    out = {}
    if loss == cut.losses.Squared():
        out["sklearn"] = lambda tol: Lasso(lam, fit_intercept=False, tol=tol, max_iter=10**6)
    else:
        C, most = 1.0 / (lam * m), 10**4
        out["liblinear"] = lambda tol: LogisticRegression(
            penalty="l1", C=C, fit_intercept=False, solver="liblinear", tol=tol, max_iter=most
        )
    for name in ("celer", "skglm"):
        try:
            package = __import__(name)
        except ImportError:
            continue
        if loss == cut.losses.Squared():
            out[name] = lambda tol, p=package: p.Lasso(lam, fit_intercept=False, tol=tol)
        elif name == "celer":
            out[name] = lambda tol, p=package: p.LogisticRegression(C=C, fit_intercept=False, tol=tol)
        else:
            out[name] = lambda tol, p=package: p.SparseLogisticRegression(lam, fit_intercept=False, tol=tol)
    return out


def seconds(function, *arguments):
    began = perf_counter()
    answer = function(*arguments)
    return answer, perf_counter() - began


def setting(model, declared, X, y, goal):
    """Return the loosest tolerance at which a peer is good enough, or None."""
    for tol in LADDER:
        try:
            fitted, took = seconds(model(tol).fit, X, y)
        except (ValueError, NotImplementedError):
            return None
        if declared.objective(fitted.coef_.ravel()) <= goal:
            return tol
        if took > 4.0 * LONG:
            return None
    return None


def cell(name, X, y, loss, share, tols, repeats):
    """Print one line for each tolerance, and return the ratios."""
    lam = weight(X, y, loss, share)
    declared = problem(X, y, loss, lam)
    best = declared.solve(tol=1e-9, time_limit=30.0)
    ratios = []
    for tol in tols:
        goal = best.objective * (1.0 + tol)
        models = peers(loss, lam, X.shape[0])
        found = {peer: setting(model, declared, X, y, goal) for peer, model in models.items()}
        ours, times = [], {peer: [] for peer, at in found.items() if at is not None}
        if not times:
            print(f"| {name} | {type(loss).__name__} | no peer came within {tol:g} |", flush=True)
            continue
        for _ in range(repeats):
            result, took = seconds(lambda tol=tol: problem(X, y, loss, lam).solve(tol=tol, time_limit=30.0))
            ours.append(took)
            for peer, own in times.items():
                own.append(seconds(models[peer](found[peer]).fit, X, y)[1])
            if max([took, *(own[-1] for own in times.values())]) > LONG:
                break
        peer = min(times, key=lambda peer: min(times[peer]))
        ratio = min(ours) / min(times[peer])
        ratios.append(ratio)
        others = ", ".join(f"{other} {1e3 * min(own):.3g}" for other, own in times.items())
        print(
            f"| {name} | {type(loss).__name__} | {np.count_nonzero(best.x)} | {tol:g} | "
            f"{1e3 * min(ours):.3g} | {others} | {ratio:.2g} | {result.status}, {result.gap:.0e} | "
            f"{result.n_iter} |",
            flush=True,
        )
    return ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=[*MAKERS, *FILES], choices=[*MAKERS, *FILES])
    parser.add_argument("--tol", nargs="+", type=float, default=[1e-3, 1e-6])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a tenth of the files, one repeat")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    set_threads(1)
    print(f"load {os.getloadavg()[0]:.1f}; milliseconds, ours with the proof\n")
    print("| data | loss | entries | tol | ours | peers | ratio to the best | status, gap | iterations |")
    print("|" + "---|" * 9)
    ratios = []
    for name in args.data:
        made = make(name, args.quick)
        if made is None:
            continue
        X, y, labels = made
        for loss, targets in ((cut.losses.Squared(), y), (cut.losses.Logistic(), labels)):
            for share in SHARES:
                repeats = 1 if args.quick else args.repeats
                ratios += cell(name, X, targets, loss, share, args.tol, repeats)
    print(f"\ngeometric mean {np.exp(np.mean(np.log(ratios))):.2f}, worst {max(ratios):.2g}")


if __name__ == "__main__":
    main()

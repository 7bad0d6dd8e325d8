"""Linear models where users stand: small and middling sets, large weights, every loss, estimators, grids.

CPU seconds of both sides on one thread, in alternation, the best of several, after solves that compile. Ours
is all the time from raw X, y to a certified gap of 1e-3. A peer is given the loosest tolerance, found
outside the clock, at which its primal error is at most 1e-3, and the fastest of its solvers counts; where
none gets there within `--cap` seconds, the cap does. Estimators and grids (parts c and d) run by default.

Run: python benchmarks/linear_table.py [--parts a b c d] [--lam 1e-2 1e-4 1e-6] [--repeats 5] [--cap 5]
         [--data NAME ...] [--losses NAME ...] [--quick]
"""

import argparse
import warnings
from functools import partial
from itertools import product
from time import process_time

import numpy as np
from data import HAS_FILES, SETS, real
from liblinear import fastest, fit
from scipy import optimize, sparse
from sklearn.datasets import load_digits
from sklearn.linear_model import (
    Lasso,
    LassoCV,
    LogisticRegression,
    LogisticRegressionCV,
    Ridge,
)
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVC, LinearSVR
from sparse_linear import text

import cutplane as cut
from cutplane import estimators
from cutplane.runtime.threads import set_threads

TOL = 1e-3
LADDER = 10.0 ** -np.arange(0.0, 8.5, 0.5)
CHOSEN = (
    "statlog-german-credit",
    "molec-biol-splice",
    "waveform",
    "digits, odd",
    "like covertype",
    "like text",
)
LOSSES = cut.losses


def covertype_like(m=10_000):
    """Draw correlated columns of a power-law spectrum, in units from 1 to 30, indicators, doubled rows."""
    rng = np.random.default_rng(0)
    numbers = rng.standard_normal((m // 2, 10)) * np.arange(1, 11) ** -0.7 @ rng.standard_normal((10, 10))
    numbers *= np.geomspace(1.0, 30.0, 10)
    kinds = np.eye(44)[(44 * rng.random(m // 2) ** 2).astype(int)]
    X = np.hstack([numbers, kinds])[rng.integers(0, m // 2, m)]
    z = (X / (X.std(axis=0) + 1e-9)) @ rng.standard_normal(54)
    return X, np.where(z + z.std() * rng.standard_normal(m) > np.median(z), 1.0, -1.0)


def text_like(m=5000, n=20_000):
    """Draw words by Zipf's law, and labels with noise."""
    rng = np.random.default_rng(0)
    X = sparse.csr_array(text(m, n, rng))
    X = sparse.csr_array((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)
    z = X @ rng.standard_normal(n)
    return X, np.where(z + 0.5 * z.std() * rng.standard_normal(m) > np.median(z), 1.0, -1.0)


def gaussian(m, n):
    """Return X, a noisy linear target, and its signs."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((m, n))
    z = X @ rng.standard_normal(n)
    t = z + 0.5 * z.std() * rng.standard_normal(m)
    return X, t, np.where(t > 0.0, 1.0, -1.0)


def all_sets(args):
    """Yield name, X, labels."""
    for name in args.data:
        if name in SETS:
            yield name, *real(name)
        elif name == "digits, odd":
            digits, labels = load_digits(return_X_y=True)
            yield name, digits / 16.0, np.where(labels % 2 == 1, 1.0, -1.0)
        elif name == "like covertype":
            yield name, *covertype_like(1000 if args.quick else 10_000)
        else:
            yield name, *text_like(500 if args.quick else 5000)


def timed(action):
    """Return the CPU seconds of an action, and its answer."""
    began = process_time()
    answer = action()
    return process_time() - began, answer


def compare(ours, theirs, repeats, cap):
    """Return the least CPU seconds of both, in alternation; of a peer that never got there, the cap."""
    own, peer = [], []
    for _ in range(repeats):
        own.append(timed(ours)[0])
        peer.append(timed(theirs)[0] if theirs else cap)
        if own[-1] + peer[-1] > 2.0 and theirs:
            break
    return min(own), min(peer)


def report(ratios):
    """Print the mean and the worst of some ratios."""
    name = max(ratios, key=lambda key: ratios[key])
    mean = np.exp(np.mean(np.log(list(ratios.values()))))
    print(f"\ngeometric mean {mean:.2f} over {len(ratios)}, worst {ratios[name]:.2f} ({name})\n", flush=True)


def loosest(fit, objective, goal, cap):
    """Return the seconds and the loosest tolerance with which a fit reaches the goal; None if none does."""
    for tol in LADDER.tolist():
        seconds, w = timed(lambda tol=tol: fit(tol))
        if objective(w) <= goal:
            return seconds, tol
        if seconds > cap:
            break
    return None


# a. hinge, L2


def solve(X, y, loss, lam, weights=None, bias=False, tol=TOL):
    """Return our result."""
    joint = isinstance(loss, LOSSES.VectorLoss)
    risk = cut.MulticlassRisk(X, y, loss) if joint else cut.LinearRisk(X, y, loss, intercept=bias)
    return cut.Problem(risk, cut.L2(lam, weights=weights)).solve(tol=tol, time_limit=30.0)


def hinge(args):
    print("a. hinge + L2 / liblinear, ms\n")
    ratios = {}
    for name, X, y in all_sets(args):
        row = []
        for lam in args.lam:
            ours = partial(solve, X, y, LOSSES.Hinge(), lam)
            ours()
            found = fastest(X, y, lam, (1 + TOL) * ours(tol=1e-6).objective, args.cap)
            theirs = partial(fit, X, y, lam, found.max_iter, found.tol) if found.reached else None
            own, peer = compare(ours, theirs, args.repeats, args.cap)
            ratios[f"{name}, {lam:g}"] = own / peer
            row.append(f"{1e3 * own:.2f} / {'' if theirs else '> '}{1e3 * peer:.2f} = {own / peer:.2f}")
        print(f"| {name} {X.shape[0]} x {X.shape[1]} | {' | '.join(row)} |", flush=True)
    for lam in args.lam:
        print(f"weight {lam:g}:", end="")
        report({name: ratio for name, ratio in ratios.items() if name.endswith(f", {lam:g}")})


# b. other losses


def huber(X, y, lam, tol):
    """Minimise with L-BFGS."""

    def both(w):
        r = X @ w - y
        inside = np.clip(r, -1.0, 1.0)
        return (inside * (r - 0.5 * inside)).mean() + 0.5 * lam * (w @ w), X.T @ inside / len(y) + lam * w

    return optimize.minimize(
        both, np.zeros(X.shape[1]), jac=True, method="L-BFGS-B", options={"gtol": tol, "ftol": 0}
    ).x


def peers(loss, X, y, lam):
    """Return the ways of others to the same optimum, by name, as functions of a tolerance."""
    m, plain = X.shape[0], {"fit_intercept": False}
    C = 1.0 / (lam * m)

    def with_tol(kind, scale=1.0, **options):
        return lambda tol: scale * kind(tol=tol, **plain, **options).fit(X, y).coef_.ravel()

    many = {"C": C, "max_iter": 100_000}
    if isinstance(loss, LOSSES.Logistic):
        solvers = ("lbfgs", "liblinear", *(("newton-cholesky",) if X.shape[1] < 2000 else ()))
        return {name: with_tol(LogisticRegression, solver=name, **many) for name in solvers}
    if isinstance(loss, LOSSES.Softmax):
        return {
            name: with_tol(LogisticRegression, solver=name, **many) for name in ("lbfgs", "newton-cholesky")
        }
    if isinstance(loss, LOSSES.MulticlassHinge):
        return {"liblinear": with_tol(LinearSVC, multi_class="crammer_singer", **many)}
    if isinstance(loss, LOSSES.SquaredHinge):
        return {f"liblinear, dual={dual}": with_tol(LinearSVC, dual=dual, **many) for dual in (True, False)}
    if isinstance(loss, LOSSES.Squared):
        solvers = ("lsqr", "sparse_cg") if sparse.issparse(X) else ("cholesky", "svd", "lsqr")
        return {name: with_tol(Ridge, alpha=lam * m, solver=name) for name in solvers}
    if isinstance(loss, LOSSES.Huber):
        return {"L-BFGS": lambda tol: huber(X, y, lam, 1e-2 * tol)}
    if isinstance(loss, LOSSES.EpsilonInsensitive):
        return {"liblinear": with_tol(LinearSVR, epsilon=loss.epsilon, **many)}
    return {"liblinear": with_tol(LinearSVR, epsilon=0.0, C=0.5 * C, max_iter=100_000)}


CASES = {
    "logistic": LOSSES.Logistic(), "squared hinge": LOSSES.SquaredHinge(), "squared": LOSSES.Squared(),
    "Huber": LOSSES.Huber(1.0), "epsilon-insensitive": LOSSES.EpsilonInsensitive(0.1),
    "quantile 0.5": LOSSES.Quantile(0.5), "softmax": LOSSES.Softmax(),
    "Crammer-Singer": LOSSES.MulticlassHinge(),
}  # fmt: skip


def targets(loss, X, y):
    """Return labels, or a target with noise."""
    if getattr(loss, "variable", "margin") == "margin":
        return y
    return y + np.random.default_rng(1).standard_normal(y.size)


def losses(args):
    found = [cell for cell in all_sets(args) if cell[0] in CHOSEN]
    digits, labels = load_digits(return_X_y=True)
    several = [("digits", digits / 16.0, labels)]
    several += [
        ("waveform", X, np.digitize(X[:, 0], [-0.5, 0.5])) for name, X, _ in found if name == "waveform"
    ]
    print("b. other losses + L2 / the fastest peer\n")
    for name in args.losses:
        loss, ratios = CASES[name], {}
        sets = several if isinstance(loss, LOSSES.VectorLoss) else found
        for (data, X, y), lam in product(sets, args.lam):
            ours = partial(solve, X, targets(loss, X, y), loss, lam)
            ours()
            close, ways = ours(tol=1e-6), peers(loss, X, targets(loss, X, y), lam)
            objective, goal = close.certificate.problem.objective, (1 + TOL) * close.objective
            reached = {way: loosest(attempt, objective, goal, args.cap) for way, attempt in ways.items()}
            way = min((way for way in reached if reached[way]), key=lambda w: reached[w][0], default=None)
            theirs = partial(ways[way], reached[way][1]) if way else None
            own, peer = compare(ours, theirs, args.repeats, args.cap)
            ratios[f"{data}, {lam:g}: {1e3 * own:.2f} / {1e3 * peer:.2f} ms, {way}"] = own / peer
        print(f"{name}:", *(f"{ratio:.2f}" for ratio in ratios.values()), end="")
        report(ratios)


# c. small


def least(action, repeats):
    """Return the least CPU milliseconds of some runs, after runs in which all is compiled that pays."""
    for _ in range(10):
        action()
    return 1e3 * min(timed(action)[0] for _ in range(repeats))


def small(args):
    print("c. estimators by their defaults, ms, ours / theirs; of it the solve\n")
    for m, n in ((100, 5), (500, 20), (2000, 20)):
        X, t, y = gaussian(m, n)
        pairs = {
            "LinearSVC": (estimators.LinearSVC(), LinearSVC(loss="hinge", max_iter=100_000), y),
            "LogisticRegression": (
                estimators.LinearClassifier("logistic", alpha=1.0 / m), LogisticRegression(), y,
            ),
            "Ridge": (estimators.LinearRegressor(alpha=1.0 / m), Ridge(), t),
            "Lasso": (estimators.LinearRegressor(penalty="l1", alpha=0.1), Lasso(alpha=0.1), t),
        }  # fmt: skip
        for name, (mine, peer, target) in pairs.items():
            least(partial(mine.fit, X, target), 10)
            fits = partial(mine.fit, X, target), partial(peer.fit, X, target)
            own, other = compare(*fits, 6 * args.repeats, args.cap)
            problem, start = mine.result_.certificate.problem, mine._x0(mine.result_.certificate.problem)
            alone = least(partial(problem.solve, x0=start, tol=TOL), 6 * args.repeats)
            print(f"{m} x {n} {name}: {1e3 * own:.2f} / {1e3 * other:.2f} = {own / other:.2f}; {alone:.2f}")
        for loss in CASES.values():
            if isinstance(loss, LOSSES.VectorLoss):
                continue
            target, row = targets(loss, X, y), []
            for lam, bias in product(args.lam, (False, True)):
                weights = np.r_[np.ones(n), 0.0] if bias else None
                row.append(least(partial(solve, X, target, loss, lam, weights, bias), 4 * args.repeats))
            cells = " ".join(f"{ms:.2f}" for ms in row)
            print(f"{m} x {n} {loss!r}, each weight without and with a free bias: {cells}", flush=True)


# d. grids


def grids(args):
    print("\nd. 25 weights x 5 folds, s, ours / theirs\n")
    X, y = real("statlog-german-credit") if HAS_FILES else gaussian(1000, 24)[::2]
    alphas = np.logspace(0, -5, 25)
    C = 1.0 / (alphas * len(y))
    known, grid = {"alphas": alphas, "cv": 5}, GridSearchCV(LinearSVC(loss="hinge"), {"C": C}, cv=5)
    target = targets(LOSSES.Squared(), X, y)
    pairs = {
        "LogisticRegressionCV": (
            estimators.LinearClassifierCV("logistic", **known), LogisticRegressionCV(Cs=C, cv=5), y,
        ),
        "LassoCV": (estimators.LinearRegressorCV(penalty="l1", **known), LassoCV(**known), target),
        "GridSearchCV(LinearSVC)": (estimators.LinearClassifierCV("hinge", **known), grid, y),
    }  # fmt: skip
    for name, (mine, peer, goal) in pairs.items():
        mine.fit(X, goal)
        own, other = compare(partial(mine.fit, X, goal), partial(peer.fit, X, goal), 2, args.cap)
        print(f"{name}: {own:.2f} / {other:.2f} = {own / other:.2f}", flush=True)


PARTS = {"a": hinge, "b": losses, "c": small, "d": grids}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--lam", nargs="+", type=float, default=[1e-2, 1e-4, 1e-6])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--cap", type=float, default=5.0)
    parser.add_argument("--quick", action="store_true", help="a tenth of the generated data")
    names = [*(SETS if HAS_FILES else ()), "digits, odd", "like covertype", "like text"]
    parser.add_argument("--data", nargs="+", default=names, choices=names, help="for parts a and b")
    parser.add_argument("--losses", nargs="+", default=list(CASES), choices=CASES, help="for part b")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    set_threads(1)
    for part in args.parts:
        PARTS[part](args)


if __name__ == "__main__":
    main()

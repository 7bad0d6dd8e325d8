"""Learning polynomial kernels of degree 3: sampled kernels against all of them, as two figures and tables.

First figure: the objective over time on UCI data, C = 1e5, of steps on sampled kernels, of steps on kernels
drawn uniformly, and of the closed-form update of all weights (Kloft et al. 2011, p = 2) on the list of all
monomials. All minimise the same function. The gaps in the table are to the best lower bound of the three.

Second figure: seconds and test error against the number of variables on sums of ten monomials without noise,
500 training examples, C chosen by a validation set.

Run: python benchmarks/polynomial_mkl.py [--quick] [--seconds 20] [--only convergence] [--figures folder]
"""

import argparse
from pathlib import Path
from time import perf_counter

import numpy as np
from data import FOLDER
from scipy.linalg import cho_factor, cho_solve

from cutplane.mkl.base_kernels import multisets
from cutplane.mkl.polynomial import PolynomialMKL

SETS = {  # file, class against the rest, training and test examples
    "german": ("statlog-german-credit", 1, 350, 500),
    "ionosphere": ("ionosphere", 1, 140, 175),
    "ringnorm": ("ringnorm", 1, 500, 2000),
    "sonar": ("conn-bench-sonar-mines-rocks", 1, 83, 104),
    "splice": ("molec-biol-splice", 2, 500, 1491),
    "waveform": ("waveform", 0, 500, 2000),
}
METHODS = {"sampled": "importance", "uniform": "uniform"}
DEGREE = 3


def load(name):
    """Return standardised training and test data with a constant variable, or None if there is no file."""
    stem, positive, n_train, n_test = SETS[name]
    path = FOLDER.parent / "uci" / f"{stem}.csv"
    if not path.exists():
        print(f"{name}: no file {path}; set CUTPLANE_DATA to the folder that holds uci/{path.name}")
        return None
    table = np.loadtxt(path, delimiter=",")
    table = table[np.random.default_rng(0).permutation(len(table))]
    labels = np.where(table[:, -1] == positive, 1.0, -1.0)
    return split(table[:, :-1], labels, n_train, n_test)


def split(X, y, n_train, n_test):
    """Return training and test data, scaled by the training data; variables constant there are left out."""
    train, test = slice(n_train), slice(len(y) - n_test, None)
    X = X[:, np.ptp(X[train], axis=0) > 0.0]
    X = (X - X[train].mean(axis=0)) / X[train].std(axis=0)
    y = (y - y[train].mean()) / y[train].std()
    return X[train], y[train], X[test], y[test]


class AllMonomials:
    """The closed-form update on the list of all monomials of a constant and the variables."""

    def __init__(self, X, y, C):
        self.began = perf_counter()
        self.y, self.C = y, C
        self.rows, orders = np.empty((0, DEGREE), dtype=int), np.empty(0)
        r = X.shape[1] + 1
        for degree in range(DEGREE + 1):
            rows, counts = multisets(r, degree)
            padded = np.hstack([rows, np.full((len(rows), DEGREE - degree), r)])
            self.rows, orders = np.vstack([self.rows, padded]), np.append(orders, counts)
        self.share = orders**0.25  # sqrt(N) v v' with weights in the l2 ball
        self.V = self.monomials(X) * self.share

    def monomials(self, X):
        """Return a column for each monomial."""
        padded = np.column_stack([X, np.ones((len(X), 2))])
        columns = padded[:, self.rows[:, 0]]
        for factor in self.rows.T[1:]:
            columns *= padded[:, factor]
        return columns

    def solve(self, seconds, max_iter=10**6, tol=1e-3):
        """Return times, objectives and lower bounds."""
        curve, y = [], self.y
        self.weights = np.full(self.V.shape[1], self.V.shape[1] ** -0.5)
        for _ in range(max_iter):
            scaled = self.V * np.sqrt(self.weights)
            kernel = scaled @ scaled.T
            a = cho_solve(cho_factor(kernel + np.eye(y.size) / self.C, overwrite_a=True), y)
            forms = (a @ self.V) ** 2
            lower = 0.5 * (a @ y) ** 2 / (a @ a / self.C + np.linalg.norm(forms))
            curve.append((perf_counter() - self.began, 0.5 * (y @ a), lower))
            self.coefficients = self.weights * (a @ self.V) * self.share
            if curve[-1][0] > seconds or curve[-1][1] - lower <= tol * curve[-1][1]:
                break
            self.weights = np.cbrt(self.weights**2 * forms)
            self.weights /= np.linalg.norm(self.weights)
        return np.array(curve).T

    def predict(self, Z):
        """Return the predictions, a block of rows at a time."""
        return np.concatenate([self.monomials(rows) @ self.coefficients for rows in np.array_split(Z, 20)])


def run(X, y, C, sampling, **limits):
    """Return the result, and its times, objectives and lower bounds."""
    result = PolynomialMKL(X, y, DEGREE, C=C, constant=True).solve(sampling=sampling, tol=1e-3, **limits)
    names = ("elapsed", "upper_bound", "lower_bound")
    return result, np.array([result.history.column(name) for name in names])


def convergence(args):
    """Draw the objective over time; print what each method reached."""
    found = {}
    seconds = 2.0 if args.quick else args.seconds
    print(f"\nObjective and relative gap after {seconds:g} s, ms per step; C = 1e5, degree {DEGREE}\n")
    print("| data | examples x variables | monomials | sampled | uniform | all, closed form |")
    print("|---" * 6 + "|")
    for name in list(SETS)[::3] if args.quick else SETS:
        data = load(name)
        if data is None:
            continue
        X, y = data[:2]
        curves = {}
        steps = {}
        for title, sampling in METHODS.items():
            result, curves[title] = run(X, y, 1e5, sampling, max_iter=10**7, time_limit=seconds)
            steps[title] = result.n_iter
        listed = AllMonomials(X, y, 1e5)
        curves["all, closed form"] = listed.solve(seconds)
        steps["all, closed form"] = curves["all, closed form"].shape[1]
        lower = max(curve[2].max() for curve in curves.values())
        cells = [
            f"{curve[1].min():.4g}, gap {1 - lower / curve[1].min():.2g}, "
            f"{1e3 * curve[0, -1] / steps[title]:.3g} ms"
            for title, curve in curves.items()
        ]
        size = f"{X.shape[0]} x {X.shape[1]} | {listed.V.shape[1]:,}"
        print(f"| {name} | {size} | " + " | ".join(cells) + " |", flush=True)
        found[name] = lower, curves
    if found:
        draw_convergence(found, args.figures / "polynomial_mkl.png")


def draw_convergence(found, path):
    import matplotlib.pyplot as plt

    columns = min(3, len(found))
    rows = -(-len(found) // columns)
    size = 4 * columns, 3.4 * rows
    fig, axes = plt.subplots(rows, columns, figsize=size, constrained_layout=True, squeeze=False)
    for ax, (name, (lower, curves)) in zip(axes.flat, found.items(), strict=False):
        for title, curve in curves.items():
            ax.loglog(curve[0], curve[1], ".-", label=title)
        ax.axhline(lower, color="k", ls=":", label="lower bound")
        ax.set(title=name, xlabel="seconds", ylabel="objective", ylim=(0.5 * lower, 1e4 * lower))
    axes.flat[0].legend()
    fig.savefig(path, dpi=120)
    print(f"\nfigure: {path}")


def planted(r, seed=0):
    """Return training, validation and test data: a sum of ten monomials of up to three of r variables."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (2500, r))
    rows = np.concatenate([np.full((1, DEGREE), r)] + [rows_of(r, degree) for degree in range(1, DEGREE + 1)])
    padded = np.column_stack([X, np.ones(len(X))])
    terms = rows[rng.choice(len(rows), 10, replace=False)]
    y = sum(np.prod(padded[:, term], axis=1) for term in terms)
    return split(X, y, 500, 2000)


def rows_of(r, degree):
    rows, _ = multisets(r, degree)
    return np.hstack([rows, np.full((len(rows), DEGREE - degree), r)])


def scaling(args):
    """Draw seconds and test error over the number of variables."""
    sizes = [5, 10, 20] if args.quick else [5, 10, 20, 30, 40, 60, 80, 100]
    costs = [1e2, 1e4] if args.quick else [1e-1, 1e1, 1e3, 1e5, 1e7]
    steps = 1000 if args.quick else 5000
    rounds = 5 if args.quick else 20
    found = {"sampled": [], "all, closed form": []}
    print(f"\n{steps} sampled steps, or {rounds} updates of all: seconds, test error / variance\n")
    print("| variables | monomials | " + " | ".join(found) + " |\n|---|---|---|---|")
    for r in sizes:
        X, y, Z, targets = planted(r)
        count = sum(len(multisets(r + 1, degree)[0]) for degree in range(DEGREE + 1))
        fits = {
            "sampled": lambda C, X=X, y=y: run(X, y, C, "importance", max_iter=steps)[0],
            "all, closed form": lambda C, X=X, y=y: listed(X, y, C, rounds),
        }
        cells = []
        for title, fit in fits.items():
            if title != "sampled" and count > args.most:
                cells.append("-")
                continue
            found[title].append((r, *best(fit, costs, Z, targets)))
            cells.append(f"{found[title][-1][1]:.3g} s, {found[title][-1][2]:.2g}")
        print(f"| {r} | {count:,} | " + " | ".join(cells) + " |", flush=True)
    draw_scaling(found, args.figures / "polynomial_mkl_scaling.png")


def listed(X, y, C, rounds):
    model = AllMonomials(X, y, C)
    model.solve(np.inf, max_iter=rounds)
    return model


def best(fit, costs, Z, targets):
    """Return the seconds of a fit and the error on the second half of the data, C chosen on the first."""
    errors, began, half = [], perf_counter(), len(Z) // 2
    for C in costs:
        squares = (fit(C).predict(Z) - targets) ** 2
        errors.append((squares[:half].mean(), squares[half:].mean()))
    return (perf_counter() - began) / len(costs), min(errors)[1] / targets[half:].var()


def draw_scaling(found, path):
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 2, figsize=(8, 3.4), constrained_layout=True)
    for title, rows in found.items():
        r, seconds, error = np.array(rows).T
        axes[0].loglog(r, seconds, "o-", label=title)
        axes[1].semilogy(r, error, "o-", label=title)
    axes[0].set(xlabel="variables", ylabel="seconds for a C")
    axes[1].set(xlabel="variables", ylabel="test error / variance")
    axes[0].legend()
    fig.savefig(path, dpi=120)
    print(f"\nfigure: {path}")


def main(args):
    for name, part in (("convergence", convergence), ("scaling", scaling)):
        if args.only in (None, name):
            part(args)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two data sets, 2 s each, up to 20 variables")
    parser.add_argument("--seconds", type=float, default=20.0, help="for each method and data set")
    parser.add_argument("--only", choices=("convergence", "scaling"))
    parser.add_argument("--most", type=int, default=60_000, help="monomials that are listed at most")
    parser.add_argument("--figures", type=Path, default=Path(__file__).parent)
    main(parser.parse_args())

"""LPBoost, MLPBoost, ERLPBoost and corrective ERLPBoost: rounds and seconds to a soft margin within 0.01.

The comparison of Mitsuboshi, Hatano and Takimoto ("Boosting as Frank-Wolfe", 2022): decision trees of depth
2, nu/m in {0.01, 0.02, 0.05, 0.1}, ringnorm, twonorm and waveform by Breiman's formulas, and sets of the UCI
repository where $CUTPLANE_DATA/uci has them. Then the data that are worst for LPBoost (Warmuth, Glocer,
Ratsch, NIPS 2007), and 50,000 x 100 with stumps beside scikit-learn's AdaBoost and HistGradientBoosting.

Run: python benchmarks/boosting.py [--sets ringnorm twonorm ...] [--rounds 500] [--cap 60] [--figure FILE]
         [--parts sets worst large]
"""

import argparse
import os
from pathlib import Path
from time import perf_counter

import numpy as np

import cutplane as cut
from cutplane import boosting

TOL = 0.01
SHARES = (0.01, 0.02, 0.05, 0.1)
METHODS = {
    "LPBoost": boosting.LPBoost(),
    "MLPBoost": boosting.MLPBoost(),
    "ERLPBoost": boosting.ERLPBoost(),
    "corrective": boosting.CorrectiveERLPBoost(),
}
GENERATED = ("ringnorm", "twonorm", "waveform")
FOLDER = Path(os.environ.get("CUTPLANE_DATA", Path(__file__).parents[2] / "shared" / "data")) / "uci"
FILES = ("pima", "statlog-german-credit", "breast-cancer-wisc-diag", "ionosphere")


def load(name):
    """Return X and y in {-1, 1}; None, with a line that says so, if a file is not there."""
    if name == "waveform":
        return cut.datasets.waveform(2000, seed=0, binary=True)
    if name in GENERATED:
        return getattr(cut.datasets, name)(2000, seed=0)
    file = FOLDER / f"{name}.csv"
    if not file.exists():
        print(f"{name}: no file {file}; set CUTPLANE_DATA to the folder that holds uci/{name}.csv")
        return None
    rows = np.genfromtxt(file, delimiter=",")
    return rows[:, :-1], np.where(rows[:, -1] > 0, 1.0, -1.0)


def comparison(names, rounds, cap, figure):
    """Print the table of rounds and seconds for each set, share and method."""
    from sklearn.tree import DecisionTreeClassifier

    learner = DecisionTreeClassifier(max_depth=2, random_state=0)
    print(
        f"Trees of depth 2, tol = {TOL}, at most {rounds} rounds and {cap:g} s: rounds / seconds (the gap "
        "if it was not closed)\n"
    )
    print("| data | nu/m | " + " | ".join(METHODS) + " |\n|" + "---|" * (2 + len(METHODS)))
    runs = {}
    for name in names:
        data = load(name)
        if data is None:
            continue
        X, y = data
        for share in SHARES:
            cells = []
            for label, method in METHODS.items():
                problem = boosting.SoftMargin(X, y, max(1.0, share * len(y)), learner)
                result = problem.solve(method, tol=TOL, max_iter=rounds, time_limit=cap)
                seconds = result.history[-1].elapsed
                gap = "" if result.status is cut.Status.OPTIMAL else f" ({result.gap_abs:.2g})"
                cells.append(f"{result.n_iter} / {seconds:.3g}{gap}")
                runs[name, share, label] = result.history
            print(f"| {name} {X.shape[0]} x {X.shape[1]} | {share} | " + " | ".join(cells) + " |", flush=True)
    if figure and runs:
        draw(runs, figure)


def draw(runs, file):
    """Plot the gaps over the seconds, a panel for each set at its smallest nu."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(name for name, _, _ in runs))
    fig, axes = plt.subplots(
        1, len(names), figsize=(3.2 * len(names), 3), squeeze=False, layout="constrained"
    )
    for ax, name in zip(axes[0], names, strict=True):
        for label in METHODS:
            history = runs[name, SHARES[0], label]
            gaps = np.maximum(history.column("upper_bound") - history.column("lower_bound"), 1e-4)
            ax.loglog(history.column("elapsed"), gaps, label=label)
        ax.axhline(TOL, color="0.5", linewidth=0.8)
        ax.set(title=f"{name}, nu = {SHARES[0]} m", xlabel="seconds", ylabel="gap of the soft margin")
    axes[0, 0].legend()
    fig.savefig(file)
    print(f"\nfigure: {file}")


def worst_case(m, slack=None):
    """Return the margins, m x (m/2 + 1), for which LPBoost needs m/2 rounds; m even."""
    half = m // 2
    slack = slack or 1.0 / (8 * m)
    A = np.empty((m, half + 1))
    for j in range(1, half + 1):
        A[:half, j - 1] = 1.0 if j == 1 else -1.0 + (2 * j + 1) * slack
        A[half:, j - 1] = -1.0 + (2 * j + 1) * slack
        A[half + j - 1, j - 1] = -1.0 + 2 * j * slack
        if j > 1:
            A[half + j - 2, j - 1] = 1.0
    A[:half, half] = -1.0 + slack
    A[half:, half] = 1.0 - slack
    return A


def worst(sizes):
    """Print the rounds of each method on the worst case."""
    print("\nThe worst case of LPBoost, nu = 1: rounds / seconds\n")
    print("| m | " + " | ".join(METHODS) + " |\n|" + "---|" * (1 + len(METHODS)))
    for m in sizes:
        cells = []
        for method in METHODS.values():
            problem = boosting.SoftMargin(worst_case(m), np.ones(m), 1, boosting.HypothesisMatrix())
            result = problem.solve(method, tol=TOL, max_iter=5000, time_limit=60)
            gap = "" if result.status is cut.Status.OPTIMAL else f" ({result.gap_abs:.2g})"
            cells.append(f"{result.n_iter} / {result.history[-1].elapsed:.3g}{gap}")
        print(f"| {m} | " + " | ".join(cells) + " |", flush=True)


def large():
    """Print seconds and test errors with stumps at 50,000 x 100, beside scikit-learn at its defaults."""
    from sklearn.ensemble import AdaBoostClassifier, HistGradientBoostingClassifier

    rng = np.random.default_rng(0)
    m, n = 50_000, 100
    X = rng.standard_normal((2 * m, n))
    scores = np.tanh(X[:, :20]) @ rng.standard_normal(20) + 0.5 * rng.standard_normal(2 * m)
    y = np.where(scores > 0.0, 1.0, -1.0)
    X, y, test_X, test_y = X[:m], y[:m], X[m:], y[m:]
    boosting.SoftMargin(X[:100], y[:100], 10, boosting.DecisionStumps()).solve()
    print(
        f"\nStumps, {m} x {n}, tol = {TOL}\n\n"
        "| method | seconds | rounds | stumps | test error |\n|---|---|---|---|---|"
    )
    for share in (0.1, 0.3):
        for label in ("ERLPBoost", "LPBoost", "MLPBoost"):
            start = perf_counter()
            problem = boosting.SoftMargin(X, y, share * m, boosting.DecisionStumps())
            result = problem.solve(METHODS[label], tol=TOL, time_limit=60)
            seconds = perf_counter() - start
            error = np.mean(result.ensemble.predict(test_X) != test_y)
            note = "" if result.status is cut.Status.OPTIMAL else f", gap {result.gap_abs:.2g}"
            print(
                f"| {label}, nu = {share} m{note} | {seconds:.3g} | {result.n_iter} | "
                f"{len(result.ensemble)} | {error:.4f} |",
                flush=True,
            )
    for label, model in {
        "AdaBoost (50 stumps)": AdaBoostClassifier(random_state=0),
        "HistGradientBoosting (100 stumps)": HistGradientBoostingClassifier(max_depth=1, random_state=0),
    }.items():
        start = perf_counter()
        model.fit(X, y)
        seconds = perf_counter() - start
        print(f"| {label} | {seconds:.3g} | | | {np.mean(model.predict(test_X) != test_y):.4f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=[*GENERATED, *FILES])
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--cap", type=float, default=60.0, help="seconds of one run")
    parser.add_argument("--figure", help="file of a figure of the gaps")
    parser.add_argument("--parts", nargs="+", default=["sets", "worst", "large"])
    args = parser.parse_args()
    if "sets" in args.parts:
        comparison(args.sets, args.rounds, args.cap, args.figure)
    if "worst" in args.parts:
        worst((50, 200, 1000))
    if "large" in args.parts:
        large()


if __name__ == "__main__":
    main()

"""A certified linear SVM against scikit-learn's liblinear at the same error, and against plain BMRM and OCAS.

Ours: all the time from raw X, y to a certified relative gap of 1e-3, in this process, after one solve of tiny
data, so that no compilation is counted, with as many threads as `cut.get_threads()` says. liblinear: all the
time of LinearSVC.fit (hinge loss, dual, no intercept, C = 1 / (lam m)), one thread, at the fastest setting
found outside the clock whose relative primal error is at most 1e-3: see liblinear.py. Best of `--repeats`, in
alternation. A ratio below 1 means that we are faster.

With --ocas: our seconds on the cells of a table of liblinear and of the C code of OCAS, beside its numbers.

Run: python benchmarks/linear.py [--quick] [--data sparse dense a9a w8a] [--lam 1e-2 1e-4 1e-6] [--repeats 3]
         [--float32] [--cap 120] [--settings FILE] [--no-plain] [--ocas]
"""

import argparse
import os
from time import perf_counter

import numpy as np
from data import HEADINGS, NAMES, load_all
from liblinear import Memory, Setting, best_known, fastest, fit, objective

import cutplane as cut
from cutplane.datasets import planted_dense, planted_text
from cutplane.runtime.threads import get_threads

TOL = 1e-3
PLAIN = {
    "BMRM": cut.BMRM(),
    "OCAS": cut.OCAS(),
    "OCAS, second cut": cut.Portfolio(moves=()),
}
PLAIN_LIMIT = 60.0
LONG = 20.0  # seconds; what took longer is not repeated

# Seconds to relative primal error 1e-2 / 1e-3 / 1e-4 of liblinear and of libocas (C), each on one thread of a
# 2-core machine, and None where it was not reached; 0.5 |w|^2 + C sum hinge on other data of the same kind.
PUBLISHED = {
    ("sparse", 0.1): ((0.06, 0.06, 0.06), (0.016, 0.016, 0.016)),
    ("sparse", 1.0): ((0.07, 0.07, 0.13), (0.14, 0.35, 1.3)),
    ("sparse", 10.0): ((0.24, 0.29, 0.52), (1.4, 7.7, 38.0)),
    ("sparse", 100.0): ((0.43, 0.66, 0.66), (9.2, 40.0, 106.0)),
    ("dense", 1e-4): ((0.10, 0.11, 0.11), (0.034, 0.058, 0.064)),
    ("dense", 0.01): ((0.17, 0.18, 0.18), (0.063, 0.15, 0.25)),
    ("dense", 1.0): ((1.7, 2.0, 2.0), (0.07, 0.84, 1.5)),
    ("dense", 100.0): ((None, None, None), (0.08, 69.0, 150.0)),
}


def solve(X, y, lam, method="auto", tol=TOL, **options):
    """Return the result and the seconds from raw data to it."""
    start = perf_counter()
    problem = cut.Problem(cut.LinearRisk(X, y, cut.losses.Hinge()), cut.L2(lam))
    result = problem.solve(method, tol=tol, **options)
    return result, perf_counter() - start


def warm_up():
    """Compile all that is compiled, for the layouts and precisions of the data."""
    for dtype in (np.float64, np.float32):
        for X, y in (planted_text(200, 500, 0.02, dtype=dtype), planted_dense(500, 5, dtype=dtype)):
            for method in ("auto", *PLAIN.values()):
                solve(X, y, 1e-3, method)
    fit(*planted_dense(100, 3), 1e-2, 10, 0.1)


def shares(result, seconds):
    """Return where the time went: before the first query, in the oracles, the masters, the engine."""
    parts = [result.history.column(f"{part}_seconds").sum() for part in ("oracle", "master", "other")]
    return " / ".join(f"{100 * part / seconds:.0f}" for part in (max(0.0, seconds - sum(parts)), *parts))


def prepare(X, y, lam, cap):
    """Find, outside the clock, the best known objective and liblinear's setting."""
    close, _ = solve(X, y, lam, tol=1e-6, time_limit=cap)
    best = best_known(X, y, lam, close.objective, min(cap / 4, 20.0))
    setting = fastest(X, y, lam, (1 + TOL) * best, cap)
    return {"best": best, "known to": 1 - close.lower_bound / best, "setting": vars(setting)}


def cell(name, X, y, lam, found, args):
    """Print one cell of the grid and return its ratio."""
    best, setting = found["best"], Setting(**found["setting"])
    ours, peer = [], []
    for _ in range(args.repeats):
        result, seconds = solve(X, y, lam, time_limit=args.cap)
        ours.append(seconds)
        if setting.reached:
            w, seconds = fit(X, y, lam, setting.max_iter, setting.tol)
            peer.append(seconds)
            assert objective(X, y, w, lam) <= (1 + TOL) * best * (1 + 1e-9)
        else:
            peer.append(args.cap)
        if ours[-1] > LONG or (setting.reached and peer[-1] > LONG):
            break
    ratio = min(ours) / min(peer)
    limit = "" if setting.reached else "> "
    print(
        f"| {name} | {lam:g} | {min(ours):.3g} | {limit}{min(peer):.3g} ({setting}) | "
        f"{'<= ' if limit else ''}{ratio:.2g} | {result.status}, {result.gap:.1e} | "
        f"{result.objective / best - 1:.0e} (best known to {found['known to']:.0e}) | "
        f"{result.n_iter}, {result.oracle_calls} | {shares(result, ours[-1])} |",
        flush=True,
    )
    return ratio


def grid(args):
    memory, dtype = Memory(args.settings), np.float32 if args.float32 else np.float64
    sets = list(load_all(args.data, dtype, args.quick))
    for name, X, _ in sets:
        print(f"{name}: {HEADINGS[name]}{', a tenth of it' if args.quick else ''}, {X.dtype}, {X.shape}")
    print(
        f"\nSeconds to relative error {TOL:g}, ours with the proof; ours / liblinear.\n\n"
        "| data | lam | ours | liblinear | ratio | status, gap | error | iterations, calls | "
        "% setup / oracle / master / engine |\n" + rule(9)
    )
    ratios = {}
    for name, X, y in sets:
        for lam in args.lam:
            key = f"{name} {lam:g} {X.dtype} {X.shape[0]} cap {args.cap:g}"
            found = memory(key, lambda X=X, y=y, lam=lam: prepare(X, y, lam, args.cap))
            ratios[name, lam] = cell(name, X, y, lam, found, args)
    if ratios:
        name, lam = max(ratios, key=lambda pair: ratios[pair])
        mean = np.exp(np.mean(np.log(list(ratios.values()))))
        print(f"\ngeometric mean {mean:.2g}, worst {ratios[name, lam]:.2g} ({name}, lam = {lam:g})")
    if not args.no_plain:
        plain(sets, args)


def plain(sets, args):
    """Print what the plain methods take, each once."""
    limit = min(PLAIN_LIMIT, args.cap)
    print(
        f"\nPlain methods, the same tolerance, at most {limit:g} s.\n\n"
        "| data | lam | method | seconds | gap | iterations | calls | % setup / oracle / master / engine |\n"
        + rule(8)
    )
    for name, X, y in sets:
        for lam in args.lam:
            for label, method in {"auto": "auto", **PLAIN}.items():
                result, seconds = solve(X, y, lam, method, time_limit=limit)
                print(
                    f"| {name} | {lam:g} | {label} | {seconds:.3g} | {result.gap:.1e} | {result.n_iter} | "
                    f"{result.oracle_calls} | {shares(result, seconds)} |",
                    flush=True,
                )


def published_cells(args):
    """Print our seconds on the cells of the published table."""
    dtype, part = (np.float32 if args.float32 else np.float64), 10 if args.quick else 1
    makers = {
        "sparse": lambda: planted_text(20_000 // part, 50_000 // part, 0.0015 * part, dtype=dtype),
        "dense": lambda: planted_dense(50_000 // part, 50, dtype=dtype),
    }
    print(
        "Seconds to relative error 1e-2 / 1e-3 / 1e-4 of 0.5 |w|^2 + C sum hinge, ours with the proof.\n"
        "The published numbers are of other data of the same sizes and density, and of another machine.\n\n"
        "| data | C | ours | iterations | liblinear | libocas |\n" + rule(6)
    )
    for name in (name for name in makers if name in args.data):
        X, y = makers[name]()
        for (data, C), (liblinear, libocas) in PUBLISHED.items():
            if data == name:
                runs = []
                for tol in (1e-2, 1e-3, 1e-4):
                    attempts = []
                    while len(attempts) < args.repeats and (not attempts or attempts[-1][1] < LONG):
                        attempts.append(solve(X, y, 1 / (C * len(y)), tol=tol, time_limit=args.cap))
                    runs.append(min(attempts, key=lambda attempt: attempt[1]))
                ours = [seconds if str(result.status) == "OPTIMAL" else None for result, seconds in runs]
                iterations = " / ".join(str(result.n_iter) for result, _ in runs)
                print(
                    f"| {name} | {C:g} | {triple(ours)} | {iterations} | {triple(liblinear)} | "
                    f"{triple(libocas)} |",
                    flush=True,
                )


def rule(columns):
    return "|" + "---|" * columns


def triple(seconds):
    return " / ".join("-" if value is None else f"{value:.3g}" for value in seconds)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=list(NAMES), choices=NAMES)
    parser.add_argument("--lam", nargs="+", type=float, default=[1e-2, 1e-4, 1e-6])
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--cap", type=float, help="seconds of one run, ours or liblinear's")
    parser.add_argument("--quick", action="store_true", help="a tenth of the data, cap 10 s, one repeat")
    parser.add_argument("--float32", action="store_true", help="float32 data (LinearSVC converts them)")
    parser.add_argument("--settings", help="JSON file that keeps what was found outside the clock")
    parser.add_argument("--no-plain", action="store_true", help="leave out plain BMRM and OCAS")
    parser.add_argument("--ocas", action="store_true", help="the cells of the published table instead")
    args = parser.parse_args()
    args.cap = args.cap or (10.0 if args.quick else 120.0)
    args.repeats = args.repeats or (1 if args.quick else 3)
    return args


def machine():
    load = os.getloadavg()[0]
    return f"cutplane {cut.__version__} on {get_threads()} thread(s), liblinear on 1; load {load:.1f}"


if __name__ == "__main__":
    options = arguments()
    print(machine())
    warm_up()
    (published_cells if options.ocas else grid)(options)

"""A certified path of 25 weights of the SVM, every cut reused, against 25 fits of scikit-learn's liblinear.

Ours: all the time of ``problem.path`` from raw X, y, each of its solves to a certified relative gap of 1e-3.
liblinear: the time of 25 fits, one thread, each at the fastest setting found outside the clock whose relative
primal error is at most 1e-3: see liblinear.py. Best of `--repeats`, in alternation. A fit that does not get
there in `--cap` seconds counts as that long, and the ratio is then a bound.

Run: python benchmarks/linear_path.py [--quick] [--data sparse dense a9a w8a] [--repeats 3] [--float32]
         [--cap 20] [--settings FILE]
"""

import argparse
from time import perf_counter

import numpy as np
from data import NAMES, load_all
from liblinear import Memory, Setting, best_known, fastest, fit
from linear import TOL, machine, rule, warm_up

import cutplane as cut

LAMS = np.logspace(0, -6, 25)


def follow(X, y, lams, tol, cap):
    """Return the path and the seconds from raw data to it; `cap` is for each of its solves."""
    start = perf_counter()
    path = cut.Problem(cut.LinearRisk(X, y, cut.losses.Hinge()), cut.L2(1.0)).path(
        lams, tol=tol, time_limit=cap
    )
    return path, perf_counter() - start


def prepare(X, y, lams, cap):
    """Find, outside the clock, the best known objectives and liblinear's settings."""
    close, _ = follow(X, y, lams, 1e-5, cap)
    best, settings = [], []
    for lam, result in zip(lams.tolist(), close, strict=True):
        known = result.objective
        if result.gap > 1e-5:
            known = best_known(X, y, lam, known, cap / 4)
        best.append(known)
        settings.append(vars(fastest(X, y, lam, (1 + TOL) * known, cap)))
    apart = [1 - result.lower_bound / known for result, known in zip(close, best, strict=True)]
    return {"best": best, "known to": max(apart), "settings": settings}


def fits(X, y, lams, settings, cap):
    """Return the seconds of one fit for each weight."""
    return sum(
        fit(X, y, lam, setting.max_iter, setting.tol)[1] if setting.reached else cap
        for lam, setting in zip(lams.tolist(), settings, strict=True)
    )


def main(args):
    lams = LAMS[::3] if args.quick else LAMS
    memory, dtype = Memory(args.settings), np.float32 if args.float32 else np.float64
    print(
        f"{machine()}\n{len(lams)} weights from {lams[0]:g} to {lams[-1]:g}; seconds for all of them\n\n"
        "| data | ours | liblinear | ratio | oracle calls | optimal | largest gap | largest error | "
        "not reached by liblinear |\n" + rule(9)
    )
    ratios = []
    for name, X, y in load_all(args.data, dtype, args.quick):
        key = f"path {name} {len(lams)} {X.dtype} {X.shape[0]} cap {args.cap:g}"
        found = memory(key, lambda X=X, y=y: prepare(X, y, lams, args.cap))
        settings = [Setting(**setting) for setting in found["settings"]]
        ours, peer = [], []
        for _ in range(args.repeats):
            path, seconds = follow(X, y, lams, TOL, args.cap)
            ours.append(seconds)
            peer.append(fits(X, y, lams, settings, args.cap))
        missed = sum(not setting.reached for setting in settings)
        ratios.append(min(ours) / min(peer))
        print(
            f"| {name} | {min(ours):.3g} | {'> ' if missed else ''}{min(peer):.3g} | "
            f"{'<= ' if missed else ''}{ratios[-1]:.2g} | {path.oracle_calls} | "
            f"{sum(str(result.status) == 'OPTIMAL' for result in path)} of {len(path)} | "
            f"{max(result.gap for result in path):.1e} | "
            f"{np.max(path.objectives / found['best']) - 1:.0e} (best known to {found['known to']:.0e}) | "
            f"{missed} |",
            flush=True,
        )
    if ratios:
        print(f"\ngeometric mean {np.exp(np.mean(np.log(ratios))):.2g}, worst {max(ratios):.2g}")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=list(NAMES), choices=NAMES)
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--cap", type=float, help="seconds of one solve or fit")
    parser.add_argument("--quick", action="store_true", help="a tenth of the data, 9 weights, cap 5 s, once")
    parser.add_argument("--float32", action="store_true", help="float32 data (LinearSVC converts them)")
    parser.add_argument("--settings", help="JSON file that keeps what was found outside the clock")
    args = parser.parse_args()
    args.cap = args.cap or (5.0 if args.quick else 20.0)
    args.repeats = args.repeats or (1 if args.quick else 3)
    return args


if __name__ == "__main__":
    options = arguments()
    warm_up()
    main(options)

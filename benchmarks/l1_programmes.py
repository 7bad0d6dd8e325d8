"""Certified l1 models with piecewise linear losses against HiGHS on the whole linear programme.

The hinge loss and the quantile loss with an l1 norm, at shares of the weight at which all coordinates would
be zero with the slopes at zero. Ours: CPU seconds from X, y to a certified relative gap, by "auto". HiGHS:
the faster of dual simplex and interior points, on the programme with x = p - q, through scipy, to about 1e-9.
Best of `--repeats`, in alternation, on one thread, compiled. A ratio below 1 means that we are faster.

Run: python benchmarks/l1_programmes.py [--data NAME ...] [--tol 1e-3] [--repeats 3]
"""

import argparse
import os
import warnings
from time import process_time

import numpy as np
from scipy import sparse
from scipy.optimize import linprog
from sparse_linear import MAKERS, make

import cutplane as cut
from cutplane.runtime.threads import set_threads

DATA = (
    "wide 100 x 500",
    "wide 100 x 4,000",
    "power law 500 x 2,000",
    "correlated 1,000 x 1,000",
    "tall 2,000 x 20",
    "tall 20,000 x 100",
)
MAKERS["tall 2,000 x 20"] = lambda rng: rng.standard_normal((2000, 20))
SHARES = (0.5, 0.1, 0.02)
TAU = 0.3
LIMIT = 60.0


def programme(X, y, loss, lam):
    """Return the arguments of linprog: over p, q and what each example costs."""
    m, n = X.shape
    X, eye = sparse.csr_array(X), sparse.eye_array(m)
    if loss == cut.losses.Hinge():
        signed = sparse.diags_array(y) @ X
        costs = np.concatenate([np.full(2 * n, lam), np.full(m, 1.0 / m)])
        return {"c": costs, "A_ub": sparse.hstack([-signed, signed, -eye]), "b_ub": -np.ones(m)}
    costs = np.concatenate([np.full(2 * n, lam), np.full(m, TAU / m), np.full(m, (1.0 - TAU) / m)])
    return {"c": costs, "A_eq": sparse.hstack([X, -X, eye, -eye]), "b_eq": y}


def seconds(function):
    began = process_time()
    answer = function()
    return answer, process_time() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=DATA, choices=DATA)
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    set_threads(1)
    print(f"load {os.getloadavg()[0]:.1f}; CPU milliseconds, ours with the proof\n")
    print("| data | loss | lam | entries | ours | HiGHS | ratio | status, gap | our error | method |")
    print("|" + "---|" * 10)
    ratios = []
    for name in args.data:
        X, target, labels = make(name, False)
        for loss, y in ((cut.losses.Hinge(), labels), (cut.losses.Quantile(TAU), target)):
            risk = cut.LinearRisk(X, y, loss)
            steepest = np.abs(risk.oracle(np.zeros(risk.dim))[1]).max()
            for share in SHARES:
                lam = share * steepest

                def ours(X=X, y=y, loss=loss, lam=lam):
                    declared = cut.Problem(cut.LinearRisk(X, y, loss), cut.L1(lam))
                    return declared.solve(tol=args.tol, time_limit=LIMIT)

                ours()
                mine, theirs = [], {"highs-ds": [], "highs-ipm": []}
                for _ in range(args.repeats):
                    result, took = seconds(ours)
                    mine.append(took)
                    for method, times in theirs.items():
                        given = programme(X, y, loss, lam)
                        given |= {"method": method, "options": {"time_limit": LIMIT}}
                        found, took = seconds(lambda given=given: linprog(**given))
                        times.append(took if found.status == 0 else np.inf)
                        best = found.fun if found.status == 0 else np.nan
                    if max(mine[-1], took) > 5.0:
                        break
                fastest = min(theirs, key=lambda method: min(theirs[method]))
                ratio = min(mine) / min(theirs[fastest])
                ratios.append(ratio)
                print(
                    f"| {name} | {type(loss).__name__} | {share:g} | {np.count_nonzero(result.x)} | "
                    f"{1e3 * min(mine):.3g} | {1e3 * min(theirs[fastest]):.3g} ({fastest}) | {ratio:.2g} | "
                    f"{result.status}, {result.gap:.0e} | {result.objective / best - 1.0:.0e} | "
                    f"{result.method} |",
                    flush=True,
                )
    print(f"\ngeometric mean {np.exp(np.mean(np.log(ratios))):.2f}, worst {max(ratios):.2g}")


if __name__ == "__main__":
    main()

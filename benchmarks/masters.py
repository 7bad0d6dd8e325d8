"""Each master against rebuilding the same reduced problem in cvxpy, in cutting-plane runs of its own.

Targets at 100 cuts: simplex QP 50 times, HiGHS with rows added 15 times, cvxpy with DPP parameters 2 times
for at least one backend.

Run: python benchmarks/masters.py
"""

import warnings
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple

import cvxpy as cp
import numpy as np

import cutplane as cut
from cutplane.engine.bundle import Bundle
from cutplane.masters.backends import ACCURATE
from cutplane.masters.base import ReducedProblem
from cutplane.masters.cone_master import CvxpyMaster
from cutplane.masters.highs import HighsMaster
from cutplane.masters.simplex_qp import SimplexQP

SAMPLES = (10, 60, 100, 200)
REPEAT = 5


class Snapshot(NamedTuple):
    """The rows of a bundle at some time."""

    slopes: np.ndarray
    offsets: np.ndarray


@dataclass
class Rebuilt:
    """The reduced problem, built in cvxpy anew at each call from one stacked matrix of cuts."""

    reduced: ReducedProblem
    solver: str
    options: dict

    def solve(self, rows):
        """Build and solve."""
        x, xi = cp.Variable(self.reduced.dim), cp.Variable()
        cuts = rows.slopes @ x + rows.offsets <= xi
        constraints = [cuts, *self.reduced.simple_set.cvxpy_form(x)]
        objective = xi + self.reduced.regularizer.cvxpy_form(x)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cp.Problem(cp.Minimize(objective), constraints).solve(solver=self.solver, **self.options)
        return x.value


def live_run(problem, master):
    """Run the cutting-plane method; return the seconds of the master around each sample, and the rows."""
    bundle = Bundle(problem.dim, 1)
    seconds, snapshots, x = {}, {}, problem.starting_point()
    for count in range(1, max(SAMPLES) + 1):
        value, slope = problem.risk.oracle(x)
        bundle.add(count, None, slope[None], np.array([value - slope @ x]), [0])
        start = perf_counter()
        solution = master.solve(bundle)
        elapsed = perf_counter() - start
        if solution.x is None:
            break
        x = solution.x
        for sample in SAMPLES:
            if sample - REPEAT < count <= sample:
                seconds.setdefault(sample, []).append(elapsed)
        if count in SAMPLES:
            snapshots[count] = Snapshot(bundle.slopes.copy(), bundle.offsets.copy())
    return {sample: float(np.median(times)) for sample, times in seconds.items()}, snapshots


def compare(title, problem, ours, rebuilt):
    """Print the seconds of our masters and of cvxpy on the same rows, and the ratio to the fastest.

    `ours` and `rebuilt` map names to functions of the reduced problem that return a master.
    """
    reduced = ReducedProblem(problem.dim, 1, problem.regularizer, problem.simple_set)
    print(f"\n{title} (ms per solve at {', '.join(map(str, SAMPLES))} cuts)")
    for name, build in ours.items():
        seconds, snapshots = live_run(problem, build(reduced))
        print(f"  {name:<30}", *(f"{1e3 * seconds[k]:>9.3f}" for k in snapshots))
        best = {}
        for peer, make in rebuilt.items():
            times = {k: timed(make(reduced), rows) for k, rows in snapshots.items()}
            print(f"  {'  ' + peer + ', same rows':<30}", *(f"{1e3 * times[k]:>9.3f}" for k in snapshots))
            best = {k: min(times[k], best.get(k, np.inf)) for k in snapshots}
        print(f"  {'':<30}", *(f"{best[k] / seconds[k]:>8.1f}x" for k in snapshots), flush=True)


def timed(master, rows):
    """Return the median seconds of a few solves of the same reduced problem."""
    times = []
    for _ in range(REPEAT):
        start = perf_counter()
        master.solve(rows)
        times.append(perf_counter() - start)
    return float(np.median(times))


def main():
    rng = np.random.default_rng(0)

    def svm(m, n, lam, feasible_set=None):
        X = rng.normal(size=(m, n)) / np.sqrt(n)
        y = np.where(X @ rng.normal(size=n) + 0.3 * rng.normal(size=m) >= 0, 1.0, -1.0)
        regularizer = cut.L2(lam) if lam else cut.NoRegularizer()
        return cut.Problem(cut.LinearRisk(X, y, cut.losses.Hinge()), regularizer, feasible_set)

    def rebuilt(name, options):
        return lambda reduced: Rebuilt(reduced, name, options)

    SimplexQP(ReducedProblem(2, 1, cut.L2(1.0), cut.WholeSpace(2))).solve(_two_cuts())
    accurate = {f"rebuilt, {name}": rebuilt(name, ACCURATE.get(name, {})) for name in ("OSQP", "CLARABEL")}
    for title, problem in {
        "dual QP, hard: n = 50": svm(5000, 50, 1e-6),
        "dual QP, easy: n = 1000": svm(5000, 1000, 1e-4),
    }.items():
        compare(title, problem, {"simplex QP": SimplexQP}, accurate)
    default = {"eps_abs": 1e-5, "eps_rel": 1e-5}
    settings = {
        "OSQP at 1e-5, its default in cvxpy, lam = 1e-3": (1e-3, "OSQP", default),
        "OSQP at 1e-5, its default in cvxpy, lam = 1e-4": (1e-4, "OSQP", default),
        "OSQP at 1e-8 with polish, lam = 1e-4": (1e-4, "OSQP", ACCURATE["OSQP"]),
        "Clarabel, lam = 1e-4": (1e-4, "CLARABEL", {}),
    }
    for title, (lam, name, options) in settings.items():
        compare(
            f"primal QP through cvxpy, n = 50, {title}",
            svm(5000, 50, lam),
            {
                "DPP parameters": lambda reduced, name=name, options=options: CvxpyMaster(
                    reduced, name, options
                )
            },
            {"rebuilt": rebuilt(name, options)},
        )
    lp = {
        "HiGHS, rows added": lambda reduced: HighsMaster(reduced, orientation="rows"),
        "HiGHS, columns added": lambda reduced: HighsMaster(reduced, orientation="columns"),
        "HiGHS, auto": HighsMaster,
    }
    for n in (50, 500):
        problem = svm(5000, n, 0.0, cut.Box(-10, 10))
        compare(f"LP, n = {n}, box", problem, lp, {"rebuilt, HIGHS": rebuilt("HIGHS", {})})


def _two_cuts():
    bundle = Bundle(2, 1)
    bundle.add(0, None, np.eye(2), np.zeros(2), [0, 0])
    return bundle


if __name__ == "__main__":
    main()

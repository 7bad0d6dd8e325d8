"""The automatic choice beside each single method: CPU seconds to a certified gap, problem by problem.

Run: python benchmarks/automatic.py [--kinds box formulation ranking decomposition separation textbook
         held-out l1 l2 elastic image] [--tol 1e-4] [--seconds 10]

The ratio is the time of "auto" over that of the best single method; one that does not end OPTIMAL counts with
three times its limit. The first five kinds, some 60 problems, are the default. Formulations are those of the
tests; a solve of "auto" and of a method starts from the same declared problem. Problems from papers and
textbooks have an optimum by cvxpy: an answer whose bounds contradict it is WRONG, and counts as no answer.
"""

import argparse
import gc
import sys
from collections import defaultdict
from math import exp, log
from pathlib import Path
from time import process_time

import cvxpy as cp
import numpy as np

import cutplane as cut
from cutplane.decomposition import LinearSubproblem
from cutplane.lines import Line

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import textbook_design  # noqa: F401  # registers its problems
from held_out import HELD_OUT
from learning_problems import FORMULATIONS
from nonsmooth import PROBLEMS
from textbook import TEXTBOOK

DEFAULT = ("box", "formulation", "ranking", "decomposition", "separation")
METHODS = {
    "proximal": cut.ProximalBundle(),
    "level": cut.LevelBundle(),
    "OCAS": cut.OCAS(),
    "BMRM": cut.BMRM(),
    "Kelley": cut.Kelley(),
    "Direct": cut.Direct(),
    "LBFGS": cut.LBFGS(),
    "portfolio": cut.Portfolio(),
}


class PairwiseHinge(cut.ImagedRisk):
    """The mean over pairs of max(0, 1 - (t_i - t_j)), y_i = 1, y_j = -1: an image, but no known pieces."""

    black_box = False

    def __init__(self, X, y):
        self.X, self.dim = X, X.shape[1]
        self.positive, self.negative = np.flatnonzero(y > 0), np.flatnonzero(y < 0)

    def image(self, x):
        """Return the scores."""
        return self.X @ x

    def _derivative(self, z):
        a, b = z[self.positive], z[self.negative]
        above = b.size - np.searchsorted(np.sort(b), a - 1.0, side="right")
        below = np.searchsorted(np.sort(a), b + 1.0, side="left")
        slope = np.zeros(z.size)
        slope[self.positive], slope[self.negative] = -above, below
        return above.sum() / (a.size * b.size), slope / (a.size * b.size)

    def values(self, z):
        """Return the mean."""
        constant, slope = self._derivative(z)
        return constant + slope @ z

    def slopes(self, z):
        """Return a subgradient."""
        return self.X.T @ self._derivative(z)[1]

    def line(self, z0, z1):
        """Return it on a line."""
        step = z1 - z0

        def evaluate(t):
            constant, slope = self._derivative(z0 + t * step)
            return constant + slope @ (z0 + t * step), float(slope @ step)

        return Line(evaluate)


def ball(centre, radius):
    """Return a round set known by separation."""

    @cut.separation_oracle
    def inside(x):
        distance = np.linalg.norm(x - centre)
        if distance <= radius * (1 + 1e-9):
            return []
        normal = (x - centre) / distance
        return [cut.HalfSpace(normal, float(normal @ centre) + radius)]

    return inside


class Declared(Exception):
    """Carries a problem out of the function that would solve it."""


def declared(function):
    """Return the problem, and the options, that `function` solves."""

    def stop(self, *args, **options):
        raise Declared(self, options)

    solve, cut.Problem.solve = cut.Problem.solve, stop
    try:
        function()
    except Declared as found:
        return found.args
    finally:
        cut.Problem.solve = solve
    raise RuntimeError("nothing is solved")


def rankings():
    """Yield rankings by pairs and measures of all predictions, on scores with noise."""
    rng = np.random.default_rng(6)
    X = rng.standard_normal((2000, 20)) * np.arange(1, 21) ** -0.5
    score = X @ rng.standard_normal(20) + rng.standard_normal(2000)
    grades, y = np.digitize(score, [-1.0, 1.0]), np.where(score > 1.0, 1.0, -1.0)
    risks = {
        "pairs": cut.RankingRisk(X, grades, np.arange(2000) // 50),
        "ROC area": cut.MeasureRisk(X, y, cut.measures.RocArea()),
        "F1": cut.MeasureRisk(X, y, cut.measures.FBeta()),
    }
    for name, risk in risks.items():
        for lam in (1e-1, 1e-3):
            yield f"{name}, {lam:g}", cut.Problem(risk, cut.L2(lam))


def decompositions():
    """Yield Lagrangian duals of assignments and flows, and two-stage programmes."""
    rng = np.random.default_rng(7)
    for agents, jobs in ((5, 20), (10, 40)):
        costs, weights = (rng.integers(5, 30, (agents, jobs)).astype(float) for _ in range(2))
        room = 1.05 * weights.sum(axis=1) / agents
        knapsacks = [
            LinearSubproblem(costs[i], weights[[i]], row_upper=room[i], upper=1.0) for i in range(agents)
        ]
        dual = cut.LagrangianDual(knapsacks, [np.eye(jobs)] * agents, np.ones(jobs))
        yield f"assignment {agents} x {jobs}", cut.Problem(dual)
    for nodes in (8, 15):
        arcs = [
            (i, j)
            for i in range(nodes)
            for j in range(nodes)
            if i != j and (j - i == 1 or rng.random() < 0.4)
        ]
        arcs.append((nodes - 1, 0))
        incidence = np.zeros((nodes, len(arcs)))
        for a, (i, j) in enumerate(arcs):
            incidence[[i, j], a] = 1.0, -1.0
        flows = []
        for _ in range(4):
            supply = np.zeros(nodes)
            supply[rng.choice(nodes, 2, replace=False)] = 4.0, -4.0
            flows.append(
                LinearSubproblem(rng.uniform(1, 10, len(arcs)), incidence, supply, supply, upper=4.0)
            )
        capacity = np.full(len(arcs), 6.0)
        yield (
            f"flow {nodes}",
            cut.Problem(cut.LagrangianDual(flows, [np.eye(len(arcs))] * 4, capacity, sense="<=")),
        )
    for scenarios in (30, 300):
        stock, sold, h = cp.Variable(10), cp.Variable(10), cp.Parameter(10)
        price = rng.uniform(2, 5, 10)
        later = cp.Problem(
            cp.Minimize(-price @ sold), [sold <= h, sold <= stock, sold >= 0, cp.sum(sold) <= 40]
        )
        demands = [{h: rng.uniform(0, 10, 10)} for _ in range(scenarios)]
        risk = cut.ValueFunction(later, stock, demands) + cut.LinearObjective(rng.uniform(0.5, 1.5, 10))
        yield f"two-stage {scenarios}", cut.Problem(risk, feasible_set=cut.Box(0, 20))


def problems(kinds):
    """Yield (kind, name, problem, options of the solve, optimum if cvxpy is to give it)."""
    if "textbook" in kinds:
        for name, formulation in TEXTBOOK.items():
            problem, whole = formulation()
            yield "textbook", name, problem, {}, whole.solve(solver="CLARABEL")
    for kind, name, problem, options in generated():
        if kind in kinds:
            yield kind, name, problem, options, None


def generated():
    """Yield (kind, name, problem, options of the solve)."""
    for name, formulation in FORMULATIONS.items():
        yield ("formulation", name, *declared(formulation()[0]))
    for name, problem in HELD_OUT.items():
        yield "held-out", name, problem(np.random.default_rng(0)), {}
    for name, problem in rankings():
        yield "ranking", name, problem, {}
    for name, problem in decompositions():
        yield "decomposition", name, problem, {}
    for problem in PROBLEMS:
        start = {"x0": problem.x0, "tol_abs": 0.0 if problem.optimum else 1e-4}
        box = cut.Box(-problem.box_radius, problem.box_radius)
        yield "box", problem.name, cut.Problem(problem.risk(), feasible_set=box), start
        for lam in (1.0, 1e-3):
            yield "l2", f"{problem.name}, {lam:g}", cut.Problem(problem.risk(), cut.L2(lam)), start
    rng = np.random.default_rng(5)
    for m, n in ((300, 10), (300, 100), (2000, 50), (500, 500)):
        X = rng.standard_normal((m, n))
        t = X @ (rng.standard_normal(n) * (rng.random(n) < 0.2)) + rng.standard_normal(m)
        y = np.where(t > 0, 1.0, -1.0)
        for lam in (1e-2, 1e-4):
            yield "image", f"pairs {m} x {n}, {lam:g}", cut.Problem(PairwiseHinge(X, y), cut.L2(lam)), {}
        for loss, target in (
            (cut.losses.Hinge(), y),
            (cut.losses.Logistic(), y),
            (cut.losses.Absolute(), t),
            (cut.losses.Squared(), t),
        ):
            risk = cut.LinearRisk(X, target, loss)
            largest = np.abs(risk.oracle(np.zeros(n))[1]).max()
            for share in (0.3, 0.03):
                name = f"{type(loss).__name__} {m} x {n}, {share:g}"
                yield "l1", name, cut.Problem(risk, cut.L1(share * largest)), {}
                yield "elastic", name, cut.Problem(risk, cut.ElasticNet(share * largest, 0.7)), {}
    for n in (3, 10, 30):
        region = cut.Box(-1, 1, dim=n) & ball(np.full(n, 0.3), 0.8)
        yield (
            "separation",
            f"ball {n}",
            cut.Problem(cut.LinearObjective(rng.standard_normal(n)), feasible_set=region),
            {},
        )


def seconds_of(problem, method, limit, options, optimum):
    """Return CPU seconds of the second of two solves, and what became of it."""
    for _ in range(2):
        gc.collect()  # a full collection of this process takes as long as five small solves
        began = process_time()
        try:
            result = problem.solve(method, time_limit=limit, max_iter=100_000, **options)
        except cut.CutplaneError as error:
            return 3 * limit, type(error).__name__
        seconds = process_time() - began
        if seconds > 0.5 * limit:
            break
    status = str(result.status)
    if optimum is not None:
        slack = 1e-6 * abs(optimum) + 1e-9
        status = status if result.lower_bound - slack <= optimum <= result.objective + slack else "WRONG"
    return (seconds if status == "OPTIMAL" else 3 * limit), status


def cell(seconds, status):
    """Return milliseconds, or why there are none."""
    short = {"MissingCapabilityError": "-", "TIME_LIMIT": "limit"}
    return f"{1e3 * seconds:.0f}" if status == "OPTIMAL" else short.get(status, status)


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", nargs="*", default=DEFAULT)
    parser.add_argument("--tol", type=float, default=1e-4)
    parser.add_argument("--seconds", type=float, default=10.0)
    args = parser.parse_args()
    ratios, unsolved = defaultdict(list), []
    print("| kind | problem | auto | " + " | ".join(METHODS) + " | ratio |")
    print("|---" * (len(METHODS) + 4) + "|")
    for kind, name, problem, options, optimum in problems(args.kinds):
        rest = args.seconds, {"tol": args.tol, **options}, optimum
        mine = seconds_of(problem, "auto", *rest)
        others = [seconds_of(problem, method, *rest) for method in METHODS.values()]
        ratios[kind].append(mine[0] / min(others)[0])
        if mine[1] != "OPTIMAL":
            unsolved.append(f"{name} ({mine[1]})")
        cells = " | ".join(cell(*found) for found in (mine, *others))
        print(f"| {kind} | {name} | {cells} | {ratios[kind][-1]:.2f} |", flush=True)
    ratios["all"] = [each for found in ratios.values() for each in found]
    for kind, found in ratios.items():
        mean = exp(sum(map(log, found)) / len(found))
        print(f"{kind}: geometric mean {mean:.2f}, worst {max(found):.2f}, of {len(found)}")
    print(f'"auto" does not solve {len(unsolved)}: {"; ".join(unsolved) or "none"}')


if __name__ == "__main__":
    main()

"""What the package costs beside a bare loop, in CPU milliseconds, least of several solves.

Run: python benchmarks/overhead.py [--parts loops small paths trace engine]

loops: the mean of |A x - b|, 200 x 50, as a black box, to a relative gap of 1e-6, beside `bare_loops.py`;
small: warm solves of nearly no work; paths: 20 weights beside 20 cold solves; trace: files, functions and
calls that one solve of the black box enters; engine: milliseconds of an iteration at n = 1000 that are
neither oracle nor master.
"""

import argparse
import sys
from math import exp, log
from pathlib import Path
from time import process_time

import bare_loops
import numpy as np
from data import HAS_FILES, SETS, real
from sklearn.preprocessing import StandardScaler

import cutplane as cut

M, N, BLOCKS, RADIUS, TOL = 200, 50, 20, 0.1, 1e-6
RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((M, N)), RNG.standard_normal(M)
PACKAGE = str(Path(cut.__file__).parent)


def whole(x):
    """Return the mean of |A x - b| and a subgradient."""
    r = A @ x - B
    return float(np.abs(r).mean()), A.T @ np.sign(r) / M


def in_blocks(x):
    """Return the same as the sum of 20 blocks."""
    r = A @ x - B
    rows = (A * np.sign(r)[:, np.newaxis]).reshape(BLOCKS, -1, N)
    return np.abs(r).reshape(BLOCKS, -1).sum(axis=1) / M, rows.sum(axis=1) / M


def least(function, repeats=5):
    """Return the least CPU seconds of several calls after a first one, and the last answer."""
    answer, times = function(), []
    for _ in range(repeats):
        began = process_time()
        answer = function()
        times.append(process_time() - began)
    return min(times), answer


def geometric(values):
    """Return the geometric mean."""
    return exp(sum(map(log, values)) / len(values))


def loops():
    """Print our methods beside bare loops."""
    problems = {
        "L2 1e-2": (whole, 1, 1e-2, None),
        f"box {RADIUS:g}": (whole, 1, 0.0, RADIUS),
        f"L2 1e-2, {BLOCKS} blocks": (in_blocks, BLOCKS, 1e-2, None),
    }
    print("| problem | method | bare: ms | an iteration | calls | ours: ms | an iteration | calls | ratio |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, (oracle, n_blocks, lam, radius) in problems.items():
        risk = cut.OracleRisk(oracle, N, blocks=n_blocks)
        problem = cut.Problem(risk, cut.L2(lam)) if lam else cut.Problem(risk, None, cut.Box(-radius, radius))
        for method, bare in (
            (cut.BMRM() if lam else cut.Kelley(), bare_loops.cutting_planes),
            (cut.ProximalBundle(), bare_loops.proximal),
            (cut.LevelBundle(), bare_loops.level),
        ):

            def run(bare=bare, arguments=(oracle, N, n_blocks, lam, radius, TOL)):
                loop = bare_loops.Loop(*arguments)
                bare(loop, np.zeros(N))
                return loop

            theirs, loop = least(run)
            mine, result = least(lambda: problem.solve(method, tol=TOL))  # noqa: B023
            assert result.status == "OPTIMAL", result.reason
            assert max(result.lower_bound, loop.lower) <= min(result.objective, loop.upper) + 1e-9
            cells = [name, method.name]
            for seconds, iterations, calls in (
                (theirs, loop.iterations, loop.calls),
                (mine, len(result.history), result.oracle_calls),
            ):
                cells += [f"{1e3 * seconds:.1f}", f"{1e3 * seconds / iterations:.3f}", str(calls)]
            print("|", " | ".join(cells), f"| {mine / theirs:.1f} |", flush=True)


def small():
    """Print solves of nearly no work."""
    problem = cut.Problem(cut.OracleRisk(whole, N), cut.L2(1e-2))
    done = problem.solve(tol=TOL)
    cases = {
        "black box, optimal x0, tol 0.5": lambda: problem.solve("proximal", x0=done.x, tol=0.5),
        "black box, warm start, tol 0.5": lambda: problem.solve("proximal", warm_start=done, tol=0.5),
        "black box, warm start, tol 1e-4": lambda: problem.solve("proximal", warm_start=done),
    }
    X = RNG.standard_normal((100, 5))
    t = X @ RNG.standard_normal(5) + RNG.standard_normal(100)
    for loss, y in (
        (cut.losses.Hinge(), np.sign(t)),
        (cut.losses.Squared(), t),
        (cut.losses.Logistic(), np.sign(t)),
    ):
        linear = cut.Problem(cut.LinearRisk(X, y, loss), cut.L2(1e-2))
        cases[f"{type(loss).__name__} 100 x 5, L2 1e-2"] = linear.solve
    for name, solve in cases.items():
        seconds, result = least(solve, 30)
        print(
            f"{name:<35} {1e3 * seconds:6.2f} ms   {result.status}, {result.oracle_calls} calls", flush=True
        )


def datasets():
    """Yield name, X and labels: nine real sets if they are there, and generated ones to make ten."""
    if HAS_FILES:
        for name in SETS:
            yield name, *real(name)
    for k in range(1 if HAS_FILES else 10):
        X = RNG.standard_normal((300 + 200 * k, 20 + 5 * k))
        yield f"generated {k}", X, np.sign(X @ RNG.standard_normal(20 + 5 * k) + RNG.standard_normal(len(X)))


def paths():
    """Print paths of 20 weights beside 20 cold solves."""
    kinds = {
        "l1, squared": (cut.losses.Squared(), lambda lam: cut.L1(lam)),
        "l1, hinge": (cut.losses.Hinge(), lambda lam: cut.L1(lam)),
        "L2, hinge": (cut.losses.Hinge(), lambda lam: cut.L2(lam)),
        "L2, logistic": (cut.losses.Logistic(), lambda lam: cut.L2(lam)),
        "elastic net, squared": (cut.losses.Squared(), lambda lam: cut.ElasticNet(lam, 0.7)),
        "elastic net, logistic": (cut.losses.Logistic(), lambda lam: cut.ElasticNet(lam, 0.7)),
    }
    ratios = {kind: [] for kind in kinds}
    print("| data | " + " | ".join(f"{kind}: path / cold, ms" for kind in kinds) + " |")
    print("|---" * (1 + len(kinds)) + "|")
    for name, X, y in datasets():
        X, cells = StandardScaler().fit_transform(X), []
        for kind, (loss, regularizer) in kinds.items():
            risk = cut.LinearRisk(X, y, loss)
            top = 1.0 if kind.startswith("L2") else np.abs(risk.oracle(np.zeros(risk.dim))[1]).max()
            lams = top * np.logspace(-0.05, -4 if kind.startswith("L2") else -2, 20)
            problem = cut.Problem(risk, regularizer(lams[0]))
            warm, _ = least(lambda: problem.path(lams), 3)  # noqa: B023
            cold, _ = least(
                lambda: [cut.Problem(risk, regularizer(lam)).solve() for lam in lams],  # noqa: B023
                2,
            )
            ratios[kind].append(warm / cold)
            cells.append(f"{1e3 * warm:.0f} / {1e3 * cold:.0f}")
        print(f"| {name} {X.shape[0]} x {X.shape[1]} | " + " | ".join(cells) + " |", flush=True)
    for kind, found in ratios.items():
        print(f"{kind}: path over cold solves {geometric(found):.2f} in the mean, worst {max(found):.2f}")


def trace():
    """Print what one solve of the black box enters."""
    problem = cut.Problem(cut.OracleRisk(whole, N), cut.L2(1e-2))
    result = problem.solve("proximal", tol=TOL)
    calls = {}

    def enter(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            calls[frame.f_code] = calls.get(frame.f_code, 0) + 1

    sys.setprofile(enter)
    try:
        problem.solve("proximal", tol=TOL)
    finally:
        sys.setprofile(None)
    files = {code.co_filename for code in calls}
    print(
        f"a proximal solve of {result.oracle_calls} calls of the oracle enters {len(files)} files and "
        f"{len(calls)} functions of the package, in {sum(calls.values())} calls"
    )


def engine():
    """Print milliseconds of an iteration that are neither oracle nor master, at n = 1000."""
    X = RNG.normal(size=(2000, 1000))
    y = np.where(X[:, 0] + RNG.normal(size=2000) >= 0, 1.0, -1.0)
    risk = cut.LinearRisk(X, y, cut.losses.Hinge())
    black_box = cut.OracleRisk(risk.oracle, 1000)
    problems = {
        "images, L2": cut.Problem(risk, cut.L2(1e-3)),
        "black box, L2": cut.Problem(black_box, cut.L2(1e-3)),
        "images, box": cut.Problem(risk, feasible_set=cut.Box(-1, 1)),
    }
    print("problem, method: cuts; engine, oracle and master in ms, median of an iteration")
    for name, problem in problems.items():
        for method in (cut.BMRM(), cut.OCAS(), cut.ProximalBundle()):
            if name == "images, box" and not isinstance(method, cut.BMRM):
                continue
            problem.solve(method, max_iter=3)
            history = problem.solve(method, tol=1e-12, max_iter=150).history
            parts = (1e3 * np.median(history.column(f"{part}_seconds")[1:]) for part in PARTS_OF_ITERATION)
            print(f"{name}, {method.name}: {history[-1].n_cuts};", ", ".join(f"{ms:.3f}" for ms in parts))


PARTS_OF_ITERATION = ("other", "oracle", "master")
PARTS = {"loops": loops, "small": small, "paths": paths, "trace": trace, "engine": engine}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=list(PARTS))
    for part in parser.parse_args().parts:
        PARTS[part]()

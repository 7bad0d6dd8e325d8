"""CPU seconds of the first solve of a process, on an empty and on a filled numba cache, and what is compiled.

Each case runs three times, in processes of its own: without a cache, with the cache that this left, and,
in the last of them, once more. Imports are timed apart from the solve.

Run: python benchmarks/first_solve.py [--cases readme,map] [--top 10]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

TARGETS = {"readme": 3.0, "svc": 3.0, "map": 8.0, "mkl": 5.0}  # CPU seconds on an empty cache


def readme():
    import cutplane as cut

    X, y = _data(500, 10)

    @cut.risk(dim=X.shape[1])
    def pinball(w):
        r = y - X @ w
        return np.maximum(0.9 * r, -0.1 * r).mean(), -X.T @ np.where(r > 0, 0.9, -0.1) / len(y)

    problem = cut.Problem(pinball, cut.L2(1e-2))
    return lambda: problem.solve(tol=1e-4).certificate.verify()


def bmrm():
    import cutplane as cut

    X, y = _data(500, 10)

    @cut.risk(dim=X.shape[1])
    def absolute(w):
        r = y - X @ w
        return np.abs(r).mean(), -X.T @ np.sign(r) / len(y)

    problem = cut.Problem(absolute, cut.L2(1e-2))
    return lambda: problem.solve(cut.BMRM(), tol=1e-4)


def boxed():
    import cutplane as cut

    X, y = _data(500, 10)

    @cut.risk(dim=X.shape[1])
    def absolute(w):
        r = y - X @ w
        return np.abs(r).mean(), -X.T @ np.sign(r) / len(y)

    problem = cut.Problem(absolute, cut.L2(1e-2), cut.Box(-1, 0.05))
    return lambda: problem.solve(tol=1e-4)


def linear():
    import cutplane as cut

    X, y = _data(569, 30)
    problem = cut.Problem(cut.LinearRisk(X, np.sign(y), cut.losses.Hinge()), cut.L2(1e-3))
    return lambda: problem.solve(tol=1e-4)


def svc():
    from sklearn.datasets import load_iris

    from cutplane.estimators import LinearSVC

    X, y = load_iris(return_X_y=True)
    return lambda: LinearSVC().fit(X, y)


def map_():
    from cutplane import graphical

    model = graphical.grids.potts(20, 30, 3, mixed=True, seed=1)
    return lambda: model.map()


def glass():
    from cutplane import graphical

    model = graphical.grids.spin_glass(20, 30, seed=1)
    return lambda: model.map()


def mkl():
    from cutplane.estimators import MKLClassifier

    X, y = _data(200, 30)
    return lambda: MKLClassifier().fit(X, np.sign(y))


CASES = {
    "readme": (readme, "the README's pinball risk, L2"),
    "bmrm": (bmrm, "a black box, L2, BMRM"),
    "boxed": (boxed, "a black box, L2 in a box"),
    "linear": (linear, "LinearRisk, hinge, 569 x 30"),
    "svc": (svc, "LinearSVC on iris"),
    "map": (map_, "map(), 20 x 30 grid, 3 labels"),
    "glass": (glass, "map(), 20 x 30 grid, 2 labels"),
    "mkl": (mkl, "MKLClassifier, 200 x 30"),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=lambda names: names.split(","), default=list(CASES))
    parser.add_argument("--top", type=int, default=0, help="list the functions that take longest to compile")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(measure(arguments.child)))
        return
    print("CPU s               import   empty  (target)   filled   again   functions  specialisations")
    for name in arguments.cases:
        with tempfile.TemporaryDirectory() as cache:
            empty, filled = (_run(name, cache) for _ in range(2))
        compiled = empty["compiled"]
        target = f"({TARGETS[name]:g})" if name in TARGETS else ""
        print(
            f"{name:<18} {empty['import']:7.2f} {empty['first']:7.2f} {target:>9} {filled['first']:8.2f} "
            f"{filled['again']:7.3f}   {len({f for f, _, _ in compiled}):9d}  {len(compiled):15d}"
            f"   {CASES[name][1]}" + ("" if not filled["compiled"] else "   COMPILES AGAIN")
        )
        for function, signature, seconds in sorted(compiled, key=lambda row: -row[2])[: arguments.top]:
            print(f"    {seconds:6.2f}  {function:<55} {signature}")


def measure(name):
    """Solve a case twice; return the CPU seconds and the compiled specialisations."""
    start = time.process_time()
    solve = CASES[name][0]()
    imported = time.process_time() - start
    from numba.core import event

    compiled = event.install_listener("numba:compile", Compilations(event))
    with compiled as listener:
        seconds = []
        for _ in range(2):
            start = time.process_time()
            solve()
            seconds.append(time.process_time() - start)
    return {"import": imported, "first": seconds[0], "again": seconds[1], "compiled": listener.rows}


def Compilations(event):
    """Return a listener that notes each specialisation with its seconds, those of its callees left out."""

    class Listener(event.Listener):
        def __init__(self):
            self.rows = []
            self.open = []

        def on_start(self, happened):
            self.open.append([time.process_time(), 0.0])

        def on_end(self, happened):
            start, inner = self.open.pop()
            whole = time.process_time() - start
            if self.open:
                self.open[-1][1] += whole
            if happened.data["args"] not in happened.data["dispatcher"].overloads:  # put off
                return
            function = happened.data["dispatcher"].py_func
            signature = ", ".join(map(str, happened.data["args"]))
            self.rows.append((f"{function.__module__}.{function.__name__}", signature, whole - inner))

    return Listener()


def _run(name, cache):
    environment = os.environ | {"NUMBA_CACHE_DIR": cache, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--child", name]
    return json.loads(subprocess.run(command, env=environment, check=True, capture_output=True).stdout)


def _data(m, n):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(m, n))
    return X, X[:, 0] + 0.5 * rng.normal(size=m)


if __name__ == "__main__":
    main()

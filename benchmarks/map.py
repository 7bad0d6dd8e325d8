"""MAP inference: certified optima beside toulbar2, bounds beside HiGHS on the whole linear programme.

Spin glasses, Potts grids and, if they are there, the files of CUTPLANE_DATA/map. toulbar2 (pytoulbar2) is
taken from the interpreter of --peer, which may be that of another environment; it reads the instance from a
UAI file. HiGHS solves the linear programme over the local polytope by its simplex method, unless --cap
stops it. All on one thread, in seconds of the processor; the compiled parts are warmed up before.

Run: python benchmarks/map.py [--parts glass potts bound files] [--cap 60] [--peer PYTHON] [--quick]
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from time import process_time

import highspy
import numpy as np

import cutplane as cut
from cutplane.graphical import (
    LocalPolytope,
    Reparametrization,
    potts,
    read_uai,
    read_wcsp,
    spin_glass,
    write_uai,
    write_wcsp,
)
from cutplane.runtime.threads import set_threads

FOLDER = Path(os.environ.get("CUTPLANE_DATA", Path(__file__).parents[2] / "shared" / "data")) / "map"
PEER = """
import sys, pytoulbar2
problem = pytoulbar2.CFN(resolution=0 if sys.argv[1].endswith("wcsp") else 6, vac=int(sys.argv[3]))
problem.Read(sys.argv[1])
answer = problem.Solve(timeLimit=int(sys.argv[2]))
print("ANSWER", answer[1] if answer else None, problem.GetDDualBound())
"""


def timed(function, clock=process_time):
    """Return the answer and the seconds, of the processor by default."""
    began = clock()
    answer = function()
    return answer, clock() - began


def lp(model, cap, integer=False):
    """Return the optimum of the local polytope by HiGHS, None if it was stopped, and the seconds.

    With `integer`, the marginals of variables are 0 or 1, so that it is the least energy.
    """
    polytope = LocalPolytope(model)
    form = polytope.linear_form(polytope.dim)
    solver = highspy.Highs()
    solver.resetGlobalScheduler(True)  # it has the number of threads of the first run in the process
    for name, value in {"output_flag": False, "threads": 1, "solver": "simplex", "time_limit": cap}.items():
        solver.setOptionValue(name, value)
    programme = highspy.HighsLp()
    programme.num_col_, programme.num_row_ = form.n_columns, form.row_lower.size
    programme.col_cost_, programme.col_lower_, programme.col_upper_ = polytope.cost, form.lower, form.upper
    programme.row_lower_, programme.row_upper_ = form.row_lower, form.row_upper
    programme.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    programme.a_matrix_.start_, programme.a_matrix_.index_ = form.rows.indptr, form.rows.indices
    programme.a_matrix_.value_ = form.rows.data
    if integer:
        solver.setOptionValue("mip_rel_gap", 1e-6)
        kinds = [highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger]
        programme.integrality_ = [kinds[column < polytope.n_decisive] for column in range(form.n_columns)]
    solver.passModel(programme)
    _, seconds = timed(solver.run)
    optimal = solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return (polytope.constant + solver.getInfo().objective_function_value if optimal else None), seconds


def toulbar2(model, cap, peer):
    """Return whether toulbar2 proves the optimum, and the seconds, with the better of two settings.

    It reads integers from a WCSP file, because decimals make it search longer.
    """
    with tempfile.TemporaryDirectory() as folder:
        if all((costs == np.rint(costs)).all() for costs in (model.unaries, model.tables)):
            file = Path(folder) / "model.wcsp"
            write_wcsp(model, file)
        else:
            file = Path(folder) / "model.uai"
            write_uai(model, file)
        return min(
            (run_toulbar2(file, cap, peer, vac) for vac in (0, 1)), key=lambda run: (not run[0], run[1])
        )


def run_toulbar2(file, cap, peer, vac):
    """Return whether it proves the optimum, and the seconds of its process."""
    before = getrusage(RUSAGE_CHILDREN).ru_utime
    command = [peer, "-c", PEER, str(file), str(int(cap)), str(vac)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=10 * cap + 60)
    seconds = getrusage(RUSAGE_CHILDREN).ru_utime - before
    said = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("ANSWER")]
    energy, bound = map(float, said[0]) if said and said[0][0] != "None" else (np.inf, -np.inf)
    return abs(energy - bound) <= 1e-3, seconds


def row(name, model, args):
    """Print one line: ours, the whole linear programme, toulbar2."""
    result, seconds = timed(lambda: model.map(time_limit=args.cap))
    print(
        f"{name:32} {result.status.name:10} {result.energy:13.6f} {result.bound:13.6f} {seconds:8.2f} s  "
        f"{result.method}",
        flush=True,
    )
    value, spent = lp(model, args.cap)
    shown = "stopped" if value is None else f"{value:.6f}"
    print(f"{'':32} {'whole LP':10} {'':13} {shown:>13} {spent:8.2f} s")
    if args.peer is not None:
        proven, spent = toulbar2(model, args.cap, args.peer)
        print(
            f"{'':32} {'toulbar2':10} {'':13} {'proven' if proven else 'not proven':>13} {spent:8.2f} s",
            flush=True,
        )


def glasses(args):
    """Frustrated binary grids."""
    for n in (20, 30) if args.quick else (20, 30, 50):
        for field in (0.0, 0.5):
            row(f"spin glass {n}x{n}, field {field:g}", spin_glass(n, n, field=field, seed=args.seed), args)
    row("spin glass, torus 20x20", spin_glass(20, 20, wrap=True, seed=args.seed), args)


def potts_grids(args):
    """Grids of several labels."""
    for k in (5,) if args.quick else (5, 10):
        for mixed in (False, True):
            kind = "mixed" if mixed else "attractive"
            row(f"Potts 30x30, {k} labels, {kind}", potts(30, 30, k, mixed=mixed, seed=args.seed), args)


def bounds(args):
    """Compare the dual bound of a large grid with HiGHS on the whole programme, and time a sweep."""
    n = 30 if args.quick else 100
    for mixed in (False, True):
        model = potts(n, n, 10, mixed=mixed, seed=args.seed)
        optimum, spent = lp(model, args.lp_cap)
        rep, seconds, sweeps = Reparametrization(model), 0.0, 0
        target = np.inf if optimum is None else optimum - 1e-3 * abs(optimum)
        reached, bound = None, -np.inf
        while seconds < args.cap and reached is None:
            before = bound
            bound, spent_here = timed(lambda rep=rep: rep.sweep(5))
            seconds, sweeps = seconds + spent_here, sweeps + 5
            if bound >= target or (optimum is None and bound - before <= 1e-6 * abs(bound)):
                reached = seconds
        said = f"optimum {optimum:.5f}" if optimum is not None else "stopped"
        print(
            f"Potts {n}x{n}, 10 labels, {'mixed' if mixed else 'attractive'}: HiGHS {spent:.1f} s, {said}; "
            f"sweeps: {rep.certified_bound():.5f} after {sweeps} in {seconds:.3f} s"
            + (f", ratio {spent / reached:.0f}" if reached else ", target not reached"),
            flush=True,
        )
    for k in (2, 5, 10, 20):
        side = 100 if args.quick else 200
        model = potts(side, side, k, mixed=True, seed=args.seed)
        rep = Reparametrization(model)
        rep.sweep()
        _, seconds = timed(lambda rep=rep: rep.sweep(5))
        entries = model.n_factors * k * k
        print(
            f"a sweep, {k} labels: {seconds / 5 / entries * 1e9:.2f} ns per table entry, "
            f"{seconds / 5 / (2 * model.n_factors * k) * 1e9:.1f} ns per edge and state",
            flush=True,
        )


def files(args):
    """Solve the files of the data folder."""
    if not FOLDER.is_dir():
        print(f"no folder {FOLDER}; set CUTPLANE_DATA to the one that holds map/*.uai")
        return
    for path in sorted([*FOLDER.glob("*.uai"), *FOLDER.glob("*.wcsp")]):
        row(path.name, read_uai(path) if path.suffix == ".uai" else read_wcsp(path), args)


PARTS = {"glass": glasses, "potts": potts_grids, "bound": bounds, "files": files}


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--cap", type=int, default=60, help="seconds for each method on each instance")
    parser.add_argument("--lp-cap", type=int, default=600, help="seconds for HiGHS on the large grids")
    parser.add_argument("--peer", default=None, help="an interpreter that has pytoulbar2")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    if args.peer is None:
        try:
            import pytoulbar2  # noqa: F401

            args.peer = sys.executable
        except ImportError:
            print("pytoulbar2 is not installed: give --peer an interpreter that has it, or do without")
    set_threads(1)
    (
        spin_glass(8, 8, field=0.5).map(),
        potts(8, 8, 3, mixed=True).map(),
        cut.graphical.grid(np.zeros((3, 3, 2)), np.eye(2)).map(),
    )
    for part in args.parts:
        print(f"\n== {part}")
        PARTS[part](args)


if __name__ == "__main__":
    main()

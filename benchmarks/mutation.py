"""Whether the tests notice when the code that proves bounds is wrong: one small change at a time.

Run: python benchmarks/mutation.py --mutants 200 --seed 0 [--file certificate.py] [--jobs 1] [--list]

Each mutant is a copy of the package with one change in one of FILES. All tests are run once without a change:
those that fail then are left out, and of the others it is noted which functions they call. A mutant meets the
tests that call the changed function, from quick to slow, as many as fit into ``--budget`` seconds. It is
*killed* if one fails, *survives* if none does, *times out* if they take much longer than without it, and is
*not reached* if there is none. All but the killed are listed: each is a test that is missing, or a line that
changes nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from mutants import Mutant, mutants

ROOT = Path(__file__).resolve().parents[1]
ENGINE = "bounds checks dual warm_start bundle evaluator"
FILES = (
    "proof/certificate",
    "proof/audit",
    "proof/dual",
    "proof/evidence",
    "proof/oracle",
    "proof/bound",
    "proof/free",
    *(f"engine/{name}" for name in ENGINE.split()),
    *(f"masters/{name}" for name in "conic/* least lp/highs* qp/dual_qp qp/prox*".split()),
    "masters/programme",
    "risks/programmes",
    *(f"regularizers/{name}" for name in "base l2 l1 elastic_net entropy group quadratic".split()),
)
"""Modules of cutplane that make bounds, cuts, certificates and the answers of masters."""

TESTS = (
    "bounds bundle certificate_checks certificates closed_forms conic cvxpy_masters direct dual_cones "
    "dual_function enclosure evaluator exact exact_verify forgery free half_space_points half_spaces "
    "highs_model liars linear_minimum masters on_demand oracle_checks partial pinned programme proof "
    "recomputed regularizers resumed_cuts robustness rounded_terms stopping true_bounds units warm_start"
)
"""The modules of tests; of these and of the fuzz, those tests are run that call the changed function."""

SLOW = ("loose_backend", "long_life", "SCS", "ECOS")
"""Parts of the names of tests that take long and add little."""


@dataclass(frozen=True)
class Job:
    """A mutant of a file."""

    file: str
    mutant: Mutant


@dataclass
class Running:
    """A process that tests a mutant in a copy of the tree."""

    job: Job
    tree: Path
    deadline: float


def main() -> int:
    options = _options()
    jobs = _sample(options)
    if options.list:
        for job in jobs:
            print(f"{job.file}:{job.mutant}")
        return 0
    print(f"{len(jobs)} mutants; a run without any comes first")
    _preload()
    with tempfile.TemporaryDirectory() as folder:
        trees = [_copy(Path(folder) / f"tree{k}") for k in range(options.jobs)]
        verdicts = _run(trees, jobs, _baseline(trees[0]), options.budget)
    _report(verdicts)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mutants", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--file", help="only files of cutplane/ whose path contains this")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--budget", type=float, default=8.0, help="seconds of tests for a mutant")
    parser.add_argument("--list", action="store_true", help="print the mutants and stop")
    return parser.parse_args()


def _sample(options: argparse.Namespace) -> list[Job]:
    """Draw the mutants: one of each file in turn, until there are enough."""
    rng = random.Random(options.seed)
    piles = []
    for pattern in FILES:
        found = sorted((ROOT / "cutplane").glob(f"{pattern}.py"))
        if not found:
            print(f"cutplane/{pattern}.py does not exist: skipped")
        for path in found:
            name = path.relative_to(ROOT / "cutplane").as_posix()
            if options.file and options.file not in name:
                continue
            pile = [Job(name, mutant) for mutant in mutants(path.read_text())]
            rng.shuffle(pile)
            piles.append(pile)
    drawn: list[Job] = []
    while any(piles) and len(drawn) < options.mutants:
        drawn += [pile.pop() for pile in piles if pile]
    return sorted(drawn[: options.mutants], key=lambda job: (job.file, job.mutant.line))


def _copy(tree: Path) -> Path:
    """Copy what the tests need; the times of the files stay, so that compiled code is found in the cache."""
    for name in ("cutplane", "tests"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("*.pyc", ".hypothesis"))
    shutil.copy2(ROOT / "pyproject.toml", tree)
    return tree


def _preload() -> None:
    """Import what is slow to import, so that the processes forked later need not."""
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    import cvxpy
    import highspy
    import numba
    import scipy.linalg
    import scipy.optimize
    import scipy.sparse.linalg

    modules = (cvxpy, highspy, numba, scipy.linalg, scipy.optimize, scipy.sparse.linalg)
    cvxpy.installed_solvers()
    assert all(modules)


def _paths() -> list[str]:
    names = {f"test_{name}.py" for name in [*TESTS.split(), "fuzz"]}
    return [
        str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("tests/*/test_*.py")) if path.name in names
    ]


class Selection:
    """A plugin of pytest that notes what each test takes and calls; or runs those that call a function."""

    def __init__(self, tree: Path, chosen: list[str] | None = None):
        self.prefix, self.chosen = f"{tree}/cutplane/", chosen
        self.seconds: dict[str, float] = defaultdict(float)
        self.calls: dict[str, set[str]] = defaultdict(set)
        self.failed: set[str] = set()

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Choose the tests, and their order."""
        if self.chosen is None:
            items[:] = [item for item in items if not any(part in item.nodeid for part in SLOW)]
            return
        place = {name: k for k, name in enumerate(self.chosen)}
        items[:] = sorted(
            (item for item in items if item.nodeid in place), key=lambda item: place[item.nodeid]
        )

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Any:
        """Note the functions of cutplane that a test calls."""
        if self.chosen is not None:
            return (yield)
        called = self.calls[item.nodeid]

        def note(frame: Any, event: str, _: Any) -> None:
            if event == "call" and frame.f_code.co_filename.startswith(self.prefix):
                called.add(f"{frame.f_code.co_filename[len(self.prefix) :]}:{frame.f_code.co_firstlineno}")

        sys.setprofile(note)
        try:
            return (yield)
        finally:
            sys.setprofile(None)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note how long a test took, and whether it failed."""
        self.seconds[report.nodeid] += report.duration
        if report.failed:
            self.failed.add(report.nodeid)


@dataclass(frozen=True)
class Baseline:
    """What each test takes and calls when nothing is wrong."""

    seconds: dict[str, float]
    calls: dict[str, set[str]]

    def reaches(self, job: Job) -> bool:
        """Tell whether a test calls the changed function."""
        here = f"{job.file}:{job.mutant.function}"
        return not job.mutant.function or any(here in called for called in self.calls.values())

    def tests(self, job: Job, budget: float) -> list[str]:
        """Return the tests that call the changed function, the quickest first, and the fuzz early."""
        here, file = f"{job.file}:{job.mutant.function}", f"{job.file}:"
        found = [name for name in self.seconds if here in self.calls[name]]
        if not found:  # it is called when the tests are collected, or no part of a function
            called = self.calls
            found = [name for name in self.seconds if any(call.startswith(file) for call in called[name])]
        found.sort(key=lambda name: self.seconds[name] * (0.1 if "fuzz" in name else 1.0))
        spent = list(accumulate(self.seconds[name] for name in found))
        return [name for name, so_far in zip(found, spent, strict=True) if so_far <= budget] or found[:1]


def _pytest(tree: Path, paths: list[str], selection: Selection, stop: bool) -> int:
    """Run the tests of a tree in this process."""
    os.chdir(tree)
    sys.path.insert(0, str(tree))
    sys.dont_write_bytecode = True
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    flags = ["-q", "-p", "no:cacheprovider", "-o", "addopts=", "--tb=no", *(["-x"] if stop else [])]
    return int(pytest.main([*flags, *paths], plugins=[selection]))


def _baseline(tree: Path) -> Baseline:
    """Run all tests without a mutant; those that fail are left out from then on."""
    notes = tree / "notes.json"
    began = time.perf_counter()
    child = os.fork()
    if child == 0:
        try:
            seen = Selection(tree)
            _pytest(tree, _paths(), seen, stop=False)
            calls = {name: sorted(called) for name, called in seen.calls.items()}
            notes.write_text(json.dumps([seen.seconds, calls, sorted(seen.failed)]))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    seconds, calls, failed = json.loads(notes.read_text())
    passed = {name: t for name, t in seconds.items() if name not in failed}
    print(
        f"{len(passed)} tests pass, in {time.perf_counter() - began:.0f} s; these fail:",
        *(failed or ["none"]),
    )
    return Baseline(passed, {name: set(called) for name, called in calls.items()})


def _run(trees: list[Path], jobs: list[Job], known: Baseline, budget: float) -> list:
    free, running, verdicts = list(trees), {}, []
    todo = list(reversed(jobs))
    while todo or running:
        while todo and free:
            job, tree = todo.pop(), free.pop()
            tests = known.tests(job, budget)
            if not tests:
                free.append(tree)
                verdicts.append((job, "not reached"))
                print(f"not reached: cutplane/{job.file}:{job.mutant}", flush=True)
                continue
            pid = _fork(job, tree, tests)
            running[pid] = Running(job, tree, time.perf_counter() + 6.0 * budget + 30.0)
        if not running:
            break
        child, state = os.waitpid(-1, os.WNOHANG)
        late = [pid for pid, run in running.items() if time.perf_counter() > run.deadline]
        if child:
            verdict = "survived" if os.waitstatus_to_exitcode(state) == 0 else "killed"
        elif late:
            child, verdict = late[0], "timed out"
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        else:
            time.sleep(0.02)
            continue
        done = running.pop(child)
        shutil.copy2(ROOT / "cutplane" / done.job.file, done.tree / "cutplane" / done.job.file)
        free.append(done.tree)
        verdicts.append((done.job, verdict))
        if verdict != "killed":
            known_by = "" if known.reaches(done.job) else "  (no test calls this function)"
            print(f"{verdict}: cutplane/{done.job.file}:{done.job.mutant}{known_by}", flush=True)
        if len(verdicts) % 20 == 0:
            print(f"# {len(verdicts)} of {len(jobs)}", flush=True)
    return verdicts


def _fork(job: Job, tree: Path, tests: list[str]) -> int:
    """Test a mutant in a process of its own; exit code 0 if no test notices it."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        (tree / "cutplane" / job.file).write_text(job.mutant.source)
        paths = list(dict.fromkeys(name.split("::")[0] for name in tests))
        code = _pytest(tree, paths, Selection(tree, tests), stop=True)
    finally:
        os._exit(code)


def _report(verdicts: list) -> None:
    counts: dict[str, Counter] = defaultdict(Counter)
    for job, verdict in verdicts:
        counts[job.file][verdict] += 1
        counts["all"][verdict] += 1
    columns = ("killed", "timed out", "survived", "not reached")
    print(f"\n{'file':<32}" + "".join(f"{column:>13}" for column in columns) + f"{'killed':>11}")
    for file, count in counts.items():
        share = 100.0 * (count["killed"] + count["timed out"]) / sum(count.values())
        print(f"{file:<32}" + "".join(f"{count[column]:>13}" for column in columns) + f"{share:>10.0f}%")


if __name__ == "__main__":
    sys.exit(main())
